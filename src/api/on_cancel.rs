//! On cancel: what a person means who cancels while something is asked: three things, and the words that say
//! beforehand what each does. It does nothing itself.

/// What cancelling does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCancel {
    /// The question is put away, and stays open.
    Hide,
    /// The question is taken back.
    Withdraw,
    /// The run is stopped.
    Run,
}

impl OnCancel {
    /// All of them, as a setting names them.
    pub const WORDS: &'static str = "`hide`, `withdraw` or `run`";

    /// The word of the setting.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hide => "hide",
            Self::Withdraw => "withdraw",
            Self::Run => "run",
        }
    }

    /// What a word of the setting means.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Hide, Self::Withdraw, Self::Run].into_iter().find(|one| one.word() == word)
    }

    /// What it does, in words that are said before it is done.
    pub fn says(self) -> &'static str {
        match self {
            Self::Hide => {
                "the request is put away here and stays open: it can be answered later, through any door"
            }
            Self::Withdraw => {
                "the request is taken back: nobody can answer it any more; an agent that asked it is \
                 told so, and a run that waits for it as one of its own steps ends with it"
            }
            Self::Run => "the run is stopped for good, with everything that it asks",
        }
    }
}

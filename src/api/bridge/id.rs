//! Ids of responses: the run, the place in its journal that the leg begins after, and the dialect
//! that it is told in. Everything a response says follows from these three.

use std::fmt;

use crate::kernel::{RunId, Version};

/// Digits of the largest version. An id is kept as it was given, so its length is bounded.
const VERSION_DIGITS_MAX: usize = 20;

/// How events are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI Responses. Its clients put every piece of text that they are told one after the other, and
    /// nothing takes a piece back: they are told a message when it is whole, and can no longer be torn.
    OpenAi,
    /// OpenAI Responses for those who asked to hear a message while it is spoken, and who heed that what was
    /// said of it may turn out to be void.
    Live,
    /// Agent Framework's DevUI.
    DevUi,
    /// qlaw-cli, and whoever else reads server-sent events by hand.
    Qlaw,
}

impl Dialect {
    const ALL: [Self; 4] = [Self::OpenAi, Self::Live, Self::DevUi, Self::Qlaw];

    /// The word for it in a query.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Live => "live",
            Self::DevUi => "devui",
            Self::Qlaw => "qlaw",
        }
    }

    /// The dialect of that name.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.word() == word)
    }

    fn mark(self) -> &'static str {
        match self {
            Self::OpenAi => "",
            Self::Live => "-l",
            Self::DevUi => "-d",
            Self::Qlaw => "-q",
        }
    }
}

/// One leg of a run: `resp_`, the run's 26 characters, and the version that it begins after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResponseId {
    pub(super) run: RunId,
    pub(super) after: Version,
    pub(super) dialect: Dialect,
}

impl ResponseId {
    /// Reads `resp_…-n` back.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("resp_")?;
        let (rest, dialect) = [Dialect::Live, Dialect::DevUi, Dialect::Qlaw]
            .into_iter()
            .find_map(|dialect| Some((rest.strip_suffix(dialect.mark())?, dialect)))
            .unwrap_or((rest, Dialect::OpenAi));
        let (stem, after) = rest.split_once('-')?;
        let run = RunId::parse(&format!("run_{stem}")).ok()?;
        let is_number = (1..=VERSION_DIGITS_MAX).contains(&after.len())
            && after.bytes().all(|byte| byte.is_ascii_digit());
        let after = if is_number { after.parse().ok()? } else { return None };
        Some(Self { run, after, dialect })
    }

    /// The id of this leg's `index`-th output item.
    pub(super) fn item(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}_{}-{:06}-{index}", self.run.stem(), self.after)
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resp_{}-{:06}{}", self.run.stem(), self.after, self.dialect.mark())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEM: &str = "01k9zq3v7m8n4p5r6s7t8v9w0x";

    #[test]
    fn an_id_comes_back_as_it_went_in_every_dialect() {
        for dialect in Dialect::ALL {
            let id = ResponseId { run: RunId::fresh(STEM), after: 17, dialect };
            assert_eq!(ResponseId::parse(&id.to_string()), Some(id));
        }
    }

    #[test]
    fn what_is_no_id_is_none() {
        for text in ["", "resp_", "resp_x-1", &format!("resp_{STEM}-"), &format!("resp_{STEM}-1x")]
        {
            assert_eq!(ResponseId::parse(text), None, "{text}");
        }
    }
}

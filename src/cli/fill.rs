//! Fill: asks a form field by field, tells all that is wrong at once, and shows what will be sent before it is.
//! What a field is, and what is wrong with it, is said in `form`; what comes next, in `filling`.

use serde_json::Value;

use crate::cli::exit::Trouble;
use crate::cli::filling::{Filling, Took};
use crate::cli::form::Form;
use crate::cli::talk::{EXIT, Talk};
use crate::cli::term::Unseen;

impl Talk<'_> {
    /// Asks for every field; nothing if the person leaves.
    pub(super) async fn fill(&mut self, form: Form) -> Result<Option<Value>, Trouble> {
        let filling = Filling::new(form);
        let mut filling = if self.ctx.term.is_interactive { filling.in_sight() } else { filling };
        let mut is_told = false;
        loop {
            match filling.heading() {
                Some((name, takes)) => {
                    let paint = self.ctx.term.paint;
                    self.ctx.term.line(&format!(
                        "  {}  {}",
                        paint.bold(&name),
                        paint.dim(&takes)
                    ))?;
                    is_told = false;
                }
                // Once, and not again for every word that is none.
                None if !std::mem::replace(&mut is_told, true) => {
                    for told in filling.told() {
                        self.ctx.term.line(&format!("  {told}"))?;
                    }
                }
                None => {}
            }
            let usage = format!("{}; {EXIT} leaves the run waiting", filling.usage());
            let unseen = filling.is_hidden("").then(Unseen::new);
            let typed = self.prompt(&usage).await?.filter(|typed| typed.trim() != EXIT);
            drop(unseen);
            let Some(typed) = typed else { return Ok(None) };
            match filling.take(&typed) {
                Took::Next => {}
                Took::Wrong(wrong) => wrong.iter().for_each(|why| self.refuse(why)),
                Took::Filled(value) => return Ok(Some(value)),
            }
        }
    }
}

//! Cancel: `/handoff-cancel` and what it means: hide, withdraw or stop the run. What cannot be taken back is said
//! first, and done when it is typed a second time.

use crate::api::on_cancel::OnCancel;
use crate::cli::chat::model::{Model, Wish};

impl Model {
    /// Takes `/handoff-cancel [hide|withdraw|run]`.
    pub(super) fn cancel(&mut self, word: &str) -> Option<Wish> {
        let Some(shown) = self.pending.front() else {
            self.note("nothing waits for an answer");
            return None;
        };
        let request = shown.request_id.clone();
        let means = if word.is_empty() { Some(self.on_cancel) } else { OnCancel::parse(word) };
        let Some(means) = means else {
            self.note(format!("there is no such word; expected {}", OnCancel::WORDS));
            return None;
        };
        if means == OnCancel::Hide {
            self.is_hidden = true;
            self.note(format!("{}; Esc shows it again", means.says()));
            return None;
        }
        let said = (request.clone(), means);
        if self.cancelling.replace(said.clone()) != Some(said) {
            self.is_hidden = true;
            let again = format!("/handoff-cancel {}", means.word());
            self.note(format!("{}. Type {again} once more to do it.", means.says()));
            return None;
        }
        self.cancelling = None;
        Some(match means {
            OnCancel::Hide | OnCancel::Withdraw => Wish::Withdraw(request),
            OnCancel::Run => Wish::Stop,
        })
    }
}

//! Asked: what a head says that its run asks. A head follows from a journal and is kept for lists alone; whoever can write
//! to the store can change it without touching the journal. So what it shows is held to its own digest wherever it is
//! listed (K3), and to the journal wherever the run is taken up. Nothing here reads: values are compared.

use std::borrow::Cow;
use std::sync::Arc;

use crate::kernel::{Belongs, Question, Run};
use crate::ports::Head;

impl Head {
    /// The same, with all that its questions are known by: one that an earlier build wrote lacks it.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        let requesters = self.requesters();
        for question in &mut self.questions {
            if question.digest.is_empty() {
                let (run, definition) = (&self.run, self.definition.as_str());
                let of = Belongs { run, definition, requesters: &requesters, seed: "", epoch: "" };
                Arc::make_mut(question).seal(of);
            }
        }
        self
    }

    /// Whether the digest beside each of its questions is that of what the question says, as it was asked in one of
    /// these epochs of the store. One that an earlier build wrote without a digest has nothing to be held to.
    pub fn is_sealed(&self, epochs: &[&str]) -> bool {
        let requesters = self.requesters();
        let (run, definition) = (&self.run, self.definition.as_str());
        let of = |epoch| Belongs { run, definition, requesters: &requesters, seed: "", epoch };
        self.questions.iter().all(|question| {
            question.digest.is_empty() || epochs.iter().any(|epoch| question.is_sealed(of(epoch)))
        })
    }

    /// Whether it says of who asks what the same as its run, as that is folded from its journal at the same version.
    pub fn asks_as(&self, run: &Run) -> bool {
        let theirs = run.questions.values().map(|question| of_every_build(question));
        self.run == run.id
            && self.session == run.session
            && self.owner == run.owner
            && self.workflow == run.workflow.name
            && self.definition == run.definition
            && self.requesters() == run.requesters
            && self.questions.iter().map(|question| of_every_build(question)).eq(theirs)
    }

    /// The same, with what every build has written of its questions.
    #[must_use]
    pub fn of_every_build(mut self) -> Self {
        for question in &mut self.questions {
            if let Cow::Owned(bare) = of_every_build(question) {
                *question = Arc::new(bare);
            }
        }
        self
    }
}

/// A question with what every build has written: one without a nonce is of a run that began before there were any, and
/// its head may be of then too, when nobody kept by whom it was brought about nor its digest.
fn of_every_build(question: &Question) -> Cow<'_, Question> {
    let mut question = Cow::Borrowed(question);
    if question.nonce.is_empty() {
        let bare = question.to_mut();
        (bare.leg, bare.digest) = (None, String::new());
    }
    // Nor, once, when each of those who have spoken did, nor which service spoke for them: what their words rest on is judged
    // by the journal.
    if !question.votes.is_empty() || !question.delegations.is_empty() || !question.editor.is_empty()
    {
        let bare = question.to_mut();
        bare.votes.iter_mut().for_each(|vote| (vote.at, vote.service) = (None, None));
        bare.delegations.iter_mut().for_each(|handed| (handed.at, handed.service) = (None, None));
        bare.editor_service = None;
    }
    question
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The head of a run that asks something, as the store of that epoch has it.
    fn head(epoch: &str) -> Head {
        let question = json!({
            "ordinal": 1, "step": "ask", "origin": "human_step", "kind": "approval", "prompt": "Well?",
        });
        let head = json!({
            "run": "run_01k9zq3v7m8n4p5r6s7t8v9w0x", "session": "ses_1", "owner": "ann",
            "workflow": "bills", "definition": "d", "version": 3, "status": {"waiting": 1},
            "started_at": 1, "updated_at": 1, "questions": [question],
        });
        let mut head: Head = serde_json::from_value(head).expect("a head");
        let (run, requesters) = (head.run.clone(), head.requesters());
        let of = Belongs { run: &run, definition: "d", requesters: &requesters, seed: "s", epoch };
        Arc::make_mut(&mut head.questions[0]).seal(of);
        head
    }

    #[test]
    fn k3_a_head_is_sealed_as_long_as_its_questions_say_what_their_digests_do() {
        assert!(head("e").is_sealed(&["e", ""]) && head("").is_sealed(&["e", ""]));
        assert!(!head("another").is_sealed(&["e", ""]));
        let changes: [&dyn Fn(&mut Head); 3] = [
            &|it| Arc::make_mut(&mut it.questions[0]).prompt = "Nothing?".into(),
            &|it| it.owner = "eve".into(),
            &|it| it.definition = "other".into(),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut forged = head("e");
            change(&mut forged);
            assert!(!forged.is_sealed(&["e", ""]), "change {index}");
        }
    }

    #[test]
    fn what_an_earlier_build_wrote_of_those_who_spoke_is_what_this_one_would() {
        let spoken = |says_more: bool| {
            let (at, service) =
                if says_more { (json!(5), json!("desk")) } else { (Value::Null, Value::Null) };
            let mut head = head("e");
            let question = Arc::make_mut(&mut head.questions[0]);
            let vote = json!({
                "by": "bob", "verb": "approve", "stage": 0, "assurance": "vouched", "at": at, "service": service,
            });
            let handed = json!({
                "by": "cfo", "to": "dan", "until": 9, "assurance": "vouched", "at": at, "service": service,
            });
            question.votes.push(serde_json::from_value(vote).expect("a vote"));
            question.delegations.push(serde_json::from_value(handed).expect("a place"));
            question.editor = "bob".into();
            question.editor_service = says_more.then(|| "desk".to_owned());
            head
        };
        assert_ne!(spoken(true), spoken(false));
        assert_eq!(spoken(true).of_every_build(), spoken(false).of_every_build());
        let mut forged = spoken(true);
        Arc::make_mut(&mut forged.questions[0]).votes[0].by = "eve".into();
        assert_ne!(forged.of_every_build(), spoken(false).of_every_build());
    }

    #[test]
    fn what_an_earlier_build_wrote_without_a_digest_is_shown_with_that_of_what_it_says() {
        let mut older = head("");
        let question = Arc::make_mut(&mut older.questions[0]);
        (question.digest, question.nonce) = (String::new(), String::new());
        assert!(older.is_sealed(&["e", ""]));
        let sealed = older.sealed();
        assert!(!sealed.questions[0].digest.is_empty() && sealed.is_sealed(&["e", ""]));
    }
}

//! Stranded: the open questions that only `local` can answer, whom nobody is where servers ask for keys. Whoever takes a
//! store to such servers is told of them: they would wait there for ever.

use serde::{Deserialize, Serialize};

use crate::app::counted;
use crate::app::people::LOCAL;
use crate::kernel::Question;
use crate::ports::{Desk, Fault, Head, Journal};

/// How many of them are named.
const NAMED_MAX: usize = 20;
/// Runs that are looked at together.
const AT_ONCE: usize = 256;

/// Open questions that wait for `local` alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stranded {
    /// How many there are.
    pub count: u64,
    /// The first of them, by their ids.
    pub requests: Vec<String>,
}

impl Stranded {
    /// Those of a store.
    pub(super) async fn of(journal: &dyn Journal) -> Result<Self, Fault> {
        let desks = [Desk::began(LOCAL), Desk::asked(LOCAL)];
        let (mut found, mut cursor) = (Self::default(), None);
        loop {
            let page = journal.waiting_on(&desks, cursor.as_deref(), AT_ONCE).await?;
            page.rows.iter().for_each(|head| found.take(head));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    fn take(&mut self, head: &Head) {
        for question in head.questions.iter().filter(|one| is_locals(one, &head.owner)) {
            self.count += 1;
            if self.requests.len() < NAMED_MAX {
                self.requests.push(question.id(&head.run).to_string());
            }
        }
    }

    /// What people are told of them, and what to do; nothing where there are none.
    pub fn told(&self) -> Option<String> {
        if self.count == 0 {
            return None;
        }
        let named = self.requests.join(", ");
        let more = match self.count.saturating_sub(self.requests.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let wait = if self.count == 1 { "waits" } else { "wait" };
        let questions = counted(self.count, "question");
        Some(format!(
            "{questions} {wait} for `local` alone: {named}{more}. Where servers ask for keys nobody is `local`, and nobody can answer there: \
             `holdpoint cancel REQUEST`, with an operator's key, takes one back"
        ))
    }
}

/// Whether nobody else is asked, and nobody else has the place.
fn is_locals(question: &Question, owner: &str) -> bool {
    let is_asked = if question.to.is_empty() {
        owner == LOCAL
    } else {
        question.to.iter().all(|named| named == LOCAL)
    };
    is_asked && question.delegations.iter().all(|handed| handed.to == LOCAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_answer_any_more_is_counted_and_named_with_what_to_do() {
        assert_eq!(Stranded::default().told(), None);
        let one = Stranded { count: 1, requests: vec!["req_1".into()] };
        let told = one.told().unwrap_or_default();
        assert!(told.starts_with("1 question waits for `local` alone: req_1. "), "{told}");
        assert!(told.contains("holdpoint cancel REQUEST"), "{told}");
        let many = Stranded { count: 22, requests: vec!["req_1".into(), "req_2".into()] };
        let told = many.told().unwrap_or_default();
        let begins = "22 questions wait for `local` alone: req_1, req_2 and 20 more. Where";
        assert!(told.starts_with(begins), "{told}");
    }
}

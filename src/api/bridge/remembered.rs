//! Remembered: where the conversation was had of a caller that names none and sends everything that was said.
//!
//! The ids of what we said tell. Where nothing does, the call is refused by name: the conversation would be
//! forgotten in silence, and a "yes" in it would begin something new. Nothing is guessed from the words
//! alone: two people may have begun with the same.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::bridge::Bridge;
use crate::api::bridge::errors::{Outcome, Problem};
use crate::api::bridge::reading::{self, History};
use crate::kernel::Principal;
use crate::ports::RunFilter;

/// Runs looked at for one that began as a history does: the newest that wait. Whoever sends it again was
/// asked just now.
const LOOKED_AT: i32 = 20;
/// The status of a run that waits, as listings have it.
const WAITING: &str = "WAITING";

impl Bridge {
    /// The session of a caller that names none; empty for a new one.
    pub(super) async fn remembered(&self, body: &Value, who: &Principal) -> Outcome<String> {
        let unknown = || {
            not_told(
                "it holds an earlier conversation, and no id in it is known here; keep the ids of our items, \
                 or name `conversation` or `previous_response_id`, or send only what is new",
            )
        };
        let run = match reading::history(body) {
            History::None => {
                self.refuse_retold(body, who).await?;
                return Ok(String::new());
            }
            History::Of(run) => run,
            History::Unknown => return Err(unknown()),
        };
        let head = self.engine.head(run.as_str(), who).await.map_err(|_| unknown())?;
        let session = head.session.to_string();
        self.refuse_hidden(&session, who).await?;
        Ok(session)
    }

    /// Refuses several messages of which the first began a run that waits: a client that could not take the
    /// question keeps only what it said itself, and says all of it again with what its person typed last.
    async fn refuse_retold(&self, body: &Value, who: &Principal) -> Outcome<()> {
        let said = reading::spoken(body);
        if said.len() < 2 {
            return Ok(());
        }
        let beginnings: Vec<_> =
            (1..said.len()).map(|count| json!(said[..count].join(reading::BETWEEN))).collect();
        let filter = RunFilter {
            workflow: Some(reading::workflow(body)?.to_owned()),
            owner: Some(who.id.clone()),
            status: Some(WAITING.to_owned()),
            ..RunFilter::default()
        };
        for head in self.engine.runs(filter, "", LOOKED_AT, who).await?.rows {
            let view = self.engine.run(head.run.as_str(), who).await?;
            if beginnings.contains(&view.run.input) {
                let why = format!(
                    "it begins as run `{}` did, which waits for an answer, and nothing in it tells \
                     whether it is the same conversation; answer with `previous_response_id` or \
                     `conversation`, or begin another with one message",
                    head.run
                );
                return Err(not_told(&why));
            }
        }
        Ok(())
    }
}

fn not_told(why: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "history.unknown", format!("input: {why}")).at("input")
}

//! Streams: a response told line by line, from its beginning or from where a caller left off.

use std::collections::VecDeque;

use serde_json::Value;

use crate::api::bridge::errors::Problem;
use crate::api::bridge::id::Dialect;
use crate::api::bridge::response_stream::Teller;
use crate::engine::{Published, Watch};
use crate::failpoint;

/// One server-sent event.
#[derive(Debug)]
pub(super) enum Line {
    Event {
        /// The event's name, in the dialects that say it beside the data.
        name: Option<String>,
        sequence: u64,
        body: String,
    },
    /// `[DONE]`.
    Done,
}

/// What a response tells, until it has nothing more to tell.
#[derive(Debug)]
pub(super) struct Lines {
    watch: Option<Watch>,
    teller: Teller,
    ready: VecDeque<Value>,
    /// The last event that the caller has seen already.
    seen: Option<u64>,
    is_done: bool,
}

impl Lines {
    pub(super) fn new(watch: Watch, teller: Teller, seen: Option<u64>) -> Self {
        Self { watch: Some(watch), teller, ready: VecDeque::new(), seen, is_done: false }
    }

    /// Tells an event that was taken from the watch already.
    pub(super) fn tell(&mut self, published: &Published) {
        self.ready.extend(self.teller.tell(published));
    }

    /// The next line; none after the last.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                let sequence = event["sequence_number"].as_u64().unwrap_or_default();
                if self.seen.is_some_and(|seen| sequence <= seen) {
                    continue;
                }
                failpoint::hit("api.before_event");
                return Some(self.line(sequence, &event));
            }
            let Some(watch) = &mut self.watch else {
                return (!std::mem::replace(&mut self.is_done, true)).then_some(Line::Done);
            };
            match watch.next().await {
                Ok(Some(published)) => self.ready.extend(self.teller.tell(&published)),
                Ok(None) => self.watch = None,
                Err(error) => {
                    let problem = Problem::from(error);
                    self.watch = None;
                    self.ready.push_back(self.teller.broken(problem.code(), problem.message()));
                }
            }
        }
    }

    fn line(&self, sequence: u64, event: &Value) -> Line {
        let name = match self.teller.response.id.dialect {
            Dialect::OpenAi | Dialect::Live | Dialect::Qlaw => {
                event["type"].as_str().map(str::to_owned)
            }
            Dialect::DevUi => None,
        };
        Line::Event { name, sequence, body: event.to_string() }
    }
}

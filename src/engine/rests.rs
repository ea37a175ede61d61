//! Rests: one line of the log for every pause and every resumption, after it is durable: ids alone, never a
//! word of what was asked or said.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::engine::narrate::Published;
use crate::kernel::{Event, RequestId, Run, Status};

/// Ids in one line; the run's view has all of them.
const REQUESTS_MAX: usize = 100;

/// Tells the log of a batch that was made durable, of a run that rested before it where `rested` says so;
/// returns whether it rests now.
pub(super) fn told(run: &Run, batch: &[Arc<Published>], rested: bool) -> bool {
    let parks = batch.iter().any(|published| *published.event == Event::Parked);
    let rests = matches!(run.status, Status::Waiting { .. });
    let is_cancelled = matches!(run.status, Status::Cancelled { .. });
    if rested && (parks || !rests) && !is_cancelled {
        let ended = batch.iter().filter(|published| {
            matches!(*published.event, Event::Answered { .. } | Event::Closed { .. })
        });
        let requests = listed(ended.filter_map(|published| published.request.clone()));
        tracing::info!(
            session.id = %run.session.told_to(&run.owner),
            run.id = %run.id,
            workflow = run.workflow.name,
            requests,
            version = run.version,
            "workflow_resumed"
        );
    }
    if parks && rests {
        let requests = listed(run.questions.keys().map(|ordinal| run.request(*ordinal)));
        tracing::info!(
            session.id = %run.session.told_to(&run.owner),
            run.id = %run.id,
            workflow = run.workflow.name,
            requests,
            version = run.version,
            "workflow_waiting_persisted"
        );
    }
    rests
}

fn listed(requests: impl Iterator<Item = RequestId>) -> String {
    let mut line = String::new();
    for request in requests.take(REQUESTS_MAX) {
        if !line.is_empty() {
            line.push(' ');
        }
        // Writing to memory does not fail.
        write!(line, "{request}").unwrap_or_default();
    }
    line
}

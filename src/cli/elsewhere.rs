//! Elsewhere: what happens to a question while somebody sits before it: others answer it, it is closed, others are
//! asked. It only listens; what is said here is decided by whoever sits here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::app::Client;
use crate::cli::people;
use crate::cli::term::{Term, line};
use crate::wire::v1::WatchRunRequest;
use crate::wire::v1::workflow_event::Event;

/// How often it is looked whether an editor has given the terminal back.
const AGAIN: Duration = Duration::from_millis(100);
/// Names and words on one line.
const CHARS_MAX: usize = 200;

/// How a question was settled elsewhere. While it is not, and where nobody can say, this waits; who is asked as well
/// is told meanwhile. Whoever is in their editor is told when they come back.
pub(super) async fn settled(
    (mut client, term): (Client, Term),
    (run_id, request_id): (String, String),
    (after_sequence, is_editing): (u64, Arc<AtomicBool>),
) -> String {
    let watch = WatchRunRequest { run_id, after_sequence, through_pauses: true };
    if let Ok(stream) = client.watch_run(watch).await {
        let mut stream = stream.into_inner();
        while let Ok(Some(told)) = stream.message().await {
            let how = match told.event {
                Some(Event::ResponseReceived(it)) if it.request_id == request_id => {
                    format!("{} has answered this through {}", it.principal, it.door)
                }
                Some(Event::RequestClosed(it)) if it.request_id == request_id => {
                    // A person's no is a response of theirs; this one is nobody's.
                    let how = if it.how == "rejected" { "its time is up" } else { &it.how };
                    format!("this is no longer asked: {how}")
                }
                Some(Event::RequestEscalated(it)) if it.request_id == request_id => {
                    let told = people::told_escalation(&it);
                    term.note(&format!(
                        "\n  {told}\n  what is asked above can still be answered here:"
                    ));
                    continue;
                }
                Some(Event::Completed(_) | Event::Failed(_) | Event::Cancelled(_)) => {
                    "the run is over".into()
                }
                Some(_) | None => continue,
            };
            while is_editing.load(Ordering::Acquire) {
                tokio::time::sleep(AGAIN).await;
            }
            return line(&how, CHARS_MAX);
        }
    }
    std::future::pending().await
}

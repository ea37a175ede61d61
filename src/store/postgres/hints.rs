//! Hints: that somebody has written, told by the database's notifications. They are sent apart from what is written: a
//! notification in the same transaction would hold a lock of the whole database until that is durable. Where none come
//! through, behind a pooler for instance, everybody asks once a second anyway.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio_postgres::Notification;
use tokio_postgres::types::Type;

use crate::kernel::{RunId, Version};
use crate::ports::Hint;
use crate::store::postgres::connections::{Connections, PATIENCE};

/// Where they are told.
const CHANNEL: &str = "holdpoint";
/// What one notification takes; past it, everybody looks everywhere.
const BYTES_MAX: usize = 7_900;
/// What says so.
const EVERYWHERE: &str = "*";
/// How long is gathered before they are told.
const GATHER: Duration = Duration::from_millis(5);
/// Between attempts to listen.
const PAUSE: Duration = Duration::from_secs(1);
/// How often is looked whether the connection is still there.
const LOOK: Duration = Duration::from_secs(2);

/// Tells others what was written, until nobody writes any more.
pub(super) async fn cry(
    connections: Arc<Connections>,
    mut written: mpsc::Receiver<(RunId, Version)>,
) {
    while let Some((run, after)) = written.recv().await {
        let mut text = line(&run, after);
        tokio::time::sleep(GATHER).await;
        while let Ok((run, after)) = written.try_recv() {
            if text == EVERYWHERE {
                continue;
            }
            text.push('\n');
            text.push_str(&line(&run, after));
            if text.len() > BYTES_MAX {
                EVERYWHERE.clone_into(&mut text);
            }
        }
        let params = [(&CHANNEL as _, Type::TEXT), (&text as _, Type::TEXT)];
        // One that is lost costs a second.
        if let Err(error) = connections.ask("select pg_notify($1, $2)", &params).await {
            tracing::debug!(%error, "a hint was not told");
        }
    }
}

fn line(run: &RunId, after: Version) -> String {
    format!("{after} {run}")
}

/// Hears what others have written, until nobody wants to know any more.
pub(super) async fn listen(connections: Arc<Connections>, told: broadcast::Sender<Hint>) {
    while told.receiver_count() > 0 && !connections.is_closed() {
        let hears = told.clone();
        let heard = Arc::new(move |notification: &Notification| {
            // An error only means that nobody listens.
            for hint in read(notification) {
                drop(hears.send(hint));
            }
        });
        if let Ok(line) = connections.connect(Some(heard)).await
            && let listening = line.client.batch_execute("listen holdpoint")
            && matches!(tokio::time::timeout(PATIENCE, listening).await, Ok(Ok(())))
        {
            // Whatever was written while nobody listened is not known.
            drop(told.send(Hint::Lost));
            while told.receiver_count() > 0 {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = connections.closed() => return,
                }
                let asked = tokio::time::timeout(LOOK, line.client.check_connection());
                if !matches!(asked.await, Ok(Ok(()))) || !connections.is_good(&line) {
                    break;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The hints of a notification.
fn read(notification: &Notification) -> Vec<Hint> {
    let hints = notification.payload().lines().map(|line| {
        let (after, run) = line.split_once(' ')?;
        Some(Hint::Run(RunId::parse(run).ok()?, after.parse().ok()?))
    });
    let hints: Option<Vec<_>> = hints.collect();
    hints.unwrap_or_else(|| vec![Hint::Lost])
}

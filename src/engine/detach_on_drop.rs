//! Detach on drop: work that is brought to its end though whoever asked for it leaves (E5). It is done in
//! place; only where its caller is dropped half-way is it finished in a task of its own. Few callers
//! leave, and a task for each of the others is a twentieth of what a command costs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::engine::EngineError;
use crate::ports::Fault;

/// Work that is brought to its end.
pub(super) struct DetachOnDrop<T: Send + 'static> {
    work: Option<Work<T>>,
    tasks: TaskTracker,
    /// A shutdown waits for it, wherever it is done.
    _token: TaskTrackerToken,
}

/// What whoever asked is told of a bug of ours.
pub(super) fn panicked(why: &str) -> EngineError {
    tracing::error!(why, "a command panicked");
    Fault::Permanent("an internal error; the log has it".into()).into()
}

type Work<T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send>>;

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(super) fn new(
        tasks: &TaskTracker,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Self {
        Self { work: Some(Box::pin(work)), tasks: tasks.clone(), _token: tasks.token() }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = Result<T, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = self.work.as_mut() else {
            return Poll::Ready(Err(panicked("it is over")));
        };
        // A panic in it is our bug, and ends one command, not its connection.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        let outcome = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(outcome)) => outcome,
            Err(_) => Err(panicked("it panicked")),
        };
        self.work = None;
        Poll::Ready(outcome)
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && let Ok(runtime) = Handle::try_current()
        {
            self.tasks.spawn_on(work, &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_its_caller_leaves_is_brought_to_its_end() {
        let tasks = TaskTracker::new();
        let (begin, begun) = oneshot::channel::<()>();
        let (told, hears) = oneshot::channel();
        let mut work = Box::pin(DetachOnDrop::new(&tasks, async move {
            begun.await.expect("it begins");
            told.send("done").expect("somebody hears");
            Ok(())
        }));
        assert!(futures::poll!(work.as_mut()).is_pending());
        drop(work);
        begin.send(()).expect("it waits");
        assert_eq!(hears.await, Ok("done"));
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn a_panic_ends_one_command() {
        let tasks = TaskTracker::new();
        let outcome: Result<(), _> = DetachOnDrop::new(&tasks, async { panic!("a bug") }).await;
        assert!(matches!(outcome, Err(EngineError::Fault(_))), "{outcome:?}");
        assert!(tasks.is_empty());
    }
}

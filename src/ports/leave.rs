//! Leave: whether a process may still do something in the world, asked by whoever does it, as late as that can be. A
//! process that was frozen does not know how long ago it was told that it may; others may have taken it for dead since, or
//! somebody may have halted what it is about to do. Why it may not is not said here.

use std::fmt;
use std::sync::Arc;

use futures::future::Either;

tokio::task_local! {
    static CURRENT: Leave;
}

/// What is said where it holds no more.
pub const LATE: &str =
    "a halt stands, or this server may have been taken for dead by the others; nothing was sent";

/// A leave to act, for as long as it holds.
#[derive(Clone)]
pub struct Leave(Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leave").field(&self.holds()).finish()
    }
}

impl Leave {
    /// One that holds for as long as that says so.
    pub fn new(holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// Whether it still holds.
    pub fn holds(&self) -> bool {
        (self.0)()
    }
}

/// The leave that this piece of work has, if it needs one.
pub fn current() -> Option<Leave> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Whether what is about to be done may be done; it may, where nobody's leave is needed.
pub fn holds() -> bool {
    current().is_none_or(|leave| leave.holds())
}

/// Work that has a leave.
pub type Scoped<F> = tokio::task::futures::TaskLocalFuture<Leave, F>;

/// Does `work` with a leave, where it needs one.
pub fn within<F: Future>(leave: Option<Leave>, work: F) -> Either<Scoped<F>, F> {
    match leave {
        Some(leave) => Either::Left(CURRENT.scope(leave, work)),
        None => Either::Right(work),
    }
}

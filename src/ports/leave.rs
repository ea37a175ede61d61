//! Leave: whether a process may still do something in the world, asked by whoever does it, as late as that can be. A
//! process that was frozen does not know how long ago it was told that it may; others may have taken it for dead since, or
//! somebody may have halted what it is about to do. Why it may not is not said here.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, Either};

tokio::task_local! {
    static CURRENT: Leave;
}

/// What is said where it holds no more.
pub const LATE: &str =
    "a halt stands, or this server may have been taken for dead by the others; nothing was sent";

/// What stands as the code of an attempt that was not begun for want of it: it is owed as before.
pub const NOT_BEGUN: &str = "step.not_begun";

/// A leave to act, for as long as it holds.
#[derive(Clone)]
pub struct Leave {
    holds: Arc<dyn Fn() -> bool + Send + Sync>,
    /// What else must be so for something to be begun, where what was begun may be finished without.
    begins: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    renew: Option<Renew>,
}

/// Asks anew for what a leave follows from.
type Renew = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl fmt::Debug for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leave").field(&self.holds()).finish()
    }
}

impl Leave {
    /// One that holds for as long as that says so.
    pub fn new(holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { holds: Arc::new(holds), begins: None, renew: None }
    }

    /// The same, where something may be begun only while that says so, too.
    #[must_use]
    pub fn begun_if(self, begins: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { begins: Some(Arc::new(begins)), ..self }
    }

    /// Whether something may be begun, by what is true now.
    async fn may_begin(&self) -> bool {
        self.still_holds().await && self.begins.as_ref().is_none_or(|begins| begins())
    }

    /// The same for what is still to be begun: it holds only while something may be.
    fn for_what_begins(self) -> Self {
        let (holds, Some(begins)) = (Arc::clone(&self.holds), self.begins.clone()) else {
            return self;
        };
        Self { holds: Arc::new(move || holds() && begins()), ..self }
    }

    /// The same, where what it says grows old: whoever can wait has it asked anew first.
    #[must_use]
    pub fn renewed_by(
        self,
        renew: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { renew: Some(Arc::new(renew)), ..self }
    }

    /// Whether it holds, by what is true now.
    pub async fn still_holds(&self) -> bool {
        if let Some(renew) = &self.renew {
            renew().await;
        }
        self.holds()
    }

    /// Whether it still holds.
    pub fn holds(&self) -> bool {
        (self.holds)()
    }
}

/// The leave that this piece of work has, if it needs one.
pub fn current() -> Option<Leave> {
    CURRENT.try_with(Clone::clone).ok()
}

/// The same, for a request of this work that nobody has heard yet: whoever waits for a connection learns of a halt there.
pub fn to_begin() -> Option<Leave> {
    current().map(Leave::for_what_begins)
}

/// Whether what is about to be done may be done; it may, where nobody's leave is needed.
pub async fn still_holds() -> bool {
    match current() {
        Some(leave) => leave.still_holds().await,
        None => true,
    }
}

/// The same of what is handed to somebody who then does it, however long that takes.
pub async fn may_begin() -> bool {
    match current() {
        Some(leave) => leave.may_begin().await,
        None => true,
    }
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

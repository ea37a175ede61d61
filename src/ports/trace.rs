//! Trace: what is told of the work to whoever watches it from outside, and the context in which a
//! piece of work is done. Telling changes nothing: whoever listens may be slow, or gone.

use futures::future::Either;

use crate::kernel::{Millis, Trace};

tokio::task_local! {
    static CURRENT: Trace;
}

/// The trace that this piece of work belongs to, if it belongs to one.
pub fn current() -> Option<Trace> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Work within a trace.
pub type Scoped<F> = tokio::task::futures::TaskLocalFuture<Trace, F>;

/// Does `work` within a trace.
pub fn scoped<F: Future>(trace: Trace, work: F) -> Scoped<F> {
    CURRENT.scope(trace, work)
}

/// Does `work` within a trace, where there is one.
pub fn within<F: Future>(trace: Option<Trace>, work: F) -> Either<Scoped<F>, F> {
    match trace {
        Some(trace) => Either::Left(scoped(trace, work)),
        None => Either::Right(work),
    }
}

/// The name of the header that says where in a trace a call is made from.
pub const PARENT: &str = "traceparent";
/// The name of the header in which the systems on the way leave word for themselves.
pub const STATE: &str = "tracestate";

/// What a call within the current trace carries: names and values, as headers have them.
pub fn carried() -> impl Iterator<Item = (&'static str, String)> {
    let (parent, state) = current().map_or_else(Default::default, |it| (it.parent, it.state));
    [(PARENT, parent), (STATE, state)].into_iter().filter(|(_, value)| !value.is_empty())
}

/// A piece of work that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace: [u8; 16],
    /// Its own id.
    pub id: [u8; 8],
    /// What it is a part of.
    pub parent: Option<[u8; 8]>,
    /// Whether that is somewhere else.
    pub parent_is_remote: bool,
    /// W3C's `tracestate`.
    pub state: String,
    /// Whether it is a call of something outside.
    pub is_call: bool,
    /// What it is: `chat gpt-5`.
    pub name: String,
    /// When it began.
    pub began: Millis,
    /// When it was over.
    pub ended: Millis,
    /// What is known of it: never what was said.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// What happened on the way.
    pub events: Vec<Happening>,
    /// Another place that it has to do with: where an answer came from.
    pub link: Option<Trace>,
    /// The stable code of what went wrong, if something did.
    pub error: Option<String>,
}

/// Something that happened during a piece of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Happening {
    /// What.
    pub name: &'static str,
    /// When.
    pub at: Millis,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Attribute)>,
}

/// A thing that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// A word.
    Text(String),
    /// A number.
    Number(u64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// Whoever is told of work that is over.
///
/// - Telling never waits and never fails; what cannot be taken is dropped.
pub trait Tracer: Send + Sync + std::fmt::Debug {
    /// Takes a piece of work that is over.
    fn take(&self, span: Span);
}

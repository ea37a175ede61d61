//! Reader: a reply as it comes, piece by piece, and what each piece means. Which format the pieces are in is for
//! each reader to know.

use crate::agents::models::fault::ModelFault;
use crate::kernel::Reply;

/// A piece of a reply, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// One event of a stream.
    Event {
        /// Its name; not every format has names.
        name: String,
        /// Its data.
        data: String,
    },
    /// A whole reply at once, from a server that does not stream.
    Whole(String),
}

/// What a piece meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing yet: the server is there, the model has not begun.
    Nothing,
    /// The model is at work: it thinks, or writes a call.
    Life,
    /// The model says something.
    Text(String),
}

/// Reads a reply piece by piece.
pub(super) trait Reader: Send {
    /// Takes a piece.
    fn take(&mut self, piece: &Piece) -> Result<Heard, ModelFault>;

    /// Whether the server has said that the reply is complete.
    fn is_done(&self) -> bool;

    /// The reply, once nothing more comes.
    fn finish(self: Box<Self>) -> Result<Reply, ModelFault>;
}

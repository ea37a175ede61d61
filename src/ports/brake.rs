//! Brake: a way to stop everything that does not go through any door: somebody at the machine pulls it.

use std::fmt::Debug;

/// Who says whether it is pulled.
pub trait Brake: Debug + Send + Sync {
    /// Why everything is stopped, in the words of whoever did it; nothing, where it is not. Asked before
    /// everything that is done in the world, so it answers at once.
    fn pulled(&self) -> Option<String>;

    /// Where it is, the same after every start: among several machines, whose it is to let go.
    fn place(&self) -> String;
}

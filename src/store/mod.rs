//! The store: journals that last. The door to the adapters of [`Journal`]; callers see the port.

mod audit;
pub mod codec;
pub mod keys;
mod leases;
mod memory;
mod places;

use std::sync::Arc;

use crate::ports::Journal;

/// A store that lives as long as the process.
pub fn memory() -> Arc<dyn Journal> {
    Arc::new(memory::MemoryJournal::default())
}

//! Settler: the thread that makes sled hold durably what the write-ahead log does, one generation at a
//! time, while the committer goes on with the next. It decides nothing and answers nobody: what it
//! gives to sled is durable already, and shown.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};

use crate::ports::Fault;
use crate::store::sled::health::{Health, Watch};
use crate::store::sled::shelf::Shelf;

/// Where generations are handed over.
#[derive(Debug)]
pub(super) struct Settler {
    generations: Sender<u64>,
    settled: Receiver<()>,
    is_busy: bool,
}

impl Settler {
    /// A settler of this shelf. It ends with the one who hands over.
    pub(super) fn start(shelf: Arc<Shelf>, health: Arc<Health>) -> io::Result<Self> {
        let (generations, handed_over) = channel();
        let (tell, settled) = channel();
        let work = move || {
            let watch = Watch::new(&health, "its settling thread panicked");
            for generation in handed_over {
                if let Err(failure) = shelf.settle(generation) {
                    health.fail(&failure.to_string());
                }
                if tell.send(()).is_err() {
                    break;
                }
            }
            watch.done();
        };
        std::thread::Builder::new().name("holdpoint-settler".into()).spawn(work)?;
        Ok(Self { generations, settled, is_busy: false })
    }

    /// Whether a generation can be handed over now.
    pub(super) fn is_free(&mut self) -> Result<bool, Fault> {
        if self.is_busy {
            self.is_busy = match self.settled.try_recv() {
                Ok(()) => false,
                Err(TryRecvError::Empty) => true,
                Err(TryRecvError::Disconnected) => return Err(gone()),
            };
        }
        Ok(!self.is_busy)
    }

    /// Returns when one can be.
    pub(super) fn wait(&mut self) -> Result<(), Fault> {
        if self.is_busy {
            self.settled.recv().map_err(|RecvError| gone())?;
            self.is_busy = false;
        }
        Ok(())
    }

    /// Hands over a generation, whose writes the shelf has put aside.
    pub(super) fn begin(&mut self, generation: u64) -> Result<(), Fault> {
        debug_assert!(!self.is_busy, "one generation is settled at a time");
        self.generations.send(generation).map_err(|_| gone())?;
        self.is_busy = true;
        Ok(())
    }
}

fn gone() -> Fault {
    Fault::Permanent("its settling thread panicked".into())
}

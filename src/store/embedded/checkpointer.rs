//! Checkpointer: the thread that flushes to the tree what the write-ahead log holds, one generation at a
//! time, while the committer goes on with the next. It decides nothing and answers nobody: what it
//! flushes is durable already, and shown.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};

use crate::ports::Fault;
use crate::store::embedded::database::Database;
use crate::store::embedded::health::{Health, Watch};
use crate::store::embedded::invariants;

const PANICKED: &str = "its checkpointing thread panicked";

/// Where generations are handed over.
#[derive(Debug)]
pub(super) struct Checkpointer {
    generations: SyncSender<u64>,
    done: Receiver<()>,
    is_busy: bool,
}

impl Checkpointer {
    /// The checkpointer of a database. It ends with the one who hands over.
    pub(super) fn start(database: Arc<Database>, health: Arc<Health>) -> io::Result<Self> {
        let (generations, handed_over) = sync_channel(1);
        let (tell, done) = sync_channel(1);
        let work = move || {
            let watch = Watch::new(&health, PANICKED);
            for generation in handed_over {
                if let Err(failure) = database.checkpoint(generation) {
                    health.fail(&failure.to_string());
                }
                if tell.send(()).is_err() {
                    break;
                }
            }
            watch.done();
        };
        std::thread::Builder::new().name("holdpoint-checkpointer".into()).spawn(work)?;
        Ok(Self { generations, done, is_busy: false })
    }

    /// Whether a generation can be handed over now.
    pub(super) fn is_free(&mut self) -> Result<bool, Fault> {
        if self.is_busy {
            self.is_busy = match self.done.try_recv() {
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
            self.done.recv().map_err(|RecvError| gone())?;
            self.is_busy = false;
        }
        Ok(())
    }

    /// Hands over a generation, whose writes the database has put aside.
    pub(super) fn begin(&mut self, generation: u64) -> Result<(), Fault> {
        invariants::holds(!self.is_busy, "one generation is flushed at a time");
        self.generations.send(generation).map_err(|_| gone())?;
        self.is_busy = true;
        Ok(())
    }
}

fn gone() -> Fault {
    Fault::Permanent(PANICKED.into())
}

//! Moving: a store goes from a directory into a database as it is: the same runs and ids, links, leaves and signed heads,
//! the same questions under the same digests. It is no import, which makes another store of what it reads: whoever was
//! asked something here is still asked that there.
//!
//! ```text
//! begin      the database is marked as half a store; what is written here from now on is remembered
//! copy       everything, while it is served                       ┐ a death here: the directory is in charge,
//! catch_up   what was written meanwhile, until that is little     │ and the move begins anew
//! finish     nobody writes; the rest is copied and compared; the  ┘
//!            database is marked as whole; the directory says where the store is ─ the one point where that changes ─
//!            the mark is taken away                                 a death here: the database is in charge, and the
//!                                                                   mark goes with the next start or the same command
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::failpoint;
use crate::kernel::Version;
use crate::kernel::evidence::Hash;
use crate::kernel::evidence::tree::Frontier;
use crate::ports::Fault;
use crate::ports::identity::{self, Identity};
use crate::store::copies::{Place, Record};
use crate::store::embedded::{EmbeddedJournal, moved_to, run_of};
use crate::store::keys::{self, Packed};
use crate::store::postgres::{Adopter, PostgresConfig, PostgresError};
use crate::store::{OpenError, Store, codec};

/// Runs, records or leaves that are sent together.
const AT_ONCE: usize = 256;
/// What they may weigh.
const BYTES_AT_ONCE: usize = 4 << 20;
/// Changed places that are few enough to be copied while callers wait.
const FEW: usize = 2_000;
/// How often what was written meanwhile is copied at most: a store that is written to faster than it can be sent would
/// never be done.
const PASSES: usize = 20;

/// Why a store was not moved. It is where it was, and in charge there.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// It is in no directory.
    #[error("only a store in a data directory can be moved into a database")]
    NotHere,
    /// There is nothing to move.
    #[error(
        "there is nothing in the data directory yet; serve the database with `--store` instead"
    )]
    Nothing,
    /// Somebody else's is there.
    #[error(
        "to: the database at {place} has a store of its own; name an empty database (or, where no server uses that store any more, drop the schema `holdpoint`)"
    )]
    Taken {
        /// Where.
        place: String,
    },
    /// The directory says that it was moved elsewhere.
    #[error("to: the store was moved to the database at {place} before, and is in charge there")]
    Elsewhere {
        /// Where.
        place: String,
    },
    /// What arrived is not what was sent.
    #[error("what is in the database is not what is here ({0}); nothing was switched: try again")]
    Differs(String),
    /// The directory does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database does.
    #[error("to: {0}")]
    Postgres(#[from] PostgresError),
    /// One of the two failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The server was told to stop.
    #[error("the server stops, and the store stays where it is")]
    Stopped,
    /// The directory could not be told where its store is.
    #[error("the data directory could not be marked: {0}")]
    Mark(std::io::Error),
}

/// A move under way.
#[derive(Debug)]
pub struct Move {
    from: Arc<EmbeddedJournal>,
    to: Adopter,
    place: String,
    token: String,
    /// What the database's store is marked as.
    mark: Identity,
    /// Where every run stands that is there.
    copied: BTreeMap<Packed, (Version, Hash)>,
    /// The right edge of the leaves that are there.
    edge: Frontier,
}

/// What was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// To where, without a password.
    pub place: String,
    /// Runs.
    pub runs: u64,
    /// Events.
    pub events: u64,
}

impl Move {
    /// Marks the database as half a store, and remembers from now on what is written here.
    pub async fn begin(
        store: &Store,
        config: &PostgresConfig,
        token: String,
    ) -> Result<Self, MoveError> {
        let from = store.embedded.as_ref().map(Arc::clone).ok_or(MoveError::NotHere)?;
        let place = config.place();
        let identity = Identity::of(&*store.journal()).await?.ok_or(MoveError::Nothing)?;
        identity.refuse_half()?;
        let mark = identity.moving(&token, false);
        let mut to = Adopter::reach(config, Some(&mark)).await?;
        failpoint::hit("move.reached");
        let is_free = |known: Option<&Identity>, is_empty: bool| match known {
            Some(known) => known.moving.as_ref().is_some_and(|moving| {
                // What is left of a move that was cut off is nobody's; one that has all of it may be in charge, and only
                // whoever still has that store knows that it is not.
                !moving.is_whole || known.epoch == identity.epoch
            }),
            None => is_empty,
        };
        if !to.begin(&mark, is_free).await? {
            return Err(MoveError::Taken { place });
        }
        from.track(true);
        let (copied, edge) = (BTreeMap::new(), Frontier::default());
        failpoint::hit("move.begun");
        Ok(Self { from, to, place, token, mark, copied, edge })
    }

    /// Copies everything once; `progress` is told how many runs are there.
    pub async fn copy(&mut self, progress: &(dyn Fn(u64) + Send + Sync)) -> Result<(), MoveError> {
        for prefix in [&[keys::DEFINITION][..], &[keys::SESSION], &[keys::LOG], keys::KEEPSAKE] {
            let mut after = None;
            loop {
                let records = self.from.records_after(prefix, after, AT_ONCE).await?;
                let Some((last, _)) = records.last() else { break };
                after = Some(last.clone());
                let is_last = records.len() < AT_ONCE;
                let records = records.into_iter().map(|(place, record)| (place, Some(record)));
                self.put_records(records.collect()).await?;
                if is_last {
                    break;
                }
            }
        }
        let mut after = None;
        loop {
            let runs = self.from.runs_after(after, AT_ONCE).await?;
            let Some(last) = runs.last() else { break };
            after = Some(*last);
            let is_last = runs.len() < AT_ONCE;
            self.put_runs(runs).await?;
            progress(crate::store::audit::count(self.copied.len()));
            failpoint::hit("move.copying");
            // What comes from now on is told as changed; whoever waited for the last one would wait for as long as
            // somebody starts another.
            if is_last {
                break;
            }
        }
        Ok(self.put_leaves().await?)
    }

    /// Copies what was written meanwhile, again and again, until that is little.
    pub async fn catch_up(&mut self) -> Result<(), MoveError> {
        let mut before = usize::MAX;
        for _ in 0..PASSES {
            let count = self.pass().await?;
            // Where it does not become less, they write as fast as it is sent: the rest goes while they wait.
            if count <= FEW || count >= before {
                break;
            }
            before = count;
        }
        Ok(())
    }

    /// Copies what was written since the last time; how many places that were.
    async fn pass(&mut self) -> Result<usize, MoveError> {
        let changed = self.from.changed();
        let count = changed.len();
        let (mut runs, mut places) = (BTreeSet::new(), Vec::new());
        for place in changed {
            match run_of(&place) {
                Some(run) => drop(runs.insert(run)),
                None => places.push(place),
            }
        }
        for some in places.chunks(AT_ONCE) {
            let records = self.from.records(some.to_vec()).await?;
            self.put_records(records).await?;
        }
        let runs: Vec<_> = runs.into_iter().collect();
        for some in runs.chunks(AT_ONCE) {
            self.put_runs(some.to_vec()).await?;
        }
        self.put_leaves().await?;
        Ok(count)
    }

    async fn put_records(&self, mut records: Vec<(Place, Option<Record>)>) -> Result<(), Fault> {
        // What it is said to be is the move's to say, and the edge of the leaves goes with them.
        let own = keys::keepsake(identity::NAME);
        records.retain(|(place, _)| {
            let is_kept = place.starts_with(keys::KEEPSAKE) || place == keys::LOG_ENDS;
            *place != own && (place.first() != Some(&b'm') || is_kept)
        });
        self.to.put_records(&records).await
    }

    async fn put_runs(&mut self, mut left: Vec<Packed>) -> Result<(), Fault> {
        while !left.is_empty() {
            let (mut copies, mut gone, mut again, mut bytes) =
                (Vec::new(), Vec::new(), Vec::new(), 0);
            while bytes <= BYTES_AT_ONCE && !left.is_empty() {
                let there = |run: &Packed| self.copied.get(run).map_or(0, |(version, _)| *version);
                let wanted: Vec<_> = left.iter().map(|run| (*run, there(run))).collect();
                let read = self.from.copies_of(&wanted).await?;
                left.drain(..read.len());
                for (run, copy) in read {
                    let Some(copy) = copy else {
                        gone.push(run);
                        continue;
                    };
                    bytes += copy.bytes();
                    if copy.upper < copy.head.version {
                        again.push(run);
                    }
                    copies.push(copy);
                }
            }
            self.to.put_runs(&copies, &gone).await?;
            for copy in copies {
                self.copied.insert(copy.packed, (copy.upper, copy.link));
            }
            for run in gone {
                self.copied.remove(&run);
            }
            left.append(&mut again);
        }
        Ok(())
    }

    async fn put_leaves(&mut self) -> Result<(), Fault> {
        loop {
            let texts = self.from.leaf_texts(self.edge.size(), AT_ONCE).await?;
            if texts.is_empty() {
                break;
            }
            self.to.put_leaves(&texts, &mut self.edge).await?;
            if texts.len() < AT_ONCE {
                break;
            }
        }
        let waiting = self.from.waiting_texts().await?;
        self.to.put_waiting(&waiting).await?;
        // The edges of both logs go with what they are the edges of.
        let edges = vec![keys::TREE.to_vec(), keys::LOG_ENDS.to_vec()];
        let edges = self.from.records(edges).await?;
        self.to.put_records(&edges).await
    }

    /// Has the store there keep something that stood beside this one.
    pub async fn keep(&self, name: &str, text: &str) -> Result<(), MoveError> {
        Ok(self.to.put_keepsake(name, text).await?)
    }

    /// Takes the rest, compares, and has the database be in charge. To be called when nobody works on the store any
    /// more: it takes no more writes from now on, and never again unless this fails.
    pub async fn finish(mut self) -> Result<Moved, MoveError> {
        match self.settle().await {
            Ok(moved) => Ok(moved),
            // Nobody knows what the directory says: it takes no more writes until it is opened anew.
            Err(error @ MoveError::Mark(_)) => Err(error),
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    /// The store stays where it is.
    pub fn give_up(self) {
        self.from.track(false);
        self.from.unseal();
    }

    async fn settle(&mut self) -> Result<Moved, MoveError> {
        self.from.seal().await?;
        self.pass().await?;
        let (runs, events) = self.compare().await?;
        failpoint::hit("move.compared");
        // It may have been let go on meanwhile.
        let kept = self.from.records(vec![keys::keepsake(identity::NAME)]).await?;
        let kept = kept.into_iter().find_map(|(place, record)| Some((place, record?)));
        let (place, record) = kept.ok_or(MoveError::Nothing)?;
        let text = codec::unseal(&place, &record).map_err(Fault::from)?;
        let identity = Identity::read(&String::from_utf8_lossy(text))?;
        let whole = identity.moving(&self.token, true);
        if !self.to.turn(&self.mark, &whole).await? {
            return Err(MoveError::Differs("another move came between".into()));
        }
        failpoint::hit("move.whole");
        // From here on the database is in charge, whatever happens.
        self.from.leave(&self.place, &self.token).map_err(MoveError::Mark)?;
        failpoint::hit("move.left");
        let moved = Moved { place: self.place.clone(), runs, events };
        if let Err(fault) = self.to.turn(&whole, &whole.moved()).await {
            tracing::warn!(%fault, "the store has moved; whoever serves it next takes the mark of the move away");
        }
        failpoint::hit("move.over");
        Ok(moved)
    }

    /// Whether what is there is what was sent, and that all there is.
    async fn compare(&self) -> Result<(u64, u64), MoveError> {
        let (runs, events) = self.from.tally().await?;
        let sum = self.to.sum().await?;
        let mut standings = Sha256::new();
        for (run, (version, link)) in &self.copied {
            standings.update(run);
            standings.update(version.to_be_bytes());
            standings.update(link.0);
        }
        let standings = Hash(standings.finalize().into());
        let (here, there) = ((runs, events, events), (sum.runs, sum.events, sum.recorded));
        if here != there || sum.leaves != self.edge.size() || sum.standings != standings {
            let what = format!(
                "{runs} runs and {events} events here; {} and {} there, of {} leaves {}",
                sum.runs,
                sum.recorded,
                self.edge.size(),
                sum.leaves
            );
            return Err(MoveError::Differs(what));
        }
        Ok((runs, events))
    }
}

/// Where the store of a directory was moved to, if it was.
pub fn is_moved(dir: &Path) -> Option<String> {
    moved_to(dir).map(|(place, _)| place)
}

/// Takes away the mark of a move that came to its end in the directory and not in the database; whether there was one.
pub async fn take_up(dir: &Path, config: &PostgresConfig) -> Result<bool, MoveError> {
    let Some((place, token)) = moved_to(dir) else { return Ok(false) };
    let to = Adopter::reach(config, None).await?;
    let Some(known) = to.identity().await? else { return Err(MoveError::Elsewhere { place }) };
    match &known.moving {
        Some(moving) if moving.token == token && moving.is_whole => {
            to.turn(&known, &known.moved()).await?;
            Ok(true)
        }
        Some(_) => Err(MoveError::Elsewhere { place }),
        None => Ok(false),
    }
}

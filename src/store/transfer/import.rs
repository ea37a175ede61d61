//! Import: reads a file more than once. First all of it is checked: its checksum, its counts, and every run
//! by folding it; then, if nothing is wrong, it is written. Only into an empty store, or into what is left of an import
//! of the same file that was cut off: what is there already is not written again.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read as _, Seek, SeekFrom};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use sha2::{Digest as _, Sha256};

use crate::failpoint;
use crate::kernel::evidence::is_definition;
use crate::kernel::{
    Corruption, Event, Millis, Recorded, Run, RunId, SessionId, Workflow, begin, evolve, replay,
};
use crate::ports::identity::Identity;
use crate::ports::{
    Append, Head, Hold, HookRow, Journal, KeyRow, RunFilter, SessionRow, Settlement,
};
use crate::store::audit::count;
use crate::store::transfer::{
    Counts, End, FORMAT, Line, OLDEST, RunLine, TransferError, VERSION, hex,
};

/// The longest line: more than the largest append there can be.
const LINE_BYTES_MAX: u64 = 256 << 20;
/// Runs written at a time, so that they share the disk's syncs.
const AT_ONCE: usize = 64;

/// Reads everything in `source` into `journal`, which must be empty, and is `another` store from then on:
/// said before the first run is there, so that no part of it is ever taken for the first. `progress` is told
/// now and then.
pub async fn import(
    journal: &dyn Journal,
    source: &mut (impl BufRead + Seek + Send),
    another: &Identity,
    progress: &mut (dyn FnMut(Counts) + Send),
) -> Result<Counts, TransferError> {
    let Checked { counts, sum } = check(source)?;
    let another = match Identity::of(journal).await?.filter(|known| known.is_importing) {
        Some(half) if half.importing.as_ref() == Some(&sum) => half,
        Some(_) => return Err(TransferError::OtherHalf),
        None => {
            let runs = journal.heads(&RunFilter::default(), None, 1).await?;
            if !runs.rows.is_empty() || runs.next.is_some() {
                return Err(TransferError::NotEmpty);
            }
            // Whoever opens what is left of a cut import knows it for that.
            let unfinished =
                Identity { is_importing: true, importing: Some(sum), ..another.clone() };
            unfinished.keep(journal).await?;
            unfinished
        }
    };
    source.seek(SeekFrom::Start(0))?;
    write(journal, source, progress).await?;
    failpoint::hit("store.before_import_end");
    let whole = Identity { is_importing: false, importing: None, ..another };
    whole.keep(journal).await?;
    Ok(counts)
}

/// What was found of a file in which nothing is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// How much there is.
    pub counts: Counts,
    /// The checksum that it ends with.
    pub sum: String,
}

/// A file's definitions, by digest.
#[derive(Default)]
struct Definitions(HashMap<String, Arc<Workflow>>);

impl Definitions {
    fn add(&mut self, digest: &str, json: &str) -> Result<(), String> {
        // Whoever can write a file can put a definition without its gate under the digest of one with it.
        if !is_definition(digest, json) {
            return Err(format!("definition `{digest}`: what stands there has another digest"));
        }
        let workflow = serde_json::from_str(json).map_err(|error| error.to_string())?;
        self.0.insert(digest.to_owned(), Arc::new(workflow));
        Ok(())
    }

    /// The definition of a journal, by its first event.
    fn of(&self, journal: &[Recorded]) -> Result<Arc<Workflow>, String> {
        let Some(Recorded { event: Event::Started(started), .. }) = journal.first() else {
            return Err("a journal begins with `started`".into());
        };
        let known = self.0.get(&started.definition).map(Arc::clone);
        known.ok_or_else(|| format!("definition `{}` is not in the file", started.definition))
    }
}

/// A run's lines, put together.
struct Told {
    line: RunLine,
    journal: Vec<Recorded>,
}

impl Told {
    fn add(&mut self, at: Millis, events: Vec<Event>) {
        let first = count(self.journal.len()) + 1;
        let numbered = events.into_iter().zip(first..);
        let recorded = numbered.map(|(event, version)| Recorded { version, at, event });
        self.journal.extend(recorded);
    }

    fn check(&self, definitions: &Definitions) -> Result<(), String> {
        let run = replay(&self.line.run, definitions.of(&self.journal)?, &self.journal)
            .map_err(|corruption| corruption.to_string())?;
        if run.session == self.line.session.session {
            return Ok(());
        }
        Err(format!("run `{}` does not belong to its session", run.id))
    }
}

/// Reads all of a file and finds nothing wrong with it; from its beginning, wherever it was left.
pub fn check(source: &mut (impl BufRead + Seek)) -> Result<Checked, TransferError> {
    source.seek(SeekFrom::Start(0))?;
    let mut lines = Lines::new(source);
    lines.header()?;
    let mut definitions = Definitions::default();
    let mut seen: HashSet<RunId> = HashSet::new();
    let mut counts = Counts::default();
    let mut told: Option<Told> = None;
    let fold = |told: Option<Told>, definitions: &Definitions| match told {
        Some(told) => told.check(definitions),
        None => Ok(()),
    };
    while let Some(line) = lines.next()? {
        let outcome = match line {
            Line::Header { .. } => Err("a second header".into()),
            Line::Definition { digest, json } => {
                counts.definitions += 1;
                definitions.add(&digest, &json)
            }
            Line::Session(row) => {
                counts.sessions += 1;
                SessionId::parse(row.session.as_str()).map(drop).map_err(|no| no.to_string())
            }
            Line::Run(line) => {
                counts.runs += 1;
                counts.hooks += count(line.hooks.len());
                let is_new =
                    RunId::parse(line.run.as_str()).is_ok() && seen.insert(line.run.clone());
                let folded = fold(told.take(), &definitions);
                told = Some(Told { line, journal: Vec::new() });
                if is_new { folded } else { Err("the run is no run, or comes twice".into()) }
            }
            Line::Append { at, events } => match &mut told {
                Some(told) => {
                    counts.events += count(events.len());
                    told.add(at, events);
                    Ok(())
                }
                None => Err("events without a run".into()),
            },
            Line::End(end) => {
                fold(told.take(), &definitions).map_err(|what| lines.damaged(what))?;
                return lines.end(&end, counts);
            }
        };
        outcome.map_err(|what| lines.damaged(what))?;
    }
    Err(TransferError::Cut { line: lines.number })
}

/// Writes a file that has been checked.
async fn write(
    journal: &dyn Journal,
    source: &mut (impl BufRead + Seek + Send),
    progress: &mut (dyn FnMut(Counts) + Send),
) -> Result<(), TransferError> {
    let mut lines = Lines::new(source);
    let mut definitions = Definitions::default();
    let mut counts = Counts::default();
    let mut told: Option<Told> = None;
    let mut writing = FuturesUnordered::new();
    while let Some(line) = lines.next()? {
        let finished = match line {
            Line::Header { .. } => None,
            Line::Definition { digest, json } => {
                definitions.add(&digest, &json).map_err(|what| lines.damaged(what))?;
                beside(&mut writing, put_definition(journal, &digest, &json)).await?;
                counts.definitions += 1;
                None
            }
            Line::Session(row) => {
                beside(&mut writing, put_session(journal, row)).await?;
                None
            }
            Line::Run(line) => told.replace(Told { line, journal: Vec::new() }),
            Line::Append { at, events } => {
                if let Some(told) = &mut told {
                    told.add(at, events);
                }
                None
            }
            Line::End(_) => told.take(),
        };
        let Some(told) = finished else { continue };
        let workflow = definitions.of(&told.journal).map_err(|what| lines.damaged(what))?;
        counts.runs += 1;
        counts.events += count(told.journal.len());
        writing.push(store(journal, told, workflow));
        while writing.len() >= AT_ONCE {
            writing.next().await.transpose()?;
        }
        progress(counts);
    }
    while let Some(outcome) = writing.next().await {
        outcome?;
    }
    Ok(())
}

/// Does one thing more, and goes on with the runs that are being written. One that nobody goes on with keeps the connection
/// that it was lent, or its turn to be lent one: while they have them all, whatever else asks for one waits for ever.
async fn beside(
    writing: &mut FuturesUnordered<impl Future<Output = Result<(), TransferError>>>,
    thing: impl Future<Output = Result<(), TransferError>>,
) -> Result<(), TransferError> {
    let mut thing = pin!(thing);
    loop {
        tokio::select! {
            biased;
            done = &mut thing => return done,
            Some(written) = writing.next() => written?,
        }
    }
}

/// Keeps a definition; its runs come after it.
async fn put_definition(
    journal: &dyn Journal,
    digest: &str,
    json: &str,
) -> Result<(), TransferError> {
    Ok(journal.put_definition(digest, json).await?)
}

/// Keeps a session without runs, unless it is there already.
async fn put_session(journal: &dyn Journal, row: SessionRow) -> Result<(), TransferError> {
    if journal.session(&row.session).await?.as_ref() == Some(&row) {
        return Ok(());
    }
    Ok(journal.put_session(None, row).await?)
}

/// Appends one run, time by time, as it once happened, from where it is on.
async fn store(
    journal: &dyn Journal,
    told: Told,
    workflow: Arc<Workflow>,
) -> Result<(), TransferError> {
    let Told { line, journal: recorded } = told;
    let mut session = Some(line.session);
    let mut key = line.key.map(|(key, request)| (key, KeyRow { request, run: line.run.clone() }));
    let mut run: Option<Run> = None;
    let there = journal.head(&line.run).await?.map_or(0, |head| head.version);
    for group in recorded.chunk_by(|left, right| left.at == right.at) {
        let expected = run.as_ref().map_or(0, |run| run.version);
        let at = group.first().map_or(Millis(0), |first| first.at);
        for recorded in group {
            match (&mut run, &recorded.event) {
                (Some(run), event) => {
                    evolve(run, event, at).map_err(|corruption| changed(&corruption))?;
                }
                (None, Event::Started(started)) => {
                    run = Some(begin(line.run.clone(), Arc::clone(&workflow), started, at));
                }
                (None, _) => {}
            }
        }
        let Some(run) = &run else { continue };
        if run.version <= there {
            // With the first of them came session and key.
            (session, key) = (None, None);
            continue;
        }
        let events: Vec<_> =
            group.iter().map(|recorded| Arc::new(recorded.event.clone())).collect();
        // Whoever had not been told of all of it is owed the rest.
        let channels = line.owed.iter().filter(|(_, after)| run.version > **after);
        let append = Append {
            run: line.run.clone(),
            expected,
            token: None,
            fence: None,
            hold: Hold::Keep,
            guards: Vec::new(),
            at,
            hidden: run.hidden(&events, &mut salt).map(Box::new),
            events,
            head: Head::of(run),
            session: session.take(),
            key: key.take(),
            channels: channels.map(|(channel, _)| channel.clone()).collect(),
            hooks: Vec::new(),
        };
        journal.append(append).await?;
        failpoint::hit("store.after_import_append");
    }
    for (channel, after) in &line.owed {
        // An append may have been told of in part.
        let outcome = Settlement::Delivered { up_to: *after };
        journal.settle(&line.run, channel, outcome).await?;
    }
    for hook in line.hooks {
        journal.put_hook(&HookRow { run: line.run.clone(), hook }).await?;
    }
    Ok(())
}

/// What nobody can guess of a secret's hash.
fn salt() -> String {
    let mut drawn = [0; 16];
    // Where nothing can be drawn, what was drawn for the process still tells two apart.
    if getrandom::fill(&mut drawn).is_err() {
        return hex(&std::process::id().to_be_bytes());
    }
    hex(&drawn)
}

/// The file was checked a moment ago; it has changed under our hands.
fn changed(corruption: &Corruption) -> TransferError {
    TransferError::Damaged { line: 0, what: format!("the file changed meanwhile: {corruption}") }
}

/// Lines of a file, numbered, with the checksum of all that were read before the last.
struct Lines<'a, R> {
    source: &'a mut R,
    number: u64,
    sum: Sha256,
    last: Vec<u8>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    fn new(source: &'a mut R) -> Self {
        Self { source, number: 0, sum: Sha256::new(), last: Vec::new() }
    }

    fn damaged(&self, what: String) -> TransferError {
        TransferError::Damaged { line: self.number, what }
    }

    fn next(&mut self) -> Result<Option<Line>, TransferError> {
        self.sum.update(&self.last);
        self.last.clear();
        self.source.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.last)?;
        if self.last.is_empty() {
            return Ok(None);
        }
        if self.last.last() != Some(&b'\n') {
            return Err(TransferError::Cut { line: self.number });
        }
        self.number += 1;
        match serde_json::from_slice(&self.last) {
            Ok(line) => Ok(Some(line)),
            Err(_) if self.number == 1 => Err(TransferError::Foreign),
            Err(error) => Err(self.damaged(error.to_string())),
        }
    }

    fn header(&mut self) -> Result<(), TransferError> {
        match self.next()? {
            Some(Line::Header { format, version: OLDEST..=VERSION }) if format == FORMAT => Ok(()),
            Some(Line::Header { format, version }) if format == FORMAT => {
                Err(TransferError::WrongVersion { found: version })
            }
            Some(_) | None => Err(TransferError::Foreign),
        }
    }

    /// The last line must say of the file what we found in it, and be the last.
    fn end(mut self, end: &End, counts: Counts) -> Result<Checked, TransferError> {
        let sum = hex(&self.sum.clone().finalize());
        if end.counts != counts || end.sha256 != sum {
            return Err(self.damaged("counts or checksum do not fit the lines before".into()));
        }
        match self.next()? {
            None => Ok(Checked { counts, sum }),
            Some(_) => Err(self.damaged("there is more after the last line".into())),
        }
    }
}

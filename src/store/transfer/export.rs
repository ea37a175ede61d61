//! Export: writes every run there is, while the store goes on. A run is exported as it is when its
//! turn comes; one that begins meanwhile may or may not be in the file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;

use sha2::{Digest as _, Sha256};

use crate::kernel::{Millis, Recorded, RunId, Version};
use crate::ports::{Fault, Head, Journal, RunFilter};
use crate::store::transfer::{Counts, End, FORMAT, Line, RunLine, TransferError, VERSION, hex};

/// Heads and events read at a time: enough to keep the disk busy, little enough to hold.
const PAGE: usize = 500;

/// Writes everything in `journal` to `out`. `progress` is told after every page.
pub async fn export(
    journal: &dyn Journal,
    out: &mut (dyn Write + Send),
    progress: &mut (dyn FnMut(Counts) + Send),
) -> Result<Counts, TransferError> {
    let owed = owed(journal).await?;
    let mut writer = Writer { out, sum: Sha256::new(), counts: Counts::default(), owed };
    writer.line(&Line::Header { format: FORMAT.into(), version: VERSION })?;
    let (mut defined, mut used) = (HashSet::new(), HashSet::new());
    let mut cursor = None;
    loop {
        let page = journal.heads(&RunFilter::default(), cursor.as_deref(), PAGE).await?;
        for head in page.rows {
            if defined.insert(head.definition.clone()) {
                writer.definition(journal, &head.definition).await?;
            }
            writer.run(journal, &head).await.map_err(|error| in_run(&head.run, error))?;
            used.insert(head.session);
        }
        progress(writer.counts);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let mut cursor = None;
    loop {
        let page = journal.sessions(None, cursor.as_deref(), PAGE).await?;
        for row in page.rows.into_iter().filter(|row| !used.contains(&row.session)) {
            writer.counts.sessions += 1;
            writer.line(&Line::Session(row))?;
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let sha256 = hex(&writer.sum.clone().finalize());
    let counts = writer.counts;
    writer.line(&Line::End(End { counts, sha256 }))?;
    writer.out.flush()?;
    Ok(counts)
}

/// Who is owed something, by run.
type Owed = HashMap<RunId, BTreeMap<String, Version>>;

async fn owed(journal: &dyn Journal) -> Result<Owed, Fault> {
    let mut owed = Owed::new();
    for outbox_entry in journal.outbox_entries(Millis(u64::MAX), usize::MAX).await? {
        owed.entry(outbox_entry.run).or_default().insert(outbox_entry.channel, outbox_entry.after);
    }
    Ok(owed)
}

struct Writer<'a> {
    out: &'a mut (dyn Write + Send),
    sum: Sha256,
    counts: Counts,
    owed: Owed,
}

impl Writer<'_> {
    fn line(&mut self, line: &Line) -> Result<(), TransferError> {
        let mut bytes = serde_json::to_vec(line).map_err(std::io::Error::from)?;
        bytes.push(b'\n');
        self.sum.update(&bytes);
        Ok(self.out.write_all(&bytes)?)
    }

    async fn definition(
        &mut self,
        journal: &dyn Journal,
        digest: &str,
    ) -> Result<(), TransferError> {
        let json =
            journal.definition(digest).await?.ok_or_else(|| missing("definition", digest))?;
        self.counts.definitions += 1;
        self.line(&Line::Definition { digest: digest.to_owned(), json })
    }

    async fn run(&mut self, journal: &dyn Journal, head: &Head) -> Result<(), TransferError> {
        let session = journal.session(&head.session).await?;
        let session = session.ok_or_else(|| missing("session", head.session.as_str()))?;
        let key = journal.key_of(&head.run).await?.map(|(key, row)| (key, row.request));
        let hooks = journal.hooks(&head.run).await?;
        let hooks: Vec<_> = hooks.into_iter().map(|row| row.hook).collect();
        let owed = self.owed.remove(&head.run).unwrap_or_default();
        self.counts.runs += 1;
        self.counts.hooks += crate::store::audit::count(hooks.len());
        self.line(&Line::Run(RunLine { run: head.run.clone(), session, key, hooks, owed }))?;
        let mut after: Version = 0;
        while after < head.version {
            let left = usize::try_from(head.version - after).unwrap_or(PAGE);
            let events = journal.read(&head.run, after, left.min(PAGE)).await?;
            after += crate::store::audit::count(events.len());
            if events.is_empty() {
                return Err(missing("journal", head.run.as_str()).into());
            }
            self.appends(events)?;
        }
        Ok(())
    }

    /// Events of one time are one line, as they were one append.
    fn appends(&mut self, events: Vec<Recorded>) -> Result<(), TransferError> {
        let mut events = events.into_iter().peekable();
        while let Some(first) = events.next() {
            let at = first.at;
            let mut together = vec![first.event];
            while let Some(next) = events.next_if(|next| next.at == at) {
                together.push(next.event);
            }
            self.counts.events += crate::store::audit::count(together.len());
            self.line(&Line::Append { at, events: together })?;
        }
        Ok(())
    }
}

/// Damage is told with the run that it lies in.
fn in_run(run: &RunId, error: TransferError) -> TransferError {
    if let TransferError::Store(Fault::Corrupt(what)) = error {
        return TransferError::Run { run: run.clone(), what };
    }
    error
}

fn missing(what: &str, name: &str) -> Fault {
    Fault::Corrupt(format!(
        "{what} `{name}` is missing or incomplete; `holdpoint doctor` says more"
    ))
}

//! Audit: what must hold of stored things whatever stores them: an append as it comes, a run as it
//! lies. It reads values; getting at them is each store's business.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kernel::{Hidden, Recorded, Workflow, replay, veil};
use crate::ports::{Append, Fault, Head, StoreReport};

/// Findings listed one by one; beyond that they are only counted, a report is for reading.
const DAMAGE_MAX: usize = 1_000;

/// Our own bug, if it fails: an append that contradicts itself is written nowhere.
pub(super) fn check_append(append: &Append) -> Result<(), Fault> {
    let added = count(append.events.len());
    let agrees = added > 0
        && append.head.run == append.run
        && append.head.version == append.expected + added
        && append.session.as_ref().is_none_or(|row| row.session == append.head.session)
        && append.key.as_ref().is_none_or(|(_, row)| row.run == append.run)
        && append.hidden.as_ref().is_none_or(|hidden| says_the_same(append, hidden));
    if agrees {
        return Ok(());
    }
    Err(Fault::Permanent(format!(
        "an append to run `{}` at version {} contradicts itself",
        append.run, append.expected
    )))
}

/// Whether what stands apart, put back, gives what happened: what is stored is that, and nothing else.
fn says_the_same(append: &Append, hidden: &Hidden) -> bool {
    let put_back = hidden.events.iter().cloned().map(|mut event| {
        veil::reveal(&mut event, &hidden.apart);
        event
    });
    put_back.eq(append.events.iter().map(|event| (**event).clone()))
}

/// Reads runs one after another and keeps count of what it finds.
#[derive(Debug)]
pub(super) struct Audit {
    /// What was found so far.
    pub(super) report: StoreReport,
    workflows: HashMap<String, Option<Arc<Workflow>>>,
    unlisted: u64,
}

impl Audit {
    /// An audit that has seen nothing yet.
    pub(super) fn new(kind: &str, format: u8) -> Self {
        let report = StoreReport { kind: kind.into(), format, ..StoreReport::default() };
        Self { report, workflows: HashMap::new(), unlisted: 0 }
    }

    /// Notes something that is wrong.
    pub(super) fn damage(&mut self, what: String) {
        if self.report.damage.len() < DAMAGE_MAX {
            self.report.damage.push(what);
        } else {
            self.unlisted += 1;
        }
    }

    /// Looks at one run: its journal must fold to its head. `definition` is only looked at when its
    /// digest is new.
    pub(super) fn run(&mut self, head: &Head, journal: &[Recorded], definition: Option<&str>) {
        self.report.runs += 1;
        self.report.events += count(journal.len());
        self.report.open_questions += count(head.questions.len());
        let workflow = self.workflows.entry(head.definition.clone()).or_insert_with(|| {
            definition.and_then(|json| serde_json::from_str(json).ok()).map(Arc::new)
        });
        let Some(workflow) = workflow.clone() else {
            let (run, digest) = (&head.run, &head.definition);
            return self.damage(format!("run `{run}`: its definition `{digest}` cannot be read"));
        };
        if let Err(why) = check_run(head, journal, workflow) {
            self.damage(why);
        }
    }

    /// What was found.
    pub(super) fn finish(mut self) -> StoreReport {
        if self.unlisted > 0 {
            self.report.damage.push(format!("and {} more", self.unlisted));
        }
        self.report
    }
}

/// Whether a journal folds to its head.
pub(super) fn check_run(
    head: &Head,
    journal: &[Recorded],
    workflow: Arc<Workflow>,
) -> Result<(), String> {
    let run = replay(&head.run, workflow, journal).map_err(|corruption| corruption.to_string())?;
    let mut folded = Head::of(&run);
    if head.said.is_none() {
        // An earlier build wrote it, and kept none.
        (folded.said, folded.owed) = (None, 0);
    }
    // An earlier build found less to be secret, or kept nothing of who knows it.
    if head.veil.is_within(&folded.veil) {
        folded.veil = head.veil.clone();
    }
    if folded.of_every_build() == head.clone().of_every_build() {
        return Ok(());
    }
    Err(format!("run `{}`: its head at version {} is not its journal's", head.run, head.version))
}

/// A length as a figure.
pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

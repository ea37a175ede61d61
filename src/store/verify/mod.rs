//! Verify: looks at everything a store has, without trust in the disk it lies on (J13), and names the first
//! place that does not hold. It knows the ports and no adapter, changes nothing, and asks nobody.
//!
//! ```text
//! leaves      ─► one tree ─► the signed head, and whichever head somebody outside has kept
//! every run   ─► its chain ─► its head; every append of weight ─► its leaf; its definition, hashed anew
//! every leaf  ─► what it speaks of, or a tombstone
//! own log     ─► its chain ─► its leaves
//! ```

mod bundle;
mod leaves;
mod log;
mod runs;

use std::path::PathBuf;

use crate::kernel::evidence::note::{SignedHead, VerifyKey};
use crate::kernel::evidence::{Finding, Hash, handover};
use crate::kernel::{Millis, RunId, Version};
use crate::ports::evidence::ORIGIN;
use crate::ports::{Fault, Journal, LastHead, StoreReport};

pub use bundle::bundle;

/// Findings that are listed; a report is for reading.
const FINDINGS_MAX: usize = 1_000;

/// What a store is held against, from outside.
#[derive(Debug, Clone, Default)]
pub struct Against {
    /// The key that heads must be signed with; the one that the store names, if none is given.
    pub key: Option<VerifyKey>,
    /// A head that somebody kept: everything in it must be there still.
    pub since: Option<SignedHead>,
    /// The file that it lies in, where nobody brought it: beside the key that the settings name.
    pub kept_in: Option<PathBuf>,
}

impl Against {
    /// What the head from outside is called: one that nobody brought is called by its file.
    fn outside(&self) -> String {
        self.kept_in.as_ref().map_or_else(
            || "the head from outside".to_owned(),
            |file| format!("the last head that was kept beside the key, in `{}`", file.display()),
        )
    }
}

/// A head that a store was held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// Which log it is of.
    pub origin: String,
    /// How many leaves it holds.
    pub leaves: u64,
    /// The file that it lies in, where nobody brought it.
    pub file: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    /// What does not hold, the first first; empty when all is well.
    pub findings: Vec<Finding>,
    /// Runs.
    pub runs: u64,
    /// Of these, those that were looked at before and have not changed.
    pub skipped: u64,
    /// Events.
    pub events: u64,
    /// Events that an earlier build wrote, without a chain: they are as they were when they were taken over.
    pub unchained: u64,
    /// Leaves that have their place in the log.
    pub leaves: u64,
    /// Leaves that wait for one.
    pub waiting: u64,
    /// Runs that were forgotten, and left a tombstone.
    pub forgotten: u64,
    /// How many leaves the signed head holds; none if nothing is signed. More than there are where some were cut off.
    pub signed: Option<u64>,
    /// Whose signature that is.
    pub signer: Option<VerifyKey>,
    /// The key that somebody brought, whatever it has signed.
    pub brought: Option<VerifyKey>,
    /// The head from outside that it was held against, if one was brought or kept beside the key.
    pub since: Option<Since>,
    /// When the store was made from an export, if it was and its own log has that still: its log of leaves began there.
    pub imported: Option<Millis>,
    /// What the store says of itself.
    pub report: StoreReport,
}

impl Verified {
    /// What was found of the chain and the log, in words.
    pub fn words(&self) -> String {
        let signed = match (self.signed, &self.signer) {
            (Some(signed), Some(key)) if signed > self.leaves => {
                format!("and {signed} were signed by {}", key.text())
            }
            (Some(signed), Some(key)) => format!("{signed} of them signed by {}", key.text()),
            (_, _) => "none of them signed".to_owned(),
        };
        let (runs, events) = (many(self.runs, "run", "runs"), many(self.events, "event", "events"));
        let mut told = format!("{runs}, {events}, {}, {signed}", counted_leaves(self.leaves));
        if let Some(Since { origin, leaves: size, file }) = &self.since {
            let place = file.as_ref().map_or_else(
                || "that was kept elsewhere".to_owned(),
                |file| format!("that was kept beside the key, in `{}`", file.display()),
            );
            let kept = format!("a head of {} of the log `{origin}` {place}", counted_leaves(*size));
            let word = if self.findings.is_empty() {
                "\nit goes on from "
            } else {
                "\nit was held against "
            };
            told.extend([word, &kept]);
        }
        if let Some(at) = self.imported {
            let began =
                format!("\nits log began by an import, at {}: of what is older ", at.date());
            told.extend([&*began, "it proves how that was imported, and no more"]);
        }
        for (count, one, more) in self.counts().into_iter().filter(|(count, ..)| *count > 0) {
            told.extend(["\n", &*many(count, one, more)]);
        }
        told
    }

    /// What else there is, and what is said of one and of more.
    fn counts(&self) -> [(u64, &'static str, &'static str); 4] {
        let skipped = "of the runs was looked at before, and has not changed";
        let all_skipped = "of the runs were looked at before, and have not changed";
        let early = "event is of an earlier build: it is as it was when it was taken over";
        let all_early =
            "events are of an earlier build: they are as they were when they were taken over";
        let gone = "run was forgotten, and left a tombstone";
        [
            (self.skipped, skipped, all_skipped),
            (self.waiting, "waits for its place in the log", "wait for their place in the log"),
            (self.forgotten, gone, "runs were forgotten, and left tombstones"),
            (self.unchained, early, all_early),
        ]
    }

    fn found(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.add(Finding::new(place, what));
    }

    fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

/// So many of something: one is said otherwise.
fn many(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// So many leaves.
fn counted_leaves(count: u64) -> String {
    many(count, "leaf", "leaves")
}

/// What damage means here: a finding. Any other no is the world's, and ends the look.
fn or_finding<T>(
    outcome: Result<T, Fault>,
    place: &str,
    verified: &mut Verified,
) -> Result<Option<T>, Fault> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Corrupt(what)) => {
            verified.found(place, what);
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// What was seen of a run that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glance {
    /// Its last version.
    pub version: Version,
    /// Up to which version an earlier build wrote it.
    pub unchained: Version,
    /// The link of its last append.
    pub link: Hash,
}

/// Which runs were found to hold before, so that a look that was cut off goes on. What it says is believed: it is kept
/// by whoever looks, and never by the store.
pub trait Memory: Send + Sync {
    /// What was seen of a run; none if it was not looked at, or did not hold.
    fn known(&self, run: &RunId) -> Option<Glance>;

    /// A run holds.
    fn held(&self, run: &RunId, glance: Glance);
}

/// Whoever looks for the first time, and once.
#[derive(Debug, Clone, Copy)]
pub struct Forgetful;

impl Memory for Forgetful {
    fn known(&self, _run: &RunId) -> Option<Glance> {
        None
    }

    fn held(&self, _run: &RunId, _glance: Glance) {}
}

/// Looks at everything. `progress` is told how many runs were looked at.
pub async fn verify(
    journal: &dyn Journal,
    against: &Against,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<Verified, Fault> {
    go_on(journal, against, &Forgetful, progress).await
}

/// The same, but for the runs that were seen before and have not changed.
pub async fn go_on(
    journal: &dyn Journal,
    against: &Against,
    memory: &dyn Memory,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<Verified, Fault> {
    let mut verified = Verified {
        imported: log::imported(journal).await?,
        brought: against.key.clone(),
        ..Verified::default()
    };
    let heads = signed_heads(journal, against, &mut verified).await?;
    let (gone, waiting) = leaves::tree(journal, &heads, &mut verified).await?;
    runs::runs(journal, (&gone, memory), &mut verified, progress).await?;
    // Whoever brings a key wants to know what it has signed: nothing at all is no answer to be content with, of a store
    // without runs neither, since its own log has leaves.
    if let Some(key) = &against.key
        && heads.is_empty()
        && verified.findings.is_empty()
    {
        let what = format!(
            "there is none that `{}` has signed: it was taken away, or nothing has been signed yet",
            key.text()
        );
        verified.found("the signed head of the store", what);
    }
    leaves::behind(journal, (&gone, &waiting), &mut verified).await?;
    log::lanes(journal, &mut verified).await?;
    let report = journal.verify().await?;
    for damage in &report.damage {
        verified.found("the store", damage.clone());
    }
    verified.report = report;
    Ok(verified)
}

/// A head that the log must agree with, and what it is called.
struct Claim {
    what: String,
    head: SignedHead,
}

/// The heads that the log is held against: the store's own and the one from outside, each with its signature
/// checked.
async fn signed_heads(
    journal: &dyn Journal,
    against: &Against,
    verified: &mut Verified,
) -> Result<Vec<Claim>, Fault> {
    let last = LastHead::of(journal).await;
    let last = or_finding(last, "the signed head of the store", verified)?.flatten();
    let named = last.as_ref().and_then(|last| VerifyKey::parse(&last.key));
    let key = against.key.clone().or(named);
    let own = last.map(|last| last.head()).transpose();
    let own = own.unwrap_or_else(|what| {
        verified.found("the signed head of the store", what);
        None
    });
    let mut claims = Vec::new();
    let mut since = against.since.clone();
    verified.since = since.as_ref().map(|since| Since {
        origin: since.origin.clone(),
        leaves: since.head.size,
        file: against.kept_in.clone(),
    });
    // The store's own head, kept elsewhere, is one head: what is wrong with it is told once.
    if own == since {
        since = None;
    }
    if let (Some(own), Some(outside)) = (&own, &since)
        && own.origin != outside.origin
    {
        let what =
            format!("it is of the log `{}`, and the store is of `{}`", outside.origin, own.origin);
        verified.found(against.outside(), what);
        since = None;
    }
    let own = own.map(|head| Claim { what: "the signed head of the store".into(), head });
    let since = since.map(|head| Claim { what: against.outside(), head });
    let origin = journal.remembered(ORIGIN).await?;
    let handed = LastHead::handed(journal).await;
    let handed = or_finding(handed, "the chain of keys", verified)?.unwrap_or_default();
    for claim in own.into_iter().chain(since) {
        let Some(key) = &key else {
            let what = keyless(&claim.head, origin.as_deref(), verified.imported);
            verified.found(claim.what, what);
            continue;
        };
        match signer((&claim.head, key), &handed, against.key.is_some()) {
            Ok(signer) => {
                // The store's own comes first: what it has signed is told of that.
                if verified.signed.is_none() {
                    let size = claim.head.head.size;
                    (verified.signed, verified.signer) = (Some(size), Some(signer));
                }
                claims.push(claim);
            }
            Err(finding) => verified.found(claim.what, finding.what),
        }
    }
    Ok(claims)
}

/// Whose signature a head has: the key's, or one's that it has led to. Where nobody brought a key the store is believed,
/// which names those before, too.
fn signer(
    (head, key): (&SignedHead, &VerifyKey),
    handed: &[handover::Handover],
    is_brought: bool,
) -> Result<VerifyKey, Finding> {
    let mut earlier = handed.iter().filter_map(|it| VerifyKey::parse(&it.before));
    handover::signer(head, key, handed).or_else(|finding| {
        match earlier.find(|before| head.is_signed_by(before)) {
            Some(before) if !is_brought => Ok(before),
            Some(before) => Err(Finding {
                what: format!(
                    "{}; an earlier key of this store did: check with `{}`, or with the first that you have",
                    finding.what,
                    before.text()
                ),
                ..finding
            }),
            None => Err(finding),
        }
    })
}

/// What is said of a head where no key is known, and what can be done about it. A store that was imported has a log of
/// its own, which no key has signed at first: a head of the log before is none that it could hold.
fn keyless(head: &SignedHead, origin: Option<&str>, imported: Option<Millis>) -> String {
    let key = "there is no key to check its signature with";
    match imported.filter(|_| origin != Some(&*head.origin)) {
        Some(at) => format!(
            "{key}: this store was made by an import, at {}. Its log began there, is not signed yet, and holds no head of the \
             log `{}`: hold the store that was exported against that one, and this one against a head of its own",
            at.date(),
            head.origin
        ),
        None => format!(
            "{key}: nothing in this store says which key signs it; bring the public key that signed this head, with --key"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::evidence::note;
    use crate::kernel::evidence::tree::TreeHead;

    #[test]
    fn whoever_has_no_key_to_a_head_is_told_what_can_be_done() {
        let body = note::body("holdpoint/old", TreeHead { size: 7, root: Hash::of(&[b"root"]) });
        let key = VerifyKey::new("holdpoint/old", [7; 32]).unwrap();
        let head = SignedHead::parse(&note::signed(&body, &key, &[0; 64])).unwrap();
        let imported = Some(Millis(1_000));
        for origin in [None, Some("holdpoint/new")] {
            let told = keyless(&head, origin, imported);
            assert!(told.contains("made by an import, at 1970-01-01T00:00:01Z"), "{told}");
            assert!(told.contains("holds no head of the log `holdpoint/old`"), "{told}");
        }
        let own = keyless(&head, Some("holdpoint/old"), imported);
        assert!(own.contains("with --key"), "it is of this log: {own}");
        assert!(keyless(&head, None, None).contains("with --key"));
    }

    #[test]
    fn what_is_told_of_a_log_that_was_cut_off_adds_up_and_names_what_it_was_held_against() {
        let mut verified = Verified {
            leaves: 37,
            signed: Some(37),
            signer: VerifyKey::new("holdpoint/test", [7; 32]),
            since: Some(Since { origin: "holdpoint/test".into(), leaves: 30, file: None }),
            ..Verified::default()
        };
        let told = verified.words();
        assert!(told.contains("37 leaves, 37 of them signed by"), "{told}");
        assert!(told.contains("it goes on from a head of 30 leaves of the log `holdpoint/test`"));
        verified.leaves = 20;
        verified.found("the log of leaves", "it was cut off");
        let told = verified.words();
        assert!(told.contains("20 leaves, and 37 were signed by"), "{told}");
        assert!(told.contains("it was held against a head of 30 leaves"), "{told}");
    }

    #[test]
    fn a_head_that_nobody_brought_is_called_by_the_file_that_it_lies_in() {
        let file = Some(PathBuf::from("/elsewhere/audit.pem.heads"));
        let kept = Against { kept_in: file.clone(), ..Against::default() };
        assert!(kept.outside().contains("`/elsewhere/audit.pem.heads`"), "{}", kept.outside());
        assert_eq!(Against::default().outside(), "the head from outside");
        let since = Some(Since { origin: "holdpoint/test".into(), leaves: 1, file });
        let told = Verified { since, ..Verified::default() }.words();
        let expected = "a head of 1 leaf of the log `holdpoint/test` that was kept beside the key, \
                        in `/elsewhere/audit.pem.heads`";
        assert!(told.contains(expected), "{told}");
    }

    #[test]
    fn one_of_anything_is_told_as_one() {
        let counts = |count| Verified {
            runs: count,
            events: count,
            leaves: count,
            waiting: count,
            forgotten: count,
            ..Verified::default()
        };
        let told = counts(1).words();
        assert!(told.starts_with("1 run, 1 event, 1 leaf, none of them signed"), "{told}");
        assert!(told.contains("\n1 waits for its place") && told.contains("\n1 run was"), "{told}");
        let told = counts(2).words();
        assert!(told.starts_with("2 runs, 2 events, 2 leaves, none of them signed"), "{told}");
        assert!(told.contains("\n2 wait for") && told.contains("\n2 runs were"), "{told}");
    }
}

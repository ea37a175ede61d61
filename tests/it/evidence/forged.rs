//! Forged: a program that knows the stored form changes it behind the store's back, with every checksum right,
//! and is found out (J13). It is more or less thorough: it mends checksums alone, or the chain, or the leaves
//! and the whole tree; what it does not have is the key that heads are signed with.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use holdpoint::kernel::evidence::leaf::{Leaf, Place};
use holdpoint::kernel::evidence::note::{self, SignedHead, VerifyKey};
use holdpoint::kernel::evidence::tree::{Frontier, leaf_hash};
use holdpoint::kernel::evidence::{Hash, chain};
use holdpoint::kernel::{RunId, Version};
use holdpoint::ports::LastHead;
use holdpoint::ports::evidence::ORIGIN;
use holdpoint::ports::{Journal, Note, Noting};
use holdpoint::store::verify::{Against, verify};
use holdpoint::store::{codec, keys};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use tempfile::TempDir;

use crate::contract::evidence::all_sequenced;
use crate::store::sled::{Raw, raw};
use crate::support::kit::{Bed, Play, definition, open, run_id, workflow};
use crate::support::server::Setup;
use holdpoint::kernel::Millis;

const LOG: &str = "holdpoint/forged";
/// The key of `pair`, as PKCS#8 has it.
const PAIR: &str = "MC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH";
/// Runs that were decided.
const DECIDED: u64 = 6;
/// Forgeries that are drawn.
const FORGERIES: u64 = 60;

pub(super) fn pair() -> (Ed25519KeyPair, VerifyKey) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let key = pair.public_key().as_ref().try_into().unwrap();
    (pair, VerifyKey::new(LOG, key).unwrap())
}

pub(super) async fn sign(journal: &dyn Journal) -> SignedHead {
    let (pair, key) = pair();
    let body = note::body(LOG, journal.evidence().tree().await.unwrap());
    let note = note::signed(&body, &key, pair.sign(body.as_bytes()).as_ref());
    journal.remember(ORIGIN, LOG).await.unwrap();
    let last = LastHead { key: key.text(), note: note.clone() };
    last.keep(journal).await.unwrap();
    SignedHead::parse(&note).unwrap()
}

/// A store with runs that were decided and one that waits, closed; and the head that was published of it.
pub(super) async fn store(words: &str) -> (TempDir, SignedHead) {
    let bed = Bed::sled().await;
    bed.define().await;
    let journal = bed.journal();
    for number in 1..=DECIDED {
        let mut play = Play::park(&*journal, number, "s", 10, &workflow(None)).await;
        let approved = play.approve(20);
        journal.append(approved).await.unwrap();
        let spoken = play.speak(words, 30);
        journal.append(spoken).await.unwrap();
    }
    Play::park(&*journal, 90, "s", 10, &workflow(None)).await;
    journal.note(Noting::once(Millis(40), Note::Restored)).await.unwrap();
    all_sequenced(journal.evidence()).await;
    let head = sign(&*journal).await;
    journal.close().await;
    (bed.dir.unwrap(), head)
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What a verifier says of a store, place and all; nothing if all is well.
pub(super) async fn told(dir: &Path, since: &SignedHead) -> String {
    let store = match open(dir).await {
        Ok(store) => store,
        Err(refused) => return refused.to_string(),
    };
    let journal = store.journal();
    let against = Against { key: Some(pair().1), since: Some(since.clone()), ..Against::default() };
    let verified = verify(&*journal, &against, &|_| {}).await.unwrap();
    journal.close().await;
    let findings: Vec<_> = verified.findings.iter().map(ToString::to_string).collect();
    findings.join("\n")
}

/// Somebody who knows the stored form and has the disk.
pub(super) struct Forger(pub(super) Raw);

impl Forger {
    pub(super) fn at(dir: &Path) -> Self {
        Self(raw(dir))
    }

    fn entries(&self, run: &RunId) -> Vec<(Version, String)> {
        let prefix = keys::entries(&keys::pack(run).unwrap());
        let rows = self.0.scan_prefix(prefix).map(|row| {
            let (key, record) = row.unwrap();
            let (_, payload) = codec::unseal_chained(&key, &record).unwrap();
            let version = keys::read_entry(&key).unwrap().1;
            (version, String::from_utf8(payload.to_vec()).unwrap())
        });
        rows.collect()
    }

    fn prev(&self, run: &RunId, version: Version) -> Hash {
        let key = keys::entry(&keys::pack(run).unwrap(), version);
        let record = self.0.get(&key).unwrap().unwrap();
        codec::unseal_chained(&key, &record).unwrap().0.unwrap()
    }

    /// Puts an append in the place of another, with its checksum right.
    fn put(&self, run: &RunId, version: Version, prev: Hash, payload: &str) {
        let key = keys::entry(&keys::pack(run).unwrap(), version);
        let record = codec::seal_chained(&key, prev, payload.as_bytes());
        self.0.insert(key, record).unwrap();
    }

    /// Mends the chain of a run, up to its head; returns the links by version.
    fn relink(&self, run: &RunId) -> Vec<(Version, Hash)> {
        let mut link = chain::GENESIS;
        let mut links = Vec::new();
        for (version, payload) in self.entries(run) {
            self.put(run, version, link, &payload);
            link = chain::link(link, run, version, chain::payload(payload.as_bytes()));
            links.push((version, link));
        }
        let key = keys::head(&keys::pack(run).unwrap());
        let record = self.0.get(&key).unwrap().unwrap();
        let (_, payload) = codec::unseal_chained(&key, &record).unwrap();
        let record = codec::seal_chained(&key, link, payload);
        self.0.insert(key, record).unwrap();
        links
    }

    fn leaves(&self) -> Vec<String> {
        let rows = self.0.scan_prefix([keys::LEAF]);
        let tiles = rows.map(|row| row.unwrap());
        tiles
            .flat_map(|(key, record)| {
                codec::read_leaves(codec::unseal(&key, &record).unwrap()).unwrap()
            })
            .collect()
    }

    /// Writes a log of these leaves, with all its hashes right.
    fn put_leaves(&self, texts: &[String]) {
        for row in self.0.scan_prefix([keys::LEAF]) {
            self.0.remove(row.unwrap().0).unwrap();
        }
        let mut frontier = Frontier::default();
        for text in texts {
            let key = keys::leaf(frontier.size());
            let mut payload = Vec::new();
            codec::add_leaf(&mut payload, text);
            self.0.insert(&key, codec::seal(&key, &payload)).unwrap();
            frontier.push(leaf_hash(text.as_bytes()), |_, _, _| {});
        }
        let mut edge = frontier.size().to_be_bytes().to_vec();
        frontier.peaks().iter().for_each(|peak| edge.extend_from_slice(&peak.0));
        self.0.insert(keys::TREE, codec::seal(keys::TREE, &edge)).unwrap();
    }

    /// Mends the leaves of a run, and the tree over all of them.
    fn releaf(&self, run: &RunId, links: &[(Version, Hash)]) {
        let mended = self.leaves().into_iter().map(|text| match Leaf::parse(&text) {
            Some(Leaf::Entry { run: of, version, kinds, .. }) if of == *run => {
                match links.iter().find(|(at, _)| *at == version) {
                    Some((_, link)) => Leaf::Entry { run: of, version, kinds, link: *link }.text(),
                    None => text,
                }
            }
            _ => text,
        });
        self.put_leaves(&mended.collect::<Vec<_>>());
    }

    /// Mends as much as somebody this thorough does.
    fn mend(&self, run: &RunId, thorough: u64) {
        if thorough > 0 {
            let links = self.relink(run);
            if thorough > 1 {
                self.releaf(run, &links);
            }
        }
    }

    /// Takes a run away, with everything that hangs on it.
    pub(super) fn remove_run(&self, run: &RunId) {
        let packed = keys::pack(run).unwrap();
        for key in [keys::entries(&packed), keys::head(&packed)] {
            for row in self.0.scan_prefix(key) {
                self.0.remove(row.unwrap().0).unwrap();
            }
        }
    }

    pub(super) fn done(self) {
        self.0.flush().unwrap();
    }
}

/// What is forged, and what the finding must name.
#[expect(clippy::too_many_lines, reason = "one arm a forgery")]
fn forge(dir: &Path, other: &Path, draw: &mut Draw) -> (String, String) {
    let forger = Forger::at(dir);
    let run = run_id(1 + draw.below(DECIDED));
    let thorough = draw.below(3);
    let entries = forger.entries(&run);
    let change = |from: &str, to: &str| {
        let (version, payload) =
            entries.iter().find(|(_, payload)| payload.contains(from)).unwrap();
        forger.put(&run, *version, forger.prev(&run, *version), &payload.replacen(from, to, 1));
        forger.mend(&run, thorough);
    };
    // A tree that was mended whole agrees with itself, and with no head that was published.
    let place = if thorough > 1 { "leaves have another root".to_owned() } else { run.to_string() };
    let (what, place) = match draw.below(10) {
        0 => {
            change(r#""by":"ann""#, r#""by":"eve""#);
            ("another approver", place)
        }
        1 => {
            change(r#""approve""#, r#""reject""#);
            ("another answer", place)
        }
        2 => {
            change(r#""at":20"#, r#""at":21"#);
            ("another time", place)
        }
        3 => {
            let [(one, a), (other, b)] = [&entries[1], &entries[2]];
            forger.put(&run, *one, forger.prev(&run, *one), b);
            forger.put(&run, *other, forger.prev(&run, *other), a);
            forger.mend(&run, thorough);
            ("another order", run.to_string())
        }
        4 => {
            let gone = entries[1 + usize::try_from(draw.below(2)).unwrap()].0;
            forger.0.remove(keys::entry(&keys::pack(&run).unwrap(), gone)).unwrap();
            forger.mend(&run, thorough);
            ("an append removed", run.to_string())
        }
        5 => {
            forger.remove_run(&run);
            if thorough > 1 {
                let kept = forger.leaves().into_iter().filter(|text| !text.contains(run.as_str()));
                forger.put_leaves(&kept.collect::<Vec<_>>());
                ("a run removed with its leaves", "cut off".into())
            } else {
                ("a run removed", run.to_string())
            }
        }
        6 => {
            let mut kept = forger.leaves();
            kept.truncate(kept.len() - 1 - usize::try_from(draw.below(4)).unwrap());
            forger.put_leaves(&kept);
            ("the log cut off behind a published head", "cut off".into())
        }
        7 => {
            let (digest, json) = definition(&workflow(None));
            let key = keys::definition(&digest);
            let changed = json.replace("planner", "butler");
            forger.0.insert(&key, codec::seal(&key, changed.as_bytes())).unwrap();
            ("another definition under the digest", digest)
        }
        8 => {
            // The same run of another store, whole, chain and head and all.
            let theirs = Forger::at(other);
            let packed = keys::pack(&run).unwrap();
            for prefix in [keys::entries(&packed), keys::head(&packed)] {
                for row in theirs.0.scan_prefix(prefix) {
                    let (key, record) = row.unwrap();
                    forger.0.insert(key, record).unwrap();
                }
            }
            ("two stores mixed", run.to_string())
        }
        _ => {
            // An approval more, put in before the end, and all that follows moved up.
            let packed = keys::pack(&run).unwrap();
            let (last, payload) = entries.last().unwrap();
            let events = |payload: &str| {
                let told: serde_json::Value = serde_json::from_str(payload).unwrap();
                u64::try_from(told["events"].as_array().unwrap().len()).unwrap()
            };
            let (_, approval) = entries.iter().find(|(_, text)| text.contains("approve")).unwrap();
            forger.0.remove(keys::entry(&packed, *last)).unwrap();
            forger.put(&run, *last, forger.prev_or_head(&run), approval);
            forger.put(&run, last + events(approval), Hash::default(), payload);
            forger.mend(&run, thorough);
            ("an approval inserted", run.to_string())
        }
    };
    forger.done();
    (format!("{what}, thorough {thorough}, {run}"), place)
}

impl Forger {
    fn prev_or_head(&self, run: &RunId) -> Hash {
        self.entries(run).last().map_or(chain::GENESIS, |(version, _)| self.prev(run, *version))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_the_byte_is_named_at_which_a_journal_does_not_hold() {
    let (dir, head) = store("Booked.").await;
    let run = run_id(1);
    let forger = Forger::at(dir.path());
    let entries = forger.entries(&run);
    let at = entries.iter().position(|(_, payload)| payload.contains(r#""by":"ann""#)).unwrap();
    let byte: usize = entries[..at].iter().map(|(_, payload)| payload.len()).sum();
    let (version, payload) = &entries[at];
    let forged = payload.replace(r#""by":"ann""#, r#""by":"eve""#);
    forger.put(&run, *version, forger.prev(&run, *version), &forged);
    forger.done();
    let found = told(dir.path(), &head).await;
    let place = format!("run `{run}` at version {version}, byte {byte} of its journal: ");
    assert!(found.contains(&place), "{place} is not in {found}");
}

/// Numbers that look drawn, the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_every_forgery_of_one_who_knows_the_form_is_found_and_its_place_is_named() {
    let (dir, head) = store("Booked.").await;
    let (other, _) = store("Cancelled.").await;
    assert_eq!(told(dir.path(), &head).await, "", "nobody has touched it");
    let scratch = TempDir::new().unwrap();
    let mut draw = Draw(17);
    for number in 0..FORGERIES {
        let forged = scratch.path().join(number.to_string());
        copy(dir.path(), &forged);
        let (what, place) = forge(&forged, other.path(), &mut draw);
        let told = told(&forged, &head).await;
        assert!(told.contains(&place), "{number}: {what}: `{place}` is not named:\n{told}");
        fs::remove_dir_all(&forged).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_store_put_back_behind_a_published_head_is_found_and_one_that_went_on_is_not() {
    let (dir, early) = store("Booked.").await;
    let earlier = TempDir::new().unwrap();
    copy(dir.path(), earlier.path());
    let journal = open(dir.path()).await.unwrap().journal();
    let mut play = Play::park(&*journal, 91, "s", 50, &workflow(None)).await;
    play.finish(&*journal, 60).await;
    all_sequenced(journal.evidence()).await;
    let late = sign(&*journal).await;
    journal.close().await;
    assert!(late.head.size > early.head.size);
    assert_eq!(told(dir.path(), &early).await, "", "it only grew");
    let found = told(earlier.path(), &late).await;
    assert!(found.contains("the head from outside") && found.contains("cut off"), "{found}");

    let (pair, _) = pair();
    let stranger =
        VerifyKey::new("holdpoint/stranger", pair.public_key().as_ref().try_into().unwrap());
    let body = note::body("holdpoint/stranger", late.head);
    let note = note::signed(&body, &stranger.unwrap(), pair.sign(body.as_bytes()).as_ref());
    let found = told(dir.path(), &SignedHead::parse(&note).unwrap()).await;
    assert!(found.contains("it is of the log `holdpoint/stranger`"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_place_in_the_log_that_was_taken_away_is_found() {
    let (dir, head) = store("Booked.").await;
    let forger = Forger::at(dir.path());
    let entry = forger.leaves().iter().find_map(|text| Leaf::parse(text)).unwrap();
    let Place::Entry(run, version) = entry.place() else { panic!("{entry:?}") };
    let key = keys::new_runs(&keys::pack(&run).unwrap());
    forger.0.remove(key).unwrap().expect("new runs are told together");
    forger.done();
    let found = told(dir.path(), &head).await;
    assert!(found.contains(&format!("run `{run}` at version {version}, byte ")), "{found}");
    assert!(found.contains("of its journal: no leaf says"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_entries_of_the_stores_own_log_are_not_forgotten_before_it_is_full() {
    let (dir, head) = store("Booked.").await;
    let forger = Forger::at(dir.path());
    let record = forger.0.get(keys::LOG_ENDS).unwrap().unwrap();
    let mut ends: serde_json::Value = codec::unseal_json(keys::LOG_ENDS, &record).unwrap();
    // Whoever takes an entry away says that it was forgotten.
    let raised = raise_first(&mut ends);
    assert!(raised, "{ends}");
    forger.0.insert(keys::LOG_ENDS, codec::seal_json(keys::LOG_ENDS, &ends).unwrap()).unwrap();
    for row in forger.0.scan_prefix([keys::LOG]) {
        forger.0.remove(row.unwrap().0).unwrap();
    }
    forger.done();
    let found = told(dir.path(), &head).await;
    assert!(found.contains("the store's own log (deeds)") && found.contains("gone"), "{found}");
}

/// Has a lane begin after its last entry.
fn raise_first(ends: &mut serde_json::Value) -> bool {
    let Some(lane) = ends.get_mut("deeds") else { return false };
    let next = lane["next"].clone();
    lane["first"] = next;
    !lane["first"].is_null()
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_what_was_written_over_behind_a_signed_head_is_not_signed_by_the_next_server() {
    let (dir, _) = store("Booked.").await;
    let root = TempDir::new().unwrap();
    let key = root.path().join("audit.pem");
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{PAIR}\n-----END PRIVATE KEY-----\n");
    fs::write(&key, pem).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    for is_forged in [false, true] {
        let data = root.path().join("data");
        drop(fs::remove_dir_all(&data));
        copy(dir.path(), &data);
        if is_forged {
            let (forger, run) = (Forger::at(&data), run_id(1));
            let entries = forger.entries(&run);
            let (version, payload) = entries.iter().find(|(_, it)| it.contains("Booked.")).unwrap();
            let changed = payload.replace("Booked.", "Wired!!");
            forger.put(&run, *version, forger.prev(&run, *version), &changed);
            forger.mend(&run, 2);
            forger.done();
        }
        let setup = Setup::new(root.path()).arg(&format!("--audit-key={}", key.display()));
        let server = setup.arg("--audit-seconds=1").start();
        // What the server itself has noted is signed, or is told not to be.
        let is_settled = || {
            let page = server.page("/metrics").1;
            let signed =
                page.lines().find_map(|line| line.strip_prefix("holdpoint_heads_signed_total "));
            signed.is_some_and(|count| count != "0")
                || server.page("/readyz").1.contains("gone back in time")
        };
        while !is_settled() {
            tokio::task::yield_now().await;
        }
        let told = server.page("/readyz").1;
        assert_eq!(told.contains("gone back in time"), is_forged, "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_a_place_in_the_log_is_missed_though_the_leaf_before_it_is_of_the_same_run() {
    let bed = Bed::sled().await;
    bed.define().await;
    let journal = bed.journal();
    let mut play = Play::park(&*journal, 1, "s", 10, &workflow(None)).await;
    journal.append(play.approve(20)).await.unwrap();
    all_sequenced(journal.evidence()).await;
    journal.append(play.speak("Booked.", 30)).await.unwrap();
    all_sequenced(journal.evidence()).await;
    let head = sign(&*journal).await;
    journal.close().await;
    assert_eq!(told(bed.path(), &head).await, "");

    let forger = Forger::at(bed.path());
    let leaves = forger.leaves();
    let [decided, ended] = [0, 1].map(|at| Leaf::parse(&leaves[at]).unwrap().place());
    let [of_decided, of_ended] =
        [&decided, &ended].map(|place| keys::leaf_place(keys::LEAF_INDEX, place).unwrap());
    let kept = forger.0.remove(&of_ended).unwrap().expect("each batch tells its own");
    forger.done();
    let found = told(bed.path(), &head).await;
    assert!(found.contains(&ended.to_string()) && found.contains("no leaf says"), "{found}");
    assert!(!found.contains(&decided.to_string()), "{found}");

    // And one that names another's place.
    let forger = Forger::at(bed.path());
    forger.0.insert(&of_ended, kept).unwrap();
    forger.0.insert(&of_decided, codec::seal(&of_decided, &1_u64.to_be_bytes())).unwrap();
    forger.done();
    let found = told(bed.path(), &head).await;
    assert!(found.contains(&decided.to_string()) && found.contains("says otherwise"), "{found}");
}

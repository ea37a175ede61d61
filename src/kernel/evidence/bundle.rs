//! Bundle: one run with all that proves it, as one file: its journal exactly as it was hashed, its definition,
//! its leaves with their proofs, and a signed head. Whoever has it needs nothing of us but the public key.
//!
//! It proves that the run is as it was when the head was signed. Whether what is in it is true of the world
//! is not known here.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::evidence::decided::{Cancelled, Decided, Trail};
use crate::kernel::evidence::handover::{self, Handover};
use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::note::{SignedHead, VerifyKey};
use crate::kernel::evidence::walk::{Entry, Step, Walk};
use crate::kernel::evidence::{Finding, Hash, is_definition, tree, whole_digest};
use crate::kernel::{RunId, Version, strict};

/// How an export of a whole store begins: it is no bundle, and whoever takes it for one is told.
const EXPORT: &str = r#"{"header":{"format":"holdpoint-export""#;

/// What the file calls itself.
pub const FORMAT: &str = "holdpoint-bundle";
/// The version of its form.
pub const VERSION: u32 = 1;

/// One run with all that proves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// What it is.
    pub format: String,
    /// The version of its form.
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// The definition it ran by.
    pub definition: Definition,
    /// Its journal.
    pub entries: Vec<Entry>,
    /// Its leaves.
    pub leaves: Vec<Proven>,
    /// The signed head that the proofs lead to; none where nothing was signed yet.
    #[serde(default)]
    pub head: Option<String>,
    /// The key that the store says its heads are signed with. Whoever checks has it from elsewhere.
    #[serde(default)]
    pub key: Option<String>,
    /// The keys that have signed before it, and their word on which came next; the first first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Handover>,
}

/// A definition and its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The digest.
    pub digest: String,
    /// The definition, as it is stored.
    pub json: String,
}

/// A leaf, with its proof where there is one yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// What is hashed.
    pub text: String,
    /// Its place in the log; none as long as it has none.
    #[serde(default)]
    pub index: Option<u64>,
    /// The hashes that lead from it to the head's root.
    #[serde(default)]
    pub proof: Vec<Hash>,
}

/// What a bundle came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Events of the run.
    pub events: Version,
    /// Up to which version an earlier build wrote them, without a chain.
    pub unchained: Version,
    /// Leaves that are proven to be in the log that was signed.
    pub proven: usize,
    /// Leaves that came after the head, and are not proven yet.
    pub unproven: usize,
    /// Events after the last that a proven leaf holds: anybody can have put them there.
    pub unproven_events: Version,
    /// Whether the run is over. Where it is not, it may have gone on: nobody can prove that nothing came later.
    pub is_over: bool,
    /// Hidden values that are left out, secrets and what would tell them: their hashes are there.
    pub left_out: usize,
    /// Who decided what, the first first.
    pub decided: Vec<Decided>,
    /// Who cancelled the run, if somebody did.
    pub cancelled: Option<Cancelled>,
    /// The head, if there is one.
    pub head: Option<SignedHead>,
    /// Whose signature it has; none without a key or a head.
    pub signer: Option<VerifyKey>,
}

impl Bundle {
    /// Reads a file. Says what is wrong with one that is none.
    pub fn read(text: &str) -> Result<Self, Finding> {
        let wrong = |what: String| Finding::new("the file", what);
        let none = |error: &str| {
            let what = format!(
                "it is no bundle and no receipt, or was cut short: {error}; `holdpoint export --run` and `holdpoint receipt` write them"
            );
            wrong(what)
        };
        if text.starts_with(EXPORT) {
            return Err(wrong(
                "it is an export of a whole store, which `holdpoint import` checks as it reads it, before it writes anything; \
                 `verify` of the store that it came from, or of the one that it was imported into, checks what was decided"
                    .into(),
            ));
        }
        // Of two members of one name one program reads the first and another the last.
        let value = strict::read(text.as_bytes()).map_err(|misread| none(&misread.to_string()))?;
        if !is_of_objects(&value) {
            return Err(none("expected objects, with the names of their members"));
        }
        let bundle: Self =
            serde_json::from_value(value).map_err(|error| none(&error.to_string()))?;
        if bundle.format != FORMAT || bundle.version != VERSION {
            let (format, version) = (&bundle.format, bundle.version);
            return Err(wrong(format!(
                "it is a `{format}` of version {version}, and this program reads `{FORMAT}` of version {VERSION}"
            )));
        }
        Ok(bundle)
    }

    /// Checks all of it, and says at which place it does not hold. Without a key no signature is looked at.
    pub fn check(&self, key: Option<&VerifyKey>) -> Result<Verdict, Finding> {
        let head = self.head.as_deref().map(SignedHead::parse).transpose();
        let head = head.map_err(|what| Finding::new("the signed head", what))?;
        let signer = match (&head, key) {
            (Some(head), Some(key)) => Some(handover::signer_in_file(head, key, &self.keys)?),
            (_, _) => None,
        };
        handover::refuse_rubbish(&self.keys)?;
        let (mut walk, mut trail) = (Walk::new(&self.run), Trail::new(&self.run));
        let mut steps = Vec::new();
        for entry in &self.entries {
            let mut step = walk.take_by_form(entry)?;
            self.refuse_ambiguous(entry)?;
            trail.take(entry, &step);
            step.events = Vec::new();
            steps.push(step);
        }
        self.check_definition(steps.first())?;
        self.check_leaves(&steps, walk.unchained())?;
        let proven = self.check_proofs(head.as_ref())?;
        let unproven = self.leaves.len() - proven.len();
        let left_out = steps.iter().map(|step| step.left_out).sum();
        let (events, unchained) = (walk.version(), walk.unchained());
        // A leaf holds the whole append that it speaks of, and by the chain all before it.
        let ends = steps.iter().skip(1).map(|step| step.version - 1).chain([events]);
        let held = steps.iter().zip(ends).filter(|(step, end)| {
            let is_anchored =
                |leaf: &Leaf| matches!(leaf, Leaf::Anchor { version, .. } if version == end);
            proven.iter().any(|leaf| {
                is_anchored(leaf) || leaf.place() == Place::Entry(self.run.clone(), step.version)
            })
        });
        let held = held.map(|(_, end)| end).max().unwrap_or_default();
        // What nobody has signed may be anything; what was signed, and cannot be read, says nothing here.
        let mut signed = steps.iter().filter(|step| step.version <= held);
        if let Some(finding) = signed.find_map(|step| step.unread.clone()) {
            return Err(finding);
        }
        let (proven, unproven_events) = (proven.len(), events - held);
        let held = if signer.is_some() { held } else { 0 };
        let (decided, cancelled) = self.placed(trail.ended(), unchained, held);
        let is_over = steps.last().is_some_and(|step| step.kinds.has_end());
        Ok(Verdict {
            events,
            unchained,
            proven,
            unproven,
            unproven_events,
            is_over,
            left_out,
            decided,
            cancelled,
            head,
            signer,
        })
    }

    /// What was decided, and who cancelled: each with its leaf and whether that is held.
    fn placed(
        &self,
        (mut decided, mut cancelled): (Vec<Decided>, Option<Cancelled>),
        unchained: Version,
        held: Version,
    ) -> (Vec<Decided>, Option<Cancelled>) {
        let places = self.leaves.iter().filter_map(|leaf| {
            let version = Leaf::parse(&leaf.text)?.version()?.1;
            Some((version, leaf.index))
        });
        let places: BTreeMap<Version, Option<u64>> = places.collect();
        let place = |append: Version| {
            // What an earlier build wrote has one leaf for all of it.
            let leaf = if append <= unchained { unchained } else { append };
            places.get(&leaf).map(|index| (leaf, *index))
        };
        for one in &mut decided {
            (one.leaf, one.is_proven) = (place(one.append), one.version <= held);
        }
        if let Some(one) = &mut cancelled {
            (one.leaf, one.is_proven) = (place(one.append), one.version <= held);
        }
        (decided, cancelled)
    }

    /// The same without its secrets: it proves what it proved.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        self.entries.iter_mut().for_each(|entry| entry.secrets.clear());
        self
    }

    /// Refuses a payload that says one thing twice: what is told of it would be what one program reads.
    fn refuse_ambiguous(&self, entry: &Entry) -> Result<(), Finding> {
        let what = match strict::read(entry.payload.as_bytes()) {
            Ok(Value::Object(_)) => return Ok(()),
            Ok(_) => "its bytes are no object".to_owned(),
            Err(misread) => misread.to_string(),
        };
        Err(Finding::new(format!("run `{}` at version {}", self.run, entry.version), what))
    }

    fn check_definition(&self, first: Option<&Step>) -> Result<(), Finding> {
        let Definition { digest, json } = &self.definition;
        let wrong = |what: &str| Err(Finding::new(format!("definition `{digest}`"), what));
        let Some(named) = first.and_then(|step| step.definition.as_deref()) else {
            return Err(Finding::new(
                format!("run `{}` at version 1", self.run),
                "the event is missing",
            ));
        };
        if named != digest {
            return wrong("the run was begun by another one");
        }
        if !is_definition(digest, json) {
            return wrong("what lies under this digest has another one");
        }
        Ok(())
    }

    /// Every append of weight has its leaf, and every leaf its append.
    fn check_leaves(&self, steps: &[Step], unchained: Version) -> Result<(), Finding> {
        let mut expected: Vec<_> = steps
            .iter()
            .filter(|step| !step.kinds.is_nothing() && step.version > unchained)
            .map(|step| Leaf::entry(self.run.clone(), step.version, step.kinds, step.link).text())
            .collect();
        if unchained > 0 {
            let last = steps.iter().rfind(|step| step.version <= unchained);
            let (run, version) = (self.run.clone(), unchained);
            let link = last.map_or_else(Hash::default, |step| step.link);
            let definition = whole_digest(&self.definition.json).unwrap_or_default();
            expected.insert(0, Leaf::Anchor { run, version, link, definition }.text());
        }
        for text in &expected {
            if !self.leaves.iter().any(|leaf| leaf.text == *text) {
                let place = Leaf::parse(text).map(|leaf| leaf.place());
                let place = place.unwrap_or_else(|| Place::Entry(self.run.clone(), 0));
                return Err(Finding::new(place.to_string(), "no leaf says what it says"));
            }
        }
        // One that is there twice would be counted twice among what is proven.
        let mut told = BTreeSet::new();
        for leaf in &self.leaves {
            let what = if !expected.contains(&leaf.text) {
                "nothing in the journal is behind it"
            } else if !told.insert(&leaf.text) {
                "it is there twice"
            } else {
                continue;
            };
            return Err(Finding::new("a leaf", format!("{what}: {}", leaf.text)));
        }
        Ok(())
    }

    /// The leaves that the head is proven to hold; the others came after it.
    fn check_proofs(&self, head: Option<&SignedHead>) -> Result<Vec<Leaf>, Finding> {
        let Some(head) = head.map(|signed| signed.head) else { return Ok(Vec::new()) };
        let mut proven = Vec::new();
        for leaf in &self.leaves {
            let Some(index) = leaf.index.filter(|index| *index < head.size) else { continue };
            let hash = tree::leaf_hash(leaf.text.as_bytes());
            if tree::led_to(hash, index, head.size, &leaf.proof) != Some(head.root) {
                let place = format!("leaf {index}");
                return Err(Finding::new(place, "its proof does not lead to the signed head"));
            }
            proven.extend(Leaf::parse(&leaf.text));
        }
        Ok(proven)
    }
}

/// Whether what should be objects are objects: a list with the same values in their order would be read as well.
fn is_of_objects(bundle: &Value) -> bool {
    let entries = || items(bundle, "entries");
    let apart = entries().flat_map(|entry| items(entry, "secrets"));
    let others = items(bundle, "leaves").chain(items(bundle, "keys")).chain(apart);
    let mut all = entries().chain(others).chain(bundle.get("definition")).chain([bundle]);
    all.all(Value::is_object)
}

fn items<'a>(value: &'a Value, name: &'static str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kernel::evidence::chain;

    const RUN: &str = "run_01k9zq3v7m8n4p5r6s7t8v9w0x";

    /// A run in which one question was answered, without a head.
    fn bundle() -> Value {
        let definition = r#"{"name":"pay"}"#;
        let digest = whole_digest(definition).unwrap();
        let asked = json!({"at": 10, "events": [
            {"started": {"session": "ses_01k9zq3v7m8n4p5r6s7t8v9w0x", "workflow": "pay", "definition": digest,
                "owner": "ann", "door": "cli", "input": "Go.", "seed": "5eed", "epoch": "e"}},
            {"asked": {"ordinal": 1, "step": "ask", "origin": "human_step", "kind": "approval", "prompt": "Pay?",
                "subject": {"shown": "five"}}},
        ]});
        let run = RunId::parse(RUN).unwrap();
        let read = |payload: &Value, version, prev| Entry {
            version,
            prev: Some(prev),
            payload: payload.to_string(),
            secrets: Vec::new(),
        };
        let first = read(&asked, 1, chain::GENESIS);
        // The digest of what was shown, as the journal itself has it.
        let mut walk = Walk::new(&run);
        let step = walk.take(&first).unwrap();
        let shown = digest_of(&step.events);
        let answered = json!({"at": 20, "events": [
            {"answered": {"ordinal": 1, "value": {"decision": "approve"}, "by": "bob", "door": "http", "shown": shown}},
        ]});
        let second = read(&answered, 3, walk.link());
        let step = walk.take(&second).unwrap();
        let text = Leaf::entry(run, 3, step.kinds, step.link).text();
        json!({
            "format": FORMAT, "version": VERSION, "run": RUN,
            "definition": {"digest": digest, "json": definition},
            "entries": [first, second], "leaves": [{"text": text, "index": null, "proof": []}],
        })
    }

    fn digest_of(events: &[crate::kernel::Event]) -> String {
        let [crate::kernel::Event::Started(started), crate::kernel::Event::Asked(question)] =
            events
        else {
            panic!("{events:?}")
        };
        started.sealed(&RunId::parse(RUN).unwrap(), question, crate::kernel::Millis(10)).digest
    }

    #[test]
    fn j13_a_bundle_says_who_decided_what_and_whether_that_is_what_was_shown() {
        let verdict = Bundle::read(&bundle().to_string()).unwrap().check(None).unwrap();
        let [one] = verdict.decided.as_slice() else { panic!("{:?}", verdict.decided) };
        assert_eq!((one.by.as_str(), one.door.as_str(), one.at.0), ("bob", "http", 20));
        assert_eq!((one.version, one.act.word(), one.leaf), (3, "answered", Some((3, None))));
        assert_eq!(one.value, Some(json!({"decision": "approve"})));
        assert_eq!(one.asked.as_ref().unwrap().prompt, "Pay?");
        assert_eq!((one.is_as_asked, one.is_copied), (Some(true), false));
        assert!(!one.is_proven, "no head holds it");
        assert_eq!(verdict.cancelled, None);
    }

    #[test]
    fn j13_a_bundle_says_who_cancelled_its_run_and_why() {
        let mut cancelled = bundle();
        let run = RunId::parse(RUN).unwrap();
        let mut walk = Walk::new(&run);
        for entry in cancelled["entries"].as_array().unwrap() {
            walk.take(&serde_json::from_value(entry.clone()).unwrap()).unwrap();
        }
        let payload = json!({"at": 30, "events": [
            {"cancelled": {"by": "eve", "reason": "too dear", "door": "grpc"}},
        ]});
        let (prev, payload) = (Some(walk.link()), payload.to_string());
        let entry = Entry { version: 4, prev, payload, secrets: Vec::new() };
        let step = walk.take(&entry).unwrap();
        let text = Leaf::entry(run, 4, step.kinds, step.link).text();
        cancelled["entries"].as_array_mut().unwrap().push(json!(entry));
        let leaf = json!({"text": text, "index": null, "proof": []});
        cancelled["leaves"].as_array_mut().unwrap().push(leaf);
        let verdict = Bundle::read(&cancelled.to_string()).unwrap().check(None).unwrap();
        let told = verdict.cancelled.unwrap();
        assert_eq!((&*told.by, &*told.reason, &*told.door), ("eve", "too dear", "grpc"));
        assert_eq!((told.version, told.at.0, told.leaf), (4, 30, Some((4, None))));
        assert!(!told.is_proven, "no head holds it");
        assert_eq!(verdict.decided.len(), 1, "and nobody had asked for it");
    }

    #[test]
    fn j13_a_bundle_that_says_one_thing_twice_or_has_lists_for_objects_is_none() {
        let whole = bundle();
        let text = whole.to_string();
        let huge = format!("\"x\": {},", "9".repeat(5_000));
        for more in ["\"x\": 1, \"x\": 2,", "\"x\": [{\"y\": 1, \"y\": 2}],", &huge] {
            let odd = text.replacen('{', &format!("{{{more}"), 1);
            assert!(Bundle::read(&odd).is_err(), "{more:.30}");
        }
        let definition = &whole["definition"];
        for (name, value) in [
            ("definition", json!([definition["digest"], definition["json"]])),
            ("leaves", json!([[whole["leaves"][0]["text"]]])),
            ("keys", json!([["a", "b", ""]])),
            ("keys", Value::Null),
            ("key", json!(7)),
            ("head", json!([])),
        ] {
            let mut odd = whole.clone();
            odd[name] = value.clone();
            assert!(Bundle::read(&odd.to_string()).is_err(), "{name}: {value}");
        }
        for secrets in [json!({}), json!(""), Value::Null, json!([["salt", "1"]])] {
            let mut odd = whole.clone();
            odd["entries"][0]["secrets"] = secrets.clone();
            assert!(Bundle::read(&odd.to_string()).is_err(), "{secrets}");
        }
        let mut empty = whole;
        empty["head"] = "".into();
        assert!(Bundle::read(&empty.to_string()).unwrap().check(None).is_err());
    }
}

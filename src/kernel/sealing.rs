//! Sealing: what binds a question to exactly what was shown: a nonce that nobody can guess, and the digest
//! over everything that a person decides by and on. What is asked is `question`'s.
//!
//! - **K3** What was shown is what happens: an answer is accepted only against this digest.

use serde_json::{Value, json};

use crate::kernel::canonical;
use crate::kernel::deed::Deed;
use crate::kernel::digest;
use crate::kernel::graph::Frozen;
use crate::kernel::id::{RequestId, RunId, Tail};
use crate::kernel::question::{Origin, Question, Subject};
use crate::kernel::time::Millis;

/// Hexadecimal digits of a nonce: 128 bits.
const NONCE_CHARS: usize = 32;
/// How a seed begins whose nonces are drawn from when something was asked, too. A store that has gone back in time has the
/// seed again, and asks something else in the place of what it lost: that must not have its id. Seeds of earlier builds
/// begin otherwise, and their questions keep the ids that people hold.
const TIMED: &str = "2.";

/// What a question belongs to, as far as its digest tells of it.
#[derive(Debug, Clone, Copy)]
pub struct Belongs<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The digest of the definition that it follows.
    pub definition: &'a str,
    /// Who asked for it.
    pub requesters: &'a [String],
    /// What the run's nonces are drawn from.
    pub seed: &'a str,
    /// The epoch of the store that it is asked in; empty before stores had one.
    pub epoch: &'a str,
}

impl Question {
    /// The question's id in `run`.
    pub fn id(&self, run: &RunId) -> RequestId {
        RequestId { run: run.clone(), ordinal: self.ordinal, tail: self.tail() }
    }

    /// The end of that.
    pub(super) fn tail(&self) -> Option<Tail> {
        tail(&self.nonce)
    }

    /// What its yes releases, to be compared before it is sent.
    fn deed(&self) -> Option<&Deed> {
        if let Some(Subject::Task(Frozen::Tool { deed, .. })) = self.subject.as_deref() {
            return deed.as_deref();
        }
        let Origin::Gate(call) = &self.origin else { return None };
        call.deed.as_deref()
    }

    /// Sets what cannot be guessed of it, and the digest of everything it is (K3). When it was asked is set before.
    pub fn seal(&mut self, of: Belongs<'_>) {
        self.nonce = nonce(of.seed, self.ordinal, self.asked_at);
        self.digest = self.digest_of(of);
    }

    /// Whether its digest is that of what it says (K3). Its nonce is taken as it is: what that was drawn from is the
    /// journal's secret.
    pub fn is_sealed(&self, of: Belongs<'_>) -> bool {
        self.digest == self.digest_of(of)
    }

    /// The digest of what a person decides by and on (K3): RFC 8785's form of it, by SHA-256.
    fn digest_of(&self, of: Belongs<'_>) -> String {
        let options = self.options.iter();
        let options = options.map(|option| json!([option.id, option.label, option.description]));
        let mut form = Form::default();
        // Their names are in order, as the form wants it. What releases no call has no deed, what cannot be edited
        // says nothing of versions, and what was asked before stores had an epoch has none: all are known by the
        // digests that they had.
        form.list(
            "approvers",
            self.stages.iter().map(|it| serde_json::to_value(it).unwrap_or_default()),
        );
        form.value("context", &self.context);
        form.value("decides", &Value::Bool(self.decides()));
        if let Some(deed) = self.deed() {
            form.text("deed", &deed.digest);
        }
        form.text("definition", of.definition);
        if let Some(editable) = self.editable.as_ref().filter(|it| !it.is_null()) {
            form.value("editable", editable);
        }
        if !of.epoch.is_empty() {
            form.text("epoch", of.epoch);
        }
        form.text("kind", self.kind.word());
        form.text("nonce", &self.nonce);
        form.list("options", options);
        form.text("prompt", &self.prompt);
        form.value("request", &Value::from(self.ordinal));
        form.list("requesters", of.requesters.iter().map(|who| Value::from(who.as_str())));
        form.text("run", of.run.as_str());
        form.value("schema", self.schema.as_ref().unwrap_or(&Value::Null));
        form.text("step", &self.step);
        form.value("subject", &self.shown_salted());
        if let Some(named) = &self.named {
            form.list(
                "type",
                [&named.name, &named.title].into_iter().map(|it| Value::from(it.as_str())),
            );
        }
        form.list("verbs", self.verbs().into_iter().map(|verb| Value::from(verb.word())));
        form.digest()
    }
}

/// An object in RFC 8785's form, as it is written: every question is one, so nothing is made for it that
/// need not be.
struct Form(Vec<u8>);

impl Default for Form {
    fn default() -> Self {
        Self(Vec::with_capacity(1_024))
    }
}

impl Form {
    fn name(&mut self, name: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        canonical::write_text(name, &mut self.0);
        self.0.push(b':');
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        canonical::write_text(text, &mut self.0);
    }

    fn value(&mut self, name: &str, value: &Value) {
        self.name(name);
        canonical::write(value, &mut self.0);
    }

    fn list(&mut self, name: &str, items: impl Iterator<Item = Value>) {
        self.name(name);
        self.0.push(b'[');
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            canonical::write(&item, &mut self.0);
        }
        self.0.push(b']');
    }

    fn digest(mut self) -> String {
        self.0.push(b'}');
        digest::of_bytes(&self.0)
    }
}

/// What a run's nonces are drawn from, by what nobody can guess.
pub fn seed(secret: &str) -> String {
    format!("{TIMED}{secret}")
}

/// What nobody can guess of a run's question; nothing, in runs that began before there was a seed.
fn nonce(seed: &str, ordinal: u32, asked_at: Millis) -> String {
    if seed.is_empty() {
        return String::new();
    }
    let at = if seed.starts_with(TIMED) { format!(" {}", asked_at.0) } else { String::new() };
    let from = format!("holdpoint nonce {seed} {ordinal}{at}");
    let mut nonce = digest::of_bytes(from.as_bytes());
    nonce.truncate(NONCE_CHARS);
    nonce
}

/// The end of the id of a question with that nonce.
fn tail(nonce: &str) -> Option<Tail> {
    // Two hexadecimal digits for each of its letters.
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let mut bytes = [0; Tail::CHARS];
    let pairs = nonce.as_bytes().chunks_exact(2);
    for (place, pair) in bytes.iter_mut().zip(pairs) {
        *place = byte(pair)?;
    }
    (!nonce.is_empty()).then(|| Tail::of(&bytes))
}

//! Sealing: what binds a question to exactly what was shown: a nonce that nobody can guess, and the digest
//! over everything that a person decides by and on. What is asked is `question`'s.
//!
//! - **K3** What was shown is what happens: an answer is accepted only against this digest.

use serde_json::{Value, json};

use crate::kernel::canonical;
use crate::kernel::deed::Deed;
use crate::kernel::digest;
use crate::kernel::graph::Frozen;
use crate::kernel::id::{RunId, Tail};
use crate::kernel::question::{Origin, Question, Subject};
use crate::kernel::secret;

/// Hexadecimal digits of a nonce: 128 bits.
const NONCE_CHARS: usize = 32;

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
    /// What its yes releases, to be compared before it is sent.
    fn deed(&self) -> Option<&Deed> {
        if let Some(Subject::Task(Frozen::Tool { deed, .. })) = self.subject.as_deref() {
            return deed.as_deref();
        }
        let Origin::Gate(call) = &self.origin else { return None };
        call.deed.as_deref()
    }

    /// Sets what cannot be guessed of it, and the digest of everything it is (K3).
    pub fn seal(&mut self, of: Belongs<'_>) {
        self.nonce = nonce(of.seed, self.ordinal);
        self.digest = self.digest_of(of);
    }

    /// The digest of what a person decides by and on (K3): RFC 8785's form of it, by SHA-256.
    fn digest_of(&self, of: Belongs<'_>) -> String {
        let mut out = Vec::with_capacity(1_024);
        let approvers = serde_json::to_value(&self.stages).unwrap_or_default();
        let options = self.options.iter();
        let options = options.map(|option| json!([option.id, option.label, option.description]));
        let verbs = self.verbs().into_iter().map(|verb| Value::from(verb.word()));
        let parts = [
            ("approvers", &approvers),
            ("context", &self.context),
            ("decides", &Value::Bool(self.decides())),
            ("deed", &self.deed().map_or(Value::Null, |deed| deed.digest.as_str().into())),
            ("definition", &Value::from(of.definition)),
            ("editable", self.editable.as_ref().unwrap_or(&Value::Null)),
            ("epoch", &Value::from(of.epoch)),
            ("kind", &Value::from(self.kind.word())),
            ("nonce", &Value::from(self.nonce.as_str())),
            ("options", &Value::Array(options.collect())),
            ("prompt", &Value::from(self.prompt.as_str())),
            ("request", &Value::from(self.ordinal)),
            ("requesters", &Value::from(of.requesters)),
            ("run", &Value::from(of.run.as_str())),
            ("schema", self.schema.as_ref().unwrap_or(&Value::Null)),
            ("step", &Value::from(self.step.as_str())),
            ("subject", &self.shown_with(&|it| secret::salted(it, &self.nonce))),
            ("verbs", &Value::Array(verbs.collect())),
        ];
        // Their names are in order already, as the form wants it. What releases no call has no deed, what
        // cannot be edited says nothing of versions, and what was asked before stores had an epoch has none:
        // all are known by the digests that they had.
        let is_kept = |name: &str, part: &Value| match name {
            "deed" | "editable" => !part.is_null(),
            "epoch" => !of.epoch.is_empty(),
            _name => true,
        };
        let parts = parts.into_iter().filter(|(name, part)| is_kept(name, part));
        for (index, (name, part)) in parts.enumerate() {
            out.push(if index == 0 { b'{' } else { b',' });
            canonical::write_text(name, &mut out);
            out.push(b':');
            canonical::write(part, &mut out);
        }
        out.push(b'}');
        digest::of_bytes(&out)
    }
}

/// What nobody can guess of a run's question; nothing, in runs that began before there was a seed.
fn nonce(seed: &str, ordinal: u32) -> String {
    if seed.is_empty() {
        return String::new();
    }
    let mut nonce = digest::of_bytes(format!("holdpoint nonce {seed} {ordinal}").as_bytes());
    nonce.truncate(NONCE_CHARS);
    nonce
}

/// The end of the id of a question with that nonce.
pub(super) fn tail(nonce: &str) -> Option<Tail> {
    // Two hexadecimal digits for each of its letters.
    let bytes: Option<Vec<u8>> = (nonce.as_bytes().chunks_exact(2))
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| Tail::of(&bytes))
}

/// The end of the id of a run's question, by what its nonces are drawn from.
pub(super) fn tail_of(seed: &str, ordinal: u32) -> Option<Tail> {
    tail(&nonce(seed, ordinal))
}

//! Walk: goes along the appends of one run, as they were stored, and says at which of them the chain does not
//! hold. It looks at bytes and at what weighs; whether the events make sense together is for a replay to say.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::evidence::leaf::Kinds;
use crate::kernel::evidence::{Finding, Hash, chain};
use crate::kernel::{Apart, Event, Millis, RunId, Version};

/// One append, exactly as it was hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of its first event.
    pub version: Version,
    /// The link of the append before it; none where an earlier build wrote it.
    #[serde(default)]
    pub prev: Option<Hash>,
    /// Its bytes: when, and the events, as JSON.
    pub payload: String,
    /// What stands apart from them; nothing where it was left out, or there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Apart>,
}

/// What the bytes of an append say.
#[derive(Debug, Deserialize)]
struct Told<E> {
    at: Millis,
    events: Vec<E>,
    /// The hashes of what stands apart.
    #[serde(default)]
    secrets: Vec<Hash>,
}

/// The same, as far as it is read here.
#[derive(Debug)]
struct Read {
    told: Told<Event>,
    /// How many events there are.
    count: usize,
    kinds: Kinds,
    /// The digest of the definition, where the first event begins a run.
    definition: Option<String>,
    /// Why the events themselves could not be read, where they have the form of events.
    unread: Option<serde_json::Error>,
}

impl Read {
    fn of(payload: &str) -> Result<Self, serde_json::Error> {
        let told: Told<Event> = match serde_json::from_str(payload) {
            Ok(told) => told,
            Err(error) => return Self::by_form(payload, error),
        };
        let definition = if let Some(Event::Started(started)) = told.events.first() {
            Some(started.definition.clone())
        } else {
            None
        };
        let (count, kinds) = (told.events.len(), Kinds::of(&told.events));
        Ok(Self { told, count, kinds, definition, unread: None })
    }

    /// What can be said of events without reading them: each is a name, alone or with one thing that it says.
    fn by_form(payload: &str, error: serde_json::Error) -> Result<Self, serde_json::Error> {
        let Ok(Told { at, events, secrets }) = serde_json::from_str::<Told<Value>>(payload) else {
            return Err(error);
        };
        let Some(named) = events.iter().map(named).collect::<Option<Vec<_>>>() else {
            return Err(error);
        };
        let begun = named.first().filter(|(name, _)| *name == "started");
        let definition = begun.and_then(|(_, body)| Some(body.get("definition")?.as_str()?.into()));
        let (count, kinds) = (named.len(), Kinds::named(named.iter().copied()));
        let told = Told { at, events: Vec::new(), secrets };
        Ok(Self { told, count, kinds, definition, unread: Some(error) })
    }
}

/// An event's name and what it says; none where it has not the form of one.
fn named(event: &Value) -> Option<(&str, &Value)> {
    match event {
        Value::String(name) => Some((name, &Value::Null)),
        Value::Object(members) if members.len() == 1 => {
            let (name, body) = members.iter().next()?;
            // What a run begins with is looked into, so it has members.
            (name != "started" || body.is_object()).then_some((name, body))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

/// What was found at one append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The version of its first event.
    pub version: Version,
    /// Its link.
    pub link: Hash,
    /// What it has of weight.
    pub kinds: Kinds,
    /// The digest of the definition, where it begins the run.
    pub definition: Option<String>,
    /// The hashes of what stands apart from its events.
    pub secrets: Vec<Hash>,
    /// How many of its secrets are left out.
    pub left_out: usize,
    /// Which byte of the journal it begins at.
    pub byte: u64,
    /// When it was written.
    pub at: Millis,
    /// Its events, as they were hashed; none where they could not be read.
    pub events: Vec<Event>,
    /// Why they could not be, where they have the form of events.
    pub unread: Option<Finding>,
}

/// A walk along a run.
#[derive(Debug)]
pub struct Walk<'a> {
    run: &'a RunId,
    /// The version that the next append must begin at.
    next: Version,
    link: Hash,
    is_chained: bool,
    unchained: Version,
    /// The bytes of the appends so far.
    bytes: u64,
}

impl<'a> Walk<'a> {
    /// At the beginning of a run.
    pub fn new(run: &'a RunId) -> Self {
        Self { run, next: 1, link: chain::GENESIS, is_chained: false, unchained: 0, bytes: 0 }
    }

    /// Up to which version it came.
    pub fn version(&self) -> Version {
        self.next - 1
    }

    /// The link of the last append.
    pub fn link(&self) -> Hash {
        self.link
    }

    /// Up to which version an earlier build wrote it, without a chain.
    pub fn unchained(&self) -> Version {
        self.unchained
    }

    /// How many bytes it came.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next append.
    pub fn take(&mut self, entry: &Entry) -> Result<Step, Finding> {
        let mut step = self.take_by_form(entry)?;
        step.unread.take().map_or(Ok(step), Err)
    }

    /// The same, where what its events say need not be known: whoever has put them there may have written anything.
    pub(super) fn take_by_form(&mut self, entry: &Entry) -> Result<Step, Finding> {
        let (version, byte) = (entry.version, self.bytes);
        let wrong = |what: String| {
            Finding::new(format!("run `{}` at version {version}", self.run), what).at_byte(byte)
        };
        if version != self.next {
            let what = format!("the event is missing; the next one there is at version {version}");
            let place = format!("run `{}` at version {}", self.run, self.next);
            return Err(Finding::new(place, what).at_byte(byte));
        }
        match entry.prev {
            Some(prev) if prev != self.link => {
                return Err(wrong(format!(
                    "it goes on from {prev}, and what lies before it is {}: one of the two was changed",
                    self.link
                )));
            }
            Some(_) => self.is_chained = true,
            None if self.is_chained => {
                return Err(wrong("it is not chained, and those before it are".into()));
            }
            None => {}
        }
        let unreadable = |error: serde_json::Error| {
            // It is one line: the column is the byte.
            let column = u64::try_from(error.column()).unwrap_or_default();
            wrong(format!("its bytes cannot be read: {error}"))
                .at_byte(byte + column.saturating_sub(1))
        };
        let Read { told, count, kinds, definition, unread } =
            Read::of(&entry.payload).map_err(unreadable)?;
        let unread = unread.map(unreadable);
        if count == 0 {
            return Err(wrong("it holds no event".into()));
        }
        if version == 1 && definition.is_none() {
            return Err(wrong("a journal begins with `started`".into()));
        }
        let definition = definition.filter(|_| version == 1);
        // Left out, all of them are; what is there must be what was said.
        let is_all = entry.secrets.iter().map(Apart::hash).eq(told.secrets.iter().copied());
        if !entry.secrets.is_empty() && !is_all {
            return Err(wrong("what stands apart from it is not what its hashes say".into()));
        }
        let left_out = if is_all { 0 } else { told.secrets.len() };
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.link =
            chain::link(self.link, self.run, version, chain::payload(entry.payload.as_bytes()));
        self.next = version.saturating_add(count);
        self.bytes += u64::try_from(entry.payload.len()).unwrap_or_default();
        if !self.is_chained {
            self.unchained = self.version();
        }
        let (link, Told { at, events, secrets }) = (self.link, told);
        Ok(Step { version, link, kinds, definition, secrets, left_out, byte, at, events, unread })
    }
}

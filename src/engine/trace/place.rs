//! Place: where in a trace the work of a run is told. All ids but those of calls follow from the
//! run's id, and are the same in every process that ever drives it.

use sha2::{Digest as _, Sha256};

use crate::kernel::{Millis, Run, Trace};
use crate::ports::trace::{Attribute, Span};

/// Where the work of a run is told.
#[derive(Debug, Clone)]
pub(super) struct Place {
    run_id: String,
    session: String,
    trace: [u8; 16],
    /// What began the run, somewhere else.
    caller: Option<[u8; 8]>,
    state: String,
    /// Whether whoever began it records it.
    pub(super) is_sampled: bool,
}

impl Place {
    /// The place of a run: in its caller's trace, or in one of its own.
    pub(super) fn of(run: &Run) -> Self {
        let caller = run.trace.as_ref();
        let own = || first(&hashed(&["trace", run.id.as_str()]));
        Self {
            run_id: run.id.to_string(),
            session: run.session.to_string(),
            trace: caller.and_then(|trace| bytes(trace.trace_id())).unwrap_or_else(own),
            caller: caller.and_then(|trace| bytes(trace.span_id())),
            state: caller.map(|trace| trace.state.clone()).unwrap_or_default(),
            is_sampled: caller.is_none_or(Trace::is_sampled),
        }
    }

    fn id(&self, kind: &str, name: &str) -> [u8; 8] {
        first(&hashed(&[kind, &self.run_id, name]))
    }

    /// The run itself.
    pub(super) fn run(&self) -> [u8; 8] {
        self.id("run", "")
    }

    /// One of its turns.
    pub(super) fn turn(&self, number: u32) -> [u8; 8] {
        self.id("turn", &number.to_string())
    }

    /// The wait for the answer to one of its questions.
    pub(super) fn wait(&self, ordinal: u32) -> [u8; 8] {
        self.id("wait", &ordinal.to_string())
    }

    /// A call that is made now; the same call made again later is another.
    pub(super) fn call(&self, key: &str, now: Millis) -> [u8; 8] {
        self.id("call", &format!("{key}@{}", now.0))
    }

    /// What a call with this id carries with it.
    pub(super) fn carried(&self, id: [u8; 8]) -> Trace {
        let flags = if self.is_sampled { "01" } else { "00" };
        let parent = format!("00-{}-{}-{flags}", hex(&self.trace), hex(&id));
        Trace { parent, state: self.state.clone() }
    }

    /// A piece of work within `parent`; within the run's caller, if there is none.
    pub(super) fn span(&self, id: [u8; 8], parent: Option<[u8; 8]>, name: String) -> Span {
        Span {
            trace: self.trace,
            id,
            parent: parent.or(self.caller),
            parent_is_remote: parent.is_none() && self.caller.is_some(),
            state: self.state.clone(),
            is_call: false,
            name,
            began: Millis(0),
            ended: Millis(0),
            attributes: vec![
                ("gen_ai.conversation.id", Attribute::Text(self.session.clone())),
                ("holdpoint.run.id", Attribute::Text(self.run_id.clone())),
            ],
            events: Vec::new(),
            link: None,
            error: None,
        }
    }
}

fn hashed(parts: &[&str]) -> [u8; 32] {
    Sha256::digest(parts.join("\n").as_bytes()).into()
}

fn first<const N: usize>(hash: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|index| hash[index])
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| {
        std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    pairs.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

//! Reading: what an answer to a question must look like, and what is read into one.
//!
//! What is said to a question is decided nowhere here, only what was meant by it.
//!
//! - **K7** Nothing fails open: what could mean two things means neither, and is refused.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::kernel::brought;
use crate::kernel::choice::Choice;
use crate::kernel::editing;
use crate::kernel::question::{Origin, Question};
use crate::kernel::schema::{self, Compiled, Mismatch};
use crate::kernel::strict;
use crate::kernel::terms::Kind;
use crate::kernel::verb::Verb;

/// What answers to most questions must fit: the same for all of them, so it is made once.
static VERDICT: LazyLock<House> = LazyLock::new(|| House::of(verdict_schema()));
static RETURNABLE: LazyLock<House> = LazyLock::new(|| House::of(returnable_schema()));
static USER_TURN: LazyLock<House> = LazyLock::new(|| House::of(user_turn_schema()));
static OUTCOME: LazyLock<House> = LazyLock::new(|| House::of(outcome_schema()));

/// A schema of the house's own.
struct House {
    schema: Arc<Value>,
    compiled: Arc<Compiled>,
}

impl House {
    fn of(schema: Value) -> Self {
        Self { compiled: Arc::new(Compiled::of(&schema)), schema: Arc::new(schema) }
    }
}

/// What an answer to an approval says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Approved,
    /// No; and whatever is not clearly a yes.
    Rejected,
}

/// The house's own schemas, each of which there is one: whoever writes them out does so once.
pub fn house_schemas() -> [Arc<Value>; 4] {
    [&VERDICT, &RETURNABLE, &USER_TURN, &OUTCOME].map(|house| Arc::clone(&house.schema))
}

impl Question {
    /// The JSON Schema that an answer is really validated against.
    pub fn response_schema(&self) -> Arc<Value> {
        if let Some(schema) = &self.schema {
            return Arc::new(schema.clone());
        }
        if let Some(version) = self.editable.as_ref().filter(|_| self.is_verdict()) {
            return Arc::new(editing::schema(version, self.returns));
        }
        if let Some(house) = self.house() {
            return Arc::clone(&house.schema);
        }
        Arc::new(match self.kind {
            Kind::Selection => {
                json!({"enum": self.options.iter().map(|option| &option.id).collect::<Vec<_>>()})
            }
            Kind::Clarification
            | Kind::Approval
            | Kind::PlanReview
            | Kind::ToolApproval
            | Kind::OutcomeCheck => json!({"type": "string", "minLength": 1}),
        })
    }

    /// The house's own schema for it, if it goes by one.
    fn house(&self) -> Option<&'static House> {
        if self.editable.is_some() {
            return None;
        }
        match (&self.schema, self.kind) {
            (None, Kind::Approval | Kind::PlanReview | Kind::ToolApproval) if self.returns => {
                Some(&RETURNABLE)
            }
            (None, Kind::Approval | Kind::PlanReview | Kind::ToolApproval) => Some(&VERDICT),
            (None, Kind::OutcomeCheck) => Some(&OUTCOME),
            (None, Kind::Clarification) if self.origin == Origin::UserTurn => Some(&USER_TURN),
            (None, Kind::Clarification | Kind::Selection) | (Some(_), _) => None,
        }
    }

    /// The response schema, ready to be checked against.
    fn compiled_schema(&self) -> Arc<Compiled> {
        match self.house() {
            Some(house) => Arc::clone(&house.compiled),
            None => Arc::new(Compiled::of(&self.response_schema())),
        }
    }

    /// Reads an answer: as it is where it fits, else as plain text that can only mean one thing.
    pub fn read(&self, value: &Value) -> Result<Value, Mismatch> {
        if self.is_any_text() {
            return match value {
                Value::String(text) if !text.is_empty() => Ok(value.clone()),
                Value::String(_)
                | Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => {
                    Err(Mismatch { at: String::new(), expected: "a text that is not empty".into() })
                }
            };
        }
        let schema = self.compiled_schema();
        if schema.fits(value) {
            return Ok(value.clone());
        }
        let meant = match value {
            Value::String(text) => self.meant_by(text.trim(), &schema),
            Value::Bool(yes) if self.is_verdict() => Some(self.decision(*yes)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        };
        match meant {
            Some(meant) if !schema::is_too_deep(&meant) && schema.fits(&meant) => Ok(meant),
            Some(wrong) if !schema::is_too_deep(&wrong) => {
                Err(self.mismatch(&schema, &wrong, value))
            }
            Some(_) | None => Err(self.mismatch(&schema, value, value)),
        }
    }

    /// Why an answer does not fit: `meant` is what was read into what was `given`. Of a call that somebody changed, it is
    /// the rule that their version breaks.
    fn mismatch(&self, schema: &Compiled, meant: &Value, given: &Value) -> Mismatch {
        let is_gate = matches!(self.origin, Origin::Gate(_)) && !brought::is_brought(self);
        if is_gate && Verb::of(meant) == Some(Verb::Edit) {
            let broken = schema.mismatch(meant);
            if broken.at.starts_with("/arguments") {
                return broken;
            }
        }
        self.explain(schema.mismatch(given))
    }

    /// What an accepted answer to an approval decides.
    pub fn verdict(value: &Value) -> Verdict {
        match Verb::of(value) {
            Some(verb) if verb.lets_pass() || verb == Verb::Edit => Verdict::Approved,
            Some(_) | None => Verdict::Rejected,
        }
    }

    /// Whether its answer is a yes or a no, whatever else a schema of its own lets it say.
    pub fn is_verdict(&self) -> bool {
        match self.kind {
            Kind::Approval | Kind::PlanReview | Kind::ToolApproval => true,
            Kind::Clarification | Kind::Selection | Kind::OutcomeCheck => false,
        }
    }

    /// A plain yes or no, in this question's own words.
    fn decision(&self, yes: bool) -> Value {
        let is_gate = matches!(self.origin, Origin::Gate(_));
        let verb = match (is_gate, yes) {
            (false, true) => Verb::Approve,
            (false, false) => Verb::Reject,
            (true, true) => Verb::AllowOnce,
            (true, false) => Verb::Deny,
        };
        json!({"decision": verb.word()})
    }

    fn is_any_text(&self) -> bool {
        self.schema.is_none() && self.kind == Kind::Clarification && self.origin != Origin::UserTurn
    }

    fn meant_by(&self, text: &str, schema: &Compiled) -> Option<Value> {
        let word = match text.to_lowercase().as_str() {
            word @ ("allow_once" | "allow_for_run") => Some(json!({"decision": word})),
            word => Verb::plainly(word).map(|yes| self.decision(yes)),
        };
        let fits = |word: &Value| self.is_verdict() && schema.fits(word);
        if let Some(word) = word.filter(fits) {
            return Some(word);
        }
        let place = text.parse::<usize>().ok();
        let is_meant = |(index, option): &(usize, &Choice)| {
            option.id.eq_ignore_ascii_case(text)
                || option.label().eq_ignore_ascii_case(text)
                || place == Some(index + 1)
        };
        let mut meant = self.options.iter().enumerate().filter(is_meant);
        // Whoever is not to read an option's id is shown another, which no option has.
        let mut places = 0..self.options.len();
        let stood_for = places.find(|at| Choice::stand_in(&self.options, *at) == text);
        let stood_for = stood_for.and_then(|at| self.options.get(at));
        match (meant.next(), meant.next(), stood_for) {
            (Some((_, option)), None, _) | (None, _, Some(option)) => {
                Some(Value::String(option.id.clone()))
            }
            // K7: what could mean either of two is neither.
            (Some(_), Some(_), _) => None,
            (None, _, None) => schema.read_plain(text).or_else(|| object_in(text)),
        }
    }

    fn explain(&self, mismatch: Mismatch) -> Mismatch {
        let expected = if brought::is_brought(self) {
            let words: Vec<_> =
                self.verbs().iter().map(|verb| format!("`{}`", verb.word())).collect();
            format!(
                "{}, and no words beside it: the run's start has brought this gate",
                words.join(" or ")
            )
        } else if matches!(self.origin, Origin::Gate(_)) {
            let back =
                if self.verbs().contains(&Verb::Return) { "; `return` needs a note" } else { "" };
            format!(
                "`allow_once` or `deny`, or {{\"decision\": …, \"arguments\": …, \"note\": …}} as the \
                 response schema says{back}"
            )
        } else if self.editable.is_some() && !mismatch.at.is_empty() {
            mismatch.expected
        } else if self.editable.is_some() {
            "`approve` or `reject`, {\"decision\": \"edit\", \"subject\": …} with a version of your own and \
             with nothing else, or {\"decision\": …, \"note\": …}; `return` needs a note"
                .into()
        } else if self.is_verdict() && self.schema.is_none() && self.returns {
            "`approve` or `reject`, or {\"decision\": …, \"note\": …}; `return` needs a note".into()
        } else if self.is_verdict() && self.schema.is_none() {
            "`approve` or `reject`, or {\"decision\": …, \"note\": …}".into()
        } else if !self.options.is_empty() {
            let ids: Vec<_> = self.options.iter().map(|option| option.id.as_str()).collect();
            format!("one of: {}", ids.join(", "))
        } else {
            mismatch.expected
        };
        Mismatch { at: mismatch.at, expected }
    }
}

/// An object that was written out as text: whoever has only text to give can say all of it so.
fn object_in(text: &str) -> Option<Value> {
    if text.starts_with('{') { strict::read(text.as_bytes()).ok() } else { None }
}

fn user_turn_schema() -> Value {
    json!({"anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "maxItems": 0, "description": "an empty list ends the conversation"},
        {"type": "object", "properties": {"verb": {"const": "end"}}, "required": ["verb"], "additionalProperties": false},
    ]})
}

fn verdict_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "decision": {"enum": [Verb::Approve.word(), Verb::Reject.word()]},
            "note": {"type": "string"},
        },
        "required": ["decision"],
        "additionalProperties": false,
    })
}

/// A verdict on an agent's work, which may be given back to it: with what is wrong.
fn returnable_schema() -> Value {
    let mut schema = verdict_schema();
    let words = [Verb::Approve, Verb::Reject, Verb::Return].map(Verb::word);
    schema["properties"]["decision"] = json!({"enum": words});
    schema["allOf"] = json!([Verb::Return.note_rule()]);
    schema
}

fn outcome_schema() -> Value {
    json!({"anyOf": [
        {"type": "object", "properties": {"verb": {"const": Verb::Happened.word()}, "result": {}}, "required": ["verb", "result"], "additionalProperties": false},
        {"type": "object", "properties": {"verb": {"enum": [Verb::Redo.word(), Verb::Abort.word()]}}, "required": ["verb"], "additionalProperties": false},
    ]})
}

//! Ask: which form a question gets, and what a filled-in one says.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::api::console::fields::Fields;
use crate::api::console::form::{self, Complaints, ROOT, Shape, member, resolved};
use crate::api::console::request::Draft;
use crate::kernel::schema::alone;
use crate::kernel::{Choice, Kind, Origin, Question, Verb, strict};

/// Decisions that put a person's version in place of what is asked about.
pub(super) const EDITS: [&str; 2] = [Verb::Edit.word(), Verb::Modify.word()];

/// Which form a question gets.
pub(super) enum Ask {
    /// One of the question's own options.
    Options(Vec<Choice>),
    /// The user's turn: words, or the end.
    Turn,
    /// Whether a lost call happened.
    Outcome,
    /// A decision, with whatever else the schema asks for.
    Decision {
        decisions: Vec<Deed>,
        members: Vec<Member>,
        /// Members that would bring a version of what is not shown whole here: there are no fields for them.
        sealed: Vec<String>,
    },
    /// Any other value.
    Value,
}

/// What can be decided, and what comes of it where the question says so.
pub(super) struct Deed {
    pub(super) word: String,
    pub(super) meaning: String,
}

/// A member of a decision's answer.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) schema: Value,
    pub(super) is_required: bool,
    /// What it is now, where a person may put another version in its place.
    pub(super) original: Option<Value>,
}

/// What a form came to.
pub(super) enum Filled {
    Value(Value),
    /// The form again, with what is wrong, or one step further.
    Again(Box<Draft>, StatusCode),
}

impl Ask {
    /// The form for a question.
    pub(super) fn of(question: &Question) -> Self {
        let schema = question.response_schema();
        if question.schema.is_none() && question.kind == Kind::OutcomeCheck {
            return Self::Outcome;
        }
        if question.schema.is_none() && question.origin == Origin::UserTurn {
            return Self::Turn;
        }
        if let Some(ask) = decision(question, &schema) {
            return ask;
        }
        let is_choice = matches!(Shape::of(&schema, &schema, 0), Shape::Choice(_));
        if is_choice && !question.options.is_empty() {
            return Self::Options(question.options.clone());
        }
        Self::Value
    }

    /// Whether that can be decided here.
    pub(super) fn offers(&self, word: &str) -> bool {
        matches!(self, Self::Decision { decisions, .. } if decisions.iter().any(|deed| deed.word == word))
    }
}

/// Whether something of what is decided is a mask on the page. A page that shows no secret has no form to edit one in. A
/// call is shown whole but for what is nobody's to read.
pub(in crate::api::console) fn hides(question: &Question) -> bool {
    let is_call = matches!(question.origin, Origin::Gate(_));
    !question.secrets.is_empty() || (question.is_veiled && !is_call)
}

/// Why what is decided is not edited here.
pub(super) fn why_sealed(question: &Question) -> &'static str {
    if matches!(question.origin, Origin::Gate(_)) {
        "It cannot be edited here: something in its arguments is shown to nobody, and a form would lose it."
    } else {
        "It cannot be edited here: something in it is hidden from you, and a form would lose it."
    }
}

/// The schema of a decision with its members, where a bare word would do as well.
fn full(schema: &Value) -> Value {
    let whole = resolved(schema, schema);
    let variants = ["anyOf", "oneOf"].into_iter().find_map(|word| Some((word, whole.get(word)?)));
    let decides = |one: &Value| one.pointer("/properties/decision/enum").is_some();
    let found = variants.and_then(|(word, all)| {
        let place = all.as_array()?.iter().position(decides)?;
        Some(alone(all.get(place)?, &format!("/{word}/{place}")))
    });
    found.unwrap_or_else(|| whole.clone())
}

fn decision(question: &Question, schema: &Value) -> Option<Ask> {
    let full = full(schema);
    let Shape::Object(members) = Shape::of(&full, &full, 0) else {
        return None;
    };
    let (_, decision, _) = members.iter().find(|(name, ..)| *name == "decision")?;
    let words = decision.get("enum")?.as_array()?.iter().filter_map(Value::as_str);
    let meaning = |word: &str| {
        let option = question.options.iter().find(|option| option.id == word);
        option.map(|option| option.description.clone()).unwrap_or_default()
    };
    let decisions = words.map(|word| Deed { word: word.to_owned(), meaning: meaning(word) });
    let is_edit = |deed: &Deed| EDITS.contains(&deed.word.as_str());
    let (decisions, hides) = (decisions.collect::<Vec<_>>(), hides(question));
    let is_editable = decisions.iter().any(is_edit);
    let decisions = decisions.into_iter().filter(|deed| !hides || !is_edit(deed));
    let original = |name: &str| match &question.origin {
        Origin::Gate(call) => (name == "arguments").then(|| call.arguments.clone()),
        Origin::HumanStep => (name == "subject").then(|| question.shown()),
        Origin::UserTurn
        | Origin::Directive
        | Origin::ToolCall(_)
        | Origin::LostOutcome(_)
        | Origin::Budget(_)
        | Origin::Phase(_) => question.context.get(name).cloned(),
    };
    let members = members.into_iter().filter(|(name, ..)| *name != "decision");
    let members = members.map(|(name, schema, is_required)| Member {
        name: name.to_owned(),
        schema: alone(schema, &member("/properties", name)),
        is_required,
        original: original(name).filter(|_| is_editable),
    });
    // Their schema takes them beside an edit alone: without one they are no fields of their own either.
    let (sealed, members): (Vec<_>, Vec<_>) =
        members.partition(|one| hides && one.original.is_some());
    let sealed = sealed.into_iter().map(|one| one.name).collect();
    Some(Ask::Decision { decisions: decisions.collect(), members, sealed })
}

/// What was filled in.
pub(super) fn filled(question: &Question, ask: &Ask, fields: &Fields) -> Filled {
    let schema = question.response_schema();
    let value = match ask {
        Ask::Turn if fields.get("verb") == Some("end") => Some(json!({"verb": "end"})),
        Ask::Options(_) | Ask::Turn => fields.given(ROOT).map(Value::from),
        Ask::Outcome => outcome(fields),
        Ask::Decision { members, sealed, .. } => {
            let brings = brings(sealed, fields);
            return decided(&full(&schema), members, fields, brings.then(|| why_sealed(question)));
        }
        Ask::Value => form::read(fields, &schema, ROOT),
    };
    if let Some(grown) = fields.get("grow") {
        return again(Draft { value, grown: Some(grown.into()), ..Draft::default() });
    }
    taken(&schema, value, question)
}

/// The value, if it fits; the form again, with the reasons, if not.
fn taken(schema: &Value, value: Option<Value>, question: &Question) -> Filled {
    let Some(value) = value else {
        let complaints = Complaints::from([(String::new(), "This is needed.".to_owned())]);
        return wrong(Draft { complaints, ..Draft::default() });
    };
    let complaints = form::check(schema, &value);
    // What the kernel reads into the schema (a label for an option, say) is its business.
    if complaints.is_empty() || question.read(&value).is_ok() {
        return Filled::Value(value);
    }
    wrong(Draft { value: Some(value), complaints, ..Draft::default() })
}

fn outcome(fields: &Fields) -> Option<Value> {
    let word = fields.given("verb")?;
    if word != Verb::Happened.word() {
        return Some(json!({"verb": word}));
    }
    let text = fields.get("result").unwrap_or_default();
    let result = strict::read(text.as_bytes()).unwrap_or_else(|_| Value::from(text));
    Some(json!({"verb": word, "result": result}))
}

/// Whether a form brings a version of what is not shown whole, though none was offered: what was filled in is neither
/// taken nor passed over, or a yes would be to something else than whoever says it means.
fn brings(sealed: &[String], fields: &Fields) -> bool {
    let is_given = |name: &String| {
        let place = member(ROOT, name);
        let is_within = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let mut below = fields.below(&place).filter(|rest| is_within(rest));
        below.any(|rest| fields.given(&format!("{place}{rest}")).is_some())
            || fields.given(&format!("reviewed/{name}")).is_some()
    };
    let is_edit = fields.only("decision").is_some_and(|word| EDITS.contains(&word));
    !sealed.is_empty() && (is_edit || sealed.iter().any(is_given))
}

fn decided(
    schema: &Value,
    members: &[Member],
    fields: &Fields,
    sealed: Option<&'static str>,
) -> Filled {
    let word = fields.only("decision").unwrap_or_default();
    let mut answer = Map::new();
    answer.insert("decision".into(), word.into());
    let is_edit = EDITS.contains(&word) && members.iter().any(|member| member.original.is_some());
    for one in members {
        let value = match &one.original {
            None => form::read(fields, &one.schema, &member(ROOT, &one.name)),
            Some(original) if is_edit => Some(edited(one, original, fields)),
            Some(_) => None,
        };
        if let Some(value) = value {
            answer.insert(one.name.clone(), value);
        }
    }
    let value = Value::Object(answer);
    let editing = is_edit.then(|| word.to_owned());
    let draft = |complaints: Complaints| Draft {
        value: Some(value.clone()),
        complaints,
        editing: editing.clone(),
        ..Draft::default()
    };
    if let Some(why) = sealed {
        let notice = Some(format!("Nothing was decided. {why} Decide on it as it is."));
        return wrong(Draft { notice, ..draft(Complaints::new()) });
    }
    if let Some(grown) = fields.get("grow") {
        return again(Draft { grown: Some(grown.into()), ..draft(Complaints::new()) });
    }
    if fields.get("back").is_some() {
        return again(draft(Complaints::new()));
    }
    let complaints = form::check(schema, &value);
    if !complaints.is_empty() {
        return wrong(draft(complaints));
    }
    let is_changed = members.iter().any(|member| {
        member.original.is_some() && member.original.as_ref() != value.get(&member.name)
    });
    if is_edit && !is_changed {
        let notice = "Nothing was changed. Change something, or go back and decide on it as it is.";
        let draft = draft(Complaints::new());
        return wrong(Draft { notice: Some(notice.into()), ..draft });
    }
    if is_edit && fields.get("confirmed").is_none() {
        return again(Draft { is_review: true, ..draft(Complaints::new()) });
    }
    Filled::Value(value)
}

/// A person's version: from the fields, or from what they reviewed.
fn edited(one: &Member, original: &Value, fields: &Fields) -> Value {
    let reviewed = fields.get(&format!("reviewed/{}", one.name));
    if let Some(reviewed) = reviewed.and_then(|text| serde_json::from_str(text).ok()) {
        return reviewed;
    }
    let filled = form::read(fields, &one.schema, &member(ROOT, &one.name));
    // Browsers know one end of a line: what is otherwise as it was has not been changed by that.
    let is_same = |filled: &Value| match (filled.as_str(), original.as_str()) {
        (Some(filled), Some(original)) => {
            filled == original.replace("\r\n", "\n").replace('\r', "\n")
        }
        (_, _) => false,
    };
    if filled.as_ref().is_some_and(is_same) {
        return original.clone();
    }
    form::over(&one.schema, original, filled)
}

fn again(draft: Draft) -> Filled {
    Filled::Again(Box::new(draft), StatusCode::OK)
}

fn wrong(draft: Draft) -> Filled {
    Filled::Again(Box::new(draft), StatusCode::UNPROCESSABLE_ENTITY)
}

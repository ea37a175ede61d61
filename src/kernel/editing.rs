//! Editing: a person puts a version of their own in the place of what they decide, at an approval whose file
//! lets them, or at a gate. That is another action: it is what goes on, and whoever must agree to it is asked
//! about it and about nothing else.
//!
//! What a gate makes of a call that was changed is decided in `gate`; how a version looks on a page or at a
//! terminal is the doors'.
//!
//! - **K10** An edit closes the question and asks the new action: earlier votes are void, the editor's own
//!   yes stands where the rules admit it.
//! - **K3** The version that goes on is the one that was sent, letter for letter.

use serde_json::{Value, json};

use crate::kernel::approvers;
use crate::kernel::draft::Next;
use crate::kernel::event::Event;
use crate::kernel::family::{EDITED_BY, EDITOR_NOTE, untold};
use crate::kernel::message::{Message, Speaker, readable};
use crate::kernel::principal::{Footing, Principal};
use crate::kernel::question::{Origin, Question, Subject, edit_verbs};
use crate::kernel::refusal::Refusal;
use crate::kernel::renewal;
use crate::kernel::run::Run;
use crate::kernel::said::Vote;
use crate::kernel::schema::{Mismatch, within};
use crate::kernel::terms::{Editable, Excluded, Stage};
use crate::kernel::time::Millis;
use crate::kernel::verb::Verb;

/// The member of an answer that has the version.
pub(super) const VERSION: &str = "subject";
/// A shape is described this deep; what lies deeper may be anything.
const SHAPE_DEPTH_MAX: usize = 8;
/// Members of a shape, in all: beyond them a person is not filling in a form.
const SHAPE_MEMBERS_MAX: usize = 500;

/// What a version of `shown` must look like: what the file says, or else what it looks like already. A text
/// stays a text that says something; an object keeps its members, each of its type; a list may grow and shrink.
pub(super) fn wanted(editable: Option<&Editable>, shown: Option<&Subject>) -> Option<Value> {
    let Subject::Shown(shown) = shown? else { return None };
    let schema = editable?.schema.clone();
    Some(schema.unwrap_or_else(|| match shown {
        Value::String(_) => json!({"type": "string", "minLength": 1}),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let mut left = SHAPE_MEMBERS_MAX;
            shape(shown, SHAPE_DEPTH_MAX, &mut left)
        }
    }))
}

fn shape(value: &Value, depth: usize, left: &mut usize) -> Value {
    let (Some(deeper), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else {
        return json!({});
    };
    *left = fewer;
    match value {
        Value::Null => json!({}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(_) => json!({"type": "number"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Array(items) => {
            let mut shapes = items.iter().map(|item| shape(item, deeper, left));
            // Items of one shape have that one; a mixed list has whatever it is given.
            match shapes.next() {
                Some(first) if shapes.all(|other| other == first) => {
                    json!({"type": "array", "items": first})
                }
                Some(_) | None => json!({"type": "array"}),
            }
        }
        Value::Object(members) if members.len() > *left => json!({"type": "object"}),
        Value::Object(members) => {
            let shapes: serde_json::Map<_, _> = members
                .iter()
                .map(|(name, one)| (name.clone(), shape(one, deeper, left)))
                .collect();
            let names: Vec<_> = members.keys().cloned().collect();
            json!({"type": "object", "properties": shapes, "required": names, "additionalProperties": false})
        }
    }
}

/// What an answer to an approval must look like whose subject may be changed into a `version`. A version
/// beside another word could mean two things, and is refused (K7).
pub(super) fn schema(version: &Value, returns: bool) -> Value {
    let words: Vec<_> = edit_verbs(returns).into_iter().map(Verb::word).collect();
    let mut schema = json!({
        "type": "object",
        "properties": {
            "decision": {"enum": words},
            VERSION: within(version, &format!("/properties/{VERSION}")),
            "note": {"type": "string"},
        },
        "required": ["decision"],
        "additionalProperties": false,
        "if": {"properties": {"decision": {"const": Verb::Edit.word()}}},
        "then": {"required": ["decision", VERSION]},
        "else": {"properties": {VERSION: false}},
    });
    if returns {
        schema["allOf"] = json!([Verb::Return.note_rule()]);
    }
    schema
}

/// The version that an accepted answer brings.
pub(super) fn version<'a>(question: &Question, value: &'a Value) -> Option<&'a Value> {
    let is_edit = question.editable.is_some() && Verb::of(value) == Some(Verb::Edit);
    value.get(VERSION).filter(|_| is_edit)
}

/// Refuses a version that is what was shown: it would void what others have said, and change nothing.
pub(super) fn refuse_unchanged(
    question: &Question,
    value: &Value,
    request: &str,
) -> Result<(), Refusal> {
    if version(question, value).is_none_or(|version| *version != question.shown()) {
        return Ok(());
    }
    let expected = "another version than the one that was shown; `approve` agrees with that one";
    let mismatch = Mismatch { at: format!("/{VERSION}"), expected: expected.into() };
    Err(Refusal::WrongAnswer { request: request.to_owned(), mismatch })
}

/// The question whether a version goes on, where that is not decided by whoever wrote it alone.
pub(super) fn asked_anew(
    run: &Run,
    (question, value): (&Question, &Value),
    (by, next): (&Principal, Next),
    now: Millis,
) -> Option<Event> {
    let version = version(question, value)?;
    let anew = Question {
        ordinal: u32::try_from(next.question).unwrap_or(u32::MAX),
        subject: Some(Box::new(Subject::Shown(version.clone()))),
        context: untold(&question.context),
        refused: Vec::new(),
        ..renewal::anew(question, now)
    };
    let by = (by.id.as_str(), by.known.footing());
    let anew = left(run, (question, anew), by, (Verb::Approve, now))?;
    Some(Event::Asked(Box::new(anew)))
}

/// Refuses a version that nobody would be left to agree to: whoever has spoken on what it takes the place of has by that
/// taken part in the run, and the rules that ask about it may exclude them. It would wait for nobody.
pub(super) fn refuse_unanswerable<'a>(
    run: &Run,
    question: &Question,
    (by, instead_of): (&'a str, Option<&'a str>),
    (events, now): (impl Iterator<Item = &'a Event>, Millis),
) -> Result<(), Refusal> {
    for event in events {
        let Event::Asked(anew) = event else { continue };
        if anew.editor.is_empty() {
            continue;
        }
        let spoken =
            question.votes.iter().flat_map(|vote| vote.instead_of.iter().chain([&vote.by]));
        let mut taking_part = run.participants.clone();
        taking_part.extend(spoken.cloned());
        taking_part.extend(instead_of.into_iter().chain([by]).map(str::to_owned));
        let anew = Question { participants: taking_part.into_iter().collect(), ..(**anew).clone() };
        if let Some((stage, left)) = run.admission(now).short_of(&anew) {
            let need = anew.stage_at(stage).map_or(1, |stage| stage.need.max(1));
            let to = anew.asked_in(stage).join(", ");
            let request = question.id(&run.id).to_string();
            return Err(Refusal::NobodyLeft { request, to, need, left });
        }
    }
    Ok(())
}

/// Tells those who are asked about a version what its editor said with it.
pub(super) fn tell_note<'a>(value: &Value, events: impl Iterator<Item = &'a mut Event>) {
    let note = value.get("note").map(readable).filter(|note| !note.is_empty());
    let Some(note) = note else { return };
    for event in events {
        if let Event::Asked(anew) = event
            && !anew.editor.is_empty()
        {
            anew.add_fact(EDITOR_NOTE, note.as_str().into());
        }
    }
}

/// Notes who changed what is asked now, and in whose place.
fn edited_by(
    run: &Run,
    (before, asked): (&Question, &mut Question),
    (editor, footing): (&str, Footing<'_>),
    now: Millis,
) {
    editor.clone_into(&mut asked.editor);
    asked.editor_assurance = footing.assurance;
    asked.editor_service = footing.service.map(str::to_owned);
    // Whoever is asked about it is told that it is not what the agent made.
    asked.add_fact(EDITED_BY, editor.into());
    let admission = run.admission(now);
    let place = admission.place(before, before.stage, editor);
    let owner = place.filter(|owner| *owner != editor).unwrap_or_default();
    owner.clone_into(&mut asked.editor_for);
}

/// What is still to be asked of what somebody changed; nothing, where their own word is all that it needs.
/// It stands, as `verb`, at the rules that had asked them; any other rule asks, and so does one that wants
/// nobody's own version. What was refused elsewhere in the family is nobody's to take up unknowing: it is asked,
/// and tells of it (K11).
pub(super) fn left(
    run: &Run,
    (before, mut asked): (&Question, Question),
    (editor, footing): (&str, Footing<'_>),
    (verb, now): (Verb, Millis),
) -> Option<Question> {
    edited_by(run, (before, &mut asked), (editor, footing), now);
    let refused = asked.refused_before(run);
    if !refused.is_empty() {
        asked.tell_of(refused);
        return Some(asked);
    }
    let (known, admission) = (before.rules(), run.admission(now));
    // Whoever answered the question before has taken part in the run by that.
    let stands = |(number, stage): &(u32, &Stage)| {
        let was_asked = stage.rules.iter().all(|rule| known.contains(rule.as_str()));
        let admits = admission.place(&asked, *number, editor).is_some();
        let is_known = footing.assurance >= approvers::wants(Some(stage), &run.operator);
        was_asked && admits && is_known && !stage.not.contains(&Excluded::Participant)
    };
    // Where the rules name nobody there is one stage, which nobody wrote down.
    let rules = asked.rules().into_iter().map(str::to_owned).collect();
    let unwritten = [Stage { rules, need: 1, ..Stage::default() }];
    let stages: &[Stage] = if asked.stages.is_empty() { &unwritten } else { &asked.stages };
    let mut left = (0..).zip(stages).skip_while(|one| one.1.need <= 1 && stands(one));
    let (passed, stage) = left.next()?;
    let standing = stands(&(passed, stage));
    if passed > 0 {
        asked.enter(passed, now);
    }
    if standing {
        let (by, verb) = (editor.to_owned(), verb.word().to_owned());
        let Footing { assurance, service, .. } = footing;
        let (stage, service, at) = (passed, service.map(str::to_owned), Some(now));
        asked.votes.push(Vote { by, verb, stage, assurance, service, instead_of: None, at });
    }
    Some(asked)
}

/// The word of an editor that stands in the stages which an edited action has passed before it is asked.
pub(super) fn standing_word(question: &Question) -> Verb {
    if matches!(question.origin, Origin::Gate(_)) { Verb::AllowOnce } else { Verb::Approve }
}

/// What an editor said, as the conversation has it: whoever goes on reads the version, and not an answer's
/// form.
pub(super) fn spoken(by: &str, version: &Value, note: Option<&Value>) -> Message {
    let note = note.map(readable).filter(|note| !note.is_empty());
    let note = note.map(|note| format!("\n\n({note})")).unwrap_or_default();
    let text = format!("Use this version:\n\n{}{note}", readable(version));
    Message::text(Speaker::User, by.to_owned(), text)
}

/// What a step comes to when a person has said yes to it: their words, what they decided, and who changed
/// that. A version that goes on is approved, whoever's it is.
pub(super) fn came(question: &Question, value: &Value, by: &str) -> Value {
    let edited = version(question, value).cloned();
    let mut value = value.clone();
    let (Some(Subject::Shown(subject)), Value::Object(fields)) =
        (question.subject.as_deref(), &mut value)
    else {
        return value;
    };
    let editor = if edited.is_some() { by } else { question.editor.as_str() };
    if !editor.is_empty() {
        fields.insert("edited_by".into(), editor.into());
        fields.insert("decision".into(), Verb::Approve.word().into());
    }
    // A form of the file's own may have a field of that name, which is then what they said.
    if edited.is_none() {
        fields.entry(VERSION).or_insert_with(|| subject.clone());
    }
    value
}

impl Run {
    /// Notes which version goes on in the place of what was said last.
    pub(super) fn goes_on_with(&mut self, question: &Question, value: &Value) {
        let shown = match question.subject.as_deref() {
            Some(Subject::Shown(shown)) if !question.editor.is_empty() => Some(shown),
            Some(Subject::Shown(_) | Subject::Task(_)) | None => None,
        };
        if let Some(version) = version(question, value).or(shown) {
            self.edited = Some((self.conversation.len(), version.clone()));
        }
    }

    /// The version that a person put in the place of what was said last, while nobody has spoken since.
    pub(super) fn last_version(&self) -> Option<&Value> {
        let (at, version) = self.edited.as_ref()?;
        let mut since = self.conversation.iter().skip(*at);
        let speaks = |message: &Message| {
            let is_agents = message.role == Speaker::Assistant && !message.author.is_empty();
            is_agents && message.cleaned().is_some()
        };
        (!since.any(|message| speaks(message))).then_some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::schema;

    fn shaped(shown: Value) -> Value {
        wanted(Some(&Editable::default()), Some(&Subject::Shown(shown))).unwrap()
    }

    #[test]
    fn a_version_keeps_the_shape_of_what_was_shown_unless_the_file_says_otherwise() {
        let text = shaped(json!("Dear Ada,"));
        assert!(schema::check(&text, &json!("Hello Ada,")).is_ok());
        assert!(schema::check(&text, &json!("")).is_err(), "nothing is no version");
        assert!(schema::check(&text, &json!({"text": "Hello"})).is_err());

        let order =
            shaped(json!({"to": "ada", "lines": [{"what": "tea", "price": 3}], "rest": null}));
        let good = json!({"to": "bob", "lines": [{"what": "tea", "price": 3.5}, {"what": "cake", "price": 4}], "rest": 1});
        assert!(schema::check(&order, &good).is_ok());
        let wrong = json!({"to": "bob", "lines": [{"what": "tea", "price": "three"}], "rest": 1});
        assert_eq!(schema::check(&order, &wrong).unwrap_err().at, "/lines/0/price");
        assert!(schema::check(&order, &json!({"to": "bob"})).is_err(), "nothing is left out");

        let own = Editable { schema: Some(json!({"type": "integer", "maximum": 10})) };
        let own = wanted(Some(&own), Some(&Subject::Shown(json!(3)))).unwrap();
        assert!(schema::check(&own, &json!(11)).is_err());
    }

    #[test]
    fn the_shape_of_a_huge_value_is_bounded() {
        let wide: Value = (0..10_000).map(|n| json!({"n": n})).collect();
        assert!(shaped(wide).to_string().len() < 1_000);
        let mut deep = json!("end");
        for _ in 0..60 {
            deep = json!({"in": deep});
        }
        assert!(shaped(deep).to_string().len() < 2_000);
        let many: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("m{n}"), json!(n))).collect();
        assert!(shaped(Value::Object(many)).to_string().len() < 200);
    }

    #[test]
    fn k7_a_version_beside_another_word_means_two_things_and_is_refused() {
        let schema = schema(&json!({"type": "string", "minLength": 1}), true);
        let check = |value: Value| schema::check(&schema, &value).is_ok();
        assert!(check(json!({"decision": "edit", "subject": "mine"})));
        assert!(check(json!({"decision": "approve"})));
        for wrong in [
            json!({"decision": "approve", "subject": "mine"}),
            json!({"decision": "reject", "subject": "mine"}),
            json!({"decision": "edit"}),
            json!({"decision": "edit", "subject": ""}),
            json!({"decision": "edit", "subject": 4}),
            json!({"decision": "return"}),
        ] {
            assert!(!check(wrong.clone()), "{wrong}");
        }
    }
}

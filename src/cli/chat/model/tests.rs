//! What keys and events make of the model.

use crate::wire::v1::{Option as Choice, ResponseReceived};

use super::*;

fn request(id: &str) -> Request {
    let option = |id: &str| Choice { id: id.into(), label: id.into(), ..Choice::default() };
    Request {
        request_id: id.into(),
        prompt: "Where?".into(),
        options: vec![option("sea"), option("hills")],
        ..Request::default()
    }
}

fn event(sequence: u64, event: Event) -> WorkflowEvent {
    WorkflowEvent { sequence, event: Some(event), ..WorkflowEvent::default() }
}

fn typed(model: &mut Model, text: &str) -> Option<Wish> {
    for char in text.chars() {
        assert_eq!(model.key(KeyCode::Char(char).into()), None);
    }
    model.key(KeyCode::Enter.into())
}

#[test]
fn requests_queue_and_one_that_another_answers_goes_away() {
    let mut model = Model::default();
    for (at, id) in [(1, "one"), (2, "two")] {
        model.take(event(at, Event::RequestInfo(Box::new(request(id)))));
    }
    assert_eq!(model.overlay().map(|request| request.request_id.as_str()), Some("one"));
    model.key(KeyCode::Tab.into());
    let wish = typed(&mut model, "2");
    let Some(Wish::Answer(answered, value)) = wish else { panic!("{wish:?}") };
    assert_eq!((answered.request_id.as_str(), value), ("two", "hills".into()));
    let received = ResponseReceived { request_id: "one".into(), ..Default::default() };
    model.take(event(3, Event::ResponseReceived(received)));
    assert_eq!(model.pending.len(), 1);
}

#[test]
fn a_hidden_request_is_not_answered_by_accident() {
    let mut model = Model::default();
    model.take(event(1, Event::RequestInfo(Box::new(request("one")))));
    model.key(KeyCode::Esc.into());
    assert_eq!(model.overlay(), None);
    assert_eq!(typed(&mut model, "hello"), None);
    assert_eq!(model.typed, "hello", "what was typed is not lost");
    model.key(KeyCode::Esc.into());
    assert!(model.overlay().is_some());
    model.typed.clear();
    assert_eq!(typed(&mut model, "/handoff-cancel"), None, "what it does is said first");
    assert!(model.said.last().unwrap().text.contains("nobody can answer it any more"));
    assert_eq!(typed(&mut model, "/handoff-cancel"), Some(Wish::Withdraw("one".into())));
}

#[test]
fn cancelling_is_one_of_three_things_and_none_that_was_not_said_before() {
    let mut model = Model::default();
    model.take(event(1, Event::RequestInfo(Box::new(request("one")))));
    assert_eq!(typed(&mut model, "/handoff-cancel hide"), None);
    assert!(model.is_hidden && model.pending.len() == 1, "it stays open");
    assert_eq!(typed(&mut model, "/handoff-cancel run"), None);
    assert!(model.said.last().unwrap().text.contains("stopped for good"));
    // Another word in between is told first, too.
    assert_eq!(typed(&mut model, "/handoff-cancel withdraw"), None);
    assert_eq!(typed(&mut model, "/handoff-cancel run"), None);
    assert_eq!(typed(&mut model, "/handoff-cancel run"), Some(Wish::Stop));
    assert_eq!(typed(&mut model, "/handoff-cancel erase"), None);
    assert!(model.said.last().unwrap().text.contains("no such word"));
    // The setting is what it does without a word.
    model.on_cancel = OnCancel::Run;
    assert_eq!(typed(&mut model, "/handoff-cancel"), None);
    assert_eq!(typed(&mut model, "/handoff-cancel"), Some(Wish::Stop));
}

#[test]
fn an_escape_in_what_is_said_cannot_rewrite_the_screen() {
    let mut model = Model::default();
    model.say(By::Agent("venue".into()), "fine\u{1b}[2Jgone");
    assert!(!model.said[0].text.contains('\u{1b}'), "{:?}", model.said);
}

#[test]
fn a_question_with_fields_is_asked_field_by_field_and_sent_when_all_of_it_fits() {
    let schema = serde_json::json!({"type": "object", "required": ["guests"], "properties": {
        "guests": {"type": "integer"}, "at": {"type": "string"}, "vegan": {"type": "boolean", "default": false}}});
    let asked = Request {
        request_id: "one".into(),
        prompt: "What shall we book?".into(),
        response_schema: Some(schema.into()),
        ..Request::default()
    };
    let mut model = Model::default();
    model.take(event(1, Event::RequestInfo(Box::new(asked))));
    let asks = |model: &Model| model.form().and_then(Filling::heading).unwrap_or_default().0;
    assert_eq!(asks(&model), "guests");
    assert_eq!(typed(&mut model, "many"), None);
    assert_eq!(asks(&model), "at");
    assert_eq!(typed(&mut model, "/srv/hall"), None, "a path is no command");
    assert_eq!(typed(&mut model, ""), None);
    assert_eq!(model.objection, "guests: Expected a whole number.");
    assert_eq!(asks(&model), "guests");
    assert_eq!(typed(&mut model, "/status"), Some(Wish::Status), "a command is one everywhere");
    assert_eq!(typed(&mut model, "30"), None);
    assert_eq!(asks(&model), "", "all is there: it is shown before it is sent");
    let wish = typed(&mut model, "");
    let Some(Wish::Answer(_, value)) = wish else { panic!("{wish:?}") };
    assert_eq!(value, serde_json::json!({"guests": 30, "at": "/srv/hall", "vegan": false}));
    model.settle("one");
    assert!(model.forms.is_empty());
}

#[test]
fn a_cancel_that_was_said_once_is_not_armed_any_more_after_anything_else() {
    let armed = || {
        let mut model = Model::default();
        model.take(event(1, Event::RequestInfo(Box::new(request("one")))));
        assert_eq!(typed(&mut model, "/handoff-cancel run"), None);
        model
    };
    let mut model = armed();
    assert_eq!(typed(&mut model, "/handoff-cancel run"), Some(Wish::Stop), "twice in a row");
    let mut model = armed();
    assert_eq!(typed(&mut model, "/status"), Some(Wish::Status));
    assert_eq!(typed(&mut model, "/handoff-cancel run"), None, "a command came between");
    let mut model = armed();
    model.key(KeyCode::Esc.into());
    assert_eq!(typed(&mut model, "no such place"), Some(answer(&model, "no such place")));
    assert_eq!(typed(&mut model, "/handoff-cancel run"), None, "an answer came between");
    let mut model = armed();
    model.key(KeyCode::Esc.into());
    assert_eq!(typed(&mut model, "/handoff-cancel run"), None, "they looked at it again");
}

fn answer(model: &Model, value: &str) -> Wish {
    Wish::Answer(Box::new(model.pending[0].clone()), value.into())
}

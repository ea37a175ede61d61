//! What a reader sees of a run: lines as they are printed.

use prost_types::Timestamp;
use serde_json::json as literal;

use super::*;
use crate::wire::v1::{
    Cancelled, Completed, ExecutorInvoked, Option as Choice, Output, Request, RequestKind, Started,
    ToolCall,
};

fn event(body: Event) -> WorkflowEvent {
    WorkflowEvent {
        session_id: "ses_1".into(),
        run_id: "run_1".into(),
        sequence: 7,
        time: Some(Timestamp { seconds: 0, nanos: 0 }),
        event: Some(body),
    }
}

fn delta(attempt: u32, text: &str) -> Event {
    let executor_id = "draft".into();
    Event::Delta(Delta { executor_id, turn: 1, attempt, text: text.into() })
}

fn said(text: &str) -> Event {
    let (role, author_name) = ("assistant".into(), "writer".into());
    Event::Message(Message { role, author_name, text: text.into(), ..Default::default() })
}

fn tell(audience: Audience, events: Vec<Event>) -> String {
    let mut story = Story::new(Paint::new(false), audience);
    events.into_iter().map(|body| story.tell(&event(body))).collect()
}

fn output(text: &str) -> Event {
    Event::Output(Output { value: Some(literal!(text).into()) })
}

#[test]
fn deltas_are_told_in_place_and_their_message_is_not_told_again() {
    let told = tell(
        Audience::Talker,
        vec![
            Event::Started(Started { workflow_id: "letter".into(), ..Default::default() }),
            Event::ExecutorInvoked(ExecutorInvoked {
                executor_id: "draft".into(),
                agent: "writer".into(),
                turn: 1,
                attempt: 1,
            }),
            delta(1, "Dear "),
            delta(1, "Ada,\nhello"),
            said("Dear Ada,\nhello"),
            output("Dear Ada,\nhello"),
            Event::Completed(Completed {}),
        ],
    );
    assert_eq!(told, "letter  run_1 in ses_1\nwriter  Dear Ada,\n  hello\ncompleted\n");
}

#[test]
fn a_later_attempt_begins_anew_and_a_differing_message_is_told() {
    let told = tell(Audience::Talker, vec![delta(1, "Dea"), delta(2, "Dear"), said("Dear Ada")]);
    assert_eq!(told, "draft  Dea\ndraft  Dear\nwriter  Dear Ada\n");
}

#[test]
fn nothing_an_agent_or_a_tool_says_can_steer_the_terminal() {
    let evil = "x\u{1b}[2K\rcompleted\n\u{9b}1m";
    let call = ToolCall {
        tool: evil.into(),
        arguments: Some(literal!({ evil: evil }).into()),
        ..Default::default()
    };
    let request = Request {
        prompt: evil.into(),
        context: Some(literal!(evil).into()),
        options: vec![Choice { id: evil.into(), label: evil.into(), description: evil.into() }],
        awaiting_agent: evil.into(),
        on_timeout: evil.into(),
        deadline: Some(Timestamp::default()),
        ..Default::default()
    };
    let message = Message {
        author_name: evil.into(),
        role: "user".into(),
        text: evil.into(),
        ..Default::default()
    };
    let bodies = vec![
        delta(1, evil),
        said(evil),
        Event::Message(message),
        Event::ToolCall(ToolCalled { executor_id: evil.into(), call: Some(call) }),
        Event::ToolResult(ToolResult { value: Some(literal!(evil).into()), ..Default::default() }),
        Event::RequestInfo(Box::new(request)),
        output(&format!("{evil}!")),
        Event::Warning(Failure { code: evil.into(), message: evil.into() }),
        Event::Failed(Failure { code: evil.into(), message: evil.into() }),
        Event::Cancelled(Cancelled { principal: evil.into(), reason: evil.into() }),
        Event::Started(Started { workflow_id: evil.into(), ..Default::default() }),
    ];
    for body in &bodies {
        let shown = journal_line(Paint::new(false), &event(body.clone()));
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
    }
    let told = tell(Audience::Onlooker, bodies);
    let steering = told.chars().find(|char| char.is_control() && *char != '\n');
    assert_eq!(steering, None, "{told:?}");
    assert!(!told.lines().any(|line| line == "completed"), "{told}");
}

#[test]
fn a_question_shows_everything_it_is_decided_by() {
    let request = Request {
        request_id: "req_1-1".into(),
        awaiting_agent: "venue".into(),
        kind: RequestKind::Selection.into(),
        prompt: "Which one?".into(),
        context: Some(literal!({"guests": 30}).into()),
        options: vec![Choice {
            id: "a".into(),
            label: "Pier 66".into(),
            description: "big".into(),
        }],
        ..Default::default()
    };
    let shown = question(Paint::new(false), &request);
    assert_eq!(
        shown,
        "venue asks (selection)  req_1-1\n  Which one?\n  {\n    \"guests\": 30\n  }\n  1. Pier 66  big\n"
    );
}

#[test]
fn who_talks_is_not_told_their_own_words() {
    let user = || {
        let (role, text) = ("user".into(), "hello".into());
        Event::Message(Message { role, text, author_name: "ada".into(), ..Default::default() })
    };
    assert_eq!(tell(Audience::Talker, vec![user()]), "");
    assert_eq!(tell(Audience::Onlooker, vec![user()]), "ada  hello\n");
}

fn private(text: &str, cut: bool) -> Event {
    let (role, author_name) = ("assistant".into(), "writer".into());
    let only_for = "writer".into();
    Event::Message(Message {
        role,
        author_name,
        text: text.into(),
        only_for,
        cut,
        ..Default::default()
    })
}

#[test]
fn a_call_that_is_only_wanted_is_told_when_it_is_made() {
    let call = ToolCall { tool: "pay".into(), ..Default::default() };
    let mut wanting = said("I will pay.");
    if let Event::Message(message) = &mut wanting {
        message.tool_calls.push(call.clone());
    }
    let made =
        Event::ToolCall(ToolCalled { executor_id: "draft".into(), call: Some(call.clone()) });
    let told = tell(Audience::Talker, vec![wanting.clone()]);
    assert_eq!(told, "writer  I will pay.\n");
    let told = tell(Audience::Talker, vec![wanting.clone(), made]);
    assert_eq!(told.matches("pay(").count(), 1, "{told}");
    let Event::Message(message) = wanting else { panic!() };
    let listed = utterance(Paint::new(false), &message);
    assert!(listed.ends_with("wants to call pay(null)"), "{listed}");
}

#[test]
fn a_reply_that_waits_at_a_gate_is_told_by_the_question_and_once_when_it_stands() {
    let held = vec![private("Paid.", false), said("Paid.")];
    assert_eq!(tell(Audience::Onlooker, held), "writer  Paid.\n");
    let context = literal!({"tool": "reply", "arguments": {"text": "Paid."}, "gates": ["final"]});
    let request = Request {
        kind: RequestKind::ToolApproval.into(),
        prompt: "May what writer says stand?".into(),
        context: Some(context.into()),
        ..Default::default()
    };
    let shown = question(Paint::new(false), &request);
    assert!(shown.contains("\n  Paid.\n  May what writer says stand?\n"), "{shown}");
    assert!(!shown.contains("arguments") && shown.contains("final"), "{shown}");
    let Event::Message(aside) = private("Paid.", false) else { panic!() };
    assert_eq!(utterance(Paint::new(false), &aside), "writer (to itself)  Paid.");
}

#[test]
fn a_reply_in_pieces_is_read_once_and_one_that_ends_short_says_so() {
    let streamed = vec![
        delta(1, "One, "),
        private("One, ", true),
        delta(1, "two."),
        said("One, two."),
        output("One, two."),
    ];
    let told = tell(Audience::Talker, streamed);
    assert_eq!(told, "draft  One, \n  (cut short; it goes on)\ndraft  two.\noutput  One, two.\n");
    let whole = vec![private("One, ", true), said("One, two.")];
    assert_eq!(tell(Audience::Talker, whole), "writer  One, two.\n");
    let mut short = said("One, ");
    if let Event::Message(message) = &mut short {
        message.cut = true;
    }
    assert_eq!(tell(Audience::Talker, vec![short]), "writer  One, \n  (cut short)\n");
}

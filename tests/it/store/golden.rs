//! Golden: the stored form, byte by byte. The files are never edited, only added to: whatever a
//! release has written, every later one reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use holdpoint::kernel::graph::{Opening, Outcome, Point};
use holdpoint::kernel::workflow::Safety;
use holdpoint::kernel::{
    Audience, Choice, Closing, Event, Failure, Follows, Judging, Kind, Message, Millis, OnTimeout,
    Origin, Purpose, Question, RunId, Speaker, Spent, Started, ToolCall, Trace, Usage, Veil,
};
use holdpoint::ports::{Head, HeadStatus, KeyRow, SessionRow};
use holdpoint::store::codec::{self, StoredHead, StoredSession};
use holdpoint::store::keys;
use serde_json::{Value, json};

use crate::store::golden_crowd::answered;
use crate::support::kit::session_id;

/// Set to write files that are not there yet.
const RECORD: &str = "HOLDPOINT_RECORD_GOLDEN";
const RUN: &str = "run_01k9zq3v7m8n4p5r6s7t8v9w0x";

/// The bytes under test are those of the file; returns what the file has.
pub(crate) fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/journals").join(name);
    if std::env::var_os(RECORD).is_some() && !path.exists() {
        std::fs::write(&path, bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(bytes), text(&golden), "`{name}` is written differently today");
    assert_eq!(bytes, golden, "`{name}` is written differently today");
    golden
}

pub(crate) fn run() -> RunId {
    RunId::parse(RUN).unwrap()
}

fn question() -> Question {
    Question {
        ordinal: 2,
        step: "venue".into(),
        agent: Some("planner".into()),
        turn: Some(3),
        origin: Origin::ToolCall("c1".into()),
        kind: Kind::Selection,
        prompt: "Which \"one\"?\n".into(),
        context: json!({"guests": 60}),
        options: vec![Choice {
            id: "a".into(),
            label: "The Foundry".into(),
            description: "ä".into(),
        }],
        schema: Some(json!({"enum": ["a"]})),
        deadline: Some(Millis(1_700_000_360_000)),
        on_timeout: OnTimeout::DefaultAnswer(json!("a")),
        to: Vec::new(),
        remind_ms: None,
        remind_at: None,
        asked_at: Millis(1_700_000_000_000),
        messages: 4,
        ..Question::bare(Kind::Selection, Origin::HumanStep)
    }
}

pub(crate) fn plain_question() -> Question {
    Question {
        agent: None,
        turn: None,
        origin: Origin::HumanStep,
        kind: Kind::Approval,
        context: Value::Null,
        options: Vec::new(),
        schema: None,
        deadline: None,
        on_timeout: OnTimeout::Reject,
        asked_at: Millis(0),
        messages: 0,
        ..question()
    }
}

fn message() -> Message {
    Message {
        data: Some(json!([1])),
        calls: vec![call()],
        call_id: Some("c0".into()),
        ..Message::text(Speaker::Assistant, "planner", "Hm.").to(Audience::Only("planner".into()))
    }
}

fn call() -> ToolCall {
    ToolCall::new("c1", "search", json!({"q": "venue"}))
}

pub(crate) fn started() -> Started {
    Started {
        hides: Vec::new(),
        session: session_id("ses_golden"),
        workflow: "venue".into(),
        definition: "d1".into(),
        owner: "ann".into(),
        door: "grpc".into(),
        input: json!("Find a venue."),
        metadata: BTreeMap::from([("team".into(), "events".into())]),
        forked_from: Some((run(), 7)),
        spent_before: Spent::default(),
        trace: None,
        from: None,
        follows: None,
        seed: String::new(),
        epoch: String::new(),
        requesters: Vec::new(),
        known: None,
        descent: None,
        gates: Vec::new(),
        policy: None,
    }
}

fn closed(closing: Closing, by: &str) -> Event {
    Event::closed_by_itself(3, closing, by)
}

fn keyed(mut event: Event, used: &str) -> Event {
    if let Event::Closed { key, .. } | Event::Cancelled { key, .. } = &mut event {
        used.clone_into(key);
    }
    event
}

fn revoked(by: &str, key: &str) -> Event {
    let (by, door, known) = (by.into(), String::new(), None);
    Event::Revoked { tool: "pay".into(), by, door, known, key: key.into() }
}

/// Every event there is, once with everything and, where it matters, once with nothing.
fn events() -> Vec<Event> {
    let failure = || Failure::new("step.failed", "no luck");
    let usage = Usage { input_tokens: 5, output_tokens: 7 };
    let plain = Message::text(Speaker::User, "", "Hello.");
    vec![
        Event::Started(Box::new(started())),
        Event::Started(Box::new(Started {
            metadata: BTreeMap::new(),
            forked_from: None,
            ..started()
        })),
        Event::StepStarted {
            turn: 1,
            step: "look".into(),
            agent: "planner".into(),
            attempt: 2,
            purpose: Purpose::Synthesis,
            prompt: None,
            judges: None,
        },
        Event::StepStarted {
            turn: 2,
            step: "look".into(),
            agent: "planner".into(),
            attempt: 1,
            purpose: Purpose::Work,
            prompt: None,
            judges: None,
        },
        Event::Delta { turn: 1, attempt: 2, text: "Hm".into() },
        Event::MessageAdded { turn: Some(1), message: message(), usage },
        Event::MessageAdded { turn: None, message: plain, usage: Usage::default() },
        Event::ToolCalled { turn: 1, call: call(), safety: Safety::Idempotent, granted: vec![] },
        Event::ToolReturned { turn: 1, call_id: "c1".into(), value: json!({"n": 1}), failed: true },
        Event::ToolReturned { turn: 1, call_id: "c1".into(), value: json!(null), failed: false },
        Event::HandedOff {
            turn: 1,
            call_id: "c2".into(),
            from: "planner".into(),
            to: "buyer".into(),
        },
        Event::StepCompleted { turn: 1, output: json!({"ok": true}) },
        Event::StepCompleted { turn: 1, output: Value::Null },
        Event::StepFailed {
            turn: 1,
            attempt: 2,
            failure: failure(),
            retry_at: Some(Millis(9)),
            interrupted: true,
        },
        Event::StepFailed {
            turn: 1,
            attempt: 2,
            failure: failure(),
            retry_at: None,
            interrupted: false,
        },
        Event::Asked(Box::new(question())),
        Event::Asked(Box::new(plain_question())),
        answered(2, "cli", "k", None),
        closed(Closing::Passed, "timer"),
        revoked("ann", ""),
        Event::CheckpointSaved,
        Event::Parked,
        Event::Output { value: json!(["done"]) },
        Event::Warned(failure()),
        Event::Completed,
        Event::Failed(failure()),
        Event::cancelled_after("ann".into(), "enough"),
    ]
}

/// What a graph adds: its own events, and new fields of older ones.
fn graph_events() -> Vec<Event> {
    let opened = |path: &str, opening| Event::StepOpened { path: path.into(), opening };
    let settled = |outcome| Event::StepClosed { path: "notify[3]/send".into(), outcome };
    let failure = || Failure::new("step.timeout", "too slow");
    vec![
        Event::StepStarted {
            turn: 4,
            step: "notify[3]/send".into(),
            agent: String::new(),
            attempt: 1,
            purpose: Purpose::Work,
            prompt: Some("Send it.".into()),
            judges: None,
        },
        opened("notify", Opening::Items(vec![json!({"id": 1}), json!("x")])),
        opened("notify[3]", Opening::Item),
        opened("notify[3]/send", Opening::Step),
        opened("both/one", Opening::Branch),
        opened("again[2]", Opening::Round),
        opened("sub/close", Opening::Scope(json!({"n": 1}))),
        opened("w", Opening::Wait { until: Some(Millis(9)), signal: Some("ready".into()) }),
        opened("w", Opening::Wait { until: None, signal: None }),
        Event::StepOutcome { path: "w".into(), outcome: Outcome::Done(json!({"by": "timer"})) },
        settled(Outcome::Done(json!([1.5, null]))),
        settled(Outcome::Skipped("by ann".into())),
        settled(Outcome::Failed(failure())),
        settled(Outcome::Tolerated(failure())),
        Event::Signalled {
            name: "ready".into(),
            value: json!(7),
            by: "ann".into(),
            door: String::new(),
            known: None,
            key: String::new(),
        },
        Event::Signalled {
            name: "ready".into(),
            value: Value::Null,
            by: "ann".into(),
            door: String::new(),
            known: None,
            key: String::new(),
        },
        closed(Closing::Moot, ""),
        Event::Asked(Box::new(Question {
            origin: Origin::Phase(Point::Before),
            ..plain_question()
        })),
        Event::Asked(Box::new(Question {
            origin: Origin::Phase(Point::Review),
            ..plain_question()
        })),
    ]
}

#[test]
fn every_event_of_a_graph_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let events = graph_events();
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-graph.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}

#[test]
fn what_a_caller_went_on_from_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let from = Some("resp_01k9zq3v7m8n4p5r6s7t8v9w0x-000000".to_owned());
    let events = vec![
        Event::Started(Box::new(Started { from: from.clone(), ..started() })),
        answered(1, "http", "", from),
    ];
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-from.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}

#[test]
fn the_key_of_a_callers_deed_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let (name, value, by) = ("go".into(), json!(7), "ann".into());
    let (door, known) = (String::new(), None);
    let events = vec![
        Event::Signalled { name, value, by, door, known, key: "k".into() },
        revoked("ann", "k"),
        keyed(closed(Closing::Withdrawn, "ann"), "k"),
        keyed(Event::cancelled_after("ann".into(), "enough"), "k"),
    ];
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-keyed.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}

#[test]
fn what_a_run_follows_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let follows = |also, messages| Some(Box::new(Follows { run: run(), also, messages }));
    let events = vec![
        Event::Started(Box::new(Started { follows: follows(vec![run()], 12), ..started() })),
        Event::Started(Box::new(Started { follows: follows(Vec::new(), 0), ..started() })),
    ];
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-follows.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}

#[test]
fn an_epoch_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let (epoch, seed) = ("0e90c4".to_owned(), "5eed".to_owned());
    let events = vec![
        Event::Started(Box::new(Started { epoch: epoch.clone(), ..started() })),
        Event::Renewed { epoch, seed, only: Vec::new() },
    ];
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-epoch.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}

#[test]
fn a_trace_and_a_summary_are_written_as_they_always_were() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned();
    let trace = Trace { parent, state: "vendor=7".into() };
    let said = Message::text(Speaker::Assistant, "scribe", "Summary of what was said before:\nx");
    let summary = Message { replaces: Some(3), ..said.to(Audience::Only("planner".into())) };
    let events = vec![
        Event::Started(Box::new(Started { trace: Some(trace), ..started() })),
        Event::MessageAdded { turn: Some(2), message: summary, usage: Usage::default() },
    ];
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-trace.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}

#[test]
fn a_judges_turn_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let events = vec![Event::StepStarted {
        turn: 2,
        step: "pay@risky".into(),
        agent: "judge".into(),
        attempt: 1,
        purpose: Purpose::Judgement,
        prompt: Some("Look.".into()),
        judges: Some(Box::new(Judging { turn: 1, call: call(), until: Millis(60_000) })),
    }];
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry-judging.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read[0].event, events[0]);
}

fn head(status: HeadStatus) -> Head {
    Head {
        veil: Veil::default(),
        run: run(),
        session: session_id("ses_golden"),
        owner: "ann".into(),
        workflow: "venue".into(),
        definition: "d1".into(),
        version: 7,
        status,
        started_at: Millis(1_700_000_000_000),
        updated_at: Millis(1_700_000_000_250),
        questions: vec![question().into(), plain_question().into()],
        wake_at: Some(Millis(1_700_000_360_000)),
        turns: 3,
        messages: 4,
        metadata: BTreeMap::from([("team".into(), "events".into())]),
        forked_from: Some((run(), 7)),
        family: None,
        requesters: Vec::new(),
        spent: Spent::default(),
        spent_before: Spent::default(),
        owed: 0,
        said: None,
    }
}

#[test]
fn every_event_is_written_as_it_always_was() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let events = events();
    let record = codec::seal_events(&key, Millis(1_700_000_000_000), &events).unwrap();
    let stored = golden("v1-entry.bin", &record);
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
    assert!(read.iter().zip(1..).all(|(recorded, version)| recorded.version == version));
    assert!(read.iter().all(|recorded| recorded.at == Millis(1_700_000_000_000)));
}

#[test]
fn every_head_is_written_as_it_always_was() {
    let key = keys::head(&keys::pack(&run()).unwrap());
    let failure = Failure::new("step.cap", "too many");
    for (name, status) in [
        ("running", HeadStatus::Running),
        ("waiting", HeadStatus::Waiting(Millis(8))),
        ("completed", HeadStatus::Completed),
        ("failed", HeadStatus::Failed(failure)),
        ("cancelled", HeadStatus::Cancelled("ann".into())),
    ] {
        let expected = StoredHead {
            fence: (1 << 32) + 1,
            key: Some("order \"7\"".into()),
            head: head(status),
            apart: 0,
            link: None,
        };
        let json = codec::head_json(&expected.head).unwrap();
        let record = codec::seal_head(&key, expected.fence, expected.key.as_deref(), 0, &json);
        let stored = golden(&format!("v1-head-{name}.bin"), &record);
        assert_eq!(codec::unseal_head(&key, &stored), Ok(expected));
    }
}

#[test]
fn questions_beside_their_head_are_written_as_they_always_were() {
    let packed = keys::pack(&run()).unwrap();
    let key = keys::question(&packed, 2);
    let stored = golden("v1-question.bin", &codec::seal_json(&key, &question()).unwrap());
    assert_eq!(codec::unseal_json::<Question>(&key, &stored), Ok(question()));

    let key = keys::head(&packed);
    let head = Head { questions: Vec::new(), ..head(HeadStatus::Waiting(Millis(8))) };
    let record = codec::seal_head(&key, 0, None, 1_000, &codec::head_json(&head).unwrap());
    let stored = golden("v1-head-apart.bin", &record);
    let expected = StoredHead { head, fence: 0, key: None, apart: 1_000, link: None };
    assert_eq!(codec::unseal_head(&key, &stored), Ok(expected));
}

#[test]
fn sessions_and_keys_are_written_as_they_always_were() {
    let session = session_id("ses_golden");
    let row = SessionRow::new(session.clone(), "ann", Millis(7));
    let key = keys::session(&session);
    for (name, first) in [("v1-session.bin", None), ("v1-session-first.bin", Some(run()))] {
        let stored = golden(name, &codec::seal_session(&key, &row, first.as_ref()).unwrap());
        let known = StoredSession { row: row.clone(), first };
        assert_eq!(codec::unseal_session(&key, &stored), Ok(known));
    }
    let odd = SessionRow::new(session_id(r#"a"b\c"#), "ann", Millis(7));
    let odd_key = keys::session(&odd.session);
    let stored = codec::seal_session(&odd_key, &odd, Some(&run())).unwrap();
    assert_eq!(codec::unseal_session(&odd_key, &stored).map(|known| known.row), Ok(odd));

    let row = KeyRow { request: "d1".into(), run: run() };
    let key = keys::idempotency("ann", "order 7");
    let stored = golden("v1-key.bin", &codec::seal_json(&key, &row).unwrap());
    assert_eq!(codec::unseal_json::<KeyRow>(&key, &stored), Ok(row));
}

#[test]
fn keys_are_laid_out_as_they_always_were() {
    let packed = keys::pack(&run()).unwrap();
    let session = session_id("s");
    let layout = [
        ("head", keys::head(&packed)),
        ("entry", keys::entry(&packed, 258)),
        ("question", keys::question(&packed, 258)),
        ("going", keys::going(&packed)),
        ("due", keys::due(Millis(258), &packed)),
        ("session", keys::session(&session)),
        ("session_run", keys::session_run(&session, &packed)),
        ("key", keys::idempotency("ann", "order 7")),
        ("definition", keys::definition("d1")),
        ("piece", keys::chunk(b"f1", 3)),
        ("epoch", keys::EPOCH.to_vec()),
    ];
    let mut lines = String::new();
    for (name, key) in layout {
        write!(lines, "{name} ").unwrap();
        for byte in key {
            write!(lines, "{byte:02x}").unwrap();
        }
        lines.push('\n');
    }
    golden("v1-keys.txt", lines.as_bytes());
}

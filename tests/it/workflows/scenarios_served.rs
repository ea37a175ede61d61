//! The shipped workflows on the real server, four ways each: straight through, killed while waiting,
//! killed while resuming, and answered through another door than they were started from.
//!
//! What the models were given is read from `--record-inputs` and asserted word for word (K5).

use std::fs;
use std::path::{Path, PathBuf};

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    GetRunRequest, GetRunResponse, ListRequestsRequest, RunStatus, WorkflowEvent,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::server::{Server, Setup, answer_to, asked, names, run, send, start_of};
use crate::terminal::cli::{Ended, holdpoint};

/// A served scenario, and what its models were given.
struct Play {
    root: TempDir,
    server: Server,
    way: Way,
    workflow: &'static str,
    run_id: String,
    session_id: String,
    /// Calls so far: each has a key of its own.
    calls: u32,
}

/// How it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Straight,
    KilledWaiting,
    /// Before the answer is durable: what followed from it is worked out again.
    KilledResumingBefore,
    /// After it is durable: nothing is worked out again.
    KilledResumingAfter,
}

const WAYS: [Way; 4] =
    [Way::Straight, Way::KilledWaiting, Way::KilledResumingBefore, Way::KilledResumingAfter];

impl Play {
    async fn start(workflow: &'static str, way: Way, input: &str) -> (Self, Vec<WorkflowEvent>) {
        let root = TempDir::new().unwrap();
        let server = setup(root.path()).start();
        let mut client = server.client().await;
        let events = run(&mut client, start_of(workflow, "", input, "key-0")).await;
        let run_id = events[0].run_id.clone();
        let session_id = events[0].session_id.clone();
        (Self { root, server, way, workflow, run_id, session_id, calls: 0 }, events)
    }

    /// Answers, in the way this is played; returns what followed.
    async fn answer(&mut self, after: &[WorkflowEvent], value: &str) -> Vec<WorkflowEvent> {
        self.calls += 1;
        let request = asked(after).expect("a pause").request_id;
        let answer = answer_to(&request, value, &format!("key-{}", self.calls));
        match self.way {
            Way::Straight => {}
            Way::KilledWaiting => self.server.restart(),
            Way::KilledResumingBefore => self.dies_at("engine.before_append", &answer).await,
            Way::KilledResumingAfter => self.dies_at("engine.after_append", &answer).await,
        }
        let events = send(&mut self.server.client().await, answer).await;
        let next = after.last().unwrap().sequence + 1;
        assert_eq!(events[0].sequence, next, "the stream begins where the pause ended");
        events
    }

    /// The answer comes, and the server dies of it.
    async fn dies_at(
        &mut self,
        failpoint: &str,
        answer: &holdpoint::wire::v1::SendResponsesRequest,
    ) {
        self.server.restart_at(failpoint);
        let outcome = self.server.client().await.send_responses(answer.clone()).await;
        assert!(outcome.is_err(), "it died before it could say anything");
        self.server.wait();
        self.server.restart();
    }

    async fn view(&self) -> GetRunResponse {
        let request = GetRunRequest { run_id: self.run_id.clone(), omit_conversation: false };
        self.server.client().await.get_run(request).await.unwrap().into_inner()
    }

    /// A command in a process of its own, at the same server.
    fn command(&self, arguments: &[&str]) -> Ended {
        let url = self.server.url();
        let arguments = [arguments, &["--server", &url, "--json"]].concat();
        holdpoint(self.root.path(), &arguments, "")
    }

    fn inputs(&self) -> Vec<(String, Vec<String>)> {
        recorded(&recording(self.root.path()))
    }
}

fn setup(root: &Path) -> Setup {
    Setup::new(root).arg("--record-inputs").arg(recording(root).to_str().unwrap())
}

fn recording(root: &Path) -> PathBuf {
    root.join("inputs.jsonl")
}

/// What each model was given, in order: the agent, and one line a message.
fn recorded(path: &Path) -> Vec<(String, Vec<String>)> {
    let line = |message: &Value| {
        let text = |field: &str| message[field].as_str().unwrap().to_owned();
        let tools = message["calls"].as_array().into_iter().flatten();
        let tools: Vec<_> = tools.map(|call| call["tool"].as_str().unwrap()).collect();
        let calls = if tools.is_empty() { String::new() } else { format!(" {tools:?}") };
        format!("{} {}: {}{calls}", text("role"), text("author"), text("text"))
    };
    let text = fs::read_to_string(path).unwrap();
    let inputs = text.lines().map(|input| {
        let input: Value = serde_json::from_str(input).unwrap();
        let messages = input["messages"].as_array().unwrap().iter().map(line).collect();
        (input["agent"].as_str().unwrap().to_owned(), messages)
    });
    inputs.collect()
}

/// The same input twice in a row is one that was worked out again after a death.
fn without_repeats(
    inputs: &[(String, Vec<String>)],
    rounds: &[usize],
) -> Vec<(String, Vec<String>)> {
    let (mut kept, mut at) = (Vec::new(), 0);
    for (index, round) in rounds.iter().enumerate() {
        let first = &inputs[at..at + round];
        kept.extend_from_slice(first);
        at += round;
        if index > 0 {
            assert_eq!(&inputs[at..at + round], first, "worked out again, word for word the same");
            at += round;
        }
    }
    assert_eq!(at, inputs.len());
    kept
}

const ASK: &str =
    "I need help with order 12345. I want a replacement and need to know when it will arrive.";
const DAMAGED: &str =
    "The item arrived damaged. I'd like a replacement shipped to the same address.";
const CHARGED: &str = "Great! Can you confirm the shipping cost won't be charged again?";
const THANKS: &str = "Thank you!";

#[tokio::test]
async fn s1_comes_to_the_same_end_however_the_server_dies() {
    for way in WAYS {
        let (mut play, mut events) = Play::start("multi_tier_support", way, ASK).await;
        for (agent, value) in [("replacement", DAMAGED), ("delivery", CHARGED), ("billing", THANKS)]
        {
            assert_eq!(asked(&events).unwrap().awaiting_agent, agent, "{way:?}");
            events = play.answer(&events, value).await;
        }
        assert_eq!(names(&events).last(), Some(&"completed"), "{way:?}");
        assert_s1_over(&play.view().await, "local");
    }
}

#[tokio::test]
pub(crate) async fn s1_is_answered_through_other_doors_than_it_was_started_from() {
    let (play, events) = Play::start("multi_tier_support", Way::Straight, ASK).await;
    let first = asked(&events).unwrap().request_id;
    // By id, from another process; then in the session, as a second message; then over gRPC again.
    let told = play.command(&["respond", &first, DAMAGED]);
    assert_eq!(told.code, 4, "it waits again: {}", told.err);
    let told = play.command(&["run", play.workflow, CHARGED, "--session", &play.session_id]);
    assert_eq!(told.code, 4, "it waits again: {}", told.err);
    let inbox = play.command(&["inbox"]).json();
    let open = inbox["requests"][0]["request_id"].as_str().unwrap();
    let events = send(&mut play.server.client().await, answer_to(open, THANKS, "")).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    assert_s1_over(&play.view().await, "local");
    let journal =
        crate::support::server::journal(&mut play.server.client().await, &play.run_id).await;
    let doors: Vec<_> = journal.iter().filter_map(door).collect();
    // A terminal that talks to a server is a caller of its gRPC door.
    assert_eq!(doors, ["grpc", "grpc", "grpc"]);
}

fn door(event: &WorkflowEvent) -> Option<&str> {
    let Some(Event::ResponseReceived(response)) = &event.event else { return None };
    Some(&response.door)
}

fn assert_s1_over(view: &GetRunResponse, user: &str) {
    let run = view.run.as_ref().unwrap();
    assert_eq!((run.status(), &run.workflow_waiting), (RunStatus::Completed, &None));
    let said: Vec<_> = view
        .conversation
        .iter()
        .filter(|message| message.role != "tool")
        .map(|message| format!("{}: {}", message.author_name, message.text))
        .collect();
    assert_eq!(said, [
        format!("{user}: {ASK}"),
        "triage: I am handing you to our replacement team.".into(),
        "replacement: I can arrange a replacement. What is wrong with the item, and where shall the new one go?".into(),
        format!("{user}: {DAMAGED}"),
        "replacement: I have arranged a replacement under RMA-12345. Delivery will tell you when it arrives.".into(),
        "delivery: Your package leaves our warehouse tomorrow and arrives within three working days. Is there anything else?".into(),
        format!("{user}: {CHARGED}"),
        "delivery: Billing can confirm that.".into(),
        "billing: I confirm that the replacement and its shipping are free of charge. You will not be billed again.".into(),
        format!("{user}: {THANKS}"),
    ]);
}

const PARTY: &str = "Plan a party for 30 people";

/// Every input of every model in `PARTY` with the answers `Pier 66` and `$2000`.
fn party_inputs() -> Vec<(String, Vec<String>)> {
    let user = "user local: Plan a party for 30 people";
    let brought =
        "assistant event_coordinator: I am bringing in the specialists, beginning with the venue.";
    let found = "assistant venue: I found three venues that would suit you.";
    let which = "assistant venue: Which venue do you prefer?";
    let venue = "assistant venue: The venue is Pier 66, as you chose. It is free and has room for everybody.";
    let total = "assistant budget: What is the total budget?";
    let shares = "assistant budget: With a budget of $2000: a third each for venue and catering, the rest for logistics and reserve.";
    let food = "assistant catering: A buffet for every taste, with a vegetarian half, within the catering share.";
    let hours = "assistant logistics: Doors at 18:00, dinner at 19:00, end at 22:00; the date can still be moved.";
    let told = "system event_planning: Everybody has spoken. Write the plan for the event: one text that uses the venue, the budget, the\ncatering and the schedule as they were found.\n";
    let called = format!("{found} [\"request_user_input\"]");
    let to_budget = [user, brought, found, which, "user local: Pier 66", venue];
    let asking = ["assistant budget:  [\"request_user_input\"]", "tool : $2000"];
    let after_budget = [&to_budget[..], &[total, "user local: $2000", shares]].concat();
    let input = |agent: &str, lines: &[&str]| {
        (agent.to_owned(), lines.iter().map(|&line| line.to_owned()).collect())
    };
    vec![
        input("event_coordinator", &[user]),
        input("venue", &[user, brought]),
        input("venue", &[user, brought, &called, "tool : Pier 66"]),
        input("budget", &to_budget),
        input("budget", &[&to_budget[..], &asking].concat()),
        input("catering", &after_budget),
        input("logistics", &[&after_budget[..], &[food]].concat()),
        input("event_coordinator", &[&after_budget[..], &[food, hours, told]].concat()),
    ]
}

fn assert_party_over(view: &GetRunResponse) {
    let run = view.run.as_ref().unwrap();
    assert_eq!((run.status(), &run.workflow_waiting), (RunStatus::Completed, &None));
    let plan = view.output.as_ref().and_then(|output| output.as_str()).unwrap();
    for part in [PARTY, "Pier 66", "$2000", "buffet", "Doors at 18:00"] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
}

#[tokio::test]
async fn s3_models_are_given_the_same_words_however_the_server_dies() {
    for way in WAYS {
        let (mut play, events) = Play::start("event_planning", way, PARTY).await;
        let expected = party_inputs();
        assert_eq!(asked(&events).unwrap().prompt, "Which venue do you prefer?");
        assert_eq!(play.inputs(), expected[..2], "{way:?}: before the first pause");

        let events = play.answer(&events, "Pier 66").await;
        assert_eq!(asked(&events).unwrap().prompt, "What is the total budget?");
        let so_far = play.inputs();
        match way {
            Way::KilledResumingBefore => {
                assert_eq!(without_repeats(&so_far, &[2, 2]), expected[..4]);
            }
            Way::Straight | Way::KilledWaiting | Way::KilledResumingAfter => {
                assert_eq!(so_far, expected[..4], "{way:?}: after the first pause");
            }
        }
        let events = play.answer(&events, "$2000").await;
        assert_eq!(names(&events).last(), Some(&"completed"), "{way:?}");
        let all = play.inputs();
        match way {
            Way::KilledResumingBefore => {
                assert_eq!(without_repeats(&all, &[2, 2, 4]), expected);
            }
            Way::Straight | Way::KilledWaiting | Way::KilledResumingAfter => {
                assert_eq!(all, expected, "{way:?}: after the second pause");
            }
        }
        assert_party_over(&play.view().await);
    }
}

#[tokio::test]
async fn s3_begins_at_the_terminal_and_is_answered_over_grpc_and_at_the_terminal() {
    let root = TempDir::new().unwrap();
    let data = root.path().join("data");
    let (data, inputs) = (data.to_str().unwrap(), recording(root.path()));
    let local = ["--data", data, "--json", "--record-inputs", inputs.to_str().unwrap()];
    // Embedded: no server is there yet, and none has to be.
    let told =
        holdpoint(root.path(), &[&["run", "event_planning", PARTY], &local[..]].concat(), "");
    assert_eq!(told.code, 4, "{}", told.err);
    let server = setup(root.path()).start();
    let mut client = server.client().await;
    let open =
        client.list_requests(ListRequestsRequest::default()).await.unwrap().into_inner().requests;
    let events = send(&mut client, answer_to(&open[0].request_id, "Pier 66", "")).await;
    let second = asked(&events).unwrap().request_id;
    // The directory is held, so the command finds the server by itself.
    let told = holdpoint(root.path(), &[&["respond", &second, "$2000"], &local[..]].concat(), "");
    assert_eq!(told.code, 0, "{}", told.err);
    assert_eq!(recorded(&inputs), party_inputs());
    let request = GetRunRequest { run_id: events[0].run_id.clone(), omit_conversation: false };
    assert_party_over(&client.get_run(request).await.unwrap().into_inner());
}

#[tokio::test]
pub(crate) async fn s3_the_budget_agent_is_given_the_words_of_user_and_venue_after_a_restart_too() {
    let wish = "Plan a corporate holiday party for 50 people, budget $5000";
    let (mut play, events) = Play::start("event_planning", Way::KilledWaiting, wish).await;
    assert_eq!(asked(&events).unwrap().prompt, "Which city should it be in?");
    let events = play.answer(&events, "Seattle, WA").await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    let inputs = play.inputs();
    let (_, budget) = inputs.iter().find(|(agent, _)| agent == "budget").unwrap();
    assert_eq!(budget, &[
        format!("user local: {wish}"),
        "assistant event_coordinator: I am bringing in the specialists, beginning with the venue.".into(),
        "assistant venue: I can suggest a venue as soon as I know where.".into(),
        "assistant venue: Which city should it be in?".into(),
        "user local: Seattle, WA".into(),
        "assistant venue: In Seattle, WA I recommend the Harbor Hall: central, and room for everybody.".into(),
    ]);
}

#[tokio::test]
pub(crate) async fn s3_a_wish_with_everything_in_it_never_pauses() {
    let wish = "Plan a corporate team building event for 30 people, budget $3000, downtown Seattle, \
                Friday evening in 3 weeks, vegetarian and gluten-free options required";
    let (play, events) = Play::start("event_planning", Way::Straight, wish).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    assert!(!names(&events).contains(&"request_info"));
    assert_eq!(play.inputs().len(), 6);
}

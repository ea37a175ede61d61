//! S4 over A2A: one task taken up step by step by clients of two languages on three bindings, each
//! act a process of its own, with the server killed in between.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use holdpoint::wire::v1::{GetRunRequest, RunStatus, SignalRunRequest};
use serde_json::json;
use tempfile::TempDir;

use crate::a2a::calls::{Agent, coded, state, text, to};
use crate::a2a::sdk::{JAVASCRIPT, act_at, line, told};
use crate::support::server::{Server, journal, names};

const FLOW: &str = "customer_onboarding";
const CONTEXT: &str = "acme-talk";
const REPORT: &str = "Onboarding report. Account A-2, opportunity O-11 (Support contract), case \
                      C-100, 3 tasks; the customer's side ended by signal.";

/// Something said in the context alone: how the task then stands, what it says, and which it is.
fn said(act: Child) -> (String, String, String) {
    let told = told(act);
    told.last().unwrap_or_else(|| panic!("nothing was told")).clone()
}

fn say(server: &Server, binding: &str, text: &str, id: &str) -> Child {
    act_at(server, FLOW, binding, &["say", CONTEXT, text, id])
}

/// Tells of the event that a task waits for, once it does.
async fn signal(server: &Server, task: &str) {
    parked(server, task).await;
    let (run_id, name) = (task.to_owned(), "onboarding_complete".to_owned());
    let signal = SignalRunRequest { run_id, name, ..Default::default() };
    server.client().await.signal_run(signal).await.unwrap();
}

/// Comes back when the run waits.
async fn parked(server: &Server, run_id: &str) {
    let request = GetRunRequest { run_id: run_id.to_owned(), omit_conversation: true };
    let mut client = server.client().await;
    while client.get_run(request.clone()).await.unwrap().into_inner().run.unwrap().status()
        != RunStatus::Waiting
    {
        tokio::task::yield_now().await;
    }
}

/// How often somebody's answer was taken.
async fn answers(server: &Server, task: &str) -> usize {
    let journal = names(&journal(&mut server.client().await, task).await);
    journal.into_iter().filter(|name| *name == "response_received").count()
}

#[tokio::test]
pub(crate) async fn s4_is_taken_up_over_a2a_by_other_clients_after_kills() {
    let here = TempDir::new().unwrap();
    let mut server = Server::start(here.path());
    let (asked, words, task) = said(say(&server, "GRPC", "Onboard Acme", "m-1"));
    assert_eq!(asked, "INPUT_REQUIRED");
    assert!(words.contains("1. Acme Corporation: Boston\n2. Acme Labs: Denver"), "{words}");

    server.restart();
    let (asked, words, same) = said(say(&server, JAVASCRIPT, "Acme Labs", "m-2"));
    assert_eq!((asked.as_str(), &same), ("INPUT_REQUIRED", &task));
    assert!(words.contains("1. Platform licence: 50000 USD"), "{words}");

    // The same message again, by whomever and however it is carried, is one answer.
    for binding in ["HTTP+JSON", "GRPC", JAVASCRIPT] {
        let again = said(say(&server, binding, "Acme Labs", "m-2"));
        assert_eq!(again, (asked.clone(), words.clone(), task.clone()), "{binding}");
    }
    assert_eq!(answers(&server, &task).await, 1);
    // The same id with another body is judged on its own: this one does not fit, and says why.
    let (refused, why, same) = said(say(&server, "JSONRPC", "the moon", "m-2"));
    assert_eq!((refused.as_str(), &same), ("INPUT_REQUIRED", &task));
    assert!(why.contains("O-10") && why.ends_with(&words), "{why}");
    assert_eq!(answers(&server, &task).await, 1);
    // Another context never consumes it.
    let elsewhere = told(act_at(&server, FLOW, "JSONRPC", &["say", "another", "O-11", "m-2"]));
    assert_ne!(elsewhere.last().unwrap().2, task);

    server.restart();
    let mut act = say(&server, "HTTP+JSON", "O-11", "m-2");
    let mut seen =
        BufReader::new(act.stdout.take().unwrap()).lines().map(|text| line(&text.unwrap()));
    assert_eq!(seen.next().unwrap().0, "WORKING", "this one fits, under the same id");
    signal(&server, &task).await;
    let rest: Vec<_> = seen.collect();
    let [.., (_, report, _), (end, ..)] = rest.as_slice() else { panic!("{rest:?}") };
    assert_eq!((report.as_str(), end.as_str()), (REPORT, "COMPLETED"));
    assert!(act.wait().unwrap().success());
    assert_eq!(answers(&server, &task).await, 2);
}

#[tokio::test]
async fn a_task_that_waits_for_an_event_is_at_work_and_asks_nobody() {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    let agent = Agent::new(server.address(), "/a2a/customer_onboarding");
    let asked = agent.send(&text("m1", "Onboard Globex"));
    let bare = agent.send(&to(&asked, text("m2", "2")));
    assert_eq!(state(&bare), "INPUT_REQUIRED", "a number alone may be meant for another list");
    let answer = to(&asked, text("m3", &coded(&asked, "1").replacen('1', "2", 1)));
    let now = json!({"message": answer, "configuration": {"returnImmediately": true}});
    let working = agent.call("SendMessage", &now)["task"].take();
    assert_eq!(state(&working), "WORKING");
    let mut watch = agent.stream("SubscribeToTask", &json!({"id": asked["id"]}));
    assert_eq!(state(&watch.next().unwrap().1["task"]), "WORKING");

    // Whoever waits for the task waits for its end, not for the event.
    let again = json!({"message": answer});
    let mut stream = agent.stream("SendStreamingMessage", &again);
    assert_eq!(state(&stream.next().unwrap().1["task"]), "WORKING");
    let id = asked["id"].as_str().unwrap();
    parked(&server, id).await;
    let listed = |state: &str| {
        agent.call("ListTasks", &json!({"status": format!("TASK_STATE_{state}")}))["totalSize"]
            .clone()
    };
    assert_eq!((listed("WORKING"), listed("INPUT_REQUIRED")), (json!(1), json!(0)));
    let no = agent.rpc("SendMessage", &json!({"message": to(&asked, text("m3", "hurry"))}));
    assert_eq!(no["error"]["code"], -32004, "{no}");
    let mut other = text("m4", "Onboard Globex");
    other["contextId"] = asked["contextId"].clone();
    assert_ne!(agent.send(&other)["id"], asked["id"], "it asks nothing, so this is other work");

    signal(&server, id).await;
    let ends = [stream.last().unwrap().1, watch.last().unwrap().1];
    assert!(ends.iter().all(|end| state(&end["statusUpdate"]) == "COMPLETED"), "{ends:?}");
}

//! The outbox on the real server: webhooks are told at least once and in order, whatever dies, and in
//! the words of whoever set them up.

use std::sync::atomic::{AtomicUsize, Ordering};

use holdpoint::api::webhook;
use holdpoint::kernel::Millis;
use serde_json::json;
use tempfile::TempDir;

use crate::a2a::calls::{Agent, coded};
use crate::support::listener::Listener;
use crate::support::server::{Server, Setup, answer_to, asked, run, send, start_of};

const SECRET: &str = "whsec_test";

/// The agent that asks before it sends.
fn agent(server: &Server) -> Agent {
    Agent::new(server.address(), "/a2a/approve_and_send")
}

/// The same, spoken to in the older version.
fn older_agent(server: &Server) -> Agent {
    Agent { headers: Vec::new(), ..agent(server) }
}

#[tokio::test]
async fn the_operators_webhook_is_told_in_order_and_signed_after_a_kill_too() {
    let root = TempDir::new().unwrap();
    let calls = AtomicUsize::new(0);
    // It is ill at first, so that the server dies owing it something.
    let listener = Listener::start(move |_| {
        let status = if calls.fetch_add(1, Ordering::SeqCst) == 0 { 500 } else { 204 };
        (status, String::new())
    });
    let setup = Setup::new(root.path())
        .arg("--webhook-url")
        .arg(&format!("{}/hook", listener.url()))
        .arg("--webhook-secret")
        .arg(SECRET);
    let mut server = setup.start();
    let mut client = server.client().await;
    let events = run(&mut client, start_of("approve_and_send", "", "Tell Ada.", "k0")).await;
    let request = asked(&events).unwrap();
    assert_eq!(listener.next().json()["type"], "request.asked");
    server.restart();
    let again = listener.next();
    assert_eq!(again.path, "/hook");
    let told = again.json();
    assert_eq!(told["type"], "request.asked");
    assert_eq!(told["request"]["request_id"], request.request_id.as_str());
    assert_eq!(told["request"]["prompt"], request.prompt.as_str());
    let seconds: u64 = again.headers["webhook-timestamp"].parse().unwrap();
    let id = told["id"].as_str().unwrap();
    let signed = webhook::signed(SECRET.as_bytes(), id, Millis(seconds * 1_000), &again.body);
    for (name, value) in signed {
        assert_eq!(again.headers[name], value, "{name}");
    }
    let mut client = server.client().await;
    send(&mut client, answer_to(&request.request_id, "approve", "k1")).await;
    let answered = listener.next().json();
    assert_eq!(answered["type"], "request.answered");
    assert_eq!(answered["response"]["value"]["decision"], "approve");
    assert_eq!(answered["response"]["door"], "grpc");
    assert_eq!(listener.next().json()["type"], "run.completed");
}

#[test]
fn m8_a_webhook_without_a_secret_is_refused_before_the_server_listens() {
    let root = TempDir::new().unwrap();
    for (number, secret) in [None, Some(""), Some(" ")].into_iter().enumerate() {
        let here = root.path().join(number.to_string());
        std::fs::create_dir(&here).unwrap();
        let setup = Setup::new(&here).arg("--webhook-url=http://127.0.0.1:9/hook");
        let setup = match secret {
            None => setup,
            Some(secret) => setup.arg("--webhook-secret").arg(secret),
        };
        let ended = setup.try_start().err();
        assert!(ended.is_some_and(|status| !status.success()), "{secret:?} was taken");
        let told = setup.told();
        assert!(told.contains("webhook_secret"), "{told}");
        assert!(told.contains("HOLDPOINT_WEBHOOK_SECRET"), "the remedy: {told}");
    }
}

#[tokio::test]
async fn a_server_that_dies_between_telling_and_noting_it_tells_it_again() {
    let root = TempDir::new().unwrap();
    let listener = Listener::start(|_| (200, String::new()));
    let setup = Setup::new(root.path()).arg("--webhook-url").arg(&listener.url());
    let setup = setup.env("HOLDPOINT_WEBHOOK_SECRET", SECRET);
    let mut server = setup.clone().failpoint("outbox.before_settle", 1).start();
    let mut client = server.client().await;
    drop(client.run_workflow(start_of("approve_and_send", "", "Tell Ada.", "k0")).await);
    let first = listener.next().json();
    server.wait();
    let _server = setup.start();
    let again = listener.next().json();
    assert_eq!(first["type"], "request.asked");
    assert_eq!(first, again, "the same, known by its id");
}

#[tokio::test]
async fn a_tasks_webhook_is_told_where_it_stands_in_the_version_of_its_caller() {
    let root = TempDir::new().unwrap();
    let listener = Listener::start(|_| (200, String::new()));
    let setup =
        Setup::new(root.path()).arg("--push-allow").arg("127.0.0.1").arg("--a2a-v03").arg("true");
    let mut server = setup.start();
    let config = json!({"id": "mine", "url": format!("{}/push", listener.url()), "token": "t1",
        "authentication": {"scheme": "Bearer", "credentials": "secret"}});
    let message = json!({"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Tell Ada."}]});
    let sent = agent(&server).rpc(
        "SendMessage",
        &json!({"message": message,
        "configuration": {"taskPushNotificationConfig": config}}),
    );
    let task = sent["result"]["task"]["id"].as_str().unwrap().to_owned();
    let first = listener.next();
    assert_eq!(first.headers["authorization"], "Bearer secret");
    assert_eq!(first.headers["x-a2a-notification-token"], "t1");
    assert_eq!(first.headers["content-type"], "application/a2a+json");
    let status = first.json()["statusUpdate"].clone();
    assert_eq!(status["taskId"], task.as_str());
    assert_eq!(status["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let code = coded(&sent, "approve").replace("approve ", "");
    assert!(!status.to_string().contains(&code), "K9: a code is in no webhook: {status}");

    let older = json!({"taskId": task, "pushNotificationConfig": {"id": "older",
        "url": format!("{}/older", listener.url())}});
    let set = older_agent(&server).rpc("tasks/pushNotificationConfig/set", &older);
    assert_eq!(set["result"]["pushNotificationConfig"]["id"], "older", "{set}");
    let listed = agent(&server).rpc("ListTaskPushNotificationConfigs", &json!({"taskId": task}));
    assert_eq!(listed["result"]["configs"].as_array().unwrap().len(), 2, "{listed}");
    server.restart();
    let answer = json!({"messageId": "m2", "taskId": task, "role": "ROLE_USER",
        "parts": [{"text": coded(&sent, "approve")}]});
    agent(&server).rpc("SendMessage", &json!({"message": answer}));
    let (mut newer, mut states) = (Vec::new(), Vec::new());
    while newer.last().map(String::as_str) != Some("TASK_STATE_COMPLETED")
        || states.last().map(String::as_str) != Some("completed")
    {
        let heard = listener.next();
        let told = heard.json();
        if heard.path == "/older" {
            assert_eq!(told["kind"], "task", "{told}");
            states.push(told["status"]["state"].as_str().unwrap().to_owned());
        } else if let Some(state) = told["statusUpdate"]["status"]["state"].as_str() {
            newer.push(state.to_owned());
        } else {
            assert!(told["artifactUpdate"]["artifact"]["parts"].is_array(), "{told}");
            newer.push("artifact".into());
        }
    }
    assert_eq!(newer, ["TASK_STATE_WORKING", "artifact", "TASK_STATE_COMPLETED"]);
    assert_eq!(states[0], "working");
}

#[tokio::test]
async fn a_webhook_where_only_this_machine_can_reach_is_refused() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    let message = json!({"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Tell Ada."}]});
    for url in ["http://127.0.0.1:1/", "http://localhost/", "http://169.254.169.254/", "ftp://x/"] {
        let sent = agent(&server).rpc(
            "SendMessage",
            &json!({"message": message,
            "configuration": {"taskPushNotificationConfig": {"url": url}}}),
        );
        assert_eq!(sent["error"]["code"], -32602, "{url}: {sent}");
    }
    let sent = agent(&server).rpc("SendMessage", &json!({"message": message}));
    let task = sent["result"]["task"]["id"].clone();
    let config = json!({"taskId": task, "id": "x", "url": "http://10.0.0.1/"});
    let made = agent(&server).rpc("CreateTaskPushNotificationConfig", &config);
    assert_eq!(made["error"]["code"], -32602, "{made}");
    let gone = json!({"taskId": task, "id": "x"});
    let got = agent(&server).rpc("GetTaskPushNotificationConfig", &gone);
    assert_eq!(got["error"]["code"], -32001, "{got}");
    let deleted = agent(&server).rpc("DeleteTaskPushNotificationConfig", &gone);
    assert!(
        deleted.get("error").is_none(),
        "to take away what is not there is no matter: {deleted}"
    );
}

#[tokio::test]
async fn where_webhooks_are_turned_off_the_card_and_the_refusals_say_so() {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).arg("--a2a-push").arg("false").start();
    let card = server.page("/a2a/approve_and_send/.well-known/agent-card.json").1;
    assert!(card.contains("\"pushNotifications\":false"), "{card}");
    let told = agent(&server).rpc("ListTaskPushNotificationConfigs", &json!({"taskId": "x"}));
    assert_eq!(told["error"]["code"], -32003, "{told}");
}

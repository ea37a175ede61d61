//! What is whose to answer (K8, K9), as doors tell it: what waits for somebody else is no item that could
//! be answered, words alone bring the question again and not for ever, and a word that is not the last
//! says what is missing.

use holdpoint::wire::v1::Request;
use serde_json::{Value, json};

use crate::a2a::calls::{coded, text};
use crate::bridge::calls::output;
use crate::consent::stage::{LOCAL, Stage, bills};

const PEOPLE: [(&str, &str); 5] = [
    ("ada", "user"),
    ("bob", "user"),
    ("carl", "user"),
    ("robot", "--kind service --role user"),
    ("desk", "--role starter"),
];
const SETTINGS: &str = "
[people.bob]
groups = [\"finance\"]
[people.carl]
groups = [\"finance\"]
";

fn flow(human: &str) -> String {
    bills(&format!(
        "{{id: ask, human: {{kind: approval, prompt: Pay it?{human}}}}}, \
         {{id: act, tool: pay}}"
    ))
}

async fn stage(human: &str) -> Stage {
    Stage::settled(&flow(human), &PEOPLE, &[], SETTINGS).await
}

/// A run of somebody's, as A2A tells of it.
fn begun(stage: &Stage, who: &str) -> Value {
    stage.agent(who).send(&text("m0", "Bill 7."))
}

fn codes(data: &Value) -> (Value, Value) {
    let request = &data["requests"][0];
    (request["admitsYou"].clone(), request["problem"]["code"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_task_that_its_caller_cannot_answer_is_auth_required_whatever_the_reason() {
    for (human, who, reason) in [
        (", to: ['group:finance']", "ada", "answer.not_admitted"),
        (", to: [ada, bob], not: [requester]", "ada", "answer.not_admitted"),
        ("", "robot", "answer.assurance"),
        ("", "desk", "auth.role"),
    ] {
        let stage = stage(human).await;
        let task = begun(&stage, who);
        assert_eq!(task["status"]["state"], "TASK_STATE_AUTH_REQUIRED", "{who}: {task}");
        let parts = &task["status"]["message"]["parts"];
        assert_eq!(codes(&parts[1]["data"]), (json!(false), json!(reason)), "{who}: {parts}");
        assert!(parts[1]["data"]["requests"][0].get("code").is_none(), "{parts}");
        let words = parts[0]["text"].as_str().unwrap();
        assert!(words.contains("Pay it?") && words.contains("not yours to answer"), "{words}");
        let listed = json!({"status": "TASK_STATE_AUTH_REQUIRED"});
        assert_eq!(stage.agent(who).call("ListTasks", &listed)["totalSize"], 1, "{who}");
        let again = stage.agent(who).call("GetTask", &json!({"id": task["id"]}));
        assert_eq!(again["status"]["state"], "TASK_STATE_AUTH_REQUIRED", "{who}");
        let params = json!({"message": text("m9", "Bill 8.")});
        let told: Vec<_> = stage.agent(who).stream("SendStreamingMessage", &params).collect();
        let last = &told.last().unwrap().1["statusUpdate"]["status"]["state"];
        assert_eq!(last, "TASK_STATE_AUTH_REQUIRED", "{who}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_task_that_its_caller_can_answer_is_input_required() {
    let stage = stage("").await;
    let task = begun(&stage, "ada");
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_what_waits_for_somebody_else_is_a_message_in_every_dialect_and_no_item_to_answer() {
    for (human, who) in [(", to: ['group:finance']", "ada"), ("", "robot"), ("", "desk")] {
        let stage = stage(human).await;
        let body = json!({"model": "bills", "input": "Bill 7."});
        for dialect in ["openai", "devui", "qlaw"] {
            let path = format!("/v1/responses?dialect={dialect}");
            let told = stage.http(who).post(&path, &body).ok();
            let kinds: Vec<_> =
                told["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
            assert!(kinds.iter().all(|kind| **kind != "function_call"), "{who} {dialect}: {told}");
            let text = told["output"].to_string();
            assert!(text.contains("not yours to answer"), "{who} {dialect}: {told}");
            let open = &told["workflow_waiting"]["requests"][0];
            assert_eq!((&open["admits_you"], &open["code"]), (&json!(false), &json!("")), "{told}");
            let streamed = json!({"model": "bills", "input": "Bill 7.", "stream": true});
            let events = stage.http(who).events("POST", &path, &streamed);
            let shown = format!("{events:?}");
            assert!(!shown.contains("request_info"), "{who} {dialect}: {shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_the_inbox_says_of_a_service_and_of_a_starter_that_they_may_not_answer() {
    let stage = stage("").await;
    for (who, admits) in [("ada", true), ("robot", false), ("desk", false)] {
        stage.start(who, "", "Bill 7.").await;
        let open: Vec<Request> = stage.inbox(who).await;
        assert_eq!(open[0].admits_you, Some(admits), "{who}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_words_alone_bring_the_question_again_by_a2a_and_an_error_after_three() {
    let stage = Stage::open(&flow("")).await;
    // Each server counts for itself.
    stage.server.stay();
    let task = begun(&stage, LOCAL);
    let say = |n: u32, words: &str| {
        let mut message = text(&format!("w{n}"), words);
        message["taskId"] = task["id"].clone();
        stage.agent(LOCAL).rpc("SendMessage", &json!({"message": message}))
    };
    for n in 1..=3 {
        let told = say(n, "approve")["result"]["task"].take();
        assert_eq!(told["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{told}");
    }
    let told = say(4, "approve");
    assert_eq!(told["error"]["data"][0]["reason"], "answer.still_unbound", "{told}");
    assert_eq!(stage.paid(), 0);
    let done = say(5, &coded(&task, "approve"));
    assert_eq!(done["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_words_alone_bring_the_question_again_over_http_and_an_error_after_three() {
    for dialect in ["openai", "qlaw"] {
        let stage = Stage::open(&flow("")).await;
        stage.server.stay();
        let path = format!("/v1/responses?dialect={dialect}");
        let first = json!({"model": "bills", "input": "Bill 7.", "conversation": "desk"});
        stage.http(LOCAL).post(&path, &first).ok();
        let say = |n: u32| {
            let words = format!("approve, please: {n}");
            let body = json!({"model": "bills", "input": words, "conversation": "desk"});
            stage.http(LOCAL).post(&path, &body)
        };
        for n in 1..=3 {
            let told = say(n).ok();
            assert!(told["output"].to_string().contains("Pay it?"), "{dialect}: {told}");
        }
        let (status, code, _) = say(4).refusal();
        assert_eq!((status, code.as_str()), (400, "answer.still_unbound"), "{dialect}");
        assert_eq!(stage.paid(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_over_http_that_is_not_the_last_says_who_has_voted_and_who_is_missing() {
    let human = ", approvers: [{to: ['group:finance'], need: 2, not: [requester]}, {to: [ada]}]";
    let stage = stage(human).await;
    stage.start("ada", "", "Bill 7.").await;
    let request = stage.inbox("bob").await.remove(0);
    let body = json!({"model": "bills", "input": [output(&request.request_id, "approve")]});
    let told = stage.http("bob").post("/v1/responses", &body).ok();
    let words = told["output"][0]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(words.contains("bob: approve"), "{told}");
    assert!(words.contains("1 more is needed, of: group:finance"), "{told}");
    assert!(words.contains("Asked after that: ada"), "{told}");
}

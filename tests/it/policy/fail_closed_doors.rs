//! Fail closed, door by door (K8, K9): somebody who was not asked answers, and an answer comes that was
//! meant for the question before. Played on the real server; `fail_closed` puts it into its page.

use std::fmt::Write as _;

use holdpoint::wire::v1::{Request, SendResponsesRequest};
use serde_json::{Value, json};

use crate::a2a::calls::text;
use crate::bridge::calls::output;
use crate::consent::stage::{Stage, bills, refusal};

const PEOPLE: [(&str, &str); 2] = [("clerk", "user"), ("cfo", "user")];
const DOORS: [&str; 9] = [
    "gRPC, `SendResponses`",
    "gRPC, words in the session",
    "HTTP, OpenAI's items",
    "HTTP, DevUI's `workflow_hil_response`",
    "HTTP, qlaw-cli's `send_responses`",
    "HTTP, words in the conversation",
    "WebSocket",
    "A2A, by request id",
    "the terminal, `respond`",
];

fn flow() -> String {
    bills(
        "{id: first, human: {kind: approval, prompt: Look at it?}}, \
         {id: second, human: {kind: approval, prompt: Pay it?, to: [cfo]}}, \
         {id: act, tool: pay}",
    )
}

/// What a door tells whoever says yes to that request.
async fn says(stage: &Stage, door: &str, who: &str, request: &Request) -> String {
    let (id, session) = (request.request_id.as_str(), request.session_id.as_str());
    let http = |path: &str, body: Value| stage.http(who).post(path, &body).body;
    let items = |item: Value| json!({"model": "bills", "input": [item]});
    match door {
        "gRPC, `SendResponses`" => {
            let responses = [(id.to_owned(), "approve".into())].into();
            let message = SendResponsesRequest { responses, ..Default::default() };
            refusal(stage.client(who).await.send_responses(message).await).1
        }
        "gRPC, words in the session" => refusal(stage.say(who, session, "approve").await).1,
        "HTTP, OpenAI's items" => http("/v1/responses", items(output(id, "approve"))),
        "HTTP, DevUI's `workflow_hil_response`" => {
            let part = json!({"type": "workflow_hil_response", "responses": {id: "approve"}});
            let item = json!({"type": "message", "role": "user", "content": [part]});
            http("/v1/responses?dialect=devui", items(item))
        }
        "HTTP, qlaw-cli's `send_responses`" => {
            http("/v1/workflows/bills/send_responses", json!({"responses": {id: "approve"}}))
        }
        "HTTP, words in the conversation" => {
            let words = json!({"model": "bills", "conversation": session, "input": "approve"});
            http("/v1/responses", words)
        }
        "WebSocket" => {
            let answer = json!({"type": "answer", "responses": {id: "approve"}});
            stage.socket(who, &answer).await.to_string()
        }
        "A2A, by request id" => {
            let mut message = text("m1", "");
            message["taskId"] = json!(request.run_id);
            message["parts"] = json!([{"data": {"responses": {id: "approve"}}}]);
            stage.agent(who).rpc("SendMessage", &json!({"message": message})).to_string()
        }
        _ => stage.command(who, &["respond", id, "yes", "--json"]).err,
    }
}

/// The code in what was told; what else it comes to.
fn told(said: &str) -> String {
    let codes = ["answer.not_admitted", "request.already_answered", "answer.unbound"];
    if said.contains("not yours to answer") && !said.contains("\"jsonrpc\"") {
        return "told for whom it waits".into();
    }
    match codes.into_iter().find(|code| said.contains(code)) {
        Some(code) => format!("refused (`{code}`)"),
        None => format!("?? {said}"),
    }
}

/// The table of all doors.
pub(crate) async fn table() -> String {
    let mut table = String::from(
        "\n## Door by door\n\nWhoever began a run says yes to what waits for somebody else; and says yes to a question that \
         has been answered, while the next one is open. Nothing is done, and the question stays open.\n\n\
         | door | somebody who was not asked answers | the answer was meant for the question before |\n|---|---|---|\n",
    );
    for door in DOORS {
        let stage = Stage::with_people(&flow(), &PEOPLE).await;
        stage.start("clerk", "", "Bill 7.").await;
        let first = stage.inbox("clerk").await.remove(0);
        stage.answer("clerk", &first, json!("approve")).await.unwrap();
        let second = stage.inbox("cfo").await.remove(0);
        let unasked = told(&says(&stage, door, "clerk", &second).await);
        let late = told(&says(&stage, door, "clerk", &first).await);
        assert_eq!(stage.paid(), 0, "K8, K9: {door}: it was done");
        assert_eq!(stage.inbox("cfo").await.len(), 1, "{door}: it stays open");
        writeln!(table, "| {door} | {unasked} | {late} |").unwrap();
    }
    let stage = Stage::with_people(&flow(), &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let first = stage.inbox("clerk").await.remove(0);
    stage.answer("clerk", &first, json!("approve")).await.unwrap();
    let second = stage.inbox("cfo").await.remove(0);
    let unasked = stage.form("clerk", &second, &[("decision", "approve")]).status;
    let late = stage.form("clerk", &first, &[("decision", "approve")]).status;
    assert_eq!((unasked, late, stage.paid()), (403, 409, 0), "the console");
    table += "| the console | refused (403), and no form is shown | refused (409), and told who answered |\n";
    table
}

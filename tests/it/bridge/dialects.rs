//! The dialects of DevUI and qlaw-cli, event by event, by a client that knows only their wire.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bridge::calls::{Caller, Sse, call_id, kinds};
use crate::support::server::{Server, Setup};

const ASK: &str =
    "I need help with order 12345. I want a replacement and need to know when it will arrive.";
const DAMAGED: &str =
    "The item arrived damaged. I'd like a replacement shipped to the same address.";
const CHARGED: &str = "Great! Can you confirm the shipping cost won't be charged again?";
const THANKS: &str = "Thank you!";

fn server() -> (TempDir, Server) {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    (here, server)
}

/// What qlaw-cli prints: any string in `delta`, `text` or `content` of any event.
fn printed(events: &[Sse]) -> String {
    let fields = ["delta", "text", "content"];
    let strings =
        |sse: &Sse| fields.iter().find_map(|field| sse.data[*field].as_str().map(str::to_owned));
    events.iter().filter_map(strings).collect()
}

/// The request that qlaw-cli finds in a stream: type, event line and place must be exactly these.
fn pending(events: &[Sse]) -> Option<Value> {
    let mut found = events.iter().filter(|sse| {
        sse.kind() == "response.trace.complete"
            && sse.event.as_deref() == Some("response.trace.complete")
            && sse.data["data"]["trace_type"] == "workflow_info"
            && sse.data["data"]["event_type"] == "RequestInfoEvent"
    });
    let first = found.next().map(|sse| sse.data["data"]["data"]["request_info"].clone());
    assert!(found.next().is_none(), "one request at a time here");
    first
}

#[test]
fn qlaw_s_loop_of_four_utterances_comes_to_its_end() {
    let (_here, mut server) = server();
    let start = json!({"model": "multi_tier_support", "input": ASK, "stream": true});
    let caller = |server: &Server| Caller::by_hand(server.address());
    let mut events = caller(&server).events("POST", "/v1/responses", &start);
    assert!(events.iter().all(|sse| sse.event.as_deref() == Some(sse.kind())), "{events:?}");
    assert_eq!(
        printed(&events),
        "I am handing you to our replacement team.\n\nI can arrange a replacement. What is wrong \
         with the item, and where shall the new one go?"
    );
    for (agent, words) in [("replacement", DAMAGED), ("delivery", CHARGED), ("billing", THANKS)] {
        let request = pending(&events).unwrap();
        assert_eq!(request["source_executor_id"], agent);
        assert_eq!(request["request_type"], "HandoffUserInputRequest");
        assert!(request["response_type"].is_string());
        let data = &request["data"];
        assert_eq!(
            (&data["awaiting_agent_id"], &data["source_executor_id"]),
            (&json!(agent), &json!(agent))
        );
        assert_eq!(data["prompt"], "What would you like to tell us?");
        let last = data["conversation"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["role"], &last["author_name"]), (&json!("assistant"), &json!(agent)));
        assert!(last["text"].is_string());
        server.restart();
        let id = request["request_id"].as_str().unwrap();
        let path = "/v1/workflows/multi_tier_support/send_responses";
        events = caller(&server).events("POST", path, &json!({"responses": {id: words}}));
    }
    assert_eq!(pending(&events), None);
    assert_eq!(kinds(&events).last(), Some(&"response.completed"));
    assert_eq!(events.last().unwrap().data["response"]["workflow_waiting"], Value::Null);
}

#[test]
fn qlaw_s_stream_is_these_events_and_no_others() {
    let (_here, server) = server();
    let start = json!({"model": "approve_and_send", "input": "Tell Ada.", "stream": true});
    let events = Caller::by_hand(server.address()).events("POST", "/v1/responses", &start);
    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.trace.complete",
            "response.trace.complete",
            "response.completed",
        ]
    );
    assert_eq!(printed(&events), "Tell Ada.", "every word once");
    assert_eq!(traced(&events), ["RequestInfoEvent", "WorkflowStatusEvent"]);

    let id = pending(&events).unwrap()["request_id"].as_str().unwrap().to_owned();
    let path = "/v1/workflows/approve_and_send/send_responses";
    let answer = json!({"responses": {id: "approve"}});
    let done = Caller::by_hand(server.address()).events("POST", path, &answer);
    assert_eq!(traced(&done), ["WorkflowStatusEvent"]);
    let last = &kinds(&done)[kinds(&done).len() - 3..];
    assert_eq!(
        *last,
        ["response.trace.complete", "response.workflow_event.complete", "response.completed"]
    );
    let end = &done[done.len() - 2].data["data"];
    assert_eq!(end["event_type"], "WorkflowCompletedEvent");
    assert_eq!(printed(&done), "Sent: Tell Ada.", "nothing of it is printed");
}

/// What a stream traces, in its order.
fn traced(events: &[Sse]) -> Vec<String> {
    let traces = events.iter().filter(|sse| sse.kind().starts_with("response.trace.complete"));
    traces.map(|sse| sse.data["data"]["event_type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_failure_is_traced_in_both_of_its_shapes_for_qlaw_and_for_devui() {
    let (_here, server) = server();
    for is_devui in [false, true] {
        let caller = if is_devui {
            Caller::new(server.address())
        } else {
            Caller::by_hand(server.address())
        };
        let mut start = json!({"model": "approve_and_send", "input": "Tell Ada.", "stream": true});
        if is_devui {
            start["metadata"] = json!({"entity_id": "approve_and_send"});
        }
        let asked = caller.events("POST", "/v1/responses", &start);
        let response = &asked.last().unwrap().data["response"];
        let id = response["workflow_waiting"]["requests"][0]["request_id"].as_str().unwrap();
        let told = if is_devui {
            let answer = json!([{"type": "message", "role": "user", "content": [
                {"type": "workflow_hil_response", "responses": {id: {"decision": "reject"}}},
            ]}]);
            let session = response["conversation"]["id"].as_str();
            caller.events("POST", "/v1/responses", &entity(&answer, session))
        } else {
            let path = "/v1/workflows/approve_and_send/send_responses";
            caller.events("POST", path, &json!({"responses": {id: "reject"}}))
        };
        let traced = traced(&told);
        assert_eq!(traced, ["WorkflowStatusEvent", "WorkflowErrorEvent"], "{is_devui}");
        let error = told.iter().find(|sse| sse.data["data"]["event_type"] == "WorkflowErrorEvent");
        let error = &error.unwrap().data["data"]["data"];
        assert_eq!(error["error_type"], "question.rejected");
        assert!(error["message"].is_string());
        assert_eq!(kinds(&told).last(), Some(&"response.failed"));
    }
}

#[test]
fn the_released_qlaw_answers_by_saying_something_if_one_request_is_open() {
    let (_here, server) = server();
    let caller = Caller::by_hand(server.address());
    let path = "/v1/workflows/approve_and_send/send_responses";
    let say = json!({"input": "approve", "stream": true});
    let none = caller.post(path, &say);
    assert_eq!(none.refusal(), (409, "session.ambiguous".into(), "responses".into()));

    let first = caller.start("approve_and_send", "Tell Ada.");
    assert_eq!(caller.post(path, &say).refusal().1, "answer.unbound", "words decide nothing");
    let run = first["run_id"].as_str().unwrap();
    let status = caller.get(&format!("/v1/runs/{run}/status")).ok();
    let code = status["workflow_waiting"]["requests"][0]["code"].as_str().unwrap().to_owned();
    let coded = json!({"input": format!("approve {code}"), "stream": true});
    let done = caller.events("POST", path, &coded);
    assert_eq!(printed(&done), "Sent: Tell Ada.");
    assert_eq!(done.last().unwrap().data["response"]["run_id"], first["run_id"]);

    let open: Vec<_> = ["Ada", "Bob"]
        .iter()
        .map(|name| call_id(&caller.start("approve_and_send", name)))
        .collect();
    let several = caller.post(path, &say);
    assert_eq!(several.status, 409);
    let mut ids: Vec<String> =
        serde_json::from_value(several.json()["error"]["request_ids"].take()).unwrap();
    ids.sort();
    assert_eq!(ids, open, "the refusal names them");
    // The seed's other way, by one request.
    let one = format!("/v1/workflows/approve_and_send/requests/{}/responses", open[1]);
    let done = caller.events("POST", &one, &json!({"response": "reject"}));
    assert_eq!(kinds(&done)[kinds(&done).len() - 2..], ["error", "response.failed"]);
    let error = &done[done.len() - 2].data;
    assert!(error["message"].is_string() && error.get("error").is_none(), "{error}");
}

#[test]
fn a_sticky_server_takes_the_next_line_for_the_answer() {
    let here = TempDir::new().unwrap();
    let server = Setup::new(here.path()).arg("--http-sticky").arg("true").start();
    let caller = Caller::by_hand(server.address());
    let say = |words: &str| json!({"model": "multi_tier_support", "input": words, "stream": true});
    let first = caller.events("POST", "/v1/responses", &say(ASK));
    let second = caller.events("POST", "/v1/responses", &say(DAMAGED));
    let run = |events: &[Sse]| events.last().unwrap().data["response"]["run_id"].clone();
    assert_eq!(run(&first), run(&second), "the same run goes on");
    // Others say in which conversation they speak: to them it is new work.
    let other = Caller::new(server.address()).start("multi_tier_support", ASK);
    assert_ne!(other["run_id"], run(&first));
}

fn entity(input: &Value, conversation: Option<&str>) -> Value {
    let mut body = json!({
        "model": "approve_and_send",
        "metadata": {"entity_id": "approve_and_send"},
        "input": input,
        "stream": true,
    });
    if let Some(id) = conversation {
        body["conversation"] = json!(id);
    }
    body
}

#[test]
fn devui_sees_executors_a_request_with_its_schema_and_an_output() {
    let (_here, mut server) = server();
    // Its page sends the list of items as a text.
    let items = json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tell Ada."}]}]);
    let wish = entity(&json!(items.to_string()), None);
    let events = Caller::new(server.address()).events("POST", "/v1/responses", &wish);
    assert!(events.iter().all(|sse| sse.event.is_none()), "bare data lines");
    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.in_progress",
            "response.trace.completed",
            "response.output_item.added",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.request_info.requested",
            "response.workflow_event.completed",
            "response.trace.completed",
            "response.completed",
        ]
    );
    let began = &events[2].data["data"];
    assert_eq!(
        (&began["trace_type"], &began["event_type"]),
        (&json!("workflow_info"), &json!("WorkflowStartedEvent"))
    );
    assert!(began["timestamp"].is_string() && began["data"].is_object());
    let (added, done) = (&events[3].data["item"], &events[10].data["item"]);
    assert_eq!(
        (&added["type"], &added["executor_id"], &added["status"]),
        (&json!("executor_action"), &json!("draft"), &json!("in_progress"))
    );
    assert_eq!(
        (&done["id"], &done["status"], &done["error"]),
        (&added["id"], &json!("completed"), &Value::Null)
    );

    let id = assert_asked(&events[14].data, &events[13].data);
    let response = &events[17].data["response"];
    assert_eq!(response["output"].as_array().unwrap().len(), 3, "executor, message, call");
    assert_eq!(response["workflow_waiting"]["requests"][0]["request_id"], id);

    server.restart();
    let conversation = response["conversation"]["id"].as_str();
    let answer = json!([{"type": "message", "role": "user", "content": [
        {"type": "workflow_hil_response", "responses": {id: {"response": {"decision": "approve"}}}},
    ]}]);
    let answered = Caller::new(server.address()).events(
        "POST",
        "/v1/responses",
        &entity(&answer, conversation),
    );
    let output = answered.iter().find(|sse| {
        sse.kind() == "response.output_item.added"
            && sse.data["item"]["metadata"]["workflow_event_type"] == "output"
    });
    let output = &output.unwrap().data["item"];
    assert_eq!(
        (&output["type"], &output["content"][0]["text"]),
        (&json!("message"), &json!("Sent: Tell Ada."))
    );
    assert_eq!(output["metadata"]["executor_id"], "send");
    let received = answered.iter().find(|sse| sse.kind() == "response.workflow_event.completed");
    assert_eq!(received.unwrap().data["data"]["event_type"], "ResponseReceivedEvent");
    assert_eq!(kinds(&answered).last(), Some(&"response.completed"));
}

/// A pause: what is asked, and what an answer must look like; returns its id.
fn assert_asked<'a>(asked: &'a Value, call: &Value) -> &'a str {
    assert_eq!(asked["source_executor_id"], "approve");
    assert_eq!(asked["request_data"]["prompt"], "Send this message?");
    assert_eq!(
        asked["response_schema"]["properties"]["decision"]["enum"],
        json!(["approve", "reject", "return"])
    );
    assert_eq!(
        (&asked["item_id"], &asked["output_index"]),
        (&call["item"]["id"], &call["output_index"])
    );
    assert!(asked["request_type"].is_string());
    // Its page's form is made from this, and shows the first word before anybody has chosen.
    let words = &asked["request_schema"]["properties"]["decision"]["enum"];
    assert_eq!(*words, json!(["reject", "approve", "return"]));
    assert!(asked["timestamp"].is_string());
    asked["request_id"].as_str().unwrap()
}

/// What the page of release 1.0.0b261022 really sends.
#[test]
fn devui_s_page_as_it_was_released_is_understood() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let session = caller.post("/v1/conversations", &json!({"metadata": {"name": "x"}})).ok();
    let session = session["id"].as_str().unwrap();
    // The only field of a form, as an object with that field, as a text.
    let wish = entity(&json!("{\"input\":\"Tell Ada.\"}"), Some(session));
    let events = caller.events("POST", "/v1/responses", &wish);
    let asked = events.iter().find(|sse| sse.kind() == "response.request_info.requested");
    let asked = &asked.unwrap().data;
    assert_eq!(asked["request_data"]["conversation"][0]["text"], "Tell Ada.");
    // A message that does not say whose it is, with the fields of the form.
    let responses = json!({asked["request_id"].as_str().unwrap(): {"decision": "approve"}});
    let content = json!([{"type": "workflow_hil_response", "responses": responses}]);
    let items = json!([{"type": "message", "content": content}]);
    let told = caller.events("POST", "/v1/responses", &entity(&items, Some(session)));
    assert_eq!(told.last().unwrap().data["response"]["status"], "completed");
    let said = told.last().unwrap().data["response"]["output"].to_string();
    assert!(said.contains("Sent: Tell Ada."), "{said}");
}

#[test]
fn devui_takes_a_dropped_stream_up_again_in_its_own_dialect() {
    let (_here, mut server) = server();
    let wish = entity(&json!("Tell Ada."), None);
    let events = Caller::new(server.address()).events("POST", "/v1/responses", &wish);
    let id = events[0].data["response"]["id"].as_str().unwrap();
    server.restart();
    for seen in [0, 6, 16] {
        let path = format!("/v1/responses/{id}?stream=true&starting_after={seen}");
        let rest = Caller::new(server.address()).events("GET", &path, &Value::Null);
        let bodies = |events: &[Sse]| events.iter().map(|sse| sse.data.clone()).collect::<Vec<_>>();
        assert_eq!(bodies(&rest), bodies(&events[seen + 1..]), "after {seen}");
    }
    let whole = Caller::new(server.address()).get(&format!("/v1/responses/{id}")).ok();
    assert_eq!(whole, events.last().unwrap().data["response"]);
}

#[test]
fn devui_s_pages_say_what_is_here() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    assert_eq!(caller.get("/health").ok()["status"], "healthy");
    assert_eq!(caller.get("/meta").ok()["auth_required"], false);
    let entities = caller.get("/v1/entities").ok();
    let found =
        entities["entities"].as_array().unwrap().iter().find(|one| one["id"] == "event_planning");
    assert_eq!(found.unwrap()["type"], "workflow");
    let info = caller.get("/v1/entities/event_planning/info").ok();
    assert!(info["executors"].as_array().unwrap().contains(&json!("venue")), "{info}");
    let dump = &info["workflow_dump"];
    assert!(info["input_schema"].is_object() && dump["max_iterations"].is_u64(), "{info}");
    assert_eq!(dump["start_executor_id"], "event_coordinator");
    assert_eq!(dump["executors"]["venue"]["id"], "venue");
    let edges = dump["edge_groups"][0]["edges"].as_array().unwrap();
    let is_there =
        |edge: &Value| edge["source_id"] == "event_coordinator" && edge["target_id"] == "venue";
    assert!(edges.iter().any(is_there), "{dump}");
    let agents = caller.get("/v1/agents").ok();
    for field in ["id", "name", "instructions", "model"] {
        assert!(agents[0][field].is_string(), "{agents}");
    }
}

#[test]
fn cancelling_what_waits_is_said_before_it_is_done_and_is_one_of_three_things() {
    let here = TempDir::new().unwrap();
    let server = Setup::new(here.path()).arg("--on-cancel").arg("hide").start();
    let caller = Caller::new(server.address());
    let begin = || {
        let begun = caller.start("approve_and_send", "Tell Ada.");
        format!("/v1/responses/{}/cancel", begun["id"].as_str().unwrap())
    };
    let path = begin();
    let said = caller.get(&path).ok();
    assert_eq!(said["cancel"], "hide", "as the operator set it");
    assert!(said["does"].as_str().unwrap().contains("stays open"), "{said}");
    let hidden = caller.post(&path, &json!({})).ok();
    assert_eq!(hidden["cancel"]["cancel"], "hide");
    assert!(hidden["workflow_waiting"].is_object(), "it is open as before: {hidden}");

    let said = caller.get(&format!("{path}?cancel=withdraw")).ok();
    assert!(said["does"].as_str().unwrap().contains("nobody can answer"), "{said}");
    let withdrawn = caller.post(&path, &json!({"cancel": "withdraw"})).ok();
    assert_eq!(withdrawn["workflow_waiting"], Value::Null, "{withdrawn}");
    assert_eq!(withdrawn["status"], "cancelled", "the run ended with its question: {withdrawn}");
    let kept = caller.get(path.trim_end_matches("/cancel")).ok();
    assert_eq!(kept["status"], "cancelled", "{kept}");
    let nothing = caller.post(&path, &json!({"cancel": "withdraw"}));
    assert_eq!(nothing.refusal().2, "cancel");

    let path = begin();
    let stopped = caller.post(&path, &json!({"cancel": "run"})).ok();
    assert_eq!(stopped["status"], "cancelled", "{stopped}");
    let wrong = caller.post(&begin(), &json!({"cancel": "perhaps"}));
    assert_eq!(wrong.refusal(), (400, "field.invalid".into(), "cancel".into()));
}

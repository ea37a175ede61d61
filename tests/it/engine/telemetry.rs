//! Traces on the real binary: what a collector is told of a run, across SIGKILL and restart, and what
//! the trace's other members are told by us.

use std::fs;
use std::path::Path;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{GetRunRequest, WorkflowEvent};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::metadata::MetadataValue;

use crate::models::chat::{chunk, saying};
use crate::models::desk::data;
use crate::models::fixture::{Answer, Fixture};
use crate::support::collector::{Collector, Told};
use crate::support::server::{Setup, answer_to, asked, drained, names, run, start_of};
use crate::support::tool_server::{self, ToolServer};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const ANSWERER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn within<T>(message: T, parent: &'static str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("traceparent", MetadataValue::from_static(parent));
    request.metadata_mut().insert("tracestate", MetadataValue::from_static("vendor=7"));
    request
}

async fn started(
    stream: Result<tonic::Response<tonic::Streaming<WorkflowEvent>>, tonic::Status>,
) -> Vec<WorkflowEvent> {
    drained(stream.unwrap().into_inner()).await.unwrap()
}

/// A call of a tool, as Chat Completions streams it.
fn calling(tool: &str) -> String {
    let function = json!({"name": tool, "arguments": "{}"});
    let call = json!([{"index": 0, "id": format!("call_{tool}"), "type": "function",
        "function": function}]);
    let events = [
        chunk(&json!({"tool_calls": call}), &Value::Null),
        chunk(&json!({}), &json!("tool_calls")),
    ];
    data(&events) + "data: [DONE]\n\n"
}

/// A clerk who pays by two tools, a person who looks, and a clerk who says goodbye.
fn flow(root: &Path, model: &Fixture, tool: &ToolServer) {
    let mcp = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/bad_mcp.py");
    let file = json!({
        "name": "payment",
        "models": {"m": {"provider": "openai_chat", "model": "small", "base_url": model.base_url,
            "key_env": "PAY_KEY"}},
        "mcp": {"s": {"command": ["python3", mcp, "traced", root.join("calls")], "safety": "pure"}},
        "tools": {"pay": {"provider": "http", "safety": "pure", "settings": {
            "method": "POST", "url": tool.url("/pay"), "allow_private": true}}},
        "agents": {"clerk": {"tools": ["pay", "s.act"], "instructions": "You pay."},
            "closer": {"instructions": "You close."}},
        "pattern": "sequential",
        "steps": [{"id": "pay", "agent": "clerk"},
            {"id": "look", "human": {"kind": "approval", "prompt": "Was that right?"}},
            {"id": "close", "agent": "closer"}],
    });
    let flows = root.join("flows");
    fs::create_dir_all(&flows).unwrap();
    fs::write(flows.join("payment.yaml"), file.to_string()).unwrap();
}

fn setup(root: &Path, collector: &str) -> Setup {
    Setup::new(root)
        .env("PAY_KEY", "sk-a-key-that-nobody-may-see")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        .env("OTEL_SERVICE_NAME", "payments")
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
}

async fn payer() -> (Fixture, ToolServer) {
    let model = Fixture::start(|number, _| match number {
        0 => Answer::stream(calling("pay")),
        1 => Answer::stream(calling("s__act")),
        2 => Answer::stream(saying(&["A secret ", "receipt."])),
        _ => Answer::stream(saying(&["Goodbye."])),
    });
    let paid = tool_server::Answer::Json(json!("paid quietly"));
    (model.await, ToolServer::start([("/pay", paid)]).await)
}

#[tokio::test]
async fn a_run_is_one_trace_across_a_kill_and_everybody_is_told_their_place_in_it() {
    let root = TempDir::new().unwrap();
    let collector = Collector::start().await;
    let (model, tool) = payer().await;
    flow(root.path(), &model, &tool);
    let mut server = setup(root.path(), &collector.url).start();
    let start = within(start_of("payment", "", "Pay my secret debt.", "k"), CALLER);
    let before = started(server.client().await.run_workflow(start).await).await;
    let paid = collector.named("invoke_agent clerk").await;
    server.kill();
    let server = setup(root.path(), &collector.url).start();
    let request = asked(&before).unwrap().request_id;
    let answer = within(answer_to(&request, "approve", "a"), ANSWERER);
    let after = started(server.client().await.send_responses(answer).await).await;
    assert_eq!(names(&after).last(), Some(&"completed"));

    let whole = collector.named("invoke_workflow payment").await;
    assert_eq!(whole.trace(), "4bf92f3577b34da6a3ce929d0e0e4736", "the caller's trace");
    assert_eq!(whole.parent(), "00f067aa0ba902b7", "the caller's place in it");
    assert_eq!(whole.service, "payments");
    assert_eq!(whole.about["gen_ai.operation.name"], "invoke_workflow");
    assert_eq!(whole.about["gen_ai.conversation.id"], before[0].session_id);
    assert_eq!(whole.about["holdpoint.run.id"], before[0].run_id);
    assert_eq!(whole.about["holdpoint.run.status"], "COMPLETED");
    assert_eq!(whole.about["gen_ai.usage.input_tokens"], "38");
    let closed = collector.named("invoke_agent closer").await;
    let waited = collector.named("wait_for_person").await;
    for step in [&paid, &closed, &waited] {
        assert_eq!((step.parent(), step.trace()), (whole.id(), whole.trace()), "{step:?}");
    }
    assert_eq!(waited.about["holdpoint.request.kind"], "approval");
    assert_eq!(waited.about["holdpoint.request.outcome"], "answered");
    assert_eq!(crate::support::collector::hex(&waited.span.links[0].span_id), "b7ad6b7169203331");
    assert!(waited.span.start_time_unix_nano <= waited.span.end_time_unix_nano);
    assert_eq!(paid.about["gen_ai.agent.name"], "clerk");

    let spans = collector.spans();
    let within = |parent: &Told| -> Vec<Told> {
        spans.iter().filter(|told| told.parent() == parent.id()).cloned().collect()
    };
    let parts = within(&paid);
    assert_eq!(
        crate::support::collector::names(&parts),
        ["chat small", "execute_tool pay", "chat small", "execute_tool s__act", "chat small"]
    );
    assert_eq!(crate::support::collector::names(&within(&closed)), ["chat small"]);
    let said = &parts[4].about;
    assert_eq!(said["gen_ai.provider.name"], "openai");
    assert_eq!(said["gen_ai.request.model"], "small");
    assert_eq!(said["gen_ai.usage.output_tokens"], "10");
    assert_eq!(parts[1].about["gen_ai.tool.call.id"], "call_pay");

    let told = |id: &str| format!("00-{}-{id}-01", whole.trace());
    let asked: Vec<_> = model.seen().iter().map(|it| it.headers["traceparent"].clone()).collect();
    assert_eq!(asked[0], told(&parts[0].id()), "the model knows which call it is");
    assert_eq!(asked[3], told(&within(&closed)[0].id()), "after the kill as well");
    assert_eq!(model.seen()[3].headers["tracestate"], "vendor=7");
    assert_eq!(tool.seen()[0].header("traceparent"), told(&parts[1].id()));
    let mcp = fs::read_to_string(root.path().join("calls")).unwrap();
    assert_eq!(mcp.trim(), format!("{} vendor=7", told(&parts[3].id())));

    let raw = String::from_utf8_lossy(&collector.raw()).into_owned();
    for quiet in ["secret", "Goodbye", "quietly", "sk-a-key", "You pay"] {
        assert!(!raw.contains(quiet), "`{quiet}` was told");
    }
}

#[tokio::test]
async fn usage_is_told_with_every_message_and_of_the_run_as_a_whole() {
    let root = TempDir::new().unwrap();
    let collector = Collector::start().await;
    let (model, tool) = payer().await;
    flow(root.path(), &model, &tool);
    let server = setup(root.path(), &collector.url).start();
    let mut client = server.client().await;
    let events = run(&mut client, start_of("payment", "", "Pay.", "k")).await;
    let used = events.iter().find_map(|event| match event.event.as_ref() {
        Some(Event::Message(message)) => message.usage.filter(|usage| usage.input_tokens > 0),
        Some(_) | None => None,
    });
    let used = used.expect("a message that cost something");
    assert_eq!((used.input_tokens, used.output_tokens), (19, 10));
    let request = GetRunRequest { run_id: events[0].run_id.clone(), omit_conversation: true };
    let run = client.get_run(request).await.unwrap().into_inner().run.unwrap();
    let used = run.usage.expect("what the run has cost");
    assert_eq!((used.input_tokens, used.output_tokens), (19, 10));
}

#[tokio::test]
async fn a_collector_that_is_gone_costs_no_run_anything() {
    let root = TempDir::new().unwrap();
    let (model, tool) = payer().await;
    flow(root.path(), &model, &tool);
    let mut server = setup(root.path(), "http://127.0.0.1:9").start();
    let mut client = server.client().await;
    for round in 0..3 {
        let key = format!("k{round}");
        let events = run(&mut client, start_of("payment", "", "Pay.", &key)).await;
        let request = asked(&events).unwrap();
        let answer = answer_to(&request.request_id, "approve", "");
        let after = crate::support::server::send(&mut client, answer).await;
        assert_eq!(names(&after).last(), Some(&"completed"), "round {round}");
    }
    drop(client);
    server.terminate();
    let ended = tokio::task::spawn_blocking(move || server.wait()).await.unwrap();
    assert!(ended.success(), "and it goes when it is told to");
}

#[test]
fn what_cannot_be_sent_is_said_at_the_start_by_the_variables_name() {
    for (name, value, variable, why) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector", "OTEL_EXPORTER_OTLP_ENDPOINT", "4318"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
    ] {
        let root = TempDir::new().unwrap();
        let setup = Setup::new(root.path()).env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "");
        let setup = match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => setup.env(name, value),
            _ => setup.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9").env(name, value),
        };
        assert!(setup.try_start().is_err());
        let told = setup.told();
        assert!(told.contains(variable) && told.contains(why), "{told}");
    }
}

#[tokio::test]
async fn without_a_collector_the_callers_context_travels_on_as_it_came() {
    let root = TempDir::new().unwrap();
    let (model, tool) = payer().await;
    flow(root.path(), &model, &tool);
    let server = setup(root.path(), "").start();
    let start = within(start_of("payment", "", "Pay.", "k"), CALLER);
    let told = started(server.client().await.run_workflow(start).await).await;
    assert!(asked(&told).is_some());
    assert_eq!(model.seen()[0].headers["traceparent"], CALLER);
    assert_eq!(tool.seen()[0].header("tracestate"), "vendor=7");
    let untraced = start_of("payment", "", "Pay again.", "k2");
    drop(run(&mut server.client().await, untraced).await);
    assert!(!model.seen().last().unwrap().headers.contains_key("traceparent"));
}

#[tokio::test]
async fn a_collector_can_be_spoken_to_by_grpc_and_a_run_without_a_caller_has_a_trace_of_its_own() {
    let root = TempDir::new().unwrap();
    let collector = Collector::start_grpc().await;
    let server =
        setup(root.path(), &collector.url).env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").start();
    let told = run(&mut server.client().await, start_of("approve_and_send", "", "Hi.", "k")).await;
    assert!(asked(&told).is_some());
    let drafted = collector.named("invoke_agent writer").await;
    let said = collector.named("chat default").await;
    assert_eq!((said.parent(), said.trace()), (drafted.id(), drafted.trace()));
    assert_eq!(said.about["gen_ai.provider.name"], "scripted");
}

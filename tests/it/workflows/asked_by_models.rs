//! Questions that a model asks: what it may choose about them, and what it may not. The schema of an
//! approval, whom it is for and how long it waits are never the asker's.

use std::path::Path;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{RequestKind, RunStatus};
use serde_json::{Value, json};

use crate::support::server::{Server, asked, run, send, start_of};

/// A workflow whose one agent calls `request_user_input` so, and says what it was told.
fn write(folder: &Path, name: &str, arguments: &Value) {
    let flow = json!({
        "name": name,
        "description": "Asks.",
        "models": {"m": {"provider": "scripted", "script": [
            {"agent": "asker", "when": {"last_from": "tool"}, "say": "told: {{last}}"},
            {"agent": "asker", "call": [{"tool": "request_user_input", "arguments": arguments}]},
        ]}},
        "agents": {"asker": {"instructions": "Ask."}},
        "pattern": "sequential",
        "steps": [{"agent": "asker"}],
    });
    std::fs::write(folder.join(format!("{name}.yaml")), flow.to_string()).unwrap();
}

fn stage(flows: &[(String, Value)]) -> (tempfile::TempDir, Server) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("flows");
    std::fs::create_dir(&folder).unwrap();
    for (name, arguments) in flows {
        write(&folder, name, arguments);
    }
    let server = Server::start(root.path());
    (root, server)
}

#[tokio::test]
async fn k7_a_model_chooses_neither_the_schema_of_an_approval_nor_whom_or_how_long_it_asks() {
    let yes_only = json!({"type": "object", "properties": {"decision": {"const": "approve"}},
        "required": ["decision"]});
    let approval = |field: &str, value: Value| {
        let mut arguments = json!({"prompt": "May I?", "request_type": "approval"});
        arguments[field] = value;
        arguments
    };
    let cases = [
        ("response_schema", approval("response_schema", yes_only.clone())),
        ("response_schema", {
            let options = json!(["x", "y"]);
            json!({"prompt": "Which?", "request_type": "selection", "options": options,
                "response_schema": {"const": "x"}})
        }),
        ("options", approval("options", json!(["approve"]))),
        ("to", approval("to", json!(["me"]))),
        ("deadline", approval("deadline", json!("1s"))),
        ("on_timeout", approval("on_timeout", json!("continue"))),
        ("decides", json!({"prompt": "Well?", "decides": false})),
    ];
    let named = cases.iter().enumerate().map(|(at, (_, it))| (format!("case_{at}"), it.clone()));
    let (_root, server) = stage(&named.collect::<Vec<_>>());
    for (at, (field, arguments)) in cases.iter().enumerate() {
        let start = start_of(&format!("case_{at}"), "", "Go", "");
        let told = run(&mut server.client().await, start).await;
        let is_asked = told.iter().any(|it| matches!(it.event, Some(Event::RequestInfo(_))));
        assert!(!is_asked, "nobody is asked: {arguments}");
        let output = told.iter().find_map(|it| {
            let Event::Output(output) = it.event.as_ref()? else { return None };
            Some(output.value.as_ref()?.as_str()?.to_owned())
        });
        let output = output.unwrap_or_else(|| panic!("{arguments}: {told:?}"));
        assert!(output.starts_with("told: error: "), "{arguments}: {output}");
        assert!(output.contains(&format!("`{field}`")), "{arguments}: {output}");
    }
}

#[tokio::test]
async fn k7_an_approval_that_a_model_asks_for_can_be_refused_and_a_clarification_has_its_schema() {
    let schema = json!({"type": "integer", "minimum": 1});
    let (_root, server) = stage(&[
        ("approval".into(), json!({"prompt": "May I?", "request_type": "approval"})),
        ("number".into(), json!({"prompt": "How many?", "response_schema": schema})),
    ]);
    let mut client = server.client().await;
    let told = run(&mut client, start_of("approval", "", "Go", "")).await;
    let request = asked(&told).unwrap();
    assert_eq!(request.kind(), RequestKind::Approval);
    let told =
        send(&mut client, crate::support::server::answer_to(&request.request_id, "no", "")).await;
    let over = told.last().unwrap();
    assert!(matches!(over.event, Some(Event::Completed(_))), "{told:?}");
    let told = run(&mut client, start_of("number", "", "Go", "")).await;
    let Some(Event::Status(status)) = &told.last().unwrap().event else { panic!("{told:?}") };
    assert_eq!(status.status(), RunStatus::Waiting);
    let request = asked(&told).unwrap();
    assert_eq!(**request.response_schema.as_ref().unwrap(), schema);
}

//! A session remembers, on the real binary: killed between two runs and while the second waits.

use std::fs;
use std::path::Path;

use holdpoint::wire::v1::GetRunRequest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::models::chat::saying;
use crate::models::fixture::{Answer, Fixture};
use crate::support::server::{Setup, answer_to, asked, names, run, send, start_of};

/// A model that says who it is, and two workflows: one that only talks, one that asks a person.
async fn stage(root: &Path) -> (Fixture, Setup) {
    let model = Fixture::start(|number, seen| {
        let who = seen.body["messages"][0]["content"].as_str().unwrap();
        Answer::stream(saying(&[&format!("{who} This is word {}.", number + 1)]))
    })
    .await;
    let flows = root.join("flows");
    fs::create_dir_all(&flows).unwrap();
    let flow = |name: &str, agents: &[&str], steps: Value| {
        let agent = |agent: &&str| {
            (
                agent.to_string(),
                json!({"instructions": format!("I am {agent}."), "human_input": false}),
            )
        };
        let agents: serde_json::Map<_, _> = agents.iter().map(agent).collect();
        let file = json!({
            "name": name,
            "models": {"m": {"provider": "openai_chat", "model": "small",
                "base_url": model.base_url, "key_env": "none"}},
            "agents": agents,
            "pattern": "sequential",
            "steps": steps,
        });
        fs::write(flows.join(format!("{name}.yaml")), file.to_string()).unwrap();
    };
    flow("talk", &["a"], json!([{"agent": "a"}]));
    let human = json!({"kind": "clarification", "prompt": "Which colour?"});
    flow(
        "ask",
        &["a", "b"],
        json!([{"agent": "a"}, {"id": "colour", "human": human}, {"agent": "b"}]),
    );
    (model, Setup::new(root))
}

/// What the model was last given, the instructions left out: role and text.
fn given(model: &Fixture) -> Vec<(String, String)> {
    let seen = model.seen();
    let messages = seen.last().unwrap().body["messages"].as_array().unwrap();
    let word = |message: &Value, field: &str| message[field].as_str().unwrap().to_owned();
    messages[1..].iter().map(|one| (word(one, "role"), word(one, "content"))).collect()
}

#[tokio::test]
async fn what_was_said_before_survives_a_kill_between_two_runs_and_one_within_the_second() {
    let root = TempDir::new().unwrap();
    let (model, setup) = stage(root.path()).await;
    let mut server = setup.start();
    let mut client = server.client().await;
    let first = run(&mut client, start_of("talk", "our-talk", "My name is Ada.", "k1")).await;
    assert_eq!(names(&first).last(), Some(&"completed"));

    server.kill();
    let mut server = setup.start();
    let mut client = server.client().await;
    let second = run(&mut client, start_of("ask", "our-talk", "Paint my door.", "k2")).await;
    let request = asked(&second).unwrap();
    assert_eq!(request.prompt, "Which colour?");

    server.kill();
    let server = setup.start();
    let mut client = server.client().await;
    let last = send(&mut client, answer_to(&request.request_id, "Blue.", "k3")).await;
    assert_eq!(names(&last).last(), Some(&"completed"));
    let said = [
        ("user", "My name is Ada."),
        ("user", "a: I am a. This is word 1."),
        ("user", "Paint my door."),
        ("user", "a: I am a. This is word 2."),
        ("user", "asked: Which colour?"),
        ("user", "Blue."),
    ];
    assert_eq!(given(&model), said.map(|(role, text)| (role.to_owned(), text.to_owned())));

    let request = GetRunRequest { run_id: last[0].run_id.clone(), omit_conversation: false };
    let own = client.get_run(request).await.unwrap().into_inner().conversation;
    assert_eq!(own.first().unwrap().text, "Paint my door.", "its conversation is its own");
}

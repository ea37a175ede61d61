//! A task whose result is being spoken, seen by somebody who comes in the middle: A2A's own SDK is told what was
//! said so far, and what follows as its continuation.

use std::io::{BufRead as _, BufReader};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::a2a::calls::{Agent, text};
use crate::a2a::sdk::act_at;
use crate::models::chat::chunk;
use crate::models::desk::data;
use crate::models::fixture::{Answer, Bit, Fixture};
use crate::support::server::Server;

fn piece(words: &str) -> Bit {
    Bit::Bytes(Bytes::from(data(&[chunk(&json!({"content": words}), &Value::Null)])))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_subscribes_while_a_result_is_spoken_is_told_its_beginning_and_then_the_rest() {
    let gate = Arc::new(Semaphore::new(0));
    let end = format!("{}data: [DONE]\n\n", data(&[chunk(&json!({}), &json!("stop"))]));
    let bits = vec![
        piece("Once upon "),
        Bit::Gate(Arc::clone(&gate)),
        piece("a time."),
        Bit::Bytes(Bytes::from(end)),
    ];
    let model = Fixture::start(move |_, _| Answer::bits(bits.clone())).await;
    let here = TempDir::new().unwrap();
    let flows = here.path().join("flows");
    std::fs::create_dir_all(&flows).unwrap();
    let file = json!({
        "name": "tale",
        "models": {"m": {"provider": "openai_chat", "model": "small",
            "base_url": model.base_url, "key_env": "none"}},
        "agents": {"teller": {"instructions": "Tell.", "human_input": false}},
        "pattern": "sequential",
        "steps": [{"agent": "teller"}],
    });
    std::fs::write(flows.join("tale.yaml"), file.to_string()).unwrap();
    let server = Server::start(here.path());
    let agent = Agent::new(server.address(), "/a2a/tale");
    let mut told = agent.stream("SendStreamingMessage", &json!({"message": text("m1", "Tell.")}));
    let (_, first) = told.next().unwrap();
    let task = first["task"]["id"].as_str().unwrap().to_owned();
    let begun = told.find(|(_, told)| told.get("artifactUpdate").is_some()).unwrap().1;
    assert_eq!(begun["artifactUpdate"]["artifact"]["parts"][0]["text"], "Once upon ");

    let mut watch = act_at(&server, "tale", "JSONRPC", &["watch", &task]);
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut seen = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let so_far = seen.next().unwrap();
    assert_eq!((&so_far["kind"], &so_far["words"]), (&json!("artifact"), &json!("Once upon ")));
    gate.add_permits(1);
    let next = seen.find(|told| told["kind"] == "artifact_update").unwrap();
    assert_eq!((&next["words"], &next["append"]), (&json!("a time."), &json!(true)), "{next}");
    let last = seen.filter(|told| told["kind"] == "artifact_update").last().unwrap();
    let whole = (&json!("Once upon a time."), &json!(false));
    assert_eq!((&last["words"], &last["append"]), whole, "{last}");
    assert!(watch.wait().unwrap().success());
}

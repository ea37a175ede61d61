//! A model server that others wrote: LiteLLM's proxy, on its own and as a gateway.
//!
//! `tests/clients/install.sh` fetches it into `target/clients`; without it these tests fail. The
//! proxy wants a key, so keys are tried for real, too.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use holdpoint::app::SystemClock;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use crate::models::desk::{Desk, KEY, data, everything, hello};
use crate::models::fixture::{Answer, Fixture};
use crate::models::{chat, responses};

const MOCKED: &str = "Grüße aus Zürich, sagt der Proxy.";

/// A proxy that runs as long as it is held.
struct Proxy {
    base_url: String,
    _child: Child,
    _folder: tempfile::TempDir,
}

impl Proxy {
    /// Starts it in front of `backend`, and returns when it listens.
    async fn start(backend: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = root.join("target/clients/litellm/bin/litellm");
        assert!(program.exists(), "LiteLLM is not here; run tests/clients/install.sh");
        let folder = tempfile::tempdir().unwrap();
        let config = json!({"model_list": [
            {"model_name": "mocked", "litellm_params":
                {"model": "openai/mocked", "api_key": "none", "mock_response": MOCKED}},
            {"model_name": "through", "litellm_params":
                {"model": "hosted_vllm/small", "api_key": "none", "api_base": backend}},
        ]});
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, config.to_string()).unwrap();
        // Free a moment ago, and nobody else asks for it.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--config"])
            .arg(path)
            .env("LITELLM_MASTER_KEY", KEY)
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        listening(child.stderr.take().unwrap()).await;
        let base_url = format!("http://127.0.0.1:{port}/v1");
        Self { base_url, _child: child, _folder: folder }
    }

    fn desk(&self, provider: &str, model: &str) -> Desk {
        Desk::new(Arc::new(SystemClock), provider, &self.base_url, &json!({"model": model}))
    }
}

/// Returns when the server says that it listens; goes on reading, so that it can go on writing.
async fn listening(output: impl AsyncRead + Send + Unpin + 'static) {
    let mut lines = BufReader::new(output).lines();
    let mut said = Vec::new();
    loop {
        let Some(line) = lines.next_line().await.unwrap() else {
            panic!("the proxy ended: {}", said.join("\n"))
        };
        if line.contains("running on http") {
            break;
        }
        said.push(line);
    }
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
}

/// A model that speaks both of OpenAI's formats, and calls a tool if it has one.
async fn backend() -> Fixture {
    Fixture::start(|_, seen| {
        let tool = &seen.body["tools"][0];
        let arguments = ["{\"city\":", "\"Bonn\"}"];
        let words = ["Guten ", "Tag, ", "Ada."];
        let is_chat = seen.path == "/v1/chat/completions";
        match (is_chat, tool["function"]["name"].as_str().or(tool["name"].as_str())) {
            (true, None) => Answer::stream(chat::saying(&words)),
            (false, None) => Answer::stream(responses::saying(&words)),
            (true, Some(tool)) => Answer::stream(chat_call(tool, arguments)),
            (false, Some(tool)) => {
                let created = json!({"type": "response.created", "response": {}});
                let mut events = vec![created];
                events.extend(responses::calling(0, "call_1", tool, &arguments));
                events.push(responses::completed());
                Answer::stream(responses::numbered(events))
            }
        }
    })
    .await
}

fn chat_call(tool: &str, [head, tail]: [&str; 2]) -> String {
    let start = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": tool, "arguments": head}});
    let end = json!({"index": 0, "function": {"arguments": tail}});
    let events = [
        chat::chunk(&json!({"role": "assistant", "tool_calls": [start]}), &Value::Null),
        chat::chunk(&json!({"tool_calls": [end]}), &Value::Null),
        chat::chunk(&json!({}), &json!("tool_calls")),
    ];
    data(&events) + "data: [DONE]\n\n"
}

#[tokio::test]
async fn a_proxy_that_others_wrote_is_understood_in_every_format() {
    let backend = backend().await;
    let proxy = Proxy::start(&backend.base_url).await;
    for provider in ["openai_chat", "anthropic"] {
        let (reply, heard) = proxy.desk(provider, "mocked").ask(&hello()).await;
        let reply = reply.unwrap();
        assert_eq!((reply.text.as_str(), heard.concat().as_str()), (MOCKED, MOCKED), "{provider}");
        assert!(reply.usage.output_tokens > 0, "{provider}");
    }
    for provider in ["openai_chat", "openai_responses", "anthropic"] {
        let (reply, heard) = proxy.desk(provider, "through").ask(&hello()).await;
        let words = "Guten Tag, Ada.";
        assert_eq!((reply.unwrap().text.as_str(), heard.concat().as_str()), (words, words));

        let mut input = everything();
        input.output = None;
        let reply = proxy.desk(provider, "through").ask(&input).await.0.unwrap();
        let calls: Vec<_> = reply.calls.iter().map(|call| (&*call.tool, &call.arguments)).collect();
        assert_eq!(calls, [("find.venues", &json!({"city": "Bonn"}))], "{provider}");
    }
    // Whatever the format, the model behind the gateway was told of its earlier call.
    let told = backend.seen();
    let knows = told.iter().filter(|seen| seen.body.to_string().contains("Pier 66, with a roof."));
    assert_eq!(knows.count(), 3);

    let nobody = Desk::fault(proxy.desk("openai_chat", "nobody").ask(&hello()).await.0);
    assert_eq!(nobody, ("model.refused".to_owned(), false));
    // It has its own way of saying so, but it lets nobody in without a key.
    let more = json!({"model": "mocked", "key_env": "none", "retries": 0});
    let keyless = Desk::new(Arc::new(SystemClock), "openai_chat", &proxy.base_url, &more);
    assert!(keyless.ask(&hello()).await.0.is_err());
}

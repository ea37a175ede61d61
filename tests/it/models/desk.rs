//! A desk from which one agent asks one model: settings in, reply and deltas out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use holdpoint::agents::Registry;
use holdpoint::kernel::workflow::{Limits, Model, Pattern};
use holdpoint::kernel::{
    AgentInput, AttemptFault, Message, Millis, Reply, Speaker, ToolCall, ToolOffer, Workflow,
};
use holdpoint::ports::{Agents as _, Clock, DeltaSink};
use serde_json::{Value, json};

/// The key in the environment of every test.
pub(crate) const KEY: &str = "sk-a-key-that-nobody-may-see";
/// Longer sleeps than this are timeouts, which no test waits for.
const PAUSE_MS_MAX: u64 = 60_000;

/// A clock for which pauses are over at once, and timeouts never.
#[derive(Debug, Default)]
pub(crate) struct Hasty {
    now: Mutex<u64>,
    pub(crate) pauses: Mutex<Vec<u64>>,
}

impl Hasty {
    pub(crate) fn advance(&self, ms: u64) {
        *self.now.lock().unwrap() += ms;
    }
}

#[async_trait]
impl Clock for Hasty {
    fn now(&self) -> Millis {
        Millis(1_750_000_000_000 + *self.now.lock().unwrap())
    }

    async fn sleep_until(&self, at: Millis) {
        let ms = at.since(self.now());
        if ms > PAUSE_MS_MAX {
            return std::future::pending().await;
        }
        self.pauses.lock().unwrap().push(ms);
        self.advance(ms);
    }

    fn fresh_stem(&self) -> String {
        format!("{:026}", self.pauses.lock().unwrap().len())
    }
}

/// Everything that was said while the model spoke.
#[derive(Default)]
pub(crate) struct Heard(pub(crate) Vec<String>);

#[async_trait]
impl DeltaSink for Heard {
    async fn push(&mut self, text: String) {
        self.0.push(text);
    }

    async fn note(&mut self, _memo: Value) -> Result<(), AttemptFault> {
        Ok(())
    }
}

pub(crate) struct Desk {
    pub(crate) registry: Registry,
    pub(crate) workflow: Workflow,
}

impl Desk {
    /// A desk in front of the server at `base_url`; `settings` go on top.
    pub(crate) fn new(clock: Arc<dyn Clock>, provider: &str, base_url: &str, more: &Value) -> Self {
        let mut settings = json!({"model": "small", "base_url": base_url, "key_env": "TEST_KEY"});
        for (name, value) in more.as_object().into_iter().flatten() {
            settings[name] = value.clone();
        }
        Self::with(clock, provider, settings)
    }

    pub(crate) fn with(clock: Arc<dyn Clock>, provider: &str, settings: Value) -> Self {
        let registry = Registry::new(clock)
            .with_environment(|name| (name == "TEST_KEY").then(|| KEY.to_owned()));
        let model = Model { provider: provider.into(), settings };
        let workflow = Workflow {
            secretive: false,
            name: "w".into(),
            description: String::new(),
            input: None,
            limits: Limits::default(),
            models: BTreeMap::from([("m".to_owned(), model)]),
            tools: BTreeMap::new(),
            gates: Vec::new(),
            agents: BTreeMap::new(),
            pattern: Pattern::Sequential { steps: Vec::new() },
            request_types: BTreeMap::new(),
            by_digest: false,
        };
        Self { registry, workflow }
    }

    pub(crate) async fn ask(
        &self,
        input: &AgentInput,
    ) -> (Result<Reply, AttemptFault>, Vec<String>) {
        let mut heard = Heard::default();
        let reply = self.registry.reply(&self.workflow, input, &mut heard).await;
        (reply, heard.0)
    }

    /// The code of the fault that `input` ends in, and whether another try may help.
    #[track_caller]
    pub(crate) fn fault(reply: Result<Reply, AttemptFault>) -> (String, bool) {
        let fault = reply.expect_err("a fault");
        assert!(!fault.failure.message.contains(KEY), "{}", fault.failure.message);
        assert!(fault.failure.message.starts_with("model `m`: "), "{}", fault.failure.message);
        (fault.failure.code, fault.retriable)
    }
}

/// A desk with a clock that waits for no pause.
pub(crate) fn desk(provider: &str, base_url: &str) -> Desk {
    Desk::new(Arc::new(Hasty::default()), provider, base_url, &json!({}))
}

/// The smallest thing that can be asked.
pub(crate) fn hello() -> AgentInput {
    AgentInput {
        agent: "venue".into(),
        model: "m".into(),
        instructions: "You find venues.".into(),
        messages: vec![Arc::new(Message::text(Speaker::User, "ada", "Hello?"))],
        begins: 0,
        tools: Vec::new(),
        output: None,
        failures: 0,
        key: String::new(),
        memo: None,
        summarises: None,
    }
}

/// A conversation with everything in it: others' words, own words, own calls, a correction.
pub(crate) fn everything() -> AgentInput {
    let mut called = Message::text(Speaker::Assistant, "venue", "I look.");
    called.calls = vec![
        ToolCall::new("c1", "find.venues", json!({"city": "Bonn"})),
        ToolCall::new("c2", "weather", json!({})),
    ];
    let outcome = |id: &str, text: &str| Message {
        call_id: Some(id.into()),
        ..Message::text(Speaker::Tool, "", text)
    };
    let messages = vec![
        Message::text(Speaker::User, "ada", "Plan a party in Bonn"),
        Message::text(Speaker::Assistant, "coordinator", "The venue first."),
        called,
        outcome("c1", "[\"Pier 66\"]"),
        outcome("c2", "rain"),
        Message::text(Speaker::Assistant, "venue", "Pier 66, with a roof."),
        Message::text(Speaker::System, "w", "Sum up."),
    ];
    AgentInput {
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![ToolOffer {
            name: "find.venues".into(),
            description: "Finds venues.".into(),
            parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
        }],
        output: Some(schema()),
        ..hello()
    }
}

/// A schema that a server can be strict about.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"summary": {"type": "string"}},
        "required": ["summary"],
        "additionalProperties": false,
    })
}

/// `find.venues` as it is called on the wire.
pub(crate) const FIND_VENUES: &str = "find_venues_504b121c";

/// Events with data only.
pub(crate) fn data(events: &[Value]) -> String {
    let lines: Vec<_> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    lines.concat()
}

/// Events with names, as their `type` says.
pub(crate) fn named(events: &[Value]) -> String {
    let line =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(line).collect::<Vec<_>>().concat()
}

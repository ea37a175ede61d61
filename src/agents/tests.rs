//! Scripted agents and tools: which rule fits, what it does, and that nothing else matters.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::agents::Registry;
use crate::kernel::workflow::{Limits, Model, Pattern, Safety, Tool};
use crate::kernel::{
    AgentInput, AttemptFault, Message, Millis, Reply, Speaker, ToolCall, Workflow,
};
use crate::ports::{Agents as _, Clock, DeltaSink, Tools as _};

/// A clock that notes how long it was asked to sleep, and does not.
#[derive(Debug, Default)]
struct Patient(Mutex<Vec<u64>>);

#[async_trait]
impl Clock for Patient {
    fn now(&self) -> Millis {
        Millis(1_000)
    }

    async fn sleep_until(&self, at: Millis) {
        self.0.lock().unwrap().push(at.since(Millis(1_000)));
    }

    fn fresh_stem(&self) -> String {
        String::new()
    }
}

#[derive(Default)]
struct Heard(Vec<String>);

#[async_trait]
impl DeltaSink for Heard {
    async fn push(&mut self, text: String) {
        self.0.push(text);
    }

    async fn note(&mut self, _memo: Value) -> Result<(), AttemptFault> {
        Ok(())
    }
}

fn workflow(rules: Value) -> Workflow {
    let script = Value::Object([("rules".to_owned(), rules)].into_iter().collect());
    let settings = Value::Object([("script".to_owned(), script)].into_iter().collect());
    Workflow {
        secretive: false,
        name: "w".into(),
        description: String::new(),
        input: None,
        limits: Limits::default(),
        models: [("m".into(), Model { provider: "scripted".into(), settings })].into(),
        tools: [].into(),
        gates: Vec::new(),
        agents: [].into(),
        pattern: Pattern::Sequential { steps: Vec::new() },
        request_types: std::collections::BTreeMap::new(),
        by_digest: false,
    }
}

fn with_tool(settings: Value) -> Workflow {
    let tool = Tool {
        secret: Vec::new(),
        description: String::new(),
        provider: "scripted".into(),
        safety: Safety::Pure,
        tags: Vec::new(),
        parameters: None,
        settings,
    };
    Workflow { tools: [("t".into(), tool)].into(), ..workflow(json!([])) }
}

fn input(messages: Vec<Message>) -> AgentInput {
    AgentInput {
        agent: "venue".into(),
        model: "m".into(),
        instructions: String::new(),
        messages: messages.into_iter().map(Arc::new).collect(),
        begins: 0,
        tools: Vec::new(),
        output: None,
        failures: 0,
        key: String::new(),
        memo: None,
        summarises: None,
    }
}

fn user(text: &str) -> Message {
    Message::text(Speaker::User, "local", text)
}

fn said(agent: &str, text: &str) -> Message {
    Message::text(Speaker::Assistant, agent, text)
}

fn registry() -> Registry {
    Registry::new(Arc::new(Patient::default()))
}

#[track_caller]
fn at_once(rules: Value, input: &AgentInput) -> Result<Reply, AttemptFault> {
    registry().reply_at_once(&workflow(rules), input).expect("nothing to wait for")
}

fn word(rules: Value, input: &AgentInput) -> String {
    at_once(rules, input).map_or_else(|fault| fault.failure.code, |reply| reply.text)
}

#[test]
fn the_first_rule_that_fits_is_played() {
    let start = input(vec![user("Plan a Party")]);
    for (when, fits) in [
        (json!({"agent": "venue"}), true),
        (json!({"agent": "budget"}), false),
        (json!({"turns": [1, 3]}), true),
        (json!({"turns": [2]}), false),
        (json!({"when": {"last_contains": ["party"]}}), true),
        (json!({"when": {"last_contains": ["wake", "plan a"]}}), true),
        (json!({"when": {"last_contains": ["wake"]}}), false),
        (json!({"when": {"last_from": "user"}}), true),
        (json!({"when": {"last_from": "local"}}), true),
        (json!({"when": {"last_from": "venue"}}), false),
        (json!({"when": {"conversation_contains": ["party"]}}), true),
        (json!({"when": {"conversation_contains": ["seattle"]}}), false),
        (json!({"when": {"not_contains": ["party"]}}), false),
        (json!({"when": {"not_contains": ["seattle"]}}), true),
        (json!({"when": {"answer_contains": ["party"]}}), true),
        (json!({"when": {"tool_result_contains": ["party"]}}), false),
    ] {
        let mut rule = when.clone();
        rule["say"] = "first".into();
        let expected = if fits { "first" } else { "second" };
        assert_eq!(word(json!([rule, {"say": "second"}]), &start), expected, "{when}");
    }
}

#[test]
fn what_was_said_before_the_run_is_heard_and_counts_as_nobodys_turn() {
    let spoken = vec![user("In Seattle."), said("venue", "A hall."), user("And for 40?")];
    let later = AgentInput { begins: 2, ..input(spoken) };
    assert_eq!(word(json!([{"turns": [1], "say": "{{first_user}}"}]), &later), "And for 40?");
    let heard = json!({"conversation_contains": ["seattle"]});
    assert_eq!(word(json!([{"when": heard, "say": "{{said.venue}}"}]), &later), "A hall.");
}

#[test]
fn turns_count_what_this_agent_said_and_tool_results_what_came_since() {
    let tool =
        Message { call_id: Some("venue-1".into()), ..Message::text(Speaker::Tool, "", "Pier 66") };
    let later = input(vec![user("Go"), said("budget", "x"), said("venue", "asking"), tool]);
    assert_eq!(word(json!([{"turns": [2], "say": "yes"}]), &later), "yes");
    let results = json!([{"when": {"tool_result_contains": ["pier"]}, "say": "got {{answer}}"}]);
    assert_eq!(word(results.clone(), &later), "got Pier 66");
    let mut after = later;
    after.messages.push(Arc::new(said("venue", "thanks")));
    assert_eq!(word(results, &after), "script.no_rule");
}

#[test]
fn texts_are_filled_in_everywhere() {
    let rules = json!([{
        "say": "{{first_user}} / {{last_user}} / {{last}} / {{said.budget}} / {{unknown}} {{",
        "output": {"list": ["{{last_user}}"]},
        "calls": [{"tool": "t", "arguments": {"q": "{{said.budget}}"}}],
    }]);
    let input = input(vec![user("one"), said("budget", "dear"), user("two"), said("venue", "hm")]);
    let reply = at_once(rules, &input).unwrap();
    assert_eq!(reply.text, "one / two / hm / dear /  {{");
    assert_eq!(reply.output, Some(json!({"list": ["two"]})));
    assert_eq!(reply.calls[0].arguments, json!({"q": "dear"}));
}

#[test]
fn call_ids_follow_from_the_conversation_and_never_repeat() {
    let rules = json!([{"calls": [{"tool": "a"}, {"tool": "b"}]}]);
    let ids = |input: &AgentInput| -> Vec<String> {
        let reply = at_once(rules.clone(), input).unwrap();
        reply.calls.into_iter().map(|call| call.id).collect()
    };
    let mut input = input(vec![user("Go")]);
    assert_eq!(ids(&input), ["venue-1", "venue-2"]);
    assert_eq!(ids(&input), ["venue-1", "venue-2"]);
    let mut called = said("venue", "");
    for id in ["venue-1", "venue-2"] {
        called.calls.push(ToolCall::new(id, "a", Value::Null));
    }
    input.messages.push(Arc::new(called));
    assert_eq!(ids(&input), ["venue-3", "venue-4"]);
}

#[test]
fn a_failure_lasts_as_many_tries_as_it_says() {
    let rules = json!([{"fail": {"message": "busy", "retriable": true, "times": 2}, "say": "now"}]);
    let mut input = input(vec![user("Go")]);
    for failures in 0..2 {
        input.failures = failures;
        let fault = at_once(rules.clone(), &input).unwrap_err();
        assert_eq!((fault.failure.message.as_str(), fault.retriable), ("busy", true));
    }
    input.failures = 2;
    assert_eq!(word(rules, &input), "now");
    let passes = json!([{"fail": {"message": "x", "times": 1}}, {"say": "next rule"}]);
    assert_eq!(word(passes, &input), "next rule");
    let always = json!([{"fail": {"message": "broken"}, "say": "never"}]);
    assert_eq!(word(always, &input), "script.fails");
}

#[test]
fn no_rule_is_a_fault_that_says_who_and_when() {
    let fault =
        at_once(json!([{"agent": "x", "say": "y"}]), &input(vec![user(&"long ".repeat(99))]))
            .unwrap_err();
    assert!(!fault.retriable);
    let message = fault.failure.message;
    assert!(
        message.starts_with("no rule of the script fits agent `venue` at turn 1; "),
        "{message}"
    );
    assert!(message.ends_with("long …`"), "{message}");
}

#[tokio::test]
async fn a_slow_rule_waits_and_a_streaming_one_speaks_word_by_word() {
    let clock = Arc::new(Patient::default());
    let registry = Registry::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let workflow = workflow(json!([{"say": "one two three", "stream": true, "delay_ms": 250}]));
    let input = input(vec![user("Go")]);
    assert!(registry.reply_at_once(&workflow, &input).is_none());
    let mut heard = Heard::default();
    let reply = registry.reply(&workflow, &input, &mut heard).await.unwrap();
    assert_eq!(reply.text, "one two three");
    assert_eq!(heard.0, ["one ", "two ", "three"]);
    assert_eq!(*clock.0.lock().unwrap(), [250]);
}

#[tokio::test]
async fn a_scripted_tool_answers_by_its_arguments() {
    let workflow = with_tool(json!({"rules": [
        {"when": {"order": "1"}, "returns": {"status": "sent", "key": "{{key}}"}},
        {"when": {"order": "2"}, "fail": "no such order", "lost": true},
    ]}));
    let registry = registry();
    assert_eq!(registry.check(&workflow), Ok(()));
    let call = |order: &'static str| {
        let (registry, workflow) = (&registry, &workflow);
        async move {
            let call = ToolCall::new("c1", "t", json!({"order": order}));
            registry.call(workflow, &call, "k1").await
        }
    };
    assert_eq!(call("1").await, Ok(json!({"status": "sent", "key": "k1"})));
    let fault = call("2").await.unwrap_err();
    assert_eq!((fault.failure.message.as_str(), fault.may_have_happened), ("no such order", true));
    assert_eq!(call("3").await.unwrap_err().failure.code, "tool.no_rule");
}

#[test]
fn what_a_provider_cannot_use_is_told_with_its_place() {
    let registry = registry();
    let mut other = workflow(json!([{"say": "x"}]));
    assert_eq!(registry.check(&other), Ok(()));
    other.models.get_mut("m").unwrap().provider = "oracle".into();
    let (at, remedy) = registry.check(&other).unwrap_err();
    let known = "scripted, openai_chat, openai_responses, anthropic, recorded, a2a";
    assert_eq!(at, "/models/m/provider");
    assert_eq!(remedy, format!("there is no provider `oracle`; there is: {known}"));
    for (broken, at) in [
        (workflow(json!([{"say": "x"}, {"shout": "x"}])), "/models/m/script/rules/1"),
        (with_tool(json!({"return": 1})), "/tools/t/settings"),
        (with_tool(json!({"rules": [{"delay": "soon"}]})), "/tools/t/settings/rules/0/delay"),
    ] {
        assert_eq!(registry.check(&broken).unwrap_err().0, at);
    }
}

#[test]
fn everything_that_a_provider_cannot_use_is_told_at_once() {
    let mut broken = with_tool(json!({"return": 1}));
    let model = broken.models.get_mut("m").unwrap();
    model.provider = "openai_chat".into();
    model.settings = json!({"model": "x", "key_env": "none", "base_url": "ftp:x", "temperature": 3,
        "top_p": 2, "extra": {"messages": []}, "timeouts": {"total": "soon"}});
    let told: Vec<_> = registry().problems(&broken).into_iter().map(|(at, _)| at).collect();
    let at = |field: &str| format!("/models/m/{field}");
    let fields = ["base_url", "temperature", "top_p", "extra/messages", "timeouts/total"];
    let expected: Vec<_> = fields.map(at).into_iter().chain(["/tools/t/settings".into()]).collect();
    assert_eq!(told, expected);
}

#[test]
fn what_a_model_saw_can_be_read_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inputs.jsonl");
    let registry = registry().recording(&path).unwrap();
    let workflow = workflow(json!([{"say": "x"}]));
    for text in ["one", "two"] {
        assert!(registry.reply_at_once(&workflow, &input(vec![user(text)])).is_some());
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    let messages = json!([{"role": "user", "author": "local", "text": "two"}]);
    assert_eq!((&lines[1]["agent"], &lines[1]["messages"]), (&json!("venue"), &messages));
}

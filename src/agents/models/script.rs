//! Script: the rules that a scripted model plays, and which of them fits.
//!
//! Everything follows from the input: the same conversation always gets the same reply, whatever
//! happened to the process in between. Rules come compiled, as `definition` leaves them in the
//! model's settings: texts to look for are in lower case there.

use std::cell::LazyCell;

use serde::Deserialize;
use serde_json::Value;

use crate::kernel::{AgentInput, Message, Speaker};

/// One rule: when it fits, and what is done then.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule<'a> {
    #[serde(default)]
    agent: Option<&'a str>,
    #[serde(default)]
    turns: Option<Vec<usize>>,
    #[serde(default, borrow)]
    when: When<'a>,
    /// What is said.
    #[serde(default)]
    pub(super) say: Option<&'a str>,
    /// Whether it is said word by word.
    #[serde(default)]
    pub(super) stream: bool,
    /// A structured reply.
    #[serde(default)]
    pub(super) output: Option<Value>,
    /// Tools that are called.
    #[serde(default)]
    pub(super) calls: Vec<Call>,
    /// The attempt fails.
    #[serde(default)]
    pub(super) fail: Option<Fail>,
    /// How long it takes.
    #[serde(default)]
    pub(super) delay_ms: u64,
}

/// A tool call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    /// The tool.
    pub(super) tool: String,
    /// The arguments.
    #[serde(default)]
    pub(super) arguments: Value,
}

/// A failure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fail {
    /// What went wrong.
    pub(super) message: String,
    /// Whether another try may help.
    #[serde(default)]
    pub(super) retriable: bool,
    /// How many tries of a turn fail; all of them, if absent.
    #[serde(default)]
    pub(super) times: Option<u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct When<'a> {
    #[serde(default, borrow)]
    last_contains: Option<Vec<&'a str>>,
    #[serde(default)]
    last_from: Option<&'a str>,
    #[serde(default, borrow)]
    conversation_contains: Option<Vec<&'a str>>,
    #[serde(default, borrow)]
    not_contains: Option<Vec<&'a str>>,
    #[serde(default, borrow)]
    answer_contains: Option<Vec<&'a str>>,
    #[serde(default, borrow)]
    tool_result_contains: Option<Vec<&'a str>>,
}

/// The rules in a model's settings, or what is wrong with the settings.
pub(super) fn rules(settings: &Value) -> Result<&Vec<Value>, String> {
    let rules = settings.pointer("/script/rules").and_then(Value::as_array);
    rules.ok_or_else(|| "expected `script.rules`, a list".to_owned())
}

/// What is wrong with the rules, by the number of the rule.
pub(super) fn check(settings: &Value) -> Vec<(String, String)> {
    let rules = match rules(settings) {
        Ok(rules) => rules,
        Err(wrong) => return vec![(String::new(), wrong)],
    };
    let wrong = rules.iter().enumerate().filter_map(|(index, rule)| {
        let error = Rule::deserialize(rule).err()?;
        Some((format!("/script/rules/{index}"), error.to_string()))
    });
    wrong.collect()
}

/// The first rule that fits.
pub(super) fn find<'a>(rules: &'a [Value], input: &AgentInput) -> Result<Option<Rule<'a>>, String> {
    let scene = Scene::of(input);
    for value in rules {
        // Most rules are another agent's: they are passed over before they are read.
        let other = value.get("agent").and_then(Value::as_str);
        if other.is_some_and(|agent| agent != input.agent) {
            continue;
        }
        let rule = Rule::deserialize(value).map_err(|error| error.to_string())?;
        if rule.fits(&scene) && !rule.is_spent(input) {
            return Ok(Some(rule));
        }
    }
    Ok(None)
}

/// Which time the agent is asked to speak, counted from 1 by what it has said in the run so far.
pub(super) fn turn(input: &AgentInput) -> usize {
    let said =
        |message: &&Message| message.role == Speaker::Assistant && message.author == input.agent;
    1 + own(input).filter(said).count()
}

/// What was said in the run itself: turns are counted in it, whatever the session remembers.
fn own(input: &AgentInput) -> impl Iterator<Item = &Message> {
    input.messages.iter().skip(input.begins).map(AsRef::as_ref)
}

/// The last thing a person said, to everybody or in answer to this agent's own question.
pub(super) fn answer(input: &AgentInput) -> Option<&Message> {
    let heard = |message: &&Message| matches!(message.role, Speaker::User | Speaker::Tool);
    input.messages.iter().rev().map(AsRef::as_ref).find(heard)
}

/// The conversation as rules look at it. What only some rules need is worked out when one does.
struct Scene<'a> {
    input: &'a AgentInput,
    turn: LazyCell<usize, Box<dyn FnOnce() -> usize + 'a>>,
    /// Every message in lower case.
    texts: LazyCell<Vec<String>, Box<dyn FnOnce() -> Vec<String> + 'a>>,
}

impl<'a> Scene<'a> {
    fn of(input: &'a AgentInput) -> Self {
        let texts = || input.messages.iter().map(|message| message.text.to_lowercase()).collect();
        Self {
            input,
            turn: LazyCell::new(Box::new(|| turn(input))),
            texts: LazyCell::new(Box::new(texts)),
        }
    }

    fn last(&self) -> Option<&Message> {
        self.input.messages.last().map(AsRef::as_ref)
    }

    fn tool_results(&self) -> Vec<String> {
        let messages = self.input.messages.iter().rev();
        let since = messages.take_while(|message| message.role != Speaker::Assistant);
        let results = since.filter(|message| message.role == Speaker::Tool);
        results.map(|message| message.text.to_lowercase()).collect()
    }
}

impl Rule<'_> {
    fn fits(&self, scene: &Scene<'_>) -> bool {
        let when = &self.when;
        let last = scene.last();
        let last_from =
            |from: &str| last.is_some_and(|last| last.role.word() == from || last.author == from);
        let last_has = |wanted: &[&str]| any(wanted, last.map(|last| last.text.to_lowercase()));
        let answer = || answer(scene.input).map(|answer| answer.text.to_lowercase());
        self.agent.is_none_or(|agent| agent == scene.input.agent)
            && self.turns.as_ref().is_none_or(|turns| turns.contains(&scene.turn))
            && when.last_from.is_none_or(last_from)
            && when.last_contains.as_deref().is_none_or(last_has)
            && when.answer_contains.as_deref().is_none_or(|wanted| any(wanted, answer()))
            && when
                .tool_result_contains
                .as_deref()
                .is_none_or(|wanted| any(wanted, scene.tool_results()))
            && when
                .conversation_contains
                .as_deref()
                .is_none_or(|wanted| any(wanted, scene.texts.iter()))
            && when.not_contains.as_deref().is_none_or(|wanted| !any(wanted, scene.texts.iter()))
    }

    /// Whether all that it does is to fail, and it has failed often enough.
    fn is_spent(&self, input: &AgentInput) -> bool {
        let does_more = self.say.is_some() || self.output.is_some() || !self.calls.is_empty();
        self.fail.is_some() && !self.fails(input) && !does_more
    }

    /// Whether this try fails.
    pub(super) fn fails(&self, input: &AgentInput) -> bool {
        let failed = |fail: &Fail| fail.times.is_none_or(|times| input.failures < times);
        self.fail.as_ref().is_some_and(failed)
    }
}

/// Whether one of the wanted texts is in one of those said.
fn any<S: AsRef<str>>(wanted: &[&str], said: impl IntoIterator<Item = S>) -> bool {
    said.into_iter().any(|text| wanted.iter().any(|want| text.as_ref().contains(want)))
}

/// Fills `{{first_user}}`, `{{last_user}}`, `{{last}}`, `{{answer}}` and `{{said.<agent>}}` in.
pub(super) fn fill(text: &str, input: &AgentInput) -> String {
    if !text.contains("{{") {
        return text.to_owned();
    }
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            filled.push_str("{{");
            rest = after;
            continue;
        };
        filled.push_str(variable(name.trim(), input).unwrap_or_default());
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// The same in every text of a value.
pub(super) fn fill_value(value: &Value, input: &AgentInput) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text, input)),
        Value::Array(items) => items.iter().map(|item| fill_value(item, input)).collect(),
        Value::Object(map) => {
            map.iter().map(|(name, item)| (name.clone(), fill_value(item, input))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn variable<'a>(name: &str, input: &'a AgentInput) -> Option<&'a str> {
    let mut messages = input.messages.iter().map(AsRef::as_ref);
    let is_user = |message: &&Message| message.role == Speaker::User;
    let found = match name {
        "first_user" => own(input).find(is_user),
        "last_user" => messages.rev().find(is_user),
        "last" => messages.next_back(),
        "answer" => answer(input),
        other => {
            let agent = other.strip_prefix("said.")?;
            messages.rev().find(|message| message.author == agent && !message.text.is_empty())
        }
    };
    found.map(|message| message.text.as_str())
}

//! Script: what a scripted model says, as it is written in YAML, and the plain rules that it means.
//!
//! `compile` gives the rules as JSON, with the shorthands spelled out; they are kept in the model's
//! settings. How a rule is matched and played is the `scripted` provider's business.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::definition::human::{KindFile, OptionFile};
use crate::definition::time::LengthOfTime;
use crate::kernel::{ASK_TOOL, HANDOFF_PREFIX, duration_ms};

/// What scripted agents say.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptFile {
    /// The rules; the first that fits is played.
    #[schemars(length(min = 1, max = 10_000))]
    pub(super) rules: Vec<RuleFile>,
}

/// When somebody is asked to speak, and what is done then.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleFile {
    /// Who is asked; anybody unless given.
    pub(super) agent: Option<String>,
    /// Which time it is, counted from 1 by what this agent has said so far; any unless given.
    pub(super) turn: Option<Numbers>,
    /// What the conversation must be like, whatever the case of letters.
    #[serde(default)]
    pub(super) when: WhenFile,
    /// What is said. `{{first_user}}`, `{{last_user}}`, `{{last}}`, `{{answer}}` and
    /// `{{said.<agent>}}` stand for what was said before.
    pub(super) say: Option<String>,
    /// Whether the text is spoken word by word.
    #[serde(default)]
    pub(super) stream: bool,
    /// A structured reply.
    pub(super) output: Option<Value>,
    /// Tools that are called.
    #[serde(default)]
    pub(super) call: Vec<CallFile>,
    /// The agent that the conversation is handed to.
    pub(super) handoff: Option<String>,
    /// What the user is asked, by `request_user_input`.
    pub(super) ask: Option<AskFile>,
    /// The attempt fails.
    pub(super) fail: Option<FailFile>,
    /// How long it takes.
    pub(super) delay: Option<LengthOfTime>,
}

/// What the conversation must be like, whatever the case of letters; all that is given must hold.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhenFile {
    /// The last message contains this, or one of these.
    last_contains: Option<Texts>,
    /// The last message is from `user`, `assistant`, `tool` or `system`, or by this author.
    last_from: Option<String>,
    /// Some message contains this, or one of these.
    conversation_contains: Option<Texts>,
    /// No message contains this, or any of these.
    not_contains: Option<Texts>,
    /// The last thing a person said, to everybody or in answer to this agent, contains this, or one of these.
    answer_contains: Option<Texts>,
    /// A tool that this agent called since it last spoke came back with this, or one of these.
    tool_result_contains: Option<Texts>,
}

/// A text, or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Texts {
    /// One text.
    One(String),
    /// Several texts.
    Many(Vec<String>),
}

/// A number, or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Numbers {
    /// One number.
    One(u32),
    /// Several numbers.
    Many(Vec<u32>),
}

/// A tool call.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallFile {
    /// The tool.
    pub(super) tool: String,
    /// The arguments.
    #[serde(default)]
    pub(super) arguments: Map<String, Value>,
}

/// A question to the user.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskFile {
    /// What is asked.
    #[schemars(length(min = 1))]
    pub(super) prompt: String,
    /// What kind of answer; `clarification` unless given.
    pub(super) kind: Option<KindFile>,
    /// What may be chosen.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub(super) options: Vec<OptionFile>,
    /// Facts to decide by.
    pub(super) context: Option<Map<String, Value>>,
}

/// A failure.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailFile {
    /// What went wrong.
    message: String,
    /// Whether another try may help; it may unless told.
    #[serde(default = "yes")]
    retriable: bool,
    /// How many tries of a turn fail before the rule does the rest; all of them unless given.
    #[schemars(range(min = 1, max = 1_000))]
    times: Option<u32>,
}

fn yes() -> bool {
    true
}

impl RuleFile {
    /// Whether anything comes of it.
    pub(super) fn does_nothing(&self) -> bool {
        let speaks = self.say.is_some() || self.output.is_some();
        let acts = !self.call.is_empty() || self.handoff.is_some() || self.ask.is_some();
        !speaks && !acts && self.fail.is_none()
    }

    /// Every text in which variables stand for what was said before, with its place in the rule.
    pub(super) fn templates(&self) -> Vec<(String, &str)> {
        let mut texts = Vec::new();
        if let Some(say) = &self.say {
            texts.push(("/say".to_owned(), say.as_str()));
        }
        if let Some(output) = &self.output {
            texts_in(output, "/output".to_owned(), &mut texts);
        }
        if let Some(ask) = &self.ask {
            texts.push(("/ask/prompt".to_owned(), ask.prompt.as_str()));
        }
        for (index, call) in self.call.iter().enumerate() {
            for (name, value) in &call.arguments {
                texts_in(value, format!("/call/{index}/arguments/{name}"), &mut texts);
            }
        }
        texts
    }

    /// The rule with its shorthands spelled out, for the `scripted` provider.
    pub(super) fn compile(&self) -> Value {
        let mut rule = Map::new();
        let mut put = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                rule.insert(field.to_owned(), value);
            }
        };
        let turns = self.turn.as_ref().map(|turn| match turn {
            Numbers::One(one) => json!([one]),
            Numbers::Many(many) => json!(many),
        });
        let calls = self.calls();
        put("agent", self.agent.clone().map(Value::String));
        put("turns", turns);
        put("when", self.when.compile());
        put("say", self.say.clone().map(Value::String));
        put("stream", self.stream.then_some(Value::Bool(true)));
        put("output", self.output.clone());
        put("calls", (!calls.is_empty()).then_some(Value::Array(calls)));
        put("fail", self.fail.as_ref().map(FailFile::compile));
        let delay_ms = self.delay.as_ref().and_then(|delay| duration_ms(&delay.0));
        put("delay_ms", delay_ms.map(Value::from));
        Value::Object(rule)
    }

    fn calls(&self) -> Vec<Value> {
        let tools =
            self.call.iter().map(|call| json!({"tool": call.tool, "arguments": call.arguments}));
        let handoff = self
            .handoff
            .iter()
            .map(|to| json!({"tool": format!("{HANDOFF_PREFIX}{to}"), "arguments": {}}));
        let ask = self.ask.iter().map(AskFile::compile);
        tools.chain(ask).chain(handoff).collect()
    }
}

impl AskFile {
    fn compile(&self) -> Value {
        let kind = self.kind.unwrap_or(KindFile::Clarification).kind();
        let mut arguments = json!({"prompt": self.prompt, "request_type": kind.word()});
        if !self.options.is_empty() {
            let options = self.options.iter().map(OptionFile::choice);
            arguments["options"] = options
                .map(|option| json!({"id": option.id, "label": option.label(), "description": option.description}))
                .collect();
        }
        if let Some(context) = &self.context {
            arguments["context"] = Value::Object(context.clone());
        }
        json!({"tool": ASK_TOOL, "arguments": arguments})
    }
}

impl FailFile {
    fn compile(&self) -> Value {
        let mut fail = json!({"message": self.message, "retriable": self.retriable});
        if let Some(times) = self.times {
            fail["times"] = times.into();
        }
        fail
    }
}

impl WhenFile {
    fn compile(&self) -> Option<Value> {
        let mut when = Map::new();
        for (field, texts) in [
            ("last_contains", &self.last_contains),
            ("conversation_contains", &self.conversation_contains),
            ("not_contains", &self.not_contains),
            ("answer_contains", &self.answer_contains),
            ("tool_result_contains", &self.tool_result_contains),
        ] {
            let texts = match texts {
                Some(Texts::One(one)) => vec![one.to_lowercase()],
                Some(Texts::Many(many)) => many.iter().map(|text| text.to_lowercase()).collect(),
                None => continue,
            };
            when.insert(field.to_owned(), texts.into());
        }
        if let Some(from) = &self.last_from {
            when.insert("last_from".to_owned(), from.clone().into());
        }
        (!when.is_empty()).then_some(Value::Object(when))
    }
}

/// The names between `{{` and `}}`.
pub(super) fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|(name, _)| name.trim())
}

fn texts_in<'a>(value: &'a Value, pointer: String, texts: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) => texts.push((pointer, text)),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                texts_in(item, format!("{pointer}/{index}"), texts);
            }
        }
        Value::Object(map) => {
            for (name, item) in map {
                texts_in(item, format!("{pointer}/{name}"), texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

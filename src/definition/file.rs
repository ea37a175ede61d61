//! File: a workflow as it is written in YAML: the shapes, and nothing about what they mean.
//!
//! The doc comments here are what an editor shows: they become the descriptions of the JSON Schema
//! (`holdpoint schema`), and that schema is what a file's shape is checked against.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::budgets::BudgetsFile;
use crate::definition::conversation::{ConversationFile, RemembersFile};
use crate::definition::gates::GateFile;
use crate::definition::graph::GraphFile;
use crate::definition::handoffs::HandoffFile;
use crate::definition::human::HumanFile;
use crate::definition::models::ModelFile;
use crate::definition::patience::PatienceFile;
use crate::definition::patterns::{ConcurrentFile, GroupChatFile, PlanExecuteFile};
use crate::definition::people::BindingFile;
use crate::definition::request_types::RequestTypeFile;
use crate::definition::retry::RetryFile;
use crate::definition::time::LengthOfTime;

/// A Holdpoint workflow.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkflowFile {
    /// The name that callers use: lower-case letters, digits, `_` and `-`, at most 64.
    pub(super) name: String,
    /// What the workflow is for, in a sentence.
    #[serde(default)]
    pub(super) description: String,
    /// The JSON Schema of the input, if it is not simply text.
    pub(super) input: Option<Value>,
    /// Bounds of a run.
    #[serde(default)]
    pub(super) limits: LimitsFile,
    /// What a run may spend, and its session; what is not given is not bounded.
    #[serde(default)]
    pub(super) budgets: BudgetsFile,
    /// How much of the conversation an agent is given, and what happens when it is more; the whole
    /// of it unless given.
    pub(super) conversation: Option<ConversationFile>,
    /// How far back its agents remember: `session` gives them what was said in the session's earlier
    /// runs before the run's own conversation, `run` gives them the run's own alone. `session` unless
    /// given.
    #[serde(default)]
    pub(super) remembers: RemembersFile,
    /// `digest`: every decision is answered only with the digest of what was shown; a request id or a printed
    /// code alone is refused. The terminal, the console and the chat send it themselves.
    pub(super) binding: Option<BindingFile>,
    /// What answers for the agents, by name.
    #[serde(default)]
    pub(super) models: BTreeMap<String, ModelFile>,
    /// Tools that agents may be given, by name.
    #[serde(default)]
    pub(super) tools: BTreeMap<String, ToolFile>,
    /// Which tool calls wait for a person.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub(super) gates: Vec<GateFile>,
    /// Request types that human steps and `request_user_input` may use, by name.
    #[serde(default)]
    pub(super) request_types: BTreeMap<String, RequestTypeFile>,
    /// MCP servers whose tools agents may be given, by name: `time.now` is the tool `now` of the
    /// server `time`, `time.*` are all of its tools.
    #[serde(default)]
    pub(super) mcp: BTreeMap<String, McpServerFile>,
    /// Who does the work, by name.
    #[serde(default)]
    pub(super) agents: BTreeMap<String, AgentFile>,
    /// How the work goes from one to the next.
    pub(super) pattern: PatternName,
    /// With `pattern: sequential`: the steps, in order.
    pub(super) steps: Option<Vec<StepFile>>,
    /// With `pattern: coordinator`: who coordinates whom.
    pub(super) coordinator: Option<CoordinatorFile>,
    /// With `pattern: handoff`: who may hand off to whom, and when the conversation ends.
    pub(super) handoff: Option<HandoffFile>,
    /// With `pattern: graph`: steps of every kind, and what they come to.
    pub(super) graph: Option<GraphFile>,
    /// With `pattern: concurrent`: who works at the same time, and who brings it together.
    pub(super) concurrent: Option<ConcurrentFile>,
    /// With `pattern: group_chat`: who takes part, who says who is next, and when it ends.
    pub(super) group_chat: Option<GroupChatFile>,
    /// With `pattern: plan_execute`: who plans, who carries the plan out, and where a person looks.
    pub(super) plan_execute: Option<PlanExecuteFile>,
}

/// How the work goes from one to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PatternName {
    Sequential,
    Coordinator,
    Handoff,
    Graph,
    Concurrent,
    GroupChat,
    PlanExecute,
}

/// Bounds of a run.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsFile {
    /// Turns of agents in all, so that a loop ends some day; 100 unless given.
    #[schemars(range(min = 1, max = 10_000))]
    pub(super) steps: Option<u32>,
    /// Model calls within one turn; 25 unless given.
    #[schemars(range(min = 1, max = 1_000))]
    pub(super) rounds: Option<u32>,
}

/// A tool that agents may be given.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolFile {
    /// What it does, for the model.
    #[serde(default)]
    pub(super) description: String,
    /// Which kind of tool: `http` makes a request, `mcp` calls an MCP server, `scripted` answers
    /// from rules.
    pub(super) provider: String,
    /// What may be done after a crash, when nobody knows whether it was called.
    #[serde(default)]
    pub(super) safety: SafetyFile,
    /// What kind of thing it does, for gates: `writes`, `deploys` …
    #[serde(default)]
    pub(super) tags: Vec<String>,
    /// The JSON Schema of its arguments.
    pub(super) parameters: Option<Value>,
    /// What of its arguments is for those who decide alone, where its schema is not the file's to mark:
    /// `card.number`; of a list, each item's.
    #[serde(default)]
    pub(super) secret: Vec<String>,
    /// Settings for its provider.
    pub(super) settings: Option<Map<String, Value>>,
}

/// An MCP server: a program to start, or a URL.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct McpServerFile {
    /// The program and its arguments: it is started and spoken to over its standard input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) command: Vec<String>,
    /// What else the program is given as environment; `${ENV:NAME}` takes a value of ours.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
    /// Where it listens: streamable HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    /// What is sent with every request; `${ENV:NAME}` takes a value of the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) headers: BTreeMap<String, String>,
    /// How long a call may take; 30s unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<LengthOfTime>,
    /// Whether the URL may be one of this machine or network: `true`, or a list of hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allow_private: Option<Value>,
    /// What may be done with its tools after a crash, unless `tools` says otherwise for one.
    #[serde(default, skip_serializing)]
    pub(super) safety: SafetyFile,
    /// What kind of thing its tools do, for gates, unless `tools` says otherwise for one.
    #[serde(default, skip_serializing)]
    pub(super) tags: Vec<String>,
    /// What of its tools' arguments is for those who decide alone: `wire.card.number`, the tool first.
    #[serde(default, skip_serializing)]
    pub(super) secret: Vec<String>,
}

impl McpServerFile {
    /// What of it is said of one tool.
    pub(super) fn secret_of(&self, tool: &str) -> Vec<String> {
        let paths =
            self.secret.iter().filter_map(|path| path.strip_prefix(tool)?.strip_prefix('.'));
        paths.map(str::to_owned).collect()
    }
}

/// What may be done with a tool after a crash, when nobody knows whether it was called.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SafetyFile {
    /// It touches nothing: it is called again.
    Pure,
    /// It is called again, with the same idempotency key.
    Idempotent,
    /// A person is asked whether it happened.
    #[default]
    Unsafe,
}

/// Whoever performs a step.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentFile {
    /// What it is told to be.
    #[serde(default)]
    pub(super) instructions: String,
    /// Which of the models answers for it; not needed if there is one, or one named `default`.
    pub(super) model: Option<String>,
    /// Names of the tools it may call; `server.tool` and `server.*` are those of an MCP server.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// Whether it may ask a person (`request_user_input`), and on what terms; it may unless told.
    #[serde(default)]
    pub(super) human_input: HumanInputFile,
    /// The JSON Schema that its final reply must fit.
    pub(super) output: Option<Value>,
    /// What happens when an attempt fails.
    #[serde(default)]
    pub(super) retry: RetryFile,
}

/// `true`, `false`, or the terms on which a person may be asked.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum HumanInputFile {
    /// Whether a person may be asked at all.
    Switch(bool),
    /// A person may be asked, on these terms.
    Terms(PatienceFile),
}

impl Default for HumanInputFile {
    fn default() -> Self {
        Self::Switch(true)
    }
}

/// One step of a sequential workflow: an agent's turn, or a person's decision.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StepFile {
    /// Its id, unique in the workflow; the agent's name unless given.
    pub(super) id: Option<String>,
    /// Whose turn it is.
    pub(super) agent: Option<String>,
    /// What the agent is told for this step, beside its own instructions.
    pub(super) prompt: Option<String>,
    /// What a person decides.
    pub(super) human: Option<HumanFile>,
}

/// Who coordinates whom.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CoordinatorFile {
    /// Who begins, and who sums up at the end.
    pub(super) agent: String,
    /// Whom it may call upon.
    #[schemars(length(min = 1))]
    pub(super) specialists: Vec<String>,
    /// What the coordinator is told when all have spoken.
    pub(super) synthesis: Option<String>,
}

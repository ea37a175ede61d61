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
use crate::definition::graph::{GraphFile, OptionsFromFile};
use crate::definition::handoffs::HandoffFile;
use crate::definition::models::ModelFile;
use crate::definition::patterns::{ConcurrentFile, GroupChatFile, PlanExecuteFile};
use crate::definition::people::{ApproversFile, AssuranceFile, BindingFile, ExcludedFile};
use crate::definition::request_types::RequestTypeFile;

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

/// How long a question waits, and what happens then.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PatienceFile {
    /// How long it waits for an answer; for ever unless given.
    pub(super) deadline: Option<LengthOfTime>,
    /// What silence means at the deadline; `reject` unless given.
    pub(super) on_timeout: Option<OnTimeoutFile>,
    /// How long after the asking, and then again and again, whoever should answer is reminded.
    pub(super) remind: Option<LengthOfTime>,
    /// Whom it is addressed to, people by name, `group:NAME`, `role:NAME`; whoever owns the
    /// session unless given.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub(super) to: Vec<String>,
}

/// What silence means at the deadline.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnTimeoutFile {
    /// No.
    Reject,
    /// Go on without an answer; never for an approval.
    Continue,
    /// This answer; never for an approval.
    DefaultAnswer(Value),
    /// Somebody else is asked; silence is a no after that.
    EscalateTo(EscalateFile),
}

/// Who is asked when the deadline has passed.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EscalateFile {
    /// Whom, by the names of their keys.
    #[schemars(length(min = 1, max = 32))]
    pub(super) to: Vec<String>,
    /// How long they have; for ever unless given.
    pub(super) within: Option<LengthOfTime>,
}

/// A length of time such as `500ms`, `30s`, `2h` or `7d`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("pattern" = "^([0-9]+(ms|s|m|h|d))+$"))]
pub(super) struct LengthOfTime(pub(super) String);

/// What happens when an attempt fails.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryFile {
    /// Tries in all, the first included; 3 unless given.
    #[schemars(range(min = 1, max = 100))]
    pub(super) attempts: Option<u32>,
    /// The pause before the second try, doubled with every further one; 500ms unless given.
    pub(super) backoff: Option<LengthOfTime>,
    /// The pause never grows beyond this; 1m unless given.
    pub(super) backoff_max: Option<LengthOfTime>,
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

/// What a person decides.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HumanFile {
    /// What kind of decision.
    pub(super) kind: KindFile,
    /// Which of the file's `request_types` it is of; its schema is that of the answer.
    #[serde(rename = "type")]
    pub(super) named: Option<String>,
    /// What is asked; in a graph, with `${…}` in it.
    #[schemars(length(min = 1))]
    pub(super) prompt: String,
    /// Facts to decide by; in a graph, with `${…}` in them.
    #[serde(default)]
    pub(super) context: Value,
    /// What is decided, with `${…}` in it: it is shown first, frozen when it is asked, and later steps
    /// of a graph have it as `${steps.ID.subject}`. What was said last unless given.
    #[serde(default)]
    pub(super) show: Value,
    /// With an approval: whoever decides may put a version of their own in the place of what is shown, and
    /// that is what goes on. `true`, or `{schema: …}` with the JSON Schema of a version; of the same shape as
    /// what is shown unless given. With `need` above 1 a version is asked about anew, and what others have
    /// said to the one before counts for nothing.
    pub(super) editable: Option<EditableFile>,
    /// Whether the answer lets something happen although it is no approval: it then must name its
    /// question, and silence is a no. `false` says that words are meant to be enough, and `check` does
    /// not warn.
    pub(super) decides: Option<bool>,
    /// What may be chosen, where it is known beforehand.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub(super) options: Vec<OptionFile>,
    /// In a graph: what may be chosen, where it is found in the run.
    pub(super) options_from: Option<OptionsFromFile>,
    /// The JSON Schema of the answer, where the kind's own is not enough.
    pub(super) response_schema: Option<Value>,
    /// How long it waits for an answer; for ever unless given.
    pub(super) deadline: Option<LengthOfTime>,
    /// What silence means at the deadline; `reject` unless given.
    pub(super) on_timeout: Option<OnTimeoutFile>,
    /// How long after the asking, and then again and again, whoever should answer is reminded.
    pub(super) remind: Option<LengthOfTime>,
    /// Whom it is addressed to: people by name, `group:NAME`, `role:NAME`; whoever owns the session
    /// unless given.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub(super) to: Vec<String>,
    /// Whom it never admits.
    #[serde(default)]
    pub(super) not: Vec<ExcludedFile>,
    /// Who is asked, stage by stage, and how many must agree; in place of `to`.
    pub(super) approvers: Option<ApproversFile>,
    /// How well whoever decides must be known: `proven` (a key of their own, the console) or `vouched`
    /// (a service's word); as the operator says unless given.
    pub(super) assurance: Option<AssuranceFile>,
    /// `digest`: it is answered only with the digest of what was shown; a request id or a printed
    /// code alone is refused. The terminal, the console and the chat send it themselves.
    pub(super) binding: Option<BindingFile>,
}

/// Whether a version may be put in the place of what is shown.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum EditableFile {
    /// Whether it may.
    Is(bool),
    /// It may, and this is what a version looks like.
    As(VersionFile),
}

/// What a version looks like.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionFile {
    /// Its JSON Schema.
    pub(super) schema: Value,
}

/// What kind of decision a person is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindFile {
    /// Something that must be known to go on.
    Clarification,
    /// One of several options.
    Selection,
    /// A yes or a no; silence is a no.
    Approval,
}

/// Something that may be chosen: its id, or its id with a label and a description.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum OptionFile {
    /// What the answer says.
    Id(String),
    /// What the answer says, and what a person reads.
    Full(OptionFields),
}

/// An option with what a person reads.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionFields {
    /// What the answer says.
    pub(super) id: String,
    /// What a person reads; the id unless given.
    #[serde(default)]
    pub(super) label: String,
    /// More about it.
    #[serde(default)]
    pub(super) description: String,
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

//! Graph in files: steps of every kind as they are written in YAML: the shapes, and nothing about
//! what they mean.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::definition::human::HumanFile;
use crate::definition::patience::OnTimeoutFile;
use crate::definition::people::{ApproversFile, AssuranceFile, BindingFile, ExcludedFile};
use crate::definition::retry::RetryFile;
use crate::definition::time::LengthOfTime;

/// Steps of every kind, and what they come to.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphFile {
    /// The steps, one after the other.
    pub(super) steps: Vec<NodeFile>,
    /// What the run comes to, with `${…}` in it; what its last step did unless given.
    #[serde(default)]
    pub(super) output: Value,
}

/// One step. It has exactly one of `agent`, `tool`, `if`, `switch`, `parallel`, `for_each`, `loop`,
/// `wait`, `human`, `extract` and `workflow`; or only `steps`, which are then taken as one.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NodeFile {
    /// Its id, unique in the workflow; an agent's or a tool's name unless given. Later steps know
    /// what it came to as `steps.<id>`.
    pub(super) id: Option<String>,
    /// An agent's turn.
    pub(super) agent: Option<String>,
    /// What the agent is told for this step, with `${…}` in it.
    pub(super) prompt: Option<String>,
    /// A call of a tool.
    pub(super) tool: Option<String>,
    /// With `tool`: the arguments, with `${…}` in them.
    pub(super) arguments: Option<Map<String, Value>>,
    /// With `agent` or `tool`: the JSON Schema of what it comes to.
    pub(super) output: Option<Value>,
    /// A condition: an expression that is true or false.
    #[serde(rename = "if")]
    pub(super) when: Option<String>,
    /// With `if`: what is done if it holds.
    pub(super) then: Option<Vec<NodeFile>>,
    /// With `if`: what is done if not.
    #[serde(rename = "else")]
    pub(super) otherwise: Option<Vec<NodeFile>>,
    /// An expression whose value chooses one of the `cases`.
    pub(super) switch: Option<String>,
    /// With `switch`: the ways.
    pub(super) cases: Option<Vec<CaseFile>>,
    /// With `switch`: what is done if none of the cases is meant; a failure unless given.
    pub(super) default: Option<Vec<NodeFile>>,
    /// Branches that are done at the same time, by name.
    pub(super) parallel: Option<BTreeMap<String, Vec<NodeFile>>>,
    /// An expression for a list: `steps` are done for each item, at the same time.
    pub(super) for_each: Option<String>,
    /// With `for_each`: what an item is called; `item` unless given.
    #[serde(rename = "as")]
    pub(super) name: Option<String>,
    /// With `for_each`: the most items; 1000 unless given. More is a failure.
    #[schemars(range(min = 1, max = 10_000))]
    pub(super) max_items: Option<u32>,
    /// With `for_each`: how many are done at a time; all of them unless given.
    #[schemars(range(min = 1, max = 10_000))]
    pub(super) concurrency: Option<u32>,
    /// `steps` are done again and again.
    #[serde(rename = "loop")]
    pub(super) repeat: Option<LoopFile>,
    /// Nothing is done until something comes.
    pub(super) wait: Option<WaitFile>,
    /// A person's decision.
    pub(super) human: Option<HumanFile>,
    /// Values that are taken out of what is there, by name, with `${…}` in them.
    pub(super) extract: Option<Map<String, Value>>,
    /// Another workflow's steps.
    pub(super) workflow: Option<SubFile>,
    /// With `for_each` or `loop`: what is done. Alone: steps that are taken as one.
    pub(super) steps: Option<Vec<NodeFile>>,
    /// It is passed over where this expression holds.
    pub(super) skip_if: Option<String>,
    /// What happens when an attempt fails; the agent's own policy unless given.
    pub(super) retry: Option<RetryFile>,
    /// How long its work may take.
    pub(super) timeout: Option<LengthOfTime>,
    /// `false`: its failure stops nothing. `true` unless given.
    pub(super) critical: Option<bool>,
    /// Where a person looks at it.
    pub(super) gate: Option<PhaseGateFile>,
}

/// One way of a switch.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseFile {
    /// The value.
    pub(super) is: Value,
    /// What is done then.
    pub(super) steps: Vec<NodeFile>,
}

/// When a loop ends.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LoopFile {
    /// Another round is begun while this expression holds.
    #[serde(rename = "while")]
    pub(super) while_: Option<String>,
    /// No other round is begun once this expression holds; it knows the steps of the round.
    pub(super) until: Option<String>,
    /// The most rounds; more is a failure.
    #[schemars(range(min = 1, max = 1_000))]
    pub(super) max_rounds: u32,
}

/// What is waited for; whichever comes first.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitFile {
    /// A length of time such as `2h`, with `${…}` in it if need be.
    #[serde(rename = "for")]
    pub(super) timer: Option<String>,
    /// An external event's name (`holdpoint signal`).
    pub(super) signal: Option<String>,
    /// Who sends it, beside operators: people and services by name, `group:NAME`, `role:NAME`; whoever
    /// owns the run unless given.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub(super) from: Vec<String>,
}

/// Another workflow's steps.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubFile {
    /// Its file, relative to this one. It is kept with the run when the file is loaded.
    pub(super) file: String,
    /// What it is given, with `${…}` in it.
    #[serde(default)]
    pub(super) input: Value,
}

/// Where a person looks at a step.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PhaseGateFile {
    /// When: one of these, or several.
    pub(super) mode: Modes,
    /// What is asked, with `${…}` in it, if not simply about the step.
    pub(super) prompt: Option<String>,
    /// Times that it may be ordered again when it is done: 2 unless given; with `plan_review`,
    /// rounds of revision: 3 unless given.
    #[schemars(range(min = 0, max = 100))]
    pub(super) redo: Option<u32>,
    /// Attempts in all that may be ordered after errors; 3 unless given.
    #[schemars(range(min = 1, max = 100))]
    pub(super) attempts: Option<u32>,
    /// How long it waits for an answer; silence is a no. For ever unless given.
    pub(super) deadline: Option<LengthOfTime>,
    /// What silence means at the deadline: `reject`, or `escalate_to` somebody else first.
    pub(super) on_timeout: Option<OnTimeoutFile>,
    /// How long after the asking, and then again and again, whoever should answer is reminded.
    pub(super) remind: Option<LengthOfTime>,
    /// Whom it is addressed to: people by name, `group:NAME`, `role:NAME`; whoever owns the session
    /// unless given.
    #[serde(default)]
    #[schemars(length(min = 1, max = 32))]
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

impl PhaseGateFile {
    /// A gate of these modes, and everything else as it is unless given.
    pub(super) fn of(mode: Modes) -> Self {
        Self {
            mode,
            prompt: None,
            redo: None,
            attempts: None,
            deadline: None,
            on_timeout: None,
            remind: None,
            to: Vec::new(),
            not: Vec::new(),
            approvers: None,
            assurance: None,
            binding: None,
        }
    }
}

/// One mode, or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Modes {
    /// One mode.
    One(Mode),
    /// Several modes.
    Many(Vec<Mode>),
}

impl Modes {
    pub(super) fn all(&self) -> Vec<Mode> {
        match self {
            Self::One(one) => vec![*one],
            Self::Many(many) => many.clone(),
        }
    }
}

/// When a person looks at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Before it is begun: approve, reject, skip.
    BeforeStep,
    /// When it is done: continue, redo, abort.
    AfterStep,
    /// Before and after.
    Both,
    /// When it has failed: retry, skip, abort.
    OnError,
    /// Nobody looks.
    Never,
    /// When it is done, and is a plan: approve, reject, revise, modify.
    PlanReview,
}

//! Workflow: an immutable definition, as the kernel reads it.
//!
//! Built by `definition` from a YAML file and validated there as a whole; stored beside the runs
//! that use it, so a run in flight keeps the definition it began with. No I/O, no YAML in here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::choice::Choice;
use crate::kernel::expression::Expression;
use crate::kernel::graph::{Point, Program};
use crate::kernel::named::{Named, RequestType};
use crate::kernel::terms::Kind;

pub use crate::kernel::criteria::{Complexity, Condition, Doubt, Same};
pub use crate::kernel::limits::{Limits, ROUNDS_DEFAULT, STEPS_DEFAULT};
pub use crate::kernel::terms::{Editable, Patience, Retry};
pub use crate::kernel::tool::{Safety, Tool};

/// Turns of an autonomous agent before it must ask after all.
pub const AUTONOMOUS_TURNS_DEFAULT: u32 = 50;

/// An immutable definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// Its name: the `workflow_id` that callers use.
    pub name: String,
    /// What it is for, in a sentence.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its input, if it is not simply text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Bounds of a run.
    #[serde(default)]
    pub limits: Limits,
    /// What answers in place of a model: provider and settings, by name.
    #[serde(default)]
    pub models: BTreeMap<String, Model>,
    /// Tools that agents may be given, by name.
    #[serde(default)]
    pub tools: BTreeMap<String, Tool>,
    /// Which tool calls become questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gate>,
    /// Who does the work, by name.
    #[serde(default)]
    pub agents: BTreeMap<String, Agent>,
    /// Request types that its steps and agents may use, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub request_types: BTreeMap<String, RequestType>,
    /// How the work goes from one to the next.
    pub pattern: Pattern,
    /// Whether every decision is answered only with the digest of what was shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_digest: bool,
    /// Whether anything in it is marked as secret: then what that is drawn from is kept apart from the first
    /// event on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secretive: bool,
}

/// A provider and its settings; only the `agents` room understands the settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Which provider: `scripted`.
    pub provider: String,
    /// Its settings. A script is embedded here when the file is loaded.
    #[serde(default)]
    pub settings: Value,
}

/// A rule that turns some of what agents do into questions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gate {
    /// Its name: `before_deploy`.
    pub name: String,
    /// The tools it is bound to, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The tools it is bound to, by tag.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The handoffs it is bound to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoffs: Vec<Between>,
    /// The agents whose replies it is bound to; `*` is any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replies: Vec<String>,
    /// The steps of a graph it is bound to, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Where it looks at a step; before it is begun, if nothing is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Point>,
    /// When it asks: if any of these holds. Always, if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// What is asked, if not simply whether the tool may be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How long it waits; silence is a no, whatever is said here.
    #[serde(default)]
    pub patience: Patience,
    /// How long *allow for this run* lasts; as long as the run, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_ms: Option<u64>,
}

/// Handoffs of one agent, or to one; any, where nobody is named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Between {
    /// Whose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// To whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Whoever performs a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// What it is told to be.
    #[serde(default)]
    pub instructions: String,
    /// Which of the workflow's models answers for it.
    pub model: String,
    /// Names of the workflow's tools it may call.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Whether it may ask a person, and on what terms.
    #[serde(default)]
    pub human_input: HumanInput,
    /// The JSON Schema its final reply must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What happens when an attempt fails.
    #[serde(default)]
    pub retry: Retry,
}

/// Whether an agent may ask a person (`request_user_input`), and on what terms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanInput {
    /// Off: the tool is not offered, and the agent goes on by its own judgment.
    pub enabled: bool,
    /// What becomes of a question that nobody answers.
    #[serde(default)]
    pub patience: Patience,
}

impl Default for HumanInput {
    fn default() -> Self {
        Self { enabled: true, patience: Patience::default() }
    }
}

/// How the work goes from one to the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a definition has one, and is shared")]
pub enum Pattern {
    /// One step after the other.
    Sequential {
        /// The steps, in order.
        steps: Vec<Step>,
    },
    /// A coordinator and its specialists, routed by `next_agent` / `user_input_needed`.
    Coordinator {
        /// Who begins, and who sums up at the end.
        coordinator: String,
        /// Whom it may call upon.
        specialists: Vec<String>,
        /// What the coordinator is told when all have spoken.
        synthesis: String,
    },
    /// Agents that hand the conversation to one another and take turns with the user.
    Handoff(Handoff),
    /// A tree of steps, of which many may be under way at the same time.
    Graph(Program),
}

/// The terms of a handoff workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// Who speaks first.
    pub start: String,
    /// Who may hand off to whom.
    pub handoffs: BTreeMap<String, Vec<String>>,
    /// And only while this holds: by who, and by whom to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, BTreeMap<String, Expression>>,
    /// Where the conversation goes when an agent is done and has handed off to nobody: the first that holds; the
    /// user's turn, if none does.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub after_work: BTreeMap<String, Vec<AfterWork>>,
    /// To whom an answer goes.
    #[serde(default)]
    pub return_to: ReturnTo,
    /// When the conversation is over, checked before and after every turn.
    #[serde(default)]
    pub ends: Ends,
    /// Agents that go on without asking, and for how many turns.
    #[serde(default)]
    pub autonomous: BTreeMap<String, u32>,
    /// What the user is asked when a turn ends without a handoff.
    pub prompt: String,
    /// How long the user's turn lasts.
    #[serde(default)]
    pub patience: Patience,
}

/// Where the conversation goes when an agent is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AfterWork {
    /// Where.
    pub to: Destination,
    /// If this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
}

/// Where a conversation goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// To that agent.
    Agent(String),
    /// The user has the word.
    User,
    /// It is over.
    End,
}

/// To whom a user's answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnTo {
    /// The agent that asked.
    #[default]
    Previous,
    /// The start agent.
    Start,
}

/// When a conversation is over: any condition that is given and met.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ends {
    /// More user messages than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_messages_over: Option<u32>,
    /// The last message contains this text, whatever its case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_contains: Option<String>,
}

/// One step of a sequential workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its id, unique in the workflow.
    pub id: String,
    /// What is done.
    pub work: Work,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// An agent's turn.
    Agent {
        /// Who.
        agent: String,
        /// What it is told for this step, beside its own instructions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
    },
    /// A person's decision.
    Human(Box<Human>),
}

/// A plain human step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Human {
    /// What kind of decision.
    pub kind: Kind,
    /// The request type that it is of, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// What is asked.
    pub prompt: String,
    /// Facts to decide by.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
    /// What may be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Choice>,
    /// The JSON Schema of the answer, where the kind's own is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
    /// What is decided; where nothing is said, a decision's subject is what was said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub show: Option<String>,
    /// Whether its answer lets something happen although its kind alone would not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decides: bool,
    /// Whether whoever decides may put a version of their own in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editable: Option<Editable>,
    /// How long it waits.
    #[serde(default)]
    pub patience: Patience,
}

impl Workflow {
    /// One in which nothing is done: what stands for a definition that is not known yet.
    pub(super) fn of_nothing() -> Arc<Self> {
        Arc::new(Self {
            name: String::new(),
            description: String::new(),
            input: None,
            limits: Limits::default(),
            models: BTreeMap::new(),
            tools: BTreeMap::new(),
            gates: Vec::new(),
            agents: BTreeMap::new(),
            request_types: BTreeMap::new(),
            pattern: Pattern::Sequential { steps: Vec::new() },
            by_digest: false,
            secretive: false,
        })
    }

    /// The steps' ids and who performs them, for drawings and lists; people's steps have no agent.
    pub fn step_ids(&self) -> Vec<(String, Option<String>)> {
        match &self.pattern {
            Pattern::Sequential { steps } => steps
                .iter()
                .map(|step| match &step.work {
                    Work::Agent { agent, .. } => (step.id.clone(), Some(agent.clone())),
                    Work::Human(_) => (step.id.clone(), None),
                })
                .collect(),
            Pattern::Graph(program) => program
                .all()
                .into_iter()
                .map(|step| (step.id.clone(), step.task.agent().map(str::to_owned)))
                .collect(),
            Pattern::Coordinator { .. } | Pattern::Handoff(_) => {
                self.agents.keys().map(|name| (name.clone(), Some(name.clone()))).collect()
            }
        }
    }

    /// The type of that name, as a question has it, and the schema of its answers.
    pub(super) fn named(&self, name: Option<&str>) -> (Option<Box<Named>>, Option<Value>) {
        let Some((name, known)) = name.and_then(|name| Some((name, self.request_types.get(name)?)))
        else {
            return (None, None);
        };
        let (title, show) = (known.title.clone(), known.show.clone());
        (Some(Box::new(Named { name: name.to_owned(), title, show })), known.schema.clone())
    }
}

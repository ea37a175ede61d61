//! Program: a workflow as a tree of steps. The stored form of a definition: fields are added,
//! never changed.
//!
//! A tree and not a net: what follows what can be read off the nesting, every block has one way in
//! and one way out, and a step that is done is done for good.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::choice::Choice;
use crate::kernel::expression::{Expression, Form, Template};
use crate::kernel::terms::{Editable, Kind, Patience, Retry};

/// Items of a `for_each` unless the file says otherwise; more is usually a slip.
pub const ITEMS_DEFAULT: u32 = 1_000;
/// Times that a person may have a step done again, unless the file says otherwise.
pub const REDO_DEFAULT: u32 = 2;
/// Attempts in all that a person may order after errors, unless the file says otherwise.
pub const ATTEMPTS_DEFAULT: u32 = 3;
/// Rounds of revision of a plan, unless the file says otherwise.
pub const REVISE_DEFAULT: u32 = 3;

/// Steps, one after the other.
pub type Steps = Arc<Vec<Arc<Step>>>;

/// A tree of steps, with what it comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The steps, one after the other.
    pub steps: Steps,
    /// What it comes to, if not simply what its last step did.
    #[serde(default, skip_serializing_if = "Form::is_nothing")]
    pub output: Form,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its id, unique in its program.
    pub id: String,
    /// What is done.
    pub task: Task,
    /// It is passed over where this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_if: Option<Expression>,
    /// What happens when an attempt fails, where the agent's own policy is not meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long its work may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whether its failure stops what it is part of.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub critical: bool,
    /// Where a person looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<PhaseGate>,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_yes(flag: &bool) -> bool {
    *flag
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// An agent's turn.
    Agent {
        /// Who.
        agent: String,
        /// What it is told for this step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Template>,
        /// The JSON Schema that its reply must fit, where the agent's own is not meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
    },
    /// A call of a tool.
    Tool {
        /// Which.
        tool: String,
        /// With what.
        #[serde(default)]
        arguments: Form,
        /// The JSON Schema that its outcome must fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
    },
    /// One way or the other.
    If {
        /// Which.
        when: Expression,
        /// What is done if it holds.
        then: Steps,
        /// What is done if not.
        #[serde(default)]
        otherwise: Steps,
    },
    /// One of several ways.
    Switch {
        /// What decides.
        on: Expression,
        /// The ways: the first that it equals.
        cases: Vec<Case>,
        /// What is done if it is none of these; a failure, if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        otherwise: Option<Steps>,
    },
    /// Several branches at the same time.
    Parallel {
        /// The branches.
        branches: Vec<Branch>,
    },
    /// The same for each of a list, at the same time.
    ForEach {
        /// The list.
        items: Expression,
        /// What an item is called.
        name: String,
        /// What is done for each.
        steps: Steps,
        /// The most items; more is a failure.
        max_items: u32,
        /// How many at a time; all, if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        concurrency: Option<u32>,
    },
    /// The same again.
    Loop {
        /// Another round is begun while this holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        while_: Option<Expression>,
        /// No other round is begun once this holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Expression>,
        /// What is done in a round.
        steps: Steps,
        /// The most rounds; more is a failure.
        max_rounds: u32,
    },
    /// Nothing, until something comes.
    Wait {
        /// A length of time such as `2h`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timer: Option<Template>,
        /// An external event's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// Who sends it: names, `group:…`, `role:…`; whoever owns the run, if empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        from: Vec<String>,
    },
    /// A person's decision.
    Human(Box<Ask>),
    /// Values taken out of what is there.
    Extract {
        /// The values.
        values: Form,
    },
    /// Another workflow's program, kept whole, with variables of its own.
    Sub {
        /// The workflow's name.
        workflow: String,
        /// What it is given.
        input: Form,
        /// What it must be given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_schema: Option<Value>,
        /// What it does.
        program: Arc<Program>,
    },
    /// Steps as one, for a gate or a bound around all of them.
    Group {
        /// The steps.
        steps: Steps,
    },
}

/// One way of a switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The value.
    pub is: Value,
    /// What is done then.
    pub steps: Steps,
}

/// One branch of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// What is done in it.
    pub steps: Steps,
}

/// What a person decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// What kind of decision.
    pub kind: Kind,
    /// The request type that it is of, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// What is asked.
    pub prompt: Template,
    /// Facts to decide by.
    #[serde(default, skip_serializing_if = "Form::is_nothing")]
    pub context: Form,
    /// What may be chosen, where it is known beforehand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Choice>,
    /// What may be chosen, where it is found in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options_from: Option<OptionsFrom>,
    /// The JSON Schema of the answer, where the kind's own is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
    /// What is decided; where nothing is said, a decision's subject is what was said last.
    #[serde(default, skip_serializing_if = "Form::is_nothing")]
    pub show: Form,
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

/// Options that are found in the run; each item is called `option` in the templates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptionsFrom {
    /// The list.
    pub items: Expression,
    /// What an answer says.
    pub id: Template,
    /// What a person reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Template>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Template>,
}

/// Where a person looks at a step, and how often they may have it done again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseGate {
    /// Before it is begun: approve, reject, skip.
    #[serde(default)]
    pub before: bool,
    /// When its work is done.
    #[serde(default)]
    pub after: After,
    /// When it has failed: retry, skip, abort.
    #[serde(default)]
    pub on_error: bool,
    /// What is asked, if not simply about the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Template>,
    /// Times that it may be done again; rounds of revision of a plan.
    pub redo: u32,
    /// Attempts in all after errors.
    pub attempts: u32,
    /// How long a question waits; silence is a no.
    #[serde(default)]
    pub patience: Patience,
}

/// What a person may say to work that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// Nobody looks.
    #[default]
    Nothing,
    /// Continue, redo, abort.
    Look,
    /// It is a plan: approve, reject, revise, modify.
    Review,
}

impl Task {
    /// The blocks of steps within, in their order.
    pub fn blocks(&self) -> Vec<&Steps> {
        match self {
            Self::Agent { .. }
            | Self::Tool { .. }
            | Self::Wait { .. }
            | Self::Human(_)
            | Self::Extract { .. } => Vec::new(),
            Self::If { then, otherwise, .. } => vec![then, otherwise],
            Self::Switch { cases, otherwise, .. } => {
                cases.iter().map(|case| &case.steps).chain(otherwise).collect()
            }
            Self::Parallel { branches } => branches.iter().map(|branch| &branch.steps).collect(),
            Self::ForEach { steps, .. } | Self::Loop { steps, .. } | Self::Group { steps } => {
                vec![steps]
            }
            Self::Sub { program, .. } => vec![&program.steps],
        }
    }

    /// Who performs it, if an agent does.
    pub fn agent(&self) -> Option<&str> {
        match self {
            Self::Agent { agent, .. } => Some(agent),
            Self::Tool { .. }
            | Self::If { .. }
            | Self::Switch { .. }
            | Self::Parallel { .. }
            | Self::ForEach { .. }
            | Self::Loop { .. }
            | Self::Wait { .. }
            | Self::Human(_)
            | Self::Extract { .. }
            | Self::Sub { .. }
            | Self::Group { .. } => None,
        }
    }

    /// The schema that its work must fit.
    pub(in crate::kernel) fn output(&self) -> Option<&Value> {
        match self {
            Self::Agent { output, .. } | Self::Tool { output, .. } => output.as_ref(),
            Self::If { .. }
            | Self::Switch { .. }
            | Self::Parallel { .. }
            | Self::ForEach { .. }
            | Self::Loop { .. }
            | Self::Wait { .. }
            | Self::Human(_)
            | Self::Extract { .. }
            | Self::Sub { .. }
            | Self::Group { .. } => None,
        }
    }
}

impl Program {
    /// Whether steps of it may go on side by side.
    pub fn is_concurrent(&self) -> bool {
        self.all().iter().any(|step| match &step.task {
            Task::Parallel { .. } => true,
            Task::ForEach { concurrency, .. } => *concurrency != Some(1),
            Task::Agent { .. }
            | Task::Tool { .. }
            | Task::If { .. }
            | Task::Switch { .. }
            | Task::Loop { .. }
            | Task::Group { .. }
            | Task::Wait { .. }
            | Task::Human(_)
            | Task::Extract { .. }
            | Task::Sub { .. } => false,
        })
    }

    /// Every step there is, each before those within it.
    pub fn all(&self) -> Vec<&Arc<Step>> {
        fn gather<'a>(steps: &'a Steps, found: &mut Vec<&'a Arc<Step>>) {
            for step in steps.iter() {
                found.push(step);
                for block in step.task.blocks() {
                    gather(block, found);
                }
            }
        }
        let mut found = Vec::new();
        gather(&self.steps, &mut found);
        found
    }

    /// Whether anything in it ever waits for that external event.
    pub fn listens(&self, name: &str) -> bool {
        !self.senders(name).is_empty()
    }

    /// Who sends that external event, by each wait for it: an empty list is whoever owns the run.
    pub fn senders(&self, name: &str) -> Vec<&[String]> {
        let mut senders = Vec::new();
        for step in self.all() {
            if let Task::Wait { signal: Some(known), from, .. } = &step.task
                && known == name
            {
                senders.push(from.as_slice());
            }
        }
        senders
    }
}

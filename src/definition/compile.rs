//! Compile: a file that was checked becomes a `kernel::Workflow`. Nothing is judged here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::definition::conversation::ConversationFile;
use crate::definition::file::{
    AgentFile, HumanInputFile, PatternName, SafetyFile, StepFile, ToolFile, WorkflowFile,
};
use crate::definition::handoffs::{HandoffFile, ReturnToFile};
use crate::definition::mcp;
use crate::definition::patience::patience;
use crate::kernel::graph::Program;
use crate::kernel::secret;
use crate::kernel::workflow::{
    Agent, Ends, Gate, Handoff, HumanInput, Limits, Model, Patience, Pattern, ReturnTo, Safety,
    Step, Tool, Work,
};
use crate::kernel::{Workflow, duration_ms};

/// The model that answers for agents that name none, where there are several.
const MODEL_DEFAULT: &str = "default";
/// What a coordinator is told when all have spoken, unless its file has better words.
const SYNTHESIS_DEFAULT: &str = "Everybody has spoken. Sum up what they found as one result.";
/// What a user is asked when a turn ends without a handoff, unless the file has better words.
const PROMPT_DEFAULT: &str = "What would you like to say next?";

/// The workflow that a checked file means. `settings` are the models' settings, scripts embedded.
pub(super) fn compile(
    file: &WorkflowFile,
    settings: &BTreeMap<String, Value>,
    program: Option<Program>,
) -> Workflow {
    let defaults = Limits::default();
    let model = |(name, model): (&String, &super::models::ModelFile)| {
        let settings = settings.get(name).cloned().unwrap_or_else(|| json!({}));
        (name.clone(), Model { provider: model.provider.clone(), settings })
    };
    let workflow = Workflow {
        name: file.name.clone(),
        description: file.description.trim().to_owned(),
        input: file.input.clone(),
        limits: Limits {
            steps: file.limits.steps.unwrap_or(defaults.steps),
            rounds: file.limits.rounds.unwrap_or(defaults.rounds),
            budgets: file.budgets.compile(),
            conversation: file.conversation.as_ref().map(ConversationFile::compile),
            remembers: file.remembers.compile(),
        },
        models: file.models.iter().map(model).collect(),
        tools: mcp::tools(file),
        gates: gates(file),
        agents: file
            .agents
            .iter()
            .map(|(name, agent)| (name.clone(), agent.compile(file)))
            .collect(),
        request_types: file
            .request_types
            .iter()
            .map(|(name, known)| (name.clone(), known.compile()))
            .collect(),
        pattern: program.map_or_else(|| pattern(file), Pattern::Graph),
        by_digest: file.binding.is_some(),
        secretive: false,
    };
    secret::noticed(workflow)
}

/// The gates of a checked file.
pub(super) fn gates(file: &WorkflowFile) -> Vec<Gate> {
    file.gates.iter().map(|gate| gate.meaning(|tool| mcp::bound(file, tool))).collect()
}

/// The model that answers for an agent: the one it names, or the one that can only be meant.
pub(super) fn model_of<'a>(file: &'a WorkflowFile, agent: &'a AgentFile) -> Option<&'a str> {
    if let Some(model) = &agent.model {
        return Some(model);
    }
    let mut names = file.models.keys().map(String::as_str);
    match (names.next(), names.next()) {
        (Some(only), None) => Some(only),
        _ => file.models.contains_key(MODEL_DEFAULT).then_some(MODEL_DEFAULT),
    }
}

fn pattern(file: &WorkflowFile) -> Pattern {
    match (file.pattern, &file.coordinator, &file.handoff) {
        (PatternName::Coordinator, Some(terms), _) => Pattern::Coordinator {
            coordinator: terms.agent.clone(),
            specialists: terms.specialists.clone(),
            synthesis: terms.synthesis.clone().unwrap_or_else(|| SYNTHESIS_DEFAULT.into()),
        },
        (PatternName::Handoff, _, Some(terms)) => Pattern::Handoff(terms.compile()),
        _ => {
            let steps = file.steps.iter().flatten().filter_map(StepFile::compile);
            Pattern::Sequential { steps: steps.collect() }
        }
    }
}

impl StepFile {
    /// Its id: its own, or its agent's name.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref().or(self.agent.as_deref())
    }

    fn compile(&self) -> Option<Step> {
        let work = match (&self.agent, &self.human) {
            (Some(agent), _) => Work::Agent { agent: agent.clone(), prompt: self.prompt.clone() },
            (None, Some(human)) => Work::Human(Box::new(human.compile())),
            (None, None) => return None,
        };
        Some(Step { id: self.id()?.to_owned(), work })
    }
}

impl HandoffFile {
    fn compile(&self) -> Handoff {
        Handoff {
            start: self.start.clone(),
            handoffs: self.targets(),
            when: self.conditions(),
            after_work: self.rules_after_work(),
            return_to: match self.return_to {
                ReturnToFile::Previous => ReturnTo::Previous,
                ReturnToFile::Start => ReturnTo::Start,
            },
            ends: Ends {
                user_messages_over: self.ends.user_messages_over,
                last_message_contains: self.ends.last_message_contains.clone(),
            },
            autonomous: self.autonomous.iter().map(|(who, turns)| (who.clone(), turns.0)).collect(),
            prompt: self.prompt.clone().unwrap_or_else(|| PROMPT_DEFAULT.into()),
            patience: patience(self.deadline.as_ref(), self.on_timeout.as_ref()),
        }
    }
}

impl ToolFile {
    pub(super) fn compile(&self) -> Tool {
        Tool {
            description: self.description.clone(),
            provider: self.provider.clone(),
            safety: self.safety.compile(),
            tags: self.tags.clone(),
            parameters: self.parameters.clone(),
            secret: self.secret.clone(),
            settings: self.settings.clone().map_or_else(|| json!({}), Value::Object),
        }
    }
}

impl SafetyFile {
    pub(super) fn compile(self) -> Safety {
        match self {
            Self::Pure => Safety::Pure,
            Self::Idempotent => Safety::Idempotent,
            Self::Unsafe => Safety::Unsafe,
        }
    }
}

impl AgentFile {
    fn compile(&self, file: &WorkflowFile) -> Agent {
        Agent {
            instructions: self.instructions.trim().to_owned(),
            model: model_of(file, self).unwrap_or_default().to_owned(),
            tools: self.tools.iter().map(|tool| mcp::name(file, tool)).collect(),
            human_input: match &self.human_input {
                HumanInputFile::Switch(enabled) => {
                    HumanInput { enabled: *enabled, ..HumanInput::default() }
                }
                HumanInputFile::Terms(terms) => HumanInput {
                    enabled: true,
                    patience: Patience {
                        remind_ms: terms.remind.as_ref().and_then(|time| duration_ms(&time.0)),
                        to: terms.to.clone(),
                        ..patience(terms.deadline.as_ref(), terms.on_timeout.as_ref())
                    },
                },
            },
            output: self.output.clone(),
            retry: self.retry.compile(),
        }
    }
}

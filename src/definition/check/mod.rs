//! Check: every way in which a file of the right shape is still wrong, each with its place.
//!
//! All problems are told at once. A cycle that never ends is no problem: the step cap ends it.

mod conditions;
mod gates;
mod graph;
mod human;
mod literal;
mod pattern;
mod people;
mod plan;
mod reach;
mod rules;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::definition::budgets::OnExceededFile;
use crate::definition::compile::model_of;
use crate::definition::file::{AgentFile, HumanInputFile, PatternName, ToolFile, WorkflowFile};
use crate::definition::limits::NAME_CHARS_MAX;
use crate::definition::mcp;
use crate::definition::patience::OnTimeoutFile;
use crate::definition::problem::Problem;
use crate::definition::retry::RetryFile;
use crate::definition::source::{Source, under};
use crate::definition::sub::Subs;
use crate::definition::time::LengthOfTime;
use crate::kernel::expression::{Known, Type};
use crate::kernel::graph::Program;
use crate::kernel::secret;
use crate::kernel::{
    ASK_TOOL, HANDOFF_PREFIX, Kind, Origin, Question, duration_ms, has_variables, schema,
};

pub(super) use conditions::condition_problem;
pub(super) use reach::warnings;
pub(super) use rules::check as check_rules;

/// Longer waits than ten years are a slip of the pen, and sums with them must not overflow.
const DURATION_MS_MAX: u64 = 3_660 * 86_400_000;

/// Every way in which the file is wrong, in the order of its lines.
pub(super) fn check(source: &Source, file: &WorkflowFile, subs: &Subs) -> Vec<Problem> {
    let mut check = Check { source, file, subs, problems: Vec::new() };
    check.name("/name", &file.name, true);
    check.schema("/input", file.input.as_ref());
    check.names("/models", &file.models);
    check.names("/tools", &file.tools);
    check.names("/mcp", &file.mcp);
    check.names("/agents", &file.agents);
    check.budgets();
    check.conversation();
    check.tools();
    check.request_types();
    check.gates();
    if file.agents.is_empty() && file.pattern != PatternName::Graph {
        check.at("/agents", "agent.none", "a workflow needs at least one agent under `agents`");
    }
    for (name, agent) in &file.agents {
        check.agent(&under("/agents", name), agent);
    }
    check.pattern();
    check.problems.sort_by_key(|problem| (problem.line, problem.column));
    check.problems
}

/// The program of a graph that was checked.
pub(super) fn program(source: &Source, file: &WorkflowFile, subs: &Subs) -> Option<Program> {
    let mut check = Check { source, file, subs, problems: Vec::new() };
    match (&file.graph, &file.plan_execute) {
        (Some(graph), _) => Some(check.graph(graph)),
        (None, Some(terms)) => check.plan_execute(terms),
        (None, None) => in_short(file),
    }
}

/// The program of a file whose pattern is a graph in short.
fn in_short(file: &WorkflowFile) -> Option<Program> {
    match file.pattern {
        PatternName::Concurrent => file.concurrent.as_ref()?.program(),
        PatternName::GroupChat => file.group_chat.as_ref()?.program(),
        PatternName::Sequential
        | PatternName::Coordinator
        | PatternName::Handoff
        | PatternName::PlanExecute
        | PatternName::Graph => None,
    }
}

struct Check<'a> {
    source: &'a Source,
    file: &'a WorkflowFile,
    subs: &'a Subs,
    problems: Vec<Problem>,
}

/// Each reminder is an entry of the journal, and a webhook call.
const REMIND_MS_MIN: u64 = 1_000;

/// A question as far as the file tells it.
struct Asked<'a> {
    pointer: &'a str,
    kind: Kind,
    origin: Origin,
    deadline: Option<&'a LengthOfTime>,
    on_timeout: Option<&'a OnTimeoutFile>,
    remind: Option<&'a LengthOfTime>,
}

impl<'a> Check<'a> {
    fn at(&mut self, pointer: &str, code: &'static str, message: impl Into<String>) {
        self.problems.push(self.source.at(pointer, code, message));
    }

    fn at_key(&mut self, pointer: &str, code: &'static str, message: impl Into<String>) {
        self.problems.push(self.source.at_key(pointer, code, message));
    }

    fn names<T>(&mut self, pointer: &str, named: &BTreeMap<String, T>) {
        for name in named.keys() {
            self.name(&under(pointer, name), name, false);
        }
    }

    fn name(&mut self, pointer: &str, name: &str, is_value: bool) {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        if !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(allowed) {
            return;
        }
        let message = format!(
            "`{name}` is no name; expected lower-case letters, digits, `_` and `-`, at most {NAME_CHARS_MAX}"
        );
        if is_value {
            self.at(pointer, "name.invalid", message);
        } else {
            self.at_key(pointer, "name.invalid", message);
        }
    }

    /// A name that must be one of those known.
    fn known<'k>(
        &mut self,
        pointer: &str,
        (what, code): (&str, &'static str),
        name: &str,
        known: impl Iterator<Item = &'k String> + Clone,
    ) -> bool {
        if known.clone().any(|one| one == name) {
            return true;
        }
        let problem = self.source.at(pointer, code, format!("there is no {what} `{name}`"));
        let names: Vec<&str> = known.map(String::as_str).collect();
        let problem = problem.did_you_mean(name, names.iter().copied());
        let problem = match (&problem.hint, names.is_empty()) {
            (None, false) => problem.hint(format!("there is: {}", names.join(", "))),
            _ => problem,
        };
        self.problems.push(problem);
        false
    }

    fn known_agent(&mut self, pointer: &str, name: &str) -> bool {
        self.known(pointer, ("agent", "agent.unknown"), name, self.file.agents.keys())
    }

    fn unique<'n>(&mut self, pointer: &str, names: impl Iterator<Item = (usize, &'n str)>) {
        let mut seen = Vec::new();
        for (index, name) in names {
            if seen.contains(&name) {
                let message = format!("`{name}` is here twice; each may be given once");
                self.at(&under(pointer, index), "name.duplicate", message);
            }
            seen.push(name);
        }
    }

    fn schema(&mut self, pointer: &str, schema: Option<&Value>) {
        if let Some(Err(error)) = schema.map(schema::check_schema) {
            self.at(pointer, "schema.invalid", format!("this is no JSON Schema: {error}"));
        } else if let Some(wrong) = schema.and_then(secret::misspelled) {
            self.at(pointer, "schema.invalid", wrong);
        } else if let Some((place, wrong)) = schema.and_then(secret::unfollowed) {
            self.at(&format!("{pointer}{place}"), "schema.invalid", wrong);
        }
    }

    /// What can be named in every text of the file.
    fn known_everywhere(&self) -> Known {
        let input = self.file.input.as_ref().map_or(Type::Any, Type::of_schema);
        let mut known = Known::default();
        known.variables.insert("input".into(), input);
        known.variables.insert("metadata".into(), Type::any_object());
        known
    }

    /// Whether a text outside of a graph names only what there is.
    fn wording(&mut self, pointer: &str, text: &str) {
        if has_variables(text) {
            let known = self.known_everywhere();
            self.template(pointer, text, &known);
        }
    }

    fn budgets(&mut self) {
        let budgets = &self.file.budgets;
        self.duration("/budgets/wall_time", budgets.wall_time.as_ref());
        self.duration("/budgets/session/wall_time", budgets.session.wall_time.as_ref());
        self.duration("/budgets/deadline", budgets.deadline.as_ref());
        if budgets.deadline.is_some() && budgets.on_exceeded == OnExceededFile::Fail {
            let message = "nobody is asked; a `deadline` goes with `on_exceeded: ask`";
            self.at_key("/budgets/deadline", "question.deadline", message);
        }
    }

    fn conversation(&mut self) {
        let summariser = self.file.conversation.as_ref().and_then(|terms| terms.summariser());
        if let Some(agent) = summariser {
            self.known_agent("/conversation/when_full/summarise", agent);
        }
    }

    fn tools(&mut self) {
        for (name, tool) in &self.file.tools {
            let pointer = under("/tools", name);
            if name == ASK_TOOL || name.starts_with(HANDOFF_PREFIX) {
                let message = format!("`{name}` is a name of Holdpoint's own tools; take another");
                self.at_key(&pointer, "name.reserved", message);
            }
            self.schema(&under(&pointer, "parameters"), tool.parameters.as_ref());
            if tool.provider == mcp::PROVIDER {
                self.mcp_tool(&pointer, tool);
            }
        }
    }

    /// A tool of the file, or of one of its MCP servers.
    fn known_tool(&mut self, pointer: &str, tool: &str) {
        if mcp::reference(self.file, tool).is_none() {
            self.known(pointer, ("tool", "tool.unknown"), tool, self.file.tools.keys());
        }
    }

    fn mcp_tool(&mut self, pointer: &str, tool: &ToolFile) {
        let server = tool.settings.as_ref().and_then(|settings| settings.get("server"));
        let at = under(&under(pointer, "settings"), "server");
        if let Some(server) = server.and_then(Value::as_str) {
            let what = ("MCP server", "mcp.unknown");
            self.known(&at, what, server, self.file.mcp.keys());
        } else {
            let message = "a tool of provider `mcp` needs `settings: {server: …}`";
            self.at_key(pointer, "mcp.missing", message);
        }
    }

    fn agent(&mut self, pointer: &str, agent: &'a AgentFile) {
        let models = self.file.models.keys();
        match (model_of(self.file, agent), &agent.model) {
            (Some(model), _) => {
                let at = under(pointer, "model");
                self.known(&at, ("model", "model.unknown"), model, models);
            }
            (None, _) if self.file.models.is_empty() => {
                self.at_key(
                    pointer,
                    "model.missing",
                    "no model answers for it: name one under `models`",
                );
            }
            (None, _) => self.at_key(
                pointer,
                "model.missing",
                "no model answers for it: give it a `model`, or call one of the models `default`",
            ),
        }
        for (index, tool) in agent.tools.iter().enumerate() {
            let at = under(&under(pointer, "tools"), index);
            self.known_tool(&at, tool);
        }
        let tools = agent.tools.iter().map(String::as_str).enumerate();
        self.unique(&under(pointer, "tools"), tools);
        self.wording(&under(pointer, "instructions"), &agent.instructions);
        self.schema(&under(pointer, "output"), agent.output.as_ref());
        self.retry(&under(pointer, "retry"), &agent.retry);
        if let HumanInputFile::Terms(terms) = &agent.human_input {
            let pointer = under(pointer, "human_input");
            self.patience(&Asked {
                pointer: &pointer,
                kind: Kind::Clarification,
                origin: Origin::Directive,
                deadline: terms.deadline.as_ref(),
                on_timeout: terms.on_timeout.as_ref(),
                remind: terms.remind.as_ref(),
            });
        }
    }

    fn retry(&mut self, pointer: &str, retry: &RetryFile) {
        self.duration(&under(pointer, "backoff"), retry.backoff.as_ref());
        self.duration(&under(pointer, "backoff_max"), retry.backoff_max.as_ref());
    }

    fn duration(&mut self, pointer: &str, time: Option<&LengthOfTime>) {
        let Some(time) = time else { return };
        if duration_ms(&time.0).is_none_or(|ms| ms > DURATION_MS_MAX) {
            let message = format!("`{}` is too long; expected at most ten years", time.0);
            self.at(pointer, "field.range", message);
        }
    }

    /// Whether a question may be asked on these terms (K7).
    fn patience(&mut self, asked: &Asked<'_>) {
        let deadline = under(asked.pointer, "deadline");
        self.duration(&deadline, asked.deadline);
        if asked.deadline.is_some_and(|time| duration_ms(&time.0) == Some(0)) {
            self.at(&deadline, "field.range", "a question needs some time; expected more than 0");
        }
        let remind = under(asked.pointer, "remind");
        self.duration(&remind, asked.remind);
        if asked.remind.and_then(|time| duration_ms(&time.0)).is_some_and(|ms| ms < REMIND_MS_MIN) {
            self.at(&remind, "field.range", "reminders more often than every second are noise");
        }
        let on_timeout = under(asked.pointer, "on_timeout");
        let is_rejection = |silence: &OnTimeoutFile| *silence == OnTimeoutFile::Reject;
        if asked.on_timeout.is_none_or(is_rejection) {
            return;
        }
        let escalates = match asked.on_timeout {
            Some(OnTimeoutFile::EscalateTo(terms)) => {
                let within = under(&under(&on_timeout, "escalate_to"), "within");
                self.duration(&within, terms.within.as_ref());
                true
            }
            Some(_) | None => false,
        };
        if !asked.kind.may_pass_by_silence() && !escalates {
            let message = "an approval never passes by silence; leave `on_timeout` out, or `reject`, or `escalate_to`";
            return self.at(&on_timeout, "question.silence", message);
        }
        if asked.deadline.is_none() {
            let message =
                "`on_timeout` needs a `deadline`; without one the question waits for ever";
            self.at(&on_timeout, "question.deadline", message);
        }
    }

    /// Whether the answer that stands in for silence would be taken from a person.
    fn default_answer(
        &mut self,
        pointer: &str,
        silence: Option<&OnTimeoutFile>,
        question: &Question,
    ) {
        let Some(OnTimeoutFile::DefaultAnswer(value)) = silence else { return };
        if let Err(mismatch) = question.read(value) {
            let pointer = under(&under(pointer, "on_timeout"), "default_answer");
            let message = format!("the default answer does not fit: {mismatch}");
            self.at(&pointer, "question.default_answer", message);
        }
    }
}

/// A question as the kernel would ask it, for trying answers on.
fn question(asked: &Asked<'_>) -> Question {
    Question::bare(asked.kind, asked.origin.clone())
}

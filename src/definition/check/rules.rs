//! Whether a script's rules fit the workflow that they are written for.

use crate::definition::check::Check;
use crate::definition::file::WorkflowFile;
use crate::definition::problem::Problem;
use crate::definition::script::{RuleFile, variables};
use crate::definition::source::{Source, under};
use crate::definition::sub::Subs;
use crate::kernel::{ASK_TOOL, HANDOFF_PREFIX, Kind};

/// Variables that stand for what was said before; `said.<agent>` is one more for each agent.
const VARIABLES: [&str; 4] = ["first_user", "last_user", "last", "answer"];

/// Every way in which the rules at `pointer` are wrong for this workflow.
pub(in crate::definition) fn check(
    source: &Source,
    pointer: &str,
    rules: &[RuleFile],
    file: &WorkflowFile,
) -> Vec<Problem> {
    let mut check = Check { source, file, subs: &Subs::new(), problems: Vec::new() };
    for (index, rule) in rules.iter().enumerate() {
        check.rule(&under(pointer, index), rule);
    }
    check.problems
}

impl Check<'_> {
    fn rule(&mut self, pointer: &str, rule: &RuleFile) {
        if let Some(agent) = &rule.agent {
            self.known_agent(&under(pointer, "agent"), agent);
        }
        if let Some(agent) = &rule.handoff {
            self.known_agent(&under(pointer, "handoff"), agent);
        }
        if rule.does_nothing() {
            let message = "nothing comes of this rule; give it `say`, `output`, `call`, `handoff`, `ask` or `fail`";
            self.at(pointer, "rule.empty", message);
        }
        if rule.stream && rule.say.is_none() {
            let message = "there is nothing to stream; give the rule a text to `say`";
            self.at_key(&under(pointer, "stream"), "rule.empty", message);
        }
        for (index, call) in rule.call.iter().enumerate() {
            let is_ours = call.tool == ASK_TOOL || call.tool.starts_with(HANDOFF_PREFIX);
            if !is_ours {
                let at = format!("{pointer}/call/{index}/tool");
                self.known_rule_tool(&at, &call.tool);
            }
        }
        if let Some(ask) = &rule.ask
            && ask.kind.is_some_and(|kind| kind.kind() == Kind::Selection)
            && ask.options.is_empty()
        {
            let message = "a selection needs `options`: what may be chosen";
            self.at_key(&under(pointer, "ask"), "question.options", message);
        }
        self.duration(&under(pointer, "delay"), rule.delay.as_ref());
        for (place, text) in rule.templates() {
            for name in variables(text) {
                self.variable(&format!("{pointer}{place}"), name);
            }
        }
    }

    /// A script calls a tool by the name that it has in a run.
    fn known_rule_tool(&mut self, pointer: &str, tool: &str) {
        let is_servers =
            tool.split_once("__").is_some_and(|(server, _)| self.file.mcp.contains_key(server));
        if !is_servers {
            self.known(pointer, ("tool", "tool.unknown"), tool, self.file.tools.keys());
        }
    }

    fn variable(&mut self, pointer: &str, name: &str) {
        let said = name.strip_prefix("said.");
        let is_known = VARIABLES.contains(&name)
            || said.is_some_and(|agent| self.file.agents.contains_key(agent));
        if !is_known {
            let message = format!(
                "nothing is called `{{{{{name}}}}}`; there is {} and said.<agent>",
                VARIABLES.join(", ")
            );
            self.at(pointer, "script.variable", message);
        }
    }
}

//! Gates that are bound to nothing, or to something that is not there.

use std::collections::BTreeSet;

use crate::definition::check::people::Whom;
use crate::definition::check::{Asked, Check};
use crate::definition::conditions::JudgeFile;
use crate::definition::gates::GateFile;
use crate::definition::mcp;
use crate::definition::source::under;
use crate::definition::time::LengthOfTime;
use crate::kernel::{ANY, Kind, Origin, duration_ms};

impl Check<'_> {
    /// Every gate is bound to tools that there are.
    pub(super) fn gates(&mut self) {
        let file = self.file;
        let tags: BTreeSet<String> =
            file.tools.values().flat_map(|tool| tool.tags.iter().cloned()).collect();
        let names = file.gates.iter().map(|gate| gate.name.as_str()).enumerate();
        self.unique("/gates", names);
        for (index, gate) in file.gates.iter().enumerate() {
            let pointer = under("/gates", index);
            self.name(&under(&pointer, "name"), &gate.name, true);
            for (place, tool) in gate.tools.iter().enumerate() {
                let at = under(&under(&pointer, "tools"), place);
                if tool == ANY {
                    continue;
                }
                if mcp::reference(file, tool).is_none() {
                    self.known(&at, ("tool", "tool.unknown"), tool, file.tools.keys());
                } else if !mcp::is_offered(file, tool) {
                    let message = format!(
                        "no agent and no step may call `{tool}`: there is nothing for gate `{}` to \
                         stop",
                        gate.name
                    );
                    self.at(&at, "tool.unknown", message);
                }
            }
            let tools = gate.tools.iter().map(String::as_str).enumerate();
            self.unique(&under(&pointer, "tools"), tools);
            for (place, tag) in gate.tags.iter().enumerate() {
                let at = under(&under(&pointer, "tags"), place);
                self.known(&at, ("tool with the tag", "tag.unknown"), tag, tags.iter());
            }
            if gate.tools.is_empty() && gate.tags.is_empty() && !gate.looks_elsewhere() {
                let message = format!(
                    "gate `{}` is bound to nothing; expected `tools`, `tags`, `handoffs`, `replies` or \
                     `steps`",
                    gate.name
                );
                self.at(&pointer, "gate.unbound", message);
            }
            if gate.when.is_empty() && gate.allow_for.is_some() {
                let message = "a gate that always asks cannot be allowed for a while; give it \
                               conditions under `when`, or take `allow_for` away";
                self.at(&under(&pointer, "allow_for"), "gate.contradiction", message);
            }
            self.bindings(&pointer, gate);
            self.conditions(&pointer, gate);
            self.contradictions(index, gate);
            self.judges(&pointer, gate);
            self.patience(&Asked {
                pointer: &pointer,
                kind: Kind::ToolApproval,
                origin: Origin::HumanStep,
                deadline: gate.deadline.as_ref(),
                on_timeout: gate.on_timeout.as_ref(),
                remind: gate.remind.as_ref(),
            });
            self.whom(
                &pointer,
                &Whom {
                    to: &gate.to,
                    not: &gate.not,
                    approvers: gate.approvers.as_ref(),
                    decides: true,
                    is_timed: gate.deadline.is_some() || gate.on_timeout.is_some(),
                },
            );
            self.duration(&under(&pointer, "allow_for"), gate.allow_for.as_ref());
        }
    }

    /// Two gates that name the same tool must not say different things about it: one that always
    /// asks leaves nothing to another's conditions, and no other terms beside its own.
    fn contradictions(&mut self, index: usize, gate: &GateFile) {
        let file = self.file;
        for (place, tool) in gate.tools.iter().enumerate() {
            let names = |other: &&GateFile| other.tools.contains(tool);
            let mut before = file.gates.iter().take(index).filter(names);
            let clash = before.find(|other| other.is_mandatory() || gate.is_mandatory());
            let Some(other) = clash else { continue };
            let (this, that) = (&gate.name, &other.name);
            let message = match (gate.is_mandatory(), other.is_mandatory()) {
                (true, true) => {
                    format!("gates `{that}` and `{this}` both always ask about `{tool}`")
                }
                (true, false) => format!(
                    "gate `{this}` always asks about `{tool}`, and gate `{that}` only under conditions"
                ),
                (false, _) => format!(
                    "gate `{this}` asks about `{tool}` under conditions, and gate `{that}` always"
                ),
            };
            let at = under(&under(&under("/gates", index), "tools"), place);
            self.at(&at, "gate.contradiction", format!("{message}; keep one of the two"));
        }
    }

    /// A judge is an agent of the file, and never the one whose calls it would judge.
    fn judges(&mut self, pointer: &str, gate: &GateFile) {
        let file = self.file;
        for (index, condition) in gate.when.iter().enumerate() {
            let Some(judge) = condition.judge() else { continue };
            let at = under(&under(&under(pointer, "when"), index), "judge");
            let name = match judge {
                JudgeFile::Agent(_) => at.clone(),
                JudgeFile::Full(_) => under(&at, "agent"),
            };
            self.judge_time(&under(&at, "within"), judge.within());
            if !self.known_agent(&name, judge.agent()) {
                continue;
            }
            let own = file.agents.get(judge.agent()).map(|agent| &agent.tools);
            let is_bound = |tool: &&String| self.is_bound(gate, tool);
            if let Some(tool) = own.into_iter().flatten().find(is_bound) {
                let (judge, gate) = (judge.agent(), &gate.name);
                let message = format!(
                    "`{judge}` may call `{tool}` itself, and nobody judges their own calls at gate \
                     `{gate}`; take another judge, or take the tool away from it"
                );
                self.at(&name, "gate.own_judge", message);
            }
        }
    }

    fn judge_time(&mut self, pointer: &str, time: Option<&LengthOfTime>) {
        self.duration(pointer, time);
        if time.is_some_and(|time| duration_ms(&time.0) == Some(0)) {
            self.at(pointer, "field.range", "a judge needs some time; expected more than 0");
        }
    }

    /// Whether a gate is bound to a tool, by its name or by a tag.
    fn is_bound(&self, gate: &GateFile, tool: &str) -> bool {
        let tags = self.file.tools.get(tool).map(|known| &known.tags);
        gate.tools.iter().any(|name| name == tool || name == ANY)
            || tags.into_iter().flatten().any(|tag| gate.tags.contains(tag))
    }
}

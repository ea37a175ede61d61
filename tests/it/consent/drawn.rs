//! What consent is tried on, drawn by chance: files with rules and stages, people in groups that change, and
//! what follows of them for who may allow what. What was really done is judged in `consent_properties`.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint::definition::load_text;
use holdpoint::kernel::{Environment, Membership, Operator, Workflow};
use serde_json::{Value, json};

use crate::support::chance::Chance;

/// Whoever may try anything. The last has no part in anything but what they begin; `root` is an admin.
pub(crate) const PEOPLE: [&str; 6] = ["ann", "bob", "cara", "dan", "root", "eve"];
const GROUPS: [&str; 2] = ["finance", "audit"];

/// Who is asked in a stage, as the file says it.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) to: Vec<String>,
    pub(crate) need: usize,
    pub(crate) not: Vec<&'static str>,
}

impl Stage {
    pub(crate) fn drawn(chance: &mut Chance) -> Self {
        let mut to = BTreeSet::new();
        for _ in 0..=chance.below(2) {
            to.insert(match chance.below(3) {
                0 => format!("group:{}", GROUPS[chance.below(GROUPS.len())]),
                _ => PEOPLE[chance.below(4)].to_owned(),
            });
        }
        let not = ["requester", "editor"].into_iter().filter(|_| chance.holds(25)).collect();
        // A file whose stage nobody can pass is not loaded.
        let is_group = |named: &String| named.starts_with("group:");
        let many = to.len() > 1 || to.iter().any(is_group);
        let need = if many { 1 + chance.below(2) } else { 1 };
        Self { to: to.into_iter().collect(), need, not }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"to": self.to, "need": self.need, "not": self.not})
    }
}

/// Something that stops calls of a tool.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) tool: &'static str,
    /// Nobody in particular where there are none: whoever owns the session.
    pub(crate) stages: Vec<Stage>,
    /// Only amounts over this, if it is not about all of them.
    pub(crate) over: Option<u64>,
}

/// A step that pays.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) id: String,
    pub(crate) tool: &'static str,
    pub(crate) amount: u64,
    /// Who looks at the step before it begins, if anybody does.
    pub(crate) before: Option<Vec<Stage>>,
}

#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) rules: Vec<Rule>,
    pub(crate) steps: Vec<Step>,
}

impl File {
    pub(crate) fn drawn(chance: &mut Chance) -> Self {
        let stages = |chance: &mut Chance| -> Vec<Stage> {
            (0..chance.below(3)).map(|_| Stage::drawn(chance)).collect()
        };
        let tools = ["pay", "wire"];
        // A rule that always asks stands at its tool alone: a file with another beside it is not loaded.
        let always = [chance.holds(60), chance.holds(60)];
        let mut rules = Vec::new();
        for number in 0..=chance.below(3) {
            let which = chance.below(2);
            if always[which] && rules.iter().any(|rule: &Rule| rule.tool == tools[which]) {
                continue;
            }
            let over = 100 * u64::try_from(chance.below(5)).unwrap();
            let (tool, over) = (tools[which], (!always[which]).then_some(over));
            rules.push(Rule { name: format!("rule{number}"), tool, stages: stages(chance), over });
        }
        let mut steps = Vec::new();
        for number in 0..=chance.below(3) {
            let before = chance.holds(35).then(|| stages(chance));
            let amount = 1 + u64::try_from(chance.below(90) * 10 + number).unwrap();
            let tool = tools[chance.below(2)];
            steps.push(Step { id: format!("s{number}"), tool, amount, before });
        }
        Self { rules, steps }
    }

    pub(crate) fn workflow(&self) -> Workflow {
        let asked = |mut gate: Value, stages: &[Stage]| {
            if !stages.is_empty() {
                gate["approvers"] = stages.iter().map(Stage::json).collect();
            }
            gate
        };
        let gates = self.rules.iter().map(|rule| {
            let mut gate = json!({"name": rule.name, "tools": [rule.tool]});
            if let Some(over) = rule.over {
                gate["when"] = json!([{"argument": {"pointer": "/amount", "over": over}}]);
            }
            asked(gate, &rule.stages)
        });
        let steps = self.steps.iter().map(|step| {
            let arguments = json!({"amount": step.amount});
            let mut told = json!({"id": step.id, "tool": step.tool, "arguments": arguments});
            if let Some(stages) = &step.before {
                told["gate"] = asked(json!({"mode": "before_step"}), stages);
            }
            told
        });
        let mut steps: Vec<Value> = steps.collect();
        steps.push(json!({"id": "end", "agent": "idle"}));
        let tool = json!({"provider": "scripted", "settings": {"returns": 1},
            "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}}});
        let file = json!({
            "name": "pays",
            "models": {"default": {"provider": "scripted", "script": [{"say": "Done."}]}},
            "agents": {"idle": {"human_input": false}},
            "tools": {"pay": tool, "wire": tool},
            "gates": gates.collect::<Vec<_>>(),
            "pattern": "graph",
            "graph": {"steps": steps},
        });
        let loaded = load_text("pays.yaml", &file.to_string(), &|_| Err(String::new()));
        loaded.unwrap_or_else(|wrong| panic!("{wrong:?}\n{file:#}")).workflow.as_ref().clone()
    }

    /// What must be asked before a step may pay so much: the rule's name, its stages.
    pub(crate) fn wanted(&self, step: &Step, amount: u64) -> Vec<(&Rule, Vec<Stage>)> {
        let is_met =
            |rule: &&Rule| rule.tool == step.tool && rule.over.is_none_or(|over| amount > over);
        self.rules.iter().filter(is_met).map(|rule| (rule, rule.stages.clone())).collect()
    }
}

/// Who belongs to what, and whether four eyes are wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roll {
    pub(crate) groups: BTreeMap<&'static str, BTreeSet<&'static str>>,
    four_eyes: bool,
    /// Those who have no key any more.
    pub(crate) gone: BTreeSet<&'static str>,
}

impl Roll {
    pub(crate) fn drawn(chance: &mut Chance) -> Self {
        let mut roll = Self { four_eyes: chance.holds(20), ..Self::default() };
        for who in &PEOPLE[..4] {
            let of = GROUPS.into_iter().filter(|_| chance.holds(45)).collect();
            roll.groups.insert(who, of);
            if chance.holds(8) {
                roll.gone.insert(who);
            }
        }
        roll
    }

    pub(crate) fn operator(&self) -> Operator {
        let member = |who: &&str| {
            let groups = self.groups.get(who).into_iter().flatten();
            let groups = groups.map(|group| (*group).to_owned()).collect();
            ((*who).to_owned(), Membership { groups, ..Membership::default() })
        };
        let here = PEOPLE.iter().filter(|who| !self.gone.contains(*who));
        Operator {
            environment: Environment::Named("tests".into()),
            people: here.map(member).collect(),
            four_eyes: self.four_eyes,
            ..Operator::default()
        }
    }

    /// Whether `who` is meant by a stage of a question that `requesters` asked for.
    pub(crate) fn admits(&self, stage: &Stage, who: &str, run: &Known, is_editor: bool) -> bool {
        let is_named = |named: &String| match named.strip_prefix("group:") {
            Some(group) => self.groups.get(who).is_some_and(|of| of.contains(group)),
            None => named == who,
        };
        let is_meant =
            if stage.to.is_empty() { who == run.owner } else { stage.to.iter().any(is_named) };
        let asked_for_it = run.requesters.contains(who);
        let is_barred = asked_for_it && (self.four_eyes || stage.not.contains(&"requester"))
            || is_editor && stage.not.contains(&"editor");
        is_meant && !is_barred && !self.gone.contains(who)
    }
}

/// A run, as far as the oracle must know it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) owner: &'static str,
    pub(crate) session: String,
    pub(crate) requesters: BTreeSet<String>,
}

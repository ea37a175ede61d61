//! Plan-and-execute in short: a plan that a person reviews, and its steps behind gates. Written out
//! as a program here, so that what is checked and what runs are one walk.

use serde_json::{Value, json};

use crate::definition::check::Check;
use crate::definition::graph::{Mode, Modes, PhaseGateFile};
use crate::definition::patterns::{PlanExecuteFile, turn};
use crate::definition::source::under;
use crate::kernel::expression::{Known, Type};
use crate::kernel::graph::{PhaseGate, Program};

/// Where the pattern is described.
const AT: &str = "/plan_execute";
/// Steps of a plan, unless the file says otherwise: a person reads all of them.
const STEPS_DEFAULT: u32 = 20;
/// What the pattern's own steps are called; no other agent of it may be called so.
const OWN: [&str; 8] =
    ["planning", "planner", "plan", "control", "controller", "execute", "work", "nothing"];
/// The word by which a controller says that nothing is left to do in a step.
const TERMINATOR: &str = "terminator";

impl<'a> Check<'a> {
    /// The program of a plan that is made and carried out. Where there are problems, it is not to
    /// be used.
    pub(super) fn plan_execute(&mut self, terms: &'a PlanExecuteFile) -> Option<Program> {
        self.plan_cast(terms);
        self.plan_output(terms);
        let known = self.plan_known();
        let review = self.plan_gate("review", terms.review.as_ref(), &known, &[Mode::PlanReview]);
        let both = [Mode::BeforeStep, Mode::OnError];
        let mut within = known.clone();
        within.variables.insert("step".into(), Type::Any);
        within.variables.insert("index".into(), Type::Number);
        let gate = self.plan_gate("gate", terms.gate.as_ref(), &within, &both);
        let most = terms.max_steps.unwrap_or(STEPS_DEFAULT);
        let execute = json!({"id": "execute", "gate": gate, "task": {"group": {
            "steps": carried_out(terms)}}});
        let mut steps: Vec<Value> = terms.improver.iter().map(|agent| turn(agent)).collect();
        steps.push(json!({"id": "planning", "gate": review, "task": {"group": {
            "steps": self.planned(terms, most)}}}));
        steps.push(json!({"id": "control", "task": {"for_each": {
            "items": "steps.planning.steps", "name": "step", "max_items": most, "concurrency": 1,
            "steps": [execute]}}}));
        let output = json!({"plan": "${steps.planning}", "results": "${steps.control}"});
        serde_json::from_value(json!({"steps": steps, "output": output})).ok()
    }

    /// Everybody is an agent of the file, and each has one part.
    fn plan_cast(&mut self, terms: &'a PlanExecuteFile) {
        let mut parts: Vec<(String, &'a String)> = Vec::new();
        let single = [
            ("improver", terms.improver.as_ref()),
            ("planner", Some(&terms.planner)),
            ("reviewer", terms.reviewer.as_ref()),
            ("controller", terms.controller.as_ref()),
        ];
        for (part, name) in single {
            parts.extend(name.map(|name| (under(AT, part), name)));
        }
        let workers = under(AT, "workers");
        let each = terms.workers.iter().enumerate();
        parts.extend(each.map(|(index, name)| (under(&workers, index), name)));
        for (index, (pointer, name)) in parts.iter().enumerate() {
            self.known_agent(pointer, name);
            let has_part = parts.iter().take(index).any(|(_, before)| before == name);
            if has_part {
                let message = format!("`{name}` has a part already; each agent has one");
                self.at(pointer, "name.duplicate", message);
            }
            let is_own = OWN.contains(&name.as_str()) && !pointer.ends_with(name.as_str());
            if is_own || *name == TERMINATOR {
                let message = format!("`{name}` is a name of the pattern's own; take another");
                self.at(pointer, "name.reserved", message);
            }
        }
        if terms.controller.is_none() && terms.workers.len() > 1 {
            let message = "several workers need a `controller`, who says which of them does a step";
            self.at_key(&workers, "pattern.controller", message);
        }
        let reached = parts.iter().map(|(_, name)| name.as_str()).collect();
        self.unreachable(&reached, "give it a part under `plan_execute`");
    }

    /// A planner with a shape of its own must have steps in it.
    fn plan_output(&mut self, terms: &PlanExecuteFile) {
        let own = self.file.agents.get(&terms.planner).and_then(|agent| agent.output.as_ref());
        let Some(own) = own else { return };
        let steps = own.pointer("/properties/steps/type").and_then(Value::as_str);
        if steps != Some("array") {
            let pointer = under(&under("/agents", &terms.planner), "output");
            let message = "a planner's `output` needs the property `steps` of type `array`; or \
                           leave the output out";
            self.at(&pointer, "pattern.planner", message);
        }
    }

    fn plan_known(&self) -> Known {
        let input = self.file.input.as_ref().map_or(Type::Any, Type::of_schema);
        let mut known = Known::default();
        known.variables.insert("input".into(), input);
        known.variables.insert("metadata".into(), Type::any_object());
        known
    }

    /// The gate that the file gives, or that of the pattern.
    fn plan_gate(
        &mut self,
        field: &str,
        given: Option<&PhaseGateFile>,
        known: &Known,
        default: &[Mode],
    ) -> Option<PhaseGate> {
        let pointer = under(AT, field);
        let own = PhaseGateFile::of(Modes::Many(default.to_vec()));
        let gate = given.unwrap_or(&own);
        let modes = gate.mode.all();
        let (wrong, right) = if field == "review" {
            ([Mode::AfterStep, Mode::Both], "`plan_review` or `never`")
        } else {
            ([Mode::PlanReview, Mode::PlanReview], "those of a step; `review` is for the plan")
        };
        if modes.iter().any(|mode| wrong.contains(mode)) {
            let message = format!("this is no mode for `{field}`; expected {right}");
            self.at(&under(&pointer, "mode"), "gate.contradiction", message);
        }
        self.phase_gate(&pointer, gate, known)
    }

    /// The steps by which a plan comes to be; the last of them is the plan.
    fn planned(&self, terms: &PlanExecuteFile, most: u32) -> Vec<Value> {
        let own = self.file.agents.get(&terms.planner).and_then(|agent| agent.output.clone());
        let output = own.unwrap_or_else(|| plan_schema(most));
        let mut steps = vec![json!({"id": "planner", "task": {"agent": {
            "agent": terms.planner, "output": output}}})];
        steps.extend(terms.reviewer.iter().map(|agent| {
            let prompt = "Review the plan of ${size(steps.planner.steps)} steps.";
            json!({"id": agent, "task": {"agent": {"agent": agent, "prompt": prompt}}})
        }));
        let plan = json!({"steps": "${steps.planner.steps}"});
        steps.push(json!({"id": "plan", "task": {"extract": {"values": plan}}}));
        steps
    }
}

/// A plan as it is asked for where the planner has no shape of its own.
fn plan_schema(most: u32) -> Value {
    let step = json!({
        "type": "object",
        "properties": {"title": {"type": "string"}, "details": {"type": "string"}},
        "required": ["title"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {"steps": {"type": "array", "minItems": 1, "maxItems": most, "items": step}},
        "required": ["steps"],
        "additionalProperties": false,
    })
}

/// How one step of the plan is carried out.
fn carried_out(terms: &PlanExecuteFile) -> Vec<Value> {
    // A planner may have a shape of its own, in which a step has no title.
    let title = "${step.title ?? step}";
    let work = |agent: &String| {
        let prompt = format!("Do step ${{index + 1}}: {title}.");
        json!({"id": agent, "task": {"agent": {"agent": agent, "prompt": prompt}}})
    };
    let Some(controller) = &terms.controller else {
        return terms.workers.iter().map(work).collect();
    };
    let names: Vec<&str> = terms.workers.iter().map(String::as_str).chain([TERMINATOR]).collect();
    let output = json!({
        "type": "object",
        "properties": {"agent": {"enum": names}, "reason": {"type": "string"}},
        "required": ["agent"],
        "additionalProperties": false,
    });
    let prompt = format!("Who does step ${{index + 1}}, {title}?");
    let mut cases: Vec<Value> =
        terms.workers.iter().map(|agent| json!({"is": agent, "steps": [work(agent)]})).collect();
    let nothing = json!({"id": "nothing", "task": {"extract": {
        "values": {"done": "nothing is left to do"}}}});
    cases.push(json!({"is": TERMINATOR, "steps": [nothing]}));
    vec![
        json!({"id": "controller", "task": {"agent": {
            "agent": controller, "prompt": prompt, "output": output}}}),
        json!({"id": "work", "task": {"switch": {
            "on": "steps.controller.agent", "cases": cases}}}),
    ]
}

//! Consequences: what exactly will happen on an answer, drawn from the stored action and never from what
//! an agent says about it.

use std::collections::BTreeSet;
use std::sync::Arc;

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::request::{Case, hides};
use crate::api::console::{text, tree, value};
use crate::kernel::graph::{Point, Step as GraphStep, Task};
use crate::kernel::workflow::{Pattern, Safety, Step, Work};
use crate::kernel::{Event, OnTimeout, Origin, Question, ToolCall, Verb, secret};

/// What happens, and the facts to decide by, with the mark of their end; of a question that has ended, what
/// it was about.
pub(super) fn panel(case: &Case, is_editing: bool, end: &Markup) -> Markup {
    let question = &case.question;
    let is_over = case.ended.is_some();
    let call = if let Origin::Gate(call) = &question.origin {
        Some(&**call)
    } else {
        lost_call(case, &question.origin)
    };
    if is_over && call.is_none() && question.context.is_null() {
        return html! {};
    }
    html! {
        section.panel.outlook aria-label="What it is about" {
            @match (call, &question.origin) {
                (Some(call), _) if is_over => { h2 { "What it was about" } (deed(case, call)) }
                (Some(call), Origin::Gate(_)) => { (call_panel(case, call, is_editing)) }
                (Some(call), _) => { h2 { "Which call it is about" } (deed(case, call)) }
                (None, _) => {
                    @if !is_over { h2 { "What happens" } (consequences(case)) }
                    (facts(question))
                }
            }
            (end)
            @if !is_over { div #silence data-swap { (silence(question)) } }
        }
    }
}

fn call_panel(case: &Case, call: &ToolCall, is_editing: bool) -> Markup {
    let reasons = case.question.context.get("reasons").and_then(Value::as_array);
    html! {
        h2 { @if is_editing { "What was asked for" } @else { "If you allow it, exactly this is done" } }
        (deed(case, call))
        @if case.question.is_starts_own() { (starts_own()) }
        @else if !is_editing { p { "If you deny it, nothing is done" (denied(case)) } }
        @if !is_editing && case.question.verbs().contains(&Verb::Return) {
            p { "If you return it, nothing is done: the agent is given your note, and may try again." }
        }
        @if let Some(reasons) = reasons {
            h3 { "Why a person is asked" }
            ul.plain { @for reason in reasons { li { (text::ticked(reason.as_str().unwrap_or_default())) } } }
        }
    }
}

/// What follows a no to a call, after "nothing is done": an agent is told, a step of its own fails.
fn denied(case: &Case) -> &'static str {
    let question = &case.question;
    let (Pattern::Graph(program), None) = (&case.run.workflow.pattern, &question.agent) else {
        return ", and the agent is told so.";
    };
    match in_graph(&program.steps, &question.step) {
        Some((_, true)) => ": the run ends as failed and says who denied it.",
        Some((_, false)) => {
            ": this step ends as failed and says who denied it; the file lets the others go on."
        }
        None => {
            ": this step ends as failed, and what it is part of stops with everything else that is open in it; \
             where the file lets that fail, what stands after it is done all the same."
        }
    }
}

/// What follows at a gate that the run's start brought.
fn starts_own() -> Markup {
    html! { p { "The run's start asked for this look. A yes lets it go on to whoever else looks at it; a no, or silence, ends the run." } }
}

/// A call, as it is stored.
fn deed(case: &Case, call: &ToolCall) -> Markup {
    let tool = case.run.workflow.tools.get(&call.tool);
    let safety = tool.map(|tool| tool.safety);
    html! {
        div.deed {
            p { "The tool " code.name { (text::shown(&call.tool)) } " is called"
                @if let Some(agent) = &case.question.agent { " for the agent " strong { (agent) } }
                " with these arguments:" }
            @if call.arguments.is_null() { p.quiet { "none" } } @else {
                (arguments(&secret::hidden(&call.arguments, &case.question.secrets)))
            }
            @if let Some(deed) = call.deed.as_ref().filter(|deed| deed.is_outside()) {
                p.destination { "It goes to " code { (text::shown(&deed.destination)) } " and nowhere else." }
            }
            @if let Some(tool) = tool {
                @if !tool.description.is_empty() { p.quiet { (text::shown(&tool.description)) } }
            }
            @match safety {
                Some(Safety::Pure) => { p.quiet { "The file says that it changes nothing." } }
                Some(Safety::Idempotent) => { p.quiet { "The file says that doing it twice does it once." } }
                Some(Safety::Unsafe) | None => { p.quiet { "It may change something that cannot be taken back." } }
            }
        }
    }
}

/// Arguments one by one, each as it will be sent.
pub(super) fn arguments(value: &Value) -> Markup {
    let Some(members) = value.as_object() else { return tree::tree(value) };
    html! {
        dl.facts.exact {
            @for (name, value) in members {
                div { dt { (text::shown(name)) } dd {
                    @match value {
                        Value::String(text) => { span.prose { (text::shown(text)) } }
                        Value::Object(members) if !members.is_empty() => { (arguments(value)) }
                        Value::Object(_) | Value::Array(_) => { (tree::tree(value)) }
                        Value::Null | Value::Bool(_) | Value::Number(_) => { code { (value.to_string()) } }
                    }
                } }
            }
        }
    }
}

fn lost_call<'a>(case: &'a Case, origin: &Origin) -> Option<&'a ToolCall> {
    let Origin::LostOutcome(id) = origin else { return None };
    case.journal.iter().find_map(|recorded| {
        let Event::ToolCalled { call, .. } = &recorded.event else { return None };
        (call.id == *id).then_some(call)
    })
}

fn consequences(case: &Case) -> Markup {
    let question = &case.question;
    if let Origin::Budget(name) = &question.origin {
        return html! { p { "The budget " code { (name) } " is spent. Approved, the run gets as much again; rejected, it fails." } };
    }
    if let Origin::Phase(point) = &question.origin {
        return html! {
            p { (phase(*point)) }
            @if question.is_starts_own() { (starts_own()) }
        };
    }
    let agent = question.agent.as_deref();
    if let Some(agent) = agent {
        return html! { p { "Your answer goes to the agent " strong { (agent) } ", who goes on with it." } };
    }
    let (after, no): (Vec<Markup>, &str) = match &case.run.workflow.pattern {
        Pattern::Sequential { steps } => {
            let after = steps.iter().skip_while(|step| step.id != question.step).skip(1);
            (after.map(named).collect(), RUN_FAILS)
        }
        Pattern::Graph(program) => match in_graph(&program.steps, &question.step) {
            Some((after, stops)) => (
                after.into_iter().map(planned).collect(),
                if stops { RUN_FAILS } else { STEP_FAILS },
            ),
            // It is a step of a step: what comes after it is the other's to say.
            None => return within(question),
        },
        Pattern::Coordinator { .. } | Pattern::Handoff(_) => {
            return html! { p { "The run goes on with your answer." } (returning(question)) };
        }
    };
    let yes = if question.is_verdict() { "If you approve, " } else { "With your answer, " };
    html! {
        p { (yes) @if after.is_empty() { "the run is complete." } @else { "the run goes on with:" } }
        @if !after.is_empty() { ol.steps { @for step in after { li { (step) } } } }
        @if question.is_verdict() { p { (no) } }
        (returning(question))
    }
}

/// What follows where it is edited, or where the work is given back.
fn returning(question: &Question) -> Markup {
    html! {
        @if question.verbs().contains(&Verb::Edit) && !hides(question) {
            p { "If you edit it, your version goes on in its place; you see every change before you send it." }
        }
        @if question.verbs().contains(&Verb::Return) {
            p { "If you return it, the agent does its step again with your note in front of it, and you are asked again." }
        }
    }
}

const RUN_FAILS: &str =
    "If you reject, none of it happens: the run ends as failed and says who rejected it.";
const STEP_FAILS: &str = "If you reject, this step ends as failed and says who rejected it; the file lets the others go on.";

/// The steps after one of a graph's own, and whether a no to it stops the run.
fn in_graph<'a>(steps: &'a [Arc<GraphStep>], id: &str) -> Option<(Vec<&'a GraphStep>, bool)> {
    let place = steps.iter().position(|step| step.id == id)?;
    let (own, after) = (steps.get(place)?, steps.get(place + 1..)?);
    Some((after.iter().map(AsRef::as_ref).collect(), own.critical))
}

/// What follows an answer within a branch, a loop or a group.
fn within(question: &Question) -> Markup {
    html! {
        p { @if question.is_verdict() { "If you approve, " } @else { "With your answer, " }
            "the run goes on with what follows this step, as the graph shows it." }
        @if question.is_verdict() { p {
            "If you reject, this step ends as failed, and what it is part of stops; where the file lets that fail, what stands after it is done all the same."
        } }
        (returning(question))
    }
}

/// A step that is still to come, and what it does.
fn planned(step: &GraphStep) -> Markup {
    html! {
        strong { (step.id) }
        @match &step.task {
            Task::Agent { agent, .. } => { ", done by the agent " (agent) }
            Task::Tool { tool, .. } => { ", where the tool " code.name { (text::shown(tool)) } " is called" }
            Task::Human(_) => { ", where a person is asked" }
            Task::If { .. } | Task::Switch { .. } => { ", one way or another" (tools_within(step)) }
            Task::Parallel { .. } | Task::ForEach { .. } | Task::Loop { .. } | Task::Group { .. } => { ", several steps" (tools_within(step)) }
            Task::Wait { .. } => { ", a wait" }
            Task::Extract { .. } => { ", which only keeps values" }
            Task::Sub { workflow, .. } => { ", the workflow " (text::shown(workflow)) (tools_within(step)) }
        }
        @if step.gate.is_some() { " (a person looks at it)" }
    }
}

/// The tools that steps within a step call, wherever they stand.
fn tools_within(step: &GraphStep) -> Markup {
    fn gather<'a>(step: &'a GraphStep, tools: &mut BTreeSet<&'a str>) {
        if let Task::Tool { tool, .. } = &step.task {
            tools.insert(tool);
        }
        for inner in step.task.blocks().into_iter().flat_map(|block| block.iter()) {
            gather(inner, tools);
        }
    }
    let mut tools = BTreeSet::new();
    gather(step, &mut tools);
    html! {
        @for (place, tool) in tools.iter().enumerate() {
            @if place == 0 { ", which call " } @else { ", " } code.name { (text::shown(tool)) }
        }
    }
}

/// What a person stands at, in a step of a graph; what each word does is said beside the form.
fn phase(point: Point) -> &'static str {
    match point {
        Point::Before => {
            "The step has not begun. It begins if you let it, with what is shown here."
        }
        Point::After => "The step is done. Nothing that follows has begun.",
        Point::Review => "This is the plan that the run would go on with. Nothing of it has begun.",
        Point::Error => "The step failed. Nothing that follows has begun.",
    }
}

fn named(step: &Step) -> Markup {
    html! {
        strong { (step.id) }
        @match &step.work {
            Work::Agent { agent, .. } => { ", done by the agent " (agent) }
            Work::Human(human) => { ", where a person is asked: " (text::shown(&human.prompt)) }
        }
    }
}

fn facts(question: &Question) -> Markup {
    if let (Origin::Phase(_), Some(context)) = (&question.origin, question.context.as_object()) {
        // Which point it is was said in words.
        let shown = context.iter().filter(|(name, _)| *name != "point");
        return html! {
            @for (name, value) in shown { h3 { (text::words(name)) } (value::value(value)) }
        };
    }
    html! {
        @if !question.context.is_null() { h3 { "Facts given with the question" } (value::value(&question.context)) }
    }
}

/// Who is asked as well when the time of those who are asked now is up.
fn next_level(question: &Question) -> Option<String> {
    question.next_level().map(|next| next.to.join(", "))
}

fn silence(question: &Question) -> Markup {
    html! {
        @if let Some(at) = question.deadline {
            p.quiet {
                @if let Some(left) = question.still.as_ref().and_then(|still| still.left_ms) {
                    "Its time " (text::standing(left)) ". If nobody answers by its end, "
                } @else { "If nobody answers by " (text::time(at)) ", " }
                @match &question.on_timeout {
                    _ if next_level(question).is_some() => { "these are asked as well: " (text::shown(&next_level(question).unwrap_or_default())) "." }
                    OnTimeout::Reject => { "that is a no." }
                    OnTimeout::Continue => { "the run goes on without an answer." }
                    OnTimeout::EscalateTo { to, .. } => { "these are asked: " (text::shown(&to.join(", "))) "." }
                    OnTimeout::DefaultAnswer(value) => { "this answer is taken: " (value::value(value)) }
                }
            }
        } @else if let Some(still) = &question.still {
            p.quiet {
                "It is halted: " (text::ticked(&still.what)) ". No answer is taken until the halt has ended; then it waits for as long as it takes."
            }
        } @else { p.quiet { "It waits for as long as it takes." } }
    }
}

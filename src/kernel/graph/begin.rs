//! Begin: what the work of a step is, at the moment when it is begun.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kernel::choice::Choice;
use crate::kernel::deed::{BROKEN, Deed};
use crate::kernel::draft::{Draft, Next};
use crate::kernel::editing;
use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::gate;
use crate::kernel::graph::frozen::Frozen;
use crate::kernel::graph::gates;
use crate::kernel::graph::outcome::{Opening, Outcome};
use crate::kernel::graph::path::{nth, under};
use crate::kernel::graph::program::{Ask, Case, OptionsFrom, Steps, Task};
use crate::kernel::graph::scope::{Place, View};
use crate::kernel::graph::state::Is;
use crate::kernel::message::ToolCall;
use crate::kernel::question::{Origin, Subject};
use crate::kernel::schema;
use crate::kernel::terms::Kind;
use crate::kernel::time::{Millis, duration_ms};
use crate::kernel::turn::{Purpose, Turn, Wish};

/// What may be chosen of: a person reads all of it.
const OPTIONS_MAX: usize = 100;
/// Longer waits are a slip of the pen, and sums with them must not overflow.
const WAIT_MS_MAX: u64 = 3_660 * 86_400_000;

type Begun = Result<Vec<Event>, Failure>;

/// What a step will do, with everything filled in, or why that cannot be said.
pub(super) fn frozen(place: &Place<'_>) -> Result<Frozen, Failure> {
    let fill = |what: &'static str| move |wrong| place.failed(what, &wrong);
    let steps = || {
        let steps = place.step.task.blocks().into_iter().flat_map(|block| block.iter());
        steps.map(|step| step.id.clone()).collect::<Vec<_>>()
    };
    Ok(match &place.step.task {
        Task::Agent { agent, prompt, .. } => {
            let prompt = prompt.as_ref().map(|prompt| prompt.fill(&place.view())).transpose();
            Frozen::Agent { agent: agent.clone(), prompt: prompt.map_err(fill("prompt"))? }
        }
        Task::Tool { tool, arguments, .. } => {
            let filled = arguments.fill(&place.view()).map_err(fill("arguments"))?;
            let arguments = if filled.is_null() { json!({}) } else { filled };
            check_arguments(place, tool, &arguments)?;
            // Only what somebody is shown is held to it.
            let is_bound = gates::is_looked_at(place.run, place.step);
            let is_shown = is_bound || place.step.gate.as_ref().is_some_and(|gate| gate.before);
            let known = place.run.workflow.tools.get(tool).filter(|_| is_shown);
            let deed = known.map(|known| Box::new(Deed::of(tool, known, &arguments)));
            Frozen::Tool { tool: tool.clone(), arguments, deed }
        }
        Task::If { when, .. } => {
            let holds = when.holds(&place.view()).map_err(fill("if"))?;
            Frozen::Branch { branch: if holds { "then" } else { "else" }.into(), steps: steps() }
        }
        Task::Switch { on, cases, otherwise } => {
            let value = on.eval(&place.view()).map_err(fill("switch"))?;
            let branch = chosen(place, &value, cases, otherwise.as_ref())?;
            Frozen::Branch { branch, steps: steps() }
        }
        Task::ForEach { items, max_items, .. } => {
            let list = items.eval(&place.view()).map_err(fill("for_each"))?;
            Frozen::Items { items: listed(place, list, *max_items)?, steps: steps() }
        }
        Task::Wait { timer, .. } => {
            let timer = timer.as_ref().map(|timer| timer.fill(&place.view())).transpose();
            Frozen::Wait { timer: timer.map_err(fill("wait.for"))? }
        }
        Task::Extract { values } => {
            Frozen::Values(values.fill(&place.view()).map_err(fill("extract"))?)
        }
        Task::Sub { workflow, input, input_schema, .. } => {
            let input = input.fill(&place.view()).map_err(fill("input"))?;
            if let Some(Err(mismatch)) =
                input_schema.as_ref().map(|one| schema::check_input(one, &input))
            {
                let what = format!("step `{}`: input{}: {mismatch}", place.path(), mismatch.at);
                return Err(Failure::new("input.invalid", what));
            }
            Frozen::Sub { workflow: workflow.clone(), input }
        }
        Task::Parallel { .. } | Task::Loop { .. } | Task::Human(_) | Task::Group { .. } => {
            Frozen::Steps(steps())
        }
    })
}

/// The events that begin a step's work as it was worked out, or why it cannot be begun.
pub(super) fn begin(place: &Place<'_>, frozen: Frozen) -> Begun {
    let path = place.path();
    let branch =
        |label: &str| Event::StepOpened { path: under(&path, label), opening: Opening::Branch };
    match (frozen, &place.step.task) {
        (Frozen::Agent { agent, prompt }, _) => Ok(vec![started(place, &agent, prompt)?]),
        (Frozen::Tool { tool, arguments, deed }, _) => tool_called(place, tool, (arguments, deed)),
        (Frozen::Branch { branch: label, .. }, _) => Ok(vec![branch(&label)]),
        (Frozen::Items { items, .. }, _) => {
            Ok(vec![Event::StepOpened { path, opening: Opening::Items(items) }])
        }
        (Frozen::Wait { timer }, Task::Wait { signal, .. }) => {
            let until = timer.map(|text| until(place, &text)).transpose()?;
            let opening = Opening::Wait { until, signal: signal.clone() };
            Ok(vec![Event::StepOpened { path, opening }])
        }
        (Frozen::Values(value), _) => Ok(place.came(Outcome::Done(value))),
        (Frozen::Sub { workflow, input }, _) => {
            let opening = Opening::Scope(input);
            Ok(vec![Event::StepOpened { path: under(&path, &workflow), opening }])
        }
        (Frozen::Steps(_), Task::Parallel { branches }) => {
            Ok(branches.iter().map(|one| branch(&one.name)).collect())
        }
        (Frozen::Steps(_), Task::Loop { .. }) => Ok(place.next_round(0, &Value::Null)),
        (Frozen::Steps(_), Task::Human(ask)) => human(place, ask),
        (Frozen::Steps(_), Task::Group { .. }) => {
            Ok(vec![Event::StepOpened { path: nth(&path, 1), opening: Opening::Branch }])
        }
        (Frozen::Wait { .. } | Frozen::Steps(_), _) => {
            let what = format!("step `{path}`: what was approved is nothing that it does");
            Err(Failure::new(BROKEN, what))
        }
    }
}

fn started(place: &Place<'_>, agent: &str, prompt: Option<String>) -> Result<Event, Failure> {
    let most = place.run.workflow.limits.steps;
    if place.run.steps_taken() >= most {
        let what = format!("the run took its {most} steps without coming to an end");
        return Err(Failure::new("step.cap", what));
    }
    Ok(Event::StepStarted {
        turn: place.run.turns_taken + 1,
        step: place.path(),
        agent: agent.to_owned(),
        attempt: 1,
        purpose: Purpose::Work,
        prompt,
        judges: None,
    })
}

fn check_arguments(place: &Place<'_>, tool: &str, arguments: &Value) -> Result<(), Failure> {
    let known = place.run.workflow.tools.get(tool).and_then(|tool| tool.parameters.as_ref());
    match known.map(|known| schema::check(known, arguments)) {
        Some(Err(mismatch)) => {
            let what = format!("step `{}`: arguments{}: {mismatch}", place.frame.path, mismatch.at);
            Err(Failure::new("tool.arguments", what))
        }
        Some(Ok(())) | None => Ok(()),
    }
}

fn tool_called(
    place: &Place<'_>,
    tool: String,
    (arguments, deed): (Value, Option<Box<Deed>>),
) -> Begun {
    let begun = started(place, "", None)?;
    let of = (Purpose::Work, None);
    let turn = Turn::new(place.run.turns_taken + 1, place.path(), String::new(), of);
    let id = format!("{}#{}", place.frame.path, turn.number);
    let call = ToolCall { id, tool, arguments, deed };
    let next = Next::of(place.run).after(&begun);
    let wish =
        Wish { turn: &turn, call: &call, said: "", judged: &[], looked: None, is_step: false };
    let called = gate::passed(place.run, wish, next, place.now);
    Ok([begun].into_iter().chain(called).collect())
}

/// The way that a value chooses. None is a failure: nothing is passed over in silence.
fn chosen(
    place: &Place<'_>,
    value: &Value,
    cases: &[Case],
    otherwise: Option<&Steps>,
) -> Result<String, Failure> {
    let same = |case: &Case| match (case.is.as_f64(), value.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        (Some(_) | None, _) => case.is == *value,
    };
    if let Some(index) = cases.iter().position(same) {
        return Ok(format!("case{index}"));
    }
    if otherwise.is_some() {
        return Ok("default".into());
    }
    let what =
        format!("step `{}`: no case is `{value}`, and there is no default", place.frame.path);
    Err(Failure::new("switch.unmatched", what))
}

fn listed(place: &Place<'_>, list: Value, most: u32) -> Result<Vec<Value>, Failure> {
    let path = place.path();
    let Value::Array(items) = list else {
        let what = format!("step `{path}`: expected a list to go through");
        return Err(Failure::new("for_each.items", what));
    };
    if items.len() > usize::try_from(most).unwrap_or(usize::MAX) {
        let what = format!("step `{path}`: {} items; the most is {most}", items.len());
        return Err(Failure::new("for_each.cap", what));
    }
    Ok(items)
}

fn until(place: &Place<'_>, text: &str) -> Result<Millis, Failure> {
    match duration_ms(text.trim()) {
        Some(ms) if ms <= WAIT_MS_MAX => Ok(place.now.plus(ms)),
        Some(_) | None => {
            let path = &place.frame.path;
            let what = format!("step `{path}`: `{text}` is no length of time such as `2h`");
            Err(Failure::new("wait.for", what))
        }
    }
}

fn human(place: &Place<'_>, ask: &Ask) -> Begun {
    let prompt = ask.prompt.fill(&place.view()).map_err(|wrong| place.failed("prompt", &wrong))?;
    let context = ask.context.fill(&place.view());
    let context = context.map_err(|wrong| place.failed("context", &wrong))?;
    let options = match &ask.options_from {
        Some(from) => found_options(place, from)?,
        None => ask.options.clone(),
    };
    let is_talk = ask.kind.may_pass_by_silence() && !ask.decides;
    let subject = match (ask.show.is_nothing(), is_talk) {
        (false, _) => {
            Some(ask.show.fill(&place.view()).map_err(|wrong| place.failed("show", &wrong))?)
        }
        (true, false) => place.run.last_said(),
        (true, true) => None,
    };
    let subject = subject.map(|shown| Box::new(Subject::Shown(shown)));
    let editable = editing::wanted(ask.editable.as_ref(), subject.as_deref());
    let (named, schema) = place.run.workflow.named(ask.named.as_deref());
    Ok(place.ask(Draft {
        step: place.path(),
        agent: None,
        turn: None,
        origin: Origin::HumanStep,
        kind: ask.kind,
        prompt,
        context,
        options,
        schema: ask.response_schema.clone().or(schema),
        patience: ask.patience.clone(),
        subject,
        decides: ask.decides,
        returns: returns(place, ask),
        editable,
        named,
    }))
}

/// Whether an approval may be returned: where an agent's step comes before it, and the file has no
/// words of its own for the answer.
fn returns(place: &Place<'_>, ask: &Ask) -> bool {
    let parent = place.frame.parent.and_then(|parent| place.run.graph.frames.get(&parent));
    let author = parent.and_then(|parent| match &parent.is {
        Is::Sequence(sequence) => sequence.author(),
        Is::Step(_) => None,
    });
    let is_verdict = matches!(ask.kind, Kind::Approval | Kind::PlanReview);
    is_verdict && ask.response_schema.is_none() && author.is_some()
}

fn found_options(place: &Place<'_>, from: &OptionsFrom) -> Result<Vec<Choice>, Failure> {
    let path = &place.frame.path;
    let wrong = |what: String| Failure::new("question.options", format!("step `{path}`: {what}"));
    let list = from.items.eval(&place.view()).map_err(|wrong| place.failed("options", &wrong))?;
    let Value::Array(items) = list else { return Err(wrong("the options are no list".into())) };
    if items.is_empty() || items.len() > OPTIONS_MAX {
        let count = items.len();
        return Err(wrong(format!("{count} options; expected 1 to {OPTIONS_MAX}")));
    }
    let mut choices = Vec::with_capacity(items.len());
    for item in items {
        let view = View::with(&place.run.graph, place.number, "option", item);
        let fill = |template: &crate::kernel::expression::Template| {
            template.fill(&view).map_err(|wrong| place.failed("options", &wrong))
        };
        let label = from.label.as_ref().map(fill).transpose()?.unwrap_or_default();
        let description = from.description.as_ref().map(fill).transpose()?.unwrap_or_default();
        choices.push(Choice { id: fill(&from.id)?, label, description });
    }
    let ids: BTreeSet<_> = choices.iter().map(|choice| &choice.id).collect();
    if ids.len() < choices.len() || ids.contains(&String::new()) {
        return Err(wrong("every option needs an id of its own".into()));
    }
    Ok(choices)
}

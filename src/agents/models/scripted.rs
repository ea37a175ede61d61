//! Scripted: a provider that answers from a script, offline and word for word the same every time.
//!
//! It can say, stream, hand off, call tools, ask, fail and be slow. It keeps no state.

use serde_json::Value;

use crate::agents::models::script::{self, Fail, Rule};
use crate::kernel::{AgentInput, AttemptFault, Failure, Reply, ToolCall, Workflow};
use crate::ports::{Clock, DeltaSink};

/// How much of the last message is shown when no rule fits.
const SHOWN_CHARS_MAX: usize = 120;

/// What is wrong with a scripted model's settings.
pub(super) fn check(settings: &Value) -> Vec<(String, String)> {
    script::check(settings)
}

/// The reply, unless it takes time.
pub(super) fn reply_at_once(
    workflow: &Workflow,
    input: &AgentInput,
) -> Option<Result<Reply, AttemptFault>> {
    match rule(workflow, input) {
        Ok(rule) if rule.delay_ms > 0 || rule.stream => None,
        Ok(rule) => Some(play(&rule, input)),
        Err(fault) => Some(Err(fault)),
    }
}

/// The reply, in its own time.
pub(super) async fn reply(
    workflow: &Workflow,
    input: &AgentInput,
    clock: &dyn Clock,
    deltas: &mut dyn DeltaSink,
) -> Result<Reply, AttemptFault> {
    let rule = rule(workflow, input)?;
    if rule.delay_ms > 0 {
        clock.pause(rule.delay_ms).await;
    }
    let reply = play(&rule, input)?;
    if rule.stream {
        for piece in reply.text.split_inclusive(' ') {
            deltas.push(piece.to_owned()).await;
        }
    }
    Ok(reply)
}

fn rule<'a>(workflow: &'a Workflow, input: &AgentInput) -> Result<Rule<'a>, AttemptFault> {
    let model = workflow.models.get(&input.model);
    let settings = model.map_or(&Value::Null, |model| &model.settings);
    let broken = |wrong: String| {
        fault("script.invalid", format!("the script of model `{}`: {wrong}", input.model), false)
    };
    let rules = script::rules(settings).map_err(broken)?;
    script::find(rules, input).map_err(broken)?.ok_or_else(|| unforeseen(input))
}

fn unforeseen(input: &AgentInput) -> AttemptFault {
    let last = input.messages.last().map(|message| message.text.as_str()).unwrap_or_default();
    let mut shown: String = last.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < last.len() {
        shown.push('…');
    }
    let (agent, turn) = (&input.agent, script::turn(input));
    fault(
        "script.no_rule",
        format!(
            "no rule of the script fits agent `{agent}` at turn {turn}; the last message is `{shown}`"
        ),
        false,
    )
}

fn play(rule: &Rule<'_>, input: &AgentInput) -> Result<Reply, AttemptFault> {
    if let Some(Fail { message, retriable, .. }) = rule.fail.as_ref().filter(|_| rule.fails(input))
    {
        return Err(fault("script.fails", message.clone(), *retriable));
    }
    // An id is unique in its run because it counts all calls that this agent ever made there.
    let own = input.messages.iter().filter(|message| message.author == input.agent);
    let earlier: usize = own.map(|message| message.calls.len()).sum();
    let call = |(index, call): (usize, &script::Call)| {
        let id = format!("{}-{}", input.agent, earlier + index + 1);
        ToolCall::new(id, call.tool.clone(), script::fill_value(&call.arguments, input))
    };
    Ok(Reply {
        text: rule.say.map(|text| script::fill(text, input)).unwrap_or_default(),
        output: rule.output.as_ref().map(|output| script::fill_value(output, input)),
        calls: rule.calls.iter().enumerate().map(call).collect(),
        ..Reply::default()
    })
}

pub(in crate::agents) fn fault(
    code: &str,
    message: impl Into<String>,
    retriable: bool,
) -> AttemptFault {
    AttemptFault { failure: Failure::new(code, message), retriable }
}

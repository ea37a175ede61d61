//! Work: a model call or a tool call as it is told, and the context that travels with it.

use std::sync::Arc;

use serde_json::Value;

use crate::engine::trace::place::Place;
use crate::kernel::workflow::Model;
use crate::kernel::{
    AgentInput, AttemptFault, Command, Effect, Millis, Reply, Run, ToolCall, Trace, Usage, Workflow,
};
use crate::ports::Clock;
use crate::ports::trace::{Span, Tracer};

/// What is around a piece of work: whom to tell of it, and what travels with it.
pub(in crate::engine) struct Around {
    teller: Option<Teller>,
    span: Option<Box<Span>>,
    carried: Option<Trace>,
}

struct Teller {
    tracer: Arc<dyn Tracer>,
    clock: Arc<dyn Clock>,
}

impl Around {
    /// Around a piece of work that is about to be done. Where nobody is told, the caller's own
    /// context travels on as it came.
    pub(in crate::engine) fn begins(
        run: &Run,
        effect: &Effect,
        tracer: Option<&Arc<dyn Tracer>>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let Some(tracer) = tracer else {
            return Self { teller: None, span: None, carried: run.trace.clone() };
        };
        let (place, now) = (Place::of(run), clock.now());
        let mut span = match effect {
            Effect::Reply { turn, attempt, input } => {
                let id = place.call(&format!("{}#{attempt}", input.key), now);
                asked(&run.workflow, input, &place, (id, *turn))
            }
            Effect::CallTool { turn, call, key } => {
                called(&run.workflow, call, &place, (place.call(key, now), *turn))
            }
        };
        span.began = now;
        let carried = Some(place.carried(span.id));
        let teller = Teller { tracer: Arc::clone(tracer), clock: Arc::clone(clock) };
        let span = place.is_sampled.then(|| Box::new(span));
        Self { teller: Some(teller), span, carried }
    }

    /// What travels with it.
    pub(in crate::engine) fn carried(&self) -> Option<Trace> {
        self.carried.clone()
    }

    /// It came to this.
    pub(in crate::engine) fn ends(mut self, command: &Command) {
        let Some(mut span) = self.span.take() else { return };
        match command {
            Command::Replied { reply, .. } => used(&mut span, reply.usage),
            Command::AttemptFailed { fault, .. } => span.error = Some(fault.failure.code.clone()),
            Command::ToolReturned { outcome, .. } => {
                span.error = outcome.as_ref().err().map(|fault| fault.failure.code.clone());
            }
            Command::Answer { .. }
            | Command::Retry
            | Command::Renew { .. }
            | Command::Stand { .. }
            | Command::Hold { .. }
            | Command::Recall { .. }
            | Command::Withdraw { .. }
            | Command::Claim { .. }
            | Command::Delegate { .. }
            | Command::Revoke { .. }
            | Command::Cancel { .. }
            | Command::Signal { .. }
            | Command::Delta { .. }
            | Command::Noted { .. }
            | Command::Recover
            | Command::Rule
            | Command::Tick => {}
        }
        self.tell(*span);
    }

    fn tell(&self, mut span: Span) {
        if let Some(teller) = &self.teller {
            span.ended = teller.clock.now();
            teller.tracer.take(span);
        }
    }
}

impl Drop for Around {
    /// Work that is cut off is told, too.
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            span.error = Some("cancelled".into());
            self.tell(*span);
        }
    }
}

/// Tells of a reply that was had at once.
pub(in crate::engine) fn at_once(
    run: &Run,
    (turn, attempt, input): (u32, u32, &AgentInput),
    outcome: &Result<Reply, AttemptFault>,
    now: Millis,
    tracer: &dyn Tracer,
) {
    let place = Place::of(run);
    if !place.is_sampled {
        return;
    }
    let id = place.call(&format!("{}#{attempt}", input.key), now);
    let mut span = asked(&run.workflow, input, &place, (id, turn));
    (span.began, span.ended, span.is_call) = (now, now, false);
    match outcome {
        Ok(reply) => used(&mut span, reply.usage),
        Err(fault) => span.error = Some(fault.failure.code.clone()),
    }
    tracer.take(span);
}

/// A model is asked; or another agent, in a place of its own.
fn asked(
    workflow: &Workflow,
    input: &AgentInput,
    place: &Place,
    (id, turn): ([u8; 8], u32),
) -> Span {
    let model = workflow.models.get(&input.model);
    let provider = model.map_or("", |model| model.provider.as_str());
    let named = model.and_then(named).unwrap_or(&input.model);
    let is_remote = provider == "a2a";
    let (operation, of) =
        if is_remote { ("invoke_agent", input.agent.as_str()) } else { ("chat", named) };
    let mut span = place.span(id, Some(place.turn(turn)), format!("{operation} {of}"));
    span.is_call = true;
    let about = &mut span.attributes;
    about.push(("gen_ai.operation.name", operation.into()));
    about.push(("gen_ai.provider.name", known(provider, model).into()));
    about.push(("gen_ai.agent.name", input.agent.as_str().into()));
    if !is_remote {
        about.push(("gen_ai.request.model", named.into()));
    }
    if input.output.is_some() {
        about.push(("gen_ai.output.type", "json".into()));
    }
    span
}

/// The model's name at its provider; a recording has it from the model that it is of.
fn named(model: &Model) -> Option<&str> {
    let settings = model.settings.get("of").unwrap_or(&model.settings);
    settings.get("model").and_then(Value::as_str)
}

/// A provider by the name that the conventions have for it.
fn known<'a>(provider: &'a str, model: Option<&'a Model>) -> &'a str {
    match provider {
        "openai_chat" | "openai_responses" => "openai",
        "recorded" => {
            let of = model.and_then(|model| model.settings.get("of")?.get("provider")?.as_str());
            of.map_or("recorded", |of| known(of, None))
        }
        other => other,
    }
}

fn called(workflow: &Workflow, call: &ToolCall, place: &Place, (id, turn): ([u8; 8], u32)) -> Span {
    let name = format!("execute_tool {}", call.tool);
    let mut span = place.span(id, Some(place.turn(turn)), name);
    let about = &mut span.attributes;
    about.push(("gen_ai.operation.name", "execute_tool".into()));
    about.push(("gen_ai.tool.name", call.tool.as_str().into()));
    about.push(("gen_ai.tool.call.id", call.id.as_str().into()));
    about.push(("gen_ai.tool.type", "extension".into()));
    if let Some(tool) = workflow.tools.get(&call.tool) {
        about.push(("holdpoint.tool.provider", tool.provider.as_str().into()));
    }
    span
}

fn used(span: &mut Span, usage: Usage) {
    if usage.is_nothing() {
        return;
    }
    span.attributes.push(("gen_ai.usage.input_tokens", usage.input_tokens.into()));
    span.attributes.push(("gen_ai.usage.output_tokens", usage.output_tokens.into()));
}

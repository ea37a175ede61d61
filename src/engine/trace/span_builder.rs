//! Span builder: reads a run's events as they become durable, and tells what is over: steps, waits for
//! people, and at last the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::narrate::Published;
use crate::engine::trace::place::Place;
use crate::kernel::{Closing, Event, Kind, Millis, Question, Run, Status, Trace, Turn, Version};
use crate::ports::trace::{Attribute, Happening, Span, Tracer};

/// What is told of the way of one step; a step with more has long told its story.
const HAPPENINGS_MAX: usize = 32;

/// What is open in a run: steps and questions.
#[derive(Debug)]
pub(in crate::engine) struct SpanBuilder {
    place: Place,
    /// Events up to here were told before, or by the run that this one was forked from.
    told: Version,
    turns: BTreeMap<u32, OpenTurn>,
    waits: BTreeMap<u32, OpenWait>,
}

#[derive(Debug)]
struct OpenTurn {
    step: String,
    agent: String,
    began: Millis,
    attempts: u32,
    happenings: Vec<Happening>,
}

#[derive(Debug)]
struct OpenWait {
    request: String,
    kind: Kind,
    step: String,
    turn: Option<u32>,
    asked: Millis,
}

impl SpanBuilder {
    /// For a run that begins: nothing was told yet.
    pub(in crate::engine) fn begins(run: &Run) -> Self {
        let (turns, waits) = (BTreeMap::new(), BTreeMap::new());
        Self { place: Place::of(run), told: 0, turns, waits }
    }

    /// For a run that is taken up where it stands.
    pub(in crate::engine) fn takes_up(run: &Run) -> Self {
        let turns = run.turns.values().map(|turn| (turn.number, open_turn(turn))).collect();
        let waits = run.questions.values().map(|asked| (asked.ordinal, open_wait(run, asked)));
        Self { place: Place::of(run), told: run.version, turns, waits: waits.collect() }
    }

    /// Takes what has just become durable; `from` is where the command came from.
    pub(in crate::engine) fn take(
        &mut self,
        run: &Run,
        batch: &[Arc<Published>],
        from: Option<&Trace>,
        tracer: &dyn Tracer,
    ) {
        let told = self.told;
        for published in batch.iter().filter(|it| it.sequence > told) {
            for span in self.spans(run, published, from) {
                if self.place.is_sampled {
                    tracer.take(span);
                }
            }
        }
    }

    fn spans(&mut self, run: &Run, published: &Published, from: Option<&Trace>) -> Vec<Span> {
        let at = published.at;
        match &*published.event {
            Event::StepStarted { turn, step, agent, attempt, .. } => {
                let open = self.turns.entry(*turn).or_insert_with(|| OpenTurn {
                    step: step.clone(),
                    agent: agent.clone(),
                    began: at,
                    attempts: 1,
                    happenings: Vec::new(),
                });
                open.attempts = *attempt;
                Vec::new()
            }
            Event::StepFailed { turn, failure, retry_at, interrupted, .. } => {
                let name = if *interrupted { "interrupted" } else { "attempt_failed" };
                let code = Attribute::Text(failure.code.clone());
                self.happened(*turn, name, at, vec![("error.type", code)]);
                let is_last = retry_at.is_none() && !interrupted && !run.turns.contains_key(turn);
                if is_last { self.turn_over(*turn, at, Some(&failure.code)) } else { Vec::new() }
            }
            Event::HandedOff { turn, to, .. } => {
                let to = Attribute::Text(to.clone());
                self.happened(*turn, "handoff", at, vec![("gen_ai.agent.name", to)]);
                Vec::new()
            }
            Event::StepCompleted { turn, .. } => self.turn_over(*turn, at, None),
            Event::Asked(question) => {
                let wait = OpenWait { asked: at, ..open_wait(run, question) };
                self.waits.insert(question.ordinal, wait);
                Vec::new()
            }
            Event::Answered { ordinal, .. } => {
                let link = from.cloned();
                self.wait_over(*ordinal, at, "answered")
                    .into_iter()
                    .map(|it| Span { link: link.clone(), ..it })
                    .collect()
            }
            Event::Closed { ordinal, closing, .. } => self.wait_over(*ordinal, at, word(*closing)),
            Event::Completed | Event::Failed(_) | Event::Cancelled { .. } => self.run_over(run, at),
            Event::Started(_)
            | Event::Delta { .. }
            | Event::Noted { .. }
            | Event::MessageAdded { .. }
            | Event::ToolCalled { .. }
            | Event::ToolReturned { .. }
            | Event::Voted { .. }
            | Event::Claimed(_)
            | Event::Delegated(_)
            | Event::Reminded { .. }
            | Event::Stood { .. }
            | Event::Held { .. }
            | Event::Escalated { .. }
            | Event::Revoked { .. }
            | Event::Renewed { .. }
            | Event::Ruled(_)
            | Event::StepOpened { .. }
            | Event::StepOutcome { .. }
            | Event::StepClosed { .. }
            | Event::Signalled { .. }
            | Event::CheckpointSaved
            | Event::Parked
            | Event::Output { .. }
            | Event::Warned(_) => Vec::new(),
        }
    }

    fn happened(
        &mut self,
        turn: u32,
        name: &'static str,
        at: Millis,
        attributes: Vec<(&'static str, Attribute)>,
    ) {
        if let Some(open) = self.turns.get_mut(&turn)
            && open.happenings.len() < HAPPENINGS_MAX
        {
            open.happenings.push(Happening { name, at, attributes });
        }
    }

    fn turn_over(&mut self, number: u32, at: Millis, error: Option<&str>) -> Vec<Span> {
        let Some(open) = self.turns.remove(&number) else { return Vec::new() };
        let is_tools = open.agent.is_empty();
        let name = if is_tools {
            format!("step {}", open.step)
        } else {
            format!("invoke_agent {}", open.agent)
        };
        let mut span = self.place.span(self.place.turn(number), Some(self.place.run()), name);
        if !is_tools {
            span.attributes.push(("gen_ai.operation.name", "invoke_agent".into()));
            span.attributes.push(("gen_ai.agent.name", open.agent.into()));
        }
        span.attributes.push(("holdpoint.step.id", open.step.into()));
        span.attributes.push(("holdpoint.attempts", u64::from(open.attempts).into()));
        (span.began, span.ended) = (open.began, at);
        span.events = open.happenings;
        span.error = error.map(str::to_owned);
        vec![span]
    }

    fn wait_over(&mut self, ordinal: u32, at: Millis, outcome: &str) -> Vec<Span> {
        let Some(wait) = self.waits.remove(&ordinal) else { return Vec::new() };
        let parent = wait.turn.map_or_else(|| self.place.run(), |turn| self.place.turn(turn));
        let name = "wait_for_person".to_owned();
        let mut span = self.place.span(self.place.wait(ordinal), Some(parent), name);
        span.attributes.push(("holdpoint.step.id", wait.step.into()));
        span.attributes.push(("holdpoint.request.id", wait.request.into()));
        span.attributes.push(("holdpoint.request.kind", wait.kind.word().into()));
        span.attributes.push(("holdpoint.request.outcome", outcome.into()));
        (span.began, span.ended) = (wait.asked, at);
        vec![span]
    }

    fn run_over(&mut self, run: &Run, at: Millis) -> Vec<Span> {
        let (outcome, error) = match &run.status {
            Status::Failed(failure) => ("its run failed", Some(failure.code.clone())),
            Status::Cancelled { .. } => ("its run was cancelled", Some("cancelled".to_owned())),
            Status::Completed | Status::Running | Status::Waiting { .. } => {
                ("its run is over", None)
            }
        };
        let turns: Vec<u32> = self.turns.keys().copied().collect();
        let waits: Vec<u32> = self.waits.keys().copied().collect();
        let mut spans = Vec::new();
        for ordinal in waits {
            spans.extend(self.wait_over(ordinal, at, outcome));
        }
        for number in turns {
            spans.extend(self.turn_over(number, at, error.as_deref()));
        }
        let name = format!("invoke_workflow {}", run.workflow.name);
        let mut span = self.place.span(self.place.run(), None, name);
        let attributes: [(&'static str, Attribute); 6] = [
            ("gen_ai.operation.name", "invoke_workflow".into()),
            ("gen_ai.workflow.name", run.workflow.name.as_str().into()),
            ("holdpoint.workflow.version", run.definition.as_str().into()),
            ("holdpoint.run.status", run.status.word().into()),
            ("gen_ai.usage.input_tokens", run.usage.input_tokens.into()),
            ("gen_ai.usage.output_tokens", run.usage.output_tokens.into()),
        ];
        span.attributes.extend(attributes);
        if let Some((from, _)) = &run.forked_from {
            span.attributes.push(("holdpoint.forked_from", from.as_str().into()));
        }
        (span.began, span.ended) = (run.started_at, at);
        span.error = error;
        spans.push(span);
        spans
    }
}

fn open_turn(turn: &Turn) -> OpenTurn {
    OpenTurn {
        step: turn.step.clone(),
        agent: turn.agent.clone(),
        began: turn.began_at,
        attempts: turn.attempt,
        happenings: Vec::new(),
    }
}

fn open_wait(run: &Run, question: &Question) -> OpenWait {
    OpenWait {
        request: run.request(question.ordinal).to_string(),
        kind: question.kind,
        step: question.step.clone(),
        turn: question.turn,
        asked: question.asked_at,
    }
}

fn word(closing: Closing) -> &'static str {
    match closing {
        Closing::Rejected => "rejected by silence",
        Closing::Passed => "passed by silence",
        Closing::Withdrawn => "withdrawn",
        Closing::Moot => "moot",
    }
}

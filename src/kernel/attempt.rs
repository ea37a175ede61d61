//! Attempt: what follows when a try of a step has failed: another one after a pause, or the end. What made it fail is
//! not looked at here.

use crate::kernel::command::AttemptFault;
use crate::kernel::event::Event;
use crate::kernel::failure::{Failure, Undone};
use crate::kernel::run::Run;
use crate::kernel::terms::Retry;
use crate::kernel::time::Millis;
use crate::kernel::tool::Safety;
use crate::kernel::turn::Turn;
use crate::kernel::workflow::Pattern;

/// What happens when an attempt of a turn fails: its step's own policy, or its agent's.
fn policy_of(run: &Run, turn: &Turn) -> Retry {
    let step = run.graph.step(&turn.step).and_then(|step| step.retry.clone());
    let agent = || run.workflow.agents.get(&turn.agent).map(|agent| agent.retry.clone());
    // E2: what may not be done twice is tried again only where the file says so.
    let made = turn.made().and_then(|call| run.workflow.tools.get(&call.tool));
    let once = made.filter(|tool| tool.safety == Safety::Unsafe);
    let once = once.map(|_| Retry { attempts: 1, ..Retry::default() });
    step.or_else(agent).or(once).unwrap_or_default()
}

/// What follows when a tool's own step came back with a failure. Whoever was told no, or does not
/// know, is not asked again by trying (K4).
pub(super) fn tool_failed(run: &Run, turn: &Turn, undone: &Undone, now: Millis) -> Vec<Event> {
    let (failure, retriable) = (undone.failure.clone(), undone.why.may_retry());
    failed(run, turn, &AttemptFault { failure, retriable }, now)
}

/// What follows when an attempt of a turn has failed.
pub(super) fn failed(run: &Run, turn: &Turn, fault: &AttemptFault, now: Millis) -> Vec<Event> {
    let policy = policy_of(run, turn);
    let tries_left = turn.failures + 1 < policy.attempts;
    let retry_at = (fault.retriable && tries_left)
        .then(|| now.plus(backoff_ms(&policy, turn.failures, run.id.stem())));
    let mut events = vec![Event::StepFailed {
        turn: turn.number,
        attempt: turn.attempt,
        failure: fault.failure.clone(),
        retry_at,
        interrupted: false,
    }];
    let is_graph = matches!(run.workflow.pattern, Pattern::Graph(_));
    if retry_at.is_none() && !is_graph && !turn.is_judges() {
        events.push(Event::Failed(Failure::new(
            "step.failed",
            format!("step `{}` failed: {}", turn.step, fault.failure.message),
        )));
    }
    events
}

/// Doubles with every failure up to the file's bound; up to a quarter is taken off by the run's own
/// name, so that many runs that failed together do not come back together, and a test knows the
/// figure beforehand.
fn backoff_ms(policy: &Retry, failures: u32, stem: &str) -> u64 {
    let base = policy.backoff_ms.saturating_mul(1 << failures.min(20)).min(policy.backoff_ms_max);
    let spread =
        stem.bytes().fold(u64::from(failures), |sum, byte| sum * 31 % 1009 + u64::from(byte));
    base - base / 4 * (spread % 101) / 100
}

//! Resources: what a caller asks for by name, as the wire has it: sessions, runs, grants, checkpoints and
//! workflows. Events and questions are turned in `convert`.

use std::collections::BTreeSet;

use crate::api::convert::{failure, forked, waiting};
use crate::api::times::time;
use crate::engine::{CheckpointView, Engine, Entry, SessionView, Waiting};
use crate::kernel::workflow::Pattern;
use crate::kernel::{Grant, InForceRule, Principal, Run, Status};
use crate::ports::{Head, HeadStatus};
use crate::wire::json::Json;
use crate::wire::v1 as pb;

pub(super) fn session(view: &SessionView) -> pb::Session {
    let waits: Vec<_> = view.runs.iter().filter_map(Waiting::of_head).collect();
    pb::Session {
        session_id: view.row.session.to_string(),
        owner: view.row.owner.clone(),
        started_at: Some(time(view.row.started_at)),
        workflow_waiting: waits.first().map(waiting),
        waiting_run_ids: waits.iter().map(|waiting| waiting.run.to_string()).collect(),
    }
}

/// The signals that a run waits for, each once.
pub(super) fn signals_awaited(run: &Run) -> Vec<String> {
    let names = run.graph.signals_awaited().into_iter().map(|(_, name)| name);
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// When a run that asks nobody goes on by itself.
pub(super) fn wakes_at(run: &Run) -> Option<prost_types::Timestamp> {
    let asks_nobody = matches!(run.status, Status::Waiting { .. }) && run.questions.is_empty();
    run.wake_at().filter(|_| asks_nobody).map(time)
}

pub(super) fn run(head: &Head) -> pb::Run {
    let (status, why) = match &head.status {
        HeadStatus::Running => (pb::RunStatus::Running, None),
        HeadStatus::Waiting(_) => (pb::RunStatus::Waiting, None),
        HeadStatus::Completed => (pb::RunStatus::Completed, None),
        HeadStatus::Failed(why) => (pb::RunStatus::Failed, Some(failure(why))),
        HeadStatus::Cancelled(_) => (pb::RunStatus::Cancelled, None),
    };
    pb::Run {
        run_id: head.run.to_string(),
        session_id: head.session.to_string(),
        workflow_id: head.workflow.clone(),
        workflow_version: head.definition.clone(),
        status: status.into(),
        sequence: head.version,
        started_at: Some(time(head.started_at)),
        updated_at: Some(time(head.updated_at)),
        workflow_waiting: Waiting::of_head(head).as_ref().map(waiting),
        failure: why,
        owner: head.owner.clone(),
        metadata: head.metadata.clone().into_iter().collect(),
        steps: head.turns,
        forked_from_checkpoint_id: forked(head.forked_from.as_ref()),
        spent: Some(pb::Spent {
            steps: head.spent.steps,
            model_calls: head.spent.model_calls,
            tokens: head.spent.tokens,
            tool_calls: head.spent.tool_calls,
            wall_ms: head.spent.wall_ms,
        }),
        usage: None,
    }
}

/// A gate in force, or lifted.
pub(super) fn rule(rule: InForceRule) -> pb::RuleInForce {
    let InForceRule { gate, from, means, is_lifted } = rule;
    pb::RuleInForce { gate, from, means, lifted: is_lifted }
}

pub(super) fn grant(grant: &Grant) -> pb::Grant {
    pb::Grant {
        tool: grant.tool.clone(),
        principal: grant.by.clone(),
        time: Some(time(grant.at)),
        until: grant.until.map(time),
        covers: grant.words(),
    }
}

pub(super) fn checkpoint(view: &CheckpointView) -> pb::Checkpoint {
    pb::Checkpoint {
        checkpoint_id: view.run.checkpoint(view.version),
        run_id: view.run.to_string(),
        sequence: view.version,
        time: Some(time(view.at)),
        workflow_waiting: view.waiting.as_ref().map(waiting),
        conversation_length: u32::try_from(view.messages).unwrap_or(u32::MAX),
    }
}

pub(super) fn workflow(entry: &Entry) -> pb::Workflow {
    let workflow = &entry.workflow;
    let pattern = match &workflow.pattern {
        Pattern::Sequential { .. } => "sequential",
        Pattern::Coordinator { .. } => "coordinator",
        Pattern::Handoff(_) => "handoff",
        Pattern::Graph(_) => "graph",
    };
    pb::Workflow {
        workflow_id: workflow.name.clone(),
        description: workflow.description.clone(),
        version: entry.digest.clone(),
        pattern: pattern.into(),
        agents: workflow.agents.keys().cloned().collect(),
        input_schema: workflow.input.as_ref().map(Json::from),
        request_types: workflow.request_types.keys().cloned().collect(),
        tools: workflow.tools.keys().cloned().collect(),
    }
}

/// The workflows that somebody may see, and those of them whose files are broken.
pub(super) fn workflows(engine: &Engine, who: &Principal) -> pb::ListWorkflowsResponse {
    let workflows = engine.workflows(who).iter().map(workflow).collect();
    let broken = engine.library().broken().into_iter();
    let broken = broken.filter(|one| who.covers(&one.workflow)).map(|one| pb::BrokenFile {
        file: one.file,
        workflow_id: one.workflow,
        why: one.why,
        has_earlier: one.has_earlier,
    });
    pb::ListWorkflowsResponse { workflows, broken: broken.collect() }
}

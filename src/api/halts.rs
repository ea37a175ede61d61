//! Halts: what is stopped, and a store that is let go on, between the engine and gRPC.

use tonic::Status;

use crate::api::status;
use crate::api::times::time;
use crate::engine::{Engine, HaltRequest, KeptHead};
use crate::kernel::{Halt, Principal, Refusal, Run, Scope, halt};
use crate::wire::v1 as pb;
use pb::halt::Scope as Told;
use pb::halt_request::Scope as Wished;

pub(super) async fn halt(
    engine: &Engine,
    request: pb::HaltRequest,
    who: &Principal,
) -> Result<pb::HaltResponse, Status> {
    let scope = match request.scope {
        Some(Wished::All(true)) => Scope::All,
        Some(Wished::WorkflowId(name)) => Scope::Workflow(name),
        Some(Wished::Tool(name)) => Scope::Tool(name),
        Some(Wished::Agent(name)) => Scope::Agent(name),
        Some(Wished::All(false)) | None => {
            let remedy = "say what to stop: `all: true`, a workflow, a tool or an agent";
            return Err(status::of(Refusal::invalid("scope", remedy).into()));
        }
    };
    let wish = HaltRequest { scope, reason: request.reason, key: request.idempotency_key };
    let halt = engine.halt(wish, who).await.map_err(status::of)?;
    Ok(pb::HaltResponse { halt: Some(told(&halt)) })
}

pub(super) async fn release(
    engine: &Engine,
    request: &pb::ReleaseHaltRequest,
    who: &Principal,
) -> Result<pb::ReleaseHaltResponse, Status> {
    let halt = engine.release_halt(&request.halt_id, who).await.map_err(status::of)?;
    Ok(pb::ReleaseHaltResponse { halt: Some(told(&halt)) })
}

pub(super) async fn release_store(
    engine: &Engine,
    request: &pb::ReleaseStoreRequest,
    who: &Principal,
) -> Result<pb::ReleaseStoreResponse, Status> {
    let done = engine.release_store(request.forget_head, who).await.map_err(status::of)?;
    let told = |KeptHead { origin, leaves, root }| pb::KeptHead { origin, leaves, root };
    Ok(pb::ReleaseStoreResponse {
        was_held: done.was_held,
        heads: done.heads.into_iter().map(told).collect(),
        heads_forgotten: done.are_forgotten,
    })
}

pub(super) fn list(engine: &Engine) -> pb::ListHaltsResponse {
    pb::ListHaltsResponse { halts: engine.halts_listed().0.iter().map(told).collect() }
}

/// Those that a run stands at.
pub(super) fn standing(engine: &Engine, run: &Run) -> Vec<pb::Halt> {
    halt::standing(&engine.halts(), run).into_iter().map(told).collect()
}

fn told(halt: &Halt) -> pb::Halt {
    let scope = match &halt.scope {
        Scope::All => Told::All(true),
        Scope::Workflow(name) => Told::WorkflowId(name.clone()),
        Scope::Tool(name) => Told::Tool(name.clone()),
        Scope::Agent(name) => Told::Agent(name.clone()),
    };
    pb::Halt {
        halt_id: halt.id.clone(),
        scope: Some(scope),
        reason: halt.reason.clone(),
        principal: halt.by.clone(),
        door: halt.door.clone(),
        time: Some(time(halt.at)),
    }
}

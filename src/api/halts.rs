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
    Ok(pb::HaltResponse { halt: Some(told(&halt, who)) })
}

pub(super) async fn release(
    engine: &Engine,
    request: &pb::ReleaseHaltRequest,
    who: &Principal,
) -> Result<pb::ReleaseHaltResponse, Status> {
    let pb::ReleaseHaltRequest { halt_id, reason } = request;
    let halt = engine.release_halt_for(halt_id, reason, who).await.map_err(status::of)?;
    Ok(pb::ReleaseHaltResponse { halt: Some(told(&halt, who)) })
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

pub(super) fn list(engine: &Engine, who: &Principal) -> pb::ListHaltsResponse {
    let halts = engine.halts_listed();
    pb::ListHaltsResponse {
        halts: halts.0.iter().map(|halt| told(halt, who)).collect(),
        store_held: engine.why_held().unwrap_or_default(),
    }
}

/// Those that a run stands at.
pub(super) fn standing(engine: &Engine, run: &Run, who: &Principal) -> Vec<pb::Halt> {
    let halts = engine.halts();
    halt::standing(&halts, run).into_iter().map(|halt| told(halt, who)).collect()
}

/// One, as somebody is told of it: where on a machine a server's data lies is for whoever operates that.
fn told(halt: &Halt, who: &Principal) -> pb::Halt {
    let (host, path) = halt.lies_at().unwrap_or_default();
    let path = if who.sees_store() { path } else { "" };
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
        host: host.to_owned(),
        path: path.to_owned(),
    }
}

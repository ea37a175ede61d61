//! Replicas: who shares the store, between the engine and gRPC.

use tonic::Status;

use crate::api::status;
use crate::api::times::time;
use crate::engine::Engine;
use crate::kernel::Principal;
use crate::ports::Replica;
use crate::wire::v1 as pb;

pub(super) async fn list(
    engine: &Engine,
    who: &Principal,
) -> Result<pb::ListReplicasResponse, Status> {
    let own = engine.replica_id();
    let listed = engine.replicas_listed(who).await.map_err(status::of)?;
    let replicas = listed.into_iter().map(|replica| told(replica, own.as_deref())).collect();
    Ok(pb::ListReplicasResponse { replicas })
}

fn told(replica: Replica, own: Option<&str>) -> pb::Replica {
    let id = replica.incarnation.0.to_string();
    pb::Replica {
        is_self: own == Some(id.as_str()),
        replica_id: id,
        name: replica.who.name,
        address: replica.who.address,
        version: replica.who.program,
        start_time: Some(time(replica.since)),
        beat_time: Some(time(replica.beaten)),
        runs_driven: replica.drives,
        draining: replica.is_draining,
    }
}

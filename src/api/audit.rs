//! Audit: who was asked what and who decided what, between the engine and gRPC.

use tonic::Status;

use crate::api::times::millis;
use crate::api::{convert, given, status};
use crate::engine::{AuditFilter, Engine};
use crate::kernel::{Principal, Refusal};
use crate::wire::v1 as pb;

pub(super) async fn list(
    engine: &Engine,
    request: pb::ListAuditRequest,
    who: &Principal,
) -> Result<pb::ListAuditResponse, Status> {
    let filter = AuditFilter {
        run: given(request.run_id),
        session: given(request.session_id),
        workflow: given(request.workflow_id),
        principal: given(request.principal),
        since: request.since.map(millis),
        until: request.until.map(millis),
    };
    let (token, size) = (&request.page_token, request.page_size);
    if request.store {
        if filter.run.is_some() || filter.session.is_some() || filter.workflow.is_some() {
            let remedy =
                "the store's own log is of no run: leave run_id, session_id and workflow_id out";
            return Err(status::refused(&Refusal::invalid("store", remedy)));
        }
        let page = engine.log(&filter, token, size, who).await.map_err(status::of)?;
        return Ok(pb::ListAuditResponse {
            entries: page.rows.iter().map(convert::logged).collect(),
            next_page_token: page.next.unwrap_or_default(),
        });
    }
    let page = engine.audit(&filter, token, size, who).await.map_err(status::of)?;
    Ok(pb::ListAuditResponse {
        entries: page.rows.iter().map(convert::audit_entry).collect(),
        next_page_token: page.next.unwrap_or_default(),
    })
}

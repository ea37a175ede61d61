//! Audit: who was asked what and who decided what, between the engine and gRPC.

use tonic::Status;

use crate::api::listings::fitting;
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
    let (filter, token, size) = (&filter, &request.page_token, request.page_size);
    if request.store {
        if filter.run.is_some() || filter.session.is_some() || filter.workflow.is_some() {
            let remedy =
                "the store's own log is of no run: leave run_id, session_id and workflow_id out";
            return Err(status::refused(&Refusal::invalid("store", remedy)));
        }
        return fitting(size, |size| async move {
            let page = engine.log(filter, token, size, who).await.map_err(status::of)?;
            let entries: Vec<_> = page.rows.iter().map(convert::logged).collect();
            let (rows, next_page_token) = (entries.len(), page.next.unwrap_or_default());
            Ok((pb::ListAuditResponse { entries, next_page_token }, rows))
        })
        .await;
    }
    fitting(size, |size| async move {
        let page = engine.audit(filter, token, size, who).await.map_err(status::of)?;
        let entries: Vec<_> = page.rows.iter().map(convert::audit_entry).collect();
        let (rows, next_page_token) = (entries.len(), page.next.unwrap_or_default());
        Ok((pb::ListAuditResponse { entries, next_page_token }, rows))
    })
    .await
}

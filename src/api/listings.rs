//! Listings: pages of runs, sessions and requests for gRPC, none of which is larger than what a client takes unless it
//! was told otherwise. What is in them is the engine's to say.

use std::future::Future;

use prost::Message;
use tonic::Status;

use crate::api::times::millis;
use crate::api::{convert, given, resources, status};
use crate::engine::{Engine, InboxFilter};
use crate::kernel::{Kind, Principal, Refusal, SessionId};
use crate::ports::RunFilter;
use crate::wire::v1 as pb;

/// Clients of gRPC take 4 MiB by default; a page that is larger is an error to them, and not a page.
const PAGE_BYTES_MAX: usize = 3 << 20;

/// A page with as many rows as were asked for, or as fit: whoever wants the others has a token for them.
pub(super) async fn fitting<Reply: Message, Told>(
    mut size: i32,
    ask: impl Fn(i32) -> Told + Send,
) -> Result<Reply, Status>
where
    Told: Future<Output = Result<(Reply, usize), Status>> + Send,
{
    let mut before = usize::MAX;
    loop {
        let (reply, rows) = ask(size).await?;
        // What cannot be made smaller is told as it is.
        if rows <= 1 || rows >= before || reply.encoded_len() <= PAGE_BYTES_MAX {
            return Ok(reply);
        }
        before = rows;
        size = i32::try_from(rows / 2).unwrap_or(1);
    }
}

pub(super) async fn runs(
    engine: &Engine,
    request: pb::ListRunsRequest,
    who: &Principal,
) -> Result<pb::ListRunsResponse, Status> {
    let filter = RunFilter {
        owner: None,
        session: match request.session_id.as_str() {
            "" => None,
            given => Some(SessionId::parse(given).map_err(|bad| {
                status::refused(&Refusal::invalid("session_id", bad.to_string()))
            })?),
        },
        workflow: given(request.workflow_id),
        status: match pb::RunStatus::try_from(request.status) {
            Ok(pb::RunStatus::Unspecified) => None,
            Ok(one) => one.as_str_name().strip_prefix("RUN_STATUS_").map(str::to_owned),
            Err(_) => return Err(unknown_enum("status")),
        },
    };
    let (filter, token) = (&filter, &request.page_token);
    fitting(request.page_size, |size| async move {
        let page = engine.runs(filter.clone(), token, size, who).await.map_err(status::of)?;
        let runs: Vec<_> = page.rows.iter().map(resources::run).collect();
        let (rows, next_page_token) = (runs.len(), page.next.unwrap_or_default());
        Ok((pb::ListRunsResponse { runs, next_page_token }, rows))
    })
    .await
}

pub(super) async fn sessions(
    engine: &Engine,
    request: pb::ListSessionsRequest,
    who: &Principal,
) -> Result<pb::ListSessionsResponse, Status> {
    let token = &request.page_token;
    fitting(request.page_size, |size| async move {
        let page = engine.sessions(token, size, who).await.map_err(status::of)?;
        let sessions: Vec<_> = page.rows.iter().map(resources::session).collect();
        let (rows, next_page_token) = (sessions.len(), page.next.unwrap_or_default());
        Ok((pb::ListSessionsResponse { sessions, next_page_token }, rows))
    })
    .await
}

pub(super) async fn requests(
    engine: &Engine,
    request: pb::ListRequestsRequest,
    who: &Principal,
) -> Result<pb::ListRequestsResponse, Status> {
    let filter = InboxFilter {
        session: given(request.session_id),
        workflow: given(request.workflow_id),
        kind: kind_of(request.kind)?,
        named: given(request.r#type),
        principal: given(request.principal),
        deadline_before: request.deadline_before.map(millis),
        asked_before: request.asked_before.map(millis),
    };
    let (filter, token) = (&filter, &request.page_token);
    fitting(request.page_size, |size| async move {
        let page = engine.inbox_page(who, filter, token, size).await.map_err(status::of)?;
        let opened = |open| convert::open_request(open, engine.admits(open, who));
        let requests: Vec<_> = page.rows.iter().map(opened).collect();
        let (rows, next_page_token) = (requests.len(), page.next.unwrap_or_default());
        Ok((pb::ListRequestsResponse { requests, next_page_token }, rows))
    })
    .await
}

pub(super) fn kind_of(kind: i32) -> Result<Option<Kind>, Status> {
    let one = pb::RequestKind::try_from(kind).map_err(|_| unknown_enum("kind"))?;
    Ok(Kind::ALL.into_iter().find(|known| convert::kind(*known) == one))
}

fn unknown_enum(field: &str) -> Status {
    status::refused(&Refusal::invalid(field, "expected one of the enum's values"))
}

//! Large pages: a listing of runs with large inputs comes in pages that a client takes which was told nothing of sizes,
//! and all of them together are the listing.

use std::collections::BTreeSet;

use holdpoint::wire::v1::{
    ListAuditRequest, ListRequestsRequest, ListRunsRequest, ListSessionsRequest,
};
use tempfile::TempDir;

use crate::support::server::{Server, run, start_of};

/// Together more than 4 MiB, which is what gRPC takes unless it is told otherwise.
const RUNS: usize = 12;
const WORDS: usize = 450_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_any_listing_is_no_larger_than_a_client_takes() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    let mut client = server.client().await;
    let mut begun = BTreeSet::new();
    for _ in 0..RUNS {
        let events =
            run(&mut client, start_of("approve_and_send", "", &"w".repeat(WORDS), "")).await;
        begun.insert(events[0].run_id.clone());
    }
    let (mut runs, mut requests) = (BTreeSet::new(), BTreeSet::new());
    let (mut sessions, mut entries) = (0, 0);
    let mut page_token = String::new();
    loop {
        let request = ListRunsRequest { page_token, ..Default::default() };
        let page = client.list_runs(request).await.unwrap().into_inner();
        runs.extend(page.runs.into_iter().map(|run| run.run_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    loop {
        let request = ListRequestsRequest { page_token, ..Default::default() };
        let page = client.list_requests(request).await.unwrap().into_inner();
        requests.extend(page.requests.into_iter().map(|request| request.run_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    loop {
        let request = ListSessionsRequest { page_token, ..Default::default() };
        let page = client.list_sessions(request).await.unwrap().into_inner();
        sessions += page.sessions.len();
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    loop {
        let request = ListAuditRequest { page_token, ..Default::default() };
        let page = client.list_audit(request).await.unwrap().into_inner();
        entries += page.entries.len();
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!((&runs, &requests), (&begun, &begun), "each once, and all of them");
    assert_eq!(sessions, RUNS);
    assert!(entries >= RUNS, "{entries}");
}

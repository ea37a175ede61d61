//! Forged questions: a program that knows the stored form changes what a run's head asks, and leaves the journal as it is.
//! Nobody is shown it beside the digest of something else, and nobody's word to it is taken (K3). What is changed in
//! journals is in `forged`.

use std::path::Path;
use std::sync::Arc;

use holdpoint::kernel::{Event, Question, RunId};
use holdpoint::store::{codec, keys};
use holdpoint::wire::v1::{
    GetRunRequest, ListRequestsRequest, ListRunsRequest, Request, SendResponsesRequest,
};
use tempfile::TempDir;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::store::sled::raw;
use crate::support::server::{Client, Server, asked, names, run, send, start_of};
use crate::terminal::cli::holdpoint;

const ASKED: &str = "Pay this?";
const FORGED: &str = "Pay nothing?";

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

fn approves(request: &Request, digest: &str) -> SendResponsesRequest {
    let id = request.request_id.clone();
    SendResponsesRequest {
        responses: [(id.clone(), "approve".into())].into(),
        digests: [(id, digest.to_owned())].into(),
        ..Default::default()
    }
}

async fn listed(client: &mut Client) -> Vec<Request> {
    let request = ListRequestsRequest::default();
    client.list_requests(request).await.unwrap().into_inner().requests
}

/// Changes what a run's head asks, with the record's checksum right; the digest stays, or is made to fit. Returns the
/// digest that stands there now.
fn forge(data: &Path, run: &RunId, fits: bool) -> String {
    let db = raw(data);
    let packed = keys::pack(run).unwrap();
    let (key, first) = (keys::head(&packed), keys::entry(&packed, 1));
    let mut stored = codec::unseal_head(&key, &db.get(&key).unwrap().unwrap()).unwrap();
    let [question] = stored.head.questions.as_mut_slice() else { panic!("it asks one thing") };
    let forged = Question { prompt: FORGED.into(), ..(**question).clone() };
    let begun = codec::unseal_events(&first, &db.get(&first).unwrap().unwrap(), 1).unwrap();
    let Event::Started(started) = &begun[0].event else { panic!("a journal begins with it") };
    let fitting = started.sealed(run, &forged, forged.asked_at);
    assert_eq!(fitting.nonce, forged.nonce, "the seed is the journal's");
    assert_ne!(fitting.digest, forged.digest);
    *question = Arc::new(if fits { fitting } else { forged });
    let digest = question.digest.clone();
    let beside = (stored.fence, stored.key.as_deref(), stored.apart);
    let json = codec::head_json(&stored.head).unwrap();
    let record = codec::seal_linked_head(&key, stored.link.unwrap(), beside, &json);
    db.insert(&key, record).unwrap();
    db.flush().unwrap();
    digest
}

/// Two runs that wait, the head of the first of them forged; what they asked, and the digest that stands in that head.
async fn stage(root: &Path, fits: bool) -> (Server, [Request; 2], String) {
    let mut server = Server::start(root);
    let mut client = server.client().await;
    let mut open = Vec::new();
    for input in ["paper", "ink"] {
        let events = run(&mut client, start_of("errand", "", input, "")).await;
        open.push(asked(&events).unwrap());
    }
    // Stopped, not killed: what is still in the write-ahead log would mend it.
    server.terminate();
    server.wait();
    let forged = RunId::parse(&open[0].run_id).unwrap();
    let digest = forge(&root.join("data"), &forged, fits);
    server.restart();
    (server, open.try_into().unwrap(), digest)
}

/// An answer to the first is refused, whatever it says it was shown, nothing of the run goes on, and the other one does.
async fn stands_still(mut server: Server, root: &Path, open: &[Request; 2], digest: &str) {
    let mut client = server.client().await;
    for shown in [digest, open[0].digest.as_str()] {
        let refused = client.send_responses(approves(&open[0], shown)).await.unwrap_err();
        assert_eq!((refused.code(), reason(&refused).as_str()), (Code::DataLoss, "run.damaged"));
    }
    let request = GetRunRequest { run_id: open[0].run_id.clone(), omit_conversation: false };
    assert_eq!(reason(&client.get_run(request).await.unwrap_err()), "run.damaged");
    let told = send(&mut client, approves(&open[1], &open[1].digest)).await;
    assert!(names(&told).contains(&"tool_result"), "{:?}", names(&told));
    assert!(server.told().contains(&open[0].run_id), "the log names it: {}", server.told());
    server.terminate();
    server.wait();
    let data = root.join("data");
    let told = holdpoint(root, &["verify", "--data", data.to_str().unwrap()], "");
    let is_found = told.out.contains(&open[0].run_id) && told.out.contains("its head at version");
    assert!(told.code == 1 && is_found, "nothing was written: {} {}", told.out, told.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k3_nobody_is_shown_a_question_beside_the_digest_of_another() {
    let root = TempDir::new().unwrap();
    let (server, open, digest) = stage(root.path(), false).await;
    assert_eq!(digest, open[0].digest, "the true one");
    let mut client = server.client().await;
    let shown = listed(&mut client).await;
    let [other] = shown.as_slice() else { panic!("the damaged one is left out: {shown:?}") };
    assert_eq!((&other.request_id, other.prompt.as_str()), (&open[1].request_id, ASKED));
    let runs = client.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs;
    assert!(!format!("{runs:?}").contains(FORGED), "nor where runs are listed: {runs:?}");
    stands_still(server, root.path(), &open, &digest).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k3_a_run_whose_head_asks_what_its_journal_does_not_takes_no_answer() {
    let root = TempDir::new().unwrap();
    let (server, open, digest) = stage(root.path(), true).await;
    assert_ne!(digest, open[0].digest, "one that fits what is forged");
    let shown = listed(&mut server.client().await).await;
    let forged = shown.iter().find(|request| request.run_id == open[0].run_id);
    if let Some(forged) = forged {
        assert_eq!(forged.digest, digest, "never beside that of what was asked");
    }
    stands_still(server, root.path(), &open, &digest).await;
}

//! Taken over: a store that the first complete build has written, killed at work with questions open. What
//! was asked then is answered by today's rules, and nothing of it passes by those of then. How the store was
//! made is in `tests/stores/first/make.py`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    ForkRunRequest, ListRequestsRequest, ListRunsRequest, Request, Run, RunStatus,
    SendResponsesRequest, WatchRunRequest, WorkflowEvent,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::{Code, Status};

use crate::consent::stage::refusal;
use crate::store::sled::raw;
use crate::support::server::{Client, Server, Setup, drained, journal, run, start_of};
use crate::terminal::cli::holdpoint;

/// A server of today's on that store.
struct Taken {
    server: Server,
    _root: TempDir,
    keys: BTreeMap<String, String>,
}

/// How that build ended: killed at work, or stopped as one should.
pub(crate) const ENDS: [&str; 2] = ["killed", "stopped"];

/// The store as the first complete build left it.
pub(crate) fn left(end: &str) -> (TempDir, BTreeMap<String, String>) {
    left_by("first", end)
}

/// The store as one of those builds left it.
fn left_by(build: &str, end: &str) -> (TempDir, BTreeMap<String, String>) {
    let root = TempDir::new().unwrap();
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores");
    let packed = stores.join(build).join(format!("{end}.tar.gz"));
    let tar = Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(root.path()).status();
    assert!(tar.unwrap().success(), "the store is unpacked");
    fs::create_dir(root.path().join("flows")).unwrap();
    for file in fs::read_dir(stores.join("first/flows")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap();
        fs::copy(&path, root.path().join("flows").join(name)).unwrap();
    }
    let keys = fs::read(root.path().join("secrets.json")).unwrap();
    (root, serde_json::from_slice(&keys).unwrap())
}

impl Taken {
    fn over(end: &str) -> Self {
        Self::of(left(end))
    }

    fn of((root, keys): (TempDir, BTreeMap<String, String>)) -> Self {
        let server = Setup::new(root.path()).arg("--keys=keys.toml").start();
        Self { server, _root: root, keys }
    }

    async fn client(&self, who: &str) -> Client {
        self.server.client_with(&self.keys[who]).await
    }

    /// What somebody's inbox has.
    async fn inbox(&self, who: &str) -> Vec<Request> {
        let request = ListRequestsRequest::default();
        self.client(who).await.list_requests(request).await.unwrap().into_inner().requests
    }

    /// The clerk's run of a workflow.
    async fn run_of(&self, workflow: &str) -> Run {
        let request = ListRunsRequest::default();
        let runs = self.client("clerk").await.list_runs(request).await.unwrap().into_inner().runs;
        runs.into_iter().find(|run| run.workflow_id == workflow).expect("the clerk began it")
    }

    /// What waits in a run, as this person sees it.
    async fn asked(&self, who: &str, workflow: &str) -> Option<Request> {
        let run = self.run_of(workflow).await.run_id;
        if workflow == "escalates" {
            // Its deadline was over long ago; the server acts on that in its own time.
            escalated(&mut self.client("clerk").await, &run).await;
        }
        self.inbox(who).await.into_iter().find(|request| request.run_id == run)
    }

    async fn answers(
        &self,
        who: &str,
        request: &Request,
        value: Value,
    ) -> Result<Vec<WorkflowEvent>, Status> {
        let id = request.request_id.clone();
        let message = SendResponsesRequest {
            responses: [(id.clone(), value.into())].into(),
            digests: [(id, request.digest.clone())].into(),
            ..Default::default()
        };
        drained(self.client(who).await.send_responses(message).await?.into_inner()).await
    }

    /// How many calls of a run came back.
    async fn deeds(&self, workflow: &str) -> usize {
        let run = self.run_of(workflow).await.run_id;
        let told = journal(&mut self.client("clerk").await, &run).await;
        let is_deed = |event: &&WorkflowEvent| matches!(event.event, Some(Event::ToolResult(_)));
        told.iter().filter(is_deed).count()
    }
}

/// Follows a run until somebody else is asked.
async fn escalated(client: &mut Client, run_id: &str) {
    let watch = WatchRunRequest { run_id: run_id.into(), through_pauses: true, after_sequence: 0 };
    let mut told = client.watch_run(watch).await.unwrap().into_inner();
    while let Some(event) = told.message().await.unwrap() {
        if matches!(event.event, Some(Event::RequestEscalated(_))) {
            return;
        }
    }
    panic!("nobody else was asked");
}

/// The decisions that were open for the CFO, and what a yes to each is.
const OPEN: [(&str, &str); 4] = [
    ("tool_gate", "allow_once"),
    ("step_gate", "approve"),
    ("approval", "approve"),
    ("escalates", "allow_once"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_the_first_build_asked_is_answered_by_whom_it_asks_and_done_once() {
    for end in ENDS {
        let mut taken = Taken::over(end);
        for (workflow, yes) in OPEN {
            let request = taken.asked("cfo", workflow).await;
            let request = request.unwrap_or_else(|| panic!("{workflow}: the CFO's inbox has it"));
            assert!(!request.digest.is_empty(), "{workflow}: what is shown has a digest");
            let answered = taken.answers("cfo", &request, json!(yes)).await;
            answered.unwrap_or_else(|status| panic!("{workflow}: {status:?}"));
            assert_eq!(taken.deeds(workflow).await, 1, "{workflow}");
        }
        taken.server.restart();
        for (workflow, _) in OPEN {
            assert_eq!(taken.run_of(workflow).await.status(), RunStatus::Completed, "{workflow}");
            assert_eq!(taken.deeds(workflow).await, 1, "{workflow}: once, after a restart too");
        }
    }
}

/// The builds whose stores are only named anew, the formats that those have, and how they ended.
fn earlier() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let builds = [("second", "holdpoint store 2"), ("third", "holdpoint store 3")].into_iter();
    builds.flat_map(|(build, format)| ENDS.map(|end| (build, format, end)))
}

/// The words that were said to the build before records were packed, which are more than one place holds.
fn many_words() -> String {
    (0..3000).map(|number| format!("Bill {number}.")).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_in_the_tree_is_read_answered_and_verified_and_what_is_written_since_beside_it() {
    for (build, was, end) in earlier() {
        let left = left_by(build, end);
        let root = left.0.path().to_path_buf();
        let format = || fs::read_to_string(root.join("data/format")).unwrap();
        assert_eq!(format().trim(), was);
        let mut taken = Taken::of(left);
        assert_eq!(format().trim(), "holdpoint store 4", "a build that cannot read it keeps off");
        for round in ["at once", "after a restart"] {
            let request =
                ListRunsRequest { session_id: "of-many-words".into(), ..Default::default() };
            let runs = taken.client("clerk").await.list_runs(request).await.unwrap().into_inner();
            let told = journal(&mut taken.client("clerk").await, &runs.runs[0].run_id).await;
            let is_whole = format!("{told:?}").contains(&many_words());
            assert!(is_whole, "{end}, {round}: what lies in many places is whole");
            taken.server.restart();
        }
        for (workflow, yes) in OPEN {
            let request = taken.asked("cfo", workflow).await.expect("the CFO's inbox has it");
            taken.answers("cfo", &request, json!(yes)).await.unwrap();
            assert_eq!(taken.deeds(workflow).await, 1, "{workflow}");
        }
        taken.server.restart();
        for (workflow, _) in OPEN {
            assert_eq!(taken.run_of(workflow).await.status(), RunStatus::Completed, "{workflow}");
            assert_eq!(taken.deeds(workflow).await, 1, "{workflow}: once, after a restart too");
        }
        taken.server.kill();
        let data = root.join("data");
        for look in ["verify", "doctor"] {
            let place = ["--data", data.to_str().unwrap(), "--keys", "keys.toml"];
            let told = holdpoint(&root, &[&[look][..], &place].concat(), "");
            assert_eq!(told.code, 0, "{end}: {look}: {}{}", told.out, told.err);
        }
        assert!(raw(&data).beside() > 0, "{end}: what is written since lies beside the tree");
    }
}

#[test]
fn e8_whoever_only_looks_at_an_earlier_form_leaves_it_to_the_build_that_wrote_it() {
    for (build, was, end) in earlier() {
        let (root, _) = left_by(build, end);
        let data = root.path().join("data");
        for look in ["verify", "doctor"] {
            let place = ["--data", data.to_str().unwrap(), "--keys", "keys.toml"];
            let told = holdpoint(root.path(), &[&[look][..], &place].concat(), "");
            assert_eq!(told.code, 0, "{end}: {look}: {}{}", told.out, told.err);
            let format = fs::read_to_string(data.join("format")).unwrap();
            assert_eq!(format.trim(), was, "{end}: {look}");
        }
        let written = raw(&data);
        let unread = if build == "second" { written.packed() } else { written.beside() };
        assert_eq!(unread, 0, "{build}, {end}: nothing that it could not read was written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_whole_wherever_the_first_to_write_it_anew_is_killed() {
    let points = ["store.before_renaming", "store.after_renaming"];
    let builds = ["second", "third"].into_iter();
    for (build, point) in builds.flat_map(|build| points.map(|point| (build, point))) {
        let (root, keys) = left_by(build, "killed");
        let armed = Setup::new(root.path()).arg("--keys=keys.toml").failpoint(point, 1);
        assert!(!armed.spawn().wait().unwrap().success(), "{point}: it dies there");
        let taken = Taken::of((root, keys));
        let request = taken.asked("cfo", "approval").await.expect("the CFO's inbox has it");
        taken.answers("cfo", &request, json!("approve")).await.unwrap();
        assert_eq!(taken.run_of("approval").await.status(), RunStatus::Completed, "{point}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_passes_what_the_first_build_asked_by_the_rules_of_then() {
    for end in ENDS {
        let taken = Taken::over(end);
        for (workflow, yes) in OPEN {
            let request = taken.asked("cfo", workflow).await.expect("the CFO's inbox has it");
            for who in ["clerk", "ops", "eve"] {
                let (code, _) = refusal(taken.answers(who, &request, json!(yes)).await);
                assert_ne!(code, Code::Ok, "K8: {workflow}: {who} was not asked");
            }
            // Words to the session, as the first build took them for a yes.
            let session = format!("of-{workflow}");
            let words = start_of(workflow, &session, "yes", "");
            let said = taken.client("clerk").await.run_workflow(words).await;
            if let Ok(stream) = said {
                drop(drained(stream.into_inner()).await);
            }
            assert_eq!(
                taken.deeds(workflow).await,
                0,
                "K9: {workflow}: words alone decide nothing"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_first_build_granted_is_asked_again() {
    for end in ENDS {
        let taken = Taken::over(end);
        assert_eq!(taken.deeds("granted").await, 1, "the first payment was made then");
        let talk = taken.asked("clerk", "granted").await.expect("it asks whether to go on");
        taken.answers("clerk", &talk, json!("Yes, go on.")).await.unwrap();
        assert_eq!(
            taken.deeds("granted").await,
            1,
            "K10: a grant without bounds admits to nothing"
        );
        let gate = taken.asked("clerk", "granted").await.expect("it asks about the million");
        assert!(gate.digest != talk.digest, "another question");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_of_the_first_build_looks_at_what_the_requester_cannot_choose() {
    for end in ENDS {
        let taken = Taken::over(end);
        let talk = taken.asked("clerk", "staged").await.expect("it asks which bill");
        taken.answers("clerk", &talk, json!("The seventh.")).await.unwrap();
        assert_eq!(
            taken.deeds("staged").await,
            0,
            "K12: where the environment is not set, it asks"
        );
        assert_eq!(taken.run_of("staged").await.status(), RunStatus::Waiting);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_the_first_build_lost_is_asked_about_and_a_no_of_then_still_counts() {
    for end in ENDS {
        let taken = Taken::over(end);
        let lost = taken.asked("clerk", "cut_off").await.expect("it asks what became of the call");
        assert_eq!(lost.kind().as_str_name(), "REQUEST_KIND_OUTCOME_CHECK");
        let refused = taken.run_of("refused").await.run_id;
        let fork = ForkRunRequest { run_id: refused, ..Default::default() };
        let (code, reason) = refusal(taken.client("clerk").await.fork_run(fork).await);
        assert_eq!((code, reason.as_str()), (Code::PermissionDenied, "answer.not_admitted"), "K11");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_the_first_build_goes_on_under_the_id_that_its_owner_gave() {
    for end in ENDS {
        let taken = Taken::over(end);
        let talk = taken.asked("clerk", "talk").await.expect("it asks which bill");
        taken.answers("clerk", &talk, json!("The seventh.")).await.unwrap();
        let mut clerk = taken.client("clerk").await;
        let more = run(&mut clerk, start_of("talk", "of-talk", "And another.", "")).await;
        assert_ne!(more[0].run_id, talk.run_id, "a run after the one that ended");
        let request = ListRunsRequest { session_id: "of-talk".into(), ..Default::default() };
        let runs = clerk.list_runs(request).await.unwrap().into_inner().runs;
        assert_eq!(runs.len(), 2, "both are of the one conversation");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_first_build_is_found_whole_and_can_be_carried_elsewhere() {
    for end in ENDS {
        let (root, _) = left(end);
        let doctor = holdpoint(root.path(), &["doctor", "--data", "data", "--json"], "");
        assert_eq!(doctor.code, 0, "{doctor:?}");
        let out = holdpoint(root.path(), &["export", "all.jsonl", "--data", "data"], "");
        assert_eq!(out.code, 0, "{out:?}");
        let back = holdpoint(root.path(), &["import", "all.jsonl", "--data", "other"], "");
        assert_eq!(back.code, 0, "{back:?}");
        let doctor = holdpoint(root.path(), &["doctor", "--data", "other"], "");
        assert_eq!(doctor.code, 0, "{doctor:?}");
    }
}

//! Redacted, in somebody's own words: what a question showed to whoever decided is told by their answer to nobody, at no
//! door and in no bundle; and what they put in its place is as secret.

use std::fs;

use holdpoint::wire::v1::GetRequestRequest;
use serde_json::{Value, json};

use crate::consent::stage::{Stage, question};
use crate::support::server::journal;
use crate::terminal::cli::holdpoint;

const PIN: &str = "zebra-8812-quux-long";
const OTHER: &str = "ocelot-9917-plover";

/// A form marks what a tool does not.
const FLOW: &str = "
name: confided
tools:
  pay:
    provider: http
    parameters:
      type: object
      properties: {pin: {type: string}, text: {type: string}, account: {type: string}}
    settings: {method: POST, url: 'TOOLS/pay', allow_private: true}
gates: [{name: money, tools: [pay], to: [bob]}]
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: Your PIN?
        to: [cyd]
        response_schema: {type: object, properties: {pin: {type: string, secret: true}}}
    - id: pay
      tool: pay
      arguments: {pin: '${steps.ask.pin}', text: 'by ${steps.ask.pin} now', account: A1}
      critical: false
    - {id: end, human: {kind: approval, to: [ada], prompt: 'Is that all?'}}
";

const PEOPLE: [(&str, &str); 5] = [
    ("ada", "user"),
    ("bob", "user"),
    ("cyd", "user"),
    ("op", "--role user --role operator"),
    ("aud", "auditor"),
];

fn hides(what: &str, told: &str) {
    for secret in [PIN, OTHER] {
        assert!(!told.contains(secret), "{what}: {secret} is there: {told}");
    }
}

/// Cyd confides it, and bob says this of the call that has it.
async fn said(stage: &Stage, session: &str, value: &Value) -> String {
    let run = question(&stage.start("ada", session, "Go.").await).run_id;
    let asked = stage.inbox("cyd").await.pop().unwrap();
    stage.answer("cyd", &asked, json!({"pin": PIN})).await.unwrap();
    let gate = stage.inbox("bob").await.pop().unwrap();
    hides("a list", &format!("{gate:?}"));
    let wanted = GetRequestRequest { request_id: gate.request_id };
    let gate = stage.client("bob").await.get_request(wanted).await.unwrap().into_inner();
    let gate = gate.request.unwrap();
    assert!(format!("{gate:?}").contains(PIN), "bob sees what is sent: {gate:?}");
    let told = stage.answer("bob", &gate, value.clone()).await.unwrap();
    hides("what is streamed to whoever decided", &format!("{told:?}"));
    run
}

/// Everything that is told of a run.
async fn looked_at(stage: &Stage, run: &str) {
    for who in ["ada", "op", "aud"] {
        let told = format!("{:?}", journal(&mut stage.client(who).await, run).await);
        assert!(told.contains("•••"), "{told}");
        hides(&format!("the journal to {who}"), &told);
        hides(&format!("the audit to {who}"), &format!("{:?}", stage.audit(who, run).await));
        let path = format!("/v1/runs/{run}/audit");
        hides(&format!("{path} to {who}"), &stage.http(who).get(&path).body);
        for path in [format!("/console/runs/{run}"), format!("/console/audit?run={run}")] {
            hides(&format!("{path} to {who}"), &stage.console(who).get(&path).body);
        }
        for words in [&["journal", run][..], &["journal", run, "--json"], &["audit", "--json"]] {
            let ended = stage.command(who, words);
            hides(&format!("{words:?} of {who}"), &(ended.out + &ended.err));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_confided_to_a_run_is_told_by_no_edit_or_note_of_whoever_was_shown_it() {
    let mut stage = Stage::with_people(FLOW, &PEOPLE).await;
    let same = json!({"pin": PIN, "text": format!("by {PIN} now"), "account": "A2"});
    let other = json!({"pin": OTHER, "text": format!("by {PIN} and {OTHER}"), "account": "A1"});
    let mut runs = Vec::new();
    for (session, value) in [
        ("same", json!({"decision": "edit", "arguments": same})),
        ("other", json!({"decision": "edit", "arguments": other})),
        ("none", json!({"decision": "deny", "note": format!("not with {PIN}")})),
    ] {
        let run = said(&stage, session, &value).await;
        looked_at(&stage, &run).await;
        runs.push(run);
    }
    assert_eq!(stage.deeds("ada", &runs[2]).await, [same, other], "what is sent is what they said");
    stage.server.terminate();
    stage.server.wait();
    let offline = |words: &[&str]| {
        let ended = holdpoint(stage.root.path(), words, "");
        assert!(!ended.out.contains("wrong"), "{words:?}: {}{}", ended.out, ended.err);
        format!("{}{}", ended.out, ended.err)
    };
    for run in &runs {
        let file = format!("{run}.json");
        offline(&["export", &file, "--run", run, "--data", "data"]);
        hides("a bundle", &fs::read_to_string(stage.root.path().join(&file)).unwrap());
        for more in [&[][..], &["--json"]] {
            let words = ["verify", &file, "--key", "data/audit.pub"];
            hides("what is verified", &offline(&[&words[..], more].concat()));
        }
    }
}

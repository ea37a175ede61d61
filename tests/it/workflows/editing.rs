//! Editable approvals: a person's own version of what they decide is what goes on, letter for letter, through
//! every door; whoever must agree is asked about exactly that; and what is no version is sent nowhere.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{ForkRunRequest, Request, RunStatus, SendResponsesRequest};
use serde_json::{Value, json};
use tonic::Code;

use crate::a2a::calls::text;
use crate::bridge::calls::output;
use crate::consent::stage::{LOCAL, Stage, TOOL, question, refusal};
use crate::support::screen::Screen;
use crate::support::server::journal;
use crate::terminal::cli::{holdpoint, with_env};

/// What the agent writes, and what a person makes of it: with everything that a door could lose.
const DRAFT: &str = "Dear Ada,\n\n  the bill is 10 €.";
const OWN: &str = "Dear Bob,\n\n  the bill is 12 € – <b>today</b>, \"net\".";

/// A letter that is approved, perhaps on these terms, and sent as it was approved.
fn letters(terms: &str) -> String {
    format!(
        "
name: letters
models:
  default: {{provider: scripted, script: [{{say: \"Dear Ada,\\n\\n  the bill is 10 €.\"}}]}}
tools:{TOOL}
agents:
  writer: {{human_input: false}}
pattern: graph
graph:
  steps:
    - {{id: draft, agent: writer}}
    - id: ok
      human: {{kind: approval, prompt: Send it?, show: '${{steps.draft}}', editable: true{terms}}}
    - {{id: send, tool: pay, arguments: {{text: '${{steps.ok.subject}}', said: '${{steps.ok.decision}}'}}}}
    - {{id: end, extract: {{by: '${{steps.ok.edited_by ?? \"nobody\"}}'}}}}
  output: '${{steps.end.by}}'
"
    )
}

fn edit(version: &Value) -> Value {
    json!({"decision": "edit", "subject": version})
}

/// An editor that puts `text` in the place of what it is given, and ends so.
fn editor(stage: &Stage, name: &str, script: &str) -> String {
    let path = stage.root.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// What a run came to.
async fn came_to(stage: &Stage, who: &str, run_id: &str) -> Value {
    let told = journal(&mut stage.client(who).await, run_id).await;
    let output = told.into_iter().find_map(|event| match event.event {
        Some(Event::Output(output)) => output.value,
        Some(_) | None => None,
    });
    output.expect("it came to something").into_value()
}

/// Sends the version through a door.
async fn sends(stage: &Stage, door: &str, request: &Request) {
    let id = request.request_id.as_str();
    let version = edit(&json!(OWN));
    match door {
        "grpc" => {
            let _told = stage.answer(LOCAL, request, version).await.unwrap();
        }
        "a2a" => {
            let mut message = text("m1", "");
            message["taskId"] = json!(request.run_id);
            message["parts"] = json!([{"data": {"responses": {id: version}}}]);
            let told = stage.agent(LOCAL).rpc("SendMessage", &json!({"message": message}));
            assert!(told.get("error").is_none(), "{told}");
        }
        "http" => {
            let body = json!({"responses": {id: version}});
            let told = stage.http(LOCAL).post("/v1/workflows/letters/send_responses", &body);
            assert_eq!(told.status, 200, "{}", told.body);
        }
        "responses" => {
            let item = output(id, &version.to_string());
            stage
                .http(LOCAL)
                .post("/v1/responses", &json!({"model": "letters", "input": [item]}))
                .ok();
        }
        "websocket" => {
            let answer = json!({"type": "answer", "responses": {id: version}});
            let told = stage.socket(LOCAL, &answer).await;
            assert_eq!(told["type"], "ack", "{told}");
        }
        "terminal" => {
            fs::write(stage.root.path().join("own"), OWN).unwrap();
            let editor = editor(stage, "ed", "cat own > \"$1\"; echo >> \"$1\"");
            let url = stage.server.url();
            let words = ["--server", &url, "respond", id, "edit"];
            let ended = with_env(stage.root.path(), &words, "", &[("EDITOR", &editor)]);
            assert_eq!(ended.code, 0, "{ended:?}");
            assert!(ended.out.contains("Dear [-Ada-]{+Bob+}"), "{ended:?}");
        }
        "console" => {
            let own = [("decision", "edit"), ("answer/subject", OWN)];
            let review = stage.form(LOCAL, request, &own);
            assert_eq!(review.status, 200, "{}", review.body);
            assert!(review.body.contains("<del>Ada</del><ins>Bob</ins>"), "{}", review.body);
            assert_eq!(stage.paid(), 0, "nothing is sent before it was reviewed");
            let reviewed = json!(OWN).to_string();
            let sent =
                [("decision", "edit"), ("reviewed/subject", &reviewed), ("confirmed", "yes")];
            let sent = stage.form(LOCAL, request, &sent);
            assert_eq!(sent.status, 303, "{}", sent.body);
        }
        other => panic!("no such door: {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_a_persons_version_is_what_goes_on_letter_for_letter_through_every_door() {
    for door in ["grpc", "a2a", "http", "responses", "websocket", "terminal", "console"] {
        let stage = Stage::open(&letters("")).await;
        let asked = question(&stage.start(LOCAL, "s", "Write.").await);
        assert_eq!(asked.verbs, ["approve", "edit", "reject", "return"], "{door}");
        sends(&stage, door, &asked).await;
        let deeds = stage.deeds(LOCAL, &asked.run_id).await;
        assert_eq!(deeds, [json!({"text": OWN, "said": "approve"})], "{door}");
        let run = stage.runs(LOCAL).await.remove(0);
        assert_eq!(run.status(), RunStatus::Completed, "{door}");
        let output = came_to(&stage, LOCAL, &asked.run_id).await;
        assert_eq!(output, json!("local"), "{door}: who changed it is known");
        let trail = format!("{:?}", stage.audit(LOCAL, &asked.run_id).await);
        assert!(trail.contains("edit") && trail.contains("Dear Bob"), "{door}: {trail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_what_is_no_version_is_refused_with_its_field_and_changes_nothing() {
    let stage = Stage::open(&letters("")).await;
    let asked = question(&stage.start(LOCAL, "s", "Write.").await);
    for (wrong, at) in [
        (edit(&json!("")), "/subject"),
        (edit(&json!({"text": "mine"})), "/subject"),
        (edit(&json!(DRAFT)), "/subject"),
        (json!({"decision": "approve", "subject": "mine"}), "/subject"),
        (json!({"decision": "edit"}), ""),
        (json!({"decision": "edit", "subject": "mine", "to": "eve"}), ""),
        (json!("edit"), ""),
    ] {
        let status = stage.answer(LOCAL, &asked, wrong.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong}");
        assert!(status.message().contains(at), "{wrong}: {}", status.message());
        stage.assert_untouched(LOCAL, &asked, &wrong.to_string()).await;
    }
    // An instruction is no version: words after a code are never sent as one.
    let words = format!("edit {}: make it shorter", asked.code);
    assert_eq!(refusal(stage.say(LOCAL, "s", &words).await).1, "answer.invalid");
    stage.assert_untouched(LOCAL, &asked, "words").await;
    stage.answer(LOCAL, &asked, json!("approve")).await.unwrap();
    let deeds = stage.deeds(LOCAL, &asked.run_id).await;
    assert_eq!(deeds, [json!({"text": DRAFT, "said": "approve"})], "as it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_keeps_its_shape_and_a_schema_of_the_files_own_counts() {
    let flow = format!(
        "
name: orders
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps:
    - {{id: order, extract: {{to: ada, lines: [{{what: tea, price: 3}}]}}}}
    - id: ok
      human: {{kind: approval, prompt: Order it?, show: '${{steps.order}}', editable: true}}
    - id: price
      human: {{kind: approval, prompt: At most?, show: '${{10}}', editable: {{schema: {{type: integer, maximum: 20}}}}}}
    - {{id: act, tool: pay, arguments: {{order: '${{steps.ok.subject}}', most: '${{steps.price.subject}}'}}}}
    - {{id: end, agent: idle}}
"
    );
    let stage = Stage::open(&flow).await;
    let asked = question(&stage.start(LOCAL, "s", "Tea.").await);
    let wrong = edit(&json!({"to": "ada", "lines": [{"what": "tea", "price": "three"}]}));
    let status = stage.answer(LOCAL, &asked, wrong).await.unwrap_err();
    assert!(status.message().contains("/subject/lines/0/price"), "{}", status.message());
    let order = json!({"to": "bob", "lines": [{"what": "tea", "price": 3}, {"what": "cake", "price": 4.5}]});
    stage.answer(LOCAL, &asked, edit(&order)).await.unwrap();
    let price = stage.inbox(LOCAL).await.remove(0);
    let status = stage.answer(LOCAL, &price, edit(&json!(21))).await.unwrap_err();
    assert!(status.message().contains("/subject"), "{}", status.message());
    stage.answer(LOCAL, &price, edit(&json!(20))).await.unwrap();
    let deeds = stage.deeds(LOCAL, &asked.run_id).await;
    assert_eq!(deeds, [json!({"order": order, "most": 20})]);
}

const PEOPLE: [(&str, &str); 4] =
    [("clerk", "user"), ("ann", "user"), ("bob", "user"), ("cfo", "user")];

#[tokio::test(flavor = "multi_thread")]
async fn k10_a_version_begins_the_vote_anew_and_its_editors_own_yes_stands_across_kills() {
    let terms = ", approvers: [{to: [ann, bob], need: 2}, {to: [cfo]}]";
    let mut stage = Stage::with_people(&letters(terms), &PEOPLE).await;
    stage.start("clerk", "s", "Write.").await;
    let first = stage.inbox("ann").await.remove(0);
    stage.answer("bob", &first, json!("approve")).await.unwrap();
    stage.answer("ann", &first, edit(&json!(OWN))).await.unwrap();
    stage.server.restart();
    assert_eq!(stage.paid(), 0, "nobody but its editor has seen it");
    let late = refusal(stage.answer("bob", &first, json!("approve")).await);
    assert_eq!(late.1, "request.already_answered", "the question before is over");
    let second = stage.inbox("bob").await.remove(0);
    assert_ne!(second.digest, first.digest);
    assert_eq!(
        second.subject.clone().map(holdpoint::wire::json::Json::into_value),
        Some(json!(OWN))
    );
    let said: Vec<_> = second.votes.iter().map(|vote| vote.principal.as_str()).collect();
    assert_eq!(said, ["ann"], "bob's word was for another text");
    stage.answer("bob", &second, json!("approve")).await.unwrap();
    assert_eq!(stage.paid(), 0, "the CFO has not looked");
    stage.server.restart();
    let third = stage.inbox("cfo").await.remove(0);
    assert_eq!(third.digest, second.digest);
    stage.answer("cfo", &third, json!("approve")).await.unwrap();
    let deeds = stage.deeds("clerk", &first.run_id).await;
    assert_eq!(deeds, [json!({"text": OWN, "said": "approve"})]);
    let output = came_to(&stage, "clerk", &first.run_id).await;
    assert_eq!(output, json!("ann"), "whose version it is stays known");
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_whoever_changed_it_is_excluded_where_the_file_says_so_and_a_no_ends_it() {
    let terms = ", to: [ann, bob], not: [editor]";
    let stage = Stage::with_people(&letters(terms), &PEOPLE).await;
    stage.start("clerk", "s", "Write.").await;
    let first = stage.inbox("ann").await.remove(0);
    stage.answer("ann", &first, edit(&json!(OWN))).await.unwrap();
    let second = stage.inbox("bob").await.remove(0);
    let own = refusal(stage.answer("ann", &second, json!("approve")).await);
    assert_eq!(own, (Code::PermissionDenied, "answer.not_admitted".into()));
    stage.answer("bob", &second, json!({"decision": "reject", "note": "no"})).await.unwrap();
    assert_eq!(stage.runs("clerk").await.remove(0).status(), RunStatus::Failed);
    assert_eq!(stage.paid(), 0, "K4: neither the draft nor the version");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_still_asks_about_the_call_that_a_version_leads_to() {
    let flow = letters("").replace("agents:\n", "gates: [{name: out, tools: [pay]}]\nagents:\n");
    let stage = Stage::open(&flow).await;
    let asked = question(&stage.start(LOCAL, "s", "Write.").await);
    stage.answer(LOCAL, &asked, edit(&json!(OWN))).await.unwrap();
    let gate = stage.inbox(LOCAL).await.remove(0);
    assert_eq!(stage.paid(), 0, "an approval releases no call");
    assert!(format!("{:?}", gate.subject).contains("Dear Bob"), "{gate:?}");
    stage.answer(LOCAL, &gate, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_version_that_was_refused_in_a_fork_is_asked_and_tells_of_it() {
    let stage = Stage::open(&letters("")).await;
    let asked = question(&stage.start(LOCAL, "s", "Write.").await);
    let mut client = stage.client(LOCAL).await;
    let fork = ForkRunRequest { run_id: asked.run_id.clone(), ..Default::default() };
    client.fork_run(fork).await.unwrap();
    let open = stage.inbox(LOCAL).await;
    let other = open.into_iter().find(|one| one.run_id != asked.run_id).unwrap();
    // In the fork the draft is edited, in two steps, into what is then refused there.
    let terms = edit(&json!(OWN));
    stage.answer(LOCAL, &asked, json!({"decision": "reject", "note": "no"})).await.unwrap();
    // What was refused as it was is taken up again by whoever is asked, who is told.
    let told = refusal(stage.answer(LOCAL, &other, json!("approve")).await);
    assert_eq!(told.1, "request.asked_anew");
    let again = stage.inbox(LOCAL).await.remove(0);
    stage.answer(LOCAL, &again, terms).await.unwrap();
    let deeds = stage.deeds(LOCAL, &again.run_id).await;
    assert_eq!(
        deeds,
        [json!({"text": OWN, "said": "approve"})],
        "another text is another question"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_version_with_its_key_again_changes_nothing() {
    let stage = Stage::open(&letters("")).await;
    let asked = question(&stage.start(LOCAL, "s", "Write.").await);
    for _ in 0..3 {
        let responses = [(asked.request_id.clone(), edit(&json!(OWN)).into())].into();
        let idempotency_key = "k1".to_owned();
        let message = SendResponsesRequest { responses, idempotency_key, ..Default::default() };
        stage.client(LOCAL).await.send_responses(message).await.unwrap();
    }
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_editor_that_fails_or_brings_nothing_or_the_same_sends_nothing() {
    let stage = Stage::open(&letters("")).await;
    let asked = question(&stage.start(LOCAL, "s", "Write.").await);
    let url = stage.server.url();
    let words = ["--server", &url, "respond", &asked.request_id, "edit"];
    for (script, why) in [
        ("exit 3", "failed"),
        (": > \"$1\"", "nothing came back"),
        ("rm \"$1\"", "cannot be read"),
        ("true", "nothing was changed"),
        ("echo >> \"$1\"", "nothing was changed"),
        ("kill -9 $$", "failed"),
    ] {
        let editor = editor(&stage, "ed", script);
        let ended = with_env(stage.root.path(), &words, "", &[("EDITOR", &editor)]);
        assert_ne!(ended.code, 0, "{script}: {ended:?}");
        assert!(ended.err.contains(why), "{script}: {ended:?}");
        assert!(ended.err.contains("nothing was sent"), "{script}: {ended:?}");
        stage.assert_untouched(LOCAL, &asked, script).await;
    }
    let nobody = [("EDITOR", "/nowhere/ed"), ("VISUAL", "")];
    let ended = with_env(stage.root.path(), &words, "", &nobody);
    assert!(ended.err.contains("nothing was sent"), "{ended:?}");
    stage.assert_untouched(LOCAL, &asked, "no editor").await;
    // In conversation a version is shown, and asked about once more.
    fs::write(stage.root.path().join("own"), OWN).unwrap();
    let editor = editor(&stage, "ed", "cat own > \"$1\"");
    let talk = ["--server", &url, "resume", &asked.run_id, "--interactive"];
    let ended = with_env(stage.root.path(), &talk, "edit\nno\nexit\n", &[("VISUAL", &editor)]);
    assert!(ended.out.contains("Dear [-Ada-]{+Bob+}"), "{ended:?}");
    assert!(ended.err.contains("nothing was sent"), "{ended:?}");
    stage.assert_untouched(LOCAL, &asked, "a no").await;
    let ended = with_env(stage.root.path(), &talk, "edit\ny\n", &[("VISUAL", &editor)]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let deeds = stage.deeds(LOCAL, &asked.run_id).await;
    assert_eq!(deeds, [json!({"text": OWN, "said": "approve"})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_chat_an_editor_opens_and_what_it_leaves_goes_on() {
    let stage = Stage::open(&letters("")).await;
    fs::write(stage.root.path().join("own"), OWN).unwrap();
    let editor = editor(&stage, "ed", "cat own > \"$1\"");
    let command = format!(
        "EDITOR={editor} {} chat letters --server {}; echo ended $?; cat",
        env!("CARGO_BIN_EXE_holdpoint"),
        stage.server.url()
    );
    let screen = Screen::open(stage.root.path(), "one", (110, 32), &command);
    screen.sees(&["letters"]);
    screen.types("Write.");
    screen.sees(&["Send it?", "the bill is 10", "edit"]);
    screen.types("edit");
    screen.sees(&["completed"]);
    screen.types("/quit");
    screen.sees(&["ended 0"]);
    let run = stage.runs(LOCAL).await.remove(0);
    let deeds = stage.deeds(LOCAL, &run.run_id).await;
    assert_eq!(deeds, [json!({"text": OWN, "said": "approve"})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_sequence_the_version_is_what_the_next_one_reads_and_what_the_run_comes_to() {
    let flow = "
name: notes
models:
  default:
    provider: scripted
    script: [{say: Draft.}]
agents:
  writer: {human_input: false}
pattern: sequential
steps:
  - {id: draft, agent: writer}
  - {id: ok, human: {kind: approval, prompt: Good?, editable: true}}
  - {id: sure, human: {kind: approval, prompt: Sure?}}
";
    let stage = Stage::open(flow).await;
    let asked = question(&stage.start(LOCAL, "s", "Write.").await);
    stage.answer(LOCAL, &asked, edit(&json!("Mine."))).await.unwrap();
    let sure = stage.inbox(LOCAL).await.remove(0);
    assert_eq!(
        sure.subject.clone().map(holdpoint::wire::json::Json::into_value),
        Some(json!("Mine."))
    );
    assert!(!sure.verbs.contains(&"edit".to_owned()), "only where the file says so");
    stage.answer(LOCAL, &sure, json!("approve")).await.unwrap();
    assert_eq!(came_to(&stage, LOCAL, &asked.run_id).await, json!("Mine."));
}

#[test]
fn check_says_where_nothing_can_be_edited_or_nobody_could_pass_it() {
    let here = tempfile::tempdir().unwrap();
    let head = "name: w\nmodels: {default: {provider: scripted, script: [{say: x}]}}\n";
    let graph = |human: &str| {
        format!(
            "{head}agents: {{a: {{}}}}\npattern: graph\ngraph:\n  steps:\n    - {{id: d, agent: a}}\n    - id: ok\n      human: {human}\n"
        )
    };
    let sequence = format!(
        "{head}agents: {{a: {{}}}}\npattern: sequential\nsteps:\n  - id: ok\n    human: {{kind: approval, prompt: p, editable: true}}\n  - {{id: d, agent: a}}\n"
    );
    for (flow, code, word) in [
        (graph("{kind: approval, prompt: p, editable: true}"), "question.editable", "`show`"),
        (sequence, "question.editable", "`show`"),
        (
            graph("{kind: clarification, prompt: p, show: x, editable: true}"),
            "question.editable",
            "approval",
        ),
        (
            graph("{kind: approval, prompt: p, show: x, editable: {schema: {type: 7}}}"),
            "schema.invalid",
            "no JSON Schema",
        ),
        (
            graph("{kind: approval, prompt: p, show: x, editable: true, to: [ada], not: [editor]}"),
            "approvers.impassable",
            "nobody could pass",
        ),
        (graph("{kind: approval, prompt: p, show: x, editable: maybe}"), "field", ""),
    ] {
        fs::write(here.path().join("w.yaml"), &flow).unwrap();
        let ended = holdpoint(here.path(), &["check", "w.yaml"], "");
        assert_ne!(ended.code, 0, "{flow}");
        let told = format!("{}{}", ended.out, ended.err);
        assert!(told.contains(code) && told.contains(word), "{flow}\n{told}");
        assert!(told.contains("w.yaml:"), "with its line: {told}");
    }
    fs::write(
        here.path().join("w.yaml"),
        graph("{kind: approval, prompt: p, show: '${steps.d}', editable: true}"),
    )
    .unwrap();
    let fine = holdpoint(here.path(), &["check", "w.yaml"], "");
    assert_eq!(fine.code, 0, "{fine:?}");
}

/// The example of docs/workflows.md, as it stands there.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_in_the_docs_of_a_draft_that_is_edited_runs() {
    let docs = fs::read_to_string("docs/workflows.md").unwrap();
    let section = docs.split("## A person edits a draft").nth(1).unwrap();
    let example = section.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let stage = Stage::open(&example.replacen("# letter.yaml\n", "", 1)).await;
    let asked = question(&stage.start(LOCAL, "s", "Invite Ada.").await);
    stage.answer(LOCAL, &asked, edit(&json!("Dear Ada, come at six."))).await.unwrap();
    let run = stage.runs(LOCAL).await.remove(0);
    assert_eq!(run.status(), RunStatus::Completed);
    let output = came_to(&stage, LOCAL, &asked.run_id).await;
    assert_eq!(output, json!("sent: Dear Ada, come at six."));
}

const CROWD: [(&str, &str); 5] =
    [("clerk", "user"), ("ann", "user"), ("bob", "user"), ("dan", "user"), ("eve", "user")];

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_nobody_would_be_left_to_agree_to_is_refused_and_the_question_stays() {
    let terms = ", approvers: {to: [ann, bob], need: 2, not: [participant]}";
    let stage = Stage::with_people(&letters(terms), &CROWD).await;
    stage.start("clerk", "", "Write.").await;
    let request = stage.inbox("ann").await.remove(0);
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    let refused = refusal(stage.answer("bob", &request, edit(&json!(OWN))).await);
    assert_eq!(refused, (Code::FailedPrecondition, "answer.nobody_left".into()));
    assert_eq!(stage.inbox("bob").await[0].request_id, request.request_id, "it is asked as before");
    stage.answer("bob", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.paid(), 1);

    // Where enough are left, they are asked, and those who took part are not.
    let terms = ", approvers: {to: [ann, bob, dan, eve], need: 2, not: [participant]}";
    let stage = Stage::with_people(&letters(terms), &CROWD).await;
    stage.start("clerk", "", "Write.").await;
    let request = stage.inbox("ann").await.remove(0);
    stage.answer("ann", &request, json!("approve")).await.unwrap();
    let noted = json!({"decision": "edit", "subject": OWN, "note": "The price was old."});
    stage.answer("bob", &request, noted).await.unwrap();
    assert!(stage.inbox("bob").await.iter().all(|one| one.admits_you == Some(false)));
    for who in ["dan", "eve"] {
        let anew = stage.inbox(who).await.remove(0);
        assert_ne!(anew.request_id, request.request_id);
        let facts = anew.context.clone().unwrap().into_value();
        assert_eq!(facts["editor_note"], "The price was old.", "{facts}");
        stage.answer(who, &anew, json!("approve")).await.unwrap();
    }
    assert_eq!(stage.paid(), 1);
}

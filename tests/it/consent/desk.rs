//! What people at a terminal are told who are asked, and do not own the run: that their word is taken
//! whole, what it came to, and what is not theirs to answer.

use std::fs;

use holdpoint::wire::v1::Request;

use crate::consent::stage::{LOCAL, Stage, TOOL, question};
use crate::evidence::halting::gated;
use crate::terminal::cli::{Ended, holdpoint};

const PEOPLE: [(&str, &str); 5] = [
    ("ada", "user"),
    ("bob", "user"),
    ("carl", "user"),
    ("cfo", "user"),
    ("robot", "--kind service"),
];
const SETTINGS: &str = "
[people.bob]
groups = [\"finance\"]
[people.carl]
groups = [\"finance\"]
";

fn flow() -> String {
    format!(
        "
name: pay
models:
  default: {{provider: scripted, script: [{{say: Done.}}, {{say: Again.}}, {{say: Still.}}]}}
tools:{TOOL}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps:
    - {{id: draft, agent: idle}}
    - id: ask
      human:
        kind: approval
        prompt: Pay it?
        approvers:
          - {{to: ['group:finance'], need: 2, not: [requester]}}
          - {{to: [cfo]}}
    - {{id: act, tool: pay}}
"
    )
}

async fn asked() -> (Stage, Request) {
    let stage = Stage::settled(&flow(), &PEOPLE, &[], SETTINGS).await;
    stage.start("ada", "", "Bill 7.").await;
    let request = stage.inbox("bob").await.remove(0);
    (stage, request)
}

/// It ended well, and nothing was said beside it but where the receipt is.
fn is_taken(ended: &Ended) {
    let lines: Vec<_> = ended.err.lines().collect();
    assert_eq!((ended.code, lines.len()), (0, 1), "{ended:?}");
    assert!(lines[0].starts_with("receipt "), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_of_somebody_who_does_not_own_the_run_is_kept() {
    let (stage, request) = asked().await;
    let id = request.request_id.as_str();
    let ended = stage.command("bob", &["respond", id, "no", "--note", "too dear"]);
    is_taken(&ended);
    assert!(ended.out.contains("your answer is taken"), "{ended:?}");
    let journal = stage.command("ada", &["journal", &request.run_id]);
    assert!(journal.out.contains("too dear"), "{}", journal.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_returns_with_a_note_is_taken_from_whoever_is_asked() {
    let (stage, request) = asked().await;
    let id = request.request_id.as_str();
    let words = ["respond", id, "return", "--note", "name the price"];
    let ended = stage.command("bob", &words);
    is_taken(&ended);
    let journal = stage.command("ada", &["journal", &request.run_id]);
    assert!(journal.out.contains("name the price"), "{}", journal.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_vote_that_is_taken_ends_well_and_says_what_is_still_needed() {
    let (stage, request) = asked().await;
    let id = request.request_id.as_str();
    for (who, told) in [
        ("bob", "your vote is taken; 1 more is needed"),
        ("carl", "your vote is taken; cfo is asked next"),
    ] {
        let ended = stage.command(who, &["respond", id, "yes"]);
        is_taken(&ended);
        assert!(ended.out.contains(told), "{who}: {ended:?}");
    }
    let inbox = stage.command("cfo", &["inbox"]);
    assert!(inbox.out.contains("cfo is still needed"), "{inbox:?}");
    let last = stage.command("cfo", &["respond", id, "yes", "--json"]);
    assert_eq!((last.code, last.err.lines().count()), (0, 1), "{last:?}");
    assert!(last.err.starts_with(r#"{"receipt":"#), "{last:?}");
    assert_eq!(stage.deeds("ada", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_of_a_person_is_what_admits_them_by_name_group_or_as_owner() {
    let (stage, request) = asked().await;
    let count = |name: &str| {
        let told = stage.command("ada", &["inbox", "--to", name, "--json"]).json();
        told["requests"].as_array().unwrap().len()
    };
    assert_eq!(["bob", "carl", "ada", "cfo"].map(count), [1, 1, 0, 0]);
    let own = stage.command("ada", &["inbox"]);
    assert!(own.out.contains("not for you: waits for group:finance"), "{own:?}");
    let theirs = stage.command("bob", &["inbox"]);
    assert!(!theirs.out.contains("not for you"), "{theirs:?}");
    assert_eq!(request.admits_you, Some(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_answer_is_told_for_whom_it_waits_and_not_how_to_answer() {
    let (stage, request) = asked().await;
    let ended = stage.command("ada", &["run", "pay", "Bill 8.", "--no-input"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(!ended.err.contains("answer with"), "{ended:?}");
    assert!(ended.out.contains("not for you: waits for group:finance"), "{ended:?}");
    let vague = stage.command("bob", &["respond", &request.request_id, "perhaps"]);
    assert!(vague.code == 6 && vague.err.contains("return"), "{vague:?}");
    let code = stage.command("bob", &["respond", &request.code, "approve"]);
    assert!(code.code == 2 && code.err.contains("a code goes with words"), "{code:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_that_means_nothing_is_refused_after_it_is_known_who_may_answer() {
    let (stage, request) = asked().await;
    let vague = stage.command("ada", &["respond", &request.request_id, "perhaps"]);
    assert!(vague.code == 6 && vague.err.contains("group:finance"), "{vague:?}");
    assert!(!vague.err.contains("type y"), "{vague:?}");
    let trail = stage.audit("ada", &request.run_id).await;
    let refused = trail.iter().filter(|entry| entry.action == "answer_refused");
    assert_eq!(refused.map(|entry| entry.principal.as_str()).collect::<Vec<_>>(), ["ada"]);
    // Whoever is asked is told what they can type.
    let vague = stage.command("bob", &["respond", &request.request_id, "perhaps"]);
    assert!(vague.code == 6 && vague.err.contains("type y to approve"), "{vague:?}");
    stage.assert_untouched("ada", &request, "perhaps").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn approve_and_reject_decide_a_tool_gate_at_the_terminal_as_at_other_doors() {
    for (word, deeds) in [("approve", 1), ("reject", 0)] {
        let stage = Stage::open(&gated()).await;
        // A terminal remembers what an address has shown.
        stage.server.stay();
        let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
        assert_eq!(stage.command(LOCAL, &["inbox"]).code, 0);
        let ended = stage.command(LOCAL, &["respond", "1", word]);
        assert!(!ended.err.contains("type one of"), "{ended:?}");
        assert_eq!(stage.deeds(LOCAL, &asked.run_id).await.len(), deeds, "{word}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_nobody_knows_is_told_from_none_and_a_service_from_a_person() {
    let (stage, _) = asked().await;
    let url = stage.server.url();
    let place = ["--server", &url, "inbox"];
    let none = holdpoint(stage.root.path(), &place, "");
    assert!(none.code == 6 && none.err.contains("wants an API key"), "{none:?}");
    let wrong = [&place[..], &["--api-key", "hp_wrong"]].concat();
    let wrong = holdpoint(stage.root.path(), &wrong, "");
    assert!(wrong.code == 6 && wrong.err.contains("unknown here"), "{wrong:?}");
    let form = crate::consent::stage::form_of(&[("key", stage.key("robot"))]);
    let caller = stage.http("").with("Content-Type: application/x-www-form-urlencoded");
    let signed = caller.raw("POST", "/console/sign-in", &form);
    assert_eq!(signed.status, 401);
    assert!(signed.body.contains("a service"), "{}", signed.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_at_its_start_which_stages_nobody_can_pass_and_serves() {
    let flow = flow().replace("[cfo]", "['role:operator']");
    let people = [("ada", "user"), ("olga", "--role operator")];
    let stage = Stage::settled(&flow, &people, &[], SETTINGS).await;
    let log = stage.server.told();
    assert!(log.contains("nobody is in `role:operator`"), "{log}");
    assert!(!stage.start("ada", "", "Bill 7.").await.is_empty());
}

#[test]
fn check_says_what_nobody_can_pass_and_whom_nobody_knows() {
    let root = tempfile::tempdir().unwrap();
    let flow = flow().replace("TOOLS", "http://127.0.0.1:9");
    fs::write(root.path().join("pay.yaml"), &flow).unwrap();
    let bare = holdpoint(root.path(), &["check", "pay.yaml"], "");
    assert_eq!(bare.code, 0, "{bare:?}");
    assert!(bare.err.contains("nobody can be in `group:finance`"), "{bare:?}");
    fs::write(root.path().join("holdpoint.toml"), SETTINGS).unwrap();
    let known = holdpoint(root.path(), &["check", "pay.yaml"], "");
    assert_eq!(known.code, 0, "{known:?}");
    assert!(known.err.contains("`cfo` is asked, and is nobody here yet"), "{known:?}");

    let (before, rest) = flow.split_once("        approvers:").unwrap();
    let (_, after) = rest.split_once("          - {to: [cfo]}\n").unwrap();
    let alone = format!("{before}{after}");
    fs::write(root.path().join("pay.yaml"), alone).unwrap();
    assert_eq!(holdpoint(root.path(), &["check", "pay.yaml"], "").code, 0);
    let strict = holdpoint(root.path(), &["check", "pay.yaml", "--four-eyes", "true"], "");
    assert_eq!(strict.code, 1, "{strict:?}");
    assert!(strict.out.contains("approvers.impassable"), "{strict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_asked_is_shown_what_they_decide_before_they_answer() {
    let (stage, request) = asked().await;
    let id = request.request_id.as_str();
    for words in [&["inbox", id][..], &["respond", id][..]] {
        let shown = stage.command("bob", words);
        assert!(shown.out.contains("Done."), "{words:?}: the draft itself: {shown:?}");
        assert!(shown.out.contains("Pay it?") && shown.out.contains(id), "{words:?}: {shown:?}");
    }
    assert_eq!(stage.command("bob", &["respond", id]).code, 4, "it still waits");
    assert_eq!(stage.command("robot", &["inbox", id]).code, 5, "nobody else is shown it");
    assert_eq!(stage.command("robot", &["respond", id]).code, 5);
    stage.assert_untouched("ada", &request, "to look is to answer nothing").await;
}

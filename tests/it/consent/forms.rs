//! What people are shown before they decide: long texts to their end, secrets by their length alone; how
//! much of it and for how long is kept with the answer. And what is offered only to those who may.

use serde_json::{Value, json};

use crate::a2a::calls::text;
use crate::consent::stage::{LOCAL, Stage, bills, question};
use crate::terminal::cli::holdpoint;

fn flow(human: &str) -> String {
    bills(&format!(
        "{{id: ask, human: {{kind: approval, prompt: Pay it?, show: '${{input}}'{human}}}}}, \
         {{id: act, tool: pay}}"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_subject_is_not_approved_at_the_console_before_it_was_read_to_its_end() {
    let stage = Stage::open(&flow("")).await;
    let long = "A clause that somebody should read. ".repeat(100);
    let request = question(&stage.start(LOCAL, "", &long).await);
    let path = format!("/console/requests/{}", request.request_id);
    let page = stage.console(LOCAL).get(&path);
    assert!(page.body.contains("I have read this to its end"), "{}", page.body);
    assert!(page.body.contains(long.trim()), "all of it is on the page");
    let unread = stage.form(LOCAL, &request, &[("decision", "approve")]);
    assert_eq!(unread.status, 422, "{unread:?}");
    assert!(unread.body.contains("Read it to its end"), "{}", unread.body);
    stage.assert_untouched(LOCAL, &request, "a yes to what nobody has read").await;
    stage.form(LOCAL, &request, &[("decision", "approve"), ("read", "yes")]);
    assert_eq!(stage.deeds(LOCAL, &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_to_a_long_subject_needs_no_reading_and_a_short_one_has_no_box() {
    let stage = Stage::open(&flow("")).await;
    let long = "A clause that somebody should read. ".repeat(100);
    let request = question(&stage.start(LOCAL, "", &long).await);
    let no = stage.form(LOCAL, &request, &[("decision", "reject")]);
    assert_eq!(no.status, 303, "{no:?}");
    let request = question(&stage.start(LOCAL, "", "Bill 7.").await);
    let page = stage.console(LOCAL).get(&format!("/console/requests/{}", request.request_id));
    assert!(!page.body.contains("I have read this to its end"));
    stage.form(LOCAL, &request, &[("decision", "approve")]);
    assert_eq!(stage.deeds(LOCAL, &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_shown_and_for_how_long_is_kept_with_the_answer() {
    let stage = Stage::open(&flow("")).await;
    let request = question(&stage.start(LOCAL, "", "Bill 7.").await);
    stage.form(LOCAL, &request, &[("decision", "approve"), ("shown_at", "1")]);
    let told = stage.audit(LOCAL, &request.run_id).await;
    let answered = told.iter().find(|entry| entry.action == "answered").unwrap();
    let shown = answered.shown.unwrap();
    assert_eq!(shown.characters, 14, "the prompt and the bill");
    // Since when is the browser's word, and never before it was asked.
    assert!(shown.milliseconds < 3_600_000, "{shown:?}");
    let url = stage.server.url();
    let talk = ["--server", &url, "run", "bills", "Bill 8.", "-i"];
    assert_eq!(holdpoint(stage.root.path(), &talk, "y\n").code, 0);
    let trail = stage.command(LOCAL, &["audit"]);
    assert_eq!(trail.out.matches("14 characters shown for ").count(), 2, "{}", trail.out);
    let page = stage.console(LOCAL).get("/console/audit");
    assert!(page.body.contains("14 characters shown for "), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_by_its_id_alone_says_nothing_of_what_was_shown() {
    let stage = Stage::open(&flow("")).await;
    let request = question(&stage.start(LOCAL, "", "Bill 7.").await);
    assert_eq!(stage.command(LOCAL, &["respond", &request.request_id, "yes"]).code, 0);
    let told = stage.audit(LOCAL, &request.run_id).await;
    let answered = told.iter().find(|entry| entry.action == "answered").unwrap();
    assert_eq!(answered.shown, None);
}

const SECRET: &str = "
name: vault
models:
  default: {provider: scripted, script: [{say: Done.}]}
tools:
  pay:
    provider: http
    parameters:
      type: object
      properties: {to: {type: string}, pin: {type: string, format: password}}
    settings: {method: POST, url: 'TOOLS/pay', allow_private: true}
GATES
agents:
  idle: {human_input: false}
pattern: graph
graph:
  steps:
    - {id: act, tool: pay, arguments: {to: ada, pin: 'hun${input}'}STEP}
    - {id: end, agent: idle}
";

#[tokio::test(flavor = "multi_thread")]
async fn k3_a_secret_is_shown_by_its_length_alone_and_the_call_still_has_it() {
    for (gates, step, yes) in [
        ("gates: [{name: money, tools: [pay]}]", "", "allow_once"),
        ("", ", gate: {mode: before_step}", "approve"),
    ] {
        let flow = SECRET.replace("GATES", gates).replace("STEP", step);
        let stage = Stage::open(&flow).await;
        let request = question(&stage.start(LOCAL, "", "ter2-is-it").await);
        let other = question(&stage.start(LOCAL, "", "ter2-is-no").await);
        let id = request.request_id.as_str();
        let command = stage.command(LOCAL, &["inbox", "--json"]).out;
        let console = stage.console(LOCAL).get(&format!("/console/requests/{id}")).body;
        let task = stage.agent(LOCAL).call("GetTask", &json!({"id": request.run_id}));
        let status = task["status"].to_string();
        let run = stage.http(LOCAL).get(&format!("/v1/runs/{}/status", request.run_id)).body;
        for shown in [format!("{request:?}"), command, console, status, run] {
            assert!(!shown.contains("hunter2"), "{yes}: {shown}");
        }
        let subject = request.subject.clone().unwrap().into_value();
        assert_eq!(subject["arguments"]["pin"], "••• (13 characters)", "{subject}");
        assert_ne!(request.digest, other.digest);
        stage.answer(LOCAL, &request, json!(yes)).await.unwrap();
        let deeds = stage.deeds(LOCAL, &request.run_id).await;
        assert_eq!(deeds, [json!({"to": "ada", "pin": "hunter2-is-it"})], "{yes}");
    }
}

const PEOPLE: [(&str, &str); 3] = [("ada", "user"), ("bob", "user"), ("eve", "user")];

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_asked_finds_their_own_answers_in_the_trail_and_nothing_else_of_the_run() {
    let stage = Stage::with_people(&flow(", to: [bob]"), &PEOPLE).await;
    let run = stage.start("ada", "", "Bill 7.").await[0].run_id.clone();
    let request = stage.inbox("bob").await.remove(0);
    stage.answer("bob", &request, json!("approve")).await.unwrap();
    stage.deeds("ada", &run).await;
    for words in [vec!["audit", "--json"], vec!["audit", "--run", &run, "--json"]] {
        let told = stage.command("bob", &words);
        let lines: Vec<Value> = told.lines();
        let actions: Vec<_> = lines.iter().map(|line| line["action"].clone()).collect();
        assert_eq!(actions, ["answered"], "{words:?}: {told:?}");
        assert_eq!(lines[0]["request"]["request_id"], request.request_id.as_str());
    }
    assert_eq!(stage.command("eve", &["audit"]).out, "");
    assert_ne!(stage.command("eve", &["audit", "--run", &run]).code, 0, "D2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_taken_back_only_by_those_who_are_offered_it() {
    let stage = Stage::with_people(&flow(", to: [bob]"), &PEOPLE).await;
    stage.start("ada", "", "Bill 7.").await;
    let request = stage.inbox("bob").await.remove(0);
    let path = format!("/console/requests/{}", request.request_id);
    let offers = |who: &str| stage.console(who).get(&path).body.contains("Take the question back");
    assert_eq!((offers("ada"), offers("bob")), (true, false));
    let message = text("m1", "Bill 8.");
    assert_eq!(stage.agent("ada").send(&message)["status"]["state"], "TASK_STATE_AUTH_REQUIRED");
}

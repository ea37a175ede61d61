//! What people see of what they decide: no link that leads nowhere, no word that no longer counts, what was done already, what
//! a grant covers, no secret on a screen; and that many are answered together only by whoever has seen each of them.

use holdpoint::wire::v1::halt_request::Scope;
use holdpoint::wire::v1::{ForkRunRequest, GetRequestRequest, ListCheckpointsRequest, Request};
use serde_json::{Value, json};

use crate::bridge::calls::{Caller, Reply, output};
use crate::consent::stage::{LOCAL, Stage, TOOL, bills, form_of, question};
use crate::evidence::halting::{NESTED, gated, halt};
use crate::terminal::cli::holdpoint;

const PEOPLE: [(&str, &str); 5] =
    [("clerk", "user"), ("ann", "user"), ("bob", "user"), ("dan", "user"), ("cfo", "user")];

fn page(stage: &Stage, who: &str, path: &str) -> String {
    stage.console(who).raw("GET", path, "").body
}

fn at(request: &Request) -> String {
    format!("/console/requests/{}", request.request_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_an_approver_is_led_to_no_run_that_they_may_not_see() {
    let flow = bills(
        "{id: ask, human: {kind: approval, prompt: Pay it?, to: [cfo]}}, {id: act, tool: pay}",
    );
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let asked = stage.inbox("cfo").await.remove(0);
    let leads = |page: &str| page.contains("/console/runs/") || page.contains("/console/sessions/");
    // Nor does the page listen where nothing is told to them: it would say that the server is away.
    let open = page(&stage, "cfo", &at(&asked));
    assert!(open.contains("Pay it?") && !leads(&open), "{open}");
    stage.answer("cfo", &asked, json!("approve")).await.unwrap();
    let closed = page(&stage, "cfo", &at(&asked));
    assert!(closed.contains("answered this") && !leads(&closed), "{closed}");
    assert!(!closed.contains("See the run"), "{closed}");
    let own = page(&stage, "clerk", &at(&asked));
    assert!(own.contains("See the run") && leads(&own), "whoever began it finds it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_for_other_roles_is_forbidden_and_no_conflict() {
    let stage = Stage::with_people(&bills("{id: act, tool: pay}"), &PEOPLE).await;
    let console = stage.console("clerk");
    for path in ["/console/replicas", "/console/oversight", "/console/audit/store"] {
        let reply = console.get(path);
        assert_eq!(reply.status, 403, "{path}: {}", reply.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_in_a_place_that_was_taken_back_counts_on_no_screen() {
    let flow = bills(
        "{id: ask, human: {kind: approval, prompt: Pay it?, approvers: {to: [ann, bob], need: 2}}}, {id: act, tool: pay}",
    );
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let asked = stage.inbox("ann").await.remove(0);
    let id = asked.request_id.as_str();
    assert_eq!(stage.command("ann", &["delegate", id, "--to", "dan", "--for", "1h"]).code, 0);
    stage.answer("dan", &asked, json!("approve")).await.unwrap();
    let seen = stage.inbox("bob").await.remove(0);
    assert_eq!((seen.votes.len(), seen.stages[0].missing), (1, 1));
    assert!(page(&stage, "bob", &at(&asked)).contains("dan said approve"));
    assert_eq!(stage.command("ann", &["delegate", id, "--take-back"]).code, 0);
    let seen = stage.inbox("bob").await.remove(0);
    assert_eq!((seen.votes.len(), seen.stages[0].missing), (0, 2), "{seen:?}");
    let shown = page(&stage, "bob", &at(&asked));
    assert!(!shown.contains("dan said") && shown.contains("2 more of"), "{shown}");
    let told = stage.command("bob", &["inbox", id]);
    assert!(!told.out.contains("dan said"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_fork_of_what_was_carried_out_says_so_where_it_asks() {
    let flow = bills(
        "{id: ask, human: {kind: approval, prompt: Pay it?}}, {id: act, tool: pay, arguments: {amount: 7}}",
    );
    let stage = Stage::open(&flow).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    stage.answer(LOCAL, &asked, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await.len(), 1);
    let mut client = stage.client(LOCAL).await;
    let run_id = asked.run_id.clone();
    let marks = client.list_checkpoints(ListCheckpointsRequest { run_id }).await.unwrap();
    let checkpoint_id = marks.into_inner().checkpoints.remove(0).checkpoint_id;
    let fork = ForkRunRequest { run_id: asked.run_id.clone(), checkpoint_id, ..Default::default() };
    let mut stream = client.fork_run(fork).await.unwrap().into_inner();
    while stream.message().await.unwrap().is_some() {}
    let again = stage.inbox(LOCAL).await.remove(0);
    assert_ne!(again.run_id, asked.run_id);
    let facts = again.context.clone().unwrap().into_value();
    let done = facts["already_done"][0].as_str().unwrap();
    assert!(done.contains("`pay` was called in run") && done.contains('7'), "{done}");
    let shown = page(&stage, LOCAL, &at(&again));
    assert!(shown.contains("Done already, where this was forked from"), "{shown}");
    let told = stage.command(LOCAL, &["inbox", &again.request_id]);
    assert!(told.out.contains("was called in run"), "the terminal says it too: {told:?}");
    stage.answer(LOCAL, &again, json!("approve")).await.unwrap();
    assert_eq!(
        stage.deeds(LOCAL, &again.run_id).await.len(),
        2,
        "whoever was told may do it again"
    );
}

/// An agent that pays, with a secret, behind a gate that can be opened for a while.
fn paying() -> String {
    let tool = TOOL.replace(
        "parameters: {type: object}",
        "parameters: {type: object, properties: {amount: {type: number}, pin: {type: string, writeOnly: true}}}",
    );
    format!(
        "
name: bills
models:
  default:
    provider: scripted
    script:
      - {{when: {{tool_result_contains: paid}}, say: Done.}}
      - {{call: [{{tool: pay, arguments: {{amount: 50, pin: hunter2-hunter2}}}}]}}
tools:{tool}
gates: [{{name: money, tools: [pay], when: [{{argument: {{pointer: /amount, over: 10}}}}], allow_for: 30m}}]
agents:
  payer: {{tools: [pay], human_input: false}}
pattern: sequential
steps: [{{id: pay, agent: payer}}, {{id: ok, human: {{kind: approval, prompt: Good?}}}}]
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_grant_covers_and_until_when_is_said_and_a_secret_stands_on_no_screen() {
    let stage = Stage::open(&paying()).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    stage.answer(LOCAL, &asked, json!("allow_for_run")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await[0]["pin"], "hunter2-hunter2", "it is sent");
    let told = stage.command(LOCAL, &["runs", &asked.run_id]).out;
    assert!(told.contains("with `/amount` up to 50") && told.contains("until 20"), "{told}");
    let shown = page(&stage, LOCAL, &format!("/console/runs/{}", asked.run_id));
    assert!(shown.contains("up to 50") && shown.contains("until <time"), "{shown}");
    assert!(!shown.contains("hunter2") && shown.contains("••• (15 characters)"), "{shown}");
    let watched = stage.command(LOCAL, &["watch", &asked.run_id]);
    assert!(watched.out.contains("payer calls pay("), "{watched:?}");
    assert!(!watched.out.contains("hunter2") && watched.out.contains("•••"), "{watched:?}");
    let run = stage.command(LOCAL, &["run", "bills", "Bill 8.", "--no-input"]);
    assert!(!run.out.contains("hunter2"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_what_nobody_is_to_read_is_allowed_or_denied_in_the_console_and_not_edited() {
    let stage = Stage::open(&paying()).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    let why = "It cannot be edited here: something in its arguments is shown to nobody";
    // Nor is there an editor for whoever knows its address.
    for path in [at(&asked), format!("{}?edit=edit", at(&asked))] {
        let shown = page(&stage, LOCAL, &path);
        for part in ["value=\"allow_once\"", "value=\"deny\"", "answer/note", why] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("answer/arguments") && !shown.contains("?edit="), "{shown}");
        assert!(shown.contains("If you allow it, exactly this is done"), "{shown}");
    }
    let reviewed = json!({"amount": 1, "pin": "mine"}).to_string();
    let edits: [&[(&str, &str)]; 3] = [
        &[("decision", "allow_once"), ("answer/arguments/amount", "1")],
        &[("decision", "edit"), ("answer/arguments/amount", "1"), ("confirmed", "yes")],
        &[("decision", "edit"), ("reviewed/arguments", reviewed.as_str()), ("confirmed", "yes")],
    ];
    for edit in edits {
        let refused = stage.form(LOCAL, &asked, edit);
        assert_eq!(refused.status, 422, "{edit:?}: {}", refused.body);
        assert!(refused.body.contains(&format!("Nothing was decided. {why}")), "{}", refused.body);
    }
    assert_eq!(stage.paid(), 0);
    let sent = stage.form(LOCAL, &asked, &[("decision", "allow_once"), ("answer/note", "Fine.")]);
    assert_eq!(sent.status, 303, "{}", sent.body);
    let done = json!({"amount": 50, "pin": "hunter2-hunter2"});
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await, [done]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_is_to_read_is_told_to_be_hidden_at_every_door_and_of_the_decision() {
    let mut stage = Stage::open(&paying()).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    let (id, run) = (asked.request_id.as_str(), asked.run_id.as_str());
    let wanted = GetRequestRequest { request_id: id.into() };
    let whole = stage.client(LOCAL).await.get_request(wanted).await.unwrap();
    let whole = whole.into_inner().request.unwrap();
    assert!(whole.veiled && whole.admits_you == Some(true), "{whole:?}");
    let says = |told: &str| told.replace(' ', "").contains("\"veiled\":true");
    for words in [["inbox", id, "--json"], ["respond", id, "--json"]] {
        let told = stage.command(LOCAL, &words);
        assert!(says(&told.out), "{words:?}: {told:?}");
    }
    let http = stage.http(LOCAL).get(&format!("/v1/runs/{run}/status")).ok();
    assert_eq!(http["workflow_waiting"]["requests"][0]["veiled"], true, "{http}");
    let task = stage.agent(LOCAL).call("GetTask", &json!({"id": run})).to_string();
    assert!(says(&task), "{task}");
    stage.answer(LOCAL, &asked, json!({"decision": "allow_once"})).await.unwrap();
    stage.server.terminate();
    stage.server.wait();
    let offline = |words: &[&str]| holdpoint(stage.root.path(), words, "");
    let kept = offline(&["export", "run.json", "--run", run, "--data", "data"]);
    assert_eq!(kept.code, 0, "{kept:?}");
    let told = offline(&["verify", "run.json", "--key", "data/audit.pub", "--json"]).json();
    assert_eq!(told["decisions"][0]["veiled"], true, "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_halted_and_has_no_deadline_says_so_in_the_list_and_on_its_page() {
    let stage = Stage::open(&gated()).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    let waits = "It waits for as long as it takes.";
    let shown = page(&stage, LOCAL, &at(&asked));
    assert!(shown.contains(waits) && !shown.contains("halted: "), "{shown}");
    assert!(!page(&stage, LOCAL, "/console/inbox").contains("halted: "));
    halt(&stage, LOCAL, Scope::Tool("pay".into())).await.unwrap();
    let shown = page(&stage, LOCAL, &at(&asked));
    assert!(shown.contains("It is halted: the tool <code>pay</code>."), "{shown}");
    assert!(!shown.contains(waits), "{shown}");
    let listed = page(&stage, LOCAL, "/console/inbox");
    assert!(listed.contains("halted: the tool <code>pay</code>"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_halted_workflow_asks_as_a_step_of_another_is_listed_as_halted() {
    let stage = Stage::open(NESTED).await;
    stage.start(LOCAL, "s", "Hello.").await;
    halt(&stage, LOCAL, Scope::WorkflowId("inner".into())).await.unwrap();
    let listed = page(&stage, LOCAL, "/console/inbox");
    assert!(listed.contains("halted: the workflow <code>inner</code>"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deciding_word_over_http_is_told_and_can_be_read_again_by_whoever_said_it() {
    let flow = bills(
        "{id: ask, human: {kind: approval, prompt: Pay it?, approvers: {to: [ann, bob], need: 2}}}, {id: act, tool: pay}",
    );
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    stage.start("clerk", "", "Bill 7.").await;
    let asked = stage.inbox("ann").await.remove(0);
    let say = |who: &str| {
        let item = output(&asked.request_id, "approve");
        stage.http(who).post("/v1/responses", &json!({"model": "bills", "input": [item]})).ok()
    };
    let words = |told: &Value| told["output"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    let read = |who: &str, told: &Value| {
        let id = told["id"].as_str().unwrap();
        stage.http(who).raw("GET", &format!("/v1/responses/{id}"), "")
    };
    let first = say("ann");
    assert!(words(&first).contains("1 more is needed"), "{first}");
    let again = read("ann", &first);
    assert_eq!(again.status, 200, "{}", again.body);
    assert!(words(&again.json()).starts_with("Taken: approve."), "{}", again.body);
    let last = say("bob");
    assert_eq!(words(&last), "Taken: approve. That decides it.");
    assert_eq!(words(&read("bob", &last).json()), words(&last));
    for (who, told) in [("ann", &last), ("bob", &first), ("cfo", &last)] {
        assert_eq!(read(who, told).status, 404, "{who}: D2: a word of others is nobody's to read");
    }
    assert_eq!(stage.deeds("clerk", &asked.run_id).await.len(), 1);
}

/// What a browser shows once it has opened these.
fn having_opened(stage: &Stage, requests: &[&Request]) -> Caller {
    let mut browser = stage.console(LOCAL);
    for request in requests {
        let reply = browser.raw("GET", &at(request), "");
        let mut lines = reply.head.lines();
        let set = lines.find_map(|line| line.strip_prefix("set-cookie: ")).unwrap_or_default();
        let cookie = set.split(';').next().unwrap().to_owned();
        if !cookie.is_empty() {
            browser = stage.console(LOCAL).with(&format!("Cookie: {cookie}"));
        }
    }
    browser
}

fn together(browser: &Caller, requests: &[&Request], decision: &str) -> Reply {
    let mut fields: Vec<(String, String)> = Vec::new();
    for request in requests {
        let id = &request.request_id;
        fields.push(("request".into(), id.clone()));
        fields.push((format!("digest/{id}"), request.digest.clone()));
    }
    if !decision.is_empty() {
        fields.push(("decision".into(), decision.into()));
    }
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.raw("POST", "/console/inbox/together", &form_of(&fields))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_somebody_has_opened_and_of_one_kind_is_answered_together() {
    let flow = bills(
        "{id: ask, human: {kind: approval, prompt: Pay it?}}, {id: sure, human: {kind: approval, prompt: Sure?}}, {id: act, tool: pay}",
    );
    let stage = Stage::open(&flow).await;
    let mut asked = Vec::new();
    for session in ["a", "b", "c"] {
        asked.push(question(&stage.start(LOCAL, session, "Bill 7.").await));
    }
    let [one, two, three] = &asked[..] else { panic!("three were begun") };
    // Nothing was opened; then only one of two.
    let bare = together(&stage.console(LOCAL), &[one, two], "approve");
    assert_eq!(bare.status, 422, "{}", bare.body);
    let half = together(&having_opened(&stage, &[one]), &[one, two], "approve");
    assert_eq!(half.status, 422, "{}", half.body);
    assert!(half.body.contains("Open each of them first"), "{}", half.body);
    assert_eq!(stage.inbox(LOCAL).await.len(), 3, "nothing was answered");
    // Shown once more, and then answered, each by itself.
    let browser = having_opened(&stage, &[one, two]);
    let review = together(&browser, &[one, two], "");
    assert!(review.body.contains("Approve all 2"), "{}", review.body);
    assert_eq!(stage.inbox(LOCAL).await.len(), 3, "a look decides nothing");
    stage.answer(LOCAL, two, json!("reject")).await.unwrap();
    let told = together(&browser, &[one, two], "approve");
    assert!(told.body.contains("1 of 1 request answered"), "one was gone: {}", told.body);
    // What the one came to asks something else: that is another kind.
    let sure = stage.inbox(LOCAL).await.into_iter().find(|row| row.prompt == "Sure?").unwrap();
    let mixed = together(&having_opened(&stage, &[&sure, three]), &[&sure, three], "approve");
    assert_eq!(mixed.status, 422, "{}", mixed.body);
    assert!(mixed.body.contains("not of one kind"), "{}", mixed.body);
    // A digest that is not what is asked is refused for that one.
    let mut stale = three.clone();
    stale.digest = "0".repeat(64);
    let told = together(&having_opened(&stage, &[three]), &[&stale], "approve");
    assert!(told.body.contains("0 of 1 request answered"), "{}", told.body);
    assert_eq!(stage.paid(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_press_that_meets_the_next_request_is_not_taken_for_its_answer() {
    let flow = bills("{id: ask, human: {kind: approval, prompt: Pay it?}}, {id: act, tool: pay}");
    let stage = Stage::open(&flow).await;
    let first = question(&stage.start(LOCAL, "a", "Bill 7.").await);
    let second = question(&stage.start(LOCAL, "b", "Bill 8.").await);
    let sent = stage.form(LOCAL, &first, &[("decision", "approve"), ("list", "")]);
    assert_eq!(sent.status, 303, "{}", sent.body);
    assert!(sent.head.contains(&second.request_id), "the next one comes by itself: {}", sent.head);
    // As the page would send it a moment after it was shown, and some time later.
    let press = |shown_at: &str| {
        let fields = [("decision", "approve"), ("came_next", "yes"), ("shown_at", shown_at)];
        stage.form(LOCAL, &second, &fields)
    };
    let quick = press("99999999999999");
    assert_eq!(quick.status, 422, "{}", quick.body);
    assert!(quick.body.contains("meant for the one before"), "{}", quick.body);
    assert_eq!(stage.inbox(LOCAL).await.len(), 1, "it is still open");
    assert_eq!(press("1000").status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_request_leads_back_to_the_one_that_was_answered() {
    let flow = bills("{id: ask, human: {kind: approval, prompt: Pay it?}}, {id: act, tool: pay}");
    let stage = Stage::open(&flow).await;
    let first = question(&stage.start(LOCAL, "a", "Bill 7.").await);
    let second = question(&stage.start(LOCAL, "b", "Bill 8.").await);
    let sent = stage.form(LOCAL, &first, &[("decision", "approve"), ("list", "")]);
    assert_eq!(sent.status, 303, "{}", sent.body);
    let path = format!("{}?list=&done={}", at(&second), first.request_id);
    assert!(sent.head.contains(&path), "{}", sent.head);
    let next = page(&stage, LOCAL, &path);
    let back = format!("Answered: <a href=\"{}?list=\">Pay it?</a> (Approve)", at(&first));
    assert!(next.contains(&back), "{next}");
    assert!(page(&stage, LOCAL, &at(&first)).contains("receipt"), "where its receipt is");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_long_and_decided_at_once_is_quick_at_a_door_that_does_not_tell_what_it_showed() {
    let steps = "{id: ask, human: {kind: approval, prompt: LONG}}, {id: act, tool: pay}";
    let stage = Stage::open(&bills(&steps.replace("LONG", &"Pay it? ".repeat(500)))).await;
    let count = |number: usize| format!("holdpoint_decisions_quick_total {number}\n");
    assert!(stage.server.page("/metrics").1.contains(&count(0)), "0, and not missing");
    let asked = question(&stage.start(LOCAL, "a", "Bill 7.").await);
    stage.answer(LOCAL, &asked, json!("approve")).await.unwrap();
    let metrics = stage.server.page("/metrics").1;
    assert!(metrics.contains(&count(1)), "{metrics}");
    let figures = page(&stage, LOCAL, "/console/oversight");
    assert!(figures.contains(" s after the asking"), "{figures}");
    assert!(figures.contains("<th scope=\"col\">Not known</th>"), "{figures}");
}

/// A form whose fields have another order than their names.
const CARD: &str = "
name: bills
models:
  default: {provider: scripted, script: [{say: Done.}]}
agents:
  idle: {human_input: false}
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: Which card?
        response_schema:
          type: object
          required: [pan, expiry, cvc]
          properties:
            pan: {type: string}
            expiry: {type: object, properties: {year: {type: integer}, month: {type: integer}}}
            cvc: {type: string}
    - {id: end, agent: idle}
";

#[tokio::test(flavor = "multi_thread")]
async fn the_fields_of_a_form_stand_in_the_order_of_the_file_at_every_door() {
    let mut stage = Stage::open(CARD).await;
    let request = question(&stage.start(LOCAL, "s1", "Pay.").await);
    let order = ["/pan", "/expiry", "/expiry/year", "/expiry/month", "/cvc"];
    assert_eq!(request.field_order, order);
    stage.server.restart();
    let names = |schema: &Value| -> Vec<String> {
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let wanted = ["pan", "expiry", "cvc"];
    let inbox = stage.command(LOCAL, &["inbox", "--json"]).json();
    let listed = &inbox["requests"][0];
    assert_eq!(names(&listed["response_schema"]), wanted);
    assert_eq!(names(&listed["response_schema"]["properties"]["expiry"]), ["year", "month"]);
    let http = stage.http(LOCAL).get(&format!("/v1/runs/{}/status", request.run_id)).ok();
    assert_eq!(
        names(&http["workflow_waiting"]["requests"][0]["response_schema"]),
        wanted,
        "{http}"
    );
    let task = stage.agent(LOCAL).call("GetTask", &json!({"id": request.run_id})).to_string();
    let places: Vec<_> =
        wanted.iter().map(|name| task.find(&format!("\"{name}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{task}");
    let console = page(&stage, LOCAL, &at(&request));
    let place = |name: &&str| console.find(&format!("\"answer/{name}")).unwrap();
    assert!(wanted.iter().map(place).is_sorted(), "{console}");
    let typed = stage.command(LOCAL, &["respond", &request.request_id]);
    assert!(typed.err.contains("JSON with pan, expiry.year?, expiry.month?, cvc"), "{typed:?}");
}

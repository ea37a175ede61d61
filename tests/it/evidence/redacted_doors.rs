//! Redacted, at every door: whose a secret is to read. Whoever gave it in a marked field has not shown it to the next
//! person who is asked; whoever decides over a call sees the call; nobody else sees either, however short it is and
//! wherever it stands.

use std::fs;

use holdpoint::wire::v1::{GetRequestRequest, Request};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Code;

use crate::bridge::live::Socket;
use crate::consent::stage::{Stage, question, refusal};
use crate::support::screen::Screen;
use crate::support::server::journal;
use crate::terminal::cli::{holdpoint, with_env};

const NUMBER: &str = "4929-canary-7731";
const WORD: &str = "hunter2-hunter2";
const CARDS: [&str; 2] = ["AMEX-canary-1", "VISA-canary-2"];
/// A text of two characters, and a number of two digits.
const PIN: &str = "7q";
const AMOUNT: u64 = 73;

const FLOW: &str = "
name: card
models: {default: {provider: scripted, script: [{say: Done.}]}}
tools:
  pay:
    provider: http
    parameters:
      type: object
      $defs:
        card:
          type: object
          additionalProperties: false
          properties:
            number: {type: string, secret: true}
            pin: {type: string, writeOnly: true}
      properties:
        amount: {type: integer, secret: true}
        card: {$ref: '#/$defs/card'}
    settings: {method: POST, url: 'TOOLS/pay', allow_private: true}
gates:
  - {name: money, tools: [pay], to: [boss], when: [{argument: {pointer: /amount, over: 50}}]}
agents: {idle: {human_input: false}}
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: Which card?
        response_schema:
          type: object
          properties:
            number: {type: string, secret: true}
            pin: {type: string, writeOnly: true}
            word: {type: string, format: password}
            amount: {type: integer, secret: true}
            cards: {type: array, items: {type: string, secret: true}}
    - id: note
      human: {kind: clarification, prompt: What else?, response_schema: {type: object}}
    - id: look
      human:
        kind: approval
        prompt: 'Is ${steps.ask.number} right for ${steps.ask.amount}?'
        show: '${steps.ask}'
        editable: true
        to: [boss]
    - id: choose
      human:
        kind: selection
        prompt: Which of them?
        to: [boss]
        options_from: {items: '${steps.ask.cards}', id: '${option}'}
    - id: pay
      tool: pay
      arguments:
        amount: '${steps.ask.amount}'
        card: {number: '${steps.ask.number}', pin: '${steps.ask.pin}'}
    - {id: end, agent: idle}
  output: 'paid by ${steps.choose}'
";

const PEOPLE: [(&str, &str); 4] =
    [("ada", "user"), ("boss", "user"), ("eve", "user"), ("aud", "auditor")];

/// Whether a text has that as a word of its own.
fn has_word(told: &str, word: &str) -> bool {
    let is_apart = |char: Option<char>| !char.is_some_and(char::is_alphanumeric);
    told.match_indices(word).any(|(at, _)| {
        let (before, from) = told.split_at(at);
        let after = from.strip_prefix(word).unwrap_or_default();
        is_apart(before.chars().next_back()) && is_apart(after.chars().next())
    })
}

fn hides(what: &str, told: &str) {
    for secret in [NUMBER, WORD, CARDS[0], CARDS[1]] {
        assert!(!told.contains(secret), "{what}: {secret} is there: {told}");
    }
}

/// The same, and what is short.
fn hides_all(what: &str, told: &str) {
    hides(what, told);
    for secret in [PIN, &AMOUNT.to_string()] {
        assert!(!has_word(told, secret), "{what}: {secret} is there: {told}");
    }
}

async fn whole(stage: &Stage, who: &str, id: &str) -> Request {
    let wanted = GetRequestRequest { request_id: id.into() };
    stage.client(who).await.get_request(wanted).await.unwrap().into_inner().request.unwrap()
}

/// Ada has given her card and a note in which its number is the name of something.
async fn given(stage: &Stage) -> String {
    let asked = question(&stage.start("ada", "mine", "Pay, please.").await);
    let given =
        json!({"number": NUMBER, "pin": PIN, "word": WORD, "amount": AMOUNT, "cards": CARDS});
    let told = stage.answer("ada", &asked, given).await.unwrap();
    hides_all("what is streamed to whoever answered", &format!("{told:?}"));
    let noted =
        stage.answer("ada", &question(&told), json!({NUMBER: "mine", "a": [{NUMBER: 1}]})).await;
    hides_all("a secret that is a name", &format!("{:?}", noted.unwrap()));
    asked.run_id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "one run, question by question, and what is left of it")]
async fn what_a_form_keeps_is_nobody_elses_to_read_and_a_call_is_seen_by_those_who_decide_it() {
    let mut stage = Stage::with_people(FLOW, &PEOPLE).await;
    let run = given(&stage).await;

    // Boss is shown the whole answer, in which nothing is marked for boss.
    let listed = stage.inbox("boss").await.pop().unwrap();
    let look = whole(&stage, "boss", &listed.request_id).await;
    assert!(look.veiled && look.admits_you == Some(true) && look.digest == listed.digest);
    hides_all("a later question", &format!("{look:?}"));
    assert!(format!("{look:?}").contains("••• (16 characters)"), "{look:?}");
    let path = format!("/console/requests/{}", look.request_id);
    hides("its page", &stage.console("boss").get(&path).body);
    for words in [&["respond"][..], &["inbox"]] {
        for more in [&[&*look.request_id, "--json"][..], &[&look.request_id]] {
            let ended = stage.command("boss", &[words, more].concat());
            hides_all(&format!("{words:?} {more:?}"), &(ended.out + &ended.err));
        }
    }
    // A mask is nothing to go on with.
    let masked = json!({"number": "••• (16 characters)", "pin": "1", "word": "2", "amount": 3,
        "cards": ["4"]});
    let edit = json!({"decision": "edit", "subject": masked});
    let refused = refusal(stage.answer("boss", &look, edit).await);
    assert_eq!(refused, (Code::InvalidArgument, "answer.invalid".into()));
    let told = stage.answer("boss", &look, json!({"decision": "approve"})).await.unwrap();
    hides_all("what is streamed to whoever decided", &format!("{told:?}"));

    // What is chosen from is named by its place.
    let choose = stage.inbox("boss").await.pop().unwrap();
    let choose = whole(&stage, "boss", &choose.request_id).await;
    hides_all("options", &format!("{choose:?}"));
    let ids: Vec<_> = choose.options.iter().map(|option| option.id.as_str()).collect();
    assert_eq!(ids, ["option-1", "option-2"]);
    hides(
        "their page",
        &stage.console("boss").get(&format!("/console/requests/{}", choose.request_id)).body,
    );
    let wrong = stage.answer("boss", &choose, json!("option-3")).await.unwrap_err();
    hides_all("why an answer is refused", &format!("{wrong:?}"));
    stage.answer("boss", &choose, json!("option-2")).await.unwrap();

    // The call that boss decides over is boss's to see, as its tool marks it.
    let gate = stage.inbox("boss").await.pop().unwrap();
    hides_all("a list", &format!("{gate:?}"));
    let gate = whole(&stage, "boss", &gate.request_id).await;
    let told = format!("{gate:?}");
    assert!(told.contains(NUMBER) && has_word(&told, "73") && !has_word(&told, PIN), "{told}");
    assert!(gate.veiled, "the PIN is a mask to boss, too: {told}");
    let reasons = format!("{:?}", gate.context);
    assert!(reasons.contains("`/amount` is 73, over 50"), "{reasons}");
    for who in ["ada", "aud"] {
        let told = format!("{:?}", journal(&mut stage.client(who).await, &run).await);
        hides_all(&format!("the journal to {who}"), &told);
        assert!(told.contains("`/amount` is •••, over 50"), "{told}");
        let audit = stage.audit(who, &run).await;
        hides_all(&format!("the audit to {who}"), &format!("{audit:?}"));
    }
    stage.answer("boss", &gate, json!({"decision": "allow_once"})).await.unwrap();
    let sent = json!({"amount": AMOUNT, "card": {"number": NUMBER, "pin": PIN}});
    assert_eq!(stage.deeds("ada", &run).await, [sent]);
    let told = format!("{:?}", journal(&mut stage.client("ada").await, &run).await);
    hides_all("the journal", &told);
    stage.server.terminate();
    stage.server.wait();

    // What is handed out has none of it; what is kept has all of it, letter for letter.
    let offline = |words: &[&str]| {
        let ended = holdpoint(stage.root.path(), &[words, &["--data", "data"]].concat(), "");
        assert_eq!(ended.code, 0, "{words:?}: {}{}", ended.out, ended.err);
        ended.out
    };
    let read = |name: &str| fs::read_to_string(stage.root.path().join(name)).unwrap();
    offline(&["verify"]);
    offline(&["export", "run.json", "--run", &run]);
    let bundle: Value = serde_json::from_str(&read("run.json")).unwrap();
    let entries = bundle["entries"].to_string();
    hides_all("a bundle", &entries.replace("\\\"", "\""));
    offline(&["export", "all.json", "--run", &run, "--with-secrets"]);
    assert!(read("all.json").contains(CARDS[1]), "what was chosen is the option itself");
    let looked = ["verify", "run.json", "--key", "data/audit.pub"];
    // A file is on this machine, whichever server others speak to.
    let server = [("HOLDPOINT_SERVER", "http://127.0.0.1:9")];
    let told = with_env(stage.root.path(), &looked, "", &server);
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
    assert!(
        told.out.contains("hidden values are left out; their hashes are there"),
        "{}",
        told.out
    );
    let told = with_env(stage.root.path(), &["verify", "--data", "data"], "", &server);
    assert_eq!(told.code, 2, "a directory is not what the server has: {}", told.err);
}

/// The same person begins it and decides it.
const OWN: &str = "
name: own
input: {type: object, properties: {number: {type: string, secret: true}}}
models: {default: {provider: scripted, script: [{say: Done.}]}}
tools:
  pay:
    provider: http
    parameters: {type: object, properties: {number: {type: string, secret: true}}}
    settings: {method: POST, url: 'TOOLS/pay', allow_private: true}
gates: [{name: money, tools: [pay]}]
agents: {idle: {human_input: false}}
pattern: graph
graph:
  steps: [{id: pay, tool: pay, arguments: {number: '${input.number}'}}, {id: end, agent: idle}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_decides_sees_it_at_every_door_and_whoever_looks_on_at_none() {
    let stage = Stage::with_people(OWN, &PEOPLE).await;
    let shows = |what: &str, told: &str| assert!(told.contains(NUMBER), "{what}: {told}");
    // A2A: in the reply, in the task and in its stream.
    let agent = stage.agent("ada");
    let message = json!({"messageId": "m1", "role": "ROLE_USER", "contextId": "mine",
        "parts": [{"data": {"number": NUMBER}}]});
    let task = agent.send(&message);
    shows("SendMessage", &task["status"].to_string());
    hides("what was said", &task["history"].to_string());
    let run = task["id"].as_str().unwrap().to_owned();
    let fetched = agent.call("GetTask", &json!({"id": run}));
    shows("GetTask", &fetched["status"].to_string());
    let streamed = agent.stream("SubscribeToTask", &json!({"id": run})).next().unwrap().1;
    shows("SubscribeToTask", &streamed.to_string());
    let others = stage.agent("aud").call("GetTask", &json!({"id": run}));
    hides("GetTask to an onlooker", &others.to_string());
    // HTTP: in a response, whole and as it is streamed, and in what a conversation waits for.
    let http = stage.http("ada");
    let body = json!({"model": "own", "input": json!({"number": NUMBER}).to_string()});
    shows("a response", &http.post("/v1/responses", &body).ok()["output"].to_string());
    for path in ["/v1/responses", "/v1/workflows/own/run"] {
        let body = json!({"model": "own", "stream": true,
            "input": json!({"number": NUMBER}).to_string()});
        let reply = http.post(path, &body);
        if reply.status == 200 {
            shows(path, &reply.body);
        }
    }
    shows("a conversation", &http.get("/v1/conversations/mine").body);
    hides("a conversation to an onlooker", &stage.http("aud").get("/v1/conversations/mine").body);
    // The socket, as soon as it is open.
    let bearer = format!("Bearer {}", stage.key("ada"));
    let mut socket = Socket::open(&stage.server, &[("authorization", &bearer)]).await.unwrap();
    socket.say(&json!({"type": "watch_requests", "id": 1})).await;
    let opened = loop {
        let told = socket.hear().await.unwrap();
        if told["type"] == "request_opened" {
            break told;
        }
    };
    shows("the socket", &opened.to_string());
    let bearer = format!("Bearer {}", stage.key("aud"));
    let mut socket = Socket::open(&stage.server, &[("authorization", &bearer)]).await.unwrap();
    socket.say(&json!({"type": "watch", "id": 1, "run_id": run})).await;
    loop {
        let told = socket.hear().await.unwrap();
        hides("the socket to an onlooker", &told.to_string());
        if told["name"] == "status" {
            break;
        }
    }
    // The terminal: one question, for whoever asks for it; and nothing into a pipe.
    let id = opened["request"]["request_id"].as_str().unwrap();
    shows("inbox REQUEST --json", &stage.command("ada", &["inbox", id, "--json"]).out);
    shows("respond REQUEST --json", &stage.command("ada", &["respond", id, "--json"]).out);
    for words in [&["inbox", id][..], &["respond", id], &["inbox"], &["inbox", "--json"]] {
        let ended = stage.command("ada", words);
        hides(&format!("{words:?} into a pipe"), &(ended.out + &ended.err));
    }
    let (url, key) = (stage.server.url(), stage.key("ada"));
    let binary = env!("CARGO_BIN_EXE_holdpoint");
    let shell = format!("{binary} --server {url} --api-key {key} inbox {id}; cat");
    Screen::open(stage.root.path(), "inbox", (110, 40), &shell).sees(&[NUMBER]);
}

const REFERS: &str = "
name: refers
models: {default: {provider: scripted, script: [{say: Done.}]}}
tools:
  pay:
    provider: http
    parameters:
      type: object
      required: [card]
      $defs: {card: {type: object, required: [number], properties: {number: {type: string}}}}
      properties: {card: {$ref: '#/$defs/card'}}
    settings: {method: POST, url: 'TOOLS/pay', allow_private: true}
gates: [{name: money, tools: [pay]}]
agents: {idle: {human_input: false}}
pattern: graph
graph:
  steps:
    - {id: pay, tool: pay, arguments: {card: {number: '1'}}, critical: false}
    - {id: end, agent: idle}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_parameters_refer_to_their_own_parts_is_allowed_denied_and_edited() {
    let stage = Stage::open(REFERS).await;
    for (session, said) in [
        ("a", json!({"decision": "allow_once"})),
        ("b", json!({"decision": "deny"})),
        ("c", json!({"decision": "edit", "arguments": {"card": {"number": "2"}}})),
    ] {
        let gate = question(&stage.start("", session, "Pay.").await);
        let wrong = json!({"decision": "edit", "arguments": {"card": {"number": 2}}});
        let refused = stage.answer("", &gate, wrong).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        let edit = format!("/console/requests/{}?edit=edit", gate.request_id);
        let page = stage.http("").get(&edit).body;
        assert!(page.contains("/arguments/card/number"), "there is a field for it: {page}");
        stage.answer("", &gate, said).await.unwrap();
        stage.deeds("", &gate.run_id).await;
    }
    let numbers: Vec<_> = stage.deeds("", &stage.runs("").await[0].run_id).await;
    assert_eq!(numbers, [json!({"card": {"number": "1"}}), json!({"card": {"number": "2"}})]);
}

const FORM: &str = "
name: form
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: Who are you?
        response_schema:
          type: object
          required: [pin]
          properties: {pin: {type: string, secret: true, maxLength: 20}}
";

#[test]
fn a_terminal_says_which_field_is_secret_and_shows_nothing_of_what_is_typed_there() {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("workflows")).unwrap();
    fs::write(root.path().join("workflows/form.yaml"), FORM).unwrap();
    let piped = holdpoint(root.path(), &["run", "form", "Go.", "-i"], &format!("{NUMBER}\n\n"));
    assert_eq!(piped.code, 0, "{piped:?}");
    hides("what was piped in", &format!("{piped:?}"));
    let binary = env!("CARGO_BIN_EXE_holdpoint");
    let screen =
        Screen::open(root.path(), "form", (110, 40), &format!("{binary} run form Go.; cat"));
    screen.sees(&["secret, not shown as you type"]);
    screen.types(NUMBER);
    let shown = screen.sees(&["1. pin  (not shown)"]);
    hides("what was typed", &shown);
    // What is typed afterwards is seen again.
    screen.types("visible");
    screen.sees(&["visible"]);
}

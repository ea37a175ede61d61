//! Guessing: whoever may not see a secret is told nothing of it by what the server says of their own words: not by where
//! a mask stands among their guesses, and not by what a refusal says again.

use holdpoint::wire::v1::{AuditEntry, SignalRunRequest};
use serde_json::{Value, json};
use tonic::Status;

use crate::consent::stage::{Stage, question};
use crate::support::server::journal;

const PIN: &str = "4711";

const FLOW: &str = "
name: guess
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: Your PIN?
        to: [ada]
        response_schema: {type: object, properties: {pin: {type: string, secret: true}}}
    - {id: first, wait: {signal: go, for: 7d}}
    - {id: second, wait: {signal: go, for: 7d}}
    - {id: third, wait: {signal: go, for: 7d}}
";

async fn signal(stage: &Stage, who: &str, run_id: &str, payload: Value) -> Result<(), Status> {
    let (run_id, name) = (run_id.to_owned(), "go".to_owned());
    let request =
        SignalRunRequest { run_id, name, payload: Some(payload.into()), ..Default::default() };
    stage.client(who).await.signal_run(request).await.map(|_| ())
}

fn told(entries: &[AuditEntry], action: &str, by: &str) -> Vec<String> {
    let of = entries.iter().filter(|it| it.action == action && it.principal == by);
    of.map(|it| format!("{:?}", it.value)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_owner_who_sends_all_there_are_is_not_told_which_of_them_is_the_secret() {
    let stage = Stage::with_people(FLOW, &[("ada", "user"), ("bob", "user")]).await;
    let run = question(&stage.start("bob", "mine", "Go.").await).run_id;
    let asked = stage.inbox("ada").await.pop().unwrap();
    stage.answer("ada", &asked, json!({"pin": PIN})).await.unwrap();

    let guesses: Vec<_> = (4000..5000).map(|guess| guess.to_string()).collect();
    signal(&stage, "bob", &run, json!(guesses.join(" "))).await.unwrap();
    signal(&stage, "bob", &run, json!(guesses)).await.unwrap();
    let trail = stage.audit("bob", &run).await;
    let said = told(&trail, "signalled", "bob");
    assert_eq!(said.len(), 2, "{trail:?}");
    for said in said {
        assert!(said.contains("4710") && said.contains(PIN) && !said.contains("•••"), "{said}");
    }
    let given = told(&trail, "answered", "ada").concat();
    assert!(given.contains("•••") && !given.contains(PIN), "{given}");
    // Where the run itself repeats them, all are hidden or none is.
    let journal = journal(&mut stage.client("bob").await, &run).await;
    for event in journal {
        let told = format!("{event:?}");
        let is_one_bare = told.contains("4710") && told.contains("4712");
        assert!(!is_one_bare || told.contains(PIN), "{told}");
    }
}

const WORD: &str = "XX-CANARY-1234";

const ASKS: &str = "
name: asks
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: Your account?
        response_schema:
          type: object
          required: [iban]
          properties: {iban: {type: string, secret: true, pattern: '^DE[0-9]+$'}}

=== given
name: given
input:
  type: object
  required: [iban]
  properties: {iban: {type: string, secret: true, pattern: '^DE[0-9]+$'}}
pattern: graph
graph:
  steps: [{id: ask, human: {kind: clarification, prompt: 'And now?'}}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_does_not_say_again_what_was_given_in_a_secret_place() {
    let stage = Stage::open(ASKS).await;
    let asked = question(&stage.start("", "mine", "Go.").await);
    let refused = stage.answer("", &asked, json!({"iban": WORD})).await.unwrap_err();
    let refused = format!("{refused:?}");
    assert!(refused.contains("response schema") && !refused.contains(WORD), "{refused}");
    // Nor does the form, which is a field that shows nothing.
    let page = stage.form("", &asked, &[("answer/iban", WORD)]).body;
    assert!(page.contains("type=\"password\"") && page.contains("^DE[0-9]+$"), "{page}");
    assert!(!page.contains(WORD), "{page}");
    let input = json!({"iban": WORD}).to_string();
    let refused = stage.http("").post("/v1/responses", &json!({"model": "given", "input": input}));
    assert!(refused.body.contains("input schema"), "{}", refused.body);
    assert!(!refused.body.contains(WORD), "{}", refused.body);
}

//! Gates wherever an agent acts, on the real binary: at handoffs, at replies, before steps, with conditions that say
//! what met them; asked through one door, killed while it waits, answered through another.

use holdpoint::wire::v1::RunStatus;
use serde_json::{Value, json};

use crate::bridge::calls::output;
use crate::consent::stage::{LOCAL, Stage, facts};
use crate::support::server::{asked, names};

const DESK: &str = "
name: desk
models:
  default:
    provider: scripted
    script:
      - {agent: triage, when: {last_contains: broken}, say: Perhaps repair can help., handoff: repair}
      - {agent: triage, say: Good day.}
      - {agent: repair, say: It is repaired.}
agents:
  triage: {human_input: false}
  repair: {human_input: false}
gates:
  - {name: before_handoff, handoffs: [{from: triage, to: repair}], when: [uncertain]}
pattern: handoff
handoff:
  start: triage
  handoffs: {triage: [repair]}
  after_work: {repair: end}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_handoff_waits_across_a_kill_and_goes_on_through_another_door() {
    let mut stage = Stage::open(DESK).await;
    let told = stage.start(LOCAL, "s1", "It is broken.").await;
    let request = asked(&told).expect("the gate asks");
    assert!(facts(&request).contains("the agent says `perhaps`"), "{}", facts(&request));
    assert!(!names(&told).contains(&"handoff"), "{:?}", names(&told));
    stage.server.restart();
    let body = json!({"conversation": "s1", "input": [output(&request.request_id, r#"{"decision": "allow_once"}"#)]});
    let done = stage.http(LOCAL).post("/v1/responses", &body).ok();
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(
        done["workflow_waiting"],
        Value::Null,
        "after its work the conversation ends: {done}"
    );
    let runs = stage.runs(LOCAL).await;
    assert_eq!(runs[0].status(), RunStatus::Completed);
}

const LETTER: &str = "
name: letter
models:
  default:
    provider: scripted
    script:
      - {agent: writer, turn: 1, say: Dear Ada.}
      - {agent: writer, say: Dear Bob.}
      - {agent: sender, say: 'Sent: {{said.writer}}'}
agents:
  writer: {human_input: false}
  sender: {human_input: false}
gates:
  - {name: final_words, replies: [writer]}
pattern: sequential
steps: [{agent: writer}, {agent: sender}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_waits_across_a_kill_unheard_and_what_is_put_in_its_place_is_what_is_sent() {
    let mut stage = Stage::open(LETTER).await;
    let began = stage.http(LOCAL).start("letter", "Write.");
    assert!(!began["output"].to_string().contains("message\""), "nobody has heard it: {began}");
    let request = stage.inbox(LOCAL).await.remove(0);
    assert!(facts(&request).contains("Dear Ada."), "whoever decides sees it");
    stage.server.restart();
    let edit = json!({"decision": "edit", "arguments": {"text": "Dear Eve."}});
    let told = stage.answer(LOCAL, &request, edit).await.unwrap();
    let said = format!("{told:?}");
    assert!(said.contains("Sent: Dear Eve."), "{said}");
    assert!(!said.contains("Sent: Dear Ada."), "{said}");
}

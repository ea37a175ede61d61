//! Oversight: whoever sees everything can tell decisions from clicks, by figures; nobody else is shown them.

use holdpoint::wire::v1::{SendResponsesRequest, Shown};
use serde_json::json;

use crate::consent_stage::{Stage, bills, question};
use crate::server::drained;

fn gated() -> String {
    bills("{id: act, tool: pay}")
        .replace("agents:", "gates: [{name: money, tools: [pay]}]\nagents:")
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_counted_by_person_and_rule_and_those_quicker_than_reading_are_listed() {
    let people = [("ann", "user"), ("ada", "auditor"), ("bob", "user")];
    let stage = Stage::with_people(&gated(), &people).await;
    for (number, (word, characters, milliseconds)) in
        [("allow_once", 1_000, 500), ("allow_once", 1_000, 60_000), ("deny", 10, 60_000)]
            .into_iter()
            .enumerate()
    {
        let asked = question(&stage.start("ann", &format!("s{number}"), "Bill.").await);
        let message = SendResponsesRequest {
            responses: [(asked.request_id.clone(), json!(word).into())].into(),
            digests: [(asked.request_id.clone(), asked.digest.clone())].into(),
            shown: Some(Shown { characters, milliseconds }),
            ..Default::default()
        };
        let told = stage.client("ann").await.send_responses(message).await.unwrap();
        drained(told.into_inner()).await.unwrap();
    }
    let open = question(&stage.start("ann", "s9", "Bill.").await);
    assert!(stage.answer("bob", &open, json!("allow_once")).await.is_err(), "not his");
    let page = stage.console("ada").raw("GET", "/console/audit/oversight", "");
    assert_eq!(page.status, 200, "{page:?}");
    for words in [
        "<td class=\"wide\">ann</td><td>3</td><td>2 (66 %)</td><td>0 (0 %)</td><td>1 (33 %)</td><td>1 (33 %)</td>",
        "bills · act · pay</td><td>3</td>",
        "1000 characters shown for 0 s",
        "<td>ann</td><td>1</td><td>0</td><td>0</td><td>0</td>",
    ] {
        assert!(page.body.contains(words), "{words} is not in {}", page.body);
    }
    assert!(!page.body.contains("1000 characters shown for 60 s"), "that one was read");
    assert!(page.body.contains("request.unknown"), "what was refused is counted: {}", page.body);
    // Read twice as fast, and three times as fast, it is the same; a thousand times as fast, nothing is quick.
    let fast = stage.console("ada").raw("GET", "/console/audit/oversight?speed=10000", "");
    assert!(!fast.body.contains("characters shown for 0 s"), "{}", fast.body);
    let metrics = stage.http("ada").raw("GET", "/metrics", "").body;
    assert!(metrics.contains("holdpoint_decisions_total{decision=\"allow_once\"} 2"), "{metrics}");
    assert!(metrics.contains("holdpoint_answers_refused_total{code="), "{metrics}");
    let refused = stage.console("bob").raw("GET", "/console/audit/oversight", "");
    assert_eq!(refused.status, 403, "{refused:?}");
}

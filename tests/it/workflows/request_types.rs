//! Request types that a file names, on the real binary: a step and an agent ask by name, the inbox lists by it, and
//! every door carries it; across a SIGKILL.

use holdpoint::wire::v1::ListRequestsRequest;
use serde_json::json;

use crate::a2a::calls::text;
use crate::consent::stage::{LOCAL, Stage};
use crate::support::server::asked;

const FLOW: &str = "
name: shipping
models:
  default:
    provider: scripted
    script:
      - {agent: clerk, when: {last_contains: fast}, say: Thank you.}
      - {agent: clerk, say: '', call: [{tool: request_user_input, arguments: {prompt: 'How fast?', request_type: speed}}]}
request_types:
  address:
    title: Where shall it go?
    schema: {type: object, properties: {city: {type: string, minLength: 1}}, required: [city], additionalProperties: false}
    show: form
  speed:
    kind: selection
    title: How fast?
    schema: {enum: [slow, fast]}
    show: list
agents:
  clerk: {}
pattern: sequential
steps:
  - {id: where, human: {kind: clarification, type: address, prompt: 'Where to?'}}
  - {id: how, agent: clerk}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_named_type_is_asked_by_a_step_and_by_an_agent_listed_by_its_name_and_told_at_every_door()
{
    let mut stage = Stage::open(FLOW).await;
    let told = stage.start(LOCAL, "s1", "A parcel.").await;
    let first = asked(&told).unwrap();
    let named = first.r#type.clone().unwrap();
    assert_eq!(
        (named.name.as_str(), named.title.as_str(), named.show.as_str()),
        ("address", "Where shall it go?", "form")
    );
    let wrong = stage.answer(LOCAL, &first, json!({"town": "Bonn"})).await.unwrap_err();
    assert!(wrong.message().contains("does not fit"), "{}", wrong.message());
    stage.server.restart();
    let told = stage.answer(LOCAL, &first, json!({"city": "Bonn"})).await.unwrap();
    let second = asked(&told).unwrap();
    assert_eq!(second.r#type.clone().unwrap().name, "speed");

    let began = stage.http(LOCAL).start("shipping", "Another.");
    assert_eq!(began["workflow_waiting"]["requests"][0]["type"]["name"], "address", "{began}");
    let task = stage.agent(LOCAL).send(&text("m1", "A third."));
    assert!(task.to_string().contains("Where shall it go?"), "{task}");
    let mut found = Vec::new();
    for name in ["address", "speed", "nothing"] {
        let request = ListRequestsRequest { r#type: name.into(), ..Default::default() };
        let listed = stage.client(LOCAL).await.list_requests(request).await.unwrap().into_inner();
        found.push(listed.requests.len());
    }
    assert_eq!(found, [2, 1, 0]);
    let page = stage.server.page("/console/inbox?type=speed").1;
    assert!(page.contains("How fast?") && !page.contains("Where shall it go?"), "{page}");
    let told = stage.answer(LOCAL, &second, json!("fast")).await.unwrap();
    assert!(asked(&told).is_none() || asked(&told).unwrap().request_id != second.request_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_no_workflow_names_is_answered_with_the_one_that_was_meant() {
    let stage = Stage::open(FLOW).await;
    let look = |name: &str| stage.command(LOCAL, &["inbox", "--type", name]);
    let near = look("adress");
    assert_eq!(near.code, 0, "{near:?}");
    assert!(
        near.err.contains("no workflow has a request type `adress`; did you mean `address`?"),
        "{near:?}"
    );
    let far = look("nope");
    assert!(far.err.contains("`nope`; there are:") && far.err.contains("address"), "{far:?}");
    assert!(!look("speed").err.contains("no workflow has"), "it is only that nothing waits");
    let shown = stage.command(LOCAL, &["workflows", "shipping"]);
    assert!(shown.out.contains("types:  address, speed"), "{shown:?}");
}

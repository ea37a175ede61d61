//! Sessions belong to their owners: the same word of two callers is two sessions, at every door; nobody
//! learns whether another has it; what an earlier build stored under a word alone is still its owner's.

use std::io::Cursor;

use holdpoint::engine::{AnswerRequest, Engine, ForkRequest, InboxFilter, StartRequest};
use holdpoint::kernel::{Millis, Principal, Role, RunId, SessionId};
use holdpoint::ports::identity::Identity;
use holdpoint::ports::{RunFilter, SessionRow};
use holdpoint::store::transfer::{export, import};
use holdpoint::wire::v1::{
    GetRunRequest, GetSessionRequest, ListRequestsRequest, ListRunsRequest, ListSessionsRequest,
    SendResponsesRequest,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::a2a::calls::text;
use crate::consent::stage::{Stage, question, refusal};
use crate::support::server::drained;
use crate::support::workflows::chat;
use crate::support::{Actors, Ground, all, request_of};

/// A word that everybody may choose.
const WORD: &str = "party";

const FLOW: &str = "name: letter
models: {default: {provider: scripted, script: [{agent: writer, say: '{{first_user}}'}]}}
agents:
  writer: {instructions: Write., human_input: false}
pattern: sequential
steps:
  - {id: write, agent: writer}
  - {id: ask, human: {kind: approval, prompt: 'Send it?'}}
";

fn whole(owner: &str) -> String {
    SessionId::of(&SessionId::parse(WORD).unwrap(), owner).to_string()
}

async fn stage() -> Stage {
    Stage::with_people(FLOW, &[("ann", "user"), ("ben", "user"), ("ops", "admin")]).await
}

#[tokio::test]
async fn d2_the_same_word_of_two_callers_is_two_sessions_at_every_door() {
    let stage = stage().await;
    let anns = stage.start("ann", WORD, "Hello.").await;
    // Over gRPC.
    let bens = stage.start("ben", WORD, "Hello.").await;
    assert_ne!(anns[0].run_id, bens[0].run_id);
    assert_eq!((anns[0].session_id.as_str(), bens[0].session_id.as_str()), (WORD, WORD));
    let asked = question(&bens);
    assert_eq!(asked.session_id, WORD);
    // Over A2A: the context is ben's own, and the code of ann's question names nothing in it.
    let mut message = text("m1", &format!("approve {}", question(&anns).code));
    message["contextId"] = json!(WORD);
    let told = stage.agent("ben").send(&message);
    let problem = &told["status"]["message"]["parts"][1]["data"]["problem"]["code"];
    assert_eq!((&told["contextId"], problem), (&json!(WORD), &json!("answer.code_unknown")));
    assert_eq!(told["id"], bens[0].run_id.as_str());
    // Over HTTP.
    let yes = format!("approve {}", asked.code);
    let body = json!({"model": "letter", "input": yes, "conversation": WORD});
    let done = stage.http("ben").post("/v1/responses", &body).ok();
    assert_eq!((&done["run_id"], &done["status"]), (&json!(bens[0].run_id), &json!("completed")));
    let conversation = stage.http("ben").get(&format!("/v1/conversations/{WORD}")).ok();
    assert_eq!(conversation["id"], WORD);
    // Over a WebSocket.
    let start = json!({"type": "start", "id": 1, "workflow_id": "letter", "input": "More.",
        "conversation": WORD});
    let begun = stage.socket("ben", &start).await;
    assert_eq!((&begun["type"], &begun["conversation"]), (&json!("ack"), &json!(WORD)));
    // At the terminal.
    let shown = stage.command("ben", &["sessions", WORD, "--json"]).json();
    assert_eq!(
        (&shown["session"]["session_id"], &shown["session"]["owner"]),
        (&json!(WORD), &json!("ben"))
    );
    assert_eq!(shown["runs"].as_array().unwrap().len(), 2, "{shown}");
    // And ann's is as it was.
    let open = stage.inbox("ann").await;
    assert_eq!((open.len(), open[0].run_id.as_str()), (1, anns[0].run_id.as_str()));
}

#[tokio::test]
async fn d2_whether_another_has_a_word_is_told_to_nobody() {
    let stage = stage().await;
    stage.start("ann", WORD, "Hello.").await;
    let mut ben = stage.client("ben").await;
    for word in [WORD, "nothing", &whole("ann"), &whole("nobody")] {
        let request = GetSessionRequest { session_id: word.into() };
        let looked = refusal(ben.get_session(request).await);
        assert_eq!(looked, (Code::NotFound, "session.unknown".into()), "{word}");
        let request = ListRunsRequest { session_id: word.into(), ..Default::default() };
        assert!(ben.list_runs(request).await.unwrap().into_inner().runs.is_empty(), "{word}");
        let begun = stage.start("ben", word, "Hello.").await;
        assert_eq!(begun[0].session_id, word, "it is told as it was given");
    }
}

#[tokio::test]
async fn others_are_told_the_whole_id_and_it_is_taken_wherever_an_id_is() {
    let stage = stage().await;
    let asked = question(&stage.start("ann", WORD, "Hello.").await);
    let mut ops = stage.client("ops").await;
    let rows = ops.list_sessions(ListSessionsRequest::default()).await.unwrap().into_inner();
    assert_eq!(rows.sessions[0].session_id, whole("ann"));
    let request = GetRunRequest { run_id: asked.run_id.clone(), ..Default::default() };
    let seen = ops.get_run(request).await.unwrap().into_inner().run.unwrap();
    assert_eq!(seen.session_id, whole("ann"));
    for (who, word) in [("ops", whole("ann")), ("ann", whole("ann")), ("ann", WORD.into())] {
        let mut client = stage.client(who).await;
        let request = GetSessionRequest { session_id: word.clone() };
        let found = client.get_session(request).await.unwrap().into_inner().session.unwrap();
        assert_eq!(found.owner, "ann", "{who} {word}");
        let filter = ListRunsRequest { session_id: word.clone(), ..Default::default() };
        assert_eq!(client.list_runs(filter).await.unwrap().into_inner().runs.len(), 1, "{who}");
        let filter = ListRequestsRequest { session_id: word.clone(), ..Default::default() };
        let open = client.list_requests(filter).await.unwrap().into_inner().requests;
        assert_eq!(open.len(), 1, "{who} {word}");
    }
    let answer = SendResponsesRequest {
        session_id: whole("ann"),
        responses: [(asked.request_id.clone(), Value::from("approve").into())].into(),
        ..Default::default()
    };
    // Whom it admits is another matter: ops knows the request, and is not among them (K8).
    let (_, reason) = refusal(ops.send_responses(answer.clone()).await);
    assert_eq!(reason, "answer.not_admitted");
    let mut ann = stage.client("ann").await;
    let told = drained(ann.send_responses(answer).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(told[0].session_id, WORD);
    // Nobody speaks in the session of another.
    let (code, reason) = refusal(stage.say("ops", &whole("ann"), "Hello.").await);
    assert_eq!((code, reason.as_str()), (Code::PermissionDenied, "auth.forbidden"));
    assert_eq!(stage.start("ops", WORD, "Hello.").await[0].session_id, WORD, "but in their own");
}

fn called(name: &str) -> Principal {
    Principal { id: name.into(), roles: Role::User.into(), ..Principal::local("grpc") }
}

fn say(session: &str, input: &str) -> StartRequest {
    StartRequest {
        workflow: "chat".into(),
        session: session.into(),
        input: json!(input),
        ..StartRequest::default()
    }
}

async fn said(engine: &Engine, who: &Principal, session: &str) -> (String, String) {
    let begun = engine.start(say(session, "Hello."), who).await.unwrap();
    let run = begun.run.to_string();
    (run, request_of(&all(begun.watch).await))
}

#[tokio::test]
async fn what_an_earlier_build_stored_under_a_word_is_its_owners_and_nobody_elses() {
    let ground = Ground::new(Actors::default().says("host", "Well?"));
    let bare = SessionId::parse(WORD).unwrap();
    let row = SessionRow::new(bare.clone(), "ann", Millis(1));
    ground.journal.put_session(None, row).await.unwrap();
    let engine = ground.boot(&[chat(9)]).await;
    let (ann, ben) = (called("ann"), called("ben"));
    let (anns, _) = said(&engine, &ann, WORD).await;
    let (bens, _) = said(&engine, &ben, WORD).await;
    let stored = |run: &str| {
        let (journal, run) = (ground.journal.clone(), RunId::parse(run).unwrap());
        async move { journal.head(&run).await.unwrap().unwrap().session }
    };
    assert_eq!(stored(&anns).await, bare, "hers goes on where it was");
    assert_eq!(stored(&bens).await.to_string(), whole("ben"));
    assert_eq!(engine.session(WORD, &ann).await.unwrap().runs.len(), 1);
    assert_eq!(engine.session(WORD, &ben).await.unwrap().row.owner, "ben");
    assert_eq!(engine.session(WORD, &ann).await.unwrap().row.session, bare);
}

#[tokio::test]
async fn a_word_goes_with_its_owner_through_forks_listings_exports_and_imports() {
    let ground = Ground::new(Actors::default().says("host", "Well?"));
    let engine = ground.boot(&[chat(9)]).await;
    let (ann, ben) = (called("ann"), called("ben"));
    let (run, _) = said(&engine, &ann, WORD).await;
    said(&engine, &ben, WORD).await;
    // A fork into a session that is named, and into its original's.
    let fork = |session: &str| {
        let (run, session) = (run.clone(), session.to_owned());
        ForkRequest { run, session, ..ForkRequest::default() }
    };
    for (given, told) in [("", WORD), ("other", "other"), (WORD, WORD)] {
        let begun = engine.fork(fork(given), &ann).await.unwrap();
        assert_eq!(begun.watch.session_id().as_str(), told);
    }
    let listed = engine.sessions("", 0, &ann).await.unwrap().rows;
    let mut words: Vec<_> = listed.iter().map(|view| view.row.session.to_string()).collect();
    words.sort();
    assert_eq!(words, ["other", WORD]);
    let filter = InboxFilter { session: Some(WORD.into()), ..InboxFilter::default() };
    let open = engine.inbox(&ann, &filter, None, 9).await.unwrap().rows;
    assert!(open.len() == 3 && open.iter().all(|row| row.session.as_str() == WORD), "{open:?}");

    let mut file = Vec::new();
    export(&*ground.journal, &mut file, &mut |_| {}).await.unwrap();
    let elsewhere = Ground { journal: holdpoint::store::memory().journal(), ..ground.clone() };
    let another = Identity::renewed("e".into());
    import(&*elsewhere.journal, &mut Cursor::new(&file), &another, &mut |_| {}).await.unwrap();
    let engine = elsewhere.engine(&[chat(9)]).await;
    let named = SessionId::parse(WORD).unwrap();
    let filter = RunFilter { session: Some(named), ..RunFilter::default() };
    assert_eq!(engine.runs(filter.clone(), "", 0, &ann).await.unwrap().rows.len(), 3);
    assert_eq!(engine.runs(filter, "", 0, &ben).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn an_answer_names_its_session_by_the_word_of_whoever_answers() {
    let ground = Ground::new(Actors::default().says("host", "Well?"));
    let engine = ground.boot(&[chat(9)]).await;
    let ann = called("ann");
    let (_, request) = said(&engine, &ann, WORD).await;
    let answer = |session: &str| AnswerRequest {
        session: session.into(),
        answers: vec![(request.clone(), json!("Yes."), None)],
        ..AnswerRequest::default()
    };
    assert!(engine.answer(answer("another"), &ann).await.is_err());
    assert!(engine.answer(answer(WORD), &ann).await.is_ok());
}

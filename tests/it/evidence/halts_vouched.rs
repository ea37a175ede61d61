//! Halts, and services that speak for people: one key is never four eyes, a service's word lets nothing go on that its person
//! could not, and the store's own log has the service beside whomever it named.

use holdpoint::wire::v1::halt_request::Scope;
use holdpoint::wire::v1::{
    Halt, HaltRequest, ListAuditRequest, ReleaseHaltRequest, ReleaseStoreRequest,
};
use tonic::{Code, Request, Status};

use crate::consent::stage::{Stage, refusal};
use crate::evidence::halting::gated;

const PEOPLE: [(&str, &str); 6] = [
    ("svc", "--kind service --role admin --role operator"),
    ("ada", "user"),
    // An admin's key that is confined is good for no halt, and so it is through a service.
    ("adas", "--person ada --role admin --workflow bills"),
    ("op", "operator"),
    ("root", "admin"),
    ("boss", "admin"),
];

/// Whose key is shown, and for whom it speaks; for its own, where they are the same.
type Says = (&'static str, &'static str);

fn said<T>(message: T, (key, person): Says) -> Request<T> {
    let mut request = Request::new(message);
    if key != person {
        request.metadata_mut().insert("x-holdpoint-on-behalf-of", person.parse().unwrap());
    }
    request
}

async fn halt(stage: &Stage, says: Says) -> Result<Halt, Status> {
    let (scope, reason) = (Some(Scope::All(true)), "it looks wrong".into());
    let wish = HaltRequest { scope, reason, ..Default::default() };
    let told = stage.client(says.0).await.halt(said(wish, says)).await?;
    Ok(told.into_inner().halt.unwrap())
}

async fn release(stage: &Stage, says: Says, halt: &Halt) -> Result<(), Status> {
    let wish = ReleaseHaltRequest { halt_id: halt.halt_id.clone(), reason: String::new() };
    stage.client(says.0).await.release_halt(said(wish, says)).await.map(drop)
}

async fn release_store(stage: &Stage, says: Says) -> Result<(), Status> {
    let wish = said(ReleaseStoreRequest::default(), says);
    stage.client(says.0).await.release_store(wish).await.map(drop)
}

/// Who did that by the store's own log, and how they were known.
async fn logged(stage: &Stage, action: &str) -> Vec<[String; 3]> {
    let request = ListAuditRequest { store: true, ..Default::default() };
    let told = stage.client("boss").await.list_audit(request).await.unwrap().into_inner();
    let of = told.entries.into_iter().filter(|entry| entry.action == action);
    of.map(|entry| [entry.principal, entry.assurance, entry.known_by]).collect()
}

fn denied() -> (Code, String) {
    (Code::PermissionDenied, "auth.forbidden".into())
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_one_services_key_is_not_four_eyes_whomever_it_names() {
    let stage = Stage::set(&gated(), &PEOPLE, &["--four-eyes=true"]).await;
    for stops in [("svc", "svc"), ("svc", "ada")] {
        let all = halt(&stage, stops).await.unwrap();
        for lets in [("svc", "svc"), ("svc", "ada"), ("svc", "boss")] {
            assert_eq!(refusal(release(&stage, lets, &all).await), denied(), "{stops:?}, {lets:?}");
        }
        release(&stage, ("boss", "boss"), &all).await.unwrap();
    }
    // A person is one person, with a key of their own and through a service.
    let all = halt(&stage, ("svc", "boss")).await.unwrap();
    assert_eq!(refusal(release(&stage, ("boss", "boss"), &all).await), denied());
    release(&stage, ("root", "root"), &all).await.unwrap();
    let all = halt(&stage, ("boss", "boss")).await.unwrap();
    assert_eq!(refusal(release(&stage, ("svc", "boss"), &all).await), denied());
    release(&stage, ("svc", "root"), &all).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_services_word_lets_nothing_go_on_that_its_person_could_not() {
    let stage = Stage::with_people(&gated(), &PEOPLE).await;
    let all = halt(&stage, ("op", "op")).await.unwrap();
    for person in ["ada", "op"] {
        assert_eq!(refusal(release(&stage, ("svc", person), &all).await), denied(), "{person}");
    }
    release(&stage, ("svc", "root"), &all).await.unwrap();
    assert_eq!(refusal(release_store(&stage, ("svc", "ada")).await), denied());
    for person in ["op", "root", "svc"] {
        release_store(&stage, ("svc", person)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_the_service_beside_whoever_it_halts_and_releases_for() {
    let stage = Stage::with_people(&gated(), &PEOPLE).await;
    let all = halt(&stage, ("svc", "ada")).await.unwrap();
    release(&stage, ("svc", "ada"), &all).await.unwrap_err();
    release(&stage, ("svc", "boss"), &all).await.unwrap();
    let deeds = [("halted", "ada"), ("release_refused", "ada"), ("halt_released", "boss")];
    for (action, who) in deeds {
        let told = logged(&stage, action).await;
        assert_eq!(told, [[who, "vouched", "service svc"]], "{action}");
    }
    let told = stage.command("boss", &["audit", "--store"]);
    let line = told.out.lines().find(|line| line.contains("halt_released")).unwrap_or_default();
    assert!(line.contains("boss by grpc [vouched, service svc] halt_released"), "{told:?}");
    let page = stage.console("boss").raw("GET", "/console/audit/store", "");
    assert!(page.body.contains("vouched, service svc"), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_took_a_halt_back_is_noted_though_the_server_died_meanwhile() {
    let mut stage = Stage::set(&gated(), &PEOPLE, &["--four-eyes=true"]).await;
    let all = halt(&stage, ("op", "op")).await.unwrap();
    stage.server.restart_at("engine.halt_ending");
    release(&stage, ("root", "root"), &all).await.unwrap_err();
    stage.server.restart();
    assert_eq!(logged(&stage, "halt_released").await, [["root", "proven", "key root"]]);
}

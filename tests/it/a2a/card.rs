//! A2A's cards: signed with the server's key and checked by others' code, and the card that only
//! callers with a key get, on every binding.

use std::fs;

use holdpoint::wire::lf::GetExtendedAgentCardRequest;
use holdpoint::wire::lf::a2a_service_client::A2aServiceClient;
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};
use tonic_types::StatusExt as _;

use crate::a2a::calls::Agent;
use crate::a2a::key_of;
use crate::support::python;
use crate::support::server::{Server, Setup};

const CARD: &str = "/a2a/approve_and_send/.well-known/agent-card.json";

/// What the client says of signed cards.
fn client(rest: &[&str]) -> String {
    let ended = python::act("venv", "a2a_card.py").args(rest).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

fn signing(here: &TempDir, algorithm: &str) -> Setup {
    let key = here.path().join("card.pem");
    client(&["key", algorithm, key.to_str().unwrap()]);
    Setup::new(here.path()).arg("--a2a-card-key").arg(key.to_str().unwrap())
}

#[test]
fn a_signed_card_is_verified_by_the_sdk_and_a_changed_one_is_not() {
    for (algorithm, older) in [("ES256", "false"), ("EdDSA", "true")] {
        let here = TempDir::new().unwrap();
        let setup = signing(&here, algorithm);
        key_of(here.path(), "ada");
        let server = setup.arg("--keys=keys.toml").arg("--a2a-v03").arg(older).start();
        let told = client(&["verify", &format!("{}/a2a/approve_and_send", server.url())]);
        assert_eq!(told, "verified approve_and_send\nchanged, and noticed\n", "{algorithm}");
        let told = client(&["verify", &server.url()]);
        assert!(told.starts_with("verified "), "the root's, too: {told}");

        let agent = Agent::new(server.address(), "/a2a");
        let keys = agent.http("GET", "/a2a/.well-known/jwks.json", "").json();
        assert_eq!(keys["keys"][0]["alg"], algorithm);
        assert!(keys["keys"][0].get("d").is_none(), "the private half stays where it is");
        let (one, other) = (agent.http("GET", CARD, ""), agent.http("GET", CARD, ""));
        assert_eq!(one.header("etag"), other.header("etag"), "the same card, signed anew");
    }
}

#[test]
fn a_key_that_signs_nothing_is_told_before_the_server_listens() {
    let here = TempDir::new().unwrap();
    for text in ["", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        let key = here.path().join("card.pem");
        fs::write(&key, text).unwrap();
        let setup = Setup::new(here.path()).arg("--a2a-card-key").arg(key.to_str().unwrap());
        assert!(setup.try_start().is_err());
        assert!(setup.told().contains("openssl genpkey"), "{}", setup.told());
    }
    let setup = Setup::new(here.path()).arg("--a2a-card-key=nowhere.pem");
    assert!(setup.try_start().is_err());
    assert!(setup.told().contains("nowhere.pem"), "{}", setup.told());
    let there = TempDir::new().unwrap();
    let unsigned = Server::start(there.path());
    let agent = Agent::new(unsigned.address(), "/a2a");
    assert!(agent.http("GET", CARD, "").json().get("signatures").is_none());
    assert_eq!(agent.http("GET", "/a2a/.well-known/jwks.json", "").status, 404);
}

async fn by_grpc(
    server: &Server,
    key: &str,
) -> Result<holdpoint::wire::lf::AgentCard, tonic::Status> {
    let mut client = A2aServiceClient::connect(server.url()).await.unwrap();
    let tenant = "approve_and_send".into();
    let mut request = Request::new(GetExtendedAgentCardRequest { tenant });
    request.metadata_mut().insert("a2a-version", MetadataValue::from_static("1.0"));
    if !key.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    }
    client.get_extended_agent_card(request).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn callers_with_a_key_get_a_card_with_more_on_it() {
    let here = TempDir::new().unwrap();
    let key = key_of(here.path(), "ada");
    let server = Setup::new(here.path()).arg("--keys=keys.toml").arg("--a2a-v03=true").start();
    let agent = Agent::new(server.address(), "/a2a/compatibility");
    let public = agent.http("GET", "/a2a/compatibility/.well-known/agent-card.json", "").json();
    assert_eq!(public["capabilities"]["extendedAgentCard"], true);
    assert_eq!(public["supportsAuthenticatedExtendedCard"], true);
    let extensions = |card: &Value| card["capabilities"]["extensions"].as_array().unwrap().len();
    assert_eq!(extensions(&public), 1);

    let stranger = agent.rest("GET", "/extendedAgentCard", &Value::Null);
    assert_eq!(stranger.status, 401);
    let ada = agent.clone().with(&format!("Authorization: Bearer {key}"));
    let card = ada.call("GetExtendedAgentCard", &json!({}));
    let more = &card["capabilities"]["extensions"][1];
    assert_eq!(more["uri"], "urn:holdpoint:a2a:workflow:v1");
    assert_eq!(more["params"]["input"]["required"], json!(["messageId"]));
    assert_eq!(more["params"]["agents"], json!(["sut"]));
    assert_eq!(ada.rest("GET", "/extendedAgentCard", &Value::Null).json(), card);
    let older = Agent { headers: vec![format!("Authorization: Bearer {key}")], ..agent.clone() };
    assert_eq!(older.call("agent/getAuthenticatedExtendedCard", &json!({})), card);

    let card = by_grpc(&server, &key).await.unwrap();
    assert_eq!(card.name, "approve_and_send");
    assert_eq!(card.capabilities.unwrap().extensions.len(), 2);
    assert_eq!(card.supported_interfaces[2].url, server.address());
    assert_eq!(by_grpc(&server, "").await.unwrap_err().code(), Code::Unauthenticated);
}

#[tokio::test]
async fn without_keys_there_is_one_card_for_all() {
    let here = TempDir::new().unwrap();
    let server = Setup::new(here.path()).arg("--a2a-v03=true").start();
    let refused = by_grpc(&server, "").await.unwrap_err();
    let info = refused.get_details_error_info().unwrap();
    assert_eq!(
        (refused.code(), info.reason.as_str()),
        (Code::FailedPrecondition, "UNSUPPORTED_OPERATION")
    );
    let agent = Agent { headers: Vec::new(), ..Agent::new(server.address(), "/a2a") };
    let older = agent.rpc("agent/getAuthenticatedExtendedCard", &json!({}));
    assert_eq!(older["error"]["code"], -32007, "as that version has it");
}

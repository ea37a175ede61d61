//! HTTP tools: what is sent is what the file says, and whatever comes back is bounded and named.

use std::sync::Arc;

use holdpoint::agents::Registry;
use holdpoint::app::SystemClock;
use holdpoint::definition::load_text;
use holdpoint::kernel::{Deed, ToolCall, ToolFault, Workflow};
use holdpoint::ports::{Agents as _, Tools as _};
use serde_json::{Value, json};

use crate::support::tool_server::{Answer, ToolServer};

pub(crate) fn registry() -> Registry {
    Registry::new(Arc::new(SystemClock))
}

/// A workflow with one tool, `t`, of these settings.
pub(crate) fn workflow(safety: &str, settings: &Value) -> Workflow {
    let file = json!({
        "name": "w",
        "pattern": "sequential",
        "steps": [{"agent": "a"}],
        "models": {"m": {"provider": "scripted", "script": [{"say": "hm"}]}},
        "tools": {"t": {
            "provider": "http", "safety": safety, "settings": settings,
            "parameters": {"type": "object", "properties": {"order": {}, "amount": {}, "note": {}}},
        }},
        "agents": {"a": {"tools": ["t"]}},
    });
    let loaded = load_text("w.yaml", &file.to_string(), &|_| Err(String::new())).unwrap();
    loaded.workflow.as_ref().clone()
}

pub(crate) async fn call(settings: &Value, arguments: Value) -> Result<Value, ToolFault> {
    let call = ToolCall::new("c1", "t", arguments);
    registry().call(&workflow("unsafe", settings), &call, "run_1/1/c1").await
}

/// A call that somebody approved of the tool as these settings describe it.
fn approved(settings: &Value, arguments: Value) -> ToolCall {
    let tool = &workflow("unsafe", settings).tools["t"];
    let deed = Deed::of("t", tool, &arguments);
    ToolCall { deed: Some(Box::new(deed)), ..ToolCall::new("c1", "t", arguments) }
}

async fn faulted(settings: &Value) -> (String, String, bool) {
    let fault = call(settings, json!({"order": "7"})).await.unwrap_err();
    (fault.failure.code, fault.failure.message, fault.may_have_happened)
}

#[tokio::test]
async fn what_is_sent_is_what_the_file_says() {
    let server = ToolServer::start([
        ("/orders/a%2F..%2Fb/refunds", Answer::Json(json!({"refund": {"id": 9}}))),
        ("/search", Answer::Json(json!([1]))),
        ("/all", Answer::Json(json!("done"))),
    ])
    .await;
    let settings = json!({
        "method": "POST",
        "url": server.url("/orders/{{order}}/refunds"),
        "query": {"dry_run": "false", "absent": "{{note}}"},
        "headers": {"authorization": "Bearer ${ENV:CARGO_PKG_NAME}", "x-note": "order {{order}}"},
        "body": {"amount": "{{amount}}", "currency": "EUR", "note": "{{note}}"},
        "result": "/refund/id",
        "allow_private": true,
    });
    let arguments = json!({"order": "a/../b", "amount": 12.5});
    assert_eq!(call(&settings, arguments).await.unwrap(), json!(9));
    let seen = server.seen().remove(0);
    assert_eq!(seen.method, "POST");
    assert_eq!(seen.path, "/orders/a%2F..%2Fb/refunds?dry_run=false");
    assert_eq!(seen.key(), "run_1/1/c1");
    assert_eq!(seen.header("authorization"), "Bearer holdpoint");
    assert_eq!(seen.header("x-note"), "order a/../b");
    assert_eq!(seen.json(), json!({"amount": 12.5, "currency": "EUR"}));

    // What the URL does not name goes into the query, or into the body.
    let settings = json!({"url": server.url("/search"), "allow_private": ["127.0.0.1"]});
    call(&settings, json!({"order": "x y", "amount": 3})).await.unwrap();
    assert_eq!(server.seen().remove(1).path, "/search?order=x+y&amount=3");
    let settings = json!({"method": "put", "url": server.url("/all"), "allow_private": true});
    call(&settings, json!({"order": "x", "amount": 3})).await.unwrap();
    assert_eq!(server.seen().remove(2).json(), json!({"order": "x", "amount": 3}));
}

#[tokio::test]
async fn an_argument_cannot_climb_out_of_its_place() {
    let server = ToolServer::start([("/", Answer::Json(json!("root")))]).await;
    let settings = json!({"url": server.url("/orders/{{order}}"), "allow_private": true});
    for climbing in ["..", "."] {
        let fault = call(&settings, json!({"order": climbing})).await.unwrap_err();
        assert_eq!(fault.failure.code, "tool.arguments", "{climbing}");
    }
    let fault = call(&settings, json!({})).await.unwrap_err();
    assert!(fault.failure.message.contains("needs the argument `order`"), "{fault:?}");
    let header =
        json!({"url": server.url("/"), "headers": {"x": "{{order}}"}, "allow_private": true});
    let fault = call(&header, json!({"order": "a\r\nx-evil: 1"})).await.unwrap_err();
    assert_eq!(fault.failure.code, "tool.arguments");
    call(&header, json!({"order": "${ENV:HOME}"})).await.unwrap();
    assert_eq!(server.seen().len(), 1, "nothing else was sent");
    assert_eq!(server.seen()[0].header("x"), "${ENV:HOME}", "a model reads no environment");
}

#[tokio::test]
async fn what_an_argument_brings_in_is_never_read_as_a_template() {
    let server = ToolServer::start([("/", Answer::Json(json!("seen")))]).await;
    let settings = json!({
        "method": "POST",
        "url": server.url("/?q={{order}}{{amount}}"),
        "headers": {"x": "{{order}}{{amount}}", "y": "${ENV:CARGO_PKG_NAME}{{order}}{{amount}}"},
        "body": {"all": "{{order}}{{amount}}"},
        "allow_private": true,
    });
    for (order, amount) in [
        ("$", "{ENV:CARGO_PKG_VERSION}"),
        ("${", "ENV:CARGO_PKG_VERSION}"),
        ("${ENV:", "CARGO_PKG_VERSION}"),
        ("{{amount", "}}"),
        ("{", "{amount}}"),
    ] {
        call(&settings, json!({"order": order, "amount": amount})).await.unwrap();
        let seen = server.seen().pop().unwrap();
        let sent = format!("{order}{amount}");
        assert_eq!(seen.header("x"), sent, "as it is");
        assert_eq!(seen.header("y"), format!("holdpoint{sent}"));
        assert_eq!(seen.json(), json!({"all": sent}));
        assert!(!seen.path.contains(env!("CARGO_PKG_VERSION")), "{}", seen.path);
    }
    let own = json!({"order": "${ENV:CARGO_PKG_VERSION}", "amount": 1});
    call(&settings, own).await.unwrap();
    assert_eq!(server.seen().pop().unwrap().header("x"), "${ENV:CARGO_PKG_VERSION}1");
}

#[tokio::test]
async fn a_secret_is_taken_out_of_answers_however_it_is_spelled() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
    // A path: it has what URLs and JSON spell in other ways.
    let secret = env!("CARGO_MANIFEST_DIR");
    let basic = format!("user:{secret}");
    let percent: Vec<String> = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let echo = json!({
        "plain": secret,
        "base64": STANDARD.encode(secret),
        "bare": STANDARD_NO_PAD.encode(secret),
        "url": URL_SAFE.encode(secret),
        "url_bare": URL_SAFE_NO_PAD.encode(secret),
        "within": STANDARD.encode(&basic),
        "form": secret.replace('/', "%2F"),
        "lower": secret.replace('/', "%2f"),
        "every": percent.concat(),
    });
    let escaped = format!("{{\"{0}\": \"{0}\"}}", secret.replace('/', "\\/"));
    let json_type = vec![("content-type", "application/json".to_owned())];
    let server = ToolServer::start([
        ("/", Answer::Json(echo)),
        ("/escaped", Answer::Raw(200, json_type, escaped.into_bytes())),
    ])
    .await;
    let settings = |path: &str| {
        json!({
            "url": server.url(path),
            "headers": {"authorization": "Bearer ${ENV:CARGO_MANIFEST_DIR}"},
            "allow_private": true,
        })
    };
    let told = call(&settings("/"), json!({})).await.unwrap();
    for (name, value) in told.as_object().unwrap() {
        assert!(value.as_str().unwrap().contains("[secret]"), "{name}: {value}");
    }
    let told = call(&settings("/escaped"), json!({})).await.unwrap();
    assert_eq!(told, json!({"[secret]": "[secret]"}));
}

#[tokio::test]
async fn addresses_of_this_machine_are_refused_unless_the_file_allows_them() {
    let server = ToolServer::start([("/", Answer::Json(json!("secret")))]).await;
    let port = server.address.port();
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433"] {
        let url = format!("http://{host}:{port}/");
        let (code, message, happened) = faulted(&json!({"url": url})).await;
        assert_eq!((code.as_str(), happened), ("tool.private_address", false), "{host}: {message}");
        assert!(message.contains("`allow_private` allows it"), "{message}");
    }
    let others = json!({"url": server.url("/"), "allow_private": ["localhost"]});
    assert_eq!(faulted(&others).await.0, "tool.private_address");
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused_and_never_reached() {
    let inside = ToolServer::start([("/meta", Answer::Json(json!("secret")))]).await;
    let to = |status, place: String| Answer::Raw(status, vec![("location", place)], Vec::new());
    let outside = ToolServer::start([
        ("/go", to(302, inside.url("/meta"))),
        ("/file", to(302, "file:///etc/passwd".into())),
        ("/loop", to(302, "/loop".into())),
        ("/home", to(307, "/there".into())),
        ("/there", Answer::Json(json!("there"))),
        ("/lost", to(302, "/there".into())),
    ])
    .await;
    let at = |path: &str| format!("http://localhost:{}{path}", outside.address.port());
    let get = |path: &str| json!({"url": at(path), "allow_private": ["localhost"]});
    let (looks, look) = (workflow("pure", &get("/go")), ToolCall::new("c1", "t", json!({})));
    let fault = registry().call(&looks, &look, "k").await.unwrap_err();
    let (code, message) = (fault.failure.code, fault.failure.message);
    assert_eq!(code, "tool.private_address", "{message}");
    assert!(message.contains("127.0.0.1"), "{message}");
    assert_eq!(inside.seen().len(), 0, "it was never reached");
    for path in ["/file", "/loop"] {
        assert_eq!(faulted(&get(path)).await.0, "tool.redirect", "{path}");
    }
    assert_eq!(outside.seen().len(), 1 + 1 + 6, "five redirects are followed, and no more");

    let post = |path: &str| {
        json!({"method": "POST", "url": at(path), "allow_private": ["localhost"],
               "headers": {"x-secret": "s"}})
    };
    assert_eq!(call(&post("/home"), json!({"order": 1})).await.unwrap(), json!("there"));
    let seen = outside.seen().pop().unwrap();
    assert_eq!((seen.method.as_str(), seen.json()), ("POST", json!({"order": 1})));
    assert_eq!((seen.key(), seen.header("x-secret")), ("run_1/1/c1", "s"), "the same origin");
    assert_eq!(faulted(&post("/lost")).await.0, "tool.redirect", "302 to a POST is ambiguous");
}

#[tokio::test]
async fn k3_an_approved_call_is_sent_as_it_was_approved_and_nowhere_else() {
    let other = ToolServer::start([("/orders/7", Answer::Json(json!("taken")))]).await;
    let to = |place: String| Answer::Raw(307, vec![("location", place)], Vec::new());
    let server = ToolServer::start([
        ("/orders/7", Answer::Json(json!("sent"))),
        ("/away", to(other.url("/orders/7"))),
        ("/home", to("/orders/7".into())),
    ])
    .await;
    let at = |server: &ToolServer, path: &str| json!({"method": "POST", "url": server.url(path), "allow_private": true});
    let registry = registry();
    let send = async |settings: &Value, call: &ToolCall| {
        let sent = registry.call(&workflow("unsafe", settings), call, "run_1/1/c1").await;
        sent.map_err(|fault| (fault.failure.code, fault.may_have_happened))
    };
    let place = at(&server, "/orders/{{order}}");
    let call = approved(&place, json!({"order": "7", "amount": 10}));
    assert_eq!(send(&place, &call).await, Ok(json!("sent")));

    let broken = Err(("consent.broken".to_owned(), false));
    let dearer = ToolCall { arguments: json!({"order": "7", "amount": 1000}), ..call.clone() };
    assert_eq!(send(&place, &dearer).await, broken, "other arguments");
    assert_eq!(send(&at(&other, "/orders/{{order}}"), &call).await, broken, "another host");
    assert_eq!(send(&at(&server, "/orders/7"), &call).await, broken, "the order in the body");
    let mut put = place.clone();
    put["method"] = json!("PUT");
    assert_eq!(send(&put, &call).await, broken, "another method");
    assert_eq!((server.seen().len(), other.seen().len()), (1, 0), "nothing else was sent");

    let (away, home) = (at(&server, "/away"), at(&server, "/home"));
    let nothing = json!({"amount": 1});
    let refused = send(&away, &approved(&away, nothing.clone())).await;
    // Whoever sent it on has read it, and who knows what they did.
    assert_eq!(refused, Err(("tool.redirect".to_owned(), true)), "a redirect to another host");
    assert_eq!(other.seen().len(), 0);
    assert_eq!(send(&home, &approved(&home, nothing.clone())).await, Ok(json!("sent")));
    let looks = workflow("pure", &away);
    let looked = registry.call(&looks, &ToolCall::new("c1", "t", nothing), "k").await;
    assert_eq!(looked.unwrap(), json!("taken"), "what changes nothing may go on");
}

#[tokio::test]
async fn whatever_comes_back_is_bounded_and_named() {
    let raw = |status, kind: &str, body: &[u8]| {
        Answer::Raw(status, vec![("content-type", kind.to_owned())], body.to_vec())
    };
    let server = ToolServer::start([
        ("/endless", Answer::Endless),
        ("/large", raw(200, "text/plain", &vec![b'x'; 3 << 20])),
        ("/json", raw(200, "application/json; charset=utf-8", b"{\"a\": ")),
        ("/no", raw(409, "text/plain", "ä".repeat(2000).as_bytes())),
        ("/gateway", raw(504, "text/plain", b"")),
        ("/gave-up", raw(524, "text/plain", b"")),
        ("/late", raw(408, "text/plain", b"")),
        ("/text", raw(200, "text/plain", b"plain")),
        ("/nothing", raw(204, "application/json", b"")),
        ("/nowhere", Answer::Json(json!({"b": 1}))),
    ])
    .await;
    let at = |path: &str| json!({"url": server.url(path), "allow_private": true, "result": "/a"});
    let plain = |path: &str| json!({"url": server.url(path), "allow_private": true});
    for (settings, code, happened) in [
        (plain("/endless"), "tool.too_large", false),
        (plain("/large"), "tool.too_large", false),
        (plain("/json"), "tool.bad_json", false),
        (plain("/no"), "tool.status", false),
        (plain("/gateway"), "tool.status", true),
        (plain("/gave-up"), "tool.status", true),
        (plain("/late"), "tool.status", true),
        (at("/nowhere"), "tool.no_result", false),
        (json!({"url": "http://127.0.0.1:9/", "allow_private": true}), "tool.unreachable", false),
    ] {
        let (said, message, may) = faulted(&settings).await;
        assert_eq!((said.as_str(), may), (code, happened), "{settings}: {message}");
        assert!(message.len() < 1_500, "{message}");
    }
    assert_eq!(call(&plain("/text"), json!({})).await.unwrap(), json!("plain"));
    assert_eq!(call(&plain("/nothing"), json!({})).await.unwrap(), json!(""));
}

#[tokio::test]
async fn a_secret_that_comes_back_is_taken_out() {
    let server = ToolServer::start([("/", Answer::Echo("authorization"))]).await;
    let settings = json!({
        "url": server.url("/"), "allow_private": true,
        "headers": {"authorization": "Bearer ${ENV:CARGO_PKG_DESCRIPTION}"},
    });
    let value = call(&settings, json!({})).await.unwrap();
    assert_eq!(value, json!("you sent Bearer [secret]"));
    let sent = server.seen().remove(0).header("authorization").to_owned();
    assert!(sent.contains(env!("CARGO_PKG_DESCRIPTION")));
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_only_where_that_is_safe() {
    let server = ToolServer::start([("/slow", Answer::Gated(json!("done")))]).await;
    let settings = json!({"url": server.url("/slow"), "timeout": "300ms", "allow_private": true});
    let (code, _, happened) = faulted(&settings).await;
    assert_eq!((code.as_str(), happened), ("tool.timeout", true));
    assert_eq!(server.seen().len(), 1, "an unsafe tool is called once");
    let idempotent = workflow("idempotent", &settings);
    let (registry, nothing) = (registry(), ToolCall::new("c1", "t", json!({})));
    let again = registry.call(&idempotent, &nothing, "run_1/1/c2");
    let opened = async {
        for _ in 0..3 {
            server.asked().await;
        }
        server.open_gate();
        server.open_gate();
    };
    let (value, ()) = tokio::join!(again, opened);
    assert_eq!(value.unwrap(), json!("done"));
    let seen = server.seen();
    assert!(seen.len() >= 3, "{seen:?}");
    assert!(seen[1..].iter().all(|seen| seen.key() == "run_1/1/c2"), "the same key");
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_middle_may_have_been_heard() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = [0; 1024];
        tokio::io::AsyncReadExt::read(&mut stream, &mut read).await.unwrap()
    });
    let (code, message, happened) = faulted(&json!({"url": url, "allow_private": true})).await;
    assert_eq!((code.as_str(), happened), ("tool.lost", true), "{message}");
    assert!(server.await.unwrap() > 0, "it was heard");
}

#[test]
fn a_wrong_setting_is_told_where_it_is_when_the_file_is_loaded() {
    for (settings, at, wrong) in [
        (json!({}), "", "missing field `url`"),
        (json!({"url": "https://a/", "urls": 1}), "", "unknown field `urls`"),
        (json!({"url": "ftp://a/"}), "/url", "begins with `https://`"),
        (json!({"url": "https://{{order}}.example/"}), "/url", "cannot choose the host"),
        (json!({"url": "https://u:p@example/"}), "/url", "no names and passwords"),
        (json!({"url": "https://a/{{oder}}"}), "/url", "`oder` is not among"),
        (json!({"url": "https://a/", "method": "FETCH"}), "/method", "expected GET"),
        (json!({"url": "https://a/", "timeout": "2h"}), "/timeout", "at most `1h`"),
        (json!({"url": "https://a/", "result": "a"}), "/result", "JSON pointer"),
        (json!({"url": "https://a/", "headers": {"a b": "c"}}), "/headers/a b", "no header"),
        (
            json!({"url": "https://a/", "headers": {"k": "${ENV:HOLDPOINT_MISSING_KEY}"}}),
            "/headers/k",
            "`HOLDPOINT_MISSING_KEY` is not set",
        ),
    ] {
        let (field, remedy) = registry().check(&workflow("pure", &settings)).unwrap_err();
        assert_eq!(field, format!("/tools/t/settings{at}"), "{settings}");
        assert!(remedy.contains(wrong), "{settings}: {remedy}");
    }
}

//! Redacted, though nothing was marked when the run began: where an agent asks for what is secret, a bundle without it
//! gives nobody what its digests could be tried by.

use std::collections::BTreeMap;
use std::fs;

use holdpoint::kernel::digest;
use serde_json::{Value, json};

use crate::consent::stage::{Stage, question};
use crate::evidence::redacted_starts::curious;
use crate::terminal::cli::holdpoint;

const PIN: &str = "4406";

/// It marks nothing; its model asks for what it wants to be secret.
const FLOW: &str = "
name: pins
models: {default: {provider: openai_chat, model: small, base_url: 'MODEL', key_env: none}}
agents: {clerk: {instructions: Ask., human_input: {to: [cyd]}}}
pattern: graph
graph:
  steps:
    - {id: talk, agent: clerk}
    - {id: look, human: {kind: approval, prompt: 'Is this right?', show: '${steps.talk}', to: [bob]}}
";

/// The events of a bundle, as its payloads have them.
fn events(bundle: &Value) -> Vec<Value> {
    let entries = bundle["entries"].as_array().unwrap().iter();
    let payloads = entries.map(|entry| entry["payload"].as_str().unwrap());
    let read = payloads.map(|payload| serde_json::from_str::<Value>(payload).unwrap());
    read.flat_map(|said| said["events"].as_array().unwrap().clone()).collect()
}

/// When bob was asked, by the append that says so.
fn asked_at(bundle: &Value) -> u64 {
    let entries = bundle["entries"].as_array().unwrap().iter();
    let payloads = entries.map(|entry| entry["payload"].as_str().unwrap());
    let mut read = payloads.map(|payload| serde_json::from_str::<Value>(payload).unwrap());
    let asks = |said: &Value| {
        let mut events = said["events"].as_array().unwrap().iter();
        events.any(|event| event["asked"]["kind"] == "approval")
    };
    read.find(asks).unwrap()["at"].as_u64().unwrap()
}

/// Whatever nonces are drawn from in it, as it stands there.
fn seeds(bundle: &Value) -> Vec<String> {
    let all = events(bundle).into_iter();
    let told = all.filter_map(|event| Some(event.as_object()?.values().next()?.clone()));
    told.filter_map(|told| Some(told["seed"].as_str()?.to_owned())).collect()
}

/// What stands apart from it, by what stands in its place.
fn apart(bundle: &Value) -> BTreeMap<String, Value> {
    let entries = bundle["entries"].as_array().unwrap().iter();
    let secrets = entries.filter_map(|entry| entry["secrets"].as_array()).flatten();
    let known = secrets.map(|one| {
        let (salt, json) = (one["salt"].as_str().unwrap(), one["json"].as_str().unwrap());
        let hash = digest::of_bytes(format!("holdpoint secret 1\n{salt}\n{json}").as_bytes());
        (format!("⟦sha256:{hash}⟧"), serde_json::from_str(json).unwrap())
    });
    known.collect()
}

/// Every value with this text in the place of every hash.
fn filled(value: &Value, with: &str) -> Value {
    match value {
        Value::String(text) if text.contains("⟦sha256:") => {
            let (before, rest) = text.split_once('⟦').unwrap();
            let (_, after) = rest.split_once('⟧').unwrap();
            format!("{before}{with}{after}").into()
        }
        Value::Array(items) => items.iter().map(|item| filled(item, with)).collect(),
        Value::Object(members) => {
            members.iter().map(|(k, v)| (k.clone(), filled(v, with))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The digest of what bob was shown, were this the seed and that the PIN, as `docs/evidence.md` has it: nonces are drawn
/// from the time at which something was asked, too, where the seed begins with `2.`.
fn digest_with((run, all, at): (&str, &[Value], u64), (seed, pin): (&str, &str)) -> String {
    let started = all.iter().find_map(|event| event.get("started")).unwrap();
    let mut asked = all.iter().filter_map(|event| event.get("asked"));
    let asked = asked.find(|asked| asked["kind"] == "approval").unwrap();
    let number = &asked["ordinal"];
    let nonce = digest::of_bytes(format!("holdpoint nonce {seed} {number} {at}").as_bytes());
    let mut form = json!({
        "approvers": asked.get("stages").cloned().unwrap_or_else(|| json!([])),
        "context": asked["context"], "schema": asked["schema"], "decides": true,
        "definition": started["definition"], "kind": asked["kind"], "prompt": asked["prompt"],
        "step": asked["step"], "nonce": nonce.get(..32), "options": [], "request": number,
        "requesters": [started["owner"]], "run": run,
        "subject": filled(&asked["subject"]["shown"], pin), "verbs": ["approve", "reject", "return"],
    });
    if let Some(epoch) = started.get("epoch").filter(|epoch| *epoch != "") {
        form["epoch"] = epoch.clone();
    }
    digest::of(&form)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_without_what_an_agent_asked_for_as_secret_does_not_tell_it_to_whoever_tries_all_there_are()
 {
    let model = curious(PIN).await;
    let people = [("ada", "user"), ("bob", "user"), ("cyd", "user")];
    let mut stage = Stage::with_people(&FLOW.replace("MODEL", &model.base_url), &people).await;
    let run = question(&stage.start("ada", "mine", "Go.").await).run_id;
    let asked = stage.inbox("cyd").await.pop().unwrap();
    stage.answer("cyd", &asked, json!({"pin": PIN})).await.unwrap();
    let look = stage.inbox("bob").await.pop().unwrap();
    assert!(look.veiled, "{look:?}");
    stage.answer("bob", &look, json!({"decision": "approve"})).await.unwrap();
    stage.server.terminate();
    stage.server.wait();

    let read = |name: &str, how: &[&str]| -> Value {
        let words = [&["export", name, "--run", &run, "--data", "data"], how].concat();
        let ended = holdpoint(stage.root.path(), &words, "");
        assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
        serde_json::from_str(&fs::read_to_string(stage.root.path().join(name)).unwrap()).unwrap()
    };
    let (redacted, whole) = (read("redacted.json", &[]), read("whole.json", &["--with-secrets"]));
    // Whoever looks at the question at a door is told its digest as well.
    let (all, at) = (events(&redacted), asked_at(&redacted));
    let shown = all.iter().find_map(|event| {
        event.get("answered").filter(|said| said["by"] == "bob")?["shown"]
            .as_str()
            .map(str::to_owned)
    });
    let shown = shown.unwrap();
    assert_eq!(shown, look.digest);
    let pins = || (0..10_000).map(|pin| format!("{pin:04}"));
    let is_it = |seed: &str, pin: &str| digest_with((&run, &all, at), (seed, pin)) == shown;
    for seed in seeds(&redacted) {
        assert_eq!(pins().find(|pin| is_it(&seed, pin)), None, "{seed}");
    }
    // With what is left out of it, the same finds it.
    let apart = apart(&whole);
    let hidden: Vec<_> = seeds(&whole).iter().filter_map(|seed| apart.get(seed).cloned()).collect();
    let [Value::String(seed)] = hidden.as_slice() else { panic!("{hidden:?}") };
    assert!(is_it(seed, PIN) && !is_it(seed, "4407"), "{redacted}");

    for (file, told) in [
        ("redacted.json", "what was shown cannot be computed without the secrets"),
        ("whole.json", "what was shown is what was asked"),
    ] {
        let words = ["verify", file, "--key", "data/audit.pub"];
        let looked = holdpoint(stage.root.path(), &words, "");
        assert_eq!(looked.code, 0, "{}{}", looked.out, looked.err);
        let of_bob = looked
            .out
            .lines()
            .find(|line| line.contains(" bob ") && line.contains("Is this right?"));
        assert!(of_bob.is_some_and(|line| line.contains(told)), "{file}: {}", looked.out);
        super::redacted::scripted(stage.root.path(), file);
    }
}

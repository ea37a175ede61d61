//! The shipped workflows through the wire formats: the same outcome, the same questions, the same
//! model inputs as on scripts.

use std::sync::Arc;

use holdpoint::agents::Registry;
use holdpoint::definition;
use holdpoint::engine::{AnswerRequest, Engine, Entry, Library, Published, StartRequest};
use holdpoint::kernel::workflow::Model;
use holdpoint::kernel::{Event, Usage, Workflow, digest};
use serde_json::{Value, json};

use crate::models::player;
use crate::support::{SimClock, all, request_of, someone};

/// A shipped workflow.
pub(crate) fn shipped(name: &str) -> Arc<Workflow> {
    let shipped = definition::shipped();
    Arc::clone(&shipped.iter().find(|one| one.workflow.name == name).unwrap().workflow)
}

/// The same workflow, answered for by a server.
pub(crate) fn served(workflow: &Workflow, provider: &str, base_url: &str) -> Workflow {
    let settings = json!({"model": "small", "base_url": base_url, "key_env": "none"});
    let mut served = workflow.clone();
    served.models.insert("default".into(), Model { provider: provider.into(), settings });
    served
}

/// An engine with real agents on the reference store.
pub(crate) async fn engine(registry: Registry, workflow: &Workflow) -> Engine {
    let journal = holdpoint::store::memory().journal();
    let digest = digest::of(&serde_json::to_value(workflow).unwrap());
    let library = Library::default();
    let entry = Entry { workflow: Arc::new(workflow.clone()), digest };
    library.add(&*journal, entry).await.unwrap();
    let registry = Arc::new(registry);
    Engine::new(journal, Arc::new(SimClock::default()), registry.clone(), registry, library)
}

/// What a run told, and what its models were given.
struct Told {
    events: Vec<Published>,
    inputs: Vec<Value>,
}

impl Told {
    async fn run(workflow: &Workflow, input: &str, answers: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inputs.jsonl");
        let registry = Registry::new(Arc::new(SimClock::default())).recording(&path).unwrap();
        let engine = engine(registry, workflow).await;
        let request = StartRequest {
            workflow: workflow.name.clone(),
            input: json!(input),
            ..StartRequest::default()
        };
        let begun = engine.start(request, &someone()).await.unwrap();
        let mut events = all(begun.watch).await;
        for answer in answers {
            let answers = vec![(request_of(&events), json!(answer), None)];
            let request = AnswerRequest { answers, ..AnswerRequest::default() };
            events.extend(all(engine.answer(request, &someone()).await.unwrap().watch).await);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let inputs = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { events, inputs }
    }

    /// Everything but what a wire adds: pieces of text, and figures.
    fn story(&self) -> Vec<Event> {
        let told = |published: &Published| {
            let mut event = Event::clone(&published.event);
            if let Event::MessageAdded { usage, .. } = &mut event {
                *usage = Usage::default();
            }
            // The definition names another provider.
            if let Event::Started(started) = &mut event {
                started.definition.clear();
            }
            event
        };
        let events = self.events.iter().map(told);
        events.filter(|event| !matches!(event, Event::Delta { .. })).collect()
    }

    fn tokens(&self) -> u64 {
        let tokens = |published: &Published| {
            let Event::MessageAdded { usage, .. } = &*published.event else { return 0 };
            usage.output_tokens
        };
        self.events.iter().map(tokens).sum()
    }
}

async fn same_on_every_wire(name: &str, input: &str, answers: &[&str]) {
    let workflow = shipped(name);
    let scripted = Told::run(&workflow, input, answers).await;
    let asked = scripted.events.iter().filter(|one| matches!(&*one.event, Event::Asked(_))).count();
    assert_eq!(asked, answers.len());
    let last = &*scripted.events.last().unwrap().event;
    assert!(matches!(last, Event::Completed), "{last:?}");
    for provider in ["openai_chat", "openai_responses", "anthropic"] {
        let server = player::server(&workflow).await;
        let told = Told::run(&served(&workflow, provider, &server.base_url), input, answers).await;
        assert_eq!(told.story(), scripted.story(), "{provider}");
        assert_eq!(told.inputs, scripted.inputs, "{provider}");
        assert!(told.tokens() > 0, "{provider}");
        // And what went over the wire was the same conversation, message for message.
        let seen = server.seen();
        assert_eq!(seen.len(), scripted.inputs.len());
        for (seen, input) in seen.iter().zip(&scripted.inputs) {
            let read = player::read(&workflow, seen);
            let texts: Vec<_> = read
                .messages
                .iter()
                .map(|one| json!([one.role.word(), one.author, one.text, one.calls.len()]))
                .collect();
            let given = input["messages"].as_array().unwrap().iter();
            let given: Vec<_> = given
                .map(|one| {
                    let calls = one["calls"].as_array().map_or(0, Vec::len);
                    json!([one["role"], one["author"], one["text"], calls])
                })
                .collect();
            assert_eq!((&read.agent, texts), (&input["agent"].as_str().unwrap().to_owned(), given));
        }
    }
}

#[tokio::test]
async fn s1_is_the_same_on_every_wire() {
    same_on_every_wire(
        "multi_tier_support",
        "I need help with order 12345. I want a replacement and need to know when it will arrive.",
        &[
            "The item arrived damaged. I'd like a replacement shipped to the same address.",
            "Great! Can you confirm the shipping cost won't be charged again?",
            "Thank you!",
        ],
    )
    .await;
}

#[tokio::test]
async fn s3_is_the_same_on_every_wire() {
    let vague = ("Plan a party for 30 people", &["2", "$2000"][..]);
    let corporate =
        ("Plan a corporate holiday party for 50 people, budget $5000", &["Seattle, WA"][..]);
    let complete = (
        "Plan a corporate team building event for 30 people, budget $3000, downtown Seattle, \
         Friday evening in 3 weeks, vegetarian and gluten-free options required",
        &[][..],
    );
    for (input, answers) in [vague, corporate, complete] {
        same_on_every_wire("event_planning", input, answers).await;
    }
}

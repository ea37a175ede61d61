//! Words reach whoever watches while the model is still speaking; a run that is cancelled stops it.

use std::sync::Arc;

use holdpoint::agents::Registry;
use holdpoint::engine::{StartRequest, Until};
use holdpoint::kernel::Event;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::models::chat;
use crate::models::desk::data;
use crate::models::fixture::{Answer, Bit, Fixture};
use crate::models::plays::{engine, served, shipped};
use crate::support::{SimClock, name, someone};

fn words(text: &str) -> Bit {
    Bit::Bytes(data(&[chat::chunk(&json!({"content": text}), &Value::Null)]).into())
}

fn start() -> StartRequest {
    StartRequest {
        workflow: "approve_and_send".into(),
        input: json!("Tell Ada."),
        ..StartRequest::default()
    }
}

#[tokio::test]
async fn the_first_words_are_heard_before_the_model_has_finished() {
    let gate = Arc::new(Semaphore::new(0));
    let end = data(&[chat::chunk(&json!({}), &json!("stop"))]) + "data: [DONE]\n\n";
    let bits = vec![
        words("Dear "),
        Bit::Gate(gate.clone()),
        words("Ada"),
        Bit::Gate(gate.clone()),
        Bit::Bytes(end.into()),
    ];
    let server = Fixture::always(Answer::bits(bits)).await;
    let workflow = served(&shipped("approve_and_send"), "openai_chat", &server.base_url);
    let engine = engine(Registry::new(Arc::new(SimClock::default())), &workflow).await;
    let mut watch = engine.start(start(), &someone()).await.unwrap().watch;
    let mut told = Vec::new();
    while let Some(published) = watch.next().await.unwrap() {
        if let Event::Delta { text, .. } = &*published.event {
            told.push(text.clone());
            // Only now may the model go on: what was heard was heard before it had finished.
            gate.add_permits(1);
        } else {
            told.push(name(&published.event).to_owned());
        }
    }
    let expected = [
        "started",
        "opened",
        "invoked",
        "Dear ",
        "Ada",
        "message",
        "step_completed",
        "settled",
        "opened",
        "asked",
        "checkpoint",
        "parked",
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_run_that_is_cancelled_stops_the_model() {
    let server = Fixture::always(Answer::bits(vec![words("Dear "), Bit::Never])).await;
    let workflow = served(&shipped("approve_and_send"), "openai_chat", &server.base_url);
    let engine = engine(Registry::new(Arc::new(SimClock::default())), &workflow).await;
    let begun = engine.start(start(), &someone()).await.unwrap();
    let run = begun.run.to_string();
    let mut watch = engine.watch(&run, 0, Until::CurrentRest, &someone()).await.unwrap();
    while let Some(published) = watch.next().await.unwrap() {
        if matches!(&*published.event, Event::Delta { .. }) {
            break;
        }
    }
    engine.cancel(&run, "enough", "", &someone()).await.unwrap();
    server.left().await;
}

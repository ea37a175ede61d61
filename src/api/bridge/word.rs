//! Word: what somebody who was asked, and does not know the run, is told of their own word: that it was taken, and what is
//! still missing. Nothing else of the run is theirs to see (K8).

use serde_json::{Value, json};

use crate::api::asked;
use crate::api::bridge::id::ResponseId;
use crate::api::bridge::item;
use crate::engine::Published;
use crate::kernel::{Event, Verb, readable};

/// The response that a word of theirs made.
pub(super) fn response(id: &ResponseId, word: Option<&Published>) -> Value {
    let words = word.map(|published| match &published.asked {
        Some(asked) => asked::votes(&asked.question),
        None => taken(&published.event),
    });
    let said = words.filter(|words| !words.is_empty());
    let output = said.map(|words| item::message(&id.item("msg", 0), "", "completed", Some(&words)));
    json!({
        "id": id.to_string(), "object": "response", "status": "completed", "error": null,
        "output": output.into_iter().collect::<Vec<_>>(),
    })
}

/// A word that was taken, in words.
fn taken(event: &Event) -> String {
    let verb =
        |value: &Value| Verb::of(value).map_or_else(|| readable(value), |it| it.word().into());
    if let Event::Answered { asks_anew: true, .. } = event {
        return "Taken: edit. Others are asked about this version.".into();
    }
    if let Event::Answered { value, .. } = event {
        return format!("Taken: {}. That decides it.", verb(value));
    }
    if let Event::Voted { value, .. } = event {
        return format!("Taken: {}. Others were needed as well.", verb(value));
    }
    String::new()
}

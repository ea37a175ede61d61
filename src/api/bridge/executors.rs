//! Executors: the steps of a leg as items of its own, which only DevUI's dialect has.

use serde_json::{Value, json};

use crate::api::bridge::devui;
use crate::api::bridge::id::Dialect;
use crate::api::bridge::response_stream::Teller;
use crate::engine::Published;

impl Teller {
    pub(super) fn executor_begins(&mut self, turn: u32, step: &str, told: &mut Vec<Value>) {
        if !self.is(Dialect::DevUi) {
            return;
        }
        let index = self.response.output.len();
        let item = devui::executor(&self.response.id.item("exec", index), step, turn);
        told.push(json!({
            "type": "response.output_item.added", "output_index": index, "item": item,
        }));
        self.response.output.push(item);
        self.executors.insert(turn, index);
    }

    /// While a run waits, nobody is at work: those who asked go on in the next leg.
    pub(super) fn executors_rest(&mut self, told: &mut Vec<Value>) {
        for (_, index) in std::mem::take(&mut self.executors) {
            let Some(item) = self.response.output.get_mut(index) else { continue };
            item["status"] = json!("completed");
            told.push(json!({
                "type": "response.output_item.done", "output_index": index, "item": item,
            }));
        }
    }

    pub(super) fn executor_ends(
        &mut self,
        turn: u32,
        published: &Published,
        (status, result, error): (&str, &Value, &Value),
        told: &mut Vec<Value>,
    ) {
        if !self.is(Dialect::DevUi) {
            return;
        }
        if !self.executors.contains_key(&turn) {
            // It was at work when this leg began.
            self.executor_begins(turn, published.step.as_deref().unwrap_or_default(), told);
        }
        let Some(index) = self.executors.remove(&turn) else { return };
        let Some(item) = self.response.output.get_mut(index) else { return };
        item["status"] = json!(status);
        item["result"] = result.clone();
        item["error"] = error.clone();
        told.push(json!({
            "type": "response.output_item.done", "output_index": index, "item": item,
        }));
    }
}

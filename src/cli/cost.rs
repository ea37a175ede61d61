//! Cost: what a run has spent, for programs and in words.

use serde_json::{Value, json};

use crate::wire::v1::{Run, Spent, Usage};

/// What was spent.
pub(super) fn spent(spent: &Spent) -> Value {
    let Spent { steps, model_calls, tokens, tool_calls, wall_ms } = spent;
    json!({
        "steps": steps,
        "model_calls": model_calls,
        "tokens": tokens,
        "tool_calls": tool_calls,
        "wall_ms": wall_ms,
    })
}

/// What model calls have cost.
pub(super) fn usage(usage: &Usage) -> Value {
    let Usage { input_tokens, output_tokens } = usage;
    json!({"input_tokens": input_tokens, "output_tokens": output_tokens})
}

/// What a run has cost so far, in words; nothing, if it has cost nothing.
pub(super) fn words(run: &Run) -> Option<String> {
    let (spent, usage) = (run.spent?, run.usage?);
    (spent.model_calls > 0).then(|| {
        format!(
            "{} model calls, {} tokens read, {} written; {} tool calls",
            spent.model_calls, usage.input_tokens, usage.output_tokens, spent.tool_calls
        )
    })
}

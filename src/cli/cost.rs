//! Cost: what a run has spent, in words.

use crate::wire::v1::Run;

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

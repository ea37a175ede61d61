//! Workflows: those that are measured. No model and no rule that looks at the conversation, so
//! that what is measured is the orchestrator; but for the one whose model is slow.

use std::{fs, io, path::Path};

/// Draft, ask, send: one pause and resume.
pub(super) const CYCLE: &str = "bench_cycle";
/// One agent and a person, for as long as the person speaks.
pub(super) const TALK: &str = "bench_talk";
/// One agent and a model that takes its time.
pub(super) const MODEL: &str = "bench_model";
/// Many people at once.
pub(super) const WIDE: &str = "bench_wide";
/// What the person says in every turn, and the agent too: together they add 1 KiB.
pub(super) const WORDS_BYTES: usize = 512;
/// What a step of the cycle says.
const REPLY_BYTES: usize = 200;

/// A text of exactly that many bytes that looks like one.
pub(super) fn text(bytes: usize) -> String {
    "The order has shipped and will arrive on Tuesday. ".chars().cycle().take(bytes).collect()
}

/// A text of exactly that many bytes that no other number has, and that nothing makes much shorter.
pub(super) fn unlike(number: u64, bytes: usize) -> String {
    use std::fmt::Write as _;
    let (mut state, mut text) = (number, String::with_capacity(bytes + 16));
    while text.len() < bytes {
        // SplitMix64: enough for what is only not to repeat itself.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // Writing to memory does not fail.
        write!(text, "{:016x}", mixed ^ (mixed >> 31)).unwrap_or_default();
    }
    text.truncate(bytes);
    text
}

/// Writes them into `dir`.
pub(super) fn write(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let reply = text(REPLY_BYTES);
    let words = text(WORDS_BYTES);
    let cycle = format!(
        "name: {CYCLE}
description: Draft, ask, send, with constant words.
models:
  default:
    provider: scripted
    script:
      - say: \"{reply}\"
agents:
  writer: {{instructions: Draft., human_input: false}}
  sender: {{instructions: Send., human_input: false}}
pattern: sequential
steps:
  - {{id: draft, agent: writer}}
  - {{id: approve, human: {{kind: approval, prompt: Send this?}}}}
  - {{id: send, agent: sender}}
"
    );
    let talk = format!(
        "name: {TALK}
description: One agent and a person, with constant words.
limits: {{steps: 10000}}
models:
  default:
    provider: scripted
    script:
      - say: \"{words}\"
agents:
  clerk: {{instructions: Answer., human_input: false}}
pattern: handoff
handoff:
  start: clerk
"
    );
    let wide = format!(
        "name: {WIDE}
description: Asks somebody about every item, all at once.
input: {{type: array}}
pattern: graph
graph:
  steps:
    - id: each
      for_each: input
      as: one
      steps:
        - id: ask
          human: {{kind: clarification, prompt: 'What of ${{one}}?'}}
  output: ${{size(steps.each)}}
"
    );
    fs::write(dir.join("bench_wide.yaml"), wide)?;
    fs::write(dir.join("bench_cycle.yaml"), cycle)?;
    fs::write(dir.join("bench_talk.yaml"), talk)
}

/// Writes the one whose model is at `base_url` into `dir`.
pub(super) fn write_model(dir: &Path, base_url: &str) -> io::Result<()> {
    let flow = format!(
        "name: {MODEL}
description: One agent and a model that takes its time.
models:
  default:
    provider: openai_chat
    model: slow
    base_url: {base_url}
    key_env: none
    timeouts: {{first_token: 1h, total: 1h}}
agents:
  clerk: {{instructions: Answer., human_input: false}}
pattern: sequential
steps:
  - {{id: answer, agent: clerk}}
"
    );
    fs::write(dir.join("bench_model.yaml"), flow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_bytes_it_was_asked_for() {
        assert_eq!(text(512).len(), 512);
        assert!(text(512).starts_with("The order"));
    }

    #[test]
    fn no_two_runs_are_told_the_same() {
        assert_eq!((unlike(1, 77).len(), unlike(1, 77)), (77, unlike(1, 77)));
        assert_ne!(unlike(1, 77), unlike(2, 77));
    }
}

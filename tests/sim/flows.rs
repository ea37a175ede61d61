//! Flows: what is played, as files: a letter that somebody lets go in time, a bill that is paid once one of two people
//! has allowed it, an agent whose payment takes two of three, and a room that may be booked again under the same key. Every
//! amount is another, so that what is done can be told apart.

use std::sync::LazyLock;

use holdpoint::definition::load_text;
use holdpoint::engine::Entry;

const LETTER: &str = "
name: letter
models: {default: {provider: scripted, script: [{say: Done.}]}}
agents: {draft: {human_input: false}, send: {human_input: false}}
pattern: sequential
steps:
  - {agent: draft}
  - {id: decide, human: {kind: approval, prompt: Send it?, to: [ann, bob], deadline: 20s, on_timeout: reject}}
  - {agent: send}
";

const BILL: &str = "
name: bill
models: {default: {provider: scripted, script: [{say: Done.}]}}
tools:
  pay: {provider: scripted, safety: unsafe, settings: {returns: paid}}
gates: [{name: money, tools: [pay], to: [ann, bob]}]
agents: {send: {human_input: false}}
pattern: graph
graph:
  steps:
    - {id: pay, tool: pay, arguments: {amount: '${input.amount}'}}
    - {id: send, agent: send}
";

const WAGES: &str = "
name: wages
models: {default: {provider: scripted, script: [{say: Done.}]}}
tools:
  pay: {provider: scripted, safety: unsafe, settings: {returns: paid}}
gates: [{name: money, tools: [pay], approvers: [{to: [ann, bob, cara], need: 2}]}]
agents: {worker: {human_input: false, tools: [pay]}}
pattern: sequential
steps: [{agent: worker}]
";

const ROOM: &str = "
name: room
models: {default: {provider: scripted, script: [{say: Done.}]}}
tools:
  book: {provider: scripted, safety: idempotent, settings: {returns: booked}}
gates: [{name: house, tools: [book], to: [ann, bob]}]
agents: {send: {human_input: false}}
pattern: graph
graph:
  steps:
    - {id: book, tool: book, arguments: {amount: '${input.amount}'}}
    - {id: send, agent: send}
";

/// Their names.
pub(crate) const NAMES: [&str; 4] = ["letter", "bill", "wages", "room"];

/// All of them, as a server has them.
pub(crate) fn all() -> &'static [Entry] {
    static READ: LazyLock<Vec<Entry>> = LazyLock::new(read);
    &READ
}

fn read() -> Vec<Entry> {
    let texts = [LETTER, BILL, WAGES, ROOM];
    let loaded = texts.iter().zip(NAMES).map(|(text, name)| {
        let loaded = load_text(&format!("{name}.yaml"), text, &|_| Err("no script".into()));
        let loaded = loaded.unwrap();
        Entry { workflow: loaded.workflow, digest: loaded.digest }
    });
    loaded.collect()
}

//! Texts with variables outside of graphs, the conversation's bound, and tags of MCP servers: what is
//! wrong is told with its place, what is right means what it says.

use crate::definition::load_text;
use crate::kernel::{Bound, Remembers, WhenFull, Workflow};

const GOOD: &str = "\
name: letter
input: {type: object, properties: {name: {type: string}}, required: [name], additionalProperties: false}
conversation: {max_bytes: 4000, when_full: {summarise: scribe}}
models:
  default: {provider: scripted, script: [{say: hello}]}
mcp:
  files: {command: [files], safety: pure, tags: [writes]}
agents:
  scribe: {}
  writer:
    instructions: |
      You write.
      You write to ${input.name} of ${metadata.team ?? 'sales'}.
    tools: [files.put]
pattern: sequential
steps:
  - {agent: writer, prompt: 'Write to ${input.name}.'}
  - {id: ok, human: {kind: approval, prompt: 'Send it to ${input.name}?'}}
";

fn load(text: &str) -> Result<Workflow, Vec<(&'static str, usize, usize)>> {
    match load_text("w.yaml", text, &|_| Err(String::new())) {
        Ok(loaded) => Ok(loaded.workflow.as_ref().clone()),
        Err(problems) => Err(problems.iter().map(|one| (one.code, one.line, one.column)).collect()),
    }
}

#[test]
fn what_is_right_means_what_it_says() {
    let workflow = load(GOOD).unwrap();
    let bound = Bound { bytes: 4_000, when_full: WhenFull::Summarise("scribe".into()) };
    assert_eq!(workflow.limits.conversation, Some(bound));
    assert_eq!(workflow.tools["files__put"].tags, ["writes"], "a gate finds it by its tag");
    let refused =
        GOOD.replace(", when_full: {summarise: scribe}", "").replace("  scribe: {}\n", "");
    let bound = load(&refused).unwrap().limits.conversation.unwrap();
    assert_eq!(bound.when_full, WhenFull::Refuse);
}

#[test]
fn a_file_that_does_not_say_remembers_the_session_and_is_written_as_it_ever_was() {
    let of = |line: &str| load(&format!("{line}{}", GOOD.trim_start())).unwrap();
    let default = of("");
    assert_eq!(default.limits.remembers, Remembers::Session);
    assert_eq!(of("remembers: session\n"), default);
    assert!(!serde_json::to_string(&default).unwrap().contains("remembers"));
    let alone = of("remembers: run\n");
    assert_eq!(alone.limits.remembers, Remembers::Run);
    let stored: Workflow = serde_json::from_value(serde_json::to_value(&alone).unwrap()).unwrap();
    assert_eq!(stored, alone);
    let wrong = format!("remembers: everything\n{}", GOOD.trim_start());
    assert_eq!(load(&wrong).unwrap_err(), [("field.value", 1, 12)]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (from, to, code, line, column) in [
        ("of ${metadata.team ?? 'sales'}", "of ${step.team}", "variable.unknown", 13, 39),
        ("to ${input.name} of", "to ${input.nme} of", "field.unknown", 13, 0),
        ("'Write to ${input.name}.'", "'Write to ${inptu}.'", "variable.unknown", 17, 41),
        ("it to ${input.name}?", "it to ${input.}?", "expression.syntax", 18, 0),
        ("{summarise: scribe}", "{summarise: scrib}", "agent.unknown", 3, 56),
        ("max_bytes: 4000", "max_bytes: 4", "field.range", 3, 27),
        ("when_full: {summarise: scribe}", "when_full: forget", "field.value", 3, 44),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let told = load(&GOOD.replacen(from, to, 1)).unwrap_err();
        let found = told.iter().find(|problem| problem.0 == code);
        let place = found.map(|problem| (problem.1, if column == 0 { 0 } else { problem.2 }));
        assert_eq!(place, Some((line, column)), "{to}: {told:?}");
    }
}

//! Every problem that a file can have: the text, the code, the place, and what a reader is told.

use std::{fs, path::Path};

use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::definition::{FILE_BYTES_MAX, Loaded, Problem, load_dir, load_file, load_text, shipped};
use crate::kernel::workflow::{Pattern, Work};
use crate::kernel::{Kind, OnTimeout};

const GOOD: &str = "\
name: draft
models:
  default: {provider: scripted, script: [{say: hello}]}
agents:
  writer: {instructions: Write.}
pattern: sequential
steps:
  - agent: writer
  - {id: approve, human: {kind: approval, prompt: Send it?}}
";

fn problems(text: &str) -> Vec<Problem> {
    match load_text("w.yaml", text, &|name| Err(format!("no `{name}` here"))) {
        Ok(_) => Vec::new(),
        Err(problems) => problems,
    }
}

/// The good file with one piece of it put differently.
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

#[track_caller]
fn told(text: &str, expected: &[(&str, usize, usize)]) {
    let problems = problems(text);
    let seen: Vec<_> = problems.iter().map(|one| (one.code, one.line, one.column)).collect();
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(seen, expected, "{text}\n{}", all.join("\n"));
}

#[test]
fn a_good_file_means_what_it_says() {
    let loaded = load_text("w.yaml", GOOD, &|_| Err(String::new())).unwrap();
    let workflow = &loaded.workflow;
    assert_eq!((workflow.name.as_str(), workflow.limits.steps), ("draft", 100));
    assert_eq!(workflow.agents["writer"].model, "default");
    let Pattern::Sequential { steps } = &workflow.pattern else { panic!("sequential") };
    assert_eq!(steps[0].id, "writer");
    let Work::Human(human) = &steps[1].work else { panic!("a human step") };
    assert_eq!((human.kind, human.prompt.as_str()), (Kind::Approval, "Send it?"));
}

#[test]
fn what_is_not_of_the_right_shape_is_told_with_its_place() {
    for (from, to, code, line, column) in [
        ("pattern:", "patern: x\npattern:", "field.unknown", 6, 1),
        ("{instructions:", "{instuctions:", "field.unknown", 5, 12),
        ("name: draft\n", "", "field.missing", 1, 1),
        ("kind: approval, ", "", "field.missing", 9, 19),
        ("name: draft", "name: [draft]", "field.type", 1, 7),
        ("pattern: sequential", "pattern: sequental", "field.value", 6, 10),
        ("agents:\n  writer: {instructions: Write.}", "agents: [writer]", "field.type", 4, 9),
        ("kind: approval", "kind: aproval", "field.value", 9, 33),
        ("pattern:", "limits: {steps: 0}\npattern:", "field.range", 6, 17),
        ("pattern:", "limits: {steps: 10001}\npattern:", "field.range", 6, 17),
        ("Write.}", "Write., human_input: maybe}", "field.type", 5, 47),
        ("Write.}", "Write., human_input: {deadlin: 2h}}", "field.unknown", 5, 48),
        ("Write.}", "Write., human_input: {deadline: 2 hours}}", "field.value", 5, 58),
        ("Write.}", "Write., human_input: {deadline: 30}}", "field.type", 5, 58),
        ("it?}", "it?, on_timeout: never}", "field.value", 9, 73),
        ("[{say: hello}]", "[{sy: hello}]", "field.unknown", 3, 43),
        ("[{say: hello}]", "[{say: hello, when: {last: x}}]", "field.unknown", 3, 62),
        ("[{say: hello}]", "7", "field.type", 3, 41),
    ] {
        told(&with(from, to), &[(code, line, column)]);
    }
}

#[test]
fn a_file_without_a_pattern_is_told_which_there_are_and_whose_steps_it_has() {
    let text = with("pattern: sequential\n", "").replace("- agent: writer", "- {id: x, tool: pay}");
    let all = problems(&text);
    assert_eq!(all.len(), 2, "{all:?}");
    let of = |code: &str| all.iter().find(|problem| problem.code == code).unwrap();
    let (missing, unknown) = (of("field.missing"), of("field.unknown"));
    let words = "it is one of: `sequential`, `coordinator`, `handoff`, `graph`, `concurrent`, \
                 `group_chat`, `plan_execute`";
    assert_eq!(missing.hint.as_deref(), Some(words));
    let hint = unknown.hint.as_deref().unwrap_or_default();
    assert!(hint.contains("`tool`") && hint.contains("`pattern: graph`"), "{hint}");
    // What no step has, of whichever pattern, is told as before.
    let other = problems(&with("- agent: writer", "- {agent: writer, shout: x}"));
    assert_eq!(other[0].hint.as_deref(), Some("it may have: id, agent, prompt, human"));
    // Of a field that may be anything there is no list.
    assert_eq!(problems(&with("name: draft\n", ""))[0].hint, None);
}

#[test]
fn what_does_not_hold_together_is_told_with_its_place() {
    for (from, to, code, line, column) in [
        ("name: draft", "name: Draft One", "name.invalid", 1, 7),
        ("- agent: writer", "- agent: writr", "agent.unknown", 8, 12),
        ("Write.}", "Write., model: fast}", "model.unknown", 5, 41),
        ("Write.}", "Write., tools: [search]}", "tool.unknown", 5, 42),
        ("Write.}", "Write., output: {type: nonsense}}", "schema.invalid", 5, 42),
        ("pattern:", "input: {type: 7}\npattern:", "schema.invalid", 6, 8),
        ("Write.}", "Write.}\n  reader: {}", "agent.unreachable", 6, 3),
        ("id: approve", "id: writer", "name.duplicate", 9, 10),
        ("id: approve", "id: Approve!", "name.invalid", 9, 10),
        ("id: approve, ", "", "field.missing", 9, 5),
        ("kind: approval", "kind: selection", "question.options", 9, 19),
        ("- agent: writer", "- id: x", "step.work", 8, 5),
        ("it?}", "it?}, agent: writer", "step.work", 9, 5),
        ("it?}", "it?, deadline: 2h, on_timeout: continue}", "question.silence", 9, 87),
        ("it?}", "it?, deadline: 0s}", "field.range", 9, 71),
        ("it?}", "it?, deadline: 4000d}", "field.range", 9, 71),
        ("it?}", "it?, deadline: 99999999999999999999d}", "field.range", 9, 71),
        ("it?}", "it?, response_schema: {}}", "question.schema", 9, 61),
        ("pattern: sequential", "pattern: handoff", "pattern.block", 6, 10),
        ("[{say: hello}]", "missing.yaml", "script.unreadable", 3, 41),
        ("[{say: hello}]", "[{say: hello, agent: riter}]", "agent.unknown", 3, 62),
        ("[{say: hello}]", "[{turn: 1}]", "rule.empty", 3, 42),
        ("[{say: hello}]", "[{say: '{{laste}}'}]", "script.variable", 3, 48),
        ("[{say: hello}]", "[{call: [{tool: x}]}]", "tool.unknown", 3, 57),
        (", script: [{say: hello}]", "", "script.missing", 3, 3),
        ("provider: scripted", "provider: other", "field.unknown", 3, 30),
    ] {
        let text = with(from, to);
        let first = problems(&text).into_iter().find(|problem| problem.code == code);
        let first = first.unwrap_or_else(|| panic!("{code} in\n{text}\n{:?}", problems(&text)));
        assert_eq!((first.line, first.column), (line, column), "{first}");
    }
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_lines() {
    let text = with("Write.}", "Write., model: fast, tools: [a]}\n  idle: {model: slow}");
    told(
        &text.replace("- agent: writer", "- agent: witer"),
        &[
            ("agent.unreachable", 5, 3),
            ("model.unknown", 5, 41),
            ("tool.unknown", 5, 55),
            ("agent.unreachable", 6, 3),
            ("model.unknown", 6, 17),
            ("agent.unknown", 9, 12),
        ],
    );
}

#[test]
fn silence_may_stand_for_an_answer_where_nothing_is_approved() {
    let selection = "kind: selection, options: [red, {id: blue, label: Blue}]";
    let text = with("kind: approval", selection);
    let text = text.replace("it?}", "it?, deadline: 1h30m, on_timeout: {default_answer: red}}");
    let loaded = load_text("w.yaml", &text, &|_| Err(String::new())).unwrap();
    let Pattern::Sequential { steps } = &loaded.workflow.pattern else { panic!("sequential") };
    let Work::Human(human) = &steps[1].work else { panic!("a human step") };
    assert_eq!(human.patience.deadline_ms, Some(5_400_000));
    assert_eq!(human.patience.on_timeout, OnTimeout::DefaultAnswer("red".into()));
    assert_eq!(human.options[1].label(), "Blue");
    for (answer, code) in [("green", "question.default_answer"), ("red", "question.deadline")] {
        let text = text.replace("default_answer: red", &format!("default_answer: {answer}"));
        let text = if answer == "red" { text.replace("deadline: 1h30m, ", "") } else { text };
        assert_eq!(problems(&text)[0].code, code);
    }
}

#[test]
fn a_workflow_without_agents_or_steps_is_none() {
    told(
        "name: x\npattern: sequential\nsteps: []\n",
        &[("agent.none", 1, 1), ("steps.empty", 3, 8)],
    );
}

#[test]
fn a_coordinator_and_its_specialists_are_agents_and_different_ones() {
    let text = "\
name: party
models: {m: {provider: scripted, script: [{say: x}]}}
agents: {boss: {}, venue: {}, spare: {}}
pattern: coordinator
coordinator:
  agent: boss
  specialists: [venue, venue, boss, venu]
";
    told(
        text,
        &[
            ("agent.unreachable", 3, 31),
            ("name.duplicate", 7, 24),
            ("name.duplicate", 7, 31),
            ("agent.unknown", 7, 37),
        ],
    );
}

#[test]
fn handoffs_lead_to_agents_and_every_agent_is_reached() {
    let text = "\
name: support
models: {m: {provider: scripted, script: [{say: x}]}}
agents: {triage: {}, refunds: {}, island: {}, shore: {}}
pattern: handoff
handoff:
  start: triage
  handoffs:
    triage: [refunds, refund, triage]
    island: [shore]
    nobody: [triage]
  deadline: 2h
  on_timeout: {default_answer: 7}
";
    told(
        text,
        &[
            ("agent.unreachable", 3, 35),
            ("agent.unreachable", 3, 47),
            ("agent.unknown", 8, 23),
            ("handoff.self", 8, 31),
            ("agent.unknown", 10, 5),
            ("question.default_answer", 12, 32),
        ],
    );
    let hint = problems(text)[2].hint.clone();
    assert_eq!(hint.as_deref(), Some("did you mean `refunds`?"));
}

#[test]
fn a_reserved_tool_name_and_two_nameless_models_are_refused() {
    let text = with("agents:", "tools: {handoff_to_x: {provider: scripted}}\nagents:");
    told(&text, &[("name.reserved", 4, 9)]);
    let text = with("  default:", "  other: {provider: echo}\n  slow:");
    told(&text, &[("model.missing", 6, 3)]);
}

#[test]
fn comments_and_layout_do_not_change_the_digest() {
    let digest = |text: &str| load_text("w", text, &|_| Err(String::new())).unwrap().digest;
    let commented =
        with("agents:", "# who works here\nagents:").replace("{say: hello}", "{say: 'hello'}");
    assert_eq!(digest(GOOD), digest(&commented));
    assert_ne!(digest(GOOD), digest(&with("hello", "good day")));
}

#[test]
fn a_folder_is_loaded_in_order_and_of_two_files_with_one_name_neither_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put("b.yaml", GOOD);
    put("a.yml", &with("name: draft", "name: first").replace("[{say: hello}]", "a.script.yaml"));
    put("a.script.yaml", "rules:\n  - say: from the file\n");
    put("c.yaml", GOOD);
    put("d.yaml", "name: [");
    put("notes.txt", "nothing");
    let (loaded, problems) = load_dir(folder.path());
    let names: Vec<_> = loaded.iter().map(|one| one.workflow.name.as_str()).collect();
    assert_eq!(names, ["first"]);
    let rules = &loaded[0].workflow.models["default"].settings["script"]["rules"];
    assert_eq!(rules[0]["say"], "from the file");
    let codes: Vec<_> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["workflow.duplicate", "workflow.duplicate", "yaml.syntax"]);
    assert_eq!((problems[0].line, problems[0].column), (1, 7));
    assert!(problems[0].message.contains("`c.yaml` claims"), "{}", problems[0].message);
}

#[test]
fn k7_a_file_that_is_wrong_keeps_its_name_from_another() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put("pay.yaml", &with("agents:", "agentz:"));
    put("pay-old.yaml", GOOD);
    let (loaded, problems) = load_dir(folder.path());
    assert!(loaded.is_empty(), "{loaded:?}");
    assert!(problems.iter().any(|problem| problem.code == "workflow.duplicate"), "{problems:?}");
    // However it is written, and whatever else it may be taken to say.
    for wrong in [
        "\"name\": draft\npatern: x",
        "{name: draft, patern: x}",
        "name: &n draft\npatern: x",
        "description: &n draft\nname: *n\npatern: x",
        "  name: draft\n  patern: x",
        "\u{feff}name: draft\npatern: x",
        "name: other\nname: draft",
        "<<<<<<< HEAD\nname: other\n=======\nname: draft\n>>>>>>> theirs",
        "name: other\n---\nname: draft",
        "patern: x\rname: draft\r",
    ] {
        put("pay.yaml", wrong);
        let (loaded, _) = load_dir(folder.path());
        assert!(loaded.is_empty(), "{wrong}");
    }
    let wide: Vec<u8> =
        "name: draft\npatern: x".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(folder.path().join("pay.yaml"), wide).unwrap();
    assert!(load_dir(folder.path()).0.is_empty());
    put("pay.yaml", "name: another\npatern: x");
    assert_eq!(load_dir(folder.path()).0.len(), 1, "what has another name keeps nobody's");
}

#[test]
fn a_script_file_has_its_own_places_and_stays_beside_its_workflow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.yaml");
    fs::write(folder.path().join("w.script.yaml"), "rules:\n  - agent: x\n    say: y\n").unwrap();
    fs::write(&path, with("[{say: hello}]", "w.script.yaml")).unwrap();
    let problems = load_file(&path).unwrap_err();
    assert_eq!((problems[0].code, problems[0].line, problems[0].column), ("agent.unknown", 2, 12));
    assert!(problems[0].file.ends_with("w.script.yaml"), "{}", problems[0].file);
    for script in ["../w.script.yaml", "/etc/hostname", "missing.yaml"] {
        fs::write(&path, with("[{say: hello}]", script)).unwrap();
        assert_eq!(load_file(&path).unwrap_err()[0].code, "script.unreadable", "{script}");
    }
    for unreadable in [Path::new("no/such.yaml"), folder.path()] {
        assert_eq!(load_file(unreadable).unwrap_err()[0].code, "file.unreadable");
    }
    fs::write(&path, "x".repeat(FILE_BYTES_MAX + 1)).unwrap();
    assert!(load_file(&path).unwrap_err()[0].message.contains("1048576 bytes"));
    fs::write(&path, b"name: \xff").unwrap();
    assert_eq!(load_file(&path).unwrap_err()[0].message, "the file is not UTF-8 text");
}

proptest! {
    /// Whatever is done to a file, it is read or refused with places that lie in it.
    #[test]
    fn a_broken_file_is_told_with_places_that_lie_in_it(
        at in 0..GOOD.len(),
        gone in 0_usize..12,
        put in "[ -~\\n]{0,6}",
    ) {
        let kept = GOOD.chars().take(at).chain(put.chars()).chain(GOOD.chars().skip(at + gone));
        let text: String = kept.collect();
        let lines: Vec<&str> = text.lines().collect();
        for problem in problems(&text) {
            prop_assert!(problem.line <= lines.len() + 1, "{problem}");
            prop_assert!(!problem.message.is_empty());
            if let Some(line) = problem.line.checked_sub(1).and_then(|index| lines.get(index)) {
                prop_assert_eq!(&problem.excerpt, line);
                prop_assert!(problem.column <= line.chars().count() + 1, "{}", problem);
            }
        }
    }
}

#[test]
fn the_shipped_workflows_are_the_files_in_the_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows");
    let (loaded, problems) = load_dir(&folder);
    assert_eq!(problems, []);
    let shipped = shipped();
    let digests = |all: &[Loaded]| -> Vec<(String, String)> {
        all.iter().map(|one| (one.workflow.name.clone(), one.digest.clone())).collect()
    };
    let of_folder = digests(&loaded);
    assert!(digests(&shipped).iter().all(|one| of_folder.contains(one)));
}

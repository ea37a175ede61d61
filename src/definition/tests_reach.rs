//! Warnings: where words, or something that was not shown, come to a deed; and that nothing that is
//! shipped has one.

use crate::definition::{load_text, shipped};

fn warned(tools: &str, steps: &str) -> Vec<(&'static str, usize)> {
    let text = format!(
        "name: w
models: {{default: {{provider: scripted, script: [{{say: hello}}]}}}}
{tools}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps:
    - {{agent: idle}}
{steps}"
    );
    let loaded = load_text("w.yaml", &text, &|_| Err(String::new())).unwrap();
    loaded.warnings.iter().map(|one| (one.code, one.line)).collect()
}

const PAY: &str = "tools: {pay: {provider: scripted, parameters: {type: object}}}";
const ASK: &str = "    - {id: ask, human: {kind: clarification, prompt: How much?}}\n";
const OK: &str = "    - {id: ok, human: {kind: approval, prompt: Pay?, show: '${steps.idle}'}}\n";
const DO: &str = "    - {tool: pay, arguments: {what: '${steps.idle}'}}\n";
const DO_IT: &str = "    - {tool: pay, arguments: {what: '${steps.ok.subject}'}}\n";

#[test]
fn words_that_reach_a_deed_are_warned_of_at_its_line() {
    assert_eq!(warned(PAY, &format!("{ASK}{DO}")), [("consent.words", 11)]);
    let pure = "tools: {pay: {provider: scripted, safety: pure}}";
    assert_eq!(warned(pure, &format!("{ASK}{DO}")), []);
    let gated = format!("{PAY}\ngates: [{{name: money, tools: [pay]}}]");
    assert_eq!(warned(&gated, &format!("{ASK}{DO}")), []);
    let step = "    - {tool: pay, gate: {mode: before_step}}\n";
    assert_eq!(warned(PAY, &format!("{ASK}{step}")), []);
    let meant = ASK.replace("How much?", "How much?, decides: false");
    assert_eq!(warned(PAY, &format!("{meant}{DO}")), [], "the author has said so");
    let bound = ASK.replace("How much?", "How much?, decides: true");
    assert_eq!(warned(PAY, &format!("{bound}{DO}")), []);
}

#[test]
fn a_decision_on_one_of_two_ways_stops_no_words_on_the_other() {
    let either = format!("{ASK}    - {{id: way, if: 'true', then: [{{id: yes, human: {{kind: approval, prompt: Go?}}}}]}}\n{DO_IT}")
        .replace("${steps.ok.subject}", "all");
    assert_eq!(warned(PAY, &either), [("consent.words", 12)]);
    let both = format!("{ASK}{OK}{DO_IT}");
    assert_eq!(warned(PAY, &both), []);
}

#[test]
fn a_name_that_is_shown_instead_of_what_it_stands_for_is_warned_of() {
    let name = OK.replace("${steps.idle}", "steps.idle");
    assert_eq!(warned(PAY, &name), [("consent.name", 10)]);
    for words in [
        "steps.",
        "steps to take: see input.",
        "Pay the input.",
        "inputs.idle",
        "${steps.idle} steps.idle",
    ] {
        assert_eq!(warned(PAY, &OK.replace("${steps.idle}", words)), [], "{words}");
    }
}

#[test]
fn a_deed_after_an_approval_that_does_not_use_what_was_approved_is_warned_of() {
    assert_eq!(warned(PAY, &format!("{OK}{DO}")), [("consent.subject", 11)]);
    assert_eq!(warned(PAY, &format!("{OK}{DO_IT}")), []);
    let fixed = "    - {tool: pay, arguments: {what: all}}\n";
    assert_eq!(warned(PAY, &format!("{OK}{fixed}")), [], "the file says what is done");
    let gated = format!("{PAY}\ngates: [{{name: money, tools: [pay]}}]");
    assert_eq!(warned(&gated, &format!("{OK}{DO}")), []);
}

#[test]
fn what_comes_of_a_list_that_was_approved_is_what_was_approved() {
    let list = OK.replace("${steps.idle}", "[{\"to\": \"ada\"}]");
    let each = |list: &str, name: &str, what: &str| {
        format!(
            "    - {{id: all, for_each: {list}{name}, steps: [{{id: one, tool: pay, arguments: {{what: '{what}'}}}}]}}\n"
        )
    };
    let of = |each: &str| warned(PAY, &format!("{list}{each}"));
    assert_eq!(of(&each("steps.ok.subject", "", "${item.to}")), []);
    assert_eq!(of(&each("steps.ok.subject", ", as: bill", "Pay ${bill.to}.")), []);
    let warns = [("consent.subject", 11)];
    assert_eq!(of(&each("steps.ok.subject", "", "${steps.idle}")), warns, "something else is done");
    assert_eq!(of(&each("'[1, 2]'", "", "${item}")), warns, "it is another list");
}

#[test]
fn what_was_approved_of_one_item_is_not_waited_for_by_the_next() {
    let body = |steps: &str| format!("    - {{id: all, for_each: '[1, 2]', steps: [{steps}]}}\n");
    let pay = "{id: one, tool: pay, arguments: {what: '${item}'}}";
    let ok = "{id: fine, human: {kind: approval, prompt: Fine?}}";
    assert_eq!(warned(PAY, &body(&format!("{pay}, {ok}"))), [], "it is asked after the deed");
    assert_eq!(warned(PAY, &body(&format!("{ok}, {pay}"))), [("consent.subject", 10)]);
    let again = format!(
        "    - {{id: all, loop: {{until: round > 1, max_rounds: 2}}, steps: [{pay}, {ok}]}}\n"
    );
    let again = again.replace("${item}", "${steps.idle}");
    assert_eq!(warned(PAY, &again), [("consent.subject", 10)], "the next round follows it");
}

#[test]
fn settings_that_a_scripted_model_has_no_use_for_are_warned_of_each() {
    let text = "name: w
models:
  default: {provider: scripted, script: [{say: hello}], temperature: 0.2, model: gpt}
agents: {idle: {human_input: false}}
pattern: sequential
steps: [{agent: idle}]
";
    let loaded = load_text("w.yaml", text, &|_| Err(String::new())).unwrap();
    let told: Vec<_> = loaded.warnings.iter().map(|one| (one.code, one.line)).collect();
    assert_eq!(told, [("model.ignored", 3), ("model.ignored", 3)]);
    assert!(loaded.warnings[0].message.contains("`temperature` changes nothing"), "{told:?}");
}

#[test]
fn an_agent_that_asks_people_and_can_act_on_what_they_say_is_warned_of() {
    let text = |agent: &str, gates: &str| {
        format!(
            "name: w
models: {{default: {{provider: scripted, script: [{{say: hello}}]}}}}
{PAY}
gates: {gates}
agents:
  clerk: {{tools: [pay]{agent}}}
pattern: sequential
steps: [{{agent: clerk}}]
"
        )
    };
    let warned = |text: &str| {
        let loaded = load_text("w.yaml", text, &|_| Err(String::new())).unwrap();
        loaded.warnings.iter().map(|one| (one.code, one.line)).collect::<Vec<_>>()
    };
    assert_eq!(warned(&text("", "[]")), [("consent.words", 6)]);
    assert_eq!(warned(&text(", human_input: false", "[]")), []);
    assert_eq!(warned(&text("", "[{name: money, tools: [pay]}]")), []);
}

#[test]
fn nothing_that_is_shipped_is_warned_of() {
    for loaded in shipped() {
        assert_eq!(loaded.warnings, [], "{}", loaded.workflow.name);
    }
}

#[test]
fn a_mark_that_nobody_would_find_is_refused() {
    let refused = |more: &str| {
        let text = format!(
            "name: w
input: {{type: object, $defs: {{pin: {{$dynamicAnchor: pin, secret: true}}}}, properties: {{x: {more}}}}}
models: {{default: {{provider: scripted, script: [{{say: hello}}]}}}}
agents: {{idle: {{human_input: false}}}}
pattern: sequential
steps: [{{agent: idle}}]
"
        );
        let problems =
            load_text("w.yaml", &text, &|_| Err(String::new())).err().unwrap_or_default();
        problems.into_iter().any(|it| it.code == "schema.invalid" && it.message.contains("secret"))
    };
    for more in [
        "{$dynamicRef: '#pin'}",
        "{not: {$ref: '#/$defs/pin'}}",
        "{propertyNames: {secret: true}}",
        "{type: string, contentSchema: {properties: {u: {secret: true}}}}",
        "{type: string, contentSchema: {$ref: '#/$defs/pin'}}",
        "{somebodys: {own: {format: password}}}",
        "{type: string, secret: 'true'}",
        "{type: string, secret: [true]}",
        "{type: string, secret: null}",
    ] {
        assert!(refused(more), "{more}");
    }
    assert!(!refused("{$ref: '#pin'}") && !refused("{not: {type: 'null'}}"));
}

#[test]
fn a_secret_that_stands_in_the_file_is_warned_of() {
    let pay = "tools: {pay: {provider: scripted, parameters: {type: object, properties: {
  card: {$ref: '#/$defs/card'}, what: {type: string}}, $defs: {card: {type: string, secret: true}}}}}
gates: [{name: g, tools: [pay]}]";
    let call = |card: &str| format!("    - {{tool: pay, arguments: {{card: {card}, what: x}}}}\n");
    assert_eq!(warned(pay, &call("'4929'")), [("secret.literal", 12)]);
    assert_eq!(warned(pay, &call("'${input}'")), []);
    let said = pay.replace("secret: true", "secret: true, default: '1'");
    assert_eq!(warned(&said, &call("'${input}'")), [("secret.literal", 4)]);
}

//! Expressions: what they come to, and what is refused before they are ever evaluated.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Expression, Form, Known, Scope, Template, Type};

struct Place(Value);

impl Scope for Place {
    fn variable(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    fn step(&self, id: &str) -> Option<&Value> {
        self.0.get("steps")?.get(id)
    }
}

fn place() -> Place {
    Place(json!({
        "input": {"name": "Acme", "budget": 3000, "tags": ["vip"], "nothing": null},
        "item": {"id": 7},
        "steps": {"find-it": {"matches": [{"id": "a", "n": 1}, {"id": "b", "n": 2}]}},
    }))
}

fn value(text: &str) -> Result<Value, String> {
    let parsed = Expression::parse(text).map_err(|wrong| format!("{}@{}", wrong.code, wrong.at))?;
    parsed.eval(&place()).map_err(|wrong| format!("{}@{}", wrong.code, wrong.at))
}

#[test]
fn expressions_come_to_values() {
    for (text, expected) in [
        ("1 + 2 * 3", json!(7)),
        ("(1 + 2) * 3 == 9 and not false", json!(true)),
        ("7 / 2", json!(3.5)),
        ("6 / 2", json!(3)),
        ("-2 - 3", json!(-5)),
        ("input.name + '!'", json!("Acme!")),
        ("input['budget'] >= 3000 ? 'big' : 'small'", json!("big")),
        ("'vip' in input.tags", json!(true)),
        ("contains(input.name, 'ACM')", json!(true)),
        ("size(steps.find-it.matches)", json!(2)),
        ("steps.find-it.matches[1].id", json!("b")),
        ("find(steps.find-it.matches, 'n', 2).id", json!("b")),
        ("pluck(where(steps.find-it.matches, 'id', 'a'), 'n')", json!([1])),
        ("join(pluck(steps.find-it.matches, 'id'), ', ')", json!("a, b")),
        ("input.nickname ?? input.nothing ?? 'none'", json!("none")),
        ("input.nothing == null || 1 / 0 > 2", json!(true)),
        ("number(' 12 ') + 1", json!(13)),
        ("[1, 'a', true][1]", json!("a")),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn k7_what_does_not_fit_is_an_error_and_never_false() {
    for (text, expected) in [
        ("nobody", "variable.unknown@0"),
        ("steps.later", "variable.unknown@6"),
        ("input.nickname", "value.missing@6"),
        ("input.name > 3", "expression.type@11"),
        ("input.name == 3", "expression.type@11"),
        ("input.budget / 0", "expression.zero@13"),
        ("input.budget && true", "expression.type@6"),
        ("!input.name", "expression.type@7"),
        ("size(3)", "expression.type@0"),
        ("steps.find-it.matches[9]", "value.missing@21"),
        ("1 +", "expression.syntax@3"),
        ("(1", "expression.syntax@2"),
        ("1 2", "expression.syntax@2"),
        ("'open", "expression.syntax@0"),
        ("a # b", "expression.syntax@2"),
        ("shout('x')", "function.unknown@0"),
        ("size()", "function.arguments@0"),
    ] {
        assert_eq!(value(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(5000), close.repeat(5000));
    for text in [nested("(", ")"), nested("!", ""), nested("[", "]"), "1 + ".repeat(900) + "1"] {
        let wrong = Expression::parse(&text.chars().take(4000).collect::<String>());
        assert_eq!(wrong.expect_err("too deep").code, "expression.too_large");
    }
    let long = format!("'{}'", "x".repeat(5000));
    assert_eq!(Expression::parse(&long).expect_err("too long").code, "expression.too_large");
}

fn known() -> Known {
    let input = json!({"type": "object", "additionalProperties": false, "properties": {
        "name": {"type": "string"}, "budget": {"type": "number"}, "tags": {"type": "array"},
    }});
    let found = Type::object([("matches".to_owned(), Type::List(Box::new(Type::any_object())))]);
    Known {
        variables: BTreeMap::from([("input".to_owned(), Type::of_schema(&input))]),
        steps: BTreeMap::from([("found".to_owned(), found)]),
        elsewhere: vec!["later".to_owned()],
    }
}

#[test]
fn what_cannot_be_right_is_found_before_there_are_values() {
    for (text, expected) in [
        ("inputs.name", "variable.unknown@0"),
        ("found.matches", "variable.unknown@0"),
        ("steps.later", "variable.unknown@6"),
        ("steps.fund", "variable.unknown@6"),
        ("input.nam", "field.unknown@6"),
        ("steps.found.match", "field.unknown@12"),
        ("input.budget > 'much'", "expression.type@13"),
        ("input.name == 3", "expression.type@11"),
        ("input.budget / 0", "expression.zero@15"),
        ("input.budget % 0.0", "expression.zero@15"),
        ("input.name - 1", "expression.type@6"),
        ("!input.budget", "expression.type@7"),
        ("input.name.first", "expression.type@11"),
        ("size(input.budget)", "expression.type@11"),
        ("input.budget ? 1 : 2", "expression.type@6"),
        ("input.tags + 1", "expression.type@6"),
    ] {
        let wrong = Expression::parse(text).expect(text).check(&known()).expect_err(text);
        assert_eq!(format!("{}@{}", wrong.code, wrong.at), expected, "{text}: {wrong}");
    }
    let condition = Expression::parse("input.budget + 1").expect("parses");
    assert!(condition.check_condition(&known()).is_err());
    for text in ["size(steps.found.matches) > 1", "first(steps.found.matches).any == 'x'"] {
        let condition = Expression::parse(text).expect("parses");
        assert_eq!(condition.check_condition(&known()), Ok(()), "{text}");
    }
}

#[test]
fn templates_fill_texts_and_whole_values() {
    let scope = place();
    let fill = |text: &str| Template::parse(text).expect(text).value(&scope);
    assert_eq!(
        fill("Dear ${input.name}, $${x} costs ${input.budget}."),
        Ok(json!("Dear Acme, ${x} costs 3000."))
    );
    assert_eq!(fill("${input.tags}"), Ok(json!(["vip"])));
    assert_eq!(fill("${'}' + input.name}"), Ok(json!("}Acme")));
    assert_eq!(fill("no variables"), Ok(json!("no variables")));
    assert_eq!(Template::parse("x ${input.").expect_err("open").at, 2);
    assert_eq!(Template::parse("ab ${1 +}").expect_err("syntax").at, 8);
    let source = json!({"to": "${input.name}", "all": ["${item.id}", 3], "n": null});
    let form = Form::parse(&source).expect("a form");
    assert_eq!(form.fill(&scope), Ok(json!({"to": "Acme", "all": [7, 3], "n": null})));
    let stored = serde_json::to_value(&form).expect("stored");
    assert_eq!(stored, source, "stored as it was written");
    assert_eq!(serde_json::from_value::<Form>(stored).expect("read"), form);
    let wrong = Form::parse(&json!({"a": [1, "${"]})).expect_err("open");
    assert_eq!(wrong.0, "/a/1");
}

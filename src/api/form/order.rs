//! Order: in which order the fields of an answer stand in the file, told beside a schema that became a map, and put
//! back where it is read. It decides nothing: a form without it has the same fields.

use serde_json::{Map, Value};

use crate::api::form::{Shape, escaped, member, resolved};

/// Fields whose order is told. More are no form that anybody fills in, and references could name any number.
const ORDER_MAX: usize = 256;

/// The fields of an answer, as JSON pointers into it.
pub(crate) fn order(schema: &Value) -> Vec<String> {
    let mut order = Vec::new();
    gather(schema, schema, ("", 0), &mut order);
    order
}

fn gather(root: &Value, schema: &Value, (at, depth): (&str, usize), order: &mut Vec<String>) {
    let Shape::Object(members) = Shape::of(root, resolved(root, schema), depth) else { return };
    for (name, inner, _) in members {
        if order.len() == ORDER_MAX {
            return;
        }
        let at = member(at, name);
        order.push(at.clone());
        gather(root, inner, (&at, depth + 1), order);
    }
}

/// Puts the members of a schema in that order; what it does not name stays before them. What lies behind a reference
/// is left as it is.
pub(crate) fn ordered(schema: &mut Value, order: &[String]) {
    for at in order.iter().take(ORDER_MAX) {
        let Some((parent, name)) = at.rsplit_once('/') else { continue };
        let Some(members) = members(schema, parent) else { continue };
        let found = members.keys().find(|known| escaped(known) == name).cloned();
        if let Some((name, one)) = found.and_then(|name| members.shift_remove_entry(&name)) {
            members.insert(name, one);
        }
    }
}

/// The members of the object at `at` of the answer.
fn members<'a>(schema: &'a mut Value, at: &str) -> Option<&'a mut Map<String, Value>> {
    let mut members = schema.get_mut("properties")?.as_object_mut()?;
    for part in at.split('/').skip(1) {
        let known = members.keys().find(|known| escaped(known) == part)?.clone();
        members = members.get_mut(&known)?.get_mut("properties")?.as_object_mut()?;
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "properties": {
            "pan": {"type": "string"}, "cvc": {"type": "string"},
            "bill": {"type": "object", "properties": {"zip/area": {}, "city": {}}},
            "again": {"$ref": "#/$defs/again"}},
            "$defs": {"again": {"type": "object", "properties": {"of": {"$ref": "#/$defs/again"}}}}})
    }

    #[test]
    fn the_order_of_the_file_is_told_and_put_back() {
        let order = order(&schema());
        let first =
            ["/pan", "/cvc", "/bill", "/bill/zip~1area", "/bill/city", "/again", "/again/of"];
        assert_eq!(order[..first.len()], first);
        let mut sorted = schema();
        sorted.sort_all_objects();
        assert_ne!(sorted["properties"].to_string(), schema()["properties"].to_string());
        ordered(&mut sorted, &order);
        let names = |at: &str, of: &Value| -> Vec<String> {
            of.pointer(at).unwrap().as_object().unwrap().keys().cloned().collect()
        };
        for at in ["/properties", "/properties/bill/properties"] {
            assert_eq!(names(at, &sorted), names(at, &schema()));
        }
    }

    #[test]
    fn an_order_of_what_is_not_there_changes_nothing_and_one_that_never_ends_is_cut() {
        let mut same = schema();
        let odd = ["", "/", "nothing", "/nothing", "/pan/of/it"].map(str::to_owned);
        ordered(&mut same, &odd);
        assert_eq!(same.to_string(), schema().to_string());
        let wide: Map<_, _> = (0..40).map(|n| (n.to_string(), json!({"$ref": "#"}))).collect();
        assert_eq!(order(&json!({"type": "object", "properties": wide})).len(), ORDER_MAX);
    }
}

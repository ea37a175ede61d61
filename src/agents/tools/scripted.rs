//! Scripted tools: `{returns: value}`, or rules by argument; they can fail and be slow.
//!
//! ```yaml
//! settings:
//!   rules:
//!     - {when: {order: "12345"}, returns: {status: delivered}, delay: 200ms}
//!     - {fail: no such order}
//! ```

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::agents::tools::fault;
use crate::kernel::{ToolFault, duration_ms, placeholder};
use crate::ports::Clock;

/// When a call is like this, and what comes of it then.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// The arguments that must be given like this; others do not matter.
    #[serde(default)]
    when: Map<String, Value>,
    /// What comes back; `{{name}}` in a text stands for an argument, `{{key}}` for the idempotency key.
    #[serde(default)]
    returns: Value,
    #[serde(default)]
    fail: Option<String>,
    /// With `fail`: the answer was lost, and the deed may have been done all the same.
    #[serde(default)]
    lost: bool,
    #[serde(default)]
    delay: Option<String>,
}

/// What is wrong with a scripted tool's settings: where in them, and what.
pub(super) fn check(settings: &Value) -> Result<(), (String, String)> {
    rules(settings).map(|_| ())
}

/// One try of one call.
pub(super) async fn call(
    settings: &Value,
    arguments: &Value,
    key: &str,
    clock: &dyn Clock,
) -> Result<Value, ToolFault> {
    let rules = rules(settings).map_err(|(at, wrong)| {
        fault("tool.settings", format!("the tool's settings at `{at}`: {wrong}"), false)
    })?;
    let fits =
        |rule: &&Rule| rule.when.iter().all(|(name, wanted)| arguments.get(name) == Some(wanted));
    let Some(rule) = rules.iter().find(fits) else {
        let message = format!("no rule of the tool fits the arguments {arguments}");
        return Err(fault("tool.no_rule", message, false));
    };
    if let Some(ms) = rule.delay.as_deref().and_then(duration_ms) {
        clock.pause(ms).await;
    }
    match &rule.fail {
        Some(message) => Err(fault("tool.fails", message.clone(), rule.lost)),
        None => Ok(returned(&rule.returns, arguments, key)),
    }
}

/// A list of rules, or one rule that fits every call.
fn rules(settings: &Value) -> Result<Vec<Rule>, (String, String)> {
    let one = |at: String, value: &Value| {
        let rule = Rule::deserialize(value).map_err(|error| (at.clone(), error.to_string()))?;
        match rule.delay.as_deref().map(duration_ms) {
            Some(None) => Err((format!("{at}/delay"), "expected a length of time: `200ms`".into())),
            Some(Some(_)) | None => Ok(rule),
        }
    };
    match settings.get("rules") {
        Some(Value::Array(rules)) => {
            let each = |(index, rule)| one(format!("/rules/{index}"), rule);
            rules.iter().enumerate().map(each).collect()
        }
        Some(_) => Err(("/rules".into(), "expected a list of rules".into())),
        None => Ok(vec![one(String::new(), settings)?]),
    }
}

/// What comes back, with what the call brought.
fn returned(value: &Value, arguments: &Value, key: &str) -> Value {
    let mut known = arguments.as_object().cloned().unwrap_or_default();
    known.insert("key".into(), key.into());
    placeholder::fill_value(value, &known).unwrap_or_default()
}

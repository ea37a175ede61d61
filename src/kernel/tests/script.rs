//! Script: the acts that a play is made of, and how each is told.

use serde_json::{Value, json};

use crate::kernel::ToolCall;

/// One act of a script. Replies go to the first reply that is owed, in the run's first turn.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// The agent says this, and is done.
    Says(String),
    /// The agent gives this output beside no words.
    Outputs(Value),
    /// The agent calls tools.
    Calls(String, Vec<ToolCall>),
    /// The attempt fails; another may help, or not.
    Fails(bool),
    /// A tool comes back.
    Returns(String, Result<Value, String>),
    /// Ann answers: by ordinal, with a key.
    Answers(Vec<(u32, Value)>, &'static str),
    /// Ann takes a question back.
    Withdraws(u32),
    /// Ann stops the run.
    Cancels,
    /// So many milliseconds pass, and the clock is looked at.
    Waits(u64),
    /// The process dies and comes back.
    Recovers,
    /// An external event comes.
    Signals(&'static str, Value),
}

pub(super) fn says(text: &str) -> Act {
    Act::Says(text.into())
}

/// A coordinator's or specialist's reply: what it says, who is next, what the user is asked.
pub(super) fn directs(summary: &str, next: Option<&str>, ask: Option<&str>) -> Act {
    Act::Outputs(json!({
        "summary": summary,
        "next_agent": next,
        "user_input_needed": ask.is_some(),
        "user_prompt": ask,
    }))
}

pub(super) fn calls<const N: usize>(text: &str, calls: [(&str, &str, Value); N]) -> Act {
    let call = |(id, tool, arguments): (&str, &str, Value)| ToolCall::new(id, tool, arguments);
    Act::Calls(text.into(), calls.into_iter().map(call).collect())
}

pub(super) fn hands_to(agent: &str) -> Act {
    calls("", [("h", &format!("handoff_to_{agent}"), json!({}))])
}

pub(super) fn returns(call: &str, value: Value) -> Act {
    Act::Returns(call.into(), Ok(value))
}

pub(super) fn answers(ordinal: u32, value: impl Into<Value>) -> Act {
    Act::Answers(vec![(ordinal, value.into())], "")
}

/// The act, as the play tells it.
pub(super) fn tell(act: &Act) -> String {
    match act {
        Act::Says(text) => format!("says {text:?}"),
        Act::Outputs(value) => match value.get("summary") {
            Some(summary) => format!("directs {summary}"),
            None => format!("outputs {value}"),
        },
        Act::Calls(_, calls) => {
            let tools: Vec<_> = calls.iter().map(|call| call.tool.as_str()).collect();
            format!("calls {}", tools.join(", "))
        }
        Act::Fails(true) => "fails".into(),
        Act::Fails(false) => "fails for good".into(),
        Act::Returns(call, Ok(value)) => format!("{call} returns {value}"),
        Act::Returns(call, Err(wrong)) => format!("{call} breaks: {wrong}"),
        Act::Answers(answers, key) => {
            let told = answers.iter().map(|(ordinal, value)| format!("#{ordinal} {value}"));
            let key = if key.is_empty() { String::new() } else { format!(" ({key})") };
            format!("answers {}{key}", told.collect::<Vec<_>>().join(", "))
        }
        Act::Withdraws(ordinal) => format!("withdraws #{ordinal}"),
        Act::Cancels => "cancels".into(),
        Act::Waits(ms) => format!("waits {ms}"),
        Act::Recovers => "recovers".into(),
        Act::Signals(name, value) => format!("signals {name} {value}"),
    }
}

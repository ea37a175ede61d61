//! Released: a call that may be made, in the hands of whoever makes it, and the last look at it before it
//! goes out. Whether it may be made was decided long before.

use crate::agents::tools::fault;
use crate::kernel::workflow::Tool;
use crate::kernel::{ToolCall, ToolFault, deed};

/// A call that may be made, and the tool as it stands now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Released<'a> {
    pub(super) tool: &'a Tool,
    pub(super) call: &'a ToolCall,
}

impl Released<'_> {
    /// Whether somebody was shown where it goes: then it goes nowhere else.
    pub(super) fn is_bound(&self) -> bool {
        self.call.deed.is_some()
    }

    /// K3: nothing is sent unless it is what was released, to where it was released for.
    pub(super) fn check(&self, opens: &str) -> Result<(), ToolFault> {
        let Some(deed) = &self.call.deed else { return Ok(()) };
        let (tool, call) = (self.tool, self.call);
        if deed::digest(&call.tool, tool, &call.arguments, opens) == deed.digest {
            return Ok(());
        }
        tracing::error!(
            tool = call.tool,
            released = deed.destination,
            opens,
            "what would be sent is not what was approved; nothing is sent"
        );
        let message = format!(
            "the call of `{}` is not what was approved (`{}`, now `{opens}`), or not with the same \
             arguments or schema; nothing was sent. Look at the audit, and ask anew",
            call.tool, deed.destination
        );
        Err(fault(deed::BROKEN, message, false))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kernel::Deed;

    #[test]
    fn k3_a_call_that_was_not_approved_like_this_is_not_sent() {
        let tool: Tool = serde_json::from_value(
            json!({"provider": "http", "settings": {"url": "https://a.example/pay"}}),
        )
        .unwrap();
        let mut call = ToolCall::new("c1", "pay", json!({"to": "ACCOUNT-1"}));
        call.deed = Some(Box::new(Deed::of("pay", &tool, &call.arguments)));
        Released { tool: &tool, call: &call }.check("GET https://a.example/pay").unwrap();
        let elsewhere = Released { tool: &tool, call: &call }.check("GET https://b.example/pay");
        let fault = elsewhere.unwrap_err();
        assert_eq!(fault.failure.code, deed::BROKEN);
        assert!(!fault.may_have_happened, "nothing was sent");
        let mut forged = call.clone();
        forged.arguments = json!({"to": "ACCOUNT-2"});
        Released { tool: &tool, call: &forged }.check("GET https://a.example/pay").unwrap_err();
        forged.deed = None;
        Released { tool: &tool, call: &forged }.check("GET https://a.example/pay").unwrap();
    }
}

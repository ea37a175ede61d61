//! Tools: what agents may do in the world: scripted, over HTTP, and by MCP servers.
//!
//! Every fault says whether the deed may have been done all the same. Where a tool may be called
//! again, that is done here, with the same key; where it may not, the kernel asks a person (E2).

pub(super) mod guard;
mod http;
pub(super) mod mcp;
mod released;
mod scripted;
mod secret;
pub(super) mod web;

use std::sync::Arc;

use serde_json::Value;

use crate::agents::tools::guard::Place;
use crate::agents::tools::mcp::Servers;
use crate::agents::tools::released::Released;
use crate::agents::tools::web::Web;
use crate::kernel::workflow::{Safety, Tool};
use crate::kernel::{Failure, ToolCall, ToolFault, Workflow, deed, duration_ms};
use crate::ports::Clock;

/// Providers of tools, as files name them.
const TOOL_PROVIDERS: [&str; 3] = ["scripted", "http", "mcp"];
/// How long a call may take, unless its file says otherwise: models wait for it.
const TIMEOUT_MS_DEFAULT: u64 = 30_000;
/// Longer calls want a workflow of their own: a run that only waits for a tool holds a task.
const TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Tries of a call that may be repeated, while nobody knows whether it was heard.
const TRIES_MAX: u32 = 3;
/// The pause before the second try; doubles before the third.
const PAUSE_MS: u64 = 500;

/// What is wrong with a file: where (a JSON pointer), and what to do.
pub(super) type Wrong = (String, String);

/// All tools there are.
#[derive(Debug)]
pub(super) struct Toolbox {
    clock: Arc<dyn Clock>,
    web: Result<Web, String>,
    servers: Servers,
}

impl Toolbox {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let servers = Servers::new(Arc::clone(&clock));
        Self { clock, web: Web::shared(), servers }
    }

    /// What is wrong with a tool.
    pub(super) fn check(name: &str, tool: &Tool) -> Result<(), Wrong> {
        let at = format!("/tools/{name}");
        let wrong = match tool.provider.as_str() {
            "scripted" => scripted::check(&tool.settings),
            "http" => http::check(tool),
            "mcp" => return mcp::check(name, tool),
            other => return Err(super::unknown(&at, other, &TOOL_PROVIDERS)),
        };
        wrong.map_err(|(inner, wrong)| (format!("{at}/settings{inner}"), wrong))
    }

    /// Where a tool's calls go, if its settings say it.
    pub(super) fn place(name: &str, tool: &Tool) -> Option<Place> {
        match tool.provider.as_str() {
            "http" => http::place(name, tool),
            "mcp" => mcp::place(tool),
            _ => None,
        }
    }

    /// Fills in what MCP servers say of their tools; the workflow as runs will keep it.
    pub(super) async fn discover(&self, workflow: &Workflow) -> Result<Workflow, Wrong> {
        mcp::discover(&self.servers, self.web()?, workflow).await
    }

    /// One call, tried again while it may be.
    pub(super) async fn call(
        &self,
        tool: &Tool,
        call: &ToolCall,
        key: &str,
    ) -> Result<Value, ToolFault> {
        let mut tries = 1;
        loop {
            let outcome = self.call_once(Released { tool, call }, key).await;
            let may_repeat = match tool.safety {
                Safety::Pure | Safety::Idempotent => true,
                Safety::Unsafe => false,
            };
            match outcome {
                Err(fault) if fault.may_have_happened && may_repeat && tries < TRIES_MAX => {
                    tracing::debug!(code = fault.failure.code, tries, "tool call is tried again");
                    let pause = PAUSE_MS << (tries - 1);
                    self.clock.pause(pause).await;
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn call_once(&self, released: Released<'_>, key: &str) -> Result<Value, ToolFault> {
        let clock = self.clock.as_ref();
        let Released { tool, call } = released;
        match tool.provider.as_str() {
            "scripted" => {
                released.check(&deed::destination(tool, &call.arguments))?;
                scripted::call(&tool.settings, &call.arguments, key, clock).await
            }
            "http" => {
                let web = self.web().map_err(|(_, wrong)| fault("tool.settings", wrong, false))?;
                let timeout = tool.settings.get("timeout").and_then(Value::as_str);
                within(clock, timeout, http::call(web, released, key)).await
            }
            "mcp" => {
                let web = self.web().map_err(|(_, wrong)| fault("tool.settings", wrong, false))?;
                mcp::call(&self.servers, web, released, key).await
            }
            other => {
                let message = format!("this server has no provider `{other}`");
                Err(fault("provider.unknown", message, false))
            }
        }
    }

    fn web(&self) -> Result<&Web, Wrong> {
        let wrong = |why: &String| (String::new(), format!("HTTP cannot be used here: {why}"));
        self.web.as_ref().map_err(wrong)
    }
}

/// A call, cut off when its time is up: it may have happened by then.
async fn within<T>(
    clock: &dyn Clock,
    timeout: Option<&str>,
    call: impl Future<Output = Result<T, ToolFault>> + Send,
) -> Result<T, ToolFault> {
    let ms = timeout_ms(timeout).map_err(|wrong| fault("tool.settings", wrong, false))?;
    tokio::select! {
        outcome = call => outcome,
        () = clock.pause(ms) => {
            Err(fault("tool.timeout", format!("there was no answer within {ms} ms"), true))
        }
    }
}

fn timeout_ms(text: Option<&str>) -> Result<u64, String> {
    let Some(text) = text else { return Ok(TIMEOUT_MS_DEFAULT) };
    let ms = duration_ms(text).filter(|ms| (1..=TIMEOUT_MS_MAX).contains(ms));
    ms.ok_or_else(|| {
        format!("`{text}` is no time that a call may take; expected `30s`, at most `1h`")
    })
}

/// A fault by its stable code.
pub(super) fn fault(code: &str, message: impl Into<String>, may_have_happened: bool) -> ToolFault {
    ToolFault { failure: Failure::new(code, message), may_have_happened }
}

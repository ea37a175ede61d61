//! MCP tools: what MCP servers offer, over stdio or streamable HTTP.
//!
//! What a server says of a tool is asked for when a workflow is loaded, and kept with it: a model is
//! offered exactly that, for the life of a run. A server that says otherwise at the time of a call is
//! not called (`tool.changed`).

mod connection;
mod outcome;
mod oversize;
mod post;
mod stdio;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::agents::tools::guard::{AllowPrivate, Place};
use crate::agents::tools::released::Released;
use crate::agents::tools::web::Web;
use crate::agents::tools::{Wrong, fault, secret, timeout_ms};
use crate::kernel::secret::made_plain;
use crate::kernel::workflow::Tool;
use crate::kernel::{ToolFault, Workflow, deed, digest, schema};

pub(super) use connection::Servers;
use connection::{Known, Lost};

/// Stands for all tools of a server.
const ALL: &str = "*";
/// A tool's name as models take it.
const NAME_CHARS_MAX: usize = 64;
/// Tools of one server; each is told to a model with every call.
const TOOLS_MAX: usize = 500;

/// The settings of a tool of an MCP server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    server: Server,
    /// Its name on the server.
    tool: String,
    /// The digest of what the server said of it when the workflow was loaded.
    #[serde(default)]
    pinned: Option<String>,
}

/// Where a server is: a command, or a URL.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    name: String,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    timeout: Option<String>,
    #[serde(default)]
    allow_private: AllowPrivate,
}

fn read(tool: &Tool) -> Result<Settings, String> {
    Settings::deserialize(&tool.settings).map_err(|error| error.to_string())
}

/// What is wrong with a tool of an MCP server, or with the server.
pub(super) fn check(name: &str, tool: &Tool) -> Result<(), Wrong> {
    let settings = read(tool).map_err(|wrong| (format!("/tools/{name}/settings"), wrong))?;
    let server = &settings.server;
    let at = |field: &str| format!("/mcp/{}/{field}", server.name);
    match (&server.url, server.command.first()) {
        (None, Some(program)) if !program.is_empty() => {}
        (Some(url), None) => {
            let url = url::Url::parse(url).map_err(|error| (at("url"), error.to_string()))?;
            if !matches!(url.scheme(), "http" | "https") {
                return Err((at("url"), "expected `https://` or `http://`".into()));
            }
        }
        (..) => {
            let place = format!("/mcp/{}", server.name);
            return Err((place, "expected a `command: [program, …]` or a `url`".into()));
        }
    }
    timeout_ms(server.timeout.as_deref()).map_err(|wrong| (at("timeout"), wrong))?;
    for (field, values) in [("env", &server.env), ("headers", &server.headers)] {
        for (name, value) in values {
            let at = format!("{}/{name}", at(field));
            secret::check(value).map_err(|wrong| (at, wrong))?;
        }
    }
    Ok(())
}

/// Where its server is; nowhere, for a program.
pub(super) fn place(tool: &Tool) -> Option<Place> {
    let Server { name, url, allow_private, .. } = read(tool).ok()?.server;
    let url = url::Url::parse(&url?).ok()?;
    Some(Place { at: format!("/mcp/{name}/url"), url, allow: allow_private })
}

/// Asks the servers of a workflow for their tools, and keeps what they say in it. Tools whose
/// `parameters` the file gives need no server to be there: they are compared at the call.
pub(super) async fn discover(
    servers: &Servers,
    web: &Web,
    workflow: &Workflow,
) -> Result<Workflow, Wrong> {
    let mut found = workflow.clone();
    for (name, tool) in &workflow.tools {
        if tool.provider != "mcp" || tool.parameters.is_some() {
            continue;
        }
        let settings = read(tool).map_err(|wrong| (format!("/tools/{name}/settings"), wrong))?;
        let place = format!("/mcp/{}", settings.server.name);
        let known = servers.known(&tool.settings["server"], &settings.server, web).await;
        let known = known.map_err(|lost| {
            let remedy = "start it, or give the tool's `parameters` in the file";
            (place.clone(), format!("the MCP server does not tell its tools: {lost}; {remedy}"))
        })?;
        if settings.tool == ALL {
            expand(&mut found, name, &settings.server.name, &known)
                .map_err(|wrong| (place, wrong))?;
            continue;
        }
        let said = known.get(&settings.tool).ok_or_else(|| {
            let names: Vec<_> = known.keys().map(String::as_str).collect();
            let wrong = format!("has no tool `{}`; it has: {}", settings.tool, names.join(", "));
            (place.clone(), format!("the MCP server {wrong}"))
        })?;
        let told = pinned(tool, &settings.tool, said).map_err(|wrong| (place, wrong))?;
        found.tools.insert(name.clone(), told);
    }
    Ok(found)
}

/// All tools of a server, in the place of the one that stands for them.
fn expand(
    workflow: &mut Workflow,
    all: &str,
    server: &str,
    known: &BTreeMap<String, Known>,
) -> Result<(), String> {
    let Some(stand_in) = workflow.tools.remove(all) else { return Ok(()) };
    if known.len() > TOOLS_MAX {
        return Err(format!("the server has more than {TOOLS_MAX} tools; name those you need"));
    }
    let mut names = Vec::new();
    for (tool, said) in known {
        let name = offered_name(server, tool);
        // One that the file describes itself stays as it is.
        if !workflow.tools.contains_key(&name) {
            let told = pinned(&stand_in, tool, said)?;
            workflow.tools.insert(name.clone(), told);
        }
        names.push(name);
    }
    for agent in workflow.agents.values_mut() {
        if let Some(place) = agent.tools.iter().position(|tool| tool == all) {
            agent.tools.remove(place);
            let missing = names.iter().filter(|name| !agent.tools.contains(name)).cloned();
            agent.tools.extend(missing.collect::<Vec<_>>());
        }
    }
    for gate in &mut workflow.gates {
        if let Some(place) = gate.tools.iter().position(|tool| tool == all) {
            gate.tools.remove(place);
            let missing = names.iter().filter(|name| !gate.tools.contains(name)).cloned();
            gate.tools.extend(missing.collect::<Vec<_>>());
        }
    }
    Ok(())
}

/// `time` and `get.now` become `time__get_now`: not every model takes a dot in a name.
fn offered_name(server: &str, tool: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = format!("{server}__{tool}").chars().map(allowed).collect();
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// The tool with what its server says of it.
fn pinned(tool: &Tool, name: &str, said: &Known) -> Result<Tool, String> {
    // A mark that is misspelled there is one all the same.
    let input = made_plain(said.input.clone());
    schema::check_schema(&input)
        .map_err(|error| format!("the schema of its tool `{name}` is no JSON Schema: {error}"))?;
    let mut told = tool.clone();
    if told.description.is_empty() {
        told.description.clone_from(&said.description);
    }
    told.parameters = Some(input);
    told.settings["tool"] = json!(name);
    told.settings["pinned"] = json!(said.digest);
    Ok(told)
}

/// One try of one call.
pub(super) async fn call(
    servers: &Servers,
    web: &Web,
    released: Released<'_>,
    key: &str,
) -> Result<Value, ToolFault> {
    let Released { tool, call } = released;
    let settings = read(tool).map_err(|wrong| fault("tool.settings", wrong, false))?;
    let place = &tool.settings["server"];
    let command: Vec<_> = settings.server.command.iter().map(String::as_str).collect();
    let mut has_ended = false;
    loop {
        let connection =
            servers.ready(place, &settings.server, web).await.map_err(|lost| faulted(&lost))?;
        let said = connection.said(&settings.tool);
        unchanged(tool, &settings, said.as_ref())?;
        released.check(&deed::mcp(settings.server.url.as_deref(), &command, &settings.tool))?;
        match connection.call(&settings.tool, &call.arguments, key).await {
            // A server that was started anew: once more, in a session that it knows, and with whatever is asked before
            // any call.
            Err(Lost::Ended(_)) if !has_ended => has_ended = true,
            Err(lost) => return Err(faulted(&lost)),
            Ok(result) => {
                return outcome::read(&result, said.as_ref().and_then(|said| said.output.as_ref()));
            }
        }
    }
}

/// K3 of tools: what is called is what was offered.
fn unchanged(tool: &Tool, settings: &Settings, said: Option<&Known>) -> Result<(), ToolFault> {
    let (server, name) = (&settings.server.name, &settings.tool);
    let Some(said) = said else {
        let message = format!("the MCP server `{server}` has no tool `{name}` any more");
        return Err(fault("tool.changed", message, false));
    };
    let is_same = match (&settings.pinned, &tool.parameters) {
        (Some(pinned), _) => *pinned == said.digest,
        (None, Some(declared)) => digest::of(declared) == digest::of(&said.input),
        (None, None) => false,
    };
    if is_same {
        return Ok(());
    }
    let message = format!(
        "the MCP server `{server}` describes `{name}` otherwise than when the run began; \
         it was not called"
    );
    Err(fault("tool.changed", message, false))
}

fn faulted(lost: &Lost) -> ToolFault {
    fault(lost.code(), lost.to_string(), lost.may_have_happened())
}

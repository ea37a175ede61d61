//! MCP in files: `time.now` is the tool `now` of the MCP server `time`; `time.*` are all of them.
//!
//! What the servers offer is not known here. A name becomes a tool without a description; the room
//! that knows servers fills it in before anything runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::definition::file::{McpServerFile, WorkflowFile};
use crate::definition::graph::NodeFile;
use crate::definition::limits::NAME_CHARS_MAX;
use crate::kernel::workflow::Tool;

/// The provider of these tools.
pub(super) const PROVIDER: &str = "mcp";
/// Stands for all tools of a server.
const ALL: &str = "*";

/// A reference to a tool of a server of this file: the server's name and the tool's.
pub(super) fn reference<'a>(file: &WorkflowFile, tool: &'a str) -> Option<(&'a str, &'a str)> {
    let (server, tool) = tool.split_once('.')?;
    (file.mcp.contains_key(server) && !tool.is_empty()).then_some((server, tool))
}

/// The name that a tool has in a run: not every model takes a dot in one.
pub(super) fn name(file: &WorkflowFile, tool: &str) -> String {
    match reference(file, tool) {
        Some((_, ALL)) | None => tool.to_owned(),
        Some((server, tool)) => {
            let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
            let name = format!("{server}__{tool}");
            name.chars().map(allowed).take(NAME_CHARS_MAX).collect()
        }
    }
}

/// The tools that a gate's word means, by the names that they have in a run: `time.*` means all of
/// that server, those that are known here and those that it will tell of.
pub(super) fn bound(file: &WorkflowFile, tool: &str) -> Vec<String> {
    let Some((server, ALL)) = reference(file, tool) else { return vec![name(file, tool)] };
    let is_of = |known: &Tool| known.settings.pointer("/server/name") == Some(&json!(server));
    tools(file).into_iter().filter(|(_, known)| is_of(known)).map(|(name, _)| name).collect()
}

/// Whether anybody may call that tool of a server: by its own name, or as one of all.
pub(super) fn is_offered(file: &WorkflowFile, tool: &str) -> bool {
    let Some((server, wanted)) = reference(file, tool) else { return true };
    let known = tools(file);
    let is_of = |one: &Tool| {
        let of_server = one.settings.pointer("/server/name") == Some(&json!(server));
        let named = one.settings.get("tool").and_then(Value::as_str);
        of_server && (wanted == ALL || named == Some(ALL) || named == Some(wanted))
    };
    known.values().any(is_of)
}

/// The file's tools, and those of MCP servers that its agents name.
pub(super) fn tools(file: &WorkflowFile) -> BTreeMap<String, Tool> {
    let mut tools = BTreeMap::new();
    let called = file.graph.iter().flat_map(|graph| graph.steps.iter().flat_map(NodeFile::all));
    let called = called.filter_map(|node| node.tool.as_ref());
    let named: BTreeSet<_> =
        file.agents.values().flat_map(|agent| &agent.tools).chain(called).collect();
    for whole in named {
        let Some((server, tool)) = reference(file, whole) else { continue };
        let Some(terms) = file.mcp.get(server) else { continue };
        let made = Tool {
            description: String::new(),
            provider: PROVIDER.into(),
            safety: terms.safety.compile(),
            tags: terms.tags.clone(),
            parameters: None,
            secret: terms.secret_of(tool),
            settings: json!({"server": placed(server, terms), "tool": tool}),
        };
        tools.insert(name(file, whole), made);
    }
    for (name, described) in &file.tools {
        let mut tool = described.compile();
        if tool.provider == PROVIDER {
            let server = tool.settings.get("server").and_then(Value::as_str).map(str::to_owned);
            if let Some((server, terms)) = server.and_then(|name| file.mcp.get_key_value(&name)) {
                tool.settings["server"] = placed(server, terms);
            }
            if tool.settings.get("tool").is_none() {
                tool.settings["tool"] = json!(name);
            }
        }
        tools.insert(name.clone(), tool);
    }
    tools
}

/// A server with its name: all that a call needs, so that a run needs no file.
fn placed(name: &str, terms: &McpServerFile) -> Value {
    let mut placed = serde_json::to_value(terms).unwrap_or_default();
    placed["name"] = json!(name);
    placed
}

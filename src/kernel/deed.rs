//! Deed: exactly what is done when a call is released, and where: by this an adapter knows, right
//! before it sends, that it is about to do what a person was shown. Nothing is decided here.
//!
//! - **K3** What was shown is what happens: whoever performs a call compares what it has in its hands
//!   with what was released, and sends nothing if they differ.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;

use crate::kernel::canonical;
use crate::kernel::digest;
use crate::kernel::placeholder;
use crate::kernel::tool::Tool;

/// What is said of a call that is not what was approved: it was not made.
pub const BROKEN: &str = "consent.broken";

/// What servers take of a URL; a longer one is refused by some part of the way.
const URL_BYTES_MAX: usize = 60_000;

/// Where a call goes that goes nowhere.
const BUILT_IN: &str = "built in";

/// What a call is that a gate has looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    /// Where it goes, as a person is shown it.
    pub destination: String,
    /// The digest of all of it.
    pub digest: String,
}

impl Deed {
    /// What a call of `tool`, known as `name`, is.
    pub fn of(name: &str, tool: &Tool, arguments: &Value) -> Self {
        let destination = destination(tool, arguments);
        let digest = digest(name, tool, arguments, &destination);
        Self { destination, digest }
    }

    /// Whether it leaves the machine, or what is built in: worth telling.
    pub fn is_outside(&self) -> bool {
        self.destination != BUILT_IN
    }
}

/// The digest of a call that goes to `destination`: RFC 8785's form of it, by SHA-256. Adapters hand
/// in what they are about to open, not what they were told to. How the arguments are put into what is
/// sent is the tool's settings', which are in it whole; secrets stand in them by their names alone.
pub fn digest(name: &str, tool: &Tool, arguments: &Value, destination: &str) -> String {
    let all = json!({
        "arguments": arguments,
        "destination": destination,
        "schema": tool.parameters,
        "settings": tool.settings,
        "tool": name,
    });
    let mut out = Vec::with_capacity(256);
    canonical::write(&all, &mut out);
    digest::of_bytes(&out)
}

/// Where a call goes: method and place, a command, or that it goes nowhere. Secrets are in
/// none of it: they are filled in where it is sent.
pub fn destination(tool: &Tool, arguments: &Value) -> String {
    let text = |at: &str| tool.settings.pointer(at).and_then(Value::as_str);
    match tool.provider.as_str() {
        "http" => {
            let method = text("/method").unwrap_or("GET").to_uppercase();
            let pattern = text("/url").unwrap_or_default();
            let nothing = Map::new();
            let arguments = arguments.as_object().unwrap_or(&nothing);
            // Where it cannot be filled in nothing is sent either; the pattern is what there is to show.
            match located(pattern, arguments) {
                Ok(url) => http(&method, &url),
                Err(why) => format!("{method} {pattern} (nothing will be sent: {why})"),
            }
        }
        "mcp" => {
            let command = tool.settings.pointer("/server/command").and_then(Value::as_array);
            let command = command.into_iter().flatten().filter_map(Value::as_str);
            let command: Vec<_> = command.collect();
            let name = text("/tool").unwrap_or_default();
            mcp(text("/server/url"), &command, name)
        }
        // Its answers are in the file.
        _provider => BUILT_IN.to_owned(),
    }
}

/// The place that a pattern and its arguments come to, or why that is none.
pub fn located(pattern: &str, arguments: &Map<String, Value>) -> Result<Url, String> {
    let filled = placeholder::fill(pattern, arguments, placeholder::encode)
        .map_err(|name| format!("the URL needs the argument `{name}`"))?;
    if filled.len() > URL_BYTES_MAX {
        return Err(format!("the URL would have more than {URL_BYTES_MAX} bytes"));
    }
    let url = Url::parse(&filled).map_err(|error| format!("the URL is wrong: {error}"))?;
    // `..` would climb out of the path that the file names.
    let written = filled.split(['?', '#']).next().unwrap_or_default();
    let climbs = |part: &str| part == "." || part == "..";
    if pattern != filled && written.split('/').any(climbs) {
        return Err("`.` and `..` are no values for a URL".into());
    }
    Ok(url)
}

/// An HTTP exchange: what is done at which place. The query is the arguments', which are shown themselves.
pub fn http(method: &str, url: &Url) -> String {
    let mut place = url.clone();
    place.set_query(None);
    place.set_fragment(None);
    format!("{method} {place}")
}

/// A tool of an MCP server, by the server's place.
pub fn mcp(url: Option<&str>, command: &[&str], tool: &str) -> String {
    match url {
        Some(url) => format!("{tool} at {url}"),
        None => format!("{tool} of `{}`", command.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(provider: &str, settings: &Value) -> Tool {
        serde_json::from_value(json!({"provider": provider, "settings": settings})).unwrap()
    }

    #[test]
    fn a_person_is_told_where_a_call_goes() {
        let http = tool(
            "http",
            &json!({"method": "post", "url": "https://Shop.example:443/orders/{{id}}/refunds"}),
        );
        let told = destination(&http, &json!({"id": "a/b", "amount": 5}));
        assert_eq!(told, "POST https://shop.example/orders/a%2Fb/refunds");
        let unfilled = destination(&http, &json!({"amount": 5}));
        let needs = " (nothing will be sent: the URL needs the argument `id`)";
        assert_eq!(
            unfilled,
            format!("POST https://Shop.example:443/orders/{{{{id}}}}/refunds{needs}")
        );
        // What is shown is no place that the call never comes to.
        for id in ["..".to_owned(), "a".repeat(70_000)] {
            let told = destination(&http, &json!({ "id": id }));
            assert!(
                told.starts_with("POST https://Shop.example:443/orders/{{id}}/refunds (nothing"),
                "{told}"
            );
        }
        let stdio = tool("mcp", &json!({"server": {"command": ["pay", "--live"]}, "tool": "wire"}));
        assert_eq!(destination(&stdio, &json!({})), "wire of `pay --live`");
        let remote =
            tool("mcp", &json!({"server": {"url": "https://bank.example/mcp"}, "tool": "wire"}));
        assert_eq!(destination(&remote, &json!({})), "wire at https://bank.example/mcp");
        assert_eq!(destination(&tool("scripted", &json!({})), &json!({})), BUILT_IN);
    }

    #[test]
    fn k3_another_place_other_arguments_or_another_schema_is_another_deed() {
        let here = tool("http", &json!({"url": "https://a.example/x"}));
        let there = tool("http", &json!({"url": "https://b.example/x"}));
        let mut described = here.clone();
        described.parameters = Some(json!({"type": "object"}));
        let one = Deed::of("pay", &here, &json!({"n": 1}));
        assert_eq!(one, Deed::of("pay", &here, &json!({"n": 1.0})), "one number, one form");
        for other in [
            Deed::of("pay", &there, &json!({"n": 1})),
            Deed::of("pay", &here, &json!({"n": 2})),
            Deed::of("pay", &described, &json!({"n": 1})),
            Deed::of("refund", &here, &json!({"n": 1})),
        ] {
            assert_ne!(one.digest, other.digest);
        }
    }
}

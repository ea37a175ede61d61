//! Card: what a remote agent says of itself, as far as it matters for calling it: where, in which
//! binding, which version, under which tenant. Reads 1.0, 0.3 and cards that are both.

use serde_json::Value;
use url::Url;

use crate::agents::a2a::fault::{Code, RemoteFault};

/// How a remote is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// JSON-RPC, protocol 1.0.
    JsonRpc,
    /// HTTP+JSON, protocol 1.0.
    Rest,
    /// JSON-RPC, protocol 0.3.
    Older,
}

impl Binding {
    /// The version that every request names.
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::JsonRpc | Self::Rest => "1.0",
            Self::Older => "0.3",
        }
    }
}

/// Where and how a remote agent is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    /// What it calls itself.
    pub(super) name: String,
    pub(super) url: Url,
    pub(super) binding: Binding,
    /// Named in every request.
    pub(super) tenant: String,
    /// Whether it tells what happens while it happens.
    pub(super) streams: bool,
}

/// The first interface of a card that we speak: what the agent prefers, 1.0 before 0.3.
pub(super) fn read(card: &Value) -> Result<Interface, RemoteFault> {
    let text = |value: &Value, field: &str| {
        value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let listed = card.get("supportedInterfaces").and_then(Value::as_array);
    let newer = listed.into_iter().flatten().filter_map(|interface| {
        let version = text(interface, "protocolVersion");
        let binding = match text(interface, "protocolBinding").as_str() {
            "JSONRPC" if version.starts_with("0.") => Binding::Older,
            "JSONRPC" => Binding::JsonRpc,
            "HTTP+JSON" if !version.starts_with("0.") => Binding::Rest,
            _ => return None,
        };
        Some((binding, text(interface, "url"), text(interface, "tenant")))
    });
    let preferred = text(card, "preferredTransport");
    let first =
        (text(card, "url"), if preferred.is_empty() { "JSONRPC".into() } else { preferred });
    let others = card.get("additionalInterfaces").and_then(Value::as_array);
    let others = others.into_iter().flatten();
    let older = std::iter::once(first)
        .chain(others.map(|other| (text(other, "url"), text(other, "transport"))))
        .filter(|(url, transport)| !url.is_empty() && transport == "JSONRPC")
        .map(|(url, _)| (Binding::Older, url, String::new()));
    let mut usable: Vec<_> = newer.chain(older).collect();
    usable.sort_by_key(|(binding, ..)| *binding == Binding::Older);
    let Some((binding, url, tenant)) = usable.into_iter().next() else {
        let message = "its card names no interface that is spoken here: JSONRPC or HTTP+JSON";
        return Err(RemoteFault::new(Code::Card, message));
    };
    let url = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.filter(Url::has_host).ok_or_else(|| {
        RemoteFault::new(Code::Card, "its card names an interface without an address")
    })?;
    let streams = card.pointer("/capabilities/streaming").and_then(Value::as_bool);
    Ok(Interface {
        name: text(card, "name"),
        url,
        binding,
        tenant,
        streams: streams.unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_interface_that_is_spoken_is_taken_and_the_newer_protocol_first() {
        let grpc = json!({"url": "host:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"});
        let rest = json!({"url": "http://host/rest", "protocolBinding": "HTTP+JSON",
            "protocolVersion": "1.0", "tenant": "desk"});
        let older = json!({"url": "http://host/rpc", "protocolBinding": "JSONRPC",
            "protocolVersion": "0.3"});
        let merged = json!({"name": "desk", "url": "http://host/old", "protocolVersion": "0.3.0",
            "capabilities": {"streaming": true}, "supportedInterfaces": [grpc, older, rest]});
        let read = read(&merged).unwrap();
        assert_eq!((read.binding, read.url.as_str()), (Binding::Rest, "http://host/rest"));
        assert_eq!((read.tenant.as_str(), read.streams), ("desk", true));
    }

    #[test]
    fn a_card_of_the_older_protocol_is_read() {
        let card = json!({"name": "desk", "url": "http://host/grpc", "preferredTransport": "GRPC",
            "protocolVersion": "0.3.0",
            "additionalInterfaces": [{"url": "http://host/rpc", "transport": "JSONRPC"}]});
        let read = read(&card).unwrap();
        assert_eq!((read.binding, read.url.as_str()), (Binding::Older, "http://host/rpc"));
        assert!(!read.streams);
    }

    #[test]
    fn a_card_that_leads_nowhere_is_said_so() {
        for card in [
            json!({}),
            json!({"supportedInterfaces": [{"url": "x:1", "protocolBinding": "GRPC"}]}),
            json!({"supportedInterfaces": [{"url": "file:///etc", "protocolBinding": "JSONRPC"}]}),
            json!({"url": 7}),
        ] {
            assert_eq!(read(&card).unwrap_err().code, Code::Card, "{card}");
        }
    }
}

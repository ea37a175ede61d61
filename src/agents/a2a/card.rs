//! Card: what a remote agent says of itself, as far as it matters for calling it: where, in which
//! binding, which version, under which tenant. Reads 1.0, 0.3 and cards that are both.

use serde_json::Value;
use url::Url;

use crate::agents::a2a::fault::{Code, RemoteFault};

/// How a remote is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    JsonRpc,
    Rest,
    Grpc,
}

impl Binding {
    fn named(name: &str) -> Option<Self> {
        match name {
            "JSONRPC" => Some(Self::JsonRpc),
            "HTTP+JSON" => Some(Self::Rest),
            "GRPC" => Some(Self::Grpc),
            _ => None,
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
    /// Whether it speaks protocol 0.3; else 1.0.
    pub(super) is_older: bool,
    /// Named in every request.
    pub(super) tenant: String,
    /// Whether it tells what happens while it happens.
    pub(super) streams: bool,
}

impl Interface {
    /// The version that every request names.
    pub(super) fn version(&self) -> &'static str {
        if self.is_older { "0.3" } else { "1.0" }
    }
}

/// An interface as a card lists it.
struct Listed {
    binding: Binding,
    is_older: bool,
    url: String,
    tenant: String,
}

/// The first interface of a card that we speak: what the agent prefers, 1.0 before 0.3. `from` is
/// where the card is.
pub(super) fn read(card: &Value, from: &Url) -> Result<Interface, RemoteFault> {
    let newer = array(card, "supportedInterfaces").filter_map(|interface| {
        let binding = Binding::named(&text(interface, "protocolBinding"))?;
        let is_older = text(interface, "protocolVersion").starts_with("0.");
        let (url, tenant) = (text(interface, "url"), text(interface, "tenant"));
        Some(Listed { binding, is_older, url, tenant })
    });
    let preferred = text(card, "preferredTransport");
    let first =
        (text(card, "url"), if preferred.is_empty() { "JSONRPC".into() } else { preferred });
    let others = array(card, "additionalInterfaces");
    let older = std::iter::once(first)
        .chain(others.map(|other| (text(other, "url"), text(other, "transport"))))
        .filter(|(url, _)| !url.is_empty())
        .filter_map(|(url, transport)| {
            let binding = Binding::named(&transport)?;
            Some(Listed { binding, is_older: true, url, tenant: String::new() })
        });
    let mut usable: Vec<_> = newer.chain(older).collect();
    usable.sort_by_key(|one| one.is_older);
    let Some(Listed { binding, is_older, url, tenant }) = usable.into_iter().next() else {
        let message = "its card names no interface that is spoken here: JSONRPC, HTTP+JSON or GRPC";
        return Err(RemoteFault::new(Code::Card, message));
    };
    let url = address(binding, &url, from).ok_or_else(|| {
        RemoteFault::new(Code::Card, "its card names an interface without an address")
    })?;
    let streams = card.pointer("/capabilities/streaming").and_then(Value::as_bool);
    Ok(Interface {
        name: text(card, "name"),
        url,
        binding,
        is_older,
        tenant,
        streams: streams.unwrap_or(false),
    })
}

/// The address of an interface. One of gRPC has no scheme, mostly; it is as safe as the card was.
fn address(binding: Binding, text: &str, from: &Url) -> Option<Url> {
    let is_bare = binding == Binding::Grpc && !text.contains("://");
    let whole = if is_bare { format!("{}://{text}", from.scheme()) } else { text.to_owned() };
    let url = Url::parse(&whole).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.filter(Url::has_host)
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn array<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(card: &Value) -> Result<Interface, RemoteFault> {
        super::read(card, &Url::parse("https://host/card.json").unwrap())
    }

    fn how(read: &Interface) -> (Binding, bool, &str) {
        (read.binding, read.is_older, read.url.as_str())
    }

    #[test]
    fn the_first_interface_that_is_spoken_is_taken_and_the_newer_protocol_first() {
        let carrier =
            json!({"url": "host:1", "protocolBinding": "PIGEON", "protocolVersion": "1.0"});
        let rest = json!({"url": "http://host/rest", "protocolBinding": "HTTP+JSON",
            "protocolVersion": "1.0", "tenant": "desk"});
        let grpc = json!({"url": "host:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"});
        let older = json!({"url": "http://host/rpc", "protocolBinding": "JSONRPC",
            "protocolVersion": "0.3"});
        let merged = json!({"name": "desk", "url": "http://host/old", "protocolVersion": "0.3.0",
            "capabilities": {"streaming": true},
            "supportedInterfaces": [carrier, older, rest, grpc]});
        let read = read(&merged).unwrap();
        assert_eq!(how(&read), (Binding::Rest, false, "http://host/rest"));
        assert_eq!((read.tenant.as_str(), read.streams), ("desk", true));
    }

    #[test]
    fn an_address_of_grpc_is_as_safe_as_the_card() {
        let of = |url: &str| {
            let one = json!({"url": url, "protocolBinding": "GRPC", "protocolVersion": "1.0"});
            read(&json!({"supportedInterfaces": [one]}))
        };
        assert_eq!(how(&of("host:50051").unwrap()), (Binding::Grpc, false, "https://host:50051/"));
        assert_eq!(how(&of("http://host:1").unwrap()), (Binding::Grpc, false, "http://host:1/"));
        assert!(of("unix:///run/agent").is_err());
    }

    #[test]
    fn a_card_of_the_older_protocol_is_read() {
        let mut card = json!({"name": "desk", "url": "host:1", "preferredTransport": "GRPC",
            "protocolVersion": "0.3.0",
            "additionalInterfaces": [{"url": "http://host/rpc", "transport": "JSONRPC"}]});
        assert_eq!(how(&read(&card).unwrap()), (Binding::Grpc, true, "https://host:1/"));
        card["preferredTransport"] = json!("PIGEON");
        let read = read(&card).unwrap();
        assert_eq!(how(&read), (Binding::JsonRpc, true, "http://host/rpc"));
        assert!(!read.streams);
    }

    #[test]
    fn a_card_that_leads_nowhere_is_said_so() {
        for card in [
            json!({}),
            json!({"supportedInterfaces": [{"url": "", "protocolBinding": "GRPC"}]}),
            json!({"supportedInterfaces": [{"url": "file:///etc", "protocolBinding": "JSONRPC"}]}),
            json!({"url": 7}),
        ] {
            assert_eq!(read(&card).unwrap_err().code, Code::Card, "{card}");
        }
    }
}

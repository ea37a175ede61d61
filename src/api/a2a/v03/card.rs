//! Cards of 0.3: what a card of 1.0 says beside its own for clients of this version. The rest of it is the newer
//! card's to say.

use serde_json::{Map, Value, json};

use crate::api::a2a::v03::{PROTOCOL, VERSION};
use crate::wire::a2a::{AgentCard, Interface};

/// The interfaces of this version. A gRPC address has neither path nor, here, tenant: there only the
/// root's agent is reached. It is told as this version's SDKs dial it: without a scheme.
pub(in crate::api::a2a) fn interfaces(url: &str, by_grpc: Option<&str>) -> Vec<Interface> {
    let interface = |url: &str, protocol_binding| Interface {
        url: url.to_owned(),
        protocol_binding,
        tenant: String::new(),
        protocol_version: VERSION,
    };
    let by_http = [interface(url, "JSONRPC"), interface(url, "HTTP+JSON")];
    by_http.into_iter().chain(by_grpc.map(|address| interface(address, "GRPC"))).collect()
}

/// A card that clients of either version can read.
pub(in crate::api::a2a) fn merged(card: &AgentCard, mut json: Value) -> Value {
    let mut older = card.supported_interfaces.iter().filter(|one| one.protocol_version == VERSION);
    let Some(first) = older.next() else { return json };
    let others = older.map(|one| json!({"url": one.url, "transport": one.protocol_binding}));
    json["additionalInterfaces"] = others.collect();
    json["url"] = json!(first.url);
    json["preferredTransport"] = json!(first.protocol_binding);
    json["protocolVersion"] = json!(PROTOCOL);
    json["supportsAuthenticatedExtendedCard"] = json!(card.capabilities.extended_agent_card);
    if let Some(schemes) = json.get_mut("securitySchemes").and_then(Value::as_object_mut) {
        let mut required = Map::new();
        for (name, scheme) in schemes {
            let said = scheme.pointer("/httpAuthSecurityScheme/description").cloned();
            scheme["description"] = said.unwrap_or_default();
            scheme["type"] = json!("http");
            scheme["scheme"] = json!("Bearer");
            required.insert(name.clone(), json!([]));
        }
        json["security"] = json!([required]);
    }
    json
}

//! The agent card: what an agent says of itself. Only what our own cards say.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::wire::a2a::{Fields, is_false};

/// Where an agent is reached, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Where.
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON` or `GRPC`.
    pub protocol_binding: &'static str,
    /// The tenant that every call must name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The protocol's version.
    pub protocol_version: &'static str,
}

/// Who offers the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentProvider {
    /// Their page.
    pub url: String,
    /// Their name.
    pub organization: String,
}

/// A declared extension of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Extension {
    /// Its name.
    pub uri: &'static str,
    /// What it does.
    pub description: &'static str,
    /// Whether a client must know it.
    #[serde(skip_serializing_if = "is_false")]
    pub required: bool,
    /// Its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Fields>,
}

/// What of the protocol an agent offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Streams.
    pub streaming: bool,
    /// Webhooks.
    pub push_notifications: bool,
    /// Extensions.
    pub extensions: Vec<Extension>,
    /// A card that only known callers get.
    pub extended_agent_card: bool,
}

/// Something an agent can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skill {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
}

/// The `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HttpAuthScheme {
    /// What to show.
    pub description: &'static str,
    /// The scheme.
    pub scheme: &'static str,
}

/// How a caller proves who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SecurityScheme {
    /// By the `Authorization` header.
    HttpAuthSecurityScheme(HttpAuthScheme),
}

/// Scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StringList {
    /// The scopes.
    pub list: Vec<String>,
}

/// Schemes that must be fulfilled together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecurityRequirement {
    /// The schemes by name.
    pub schemes: BTreeMap<&'static str, StringList>,
}

/// A signature of a card: a JWS whose payload is the card itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CardSignature {
    /// Its header, in base64.
    pub protected: String,
    /// The signature, in base64.
    pub signature: String,
}

/// What an agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where it is reached, the preferred first.
    pub supported_interfaces: Vec<Interface>,
    /// Who offers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<AgentProvider>,
    /// The workflow's version.
    pub version: String,
    /// What it offers.
    pub capabilities: Capabilities,
    /// How callers may prove who they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<&'static str, SecurityScheme>,
    /// How they must.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// Media types that it reads.
    pub default_input_modes: Vec<&'static str>,
    /// Media types that it writes.
    pub default_output_modes: Vec<&'static str>,
    /// What it can do.
    pub skills: Vec<Skill>,
    /// Who vouches for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<CardSignature>,
}

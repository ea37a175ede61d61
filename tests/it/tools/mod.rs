//! Tools over HTTP and MCP.

pub(crate) mod http;
pub(crate) mod mcp;
mod places;
mod sent_on;

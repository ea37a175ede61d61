//! Wire: shapes without behaviour. What `build.rs` generates from `proto/`, and A2A's JSON.

pub mod a2a;
pub mod proto_json;

/// Package `holdpoint.v1`: messages, client and server of the `Orchestrator` service.
pub mod v1 {
    #![allow(
        clippy::all,
        clippy::pedantic,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        missing_debug_implementations,
        rustdoc::all,
        reason = "generated"
    )]
    tonic::include_proto!("holdpoint.v1");
}

/// Package `lf.a2a.v1`: messages, client and server of A2A's gRPC binding.
pub mod lf {
    #![allow(
        clippy::all,
        clippy::pedantic,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        missing_debug_implementations,
        rustdoc::all,
        reason = "generated"
    )]
    tonic::include_proto!("lf.a2a.v1");
}

/// Package `a2a.v1`: the same of protocol 0.3.
pub mod older {
    #![allow(
        clippy::all,
        clippy::pedantic,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        missing_debug_implementations,
        rustdoc::all,
        reason = "generated"
    )]
    tonic::include_proto!("a2a.v1");
}

/// The descriptors of everything above, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

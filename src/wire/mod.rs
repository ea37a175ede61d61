//! Wire: shapes without behaviour. What is generated from `proto/`, and A2A's JSON.
//!
//! The generated code is checked in beside the files that it comes from, so that nobody who builds the program
//! has to build a compiler of protobuf first; `tests/it/house/generated.rs` fails when it is stale and writes it anew.

pub mod a2a;
pub mod json;
pub mod proto_json;

/// A module that is generated: no lint of ours is about it.
macro_rules! generated {
    ($(#[$doc:meta])* $name:ident, $package:literal) => {
        $(#[$doc])*
        #[allow(
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
        pub mod $name {
            include!(concat!(env!("CARGO_MANIFEST_DIR"), "/proto/rust/", $package, ".rs"));
        }
    };
}

generated! {
    /// Package `holdpoint.v1`: messages, client and server of the `Orchestrator` service.
    v1, "holdpoint.v1"
}
generated! {
    /// Package `lf.a2a.v1`: messages, client and server of A2A's gRPC binding.
    lf, "lf.a2a.v1"
}
generated! {
    /// Package `a2a.v1`: the same of protocol 0.3.
    older, "a2a.v1"
}

/// The descriptors of everything above, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("../../proto/rust/descriptors.bin");

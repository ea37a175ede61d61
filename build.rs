//! Compiles `proto/` without `protoc`: protox reads the files, prost and tonic write the shapes.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

const PROTOS: &[&str] =
    &["holdpoint/v1/orchestrator.proto", "lf/a2a/v1/a2a.proto", "a2a/v1/a2a.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true) // keeps the comments for rustdoc and for reflection clients
        .include_imports(true)
        .open_files(PROTOS)?
        .file_descriptor_set();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_server(true)
        .build_client(true)
        // An event is moved from hand to hand: the largest of them does not make all of them large.
        .boxed(".holdpoint.v1.WorkflowEvent.event.request_info")
        .extern_path(".google.protobuf.Value", "crate::wire::json::Json")
        .extern_path(".google.protobuf.Struct", "crate::wire::json::Fields")
        .compile_fds(descriptors)?;
    Ok(())
}

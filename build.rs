//! Says which commit this is built from, and by which profile, for `holdpoint --version`, and of which kernel. It generates nothing:
//! what comes of `proto/` is checked in, so that nobody has to build a compiler of protobuf to build or test the program.
//! With the feature `generate` it writes that anew, and of what it was made, which `tests/it/house/generated.rs` compares.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::{env, fs, path::Path, process::Command};

#[cfg(feature = "generate")]
#[path = "proto/made_of.rs"]
mod made_of;

fn main() {
    #[cfg(feature = "generate")]
    generate().expect("proto/ compiles");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=HOLDPOINT_COMMIT");
    let profile = profile();
    // A debug build is somebody's desk: a commit would change it and recompile everything each time.
    let commit = if profile == "debug" { None } else { given().or_else(commit) };
    let built = commit.map_or(profile.clone(), |commit| format!("{commit} {profile}"));
    println!("cargo:rustc-env=HOLDPOINT_BUILT={built}");
    println!("cargo:rerun-if-changed=src/kernel");
    let mut kernel = DefaultHasher::new();
    hash_sources(Path::new("src/kernel"), &mut kernel).expect("src/kernel can be read");
    println!("cargo:rustc-env=HOLDPOINT_KERNEL={:016x}", kernel.finish());
}

/// Everything that decides how a journal folds, in one number: runs that are saved folded are of one kernel.
fn hash_sources(folder: &Path, hasher: &mut DefaultHasher) -> std::io::Result<()> {
    let mut files = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files {
        file.file_name().hash(hasher);
        if file.file_type()?.is_dir() {
            hash_sources(&file.path(), hasher)?;
        } else {
            fs::read(file.path())?.hash(hasher);
        }
    }
    Ok(())
}

/// What a packager says, who builds from no repository.
fn given() -> Option<String> {
    env::var("HOLDPOINT_COMMIT").ok().filter(|commit| !commit.is_empty())
}

/// The commit, with a mark where files differ from it.
fn commit() -> Option<String> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().ok()?;
    let top = Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
    // Unpacked somewhere within another repository, that one's commit says nothing about us.
    if ours != top {
        return None;
    }
    for file in ["HEAD", "index"] {
        println!("cargo:rerun-if-changed={}", git(&["rev-parse", "--git-path", file])?);
    }
    for place in ["src", "proto", "workflows", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={place}");
    }
    git(&["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=-changed"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The profile's name is a folder above ours; cargo tells only what it inherits.
fn profile() -> String {
    let out = env::var("OUT_DIR").unwrap_or_default();
    let above = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    above.map_or_else(|| "unknown".into(), |name| name.to_string_lossy().into_owned())
}

/// Compiles `proto/` without `protoc`: protox reads the files, prost and tonic write the shapes.
#[cfg(feature = "generate")]
fn generate() -> Result<(), Box<dyn std::error::Error>> {
    use prost::Message as _;

    const PROTOS: &[&str] =
        &["holdpoint/v1/orchestrator.proto", "lf/a2a/v1/a2a.proto", "a2a/v1/a2a.proto"];
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true) // keeps the comments for rustdoc and for reflection clients
        .include_imports(true)
        .open_files(PROTOS)?
        .file_descriptor_set();
    let out = Path::new(&env::var("OUT_DIR")?).to_path_buf();
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_server(true)
        .build_client(true)
        .emit_rerun_if_changed(false)
        // An event is moved from hand to hand: the largest of them does not make all of them large.
        .boxed(".holdpoint.v1.WorkflowEvent.event.request_info")
        .extern_path(".google.protobuf.Value", "crate::wire::json::Json")
        .extern_path(".google.protobuf.Struct", "crate::wire::json::Fields")
        .compile_fds(descriptors)?;
    // Written here, so that code that already uses a new field can be built at all.
    for name in made_of::KEPT {
        write(&Path::new(made_of::KEPT_IN).join(name), &fs::read(out.join(name))?)?;
    }
    let digest = |bytes: &[u8]| -> String {
        use sha2::Digest as _;
        sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let told = made_of::told(digest)?;
    write(&Path::new(made_of::KEPT_IN).join("made_of.txt"), told.as_bytes())?;
    Ok(())
}

/// Writes a file where it says something else: what is as it was is not built anew.
#[cfg(feature = "generate")]
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|known| known == bytes) { Ok(()) } else { fs::write(path, bytes) }
}

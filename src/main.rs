//! The front door: parse, call, exit code.

use std::process::ExitCode;

/// A run is made of many small values that live from one event to the next.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    holdpoint::cli::main(std::env::args_os())
}

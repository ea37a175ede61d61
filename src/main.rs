//! The front door: parse, call, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdpoint::cli::main(std::env::args_os())
}

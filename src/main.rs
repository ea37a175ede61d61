//! The front door: parse, call, exit code.

fn main() {}

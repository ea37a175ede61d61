//! One integration binary: links once, runs fast.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod cli;
mod cli_talk;

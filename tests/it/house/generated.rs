//! Generated: what is checked in of `proto/` is what its files say. It was made by `build.rs` with the feature
//! `generate`, which also wrote down of what; nothing is generated here, so that tests need not build a compiler of
//! protobuf.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

#[path = "../../../proto/made_of.rs"]
mod made_of;

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn what_is_generated_from_proto_is_not_stale() {
    let now = made_of::told(digest).unwrap();
    let then = std::fs::read_to_string("proto/rust/made_of.txt").unwrap();
    let differs: Vec<_> =
        now.lines().filter(|line| !then.lines().any(|known| known == *line)).collect();
    let remedy = "cargo check --features generate";
    assert!(now == then, "proto/rust was made of something else: {differs:?}; {remedy}");
    assert!(
        now.lines().count() > 10 && !now.contains("absent"),
        "hardly anything is compared: {now}"
    );
}

//! Chain: how each append of a run holds on to the one before it. A link binds the append's exact bytes, its
//! run and its version, so that nothing can be changed, moved, put in or taken out without every later link
//! being another (J13). It knows bytes and no events.

use crate::kernel::evidence::Hash;
use crate::kernel::{RunId, Version};

/// What the first append of a run goes on from.
pub const GENESIS: Hash = Hash([0; 32]);

/// Says what a hash is of, so that none can be taken for one of another kind.
const ENTRY: &[u8] = b"holdpoint entry 1\n";
const LOG: &[u8] = b"holdpoint log 1\n";

/// The hash of an append's bytes. Made once, by whoever has them.
pub fn payload(bytes: &[u8]) -> Hash {
    Hash::of(&[bytes])
}

/// The link of an append whose first event is at `first`.
pub fn link(prev: Hash, run: &RunId, first: Version, payload: Hash) -> Hash {
    let run = run.as_str().as_bytes();
    Hash::of(&[ENTRY, &prev.0, &first.to_be_bytes(), &payload.0, run])
}

/// The link of an entry of the store's own log: the `index`-th of its lane.
pub fn log_link(prev: Hash, lane: &str, index: u64, said: &[u8]) -> Hash {
    let said = payload(said);
    Hash::of(&[LOG, &prev.0, &index.to_be_bytes(), &said.0, lane.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j13_a_link_binds_what_came_before_where_it_lies_and_every_byte() {
        let run =
            |last: char| RunId::parse(&format!("run_01k9zq3v7m8n4p5r6s7t8v9w0{last}")).unwrap();
        let whole = link(GENESIS, &run('x'), 1, payload(b"{}"));
        assert_eq!(whole, link(GENESIS, &run('x'), 1, payload(b"{}")));
        for other in [
            link(whole, &run('x'), 1, payload(b"{}")),
            link(GENESIS, &run('y'), 1, payload(b"{}")),
            link(GENESIS, &run('x'), 2, payload(b"{}")),
            link(GENESIS, &run('x'), 1, payload(b"{ }")),
            log_link(GENESIS, "deeds", 1, b"{}"),
        ] {
            assert_ne!(whole, other);
        }
    }
}

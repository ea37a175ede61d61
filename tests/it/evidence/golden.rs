//! Golden: the chained form, byte by byte (J13). As in `golden.rs` the files are never edited, only added to.

use holdpoint::kernel::evidence::chain::{self, GENESIS};
use holdpoint::kernel::evidence::leaf::{Kinds, Leaf};
use holdpoint::kernel::evidence::tree::TreeHead;
use holdpoint::kernel::evidence::{Hash, note};
use holdpoint::kernel::{Event, Millis};
use holdpoint::store::codec::{self, StoredHead, Unlinked};
use holdpoint::store::keys;

use crate::store::golden::{golden, run, started};

fn events() -> Vec<Event> {
    vec![Event::Started(Box::new(started())), Event::Completed]
}

#[test]
fn chained_entries_are_written_as_they_always_were() {
    let key = keys::entry(&keys::pack(&run()).unwrap(), 1);
    let unlinked = Unlinked::events(&key, Millis(1_700_000_000_000), &events()).unwrap();
    let payload = chain::payload(unlinked.payload());
    let stored = golden("v2-entry.bin", &unlinked.linked(GENESIS));
    let read = codec::unseal_events(&key, &stored, 1).unwrap();
    assert_eq!(read.into_iter().map(|recorded| recorded.event).collect::<Vec<_>>(), events());
    assert_eq!(codec::unseal_chained(&key, &stored).unwrap().0, Some(GENESIS));

    let link = chain::link(GENESIS, &run(), 1, payload);
    let leaf = Leaf::entry(run(), 1, Kinds::of(&events()), link);
    let text = golden("v2-leaf.txt", leaf.text().as_bytes());
    assert_eq!(Leaf::parse(str::from_utf8(&text).unwrap()), Some(leaf));
    let head = TreeHead { size: 1, root: holdpoint::kernel::evidence::tree::leaf_hash(&text) };
    golden("v2-note.txt", note::body("holdpoint/golden", head).as_bytes());
}

#[test]
fn linked_heads_are_written_as_they_always_were() {
    let key = keys::head(&keys::pack(&run()).unwrap());
    let stored = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/journals/v1-head-waiting.bin"
    ));
    let old = codec::unseal_head(&key, &stored.unwrap()).unwrap();
    let json = codec::head_json(&old.head).unwrap();
    let link = Hash::of(&[b"the last append"]);
    let beside = (old.fence, old.key.as_deref(), old.apart);
    let record = codec::seal_linked_head(&key, link, beside, &json);
    let stored = golden("v2-head-waiting.bin", &record);
    let expected = StoredHead { link: Some(link), ..old };
    assert_eq!(codec::unseal_head(&key, &stored), Ok(expected));
}

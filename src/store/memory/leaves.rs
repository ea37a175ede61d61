//! Leaves: the log of leaves of a store in memory.

use std::collections::BTreeMap;

use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::tree::{Frontier, TreeHead, leaf_hash, node_hash};
use crate::ports::Fault;
use crate::ports::evidence::Lain;

/// The log of leaves.
#[derive(Debug, Clone, Default)]
pub(super) struct Leaves {
    pub(super) waiting: BTreeMap<Place, Leaf>,
    pub(super) texts: Vec<String>,
    pub(super) places: BTreeMap<Place, u64>,
}

impl Leaves {
    /// A leaf waits for its place.
    pub(super) fn wait(&mut self, leaf: Leaf) {
        self.waiting.insert(leaf.place(), leaf);
    }

    /// The leaf that speaks of a place.
    pub(super) fn lain(&self, place: &Place) -> Option<Lain> {
        if let Some(leaf) = self.waiting.get(place) {
            return Some(Lain { leaf: leaf.clone(), index: None });
        }
        let index = self.places.get(place).copied();
        let text = index.and_then(|index| self.texts.get(usize::try_from(index).ok()?));
        text.and_then(|text| Leaf::parse(text)).map(|leaf| Lain { leaf, index })
    }

    pub(super) fn head(&self) -> TreeHead {
        let mut frontier = Frontier::default();
        self.texts.iter().for_each(|text| frontier.push(leaf_hash(text.as_bytes()), |_, _, _| {}));
        frontier.head()
    }

    pub(super) fn node(&self, level: u8, index: u64) -> Result<Hash, Fault> {
        if level > 0 {
            let (left, right) =
                (self.node(level - 1, 2 * index)?, self.node(level - 1, 2 * index + 1)?);
            return Ok(node_hash(left, right));
        }
        let text = usize::try_from(index).ok().and_then(|index| self.texts.get(index));
        let text = text.ok_or_else(|| Fault::Permanent(format!("there is no leaf {index}")))?;
        Ok(leaf_hash(text.as_bytes()))
    }
}

//! Tree: the store-wide log of leaves as a Merkle tree, hashed as RFC 6962 says. It asks for the hashes that it
//! needs and keeps none; how they are stored is each store's business.

use crate::kernel::evidence::Hash;

/// How large a tree is, and its root: what is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeHead {
    /// Leaves.
    pub size: u64,
    /// The root over them.
    pub root: Hash,
}

/// The hash of a leaf.
pub fn leaf_hash(text: &[u8]) -> Hash {
    Hash::of(&[&[0], text])
}

/// The hash of a node.
pub fn node_hash(left: Hash, right: Hash) -> Hash {
    Hash::of(&[&[1], &left.0, &right.0])
}

/// The right edge of a tree: the whole subtrees that it is made of, largest first. All that is needed to
/// grow it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    peaks: Vec<Hash>,
}

impl Frontier {
    /// From what was kept of one; none if that is not the edge of a tree of that size.
    pub fn read(size: u64, peaks: Vec<Hash>) -> Option<Self> {
        (peaks.len() == size.count_ones() as usize).then_some(Self { size, peaks })
    }

    /// Leaves so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The whole subtrees, largest first.
    pub fn peaks(&self) -> &[Hash] {
        &self.peaks
    }

    /// Adds a leaf. `whole` is told of each subtree that is complete with it: its level, which of that level,
    /// and its hash.
    pub fn push(&mut self, leaf: Hash, mut whole: impl FnMut(u8, u64, Hash)) {
        let mut hash = leaf;
        let (mut level, mut index) = (0, self.size);
        while index & 1 == 1 {
            let Some(left) = self.peaks.pop() else { break };
            hash = node_hash(left, hash);
            level += 1;
            index >>= 1;
            whole(level, index, hash);
        }
        self.peaks.push(hash);
        self.size += 1;
    }

    /// The root over everything; of nothing, the hash of nothing.
    pub fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return Hash::of(&[]) };
        peaks.fold(*last, |right, left| node_hash(*left, right))
    }

    /// As it would be signed.
    pub fn head(&self) -> TreeHead {
        TreeHead { size: self.size, root: self.root() }
    }
}

/// The largest power of two below `size`, as its exponent; `size` is at least 2.
fn split(size: u64) -> u8 {
    u8::try_from((size - 1).ilog2()).unwrap_or(63)
}

/// The root over `size` leaves from `first` on, where `first` is a multiple of the power of two at or above
/// `size`. `node` gives the hash of a whole subtree, by level and index.
fn root_over<E>(
    first: u64,
    size: u64,
    node: &impl Fn(u8, u64) -> Result<Hash, E>,
) -> Result<Hash, E> {
    if size == 0 {
        return Ok(Hash::of(&[]));
    }
    if size.is_power_of_two() {
        let level = u8::try_from(size.ilog2()).unwrap_or(63);
        return node(level, first >> level);
    }
    let level = split(size);
    let left = node(level, first >> level)?;
    let right = root_over(first + (1 << level), size - (1 << level), node)?;
    Ok(node_hash(left, right))
}

/// The root of the tree when it had `size` leaves.
pub fn root<E>(size: u64, node: &impl Fn(u8, u64) -> Result<Hash, E>) -> Result<Hash, E> {
    root_over(0, size, node)
}

/// The proof that a leaf is in the tree of `size` leaves: the hashes beside its way up, lowest first.
pub fn inclusion<E>(
    index: u64,
    size: u64,
    node: &impl Fn(u8, u64) -> Result<Hash, E>,
) -> Result<Vec<Hash>, E> {
    let (mut first, mut left, mut proof) = (0, size, Vec::new());
    while left > 1 {
        let half = 1 << split(left);
        if index < first + half {
            proof.push(root_over(first + half, left - half, node)?);
            left = half;
        } else {
            proof.push(root_over(first, half, node)?);
            (first, left) = (first + half, left - half);
        }
    }
    proof.reverse();
    Ok(proof)
}

/// The root that a proof leads to from a leaf; none if it is no proof for that place.
pub fn led_to(leaf: Hash, index: u64, size: u64, proof: &[Hash]) -> Option<Hash> {
    if index >= size {
        return None;
    }
    let (mut hash, mut index, mut last) = (leaf, index, size - 1);
    for beside in proof {
        if last == 0 {
            return None;
        }
        if index & 1 == 1 || index == last {
            hash = node_hash(*beside, hash);
            while index & 1 == 0 && index != 0 {
                index >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(hash, *beside);
        }
        index >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(hash)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaves(count: u64) -> Vec<Hash> {
        (0..count).map(|number| leaf_hash(&number.to_be_bytes())).collect()
    }

    /// RFC 6962, word for word.
    fn plain(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Hash::of(&[]),
            [one] => *one,
            more => {
                let (left, right) = more.split_at(1 << split(more.len() as u64));
                node_hash(plain(left), plain(right))
            }
        }
    }

    fn node(leaves: &[Hash]) -> impl Fn(u8, u64) -> Result<Hash, ()> {
        move |level, index| {
            let first = usize::try_from(index << level).unwrap();
            Ok(plain(leaves.get(first..first + (1 << level)).ok_or(())?))
        }
    }

    #[test]
    fn the_roots_are_those_of_the_rfc() {
        // The first and the last of the test vectors of certificate-transparency.
        assert_eq!(
            Frontier::default().root().to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let inputs: [&[u8]; 8] = [
            b"",
            &[0x00],
            &[0x10],
            &[0x20, 0x21],
            &[0x30, 0x31],
            &[0x40, 0x41, 0x42, 0x43],
            &[0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57],
            &[
                0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d,
                0x6e, 0x6f,
            ],
        ];
        let mut frontier = Frontier::default();
        for input in inputs {
            frontier.push(leaf_hash(input), |_, _, _| {});
        }
        assert_eq!(
            frontier.root().to_string(),
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
        );
    }

    proptest! {
        #[test]
        fn a_tree_that_grew_is_the_tree_over_its_leaves(count in 0_u64..200, at in 0_u64..200) {
            let leaves = leaves(count);
            let mut frontier = Frontier::default();
            for leaf in &leaves {
                let grown = frontier.size();
                frontier.push(*leaf, |level, index, hash| {
                    assert_eq!((index + 1) << level, grown + 1);
                    let first = usize::try_from(index << level).unwrap();
                    assert_eq!(hash, plain(&self::leaves(grown + 1)[first..]));
                });
            }
            prop_assert_eq!(frontier.root(), plain(&leaves));
            prop_assert_eq!(root(count, &node(&leaves)), Ok(plain(&leaves)));
            let kept = Frontier::read(count, frontier.peaks().to_vec());
            prop_assert_eq!(kept, Some(frontier.clone()));
            prop_assume!(at < count);
            let proof = inclusion(at, count, &node(&leaves)).unwrap();
            let leaf = leaves[usize::try_from(at).unwrap()];
            prop_assert_eq!(led_to(leaf, at, count, &proof), Some(frontier.root()));
            prop_assert_ne!(led_to(leaf_hash(b"another"), at, count, &proof), Some(frontier.root()));
            if at + 1 < count {
                prop_assert_ne!(led_to(leaf, at + 1, count, &proof), Some(frontier.root()));
            }
            prop_assert_eq!(led_to(leaf, count, count, &proof), None);
        }
    }
}

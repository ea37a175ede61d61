//! Dice: chance, from a seed. The same seed falls the same way.

use std::sync::{Arc, Mutex};

/// Chance, from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(Arc<Mutex<u64>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)))
    }

    /// One of `sides`.
    pub(crate) fn roll(&self, sides: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub(crate) fn pick<'a, T>(&self, among: &'a [T]) -> Option<&'a T> {
        if among.is_empty() {
            return None;
        }
        among.get(usize::try_from(self.roll(among.len() as u64)).unwrap())
    }
}

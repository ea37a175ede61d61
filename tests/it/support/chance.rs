//! Chance that comes back: the same seed, the same round.

/// `SplitMix64`, from its seed.
#[derive(Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(most.max(1)).unwrap()).unwrap()
    }

    pub(crate) fn holds(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let place = self.below(of.len());
        of.get(place)
    }
}

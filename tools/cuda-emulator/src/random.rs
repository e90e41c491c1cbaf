//! Random numbers for schedules: quick, and the same for the same seed.

use std::cell::Cell;

/// A generator (xorshift64*).
pub(crate) struct Random(Cell<u64>);

impl Random {
    /// A generator from several seeds, which may be small and similar.
    pub(crate) fn new(seeds: &[u64]) -> Self {
        let random = Self(Cell::new(0));
        random.seed(seeds);
        random
    }

    /// Begins anew.
    pub(crate) fn seed(&self, seeds: &[u64]) {
        // SplitMix64's finalizer, after each.
        let mixed = seeds.iter().fold(0x9e37_79b9_7f4a_7c15u64, |state, &seed| {
            let z = state.wrapping_add(seed).wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        self.0.set(mixed | 1);
    }

    /// 32 random bits.
    pub(crate) fn bits(&self) -> u32 {
        let mut x = self.0.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.set(x);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number below `n`, which is above 0.
    pub(crate) fn below(&self, n: usize) -> usize {
        ((u64::from(self.bits()) * n as u64) >> 32) as usize
    }

    /// Puts things into a random order.
    pub(crate) fn shuffle<T>(&self, things: &mut [T]) {
        for i in (1..things.len()).rev() {
            things.swap(i, self.below(i + 1));
        }
    }
}

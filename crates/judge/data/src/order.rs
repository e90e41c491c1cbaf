//! The order in which rows are drawn.

use std::num::NonZeroUsize;

use isentrope_random::{Draws, Purpose};

/// The order of rows: each comes once per epoch, and each epoch has its own order. The row at a
/// position depends on nothing else; positions count on over epochs from 0.
#[derive(Clone, Debug)]
pub struct Order {
    rows: NonZeroUsize,
    seed: u64,
    shuffle: bool,
    /// The latest epoch and its order.
    current: Option<(u64, Vec<usize>)>,
}

impl Order {
    /// Orders `rows` rows; without `shuffle` each epoch goes from the first to the last.
    pub fn new(rows: NonZeroUsize, seed: u64, shuffle: bool) -> Self {
        Self { rows, seed, shuffle, current: None }
    }

    /// This order with another number of rows.
    pub fn of_rows(&self, rows: NonZeroUsize) -> Self {
        Self::new(rows, self.seed, self.shuffle)
    }

    /// The row at a position.
    pub fn index(&mut self, position: u64) -> usize {
        let rows = self.rows.get() as u64;
        let (epoch, place) = (position / rows, (position % rows) as usize);
        if !self.shuffle {
            return place;
        }
        match &self.current {
            Some((current, order)) if *current == epoch => order[place],
            _ => {
                let order =
                    Draws::of(self.seed, Purpose::Shuffle, epoch, 0).permutation(self.rows.get());
                let index = order[place];
                self.current = Some((epoch, order));
                index
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_epoch_has_every_row_once_and_resuming_changes_nothing(
            rows in 1usize..60,
            seed in any::<u64>(),
            shuffle in any::<bool>(),
            resume in 0u64..150,
        ) {
            let rows = NonZeroUsize::new(rows).unwrap();
            let n = rows.get() as u64;
            let mut order = Order::new(rows, seed, shuffle);
            let drawn: Vec<usize> = (0..3 * n).map(|position| order.index(position)).collect();
            for epoch in drawn.chunks(rows.get()) {
                let mut sorted = epoch.to_vec();
                sorted.sort_unstable();
                prop_assert!(sorted.iter().copied().eq(0..rows.get()));
            }
            let resume = resume.min(3 * n);
            let mut resumed = Order::new(rows, seed, shuffle);
            let rest: Vec<usize> = (resume..3 * n).map(|position| resumed.index(position)).collect();
            prop_assert_eq!(&rest, &drawn[resume as usize..]);
            prop_assert!(order.index(u64::MAX) < rows.get());
        }
    }

    #[test]
    fn seeds_and_epochs_have_their_own_orders() {
        let draw = |seed, shuffle, from: u64| {
            let mut order = Order::new(NonZeroUsize::new(50).unwrap(), seed, shuffle);
            (from..from + 50).map(|position| order.index(position)).collect::<Vec<_>>()
        };
        assert_ne!(draw(1, true, 0), draw(2, true, 0));
        assert_ne!(draw(1, true, 0), draw(1, true, 50));
        assert!(draw(1, false, 50).into_iter().eq(0..50));
    }
}

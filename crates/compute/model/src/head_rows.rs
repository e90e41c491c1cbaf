//! The order of a head's rows on a device, where only its first features are turned by positions.

use std::ops::Range;

/// Heads of `dim` features, of which files have those that turn first. A device turns pairs
/// `(i, i + dim / 2)`, so there it is the first features of each half. Scores are sums over
/// features, and do not depend on their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRows {
    /// The rows with heads are the first ones of a matrix; others keep their places.
    pub rows: usize,
    /// Features of a head.
    pub dim: usize,
    /// The features that turn, an even number.
    pub turned: usize,
}

impl HeadRows {
    /// Splits rows of a file into parts that stay together: each with its first row on the device.
    pub fn parts(self, rows: Range<usize>) -> impl Iterator<Item = (Range<usize>, usize)> {
        let mut first = rows.start;
        std::iter::from_fn(move || {
            if first >= rows.end {
                return None;
            }
            let (end, place) = self.part(first);
            let part = first..end.min(rows.end);
            first = part.end;
            Some((part, place))
        })
    }

    /// The end of the part that a row of the file is in, and the row's place on the device.
    fn part(self, row: usize) -> (usize, usize) {
        if row >= self.rows {
            return (usize::MAX, row);
        }
        let (head, feature) = (row / self.dim * self.dim, row % self.dim);
        let (half, turned) = (self.dim / 2, self.turned / 2);
        // The bounds of four parts in a file, and the first row of each on the device.
        let bounds = [turned, 2 * turned, turned + half, self.dim];
        let places = [0, half, turned, half + turned];
        let part = bounds.iter().filter(|bound| feature >= **bound).count();
        let start = if part == 0 { 0 } else { bounds[part - 1] };
        (head + bounds[part], head + places[part] + feature - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_turn_together_are_half_a_head_apart() {
        // Two heads of 8 features, of which 6 turn, and a row behind them.
        let heads = HeadRows { rows: 16, dim: 8, turned: 6 };
        let of_head = [0, 1, 2, 4, 5, 6, 3, 7];
        let expected: Vec<usize> =
            of_head.iter().copied().chain(of_head.map(|row| 8 + row)).chain([16, 17]).collect();
        for (start, end) in [(0, 18), (0, 1), (2, 11), (5, 18), (17, 18), (4, 4)] {
            let mut places = Vec::new();
            for (part, place) in heads.parts(start..end) {
                assert_eq!(part.start, start + places.len());
                places.extend(place..place + part.len());
            }
            assert_eq!(places, expected[start..end]);
        }
    }
}

//! The order of a head's rows on a device, where only its first features are turned by positions.

use std::ops::Range;

/// Queries, keys and values in heads of `dim` features. Of a query or key, files have those that
/// turn first. A device turns pairs `(i, i + dim / 2)`, so there it is the first features of each
/// half. Scores are sums over features, and do not depend on their order. Where gates follow
/// attention, a file has each query head's gates behind it; a device has all behind the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRows {
    /// Query heads; the first rows of a matrix have them.
    pub heads: usize,
    /// Key heads, whose rows are the next ones, and value heads, whose rows follow.
    pub kv_heads: usize,
    /// Features of a head.
    pub dim: usize,
    /// The features that turn, an even number.
    pub turned: usize,
    /// Whether each query head has gates.
    pub is_gated: bool,
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
        let Self { heads, kv_heads, dim, is_gated, .. } = self;
        // Rows of the file for each query head, and all of them.
        let of_head = if is_gated { 2 * dim } else { dim };
        let queries = heads * of_head;
        if row >= queries {
            let first = heads * dim; // of keys on the device
            let (key, moved) = (row - queries, queries - first);
            return match key < kv_heads * dim {
                true => self.turned_part(key, queries, first),
                false if is_gated => (queries + 2 * kv_heads * dim, row - moved),
                false => (usize::MAX, row),
            };
        }
        let (head, feature) = (row / of_head, row % of_head);
        if feature < dim {
            return self.turned_part(head * dim + feature, head * (of_head - dim), 0);
        }
        let gates = (heads + 2 * kv_heads) * dim;
        ((head + 1) * of_head, gates + head * dim + feature - dim)
    }

    /// The part of a row among consecutive heads: its end, to which `file` is added, and its place,
    /// to which `device` is.
    fn turned_part(self, row: usize, file: usize, device: usize) -> (usize, usize) {
        let (head, feature) = (row / self.dim * self.dim, row % self.dim);
        let (half, turned) = (self.dim / 2, self.turned / 2);
        // The bounds of four parts in a file, and the first row of each on the device.
        let bounds = [turned, 2 * turned, turned + half, self.dim];
        let places = [0, half, turned, half + turned];
        let part = bounds.iter().filter(|bound| feature >= **bound).count();
        let start = if part == 0 { 0 } else { bounds[part - 1] };
        (file + head + bounds[part], device + head + places[part] + feature - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_turn_together_are_half_a_head_apart() {
        // Two heads of 8 features, of which 6 turn, and a row behind them.
        let heads = HeadRows { heads: 1, kv_heads: 1, dim: 8, turned: 6, is_gated: false };
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

    #[test]
    fn gates_stand_behind_the_values() {
        // Two query heads and one of keys and values, of 4 features, of which 2 turn.
        let heads = HeadRows { heads: 2, kv_heads: 1, dim: 4, turned: 2, is_gated: true };
        let [q0, g0, q1, g1, k, v] = [
            [0, 2, 1, 3],
            [16, 17, 18, 19],
            [4, 6, 5, 7],
            [20, 21, 22, 23],
            [8, 10, 9, 11],
            [12, 13, 14, 15],
        ];
        let expected = [q0, g0, q1, g1, k, v].concat();
        for (start, end) in [(0, 24), (3, 6), (7, 17), (19, 24)] {
            let places: Vec<usize> = heads
                .parts(start..end)
                .flat_map(|(part, place)| place..place + part.len())
                .collect();
            assert_eq!(places, expected[start..end]);
        }
    }
}

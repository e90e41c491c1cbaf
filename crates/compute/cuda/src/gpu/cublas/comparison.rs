//! Comparison of a product with chains: its operands, and the outputs that are compared.

use super::chain::chain;
use crate::device::Product;
use half::bf16;
use std::collections::BTreeSet;

/// Length of the random pattern that compared matrices repeat. It is a prime, so that no two rows
/// are alike.
const PATTERN: usize = 131_071;
/// The number of compared columns that are spread over all columns. It is a prime, so that they
/// have different positions in their tiles.
const SPREAD: usize = 61;
/// Tiles end at multiples of this, up to the largest tile's size.
const END: usize = 64;
const LARGEST_TILE: usize = 256;
/// The number of columns compared on each side of a tile's end, and half the number of last columns
/// compared.
const AROUND: usize = 4;

/// Random numbers between -2 and 2 of many magnitudes, as bfloat16; none is zero.
pub(super) fn pattern() -> Vec<u16> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut number = || {
        let random = random();
        let exponent = 127 - (random >> 16 & 7).min(random >> 24 & 7);
        (random >> 32 & 1) << 15 | exponent << 7 | random >> 40 & 127
    };
    (0..PATTERN).map(|_| number() as u16).collect()
}

/// The first, a middle and the last row.
fn compared_rows(rows: usize) -> BTreeSet<usize> {
    BTreeSet::from([0, rows / 2, rows - 1])
}

/// Columns spread over a row, columns on both sides of tiles' ends, and the last ones.
fn compared_columns(columns: usize) -> BTreeSet<usize> {
    let spread = (0..SPREAD).map(|i| i * columns / SPREAD);
    let around = (END..=LARGEST_TILE).step_by(END).flat_map(|end| end - AROUND..end + AROUND);
    let last = columns.saturating_sub(2 * AROUND)..columns;
    spread.chain(around).chain(last).filter(|&column| column < columns).collect()
}

/// The first element of a product that differs from its chain, for matrices that repeat the
/// pattern. `read` returns a row of the result.
pub(super) fn difference(
    shape: &Product,
    pattern: &[u16],
    mut read: impl FnMut(usize, &mut [u8]),
) -> Option<String> {
    let Product { rows, columns, depth, .. } = *shape;
    let size = if shape.d_exact { 4 } else { 2 };
    let number = |place: usize| pattern[place % pattern.len()];
    let operand = |transposed, line: usize, lines: usize| -> Vec<u16> {
        let at = |term| if transposed { term * lines + line } else { line * depth + term };
        (0..depth).map(|term| number(at(term))).collect()
    };
    let of_columns: Vec<(usize, Vec<u16>)> = compared_columns(columns)
        .into_iter()
        .map(|column| (column, operand(shape.b_transposed, column, columns)))
        .collect();
    let mut line = vec![0; columns * size];
    for row in compared_rows(rows) {
        read(row, &mut line);
        let of_row = operand(shape.a_transposed, row, rows);
        for (column, of_column) in &of_columns {
            let sum = chain(0.0, &of_row, of_column);
            let bytes = &line[column * size..][..size];
            let (is, should) = match shape.d_exact {
                true => {
                    (u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), sum.to_bits())
                }
                false => (
                    u16::from_le_bytes([bytes[0], bytes[1]]).into(),
                    bf16::from_f32(sum).to_bits().into(),
                ),
            };
            if is != should {
                return Some(format!(
                    "of a product of {rows} x {depth} x {columns}, the result in row {row}, \
                     column {column} is {is:#x} and a \
                     chain gives {should:#x}"
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_cuda_emulator::TensorCore;

    fn shape(transposed: [bool; 2], d_exact: bool) -> Product {
        let [a_transposed, b_transposed] = transposed;
        let (rows, columns, depth) = (70, 300, 37);
        Product { a_transposed, b_transposed, d_exact, rows, columns, depth, ..Product::default() }
    }

    /// A library's product, by the emulator's tensor core; `is_split` names outputs that are summed
    /// in two parts.
    fn said(shape: &Product, is_split: impl Fn(usize, usize) -> bool) -> Option<String> {
        let Product { rows, columns, depth, .. } = *shape;
        let numbers = pattern();
        let stored = |transposed, line: usize, lines: usize, term: usize| {
            numbers[if transposed { term * lines + line } else { line * depth + term }]
        };
        let result = |row: usize, column: usize| {
            let a: Vec<u16> =
                (0..depth).map(|term| stored(shape.a_transposed, row, rows, term)).collect();
            let b: Vec<u16> =
                (0..depth).map(|term| stored(shape.b_transposed, column, columns, term)).collect();
            let core = TensorCore::Hopper;
            if is_split(row, column) {
                core.chain(0.0, &a[..16], &b[..16]) + core.chain(0.0, &a[16..], &b[16..])
            } else {
                core.chain(0.0, &a, &b)
            }
        };
        difference(shape, &numbers, |row, line| {
            for column in 0..columns {
                let sum = result(row, column);
                match shape.d_exact {
                    true => line[4 * column..][..4].copy_from_slice(&sum.to_le_bytes()),
                    false => {
                        line[2 * column..][..2].copy_from_slice(&bf16::from_f32(sum).to_le_bytes());
                    }
                }
            }
        })
    }

    #[test]
    fn chains_are_the_same_however_matrices_lie() {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            for d_exact in [false, true] {
                assert_eq!(said(&shape(transposed, d_exact), |_, _| false), None);
            }
        }
    }

    /// A part of a result has other bits. However a library cuts its tiles, some of the compared
    /// elements are in each.
    #[test]
    fn parts_with_other_bits_are_found() {
        let shape = shape([false, true], true);
        type Part = fn(usize, usize) -> bool;
        let parts: [(&str, Part); 6] = [
            ("all", |_, _| true),
            ("rows of a middle tile", |row, _| (32..64).contains(&row)),
            ("rows of the last tile", |row, _| row >= 64),
            ("columns of the last tile of 256", |_, column| column >= 256),
            ("columns before the end of a tile of 64", |_, column| column % 64 >= 60),
            ("a column of each 16", |_, column| column % 16 == 5),
        ];
        for (what, part) in parts {
            let said = said(&shape, part).unwrap_or_else(|| panic!("{what} may be wrong"));
            assert!(said.contains("of a product of 70 x 37 x 300"), "{what}: {said}");
        }
    }

    #[test]
    fn places_are_within_a_product_of_any_size() {
        for columns in [1, 5, 64, 65, 256, 257, 4096, 151_936] {
            let compared = compared_columns(columns);
            assert!(compared.contains(&0) && compared.last() == Some(&(columns - 1)), "{columns}");
            assert!(compared.len() <= SPREAD + 40);
            // The compared columns include every position in a quarter of a fragment.
            if columns >= 256 {
                assert_eq!(
                    compared.iter().map(|column| column % 8).collect::<BTreeSet<_>>().len(),
                    8
                );
            }
        }
        assert_eq!(compared_rows(1), BTreeSet::from([0]));
        assert_eq!(compared_rows(4096), BTreeSet::from([0, 2048, 4095]));
    }
}

//! Rounds numbers up so that few different ones occur, and steps of similar size are alike.

/// Rounds up a number of rows, tiles or partial results: not at all up to 8, by less than a quarter
/// beyond.
pub(crate) fn rounded_up(n: usize) -> usize {
    if n <= 8 { n } else { n.next_multiple_of(n.next_power_of_two() / 8) }
}

#[cfg(test)]
mod tests {
    use super::rounded_up;

    #[test]
    fn few_numbers_are_left_and_none_is_much_larger() {
        let rounded: Vec<usize> = (0..=1024).map(rounded_up).collect();
        assert!(rounded.iter().enumerate().all(|(n, &up)| up >= n && (4 * up <= 5 * n || up == n)));
        let mut distinct = rounded.clone();
        distinct.dedup();
        assert_eq!(distinct.len(), 9 + 7 * 4, "{distinct:?}");
        assert_eq!([9, 17, 129, 256].map(rounded_up), [10, 20, 160, 256]);
    }
}

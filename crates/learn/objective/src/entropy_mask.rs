//! The tokens of highest entropy (arXiv:2506.01939).

/// The metric that says which share of the tokens it left out.
pub(crate) const METRIC: &str = "method/entropy_mask";

/// The weights of tokens in the policy loss, `[tokens]`: 1 for the given fraction of highest
/// entropy, 0 for the others.
pub(crate) fn weights(entropies: &[f64], fraction: f64) -> Vec<f64> {
    highest(entropies, fraction).into_iter().map(|kept| if kept { 1.0 } else { 0.0 }).collect()
}

/// Whether each token is among the given fraction of highest entropy, `[tokens]`: at or above the
/// (1 - fraction) quantile, so ties at the threshold are all kept, as by TRL's
/// `top_entropy_quantile`.
fn highest(entropies: &[f64], fraction: f64) -> Vec<bool> {
    if entropies.is_empty() {
        return Vec::new();
    }
    // The quantile lies between two neighbours in order; the values at or above it start at the
    // upper one.
    let below_top = (fraction * (entropies.len() - 1) as f64) as usize;
    let mut sorted = entropies.to_vec();
    let (_, &mut threshold, _) = sorted.select_nth_unstable_by(below_top, |a, b| b.total_cmp(a));
    entropies.iter().map(|&h| h >= threshold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn kept_tokens_are_at_or_above_the_interpolated_quantile(
            entropies in prop::collection::vec((0i32..30).prop_map(|h| f64::from(h) / 8.0), 1..50),
            // Sixteenths make the quantile's position exact.
            sixteenths in 1u32..=16,
        ) {
            let fraction = f64::from(sixteenths) / 16.0;
            let mut sorted = entropies.clone();
            sorted.sort_by(f64::total_cmp);
            let position = (1.0 - fraction) * (sorted.len() - 1) as f64;
            let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
            let quantile = low + (high - low) * position.fract();
            let expected: Vec<bool> = entropies.iter().map(|&h| h >= quantile).collect();
            prop_assert_eq!(highest(&entropies, fraction), expected);
        }
    }

    #[test]
    fn everything_is_kept_at_one_and_ties_stay_together() {
        assert_eq!(highest(&[0.1, 0.4, 0.0], 1.0), [true; 3]);
        assert_eq!(highest(&[0.4, 0.1, 0.4, 0.2], 0.01), [true, false, true, false]);
        assert!(highest(&[], 0.2).is_empty());
    }
}

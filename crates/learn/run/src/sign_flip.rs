//! The sign-flip permutation test of paired differences: if two policies were alike, each
//! difference could as well have the other sign.

/// Every assignment of signs is tried up to this many differences.
const EXACT_UP_TO: usize = 20;

/// A difference that is a smaller share of its numbers is rounding.
const ROUNDING: f64 = 1e-12;

/// `new` less `old`; 0 if the two differ by rounding alone, as after additions in another order.
pub fn difference(old: f64, new: f64) -> f64 {
    let difference = new - old;
    if difference.abs() > ROUNDING * (old.abs() + new.abs()) { difference } else { 0.0 }
}

/// Differences, and the distance of their sum from 0.
pub struct SignFlip<'a> {
    differences: &'a [f64],
    least: f64,
}

impl<'a> SignFlip<'a> {
    /// The test of these differences.
    pub fn of(differences: &'a [f64]) -> Self {
        let found = differences.iter().sum::<f64>().abs();
        // Sums in another order may differ in their last bits, so the bound is a little lower.
        let least = found - 1e-9 * differences.iter().map(|d| d.abs()).sum::<f64>();
        Self { differences, least }
    }

    /// Whether the sum is at least as far from 0 with some signs turned.
    pub fn is_as_far(&self, is_turned: impl Fn(usize) -> bool) -> bool {
        let turned = self.differences.iter().enumerate();
        let sum: f64 = turned.map(|(i, d)| if is_turned(i) { -d } else { *d }).sum();
        sum.abs() >= self.least
    }

    /// The two-sided p-value: the share of all assignments of signs whose sum is at least as far
    /// from 0 as the given one. None of more than 20 differences.
    pub fn exact(&self) -> Option<f64> {
        let all =
            (self.differences.len() <= EXACT_UP_TO).then(|| 1u32 << self.differences.len())?;
        let far = (0..all).filter(|signs| self.is_as_far(|i| signs >> i & 1 == 1)).count();
        Some(far as f64 / f64::from(all))
    }
}

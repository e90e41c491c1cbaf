//! Computes an axis's bounds and round ticks from numbers.

use crate::number::unsigned_zero;

/// Numbers beyond this limit are drawn at it.
const LARGEST: f64 = 1e300;
/// A range below this counts as a single number.
const SMALLEST: f64 = 1e-300;
/// A range that is a smaller share of the numbers is rounding.
const RESOLUTION: f64 = 1e-12;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    /// Places of ticks and their labels, ascending.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// The axis that finite numbers need, with `most` ticks or fewer; none without numbers. Whole
    /// numbers have no ticks between them.
    pub(super) fn of(values: impl Iterator<Item = f64>, most: usize) -> Option<Self> {
        let (mut low, mut high, mut whole) = (f64::INFINITY, f64::NEG_INFINITY, true);
        for value in values.map(|v| v.clamp(-LARGEST, LARGEST)) {
            (low, high) = (low.min(value), high.max(value));
            whole &= value.fract() == 0.0;
        }
        if low > high {
            return None;
        }
        let largest = low.abs().max(high.abs());
        if high - low <= (largest * RESOLUTION).max(SMALLEST) {
            // One number, in the middle.
            let apart = if largest > SMALLEST { largest * 0.1 } else { 1.0 };
            return Some(Self {
                low: low - apart,
                high: high + apart,
                ticks: vec![(low, exact(low))],
            });
        }
        let ticks = round_ticks(low, high, most.max(2), whole);
        let ticks = if ticks.len() >= 2 { ticks } else { ends(low, high) };
        Some(Self { low, high, ticks })
    }

    /// The place of a number on the axis, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        (value - self.low) / (self.high - self.low)
    }
}

/// Multiples of 1, 2 or 5 times a power of ten, as many as fit.
fn round_ticks(low: f64, high: f64, most: usize, whole: bool) -> Vec<(f64, String)> {
    let rough = (high - low) / most as f64;
    let exponent = libm::floor(libm::log10(rough)) as i32;
    let steps = (exponent..=exponent + 1).flat_map(|e| [(1, e), (2, e), (5, e)]);
    for (digit, exponent) in steps.filter(|(_, exponent)| !whole || *exponent >= 0) {
        // Dividing by a power of ten is exact; multiplying by its inverse is not.
        let multiple = |count: f64| match exponent {
            0.. => count * f64::from(digit) * power(exponent),
            _ => count * f64::from(digit) / power(-exponent),
        };
        let step = multiple(1.0);
        let slack = (high - low) * 1e-9;
        let (first, last) = (libm::ceil((low - slack) / step), libm::floor((high + slack) / step));
        let count = last - first + 1.0;
        if step > 0.0 && count >= 0.0 && count <= most as f64 {
            let largest = low.abs().max(high.abs());
            return (0..count as u32)
                .map(|i| multiple(first + f64::from(i)))
                .map(|value| (value, shown(value, largest, exponent)))
                .collect();
        }
    }
    Vec::new()
}

/// Ticks at the least and the largest number, with as many digits as distinguish them.
fn ends(low: f64, high: f64) -> Vec<(f64, String)> {
    let exponent = libm::floor(libm::log10(high - low)) as i32 - 1;
    let largest = low.abs().max(high.abs());
    [low, high].map(|value| (value, shown(value, largest, exponent))).into()
}

/// A number with digits down to a power of ten, beside others that are at most `largest`.
fn shown(value: f64, largest: f64, exponent: i32) -> String {
    let text = if value == 0.0 {
        "0".to_owned()
    } else if largest >= 1e6 || exponent < -5 {
        let digits =
            (libm::floor(libm::log10(value.abs())) as i32 - exponent).clamp(0, 15) as usize;
        format!("{value:.digits$e}")
    } else {
        let digits = (-exponent).max(0) as usize;
        format!("{value:.digits$}")
    };
    unsigned_zero(text)
}

/// A number that stands alone.
fn exact(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if !(1e-4..1e6).contains(&v) => format!("{value:.3e}"),
        v => {
            let digits = (3 - libm::floor(libm::log10(v)) as i32).max(4) as usize;
            let text = format!("{value:.digits$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// 10 to a power from 0.
fn power(exponent: i32) -> f64 {
    libm::pow(10.0, f64::from(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(values: &[f64], most: usize) -> Vec<String> {
        let axis = Axis::of(values.iter().copied(), most).unwrap();
        axis.ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_constants_stand_in_the_middle() {
        for (values, most, shown) in [
            (&[0.0, 300.0][..], 5, &["0", "100", "200", "300"][..]),
            (&[1.0, 30.0], 4, &["10", "20", "30"]),
            (&[0.0, 2.0], 6, &["0", "1", "2"]),
            (&[0.093_75, 0.156_25], 4, &["0.10", "0.12", "0.14"]),
            (&[-1.0, 1.5], 6, &["-1.0", "-0.5", "0", "0.5", "1.0", "1.5"]),
            (&[1e-9, 9e-9], 5, &["2e-9", "4e-9", "6e-9", "8e-9"]),
            (&[0.0, 3e12], 4, &["0", "1e12", "2e12", "3e12"]),
            (&[0.0, 10_000.0], 6, &["0", "2000", "4000", "6000", "8000", "10000"]),
            (&[0.0], 5, &["0"]),
            (&[2.0, 2.0], 5, &["2"]),
            (&[0.1, 0.1 + 1e-17], 5, &["0.1"]),
            (&[3.25e-9], 5, &["3.250e-9"]),
            (&[0.11, 0.19], 2, &["0.110", "0.190"]),
            (&[f64::MAX, -f64::MAX], 3, &["-1e300", "0", "1e300"]),
        ] {
            assert_eq!(labels(values, most), shown, "{values:?}");
        }
        let constant = Axis::of([0.0].into_iter(), 4).unwrap();
        assert_eq!((constant.low, constant.high, constant.place(0.0)), (-1.0, 1.0, 0.5));
        assert_eq!(Axis::of(std::iter::empty(), 4), None);
    }

    proptest! {
        #[test]
        fn ticks_lie_on_the_axis_apart_and_say_where_they_are(
            a in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
            b in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
            near in 0u32..3,
            most in 1usize..10,
        ) {
            let b = if near == 0 { a * (1.0 + f64::from(b as f32) % 0.5) } else { b };
            let b = if b.is_finite() { b } else { a };
            let axis = Axis::of([a, b].into_iter(), most).unwrap();
            prop_assert!(axis.low < axis.high);
            prop_assert!(!axis.ticks.is_empty() && axis.ticks.len() <= most.max(2));
            for value in [a, b] {
                prop_assert!((0.0..=1.0).contains(&axis.place(value)));
            }
            for pair in axis.ticks.windows(2) {
                prop_assert!(pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1, "{:?}", axis);
            }
            for (value, text) in &axis.ticks {
                let read: f64 = text.parse().unwrap();
                let slack = 0.1 * (axis.high - axis.low) + value.abs() * 1e-3;
                prop_assert!((read - value).abs() <= slack, "{:?}", axis);
                prop_assert!(text.len() <= 24, "{}", text);
            }
        }
    }
}

//! Data without a pattern, and comparisons.

use isentrope_kernels::SamplingMasks;
use proptest::test_runner::Config;
use std::ops::Range;

/// Marks memory that an operation has no business with: arithmetic on it shows, and so does
/// overwriting it. A NaN, whose bits outlive being kept as bf16.
pub const POISON: f32 = f32::from_bits(0x7fd5_0000);

pub fn is_poison(x: f32) -> bool {
    x.to_bits() == POISON.to_bits()
}

/// The number of random cases of a property. Failing cases are reported, and saved nowhere.
pub fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

/// Evenly distributed numbers in [0, 1), the same for the same seed (SplitMix64).
pub fn uniform(seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32
    })
}

/// Evenly distributed numbers in [-1.5, 1.5).
pub fn noise(seed: u64, len: usize) -> Vec<f32> {
    let seed = seed.wrapping_mul(0xd134_2543_de82_ef95);
    uniform(seed).map(|x| (x - 0.5) * 3.0).take(len).collect()
}

/// Whole numbers below `bound`.
pub fn indices(seed: u64, len: usize, bound: usize) -> Vec<u32> {
    noise(seed, len)
        .into_iter()
        .map(|x| ((x / 3.0 + 0.5) * bound as f32) as u32 % bound as u32)
        .collect()
}

/// Tokens that sampling could have drawn in the place of each target, its own among them: for one
/// target in four all of the vocabulary, for others few or many.
pub fn masks(targets: &[u32], vocabulary: usize) -> SamplingMasks {
    let mut masks = SamplingMasks::default();
    for &target in targets {
        let kept =
            |&token: &u32| token == target || (token.wrapping_mul(7) ^ target) % 8 < target % 4 * 2;
        let kept: Vec<u32> = if target % 4 == 0 {
            Vec::new()
        } else {
            (0..vocabulary as u32).filter(kept).collect()
        };
        masks.push(&kept);
    }
    masks
}

pub fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Equal bit for bit.
#[track_caller]
pub fn assert_bits(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    if let Some(i) = (0..got.len()).find(|&i| got[i].to_bits() != want[i].to_bits()) {
        panic!("{what}: {:?} instead of {:?} at {i} of {}", got[i], want[i], got.len());
    }
}

/// Within `tolerance` of the larger of the value itself and the root mean square of all values:
/// rounding a sum of terms as large as the other values explains no more.
#[track_caller]
pub fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    let rms = (want.iter().map(|x| x * x).sum::<f64>() / want.len().max(1) as f64).sqrt();
    assert_close_to(what, got, want, rms, tolerance);
}

/// Within `tolerance` of the larger of the value itself and `size`.
#[track_caller]
pub fn assert_close_to(what: &str, got: &[f32], want: &[f64], size: f64, tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(g) - w).abs() / w.abs().max(size).max(f64::from(f32::MIN_POSITIVE));
        assert!(
            error <= tolerance,
            "{what}: {g} instead of {w} at {i} of {} (error {error:.1e})",
            got.len()
        );
    }
}

/// Ranges that end at `cuts` (in any order, repeats allowed) and at `len`, and cover `0..len`.
pub fn pieces(len: usize, cuts: &[usize]) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = cuts.iter().map(|&c| c.min(len)).chain([len]).collect();
    ends.sort_unstable();
    let starts = [0].into_iter().chain(ends.clone());
    starts.zip(ends.clone()).map(|(start, end)| start..end).collect()
}

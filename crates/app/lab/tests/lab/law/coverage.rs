//! The intervals cover the truth of planted runs as often as they say.

use super::planted::{A, B, lawful};
use isentrope_lab::law::Fit;
use std::thread;

const RUNS: u64 = 1000;

/// How many of [`RUNS`] runs have a, b and the ceiling within their intervals.
fn covered(n: usize, decay: f64, correlation: f64) -> [u32; 3] {
    let mut covered = [0; 3];
    for seed in 0..RUNS {
        let points = lawful(seed, n, decay, correlation, 0.015);
        let fit = Fit::of(&[&points], 1).unwrap();
        for (count, (interval, truth)) in
            covered.iter_mut().zip([(fit.a, A), (fit.b, B), (fit.ceiling, B - A)])
        {
            *count += u32::from(interval.low <= truth && truth <= interval.high);
        }
    }
    covered
}

/// docs/concepts/entropy.md has these numbers.
#[test]
#[ignore = "deep: 8000 bootstraps"]
fn intervals_cover_the_planted_law_in_95_of_100_runs() {
    // Points, how fast the entropy is spent (8: nearly all of it at once; 1: evenly), correlation
    // of the noise.
    let cases = [
        (12, 8.0, 0.3),
        (12, 1.0, 0.3),
        (12, 8.0, 0.6),
        (60, 4.0, 0.3),
        (12, 1.0, 0.6),
        (25, 4.0, 0.3),
        (25, 4.0, 0.6),
        (60, 4.0, 0.6),
    ];
    let (first, second) = cases.split_at(cases.len() / 2);
    let all = |cases: &[(usize, f64, f64)]| -> Vec<_> {
        cases
            .iter()
            .map(|&(n, decay, correlation)| {
                ((n, decay, correlation), covered(n, decay, correlation))
            })
            .collect()
    };
    let counts = thread::scope(|scope| {
        let other = scope.spawn(|| all(second));
        let mut counts = all(first);
        counts.extend(other.join().unwrap());
        counts
    });
    for (case, counts) in counts {
        assert!(counts.iter().all(|count| (920..=980).contains(count)), "{case:?}: {counts:?}");
    }
}

/// The table of docs/concepts/entropy.md. Takes a minute: `cargo test --workspace --test lab --
/// --ignored --nocapture coverage`.
#[test]
#[ignore = "deep: prints the tables of docs/concepts/entropy.md"]
fn coverage_at_other_lengths_and_correlations() {
    for n in [8, 12, 25, 60] {
        for correlation in [0.0, 0.3, 0.6, 0.8] {
            for decay in [8.0, 1.0] {
                let counts = covered(n, decay, correlation);
                println!("{n:3} points, decay {decay}, correlation {correlation}: {counts:?}");
                assert!(counts.iter().all(|count| (880..=995).contains(count)));
            }
        }
    }
}

//! The intervals cover the truth of planted runs as often as they say.

use super::planted::{A, B, lawful, noise};
use isentrope_lab::law::{Fit, Point, Study};
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

/// In how many of [`RUNS`] sets of runs the law is said to differ, if b differs by this standard
/// deviation from run to run.
fn distinct_names(runs: u64, n: usize, correlation: f64, spread: f64) -> usize {
    let is_told = |set: u64| {
        let run = |i: u64| {
            let lift = spread * noise(set * runs + i + 1_000_000, 1, 0.0)[0];
            let mut points = lawful(set * runs + i, n, 4.0, correlation, 0.015);
            points.iter_mut().for_each(|point| point.accuracy += lift);
            points
        };
        let runs: Vec<Vec<Point>> = (0..runs).map(run).collect();
        let study = Study::together(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>(), 1);
        study.remarks.iter().any(|said| said.contains("do not have one law"))
    };
    (0..RUNS).filter(|set| is_told(*set)).count()
}

/// Neighbours that are alike must not tell runs apart.
#[test]
#[ignore = "deep: 2000 sets of planted runs"]
fn runs_of_one_law_are_not_told_apart() {
    for (n, correlation) in [(9, 0.6), (15, 0.8)] {
        let told = distinct_names(3, n, correlation, 0.0);
        assert!(told <= 50, "{n} points, correlation {correlation}: {told} of {RUNS}");
    }
}

/// The table of docs/concepts/entropy.md.
#[test]
#[ignore = "deep: prints the tables of docs/concepts/entropy.md"]
fn coverage_of_the_test_of_one_law() {
    for (runs, n) in [(3, 9), (3, 15), (3, 30), (6, 15)] {
        for correlation in [0.0, 0.3, 0.6, 0.8] {
            let [one, apart, far] =
                [0.0, 0.02, 0.04].map(|spread| distinct_names(runs, n, correlation, spread));
            println!(
                "{runs} runs of {n} points, correlation {correlation}: {one}, b apart {apart}, far \
                 {far}"
            );
            assert!(one <= 80);
        }
    }
}

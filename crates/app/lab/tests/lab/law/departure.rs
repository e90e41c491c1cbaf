//! Accuracy that leaves the law: how often it is found, and how often it is said of runs that obey
//! the law.

use super::planted::{falling, lawful, points};
use isentrope_lab::law::{Departure, Point, Study};
use std::thread;

/// The first departure that is found when every evaluation is followed by a search.
fn ever(run: &[Point]) -> Option<Departure> {
    (8..=run.len()).find_map(|n| Departure::of(&run[..n]))
}

/// How many of `runs` planted runs ever have a departure.
fn count(runs: u64, run: impl Fn(u64) -> Vec<Point> + Sync) -> u64 {
    let part = |part: u64| {
        (0..runs).filter(|seed| seed % 2 == part && ever(&run(*seed)).is_some()).count() as u64
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| part(1));
        part(0) + other.join().unwrap()
    })
}

/// A lawful beginning, and accuracies that are higher by a step from then on, where the entropy
/// stays.
fn leap(seed: u64, before: usize, step: f64) -> Vec<Point> {
    let mut entropies = falling(before, 4.0);
    entropies.extend([entropies[before - 1]; 6]);
    let noise = super::planted::noise(seed, before + 6, 0.3);
    points(&entropies, |i, h| {
        0.8 - 0.17 * libm::exp(h) + 0.015 * noise[i] + if i < before { 0.0 } else { step }
    })
}

/// docs/concepts/entropy.md has these numbers, of more runs.
#[test]
#[ignore = "deep: 2000 planted runs, asked after every evaluation"]
fn whole_runs_that_obey_the_law_hardly_ever_raise_an_alarm() {
    for (n, decay, correlation) in
        [(30, 4.0, 0.3), (30, 4.0, 0.6), (30, 1.0, 0.6), (60, 4.0, 0.5), (60, 4.0, 0.6)]
    {
        let alarms = count(400, |seed| lawful(seed, n, decay, correlation, 0.015));
        assert!(
            alarms <= 24,
            "{n} points, decay {decay}, correlation {correlation}: {alarms} of 400"
        );
    }
}

#[test]
#[ignore = "deep: 600 planted runs"]
fn steps_are_found_the_sooner_the_larger() {
    for (before, step, least) in
        [(8, 0.1, 35), (8, 0.2, 80), (8, 0.3, 95), (12, 0.2, 88), (20, 0.1, 70), (20, 0.2, 97)]
    {
        let found = count(100, |seed| leap(seed, before, step));
        assert!(found >= least, "{step} after {before} points: {found} of 100");
    }
}

/// The tables of docs/concepts/entropy.md: `cargo test --workspace --test lab -- --ignored
/// --nocapture alarms`.
#[test]
#[ignore = "deep: prints the tables of docs/concepts/entropy.md"]
fn alarms_at_other_lengths_and_correlations() {
    for (n, decay) in [(15, 4.0), (30, 4.0), (30, 1.0), (60, 4.0)] {
        let counts =
            [0.0, 0.3, 0.5, 0.6, 0.8].map(|c| count(1000, |seed| lawful(seed, n, decay, c, 0.015)));
        println!("{n:3} points, decay {decay}: false alarms {counts:?} of 1000");
    }
    for before in [8, 12, 20] {
        let counts = [0.1, 0.15, 0.2, 0.3].map(|step| count(400, |seed| leap(seed, before, step)));
        println!("{before:3} points, then a step: found {counts:?} of 400");
    }
}

#[test]
fn a_real_course_that_leaps_leaves_its_law() {
    let known = [
        (1.210, 0.205),
        (0.889, 0.372),
        (0.546, 0.513),
        (0.371, 0.564),
        (0.237, 0.577),
        (0.180, 0.577),
        (0.158, 0.590),
        (0.144, 0.615),
    ];
    let with = |rest: &[(f64, f64)]| -> Vec<Point> {
        let all = known.iter().chain(rest).enumerate();
        all.map(|(i, &(entropy, accuracy))| Point { step: 5 * i as u64, entropy, accuracy })
            .collect()
    };
    for rest in [&[(0.15, 0.8); 5][..], &[(0.201, 0.923), (0.2, 1.0)]] {
        let departure = Study::of(with(rest), 1).departure.unwrap();
        // The whole lawful part is the reference.
        assert_eq!((departure.since, departure.fitted_until), (40, 35), "{departure:?}");
        assert!(
            departure.is_above() && (0.55..0.65).contains(&departure.predicted),
            "{departure:?}"
        );
    }
    assert_eq!(Study::of(with(&[]), 1).departure, None);
    // Where nothing looks for a departure, the ceiling is refused for what it is.
    let leapt = with(&[(0.15, 0.8); 5]);
    let study = Study::together(&[&leapt], 1);
    assert!(study.refusals[0].contains("the ceiling may be anything"), "{study:?}");
}

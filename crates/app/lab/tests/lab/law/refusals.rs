//! Planted runs without a law are refused, in words that say why, and runs with one are not.

use super::planted::{A, B, falling, lawful, noise, points};
use isentrope_lab::law::{Point, Study};

const RUNS: u64 = 100;

/// How many of [`RUNS`] planted runs are refused with these words among the reasons; without words,
/// how many are refused.
fn refused(words: &str, run: impl Fn(u64) -> Vec<Point>) -> u64 {
    let says = |study: &Study| study.refusals.iter().any(|reason| reason.contains(words));
    (0..RUNS).filter(|seed| says(&Study::of(run(*seed), 1))).count() as u64
}

/// An accuracy that rises with the steps, whatever the entropy does.
fn rising(i: usize, n: usize) -> f64 {
    0.6 - 0.4 * libm::exp(-3.0 * i as f64 / n as f64)
}

#[test]
fn a_law_is_accepted() {
    for (n, correlation) in [(12, 0.3), (12, 0.6), (25, 0.6), (60, 0.6)] {
        let refused = refused("", |seed| lawful(seed, n, 3.0, correlation, 0.015));
        assert!(
            refused <= 5,
            "{n} points, correlation {correlation}: {refused} of {RUNS} are refused"
        );
    }
    let exact = Study::of(lawful(1, 12, 3.0, 0.3, 0.0), 1);
    let fit = exact.holds().unwrap();
    for (interval, truth) in [(fit.a, A), (fit.b, B), (fit.ceiling, B - A)] {
        assert!(
            (interval.value - truth).abs() < 1e-9 && interval.high - interval.low < 1e-9,
            "{fit:?}"
        );
    }
    assert!(fit.r_squared > 1.0 - 1e-9 && (exact.entropy_spent().unwrap() - 0.83).abs() < 0.05);
}

#[test]
fn an_entropy_that_is_held_is_refused() {
    for (n, size, correlation) in
        [(8, 0.03, 0.0), (8, 0.1, 0.6), (20, 0.001, 0.0), (20, 0.03, 0.6), (60, 0.1, 0.3)]
    {
        let run = |seed| {
            let (held, other) = (noise(seed, n, correlation), noise(seed + 1000, n, 0.3));
            let held: Vec<f64> = held.iter().map(|noise| 0.5 + size * noise).collect();
            points(&held, |i, _| rising(i, n) + 0.015 * other[i])
        };
        let refused = refused("", run);
        assert!(
            refused >= 93,
            "{n} points, noise {size}, correlation {correlation}: {refused} of {RUNS}"
        );
    }
    let still = points(&[0.5; 10], |i, _| rising(i, 10));
    let study = Study::of(still, 1);
    assert!(
        study.holds().is_none() && study.refusals[0].contains("every entropy is 0.5000 nats"),
        "{study:?}"
    );
    let slow: Vec<f64> = (0..10).map(|i| 0.5 - 0.001 * f64::from(i)).collect();
    let study = Study::of(points(&slow, |i, _| rising(i, 10)), 1);
    assert!(
        study.refusals[0].contains("entropy hardly moves, between 0.4910 and 0.5000"),
        "{study:?}"
    );
}

/// However small entropies are, and however little they or accuracies move: where there is no fit
/// there is a reason, and rounding is no law.
#[test]
fn what_hardly_moves_is_refused_with_a_reason() {
    for exponent in -18..=2 {
        let scale = libm::exp10(f64::from(exponent));
        for sign in [1.0, -1.0] {
            let entropies: Vec<f64> = (0..8).map(|i| sign * scale * f64::from(8 - i)).collect();
            let lawful = Study::of(points(&entropies, |_, h| 0.8 - 0.1 * libm::exp(h)), 1);
            let flat = Study::of(points(&falling(8, 2.0), |i, _| 0.5 + scale * 1e-4 * i as f64), 1);
            for study in [&lawful, &flat] {
                assert!(
                    study.fit.is_some() || !study.refusals.is_empty(),
                    "{sign} {scale}: {study:?}"
                );
            }
            // exp(H) must move by a thousandth.
            assert!(exponent >= -4 || lawful.holds().is_none(), "{sign} {scale}: {lawful:?}");
        }
    }
    let zero: Vec<f64> = (0..8).map(|i| -1e-9 * f64::from(i)).collect();
    let study = Study::of(points(&zero, |i, _| rising(i, 8)), 1);
    assert!(
        study.refusals[0].contains("entropy hardly moves, between 0.0000 and 0.0000 nats"),
        "{study:?}"
    );
}

#[test]
fn what_does_not_follow_entropy_is_refused() {
    let n = 20;
    let together = refused("rise and fall together", |seed| {
        let (noise, rise) =
            (noise(seed, n, 0.3), falling(n, 2.0).into_iter().rev().collect::<Vec<_>>());
        points(&rise, |i, _| rising(i, n) + 0.015 * noise[i])
    });
    assert!(together >= 95, "{together}");
    let unrelated = refused("", |seed| {
        let noise = noise(seed, n, 0.5);
        points(&falling(n, 3.0), |i, _| 0.4 + 0.05 * noise[i])
    });
    assert!(unrelated >= 93, "{unrelated}");
    let study = Study::of(points(&falling(n, 3.0), |_, _| 0.25), 1);
    assert!(
        study.fit.is_none() && study.refusals[0].contains("every accuracy is 0.2500"),
        "{study:?}"
    );
}

#[test]
fn a_breakthrough_leaves_the_law() {
    let run = |seed| {
        let mut run = lawful(seed, 14, 4.0, 0.3, 0.01);
        for (i, point) in run.iter_mut().enumerate().skip(9) {
            point.accuracy = (point.accuracy + 0.15 * (i - 8) as f64).min(1.0);
        }
        run
    };
    let left = refused("left the interval of the law, above it since step", run);
    assert!(left >= 95, "{left}");
    let study = Study::of(run(3), 1);
    let departure = study.departure.unwrap();
    assert!(
        departure.is_above() && (45..=55).contains(&departure.since) && departure.predicted < 0.75,
        "{departure:?}"
    );
    // And downwards, as a policy that has come apart does.
    let left = refused("below it", |seed| {
        let mut run = lawful(seed, 14, 4.0, 0.3, 0.01);
        run.iter_mut().skip(9).for_each(|point| point.accuracy *= 0.5);
        run
    });
    assert!(left >= 95, "{left}");
}

#[test]
fn too_little_and_too_much_is_refused() {
    for n in 0..6 {
        let study = Study::of(lawful(1, 6, 3.0, 0.0, 0.01)[..n].to_vec(), 1);
        assert!(
            study.holds().is_none() && study.refusals[0].starts_with("too few points: "),
            "{n}: {study:?}"
        );
        assert!(n > 2 || study.entropy_spent().is_none(), "two entropies may differ by chance");
        assert_eq!(study.metrics().len(), usize::from(n > 0));
    }
    let mut run = lawful(1, 12, 3.0, 0.3, 0.01);
    run[7].accuracy = f64::NAN;
    run[9].entropy = f64::INFINITY;
    run[10].entropy = 800.0; // its exponential is not finite
    let study = Study::of(run, 1);
    assert!(study.refusals[0].starts_with("3 of 12 points are not finite"), "{study:?}");
    assert_eq!(study.points.len(), 9);
}

#[test]
fn ceilings_that_cannot_be_are_said_to_be_so() {
    let high =
        points(&falling(12, 1.0), |i, h| 1.4 - 0.35 * libm::exp(h) + 1e-3 * noise(1, 12, 0.0)[i]);
    let study = Study::of(high, 1);
    assert!(study.holds().is_some() && study.remarks[0].contains("is above 1"), "{study:?}");
    // It bends upwards at the end: not enough to leave the law, enough to end above its ceiling.
    let bent = points(&falling(12, 8.0), |i, h| {
        B - A * libm::exp(h) + if i == 11 { 0.05 } else { 1e-3 * (i % 3) as f64 }
    });
    let study = Study::of(bent, 1);
    assert!(
        study.holds().is_some()
            && study.remarks[0].contains("the highest accuracy that was measured"),
        "{study:?}"
    );
}

#[test]
fn runs_together_have_one_law() {
    let runs: Vec<_> = (0..3).map(|seed| lawful(seed, 12, 3.0, 0.5, 0.01)).collect();
    let slices: Vec<&[Point]> = runs.iter().map(Vec::as_slice).collect();
    let together = Study::together(&slices, 1);
    let (fit, alone) = (together.holds().unwrap(), Study::of(runs[0].clone(), 1).fit.unwrap());
    assert_eq!(together.points.len(), 36);
    assert!(fit.a.low < A && A < fit.a.high, "{fit:?}");
    assert!(fit.a.high - fit.a.low < alone.a.high - alone.a.low, "{fit:?} {alone:?}");
    // Cutting runs up makes other neighbours; one run is what it is alone.
    assert_eq!(Study::together(&slices[..1], 1).fit, Some(alone));
    assert_eq!(Study::of(runs[0].clone(), 1), Study::of(runs[0].clone(), 1));
    assert_ne!(Study::of(runs[0].clone(), 2).fit, Some(alone), "the seed counts");
}

#[test]
fn the_ceilings_of_several_runs_are_said() {
    let lawful: Vec<Vec<Point>> = (0..3).map(|seed| lawful(seed, 12, 3.0, 0.3, 0.01)).collect();
    // Runs of a point or two have no line of their own.
    let ends = |run: &Vec<Point>| vec![run[0], run[11]];
    let few = [lawful[0].clone(), lawful[1].clone(), ends(&lawful[2])];
    let none: Vec<Vec<Point>> = lawful.iter().map(ends).collect();
    for (runs, words) in [
        (&lawful[..], "ceilings of the 3 of 3 that can be fitted alone are 0.6"),
        (&few, "ceilings of the 2 of 3 that can be fitted alone are 0.6"),
        (&none, "none of them can be fitted alone"),
    ] {
        let study = Study::together(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>(), 1);
        let said = study.remarks.last();
        assert!(said.is_some_and(|said| said.contains(words)), "{study:?}");
        // The last point of one run is not what became of the first point of another.
        assert_eq!(study.entropy_spent(), None);
    }
}

#[test]
fn a_ceiling_that_says_nothing_is_no_ceiling() {
    let wide = |size: f64| {
        let noise = noise(3, 8, 0.0);
        let entropies: Vec<f64> = (0..8).map(|i| 1.5 - 0.05 * f64::from(i)).collect();
        Study::of(points(&entropies, |i, h| 0.98 - 0.17 * libm::exp(h) + size * noise[i]), 1)
    };
    // Far above what was reached, and known well or badly.
    let (narrow, wide) = (wide(0.0002), wide(0.03));
    let says_little = |study: &Study| study.remarks.iter().any(|said| said.contains("says little"));
    assert!(narrow.holds().is_some() && !says_little(&narrow), "{narrow:?}");
    assert!(wide.holds().is_some() && says_little(&wide), "{wide:?}");
    let (ceiling, is_cut) = wide.ceiling().unwrap();
    assert!(is_cut && ceiling.high == 1.0 && wide.fit.unwrap().ceiling.high > 1.0, "{ceiling:?}");
    assert!(wide.sentence().contains("to 100.0 %, R^2"), "{}", wide.sentence());
}

#[test]
fn a_line_that_does_as_well_is_said_to() {
    let noise = noise(1, 16, 0.3);
    let study = Study::of(points(&falling(16, 3.0), |i, h| 0.7 - 0.4 * h + 0.005 * noise[i]), 1);
    let said =
        study.remarks.iter().find(|said| said.starts_with("a line in H does as well")).unwrap();
    assert!(said.contains("accuracy at H = 0 is 0.69"), "{said}");
    let lawful = Study::of(lawful(1, 16, 3.0, 0.3, 0.005), 1);
    assert!(
        !lawful.remarks.iter().any(|said| said.starts_with("a line in H")),
        "{:?}",
        lawful.remarks
    );
}

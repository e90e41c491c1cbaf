//! Predictions of planted runs' rest from their beginning, against the null forms.

use super::planted::{falling, lawful, noise, points};
use isentrope_lab::law::{Form, Prediction, Study};

const RUNS: u64 = 200;

/// How often each form has the smallest error over the rest, in the order of [`Form::ALL`].
fn best(share: f64, run: impl Fn(u64) -> Vec<isentrope_lab::law::Point>) -> [u64; 4] {
    let mut best = [0; 4];
    for seed in 0..RUNS {
        let prediction = Prediction::of(&run(seed), share).unwrap();
        let least = prediction.scored.iter().min_by(|a, b| a.rmse.total_cmp(&b.rmse)).unwrap().form;
        best[Form::ALL.iter().position(|form| *form == least).unwrap()] += 1;
    }
    best
}

#[test]
fn the_law_predicts_runs_that_obey_it() {
    let [law, line, constant, saturating] = best(0.3, |seed| lawful(seed, 40, 3.0, 0.3, 0.005));
    assert!(law > 140 && law > 3 * line.max(constant).max(saturating));
    // And the other forms what obeys them.
    let entropies = falling(40, 3.0);
    let with = |seed: u64, value: &dyn Fn(usize, f64) -> f64| {
        let noise = noise(seed, 40, 0.3);
        points(&entropies, |i, h| value(i, h) + 0.005 * noise[i])
    };
    let [law, line, ..] = best(0.3, |seed| with(seed, &|_, h| 0.7 - 0.4 * h));
    assert!(line > 140 && line > 3 * law, "{law} {line}");
    let [.., constant, saturating] =
        best(0.3, |seed| with(seed, &|i, _| 0.6 - 0.5 * libm::exp(-(i as f64) / 3.0)));
    assert!(constant + saturating > 140, "{constant} {saturating}");
}

#[test]
fn without_noise_the_error_is_nothing_and_the_nulls_err() {
    let study = Study::of(lawful(1, 40, 3.0, 0.0, 0.0), 1);
    let prediction = study.prediction.unwrap();
    assert_eq!((prediction.prefix, prediction.rest, prediction.until), (6, 34, 25));
    let error = |form| prediction.scored.iter().find(|scored| scored.form == form).unwrap();
    assert!(error(Form::Law).rmse < 1e-9 && error(Form::Law).error_at_end.abs() < 1e-9);
    for form in [Form::Linear, Form::Constant, Form::Saturating] {
        assert!(error(form).rmse > 0.02, "{form:?}: {:?}", error(form));
    }
    // The last value that was known is what the constant predicts.
    let (known, last) = (study.points[5].accuracy, study.points[39].accuracy);
    assert!((error(Form::Constant).error_at_end - (known - last)).abs() < 1e-12);
    let explained = |form| study.r_squared.iter().find(|(of, _)| *of == form).map(|(_, r)| *r);
    assert!(explained(Form::Law) > explained(Form::Linear) && explained(Form::Constant).is_none());
}

#[test]
fn a_prefix_is_as_long_as_it_must_be() {
    let run = lawful(1, 10, 3.0, 0.0, 0.01);
    for (share, prefix) in
        [(0.0, Some(3)), (0.15, Some(3)), (0.35, Some(4)), (0.8, Some(8)), (0.81, None)]
    {
        assert_eq!(Prediction::of(&run, share).map(|p| p.prefix), prefix, "{share}");
    }
    assert_eq!(Prediction::of(&run[..4], 0.15), None);
    // Three coefficients are no rival on three points.
    for (share, is_there) in [(0.15, false), (0.4, false), (0.5, true)] {
        let scored = Prediction::of(&run, share).unwrap().scored;
        assert_eq!(
            scored.iter().any(|scored| scored.form == Form::Saturating),
            is_there,
            "{share}"
        );
    }
}

/// A run that goes on from another has steps that begin late.
#[test]
fn a_form_of_steps_counts_them_from_the_first_point() {
    let noise = noise(1, 20, 0.0);
    let run = |from: u64| {
        let mut run = points(&falling(20, 3.0), |i, _| {
            0.6 - 0.4 * libm::exp(-0.3 * i as f64) + 0.01 * noise[i]
        });
        run.iter_mut().for_each(|point| point.step += from);
        Study::of(run, 1)
    };
    let (early, late) = (run(0), run(100_000));
    assert!(
        early
            .r_squared
            .iter()
            .any(|(form, r_squared)| *form == Form::Saturating && *r_squared > 0.98)
    );
    assert_eq!(early.r_squared, late.r_squared);
    assert_eq!(early.prediction.unwrap().scored, late.prediction.unwrap().scored);
}

//! Derivatives against central differences of the loss.

use crate::common::{Arrays, arrays};
use isentrope_objective::{
    Aggregation, Archer, ClipV, Covariance, Divergence, Dppo, EntropyAdvantage, Erc, FlexibleClip,
    KlEstimator, Loss, Method, Methods, Objective, ObjectiveSettings, ReferenceKl, WReinforce,
    objective,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

fn kl_estimator() -> impl Strategy<Value = KlEstimator> {
    prop::sample::select(&KlEstimator::ALL)
}

/// Settings of every kind. CISPO, CE-GPPO and VESPO have tests of their own: they hold weights
/// constant, which differences cannot see. The same is true of methods that read log-probs;
/// methods.rs has their gradients.
fn settings() -> impl Strategy<Value = ObjectiveSettings> {
    let holds = |loss: &Loss| matches!(loss, Loss::Cispo | Loss::CeGppo | Loss::Vespo);
    let losses: Vec<Loss> = Loss::ALL.into_iter().filter(|loss| !holds(loss)).collect();
    // Flexible thresholds without slopes read no log-prob.
    let flat = FlexibleClip { upper_slope: 0.0, lower_slope: 0.0, ..FlexibleClip::default() };
    let methods = prop::array::uniform6(any::<bool>()).prop_map(
        move |[weighs, gains, drops, filters, moves, widens]| Methods {
            w_reinforce: weighs.then(WReinforce::default),
            entropy_advantage: gains.then_some(EntropyAdvantage { alpha: 0.4, kappa: 2.0 }),
            erc: drops.then(Erc::default),
            clip_v: filters.then_some(ClipV { mu: 0.5, max_fraction: 0.2 }),
            flexible_clip: moves.then(|| flat.clone()),
            archer: widens.then(Archer::default),
            ..Methods::default()
        },
    );
    let covariance = (
        prop::sample::select(&Method::ALL),
        0.01f64..0.6,
        kl_estimator(),
        0.1f64..3.0,
        any::<bool>(),
    )
        .prop_map(|(method, fraction, kl, coefficient, by_advantage)| Covariance {
            method,
            fraction: Some(fraction),
            low: -0.5,
            high: 3.0,
            kl,
            coefficient,
            by_advantage,
            ..Default::default()
        });
    (
        prop::sample::select(losses),
        prop::sample::select(&Aggregation::ALL),
        (0.05f64..1.0, 0.05f64..1.0, prop::option::of(1.1f64..2.0)),
        covariance,
        (kl_estimator(), prop::sample::select(vec![0.0, 0.7])),
        (prop::option::of(0.1f64..1.0), prop::option::of(methods), any::<bool>()),
    )
        .prop_map(
            |(loss, aggregation, (clip_low, clip_high, dual_clip), covariance, kl, rest)| {
                let (mask, methods, by_kl) = rest;
                let divergence = if by_kl { Divergence::BinaryKl } else { Divergence::BinaryTv };
                ObjectiveSettings {
                    loss,
                    aggregation,
                    clip_low,
                    clip_high,
                    dual_clip,
                    covariance,
                    reference_kl: ReferenceKl { estimator: kl.0, coefficient: kl.1 },
                    entropy_mask_fraction: mask,
                    dppo: Dppo { divergence, delta_low: 0.05, delta_high: 0.03 },
                    methods: methods.unwrap_or_default(),
                    ..Default::default()
                }
            },
        )
}

const H: f64 = 1e-6;

/// The objective with one entry of an array moved.
fn moved(
    settings: &ObjectiveSettings,
    arrays: &Arrays,
    entry: impl Fn(&mut Arrays) -> &mut f64,
    by: f64,
) -> Objective {
    let mut arrays = arrays.clone();
    *entry(&mut arrays) += by;
    objective(settings, &arrays.minibatch())
}

/// The central difference, unless a token changes sides between the two points: is picked at one
/// and not at the other, or clipped. Of two tokens both covariances are equal, so that rounding
/// picks one.
fn difference(
    settings: &ObjectiveSettings,
    arrays: &Arrays,
    entry: impl Fn(&mut Arrays) -> &mut f64,
) -> Option<f64> {
    let [below, here, above] = [-H, 0.0, H].map(|by| moved(settings, arrays, &entry, by));
    let side = |o: &Objective| {
        let s = &o.statistics;
        (o.selected.clone(), s.clip_fraction_low, s.clip_fraction_high, s.dual_clip_fraction)
    };
    let is_smooth = side(&below) == side(&here) && side(&here) == side(&above);
    is_smooth.then(|| (above.loss - below.loss) / (2.0 * H))
}

fn check(derivative: f64, difference: Option<f64>, what: &str) -> Result<(), TestCaseError> {
    if let Some(difference) = difference {
        prop_assert!(
            (derivative - difference).abs() < 1e-6 * (1.0 + derivative.abs()),
            "{}: derivative {}, difference {}",
            what,
            derivative,
            difference
        );
    }
    Ok(())
}

/// Derivatives and differences: how many there were, and how many of them could be compared.
#[derive(Default)]
struct Compared {
    all: Cell<u32>,
    compared: Cell<u32>,
}

impl Compared {
    fn check(
        &self,
        derivative: f64,
        difference: Option<f64>,
        what: &str,
    ) -> Result<(), TestCaseError> {
        self.all.set(self.all.get() + 1);
        self.compared.set(self.compared.get() + u32::from(difference.is_some()));
        check(derivative, difference, what)
    }
}

#[test]
fn derivatives_are_those_of_the_loss() {
    let compared = Compared::default();
    let config = ProptestConfig { source_file: Some(file!()), ..ProptestConfig::with_cases(300) };
    let case = |(settings, arrays): (ObjectiveSettings, Arrays)| {
        derivatives_are_differences(settings, &arrays, &compared)
    };
    TestRunner::new(config).run(&(settings(), arrays(0.9)), case).unwrap();
    let (all, compared) = (compared.all.get(), compared.compared.get());
    assert!(10 * compared > 9 * all, "only {compared} of {all} could be compared");
}

fn derivatives_are_differences(
    mut settings: ObjectiveSettings,
    arrays: &Arrays,
    compared: &Compared,
) -> Result<(), TestCaseError> {
    // The derivatives of GSPO and GMPO count on the response's tokens being treated alike; else
    // they are GSPO-token's (docs/reference/objectives.md).
    if matches!(settings.loss, Loss::Gspo | Loss::Gmpo) {
        settings.entropy_mask_fraction = None;
        settings.methods = Methods::default();
        if settings.covariance.method == Method::ClipCov {
            settings.covariance.method = Method::None;
        }
    }
    let objective = objective(&settings, &arrays.minibatch());
    // Statements about tokens agree with the statistics.
    let tokens = arrays.logprobs.len() as f64;
    let statistics = &objective.statistics;
    let mean = objective.covariances.iter().sum::<f64>() / tokens;
    prop_assert!((mean - statistics.cov_mean).abs() < 1e-12);
    let clipped = statistics.clip_fraction() + statistics.dual_clip_fraction;
    prop_assert!((objective.clipped.len() as f64 - clipped * tokens).abs() < 1e-6);
    for t in 0..arrays.logprobs.len() {
        let centred = arrays.advantages[t] - objective.mean_advantage;
        let covariance = (arrays.logprobs[t] - objective.mean_logprob) * centred;
        prop_assert!((objective.covariances[t] - covariance).abs() < 1e-12);
        let by_logprob = difference(&settings, arrays, |a| &mut a.logprobs[t]);
        compared.check(objective.d_logprobs[t], by_logprob, &format!("log-prob {t}"))?;
        prop_assert_eq!(objective.d_log_masses.is_empty(), arrays.masses.is_none());
        if let Some(&of_mass) = objective.d_log_masses.get(t) {
            let by_mass = difference(&settings, arrays, |a| &mut a.masses.as_mut().unwrap()[0][t]);
            compared.check(of_mass, by_mass, &format!("log-mass {t}"))?;
        }
        // Moving an entropy may change which tokens are masked, and what methods make of them.
        // That is not part of the derivative.
        if settings.entropy_mask_fraction.is_none() && settings.methods == Methods::default() {
            let by_entropy = difference(&settings, arrays, |a| &mut a.entropies[t]);
            compared.check(objective.d_entropies[t], by_entropy, &format!("entropy {t}"))?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Within its range CE-GPPO is the policy gradient, and outside the gradient is constant.
    #[test]
    fn ce_gppo_keeps_a_bounded_gradient(mut arrays in arrays(0.9)) {
        arrays.masses = None;
        let settings = ObjectiveSettings { loss: Loss::CeGppo, ..Default::default() };
        let objective = objective(&settings, &arrays.minibatch());
        for t in 0..arrays.logprobs.len() {
            let ratio = (arrays.logprobs[t] - arrays.old_logprobs[t]).exp();
            let a = arrays.advantages[t];
            let factor = match () {
                () if ratio < 0.8 && a < 0.0 => 0.75 * 0.8,
                () if ratio > 1.2 && a > 0.0 => 1.2,
                () => ratio,
            };
            let expected = -factor * a / arrays.logprobs.len() as f64;
            check(objective.d_logprobs[t], Some(expected), "slope")?;
        }
    }

    /// Out of its range CISPO's weight is constant, and inside the ratio carries it.
    #[test]
    fn cispo_weighs_the_log_prob_by_a_constant(mut arrays in arrays(0.9)) {
        arrays.masses = None;
        let settings = ObjectiveSettings { loss: Loss::Cispo, ..Default::default() };
        let objective = objective(&settings, &arrays.minibatch());
        for t in 0..arrays.logprobs.len() {
            let ratio = (arrays.logprobs[t] - arrays.old_logprobs[t]).exp();
            let expected = -ratio.clamp(0.8, 1.2) * arrays.advantages[t] / arrays.logprobs.len() as f64;
            check(objective.d_logprobs[t], Some(expected), "weight")?;
            if !(0.79..1.21).contains(&ratio) {
                check(objective.d_logprobs[t], difference(&settings, &arrays, |a| &mut a.logprobs[t]), "outside")?;
            }
        }
    }
}

//! Log-probs, entropies, gradients and greedy continuations of tiny checkpoints of every family
//! against the values that transformers computes in float32; and of adapters, with peft.

mod files;
mod noise;

use crate::device::Trial;
use crate::properties;
use crate::subject::OracleTolerance;
use files::{Oracle, checkpoints, names};
use isentrope_kernels::{Backend, Cpu, Draw, Isa, Routes};
use isentrope_model::{Derivatives, Gradient, KvCache, Model, Packed, Sequence, Step, TapeKind};
use noise::{Noise, root_mean_square};
use std::sync::Arc;

properties!(
    logprobs_and_entropies_agree_at_both_temperatures,
    gradients_of_every_trained_parameter_agree_and_none_is_zero,
    greedy_continuations_are_identical,
);

/// How expected values are called, and the temperature that they are for.
const TEMPERATURES: [(&str, f32); 2] = [("", 1.0), ("_t0.8", 0.8)];

fn logprobs_and_entropies_agree_at_both_temperatures(trial: &Trial) {
    for name in names() {
        let oracle = Oracle::read(&name);
        let model = oracle.load(trial.device().backend());
        let noise = match trial.tolerance().oracles {
            OracleTolerance::Within(_) => None,
            OracleTolerance::Rounding { unit, scores, .. } => {
                Some((scores, Noise::of(&oracle, &TEMPERATURES.map(|(_, t)| t), unit)))
            }
        };
        for (i, (suffix, temperature)) in TEMPERATURES.into_iter().enumerate() {
            let ours = scores_of(&model, &oracle, temperature);
            for (j, what) in ["logprob", "entropy"].into_iter().enumerate() {
                let theirs = oracle.of_all_texts(&format!("{what}{suffix}"));
                let (off, allowed) = match (&noise, trial.tolerance().oracles) {
                    (Some((factor, noise)), _) => {
                        (root_mean_square(&ours[j], &theirs), factor * noise.scores[i][j])
                    }
                    (None, OracleTolerance::Within(allowed)) => {
                        (max_difference(&ours[j], &theirs), allowed)
                    }
                    (None, OracleTolerance::Rounding { .. }) => {
                        unreachable!("noise is known for it")
                    }
                };
                assert!(
                    off < allowed,
                    "{name}: {what}{suffix} is off by {off}, {allowed} is allowed"
                );
            }
        }
    }
}

fn gradients_of_every_trained_parameter_agree_and_none_is_zero(trial: &Trial) {
    // That keeping and recomputing give the same bits is shown elsewhere as well.
    let is_fast = trial.subject().cases(12) == 12;
    let keeps: &[TapeKind] = if is_fast {
        &[TapeKind::Activations, TapeKind::BlockInputs]
    } else {
        &[TapeKind::Activations]
    };
    for name in names() {
        let oracle = Oracle::read(&name);
        let model = oracle.load(trial.device().backend());
        let rerouted = match trial.tolerance().oracles {
            OracleTolerance::Within(_) => Vec::new(),
            OracleTolerance::Rounding { .. } => rerouted_experts(&model, &oracle),
        };
        for &keep in keeps {
            let gradients = gradient_of(&model, &oracle, keep);
            let allowed: Vec<f64> = match trial.tolerance().oracles {
                OracleTolerance::Within(relative) => {
                    let tensors = model.layout.trained().tensors();
                    let norm =
                        |name: &str| frobenius(oracle.floats(&format!("grad.{name}")).into_iter());
                    tensors.map(|(_, _, tensor)| relative * norm(&tensor.name)).collect()
                }
                OracleTolerance::Rounding { unit, gradients, .. } => {
                    let noise = Noise::of(&oracle, &[], unit).gradients;
                    noise.into_iter().map(|noise| gradients * noise).collect()
                }
            };
            for ((ours, allowed), (_, _, tensor)) in
                gradients.iter().zip(allowed).zip(model.layout.trained().tensors())
            {
                let tensor = &tensor.name;
                let theirs = oracle.floats(&format!("grad.{tensor}"));
                let off = frobenius(ours.iter().zip(&theirs).map(|(a, b)| a - b));
                assert!(ours.iter().all(|g| g.is_finite()), "{name}: {tensor} is not finite");
                assert!(theirs.iter().any(|&g| g != 0.0), "{name}: {tensor} has no gradient");
                if rerouted.iter().any(|expert| tensor.contains(expert)) {
                    continue;
                }
                assert!(off < allowed, "{name}: {tensor} is off by {off}, {allowed} is allowed");
            }
        }
    }
}

/// The names of the experts that other tokens go to than in f32, because rounding has decided:
/// their gradients are of another sum. They are two of three at most.
fn rerouted_experts(model: &Model, oracle: &Oracle) -> Vec<String> {
    let Some(router) = model.config.experts else { return Vec::new() };
    let exact: Arc<dyn Backend> = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
    let texts = oracle.texts();
    let sequences: Vec<_> = texts.iter().map(|tokens| Sequence { tokens, score_from: 1 }).collect();
    let packed = Packed::new(&sequences);
    let routes = [model.routes(&packed), oracle.load(&exact).routes(&packed)];
    let tokens = |routes: &Routes, expert: usize| -> Vec<usize> {
        let chosen = routes.experts.iter().enumerate();
        let own = chosen.filter(|&(_, &one)| one as usize == expert);
        own.map(|(choice, _)| choice / router.chosen).collect()
    };
    let mut found = Vec::new();
    for (layer, (ours, theirs)) in routes[0].iter().zip(&routes[1]).enumerate() {
        let changed = (0..router.experts).filter(|&e| tokens(ours, e) != tokens(theirs, e));
        found.extend(changed.map(|expert| format!("layers.{layer}.mlp.experts.{expert}.")));
    }
    assert!(3 * found.len() <= 2 * routes[0].len() * router.experts, "too many differ: {found:?}");
    found
}

/// With less exact log-probs, rounding may decide between the best two tokens.
fn greedy_continuations_are_identical(trial: &Trial) {
    if matches!(trial.tolerance().oracles, OracleTolerance::Rounding { .. }) {
        return;
    }
    for name in checkpoints() {
        let oracle = Oracle::read(&name);
        let model = oracle.load(trial.device().backend());
        let (prompt, expected) = oracle.greedy();
        let positions = prompt.len() + expected.len();
        let mut cache = KvCache::new(&model, KvCache::pages_for(&model, positions)).unwrap();
        let (mut pages, state) = (Vec::new(), cache.take_state());
        let (mut fed, mut input, mut ours) = (0, prompt, Vec::new());
        while ours.len() < expected.len() {
            while pages.len() * trial.page() < fed + input.len() {
                pages.push(cache.take().expect("enough pages"));
            }
            let mut step = Step::default();
            step.push(&input, fed, &pages, true);
            step.go_on_from_state(state);
            fed += input.len();
            let hidden = model.step(&step, &mut cache, None);
            let greedy = Draw::at_temperature(0.0, 0, 0.0);
            let best = model.draw(&hidden, &[greedy])[0].as_ref().expect("finite logits").token;
            ours.push(best);
            input = vec![best];
        }
        assert_eq!(ours, expected, "{name}");
    }
}

/// Log-probs and entropies of all tokens but the first of each text.
fn scores_of(model: &Model, oracle: &Oracle, temperature: f32) -> [Vec<f32>; 2] {
    let texts = oracle.texts();
    let sequences: Vec<_> = texts.iter().map(|tokens| Sequence { tokens, score_from: 1 }).collect();
    let scores = model.score(&Packed::new(&sequences), temperature);
    [scores.logprobs, scores.entropies]
}

/// Every tensor of the gradient of the sum of all scores with the oracle's coefficients.
fn gradient_of(model: &Model, oracle: &Oracle, keep: TapeKind) -> Vec<Vec<f32>> {
    let texts = oracle.texts();
    let sequences: Vec<_> = texts.iter().map(|tokens| Sequence { tokens, score_from: 1 }).collect();
    let (a, b) = (oracle.of_all_texts("coef_logprob"), oracle.of_all_texts("coef_entropy"));
    let mut gradient = Gradient::zeros(model).unwrap();
    let (_, tape) = model.forward(Packed::new(&sequences), 1.0, keep);
    model.backward(tape, Derivatives::of(&a, &b), &mut gradient);
    let gradient = gradient.finish(model);
    let tensors = model.layout.trained().tensors();
    tensors
        .map(|(id, parameter, tensor)| gradient.tensor(&*model.backend, id, parameter, tensor))
        .collect()
}

fn max_difference(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(&a, &b)| f64::from(a - b).abs());
    differences.fold(0.0, |m, d| if d > m || d.is_nan() { d } else { m })
}

fn frobenius(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt()
}

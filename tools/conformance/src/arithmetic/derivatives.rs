//! The gradient is the derivative of the forward pass: for every tensor, along as many random
//! directions as there is time for, at a temperature other than 1.
//!
//! The loss of a mixture of experts jumps where a token changes its experts, and no gradient knows
//! of that. Its derivatives are measured between weights that send every token to the same experts.
//!
//! A delta rule's output at a text's first token is its value times a product of query and key, and
//! normed it is almost the sign of that product: the loss rises within a length that shrinks with
//! the norm's epsilon. So a hybrid model is given a larger one. Its slopes change over lengths of
//! many sizes: each is measured with steps from long to short, of which the two that agree best
//! count.

use crate::data::masks;
use crate::device::Trial;
use crate::models::{self, Text, noise, pack};
use crate::{OracleTolerance, Tolerance, properties};
use isentrope_model::{Derivatives, Gradient, Model, Packed, Scores, Tape, TapeKind, Taught};

properties!(directional_derivatives);

const TEMPERATURE: f32 = 0.7;

/// Most times that a step is halved, until no token changes its experts along it.
const HALVINGS: i32 = 5;
/// The first of the steps for a hybrid model, over that for others.
const LONGEST: f64 = 4.0;

fn directional_derivatives(trial: &Trial) {
    let directions = u64::from(trial.subject().cases(3));
    for (family, eps) in [
        ("qwen3-untied", None),
        ("llama-biases", None),
        ("llama-biases with an adapter", None),
        ("olmoe", None),
        ("qwen3-moe", None),
        ("qwen3.5", Some(0.01)),
        ("qwen3.5-moe", Some(0.01)),
    ] {
        // The short steps that hybrids need are lost in bf16's rounding.
        if eps.is_some() && matches!(trial.tolerance().oracles, OracleTolerance::Rounding { .. }) {
            continue;
        }
        // With little time, one model of a kind: the oracles have gradients of every family.
        if directions < 3 && ["llama-biases", "olmoe"].contains(&family) {
            continue;
        }
        let device = trial.device();
        let backend = device.backend();
        let mut model = match eps {
            None => models::model(family, backend),
            Some(eps) => models::with_eps(family, eps, backend),
        };
        let text = |seed: u64, len, score_from| Text {
            tokens: noise(seed, len).iter().map(|x| ((x + 1.0) * 30.0) as u32).collect(),
            score_from,
        };
        let mut texts = vec![text(5, 19, 1), text(6, 9, 4), text(7, 26, 2)];
        // Two more responses to the second prompt, one of them a single token.
        let answered = |tokens: &[u32]| Text {
            tokens: [&texts[1].tokens[..4], tokens].concat(),
            score_from: 4,
        };
        let more = [answered(&[3]), answered(&text(8, 20, 0).tokens)];
        texts.splice(2..2, more);
        if model.config.experts.is_some() {
            // Among many tokens, some are always about to change their experts.
            texts = texts.drain(1..3).chain([text(14, 12, 1)]).collect();
        }
        let packed = pack(&texts);
        let targets: Vec<u32> =
            texts.iter().flat_map(|text| &text.tokens[text.score_from.max(1)..]).copied().collect();
        let teacher = models::model("qwen3-untied", &model.backend);
        let hidden = teacher.end_hidden(teacher.through_blocks(&packed, None), &packed);
        let taught = Taught { teacher: Some(&teacher), hidden: &hidden };
        let packed = packed.with_masks(masks(&targets, model.config.vocab_size));
        let [a, b, c, mut e] = [1, 2, 3, 4].map(|seed| noise(seed, targets.len()));
        if eps.is_some() {
            e.fill(0.0); // differences of a hybrid are too coarse for one more term
        }
        let derivatives = Derivatives {
            logprobs: &a,
            entropies: &b,
            log_masses: &c,
            divergences: &e,
            taught: Some(taught),
            ..Derivatives::default()
        };
        let mut gradient = Gradient::zeros(&model).unwrap();
        let (_, tape) = forward(&model, &packed, taught);
        model.backward(tape, derivatives, &mut gradient);
        let gradient = gradient.finish(&model);

        let list = model.layout.trained().clone();
        let choices = choices_of(&model, &packed);
        let (mut measured_directions, mut jumps) = (0, 0);
        for (seed, (id, parameter, tensor)) in (0..).zip(list.tensors()) {
            let weights = model.trained().tensor(&*model.backend, id, parameter, tensor);
            let slope = gradient.tensor(&*model.backend, id, parameter, tensor);
            for direction in
                (0..directions).map(|i| noise(100 + directions * seed + i, weights.len()))
            {
                let whole = trial.tolerance().derivative_step * norm(&weights) / norm(&direction);
                let mut move_by = |distance: f64| {
                    let moved = weights.iter().zip(&direction);
                    let moved: Vec<f32> = moved
                        .map(|(&w, &d)| (f64::from(w) + distance * f64::from(d)) as f32)
                        .collect();
                    let backend = model.backend.clone();
                    model.trained_mut().set_rows(&*backend, id, parameter, tensor, 0, &moved);
                    let is_smooth = choices.is_empty() || choices_of(&model, &packed) == choices;
                    is_smooth.then(|| loss(&model, &packed, derivatives))
                };
                let mut measure = |step: f64| {
                    let near = move_by(step)? - move_by(-step)?;
                    let far = move_by(2.0 * step)? - move_by(-2.0 * step)?;
                    Some((step, (8.0 * near - far) / (12.0 * step)))
                };
                let halved = |halvings| 0.5_f64.powi(halvings);
                let smooth = if eps.is_none() {
                    (0..=HALVINGS).find_map(|halvings| measure(whole * halved(halvings)))
                } else {
                    let steps = (0..=HALVINGS).map(|halvings| LONGEST * whole * halved(halvings));
                    let all: Vec<_> = steps.filter_map(measure).collect();
                    let apart = |pair: &&[(f64, f64)]| (pair[0].1 - pair[1].1).abs();
                    let best = all.windows(2).min_by(|a, b| apart(a).total_cmp(&apart(b)));
                    best.map(|pair| pair[1])
                };
                move_by(0.0); // puts the weights back
                let Some((step, measured)) = smooth else {
                    jumps += 1;
                    continue;
                };
                measured_directions += 1;
                // The typical size of a derivative along a random direction. By chance a derivative
                // can be far smaller, and its relative error then means nothing.
                let typical = norm(&slope) * norm(&direction) / (weights.len() as f64).sqrt();
                let computed = dot(&slope, &direction);
                let Tolerance { derivatives, derivative_noise, .. } = trial.tolerance();
                let allowed = derivatives * typical.max(computed.abs()) + derivative_noise / step;
                assert!(
                    (measured - computed).abs() <= allowed,
                    "{family}: {}: {measured} measured, {computed} computed",
                    tensor.name
                );
            }
        }
        assert!(jumps <= measured_directions / 4, "{family}: {jumps} jumps");
    }
}

/// The experts of every token, in each block that has experts.
fn choices_of(model: &Model, packed: &Packed) -> Vec<Vec<u32>> {
    model.routes(packed).into_iter().map(|routes| routes.experts).collect()
}

fn forward(model: &Model, packed: &Packed, taught: Taught<'_>) -> (Scores, Tape<'static>) {
    let pass = model.through_blocks(packed, Some(TapeKind::BlockInputs));
    let mut tape = model.end_forward(pass, packed.clone(), TEMPERATURE, Some(taught));
    (tape.read_scores(model), tape)
}

/// The loss with these derivatives.
fn loss(model: &Model, packed: &Packed, by: Derivatives<'_>) -> f64 {
    let (scores, tape) = forward(model, packed, by.taught.unwrap());
    let of_scores = dot(&scores.logprobs, by.logprobs) + dot(&scores.entropies, by.entropies);
    let of_masses = dot(&scores.log_masses, by.log_masses);
    of_scores + of_masses + dot(&tape.read_divergences(model), by.divergences)
}

fn dot(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

fn norm(x: &[f32]) -> f64 {
    dot(x, x).sqrt()
}

//! Log-probs, entropies, gradients and greedy continuations of tiny checkpoints of every family against the values
//! that transformers computes in float32 (tests/fixtures/models).

use crate::common::oracle::{Oracle, names};
use isentrope_kernels::{Adjustments, Backend, Cpu, Draw};
use isentrope_model::{Derivatives, Gradient, Keep, KvCache, Packed, Sequence, Step};

#[test]
fn logprobs_and_entropies_agree_at_both_temperatures() {
    for name in names() {
        let oracle = Oracle::read(&name);
        let model = oracle.model();
        for (suffix, temperature) in [("", 1.0), ("_t0.8", 0.8)] {
            for i in 0..oracle.sequences() {
                let tokens = oracle.tokens(i);
                let packed = Packed::new(&[Sequence { tokens: &tokens, score_from: 1 }]);
                let scores = model.score(&packed, temperature);
                for (what, ours) in [("logprob", &scores.logprobs), ("entropy", &scores.entropies)] {
                    let theirs = oracle.floats(&format!("{what}{suffix}.{i}"));
                    let worst = max_difference(ours, &theirs);
                    assert!(worst < 1e-4, "{name}: {what}{suffix}.{i} differs by {worst}");
                }
            }
        }
    }
}

#[test]
fn gradients_of_every_parameter_agree_and_none_is_zero() {
    for name in names() {
        let oracle = Oracle::read(&name);
        let model = oracle.model();
        for keep in [Keep::Activations, Keep::BlockInputs] {
            let mut gradient = Gradient::zeros(&model).unwrap();
            for i in 0..oracle.sequences() {
                let tokens = oracle.tokens(i);
                let packed = Packed::new(&[Sequence { tokens: &tokens, score_from: 1 }]);
                let (_, tape) = model.forward(packed, 1.0, keep);
                let (a, b) = (
                    oracle.floats(&format!("coef_logprob.{i}")),
                    oracle.floats(&format!("coef_entropy.{i}")),
                );
                model.backward(tape, Derivatives::of(&a, &b), &mut gradient);
            }
            let gradient = gradient.finish(&model);
            for (id, parameter, tensor) in model.layout.tensors() {
                let ours = gradient.tensor(&model.backend, id, parameter, tensor);
                let theirs = oracle.floats(&format!("grad.{}", tensor.name));
                let (difference, norm) = (
                    frobenius(ours.iter().zip(&theirs).map(|(a, b)| a - b)),
                    frobenius(theirs.iter().copied()),
                );
                assert!(ours.iter().all(|g| g.is_finite()), "{name}: {} is not finite", tensor.name);
                assert!(
                    norm > 0.0 && difference / norm < 1e-4,
                    "{name}: {} is off by {}",
                    tensor.name,
                    difference / norm
                );
            }
        }
    }
}

#[test]
fn greedy_continuations_are_identical() {
    for name in names() {
        let oracle = Oracle::read(&name);
        let model = oracle.model();
        let (prompt, expected) = oracle.greedy();
        let positions = prompt.len() + expected.len();
        let mut cache = KvCache::new(&model, KvCache::<Cpu>::pages_for(positions)).unwrap();
        let mut pages = Vec::new();
        let (mut fed, mut input, mut ours) = (0, prompt, Vec::new());
        while ours.len() < expected.len() {
            while pages.len() * Cpu::PAGE < fed + input.len() {
                pages.push(cache.take().expect("enough pages"));
            }
            let mut step = Step::default();
            step.push(&input, fed, &pages, true);
            fed += input.len();
            let hidden = model.step(&step, &mut cache, None);
            let greedy = Draw {
                row: 0,
                adjustments: Adjustments::temperature(0.0),
                penalised: Vec::new(),
                records_kept: false,
                uniform: 0.0,
            };
            let best = model.draw(&hidden, &[greedy])[0].as_ref().expect("finite logits").token;
            ours.push(best);
            input = vec![best];
        }
        assert_eq!(ours, expected, "{name}");
    }
}

fn max_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |m, d| if d > m || d.is_nan() { d } else { m })
}

fn frobenius(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt()
}

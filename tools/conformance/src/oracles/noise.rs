//! Measures on the CPU how far results move when weights move: the effect of rounding on one model.

use super::files::Oracle;
use super::{frobenius, gradient_of, scores_of};
use crate::models;
use isentrope_kernels::{Backend, Cpu, Isa};
use isentrope_model::{Model, TapeKind};
use std::sync::Arc;

/// Models whose weights have moved, each by other numbers.
const MOVED: u64 = 4;

/// Effects of moving all weights by relative random numbers, each as a root mean square over
/// several such models.
pub struct Noise {
    /// The change of log-probs and of entropies, for each temperature.
    pub scores: Vec<[f64; 2]>,
    /// The norm of the change of each tensor's gradient.
    pub gradients: Vec<f64>,
}

impl Noise {
    /// By numbers between `-unit` and `unit`.
    pub fn of(oracle: &Oracle, temperatures: &[f32], unit: f32) -> Self {
        let backend: Arc<dyn Backend> = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
        let load = || oracle.load(&backend);
        let all = |model: &Model| {
            let scores: Vec<_> =
                temperatures.iter().map(|&t| scores_of(model, oracle, t)).collect();
            (scores, gradient_of(model, oracle, TapeKind::Activations))
        };
        let (scores, gradients) = all(&load());
        let mut noise =
            Self { scores: vec![[0.0; 2]; scores.len()], gradients: vec![0.0; gradients.len()] };
        for seed in 0..MOVED {
            let mut model = load();
            let own = Arc::get_mut(&mut model.weights).expect("the model shares no weights");
            let lens = model.layout.parameters.numbers(&*backend);
            let own = own.buffers_mut().iter_mut().zip(lens);
            let adapted = model.layout.adapter.iter().zip(&mut model.adapter);
            let adapted = adapted.flat_map(|(layout, adapter)| {
                let lens = layout.parameters.numbers(&*backend);
                adapter.weights.buffers_mut().iter_mut().zip(lens)
            });
            for (number, (buffer, len)) in (0..).zip(own.chain(adapted)) {
                let mut numbers = vec![0.0; len];
                backend.read_elements(buffer, 0, &mut numbers);
                let random = models::noise(1000 * seed + number, numbers.len());
                numbers
                    .iter_mut()
                    .zip(random)
                    .for_each(|(number, random)| *number *= 1.0 + unit * random);
                backend.write_elements(buffer, 0, &numbers);
            }
            let moved = all(&model);
            for (sums, (was, is)) in noise.scores.iter_mut().zip(scores.iter().zip(&moved.0)) {
                for (sum, (was, is)) in sums.iter_mut().zip(was.iter().zip(is)) {
                    *sum += root_mean_square(was, is).powi(2) / MOVED as f64;
                }
            }
            for (sum, (was, is)) in noise.gradients.iter_mut().zip(gradients.iter().zip(&moved.1)) {
                *sum += frobenius(was.iter().zip(is).map(|(a, b)| a - b)).powi(2) / MOVED as f64;
            }
        }
        noise
            .scores
            .iter_mut()
            .flatten()
            .chain(&mut noise.gradients)
            .for_each(|sum| *sum = sum.sqrt());
        noise
    }
}

/// Root mean square of the differences of two lists; NaN if one of them has a NaN.
pub fn root_mean_square(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    frobenius(a.iter().zip(b).map(|(a, b)| a - b)) / (a.len() as f64).sqrt()
}

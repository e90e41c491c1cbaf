//! A model before any training.

use crate::config::ModelConfig;
use crate::layout::Layout;
use crate::model::Model;
use crate::parameters::{Parameters, set_rows};
use crate::{Error, Result};
use isentrope_kernels::{Backend, Kind, Role};
use isentrope_random::{Draws, Purpose};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Logarithms of decay rates that are even between 0.01 and 16, as in transformers.
fn rates(mut draws: Draws, len: usize) -> Vec<f32> {
    let rate = |i: usize| 0.01 + 15.99 * draws.uniform(i as u64);
    (0..len).map(rate).map(|rate| libm::log(rate) as f32).collect()
}

/// The default of `initializer_range`, as in transformers.
const DEFAULT_RANGE: f64 = 0.02;

impl Model {
    /// Makes a model for the config.json in `dir` with all weights 0, which the caller sets.
    ///
    /// # Errors
    /// As [`ModelConfig::read`], or when there is no memory for the weights.
    pub fn zeros(dir: &Path, backend: Arc<dyn Backend>) -> Result<Self> {
        let config = ModelConfig::read(dir)?;
        let layout = Layout::new(&config);
        let weights = Parameters::zeros(&*backend, &layout.parameters, Role::Weight)?;
        Ok(Self::new(config, layout, weights, backend))
    }

    /// Random weights for the config.json in `dir`, as transformers initialises a decoder: matrices
    /// from a normal distribution of standard deviation `initializer_range`, factors of norms 1,
    /// biases 0.
    ///
    /// # Errors
    /// As [`ModelConfig::read`]; [`Error::Invalid`] when `initializer_range` is not a number above
    /// 0.
    pub fn initialize(dir: &Path, seed: u64, backend: Arc<dyn Backend>) -> Result<Self> {
        let whole =
            |layout: &Layout| layout.parameters.numbers(&*backend).map(|of| 0..of).collect();
        Self::initialize_slice(dir, seed, backend.clone(), whole)
    }

    /// As [`initialize`](Self::initialize), on a rank that has the remainders of some elements
    /// alone: see [`load_slice`](Self::load_slice).
    ///
    /// # Errors
    /// As [`initialize`](Self::initialize).
    pub fn initialize_slice(
        dir: &Path,
        seed: u64,
        backend: Arc<dyn Backend>,
        own: impl Fn(&Layout) -> Vec<Range<usize>>,
    ) -> Result<Self> {
        let config = ModelConfig::read(dir)?;
        let range = match config.json.get("initializer_range") {
            None => DEFAULT_RANGE,
            Some(value) => value.as_f64().filter(|&r| r > 0.0 && r < 100.0).ok_or_else(|| {
                let what = format!("initializer_range is {value}: it must be a number above 0");
                Error::invalid(&dir.join("config.json"), what)
            })?,
        };
        let layout = Layout::new(&config);
        let (b, list) = (&*backend, &layout.parameters);
        // Each tensor has draws of its own, by its number.
        let mut numbers = 0..;
        let weights = Parameters::slice(b, list, &own(&layout), |parameter, weights| {
            for (tensor, number) in parameter.tensors.iter().zip(numbers.by_ref()) {
                let len: usize = parameter.shape(tensor).iter().product();
                let values = match parameter.kind {
                    Kind::Vector(_) if tensor.name.ends_with(".bias") => vec![0.0; len],
                    Kind::Vector(_) if tensor.name.ends_with("linear_attn.A_log") => {
                        rates(Draws::of(seed, Purpose::Weights, number, 0), len)
                    }
                    // The norm in linear attention and dt_bias have no shift.
                    Kind::Vector(_) if tensor.name.contains("linear_attn.") => vec![1.0; len],
                    Kind::Vector(_) => vec![1.0 - config.norm_shift; len],
                    Kind::Matrix(_) => {
                        let mut draws = Draws::of(seed, Purpose::Weights, number, 0);
                        let pairs =
                            (0..len.div_ceil(2)).flat_map(|pair| draws.normals(pair as u64));
                        pairs.take(len).map(|normal| (normal * range) as f32).collect()
                    }
                };
                set_rows(b, weights, parameter, tensor, 0, &values);
            }
            Ok(())
        })?;
        Ok(Self::new(config, layout, weights, backend))
    }
}

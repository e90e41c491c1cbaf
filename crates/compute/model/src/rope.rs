//! Rotary position embedding (Su et al. 2021, arXiv:2104.09864) and its context extensions: the
//! table of cosines and sines that rotates pairs of query and key features.
//!
//! Every step is rounded to f32 where transformers' float32 code rounds. Powers, logarithms,
//! cosines and sines are evaluated in f64 by `libm`, so the bits do not depend on the platform's
//! mathematics library.

use std::f64::consts::PI;
use std::ops::Range;

/// How the frequencies of a [`Rope`] are stretched beyond the context of pretraining, with the
/// numbers of `rope_parameters` in config.json.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// No scaling.
    Default,
    /// Position interpolation (Chen et al. 2023, arXiv:2306.15595).
    Linear {
        /// Divides every frequency; at least 1.
        factor: f64,
    },
    /// Llama 3.1: long wavelengths are interpolated, short ones kept, and others blended.
    Llama3 {
        /// Divides the frequencies of the long wavelengths; at least 1.
        factor: f64,
        /// Wavelengths above the original context over this are long.
        low_freq_factor: f64,
        /// Wavelengths below the original context over this are short; more than `low_freq_factor`.
        high_freq_factor: f64,
        /// Context of pretraining, in tokens.
        original_max_position_embeddings: usize,
    },
    /// LongRoPE (Ding et al. 2024, arXiv:2402.13753) of texts that fit the context of pretraining.
    /// Longer ones turn all of their tokens by other angles.
    LongRope {
        /// Divide the frequencies, `[pairs that turn]`.
        short_factor: Vec<f64>,
        /// Scale of cosines and sines.
        attention_factor: f64,
    },
    /// YaRN (Peng et al. 2023, arXiv:2309.00071).
    Yarn {
        /// Divides the interpolated frequencies; at least 1.
        factor: f64,
        /// Context of pretraining, in tokens.
        original_max_position_embeddings: usize,
        /// Rotations within the original context at and above which a frequency is kept.
        beta_fast: f64,
        /// Rotations within the original context at and below which a frequency is interpolated.
        beta_slow: f64,
        /// Whether the two ends of the blend are rounded outwards to whole dimensions.
        truncate: bool,
        /// Scale of cosines and sines; None takes the paper's value for `factor`.
        attention_factor: Option<f64>,
        /// DeepSeek's numerator of the attention factor, used when `mscale_all_dim` is there too.
        mscale: Option<f64>,
        /// DeepSeek's denominator of the attention factor.
        mscale_all_dim: Option<f64>,
    },
}

/// Rotary position embedding of one head.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the frequencies (`rope_theta`).
    pub theta: f64,
    /// Context extension.
    pub scaling: RopeScaling,
    /// Radians per position of the pairs that turn, at most `[head_dim / 2]`.
    pub inv_freq: Vec<f32>,
    /// Pairs behind these that do not turn.
    pub still_pairs: usize,
    /// Factor of cosines and sines of the pairs that turn: 1 except with [`RopeScaling::Yarn`] and
    /// [`RopeScaling::LongRope`].
    pub attention_factor: f32,
    /// The number of positions for which this is the whole of a model's treatment of positions, if
    /// it has another one of longer texts.
    pub limit: Option<usize>,
}

impl Rope {
    /// The embedding of heads of which `head_dim` features (even) turn, with base `theta` (more
    /// than 1).
    pub fn new(head_dim: usize, theta: f64, scaling: RopeScaling) -> Self {
        let unscaled = inverse_frequencies(head_dim, theta as f32);
        let (inv_freq, attention_factor) = match &scaling {
            RopeScaling::Default => (unscaled, 1.0),
            RopeScaling::Linear { factor } => {
                (unscaled.iter().map(|f| f / *factor as f32).collect(), 1.0)
            }
            RopeScaling::Llama3 { .. } => (llama3_frequencies(unscaled, &scaling), 1.0),
            RopeScaling::LongRope { short_factor, attention_factor } => {
                let scaled = wavelengths(head_dim, theta as f32).zip(short_factor);
                let inverse =
                    |(wavelength, &factor): (f32, &f64)| 1.0 / (factor as f32 * wavelength);
                (scaled.map(inverse).collect(), *attention_factor as f32)
            }
            RopeScaling::Yarn { .. } => yarn_frequencies(head_dim, theta, &scaling),
        };
        Self { theta, scaling, inv_freq, still_pairs: 0, attention_factor, limit: None }
    }

    /// The pairs of a head.
    pub fn pairs(&self) -> usize {
        self.inv_freq.len() + self.still_pairs
    }

    /// Cosines and sines of `positions`, each `[positions, head_dim / 2]`, times the attention
    /// factor. A row depends on its own position only.
    pub fn table(&self, positions: Range<usize>) -> (Vec<f32>, Vec<f32>) {
        let size = positions.len() * self.pairs();
        let (mut cos, mut sin) = (Vec::with_capacity(size), Vec::with_capacity(size));
        for position in positions {
            for &frequency in &self.inv_freq {
                // The angle is rounded to f32, as in transformers; sine and cosine of it are exact.
                let (s, c) = libm::sincos(f64::from(position as f32 * frequency));
                cos.push(c as f32 * self.attention_factor);
                sin.push(s as f32 * self.attention_factor);
            }
            cos.extend(std::iter::repeat_n(1.0, self.still_pairs));
            sin.extend(std::iter::repeat_n(0.0, self.still_pairs));
        }
        (cos, sin)
    }
}

/// `base` to the `exponent`, correctly rounded but for the rarest ties.
fn power(base: f32, exponent: f32) -> f32 {
    libm::pow(f64::from(base), f64::from(exponent)) as f32
}

/// Positions per radian of every feature pair, `[head_dim / 2]`.
fn wavelengths(head_dim: usize, base: f32) -> impl Iterator<Item = f32> {
    (0..head_dim).step_by(2).map(move |feature| power(base, feature as f32 / head_dim as f32))
}

fn inverse_frequencies(head_dim: usize, base: f32) -> Vec<f32> {
    wavelengths(head_dim, base).map(|wavelength| 1.0 / wavelength).collect()
}

fn llama3_frequencies(mut inv_freq: Vec<f32>, scaling: &RopeScaling) -> Vec<f32> {
    let &RopeScaling::Llama3 {
        factor,
        low_freq_factor,
        high_freq_factor,
        original_max_position_embeddings,
    } = scaling
    else {
        return inv_freq;
    };
    let context = original_max_position_embeddings as f64;
    let (longest_kept, shortest_scaled) = (context / high_freq_factor, context / low_freq_factor);
    let (factor, low) = (factor as f32, low_freq_factor as f32);
    let band = (high_freq_factor - low_freq_factor) as f32;
    for frequency in &mut inv_freq {
        // In transformers a scalar divided by a tensor is a reciprocal and a product, with two
        // roundings.
        let wavelength = (1.0 / *frequency) * (2.0 * PI) as f32;
        if wavelength > shortest_scaled as f32 {
            *frequency /= factor;
        } else if wavelength >= longest_kept as f32 {
            let smooth = ((1.0 / wavelength) * context as f32 - low) / band;
            *frequency = (1.0 - smooth) * *frequency / factor + smooth * *frequency;
        }
    }
    inv_freq
}

fn yarn_frequencies(head_dim: usize, theta: f64, scaling: &RopeScaling) -> (Vec<f32>, f32) {
    let &RopeScaling::Yarn {
        factor,
        original_max_position_embeddings,
        beta_fast,
        beta_slow,
        truncate,
        attention_factor,
        mscale,
        mscale_all_dim,
    } = scaling
    else {
        return (inverse_frequencies(head_dim, theta as f32), 1.0);
    };

    let magnitude =
        |mscale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * mscale * libm::log(factor) + 1.0 };
    let attention_factor = attention_factor.unwrap_or_else(|| match (mscale, mscale_all_dim) {
        (Some(numerator), Some(denominator)) if numerator != 0.0 && denominator != 0.0 => {
            magnitude(numerator) / magnitude(denominator)
        }
        _ => magnitude(1.0),
    });

    // The (fractional) feature pair that turns `rotations` times within the original context.
    let dim = head_dim as f64;
    let pair_of = |rotations: f64| {
        let wavelength = original_max_position_embeddings as f64 / (rotations * 2.0 * PI);
        dim * libm::log(wavelength) / (2.0 * libm::log(theta))
    };
    let (mut low, mut high) = (pair_of(beta_fast), pair_of(beta_slow));
    if truncate {
        (low, high) = (libm::floor(low), libm::ceil(high));
    }
    (low, high) = (low.max(0.0), high.min(dim - 1.0));
    if low == high {
        high += 0.001;
    }

    let blend = |(pair, wavelength): (usize, f32)| {
        let ramp = ((pair as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
        let keep = 1.0 - ramp;
        let interpolated = 1.0 / (factor as f32 * wavelength);
        interpolated * (1.0 - keep) + (1.0 / wavelength) * keep
    };
    (wavelengths(head_dim, theta as f32).enumerate().map(blend).collect(), attention_factor as f32)
}

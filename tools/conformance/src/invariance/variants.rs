//! Variants of a backend (threads, instruction sets) compute the same, for whole models.

use crate::device::{Device, Trial};
use crate::models::{
    Text, checkpoint, gradient_bits, load, score_bits, wide_words, words, write_wide,
};
use crate::properties;
use isentrope_model::{Gradient, TapeKind};
use std::path::Path;

properties!(models, a_wide_model);

fn models(trial: &Trial) {
    let devices: Vec<_> = trial.devices().collect();
    for family in [
        "llama-biases",
        "llama-mqa",
        "llama-yarn",
        "mistral-sliding",
        "olmo3",
        "qwen2-layer-types",
        "qwen3-untied",
        "smollm3",
    ] {
        assert_same(&checkpoint(family), &texts(&[20, 2, 33], words), &devices);
    }
}

fn a_wide_model(trial: &Trial) {
    let dir = tempfile::tempdir().unwrap();
    let wide = dir.path().join("wide");
    write_wide(&wide);
    let devices: Vec<_> = trial.devices().collect();
    assert_same(&wide, &texts(&[21, 4], wide_words), &devices);
    // More tokens than a weight's gradient takes at a time.
    let fast: Vec<_> = devices.into_iter().filter(Device::is_fast).collect();
    if fast.len() > 1 {
        assert_same(&wide, &texts(&[90, 3, 180, 41], wide_words), &fast);
    }
}

/// Texts of these lengths.
fn texts(lengths: &[usize], words: fn(u64, usize) -> Vec<u32>) -> Vec<Text> {
    (0..)
        .zip(lengths)
        .map(|(seed, &len)| Text { tokens: words(seed, len), score_from: 1 })
        .collect()
}

/// Scores and gradients of these texts are the same on all devices.
fn assert_same(dir: &Path, texts: &[Text], devices: &[Device<'_>]) {
    let results = devices.iter().map(|device| {
        let model = load(dir, device.backend());
        let scores = score_bits(&model, texts, 0.7);
        let mut gradient = Gradient::zeros(&model).unwrap();
        (scores, gradient_bits(&model, &mut gradient, &[(texts, TapeKind::Activations)], 0.7))
    });
    let results: Vec<_> = results.collect();
    for (device, (scores, gradient)) in devices.iter().zip(&results).skip(1) {
        assert!(*scores == results[0].0, "scores on {}: {}", device.name(), dir.display());
        assert!(*gradient == results[0].1, "gradient on {}: {}", device.name(), dir.display());
    }
}

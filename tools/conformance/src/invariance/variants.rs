//! Variants of a backend (threads, instruction sets) compute the same, for whole models.

use crate::device::{Device, Trial};
use crate::models::{
    ADAPTED, FAMILIES, Text, adapted, checkpoint, gradient_bits, load, load_frozen, model,
    score_bits, wide_words, words, write_wide,
};
use crate::properties;
use isentrope_kernels::Backend;
use isentrope_model::{Gradient, Model, TapeKind};
use std::sync::Arc;

properties!(models, a_wide_model, frozen_weights);

fn models(trial: &Trial) {
    let devices: Vec<_> = trial.devices().collect();
    for family in [
        "llama-biases",
        "llama-biases with an adapter",
        "llama-mqa",
        "llama-yarn",
        "mistral-sliding",
        "gemma3",
        "olmo3",
        "qwen2-layer-types",
        "qwen3-untied",
        "smollm3",
    ] {
        let load = |backend: &_| model(family, backend);
        assert_same(family, load, &texts(&[20, 2, 33], words), &devices);
    }
}

fn a_wide_model(trial: &Trial) {
    let dir = tempfile::tempdir().unwrap();
    let wide = dir.path().join("wide");
    write_wide(&wide);
    let devices: Vec<_> = trial.devices().collect();
    let plain = |backend: &_| load(&wide, backend);
    assert_same("wide", plain, &texts(&[21, 4], wide_words), &devices);
    let with_adapter = |backend: &_| adapted(load_frozen(&wide, backend));
    assert_same("wide, adapted", with_adapter, &texts(&[21, 4], wide_words), &devices);
    // More tokens than a weight's gradient takes at a time.
    let fast: Vec<_> = devices.into_iter().filter(Device::is_fast).collect();
    if fast.len() > 1 {
        assert_same("wide", plain, &texts(&[90, 3, 180, 41], wide_words), &fast);
    }
}

/// A model whose weights never change computes what it would if they did, and an adapter beside it
/// has the same gradient.
fn frozen_weights(trial: &Trial) {
    let (device, texts) = (trial.device(), texts(&[20, 2, 33], words));
    for family in FAMILIES.into_iter().filter(|name| !name.ends_with(ADAPTED)) {
        let [trained, frozen] =
            [load, load_frozen].map(|load| load(&checkpoint(family), device.backend()));
        let scores = [&trained, &frozen].map(|model| score_bits(model, &texts, 0.7));
        assert!(scores[0] == scores[1], "{family}");
        let gradients = [trained, frozen].map(|model| gradient(&adapted(model), &texts));
        assert!(gradients[0] == gradients[1], "{family}");
    }
}

fn gradient(model: &Model, texts: &[Text]) -> Vec<Vec<u32>> {
    let mut gradient = Gradient::zeros(model).unwrap();
    gradient_bits(model, &mut gradient, &[(texts, TapeKind::Activations)], 1, 0.7)
}

/// Texts of these lengths.
fn texts(lengths: &[usize], words: fn(u64, usize) -> Vec<u32>) -> Vec<Text> {
    (0..)
        .zip(lengths)
        .map(|(seed, &len)| Text { tokens: words(seed, len), score_from: 1 })
        .collect()
}

/// Scores and gradients of these texts are the same on all devices.
fn assert_same(
    name: &str,
    load: impl Fn(&Arc<dyn Backend>) -> Model,
    texts: &[Text],
    devices: &[Device<'_>],
) {
    let results = devices.iter().map(|device| {
        let model = load(device.backend());
        (score_bits(&model, texts, 0.7), gradient(&model, texts))
    });
    let results: Vec<_> = results.collect();
    for (device, (scores, gradient)) in devices.iter().zip(&results).skip(1) {
        assert!(*scores == results[0].0, "scores on {}: {name}", device.name());
        assert!(*gradient == results[0].1, "gradient on {}: {name}", device.name());
    }
}

//! Neither the number of threads nor the instruction set matters.

use crate::common::oracle;
use crate::inputs::{Text, WIDE_VOCABULARY, gradient_bits, noise, score_bits, write_wide};
use isentrope_kernels::{Cpu, Isa};
use isentrope_model::{Gradient, Keep, Model};
use std::path::Path;
use std::sync::Arc;

#[test]
fn threads_change_nothing() {
    let fastest = Isa::available()[0];
    let machines = [(fastest, 1), (fastest, 2), (fastest, 5)];
    let wide = tempfile::tempdir().unwrap();
    write_wide(&wide.path().join("wide"));
    // Beyond the tokens that a weight's gradient takes at a time.
    assert_same(&wide.path().join("wide"), &[90, 3, 180, 41], WIDE_VOCABULARY, &machines);
    assert_same(&oracle("qwen2-layer-types"), &[20, 2, 33], 61, &machines);
}

#[test]
fn instruction_sets_change_nothing() {
    let machines: Vec<_> = Isa::available().into_iter().map(|isa| (isa, 2)).collect();
    let wide = tempfile::tempdir().unwrap();
    write_wide(&wide.path().join("wide"));
    assert_same(&wide.path().join("wide"), &[21, 4], WIDE_VOCABULARY, &machines);
    for family in ["llama-biases", "llama-mqa", "llama-yarn", "mistral-sliding", "qwen3-untied"] {
        assert_same(&oracle(family), &[20, 2, 33], 61, &machines);
    }
}

/// Scores and gradients of texts of these lengths are the same on all machines.
fn assert_same(dir: &Path, lengths: &[usize], vocabulary: u32, machines: &[(Isa, usize)]) {
    let texts: Vec<Text> = (0..)
        .zip(lengths)
        .map(|(seed, &len)| {
            let word = |x: &f32| ((x + 1.0) / 2.0 * vocabulary as f32) as u32;
            Text { tokens: noise(seed, len).iter().map(word).collect(), score_from: 1 }
        })
        .collect();
    let results = machines.iter().map(|&(isa, threads)| {
        let model = Model::load(dir, Arc::new(Cpu::new(isa, threads).unwrap())).unwrap();
        let scores = score_bits(&model, &texts, 0.7);
        let mut gradient = Gradient::zeros(&model).unwrap();
        let gradient = gradient_bits(&model, &mut gradient, &[(&texts, Keep::Activations)], 0.7);
        (isa, threads, scores, gradient)
    });
    let results: Vec<_> = results.collect();
    for (isa, threads, scores, gradient) in &results[1..] {
        assert!(*scores == results[0].2, "scores on {isa} with {threads} threads: {}", dir.display());
        assert!(*gradient == results[0].3, "gradient on {isa} with {threads} threads: {}", dir.display());
    }
}

//! Counts how often the host waits for the GPU in an update.

use crate::counting::Counts;
use isentrope_budget::PassLimits;
use isentrope_cuda::{Cuda, Dtype};
use isentrope_kernels::{Role, SamplingMasks};
use isentrope_model::{Model, Scores, Sequence, TapeKind};
use isentrope_train::learner::{Coefficients, Learner, OnPolicy, UpdateBatch};
use isentrope_train::optimizer::Optimizer;
use isentrope_train::ranks::TrainingRanks;
use isentrope_train::settings::{OptimizerSettings, POLICY_OPTIMIZER};
use serde_json::json;
use std::fs;
use std::sync::Arc;

const SEQUENCES: usize = 9;
const LENGTH: usize = 64;

/// The passes before the loss run one behind the other; then their scores are read together. The
/// passes behind the loss never wait, and upload a few numbers a token, no rows of features.
#[test]
fn an_update_waits_for_its_scores_alone() {
    let config = json!({
        "model_type": "qwen2", "hidden_size": 256, "intermediate_size": 256,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 1000, "tie_word_embeddings": true, "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-6,
    });
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    let device = Arc::new(Counts::default());
    let token = |s: usize, i: usize| ((s * LENGTH + i) % 1000) as u32;
    let tokens: Vec<Vec<u32>> =
        (0..SEQUENCES).map(|s| (0..LENGTH).map(|i| token(s, i)).collect()).collect();
    let sequences: Vec<Sequence<'_>> =
        tokens.iter().map(|tokens| Sequence { tokens, score_from: 1 }).collect();
    let targets = SEQUENCES * (LENGTH - 1);
    let sampled = || {
        let numbers = vec![0.0; LENGTH - 1];
        let [logprobs, entropies, log_masses] = [numbers.clone(), numbers.clone(), numbers];
        Some(OnPolicy { scores: Scores { logprobs, entropies, log_masses }, slots: None })
    };
    let masks = SamplingMasks::default();
    for is_on_policy in [false, true] {
        for part in [0, 1, 2, 5, 100] {
            let cuda = Arc::new(Cuda::new(device.clone(), Dtype::Bf16));
            let model = Model::zeros(directory.path(), cuda.clone()).unwrap();
            let least = model.layout.tape_bytes_per_token(&*cuda, TapeKind::BlockInputs);
            let limits = PassLimits {
                micro_batch_tokens: 3 * LENGTH,
                tape_bytes: part * least * 3 * LENGTH,
                activation_slots: 0,
                by_layer: false,
                offloads_inputs: false,
                weights_in_slices: false,
            };
            let (ranks, settings) = (TrainingRanks::alone(1), OptimizerSettings::default());
            let optimizer =
                Optimizer::new(&model, POLICY_OPTIMIZER, settings, &ranks, Role::Moment).unwrap();
            let mut learner = Learner::new(model, optimizer, limits, ranks).unwrap();
            learner.allocate_gradient().unwrap();
            let on_policy: Vec<_> =
                (0..SEQUENCES).map(|_| is_on_policy.then(sampled).flatten()).collect();
            let batch = UpdateBatch {
                sequences: &sequences,
                masks: &masks,
                idle: &[false; SEQUENCES],
                on_policy: &on_policy,
                temperature: 1.0,
                teacher: None,
            };
            device.take_stalls();
            learner.score(&sequences, 1.0).unwrap();
            assert_eq!(device.take_stalls()[0], 1, "scores alone");
            let case = format!("on-policy: {is_on_policy}, room: {part}");
            device.take_stalls();
            let forward = learner.forward(batch).unwrap();
            let [stalls, _] = device.take_stalls();
            assert_eq!(stalls, usize::from(!is_on_policy), "{case}");
            let derivatives = Coefficients {
                d_logprobs: vec![1.0; targets],
                d_entropies: vec![0.0; targets],
                ..Coefficients::default()
            };
            device.take();
            learner.backward(forward, &derivatives).unwrap();
            let ([launches, _, _, waits, behind], [_, bytes]) =
                (device.take(), device.take_stalls());
            assert!(launches > 100 && waits == 0 && behind == 0, "{case}: {waits} {behind}");
            assert!(bytes < 256 * targets, "{case}: {bytes} bytes for {targets} targets");
        }
    }
}

//! Room for the recurrent states of hybrid models.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_kernels::{Cpu, Isa};
use isentrope_model::{KvCache, Model};
use isentrope_rollout::{Engine, Key, Limits, Request, Sampling};
use std::fs;
use std::sync::Arc;

/// A model whose states take as much memory as many pages.
fn model() -> Model {
    let config = r#"{"model_type": "qwen3_5_text", "hidden_size": 16, "intermediate_size": 16,
        "num_hidden_layers": 2, "full_attention_interval": 2, "num_attention_heads": 1,
        "num_key_value_heads": 1, "head_dim": 16, "linear_num_key_heads": 1,
        "linear_num_value_heads": 2, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
        "vocab_size": 32, "max_position_embeddings": 64}"#;
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), config).unwrap();
    let cpu = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
    Model::initialize(dir.path(), 1, cpu).unwrap()
}

#[test]
fn pages_of_short_sequences_bring_a_state_for_each() {
    let model = model();
    let (backend, layout) = (&*model.backend, &model.layout);
    let pages = layout.pages_of_sequence(backend, 8);
    assert!(pages > 10 && layout.least_pages(backend) == 2 * pages, "{pages}");
    for count in [2, 5, 24] {
        let pages = count * pages;
        let cache = KvCache::new(&model, pages).unwrap();
        assert_eq!((cache.free_states(), cache.free_pages()), (count, pages));
        let positions = (pages * backend.page_positions()) as f64;
        let taken = positions * layout.cache_bytes_per_position(backend)
            + (count * layout.state_bytes(backend)) as f64;
        assert!(taken <= (pages * KvCache::page_bytes(&model)) as f64, "{taken}");
    }
}

/// Five responses, to one prompt and to several, in the memory that is planned for five; and in the
/// smallest, where they wait for each other.
#[test]
fn responses_run_at_once_where_their_memory_was_planned() {
    let model = model();
    let pages = 5 * model.layout.pages_of_sequence(&*model.backend, 8);
    let cache_bytes = pages * KvCache::page_bytes(&model);
    for (cache_bytes, samples, at_once) in
        [(cache_bytes, 1, 5), (cache_bytes, 5, 5), (0, 1, 2), (0, 5, 2)]
    {
        let limits = Limits { cache_bytes, ..Limits::default() };
        let mut engine = Engine::new(&model, None, limits).unwrap();
        let sampling =
            Arc::new(Sampling { max_tokens: 5, ignore_eos: true, ..Sampling::default() });
        for prompt in 0..5 / samples {
            let request = Request {
                key: Key { seed: 1, step: 2, prompt: prompt as u64 },
                prompt: vec![3, 4, 5],
                samples: (0..samples).collect(),
                sampling: sampling.clone(),
                cache_activations: false,
            };
            engine.submit(request).unwrap();
        }
        let mut most = 0;
        while !engine.is_idle() {
            engine.step().unwrap();
            most = most.max(engine.running());
        }
        assert_eq!(most, at_once, "{samples} samples in {cache_bytes} bytes");
    }
}

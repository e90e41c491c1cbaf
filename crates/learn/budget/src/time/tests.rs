use super::*;
use crate::memory::{Demand, MemorySettings, Plan};
use crate::test_support::{cpu, layout};
use isentrope_model::ModelConfig;

fn workload() -> Workload {
    let sampled = Tokens::of_groups(&[None], 8.0, 4.0, 20.0, 100.0);
    Workload {
        ranks: 1,
        steps: 30,
        sampled,
        prefilled: Tokens::of_prefill(&[None], 8.0, 20.0),
        decoded: Tokens::of_decoding(&[None], 8.0, 4.0, 20.0, 100.0),
        updates: 1.0,
        sampled_at_a_time: 32,
        trained: sampled,
        passes: (1.0, 1.0),
        spared: 1.0,
        evaluated: Tokens::of_groups(&[None], 10.0, 2.0, 20.0, 100.0),
        held_out: Tokens::default(),
        evaluations: 4,
        longest: 100,
        has_turns: false,
    }
}

const NOTHING: KeptShares = KeptShares { of_sampling: 0.0, of_passes: 1.0 };

#[test]
fn time_is_work_over_speed() {
    let (layout, workload) = (layout(), workload());
    let forward = layout.forward_flops(workload.sampled);
    // One second to sample, a forward pass of an update in half.
    let speed = Speed { sampling: forward, updates: 2.0 * forward };
    let near = |time: Duration, seconds: f64| {
        assert!((time.as_secs_f64() - seconds).abs() < 1e-5 * seconds, "{time:?} {seconds}");
    };
    let estimate = workload.estimate(&layout, NOTHING, speed);
    let evaluation = layout.forward_flops(workload.evaluated) / forward;
    near(estimate.step, 2.5);
    near(estimate.evaluation, evaluation);
    near(estimate.run, 30.0 * 2.5 + 4.0 * evaluation);
    let step = |workload: Workload, kept| workload.estimate(&layout, kept, speed).step;
    // Activations kept from sampling spare the forward pass but for the head, as far as there is
    // memory for them.
    let blocks = layout.forward_flops(Tokens { scored: 0.0, ..workload.trained }) / forward;
    near(step(workload, KeptShares { of_sampling: 0.5, ..NOTHING }), 2.5 - 0.25 * blocks);
    // Without memory for activations of its own, a backward pass needs another forward pass.
    near(step(workload, KeptShares { of_passes: 0.0, ..NOTHING }), 3.0);
    near(step(Workload { ranks: 4, ..workload }, NOTHING), 2.5 / 4.0);
    // A teacher like the policy goes forward once more.
    let scored = workload.trained;
    near(step(workload.with_scoring_by(&layout, &layout, scored, [1.0, 0.0]), NOTHING), 3.0);
    let held_out =
        Workload { held_out: workload.sampled, evaluated: Tokens::default(), ..workload };
    near(held_out.estimate(&layout, NOTHING, speed).evaluation, 0.5);
    let shown = estimate.to_string();
    for part in [
        "time: about 2 s a step, 0.6 s an evaluation, 78 s for the whole run",
        "if responses take all of their 100 tokens",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn a_run_without_end_has_a_time() {
    let workload = Workload { steps: u64::MAX, ..workload() };
    let estimate = workload.estimate(&layout(), NOTHING, Speed { sampling: 1e9, updates: 0.0 });
    assert!(estimate.to_string().contains(" 6e11 years for the whole run"), "{estimate}");
    assert!(!estimate.to_string().contains("left out"), "{estimate}");
}

#[test]
fn the_time_of_an_environment_is_left_out_and_said_to_be() {
    let workload = Workload { has_turns: true, ..workload() };
    let estimate = workload.estimate(&layout(), NOTHING, Speed { sampling: 1e9, updates: 1e9 });
    assert!(estimate.to_string().ends_with("several turns take longer, is left out"), "{estimate}");
}

#[test]
fn speed_is_measured() {
    let Speed { sampling, updates } = Speed::measure(&cpu(), &layout(), 4).unwrap();
    assert!(sampling > 1e6 && updates > 1e6, "{sampling} {updates}");
    assert!(sampling < 1e14 && updates < 1e14, "{sampling} {updates}");
}

#[test]
fn times_are_told_in_their_units() {
    for (seconds, text) in [
        (0.04, "40 ms"),
        (3.4, "3 s"),
        (89.0, "89 s"),
        (600.0, "10 min"),
        (7300.0, "2 h"),
        (864_000.0, "10 days"),
        (86_400_000.0, "3 years"),
        (378_700_000.0, "12 years"),
        (3.156e13, "1e6 years"),
    ] {
        assert_eq!(human(Duration::from_secs_f64(seconds)), text);
    }
}

/// By hand, of a model of one block: 32 features, 2 heads of 16 and one of keys, an MLP of 64, 32
/// tokens.
#[test]
fn a_step_is_at_least_its_flops_and_its_bytes_over_the_peaks() {
    let config = serde_json::json!({
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
    });
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let layout = Layout::new(&ModelConfig::read(dir.path()).unwrap());
    let cpu = cpu();
    // Two prompts of 4 tokens, three responses of 5 to each; one update goes once forward and once
    // backward through them.
    let workload = Workload {
        ranks: 1,
        sampled: Tokens::of_groups(&[None], 2.0, 3.0, 4.0, 5.0),
        prefilled: Tokens::of_prefill(&[None], 2.0, 4.0),
        decoded: Tokens::of_decoding(&[None], 2.0, 3.0, 4.0, 5.0),
        updates: 1.0,
        trained: Tokens::of_groups(&[None], 6.0, 1.0, 4.0, 5.0),
        passes: (1.0, 1.0),
        longest: 5,
        ..Workload::default()
    };
    let demand = Demand {
        longest_sampled: 9,
        sampled: 6,
        longest_trained: 9,
        trained: 6,
        loss_tokens: 30,
        ..Demand::default()
    };
    let settings = MemorySettings { micro_batch_tokens: Some(18), ..Default::default() };
    let plan = Plan::new(&cpu, &layout, demand, &settings, 1 << 30).unwrap();
    let cost = workload.cost(&cpu, &layout, NOTHING, &plan);
    // Weights of products: QKV 32 x 64, output 32 x 32, gate and up 32 x 128, down 64 x 32; the
    // head 32 x 32.
    let (block, head) = (2048.0 + 1024.0 + 4096.0 + 2048.0, 1024.0);
    // Four operations for each of the 32 query features and each key that is seen.
    assert_eq!(cost.prefill.flops, 2.0 * block * 8.0 + 4.0 * 32.0 * 20.0);
    assert_eq!(cost.decode.flops, 2.0 * (block * 24.0 + head * 30.0) + 4.0 * 32.0 * 156.0);
    let forward = 2.0 * (block * 54.0 + head * 30.0) + 4.0 * 32.0 * (6.0 * 45.0);
    assert_eq!(cost.updates.flops, 3.0 * forward);
    assert_eq!(cost.optimizer.flops, 0.0);
    // Weights of 4 bytes each, with the two norms of the block, the last one and QKV's bias; the
    // CPU's layouts may have gaps.
    let read = 4.0 * (block + head + 3.0 * 32.0 + 64.0);
    let gaps = |bytes: f64, counted: f64| (bytes / counted - 1.0).abs();
    assert!(gaps(cost.prefill.bytes, read) < 0.1, "{} {read}", cost.prefill.bytes);
    // Four passes of decoding, and keys and values of 16 features for each key that is seen.
    let decode = 4.0 * cost.prefill.bytes + 156.0 * 2.0 * 16.0 * 4.0;
    assert_eq!(cost.decode.bytes, decode);
    // Three passes of 18 tokens, each twice through the weights, and through the gradient to read
    // and to write it.
    let all = read + 4.0 * 1024.0;
    assert!(
        gaps(cost.updates.bytes, 3.0 * (2.0 * read + 2.0 * all)) < 0.1,
        "{}",
        cost.updates.bytes
    );
    // Weights and two moments are read and written, the gradient is read.
    assert!(gaps(cost.optimizer.bytes, 7.0 * all) < 0.1, "{}", cost.optimizer.bytes);

    let peak = Peak { flops: 1000.0, bandwidth: 1e9 };
    let limit = Limit::new(cost, peak);
    let flops = cost.prefill.flops + cost.decode.flops + cost.updates.flops;
    let expected = flops / 1000.0 + cost.optimizer.bytes / 1e9;
    assert!((limit.step().as_secs_f64() - expected).abs() < 1e-6 * expected, "{limit}");
    let shown = limit.to_string();
    for part in ["at least ", "decoding ", "by its arithmetic"] {
        assert!(shown.contains(part), "{shown}");
    }
    let slow = Limit::new(cost, Peak { flops: 1e18, bandwidth: 1e3 });
    let bytes = cost.prefill.bytes + cost.decode.bytes + cost.updates.bytes + cost.optimizer.bytes;
    assert!((slow.step().as_secs_f64() - bytes / 1e3).abs() < 1e-3, "{slow}");
    // Four ranks share the tokens, and each reads the weights.
    let shared = Workload { ranks: 4, ..workload }.cost(&cpu, &layout, NOTHING, &plan);
    assert_eq!(shared.decode.flops, cost.decode.flops / 4.0);
    assert!(shared.decode.bytes > cost.decode.bytes / 2.0);
}

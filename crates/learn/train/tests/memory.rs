//! Memory of updates and of runs, against their plans. The only test of its process, whose memory
//! it reads.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]
#![cfg(target_os = "linux")]

#[path = "memory_runs.rs"]
mod runs;

use isentrope_budget::memory::{
    Demand, MemorySettings, OVERHEAD, ParameterSets, Plan, Shard, TeacherBytes,
};
use isentrope_kernels::{Cpu, Isa, Role, SamplingMasks};
use isentrope_model::adapter::{AdapterConfig, Targets};
use isentrope_model::{Model, Sequence};
use isentrope_ranks::threads::worlds;
use isentrope_ranks::{Settings, Watch, World};
use isentrope_train::learner::{Coefficients, Learner, UpdateBatch, UpdateTeacher};
use isentrope_train::optimizer::Optimizer;
use isentrope_train::ranks::TrainingRanks;
use isentrope_train::settings::{OptimizerSettings, POLICY_OPTIMIZER};
use std::process::Command;
use std::sync::Arc;
use std::{env, fs, thread};

const VOCABULARY: usize = 37_500;
const SEQUENCES: usize = 6;
const TOKENS: usize = 700;
/// Tokens that only the teacher of an exact divergence is shown.
const SHOWN: usize = 200;

/// A model of this width whose logits are larger than anything else, with long keys.
fn model(hidden: usize, backend: Arc<Cpu>) -> Model {
    let config = format!(
        r#"{{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": {hidden}, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 128,
        "vocab_size": {VOCABULARY}, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": true}}"#
    );
    initialize(&config, backend)
}

/// A model whose experts take more than anything else on the way back.
fn with_experts(backend: Arc<Cpu>) -> Model {
    let config = r#"{"model_type": "qwen3_moe", "hidden_size": 32, "moe_intermediate_size": 1500,
        "num_experts": 16, "num_experts_per_tok": 4, "norm_topk_prob": true,
        "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
        "vocab_size": 512, "max_position_embeddings": 1024}"#;
    initialize(config, backend)
}

/// A model whose linear attention takes more than anything else on the way back.
fn with_states(backend: Arc<Cpu>) -> Model {
    let config = r#"{"model_type": "qwen3_5_text", "hidden_size": 32, "intermediate_size": 32,
        "num_hidden_layers": 2, "full_attention_interval": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 16, "linear_num_key_heads": 4,
        "linear_num_value_heads": 8, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
        "vocab_size": 512, "max_position_embeddings": 1024}"#;
    initialize(config, backend)
}

/// A model whose gradient takes more than the block inputs of all passes.
fn with_layers(backend: Arc<Cpu>) -> Model {
    let config = r#"{"model_type": "qwen2", "hidden_size": 256, "intermediate_size": 2048,
        "num_hidden_layers": 16, "num_attention_heads": 4, "num_key_value_heads": 4,
        "vocab_size": 512, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": false}"#;
    initialize(config, backend)
}

fn initialize(config: &str, backend: Arc<Cpu>) -> Model {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), config).unwrap();
    Model::initialize(dir.path(), 1, backend).unwrap()
}

/// A field of the process's status, in bytes.
fn status(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// Names the case that a process is for.
const CASE: &str = "ISENTROPE_TEST_MEMORY";

/// Each case has a process of its own, since the peak of a process is of all that came before.
#[test]
#[ignore = "deep: measures the memory of dozens of updates"]
fn updates_and_runs_take_no_more_memory_than_was_planned() {
    let cases = [
        "all weights",
        "adapters",
        "an exact divergence",
        "experts",
        "adapters of experts",
        "states",
        "slices of the gradient",
        "slices of the weights",
        "run of all weights",
        "run of adapters",
    ];
    let before = status("VmRSS");
    let plain = |hidden| move |cpu| model(hidden, cpu);
    match env::var(CASE).as_deref() {
        Ok("all weights") => update(before, plain(64), plain(96)),
        Ok("adapters") => update(before, with_adapters, plain(96)),
        Ok("an exact divergence") => update_by(before, true, plain(64), plain(96)),
        Ok("experts") => update(before, with_experts, with_experts),
        Ok("adapters of experts") => update(before, with_adapted_experts, with_experts),
        Ok("states") => update(before, with_states, with_states),
        Ok("slices of the gradient") => update_of_ranks(before, Shard::Gradients),
        Ok("slices of the weights") => update_of_ranks(before, Shard::Weights),
        Ok("run of all weights") => runs::run(false),
        Ok("run of adapters") => runs::run(true),
        _ => {
            let program = env::current_exe().unwrap();
            let run = |case| Command::new(&program).arg("--ignored").env(CASE, case).output();
            let failed = cases.map(|case| run(case).unwrap()).into_iter();
            let failed = failed.filter(|output| !output.status.success());
            let told: Vec<_> =
                failed.map(|output| String::from_utf8(output.stdout).unwrap()).collect();
            assert!(told.is_empty(), "{}", told.concat());
        }
    }
}

fn with_adapters(cpu: Arc<Cpu>) -> Model {
    adapted(model(64, cpu), Targets::AllLinear)
}

fn with_adapted_experts(cpu: Arc<Cpu>) -> Model {
    let modules = ["gate_proj", "up_proj", "down_proj"].map(str::to_owned).to_vec();
    adapted(with_experts(cpu).base(), Targets::Modules(modules))
}

fn adapted(base: Model, targets: Targets) -> Model {
    let config = AdapterConfig::new(8, 16.0, false, targets);
    let layout = config.layout(&base.layout).unwrap();
    base.with_new_adapter(layout, 1).unwrap()
}

fn update(before: usize, policy: impl Fn(Arc<Cpu>) -> Model, teacher: impl Fn(Arc<Cpu>) -> Model) {
    update_by(before, false, policy, teacher);
}

/// `is_taught`: the loss has the exact divergence from the teacher.
fn update_by(
    before: usize,
    is_taught: bool,
    policy: impl Fn(Arc<Cpu>) -> Model,
    teacher: impl Fn(Arc<Cpu>) -> Model,
) {
    // Passes of several sizes, whose activations are kept.
    let settings = MemorySettings { micro_batch_tokens: Some(2 * TOKENS), ..Default::default() };
    let sets = ParameterSets { shards: 3, ..ParameterSets::default() };
    let ranks = TrainingRanks::alone(3);
    let plan = updates(ranks, sets, &settings, SEQUENCES, is_taught, policy, teacher);
    assert_planned(before, &[plan]);
}

/// Two ranks, which are threads here, share the gradient of a model of many layers, and perhaps its
/// weights, in hardly more than the least memory.
fn update_of_ranks(before: usize, shard: Shard) {
    let settings = Settings {
        threads: 1,
        program: "isentrope of a test".into(),
        watch: Watch { silent: None, ..Watch::default() },
        tell: Arc::new(|_| {}),
    };
    let memory = MemorySettings { budget_gib: Some(0.5), ..Default::default() };
    let sets = ParameterSets { ranks: 2, shard, ..ParameterSets::default() };
    let rank = |world: World| {
        let ranks = TrainingRanks::new(Arc::new(world), 2).unwrap();
        updates(ranks, sets, &memory, SEQUENCES / 3, false, with_layers, with_states)
    };
    let plans = thread::scope(|scope| {
        let worlds = worlds(2, &settings).unwrap().0.into_iter();
        let ranks: Vec<_> = worlds.map(|world| scope.spawn(|| rank(world))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<Plan>>()
    });
    assert!(plans.iter().all(|plan| plan.by_layer));
    assert_planned(before, &plans);
}

/// Two updates as one of these ranks, and their plan.
fn updates(
    ranks: TrainingRanks,
    sets: ParameterSets,
    settings: &MemorySettings,
    count: usize,
    is_taught: bool,
    policy: impl Fn(Arc<Cpu>) -> Model,
    teacher: impl Fn(Arc<Cpu>) -> Model,
) -> Plan {
    let cpu = Arc::new(Cpu::new(Isa::available()[0], 4).unwrap());
    let (model, teacher) = (policy(cpu.clone()), teacher(cpu));
    let vocabulary = model.config.vocab_size;
    let demand = Demand {
        longest_trained: TOKENS + if is_taught { SHOWN } else { 0 },
        trained: count,
        waiting_tokens: count * TOKENS,
        loss_tokens: count * TOKENS,
        sets,
        is_taught,
        ..Demand::default()
    };
    let row = teacher.layout.taught_bytes_per_token(&*teacher.backend);
    let of_teacher = TeacherBytes::of(&*teacher.backend, &teacher.layout, demand);
    let of_teacher = of_teacher.with_rows(if is_taught { row } else { 0 });
    let demand = Demand { teacher: of_teacher, ..demand };
    let plan = Plan::new(&*model.backend, &model.layout, demand, settings, 8 << 30).unwrap();
    let optimizer = Optimizer::new(
        &model,
        POLICY_OPTIMIZER,
        OptimizerSettings::default(),
        &ranks,
        Role::Moment,
    )
    .unwrap();
    let mut learner = Learner::new(model, optimizer, plan.passes(), ranks).unwrap();

    let token = |s: usize, i: usize| ((s * 7919 + i * 104_729) % vocabulary) as u32;
    let tokens: Vec<Vec<u32>> =
        (0..count).map(|s| (0..TOKENS - 90 * s).map(|i| token(s, i)).collect()).collect();
    let sequences: Vec<Sequence<'_>> =
        tokens.iter().map(|tokens| Sequence { tokens, score_from: 1 }).collect();
    // Behind longer prompts a pass may be several of the teacher, whose rows are joined.
    let texts = tokens.iter().map(|tokens| [&[7; SHOWN][..], tokens].concat());
    let texts: Vec<Vec<u32>> = texts.collect();
    let shown: Vec<Sequence<'_>> =
        texts.iter().map(|tokens| Sequence { tokens, score_from: 1 + SHOWN }).collect();
    for _ in 0..2 {
        // As in a run whose plan is tight: the teacher, then the update.
        teacher.backend.trim();
        let taught = learner.score_with(&teacher, &sequences, 1.0).unwrap();
        assert!(taught.logprobs.iter().all(|logprob| logprob.is_finite()));
        teacher.backend.trim();
        let (masks, on_policy) = (SamplingMasks::default(), vec![None; count]);
        let batch = UpdateBatch {
            sequences: &sequences,
            masks: &masks,
            idle: &vec![false; count],
            on_policy: &on_policy,
            temperature: 1.0,
            teacher: is_taught
                .then_some(UpdateTeacher { model: Some(&teacher), sequences: &shown }),
        };
        let has_experts = learner.model.config.experts.is_some();
        let balance = has_experts.then(|| learner.router_balance(&sequences).unwrap());
        let forward = learner.forward(batch).unwrap();
        let ones = vec![1.0; forward.scores.logprobs.len()];
        let derivatives = Coefficients {
            d_logprobs: ones.clone(),
            d_entropies: ones.clone(),
            d_experts: balance.map(|of| of.slopes(1e-2)).unwrap_or_default(),
            d_divergences: if is_taught { ones.clone() } else { Vec::new() },
            ..Coefficients::default()
        };
        learner.backward(forward, &derivatives).unwrap();
        assert!(learner.step(1e-3).unwrap().is_finite());
        // Tracking the theory costs this beside an update.
        let (scores, slopes) = learner.entropy_slopes(&sequences, &masks, 1.0).unwrap();
        assert_eq!(slopes.len(), scores.entropies.len());
        assert!(learner.score(&sequences, 1.0).unwrap().same_bits(&scores));
    }

    plan
}

/// Checks the most memory of this process against the plans of all ranks in it.
fn assert_planned(before: usize, plans: &[Plan]) {
    let of_rank = |plan: &Plan| {
        let of_passes = (plan.tape + plan.working).max(plan.teacher_pass);
        plan.weights + plan.gradient + plan.moments + of_passes
    };
    let (taken, planned) = (status("VmHWM") - before, plans.iter().map(of_rank).sum::<usize>());
    // The program's part of a plan has the scratch of threads, and what buffers are rounded up by.
    let planned = planned + OVERHEAD / 8;
    let [taken_mib, planned_mib] = [taken, planned].map(|bytes| bytes >> 20);
    let summary = format!("{taken_mib} MiB were taken, and {planned_mib} planned: {}", plans[0]);
    assert!(taken <= planned, "{summary}");
    assert!(2 * taken > planned, "{summary}");
}

//! The program on a GPU that is emulated: with f32 it does what it does on the CPU, to the last
//! byte; with bf16 it agrees with itself. The GPU is `examples/emulated.rs`.

use crate::processes::{kill, start, until_reached};
use crate::program::{
    Scratch, array, assert_parts, bits, emulated, failure_last, failure_saying, isentrope, json_of,
    lines_of, parse_lines, spoken, stdout_of, text, token_model,
};
use crate::train_ranks::Launcher;
use crate::training::{
    Bench, EASY, assert_same_results, checkpoint, lines, metrics, succeed, untrained,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Settings of a run that needs little of the emulated GPU, where a fused multiply-add takes
/// nanoseconds.
const SMALL: &str = "run.steps=3 eval.every=3 eval.problems=2 eval.samples=1 checkpoint.every=1 \
                     checkpoint.keep=9";

/// Prompts for models of 61 tokens or more.
fn prompts(scratch: &Scratch) -> (Vec<Value>, String) {
    let prompts: Vec<Value> = [3u32, 18]
        .into_iter()
        .map(
            |count| json!({"tokens": (0..count).map(|t| (t * count + 3) % 61).collect::<Vec<_>>()}),
        )
        .collect();
    let file = scratch.lines("prompts.jsonl", &prompts);
    (prompts, file)
}

/// Responses as lines for `score`.
fn to_score(scratch: &Scratch, prompts: &[Value], generated: &[Value]) -> String {
    let line = |line: &Value| {
        let prompt = array(&prompts[line["id"].as_u64().unwrap() as usize], "tokens");
        let tokens = [prompt, array(line, "tokens")].concat();
        json!({"tokens": tokens, "prompt_tokens": prompt.len(), "logprobs": line["logprobs"]})
    };
    scratch.lines("score.jsonl", &generated.iter().map(line).collect::<Vec<_>>())
}

/// With f32 a model samples and scores the CPU's bytes, with bf16 what is scored is what was
/// sampled.
fn samples_and_scores(name: &str) {
    let scratch = Scratch::new();
    let (prompts, file) = prompts(&scratch);
    let model = token_model(name);
    let generate = format!("generate {model} --prompts {file} -n 2 --max-tokens 6 --top-p 0.95");
    let on_cpu = stdout_of(isentrope(&generate));
    assert_eq!(stdout_of(emulated(&generate)), on_cpu, "{name}");
    let input = to_score(&scratch, &prompts, &parse_lines(&on_cpu));
    let score = format!("score {model} --in {input}");
    assert_eq!(stdout_of(emulated(&score)), stdout_of(isentrope(&score)), "{name}");

    let bf16 = "--device cuda --dtype bf16";
    let (printed, said) = spoken(emulated(format!("{generate} {bf16}")));
    // Who computes is known before the model is loaded, as of a run.
    assert_parts(&said, &["compute all products of matrices"]);
    let generated = parse_lines(&printed);
    let input = to_score(&scratch, &prompts, &generated);
    let scored = lines_of(emulated(format!("score {model} --in {input} {bf16}")));
    for (generated, scored) in generated.iter().zip(&scored) {
        for key in ["logprobs", "entropies"] {
            assert_eq!(bits(generated, key), bits(scored, key), "{name}: {key}");
        }
        assert_eq!(scored["mismatch"]["max"], 0.0, "{name}");
    }
    let logprobs = |lines: &[Value]| -> Vec<u32> {
        lines.iter().flat_map(|line| bits(line, "logprobs")).collect()
    };
    let on_cpu = logprobs(&parse_lines(&on_cpu));
    assert_ne!(on_cpu, logprobs(&generated), "{name}: as if bf16 were f32");
}

#[test]
fn models_sample_and_score() {
    ["llama3", "qwen2-window"].into_iter().for_each(samples_and_scores);
}

#[test]
#[ignore = "deep: seven processes on the emulated GPU"]
fn hybrid_models_sample_and_score() {
    samples_and_scores("qwen3.5");
}

/// Supervised fine-tuning and reinforcement learning with everything that a run carries: metrics,
/// responses and weights are the CPU's, and so is a run that has moved from one to the other and
/// back.
#[test]
#[ignore = "deep: trains whole models on the emulated GPU"]
fn runs_in_f32_are_the_cpus_wherever_they_are_made() {
    for (bench, sets) in [(Bench::sft(), "sft.batch=4"), (Bench::train(), "")] {
        let sets = &format!("{SMALL} {sets}");
        let on_cpu = bench.run("cpu", sets, "");
        let on_gpu = bench.out("gpu");
        succeed(bench.emulated("gpu", sets, "--device cuda"));
        assert_same_results(&on_cpu, &on_gpu);
        let manifest = json_of(&on_gpu.join("manifest.json"));
        let device = &manifest["device"];
        assert_eq!((&device["kind"], &device["gpu"]["name"]), (&json!("cuda"), &json!("emulated")));
        assert_eq!(device["gpu"]["uuid"], "GPU-0");
        assert_eq!((&device["dtype"], &device["arithmetic"]), (&json!("f32"), &json!("f32")));

        // A checkpoint holds all that the rest of a run depends on: what comes after it is made
        // again elsewhere.
        let moved = bench.out("moved");
        succeed(bench.command("moved", sets, ""));
        for (kept, on_gpu) in [(1, true), (2, false)] {
            for step in kept + 1..=3 {
                fs::remove_dir_all(checkpoint(&moved, step)).unwrap();
            }
            let command = if on_gpu { Bench::emulated } else { Bench::command };
            succeed(command(&bench, "moved", sets, "--resume"));
            assert_same_results(&on_cpu, &moved);
        }
        // With bf16 it goes on from the same weights, and says that what follows is another
        // arithmetic's.
        let other = format!("{sets} run.steps=4 device.dtype=bf16");
        let said = succeed(bench.emulated("moved", &other, "--resume"));
        assert!(
            said.contains("arithmetic was f32 until step 3 and is bf16-t16 from there on"),
            "{said}"
        );
    }
}

/// Two steps of imitation from scratch, then two of reinforcement learning from there, of models
/// with linear attention and experts: the CPU's bytes. No answer is right, so the entropy bonus
/// alone makes the gradient.
#[test]
#[ignore = "deep: trains whole models on the emulated GPU"]
fn runs_of_hybrids_in_f32_are_the_cpus() {
    let hybrid = json!({
        "model_type": "qwen3_5_text", "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 2, "full_attention_interval": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "linear_num_key_heads": 1,
        "linear_num_value_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
        "vocab_size": 23, "max_position_embeddings": 128, "eos_token_id": 0, "pad_token_id": 0,
    });
    let experts = json!({
        "model_type": "qwen3_5_moe_text", "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2,
    });
    for (differences, balance) in [(json!({}), 0.0), (experts, 0.1)] {
        let (imitation, reinforcement) = (Bench::sft(), Bench::train());
        let model = imitation.out("model");
        fs::create_dir(&model).unwrap();
        for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
            fs::copy(Path::new(&untrained()).join(name), model.join(name)).unwrap();
        }
        let mut config = hybrid.clone();
        config.as_object_mut().unwrap().extend(differences.as_object().unwrap().clone());
        fs::write(model.join("config.json"), config.to_string()).unwrap();

        let steps = "run.steps=2 eval.every=2 eval.problems=2 eval.samples=1 checkpoint.every=1";
        let sets = format!(
            "{steps} sft.batch=4 sft.router_aux_coefficient={balance} model.path={}",
            text(&model)
        );
        let on_cpu = imitation.run("cpu", sets.as_str(), "");
        succeed(imitation.emulated("gpu", sets.as_str(), "--device cuda"));
        assert_same_results(&on_cpu, &imitation.out("gpu"));

        let sets = format!(
            "{steps} rollout.filter=false objective.router_aux_coefficient={balance} \
             model.path={}",
            text(&checkpoint(&on_cpu, 2))
        );
        let on_cpu = reinforcement.run("cpu", sets.as_str(), "");
        succeed(reinforcement.emulated("gpu", sets.as_str(), "--device cuda"));
        assert_same_results(&on_cpu, &reinforcement.out("gpu"));
        for line in &metrics(&on_cpu)[1..] {
            assert!(line["grad/norm"].as_f64().unwrap() > 0.0, "{line}");
            assert_eq!(line.get("router/entropy").is_some(), balance > 0.0, "{line}");
        }
    }
}

/// With bf16 a run learns, repeats itself, and goes on after SIGKILL as if nothing had happened.
#[test]
#[ignore = "deep: trains whole models on the emulated GPU"]
fn a_run_in_bf16_learns_and_survives_a_kill() {
    let scratch = Scratch::new();
    let model = untrained();
    let recipe = format!(
        "run.steps = 50\nmodel.path = {model:?}\nmodel.from_scratch = true\n[device]\nkind = \"cuda\"\ndtype = \"bf16\"\n\
         [sft]\nbatch = 8\nmax_tokens = 64\n[optimizer]\nlearning_rate = 1e-2\nwarmup_steps = 2\n[eval]\nevery = 0\n\
         [checkpoint]\nevery = 10\nkeep = 9\n{EASY}"
    );
    let bench = Bench::new(scratch, "sft", &recipe);
    let whole = bench.out("whole");
    succeed(bench.emulated("whole", "", ""));
    let losses: Vec<f64> =
        metrics(&whole).iter().filter_map(|line| line["sft/loss"].as_f64()).collect();
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (first, last) = (mean(&losses[..4]), mean(&losses[losses.len() - 4..]));
    // A guess among 23 tokens costs 3.1 nats.
    assert!(first > 2.0 && last < 0.6 * first, "the loss went from {first} to {last}");
    let manifest = json_of(&whole.join("manifest.json"));
    assert_eq!(manifest["device"]["arithmetic"], "bf16-t16");
    assert_eq!(manifest["device"]["products"], json!({"library": null, "kinds": []}));

    let killed = bench.out("killed");
    for step in [2, 21] {
        let mut child = start(bench.emulated("killed", "", "--resume"));
        until_reached(&mut child, || lines(&killed) > step);
        assert!(kill(&mut child), "it had ended");
    }
    succeed(bench.emulated("killed", "", "--resume"));
    assert_same_results(&whole, &killed);
}

/// Reinforcement learning in bf16: the ratio of a rollout's first update is 1 for every token,
/// since what is trained is what has sampled; micro-batches change nothing.
#[test]
#[ignore = "deep: trains whole models on the emulated GPU"]
fn what_trains_in_bf16_is_what_has_sampled() {
    let bench = Bench::train();
    let sets = &format!(
        "{SMALL} update.prompts=4 update.epochs=1 device.dtype=bf16 eval.every=0 run.steps=2"
    );
    succeed(bench.emulated("whole", sets, ""));
    let small = format!("{sets} memory.micro_batch_tokens=1");
    succeed(bench.emulated("parts", &small, ""));
    assert_same_results(&bench.out("whole"), &bench.out("parts"));
    for line in &metrics(&bench.out("whole"))[1..] {
        assert_eq!(
            (&line["policy/ratio_max"], &line["policy/log_ratio_abs"]),
            (&json!(1.0), &json!(0.0)),
            "{line}"
        );
        assert!(line["grad/norm"].as_f64().unwrap() > 0.0, "{line}");
    }
}

#[test]
fn a_device_that_cannot_be_used_is_a_sentence() {
    let scratch = Scratch::new();
    let (_, file) = prompts(&scratch);
    let model = token_model("qwen3");
    let with =
        |flags: &str| emulated(format!("generate {model} --prompts {file} --max-tokens 2 {flags}"));
    // A flag, a variable, and parts of the sentence.
    for (flags, name, value, parts) in [
        ("--device cuda:1", "TZ", "", &["no GPU 1", "doctor", "--device cpu"][..]),
        ("--device cpu --dtype bf16", "TZ", "", &["--dtype is bf16", "the device is the CPU"]),
        ("--device cuda", "ISENTROPE_ISA", "mmx", &["mmx"]),
        ("--device cuda --threads 0", "TZ", "", &["--threads: "]),
        ("", "ISENTROPE_DEVICE", "tpu", &["ISENTROPE_DEVICE is \"tpu\"", "cuda:N"]),
        ("--device cuda", "ISENTROPE_EMULATED_GPUS", "", &["no GPU can be used", "taken away"]),
        ("--dtype bf16", "ISENTROPE_EMULATED_GPUS", "", &["only a GPU", "--install-cuda"]),
    ] {
        failure_saying(with(flags).env(name, value), parts);
    }
    let without = |flags: &str| spoken(with(flags).env("ISENTROPE_EMULATED_GPUS", "")).1;
    assert_parts(&without(""), &["note: computing on the CPU, since"]);
    assert!(!without("--device cpu").contains("note"));
    // The flag is stronger than the environment, and that than the recipe.
    succeed(with("--device cpu").env("ISENTROPE_DEVICE", "cuda:7"));
    let bench = Bench::sft();
    let on_gpu = |flags: &str, device: &str| {
        let mut dry = bench.emulated("run", "device.kind=cuda", format!("--dry-run {flags}"));
        stdout_of(dry.env("ISENTROPE_DEVICE", device)).contains("computing on cuda:0")
    };
    assert!(on_gpu("", "") && !on_gpu("--device cpu", "") && !on_gpu("", "cpu"));
}

#[test]
fn too_little_memory_on_the_device_is_a_sentence() {
    let scratch = Scratch::new();
    let model = text(&crate::text_model::text_model(&scratch, "model"));
    let prompt = json!({"tokens": (0..200u32).collect::<Vec<_>>()});
    let file = scratch.lines("prompts.jsonl", &[prompt]);
    let mut ended = BTreeSet::new();
    for kib in ["1", "80", "140", "400"] {
        let mut command = emulated(format!("generate {model} --prompts {file} --max-tokens 2"));
        command.env("ISENTROPE_EMULATED_MEMORY", kib);
        if command.output().unwrap().status.success() {
            ended.insert("well");
            continue;
        }
        let said = failure_last(&mut command, &["iB"]);
        let is_early = said.contains("the weights take");
        assert_eq!(is_early, said.contains("(--device cpu)"), "{said}");
        ended.insert(if is_early { "before loading" } else { "in a pass" });
    }
    assert_eq!(ended, BTreeSet::from(["before loading", "in a pass", "well"]));
    let bench = Bench::sft();
    let mut dry = bench.emulated("run", "run.steps=2", "--dry-run");
    let parts = ["error: the run needs at least", "(on cuda:0, ", "(--device cpu)"];
    failure_last(dry.env("ISENTROPE_EMULATED_MEMORY", "4000"), &parts);
}

/// Ranks of a job, one on the CPU and one on the GPU, or all on the one GPU: the bytes of a run
/// alone.
#[test]
#[ignore = "deep: starts ranks by real MPI launchers"]
fn ranks_on_different_devices_train_the_same_in_f32() {
    let bench = Bench::sft();
    let sets = &format!("{SMALL} sft.batch=4 sft.shards=2");
    let alone = bench.run("alone", sets, "");
    for (i, launcher) in Launcher::installed().iter().enumerate() {
        let jobs = [
            ("mixed", [(1, "ISENTROPE_DEVICE=cpu"), (1, "ISENTROPE_DEVICE=cuda")]),
            ("shared", [(1, "ISENTROPE_DEVICE=auto"), (1, "ISENTROPE_DEVICE=cuda:0")]),
        ];
        for (name, kinds) in jobs.into_iter().take(if launcher.is_tcp() { 2 } else { 1 }) {
            let out = format!("{name}-{i}");
            let mut command = bench.emulated(&out, sets, "");
            command.env_remove("ISENTROPE_DEVICE");
            succeed(launcher.jobs(&kinds, &command));
            assert_same_results(&alone, &bench.out(&out));
        }
    }
}

/// The runs of a sweep compute on its device.
#[test]
#[ignore = "deep: trains whole models on the emulated GPU"]
fn a_sweep_hands_its_device_on() {
    let bench = Bench::sft();
    let text = "command = \"sft\"\nbase = \"recipe.toml\"\nset.run.steps = 2\nset.sft.batch = 2\n\
                set.eval.every = 0\n[axes]\nseed = { key = \"run.seed\", values = [1, 2] }\n";
    let file = bench.scratch.file("sweep.toml", text);
    let sweep = |out: &str, flags: &str| {
        format!("sweep {file} --threads 1 --out {} {flags}", bench.scratch.path(out))
    };
    let on = |gpus: &str, line: String| {
        let mut command = emulated(line);
        command.env("ISENTROPE_EMULATED_GPUS", gpus);
        command
    };
    succeed(isentrope(sweep("cpu", "")));
    succeed(on("a,b", sweep("gpu", "--device cuda")));
    // All is done: what has come of it can be shown where there is no GPU.
    succeed(on("", sweep("gpu", "--device cuda:0")));
    let (on_cpu, on_gpu) = (bench.out("cpu"), bench.out("gpu"));
    let uuid = |run: &Path| json_of(&run.join("manifest.json"))["device"]["gpu"]["uuid"].clone();
    // The runs that begin at once have a GPU each, and all of its memory.
    for (seed, gpu) in [("1", "GPU-a"), ("2", "GPU-b")] {
        assert_same_results(&on_cpu.join(seed), &on_gpu.join(seed));
        assert_eq!(uuid(&on_gpu.join(seed)), gpu);
    }
    // One that is named is the only one.
    succeed(on("a,b", sweep("named", "--device cuda:1 --set run.steps=1")));
    for seed in ["1", "2"] {
        assert_eq!(uuid(&bench.out("named").join(seed)), "GPU-b");
    }
    // A run that does not fit names its GPU.
    let mut small = emulated(sweep("none", "--device cuda --dry-run"));
    let parts = ["the run needs at least", "(on cuda:0, ", "(--device cpu)"];
    failure_saying(small.env("ISENTROPE_EMULATED_MEMORY", "4000"), &parts);
}

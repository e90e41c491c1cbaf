//! metrics.md has every name that runs write, and no other.

use crate::program::{Scratch, isentrope, page, parse_lines, stdout_of, text};
use crate::text_model::{VOCABULARY, text_model};
use isentrope_lab::law::{Point, SEED, Study};
use isentrope_objective::Discernment;
use isentrope_reward::{CodeVerdict, Item, VerifierName};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A name with what a recipe chooses left open: `eval/<set>/pass@<k>`.
fn open(name: &str) -> String {
    match name.split('/').collect::<Vec<_>>()[..] {
        ["eval", _, part] if part.starts_with("part_") => "eval/<set>/part_<i>".to_owned(),
        ["eval", _, what] => format!("eval/<set>/{}", of_any_k(what)),
        ["eval", _, _, what] => format!("eval/<set>/<part>/{}", of_any_k(what)),
        ["theory", bucket, what] if bucket.starts_with("accuracy_") => {
            format!("theory/<bucket>/{what}")
        }
        ["law", _, what] => format!("law/<set>/{what}"),
        ["method", name] if name != "gradient_share" => "method/<method>".to_owned(),
        ["policy", turn] if turn.starts_with("entropy_turn_") => {
            "policy/entropy_turn_<i>".to_owned()
        }
        ["reward", part] if part.starts_with("part_") => "reward/part_<i>".to_owned(),
        _ => name.to_owned(),
    }
}

fn of_any_k(what: &str) -> String {
    what.split_once('@').map_or_else(|| what.to_owned(), |(what, _)| format!("{what}@<k>"))
}

#[test]
fn documented_names_are_those_that_are_written() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let problem = json!({"problem": "1 2 3>6:", "answer": {"numbers": [1, 2, 3], "target": 6}});
    let larger =
        json!({"problem": "1 2 3 4>10:", "answer": {"numbers": [1, 2, 3, 4], "target": 10}});
    let sets = ["first.jsonl", "second.jsonl"]
        .map(|name| scratch.lines(name, &[problem.clone(), larger.clone()]));
    let shared = format!(
        "run.steps = 2\nmodel.path = {model:?}\ndata.task = 'countdown'\ndata.template = 'none'\n\
         eval.files = {sets:?}\neval.samples = 2\neval.max_tokens = 4\n"
    );
    let train = "rollout.prompts = 2\nupdate.prompts = 1\nrollout.responses = 2\nrollout.max_tokens = 4\nrollout.top_p = 0.9\n\
                 objective.reference_kl.coefficient = 0.01\nlab.track_theory = true\nlab.track_states = true\n\
                 objective.advantage = 'prime'\n\
                 objective.methods = { bapo = {}, steer = {}, flexible_clip = {}, clip_v = {} }\n\
                 objective.covariance = { method = 'kl-cov', target_entropy = 1, controller = { steer = 'coefficient' } }\n\
                 reward.verifier.weighted = [{ verifier = 'auto', weight = 1 }]\n";
    let (mut written, mut checksums) = (BTreeSet::new(), Vec::new());
    let train = format!("{train}objective.distillation.teacher = {model:?}\n");
    for (command, own) in [("train", &*train), ("sft", "sft.batch = 2\n")] {
        let recipe = scratch.file(&format!("{command}.toml"), format!("{shared}{own}"));
        let out = scratch.path(command);
        stdout_of(&mut isentrope(&[command, &recipe, "--set", &format!("run.out={out}")]));
        for file in ["metrics.jsonl", "timings.jsonl"] {
            let lines = parse_lines(&fs::read_to_string(Path::new(&out).join(file)).unwrap());
            assert_eq!(lines.len(), 3, "the evaluation before the first step, and two steps");
            checksums.extend(lines.iter().filter_map(|line| line["weights/crc32c"].as_f64()));
            let names = lines.iter().flat_map(|line| line.as_object().unwrap().keys());
            written.extend(names.filter(|name| *name != "step").map(|name| open(name)));
        }
    }
    // PRIME, above, goes without an environment, and that model has no experts.
    let mixture = json!({
        "model_type": "qwen3_moe", "vocab_size": VOCABULARY, "hidden_size": 8, "head_dim": 4,
        "moe_intermediate_size": 8, "num_experts": 3, "num_experts_per_tok": 2,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 256, "tie_word_embeddings": true, "eos_token_id": 1
    });
    fs::write(Path::new(&model).join("config.json"), mixture.to_string()).unwrap();
    let learnt = "eval.every = 0\nsft.batch = 2\nsft.router_aux_coefficient = 0.01\n\
                  model.from_scratch = true\n";
    let turns = "eval.every = 0\nupdate.prompts = 1\n\
                 objective.router_aux_coefficient = 0.01\n\
                 rollout.prompts = 2\nrollout.responses = 2\nrollout.max_tokens = 4\n\
                 environment = { kind = 'tools', tools = ['calculator'] }\n";
    let mut from = format!("model.path={model}");
    for (command, own) in [("sft", learnt), ("train", turns)] {
        let recipe = scratch.file(&format!("mixture-{command}.toml"), format!("{shared}{own}"));
        let out = scratch.path(&format!("mixture-{command}"));
        let to = format!("run.out={out}");
        stdout_of(&mut isentrope(&[command, &recipe, "--set", &to, "--set", &from]));
        let metrics = fs::read_to_string(Path::new(&out).join("metrics.jsonl")).unwrap();
        let lines = parse_lines(&metrics);
        let names = lines.iter().flat_map(|line| line.as_object().unwrap().keys());
        written.extend(names.filter(|name| *name != "step").map(|name| open(name)));
        from = format!("model.path={out}/checkpoints/step-000002");
    }
    // Both began with the same weights, and supervised fine-tuning changed them.
    let [trained, _, tuned, after]: [f64; 4] = checksums.try_into().unwrap();
    assert!(trained == tuned && tuned != after, "{trained} {tuned} {after}");
    // A model that has learnt nothing writes no step that could be counted.
    let item = Item { ground_truth: &problem["answer"], ..Item::default() };
    for name in VerifierName::Countdown.verify(&item, "1+2=3,3+3=6!").metrics.keys() {
        written.extend([format!("reward/{name}"), format!("eval/<set>/{name}")]);
    }
    // Nothing failed in these evaluations.
    written.insert("eval/<set>/failed".to_owned());
    // A run has one controller.
    written.insert("method/entropic/alpha".to_owned());
    written.insert("method/repo_r/zeta".to_owned());
    // Without a right response there is nothing to discern.
    written.extend(Discernment::METRICS.map(str::to_owned));
    for name in CodeVerdict::FAILURES {
        written.extend([format!("reward/code/{name}"), format!("eval/<set>/code/{name}")]);
    }
    // One process waits for nobody, and sends nothing.
    written.extend(
        ["time/wait_s", "throughput/sent_mb", "throughput/moved_responses"].map(str::to_owned),
    );
    // A run of two steps has no law.
    let lawful = |step: u64| {
        let entropy = 1.2 - 0.1 * step as f64;
        Point { step, entropy, accuracy: 0.8 - 0.2 * entropy.exp() }
    };
    let law = Study::of((0..8).map(lawful).collect(), SEED).metrics();
    written.extend(law.iter().map(|(name, _)| format!("law/<set>/{name}")));
    let page = page("metrics.md");
    let mut documented = BTreeSet::new();
    for name in names_in_tables(&page) {
        assert!(documented.insert(name.to_owned()), "metrics.md has {name} twice");
    }
    let missing: Vec<_> = written.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&written).collect();
    assert!(missing.is_empty(), "written, and not in docs/reference/metrics.md: {missing:?}");
    assert!(stale.is_empty(), "in docs/reference/metrics.md, and not written: {stale:?}");
}

/// The names that rows of a page's tables begin with. Every row is in a table.
fn names_in_tables(page: &str) -> Vec<&str> {
    let lines: Vec<&str> = page.lines().collect();
    let is_row = |line: &str| line.starts_with('|');
    for table in lines.chunk_by(|a, b| is_row(a) == is_row(b)).filter(|table| is_row(table[0])) {
        assert!(
            table.len() > 2 && table[1].starts_with("|---"),
            "metrics.md has rows outside a table: {table:#?}"
        );
    }
    lines.iter().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0)).collect()
}

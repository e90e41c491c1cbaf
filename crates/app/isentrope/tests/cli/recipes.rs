//! The recipes that come with the program, and the documentation of their keys.

use crate::program::{Scratch, can_judge_programs, isentrope, stdout_of};
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::{rl, sft};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// Names of all recipes, without `.toml`.
fn names() -> Vec<String> {
    let files = fs::read_dir(root().join("recipes")).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// Splits a dry run's output into the recipe with every default and the text behind it. The run's
/// needs may come first.
pub fn recipe_of(said: &str) -> (String, &str) {
    let said = if said.starts_with("# ") { said.split_once("\n\n").unwrap().1 } else { said };
    let (recipe, rest) = said.split_once("\n\n# ").unwrap();
    (format!("{recipe}\n"), rest)
}

/// A recipe as `--dry-run` resolves it. Stand-ins take the place of data, models and GPUs that are
/// not here.
fn resolved(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let command = if text.contains("\n[sft]\n") { "sft" } else { "train" };
    let mut line = format!("{command} {} --dry-run --all", path.display());
    if text.contains("\"data/train.parquet\"") {
        line += " --set data.files=examples/own-reward/problems.jsonl";
    }
    if text.contains("verifier = \"code\"") && !can_judge_programs() {
        line += " --set reward.verifier=auto";
    }
    if text.contains("dtype = \"bf16\"") {
        line += " --gpu-memory 141";
    }
    let base = "assets/countdown-base";
    let made = of_other_runs(&text);
    made.iter().for_each(|(key, _)| line += &format!(" --set {key}={base}"));
    let mut recipe = checked(&stdout_of(isentrope(line).current_dir(root())));
    for (key, model) in made {
        let (_, name) = key.rsplit_once('.').unwrap();
        recipe = recipe.replace(&format!("{name} = {base:?}"), &format!("{name} = {model:?}"));
    }
    recipe
}

/// The recipe that a dry run prints, which says what the run needs.
fn checked(said: &str) -> String {
    let (recipe, rest) = recipe_of(said);
    assert!(
        said.starts_with("# memory: ") || rest.contains("The recipe is well-formed. "),
        "{said}"
    );
    recipe
}

/// The models of a recipe that other runs make, by their keys.
fn of_other_runs(recipe: &str) -> Vec<(&'static str, String)> {
    let recipe = Value::Table(toml::from_str(recipe).unwrap());
    let model = |key: &'static str| {
        let path = key.split('.').try_fold(&recipe, |table, name| table.get(name))?.as_str()?;
        path.starts_with("runs/").then(|| (key, path.to_owned()))
    };
    ["model.path", "objective.distillation.teacher"].into_iter().filter_map(model).collect()
}

#[test]
fn every_recipe_loads_and_so_does_what_it_resolves_to() {
    let scratch = Scratch::new();
    for name in names() {
        let recipe = resolved(&root().join("recipes").join(format!("{name}.toml")));
        assert!(recipe.contains(&format!("out = \"runs/{name}\"")), "{recipe}");
        let file = scratch.file("resolved.toml", &recipe);
        let again = if recipe.contains("\n[sft]\n") {
            rendered::<sft::Recipe>(&file, &[])
        } else {
            rendered::<rl::Recipe>(&file, &[])
        };
        assert_eq!(again, recipe, "{name}");
    }
}

/// A recipe with every default, as the program prints it.
fn rendered<R: TrainingRecipe>(file: &str, sets: &[&str]) -> String {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let mut recipe: R = isentrope::recipe::load(Path::new(file), &sets).unwrap();
    recipe.resolve().unwrap();
    isentrope::recipe::render(&recipe)
}

/// Values filled in must not contradict the next setting.
#[test]
fn a_resolved_recipe_takes_the_other_rule_and_the_other_value() {
    let scratch = Scratch::new();
    let start = root().join("recipes/quickstart.toml").display().to_string();
    let bonus = "objective.entropy_bonus={target=0.3,delta=5e-3}";
    let target = "objective.covariance={method=\"kl-cov\",target_entropy=0.3}";
    let steer = "objective.covariance.controller.steer=coefficient";
    for (sets, set, table, key) in [
        (&[][..], bonus, "entropy_bonus", "delta"),
        (
            &["objective.entropy_bonus.target=0.3"],
            "objective.entropy_bonus.delta=5e-3",
            "entropy_bonus",
            "delta",
        ),
        (&[target], steer, "covariance", "controller"),
    ] {
        let file = scratch.file("recipe.toml", rendered::<rl::Recipe>(&start, sets));
        let again: Table = toml::from_str(&rendered::<rl::Recipe>(&file, &[set])).unwrap();
        let value = &again["objective"][table][key];
        let steered = value.get("steer").and_then(Value::as_str) == Some("coefficient");
        assert!(value.as_float() == Some(5e-3) || steered, "{set}: {value}");
    }
}

/// arXiv:2505.22617, section 4: the settings of the published runs.
#[test]
fn recipes_of_the_paper_have_its_settings() {
    let common = "rollout.prompts=256 rollout.responses=8 rollout.max_tokens=8192 \
                  rollout.max_batches=10 rollout.filter=true update.prompts=32 update.epochs=1 \
                  data.max_prompt_tokens=2048 eval.every=4 objective.covariance.low=1.0 \
                  objective.covariance.high=5.0 objective.covariance.kl=\"abs\" \
                  objective.covariance.coefficient=1.0 optimizer.schedule=\"constant\" \
                  optimizer.warmup_steps=0 optimizer.beta1=0.9 optimizer.beta2=0.999 \
                  optimizer.eps=1e-8 optimizer.weight_decay=0.0 optimizer.clip_norm=1.0";
    for (size, its) in [
        ("7b", "model.path=\"Qwen/Qwen2.5-7B\" device.dtype=\"bf16\" optimizer.learning_rate=5e-7"),
        (
            "32b",
            "model.path=\"Qwen/Qwen2.5-32B\" device.dtype=\"bf16\" update.shards=32 \
             optimizer.learning_rate=1e-6",
        ),
    ] {
        let fraction = if size == "7b" { "2e-3" } else { "2e-4" };
        for (kind, loss, clip, covariance) in [
            ("grpo", "clip", "0.2 0.2", "none"),
            ("clip-higher", "clip", "0.2 0.28", "none"),
            ("clip-cov", "clip", "1.0 1.0", "clip-cov 2e-4"),
            ("kl-cov", "importance", "", &format!("kl-cov {fraction}")),
        ] {
            let text = resolved(&root().join(format!("recipes/qwen2.5-{size}-{kind}.toml")));
            let recipe: Value = toml::from_str(&text).unwrap();
            let mut expected = format!("{common} {its} objective.loss={loss:?}");
            if let Some((low, high)) = clip.split_once(' ') {
                expected += &format!(" objective.clip_low={low} objective.clip_high={high}");
            }
            let (method, fraction) = covariance.split_once(' ').unwrap_or((covariance, ""));
            expected += &format!(" objective.covariance.method={method:?}");
            if !fraction.is_empty() {
                expected += &format!(" objective.covariance.fraction={fraction}");
            }
            for (key, value) in expected.split_whitespace().filter_map(|set| set.split_once('=')) {
                let found = key.split('.').fold(&recipe, |table, key| &table[key]);
                let value: Table = toml::from_str(&format!("value = {value}")).unwrap();
                assert_eq!(*found, value["value"], "{size}-{kind}: {key}");
            }
        }
    }
}

/// Sizes are the published configurations's, and prompts are as long as the recipe allows. The
/// tokenizer is another: a token is a character.
#[test]
fn recipes_fit_the_gpus_that_they_are_for() {
    let qwen3 = json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2560,
        "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936,
        "max_position_embeddings": 40_960, "rope_theta": 1_000_000, "tie_word_embeddings": true
    });
    let qwen3_5 = json!({
        "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
        "tie_word_embeddings": true, "vision_config": {"hidden_size": 1024}, "text_config": {
            "model_type": "qwen3_5_text", "hidden_size": 2560, "intermediate_size": 9216,
            "num_hidden_layers": 32, "tie_word_embeddings": true
        }
    });
    let gemma3 = json!({
        "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
        "vision_config": {"hidden_size": 1152}, "text_config": {
            "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10_240,
            "num_hidden_layers": 34, "sliding_window": 1024,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}
        }
    });
    let qwen3_moe = json!({
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
        "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151_936, "num_experts": 128,
        "num_experts_per_tok": 8, "norm_topk_prob": true, "max_position_embeddings": 40_960,
        "rope_theta": 1_000_000, "tie_word_embeddings": false
    });
    let qwen2 = |hidden: usize, intermediate: usize, layers: usize, heads: [usize; 2]| {
        json!({
            "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": hidden,
            "intermediate_size": intermediate, "num_hidden_layers": layers,
            "num_attention_heads": heads[0], "num_key_value_heads": heads[1],
            "vocab_size": 152_064, "max_position_embeddings": 131_072, "rope_theta": 1_000_000,
            "tie_word_embeddings": false
        })
    };
    let [seven, thirty_two] = [qwen2(3584, 18_944, 28, [28, 4]), qwen2(5120, 27_648, 64, [40, 8])];
    let host = "in the host's memory";
    // Ranks, and GB of each one's GPU.
    for (name, config, [ranks, gpu], weights, moments) in [
        ("qwen2.5-7b-lora-kl-cov", &seven, [1, 24], "14.6 GiB", "938 MiB in the host's memory"),
        ("qwen2.5-32b-lora-kl-cov", &thirty_two, [1, 141], "62.6 GiB", "3136 MiB"),
        ("qwen3-4b-kl-cov", &qwen3, [1, 80], "15.0 GiB", "30.0 GiB"),
        ("qwen3.5-4b-kl-cov", &qwen3_5, [1, 80], "15.7 GiB", "31.3 GiB"),
        ("gemma-3-4b-kl-cov", &gemma3, [1, 80], "14.5 GiB", "28.9 GiB"),
        ("qwen3-30b-a3b-lora-kl-cov", &qwen3_moe, [1, 141], "57.0 GiB", "324 MiB"),
        ("qwen2.5-7b-grpo", &seven, [1, 141], "28.4 GiB", "56.7 GiB"),
        ("qwen2.5-7b-grpo", &seven, [8, 80], "16.0 GiB", "7263 MiB"),
        ("qwen2.5-7b-prime", &seven, [8, 141], "46.1 GiB", &format!("14.2 GiB {host}")),
        ("qwen2.5-32b-grpo", &thirty_two, [32, 80], "62.9 GiB", &format!("7812 MiB {host}")),
    ] {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("model")).unwrap();
        scratch.file("model/config.json", config.to_string());
        for file in ["tokenizer.json", "tokenizer_config.json"] {
            let from = root().join("assets/countdown-base").join(file);
            scratch.file(&format!("model/{file}"), fs::read_to_string(from).unwrap());
        }
        let recipe = root().join(format!("recipes/{name}.toml"));
        let settings: Value = toml::from_str(&fs::read_to_string(&recipe).unwrap()).unwrap();
        let longest = settings["data"]["max_prompt_tokens"].as_integer().unwrap();
        let problem = "1 ".repeat(usize::try_from(longest).unwrap() / 2);
        scratch.lines("data.jsonl", &[json!({"problem": problem, "answer": "1"})]);
        let ranks = if ranks > 1 { format!("--ranks {ranks}") } else { String::new() };
        let line = format!(
            "train {} --dry-run --gpu-memory {gpu} --set model.path=model \
             --set data.files=data.jsonl --set eval.bench=[] {ranks}",
            recipe.display(),
        );
        let said = stdout_of(isentrope(line).current_dir(scratch.path("")));
        let plan = format!("with bf16: memory: weights {weights}, moments {moments}; sampling");
        assert!(said.contains(&plan), "{name}: {said}");
        let is_part = said.contains("ForConditionalGeneration only the text model");
        assert_eq!(is_part, ["qwen3.5", "gemma"].iter().any(|of| name.starts_with(of)), "{said}");
    }
}

#[test]
fn keys_are_printed_for_either_command() {
    let [train, sft] =
        ["train", "sft"].map(|command| stdout_of(isentrope(format!("{command} --keys"))));
    for (table, in_train, in_sft) in
        [("optimizer", true, true), ("objective.covariance", true, false), ("sft", false, true)]
    {
        let heading = format!("\n### `[{table}]`\n");
        let has = (train.contains(&heading), sft.contains(&heading));
        assert_eq!(has, (in_train, in_sft), "{table}");
    }
}

//! The recipes that come with the program, and the documentation of their keys.

use crate::program::{Scratch, can_judge_programs, isentrope, stdout_of};
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::{rl, sft};
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

/// A recipe as `--dry-run` resolves it. Whoever has the recipe has its data and the model that it
/// begins with, can run programs, and has a GPU if it trains with bf16.
fn resolved(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let command = if text.contains("\n[sft]\n") { "sft" } else { "train" };
    let mut line = format!("{command} {} --dry-run", path.display());
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
    let made = of_another_run(&text);
    if made.is_some() {
        line += &format!(" --set model.path={base}");
    }
    let recipe = checked(&stdout_of(isentrope(line).current_dir(root())));
    match made {
        Some(model) => recipe.replace(&format!("path = {base:?}"), &format!("path = {model:?}")),
        None => recipe,
    }
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

/// The model that a recipe begins with, if a run makes it.
fn of_another_run(recipe: &str) -> Option<String> {
    let recipe: Table = toml::from_str(recipe).unwrap();
    let path = recipe["model"].get("path").and_then(Value::as_str)?;
    path.starts_with("runs/").then(|| path.to_owned())
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

#[test]
fn recipes_of_large_models_say_first_what_they_need() {
    // Qwen2.5's numbers of weights; 16 bytes each in training, 12 in a checkpoint:
    // docs/guides/train.md. PRIME trains two models, beside a reference of 4 bytes each.
    for (size, weights) in [("7b", 7_615_616_512_u64), ("32b", 32_763_876_352)] {
        let gib = |bytes_per_weight: u64| (weights * bytes_per_weight) as f64 / f64::from(1 << 30);
        let kinds = ["grpo", "clip-higher", "clip-cov", "kl-cov"].map(|kind| (kind, 16, 12));
        let prime = (size == "7b").then_some(("prime", 36, 24));
        for (kind, in_training, in_checkpoint) in kinds.into_iter().chain(prime) {
            let path = root().join(format!("recipes/qwen2.5-{size}-{kind}.toml"));
            let text = fs::read_to_string(&path).unwrap();
            let first = text.lines().next().unwrap();
            let numbers: Vec<f64> =
                first.split([' ', ':']).filter_map(|word| word.parse().ok()).collect();
            let [memory, disk, model, checkpoint] = numbers[..] else { panic!("{first}") };
            assert!(
                first.starts_with("# Needs at least ") && first.contains(" GiB of memory, and "),
                "{first}"
            );
            assert!((1.0..1.2).contains(&(memory / gib(in_training))), "{first}");
            assert!(
                (model - gib(2)).abs() < 1.0 && (checkpoint - gib(in_checkpoint)).abs() < 1.0,
                "{first}"
            );
            assert!((1.0..1.02).contains(&(disk / (model + 4.0 * checkpoint))), "{first}");
        }
    }
}

/// arXiv:2505.22617, section 4: what the published runs have in common, and in what each differs.
#[test]
fn recipes_of_the_paper_have_its_settings() {
    let take = |recipe: &mut Table, table: &str, key: &str| -> Value {
        recipe[table].as_table_mut().unwrap().remove(key).unwrap()
    };
    let mut rest = Vec::new();
    for (size, rate, kl_cov_fraction, dtype) in
        [("7b", 5e-7, 2e-3, "bf16"), ("32b", 1e-6, 2e-4, "f32")]
    {
        for (kind, loss, clip, covariance) in [
            ("grpo", "clip", Some((0.2, 0.2)), None),
            ("clip-higher", "clip", Some((0.2, 0.28)), None),
            ("clip-cov", "clip", Some((1.0, 1.0)), Some(2e-4)),
            ("kl-cov", "importance", None, Some(kl_cov_fraction)),
        ] {
            let name = format!("qwen2.5-{size}-{kind}");
            let text = resolved(&root().join("recipes").join(format!("{name}.toml")));
            let mut recipe: Table = toml::from_str(&text).unwrap();
            let mut objective = recipe.remove("objective").unwrap();
            let term = objective.as_table_mut().unwrap().remove("covariance").unwrap();
            assert_eq!(objective["loss"].as_str(), Some(loss), "{name}");
            if let Some((low, high)) = clip {
                assert_eq!(objective["clip_low"].as_float(), Some(low), "{name}");
                assert_eq!(objective["clip_high"].as_float(), Some(high), "{name}");
            }
            let method = if covariance.is_some() { kind } else { "none" };
            assert_eq!(term["method"].as_str(), Some(method), "{name}");
            assert_eq!(term.get("fraction").and_then(Value::as_float), covariance, "{name}");
            assert_eq!(
                (term["low"].as_float(), term["high"].as_float()),
                (Some(1.0), Some(5.0)),
                "{name}"
            );
            assert_eq!(
                (term["kl"].as_str(), term["coefficient"].as_float()),
                (Some("abs"), Some(1.0)),
                "{name}"
            );
            assert_eq!(
                take(&mut recipe, "optimizer", "learning_rate").as_float(),
                Some(rate),
                "{name}"
            );
            let path = format!("Qwen/Qwen2.5-{}", size.to_uppercase());
            assert_eq!(take(&mut recipe, "model", "path").as_str(), Some(&*path), "{name}");
            assert_eq!(take(&mut recipe, "device", "dtype").as_str(), Some(dtype), "{name}");
            take(&mut recipe, "run", "out");
            rest.push((name, recipe));
        }
    }
    let common = &rest[0].1;
    for (name, recipe) in &rest {
        assert_eq!(recipe, common, "{name}");
    }
    let number = |table: &str, key: &str| common[table][key].as_integer();
    assert_eq!(
        (number("rollout", "prompts"), number("rollout", "responses")),
        (Some(256), Some(8))
    );
    assert_eq!((number("update", "prompts"), number("update", "epochs")), (Some(32), Some(1)));
    assert_eq!(
        (number("data", "max_prompt_tokens"), number("rollout", "max_tokens")),
        (Some(2048), Some(8192))
    );
    assert_eq!((number("rollout", "max_batches"), number("eval", "every")), (Some(10), Some(4)));
    assert_eq!(common["rollout"]["filter"].as_bool(), Some(true));
    let optimizer = toml::from_str::<Table>(
        "schedule = 'constant'\nwarmup_steps = 0\nfinal_fraction = 0.0\nbeta1 = 0.9\nbeta2 = 0.999\neps = 1e-8\n\
         weight_decay = 0.0\nclip_norm = 1.0",
    );
    assert_eq!(common["optimizer"].as_table(), optimizer.ok().as_ref());
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

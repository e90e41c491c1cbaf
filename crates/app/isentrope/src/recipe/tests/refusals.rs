//! Recipes of both commands that are refused; `refusals.toml` lists them.

use super::load_text;
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::{rl, sft};
use serde::Deserialize;

/// A sound recipe, with the settings that the cases of `refusals.toml` assume.
const TRAIN: &str = r#"
run = { steps = 6, seed = 3 }
model.path = "m"
data.files = ["problems.jsonl"]
rollout = { prompts = 4, responses = 4, max_tokens = 16, filter = true, max_batches = 40 }
objective.loss = "importance"
objective.entropy_bonus = { coefficient = 1e-3, target = 1.5, rate = 1e-2, max = 0.1 }
objective.covariance = { method = "kl-cov", fraction = 0.04 }
update = { prompts = 2, epochs = 2 }
optimizer = { schedule = "cosine", warmup_steps = 1, final_fraction = 0.1 }
eval = { every = 2, files = ["problems.jsonl"], problems = 6, samples = 2 }
"#;

const SFT: &str = r#"
run = { steps = 6, seed = 3 }
model = { path = "m", from_scratch = true }
sft = { batch = 12, max_tokens = 64 }
data.task = "countdown"
data.countdown = { numbers = [3], weights = [1.0], largest_number = 5, largest_intermediate = 15, operations = ["+", "-"] }
"#;

/// The overrides of a case: one, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct Cases {
    train: Vec<Vec<Part>>,
    sft: Vec<Vec<Part>>,
}

/// The message for a recipe with these overrides; None if it is sound.
fn refusal<R: TrainingRecipe>(text: &str, sets: &[&str]) -> Option<String> {
    load_text::<R>(text, sets)
        .and_then(|mut recipe| Ok(recipe.resolve()?))
        .err()
        .map(|error| error.to_string())
}

#[test]
fn recipes_that_are_refused_say_why() {
    let cases: Cases = toml::from_str(include_str!("refusals.toml")).unwrap();
    assert_eq!((refusal::<rl::Recipe>(TRAIN, &[]), refusal::<sft::Recipe>(SFT, &[])), (None, None));
    let all = cases
        .train
        .iter()
        .map(|case| (true, case))
        .chain(cases.sft.iter().map(|case| (false, case)));
    let mut wrong = Vec::new();
    for (is_train, case) in all {
        let sets: Vec<&str> = match &case[0] {
            Part::One(set) => vec![set],
            Part::Several(sets) => sets.iter().map(String::as_str).collect(),
        };
        let message = if is_train {
            refusal::<rl::Recipe>(TRAIN, &sets)
        } else {
            refusal::<sft::Recipe>(SFT, &sets)
        };
        let message = message.unwrap_or_else(|| "nothing".into());
        for part in &case[1..] {
            let Part::One(part) = part else { panic!("{sets:?}: a part of a message is a text") };
            if !message.contains(part.as_str()) {
                wrong.push(format!("{sets:?}: {part:?} is not in: {message}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// With one update per rollout KL-Cov's penalty has no gradient, so it cannot hold an entropy.
#[test]
fn an_entropy_is_held_only_by_a_term_that_can_act() {
    let target = "objective={covariance = {method = \"kl-cov\", target_entropy = 1}}";
    let once = [target, "update.epochs=1", "update.prompts=4"];
    let with = |more: &str| refusal::<rl::Recipe>(TRAIN, &[&once[..], &[more]].concat());
    for filter in ["rollout.filter=false", "rollout.filter=true"] {
        let message = with(filter).unwrap();
        for part in [
            "objective.covariance.target_entropy",
            "no gradient with one update",
            "update.epochs = 2",
            "\"clip-cov\"",
        ] {
            assert!(message.contains(part), "{part:?} is not in: {message}");
        }
    }
    for acts in ["update.epochs=2", "objective.covariance.method=clip-cov"] {
        assert_eq!(with(acts), None, "{acts}");
    }
}

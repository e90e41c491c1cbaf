use super::super::check::check;
use super::super::tree;
use super::*;
use isentrope_objective::{Estimator, Loss};
use isentrope_settings::Field;
use serde_json::json;

/// Names of other trainers' settings, one a line.
const TRL: &str = include_str!("names/trl.txt");
const TRL_GRPO: &str = include_str!("names/trl_grpo.txt");
const TRL_SFT: &str = include_str!("names/trl_sft.txt");
const TRL_SELF_DISTILLATION: &str = include_str!("names/trl_self_distillation.txt");
const TRL_SCRIPTS: &str = include_str!("names/trl_scripts.txt");
const VERL_PPO: &str = include_str!("names/verl_ppo.txt");

fn rl() -> &'static Shape {
    static SHAPE: LazyLock<Shape> = LazyLock::new(Shape::of::<rl::Recipe>);
    &SHAPE
}

fn sft() -> &'static Shape {
    static SHAPE: LazyLock<Shape> = LazyLock::new(Shape::of::<sft::Recipe>);
    &SHAPE
}

/// The answer to a recipe of nothing but this.
fn told(text: &str, shape: &Shape) -> String {
    let recipe = tree::parse(text, &|_| "x".to_owned()).unwrap();
    check(&recipe, shape).join("\n")
}

fn hint_of(path: &str, shape: &Shape) -> Option<String> {
    let node = tree::parse("", &|_| String::new()).unwrap();
    hint(path, &node, shape)
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.starts_with('#'))
}

/// The last names of all keys of a shape.
fn leaves(shape: &Shape, found: &mut Vec<String>) {
    let Shape::Table(fields) = shape else { return };
    for Field { name, shape, .. } in fields {
        found.push(name.clone());
        leaves(shape, found);
    }
}

/// A key whose words need quotes in TOML, quoted.
fn as_toml(path: &str) -> String {
    path.split('.').map(|key| format!("{key:?}")).collect::<Vec<_>>().join(".")
}

#[test]
fn every_setting_of_trl_and_verl_is_answered() {
    for (list, shape) in [
        (TRL, rl()),
        (TRL, sft()),
        (TRL_GRPO, rl()),
        (TRL_SELF_DISTILLATION, rl()),
        (TRL_SFT, sft()),
        (TRL_SCRIPTS, rl()),
        (TRL_SCRIPTS, sft()),
        (VERL_PPO, rl()),
        (VERL_PPO, sft()),
    ] {
        let unanswered: Vec<&str> = names(list)
            .filter(|name| {
                let told = told(&format!("{} = 1", as_toml(name)), shape);
                let last = name.rsplit('.').next().unwrap();
                let of_the_name = format!("{last}`?");
                !(has_key(shape, name)
                    || told.contains("here it is `")
                    || told.contains("; absent here, because ")
                    || told.contains("which recipes for `isentrope")
                    || told.contains("did you mean `") && told.ends_with(&of_the_name))
            })
            .collect();
        assert!(unanswered.is_empty(), "{}", unanswered.join("\n"));
    }
}

#[test]
fn every_key_named_is_a_recipes() {
    for ForeignKey { names, key, .. } in &NAMES.keys {
        assert!(has_key(rl(), key) || has_key(sft(), key), "{key}");
        for name in &names.0 {
            assert!(!has_key(rl(), name) && !has_key(sft(), name), "{name} is a key of recipes");
        }
    }
}

/// A key that the name of an entry is meant for.
fn example(name: &str) -> String {
    name.replace(['*', '?'], "x")
}

#[test]
fn every_entry_is_what_its_own_name_gets() {
    for ForeignKey { names, key, but } in &NAMES.keys {
        let shape = if has_key(rl(), key) { rl() } else { sft() };
        for name in &names.0 {
            let hint = hint_of(&example(name), shape).unwrap();
            assert!(hint.starts_with(&format!("; here it is `{key}`")), "{name}: {hint}");
            assert!(hint.ends_with(but), "{name}: {hint}");
        }
    }
    for Absent { names, reason } in &NAMES.absent {
        for name in &names.0 {
            let hint = hint_of(&example(name), rl()).unwrap();
            assert_eq!(hint, format!("; absent here, because {reason}"), "{name}");
        }
    }
}

#[test]
fn other_trainers_names_and_values_are_translated() {
    let cases: toml::Table = toml::from_str(include_str!("cases.toml")).unwrap();
    let rows = |name: &str| -> Vec<[String; 2]> { cases[name].clone().try_into().unwrap() };
    for [text, part] in rows("recipes") {
        let told = told(&text, rl());
        let first = told.lines().next().unwrap();
        assert!(first.contains(&part), "{text}: {told}");
    }
    for [path, part] in rows("names") {
        let told = hint_of(&path, rl()).unwrap();
        assert!(told.contains(&part), "{path}: {told}");
    }
    let told = hint_of("gradient_accumulation_steps", sft()).unwrap();
    assert!(told.contains("`sft.batch`, of which"), "{told}");
}

#[test]
fn what_is_absent_is_no_key_of_recipes() {
    let mut ours = Vec::new();
    leaves(rl(), &mut ours);
    leaves(sft(), &mut ours);
    // Another thing of the same name.
    let others = ["dtype"];
    for name in ours.iter().filter(|name| !others.contains(&name.as_str())) {
        assert_eq!(
            absent(name),
            None,
            "`{name}` is a key of recipes now: take it out of the absent ones"
        );
    }
}

#[test]
fn what_stands_for_a_value_is_a_recipe() {
    for entry in &NAMES.values {
        let recipe: String =
            entry.here.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        assert_eq!(told(&format!("model.path = \"m\"\n{recipe}"), rl()), "");
        assert!(!entry.here.is_empty() || !entry.note.is_empty(), "{:?}", entry.values.0);
        for key in &entry.at.0 {
            let is_own = has_key(rl(), key);
            for value in &entry.values.0 {
                let path = if is_own { key.clone() } else { format!("trainer.{key}") };
                let told = told(&format!("{path} = {value:?}"), rl());
                // A value that is ours too, or that an earlier entry answers, is answered all the
                // same.
                assert!(!told.contains("did you mean"), "{told}");
                assert!(is_own || told.contains("here"), "{told}");
            }
        }
    }
}

#[test]
fn notes_that_list_losses_or_advantages_list_all() {
    let note = |name| &value(name, |key| key == "objective.loss").unwrap().note;
    for loss in Loss::ALL {
        assert!(note("dro").contains(&json!(loss).to_string()), "{loss:?}");
    }
    for estimator in Estimator::ALL {
        assert!(note("gdpo").contains(&json!(estimator).to_string()), "{estimator:?}");
    }
}

#[test]
fn removed_keys_are_no_keys_of_recipes() {
    for (key, _) in REMOVED {
        assert!(!has_key(rl(), key) && !has_key(sft(), key), "{key}");
        assert!(hint_of(key, rl()).is_some());
    }
}

#[test]
fn of_two_keys_the_commands_own_is_named() {
    assert_eq!(hint_of("data.train_batch_size", rl()).unwrap(), "; here it is `rollout.prompts`");
    assert_eq!(hint_of("data.train_batch_size", sft()).unwrap(), "; here it is `sft.batch`");
    assert_eq!(
        hint_of("max_length", rl()).unwrap(),
        "; here it is `sft.max_tokens` in recipes for `isentrope sft`, which leaves longer examples out and never \
         cuts them"
    );
    assert_eq!(hint_of("rollout", sft()).unwrap(), ", which recipes for `isentrope train` have");
    assert_eq!(hint_of("xlr", rl()), None);
}

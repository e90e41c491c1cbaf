//! Recipes of invented settings that use everything the machinery supports, and the checks for real
//! ones.

mod errors;
mod refusals;
mod round_trip;
mod settings;

use super::{load, reference, render};
use anyhow::Result;
use isentrope_settings::{Fallback, Shape};
use isentrope_train::{rl, sft};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use settings::Settings;
use std::fs;
use std::path::Path;

/// Loads a recipe from text, under the name `x.toml`; errors name that file.
fn load_text<T: DeserializeOwned + JsonSchema>(text: &str, sets: &[&str]) -> Result<T> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("x.toml");
    fs::write(&path, text)?;
    let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
    load(&path, &sets)
        .map_err(|e| anyhow::anyhow!(e.to_string().replace(&*path.to_string_lossy(), "x.toml")))
}

/// Asserts what a type of settings must satisfy: the recipe of its defaults gives the defaults
/// back, and a table that is there but empty means the same as one that is not.
fn assert_sound<T: Serialize + DeserializeOwned + JsonSchema + Default>() {
    let defaults = render(&T::default());
    let again: T = load_text(&defaults, &[]).unwrap();
    assert_eq!(render(&again), defaults);
    let mut headings = String::new();
    empty_tables(&mut Vec::new(), &Shape::of::<T>(), &mut headings);
    let from_empty: T = load_text(&headings, &[]).unwrap();
    assert_eq!(
        render(&from_empty),
        defaults,
        "a nested type's Default is not what its parent's Default says"
    );
}

fn empty_tables(path: &mut Vec<String>, shape: &Shape, out: &mut String) {
    let Shape::Table(fields) = shape else { return };
    if !path.is_empty() {
        out.push_str(&format!("[{}]\n", path.join(".")));
    }
    for field in fields.iter().filter(|field| matches!(field.fallback, Fallback::Value(_))) {
        path.push(field.name.clone());
        empty_tables(path, &field.shape, out);
        path.pop();
    }
}

/// Asserts that a generated file is up to date; with UPDATE_DOCS=1 in the environment, writes it.
fn assert_current(file: &Path, text: &str) {
    if updates() {
        fs::write(file, text).unwrap();
    }
    let found = fs::read_to_string(file).unwrap_or_default();
    assert!(
        found == text,
        "{} is not what the types say; run: UPDATE_DOCS=1 cargo test -p isentrope recipe",
        file.display()
    );
}

fn updates() -> bool {
    std::env::var("UPDATE_DOCS").is_ok_and(|value| value == "1")
}

#[test]
fn reference_documents_every_key() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/recipe/tests/reference.md");
    assert_current(&file, &reference::<Settings>());
}

const INTRODUCTION: &str = "\
# Recipes

What `isentrope train RECIPE` and `isentrope sft RECIPE` read: a TOML file. It must set `model.path` and either `data.task` or
`data.files`; every other key may be left out. What a key that is *unset* by default then does stands with its meaning.
Where a key takes an array of strings, a single string stands for an array of one.
`--set table.key=value` sets a key from the command line, `--dry-run` prints the recipe with every default filled in. Unknown
keys and values that are not allowed are errors that name the line.

This page is made from the program's types; `isentrope train --keys` and `isentrope sft --keys` print it for either command.
";

#[test]
fn recipes_of_both_commands_are_sound() {
    assert_sound::<rl::Recipe>();
    assert_sound::<sft::Recipe>();
}

/// The tables of all recipes, those that are alike for both commands once.
#[test]
fn documentation_is_current() {
    let tables = |text: String| -> Vec<String> {
        text.split("\n### ").skip(1).map(|table| format!("\n### {table}")).collect()
    };
    let in_sft = tables(reference::<sft::Recipe>());
    let (shared, train): (Vec<_>, Vec<_>) =
        tables(reference::<rl::Recipe>()).into_iter().partition(|table| in_sft.contains(table));
    let sft = in_sft.into_iter().filter(|table| !shared.contains(table)).collect::<Vec<_>>();
    let chapters = [
        ("Reinforcement learning and supervised fine-tuning", shared),
        ("Reinforcement learning only", train),
        ("Supervised fine-tuning only", sft),
    ];
    let text =
        chapters.map(|(title, tables)| format!("\n## {title}\n{}", tables.concat())).concat();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    let reference = docs.join("reference/recipe.md");
    let file = if reference.exists() { reference } else { docs.join("recipe.md") };
    assert_current(&file, &format!("{INTRODUCTION}{text}"));
}

#[test]
#[should_panic(expected = "has no doc comment")]
fn reference_refuses_a_key_without_documentation() {
    #[derive(Default, serde::Serialize, serde::Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Silent {
        key: u32,
    }
    assert!(reference::<Silent>().is_empty());
}

#[test]
#[should_panic(expected = "a choice between tables needs a tag, or a required key in each")]
fn tables_that_nothing_tells_apart_are_refused() {
    #[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
    struct A {
        /// A number.
        x: u32,
    }
    #[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
    struct B {
        /// A number.
        x: u32,
        /// Another.
        #[serde(default)]
        y: u32,
    }
    #[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Either {
        A(A),
        B(B),
    }
    Shape::of::<Either>();
}

#[test]
#[should_panic(expected = "must be off by default")]
fn optional_key_that_nothing_could_turn_off_is_refused() {
    #[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
    #[serde(default)]
    struct On {
        /// An option.
        key: Option<u32>,
    }
    impl Default for On {
        fn default() -> Self {
            Self { key: Some(1) }
        }
    }
    assert_sound::<On>();
}

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

const INTRODUCTION: &str = "\
# Recipes

`isentrope train RECIPE` and `isentrope sft RECIPE` read a recipe, a TOML file. It must set `model.path` and either `data.task` or
`data.files`; every other key may be left out. If a key is *unset* by default, its meaning says what happens then.
Where a key takes an array of strings, a single string stands for an array of one.
`--set table.key=value` sets a key from the command line, `--dry-run --all` prints the recipe with every default filled in. Unknown
keys and values that are not allowed are errors that name the line.

This page is made from the program's types; `isentrope train --keys` and `isentrope sft --keys` print it for either command.
";

#[test]
fn recipes_of_both_commands_are_sound() {
    assert_sound::<rl::Recipe>();
    assert_sound::<sft::Recipe>();
}

/// The page has the tables of both commands, shared tables once. UPDATE_DOCS=1 writes it.
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
    let file = docs.join("reference/recipe.md");
    let text = format!("{INTRODUCTION}{text}");
    if std::env::var("UPDATE_DOCS").is_ok_and(|value| value == "1") {
        fs::write(&file, &text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap();
    let command = "UPDATE_DOCS=1 cargo test -p isentrope recipe";
    assert!(found == text, "{} is not what the types say; run: {command}", file.display());
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

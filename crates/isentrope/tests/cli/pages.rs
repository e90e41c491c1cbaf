//! The recipes that pages of the documentation show.

use crate::program::{Scratch, isentrope, page, pages, stdout_of};
use serde_json::json;
use std::fs;
use std::path::Path;

/// The blocks of a page in this language, in order.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    page.split(&start).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

/// Data of the names that the pages use, which the example's small model can read.
fn data(scratch: &Scratch) {
    fs::create_dir(scratch.path("data")).unwrap();
    let problems: Vec<_> =
        (10..90).map(|n| json!({"prompt": format!("1 2 {}>{n}:", n - 3), "answer": n.to_string()})).collect();
    let example = |n: i32| {
        let rest = n - 3;
        json!({"prompt": format!("1 2 {rest}>{n}:"), "response": format!("1+2=3,3+{rest}={n}!")})
    };
    let examples: Vec<_> = (10..90).map(example).collect();
    for (name, rows) in
        [("train", &problems), ("test", &problems), ("chats", &examples), ("held-out-chats", &examples)]
    {
        scratch.lines(&format!("data/{name}.jsonl"), rows);
    }
}

#[test]
fn every_whole_recipe_is_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let model = format!("model.path={}", root.join("assets/countdown-base").display());
    let mut shown = Vec::new();
    for (name, page) in pages() {
        for recipe in blocks(&page, "toml").into_iter().filter(|block| block.contains("[model]")) {
            let scratch = Scratch::new();
            data(&scratch);
            for program in
                blocks(&page, "python").into_iter().filter(|block| block.starts_with("# reward.py"))
            {
                scratch.file("reward.py", program);
            }
            let command = if recipe.contains("[sft]") { "sft" } else { "train" };
            let recipe = scratch.file("recipe.toml", recipe.replace(".parquet\"", ".jsonl\""));
            let mut command = isentrope(&[command, &recipe, "--dry-run", "--set", &model]);
            let said = stdout_of(command.current_dir(scratch.path("")));
            assert!(said.contains("# memory: "), "{name}: {said}");
            shown.push(name.clone());
        }
    }
    assert!(shown.len() >= 5, "{shown:?}");
}

/// Sources below a directory, by their paths from `root`.
fn sources(root: &Path, below: &Path) -> Vec<String> {
    let entries = fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => sources(root, &path),
            Some(extension) if extension == "rs" => {
                vec![path.strip_prefix(root).unwrap().to_str().unwrap().to_owned()]
            }
            _ => Vec::new(),
        })
        .collect()
}

/// The guide to the sources names files of its section's crate by the end of their paths, and may
/// name others by all of it.
#[test]
fn every_source_that_the_guide_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let sources = sources(&root, &root.join("crates"));
    let page = page("reading.md");
    let (mut of_section, mut named) = (vec!["crates/".to_owned()], 0);
    for line in page.lines() {
        let quoted = || line.split('`').skip(1).step_by(2);
        if line.starts_with("## ") {
            let crates = quoted().map(|name| format!("{name}/")).filter(|name| name.starts_with("crates/"));
            of_section = crates.collect();
            if of_section.is_empty() {
                of_section.push("crates/".to_owned());
            }
        }
        for name in quoted().filter(|name| name.ends_with(".rs")) {
            let is_named = |rest: &str| match name.split_once('*') {
                Some((before, after)) => rest.starts_with(before) && rest.ends_with(after),
                None => rest == name,
            };
            let is_it = |path: &str| {
                let is_of_section = of_section.iter().any(|of| path.starts_with(of));
                let mut ends = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
                is_named(path) || is_of_section && ends.any(is_named)
            };
            assert!(sources.iter().any(|path| is_it(path)), "docs/reading.md: there is no {name}: {line}");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}

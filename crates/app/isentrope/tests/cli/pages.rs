//! The recipes that pages of the documentation show.

use crate::program::{Scratch, files_below, isentrope, stdout_of};
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
    let problems: Vec<_> = (10..90)
        .map(|n| json!({"prompt": format!("1 2 {}>{n}:", n - 3), "answer": n.to_string()}))
        .collect();
    let example = |n: i32| {
        let rest = n - 3;
        json!({"prompt": format!("1 2 {rest}>{n}:"), "response": format!("1+2=3,3+{rest}={n}!")})
    };
    let examples: Vec<_> = (10..90).map(example).collect();
    for (name, rows) in [
        ("train", &problems),
        ("test", &problems),
        ("chats", &examples),
        ("held-out-chats", &examples),
    ] {
        scratch.lines(&format!("data/{name}.jsonl"), rows);
    }
}

#[test]
fn every_whole_recipe_is_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap();
    let model = format!("model.path={}", root.join("assets/countdown-base").display());
    let mut shown = Vec::new();
    for path in files_below("docs", "md") {
        let page = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for recipe in blocks(&page, "toml").into_iter().filter(|block| block.contains("[model]")) {
            let scratch = Scratch::new();
            data(&scratch);
            let command = if recipe.contains("[sft]") { "sft" } else { "train" };
            let recipe = scratch.file("recipe.toml", recipe.replace(".parquet\"", ".jsonl\""));
            let mut command = isentrope(&[command, &recipe, "--dry-run", "--set", &model]);
            let said = stdout_of(command.current_dir(scratch.path("")));
            assert!(said.contains("# memory: "), "{name}: {said}");
            shown.push(name.clone());
        }
    }
    let page = "coming-from-trl-or-verl.md";
    assert_eq!(shown.iter().filter(|name| *name == page).count(), 3, "{page}");
}

/// The guide to the sources names files by the end of their paths.
#[test]
fn every_source_that_the_guide_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap();
    let sources = files_below("crates", "rs");
    let page = fs::read_to_string(root.join("docs/reading.md")).unwrap();
    let words = page.split(|c: char| c.is_whitespace() || "`,;()".contains(c));
    let mut named = 0;
    for name in words.filter(|word| word.ends_with(".rs")) {
        let is_there = sources.iter().any(|path| path.ends_with(name));
        assert!(is_there, "docs/reading.md: there is no {name}");
        named += 1;
    }
    assert!(named > 30, "{named}");
}

/// A link of a page leads to a file that is there and, if it names a section, to a heading of it.
#[test]
fn every_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap();
    let mut from = files_below("docs", "md");
    from.extend(["README.md", "CONTRIBUTING.md", "bench/README.md"].map(|name| root.join(name)));
    let mut links = 0;
    for path in from {
        let page = fs::read_to_string(&path).unwrap();
        for link in page.split("](").skip(1).map(|rest| rest.split_once(')').unwrap().0) {
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            if !section.is_empty() {
                let text = fs::read_to_string(&target).unwrap();
                let found = headings(&text).any(|heading| heading == section);
                assert!(found, "{}: {link} names no heading", path.display());
            }
            links += 1;
        }
    }
    assert!(links > 60, "{links}");
}

/// The headings of a page, as links name them.
fn headings(page: &str) -> impl Iterator<Item = String> {
    page.lines().filter(|line| line.starts_with('#')).map(|line| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// The page's table has the commands that the program lists, in its order and words.
#[test]
fn the_commands_of_the_page_are_those_of_the_program() {
    let help = stdout_of(isentrope(&["--help"]).env("COLUMNS", "1000"));
    let listed = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let mut rows: Vec<String> = Vec::new();
    for line in listed.lines() {
        match (line.trim_start().split_once("  "), line.starts_with("   "), rows.last_mut()) {
            // Help wraps long descriptions.
            (_, true, Some(row)) => {
                *row = format!("{} {} |", row.trim_end_matches(" |"), line.trim());
            }
            (Some((name, about)), ..) => rows.push(format!("| `{name}` | {} |", about.trim())),
            _ => panic!("{line}"),
        }
    }
    rows.retain(|row| !row.starts_with("| `help`"));
    let table = format!("| command | |\n|---|---|\n{}\n", rows.join("\n"));
    assert_written("commands", &table);
}

/// docs/reference/objectives.md has the table of `isentrope objectives`, whose list has the same.
#[test]
fn the_objectives_of_the_page_are_those_of_the_program() {
    assert_written("objectives", &stdout_of(isentrope("objectives --markdown")));
    let list = stdout_of(isentrope("objectives"));
    for about in isentrope_objective::catalogue() {
        assert!(list.contains(&format!("{}\n  changes   {}\n", about.name, about.kind)));
        assert!(list.contains(&format!("  setting   {}\n", about.setting)), "{}", about.name);
    }
}

/// Asserts that docs/reference/NAME.md has this text between its marks. UPDATE_DOCS=1 writes it.
fn assert_written(name: &str, text: &str) {
    let page = format!("docs/reference/{name}.md");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(&page);
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let found = fs::read_to_string(&file).unwrap();
    let (before, rest) = found.split_once(&start).unwrap();
    let (written, after) = rest.split_once(&end).unwrap();
    if std::env::var("UPDATE_DOCS").is_ok_and(|value| value == "1") {
        fs::write(&file, format!("{before}{start}{text}{end}{after}")).unwrap();
        return;
    }
    let command = "UPDATE_DOCS=1 cargo test -p isentrope --test cli pages";
    assert_eq!(written, text, "{page} says something else; run: {command}");
}

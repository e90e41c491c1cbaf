//! The recipes that pages of the documentation show.

use crate::program::{Scratch, isentrope, stdout_of};
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
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
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
    for (page, recipes) in [("from-trl.md", 3), ("from-verl.md", 2)] {
        assert_eq!(shown.iter().filter(|name| *name == page).count(), recipes, "{page}");
    }
}

//! `isentrope examples`: the program alone is enough to train at once.

use crate::program::{Scratch, isentrope, stdout_of};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Contents of the files below these directories of `root`, by their paths.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> =
        ["assets", "examples", "experiments", "recipes"].map(PathBuf::from).into();
    while let Some(path) = open.pop() {
        if root.join(&path).is_dir() {
            open.extend(
                fs::read_dir(root.join(&path))
                    .unwrap()
                    .map(|entry| path.join(entry.unwrap().file_name())),
            );
        } else if !path.components().any(|part| part.as_os_str() == "__pycache__") {
            found.insert(path.clone(), fs::read(root.join(&path)).unwrap());
        }
    }
    found
}

#[test]
fn they_are_the_repositorys_and_train_where_they_are_written() {
    let scratch = Scratch::new();
    let here = PathBuf::from(scratch.path("a new/place"));
    let said = stdout_of(isentrope(format!("examples '{}'", here.display())));
    let next = format!("  cd '{}' && isentrope train recipes/quickstart.toml\n", here.display());
    assert!(said.ends_with(&next), "{said}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let (ours, theirs) = (files(&here), files(&root));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    assert!(ours == theirs);

    let plan = stdout_of(isentrope("train recipes/quickstart.toml --dry-run").current_dir(&here));
    assert!(plan.contains("assets/countdown-base"), "{plan}");
}

#[test]
fn what_is_there_stays() {
    let scratch = Scratch::new();
    let mine = scratch.file("quickstart.toml", "mine");
    let recipes = Path::new(&mine).parent().unwrap();
    let here = recipes.join("here");
    fs::create_dir_all(here.join("recipes")).unwrap();
    fs::copy(&mine, here.join("recipes/quickstart.toml")).unwrap();
    fs::copy(&mine, here.join("recipes/programs.partial")).unwrap();
    let said = stdout_of(isentrope("examples").current_dir(&here));
    let there = "./recipes/quickstart.toml is another file already, and stays as it is\n";
    let said_of_others = said.strip_prefix(there).unwrap_or_else(|| panic!("{said}"));
    let (written, rest) = said_of_others.split_once(" files written to .; ").unwrap();
    let written: usize = written.parse().unwrap();
    assert!(rest.starts_with("1 was there already\n") && written > 20, "{said}");
    for name in ["quickstart.toml", "programs.partial"] {
        assert_eq!(fs::read_to_string(here.join("recipes").join(name)).unwrap(), "mine");
    }
    let again = stdout_of(isentrope("examples").current_dir(&here));
    assert!(
        again.contains(&format!("\n0 files written to .; {} were there already\n", written + 1)),
        "{again}"
    );
}

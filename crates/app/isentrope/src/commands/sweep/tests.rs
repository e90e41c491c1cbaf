//! Sweeps that are refused; `refusals.toml` lists them.

use super::file::SweepFile;
use super::runs;
use std::fs;

#[test]
fn what_is_wrong_with_a_sweep_is_named() {
    let cases: toml::Table = toml::from_str(include_str!("refusals.toml")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("recipe.toml"), cases["recipe"].as_str().unwrap()).unwrap();
    let path = dir.path().join("sweep.toml");
    let mut wrong = Vec::new();
    for case in cases["cases"].as_array().unwrap() {
        let case: Vec<&str> =
            case.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        fs::write(&path, case[0]).unwrap();
        let planned = SweepFile::read(&path)
            .and_then(|file| runs::planned(&file, &dir.path().join("out"), &[]));
        let Err(error) = planned else { panic!("{} is accepted", case[0]) };
        let said = crate::sentence(&error);
        let missing = case[1..].iter().filter(|part| !said.contains(**part));
        wrong.extend(missing.map(|part| format!("{part:?} is not in: {said}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! `isentrope lab seeds` on the tables that docs/paper/results keeps of the experiments.

use crate::program::{failure_saying, isentrope, names, stdout_of};
use isentrope_files::sha256_of_file;
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn kept_tables_have_their_statistics() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/paper/results");
    for file in names(&kept) {
        let path = kept.join(&file).display().to_string();
        let said = stdout_of(isentrope(format!("lab seeds {path}")));
        for part in [": entropy at the end, nats", "## The law R = -a exp(H) + b"] {
            assert!(said.contains(part), "{file}: {said}");
        }
    }
    let path = kept.join("countdown-autopilot.csv.gz").display().to_string();
    let said = stdout_of(isentrope(format!("lab seeds {path} --target 0.25")));
    for part in ["## Entropy held at a target", "where entropy falls to 0.25 nats, %"] {
        assert!(said.contains(part), "{said}");
    }
    let missing = isentrope(format!("lab seeds {path} --group nothing"));
    failure_saying(missing, &["no group \"nothing\"; it has any-token"]);
    let json = stdout_of(isentrope(format!("lab seeds {path} --group any-token --json")));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["groups"][0]["name"], "any-token");
    let curve = &json["curves"][0]["curves"]["policy/entropy"];
    assert_eq!(curve["steps"].as_array().unwrap().len(), curve["mean"].as_array().unwrap().len());
    assert!(
        json["curves"][0]["laws"]["countdown"]["r_squared"].is_f64(),
        "{}",
        json["curves"][0]["laws"]
    );
}

/// Each picture of the paper's pages is made from the tables as they are: `experiments/figures.py`
/// writes their SHA-256 into it.
#[test]
fn pictures_are_made_of_the_tables() {
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/paper");
    for picture in names(&paper.join("figures")) {
        let svg = fs::read_to_string(paper.join("figures").join(&picture)).unwrap();
        let (_, made_of) =
            svg.split_once("made of ").unwrap_or_else(|| panic!("{picture}: of what?"));
        let words: Vec<&str> = made_of.split('<').next().unwrap().split(' ').collect();
        for table in words.chunks(2) {
            let hash = sha256_of_file(&paper.join(format!("results/{}.csv.gz", table[0]))).unwrap();
            assert_eq!(hash, table[1], "{picture}: draw it again with experiments/figures.py");
        }
    }
}

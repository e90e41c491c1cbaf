//! Parts of evaluation sets are distinguished from sets, and shown below them.

use crate::planted;
use isentrope_lab::law::points::{of_metrics, of_parts, of_run};
use isentrope_lab::log::RunLog;
use isentrope_lab::report::Report;
use isentrope_lab::run::Run;
use isentrope_lab::seeds::{self, Control, Entry, Section, Summary};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A run with a set of two parts, one learnt late, and with a set that has a slash in its name and
/// is no part.
fn planted(dir: &Path, name: &str, seed: u64) -> PathBuf {
    let row = |i: u64| {
        let mut row = planted::step(i, 10.0, 4, seed);
        if i.is_multiple_of(4) {
            let late = if i >= 20 { 0.9 } else { 0.1 };
            for (key, value) in [
                ("held-out/easy/mean@8", 0.5 + i as f64 / 100.0),
                ("held-out/easy/mean@4", 0.4),
                ("held-out/easy/pass@8", 0.95),
                ("held-out/easy/entropy", 0.25),
                ("held-out/late/mean@8", late),
                ("held-out/late/entropy", 0.125),
                ("openai/gsm8k/mean@8", 0.5),
                ("openai/gsm8k/entropy", 0.75 - i as f64 / 100.0),
            ] {
                row.insert(format!("eval/{key}"), json!(value));
            }
        }
        row
    };
    let rows: Vec<_> = (0..=40).map(row).collect();
    let mut recipe = planted::recipe(40, "none");
    recipe["run"]["seed"] = json!(seed);
    planted::run(dir, name, &rows, recipe)
}

#[test]
fn parts_are_told_from_sets() {
    let dir = TempDir::new().unwrap();
    let log = RunLog::open(&planted(dir.path(), "run", 1)).unwrap();
    let parts: Vec<(&str, &str)> = log.parts().into_iter().collect();
    assert_eq!(parts, [("held-out/easy", "held-out"), ("held-out/late", "held-out")]);
    let sets = |all: Vec<isentrope_lab::law::points::SetPoints>| -> Vec<String> {
        all.into_iter().map(|measured| measured.set).collect()
    };
    assert_eq!(sets(of_run(&log)), ["held-out", "openai/gsm8k"]);
    assert_eq!(sets(of_parts(&log)), ["held-out/easy", "held-out/late"]);
    assert_eq!(
        sets(of_metrics(&log, None, None).unwrap()).len(),
        4,
        "by name they can be asked for"
    );
}

#[test]
fn the_report_draws_parts_beside_each_other() {
    let dir = TempDir::new().unwrap();
    let runs = [planted(dir.path(), "one", 1), planted(dir.path(), "two", 2)];
    let html = Report::open(&runs).unwrap().html().unwrap();
    for part in [
        "Accuracy on held-out by part",
        "Entropy on held-out by part",
        "By part of <bdi>held-out</bdi>: <bdi>easy</bdi> 50.0\u{a0}% → <b>90.0\u{a0}%</b>",
        "<code>eval/held-out/late/entropy</code>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let (_, law) = html.split_once("<section id=\"law\">").unwrap();
    let law = law.split_once("</section>").unwrap().0;
    assert!(law.contains("On openai/gsm8k") && !law.contains("easy"), "{law}");
    let (_, overview) = html.split_once("<section id=\"overview\">").unwrap();
    assert!(!overview.split_once("</section>").unwrap().0.contains("easy"));
    // Other metrics of a part stand under everything else, and nowhere else.
    assert_eq!(html.matches("<code>eval/held-out/easy/pass@8</code>").count(), 1);
    let (_, others) = html.split_once("id=\"chart-others\"").unwrap();
    assert!(others.contains("<code>eval/held-out/easy/pass@8</code>"));
    assert!(others.contains("<code>eval/held-out/easy/mean@4</code>"));
}

#[test]
fn tables_over_seeds_have_parts_under_a_heading_of_their_own() {
    let dir = TempDir::new().unwrap();
    let runs: Vec<(Run, Value)> = [1, 2]
        .map(|seed| {
            let path = planted(dir.path(), &seed.to_string(), seed);
            let mut recipe = planted::recipe(40, "none");
            recipe["run"]["seed"] = json!(seed);
            (Run::open(&path).unwrap(), recipe)
        })
        .into();
    let runs: Vec<Entry<'_>> = runs
        .iter()
        .map(|(run, recipe)| Entry {
            name: run.name.clone(),
            group: None,
            run: Some(run),
            recipe: Some(recipe),
            control: Control::First,
        })
        .collect();
    let summary = Summary::of(&runs);
    let titles = |section| -> Vec<String> {
        let of = summary.rows.iter().filter(|row| row.measure.section == section);
        of.map(|row| row.measure.title.clone()).collect()
    };
    assert_eq!(
        titles(Section::Parts),
        ["held-out/easy: mean@8 at the end, %", "held-out/late: mean@8 at the end, %"]
    );
    assert!(
        titles(Section::Main)
            .iter()
            .all(|title| !title.contains("easy") && !title.contains("late"))
    );
    let markdown = seeds::markdown(&summary);
    let (before, after) = markdown.split_once("## Parts of the sets\n").unwrap();
    assert!(
        !before.contains("held-out/easy") && after.contains("held-out/easy: mean@8 at the end, %")
    );
    assert!(!seeds::text(&summary).contains("easy"), "the terminal has the main rows alone");
}

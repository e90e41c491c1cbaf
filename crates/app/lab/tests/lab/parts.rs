//! Parts of evaluation sets: told from sets, and shown below them.

use crate::planted;
use isentrope_lab::law::points::{of_metrics, of_parts, of_run};
use isentrope_lab::log::{RunLog, part_of};
use isentrope_lab::report::Report;
use isentrope_lab::run::Run;
use isentrope_lab::seeds::{self, Control, Entry, Section, Summary};
use isentrope_lab::show::{self, Look, Wanted};
use isentrope_lab::text_plot::Charset;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A run whose set has two parts, one of which learns late; with a set that has a slash in its name
/// and is no part.
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
    assert_eq!(part_of("test/sum", |set| set == "test"), Some(("test", "sum")));
    assert_eq!(part_of("a/b/c/d", |set| set == "a/b"), Some(("a/b", "c/d")));
    for other in ["test", "test/", "test_t0.6"] {
        assert_eq!(part_of(other, |set| set == "test"), None, "{other}");
    }
    let dir = TempDir::new().unwrap();
    let log = RunLog::open(&planted(dir.path(), "run", 1)).unwrap();
    let parts: Vec<(&str, &str)> = log.parts().into_iter().collect();
    assert_eq!(parts, [("held-out/easy", "held-out"), ("held-out/late", "held-out")]);
    let sets = |all: Vec<isentrope_lab::law::points::Measured>| -> Vec<String> {
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
fn the_terminal_has_a_table_of_parts() {
    let dir = TempDir::new().unwrap();
    let runs = Run::read(&planted(dir.path(), "run", 1)).unwrap();
    let look = Look {
        width: 110,
        colors: false,
        charset: Charset::Unicode,
        visible: |text| Cow::Borrowed(text),
    };
    let page = show::page(&runs, &Wanted::default(), &look).join("\n");
    let (_, table) =
        page.split_once("parts of held-out: mean@8, entropy\n").unwrap_or_else(|| panic!("{page}"));
    let cells: Vec<Vec<&str>> =
        table.lines().take(4).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[0][..4], ["part", "step", "0", "H"]);
    assert_eq!(cells[1][..4], ["easy", "50.0", "%", "0.2500"]);
    assert_eq!(cells[2][0], "late");
    assert!(table.lines().nth(2).unwrap().contains("90.0 %"), "{table}");
    assert_eq!(cells[3][0], "all");
    // They have neither a table of evaluations, nor a law, nor a curve of their own.
    assert!(
        !page.contains("evaluations held-out/easy") && !page.contains("law held-out/easy"),
        "{page}"
    );
    assert!(!page.contains("held-out/late, mean@8"), "{page}");
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
    let (law, rest) = html.split_once("<section id=\"collapse\">").unwrap();
    let (_, law) = law.split_once("<section id=\"law\">").unwrap();
    assert!(law.contains("On openai/gsm8k") && !law.contains("easy"), "{law}");
    assert!(!rest.split_once("</section>").unwrap().0.contains("held-out/easy"));
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
        of.map(|row| row.measure.title()).collect()
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

//! `isentrope lab seeds` on the tables that docs/paper/results keeps of the experiments.

use crate::program::{failure_saying, isentrope, names, stdout_of};
use isentrope_files::sha256_of_file;
use serde_json::Value;
use std::collections::HashSet;
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

/// The steps were read from the table by eye: at temperature 1 seeds 1 to 6 without a method pass
/// 30 % at steps 80, 60, 80, 80, 100 and 80; KL-Cov's at 60, never, 80, 60, never and 60.
#[test]
fn steps_to_an_accuracy_are_counted() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/paper/results");
    let path = kept.join("countdown-equal-entropy.csv.gz").display().to_string();
    let of =
        |group: &str| stdout_of(isentrope(format!("lab seeds {path} --group {group} --level 30")));
    for (group, line) in [
        ("none", "| none | countdown | 80 [60, 100] | 6 of 6 |"),
        ("kl-cov", "| kl-cov | countdown | 80 [60, 80] | 4 of 6 |"),
    ] {
        let said = of(group);
        assert!(said.contains(line), "{said}");
    }
    let never = stdout_of(isentrope(format!("lab seeds {path} --group none --level 90 --json")));
    let never: Value = serde_json::from_str(&never).unwrap();
    assert_eq!(never["steps_to_level"][0]["steps"], serde_json::json!(vec![Value::Null; 6]));
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

/// The page's rows of methods and prices, and README's picture, have the numbers that the program
/// computes of the tables: each `x [low, high]` in them.
#[test]
fn pages_have_the_numbers_of_the_tables() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let read = |page: &str| fs::read_to_string(root.join(page)).unwrap();
    let page = read("docs/paper/results.md");
    let starts = [
        "| Clip-Cov keeps",
        "| KL-Cov keeps",
        "| KL-Cov's cost lasts",
        "| KL-Cov costs an able base",
        "| the paper's filter gains",
        "| a KL to the reference",
    ];
    let of_methods = page.lines().filter(|line| starts.iter().any(|start| line.starts_with(start)));
    let prices = page.lines().skip_while(|line| !line.contains("| price less paid |"));
    let prices = prices.skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<String> = of_methods.chain(prices).map(without_factor).collect();
    assert!(rows.len() >= 14, "{rows:?}");
    let mut known = HashSet::new();
    for table in ["pooled", "methods", "strength", "autopilot", "horizon", "filter"] {
        let path = root.join(format!("docs/paper/results/countdown-{table}.csv.gz"));
        let json = stdout_of(isentrope(format!("lab seeds {} --json", path.display())));
        intervals_of(&serde_json::from_str(&json).unwrap(), &mut known);
    }
    let readme = read("README.md").replace('\n', " ");
    for text in rows.iter().chain([&readme]) {
        for interval in intervals_in(text) {
            assert!(known.contains(&interval), "{interval:?} is in no table: {text}");
        }
    }
}

/// The page's table of methods over three seeds has the numbers that the program computes.
#[test]
fn the_table_of_methods_has_the_numbers_of_its_runs() {
    let rows = rows_of("docs/concepts/which-method.md", "| three seeds |");
    let json = seeds_of("countdown-entropy-methods", "--pooled --level 30");
    let columns = [
        ("policy/entropy", 1.0, 3),
        ("eval/countdown/mean@8", 100.0, 1),
        ("eval/countdown/pass@8", 100.0, 1),
        ("eval/countdown/maj@8", 100.0, 1),
        ("eval/countdown/length_mean", 1.0, 1),
    ];
    for (column, (metric, scale, digits)) in columns.into_iter().enumerate() {
        let pooled = json["pooled"].as_array().unwrap();
        let of = |of: &&Value| {
            let taken = if column == 0 { "last-tenth" } else { "end" };
            of["measure"]["metric"] == metric && of["measure"]["taken"] == taken
        };
        let of = pooled.iter().find(of).unwrap();
        assert_eq!((&of["seeds"], &of["degrees"]), (&serde_json::json!([1, 2, 3]), &58.into()));
        let half = of["half_width"].as_f64().unwrap() * scale;
        assert_eq!(rows[1][column + 1], format!("*± {half:.digits$}*"), "{metric}");
        let differences = of["differences"].as_array().unwrap();
        assert_eq!(rows.len(), differences.len() + 2);
        for row in &rows[2..] {
            let of = differences.iter().find(|of| of["group"] == row[0]).unwrap();
            let shown = row[column + 1].trim_matches('*');
            let value = of["value"].as_f64().unwrap() * scale;
            let number = |text: &str| text.parse::<f64>().unwrap();
            assert_eq!(number(shown), number(&format!("{value:.digits$}")), "{row:?} {metric}");
            let is_bold = of["p_holm"].as_f64().unwrap() < 0.05;
            assert_eq!(row[column + 1].starts_with("**"), is_bold, "{row:?} {metric}");
        }
    }
}

/// The ends that tables of methods show: the metric, what is taken, scale and digits.
const ENDS: [End; 4] = [
    ("policy/entropy", "last-tenth", 1.0, 3),
    ("eval/countdown/mean@8", "end", 100.0, 1),
    ("eval/countdown/pass@8", "end", 100.0, 1),
    ("eval/countdown/maj@8", "end", 100.0, 1),
];

type End = (&'static str, &'static str, f64, i32);

/// The first cells of a table's rows, and the groups of each. Cells of several groups have their
/// values, of one group mostly an interval, too.
type Rows = &'static [(&'static str, &'static [&'static str])];

const METHODS: Rows = &[
    ("grpo", &["grpo"]),
    ("no-clipping", &["no-clipping"]),
    ("clip-higher", &["clip-higher"]),
    ("clip-cov", &["clip-cov"]),
    ("kl-cov", &["kl-cov"]),
    ("reference-kl", &["reference-kl"]),
];

const STRENGTHS: Rows = &[
    ("grpo", &["grpo"]),
    ("Clip-Cov 0.005, 0.02, 0.05", &["clip-cov-0.005", "clip-cov-0.02", "clip-cov-0.05"]),
    (
        "KL-Cov 0.02 by 1, 0.1 by 1, 0.1 by 5",
        &["kl-cov-0.02-by-1", "kl-cov-0.1-by-1", "kl-cov-0.1-by-5"],
    ),
    (
        "bonus 0.003, 0.01, 0.03",
        &["entropy-bonus-0.003", "entropy-bonus-0.01", "entropy-bonus-0.03"],
    ),
    (
        "reference KL 0.01, 0.05, 0.2",
        &["reference-kl-0.01", "reference-kl-0.05", "reference-kl-0.2"],
    ),
];

const AT_EQUAL_ENTROPY: Rows = &[
    ("no method", &["none"]),
    ("Clip-Cov", &["clip-cov"]),
    ("**KL-Cov**", &["kl-cov"]),
    ("Skywork-OR1's bonus", &["skywork"]),
    ("a bonus that seeks 0.20", &["entropy-bonus"]),
    ("REPO-R, zeta up to 1", &["repo-r"]),
    ("Clip_B", &["clip-b"]),
    ("Clip_V", &["clip-v"]),
    ("reference KL", &["reference-kl"]),
    ("EntroPIC", &["entropic"]),
    ("MaxRL", &["maxrl"]),
    ("CE-GPPO", &["ce-gppo"]),
];

const TOKENS: Rows = &[
    ("no penalty", &["no-clipping"]),
    ("largest covariances, by 1 and 3", &["kl-cov-0.02-by-1", "kl-cov-0.02-by-3"]),
    ("unlikely of worse and likely of better, by 3", &["worse-0.02-by-3", "better-0.02-by-3"]),
    ("random, by 1 and 3", &["random-0.02-by-1", "random-0.02-by-3"]),
    (
        "largest, penalty times size of A, by 1 and 3",
        &["of-advantage-0.02-by-1", "of-advantage-0.02-by-3"],
    ),
];

const MICRO_BATCHES: Rows = &[
    ("the minibatch of 128 responses", &["kl-cov"]),
    ("each 16 responses", &["kl-cov-of-16"]),
    ("each 1, by rounding", &["kl-cov-of-1"]),
    ("the minibatch; k2 for abs", &["kl-cov-by-k2"]),
    ("the minibatch; k3", &["kl-cov-by-k3"]),
    ("the minibatch; k1: four of five runs at 0 %", &["kl-cov-by-k1"]),
];

const ADAPTERS: Rows = &[
    ("all weights", &["all"]),
    ("rank 1", &["rank-1"]),
    ("rank 8", &["rank-8"]),
    ("rank 64", &["rank-64"]),
];

/// The page's tables of methods have the numbers that the program computes, group by group.
#[test]
fn tables_of_ends_have_the_numbers_of_their_runs() {
    let [held, mean, pass, maj] = ENDS;
    let last = ("eval/countdown/entropy", "end", 1.0, 3);
    for (head, table, seeds, groups, columns) in [
        ("| six seeds |", "methods", 6, METHODS, &[last, mean, pass, maj][..]),
        ("| five seeds, 200 steps |", "strength", 5, STRENGTHS, &[last, mean, pass, maj]),
        (
            "| 0.20 nats, six seeds |",
            "equal-entropy",
            6,
            AT_EQUAL_ENTROPY,
            &[held, mean, pass, maj],
        ),
        ("| six seeds, 240 steps |", "kl-cov-tokens", 6, TOKENS, &[last, mean, pass, maj]),
        ("| picked inside; divergence |", "published-code", 5, MICRO_BATCHES, &[last, mean, maj]),
        ("| five seeds |", "lora-ranks", 5, ADAPTERS, &[held, mean, pass, maj]),
    ] {
        let rows = rows_of("docs/paper/results.md", head);
        let json = seeds_of(&format!("countdown-{table}"), "");
        assert_eq!(rows.len(), groups.len(), "{head}");
        for (row, (label, groups)) in rows.iter().zip(groups) {
            assert_eq!(row[0], *label, "{head}");
            assert!(row.len() > columns.len(), "{row:?}");
            for (cell, (metric, taken, scale, digits)) in row[1..].iter().zip(columns) {
                let ends = groups.iter().map(|group| mean_of(&json, group, metric, taken));
                let count = |of: &Value| of["runs"].as_array().map(Vec::len);
                assert!(ends.clone().all(|of| count(of) == Some(seeds)), "{row:?}");
                let known: Vec<&Value> = match cell.contains('[') {
                    true => ends
                        .flat_map(|of| [&of["value"], &of["interval"][0], &of["interval"][1]])
                        .collect(),
                    false => ends.map(|of| &of["value"]).collect(),
                };
                let shown = cell.split([' ', '[', ',', ']']).filter(|word| !word.is_empty());
                let shown: Vec<&str> = shown.collect();
                assert_eq!(shown.len(), known.len(), "{row:?}");
                for (shown, known) in shown.into_iter().zip(known) {
                    assert_shown(shown, known, *scale, *digits);
                }
            }
        }
    }
}

/// The page's table of trials at equal entropy has every run of the tuning seed: a row names a
/// method, its strengths, and for each of these an end.
#[test]
fn the_table_of_trials_has_the_numbers_of_its_runs() {
    let rows = rows_of("docs/concepts/which-method.md", "| one run each |");
    let json = seeds_of("countdown-equal-entropy-trials", "");
    let mut seen = 0;
    for row in &rows {
        assert_eq!(row.len(), ENDS.len() + 2, "{row:?}");
        let strengths: Vec<&str> = row[1].split(", ").collect();
        for (number, strength) in strengths.iter().enumerate() {
            let name = match *strength {
                "" => row[0].clone(),
                strength => format!("{}-{strength}", row[0]),
            };
            for (cell, (metric, taken, scale, digits)) in row[2..].iter().zip(ENDS) {
                let shown: Vec<&str> = cell.split(", ").collect();
                assert_eq!(shown.len(), strengths.len(), "{row:?}");
                let known = &mean_of(&json, &name, metric, taken)["value"];
                assert_shown(shown[number], known, scale, digits);
            }
            seen += 1;
        }
    }
    assert_eq!(seen, json["groups"].as_array().unwrap().len());
}

/// Each cell of the page's table of doses says what runs pay, with its interval, and their price.
#[test]
fn the_table_of_doses_has_the_numbers_of_its_runs() {
    let rows = rows_of("docs/paper/results.md", "| paid, of the price |");
    let json = seeds_of("countdown-doses", "");
    let groups = json["groups"].as_array().unwrap();
    let mut seen = 0;
    for (row, method) in rows.iter().zip(["skywork", "clip-cov", "reference-kl", "kl-cov"]) {
        for (cell, level) in
            row[1..].iter().zip([15, 20, 25, 30]).filter(|(cell, _)| !cell.is_empty())
        {
            let group = format!("{method}-{level}");
            let price = mean_of(&json, &group, "eval/countdown/mean@8", "law-price");
            let is_end = |of: &&Value| {
                of["measure"]["metric"] == "eval/countdown/mean@8"
                    && of["measure"]["taken"] == "end"
            };
            let end = json["rows"].as_array().unwrap().iter().find(is_end).unwrap();
            let place = groups.iter().position(|of| of["name"] == *group).unwrap();
            let lost = &end["against"][place]["difference"];
            let [low, high] = [&lost["interval"][1], &lost["interval"][0]];
            let shown: Vec<&str> =
                cell.split([' ', '[', ',', ']']).filter(|of| !of.is_empty()).collect();
            assert_eq!((shown.len(), shown[3]), (5, "of"), "{row:?}");
            for (shown, known) in shown.iter().zip([&lost["value"], low, high]) {
                assert_shown(shown, known, -100.0, 1);
            }
            assert_shown(shown[4], &price["value"], 100.0, 1);
            seen += 1;
        }
    }
    assert_eq!(seen + 1, groups.len());
}

/// The cells of the table in a page that begins with this head.
fn rows_of(page: &str, head: &str) -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = fs::read_to_string(root.join(page)).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim_matches([' ', '`']).to_owned()).collect()
    };
    rows.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The JSON of `lab seeds` about a kept table.
fn seeds_of(table: &str, options: &str) -> Value {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/paper/results");
    let path = kept.join(format!("{table}.csv.gz"));
    let line = format!("lab seeds {} {options} --json", path.display());
    serde_json::from_str(&stdout_of(isentrope(line))).unwrap()
}

/// A group's mean of a metric.
fn mean_of<'a>(json: &'a Value, group: &str, metric: &str, taken: &str) -> &'a Value {
    let groups = json["groups"].as_array().unwrap();
    let place = groups.iter().position(|of| of["name"] == *group);
    let place = place.unwrap_or_else(|| panic!("the table has no {group}"));
    let is_its = |of: &&Value| of["measure"]["metric"] == metric && of["measure"]["taken"] == taken;
    let of = json["rows"].as_array().unwrap().iter().find(is_its).unwrap();
    &of["means"][place]
}

/// Checks that a page shows a number. A half may be rounded up or down.
fn assert_shown(shown: &str, known: &Value, scale: f64, digits: i32) {
    let known = known.as_f64().unwrap() * scale;
    let number: f64 = shown.parse().unwrap();
    assert!((number - known).abs() <= 0.5001 * 0.1_f64.powi(digits), "{shown} is {known}");
}

/// A row without its `H x 2.01 [1.79, 2.25]`, a ratio, which no table has.
fn without_factor(row: &str) -> String {
    match row.split_once("H x ") {
        Some((before, after)) => before.to_owned() + after.split_once("];").unwrap().1,
        None => row.to_owned(),
    }
}

/// Value, low and high in tenths, without the sign that a page gives to a cost or a gain.
type Tenths = [i64; 3];

/// Each `x [low, high]` with one digit behind the point.
fn intervals_in(text: &str) -> Vec<Tenths> {
    let tenths = |word: &str| {
        let number: f64 = word.trim_matches(['+', '|', '*', ';', ' ', ',', ']']).parse().ok()?;
        Some((number * 10.0).round() as i64)
    };
    let of = |(before, after): (&str, &str)| {
        let mut words = before.split([' ', '|']).rev().filter(|word| !word.is_empty());
        let value = words.by_ref().take(3).find_map(tenths)?;
        let (low, high) = after.split_once(']')?.0.split_once(", ")?;
        Some(unsigned([value, tenths(low)?, tenths(high)?]))
    };
    text.match_indices('[').filter_map(|(at, _)| of((&text[..at], &text[at + 1..]))).collect()
}

/// The intervals of accuracies in a table's JSON, in percent.
fn intervals_of(value: &Value, known: &mut HashSet<Tenths>) {
    match value {
        Value::Object(fields) => {
            if let (Some(value), Some(ends)) =
                (value["value"].as_f64(), value["interval"].as_array())
            {
                let tenths = |x: f64| (x * 1000.0).round() as i64;
                let [low, high] = [0, 1].map(|end| tenths(ends[end].as_f64().unwrap()));
                known.insert(unsigned([tenths(value), low, high]));
            }
            fields.values().for_each(|field| intervals_of(field, known));
        }
        Value::Array(items) => items.iter().for_each(|item| intervals_of(item, known)),
        _ => {}
    }
}

fn unsigned([value, low, high]: Tenths) -> Tenths {
    if value < 0 { [-value, -high, -low] } else { [value, low, high] }
}

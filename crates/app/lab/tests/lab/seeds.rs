//! Statistics over seeds.

use isentrope_lab::run::Run;
use isentrope_lab::seeds::{
    self, Control, Entry, Mean, Paired, Section, Summary, quantile, within,
};
use isentrope_random::{Draws, Purpose};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Student's table, as printed in textbooks (Fisher and Yates 1963, table III), two-sided 95 % and
/// 99 %.
#[test]
fn quantiles_are_students() {
    for (degrees, t95, t99) in [
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (3, 3.182, 5.841),
        (4, 2.776, 4.604),
        (5, 2.571, 4.032),
        (9, 2.262, 3.250),
        (10, 2.228, 3.169),
        (30, 2.042, 2.750),
        (120, 1.980, 2.617),
    ] {
        assert!(
            (quantile(0.975, degrees) - t95).abs() < 6e-4,
            "{degrees}: {}",
            quantile(0.975, degrees)
        );
        assert!(
            (quantile(0.995, degrees) - t99).abs() < 6e-4,
            "{degrees}: {}",
            quantile(0.995, degrees)
        );
    }
    // With one degree it is Cauchy's distribution; with two it has a closed form.
    assert!((within(1.0, 1) - 0.5).abs() < 1e-15);
    for t in [0.1, 1.0, 7.0] {
        let closed = t / f64::sqrt(2.0 + t * t);
        assert!((within(t, 2) - closed).abs() < 1e-14);
        // The density of three degrees by Simpson's rule.
        let density =
            |x: f64| 6.0 * f64::sqrt(3.0) / (std::f64::consts::PI * (3.0 + x * x).powi(2));
        let (steps, h) = (2000, t / 2000.0);
        let sum: f64 = (0..=steps)
            .map(|i| {
                density(f64::from(i) * h)
                    * if i == 0 || i == steps { 1.0 } else { f64::from(2 + 2 * (i % 2)) }
            })
            .sum();
        assert!((within(t, 3) - 2.0 * sum * h / 3.0).abs() < 1e-10, "{t}");
    }
}

/// Hours of sleep gained by ten patients with two drugs (Cushny and Peebles 1905; Student 1908).
/// The paired t test of them is the example of R's `t.test`: t = -4.0621, 9 degrees, p = 0.002833,
/// 95 % interval of the difference -2.4598858 to -0.7001142.
#[test]
fn students_sleep_comes_out_as_students() {
    let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
    let pairs: Vec<(f64, f64)> = second.into_iter().zip(first).collect();
    let test = Paired::of(&pairs).unwrap();
    let [low, high] = test.difference.interval.unwrap();
    assert!((test.difference.value + 1.58).abs() < 1e-12);
    assert!((low + 2.4598858).abs() < 1e-7 && (high + 0.7001142).abs() < 1e-7, "{low} {high}");
    assert!((test.p.unwrap() - 0.002833).abs() < 5e-7, "{:?}", test.p);
    // Nine differences have one sign and one is 0, so that its sign is free: 4 assignments of 1024
    // are as far from 0.
    assert_eq!((test.p_exact, test.p_exact_least), (Some(4.0 / 1024.0), 2.0 / 1024.0));
}

#[test]
fn few_seeds_say_what_they_can() {
    assert_eq!(Mean::of(vec![]), None);
    let alone = Mean::of(vec![0.5]).unwrap();
    assert_eq!((alone.value, alone.interval), (0.5, None));
    // 1, 2, 3: mean 2, standard error 1 / sqrt(3).
    let [low, high] = Mean::of(vec![1.0, 2.0, 3.0]).unwrap().interval.unwrap();
    let half = 4.302_652_729_7 / f64::sqrt(3.0);
    assert!((low - 2.0 + half).abs() < 1e-8 && (high - 2.0 - half).abs() < 1e-8);

    let pair = Paired::of(&[(1.0, 2.0)]).unwrap();
    assert_eq!((pair.difference.interval, pair.p, pair.p_exact), (None, None, Some(1.0)));
    let same = Paired::of(&[(0.1 + 0.2, 0.3), (1.0, 1.0), (2.0, 2.0)]).unwrap();
    assert_eq!((same.difference.value, same.p, same.p_exact), (0.0, None, Some(1.0)));
    assert_eq!(same.difference.interval, None);
    let better = Paired::of(&[(1.0, 2.0), (1.0, 3.0), (1.0, 1.5)]).unwrap();
    assert_eq!((better.p_exact, better.p_exact_least), (Some(0.25), 0.25));
    let many: Vec<(f64, f64)> = (0..30).map(|i| (0.0, f64::from(i))).collect();
    assert_eq!(Paired::of(&many).unwrap().p_exact, None);
}

/// Equal differences do not rule out chance, as a t of infinity would say: each of three seeds
/// solves one problem more.
#[test]
fn equal_numbers_have_neither_interval_nor_t_test() {
    for problems in [64.0, 100.0] {
        let pairs: Vec<(f64, f64)> = [10.0, 21.0, 35.0]
            .map(|solved| (solved / problems, (solved + 1.0) / problems))
            .to_vec();
        let test = Paired::of(&pairs).unwrap();
        assert!((test.difference.value - 1.0 / problems).abs() < 1e-15);
        assert_eq!((test.difference.interval, test.p, test.p_exact), (None, None, Some(0.25)));
        assert!(test.difference.has_no_spread());
    }
    let equal = Mean::of(vec![0.1 + 0.2, 0.3, 0.3]).unwrap();
    assert!(equal.has_no_spread() && equal.interval.is_none());
    assert!(!Mean::of(vec![0.5]).unwrap().has_no_spread(), "of one there is none to be seen");

    let mut runs = Runs::new();
    for seed in [1, 2, 3] {
        let own = seed as f64 / 8.0;
        runs.add("base", seed, 10, 0.5, json!({}));
        runs.add("same", seed, 10, 0.625, json!({"objective": {"loss": "gspo"}}));
        runs.add("own", seed, 10, own, json!({"objective": {"loss": "clip"}}));
    }
    let summary = runs.summary();
    let text = seeds::text(&summary);
    assert!(text.contains("    base                         50.00  no spread  3 seeds"), "{text}");
    assert!(text.contains("      against base              +12.50  no spread  3 pairs"), "{text}");
    assert!(text.contains("\n                                        exact 0.250\n"), "{text}");
    assert!(!text.contains("< 0.001"), "{text}");
    assert!(
        summary.notes.iter().any(|note| note.starts_with("No spread: all seeds have")),
        "{text}"
    );
    let markdown = seeds::markdown(&summary);
    assert!(markdown.contains("+12.50 no spread exact 0.250, 3 pairs"), "{markdown}");
}

/// Two seeds have wide intervals, and a share has ends.
#[test]
fn intervals_of_shares_are_cut_off() {
    let mut runs = Runs::new();
    for (seed, old, new) in [(1, 0.2, 0.9), (2, 0.3, 0.2)] {
        runs.add("base", seed, 10, old, json!({}));
        runs.add("other", seed, 10, new, json!({"objective": {"loss": "gspo"}}));
    }
    let summary = runs.summary();
    let row = row(&summary, "set: mean@4 at the end, %");
    assert_eq!(row.means[0].as_ref().unwrap().interval.unwrap()[0], 0.0);
    assert_eq!(row.means[1].as_ref().unwrap().interval, Some([0.0, 1.0]));
    let difference = &row.against[1].as_ref().unwrap().test.difference;
    assert_eq!(difference.interval, Some([-1.0, 1.0]));
    let text = seeds::text(&summary);
    assert!(text.contains("+30.00  [-100.00, +100.00]  2 pairs"), "{text}");
    assert!(text.contains("Intervals are cut off at what a number can be"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// No interval holds impossible numbers, whatever is measured.
#[test]
fn no_interval_leaves_what_a_number_can_be() {
    let mut runs = Runs::new();
    for (seed, end, size) in [(1, 0.01, 0.0), (2, 0.6, 0.3), (3, 0.02, 0.02)] {
        let rows: Vec<Value> = (0..=24)
            .map(|step| {
                let entropy = end + 1.2 * (1.0 - f64::from(step) / 24.0);
                let accuracy = 0.8 - 0.2 * entropy.exp() + size * f64::from(step % 3 - 1);
                json!({"step": step, "policy/entropy": entropy, "eval/set/mean@4": accuracy,
                    "eval/set/entropy": entropy})
            })
            .collect();
        planted(&mut runs, "noisy", seed, &rows, json!({}));
    }
    let summary = runs.summary();
    for (title, range) in [
        ("set: entropy at the end, nats", [0.0, f64::INFINITY]),
        ("set: R^2 of the law, -a exp(H) + b", [0.0, 1.0]),
        ("set: error at the end from the first 30 %, a line in H, points", [0.0, f64::INFINITY]),
        ("set: RMSE after the first 30 %, the law, -a exp(H) + b, points", [0.0, f64::INFINITY]),
    ] {
        let [low, high] = row(&summary, title).means[0].as_ref().unwrap().interval.unwrap();
        let is_cut = low == range[0] || high == range[1];
        assert!(
            range[0] <= low && low < high && high <= range[1] && is_cut,
            "{title}: {low} {high}"
        );
    }
}

/// Each of very many sets was once held against all others.
#[test]
#[ignore = "deep: 6000 sets"]
fn very_many_sets_are_compared_at_once() {
    let mut runs = Runs::new();
    for seed in [1, 2] {
        let mut row = json!({});
        for set in 0..6000 {
            row[format!("eval/set-{set}/mean@1")] = json!(0.5);
            row[format!("eval/set-{set}/entropy")] = json!(0.5 + seed as f64);
        }
        let at = |step: u64| {
            let mut row = row.clone();
            row["step"] = json!(step);
            row
        };
        planted(&mut runs, "many", seed, &[at(0), at(1)], json!({}));
    }
    let began = Instant::now();
    let summary = runs.summary();
    assert!(
        summary
            .rows
            .iter()
            .filter(|row| row.measure.title().ends_with(": entropy at the end, nats"))
            .count()
            == 6000
    );
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// 95 % intervals of normal numbers hold the mean 95 times in 100, and the exact test of what is
/// alike is below 0.05 no more often than 5 times.
#[test]
#[ignore = "deep: 12000 samples"]
fn intervals_cover_and_tests_keep_their_level() {
    let mut draws = Draws::of(11, Purpose::Bootstrap, 0, 0);
    for n in [2usize, 3, 5, 8] {
        let trials = 3000;
        let (mut covered, mut told, mut exact) = (0, 0, 0);
        for trial in 0..trials {
            let mut normal = |i: usize| draws.normals(((n * 10_000 + trial) * 10 + i) as u64);
            let pairs: Vec<(f64, f64)> = (0..n).map(|i| normal(i).into()).collect();
            let [low, high] = Mean::of(pairs.iter().map(|pair| 3.0 + pair.0).collect())
                .unwrap()
                .interval
                .unwrap();
            covered += usize::from((low..high).contains(&3.0));
            let test = Paired::of(&pairs).unwrap();
            told += usize::from(test.p.unwrap() < 0.05);
            exact += usize::from(test.p_exact.unwrap() <= 0.05);
        }
        let share = |count: usize| count as f64 / trials as f64;
        assert!((0.938..0.962).contains(&share(covered)), "{n}: {}", share(covered));
        assert!((0.038..0.062).contains(&share(told)), "{n}: {}", share(told));
        assert!(share(exact) < 0.062, "{n}: {}", share(exact));
    }
}

/// Runs as the trainer records them, with so much accuracy at the end.
struct Runs {
    dir: TempDir,
    runs: Vec<(String, Run, Option<Value>)>,
}

impl Runs {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), runs: Vec::new() }
    }

    fn add(
        &mut self,
        group: &str,
        seed: u64,
        steps: u64,
        accuracy: f64,
        settings: Value,
    ) -> &mut Self {
        let name = format!("{group}/{seed}");
        let dir = self.dir.path().join(&name);
        fs::create_dir_all(&dir).unwrap();
        let every = settings["eval"]["every"].as_u64().unwrap_or(5);
        let mut lines = String::new();
        for step in 0..=steps {
            let share = step as f64 / 10.0;
            let mut line = json!({"step": step});
            if step > 0 {
                line["policy/entropy"] = json!(1.0 - share / 2.0);
            }
            if step % every == 0 {
                line["eval/set/mean@4"] = json!(accuracy * share);
                line["eval/set/pass@1"] = json!(accuracy * share);
                line["eval/set/pass@4"] = json!(accuracy * share + 0.1);
                line["eval/set/entropy"] = json!(0.5);
            }
            lines += &format!("{line}\n");
        }
        fs::write(dir.join("metrics.jsonl"), lines).unwrap();
        let mut recipe = json!({"run": {"seed": seed, "steps": 10, "out": dir}, "eval": {"every": 5,
            "files": ["set"]}});
        for (table, values) in settings.as_object().unwrap() {
            recipe[table] = values.clone();
        }
        self.runs.push((name, Run::open(&dir).unwrap(), Some(recipe)));
        self
    }

    fn summary(&self) -> Summary {
        let runs: Vec<Entry<'_>> = self
            .runs
            .iter()
            .map(|(name, log, recipe)| Entry {
                name: name.clone(),
                group: None,
                run: Some(log),
                recipe: recipe.as_ref(),
                control: Control::First,
            })
            .collect();
        Summary::of(&runs)
    }
}

fn row<'a>(summary: &'a Summary, title: &str) -> &'a seeds::Row {
    let found = summary.rows.iter().find(|row| row.measure.title() == title);
    found.unwrap_or_else(|| {
        panic!("{:?}", summary.rows.iter().map(|row| row.measure.title()).collect::<Vec<_>>())
    })
}

#[test]
fn runs_that_differ_in_the_seed_are_a_group() {
    let mut runs = Runs::new();
    for (seed, accuracy) in [(1, 0.5), (2, 0.6), (3, 0.7)] {
        runs.add(
            "plain",
            seed,
            10,
            accuracy,
            json!({"objective": {"loss": "clip"}, "memory": {"budget_gib": seed},
                "checkpoint": {"keep": seed}}),
        );
    }
    for (seed, accuracy) in [(3, 0.8), (1, 0.55), (2, 0.65)] {
        runs.add("other", seed, 10, accuracy, json!({"objective": {"loss": "gspo"}}));
    }
    let summary = runs.summary();
    assert_eq!(
        summary.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(),
        ["plain", "other"]
    );
    assert_eq!(summary.groups[1].seeds, [Some(3), Some(1), Some(2)]);
    let row = row(&summary, "set: mean@4 at the end, %");
    let means: Vec<f64> = row.means.iter().map(|mean| mean.as_ref().unwrap().value).collect();
    assert!((means[0] - 0.6).abs() < 1e-12 && (means[1] - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(row.against[0], None);
    let mut differences = row.against[1].as_ref().unwrap().test.difference.runs.clone();
    differences.sort_by(f64::total_cmp);
    for (found, expected) in differences.iter().zip([0.05, 0.05, 0.1]) {
        assert!((found - expected).abs() < 1e-12, "paired by seed: {differences:?}");
    }
    let said = summary.notes.join("\n");
    assert!(said.contains("With 3 seeds the exact p-value is never below 0.250"), "{said}");

    let text = seeds::text(&summary);
    assert!(
        text.contains("    plain                        60.00  [35.16, 84.84]  3 seeds"),
        "{text}"
    );
    let (_, against) = text.split_once("      against plain              +6.67  [").unwrap();
    let lines: Vec<&str> = against.lines().take(2).collect();
    assert!(
        lines[0].ends_with("]  3 pairs") && lines[1].trim_start().starts_with("p 0."),
        "{text}"
    );
    assert!(lines[1].ends_with(", exact 0.250"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let markdown = seeds::markdown(&summary);
    assert!(
        markdown.contains("| plain | 60.00 [35.16, 84.84] |")
            && markdown.contains("| difference |")
            && markdown.contains("| other against plain | +6.67 ["),
        "{markdown}"
    );
    let html = seeds::section(&summary);
    assert!(
        html.contains("<h2>Over seeds</h2>") && html.contains("60.00 [35.16, 84.84]"),
        "{html}"
    );
}

/// A measure that only some seeds have does not set the bound of the others.
#[test]
fn the_exact_bound_is_of_the_most_seeds_that_are_tested() {
    let mut runs = Runs::new();
    for seed in [1, 2, 3] {
        runs.add("plain", seed, 10, 0.5, json!({"objective": {"loss": "clip"}}));
        runs.add(
            "other",
            seed,
            10,
            0.6 + 0.01 * seed as f64,
            json!({"objective": {"loss": "gspo"}}),
        );
    }
    let (_, log, _) = &mut runs.runs[5];
    let path = log.log.path.join("metrics.jsonl");
    let text = fs::read_to_string(&path).unwrap().replace("eval/set/pass@4", "eval/set/pass@8");
    fs::write(&path, text).unwrap();
    *log = Run::open(&path).unwrap();
    let summary = runs.summary();
    let few = row(&summary, "set: pass@4 at the end, %").against[1].as_ref().unwrap();
    assert_eq!(few.test.difference.runs.len(), 2);
    let said = summary.notes.join("\n");
    let expected = "With 3 seeds the exact p-value is never below 0.250 (with 2, as some measures \
                    have, 0.500), so it cannot";
    assert!(said.contains(expected), "{said}");
}

/// A table of a page for each section, in a box that scrolls by keyboard too; what is to be read
/// stands outside of it.
#[test]
fn the_page_cuts_no_sentence_off_and_shows_no_mark_of_markdown() {
    let mut runs = Runs::new();
    for group in ["a", "b", "c", "d"] {
        for seed in [1, 2] {
            runs.add(
                group,
                seed,
                10,
                0.5 + 0.01 * seed as f64,
                json!({"objective": {"loss": group}}),
            );
        }
    }
    let html = seeds::section(&runs.summary());
    let tables: Vec<&str> = html.split("<div class=\"wide\"").skip(1).collect();
    assert!(tables.len() > 1, "{html}");
    for table in tables {
        assert!(table.starts_with(" tabindex=\"0\" role=\"region\" aria-label="), "{table}");
        let inside = table.split("</table></div>").next().unwrap();
        assert!(!inside.contains("colspan") && !inside.contains("straight line"), "{inside}");
    }
    assert!(!html.contains('`'), "{html}");
    assert!(
        Section::Law.heading().unwrap().1.contains('`'),
        "the reading of the law names a command"
    );
}

#[test]
fn ends_bests_tenths_and_areas_are_what_they_are_called() {
    let mut runs = Runs::new();
    runs.add("one", 1, 10, 0.5, json!({}));
    let summary = runs.summary();
    for (title, expected) in [
        ("set: mean@4 at the end, %", 0.5),
        ("set: mean@4 at its best, %", 0.5),
        ("set: pass@4 at the end, %", 0.6),
        ("set: entropy at the end, nats", 0.5),
        // 0.95 at step 1 to 0.5 at step 10, in a line.
        ("policy/entropy over all steps (area / steps), nats", 0.725),
        ("policy/entropy over the last tenth of the steps, nats", 0.5),
    ] {
        let mean = row(&summary, title).means[0].clone().unwrap();
        assert!(
            (mean.value - expected).abs() < 1e-12 && mean.interval.is_none(),
            "{title}: {mean:?}"
        );
    }
    assert!(
        summary.notes[0].contains("one has one seed: there is no interval"),
        "{:?}",
        summary.notes
    );
    assert!(
        !summary.rows.iter().any(|row| row.measure.metric.ends_with("pass@1")),
        "it is mean@4 again"
    );
    assert!(seeds::text(&summary).contains("1 seed, so no interval"));
    assert_eq!(seeds::section(&summary), "", "one run says nothing over seeds");
}

#[test]
fn what_is_not_comparable_is_not_compared() {
    let mut runs = Runs::new();
    for seed in [1, 2] {
        runs.add("base", seed, 10, 0.5, json!({}));
        runs.add("elsewhere", seed, 10, 0.6, json!({"eval": {"every": 5, "files": ["harder"]}}));
        runs.add("rarely", seed, 10, 0.6, json!({"eval": {"every": 10, "files": ["set"]}}));
        let task = |largest| {
            json!({"eval": {"every": 5}, "data": {"task": "countdown",
            "countdown": {"largest": largest}}})
        };
        runs.add("easy", seed, 10, 0.6, task(5));
    }
    let summary = runs.summary();
    let names: Vec<&str> = summary.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["base", "elsewhere", "rarely", "easy"]);
    let row = row(&summary, "set: mean@4 at the end, %");
    let compared: Vec<bool> = row.against.iter().map(Option::is_some).collect();
    assert_eq!(compared, [false, false, true, false]);
    let best = self::row(&summary, "set: mean@4 at its best, %");
    assert!(best.against.iter().all(Option::is_none), "best values are not compared");
    let said = summary.notes.join("\n");
    let note = "elsewhere is not compared with base, since it is evaluated otherwise: eval.files \
                [\"set\"] -> [\"harder\"].";
    assert!(said.contains(note) && said.contains("easy is not compared"), "{said}");
    assert!(said.contains("Best values are not compared."), "{said}");
    for shown in [seeds::markdown(&summary), seeds::section(&summary)] {
        assert!(shown.contains("A best value is the largest of several noisy ones"), "{shown}");
    }
}

/// Settings that evaluations lack are those of training, and may differ there.
#[test]
fn evaluations_that_are_as_in_training_differ_with_it() {
    let rollout =
        |values: Value| json!({"rollout": values, "eval": {"every": 5, "files": ["set"]}});
    let own = |tokens: u64| {
        json!({"rollout": {"max_tokens": tokens}, "eval": {"files": ["set"],
        "max_tokens": 64}})
    };
    let benchmark = |tokens: u64| {
        json!({"rollout": {"max_tokens": tokens}, "eval": {"files": [],
        "bench": ["aime24"]}})
    };
    let null = |tokens: u64| {
        json!({"sft": {"max_tokens": tokens}, "eval": {"files": ["set"],
        "max_tokens": null}})
    };
    for (old, new, difference) in [
        (
            rollout(json!({"max_tokens": 64})),
            rollout(json!({"max_tokens": 32})),
            Some("eval.max_tokens 64 -> 32"),
        ),
        (
            rollout(json!({"stop": []})),
            rollout(json!({"stop": ["\n"]})),
            Some("eval.stop [] -> [\"\\n\"]"),
        ),
        (null(64), null(32), Some("eval.max_tokens 64 -> 32")),
        (own(64), own(32), None),
        (benchmark(64), benchmark(32), None),
    ] {
        let mut runs = Runs::new();
        for seed in [1, 2] {
            runs.add("old", seed, 10, 0.5, old.clone()).add("new", seed, 10, 0.6, new.clone());
        }
        let summary = runs.summary();
        let compared = row(&summary, "set: mean@4 at the end, %").against[1].is_some();
        assert_eq!(compared, difference.is_none(), "{old} {new}");
        let note = difference.map(|what| {
            format!("new is not compared with old, since it is evaluated otherwise: {what}.")
        });
        let said = summary.notes.join("\n");
        assert!(note.is_none_or(|note| said.contains(&note)), "{said}");
    }
}

#[test]
fn unfinished_and_repeated_runs_are_left_out_and_named() {
    let mut runs = Runs::new();
    runs.add("base", 1, 10, 0.5, json!({})).add("base", 2, 4, 0.9, json!({})).add(
        "base",
        3,
        10,
        0.7,
        json!({}),
    );
    let again = runs.runs[0].clone();
    let recipe = again.2.clone();
    runs.runs.push(("copy".into(), again.1, again.2));
    let summary = runs.summary();
    let text = seeds::text(&summary);
    assert!(text.contains("]  2 of 3 seeds finished\n"), "{text}");
    assert!(seeds::markdown(&summary).contains("| base (2 of 3 seeds finished) | "));
    assert!(seeds::section(&summary).contains("2 of 3 seeds finished"));
    assert!(text.contains("these are the ones that did well"), "{text}");

    // One that was to be made and has recorded nothing.
    let mut failed = recipe.unwrap();
    failed["run"]["seed"] = json!(4);
    let (_, log, recipe) = &runs.runs[0];
    let taken = [(log, recipe.as_ref(), "base/1"), (log, Some(&failed), "base/4")];
    let [made, failed] = taken.map(|(log, recipe, name)| Entry {
        name: name.into(),
        group: Some("base".into()),
        run: Some(log).filter(|_| name == "base/1"),
        recipe,
        control: Control::First,
    });
    let early = Summary::of(&[failed.clone(), made]);
    assert_eq!(
        (&early.groups[0].runs[..], &early.groups[0].unfinished[..]),
        (&["base/1".into()][..], &["base/4".into()][..])
    );
    assert!(
        early.notes[0].contains("base/4 has recorded nothing and is left out."),
        "{:?}",
        early.notes
    );
    assert!(seeds::text(&early).contains("1 of 2 seeds finished, so no interval"));
    assert_eq!(Summary::of(&[failed]).rows, []);
    assert_eq!(summary.groups.len(), 1);
    assert_eq!(summary.groups[0].runs, ["base/1", "base/3"]);
    assert_eq!(summary.groups[0].unfinished, ["base/2"]);
    let said = summary.notes.join("\n");
    assert!(said.contains("base/2 is at step 4 of 10 and is left out."), "{said}");
    assert!(said.contains("copy has the seed of another run"), "{said}");
    assert!(
        (row(&summary, "set: mean@4 at the end, %").means[0].as_ref().unwrap().value - 0.6).abs()
            < 1e-12
    );
}

#[test]
fn hostile_names_stay_text() {
    let mut runs = Runs::new();
    for seed in [1, 2] {
        runs.add("<script>alert(1)|", seed, 10, 0.5, json!({}));
    }
    runs.runs.iter_mut().for_each(|run| run.0 = "a\"><b>|\nc".into());
    let summary = runs.summary();
    let html = seeds::section(&summary);
    assert!(!html.contains("<script") && !html.contains("<b>|"), "{html}");
    assert!(seeds::markdown(&summary).lines().filter(|line| line.starts_with("| ")).count() >= 2);
    assert_eq!(Summary::of(&[]).rows, []);
    assert_eq!(seeds::section(&Summary::of(&[])) + &seeds::markdown(&Summary::of(&[])), "");
}

/// Runs that obey R = -0.2 exp(H) + 0.8 while H falls from `from` to `to`, half of it by a twelfth
/// of 24 steps.
fn with_law(runs: &mut Runs, group: &str, seed: u64, [from, to]: [f64; 2], settings: Value) {
    let name = format!("{group}/{seed}");
    let dir = runs.dir.path().join(&name);
    fs::create_dir_all(&dir).unwrap();
    let lines: String = (0..=24)
        .map(|step| {
            // Half is over after 2 of 24 steps, in a line between evaluations.
            let left = if step <= 2 {
                1.0 - f64::from(step) / 4.0
            } else {
                0.5 * f64::from(24 - step) / 22.0
            };
            let entropy = to + (from - to) * left;
            let accuracy = 0.8 - 0.2 * entropy.exp();
            let mut line = json!({"step": step, "policy/entropy": entropy});
            line["eval/set/mean@4"] = json!(accuracy);
            line["eval/set/entropy"] = json!(entropy);
            format!("{line}\n")
        })
        .collect();
    fs::write(dir.join("metrics.jsonl"), lines).unwrap();
    let mut recipe =
        json!({"run": {"seed": seed, "steps": 24, "out": dir}, "eval": {"files": ["set"]}});
    recipe["objective"] = settings;
    runs.runs.push((name, Run::open(&dir).unwrap(), Some(recipe)));
}

#[test]
fn entropy_that_is_left_is_a_multiple_of_the_first_groups() {
    let mut runs = Runs::new();
    for (seed, base, held) in [(1, 0.1, 0.2), (2, 0.05, 0.4), (3, 0.2, 0.8)] {
        with_law(&mut runs, "base", seed, [1.2, base], json!({"loss": "clip"}));
        with_law(&mut runs, "held", seed, [1.2, held], json!({"loss": "gspo"}));
    }
    let summary = runs.summary();
    let of = row(&summary, "set: entropy at the end, nats");
    // Ratios 2, 8 and 4: the geometric mean is 4, the interval that of their logarithms, which are
    // log 2 apart: exp(log 4 +- 4.303 log 2 / sqrt 3).
    let ratio = of.ratio_to_first[1].as_ref().unwrap();
    assert!((ratio.value - 4.0).abs() < 1e-12 && of.ratio_to_first[0].is_none());
    let [low, high] = ratio.interval.unwrap();
    let half = (4.302_652_73 * 2f64.ln() / 3f64.sqrt()).exp();
    assert!((low - 4.0 / half).abs() < 1e-6 && (high - 4.0 * half).abs() < 1e-6, "{low} {high}");
    for (found, expected) in ratio.runs.iter().zip([2.0, 8.0, 4.0]) {
        assert!((found - expected).abs() < 1e-12);
    }
    assert!(summary.rows.iter().filter(|row| !row.ratio_to_first.is_empty()).count() == 1);
    let text = seeds::text(&summary);
    assert!(text.contains("      times base                  4.00  [0.71, 22.38]\n"), "{text}");
    let markdown = seeds::markdown(&summary);
    assert!(
        markdown
            .contains("| as a multiple of base, over the same seeds | set: entropy at the end |"),
        "{markdown}"
    );
    assert!(markdown.contains("| held | 4.00 [0.71, 22.38] |"), "{markdown}");
    assert!(seeds::section(&summary).contains("4.00 [0.71, 22.38] times that of base"));
    assert_eq!(Mean::of_ratios(&[(0.0, 1.0)]), None, "of nothing there is no multiple");
}

#[test]
fn how_early_it_was_spent_and_the_law_are_said_over_seeds() {
    let mut runs = Runs::new();
    for seed in [1, 2, 3] {
        let end = 0.1 + seed as f64 / 100.0;
        with_law(&mut runs, "base", seed, [1.2, end], json!({"loss": "clip"}));
        // The last seed of the other group holds its entropy, so that there is no law to speak of.
        let begin = if seed == 3 { end + 0.004 } else { 1.2 };
        with_law(&mut runs, "other", seed, [begin, end], json!({"loss": "gspo"}));
    }
    let summary = runs.summary();
    let values = |title: &str, group: usize| {
        row(&summary, title).means[group].as_ref().unwrap().runs.clone()
    };
    let near = |found: Vec<f64>, expected: &[f64]| {
        assert_eq!(found.len(), expected.len());
        found
            .iter()
            .zip(expected)
            .for_each(|(a, b)| assert!((a - b).abs() < 1e-9, "{found:?} {expected:?}"));
    };
    near(values("policy/entropy: fall over by 1/12 of the run, %", 0), &[0.5; 3]);
    let third = 1.0 - 0.5 * 16.0 / 22.0;
    near(values("policy/entropy: fall over by 1/3 of the run, %", 0), &[third; 3]);
    assert!(
        values("set: gain in mean@4 made by 1/12 of the run, %", 0)
            .iter()
            .all(|share| *share > 0.5)
    );
    near(values("set: a", 0), &[0.2; 3]);
    near(values("set: b", 0), &[0.8; 3]);
    near(values("set: ceiling b - a, %", 0), &[0.6; 3]);
    near(values("set: R^2 of the law, -a exp(H) + b", 0), &[1.0; 3]);
    assert!(
        values("set: R^2 of a line in H", 0)
            .iter()
            .all(|r_squared| (0.9..0.9999).contains(r_squared))
    );
    near(values("set: runs whose law is refused", 0), &[0.0; 3]);
    near(values("set: runs whose law is refused", 1), &[0.0, 0.0, 1.0]);
    near(values("set: a", 1), &[0.2; 2]);
    near(
        values("set: error at the end from the first 15 %, the law, -a exp(H) + b, points", 0),
        &[0.0; 3],
    );
    let line = values("set: error at the end from the first 30 %, a line in H, points", 0);
    assert!(line.iter().all(|error| *error > 0.01), "errors have no sign: {line:?}");

    let markdown = seeds::markdown(&summary);
    let headings: Vec<&str> = markdown.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(
        headings,
        [
            "## Since before the first step",
            "## How early it was spent",
            "## The law R = -a exp(H) + b",
            "## Predictions of the end"
        ]
    );
    let over = values("set: R^2 of the law less that of the line", 0);
    assert!(over.iter().all(|over| (0.0001..0.1).contains(over)), "{over:?}");
    let over =
        values("set: error at the end from the first 30 %, the law less a line in H, points", 0);
    near(over.clone(), &line.iter().map(|error| -error).collect::<Vec<_>>());
    assert!(
        values("set: RMSE after the first 30 %, a line in H, points", 0)
            .iter()
            .all(|rmse| *rmse > 0.001)
    );
    let tested = |row: &&seeds::Row| row.against.iter().any(Option::is_some);
    assert!(summary.rows.iter().filter(tested).all(|row| row.measure.section == Section::Main));
    assert!(markdown.contains("by 1/12: 73 % and 76 %, by 1/3: 94 % and 93 %"), "{markdown}");
    assert!(
        markdown.contains("| other | 1 of 3 |") && markdown.contains("(2 seeds)"),
        "{markdown}"
    );
    assert!(!seeds::text(&summary).contains("R^2"), "the terminal has the main rows alone");
    let json = serde_json::to_value(&summary).unwrap();
    let taken: Vec<&str> = json["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["measure"]["taken"].as_str().unwrap())
        .collect();
    for key in [
        "end",
        "share-by-4-of-12",
        "law-refused",
        "r-squared-linear",
        "error-at-end-from-30-percent-constant",
    ] {
        assert!(taken.contains(&key), "{key}: {taken:?}");
    }
    let html = seeds::section(&summary);
    assert!(html.contains("<h3>How early it was spent</h3>"), "{html}");
}

/// Runs of groups that are told what they are compared with, as (group, control).
fn compared(runs: &Runs, groups: &[(&str, Control)]) -> Summary {
    let run = |((name, log, recipe), (group, control)): (
        &'_ (String, Run, Option<Value>),
        &(&str, Control),
    )| {
        (name.clone(), log.clone(), recipe.clone(), (*group).to_owned(), control.clone())
    };
    let kept: Vec<_> = runs.runs.iter().zip(groups).map(run).collect();
    let runs = kept.iter().map(|(name, log, recipe, group, control)| Entry {
        name: name.clone(),
        group: Some(group.clone()),
        run: Some(log),
        recipe: recipe.as_ref(),
        control: control.clone(),
    });
    Summary::of(&runs.collect::<Vec<_>>())
}

#[test]
fn groups_are_compared_with_what_they_are_told() {
    let mut runs = Runs::new();
    let of = |loss: &str| json!({"objective": {"loss": loss}});
    for seed in [1, 2] {
        runs.add("a", seed, 10, 0.5, of("a")).add("b", seed, 10, 0.6, of("b"));
        runs.add("c", seed, 10, 0.9, of("c")).add("d", seed, 10, 0.75, of("d"));
    }
    let first = [
        ("grpo/0.5", Control::First),
        ("none/0.5", Control::First),
        ("kl/0.5", Control::GroupOf(5)), // the second seed of none
        ("alone", Control::Absent("gone/1".into())),
    ];
    let summary = compared(&runs, &[first.clone(), first].concat());
    let of = row(&summary, "set: mean@4 at the end, %");
    let said: Vec<Option<(&str, f64)>> = of
        .against
        .iter()
        .map(|against| {
            against.as_ref().map(|a| (a.group.as_str(), (100.0 * a.test.difference.value).round()))
        })
        .collect();
    assert_eq!(said, [None, Some(("grpo/0.5", 10.0)), Some(("none/0.5", 30.0)), None]);
    let note =
        "alone is not compared: of gone/1, which it is to be compared with, there is no run here.";
    assert_eq!(summary.notes.iter().filter(|said| *said == note).count(), 1, "{:?}", summary.notes);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["rows"][0]["against"][2]["group"], "none/0.5");
    assert!(json["rows"][0]["against"][2]["difference"]["value"].is_f64(), "{json}");
    let (text, markdown, html) =
        (seeds::text(&summary), seeds::markdown(&summary), seeds::section(&summary));
    assert!(text.contains("      against none/0.5          +30.00"), "{text}");
    assert!(markdown.contains("| kl/0.5 against none/0.5 | +30.00 "), "{markdown}");
    assert!(markdown.contains("| none/0.5 against grpo/0.5 | +10.00 "), "{markdown}");
    assert!(html.contains("+30.00 no spread against none/0.5, exact 0.500, 2 pairs"), "{html}");
    // Entropies stay multiples of the first group's.
    let ratio = &row(&summary, "set: entropy at the end, nats").ratio_to_first[2];
    assert!(ratio.as_ref().is_some_and(|ratio| (ratio.value - 1.0).abs() < 1e-12));
}

/// A run whose rows are these.
fn planted(runs: &mut Runs, group: &str, seed: u64, rows: &[Value], objective: Value) {
    let name = format!("{group}/{seed}");
    let dir = runs.dir.path().join(&name);
    fs::create_dir_all(&dir).unwrap();
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(dir.join("metrics.jsonl"), lines).unwrap();
    let last = rows.last().unwrap()["step"].clone();
    let recipe = json!({"run": {"seed": seed, "steps": last, "out": dir},
        "eval": {"files": ["set"]}, "objective": objective});
    runs.runs.push((name, Run::open(&dir).unwrap(), Some(recipe)));
}

/// The titles and the first group's numbers of a section.
fn numbers(summary: &Summary, section: Section) -> Vec<(String, Option<f64>)> {
    let rows = summary.rows.iter().filter(|row| row.measure.section == section);
    rows.map(|row| (row.measure.title(), row.means[0].as_ref().map(|mean| mean.value))).collect()
}

#[test]
fn entropy_that_is_held_is_measured_by_hand() {
    // H / H* by step: 2, 1.5, 1.1, 0.8, 1.05, 1.0, 1.2, 0.9 at a target of 0.5, then 0.25.
    let ratios = [2.0, 1.5, 1.1, 0.8, 1.05, 1.0, 1.2, 0.9];
    let fractions = [1e-5, 1e-5, 0.1, 0.5, 0.2, 0.5, 1e-5, 0.4];
    let rows: Vec<Value> = (0..8)
        .map(|i| {
            let target = if i < 4 { 0.5 } else { 0.25 };
            json!({"step": i + 1, "policy/entropy": ratios[i] * target, "entropy/target": target,
                "cov/fraction": fractions[i]})
        })
        .collect();
    let of = |controller: Value| {
        let mut runs = Runs::new();
        let covariance =
            json!({"method": "kl-cov", "target_entropy": 0.5, "controller": controller});
        planted(&mut runs, "held", 1, &rows, json!({"covariance": covariance}));
        numbers(&runs.summary(), Section::Held)
    };
    // The last half is steps 5 to 8: |ln| of 1.05, 1, 1.2 and 0.9.
    let error = [1.05f64, 1.0, 1.2, 0.9].iter().map(|ratio| ratio.ln().abs()).sum::<f64>() / 4.0;
    let expected = [
        ("policy/entropy: tracking error, mean |ln(H / H*)| over the last half", error),
        ("policy/entropy: steps of the last half with |ln(H / H*)| < 0.1, %", 0.5),
        ("policy/entropy: first step within 10 % of H*", 3.0),
        ("policy/entropy: least H / H* after that", 0.8),
        ("cov/fraction: steps of the last half at its least or most, %", 0.5),
    ];
    let found = of(json!({"steer": "fraction"}));
    assert_eq!(found.len(), 5, "{found:?}");
    for ((title, value), (said, expected)) in found.iter().zip(expected) {
        assert_eq!(title, said);
        assert!((value.unwrap() - expected).abs() < 1e-12, "{title}: {value:?} {expected}");
    }
    // With other bounds, 0.2 and 0.4 are at them.
    let bound = of(json!({"min": 0.2, "max": 0.4}))[4].1;
    assert_eq!(bound, Some(0.5));
    // A steered coefficient does not have the bounds of a fraction.
    assert_eq!(of(json!({"steer": "coefficient"})).len(), 4);

    // Never reached: no step, and nothing after it.
    let mut runs = Runs::new();
    let rows: Vec<Value> =
        (1..5).map(|i| json!({"step": i, "policy/entropy": 1.0, "entropy/target": 0.5})).collect();
    planted(&mut runs, "above", 1, &rows, json!({}));
    let found = numbers(&runs.summary(), Section::Held);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!((found[0].1.unwrap() - 2f64.ln()).abs() < 1e-12 && found[1].1 == Some(0.0));
}

#[test]
fn accuracies_are_told_as_changes_and_at_equal_entropy() {
    let mut runs = Runs::new();
    let eval = |step: u64, entropy: f64, mean: f64, pass: f64| {
        json!({"step": step, "policy/entropy": entropy, "eval/set/entropy": entropy,
            "eval/set/mean@8": mean,
               "eval/set/pass@8": pass, "eval/set/maj@8": mean, "eval/set_t0.6/entropy": entropy,
               "eval/set_t0.6/mean@8": mean})
    };
    for seed in [1, 2] {
        let free = [eval(0, 0.9, 0.1, 0.5), eval(10, 0.5, 0.3, 0.6), eval(20, 0.1, 0.2, 0.4)];
        planted(&mut runs, "free", seed, &free, json!({"loss": "clip"}));
        let mut held = [eval(0, 0.9, 0.1, 0.5), eval(10, 0.4, 0.3, 0.6), eval(20, 0.35, 0.6, 0.8)];
        held[2]["entropy/target"] = json!(0.3);
        planted(&mut runs, "held", seed, &held, json!({"loss": "gspo"}));
        // It begins without an evaluation, and below the target.
        planted(
            &mut runs,
            "low",
            seed,
            &[eval(5, 0.2, 0.1, 0.1), eval(20, 0.1, 0.2, 0.2)],
            json!({"loss": "none"}),
        );
    }
    let summary = runs.summary();
    let means = |title: &str, section: Section| -> Vec<Option<f64>> {
        let is_it =
            |row: &&seeds::Row| row.measure.title() == title && row.measure.section == section;
        let found = summary.rows.iter().find(is_it).unwrap_or_else(|| panic!("{title}"));
        assert!(found.against.iter().all(Option::is_none), "{title} is not tested");
        found
            .means
            .iter()
            .map(|mean| mean.as_ref().map(|mean| (1e9 * mean.value).round() / 1e9))
            .collect()
    };
    let change = |what: &str| {
        means(&format!("set: {what} since before the first step, points"), Section::Change)
    };
    assert_eq!(change("mean@8"), [Some(0.1), Some(0.5), None]);
    assert_eq!(change("pass@8"), [Some(-0.1), Some(0.3), None]);
    assert_eq!(change("maj@8"), [Some(0.1), Some(0.5), None]);
    // Half way from 0.5 to 0.1 is 0.3; the held run stays above.
    let at = |what: &str| {
        means(&format!("set: {what} where entropy falls to 0.3 nats, %"), Section::EqualEntropy)
    };
    assert_eq!(at("mean@8"), [Some(0.25), None, None]);
    assert_eq!(at("pass@8"), [Some(0.5), None, None]);
    assert_eq!(
        means("set: mean@8 at the end, %", Section::EqualEntropy),
        [Some(0.2), Some(0.6), Some(0.2)]
    );
    let markdown = seeds::markdown(&summary);
    assert!(
        markdown.contains("## At equal entropy") && markdown.contains("| +10.00 no spread |"),
        "{markdown}"
    );
    let with_ratio: Vec<String> = summary
        .rows
        .iter()
        .filter(|row| !row.ratio_to_first.is_empty())
        .map(|row| row.measure.metric.clone())
        .collect();
    assert_eq!(with_ratio, ["eval/set/entropy"], "at the first temperature alone");
}

/// Too little fell or rose to be shared out, and a prefix is what it is called.
#[test]
fn noise_has_no_shares_and_short_runs_no_prefix() {
    let rows = |fall: f64, gain: f64| -> Vec<Value> {
        let row = |i: u64| {
            let share = i as f64 / 6.0;
            let (entropy, accuracy) = (1.0 - fall * share, 0.2 + gain * share);
            json!({"step": 10 * i, "policy/entropy": entropy, "eval/set/entropy": entropy,
                "eval/set/mean@8": accuracy})
        };
        (0..=6).map(row).collect()
    };
    for (fall, gain, shares) in [(0.2, 0.05, 4), (0.19, 0.05, 2), (0.5, 0.049, 2), (0.1, -0.2, 0)] {
        let mut runs = Runs::new();
        planted(&mut runs, "one", 1, &rows(fall, gain), json!({}));
        let summary = runs.summary();
        assert_eq!(numbers(&summary, Section::Collapse).len(), shares, "{fall} {gain}");
        // Three of seven evaluations are a third of the steps: near 30 % of them, far from 15 %.
        let titles = numbers(&summary, Section::Prediction);
        assert!(
            !titles.is_empty() && titles.iter().all(|(title, _)| title.contains("30 %")),
            "{titles:?}"
        );
    }
}

/// Takes metrics out of the last line of a run, as where nothing of them could be judged, and reads
/// it again.
fn without_end(run: &mut (String, Run, Option<Value>), metrics: &[&str]) {
    let path = run.1.log.path.join("metrics.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
    let mut last: Value = serde_json::from_str(last).unwrap();
    metrics
        .iter()
        .for_each(|name| assert!(last.as_object_mut().unwrap().remove(*name).is_some(), "{name}"));
    fs::write(&path, format!("{before}\n{last}\n")).unwrap();
    run.1 = Run::open(&run.1.log.path).unwrap();
}

/// The last evaluation of a run could not be judged, so that the one before it is the last that has
/// a number.
#[test]
fn an_older_value_is_no_end() {
    let mut runs = Runs::new();
    for seed in [1, 2, 3] {
        runs.add("base", seed, 10, 0.5, json!({}));
        runs.add("other", seed, 10, 0.7, json!({"objective": {"loss": "gspo"}}));
    }
    without_end(&mut runs.runs[3], &["eval/set/mean@4", "eval/set/pass@1", "eval/set/pass@4"]);
    let summary = runs.summary();
    for (title, value) in [
        ("set: mean@4 at the end, %", 0.7),
        ("set: pass@4 at the end, %", 0.8),
        ("set: mean@4 since before the first step, points", 0.7),
        ("set: gain in mean@4 made by 1/3 of the run, %", 1.0 / 3.0),
    ] {
        let row = row(&summary, title);
        let (old, new) = (row.means[0].as_ref().unwrap(), row.means[1].as_ref().unwrap());
        assert_eq!((old.runs.len(), new.runs.len()), (3, 2), "{title}");
        assert!(new.runs.iter().all(|x| (x - value).abs() < 1e-9), "{title}: {new:?}");
    }
    let test = &row(&summary, "set: mean@4 at the end, %").against[1].as_ref().unwrap().test;
    assert_eq!(test.difference.runs.len(), 2);
    // Metrics that were measured there, or that span the whole course, have all runs.
    for title in ["set: entropy at the end, nats", "set: mean@4 at its best, %"] {
        assert_eq!(row(&summary, title).means[1].as_ref().unwrap().runs.len(), 3, "{title}");
    }
    let note =
        "other/2 has no set: mean@4, set: pass@4 at its end, step 10, and is left out there: ";
    let said: Vec<&String> =
        summary.notes.iter().filter(|note| note.contains(" at its end, ")).collect();
    assert!(said.len() == 1 && said[0].starts_with(note), "{:?}", summary.notes);

    // If no seed of a group has a number, the group has none.
    for i in [1, 5] {
        without_end(&mut runs.runs[i], &["eval/set/mean@4"]);
    }
    let summary = runs.summary();
    let ends = row(&summary, "set: mean@4 at the end, %");
    assert!(ends.means[0].is_some() && ends.means[1].is_none() && ends.against[1].is_none());
    assert_eq!(summary.notes.iter().filter(|note| note.contains(" at its end, ")).count(), 3);
    assert!(seeds::text(&summary).contains("    other                          n/a\n"));

    // Without a recipe nobody knows where it should have ended: other trainers need not evaluate
    // there.
    let (name, log, _) = runs.runs[3].clone();
    let unknown =
        Entry { name, group: None, run: Some(&log), recipe: None, control: Control::First };
    let summary = Summary::of(&[unknown]);
    let last = row(&summary, "set: mean@4 at the end, %").means[0].as_ref().unwrap().value;
    assert!(
        (last - 0.35).abs() < 1e-12
            && !summary.notes.iter().any(|note| note.contains("at its end"))
    );
}

/// How far a prediction is off at the end is not known without it; over what comes after the prefix
/// it is.
#[test]
fn nothing_is_foretold_of_an_end_that_was_not_measured() {
    let mut runs = Runs::new();
    for seed in [1, 2] {
        with_law(&mut runs, "base", seed, [1.2, 0.1], json!({"loss": "clip"}));
    }
    without_end(&mut runs.runs[1], &["eval/set/mean@4", "eval/set/entropy"]);
    let summary = runs.summary();
    let count = |title: &str| row(&summary, title).means[0].as_ref().unwrap().runs.len();
    for form in ["the law, -a exp(H) + b", "a line in H"] {
        assert_eq!(count(&format!("set: error at the end from the first 30 %, {form}, points")), 1);
        assert_eq!(count(&format!("set: RMSE after the first 30 %, {form}, points")), 2);
    }
    assert_eq!(
        count("set: error at the end from the first 30 %, the law less a line in H, points"),
        1
    );
    assert_eq!(count("set: a"), 2);
}

/// A recipe that names no day has another in each run that was begun on another day.
#[test]
fn seeds_that_began_on_several_days_are_a_group_and_the_days_are_said() {
    let day = |day: &str| json!({"data": {"task": "countdown", "date": day}});
    let mut runs = Runs::new();
    runs.add("base", 1, 10, 0.5, day("2026-11-26")).add("base", 2, 10, 0.6, day("2026-11-26"));
    runs.add("base", 3, 10, 0.7, day("2026-11-27"));
    let summary = runs.summary();
    assert_eq!(summary.groups.len(), 1);
    assert_eq!(row(&summary, "set: mean@4 at the end, %").means[0].as_ref().unwrap().runs.len(), 3);
    let note = "The prompts of base name the day on which a run began, and that is not one day: \
                2026-11-26 (base/1, base/2), \
                2026-11-27 (base/3). Set data.date to give all seeds the same prompts.";
    assert!(summary.notes.iter().any(|said| said == note), "{:?}", summary.notes);

    // Where each seed has both, the days are what is compared.
    runs.add("base", 1, 10, 0.7, day("2026-11-27")).add("base", 2, 10, 0.7, day("2026-11-27"));
    let summary = runs.summary();
    let groups: Vec<(&str, &[Option<u64>])> =
        summary.groups.iter().map(|group| (group.name.as_str(), &group.seeds[..])).collect();
    let expected: [(&str, &[Option<u64>]); 2] = [
        ("date \"2026-11-26\"", &[Some(1), Some(2)]),
        ("date \"2026-11-27\"", &[Some(3), Some(1), Some(2)]),
    ];
    assert_eq!(groups, expected);
    assert!(!summary.notes.iter().any(|said| said.contains("data.date")), "{:?}", summary.notes);
}

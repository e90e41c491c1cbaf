//! Statistics over seeds.

use isentrope_lab::log::RunLog;
use isentrope_lab::seeds::{self, Mean, Paired, Run, Summary, quantile, within};
use isentrope_random::{Draws, Purpose};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// Student's table, as printed in textbooks (Fisher and Yates 1963, table III), two-sided 95 % and 99 %.
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
        assert!((quantile(0.975, degrees) - t95).abs() < 6e-4, "{degrees}: {}", quantile(0.975, degrees));
        assert!((quantile(0.995, degrees) - t99).abs() < 6e-4, "{degrees}: {}", quantile(0.995, degrees));
    }
    // Of one degree it is Cauchy's distribution, of two it has a closed form.
    assert!((within(1.0, 1) - 0.5).abs() < 1e-15);
    for t in [0.1, 1.0, 7.0] {
        let closed = t / f64::sqrt(2.0 + t * t);
        assert!((within(t, 2) - closed).abs() < 1e-14);
        // The density of three degrees by Simpson's rule.
        let density = |x: f64| 6.0 * f64::sqrt(3.0) / (std::f64::consts::PI * (3.0 + x * x).powi(2));
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

/// Hours of sleep gained by ten patients with two drugs (Cushny and Peebles 1905; Student 1908). The paired t test of them is the
/// example of R's `t.test`: t = -4.0621, 9 degrees, p = 0.002833, 95 % interval of the difference -2.4598858 to -0.7001142.
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
    // Nine differences have one sign and one is 0, so that its sign is free: 4 assignments of 1024 are as far from 0.
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

/// Equal differences do not rule out chance, as a t of infinity would say: each of three seeds solves one problem more.
#[test]
fn equal_numbers_have_neither_interval_nor_t_test() {
    for problems in [64.0, 100.0] {
        let pairs: Vec<(f64, f64)> =
            [10.0, 21.0, 35.0].map(|solved| (solved / problems, (solved + 1.0) / problems)).to_vec();
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
    assert!(summary.notes.iter().any(|note| note.starts_with("No spread: all seeds have")), "{text}");
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
    let difference = &row.against_first[1].as_ref().unwrap().difference;
    assert_eq!(difference.interval, Some([-1.0, 1.0]));
    let text = seeds::text(&summary);
    assert!(text.contains("+30.00  [-100.00, +100.00]  2 pairs"), "{text}");
    assert!(text.contains("Intervals of shares are cut off at 0 and 100 %"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// 95 % intervals of normal numbers hold the mean 95 times in 100, and the exact test of what is alike is below 0.05 no more
/// often than 5 times.
#[test]
fn intervals_cover_and_tests_keep_their_level() {
    let mut draws = Draws::of(11, Purpose::Bootstrap, 0, 0);
    for n in [2usize, 3, 5, 8] {
        let trials = 3000;
        let (mut covered, mut told, mut exact) = (0, 0, 0);
        for trial in 0..trials {
            let mut normal = |i: usize| draws.normals(((n * 10_000 + trial) * 10 + i) as u64);
            let pairs: Vec<(f64, f64)> = (0..n).map(|i| normal(i).into()).collect();
            let [low, high] =
                Mean::of(pairs.iter().map(|pair| 3.0 + pair.0).collect()).unwrap().interval.unwrap();
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
    runs: Vec<(String, RunLog, Option<Value>)>,
}

impl Runs {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), runs: Vec::new() }
    }

    fn add(&mut self, group: &str, seed: u64, steps: u64, accuracy: f64, settings: Value) -> &mut Self {
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
        let mut recipe =
            json!({"run": {"seed": seed, "steps": 10, "out": dir}, "eval": {"every": 5, "files": ["set"]}});
        for (table, values) in settings.as_object().unwrap() {
            recipe[table] = values.clone();
        }
        self.runs.push((name, RunLog::open(&dir).unwrap(), Some(recipe)));
        self
    }

    fn summary(&self) -> Summary {
        let run = |(name, log, recipe): &'_ (String, RunLog, Option<Value>)| {
            (name.clone(), log.clone(), recipe.clone())
        };
        let kept: Vec<_> = self.runs.iter().map(run).collect();
        let runs: Vec<Run<'_>> = kept
            .iter()
            .map(|(name, log, recipe)| Run {
                name: name.clone(),
                group: None,
                log: Some(log),
                recipe: recipe.as_ref(),
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
            json!({"objective": {"loss": "clip"}, "memory": {"budget_gib": seed}}),
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
    assert_eq!(row.against_first[0], None);
    let mut differences = row.against_first[1].as_ref().unwrap().difference.runs.clone();
    differences.sort_by(f64::total_cmp);
    for (found, expected) in differences.iter().zip([0.05, 0.05, 0.1]) {
        assert!((found - expected).abs() < 1e-12, "paired by seed: {differences:?}");
    }
    let said = summary.notes.join("\n");
    assert!(said.contains("With 3 seeds the exact p-value is never below 0.250"), "{said}");

    let text = seeds::text(&summary);
    assert!(text.contains("    plain                        60.00  [35.16, 84.84]  3 seeds"), "{text}");
    let (_, against) = text.split_once("      against plain              +6.67  [").unwrap();
    let lines: Vec<&str> = against.lines().take(2).collect();
    assert!(lines[0].ends_with("]  3 pairs") && lines[1].trim_start().starts_with("p 0."), "{text}");
    assert!(lines[1].ends_with(", exact 0.250"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let markdown = seeds::markdown(&summary);
    assert!(
        markdown.contains("| plain | 60.00 [35.16, 84.84] |") && markdown.contains("| against plain |"),
        "{markdown}"
    );
    let html = seeds::section(&summary);
    assert!(html.contains("<h2>Over seeds</h2>") && html.contains("60.00 [35.16, 84.84]"), "{html}");
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
        assert!((mean.value - expected).abs() < 1e-12 && mean.interval.is_none(), "{title}: {mean:?}");
    }
    assert!(summary.notes[0].contains("one has one seed: there is no interval"), "{:?}", summary.notes);
    assert!(!summary.rows.iter().any(|row| row.measure.metric.ends_with("pass@1")), "it is mean@4 again");
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
        let task = |largest| json!({"eval": {"every": 5}, "data": {"task": "countdown", "countdown": {"largest": largest}}});
        runs.add("easy", seed, 10, 0.6, task(5));
    }
    let summary = runs.summary();
    let names: Vec<&str> = summary.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["base", "elsewhere", "rarely", "easy"]);
    let row = row(&summary, "set: mean@4 at the end, %");
    let compared: Vec<bool> = row.against_first.iter().map(Option::is_some).collect();
    assert_eq!(compared, [false, false, true, false]);
    let best = self::row(&summary, "set: mean@4 at its best, %");
    assert!(best.against_first.iter().all(Option::is_none), "rarely is the best of fewer evaluations");
    let said = summary.notes.join("\n");
    let note = "elsewhere is not compared with base, since it is evaluated otherwise: eval.files [\"set\"] -> [\"harder\"].";
    assert!(said.contains(note) && said.contains("easy is not compared"), "{said}");
    let note =
        "The best values of rarely and base are not compared: they are the largest of 2 and of 3 evaluations";
    assert!(
        said.contains(note) && said.contains("A best value is the largest of several noisy ones"),
        "{said}"
    );
    for shown in [seeds::markdown(&summary), seeds::section(&summary)] {
        assert!(shown.contains("A best value is the largest of several noisy ones"), "{shown}");
    }
}

/// What evaluations are not told is as in training, and there it may differ.
#[test]
fn evaluations_that_are_as_in_training_differ_with_it() {
    let rollout = |values: Value| json!({"rollout": values, "eval": {"every": 5, "files": ["set"]}});
    let own = |tokens: u64| json!({"rollout": {"max_tokens": tokens}, "eval": {"files": ["set"], "max_tokens": 64}});
    let benchmark =
        |tokens: u64| json!({"rollout": {"max_tokens": tokens}, "eval": {"files": [], "bench": ["aime24"]}});
    let null =
        |tokens: u64| json!({"sft": {"max_tokens": tokens}, "eval": {"files": ["set"], "max_tokens": null}});
    for (old, new, difference) in [
        (
            rollout(json!({"max_tokens": 64})),
            rollout(json!({"max_tokens": 32})),
            Some("eval.max_tokens 64 -> 32"),
        ),
        (rollout(json!({"stop": []})), rollout(json!({"stop": ["\n"]})), Some("eval.stop [] -> [\"\\n\"]")),
        (null(64), null(32), Some("eval.max_tokens 64 -> 32")),
        (own(64), own(32), None),
        (benchmark(64), benchmark(32), None),
    ] {
        let mut runs = Runs::new();
        for seed in [1, 2] {
            runs.add("old", seed, 10, 0.5, old.clone()).add("new", seed, 10, 0.6, new.clone());
        }
        let summary = runs.summary();
        let compared = row(&summary, "set: mean@4 at the end, %").against_first[1].is_some();
        assert_eq!(compared, difference.is_none(), "{old} {new}");
        let note = difference
            .map(|what| format!("new is not compared with old, since it is evaluated otherwise: {what}."));
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
    let [made, failed] = taken.map(|(log, recipe, name)| Run {
        name: name.into(),
        group: Some("base".into()),
        log: Some(log).filter(|_| name == "base/1"),
        recipe,
    });
    let early = Summary::of(&[failed.clone(), made]);
    assert_eq!(
        (&early.groups[0].runs[..], &early.groups[0].unfinished[..]),
        (&["base/1".into()][..], &["base/4".into()][..])
    );
    assert!(early.notes[0].contains("base/4 has recorded nothing and is left out."), "{:?}", early.notes);
    assert!(seeds::text(&early).contains("1 of 2 seeds finished, so no interval"));
    assert_eq!(Summary::of(&[failed]).rows, []);
    assert_eq!(summary.groups.len(), 1);
    assert_eq!(summary.groups[0].runs, ["base/1", "base/3"]);
    assert_eq!(summary.groups[0].unfinished, ["base/2"]);
    let said = summary.notes.join("\n");
    assert!(said.contains("base/2 is at step 4 of 10 and is left out."), "{said}");
    assert!(said.contains("copy has the seed of another run"), "{said}");
    assert!(
        (row(&summary, "set: mean@4 at the end, %").means[0].as_ref().unwrap().value - 0.6).abs() < 1e-12
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

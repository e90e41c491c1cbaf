//! Statistics over seeds.

use crate::says;
use isentrope_lab::run::Run;
use isentrope_lab::seeds::{
    self, Control, Entry, Mean, Paired, Section, Summary, quantile, within,
};
use isentrope_random::{Draws, Purpose};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// Student's table, as printed in textbooks (Fisher and Yates 1963, table III), two-sided 95 % and
/// 99 %.
#[test]
fn quantiles_are_students() {
    for (degrees, t95, t99) in [
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (3, 3.182, 5.841),
        (5, 2.571, 4.032),
        (10, 2.228, 3.169),
        (30, 2.042, 2.750),
        (120, 1.980, 2.617),
    ] {
        for (p, t) in [(0.975, t95), (0.995, t99)] {
            let found = quantile(p, degrees);
            assert!((found - t).abs() < 6e-4, "{degrees}: {found}");
        }
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
        let weight = |i| if i == 0 || i == steps { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
        let sum: f64 = (0..=steps).map(|i| density(f64::from(i) * h) * weight(i)).sum();
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
        let pairs = [10.0, 21.0, 35.0].map(|solved| (solved / problems, (solved + 1.0) / problems));
        let test = Paired::of(&pairs).unwrap();
        assert!((test.difference.value - 1.0 / problems).abs() < 1e-15);
        assert_eq!((test.difference.interval, test.p, test.p_exact), (None, None, Some(0.25)));
        assert!(test.difference.has_no_spread());
    }
    let equal = Mean::of(vec![0.1 + 0.2, 0.3, 0.3]).unwrap();
    assert!(equal.has_no_spread() && equal.interval.is_none());
    assert!(!Mean::of(vec![0.5]).unwrap().has_no_spread(), "of one there is none to be seen");

    let summary = Runs::of(&[("base", &[0.5; 3]), ("same", &[0.625; 3])]).summary();
    let text = seeds::text(&summary);
    says(
        &text,
        &[
            "    base                          50.0  no spread  3 seeds",
            "      against base: +12.5 no spread, exact 0.250, 3 pairs\n",
            "No spread: all seeds have",
        ],
    );
    assert!(!text.contains("< 0.001"), "{text}");
    says(&seeds::markdown(&summary), &["+12.5 no spread exact 0.250, 3 pairs"]);
}

/// Failures of soybean seeds under five treatments in five fields, with an error of 5.41 on 16
/// degrees (Snedecor and Cochran, Statistical Methods, randomized blocks): 2.120 sqrt(2 5.41 / 5)
/// is 3.12. A group of one field is left out, and one of more takes part.
#[test]
fn groups_of_few_seeds_share_an_error() {
    let fields = [
        ("check", [8.0, 10.0, 12.0, 13.0, 11.0]),
        ("arasan", [2.0, 6.0, 7.0, 11.0, 5.0]),
        ("spergon", [4.0, 10.0, 9.0, 8.0, 10.0]),
        ("semesan", [3.0, 5.0, 9.0, 10.0, 6.0]),
        ("fermate", [9.0, 7.0, 5.0, 5.0, 3.0]),
    ];
    let shares = fields.map(|(group, of)| (group, of.map(|failures| failures / 100.0)));
    let mut groups: Vec<(&str, &[f64])> =
        shares.iter().map(|(group, of)| (*group, &of[..])).collect();
    let pooled = |groups: &[(&str, &[f64])]| {
        let found = Runs::of(groups).summary().pooled();
        found.into_iter().find(|of| of.measure.title == "set: mean@4 at the end, %")
    };
    let of = pooled(&groups).unwrap();
    assert_eq!((of.degrees, of.seeds.len(), &*of.control), (16, 5, "check"));
    assert!((100.0 * of.half_width - 3.1184).abs() < 1e-3, "{}", of.half_width);
    for (found, less) in of.differences.iter().zip([4.6, 2.6, 4.2, 5.0]) {
        assert!((100.0 * found.value + less).abs() < 1e-9, "{found:?}");
    }
    // By scipy: 2 stats.t.sf(4.6 / sqrt(2 * 5.41 / 5), 16) and so on; the least of them times 4,
    // the next times 3.
    for (found, (p, by_holm)) in of.differences.iter().zip([
        (0.006_501, 0.019_504),
        (0.096_218, 0.096_218),
        (0.011_459, 0.022_919),
        (0.003_668, 0.014_674),
    ]) {
        assert!((found.p - p).abs() < 1e-6 && (found.p_holm - by_holm).abs() < 1e-6, "{found:?}");
    }
    let shown = seeds::pooled(&[of]);
    assert!(shown.contains("| set: mean@4 at the end, %, each ± 3.1 |"), "{shown}");
    assert!(shown.contains("| **-4.6** | 0.007 | 0.020 |"), "{shown}");

    assert!(shown.contains("\n\nSeeds: 1, 2, 3, 4, 5.\n\n| less check"), "{shown}");

    groups.push(("once", &[0.5]));
    let of = pooled(&groups).unwrap();
    assert_eq!(of.differences.len(), 4);
    let shown = seeds::pooled(&[of.clone(), of]);
    assert_eq!(
        shown.matches("5. Left out, for want of one of them: once.\n").count(),
        1,
        "{shown}"
    );
    groups.push(("more", &[0.1, 0.2, 0.3, 0.4, 0.3, 0.2]));
    assert_eq!(pooled(&groups).unwrap().differences.len(), 5);
    assert_eq!(pooled(&groups[..2]), None);
    assert!(seeds::pooled(&[]).contains("Nothing to compare: "));
    // A small group without a number of the measure does not choose the seeds.
    let mut summary = Runs::of(&groups).summary();
    summary.groups[1].seeds.truncate(2);
    let row =
        summary.rows.iter_mut().find(|row| row.measure.title.ends_with("mean@4 at the end, %"));
    row.unwrap().means[1] = None;
    let of = summary.pooled().into_iter().find(|of| of.left_out == ["arasan", "once"]).unwrap();
    assert_eq!((of.seeds.len(), of.differences.len()), (5, 4));
    // Nor does a group with seeds that the first lacks.
    let mut runs = Runs::of(&groups[..4]);
    for seed in [1, 7] {
        runs.rising("later", seed, 0.5, json!({"objective": {"loss": "later"}}));
    }
    let pooled = runs.summary().pooled();
    let of = pooled.iter().find(|of| of.measure.title == "set: mean@4 at the end, %").unwrap();
    assert_eq!(
        (of.seeds.len(), of.differences.len(), &of.left_out[..]),
        (5, 3, &["later".into()][..])
    );
}

/// Two seeds have wide intervals, and numbers have ends.
#[test]
fn no_interval_leaves_what_a_number_can_be() {
    let summary = Runs::of(&[("base", &[0.2, 0.3]), ("other", &[0.9, 0.2])]).summary();
    let row = row(&summary, "set: mean@4 at the end, %");
    assert_eq!(row.means[0].as_ref().unwrap().interval.unwrap()[0], 0.0);
    assert_eq!(row.means[1].as_ref().unwrap().interval, Some([0.0, 1.0]));
    let difference = &row.against[1].as_ref().unwrap().test.difference;
    assert_eq!(difference.interval, Some([-1.0, 1.0]));
    let cut = ["+30.0 [-100.0, +100.0], p", "Intervals are cut off at what a number can be"];
    says(&seeds::text(&summary), &cut);

    let mut runs = Runs::new();
    for (seed, end, size) in [(1, 0.01, 0.0), (2, 0.6, 0.3), (3, 0.02, 0.02)] {
        let row = |step: u32| {
            let entropy = end + 1.2 * (1.0 - f64::from(step) / 24.0);
            let accuracy = 0.8 - 0.2 * entropy.exp() + size * f64::from(step % 3) - size;
            json!({"step": step, "policy/entropy": entropy, "eval/set/mean@4": accuracy,
                "eval/set/entropy": entropy})
        };
        runs.add("noisy", seed, &(0..=24).map(row).collect::<Vec<_>>(), json!({}));
    }
    let summary = runs.summary();
    for (title, range) in [
        ("set: entropy at the end, nats", [0.0, f64::INFINITY]),
        ("set: R^2 of the law, -a exp(H) + b", [0.0, 1.0]),
    ] {
        let [low, high] = self::row(&summary, title).means[0].as_ref().unwrap().interval.unwrap();
        let is_cut = low == range[0] || high == range[1];
        assert!(
            range[0] <= low && low < high && high <= range[1] && is_cut,
            "{title}: {low} {high}"
        );
    }
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
            let mean = Mean::of(pairs.iter().map(|pair| 3.0 + pair.0).collect()).unwrap();
            let [low, high] = mean.interval.unwrap();
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

/// Runs as the trainer records them.
struct Runs {
    dir: TempDir,
    /// Name, numbers and recipe.
    runs: Vec<(String, Run, Option<Value>)>,
}

impl Runs {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), runs: Vec::new() }
    }

    /// Groups of another loss each, whose seeds 1, 2 ... end with these accuracies.
    fn of(groups: &[(&str, &[f64])]) -> Self {
        let mut runs = Self::new();
        for (group, accuracies) in groups {
            for (seed, accuracy) in (1..).zip(*accuracies) {
                runs.rising(group, seed, *accuracy, json!({"objective": {"loss": group}}));
            }
        }
        runs
    }

    /// A run of these rows, whose recipe has all of their steps.
    fn add(&mut self, group: &str, seed: u64, rows: &[Value], objective: Value) -> &mut Self {
        let steps = rows.last().unwrap()["step"].clone();
        let recipe = json!({"run": {"seed": seed, "steps": steps}, "eval": {"files": ["set"]},
            "objective": objective});
        self.with_recipe(group, seed, rows, recipe)
    }

    fn with_recipe(
        &mut self,
        group: &str,
        seed: u64,
        rows: &[Value],
        mut recipe: Value,
    ) -> &mut Self {
        let name = format!("{group}/{seed}");
        let dir = self.dir.path().join(&name);
        fs::create_dir_all(&dir).unwrap();
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(dir.join("metrics.jsonl"), lines).unwrap();
        recipe["run"]["out"] = json!(dir);
        self.runs.push((name, Run::open(&dir).unwrap(), Some(recipe)));
        self
    }

    /// A run of ten steps, evaluated at every fifth: it ends with this accuracy, and with a pass@4
    /// that is 0.1 more.
    fn rising(&mut self, group: &str, seed: u64, accuracy: f64, settings: Value) -> &mut Self {
        let row = |step: u32| {
            let share = f64::from(step) / 10.0;
            let mut row = json!({"step": step});
            if step > 0 {
                row["policy/entropy"] = json!(1.0 - share / 2.0);
            }
            if step.is_multiple_of(5) {
                row["eval/set/mean@4"] = json!(accuracy * share);
                row["eval/set/pass@1"] = json!(accuracy * share);
                row["eval/set/pass@4"] = json!(accuracy * share + 0.1);
                row["eval/set/entropy"] = json!(0.5);
            }
            row
        };
        let mut recipe = json!({"run": {"seed": seed, "steps": 10},
            "eval": {"every": 5, "files": ["set"]}});
        for (table, values) in settings.as_object().unwrap() {
            recipe[table] = values.clone();
        }
        self.with_recipe(group, seed, &(0..=10).map(row).collect::<Vec<_>>(), recipe)
    }

    /// A run that obeys R = -0.2 exp(H) + 0.8 while H falls over 24 steps.
    fn lawful(&mut self, group: &str, seed: u64, [from, to]: [f64; 2]) {
        let row = |step: u32| {
            let entropy = to + (from - to) * (f64::from(24 - step) / 24.0).powi(2);
            json!({"step": step, "policy/entropy": entropy, "eval/set/entropy": entropy,
                "eval/set/mean@4": 0.8 - 0.2 * entropy.exp()})
        };
        self.add(group, seed, &(0..=24).map(row).collect::<Vec<_>>(), json!({"loss": group}));
    }

    /// Takes metrics out of the last line of a run, as where nothing of them could be judged.
    fn without_end(&mut self, run: usize, metrics: &[&str]) {
        let run = &mut self.runs[run].1;
        let path = run.log.path.join("metrics.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
        let mut last: Value = serde_json::from_str(last).unwrap();
        for name in metrics {
            assert!(last.as_object_mut().unwrap().remove(*name).is_some(), "{name}");
        }
        fs::write(&path, format!("{before}\n{last}\n")).unwrap();
        *run = Run::open(&run.log.path).unwrap();
    }

    fn entries(&self) -> Vec<Entry<'_>> {
        self.runs
            .iter()
            .map(|(name, run, recipe)| Entry {
                name: name.clone(),
                group: None,
                run: Some(run),
                recipe: recipe.as_ref(),
                control: Control::First,
            })
            .collect()
    }

    fn summary(&self) -> Summary {
        Summary::of(&self.entries())
    }
}

fn row<'a>(summary: &'a Summary, title: &str) -> &'a seeds::Row {
    let titles = || summary.rows.iter().map(|row| &row.measure.title).collect::<Vec<_>>();
    let found = summary.rows.iter().find(|row| row.measure.title == title);
    found.unwrap_or_else(|| panic!("{title} is not in {:?}", titles()))
}

/// The runs' numbers of a group.
fn values(summary: &Summary, title: &str, group: usize) -> Vec<f64> {
    row(summary, title).means[group].as_ref().unwrap().runs.clone()
}

#[track_caller]
fn near(found: &[f64], expected: &[f64]) {
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(is_near),
        "{found:?} {expected:?}"
    );
}

#[test]
fn runs_that_differ_in_the_seed_are_a_group() {
    let mut runs = Runs::new();
    for (seed, accuracy) in [(1, 0.5), (2, 0.6), (3, 0.7)] {
        let settings = json!({"objective": {"loss": "clip"}, "memory": {"budget_gib": seed},
            "checkpoint": {"keep": seed}});
        runs.rising("plain", seed, accuracy, settings);
    }
    for (seed, accuracy) in [(3, 0.8), (1, 0.55), (2, 0.65)] {
        runs.rising("other", seed, accuracy, json!({"objective": {"loss": "gspo"}}));
    }
    let summary = runs.summary();
    let names: Vec<&str> = summary.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["plain", "other"]);
    assert_eq!(summary.groups[1].seeds, [Some(3), Some(1), Some(2)]);
    let row = row(&summary, "set: mean@4 at the end, %");
    let means: Vec<f64> = row.means.iter().map(|mean| mean.as_ref().unwrap().value).collect();
    near(&means, &[0.6, 2.0 / 3.0]);
    assert_eq!(row.against[0], None);
    let mut differences = row.against[1].as_ref().unwrap().test.difference.runs.clone();
    differences.sort_by(f64::total_cmp);
    near(&differences, &[0.05, 0.05, 0.1]);

    let text = seeds::text(&summary);
    says(&text, &["    plain                         60.0  [35.2, 84.8]  3 seeds"]);
    let (_, against) = text.split_once("      against plain: +6.7 [").unwrap();
    let line = against.lines().next().unwrap();
    assert!(line.contains("], p 0.") && line.ends_with(", exact 0.250, 3 pairs"), "{text}");
    says(
        &seeds::markdown(&summary),
        &["| plain | 60.0 [35.2, 84.8] |", "| difference |", "| other against plain | +6.7 ["],
    );
    says(&seeds::section(&summary), &["<h2>Over seeds</h2>", "60.0 [35.2, 84.8]"]);
}

/// A measure that only some seeds have does not set the bound of the others.
#[test]
fn the_exact_bound_is_of_the_most_seeds_that_are_tested() {
    let mut runs = Runs::of(&[("plain", &[0.5; 3]), ("other", &[0.61, 0.62, 0.63])]);
    says(
        &runs.summary().notes.join("\n"),
        &["With 3 seeds the exact p-value is never below 0.250, so it cannot"],
    );
    runs.without_end(5, &["eval/set/pass@4"]);
    let summary = runs.summary();
    let few = row(&summary, "set: pass@4 at the end, %").against[1].as_ref().unwrap();
    assert_eq!(few.test.difference.runs.len(), 2);
    let expected = "With 3 seeds the exact p-value is never below 0.250 (with 2, as some measures \
                    have, 0.500), so it cannot";
    says(&summary.notes.join("\n"), &[expected]);
}

/// A table of a page for each section, in a box that scrolls by keyboard too; what is to be read
/// stands outside of it. Names of runs are text.
#[test]
fn the_page_cuts_no_sentence_off_and_takes_no_name_for_markup() {
    let groups = ["a", "b", "c", "d"].map(|group| (group, &[0.51, 0.52][..]));
    let html = seeds::section(&Runs::of(&groups).summary());
    let tables: Vec<&str> = html.split("<div class=\"wide\"").skip(1).collect();
    assert!(tables.len() > 1, "{html}");
    for table in tables {
        assert!(table.starts_with(" tabindex=\"0\" role=\"region\" aria-label="), "{table}");
        let inside = table.split("</table></div>").next().unwrap();
        assert!(!inside.contains("colspan") && !inside.contains("selection"), "{inside}");
    }
    assert!(!html.contains('`') && Section::Law.heading().unwrap().1.contains('`'), "{html}");

    let mut runs = Runs::of(&[("<script>alert(1)|", &[0.5, 0.5])]);
    runs.runs.iter_mut().for_each(|run| run.0 = "a\"><b>|\nc".into());
    let summary = runs.summary();
    let html = seeds::section(&summary);
    assert!(!html.contains("<script") && !html.contains("<b>|"), "{html}");
    assert!(seeds::markdown(&summary).lines().filter(|line| line.starts_with("| ")).count() >= 2);
    assert_eq!(Summary::of(&[]).rows, []);
    assert_eq!(seeds::section(&Summary::of(&[])) + &seeds::markdown(&Summary::of(&[])), "");
}

#[test]
fn ends_bests_tenths_and_areas_are_what_they_are_called() {
    let summary = Runs::of(&[("one", &[0.5])]).summary();
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
        assert!((mean.value - expected).abs() < 1e-12 && mean.interval.is_none(), "{title}");
    }
    says(&summary.notes[0], &["one has one seed: there is no interval"]);
    let again = summary.rows.iter().any(|row| row.measure.metric.ends_with("pass@1"));
    assert!(!again, "it is mean@4 again");
    says(&seeds::text(&summary), &["1 seed, so no interval"]);
    assert_eq!(seeds::section(&summary), "", "one run says nothing over seeds");
}

#[test]
fn groups_that_are_evaluated_otherwise_are_not_compared() {
    let mut runs = Runs::new();
    let easy =
        json!({"eval": {"every": 5}, "data": {"task": "countdown", "countdown": {"largest": 5}}});
    for seed in [1, 2] {
        runs.rising("base", seed, 0.5, json!({}));
        runs.rising("elsewhere", seed, 0.6, json!({"eval": {"every": 5, "files": ["harder"]}}));
        runs.rising("rarely", seed, 0.6, json!({"eval": {"every": 10, "files": ["set"]}}));
        runs.rising("easy", seed, 0.6, easy.clone());
    }
    let summary = runs.summary();
    let names: Vec<&str> = summary.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["base", "elsewhere", "rarely", "easy"]);
    let of = row(&summary, "set: mean@4 at the end, %");
    let compared: Vec<bool> = of.against.iter().map(Option::is_some).collect();
    assert_eq!(compared, [false, false, true, false]);
    let best = row(&summary, "set: mean@4 at its best, %");
    assert!(best.against.iter().all(Option::is_none), "best values are not compared");
    let note = "elsewhere is not compared with base, since it is evaluated otherwise: eval.files \
                [\"set\"] -> [\"harder\"].";
    let notes = [note, "easy is not compared", "Best values are not compared."];
    says(&summary.notes.join("\n"), &notes);
    for shown in [seeds::markdown(&summary), seeds::section(&summary)] {
        says(&shown, &["A best value is the largest of several noisy ones"]);
    }
}

/// Evaluations take the settings that they lack from training, where these may differ.
#[test]
fn evaluations_that_are_as_in_training_differ_with_it() {
    let rollout =
        |values: Value| json!({"rollout": values, "eval": {"every": 5, "files": ["set"]}});
    let with = |tokens: u64, table: &str, eval: Value| json!({table: {"max_tokens": tokens}, "eval": eval});
    let own = json!({"files": ["set"], "max_tokens": 64});
    let benchmark = json!({"files": [], "bench": ["aime24"]});
    let null = json!({"files": ["set"], "max_tokens": null});
    let pair = |table: &str, eval: &Value| [64, 32].map(|tokens| with(tokens, table, eval.clone()));
    for ([old, new], difference) in [
        (
            [64, 32].map(|tokens| rollout(json!({"max_tokens": tokens}))),
            Some("eval.max_tokens 64 -> 32"),
        ),
        (
            [json!([]), json!(["\n"])].map(|stop| rollout(json!({"stop": stop}))),
            Some("eval.stop [] -> [\"\\n\"]"),
        ),
        (pair("sft", &null), Some("eval.max_tokens 64 -> 32")),
        (pair("rollout", &own), None),
        (pair("rollout", &benchmark), None),
    ] {
        let mut runs = Runs::new();
        for seed in [1, 2] {
            runs.rising("old", seed, 0.5, old.clone()).rising("new", seed, 0.6, new.clone());
        }
        let summary = runs.summary();
        let compared = row(&summary, "set: mean@4 at the end, %").against[1].is_some();
        assert_eq!(compared, difference.is_none(), "{old} {new}");
        let note = difference.map(|what| {
            format!("new is not compared with old, since it is evaluated otherwise: {what}.")
        });
        says(&summary.notes.join("\n"), &note.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn unfinished_and_repeated_runs_are_left_out_and_named() {
    let mut runs = Runs::of(&[("base", &[0.5, 0.9, 0.7])]);
    // The second has four steps of ten.
    let path = runs.runs[1].1.log.path.join("metrics.jsonl");
    let lines: Vec<String> = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .take(5)
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&path, lines.concat()).unwrap();
    runs.runs[1].1 = Run::open(&path).unwrap();
    let again = runs.runs[0].clone();
    runs.runs.push(("copy".into(), again.1, again.2.clone()));
    let summary = runs.summary();
    let text = seeds::text(&summary);
    says(&text, &["]  2 of 3 seeds finished\n", "these are the ones that did well"]);
    says(&seeds::markdown(&summary), &["| base (2 of 3 seeds finished) | "]);
    says(&seeds::section(&summary), &["2 of 3 seeds finished"]);
    assert_eq!(summary.groups.len(), 1);
    assert_eq!(summary.groups[0].runs, ["base/1", "base/3"]);
    assert_eq!(summary.groups[0].unfinished, ["base/2"]);
    let notes = ["base/2 is at step 4 of 10 and is left out.", "copy has the seed of another run"];
    says(&summary.notes.join("\n"), &notes);
    near(&values(&summary, "set: mean@4 at the end, %", 0), &[0.5, 0.7]);

    // One that was to be made and has recorded nothing.
    let mut failed = again.2.unwrap();
    failed["run"]["seed"] = json!(4);
    let made = Entry { group: Some("base".into()), ..runs.entries()[0].clone() };
    let failed = Entry { name: "base/4".into(), run: None, recipe: Some(&failed), ..made.clone() };
    let early = Summary::of(&[failed.clone(), made]);
    assert_eq!(early.groups[0].runs, ["base/1"]);
    assert_eq!(early.groups[0].unfinished, ["base/4"]);
    says(&early.notes[0], &["base/4 has recorded nothing and is left out."]);
    says(&seeds::text(&early), &["1 of 2 seeds finished, so no interval"]);
    assert_eq!(Summary::of(&[failed]).rows, []);
}

#[test]
fn the_law_is_said_over_seeds() {
    let mut runs = Runs::new();
    for seed in [1, 2, 3] {
        let end = 0.1 + seed as f64 / 100.0;
        runs.lawful("base", seed, [1.2, end]);
        // The last seed of the other group holds its entropy, so that there is no law to speak of.
        let begin = if seed == 3 { end + 0.004 } else { 1.2 };
        runs.lawful("other", seed, [begin, end]);
    }
    let summary = runs.summary();
    let of = |title: &str| values(&summary, &format!("set: {title}"), 0);
    near(&of("a"), &[0.2; 3]);
    near(&of("b"), &[0.8; 3]);
    near(&of("ceiling b - a, %"), &[0.6; 3]);
    near(&of("R^2 of the law, -a exp(H) + b"), &[1.0; 3]);
    assert!(of("R^2 of a line in H").iter().all(|r_squared| (0.9..0.9999).contains(r_squared)));
    near(&of("runs whose law is refused"), &[0.0; 3]);
    near(&values(&summary, "set: runs whose law is refused", 1), &[0.0, 0.0, 1.0]);
    near(&values(&summary, "set: a", 1), &[0.2; 2]);
    let over = of("R^2 of the law less that of the line");
    assert!(over.iter().all(|over| (0.0001..0.1).contains(over)), "{over:?}");

    let markdown = seeds::markdown(&summary);
    let headings: Vec<&str> = markdown.lines().filter(|line| line.starts_with("## ")).collect();
    let law = ["## Since before the first step", "## The law R = -a exp(H) + b"];
    assert_eq!(headings, [law[0], law[1], "## The price of kept entropy"]);
    says(&markdown, &["| other | 1 of 3 |", "(2 seeds)"]);
    let tested = |row: &&seeds::Row| row.against.iter().any(Option::is_some);
    assert!(summary.rows.iter().filter(tested).all(|row| row.measure.section == Section::Main));
    assert!(!seeds::text(&summary).contains("R^2"), "the terminal has the main rows alone");
    let taken: Vec<&str> = summary.rows.iter().map(|row| &*row.measure.taken).collect();
    for key in ["end", "change", "law-refused", "r-squared-linear"] {
        assert!(taken.contains(&key), "{key}: {taken:?}");
    }
}

/// A run that ends on its control's law with more entropy pays what the law asks, no more and no
/// less.
#[test]
fn kept_entropy_has_the_price_of_the_controls_law() {
    let mut runs = Runs::new();
    let ends = [1, 2, 3].map(|seed| 0.1 + f64::from(seed) / 100.0);
    for (seed, end) in (1..).zip(ends) {
        runs.lawful("base", seed, [1.2, end]);
        runs.lawful("held", seed, [1.2, 0.8]);
    }
    let summary = runs.summary();
    let prices = ends.map(|end| 0.2 * (0.8_f64.exp() - end.exp()));
    near(&values(&summary, "set: price, points", 1), &prices);
    near(&values(&summary, "set: price less paid, points", 1), &[0.0; 3]);
    let of_control = summary.rows.iter().filter(|row| row.measure.section == Section::Price);
    assert!(
        of_control.clone().count() == 2 && of_control.clone().all(|row| row.means[0].is_none())
    );
}

#[test]
fn groups_are_compared_with_what_they_are_told() {
    let runs = Runs::of(&[("a", &[0.5; 2]), ("b", &[0.6; 2]), ("c", &[0.9; 2]), ("d", &[0.75; 2])]);
    let told = [
        ("grpo/0.5", Control::First),
        ("none/0.5", Control::First),
        ("kl/0.5", Control::GroupOf(3)), // the second seed of none
        ("alone", Control::Absent("gone/1".into())),
    ];
    let entries: Vec<Entry<'_>> = (runs.entries().into_iter().enumerate())
        .map(|(i, entry)| {
            let (group, control) = told[i / 2].clone();
            Entry { group: Some(group.into()), control, ..entry }
        })
        .collect();
    let summary = Summary::of(&entries);
    let difference = |against: &Option<seeds::Against>| {
        let against = against.as_ref()?;
        Some((against.group.clone(), (100.0 * against.test.difference.value).round()))
    };
    let of = row(&summary, "set: mean@4 at the end, %");
    let said: Vec<_> = of.against.iter().map(difference).collect();
    let expected = [None, Some(("grpo/0.5".into(), 10.0)), Some(("none/0.5".into(), 30.0)), None];
    assert_eq!(said, expected);
    let note =
        "alone is not compared: of gone/1, which it is to be compared with, there is no run here.";
    assert_eq!(summary.notes.iter().filter(|said| *said == note).count(), 1, "{:?}", summary.notes);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["rows"][0]["against"][2]["group"], "none/0.5");
    assert!(json["rows"][0]["against"][2]["difference"]["value"].is_f64(), "{json}");
    says(&seeds::text(&summary), &["      against none/0.5: +30.0"]);
    says(
        &seeds::markdown(&summary),
        &["| kl/0.5 against none/0.5 | +30.0 ", "| none/0.5 against grpo/0.5 | +10.0 "],
    );
    let shown = "+30.0 no spread against none/0.5, exact 0.500, 2 pairs";
    says(&seeds::section(&summary), &[shown]);
}

#[test]
fn accuracies_are_told_as_changes() {
    let mut runs = Runs::new();
    let eval = |step: u64, mean: f64, pass: f64| {
        json!({"step": step, "eval/set/mean@8": mean, "eval/set/pass@8": pass,
            "eval/set/maj@8": mean})
    };
    for seed in [1, 2] {
        let first = [eval(0, 0.1, 0.5), eval(10, 0.3, 0.6), eval(20, 0.2, 0.4)];
        runs.add("first", seed, &first, json!({"loss": "clip"}));
        // It begins without an evaluation.
        let late = [eval(5, 0.1, 0.1), eval(20, 0.2, 0.2)];
        runs.add("late", seed, &late, json!({"loss": "none"}));
    }
    let summary = runs.summary();
    for (accuracy, change) in [("mean@8", 0.1), ("pass@8", -0.1), ("maj@8", 0.1)] {
        let found = row(&summary, &format!("set: {accuracy} since before the first step, points"));
        assert!(found.against.iter().all(Option::is_none), "{accuracy} is not tested");
        near(&found.means[0].as_ref().unwrap().runs, &[change; 2]);
        assert_eq!(found.means[1], None);
    }
    says(&seeds::markdown(&summary), &["| +10.0 no spread |"]);
}

/// The last evaluation of a run could not be judged, so that the one before it is the last that has
/// a number.
#[test]
fn an_older_value_is_no_end() {
    let mut runs = Runs::of(&[("base", &[0.5; 3]), ("other", &[0.7; 3])]);
    runs.without_end(4, &["eval/set/mean@4", "eval/set/pass@1", "eval/set/pass@4"]);
    let summary = runs.summary();
    for (title, value) in [
        ("set: mean@4 at the end, %", 0.7),
        ("set: pass@4 at the end, %", 0.8),
        ("set: mean@4 since before the first step, points", 0.7),
    ] {
        assert_eq!(values(&summary, title, 0).len(), 3, "{title}");
        near(&values(&summary, title, 1), &[value; 2]);
    }
    let test = &row(&summary, "set: mean@4 at the end, %").against[1].as_ref().unwrap().test;
    assert_eq!(test.difference.runs.len(), 2);
    // Metrics that were measured there, or that span the whole course, have all runs.
    for title in ["set: entropy at the end, nats", "set: mean@4 at its best, %"] {
        assert_eq!(values(&summary, title, 1).len(), 3, "{title}");
    }
    let note =
        "other/2 has no set: mean@4, set: pass@4 at its end, step 10, and is left out there: ";
    let said: Vec<&String> =
        summary.notes.iter().filter(|note| note.contains(" at its end, ")).collect();
    assert!(said.len() == 1 && said[0].starts_with(note), "{:?}", summary.notes);

    // If no seed of a group has a number, the group has none.
    [3, 5].into_iter().for_each(|run| runs.without_end(run, &["eval/set/mean@4"]));
    let summary = runs.summary();
    let ends = row(&summary, "set: mean@4 at the end, %");
    assert!(ends.means[0].is_some() && ends.means[1].is_none() && ends.against[1].is_none());
    let said: Vec<&String> =
        summary.notes.iter().filter(|note| note.contains(" left out there")).collect();
    let [others, "other/2 has no set: mean@4, set: pass@4 at its end"] =
        [&said[0][..], &said[1][..50]]
    else {
        panic!("{said:?}")
    };
    let once =
        "other/1, other/3 have no set: mean@4 at their end, step 10, and are left out there: ";
    assert!(said.len() == 2 && others.starts_with(once), "{said:?}");
    says(&seeds::text(&summary), &["    other                          n/a\n"]);

    // Without a recipe nobody knows where it should have ended: other trainers need not evaluate
    // there.
    let unknown = Entry { recipe: None, ..runs.entries()[4].clone() };
    let summary = Summary::of(&[unknown]);
    near(&values(&summary, "set: mean@4 at the end, %", 0), &[0.35]);
    assert!(!summary.notes.iter().any(|note| note.contains("at its end")));
}

/// A recipe that names no day has another in each run that was begun on another day.
#[test]
fn seeds_that_began_on_several_days_are_a_group_and_the_days_are_said() {
    let day = |day: u32| json!({"data": {"task": "countdown", "date": format!("2026-11-{day}")}});
    let mut runs = Runs::new();
    runs.rising("base", 1, 0.5, day(26)).rising("base", 2, 0.6, day(26));
    runs.rising("base", 3, 0.7, day(27));
    let summary = runs.summary();
    assert_eq!(summary.groups.len(), 1);
    assert_eq!(values(&summary, "set: mean@4 at the end, %", 0).len(), 3);
    let note = "The prompts of base name the day on which a run began, and that is not one day: \
                2026-11-26 (base/1, base/2), 2026-11-27 (base/3). Set data.date to give all seeds \
                the same prompts.";
    assert!(summary.notes.iter().any(|said| said == note), "{:?}", summary.notes);
}

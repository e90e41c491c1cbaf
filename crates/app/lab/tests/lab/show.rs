//! Runs as people see them on a terminal.

use crate::says;
use isentrope_files::lock_directory;
use isentrope_lab::run::{Condition, Run};
use isentrope_lab::show::{Look, PageOptions, Trace, list_metrics, page, screen};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LOOK: Look = Look { width: 80, colors: false };
const OPTIONS: PageOptions = PageOptions { metrics: Vec::new(), responses: 2 };

/// A run directory with a recipe of `steps` steps and these lines of metrics.
fn run(steps: u64, rows: &[Value]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let recipe = json!({"run": {"steps": steps, "seed": 7}, "model": {"path": "a-model"},
        "objective": {"advantage": "grpo", "loss": "clip", "covariance": {"method": "kl-cov"}}});
    fs::write(dir.path().join(".recipe.json"), recipe.to_string()).unwrap();
    write(dir.path(), "metrics.jsonl", rows);
    let times: Vec<Value> =
        rows.iter().map(|row| json!({"step": row["step"], "time/step_s": 2.0})).collect();
    write(dir.path(), "timings.jsonl", &times);
    dir
}

fn write(dir: &Path, name: &str, rows: &[Value]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
}

/// Metrics of a step; every fifth has an evaluation whose accuracy follows the law.
fn row(step: u64) -> Value {
    let entropy = 0.2 + 1.2 * (-(step as f64) / 20.0).exp();
    let mut row = json!({"step": step});
    if step > 0 {
        row["policy/entropy"] = json!(entropy);
        row["reward/mean"] = json!(0.01 * step as f64);
        row["response/length_mean"] = json!(30 + step);
        row["grad/norm"] = json!(0.5);
    }
    if step.is_multiple_of(5) {
        row["eval/math/mean@4"] = json!(0.8 - 0.15 * entropy.exp());
        row["eval/math/entropy"] = json!(entropy);
        row["eval/math/length_mean"] = json!(40.25);
        row["eval/math/truncated"] = json!(0.0);
    }
    row
}

fn rows(steps: u64) -> Vec<Value> {
    (0..=steps).map(row).collect()
}

fn shown(dir: &TempDir) -> Run {
    let mut run = Run::read(dir.path()).unwrap().remove(0);
    run.name = "run".into();
    run
}

fn page_of(dir: &TempDir) -> String {
    page(&[shown(dir)], &OPTIONS, &LOOK).join("\n")
}

#[track_caller]
fn fits(lines: &[String], width: usize) {
    let wide: Vec<&String> = lines.iter().filter(|line| line.chars().count() > width).collect();
    assert!(wide.is_empty(), "wider than {width}: {wide:#?}");
}

#[test]
fn a_finished_run_is_shown_whole() {
    let dir = run(25, &rows(25));
    let response = |verdict: &str, text: &str| {
        json!({"prompt": "1+1?", "ground_truth": "2", "response": text, "verdict": verdict,
            "reward": 1.0, "tokens": 3, "entropy": 0.5, "truncated": verdict == "wrong",
            "extracted": "2", "reason": "because"})
    };
    let responses =
        [response("wrong", "first"), response("wrong", "it is 3"), response("correct", "it\nis 2")];
    write(dir.path(), "rollouts/step-000025.jsonl", &responses);
    let text = page_of(&dir);
    let heading = "run: finished, step 25 of 25, 52 s in all\n  a-model, grpo, \
                   clip, kl-cov, seed 7\n\n";
    assert!(text.starts_with(heading), "{text}");
    let plots = [
        "entropy, nats per token\n",
        "● rollouts   ■ evaluation of math",
        "accuracy of evaluations\n",
        "● math, mean@4",
        "mean reward\n",
        "response length, tokens\n",
    ];
    says(&text, &plots);
    let evaluations = "\
evaluations math
step  mean@4  entropy  length
   0  19.2 %   1.4000    40.2
   5  33.4 %   1.1346    40.2
";
    let law =
        ["law math\n  R = -0.1500 exp(H) + 0.8000", "ceiling 65.0 %", "now 54.2 % at H = 0.544"];
    says(&text, &[&[evaluations], &law[..]].concat());
    says(&text, &["R: eval/math/mean@4; H: eval/math/entropy; 6 points"]);
    let last = "\
last responses, step 25
> 1+1?  (ground truth: 2)
  wrong: reward 1, 3 tokens, entropy 0.500, cut off, answer 2, because
    it is 3
  correct: reward 1, 3 tokens, entropy 0.500, answer 2, because
    it
    is 2";
    assert!(text.ends_with(last), "{text}");
}

/// A mean score may be any number, and 2.166 of one is not 216.6 %.
#[test]
fn a_mean_score_is_no_share() {
    let scored = |step: u64| {
        let mut row = row(step);
        if let Some(share) = row.as_object_mut().unwrap().remove("eval/math/mean@4") {
            row["eval/math/score"] = json!(4.0 * share.as_f64().unwrap());
        }
        row
    };
    let text = page_of(&run(25, &(0..=25).map(scored).collect::<Vec<_>>()));
    says(&text, &["R = -0.6000 exp(H) + 3.2000", "ceiling 2.600", "now 2.166 at H = 0.544"]);
}

#[test]
fn the_lock_tells_a_run_that_trains_from_one_that_has_stopped() {
    let dir = run(40, &rows(10));
    assert_eq!(shown(&dir).state.condition, Condition::Stopped);
    let parts = ["run: stopped, step 10 of 40, 2.0 s per step", "recipe.toml --resume goes on"];
    says(&page_of(&dir), &parts);
    let lock = lock_directory(dir.path(), "training").unwrap();
    let training = shown(&dir);
    assert_eq!(training.state.condition, Condition::Training);
    assert_eq!(training.state.seconds_left(), Some(60.0));
    says(&page_of(&dir), &["run: training, step 10 of 40, 2.0 s per step, 60 s left\n"]);
    drop(lock);
    // Who looks keeps nobody out.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..200).for_each(|_| drop(Run::read(dir.path()).unwrap())));
        }
        for _ in 0..50 {
            drop(lock_directory(dir.path(), "training").unwrap());
        }
    });
}

#[test]
fn runs_that_have_hardly_begun_or_have_diverged_say_so() {
    let nothing = run(10, &[]);
    says(&page_of(&nothing), &["run: stopped, nothing measured yet\n"]);
    fs::remove_file(nothing.path().join("metrics.jsonl")).unwrap();
    says(&page_of(&nothing), &["nothing measured yet"]);
    let first = &screen(&[shown(&nothing)], &OPTIONS, 24, &LOOK)[0];
    assert_eq!(first, "run: stopped, nothing measured yet");
    says(&list_metrics(&[shown(&nothing)], &LOOK).join("\n"), &["nothing measured yet"]);
    let mut lost = rows(10);
    for row in &mut lost[8..] {
        for name in ["policy/entropy", "grad/norm"] {
            row[name] = Value::Null;
        }
        row["optimizer/skipped"] = json!(3);
    }
    let mut idle = rows(3);
    idle.iter_mut().for_each(|row| row["optimizer/learning_rate"] = json!(0.0));
    for (steps, rows, parts) in [
        (3, &idle[..], &["- no update has changed the weights"][..]),
        (1, &rows(0)[..], &["step 0 of 1", "too few points: 1, and at least 6 are", "; 1 point"]),
        (1, &rows(1)[1..], &["finished, step 1 of 1", "law rollout\n"]),
        (2, &rows(10), &["finished, step 10, past run.steps = 2, "]),
        (
            10,
            &lost,
            &[
                "not finite in step 10: ",
                "policy/entropy was last\n    finite in step 7",
                "3 updates were left out",
            ],
        ),
    ] {
        says(&page_of(&run(steps, rows)), parts);
    }
}

/// One that comes again every few steps would fill the screen.
#[test]
fn the_last_alarm_of_each_kind_is_shown() {
    let entropies = [&[2.0, 0.1][..], &[1.0; 10], &[0.1]].concat();
    let row = |(step, entropy): (u64, &f64)| json!({"step": step, "policy/entropy": entropy});
    let text = page_of(&run(13, &(1..).zip(&entropies).map(row).collect::<Vec<_>>()));
    says(&text, &["  - step 13 (and once before): the entropy has collapsed: "]);
    assert!(!text.contains("- step 2: "), "{text}");
}

#[test]
fn turns_of_the_model_are_marked() {
    let dir = run(3, &rows(3));
    let row = json!({"prompt": "?", "response": "5é|less|3", "given": [[9, 12]],
        "given_text": [[2, 8]], "truncated": true, "out_of_turns": true});
    let opened = json!({"prompt": "?", "response": "Go!5|less|3", "given": [[0, 3], [4, 7]],
        "given_text": [[0, 3], [4, 10]]});
    write(dir.path(), "rollouts/step-000003.jsonl", &[row, opened]);
    let parts = ["⟦sampled⟧ text", "    ⟦5é⟧|less|⟦3⟧", "last turn", "    Go!⟦5⟧|less|⟦3⟧"];
    says(&page_of(&dir), &parts);
}

#[test]
fn malformed_responses_are_named() {
    let dir = run(3, &rows(3));
    fs::create_dir(dir.path().join("rollouts")).unwrap();
    fs::write(dir.path().join("rollouts/step-000003.jsonl"), "{}\nnonsense\n{}\n").unwrap();
    says(&page_of(&dir), &["step-000003.jsonl: line 2 from its end"]);
}

#[test]
fn texts_are_harmless_wrapped_and_not_endless_and_numbers_short() {
    let dir = run(3, &rows(3));
    let hostile = format!("\x1b[2J{} {}", "x".repeat(300), "word\n".repeat(100));
    let row = json!({"prompt": hostile, "response": hostile, "verdict": hostile, "reason": hostile,
        "extracted": [1]});
    write(dir.path(), "rollouts/step-000003.jsonl", &[row]);
    for width in [20, 40, 61, 200] {
        let look = Look { width, ..LOOK };
        let lines = page(&[shown(&dir)], &OPTIONS, &look);
        fits(&lines, width);
        if width >= 40 {
            fits(&list_metrics(&[shown(&dir)], &look), width);
        }
        let text = lines.join("\n");
        assert!(!text.contains('\x1b') && text.contains("\\u{1b}") && lines.len() < 250, "{text}");
        says(&text, &[" lines ⋯"]);
    }
    let mut huge = rows(3);
    for row in &mut huge {
        row["eval/math/entropy"] = json!(1e300);
        row["optimizer/skipped"] = json!(1e300);
    }
    let text = page_of(&run(3, &huge));
    says(&text, &["1.000e300 updates were left out", "1.00e300"]);
    assert!(!text.contains("00000000"), "{text}");
}

#[test]
fn several_runs_share_plots_and_tables_stand_side_by_side() {
    let dirs = [run(20, &rows(20)), run(20, &rows(10))];
    let mut runs: Vec<Run> = dirs.iter().map(shown).collect();
    runs[1].name = "other".into();
    let text = |width| page(&runs, &OPTIONS, &Look { width, ..LOOK }).join("\n");
    says(
        &text(120),
        &[
            "entropy of rollouts, nats per token",
            "● run   ■ other",
            "● run math, mean@4   ■ other math",
            "evaluations run, math           evaluations other, math\n",
            "law run, math",
            "law other, math",
        ],
    );
    assert!(!text(50).contains("evaluations run, math  "), "{}", text(50));
    says(&list_metrics(&runs, &LOOK).join("\n"), &["policy/entropy", "run", "other"]);
}

#[test]
fn the_head_names_the_methods_that_are_on() {
    let dir = run(1, &rows(1));
    let recipe = json!({"run": {"seed": 7}, "model": {"path": "a-model"}, "objective": {
        "loss": "clip", "covariance": {"method": "none"},
        "methods": {"bapo": {"lower_start": 0.7}, "erc": null, "steer": {}}}});
    fs::write(dir.path().join(".recipe.json"), recipe.to_string()).unwrap();
    says(&page_of(&dir), &["a-model, clip, bapo, steer, seed 7\n"]);
}

#[test]
fn a_screen_is_never_higher_or_wider_than_the_terminal() {
    let dir = run(20, &rows(20));
    let runs = [shown(&dir)];
    for width in [40, 60, 80, 120, 200] {
        for height in [5, 10, 24, 40, 60, 120] {
            let lines = screen(&runs, &OPTIONS, height, &Look { width, ..LOOK });
            assert!(lines.len() <= height, "{width}x{height}: {lines:#?}");
            fits(&lines, width);
            let text = lines.join("\n");
            says(&text, &["run: finished"]);
            let has_plot = text.contains("entropy, nats per token");
            assert_eq!(has_plot, height > 9, "{width}x{height}:\n{text}");
        }
    }
    let all = screen(&runs, &OPTIONS, 40, &Look { width: 100, ..LOOK }).join("\n");
    says(&all, &["accuracy of", "mean reward", "response length", "law math", "evaluations math"]);
}

#[test]
#[ignore = "deep: 10000 steps, 6000 sets"]
fn long_runs_and_very_many_sets_are_shown_at_once() {
    let mut metrics = String::new();
    for step in 0..=10_000u64 {
        let mut row = row(step);
        for i in 0..30 {
            row[format!("metric/{i}")] = json!(0.1 * f64::from(i) + (step as f64).sin());
        }
        let _ = writeln!(metrics, "{row}");
    }
    let dir = run(10_000, &rows(1));
    fs::write(dir.path().join("metrics.jsonl"), metrics).unwrap();
    let begin = Instant::now();
    let text = page_of(&dir);
    assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed()); // without optimisation
    says(&text, &["step 10000 of 10000", "mean reward (means over 125 steps)", "   ⋮\n 9955"]);
    // Each set once looked at all others.
    let begin = Instant::now();
    let text = page_of(&run(1, &[of_sets(0, 6000), of_sets(1, 6000)]));
    says(&text, &["evaluations set-5999"]);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

fn of_sets(step: u64, sets: usize) -> Value {
    let mut row = json!({"step": step});
    for set in 0..sets {
        row[format!("eval/set-{set:02}/mean@1")] = json!(0.25);
        row[format!("eval/set-{set:02}/entropy")] = json!(0.5);
    }
    row
}

#[test]
fn of_very_many_sets_the_first_laws_are_shown_and_the_rest_is_counted() {
    let text = page_of(&run(2, &[0, 1, 2].map(|step| of_sets(step, 20))));
    says(&text, &["law set-07\n", "law and 12 other sets\n  isentrope law "]);
    assert!(!text.contains("law set-08"), "{text}");
}

#[test]
fn runs_of_other_trainers_are_shown() {
    let log = |name: &str, rows: &[Value]| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), name, rows);
        shown(&dir)
    };
    let row = |step: u64| {
        json!({"step": step, "completions/mean_length": 9, "eval_math_reward": 0.5,
            "eval_math_entropy": 0.25, "step_time": 3.0})
    };
    // A Trainer's time is the mean of the steps since it logged before.
    let run = log("trl.jsonl", &[row(10), row(20), row(25)]);
    assert_eq!((run.state.seconds, run.state.has_evaluation), (75.0, false));
    says(
        &page(&[run], &OPTIONS, &LOOK).join("\n"),
        &[
            "step 25, 3.0 s per step, 75 s of training",
            "step   score  entropy",
            "  25  0.5000   0.2500",
        ],
    );
    // verl's entropy is the rollouts'.
    let row = |step: u64| json!({"step": step, "data": {"actor/entropy": 1.0 / step as f64}});
    let run = log("verl.jsonl", &(1..=5).map(row).collect::<Vec<_>>());
    says(&page(&[run], &OPTIONS, &LOOK).join("\n"), &["entropy, nats per token"]);
}

#[test]
fn a_trace_passes_over_files_that_are_many() {
    let dir = run(3, &rows(3));
    write(dir.path(), "tokens/step-000001.jsonl", &[json!(1)]);
    let trace = Trace::of(dir.path());
    write(dir.path(), "tokens/step-000001.jsonl", &[json!(1), json!(2)]);
    assert_eq!(Trace::of(dir.path()), trace);
    write(dir.path(), "metrics.jsonl", &rows(2));
    assert_ne!(Trace::of(dir.path()), trace);
}

#[test]
fn runs_of_a_directory_have_states_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    for (steps, name) in [(25, "finished"), (30, "stopped")] {
        fs::rename(run(steps, &rows(25)).keep(), dir.path().join(name)).unwrap();
    }
    let lock = lock_directory(&dir.path().join("stopped"), "training").unwrap();
    let conditions = || -> Vec<Condition> {
        Run::read(dir.path()).unwrap().iter().map(|run| run.state.condition).collect()
    };
    assert_eq!(conditions(), [Condition::Complete, Condition::Training]);
    let trace = Trace::of(dir.path());
    drop(lock);
    assert_ne!(Trace::of(dir.path()), trace);
    assert_eq!(conditions(), [Condition::Complete, Condition::Stopped]);
    // By the file of its log a run is the same.
    let one = Run::read(&dir.path().join("finished/metrics.jsonl")).unwrap().remove(0);
    assert_eq!((one.state.condition, one.recipe.is_some()), (Condition::Complete, true));
}

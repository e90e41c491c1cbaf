//! Logs of run directories of this program.

use isentrope_lab::log::{Origin, RunLog, labels};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn run(metrics: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("recipe.toml"), "").unwrap();
    fs::write(dir.path().join("metrics.jsonl"), metrics).unwrap();
    dir
}

#[test]
fn a_run_is_named_by_its_directory_or_by_its_file() {
    let dir = run("{\"step\":1,\"x\":1}\n");
    fs::write(dir.path().join("timings.jsonl"), "{\"step\":1,\"time/step_s\":2.0}\n").unwrap();
    let logs = [dir.path().to_owned(), dir.path().join("metrics.jsonl")]
        .map(|path| RunLog::open(&path).unwrap());
    for log in logs {
        assert_eq!((log.origin, log.all().count()), (Origin::Isentrope, 2));
        assert_eq!(log.name, dir.path().file_name().unwrap().to_str().unwrap());
    }
}

#[test]
fn a_run_without_numbers_says_so() {
    let empty = RunLog::open(run("").path()).unwrap();
    assert!(empty.last_step().is_none() && empty.notes[0].contains("no step is recorded yet"));
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("recipe.toml"), "").unwrap();
    let begun = RunLog::open(dir.path()).unwrap();
    assert!(begun.last_step().is_none() && begun.notes[0].contains("no step is recorded yet"));
    // Nothing of a run, and another trainer's file of the same name.
    let other = tempfile::tempdir().unwrap();
    let error = RunLog::open(other.path()).unwrap_err().to_string();
    assert!(error.contains("no log of a run that is known") && error.contains("W&B"), "{error}");
    fs::write(other.path().join("metrics.jsonl"), "{\"step\":1,\"data\":{\"actor/lr\":0.5}}\n")
        .unwrap();
    assert_eq!(RunLog::open(other.path()).unwrap().origin, Origin::Verl);
    // Without an object around its numbers, and one of ours that was copied without its recipe.
    for (row, origin, name) in [
        ("{\"step\":1,\"actor/grad_norm\":0.5}\n", Origin::Verl, "grad/norm"),
        (
            "{\"step\":0,\"eval/a/mean@1\":0.5}\n{\"step\":1,\"policy/entropy\":1}\n",
            Origin::Isentrope,
            "time/step_s",
        ),
    ] {
        fs::write(other.path().join("metrics.jsonl"), row).unwrap();
        let timings = other.path().join("timings.jsonl");
        match origin {
            Origin::Isentrope => fs::write(timings, "{\"step\":1,\"time/step_s\":2}\n").unwrap(),
            _ => assert!(!timings.exists()),
        }
        for path in [other.path().to_owned(), other.path().join("metrics.jsonl")] {
            let log = RunLog::open(&path).unwrap();
            assert_eq!((log.origin, log.series(name).is_some()), (origin, true), "{row}");
        }
    }
}

#[test]
fn numbers_come_back_by_step_and_nulls_are_no_measurements() {
    let dir = run(
        "{\"step\":0,\"eval/a/entropy\":1.5}\n{\"step\":1,\"x\":null}\n{\"step\":4,\"x\":0.25,\"eval/a/entropy\":1.0}\n",
    );
    fs::write(dir.path().join("timings.jsonl"), "{\"step\":1,\"time/step_s\":2.0}\n").unwrap();
    let log = RunLog::open(dir.path()).unwrap();
    let series = log.series("eval/a/entropy").unwrap();
    assert_eq!(series.iter().collect::<Vec<_>>(), [(0, 1.5), (4, 1.0)]);
    assert_eq!(
        (series.at(4), series.at(1), log.series("x").unwrap().last()),
        (Some(1.0), None, Some((4, 0.25)))
    );
    assert_eq!(log.series("time/step_s").unwrap().values, [2.0]);
    assert_eq!((log.evaluation_sets(), log.last_step()), (vec!["a"], Some(4)));
    assert!(log.notes.is_empty());
}

#[test]
fn malformed_lines_are_named_by_file_and_line() {
    for (metrics, what) in [
        ("{\"step\":1}\nnonsense\n", "line 2: expected"),
        ("{\"step\":1}\n{\"step\":1}\n", "line 2: step 1 does not come after"),
        ("{\"x\":1}\n", "line 1: \"step\" must be a whole number"),
        ("{\"step\":18446744073709551615,\"x\":1}\n", "line 1: step 18446744073709551615 is after"),
        ("{\"step\":1,\"x\":\"1\"}\n", "line 1: \"x\" must be a number"),
    ] {
        let error = RunLog::open(run(metrics).path()).unwrap_err().to_string();
        assert!(error.contains("metrics.jsonl: ") && error.contains(what), "{error}");
    }
    assert!(RunLog::open(Path::new("nowhere")).unwrap_err().to_string().starts_with("nowhere: "));
}

#[test]
fn runs_below_a_directory_are_found_and_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    for run in ["grpo/1", "grpo/2", "kl-cov/1"] {
        let run = dir.path().join(run);
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("recipe.toml"), "").unwrap();
    }
    let error = RunLog::open(dir.path()).unwrap_err().to_string();
    let names = "holds 3 runs, where one is wanted: grpo/1, grpo/2, kl-cov/1; give the path of one";
    assert!(error.contains(names), "{error}");
    let logs = RunLog::open_all(dir.path()).unwrap();
    assert_eq!(labels(&logs.iter().collect::<Vec<_>>()), ["grpo/1", "grpo/2", "kl-cov/1"]);
}

//! JSON lines of scripts, and what is wrong with some.

use isentrope_lab::log::{Origin, RunLog, part_of};
use std::fs;

fn open(text: impl AsRef<[u8]>) -> Result<RunLog, String> {
    open_as("curve.jsonl", text)
}

/// A log of this name and text, or what is wrong with it.
pub fn open_as(name: &str, text: impl AsRef<[u8]>) -> Result<RunLog, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    RunLog::open(&path).map_err(|error| error.to_string())
}

pub fn points(log: &RunLog, name: &str) -> Vec<(u64, f64)> {
    log.series(name).unwrap_or_else(|| panic!("{name}")).iter().collect()
}

#[test]
fn dicts_with_a_step_are_a_log_under_their_own_names() {
    let text = "\u{feff}{\"step\": 1, \"my/score\": 0.5, \"who\": \"me\", \"ok\": true, \"lr\": \
                NaN, \"list\": [1]}\r\n\n\
                {\"step\": 2.0, \"my/score\": 1, \"lr\": 1e-6, \"inner\": {\"a\": {\"b\": 3}}, \
                \"t\": \"NaN \\\" Infinity\"}\n\
                {\"step\": 3, \"my/score\": -Infinity, \"lr\": Infinity}";
    let log = open(text).unwrap();
    assert_eq!((log.origin, &*log.name), (Origin::Unknown, "curve"));
    assert_eq!(points(&log, "my/score"), [(1, 0.5), (2, 1.0)]);
    assert_eq!((points(&log, "lr"), points(&log, "inner/a/b")), (vec![(2, 1e-6)], vec![(2, 3.0)]));
    assert_eq!(log.all().count(), 3, "texts, lists and truth values are no measurements");
    assert!(log.notes.is_empty(), "{:?}", log.notes);
}

#[test]
fn a_run_that_went_on_has_its_later_numbers() {
    let row = |step: u64, value: f64| format!("{{\"step\":{step},\"a\":{value},\"b\":{value}}}\n");
    let first: String = (1..=9).map(|step| row(step, 1.0)).collect();
    let second: String = (5..=7).map(|step| row(step, 2.0)).collect();
    let log = open(first + &second).unwrap();
    let steps: Vec<u64> = (1..=7).collect();
    assert_eq!(log.series("a").unwrap().steps, steps, "what came after step 7 was lost");
    assert_eq!(log.series("b").unwrap().values, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    assert!(
        log.notes[0].starts_with("steps 5 to 7 are there more than once")
            || log.notes[0].starts_with("step 5 is"),
        "{:?}",
        log.notes
    );
    assert!(
        log.notes[0].ends_with(", and 8 numbers of later steps, written before, are dropped"),
        "{:?}",
        log.notes
    );
    // Several rows of one step are no restart, and rows out of order lose nothing.
    let log = open(
        "{\"step\":3,\"a\":3}\n{\"step\":1,\"a\":1}\n{\"step\":1,\"b\":1}\n{\"step\":2,\"a\":2}\n",
    )
    .unwrap();
    assert_eq!(points(&log, "a"), [(1, 1.0), (2, 2.0), (3, 3.0)]);
    assert!(log.notes.is_empty(), "{:?}", log.notes);
}

/// All that was written of work that was lost goes, also what is not measured at the step that
/// comes again.
#[test]
fn a_restart_forgets_all_metrics() {
    let row = |step: u64| {
        let eval = if step.is_multiple_of(5) { format!(",\"eval\":{step}") } else { String::new() };
        format!("{{\"step\":{step},\"a\":{step},\"b\":1{eval}}}\n")
    };
    let first: String = (1..=20).map(row).collect();
    // New numbers of the restart come before the name that tells of it.
    let again = "{\"step\":8,\"new\":7,\"a\":8,\"b\":2}\n{\"step\":9,\"new\":7,\"a\":9,\"b\":2}\n";
    let log = open(first.clone() + again).unwrap();
    assert_eq!(
        (points(&log, "eval"), points(&log, "new")),
        (vec![(5, 5.0)], vec![(8, 7.0), (9, 7.0)])
    );
    assert_eq!((log.series("a").unwrap().steps.len(), log.last_step()), (9, Some(9)));
    assert_eq!(log.series("b").unwrap().values[6..], [1.0, 2.0, 2.0]);
    assert!(
        log.notes[0].ends_with(", and 27 numbers of later steps, written before, are dropped"),
        "{:?}",
        log.notes
    );
    // An evaluation of an earlier step that comes late is no restart.
    let late = "{\"step\":12,\"eval\":12}\n{\"step\":21,\"a\":21}\n";
    let log = open(first + late).unwrap();
    assert_eq!(
        (log.last_step(), log.series("a").unwrap().steps.len(), log.notes.len()),
        (Some(21), 21, 0)
    );
}

/// W&B's history has a row for the evaluation of a step too, with null for what the row of training
/// has.
#[test]
fn null_is_no_measurement_and_nan_is_one_that_failed() {
    let text = "{\"step\":1,\"a\":0.5,\"b\":null,\"c\":NaN}\n{\"step\":1,\"a\":null,\"b\":1,\"c\":Infinity}\n\
                {\"step\":2,\"a\":0.25,\"c\":\"NaN\",\"d\":\"text\"}\n{\"step\":2,\"a\":NaN,\"b\":2}\n";
    let log = open(text).unwrap();
    assert_eq!(
        (points(&log, "a"), points(&log, "b")),
        (vec![(1, 0.5), (2, 0.25)], vec![(1, 1.0), (2, 2.0)])
    );
    assert_eq!(log.notes, ["1 metric was never finite, such as c: nothing can be said of that"]);
}

#[test]
fn a_last_line_that_is_cut_off_is_passed_over_and_a_whole_one_is_not() {
    let log = open("{\"step\":1,\"a\":1}\n{\"step\":2,\"a").unwrap();
    assert_eq!(log.last_step(), Some(1));
    assert!(log.notes[0].contains("curve.jsonl: line 2 is cut off"), "{:?}", log.notes);
    let log = open("{\"step\":1,\"a\":1}\n{\"step\":2,\"a\":2}").unwrap();
    assert_eq!((log.last_step(), log.notes.len()), (Some(2), 0));
}

#[test]
fn malformed_lines_are_named() {
    for (text, what) in [
        ("{\"step\":1,\"a\":1}\n{\"step\":2,\"a\":}\n", "line 2: expected value at column"),
        ("{\"step\":1,\"a\":1}\n[1]\n", "line 2: invalid type"),
        ("{\"step\":1,\"a\":1}\n{\"step\":2,\"a\"\n", "line 2: it breaks off before its end"),
        ("{\"a\":1}\n", "line 1: no \"step\""),
        ("{\"step\":-1,\"a\":1}\n", "line 1: \"step\" must be a whole number from 0"),
        ("{\"step\":1.5,\"a\":1}\n", "line 1: \"step\" must be"),
        ("{\"step\":18446744073709551615,\"a\":1}\n", "line 1: \"step\" must be"),
        ("{\"step\":\"x\",\"a\":1}\n", "line 1: \"step\" must be"),
        ("hello there\n", "no log of a run that is known"),
        ("[{\"step\":1,\"a\":1},{\"a\":2}]", "entry 2: no \"step\""),
        ("{\"log_history\": [{\"loss\": 1}]}", "entry 1: no \"step\""),
        ("{\"log_history\": 3}", "expected a sequence"),
        ("{\"log_history\": [],\n}", "at line 2"),
    ] {
        let error = open(text).unwrap_err();
        assert!(error.contains("curve.jsonl: ") && error.contains(what), "{text:?}: {error}");
    }
    let long = format!("{{\"step\":1,\"{}\":1}}\n", "x".repeat(2000));
    assert!(open(long).unwrap_err().contains("line 1: a name of more than"));
    let deep = format!("{{\"step\":1,\"a\":{}1{}}}\n", "{\"a\":".repeat(100), "}".repeat(100));
    assert!(
        open(deep).unwrap().all().next().is_none(),
        "objects deeper than any log's are passed over"
    );
}

#[test]
fn a_directory_of_lines_is_a_run_for_each() {
    let dir = tempfile::tempdir().unwrap();
    for (name, value) in [("b", 2), ("a", 1)] {
        fs::write(
            dir.path().join(format!("{name}.jsonl")),
            format!("{{\"step\":1,\"data\":{{\"actor/lr\":{value}}}}}\n"),
        )
        .unwrap();
    }
    let logs = RunLog::open_all(dir.path()).unwrap();
    assert_eq!(logs.iter().map(|log| &*log.name).collect::<Vec<_>>(), ["a", "b"]);
    let error = RunLog::open(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("holds 2 runs, where one is wanted: a.jsonl, b.jsonl; give the path of one"),
        "{error}"
    );
}

#[test]
fn samples_of_a_step_are_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let dump = |step: u64| {
        let row = |score| {
            format!("{{\"input\":\"1+1\",\"output\":\"2\",\"score\":{score},\"step\":{step}}}\n")
        };
        (0..4).map(row).collect::<String>()
    };
    fs::write(dir.path().join("7.jsonl"), dump(7)).unwrap();
    for path in [dir.path().to_owned(), dir.path().join("7.jsonl")] {
        let error = RunLog::open_all(&path).unwrap_err().to_string();
        assert!(error.contains("7.jsonl: every line is of the same step"), "{error}");
    }
    // A run that has only begun is one.
    assert!(open("{\"step\":0,\"a\":1}\n{\"step\":0,\"b\":1}\n").is_ok());
    fs::remove_file(dir.path().join("7.jsonl")).unwrap();
    for number in 0..1001 {
        fs::write(dir.path().join(format!("{number}.jsonl")), "{\"step\":1,\"a\":1}\n").unwrap();
    }
    let error = RunLog::open_all(dir.path()).unwrap_err().to_string();
    assert!(error.contains("has 1001 files .jsonl") && error.contains("at most 1000"), "{error}");
}

#[test]
fn a_metric_that_gives_its_name_away_is_told() {
    let text = "{\"step\":1,\"data\":{\"actor/grad_norm\":2,\"grad/norm\":3}}\n";
    let log = open(text).unwrap();
    assert_eq!(points(&log, "grad/norm"), [(1, 2.0)]);
    assert!(
        log.notes.iter().any(|note| note.contains("1 metric is left out, such as grad/norm")),
        "{:?}",
        log.notes
    );
}

#[test]
fn a_set_is_known_by_its_accuracy() {
    let log = open(
        "{\"step\":1,\"eval/a/b/mean@8\":0.5,\"eval/a/b/mean@16\":0.5,\"eval/a/b/score\":1,\"eval/c/score\":2,\"eval/d/entropy\":1,\"eval/e/mean@\":1,\"eval//mean@2\":1,\"eval/f/mean@x\":1,\"eval/g/mean@2_3_numbers\":1}\n",
    )
    .unwrap();
    assert_eq!(log.evaluation_sets(), ["a/b", "c", "d"]);
    assert!(
        log.series("eval/g/mean@2_3_numbers").is_some(),
        "as runs wrote it before sets had parts"
    );
    let accuracies: Vec<(&str, &str)> =
        log.accuracies().into_iter().map(|(set, m)| (set, m.what)).collect();
    assert_eq!(accuracies, [("a/b", "mean@16"), ("c", "score")]);
}

#[test]
fn parts_of_a_set_are_no_sets() {
    let log = open(
        "{\"step\":1,\"eval/test/mean@8\":0.5,\"eval/test/entropy\":1,\"eval/test/sum/mean@8\":0.7,\"eval/test/sum/entropy\":0.5,\"eval/test/product/entropy\":2,\"eval/test_t0.6/mean@8\":0.5,\"eval/openai/gsm8k/mean@8\":0.2}\n",
    )
    .unwrap();
    assert_eq!(log.evaluation_sets(), ["openai/gsm8k", "test", "test_t0.6"]);
    let all = log.sets_and_parts();
    let parts: Vec<_> =
        all.iter().filter_map(|set| part_of(set, |whole| all.contains(whole))).collect();
    assert_eq!(parts, [("test", "product"), ("test", "sum")]);
    let accuracies: Vec<&str> = log.accuracies().into_keys().collect();
    assert_eq!(accuracies, ["openai/gsm8k", "test", "test/sum", "test_t0.6"]);
    assert_eq!(log.parts(), [("test/product", "test"), ("test/sum", "test")].into());
}

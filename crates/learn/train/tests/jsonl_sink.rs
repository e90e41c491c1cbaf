//! Metrics as JSON lines: their form, and what is left of them when a run goes on.

use crate::support::metrics;
use isentrope_train::run::sinks::JsonlSink;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use tempfile::{TempDir, tempdir};

fn file() -> (TempDir, PathBuf) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("metrics.jsonl");
    (dir, path)
}

#[test]
fn a_line_has_the_step_and_the_metrics_in_order() {
    let (_dir, path) = file();
    let mut sink = JsonlSink::create(&path).unwrap();
    sink.write(1, &metrics(&[("policy/entropy", 0.1), ("grad/norm", 1e-7), ("count", 3.0)]))
        .unwrap();
    sink.write(2, &metrics(&[("a", f64::NAN), ("b", f64::INFINITY), ("\"q\"", -0.0)])).unwrap();
    sink.sync().unwrap();
    let expected = "{\"step\":1,\"policy/entropy\":0.1,\"grad/norm\":1e-7,\"count\":3.0}\n\
                    {\"step\":2,\"a\":null,\"b\":null,\"\\\"q\\\"\":-0.0}\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn a_damaged_line_is_named_and_nothing_removed() {
    let (_dir, path) = file();
    let text = "{\"step\":1}\nnothing\n{\"step\":2}\n";
    fs::write(&path, text).unwrap();
    let error = JsonlSink::resume(&path, 2).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}:2: not a line of metrics", path.display())), "{error}");
    assert!(error.ends_with("repair or remove the line to resume"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_missing_file_is_started_and_a_missing_directory_named() {
    let (dir, path) = file();
    JsonlSink::resume(&path, 4).unwrap().write(5, &metrics(&[])).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"step\":5}\n");
    JsonlSink::create(&path).unwrap_err(); // nothing is overwritten
    let path = dir.path().join("none/metrics.jsonl");
    let error = JsonlSink::create(&path).unwrap_err().to_string();
    assert!(error.starts_with(&path.display().to_string()), "{error}");
}

proptest! {
    /// Killed after any byte and resumed at any step that was whole by then, a run's file is the
    /// uninterrupted run's.
    #[test]
    fn resumed_file_equals_the_uninterrupted_one(
        values in prop::collection::vec(prop::num::f64::ANY, 1..20),
        killed: prop::sample::Index,
        checkpoint: prop::sample::Index,
    ) {
        let (dir, path) = file();
        let row = |value: &f64| metrics(&[("a", *value), ("b/c", value / 3.0)]);
        let write = |sink: &mut JsonlSink, after: usize| {
            for (step, value) in values.iter().enumerate().skip(after) {
                sink.write(step as u64 + 1, &row(value)).unwrap();
            }
        };
        write(&mut JsonlSink::create(&path).unwrap(), 0);
        let whole = fs::read(&path).unwrap();

        let cut = killed.index(whole.len() + 1);
        let lines = whole[..cut].iter().filter(|&&b| b == b'\n').count();
        let last_step = checkpoint.index(lines + 1);
        let resumed = dir.path().join("resumed.jsonl");
        fs::write(&resumed, &whole[..cut]).unwrap();
        write(&mut JsonlSink::resume(&resumed, last_step as u64).unwrap(), last_step);
        prop_assert_eq!(fs::read(&resumed).unwrap(), whole);
    }
}

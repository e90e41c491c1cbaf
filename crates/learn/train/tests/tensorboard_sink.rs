//! TensorBoard's event files, read by the laboratory and by TensorBoard itself.

use crate::support::metrics;
use isentrope_lab::log::{Origin, RunLog};
use isentrope_train::run::sinks::TensorBoardSink;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::tempdir;

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_resumed_run_is_read_as_written() {
    let dir = tempdir().unwrap();
    let dir = dir.path().join("mine/tensorboard");
    let long = "x/".repeat(100);
    let row = |step: u64, value: f64| {
        metrics(&[("policy/entropy", value), ("grad/norm", 0.5 + step as f64), (&long, -1e-7)])
    };
    let mut sink = TensorBoardSink::create(&dir).unwrap();
    for step in 1..=6 {
        sink.write(step, &row(step, 0.31)).unwrap();
    }
    let mut sink = TensorBoardSink::resume(&dir, 4).unwrap();
    sink.write(5, &row(5, f64::NAN)).unwrap();
    sink.write(1 << 40, &row(7, f64::NAN)).unwrap();

    let files = files(&dir);
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let parts: Vec<_> = name.strip_prefix("events.out.tfevents.").unwrap().split('.').collect();
        let process = std::process::id().to_string();
        assert!(parts.len() == 3 && parts[0].len() == 10 && parts[2] == process, "{name}");
        // After length and checksum, the first event begins with the time and has the version.
        let bytes = fs::read(file).unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        let time = f64::from_le_bytes(bytes[13..21].try_into().unwrap());
        assert!(bytes[12] == 1 << 3 | 1 && time <= now && time > now - 600.0, "{time}");
        assert!(bytes[..50].windows(13).any(|part| part == b"brain.Event:2"));
    }
    let log = RunLog::open(&dir).unwrap();
    assert_eq!((log.origin, &*log.name), (Origin::Isentrope, "mine"));
    let series = |name: &str| {
        let series = log.series(name).unwrap();
        (series.steps.clone(), series.values.clone())
    };
    let entropies = vec![f64::from(0.31f32); 4];
    assert_eq!(series("policy/entropy"), (vec![1, 2, 3, 4], entropies), "finite ones alone");
    let steps = vec![1, 2, 3, 4, 5, 1 << 40];
    assert_eq!(series("grad/norm"), (steps.clone(), vec![1.5, 2.5, 3.5, 4.5, 5.5, 7.5]));
    assert_eq!(series(&long), (steps, vec![f64::from(-1e-7f32); 6]));
    assert!(log.notes.is_empty(), "{:?}", log.notes);
}

#[test]
fn each_start_has_a_file_that_comes_after_the_others() {
    let dir = tempdir().unwrap();
    let mut known = Vec::new();
    for last_step in [7, 3, 200] {
        TensorBoardSink::resume(dir.path(), last_step).unwrap();
        let files = files(dir.path());
        assert_eq!(files[..known.len()], known);
        assert_eq!(files.len(), known.len() + 1);
        known = files;
    }
}

const READER: &str = r#"
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
accumulator = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
accumulator.Reload()
for tag in accumulator.Tags()["scalars"]:
    for event in accumulator.Scalars(tag):
        print(tag, event.step, repr(event.value))
"#;

#[test]
#[ignore = "needs ISENTROPE_TEST_PYTHON, a Python with tensorboard"]
fn tensorboard_reads_the_same() {
    let python =
        std::env::var_os("ISENTROPE_TEST_PYTHON").expect("ISENTROPE_TEST_PYTHON names a Python");
    let dir = tempdir().unwrap();
    let row = |step: u64, run: u64| {
        let entropy = 1.0 / (step + 10 * run) as f64;
        metrics(&[("policy/entropy", entropy), ("eval/math/mean@8", step as f64)])
    };
    let mut sink = TensorBoardSink::create(dir.path()).unwrap();
    for step in 1..=6 {
        sink.write(step, &row(step, 0)).unwrap();
    }
    // Killed within a record, and resumed from the checkpoint of step 4.
    let first = files(dir.path()).remove(0);
    let len = fs::metadata(&first).unwrap().len();
    fs::File::options().write(true).open(&first).unwrap().set_len(len - 5).unwrap();
    let mut sink = TensorBoardSink::resume(dir.path(), 4).unwrap();
    for step in 5..=8 {
        sink.write(step, &row(step, 1)).unwrap();
    }

    let output = Command::new(python).args(["-c", READER]).arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found: Vec<(String, u64, f64)> =
        String::from_utf8(output.stdout).unwrap().lines().map(read_line).collect();
    found.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let mut expected = Vec::new();
    for step in 1..=8 {
        for (tag, value) in row(step, u64::from(step > 4)).iter() {
            expected.push((tag.to_owned(), step, f64::from(value as f32)));
        }
    }
    expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert_eq!(found, expected);
}

fn read_line(line: &str) -> (String, u64, f64) {
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap();
    (next().to_owned(), next().parse().unwrap(), next().parse().unwrap())
}

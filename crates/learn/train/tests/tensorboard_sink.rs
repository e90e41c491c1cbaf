//! TensorBoard's event files, read by a small reader of their format and by TensorBoard itself.

use isentrope_lab::log::{Origin, RunLog};
use isentrope_train::metrics::Metrics;
use isentrope_train::run::sinks::TensorBoardSink;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::tempdir;

/// An event, as far as the sink writes them.
#[derive(Debug, Default, PartialEq)]
struct Event {
    wall_time: f64,
    step: u64,
    version: Option<String>,
    session_status: Option<u64>,
    values: Vec<(String, f32)>,
}

/// A protobuf field's value.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(self) -> u64 {
        let Self::Number(number) = self else { panic!("not a number") };
        number
    }

    fn bytes(self) -> &'a [u8] {
        let Self::Bytes(bytes) = self else { panic!("not bytes") };
        bytes
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(len);
    *bytes = rest;
    taken
}

fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = take_varint(&mut bytes);
        let value = match key & 7 {
            0 => Field::Number(take_varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let len = take_varint(&mut bytes) as usize;
                Field::Bytes(take(&mut bytes, len))
            }
            5 => Field::Number(u32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap()).into()),
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn event(bytes: &[u8]) -> Event {
    let mut event = Event::default();
    for (number, field) in fields(bytes) {
        match number {
            1 => event.wall_time = f64::from_bits(field.number()),
            2 => event.step = field.number(),
            3 => event.version = Some(field.text()),
            5 => {
                event.values = fields(field.bytes())
                    .into_iter()
                    .map(|(_, value)| summary_value(value))
                    .collect();
            }
            7 => {
                for (number, field) in fields(field.bytes()) {
                    assert_eq!(number, 1);
                    event.session_status = Some(field.number());
                }
            }
            other => panic!("event field {other}"),
        }
    }
    event
}

fn summary_value(field: Field<'_>) -> (String, f32) {
    let mut value = (String::new(), f32::NAN);
    for (number, field) in fields(field.bytes()) {
        match number {
            1 => value.0 = field.text(),
            2 => value.1 = f32::from_bits(field.number() as u32),
            other => panic!("value field {other}"),
        }
    }
    value
}

/// CRC-32C bit by bit: the reflected polynomial of RFC 3720.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn events(file: &Path) -> Vec<Event> {
    let bytes = fs::read(file).unwrap();
    let mut rest = &bytes[..];
    let mut events = Vec::new();
    while !rest.is_empty() {
        let mut checked = |len| {
            let bytes = take(&mut rest, len);
            let crc = u32::from_le_bytes(take(&mut rest, 4).try_into().unwrap());
            assert_eq!(crc, masked(crc32c(bytes)));
            bytes
        };
        let len = u64::from_le_bytes(checked(8).try_into().unwrap());
        events.push(event(checked(len as usize)));
    }
    events
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn metrics(pairs: &[(&str, f64)]) -> Metrics {
    let mut metrics = Metrics::default();
    for (name, value) in pairs {
        metrics.set(*name, *value);
    }
    metrics
}

#[test]
fn the_readers_checksum_is_crc32c() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn events_are_written_as_read() {
    let dir = tempdir().unwrap();
    let dir = dir.path().join("tensorboard");
    let mut sink = TensorBoardSink::create(&dir).unwrap();
    let long = "x/".repeat(100);
    sink.write(1, &metrics(&[("policy/entropy", 0.31), (&long, -1e-7)])).unwrap();
    sink.write(1 << 40, &metrics(&[("é", f64::NAN)])).unwrap();
    let files = files(&dir);
    let name = files[0].file_name().unwrap().to_str().unwrap();
    let parts: Vec<_> = name.strip_prefix("events.out.tfevents.").unwrap().split('.').collect();
    assert!(
        parts.len() == 3 && parts[0].len() == 10 && parts[2] == std::process::id().to_string(),
        "{name}"
    );

    let events = events(&files[0]);
    assert_eq!(events.len(), 3);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!(events.iter().all(|event| event.wall_time <= now && event.wall_time > now - 600.0));
    assert_eq!((events[0].step, events[0].version.as_deref()), (0, Some("brain.Event:2")));
    assert_eq!(events[1].step, 1);
    assert_eq!(events[1].values, [("policy/entropy".to_owned(), 0.31), (long, -1e-7)]);
    assert_eq!((events[2].step, &*events[2].values[0].0), (1 << 40, "é"));
    assert!(events[2].values[0].1.is_nan());
}

#[test]
fn resumed_run_has_a_later_file_that_starts_a_session_after_the_checkpoint() {
    let dir = tempdir().unwrap();
    for last_step in [7, 3, 200] {
        TensorBoardSink::resume(dir.path(), last_step).unwrap();
        let files = files(dir.path());
        let events = events(files.last().unwrap());
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].version.as_deref(), Some("brain.Event:2"));
        assert_eq!((events[1].step, events[1].session_status), (last_step + 1, Some(1)));
    }
    assert_eq!(files(dir.path()).len(), 3);
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
        metrics(&[
            ("policy/entropy", 1.0 / (step + 10 * run) as f64),
            ("eval/math/mean@8", step as f64),
        ])
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
    let mut found =
        String::from_utf8(output.stdout).unwrap().lines().map(read_line).collect::<Vec<_>>();
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

#[test]
fn the_laboratory_reads_a_resumed_run() {
    let dir = tempdir().unwrap();
    let dir = dir.path().join("mine/tensorboard");
    let row = |step: u64, value: f64| {
        metrics(&[("policy/entropy", value), ("grad/norm", 0.5 + step as f64)])
    };
    let mut sink = TensorBoardSink::create(&dir).unwrap();
    for step in 1..=6 {
        sink.write(step, &row(step, 1.0)).unwrap();
    }
    let mut sink = TensorBoardSink::resume(&dir, 4).unwrap();
    sink.write(5, &row(5, f64::NAN)).unwrap();
    let log = RunLog::open(&dir).unwrap();
    assert_eq!((log.origin, &*log.name), (Origin::Isentrope, "mine"));
    assert_eq!(
        log.series("policy/entropy").unwrap().steps,
        [1, 2, 3, 4],
        "what is not finite is no measurement"
    );
    assert_eq!(log.series("grad/norm").unwrap().values, [1.5, 2.5, 3.5, 4.5, 5.5]);
    assert!(log.notes.is_empty(), "{:?}", log.notes);
}

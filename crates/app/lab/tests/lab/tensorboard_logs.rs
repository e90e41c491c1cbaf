//! Event files that were resumed, cut off or damaged.

use crate::json_logs::points;
use isentrope_files::masked_crc;
use isentrope_lab::log::RunLog;
use std::fs;
use std::path::Path;

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// A record of an event with one field more than its step, which is below 128.
fn record(step: u8, what: &[u8]) -> Vec<u8> {
    let event = [&[2 << 3, step], what].concat();
    let length = (event.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length).to_le_bytes(), &event, &masked_crc(&event).to_le_bytes()]
        .concat()
}

fn scalar(step: u8, tag: &str, value: f32) -> Vec<u8> {
    let value = [field(1, tag.as_bytes()), vec![2 << 3 | 5], value.to_le_bytes().to_vec()].concat();
    record(step, &field(5, &field(1, &value)))
}

/// The writer begins anew at a step.
fn start(step: u8) -> Vec<u8> {
    record(step, &field(7, &[1 << 3, 1]))
}

fn write(dir: &Path, name: &str, records: &[Vec<u8>]) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join(format!("events.out.tfevents.{name}")), records.concat()).unwrap();
}

#[test]
fn later_files_win_and_a_start_forgets_what_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let both = |step, value| [scalar(step, "a", value), scalar(step, "eval", value)].concat();
    write(&run, "1000000001.host.1", &(1..=9).map(|step| both(step, 1.0)).collect::<Vec<_>>());
    // This one says that it begins at step 5; "eval" is only measured at 5 since.
    write(&run, "1000000002.host.2", &[start(5), both(5, 2.0), scalar(6, "a", 2.0)]);
    let log = RunLog::open(&run).unwrap();
    assert_eq!(points(&log, "a"), [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0), (5, 2.0), (6, 2.0)]);
    assert_eq!(log.series("eval").unwrap().steps, [1, 2, 3, 4, 5]);
    assert!(log.notes.is_empty(), "{:?}", log.notes);
    // This one does not say it.
    write(&run, "1000000003.host.3", &[scalar(4, "a", 3.0)]);
    let log = RunLog::open(&run).unwrap();
    assert_eq!(points(&log, "a")[2..], [(3, 1.0), (4, 3.0)]);
    assert!(log.notes[0].contains("step 4 is there more than once"), "{:?}", log.notes);
}

#[test]
fn every_cut_of_a_live_file_is_read_up_to_its_last_whole_record() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (scalar(1, "a", 1.0), scalar(2, "a", 2.0));
    for cut in 0..second.len() {
        write(dir.path(), "1", &[first.clone(), second[..cut].to_vec()]);
        let log = RunLog::open(dir.path()).unwrap();
        assert_eq!(points(&log, "a"), [(1, 1.0)], "{cut}");
        assert_eq!(log.notes.len(), usize::from(cut > 0), "{:?}", log.notes);
    }
    write(dir.path(), "1", &[first, vec![0; 100]]);
    let log = RunLog::open(dir.path()).unwrap();
    assert!(log.notes[0].contains("record 2 is cut off"), "{:?}", log.notes);
}

#[test]
fn damage_is_named_by_record() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = |at: usize| {
        let mut record = scalar(2, "a", 2.0);
        record[at] ^= 1;
        record
    };
    for (record, what) in [
        (damaged(0), "record 2: the checksum of its length is wrong"),
        (damaged(14), "record 2: its checksum is wrong"),
        (record(2, &[5 << 3 | 2, 100]), "record 2: not an event"),
        (record(2, &[7]), "record 2: not an event"),
        (record(2, &[5 << 3, 1]), "record 2: not an event"), // a summary that is a number
        (record(2, &field(5, &field(1, &field(1, b"\xff")))), "record 2: not an event"),
    ] {
        write(dir.path(), "1", &[scalar(1, "a", 1.0), record, scalar(3, "a", 3.0)]);
        let error = RunLog::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("tfevents.1: ") && error.contains(what), "{error}");
    }
}

/// A restart that makes void what was written looks at all names.
#[test]
fn restarts_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let again = [scalar(1, "a", 1.0), start(1)].concat();
    write(dir.path(), "1", &vec![again.clone(); 10_000]);
    assert_eq!(RunLog::open(dir.path()).unwrap().all().count(), 0);
    write(dir.path(), "1", &vec![again; 10_001]);
    let error = RunLog::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("record 20002: more than 10000 restarts"), "{error}");
}

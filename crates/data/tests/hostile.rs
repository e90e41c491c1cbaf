//! Data files that were made to do harm: a few thousand bytes that stand for more than memory holds, and what is no file.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use isentrope_data::{DataSettings, Report, Source};
use isentrope_reward::VerifierSettings;
use parquet::basic::{Compression as Packing, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::json;
use tempfile::TempDir;

/// What becomes of a file, which must not take long.
fn open(path: &Path) -> Result<Report, String> {
    let begun = Instant::now();
    let settings = DataSettings { files: vec![path.to_owned()], shuffle: false, ..DataSettings::default() };
    let opened = Source::open(&settings, 1, &VerifierSettings::default());
    assert!(begun.elapsed() < Duration::from_secs(20), "{}: {:?}", path.display(), begun.elapsed());
    opened.map(|(_, report)| report).map_err(|e| e.to_string())
}

fn refused(path: &Path, parts: &[&str]) {
    let error = open(path).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}

/// A parquet file of one row group, whose columns `write` fills one after the other; pages may be as large as they get.
fn parquet(
    directory: &TempDir,
    schema: &str,
    write: &mut dyn FnMut(usize, &mut SerializedColumnWriter<'_>),
) -> PathBuf {
    let path = directory.path().join("a.parquet");
    let properties = WriterProperties::builder()
        .set_compression(Packing::ZSTD(ZstdLevel::default()))
        .set_dictionary_page_size_limit(usize::MAX)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(1 << 20);
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(File::create(&path).unwrap(), schema, Arc::new(properties.build()))
            .unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut number = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        write(number, &mut column);
        column.close().unwrap();
        number += 1;
    }
    group.close().unwrap();
    writer.close().unwrap();
    path
}

const TEXTS: &str = "message rows { required binary prompt (UTF8); required binary answer (UTF8); }";

fn texts(column: &mut SerializedColumnWriter<'_>, values: &[ByteArray]) {
    column.typed::<ByteArrayType>().write_batch(values, None, None).unwrap();
}

#[test]
fn a_value_that_unfolds_is_refused_before_it_is_unpacked() {
    let directory = TempDir::new().unwrap();
    let path = parquet(&directory, TEXTS, &mut |_, column| {
        texts(column, &[ByteArray::from(vec![b'a'; 200 << 20])]);
    });
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    refused(&path, &["a.parquet", "a page of column prompt unfolds", "200 MiB"]);
}

#[test]
fn a_long_text_that_a_dictionary_repeats_is_refused() {
    let directory = TempDir::new().unwrap();
    let long = ByteArray::from(vec![b'a'; 8 << 20]);
    let path = parquet(&directory, TEXTS, &mut |_, column| texts(column, &vec![long.clone(); 200]));
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    refused(&path, &["a.parquet", "unfold into more than"]);

    // The same within one row, as the messages of its prompt.
    let schema =
        "message rows { required group prompt (LIST) { repeated group list { required group element {
                  required binary content (UTF8); } } } required binary answer (UTF8); }";
    let path = parquet(&directory, schema, &mut |number, column| match number {
        0 => {
            let repetitions: Vec<i16> = (0..200).map(|value| i16::from(value > 0)).collect();
            let (values, definitions) = (vec![long.clone(); 200], vec![1i16; 200]);
            let mut column =
                column.typed::<ByteArrayType>().write_batch(&values, Some(&definitions), Some(&repetitions));
            column.as_mut().unwrap();
        }
        _ => texts(column, &[ByteArray::from("1")]),
    });
    refused(&path, &["a.parquet", "unfold into more than"]);
}

#[test]
fn more_rows_than_bytes_can_hold_are_refused() {
    let directory = TempDir::new().unwrap();
    let schema = "message rows { optional binary prompt (UTF8); }";
    let nulls = |count: usize| {
        parquet(&directory, schema, &mut |_, column| {
            column.typed::<ByteArrayType>().write_batch(&[], Some(&vec![0; count]), None).unwrap();
        })
    };
    let path = nulls(20_000_000);
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    refused(&path, &["a.parquet", "it claims 20000000 rows"]);
    // Fewer are read, all of them bad, and not each is kept to be told of.
    refused(&nulls(100_000), &["no row can be used", "row 1: column prompt is null"]);

    let schema = "message rows { required group prompt (LIST) { repeated group list { optional binary element (UTF8); } } }";
    let path = parquet(&directory, schema, &mut |_, column| {
        let repetitions: Vec<i16> = (0..20_000_000).map(|value| i16::from(value > 0)).collect();
        let definitions = vec![1i16; repetitions.len()];
        column.typed::<ByteArrayType>().write_batch(&[], Some(&definitions), Some(&repetitions)).unwrap();
    });
    refused(&path, &["the lists of column prompt.list.element have 20000000 values"]);
}

#[test]
fn dates_beyond_the_calendar_make_bad_rows() {
    let directory = TempDir::new().unwrap();
    let schema =
        "message rows { required binary prompt (UTF8); required group extra_info { required int32 day (DATE);
                  required int64 millis (TIMESTAMP_MILLIS); required int64 micros (TIMESTAMP_MICROS); }
                  required int32 answer (DATE); }";
    let (days, times) = ([19_000, i32::MAX, 0, 0, 0], [0, 0, i64::MIN, 0, i64::MAX / 1000]);
    let path = parquet(&directory, schema, &mut |number, column| match number {
        0 => texts(column, &["a", "b", "c", "d", "e"].map(ByteArray::from)),
        1 => drop(column.typed::<Int32Type>().write_batch(&days, None, None).unwrap()),
        2 => drop(column.typed::<Int64Type>().write_batch(&times, None, None).unwrap()),
        3 => drop(column.typed::<Int64Type>().write_batch(&[0, 0, 0, i64::MAX, 0], None, None).unwrap()),
        _ => drop(column.typed::<Int32Type>().write_batch(&[19_000, 0, 0, 0, i32::MIN], None, None).unwrap()),
    });
    let report = open(&path).unwrap();
    assert_eq!((report.rows, report.usable), (5, 1));
    for (finding, column) in
        report.bad.first().iter().zip(["extra_info", "extra_info", "extra_info", "extra_info"])
    {
        assert!(
            finding.problem.contains(column) && finding.problem.contains("beyond the year 9999"),
            "{finding:?}"
        );
    }
}

/// A file with nothing but a description of itself: a schema of so many groups, each in the one before.
fn nested(depth: usize) -> Vec<u8> {
    let mut footer = vec![0x29, 0xfc]; // field 2, a list of structs
    let mut len = depth;
    while len >= 0x80 {
        footer.push(len as u8 | 0x80);
        len >>= 7;
    }
    footer.push(len as u8);
    for _ in 0..depth {
        footer.extend([0x35, 0x00, 0x18, 0x01, b'a', 0x15, 0x02, 0x00]); // required, named a, one child
    }
    footer.push(0x00);
    let len = (footer.len() as u32).to_le_bytes();
    [b"PAR1", &footer[..], &len, b"PAR1"].concat()
}

#[test]
fn columns_that_are_nested_without_end_are_refused() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("deep.parquet");
    for depth in [100, 1_000_000] {
        fs::write(&path, nested(depth)).unwrap();
        refused(&path, &["its columns are nested more than 64 deep"]);
    }
    fs::write(&path, nested(20)).unwrap();
    assert!(!open(&path).unwrap_err().contains("nested"), "the reader of the format says what is missing");
}

#[test]
fn files_that_unpack_without_end_are_refused() {
    let directory = TempDir::new().unwrap();
    let blank = vec![b' '; 1 << 20];
    let gzip = |name: &str, mebibytes: usize, end: &[u8]| {
        let path = directory.path().join(name);
        let mut encoder = GzEncoder::new(File::create(&path).unwrap(), Compression::best());
        (0..mebibytes).for_each(|_| encoder.write_all(&blank).unwrap());
        encoder.write_all(end).unwrap();
        encoder.finish().unwrap();
        path
    };
    let zstandard = |name: &str| {
        let path = directory.path().join(name);
        let mut encoder = zstd::Encoder::new(File::create(&path).unwrap(), 1).unwrap();
        (0..200).for_each(|_| encoder.write_all(&blank).unwrap());
        encoder.finish().unwrap();
        path
    };
    let row = json!({"prompt": "1+1?", "answer": "2"}).to_string();
    for path in [
        gzip("a.jsonl.gz", 400, row.as_bytes()),
        gzip("a.json.gz", 400, row.as_bytes()),
        zstandard("a.jsonl.zst"),
        zstandard("a.json.zst"),
    ] {
        assert!(fs::metadata(&path).unwrap().len() < 1 << 20);
        refused(&path, &["bytes unfold into more than"]);
    }
    // Well below the limit, and a line that is too long is but a bad row.
    let good = format!("\n{row}\n");
    assert_eq!(open(&gzip("b.jsonl.gz", 40, good.as_bytes())).unwrap().usable, 1);
    let cut = gzip("c.jsonl.gz", 0, good.as_bytes());
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 12]).unwrap();
    refused(&cut, &["c.jsonl.gz", "cannot be read"]);
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused_by_name() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let made = std::process::Command::new("mkfifo").arg(path("fifo.jsonl")).status().unwrap();
    assert!(made.success());
    symlink(path("fifo.jsonl"), path("link.parquet")).unwrap();
    symlink("/dev/zero", path("zero.jsonl")).unwrap();
    symlink("/no/such/file", path("dangling.jsonl")).unwrap();
    let _socket = UnixListener::bind(path("socket.json")).unwrap();
    fs::create_dir(path("directory.jsonl")).unwrap();
    for (name, what) in [
        ("fifo.jsonl", "is a pipe (FIFO), not a regular file"),
        ("link.parquet", "is a pipe (FIFO), not a regular file"),
        ("zero.jsonl", "is a device, not a regular file"),
        ("socket.json", "is a socket, not a regular file"),
        ("directory.jsonl", "is a directory, not a regular file"),
        ("dangling.jsonl", "leads by a link to /no/such/file, which is not there"),
    ] {
        refused(&path(name), &[name, what]);
    }
}

//! Hostile data files: a few thousand bytes that unpack to more than the memory, and paths that are
//! no regular files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use isentrope_data::{DataSettings, Report, Source};
use isentrope_reward::VerifierSettings;
use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedColumnWriter;
use serde_json::json;
use tempfile::TempDir;

use crate::parquet_by_hand::{self as by_hand, Column, GZIP, PLAIN};
use crate::parquet_files::{self, texts};

/// Opens a file, which must not take long.
fn open(path: &Path) -> Result<Report, String> {
    let begun = Instant::now();
    let settings =
        DataSettings { files: vec![path.to_owned()], shuffle: false, ..DataSettings::default() };
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

/// A parquet file of packed pages of any size.
fn parquet(
    directory: &TempDir,
    schema: &str,
    write: &mut dyn FnMut(usize, &mut SerializedColumnWriter<'_>),
) -> PathBuf {
    let path = directory.path().join("a.parquet");
    parquet_files::parquet(&path, schema, parquet_files::large_pages(), write)
}

const TEXTS: &str =
    "message rows { required binary prompt (UTF8); required binary answer (UTF8); }";

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
#[ignore = "deep: unpacks files to their limits"]
fn a_long_text_that_a_dictionary_repeats_is_refused() {
    let directory = TempDir::new().unwrap();
    let long = ByteArray::from(vec![b'a'; 8 << 20]);
    let path = parquet(&directory, TEXTS, &mut |_, column| texts(column, &vec![long.clone(); 200]));
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    refused(&path, &["a.parquet", "unfold into more than"]);

    // The text repeats within one row, as the messages of its prompt.
    let schema =
        "message rows { required group prompt (LIST) { repeated group list { required group element {
                  required binary content (UTF8); } } } required binary answer (UTF8); }";
    let path = parquet(&directory, schema, &mut |number, column| match number {
        0 => {
            let repetitions: Vec<i16> = (0..200).map(|value| i16::from(value > 0)).collect();
            let (values, definitions) = (vec![long.clone(); 200], vec![1i16; 200]);
            let mut column = column.typed::<ByteArrayType>().write_batch(
                &values,
                Some(&definitions),
                Some(&repetitions),
            );
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
    // Fewer rows are read. All are bad, and only the first are kept for the report.
    refused(&nulls(100_000), &["no row can be used", "row 1: column prompt is null"]);

    let schema = "message rows { required group prompt (LIST) { repeated group list { optional binary element (UTF8); } } }";
    let path = parquet(&directory, schema, &mut |_, column| {
        let repetitions: Vec<i16> = (0..20_000_000).map(|value| i16::from(value > 0)).collect();
        let definitions = vec![1i16; repetitions.len()];
        column
            .typed::<ByteArrayType>()
            .write_batch(&[], Some(&definitions), Some(&repetitions))
            .unwrap();
    });
    refused(&path, &["its lists, with column prompt.list.element, have 20000000 values"]);
}

#[test]
fn dates_beyond_the_calendar_make_bad_rows() {
    let directory = TempDir::new().unwrap();
    let schema =
        "message rows { required binary prompt (UTF8); required group extra_info { required int32 day (DATE);
                  required int64 millis (TIMESTAMP_MILLIS); required int64 micros (TIMESTAMP_MICROS); }
                  required int32 answer (DATE); }";
    let path = parquet(&directory, schema, &mut |number, column| {
        let mut days = |days: &[i32]| {
            column.typed::<Int32Type>().write_batch(days, None, None).unwrap();
        };
        match number {
            1 => days(&[19_000, i32::MAX, 0, 0, 0]),
            4 => days(&[19_000, 0, 0, 0, i32::MIN]),
            0 => texts(column, &["a", "b", "c", "d", "e"].map(ByteArray::from)),
            number => {
                let times = match number {
                    2 => [0, 0, i64::MIN, 0, i64::MAX / 1000],
                    _ => [0, 0, 0, i64::MAX, 0],
                };
                column.typed::<Int64Type>().write_batch(&times, None, None).unwrap();
            }
        }
    });
    let report = open(&path).unwrap();
    assert_eq!((report.rows, report.usable), (5, 1));
    for finding in report.bad.first() {
        let is_told = finding.problem.contains("beyond the year 9999");
        assert!(is_told && finding.problem.contains("extra_info"), "{finding:?}");
    }
}

/// A file with only a footer: a schema of `depth` nested groups.
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
    assert!(
        !open(&path).unwrap_err().contains("nested"),
        "the reader of the format says what is missing"
    );
}

#[test]
#[ignore = "deep: unpacks files to their limits"]
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
    // Well below the limit, and a line that is too long is only a bad row.
    let good = format!("\n{row}\n");
    assert_eq!(open(&gzip("b.jsonl.gz", 40, good.as_bytes())).unwrap().usable, 1);
    let cut = gzip("c.jsonl.gz", 0, good.as_bytes());
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 12]).unwrap();
    refused(&cut, &["c.jsonl.gz", "cannot be read"]);
}

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
        ("directory.jsonl", "is a directory; name its files"),
        ("dangling.jsonl", "leads by a link to /no/such/file, which is not there"),
    ] {
        refused(&path(name), &[name, what]);
    }
}

/// Names the file that a test reads in a process of its own with little memory.
const FILE: &str = "ISENTROPE_HOSTILE_FILE";

/// Opens a file in a process with a GiB of memory, less than the file asks for. That process runs
/// the test of this name again.
#[allow(clippy::print_stdout, reason = "how the process tells the test")]
fn told_in_little_memory(test: &str, path: &dyn Fn() -> PathBuf) -> String {
    use std::process::{Command, exit};
    if let Some(path) = std::env::var_os(FILE) {
        // A mark, as the output of the test harness differs.
        println!("told: {:?}", open(Path::new(&path)));
        exit(0);
    }
    let path = path();
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 1048576; exec \"$0\" \"hostile::$1\" --exact --include-ignored --nocapture \
             --test-threads 1",
        ])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env("TMPDIR", path.parent().unwrap()) // it leaves its own directories behind
        .env(FILE, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("told: "),
        "{}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// A file with one column of texts.
fn column_of_texts(codec: i64, dictionary: Vec<u8>, data: Vec<u8>, groups: usize) -> Vec<u8> {
    let column =
        Column { path: vec!["prompt".into()], kind: 6, codec, values: 1, dictionary, data };
    by_hand::file(&[by_hand::group("rows", 0, 1), by_hand::leaf("prompt", 6, 0)], &[column], groups)
}

#[test]
fn numbers_inside_of_a_page_make_no_room() {
    let directory = TempDir::new().unwrap();
    for (encoding, name) in [(6, "DELTA_LENGTH_BYTE_ARRAY"), (7, "DELTA_BYTE_ARRAY")] {
        let path = || {
            let page = [
                by_hand::varint(128),
                by_hand::varint(4),
                by_hand::varint(1_000_000_000_000),
                vec![0],
            ];
            let page = by_hand::data_page(&page.concat(), page.concat().len(), 1, encoding);
            let path = directory.path().join("delta.parquet");
            fs::write(&path, column_of_texts(PLAIN, Vec::new(), page, 1)).unwrap();
            path
        };
        let told = told_in_little_memory("numbers_inside_of_a_page_make_no_room", &path);
        // The child process ends after the first file.
        assert!(told.contains(&format!("column prompt has the encoding {name}")), "{told}");
    }
}

#[test]
fn encodings_that_make_no_room_are_read() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.parquet");
    let schema = "message rows { required binary prompt (UTF8); required int32 answer; }";
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding("answer".into(), Encoding::DELTA_BINARY_PACKED);
    parquet_files::parquet(&path, schema, properties, |number, column| match number {
        0 => texts(column, &["a", "b"].map(ByteArray::from)),
        _ => drop(column.typed::<Int32Type>().write_batch(&[5, 7], None, None).unwrap()),
    });
    assert_eq!(open(&path).unwrap().usable, 2);
}

#[test]
fn a_dictionary_has_no_more_values_than_its_page() {
    let directory = TempDir::new().unwrap();
    let blank = vec![0; 32 << 20];
    let packed = by_hand::gzip(&blank);
    let ids = by_hand::gzip(&[1, 2, 0]);
    for values in [8 * blank.len(), blank.len() / 4] {
        let path = || {
            let path = directory.path().join("dictionary.parquet");
            let dictionary = by_hand::dictionary_page(&packed, blank.len(), values as i64);
            let data = by_hand::data_page(&ids, 3, 1, 8);
            fs::write(&path, column_of_texts(GZIP, dictionary, data, 1)).unwrap();
            path
        };
        let told = told_in_little_memory("a_dictionary_has_no_more_values_than_its_page", &path);
        assert!(
            told.contains(&format!("the dictionary of column prompt claims {values} values")),
            "{told}"
        );
    }
}

#[test]
fn pages_are_counted_together() {
    let directory = TempDir::new().unwrap();
    let write = |bytes: Vec<u8>| {
        let path = directory.path().join("many.parquet");
        fs::write(&path, bytes).unwrap();
        path
    };
    // Two thousand row groups of the same bytes.
    let page = by_hand::data_page(b"\x01\0\0\0a", 5, 1, 0);
    refused(
        &write(column_of_texts(PLAIN, Vec::new(), [&page[..], &[0; 100_000]].concat(), 2000)),
        &["its columns claim more bytes than it has"],
    );
    // Pages that each unpack to the limit.
    let (blank, size) = (by_hand::gzip(&vec![0; 30 << 20]), 30 << 20);
    let pages = by_hand::data_page(&blank, size, 1, 0).repeat(6);
    refused(&write(column_of_texts(GZIP, Vec::new(), pages, 1)), &["unfold into more than"]);
    // A page that unfolds into more than it claims.
    let page = by_hand::data_page(&blank, 1000, 1, 0);
    refused(
        &write(column_of_texts(GZIP, Vec::new(), page, 1)),
        &["a page of column prompt unfolds into more than it claims"],
    );
}

#[test]
fn columns_are_counted_together() {
    let directory = TempDir::new().unwrap();
    let path = || {
        let (leaves, items) = (64, 1_000_000u64);
        let mut schema = vec![
            by_hand::group("rows", 0, 2),
            by_hand::leaf("prompt", 6, 0),
            by_hand::group("extra_info", 2, leaves),
        ];
        let texts = by_hand::data_page(b"\x01\0\0\0a", 5, 1, 0);
        let mut columns = vec![Column {
            path: vec!["prompt".into()],
            kind: 6,
            codec: PLAIN,
            values: 1,
            dictionary: Vec::new(),
            data: texts,
        }];
        // One item begins the row, then the others follow. None has a value.
        let run = |count: u64, level: u8| [by_hand::varint(count << 1), vec![level]].concat();
        let levels = |runs: &[Vec<u8>]| {
            let runs = runs.concat();
            [&(runs.len() as u32).to_le_bytes()[..], &runs].concat()
        };
        let page = [levels(&[run(1, 0), run(items - 1, 1)]), levels(&[run(items, 1)])].concat();
        for leaf in 0..leaves {
            let name = format!("f{leaf}");
            schema.push(by_hand::leaf(&name, 1, 1));
            columns.push(Column {
                path: vec!["extra_info".into(), name],
                kind: 1,
                codec: PLAIN,
                values: items as i64,
                dictionary: Vec::new(),
                data: by_hand::data_page(&page, page.len(), items as i64, 0),
            });
        }
        let path = directory.path().join("wide.parquet");
        fs::write(&path, by_hand::file(&schema, &columns, 1)).unwrap();
        path
    };
    let told = told_in_little_memory("columns_are_counted_together", &path);
    assert!(told.contains("its lists, with column extra_info.f1, have 2000000 values"), "{told}");
}

#[test]
fn names_that_every_column_repeats_are_refused() {
    let directory = TempDir::new().unwrap();
    let path = || {
        let mut schema =
            vec![by_hand::group("rows", 0, 1), by_hand::group(&"a".repeat(1 << 20), 0, 10_000)];
        schema.extend(vec![by_hand::leaf("b", 1, 0); 10_000]);
        let path = directory.path().join("names.parquet");
        fs::write(&path, by_hand::file(&schema, &[], 0)).unwrap();
        path
    };
    let told = told_in_little_memory("names_that_every_column_repeats_are_refused", &path);
    assert!(told.contains("the names of its columns come to"), "{told}");
}

#[test]
#[ignore = "deep: reads files to their limits"]
fn json_of_countless_small_values_is_refused() {
    let directory = TempDir::new().unwrap();
    let packed = |name: &str, texts: &[&str]| {
        let path = directory.path().join(name);
        fs::write(&path, by_hand::gzip(texts.concat().as_bytes())).unwrap();
        assert!(fs::metadata(&path).unwrap().len() < 200_000);
        path
    };
    let row = "{\"prompt\": \"a\", \"answer\": \"1\", \"extra_info\": [";
    let good = "{\"prompt\": \"a, [b] {c}\", \"answer\": \"1\"}\n";
    let test = "json_of_countless_small_values_is_refused";
    let files: [(&dyn Fn() -> PathBuf, &str); 5] = [
        (
            &|| packed("a.json.gz", &["{\"a\": [", &"0,".repeat(16_000_000), "0]}"]),
            "values and keys",
        ),
        (
            &|| packed("c.json.gz", &["{\"data\": [", &"{\"\":0},".repeat(4_000_000), "{}]}"]),
            "values and keys",
        ),
        (
            &|| packed("d.json.gz", &["[", row, &"[0],".repeat(8_000_000), "0]}, {}]"]),
            "values and keys",
        ),
        // Only the row is bad.
        (&|| packed("e.jsonl.gz", &[row, &"[0],".repeat(8_000_000), "0]}\n", good]), "usable: 1"),
        // Each row is small enough.
        (
            &|| {
                let rows =
                    format!("{row}{}0]}}\n", "[0],".repeat(100_000)).replace("\"a\"", "\"abc\"");
                let rows: String =
                    (100..199).map(|i| rows.replace("abc", &i.to_string())).collect();
                packed("f.jsonl.gz", &[&rows])
            },
            "unfold into more values",
        ),
    ];
    for (path, says) in files {
        let told = told_in_little_memory(test, path);
        assert!(told.contains(says), "{says:?} is not in: {told}");
    }
    // Signs within texts do not count.
    let text = format!("{{\"prompt\": \"{}\", \"answer\": \"1\"}}\n", ",[".repeat(2_000_000));
    assert_eq!(open(&packed("g.jsonl.gz", &[&text])).unwrap().usable, 1);
}

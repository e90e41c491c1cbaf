//! Equal rows in every format, found by every kind of place.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use isentrope_data::{Columns, DataSettings, Problem, Prompt, Source, Split};
use isentrope_reward::VerifierSettings;
use serde_json::{Value, json};
use tempfile::TempDir;

fn rows() -> Vec<Value> {
    (1..=3)
        .map(|i| json!({"question": format!("{i}+{i}?"), "answer": (2 * i).to_string()}))
        .collect()
}

fn problems(settings: &DataSettings) -> Vec<Problem> {
    let (mut source, _) = Source::open(settings, 1, &VerifierSettings::default()).unwrap();
    (0..source.len().unwrap() as u64).map(|position| source.problem(position)).collect()
}

fn settings(path: &Path) -> DataSettings {
    DataSettings { files: vec![path.to_owned()], shuffle: false, ..DataSettings::default() }
}

#[test]
fn every_format_gives_the_same_problems_and_has_a_hash() {
    let directory = TempDir::new().unwrap();
    let lines: String = rows().iter().map(|row| format!("{row}\n")).collect();
    let array = serde_json::to_string_pretty(&rows()).unwrap();
    let table = "question,answer\n1+1?,2\n2+2?,4\n3+3?,6\n".to_owned();
    let nested = json!({"data": rows()}).to_string();
    for (name, contents, unit) in [
        ("a.jsonl", &lines, "line"),
        ("b.json", &array, "item"),
        ("d.json", &nested, "row"),
        ("f.csv", &table, "row"),
        ("g.tsv", &table.replace(',', "\t"), "row"),
        ("e.json", &lines, "line"),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, contents).unwrap();
        let packed = directory.path().join(format!("{name}.gz"));
        let mut encoder = GzEncoder::new(File::create(&packed).unwrap(), Compression::default());
        encoder.write_all(contents.as_bytes()).unwrap();
        encoder.finish().unwrap();
        let frames = directory.path().join(format!("{name}.zst"));
        std::fs::write(&frames, zstd::encode_all(contents.as_bytes(), 3).unwrap()).unwrap();
        for path in [&path, &packed, &frames] {
            let found = problems(&settings(path));
            let texts: Vec<_> =
                found.iter().map(|problem| problem.prompt.question().unwrap()).collect();
            assert_eq!(texts, ["1+1?", "2+2?", "3+3?"], "{}", path.display());
            assert_eq!(found[2].ground_truth, "6");
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(found[2].origin, format!("{name} {unit} 3"));
            let (source, _) =
                Source::open(&settings(path), 1, &VerifierSettings::default()).unwrap();
            assert_eq!(source.files()[0].sha256, isentrope_files::sha256_of_file(path).unwrap());
        }
    }
}

#[test]
fn patterns_name_files_and_each_is_hashed() {
    let directory = TempDir::new().unwrap();
    for (number, row) in rows().iter().enumerate() {
        std::fs::write(directory.path().join(format!("part-{number}.jsonl")), row.to_string())
            .unwrap();
    }
    let pattern = settings(&directory.path().join("part-*.jsonl"));
    pattern.check().unwrap();
    assert_eq!(problems(&pattern).len(), 3);
    assert_eq!(pattern.found(Split::Train, &()).unwrap().files.len(), 3);
    let none = settings(&directory.path().join("*.parquet"));
    let error = Source::open(&none, 1, &VerifierSettings::default()).unwrap_err().to_string();
    assert!(error.contains("*.parquet: no file matches the pattern"), "{error}");
    // Places on the hub are set apart without a request.
    let both = DataSettings {
        files: vec!["openai/gsm8k".into(), pattern.files[0].clone()],
        ..pattern.clone()
    };
    assert_eq!(both.local().unwrap().files, pattern.files);
    let elsewhere = DataSettings { files: vec!["openai/gsm8k".into()], ..pattern };
    assert!(elsewhere.local().is_none());
}

/// Data sets of TRL's examples: a chat as the prompt, and a solution that is only an answer.
#[test]
fn chats_with_bare_solutions_are_problems() {
    let directory = TempDir::new().unwrap();
    let chat = |text: &str| json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]);
    let rows = [
        json!({"prompt": chat("a"), "solution": "$\\frac{2}{3}$"}),
        json!({"prompt": chat("b"), "solution": "$\\boxed{7}$"}),
        json!({"prompt": chat("c"), "solution": "12"}),
        json!({"prompt": chat("d"), "solution": "First we note that it is seven."}),
    ];
    let path = directory.path().join("a.jsonl");
    std::fs::write(&path, rows.map(|row| format!("{row}\n")).concat()).unwrap();
    let found = problems(&settings(&path));
    let truths: Vec<_> =
        found.iter().map(|problem| problem.ground_truth.as_str().unwrap()).collect();
    assert_eq!(truths, ["$\\frac{2}{3}$", "7", "12"]);
    assert!(matches!(&found[0].prompt, Prompt::Chat(messages) if messages.len() == 2));
    let columns = Columns { answer: Some("solution".into()), ..Columns::default() };
    let named = problems(&DataSettings { columns, ..settings(&path) });
    assert_eq!(named[1].ground_truth, "$\\boxed{7}$", "a named column is taken as it is");
    assert_eq!(named[3].ground_truth, "First we note that it is seven.");
}

//! Benchmarks and training sets in the layouts in which they are published.

use std::path::{Path, PathBuf};

use isentrope_data::benchmark::Benchmark;
use isentrope_data::{DataSettings, Problem, Prompt, Report, Source};
use isentrope_reward::{Item, Verdict, Verifier, VerifierName, VerifierSettings};
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/benchmarks").join(name)
}

fn read(benchmark: &str, file: &str) -> (Vec<Problem>, Report) {
    let benchmark = Benchmark::built_in(benchmark).unwrap();
    benchmark.problems(&[fixture(file)], usize::MAX, &VerifierSettings::default()).unwrap()
}

fn verdict(problem: &Problem, answer: &str) -> Verdict {
    let item = Item {
        ground_truth: &problem.ground_truth,
        prompt: problem.prompt.question().unwrap(),
        data_source: &problem.data_source,
        extra_info: &problem.extra_info,
        ..Item::default()
    };
    VerifierName::Math.verify(&item, &format!("It is \\boxed{{{answer}}}.")).verdict
}

#[test]
fn every_benchmark_is_read_and_asked_for_a_box() {
    for (benchmark, file, rows, first) in [
        ("aime24", "aime24.jsonl", 3, json!("204")),
        ("aime25", "aime-capital.jsonl", 1, json!(33)),
        ("amc", "amc23.jsonl", 3, json!(142.0)),
        ("math500", "math500.jsonl", 3, json!("\\left( 3, \\frac{\\pi}{2} \\right)")),
        ("minerva", "minerva.jsonl", 3, json!(["9.6\n"])),
        ("olympiadbench", "olympiadbench.jsonl", 3, json!(["2"])),
        ("olympiadbench", "olympiadbench-published.jsonl", 1, json!(["$\\frac{3}{2}$"])),
        ("omni-math", "omni-math.jsonl", 1, json!("55")),
        ("gsm8k", "gsm8k.jsonl", 2, json!("18")),
    ] {
        let (problems, _) = read(benchmark, file);
        assert_eq!((problems.len(), &problems[0].ground_truth), (rows, &first), "{file}");
        for problem in &problems {
            let question = problem.prompt.question().unwrap();
            assert!(question.ends_with("put your final answer within \\boxed{}."), "{question}");
            let answer = match &problem.ground_truth {
                Value::String(text) => text.clone(),
                Value::Array(accepted) => accepted[0].as_str().unwrap().to_owned(),
                other => other.to_string(),
            };
            assert_eq!(verdict(problem, answer.trim()), Verdict::Correct, "{answer} of {}", problem.origin);
            assert_eq!(verdict(problem, "-98765"), Verdict::Wrong, "{}", problem.origin);
        }
    }
    let (_, report) = read("olympiadbench", "olympiadbench-published.jsonl");
    assert!(report.bad.first()[0].problem.contains("column final_answer is null"), "{:?}", report.bad);
    assert_eq!(verdict(&read("gsm8k", "gsm8k.jsonl").0[1], "36000"), Verdict::Correct);
}

#[test]
fn an_instruction_that_is_there_is_not_given_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.jsonl");
    let asked = "1+1? Put it in \\boxed{}.";
    // The second problem quotes a box, which is no instruction.
    let rows = [
        json!({"problem": asked, "answer": "2"}),
        json!({"problem": "After \\boxed{1}, what?", "answer": "2"}),
    ];
    std::fs::write(&path, rows.map(|row| row.to_string()).join("\n")).unwrap();
    let benchmark = Benchmark::built_in("math500").unwrap();
    let (problems, _) = benchmark.problems(&[&path], 9, &VerifierSettings::default()).unwrap();
    assert_eq!(problems[0].prompt.question(), Some(asked));
    assert!(problems[1].prompt.question().unwrap().ends_with("\\boxed{}."));
    let (own, _) = Benchmark::own("mine").problems(&[&path], 1, &VerifierSettings::default()).unwrap();
    assert_eq!((own.len(), own[0].prompt.question()), (1, Some(asked)));
}

#[test]
fn dapo_is_read_once_per_problem() {
    let settings =
        DataSettings { files: vec![fixture("dapo.parquet")], shuffle: false, ..DataSettings::default() };
    let (mut source, report) = Source::open(&settings, 1, &VerifierSettings::default()).unwrap();
    assert_eq!((report.rows, report.usable, report.duplicates, report.conflicts.count()), (12, 3, 9, 0));
    let problem = source.problem(1);
    assert!(matches!(&problem.prompt, Prompt::Chat(messages) if messages.len() == 1));
    assert!(problem.prompt.question().unwrap().contains("Answer: $Answer"));
    assert_eq!((&problem.ground_truth, &problem.data_source[..]), (&json!("-3"), "math_dapo"));
    assert_eq!(verdict(&problem, "-3"), Verdict::Correct);
}

#[test]
fn eurus_has_code_that_is_left_out_of_mathematics_and_said() {
    let settings =
        DataSettings { files: vec![fixture("eurus.parquet")], shuffle: false, ..DataSettings::default() };
    for verifier in [VerifierName::Auto, VerifierName::Code] {
        let (mut source, report) = Source::open(&settings, 1, &verifier.into()).unwrap();
        let all = verifier == VerifierName::Auto;
        assert_eq!((report.rows, report.usable), (3, if all { 3 } else { 1 }));
        let code = source.problem(u64::from(all));
        assert!(code.ground_truth.as_str().unwrap().contains("\"inputs\""), "{code:?}");
    }
    let (mut source, report) = Source::open(&settings, 1, &VerifierName::Math.into()).unwrap();
    assert_eq!((report.rows, report.usable), (3, 2));
    assert_eq!(report.bad.first()[0].origin, "eurus.parquet row 2");
    assert!(report.bad.first()[0].problem.contains("the tests of a program"), "{:?}", report.bad);
    let problem = source.problem(0);
    assert!(matches!(&problem.prompt, Prompt::Chat(messages) if messages[0]["role"] == "system"));
    assert_eq!(&problem.data_source, "numina_olympiads");
    assert_eq!(verdict(&problem, "1.5"), Verdict::Correct);
    assert_eq!(problem.extra_info, json!({"index": 0, "split": "train"}));
}

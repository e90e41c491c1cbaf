//! Benchmarks and training sets in the layouts in which they are published.

use std::path::{Path, PathBuf};

use isentrope_data::benchmark::Benchmark;
use isentrope_data::{DataSettings, Problem, Prompt, Report, Source};
use isentrope_reward::Verdict::{Correct, Wrong};
use isentrope_reward::{Item, Verdict, VerifierName, VerifierSettings};
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
            assert_eq!(verdict(problem, answer.trim()), Correct, "{answer} of {}", problem.origin);
            assert_eq!(verdict(problem, "-98765"), Wrong, "{}", problem.origin);
        }
    }
    let (_, report) = read("olympiadbench", "olympiadbench-published.jsonl");
    assert!(
        report.bad.first()[0].problem.contains("column final_answer is null"),
        "{:?}",
        report.bad
    );
    assert_eq!(verdict(&read("gsm8k", "gsm8k.jsonl").0[1], "36000"), Correct);
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
    let (own, _) =
        Benchmark::own("mine").problems(&[&path], 1, &VerifierSettings::default()).unwrap();
    assert_eq!((own.len(), own[0].prompt.question()), (1, Some(asked)));
}

#[test]
fn dapo_is_read_once_per_problem() {
    let settings = DataSettings {
        files: vec![fixture("dapo.parquet")],
        shuffle: false,
        ..DataSettings::default()
    };
    let (mut source, report) = Source::open(&settings, 1, &VerifierSettings::default()).unwrap();
    assert_eq!(
        (report.rows, report.usable, report.duplicates, report.conflicts.count()),
        (12, 3, 9, 0)
    );
    let problem = source.problem(1);
    assert!(matches!(&problem.prompt, Prompt::Chat(messages) if messages.len() == 1));
    assert!(problem.prompt.question().unwrap().contains("Answer: $Answer"));
    assert_eq!((&problem.ground_truth, &problem.data_source[..]), (&json!("-3"), "math_dapo"));
    assert_eq!(verdict(&problem, "-3"), Correct);
}

#[test]
fn eurus_has_code_that_is_left_out_of_mathematics_and_said() {
    let settings = DataSettings {
        files: vec![fixture("eurus.parquet")],
        shuffle: false,
        ..DataSettings::default()
    };
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
    assert_eq!(verdict(&problem, "1.5"), Correct);
    assert_eq!(problem.extra_info, json!({"index": 0, "split": "train"}));
}

#[test]
fn tests_that_cannot_be_used_make_a_bad_row_and_no_mathematics() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mixed.jsonl");
    let broken = json!({"problem": "p", "tests": {"inputs": ["1"], "outputs": []}, "answer": "7"});
    let lacking = json!({"problem": "q"});
    let good = json!({"problem": "r", "answer": "7"});
    std::fs::write(&file, format!("{broken}\n{lacking}\n{good}\n")).unwrap();
    let settings = DataSettings { files: vec![file], shuffle: false, ..DataSettings::default() };
    let (_, report) = Source::open(&settings, 1, &VerifierName::Auto.into()).unwrap();
    assert_eq!((report.rows, report.usable), (3, 1));
    let problems: Vec<&str> = report.bad.first().iter().map(|bad| &bad.problem[..]).collect();
    assert_eq!(problems[0], "column tests: the tests have 1 inputs, but 0 outputs");
    assert!(
        problems[1].contains("nor tests of a program in one of tests, test_cases, input_output"),
        "{problems:?}"
    );
    let (_, report) = Source::open(&settings, 1, &VerifierName::Math.into()).unwrap();
    assert_eq!(report.usable, 2, "mathematics has no use for tests");
}

/// Problems of code. Any ground truth will do.
fn read_code(benchmark: &str, file: &str) -> (Vec<Problem>, Report) {
    let any: VerifierSettings = serde_json::from_value(json!({"command": ["any"]})).unwrap();
    Benchmark::built_in(benchmark).unwrap().problems(&[fixture(file)], usize::MAX, &any).unwrap()
}

/// The published rows, to compare with.
fn rows(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(fixture(file)).unwrap();
    serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect()
}

#[test]
fn human_eval_is_asked_in_words_or_by_its_beginning() {
    let rows = rows("humaneval.jsonl");
    let (asked, _) = read_code("HumanEval", "humaneval.jsonl");
    let (begun, _) = read_code("humaneval-completion", "humaneval.jsonl");
    assert_eq!((asked.len(), begun.len()), (2, 2));
    for ((asked, begun), row) in asked.iter().zip(&begun).zip(&rows) {
        let (prompt, test) = (row["prompt"].as_str().unwrap(), &row["test"]);
        assert_eq!(begun.prompt, Prompt::Beginning(prompt.into()));
        let question = asked.prompt.question().unwrap();
        assert!(
            question.starts_with("Please provide a self-contained Python script"),
            "{question}"
        );
        assert!(
            question.ends_with(&format!("block:\n```\n{}\n```\n", prompt.trim())),
            "{question}"
        );
        let truth = json!({"prompt": prompt, "entry_point": row["entry_point"], "test": test});
        assert_eq!((&asked.ground_truth, &begun.ground_truth), (&truth, &truth));
        assert_eq!(
            (&asked.data_source[..], &asked.extra_info["task_id"]),
            ("humaneval", &row["task_id"])
        );
    }
}

#[test]
fn mbpp_is_asked_with_its_assertions_and_for_its_test_tasks_alone() {
    let (problems, report) = read_code("mbpp", "mbpp.jsonl");
    assert_eq!((report.rows, report.usable, problems.len()), (3, 2, 2));
    let left_out = &report.bad.first()[0];
    assert_eq!(left_out.origin, "mbpp.jsonl line 1");
    assert_eq!(left_out.problem, "task 3 is not among those for evaluation, 11 to 510");
    assert_eq!(
        problems[0].prompt.question().unwrap(),
        "You are an expert Python programmer, and here is your task: Write a python function to count the vowels of a word. Your \
         code should pass these tests:\n\nassert vowels('seashore') == 4\nassert vowels('') == 0\n\
         assert vowels('rhythm') == 0\n\n\
         Put it in a markdown code block."
    );
    let setup = json!({"test_list": ["assert add(1) == [item + 1 for item in kept]"], "test_setup_code": "kept = [1, 2]"});
    assert_eq!(problems[1].ground_truth, setup);
    let (problems, _) = read_code("mbpp-sanitized", "mbpp-sanitized.json");
    assert!(
        problems[0]
            .prompt
            .question()
            .unwrap()
            .contains("your task: Write a function to halve a number. Your")
    );
    assert_eq!(problems[0].ground_truth["test_imports"], json!(["import math"]));
    assert_eq!(problems[0].data_source, "mbpp");
}

#[test]
fn live_code_bench_keeps_its_tests_as_they_are_published() {
    let rows = rows("livecodebench.jsonl");
    let (problems, _) = read_code("LiveCodeBench", "livecodebench.jsonl");
    let (first, second) =
        (problems[0].prompt.question().unwrap(), problems[1].prompt.question().unwrap());
    let before = "You are an expert Python programmer. You will be given a question (problem specification) and will generate a \
                  correct Python program that matches the specification and passes all tests.\n\n### Question:\nGiven are two";
    assert!(first.starts_with(before), "{first}");
    assert!(
        first.contains("3\n\n### Format: Read the inputs from stdin solve the problem"),
        "{first}"
    );
    assert!(first.contains(
        "\n```python\n# YOUR CODE HERE\n```\n\n### Answer: (use the provided format with backticks)\n\n"
    ));
    assert!(second.contains("### Format: You will use the following starter code"), "{second}");
    assert!(
        second.contains(
            "```python\nclass Solution:\n    def descending(self, numbers: List[int], limit"
        ),
        "{second}"
    );
    for (problem, row) in problems.iter().zip(&rows) {
        let keys = ["public_test_cases", "private_test_cases", "metadata"];
        assert_eq!(
            problem.ground_truth,
            keys.iter().map(|key| (*key, row[*key].clone())).collect::<Value>()
        );
        assert_eq!(problem.extra_info["contest_date"], "2025-01-11T00:00:00");
    }
    let sources: Vec<&str> = problems.iter().map(|problem| &*problem.data_source).collect();
    assert_eq!(sources, ["livecodebench-easy", "livecodebench-medium"]);
}

#[test]
fn leet_code_asks_its_query() {
    let rows = rows("leetcode.jsonl");
    let (problems, _) = read_code("LeetCode", "leetcode.jsonl");
    assert_eq!(problems[0].prompt.question(), rows[0]["query"].as_str());
    assert_eq!(problems[1].prompt.question(), rows[1]["meta"]["query"].as_str());
    let sources: Vec<&str> = problems.iter().map(|problem| &*problem.data_source).collect();
    assert_eq!(sources, ["leetcode-easy", "leetcode-medium"]);
    for (problem, row) in problems.iter().zip(&rows) {
        let keys = ["prompt", "entry_point", "test"];
        assert_eq!(
            problem.ground_truth,
            keys.iter().map(|key| (*key, row[*key].clone())).collect::<Value>()
        );
    }
}

#[test]
fn a_file_in_another_layout_is_explained() {
    let any: VerifierSettings = serde_json::from_value(json!({"command": ["any"]})).unwrap();
    let of = |benchmark: &str, file: &str| {
        let benchmark = Benchmark::built_in(benchmark).unwrap();
        benchmark.problems(&[fixture(file)], 5, &any).unwrap_err().to_string()
    };
    let error = of("leetcode", "humaneval.jsonl");
    assert!(
        error.contains("the first, humaneval.jsonl line 1: column query is missing"),
        "{error}"
    );
    let error = of("livecodebench", "gsm8k.jsonl");
    assert!(
        error.contains("question_content is missing; expected are: question_id, question_content"),
        "{error}"
    );
    let error = of("mbpp", "leetcode.jsonl");
    assert!(error.contains("column task_id is not a whole number"), "{error}");
}

/// A problem's tests may exceed the limit on other rows.
#[test]
fn large_tests_of_live_code_bench_are_read_and_only_as_many_rows_as_are_asked_for_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.jsonl");
    let mut row = rows("livecodebench.jsonl")[0].clone();
    row["private_test_cases"] = "x".repeat(33 << 20).into();
    std::fs::write(&path, format!("{row}\n").repeat(2)).unwrap();
    let any: VerifierSettings = serde_json::from_value(json!({"command": ["any"]})).unwrap();
    let benchmark = Benchmark::built_in("livecodebench").unwrap();
    let (problems, report) = benchmark.problems(&[&path], 1, &any).unwrap();
    assert_eq!((problems.len(), report.rows, report.usable, report.bad.count()), (1, 2, 2, 0));
    let error = Benchmark::built_in("humaneval")
        .unwrap()
        .problems(&[&path], 1, &any)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the line is longer than 32 MiB"), "{error}");
}

/// Right and wrong programs for the made-up problems, as models write them.
#[cfg(target_os = "linux")]
#[test]
fn programs_are_judged_by_the_tests_that_are_published() {
    let verifier = VerifierSettings::from(VerifierName::Code).build().unwrap();
    let read = |benchmark: &str, file: &str| {
        let benchmark = Benchmark::built_in(benchmark).unwrap();
        let verifier = VerifierSettings::from(benchmark.verifier.unwrap());
        benchmark.problems(&[fixture(file)], usize::MAX, &verifier).unwrap().0
    };
    let judged = |problem: &Problem, response: &str, expected: Verdict| {
        let item = Item { ground_truth: &problem.ground_truth, ..Item::default() };
        let judgement = verifier.verify_batch(&[(item, response)]).unwrap().remove(0);
        assert_eq!(judgement.verdict, expected, "{response}\n{}", judgement.reason);
    };
    let fenced = |program: &str| {
        format!("Here it is:\n\n```python\n{program}\n```\n\nIt runs in linear time.")
    };
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();

    for (problem, row) in read("humaneval", "humaneval.jsonl").iter().zip(rows("humaneval.jsonl")) {
        let (prompt, body) = (text(&row, "prompt"), text(&row, "canonical_solution"));
        judged(problem, &fenced(&format!("{prompt}{body}")), Correct);
        judged(problem, &body, Correct);
        judged(
            problem,
            &format!("{body}\n\nif __name__ == \"__main__\":\n    print(and so on"),
            Correct,
        );
        judged(problem, "    return None\n", Wrong);
        judged(problem, &fenced(&format!("{prompt}    return -1")), Wrong);
        // The function alone, without what the prompt has before it.
        let function = &prompt[prompt.rfind("def ").unwrap()..];
        judged(problem, &fenced(&format!("{function}{body}")), Correct);
    }
    for (benchmark, file) in [("mbpp", "mbpp.jsonl"), ("mbpp-sanitized", "mbpp-sanitized.json")] {
        let rows = if file.ends_with('l') {
            rows(file).split_off(1)
        } else {
            rows(file)[0].as_array().unwrap().clone()
        };
        for (problem, row) in read(benchmark, file).iter().zip(rows) {
            judged(problem, &fenced(&text(&row, "code")), Correct);
            judged(
                problem,
                &fenced(&text(&row, "code").replace("return", "return 1 and")),
                Correct,
            );
            judged(problem, &fenced(&text(&row, "code").replace("return", "return [] and")), Wrong);
        }
    }
    let contest = read("livecodebench", "livecodebench.jsonl");
    judged(&contest[0], &fenced("a, b = map(int, input().split())\nprint(a + b)"), Correct);
    judged(&contest[0], &fenced("a, b = map(int, input().split())\nprint(abs(a + b) or 1)"), Wrong);
    let descending = "class Solution:\n    def descending(self, numbers: List[int], limit: int) -> List[int]:\n        return ";
    let solved = "sorted((n for n in numbers if n >= limit), reverse=True)";
    judged(&contest[1], &fenced(&format!("{descending}{solved}")), Correct);
    judged(&contest[1], &fenced(&format!("{descending}sorted(numbers, reverse=True)")), Wrong);
    for (problem, row) in read("leetcode", "leetcode.jsonl").iter().zip(rows("leetcode.jsonl")) {
        let solution = text(&row, "completion");
        judged(problem, &fenced(&solution), Correct);
        judged(problem, &fenced(&solution.replace("return", "return None and")), Wrong);
    }
}

//! Programs judged by tests of every form, in this machine's sandbox.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Instant;

use isentrope_code::{CodeSettings, Judge, Report, Score, Verdict};
use serde_json::{Value, json};

fn start(settings: CodeSettings) -> Judge {
    Judge::start(&settings).unwrap_or_else(|e| panic!("{e}"))
}

/// Time enough for right programs on a machine that is busy with other tests.
fn settings() -> CodeSettings {
    CodeSettings { workers: Some(2), timeout_s: 5.0, ..CodeSettings::default() }
}

static JUDGE: LazyLock<Judge> = LazyLock::new(|| start(settings()));

fn judge(tests: &Value, response: &str) -> Report {
    JUDGE.judge(&[(tests, response)]).unwrap().remove(0)
}

fn fenced(program: &str) -> String {
    format!("It can be done like this:\n\n```python\n{program}\n```\n")
}

fn lines(file: &str) -> Vec<Value> {
    let path = format!("{}/tests/fixtures/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap()
}

#[test]
fn known_good_solutions_pass() {
    let problems = lines("problems.jsonl");
    let responses: Vec<String> =
        problems.iter().map(|problem| fenced(text(problem, "solution"))).collect();
    let batch: Vec<(&Value, &str)> = problems
        .iter()
        .zip(&responses)
        .map(|(problem, response)| (&problem["tests"], response.as_str()))
        .collect();
    for (problem, report) in problems.iter().zip(JUDGE.judge(&batch).unwrap()) {
        assert_eq!(report.verdict, Verdict::Passed, "{}: {}", problem["name"], report.reason());
        assert!(report.tests > 0 && report.passed == report.tests, "{report:?}");
    }
}

#[test]
fn planted_faults_fail() {
    let problems: BTreeMap<String, Value> = lines("problems.jsonl")
        .into_iter()
        .map(|mut p| (text(&p, "name").into(), p["tests"].take()))
        .collect();
    let planted = lines("planted.jsonl");
    let batch: Vec<(&Value, &str)> = planted
        .iter()
        .map(|fault| (&problems[text(fault, "name")], text(fault, "program")))
        .collect();
    let impatient = start(CodeSettings { timeout_s: 1.0, workers: Some(4), ..settings() });
    let mut kinds = BTreeMap::new();
    for (fault, report) in planted.iter().zip(impatient.judge(&batch).unwrap()) {
        let about = format!("{} with {}: {}", fault["name"], fault["kind"], report.reason());
        assert!(Verdict::FAILURES.contains(&report.verdict.name()), "{about}");
        match text(fault, "kind") {
            "exception" => assert_eq!(report.verdict.name(), "runtime_error", "{about}"),
            "endless loop" => assert_eq!(report.verdict.name(), "time_limit", "{about}"),
            _ => {}
        }
        *kinds.entry(text(fault, "kind").to_owned()).or_insert(0) += 1;
    }
    assert_eq!(kinds.len(), 12, "{kinds:?}");
}

/// Every form, with a program that is right and one that is not.
#[test]
fn tests_of_every_form_are_run() {
    let square = ["print(int(input()) ** 2)", "print(int(input()) * 2)"];
    let function = ["def f(a, b=1):\n    return a * b", "def f(a, b=1):\n    return a + b"];
    let method = function
        .map(|f| format!("class Solution:\n    @staticmethod\n    {}", f.replace('\n', "\n    ")));
    let method = [method[0].as_str(), method[1].as_str()];
    let check =
        "def check(candidate):\n    assert candidate(2, 3) == 6\n    assert candidate(5) == 5\n";
    let pytest = "import pytest\nfrom solution import f\n\ndef test_two():\n    assert f(2, 3) == 6\n\n\
                  def test_types():\n    with pytest.raises(TypeError):\n        f()\n";
    let head = "from typing import Optional\n\n\ndef f(a: int, b: Optional[int] = 1) -> int:\n    \"\"\"Multiplies.\"\"\"\n";
    for (name, tests, [right, wrong]) in [
        (
            "inputs and outputs",
            json!({"inputs": ["3\n", "-4\n"], "outputs": ["9\n", "16\n"]}),
            square,
        ),
        ("the same as text", json!("{\"inputs\": [\"3\\n\"], \"outputs\": [\"9\\n\"]}"), square),
        ("a list of pairs", json!([{"input": "3", "output": "9"}]), square),
        (
            "LiveCodeBench",
            json!({"public_test_cases": "[{\"input\": \"3\", \"output\": \"9.0\", \"testtype\": \"stdin\"}]"}),
            square,
        ),
        ("calls", json!({"fn_name": "f", "inputs": [[2, 3], [5]], "outputs": [6, 5]}), function),
        ("calls of APPS", json!({"fn_name": "f", "inputs": [[2, 3]], "outputs": [[6]]}), function),
        (
            "calls of a method",
            json!({"fn_name": "f", "inputs": [[2, 3]], "outputs": [[6]]}),
            method,
        ),
        (
            "calls of LiveCodeBench",
            json!([{"input": "2\n3", "output": "6", "testtype": "functional", "metadata": {"func_name": "f"}}]),
            method,
        ),
        ("functional", json!({"functional": format!("{check}\n\ncheck(f)")}), function),
        (
            "functional, of a method",
            json!({"functional": format!("{check}\n\ncheck(Solution().f)")}),
            method,
        ),
        ("AceCode", json!(["assert f(2, 3) == 6", "assert f(5) == 5"]), function),
        ("KodCode", json!(pytest), function),
        ("HumanEval", json!({"prompt": head, "entry_point": "f", "test": check}), function),
        (
            "HumanEval, completed",
            json!({"prompt": head, "entry_point": "f", "test": check}),
            ["    return a * b", "    return a + b"],
        ),
        (
            "LeetCodeDataset",
            json!({"prompt": "import math", "entry_point": "Solution().f", "test": check}),
            method,
        ),
        (
            "MBPP",
            json!({"test_list": ["assert f(n, 3) == 6"], "test_setup_code": "n = 2", "test_imports": ["import math"]}),
            function,
        ),
    ] {
        let report = judge(&tests, right);
        assert_eq!(report.verdict, Verdict::Passed, "{name}: {}", report.reason());
        let report = judge(&tests, wrong);
        assert_eq!(report.verdict.name(), "wrong_answer", "{name}: {}", report.reason());
    }
}

#[test]
fn every_verdict_can_be_had() {
    let impatient = CodeSettings { timeout_s: 1.0, memory_mib: 256, output_mib: 1, ..settings() };
    let impatient = start(CodeSettings { workers: Some(6), ..impatient });
    let scripts = json!({"inputs": ["1"], "outputs": ["1"]});
    let calls = json!({"fn_name": "f", "inputs": [[1]], "outputs": [1]});
    let assertions = json!({"functional": "assert f(1) == 1"});
    let programs = [
        ("print(input())", "return x", "passed"),
        ("print(2)", "return 2", "wrong_answer"),
        ("1 / 0", "return 1 / 0", "runtime_error"),
        ("import sys\nsys.exit(3)", "import sys\n    sys.exit(3)", "runtime_error"),
        ("while True: pass", "while True: pass", "time_limit"),
        ("import time\ntime.sleep(60)", "import time\n    time.sleep(60)", "time_limit"),
        ("x = 'x' * (1 << 30)", "return len('x' * (1 << 30))", "memory_limit"),
        ("print('x' * (2 << 20))", "return 'x' * (2 << 20)", "output_limit"),
        ("```python\n```", "", "no_code"),
    ];
    let functions = programs.map(|(program, body, _)| match body {
        "" => program.to_owned(),
        body => format!("def f(x):\n    {body}\n"),
    });
    let mut batch = Vec::new();
    for ((program, _, _), function) in programs.iter().zip(&functions) {
        batch.extend([(&scripts, *program), (&calls, function), (&assertions, function)]);
    }
    for (number, report) in impatient.judge(&batch).unwrap().into_iter().enumerate() {
        let (expected, response) = (programs[number / 3].2, batch[number].1);
        assert_eq!(report.verdict.name(), expected, "{response:?}: {}", report.reason());
    }
    let raised = judge(&scripts, "raise KeyError('no such thing')");
    assert_eq!(raised.verdict, Verdict::RuntimeError("KeyError: 'no such thing'".into()));
    assert_eq!(judge(&scripts, "I would rather not say.").verdict, Verdict::NoCode);
    let unusable = judge(
        &json!({"functional": "import no_such_module\nassert f(1) == 1"}),
        "def f(x): return x",
    );
    assert!(matches!(unusable.verdict, Verdict::UnusableTests(_)), "{unusable:?}");
    assert!(matches!(judge(&json!({"inputs": []}), "a = 1").verdict, Verdict::UnusableTests(_)));
}

#[test]
fn a_fraction_counts_all_tests() {
    let fraction = start(CodeSettings { score: Score::Fraction, ..settings() });
    // Right for even numbers alone, and it dies of 3.
    let script = "n = int(input())\nassert n != 3\nprint(n if n % 2 == 0 else 0)";
    let function = "import os\ndef f(n):\n    if n == 3:\n        os._exit(1)\n    return n if n % 2 == 0 else 0";
    let numbers: Vec<i32> = (1..=5).collect();
    let texts: Vec<String> = numbers.iter().map(i32::to_string).collect();
    let arguments: Vec<[i32; 1]> = numbers.iter().map(|n| [*n]).collect();
    let assertions: Vec<String> = numbers.iter().map(|n| format!("assert f({n}) == {n}")).collect();
    // Assertions share a process of the program, which is not started again.
    for (tests, program, passed) in [
        (json!({"inputs": texts, "outputs": texts}), script, 2),
        (json!({"fn_name": "f", "inputs": arguments, "outputs": numbers}), function, 2),
        (json!(assertions), function, 1),
    ] {
        let report = fraction.judge(&[(&tests, program)]).unwrap().remove(0);
        assert_eq!(
            (report.passed, report.tests, report.failed),
            (passed, 5, Some(1)),
            "{tests}: {report:?}"
        );
        assert_eq!(report.fraction(), passed as f64 / 5.0);
        let report = judge(&tests, program);
        assert_eq!((report.passed, report.failed), (0, Some(1)), "{tests}: {report:?}");
    }
}

/// Who stalls has not passed the tests that nobody came to.
#[test]
fn a_fraction_counts_tests_that_were_not_reached() {
    let hasty = start(CodeSettings {
        timeout_s: 1.0,
        total_timeout_s: 2.0,
        score: Score::Fraction,
        ..settings()
    });
    let each: Vec<String> =
        (0..40).map(|n| format!("def test_{n}():\n    assert f({n}) == {}\n", n * n + 7)).collect();
    let tests = json!(format!("from solution import f\n\n{}", each.join("\n")));
    let program = "import time\ndef f(n):\n    if n == 0:\n        return 7\n    time.sleep(60)\n";
    let report = hasty.judge(&[(&tests, program)]).unwrap().remove(0);
    assert_eq!((report.verdict.clone(), report.passed, report.tests), (Verdict::TimeLimit, 1, 40));
}

#[test]
fn workers_sleep_at_the_same_time() {
    let tests = json!({"inputs": ["1"], "outputs": ["1"]});
    let batch = [(&tests, "import time\ntime.sleep(1)\nprint(1)"); 8];
    let judge = start(CodeSettings { workers: Some(8), ..settings() });
    judge.judge(&[(&tests, "print(1)"); 8]).unwrap();
    let begun = Instant::now();
    assert!(judge.judge(&batch).unwrap().iter().all(|report| report.verdict == Verdict::Passed));
    assert!(begun.elapsed().as_secs_f64() < 5.0, "{:?}", begun.elapsed());
}

/// A program is asked to end when its time is over, however many tests there would still be.
#[test]
fn the_time_of_all_tests_together_is_limited() {
    let hasty =
        CodeSettings { timeout_s: 0.3, total_timeout_s: 1.0, workers: Some(3), ..settings() };
    let hasty = start(CodeSettings { score: Score::Fraction, ..hasty });
    let texts = vec!["1"; 200];
    let scripts = json!({"inputs": texts, "outputs": texts});
    let calls = json!({"fn_name": "f", "inputs": vec![[1]; 200], "outputs": vec![1; 200]});
    let assertions = json!(vec!["assert f(1) == 1"; 200]);
    let function = "def f(x):\n    while True: pass";
    let begun = Instant::now();
    let batch = [(&scripts, "while True: pass"), (&calls, function), (&assertions, function)];
    for report in hasty.judge(&batch).unwrap() {
        assert_eq!(
            (report.verdict, report.passed, report.failed),
            (Verdict::TimeLimit, 0, Some(1))
        );
    }
    assert!(begun.elapsed().as_secs_f64() < 6.0, "{:?}", begun.elapsed());
}

/// The time of all together ends a test whose own time is longer.
#[test]
fn no_test_outlasts_the_time_of_all() {
    let hasty = CodeSettings { timeout_s: 30.0, total_timeout_s: 1.0, ..settings() };
    let hasty = start(CodeSettings { workers: Some(6), ..hasty });
    let sleeper = "import time\ndef f(x):\n    time.sleep(30)\n    return 1";
    // Foreign tests that never say that they end: they go on from unit to unit, or count units
    // faster than they are read.
    let onward = "import os, struct, time\nassert f(1) == 1\nfor n in range(99):\n    \
                  place = b'[%d,-1]' % (n + 1)\n    os.write(4, struct.pack('<cI', b'p', len(place)) + place)\n    \
                  time.sleep(0.3)";
    let flood = "import os, struct\nassert f(1) == 1\nwhile True:\n    \
                 os.write(4, (struct.pack('<cI', b'c', 5) + b'[0,9]') * 4096)";
    let tests = [
        (json!({"inputs": ["1"], "outputs": ["1"]}), "import time\ntime.sleep(30)\nprint(1)"),
        (json!({"fn_name": "f", "inputs": [[1]], "outputs": [1]}), sleeper),
        (
            json!({"fn_name": "f", "inputs": [[1]], "outputs": [1]}),
            "import time\ntime.sleep(30)\ndef f(x): return 1",
        ),
        (json!(["assert f(1) == 1"]), sleeper),
        (json!({"functional": onward}), "def f(x): return 1"),
        (json!({"functional": flood}), "def f(x): return 1"),
    ];
    let begun = Instant::now();
    let batch: Vec<(&Value, &str)> =
        tests.iter().map(|(tests, program)| (tests, *program)).collect();
    for (report, (tests, _)) in hasty.judge(&batch).unwrap().into_iter().zip(&tests) {
        assert_eq!((report.verdict, report.passed), (Verdict::TimeLimit, 0), "{tests}");
    }
    assert!(begun.elapsed().as_secs_f64() < 10.0, "{:?}", begun.elapsed());
}

/// Who says again and again that a unit begins would never be at its end.
#[test]
fn tests_go_on_from_unit_to_unit() {
    let patient = start(CodeSettings { total_timeout_s: 3600.0, ..settings() });
    for place in ["[0,-1]", "[-1,-1]", "nowhere"] {
        let again = format!(
            "import os, struct, time\nassert f(1) == 1\nwhile True:\n    \
             os.write(4, struct.pack('<cI', b'p', {}) + b'{place}')\n    time.sleep(0.3)",
            place.len()
        );
        let report = patient
            .judge(&[(&json!({"functional": again}), "def f(x): return 1")])
            .unwrap()
            .remove(0);
        assert!(matches!(report.verdict, Verdict::UnusableTests(_)), "{place}: {report:?}");
    }
}

/// As programs of competitions begin that recurse deeply.
#[test]
fn scripts_may_ask_for_an_endless_stack() {
    let program = "import resource, sys\n\
                   endless = resource.RLIM_INFINITY\n\
                   resource.setrlimit(resource.RLIMIT_STACK, (endless, endless))\n\
                   sys.setrecursionlimit(10**6)\n\
                   def depth(n): return 0 if n == 0 else 1 + depth(n - 1)\n\
                   print(depth(int(input())))";
    let report = judge(&json!({"inputs": ["20000"], "outputs": ["20000"]}), program);
    assert_eq!(report.verdict, Verdict::Passed, "{}", report.reason());
}

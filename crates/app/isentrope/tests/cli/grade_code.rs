//! `grade --verifier code`: verdicts on programs, which run in sandboxes.

use crate::program::{Scratch, can_judge_programs, isentrope, parse_lines, stderr, stdout_of};
use serde_json::{Value, json};

/// Short, since what never ends waits for it.
const VERIFIER: &str = "{ code = { timeout_s = 2, memory_mib = 256, workers = 2 } }";

/// The lines judged, and what was said on standard error.
fn grade(lines: &[Value], verifier: &str) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let input = scratch.lines("input.jsonl", lines);
    let output = isentrope(&["grade", "--verifier", verifier, "--in", &input]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    (parse_lines(&String::from_utf8(output.stdout.clone()).unwrap()), stderr(&output))
}

/// A response to a problem that asks for the square of a number.
fn square(response: &str) -> Value {
    json!({ "tests": { "inputs": ["3\n", "-12\n"], "outputs": ["9\n", "144\n"] }, "response": response })
}

#[test]
fn programs_are_judged_by_what_they_print() {
    if !can_judge_programs() {
        return;
    }
    let cases = [
        (
            square("So:\n```python\nprint(int(input()) ** 2)\n```\nDone."),
            "correct",
            "passed 2 tests",
        ),
        (square("print(int(input()) ** 2)"), "correct", "passed 2 tests"),
        (
            square("```\nprint(3 * int(input()))\n```"),
            "wrong",
            "test 2: wrong answer: line 1: expected \"144\", found \"-36\"",
        ),
        (
            square("```\nprint(1 / 0)\n```"),
            "wrong",
            "test 1: runtime error: ZeroDivisionError: division by zero",
        ),
        (square("```\nwhile True: pass\n```"), "wrong", "test 1: time limit (timeout_s = "),
        (square("I do not know how."), "unparseable", "no code in the response"),
    ];
    let lines: Vec<Value> = cases.iter().map(|(line, ..)| line.clone()).collect();
    let (judged, said) = grade(&lines, VERIFIER);
    for (line, (_, verdict, reason)) in judged.iter().zip(&cases) {
        assert!(
            line["verdict"] == *verdict && line["reason"].as_str().unwrap().starts_with(reason),
            "{line}"
        );
        assert_eq!(line["score"], if *verdict == "correct" { 1.0 } else { 0.0 });
    }
    assert_eq!(judged[0]["extracted"], "print(int(input()) ** 2)\n");
    assert_eq!(judged[2]["metrics"]["code/wrong_answer"], 1.0);
    assert_eq!(judged[4]["metrics"]["code/time_limit"], 1.0);
    for part in [
        "programs run in Python 3.",
        "in sandboxes of",
        "2 correct (33.3 %)",
        "3 wrong",
        "1 unparseable",
    ] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

#[test]
fn tests_that_no_program_could_pass_are_faults() {
    if !can_judge_programs() {
        return;
    }
    let with = |key: &str, tests: Value| json!({ key: tests, "response": "def f(x): return x" });
    let lines = [
        with("answer", json!({ "inputs": ["1"], "outputs": [] })),
        with(
            "tests",
            json!({ "functional": "def check(candidate): assert candidate(1) ==\ncheck(f)" }),
        ),
        with("tests", json!({ "functional": "import no_such_module\nassert f(1) == 1" })),
        with("tests", json!({ "functional": "assert f(1) == 1" })),
    ];
    let (judged, said) = grade(&lines, "code");
    let reasons: Vec<&str> = judged.iter().map(|line| line["reason"].as_str().unwrap()).collect();
    for (reason, part) in reasons.iter().zip([
        "the tests cannot be run: the tests have 1 inputs, but 0 outputs",
        "the tests cannot be run: SyntaxError",
        "the tests cannot be run: ModuleNotFoundError: No module named 'no_such_module'",
        "passed 1 test",
    ]) {
        assert!(reason.contains(part), "{part:?} is not in: {reason}");
    }
    let verdicts: Vec<&Value> = judged.iter().map(|line| &line["verdict"]).collect();
    assert_eq!(verdicts, ["fault", "fault", "fault", "correct"]);
    assert!(
        said.contains("3 could not be judged; the first, line 1: the tests cannot be run"),
        "{said}"
    );

    // Tests in a column of their own are no different.
    let (judged, _) = grade(&[with("tests", json!({ "inputs": ["1"], "outputs": [] }))], "code");
    let reason = judged[0]["reason"].as_str().unwrap();
    assert!(reason.contains("the tests have 1 inputs, but 0 outputs"), "{reason}");
}

#[test]
fn one_program_is_explained() {
    if !can_judge_programs() {
        return;
    }
    let tests = r#"{"inputs": ["3"], "outputs": ["9"]}"#;
    for (verifier, tests, response, parts) in [
        (
            "code",
            tests,
            "print(int(input()) ** 2)",
            ["response: print(int(input()) ** 2)", "Correct: passed 1 test"],
        ),
        (
            "auto",
            tests,
            "```\nprint(8)\n```",
            [
                "response: print(8)",
                "Wrong: test 1: wrong answer: line 1: expected \"9\", found \"8\"",
            ],
        ),
        ("code", tests, "I give up.", ["response: \n", "Unparseable: no code in the response"]),
        (
            VERIFIER,
            "[\"assert f(2) == 4\"]",
            "def f(x): return x",
            ["def f(x)", "assert f(2) == 4 does not hold"],
        ),
        (
            "code",
            "7",
            "print(7)",
            ["Fault: ", "the tests are a text that is neither JSON nor Python with assertions"],
        ),
    ] {
        let said = stdout_of(&mut isentrope(&[
            "grade",
            "--verifier",
            verifier,
            "--explain",
            tests,
            response,
        ]));
        for part in parts {
            assert!(said.contains(part), "{part:?} is not in: {said}");
        }
    }
}

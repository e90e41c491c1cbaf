use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

fn read(value: &Value) -> Tests {
    Tests::from_value(value).unwrap_or_else(|e| panic!("{value}: {e}"))
}

fn problem(value: &Value) -> String {
    Tests::from_value(value).map_or_else(|e| e, |tests| panic!("{value}: {tests:?}"))
}

fn scripts(value: &Value) -> Vec<(String, String)> {
    match read(value).kind {
        Kind::Scripts(scripts) => {
            scripts.into_iter().map(|script| (script.input, script.output)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn calls(value: &Value) -> (String, Vec<Call>) {
    match read(value).kind {
        Kind::Calls { function, calls } => (function, calls),
        other => panic!("{other:?}"),
    }
}

fn assertions(value: &Value) -> AssertionTest {
    match read(value).kind {
        Kind::Assertions(test) => test,
        other => panic!("{other:?}"),
    }
}

fn test_of(parts: &[&str]) -> AssertionTest {
    let parts = parts.iter().map(|part| (*part).to_owned()).collect();
    AssertionTest { parts, ..AssertionTest::default() }
}

fn call(arguments: Value, accepted: Value) -> Call {
    let list = |value: Value| value.as_array().unwrap().clone();
    Call { arguments: list(arguments), accepted: list(accepted) }
}

#[test]
fn pairs_of_standard_streams() {
    let expected = vec![("1 2\n".to_owned(), "3\n".to_owned()), ("4".into(), "5".into())];
    let columns = json!({"inputs": ["1 2\n", "4"], "outputs": ["3\n", 5]});
    for value in [
        columns.clone(),
        json!(columns.to_string()),
        json!({"input_output": columns.to_string()}),
        json!({"tests": columns, "problem": "Add."}),
        json!({"inputs": [["1 2", ""], ["4"]], "outputs": [["3", ""], ["5"]], "fn_name": null}),
        json!({"input": ["1 2\n", "4"], "output": ["3\n", 5]}),
        json!({"inputs": null, "outputs": null, "input": ["1 2\n", "4"], "output": ["3\n", "5"]}),
        json!([{"input": "1 2\n", "output": "3\n"}, {"input": "4", "output": "5"}]),
        json!([
            {"input": "1 2\n", "output": "3\n", "type": "stdin_stdout", "fn_name": null},
            {"input": "4", "output": "5", "type": "stdin_stdout", "fn_name": null}
        ]),
    ] {
        assert_eq!(scripts(&value), expected, "{value}");
        assert!(Tests::is_form_of(&value), "{value}");
        assert_eq!((read(&value).tolerance, read(&value).by_value), (None, false));
    }
    let with_tolerance = json!({"inputs": [""], "outputs": [""], "tolerance": 1e-6});
    assert_eq!(read(&with_tolerance).tolerance, Some(1e-6));
    assert_eq!(read(&columns).summary(), "2 tests, standard input and output");
}

#[test]
fn pairs_under_other_keys() {
    let expected = [("1".to_owned(), "2".to_owned())];
    let items = json!([{"input": "1", "output": "2", "type": "stdin_stdout"}]);
    let of_open_r1 = json!({"verification_info": {"language": "python", "test_cases": items}});
    assert_eq!(scripts(&of_open_r1), expected);
    assert_eq!(scripts(&json!({"official_tests": items})), expected);
    assert_eq!(scripts(&json!({"examples": items})), expected);
}

#[test]
fn numbers_that_64_bits_hold_are_read() {
    let text = r#"{"inputs": [18446744073709551615, 1e-7], "outputs": ["1", [0.5, -1]]}"#;
    let expected = [("18446744073709551615", "1"), ("1e-07", "0.5\n-1")];
    assert_eq!(scripts(&json!(text)), expected.map(|(i, o)| (i.to_owned(), o.to_owned())));
    let lines = json!({"fn_name": "f", "inputs": ["18446744073709551616\n2"], "outputs": ["1"]});
    let rounded = json!({"fn_name": "f", "inputs": [[1]], "outputs": [18446744073709551616.0]});
    for large in [lines, rounded, json!(text.replace("1e-7", "18446744073709551616"))] {
        assert!(problem(&large).contains("an integer beyond 64 bits"), "{large}");
    }
}

/// `{"a": [[1, 2]]}` and so on are small; a text of many values takes a hundred times its length in
/// memory.
#[test]
fn tests_of_millions_of_values_are_not_read() {
    let many = format!("[{}0]", "{\"\": 0},".repeat(MOST_LISTED));
    let listed = json!({"public_test_cases": many});
    assert!(problem(&listed).starts_with("the tests have more than 1048576 values (under "));
    let values = "0,".repeat(MOST_VALUES / 4);
    let inputs = vec![format!("[{values}0]"); 5];
    let calls = json!({"fn_name": "f", "inputs": inputs, "outputs": ["1", "1", "1", "1", "1"]});
    assert_eq!(problem(&calls), "the tests have more than 8388608 values");
    let long = json!({"inputs": ["a".repeat(MOST_INPUT + 1)], "outputs": ["1"]});
    assert_eq!(problem(&long), "a test's input is longer than 48 MiB");
}

#[test]
fn pairs_of_a_function() {
    let apps = json!({"fn_name": "f", "inputs": [[1, [2]], [3, []]], "outputs": [[[1]], [[3]]]});
    let accepted = |value: Value| json!([[value], value]);
    let expected = vec![
        call(json!([1, [2]]), accepted(json!([1]))),
        call(json!([3, []]), accepted(json!([3]))),
    ];
    assert_eq!(calls(&apps), ("f".into(), expected));
    let bare = json!({"fn_name": "f", "inputs": [[1], [2]], "outputs": [[1, 2], [3]]});
    let expected = vec![call(json!([1]), json!([[1, 2]])), call(json!([2]), json!([[3]]))];
    assert_eq!(calls(&bare).1, expected, "not all lists have one item: none is unwrapped");
    let lines = json!({"fn_name": "f", "inputs": ["1\n\"a\\nb\"", "2\n\"c\"\n"], "outputs": ["[1]", "[2]"]});
    let with_values =
        json!({"fn_name": "f", "inputs": [[1, "a\nb"], [2, "c"]], "outputs": [[1], [2]]});
    assert_eq!(calls(&lines), calls(&with_values));
    let items = json!([
        {"type": "function_call", "fn_name": "f", "input": [1, "a\nb"], "output": [1]},
        {"type": "function_call", "fn_name": "f", "input": [2, "c"], "output": [2]}
    ]);
    assert_eq!(calls(&items), calls(&with_values));
    let single = json!({"fn_name": "f", "inputs": [5], "outputs": [true]});
    assert_eq!(calls(&single).1, [call(json!([5]), json!([true]))]);
}

/// `base64(zlib(pickle.dumps(json.dumps(...), protocol)))` by Python 3.11, of one test of standard
/// input.
const PACKED: [&str; 5] = [
    "eJyLsGJgYIiuVsrMKygtUbJSUDJUMIrJU9JRUMovLYEKGUMESlKLS0oqC1JBQsUlKZl5SrWxhQx6AFjUEu8=",
    "eJxrYIqwYmBgiK5WyswrKC1RslJQMlQwislT0lFQyi8tgQoZQwRKUotLSioLUkFCxSUpmXlKtbGFDHoAe1wTcQ==",
    "eJxrYI6wYmBgiK5WyswrKC1RslJQMlQwislT0lFQyi8tgQoZQwRKUotLSioLUkFCxSUpmXlKtbGFDHoAe58Tcg==",
    "eJxrYJlqxwABPVbR1UqZeQWlJUpWCkqGCkYxeUo6Ckr5pSVQIWOIQElqcUlJZUEqSKi4JCUzT6k2dooeALEqFJ0=",
    "eJxrYJ1qxwABPVbR1UqZeQWlJUpWCkqGCkYxeUo6Ckr5pSVQIWOIQElqcUlJZUEqSKi4JCUzT6k2dooeALFyFJ4=",
];

/// Tests packed by protocol 4, of 40000 lines, which stand outside of the pickle's frames.
const PACKED_LONG: &str = "\
    eNrtzLEJwlAUQFEFBwmvlhBLM4lg7EyR5hvI+4WI4BCu5j6SBSysDxxueV+7U/vZbs6PmMpcM/omDkMBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAOCH2DdxqznXjL6J\
    oXbdePyv6ynHJfM+j+tryetU4nl5t18B0l/j";

/// Pickles of an object that prints when it is loaded, and of a list.
const PACKED_OTHERS: [&str; 2] = [
    "eJxrYJmqwAABPRxJpZk5JZl5xVN6WAuKMvNKpkye0sNcVJo3pXVK0BQ9AA+NDuo=",
    "eJxrYJnKywABsVM0ehgTp/QwJk1J1QMAO9IF2A==",
];

#[test]
fn rows_of_live_code_bench() {
    let public = json!([{"input": "0\n", "output": "0\n", "testtype": "stdin"}]).to_string();
    for packed in PACKED {
        let row =
            json!({"public_test_cases": public, "private_test_cases": packed, "metadata": "{}"});
        let expected = [("0\n", "0\n"), ("1 2\n", "3\n")];
        assert_eq!(scripts(&row), expected.map(|(i, o)| (i.to_owned(), o.to_owned())));
        assert!(read(&row).by_value && Tests::is_form_of(&row));
    }
    let row = json!({"private_test_cases": PACKED_LONG});
    assert_eq!(scripts(&row), [("1\n".repeat(40000), "é".repeat(10))]);
    let functional = json!([{"input": "[1, 2]\n3", "output": "true", "testtype": "functional"}]);
    let expected = ("f".to_owned(), vec![call(json!([[1, 2], 3]), json!([true]))]);
    for value in [
        json!({"public_test_cases": functional.to_string(), "private_test_cases": "", "metadata": "{\"func_name\": \"f\"}"}),
        json!({"public_test_cases": functional, "metadata": {"func_name": "f"}}),
        json!([{"input": "[1, 2]\n3", "output": "true", "testtype": "functional", "metadata": {"func_name": "f"}}]),
    ] {
        assert_eq!(calls(&value), expected, "{value}");
    }
}

#[test]
fn what_is_packed_is_not_run() {
    for (packed, expected) in [
        (PACKED_OTHERS[0], "the tests are no pickled text (under \"private_test_cases\")"),
        (PACKED_OTHERS[1], "the tests are no pickled text (under \"private_test_cases\")"),
        ("eJxr", "the tests cannot be decompressed"),
        ("{}", "the tests are neither JSON nor base64"),
    ] {
        let said = problem(&json!({"private_test_cases": packed}));
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn assertion_code() {
    let check = "def check(candidate):\n    assert candidate(1) == 2\n\ncheck(f)";
    assert_eq!(assertions(&json!({"functional": check})), test_of(&[check]));

    let pytest = "from solution import f\n\ndef test_f():\n    assert f(1) == 2\n";
    for value in [
        json!(pytest),
        json!({"pytest": pytest}),
        json!({"test": pytest, "question": "?"}),
        json!(json!(pytest).to_string()),
    ] {
        assert_eq!(assertions(&value), test_of(&[pytest]));
    }

    let list = ["assert f(1) == 2", "assert f(2) == 3"];
    for value in [
        json!(list),
        json!(json!(list).to_string()),
        json!({"test_cases": list}),
        json!({"test_list": list, "text": "?", "challenge_test_list": []}),
    ] {
        assert_eq!(assertions(&value), test_of(&list));
        assert!(Tests::is_form_of(&value), "{value}");
    }
    for one in ["c = C(); c.add(1); assert c.n == 1", "with pytest.raises(ValueError):\n    f(-1)"]
    {
        assert_eq!(assertions(&json!([one])).parts, [one]);
        assert!(Tests::is_form_of(&json!([one])), "{one}");
    }
    let mbpp =
        json!({"test_list": list, "test_imports": ["import math"], "test_setup_code": "root = 1"});
    assert_eq!(assertions(&mbpp).setup, "import math\nroot = 1");
}

#[test]
fn beginnings_of_programs() {
    let prompt =
        "from typing import List\n\n\ndef f(a: List[int]) -> int:\n    \"\"\"Sums.\"\"\"\n";
    let test = "def check(candidate):\n    assert candidate([1]) == 1\n";
    let human_eval =
        json!({"task_id": "HumanEval/0", "prompt": prompt, "entry_point": "f", "test": test});
    let read = assertions(&human_eval);
    assert_eq!(
        (read.preamble.as_str(), read.entry_point.as_deref(), read.parts.len()),
        (prompt, Some("f"), 1)
    );
    for (body, rest) in [
        ("    return sum(a)\n", ""),
        ("\n    b = (\n        a\n)\n\n    return b\n\n", "print(f([1]))\n"),
    ] {
        assert_eq!(read.completed(&format!("{body}{rest}")), Some(format!("{prompt}{body}")));
    }
    for whole in ["def f(a):\n    return sum(a)", "\ndef f (a):\n    return sum(a)", "f = sum"] {
        assert_eq!(read.completed(whole), None, "{whole}");
    }
    let leet_code = json!({"prompt": "import math\n\nclass ListNode: pass\n", "entry_point": "Solution().f", "test": test});
    assert_eq!(assertions(&leet_code).preamble, "import math\n\nclass ListNode: pass\n");
    for other in [json!("Write f."), json!([{"role": "user", "content": "Write f."}]), json!(null)]
    {
        let asked = json!({"prompt": other, "entry_point": "f", "test": test});
        assert_eq!(assertions(&asked).preamble, "", "{other}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (value, expected) in [
        (json!({"inputs": ["1"], "outputs": []}), "the tests have 1 inputs, but 0 outputs"),
        (json!({"inputs": [], "outputs": []}), "there are no tests"),
        (json!([]), "there are no tests"),
        (json!(""), "the tests are an empty text"),
        (
            json!("{\"inputs\": "),
            "the tests are no JSON: EOF while parsing a value at line 1 column 11",
        ),
        (json!("42"), "the tests are a text that is neither JSON nor Python with assertions"),
        (json!({"inputs": "1", "outputs": ["1"]}), "the tests' \"inputs\" must be a list"),
        (json!({"inputs": [{}], "outputs": ["1"]}), "the input of test 1 must be text"),
        (
            json!({"inputs": ["a"], "outputs": ["1"], "fn_name": "f"}),
            "the input of test 1 is no JSON: expected value at line 1 column 1",
        ),
        (
            json!({"inputs": ["1"], "outputs": ["1"], "fn_name": 1}),
            "the tests' \"fn_name\" must be text",
        ),
        (json!([{"input": "1"}]), "test 1 has no \"input\" and \"output\""),
        (
            json!([{"input": "1", "output": "1"}, {"input": "1", "output": "1", "fn_name": "f"}]),
            "the tests are not all of one function, or not all of standard input",
        ),
        (
            json!([{"input": "1", "output": "1", "testtype": "functional"}]),
            "test 1 calls a function, and none is named: set \"fn_name\", or \"func_name\" in \"metadata\"",
        ),
        (
            json!([{"input": "1", "output": "1", "testtype": "files"}]),
            "test 1 is of the unknown type \"files\"",
        ),
        (json!([[1, 2]]), "the tests are a list, but neither of {input, output} nor of assertions"),
        (json!(["assert f()", 1]), "test 2 must be text"),
        (json!(["1/2"]), "the tests are a list of texts, none of which has an assertion"),
        (json!({"test": "0.5"}), "the tests' \"test\" has no assertion"),
        (json!({"functional": 3}), "the tests' \"functional\" must be text or a list of texts"),
        (
            json!({"inputs": [""], "outputs": [""], "tolerance": 2}),
            "the tests' \"tolerance\" must be from 0 to 1",
        ),
        (
            json!({"answer": 3}),
            "the ground truth must be tests of a program, such as {\"inputs\": [...], \"outputs\": [...]}; its keys are answer",
        ),
        (
            json!(3),
            "the ground truth must be tests of a program, such as {\"inputs\": [...], \"outputs\": [...]}, not 3",
        ),
        (
            json!({"tests": {"tests": {"tests": {"tests": {"tests": {"tests": {"tests": []}}}}}}}),
            "the tests are wrapped too often",
        ),
    ] {
        assert_eq!(problem(&value), expected);
    }
    let many = json!({"inputs": vec![""; MOST_TESTS + 1], "outputs": vec![""; MOST_TESTS + 1]});
    assert_eq!(problem(&many), "there are 10001 tests: they may be 10000 at most");
}

#[test]
fn answers_of_other_tasks_are_no_tests() {
    for value in [
        json!(null),
        json!("\\frac12"),
        json!("{1, 2, 3}"),
        json!("[0, 1)"),
        json!(["1/2", "0.5"]),
        json!({"numbers": [1, 2], "target": 3}),
        json!("we assert nothing"),
        json!(17),
    ] {
        assert!(!Tests::is_form_of(&value), "{value}");
        assert!(Tests::from_value(&value).is_err(), "{value}");
    }
}

#[test]
fn tests_that_need_more_of_pytest_are_refused() {
    let refused = |code: &str| Tests::from_value(&json!({"functional": code})).err();
    for (code, why) in [
        ("import unittest\nassert f()", "they use unittest"),
        ("from unittest.mock import patch\nassert f()", "they use unittest"),
        ("class TestF:\n    def test_f(self): assert f()", "they have classes of tests"),
        ("async def test_f():\n    assert await f()", "they are asynchronous"),
        ("import asyncio\nassert asyncio.run(f()) == 1", "they are asynchronous"),
        (
            "@pytest.fixture\ndef x(): return 1\ndef test_f(x): assert f(x)",
            "they have fixtures of pytest",
        ),
        ("@pytest.mark.parametrize('x', [1])\ndef test_f(x): assert f(x)", "they are parametrised"),
        ("@pytest.mark.slow\ndef test_f(): assert f()", "they have marks of pytest"),
        ("@patch('a.b')\ndef test_f(): assert f()", "they replace functions by mocks"),
        ("def test_f(capsys):\n    assert f()", "their functions have parameters, for fixtures"),
    ] {
        let problem = refused(code).unwrap();
        assert!(problem.contains(why), "{code}: {problem}");
    }
    for code in [
        "import pytest\ndef test_f():\n    with pytest.raises(ValueError): f()\n    assert f(1) == pytest.approx(2)",
        "def test_f(x=1, *y): assert f(x)",
        "def test_all(x): assert f(x)\ntest_all(3)",
        "assert f('import unittest') == 1",
    ] {
        assert_eq!(refused(code), None, "{code}");
    }
    // Each name is looked up, not looked for.
    let start = Instant::now();
    assert_eq!(refused(&format!("assert f()\n{}", "def test(a)\n".repeat(300_000))), None);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

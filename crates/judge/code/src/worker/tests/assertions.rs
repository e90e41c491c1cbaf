//! Assertion code of data sets.

use std::ops::ControlFlow;
use std::time::Duration;

use super::super::Runner;
use super::{AssertionTest, End, Failure, RunLimits, TestProgress, error, limits, shared};

/// The expected result of a unit: a pass, or a kind of failure and how its text begins.
type Expected = Option<(&'static str, &'static str)>;

struct Case {
    name: &'static str,
    program: String,
    test: AssertionTest,
    expected: Vec<Expected>,
}

/// The cases of a fixture, whose head says how it is written.
fn cases(text: &'static str) -> Vec<Case> {
    text.split("\n== ").skip(1).map(case).collect()
}

fn case(text: &'static str) -> Case {
    let (name, body) = text.split_once('\n').unwrap();
    let mut case =
        Case { name, program: String::new(), test: AssertionTest::default(), expected: Vec::new() };
    for block in format!("\n{body}").leak().split("\n-- ").skip(1) {
        let (head, code) = block.split_once('\n').unwrap_or((block, ""));
        let (directive, rest) = head.split_once(' ').unwrap_or((head, ""));
        match directive {
            "program" => case.program = code.into(),
            "preamble" => case.test.preamble = code.into(),
            "setup" => case.test.setup = code.into(),
            "part" => case.test.parts.push(code.into()),
            "entry" => case.test.entry_point = Some(rest.into()),
            "ok" => case.expected.push(None),
            kind => case.expected.push(Some((kind, rest))),
        }
    }
    case
}

fn is_as_expected(result: &Result<(), Failure>, expected: Expected) -> bool {
    match (result, expected) {
        (Ok(()), None) => true,
        (Err(Failure::Assertion(text)), Some(("assertion", begin))) => text.starts_with(begin),
        (Err(Failure::Ended(End::RuntimeError(text))), Some(("error", begin))) => {
            text.starts_with(begin)
        }
        (Err(Failure::Test(text)), Some(("test", begin))) => text.starts_with(begin),
        _ => false,
    }
}

#[test]
fn every_form_of_assertion_code_is_judged() {
    let cases = cases(include_str!("../../../tests/fixtures/assertion_cases.txt"));
    assert!(cases.len() > 50, "{}", cases.len());
    judge(cases);
}

#[test]
fn programs_are_believed_where_a_test_leaves_it_to_them_alone() {
    judge(cases(include_str!("../../../tests/fixtures/believed_cases.txt")));
}

fn judge(cases: Vec<Case>) {
    let mut worker = shared();
    let mut wrong = Vec::new();
    for Case { name, program, test, expected } in cases {
        let results = worker.units(&program, &test, &limits());
        let agree = results
            .iter()
            .zip(&expected)
            .all(|(result, expected)| is_as_expected(result, *expected));
        if !agree || results.len() != expected.len() {
            wrong.push(format!("{name}: {results:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_unit_that_the_program_does_not_survive_is_the_last() {
    let program = "import os, time\ndef f(x):\n    if x == 2: os._exit(0)\n    if x == 4: time.sleep(60)\n    return x\n";
    let functions = "from solution import f\ndef test_a(): assert f(1) == 1\n\
                     def test_b(): assert f(2) == 2\ndef test_c(): assert f(3) == 3\n";
    let test = |parts: &[&str]| AssertionTest {
        setup: "offset = 1\n".into(),
        parts: parts.iter().map(|&part| part.into()).collect(),
        ..AssertionTest::default()
    };
    let limits = RunLimits { wall: Duration::from_secs(1), ..limits() };
    let ended = || Err(Failure::Ended(error("it ended itself in the middle of a call")));
    let mut worker = shared();
    for (parts, expected) in [
        (&["assert f(1) == offset", "assert f(2) == 2", "assert f(3) == 3"][..], [Ok(()), ended()]),
        (&[functions], [Ok(()), ended()]),
        (
            &["assert f(5) == 4 + offset", "assert f(4) == 4", "assert f(3) == 3"],
            [Ok(()), Err(Failure::Ended(End::TimeLimit))],
        ),
    ] {
        assert_eq!(worker.units(program, &test(parts), &limits), expected, "{parts:?}");
    }
    // The same, up to the first failure.
    let mut seen = Vec::new();
    let wrong = test(&["assert f(3) == 3", "assert f(3) == 4", "assert f(3) == 5"]);
    worker.assertions(program, &wrong, &limits, &mut |found| {
        let TestProgress::Unit(unit) = found else { return ControlFlow::Continue(()) };
        let flow = if unit.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        seen.push(unit);
        flow
    });
    assert_eq!(seen, [Ok(()), Err(Failure::Assertion("assert f(3) == 4".into()))]);
    assert_eq!(worker.units(program, &AssertionTest::default(), &limits).len(), 1);
}

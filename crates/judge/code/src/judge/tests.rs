use std::collections::VecDeque;

use serde_json::json;

use super::*;
use crate::{AssertionTest, End, Failure};

/// A runner that answers by a script, and keeps what it was asked.
#[derive(Default)]
struct ScriptedRunner {
    scripts: VecDeque<(String, End)>,
    values: Vec<Result<Value, End>>,
    units: Vec<Result<(), Failure>>,
    asked: Vec<String>,
}

impl Runner for ScriptedRunner {
    fn script(&mut self, program: &str, input: &str, limits: &RunLimits) -> (String, End) {
        assert!(limits.wall <= Duration::from_secs(6));
        self.asked.push(format!("{program}<{input}"));
        self.scripts.pop_front().unwrap()
    }

    fn calls(
        &mut self,
        _: &str,
        function: &str,
        arguments: &[Vec<Value>],
        _: &RunLimits,
        observe: &mut dyn FnMut(usize, Result<Value, End>) -> ControlFlow<()>,
    ) {
        for (call, (arguments, value)) in arguments.iter().zip(&self.values).enumerate() {
            self.asked.push(format!("{function}{}", json!(arguments)));
            if observe(call, value.clone()).is_break() {
                return;
            }
        }
    }

    fn assertions(
        &mut self,
        program: &str,
        _: &AssertionTest,
        _: &RunLimits,
        observe: &mut dyn FnMut(TestProgress) -> ControlFlow<()>,
    ) {
        self.asked.push(program.into());
        for unit in &self.units {
            if observe(TestProgress::Unit(unit.clone())).is_break() {
                return;
            }
        }
    }
}

fn rules(score: Score) -> Rules {
    Rules::new(&CodeSettings { score, total_timeout_s: 0.2, ..CodeSettings::default() })
}

fn judge(runner: &mut ScriptedRunner, score: Score, tests: &Value, response: &str) -> Report {
    rules(score).judge(runner, &Tests::from_value(tests).unwrap(), response)
}

fn prints(texts: &[&str]) -> ScriptedRunner {
    ScriptedRunner {
        scripts: texts.iter().map(|text| ((*text).to_owned(), End::Completed)).collect(),
        ..ScriptedRunner::default()
    }
}

const PAIRS: &str = r#"{"inputs": ["1", "2", "3"], "outputs": ["1", "4", "9"]}"#;

#[test]
fn outputs_are_compared_test_by_test() {
    let mut runner = prints(&["1\n", "4", "9 \n\n"]);
    let report = judge(&mut runner, Score::All, &json!(PAIRS), "```python\np\n```");
    assert_eq!(
        report,
        Report {
            verdict: Verdict::Passed,
            failed: None,
            passed: 3,
            tests: 3,
            program: Some("p\n".into())
        }
    );
    assert_eq!(runner.asked, ["p\n<1", "p\n<2", "p\n<3"]);

    let mut runner = prints(&["1", "5", "9"]);
    let report = judge(&mut runner, Score::All, &json!(PAIRS), "p");
    assert_eq!(report.reason(), "test 2: wrong answer: line 1: expected \"4\", found \"5\"");
    assert_eq!((report.failed, report.passed, runner.asked.len()), (Some(2), 1, 2));

    let report = judge(&mut prints(&["1", "5", "9"]), Score::Fraction, &json!(PAIRS), "p");
    assert_eq!((report.failed, report.passed, report.tests), (Some(2), 2, 3));
    assert_eq!(report.fraction(), 2.0 / 3.0);
}

#[test]
fn prose_is_no_program_and_a_broken_block_is_one() {
    let verdict = |response: &str| {
        let end = End::RuntimeError("SyntaxError: invalid syntax".into());
        let mut runner =
            ScriptedRunner { scripts: [(String::new(), end)].into(), ..ScriptedRunner::default() };
        judge(&mut runner, Score::All, &json!(PAIRS), response).verdict.name()
    };
    assert_eq!(verdict("I do not know."), "no_code");
    assert_eq!(verdict("```python\nI do not know.\n```"), "runtime_error");
    let mut runner = ScriptedRunner {
        units: vec![Err(Failure::Ended(End::Completed))],
        ..ScriptedRunner::default()
    };
    let report = judge(&mut runner, Score::All, &json!(["assert f(1) == 2"]), "p");
    assert_eq!(report.verdict, Verdict::RuntimeError("it ended before the test did".into()));
}

#[test]
fn a_failing_sandbox_is_tried_again() {
    let fault = || (String::new(), End::Fault("it is gone".into()));
    let good = |text: &str| (text.to_owned(), End::Completed);
    let mut runner = ScriptedRunner {
        scripts: [good("1"), fault(), fault(), good("1"), good("4"), good("9")].into(),
        ..ScriptedRunner::default()
    };
    assert_eq!(judge(&mut runner, Score::Fraction, &json!(PAIRS), "p").verdict, Verdict::Passed);
    let mut runner = ScriptedRunner {
        scripts: [fault(), fault(), fault(), good("1")].into(),
        ..ScriptedRunner::default()
    };
    assert_eq!(
        judge(&mut runner, Score::Fraction, &json!(PAIRS), "p").verdict,
        Verdict::Fault("it is gone".into())
    );
    assert_eq!(runner.asked.len(), 3);
}

#[test]
fn tests_that_cannot_be_run_are_not_tried_again() {
    let mut runner = ScriptedRunner {
        units: vec![Err(Failure::Test("No module named 'numpy'".into()))],
        ..ScriptedRunner::default()
    };
    let report = judge(&mut runner, Score::All, &json!(["assert f(1) == 2"]), "p");
    assert_eq!(report.reason(), "test 1: the tests cannot be run: No module named 'numpy'");
    assert_eq!(runner.asked.len(), 1);
}

#[test]
fn what_was_not_run_has_not_passed() {
    let tests = json!({"fn_name": "f", "inputs": [[1], [2]], "outputs": [1, 2]});
    let mut runner = ScriptedRunner { values: vec![Ok(json!(1))], ..ScriptedRunner::default() };
    assert_eq!(
        judge(&mut runner, Score::All, &tests, "p").verdict,
        Verdict::Fault("not all tests were run".into())
    );
    let report = judge(&mut ScriptedRunner::default(), Score::All, &json!(["assert f()"]), "p");
    assert_eq!(report.verdict, Verdict::UnusableTests("not all of them were run".into()));
}

#[test]
fn a_method_of_the_class_solution_is_a_function() {
    for (program, expected) in [
        ("class Solution:\n    def f(self): pass", "Solution.f"),
        ("class Solution(object):\n    def f(self): pass", "Solution.f"),
        ("def f(): pass", "f"),
        ("class Solution: pass\ndef f(): pass", "f"),
        ("class Solutions: pass", "f"),
    ] {
        assert_eq!(name_in(program, "f"), expected, "{program}");
    }
    assert_eq!(name_in("class Solution: pass", "Other.f"), "Other.f");
}

#[test]
fn the_set_or_the_recipe_says_how_numbers_are_compared() {
    let verdict = |tolerance: Option<f64>, tests: &Value, printed: &str| {
        let settings = CodeSettings { tolerance, ..CodeSettings::default() };
        Rules::new(&settings)
            .judge(&mut prints(&[printed]), &Tests::from_value(tests).unwrap(), "p")
            .verdict
            .name()
    };
    let plain = json!({"inputs": [""], "outputs": ["1.50"]});
    let with_tolerance = json!({"inputs": [""], "outputs": ["1.50"], "tolerance": 0.1});
    let live_code_bench = json!([{"input": "", "output": "1.50", "testtype": "stdin"}]);
    assert_eq!(verdict(None, &plain, "1.5"), "wrong_answer");
    assert_eq!(verdict(None, &live_code_bench, "1.5"), "passed");
    assert_eq!(verdict(None, &live_code_bench, "1.51"), "wrong_answer");
    assert_eq!(verdict(Some(0.01), &live_code_bench, "1.51"), "passed");
    assert_eq!(verdict(Some(1e-6), &plain, "1.5000001"), "passed");
    assert_eq!(verdict(Some(1e-6), &with_tolerance, "1.6"), "passed");
}

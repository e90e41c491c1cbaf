use std::collections::VecDeque;

use serde_json::json;

use super::*;
use crate::{AssertionTest, End, Failure};

/// Answers what it was told to, and keeps what it was asked.
#[derive(Default)]
struct Told {
    scripts: VecDeque<(String, End)>,
    values: Vec<Result<Value, End>>,
    units: Vec<Result<(), Failure>>,
    /// The number of units that is announced.
    known: Option<usize>,
    asked: Vec<String>,
    delay: Duration,
}

impl Runner for Told {
    fn script(&mut self, program: &str, input: &str, limits: &RunLimits) -> (String, End) {
        assert!(limits.wall <= Duration::from_secs(6));
        self.asked.push(format!("{program}<{input}"));
        std::thread::sleep(self.delay);
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
        observe: &mut dyn FnMut(Found) -> ControlFlow<()>,
    ) {
        self.asked.push(program.into());
        if let Some(known) = self.known {
            assert!(observe(Found::Units(known)).is_continue());
        }
        for unit in &self.units {
            std::thread::sleep(self.delay);
            if observe(Found::Unit(unit.clone())).is_break() {
                return;
            }
        }
    }
}

fn rules(score: Score) -> Rules {
    Rules::new(&CodeSettings { score, total_timeout_s: 0.2, ..CodeSettings::default() })
}

fn judge(told: &mut Told, score: Score, tests: &Value, response: &str) -> Report {
    rules(score).judge(told, &Tests::from_value(tests).unwrap(), response)
}

fn prints(texts: &[&str]) -> Told {
    Told {
        scripts: texts.iter().map(|text| ((*text).to_owned(), End::Completed)).collect(),
        ..Told::default()
    }
}

const PAIRS: &str = r#"{"inputs": ["1", "2", "3"], "outputs": ["1", "4", "9"]}"#;

#[test]
fn outputs_are_compared_test_by_test() {
    let mut told = prints(&["1\n", "4", "9 \n\n"]);
    let report = judge(&mut told, Score::All, &json!(PAIRS), "```python\np\n```");
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
    assert_eq!(told.asked, ["p\n<1", "p\n<2", "p\n<3"]);

    let mut told = prints(&["1", "5", "9"]);
    let report = judge(&mut told, Score::All, &json!(PAIRS), "p");
    assert_eq!(report.reason(), "test 2: wrong answer: line 1: expected \"4\", found \"5\"");
    assert_eq!((report.failed, report.passed, told.asked.len()), (Some(2), 1, 2));

    let report = judge(&mut prints(&["1", "5", "9"]), Score::Fraction, &json!(PAIRS), "p");
    assert_eq!((report.failed, report.passed, report.tests), (Some(2), 2, 3));
    assert_eq!(report.fraction(), 2.0 / 3.0);
}

#[test]
fn every_end_has_its_verdict() {
    for (end, verdict) in [
        (
            End::RuntimeError("ValueError: no".into()),
            Verdict::RuntimeError("ValueError: no".into()),
        ),
        (End::TimeLimit, Verdict::TimeLimit),
        (End::MemoryLimit, Verdict::MemoryLimit),
        (End::OutputLimit, Verdict::OutputLimit),
    ] {
        // Output from before a bad end does not count.
        let mut told = Told { scripts: [("1".into(), end.clone())].into(), ..Told::default() };
        assert_eq!(judge(&mut told, Score::All, &json!(PAIRS), "p").verdict, verdict);
        let mut told = Told { values: vec![Err(end.clone())], ..Told::default() };
        let tests = json!({"fn_name": "f", "inputs": [[1]], "outputs": [1]});
        assert_eq!(judge(&mut told, Score::All, &tests, "p").verdict, verdict);
        let mut told = Told { units: vec![Ok(()), Err(Failure::Ended(end))], ..Told::default() };
        let report = judge(&mut told, Score::All, &json!(["assert f()"]), "p");
        assert_eq!((report.verdict, report.failed, report.tests), (verdict, Some(2), 2));
    }
    let mut told =
        Told { units: vec![Err(Failure::Assertion("assert f(1) == 2".into()))], ..Told::default() };
    let report = judge(&mut told, Score::All, &json!(["assert f(1) == 2"]), "p");
    assert_eq!(report.reason(), "test 1: wrong answer: assert f(1) == 2 does not hold");
    let mut told = Told { units: vec![Err(Failure::Ended(End::Completed))], ..Told::default() };
    let report = judge(&mut told, Score::All, &json!(["assert f(1) == 2"]), "p");
    assert_eq!(report.verdict, Verdict::RuntimeError("it ended before the test did".into()));
}

#[test]
fn a_response_without_a_program_is_not_run() {
    for response in ["", "```python\n```"] {
        let report = judge(&mut Told::default(), Score::All, &json!(PAIRS), response);
        assert_eq!((report.verdict, report.program), (Verdict::NoCode, None));
    }
    let error = || ("".to_owned(), End::RuntimeError("SyntaxError: invalid syntax".into()));
    let said = |response: &str| {
        let mut told = Told { scripts: [error()].into(), ..Told::default() };
        judge(&mut told, Score::All, &json!(PAIRS), response).verdict.name()
    };
    assert_eq!(said("I do not know."), "no_code");
    assert_eq!(said("```python\nI do not know.\n```"), "runtime_error");
}

#[test]
fn a_failing_sandbox_is_tried_again() {
    let fault = || (String::new(), End::Fault("it is gone".into()));
    let good = |text: &str| (text.to_owned(), End::Completed);
    let mut told = Told {
        scripts: [good("1"), fault(), fault(), good("1"), good("4"), good("9")].into(),
        ..Told::default()
    };
    assert_eq!(judge(&mut told, Score::Fraction, &json!(PAIRS), "p").verdict, Verdict::Passed);
    let mut told =
        Told { scripts: [fault(), fault(), fault(), good("1")].into(), ..Told::default() };
    assert_eq!(
        judge(&mut told, Score::Fraction, &json!(PAIRS), "p").verdict,
        Verdict::Fault("it is gone".into())
    );
    assert_eq!(told.asked.len(), 3);
}

/// Who stalls does not raise the share of the tests that were passed by having fewer of them run.
#[test]
fn tests_that_were_not_reached_count() {
    let late = Err(Failure::Ended(End::TimeLimit));
    let mut told = Told { units: vec![Ok(()), late.clone()], known: Some(40), ..Told::default() };
    let report = judge(&mut told, Score::Fraction, &json!("def test_f(): assert f()"), "p");
    assert_eq!((report.verdict.clone(), report.passed, report.tests), (Verdict::TimeLimit, 1, 40));
    assert_eq!(report.fraction(), 1.0 / 40.0);
}

#[test]
fn tests_that_cannot_be_run_are_not_tried_again() {
    let mut told = Told {
        units: vec![Err(Failure::Test("No module named 'numpy'".into()))],
        ..Told::default()
    };
    let report = judge(&mut told, Score::All, &json!(["assert f(1) == 2"]), "p");
    assert_eq!(report.reason(), "test 1: the tests cannot be run: No module named 'numpy'");
    assert_eq!(told.asked.len(), 1);
}

#[test]
fn what_was_not_run_has_not_passed() {
    let tests = json!({"fn_name": "f", "inputs": [[1], [2]], "outputs": [1, 2]});
    let mut told = Told { values: vec![Ok(json!(1))], ..Told::default() };
    assert_eq!(
        judge(&mut told, Score::All, &tests, "p").verdict,
        Verdict::Fault("not all tests were run".into())
    );
    let report = judge(&mut Told::default(), Score::All, &json!(["assert f()"]), "p");
    assert_eq!(report.verdict, Verdict::UnusableTests("not all of them were run".into()));
}

#[test]
fn the_time_of_all_tests_is_limited() {
    for score in [Score::All, Score::Fraction] {
        let units = vec![Ok(()); 5];
        let mut told = Told { units, delay: Duration::from_millis(150), ..Told::default() };
        let report = judge(&mut told, score, &json!(["assert f()"]), "p");
        assert_eq!(
            (report.verdict.clone(), report.failed, report.passed),
            (Verdict::TimeLimit, Some(2), 1)
        );
        assert!(report.fraction() < 1.0);
        let mut told = Told { delay: Duration::from_millis(150), ..prints(&["1", "4", "9"]) };
        let report = judge(&mut told, score, &json!(PAIRS), "p");
        assert_eq!(
            (report.verdict, report.failed, report.passed, report.tests),
            (Verdict::TimeLimit, Some(2), 1, 3)
        );
    }
}

#[test]
fn values_of_functions_are_compared() {
    let tests =
        json!({"fn_name": "f", "inputs": [[1, 2], [3, 4]], "outputs": [[[1, 2.0]], [[3, 4]]]});
    for values in [[json!([1, 2]), json!([3, 4])], [json!([[1, 2]]), json!([3.0, 4])]] {
        let mut told = Told { values: values.into_iter().map(Ok).collect(), ..Told::default() };
        assert_eq!(judge(&mut told, Score::All, &tests, "p").verdict, Verdict::Passed);
        assert_eq!(told.asked, ["f[1,2]", "f[3,4]"]);
    }
    let mut told = Told { values: vec![Ok(json!([1, 2])), Ok(json!([4, 3]))], ..Told::default() };
    let report = judge(&mut told, Score::All, &tests, "p");
    assert_eq!(report.reason(), "test 2: wrong answer: expected [[3,4]], found [4,3]");
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

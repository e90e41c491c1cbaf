//! The verifiers `code` and `auto`, as recipes choose them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_reward::Verdict::{Correct, Fault, Unparseable, Wrong};
use isentrope_reward::{Item, Judgement, Verdict, Verifier, VerifierSettings};
use serde_json::{Value, json};

fn settings(value: &Value) -> VerifierSettings {
    serde_json::from_value(value.clone()).unwrap()
}

fn judge(verifier: &dyn Verifier, ground_truth: &Value, response: &str) -> Judgement {
    let item = Item { ground_truth, ..Item::default() };
    verifier.verify_batch(&[(item, response)]).unwrap().remove(0)
}

const SQUARE: &str = "```python\ndef f(x):\n    return x * x\n```";

#[test]
fn a_program_is_worth_what_its_tests_say() {
    let tests =
        json!(["assert f(2) == 4", "assert f(3) == 9", "assert f(-1) == -1", "assert f(0) == 0"]);
    let all = settings(&json!({"code": {"workers": 1}})).build().unwrap();
    let fraction = settings(&json!({"code": {"workers": 1, "score": "fraction"}})).build().unwrap();
    assert_eq!((all.workers(), fraction.workers()), (1, 1));
    let [one, other] = [&*all, &*fraction].map(|verifier| judge(verifier, &tests, SQUARE));
    assert_eq!((one.verdict, one.score, other.verdict, other.score), (Wrong, 0.0, Wrong, 0.75));
    assert_eq!(one.reason, "test 3: wrong answer: assert f(-1) == -1 does not hold");
    assert_eq!(one.extracted.as_deref(), Some("def f(x):\n    return x * x\n"));
    assert_eq!(
        (one.metrics["code/wrong_answer"], one.metrics["code/time_limit"], one.metrics.len()),
        (1.0, 0.0, 5)
    );

    let right = judge(&*all, &json!(["assert f(2) == 4"]), SQUARE);
    assert_eq!(
        (right.verdict, right.score, right.reason.as_str()),
        (Correct, 1.0, "passed 1 test")
    );
    assert!(right.metrics.values().all(|value| *value == 0.0));
    let empty = judge(&*all, &json!(["assert f(2) == 4"]), "");
    assert_eq!((empty.verdict, empty.score, empty.extracted), (Unparseable, 0.0, None));
    let impatient = settings(&json!({"code": {"workers": 1, "timeout_s": 0.5}})).build().unwrap();
    let late = judge(&*impatient, &json!({"inputs": [""], "outputs": [""]}), "while True: pass");
    assert_eq!(late.reason, "test 1: time limit (timeout_s = 0.5, total_timeout_s = 60)");
    let unusable = judge(&*all, &json!(["assert f(2) =="]), SQUARE);
    assert_eq!((unusable.verdict, unusable.metrics.len()), (Fault, 0), "{unusable:?}");
    assert!(
        all.notes()[0].starts_with("reward.verifier: programs run in Python 3"),
        "{:?}",
        all.notes()
    );
}

#[test]
fn auto_runs_programs_where_the_ground_truth_is_their_tests() {
    let auto = settings(&json!("auto")).build().unwrap();
    let (seven, game) = (json!("7"), json!({"numbers": [1, 2], "target": 3}));
    let tests = json!("{\"inputs\": [\"3\"], \"outputs\": [\"9\"]}");
    let item = |ground_truth| Item { ground_truth, ..Item::default() };
    assert_eq!(judge(&*auto, &seven, "\\boxed{7}").verdict, Correct);
    assert_eq!(auto.workers(), 0, "no program has come");
    let batch = [
        (item(&tests), "print(int(input()) ** 2)"),
        (item(&seven), "\\boxed{8}"),
        (item(&tests), "print(1)"),
        (item(&game), "1+2=3!"),
    ];
    let verdicts: Vec<Verdict> =
        auto.verify_batch(&batch).unwrap().iter().map(|j| j.verdict).collect();
    assert_eq!(verdicts, [Correct, Wrong, Wrong, Correct]);
    assert!(auto.workers() > 0);
}

#[test]
fn code_refuses_to_start_without_a_python() {
    let of_nowhere = settings(&json!({"code": {"python": "/nowhere/python3"}}));
    let error = of_nowhere.build().err().unwrap().to_string();
    assert!(error.starts_with("reward.verifier = { code = { ... } }: "), "{error}");
    assert!(error.contains("/nowhere/python3") && error.contains("install Python"), "{error}");
    assert!(error.ends_with("reward.verifier = { code = { python = \"...\" } }"), "{error}");
}

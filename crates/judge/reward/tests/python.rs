//! Python functions as verifiers, run by the Python of this machine.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use isentrope_reward::Verdict::{Correct, Fault, Unparseable, Wrong};
use isentrope_reward::{Item, Judgement, Verdict, Verifier, VerifierError, VerifierSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with the file `reward.py`.
fn directory(code: &str) -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("reward.py"), code).unwrap();
    directory
}

/// The settings of a function of `reward.py`, and others with them.
fn settings(directory: &TempDir, function: &str, others: Value) -> VerifierSettings {
    let mut settings = json!({"workers": 1, "timeout_s": 5, "startup_s": 20});
    settings["python"] =
        format!("{}:{function}", directory.path().join("reward.py").display()).into();
    settings.as_object_mut().unwrap().extend(others.as_object().cloned().unwrap_or_default());
    serde_json::from_value(settings).unwrap()
}

fn start(directory: &TempDir, function: &str) -> Box<dyn Verifier> {
    settings(directory, function, json!({})).build().unwrap()
}

/// Why a function of such a file cannot be used, without the file's directory.
fn refusal(code: &str, function: &str, others: Value) -> String {
    let directory = directory(code);
    let error = settings(&directory, function, others).build().err().unwrap().to_string();
    error.replace(&format!("{}/", directory.path().display()), "")
}

fn judge(verifier: &dyn Verifier, item: Item<'_>, responses: &[&str]) -> Vec<Judgement> {
    let batch: Vec<_> = responses.iter().map(|&response| (item, response)).collect();
    verifier.verify_batch(&batch).unwrap()
}

/// The judgement of a response to a problem without anything.
fn judged(code: &str, function: &str) -> Judgement {
    judge(&*start(&directory(code), function), Item::default(), &["r"]).remove(0)
}

fn measured(judgement: &Judgement) -> Vec<(&str, f64)> {
    judgement.metrics.iter().map(|(name, value)| (name.as_str(), *value)).collect()
}

#[test]
fn a_function_for_verl_is_called_as_verl_calls_it() {
    let directory = directory(
        r#"
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    assert extra_info["num_turns"] is None and extra_info.get("index") in (None, 3), extra_info
    assert data_source == "sums" and isinstance(ground_truth, str)
    return 1.0 if solution_str == ground_truth else -0.25

def by_keyword(*, solution_str, ground_truth, bonus=0, names=(), **kwargs):
    assert sorted(kwargs) == ["data_source", "extra_info"], kwargs
    return {"score": (solution_str == ground_truth) + bonus * len(names)}

async def later(data_source, solution_str, ground_truth, extra_info):
    import asyncio
    await asyncio.sleep(0.01)
    return solution_str == ground_truth

def of_batches(data_sources, solution_strs, ground_truths, extra_infos):
    return [float(s == g) for s, g in zip(solution_strs, ground_truths)]

def short(solution_str, ground_truth):
    return 2

def whole(solution_str, ground_truth):
    return {"score": 0, "pred": ground_truth}
"#,
    );
    let (seven, extra_info) = (json!("7"), json!({"index": 3}));
    let item = Item {
        ground_truth: &seven,
        data_source: "sums",
        extra_info: &extra_info,
        ..Item::default()
    };
    for (function, others, scores) in [
        ("compute_score", json!({}), [1.0, -0.25]),
        ("by_keyword", json!({"arguments": {"bonus": 0.5, "names": ["a", "b"]}}), [2.0, 1.0]),
        ("later", json!({"workers": 2}), [1.0, 0.0]),
        ("of_batches", json!({}), [1.0, 0.0]),
        ("short", json!({}), [2.0, 2.0]),
    ] {
        let verifier = settings(&directory, function, others).build().unwrap();
        let judgements = judge(&*verifier, item, &["7", "8"]);
        for (judgement, score) in judgements.iter().zip(scores) {
            let verdict = if score >= 1.0 { Correct } else { Wrong };
            assert_eq!(
                (judgement.verdict, judgement.score),
                (verdict, score),
                "{function}: {judgement:?}"
            );
        }
        assert_eq!(judgements[0].reason, format!("{function} returned {}", scores[0]));
    }
    let without = Item { ground_truth: &seven, data_source: "sums", ..Item::default() };
    assert_eq!(judge(&*start(&directory, "compute_score"), without, &["7"])[0].score, 1.0);
    // The data has the text that verl's trainer would give, the problem what follows its ####.
    let columns = json!({"reward_model": {"ground_truth": "6 + 1\n#### 7"}});
    let shortened = Item { columns: columns.as_object(), ..without };
    let found = judge(&*start(&directory, "whole"), shortened, &[""]).remove(0).extracted;
    assert_eq!(found.as_deref(), Some("6 + 1\n#### 7"));

    let note = start(&directory, "by_keyword").notes().remove(0);
    let (before, after) = note.split_once(": by_keyword of ").unwrap();
    assert_eq!(before, "reward.verifier.python");
    assert!(
        after.ends_with(
            "reward.py is called as by verl, with data_source, solution_str, ground_truth, extra_info"
        ),
        "{note}"
    );
}

#[test]
fn what_a_dict_has_beside_the_score_is_measured() {
    let found = judged(
        r#"
class Scalar:  # as those of NumPy and PyTorch
    def __float__(self): return 0.5

def f(solution_str):
    return {"score": Scalar(), "acc": True, "pred": 7, "n steps": 3, "mean": Scalar(), "text": "1", "list": [1], "none": None,
            "nan": float("nan")}
"#,
        "f",
    );
    assert_eq!((found.verdict, found.score), (Correct, 0.5), "verl counts acc");
    assert_eq!(found.extracted.as_deref(), Some("7"));
    assert_eq!(measured(&found), [("acc", 1.0), ("function_mean", 0.5), ("n_steps", 3.0)]);
}

#[test]
fn a_function_for_trl_is_called_as_trl_calls_it() {
    let directory = directory(
        r#"
def reward(prompts, completions, nums, target, **kwargs):
    assert prompts == ["p"] and completions == ["6"] and kwargs["ground_truth"] == ["six"], (prompts, completions, kwargs)
    assert kwargs["difficulty"] == ["hard"] and "prompt" not in kwargs and kwargs["data_source"] == ["s"], kwargs
    return [float(sum(n) == t) for n, t in zip(nums, target)]

def chat(prompts, completions, **kwargs):
    assert prompts == [[{"role": "system", "content": "s"}, {"role": "user", "content": "p"}]], prompts
    return [1.0 if completion[0]["content"] == "6" and len(completion) == 1 else 0.0 for completion in completions]

async def later(completions, solution, log_extra=None, log_metric=None, **kwargs):
    log_extra("solution", list(solution))
    log_metric("length", len(completions[0]))
    return [None if s == "none" else 0.5 for s in solution]

def closed(completions, answer):
    return (c == a for c, a in zip(completions, answer))
"#,
    );
    let (gold, columns) = (
        json!("six"),
        json!({"nums": [1, 2, 3], "target": 6, "difficulty": "hard", "solution": "none"}),
    );
    let item = Item {
        ground_truth: &gold,
        prompt: "p",
        data_source: "s",
        columns: columns.as_object(),
        ..Item::default()
    };
    assert_eq!(judge(&*start(&directory, "reward"), item, &["6"])[0].score, 1.0);
    let missing =
        judge(&*start(&directory, "reward"), Item { columns: None, ..item }, &["6"]).remove(0);
    assert_eq!(missing.verdict, Fault);
    assert_eq!(
        missing.reason,
        "reward asks for nums, target; what there is for it: ground_truth, data_source, prompts, completions"
    );

    let messages =
        [json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "p"})];
    let in_chat = Item { messages: Some(&messages), ..item };
    assert_eq!(judge(&*start(&directory, "chat"), in_chat, &["6"])[0].score, 1.0);
    let text = judge(&*start(&directory, "chat"), item, &["6"]).remove(0);
    assert!(text.failed && text.reason.contains("AssertionError: ['p']"), "{text:?}");

    let verifier = start(&directory, "later");
    let none = judge(&*verifier, item, &["abc"]).remove(0);
    let reason = "later returned None: it does not apply to this problem";
    assert_eq!(none, Judgement::inapplicable(reason));
    let half = judge(&*verifier, Item { columns: None, ..item }, &["abc"]).remove(0);
    assert_eq!(
        (half.score, measured(&half)),
        (0.5, vec![("length", 3.0)]),
        "the solution is the ground truth"
    );

    let closed = start(&directory, "closed");
    assert_eq!(judge(&*closed, item, &["six"])[0].score, 1.0);
    assert!(
        closed.notes()[0].contains(
            "by TRL with one response at a time, with completions, the data's columns (answer); "
        ),
        "{:?}",
        closed.notes()
    );
}

#[test]
fn a_sum_leaves_out_what_does_not_apply() {
    let directory = directory(
        r#"
def sums(completions, kind, **kwargs): return [1.0 if k == "sum" else None for k in kind]
def words(completions, kind, **kwargs): return [0.5 if k == "word" else None for k in kind]
"#,
    );
    let part = |function| {
        let part = settings(&directory, function, json!({}));
        json!({"verifier": part, "weight": 2})
    };
    let sum: VerifierSettings =
        serde_json::from_value(json!({"weighted": [part("sums"), part("words")]})).unwrap();
    let verifier = sum.build().unwrap();
    assert_eq!(verifier.notes().len(), 2);
    let judged = |kind: &str| {
        let columns = json!({"kind": kind});
        judge(&*verifier, Item { columns: columns.as_object(), ..Item::default() }, &["r"])
            .remove(0)
    };
    let (sum, word, other) = (judged("sum"), judged("word"), judged("other"));
    assert_eq!((sum.verdict, sum.score, measured(&sum)), (Correct, 2.0, vec![("part_1", 1.0)]));
    assert_eq!((word.verdict, word.score, measured(&word)), (Wrong, 1.0, vec![("part_2", 0.5)]));
    assert_eq!(other, Judgement::inapplicable("no part of the sum applies to this problem"));
}

#[test]
fn what_a_function_does_instead_of_judging_is_a_failure_with_its_reason() {
    let (verl, trl) = ("solution_str", "completions, **kwargs");
    let literal = "ValueError: invalid literal for int() with base 10: 'x' (reward.py, line 2)";
    for (parameters, body, reason) in [
        (verl, "return int('x')", literal),
        (verl, "return {}['a']", "KeyError: 'a' (reward.py, line 2)"),
        (verl, "raise SystemExit(3)", "SystemExit: 3 (reward.py, line 2)"),
        (verl, "import json; return json.loads('{')", "(reward.py, line 2)"),
        (verl, "raise ValueError('a\\nb')", "ValueError: a b (reward.py, line 2)"),
        (verl, "pass", "f returned None, and no number"),
        (verl, "return '1'", "f returned '1', and no number"),
        (verl, "return [1, 2]", "f returned [1, 2], and no number"),
        (verl, "return {'acc': 1}", "f returned a dict without \"score\": its keys are acc"),
        (verl, "return {'score': None}", "f returned None, and no number"),
        (verl, "return float('nan')", "f returned nan: a score is a number from -1e6 to 1e6"),
        (verl, "return 10**7", "f returned 10000000.0: a score is a number from -1e6 to 1e6"),
        (trl, "return 1.0", "f returned 1.0, and no list with a number for each response"),
        (trl, "return None", "f returned None, and no list"),
        (trl, "return '1'", "f returned '1', and no list"),
        (trl, "return []", "f returned 0 values for one response: []"),
        (trl, "return [1, 2]", "f returned 2 values for one response: [1, 2]"),
        (trl, "return ['a']", "f returned 'a', and no number"),
    ] {
        let found = judged(&format!("def f({parameters}):\n    {body}\n"), "f");
        assert_eq!((found.verdict, found.score), (Unparseable, 0.0), "{body}: {found:?}");
        assert!(found.reason.contains(reason) && found.failed, "{body}: {}", found.reason);
    }
}

/// A policy learns what takes a response out of the loss, so nothing in its text may do that.
#[test]
fn a_response_at_which_a_function_fails_has_the_lowest_score() {
    let directory = directory(
        r#"
import ctypes, os

def f(solution_str):
    if "<raise>" in solution_str: raise KeyError(solution_str)
    if "<nan>" in solution_str: return float("nan")
    if "<exit>" in solution_str: os._exit(3)
    if "<crash>" in solution_str: ctypes.string_at(0)
    while "<loop>" in solution_str: pass
    return 1
"#,
    );
    let cases = [
        ("<raise>", "KeyError: '<raise>' (reward.py, line 5)"),
        ("<nan>", "f returned nan: a score is a number"),
        ("<exit>", "3)"),
        ("<crash>", "11"),
        ("<loop>", "the worker gave no answer within 1 s"),
    ];
    let texts: Vec<&str> = cases.iter().flat_map(|(text, _)| ["a", text]).chain(["b"]).collect();
    let hasty = json!({"timeout_s": 1});
    let jailed = in_sandbox(&directory, "f", hasty.clone());
    for settings in [settings(&directory, "f", hasty)].into_iter().chain(jailed) {
        let judged = judge(&*settings.build().unwrap(), Item::default(), &texts);
        let others: Vec<f64> = judged.iter().step_by(2).map(|found| found.score).collect();
        assert_eq!(others, [1.0; 6], "{judged:?}");
        for ((text, reason), found) in cases.iter().zip(judged.iter().skip(1).step_by(2)) {
            let Judgement { verdict, score, failed, .. } = found;
            assert_eq!((*verdict, *score, *failed), (Unparseable, 0.0, true), "{text}: {found:?}");
            assert!(found.reason.contains(reason), "{text}: {}", found.reason);
        }
    }
}

/// A function that fails at some texts, each in its own way, and counts how often it is loaded.
const MARKERS: &str = r#"
import os, time
here = os.path.dirname(os.path.abspath(__file__))
try:
    with open(f"{here}/loads", "a") as file: file.write("x")
except OSError: pass  # in a sandbox
broken = False

def f(completions, **kwargs):
    global broken
    if broken: raise RuntimeError("broken before")
    for text in completions:
        if "<raise>" in text: raise ValueError(text)
        if "<exit>" in text: os._exit(3)
        if "<hang>" in text: time.sleep(1000)
        if "<poison>" in text:
            broken = True
            raise ValueError(text)
    return [len(text) for text in completions]
"#;

/// Each text of letters scores its length, alone and in groups.
#[test]
#[ignore = "deep: waits for the time limits of a function"]
fn a_judgement_does_not_depend_on_what_else_makes_the_function_fail() {
    let directory = directory(MARKERS);
    let cases: [&[&str]; 3] = [
        &["a", "<raise>", "bb", "<raise>", "<raise>", "ccc"],
        &["<hang>", "a", "<exit>", "<exit>", "bb"],
        &["a", "<poison>", "bb", "<raise>", "<poison>", "<poison>", "ccc", "<exit>", "e"],
    ];
    for batch in ["response", "group"] {
        let others = json!({"timeout_s": 0.3, "batch": batch});
        let jailed = in_sandbox(&directory, "f", others.clone());
        for settings in [settings(&directory, "f", others)].into_iter().chain(jailed) {
            for texts in cases {
                let verifier = settings.build().unwrap();
                let backwards: Vec<&str> = texts.iter().rev().copied().collect();
                for texts in [texts, &backwards] {
                    let judged = judge(&*verifier, Item::default(), texts);
                    for (text, found) in texts.iter().zip(&judged) {
                        let fails = text.starts_with('<');
                        let score = if fails { 0.0 } else { text.len() as f64 };
                        assert_eq!((found.score, found.failed), (score, fails), "{texts:?}");
                        assert!(!found.reason.contains("before"), "{texts:?}: {found:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_error_costs_no_fresh_worker() {
    let directory = directory(MARKERS);
    let verifier = start(&directory, "f");
    let judged = judge(&*verifier, Item::default(), &["<raise>", "a", "a"].repeat(10));
    assert_eq!(judged.iter().filter(|judgement| judgement.failed).count(), 10);
    assert_eq!(fs::read_to_string(directory.path().join("loads")).unwrap(), "x");
}

/// Failures are counted by responses, of groups too.
#[test]
#[ignore = "deep: waits for the time limits of a function"]
fn a_few_responses_of_each_group_do_not_end_a_run_and_most_do() {
    let directory = directory(MARKERS);
    for (culprit, failing, groups) in [("<raise>", 1, 33), ("<exit>", 1, 2), ("<exit>", 9, 3)] {
        let verifier = settings(&directory, "f", json!({"batch": "group"})).build().unwrap();
        let texts = [vec![culprit; failing], vec!["aa"; 16 - failing]].concat();
        for _ in 0..groups {
            let judged = judge(&*verifier, Item::default(), &texts);
            let failed = judged.iter().map(|judgement| judgement.failed);
            assert!(failed.eq((0..16).map(|i| i < failing)), "{culprit}: {judged:?}");
            assert_eq!(judged[15].score, 2.0);
        }
        if failing > 1 {
            let batch: Vec<_> = texts.iter().map(|text| (Item::default(), *text)).collect();
            let error = verifier.verify_batch(&batch).unwrap_err().to_string();
            assert!(error.contains("workers failed at 32 of the last 64 responses"), "{error}");
        }
    }
}

/// The time of a call is that of all its responses, and a group has a few times that.
#[test]
#[ignore = "deep: waits for the time limits of a function"]
fn a_slow_group_is_judged_and_one_without_end_has_its_time() {
    let directory = directory(
        r#"
import time
def f(completions, **kwargs):
    if "<hang>" in completions: time.sleep(1000)
    time.sleep(0.2 * len(completions))
    if completions[0] == "slow": time.sleep(len(completions) ** 2 / 10)
    return [1] * len(completions)
"#,
    );
    let others = json!({"timeout_s": 0.5, "batch": "group"});
    let verifier = settings(&directory, "f", others).build().unwrap();
    let judge = |texts: &[&str]| judge(&*verifier, Item::default(), texts);
    assert!(judge(&["a"; 4]).iter().all(|judgement| judgement.score == 1.0));
    let started = Instant::now();
    let hang = judge(&["<hang>", "a", "<hang>"]);
    assert_eq!([0, 1, 2].map(|i| hang[i].failed), [true, false, true], "{hang:?}");
    let all = judge(&["<hang>"; 3]);
    assert!(all.iter().all(|judgement| judgement.failed), "{all:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    // Together they take too long, and alone they do not: the group is as one that fails at all.
    let slow = judge(&["slow"; 4]);
    let is_late = |j: &Judgement| j.failed && j.reason.contains("gave no answer within 2 s");
    assert!(slow.iter().all(is_late), "{slow:?}");
}

#[test]
#[ignore = "deep: waits for many workers to end"]
fn a_function_that_fails_at_half_of_all_responses_stops_the_verifier() {
    let broken = directory("def f(solution_str): return answer");
    let half = directory("def f(solution_str): return 1 if solution_str == '0' else answer");
    for (directory, even) in [(broken, "0"), (half, "1")] {
        let batch: Vec<_> =
            (0..64).map(|i| (Item::default(), if i % 2 == 0 { even } else { "0" })).collect();
        let error = start(&directory, "f").verify_batch(&batch).unwrap_err().to_string();
        let why = "workers failed at 32 of the last 64 responses; the last said NameError: name \
                   'answer' is not defined (reward.py, line 1)";
        assert!(error.contains(why), "{error}");
    }
}

/// A reward that is wrong unless it is given whole groups, and nothing beside.
const PLACES: &str = r#"
import os

def places(prompts, completions, size, seen, **kwargs):
    count = len(completions)
    assert len(prompts) == len(size) == count and size[0] in (0, count), completions
    seen[0].append(1)
    assert seen[1:] == [[]] * (len(seen) - 1), "each response has its own"
    for text in completions:
        if "<raise>" in text: raise ValueError(text)
        if "<exit>" in text: os._exit(3)
    if len(completions) == 3 and len(set(completions)) == 1: raise ZeroDivisionError
    return [sorted(completions).index(text) / 8 for text in completions]

def of_verl(data_sources, solution_strs, ground_truths, extra_infos):
    assert data_sources == ["s"] * 3 and ground_truths == ["g"] * 3 and len(extra_infos) == 3
    score = len(set(solution_strs))
    return [{"score": score, "acc": text == "a", "pred": text} for text in solution_strs]

def chat(prompts, completions, **kwargs):
    assert prompts == [[{"role": "user", "content": "p"}]] * 2, prompts
    return [None if completion[0]["content"] == "a" else 0.5 for completion in completions]

def single(solution_str): return 1
"#;

#[test]
fn a_function_may_judge_whole_groups() {
    let directory = directory(PLACES);
    let group = json!({"batch": "group", "timeout_s": 2});
    let gold = json!("g");
    let (whole, any) = (json!({"size": 3, "seen": []}), json!({"size": 0, "seen": []}));
    let jailed = in_sandbox(&directory, "places", group.clone());
    for settings in [settings(&directory, "places", group.clone())].into_iter().chain(jailed) {
        let verifier = settings.build().unwrap();
        assert!(verifier.judges_groups());
        assert!(
            verifier.notes()[0].contains("is called as by TRL with whole groups, with prompts")
        );
        let judge_by = |columns: &Value, texts: &[&str]| {
            judge(&*verifier, Item { columns: columns.as_object(), ..Item::default() }, texts)
        };
        let scores = |columns: &Value, texts: &[&str]| {
            judge_by(columns, texts).iter().map(|j| (j.score, j.failed)).collect::<Vec<_>>()
        };
        let places = [(0.25, false), (0.0, false), (0.125, false)];
        assert_eq!(scores(&whole, &["c", "a", "b"]), places);
        // One at which it fails alone fails, and the others are a group without it.
        for culprit in ["<raise>", "<exit>"] {
            let found = scores(&any, &["b", culprit, "a"]);
            assert_eq!(found, [(0.125, false), (0.0, true), (0.0, false)], "{culprit}");
        }
        // It fails at no member alone.
        let equal = judge_by(&any, &["a", "a", "a"]);
        assert!(equal.iter().all(|j| j.failed), "{equal:?}");
        assert!(equal[0].reason.starts_with("ZeroDivisionError"), "{equal:?}");
    }
    let verl = settings(&directory, "of_verl", group.clone()).build().unwrap();
    let of_verl = Item { ground_truth: &gold, data_source: "s", ..Item::default() };
    let judged = judge(&*verl, of_verl, &["a", "b", "a"]);
    let found: Vec<_> =
        judged.iter().map(|j| (j.verdict, j.score, j.extracted.as_deref())).collect();
    let of = |verdict, text| (verdict, 2.0, Some(text));
    assert_eq!(found, [of(Correct, "a"), of(Wrong, "b"), of(Correct, "a")]);
    let messages = [json!({"role": "user", "content": "p"})];
    let in_chat = Item { messages: Some(&messages), ..Item::default() };
    let chat = settings(&directory, "chat", group.clone()).build().unwrap();
    let judged = judge(&*chat, in_chat, &["a", "b"]);
    assert_eq!((judged[0].applies, judged[1].score), (false, 0.5));
    let error = refusal(PLACES, "single", group);
    assert!(error.contains("takes one response, solution_str, and batch is \"group\""), "{error}");
}

/// Halves of characters, brackets without end and texts without end come from responses.
#[test]
fn the_form_of_a_response_makes_no_fault() {
    let directory = directory(
        r#"
import hashlib, json

def f(solution_str):
    answer = json.loads(solution_str)
    if "error" in answer: raise ValueError(answer["error"])
    if "key" in answer: return {answer["key"]: 1}
    if "hash" in answer: return len(hashlib.sha256(answer["hash"].encode()).digest())
    print(answer["pred"])
    return {"score": 0, "pred": answer["pred"], answer["pred"][:9]: 2}
"#,
    );
    let long = format!(r#"{{"pred": "{}"}}"#, "\\u0001".repeat(3 << 20));
    let responses = [
        (r#"{"pred": "\ud83d!"}"#, Wrong, "f returned 0"),
        (&long, Wrong, "f returned 0"),
        (r#"{"hash": "\ud83d"}"#, Unparseable, "UnicodeEncodeError: "),
        (&"[".repeat(100_000), Unparseable, "RecursionError: "),
        (r#"{"error": "\ud83d"}"#, Unparseable, "ValueError: ?"),
        (r#"{"key": "\ud83d"}"#, Unparseable, "its keys are ?"),
    ];
    let texts = responses.map(|(response, ..)| response);
    let jailed = in_sandbox(&directory, "f", json!({}));
    for settings in [settings(&directory, "f", json!({}))].into_iter().chain(jailed) {
        let judged = judge(&*settings.build().unwrap(), Item::default(), &texts);
        for ((_, verdict, reason), found) in responses.iter().zip(&judged) {
            assert_eq!((found.verdict, found.score), (*verdict, 0.0), "{reason}: {found:?}");
            assert!(found.reason.contains(reason), "{reason}: {}", found.reason);
        }
        assert_eq!(judged[0].extracted.as_deref(), Some("?!"));
        assert_eq!(judged[1].extracted.as_ref().map(String::len), Some(1 << 16));
    }
}

#[test]
fn a_function_that_cannot_be_used_is_refused_before_the_first_question() {
    let some =
        "import json\nclass Reward: pass\ndef first(solution_str): pass\ndef second(a): pass\n";
    let of_loading = "while it loaded the function";
    let none = json!({});
    let argument = json!({"arguments": {"y": 1}});
    let python = |name: &str| json!({"interpreter": name});
    let hasty = json!({"timeout_s": 0.2, "startup_s": 0.3});
    for (code, others, why) in [
        (some, &none, "reward.py has no function f; it has first, second"),
        ("", &none, "reward.py has no function f; it has none"),
        ("def ff(x): pass", &none, "it has ff; did you mean ff?"),
        ("f = 1", &none, "f in reward.py must be a function, and is of the type int"),
        ("class f: pass", &none, "f in reward.py must be a function, and is of the type type"),
        ("def f(a, b=1): pass", &none, "has the parameters (a, b), by which it is neither"),
        ("def f(*args, **kwargs): pass", &none, "has the parameters (*args, **kwargs), by which"),
        ("def f(solution_str): pass", &argument, "does not take y, which `arguments` has"),
        (
            "def f(solution_str, trainer_state): pass",
            &none,
            "asks for trainer_state, and a verifier",
        ),
        ("def f(completion_ids, **kwargs): pass", &none, "asks for completion_ids, and a verifier"),
        ("def f(solution_str, alpha): pass", &none, "asks for alpha, which neither verl nor"),
        ("import nonesuch", &none, "reward.py\", line 1, in <module>\n  "),
        ("import nonesuch", &none, "ModuleNotFoundError: No module named 'nonesuch'"),
        ("import nonesuch", &none, "or name another Python in `interpreter`"),
        ("x = (", &none, "SyntaxError: "),
        ("import sys; sys.exit(2)", &none, "reward.py cannot be imported:\n  Traceback"),
        ("import os; os._exit(2)", &none, &format!("ended (exit status: 2) {of_loading}")),
        ("", &python("python-9"), "\"python-9\" cannot be started: No such file"),
        ("", &python("python-9"), "install Python 3, or name it in `interpreter`"),
        ("", &python("false"), &format!("a worker ended (exit status: 1) {of_loading}")),
        ("import time; time.sleep(9)", &hasty, &format!("no answer within 0.5 s {of_loading}")),
    ] {
        let error = refusal(code, "f", others.clone());
        assert!(error.starts_with("reward.verifier.python = \"reward.py:f\": "), "{error}");
        assert!(error.contains(why), "{code}: {error}");
        assert!(
            !error.contains("<string>") && !error.contains("importlib"),
            "only the user's code: {error}"
        );
    }
    // A file alone, as a flag takes it.
    for (code, why) in
        [(some, "; name one: "), (some, "reward.py:first or "), ("", "; it has none")]
    {
        let whole = directory(code);
        let others = json!({"python": whole.path().join("reward.py")});
        let error = settings(&whole, "", others).build().err().unwrap().to_string();
        assert!(
            error.contains("reward.py is named without a function") && error.contains(why),
            "{error}"
        );
    }
    let gone = directory("");
    fs::remove_file(gone.path().join("reward.py")).unwrap();
    let error = settings(&gone, "f", json!({})).build().err().unwrap().to_string();
    let here = std::env::current_dir().unwrap();
    assert!(
        error.contains("there is no file") && error.contains(here.to_str().unwrap()),
        "{error}"
    );
}

#[test]
fn what_is_printed_or_read_does_not_meet_the_protocol() {
    let found = judged(
        r#"
import os, subprocess, sys
print("importing", flush=True)
os.write(1, b"{}\n")

def f(solution_str):
    print({"id": 0, "score": 0})
    sys.stdout.flush()
    subprocess.run(["echo", "a child"], check=True)
    return 1 if sys.stdin.read() == "" else 0
"#,
        "f",
    );
    assert_eq!((found.verdict, found.score), (Correct, 1.0), "{found:?}");
}

#[test]
fn modules_beside_the_file_are_found_and_those_of_python_are_its_own() {
    let directory =
        directory("import helper\ndef f(solution_str): return helper.score(solution_str)");
    fs::write(
        directory.path().join("helper.py"),
        "import json\ndef score(text): return json.loads(text)",
    )
    .unwrap();
    assert_eq!(judge(&*start(&directory, "f"), Item::default(), &["0.5"])[0].score, 0.5);
    // A file of the name of a module that is there already.
    fs::write(directory.path().join("json.py"), "def f(solution_str): return 0.25").unwrap();
    let place = format!("{}:f", directory.path().join("json.py").display());
    let settings: VerifierSettings = serde_json::from_value(json!({"python": place})).unwrap();
    assert_eq!(judge(&*settings.build().unwrap(), Item::default(), &[""])[0].score, 0.25);
    // A module that is installed, here one of Python's own.
    let settings: VerifierSettings =
        serde_json::from_value(json!({"python": "json:loads"})).unwrap();
    let error = settings.build().err().unwrap().to_string();
    assert!(error.contains("\"json:loads\": loads of json has the parameters (s, cls"), "{error}");
}

/// A file that has become another since the run began.
#[test]
fn a_function_that_is_gone_for_fresh_workers_stops_the_verifier() {
    let directory = directory("import os\ndef f(solution_str): os._exit(0)");
    let verifier = start(&directory, "f");
    fs::write(directory.path().join("reward.py"), "def g(): pass").unwrap();
    let batch = vec![(Item::default(), ""); 100];
    let error: VerifierError = verifier.verify_batch(&batch).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("8 fresh workers in a row failed")
            && said.contains("has no function f; it has g"),
        "{said}"
    );
}

/// The settings of a function in a sandbox, or nothing where there is no sandbox, which it says.
fn in_sandbox(directory: &TempDir, function: &str, others: Value) -> Option<VerifierSettings> {
    use std::os::unix::fs::PermissionsExt;
    if let Err(why) = isentrope_sandbox::Sandbox::find() {
        let _ =
            writeln!(std::io::stderr(), "a test of Python rewards in a sandbox is left out: {why}");
        return None;
    }
    // As other directories are: root's own would be closed to the user that a jail has.
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut all = json!({"sandbox": true});
    all.as_object_mut().unwrap().extend(others.as_object().cloned().unwrap_or_default());
    Some(settings(directory, function, all))
}

#[test]
fn in_a_sandbox_a_function_sees_its_directory_and_no_more() {
    let directory = directory(
        r#"
import asyncio, decimal, helper, json, os, socket, subprocess, sys, threading
print("importing")

def refused(attempt, *arguments):
    try:
        attempt(*arguments)
        return 0
    except (OSError, PermissionError):
        return 1

def f(solution_str, ground_truth, alpha):
    results = {"score": helper.score(solution_str, ground_truth) * alpha}
    results["own"] = open(__file__).read().startswith("\nimport")
    results["temporary"] = open("/tmp/x", "w").write("x")
    results["secret"] = refused(open, ground_truth)
    results["passwords"] = refused(open, "/etc/passwd")
    results["read_only"] = refused(open, __file__, "a")
    results["network"] = refused(socket.create_connection, ("127.0.0.1", 9))
    results["environment"] = "HOME_OF_SECRETS" not in os.environ and "CARGO" not in os.environ
    return results

async def later(completions, **kwargs):
    await asyncio.sleep(0.01)
    return [0.5]
"#,
    );
    fs::write(directory.path().join("helper.py"), "def score(text, _): return float(text)")
        .unwrap();
    let secret = tempfile::NamedTempFile::new().unwrap();
    let others = json!({"arguments": {"alpha": 0.5}, "workers": 2});
    let Some(settings) = in_sandbox(&directory, "f", others) else { return };
    let verifier = settings.build().unwrap();
    let note = verifier.notes().remove(0);
    assert!(
        note.contains(" is called as by verl, with ") && note.contains("; it is in a sandbox ("),
        "{note}"
    );
    let place = json!(secret.path());
    let judged =
        judge(&*verifier, Item { ground_truth: &place, ..Item::default() }, &["1", "0.25"]);
    assert_eq!([judged[0].score, judged[1].score], [0.5, 0.125], "{judged:?}");
    assert_eq!(judged[0].metrics.len(), 7);
    assert!(judged[0].metrics.values().all(|&held| held == 1.0), "{judged:?}");
    drop(verifier);

    let verifier = in_sandbox(&directory, "later", json!({})).unwrap().build().unwrap();
    assert_eq!(judge(&*verifier, Item::default(), &[""])[0].score, 0.5);
}

#[test]
#[ignore = "deep: fills 4 GiB of memory"]
fn in_a_sandbox_a_function_that_takes_too_much_memory_ends() {
    let directory = directory(
        r#"
import os

def hungry(solution_str):
    if solution_str == "hungry":
        return len([bytearray(os.urandom(1 << 20)) * 64 for _ in range(1000)])
    return 1
"#,
    );
    let Some(settings) = in_sandbox(&directory, "hungry", json!({"timeout_s": 60})) else { return };
    let verifier = settings.build().unwrap();
    let judged = judge(&*verifier, Item::default(), &["a", "hungry", "b"]);
    let verdicts: Vec<Verdict> = judged.iter().map(|judgement| judgement.verdict).collect();
    assert_eq!(verdicts, [Correct, Unparseable, Correct], "{judged:?}");
    let memory = "the worker ended (it took more memory than its sandbox gives)";
    assert!(judged[1].reason.starts_with(memory), "{judged:?}");
}

/// Files and processes that judged code leaves behind could speak for or against the next response.
#[test]
fn in_a_sandbox_nothing_of_a_response_is_left_for_the_next() {
    let directory = directory(
        r#"
import os, time
seen, calls = [], 0

def f(solution_str):
    global calls
    calls += 1
    if solution_str == "look":
        others = [each for each in range(2, 400) if alive(each)]
        # The directory of this file may be mounted there.
        files = [each for each in os.listdir("/tmp") if not __file__.startswith(f"/tmp/{each}/")]
        files += [each for each in ["time"] if os.stat("/tmp").st_mtime_ns == 5]
        return 1.0 if calls == 1 and not seen and not files and others == [os.getpid()] else 0.0
    if solution_str == "ends":
        os._exit(7)
    seen.append(solution_str)
    if os.fork() == 0:
        os.setsid()
        while True:
            time.sleep(1)
    for n in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.makedirs("/tmp/closed/in")
    os.chmod("/tmp/closed/in", 0)
    os.chmod("/tmp/closed", 0)
    open("/tmp/-rf", "w").close()
    os.utime("/tmp", ns=(5, 5))
    os.chmod("/tmp", 0)
    for fd in range(3, 20):
        try: os.write(fd, b'{"id": 0}\n')
        except OSError: pass
    return 0.5

def alive(process):
    try: os.kill(process, 0)
    except OSError: return False
    return True

def host(solution_str):
    return len(open("/etc/passwd").read())
"#,
    );
    let Some(settings) = in_sandbox(&directory, "f", json!({"workers": 1})) else { return };
    let verifier = settings.build().unwrap();
    let judged = judge(&*verifier, Item::default(), &["look", "leave", "look", "ends", "look"]);
    let of = |i: usize| (judged[i].verdict, judged[i].score);
    for looked in [0, 2, 4] {
        assert_eq!(of(looked), (Correct, 1.0), "{judged:?}");
    }
    assert_eq!(judged[3].verdict, Unparseable);
    assert_eq!(judged[3].reason, "the function has ended its process (exit status 7)");
    let verifier = in_sandbox(&directory, "host", json!({})).unwrap().build().unwrap();
    let judged = judge(&*verifier, Item::default(), &[""]);
    assert!(judged[0].reason.contains("(in the sandbox, which sees only"), "{judged:?}");
}

#[test]
fn a_worker_that_a_function_ends_or_holds_up_is_replaced_and_loading_has_a_time_of_its_own() {
    let directory = directory(
        r#"
import os, time
time.sleep(0.6)

def f(solution_str):
    if solution_str == "ends": os._exit(7)
    if solution_str == "hangs": time.sleep(1000)
    return 1
"#,
    );
    let verifier = settings(&directory, "f", json!({"timeout_s": 0.3})).build().unwrap();
    let started = Instant::now();
    let judged = judge(&*verifier, Item::default(), &["a", "ends", "b", "hangs", "c"]);
    assert!(started.elapsed() < Duration::from_secs(20));
    let verdicts: Vec<Verdict> = judged.iter().map(|judgement| judgement.verdict).collect();
    let correct = Correct;
    assert_eq!(verdicts, [correct, Unparseable, correct, Unparseable, correct]);
    assert_eq!(judged[1].reason, "the worker ended (exit status: 7)");
    assert_eq!(judged[3].reason, "the worker gave no answer within 0.3 s");
}

#[test]
fn in_a_sandbox_what_cannot_be_used_is_refused_too() {
    let directory = directory("import nonesuch");
    for (others, why) in [
        (json!({}), "ModuleNotFoundError: No module named 'nonesuch'"),
        (
            json!({"interpreter": "python-9"}),
            "the interpreter \"python-9\" cannot be started: No such file",
        ),
        (json!({"interpreter": "false"}), "\"false\" is no Python 3.8 or later"),
    ] {
        let Some(settings) = in_sandbox(&directory, "f", others) else { return };
        let error = settings.build().err().unwrap().to_string();
        assert!(error.starts_with("reward.verifier.python = ") && error.contains(why), "{error}");
    }
}

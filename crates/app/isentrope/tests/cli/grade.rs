//! `grade`: verdicts on given responses. `crates/judge/reward` and `crates/judge/grader` test the
//! verifiers.

use crate::processes::{send, wait_until};
use crate::program::{
    Scratch, assert_parts, can_judge_programs, failure_saying, has_python, isentrope, json_lines,
    lines_of, outcome, output_for, parse_lines, spoken, stderr, stdout_of,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Lines of `grade --in FILE`, and what it said on standard error.
fn grade(input: &[Value], flags: &str) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let input = scratch.lines("input.jsonl", input);
    let (printed, said) = spoken(isentrope(format!("grade --in {input} {flags}")));
    (parse_lines(&printed), said)
}

fn verdicts(input: &[Value], flags: &str) -> Vec<String> {
    grade(input, flags).0.iter().map(|line| line["verdict"].as_str().unwrap().to_owned()).collect()
}

/// Many lines; every third is wrong.
fn many(count: usize) -> Vec<Value> {
    let response =
        |i: usize| format!("So it is \\boxed{{{}}}.", i + usize::from(i.is_multiple_of(3)));
    (0..count).map(|i| json!({"id": i, "gold": i, "response": response(i)})).collect()
}

#[test]
fn ground_truths_and_responses_are_found_under_their_usual_names() {
    let right = [
        json!({"gold": "7", "response": "\\boxed{7}"}),
        json!({"reward_model": {"ground_truth": "7"}, "pred": "\\boxed{7}"}),
        json!({"ground_truth": 7, "prediction": "7"}),
        json!({"answer": ["6", "7"], "completion": "It is 7."}),
        json!({"answer": "3 + 4 = <<3+4=7>>7\n#### 7", "output": "#### 7"}),
        json!({"problem": "?", "solution": "Thus $3+4 = \\boxed{7}$.", "response": 7}),
        // The first name in the help's order counts; null counts as absent.
        json!({"gold": "7", "answer": "8", "response": "7", "pred": "8"}),
        json!({"gold": null, "answer": "7", "response": "7"}),
        // As training and evaluation read it.
        json!({"expected_answer": "7", "solution": "so \\boxed{8}", "response": "7"}),
        json!({"Answer": "7", "extra_info": {"answer": "8"}, "response": "7"}),
        json!({"extra_info": {"answer": "7"}, "response": "7"}),
        json!({"ground_truth": {"numbers": [1, 2], "target": 3}, "response": "1+2=3!"}),
    ];
    assert_eq!(verdicts(&right, ""), ["correct"; 12]);
    let named = [json!({"gold": "8", "target": {"text": "7"}, "response": "8", "mine": "7"})];
    assert_eq!(verdicts(&named, "--gold target.text --response mine"), ["correct"]);
    assert_eq!(verdicts(&right[10..], "--verifier math"), ["correct", "fault"]);
    let scratch = Scratch::new();
    let null = scratch.lines("null.jsonl", &[json!({"gold": null, "response": "7"})]);
    let says = ["null.jsonl:1: column gold is null", "--gold names a key"];
    failure_saying(isentrope(format!("grade --in {null}")), &says);
    let known = [json!({"data_source": "sums", "gold": 3, "response": "3"})];
    let by_source = "--verifier '{by_data_source = {sums = \"math\"}}'";
    assert_eq!(verdicts(&known, by_source), ["correct"]);
}

#[test]
fn a_line_comes_back_as_it_was_with_its_judgement() {
    let line = json!({"zeta": 1, "gold": "7", "pred": "\\boxed{ 8 }", "alpha": [1.50, null]});
    let (lines, _) = grade(&[line], "");
    let keys: Vec<&String> = lines[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["zeta", "gold", "pred", "alpha", "verdict", "score", "extracted", "reason"]);
    assert_eq!((&lines[0]["verdict"], &lines[0]["score"]), (&json!("wrong"), &json!(0.0)));
    assert_eq!((&lines[0]["extracted"], &lines[0]["alpha"]), (&json!("8"), &json!([1.5, null])));
    // An older judgement is replaced where it stands.
    let mut older = lines[0].clone();
    older["gold"] = json!("8");
    let (again, _) = grade(&[older], "");
    assert_eq!(again[0].as_object().unwrap().keys().collect::<Vec<_>>(), keys);
    assert_eq!(again[0]["verdict"], "correct");
    // An older judgement's further fields go with it; without a verdict they are the line's own.
    let line = json!({"gold": "2", "response": "\\boxed{2}", "failed": true, "metrics": {"x": 1}});
    let mut judged = line.clone();
    judged["verdict"] = json!("fault");
    let (lines, _) = grade(&[judged, line], "");
    assert_eq!((lines[0].get("failed"), lines[0].get("metrics")), (None, None));
    assert_eq!(lines[0]["verdict"], "correct");
    assert_eq!(lines[1]["metrics"], json!({"x": 1}));
    let (nothing, _) = grade(&[json!({"gold": "7", "pred": ""})], "");
    let judged = (&nothing[0]["verdict"], &nothing[0]["extracted"]);
    assert_eq!(judged, (&json!("unparseable"), &Value::Null));
}

#[test]
fn lines_keep_their_order_on_any_number_of_threads() {
    let input = many(2100);
    let (one, _) = grade(&input, "--threads 1");
    for (i, line) in one.iter().enumerate() {
        let verdict = if i % 3 == 0 { "wrong" } else { "correct" };
        assert_eq!((&line["id"], &line["verdict"]), (&json!(i), &json!(verdict)));
    }
    assert!(grade(&input, "--threads 7").0 == one);
}

#[test]
fn totals_say_what_there_was_and_what_was_expected() {
    let line = |gold: Value, pred: &str, expected: Value| json!({"gold": gold, "pred": pred, "expected": expected});
    let (lines, said) = grade(
        &[
            line(json!("7"), "7", json!(1)),
            line(json!("7"), "8", json!(true)),
            line(json!("7"), "", json!(null)),
            line(json!({}), "7", json!(0)),
        ],
        "",
    );
    let unjudged = format!(
        "1 could not be judged; the first, line 4: {}\n",
        lines[3]["reason"].as_str().unwrap()
    );
    assert_parts(
        &said,
        &[
            "judged 4 lines",
            "1 correct (25.0 %), 1 wrong (25.0 %), 1 unparseable (25.0 %), 1 fault (25.0 %)",
            "mean score 0.3333",
            "as expected: 1 of 2 (50.0 %), 1 more could not be judged; not so: line 2\n",
            &unjudged,
        ],
    );
    // A file without a line that can be judged is a failure; its judgements are printed all the same.
    let scratch = Scratch::new();
    let lines = [line(json!({}), "7", json!(1)), line(json!({}), "7", json!(0))];
    let input = scratch.lines("input.jsonl", &lines);
    let (output, said) = outcome(isentrope(format!("grade --in {input}")));
    assert_eq!(output.status.code(), Some(1), "{said}");
    let none = "error: no line could be judged; the first, line 1: ";
    assert_parts(&said, &["as expected: none of 2 could be judged\n", none]);
    assert_eq!(parse_lines(&String::from_utf8(output.stdout).unwrap()).len(), 2);
    let (_, said) = grade(&vec![line(json!(7), "8", json!(1)); 23], "");
    assert_parts(&said, &["0 of 23 (0.0 %); not so: line 1, 2, ", ", 20 and 3 more\n"]);
}

/// Python writes lone surrogates and numbers of any size, which not every reader has; blank lines
/// count in numbers of lines.
#[test]
fn lines_that_are_no_json_are_faults_among_others() {
    let huge = "1".repeat(400);
    let good = r#"{"gold": 1, "pred": "1"}"#;
    let text = format!(
        "{good}\n\n{{\"gold\": 1, \"pred\": \"\\ud83d\"}}\n{{\"gold\": {huge}, \"pred\": \"1\"}}\nnot json\n{good}"
    );
    // Standard input is a file too.
    let output = output_for(&text, isentrope("grade --in -"));
    let parts = [
        "2 correct (40.0 %), 3 fault (60.0 %); mean score 1.0000",
        "3 could not be judged; the first, line 3: ",
    ];
    assert_parts(&stderr(&output), &parts);
    let lines = parse_lines(&String::from_utf8(output.stdout).unwrap());
    let verdicts: Vec<&Value> = lines.iter().map(|line| &line["verdict"]).collect();
    assert_eq!(verdicts, ["correct", "fault", "fault", "fault", "correct"]);
    assert_eq!(lines[2]["line"], 4);
    assert!(lines[2]["reason"].as_str().unwrap().contains("out of range"), "{}", lines[2]);
}

#[cfg(unix)]
#[test]
fn a_command_judges_without_a_ground_truth() {
    let reply = r#"while read -r line; do id=${line#*"\"id\":"}
        echo "{\"id\":${id%%,*},\"score\":0.25}"; done"#;
    let scratch = Scratch::new();
    let script = scratch.file("reply.sh", reply);
    let verifier = format!("--verifier {{command=[\"sh\",{script:?}]}}");
    let (lines, said) = grade(&vec![json!({"response": "A haiku"}); 5], &verifier);
    assert!(lines.iter().all(|line| line["score"] == 0.25), "{lines:?}");
    assert_parts(&said, &["mean score 0.2500"]);
    // A key that is named must be there.
    let input = scratch.lines("input.jsonl", &[json!({"gold": "x", "response": "A haiku"})]);
    failure_saying(
        isentrope(format!("grade --in {input} {verifier} --gold glod")),
        &["input.jsonl:1: column glod is missing", "--gold names a key"],
    );
}

/// As in training, where nothing is worse.
#[cfg(unix)]
#[test]
fn a_line_at_which_the_verifier_fails_scores_0() {
    let reply = r#"while read -r line; do id=${line#*"\"id\":"}
        case $line in *"bad"*) exit 3;; esac; echo "{\"id\":${id%%,*},\"score\":1}"; done"#;
    let scratch = Scratch::new();
    let script = scratch.file("reply.sh", reply);
    let verifier = format!("--verifier {{command=[\"sh\",{script:?}]}}");
    let row = |response: &str| json!({"prompt": "p", "gold": "1", "response": response});
    let (lines, said) = grade(&["good", "bad", "good", "good"].map(row), &verifier);
    assert_eq!((&lines[1]["verdict"], &lines[1]["score"]), (&json!("unparseable"), &json!(0.0)));
    let failed = "1 score 0, since judging them failed; the first, line 2: the worker ended";
    assert_parts(&said, &["mean score 0.7500", failed]);
}

#[test]
fn a_traceback_is_shown_once_for_each_response() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new();
    let raises = "def reward(completions, **_):\n    raise ValueError(max(completions))\n";
    let file = scratch.file("reward.py", raises);
    for batch in ["response", "group"] {
        let verifier =
            format!("--verifier {{python=\"{file}:reward\",batch=\"{batch}\",workers=1}}");
        let row = |response: &str| json!({"prompt": "p", "gold": "1", "response": response});
        let rows = scratch.lines("rows.jsonl", &["a", "b", "c"].map(row));
        let said = stderr(&isentrope(format!("grade --in {rows} {verifier}")).output().unwrap());
        for response in ["a", "b", "c"] {
            let shown = format!("function: ValueError: {response}\n");
            assert_eq!(said.matches(&shown).count(), 1, "{batch}: {said}");
        }
    }
}

#[cfg(unix)]
#[test]
fn lines_of_a_problem_are_judged_as_a_group() {
    // The score is the number of responses in the group.
    let reply = r#"while read -r line; do id=${line#*"\"id\":"}
        of=${line#*'"responses":['}; of=${of%%']'*}; n=$(echo "$of" | tr ',' '\n' | wc -l); all=
        for i in $(seq $n); do all="$all,{\"score\":$n}"; done
        echo "{\"id\":${id%%,*},\"answers\":[${all#,}]}"; done"#;
    let scratch = Scratch::new();
    let script = scratch.file("reply.sh", reply);
    let verifier = format!("--verifier {{command=[\"sh\",{script:?}],batch=\"group\"}}");
    let row = |prompt: &str, gold: &str| json!({"prompt": prompt, "gold": gold, "response": "r"});
    let rows = [("p", "1"), ("p", "1"), ("p", "1"), ("q", "1"), ("q", "2"), ("q", "2"), ("p", "1")];
    let (lines, said) = grade(&rows.map(|(prompt, gold)| row(prompt, gold)), &verifier);
    let scores: Vec<f64> = lines.iter().map(|line| line["score"].as_f64().unwrap()).collect();
    assert_eq!(scores, [3.0, 3.0, 3.0, 1.0, 2.0, 2.0, 1.0]);
    assert_parts(&said, &["judged 7 lines"]);
}

#[test]
fn one_response_is_explained() {
    let explained =
        |gold: &str, response: &str| stdout_of(isentrope(&["grade", "--explain", gold, response]));
    assert_parts(&explained("3/4", "So it is \\boxed{0.75}."), &["3/4", "0.75", "Correct"]);
    assert_parts(&explained("-3", "-x"), &["-3"]);
    assert_parts(&explained("{\"numbers\": [1, 2], \"target\": 3}", "1+2=4!"), &["Wrong"]);
    if !can_judge_programs() {
        return;
    }
    let tests = r#"{"fn_name": "f", "inputs": [[2], [3]], "outputs": [4, 9]}"#;
    let said = explained(tests, "def f(x): return x * x");
    assert!(said.starts_with("tests: 2 tests, calls of f\nresponse: def f(x)"), "{said}");
    assert!(said.ends_with("Correct: passed 2 tests\n"), "{said}");
}

/// The labels of `tests/fixtures/grading`; docs/guides/data-and-rewards.md argues the differences.
#[test]
fn verdicts_are_those_of_people_and_of_construction() {
    let none: &[usize] = &[];
    let of_models = &[21, 69, 89, 91, 156, 170, 174, 285];
    for (name, expected) in [("spellings", none), ("solutions", none), ("model_answers", of_models)]
    {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/grading");
        let file = fixtures.join(format!("{name}.jsonl"));
        let lines = lines_of(isentrope(format!("grade --verifier math --in {}", file.display())));
        let differs = |line: &Value| (line["verdict"] == "correct") != (line["expected"] == 1);
        let differing: Vec<usize> =
            (1..).zip(&lines).filter(|(_, line)| differs(line)).map(|(number, _)| number).collect();
        let is_judged = |line: &Value| line["verdict"] != "fault" && line["verdict"] != "timed-out";
        assert!(lines.iter().all(is_judged), "{name}");
        assert_eq!(differing, expected, "{name}, of {} lines", lines.len());
    }
}

/// Judging all lines would take half a minute, and nobody waits for it.
#[cfg(unix)]
#[test]
fn a_slow_command_does_not_keep_a_signal_waiting() {
    let lines: Vec<Value> = (0..200).map(|id| json!({"id": id, "response": "?"})).collect();
    let scratch = Scratch::new();
    let input = scratch.lines("input.jsonl", &lines);
    let [out, asked] = ["out.jsonl", "asked"].map(|name| scratch.path(name));
    let reply = r#"while read -r line; do id=${line#*'"id":'}; echo >> "$1"; sleep 0.3
        echo "{\"id\":${id%%,*},\"score\":1}"; done"#;
    let reply = scratch.file("reply.sh", reply);
    let verifier = format!("{{command=[\"sh\",{reply:?},{asked:?}]}}");
    let line = format!("grade --in {input} --out {out} --threads 2 --verifier {verifier}");
    let mut child = isentrope(line).stderr(Stdio::piped()).spawn().unwrap();
    // Workers have been asked a second time: the first round is over.
    let asked = || fs::metadata(&asked).map_or(0, |file| file.len());
    wait_until(PATIENCE, &mut child, || asked() >= 3);
    send("INT", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let kept = json_lines(format!("{out}.partial").as_ref());
    assert!((2..=100).contains(&kept.len()), "{} lines", kept.len());
    assert!(kept.iter().enumerate().all(|(i, line)| line["id"] == i));
}

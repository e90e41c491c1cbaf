//! `grade`: verdicts on given responses.

use crate::processes::send;
use crate::program::{
    Scratch, failure_saying, isentrope, lines_of, parse_lines, skipped, stderr, stdout_of,
    wrong_usage,
};
use crate::training::succeed;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Lines of `grade --in FILE`, and what it said on standard error.
fn grade(input: &[Value], flags: &[&str]) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let input = scratch.lines("input.jsonl", input);
    let output = isentrope(&[&["grade", "--in", &input], flags].concat()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    (parse_lines(&String::from_utf8(output.stdout.clone()).unwrap()), stderr(&output))
}

fn verdicts(input: &[Value], flags: &[&str]) -> Vec<String> {
    grade(input, flags).0.iter().map(|line| line["verdict"].as_str().unwrap().to_owned()).collect()
}

/// Many lines, of which every third is wrong and every fifth says that it ought to be.
fn many(count: usize) -> Vec<Value> {
    (0..count)
        .map(|i| json!({"id": i, "gold": i, "response": format!("So it is \\boxed{{{}}}.", i + usize::from(i % 3 == 0))}))
        .collect()
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
        // The first name in the order of the help counts, and null is nothing.
        json!({"gold": "7", "answer": "8", "response": "7", "pred": "8"}),
        json!({"gold": null, "answer": "7", "response": "7"}),
        // As training and evaluation read it.
        json!({"expected_answer": "7", "solution": "so \\boxed{8}", "response": "7"}),
        json!({"final_answer": "7", "solution": "8", "response": "7"}),
        json!({"Answer": "7", "extra_info": {"answer": "8"}, "response": "7"}),
        json!({"extra_info": {"answer": "7"}, "response": "7"}),
        json!({"gold": u64::MAX, "response": u64::MAX}),
    ];
    assert_eq!(verdicts(&right, &[]), ["correct"; 13]);
    let named = [json!({"gold": "8", "target": {"text": "7"}, "response": "8", "mine": "7"})];
    assert_eq!(verdicts(&named, &["--gold", "target.text", "--response", "mine"]), ["correct"]);
}

#[test]
fn a_line_comes_back_as_it_was_with_its_judgement() {
    let (lines, _) = grade(
        &[json!({"zeta": 1, "gold": "7", "pred": "\\boxed{ 8 }", "alpha": [1.50, null]})],
        &[],
    );
    let keys: Vec<&String> = lines[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["zeta", "gold", "pred", "alpha", "verdict", "score", "extracted", "reason"]);
    assert_eq!((&lines[0]["verdict"], &lines[0]["score"]), (&json!("wrong"), &json!(0.0)));
    assert_eq!((&lines[0]["extracted"], &lines[0]["alpha"]), (&json!("8"), &json!([1.5, null])));
    // An older judgement is replaced where it stands.
    let mut older = lines[0].clone();
    older["gold"] = json!("8");
    let (again, _) = grade(&[older], &[]);
    assert_eq!(again[0].as_object().unwrap().keys().collect::<Vec<_>>(), keys);
    assert_eq!(again[0]["verdict"], "correct");
    let (nothing, _) = grade(&[json!({"gold": "7", "pred": ""})], &[]);
    assert_eq!(
        (&nothing[0]["verdict"], &nothing[0]["extracted"]),
        (&json!("unparseable"), &Value::Null)
    );
}

#[test]
fn lines_keep_their_order_on_any_number_of_threads() {
    let input = many(2100);
    let (one, _) = grade(&input, &["--threads", "1"]);
    for (i, line) in one.iter().enumerate() {
        assert_eq!(
            (&line["id"], &line["verdict"]),
            (&json!(i), &json!(if i % 3 == 0 { "wrong" } else { "correct" }))
        );
    }
    for threads in ["2", "7"] {
        assert!(grade(&input, &["--threads", threads]).0 == one, "{threads} threads");
    }
}

#[test]
fn totals_say_what_there_was() {
    let input = [
        json!({"gold": "7", "pred": "7"}),
        json!({"gold": "7", "pred": "8"}),
        json!({"gold": "7", "pred": ""}),
        json!({"gold": {}, "pred": "7"}),
    ];
    let (lines, said) = grade(&input, &[]);
    assert_eq!(lines[3]["verdict"], "fault");
    for part in [
        "judged 4 lines",
        "1 correct (25.0 %)",
        "1 wrong",
        "1 unparseable",
        "1 fault",
        "mean score 0.3333",
    ] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    assert!(!said.contains("timed out") && !said.contains("expected"), "{said}");
    let reason = lines[3]["reason"].as_str().unwrap();
    assert!(
        said.contains(&format!("1 could not be judged; the first, line 4: {reason}\n")),
        "{said}"
    );
}

#[test]
fn what_could_not_be_judged_neither_agrees_nor_disagrees() {
    let fault = |expected: Value| json!({"gold": {}, "pred": "7", "expected": expected});
    let right = json!({"gold": "7", "pred": "7", "expected": 1});
    let wrong = json!({"gold": "7", "pred": "7", "expected": 0});
    let (_, said) = grade(&[fault(json!(1)), right, fault(json!(0)), wrong], &[]);
    assert!(
        said.contains(
            "as expected: 1 of 2 (50.00 %), 2 more could not be judged; not so: line 4\n"
        ),
        "{said}"
    );
    let (_, said) = grade(&[fault(json!(1)), fault(json!(0))], &[]);
    assert!(said.contains("as expected: none of 2 could be judged\n"), "{said}");
}

#[test]
fn what_is_expected_is_compared_and_lines_that_differ_are_named() {
    let scratch = Scratch::new();
    let text = "{\"gold\": 7, \"pred\": \"7\", \"expected\": 1}\n\n{\"gold\": 7, \"pred\": \"8\", \"expected\": true}\n\
                {\"gold\": 7, \"pred\": \"8\", \"expected\": 0}\n{\"gold\": 7, \"pred\": \"8\"}\n\
                {\"gold\": 7, \"pred\": \"7\", \"expected\": false}\n";
    let input = scratch.file("input.jsonl", text);
    let output = isentrope(&["grade", "--in", &input]).output().unwrap();
    // Numbers are those of the file, blank lines counted.
    assert!(
        stderr(&output).contains("as expected: 2 of 4 (50.00 %); not so: line 3, 6\n"),
        "{}",
        stderr(&output)
    );
    let all_wrong: Vec<Value> =
        (0..23).map(|_| json!({"gold": 7, "pred": "8", "expected": 1})).collect();
    let (_, said) = grade(&all_wrong, &[]);
    assert!(
        said.contains("0 of 23 (0.00 %); not so: line 1, 2, ")
            && said.contains(", 20 and 3 more\n"),
        "{said}"
    );
}

#[test]
fn standard_input_is_a_file_too() {
    let mut child = isentrope(&["grade", "--in", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"{\"gold\": 1, \"pred\": \"1\"}\n{\"gold\": 1, \"pred\": \"2\"}")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let lines = parse_lines(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((lines.len(), &lines[1]["verdict"]), (2, &json!("wrong")));
}

/// Python writes lone surrogates and numbers of any size, which not every reader has.
#[test]
fn lines_that_are_no_json_are_faults_among_others() {
    let scratch = Scratch::new();
    let huge = "1".repeat(400);
    let good = r#"{"gold": 1, "pred": "1"}"#;
    let text = format!(
        "{good}\n{{\"gold\": 1, \"pred\": \"\\ud83d\"}}\n{{\"gold\": {huge}, \"pred\": \"1\"}}\nnot json\n{good}\n"
    );
    let (input, out) = (scratch.file("input.jsonl", text), scratch.path("out.jsonl"));
    // They are told, and the others are judged: one among thousands does not undo the rest.
    let said = succeed(&mut isentrope(&["grade", "--in", &input, "--out", &out]));
    assert!(said.contains("2 correct (40.0 %), 3 fault (60.0 %); mean score 1.0000"), "{said}");
    assert!(said.contains("3 could not be judged; the first, line 2: "), "{said}");
    let lines = parse_lines(&fs::read_to_string(&out).unwrap());
    let verdicts: Vec<&Value> = lines.iter().map(|line| &line["verdict"]).collect();
    assert_eq!(verdicts, ["correct", "fault", "fault", "fault", "correct"]);
    assert_eq!(lines[2]["line"], 3);
    assert!(lines[2]["reason"].as_str().unwrap().contains("out of range"), "{}", lines[2]);
}

#[test]
fn tests_that_cannot_be_used_are_faults_of_their_lines() {
    let unusable = json!({"problem": "?", "tests": {"inputs": ["1"], "outputs": []}, "answer": "7", "response": "7"});
    let mathematics = json!({"problem": "?", "answer": "7", "response": "7"});
    let (lines, said) = grade(&[unusable, mathematics], &[]);
    assert_eq!([&lines[0]["verdict"], &lines[1]["verdict"]], ["fault", "correct"]);
    assert!(
        said.contains("line 1: the tests cannot be run: the tests have 1 inputs, but 0 outputs"),
        "{said}"
    );
}

#[test]
fn lines_that_cannot_be_understood_are_named_and_nothing_is_written() {
    for (line, parts) in [
        (
            "{}",
            &["none of the columns", "gold", "reward_model.ground_truth", "answer", "solution"][..],
        ),
        (
            "{\"pred\": \"1\"}",
            &[
                "none of",
                "gold",
                "nor tests of a program in one of tests, test_cases, input_output",
                "the line has pred: --gold names a key",
            ],
        ),
        (
            "{\"gold\": \"1\"}",
            &[
                "none of",
                "response",
                "pred",
                "completion",
                "the line has gold: --response names a key",
            ],
        ),
        ("{\"gold\": \"1\", \"pred\": null}", &["pred"]),
        ("{\"gold\": \"1\", \"pred\": [\"1\"]}", &["\"pred\" must be text"]),
        (
            "{\"gold\": \"1\", \"pred\": \"1\", \"expected\": \"yes\"}",
            &["\"expected\" must be 0, 1, false or true"],
        ),
        (
            "{\"gold\": 18446744073709551617, \"pred\": \"18446744073709551617\"}",
            &["column gold has a number beyond what can be read exactly: write it as text"],
        ),
        (
            "{\"gold\": \"18446744073709551617\", \"pred\": 18446744073709551618}",
            &["column pred has a number beyond what can be read exactly: write it as text"],
        ),
        ("{\"solution\": \"It is seven.\", \"pred\": \"1\"}", &["solution", "\\boxed"]),
    ] {
        let scratch = Scratch::new();
        let input =
            scratch.file("input.jsonl", format!("{{\"gold\": 1, \"pred\": \"1\"}}\n{line}\n"));
        let out = scratch.path("out.jsonl");
        let parts = [&["input.jsonl:2: "], parts].concat();
        failure_saying(&mut isentrope(&["grade", "--in", &input, "--out", &out]), &parts);
        assert_eq!(scratch.names(), ["input.jsonl"]);
    }
    let scratch = Scratch::new();
    for what in ["not json", "[1]"] {
        let input =
            scratch.file("other.jsonl", format!("{what}\n{{\"gold\": 1, \"pred\": \"1\"}}\n"));
        failure_saying(
            &mut isentrope(&["grade", "--in", &input]),
            &["other.jsonl:1: the line is not"],
        );
    }
    let empty = scratch.file("empty.jsonl", "\n\n");
    failure_saying(&mut isentrope(&["grade", "--in", &empty]), &["empty.jsonl", "no lines"]);
    for (name, contents, what) in [
        ("a.parquet", &b"PAR1\x15\x04"[..], "not a readable parquet file"),
        ("b.jsonl", b"PAR1\x15\x04", "must end in .parquet"),
        ("c.jsonl", b"\x1f\x8b\x08\x00", "must end in .jsonl.gz"),
        ("d.jsonl", b"[\n{\"gold\": 1, \"pred\": 1}]", "must end in .json"),
        ("e.csv", b"gold,response\n1,1\n", "separated values"),
    ] {
        let file = scratch.file(name, contents);
        failure_saying(&mut isentrope(&["grade", "--in", &file]), &[name, what]);
    }
    failure_saying(
        &mut isentrope(&["grade", "--in", &scratch.path("absent")]),
        &["absent", "No such file"],
    );
    let input = scratch.lines("input.jsonl", &many(1));
    failure_saying(
        &mut isentrope(&["grade", "--in", &input, "--gold", "nowhere"]),
        &["input.jsonl:1", "nowhere"],
    );
}

#[test]
fn verifiers_are_chosen_as_in_recipes() {
    let sum = json!({"ground_truth": {"numbers": [1, 2], "target": 3}, "response": "1+2=3!"});
    assert_eq!(
        verdicts(&[sum.clone(), json!({"gold": 3, "response": "3"})], &[]),
        ["correct", "correct"]
    );
    assert_eq!(verdicts(std::slice::from_ref(&sum), &["--verifier", "countdown"]), ["correct"]);
    assert_eq!(verdicts(&[sum], &["--verifier", "math"]), ["fault"]);
    let by_source = "{by_data_source = {sums = \"math\"}}";
    let known = json!({"data_source": "sums", "gold": 3, "response": "3"});
    assert_eq!(verdicts(std::slice::from_ref(&known), &["--verifier", by_source]), ["correct"]);

    let scratch = Scratch::new();
    let input = scratch
        .lines("input.jsonl", &[known, json!({"data_source": "new", "gold": 3, "response": "3"})]);
    let with = |verifier: &str| isentrope(&["grade", "--in", &input, "--verifier", verifier]);
    failure_saying(&mut with(by_source), &["input.jsonl:2", "\"new\""]);
    failure_saying(&mut with("maths"), &["--verifier", "did you mean \"math\""]);
    failure_saying(&mut with("{comand = [\"x\"]}"), &["--verifier", "did you mean `command`"]);
    failure_saying(&mut with("[1"), &["--verifier", "not valid TOML"]);
    failure_saying(
        &mut with("{code = {timeout = 3}}"),
        &["--verifier: unknown key `code.timeout`; did you mean `timeout_s`"],
    );
    failure_saying(&mut with("3"), &["--verifier: it must be"]);
}

/// With the keys of a line as columns, and a prompt that is a chat as one.
#[cfg(unix)]
#[test]
fn a_function_is_given_what_a_line_has() {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped("there is no python3 here: functions are not tested");
        return;
    }
    let scratch = Scratch::new();
    let code = r#"
def reward(prompts, completions, nums, gold, **kwargs):
    assert "response" not in kwargs and "prompt" not in kwargs, kwargs
    text = completions[0] if prompts == ["p"] else completions[0][0]["content"]
    return [1.0 if text == "6" and gold == ["6"] and nums == [[1, 2, 3]] else 0.0]
"#;
    let file = scratch.file("reward.py", code);
    let line =
        |prompt: Value| json!({"prompt": prompt, "response": "6", "gold": "6", "nums": [1, 2, 3]});
    let lines = [line(json!("p")), line(json!([{"role": "user", "content": "p"}]))];
    let verifier = format!("{{python = \"{file}:reward\"}}");
    let (judged, said) = grade(&lines, &["--verifier", &verifier]);
    assert!(judged.iter().all(|line| line["verdict"] == "correct"), "{judged:?}");
    assert!(said.contains("reward of") && said.contains("is called as by TRL"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_command_judges_without_a_ground_truth() {
    let reply = r#"while read -r line; do id=${line#*'"id":'}; echo "{\"id\":${id%%,*},\"score\":0.25}"; done"#;
    let command = format!("{{command = [\"sh\", \"-c\", {}]}}", json!(reply));
    let (lines, said) = grade(&vec![json!({"response": "A haiku"}); 5], &["--verifier", &command]);
    assert!(lines.iter().all(|line| line["score"] == 0.25), "{lines:?}");
    assert!(said.contains("mean score 0.2500"), "{said}");

    // A key that is named must be there.
    let scratch = Scratch::new();
    let input = scratch.lines("input.jsonl", &[json!({"gold": "x #### y", "response": "A haiku"})]);
    let mistyped = ["grade", "--in", &input, "--verifier", &command, "--gold", "glod"];
    failure_saying(
        &mut isentrope(&mistyped),
        &["input.jsonl:1: column glod is missing", "--gold names a key"],
    );
}

#[test]
fn what_a_function_prints_is_shown() {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped("there is no python3 here: functions are not tested");
        return;
    }
    let scratch = Scratch::new();
    let code =
        "print('loaded')\ndef f(solution_str):\n    print('judged', solution_str)\n    return 1\n";
    let verifier = format!("{{python = \"{}:f\", workers = 1}}", scratch.file("reward.py", code));
    let (_, said) =
        grade(&[json!({"gold": "7", "response": "a\u{1b}b"})], &["--verifier", &verifier]);
    assert!(
        said.contains("function: loaded\n") && said.contains("function: judged a b\n"),
        "{said}"
    );
}

#[test]
fn one_response_is_explained() {
    let said = stdout_of(&mut isentrope(&["grade", "--explain", "3/4", "So it is \\boxed{0.75}."]));
    for part in ["3/4", "0.75", "Correct"] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    assert!(stdout_of(&mut isentrope(&["grade", "--explain", "-3", "-x"])).contains("-3"));
    let countdown = ["grade", "--explain", "{\"numbers\": [1, 2], \"target\": 3}", "1+2=4!"];
    assert!(stdout_of(&mut isentrope(&countdown)).contains("Wrong"));
    let said =
        stdout_of(&mut isentrope(&["grade", "--explain", "1", "\\boxed{\\text{a\u{1b}[2Jb\r}}"]));
    assert!(
        said.contains("a\\u{1b}[2Jb") && !said.chars().any(|c| c.is_control() && c != '\n'),
        "{said:?}"
    );
    if cfg!(target_os = "linux") && Command::new("python3").arg("--version").output().is_ok() {
        let tests = r#"{"fn_name": "f", "inputs": [[2], [3]], "outputs": [4, 9]}"#;
        let said =
            stdout_of(&mut isentrope(&["grade", "--explain", tests, "def f(x): return x * x"]));
        assert!(said.starts_with("tests: 2 tests, calls of f\nresponse: def f(x)"), "{said}");
        assert!(said.ends_with("Correct: passed 2 tests\n"), "{said}");
    }
    wrong_usage(&mut isentrope(&["grade", "--explain", "1"]), "2 values required");
    wrong_usage(
        &mut isentrope(&["grade", "--explain", "1", "1", "--in", "x"]),
        "cannot be used with",
    );
    wrong_usage(&mut isentrope(&["grade"]), "--in");
}

/// The labels of `tests/fixtures/grading`; docs/guides/data-and-rewards.md argues the differences.
#[test]
fn verdicts_are_those_of_people_and_of_construction() {
    let none: &[usize] = &[];
    let of_models = &[21, 69, 89, 91, 156, 170, 174, 285];
    for (name, expected) in [("spellings", none), ("solutions", none), ("model_answers", of_models)]
    {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("tests/fixtures/grading/{name}.jsonl"));
        let lines =
            lines_of(isentrope(&["grade", "--verifier", "math", "--in", file.to_str().unwrap()]));
        let differing: Vec<usize> = (1..)
            .zip(&lines)
            .filter(|(_, line)| (line["verdict"] == "correct") != (line["expected"] == 1))
            .map(|(number, _)| number)
            .collect();
        assert!(
            lines.iter().all(|line| line["verdict"] != "fault" && line["verdict"] != "timed-out"),
            "{name}"
        );
        assert_eq!(differing, expected, "{name}, of {} lines", lines.len());
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_has_been_judged() {
    let scratch = Scratch::new();
    let out = scratch.path("out.jsonl");
    let mut child = isentrope(&["grade", "--in", "-", "--threads", "1", "--out", &out])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text: String = many(600).iter().map(|line| format!("{line}\n")).collect();
    stdin.write_all(text.as_bytes()).unwrap();
    // The first lines have been judged when their judgements are on disk; for the next the command
    // must wait.
    let written = || {
        let name = scratch.names().into_iter().find(|name| name.starts_with(".isentrope-"));
        name.and_then(|name| fs::metadata(scratch.path(&name)).ok())
            .is_some_and(|file| file.len() > 0)
    };
    while !written() {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    send("INT", &child);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let _ = stdin.write_all(text.as_bytes()); // if it still reads
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("error: interrupted: the lines judged so far are in"),
        "{}",
        stderr(&output)
    );
    assert_eq!(scratch.names(), ["out.jsonl.partial"]);
    let kept = parse_lines(&fs::read_to_string(format!("{out}.partial")).unwrap());
    assert!((1..=1200).contains(&kept.len()));
    assert!(kept.iter().enumerate().all(|(i, line)| line["id"] == i % 600));
}

/// Judging all lines would take half a minute, and nobody waits for it.
#[cfg(unix)]
#[test]
fn a_slow_command_does_not_keep_a_signal_waiting() {
    let lines: Vec<Value> = (0..200).map(|id| json!({"id": id, "response": "?"})).collect();
    let signal = "INT";
    let scratch = Scratch::new();
    let (input, out, asked) =
        (scratch.lines("input.jsonl", &lines), scratch.path("out.jsonl"), scratch.path("asked"));
    let reply = r#"while read -r line; do id=${line#*'"id":'}; echo >> "$0"; sleep 0.3
        echo "{\"id\":${id%%,*},\"score\":1}"; done"#;
    let verifier = format!("{{command = [\"sh\", \"-c\", {}, {}]}}", json!(reply), json!(asked));
    let arguments =
        ["grade", "--in", &input, "--out", &out, "--threads", "2", "--verifier", &verifier];
    let mut child = isentrope(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    // Both workers have been asked a second time: the first round is over.
    while fs::metadata(&asked).map_or(0, |file| file.len()) < 3 {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    send(signal, &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let kept = parse_lines(&fs::read_to_string(format!("{out}.partial")).unwrap());
    assert!((2..=100).contains(&kept.len()), "{} lines", kept.len());
    assert!(
        kept.iter().enumerate().all(|(i, line)| line["id"] == i && line["verdict"] == "correct")
    );
}

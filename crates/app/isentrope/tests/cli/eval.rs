//! `isentrope eval`: numbers, interruption, refusals and comparisons.

use crate::processes::send;
use crate::program::{
    Scratch, assert_parts, failure, failure_saying, isentrope, json_of, parse_lines, stderr,
    stdout_of, text, wrong_usage,
};
use crate::training::{Bench, base, metrics, problems, succeed, tree};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Problems of the tiny base model, many times over.
fn file(scratch: &Scratch, times: usize) -> String {
    scratch.lines("problems.jsonl", &vec![problems(); times].concat())
}

fn eval(arguments: &[&str]) -> Command {
    let mut command = isentrope(&[&["eval"][..], arguments].concat());
    command.env("ISENTROPE_THREADS", "1");
    command
}

#[test]
fn numbers_follow_from_the_responses_that_are_kept() {
    let scratch = Scratch::new();
    let (bench, out) = (format!("mine={}", file(&scratch, 1)), scratch.path("out"));
    let sampled =
        ["-n", "4", "--temperature", "1", "--max-tokens", "16", "--limit", "20", "--out", &out];
    let arguments = [&[base(), "--bench", &bench][..], &sampled].concat();
    let table = stdout_of(&mut eval(&arguments));
    for part in [
        "mine: 20 problems, 4 responses each",
        "mean@4",
        "pass@2",
        "maj@4",
        "entropy",
        "95 %",
        &out,
    ] {
        assert!(table.contains(part), "{part:?} is not in: {table}");
    }
    let dir = Path::new(&out);
    let lines = parse_lines(&fs::read_to_string(dir.join("responses/mine.jsonl")).unwrap());
    assert_eq!(lines.len(), 80);
    let mut solved = [0; 20];
    for (i, line) in lines.iter().enumerate() {
        assert_eq!((&line["problem"], &line["sample"]), (&json!(i / 4), &json!(i % 4)));
        solved[i / 4] += usize::from(line["verdict"] == "correct");
        assert!(
            line["response"].is_string()
                && line["reason"].is_string()
                && line["entropy"].is_number()
        );
    }
    let all: usize = solved.iter().sum();
    assert!(all > 0, "the base model gets some right");
    let summary = &json_of(&dir.join("results.json"))["benchmarks"]["mine"];
    let value = |name: &str| summary["estimates"][name]["value"].as_f64().unwrap();
    assert!((value("mean@4") - all as f64 / 80.0).abs() < 1e-12);
    let any = solved.iter().filter(|&&s| s > 0).count();
    assert!((value("pass@4") - any as f64 / 20.0).abs() < 1e-12);
    assert_eq!(summary["verdicts"]["correct"], json!(all));
    let mean = &summary["estimates"]["mean@4"];
    assert!(
        mean["low"].as_f64() < mean["value"].as_f64()
            && mean["value"].as_f64() < mean["high"].as_f64()
    );

    // Again there is nothing to do, and with another benchmark what is there stays.
    let before = tree(dir);
    stdout_of(&mut eval(&arguments));
    assert_eq!(tree(dir), before);
    let second = ["--bench", &bench.replacen("mine", "other", 1)];
    let table = stdout_of(&mut eval(&[&[base()][..], &second, &sampled].concat()));
    assert!(table.contains("mean of the 2 benchmarks' mean@k"), "{table}");
    let results = json_of(&dir.join("results.json"));
    assert_eq!(&results["benchmarks"]["mine"], summary);
    // Equal problems in a set of another name have equal responses.
    let estimate = |set: &str| results["benchmarks"][set]["estimates"]["mean@4"]["value"].clone();
    assert_eq!(estimate("mine"), estimate("other"));
    assert_eq!(results["mean_of_benchmarks"]["value"], estimate("mine"));
}

/// Starts an evaluation, and stops it by a signal once some responses are there and others are not.
#[cfg(unix)]
fn stopped(arguments: &[String], out: &str, signal: &str) -> (Option<i32>, String) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let child = eval(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let partial = Path::new(out).join("responses/mine.jsonl.partial");
    let started = Instant::now();
    while fs::metadata(&partial).map_or(0, |file| file.len()) == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing was sampled");
        std::thread::sleep(Duration::from_millis(2));
    }
    send(signal, &child);
    let output = child.wait_with_output().unwrap();
    assert!(partial.exists(), "it was over before the signal came");
    (output.status.code(), stderr(&output))
}

#[cfg(unix)]
#[test]
fn killed_or_interrupted_it_goes_on_to_the_same_bytes() {
    let scratch = Scratch::new();
    let bench = format!("mine={}", file(&scratch, 2));
    let arguments = |out: &str| -> Vec<String> {
        let sampled = [
            "-n",
            "16",
            "--temperature",
            "1",
            "--max-tokens",
            "16",
            "--kv-memory",
            "1",
            "--out",
            out,
        ];
        [&[base(), "--bench", &bench][..], &sampled]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect()
    };
    let go = |out: &str| {
        let arguments = arguments(out);
        stdout_of(&mut eval(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    let whole = scratch.path("whole");
    let table = go(&whole);
    for (name, signal) in [("killed", "KILL"), ("interrupted", "INT")] {
        let out = scratch.path(name);
        let (code, said) = stopped(&arguments(&out), &out, signal);
        if signal == "INT" {
            assert_eq!(code, Some(130), "{said}");
            assert!(said.contains("problems of mine are in") && said.contains("goes on"), "{said}");
        }
        assert!(!Path::new(&out).join("results.json").exists());
        assert_eq!(go(&out).replace(&out, &whole), table);
        let (ours, theirs) = (tree(Path::new(&out)), tree(Path::new(&whole)));
        assert!(ours == theirs, "{:?} and {:?}", ours.keys(), theirs.keys());
    }
}

#[test]
fn what_cannot_be_done_is_said_with_its_remedy() {
    let scratch = Scratch::new();
    let file = file(&scratch, 1);
    let (bench, out) = (format!("mine={file}"), scratch.path("out"));
    let with = |more: &[&str]| {
        eval(&[&[base(), "--bench", &bench, "--max-tokens", "4", "--out", &out][..], more].concat())
    };
    stdout_of(&mut with(&["--limit", "2"]));
    failure_saying(
        &mut with(&["--limit", "3"]),
        &[&out, "mine.limit 2 -> 3", "mine.problems 2 -> 3", "--out"],
    );
    failure_saying(&mut with(&["--limit", "2", "--seed", "1"]), &["seed 0 -> 1"]);
    failure_saying(&mut with(&["--bench", &bench]), &["--bench: mine is asked for twice"]);
    failure_saying(&mut with(&["--temperature", "-1"]), &["--temperature"]);
    failure_saying(
        &mut with(&["--against", &scratch.path("nowhere")]),
        &["--against", "holds no results"],
    );
    let ask = |bench: &str| eval(&[base(), "--bench", bench, "--out", &out]);
    failure_saying(
        &mut ask("gsm8k"),
        &["benchmark gsm8k", "openai/gsm8k", "HF_HUB_OFFLINE", "gsm8k=FILE"],
    );
    failure_saying(
        &mut ask("gsm8k=absent.jsonl"),
        &["benchmark gsm8k: absent.jsonl cannot be read"],
    );
    let empty = scratch.lines("empty.jsonl", &[json!({"problem": "1+1?", "answer": null})]);
    failure_saying(
        &mut ask(&format!("mine={empty}")),
        &["empty.jsonl line 1", "column answer is null"],
    );
    wrong_usage(&mut ask("gsm9k"), "built in are aime24");
    wrong_usage(&mut ask(&file), "give the file a name");
    wrong_usage(&mut eval(&[base()]), "--bench");
    wrong_usage(&mut eval(&["--against", &out]), "--out");
    let alone = eval(&[]).output().unwrap();
    let alone = stderr(&alone);
    let (required, usage) = alone.split_once("Usage").unwrap();
    assert!(required.contains("<MODEL>") && !required.contains("--out"), "{required}");
    assert!(usage.contains("eval --against <DIR> --out <DIR>"), "{usage}");
    let foreign = scratch.lines("foreign.jsonl", &[json!({"text": "1+1?", "label": 2})]);
    let output = ask(&format!("mine={foreign}")).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("label, text") && said.contains("problem or question"), "{said}");
    assert!(!said.contains("data.columns"), "{said}");
    wrong_usage(&mut with(&["--verifier", "oracle"]), "one of \"auto\", \"countdown\", \"math\"");
    let workers = "{command = [\"true\"], workers = 0}";
    wrong_usage(&mut with(&["--verifier", workers]), "from 1 to 1024");
    let strange = scratch.path("strange");
    fs::create_dir(&strange).unwrap();
    fs::write(Path::new(&strange).join("notes"), "").unwrap();
    failure_saying(
        &mut eval(&[base(), "--bench", &bench, "--out", &strange]),
        &[&strange, "holds no results"],
    );
}

#[cfg(unix)]
#[test]
fn the_reason_of_a_fault_is_told() {
    let scratch = Scratch::new();
    let (bench, out) = (format!("mine={}", file(&scratch, 1)), scratch.path("out"));
    let reply = r#"while read -r line; do id=${line#*'"id":'}
        echo "{\"id\":${id%%,*},\"verdict\":\"fault\",\"reason\":\"no dictionary\"}"; done"#;
    let verifier = format!("{{command = [\"sh\", \"-c\", {}]}}", json!(reply));
    let sampled = ["--max-tokens", "4", "--limit", "3", "--out", &out, "--verifier", &verifier];
    let output = eval(&[&[base(), "--bench", &bench][..], &sampled].concat()).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("mine: 3 of 3 responses could not be judged; the first ("), "{said}");
    assert!(said.contains("problems.jsonl line 1): no dictionary"), "{said}");
    assert_eq!(
        said.lines().last().unwrap().split(';').next().unwrap(),
        "error: mine: no response could be judged"
    );
    assert_eq!(output.status.code(), Some(1), "{said}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("3 fault"), "{table}");
    for (row, number) in [("mean@1", "n/a"), ("could not be judged", "100.00 %")] {
        let row = table.lines().find(|line| line.trim_start().starts_with(row)).unwrap();
        assert!(row.contains(number), "{table}");
    }
}

/// A service that judges by the first character, and while it is down knows nothing of some
/// problems.
#[cfg(unix)]
#[test]
fn what_could_not_be_judged_is_judged_again() {
    let scratch = Scratch::new();
    let rows: Vec<Value> = (0..12)
        .map(|i| json!({"problem": format!("{i}:"), "answer": (i % 10).to_string()}))
        .collect();
    let bench = format!("mine={}", scratch.lines("digits.jsonl", &rows));
    let service = r#"while read -r line; do id=${line#*'"id":'}; answer='"score":0'
        case "$line" in *'"response":"'[1-5]*) answer='"score":1';; esac
        case "$line" in *'"ground_truth":"'[345]'"'*) [ -e "$1/down" ] && answer='"verdict":"fault"';; esac
        echo "{\"id\":${id%%,*},$answer}"; done"#;
    let state = scratch.path("state");
    fs::create_dir(&state).unwrap();
    let down = Path::new(&state).join("down");
    let verifier =
        format!("{{command = {}}}", json!(["sh", scratch.file("service.sh", service), state]));
    let run = |out: &str| {
        let sampled = ["-n", "2", "--temperature", "1", "--max-tokens", "4", "--out", out];
        let output =
            eval(&[&[base(), "--bench", &bench, "--verifier", &verifier][..], &sampled].concat())
                .output()
                .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output))
    };
    let (whole, out) = (scratch.path("whole"), scratch.path("out"));
    let (table, _) = run(&whole);
    assert!(!table.contains("could not be judged"), "{table}");
    let whole = tree(Path::new(&whole));

    fs::write(&down, "").unwrap();
    let (table, said) = run(&out);
    assert!(said.contains("6 of 24 responses could not be judged"), "{said}");
    let row = table.lines().find(|line| line.contains("could not be judged")).unwrap();
    assert!(row.contains("25.00 %"), "{row}");
    let (before, again) =
        (tree(Path::new(&out)), "mine: 6 responses could not be judged; judging them again\n");
    assert!(before != whole);
    let (same, said) = run(&out);
    assert!(said.contains(again) && said.contains("going on after 9 of 12 problems"), "{said}");
    assert!(same == table && tree(Path::new(&out)) == before, "{same}");

    let complete = Path::new(&out).join("responses/mine.jsonl");
    let partial = complete.with_extension("jsonl.partial");
    let lines = fs::read_to_string(&complete).unwrap();
    let half: String = lines.lines().take(9).map(|line| format!("{line}\n")).collect();
    fs::remove_file(&down).unwrap();
    let (_, said) = run(&out);
    assert!(said.contains(again), "{said}");
    assert!(tree(Path::new(&out)) == whole);
    let (_, said) = run(&out);
    assert!(said.contains("mine: complete already"), "{said}");
    assert!(tree(Path::new(&out)) == whole);

    // An incomplete evaluation as well: four problems are whole, one of them not judged.
    fs::remove_file(&complete).unwrap();
    fs::write(&partial, half).unwrap();
    let (_, said) = run(&out);
    assert!(
        said.contains("mine: 2 responses could not") && said.contains("after 3 of 12"),
        "{said}"
    );
    assert!(tree(Path::new(&out)) == whole);
}

/// A verifier that keeps a list of its processes.
#[cfg(unix)]
fn script(scratch: &Scratch, score: &str) -> String {
    let text = format!(
        r#"echo $$ >> "$1"; while read -r line; do id=${{line#*'"id":'}}
        echo "{{\"id\":${{id%%,*}},\"score\":{score}}}"; done"#
    );
    scratch.file("reward.sh", text)
}

#[cfg(unix)]
#[test]
fn benchmarks_share_a_commands_workers_and_an_edited_script_is_another_verifier() {
    let scratch = Scratch::new();
    let (file, out, started) = (file(&scratch, 1), scratch.path("out"), scratch.path("started"));
    let script_file = script(&scratch, "1");
    let verifier = format!("{{command = {}, workers = 3}}", json!(["sh", script_file, started]));
    let (mine, other) = (format!("mine={file}"), format!("math500={file}"));
    let with = |bench: &[&str]| {
        let settings =
            ["--max-tokens", "4", "--limit", "2", "--out", &out, "--verifier", &verifier];
        eval(&[&[base()][..], bench, &settings].concat())
    };
    let table = stdout_of(&mut with(&["--bench", &mine, "--bench", &other]));
    assert!(!table.contains("score"), "all are 1, as the verdicts say: {table}");
    assert_eq!(
        fs::read_to_string(&started).unwrap().lines().count(),
        3,
        "the workers of one verifier"
    );
    let manifest = json_of(&Path::new(&out).join("manifest.json"));
    for name in ["mine", "math500"] {
        let hashes = manifest["benchmarks"][name]["verifier_files_sha256"].as_object().unwrap();
        assert_eq!(
            hashes.keys().collect::<Vec<_>>(),
            [&script_file],
            "{started} came to be only later"
        );
        assert_eq!(hashes[&script_file].as_str().unwrap().len(), 64);
    }
    fs::remove_file(&started).unwrap();
    stdout_of(&mut with(&["--bench", &mine]));
    fs::remove_file(&started).unwrap();
    script(&scratch, "0.5");
    let sentence = failure(&mut with(&["--bench", &mine]));
    assert!(
        sentence.contains(&format!("mine: {script_file} was edited; name another")),
        "{sentence}"
    );
}

/// The tokenizer of the model has no letters.
#[test]
fn characters_are_looked_for_in_what_is_asked() {
    let scratch = Scratch::new();
    let rows = vec![json!({"problem": "1 2 x>6:", "answer": "6"}); 5];
    let bench = format!("math500={}", scratch.lines("lossy.jsonl", &rows));
    let said = |out: &str, more: &[&str]| {
        let out = scratch.path(out);
        let settings = ["--bench", &bench, "--max-tokens", "4", "--out", &out];
        stderr(&eval(&[&[base()][..], &settings, more].concat()).output().unwrap())
    };
    let some = said("some", &["--limit", "3"]);
    assert!(
        some.contains("math500: 5 rows: 5 usable") && !some.contains("of the usable"),
        "{some}"
    );
    assert!(
        some.contains("math500: of the 3 problems that are asked, 3 with characters"),
        "{some}"
    );
    assert!(some.contains("lossy.jsonl line 1: "), "{some}");
    let all = said("all", &[]);
    assert!(
        all.contains("5 rows: 5 usable") && all.contains("of the usable, 5 with characters"),
        "{all}"
    );
}

/// `crates/learn/evaluation` tests the numbers.
#[test]
fn two_directories_are_compared_by_a_paired_test() {
    let scratch = Scratch::new();
    let bench = format!("mine={}", file(&scratch, 1));
    let (old, new) = (scratch.path("old"), scratch.path("new"));
    let run = |out: &str, more: &[&str]| {
        let sampled = ["-n", "4", "--temperature", "1", "--max-tokens", "16", "--out", out];
        stdout_of(&mut eval(&[&[base(), "--bench", &bench][..], &sampled, more].concat()))
    };
    run(&old, &[]);
    let table = run(&new, &["--seed", "1", "--against", &old]);
    let head = [
        "24 problems in both, temperature 1\n",
        "pass@2",
        "pass@4",
        "maj@4",
        "mean accuracy",
        "points",
    ];
    let test =
        ["better", "p-value", "sign-flip permutation", "settings that differ\n    seed 0 -> 1\n"];
    assert_parts(&table, &[&head[..], &test].concat());
    let comparison = json_of(&Path::new(&new).join("comparison.json"));
    assert_eq!(comparison["settings"], json!(["seed 0 -> 1"]));
    let number = |out: &str, name: &str| {
        let results = json_of(&Path::new(out).join("results.json"));
        results["benchmarks"]["mine"]["estimates"][name]["value"].as_f64().unwrap()
    };
    let mine = &comparison["benchmarks"]["mine"];
    let difference = number(&new, "mean@4") - number(&old, "mean@4");
    assert!((mine["difference"]["value"].as_f64().unwrap() - difference).abs() < 1e-12);
    // Nothing is sampled for directories that are complete.
    let again = stdout_of(&mut eval(&["--against", &old, "--out", &new]));
    assert!(table.ends_with(&again), "{again}");
    let same = stdout_of(&mut eval(&["--against", &old, "--out", &old]));
    assert_parts(&same, &["0 better, 0 worse, 24 the same", "1.0000"]);
    assert!(!same.contains("settings that differ"), "{same}");
    // Another decoding is another setting, and is said beside the numbers.
    let nucleus = scratch.path("nucleus");
    let table = run(&nucleus, &["--top-p", "0.5", "--against", &old]);
    let decoding = "mine: 24 problems, 4 responses each, temperature 1, top-p 0.5\n";
    let both = "24 problems in both, temperature 1 -> temperature 1, top-p 0.5\n";
    assert_parts(&table, &[decoding, both, "mine.top_p null -> 0.5"]);
    let sampled = ["-n", "4", "--temperature", "1", "--max-tokens", "16", "--out", &nucleus];
    let mut changed = eval(&[&[base(), "--bench", &bench][..], &sampled].concat());
    failure_saying(&mut changed, &["mine.top_p 0.5 -> null"]);
}

#[test]
fn prompts_that_do_not_fit_count_as_not_answered() {
    let scratch = Scratch::new();
    let mut rows = problems();
    rows.truncate(3);
    rows[1]["problem"] = json!("1 2 3>6:".repeat(30));
    let bench = format!("mine={}", scratch.lines("long.jsonl", &rows));
    let out = scratch.path("out");
    let output =
        eval(&[base(), "--bench", &bench, "--max-tokens", "16", "--out", &out]).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success() && said.contains("1 of 3 prompts do not fit"), "{said}");
    let lines =
        parse_lines(&fs::read_to_string(Path::new(&out).join("responses/mine.jsonl")).unwrap());
    assert_eq!(
        (lines.len(), &lines[1]["verdict"], &lines[1]["tokens"]),
        (3, &json!("unparseable"), &json!(0))
    );
    assert!(lines[1]["reason"].as_str().unwrap().contains("context of 128"), "{}", lines[1]);
}

/// `train` measures before its first step what the command measures.
#[test]
fn training_measures_benchmarks_as_the_command_does() {
    let bench = Bench::train();
    let file = file(&bench.scratch, 1);
    let sums: Vec<Value> =
        (1..=24).map(|i| json!({"problem": format!("{i} + 1"), "answer": i + 1})).collect();
    let sums = bench.scratch.lines("sums.jsonl", &sums);
    let out = bench.scratch.path("eval");
    let sets = [
        "run.steps=1".to_owned(),
        "eval.files=[]".into(),
        "eval.every=1".into(),
        format!("eval.bench=[\"mine={file}\", \"math500={sums}\"]"),
        "eval.samples=4".into(),
        "eval.temperature=1".into(),
        "eval.max_tokens=16".into(),
        "eval.problems=24".into(),
    ];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let said = succeed(&mut bench.command("run", &sets, &[]));
    let changed = "eval.samples = 4 instead of 1, eval.temperature = 1 instead of 0, \
                   eval.max_tokens = 16 instead of 8192, eval.problems = 24";
    assert!(
        said.contains(&format!("note: benchmark math500: not as it is defined: {changed}\n")),
        "{said}"
    );
    let run = bench.out("run");
    let line = &metrics(&run)[0];
    let (mine, math) = (format!("mine={file}"), format!("math500={sums}"));
    let sampled =
        ["-n", "4", "--temperature", "1", "--max-tokens", "16", "--seed", "3", "--out", &out];
    stdout_of(&mut eval(&[&[base(), "--bench", &mine, "--bench", &math][..], &sampled].concat()));
    let results = json_of(&Path::new(&out).join("results.json"));
    for set in ["mine", "math500"] {
        let estimates = results["benchmarks"][set]["estimates"].as_object().unwrap();
        assert!(estimates.contains_key("pass@2") && estimates.contains_key("maj@4"));
        for (name, estimate) in estimates {
            assert_eq!(line[format!("eval/{set}/{name}")], estimate["value"], "{set} {name}");
        }
    }
    assert_eq!(line["eval/mean_of_sets"], results["mean_of_benchmarks"]["value"]);
    let kept = fs::read_to_string(run.join("evaluations/step-000000-math500.jsonl")).unwrap();
    assert!(parse_lines(&kept)[0]["prompt"].as_str().unwrap().contains("step by step"), "{kept}");
    assert_eq!(text(&run), bench.scratch.path("run"));
}

/// Flags of truncated sampling, the model's own recommendation, and a recipe's keys.
#[test]
fn truncated_decoding_is_asked_for_said_and_refused() {
    let scratch = Scratch::new();
    let bench = format!("mine={}", file(&scratch, 1));
    let model = text(&scratch.copy(Path::new(base()), "recommended"));
    let config = Path::new(&model).join("generation_config.json");
    let mut recommended = json_of(&config);
    for (key, value) in [
        ("do_sample", json!(true)),
        ("temperature", json!(0.6)),
        ("top_p", json!(0.95)),
        ("top_k", json!(20)),
    ] {
        recommended[key] = value;
    }
    fs::write(&config, recommended.to_string()).unwrap();
    let run = |out: &str, flags: &[&str]| {
        let out = scratch.path(out);
        let settings = ["--bench", &bench, "--max-tokens", "8", "--limit", "4", "--out", &out];
        let output = eval(&[&[&model[..]][..], &settings, flags].concat()).output().unwrap();
        (output.status.success(), stderr(&output), String::from_utf8(output.stdout).unwrap())
    };
    let (_, said, table) = run("plain", &[]);
    assert!(said.contains("recommends --temperature 0.6 --top-p 0.95 --top-k 20"), "{said}");
    assert!(said.contains("mine: 4 problems, responses to each: 1, greedy"), "{said}");
    assert!(table.contains("mine: 4 problems, 1 response each, greedy\n"), "{table}");
    let asked =
        ["-n", "2", "--temperature", "0.6", "--top-p", "0.95", "--top-k", "20", "--min-p", "0.01"];
    let (_, said, table) = run("asked", &asked);
    assert!(!said.contains("recommends"), "{said}");
    assert!(
        table.contains("2 responses each, temperature 0.6, top-p 0.95, top-k 20, min-p 0.01\n"),
        "{table}"
    );
    let settings =
        &json_of(&Path::new(&scratch.path("asked")).join("manifest.json"))["benchmarks"]["mine"];
    assert_eq!(settings["top_k"], json!(20));
    let (fine, said, _) = run("greedy", &["--top-p", "0.9"]);
    assert!(fine && said.contains("--top-p have no effect on greedy responses"), "{said}");
    for (flags, part) in [
        (["--top-p", "0"], "--top-p is 0"),
        (["--top-p", "1.5"], "--top-p is 1.5"),
        (["--min-p", "-1"], "--min-p is -1"),
    ] {
        let (fine, said, _) = run("refused", &flags);
        assert!(!fine && said.contains(part), "{said}");
    }
    // One token is left: what is sampled is what greedy decoding takes, of which one response
    // stands for both.
    let (_, _, sampled) = run("certain", &["-n", "2", "--temperature", "1", "--top-k", "1"]);
    let (_, said, greedy) = run("certainly", &["-n", "2", "--temperature", "0"]);
    assert!(
        said.contains("greedy responses to a problem are all the same, so one is sampled"),
        "{said}"
    );
    let accuracies =
        |table: &str| table.lines().filter(|line| line.contains('@')).map(str::to_owned).collect();
    let (sampled, greedy): (Vec<_>, Vec<_>) = (accuracies(&sampled), accuracies(&greedy));
    assert!(sampled == greedy && sampled.len() > 1, "{sampled:?} {greedy:?}");
}

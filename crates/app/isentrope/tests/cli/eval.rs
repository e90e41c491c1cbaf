//! `isentrope eval`: numbers, interruption and comparisons. `crates/learn/evaluation` tests the
//! statistics and what a directory keeps.

use crate::processes::{send, wait_until};
use crate::program::{
    Scratch, assert_parts, failure_saying, isentrope, json_lines, json_of, outcome, spoken, stderr,
    stdout_of, text,
};
use crate::training::{base, problems, tree};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Problems of the tiny base model, many times over.
fn file(scratch: &Scratch, times: usize) -> String {
    scratch.lines("problems.jsonl", &vec![problems(); times].concat())
}

fn eval(line: impl std::fmt::Display) -> Command {
    let mut command = isentrope(format!("eval {line}"));
    command.env("ISENTROPE_THREADS", "1");
    command
}

#[test]
fn numbers_follow_from_the_responses_that_are_kept() {
    let scratch = Scratch::new();
    let (file, out) = (file(&scratch, 1), scratch.path("out"));
    let sampled = "-n 4 --temperature 1 --max-tokens 16 --limit 20 --out";
    let measured = |set: &str| format!("{} --bench {set}={file} {sampled} {out}", base());
    let table = stdout_of(eval(measured("mine")));
    let parts = ["mine: 20 problems, 4 responses each", "mean@4", "pass@2", "maj@4", "95 %", &out];
    assert_parts(&table, &parts);
    let dir = Path::new(&out);
    let lines = json_lines(&dir.join("responses/mine.jsonl"));
    assert_eq!(lines.len(), 80);
    let mut solved = [0; 20];
    for (i, line) in lines.iter().enumerate() {
        assert_eq!((&line["problem"], &line["sample"]), (&json!(i / 4), &json!(i % 4)));
        solved[i / 4] += usize::from(line["verdict"] == "correct");
    }
    let all: usize = solved.iter().sum();
    assert!(all > 0, "the base model gets some right");
    let summary = &json_of(&dir.join("results.json"))["benchmarks"]["mine"];
    let value = |name: &str| summary["estimates"][name]["value"].as_f64().unwrap();
    assert!((value("mean@4") - all as f64 / 80.0).abs() < 1e-12);
    let any = solved.iter().filter(|&&s| s > 0).count();
    assert!((value("pass@4") - any as f64 / 20.0).abs() < 1e-12);

    // Again there is nothing to do, and with another benchmark what is there stays.
    let before = tree(dir);
    stdout_of(eval(measured("mine")));
    assert_eq!(tree(dir), before);
    let table = stdout_of(eval(measured("other")));
    assert!(table.contains("mean of the 2 benchmarks' mean@k"), "{table}");
    let results = json_of(&dir.join("results.json"));
    assert_eq!(&results["benchmarks"]["mine"], summary);
    // Equal problems in a set of another name have equal responses.
    assert_eq!(results["benchmarks"]["other"]["estimates"]["mean@4"]["value"], value("mean@4"));
    // Other settings are another evaluation.
    let other = measured("mine").replace("--limit 20", "--limit 3 --seed 1");
    let parts = [&out, "mine.limit 20 -> 3", "seed 0 -> 1", "--out"];
    failure_saying(eval(other), &parts);
}

#[cfg(unix)]
#[test]
fn prompts_go_through_the_template_as_the_flags_say() {
    let scratch = Scratch::new();
    let dir = scratch.copy(Path::new(base()), "templated");
    let template = "1 {{ messages | map(attribute='content') | join(' ') }}";
    fs::write(dir.join("chat_template.jinja"), template).unwrap();
    let (file, dir) = (file(&scratch, 1), text(&dir));
    let responses = |model: &str, out: &str, flags: &str| {
        let sampled = format!("--max-tokens 16 --limit 4 --out {}", scratch.path(out));
        stdout_of(eval(format!("{model} --bench mine={file} {sampled} {flags}")));
        fs::read(Path::new(&scratch.path(out)).join("responses/mine.jsonl")).unwrap()
    };
    let plain = responses(base(), "base", "");
    assert_eq!(responses(&dir, "plain", "--template none"), plain);
    let chat = responses(&dir, "chat", "");
    assert_ne!(chat, plain);
    assert_ne!(responses(&dir, "system", "--system 1"), chat);
    let unused = format!("--system 1 --max-tokens 4 --limit 1 --out {}", scratch.path("unused"));
    let (_, said) = spoken(eval(format!("{} --bench mine={file} {unused}", base())));
    assert!(said.contains("--system has no effect"), "{said}");
    let (out, same) = (scratch.path("plain"), "--max-tokens 16 --limit 4 --out");
    let other = eval(format!("{dir} --bench mine={file} {same} {out}"));
    failure_saying(other, &["template", "\"none\"", "--out"]);
}

#[test]
fn killed_or_interrupted_it_goes_on_to_the_same_bytes() {
    let scratch = Scratch::new();
    let file = file(&scratch, 2);
    let sampled = "-n 16 --temperature 1 --max-tokens 16 --kv-memory 1 --out";
    let run = |out: &str| eval(format!("{} --bench mine={file} {sampled} {out}", base()));
    let whole = scratch.path("whole");
    let table = stdout_of(run(&whole));
    for (name, signal) in [("killed", "KILL"), ("interrupted", "INT")] {
        let out = scratch.path(name);
        let mut child = run(&out).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // Some responses are there and others are not.
        let partial = Path::new(&out).join("responses/mine.jsonl.partial");
        wait_until(Duration::from_secs(60), &mut child, || {
            fs::metadata(&partial).is_ok_and(|file| file.len() > 0)
        });
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        assert!(partial.exists(), "it was over before the signal came");
        if signal == "INT" {
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(130), "{said}");
            assert_parts(&said, &["problems of mine are in", "goes on"]);
        }
        assert!(!Path::new(&out).join("results.json").exists());
        assert_eq!(stdout_of(run(&out)).replace(&out, &whole), table);
        assert!(tree(Path::new(&out)) == tree(Path::new(&whole)), "{name}");
    }
}

/// A service that judges by the first character, and while it is down knows nothing of some
/// problems, or of any.
#[cfg(unix)]
#[test]
fn what_could_not_be_judged_is_told_and_judged_again() {
    let scratch = Scratch::new();
    let row = |i: u32| json!({"problem": format!("{i}:"), "answer": (i % 10).to_string()});
    let file = scratch.lines("digits.jsonl", &(0..12).map(row).collect::<Vec<_>>());
    let service = r#"while read -r line; do id=${line#*'"id":'}; answer='"score":0'
        case "$line" in *'"response":"'[1-5]*) answer='"score":1';; esac
        case "$line" in *'"ground_truth":"'[345]'"'*) [ -e "$1/down" ] && answer='"verdict":"fault","reason":"no answer"';; esac
        [ -e "$1/gone" ] && answer='"verdict":"fault","reason":"no dictionary"'
        echo "{\"id\":${id%%,*},$answer}"; done"#;
    let state = scratch.path("state");
    fs::create_dir(&state).unwrap();
    let [down, gone] = ["down", "gone"].map(|name| Path::new(&state).join(name));
    let service = scratch.file("service.sh", service);
    let judged = format!("--verifier {{command=[\"sh\",{service:?},{state:?}]}}");
    let sampled = "-n 2 --temperature 1 --max-tokens 4 --out";
    let run = |out: &str| {
        eval(format!("{} --bench mine={file} {judged} {sampled} {}", base(), scratch.path(out)))
    };
    let out = scratch.path("out");
    assert!(!stdout_of(run("whole")).contains("could not be judged"));
    let whole = tree(Path::new(&scratch.path("whole")));

    fs::write(&gone, "").unwrap();
    let (output, said) = outcome(run("nothing"));
    let reason = "mine: 24 of 24 responses could not be judged; the first (";
    assert_parts(&said, &[reason, "no dictionary", "error: mine: no response could be judged"]);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert_parts(&table, &["n/a", "100.0 %", "24 fault"]);
    fs::remove_file(&gone).unwrap();

    // A part that could not be judged is judged again, to the bytes of a run in which all could.
    fs::write(&down, "").unwrap();
    let (table, said) = spoken(run("out"));
    assert_parts(&said, &["6 of 24 responses could not be judged"]);
    assert_parts(&table, &["25.0 %"]);
    fs::remove_file(&down).unwrap();
    let again = "mine: 6 responses could not be judged; judging them again\n";
    assert_parts(&spoken(run("out")).1, &[again, "going on after 9 of 12 problems"]);
    assert!(tree(Path::new(&out)) == whole);
    assert_parts(&spoken(run("out")).1, &["mine: complete already"]);
}

#[test]
fn two_directories_are_compared_by_a_paired_test() {
    let scratch = Scratch::new();
    let file = file(&scratch, 1);
    let [old, new] = ["old", "new"].map(|name| scratch.path(name));
    let sampled = "-n 4 --temperature 1 --max-tokens 16 --out";
    let run = |out: &str, more: &str| {
        stdout_of(eval(format!("{} --bench mine={file} {sampled} {out} {more}", base())))
    };
    run(&old, "");
    let table = run(&new, &format!("--seed 1 --against {old}"));
    let head = "24 problems in both, temperature 1\n";
    let settings = "settings that differ\n    seed 0 -> 1\n";
    let test = "sign-flip permutation";
    assert_parts(&table, &[head, "pass@2", "mean accuracy", "p-value", test, settings]);
    assert_parts(&table, &["both are of the same weights"]);
    let comparison = json_of(&Path::new(&new).join("comparison.json"));
    assert_eq!(comparison["settings"], json!(["seed 0 -> 1"]));
    assert_eq!(comparison["same_weights"], true);
    // Nothing is sampled for directories that are complete.
    let again = stdout_of(eval(format!("--against {old} --out {new}")));
    assert!(table.ends_with(&again), "{again}");
    let same = stdout_of(eval(format!("--against {old} --out {old}")));
    assert_parts(&same, &["0 better, 0 worse, 24 the same", "1.0000"]);
}

/// Flags of truncated sampling, and the model's own recommendation.
#[test]
fn truncated_decoding_is_asked_for_and_said() {
    let scratch = Scratch::new();
    let file = file(&scratch, 1);
    let model = scratch.copy(Path::new(base()), "recommended");
    let config = model.join("generation_config.json");
    let mut recommended = json_of(&config);
    recommended["do_sample"] = json!(true);
    (recommended["temperature"], recommended["top_p"]) = (json!(0.6), json!(0.95));
    recommended["top_k"] = json!(20);
    fs::write(&config, recommended.to_string()).unwrap();
    let run = |out: &str, flags: &str| {
        let out = scratch.path(out);
        let set = format!("--bench mine={file} --max-tokens 8 --limit 4 --out {out}");
        spoken(eval(format!("{} {set} {flags}", text(&model))))
    };
    let (table, said) = run("plain", "");
    assert_parts(&said, &["recommends --temperature 0.6 --top-p 0.95 --top-k 20"]);
    assert_parts(&table, &["mine: 4 problems, 1 response each, greedy\n"]);
    let (table, said) = run("asked", "-n 2 --temperature 0.6 --top-p 0.95 --top-k 20 --min-p 0.01");
    assert!(!said.contains("recommends"), "{said}");
    let decoding = "2 responses each, temperature 0.6, top-p 0.95, top-k 20, min-p 0.01\n";
    assert_parts(&table, &[decoding]);
    let (_, said) = run("greedy", "--top-p 0.9");
    assert_parts(&said, &["--top-p have no effect on greedy responses"]);
    let (_, said) = run("repeated", "-n 2 --temperature 0");
    assert_parts(&said, &["greedy responses to a problem are all the same, so one is sampled"]);
}

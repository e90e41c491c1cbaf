//! `isentrope eval`: numbers, interruption and comparisons. `crates/learn/evaluation` tests the
//! statistics and what a directory keeps.

use crate::processes::{send, wait_until};
use crate::program::{
    Scratch, assert_parts, failure, failure_saying, isentrope, json_lines, json_of, outcome,
    spoken, stderr, stdout_of, text,
};
use crate::training::{Bench, base, metrics, problems, succeed, tree};
use serde_json::{Value, json};
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
    assert_parts(&table, &["n/a", "100.00 %", "24 fault"]);
    fs::remove_file(&gone).unwrap();

    fs::write(&down, "").unwrap();
    let (table, said) = spoken(run("out"));
    assert_parts(&said, &["6 of 24 responses could not be judged"]);
    assert_parts(&table, &["25.00 %"]);
    let before = tree(Path::new(&out));
    let again = "mine: 6 responses could not be judged; judging them again\n";
    let (same, said) = spoken(run("out"));
    assert_parts(&said, &[again, "going on after 9 of 12 problems"]);
    assert!(same == table && tree(Path::new(&out)) == before, "{same}");
    fs::remove_file(&down).unwrap();
    assert_parts(&spoken(run("out")).1, &[again]);
    assert!(tree(Path::new(&out)) == whole);
    assert_parts(&spoken(run("out")).1, &["mine: complete already"]);
}

#[cfg(unix)]
#[test]
fn benchmarks_share_a_commands_workers_and_an_edited_script_is_another_verifier() {
    let scratch = Scratch::new();
    let (file, out, started) = (file(&scratch, 1), scratch.path("out"), scratch.path("started"));
    // A verifier that keeps a list of its processes.
    let script = |score: &str| {
        let text = format!(
            r#"echo $$ >> "$1"; while read -r line; do id=${{line#*'"id":'}}
            echo "{{\"id\":${{id%%,*}},\"score\":{score}}}"; done"#
        );
        scratch.file("reward.sh", text)
    };
    let reward = script("1");
    let with = |bench: &str| {
        eval(format!(
            "{} {bench} --max-tokens 4 --limit 2 --out {out} \
             --verifier {{command=[\"sh\",{reward:?},{started:?}],workers=3}}",
            base()
        ))
    };
    stdout_of(with(&format!("--bench mine={file} --bench math500={file}")));
    let workers = fs::read_to_string(&started).unwrap().lines().count();
    assert_eq!(workers, 3, "the workers of one verifier");
    let manifest = json_of(&Path::new(&out).join("manifest.json"));
    for name in ["mine", "math500"] {
        let hashes = manifest["benchmarks"][name]["verifier_files_sha256"].as_object().unwrap();
        assert_eq!(hashes.keys().collect::<Vec<_>>(), [&reward], "{started} came to be later");
    }
    fs::remove_file(&started).unwrap();
    script("0.5");
    let sentence = failure(with(&format!("--bench mine={file}")));
    assert_parts(&sentence, &[&format!("mine: {reward} was edited; name another")]);
}

#[test]
fn two_directories_are_compared_by_a_paired_test() {
    let scratch = Scratch::new();
    let file = file(&scratch, 1);
    let [old, new, nucleus] = ["old", "new", "nucleus"].map(|name| scratch.path(name));
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
    let comparison = json_of(&Path::new(&new).join("comparison.json"));
    assert_eq!(comparison["settings"], json!(["seed 0 -> 1"]));
    // Nothing is sampled for directories that are complete.
    let again = stdout_of(eval(format!("--against {old} --out {new}")));
    assert!(table.ends_with(&again), "{again}");
    let same = stdout_of(eval(format!("--against {old} --out {old}")));
    assert_parts(&same, &["0 better, 0 worse, 24 the same", "1.0000"]);
    // Another decoding is another setting, and is said beside the numbers.
    let table = run(&nucleus, &format!("--top-p 0.5 --against {old}"));
    let both = "24 problems in both, temperature 1 -> temperature 1, top-p 0.5\n";
    assert_parts(&table, &[both, "mine.top_p null -> 0.5"]);
}

#[test]
fn prompts_that_do_not_fit_count_as_not_answered() {
    let scratch = Scratch::new();
    let mut rows = problems();
    rows.truncate(3);
    rows[1]["problem"] = json!("1 2 3>6:".repeat(30));
    let (file, out) = (scratch.lines("long.jsonl", &rows), scratch.path("out"));
    let (_, said) =
        spoken(eval(format!("{} --bench mine={file} --max-tokens 16 --out {out}", base())));
    assert_parts(&said, &["1 of 3 prompts do not fit"]);
    let lines = json_lines(&Path::new(&out).join("responses/mine.jsonl"));
    assert_eq!((lines.len(), &lines[1]["verdict"]), (3, &json!("unparseable")));
    assert!(lines[1]["reason"].as_str().unwrap().contains("context of 128"), "{}", lines[1]);
}

/// `train` measures before its first step what the command measures.
#[test]
fn training_measures_benchmarks_as_the_command_does() {
    let bench = Bench::train();
    let mine = file(&bench.scratch, 1);
    let sum = |i: u32| json!({"problem": format!("{i} + 1"), "answer": i + 1});
    let math = bench.scratch.lines("sums.jsonl", &(1..=24).map(sum).collect::<Vec<_>>());
    let sets = format!(
        "run.steps=1 eval.files=[] eval.every=1 eval.bench=[\"mine={mine}\",\"math500={math}\"] \
         eval.samples=4 eval.temperature=1 eval.max_tokens=16 eval.problems=24"
    );
    let said = succeed(bench.command("run", sets, ""));
    let changed = "note: benchmark math500: not as it is defined: eval.samples = 4 instead of 1, \
                   eval.temperature = 1 instead of 0, eval.max_tokens = 16 instead of 8192, \
                   eval.problems = 24\n";
    assert_parts(&said, &[changed]);
    let (run, out) = (bench.out("run"), bench.scratch.path("eval"));
    let line = &metrics(&run)[0];
    stdout_of(eval(format!(
        "{} --bench mine={mine} --bench math500={math} -n 4 --temperature 1 --max-tokens 16 \
         --seed 3 --out {out}",
        base()
    )));
    let results = json_of(&Path::new(&out).join("results.json"));
    for set in ["mine", "math500"] {
        let estimates = results["benchmarks"][set]["estimates"].as_object().unwrap();
        assert!(estimates.contains_key("pass@2") && estimates.contains_key("maj@4"));
        for (name, estimate) in estimates {
            assert_eq!(line[format!("eval/{set}/{name}")], estimate["value"], "{set} {name}");
        }
    }
    assert_eq!(line["eval/mean_of_sets"], results["mean_of_benchmarks"]["value"]);
    let kept: Vec<Value> = json_lines(&run.join("evaluations/step-000000-math500.jsonl"));
    assert!(kept[0]["prompt"].as_str().unwrap().contains("step by step"), "{}", kept[0]);
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
    // One token is left: what is sampled is what greedy decoding takes, of which one response
    // stands for both.
    let (sampled, _) = run("certain", "-n 2 --temperature 1 --top-k 1");
    let (greedy, said) = run("certainly", "-n 2 --temperature 0");
    assert_parts(&said, &["greedy responses to a problem are all the same, so one is sampled"]);
    let accuracies = |table: &str| -> Vec<String> {
        table.lines().filter(|line| line.contains('@')).map(str::to_owned).collect()
    };
    assert_eq!(accuracies(&sampled), accuracies(&greedy));
}

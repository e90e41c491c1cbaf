//! Recipes, models, data and directories that cannot be trained with, and dry runs. Messages about
//! keys alone are tested in src/recipe/tests/refusals.toml.

use crate::program::{
    assert_parts, failure_last, failure_saying, isentrope, names, outcome, spoken, stdout_of, text,
};
use crate::recipes::recipe_of;
use crate::training::{Bench, assert_same_results, base, problems, succeed};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A run is refused, with these parts in its last line, before anything is written.
fn refused(bench: &Bench, sets: &str, parts: &[&str]) {
    failure_last(bench.command("out", sets, ""), parts);
    assert!(!bench.out("out").exists(), "{sets}: something was written");
}

#[test]
#[ignore = "deep: dozens of runs that are refused"]
fn data_that_is_missing_or_useless_is_named() {
    let (bench, sft) = (Bench::train(), Bench::sft());
    let of = |name: &str, rows: &[Value]| format!("data.files={}", bench.scratch.lines(name, rows));
    // Chats for a model without a template.
    let chat = json!({"prompt": [{"role": "user", "content": "1 2 3>6:"}], "answer": "6"});
    let broken = bench.scratch.file("x.jsonl", "{\"problem\": ");
    let task = "data.files=[] data.task=countdown eval.every=0";
    // Two held-out sets of one name would be one in the metrics.
    fs::create_dir(bench.out("other")).unwrap();
    let [one, other] =
        ["held.jsonl", "other/held.jsonl"].map(|name| bench.scratch.lines(name, &problems()));
    let long = json!({"problem": "1 ".repeat(64), "answer": "1"});
    let long = bench.scratch.lines("long.jsonl", &[long]);
    // The tokenizer of the model has no letters, and no token for what it does not have.
    let lost = "no token stands for 'x' (U+0078), which is lost";
    let letter = bench.scratch.lines("all.jsonl", &[json!({"problem": "x", "answer": "1"})]);
    for (sets, parts) in [
        ("data.files=absent.jsonl".to_owned(), &["absent.jsonl", "data.files"][..]),
        ("data.files=a.xlsx".into(), &["a.xlsx", "parquet"]),
        (format!("data.files={broken}"), &["x.jsonl", "1"]),
        (of("no-answer.jsonl", &[json!({"problem": "1+1"})]), &["no-answer.jsonl", "answer"]),
        (of("chat.jsonl", &[chat]), &["chat.jsonl line 1", "chat template", "data.template"]),
        ("data.template=chat".into(), &["chat template"]),
        (
            "data.max_prompt_tokens=1".into(),
            &["24 are longer than the 1 tokens that data.max_prompt_tokens allows"],
        ),
        (format!("{task} data.max_prompt_tokens=5"), &["data.max_prompt_tokens allows 5"]),
        (format!("eval.files=[{one:?},{other:?}]"), &["eval.files", "held"]),
        (format!("eval.files={long}"), &["long.jsonl line 1", "128 tokens", "context of 128"]),
        (format!("data.files={letter}"), &["all.jsonl line 1", lost]),
        (format!("eval.files={letter}"), &["all.jsonl line 1", lost]),
        ("model.path=/absent".into(), &["absent", "no such directory"]),
        (
            "model.path=runs/a/checkpoints/step-000120".into(),
            &["model.path: there is no runs/a/checkpoints/step-000120 here: train the run runs/a"],
        ),
        ("model.path=models/small".into(), &["models/small"]),
    ] {
        refused(&bench, &sets, parts);
    }
    for (sets, parts) in [
        ("data.files=absent.jsonl data.task=", &["absent.jsonl", "data.files"][..]),
        ("sft.eval_files=absent.parquet", &["sft.eval_files names absent.parquet"]),
        ("eval.problems=1000000", &["eval.problems is 1000000", "has about", "ask for fewer"]),
        ("sft.max_tokens=8 eval.every=0 run.steps=1", &["sft.max_tokens", "raise it"]),
    ] {
        failure_last(sft.command("out", sets, "--overwrite"), parts);
    }
    let copy = bench.scratch.copy(Path::new(base()), "copy");
    fs::remove_file(copy.join("tokenizer.json")).unwrap();
    let without = format!("model.path={}", text(&copy));
    refused(&bench, &without, &["tokenizer.json", "training needs one"]);
    fs::create_dir_all(bench.scratch.path("models/small")).unwrap();
    let mut command = bench.command("out", "model.path=models/small", "");
    let parts = ["paths are relative to the current directory; there is"];
    failure_saying(command.current_dir("/"), &parts);
    let shown = stdout_of(bench.command("out", "rollout.prompts=30", "--dry-run"));
    assert_parts(&shown, &["24 problems are fewer than rollout.prompts, 30"]);
}

#[test]
fn memory_that_is_too_small_is_refused_with_what_would_help() {
    let sft = Bench::sft();
    for bench in [&Bench::train(), &sft] {
        let parts = ["at least", "for the model alone", "the program 64 MiB", "no model would fit"];
        refused(bench, "memory.budget_gib=0.01", &parts);
        let parts = ["needs at least", "to work on", "smaller model", "max_tokens"];
        refused(bench, "memory.budget_gib=0.0632", &parts);
    }
    let sets = "memory.budget_gib=0.1 memory.micro_batch_tokens=1000000 sft.batch=100000";
    refused(&sft, sets, &["memory.micro_batch_tokens is too large", "lower it"]);
}

#[test]
fn rows_that_lose_characters_or_do_not_fit_are_told() {
    let lost = "no token stands for 'x' (U+0078), which is lost";
    let bench = Bench::train();
    let mut rows = problems();
    rows[2]["problem"] = json!("1 2 x>6:");
    rows[4] = json!({"problem": "", "answer": "3"});
    rows.push(json!({"problem": "1 ".repeat(64), "answer": "1"}));
    let file = bench.scratch.lines("some.jsonl", &rows);
    let some = bench.scratch.lines("held.jsonl", &rows[..4]);
    let sets = format!("run.steps=1 data.files={file} eval.files={some}");
    let said = succeed(bench.command("run", sets, ""));
    let parts = [
        "25 rows: 23 usable",
        "some.jsonl line 5",
        "1 prompts are longer than 127 tokens, all that the model's context allows",
        "some.jsonl line 3",
        "held.jsonl line 3",
        lost,
    ];
    assert_parts(&said, &parts);
    let sft = Bench::sft();
    let long = bench.scratch.lines("long.jsonl", &rows[24..]);
    let sets = format!("data.task= data.files={long} eval.every=0 sft.max_tokens=100000");
    let part = "1 are longer than the 128 tokens that the model's context allows";
    refused(&sft, &sets, &[part]);
    // A task has no rows.
    let sets = "run.steps=1 eval.every=0 data.files=[] data.task=countdown data.prompt_prefix=x";
    let said = stdout_of(bench.command("task", sets, "--dry-run"));
    assert_parts(&said, &["training data: 1000 of the first 1000 with characters", lost]);
}

#[test]
fn directories_that_cannot_hold_a_run_are_named() {
    let bench = Bench::sft();
    let file = bench.scratch.file("file", "x");
    for (out, part) in [
        (file.clone(), "name a"),
        (format!("{file}/run"), "name a"),
        ("/proc/run".to_owned(), "one cannot write in /proc: "),
        ("-".to_owned(), "directory"),
    ] {
        for flag in ["", "--dry-run"] {
            let command = bench.command("out", format!("run.out={out}"), flag);
            failure_saying(command, &["run.out", part]);
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    fs::create_dir(bench.out("full")).unwrap();
    fs::write(bench.out("full").join("thesis.tex"), "x").unwrap();
    failure_saying(bench.command("full", "", "--overwrite"), &["is no run", "run.out"]);
    assert_eq!(names(&bench.out("full")), ["thesis.tex"]);
}

#[test]
fn a_dry_run_prints_a_recipe_that_is_the_same_recipe_and_writes_nothing() {
    for (bench, command) in [(Bench::train(), "train"), (Bench::sft(), "sft")] {
        let before = bench.scratch.names();
        let sets = "run.seed=9 optimizer.beta2=0.95";
        // It shows the changes of the recipe, and no default.
        let changes = stdout_of(bench.command("out", sets, "--dry-run"));
        assert_parts(
            &changes,
            &["seed = 9", "beta2 = 0.95", "--dry-run --all shows every setting"],
        );
        assert!(!changes.contains("\neps = ") && !changes.contains("(unset)"), "{changes}");
        let shown = stdout_of(bench.command("out", sets, "--dry-run --all"));
        let parts = ["seed = 9", "beta2 = 0.95", "eps = 1e-8", "\n# time: about ", "of the data"];
        assert_parts(&shown, &parts);
        assert!(shown.starts_with("# memory: weights "), "{shown}");
        assert_eq!(bench.scratch.names(), before);
        // The recipe with every default follows, and it makes the same run.
        let file = bench.scratch.file("resolved.toml", recipe_of(&shown).0);
        let one = bench.run("one", format!("{sets} run.steps=1"), "");
        let out = bench.scratch.path("two");
        let line = format!("{command} {file} --set run.steps=1 --set run.out={out}");
        succeed(isentrope(line));
        assert_same_results(&one, Path::new(&out));
    }
}

#[test]
fn a_dry_run_fails_where_the_run_would_but_for_what_would_be_downloaded() {
    let bench = Bench::train();
    let hub = "model.path=Qwen/Qwen2.5-0.5B";
    let shown = stdout_of(bench.command("out", hub, "--dry-run"));
    assert_parts(&shown, &["cannot be shown without the model. Qwen/Qwen2.5-0.5B: "]);
    // The tests run in the crate's directory.
    let shown = stdout_of(bench.command("out", "model.path=tests/absent", "--dry-run"));
    let told =
        "tests/absent looks like a path, and there is no such directory (tests/ has no model)";
    assert_parts(&shown, &[told]);
    // The data that was read is named, and nothing of the data that was not.
    let good = bench.scratch.lines("good.jsonl", &[json!({"problem": "1+1?", "answer": "2"})]);
    let both = format!("{hub} data.task= data.files=[{good:?},\"openai/gsm8k:main\"]");
    let shown = stdout_of(bench.command("out", both, "--dry-run"));
    let here = format!("Its data on this machine can be read: {good}, ");
    let there = "Its data on the hub have not been looked at: openai/gsm8k:main. ";
    assert_parts(&shown, &[&here, there]);
    // A device or a thread count that cannot be used is one whatever the model is, and data are
    // read without it, too.
    let bad = bench.scratch.lines("data.jsonl", &[json!({"problem": "3 5>8:"})]);
    let no_gpu = "device.dtype is bf16, and only a GPU computes with bf16: the device is the CPU";
    for (sets, flags, said) in [
        (format!("{hub} data.files=hf:"), "", "is not the hub id of a data set"),
        (format!("{hub} data.files={bad}"), "", "data.jsonl: no row can be used"),
        ("memory.budget_gib=0.01".into(), "", "the run needs at least"),
        (format!("{hub} device.dtype=bf16 device.kind=cpu"), "", no_gpu),
        ("device.dtype=bf16 device.kind=cpu".into(), "", no_gpu),
        (hub.into(), "--threads 0", "--threads: "),
        (String::new(), "--gpu-memory -3", "--gpu-memory is -3: it must be above 0"),
    ] {
        failure_last(bench.command("out", sets, format!("--dry-run {flags}")), &[said]);
    }
}

#[test]
fn a_dry_run_fits_the_columns_that_are_said() {
    let bench = Bench::train();
    let mut dry = bench.command("out", "ranks.transport=nccl", "--dry-run");
    let (printed, said) = outcome(dry.env("COLUMNS", "60"));
    assert!(said.contains("ranks.transport is nccl, and there is one process"), "{said}");
    let text = String::from_utf8(printed.stdout).unwrap();
    let comments = || text.lines().filter(|line| line.starts_with("# ") && line.contains(' '));
    assert!(comments().count() > 3, "{text}");
    let is_wide = |line: &&str| line.chars().count() > 60 && line.split(' ').count() > 3;
    assert_eq!(comments().find(is_wide), None, "{text}");
}

#[test]
fn a_dry_run_plans_for_gpus_that_are_not_here() {
    let bench = Bench::train();
    let dry = |sets: &str, flags: &str| bench.command("out", sets, format!("--dry-run {flags}"));
    let (shown, _) = spoken(dry("memory.offload_moments=true", "--gpu-memory 24"));
    for (line, dtype) in shown.lines().zip(["bf16", "f32"]) {
        let start = format!(
            "# a GPU of 24 GB (24.0 GiB, as its driver shows) with {dtype}: memory: weights "
        );
        assert!(line.starts_with(&start), "{shown}");
        assert_parts(line, &[" in the host's memory; sampling: "]);
    }
    assert!(!shown.contains("# time: "), "nobody knows how fast it is: {shown}");
    assert_parts(&shown, &["# the host's memory: with bf16 ", " (moments ", "; with f32 "]);
    let written = "; written in less than 1 s at 1 GB/s (an assumption)";
    assert_parts(&shown, &["# checkpoints: ", written]);
    let limit = "if a GPU of type RTX 4090 ran at its peak of 165 TFLOP/s in bf16";
    assert_parts(&shown, &["# limit, not a forecast: ", limit, "; with f32 at least "]);
    // One of several ranks has its share of the moments, and in bf16 of the remainders.
    let (alone, _) = spoken(dry("update.shards=8", "--gpu-memory 24 --ranks 1"));
    assert_parts(alone.lines().next().unwrap(), &[", sums of shards "]);
    let (of_eight, _) = spoken(dry("", "--gpu-memory 24 --ranks 8"));
    assert_parts(&of_eight, &[" for 8 ranks on a machine", "; a rank writes up to "]);
    let mut of_eight = of_eight.lines();
    let shards = "update.shards = 8, one for each rank, since the recipe does not set it";
    let heading = format!("# one of 8 ranks, each with a device of its own; {shards}:");
    assert_eq!(of_eight.next(), Some(&*heading));
    let (one, eight) = (alone.lines().next().unwrap(), of_eight.next().unwrap());
    assert!(!eight.contains("sums of shards"), "{eight}");
    let kib = |line: &str, name: &str| -> f64 {
        let number = line.split(name).nth(1).and_then(|rest| rest.split(" KiB").next());
        number.unwrap().parse().unwrap()
    };
    assert!(["weights ", "moments "].iter().all(|name| kib(eight, name) < kib(one, name)));
    assert_eq!(kib(eight, "gradient "), kib(one, "gradient "));
    let (refused, said) = outcome(dry("update.shards=4", "--ranks 8"));
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert_parts(&said, &["4 shards", "not over 8"]);
    // A GPU that is named has the memory that its driver shows, which is less than it is sold with.
    let (l40s, _) = spoken(dry("", "--gpu L40S"));
    let first = l40s.lines().next().unwrap();
    let start = "# L40S (45.0 GiB, as its driver shows) with bf16: memory: ";
    let end = " of 40.5 GiB if all texts are as long as they may be";
    assert!(first.starts_with(start) && first.ends_with(end), "{l40s}");
    // The help has all that are known.
    let (_, said) = outcome(dry("", "--gpu voodoo2"));
    let known = said.split("known are ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    let help = stdout_of(isentrope("train --help"));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_parts(&help, &[&format!("plans for such a GPU ({known})")]);
    // Comments are lines that a page holds.
    let shown = String::from_utf8(outcome(dry("", "--gpu-memory 24")).0.stdout).unwrap();
    let comments = shown.lines().filter(|line| line.starts_with('#'));
    assert!(comments.clone().all(|line| line.len() <= 100) && comments.count() > 6, "{shown}");
    // A run that does not fit has the reason alone.
    let (small, said) = outcome(dry("", "--gpu-memory 0.05"));
    assert_eq!((small.status.code(), small.stdout.len()), (Some(1), 0));
    let parts = ["the run does not fit a GPU of 0.05 GB (51 MiB)\n  with bf16: the run needs at"];
    assert_parts(&said, &parts);
    assert_parts(&said, &["\n  with f32: the run needs", "the least GPU has 1 GiB"]);
    for gb in ["0", "nan"] {
        let (output, said) = outcome(dry("", &format!("--gpu-memory {gb}")));
        assert!(!output.status.success() && said.contains("--gpu-memory"), "{said}");
    }
}

//! Recipes, models, data and directories that cannot be trained with. Messages about keys alone are
//! tested in src/recipe/tests/refusals.toml.

use crate::program::{
    assert_parts, failure_last, failure_saying, isentrope, names, stderr, stdout_of, text,
    wrong_usage,
};
use crate::recipes::recipe_of;
use crate::training::{Bench, assert_same_results, base, metrics, problems, succeed};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A run is refused, with these parts in its last line, before anything is written.
fn refused(bench: &Bench, sets: &[&str], parts: &[&str]) {
    failure_last(&mut bench.command("out", sets, &[]), parts);
    assert!(!bench.out("out").exists(), "{sets:?}: something was written");
}

#[test]
fn a_recipe_is_refused_in_one_sentence_before_anything_is_read() {
    for (bench, set, part) in [
        (Bench::train(), "rollout.promts=1", "did you mean `prompts`"),
        (Bench::train(), "run.steps=0", "at least 1"),
        (Bench::sft(), "sft.batch=0", "from 1 to 1048576"),
    ] {
        failure_saying(&mut bench.command("out", &[set], &[]), &[part]);
        assert!(!bench.out("out").exists(), "{set}: something was written");
    }
}

#[test]
fn data_that_is_missing_or_useless_is_named() {
    let bench = Bench::train();
    let files = |path: &str| format!("data.files=[{path:?}]");
    let file = |name: &str, rows: &[Value]| files(&bench.scratch.lines(name, rows));
    // Chats for a model without a template.
    let chat = json!({"prompt": [{"role": "user", "content": "1 2 3>6:"}], "answer": "6"});
    for (set, parts) in [
        (files(&bench.scratch.path("absent.jsonl")), &["absent.jsonl", "data.files"][..]),
        (files("a.csv"), &["a.csv", "parquet"]),
        (files(&bench.scratch.file("x.jsonl", "{\"problem\": ")), &["x.jsonl", "1"]),
        (file("no-answer.jsonl", &[json!({"problem": "1+1"})]), &["no-answer.jsonl", "answer"]),
        (file("chat.jsonl", &[chat]), &["chat.jsonl line 1", "chat template", "data.template"]),
        ("data.template=chat".into(), &["chat template"]),
        (
            "data.max_prompt_tokens=1".into(),
            &["24 are longer than the 1 tokens that data.max_prompt_tokens allows"],
        ),
    ] {
        refused(&bench, &[&set], parts);
    }
    let task = ["data.files=[]", "data.task=countdown", "eval.every=0"];
    let prefix = format!("data.prompt_prefix={:?}", "1 ".repeat(64));
    for (set, part) in [
        ("data.max_prompt_tokens=5", "data.max_prompt_tokens allows 5"),
        (&prefix, "the model's context allows 127"),
    ] {
        refused(&bench, &[&task[..], &[set]].concat(), &["data.task has prompts of", part]);
    }
    // Two held-out sets of one name would be one in the metrics.
    fs::create_dir(bench.out("other")).unwrap();
    fs::copy(bench.out("problems.jsonl"), bench.out("other/problems.jsonl")).unwrap();
    let [one, other] =
        ["problems.jsonl", "other/problems.jsonl"].map(|name| bench.scratch.path(name));
    refused(&bench, &[&format!("eval.files=[{one:?}, {other:?}]")], &["eval.files", "problems"]);

    let sft = Bench::sft();
    let mine = files(&sft.scratch.path("absent.jsonl"));
    refused(&sft, &[&mine, "data.task="], &["absent.jsonl", "data.files"]);
    refused(
        &sft,
        &["sft.eval_files=[\"absent.parquet\"]"],
        &["sft.eval_files names absent.parquet"],
    );
    failure_last(
        &mut sft.command("out", &["eval.problems=1000000"], &[]),
        &["eval.problems is 1000000", "has about", "ask for fewer"],
    );
    failure_last(
        &mut sft.command(
            "out",
            &["sft.max_tokens=8", "eval.every=0", "run.steps=1"],
            &["--overwrite"],
        ),
        &["sft.max_tokens", "raise it"],
    );
    let shown = stdout_of(&mut bench.command("out", &["rollout.prompts=30"], &["--dry-run"]));
    assert!(shown.contains("24 problems are fewer than rollout.prompts, 30"), "{shown}");
}

#[test]
fn memory_that_is_too_small_is_refused_with_what_would_help() {
    let sft = Bench::sft();
    for bench in [&Bench::train(), &sft] {
        for (set, parts) in [
            ("memory.budget_gib=0.01", &["at least", "for the model alone", "smaller"][..]),
            (
                "memory.budget_gib=0.0632",
                &["needs at least", "to work on", "smaller model", "max_tokens"],
            ),
        ] {
            refused(bench, &[set], parts);
        }
    }
    let sets = ["memory.budget_gib=0.1", "memory.micro_batch_tokens=1000000", "sft.batch=100000"];
    refused(&sft, &sets, &["memory.micro_batch_tokens is too large", "lower it"]);
}

/// The tokenizer of the model has no letters, and no token for what it does not have.
#[test]
fn rows_that_lose_characters_are_named() {
    let lost = "no token stands for 'x' (U+0078), which is lost";
    let bench = Bench::train();
    let mut rows = problems();
    rows[2]["problem"] = json!("1 2 x>6:");
    rows[4] = json!({"problem": "", "answer": "3"});
    rows[9] = json!({"problem": "1 2 3>9:"});
    let file = bench.scratch.lines("some.jsonl", &rows);
    let sets =
        ["run.steps=1", &format!("data.files=[{file:?}]"), &format!("eval.files=[{file:?}]")];
    let said = succeed(&mut bench.command("run", &sets, &[]));
    let (training, held_out) = said.split_once("some.jsonl: 24 rows").unwrap();
    for (said, part) in [
        (training, "24 rows: 22 usable"),
        (training, "some.jsonl line 5"),
        (training, "some.jsonl line 10"),
        (training, lost),
        (held_out, "of the 6 problems that are asked, 1 with characters"),
        (held_out, lost),
    ] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    assert_eq!(said.matches("some.jsonl line 3").count(), 2, "{said}");
    let all = bench.scratch.lines("all.jsonl", &[json!({"problem": "x", "answer": "1"})]);
    refused(&bench, &[&format!("data.files=[{all:?}]")], &["all.jsonl line 1", lost]);
    refused(&bench, &[&format!("eval.files=[{all:?}]")], &["all.jsonl line 1", lost]);

    // Rows that are left out lose nothing, nor does the row after them.
    let mut rows = problems();
    rows[2]["problem"] = json!("1 2 1 2 1 2 1 2x>12:");
    let file = bench.scratch.lines("long.jsonl", &rows);
    let set = format!("data.files=[{file:?}]");
    let sets = ["run.steps=1", "eval.every=0", "data.max_prompt_tokens=12", &set];
    let said = succeed(&mut bench.command("long", &sets, &[]));
    assert!(
        said.contains("23 usable") && said.contains("1 too long") && !said.contains("lose"),
        "{said}"
    );
    // A task has no rows.
    let sets = [
        "run.steps=1",
        "eval.every=0",
        "data.files=[]",
        "data.task=countdown",
        "data.prompt_prefix=x",
    ];
    let said = stdout_of(&mut bench.command("task", &sets, &["--dry-run"]));
    assert!(said.contains("training data: 1000 of the first 1000 with characters"), "{said}");
    assert!(said.contains(lost) && !said.contains("0 rows"), "{said}");

    let sft = Bench::sft();
    let rows =
        [("1 2 3>6:", "1+2=3"), ("1 2 3>6:", "1+2=x"), ("x", "1+2=3"), ("1 2 3>6:", "3+3=6!")]
            .map(|(prompt, response)| json!({"prompt": prompt, "response": response}));
    let run = |name: &str, rows: &[Value], flags: &[&str]| {
        let files = format!("data.files=[{:?}]", sft.scratch.lines(name, rows));
        sft.command("run", &["data.task=", &files, "eval.every=0", "run.steps=1"], flags)
            .output()
            .unwrap()
    };
    let said = stderr(&run("pairs.jsonl", &rows, &[]));
    let (second, third) = ("pairs.jsonl line 2: no token", "pairs.jsonl line 3: ");
    assert_parts(
        &said,
        &["4 rows: 3 usable", "of the usable, 1 with characters", second, third, lost],
    );
    let said = stderr(&run("none.jsonl", &rows[2..3], &["--overwrite"]));
    assert!(said.contains("1 cannot be used, the first, none.jsonl line 1: "), "{said}");
}

#[test]
fn models_that_are_missing_or_incomplete_are_named() {
    let bench = Bench::train();
    let absent = bench.scratch.path("absent");
    refused(&bench, &[&format!("model.path={absent}")], &["absent", "no such directory"]);
    let copy = |name: &str, without: &str| {
        let dir = bench.scratch.copy(Path::new(base()), name);
        fs::remove_file(dir.join(without)).unwrap();
        format!("model.path={}", text(&dir))
    };
    refused(&bench, &[&copy("a", "config.json")], &["config.json", "no such file"]);
    refused(&bench, &[&copy("b", "tokenizer.json")], &["tokenizer.json", "training needs one"]);
    failure_last(
        &mut bench.command("out", &[&copy("c", "model.safetensors")], &[]),
        &["model.safetensors"],
    );
}

#[test]
fn prompts_and_examples_that_do_not_fit_the_context_are_left_out_or_refused() {
    let bench = Bench::train();
    let long = json!({"problem": "1 ".repeat(64), "answer": "1"});
    let file = bench.scratch.lines("long.jsonl", &[vec![long], problems()].concat());
    let train = format!("data.files=[{file:?}]");
    let said = succeed(&mut bench.command("run", &["run.steps=1", "eval.every=0", &train], &[]));
    assert!(
        said.contains("1 prompts are longer than 127 tokens, all that the model's context allows"),
        "{said}"
    );
    let held_out = format!("eval.files=[{file:?}]");
    refused(
        &bench,
        &[&held_out],
        &["long.jsonl line 1", "128 tokens", "context of 128", "eval.files"],
    );

    let sft = Bench::sft();
    let pairs: Vec<Value> =
        [8, 25].map(|n| json!({"prompt": "1 2 3>6:", "response": "1+2=3,".repeat(n)})).into();
    let file = sft.scratch.lines("long.jsonl", &pairs);
    let sets = [
        "data.task=",
        "data.shuffle=false",
        &format!("data.files=[{file:?}]"),
        "sft.max_tokens=1000",
        "eval.every=0",
        "run.steps=1",
    ];
    let out = sft.run("run", &sets, &[]);
    let line = &metrics(&out)[1];
    assert_eq!((&line["sft/tokens"], &line["sft/too_long"]), (&json!(12.0 * 57.0), &json!(0.0)));
}

#[test]
fn directories_that_cannot_hold_a_run_are_named() {
    let bench = Bench::sft();
    let file = bench.scratch.file("file", "x");
    for out in [file.clone(), format!("{file}/run"), "/proc/run".to_owned()] {
        for flags in [&[][..], &["--dry-run"]] {
            let mut command = bench.command("out", &[&format!("run.out={out}")], flags);
            failure_saying(&mut command, &[&format!("run.out is {out}"), "name a"]);
        }
    }
    failure_saying(
        &mut bench.command("out", &["run.out=/proc/run"], &[]),
        &["one cannot write in /proc: "],
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    let full = bench.scratch.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(Path::new(&full).join("thesis.tex"), "x").unwrap();
    failure_saying(&mut bench.command("full", &[], &["--overwrite"]), &["is no run", "run.out"]);
    assert_eq!(names(Path::new(&full)), ["thesis.tex"]);
}

#[test]
fn recipe_files_that_are_none_are_named() {
    let bench = Bench::train();
    let scratch = &bench.scratch;
    for command in ["train", "sft"] {
        let run = |recipe: &str, parts: &[&str]| {
            failure_saying(&mut isentrope(&[command, recipe]), parts)
        };
        run(&scratch.path("absent.toml"), &["absent.toml", "No such file"]);
        run(&scratch.path("."), &["is a directory"]);
        run(&scratch.file("broken.toml", "[run\nsteps = 1"), &["broken.toml:1", "not valid TOML"]);
        run(
            &scratch.file("twice.toml", "run.steps = 1\nrun.steps = 2"),
            &["twice.toml:2", "not valid TOML"],
        );
        run(&scratch.file("binary.toml", [0xff, 0xfe]), &["binary.toml", "UTF-8"]);
        run(&scratch.file("empty.toml", ""), &["empty.toml", "model.path", "is not set"]);
        run(
            &scratch.file("unknown.toml", "\n[run]\nstep = 1"),
            &["unknown.toml:3", "did you mean `steps`"],
        );
        wrong_usage(&mut isentrope(&[command]), "<RECIPE>");
        wrong_usage(&mut isentrope(&[command, "x", "--resume", "--overwrite"]), "--overwrite");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_recipes_name_need_not_be_unicode() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::sft();
    let path = Path::new(&bench.scratch.path("")).join(std::ffi::OsStr::from_bytes(b"\xff.toml"));
    fs::copy(bench.scratch.path("recipe.toml"), &path).unwrap();
    for flags in [&["--dry-run"][..], &["--set", "run.steps=1", "--set", "eval.every=0"]] {
        let mut command = isentrope(&["sft"]);
        succeed(command.arg(&path).args(flags).current_dir(bench.scratch.path("")));
    }
    let manifest = fs::read_to_string(bench.scratch.path("runs/\u{fffd}/manifest.json")).unwrap();
    assert!(manifest.contains("\u{fffd}.toml"), "{manifest}");
}

#[test]
fn a_dry_run_prints_a_recipe_that_is_the_same_recipe_and_writes_nothing() {
    for (bench, command) in [(Bench::train(), "train"), (Bench::sft(), "sft")] {
        let before = bench.scratch.names();
        let sets = ["run.seed=9", "optimizer.beta2=0.95"];
        let shown = stdout_of(&mut bench.command("out", &sets, &["--dry-run"]));
        assert_parts(
            &shown,
            &["seed = 9", "beta2 = 0.95", "eps = 1e-8", "\n# time: about ", "of the data"],
        );
        assert!(shown.starts_with("# memory: weights "), "{shown}");
        assert_eq!(bench.scratch.names(), before);
        // The recipe with every default follows.
        let (recipe, _) = recipe_of(&shown);
        let file = bench.scratch.file("resolved.toml", &recipe);
        let again = stdout_of(&mut isentrope(&[command, &file, "--dry-run"]));
        assert_eq!(recipe_of(&again).0, recipe);
        // And it makes the same run.
        let one = bench.run("one", &[&sets[..], &["run.steps=1"]].concat(), &[]);
        let out = bench.scratch.path("two");
        let arguments =
            [command, &file, "--set", "run.steps=1", "--set", &format!("run.out={out}")];
        succeed(&mut isentrope(&arguments));
        assert_same_results(&one, Path::new(&out));
        assert_eq!(
            fs::read_to_string(one.join("recipe.toml")).unwrap().replace(&text(&one), ""),
            fs::read_to_string(Path::new(&out).join("recipe.toml")).unwrap().replace(&out, "")
        );
    }
}

#[test]
fn a_dry_run_fails_where_the_run_would_but_for_what_would_be_downloaded() {
    let bench = Bench::train();
    let shown =
        stdout_of(&mut bench.command("out", &["model.path=Qwen/Qwen2.5-0.5B"], &["--dry-run"]));
    assert!(shown.contains("cannot be shown without the model. Qwen/Qwen2.5-0.5B: "), "{shown}");
    // The tests run in the crate's directory.
    let shown = stdout_of(&mut bench.command("out", &["model.path=tests/absent"], &["--dry-run"]));
    let told =
        "tests/absent looks like a path, and there is no such directory (tests/ has no model)";
    assert!(shown.contains(told), "{shown}");
    // The data that was read is named, and nothing of the data that was not.
    let good = bench.scratch.file("good.jsonl", "{\"problem\": \"1+1?\", \"answer\": \"2\"}\n");
    let both = format!("data.files=['{good}', 'openai/gsm8k:main']");
    let sets = ["model.path=Qwen/Qwen2.5-0.5B", "data.task=", &both];
    let shown = stdout_of(&mut bench.command("out", &sets, &["--dry-run"]));
    assert!(shown.contains(&format!("Its data on this machine can be read: {good}, ")), "{shown}");
    assert!(
        shown.contains("Its data on the hub have not been looked at: openai/gsm8k:main. "),
        "{shown}"
    );
    for id in ["hf:", "hf:a b/c"] {
        let set = format!("data.files=['{id}']");
        let sets = ["model.path=Qwen/Qwen2.5-0.5B", "data.task=", &set];
        let output = bench.command("out", &sets, &["--dry-run"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("is not the hub id of a data set"), "{}", stderr(&output));
    }
    // Data are read without the model, too.
    let files = format!(
        "data.files=['{}']",
        bench.scratch.file("data.jsonl", "{\"problem\": \"3 5>8:\"}\n")
    );
    let sets = ["model.path=Qwen/Qwen2.5-0.5B", "data.task=", &files];
    let output = bench.command("out", &sets, &["--dry-run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("data.jsonl: no row can be used"), "{}", stderr(&output));
    let absent = format!("model.path={}", bench.scratch.path("absent"));
    for (set, says) in
        [(&absent[..], "absent"), ("memory.budget_gib=0.01", "the run needs at least")]
    {
        let output = bench.command("out", &[set], &["--dry-run"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    // A device that cannot be used is one whatever the model is.
    for model in ["model.path=Qwen/Qwen2.5-0.5B", "run.seed=1"] {
        let sets = [model, "device.dtype=bf16", "device.kind=cpu"];
        let output = bench.command("out", &sets, &["--dry-run"]).output().unwrap();
        let shown = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{shown}");
        let told = "device.dtype is bf16, and only a GPU computes with bf16: the device is the CPU";
        assert!(shown.starts_with(&format!("# {told}")) && shown.contains("seed = "), "{shown}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
    // The threads are looked at before anything is printed, and before the model.
    for set in ["run.seed=1", "model.path=Qwen/Qwen2.5-0.5B"] {
        let output =
            bench.command("out", &[set], &["--dry-run", "--threads", "0"]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        assert!(stderr(&output).contains("--threads: "), "{}", stderr(&output));
    }
}

#[test]
fn a_dry_run_plans_for_gpus_that_are_not_here() {
    let bench = Bench::train();
    let dry = |gb: &str, sets: &[&str]| {
        bench.command("out", sets, &["--dry-run", "--gpu-memory", gb]).output().unwrap()
    };
    let text = |output: &std::process::Output| String::from_utf8(output.stdout.clone()).unwrap();
    let fits = dry("24", &["memory.offload_moments=true"]);
    let shown = text(&fits);
    assert!(fits.status.success(), "{}", stderr(&fits));
    let lines: Vec<&str> = shown.lines().take(2).collect();
    for (line, dtype) in lines.iter().zip(["bf16", "f32"]) {
        assert!(
            line.starts_with(&format!("# a GPU of 24 GB with {dtype}: memory: weights ")),
            "{shown}"
        );
        assert!(line.contains(" in the host's memory; sampling: "), "{shown}");
    }
    assert!(!shown.contains("# time: "), "nobody knows how fast it is: {shown}");
    let limits: Vec<&str> =
        shown.lines().filter(|line| line.starts_with("# limit, not a forecast: ")).collect();
    assert!(
        limits.len() == 1
            && limits[0]
                .contains("if a GPU of type RTX 4090 ran at its peak of 165 TFLOP/s in bf16"),
        "{shown}"
    );
    assert!(
        limits[0].contains("with bf16 at least ") && limits[0].contains("; with f32 at least "),
        "{shown}"
    );
    // A GPU that is named has the memory that its driver shows, which is less than it is sold with.
    let named =
        |name: &str| bench.command("out", &[], &["--dry-run", "--gpu", name]).output().unwrap();
    let h200 = text(&named("h200"));
    assert!(
        h200.starts_with("# H200 SXM (140.4 GiB, as its driver shows) with bf16: memory: "),
        "{h200}"
    );
    let l40s = text(&named("L40S"));
    assert!(
        l40s.starts_with("# L40S (45.0 GiB, as its driver shows) with bf16: memory: "),
        "{l40s}"
    );
    assert!(l40s.lines().next().unwrap().ends_with(" of 40.5 GiB"), "nine tenths of it: {l40s}");
    let peaks =
        "a GPU of type H200 SXM ran at its peak of 989 TFLOP/s in bf16, 67.0 in f32 and 4800 GB/s";
    assert!(h200.contains(peaks), "{h200}");
    let unknown = named("voodoo2");
    assert!(!unknown.status.success(), "{}", stderr(&unknown));
    let said = stderr(&unknown);
    let known =
        said.split("known are ").nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default();
    // The help has them all.
    let help = stdout_of(&mut isentrope(&["train", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        known.starts_with("a100, ") && help.contains(&format!("plans for such a GPU ({known})")),
        "{known}"
    );
    let here =
        text(&bench.command("out", &[], &["--dry-run", "--device", "cpu"]).output().unwrap());
    let measured =
        here.lines().find(|line| line.starts_with("# limit, not a forecast: if all ran at the "));
    assert!(measured.is_some_and(|line| line.contains("measured here: at least ")), "{here}");
    let small = dry("0.05", &[]);
    assert_eq!(small.status.code(), Some(1));
    let shown = text(&small);
    for part in ["with bf16: the run needs at least", "with f32 as it is, the least GPU has 1 GB"] {
        assert!(shown.contains(part), "{part:?} is not in: {shown}");
    }
    assert!(stderr(&small).contains("the run does not fit a GPU of 0.05 GB"), "{}", stderr(&small));
    for gb in ["0", "nan", "inf"] {
        let output = dry(gb, &[]);
        assert!(
            !output.status.success() && stderr(&output).contains("--gpu-memory"),
            "{}",
            stderr(&output)
        );
    }
    let output = bench.command("out", &[], &["--gpu-memory", "80"]).output().unwrap();
    assert!(
        !output.status.success() && stderr(&output).contains("--dry-run"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_model_beside_the_recipe_is_not_taken_for_a_hub_id() {
    let bench = Bench::train();
    fs::create_dir_all(bench.scratch.path("models/small")).unwrap();
    let mut command = bench.command("out", &["model.path=models/small"], &[]);
    failure_saying(
        command.current_dir("/"),
        &["paths are relative to the current directory; there is"],
    );
}

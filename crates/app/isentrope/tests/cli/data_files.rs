//! Where commands read their data from: files of every format, patterns, data sets of the hub; and
//! what is no file.

use crate::program::{
    Scratch, failure_last, failure_saying, fixture, isentrope, json_of, lines_of, stderr,
    stdout_of, text, wrong_usage,
};
use crate::text_model::text_model;
use crate::training::{Bench, base, metrics, problems};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

fn gzip(scratch: &Scratch, name: &str, contents: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(contents.as_bytes()).unwrap();
    scratch.file(name, encoder.finish().unwrap())
}

/// A recipe for the tiny base model, without data.
fn recipe(scratch: Scratch) -> Bench {
    let text = format!(
        r#"
        run.steps = 1
        model.path = {:?}
        rollout = {{ prompts = 4, responses = 2, max_tokens = 6, stop = "!" }}
        eval = {{ every = 1, problems = 4, samples = 2 }}
        "#,
        base()
    );
    Bench::new(scratch, "train", &text)
}

/// The hub's cache, in which a data set is.
fn cache(scratch: &Scratch) -> String {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let home = scratch.path("hf");
    let repository = Path::new(&home).join("hub/datasets--org--sums");
    let files = repository.join("snapshots").join(commit).join("plain");
    fs::create_dir_all(&files).unwrap();
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::write(repository.join("refs/main"), commit).unwrap();
    for (split, problems) in [("train", &problems()[..20]), ("test", &problems()[20..])] {
        let lines: String = problems.iter().map(|row| format!("{row}\n")).collect();
        fs::write(files.join(format!("{split}-00000-of-00001.jsonl")), lines).unwrap();
    }
    // The names of all its files, as a download leaves them.
    fs::create_dir(repository.join(".files")).unwrap();
    let names = ["test", "train"].map(|split| format!("plain/{split}-00000-of-00001.jsonl"));
    fs::write(repository.join(".files").join(commit), names.join("\n")).unwrap();
    home
}

#[test]
fn a_single_text_stands_for_a_list() {
    let scratch = Scratch::new();
    let file = scratch.lines("sums.jsonl", &problems());
    let bench = recipe(scratch);
    let (train, held_out) = (format!("data.files={file}"), format!("eval.files={file}"));
    let shown = stdout_of(&mut bench.command("out", &[&train, &held_out], &["--dry-run"]));
    for part in [format!("files = [{file:?}]"), "stop = [\"!\"]".into()] {
        assert!(shown.contains(&part), "{part} is not in: {shown}");
    }
    // A command in one text would be a program of that name.
    let command = "reward.verifier.command=python3 reward.py";
    failure_saying(
        &mut bench.command("out", &[&train, command], &["--dry-run"]),
        &["command", "must be"],
    );
}

#[test]
fn runs_take_data_from_patterns_and_from_the_hub() {
    let scratch = Scratch::new();
    let home = cache(&scratch);
    let lines: String = problems().iter().map(|row| format!("{row}\n")).collect();
    gzip(&scratch, "part-1.jsonl.gz", &lines);
    let bench = recipe(scratch);
    let places = [bench.scratch.path("part-*.gz"), "hf:org/sums@main:plain:train".into()];
    for (number, place) in places.iter().enumerate() {
        let out = format!("run-{number}");
        let sets = [&format!("data.files={place}")[..], "eval.files=org/sums"];
        crate::training::succeed(bench.command(&out, &sets, &[]).env("HF_HOME", &home));
        assert!(metrics(&bench.out(&out))[1]["eval/sums/mean@2"].is_number());
        let manifest = json_of(&bench.out(&out).join("manifest.json"));
        assert_eq!(manifest["data"]["sha256"].as_object().unwrap().len(), 1);
    }
    for (place, says) in [
        ("org/other", &["org/other", "HF_HUB_OFFLINE"][..]),
        ("org/sums:fancy", &["org/sums", "\"fancy\""]),
        ("org/sums:a:b:c", &["org/sums", ":CONFIG"]),
        ("no-*.jsonl", &["no-*.jsonl", "no file matches"]),
    ] {
        let mut command = bench.command("no", &[&format!("data.files={place}")], &[]);
        failure_last(command.env("HF_HOME", &home), says);
    }
}

#[test]
fn prompts_are_read_from_whatever_data_files_may_name() {
    let scratch = Scratch::new();
    let home = cache(&scratch);
    let model = text(&text_model(&scratch, "model"));
    let generate = |prompts: &str| {
        let mut command =
            isentrope(&["generate", &model, "--prompts", prompts, "--max-tokens", "3"]);
        command.env("HF_HOME", &home);
        lines_of(command)
    };
    let rows = [json!({"id": "a", "question": "1+1?"}), json!({"question": "2+2?"})];
    let expected = generate(&scratch.lines(
        "prompts.jsonl",
        &[json!({"id": "a", "prompt": "1+1?"}), json!({"prompt": "2+2?"})],
    ));
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    for file in [
        scratch.file("array.json", json!(rows).to_string()),
        scratch.file("rows.jsonl", &lines),
        gzip(&scratch, "rows.jsonl.gz", &lines),
        scratch.file(
            "columns.json.zst",
            zstd::encode_all(&b"{\"id\": [\"a\", null], \"problem\": [\"1+1?\", \"2+2?\"]}"[..], 1)
                .unwrap(),
        ),
    ] {
        let found = generate(&file);
        assert_eq!(found[0], expected[0], "{file}");
        assert_eq!(found[1]["tokens"], expected[1]["tokens"], "{file}");
    }
    assert_eq!(generate("org/sums").len(), 20);
    assert_eq!(generate("org/sums:test").len(), 4);
    // A list of messages is a chat, under any of the names.
    let chat = json!([{"role": "user", "content": "Hi"}]);
    let chats = |key: &str| {
        generate(&scratch.lines("chat.jsonl", &[json!({key: chat})]))[0]["tokens"].clone()
    };
    assert_eq!(chats("prompt"), chats("messages"));
    assert_eq!(chats("problem"), chats("messages"));
    let published = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../judge/data/tests/fixtures/benchmarks/dapo.parquet");
    assert_eq!(generate(&text(&published)).len(), 12);
}

#[test]
fn judged_files_may_be_packed_and_several() {
    let scratch = Scratch::new();
    let row = "{\"gold\": 1, \"pred\": \"1\"}\n";
    gzip(&scratch, "a-1.jsonl.gz", row);
    scratch.file("a-2.json", format!("[{row},{row}]"));
    let lines = lines_of(isentrope(&["grade", "--in", &scratch.path("a-*")]));
    assert_eq!(lines.iter().filter(|line| line["verdict"] == "correct").count(), 3);
}

/// A model whose template says what it is told of thinking.
fn thinking_model(scratch: &Scratch) -> String {
    let dir = text_model(scratch, "thinking");
    let template = "{{ messages[-1].content }}{% if enable_thinking is defined and not enable_thinking %}<off>{% endif %}\
                    {{ mood }}";
    fs::write(dir.join("chat_template.jinja"), template).unwrap();
    text(&dir)
}

#[test]
fn variables_reach_the_chat_template_of_every_command() {
    let scratch = Scratch::new();
    let model = thinking_model(&scratch);
    let prompts =
        scratch.lines("chats.jsonl", &[json!({"messages": [{"role": "user", "content": "Hi"}]})]);
    let plain = scratch
        .lines("plain.jsonl", &[json!({"messages": [{"role": "user", "content": "Hi<off>"}]})]);
    let off = ["--template-variable", "enable_thinking=false"];
    let run = |command: &[&str]| lines_of(isentrope(command));
    let generated = run(&[
        &["generate", &model, "--prompts", &prompts, "--max-tokens", "4"][..],
        &off,
    ]
    .concat());
    assert_eq!(generated, run(&["generate", &model, "--prompts", &plain, "--max-tokens", "4"]));
    let scored = run(&[&["score", &model, "--in", &prompts][..], &off].concat());
    assert_eq!(scored, run(&["score", &model, "--in", &plain]));

    let bench = scratch.lines("bench.jsonl", &[json!({"problem": "1+1?", "answer": "2"})]);
    let (bench, out) = (format!("mine={bench}"), scratch.path("evals"));
    let arguments = ["eval", &model, "--bench", &bench, "--max-tokens", "2", "--out", &out];
    stdout_of(&mut isentrope(&[&arguments[..], &off].concat()));
    let manifest = json_of(&Path::new(&out).join("manifest.json"));
    assert_eq!(
        manifest["benchmarks"]["mine"]["template_variables"],
        json!({"enable_thinking": false})
    );
    failure_saying(&mut isentrope(&arguments), &["template_variables"]);
    wrong_usage(
        &mut isentrope(&["eval", &model, "--bench", &bench, "--template-variable", "x"]),
        "NAME=VALUE",
    );

    let recipe = format!(
        r#"
        run.steps = 1
        model.path = {model:?}
        data.template_variables = {{ enable_thinking = false, mood = "fine" }}
        "#
    );
    let bench = Bench::new(scratch, "train", &recipe);
    let data = bench.scratch.lines("data.jsonl", &[json!({"problem": "1+1?", "answer": "2"})]);
    let files = format!("data.files={data}");
    let shown = stdout_of(&mut bench.command("out", &[&files], &["--dry-run"]));
    assert!(
        shown.contains("1+1?<off>fine") && shown.contains("enable_thinking = false"),
        "{shown}"
    );
    let own = "data.template_variables.messages=1";
    failure_saying(
        &mut bench.command("out", &[&files, own], &["--dry-run"]),
        &["data.template_variables.messages"],
    );
}

#[cfg(unix)]
#[test]
fn a_pipe_that_the_shell_has_opened_is_read() {
    let line = "{\"gold\": \"1\", \"response\": \"\\\\boxed{1}\"}";
    // As bash does for <(zcat a.gz); the other two are names of standard input.
    for name in ["/dev/fd/3", "/dev/fd/0", "/dev/stdin"] {
        let mut command = Command::new("sh");
        command.args(["-c", "{ printf '%s\\n' \"$2\"; } | \"$0\" grade --in \"$1\" 3<&0"]);
        command.args([env!("CARGO_BIN_EXE_isentrope"), name, line]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let graded = String::from_utf8(output.stdout).unwrap();
        assert_eq!(graded.lines().count(), 1, "{name}: {graded}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused_by_every_command() {
    let scratch = Scratch::new();
    let fifo = scratch.path("fifo.jsonl");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let device = scratch.path("device.jsonl");
    std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
    let model = text(&fixture("models/qwen3"));
    let bench = recipe(Scratch::new());
    for (file, what) in [
        (&fifo, "is a pipe (FIFO), not a regular file"),
        (&device, "is a device, not a regular file"),
    ] {
        for command in [
            &["generate", &model, "--prompts", file][..],
            &["score", &model, "--in", file],
            &["grade", "--in", file],
            &["train", file],
            &["sft", file],
            &["eval", base(), "--bench", &format!("mine={file}")],
        ] {
            failure_saying(&mut isentrope(command), &[file, what]);
        }
        for key in ["data.files", "eval.files"] {
            let sets = ["data.task=countdown", &format!("{key}={file}")];
            let sets = if key == "data.files" { &sets[1..] } else { &sets[..] };
            failure_last(&mut bench.command("out", sets, &[]), &[file, what]);
        }
    }
}

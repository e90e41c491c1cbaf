//! Files, patterns and data sets of the hub that commands read. `crates/judge/data` tests the
//! formats.

use crate::program::{
    Scratch, assert_parts, failure_last, failure_saying, isentrope, json_of, lines_of, stdout_of,
    text,
};
use crate::text_model::text_model;
use crate::training::{Bench, base, metrics, problems, succeed};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;

fn gzip(scratch: &Scratch, name: &str, contents: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(contents.as_bytes()).unwrap();
    scratch.file(name, encoder.finish().unwrap())
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
fn runs_take_data_from_patterns_and_from_the_hub() {
    let scratch = Scratch::new();
    let home = cache(&scratch);
    let lines: String = problems().iter().map(|row| format!("{row}\n")).collect();
    gzip(&scratch, "part-1.jsonl.gz", &lines);
    // A single text stands for a list.
    let recipe = format!(
        "run.steps = 1\nmodel.path = {:?}\n\
         rollout = {{ prompts = 4, responses = 2, max_tokens = 6, stop = \"!\" }}\n\
         eval = {{ every = 1, problems = 4, samples = 2 }}\n",
        base()
    );
    let bench = Bench::new(scratch, "train", &recipe);
    let places = [bench.scratch.path("part-*.gz"), "hf:org/sums@main:plain:train".into()];
    for (number, place) in places.iter().enumerate() {
        let out = format!("run-{number}");
        let sets = format!("data.files={place} eval.files=org/sums");
        succeed(bench.command(&out, sets, "").env("HF_HOME", &home));
        assert!(metrics(&bench.out(&out))[1]["eval/sums/mean@2"].is_number());
        let manifest = json_of(&bench.out(&out).join("manifest.json"));
        assert_eq!(manifest["data"]["sha256"].as_object().unwrap().len(), 1);
    }
    for (place, says) in [
        ("org/other", &["org/other", "HF_HUB_OFFLINE"][..]),
        ("org/sums:fancy", &["org/sums", "\"fancy\""]),
        ("no-*.jsonl", &["no-*.jsonl", "no file matches"]),
    ] {
        let mut command = bench.command("no", format!("data.files={place}"), "");
        failure_last(command.env("HF_HOME", &home), says);
    }
}

#[test]
fn prompts_are_read_from_whatever_data_files_may_name() {
    let scratch = Scratch::new();
    let home = cache(&scratch);
    let model = text(&text_model(&scratch, "model"));
    let generate = |prompts: &str| {
        let mut command = isentrope(format!("generate {model} --prompts {prompts} --max-tokens 3"));
        lines_of(command.env("HF_HOME", &home))
    };
    let rows = [json!({"id": "a", "question": "1+1?"}), json!({"question": "2+2?"})];
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let own = [json!({"id": "a", "prompt": "1+1?"}), json!({"prompt": "2+2?"})];
    let expected = generate(&scratch.lines("prompts.jsonl", &own));
    let array = br#"[{"id": "a", "problem": "1+1?"}, {"problem": "2+2?"}]"#;
    for file in [
        gzip(&scratch, "rows.jsonl.gz", &lines),
        scratch.file("array.json.zst", zstd::encode_all(&array[..], 1).unwrap()),
    ] {
        let found = generate(&file);
        assert_eq!(found[0], expected[0], "{file}");
        assert_eq!(found[1]["tokens"], expected[1]["tokens"], "{file}");
    }
    assert_eq!(generate("org/sums").len(), 20);
    assert_eq!(generate("org/sums:test").len(), 4);
    // A list of messages is a chat, under any of the names.
    let chat = json!([{"role": "user", "content": "Hi"}]);
    let [messages, problem] = ["messages", "problem"].map(|key| {
        generate(&scratch.lines("chat.jsonl", &[json!({key: chat})]))[0]["tokens"].clone()
    });
    assert_eq!(problem, messages);
    // A column may be named, also beside one with a usual name.
    let row = json!({"id": "a", "prompt": "no", "task": {"text": "1+1?"}});
    let rows = scratch.lines("named.jsonl", &[row]);
    assert_eq!(generate(&format!("{rows} --prompt-column task.text"))[0], expected[0]);
    let wrong = isentrope(format!("generate {model} --prompts {rows} --prompt-column text"));
    failure_saying(wrong, &["named.jsonl:1", "column text is missing", "id, prompt, task"]);
    let published = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../judge/data/tests/fixtures/benchmarks/dapo.parquet");
    assert_eq!(generate(&text(&published)).len(), 12);
    // Judged files may be packed and several, too.
    let row = "{\"gold\": 1, \"pred\": \"1\"}\n";
    gzip(&scratch, "a-1.jsonl.gz", row);
    scratch.file("a-2.json", format!("[{row},{row}]"));
    let lines = lines_of(isentrope(format!("grade --in {}", scratch.path("a-*"))));
    assert_eq!(lines.iter().filter(|line| line["verdict"] == "correct").count(), 3);
}

#[test]
fn variables_reach_the_chat_template_of_every_command() {
    let scratch = Scratch::new();
    // A model whose template shows its variables.
    let dir = text_model(&scratch, "thinking");
    let template = "{{ messages[-1].content }}\
                    {% if enable_thinking is defined and not enable_thinking %}<off>{% endif %}\
                    {{ mood }}";
    fs::write(dir.join("chat_template.jinja"), template).unwrap();
    let model = text(&dir);
    let chat = |text: &str| json!({"messages": [{"role": "user", "content": text}]});
    let prompts = scratch.lines("chats.jsonl", &[chat("Hi")]);
    let plain = scratch.lines("plain.jsonl", &[chat("Hi<off>")]);
    let off = "--template-variable enable_thinking=false";
    for command in ["generate --max-tokens 4 --prompts", "score --in"] {
        let run = |input: &str, flag: &str| {
            lines_of(isentrope(format!("{command} {input} {model} {flag}")))
        };
        assert_eq!(run(&prompts, off), run(&plain, ""));
    }
    let bench = scratch.lines("bench.jsonl", &[json!({"problem": "1+1?", "answer": "2"})]);
    let out = scratch.path("evals");
    let eval = format!("eval {model} --bench mine={bench} --max-tokens 2 --out {out}");
    stdout_of(isentrope(format!("{eval} {off}")));
    let manifest = json_of(&Path::new(&out).join("manifest.json"));
    let variables = &manifest["benchmarks"]["mine"]["template_variables"];
    assert_eq!(variables, &json!({"enable_thinking": false}));
    failure_saying(isentrope(eval), &["template_variables"]);

    let recipe = format!(
        "run.steps = 1\nmodel.path = {model:?}\ndata.files = {bench:?}\n\
         data.template_variables = {{ enable_thinking = false, mood = \"fine\" }}\n"
    );
    let bench = Bench::new(scratch, "train", &recipe);
    let shown = stdout_of(bench.command("out", "", "--dry-run"));
    assert_parts(&shown, &["1+1?<off>fine", "enable_thinking = false"]);
    let own = "data.template_variables.messages=1";
    let dry = bench.command("out", own, "--dry-run");
    failure_saying(dry, &["data.template_variables.messages"]);
}

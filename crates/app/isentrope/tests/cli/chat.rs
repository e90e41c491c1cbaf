//! Messages, rendered by the model's chat template.

use crate::program::{
    Scratch, failure_saying, isentrope, lines_of, parse_lines, stdout_of, text, without,
    wrong_usage,
};
use crate::text_model::text_model;
use crate::training::Bench;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

#[test]
fn chat_prompts_messages_and_rendered_text_are_one() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let generate = |name: &str, line: Value, flags: &[&str]| {
        let input = scratch.lines(name, &[line]);
        let arguments = ["generate", &model, "--prompts", &input, "--max-tokens", "12", "-n", "2"];
        lines_of(isentrope(&[&arguments[..], flags].concat()))
    };
    let messages =
        generate("m", json!({"messages": [{"role": "user", "content": "What is 2+2?"}]}), &[]);
    for flags in [&[][..], &["--chat"], &["--template", "auto"], &["--template", "chat"]] {
        assert_eq!(messages, generate("p", json!({"prompt": "What is 2+2?"}), flags), "{flags:?}");
    }
    let both = json!({"prompt": "What is 2+2?", "messages": [
        {"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": "4"}
    ], "tokens": null});
    assert_eq!(
        messages,
        generate("b", both, &[]),
        "the prompt of a chat that is there to be imitated"
    );
    let surrounded = ["--prompt-prefix", "What is ", "--prompt-suffix", "?"];
    assert_eq!(messages, generate("q", json!({"prompt": "2+2"}), &surrounded));
    let with_system = json!({"messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2?"}
    ]});
    let briefly = generate("y", with_system.clone(), &["--system", "Be long."]);
    assert_eq!(
        briefly,
        generate("y", json!({"prompt": "What is 2+2?"}), &["--system", "Be brief."])
    );
    assert_ne!(briefly[0]["tokens"], messages[0]["tokens"]);
    // Qwen2.5's template, written out. As a plain prompt it gets a <bos>, so its tokens are given.
    let rendered = "<|im_start|>user\nWhat is 2+2?\
                    <|im_end|>\n<|im_start|>assistant\n";
    let scored = scratch.lines("s", &[json!({"prompt": rendered, "response": "x"})]);
    let line = lines_of(isentrope(&["score", &model, "--in", &scored])).remove(0);
    let before = line["prompt_tokens"].as_u64().unwrap() as usize;
    let tokens = &line["tokens"].as_array().unwrap()[1..before];
    assert_eq!(messages, generate("t", json!({"tokens": tokens}), &[]));
    let plain = generate("plain", json!({"prompt": "What is 2+2?"}), &["--template", "none"]);
    assert_ne!(messages[0]["tokens"], plain[0]["tokens"]);
    let one = json!({"messages": [{"role": "user", "content": "What is 2+2?"}]});
    assert_eq!(plain, generate("one", one, &["--template", "none"]));
    let several = scratch.lines("several", &[with_system]);
    let none = ["generate", &model, "--prompts", &several, "--template", "none"];
    failure_saying(&mut isentrope(&none), &["several", "chat of several messages"]);
    wrong_usage(
        &mut isentrope(&["generate", &model, "--prompt", "x", "--template", "maybe"]),
        "auto, chat, none",
    );
    wrong_usage(
        &mut isentrope(&["generate", &model, "--prompt", "x", "--template", "none", "--chat"]),
        "--chat",
    );

    let single = ["generate", &model, "--prompt", "What is 2+2?", "--max-tokens", "12"];
    let line: Value = serde_json::from_str(&stdout_of(&mut isentrope(&single))).unwrap();
    assert_eq!(without(&line, "id"), without(&messages[0], "id"));
}

#[test]
fn text_leaves_out_special_tokens() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let arguments =
        ["generate", &model, "--prompt", "a", "-n", "64", "--ignore-eos", "--max-tokens", "40"];
    let lines = lines_of(isentrope(&arguments));
    let special = |l: &Value| {
        l["tokens"].as_array().unwrap().iter().any(|t| [0, 1, 2, 320, 321].iter().any(|s| t == s))
    };
    assert!(lines.iter().any(special), "no special token was drawn");
    for line in &lines {
        let text = line["text"].as_str().unwrap();
        assert!(!text.contains("<eos>") && !text.contains("<|im_"), "{text:?}");
    }
}

/// Whatever a recipe says of prompts, the command that the run prints at its end puts them to the
/// model as the run has done: of the weights that it names, it samples the greedy response that the
/// run has kept.
#[test]
fn what_a_run_prints_at_its_end_asks_as_the_run_did() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let rows: Vec<Value> = (0..6)
        .map(|i| json!({"problem": format!("What's {i}+1?"), "answer": format!("{}", i + 1)}))
        .collect();
    let files = scratch.lines("rows.jsonl", &rows);
    let recipe = format!(
        r#"
        run.steps = 1
        model.path = {model:?}
        data.files = [{files:?}]
        rollout = {{ prompts = 2, responses = 2, max_tokens = 300 }}
        eval = {{ every = 1, files = [{files:?}], problems = 2, samples = 1, temperature = 0, max_tokens = 12 }}
        "#
    );
    let bench = Bench::new(scratch, "train", &recipe);
    let mut responses = Vec::new();
    for (name, sets) in [
        ("auto", &[][..]),
        ("chat", &["data.template=chat", "data.system=Don't guess."]),
        ("none", &["data.template=none", "data.system=Unused."]),
        (
            "instructed",
            &["data.prompt_suffix=\"\\nThink.\"", "eval.max_tokens=260", "eval.stop=[\"\\n\"]"],
        ),
    ] {
        let said = stdout_of(&mut bench.command(name, sets, &[]));
        let line =
            said.lines().find_map(|line| line.trim().strip_prefix("isentrope generate ")).unwrap();
        assert_eq!(line.contains("--template"), ["chat", "none"].contains(&name), "{line}");
        assert_eq!(line.contains("--system"), name == "chat", "{line}");
        assert_eq!(
            line.contains("--stop") && line.contains("--max-tokens 260"),
            name == "instructed",
            "{line}"
        );
        let mut files =
            fs::read_dir(bench.out(name).join("evaluations")).unwrap().map(|e| e.unwrap().path());
        let file = files.find(|path| text(path).contains("step-000001")).unwrap();
        let kept = parse_lines(&fs::read_to_string(file).unwrap()).remove(0);
        // The shell that reads what people type.
        let program = env!("CARGO_BIN_EXE_isentrope");
        let limit = if name == "instructed" { "" } else { "--max-tokens 12" };
        let script = format!("{program} generate {line} --temperature 0 {limit}");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).env("ISENTROPE_THREADS", "1");
        let sampled = lines_of(shell).remove(0);
        assert_eq!(sampled["text"], kept["response"], "{name}");
        assert_eq!(
            sampled["tokens"].as_array().unwrap().len() as u64,
            kept["tokens"].as_u64().unwrap()
        );
        responses.push(kept["response"].clone());
    }
    responses.dedup();
    assert!(responses.len() > 2, "prompts make a difference: {responses:?}");
}

/// The variable by which a template's process knows what it is means nothing to any other.
#[test]
fn a_command_is_itself_whatever_it_finds_in_the_environment() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let input =
        scratch.lines("m", &[json!({"messages": [{"role": "user", "content": "What is 2+2?"}]})]);
    let command = || isentrope(&["generate", &model, "--prompts", &input, "--max-tokens", "3"]);
    for value in ["", "1", "999999999"] {
        let mut marked = command();
        marked.env("ISENTROPE_CHAT_TEMPLATE_WORKER", value);
        assert_eq!(lines_of(marked), lines_of(command()), "{value}");
    }
}

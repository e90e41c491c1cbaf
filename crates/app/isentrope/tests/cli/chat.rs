//! Messages, rendered by the model's chat template.

use crate::program::{Scratch, isentrope, json_lines, lines_of, stdout_of, text};
use crate::text_model::text_model;
use crate::training::Bench;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

#[test]
fn chat_prompts_messages_and_rendered_text_are_one() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let generate = |line: Value, flags: &str| {
        let input = scratch.lines("prompts", &[line]);
        let sampled = format!("--prompts {input} --max-tokens 12 -n 2");
        lines_of(isentrope(format!("generate {model} {sampled} {flags}")))
    };
    let prompt = json!({"prompt": "What is 2+2?"});
    let user = json!({"role": "user", "content": "What is 2+2?"});
    let messages = generate(json!({"messages": [user]}), "");
    for flags in ["", "--template chat"] {
        assert_eq!(messages, generate(prompt.clone(), flags), "{flags}");
    }
    // The prompt of a chat that is there to be imitated.
    let answer = json!({"role": "assistant", "content": "4"});
    let both = json!({"prompt": "What is 2+2?", "messages": [user, answer], "tokens": null});
    assert_eq!(messages, generate(both, ""));
    let surrounded = "--prompt-prefix 'What is ' --prompt-suffix ?";
    assert_eq!(messages, generate(json!({"prompt": "2+2"}), surrounded));
    let system = json!({"role": "system", "content": "Be brief."});
    let briefly = generate(json!({"messages": [system, user]}), "--system 'Be long.'");
    assert_eq!(briefly, generate(prompt.clone(), "--system 'Be brief.'"));
    assert_ne!(briefly[0]["tokens"], messages[0]["tokens"]);
    // Qwen2.5's template, written out. As a plain prompt it gets a <bos>, so its tokens are given.
    let rendered = "<|im_start|>user\nWhat is 2+2?\
                    <|im_end|>\n<|im_start|>assistant\n";
    let scored = scratch.lines("s", &[json!({"prompt": rendered, "response": "x"})]);
    let line = lines_of(isentrope(format!("score {model} --in {scored}"))).remove(0);
    let before = line["prompt_tokens"].as_u64().unwrap() as usize;
    let tokens = &line["tokens"].as_array().unwrap()[1..before];
    assert_eq!(messages, generate(json!({"tokens": tokens}), ""));
    let plain = generate(prompt, "--template none");
    assert_ne!(messages[0]["tokens"], plain[0]["tokens"]);
    assert_eq!(plain, generate(json!({"messages": [user]}), "--template none"));
}

#[test]
fn text_leaves_out_special_tokens() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let sampled = "--prompt a -n 64 --ignore-eos --max-tokens 40";
    let lines = lines_of(isentrope(format!("generate {model} {sampled}")));
    let is_special = |token: &Value| [0, 1, 2, 320, 321].iter().any(|special| token == special);
    let has_special = |line: &Value| line["tokens"].as_array().unwrap().iter().any(is_special);
    assert!(lines.iter().any(has_special), "no special token was drawn");
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
    let row = |i: u32| json!({"problem": format!("What's {i}+1?"), "answer": (i + 1).to_string()});
    let files = scratch.lines("rows.jsonl", &(0..6).map(row).collect::<Vec<_>>());
    let recipe = format!(
        "run.steps = 1\nmodel.path = {model:?}\ndata.files = [{files:?}]\n\
         rollout = {{ prompts = 2, responses = 2, max_tokens = 300 }}\n\
         [eval]\nevery = 1\nfiles = [{files:?}]\nproblems = 2\nsamples = 1\ntemperature = 0\n\
         max_tokens = 12\n"
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
        let said = stdout_of(bench.command(name, sets, ""));
        let line =
            said.lines().find_map(|line| line.trim().strip_prefix("isentrope generate ")).unwrap();
        assert_eq!(line.contains("--template"), ["chat", "none"].contains(&name), "{line}");
        assert_eq!(line.contains("--system"), name == "chat", "{line}");
        let files = fs::read_dir(bench.out(name).join("evaluations")).unwrap();
        let mut files = files.map(|entry| entry.unwrap().path());
        let file = files.find(|path| text(path).contains("step-000001")).unwrap();
        let kept = json_lines(&file).remove(0);
        // The shell that reads what people type.
        let program = env!("CARGO_BIN_EXE_isentrope");
        let limit = if name == "instructed" { "" } else { "--max-tokens 12" };
        let script = format!("{program} generate {line} --temperature 0 {limit}");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).env("ISENTROPE_THREADS", "1");
        let sampled = lines_of(shell).remove(0);
        assert_eq!(sampled["text"], kept["response"], "{name}");
        assert_eq!(json!(sampled["tokens"].as_array().unwrap().len()), kept["tokens"]);
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
    let command = || isentrope(format!("generate {model} --prompt Hi --max-tokens 3"));
    let mut marked = command();
    marked.env("ISENTROPE_CHAT_TEMPLATE_WORKER", "1");
    assert_eq!(lines_of(marked), lines_of(command()));
}

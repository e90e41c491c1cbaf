//! Training on files of every kind, and what can be done with the model that comes out.

use crate::program::{Scratch, array, isentrope, lines_of, stdout_of, text};
use crate::text_model::text_model;
use crate::training::{Bench, base, checkpoint, metrics, succeed};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A random model that knows bytes and chats, with so many tokens of context.
fn chat_model(scratch: &Scratch, context: usize) -> String {
    let dir = text_model(scratch, "model");
    let path = dir.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["max_position_embeddings"] = json!(context);
    fs::write(path, config.to_string()).unwrap();
    text(&dir)
}

#[test]
fn examples_and_chats_are_learnt() {
    let scratch = Scratch::new();
    let model = chat_model(&scratch, 256);
    let pairs: Vec<Value> = (0..20)
        .map(|i| json!({"prompt": format!("Say {i}."), "response": format!("Here: {i}")}))
        .collect();
    let chats: Vec<Value> = (0..20)
        .map(|i| {
            json!({"messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": format!("Say {i}.")},
                {"role": "assistant", "content": i.to_string()},
                {"role": "user", "content": "Again."},
                {"role": "assistant", "content": format!("{i}!")},
            ]})
        })
        .collect();
    let recipe = format!(
        r#"
        run.steps = 12
        model.path = {model:?}
        sft = {{ batch = 4, max_tokens = 200 }}
        optimizer.learning_rate = 1e-2
        eval = {{ every = 12, problems = 8 }}
        "#
    );
    let bench = Bench::new(scratch, "sft", &recipe);
    let pairs = bench.scratch.lines("pairs.jsonl", &pairs);
    let chats = bench.scratch.lines("chats.jsonl", &chats);
    for (name, file) in [("pairs", &pairs), ("chats", &chats)] {
        let sets = [&format!("data.files=[{file:?}]")[..], &format!("sft.eval_files=[{file:?}]")];
        let said = succeed(&mut bench.command(name, &sets, &[]));
        let out = bench.out(name);
        // The chats' template ends turns with another token than the model's own.
        assert_eq!(said.contains("20 of the first 20 examples"), name == "chats", "{said}");
        assert_eq!(said.contains(r#"set eval.stop = ["<|im_end|>"]"#), name == "chats", "{said}");
        let loss = |line: &Value| line["eval/loss"].as_f64().unwrap();
        let lines = metrics(&out);
        let (before, after) = (loss(&lines[0]), loss(lines.last().unwrap()));
        assert!(after < 0.8 * before, "{name}: the loss went from {before} to {after}");
    }
    // Learnt tokens stand in brackets: the answers and the ends of their turns, nothing else.
    let sets = [&format!("data.files=[{chats:?}]")[..], "data.shuffle=false"];
    let shown = stdout_of(&mut bench.command("chats", &sets, &["--dry-run"]));
    for part in ["⟦0<|im_end|>", "⟦0!<|im_end|>", "Be brief.", "user\nSay 0."] {
        assert!(shown.contains(part), "{part:?} is not in: {shown}");
    }
    for part in shown.split('⟦').skip(1) {
        assert!(!part.split('⟧').next().unwrap().contains("user"), "{shown}");
    }
}

#[test]
fn checkpoints_are_models_that_generate_and_score() {
    let bench = Bench::train();
    for dtype in ["float32", "float16"] {
        let set = format!("checkpoint.dtype={dtype}");
        let out = bench.run(dtype, &["run.steps=1", "eval.every=0", &set], &[]);
        let model = text(&checkpoint(&out, 1));
        let prompts = bench.scratch.lines("prompts.jsonl", &[json!({"prompt": "1 2 3>6:"})]);
        let sampled = lines_of(isentrope(&["generate", &model, "--prompts", &prompts, "-n", "3"]));
        assert_eq!(sampled.len(), 3);
        let input: Vec<Value> = sampled
            .iter()
            .map(|line| json!({"prompt": "1 2 3>6:", "response": line["text"]}))
            .collect();
        let input = bench.scratch.lines("score.jsonl", &input);
        let scored = lines_of(isentrope(&["score", &model, "--in", &input]));
        for (sampled, scored) in sampled.iter().zip(&scored) {
            assert!(!array(scored, "logprobs").is_empty(), "{scored}");
            let shared = array(scored, "logprobs").len().min(array(sampled, "logprobs").len()) - 1;
            assert_eq!(array(scored, "logprobs")[..shared], array(sampled, "logprobs")[..shared]);
        }
    }
}

/// The policy that a run samples from is the one that a checkpoint holds.
#[test]
fn a_run_can_start_from_another_runs_checkpoint() {
    let bench = Bench::train();
    let first = bench.run("first", &["run.steps=1", "checkpoint.dtype=float32"], &[]);
    let set = format!("model.path={}", text(&checkpoint(&first, 1)));
    let second = bench.run("second", &["run.steps=1", "eval.every=1", &set], &[]);
    let evaluated = |out: &Path, line: usize| {
        let mut line = metrics(out)[line].as_object().unwrap().clone();
        line.retain(|name, _| name.starts_with("eval/"));
        assert!(!line.is_empty());
        line
    };
    assert_eq!(evaluated(&first, 1), evaluated(&second, 0));
    assert_ne!(base(), text(&checkpoint(&first, 1)));
}

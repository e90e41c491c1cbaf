//! Training on examples and chats, and what can be done with the model that comes out.

use crate::program::{Scratch, array, assert_parts, isentrope, lines_of, stdout_of, text};
use crate::text_model::text_model;
use crate::training::{Bench, checkpoint, metrics, succeed};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn examples_and_chats_are_learnt() {
    let scratch = Scratch::new();
    // A random model that knows bytes and chats.
    let model = text(&text_model(&scratch, "model"));
    let pair = |i: u32| json!({"prompt": format!("Say {i}."), "response": format!("Here: {i}")});
    let chat = |i: u32| {
        json!({"messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": format!("Say {i}.")},
            {"role": "assistant", "content": i.to_string()},
            {"role": "user", "content": "Again."},
            {"role": "assistant", "content": format!("{i}!")},
        ]})
    };
    let recipe = format!(
        "run.steps = 12\nmodel.path = {model:?}\nsft = {{ batch = 4, max_tokens = 200 }}\n\
         optimizer.learning_rate = 1e-2\neval = {{ every = 12, problems = 8 }}\n"
    );
    let bench = Bench::new(scratch, "sft", &recipe);
    let pairs = bench.scratch.lines("pairs.jsonl", &(0..20).map(pair).collect::<Vec<_>>());
    let chats = bench.scratch.lines("chats.jsonl", &(0..20).map(chat).collect::<Vec<_>>());
    for (name, file) in [("pairs", &pairs), ("chats", &chats)] {
        let sets = format!("data.files={file} sft.eval_files={file}");
        let said = succeed(bench.command(name, sets, ""));
        assert_parts(&said, &["sft.eval_files names ", "as data.files does"]);
        // The chats' template ends turns with another token than the model's own.
        assert_eq!(said.contains("20 of the first 20 examples"), name == "chats", "{said}");
        assert_eq!(said.contains(r#"set eval.stop = ["<|im_end|>"]"#), name == "chats", "{said}");
        let loss = |line: &Value| line["eval/loss"].as_f64().unwrap();
        let lines = metrics(&bench.out(name));
        let (before, after) = (loss(&lines[0]), loss(lines.last().unwrap()));
        assert!(after < 0.8 * before, "{name}: the loss went from {before} to {after}");
    }
    // Learnt tokens stand in brackets: the answers and the ends of their turns, nothing else.
    let sets = format!("data.files={chats} data.shuffle=false");
    let shown = stdout_of(bench.command("chats", sets, "--dry-run"));
    assert_parts(&shown, &["⟦0<|im_end|>", "⟦0!<|im_end|>", "Be brief.", "user\nSay 0."]);
    for part in shown.split('⟦').skip(1) {
        assert!(!part.split('⟧').next().unwrap().contains("user"), "{shown}");
    }
}

#[test]
fn checkpoints_are_models_that_generate_score_and_start_runs() {
    let bench = Bench::train();
    for dtype in ["float32", "float16"] {
        let out = bench.run(dtype, format!("run.steps=1 checkpoint.dtype={dtype}"), "");
        let model = text(&checkpoint(&out, 1));
        let prompts = bench.scratch.lines("prompts.jsonl", &[json!({"prompt": "1 2 3>6:"})]);
        let sampled = lines_of(isentrope(format!("generate {model} --prompts {prompts} -n 3")));
        let pair = |line: &Value| json!({"prompt": "1 2 3>6:", "response": line["text"]});
        let pairs: Vec<Value> = sampled.iter().map(pair).collect();
        let input = bench.scratch.lines("score.jsonl", &pairs);
        let scored = lines_of(isentrope(format!("score {model} --in {input}")));
        for (sampled, scored) in sampled.iter().zip(&scored) {
            let (ours, theirs) = (array(scored, "logprobs"), array(sampled, "logprobs"));
            let shared = ours.len().min(theirs.len()) - 1;
            assert_eq!(ours[..shared], theirs[..shared]);
        }
    }
    // The policy that a run samples from is the one that a checkpoint holds.
    let first = bench.out("float32");
    let sets = format!("run.steps=1 eval.every=1 model.path={}", text(&checkpoint(&first, 1)));
    let second = bench.run("second", sets, "");
    let evaluated = |out: &Path, line: usize| {
        let mut line = metrics(out)[line].as_object().unwrap().clone();
        line.retain(|name, _| name.starts_with("eval/"));
        assert!(!line.is_empty());
        line
    };
    assert_eq!(evaluated(&first, 1), evaluated(&second, 0));
}

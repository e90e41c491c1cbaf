//! Messages, rendered by the model's chat template.

use crate::program::{Scratch, isentrope, lines_of, stdout_of, text, without};
use crate::text_model::text_model;
use serde_json::{Value, json};

#[test]
fn chat_prompts_messages_and_rendered_text_are_one() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let generate = |name: &str, line: Value, flags: &[&str]| {
        let input = scratch.lines(name, &[line]);
        let arguments = ["generate", &model, "--prompts", &input, "--max-tokens", "12", "-n", "2"];
        lines_of(isentrope(&[&arguments[..], flags].concat()))
    };
    let messages = generate("m", json!({"messages": [{"role": "user", "content": "What is 2+2?"}]}), &[]);
    assert_eq!(messages, generate("p", json!({"prompt": "What is 2+2?"}), &["--chat"]));
    // Qwen2.5's template, written out. As a plain prompt it gets a <bos>, so its tokens are given.
    let rendered = "<|im_start|>user\nWhat is 2+2?\
                    <|im_end|>\n<|im_start|>assistant\n";
    let scored = scratch.lines("s", &[json!({"prompt": rendered, "response": "x"})]);
    let line = lines_of(isentrope(&["score", &model, "--in", &scored])).remove(0);
    let before = line["prompt_tokens"].as_u64().unwrap() as usize;
    let tokens = &line["tokens"].as_array().unwrap()[1..before];
    assert_eq!(messages, generate("t", json!({"tokens": tokens}), &[]));
    assert_ne!(messages[0]["tokens"], generate("plain", json!({"prompt": "What is 2+2?"}), &[])[0]["tokens"]);

    let single = ["generate", &model, "--prompt", "What is 2+2?", "--chat", "--max-tokens", "12"];
    let line: Value = serde_json::from_str(&stdout_of(&mut isentrope(&single))).unwrap();
    assert_eq!(without(&line, "id"), without(&messages[0], "id"));
}

#[test]
fn text_leaves_out_special_tokens() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let arguments = ["generate", &model, "--prompt", "a", "-n", "64", "--ignore-eos", "--max-tokens", "40"];
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

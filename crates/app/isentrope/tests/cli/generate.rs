//! Responses of `generate`, and how its settings change them.

use crate::program::{
    Scratch, array, fixture, floats, isentrope, lines_of, stdout_of, text, token_model,
};
use crate::text_model::text_model;
use crate::training::succeed;
use serde_json::{Value, json};
use std::fs;

/// Lines of `generate MODEL --prompts FILE` with these prompts and further flags.
fn generate(model: &str, prompts: &[Value], flags: &[&str]) -> Vec<Value> {
    let scratch = Scratch::new();
    let input = scratch.lines("prompts.jsonl", prompts);
    lines_of(isentrope(&[&["generate", model, "--prompts", &input], flags].concat()))
}

#[test]
fn greedy_responses_are_those_of_transformers() {
    for name in ["mistral-sliding", "qwen2-bf16-sharded"] {
        let path = fixture("models").join(name).join("greedy.json");
        let expected: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let flags = ["--temperature", "0", "--max-tokens", "24", "--ignore-eos"];
        let lines = generate(&token_model(name), &[json!({"tokens": expected["prompt"]})], &flags);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["tokens"], expected["greedy"], "{name}");
        assert_eq!(lines[0]["finish_reason"], "length");
    }
}

#[test]
fn records_have_the_documented_fields_in_the_order_of_the_prompts() {
    let prompts = [
        json!({"tokens": [5, 6], "id": "first"}),
        json!({"tokens": [7]}),
        json!({"tokens": [8, 9, 10], "id": {"set": "x", "row": 3}}),
        json!({"tokens": [8, 9, 10], "id": null}),
    ];
    let lines = generate(&token_model("llama-mha"), &prompts, &["-n", "3", "--max-tokens", "40"]);
    let ids: Vec<Value> = lines.iter().map(|l| l["id"].clone()).collect();
    // Null is no id: what has none has its number.
    let expected = [json!("first"), json!(1), json!({"set": "x", "row": 3}), json!(3)];
    assert_eq!(
        ids,
        expected.iter().flat_map(|id| [id, id, id].map(Clone::clone)).collect::<Vec<_>>()
    );
    for (i, line) in lines.iter().enumerate() {
        let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["id", "sample", "text", "tokens", "logprobs", "entropies", "finish_reason"]
        );
        assert_eq!(line["sample"], i % 3);
        assert_eq!(line["text"], Value::Null);
        let tokens = array(line, "tokens");
        assert!((1..=40).contains(&tokens.len()));
        assert!(floats(line, "logprobs").iter().all(|&lp| lp <= 0.0));
        let most = (61.0f32).ln() + 1e-4;
        assert!(floats(line, "entropies").iter().all(|h| (0.0..=most).contains(h)));
        assert_eq!(
            (array(line, "logprobs").len(), array(line, "entropies").len()),
            (tokens.len(), tokens.len())
        );
        // 2 is the end-of-sequence token.
        let ended = tokens.last() == Some(&json!(2));
        assert!(tokens[..tokens.len() - 1].iter().all(|t| *t != 2));
        assert_eq!(line["finish_reason"], if ended { "stop" } else { "length" });
        assert!(ended || tokens.len() == 40);
    }
}

#[test]
fn responses_end_at_stop_tokens_the_limit_or_the_context() {
    let model = token_model("llama-mha");
    let prompt = [json!({"tokens": [5, 24, 43, 42, 28]})];
    // Transformers' greedy path: 19 46 3 45 19 56 19 46 57 9 55 56 19 46 2 ...
    let greedy = |flags: &[&str]| {
        generate(&model, &prompt, &[&["--temperature", "0"], flags].concat()).remove(0)
    };
    let stopped = greedy(&["--stop-token", "56", "--stop-token", "3"]);
    assert_eq!(
        (&stopped["tokens"], &stopped["finish_reason"]),
        (&json!([19, 46, 3]), &json!("stop"))
    );
    let limited = greedy(&["--max-tokens", "3", "--stop-token", "45"]);
    assert_eq!(
        (&limited["tokens"], &limited["finish_reason"]),
        (&json!([19, 46, 3]), &json!("length"))
    );
    let ended = greedy(&[]);
    assert_eq!((array(&ended, "tokens").len(), &ended["finish_reason"]), (15, &json!("stop")));
    assert_eq!(array(&ended, "tokens")[14], 2);
    let whole = greedy(&["--ignore-eos", "--max-tokens", "1000000"]);
    assert_eq!(
        (array(&whole, "tokens").len(), &whole["finish_reason"]),
        (512 - 5, &json!("length"))
    );
    let last = generate(&model, &[json!({"tokens": vec![7; 511]})], &["--ignore-eos"]);
    assert_eq!((array(&last[0], "tokens").len(), &last[0]["finish_reason"]), (1, &json!("length")));
}

#[test]
fn stop_strings_end_a_response_and_are_cut_off_its_text() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let flags = ["--seed", "3", "--max-tokens", "60", "--ignore-eos"];
    let free = generate(&model, &[json!({"prompt": "Hello"})], &flags).remove(0);
    let full = free["text"].as_str().unwrap();
    assert_eq!((array(&free, "tokens").len(), &free["finish_reason"]), (60, &json!("length")));
    // Any two printable characters from the middle of it.
    let (at, stop) = full
        .char_indices()
        .skip(10)
        .map(|(at, c)| (at, full[at..].chars().take(2).collect::<String>(), c))
        .find(|(_, stop, _)| {
            stop.chars().count() == 2 && stop.chars().all(|c| c.is_ascii_graphic())
        })
        .map(|(_, stop, _)| (full.find(&stop).unwrap(), stop))
        .unwrap();
    let stop_flags = [&flags[..], &["--stop", "never so", "--stop", &stop]].concat();
    let cut = generate(&model, &[json!({"prompt": "Hello"})], &stop_flags).remove(0);
    assert_eq!(cut["text"], full[..at]);
    assert_eq!(cut["finish_reason"], "stop");
    let tokens = array(&cut, "tokens");
    assert!(tokens.len() < 60 && array(&free, "tokens").starts_with(tokens));
    // A special token is none of the text, and ends it too.
    let flags =
        ["--seed", "3", "--max-tokens", "250", "--ignore-eos", "-n", "16", "--stop", "<|im_end|>"];
    let ended = |line: &Value| line["tokens"].as_array().unwrap().last() == Some(&json!(321));
    let lines = generate(&model, &[json!({"prompt": "Hello"})], &flags);
    assert!(lines.iter().any(ended), "it was not drawn");
    assert!(lines.iter().all(|line| ended(line) == (line["finish_reason"] == "stop")));
}

#[test]
fn truncated_sampling_reports_the_distribution_it_drew_from() {
    let model = token_model("llama-mha");
    let prompt = [json!({"tokens": [5, 24, 43]})];
    let base = ["-n", "4", "--max-tokens", "30", "--ignore-eos"];
    for flags in [
        &["--top-k", "5"][..],
        &["--top-p", "0.7"],
        &["--min-p", "0.2"],
        &["--top-k", "20", "--top-p", "0.9", "--min-p", "0.05", "--temperature", "1.7"],
    ] {
        for line in generate(&model, &prompt, &[&base[..], flags].concat()) {
            let (all, kept) = (floats(&line, "logprobs"), floats(&line, "sampling_logprobs"));
            assert_eq!(all.len(), kept.len());
            assert!(
                all.iter().zip(&kept).all(|(a, k)| a <= &(k + 1e-6) && *k <= 0.0),
                "{flags:?}: {line}"
            );
            assert!(all.iter().zip(&kept).any(|(a, k)| a + 0.01 < *k), "{flags:?}: {line}");
        }
    }
    let penalised =
        generate(&model, &prompt, &[&base[..], &["--repetition-penalty", "1.5"]].concat());
    assert_eq!(floats(&penalised[0], "sampling_logprobs").len(), 30);
    // One token is certain, and settings that keep all of them change nothing.
    let certain = generate(&model, &prompt, &[&base[..], &["--top-k", "1"]].concat());
    let greedy = generate(&model, &prompt, &[&base[..], &["--temperature", "0"]].concat());
    assert!(certain.iter().zip(&greedy).all(|(c, g)| c["tokens"] == g["tokens"]));
    assert!(floats(&certain[0], "sampling_logprobs").iter().all(|&lp| lp == 0.0));
    assert_eq!(greedy[0].get("sampling_logprobs"), None);
    let plain = generate(&model, &prompt, &base);
    let neutral = [
        "--top-k",
        "0",
        "--top-p",
        "1",
        "--min-p",
        "0",
        "--repetition-penalty",
        "1",
        "--temperature",
        "1",
    ];
    assert_eq!(plain, generate(&model, &prompt, &[&base[..], &neutral].concat()));
}

#[test]
fn the_models_own_settings_hold_where_it_asks_for_sampling() {
    let scratch = Scratch::new();
    let dir = scratch.copy(&fixture("models/llama-mha"), "model");
    let prompt = [json!({"tokens": [5, 24, 43]})];
    let with = |config: Value, flags: &[&str]| {
        fs::write(dir.join("generation_config.json"), config.to_string()).unwrap();
        generate(&text(&dir), &prompt, &[&["--max-tokens", "30"], flags].concat())
    };
    let plain = with(json!({}), &["--ignore-eos"]);
    let asked = json!({"do_sample": true, "temperature": 0.5, "top_k": 7, "eos_token_id": [9, 46]});
    assert_eq!(
        with(asked.clone(), &["--ignore-eos"]),
        with(json!({}), &["--temperature", "0.5", "--top-k", "7", "--ignore-eos"])
    );
    assert_eq!(with(asked.clone(), &["--temperature", "1", "--top-k", "0", "--ignore-eos"]), plain);
    let unasked = json!({"temperature": 0.5, "top_k": 7});
    assert_eq!(with(unasked, &["--ignore-eos"]), plain);
    // A setting that would change responses but does not is said.
    fs::write(dir.join("generation_config.json"), r#"{"do_sample": true, "typical_p": 0.5}"#)
        .unwrap();
    let scratch = Scratch::new();
    let input = scratch.lines("prompts.jsonl", &prompt);
    let said = succeed(&mut isentrope(&[
        "generate",
        &text(&dir),
        "--prompts",
        &input,
        "--max-tokens",
        "1",
    ]));
    assert!(said.contains("generation_config.json sets typical_p"), "{said}");
    // Both of its end tokens count: the greedy path from here runs 19 46.
    fs::write(dir.join("generation_config.json"), asked.to_string()).unwrap();
    let ended =
        generate(&text(&dir), &[json!({"tokens": [5, 24, 43, 42, 28]})], &["--temperature", "0"]);
    assert_eq!(ended[0]["tokens"], json!([19, 46]));
}

#[test]
fn seeds_and_samples_differ() {
    let model = token_model("llama-mha");
    let prompts = [json!({"tokens": [5, 24, 43]}), json!({"tokens": [5, 24, 43]})];
    let of =
        |seed: &str| generate(&model, &prompts, &["-n", "3", "--max-tokens", "30", "--seed", seed]);
    let mut texts: Vec<String> = ["0", "1", "18446744073709551615"]
        .iter()
        .flat_map(|s| of(s))
        .map(|l| l["tokens"].to_string())
        .collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 3 * 6, "two of 18 responses are the same");
    assert_eq!(of("1"), of("1"));
}

#[test]
fn a_single_prompt_is_the_first_line_of_a_file() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let flags = ["--max-tokens", "20", "-n", "2"];
    let alone = stdout_of(&mut isentrope(
        &[&["generate", &model, "--prompt", "Hello"], &flags[..]].concat(),
    ));
    let lines: Vec<Value> = alone.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines, generate(&model, &[json!({"prompt": "Hello"})], &flags));
}

//! Responses of `generate`, and how its settings change them.

use crate::program::{
    Scratch, array, fixture, floats, isentrope, json_of, lines_of, text, token_model,
};
use crate::training::succeed;
use serde_json::{Value, json};
use std::fs;

/// Lines of `generate MODEL --prompts FILE` with these prompts and further flags.
fn generate(model: &str, prompts: &[Value], flags: &str) -> Vec<Value> {
    let scratch = Scratch::new();
    let input = scratch.lines("prompts.jsonl", prompts);
    lines_of(isentrope(format!("generate {model} --prompts {input} {flags}")))
}

#[test]
fn greedy_responses_are_those_of_transformers() {
    for name in ["mistral-sliding", "qwen2-bf16-sharded"] {
        let expected = json_of(&fixture("models").join(name).join("greedy.json"));
        let prompt = [json!({"tokens": expected["prompt"]})];
        let flags = "--temperature 0 --max-tokens 24 --ignore-eos";
        let lines = generate(&token_model(name), &prompt, flags);
        assert_eq!((lines.len(), &lines[0]["tokens"]), (1, &expected["greedy"]), "{name}");
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
    let lines = generate(&token_model("llama-mha"), &prompts, "-n 3 --max-tokens 40");
    // Null is no id: what has none has its number.
    let ids = [json!("first"), json!(1), json!({"set": "x", "row": 3}), json!(3)];
    let most = (61.0f32).ln() + 1e-4;
    for (i, line) in lines.iter().enumerate() {
        let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let named =
            "id sample text prompt_tokens tokens temperature logprobs entropies finish_reason";
        assert_eq!(keys.join(" "), named);
        assert_eq!((&line["id"], &line["sample"]), (&ids[i / 3], &json!(i % 3)));
        let tokens = array(line, "tokens");
        let (logprobs, entropies) = (floats(line, "logprobs"), floats(line, "entropies"));
        assert_eq!((logprobs.len(), entropies.len()), (tokens.len(), tokens.len()));
        assert!(logprobs.iter().all(|&lp| lp <= 0.0));
        assert!(entropies.iter().all(|h| (0.0..=most).contains(h)));
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
    let greedy = |flags: &str| {
        let line = generate(&model, &prompt, &format!("--temperature 0 {flags}")).remove(0);
        let tokens: Vec<u64> = serde_json::from_value(line["tokens"].clone()).unwrap();
        (tokens, line["finish_reason"].as_str().unwrap().to_owned())
    };
    let stopped = greedy("--stop-token 56 --stop-token 3");
    assert_eq!(stopped, (vec![19, 46, 3], "stop".into()));
    assert_eq!(greedy("--max-tokens 3 --stop-token 45"), (vec![19, 46, 3], "length".into()));
    let (tokens, reason) = greedy("");
    assert_eq!((tokens.len(), tokens[14], &reason[..]), (15, 2, "stop"));
    let (tokens, reason) = greedy("--ignore-eos --max-tokens 1000000");
    assert_eq!((tokens.len(), &reason[..]), (512 - 5, "length"));
    let last = generate(&model, &[json!({"tokens": vec![7; 511]})], "--ignore-eos");
    assert_eq!(array(&last[0], "tokens").len(), 1);
}

#[test]
fn the_models_own_settings_hold_where_it_asks_for_sampling() {
    let scratch = Scratch::new();
    let dir = scratch.copy(&fixture("models/llama-mha"), "model");
    let prompt = [json!({"tokens": [5, 24, 43]})];
    let with = |config: &Value, flags: &str| {
        fs::write(dir.join("generation_config.json"), config.to_string()).unwrap();
        generate(&text(&dir), &prompt, &format!("--max-tokens 30 {flags}"))
    };
    let asked = json!({"do_sample": true, "temperature": 0.5, "top_k": 7, "eos_token_id": [9, 46]});
    let unasked = json!({"temperature": 0.5, "top_k": 7});
    let plain = with(&json!({}), "--ignore-eos");
    let given = with(&json!({}), "--temperature 0.5 --top-k 7 --ignore-eos");
    assert_eq!(with(&asked, "--ignore-eos"), given);
    assert_eq!(with(&asked, "--temperature 1 --top-k 0 --ignore-eos"), plain);
    assert_eq!(with(&unasked, "--ignore-eos"), plain);
    // Both of its end tokens count: the greedy path from here runs 19 46.
    with(&asked, "");
    let path = [json!({"tokens": [5, 24, 43, 42, 28]})];
    assert_eq!(generate(&text(&dir), &path, "--temperature 0")[0]["tokens"], json!([19, 46]));
    // A setting that would change responses but does not is said.
    let config = r#"{"do_sample": true, "typical_p": 0.5}"#;
    fs::write(dir.join("generation_config.json"), config).unwrap();
    let input = scratch.lines("prompts.jsonl", &prompt);
    let line = format!("generate {} --prompts {input} --max-tokens 1", text(&dir));
    let said = succeed(isentrope(line));
    assert!(said.contains("generation_config.json sets typical_p"), "{said}");
}

#[test]
fn truncated_sampling_reports_the_distribution_it_drew_from() {
    let model = token_model("llama-mha");
    let prompt = [json!({"tokens": [5, 24, 43]})];
    let with = |flags: &str| {
        generate(&model, &prompt, &format!("-n 4 --max-tokens 30 --ignore-eos {flags}"))
    };
    for flags in ["--top-k 5", "--top-p 0.7", "--min-p 0.2"] {
        for line in with(flags) {
            let (all, kept) = (floats(&line, "logprobs"), floats(&line, "sampling_logprobs"));
            let is_kept = |(a, k): (&f32, &f32)| *a <= k + 1e-6 && *k <= 0.0;
            assert!(all.len() == kept.len() && all.iter().zip(&kept).all(is_kept), "{line}");
        }
    }
    // One token is certain, and settings that keep all of them change nothing.
    let (certain, greedy) = (with("--top-k 1"), with("--temperature 0"));
    assert!(certain.iter().zip(&greedy).all(|(c, g)| c["tokens"] == g["tokens"]));
    assert_eq!(greedy[0].get("sampling_logprobs"), None);
    let neutral = "--top-k 0 --top-p 1 --min-p 0 --repetition-penalty 1 --temperature 1";
    assert_eq!(with(""), with(neutral));
}

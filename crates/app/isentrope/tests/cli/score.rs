//! Output of `score`, and its agreement with `generate` to the last bit.

use crate::program::{
    Scratch, array, bits, isentrope, lines_of, parse_lines, spoken, text, token_model,
};
use crate::text_model::text_model;
use serde_json::{Value, json};

/// Lines of `score MODEL --in FILE`, and what it said on standard error.
fn score(model: &str, input: &[Value], flags: &str) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let input = scratch.lines("input.jsonl", input);
    let (printed, said) = spoken(isentrope(format!("score {model} --in {input} {flags}")));
    (parse_lines(&printed), said)
}

#[test]
fn generated_logprobs_and_entropies_are_scored_alike_to_the_last_bit() {
    for (name, flags) in [
        ("qwen3", "--temperature 1"),
        ("llama-yarn", "--temperature 0.8 --top-p 0.9"),
        ("llama-mqa", "--temperature 0.8 --threads 3"),
    ] {
        let model = token_model(name);
        let scratch = Scratch::new();
        let prompts: Vec<Value> = (1..9u32)
            .map(|i| json!({"tokens": (0..5 * i).map(|t| (t * i + 3) % 61).collect::<Vec<_>>()}))
            .collect();
        let input = scratch.lines("prompts.jsonl", &prompts);
        let sampled = format!("--prompts {input} -n 3 --max-tokens 60 {flags}");
        let generated = lines_of(isentrope(format!("generate {model} {sampled}")));

        let (scored, said) = score(&model, &generated, "");
        for (g, s) in generated.iter().zip(&scored) {
            assert_eq!(bits(g, "logprobs"), bits(s, "logprobs"), "{name}");
            assert_eq!(bits(g, "entropies"), bits(s, "entropies"), "{name}");
            // Not just equal as floats: written with the same digits.
            assert_eq!(g["logprobs"].to_string(), s["logprobs"].to_string());
            assert_eq!(s["mismatch"], json!({"mean": 0.0, "max": 0.0, "outside": 0.0}), "{name}");
            assert_eq!(g["id"], s["id"]);
        }
        assert!(said.contains("max 0.000e0"), "{said}");
    }
}

#[test]
fn lines_may_say_at_which_temperature_they_are_scored() {
    let model = token_model("qwen3");
    let line = |temperature: Value| json!({"tokens": [3, 1, 4, 1, 5], "temperature": temperature});
    let at = |temperature: &str| {
        score(
            &model,
            &[json!({"tokens": [3, 1, 4, 1, 5]})],
            &format!("--temperature {temperature}"),
        )
        .0
    };
    let (lines, _) = score(
        &model,
        &[line(json!(0.7)), line(json!(null)), line(json!(1.3)), line(json!(0.7))],
        "",
    );
    for (line, temperature) in lines.iter().zip(["0.7", "1", "1.3", "0.7"]) {
        assert_eq!(bits(line, "logprobs"), bits(&at(temperature)[0], "logprobs"), "{temperature}");
    }
    let nulls =
        json!({"tokens": [3, 1, 4, 1, 5], "prompt_tokens": null, "logprobs": null, "id": null});
    let (lines, _) = score(&model, &[nulls], "");
    assert_eq!(bits(&lines[0], "logprobs"), bits(&at("1")[0], "logprobs"));
    assert_eq!((&lines[0]["id"], lines[0].get("mismatch")), (&json!(0), None));
    let (lines, _) = score(&model, &[line(json!(0.7)), line(json!("x"))], "--temperature 1.3");
    assert!(lines.iter().all(|line| bits(line, "logprobs") == bits(&at("1.3")[0], "logprobs")));
}

#[test]
fn mismatch_measures_other_logprobs() {
    let model = token_model("qwen3");
    let tokens = json!({"tokens": [5, 6, 7, 8, 9]});
    let (ours, _) = score(&model, &[tokens], "");
    let shifted = |by: [f64; 4]| -> Vec<f64> {
        array(&ours[0], "logprobs")
            .iter()
            .zip(by)
            .map(|(lp, by)| lp.as_f64().unwrap() + by)
            .collect()
    };
    // Ratios 1.11 and 0.90 are outside and inside [0.9, 1.1].
    let theirs = shifted([0.0, 0.1044, -0.1, 0.0]);
    let (lines, said) = score(
        &model,
        &[json!({"tokens": [5, 6, 7, 8, 9], "logprobs": theirs}), ours[0].clone()],
        "",
    );
    let mismatch = &lines[0]["mismatch"];
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-6;
    assert!(near(&mismatch["mean"], 0.2044 / 4.0) && near(&mismatch["max"], 0.1044), "{mismatch}");
    assert_eq!(mismatch["outside"], 0.25);
    assert_eq!(lines[1]["mismatch"]["max"], 0.0);
    assert!(said.contains("mismatch over 8 tokens") && said.contains("12.500 %"), "{said}");
}

#[test]
fn texts_and_chats_are_scored_as_they_are_generated() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let (lines, _) = score(&model, &[json!({"prompt": "Hello", "response": " world"})], "");
    let before = lines[0]["prompt_tokens"].as_u64().unwrap() as usize;
    assert_eq!(array(&lines[0], "tokens")[0], 0, "the tokenizer's <bos> comes first");
    assert_eq!(array(&lines[0], "logprobs").len(), array(&lines[0], "tokens").len() - before);
    let tokens = json!({"tokens": lines[0]["tokens"], "prompt_tokens": before});
    let (same, _) = score(&model, &[tokens], "");
    assert_eq!(same[0], lines[0]);
    let messages =
        json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]);
    let (chat, _) = score(&model, &[json!({"messages": messages})], "");
    let tokens = array(&chat[0], "tokens");
    assert_eq!(tokens[0], 320, "<|im_start|>, and no <bos> before it");
    assert_eq!(tokens.iter().filter(|t| **t == 321).count(), 2, "user and assistant end");
    assert_eq!(array(&chat[0], "logprobs").len(), tokens.len() - 1);
}

//! Results depend on weights, prompts and seed alone: whatever else changes, the bytes do not.

use crate::program::{Scratch, isentrope, stdout_of, token_model};
use isentrope_kernels::Isa;
use serde_json::{Value, json};
use std::fs;

/// Prompts of many lengths.
fn prompts() -> Vec<Value> {
    (1..=12u32)
        .map(|i| json!({"tokens": (0..i * i % 45 + 1).map(|t| (t * 7 + i * 13) % 61).collect::<Vec<_>>()}))
        .collect()
}

/// Bytes of the file that `generate` writes.
fn generate(model: &str, prompts: &[Value], flags: &str, isa: Option<&str>) -> String {
    let scratch = Scratch::new();
    let input = scratch.lines("prompts.jsonl", prompts);
    let out = scratch.path("out.jsonl");
    let sampled = format!("--prompts {input} --out {out} --seed 5 --max-tokens 70 {flags}");
    let mut command = isentrope(format!("generate {model} {sampled}"));
    if let Some(isa) = isa {
        command.env("ISENTROPE_ISA", isa);
    }
    assert_eq!(stdout_of(command), "");
    assert_eq!(scratch.names(), ["out.jsonl", "prompts.jsonl"]);
    fs::read_to_string(out).unwrap()
}

#[test]
fn threads_instruction_sets_and_memory() {
    let model = token_model("qwen3");
    let with = |more: &str, isa: Option<&str>| {
        generate(&model, &prompts(), &format!("-n 2 --temperature 0.9 {more}"), isa)
    };
    let expected = with("", None);
    assert_eq!(expected.lines().count(), 24);
    // Some thirty responses fit into a MiB at a time.
    for flags in ["--threads 1", "--threads 3", "--kv-memory 1"] {
        assert_eq!(with(flags, None), expected, "{flags}");
    }
    for isa in Isa::available() {
        assert_eq!(with("", Some(&isa.to_string())), expected, "{isa}");
    }
}

#[test]
fn company_in_the_file_and_number_of_samples() {
    let model = token_model("mistral-sliding");
    let flags = "--top-p 0.95 --temperature 0.8";
    let all = prompts();
    let eight = generate(&model, &all, &format!("{flags} -n 8"), None);
    let one = generate(&model, &all, flags, None);
    let firsts: String = eight.lines().step_by(8).map(|line| format!("{line}\n")).collect();
    assert_eq!(one, firsts);
    // The place in the file counts, so the others are replaced, not left out.
    for place in [0, 5, 11] {
        let mut others = vec![json!({"tokens": [1]}); place];
        others.push(all[place].clone());
        let alone = generate(&model, &others, flags, None);
        assert_eq!(alone.lines().nth(place), one.lines().nth(place));
    }
}

//! Flags and variables that are wrong.

use crate::program::{Scratch, failure_saying, isentrope, token_model, wrong_usage};
use serde_json::json;

#[test]
fn flag_values_out_of_range_are_named_with_their_range() {
    let model = token_model("qwen3");
    let scratch = Scratch::new();
    let prompts = scratch.lines("prompts.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    let out = scratch.path("out.jsonl");
    for (flag, value, parts) in [
        ("--temperature", "-1", ["--temperature is -1", "from 0.01 to 100"]),
        ("--temperature", "nan", ["--temperature is NaN", "from 0.01 to 100"]),
        ("--temperature", "inf", ["--temperature is inf", "from 0.01 to 100"]),
        ("--temperature", "0.001", ["--temperature is 0.001", "from 0.01 to 100"]),
        ("--top-p", "0", ["--top-p is 0", "above 0"]),
        ("--top-p", "1.5", ["--top-p is 1.5", "at most 1"]),
        ("--top-p", "nan", ["--top-p is NaN", "at most 1"]),
        ("--min-p", "-0.1", ["--min-p is -0.1", "from 0 to 1"]),
        ("--repetition-penalty", "0", ["--repetition-penalty is 0", "from 0.01 to 100"]),
        ("--max-tokens", "0", ["--max-tokens is 0", "at least 1"]),
        ("--stop", "", ["--stop", "at least one character"]),
        ("--stop", "x", ["stop strings", "tokenizer"]),
        ("--stop-token", "61", ["--stop-token", "vocabulary of 61"]),
        ("--threads", "0", ["--threads", "from 1 to"]),
        ("--threads", "1000000", ["--threads", "from 1 to"]),
    ] {
        let arguments = ["generate", &model, "--prompts", &prompts, "--out", &out, flag, value];
        failure_saying(&mut isentrope(&arguments), &parts);
        assert_eq!(scratch.names(), ["prompts.jsonl"], "{flag} {value}");
    }
    for value in ["0", "-1", "nan", "1000"] {
        let arguments = ["score", &model, "--in", &prompts, "--out", &out, "--temperature", value];
        failure_saying(&mut isentrope(&arguments), &["--temperature is", "from 0.01 to 100"]);
        assert_eq!(scratch.names(), ["prompts.jsonl"], "{value}");
    }
}

#[test]
fn variables_out_of_range_are_named() {
    let model = token_model("qwen3");
    let scratch = Scratch::new();
    let prompts = scratch.lines("prompts.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    for (name, value) in [
        ("ISENTROPE_ISA", "foo"),
        ("ISENTROPE_ISA", ""),
        ("ISENTROPE_THREADS", "x"),
        ("ISENTROPE_THREADS", "0"),
        ("ISENTROPE_THREADS", "-1"),
    ] {
        for arguments in [
            &["generate", &model, "--prompts", &prompts][..],
            &["score", &model, "--in", &prompts],
            &["doctor"],
        ] {
            failure_saying(isentrope(arguments).env(name, value), &[name, value]);
        }
    }
}

#[test]
fn what_clap_refuses_exits_with_2() {
    let model = token_model("qwen3");
    let base = ["generate", &model, "--prompt", "x"];
    for (arguments, part) in [
        (&[][..], "Usage"),
        (&["generat"], "generate"),
        (&["generate"], "<MODEL>"),
        (&["generate", &model], "--prompt"),
        (&["score", &model], "--in"),
        (&["score", &model, "--in", "x", "--frobnicate"], "--frobnicate"),
        (&["doctor", "extra"], "extra"),
    ] {
        if arguments.is_empty() {
            assert_eq!(isentrope(arguments).output().unwrap().status.code(), Some(2));
        } else {
            wrong_usage(&mut isentrope(arguments), part);
        }
    }
    for (more, part) in [
        (&["--frobnicate"][..], "--frobnicate"),
        (&["--prompts", "y"], "--prompts"),
        (&["-n", "0"], "--samples"),
        (&["-n", "70000"], "--samples"),
        (&["--samples", "x"], "--samples"),
        (&["--max-tokens", "many"], "--max-tokens"),
        (&["--max-tokens", "-5"], "-5"),
        (&["--temperature", "hot"], "--temperature"),
        (&["--seed", "-1"], "-1"),
        (&["--kv-memory", "0"], "--kv-memory"),
        (&["--stop-token", "-3"], "-3"),
        (&["--top-k", "1.5"], "--top-k"),
        (&["--threads", "two"], "--threads"),
    ] {
        wrong_usage(&mut isentrope(&[&base[..], more].concat()), part);
    }
}

#[test]
fn help_mentions_every_flag() {
    for (command, flags) in [
        (
            "generate",
            "MODEL --threads --prompt --prompts --chat --template --system --prompt-prefix --prompt-suffix \
             --samples -n --max-tokens --temperature --top-p --top-k --min-p \
             --repetition-penalty --seed --stop --stop-token --ignore-eos --out --kv-memory",
        ),
        (
            "eval",
            "MODEL --bench --samples --temperature --top-p --top-k --min-p --max-tokens --limit --seed --stop --verifier \
             --out --against --threads --kv-memory",
        ),
        ("score", "MODEL --threads --in --out --temperature"),
        ("doctor", "--json --threads"),
    ] {
        for help in ["--help", "-h"] {
            let output = isentrope(&[command, help]).output().unwrap();
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).unwrap();
            for flag in flags.split_whitespace() {
                assert!(text.contains(flag), "{command} {help} lacks {flag}:\n{text}");
            }
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
    }
    let output = isentrope(&["--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for command in ["generate", "score", "doctor"] {
        assert!(text.contains(command), "{text}");
    }
}

#[test]
fn numbers_as_large_as_can_be_written_are_taken_or_refused() {
    let scratch = Scratch::new();
    let prompts = scratch.lines("prompts.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    let base = ["generate", &token_model("qwen3"), "--prompts", &prompts];
    let most = u64::MAX.to_string();
    for flag in ["--max-tokens", "--kv-memory", "--seed", "--top-k"] {
        let status = isentrope(&[&base[..], &[flag, &most]].concat()).output().unwrap().status;
        assert_eq!(status.code(), Some(0), "{flag}");
        wrong_usage(&mut isentrope(&[&base[..], &[flag, "99999999999999999999"]].concat()), flag);
    }
    failure_saying(
        &mut isentrope(&[&base[..], &["--temperature", "1e400"]].concat()),
        &["--temperature is inf"],
    );
}

#[cfg(unix)]
#[test]
fn links_to_nothing_are_told_from_names_that_are_not_there() {
    let scratch = Scratch::new();
    let prompts = scratch.lines("prompts.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    let (link, below) = (scratch.path("link"), scratch.path("link/below"));
    std::os::unix::fs::symlink("no/such/place", &link).unwrap();
    let model = token_model("qwen3");
    for arguments in [
        &["generate", &link, "--prompts", &prompts][..],
        &["generate", &model, "--prompts", &link],
        &["generate", &model, "--prompts", &prompts, "--out", &link],
        &["generate", &model, "--prompts", &prompts, "--out", &below],
        &["grade", "--in", &link],
        &["score", &model, "--in", &below],
        &["eval", &model, "--bench", "mine=x.jsonl", "--out", &link],
        &["train", &link],
    ] {
        failure_saying(
            &mut isentrope(arguments),
            &["leads by a link to no/such/place, which is not there"],
        );
    }
    assert_eq!(scratch.names(), ["link", "prompts.jsonl"]);
}

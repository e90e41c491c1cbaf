//! Files of JSON lines that are malformed.

use crate::program::{Scratch, failure_saying, isentrope, stderr, text, token_model};
use crate::text_model::text_model;
use serde_json::json;

/// A file whose second line is `line` is refused by `generate`, with its place and `parts`; nothing
/// is written.
fn generate_refuses(model: &str, line: impl AsRef<[u8]>, parts: &[&str]) {
    refuses(&["generate", model, "--prompts"], line.as_ref(), parts);
}

fn score_refuses(model: &str, line: impl AsRef<[u8]>, parts: &[&str]) {
    refuses(&["score", model, "--in"], line.as_ref(), parts);
}

fn refuses(command: &[&str], line: &[u8], parts: &[&str]) {
    let scratch = Scratch::new();
    let input = scratch.file("input.jsonl", [b"{\"tokens\": [1, 2, 3]}\n", line, b"\n"].concat());
    let out = scratch.path("out.jsonl");
    let arguments = [command, &[&input, "--out", &out]].concat();
    failure_saying(&mut isentrope(&arguments), &[&["input.jsonl:2: "], parts].concat());
    assert_eq!(scratch.names(), ["input.jsonl"]);
}

/// The built-in task's tokenizer has digits and signs.
#[test]
fn characters_without_a_token_are_told_of_and_left_out() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../assets/countdown-base");
    let said = |arguments: &[&str]| {
        let output = isentrope(arguments).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    };
    let greedy = ["--temperature", "0", "--max-tokens", "8"];
    let (lossy, told) =
        said(&[&["generate", model, "--prompt", "1 2 3x>6:"], &greedy[..]].concat());
    assert!(
        told.contains("warning: --prompt: no token stands for 'x' (U+0078), which is lost\n"),
        "{told}"
    );
    let (whole, told) = said(&[&["generate", model, "--prompt", "1 2 3>6:"], &greedy[..]].concat());
    assert!(lossy == whole && !told.contains("warning"), "{told}");

    let scratch = Scratch::new();
    let pair = |prompt: &str, response: &str| json!({"prompt": prompt, "response": response});
    let lines =
        [pair("1 2 3>6:", "1+2=é"), pair("1 2 3>6:", "1+2=3"), pair("4>4:", "4b!"), pair("a", "1")];
    let input = scratch.lines("pairs.jsonl", &lines[..3]);
    let (_, told) = said(&["score", model, "--in", &input]);
    assert!(
        told.contains(
            "no token stands for 'é' (U+00E9), which is lost; 1 more with such characters"
        ),
        "{told}"
    );
    let input = scratch.lines("nothing.jsonl", &lines[3..]);
    failure_saying(
        &mut isentrope(&["score", model, "--in", &input]),
        &["nothing.jsonl", "the prompt is empty"],
    );
}

#[test]
fn lines_that_are_no_objects() {
    let model = token_model("qwen3");
    for (line, part) in [
        (&b"not json"[..], "not valid JSON"),
        (b"{\"tokens\": [1, 2", "not valid JSON"),
        (b"{\"tokens\": [1]} {\"tokens\": [2]}", "not valid JSON"),
        (b"[1, 2, 3]", "not a JSON object"),
        (b"\"text\"", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"\x00garbage\x01", "not valid JSON"),
        (b"\x00\xff\xfe\x80garbage\x01", "not UTF-8"),
        (b"{\"prompt\": \"\xff\"}", "not UTF-8"),
    ] {
        generate_refuses(&model, line, &[part]);
        score_refuses(&model, line, &[part]);
    }
    let nested = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    generate_refuses(&model, nested, &["not valid JSON"]);
}

#[test]
fn keys_that_are_missing_doubled_or_of_another_type() {
    let model = token_model("qwen3");
    for (line, parts) in [
        (json!({}), &["prompt, messages, tokens, problem, question", "the line has nothing"][..]),
        (
            json!({"text": "Hi", "id": 1}),
            &["prompt, messages, tokens, problem", "the line has text, id"],
        ),
        (json!({"prompt": "Hi", "tokens": [1]}), &["both prompt and tokens"]),
        (json!({"messages": [], "tokens": [1]}), &["both messages and tokens"]),
        (json!({"tokens": "1 2"}), &["\"tokens\" must be"]),
        (json!({"tokens": [1, -2]}), &["\"tokens\" must be"]),
        (json!({"tokens": [1, 2.5]}), &["\"tokens\" must be"]),
        (json!({"tokens": [1, 5_000_000_000u64]}), &["\"tokens\" must be"]),
        (json!({"tokens": [1, 61, 2]}), &["token 61 at index 1", "vocabulary of 61"]),
        (json!({"tokens": []}), &["empty"]),
        (json!({"tokens": vec![1; 512]}), &["512 tokens", "context of 512"]),
        (json!({"tokens": vec![1; 100_000]}), &["100000 tokens", "context of 512"]),
    ] {
        generate_refuses(&model, line.to_string(), parts);
    }
    for (line, parts) in [
        (json!({}), &["tokens, prompt, messages; the line has nothing"][..]),
        (json!({"tokens": []}), &["no tokens"]),
        (json!({"tokens": vec![1; 513]}), &["513 tokens", "context of 512"]),
        (json!({"tokens": [60, 61]}), &["token 61 at index 1", "vocabulary of 61"]),
        (json!({"tokens": [1, 2], "prompt_tokens": 0}), &["\"prompt_tokens\" must be", "from 1"]),
        (json!({"tokens": [1, 2], "prompt_tokens": 3}), &["\"prompt_tokens\" must be"]),
        (json!({"tokens": [1, 2], "prompt_tokens": "1"}), &["\"prompt_tokens\" must be"]),
        (
            json!({"tokens": [1, 2, 3], "logprobs": [-1.0]}),
            &["\"logprobs\" must have", "2 on this line, and has 1"],
        ),
        (
            json!({"tokens": [1, 2, 3], "logprobs": [-1.0, -1.0, -1.0]}),
            &["\"logprobs\" must have", "2 on this line, and has 3"],
        ),
        (
            json!({"tokens": [1, 2, 3], "prompt_tokens": 2, "logprobs": []}),
            &["\"logprobs\" must have", "1 on this line, and has 0"],
        ),
        (
            json!({"tokens": [1, 2, 3], "logprobs": "none"}),
            &["\"logprobs\" must be a list of numbers"],
        ),
        (
            json!({"tokens": [1, 2, 3], "logprobs": [-1.0, "x"]}),
            &["\"logprobs\" must be a list of numbers"],
        ),
        (
            json!({"tokens": [1, 2, 3], "logprobs": [-1.0, null]}),
            &["\"logprobs\" must be a list of numbers"],
        ),
        (json!({"tokens": [1, 2, 3], "logprobs": {}}), &["\"logprobs\" must be a list of numbers"]),
    ] {
        score_refuses(&model, line.to_string(), parts);
    }
}

#[test]
fn texts_and_messages_of_the_wrong_shape() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    for line in [
        json!({"messages": []}),
        json!({"messages": "Hi"}),
        json!({"messages": ["Hi"]}),
        json!({"messages": {"role": "user", "content": "Hi"}}),
    ] {
        generate_refuses(&model, line.to_string(), &["\"messages\" must be a list of objects"]);
        score_refuses(&model, line.to_string(), &["\"messages\" must be a list of objects"]);
    }
    generate_refuses(&model, json!({"prompt": 7}).to_string(), &["\"prompt\" must be a string"]);
    score_refuses(&model, json!({"prompt": "a"}).to_string(), &["\"response\" must be a string"]);
    score_refuses(
        &model,
        json!({"prompt": "a", "response": [1]}).to_string(),
        &["\"response\" must be a string"],
    );
    // The template joins a message's content to its role and cannot without.
    generate_refuses(
        &model,
        json!({"messages": [{"role": "user"}]}).to_string(),
        &["chat_template.jinja"],
    );
    let long = "word ".repeat(1000);
    generate_refuses(&model, json!({"prompt": long}).to_string(), &["context of 256"]);
    score_refuses(
        &model,
        json!({"prompt": long, "response": "x"}).to_string(),
        &["context of 256"],
    );
    failure_saying(
        &mut isentrope(&["generate", &model, "--prompt", &long]),
        &["--prompt: ", "context of 256"],
    );
}

#[test]
fn files_without_lines() {
    let model = token_model("qwen3");
    let scratch = Scratch::new();
    let empty = scratch.file("empty.jsonl", "");
    let blank = scratch.file("blank.jsonl", "\n  \n\t\n");
    let absent = scratch.path("absent.jsonl");
    let directory = text(std::path::Path::new(&absent).parent().unwrap());
    let out = scratch.path("out.jsonl");
    for (input, parts) in [
        (&empty, ["empty.jsonl: ", "no lines"]),
        (&blank, ["blank.jsonl: ", "no lines"]),
        (&absent, ["absent.jsonl: ", "No such file"]),
        (&directory, [directory.as_str(), "is a directory"]),
    ] {
        failure_saying(
            &mut isentrope(&["generate", &model, "--prompts", input, "--out", &out]),
            &parts,
        );
        failure_saying(&mut isentrope(&["score", &model, "--in", input, "--out", &out]), &parts);
        assert_eq!(scratch.names(), ["blank.jsonl", "empty.jsonl"]);
    }
}

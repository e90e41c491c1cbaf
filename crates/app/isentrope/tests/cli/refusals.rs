//! Command lines and files that are refused: refusals.toml lists them.

use crate::program::{Scratch, failure_saying, isentrope, outcome, token_model};
use crate::text_model::text_model;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;

type Rows = Vec<Vec<String>>;

#[derive(serde::Deserialize)]
struct Cases {
    usage: Rows,
    failures: Rows,
    lines: Rows,
}

/// The place in which commands run, with everything that the cases name.
struct Place(Scratch);

impl Place {
    fn new() -> Self {
        let scratch = Scratch::new();
        text_model(&scratch, "text");
        for (name, contents) in [
            ("tokens.jsonl", "{\"tokens\": [1, 2, 3]}\n"),
            ("messages.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n"),
            ("rows.jsonl", "{\"problem\": \"1+1?\", \"answer\": \"2\", \"response\": \"2\"}\n"),
            ("null.jsonl", "{\"problem\": \"1+1?\", \"answer\": null}\n"),
            ("empty.jsonl", "\n  \n\t\n"),
            ("a.parquet", "PAR1\x15\x04"),
            ("b.jsonl", "PAR1\x15\x04"),
            ("a.csv", "step,entropy,acc\n0,1.0,0.5\n1,?,0.5\n"),
            ("begun.jsonl", "{\"step\": 1, \"grad/norm\": 1.0}\n"),
            ("broken.toml", "[run\nsteps = 1"),
            ("empty.toml", ""),
            ("unknown.toml", "\n[run]\nstep = 1"),
            ("list.toml", "model.path = \"m\"\nreward.verifier.command = \"python3 reward.py\"\n"),
        ] {
            scratch.file(name, contents);
        }
        let step =
            |step: u64| json!({"step": step, "eval/test/mean@1": 0.5, "eval/test/entropy": 1});
        for (name, second) in [("run", step(2).to_string()), ("broken", "{\"step\":one}".into())] {
            fs::create_dir(scratch.path(name)).unwrap();
            scratch.file(&format!("{name}/metrics.jsonl"), format!("{}\n{second}\n", step(1)));
        }
        for (name, base) in [("homeless", "/no/such/base"), ("lodger", "models/base")] {
            scratch.copy(Path::new(&token_model("adapters/qwen3-qv")), name);
            let config = scratch.path(&format!("{name}/adapter_config.json"));
            let edited = fs::read_to_string(&config).unwrap().replace("../../qwen3", base);
            fs::write(config, edited).unwrap();
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink("no/such/place", scratch.path("link")).unwrap();
            symlink("/dev/zero", scratch.path("device.jsonl")).unwrap();
            let fifo = scratch.path("fifo.jsonl");
            assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
        }
        Self(scratch)
    }

    fn filled(&self, text: &str) -> String {
        let long = "word".repeat(1000);
        text.replace("{qwen3}", &token_model("qwen3"))
            .replace("{qv}", &token_model("adapters/qwen3-qv"))
            .replace("{text}", &self.0.path("text"))
            .replace("{ones}", vec!["1"; 300].join(",").as_str())
            .replace("{long}", &long)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = isentrope(self.filled(line));
        command.current_dir(self.0.path(""));
        command
    }
}

/// Whatever is wrong with how a command is refused: it must end with this code, print nothing, and
/// say all parts, in one sentence if that is asked for.
fn faults(mut command: Command, code: i32, is_one: bool, parts: &[String]) -> Option<String> {
    let (output, said) = outcome(&mut command);
    let is_right = output.status.code() == Some(code)
        && output.stdout.is_empty()
        && said.starts_with("error: ")
        && (!is_one || said.lines().count() == 1 && !said.contains("panicked"))
        && parts.iter().all(|part| said.contains(part));
    (!is_right).then(|| format!("{parts:?}: {said}"))
}

#[test]
fn what_is_refused_says_why_and_writes_nothing() {
    let cases: Cases = toml::from_str(include_str!("refusals.toml")).unwrap();
    let place = Place::new();
    let before = place.0.names();
    let mut wrong = Vec::new();
    for row in &cases.usage {
        wrong.extend(faults(place.command(&row[0]), 2, false, &row[1..]));
    }
    for row in &cases.failures {
        wrong.extend(faults(place.command(&row[0]), 1, true, &row[1..]));
    }
    for row in &cases.lines {
        let first = "{\"tokens\": [1, 2, 3], \"gold\": 1, \"pred\": \"1\"}";
        place.0.file("tokens.jsonl", format!("{first}\n{}\n", place.filled(&row[1])));
        let line = format!("{} tokens.jsonl --out out", row[0]);
        let parts = [&["tokens.jsonl:2: ".to_owned()], &row[2..]].concat();
        wrong.extend(faults(place.command(&line), 1, true, &parts));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(place.0.names(), before, "something was written");
    assert_eq!(isentrope("").output().unwrap().status.code(), Some(2), "usage alone");
}

/// The names of bytes that are no text, of numbers beyond all types, and of a stack's end.
#[test]
fn bytes_and_depths_that_are_no_json_are_refused() {
    let scratch = Scratch::new();
    let nested = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    for (line, part) in [
        (&b"\x00\xff\xfe\x80garbage\x01"[..], "not UTF-8"),
        (b"{\"prompt\": \"\xff\"}", "not UTF-8"),
        (&nested, "not valid JSON"),
    ] {
        let input = scratch.file("x.jsonl", [line, b"\n"].concat());
        let model = token_model("qwen3");
        failure_saying(
            isentrope(format!("generate {model} --prompts {input}")),
            &["x.jsonl:1", part],
        );
    }
}

#[test]
fn variables_out_of_range_are_named() {
    let scratch = Scratch::new();
    let prompts = scratch.lines("prompts.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    let generate = format!("generate {} --prompts {prompts}", token_model("qwen3"));
    for (name, value) in [
        ("ISENTROPE_ISA", "foo"),
        ("ISENTROPE_ISA", ""),
        ("ISENTROPE_THREADS", "x"),
        ("ISENTROPE_THREADS", "0"),
    ] {
        for line in [&generate, "doctor"] {
            failure_saying(isentrope(line).env(name, value), &[name, value]);
        }
    }
}

/// A key that no header can carry, as a secret with a line's end, or that is no text.
#[cfg(unix)]
#[test]
fn a_key_that_nobody_can_send_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    for key in [&b""[..], b"key\n", b"two words", b"key\xff"] {
        let mut command = isentrope("serve model --port 0");
        command.env("ISENTROPE_API_KEY", std::ffi::OsStr::from_bytes(key));
        failure_saying(command, &["ISENTROPE_API_KEY) must not be empty", "spaces or line ends"]);
    }
}

#[test]
fn the_largest_numbers_are_taken() {
    let scratch = Scratch::new();
    let prompts = scratch.lines("prompts.jsonl", &[json!({"tokens": [1, 2, 3]})]);
    for flag in ["--max-tokens", "--kv-memory", "--seed", "--top-k"] {
        let model = token_model("qwen3");
        let line = format!("generate {model} --prompts {prompts} {flag} {}", u64::MAX);
        assert_eq!(isentrope(line).output().unwrap().status.code(), Some(0), "{flag}");
    }
}

#[test]
fn help_fits_its_width() {
    let help = isentrope("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.split_once("Commands:\n").unwrap().1.lines().map_while(|line| {
        line.strip_prefix("  ").map(|line| line.split(' ').next().unwrap()) // "" of a wrapped line
    });
    for command in commands.filter(|command| !command.is_empty() && *command != "help") {
        let output = isentrope(format!("{command} --help")).output().unwrap();
        assert!(output.status.success(), "{command}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

/// The built-in task's tokenizer has digits and signs.
#[test]
fn characters_without_a_token_are_told_of_and_left_out() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../assets/countdown-base");
    let greedy = format!("generate {model} --temperature 0 --max-tokens 8 --prompt");
    let (lossy, told) = crate::program::spoken(isentrope(format!("{greedy} '1 2 3x>6:'")));
    let lost = "warning: --prompt: no token stands for 'x' (U+0078), which is lost\n";
    assert!(told.contains(lost), "{told}");
    let (whole, told) = crate::program::spoken(isentrope(format!("{greedy} '1 2 3>6:'")));
    assert!(lossy == whole && !told.contains("warning"), "{told}");

    let scratch = Scratch::new();
    let pair = |prompt: &str, response: &str| json!({"prompt": prompt, "response": response});
    let lines = [pair("1 2 3>6:", "1+2=é"), pair("1 2 3>6:", "1+2=3"), pair("4>4:", "4b!")];
    let input = scratch.lines("pairs.jsonl", &lines);
    let (_, told) = crate::program::spoken(isentrope(format!("score {model} --in {input}")));
    let lost = "no token stands for 'é' (U+00E9), which is lost; 1 more with such characters";
    assert!(told.contains(lost), "{told}");
}

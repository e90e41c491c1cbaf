//! `isentrope tinker`, asked over HTTP, and by the Python client and its cookbook.

use crate::processes::{kill, send, start_heard, until};
use crate::program::{Scratch, assert_parts, bits, failure_saying, isentrope, lines_of, text};
use crate::text_model::text_model;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server whose working directory is a scratch directory, with weights in `out`.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(scratch: &Scratch, model: &str, flags: &str) -> Self {
        let mut command = isentrope(format!("tinker {model} --out out --port 0 {flags}"));
        command.current_dir(scratch.path("."));
        let mut child = start_heard(command);
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut url = None;
        while url.is_none() {
            let mut line = String::new();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
            let named = line.split_once("TINKER_BASE_URL=").map(|(_, rest)| rest);
            url = named.and_then(|rest| Some(rest.split_once(' ')?.0.to_owned()));
        }
        thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { child, url: url.unwrap() }
    }

    /// The result of a request, which must not fail.
    fn ask(&self, path: &str, key: &str, body: &Value) -> Result<Value, u16> {
        let request = ureq::post(format!("{}/api/v1/{path}", self.url));
        let request = request.header("X-API-Key", key).header("Content-Type", "application/json");
        let mut answer = request.send(body.to_string()).map_err(|error| match error {
            ureq::Error::StatusCode(status) => status,
            other => panic!("{other}"),
        })?;
        let answer = answer.body_mut().read_to_string().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer.get("error").is_none(), "{path}: {answer}");
        match answer.get("request_id") {
            Some(id) => self.ask("retrieve_future", key, &json!({"request_id": id})),
            None => Ok(answer),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

#[test]
fn saved_weights_outlive_the_server() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let mut server = Server::start(&scratch, "model", "--api-key tml-a --kv-memory 8");
    let ask = |path: &str, body: Value| server.ask(path, "tml-a", &body).unwrap();
    assert_eq!(server.ask("create_session", "tml-b", &json!({})), Err(401));
    let session = ask("create_session", json!({}))["session_id"].clone();
    let body = json!({
        "session_id": session, "model_seq_id": 0, "base_model": "model",
        "lora_config": {"rank": 2, "seed": 1, "train_mlp": false},
    });
    let id = ask("create_model", body)["model_id"].clone();
    let info = ask("get_info", json!({"model_id": id}));
    assert_eq!(info["model_data"]["tokenizer_id"], json!(model));
    let saved = ask("save_weights", json!({"model_id": id, "seq_id": 1, "path": "first"}));
    let path = saved["path"].as_str().unwrap().strip_prefix("tinker://").unwrap().to_owned();
    send("INT", &server.child);
    until(PATIENCE, "it does not end", || server.child.try_wait().unwrap().is_some());
    assert!(server.child.wait().unwrap().success());

    // An adapter before its first update changes nothing.
    let adapter = scratch.path(&format!("out/{path}"));
    let config = fs::read_to_string(Path::new(&adapter).join("adapter_config.json")).unwrap();
    assert_parts(&config, &["\"q_proj\"", "\"lora_alpha\": 32"]);
    assert!(!config.contains("up_proj"));
    let generate = |flags: &str| {
        let line = format!("generate {model} {flags} --prompt ab --max-tokens 9 --seed 1");
        lines_of(isentrope(line)).remove(0)
    };
    let (with, without) = (generate(&format!("--adapter {adapter}")), generate(""));
    assert_eq!(bits(&with, "logprobs"), bits(&without, "logprobs"));
    let adapted = format!("tinker {adapter} --out x --port 0");
    failure_saying(isentrope(adapted), &["is an adapter; MODEL must be the base"]);
    let keyed = format!("tinker {model} --out x --port 0 --api-key secret");
    failure_saying(isentrope(keyed), &["must begin with tml-"]);
    let file = scratch.path("model/config.json");
    let onto_file = format!("tinker {model} --out {file} --port 0");
    failure_saying(isentrope(onto_file), &["--out", "is a file; name a directory"]);
}

/// Datasets that the cookbook's loops load by name, as directories.
fn datasets(scratch: &Scratch) {
    let dataset = |name: &str, config: &str, rows: &[Value]| {
        fs::create_dir_all(scratch.path(name)).unwrap();
        scratch.lines(&format!("{name}/train.jsonl"), rows);
        let front = format!(
            "---\nconfigs:\n- config_name: {config}\n  data_files:\n  - split: train\n    path: \
             train.jsonl\n---\n"
        );
        scratch.file(&format!("{name}/README.md"), front);
    };
    let sums = (1..9).map(|n| {
        json!({"question": format!("What is {n} plus 1?"), "answer": format!("#### {}", n + 1)})
    });
    dataset("openai/gsm8k", "main", &sums.collect::<Vec<_>>());
    let chats = (1..9).map(|n| {
        json!({"messages": [
            {"role": "user", "content": format!("Say {n}.")},
            {"role": "assistant", "content": "a a a a a a a a"},
        ]})
    });
    dataset("HuggingFaceH4/no_robots", "default", &chats.collect::<Vec<_>>());
}

#[test]
#[ignore = "deep: needs ISENTROPE_TEST_TINKER, a Python with tinker and tinker_cookbook"]
fn tinkers_scripts_run() {
    let python = std::env::var_os("ISENTROPE_TEST_TINKER").expect("it names a Python");
    let scratch = Scratch::new();
    datasets(&scratch);
    // The cookbook knows models by name, and finds tokenizer and data sets in this directory.
    fs::create_dir(scratch.path("Qwen")).unwrap();
    let model = text_model(&scratch, "Qwen/Qwen3-8B");
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let longer =
        config.replace("\"max_position_embeddings\":256", "\"max_position_embeddings\":2048");
    assert_ne!(config, longer);
    fs::write(model.join("config.json"), longer).unwrap();
    let run = |server: &Server, arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(arguments).current_dir(scratch.path("."));
        command.env("TINKER_BASE_URL", &server.url).env("TINKER_API_KEY", "tml-none");
        command.env("HF_HUB_OFFLINE", "1").env("HF_HOME", scratch.path("cache"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let metrics = |log: &str| -> Vec<Value> {
        let text = fs::read_to_string(scratch.path(&format!("{log}/metrics.jsonl"))).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let served = Server::start(&scratch, "Qwen/Qwen3-8B", "--kv-memory 64");
    let base = ["model_name=Qwen/Qwen3-8B", "lora_rank=4", "max_steps=4", "batch_size=2"];
    for loss in ["importance_sampling", "cispo"] {
        let log = format!("rl-{loss}");
        let own = [&format!("loss_fn={loss}"), &format!("log_path={log}"), "save_every=2"];
        let more = ["group_size=2", "max_tokens=8"];
        let module = ["-m", "tinker_cookbook.recipes.rl_loop"];
        run(&served, &[&module[..], &base, &own, &more].concat());
        assert_eq!(metrics(&log).len(), 4);
        let saved = fs::read_to_string(scratch.path(&format!("{log}/checkpoints.jsonl"))).unwrap();
        assert_parts(&saved, &["weights/000002", "weights/final", "sampler_weights/final"]);
    }
    // All answers to learn are equal, so that their loss falls.
    let own = ["log_path=sl", "learning_rate=0.05", "max_length=512"];
    run(&served, &[&["-m", "tinker_cookbook.recipes.sl_loop"][..], &base, &own].concat());
    let losses: Vec<f64> =
        metrics("sl").iter().map(|step| step["train_mean_nll"].as_f64().unwrap()).collect();
    assert!(losses.len() == 4 && losses[3] < losses[0] - 0.5, "{losses:?}");

    // The example learns to solve more, and prints the same when it is run again.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap();
    let base = text(&root.join("assets/countdown-base"));
    let script = text(&root.join("examples/tinker/countdown.py"));
    drop(served); // one server has a directory at a time
    let served = Server::start(&scratch, &base, "--kv-memory 256");
    let solved = |output: &str| -> Vec<f64> {
        let lines = output.lines().filter_map(|line| line.strip_suffix(" solved"));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect()
    };
    let first = solved(&run(&served, &[&script, "24"]));
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    assert!(mean(&first[18..]) > 1.3 * mean(&first[..6]), "{first:?}");
    assert_eq!(solved(&run(&served, &[&script, "3"])), first[..3]);
    drop(served);

    // All weights: the script asserts, and the saved model samples here as on the server.
    fs::remove_dir_all(scratch.path("out")).unwrap();
    let served = Server::start(&scratch, &base, "--all-weights --kv-memory 64");
    let script = text(&root.join("crates/app/isentrope/tests/cli/all_weights.py"));
    let said = run(&served, &[&script, &scratch.path("out")]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let path = said["path"].as_str().unwrap();
    let model = format!("out/{}", path.strip_prefix("tinker://").unwrap());
    let line = json!({"id": 0, "tokens": said["prompt"]});
    scratch.lines("prompts.jsonl", &[line]);
    let saved = format!("generate {} --prompts prompts.jsonl", scratch.path(&model));
    let mut generate = isentrope(format!("{saved} --temperature 0 --max-tokens 12"));
    let line = lines_of(generate.current_dir(scratch.path("."))).remove(0);
    assert_eq!(bits(&line, "logprobs"), bits(&said, "logprobs"));
    let tool = |arguments: &[&str]| {
        run(&served, &[&["-m", "tinker.cli", "--format", "json"], arguments].concat())
    };
    assert!(tool(&["checkpoint", "list"]).contains(path));
    assert!(tool(&["run", "list"]).contains("\"is_lora\": false"));
    tool(&["checkpoint", "delete", "--yes", path]);
    assert!(!Path::new(&scratch.path(&model)).exists());
}

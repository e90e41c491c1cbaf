//! A server, asked over HTTP: requests recorded from the Python client, and requests of our own.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_kernels::{Cpu, Isa, Role};
use isentrope_model::adapter::{AdapterConfig, BaseModel};
use isentrope_model::checkpoint::Fingerprint;
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{Layout, Model, ModelConfig};
use isentrope_rollout::Limits;
use isentrope_tinker::{Settings, serve};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};
use tempfile::TempDir;

fn base_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base")
}

/// A server of the countdown model.
struct Server {
    url: String,
}

/// An answer's content type and body.
struct Answer {
    status: u16,
    kind: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Server {
    /// Starts a server of adapters whose micro-batches have at most this number of tokens.
    fn start(out: &Path, micro_batch_tokens: usize) -> Self {
        Self::start_with(out, move |settings| settings.micro_batch_tokens = micro_batch_tokens)
    }

    fn start_with(out: &Path, change: impl FnOnce(&mut Settings) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let out = out.to_owned();
        thread::spawn(move || {
            let dir = base_dir();
            let backend = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
            let model = Model::load_frozen(&dir, backend).unwrap();
            let tokenizer = Arc::new(Tokenizer::read(&dir).unwrap().unwrap());
            let mut settings = Settings {
                name: "countdown".to_owned(),
                tokenizer_id: "countdown".to_owned(),
                api_key: None,
                context: 256,
                eos_tokens: vec![1],
                out,
                base: BaseModel::new(&dir.display().to_string(), Fingerprint::of(&dir).unwrap())
                    .unwrap(),
                base_dir: dir,
                sampling: Limits { cache_bytes: 8 << 20, sequences: 8, prefill_tokens: 16 },
                all_weights: false,
                micro_batch_tokens: 1024,
                pass_bytes: 64 << 20,
                model_bytes: 128 << 20,
                grace: Duration::ZERO,
            };
            change(&mut settings);
            serve(listener, &model, &tokenizer, settings, || false).unwrap();
        });
        Self { url }
    }

    fn send(&self, path: &str, kind: &str, body: &[u8]) -> Answer {
        let request = ureq::post(format!("{}{path}", self.url));
        let request = request.config().http_status_as_error(false).build();
        let mut answer = request.header("Content-Type", kind).send(body).unwrap();
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        let body = answer.body_mut().read_to_vec().unwrap();
        Answer { status: answer.status().into(), kind, body }
    }

    fn ask(&self, path: &str, body: &Value) -> Answer {
        self.send(&format!("/api/v1/{path}"), "application/json", body.to_string().as_bytes())
    }

    /// The answer to a request, or its result if that comes later.
    fn result(&self, answer: Answer) -> Answer {
        if answer.status != 200 || !answer.kind.contains("json") {
            return answer;
        }
        match answer.json().get("request_id") {
            None => answer,
            Some(id) => self.ask("retrieve_future", &json!({"request_id": id})),
        }
    }

    fn done(&self, path: &str, body: &Value) -> Value {
        let answer = self.result(self.ask(path, body));
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    fn session(&self) -> String {
        self.done("create_session", &json!({}))["session_id"].as_str().unwrap().to_owned()
    }

    /// A new model of a session.
    fn model(&self, session: &str, number: u64) -> String {
        let body = json!({
            "session_id": session, "model_seq_id": number, "base_model": "countdown",
            "lora_config": {"rank": 2, "seed": number},
        });
        self.done("create_model", &body)["model_id"].as_str().unwrap().to_owned()
    }
}

/// The fields of a message in Protocol Buffers with byte strings: numbers and contents.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let number = |message: &mut &[u8]| {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return value;
            }
        }
    };
    while !message.is_empty() {
        let key = number(&mut message);
        let length = match key & 7 {
            0 => {
                number(&mut message);
                continue;
            }
            1 => 8,
            _ => number(&mut message) as usize,
        };
        found.push((key >> 3, message[..length].to_vec()));
        message = &message[length..];
    }
    found
}

fn field(message: &[u8], number: u64) -> Vec<u8> {
    fields(message).into_iter().find(|(of, _)| *of == number).map(|(_, own)| own).unwrap()
}

fn floats(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|of| u32::from_le_bytes(of.try_into().unwrap())).collect()
}

/// The bits of a result's log-probs, of all its examples, and the sum of its losses.
fn passed(result: &Answer) -> (Vec<u32>, f64) {
    assert!(result.kind.contains("protobuf"), "{}", String::from_utf8_lossy(&result.body));
    let records = fields(&result.body).into_iter().filter(|(of, _)| *of == 2);
    let logprobs = records.flat_map(|(_, record)| {
        let entry = field(&record, 2);
        assert_eq!(field(&entry, 1), b"logprobs");
        floats(&field(&field(&entry, 2), 1))
    });
    let metric = field(&result.body, 3);
    assert_eq!(field(&metric, 1), b"loss:sum");
    let loss = f64::from_le_bytes(field(&metric, 2).try_into().unwrap());
    (logprobs.collect(), loss)
}

/// The bits of the log-probs of each sampled sequence.
fn sampled(result: &Answer) -> Vec<Vec<u32>> {
    assert!(result.kind.contains("protobuf"), "{}", String::from_utf8_lossy(&result.body));
    let sequences = fields(&result.body).into_iter().filter(|(of, _)| *of == 1);
    sequences.map(|(_, sequence)| floats(&field(&sequence, 3))).collect()
}

/// The recorded requests, each with its path.
fn recorded() -> (String, Vec<(String, Value)>) {
    let text = include_str!("fixtures/session.jsonl");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let session = lines.next().unwrap()["session"].as_str().unwrap().to_owned();
    (session, lines.map(|line| (line["path"].as_str().unwrap().to_owned(), line)).collect())
}

/// Replays the recorded session, and returns the results and the session's id.
fn replay(server: &Server) -> (Vec<(String, Answer)>, String) {
    let (recorded_id, requests) = recorded();
    let mut id = recorded_id.clone();
    let mut results = Vec::new();
    for (path, request) in requests {
        // Ids of sessions have the same length, so that no other byte of a message changes.
        let path = path.replace(&recorded_id, &id);
        let answer = match (request["json"].as_str(), request["hex"].as_str()) {
            (Some(body), _) => {
                let body = body.replace(&recorded_id, &id);
                server.send(&path, "application/json", body.as_bytes())
            }
            (_, Some(hex)) => {
                let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                let mut body: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
                assert_eq!(id.len(), recorded_id.len());
                let starts = body.windows(id.len()).position(|at| at == recorded_id.as_bytes());
                body[starts.unwrap()..][..id.len()].copy_from_slice(id.as_bytes());
                server.send(&path, "application/x-protobuf", &body)
            }
            _ => {
                let mut answer = ureq::get(format!("{}{path}", server.url)).call().unwrap();
                let body = answer.body_mut().read_to_vec().unwrap();
                Answer { status: 200, kind: "json".to_owned(), body }
            }
        };
        let result = server.result(answer);
        let text = String::from_utf8_lossy(&result.body);
        assert!(result.status == 200 && !text.contains("\"error\""), "{path}: {text}");
        if path.ends_with("create_session") {
            id = result.json()["session_id"].as_str().unwrap().to_owned();
        }
        let name = path.rsplit('/').next().unwrap().to_owned();
        results.push((name, result));
    }
    (results, id)
}

/// The recorded client gets right answers, and right weights are saved.
#[test]
fn the_recorded_client_is_answered() {
    let out = TempDir::new().unwrap();
    let (results, id) = replay(&Server::start(out.path(), 1024));
    let of = |name: &str| -> Vec<&Answer> {
        results.iter().filter(|(path, _)| path == name).map(|(_, result)| result).collect()
    };
    let (samples, passes) = (of("asample"), of("forward_backward"));
    // The forward pass over two samples has the sampler's log-probs to the bit. Four targets of
    // each example are in the prompt, and the sampler answered with as many tokens as it had.
    let of_samples = sampled(samples[0]);
    let (forward, loss) = passed(passes[0]);
    let lengths: Vec<usize> = of_samples.iter().map(Vec::len).collect();
    assert_eq!(forward.len(), lengths.iter().sum::<usize>() + 2 * 4);
    assert_eq!(forward[4..4 + lengths[0]], of_samples[0]);
    assert_eq!(forward[4 + lengths[0] + 4..], of_samples[1]);
    let all = of_samples.iter().flatten().map(|&bits| f64::from(f32::from_bits(bits)));
    assert!((loss + all.sum::<f64>()).abs() < 1e-9, "cross-entropy sums weighted log-probs");
    // The ratio of a token that these weights sampled is exactly 1. The advantages are 1 and -0.5.
    let (_, loss) = passed(passes[1]);
    assert_eq!(loss, 0.5 * lengths[1] as f64 - lengths[0] as f64);
    // A prompt's log-probs are the forward pass's as well; one is not asked for.
    let prompt = floats(&field(&samples[2].body, 2));
    assert_eq!(prompt[3..], forward[2..4]);
    assert!(prompt[..3].iter().all(|&bits| f32::from_bits(bits).is_nan()));
    // Five targets of each of three tokens: a record of its own.
    assert_eq!(fields(&passes[3].body).iter().filter(|(of, _)| *of == 2).count(), 2);
    // Weights loaded with their optimizer score as those in training did; training changed them.
    let (_, before) = passed(passes[4]);
    let (after, _) = passed(passes[6]);
    assert_ne!(after, forward);
    assert!(before.is_finite());
    let norms =
        of("optim_step").into_iter().map(|step| step.json()["metrics"]["grad_norm"].clone());
    assert!(norms.into_iter().all(|norm| norm.as_f64().unwrap() > 0.0));
    let info = of("weights_info")[0].json();
    assert_eq!((&info["base_model"], &info["lora_rank"]), (&json!("countdown"), &json!(4)));

    // Both saved adapters are the same weights, in peft's files.
    let dir = out.path().join(format!("{id}:train:0"));
    let weights = |kind: &str| fs::read(dir.join(kind).join("adapter_model.safetensors")).unwrap();
    assert!(weights("weights/state") == weights("sampler_weights/sampler"));
    let config = AdapterConfig::read(&dir.join("weights/state")).unwrap();
    assert_eq!((config.rank, config.alpha), (4, 32.0));
    assert!(dir.join("weights/state/tokenizer.json").is_file());
}

/// A script that makes the same calls gets the same answers, whatever runs beside it and however
/// its examples are cut into passes; and its weights go on bit for bit on another server.
#[test]
fn results_do_not_depend_on_company() {
    company_changes_nothing(false, "adapter_model.safetensors");
}

/// With all weights this holds too. They are saved as a model that loads without this server.
#[test]
fn all_weights_are_trained_and_saved() {
    let (results, out, path) = company_changes_nothing(true, "model.safetensors");
    let dir = out.path().join(path);
    let answers = |path: &str| -> Vec<Value> {
        let of_path = results.iter().filter(|(of, _)| of == path);
        of_path.map(|(_, answer)| answer.json()).collect()
    };
    for info in [answers("get_info"), answers("weights_info")].concat() {
        assert_eq!((&info["is_lora"], &info["lora_rank"]), (&json!(false), &Value::Null));
    }
    let sent = answers("create_session")[0]["info_message"].clone();
    assert_eq!(sent, "this server trains all weights: lora_config has no effect");
    assert!(!AdapterConfig::is_in(&dir) && dir.join("tokenizer.json").is_file());
    let backend = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
    let (saved, first) = (Model::load(&dir, backend.clone()), Model::load(&base_dir(), backend));
    let changed = |from: &Model, to: &Model| {
        let tensors = |model: &Model| {
            let all = model.weights.tensors(&*model.backend, &model.layout.parameters, "");
            all.into_iter().map(|of| (of.values)().unwrap().into_owned()).collect::<Vec<_>>()
        };
        tensors(from).iter().zip(tensors(to)).filter(|(a, b)| *a != b).count()
    };
    let (saved, first) = (saved.unwrap(), first.unwrap());
    assert_eq!(changed(&first, &saved), first.layout.parameters.tensors().count());
}

/// Replays the recorded session alone and beside another, and goes on from its weights, which are
/// in a file of this name. Returns the results, a server's directory and the weights' in it.
fn company_changes_nothing(
    all_weights: bool,
    file: &str,
) -> (Vec<(String, Answer)>, TempDir, String) {
    let start = |out: &TempDir, micro_batch_tokens| {
        Server::start_with(out.path(), move |settings| {
            settings.micro_batch_tokens = micro_batch_tokens;
            settings.all_weights = all_weights;
        })
    };
    let (alone, beside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (first, id) = replay(&start(&alone, 1));
    let server = start(&beside, 1024);
    let (second, third) = thread::scope(|scope| {
        let other = scope.spawn(|| replay(&server));
        (replay(&server), other.join().unwrap())
    });
    for company in [&second, &third] {
        for ((path, expected), (_, found)) in first.iter().zip(&company.0) {
            if expected.kind.contains("protobuf") {
                assert_eq!(expected.body, found.body, "{path}");
            }
        }
        let saved = |dir: &Path, id: &str| {
            let dir = dir.join(format!("{id}:train:0/weights/state"));
            [file, "optimizer/model.safetensors"].map(|file| fs::read(dir.join(file)).unwrap())
        };
        assert!(saved(alone.path(), &id) == saved(beside.path(), &company.1));
    }
    // Another server of the same directory has the weights, and saves them again as they were.
    let server = Server::start(alone.path(), 1024);
    let session = server.session();
    let path = format!("tinker://{id}:train:0/weights/state");
    let body = json!({
        "session_id": session, "model_seq_id": 0, "path": path, "optimizer": true,
    });
    let model = server.done("load_weights", &body)["model_id"].as_str().unwrap().to_owned();
    let body = json!({"model_id": model, "seq_id": 1, "path": "again"});
    server.done("save_weights", &body);
    let read = |path: &str| fs::read(alone.path().join(path)).unwrap();
    for name in [file, "optimizer/model.safetensors", "tinker.json"] {
        let (old, new) = (format!("{id}:train:0/weights/state"), format!("{model}/weights/again"));
        assert!(read(&format!("{old}/{name}")) == read(&format!("{new}/{name}")), "{name}");
    }
    (first, alone, format!("{id}:train:0/weights/state"))
}

/// Runs and weights are listed as the client's types have them, newest first, and deleted.
#[test]
fn runs_and_their_weights_are_listed_and_deleted() {
    let out = TempDir::new().unwrap();
    let (server, whole) = (
        Server::start(out.path(), 1024),
        Server::start_with(out.path(), |settings| settings.all_weights = true),
    );
    let get = |path: &str| {
        let mut answer = ureq::get(format!("{}/api/v1/{path}", server.url)).call().unwrap();
        serde_json::from_str::<Value>(&answer.body_mut().read_to_string().unwrap()).unwrap()
    };
    // The program lets one server at a time have a directory: here the second has looked through it
    // before the first saves, and its first session may have the name of the first server's.
    whole.session();
    let session = server.session();
    let (first, second) = (server.model(&session, 0), server.model(&session, 1));
    let save = |server: &Server, model: &str, seq: u64| {
        let body = json!({"model_id": model, "seq_id": seq, "path": format!("w{seq}")});
        server.done("save_weights", &body);
        let body = json!({"model_id": model, "seq_id": seq + 1, "path": "s"});
        server.done("save_weights_for_sampler", &body);
    };
    save(&server, &first, 1);
    // A run of another server, which trains all weights.
    let other = whole.model(&whole.session(), 7);
    save(&whole, &other, 3);
    let runs = get("training_runs?limit=20&offset=0&access_scope=owned");
    assert_eq!(runs["cursor"], json!({"offset": 0, "limit": 20, "total_count": 3}));
    let of_run = |id: &str| {
        let all = runs["training_runs"].as_array().unwrap();
        let run = all.iter().find(|run| run["training_run_id"] == id).unwrap().clone();
        assert_eq!(run, get(&format!("training_runs/{id}")));
        (run["lora_rank"].clone(), run["last_checkpoint"]["checkpoint_id"].clone())
    };
    assert_eq!(of_run(&first), (json!(2), json!("weights/w1")));
    assert_eq!(of_run(&second), (json!(2), Value::Null));
    assert_eq!(of_run(&other), (Value::Null, json!("weights/w3")));
    let part = get("training_runs?offset=1&limit=1");
    assert_eq!(part["training_runs"].as_array().unwrap().len(), 1);

    let of_first = get(&format!("training_runs/{first}/checkpoints"))["checkpoints"].clone();
    assert_eq!(of_first.as_array().unwrap().len(), 2);
    let saved = of_first.as_array().unwrap().iter().find(|of| of["checkpoint_id"] == "weights/w1");
    let saved = saved.unwrap();
    let dir = out.path().join(format!("{first}/weights/w1"));
    let files = ["adapter_model.safetensors", "optimizer/model.safetensors"];
    let least: u64 = files.iter().map(|file| fs::metadata(dir.join(file)).unwrap().len()).sum();
    assert!(saved["size_bytes"].as_u64().unwrap() > least);
    assert_eq!(saved["tinker_path"], format!("tinker://{first}/weights/w1"));
    assert_eq!(get("checkpoints?limit=0")["cursor"]["total_count"], 4);

    let delete = |path: &str| {
        let request = ureq::delete(format!("{}/api/v1/training_runs/{path}", server.url));
        let request = request.config().http_status_as_error(false).build();
        request.call().unwrap().status().as_u16()
    };
    assert_eq!(delete(&format!("{first}/checkpoints/weights/w1")), 200);
    assert!(!dir.exists() && dir.parent().unwrap().is_dir());
    assert_eq!(delete(&format!("{first}/checkpoints/weights/w1")), 404);
    assert_eq!(delete(&format!("{first}/checkpoints/weights/.next-w1")), 400);
    assert_eq!(delete(&first), 400);
    assert_eq!(get("checkpoints")["checkpoints"].as_array().unwrap().len(), 3);
    let status = |path: &str| {
        let request = ureq::get(format!("{}/api/v1/{path}", server.url));
        request.config().http_status_as_error(false).build().call().unwrap().status().as_u16()
    };
    assert_eq!(status("training_runs/none"), 404);
    assert_eq!(status("training_runs/none/checkpoints"), 404);
    assert_eq!(status("training_runs/../checkpoints"), 400);
    assert_eq!(status("checkpoints?limit=-1"), 400);
}

#[test]
fn models_that_memory_has_no_room_for_are_refused() {
    let out = TempDir::new().unwrap();
    let server = Server::start_with(out.path(), |settings| {
        settings.all_weights = true;
        settings.model_bytes = 64 << 20;
    });
    let session = server.session();
    let create = |number: u64| {
        let body = json!({
            "session_id": session, "model_seq_id": number, "base_model": "countdown",
        });
        server.result(server.ask("create_model", &body)).json()
    };
    let made = (0..).map(create).take_while(|answer| answer.get("error").is_none()).count();
    assert!((1..16).contains(&made), "{made}");
    let message = create(20)["error"].as_str().unwrap().to_owned();
    assert!(message.starts_with("training the model takes "), "{message}");
    assert!(message.contains("end a session"), "{message}");
    server.done("unload_model", &json!({"model_id": format!("{session}:train:0")}));
    assert!(create(21).get("error").is_none());
    // A session that a script finishes leaves its memory to the next.
    server.done(&format!("sessions/{session}/finish"), &json!({"reason": {"type": "success"}}));
    let next = server.session();
    (0..made as u64).for_each(|number| drop(server.model(&next, number)));
    assert_eq!(
        server.ask("get_info", &json!({"model_id": format!("{session}:train:1")})).status,
        404
    );
    // So does a model whose making is cancelled.
    server.done(&format!("sessions/{next}/finish"), &json!({"reason": {"type": "success"}}));
    let last = server.session();
    let body = json!({"session_id": last, "model_seq_id": 99, "base_model": "countdown"});
    let asked = server.ask("create_model", &body).json();
    server.done("cancel_future", &json!({"request_id": asked["request_id"]}));
    (0..made as u64).for_each(|number| drop(server.model(&last, number)));
    assert_eq!(server.ask("get_info", &json!({"model_id": asked["model_id"]})).status, 404);
}

/// Where memory has room for one snapshot, a new one takes the place of the last, and weights for
/// another sampler are refused.
#[test]
fn snapshots_make_place_for_newer_ones() {
    let out = TempDir::new().unwrap();
    let server = Server::start_with(out.path(), |settings| {
        let backend = Cpu::new(Isa::available()[0], 1).unwrap();
        let layout = Layout::new(&ModelConfig::read(&base_dir()).unwrap());
        let weights = layout.parameters.bytes(&backend, Role::Weight);
        let training = 4 * weights + layout.embedded_bytes(&backend, usize::MAX);
        settings.all_weights = true;
        settings.model_bytes = training + weights * 3 / 2;
    });
    let session = server.session();
    let model = server.model(&session, 0);
    let samplers = [1, 2, 3].map(|seq| {
        let body = json!({"model_id": model, "seq_id": seq, "sampling_session_seq_id": seq});
        server.done("save_weights_for_sampler", &body)["sampling_session_id"].clone()
    });
    let sample = |sampler: &Value| {
        let body = json!({
            "sampling_session_id": sampler, "seq_id": 0, "sampling_params": {"max_tokens": 2},
            "prompt": {"chunks": [{"tokens": [3, 4]}]},
        });
        server.result(server.ask("asample", &body))
    };
    assert!(sample(&samplers[1]).json()["error"].as_str().unwrap().contains("are gone"));
    assert_eq!(sampled(&sample(&samplers[2])).len(), 1);
    server.done("save_weights", &json!({"model_id": model, "seq_id": 4, "path": "x"}));
    let body = json!({
        "session_id": session, "sampling_session_seq_id": 9,
        "model_path": format!("tinker://{model}/weights/x"),
    });
    let named = server.done("create_sampling_session", &body)["sampling_session_id"].clone();
    let refused = sample(&named).json()["error"].as_str().unwrap().to_owned();
    assert!(refused.starts_with("a sampler of saved weights takes "), "{refused}");
    assert_eq!(sampled(&sample(&samplers[2])).len(), 1);
}

#[test]
fn what_is_wrong_is_told_and_harms_nobody_else() {
    let out = TempDir::new().unwrap();
    let server = Server::start(out.path(), 1024);
    let session = server.session();
    let model = server.model(&session, 0);
    let create = |field: &str, value: Value| {
        let mut body = json!({
            "session_id": session, "model_seq_id": 9, "base_model": "countdown",
            "lora_config": {"rank": 2},
        });
        body[field] = value;
        body
    };
    let told = |path: &str, body: Value, status: u16, what: &str| {
        let answer = server.result(server.ask(path, &body));
        let text = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(answer.status == status && text.contains(what), "{path} {}: {text}", answer.status);
    };
    told("create_model", create("base_model", json!("gpt")), 400, "has the model countdown");
    told("create_model", create("lora_config", Value::Null), 400, "lora_config is missing");
    told("create_model", create("optimizer_config", json!({"type": "dimuon"})), 400, "only adamw");
    let neither = json!({"rank": 2, "train_attn": false, "train_mlp": false});
    told("create_model", create("lora_config", neither), 400, "must be set");
    told(
        "create_model",
        create("lora_config", json!({"rank": 0})),
        200,
        "the rank is 0, not from 1",
    );
    told("create_model", create("session_id", json!("x")), 404, "its session has ended");
    told("get_info", json!({"model_id": "x"}), 404, "no model in training x");
    told("get_info", json!({}), 400, "missing field `model_id`");
    told("session_heartbeat", json!({"session_id": "x"}), 404, "has ended");
    told("retrieve_future", json!({"request_id": "x"}), 404, "not known");
    told("copy_weights", json!({}), 404, "does not answer");

    let step =
        |seq: i64, params: Value| json!({"model_id": model, "seq_id": seq, "adam_params": params});
    told("optim_step", step(1, json!({"beta1": 1.0})), 200, "beta1 is out of range");
    let save = |seq: i64, name: &str| json!({"model_id": model, "seq_id": seq, "path": name});
    for (seq, name) in (2..).zip(["..", "a/b", "", ".a", &"a".repeat(200)]) {
        told("save_weights", save(seq, name), 200, "cannot be the name of weights");
    }
    server.done("save_weights", &save(10, "kept"));
    told("save_weights", save(11, "kept"), 200, "already");
    // A request that is sent again is not done again.
    assert!(server.done("save_weights", &save(10, "kept"))["path"].is_string());
    let over = json!({"model_id": model, "seq_id": 12, "path": "kept", "overwrite": true});
    server.done("save_weights", &over);
    let load = |path: &str, optimizer: bool| {
        let mut body = json!({"session_id": session, "model_seq_id": 5});
        body["path"] = path.into();
        body["optimizer"] = optimizer.into();
        body
    };
    for path in ["kept", "tinker://x/weights", "tinker://../weights/a", "tinker://x/other/a"] {
        told("load_weights", load(path, false), 400, "");
    }
    told("load_weights", load("tinker://x/weights/a", false), 400, "there are no weights");
    server.done(
        "save_weights_for_sampler",
        &json!({"model_id": model, "seq_id": 13, "path": "s", "kind": "snapshot"}),
    );
    let path = format!("tinker://{model}/sampler_weights/s");
    told("load_weights", load(&path, true), 200, "has no optimizer");

    let body = json!({"session_id": session, "sampling_session_seq_id": 0});
    let sampler = server.done("create_sampling_session", &body)["sampling_session_id"].clone();
    let sample = |seq: u64, tokens: Value, field: &str, value: Value| {
        let mut body = json!({
            "sampling_session_id": sampler, "seq_id": seq, "sampling_params": {"max_tokens": 2},
            "prompt": {"chunks": [{"tokens": tokens, "type": "encoded_text"}]},
        });
        if value.is_object() || field != "sampling_params" {
            body[field] = value;
        }
        body
    };
    let ok = json!([3, 4]);
    let none = || ("num_samples", json!(1));
    for (seq, (tokens, (field, value), what)) in (0..).zip([
        (json!([]), none(), "the prompt has no tokens"),
        (json!([3, 99]), none(), "the token 99, outside the vocabulary"),
        (json!([-1]), none(), "the token -1"),
        (json!(vec![3; 300]), none(), "the context is 256"),
        (ok.clone(), ("num_samples", json!(0)), "num_samples is 0"),
        (ok.clone(), ("topk_prompt_logprobs", json!(2)), "not supported"),
        (ok.clone(), ("record_stability_info", json!(true)), "not supported"),
        (ok.clone(), ("prompt_logprobs_last_n", json!(1)), "it needs prompt_logprobs"),
        (ok.clone(), ("sampling_params", json!({"temperature": -1.0})), "temperature"),
        (ok.clone(), ("sampling_params", json!({"max_tokens": 0})), "max-tokens"),
    ]) {
        told("asample", sample(seq, tokens, field, value), 200, what);
    }
    let last = json!({"session_id": session, "sampling_session_seq_id": u64::MAX});
    let last = server.done("create_sampling_session", &last)["sampling_session_id"].clone();
    told("asample", sample(0, ok.clone(), "sampling_session_id", last), 200, "too large");
    let broken = server.send("/api/v1/forward_backward", "application/x-protobuf", &[9, 9, 9]);
    assert_eq!(broken.status, 400);
    let untyped = server.send("/api/v1/create_session", "text/plain", b"{}");
    assert_eq!(untyped.status, 415);
    // The model and the sampler still work.
    server.done("optim_step", &step(20, json!({})));
    let answer = server.ask("asample", &sample(99, ok, "num_samples", json!(3)));
    assert_eq!(sampled(&server.result(answer)).len(), 3);
}

/// Other weights in a model leave its samplers theirs; other weights under a path reach all new
/// requests for it, also while older ones are still sampled.
#[test]
fn other_weights_reach_those_who_ask_for_them() {
    let out = TempDir::new().unwrap();
    let server = Server::start(out.path(), 1024);
    let (_, trained) = replay(&server);
    let session = server.session();
    let model = server.model(&session, 0);
    let prompt_logprobs = |sampler: &Value, seq: u64| {
        let body = json!({
            "sampling_session_id": sampler, "seq_id": seq, "prompt_logprobs": true,
            "sampling_params": {"max_tokens": 1}, "prompt": {"chunks": [{"tokens": [3, 4, 5, 6]}]},
        });
        let answer = server.result(server.ask("asample", &body));
        floats(&field(&answer.body, 2))[1..].to_vec()
    };
    let snapshot = |seq: u64| {
        let body = json!({"model_id": model, "seq_id": seq, "sampling_session_seq_id": seq});
        server.done("save_weights_for_sampler", &body)["sampling_session_id"].clone()
    };
    let sampler = |number: u64| {
        let path = format!("tinker://{model}/weights/x");
        let body = json!({
            "session_id": session, "sampling_session_seq_id": number, "model_path": path,
        });
        server.done("create_sampling_session", &body)["sampling_session_id"].clone()
    };
    let save = |seq: u64| {
        let body = json!({"model_id": model, "seq_id": seq, "path": "x", "overwrite": true});
        server.done("save_weights", &body);
    };
    save(1);
    let (old_snapshot, old_sampler) = (snapshot(2), sampler(100));
    let old = prompt_logprobs(&old_snapshot, 0);
    assert_eq!(prompt_logprobs(&old_sampler, 0), old);

    let body = json!({
        "model_id": model, "seq_id": 3, "optimizer": false,
        "path": format!("tinker://{trained}:train:0/weights/state"),
    });
    server.done("load_weights", &body);
    assert_eq!(server.done("get_info", &json!({"model_id": model}))["lora_rank"], 4);
    assert_eq!(prompt_logprobs(&old_snapshot, 1), old);
    let new = prompt_logprobs(&snapshot(4), 0);
    assert_ne!(new, old);

    let long = json!({
        "sampling_session_id": old_sampler, "seq_id": 1, "num_samples": 8,
        "sampling_params": {"max_tokens": 250, "stop": []},
        "prompt": {"chunks": [{"tokens": [3]}]},
    });
    let long = server.ask("asample", &long);
    save(5);
    assert_eq!(prompt_logprobs(&sampler(101), 0), new);
    assert_eq!(sampled(&server.result(long)).len(), 8);
}

//! `isentrope serve`, asked over HTTP.

use crate::processes::{kill, send, start_heard, until};
use crate::program::{
    Scratch, array, assert_parts, bits, isentrope, lines_of, output_for, stderr, text,
};
use crate::text_model::{VOCABULARY, text_model};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server of the tiny text model.
struct Server {
    child: Child,
    /// Host and port.
    address: String,
    model: String,
    scratch: Scratch,
}

impl Server {
    fn start(flags: &str) -> Self {
        Self::of(flags, |_| ())
    }

    /// A server of the model after a change to its directory.
    fn of(flags: &str, change: impl Fn(&Path)) -> Self {
        let scratch = Scratch::new();
        let model = text_model(&scratch, "model");
        change(&model);
        let model = text(&model);
        let line = format!("serve {model} --served-model-name tiny --port 0 {flags}");
        let mut child = start_heard(isentrope(line));
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut address = None;
        while address.is_none() {
            let mut line = String::new();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
            let named = line.split_once("at http://").and_then(|(_, rest)| rest.split_once("/v1"));
            address = named.map(|(address, _)| address.to_owned());
        }
        thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { child, address: address.unwrap(), model, scratch }
    }

    /// The status and the body of an answer.
    fn ask(&self, path: &str, body: &[u8], key: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.address);
        let request = ureq::post(url).config().http_status_as_error(false).build();
        let request = request.header("Authorization", format!("bearer {key}"));
        let request = request.header("Content-Type", "application/json; charset=utf-8");
        let mut answer = request.send(body).unwrap();
        let status = answer.status().as_u16();
        (status, answer.body_mut().with_config().limit(1 << 30).read_to_string().unwrap())
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(path, body.to_string().as_bytes(), "");
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    }

    /// The chunks of a streamed answer, which must end as OpenAI's do.
    fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let (status, answer) = self.ask(path, body.to_string().as_bytes(), "");
        assert_eq!(status, 200, "{answer}");
        let events = answer.strip_suffix("data: [DONE]\n\n").unwrap();
        let data = events.split_terminator("\n\n").map(|event| event.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data.unwrap()).unwrap()).collect()
    }

    /// A connection on which a completion has been asked for with the key "secret"; nothing has
    /// been read from it.
    fn begin(&self, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (body, path) = (body.to_string(), COMPLETIONS);
        let (length, key) = (body.len(), "Authorization: Bearer secret");
        let kind = "Content-Type: application/json";
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{key}\r\n{kind}\r\n");
        write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut answer = ureq::get(format!("http://{}{path}", self.address)).call().unwrap();
        answer.body_mut().read_to_string().unwrap()
    }

    fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("isentrope_{name} ")));
        line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

const CHAT: &str = "/v1/chat/completions";
const TOKENS: &str = "generation_tokens_total";
const COMPLETIONS: &str = "/v1/completions";

/// The texts of streamed choices, joined.
fn joined(chunks: &[Value], choices: usize, text: impl Fn(&Value) -> &Value) -> Vec<String> {
    let of = |index: usize| {
        let chunks = chunks.iter().flat_map(|chunk| array(chunk, "choices"));
        let own = chunks.filter(|choice| choice["index"] == index);
        own.filter_map(|choice| text(choice).as_str()).collect()
    };
    (0..choices).map(of).collect()
}

#[test]
fn answers_are_those_of_generate_and_score_to_the_bit() {
    let server = Server::start("");
    let model = &server.model;
    let user = json!({"role": "user", "content": "What is 2+2?"});
    let mut request = json!({
        "model": "tiny", "messages": [user], "n": 2, "seed": 7, "max_tokens": 24, "top_p": 0.9,
        "logprobs": true, "return_token_ids": true, "user": "somebody"
    });
    let prompts = server.scratch.lines("p", &[json!({"messages": [user]})]);
    let flags = "-n 2 --seed 7 --max-tokens 24 --top-p 0.9";
    let generated = lines_of(isentrope(format!("generate {model} --prompts {prompts} {flags}")));
    let other = json!({"prompt": ["x", "yz"], "n": 5, "max_tokens": 60, "ignore_eos": true});
    let whole = thread::scope(|scope| {
        scope.spawn(|| server.post(COMPLETIONS, &other));
        server.post(CHAT, &request)
    });
    let prompt = array(&whole, "prompt_token_ids");
    for (choice, line) in array(&whole, "choices").iter().zip(&generated) {
        assert_eq!(choice["token_ids"], line["tokens"]);
        assert_eq!(choice["message"]["content"], line["text"]);
        assert_eq!(choice["finish_reason"], line["finish_reason"]);
        let content = choice["logprobs"]["content"].clone();
        let own: Vec<&Value> = content.as_array().unwrap().iter().map(|c| &c["logprob"]).collect();
        assert_eq!(bits(&json!({"logprobs": own}), "logprobs"), bits(line, "logprobs"));
        let tokens = [prompt, array(choice, "token_ids")].concat();
        let scored = json!({"tokens": tokens, "prompt_tokens": prompt.len()});
        let scored = server.scratch.lines("s", &[scored]);
        let scored = lines_of(isentrope(format!("score {model} --in {scored}")));
        assert_eq!(bits(&scored[0], "logprobs"), bits(line, "logprobs"));
    }

    request["stream"] = true.into();
    request["stream_options"] = json!({"include_usage": true});
    let chunks = server.stream(CHAT, &request);
    let texts: Vec<Value> = generated.iter().map(|line| line["text"].clone()).collect();
    assert_eq!(json!(joined(&chunks, 2, |choice| &choice["delta"]["content"])), json!(texts));
    let last = chunks.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &whole["usage"]));
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");

    // Prompts are echoed with the log-probs of score, as lm-evaluation-harness asks for them.
    let tokens = [[5, 24, 43, 42], [7, 7, 9, 61]];
    let mut question = json!({
        "prompt": tokens, "echo": true, "logprobs": 1, "max_tokens": 1, "temperature": 0, "seed": 1
    });
    let echoed = server.post(COMPLETIONS, &question);
    question["repetition_penalty"] = json!(1.3);
    let penalised = server.post(COMPLETIONS, &question);
    let lines = tokens.map(|tokens| json!({"tokens": tokens}));
    let lines = server.scratch.lines("t", &lines);
    let scored = lines_of(isentrope(format!("score {model} --in {lines}")));
    for (choice, scored) in array(&echoed, "choices").iter().zip(scored) {
        let logprobs = array(&choice["logprobs"], "token_logprobs");
        assert_eq!((logprobs.len(), &logprobs[0]), (5, &Value::Null));
        let of_prompt = json!({"logprobs": logprobs[1..4]});
        assert_eq!(bits(&of_prompt, "logprobs"), bits(&scored, "logprobs"));
        for (own, top) in logprobs.iter().zip(array(&choice["logprobs"], "top_logprobs")).skip(1) {
            let most = top.as_object().unwrap().values().filter_map(Value::as_f64);
            assert!(most.fold(f64::MIN, f64::max) >= own.as_f64().unwrap());
        }
    }
    // Under a repetition penalty the likeliest tokens of the prompt alone are known.
    for (plain, choice) in array(&echoed, "choices").iter().zip(array(&penalised, "choices")) {
        let [plain, tops] = [plain, choice].map(|of| array(&of["logprobs"], "top_logprobs"));
        assert_eq!(plain[..4], tops[..4]);
        assert_eq!(tops[4].as_object().unwrap().len(), 1);
    }
    let only = json!({"prompt": "ab", "echo": true, "max_tokens": 0});
    assert_eq!(server.post(COMPLETIONS, &only)["choices"][0]["text"], "ab");
    assert_eq!(server.metric("requests_withdrawn_total"), 0);

    // A stop text ends the answer, whole and streamed.
    let full = texts[0].as_str().unwrap();
    let stop: String = full.chars().skip(6).take(3).collect();
    let cut = &full[..full.find(&stop).unwrap()];
    request["stop"] = json!([stop]);
    request["n"] = 1.into();
    let chunks = server.stream(CHAT, &request);
    assert_eq!(joined(&chunks, 1, |choice| &choice["delta"]["content"]), [cut]);

    // The answer names a seed that was drawn, which repeats it.
    let mut request = json!({"prompt": "ab", "max_tokens": 8});
    let drawn = server.post(COMPLETIONS, &request);
    assert_ne!(drawn["seed"], server.post(COMPLETIONS, &request)["seed"]);
    request["seed"] = drawn["seed"].clone();
    assert_eq!(drawn["choices"], server.post(COMPLETIONS, &request)["choices"]);
}

#[test]
fn wrong_requests_get_a_status_and_a_sentence() {
    let server = Server::start("--max-waiting 40");
    let with = |field: &str, value: Value| {
        let mut body = json!({"prompt": "ab", "max_tokens": 4});
        body[field] = value;
        body
    };
    let cases = [
        (with("logit_bias", json!({"5": 1})), "logit_bias is not supported"),
        (with("frequency_penalty", json!(0.5)), "frequency_penalty is not supported"),
        (with("response_format", json!({"type": "json_object"})), "response_format is not"),
        (with("guided_regex", json!("a")), "guided_regex is no field that this server knows"),
        (with("logprobs", json!(5)), "logprobs is 5: this server has the log-prob of each"),
        (
            json!({"prompt": "ab", "temperature": 0, "logprobs": 1, "repetition_penalty": 1.1}),
            "at temperature 0 and repetition_penalty 1, of the most likely one",
        ),
        (with("max_tokens", json!(1_000_000)), "the response may have 1000000: ask for at most"),
        (with("max_tokens", json!(-1)), "max_tokens must be a whole number"),
        (with("max_tokens", json!(0)), "max_tokens is 0, and nothing is echoed"),
        (with("prompt", json!("ab".repeat(300))), "context is 256 tokens"),
        (with("prompt", json!([[1, 99999]])), "99999"),
        (with("prompt", json!([])), "prompt must be"),
        (with("prompt", json!([[]])), "prompt must be"),
        (with("prompt", json!({"a": 1})), "prompt must be"),
        (with("temperature", json!(-1)), "temperature is -1: it must be"),
        (with("top_p", json!("x")), "top_p must be a number"),
        (with("n", json!(0)), "n must be from 1 to 128"),
        (with("n", json!(100)), "this server's --max-waiting is 40"),
        (with("stop", json!([""])), "stop is an empty text"),
        (with("stop", json!(vec!["a"; 65])), "stop has 65 items, and at most 64"),
        (with("stop", json!("a".repeat(1025))), "stop has a text of more than 1024 bytes"),
        (with("top_p", json!(0)), "top_p is 0: it must be"),
        (with("seed", json!(1.5)), "seed must be a whole number"),
        (
            json!({"prompt": vec![vec![5; 200]; 20], "n": 128, "echo": true}),
            "echo would repeat prompts of 512000 tokens",
        ),
    ];
    for (body, part) in &cases {
        let (status, answer) = server.ask(COMPLETIONS, body.to_string().as_bytes(), "");
        let error: Value = serde_json::from_str(&answer).unwrap();
        let sentence = error["error"]["message"].as_str().unwrap();
        assert!(status == 400 && sentence.contains(part), "{body}: {status} {answer}");
    }
    // Values at which such a field changes nothing.
    let neutral = json!({"prompt": "ab", "logit_bias": {}, "frequency_penalty": 0, "n": null});
    server.post(COMPLETIONS, &neutral);
    let call = json!({"function": {"name": "a", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": "", "tool_calls": [call]});
    server.post(CHAT, &json!({"messages": [message], "max_tokens": 1}));
    let big = json!({"prompt": "x".repeat(10 << 20)}).to_string();
    let nested = "[".repeat(100_000);
    for (path, body, expected) in [
        (COMPLETIONS, "{\"prompt\"", 400),
        (COMPLETIONS, "[]", 400),
        (COMPLETIONS, "\u{0}", 400),
        (COMPLETIONS, &nested, 400),
        (COMPLETIONS, &big, 413),
        (COMPLETIONS, r#"{"prompt": "a", "model": "other"}"#, 404),
        (CHAT, r#"{"messages": []}"#, 400),
        (CHAT, r#"{"messages": [{"content": "a"}]}"#, 400),
        (CHAT, r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#, 400),
        (CHAT, r#"{"messages": [{"role": "user", "content": "a"}], "top_logprobs": 1}"#, 400),
        (CHAT, r#"{"messages": [{"role": "assistant", "tool_calls": [3, {"function": 4}]}]}"#, 400),
        (CHAT, r#"{"messages": [{"role": "user"}], "tools": [3]}"#, 400),
        (CHAT, r#"{"messages": [{"role": "user"}], "tool_choice": "required"}"#, 400),
        ("/v1/embeddings", "{}", 404),
        ("/v1/models", "{}", 405),
    ] {
        let (status, answer) = server.ask(path, body.as_bytes(), "");
        let error: Value = serde_json::from_str(&answer).unwrap();
        assert!(status == expected && error["error"]["message"].is_string(), "{status} {answer}");
    }
    assert_eq!(server.metric("sequences_waiting"), 0);
}

#[test]
fn keys_limits_and_departures_leave_the_server_whole() {
    let mut server = Server::start("--api-key secret --max-waiting 1024 --max-num-seqs 1");
    let prompts = vec!["a"; 8];
    let long = json!({"prompt": prompts, "n": 128, "max_tokens": 200, "ignore_eos": true});
    for key in ["", "secre", "secret2"] {
        assert_eq!(server.ask(COMPLETIONS, long.to_string().as_bytes(), key).0, 401);
    }
    assert_eq!(server.get("/health"), "");
    for is_streamed in [false, true] {
        let mut body = long.clone();
        body["stream"] = is_streamed.into();
        let sampled = server.metric(TOKENS);
        let mut stream = server.begin(&body);
        if is_streamed {
            stream.read_exact(&mut [0; 400]).unwrap();
        }
        until(PATIENCE, "it does not begin", || server.metric(TOKENS) > sampled);
        let small = json!({"prompt": prompts, "n": 100, "max_tokens": 2}).to_string();
        let (status, answer) = server.ask(COMPLETIONS, small.as_bytes(), "secret");
        assert_eq!(status, 503, "{answer}");
        let before = server.metric("requests_withdrawn_total");
        if is_streamed {
            drop(stream);
        } else {
            stream.shutdown(Shutdown::Write).unwrap(); // a client that closes its side has left
        }
        until(PATIENCE, "it is not withdrawn", || {
            server.metric("requests_withdrawn_total") == before + 1
                && server.metric("sequences_waiting") == 0
                && server.metric("sequences_running") == 0
        });
        assert!(server.metric(TOKENS) - sampled < 1024 * 200, "it was sampled to its end");
        assert_eq!(server.ask(COMPLETIONS, small.as_bytes(), "secret").0, 200);
    }

    // Asked to end, it lets a request end and takes no other.
    let sampled = server.metric(TOKENS);
    let small = json!({"prompt": "a", "n": 128, "max_tokens": 50, "ignore_eos": true});
    let mut stream = server.begin(&small);
    until(PATIENCE, "it does not begin", || server.metric(TOKENS) > sampled);
    send("INT", &server.child);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_parts(&answer, &["200 OK", "\"finish_reason\":\"length\""]);
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn what_is_no_request_ends_its_connection_alone() {
    let server = Server::start("--timeout 1 --max-num-seqs 1");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer); // a reset is an end, too
    // Neither does a request that takes too long, whose sequences make room again.
    let prompts = vec!["a"; 8];
    let mut long = json!({"prompt": prompts, "n": 128, "max_tokens": 240, "ignore_eos": true});
    let (status, answer) = server.ask(COMPLETIONS, long.to_string().as_bytes(), "");
    assert!(status == 504 && answer.contains("--timeout"), "{status} {answer}");
    let until_free =
        || server.metric("sequences_running") + server.metric("sequences_waiting") == 0;
    until(PATIENCE, "it is not withdrawn", &until_free);
    long["stream"] = true.into();
    let (status, answer) = server.ask(COMPLETIONS, long.to_string().as_bytes(), "");
    let last = answer.trim_end().lines().last().unwrap();
    assert!(status == 200 && last.contains("--timeout"), "{status} {last}");
    until(PATIENCE, "it is not withdrawn", &until_free);
    let unread = server.begin(&long);
    until(PATIENCE, "it does not begin", || !until_free());
    until(PATIENCE, "it is not withdrawn", &until_free);
    drop(unread);
    assert_parts(&server.get("/v1/models"), &["\"tiny\"", "\"max_model_len\":256"]);
    assert_parts(&server.get("/v1/models/t%69ny"), &["\"id\":\"tiny\""]);
    let untyped = ureq::post(format!("http://{}{COMPLETIONS}", server.address)).send("{}");
    assert!(matches!(untyped, Err(ureq::Error::StatusCode(415))), "{untyped:?}");
    let head = ureq::head(format!("http://{}/health", server.address)).call().unwrap();
    assert_eq!(head.status(), 200);
}

#[test]
fn a_damaged_model_fails_requests_and_not_the_server() {
    // The last weight, of the final norm, takes the logits beyond f32.
    let server = Server::of("", |dir| {
        let weights = dir.join("model.safetensors");
        let mut bytes = fs::read(&weights).unwrap();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&f32::MAX.to_le_bytes());
        fs::write(weights, bytes).unwrap();
    });
    let sampled = json!({"prompt": "a", "n": 3});
    let scored = json!({"prompt": "abc", "echo": true, "logprobs": 0, "max_tokens": 0});
    for body in [&sampled, &sampled, &scored, &sampled] {
        let (status, answer) = server.ask(COMPLETIONS, body.to_string().as_bytes(), "");
        assert!(status == 500 && answer.contains("not finite"), "{status} {answer}");
    }
    assert_eq!(server.get("/health"), "");
    for gauge in ["sequences_waiting", "sequences_running"] {
        until(PATIENCE, gauge, || server.metric(gauge) == 0);
    }
}

#[test]
fn logits_that_are_not_finite_fail_their_request_alone() {
    const DAMAGED: usize = 42;
    let server = Server::of("", |dir| {
        // One feature, of a token that no other shares it with, is scaled beyond f32. The head
        // is the embedding as it was, and does not draw that token.
        let weights = dir.join("model.safetensors");
        let bytes = fs::read(&weights).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let changed = |name: &str, change: &dyn Fn(&mut [[u8; 4]])| {
            let tensor = tensors.tensor(name).unwrap();
            let mut data = tensor.data().to_vec();
            change(data.as_chunks_mut().0);
            (name.to_owned(), tensor.shape().to_vec(), data)
        };
        let embedding = changed("model.embed_tokens.weight", &|numbers| {
            let width = numbers.len() / VOCABULARY;
            for (token, row) in numbers.chunks_mut(width).enumerate() {
                row[0] = if token == DAMAGED { 1f32 } else { 0.0 }.to_le_bytes();
            }
        });
        let head = changed(&embedding.0, &|numbers| {
            let width = numbers.len() / VOCABULARY;
            numbers[DAMAGED * width..][..width].fill([0; 4]);
        });
        let norm = changed("model.layers.0.input_layernorm.weight", &|numbers| {
            numbers[0] = f32::MAX.to_le_bytes();
        });
        let mut all = tensors.tensors();
        all.retain(|(name, _)| *name != embedding.0 && *name != norm.0);
        let head = ("lm_head.weight".to_owned(), head.1, head.2);
        for (name, shape, data) in [&embedding, &head, &norm] {
            all.push((name.clone(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap()));
        }
        safetensors::serialize_to_file(all, None, &weights).unwrap();
        let config = fs::read_to_string(dir.join("config.json")).unwrap();
        let untied =
            config.replace("\"tie_word_embeddings\":true", "\"tie_word_embeddings\":false");
        fs::write(dir.join("config.json"), untied).unwrap();
    });
    let whole = json!({
        "prompt": [[5, 24, 43]], "n": 128, "max_tokens": 200, "temperature": 0, "ignore_eos": true,
    });
    let damaged = json!({"prompt": [[5, DAMAGED]], "n": 2});
    let alone = server.post(COMPLETIONS, &whole);
    let sampled = server.metric(TOKENS);
    thread::scope(|scope| {
        let beside = scope.spawn(|| server.post(COMPLETIONS, &whole));
        until(PATIENCE, "it does not begin", || server.metric(TOKENS) > sampled);
        let (status, answer) = server.ask(COMPLETIONS, damaged.to_string().as_bytes(), "");
        assert!(status == 500 && answer.contains("not finite after 2 tokens"), "{status} {answer}");
        assert!(!beside.is_finished(), "it ended too early to show anything");
        assert_eq!(beside.join().unwrap()["choices"], alone["choices"]);
    });
    assert_eq!(server.metric("request_failures_total"), 1);
}

#[test]
fn a_conversation_goes_on_from_its_answers() {
    let scratch = Scratch::new();
    let model = text(&text_model(&scratch, "model"));
    let talk = |lines: &str, flags: &str| {
        let command = isentrope(format!("chat {model} --max-tokens 12 --seed 3 {flags}"));
        let output = output_for(lines, command);
        assert!(output.status.success(), "{}", stderr(&output));
        (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    };
    let user = |text: &str| json!({"role": "user", "content": text});
    let (first, said) = talk("Hi\n\n/exit\nnot read\n", "--entropy");
    let mean = said.lines().last().unwrap();
    assert!(mean.contains(" tokens, mean entropy ") && !first.contains('\x1b'), "{said}");
    let sampled = "--max-tokens 12 --seed 3";
    let generate = |messages: Value| {
        let prompts = scratch.lines("p", &[json!({"messages": messages})]);
        let line = isentrope(format!("generate {model} --prompts {prompts} {sampled}"));
        lines_of(line).remove(0)["text"].as_str().unwrap().to_owned()
    };
    let answer = first.strip_suffix('\n').unwrap();
    assert_eq!(answer, generate(json!([user("Hi")])));
    let system = json!({"role": "system", "content": "Be brief."});
    let (briefly, _) = talk("Hi\n", "--system 'Be brief.'");
    assert_eq!(briefly, format!("{}\n", generate(json!([system, user("Hi")]))));

    // The second answer follows the first, unless the conversation was reset. Its draws are its
    // own, so both second turns are greedy.
    let (both, _) = talk("Hi\nHo\n", "--temperature 0");
    let (apart, _) = talk("Hi\n/reset\nHo\n", "--temperature 0");
    let (alone, _) = talk("Ho\n", "--temperature 0");
    assert!(apart.ends_with(&alone) && !both.ends_with(&alone), "{both:?} {apart:?}");
    // A word behind a slash that is no command is no message either.
    let (answers, said) = talk("/rest\nHo\n", "--temperature 0");
    assert_parts(&said, &["there is no /rest: /reset begins anew, /exit or Ctrl-D ends"]);
    assert_eq!(answers, alone);
    let (_, said) = talk("/think\n", "--temperature 0"); // the switch of Qwen3
    assert!(!said.contains("there is no"), "{said}");
    // A message that has no room is refused, and the conversation goes on.
    let long = "a ".repeat(400);
    let (answers, said) = talk(&format!("{long}\nHo\n{long}\n"), "--temperature 0");
    assert_parts(&said, &["the context 256: a shorter message", "the context 256: /reset begins"]);
    assert_eq!(answers, alone);
}

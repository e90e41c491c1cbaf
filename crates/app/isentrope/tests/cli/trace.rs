//! `--trace`: what a traced step shows, and that nothing depends on it.

use crate::processes::{send, start, until_reached};
use crate::program::{Scratch, all_pages, isentrope, json_of, outcome, spoken, token_model};
use crate::training::{Bench, assert_same_results, lines, succeed};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Microseconds within which times agree that were rounded.
const ROUNDED: f64 = 0.01;

/// The spans of a trace.
struct Traced {
    file: Value,
    /// By thread, in the order in which they begin, the outer ones first.
    spans: BTreeMap<u64, Vec<Span>>,
}

#[derive(Clone)]
struct Span {
    name: String,
    kind: String,
    began: f64,
    took: f64,
    arguments: Value,
    /// The names of those around it.
    within: Vec<String>,
}

impl Traced {
    /// The values of a counter, in their order.
    fn counter(&self, name: &str) -> Vec<u64> {
        let events = self.file["traceEvents"].as_array().unwrap().iter();
        let of_counter = events.filter(|event| event["ph"] == "C" && event["name"] == name);
        of_counter.map(|event| event["args"]["value"].as_u64().unwrap()).collect()
    }
}

impl Span {
    fn ended(&self) -> f64 {
        self.began + self.took
    }
}

fn read(path: &Path) -> Traced {
    let file = json_of(path);
    let mut spans: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
    for event in file["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X") {
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        let span = Span {
            name: text("name"),
            kind: text("cat"),
            began: event["ts"].as_f64().unwrap(),
            took: event["dur"].as_f64().unwrap(),
            arguments: event["args"].clone(),
            within: Vec::new(),
        };
        assert!(span.began >= 0.0 && span.took >= 0.0, "{event}");
        spans.entry(event["tid"].as_u64().unwrap()).or_default().push(span);
    }
    for spans in spans.values_mut() {
        spans.sort_by(|a, b| a.began.total_cmp(&b.began).then(b.took.total_cmp(&a.took)));
        let mut around: Vec<Span> = Vec::new();
        for span in spans {
            around.retain(|outer| span.began < outer.ended() - ROUNDED);
            for outer in &around {
                assert!(
                    span.ended() <= outer.ended() + ROUNDED,
                    "{} reaches beyond {}",
                    span.name,
                    outer.name
                );
            }
            span.within = around.iter().map(|outer| outer.name.clone()).collect();
            around.push(span.clone());
        }
    }
    Traced { file, spans }
}

impl Traced {
    fn all(&self) -> impl Iterator<Item = &Span> {
        self.spans.values().flatten()
    }

    /// The only one of this name.
    fn only(&self, name: &str) -> &Span {
        let mut found = self.all().filter(|span| span.name == name);
        let only = found.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(found.next().is_none(), "several {name}");
        only
    }

    /// Whether each of these that is the host's is in one of those.
    fn assert_within(&self, name: &str, outer: &str) {
        let mut found =
            self.all().filter(|span| span.name == name && span.kind != "device").peekable();
        assert!(found.peek().is_some(), "no {name}");
        for span in found {
            assert!(
                span.within.iter().any(|around| around == outer),
                "{name} in {:?}, not in {outer}",
                span.within
            );
        }
    }

    /// The thread of this name.
    fn thread(&self, name: &str) -> &[Span] {
        let events = self.file["traceEvents"].as_array().unwrap();
        let named = events
            .iter()
            .find(|event| event["name"] == "thread_name" && event["args"]["name"] == name);
        let thread =
            named.unwrap_or_else(|| panic!("no thread is called {name}"))["tid"].as_u64().unwrap();
        &self.spans[&thread]
    }
}

const SMALL: &str =
    "run.steps=3 eval.problems=2 eval.samples=1 checkpoint.every=1 checkpoint.keep=9";

#[test]
fn a_traced_step_shows_its_phases_and_changes_nothing() {
    let bench = Bench::train();
    let plain = bench.run("plain", SMALL, "");
    let file = bench.scratch.path("trace.json");
    let (_, said) = spoken(bench.command("traced", SMALL, format!("--trace {file}")));
    assert_same_results(&plain, &bench.out("traced"));
    assert!(said.contains("the trace of step 2") && said.contains("trace.json"), "{said}");

    let traced = read(Path::new(&file));
    let step = traced.only("step");
    assert_eq!((step.kind.as_str(), &step.arguments["number"]), ("phase", &2.into()));
    for (name, outer) in [
        ("rollout", "step"),
        ("minibatch", "step"),
        ("update", "minibatch"),
        ("loss", "update"),
        ("micro-batch", "update"),
        ("backward", "micro-batch"),
        ("MLP backward", "backward"),
        ("head backward", "backward"),
        ("optimizer", "minibatch"),
        ("AdamW", "optimizer"),
        ("eval", "step"),
        ("checkpoint", "step"),
    ] {
        traced.assert_within(name, outer);
    }
    // Evaluations sample as well.
    for (name, outer) in
        [("prefill", "rollout"), ("decode", "eval"), ("draw", "rollout"), ("verify", "rollout")]
    {
        let mut found = traced.all().filter(|span| span.name == name);
        assert!(
            found.any(|span| span.within.iter().any(|around| around == outer)),
            "no {name} in {outer}"
        );
    }
    for name in ["attention", "MLP"] {
        let mut found = traced.all().filter(|span| span.name == name);
        assert!(
            found.any(|span| span.within.last().is_some_and(|around| around == "decode")),
            "no {name}"
        );
    }
    // The phases of the step are what it consists of, and as long as timings.jsonl says.
    let parts: Vec<&Span> = traced.all().filter(|span| span.within == ["step"]).collect();
    let sum: f64 = parts.iter().map(|span| span.took).sum();
    assert!(sum <= step.took + ROUNDED && sum > 0.5 * step.took, "{sum} of {}", step.took);
    let timings = fs::read_to_string(bench.out("traced").join("timings.jsonl")).unwrap();
    let timings: Vec<Value> =
        timings.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let timings = timings.iter().find(|line| line["step"] == 2).unwrap();
    for phase in ["rollout", "update", "optimizer", "eval"] {
        let traced: f64 =
            traced.all().filter(|span| span.name == phase).map(|span| span.took).sum();
        let timed = 1e6 * timings[format!("time/{phase}_s")].as_f64().unwrap();
        // The two look at the clock one after the other, and a busy machine may take the processor
        // away in between.
        assert!((traced - timed).abs() < 0.25 * timed + 5e4, "{phase}: {traced} and {timed} us");
    }
    // Counters.
    let counters =
        traced.file["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "C");
    let names: BTreeSet<&str> = counters.map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["free cache pages", "live sequences"]));

    // Every name is explained.
    let page = all_pages();
    let names: BTreeSet<&str> = traced.all().map(|span| span.name.as_str()).chain(names).collect();
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "no page says what {name} is");
    }
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "deep: trains whole models on the emulated GPU"]
fn a_traced_step_shows_what_a_gpu_is_asked_and_does() {
    let bench = Bench::train();
    let sets = format!("{SMALL} run.steps=2 eval.every=0");
    let plain = bench.run("plain", &sets, "");
    let file = bench.scratch.path("trace.json");
    let flags = format!("--device cuda --trace {file} --trace-step 1");
    succeed(bench.emulated("traced", &sets, &flags));
    assert_same_results(&plain, &bench.out("traced"));

    let traced = read(Path::new(&file));
    assert_eq!(traced.only("step").arguments["number"], 1);
    let device = traced.thread("device: emulated sm_90");
    assert!(
        device.iter().all(|span| span.kind == "device" && span.within.is_empty()),
        "they overlap"
    );
    // Each kernel has run here in the call that asked for it, which names it where it is a launch.
    let mut calls: Vec<&Span> = traced.all().filter(|span| span.kind == "call").collect();
    calls.sort_by(|a, b| a.began.total_cmp(&b.began));
    let kernels: Vec<&Span> =
        device.iter().filter(|span| span.arguments["bytes"].is_null()).collect();
    assert!(kernels.len() > 500, "{}", kernels.len());
    for kernel in kernels {
        let call = calls[calls.partition_point(|call| call.began <= kernel.began) - 1];
        assert!(
            kernel.ended() <= call.ended() + ROUNDED,
            "{} is not in {}",
            kernel.name,
            call.name
        );
        if call.name == "launch" {
            assert_eq!(call.arguments["kernel"], kernel.name.as_str());
        }
    }
    // No round trip for a token that is drawn: what was drawn is on its way to the host while the
    // next step is asked for.
    let phases = |name| traced.all().filter(move |span| span.name == name && span.kind == "phase");
    for (phase, call) in [("draw", "fetch"), ("read draws", "fetched")] {
        for around in phases(phase) {
            let within = |span: &&Span| {
                span.name == call
                    && span.kind == "call"
                    && span.began >= around.began
                    && span.ended() <= around.ended()
            };
            assert_eq!(traced.all().filter(within).count(), 1, "{phase} without a {call}");
        }
    }
    let in_decoding =
        |span: &&Span| span.kind == "call" && span.within.iter().any(|around| around == "decode");
    assert!(
        traced
            .all()
            .filter(in_decoding)
            .all(|span| span.name != "download" && span.name != "fetched")
    );
    assert!(phases("draw").count() > 10 && phases("read draws").count() > 10);
    // How steps of decoding were launched, at the end of the step as the manifest has it of the
    // run.
    let manifest = json_of(&bench.out("traced").join("manifest.json"));
    let steps = &manifest["device"]["decoding_steps"];
    let page = all_pages();
    for (counter, key) in [
        ("steps captured", "captured"),
        ("steps launched as one", "launched_as_one"),
        ("steps launched one by one", "launched_one_by_one"),
    ] {
        let values: Vec<u64> = traced.counter(counter);
        assert!(
            values.is_sorted() && values.last().is_some_and(|last| *last > 0),
            "{counter}: {values:?}"
        );
        assert!(*values.last().unwrap() <= steps[key].as_u64().unwrap(), "{counter}: {steps}");
        assert!(page.contains(&format!("`{counter}`")), "no page says what {counter} is");
    }
    let replays =
        traced.all().filter(|span| span.name == "replay" && span.kind == "call").count() as u64;
    assert_eq!(
        traced.counter("steps launched as one").last(),
        Some(&replays),
        "from the first step on"
    );
    assert_eq!(steps["refused"], Value::Null);
    let calls: BTreeSet<&str> =
        traced.all().filter(|span| span.kind == "call").map(|span| span.name.as_str()).collect();
    for name in calls {
        assert!(page.contains(&format!("`{name}`")), "no page says what {name} is");
    }
}

#[test]
fn a_trace_that_cannot_be_is_refused_before_the_run_begins() {
    let bench = Bench::train();
    let good = bench.scratch.path("trace.json");
    for (flags, why) in [
        ("--trace no/trace.json".to_owned(), "no/trace.json"),
        ("--trace .".into(), "is a directory"),
        (format!("--trace {good} --trace-step 9"), "--trace-step is 9, and the run has 3 steps"),
        (format!("--trace {good} --dry-run"), "--dry-run"),
    ] {
        let (output, said) = outcome(bench.command("out", SMALL, &flags));
        assert!(!output.status.success() && said.contains(why), "{flags}: {said}");
    }
    assert!(!bench.out("out").exists() && !Path::new(&good).exists());
    // A step that is not made is missed.
    bench.copy_of_run("made", "run.steps=1");
    let flags = format!("--resume --trace {good}");
    let (_, said) = spoken(bench.command("made", "run.steps=1", flags));
    assert!(said.contains("there is no trace in") && !Path::new(&good).exists(), "{said}");
}

/// Asked to end in the step that is traced, the run ends after it, with the trace of the whole
/// step.
#[cfg(unix)]
#[test]
fn a_run_that_is_interrupted_leaves_a_whole_trace_or_none() {
    let bench = Bench::train();
    let file = bench.scratch.path("trace.json");
    let sets = format!("{SMALL} run.steps=500");
    let mut child = start(bench.command("out", sets, format!("--trace {file}")));
    until_reached(&mut child, || lines(&bench.out("out")) >= 2);
    send("INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    if Path::new(&file).exists() {
        assert_eq!(read(Path::new(&file)).only("step").arguments["number"], 2);
    }
    let left = fs::read_dir(bench.scratch.path("")).unwrap().flatten();
    assert!(
        left.into_iter()
            .all(|entry| !entry.file_name().to_string_lossy().starts_with(".isentrope"))
    );
}

#[test]
fn a_command_that_samples_is_traced_as_a_whole() {
    let scratch = Scratch::new();
    let prompts = scratch.lines("prompts.jsonl", &[serde_json::json!({"tokens": [3, 4, 5]})]);
    let (model, file) = (token_model("qwen3"), scratch.path("trace.json"));
    let generate = format!("generate {model} --prompts {prompts} --max-tokens 5 --ignore-eos");
    let (printed, said) = spoken(isentrope(format!("{generate} --trace {file}")));
    assert_eq!(spoken(isentrope(generate)).0, printed);
    assert!(said.contains("the trace of what was sampled"), "{said}");
    let traced = read(Path::new(&file));
    let passes = traced.all().map(|span| &span.name[..]);
    let passes: Vec<&str> = passes.filter(|name| ["prefill", "decode"].contains(name)).collect();
    assert_eq!(passes, ["prefill", "decode", "decode", "decode", "decode"]);
}

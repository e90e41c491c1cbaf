//! `--trace`: what a traced step shows, and that nothing depends on it. `crates/base/trace` tests
//! how spans are recorded.

use crate::program::{all_pages, json_of, outcome, spoken};
use crate::training::{Bench, assert_same_results};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Microseconds within which times agree that were rounded.
const ROUNDED: f64 = 0.01;

const SMALL: &str =
    "run.steps=3 eval.problems=2 eval.samples=1 checkpoint.every=1 checkpoint.keep=9";

/// The events of a trace.
struct Trace(Vec<Value>);

impl Trace {
    fn read(path: &str) -> Self {
        Self(json_of(Path::new(path))["traceEvents"].as_array().unwrap().clone())
    }

    /// Events of a phase: "X" is a span, "C" a counter.
    fn of_phase(&self, phase: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |event| event["ph"] == phase)
    }

    fn spans(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.of_phase("X").filter(move |span| span["name"] == name)
    }

    /// Some span of this name lies in one of the other name, on the same thread.
    fn assert_within(&self, name: &str, outer: &str) {
        let is_in = |span: &Value, outer: &Value| {
            let ((from, to), (begins, ends)) = (times(span), times(outer));
            span["tid"] == outer["tid"] && begins - ROUNDED <= from && to <= ends + ROUNDED
        };
        let is_within = |span: &Value| self.spans(outer).any(|outer| is_in(span, outer));
        assert!(self.spans(name).any(is_within), "no {name} in {outer}");
    }

    /// A page explains the name of every event.
    fn assert_documented(&self) {
        let page = all_pages();
        let events = self.of_phase("X").chain(self.of_phase("C"));
        let named = events.filter(|event| event["cat"] != "device");
        for name in named.map(|event| event["name"].as_str().unwrap()).collect::<BTreeSet<_>>() {
            assert!(page.contains(&format!("`{name}`")), "no page says what {name} is");
        }
    }
}

/// When a span begins and ends.
fn times(span: &Value) -> (f64, f64) {
    let begin = span["ts"].as_f64().unwrap();
    (begin, begin + span["dur"].as_f64().unwrap())
}

#[test]
fn a_traced_step_shows_its_phases_and_changes_nothing() {
    let bench = Bench::train();
    let plain = bench.run("plain", SMALL, "");
    let file = bench.scratch.path("trace.json");
    let (_, said) = spoken(bench.command("traced", SMALL, format!("--trace {file}")));
    assert_same_results(&plain, &bench.out("traced"));
    assert!(said.contains("the trace of step 2") && said.contains("trace.json"), "{said}");
    let trace = Trace::read(&file);
    let steps: Vec<&Value> = trace.spans("step").collect();
    assert!(steps.len() == 1 && steps[0]["args"]["number"] == 2, "{steps:?}");
    for (name, outer) in [
        ("rollout", "step"),
        ("prefill", "rollout"),
        ("draw", "rollout"),
        ("verify", "rollout"),
        ("minibatch", "step"),
        ("update", "minibatch"),
        ("loss", "update"),
        ("micro-batch", "update"),
        ("backward", "micro-batch"),
        ("MLP backward", "backward"),
        ("optimizer", "minibatch"),
        ("AdamW", "optimizer"),
        ("eval", "step"),
        ("decode", "eval"),
        ("attention", "decode"),
        ("checkpoint", "step"),
    ] {
        trace.assert_within(name, outer);
    }
    let counters = trace.of_phase("C").map(|event| event["name"].as_str().unwrap());
    let counters: BTreeSet<&str> = counters.collect();
    assert_eq!(counters, BTreeSet::from(["free cache pages", "live sequences"]));
    trace.assert_documented();
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
    crate::training::succeed(bench.emulated("traced", &sets, &flags));
    assert_same_results(&plain, &bench.out("traced"));
    let trace = Trace::read(&file);
    trace.assert_documented();
    // The device does one thing after the other.
    let of_device = trace.of_phase("X").filter(|span| span["cat"] == "device");
    let mut of_device: Vec<(f64, f64)> = of_device.map(times).collect();
    of_device.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(of_device.len() > 500, "{}", of_device.len());
    assert!(of_device.windows(2).all(|pair| pair[0].1 <= pair[1].0 + ROUNDED), "they overlap");
    // Drawn tokens are on their way to the host while the next step is asked for.
    trace.assert_within("fetch", "draw");
    trace.assert_within("fetched", "read draws");
    // How decoding steps were launched, as the manifest has it of the whole run.
    let manifest = json_of(&bench.out("traced").join("manifest.json"));
    let steps = &manifest["device"]["decoding_steps"];
    for (counter, key) in [
        ("steps captured", "captured"),
        ("steps launched as one", "launched_as_one"),
        ("steps launched one by one", "launched_one_by_one"),
    ] {
        let of_counter = trace.of_phase("C").filter(|event| event["name"] == counter);
        let last = of_counter.last().unwrap()["args"]["value"].as_u64().unwrap();
        assert!(0 < last && last <= steps[key].as_u64().unwrap(), "{counter}: {steps}");
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

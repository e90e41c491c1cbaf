//! Workers with real jails and a real Python.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use isentrope_sandbox::Sandbox;
use serde_json::{Value, json};

use super::{AssertionTest, End, Failure, RunLimits, Worker, WorkerLimits};
use crate::Python;

pub(super) fn limits() -> RunLimits {
    RunLimits { wall: Duration::from_secs(10), memory_bytes: 512 << 20, output_bytes: 1 << 20 }
}

pub(super) fn worker() -> Worker {
    let limits = WorkerLimits { memory_bytes: 1 << 30, temporary_bytes: 16 << 20, processes: 32 };
    Worker::start(&Sandbox::find().unwrap(), &Python::find(None).unwrap(), limits).unwrap()
}

fn calls(
    worker: &mut Worker,
    program: &str,
    function: &str,
    arguments: &[Vec<Value>],
) -> Vec<Result<Value, End>> {
    let mut results = Vec::new();
    worker.calls(program, function, arguments, &limits(), &mut |call, result| {
        assert_eq!(call, results.len());
        results.push(result);
        ControlFlow::Continue(())
    });
    results
}

fn assertions(worker: &mut Worker, program: &str, test: &AssertionTest) -> Vec<Result<(), Failure>> {
    let mut results = Vec::new();
    worker.assertions(program, test, &limits(), &mut |result| {
        results.push(result);
        ControlFlow::Continue(())
    });
    results
}

#[test]
fn scratch() {
    let t = Instant::now();
    let mut w = worker();
    eprintln!("start {:?}", t.elapsed());
    for _ in 0..(std::env::var("N").map_or(3, |n| n.parse().unwrap())) {
        let t = Instant::now();
        eprintln!("{:?}", w.script("print(input()*2)", "ab\n", &limits()));
        eprintln!("script {:?}", t.elapsed());
    }
    eprintln!(
        "{:?}",
        calls(&mut w, "def f(a,b): return (a,b)", "f", &[vec![json!(1), json!([2])], vec![json!(2)]])
    );
    let test = AssertionTest {
        parts: vec!["assert f(1) == 2".into(), "assert f(2) == 4".into()],
        ..Default::default()
    };
    for _ in 0..3 {
        let t = Instant::now();
        eprintln!("{:?}", assertions(&mut w, "def f(x): return x + 1", &test));
        eprintln!("assertions {:?}", t.elapsed());
    }
}

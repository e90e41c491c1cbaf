//! Programs as functions that are called.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::Runner;
use super::{End, RunLimits, error, limits, shared};

#[test]
fn values_are_those_of_json() {
    let program = r#"
from collections import *
def f(x): return x
def g(): return (1, [2.5, (None,)], {1: True, (2, 'x'): None, 'a': {'b'}})
def big(): return [2 ** 64 - 1, 2 ** 64]
def h(): return Counter('aab'), deque([1]), OrderedDict(a=1), float('nan')
"#;
    let mut worker = shared();
    for given in [
        json!({"a": [1, 2.5, null, true, "é\u{1f600}"], "b": {}}),
        json!([[], [[]]]),
        json!(u64::MAX),
    ] {
        assert_eq!(worker.all_calls(program, "f", &[vec![given.clone()]]), [Ok(given)]);
    }
    let unknown = |kind: &str| json!({"a value of Python": kind});
    let derived = "from enum import IntEnum\nfrom typing import NamedTuple\nclass Level(IntEnum): LOW = 1\n\
                   class Point(NamedTuple):\n    x: int\n    y: int\n    def sum(self): return self.x + self.y\n\
                   def f(): return [Level.LOW, Point(2, Level.LOW)]";
    for (program, function, value) in [
        (
            program,
            "g",
            json!([1, [2.5, [null]], {"1": true, "[2,\"x\"]": null, "a": unknown("set")}]),
        ),
        (program, "big", json!([u64::MAX, unknown("int")])),
        (program, "h", json!([{"a": 2, "b": 1}, unknown("deque"), {"a": 1}, unknown("float")])),
        (derived, "f", json!([1, [2, 1]])),
        ("from builtins import list as f", "f", json!([])),
    ] {
        assert_eq!(worker.all_calls(program, function, &[vec![]]), [Ok(value)], "{function}");
    }
    // Objects of whole numbers are dicts of whole numbers.
    let whole = json!({"1": 0, "20": 0});
    assert_eq!(worker.all_calls("def f(d): return sum(d)", "f", &[vec![whole]]), [Ok(json!(21))]);
}

#[test]
fn functions_are_found_where_sets_have_them() {
    let program = r#"
class Solution:
    def __init__(self): self.n = 0
    def f(self, a, b=1):
        self.n += 1
        return a + b
class Other:
    def f(self): return self.g
    g = 5
def plain(): return Other().f()
print('noise')
"#;
    let mut worker = shared();
    for (function, arguments, value) in [
        ("f", vec![json!(1), json!(2)], json!(3)),
        ("Solution.f", vec![json!(1)], json!(2)),
        ("Other.f", vec![], json!(5)),
        ("plain", vec![], json!(5)),
    ] {
        assert_eq!(worker.all_calls(program, function, &[arguments]), [Ok(value)], "{function}");
    }
    let undefined = Err(error("NameError: name 'f' is not defined"));
    assert_eq!(worker.all_calls("x = 1", "f", &[vec![]]), [undefined]);
}

/// A name that is in scope anyway was not written by the program, and hides no method.
#[test]
fn a_function_is_the_program_s_own() {
    let mut worker = shared();
    let two = &[vec![json!(12), json!(18)]];
    for program in ["pass", "from math import *", "gcd = gcd", "from builtins import *"] {
        for function in ["gcd", "pow"] {
            let undefined = Err(error(&format!("NameError: name '{function}' is not defined")));
            let program = program.replace("gcd", function);
            assert_eq!(worker.all_calls(&program, function, two), [undefined], "{program}");
        }
    }
    for program in [
        "import math\ndef gcd(a, b): return math.gcd(a, b)",
        "class Solution:\n    def gcd(self, a, b): return 6",
    ] {
        assert_eq!(worker.all_calls(program, "gcd", two), [Ok(json!(6))], "{program}");
    }
}

#[test]
fn a_call_that_fails_leaves_the_others() {
    let program = r#"
import os, sys, time
n = 0
def f(how):
    global n
    n += 1
    print('x' * 10 ** 6)
    if how == 'exit': os._exit(0)
    if how == 'kill': os.kill(os.getpid(), 11)
    if how == 'sleep': time.sleep(60)
    if how == 'large': return 'x' * (8 << 20)
    if how == 'memory': return 'x' * 10 ** 12
    if how == 'leave': sys.exit()
    if how == 'raise': raise KeyError(how)
    if how == 'object': return object()
    if how == 'cycle':
        a = []
        a.append(a)
        return a
    return n
"#;
    let hows = [
        "", "raise", "", "exit", "", "kill", "sleep", "", "large", "memory", "", "leave", "cycle",
        "",
    ];
    let arguments: Vec<Vec<Value>> = hows.iter().map(|how| vec![json!(how)]).collect();
    let limits = RunLimits { wall: Duration::from_millis(1500), ..limits() };
    let mut results = Vec::new();
    shared().calls(program, "f", &arguments, &limits, &mut |_, result| {
        results.push(result);
        ControlFlow::Continue(())
    });
    let expected = [
        Ok(json!(1)),
        Err(error("KeyError: 'raise'")),
        Ok(json!(3)),
        Err(error("it ended itself in the middle of a call")),
        Ok(json!(1)), // in a process of its own
        Err(error("it died of SIGSEGV, as from recursion that is too deep")),
        Err(End::TimeLimit),
        Ok(json!(1)),
        Err(End::OutputLimit),
        Err(End::MemoryLimit),
        Ok(json!(4)), // neither has ended the process
        Err(error("SystemExit")),
        Err(error("what it returned cannot be read: it is nested too deep, or holds itself")),
        Ok(json!(7)),
    ];
    for ((how, result), expected) in hows.iter().zip(&results).zip(&expected) {
        assert_eq!(result, expected, "{how}");
    }
    assert_eq!(results.len(), expected.len());
}

#[test]
fn a_program_that_does_not_load_fails_at_every_call() {
    let mut worker = shared();
    let none = [vec![], vec![]];
    for (program, end) in [
        ("import no_such_module", error("ModuleNotFoundError: No module named 'no_such_module'")),
        ("def f(:", error("SyntaxError: invalid syntax")),
        ("input()", error("EOFError: EOF when reading a line")),
        ("x = 'x' * 10 ** 12", End::MemoryLimit),
        ("import os; os._exit(0)", error("it ended itself in the middle of a call")),
    ] {
        let ends = [Err(end.clone()), Err(end)];
        assert_eq!(worker.all_calls(program, "f", &none), ends, "{program}");
    }
}

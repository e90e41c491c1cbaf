//! Assertion code of data sets.

use std::ops::ControlFlow;
use std::time::Duration;

use super::super::Runner;
use super::{AssertionTest, End, Failure, Found, RunLimits, error, limits, shared};

/// The expected result of a unit: a pass, or a kind of failure and how its text begins.
type Expected = Option<(&'static str, &'static str)>;

struct Case {
    name: &'static str,
    program: String,
    test: AssertionTest,
    expected: Vec<Expected>,
}

/// The cases of a fixture, whose head says how it is written.
fn cases(text: &'static str) -> Vec<Case> {
    text.split("\n== ").skip(1).map(case).collect()
}

fn case(text: &'static str) -> Case {
    let (name, body) = text.split_once('\n').unwrap();
    let mut case =
        Case { name, program: String::new(), test: AssertionTest::default(), expected: Vec::new() };
    for block in format!("\n{body}").leak().split("\n-- ").skip(1) {
        let (head, code) = block.split_once('\n').unwrap_or((block, ""));
        let (directive, rest) = head.split_once(' ').unwrap_or((head, ""));
        match directive {
            "program" => case.program = code.into(),
            "preamble" => case.test.preamble = code.into(),
            "setup" => case.test.setup = code.into(),
            "part" => case.test.parts.push(code.into()),
            "entry" => case.test.entry_point = Some(rest.into()),
            "ok" => case.expected.push(None),
            kind => case.expected.push(Some((kind, rest))),
        }
    }
    case
}

fn is_as_expected(result: &Result<(), Failure>, expected: Expected) -> bool {
    match (result, expected) {
        (Ok(()), None) => true,
        (Err(Failure::Assertion(text)), Some(("assertion", begin))) => text.starts_with(begin),
        (Err(Failure::Ended(End::RuntimeError(text))), Some(("error", begin))) => {
            text.starts_with(begin)
        }
        (Err(Failure::Test(text)), Some(("test", begin))) => text.starts_with(begin),
        _ => false,
    }
}

#[test]
fn every_form_of_assertion_code_is_judged() {
    let cases = cases(include_str!("../../../tests/fixtures/assertion_cases.txt"));
    assert!(cases.len() > 50, "{}", cases.len());
    judge(cases);
}

#[test]
fn programs_are_believed_where_a_test_leaves_it_to_them_alone() {
    judge(cases(include_str!("../../../tests/fixtures/believed_cases.txt")));
}

fn judge(cases: Vec<Case>) {
    let mut worker = shared();
    let mut wrong = Vec::new();
    for Case { name, program, test, expected } in cases {
        let results = worker.units(&program, &test, &limits());
        let agree = results
            .iter()
            .zip(&expected)
            .all(|(result, expected)| is_as_expected(result, *expected));
        if !agree || results.len() != expected.len() {
            wrong.push(format!("{name}: {results:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An object that would like to pass for whatever it is compared with.
const PRETENDER: &str = "class Pretender(BASE):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 5
    def __sub__(self, other): return 0
    __rsub__ = __sub__
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __abs__(self): return self
    def __contains__(self, item): return True
    def __bool__(self): return True
    def __round__(self, digits=0): return self
    def __float__(self): return Pretender()
    def __index__(self): return Pretender()
    def __str__(self): return Pretender()
    __class__ = property(lambda self: int)
    def __getattr__(self, name): return lambda *_, **__: True
# Of types that have a value beside what the class says, one that no condition is true of.
VALUES = {int: (9,), float: (9.5,), str: ('xyz',), tuple: ((9, 8),)}
def make(): return BASE.__new__(Pretender, *VALUES.get(BASE, ()))
def f(x): return make()
class Solution:
    f = lambda self, x: make()
";

#[test]
fn no_object_passes_for_a_value() {
    let conditions = "
        f(1) == 5;5 == f(1);not f(1) != 5;f(1) == None;f(1) == True;f(1) is True;f(1) == 'abc';f(1).__eq__(5) is True;
        abs(f(1) - 3.1) < 1e-6;abs(3.1 - f(1)) < 1e-6;f(1) - 3 == 0;f(1) < 5;5 > f(1);f(1) % 7 == 5;f(1) + 0 == 5;
        f(1) in (5, 6);f(1) in {5};5 in f(1);[f(1)] == [5];(f(1),) == (5,);{'a': f(1)} == {'a': 5};{f(1): 5} == {5: 5};
        round(f(1), 2) == 3.14;isinstance(f(1), int);Solution().f(1) == 4;abs(Solution().f(1) - 4) < 1;divmod(f(1), 3) == (1, 2);
        max(f(1), 5) == 5;sorted([f(1), 5]) == [5, 5];sum([f(1)]) == 5;set(f(1)) == {5};list(f(1)) == [1, 2];dict(f(1)) == {1: 2};
        __import__('math').isclose(f(1), 5);__import__('pytest').approx(5) == f(1);f(1) == __import__('pytest').approx(5);
        f(1) == __import__('decimal').Decimal(5);__import__('fractions').Fraction(5) == f(1);len({f(1), 5}) == 1;
        all(a == b for a, b in zip([f(1)], [5]));{5: 1}[f(1)] == 1;[1, 2, 3].index(f(1)) == 4;[3, 5].count(f(1)) == 1;
        bytes(f(1)) == b'5';        int(f(1)) == 5;str(f(1)) == '5';'%s' % f(1) == '5';f'{f(1)}' == '5';
        range(9)[f(1)] == 5;f(1)[:1] == 'a'
    ";
    let parts: Vec<String> =
        conditions.split(';').map(|condition| format!("assert {}", condition.trim())).collect();
    let test = AssertionTest { parts, ..AssertionTest::default() };
    let mut worker = shared();
    for base in ["object", "int", "str", "list", "dict", "float", "tuple"] {
        let units = worker.units(&PRETENDER.replace("BASE", base), &test, &limits());
        assert_eq!(units.len(), test.parts.len());
        for (unit, part) in units.iter().zip(&test.parts) {
            let is_true = base == "int" && part.ends_with("isinstance(f(1), int)"); // as in any Python
            assert_eq!(unit.is_ok(), is_true, "a subclass of {base:?}: {part}");
        }
    }
}

#[test]
fn a_program_hears_of_nothing_that_it_is_compared_with() {
    // Whatever reaches the program is printed into its own answers: the test sees the program's
    // whole diary.
    let program = r#"
heard = []
class A:
    pass
def f(): return A()
def diary(): return heard
names = ('eq ne lt le gt ge add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod divmod rdivmod pow contains '
         'and rand xor rxor or ror matmul rmatmul lshift rshift round format').split()
for name in names:
    def method(self, *others, name=name):
        heard.append((name, others))
        return NotImplemented
    setattr(A, '__%s__' % name, method)
"#;
    let part = r#"
attempts = (
    lambda: f() == 77, lambda: 77 == f(), lambda: f() - 77, lambda: 77 - f(), lambda: f() < 77, lambda: f() >= 77,
    lambda: 77 in f(), lambda: f() in [77], lambda: abs(f() - 77) < 1, lambda: f() % 77, lambda: f() == [77], lambda: [77] == f(),
    lambda: f() != 'expected', lambda: divmod(77, f()), lambda: sorted([77, f()]), lambda: max(77, f()), lambda: sum([f()], 77),
    lambda: f() in {77}, lambda: {77: 1}[f()], lambda: [f()].count(77), lambda: {f(): 1} == {77: 1}, lambda: (f(), 1) < (77, 1),
)
for attempt in attempts:
    try:
        attempt()
    except (TypeError, KeyError):
        pass
assert '77' not in str(diary()) and 'expected' not in str(diary()), diary()
"#;
    assert_eq!(shared().unit(program, part), Ok(()));
}

#[test]
fn units_after_one_that_kills_the_program_are_judged() {
    let program = "import os, time\ndef f(x):\n    if x == 2: os._exit(0)\n    if x == 4: time.sleep(60)\n    return x\n";
    let part = |x: i32, y: i32| format!("assert f({x}) == {y}");
    let functions = r#"
from solution import f
def test_a(): assert f(1) == 1
def test_b(): assert f(2) == 2
def test_c(): assert f(3) == 3
"#;
    let test = AssertionTest {
        setup: "offset = 1\n".into(),
        parts: vec![
            part(1, 1),
            part(2, 2),
            part(3, 3),
            functions.into(),
            part(4, 4),
            part(5, 6),
            "assert f(5) == 4 + offset".into(),
        ],
        ..AssertionTest::default()
    };
    let limits = RunLimits { wall: Duration::from_secs(1), ..limits() };
    let ended = || Err(Failure::Ended(error("it ended itself in the middle of a call")));
    let expected = [
        Ok(()),
        ended(),
        Ok(()),
        Ok(()),
        ended(),
        Ok(()),
        Err(Failure::Ended(End::TimeLimit)),
        Err(Failure::Assertion("assert f(5) == 6".into())),
        Ok(()),
    ];
    let mut worker = shared();
    assert_eq!(worker.units(program, &test, &limits), expected);
    // The same, up to the first failure.
    let mut seen = Vec::new();
    worker.assertions(program, &test, &limits, &mut |found| {
        let Found::Unit(unit) = found else { return ControlFlow::Continue(()) };
        let flow = if unit.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        seen.push(unit);
        flow
    });
    assert_eq!(seen, expected[..2]);
    assert_eq!(worker.units(program, &AssertionTest::default(), &limits).len(), 1);
}

#[test]
fn limits_hold_for_assertions() {
    let mut worker = shared();
    for (program, expected) in [
        ("def f(x): return 'x' * 10 ** 12", End::MemoryLimit),
        ("def f(x): return 'x' * (2 << 20)", End::OutputLimit),
        ("def f(x):\n    while True: pass", End::TimeLimit),
        ("def f(x):\n    yield 1\n    while True: pass", End::TimeLimit),
        ("while True: pass", End::TimeLimit),
    ] {
        let wall = Duration::from_millis(if expected == End::TimeLimit { 500 } else { 20_000 });
        let limits = RunLimits { wall, memory_bytes: 256 << 20, output_bytes: 1 << 20, ..limits() };
        let test =
            AssertionTest { parts: vec!["for x in f(1): pass".into()], ..AssertionTest::default() };
        let units = worker.units(program, &test, &limits);
        let [Err(Failure::Ended(end))] = &units[..] else { panic!("{program}: {units:?}") };
        assert_eq!(*end, expected, "{program}");
    }
}

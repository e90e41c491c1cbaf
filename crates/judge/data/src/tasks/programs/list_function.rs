//! Functions of a list of numbers, with a line of Python per step.

use serde_json::Value;

use super::LARGEST;
use crate::tasks::Stream;

/// A step from one list to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    KeepEven,
    KeepOdd,
    KeepOver(i64),
    KeepUnder(i64),
    Add(i64),
    Subtract(i64),
    Multiply(i64),
    Square,
    Negate,
    Sort,
    Reverse,
    First(usize),
    Skip(usize),
}

/// Result that is made of the last list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    List,
    Sum,
    Count,
    /// The largest number, or 0 of an empty list.
    Largest,
}

/// A function of the list `x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListFunction {
    steps: Vec<Step>,
    outcome: Outcome,
}

impl Step {
    fn draw(stream: &mut Stream) -> Self {
        let number = |stream: &mut Stream| 2 + stream.below(8) as i64;
        match stream.below(13) {
            0 => Self::KeepEven,
            1 => Self::KeepOdd,
            2 => Self::KeepOver(number(stream)),
            3 => Self::KeepUnder(number(stream)),
            4 => Self::Add(number(stream)),
            5 => Self::Subtract(number(stream)),
            6 => Self::Multiply(number(stream)),
            7 => Self::Square,
            8 => Self::Negate,
            9 => Self::Sort,
            10 => Self::Reverse,
            11 => Self::First(2 + stream.below(3) as usize),
            _ => Self::Skip(1 + stream.below(3) as usize),
        }
    }

    fn words(self) -> String {
        match self {
            Self::KeepEven => "keep even".into(),
            Self::KeepOdd => "keep odd".into(),
            Self::KeepOver(n) => format!("keep over {n}"),
            Self::KeepUnder(n) => format!("keep under {n}"),
            Self::Add(n) => format!("add {n}"),
            Self::Subtract(n) => format!("subtract {n}"),
            Self::Multiply(n) => format!("multiply by {n}"),
            Self::Square => "square".into(),
            Self::Negate => "negate".into(),
            Self::Sort => "sort".into(),
            Self::Reverse => "reverse".into(),
            Self::First(n) => format!("first {n}"),
            Self::Skip(n) => format!("skip {n}"),
        }
    }

    fn apply(self, mut list: Vec<i64>) -> Vec<i64> {
        match self {
            Self::KeepEven => list.retain(|v| v % 2 == 0),
            Self::KeepOdd => list.retain(|v| v % 2 != 0),
            Self::KeepOver(n) => list.retain(|&v| v > n),
            Self::KeepUnder(n) => list.retain(|&v| v < n),
            Self::Add(n) => list.iter_mut().for_each(|v| *v += n),
            Self::Subtract(n) => list.iter_mut().for_each(|v| *v -= n),
            Self::Multiply(n) => list.iter_mut().for_each(|v| *v *= n),
            Self::Square => list.iter_mut().for_each(|v| *v *= *v),
            Self::Negate => list.iter_mut().for_each(|v| *v = -*v),
            Self::Sort => list.sort_unstable(),
            Self::Reverse => list.reverse(),
            Self::First(n) => list.truncate(n),
            Self::Skip(n) => drop(list.drain(..n.min(list.len()))),
        }
        list
    }

    /// The line's right-hand side, in one of its spellings.
    fn python(self, stream: &mut Stream) -> String {
        let one = |a: &str, b: &str, stream: &mut Stream| {
            if stream.below(2) == 0 { a } else { b }.to_owned()
        };
        let keep = |condition: String| format!("[v for v in x if {condition}]");
        let each = |value: String| format!("[{value} for v in x]");
        match self {
            Self::KeepEven => keep(one("v%2==0", "not v%2", stream)),
            Self::KeepOdd => keep(one("v%2==1", "v%2", stream)),
            Self::KeepOver(n) => keep(one(&format!("v>{n}"), &format!("{n}<v"), stream)),
            Self::KeepUnder(n) => keep(one(&format!("v<{n}"), &format!("{n}>v"), stream)),
            Self::Add(n) => each(one(&format!("v+{n}"), &format!("{n}+v"), stream)),
            Self::Subtract(n) => each(format!("v-{n}")),
            Self::Multiply(n) => each(one(&format!("v*{n}"), &format!("{n}*v"), stream)),
            Self::Square => each(one("v*v", "v**2", stream)),
            Self::Negate => each("-v".into()),
            Self::Sort => "sorted(x)".into(),
            Self::Reverse => one("x[::-1]", "list(reversed(x))", stream),
            Self::First(n) => format!("x[:{n}]"),
            Self::Skip(n) => format!("x[{n}:]"),
        }
    }
}

impl Outcome {
    fn draw(stream: &mut Stream) -> Self {
        match stream.below(4) {
            0 => Self::List,
            1 => Self::Sum,
            2 => Self::Count,
            _ => Self::Largest,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::List => "",
            Self::Sum => ", sum",
            Self::Count => ", count",
            Self::Largest => ", largest",
        }
    }

    fn python(self) -> &'static str {
        match self {
            Self::List => "x",
            Self::Sum => "sum(x)",
            Self::Count => "len(x)",
            Self::Largest => "max(x,default=0)",
        }
    }
}

impl ListFunction {
    /// A random function of `steps` steps.
    pub(super) fn draw(steps: usize, stream: &mut Stream) -> Self {
        Self {
            steps: (0..steps).map(|_| Step::draw(stream)).collect(),
            outcome: Outcome::draw(stream),
        }
    }

    /// The description in the problem.
    pub(super) fn words(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(|step| step.words()).collect();
        format!("f(x): {}{}", steps.join(", "), self.outcome.words())
    }

    /// A program that computes it.
    pub(super) fn python(&self, stream: &mut Stream) -> String {
        let mut program = "def f(x):\n".to_owned();
        for step in &self.steps {
            program += &format!(" x={}\n", step.python(stream));
        }
        program + " return " + self.outcome.python()
    }

    /// The result, unless numbers grow too large.
    pub(super) fn call(&self, list: &[i64]) -> Option<Value> {
        let list = self.steps.iter().fold(list.to_vec(), |list, step| step.apply(list));
        list.iter().all(|v| v.abs() <= LARGEST).then(|| match self.outcome {
            Outcome::List => list.into(),
            Outcome::Sum => list.iter().sum::<i64>().into(),
            Outcome::Count => list.len().into(),
            Outcome::Largest => list.into_iter().max().unwrap_or(0).into(),
        })
    }

    /// A copy with another step or outcome in place of each for which `is_mistaken` is true.
    pub(super) fn mistaken(
        &self,
        stream: &mut Stream,
        is_mistaken: impl Fn(&mut Stream) -> bool,
    ) -> Self {
        let step = |&step: &Step| if is_mistaken(stream) { Step::draw(stream) } else { step };
        let steps = self.steps.iter().map(step).collect();
        let outcome = if is_mistaken(stream) { Outcome::draw(stream) } else { self.outcome };
        Self { steps, outcome }
    }
}

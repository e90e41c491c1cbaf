//! The built-in task programs: small functions to be written in Python, with tests that are made
//! with them.
//!
//! A problem asks for steps, in words: `# f(x): keep even, add 3, sum` or `# f(a,b): a plus b,
//! squared`. The response is a program that defines the function, such as `def f(a,b):return
//! (a+b)**2`. Any program that returns what the tests expect is right, however it is spelled.
//! Inputs are random; what a function must return for them is computed here, without Python.

mod expression;
mod list_function;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use isentrope_files::sha256;
use isentrope_random::{Draws, Purpose};
use isentrope_reward::VerifierName;
use serde_json::{Value, json};

use super::{EndlessRecords, Stream, Task, TaskKind};
use crate::location::Split;
use crate::{Content, Error, Example, Problem, Prompt, Result, Row};
use expression::Expression;
use list_function::ListFunction;

pub use settings::ProgramsSettings;

/// Largest number that a function returns, as an intermediate result or as a list's element.
const LARGEST: i64 = 999_999;

/// One problem in this many is for test, and never for training.
const TEST_SHARE: u64 = 8;

// Last coordinate of the keys of random numbers.
const TRAIN: u64 = 0;
const TEST: u64 = 1;

/// Worked examples to draw until the tests find the mistakes of one.
const REDRAWS: usize = 32;

/// Generator of problems and worked examples.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    settings: ProgramsSettings,
}

/// A function that a problem asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Function {
    Expression(Expression),
    List(ListFunction),
}

/// The arguments of a call.
type Arguments = Vec<Value>;

/// A function with the calls that test programs, and their results.
struct TestedFunction {
    function: Function,
    inputs: Vec<Arguments>,
    outputs: Vec<Value>,
}

impl Function {
    /// Number of kinds of functions.
    const KINDS: u64 = 2;

    fn draw(kind: u64, steps: usize, stream: &mut Stream) -> Self {
        if kind == 0 {
            Self::Expression(Expression::draw(steps, stream))
        } else {
            Self::List(ListFunction::draw(steps, stream))
        }
    }

    /// The problem's source, by which evaluations divide problems by kind.
    fn kind(&self) -> &'static str {
        match self {
            Self::Expression(_) => "expressions",
            Self::List(_) => "lists",
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Expression(function) => function.words(),
            Self::List(function) => function.words(),
        }
    }

    fn python(&self, stream: &mut Stream) -> String {
        match self {
            Self::Expression(function) => function.python(stream),
            Self::List(function) => function.python(stream),
        }
    }

    fn mistaken(&self, stream: &mut Stream, is_mistaken: impl Fn(&mut Stream) -> bool) -> Self {
        match self {
            Self::Expression(function) => Self::Expression(function.mistaken(stream, is_mistaken)),
            Self::List(function) => Self::List(function.mistaken(stream, is_mistaken)),
        }
    }

    /// Random arguments.
    fn arguments(&self, stream: &mut Stream) -> Arguments {
        let mut number = || stream.below(19) as i64 - 9;
        match self {
            Self::Expression(_) => vec![number().into(), number().into()],
            Self::List(_) => {
                // A list of zero to eight numbers; long lists test more.
                let length = number().unsigned_abs().min(8);
                vec![(0..length).map(|_| number()).collect::<Vec<i64>>().into()]
            }
        }
    }

    /// The result, unless numbers grow too large.
    fn call(&self, arguments: &[Value]) -> Option<Value> {
        let number = |value: &Value| value.as_i64();
        match (self, arguments) {
            (Self::Expression(function), [a, b]) => {
                Some(function.call(number(a)?, number(b)?)?.into())
            }
            (Self::List(function), [Value::Array(list)]) => {
                function.call(&list.iter().map(number).collect::<Option<Vec<i64>>>()?)
            }
            _ => None,
        }
    }

    fn outputs(&self, inputs: &[Arguments]) -> Option<Vec<Value>> {
        inputs.iter().map(|arguments| self.call(arguments)).collect()
    }

    /// Whether the problem is for test, whatever the settings and the seed.
    fn is_for_test(&self) -> bool {
        let hash = sha256(self.words().as_bytes());
        hash.iter()
            .take(8)
            .fold(0, |number, &byte| number << 8 | u64::from(byte))
            .is_multiple_of(TEST_SHARE)
    }
}

impl Programs {
    /// A function of a kind with a number of steps. None if the draw belongs to the other split, or
    /// its results are too large or nearly constant.
    fn draw(
        &self,
        (kind, steps): (u64, usize),
        split: Split,
        stream: &mut Stream,
    ) -> Option<TestedFunction> {
        let function = Function::draw(kind, steps, stream);
        if function.is_for_test() != (split == Split::Test) {
            return None;
        }
        let inputs: Vec<Arguments> =
            (0..self.settings.tests).map(|_| function.arguments(stream)).collect();
        let outputs = function.outputs(&inputs)?;
        let different: HashSet<String> = outputs.iter().map(Value::to_string).collect();
        (different.len() >= outputs.len().div_ceil(2)).then_some(TestedFunction {
            function,
            inputs,
            outputs,
        })
    }

    fn drawn(&self, split: Split, stream: &mut Stream) -> TestedFunction {
        // Whatever the settings, most draws go to training, and most of the rest to the test set.
        loop {
            let kind = stream.below(Function::KINDS);
            let steps =
                self.settings.steps[stream.below(self.settings.steps.len() as u64) as usize];
            if let Some(tested) = self.draw((kind, steps), split, stream) {
                return tested;
            }
        }
    }

    /// The first `n` different test problems. Kinds and sizes take turns, so that each has its
    /// share of any `n`.
    ///
    /// # Errors
    /// [`Error::Setting`] when there are fewer.
    fn test_set(&self, n: usize) -> Result<Vec<Problem>> {
        let steps = &self.settings.steps;
        let mut seen = HashSet::new();
        let mut position = 0;
        let mut problems = Vec::new();
        while problems.len() < n {
            let place = problems.len();
            let turn = (place as u64 % Function::KINDS, steps[place / 2 % steps.len()]);
            let last = position + 10_000 + 10 * place as u64;
            let found = loop {
                let mut stream = Stream::new(Draws::of(0, Purpose::Problem, position, TEST));
                position += 1;
                match self.draw(turn, Split::Test, &mut stream) {
                    Some(tested) if seen.insert(tested.function.words()) => break Some(tested),
                    _ if position == last => break None,
                    _ => {}
                }
            };
            let Some(tested) = found else {
                let expected = format!(
                    "data.programs.steps = {steps:?} has about {place} test problems; ask for \
                     fewer, or allow more steps"
                );
                return Err(Error::setting("eval.problems", n, expected));
            };
            problems.push(problem(&tested, format!("programs test {place}")));
        }
        Ok(problems)
    }

    /// Worked example at a position of a seed: a problem of a split and a program, right or
    /// mistaken.
    fn demonstration(&self, split: Split, seed: u64, position: u64) -> (Problem, String) {
        let of_split = match split {
            Split::Train => TRAIN,
            Split::Test => TEST,
        };
        let mut stream = Stream::new(Draws::of(seed, Purpose::Demonstration, position, of_split));
        let tested = self.drawn(split, &mut stream);
        let written = self.written(&tested, &mut stream);
        (
            problem(&tested, format!("programs {} {position}", split.name())),
            written.python(&mut stream),
        )
    }

    /// The function that the example's program computes. If it is mistaken, the tests find out.
    fn written(
        &self,
        TestedFunction { function, inputs, outputs }: &TestedFunction,
        stream: &mut Stream,
    ) -> Function {
        for _ in 0..REDRAWS {
            let written =
                function.mistaken(stream, |stream| stream.uniform() < self.settings.mistakes);
            if written == *function || written.outputs(inputs).is_some_and(|its| its != *outputs) {
                return written;
            }
        }
        function.clone()
    }
}

impl TaskKind for Programs {
    type Settings = ProgramsSettings;

    const VERIFIER: VerifierName = VerifierName::Code;

    fn new(settings: &ProgramsSettings) -> Result<Self> {
        settings.check()?;
        Ok(Self { settings: settings.clone() })
    }
}

impl Task for Programs {
    fn problems(&self, seed: u64) -> EndlessRecords<Problem> {
        let programs = self.clone();
        EndlessRecords::new(move |position| {
            let mut stream = Stream::new(Draws::of(seed, Purpose::Problem, position, TRAIN));
            problem(
                &programs.drawn(Split::Train, &mut stream),
                format!("programs train {position}"),
            )
        })
    }

    fn demonstrations(&self, split: Split, seed: u64) -> EndlessRecords<Example> {
        let programs = self.clone();
        EndlessRecords::new(move |position| {
            let (problem, response) = programs.demonstration(split, seed, position);
            let content = Content::Response { prompt: problem.prompt, response };
            Example { content, origin: format!("programs demonstration {position}") }
        })
    }

    fn test_problems(&self, n: usize) -> Result<Vec<Problem>> {
        self.test_set(n)
    }
}

fn problem(
    TestedFunction { function, inputs, outputs }: &TestedFunction,
    origin: String,
) -> Problem {
    Problem {
        prompt: Prompt::Text(format!("# {}\n", function.words())),
        ground_truth: json!({ "inputs": inputs, "outputs": outputs, "fn_name": "f" }),
        data_source: function.kind().into(),
        extra_info: Value::Null,
        columns: Row::new(),
        hint: None,
        origin,
    }
}

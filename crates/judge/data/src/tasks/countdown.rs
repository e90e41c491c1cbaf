//! The built-in task countdown: problems without end, split for training and test, and worked
//! examples.
//!
//! A problem is made by a random attempt: from the given numbers, it takes one of all possible
//! steps with equal probability until one number is left, the target. A step combines two numbers,
//! in either order, by an operation; its result must be an integer from 1 to the largest
//! intermediate. So every problem has a solution within the bounds, and targets that many attempts
//! reach are likelier.
//!
//! The notation of responses is [`isentrope_reward::countdown`]'s; prompts look like `3 5 7>22:`.

mod settings;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use isentrope_random::{Draws, Purpose};
use isentrope_reward::VerifierName;
use isentrope_reward::countdown::{Challenge, Step};
use serde_json::Value;

use super::{EndlessRecords, Stream, Task, TaskKind};
use crate::location::Split;
use crate::{Content, Error, Example, Problem, Prompt, Result, Row};

pub use settings::{CountdownSettings, Demonstrations};

/// One problem in this many is for test.
const TEST_SHARE: u64 = 8;

/// The split of a problem, which its sorted numbers and its target alone decide. Numbers are below
/// 128 and at most six.
fn split_of(challenge: &Challenge) -> Split {
    let mut numbers = challenge.numbers.clone();
    numbers.sort_unstable();
    let packed = numbers.iter().fold(0, |packed, number| packed << 7 | number);
    let hash = Draws::of(packed, Purpose::Problem, challenge.target, SPLIT).bits(0);
    if hash.is_multiple_of(TEST_SHARE) { Split::Test } else { Split::Train }
}

/// Generator of problems and worked examples.
#[derive(Clone, Debug)]
pub(crate) struct Countdown {
    settings: CountdownSettings,
}

// Last coordinate of the keys of random numbers.
const TRIAL: u64 = 0;
const TRAIN: u64 = 1;
const TEST: u64 = 2;
const SPLIT: u64 = 3;

/// Number of attempts to find whether the settings allow problems.
const TRIALS: u64 = 4096;

/// Attempts to find a new failing attempt.
const REDRAWS: usize = 32;

/// Test problems of one size, while they are made.
#[derive(Default)]
struct TestSize {
    /// Given numbers.
    count: usize,
    /// Probability of the size, in proportion.
    weight: f64,
    /// Draws so far, including repetitions.
    position: u64,
    /// Problems so far. Another order of the numbers is another problem, as in training.
    seen: HashSet<(Vec<u64>, u64)>,
}

/// A problem and an attempt that solves it.
type SolvedChallenge = (Challenge, Vec<Step>);

impl Countdown {
    fn train(&self, seed: u64, position: u64) -> Problem {
        let mut stream = Stream::new(Draws::of(seed, Purpose::Problem, position, TRAIN));
        problem(&self.solved(Split::Train, &mut stream).0, Split::Train, position)
    }

    /// The first `n` different test problems. For any `n`, each size has its weight's share to
    /// within one problem. Drawing the size of each problem would favour large sizes, because small
    /// ones repeat sooner.
    ///
    /// # Errors
    /// [`Error::Setting`] when a size has fewer than its share of `n`.
    fn test_set(&self, n: usize) -> Result<Vec<Problem>> {
        let mut sizes: Vec<TestSize> = Vec::new();
        for (&count, &weight) in self.settings.numbers.iter().zip(&self.settings.weights) {
            match sizes.iter_mut().find(|size| size.count == count) {
                Some(size) => size.weight += weight,
                None => sizes.push(TestSize { count, weight, ..TestSize::default() }),
            }
        }
        let sum: f64 = sizes.iter().map(|size| size.weight).sum();
        let mut problems = Vec::new();
        while problems.len() < n {
            let place = problems.len();
            // The size that lacks most of its share.
            let behind =
                |size: &TestSize| size.weight / sum * (place + 1) as f64 - size.seen.len() as f64;
            let most = |a: &TestSize, b: &TestSize| behind(b).total_cmp(&behind(a));
            let size = sizes
                .iter_mut()
                .min_by(|a, b| most(a, b))
                .expect("the settings are checked: there is a size");
            match self.next_test(size) {
                Some(challenge) => problems.push(problem(&challenge, Split::Test, place as u64)),
                None => {
                    let (count, found) = (size.count, size.seen.len());
                    let most = (found as f64 * sum / size.weight) as usize;
                    let expected = format!(
                        "data.countdown has about {found} test problems of {count} numbers, so \
                         about {most} in the \
                         proportions of its weights; ask for fewer, or raise its largest_number \
                         or largest_intermediate"
                    );
                    return Err(Error::setting("eval.problems", n, expected));
                }
            }
        }
        Ok(problems)
    }

    /// The next new test problem of a size; None if there seems to be no other.
    fn next_test(&self, size: &mut TestSize) -> Option<Challenge> {
        for _ in 0..10_000 + 10 * size.seen.len() {
            let mut stream =
                Stream::new(Draws::of(size.count as u64, Purpose::Problem, size.position, TEST));
            size.position += 1;
            let (challenge, _) = self.solved_of(size.count, Split::Test, &mut stream);
            if size.seen.insert((challenge.numbers.clone(), challenge.target)) {
                return Some(challenge);
            }
        }
        None
    }

    /// Worked example at a position of a seed: a problem of a split, and a response as in
    /// [`Demonstrations`].
    fn demonstration(&self, split: Split, seed: u64, position: u64) -> (Problem, String) {
        let of_split = match split {
            Split::Train => 0,
            Split::Test => TEST,
        };
        let mut stream = Stream::new(Draws::of(seed, Purpose::Demonstration, position, of_split));
        let (challenge, solution) = self.solved(split, &mut stream);
        let settings = &self.settings.demonstrations;
        let succeeds = stream.uniform() < settings.success;
        let mut total = 1;
        while total < settings.max_attempts && stream.uniform() * settings.attempts >= 1.0 {
            total += 1;
        }
        let failures = if succeeds { total - 1 } else { total };
        let mut attempts = Vec::with_capacity(total);
        for _ in 0..failures {
            attempts.push(self.failure(&challenge, &solution, &attempts, &mut stream));
        }
        if succeeds {
            attempts.push(solution);
        }
        let texts: Vec<String> = attempts
            .iter()
            .map(|steps| steps.iter().map(Step::to_string).collect::<Vec<_>>().join(","))
            .collect();
        let response = format!("{}{}", texts.join(";"), if succeeds { '!' } else { '?' });
        (problem(&challenge, split, position), response)
    }

    /// A random attempt that misses the target or is abandoned; new, if one is found.
    fn failure(
        &self,
        challenge: &Challenge,
        solution: &[Step],
        before: &[Vec<Step>],
        stream: &mut Stream,
    ) -> Vec<Step> {
        let last_step = challenge.numbers.len() - 1;
        for _ in 0..REDRAWS {
            let abandoned = stream.uniform() < self.settings.demonstrations.abandon;
            let Some(mut attempt) = self.attempt(&challenge.numbers, stream) else { continue };
            if abandoned {
                attempt.truncate(1 + stream.below(last_step as u64 - 1) as usize);
            }
            if challenge.check(&attempt).is_err() && !before.contains(&attempt) {
                return attempt;
            }
        }
        // If nearly every attempt reaches the target, as with addition alone, the attempt is cut
        // short.
        solution[..last_step - 1].to_vec()
    }

    /// A problem of a split. The number of numbers is drawn once, so that its distribution is
    /// exact.
    fn solved(&self, split: Split, stream: &mut Stream) -> SolvedChallenge {
        let CountdownSettings { numbers, weights, .. } = &self.settings;
        let mut left = stream.uniform() * weights.iter().sum::<f64>();
        let mut count = None;
        for (&n, &weight) in numbers.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
            // Rounding may leave a remainder after the last size, which then gets it.
            count = Some(n);
            if left < weight {
                break;
            }
            left -= weight;
        }
        self.solved_of(
            count.expect("the settings are checked: a weight is positive"),
            split,
            stream,
        )
    }

    /// A problem of a split with `count` numbers.
    fn solved_of(&self, count: usize, split: Split, stream: &mut Stream) -> SolvedChallenge {
        // This ends, as `new` has found problems of this size in both splits.
        loop {
            if let Some(solved) = self.draw(count, stream)
                && split_of(&solved.0) == split
            {
                return solved;
            }
        }
    }

    /// A problem of `count` numbers; None if the attempt ends early.
    fn draw(&self, count: usize, stream: &mut Stream) -> Option<SolvedChallenge> {
        let numbers: Vec<u64> =
            (0..count).map(|_| 1 + stream.below(self.settings.largest_number)).collect();
        let solution = self.attempt(&numbers, stream)?;
        let target = solution.last()?.result;
        Some((Challenge { numbers, target }, solution))
    }

    /// Random steps until one number is left; None if no step is possible before.
    fn attempt(&self, numbers: &[u64], stream: &mut Stream) -> Option<Vec<Step>> {
        let mut values = numbers.to_vec();
        let mut steps = Vec::with_capacity(values.len() - 1);
        while values.len() > 1 {
            let possible = self.possible(&values);
            if possible.is_empty() {
                return None;
            }
            let (i, j, step) = possible[stream.below(possible.len() as u64) as usize];
            values.remove(i.max(j));
            values.remove(i.min(j));
            values.push(step.result);
            steps.push(step);
        }
        Some(steps)
    }

    /// Every step from these values within the bounds, with the indices of its operands.
    fn possible(&self, values: &[u64]) -> Vec<(usize, usize, Step)> {
        let mut possible = Vec::new();
        for (i, &a) in values.iter().enumerate() {
            for (j, &b) in values.iter().enumerate().filter(|&(j, _)| j != i) {
                for &operation in &self.settings.operations {
                    if let Some(result) = operation.apply(a, b)
                        && (1..=self.settings.largest_intermediate).contains(&result)
                    {
                        possible.push((i, j, Step { a, operation, b, result }));
                    }
                }
            }
        }
        possible
    }
}

impl TaskKind for Countdown {
    type Settings = CountdownSettings;

    const VERIFIER: VerifierName = VerifierName::Countdown;

    fn new(settings: &CountdownSettings) -> Result<Self> {
        settings.check()?;
        let countdown = Self { settings: settings.clone() };
        for (&count, _) in
            settings.numbers.iter().zip(&settings.weights).filter(|(_, weight)| **weight > 0.0)
        {
            let mut stream = Stream::new(Draws::of(0, Purpose::Problem, count as u64, TRIAL));
            let mut seen = Vec::new();
            for _ in 0..TRIALS {
                if let Some((challenge, _)) = countdown.draw(count, &mut stream) {
                    seen.push(split_of(&challenge));
                }
            }
            if !(seen.contains(&Split::Train) && seen.contains(&Split::Test)) {
                return Err(Error::setting(
                    "data.countdown.numbers",
                    format!("{:?}", settings.numbers),
                    format!(
                        "there are too few problems of {count} numbers; raise largest_number or \
                         largest_intermediate, or allow more operations"
                    ),
                ));
            }
        }
        Ok(countdown)
    }

    /// The number of given numbers, which makes problems hard.
    fn size(ground_truth: &Value) -> Option<(usize, &'static str)> {
        let challenge = Challenge::from_value(ground_truth).ok()?;
        Some((challenge.numbers.len(), "numbers"))
    }
}

impl Task for Countdown {
    fn problems(&self, seed: u64) -> EndlessRecords<Problem> {
        let countdown = self.clone();
        EndlessRecords::new(move |position| countdown.train(seed, position))
    }

    fn demonstrations(&self, split: Split, seed: u64) -> EndlessRecords<Example> {
        let countdown = self.clone();
        EndlessRecords::new(move |position| {
            let (problem, response) = countdown.demonstration(split, seed, position);
            let content = Content::Response { prompt: problem.prompt, response };
            Example { content, origin: format!("countdown demonstration {position}") }
        })
    }

    fn test_problems(&self, n: usize) -> Result<Vec<Problem>> {
        self.test_set(n)
    }
}

fn problem(challenge: &Challenge, split: Split, position: u64) -> Problem {
    let Challenge { numbers, target } = challenge;
    let numbers_text = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    Problem {
        prompt: Prompt::Text(format!("{numbers_text}>{target}:")),
        ground_truth: serde_json::json!({ "numbers": numbers, "target": target }),
        data_source: "countdown".into(),
        extra_info: Value::Null,
        columns: Row::new(),
        hint: None,
        origin: format!("countdown {} {position}", split.name()),
    }
}

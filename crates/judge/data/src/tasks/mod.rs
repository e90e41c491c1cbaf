//! Built-in tasks: endless problems, made by a program instead of read from a file.
//!
//! A task is one file here, with its `mod` line and its entry in [`tasks`].

pub(crate) mod countdown;
pub(crate) mod programs;

use std::fmt;

use isentrope_random::Draws;
use isentrope_reward::VerifierName;
use serde_json::Value;

use crate::location::Split;
use crate::settings::TaskName;
use crate::{Example, Problem, Result};

/// The list of built-in tasks. An entry has the task's module, which is its name in recipes and
/// that of its table of settings; its type, a [`TaskKind`]; the type of the table; and what the
/// recipe's reference says of the task and of the table. [`DataSettings`](crate::DataSettings) and
/// [`TaskName`] are made from it.
macro_rules! tasks {
    ($make:ident) => {
        $make! {
            countdown: Countdown, CountdownSettings,
                "Combine given numbers to reach a target, in written steps.",
                "What problems of the built-in task countdown are like.";
            programs: Programs, ProgramsSettings,
                "Write small functions in Python, which tests then call.",
                "What problems of the built-in task programs are like.";
        }
    };
}
pub(crate) use tasks;

/// Type of a task that is in the list.
pub(crate) trait TaskKind: Task + Sized + 'static {
    /// The recipe's table of the task.
    type Settings;

    /// Judge of responses to the task's problems.
    const VERIFIER: VerifierName;

    /// Prepares the task.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when a setting is out of range or allows no
    /// problem.
    fn new(settings: &Self::Settings) -> Result<Self>;

    /// The size of a problem with this ground truth, with its unit, for the metrics of problems of
    /// one size. None for a problem of another task, or where the task has no sizes.
    fn size(_ground_truth: &Value) -> Option<(usize, &'static str)> {
        None
    }
}

/// A built-in task, ready to make problems.
pub(crate) trait Task {
    /// The training problems of a seed.
    fn problems(&self, seed: u64) -> EndlessRecords<Problem>;

    /// The worked examples of a seed, for training or test problems.
    fn demonstrations(&self, split: Split, seed: u64) -> EndlessRecords<Example>;

    /// The first `n` test problems, which do not depend on a run's seed and are never trained on.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when there are fewer.
    fn test_problems(&self, n: usize) -> Result<Vec<Problem>>;
}

/// The size of a problem of a built-in task, by its ground truth, with its unit: 3 numbers. None
/// for other problems.
pub fn problem_size(ground_truth: &Value) -> Option<(usize, &'static str)> {
    TaskName::ALL.iter().find_map(|task| task.size(ground_truth))
}

/// Records by position, without end. A record depends on its position alone.
pub(crate) struct EndlessRecords<T>(Box<dyn Fn(u64) -> T + Send + Sync>);

impl<T> EndlessRecords<T> {
    pub(crate) fn new(record: impl Fn(u64) -> T + Send + Sync + 'static) -> Self {
        Self(Box::new(record))
    }

    /// The record at a position.
    pub(crate) fn at(&self, position: u64) -> T {
        self.0(position)
    }
}

impl<T> fmt::Debug for EndlessRecords<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndlessRecords")
    }
}

/// A sequence of random numbers.
pub(crate) struct Stream {
    draws: Draws,
    position: u64,
}

impl Stream {
    pub(crate) fn new(draws: Draws) -> Self {
        Self { draws, position: 0 }
    }

    fn next(&mut self) -> u64 {
        self.position += 1;
        self.position - 1
    }

    /// Uniform in 0..n.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        let position = self.next();
        self.draws.below(position, n)
    }

    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        let position = self.next();
        self.draws.uniform(position)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_a_task_is_listed() {
        let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tasks")).unwrap();
        let paths = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
        let stem =
            |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut stems: Vec<String> = paths.map(stem).filter(|stem| stem != "mod").collect();
        let mut listed: Vec<&str> = TaskName::ALL.iter().map(|task| task.name()).collect();
        stems.sort();
        listed.sort_unstable();
        assert_eq!(stems, listed);
    }
}

//! Built-in tasks: problems without end, made and not read.
//!
//! A task has a file of its own here, its table in [`DataSettings`](crate::DataSettings), and a line in that file's registry.

pub mod countdown;
pub mod programs;

use std::fmt;

use isentrope_random::Draws;

use crate::place::Split;
use crate::{Example, Problem, Result};

/// Records without end, by position. A position gives the same record whatever was asked for before.
pub(crate) struct Endless<T>(Box<dyn Fn(u64) -> T + Send + Sync>);

impl<T> Endless<T> {
    pub(crate) fn new(record: impl Fn(u64) -> T + Send + Sync + 'static) -> Self {
        Self(Box::new(record))
    }

    /// The record at a position.
    pub(crate) fn at(&self, position: u64) -> T {
        self.0(position)
    }
}

impl<T> fmt::Debug for Endless<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Endless")
    }
}

/// A built-in task, ready to make problems.
pub(crate) trait Task {
    /// The problems to train on that belong to a seed.
    fn problems(&self, seed: u64) -> Endless<Problem>;

    /// The worked examples that belong to a seed, of problems to train on or of test problems, for a task that has some.
    fn demonstrations(&self, split: Split, seed: u64) -> Option<Endless<Example>>;

    /// The first `n` test problems, none of which is ever trained on; the same whatever a run's seed.
    ///
    /// # Errors
    /// [`Error::Setting`](crate::Error::Setting) when there are fewer.
    fn test_problems(&self, n: usize) -> Result<Vec<Problem>>;
}

/// Random numbers one after the other.
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

//! `isentrope lab`: the theory behind the entropy on runs, methods on one set of tokens, and
//! statistics over seeds.

mod methods;
mod seeds;

use self::methods::Methods;
use self::seeds::Seeds;
use crate::messages;
use crate::standard_output::{print, print_fitted};
use anyhow::Result;
use clap::{Args, Subcommand};
use isentrope_lab::log::RunLog;
use isentrope_lab::theory::{self, TheoryOfRun};
use std::path::PathBuf;

/// How well the theory foresees the entropy of runs; methods side by side; tables over seeds
#[derive(Args)]
pub struct Lab {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    Theory(Theory),
    Methods(Methods),
    Seeds(Seeds),
}

/// How well the theory of covariance foresees the entropy of a run
///
/// The run must have been trained with --set lab.track_theory=true. Its change of entropy in each
/// step is held against what lemma 1, the theorems and the exact contribution of each sampled token
/// (arXiv:2505.22617) predict, and against a constant. docs/concepts/entropy.md has the formulas.
#[derive(Args)]
struct Theory {
    /// Directories of runs that have tracked the theory
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Prints one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

impl Lab {
    pub fn run(self) -> Result<()> {
        match self.experiment {
            Experiment::Theory(theory) => theory.run(),
            Experiment::Methods(methods) => methods.run(),
            Experiment::Seeds(seeds) => seeds.run(),
        }
    }
}

impl Theory {
    fn run(&self) -> Result<()> {
        let mut all = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let log = RunLog::open(run)?;
            log.notes.iter().for_each(|note| messages::note(note));
            all.push(TheoryOfRun::require(&log)?);
        }
        if self.json {
            return print(&(serde_json::to_string_pretty(&all)? + "\n"));
        }
        all.iter().try_for_each(|theory| print_fitted(&theory::of_run(theory)))
    }
}

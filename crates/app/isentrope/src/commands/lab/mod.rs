//! `isentrope lab`: the theory behind the entropy, checked, and statistics over seeds.

mod seeds;

use self::seeds::Seeds;
use crate::messages;
use crate::standard_output::{print, print_text};
use anyhow::{Result, bail};
use clap::{Args, Subcommand, value_parser};
use isentrope_lab::log::RunLog;
use isentrope_lab::theory::{self, CLAIMS, Case, Check, TheoryOfRun};
use serde::Serialize;
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;

/// Check the theory of entropy and covariance; tables over seeds
#[derive(Args)]
pub struct Lab {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    Theory(Theory),
    Seeds(Seeds),
}

/// Predicted against actual changes of the entropy
///
/// Without RUN, checks lemma 1, theorem 1 (policy gradient), theorem 2 (natural gradient) and the
/// exact contribution of one sampled token (arXiv:2505.22617) on random softmax policies with exact
/// gradients: whether what each misses falls with the square of the step. It takes less than a
/// second, and fails if one does not hold.
///
/// With RUN, says how well the same formulas foresee the change of the entropy in the steps of a
/// run that was trained with --set lab.track_theory=true.
#[derive(Args)]
struct Theory {
    /// Directories of runs that have tracked the theory
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Prints one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Random policies of each kind: of one state, and of several
    #[arg(long, value_name = "N", default_value_t = 16, conflicts_with = "runs")]
    #[arg(value_parser = value_parser!(u64).range(1..=10_000))]
    policies: u64,
    /// Actions in each state
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "runs")]
    #[arg(value_parser = value_parser!(u64).range(2..=10_000))]
    actions: u64,
    /// States of the policies of several states
    #[arg(long, value_name = "N", default_value_t = 8, conflicts_with = "runs")]
    #[arg(value_parser = value_parser!(u64).range(1..=1_000))]
    states: u64,
    /// Seed of the policies; one seed gives one result, to the last bit
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "runs")]
    seed: u64,
}

#[derive(Serialize)]
struct Checks<'a> {
    seed: u64,
    policies: usize,
    holds: bool,
    claims: &'a [Check],
}

/// Columns of a plot where the terminal does not say how many it has, and at most.
const WIDTH: usize = 100;

/// Most logits of all policies together.
const MOST_NUMBERS: u64 = 10_000_000;

impl Lab {
    pub fn run(self) -> Result<()> {
        match self.experiment {
            Experiment::Theory(theory) if theory.runs.is_empty() => theory.check(),
            Experiment::Theory(theory) => theory.of_runs(),
            Experiment::Seeds(seeds) => seeds.run(),
        }
    }
}

impl Theory {
    fn check(&self) -> Result<()> {
        let numbers = self.policies.saturating_mul(self.states + 1).saturating_mul(self.actions);
        if numbers > MOST_NUMBERS {
            bail!(
                "--policies {}, --states {} and --actions {} come to {numbers} logits: at most {MOST_NUMBERS} are checked",
                self.policies,
                self.states,
                self.actions
            );
        }
        let cases: Vec<Case> = [1, self.states]
            .into_iter()
            .zip(0..)
            .flat_map(|(states, kind)| {
                (0..self.policies).map(move |number| (states, 2 * number + kind))
            })
            .map(|(states, number)| {
                Case::random(states as usize, self.actions as usize, self.seed, number)
            })
            .collect();
        let checks: Vec<Check> = CLAIMS.iter().map(|claim| theory::check(claim, &cases)).collect();
        let wrong: Vec<&str> =
            checks.iter().filter(|check| !check.holds).map(|check| check.name).collect();
        if self.json {
            let all = Checks {
                seed: self.seed,
                policies: cases.len(),
                holds: wrong.is_empty(),
                claims: &checks,
            };
            print(&(serde_json::to_string_pretty(&all)? + "\n"))?;
        } else {
            let width = messages::width().unwrap_or(WIDTH).min(WIDTH) as u16;
            print(&theory::of_checks(&checks, width, stdout().is_terminal()))?;
        }
        if !wrong.is_empty() {
            bail!(
                "{}: predicted and actual changes of the entropy do not agree to first order; the error does not fall with the \
                 square of the step",
                wrong.join(", ")
            );
        }
        if !self.json {
            print(&format!(
                "\nall {} statements hold on {} policies: the error falls with the square of the step\n",
                checks.len(),
                cases.len()
            ))?;
        }
        Ok(())
    }

    fn of_runs(&self) -> Result<()> {
        let mut all = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let log = RunLog::open(run)?;
            log.notes.iter().for_each(|note| messages::note(note));
            all.push(TheoryOfRun::require(&log)?);
        }
        if self.json {
            return print(&(serde_json::to_string_pretty(&all)? + "\n"));
        }
        all.iter().try_for_each(|theory| print_text(&theory::of_run(theory)))
    }
}

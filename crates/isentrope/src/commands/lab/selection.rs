//! `isentrope lab selection`: what picking inside micro-batches does to Clip-Cov and KL-Cov.

use crate::standard_output::{print, print_text};
use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum, value_parser};
use isentrope_lab::log::RunLog;
use isentrope_lab::run_files::{METRICS, recipe_of};
use isentrope_lab::selection::{self, Method, Rule, SelectionOfRun};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Compare the tokens that Clip-Cov or KL-Cov picks inside micro-batches with those of the whole
/// minibatch
///
/// The paper picks tokens by their covariance over a batch. Its reference implementation centres
/// log-probs and advantages, and picks, inside each micro-batch, so that the memory setting changes
/// the algorithm. This command reads the token records of a run, picks both ways for each step, and
/// says how many tokens are picked, how many are the same, how large their covariance is by the
/// means of the minibatch, and which quadrants they are from. Each micro-batch picks the fraction
/// of its tokens, rounded down, but at least one: the smaller it is, the more are picked in all.
///
/// KL-Cov picks the tokens of largest covariance. Clip-Cov draws at random from those within its
/// band that ratio clipping has left a gradient: for it the tokens that may be drawn are compared,
/// and the number is that of an average draw.
///
/// The run must have recorded every response: train with --set lab.record_tokens=N, where N is at
/// least all response tokens of a step. Records say in which update a response was first used, so
/// minibatches are those of the run; micro-batches are responses in the order of the records (step
/// of sampling, problem, number), which is that of the reference before it balances lengths.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope train recipes/quickstart.toml --set run.steps=10 --set lab.record_tokens=1000000
  isentrope lab selection runs/quickstart
  isentrope lab selection runs/quickstart --micro-batch 4 --micro-batch 16 --fraction 2e-4
  isentrope lab selection runs/quickstart --json | jq '.steps[].compared'")]
pub struct Selection {
    /// Directory of a run with token records of all responses
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Responses of a micro-batch (repeatable) [default: 1, 2, 4, ... up to the minibatch]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    micro_batch: Vec<u64>,
    /// The method [default: the run's, else kl-cov]
    #[arg(long, value_name = "METHOD")]
    method: Option<ChosenMethod>,
    /// Fraction of the tokens that is picked, above 0 and at most 1 [default: for the run's own
    /// method the run's, of each step where it was steered; else the paper's: 2e-4 for clip-cov,
    /// 2e-3 for kl-cov]
    #[arg(long, value_name = "F", value_parser = fraction)]
    fraction: Option<f64>,
    /// Prints one JSON object, with every step, instead of tables
    #[arg(long)]
    json: bool,
}

/// The covariance methods.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChosenMethod {
    /// Draws from the tokens within a band of covariances, objective.covariance.low to high of the
    /// run's recipe
    ClipCov,
    /// Takes the tokens of largest covariance
    KlCov,
}

/// A fraction of the tokens.
fn fraction(text: &str) -> Result<f64> {
    let value = text.parse().ok().filter(|value| *value > 0.0 && *value <= 1.0);
    value.ok_or_else(|| {
        anyhow!("must be a fraction of the tokens above 0 and at most 1, such as 0.002 (that is 0.2 %)")
    })
}

impl Selection {
    pub fn run(self) -> Result<()> {
        if !self.run.is_dir() {
            bail!("{}: is not the directory of a run", self.run.display());
        }
        let recipe = recipe_of(&self.run)?.unwrap_or_default();
        let rule = self.rule(&recipe);
        let steered = if self.fraction.is_none() && own_method(&recipe) == Some(rule.method) {
            self.fractions()?
        } else {
            BTreeMap::new()
        };
        let sizes: Vec<usize> = self.micro_batch.iter().map(|size| *size as usize).collect();
        let selection = SelectionOfRun::open(&self.run, rule, &sizes, &steered)?;
        if self.json {
            return print(&(serde_json::to_string_pretty(&selection)? + "\n"));
        }
        print_text(&selection::text(&selection))
    }

    /// The fraction of each step, as a run that steers it has recorded.
    fn fractions(&self) -> Result<BTreeMap<u64, f64>> {
        let path = self.run.join(METRICS);
        if !path.is_file() {
            return Ok(BTreeMap::new());
        }
        let log = RunLog::open(&path)?;
        let recorded = log.series("cov/fraction").into_iter().flat_map(isentrope_lab::log::Series::iter);
        // A file from elsewhere may hold anything.
        Ok(recorded.filter(|(_, fraction)| *fraction > 0.0 && *fraction <= 1.0).collect())
    }

    /// The flags' rule; the run's own where no flag is given.
    fn rule(&self, recipe: &Value) -> Rule {
        let covariance = &recipe["objective"]["covariance"];
        let own = own_method(recipe);
        let asked = self.method.map(|method| match method {
            ChosenMethod::ClipCov => Method::ClipCov,
            ChosenMethod::KlCov => Method::KlCov,
        });
        let method = asked.or(own).unwrap_or(Method::KlCov);
        let published = match method {
            Method::ClipCov => 2e-4,
            Method::KlCov => 2e-3,
        };
        // A fraction that is meant for another method says nothing of this one.
        let of_run = covariance["fraction"].as_f64().filter(|_| own == Some(method));
        let band =
            [("low", 1.0), ("high", 5.0)].map(|(key, usual)| covariance[key].as_f64().unwrap_or(usual));
        Rule { method, fraction: self.fraction.or(of_run).unwrap_or(published), band }
    }
}

/// The covariance method of a recipe.
fn own_method(recipe: &Value) -> Option<Method> {
    match recipe["objective"]["covariance"]["method"].as_str()? {
        "clip-cov" => Some(Method::ClipCov),
        "kl-cov" => Some(Method::KlCov),
        _ => None,
    }
}

//! `isentrope show`: runs on a terminal.

mod follow;

use crate::standard_output::{allows_colors, draw, width};
use anyhow::{Result, bail};
use clap::Args;
use isentrope_lab::run::Run;
use isentrope_lab::show::{Look, PageOptions, list_metrics, page};
use std::env;
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use terminal_size::{Height, terminal_size_of};

/// Default columns, if the terminal's width is not known: curves are wider than paragraphs.
const USUAL_WIDTH: usize = 100;
/// Most columns of the text.
const WIDEST: usize = 1000;
/// Default number of responses for a single run.
const RESPONSES: usize = 3;
/// Least similarity of a name that is proposed, and most names proposed.
const LIKENESS: f64 = 0.85;
const PROPOSED: usize = 4;

/// Show runs on the terminal: curves, the law, evaluations, responses
///
/// Shows the progress and expected time; entropy, accuracy, reward and response length over steps;
/// the evaluations; the law between accuracy and entropy with its ceiling, or why it does not hold;
/// the last sampled responses with their verdicts. With several runs, curves are drawn over one
/// another and tables stand side by side.
///
/// A RUN is a run directory, or a log of TRL or verl (docs/guides/coming-from-trl-or-verl.md). Run
/// directories of any age can be shown: interrupted, just begun, or in the middle of training, from
/// another terminal. Nothing is written.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope show runs/quickstart
  isentrope show --follow runs/quickstart
  isentrope show runs/grpo runs/kl-cov --metric cov/mean --responses 2
  isentrope show trl-output/checkpoint-500/trainer_state.json --metrics")]
pub struct Show {
    /// Run directories, or logs of TRL and verl
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Draws the runs again as they grow, until they end or Ctrl-C; needs a terminal
    #[arg(long, short)]
    follow: bool,
    /// Plots this metric too, before the others (repeatable), as in --metric cov/mean --metric
    /// grad/norm
    #[arg(long = "metric", value_name = "NAME")]
    metrics: Vec<String>,
    /// Lists the metrics of the runs, with first and last values, and shows nothing else
    #[arg(long = "metrics", conflicts_with_all = ["follow", "metrics", "responses"])]
    list: bool,
    /// Number of last responses to show [default: 3 for a single run, none for several]
    #[arg(long, value_name = "N")]
    responses: Option<usize>,
}

impl Show {
    pub fn run(self) -> Result<()> {
        let responses =
            |runs: usize| self.responses.unwrap_or(if runs == 1 { RESPONSES } else { 0 });
        let mut options =
            PageOptions { metrics: self.metrics, responses: responses(self.runs.len()) };
        if self.follow {
            return follow::follow(&self.runs, &options);
        }
        let runs = Run::read_all(&self.runs)?;
        options.responses = responses(runs.len());
        let (look, _) = look();
        if self.list {
            return print_lines(&list_metrics(&runs, &look));
        }
        check_metrics(&runs, &options.metrics)?;
        print_lines(&page(&runs, &options, &look))
    }
}

/// The kind of standard output, and its height if it is a terminal.
fn look() -> (Look, Option<usize>) {
    let is_terminal = stdout().is_terminal();
    let terminal = env::var("TERM").unwrap_or_default();
    let is_dumb = terminal.is_empty() || terminal == "dumb";
    let size = terminal_size_of(stdout()).filter(|_| is_terminal);
    let look = Look {
        width: width().unwrap_or(USUAL_WIDTH).min(WIDEST),
        colors: is_terminal && !is_dumb && allows_colors(),
    };
    let height = size.map_or(24, |(_, Height(height))| usize::from(height));
    (look, (is_terminal && !is_dumb).then_some(height))
}

fn print_lines(lines: &[String]) -> Result<()> {
    draw(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

/// Refuses a metric that none of the runs has measured, and proposes similar names.
fn check_metrics(runs: &[Run], metrics: &[String]) -> Result<()> {
    let Some(unknown) =
        metrics.iter().find(|metric| runs.iter().all(|run| run.log.series(metric).is_none()))
    else {
        return Ok(());
    };
    let mut known: Vec<(f64, &str)> = runs
        .iter()
        .flat_map(|run| run.log.all())
        .map(|(name, _)| {
            let is_part = !unknown.is_empty() && name.contains(unknown.as_str());
            (if is_part { 1.0 } else { strsim::jaro_winkler(unknown, name) }, name)
        })
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .collect();
    known.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    known.dedup_by_key(|(_, name)| *name);
    let proposed: Vec<&str> = known.iter().take(PROPOSED).map(|(_, name)| *name).collect();
    let meant = if proposed.is_empty() {
        String::new()
    } else {
        format!(" (there is {})", proposed.join(", "))
    };
    let whose = if runs.len() == 1 { "the run has" } else { "none of the runs has" };
    let measured = if runs.len() == 1 { "no metric" } else { "a metric" };
    bail!("--metric: {whose} {measured} {unknown:?}{meant}; --metrics lists what there is")
}

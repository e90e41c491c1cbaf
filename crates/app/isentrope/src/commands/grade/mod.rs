//! `isentrope grade`: verdicts on given responses.

mod explain;
mod rounds;
mod row;
mod totals;

use crate::device;
use crate::interrupt;
use crate::lines::{Line, Lines, Unreadable};
use crate::messages;
use crate::output::Output;
use crate::progress::Work;
use crate::recipe;
use crate::standard_output::print;
use anyhow::{Result, bail};
use clap::Args;
use isentrope_reward::{Verdict, VerifierSettings};
use rounds::Rounds;
use row::Reader;
use std::path::PathBuf;
use std::time::Instant;
use totals::Totals;

/// Judge responses by their ground truth
///
/// Each input line is an object with the ground truth (gold, reward_model.ground_truth,
/// ground_truth, answer, final_answer, expected_answer, Answer, solution or extra_info.answer; of
/// programs also the tests, under tests, test_cases, input_output, public_test_cases, test_list,
/// test and the other columns that docs/guides/data-and-rewards.md lists) and the response
/// (response, pred, prediction, completion or output); a null counts as missing. Each output line
/// is the input line with "verdict", "score", "extracted" (the answer found in the response, or
/// null) and "reason". Totals follow at the end; where lines say what is "expected" (0, 1, false or
/// true), so does the agreement with it. For a verifier with batch = "group", lines that follow
/// each other are a group if they have the same prompt, ground truth, data_source and extra_info.
#[derive(Args)]
#[allow(rustdoc::broken_intra_doc_links, reason = "this is the help on the terminal, not Markdown")]
pub struct Grade {
    /// JSON lines to judge, or another data file (.json, .jsonl.gz, .parquet); - is standard input
    #[arg(long = "in", value_name = "FILE", required_unless_present = "explain")]
    input: Option<PathBuf>,
    /// File of the JSON lines; - is standard output, the default
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The verifier: auto (by the form of the ground truth), math, countdown, code (tests of
    /// programs), or any other value of a recipe's reward.verifier, such as '{command = ["python3",
    /// "reward.py"]}'
    #[arg(long, value_name = "VERIFIER", default_value = "auto")]
    verifier: String,
    /// Key of the ground truth, if it has another name
    #[arg(long, value_name = "KEY")]
    gold: Option<String>,
    /// Key of the response, if it has another name
    #[arg(long, value_name = "KEY")]
    response: Option<String>,
    /// Threads [default: ISENTROPE_THREADS, else one per core]. Results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Shows how one response is judged, step by step
    #[arg(long, num_args = 2, value_names = ["GOLD", "RESPONSE"], allow_hyphen_values = true,
          conflicts_with_all = ["input", "out", "gold", "response", "threads"])]
    explain: Option<Vec<String>>,
}

impl Grade {
    pub fn run(self) -> Result<()> {
        let settings: VerifierSettings = recipe::setting("--verifier", &self.verifier)?;
        if let Some([gold, response]) = self.explain.as_deref() {
            return print(&explain::explain(&settings, gold, response)?);
        }
        let threads = device::threads(self.threads)?;
        let input = self.input.unwrap_or_default(); // there is one: clap has seen to it
        let mut lines = Lines::open(&input)?;
        let mut output = Output::create(self.out.as_deref())?;
        let verifier = settings.build()?;
        verifier.notes().iter().for_each(|note| messages::note(note));
        let mut rounds = Rounds::new(&settings, threads);
        let reader = Reader { gold: self.gold, response: self.response, verifier: settings };

        interrupt::wind_up_first("finishing the lines under way");
        let started = Instant::now();
        let mut work = Work::new("lines", None, false);
        let mut totals = Totals::default();
        loop {
            let read =
                |line: Result<Line>| match line.map_err(anyhow::Error::downcast::<Unreadable>) {
                    Ok(line) => reader.read(line),
                    // An unreadable first line means that the file is of another kind.
                    Err(Ok(unreadable)) if unreadable.number > 1 => Ok(unreadable.into()),
                    Err(Ok(unreadable)) => Err(unreadable.into()),
                    Err(Err(error)) => Err(error),
                };
            let round = rounds.read(&mut lines.by_ref().map(read));
            if round.as_ref().is_ok_and(Vec::is_empty) {
                break;
            }
            if interrupt::requested() {
                return Err(output.interrupted("the lines judged so far")?);
            }
            let rows = round?;
            let judgements = rounds.judge(&*verifier, &rows)?;
            for (row, judgement) in rows.into_iter().zip(judgements) {
                totals.add(&row, &judgement);
                if judgement.verdict != Verdict::Correct && row.unreadable.is_none() {
                    totals.doubt(&row, reader.verifier.concern(&row.item()));
                }
                output.line(&row.with(judgement)?)?;
            }
            let speed = totals.lines() as f64 / started.elapsed().as_secs_f64();
            work.advance(totals.lines() as u64, &format!("{speed:.0} lines/s"));
        }
        work.finish();
        if totals.lines() == 0 {
            bail!("{}: the file has no lines", input.display());
        }
        output.finish()?;
        messages::say(totals.report(started.elapsed()).trim_end());
        totals.check_judged()
    }
}

//! A training run on the terminal: a live line for the current work, a line per step, a summary.
//!
//! Without a terminal there is no live line, and fewer steps are printed.

mod notes;
mod steps;

use self::notes::Notes;
use self::steps::Steps;
use crate::interrupt::{self, Outlook};
use crate::messages;
use crate::standard_output::{self, print};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isentrope_evaluation::Evaluation;
use isentrope_lab::log::RunLog;
use isentrope_lab::show::duration;
use isentrope_lab::theory::{TheoryOfRun, of_predictions};
use isentrope_model::adapter::AdapterConfig;
use isentrope_train::observer::{Phase, Progress, StepReport};
use isentrope_train::run::{Ending, RunSummary, word};
use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr;

/// Least time between two printed steps, except those with an evaluation and the last.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(300);
const PLAIN_INTERVAL: Duration = Duration::from_secs(1);
/// Number of last steps whose mean time estimates the time left.
const RECENT: usize = 10;

/// Columns of sentences in the summary.
const SUMMARY_WIDTH: usize = 80;

/// Watches a run for the user.
pub struct Terminal {
    bar: ProgressBar,
    is_terminal: bool,
    phase: Option<(Phase, Instant)>,
    /// The ends of the last steps.
    ends: VecDeque<Instant>,
    /// The last step, and the last step that a checkpoint holds.
    last: u64,
    saved: u64,
    /// Whether a checkpoint of the last step is being written.
    is_saving: bool,
    shown: Option<Instant>,
    steps: Steps,
    notes: Notes,
}

impl Terminal {
    pub fn new() -> Self {
        let is_terminal = stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{prefix:12} {bar:24} {wide_msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            is_terminal,
            phase: None,
            ends: VecDeque::new(),
            last: 0,
            saved: 0,
            is_saving: false,
            shown: None,
            steps: Steps::default(),
            notes: Notes::default(),
        }
    }

    /// A line beside the live one.
    pub fn line(&self, text: &str) {
        self.bar.suspend(|| messages::say(text));
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows how the current work goes.
    pub fn progress(&mut self, progress: Progress) {
        let Progress { phase, done, total, tokens } = progress;
        if matches!(phase, Phase::Rollout | Phase::Update) {
            self.notes.begin();
        }
        self.is_saving |= phase == Phase::Checkpoint;
        if self.ends.is_empty() {
            self.ends.push_back(Instant::now()); // a run that goes on begins here
        }
        if self.is_terminal && self.phase.is_none() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10)); // there is something to show now
        }
        let started = match self.phase {
            Some((same, started)) if same == phase && tokens > 0 => started,
            _ => {
                let now = Instant::now();
                self.phase = Some((phase, now));
                now
            }
        };
        let unit = match phase {
            Phase::Rollout | Phase::Evaluation => "responses",
            Phase::Update => "updates",
            Phase::Reference | Phase::Teacher => "minibatches",
            Phase::ProcessModel | Phase::Measurement => "passes",
            Phase::Checkpoint => "checkpoints",
        };
        self.bar.set_prefix(phase_name(phase));
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        let seconds = started.elapsed().as_secs_f64();
        let speed = if tokens > 0 && seconds > 0.05 {
            format!(", {:.0} tokens/s", tokens as f64 / seconds)
        } else {
            String::new()
        };
        self.bar.set_message(format!("{done}/{total} {unit}{speed}"));
    }

    /// A note, unless it was shown before.
    pub fn note(&mut self, text: &str) {
        if let Some(label) = self.notes.label(text) {
            self.bar.suspend(|| messages::labelled(&label, text));
        }
    }

    /// A completed step.
    pub fn step(&mut self, step: &StepReport<'_>) {
        self.notes.step(step.step);
        let now = Instant::now();
        if self.last == 0 && step.step > 1 {
            self.saved = step.step - 1; // a run that goes on begins at a checkpoint
        }
        self.last = step.step;
        self.ends.push_back(now);
        if self.ends.len() > RECENT {
            self.ends.pop_front();
        }
        self.set_outlook();
        let interval = if self.is_terminal { TERMINAL_INTERVAL } else { PLAIN_INTERVAL };
        let evaluated = step.metrics.iter().any(|(name, _)| name.starts_with("eval/"));
        let due = self.shown.is_none_or(|shown| now - shown >= interval);
        if !evaluated && !due && step.step < step.steps {
            return;
        }
        self.shown = Some(now);
        if step.step > 0 {
            let width = messages::width().unwrap_or(messages::PLAIN_WIDTH);
            for line in self.steps.lines(step, self.time_left(step), Some(width)) {
                self.line(&line);
            }
        }
        if evaluated {
            for text in evaluation_lines(step) {
                self.line(&text);
            }
            for remark in step.remarks {
                self.line(&format!("        {remark}"));
            }
        }
    }

    /// The last step is over, and its checkpoint written if one was begun.
    pub fn is_over(&mut self) {
        if std::mem::take(&mut self.is_saving) {
            self.saved = self.last;
            self.set_outlook();
        }
    }

    /// The mean time of the last steps.
    fn step_time(&self) -> Option<Duration> {
        let (first, last) = (self.ends.front()?, self.ends.back()?);
        let steps = u32::try_from(self.ends.len() - 1).ok().filter(|n| *n > 0)?;
        Some((*last - *first) / steps)
    }

    fn time_left(&self, step: &StepReport<'_>) -> Option<Duration> {
        Some(self.step_time()? * u32::try_from(step.steps - step.step).ok()?)
    }

    /// Sets the outlook that Ctrl-C prints: the time of the next step, and the steps that no
    /// checkpoint holds.
    fn set_outlook(&self) {
        let loss = match self.saved {
            0 => "all steps".to_owned(),
            saved => format!("the steps after {saved}"),
        };
        let ends = self.ends.back().zip(self.step_time()).map(|(last, took)| *last + took);
        interrupt::set_outlook(Outlook { ends, loss });
    }
}

/// A word for a kind of work.
pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Rollout => "rollout",
        Phase::Reference => "reference",
        Phase::Teacher => "teacher",
        Phase::Update => "update",
        Phase::ProcessModel => "process model",
        Phase::Measurement => "theory",
        Phase::Evaluation => "evaluation",
        Phase::Checkpoint => "checkpoint",
    }
}

/// Most parts of a set in its line after a step. The table at the end has all.
const PARTS_TOLD: usize = 8;

/// `eval/SET/NAME` metrics, a line per set, and one per set for the accuracy of its parts,
/// `eval/SET/PART/mean@K`.
fn evaluation_lines(step: &StepReport<'_>) -> Vec<String> {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    for (name, value) in
        step.metrics.iter().filter_map(|(n, v)| Some((n.strip_prefix("eval/")?, v)))
    {
        let (set, what) = name.split_once('/').unwrap_or(("held-out", name));
        if let Some((part, what)) = what.rsplit_once('/') {
            if !what.starts_with("mean@") {
                continue;
            }
            let (set, cell) = (format!("{set}, {what} of parts"), format!("{part} {value:.3}"));
            match parts.iter_mut().find(|(known, _)| *known == set) {
                Some((_, cells)) => cells.push(cell),
                None => parts.push((set, vec![cell])),
            }
            continue;
        }
        let untold = matches!(what, "truncated" | "faults") && value == 0.0;
        if untold || matches!(what, "pass@1" | "score") {
            continue; // pass@1 is the mean, as the score mostly is: the table at the end has it where it is not
        }
        let cell = match what {
            "faults" => format!("could not be judged {:.1} %", 100.0 * value),
            "failed" => format!("failed, so wrong {:.1} %", 100.0 * value),
            _ => format!("{what} {value:.3}"),
        };
        match lines.iter_mut().find(|(known, _)| known == set) {
            Some((_, line)) => {
                line.push_str("  ");
                line.push_str(&cell);
            }
            None => lines.push((set.to_owned(), cell)),
        }
    }
    let of_parts = parts.into_iter().map(|(set, mut cells)| {
        let more = cells.len().saturating_sub(PARTS_TOLD);
        cells.truncate(PARTS_TOLD);
        let more = if more > 0 { format!("  and {more} more") } else { String::new() };
        (set, cells.join("  ") + &more)
    });
    lines
        .into_iter()
        .chain(of_parts)
        .map(|(set, line)| format!("        evaluation after step {}, {set}: {line}", step.step))
        .collect()
}

/// Prints the table at the end of a run, on standard output, and the next commands.
pub fn print_summary(summary: &RunSummary, command: &str) -> Result<()> {
    let width = standard_output::width();
    print(&(messages::fitted(&table(summary), width) + &what_next(summary, command, width)))
}

/// The summary of a run, whose lines may be broken between words.
fn table(summary: &RunSummary) -> String {
    let mut text = String::new();
    let done = match summary.ending {
        Ending::Complete => "finished",
        Ending::Interrupted => "stopped",
    };
    let elapsed = duration(summary.elapsed.as_secs_f64());
    let _ = writeln!(text, "\n{done} after step {} in {elapsed}", summary.step);
    for last in &summary.last {
        let first =
            summary.first.iter().find(|first| first.name == last.name && summary.last_step > 0);
        text.push('\n');
        text += &evaluation_table(first, last, summary.last_step);
    }
    let log = RunLog::open(&summary.directory).ok();
    if summary.step > 0 && log.as_ref().is_some_and(|log| log.has_same_weights(0, summary.step)) {
        text += "\n  no update has changed the weights: they are what they were at the start\n";
    }
    text.push_str(&theory_lines(&summary.directory, log.as_ref()));
    if !summary.laws.is_empty() {
        let _ = writeln!(text, "\n  the law R = -a exp(H) + b:");
        for law in &summary.laws {
            let _ = writeln!(text, "{}", messages::wrapped(&format!("    {law}"), SUMMARY_WIDTH));
        }
    }
    let speeds: Vec<String> = summary
        .timings
        .iter()
        .filter_map(|(name, value)| {
            let phase = name.strip_prefix("throughput/")?.strip_suffix("_tokens_per_s")?;
            Some(format!("{phase} {value:.0}"))
        })
        .collect();
    if !speeds.is_empty() {
        let _ = writeln!(text, "\n  tokens/s: {}", speeds.join(", "));
    }
    let dir = summary.directory.display();
    let _ =
        writeln!(text, "  run:      {dir} (metrics.jsonl, tensorboard/, rollouts/, evaluations/)");
    if let Some(checkpoint) = &summary.checkpoint {
        let _ = writeln!(text, "  model:    {}", checkpoint.display());
    }
    if let Some((step, score)) = summary.best
        && step != summary.step
    {
        let _ = writeln!(
            text,
            "  best:     {dir}/checkpoints/step-{step:06}, accuracy {:.1} %",
            100.0 * score
        );
    }
    text
}

/// The next commands for a complete run, each whole on a line of its own, so that it can be copied.
fn what_next(summary: &RunSummary, command: &str, width: Option<usize>) -> String {
    let (Ending::Complete, Some(checkpoint)) = (summary.ending, &summary.checkpoint) else {
        return String::new();
    };
    let path = |path: &Path| word(&path.display().to_string());
    let (dir, checkpoint_path) = (path(&summary.directory), path(checkpoint));
    let more = 2 * summary.step;
    let mut text = "\n  what next:\n".to_owned();
    if let Some(example) = &summary.example {
        let flags = example.flags();
        let _ = writeln!(text, "    isentrope generate {checkpoint_path} {flags}");
    }
    if AdapterConfig::is_in(checkpoint) {
        text += &explained(
            &format!("isentrope merge {checkpoint_path} --out merged"),
            "one model of base and adapter",
            width,
        );
    }
    let run = format!("isentrope {command} {}", path(&summary.directory.join("recipe.toml")));
    text += &explained(
        &format!("isentrope report {dir}"),
        "what happened, as a web page to share",
        width,
    );
    let _ = writeln!(text, "    {run} --resume --set run.steps={more}");
    text += &explained(&format!("{run} --dry-run --all"), "shows every setting", width);
    text +=
        &explained(&format!("isentrope {command} --keys"), "says what each setting means", width);
    text
}

/// A command with its description behind it, or below it on a narrow terminal.
fn explained(command: &str, does: &str, width: Option<usize>) -> String {
    let line = format!("    {command}      {does}");
    if width.is_none_or(|width| line.width() <= width) {
        line + "\n"
    } else {
        format!("    {command}\n      {does}\n")
    }
}

/// How well the theory predicted the run's entropy, if the run has tracked it.
fn theory_lines(run: &Path, log: Option<&RunLog>) -> String {
    let tracked = log.and_then(TheoryOfRun::of);
    tracked.map_or_else(String::new, |theory| {
        let run = word(&run.display().to_string());
        format!("\n{}    `isentrope lab theory {run}` has more\n", of_predictions(&theory))
    })
}

/// A table of the last evaluation, with the first one beside it if there is one. Columns are as
/// wide as their cells.
fn evaluation_table(first: Option<&Evaluation>, last: &Evaluation, step: u64) -> String {
    let head = |step: u64| format!("step {step}");
    let heads = first.map(|_| head(0)).into_iter().chain([head(step)]).collect();
    let mut lines: Vec<(String, Vec<String>)> = vec![(format!("  {}", last.name), heads)];
    for (name, value) in rows(last) {
        let before = first.map(|first| {
            let before = rows(first).into_iter().find(|(of_first, _)| *of_first == name);
            before.map_or_else(|| "-".to_owned(), |(_, value)| value)
        });
        lines.push((format!("    {name}"), before.into_iter().chain([value]).collect()));
    }
    let names = lines.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let column = lines.iter().flat_map(|(_, cells)| cells).map(|cell| cell.width()).max();
    let column = column.unwrap_or(0);
    let line = |(name, cells): &(String, Vec<String>)| {
        let cells: String = cells.iter().map(|cell| format!("  {cell:>column$}")).collect();
        format!("{name:names$}{cells}\n")
    };
    lines.iter().map(line).collect()
}

fn rows(e: &Evaluation) -> Vec<(String, String)> {
    let percent = |v: f64| format!("{:.1} %", 100.0 * v);
    let judged = |v: Option<f64>| v.map_or_else(|| "n/a".into(), percent);
    let mut rows = vec![("accuracy, mean of samples".to_owned(), judged(e.mean))];
    rows.extend(e.parts.iter().map(|part| (format!("  of {}", part.name), judged(part.mean))));
    if let (true, Some(score)) = (e.is_graded, e.score) {
        rows.push(("score, mean of responses".to_owned(), format!("{score:.4}")));
    }
    for (k, value) in e.pass.iter().filter(|(k, _)| *k > 1) {
        rows.push((format!("pass@{k}"), percent(*value)));
    }
    if e.samples > 2 {
        rows.push((format!("maj@{}", e.samples), judged(e.majority)));
    }
    rows.extend(e.entropy.map(|nats| ("entropy, nats per token".to_owned(), format!("{nats:.3}"))));
    rows.push(("response length, tokens".to_owned(), format!("{:.1}", e.length)));
    if e.truncated > 0.0 {
        rows.push(("cut off at the limit".to_owned(), percent(e.truncated)));
    }
    if e.faults > 0.0 {
        rows.push(("could not be judged".to_owned(), percent(e.faults)));
    }
    if e.failed > 0.0 {
        rows.push(("failed, so wrong".to_owned(), percent(e.failed)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_train::metrics::Metrics;

    fn evaluation(faults: f64) -> Evaluation {
        let judged = (faults < 1.0).then_some(0.0);
        let (mean, score, majority, entropy, length) = (judged, judged, judged, Some(1.0), 3.0);
        Evaluation {
            name: "set".into(),
            samples: 4,
            mean,
            is_further: false,
            parts: Vec::new(),
            score,
            is_graded: false,
            pass: vec![],
            majority,
            entropy,
            length,
            truncated: 0.0,
            faults,
            failed: 0.0,
            of_verifier: Default::default(),
            note: None,
        }
    }

    #[test]
    fn a_step_can_be_lost_until_its_checkpoint_is_written() {
        let mut terminal = Terminal::new();
        let metrics = Metrics::default();
        let (metrics, timings) = (&metrics, &metrics);
        for step in [1, 2] {
            terminal.step(&StepReport { step, steps: 3, metrics, timings, remarks: &[] });
            terminal.progress(Progress { phase: Phase::Checkpoint, done: 0, total: 1, tokens: 0 });
            assert_eq!(terminal.saved, step - 1, "a kill would leave no whole checkpoint");
            terminal.is_over();
            assert_eq!(terminal.saved, step);
        }
    }

    #[test]
    fn a_command_stays_whole_whatever_the_width() {
        let explained = |width| explained("isentrope report runs/x", "what happened", width);
        let line = "    isentrope report runs/x      what happened\n";
        assert_eq!(explained(None), line);
        assert_eq!(explained(Some(46)), line);
        assert_eq!(explained(Some(45)), "    isentrope report runs/x\n      what happened\n");
    }

    #[test]
    fn the_table_of_evaluations_stays_whole_on_a_narrow_terminal() {
        let first = Evaluation { mean: None, majority: Some(0.5), ..evaluation(0.0) };
        let last = Evaluation { mean: Some(0.125), majority: None, ..evaluation(0.25) };
        let table = evaluation_table(Some(&first), &last, 100);
        assert_eq!(messages::fitted(&table, Some(50)), table);
        let expected = "  set                            step 0  step 100
    accuracy, mean of samples       n/a    12.5 %
    maj@4                        50.0 %       n/a
    entropy, nats per token       1.000     1.000
    response length, tokens         3.0       3.0
    could not be judged               -    25.0 %
";
        assert_eq!(table, expected);
    }

    #[test]
    fn accuracy_is_told_only_where_something_was_judged() {
        let shown = |faults, name: &str| {
            rows(&evaluation(faults)).into_iter().find(|row| row.0 == name).map(|row| row.1)
        };
        for name in ["accuracy, mean of samples", "maj@4"] {
            assert_eq!(shown(1.0, name).as_deref(), Some("n/a"));
            assert_eq!(shown(0.25, name).as_deref(), Some("0.0 %"));
        }
        assert_eq!(shown(0.25, "could not be judged").as_deref(), Some("25.0 %"));
        assert_eq!(shown(0.0, "could not be judged"), None);
        assert_eq!(shown(0.0, "score, mean of responses"), None);
        let graded = Evaluation { score: Some(-0.25), is_graded: true, ..evaluation(0.0) };
        assert!(rows(&graded).contains(&("score, mean of responses".into(), "-0.2500".into())));
    }
}

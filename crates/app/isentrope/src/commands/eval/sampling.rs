//! Samples a benchmark. Judged responses are kept, and each finished problem is written at once.

use crate::interrupt::{self, Interrupted};
use crate::loaded_model::Loaded;
use crate::messages;
use crate::progress::Work;
use anyhow::Result;
use isentrope_evaluation::results::Results;
use isentrope_evaluation::{EvaluationSet, Evaluator};
use isentrope_rollout::{Interrupt, Progress, ProgressObserver};
use std::path::Path;
use std::time::Instant;

/// Samples and judges the problems that a benchmark still lacks.
pub fn sample(
    evaluator: &Evaluator<'_>,
    set: &EvaluationSet,
    loaded: &Loaded,
    results: &Results,
    out: &Path,
) -> Result<()> {
    let samples = set.decoding.samples;
    let Some(mut log) = results.log(&set.name, set.problems.len(), samples)? else {
        messages::say(&format!("{}: complete already", set.name));
        return Ok(());
    };
    let missing = log.missing();
    let done = set.problems.len() - missing.len();
    if log.unjudged() > 0 {
        messages::say(&format!(
            "{}: {} responses could not be judged; judging them again",
            set.name,
            log.unjudged()
        ));
    }
    if done > 0 {
        messages::say(&format!(
            "{}: going on after {done} of {} problems",
            set.name,
            set.problems.len()
        ));
    }
    let mut watcher = Watcher::new(&set.name, missing.len() * set.decoding.sampled());
    let add =
        &mut |place: usize, responses: Vec<_>| log.add(place, &set.problems[place].0, &responses);
    let ended =
        evaluator.respond(&loaded.model, set, &missing, Interrupt::WhenAsked, add, &mut watcher)?;
    watcher.work.finish();
    if ended.is_break() {
        let left = log.missing().len();
        let kept = format!(
            "{} of {} problems of {} are in {}; the same command goes on",
            set.problems.len() - left,
            set.problems.len(),
            set.name,
            out.display()
        );
        return Err(Interrupted { kept }.into());
    }
    Ok(log.finish()?)
}

/// Shows how sampling goes.
struct Watcher {
    work: Work,
    name: String,
    started: Instant,
}

impl Watcher {
    fn new(name: &str, responses: usize) -> Self {
        let work = Work::new("responses", Some(responses as u64), false);
        Self { work, name: name.to_owned(), started: Instant::now() }
    }
}

impl ProgressObserver for Watcher {
    fn stop_requested(&self) -> bool {
        interrupt::requested()
    }

    fn progress(&mut self, progress: Progress) {
        let speed = progress.tokens as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        self.work.advance(progress.done as u64, &format!("{}, {speed:.0} tokens/s", self.name));
    }

    fn note(&mut self, text: &str) {
        self.work.note(text);
    }
}

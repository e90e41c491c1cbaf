//! The head of a run: its state in a sentence, its settings, its warnings.

use super::tail::{last_lines, row_of};
use crate::Result;
use crate::alarms::Alarm;
use crate::log::Series;
use crate::number::number;
use crate::run::{Condition, Run, State};
use crate::run_files::{METRICS, RECIPE};
use crate::terminal::{Look, Paint, duration};
use serde_json::Value;

/// Most names in a list of metrics; the rest are counted.
const NAMED: usize = 4;

/// The head of a run, in lines.
pub(super) fn lines(run: &Run, look: &Look) -> Vec<String> {
    let name = look.paint(Paint::Heading, &look.clean(&run.name));
    let mut lines = look.paragraph(&format!("{name}: {}", sentence(&run.state, look)), 0);
    let remedy = remedy(run);
    for text in run.recipe.as_ref().and_then(settings).iter().chain(&remedy) {
        lines.extend(look.paragraph(&look.clean(text), 2));
    }
    lines.extend(look.listed(warnings(run).iter().map(String::as_str)));
    lines
}

/// The state in a sentence.
fn sentence(state: &State, look: &Look) -> String {
    let step = match (state.step, state.steps) {
        (None, _) => "nothing measured yet".to_owned(),
        (Some(step), Some(steps)) if step <= steps => format!("step {step} of {steps}"),
        // The recipe of a resumed run may ask for fewer steps than it has made.
        (Some(step), Some(steps)) => format!("step {step}, past run.steps = {steps}"),
        (Some(step), None) => format!("step {step}"),
    };
    let word = match state.condition {
        Condition::Training => look.paint(Paint::Good, "training") + ", ",
        Condition::Complete => look.paint(Paint::Good, "finished") + ", ",
        Condition::Stopped => look.paint(Paint::Doubtful, "stopped") + ", ",
        Condition::Unknown => String::new(),
    };
    let mut text = word + &step;
    // The time of the last steps is not that of all steps of a finished run.
    if let Some(seconds) = state.step_seconds.filter(|_| state.condition != Condition::Complete) {
        let time = if seconds < 1.0 { format!("{seconds:.2} s") } else { duration(seconds) };
        text += &format!(", {time} per step");
    }
    if state.condition == Condition::Training {
        if let Some(seconds) = state.seconds_left() {
            text += &format!(", {} left", duration(seconds));
        }
        if let Some(seconds) = state.silent {
            text += &format!(", nothing new for {}", duration(seconds));
        }
    } else if state.seconds > 0.0 {
        let all = if state.has_evaluation { "in all" } else { "of training" };
        text += &format!(", {} {all}", duration(state.seconds));
    }
    text
}

/// The command that resumes a stopped run.
fn remedy(run: &Run) -> Option<String> {
    let command = if run.recipe.as_ref()?.get("sft").is_some() { "sft" } else { "train" };
    let path = run.log.path.join(RECIPE);
    let is_stopped = run.state.condition == Condition::Stopped;
    is_stopped.then(|| format!("isentrope {command} {} --resume goes on", path.display()))
}

/// The settings that tell runs apart at a glance: model, objective with its methods, seed.
fn settings(recipe: &Value) -> Option<String> {
    let mut settings = vec![recipe["model"]["path"].as_str()?.to_owned()];
    let objective = &recipe["objective"];
    let named = [&objective["advantage"], &objective["loss"]];
    settings.extend(named.iter().filter_map(|v| Some(v.as_str()?.into())));
    let method = objective["covariance"]["method"].as_str();
    settings.extend(method.filter(|method| *method != "none").map(str::to_owned));
    // The recipe of a run states all tables, and those that are off as null.
    let tables = objective["methods"].as_object().into_iter().flatten();
    settings.extend(tables.filter(|(_, table)| !table.is_null()).map(|(name, _)| name.clone()));
    if recipe.get("sft").is_some() {
        settings.push("supervised".to_owned());
    }
    settings.extend(recipe["run"]["seed"].as_u64().map(|seed| format!("seed {seed}")));
    Some(settings.join(", "))
}

/// Defects of a run, in sentences.
fn warnings(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    if run.state.condition != Condition::Training {
        // During training the last line may be incomplete.
        warnings.extend(run.log.notes.iter().cloned());
    }
    let last = run.log.last_step().filter(|last| *last > 0);
    if last.is_some_and(|last| run.log.has_same_weights(0, last)) {
        warnings.push("no update has changed the weights: whatever differs is chance".to_owned());
    }
    warnings.extend(run.skipped_updates().map(|skipped| {
        format!("{} updates were left out because their gradient was not finite", number(skipped))
    }));
    warnings.extend(alarms(run.alarms()));
    match not_finite(run) {
        Ok(sentence) => warnings.extend(sentence),
        Err(error) => warnings.push(error.to_string()),
    }
    warnings
}

/// The last alarm of each kind. An alarm may come every few steps, and all of them would leave no
/// room for curves.
fn alarms(all: &[(u64, Alarm)]) -> impl Iterator<Item = String> {
    let is_last = |i: &usize| all[i + 1..].iter().all(|(_, later)| later.kind != all[*i].1.kind);
    (0..all.len()).filter(is_last).map(|i| {
        let (step, Alarm { kind, text }) = &all[i];
        let again = match all[..i].iter().filter(|(_, earlier)| earlier.kind == *kind).count() {
            0 => String::new(),
            1 => " (and once before)".to_owned(),
            times => format!(" (and {times} times before)"),
        };
        format!("step {step}{again}: {text}")
    })
}

/// The metrics of the last step that are not finite, in a sentence.
fn not_finite(run: &Run) -> Result<Option<String>> {
    let Some(files) = run.files() else { return Ok(None) };
    let path = files.dir.join(METRICS);
    let line = if path.exists() { last_lines(&path, 1)?.pop() } else { None };
    let Some(line) = line else { return Ok(None) };
    let row = row_of(&line, &path, "last line")?;
    let names: Vec<&String> =
        row.iter().filter(|(_, v)| v.is_null()).map(|(name, _)| name).collect();
    let [first, ..] = &names[..] else { return Ok(None) };
    let listed: Vec<&str> = names.iter().take(NAMED).map(|name| name.as_str()).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let since = match run.log.series(first).and_then(Series::last) {
        Some((step, _)) => format!("; {first} was last finite in step {step}"),
        None => format!("; {first} never was"),
    };
    let step = row.get("step").and_then(Value::as_u64).unwrap_or_default();
    Ok(Some(format!("not finite in step {step}: {}{more}{since}", listed.join(", "))))
}

//! The summary, in sentences. Every sentence has its numbers. Quantities that were not measured are
//! left out.

use super::MAX_SETS;
use super::change::{Change, OfResponses, half_way};
use super::law_section::{ceiling, refusals, remarks};
use super::legend::swatch;
use super::number::{NATS, count, percent, plain};
use super::parts;
use super::run::{PageRun, place};
use super::text::{short_name, words};
use crate::law::points::{ROLLOUT, SetPoints};
use crate::log::{Series, of_set};
use crate::run::EvaluatedSet;
use crate::terminal::duration;
use isentrope_objective::catalogue;
use serde_json::Value;

/// From this share on, the share of prompts without a signal is in bold.
const DULL: f64 = 0.5;
/// The least share of truncated responses whose mean is reported.
const TRUNCATED: f64 = 0.02;
/// Most alarms in a summary.
const MAX_ALARMS: usize = 20;
/// Summaries of more runs than this are folded.
const MANY: usize = 4;
/// Metrics besides entropies whose last finite value shows that a run diverged.
const FINITE: [&str; 3] = ["policy/loss", "grad/norm", "sft/loss"];

/// The section.
pub(super) fn html(runs: &[PageRun]) -> String {
    let mut html = String::from("<section id=\"summary\">\n<h2>What happened</h2>\n");
    for (i, run) in runs.iter().enumerate() {
        let text = list(&sentences(run));
        let name = format!("{}{}", swatch(i), run.html());
        html += &match runs.len() {
            1 => text,
            n if n > MANY => {
                format!("<details class=\"run\">\n<summary>{name}</summary>\n{text}</details>\n")
            }
            _ => format!("<h3>{name}</h3>\n{text}"),
        };
    }
    html + "</section>\n"
}

fn list(sentences: &[String]) -> String {
    let items: String = sentences.iter().map(|sentence| format!("<li>{sentence}</li>\n")).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// A run in sentences, as HTML.
fn sentences(run: &PageRun) -> Vec<String> {
    let Some(last) = run.data.log.last_step() else {
        return vec!["Nothing has been measured yet: its log has no numbers.".into()];
    };
    let mut all = vec![extent(run, last)];
    all.extend(objective(run));
    if last > 0 && run.data.log.has_same_weights(0, last) {
        all.push(format!(
            "<strong>No update has changed the weights</strong>: they are after step {last} what \
             they were at the start."
        ));
    }
    all.extend(divergence(run, last));
    all.extend(alarms(run));
    for set in run.sets().take(MAX_SETS) {
        all.extend(entropy(run, set));
        all.extend(accuracy(run, set));
        all.extend(parts::sentence(run, &set.measured.set));
        all.push(the_law(run, set));
    }
    let sets = run.sets().count();
    if sets > MAX_SETS {
        all.push(format!("The tables speak of the other {} evaluation sets.", sets - MAX_SETS));
    }
    if sets == 0 {
        all.extend(sampled_entropy(run));
    }
    let others = [truncation(run), signal(run), covariance(run)];
    all.extend(others.into_iter().flatten());
    all
}

fn values<'a>(run: &'a PageRun, metric: &str) -> Option<&'a Series> {
    run.data.log.series(metric)
}

/// The first and the last value.
fn ends(series: &Series) -> Option<(f64, f64)> {
    Some((series.first()?.1, series.last()?.1))
}

fn mean_of(run: &PageRun, metric: &str) -> Option<f64> {
    Some(values(run, metric)?.mean())
}

fn sum_of(run: &PageRun, metric: &str) -> f64 {
    values(run, metric).map_or(0.0, |series| series.values.iter().sum())
}

fn code(metric: &str) -> String {
    format!("<code>{}</code>", short_name(metric))
}

fn steps(number: u64) -> String {
    if number == 1 { "1 step".into() } else { format!("{} steps", count(number as f64)) }
}

fn extent(run: &PageRun, last: u64) -> String {
    let planned = run.data.setting("run.steps").and_then(Value::as_u64);
    let time = run.data.log.seconds().map_or(String::new(), |(seconds, has_evaluation)| {
        let what = if has_evaluation { "training and evaluation" } else { "training" };
        format!(", in {} of {what}", duration(seconds))
    });
    let step = count(last as f64);
    match planned {
        Some(planned) if planned == last => {
            format!("It ran for all <b>{}</b> of its recipe{time}.", steps(last))
        }
        Some(planned) if planned > last => format!(
            "It has come to step <b>{step}</b> of the {} in its recipe{time}: it was interrupted, \
             or is still running.",
            count(planned as f64)
        ),
        _ => format!("Its log goes to step <b>{step}</b>{time}."),
    }
}

/// The losses, advantages and methods that the recipe switches on, by their names in the field.
fn objective(run: &PageRun) -> Option<String> {
    let is_on = |setting: &str| match setting.split_once(" = ") {
        Some((key, value)) => {
            let value: Option<Value> = serde_json::from_str(value).ok();
            run.data.setting(key).is_some_and(|found| Some(found) == value.as_ref())
        }
        None => run
            .data
            .setting(setting)
            .is_some_and(|found| !found.is_null() && found.as_f64() != Some(0.0)),
    };
    // The exact divergence takes the place of the teacher's part of the advantages.
    let replaced = |setting: &str| {
        let exact = "objective.distillation.divergence = \"reverse-kl\"";
        setting.starts_with("objective.distillation.") && setting != exact && is_on(exact)
    };
    let is_part = |setting: &str| is_on(setting) && !replaced(setting);
    let parts = catalogue().into_iter().filter(|about| is_part(about.setting));
    let parts: Vec<String> =
        parts.map(|about| format!("{} ({})", about.name, about.kind)).collect();
    let (last, rest) = parts.split_last()?;
    let and = if rest.is_empty() { "" } else { " and " };
    Some(format!("Its objective is {}{and}{last}.", rest.join(", ")))
}

/// Numbers that stop being finite while the log goes on, and updates that were left out.
fn divergence(run: &PageRun, last: u64) -> Option<String> {
    let log = &run.data.log;
    let of_steps = FINITE.into_iter().filter_map(|metric| Some((metric, values(run, metric)?)));
    let gone = of_steps.chain(log.entropy()).filter_map(|(metric, series)| {
        // A Trainer that logs every tenth step may end between two logs.
        let apart = series.steps.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
        let (step, _) = series.last()?;
        (last - step >= apart).then(|| (metric.to_owned(), step))
    });
    let of_sets = log.accuracies().into_iter().filter_map(|(set, accuracy)| {
        let metric = of_set(set, "entropy");
        let (step, _) = log.series(&metric)?.last()?;
        let (evaluated, _) = log.series(&of_set(set, accuracy.what))?.last()?;
        (step < evaluated).then_some((metric, step))
    });
    let gone = gone.chain(of_sets.take(MAX_SETS));
    let gone: Vec<String> =
        gone.map(|(metric, step)| format!("{} after step {step}", code(&metric))).collect();
    let mut sentences = Vec::new();
    if !gone.is_empty() {
        sentences.push(format!(
            "<strong>It may have diverged</strong>: there is no finite value of {}, while the log \
             goes on to step {last}.",
            gone.join(", ")
        ));
    }
    sentences.extend(run.data.skipped_updates().map(|skipped| {
        format!("{} updates were left out because their gradient was not finite.", count(skipped))
    }));
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// The alarms that training gave, or would have given.
fn alarms(run: &PageRun) -> Vec<String> {
    let alarms = run.data.alarms();
    let shown = alarms.iter().take(MAX_ALARMS).map(|(step, alarm)| {
        format!("<strong>Alarm after step {step}</strong>: {}", words(&alarm.text))
    });
    let more = alarms.len().saturating_sub(MAX_ALARMS);
    let more = (more > 0).then(|| format!("There are {} more alarms.", count(more as f64)));
    shown.chain(more).collect()
}

/// Where an entropy was measured, in words.
fn which_entropy(measured: &SetPoints) -> String {
    let place = if measured.entropy.starts_with("eval/") {
        format!("Entropy in evaluations on <bdi>{}</bdi>", short_name(&measured.set))
    } else {
        "Entropy of the responses sampled for training".into()
    };
    format!("{place} ({})", code(&measured.entropy))
}

fn entropy(run: &PageRun, set: &EvaluatedSet) -> Option<String> {
    let what = which_entropy(&set.measured);
    let points = set.measured.points.iter();
    let series: Vec<(u64, f64)> = points.map(|point| (point.step, point.entropy)).collect();
    let change = if set.measured.set == ROLLOUT {
        Change::of_rollouts(run, &series)
    } else if set.measured.entropy.starts_with("eval/") {
        Change::of_set(run, &set.measured.set, OfResponses::Entropy, &series)
    } else {
        Change::of(run, &series)
    }?;
    let mut text = format!("{what} {}", change.words(&NATS));
    if change.is_fall()
        && let Some(step) = half_way(&series)
    {
        let [(_, first), (last, end)] = change.ends;
        // Nothing has no shares.
        if first > 0.0 {
            text += &format!(", {}", percent((first - end) / first));
        }
        text += &format!("; half of the fall was over by step {step} of {last}");
    }
    Some(text + ".")
}

fn accuracy(run: &PageRun, set: &EvaluatedSet) -> Option<String> {
    let SetPoints { set: name, accuracy, .. } = &set.measured;
    let place = if name == ROLLOUT { "the training prompts".into() } else { short_name(name) };
    let what = format!("Accuracy on <bdi>{place}</bdi> ({})", code(accuracy));
    let all = values(run, accuracy)?;
    let series: Vec<(u64, f64)> = all.iter().collect();
    let change = if name == ROLLOUT {
        Change::of_rollouts(run, &series)
    } else if accuracy.contains("/mean@") {
        Change::of_set(run, name, OfResponses::Accuracy, &series)
    } else {
        Change::of(run, &series)
    }?;
    let scale = run.scale(accuracy);
    let mut text = format!("{what} {}", change.words(scale));
    if change.is_rise()
        && let Some(step) = half_way(&series)
    {
        text += &format!("; half of the gain was made by step {step}");
    }
    let [_, (last, _)] = change.ends;
    if series.len() > 1 && !change.has_same_weights {
        let (step, best) = all.largest()?;
        text += &match step == last {
            true => "; that is its best".to_owned(),
            false => format!("; its best was {} after step {step}", (scale.value)(best)),
        };
    }
    Some(text + ".")
}

fn the_law(run: &PageRun, set: &EvaluatedSet) -> String {
    let (measured, study) = (&set.measured, set.study());
    let place = short_name(place(&measured.set));
    let Some(fit) = study.holds() else {
        let why = words(&refusals(study));
        return format!("The law gives no prediction on <bdi>{place}</bdi>: {why}");
    };
    let Some((_, last)) = set.ends() else { return String::new() };
    let fitted = format!(
        "By the law fitted to {} evaluations on <bdi>{place}</bdi> (R² {})",
        measured.points.len(),
        plain(fit.r_squared)
    );
    let scale = run.scale(&measured.accuracy);
    let ceiling = ceiling(study, scale).unwrap_or_default();
    if study.is_of_shares() && !(0.0..=1.0).contains(&fit.ceiling.value) {
        return format!(
            "{fitted}, accuracy would end {ceiling} when no entropy is left, which cannot be: the \
             part of the way that was seen is too small to say where it ends."
        );
    }
    let left = fit.ceiling.value - last.accuracy;
    let left = if left > 0.0 {
        let nats = plain(last.entropy);
        format!("the {nats} nats that are left would buy {} more", scale.with_unit(left))
    } else {
        format!("the last evaluation is {} above it already", scale.with_unit(-left))
    };
    let remarks = words(&remarks(study));
    format!("{fitted}, accuracy ends at <b>{ceiling}</b> when no entropy is left; {left}.{remarks}")
}

/// The entropy of runs without any accuracy: fine-tuning, or logs that have none.
fn sampled_entropy(run: &PageRun) -> Option<String> {
    let of_examples = || Some(("sft/entropy", values(run, "sft/entropy")?));
    let (metric, series) = run.data.log.entropy().or_else(of_examples)?;
    let change = Change::of_rollouts(run, &series.iter().collect::<Vec<_>>())?;
    Some(format!("Entropy ({}) {}.", code(metric), change.words(&NATS)))
}

fn truncation(run: &PageRun) -> Option<String> {
    let series = values(run, "response/truncated")?;
    let (step, most) = series.largest()?;
    let limit = run.data.setting("rollout.max_tokens").and_then(Value::as_u64);
    let turns = run.data.setting("environment.max_turns").and_then(Value::as_u64);
    let limit = match (limit, turns) {
        (None, _) => String::new(),
        (Some(limit), None) => format!(" of {limit} tokens"),
        (Some(limit), Some(turns)) => format!(" of {turns} turns or {limit} tokens"),
    };
    let at_most = percent(most);
    if most < TRUNCATED {
        return Some(format!(
            "At most {at_most} of a step’s responses were cut off at the limit{limit}."
        ));
    }
    let (mean, last) = (percent(series.mean()), percent(ends(series)?.1));
    Some(format!(
        "<b>{mean}</b> of the responses were cut off at the limit{limit} in the mean over steps, \
         {last} in the last step and {at_most} at most (step {step})."
    ))
}

fn signal(run: &PageRun) -> Option<String> {
    let (all, none) = (mean_of(run, "reward/solved_all")?, mean_of(run, "reward/solved_none")?);
    let weight = if all + none > DULL { "strong" } else { "b" };
    let [dull, all, none] = [all + none, all, none].map(percent);
    Some(format!(
        "<{weight}>{dull}</{weight}> of the sampled prompts gave no signal in the mean over steps: \
         {all} were solved by all responses, {none} by none."
    ))
}

/// The effect of the covariance method, if the log has one.
fn covariance(run: &PageRun) -> Option<String> {
    let method = run.data.setting("objective.covariance.method").and_then(Value::as_str);
    let picked = sum_of(run, "cov/selected");
    if method == Some("none") || (method.is_none() && picked == 0.0) {
        values(run, "cov/max")?;
        let (from, to) = ends(values(run, "cov/p99")?)?;
        return Some(format!(
            "No covariance method held tokens back. The covariance’s 99th percentile went from {} \
             to {} nats.",
            plain(from),
            plain(to)
        ));
    }
    let name = match method {
        Some("kl-cov") => "KL-Cov".into(),
        Some("clip-cov") => "Clip-Cov".into(),
        Some(other) => words(other),
        None => "The covariance method".into(),
    };
    if picked == 0.0 {
        let steps = steps(run.data.log.last_step()?);
        return Some(format!(
            "<strong>{name} picked no token</strong> in {steps}: it had no effect."
        ));
    }
    let eligible = sum_of(run, "cov/eligible");
    let of = if eligible > 0.0 {
        format!(", {} of those that it could pick from", percent(picked / eligible))
    } else {
        String::new()
    };
    let share = match values(run, "cov/gradient_share") {
        None => String::new(),
        Some(series) if series.largest().is_some_and(|(_, share)| share == 0.0) => {
            "; its term was 0 in the gradient of every step: <strong>it had no effect</strong>"
                .into()
        }
        Some(series) => {
            let verb = if method == Some("clip-cov") { "took away" } else { "was" };
            let mean = percent(series.mean());
            format!("; its term {verb} {mean} of the gradient by log-prob in the mean over steps")
        }
    };
    let picked = count(picked);
    Some(format!("{name} picked <b>{picked}</b> tokens in all{of}{share}."))
}

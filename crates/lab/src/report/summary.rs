//! What happened, in sentences. Every one has its numbers with it; what was not measured is not spoken of.

use super::MAX_SETS;
use super::curves::swatch;
use super::law_section::{LawSection, ceiling, refusals, remarks};
use super::number::{count, percent, plain};
use super::overview::best;
use super::parts;
use super::run::{Run, accuracies, ends, place};
use super::text::{short_name, words};
use crate::alarms::{Alarm, of_log};
use crate::collapse::{GAINED, SPENT, growth, half_way, is_more};
use crate::law::points::{Measured, ROLLOUT};
use crate::law::{Point, Study};
use crate::log::{Series, of_set};
use std::fmt::Write;

/// A share of prompts without a signal that is worth a word.
const DULL: f64 = 0.5;
/// A share of truncated responses that is.
const TRUNCATED: f64 = 0.02;

/// Most alarms that are told.
const MAX_ALARMS: usize = 20;
/// More runs than these are folded up.
const MANY: usize = 4;

/// Metrics beside entropies whose last finite value tells of a run that diverged.
const FINITE: [&str; 3] = ["policy/loss", "grad/norm", "sft/loss"];

/// The section.
pub(super) fn html(runs: &[Run], law: &LawSection) -> String {
    let mut html = String::from("<section id=\"summary\">\n<h2>What happened</h2>\n");
    let compared = compared(runs);
    if !compared.is_empty() {
        html += &list(&compared);
    }
    for (i, run) in runs.iter().enumerate() {
        let said = list(&sentences(run, i, law));
        let name = format!("{}{}", swatch(i), run.html());
        html += &match runs.len() {
            1 => said,
            n if n > MANY => {
                format!("<details class=\"run\">\n<summary>{name}</summary>\n{said}</details>\n")
            }
            _ => format!("<h3>{name}</h3>\n{said}"),
        };
    }
    html + "</section>\n"
}

fn list(sentences: &[String]) -> String {
    let items: String = sentences.iter().map(|sentence| format!("<li>{sentence}</li>\n")).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// What happened in a run, as HTML.
fn sentences(run: &Run, number: usize, law: &LawSection) -> Vec<String> {
    let Some(last) = run.log.last_step() else {
        return vec!["Nothing has been measured yet: its log has no numbers.".into()];
    };
    let mut all = vec![extent(run, last)];
    all.extend(divergence(run, last));
    all.extend(alarms(run));
    for (i, measured) in run.measured.iter().take(MAX_SETS).enumerate() {
        all.extend(entropy(measured));
        all.extend(accuracy(run, measured));
        all.extend(parts::sentence(run, &measured.set));
        all.extend(law.study(number, i).map(|study| the_law(measured, study)));
    }
    if run.measured.len() > MAX_SETS {
        all.push(format!("The tables speak of the other {} evaluation sets.", run.measured.len() - MAX_SETS));
    }
    if run.measured.is_empty() {
        all.extend(sampled_entropy(run));
    }
    all.extend(
        [length(run), truncation(run), signal(run), covariance(run), updates(run)].into_iter().flatten(),
    );
    all
}

fn values<'a>(run: &'a Run, metric: &str) -> Option<&'a Series> {
    run.log.series(metric).filter(|series| !series.values.is_empty())
}

fn first_and_last(series: &Series) -> (f64, f64) {
    let first = series.values.first().copied().unwrap_or(f64::NAN);
    (first, series.last().map_or(f64::NAN, |(_, value)| value))
}

fn mean(series: &Series) -> f64 {
    series.values.iter().sum::<f64>() / series.values.len() as f64
}

/// The largest value and its first step.
fn largest(series: &Series) -> Option<(u64, f64)> {
    series.iter().reduce(|best, point| if point.1 > best.1 { point } else { best })
}

/// A difference of shares, in percentage points.
fn points(difference: f64) -> String {
    let points = 100.0 * difference;
    if points.abs() < 1e6 { format!("{points:.1} points") } else { format!("{} points", plain(points)) }
}

fn code(metric: &str) -> String {
    format!("<code>{}</code>", short_name(metric))
}

fn steps(number: u64) -> String {
    if number == 1 { "1 step".into() } else { format!("{} steps", count(number as f64)) }
}

fn extent(run: &Run, last: u64) -> String {
    let planned = run.setting("run.steps").and_then(serde_json::Value::as_u64);
    let time = run.log.seconds().map_or(String::new(), |(seconds, has_evaluation)| {
        let what = if has_evaluation { "training and evaluation" } else { "training" };
        format!(", in {} of {what}", duration(seconds))
    });
    match planned {
        Some(planned) if planned == last => {
            format!("It ran for all <b>{}</b> of its recipe{time}.", steps(last))
        }
        Some(planned) if planned > last => format!(
            "It has come to step <b>{}</b> of the {} in its recipe{time}: it was interrupted, or is still running.",
            count(last as f64),
            count(planned as f64)
        ),
        _ => format!("Its log goes to step <b>{}</b>{time}.", count(last as f64)),
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} seconds"),
        s if s < 6000.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 1e9 => format!("{:.1} hours", s / 3600.0),
        s => format!("{} hours", plain(s / 3600.0)),
    }
}

/// Numbers that stop being finite while the log goes on, and updates that were left out.
fn divergence(run: &Run, last: u64) -> Option<String> {
    let of_steps = FINITE.into_iter().filter_map(|metric| Some((metric.to_owned(), values(run, metric)?)));
    let entropy = run.log.entropy().map(|(metric, series)| (metric.to_owned(), series));
    let gone = of_steps.chain(entropy).filter_map(|(metric, series)| {
        // A Trainer that logs every tenth step ends between two.
        let apart = series.steps.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
        let (step, _) = series.last()?;
        (last - step >= apart).then_some((metric, step))
    });
    let of_sets = run.log.accuracies().into_iter().filter_map(|(set, accuracy)| {
        let metric = of_set(set, "entropy");
        let (step, _) = run.log.series(&metric)?.last()?;
        let (evaluated, _) = run.log.series(&of_set(set, accuracy.what))?.last()?;
        (step < evaluated).then_some((metric, step))
    });
    let gone: Vec<String> = gone
        .chain(of_sets.take(MAX_SETS))
        .map(|(metric, step)| format!("{} after step {step}", code(&metric)))
        .collect();
    let skipped = values(run, "optimizer/skipped")
        .map(|series| first_and_last(series).1)
        .filter(|skipped| *skipped > 0.0);
    let mut text = String::new();
    if !gone.is_empty() {
        let _ = write!(
            text,
            "<strong>It may have diverged</strong>: there is no finite value of {}, while the log goes on to step {last}.",
            gone.join(", ")
        );
    }
    if let Some(skipped) = skipped {
        let _ =
            write!(text, " {} updates were left out because their gradient was not finite.", count(skipped));
    }
    (!text.is_empty()).then(|| text.trim_start().to_owned())
}

/// The alarms that training has given, or would have given.
fn alarms(run: &Run) -> Vec<String> {
    let said = |(step, alarm): (u64, Alarm)| {
        format!("<strong>Alarm after step {step}</strong>: {}", words(&alarm.text))
    };
    let given = of_log(&run.log);
    let more = given.len().saturating_sub(MAX_ALARMS);
    let mut all: Vec<String> = given.into_iter().take(MAX_ALARMS).map(said).collect();
    if more > 0 {
        all.push(format!("There are {} more alarms.", count(more as f64)));
    }
    all
}

/// Which entropy this is, in words.
fn which_entropy(measured: &Measured) -> String {
    let place = if measured.entropy.starts_with("eval/") {
        format!("Entropy in evaluations on <bdi>{}</bdi>", short_name(&measured.set))
    } else {
        "Entropy of the responses sampled for training".into()
    };
    format!("{place} ({})", code(&measured.entropy))
}

fn entropy(measured: &Measured) -> Option<String> {
    let what = which_entropy(measured);
    let (first, last) = ends(measured)?;
    if measured.points.len() == 1 {
        return Some(format!(
            "{what}: {} nats after step {}, the only measurement.",
            plain(first.entropy),
            first.step
        ));
    }
    let (from, to) = (plain(first.entropy), plain(last.entropy));
    let Some(fall) = growth(&measured.points, SPENT) else {
        return Some(format!(
            "{what} {} from {from} to <b>{to}</b> nats between steps {} and {}.",
            if is_more(&measured.points, SPENT) { "hardly fell:" } else { "did not fall:" },
            first.step,
            last.step
        ));
    };
    let half = half_way(&measured.points, SPENT).map_or(String::new(), |step| {
        format!("; half of the fall was over by step {step:.0} of {}", last.step)
    });
    let share = if first.entropy > 0.0 {
        format!(", by {}", percent(fall / first.entropy))
    } else {
        String::new() // of nothing there are no shares
    };
    Some(format!("{what} fell from {from} to <b>{to}</b> nats{share}{half}."))
}

fn accuracy(run: &Run, measured: &Measured) -> Option<String> {
    let place =
        if measured.set == ROLLOUT { "the training prompts".into() } else { short_name(&measured.set) };
    let what = format!("Accuracy on <bdi>{place}</bdi> ({})", code(&measured.accuracy));
    let points = accuracies(run, measured);
    let (first, last) = (points.first()?, points.last()?);
    if points.len() == 1 {
        return Some(format!(
            "{what}: {} after step {}, the only measurement.",
            percent(first.accuracy),
            first.step
        ));
    }
    let (from, to) = (percent(first.accuracy), percent(last.accuracy));
    let half = growth(&points, GAINED).and_then(|_| half_way(&points, GAINED));
    let half = half.map_or(String::new(), |step| format!("; half of the gain was made by step {step:.0}"));
    let is_seen = from != to;
    let verb = match last.accuracy - first.accuracy {
        change if change > 0.0 => {
            if is_seen {
                "rose"
            } else {
                "hardly rose:"
            }
        }
        change if change < 0.0 => {
            if is_seen {
                "fell"
            } else {
                "hardly fell:"
            }
        }
        _ => "stayed",
    };
    let best = best(&points)?;
    let best = if best.step == last.step {
        "; that is its best".to_owned()
    } else {
        format!("; its best was {} after step {}", percent(best.accuracy), best.step)
    };
    Some(format!("{what} {verb} from {from} to <b>{to}</b>{half}{best}."))
}

fn the_law(measured: &Measured, study: &Study) -> String {
    let place = short_name(place(&measured.set));
    let Some(fit) = study.holds() else {
        let why = words(&refusals(study));
        return format!("The law gives no prediction on <bdi>{place}</bdi>: {why}");
    };
    let Some((_, last)) = ends(measured) else { return String::new() };
    let fitted = format!(
        "By the law fitted to {} evaluations on <bdi>{place}</bdi> (R² {})",
        measured.points.len(),
        plain(fit.r_squared)
    );
    if !(0.0..=1.0).contains(&fit.ceiling.value) {
        return format!(
            "{fitted}, accuracy would end {} when no entropy is left, which cannot be: the part of the way that was seen is too \
             small to say where it ends.",
            ceiling(fit)
        );
    }
    let left = fit.ceiling.value - last.accuracy;
    let left = if left > 0.0 {
        format!("the {} nats that are left would buy {} more", plain(last.entropy), points(left))
    } else {
        format!("the last evaluation is {} above it already", points(-left))
    };
    format!(
        "{fitted}, accuracy ends at <b>{}</b> when no entropy is left; {left}.{}",
        ceiling(fit),
        words(&remarks(study))
    )
}

/// For runs without any accuracy: fine-tuning, or logs that have none.
fn sampled_entropy(run: &Run) -> Option<String> {
    let metrics =
        ["policy/entropy", "policy/entropy_token_mean", "policy/entropy_token_mean_filtered", "sft/entropy"];
    let (metric, series) = metrics.into_iter().find_map(|metric| Some((metric, values(run, metric)?)))?;
    let (from, to) = first_and_last(series);
    let verb = if to < from { "fell" } else { "did not fall: it went" };
    Some(format!("Entropy ({}) {verb} from {} to <b>{}</b> nats.", code(metric), plain(from), plain(to)))
}

fn length(run: &Run) -> Option<String> {
    let (from, to) = first_and_last(values(run, "response/length_mean")?);
    let verb = match to - from {
        change if change > 0.0 => "grew",
        change if change < 0.0 => "shrank",
        _ => "stayed",
    };
    let longest = values(run, "response/length_max").and_then(largest);
    let longest = longest.map_or(String::new(), |(_, tokens)| format!("; the longest had {}", count(tokens)));
    Some(format!(
        "Sampled responses {verb} from {} to <b>{}</b> tokens in the mean{longest}.",
        plain(from),
        plain(to)
    ))
}

fn truncation(run: &Run) -> Option<String> {
    let series = values(run, "response/truncated")?;
    let (step, most) = largest(series)?;
    let limit = run.setting("rollout.max_tokens").and_then(serde_json::Value::as_u64);
    let limit = limit.map_or(String::new(), |limit| format!(" of {limit} tokens"));
    if most < TRUNCATED {
        return Some(format!(
            "At most {} of a step’s responses were cut off at the limit{limit}.",
            percent(most)
        ));
    }
    Some(format!(
        "<b>{}</b> of the responses were cut off at the limit{limit} in the mean over steps, {} in the last step and {} at most \
         (step {step}).",
        percent(mean(series)),
        percent(first_and_last(series).1),
        percent(most)
    ))
}

fn signal(run: &Run) -> Option<String> {
    let (all, none) = (values(run, "reward/solved_all")?, values(run, "reward/solved_none")?);
    let dull = mean(all) + mean(none);
    let weight = if dull > DULL { "strong" } else { "b" };
    Some(format!(
        "<{weight}>{}</{weight}> of the sampled prompts gave no signal in the mean over steps: {} were solved by all responses, \
         {} by none.",
        percent(dull),
        percent(mean(all)),
        percent(mean(none))
    ))
}

/// What the covariance method did, if the log says that there was one.
fn covariance(run: &Run) -> Option<String> {
    let method = run.setting("objective.covariance.method").and_then(serde_json::Value::as_str);
    let picked = values(run, "cov/selected").map_or(0.0, |series| series.values.iter().sum());
    let largest_covariance = values(run, "cov/max").and_then(largest);
    if method == Some("none") || (method.is_none() && picked == 0.0) {
        let (_, p99) = (largest_covariance?, values(run, "cov/p99")?);
        let (from, to) = first_and_last(p99);
        return Some(format!(
            "No covariance method held tokens back. The covariance’s 99th percentile went from {} to {} nats.",
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
        return Some(format!(
            "<strong>{name} picked no token</strong> in {}: it had no effect.",
            steps(run.log.last_step()?)
        ));
    }
    let eligible: f64 = values(run, "cov/eligible").map_or(0.0, |series| series.values.iter().sum());
    let of = if eligible > 0.0 {
        format!(", {} of those that it could pick from", percent(picked / eligible))
    } else {
        String::new()
    };
    let largest_share = values(run, "cov/gradient_share").and_then(largest);
    let has_no_effect = largest_share.is_some_and(|(_, share)| share == 0.0);
    let share =
        values(run, "cov/gradient_share").filter(|_| !has_no_effect).map_or(String::new(), |series| {
            let does = if method == Some("clip-cov") { "took away" } else { "was" };
            format!(
                "; its term {does} {} of the gradient by log-prob in the mean over steps",
                percent(mean(series))
            )
        });
    let share = if has_no_effect {
        "; its term was 0 in the gradient of every step: <strong>it had no effect</strong>".to_owned()
    } else {
        share
    };
    let unlikely = share_of_picked(run, "cov/quadrant_low_logprob_negative_advantage");
    let unlikely = unlikely.map_or(String::new(), |share| {
        format!(". {} of the picked were unlikely tokens of worse responses", percent(share))
    });
    Some(format!("{name} picked <b>{}</b> tokens in all{of}{share}{unlikely}.", count(picked)))
}

/// A share of the picked tokens, over all steps.
fn share_of_picked(run: &Run, metric: &str) -> Option<f64> {
    let (picked, shares) = (values(run, "cov/selected")?, values(run, metric)?);
    let both: Vec<(f64, f64)> = picked.iter().filter_map(|(step, n)| Some((n, shares.at(step)?))).collect();
    let all: f64 = both.iter().map(|(n, _)| n).sum();
    (all > 0.0).then(|| both.iter().map(|(n, share)| n * share).sum::<f64>() / all)
}

fn updates(run: &Run) -> Option<String> {
    let mut parts = Vec::new();
    if let Some((step, norm)) =
        values(run, "grad/norm_max").or_else(|| values(run, "grad/norm")).and_then(largest)
    {
        parts.push(format!("the largest gradient norm was {} (step {step})", plain(norm)));
    }
    if let Some(series) = values(run, "policy/clip_fraction") {
        parts.push(format!(
            "clipping took the gradient of {} of the tokens in the mean over steps",
            percent(mean(series))
        ));
    }
    if let Some((step, ratio)) = values(run, "policy/ratio_max").and_then(largest) {
        parts.push(format!("the largest ratio of a token was {} (step {step})", plain(ratio)));
    }
    let text = parts.join("; ");
    let mut letters = text.chars();
    letters.next().map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Which run is ahead, on each evaluation set that several have.
fn compared(runs: &[Run]) -> Vec<String> {
    let mut sets: Vec<&str> = runs
        .iter()
        .flat_map(|run| &run.measured)
        .map(|m| m.set.as_str())
        .filter(|set| *set != ROLLOUT)
        .collect();
    sets.sort_unstable();
    sets.dedup();
    let mut all = Vec::new();
    for set in sets.into_iter().take(MAX_SETS) {
        let of_set: Vec<(&Run, &Measured)> =
            runs.iter().filter_map(|run| Some((run, run.measured.iter().find(|m| m.set == set)?))).collect();
        if of_set.len() > 1 {
            let last = |points: &dyn Fn(&Run, &Measured) -> Option<Point>| -> Vec<(&Run, Point)> {
                of_set.iter().filter_map(|(run, measured)| Some((*run, points(run, measured)?))).collect()
            };
            let accuracies = last(&|run, measured| accuracies(run, measured).pop());
            let entropies = last(&|_, measured| measured.points.last().copied());
            let accuracy =
                ahead(&accuracies, |point| point.accuracy, |value| format!("<b>{}</b>", percent(value)));
            let entropy =
                ahead(&entropies, |point| point.entropy, |value| format!("<b>{}</b> nats", plain(value)));
            all.push(format!(
                "Of {} runs on <bdi>{}</bdi>, {} the highest accuracy, {}; {} the most entropy left, {}.",
                of_set.len(),
                short_name(set),
                accuracy.0,
                accuracy.1,
                entropy.0,
                entropy.1
            ));
        }
    }
    all
}

/// Who ends with the most of a quantity, and how much that is and when. Runs whose numbers look the same are equal.
fn ahead(
    of_set: &[(&Run, Point)],
    quantity: fn(&Point) -> f64,
    shown: fn(f64) -> String,
) -> (String, String) {
    let most = of_set.iter().map(|(_, point)| quantity(point)).fold(f64::NEG_INFINITY, f64::max);
    let most = shown(most);
    let first: Vec<&(&Run, Point)> =
        of_set.iter().filter(|(_, point)| shown(quantity(point)) == most).collect();
    let names: Vec<String> = first.iter().take(MANY).map(|(run, _)| run.html()).collect();
    match (first.len(), &names[..]) {
        (1, [name]) => (format!("{name} ends with"), format!("{most} (step {})", first[0].1.step)),
        (n, _) if n == of_set.len() => ("all end with".into(), format!("{most}: they are equal")),
        (n, _) if n > MANY => {
            (format!("{} and {} others end with", names.join(", "), n - MANY), format!("{most} each"))
        }
        (_, [others @ .., last]) => {
            (format!("{} and {last} end with", others.join(", ")), format!("{most} each"))
        }
        (_, []) => ("none ends with".into(), most),
    }
}

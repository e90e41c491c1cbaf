//! Finds the runs that differ in the seed alone, and the groups that may be compared.

use super::Entry;
use crate::recipes::deciding;
use isentrope_settings::differences;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Longest name of a group that is formed from settings, in characters.
const LONGEST: usize = 60;

/// The recipe without its seed and the keys that change no result.
pub fn without_seed(recipe: &Value) -> Value {
    let mut recipe = deciding(recipe);
    if let Some(run) = recipe.get_mut("run").and_then(Value::as_object_mut) {
        run.remove("seed");
    }
    recipe
}

/// Like [`without_seed`], also without the date in prompts. If a recipe names no date, a run has
/// the date on which it began, so that seeds added later have another.
fn deciding_of_all_seeds(recipe: &Value) -> Value {
    let mut recipe = without_seed(recipe);
    if let Some(data) = recipe.get_mut("data").and_then(Value::as_object_mut) {
        data.remove("date");
    }
    recipe
}

/// Indices of runs in groups that differ in the seed alone, in the order of their first runs. A run
/// without a recipe is a group of its own.
pub(super) fn grouped(runs: &[Entry<'_>]) -> Vec<Vec<usize>> {
    let recipes: Vec<Option<Value>> =
        runs.iter().map(|run| run.recipe.map(deciding_of_all_seeds)).collect();
    let is_same = |i: usize, j: usize| {
        recipes[i].is_some() && recipes[i] == recipes[j] && runs[i].group == runs[j].group
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for i in 0..runs.len() {
        match groups.iter_mut().find(|group| is_same(group[0], i)) {
            Some(group) => group.push(i),
            None => groups.push(vec![i]),
        }
    }
    groups
}

/// A note if the prompts of a group's runs name several dates.
pub(super) fn days(runs: &[Entry<'_>], places: &[usize], name: &str) -> Option<String> {
    let mut days: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for run in places.iter().map(|i| &runs[*i]) {
        if let Some(day) = run.day() {
            days.entry(day).or_default().push(&run.name);
        }
    }
    let of_day = |(day, runs): (&&str, &Vec<&str>)| format!("{day} ({})", runs.join(", "));
    (days.len() > 1).then(|| {
        format!(
            "The prompts of {name} name the day on which a run began, and that is not one day: {}. \
             Set data.date to give all seeds the same prompts.",
            days.iter().map(of_day).collect::<Vec<_>>().join(", ")
        )
    })
}

/// Names of groups, of the first kind that makes all distinct: as given; the directories that hold
/// them; the names of lone runs; the settings in which a group differs from the first, and the
/// first from the others.
pub(super) fn names(runs: &[Entry<'_>], groups: &[Vec<usize>]) -> Vec<String> {
    let is_plain = |names: &[String]| {
        names.iter().all(|name| !name.is_empty())
            && names.iter().collect::<BTreeSet<_>>().len() == names.len()
    };
    let given: Option<Vec<String>> =
        groups.iter().map(|group| runs[group[0]].group.clone()).collect();
    let directories = || -> Option<Vec<String>> {
        let of = |group: &Vec<usize>| {
            let parents: BTreeSet<&Path> =
                group.iter().filter_map(|i| runs[*i].run?.log.path.parent()).collect();
            let only = parents.first().filter(|_| parents.len() == 1)?;
            Some(only.file_name()?.to_string_lossy().into_owned())
        };
        groups.iter().map(of).collect()
    };
    let alone = || -> Option<Vec<String>> {
        groups.iter().map(|group| (group.len() == 1).then(|| runs[group[0]].name.clone())).collect()
    };
    let found = given.or_else(|| directories().filter(|names| is_plain(names)));
    found
        .or_else(|| alone().filter(|names| is_plain(names)))
        .unwrap_or_else(|| by_settings(runs, groups))
}

fn by_settings(runs: &[Entry<'_>], groups: &[Vec<usize>]) -> Vec<String> {
    let of_group = |group: &Vec<usize>| runs[group[0]].recipe.map(deciding_of_all_seeds);
    let all: Vec<Value> = groups.iter().map(|group| of_group(group).unwrap_or_default()).collect();
    let name = |(i, own): (usize, &Value)| {
        let mut changes = Vec::new();
        // The first group is named by its own values of the settings in which others differ.
        for other in if i == 0 { &all[1..] } else { &all[..1] } {
            differences("", other, own, &mut changes);
        }
        changes.sort_by_key(|change| change.split(' ').next().map(str::to_owned));
        changes.dedup_by_key(|change| change.split(' ').next().map(str::to_owned));
        let of_change = |change: &String| {
            let key = change.split(' ').next().unwrap_or_default();
            let value = change.rsplit(" -> ").next().unwrap_or_default();
            format!("{} {value}", key.rsplit('.').next().unwrap_or(key))
        };
        let settings = changes.iter().map(of_change).collect::<Vec<_>>().join(", ");
        match settings.chars().count() {
            0 => format!("group {}", i + 1),
            n if n > LONGEST => {
                format!("{}: {}…", i + 1, settings.chars().take(LONGEST).collect::<String>())
            }
            _ => settings,
        }
    };
    all.iter().enumerate().map(name).collect()
}

/// The settings in which two recipes' evaluations differ in problems or sampling; empty if they are
/// comparable.
pub(super) fn incomparable(old: &Value, new: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    differences("", &evaluated(old), &evaluated(new), &mut changes);
    changes
}

/// The settings that decide the problems of evaluations and how they are sampled.
fn evaluated(recipe: &Value) -> Value {
    let mut decides = Map::new();
    let mut eval = recipe["eval"].clone();
    if let Some(eval) = eval.as_object_mut() {
        // How often runs are evaluated matters only for the best value; the last evaluation is
        // always the last step's.
        eval.remove("every");
    }
    let is_empty = |key: &str| eval[key].as_array().is_none_or(Vec::is_empty);
    let (has_files, has_benchmarks) = (!is_empty("files"), !is_empty("bench"));
    // An absent setting is the same as in training, except that a benchmark defines its own longest
    // response.
    let mut or_as_trained = |key: &str, trained: [&Value; 2]| {
        if eval[key].is_null()
            && let Some(value) = trained.into_iter().find(|value| !value.is_null())
        {
            eval[key] = value.clone();
        }
    };
    if has_files || !has_benchmarks {
        or_as_trained(
            "max_tokens",
            [&recipe["rollout"]["max_tokens"], &recipe["sft"]["max_tokens"]],
        );
    }
    or_as_trained("stop", [&recipe["rollout"]["stop"], &Value::Array(Vec::new())]);
    // Without sets of its own, a run is evaluated on the test problems of the built-in task.
    if !has_files
        && !has_benchmarks
        && let Some(task) = recipe["data"]["task"].as_str()
    {
        let mut settings = recipe["data"][task].clone();
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("demonstrations"); // of SFT alone
        }
        decides.insert("data".into(), serde_json::json!({ "task": task, task: settings }));
    }
    decides.insert("eval".into(), eval);
    decides
        .insert("reward".into(), serde_json::json!({ "verifier": recipe["reward"]["verifier"] }));
    Value::Object(decides)
}

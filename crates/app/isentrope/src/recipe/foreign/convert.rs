//! A recipe with the settings of a script for TRL or verl.
//!
//! `names.toml` says what most names are called here. `trl`, `verl` and `lora` have settings that
//! differ in their units or that decide together.

mod lora;
#[cfg(test)]
mod tests;
mod trl;
mod verl;

use super::super::tree::{Node, Value};
use super::super::{check, layers, lists, render, settings, tree};
use super::script::{self, Script, Setting, Trainer};
use super::{NAMES, absent, ends, fit, keys_of, value};
use anyhow::{Result, bail};
use isentrope_data::{DataLocation, Rows, Split};
use isentrope_settings::{Shape, has_key};
use isentrope_train::{rl, sft};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Comment on limits of tokens: longer prompts and examples.
const LONGER: &str = "longer ones are left out, never cut";
/// The comment of held-out files, which other trainers measure whole.
const FIRST: &str = "the first 256 of each, or eval.problems";

/// A recipe made of a script.
pub struct Converted {
    pub recipe: String,
    /// Whether it is for `isentrope sft`, not for `isentrope train`.
    pub is_sft: bool,
}

/// The recipe of a script that stands at `path`. `own` has keys of the recipe with their values as
/// TOML, which win.
///
/// # Errors
/// A script that cannot be read, that names no model or no data where `own` has none either, or that
/// may train adapters whose settings cannot be read.
pub fn convert(text: &str, path: &Path, own: &[(&str, String)]) -> Result<Converted> {
    let script = script::read(text, path)?;
    let is_sft = script.trainer == Trainer::TrlSft;
    let recipe = match is_sft {
        true => written::<sft::Recipe>(script, path, own)?,
        false => written::<rl::Recipe>(script, path, own)?,
    };
    Ok(Converted { recipe, is_sft })
}

fn written<R>(script: Script, path: &Path, own: &[(&str, String)]) -> Result<String>
where
    R: DeserializeOwned + Serialize + JsonSchema + Default,
{
    let (name, shape) = (path.display().to_string(), Shape::of::<R>());
    let draft = Draft::new(script, &name, &shape, own)?;
    for (key, flag) in [("model.path", "--model"), ("data.files", "--data")] {
        if draft.value(key).is_none() {
            let here = format!("here it is {key}");
            let unread = draft.remarks.iter().map(Remark::line).filter(|line| line.contains(&here));
            let why: String = unread.map(|line| format!("; {line}")).collect();
            bail!("{name}: {key} cannot be read from it; give {flag}{why}");
        }
    }
    settings::<R>(draft.root.clone(), &name)?;
    let given = toml::Table::try_from(toml::Value::from(draft.root))?;
    let mut text = format!(
        "# From {}; `isentrope train --keys` says what every setting means.\n\
         # A setting that is the default here has no line.\n\n",
        line(&name)
    );
    let mut table = String::new();
    for line in render::render_given::<R>(&given).lines() {
        text.push_str(line);
        if let Some(heading) = line.strip_prefix('[') {
            table = format!("{}.", heading.trim_end_matches(']'));
        } else if let Some((key, _)) = line.split_once(" = ")
            && let Some(comment) = draft.comments.get(&format!("{table}{key}"))
        {
            text.push_str(&format!("  # {comment}"));
        }
        text.push('\n');
    }
    if !draft.remarks.is_empty() {
        text.push_str("\n# Not taken over as they are:\n");
    }
    text.extend(draft.remarks.iter().map(|remark| format!("# {}\n", remark.line())));
    Ok(text)
}

/// Settings of a script that have no key of their own, for one reason.
struct Remark {
    names: Vec<String>,
    reason: String,
}

impl Remark {
    fn line(&self) -> String {
        let gap = if self.names.is_empty() { "" } else { ": " };
        line(&format!("{}{gap}{}", self.names.join(", "), self.reason))
    }
}

/// A text as a line of a comment, where TOML allows no control characters.
fn line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A recipe in the making.
struct Draft<'a> {
    shape: &'a Shape,
    root: Node,
    /// Settings of the script that still have to be looked at.
    settings: Vec<Setting>,
    /// Names of those that the script leaves to its trainer.
    defaults: Vec<String>,
    /// The trainer's name.
    trainer: &'static str,
    comments: BTreeMap<String, String>,
    remarks: Vec<Remark>,
}

impl<'a> Draft<'a> {
    fn new(script: Script, name: &str, shape: &'a Shape, own: &[(&str, String)]) -> Result<Self> {
        let root = Node { at: name.to_owned(), value: Value::Table(Vec::new()) };
        let mut draft = Self {
            shape,
            root,
            settings: script.settings,
            defaults: Vec::new(),
            trainer: if script.trainer == Trainer::Verl { "verl" } else { "TRL" },
            comments: BTreeMap::new(),
            remarks: Vec::new(),
        };
        for reason in script.remarks {
            draft.remarks.push(Remark { names: Vec::new(), reason });
        }
        for (key, toml) in own {
            draft.put_toml(key, toml, "", "");
            for name in NAMES.keys.iter().filter(|entry| entry.key == *key).flat_map(|e| &e.names.0)
            {
                draft.settings.retain(|setting| fit(&setting.name, name).is_none());
            }
        }
        let (defaults, special): (_, fn(&mut Self) -> Result<()>) = match script.trainer {
            Trainer::TrlGrpo => ("grpo", Self::trl),
            Trainer::TrlSft => ("sft", Self::trl),
            Trainer::Verl => ("verl", Self::verl),
        };
        // Before the script's own, which win.
        let mut tables = vec![&NAMES.defaults[defaults]];
        if draft.is_on("unsloth")
            && let Some(table) = NAMES.defaults.get(&format!("unsloth_{defaults}"))
        {
            draft.trainer = "Unsloth";
            draft.done(&["unsloth"]);
            tables.insert(0, table);
        }
        for (name, value) in tables.into_iter().flatten() {
            if draft.settings.iter().all(|setting| setting.name != *name) {
                let (name, value) = (name.clone(), Some(value.clone()));
                draft.defaults.push(name.clone());
                draft.settings.insert(0, Setting { name, value, unread: None });
            }
        }
        special(&mut draft)?;
        for setting in std::mem::take(&mut draft.settings) {
            draft.translate(&setting);
        }
        Ok(draft)
    }

    /// Writes one setting by the tables of `names.toml`.
    fn translate(&mut self, Setting { name, value: given, unread }: &Setting) {
        let is_default = self.defaults.contains(name);
        let keyed = keys_of(name);
        if let Some((reason, fit)) = absent(name)
            && keyed.as_ref().is_none_or(|(named, _)| fit > *named)
        {
            return self.remark(name, reason);
        }
        let entry = keyed.and_then(|(_, entries)| {
            let own = entries.iter().find(|entry| has_key(self.shape, &entry.key));
            Some(*own.or(entries.first())?)
        });
        let key = entry.map(|entry| &*entry.key);
        let Some(given) = given else {
            if let Some(reason) = unread {
                let here = key.map(|key| format!("; here it is {key}")).unwrap_or_default();
                self.remark(name, &format!("{reason}{here}"));
            }
            return;
        };
        let text = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
        let shown = format!("{} = {given}", short(name));
        if has_key(self.shape, name) {
            return self.put(name, given.clone(), name, "");
        }
        if let Some(foreign) = value(&text, |key| ends(name, key)) {
            if foreign.here.is_empty() {
                return self.remark(&shown, &format!("absent here, because {}", foreign.note));
            }
            // verl's loss_mode says nothing about advantages.
            let is_loss = ends(name, "loss_mode") && foreign.here.contains_key("objective.loss");
            for (key, value) in &foreign.here {
                if !(is_loss && key == "objective.advantage") {
                    self.put(key, value.clone(), name, &foreign.note);
                }
            }
            return;
        }
        let leaf = || {
            let tables = ["optimizer", "run"].into_iter();
            tables
                .map(|table| format!("{table}.{}", last(name)))
                .find(|key| has_key(self.shape, key))
        };
        match entry {
            Some(entry) if entry.but.is_empty() && has_key(self.shape, &entry.key) => {
                self.put(&entry.key, given.clone(), name, "");
            }
            Some(entry) if !is_default => {
                self.remark(&shown, &format!("{}, {}", entry.key, entry.but));
            }
            Some(_) => {}
            None => match leaf() {
                Some(key) => self.put(&key, given.clone(), name, ""),
                None => self.remark(&shown, "no counterpart of it is known here"),
            },
        }
    }

    /// Sets a key. `name` is the script's name for it, if it may be at fault.
    fn put(&mut self, key: &str, value: impl Into<toml::Value>, name: &str, comment: &str) {
        self.put_toml(key, &value.into().to_string(), name, comment);
    }

    fn put_toml(&mut self, key: &str, toml: &str, name: &str, comment: &str) {
        let from = self.root.at.clone();
        let problems = match tree::parse(&format!("{key} = {toml}"), &|_| from.clone()) {
            Ok(mut node) => {
                lists::wrap_single_texts(&mut node, self.shape);
                let problems = check::check(&node, self.shape);
                if problems.is_empty() {
                    layers::lay(&mut self.root, &node, Some(self.shape));
                    let is_default = self.defaults.iter().any(|default| ends(default, name));
                    let comment = match comment {
                        "" if is_default => format!("{}'s default", self.trainer),
                        comment => comment.to_owned(),
                    };
                    self.comments.insert(key.to_owned(), comment);
                    self.comments.retain(|_, comment| !comment.is_empty());
                }
                problems
            }
            Err(error) => vec![error.to_string()],
        };
        for problem in problems {
            self.remark(name, problem.trim_start_matches(&format!("{from}: ")));
        }
    }

    /// Says why a setting has no line of its own.
    fn remark(&mut self, name: &str, reason: &str) {
        let name = short(name).to_owned();
        match self.remarks.iter_mut().find(|remark| remark.reason == reason) {
            Some(remark) if remark.names.contains(&name) => {}
            Some(remark) => remark.names.push(name),
            None => self.remarks.push(Remark { names: vec![name], reason: reason.to_owned() }),
        }
    }

    /// The value that a key of the recipe has so far.
    fn value(&self, key: &str) -> Option<toml::Value> {
        let mut node = &self.root;
        for part in key.split('.') {
            let Value::Table(entries) = &node.value else { return None };
            node = &entries.iter().find(|(name, _)| name == part)?.1;
        }
        Some(node.clone().into())
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.settings.iter().position(|setting| ends(&setting.name, name))
    }

    /// Whether one of these counts is there, but is no whole number that could be read.
    fn is_unread(&mut self, names: &[&str]) -> bool {
        let mut is_unread = false;
        for name in names {
            let Some(i) = self.find(name) else { continue };
            if let (Some(value), None) = (self.get(name), self.whole(name)) {
                self.settings[i].unread = Some(format!("{value} is no whole number"));
                self.settings[i].value = None;
            }
            is_unread |= self.settings[i].unread.is_some();
        }
        is_unread
    }

    /// The value of a setting.
    fn get(&self, name: &str) -> Option<toml::Value> {
        self.settings[self.find(name)?].value.clone()
    }

    fn text(&self, name: &str) -> Option<String> {
        let value = self.get(name)?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    fn number(&self, name: &str) -> Option<f64> {
        let value = self.get(name)?;
        value.as_float().or_else(|| value.as_integer().map(|x| x as f64))
    }

    fn whole(&self, name: &str) -> Option<i64> {
        self.number(name).filter(|x| x.fract() == 0.0 && x.abs() < 1e15).map(|x| x as i64)
    }

    fn is_on(&self, name: &str) -> bool {
        self.get(name).and_then(|value| value.as_bool()).unwrap_or(false)
    }

    /// Takes settings out that were read, so that no line is written about them.
    fn done(&mut self, names: &[&str]) {
        self.settings.retain(|setting| {
            setting.unread.is_some() || !names.iter().any(|name| ends(&setting.name, name))
        });
    }

    /// Takes settings out that have no effect in the script.
    fn without_effect(&mut self, names: &[&str], why: &str) {
        for name in names {
            if let Some(i) = self.find(name) {
                let Setting { name, .. } = self.settings.remove(i);
                if !self.defaults.contains(&name) {
                    self.remark(&name, &format!("without effect there: {why}"));
                }
            }
        }
    }

    /// Why a term with this switch is not taken over.
    fn why_off(&self, switch: &str) -> String {
        let is_unread = self.find(switch).is_some_and(|i| self.settings[i].unread.is_some());
        let name = last(switch);
        match self.is_on(switch) {
            true => "its weight is 0".into(),
            false if is_unread => format!("{name} is not known, so it is taken to be off"),
            false => format!("{name} is off"),
        }
    }

    /// Sets `run.steps` from passes over the data, `per_step` rows at a time.
    fn put_epochs(&mut self, name: &str, per_step: i64) {
        let Some(epochs) = self.number(name) else { return };
        self.done(&[name]);
        let files = self.value("data.files").and_then(|files| files.as_array().cloned());
        let count = |file: &toml::Value| -> Option<i64> {
            let place = DataLocation::of(Path::new(file.as_str()?));
            let files: Vec<PathBuf> =
                place.is_local().then(|| place.files(Split::Train, &()))?.ok()?;
            files.iter().map(|file| Some(Rows::open_any(file).ok()?.flatten().count() as i64)).sum()
        };
        let rows: Option<i64> = files.and_then(|files| files.iter().map(count).sum());
        let limit = self.whole("train_max_samples").filter(|limit| *limit > 0);
        let rows = rows.map(|rows| limit.map_or(rows, |limit| rows.min(limit)));
        match rows.filter(|_| per_step > 0) {
            Some(rows) => {
                // The last step of a pass has fewer examples in SFT, and is left out else.
                let is_sft = has_key(self.shape, "sft");
                let pass = if is_sft {
                    rows / per_step + i64::from(rows % per_step > 0)
                } else {
                    rows / per_step
                };
                let steps = (epochs * pass.max(1) as f64).ceil() as i64;
                let comment = format!("{epochs} passes over {rows} rows, {per_step} a step");
                self.put("run.steps", steps, name, &comment);
            }
            None => self.remark(
                &format!("{} = {epochs}", last(name)),
                &format!(
                    "run.steps is {epochs} x rows of the data / {}; 100 until it is set",
                    if has_key(self.shape, "sft") { "sft.batch" } else { "rollout.prompts" }
                ),
            ),
        }
    }

    /// The steps of the recipe.
    fn steps(&self) -> i64 {
        self.value("run.steps").and_then(|steps| steps.as_integer()).unwrap_or(100)
    }

    /// Sets the warm-up from a share of all steps, which `round` makes whole.
    fn put_warmup_share(&mut self, name: &str, share: f64, round: fn(f64) -> f64) {
        let steps = self.steps();
        let comment = format!("{share} of {steps} steps");
        self.put("optimizer.warmup_steps", round(share * steps as f64) as i64, name, &comment);
    }

    /// Sets a key before others that depend on it, or whose meaning differs a little.
    fn put_now(&mut self, name: &str, key: &str, comment: &str) {
        if let Some(value) = self.get(name) {
            self.put(key, value, name, comment);
            self.done(&[name]);
        }
    }
}

/// A path's last two names, which say enough, but not that a rate is the value model's.
fn short(name: &str) -> &str {
    let start = name.rmatch_indices('.').nth(1).map_or(0, |(dot, _)| dot + 1);
    if name.contains(' ') || name.starts_with("critic.") { name } else { &name[start..] }
}

/// The last name of a path.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

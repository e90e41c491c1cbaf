//! The settings of a script for TRL or verl, read without running it.

mod python;
mod shell;
#[cfg(test)]
mod tests;

use anyhow::{Result, anyhow, bail};
use python::{Argument, Call, Python, Value};
use shell::Word;
use std::path::Path;

/// The trainer that a script is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trainer {
    TrlGrpo,
    TrlSft,
    Verl,
}

/// A setting as a script writes it.
#[derive(Clone, Debug)]
pub struct Setting {
    pub name: String,
    /// None is Python's `None` or YAML's `null`.
    pub value: Option<toml::Value>,
    /// Why there is no value: a reason with a line of the script.
    pub unread: Option<String>,
}

/// A script that was read.
#[derive(Debug)]
pub struct Script {
    pub trainer: Trainer,
    pub settings: Vec<Setting>,
    /// Parts that could not be read and are no settings, each with its line.
    pub remarks: Vec<String>,
}

/// Names under which TRL's scripts give what is no field of a config.
const MODEL: &str = "model_name_or_path";
const REWARDS: &str = "reward_funcs";

/// Reads a Python script for TRL, or command lines of `trl`, of TRL's scripts or of verl.
///
/// # Errors
/// A text without such a call or command, and one that is no Python, with the line.
pub fn read(text: &str, path: &Path) -> Result<Script> {
    let name = path.display();
    if path.extension().is_some_and(|extension| extension == "py") {
        let python = python::read(text).map_err(|line| {
            anyhow!("{name}:{line}: a text or a bracket does not end, or nests too deeply")
        })?;
        return trl(&python, path);
    }
    shell::commands(text).iter().find_map(|command| command_line(command)).ok_or_else(|| {
        anyhow!(
            "{name}: has no command that trains with TRL or verl: `python3 -m \
             verl.trainer.main_ppo KEY=VALUE ...` or `trl grpo --NAME VALUE ...`; a Python script \
             for TRL ends in .py"
        )
    })
}

/// A number or a truth value of Python or YAML.
fn literal(word: &str) -> Option<toml::Value> {
    match word {
        "True" | "true" => return Some(true.into()),
        "False" | "false" => return Some(false.into()),
        _ if !word.contains(|c: char| c.is_ascii_digit()) => return None,
        _ => {}
    }
    let digits = word.replace('_', "");
    let float = || digits.parse().ok().map(toml::Value::Float);
    digits.parse().ok().map(toml::Value::Integer).or_else(float)
}

/// The settings of a command that trains.
fn command_line(words: &[Word]) -> Option<Script> {
    let is_verl =
        |word: &Word| word.text.rsplit('.').next().is_some_and(|m| m.starts_with("main_"));
    if let Some(start) = words.iter().position(is_verl) {
        let mut script = Script::new(Trainer::Verl);
        words[start + 1..].iter().for_each(|word| script.take_override(word));
        return Some(script);
    }
    let trainer = |word: &Word| match Path::new(&word.text).file_stem()?.to_str()? {
        "grpo" => Some(Trainer::TrlGrpo),
        "sft" => Some(Trainer::TrlSft),
        _ => None,
    };
    let (start, trainer) = words.iter().enumerate().find_map(|(i, w)| Some((i, trainer(w)?)))?;
    let mut script = Script::new(trainer);
    // `accelerate launch --num_processes 8` stands before the script.
    script.take_flags(&words[..start], |name| name == "num_processes");
    script.take_flags(&words[start + 1..], |_| true);
    Some(script)
}

impl Script {
    fn new(trainer: Trainer) -> Self {
        Self { trainer, settings: Vec::new(), remarks: Vec::new() }
    }

    fn set(&mut self, name: &str, value: Option<toml::Value>, unread: Option<String>) {
        self.settings.retain(|setting| setting.name != name);
        self.settings.push(Setting { name: name.to_owned(), value, unread });
    }

    /// Takes verl's `key=value`, with or without Hydra's `+` or `++` before it.
    fn take_override(&mut self, word: &Word) {
        let line = word.line;
        match word.text.trim_start_matches('+').split_once('=') {
            Some((name, text)) if !name.starts_with(['-', '~']) => {
                let is_computed = text.contains("${");
                let computed = || format!("line {line}: {text} is computed by Hydra");
                let reason = word.unread.as_ref().map(|reason| format!("line {line}: {reason}"));
                let unread = reason.or_else(|| is_computed.then(computed));
                self.set(name, shell::value(text).filter(|_| unread.is_none()), unread);
            }
            _ if word.text.is_empty() => {}
            _ => self.remarks.push(format!("line {line}: {} is not read", word.text)),
        }
    }

    /// Takes `--name value ...`, `--name=value` and `--name`.
    fn take_flags(&mut self, words: &[Word], is_taken: impl Fn(&str) -> bool) {
        let mut rest = words.iter().peekable();
        while let Some(word) = rest.next() {
            let Some(flag) = word.text.strip_prefix("--") else { continue };
            let (name, inline) = match flag.split_once('=') {
                Some((name, text)) => (name, Some(text)),
                None => (flag, None),
            };
            let name = name.replace('-', "_");
            let mut values: Vec<&Word> = Vec::new();
            while let Some(value) = rest.next_if(|word| !word.text.starts_with("--")) {
                values.push(value);
            }
            let mut texts: Vec<_> = inline.into_iter().collect();
            texts.extend(values.iter().map(|word| &*word.text));
            let value = match texts[..] {
                [] => Some(true.into()),
                [one] => shell::value(one),
                _ => Some(
                    texts.iter().filter_map(|text| shell::value(text)).collect::<Vec<_>>().into(),
                ),
            };
            let unread = values
                .iter()
                .chain([&word])
                .find_map(|word| Some(format!("line {}: {}", word.line, word.unread.as_ref()?)));
            if name == "config" {
                self.remarks.push(format!("line {}: the file of --config is not read", word.line));
            } else if is_taken(&name) {
                self.set(&name, value.filter(|_| unread.is_none()), unread);
            }
        }
    }
}

/// The settings of a Python script for TRL.
fn trl(python: &Python, path: &Path) -> Result<Script> {
    let last = |names: [&str; 2]| {
        let is_one = |call: &&std::rc::Rc<Call>| names.contains(&own_name(&call.name));
        python.calls.iter().rev().find(is_one)
    };
    let trainer = last(["GRPOTrainer", "SFTTrainer"]);
    let args = trainer.and_then(|call| call.argument(usize::MAX, "args"));
    let config = match args.map(|args| python.resolve(&args.value)) {
        Some(Value::Call(call)) if own_name(&call.name).ends_with("Config") => Some(call),
        Some(_) => None,
        None => last(["GRPOConfig", "SFTConfig"]),
    };
    // Settings that come from elsewhere would silently be the defaults.
    let Some(named) = trainer.or(config).filter(|_| args.is_none() || config.is_some()) else {
        let name = path.display();
        let place = args.map_or(name.to_string(), |args| format!("{name}:{}", args.line));
        bail!(
            "{place}: has no GRPOConfig(...) or SFTConfig(...) with the settings; of a script that \
             takes them from its command line, give the command line: --from - reads it from \
             standard input"
        );
    };
    let is_sft = own_name(&named.name).starts_with("SFT");
    let mut script = Script::new(if is_sft { Trainer::TrlSft } else { Trainer::TrlGrpo });
    for argument in config.iter().flat_map(|call| &call.arguments) {
        match &argument.name {
            Some(name) => script.take_argument(name, python, argument),
            None => {
                script.remarks.push(format!("line {}: **arguments are not read", argument.line));
            }
        }
    }
    let Some(trainer) = trainer else { return Ok(script) };
    for (place, argument) in trainer.arguments.iter().enumerate() {
        match argument.name.as_deref() {
            Some("args" | "processing_class" | "tokenizer" | ".train") => {}
            Some("train_dataset") => script.take_data("dataset_name", python, argument),
            Some("eval_dataset") => script.take_data("val_files", python, argument),
            Some(REWARDS) => script.take_rewards(python, argument, path),
            Some("model") => script.take_model(python, argument),
            None if place == 0 => script.take_model(python, argument),
            None => script
                .remarks
                .push(format!("line {}: an argument without a name is not read", argument.line)),
            Some(name) if name.starts_with('.') => {}
            Some(name) => script.take_argument(name, python, argument),
        }
    }
    Ok(script)
}

/// A name without the modules before it.
fn own_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// A value without calls and names, of at most one level.
fn plain(value: &Value) -> Option<toml::Value> {
    let scalar = |value: &Value| match value {
        Value::Literal(value) => Some(value.clone()),
        _ => None,
    };
    match value {
        Value::List(items) => items.iter().map(scalar).collect::<Option<Vec<_>>>().map(Into::into),
        Value::Dict(entries) => {
            let entry = |(key, value): &(String, Value)| Some((key.clone(), scalar(value)?));
            entries.iter().map(entry).collect::<Option<toml::Table>>().map(Into::into)
        }
        value => scalar(value),
    }
}

impl Script {
    fn take_argument(&mut self, name: &str, python: &Python, argument: &Argument) {
        let value = python.resolve(&argument.value);
        let plain = plain(value);
        let unread = (plain.is_none() && !matches!(value, Value::None))
            .then(|| format!("line {}: its value is computed by the script", argument.line));
        self.set(name, plain, unread);
    }

    /// Takes a model: a name, or the first argument of `from_pretrained`.
    fn take_model(&mut self, python: &Python, argument: &Argument) {
        let value = match python.resolve(&argument.value) {
            Value::Call(call) if call.name.ends_with(".from_pretrained") => {
                call.arguments.first().unwrap_or(argument)
            }
            _ => argument,
        };
        self.take_argument(MODEL, python, value);
    }

    /// Takes a data set of `load_dataset`, as `data.files` names it.
    fn take_data(&mut self, name: &str, python: &Python, argument: &Argument) {
        let line = argument.line;
        let call = match python.resolve(&argument.value) {
            Value::Call(call) if own_name(&call.name) == "load_dataset" => call,
            _ => {
                let reason = format!("line {line}: it is not the result of load_dataset(...) here");
                return self.set(name, None, Some(reason));
            }
        };
        let value = |place, name| plain(python.resolve(&call.argument(place, name)?.value));
        let text = |place, name| Some(value(place, name)?.as_str()?.to_owned());
        let split = text(usize::MAX, "split").or_else(|| text(usize::MAX, "[]"));
        let split = split.map(|split| match split.split_once('[') {
            Some((split, part)) => {
                self.remarks
                    .push(format!("line {line}: [{part} of the split is not read: data.limit"));
                split.to_owned()
            }
            None => split,
        });
        let files = match value(usize::MAX, "data_files") {
            Some(toml::Value::Table(files)) => {
                files.get(&split.clone().unwrap_or_default()).cloned()
            }
            files => files,
        };
        let location = || {
            let (id, config) = (text(0, "path")?, text(1, "name"));
            let parts = [Some(id.clone()), config, split.clone()];
            let place = parts.into_iter().flatten().collect::<Vec<_>>().join(":");
            // A name without an owner could be a file's.
            Some(toml::Value::String(if id.contains('/') { place } else { format!("hf:{place}") }))
        };
        let found = files.or_else(location);
        let unread = found.is_none().then(|| format!("line {line}: it is computed by the script"));
        self.set(name, found, unread);
        for change in &call.arguments {
            let method = change.name.as_deref().and_then(|name| name.strip_prefix('.'));
            if let Some(method) = method.filter(|method| *method != "shuffle") {
                self.remarks.push(format!(
                    "line {}: .{method}(...) of the data set is not read; data.columns, \
                     data.system, data.prompt_prefix and data.prompt_suffix can do much of it",
                    change.line
                ));
            }
        }
    }

    /// Takes reward functions: TRL's own by name, others as `FILE.py:NAME` or `MODULE:NAME`.
    fn take_rewards(&mut self, python: &Python, argument: &Argument, path: &Path) {
        let line = argument.line;
        let functions = match python.resolve(&argument.value) {
            Value::List(items) => items.to_vec(),
            one => vec![one.clone()],
        };
        let dir = path.parent().unwrap_or(Path::new(""));
        let mut places = Vec::new();
        for function in &functions {
            let Value::Name(name) = function else {
                let reason = format!("line {line}: not all of them are functions' names");
                return self.set(REWARDS, None, Some(reason));
            };
            let module = python.imports.get(name);
            places.push(match (python.functions.get(name), module) {
                (Some(_), _) if !python.runs_on_import => format!("{}:{name}", path.display()),
                (Some(line), _) => {
                    let file = dir.join("reward.py").display().to_string();
                    self.remarks.push(format!(
                        "line {line}: put `{name}` and what it needs into {file}: importing {} \
                         would start its training",
                        path.display()
                    ));
                    format!("{file}:{name}")
                }
                (None, Some(module)) if module == "trl.rewards" => name.clone(),
                (None, Some(module)) => {
                    let file = dir.join(format!("{}.py", module.replace('.', "/")));
                    let of =
                        if file.is_file() { file.display().to_string() } else { module.clone() };
                    format!("{of}:{name}")
                }
                (None, None) => name.clone(),
            });
        }
        let places: Vec<_> = places.into_iter().map(toml::Value::String).collect();
        self.set(REWARDS, Some(places.into()), None);
    }
}

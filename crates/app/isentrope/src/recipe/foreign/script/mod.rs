//! The settings of a script for TRL or verl, read without running it.

mod python;
mod shell;
#[cfg(test)]
mod tests;
mod yaml;

use anyhow::{Result, anyhow, bail};
use isentrope_files::open_regular;
use python::{Argument, Call, Python, Value};
use shell::{Command, Word};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

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
    /// Bytes of the values so far.
    copied: usize,
}

/// Bytes that the values of names may take in all where they are used, many times what scripts
/// need, and what else is said.
const COPIED: usize = 1 << 20;
const COPIES: &str = "uses the values of its variables so often that they take more than 1 MiB";

/// TRL's trainers that are read.
const TRAINERS: [&str; 3] = ["GRPOTrainer", "SFTTrainer", "UnslothTrainer"];
/// Set if a script imports Unsloth, whose defaults differ.
const UNSLOTH: &str = "unsloth";
/// Names under which TRL's scripts give what is no field of a config.
const MODEL: &str = "model_name_or_path";
const REWARDS: &str = "reward_funcs";
/// A config that other trainers have too, and an argument whose call has settings.
const ARGUMENTS: &str = "TrainingArguments";
const SAMPLING: &str = "vllm_sampling_params";
/// The flag of TRL's command line for adapters.
const USE_PEFT: &str = "use_peft";
/// Flags of accelerate, torchrun and deepspeed whose product is the number of processes.
pub const PROCESSES: [&str; 5] =
    ["num_processes", "nproc_per_node", "num_gpus", "nnodes", "num_nodes"];
/// Parts of the names of programs that do not train.
const OTHERS: [&str; 8] =
    ["data", "eval", "evaluate", "generate", "generation", "inference", "merge", "test"];
/// Bytes that a YAML file stays below.
const YAML: u64 = 1 << 18;
/// Adapters: true, or "unsloth" by its defaults, with peft's settings as keys of a table of this
/// name; false if a script trains all weights.
const ADAPTERS: &str = "peft_config";

/// Reads a Python script for TRL, or command lines of `trl`, of TRL's scripts or of verl.
///
/// # Errors
/// A text without such a call or command, and one that is no Python, with the line.
pub fn read(text: &str, path: &Path) -> Result<Script> {
    let name = path.display();
    let text = &*text.replace("\r\n", "\n");
    if path.extension().is_some_and(|extension| extension == "py") {
        let python = python::read(text).map_err(|line| {
            anyhow!("{name}:{line}: a text or a bracket does not end, or nests too deeply")
        })?;
        return trl(&python, path);
    }
    let (commands, open_quote) =
        shell::commands(text).ok_or_else(|| anyhow!("{name}: {COPIES}"))?;
    let dir = path.parent().unwrap_or(Path::new(""));
    let mut found: Vec<_> = commands
        .iter()
        .filter_map(|command| Some((command.words[0].line, command_line(command, dir)?)))
        .filter(|(_, script)| !script.settings.is_empty() || !script.remarks.is_empty())
        .collect();
    // A script may run `trl sft` before `trl grpo`: the command with most settings counts.
    let Some(most) = (0..found.len()).rev().max_by_key(|i| found[*i].1.settings.len()) else {
        if let Some(line) = open_quote {
            bail!("{name}:{line}: a quote does not end, so that no command behind it is read");
        }
        bail!(
            "{name}: has no command with settings that trains with TRL or verl: `python3 -m \
             verl.trainer.main_ppo KEY=VALUE ...` or `trl grpo --NAME VALUE ...`; a Python script \
             for TRL ends in .py, and a YAML file is read behind `trl grpo --config`"
        )
    };
    let (_, mut script) = found.remove(most);
    for (line, _) in found {
        script.remarks.push(format!("line {line}: another command that trains is not read"));
    }
    Ok(script)
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

/// The settings of a command that trains: `trl NAME`, `-m MODULE.NAME` or `DIR/NAME.py`. Files of
/// its flags may lie in the script's directory.
fn command_line(Command { words, doubts }: &Command, dir: &Path) -> Option<Script> {
    // verl's settings have dots and no dashes.
    let is_override = |word: &Word| {
        let name = word.text.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| name.contains('.') && !name.starts_with('-'))
    };
    let last_override = words.iter().rposition(is_override);
    let trainer = |i: usize| {
        let word = Path::new(&words[i].text);
        let before = i.checked_sub(1).map(|i| Path::new(&words[i].text).file_name());
        let name = match before.flatten().and_then(|name| name.to_str()) {
            Some("-m") => own_name(&words[i].text),
            Some("trl") => &words[i].text,
            _ if word.extension().is_some_and(|extension| extension == "py") => {
                word.file_stem()?.to_str()?
            }
            _ => return None,
        };
        let parts: Vec<&str> = name.split(['_', '-']).collect();
        let has = |names: &[&str]| parts.iter().any(|part| names.contains(part));
        let has_overrides = last_override.is_some_and(|last| last > i);
        if has(&OTHERS) {
            None
        } else if parts[0] == "main" || has(&["main"]) && has_overrides {
            Some(Trainer::Verl)
        } else if has_overrides {
            None
        } else if has(&["grpo", "gspo"]) {
            Some(Trainer::TrlGrpo)
        } else {
            has(&["sft"]).then_some(Trainer::TrlSft)
        }
    };
    let (start, trainer) = (0..words.len()).find_map(|i| Some((i, trainer(i)?)))?;
    let mut script = Script::new(trainer);
    if trainer == Trainer::Verl {
        words[start + 1..].iter().for_each(|word| script.take_override(word));
    } else {
        // `accelerate launch --num_processes 8` stands before the script.
        script.take_flags(&words[..start], dir, true);
        script.take_flags(&words[start + 1..], dir, false);
    }
    script.remarks.extend(doubts.iter().map(|(line, doubt)| format!("line {line}: {doubt}")));
    Some(script)
}

impl Script {
    fn new(trainer: Trainer) -> Self {
        Self { trainer, settings: Vec::new(), remarks: Vec::new(), copied: 0 }
    }

    fn set(&mut self, name: &str, value: Option<toml::Value>, unread: Option<String>) {
        self.settings.retain(|setting| setting.name != name);
        self.settings.push(Setting { name: name.to_owned(), value, unread });
    }

    /// Says that the file of `--config` is not there, which decides about adapters.
    fn miss_config(&mut self, line: usize, file: &str) {
        let reason = format!("line {line}: {file} of --config is not there");
        if !self.settings.iter().any(|one| one.name == USE_PEFT) {
            let what = format!("begin where it lies, or add --{USE_PEFT} false or true");
            self.set(USE_PEFT, None, Some(format!("{reason} and may set it: {what}")));
        }
        self.remarks.push(reason);
    }

    /// Takes verl's `key=value`, with or without Hydra's `+` or `++` before it.
    fn take_override(&mut self, word: &Word) {
        let line = word.line;
        match word.text.trim_start_matches('+').split_once('=') {
            Some((name, text)) if !name.starts_with(['-', '~']) => {
                let is_computed = text.contains("${");
                let computed = || format!("line {line}: {text} is computed by Hydra");
                let unread = word.reason().or_else(|| is_computed.then(computed));
                self.set(name, shell::value(text).filter(|_| unread.is_none()), unread);
            }
            _ if word.text.is_empty() => self.remarks.extend(word.reason()),
            _ => self.remarks.push(format!("line {line}: {} is not read", word.text)),
        }
    }

    /// Takes `--name value ...`, `--name=value` and `--name`; of the program that launches the
    /// script's processes, their number alone.
    fn take_flags(&mut self, words: &[Word], dir: &Path, is_launcher: bool) {
        let config = if is_launcher { "config_file" } else { "config" };
        let is_taken = |name: &str| !is_launcher || PROCESSES.contains(&name);
        let is_flag = |text: &str| {
            text.strip_prefix('-').is_some_and(|name| name.starts_with(|c: char| !c.is_numeric()))
        };
        let mut rest = words.iter().peekable();
        while let Some(word) = rest.next() {
            let Some(flag) = word.text.strip_prefix("--") else {
                if !is_launcher {
                    self.remarks.extend(word.reason());
                }
                continue;
            };
            let (name, inline) = match flag.split_once('=') {
                Some((name, text)) => (name, Some(text)),
                None => (flag, None),
            };
            let name = name.replace('-', "_");
            let mut values: Vec<&Word> = Vec::new();
            while let Some(value) = rest.next_if(|word| !is_flag(&word.text)) {
                values.push(value);
            }
            // An unknown word behind a value may be other flags.
            while values.len() + usize::from(inline.is_some()) > 1
                && let Some(word) = values.pop_if(|word| word.text.is_empty())
            {
                if is_taken(&name) {
                    self.remarks.extend(word.reason());
                }
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
            let unread = values.iter().chain([&word]).find_map(|word| word.reason());
            if name == config {
                let file = value.as_ref().and_then(|file| file.as_str()).unwrap_or("the file");
                match config_file(file, dir) {
                    Some(settings) => {
                        for new in settings.into_iter().filter(|new| is_taken(&new.name)) {
                            if !self.settings.iter().any(|known| known.name == new.name) {
                                self.settings.push(new);
                            }
                        }
                    }
                    None if is_launcher => {}
                    None => self.miss_config(word.line, file),
                }
            } else if is_taken(&name) {
                self.set(&name, value.filter(|_| unread.is_none()), unread);
            }
        }
    }
}

/// The settings of a YAML file, which may lie in a script's directory.
fn config_file(file: &str, dir: &Path) -> Option<Vec<Setting>> {
    let is_yaml = Path::new(file).extension().is_some_and(|end| end == "yaml" || end == "yml");
    let places = [Path::new(file).to_path_buf(), dir.join(file)];
    let opened = places.iter().filter(|_| is_yaml).find_map(|place| open_regular(place).ok())?;
    let mut text = String::new();
    let size = opened.take(YAML).read_to_string(&mut text).ok()?;
    ((size as u64) < YAML).then(|| yaml::settings(&text, file))
}

/// The settings of a Python script for TRL.
fn trl(python: &Python, path: &Path) -> Result<Script> {
    // A subclass often has the name at its end.
    let is_of = |call: &Call, names: &[&str]| names.iter().any(|name| call.name.ends_with(*name));
    let last = |calls: &[Rc<Call>], names: &[&str]| calls.iter().rposition(|c| is_of(c, names));
    let calls = &python.calls;
    let place = last(calls, &TRAINERS);
    let trainer = place.map(|place| &calls[place]);
    let args = trainer.and_then(|call| call.argument(usize::MAX, "args"));
    let mut script = Script::new(Trainer::TrlGrpo);
    for call in &calls[..place.unwrap_or(0)] {
        if is_of(call, &TRAINERS) {
            let remark = format!("line {}: another call of {} is not read", call.line, call.name);
            script.remarks.push(remark);
        }
    }
    let config = match args.map(|args| script.resolve(python, &args.value)) {
        Some(Value::Call(call)) if is_of(call, &["Config", ARGUMENTS]) => Some(call),
        Some(_) => None,
        // Inner calls, and those before it.
        None => last(&calls[..place.unwrap_or(calls.len())], &["GRPOConfig", "SFTConfig"])
            .map(|place| &calls[place]),
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
    if is_of(named, &["SFTTrainer", "SFTConfig", "UnslothTrainer"]) {
        script.trainer = Trainer::TrlSft;
    }
    if config.is_some_and(|config| is_of(config, &[ARGUMENTS])) {
        script.set("learning_rate", Some(5e-5.into()), None); // its default, not TRL's
    } else if python.has_unsloth() {
        script.set(UNSLOTH, Some(true.into()), None);
    }
    let attributes = args.into_iter().flat_map(|args| python.attributes(&args.value));
    let own = config.iter().flat_map(|call| &call.arguments);
    for (place, argument) in own.chain(attributes).enumerate() {
        match argument.name.as_deref() {
            Some(SAMPLING) => script.take_sampling(python, argument),
            Some(name) => script.take_argument(name, python, argument),
            None if place == 0 && matches!(argument.value, Value::Literal(_) | Value::Name(..)) => {
                script.take_argument("output_dir", python, argument);
            }
            None => {
                script.remarks.push(format!("line {}: **arguments are not read", argument.line));
            }
        }
    }
    let mut names = BTreeSet::new();
    let arguments = trainer.iter().flat_map(|trainer| &trainer.arguments).enumerate();
    for (place, argument) in arguments {
        if argument.name.as_ref().is_some_and(|name| !names.insert(name)) {
            continue; // Python takes each name once
        }
        match argument.name.as_deref() {
            Some("args" | "processing_class" | "tokenizer" | ".train") => {}
            Some("train_dataset") => script.take_data("dataset_name", python, argument),
            Some("eval_dataset") => script.take_data("val_files", python, argument),
            Some(REWARDS) => script.take_rewards(python, argument, path),
            Some(ADAPTERS) => script.take_adapters(python, argument),
            Some("model") => script.take_model(python, argument),
            None if place == 0 => script.take_model(python, argument),
            None => script
                .remarks
                .push(format!("line {}: an argument without a name is not read", argument.line)),
            Some(name) if name.starts_with('.') => {}
            Some(name) => script.take_argument(name, python, argument),
        }
    }
    // Parts of a data set are not read, so both would be all of it.
    let held_out = trainer.and_then(|call| call.argument(usize::MAX, "eval_dataset"));
    let files = |name: &str| script.settings.iter().find(|one| one.name == name)?.value.clone();
    if let Some(Argument { line, .. }) = held_out
        && let Some(trained) = files("dataset_name")
        && files("val_files") == Some(trained)
    {
        let reason = format!(
            "line {line}: it comes from the files of the training data, whose parts are not read: \
             give held-out problems a file of their own"
        );
        script.set("val_files", None, Some(reason));
    }
    // Adapters that do not reach the trainer in a way that is read.
    let used = &calls[..place.unwrap_or(calls.len())];
    let is_taken =
        |one: &Setting| one.name == ADAPTERS && (one.value.is_some() || one.unread.is_some());
    if !script.settings.iter().any(is_taken)
        && let Some(call) = used.iter().find(|call| python.is_of_peft(call))
    {
        let reason = format!("line {}: where {} goes is not known", call.line, call.name);
        script.set(ADAPTERS, None, Some(reason));
    }
    if script.copied > COPIED {
        bail!("{}: {COPIES}", path.display());
    }
    Ok(script)
}

/// A name without the modules before it.
fn own_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

impl Script {
    /// The value behind a name. Says so if several assignments could have given it.
    fn resolve<'a>(&mut self, python: &'a Python, value: &'a Value) -> &'a Value {
        python.resolve(value, |name, lines| self.note(name, &lines))
    }

    fn note(&mut self, name: &str, lines: &[usize]) {
        let [last, others @ ..] = lines else { return };
        if others.is_empty() {
            return;
        }
        let others: Vec<String> = others.iter().map(usize::to_string).collect();
        let others = others.join(", ");
        let remark = format!("line {last}: {name} is taken from here, not from line {others}");
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// A value without calls, of at most one level.
    fn plain(&mut self, python: &Python, value: &Value) -> Option<toml::Value> {
        match self.resolve(python, value) {
            Value::List(items) => {
                let items = items.iter().map(|item| self.scalar(python, "", item));
                items.collect::<Option<Vec<_>>>().map(Into::into)
            }
            Value::Dict(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| Some((key.clone(), self.scalar(python, key, value)?)));
                entries.collect::<Option<toml::Table>>().map(Into::into)
            }
            value => self.scalar(python, "", value),
        }
    }

    /// A text, a number or a truth value, which stands behind a key of a dictionary.
    fn scalar(&mut self, python: &Python, key: &str, value: &Value) -> Option<toml::Value> {
        self.copied += key.len();
        self.sum(python, value, 0)
    }

    /// A literal or a sum of literals within some other sums.
    fn sum(&mut self, python: &Python, value: &Value, depth: usize) -> Option<toml::Value> {
        self.copied += size_of::<toml::Value>();
        match self.resolve(python, value) {
            Value::Literal(value) => {
                self.copied += value.as_str().map_or(0, str::len);
                (self.copied <= COPIED).then(|| value.clone())
            }
            Value::Sum(terms) if depth < python::DEPTH => {
                let mut sum = None;
                let mut product: Option<(&str, toml::Value)> = None;
                for (sign, term) in terms.iter() {
                    let term = self.sum(python, term, depth + 1)?;
                    product = Some(match (product, *sign) {
                        (Some((first, product)), "*" | "/" | "//") => {
                            (first, python::operate(product, sign, term)?)
                        }
                        (before, _) => {
                            sum = python::add(sum, before)?;
                            (*sign, term)
                        }
                    });
                }
                python::add(sum, product)?
            }
            _ => None,
        }
    }

    fn take_argument(&mut self, name: &str, python: &Python, argument: &Argument) {
        let value = self.resolve(python, &argument.value);
        let plain = self.plain(python, value);
        let unread = (plain.is_none() && !matches!(value, Value::None))
            .then(|| format!("line {}: its value is computed by the script", argument.line));
        self.set(name, plain, unread);
    }

    /// Takes a model: a name, the first argument of `from_pretrained`, or one that peft wraps.
    fn take_model(&mut self, python: &Python, argument: &Argument) {
        let mut model = argument;
        for _ in 0..python::NAMES {
            let Value::Call(call) = self.resolve(python, &model.value) else { break };
            match own_name(&call.name) {
                "get_peft_model" => match call.argument(1, ADAPTERS) {
                    Some(config) => self.take_adapters(python, config),
                    // Unsloth's is its own LoraConfig.
                    None if call.arguments.iter().any(|one| one.name.is_some()) => {
                        let own = call.arguments.iter().enumerate().filter(|(place, one)| {
                            one.name.as_deref().map_or(*place > 0, |name| name != "model")
                        });
                        self.take_lora(python, UNSLOTH, call, own.map(|(_, one)| one));
                    }
                    None => {}
                },
                "prepare_model_for_kbit_training" => {}
                "from_pretrained" => {
                    let place = call.argument(0, "pretrained_model_name_or_path");
                    model = place.or(call.argument(0, "model_name")).unwrap_or(model);
                    call.arguments.iter().for_each(|one| self.take_option(python, one));
                    break;
                }
                _ => break,
            }
            let Some(wrapped) = call.argument(0, "model") else { break };
            model = wrapped;
        }
        self.take_argument(MODEL, python, model);
    }

    /// Takes an argument of `from_pretrained`, unless it is off or the trainer's config has it too.
    fn take_option(&mut self, python: &Python, argument: &Argument) {
        let Some(name) = argument.name.as_deref() else { return };
        let value = self.resolve(python, &argument.value);
        let is_off = matches!(value, Value::None | Value::Literal(toml::Value::Boolean(false)));
        match name {
            "model_name" | "pretrained_model_name_or_path" => {}
            _ if is_off || name.starts_with(['.', '[']) => {}
            "full_finetuning" => match self.plain(python, value) {
                Some(_) => self.set(ADAPTERS, Some(false.into()), None),
                None => {
                    let reason = format!("line {}: {name} decides about them", argument.line);
                    self.set(ADAPTERS, None, Some(reason));
                }
            },
            "revision" => self.take_argument("model_revision", python, argument),
            _ if self.settings.iter().any(|known| known.name == name) => {}
            _ => self.take_argument(name, python, argument),
        }
    }

    /// Takes the settings of a call of vLLM's `SamplingParams`.
    fn take_sampling(&mut self, python: &Python, argument: &Argument) {
        let Value::Call(call) = self.resolve(python, &argument.value) else {
            return self.take_argument(SAMPLING, python, argument);
        };
        for one in &call.arguments {
            match one.name.as_deref() {
                Some(name @ ("temperature" | "top_p" | "top_k" | "min_p")) => {
                    self.take_argument(name, python, one);
                }
                name => {
                    let name = format!("{SAMPLING}.{}", name.unwrap_or("**"));
                    self.take_argument(&name, python, one);
                }
            }
        }
    }

    /// Takes the settings of peft's `LoraConfig`.
    fn take_adapters(&mut self, python: &Python, argument: &Argument) {
        let call = match self.resolve(python, &argument.value) {
            Value::Call(call) if own_name(&call.name) == "LoraConfig" => call,
            Value::None => return self.set(ADAPTERS, None, None),
            _ => {
                let reason = format!("line {}: it is no LoraConfig(...) here", argument.line);
                return self.set(ADAPTERS, None, Some(reason));
            }
        };
        let attributes = python.attributes(&argument.value);
        self.take_lora(python, true, call, call.arguments.iter().chain(attributes));
    }

    /// Takes the settings of adapters, which are of a kind.
    fn take_lora<'a>(
        &mut self,
        python: &Python,
        kind: impl Into<toml::Value>,
        call: &Call,
        arguments: impl Iterator<Item = &'a Argument>,
    ) {
        self.set(ADAPTERS, Some(kind.into()), None);
        for argument in arguments {
            let line = argument.line;
            match &argument.name {
                Some(name) => self.take_argument(&format!("{ADAPTERS}.{name}"), python, argument),
                None => {
                    let remark = format!("line {line}: an argument of {} is not read", call.name);
                    self.remarks.push(remark);
                }
            }
        }
    }

    /// Takes a data set of `load_dataset`, as `data.files` names it.
    fn take_data(&mut self, name: &str, python: &Python, argument: &Argument) {
        let line = argument.line;
        let Some((call, changes)) = self.loaded(python, &argument.value) else {
            let reason = format!("line {line}: it is not the result of load_dataset(...) here");
            return self.set(name, None, Some(reason));
        };
        let mut value = |place, name| {
            let argument = call.argument(place, name)?;
            self.plain(python, &argument.value)
        };
        let mut text = |place, name| Some(value(place, name)?.as_str()?.to_owned());
        let index = changes.iter().find(|change| change.name.as_deref() == Some("[]"));
        let split = text(usize::MAX, "split");
        let (id, config) = (text(0, "path"), text(1, "name"));
        let files = value(usize::MAX, "data_files");
        let split = split.or_else(|| Some(self.plain(python, &index?.value)?.as_str()?.to_owned()));
        let is_given = |name| {
            let argument = call.argument(usize::MAX, name);
            argument.is_some_and(|argument| !matches!(argument.value, Value::None))
        };
        if split.is_none() && (index.is_some() || is_given("split")) {
            let reason = "its split is computed by the script: ID:CONFIG:SPLIT names one";
            self.remarks.push(format!("line {line}: {reason}"));
        }
        let split = split.map(|split| match split.split_once('[') {
            Some((split, part)) => {
                self.remarks
                    .push(format!("line {line}: [{part} of the split is not read: data.limit"));
                split.to_owned()
            }
            None => split,
        });
        let files = match files {
            Some(toml::Value::Table(files)) => {
                files.get(split.as_deref().unwrap_or_default()).cloned()
            }
            files => files,
        };
        let dir = call.argument(2, "data_dir");
        let is_of_dir = dir.is_some_and(|dir| !matches!(dir.value, Value::None));
        let location = || {
            let id = id?;
            let parts = [Some(id.clone()), config, split];
            let place = parts.into_iter().flatten().collect::<Vec<_>>().join(":");
            // A name without an owner could be a file's.
            Some(toml::Value::String(if id.contains('/') { place } else { format!("hf:{place}") }))
        };
        let is_unread = is_of_dir || files.is_none() && is_given("data_files");
        let found = files.or_else(location).filter(|_| !is_unread);
        let reason =
            if is_of_dir { "data_dir is not read" } else { "it is computed by the script" };
        let unread = found.is_none().then(|| format!("line {line}: {reason}"));
        self.set(name, found, unread);
        for change in changes {
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

    /// The call of `load_dataset` that a data set comes from, and what is done to its result.
    fn loaded<'a>(
        &mut self,
        python: &'a Python,
        value: &'a Value,
    ) -> Option<(&'a Call, Vec<Argument>)> {
        let (mut value, mut changes) = (self.resolve(python, value), Vec::new());
        for _ in 0..python::NAMES {
            let Value::Call(call) = value else { break };
            let is_change = |name: &String| name.starts_with('.') || name == "[]";
            let own = call.arguments.iter().filter(|one| one.name.as_ref().is_some_and(is_change));
            changes.splice(..0, own.cloned());
            if own_name(&call.name) == "load_dataset" {
                return Some((call, changes));
            }
            // A method or an index of a name.
            let name = call.name.split('.').next().unwrap_or_default();
            let method = &call.name[name.len()..];
            if !method.is_empty() {
                let (name, line) = (Some(method.to_owned()), call.line);
                changes.insert(0, Argument { name, value: Value::Unread, line });
            }
            // A function of a data set, whose changes are not read, or one that returns a data set.
            if method.is_empty()
                && let Some(Argument {
                    value: first @ (Value::Name(..) | Value::Call(_)),
                    line,
                    ..
                }) = call.argument(0, "dataset")
            {
                let (name, line) = (Some(format!(".{name}")), *line);
                changes.insert(0, Argument { name, value: Value::Unread, line });
                value = self.resolve(python, first);
                continue;
            }
            let returned = python.returned(name).filter(|_| method.is_empty());
            let (assigned, lines) = returned.or_else(|| python.assigned(name, call.at))?;
            self.note(name, &lines);
            value = self.resolve(python, assigned);
        }
        None
    }

    /// Takes reward functions: TRL's own by name, others as `FILE.py:NAME` or `MODULE:NAME`.
    fn take_rewards(&mut self, python: &Python, argument: &Argument, path: &Path) {
        let line = argument.line;
        let functions = match self.resolve(python, &argument.value) {
            Value::List(items) => items,
            one => std::slice::from_ref(one),
        };
        let dir = path.parent().unwrap_or(Path::new(""));
        let mut places = Vec::new();
        for function in functions {
            let Value::Name(name, _) = self.resolve(python, function) else {
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

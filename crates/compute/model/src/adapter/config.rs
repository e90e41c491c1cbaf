//! adapter_config.json, as peft writes it. Plain LoRA is read; every other kind is refused by the
//! key that asks for it.

use super::targets::{Targets, by_pattern, layer_numbers};
use super::{AdapterLayout, Rank, adaptable_modules, module_of};
use crate::checkpoint::Fingerprint;
use crate::config::fields::{Fields, shown};
use crate::config::unsupported::is_neutral;
use crate::json_file;
use crate::layout::Layout;
use crate::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf, absolute};

/// The file's name.
pub const ADAPTER_CONFIG: &str = "adapter_config.json";
/// Ranks of a module, far above any in use.
const RANKS: RangeInclusive<usize> = 1..=1 << 12;
/// Values of alpha.
const ALPHAS: RangeInclusive<f64> = 0.0..=1e6;
/// Most names and most patterns.
const MAX_ENTRIES: usize = 1 << 16;
const MAX_PATTERNS: usize = 256;

/// Keys that are read below.
const READ: [&str; 16] = [
    "alpha_pattern",
    "base_model_name_or_path",
    "bias",
    "exclude_modules",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "peft_type",
    "r",
    "rank_pattern",
    "revision",
    "target_modules",
    "task_type",
    "use_rslora",
];

/// Keys without effect on a trained adapter of linear layers.
const WITHOUT_EFFECT: [&str; 13] = [
    "auto_mapping",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "fan_in_fan_out", // peft switches it off for linear layers
    "inference_mode",
    "loftq_config",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "runtime_config",
];

/// The remedy for an adapter that is more than A and B of linear layers.
const MERGE_FIRST: &str =
    "merge it into its base in peft (merge_and_unload, save_pretrained) and give that model";

/// First values of A and B that leave the base's weights as they are. The others (PiSSA, OLoRA,
/// CorDA, LoftQ, LoRA-GA) make a base of their own.
const PLAIN_STARTS: [&str; 3] = ["eva", "gaussian", "orthogonal"];

/// The model that an adapter is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseModel {
    /// A directory, or a name on the hub; empty if it is not known.
    pub path: String,
    /// The revision on the hub.
    pub revision: Option<String>,
    /// The identity of its files, if it is known.
    pub fingerprint: Option<Fingerprint>,
}

impl BaseModel {
    /// The base as its adapters name it: `path` is what the user calls it, a directory or a name on
    /// the hub with its revision behind an @; `fingerprint` is that of its files.
    ///
    /// # Errors
    /// [`Error::File`] when the working directory is gone.
    pub fn new(path: &str, fingerprint: Fingerprint) -> Result<Self> {
        let (path, revision) = match path.split_once('@') {
            // The adapter is to find its base from any working directory.
            _ if Path::new(path).exists() => {
                let whole = absolute(path).map_err(|e| Error::io(Path::new(path), e))?;
                (whole.display().to_string(), None)
            }
            Some((id, revision)) => (id.to_owned(), Some(revision.to_owned())),
            None => (path.to_owned(), None),
        };
        Ok(Self { path, revision, fingerprint: Some(fingerprint) })
    }
}

/// The configuration of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterConfig {
    /// Rank of a module that `rank_pattern` does not name.
    pub rank: usize,
    /// Alpha of a module that `alpha_pattern` does not name. The scale is alpha / rank.
    pub alpha: f64,
    /// Whether the scale is alpha / sqrt(rank) instead.
    pub use_rslora: bool,
    /// The share of inputs that training drops.
    pub dropout: f64,
    /// The modules that get an adapter.
    pub targets: Targets,
    /// Ranks by patterns of modules' names; the first that matches counts.
    pub rank_pattern: Vec<(String, usize)>,
    /// Alphas by patterns of modules' names; the first that matches counts.
    pub alpha_pattern: Vec<(String, f64)>,
    /// The model that the adapter is for.
    pub base: Option<BaseModel>,
    /// The file as it was read, with unused keys; empty for a new adapter.
    pub json: Map<String, Value>,
    exclude: Option<Targets>,
    /// The layers that have adapters, if not all.
    layers: Option<Vec<usize>>,
    layer_patterns: Vec<String>,
    /// The file, if it was read.
    path: Option<PathBuf>,
}

impl AdapterConfig {
    /// A new adapter's, with one rank and one alpha.
    pub fn new(rank: usize, alpha: f64, use_rslora: bool, targets: Targets) -> Self {
        Self {
            rank,
            alpha,
            use_rslora,
            dropout: 0.0,
            targets,
            rank_pattern: Vec::new(),
            alpha_pattern: Vec::new(),
            base: None,
            json: Map::new(),
            exclude: None,
            layers: None,
            layer_patterns: Vec::new(),
            path: None,
        }
    }

    /// Whether a directory holds an adapter.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(ADAPTER_CONFIG).is_file()
    }

    /// Reads `dir/adapter_config.json`, and the base's fingerprint beside it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such file or it is malformed, [`Error::File`] when it
    /// cannot be read, and [`Error::Unsupported`] when it asks for more than LoRA of linear layers;
    /// each names the key.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(ADAPTER_CONFIG);
        // A directory that may not be looked into is an error of reading.
        if dir.is_file() || matches!(path.try_exists(), Ok(false)) {
            return Err(no_adapter(dir));
        }
        let json = json_file::read_object(&path)?;
        let fields = Fields { path: &path, object: &json, prefix: "" };
        refuse(fields)?;
        let Some(targets) = read_targets(fields, "target_modules")? else {
            let what = "is missing: name the modules that adapter_model.safetensors has A and B of";
            return Err(fields.invalid("target_modules", what));
        };
        let base = BaseModel {
            path: fields.text("base_model_name_or_path")?.unwrap_or_default().to_owned(),
            revision: fields.text("revision")?.map(str::to_owned),
            fingerprint: Fingerprint::find(dir)?,
        };
        let is_known = !base.path.is_empty() || base.fingerprint.is_some();
        let is_integer = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        let config = Self {
            rank: fields.integer("r", 0..=usize::MAX)?.unwrap_or(8),
            alpha: fields.number("lora_alpha", f64::MIN..=f64::MAX)?.unwrap_or(8.0),
            use_rslora: fields.boolean("use_rslora")?.unwrap_or(false),
            dropout: fields.number("lora_dropout", 0.0..=1.0)?.unwrap_or(0.0),
            targets,
            rank_pattern: read_pattern(fields, "rank_pattern", is_integer)?,
            alpha_pattern: read_pattern(fields, "alpha_pattern", Value::as_f64)?,
            base: is_known.then_some(base),
            exclude: read_targets(fields, "exclude_modules")?,
            layers: read_layers(fields)?,
            layer_patterns: match fields.get("layers_pattern") {
                Some(Value::String(pattern)) if pattern.is_empty() => Vec::new(),
                Some(Value::String(pattern)) => vec![pattern.clone()],
                _ => read_names(fields, "layers_pattern", MAX_PATTERNS)?.unwrap_or_default(),
            },
            path: Some(path.clone()),
            json: json.clone(),
        };
        config.check()?;
        Ok(config)
    }

    /// The parameters of this adapter of a model.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the file, or [`Error::Input`] for a new adapter, when a rank is 0
    /// or too large, a pattern cannot be read, or targets match no linear layer of a block, or
    /// something else; it lists the modules that there are.
    pub fn layout(&self, layout: &Layout) -> Result<AdapterLayout> {
        let ranks = self.ranks(layout)?;
        AdapterLayout::new(layout, |module| ranks.get(module).copied()).ok_or_else(|| {
            let modules: Vec<&str> = adaptable_modules(layout).collect();
            self.wrong(format!("the targets match no linear layer; {}", there_are(&modules)))
        })
    }

    /// The modules that have an adapter.
    pub(super) fn ranks<'a>(&self, layout: &'a Layout) -> Result<HashMap<&'a str, Rank>> {
        self.check()?;
        let modules: Vec<&str> = adaptable_modules(layout).collect();
        self.refuse_others(layout, &modules)?;
        if let Some(name) = self.targets.unknown(&modules)
            && self.path.is_none()
        {
            let what = format!(
                "the target {} is no linear layer of a block; {}",
                json_file::quoted(name),
                there_are(&modules)
            );
            return Err(self.wrong(what));
        }
        let chosen = self.choose(&modules)?;
        let or_wrong = |what| self.wrong(what);
        let ranks = by_pattern(&self.rank_pattern, &modules, self.rank).map_err(or_wrong)?;
        let alphas = by_pattern(&self.alpha_pattern, &modules, self.alpha).map_err(or_wrong)?;
        let rank = |(rank, alpha): (usize, f64)| {
            let divisor = if self.use_rslora { (rank as f64).sqrt() } else { rank as f64 };
            Rank { rank, scale: (alpha / divisor) as f32 }
        };
        let ranks = ranks.into_iter().zip(alphas).map(rank);
        let all = modules.into_iter().zip(ranks).zip(chosen);
        Ok(all.filter_map(|(of, chosen)| chosen.then_some(of)).collect())
    }

    /// The directory of the base: its path from the working directory, or else from the adapter's,
    /// `dir`. None if there is no such directory, as when the base is named by the hub.
    pub fn find_base(&self, dir: &Path) -> Option<PathBuf> {
        let path = &self.base.as_ref().filter(|base| !base.path.is_empty())?.path;
        [PathBuf::from(path), dir.join(path)].into_iter().find(|path| path.is_dir())
    }

    /// The contents of the file.
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let base = self.base.as_ref();
        let path = base.map(|base| &base.path).filter(|path| !path.is_empty());
        let mut json = Map::from_iter(
            [
                ("bias", json!("none")),
                ("fan_in_fan_out", json!(false)),
                ("inference_mode", json!(true)),
                ("init_lora_weights", json!(true)),
                ("modules_to_save", Value::Null),
                ("peft_type", json!("LORA")),
                ("task_type", json!("CAUSAL_LM")),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        json.extend(self.json.clone());
        let targets = match &self.targets {
            Targets::AllLinear => json!("all-linear"),
            Targets::Modules(names) => json!(names),
            Targets::Pattern(pattern) => json!(pattern),
        };
        let ranks = self.rank_pattern.iter().map(|(key, rank)| (key.clone(), json!(rank)));
        let alphas = self.alpha_pattern.iter().map(|(key, alpha)| (key.clone(), number(*alpha)));
        json.extend(
            [
                ("alpha_pattern", Value::Object(alphas.collect())),
                ("base_model_name_or_path", json!(path)),
                ("lora_alpha", number(self.alpha)),
                ("lora_dropout", json!(self.dropout)),
                ("r", json!(self.rank)),
                ("rank_pattern", Value::Object(ranks.collect())),
                ("revision", json!(base.and_then(|base| base.revision.as_ref()))),
                ("target_modules", targets),
                ("use_rslora", json!(self.use_rslora)),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        json.sort_keys(); // as peft does
        json
    }

    /// Checks the numbers.
    fn check(&self) -> Result<()> {
        // A recipe or a client asks for an adapter that has no file yet in words of its own.
        let [r, lora_alpha, remedy] = match self.path {
            Some(_) => ["r", "lora_alpha", ": make the adapter again with such a number"],
            None => ["the rank", "the alpha", ""],
        };
        let rank = out_of(&RANKS, [r, "rank_pattern"], self.rank, &self.rank_pattern);
        let alpha = out_of(&ALPHAS, [lora_alpha, "alpha_pattern"], self.alpha, &self.alpha_pattern);
        if let Some(number) = rank.or(alpha) {
            return Err(self.wrong(number + remedy));
        }
        if self.layers.is_none() && !self.layer_patterns.is_empty() {
            let what = "layers_pattern needs layers_to_transform beside it, as in peft";
            return Err(self.wrong(what.to_owned()));
        }
        Ok(())
    }

    /// Whether each module is chosen.
    fn choose(&self, modules: &[&str]) -> Result<Vec<bool>> {
        let or_wrong = |what| self.wrong(what);
        let mut chosen = self.targets.choose(modules).map_err(or_wrong)?;
        if let Some(exclude) = &self.exclude {
            let excluded = exclude.choose(modules).map_err(or_wrong)?;
            chosen.iter_mut().zip(excluded).for_each(|(chosen, excluded)| *chosen &= !excluded);
        }
        if let Some(layers) = &self.layers {
            let layers: HashSet<usize> = layers.iter().copied().collect();
            let numbers = layer_numbers(&self.layer_patterns, modules).map_err(or_wrong)?;
            let is_in = |number: Option<usize>| number.is_some_and(|n| layers.contains(&n));
            chosen.iter_mut().zip(numbers).for_each(|(chosen, n)| *chosen &= is_in(n));
        }
        Ok(chosen)
    }

    /// Refuses targets outside the linear layers of blocks.
    fn refuse_others(&self, layout: &Layout, modules: &[&str]) -> Result<()> {
        if self.targets == Targets::AllLinear {
            return Ok(());
        }
        let adaptable: HashSet<&str> = modules.iter().copied().collect();
        let all = layout.parameters.tensors().map(|(_, _, tensor)| {
            module_of(tensor.name.strip_suffix(".bias").unwrap_or(&tensor.name))
        });
        // A tied head has no tensor.
        let others: Vec<&str> =
            all.chain(["lm_head"]).filter(|module| !adaptable.contains(module)).collect();
        let chosen = self.choose(&others)?;
        match others.iter().zip(chosen).find(|(_, chosen)| *chosen) {
            None => Ok(()),
            Some((other, _)) => Err(self.wrong(format!(
                "the targets have {other}, which is no linear layer of a block; {}",
                there_are(modules)
            ))),
        }
    }

    fn wrong(&self, what: String) -> Error {
        match &self.path {
            Some(path) => Error::invalid(path, what),
            None => Error::Input(what),
        }
    }
}

/// The first number that is not within `bounds`, of `[key, key of patterns]`.
fn out_of<T: PartialOrd + Display>(
    bounds: &RangeInclusive<T>,
    [key, patterns]: [&str; 2],
    number: T,
    by_pattern: &[(String, T)],
) -> Option<String> {
    let of_patterns = by_pattern.iter().map(|(pattern, number)| (Some(pattern), number));
    let mut numbers = of_patterns.chain([(None, &number)]);
    let (pattern, number) = numbers.find(|(_, number)| !bounds.contains(number))?;
    let key = match pattern {
        Some(pattern) => format!("{patterns} of {}", json_file::quoted(pattern)),
        None => key.to_owned(),
    };
    let (first, last) = (bounds.start(), bounds.end());
    Some(format!("{key} is {number}, not from {first} to {last}"))
}

/// The error that a directory holds no adapter.
fn no_adapter(dir: &Path) -> Error {
    let what = if dir.is_file() {
        "is a file"
    } else if !dir.exists() {
        "there is no such directory"
    } else if dir.join("config.json").exists() {
        "is a whole model, and no adapter"
    } else {
        "has no adapter_config.json"
    };
    let remedy = "name the directory of an adapter, such as a checkpoint of a run with [lora] or \
                  what peft's save_pretrained wrote";
    Error::invalid(dir, format!("{what}: {remedy}"))
}

/// The modules that a target may name.
fn there_are(modules: &[&str]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for module in modules {
        let name = module.rsplit('.').next().unwrap_or(module);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let example = modules.first().unwrap_or(&"");
    format!("there are {}, in full such as {example}", names.join(", "))
}

/// A whole number without a point, as peft writes it.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

/// Refuses everything besides LoRA.
fn refuse(fields: Fields) -> Result<()> {
    for (key, only, remedy) in [
        ("peft_type", "LORA", "make the adapter again with LoraConfig"),
        ("task_type", "CAUSAL_LM", "make the adapter again for a causal language model"),
        ("bias", "none", MERGE_FIRST),
    ] {
        if let Some(value) = fields.text(key)?.filter(|value| *value != only) {
            let what = format!("is {}; {only} is supported: {remedy}", json_file::quoted(value));
            return Err(fields.unsupported(key, what));
        }
    }
    if fields.get("peft_type").is_none() {
        return Err(fields.invalid("peft_type", "is missing: add \"LORA\" if the adapter is that"));
    }
    if let Some(value) = fields.get("init_lora_weights") {
        let is_plain = value.is_boolean()
            || value.as_str().is_some_and(|start| {
                PLAIN_STARTS.iter().any(|plain| plain.eq_ignore_ascii_case(start))
            });
        if !is_plain {
            let what = format!(
                "is {}, which changes the base's weights; save the adapter as plain LoRA \
                 (save_pretrained with path_initial_model_for_weight_conversion)",
                shown(value)
            );
            return Err(fields.unsupported("init_lora_weights", what));
        }
    }
    for (key, value) in fields.object {
        let known = READ.contains(&key.as_str()) || WITHOUT_EFFECT.contains(&key.as_str());
        if !known && !is_neutral(value) {
            let key = json_file::quoted(key);
            let what = format!(
                "is {}; only plain LoRA of linear layers is supported: {MERGE_FIRST}",
                shown(value)
            );
            return Err(fields.unsupported(key.trim_matches('"'), what));
        }
    }
    Ok(())
}

fn read_targets(fields: Fields, key: &str) -> Result<Option<Targets>> {
    if let Some(Value::String(text)) = fields.get(key) {
        let is_all = key == "target_modules" && text.eq_ignore_ascii_case("all-linear");
        let targets = if is_all { Targets::AllLinear } else { Targets::Pattern(text.clone()) };
        return Ok(Some(targets));
    }
    Ok(read_names(fields, key, MAX_ENTRIES)?.map(Targets::Modules))
}

fn read_names(fields: Fields, key: &str, most: usize) -> Result<Option<Vec<String>>> {
    let Some(names) = fields.texts(key)? else { return Ok(None) };
    if names.len() > most {
        return Err(fields.invalid(key, format!("has {} entries, above {most}", names.len())));
    }
    Ok(Some(names.into_iter().map(str::to_owned).collect()))
}

fn read_pattern<T>(
    fields: Fields,
    key: &str,
    convert: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<(String, T)>> {
    let Some(value) = fields.get(key) else { return Ok(Vec::new()) };
    let Some(object) = value.as_object().filter(|object| object.len() <= MAX_PATTERNS) else {
        let what = format!("is not an object of at most {MAX_PATTERNS} entries");
        return Err(fields.invalid(key, what));
    };
    let entry = |(pattern, value): (&String, &Value)| match convert(value) {
        Some(number) => Ok((pattern.clone(), number)),
        None => Err(fields.invalid(key, format!("has {}, not a number", shown(value)))),
    };
    object.iter().map(entry).collect()
}

/// `layers_to_transform`; an empty list is all layers.
fn read_layers(fields: Fields) -> Result<Option<Vec<usize>>> {
    const KEY: &str = "layers_to_transform";
    let Some(value) = fields.get(KEY) else { return Ok(None) };
    let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
    let layers: Option<Vec<usize>> = match value {
        Value::Array(list) if list.len() <= MAX_ENTRIES => list.iter().map(number).collect(),
        one => number(one).map(|layer| vec![layer]),
    };
    let Some(layers) = layers else {
        let what = format!("is {}, not layers' numbers", shown(value));
        return Err(fields.invalid(KEY, what));
    };
    if layers.is_empty() {
        return Ok(None);
    }
    if fields.get("target_modules").is_some_and(Value::is_string) {
        return Err(fields.invalid(KEY, "needs a list of target_modules"));
    }
    Ok(Some(layers))
}

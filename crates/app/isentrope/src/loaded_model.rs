//! Loads the model that a command's argument names.

use crate::adapters::{ModelPlace, fingerprint, warn_of_companions};
use crate::device::{self, Device, DeviceFlag, LocalRank};
use crate::memory::{Memory, human};
use crate::messages;
use crate::progress::{Download, announce_if_slow};
use crate::recipe;
use crate::run_directory;
use anyhow::{Context, Result, bail};
use clap::Args;
use isentrope_data::{DataSettings, Template};
use isentrope_files::sha256_of_file;
use isentrope_hub::{self as hub, HubConfig};
use isentrope_kernels::{Backend, Role};
use isentrope_model::chat_template::{ChatTemplate, Date};
use isentrope_model::generation_config::GenerationConfig;
use isentrope_model::tokenizer::{SpecialTokens, Tokenizer};
use isentrope_model::{KvCache, Layout, Model, ModelConfig};
use isentrope_rollout::Prompter;
use isentrope_train::settings::{DeviceKind, NumberType};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags of every command that runs a model.
#[derive(Args)]
pub struct ModelArguments {
    /// A Hugging Face model directory, a hub id such as Qwen/Qwen2.5-0.5B, or the directory of an
    /// adapter, which names its base
    #[arg(value_name = "MODEL")]
    model: String,
    #[command(flatten)]
    computing: Computing,
}

/// The adapter beside a model, and the device and threads that it runs on.
#[derive(Args)]
pub struct Computing {
    /// Puts the adapter in this directory (LoRA, as peft writes it) beside MODEL, its base
    #[arg(long, value_name = "DIR", requires = "model")]
    pub adapter: Option<PathBuf>,
    /// Threads [default: ISENTROPE_THREADS, else one per core]. Results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    device: DeviceFlag,
    /// Keeps numbers as f32, or as bf16 on a GPU, which is faster there and has bits of its own
    /// [default: f32]
    #[arg(long, value_name = "TYPE", value_parser = number_type)]
    dtype: Option<NumberType>,
}

fn number_type(text: &str) -> Result<NumberType> {
    recipe::setting("--dtype", text)
}

/// A loaded model, its tokenizer and its device.
pub struct Loaded {
    /// The model's directory; with an adapter, its base's.
    pub dir: PathBuf,
    /// The adapter's directory.
    pub adapter: Option<PathBuf>,
    pub model: Model,
    pub tokenizer: Option<Arc<Tokenizer>>,
    /// Its device.
    pub device: Device,
}

impl ModelArguments {
    /// The model as the user names it.
    pub fn name(&self) -> &str {
        &self.model
    }

    /// Finds, checks and loads the model, and runs `job` with it.
    pub fn run(&self, job: impl FnOnce(&Loaded) -> Result<()>) -> Result<()> {
        self.computing.run(&self.model, job)
    }
}

impl Computing {
    /// Finds, checks and loads a model, and runs `job` with it.
    pub fn run(&self, model: &str, job: impl FnOnce(&Loaded) -> Result<()>) -> Result<()> {
        let request = device::request(&self.device, DeviceKind::Auto)?;
        let dtype = self.dtype.unwrap_or_default();
        let device = device::open(request, "--dtype", dtype, self.threads, LocalRank::ALONE)?;
        device.heading().iter().for_each(|heading| messages::say(heading));
        device.run(|backend| job(&load(model, self.adapter.as_deref(), backend, &device)?))
    }
}

/// The contents of a model's files, by name: SHA-256 in hexadecimal. Says so if it takes long and
/// this process `speaks`.
pub fn file_hashes(dir: &Path, speaks: bool) -> Result<Map<String, Value>> {
    if !speaks {
        return hashes_of_files(dir);
    }
    let what = format!("hashing the files in {}, for the manifest", dir.display());
    announce_if_slow(&what, || hashes_of_files(dir))
}

fn hashes_of_files(dir: &Path) -> Result<Map<String, Value>> {
    let mut hashes = BTreeMap::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file()
            && [".safetensors", ".json", ".jinja"].iter().any(|ending| name.ends_with(ending))
        {
            hashes.insert(name, Value::from(sha256_of_file(&path)?));
        }
    }
    Ok(hashes.into_iter().collect())
}

/// Hashes of the files of the user's commands and functions, such as scripts, by the names that
/// settings have, of which some may be no files. `setting` is what names them.
pub fn hashes_of_programs(setting: &str, names: Vec<String>) -> Result<Map<String, Value>> {
    let files = names.into_iter().filter(|file| Path::new(file).is_file());
    let hashed = |file: String| {
        let hash =
            sha256_of_file(Path::new(&file)).with_context(|| format!("{setting}: {file}"))?;
        Ok((file, hash.into()))
    };
    files.map(hashed).collect()
}

/// Finds, checks and loads a model.
fn load(
    model: &str,
    adapter: Option<&Path>,
    backend: Arc<dyn Backend>,
    device: &Device,
) -> Result<Loaded> {
    isentrope_files::refuse_dangling(Path::new(model))?;
    run_directory::refuse_as_model(Path::new(model))?;
    let place = ModelPlace::find(model, adapter)?;
    let hub = HubConfig::from_env()?;
    // The size is checked before the weights are fetched.
    let dir = place.describe(&hub)?;
    let ModelPlace { model, adapter, .. } = place;
    let config = ModelConfig::read(&dir)?;
    device.check_shapes(&dir, &config)?;
    let mut layout = Layout::new(&config);
    let mut needed = layout.parameters.bytes(&*backend, Role::Frozen);
    if let Some((_, adapter)) = &adapter {
        let own = adapter.layout(&layout)?;
        needed = needed.saturating_add(own.parameters.bytes(&*backend, Role::Frozen));
        layout.adapter = Some(own);
    }
    fits(&dir, "the weights take", needed, device.free_memory(), "memory")
        .map_err(|lack| device.unfitting(lack))?;
    if device.is_gpu() {
        // Weights pass through the host's memory.
        let free = usize::try_from(Memory::now().available).unwrap_or(usize::MAX);
        fits(&dir, "loading the weights takes", layout.loading_bytes(), free, "the host's memory")?;
    }
    let products = device.products(&layout, &config, 0);
    products.iter().for_each(|products| messages::say(&products.to_string()));
    hub::complete(&hub, &model, &dir, &Download::default())?;
    let tokenizer = Tokenizer::read(&dir)?;
    if let Some(tokenizer) = &tokenizer {
        tokenizer.check_against(config.vocab_size, &dir)?;
    }
    config.remarks.iter().for_each(|remark| messages::note(remark));
    let model = match &adapter {
        None => Model::load_frozen(&dir, backend)?,
        Some((adapter, config)) => {
            config.check_base(&dir, fingerprint)?;
            let model = Model::load_adapter(adapter, config, &dir, backend, Role::Frozen)?;
            warn_of_companions(adapter, &dir)?;
            model
        }
    };
    let adapter = adapter.map(|(adapter, _)| adapter);
    let tokenizer = tokenizer.map(Arc::new);
    Ok(Loaded { dir, adapter, model, tokenizer, device: device.clone() })
}

/// Refuses a need of more bytes than a memory has available.
fn fits(dir: &Path, what: &str, needed: usize, available: usize, memory: &str) -> Result<()> {
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (human(needed), human(available));
    bail!("{}: {what} {needed} in {memory} and {available} are available", dir.display())
}

/// Warns of characters that texts have lost for want of tokens: the first loss, and the number of
/// other texts with losses.
pub fn warn_of_losses(losses: impl IntoIterator<Item = anyhow::Error>) {
    let mut losses = losses.into_iter();
    if let Some(first) = losses.next() {
        let more = match losses.count() {
            0 => String::new(),
            others => format!("; {others} more with such characters"),
        };
        messages::warning(&format!("{first}{more}"));
    }
}

impl Loaded {
    /// The contents of the model's files, as [`file_hashes`], and of its adapter's.
    pub fn file_hashes(&self) -> Result<Map<String, Value>> {
        let mut hashes = file_hashes(&self.dir, true)?;
        if let Some(adapter) = &self.adapter {
            let own = file_hashes(adapter, true)?.into_iter();
            hashes.extend(own.map(|(name, hash)| (format!("adapter/{name}"), hash)));
        }
        Ok(hashes)
    }

    /// Bytes for keys and values: `--kv-memory` (MiB), or half of the available memory.
    pub fn cache_bytes(&self, kv_memory: Option<u64>) -> Result<usize> {
        let budget = match kv_memory {
            Some(mib) => usize::try_from(mib.saturating_mul(1 << 20)).unwrap_or(usize::MAX),
            None => self.device.free_memory() / 2,
        };
        let least = KvCache::least_bytes(&self.model);
        if budget < least {
            bail!(
                "--kv-memory: the smallest cache of keys and values takes {}, and {} are allowed",
                human(least),
                human(budget)
            );
        }
        Ok(budget)
    }

    /// Characters lost, for want of a token, in the texts encoded since the last call.
    pub fn take_dropped(&self) -> Option<String> {
        self.tokenizer.as_ref()?.take_dropped()
    }

    /// The tokenizer, or a sentence that says what needs it.
    pub fn tokenizer(&self) -> Result<&Arc<Tokenizer>> {
        self.tokenizer.as_ref().with_context(|| {
            format!(
                "{}: there is no tokenizer.json, which texts need; copy it from the model that \
                 these weights were trained from",
                self.dir.display()
            )
        })
    }

    /// The settings of sampling that the model's generation_config.json asks for: none if it does
    /// not ask for sampling. Says which of them have no effect here.
    pub fn generation_config(&self) -> Result<GenerationConfig> {
        let config = GenerationConfig::read(&self.dir)?;
        let config =
            if config.do_sample == Some(true) { config } else { GenerationConfig::default() };
        if !config.not_acted_on.is_empty() {
            let keys = config.not_acted_on.join(", ");
            messages::note(&format!(
                "the model's generation_config.json sets {keys}, which sampling here goes without"
            ));
        }
        Ok(config)
    }

    /// Renders prompts for the model.
    pub fn prompter(&self, settings: &DataSettings) -> Result<Prompter> {
        let tokenizer = self.tokenizer()?.clone();
        let prompter = Prompter::new(&self.dir, tokenizer, self.model.config.vocab_size, settings)?;
        let is_plain = settings.template == Template::None || !prompter.has_template();
        if settings.system.is_some() && is_plain {
            messages::note("--system has no effect: prompts go through no chat template");
        }
        Ok(prompter)
    }

    /// The chat template for this date or today, or a sentence that says which files have none.
    pub fn chat_template(&self, date: Option<Date>) -> Result<ChatTemplate> {
        self.tokenizer()?;
        ChatTemplate::read(&self.dir, &SpecialTokens::read(&self.dir)?, date)?.with_context(|| {
            format!(
                "{}: the model has no chat template (chat_template.jinja, or \"chat_template\" in \
                 tokenizer_config.json); give it plain prompts",
                self.dir.display()
            )
        })
    }
}

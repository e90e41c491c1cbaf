//! From a command's model argument to a model that can run.

use crate::device::{self, Device};
use crate::memory::{Memory, human};
use crate::messages;
use crate::progress::Download;
use anyhow::{Context, Result, bail};
use clap::Args;
use isentrope_files::sha256_of_file;
use isentrope_kernels::Role;
use isentrope_model::chat_template::ChatTemplate;
use isentrope_model::hub::{self, HubConfig};
use isentrope_model::tokenizer::{SpecialTokens, Tokenizer};
use isentrope_model::{KvCache, Layout, Model, ModelConfig};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What every command that runs a model takes.
#[derive(Args)]
pub struct ModelArguments {
    /// A Hugging Face model directory, or a hub id such as Qwen/Qwen2.5-0.5B
    #[arg(value_name = "MODEL")]
    model: String,
    /// Threads [default: ISENTROPE_THREADS, else one per core]. Results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// A loaded model with what belongs to it.
pub struct Loaded {
    pub dir: PathBuf,
    pub model: Model<Device>,
    pub tokenizer: Option<Tokenizer>,
}

impl ModelArguments {
    /// Finds, checks and loads the model.
    pub fn load(&self) -> Result<Loaded> {
        load(&self.model, self.threads)
    }
}

/// The contents of a model's files, by name: SHA-256 in hexadecimal.
pub fn file_hashes(dir: &Path) -> Result<Map<String, Value>> {
    let mut hashes = BTreeMap::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && [".safetensors", ".json", ".jinja"].iter().any(|ending| name.ends_with(ending)) {
            hashes.insert(name, Value::from(sha256_of_file(&path)?));
        }
    }
    Ok(hashes.into_iter().collect())
}

/// Finds, checks and loads a model.
pub fn load(model: &str, threads: Option<usize>) -> Result<Loaded> {
    let device = device::open(threads)?;
    isentrope_files::refuse_dangling(Path::new(model))?;
    let hub = HubConfig::from_env()?;
    // Whether the weights fit is known before they are fetched.
    let dir = hub::describe_with(&hub, model, &Download::default())?;
    let config = ModelConfig::read(&dir)?;
    let needed = Layout::new(&config).parameter_bytes(&device, Role::Weight) as u64;
    let available = Memory::now().available;
    if needed > available {
        bail!(
            "{}: the weights take {} in memory and {} are available",
            dir.display(),
            human(needed as usize),
            human(available as usize)
        );
    }
    hub::complete_with(&hub, model, &dir, &Download::default())?;
    let tokenizer = Tokenizer::read(&dir)?;
    if let Some(tokenizer) = &tokenizer {
        tokenizer.check_against(config.vocab_size, &dir)?;
    }
    let model = Model::load(&dir, Arc::new(device))?;
    Ok(Loaded { dir, model, tokenizer })
}

/// Says what texts have lost for want of tokens: the first loss, and how many other texts have some.
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
    /// Bytes for keys and values: what `--kv-memory` says, in MiB, else half of what is available.
    pub fn cache_bytes(&self, kv_memory: Option<u64>) -> Result<usize> {
        let budget = match kv_memory {
            Some(mib) => mib.saturating_mul(1 << 20),
            None => Memory::now().available / 2,
        };
        let page = KvCache::page_bytes(&self.model);
        if (budget as usize) < page {
            bail!(
                "--kv-memory: one page of keys and values takes {}, and {} are allowed",
                human(page),
                human(budget as usize)
            );
        }
        Ok(budget as usize)
    }

    /// What the texts encoded since the last call have lost, for want of a token.
    pub fn take_loss(&self) -> Option<String> {
        self.tokenizer.as_ref()?.take_loss()
    }

    /// The tokenizer, or a sentence that says what needs it.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().with_context(|| {
            format!(
                "{}: there is no tokenizer.json, so only lines with \"tokens\" can be used",
                self.dir.display()
            )
        })
    }

    /// The chat template, or a sentence that says where one is looked for.
    pub fn chat_template(&self) -> Result<ChatTemplate> {
        self.tokenizer()?;
        ChatTemplate::read(&self.dir, &SpecialTokens::read(&self.dir)?)?.with_context(|| {
            format!(
                "{}: the model has no chat template (chat_template.jinja, or \"chat_template\" in \
                 tokenizer_config.json); give it plain prompts",
                self.dir.display()
            )
        })
    }
}

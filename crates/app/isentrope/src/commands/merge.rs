//! `isentrope merge`: an adapter and its base as one checkpoint.

use crate::adapters::{base_of, fingerprint, named_by, warn_of_companions};
use crate::interrupt::{self, Interrupted};
use crate::messages;
use crate::progress::Download;
use crate::run_directory::refuse_as_model;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use isentrope_hub::{self as hub, HubConfig};
use isentrope_model::ModelConfig;
use isentrope_model::adapter::{AdapterConfig, merge};
use isentrope_model::checkpoint::{MAX_SHARD_BYTES, WeightDtype};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Write an adapter and its base as one checkpoint
///
/// Each weight W that the adapter is for becomes W + s B A, with s = alpha / rank, or alpha /
/// sqrt(rank) for rsLoRA. The product is summed in f64, added to W and rounded once, to f32;
/// another type is rounded from that. Every other file is the base's. The result is a model
/// directory for isentrope, transformers and vLLM, and depends on no thread or device.
///
/// The base is the one that the adapter names. If the adapter knows the base's fingerprint, as
/// adapters made here do, another base is refused; else shapes decide.
///
/// Commands that run a model take the adapter as it is, without a merge. In f32 the merged model
/// agrees with that to rounding; in bf16 the rounding may swallow small changes of weights.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope merge runs/lora/checkpoints/step-000300 --out merged
  isentrope merge my-adapter --base Qwen/Qwen2.5-0.5B --out merged --dtype bf16
  isentrope generate merged --prompt 'Why is the sky blue?'")]
pub struct Merge {
    /// Directory of an adapter: adapter_config.json and adapter_model.safetensors, as peft or a run
    /// with [lora] writes them
    adapter: PathBuf,
    /// The model directory to write, which must be new or empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A model directory or a hub id [default: the base that the adapter names]
    #[arg(long, value_name = "MODEL")]
    base: Option<String>,
    /// Type of the weights [default: the widest in the base's files]
    #[arg(long, value_name = "TYPE")]
    dtype: Option<FileType>,
}

/// Types of weights in files.
#[derive(Clone, Copy, ValueEnum)]
enum FileType {
    F32,
    Bf16,
    F16,
}

impl From<FileType> for WeightDtype {
    fn from(of: FileType) -> Self {
        match of {
            FileType::F32 => Self::F32,
            FileType::Bf16 => Self::Bf16,
            FileType::F16 => Self::F16,
        }
    }
}

impl Merge {
    pub fn run(self) -> Result<()> {
        if self.out == Path::new("-") {
            bail!("--out: a checkpoint is a directory, and - is none");
        }
        for path in [&self.adapter, &self.out] {
            isentrope_files::refuse_dangling(path)?;
        }
        refuse_as_model(&self.adapter)?;
        if !AdapterConfig::is_in(&self.adapter) && self.adapter.join("config.json").exists() {
            bail!("{}: is a whole model, and no adapter: nothing to merge", self.adapter.display());
        }
        let config = AdapterConfig::read(&self.adapter)?;
        let remedy = "give it with --base";
        let (base, from) = match &self.base {
            Some(base) => (base.clone(), "--base".to_owned()),
            None => (base_of(&self.adapter, &config, remedy)?, named_by(&self.adapter, remedy)),
        };
        let hub = HubConfig::from_env()?;
        let base = hub::resolve(&hub, &base, &Download::default()).context(from)?;
        config.check_base(&base, fingerprint)?;
        let started = Instant::now();
        let dtype = self.dtype.map(WeightDtype::from);
        interrupt::wind_up_quietly();
        let stop = &interrupt::requested;
        let merged = merge(&self.adapter, &base, &self.out, dtype, MAX_SHARD_BYTES, stop);
        if merged.is_err() && interrupt::requested() {
            return Err(Interrupted { kept: "nothing has been written".into() }.into());
        }
        let dtype = merged?;
        warn_of_companions(&self.adapter, &base)?;
        ModelConfig::read(&base)?.remarks.iter().for_each(|remark| messages::note(remark));
        messages::say(&format!(
            "{}: {} with {}, in {}, in {:.1} s",
            self.out.display(),
            base.display(),
            self.adapter.display(),
            dtype.name(),
            started.elapsed().as_secs_f64()
        ));
        Ok(())
    }
}

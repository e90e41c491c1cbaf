//! `isentrope tinker`: a model behind Tinker's protocol, for training scripts.

use crate::interrupt;
use crate::listen_flags::ListenFlags;
use crate::loaded_model::{Loaded, ModelArguments};
use crate::messages;
use anyhow::{Context, Result, bail};
use clap::Args;
use isentrope_budget::PassLimits;
use isentrope_model::adapter::BaseModel;
use isentrope_model::generation_config::eos_tokens;
use isentrope_rollout::Limits;
use isentrope_serve::context;
use isentrope_tinker::{Settings, serve};
use std::net::TcpListener;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

/// Time for answers that are on their way after Ctrl-C.
const GRACE: Duration = Duration::from_secs(2);
/// Prompt tokens that are read per step beside the responses that are decoded.
const PREFILL_TOKENS: usize = 512;
/// Most tokens in one pass of training; a longer example has a pass of its own.
const MICRO_BATCH_TOKENS: usize = 2048;
/// The variable with the key.
const API_KEY: &str = "ISENTROPE_API_KEY";

/// Train and sample from scripts that use Tinker
///
/// Answers the protocol of the Python packages tinker and tinker_cookbook at /api/v1:
/// forward_backward, optim_step, sample, save_weights and what belongs to them, as
/// docs/guides/tinker.md describes. MODEL is frozen; each training client has an adapter (LoRA) of
/// its own beside it.
///
/// Log-probs sampled at temperature 1 equal a forward pass's over the same weights, to the last
/// bit, and depend on no other request. A script that makes the same calls gets the same tokens.
///
/// tinker://RUN/weights/NAME is the directory RUN/weights/NAME below --out: an adapter as peft
/// reads it, for `isentrope generate --adapter`, `merge` and `eval`. It stays when the server ends.
#[derive(Args)]
#[command(after_help = "Example:
  isentrope tinker Qwen/Qwen3-0.6B --out runs/tinker
  export TINKER_BASE_URL=http://127.0.0.1:8000 TINKER_API_KEY=tml-none
  python my-script.py")]
pub struct Tinker {
    #[command(flatten)]
    model: ModelArguments,
    /// Directory of saved weights, which is made if need be
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    address: ListenFlags,
    /// Key that clients must have as TINKER_API_KEY, which begins with tml- [default:
    /// ISENTROPE_API_KEY, else none is needed]
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Name of the model in requests [default: MODEL as given]
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    /// Most sequences decoded at a time
    #[arg(long, value_name = "N", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    max_num_seqs: u32,
    /// Memory for keys and values, in MiB [default: half of what is available]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    kv_memory: Option<u64>,
}

impl Tinker {
    pub fn run(self) -> Result<()> {
        let api_key = self.api_key.clone().or_else(|| std::env::var(API_KEY).ok());
        if api_key.as_deref().is_some_and(|key| !key.starts_with("tml-") || !key.is_ascii()) {
            bail!("--api-key (or {API_KEY}) must begin with tml-, as Tinker's clients expect");
        }
        let listener = self.address.listen()?;
        std::fs::create_dir_all(&self.out).with_context(|| self.out.display().to_string())?;
        self.model.run(|loaded| self.serve(listener, api_key, loaded))
    }

    fn serve(&self, listener: TcpListener, api_key: Option<String>, loaded: &Loaded) -> Result<()> {
        if let Some(adapter) = &loaded.adapter {
            bail!("{}: is an adapter; MODEL must be the base", adapter.display());
        }
        let tokenizer = loaded.tokenizer()?;
        let sampling = Limits {
            cache_bytes: loaded.cache_bytes(self.kv_memory)?,
            sequences: self.max_num_seqs as usize,
            prefill_tokens: PREFILL_TOKENS,
        };
        let training = PassLimits {
            micro_batch_tokens: MICRO_BATCH_TOKENS,
            tape_bytes: loaded.device.free_memory() / 4,
            activation_slots: 0,
        };
        let named = self.model.name();
        // Transformers finds it there, whatever name the model is served under.
        let tokenizer_id = match Path::new(named).is_dir() {
            true => absolute(&loaded.dir)?.display().to_string(),
            false => named.to_owned(),
        };
        let settings = Settings {
            name: self.served_model_name.as_deref().unwrap_or(named).to_owned(),
            tokenizer_id,
            api_key,
            context: context(&loaded.model, &sampling, None),
            eos_tokens: eos_tokens(&loaded.dir, loaded.model.config.vocab_size, Some(tokenizer))?,
            out: self.out.clone(),
            base_dir: loaded.dir.clone(),
            base: BaseModel::of(named, &loaded.dir)?,
            sampling,
            training,
            grace: GRACE,
        };
        self.introduce(&listener, &settings)?;
        interrupt::wind_up_first("what has been saved stays");
        let tokenizer = loaded.tokenizer.as_ref().context("there is a tokenizer")?;
        serve(listener, &loaded.model, tokenizer, settings, interrupt::requested)?;
        Ok(())
    }

    /// Says what is served, where, and how to try it.
    fn introduce(&self, listener: &TcpListener, settings: &Settings) -> Result<()> {
        let address = listener.local_addr()?;
        let (name, context) = (&settings.name, settings.context);
        messages::say(&format!(
            "Tinker's protocol for {name} at http://{address}: contexts of up to {context} tokens; \
             weights go to {}",
            self.out.display()
        ));
        if !address.ip().is_loopback() && settings.api_key.is_none() {
            messages::warning("everybody who reaches this address may ask: --api-key sets a key");
        }
        let key = settings.api_key.as_ref().map_or("tml-none", |_| "KEY");
        messages::say(&format!(
            "run scripts after `export TINKER_BASE_URL=http://{address} TINKER_API_KEY={key}`"
        ));
        Ok(())
    }
}

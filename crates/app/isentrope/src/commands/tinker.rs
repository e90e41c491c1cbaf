//! `isentrope tinker`: a model behind Tinker's protocol, for training scripts.

use crate::adapters::fingerprint;
use crate::interrupt;
use crate::loaded_model::{Loaded, ModelArguments};
use crate::messages;
use crate::server_flags::{ServerFlags, warn_if_open};
use anyhow::{Context, Result, bail};
use clap::Args;
use isentrope_files::{check_writable, lock_directory, make_directory};
use isentrope_model::KvCache;
use isentrope_model::adapter::BaseModel;
use isentrope_model::generation_config::eos_tokens;
use isentrope_serve::context;
use isentrope_tinker::{Settings, serve};
use std::net::TcpListener;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

/// Time for answers that are on their way after Ctrl-C.
const GRACE: Duration = Duration::from_secs(2);
/// Prompt tokens that are read per step beside the responses that are decoded.
const PREFILL_TOKENS: usize = 512;
/// Most targets in one pass of training; a longer example has a pass of its own.
const MICRO_BATCH_TOKENS: usize = 2048;

/// Train and sample from scripts that use Tinker
///
/// Answers the protocol of the Python packages tinker and tinker_cookbook at /api/v1:
/// forward_backward, optim_step, sample, save_weights and what belongs to them, as
/// docs/guides/tinker.md describes. Each training client has an adapter (LoRA) of its own beside
/// MODEL, or with --all-weights a copy of MODEL, all of whose weights it trains.
///
/// Log-probs sampled at temperature 1 equal a forward pass's over the same weights, to the last
/// bit, and depend on no other request. A script that makes the same calls gets the same tokens.
///
/// tinker://RUN/weights/NAME is the directory RUN/weights/NAME below --out: an adapter as peft
/// reads it, for `isentrope generate --adapter`, `merge` and `eval`, or a model's directory. It
/// stays when the server ends. A key (--api-key) begins with tml-; clients have it as
/// TINKER_API_KEY.
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
    /// Trains all weights of every training client's model; lora_config has no effect then, and
    /// --kv-memory is an eighth of what is available by default
    #[arg(long)]
    all_weights: bool,
    #[command(flatten)]
    server: ServerFlags,
}

impl Tinker {
    pub fn run(self) -> Result<()> {
        let rule = "begin with tml-, as Tinker's clients expect";
        let api_key = self.server.api_key("tml-", rule)?;
        let listener = self.server.listen()?;
        let out = self.out.display();
        if self.out.exists() && !self.out.is_dir() {
            bail!("--out {out}: is a file; name a directory for saved weights");
        }
        make_directory(&self.out).with_context(|| format!("--out {out}"))?;
        check_writable(&self.out).with_context(|| format!("--out {out}"))?;
        // Two servers would give their training clients the same names.
        let _lock = lock_directory(&self.out, "serving").with_context(|| format!("--out {out}"))?;
        self.model.run(|loaded| self.serve(listener, api_key, loaded))
    }

    fn serve(&self, listener: TcpListener, api_key: Option<String>, loaded: &Loaded) -> Result<()> {
        if let Some(adapter) = &loaded.adapter {
            bail!("{}: is an adapter; MODEL must be the base", adapter.display());
        }
        let tokenizer = loaded.tokenizer()?;
        let free = loaded.device.free_memory();
        let least = KvCache::least_bytes(&loaded.model);
        let kv_memory = self.all_weights.then(|| kv_memory_beside_weights(free, least));
        let sampling = self.server.limits(loaded, PREFILL_TOKENS, kv_memory)?;
        let [pass_bytes, model_bytes] = divide(free, sampling.cache_bytes, self.all_weights);
        let named = self.model.name();
        // Transformers finds it there, whatever name the model is served under.
        let tokenizer_id = match Path::new(named).is_dir() {
            true => absolute(&loaded.dir)?.display().to_string(),
            false => named.to_owned(),
        };
        let settings = Settings {
            name: self.server.served_model_name.as_deref().unwrap_or(named).to_owned(),
            tokenizer_id,
            api_key,
            context: context(&loaded.model, &sampling, None),
            eos_tokens: eos_tokens(
                &loaded.dir,
                loaded.model.config.vocab_size,
                Some(&**tokenizer),
            )?,
            out: self.out.clone(),
            base_dir: loaded.dir.clone(),
            base: BaseModel::new(named, fingerprint(&loaded.dir)?)?,
            sampling,
            all_weights: self.all_weights,
            micro_batch_tokens: MICRO_BATCH_TOKENS,
            pass_bytes,
            model_bytes,
            grace: GRACE,
        };
        self.introduce(&listener, &settings)?;
        interrupt::wind_up_first("what has been saved stays");
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
        warn_if_open(address, settings.api_key.as_deref());
        let key = settings.api_key.as_ref().map_or("tml-none", |_| "KEY");
        messages::say(&format!(
            "run scripts after `export TINKER_BASE_URL=http://{address} TINKER_API_KEY={key}`"
        ));
        Ok(())
    }
}

/// The default of `--kv-memory` in MiB where all weights are trained, which takes four times the
/// model for each client.
fn kv_memory_beside_weights(free: usize, least: usize) -> u64 {
    (free / 8).max(least).div_ceil(1 << 20) as u64
}

/// Bytes for a training pass, and for models and copies of weights, of those that keys and values
/// leave. A tenth is left for all that is not counted.
fn divide(free: usize, cache_bytes: usize, all_weights: bool) -> [usize; 2] {
    let rest = (free - free / 10).saturating_sub(cache_bytes);
    let pass_bytes = rest / if all_weights { 4 } else { 2 };
    [pass_bytes, rest - pass_bytes]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_most_of_the_memory_where_all_weights_are_trained() {
        let free = 8 << 30;
        let cache_bytes = (kv_memory_beside_weights(free, 0) as usize) << 20;
        let [pass_bytes, model_bytes] = divide(free, cache_bytes, true);
        assert!(model_bytes > free / 2 && pass_bytes > 1 << 30, "{model_bytes} {pass_bytes}");
        assert!(cache_bytes + pass_bytes + model_bytes <= free - free / 10);
    }
}

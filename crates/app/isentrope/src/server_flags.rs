//! Flags of commands that serve a model.

use crate::loaded_model::Loaded;
use crate::messages;
use anyhow::{Context, Result, bail};
use clap::Args;
use isentrope_rollout::Limits;
use std::net::{SocketAddr, TcpListener};

/// The variable with the key, which other users see less easily than a flag.
const API_KEY: &str = "ISENTROPE_API_KEY";

/// The address and the key of a server, and the limits of its sampling.
#[derive(Args)]
pub struct ServerFlags {
    /// Address or name to listen at; 0.0.0.0 is all of this machine's addresses
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Port to listen at; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    port: u16,
    /// Key that requests must have [default: ISENTROPE_API_KEY, else none is needed]
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Name of the model in requests and answers [default: MODEL as given]
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Option<String>,
    /// Most sequences decoded at a time
    #[arg(long, value_name = "N", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    max_num_seqs: u32,
    /// Memory for keys and values, in MiB [default: half of what is available]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    kv_memory: Option<u64>,
}

impl ServerFlags {
    /// Listens at the address. A port that is taken is found before the model is loaded.
    pub fn listen(&self) -> Result<TcpListener> {
        let Self { host, port, .. } = self;
        TcpListener::bind((&**host, *port))
            .with_context(|| format!("--host {host}, --port {port} (0 takes a free one)"))
    }

    /// The key that requests must have; none if all may ask. It must begin with `prefix`; `rule`
    /// is what it must be in words.
    pub fn api_key(&self, prefix: &str, rule: &str) -> Result<Option<String>> {
        // A variable that is no text must not open the server.
        let of_variable = || Some(std::env::var_os(API_KEY)?.to_string_lossy().into_owned());
        let key = self.api_key.clone().or_else(of_variable);
        if let Some(key) = &key
            && (key.is_empty()
                || !key.bytes().all(|byte| byte.is_ascii_graphic())
                || !key.starts_with(prefix))
        {
            bail!(
                "--api-key (or {API_KEY}) must {rule}; its characters are visible ASCII, without \
                 spaces or line ends"
            );
        }
        Ok(key)
    }

    /// Limits of the sampling engine, which reads `prefill_tokens` of prompts per step.
    /// `kv_memory`, in MiB, is in place of the flag's usual default.
    pub fn limits(
        &self,
        loaded: &Loaded,
        prefill_tokens: usize,
        kv_memory: Option<u64>,
    ) -> Result<Limits> {
        Ok(Limits {
            cache_bytes: loaded.cache_bytes(self.kv_memory.or(kv_memory))?,
            sequences: self.max_num_seqs as usize,
            prefill_tokens,
        })
    }
}

/// Warns of a server that everybody may ask.
pub fn warn_if_open(address: SocketAddr, api_key: Option<&str>) {
    if !address.ip().is_loopback() && api_key.is_none() {
        messages::warning("everybody who reaches this address may ask: --api-key sets a key");
    }
}

//! `isentrope serve`: a model behind OpenAI's HTTP interface.

use crate::interrupt;
use crate::loaded_model::{Loaded, ModelArguments};
use crate::messages;
use crate::sampling_flags::of_model;
use crate::server_flags::{ServerFlags, warn_if_open};
use crate::template_flags::TemplateFlags;
use anyhow::Result;
use clap::Args;
use isentrope_rollout::Limits;
use isentrope_serve::{Settings, context, serve};
use serde_json::json;
use std::net::TcpListener;
use std::time::Duration;

/// Time for running requests to end after Ctrl-C.
const GRACE: Duration = Duration::from_secs(10);
/// Prompt tokens that are read per step: few, since the other requests wait for them.
const PREFILL_TOKENS: usize = 256;

/// Serve a model over OpenAI's HTTP interface
///
/// Answers /v1/chat/completions, /v1/completions, /v1/models, /health and /metrics (Prometheus), as
/// docs/guides/serve.md describes. Requests join and leave the batch at every step. A response
/// depends on the weights, its prompt and its seed alone, not on the requests beside it, and
/// `isentrope score` gives the same log-probs.
///
/// Sampling settings that a request does not give come from the model's generation_config.json
/// where it asks for sampling (do_sample), else temperature 1 without truncation.
///
/// A key (--api-key) comes with requests as "Authorization: Bearer KEY".
///
/// Ctrl-C gives running requests 10 s to end; Ctrl-C again ends at once.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    server: ServerFlags,
    /// Most tokens of a prompt and its response together [default: the model's context, or what
    /// --kv-memory holds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    max_model_len: Option<u32>,
    /// Most sequences that may wait to begin; requests beyond get status 503
    #[arg(long, value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    max_waiting: u32,
    /// Longest time of a request, in seconds
    #[arg(long, value_name = "S", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86400))]
    timeout: u32,
    #[command(flatten)]
    template_flags: TemplateFlags,
}

impl Serve {
    pub fn run(self) -> Result<()> {
        let api_key = self.server.api_key("", "not be empty")?;
        let listener = self.server.listen()?;
        self.model.run(|loaded| self.serve(listener, api_key, loaded))
    }

    fn serve(&self, listener: TcpListener, api_key: Option<String>, loaded: &Loaded) -> Result<()> {
        let prompter = loaded.prompter(&self.template_flags.settings())?;
        let (defaults, _) = of_model(loaded)?;
        let limits = self.server.limits(loaded, PREFILL_TOKENS, None)?;
        let name = self.server.served_model_name.as_deref().unwrap_or(self.model.name());
        let settings = Settings {
            name: name.to_owned(),
            api_key,
            context: self.max_model_len.map(|tokens| tokens as usize),
            max_waiting: self.max_waiting as usize,
            timeout: Duration::from_secs(self.timeout.into()),
            grace: GRACE,
        };
        let has_template = prompter.has_template();
        let tool = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
        prompter.hidden_tools(&[tool]).into_iter().for_each(messages::note);
        self.introduce(&listener, loaded, &limits, &settings, has_template)?;
        interrupt::wind_up_first("running requests have 10 s to end");
        let model = &loaded.model;
        serve(listener, model, prompter, defaults, limits, settings, interrupt::requested)?;
        Ok(())
    }

    /// Says what is served, where, and how to try it.
    fn introduce(
        &self,
        listener: &TcpListener,
        loaded: &Loaded,
        limits: &Limits,
        settings: &Settings,
        has_template: bool,
    ) -> Result<()> {
        let address = listener.local_addr()?;
        let tokens = context(&loaded.model, limits, settings.context);
        let key = if settings.api_key.is_some() { ", with an API key" } else { "" };
        messages::say(&format!(
            "serving {} at http://{address}/v1: contexts of up to {tokens} tokens{key}",
            settings.name
        ));
        warn_if_open(address, settings.api_key.as_deref());
        let (path, body) = if has_template {
            let message = json!({"role": "user", "content": "What is 2+2?"});
            ("chat/completions", json!({"messages": [message], "max_tokens": 64}))
        } else {
            ("completions", json!({"prompt": "2+2=", "max_tokens": 16}))
        };
        let header = settings.api_key.as_ref().map_or("", |_| " -H \"Authorization: Bearer $KEY\"");
        messages::say(&format!(
            "try `curl http://{address}/v1/{path}{header} -H 'Content-Type: application/json' -d \
             '{body}'`"
        ));
        Ok(())
    }
}

//! Reads the bodies of requests: fields, prompts as tokens, settings of sampling.

use crate::api_error::ApiError;
use crate::fields::{Fields, token_ids};
use hyper::StatusCode;
use isentrope_data::Prompt;
use isentrope_rollout::{Error, Prompter, Sampling};
use serde_json::{Map, Value};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Most samples of a prompt.
const MOST_SAMPLES: usize = 128;
/// Longest prompt whose tokens are scored: the model sees it in one pass, and everybody waits.
const LONGEST_SCORED: usize = 16384;
/// Most tokens of prompts in an answer, which repeats them in every choice.
const MOST_REPEATED: usize = 1 << 18;
/// Most stop texts and stop tokens, which are looked for at every token, and the longest text.
const MOST_STOPS: usize = 64;
const LONGEST_STOP: usize = 1024;
/// Tokens of a completion whose request does not say how many, as in OpenAI's interface.
const COMPLETION_TOKENS: usize = 16;

/// The form of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `/v1/completions`.
    Completion,
    /// `/v1/chat/completions`.
    Chat,
}

/// The model as requests see it.
pub(crate) struct Front {
    pub prompter: Prompter,
    /// Its name in requests and answers.
    pub name: String,
    /// Settings of requests that do not say otherwise.
    pub defaults: Sampling,
    /// Most tokens of a prompt and its response together.
    pub context: usize,
    /// When the server began, in seconds of Unix time.
    pub started: u64,
}

/// A request that has been understood.
pub(crate) struct Understood {
    pub form: Form,
    pub prompts: Vec<Vec<u32>>,
    /// Each prompt's text, where the answer repeats it.
    pub echoed: Option<Vec<String>>,
    pub samples: usize,
    /// How to draw; none if nothing is sampled.
    pub sampling: Option<Arc<Sampling>>,
    pub seed: u64,
    pub stream: bool,
    pub include_usage: bool,
    pub logprobs: Option<Logprobs>,
    /// The temperature at which prompts are scored, if they are.
    pub scoring: Option<f32>,
    pub return_token_ids: bool,
    /// Names of the tools that the model was shown, which answers may call.
    pub tools: Vec<String>,
}

/// The log-probs of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logprobs {
    /// Each token's own.
    Own,
    /// Beside it the most likely token's, which is the token itself in greedy decoding.
    Likeliest,
}

impl Front {
    /// Reads a request.
    pub fn understand(&self, form: Form, body: &[u8]) -> Result<Understood, ApiError> {
        let mut fields = Fields::parse(body)?;
        fields.text("model")?.map_or(Ok(()), |name| self.check_name(&name))?;
        let samples = fields.count("n")?.unwrap_or(1);
        if !(1..=MOST_SAMPLES).contains(&samples) {
            return Err(ApiError::field("n", format!("must be from 1 to {MOST_SAMPLES}")));
        }
        let stream = fields.flag("stream")?;
        let options = fields.take("stream_options").unwrap_or_else(|| Value::Object(Map::new()));
        let include_usage = match options.get("include_usage") {
            None if options.is_object() => false,
            Some(Value::Bool(include)) => *include,
            _ => {
                return Err(ApiError::field("stream_options", "must be {\"include_usage\": true}"));
            }
        };
        let sampling = self.sampling(&mut fields)?;
        let is_greedy = sampling.temperature == 0.0;
        let echoes = form == Form::Completion && fields.flag("echo")?;
        // Under a repetition penalty they are known of an echoed prompt alone.
        let has_likeliest = is_greedy && (sampling.repetition_penalty == 1.0 || echoes);
        let logprobs = logprobs(form, &mut fields, has_likeliest)?;
        if echoes && stream {
            return Err(ApiError::field("echo", "does not go with stream"));
        }
        let asked = most_tokens(form, &mut fields)?;
        if asked == Some(0) && !echoes {
            return Err(ApiError::field("max_tokens", "is 0, and nothing is echoed"));
        }
        let seed = fields.seed("seed")?.unwrap_or_else(drawn_seed);
        let return_token_ids = fields.flag("return_token_ids")?;
        let tools = if form == Form::Chat { tools(&mut fields)? } else { Vec::new() };
        let prompts = match form {
            Form::Completion => self.prompts(&mut fields)?,
            Form::Chat => vec![self.chat(&mut fields, &tools)?],
        };
        fields.finish()?;

        let lengths = || prompts.iter().map(|(_, tokens)| tokens.len());
        let longest = lengths().max().unwrap_or(0);
        let repeated = lengths().sum::<usize>().saturating_mul(samples);
        if (echoes || return_token_ids) && repeated > MOST_REPEATED {
            let name = if echoes { "echo" } else { "return_token_ids" };
            return Err(ApiError::field(
                name,
                format!(
                    "would repeat prompts of {repeated} tokens in all choices, and at most \
                     {MOST_REPEATED} go into an answer: ask for fewer samples or prompts"
                ),
            ));
        }
        let max_tokens = self.max_tokens(form, longest, asked)?;
        let scoring = if is_greedy { 1.0 } else { sampling.temperature };
        let scoring = Some(scoring).filter(|_| echoes && logprobs.is_some());
        if scoring.is_some() && longest > LONGEST_SCORED {
            return Err(ApiError::field(
                "prompt",
                format!("has {longest} tokens, and at most {LONGEST_SCORED} can be scored"),
            ));
        }
        let sampling = Sampling { max_tokens, ..sampling };
        let (texts, prompts) = prompts.into_iter().unzip();
        Ok(Understood {
            form,
            prompts,
            echoed: Some(texts).filter(|_| echoes),
            samples,
            sampling: (max_tokens > 0).then(|| Arc::new(sampling)),
            seed,
            stream,
            include_usage,
            logprobs,
            scoring,
            return_token_ids,
            tools: tools.iter().filter_map(tool_name).map(str::to_owned).collect(),
        })
    }

    /// Refuses the name of another model.
    pub fn check_name(&self, name: &str) -> Result<(), ApiError> {
        if name == self.name {
            return Ok(());
        }
        let message = format!("the model {name:?} is not here; {:?} is", self.name);
        Err(ApiError {
            field: Some("model".into()),
            ..ApiError::new(StatusCode::NOT_FOUND, message)
        })
    }

    /// The settings of sampling, but for the number of tokens.
    fn sampling(&self, fields: &mut Fields) -> Result<Sampling, ApiError> {
        let Sampling { temperature, top_p, min_p, repetition_penalty, top_k, .. } = self.defaults;
        let stop_tokens = fields.tokens("stop_token_ids")?;
        let stop = fields.texts("stop")?;
        for (name, count) in [("stop", stop.len()), ("stop_token_ids", stop_tokens.len())] {
            if count > MOST_STOPS {
                let message =
                    format!("has {count} items, and at most {MOST_STOPS} are watched for");
                return Err(ApiError::field(name, message));
            }
        }
        if stop.iter().any(|text| text.len() > LONGEST_STOP) {
            let message = format!("has a text of more than {LONGEST_STOP} bytes");
            return Err(ApiError::field("stop", message));
        }
        let sampling = Sampling {
            temperature: fields.number("temperature")?.unwrap_or(temperature),
            top_p: fields.number("top_p")?.unwrap_or(top_p),
            min_p: fields.number("min_p")?.unwrap_or(min_p),
            repetition_penalty: fields.number("repetition_penalty")?.unwrap_or(repetition_penalty),
            top_k: top_k_of(fields)?.unwrap_or(top_k),
            stop_tokens,
            ignore_eos: fields.flag("ignore_eos")?,
            ..self.defaults.clone()
        };
        let Prompter { tokenizer, eos_tokens, .. } = &self.prompter;
        let sampling = sampling.ending_at(eos_tokens, &stop, Some(tokenizer));
        sampling.check().map_err(|wrong| match wrong {
            Error::Setting { name, value, expected } => {
                ApiError::field(&name.replace('-', "_"), format!("is {value}: {expected}"))
            }
            wrong => ApiError::request(wrong.to_string()),
        })?;
        Ok(sampling)
    }

    /// Most tokens of a response to a prompt of `longest` tokens.
    fn max_tokens(
        &self,
        form: Form,
        longest: usize,
        asked: Option<usize>,
    ) -> Result<usize, ApiError> {
        let context = self.context;
        let too_long = |what: String| {
            ApiError::request(format!("this server's context is {context} tokens, and {what}"))
        };
        if longest > context || (longest == context && asked != Some(0)) {
            return Err(too_long(format!("the prompt has {longest}")));
        }
        let room = context - longest;
        match (asked, form) {
            (Some(asked), _) if asked > room => Err(too_long(format!(
                "the prompt has {longest}, the response may have {asked}: ask for at most {room}"
            ))),
            (Some(asked), _) => Ok(asked),
            (None, Form::Completion) => Ok(COMPLETION_TOKENS.min(room)),
            (None, Form::Chat) => Ok(room),
        }
    }

    /// The prompts of a completion, each as text and tokens.
    fn prompts(&self, fields: &mut Fields) -> Result<Vec<(String, Vec<u32>)>, ApiError> {
        let expected = "must be a text, a list of texts, token ids, or a list of lists of them";
        let wrong = || ApiError::field("prompt", expected);
        let prompts = match fields.take("prompt").ok_or_else(wrong)? {
            Value::Array(items) if items.first().is_some_and(|i| !i.is_number()) => items,
            value => vec![value],
        };
        let read = |prompt: &Value| match prompt {
            Value::String(text) => Ok((text.clone(), self.encode(text)?)),
            ids => {
                let tokens = token_ids(ids).filter(|ids| !ids.is_empty()).ok_or_else(wrong)?;
                let text = self.prompter.tokenizer.decode(&tokens, false);
                Ok((text.map_err(|e| ApiError::field("prompt", format!(": {e}")))?, tokens))
            }
        };
        prompts.iter().map(read).collect()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, ApiError> {
        let tokens = self.prompter.prompt_tokens(&Prompt::Beginning(text.to_owned()));
        self.prompter.tokenizer.take_dropped(); // as other servers, without the lost characters
        tokens.map_err(|wrong| ApiError::field("prompt", format!("cannot be used: {wrong}")))
    }

    /// The prompt of a chat, as text and tokens.
    fn chat(&self, fields: &mut Fields, tools: &[Value]) -> Result<(String, Vec<u32>), ApiError> {
        if !self.prompter.has_template() {
            return Err(ApiError::request(
                "the model has no chat template: /v1/completions takes prompts as they are",
            ));
        }
        let messages = fields.take("messages");
        let Some(Value::Array(messages)) = messages.filter(|m| *m != Value::Array(Vec::new()))
        else {
            return Err(ApiError::field("messages", "must be a list of messages"));
        };
        let messages = messages.into_iter().map(message).collect::<Result<Vec<_>, _>>()?;
        let wrong = |what: String| ApiError::field("messages", format!("cannot be used: {what}"));
        let text = self.prompter.apply_template(&messages, tools, true).map_err(wrong)?;
        let tokens = self.prompter.tokenizer.encode(&text, false);
        self.prompter.tokenizer.take_dropped();
        let tokens = tokens.map_err(|e| wrong(e.to_string()))?;
        if tokens.is_empty() {
            return Err(wrong("they come to no tokens".into()));
        }
        Ok((text, tokens))
    }
}

/// The name of a tool, within `function` as in OpenAI's form or without it.
fn tool_name(tool: &Value) -> Option<&str> {
    tool.pointer("/function/name").or(tool.get("name"))?.as_str()
}

/// The tools to show to the model.
fn tools(fields: &mut Fields) -> Result<Vec<Value>, ApiError> {
    let tools = match fields.take("tools") {
        None => Vec::new(),
        Some(Value::Array(tools)) if tools.iter().all(|tool| tool_name(tool).is_some()) => tools,
        Some(_) => return Err(ApiError::field("tools", "must be a list of functions with names")),
    };
    match fields.take("tool_choice") {
        None => Ok(tools),
        Some(choice) if choice == "auto" => Ok(tools),
        Some(choice) if choice == "none" => Ok(Vec::new()),
        Some(_) => Err(ApiError::field("tool_choice", "is not supported but for auto and none")),
    }
}

/// A message whose content is one text, and whose calls have objects for arguments, as chat
/// templates read them.
fn message(mut message: Value) -> Result<Value, ApiError> {
    let wrong = |what: &str| Err(ApiError::field("messages", format!("has a message {what}")));
    if !message["role"].is_string() {
        return wrong("without a \"role\"");
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten() {
        let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
        let object = match arguments.as_str() {
            None => Ok(arguments.take()),
            Some("") => Ok(Value::Object(Map::new())),
            Some(text) => serde_json::from_str(text),
        };
        let Ok(object @ Value::Object(_)) = object else {
            return wrong("with a call whose \"arguments\" are not an object in JSON");
        };
        *arguments = object;
    }
    match &message["content"] {
        Value::String(_) => Ok(message),
        // An answer with calls alone has no content, and templates join texts.
        Value::Null => {
            message["content"] = "".into();
            Ok(message)
        }
        Value::Array(parts) => {
            let texts: Option<Vec<&str>> = parts
                .iter()
                .map(|part| part["text"].as_str().filter(|_| part["type"] == "text"))
                .collect();
            let Some(texts) = texts else {
                return wrong("with a part that is no text, and this model reads text alone");
            };
            message["content"] = texts.join("\n").into();
            Ok(message)
        }
        _ => wrong("whose \"content\" is no text"),
    }
}

/// The number of most likely tokens to keep; -1 and 0 keep all.
fn top_k_of(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    match fields.take("top_k") {
        None => Ok(None),
        Some(all) if all == -1 => Ok(Some(0)),
        Some(value) => match value.as_u64().and_then(|k| usize::try_from(k).ok()) {
            Some(k) => Ok(Some(k)),
            None => Err(ApiError::field("top_k", "must be a whole number; -1 or 0 keeps all")),
        },
    }
}

fn most_tokens(form: Form, fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let newer = match form {
        Form::Chat => fields.count("max_completion_tokens")?,
        Form::Completion => None,
    };
    Ok(fields.count("max_tokens")?.filter(|_| newer.is_none()).or(newer))
}

fn logprobs(
    form: Form,
    fields: &mut Fields,
    has_likeliest: bool,
) -> Result<Option<Logprobs>, ApiError> {
    let (name, count) = match form {
        Form::Completion => ("logprobs", fields.count("logprobs")?),
        Form::Chat => {
            let (wanted, top) = (fields.flag("logprobs")?, fields.count("top_logprobs")?);
            if top.is_some_and(|top| top > 0) && !wanted {
                return Err(ApiError::field("top_logprobs", "needs \"logprobs\": true"));
            }
            ("top_logprobs", wanted.then(|| top.unwrap_or(0)))
        }
    };
    match count {
        None => Ok(None),
        Some(0) => Ok(Some(Logprobs::Own)),
        Some(1) if has_likeliest => Ok(Some(Logprobs::Likeliest)),
        Some(more) => Err(ApiError::field(
            name,
            format!(
                "is {more}: this server has the log-prob of each sampled token ({name} 0) and, at \
                 temperature 0 and repetition_penalty 1, of the most likely one ({name} 1)"
            ),
        )),
    }
}

/// A seed for a request that names none, which JSON's numbers hold.
fn drawn_seed() -> u64 {
    // Each RandomState has keys of its own, from the system's random numbers.
    RandomState::new().hash_one(0) >> 11
}

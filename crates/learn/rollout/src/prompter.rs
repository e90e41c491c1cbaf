//! Turns a problem into the tokens that the model sees.

use crate::between_turns::COMPARISONS;
use crate::error::{Error, Result};
use isentrope_data::{DataSettings, Finding, Problem, Prompt, Template};
use isentrope_environment::Environment;
use isentrope_model::chat_template::{ChatTemplate, Date};
use isentrope_model::generation_config::eos_tokens;
use isentrope_model::tokenizer::{SpecialTokens, Tokenizer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Renders prompts for one model.
pub struct Prompter {
    /// The model's tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// Tokens that end a response.
    pub eos_tokens: Vec<u32>,
    template: Option<ChatTemplate>,
    template_use: Template,
    variables: Map<String, Value>,
    system: Option<String>,
    /// Tools that the model may use, each an object, for the chat template.
    pub(crate) tools: Vec<Value>,
    /// Whether an environment's messages follow each prompt, which then ends without the beginning
    /// of the model's turn.
    opens: bool,
    /// Turns at which it is still to be seen whether the template writes them differently later.
    pub(crate) comparisons: AtomicUsize,
}

/// Longest text of a prompt, in bytes: far beyond the contexts of models, and little enough to be
/// encoded in seconds.
const MAX_TEXT: usize = 8 << 20;

impl Prompter {
    /// For the model in `dir`.
    ///
    /// # Errors
    /// When there is no tokenizer, it does not fit the model, or files are malformed; as
    /// [`eos_tokens`].
    pub fn read(dir: &Path, vocab_size: usize, settings: &DataSettings) -> Result<Self> {
        let tokenizer = Tokenizer::read(dir)?.ok_or_else(|| Error::NoTokenizer(dir.to_owned()))?;
        tokenizer.check_against(vocab_size, dir)?;
        Self::new(dir, Arc::new(tokenizer), vocab_size, settings)
    }

    /// For the model in `dir`, whose tokenizer has been read.
    ///
    /// # Errors
    /// When files are malformed; as [`eos_tokens`].
    pub fn new(
        dir: &Path,
        tokenizer: Arc<Tokenizer>,
        vocab_size: usize,
        settings: &DataSettings,
    ) -> Result<Self> {
        let eos_tokens = eos_tokens(dir, vocab_size, Some(&tokenizer))?;
        let template = ChatTemplate::read(dir, &SpecialTokens::read(dir)?, settings.date)?;
        Ok(Self {
            tokenizer,
            eos_tokens,
            template,
            template_use: settings.template,
            variables: template_variables(settings),
            system: settings.system.clone(),
            tools: Vec::new(),
            opens: false,
            comparisons: AtomicUsize::new(COMPARISONS),
        })
    }

    /// For an environment: its tools are given to every prompt that goes through the chat template,
    /// and prompts end where it [opens](Environment::opens) the episode.
    pub fn with_environment(self, environment: &dyn Environment) -> Self {
        Self { tools: environment.tools().to_vec(), opens: environment.opens(), ..self }
    }

    /// A sentence for users whose model does not see the tools, because the chat template does not
    /// write them.
    pub fn hidden_tools(&self, tools: &[Value]) -> Option<&'static str> {
        let message = [json!({"role": "user", "content": "?"})];
        let without = self.apply_template(&message, &[], true).ok()?;
        let is_hidden =
            !tools.is_empty() && self.apply_template(&message, tools, true) == Ok(without);
        is_hidden.then_some("the chat template does not write tools: the model does not see them")
    }

    /// The prompt as the model will see it.
    ///
    /// # Errors
    /// [`Error::Problem`], when a chat template is needed and missing, or fails.
    pub fn text(&self, problem: &Problem) -> Result<String> {
        self.render(&problem.prompt)
            .map_err(|what| Error::Problem { origin: problem.origin.clone(), what })
    }

    /// The prompt's tokens.
    pub fn tokens(&self, problem: &Problem) -> Result<Vec<u32>> {
        let wrong = |what| Error::Problem { origin: problem.origin.clone(), what };
        self.prompt_tokens(&problem.prompt).map_err(wrong)
    }

    /// A prompt's tokens, with the tokenizer's special tokens unless a chat template has written
    /// them.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the prompt.
    pub fn prompt_tokens(&self, prompt: &Prompt) -> Result<Vec<u32>, String> {
        self.rendered(prompt).map(|(_, tokens)| tokens)
    }

    /// A prompt's tokens, as by [`prompt_tokens`](Self::prompt_tokens), and the tokens of a
    /// response behind it.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the prompt or the response.
    pub fn tokens_with_response(
        &self,
        prompt: &Prompt,
        response: &str,
    ) -> Result<(Vec<u32>, Vec<u32>), String> {
        let (text, tokens) = self.rendered(prompt)?;
        let response = self.tokenizer.encode_after(&text, response).map_err(|e| e.to_string())?;
        Ok((tokens, response))
    }

    /// The text that the model will see, and its tokens.
    fn rendered(&self, prompt: &Prompt) -> Result<(String, Vec<u32>), String> {
        if prompt.bytes() > MAX_TEXT {
            return Err(format!("the prompt has more than {} MiB of text", MAX_TEXT >> 20));
        }
        let text = self.render(prompt)?;
        let encoded =
            self.tokenizer.encode(&text, !self.uses_template(prompt)).map_err(|e| e.to_string());
        let what = match encoded {
            Ok(tokens) if !tokens.is_empty() => return Ok((text, tokens)),
            Ok(_) => "the prompt comes to no tokens".to_owned(),
            Err(what) => what,
        };
        // The dropped characters are taken here, so that they are not reported for the next prompt.
        Err(self.tokenizer.take_dropped().map_or(what.clone(), |lost| format!("{what}: {lost}")))
    }

    /// The characters that texts encoded since the last call have lost, if any; `origin` is the
    /// texts' row.
    pub fn loss(&self, origin: &str) -> Option<Finding> {
        let problem = self.tokenizer.take_dropped()?;
        Some(Finding { origin: origin.to_owned(), problem })
    }

    /// Whether prompts go through the chat template, and their system message if so.
    pub fn template(&self) -> (Template, Option<&str>) {
        (self.template_use, self.system.as_deref())
    }

    /// Whether the model has a chat template.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// The date that the chat template writes; none if it writes none.
    pub fn date(&self) -> Option<Date> {
        self.template.as_ref()?.date()
    }

    /// The variables that the recipe gives to the chat template.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The token that ends a response in SFT: one of [`eos_tokens`](Self::eos_tokens).
    pub fn end_token(&self) -> Option<u32> {
        self.tokenizer.special_id("eos_token").or(self.eos_tokens.first().copied())
    }

    pub(crate) fn uses_template(&self, prompt: &Prompt) -> bool {
        if matches!(prompt, Prompt::Beginning(_)) {
            return false;
        }
        match self.template_use {
            Template::Auto => self.template.is_some() || matches!(prompt, Prompt::Chat(_)),
            Template::Chat => true,
            Template::None => false,
        }
    }

    pub(crate) fn render(&self, prompt: &Prompt) -> Result<String, String> {
        if prompt.is_empty_chat() && !self.opens {
            return Err("the prompt has no messages: only an environment that opens its episodes \
                        (environment.opens) goes without"
                .into());
        }
        let mut messages = match (prompt, self.uses_template(prompt)) {
            (Prompt::Text(text), false) | (Prompt::Beginning(text), _) => return Ok(text.clone()),
            (Prompt::Chat(messages), false) if messages.is_empty() => return Ok(String::new()),
            (Prompt::Chat(messages), false) => {
                let [message] = &messages[..] else {
                    return Err(
                        "the prompt is a chat of several messages, and the template to use is \
                         \"none\""
                            .into(),
                    );
                };
                let text = message["content"].as_str();
                return text
                    .map(str::to_owned)
                    .ok_or_else(|| "the message's content is not a text".into());
            }
            (Prompt::Text(text), true) => vec![json!({"role": "user", "content": text})],
            (Prompt::Chat(messages), true) => messages.clone(),
        };
        self.add_system(&mut messages);
        if messages.is_empty() {
            return self.first_special_token();
        }
        self.apply_template(&messages, &self.tools, !self.opens)
    }

    /// The special token with which the chat template begins every conversation.
    fn first_special_token(&self) -> Result<String, String> {
        let text =
            self.apply_template(&[json!({"role": "user", "content": ""})], &self.tools, true)?;
        let tokens = self.tokenizer.encode(&text, false).map_err(|e| e.to_string())?;
        let first = tokens.first().and_then(|&token| self.tokenizer.special_text(token));
        first.filter(|first| text.starts_with(first)).ok_or_else(|| {
            "the prompt has no messages, and the chat template begins with no special token that \
             could stand for it: give the data a prompt"
                .into()
        })
    }

    /// Gives a chat that has no system message the recipe's.
    pub fn add_system(&self, messages: &mut Vec<Value>) {
        if let Some(system) = &self.system
            && messages.first().is_none_or(|m| m["role"] != "system")
        {
            messages.insert(0, json!({"role": "system", "content": system}));
        }
    }

    /// Messages through the chat template, with the tools that they may use; `generation` begins
    /// the assistant's turn at the end.
    pub fn apply_template(
        &self,
        messages: &[Value],
        tools: &[Value],
        generation: bool,
    ) -> Result<String, String> {
        let template = self.template.as_ref().ok_or(
            "the model has no chat template (chat_template.jinja, or \"chat_template\" in \
             tokenizer_config.json) and the prompt is to go through one; data.template = \"none\", \
             or --template none, uses its text alone",
        )?;
        let mut variables = Cow::Borrowed(&self.variables);
        if !tools.is_empty() {
            variables.to_mut().insert("tools".into(), tools.into());
        }
        template.render(messages, generation, &variables).map_err(|e| e.to_string())
    }
}

/// The recipe's variables of the chat template, as it takes them.
pub fn template_variables(settings: &DataSettings) -> Map<String, Value> {
    settings
        .template_variables
        .iter()
        .map(|(name, variable)| (name.clone(), variable.into()))
        .collect()
}

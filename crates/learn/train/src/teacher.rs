//! The teacher of on-policy distillation: a frozen model of any size and family whose tokenizer has
//! the policy's tokens.

use crate::error::{Error, Result};
use isentrope_hub::{self as hub, HubConfig};
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{Layout, ModelConfig};
use std::path::PathBuf;

/// The recipe's key that names the teacher.
pub const TEACHER: &str = "objective.distillation.teacher";

/// A teacher that can score the policy's responses. Its weights have not been read.
pub struct Teacher {
    /// Its directory or hub id, as the recipe names it.
    pub path: String,
    /// The directory of its configuration and tokenizer, into which weights are fetched.
    pub dir: PathBuf,
    /// Its configuration.
    pub config: ModelConfig,
    /// Its parameters.
    pub(crate) layout: Layout,
}

/// The policy, as far as a teacher must match it.
pub(crate) struct Student<'a> {
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Rows of its embedding, which may be more than its tokenizer has tokens.
    pub vocabulary: usize,
    /// The longest prompt with its response, in tokens.
    pub longest: usize,
}

impl Teacher {
    /// Reads everything but the weights; fetches it first if `path` is a hub id.
    ///
    /// # Errors
    /// [`Setting`](isentrope_evaluation::Error::Setting) when the model cannot be read, or cannot
    /// score what the student writes.
    pub(crate) fn open(
        path: &str,
        student: &Student<'_>,
        progress: &dyn hub::Progress,
    ) -> Result<Self> {
        let wrong = |what: String| Error::setting(TEACHER, format!("is {path}, {what}"));
        let fetched = HubConfig::from_env().and_then(|hub| hub::describe(&hub, path, progress));
        let dir = fetched.map_err(|e| wrong(format!("which cannot be read: {e}")))?;
        let read = ModelConfig::read(&dir).and_then(|config| {
            let tokenizer = Tokenizer::read(&dir)?;
            tokenizer.iter().try_for_each(|t| t.check_against(config.vocab_size, &dir))?;
            Ok((config, tokenizer))
        });
        let (config, tokenizer) = read.map_err(|e| wrong(format!("which cannot be read: {e}")))?;
        let Some(tokenizer) = tokenizer else {
            return Err(wrong(
                "which has no tokenizer.json: it cannot be told whether its tokens \
                              are those of model.path"
                    .to_owned(),
            ));
        };
        if let Some((id, texts)) = student.tokenizer.first_difference(&tokenizer) {
            let [own, its] =
                texts.map(|text| text.map_or("missing".to_owned(), |text| format!("{text:?}")));
            return Err(wrong(format!(
                "whose tokenizer is another than that of model.path: token {id} is {its} there \
                 and {own} here; a teacher scores the policy's tokens and must have the same ones"
            )));
        }
        if config.vocab_size < student.vocabulary {
            return Err(wrong(format!(
                "whose embedding has {} rows, and that of model.path {}: it has none for the \
                 highest tokens that the policy may draw",
                config.vocab_size, student.vocabulary
            )));
        }
        if config.context() < student.longest {
            return Err(wrong(format!(
                "whose context is {} tokens, and prompts with their responses may have {}: lower \
                 rollout.max_tokens or data.max_prompt_tokens",
                config.context(),
                student.longest
            )));
        }
        let layout = Layout::new(&config);
        Ok(Self { path: path.to_owned(), dir, config, layout })
    }
}

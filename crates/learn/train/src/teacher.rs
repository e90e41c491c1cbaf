//! The teacher of on-policy distillation: a frozen model of any size and family whose tokenizer has
//! the policy's tokens. And the question that a teacher is shown in place of the policy's.

use crate::error::{Error, Result};
use isentrope_data::{Problem, Prompt, text_of};
use isentrope_hub::{self as hub, HubConfig};
use isentrope_model::tokenizer::Tokenizer;
use isentrope_model::{Layout, ModelConfig};
use isentrope_objective::{Distillation, SelfTeacher};
use std::path::PathBuf;

/// The recipe's key that names the teacher.
pub const TEACHER: &str = "objective.distillation.teacher";

/// The recipe's key of the question that a teacher is shown.
pub(crate) const TEACHER_PROMPT: &str = "objective.distillation.teacher_prompt";
/// The part of it that stands for the problem's hint.
pub(crate) const HINT: &str = "{hint}";

/// The problem's prompt with the teacher's question, in which parts in braces stand for the
/// problem's texts. Other braces are text, and so are braces in the problem's texts.
///
/// # Errors
/// A sentence that says what the problem lacks.
pub(crate) fn taught_prompt(question: &str, problem: &Problem) -> Result<Prompt, String> {
    let own = problem.prompt.question().ok_or("the prompt has no question to show a teacher")?;
    let lacks = |what: &str| format!("the row has no {what}, which {TEACHER_PROMPT} shows");
    let mut asked = String::new();
    let mut rest = question;
    while let Some(brace) = rest.find('{') {
        let (before, from_brace) = rest.split_at(brace);
        asked.push_str(before);
        let (part, text) = if from_brace.starts_with("{prompt}") {
            ("{prompt}", own.to_owned())
        } else if from_brace.starts_with("{answer}") {
            ("{answer}", text_of(&problem.ground_truth).ok_or_else(|| lacks("answer"))?)
        } else if from_brace.starts_with(HINT) {
            let hint = problem.hint.clone().filter(|hint| !hint.is_empty());
            (HINT, hint.ok_or_else(|| lacks("hint (data.columns.hint)"))?)
        } else {
            ("{", "{".to_owned())
        };
        asked.push_str(&text);
        rest = &from_brace[part.len()..];
    }
    asked.push_str(rest);
    let mut prompt = problem.prompt.clone();
    prompt.ask(asked);
    Ok(prompt)
}

/// The error when `what`, which comes from the teacher's weights, is not finite.
pub(crate) fn damaged(what: &str, distillation: &Distillation) -> Error {
    let of = match distillation.self_teacher {
        None => format!("the model that {TEACHER} names"),
        Some(SelfTeacher::Base) => "the model that model.path names".to_owned(),
        Some(SelfTeacher::Live) => "the policy".to_owned(),
    };
    Error::Run(format!("{what} are not finite: look for damaged weights in {of}"))
}

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
        let wrong = |what: String| wrong(path, &what);
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
        let layout = Layout::new(&config);
        Ok(Self { path: path.to_owned(), dir, config, layout })
    }

    /// Checks that the policy's prompts with their responses, of which the longest has `longest`
    /// tokens, fit the context.
    pub(crate) fn check_context(&self, longest: usize) -> Result<()> {
        let context = self.config.context();
        if longest <= context {
            return Ok(());
        }
        let what = format!(
            "whose context is {context} tokens, and prompts with their responses may have \
             {longest}: lower rollout.max_tokens or data.max_prompt_tokens"
        );
        Err(wrong(&self.path, &what))
    }
}

fn wrong(path: &str, what: &str) -> Error {
    Error::setting(TEACHER, format!("is {path}, {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::problem;
    use serde_json::json;

    #[test]
    fn a_teachers_prompt_shows_the_problems_texts_and_nothing_within_them() {
        let question = r"{prompt} = \boxed{{answer}}: {hint} {x}{";
        let mut problem = Problem {
            prompt: Prompt::Text("{hint}?".into()),
            ground_truth: json!([3, "4"]),
            hint: Some("{answer}{prompt}".into()),
            ..problem()
        };
        let shown = r#"{hint}? = \boxed{[3,"4"]}: {answer}{prompt} {x}{"#;
        assert_eq!(taught_prompt(question, &problem), Ok(Prompt::Text(shown.into())));
        // Only the last question of a chat changes.
        let [system, first, answer] = [("system", "s"), ("user", "1"), ("assistant", "2")]
            .map(|(role, content)| json!({"role": role, "content": content}));
        let asks = |question: &str| json!({"role": "user", "content": question});
        let chat = |question| {
            Prompt::Chat(vec![system.clone(), first.clone(), answer.clone(), asks(question)])
        };
        problem.prompt = chat("3");
        assert_eq!(taught_prompt("{prompt}, {answer}", &problem), Ok(chat(r#"3, [3,"4"]"#)));
        // A missing text is named.
        let lacking = [
            Problem { ground_truth: json!(null), ..problem.clone() },
            Problem { hint: None, ..problem.clone() },
            Problem { prompt: Prompt::Chat(vec![]), ..problem },
        ];
        for (problem, part) in lacking.iter().zip(["no answer", "no hint (data.col", "no question"])
        {
            let said = taught_prompt(question, problem).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
    }
}

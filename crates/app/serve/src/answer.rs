//! Answers in OpenAI's JSON, whole or as a stream of chunks.

use crate::api_error::ApiError;
use crate::job::{PromptScores, Update};
use crate::reading::{Form, Front, Logprobs, Understood};
use crate::said::Said;
use isentrope_rollout::Completion;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// An answer in the making.
pub(crate) struct Answer {
    front: Arc<Front>,
    request: Understood,
    id: String,
    created: u64,
    choices: Vec<Choice>,
    prompt_scores: Vec<Option<PromptScores>>,
    /// Sampled tokens.
    sampled: usize,
}

/// A choice of an answer.
#[derive(Default)]
struct Choice {
    /// Bytes of its text that have been streamed.
    streamed: usize,
    /// Characters of its text that have been streamed, for offsets.
    offset: usize,
    /// Whether its role has been streamed.
    begun: bool,
    completion: Option<Completion>,
}

/// Seconds of Unix time.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

impl Answer {
    /// An answer without content.
    pub fn new(front: Arc<Front>, request: Understood, number: u64) -> Self {
        let count = request.prompts.len() * request.samples;
        let kind = if request.form == Form::Chat { "chatcmpl" } else { "cmpl" };
        Self {
            id: format!("{kind}-{}-{number}", front.started),
            created: now(),
            choices: (0..count).map(|_| Choice::default()).collect(),
            prompt_scores: request.prompts.iter().map(|_| None).collect(),
            sampled: 0,
            front,
            request,
        }
    }

    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        (self.request.sampling.is_none() || self.choices.iter().all(|c| c.completion.is_some()))
            && (self.request.scoring.is_none() || self.prompt_scores.iter().all(Option::is_some))
    }

    /// Takes an event, and returns its chunk if there is something to show.
    pub fn take(&mut self, update: Update) -> Result<Option<Value>, ApiError> {
        match update {
            Update::Accepted => Ok(None),
            Update::Failed(error) => Err(error),
            Update::Scored { prompt, scores } => {
                self.prompt_scores[prompt] = Some(scores);
                Ok(None)
            }
            Update::Token { choice, drawn, mut text } => {
                self.sampled += 1;
                if !self.request.stream {
                    return Ok(None);
                }
                if !self.request.tools.is_empty() {
                    text.clear(); // it is known at the end alone whether the text is a call
                }
                let is_silent = !self.request.return_token_ids && self.request.logprobs.is_none();
                if text.is_empty() && is_silent {
                    return Ok(None);
                }
                let offset = self.choices[choice].offset;
                self.choices[choice].streamed += text.len();
                self.choices[choice].offset += text.chars().count();
                let scored = self.tokens(&[drawn.token], &[Some(drawn.logprob)], None, offset);
                Ok(Some(self.chunk(choice, Said::part(text), scored, Some(&[drawn.token]))))
            }
            Update::Finished { choice, completion } => {
                let shown = self.choices[choice].streamed;
                let mut said = self.said(choice, &completion);
                said.text = said.text.get(shown..).unwrap_or_default().to_owned();
                self.choices[choice].completion = Some(*completion);
                Ok(self.request.stream.then(|| self.chunk(choice, said, Value::Null, None)))
            }
        }
    }

    /// A choice's text and calls, once it has ended.
    fn said(&self, choice: usize, completion: &Completion) -> Said {
        let text = completion.text.as_deref().unwrap_or_default();
        let reason = completion.finish_reason.name();
        let id = format!("{}-{choice}", self.id);
        Said::with_calls(text, reason, &self.request.tools, &id)
    }

    /// A chunk of the stream: what a choice says anew, and why it ended if it has.
    fn chunk(
        &mut self,
        index: usize,
        said: Said,
        logprobs: Value,
        tokens: Option<&[u32]>,
    ) -> Value {
        let is_first = !std::mem::replace(&mut self.choices[index].begun, true);
        let mut choice =
            json!({"index": index, "logprobs": logprobs, "finish_reason": said.finish_reason});
        let mut of_chat = Map::new();
        match self.request.form {
            Form::Completion => choice["text"] = said.text.into(),
            Form::Chat => {
                choice["delta"] = said.message();
                if is_first {
                    choice["delta"]["role"] = "assistant".into();
                }
            }
        }
        if self.request.return_token_ids {
            choice["token_ids"] = json!(tokens.unwrap_or_default());
            let prompt = is_first.then(|| &self.request.prompts[index / self.request.samples]);
            match self.request.form {
                Form::Completion => choice["prompt_token_ids"] = json!(prompt),
                Form::Chat => _ = of_chat.insert("prompt_token_ids".into(), json!(prompt)),
            }
        }
        let mut chunk = self.frame(json!([choice]), true);
        chunk.extend(of_chat);
        if self.request.include_usage {
            chunk.insert("usage".into(), Value::Null);
        }
        chunk.into()
    }

    /// The last chunk, with the counts of tokens, if the client asks for it.
    pub fn usage_chunk(&self) -> Option<Value> {
        let mut chunk = self.frame(json!([]), true);
        chunk.insert("usage".into(), self.usage());
        self.request.include_usage.then(|| chunk.into())
    }

    fn frame(&self, choices: Value, is_chunk: bool) -> Map<String, Value> {
        let object = match (self.request.form, is_chunk) {
            (Form::Completion, _) => "text_completion",
            (Form::Chat, false) => "chat.completion",
            (Form::Chat, true) => "chat.completion.chunk",
        };
        let fields = [
            ("id", json!(self.id)),
            ("object", json!(object)),
            ("created", json!(self.created)),
            ("model", json!(self.front.name)),
            ("choices", choices),
            ("seed", json!(self.request.seed)),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn usage(&self) -> Value {
        let prompt: usize = self.request.prompts.iter().map(Vec::len).sum();
        let sampled = self.sampled;
        json!({
            "prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled
        })
    }

    /// The whole answer.
    pub fn whole(&self) -> Value {
        let choices: Vec<Value> = (0..self.choices.len()).map(|i| self.whole_choice(i)).collect();
        let mut answer = self.frame(choices.into(), false);
        if self.request.return_token_ids && self.request.form == Form::Chat {
            answer.insert("prompt_token_ids".into(), json!(self.request.prompts[0]));
        }
        answer.insert("usage".into(), self.usage());
        answer.into()
    }

    fn whole_choice(&self, index: usize) -> Value {
        let completion = self.choices[index].completion.as_ref();
        let (sampled, sampled_logprobs) =
            completion.map_or((&[][..], &[][..]), |c| (&c.tokens[..], &c.logprobs[..]));
        let at = index / self.request.samples;
        let prompt = &self.request.prompts[at];
        let mut said = match completion {
            Some(completion) => self.said(index, completion),
            None => Said::whole("", "length"),
        };
        let (mut tokens, mut logprobs, mut likeliest) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(echoed) = &self.request.echoed {
            said.text.insert_str(0, &echoed[at]);
            if let Some(scores) = &self.prompt_scores[at] {
                tokens.extend(prompt);
                logprobs.push(None); // nothing comes before the first token
                logprobs.extend(scores.logprobs.iter().copied().map(Some));
                likeliest.push(None);
                likeliest.extend(scores.likeliest.iter().copied().map(Some));
            }
        }
        tokens.extend(sampled);
        logprobs.extend(sampled_logprobs.iter().copied().map(Some));
        // A greedy token is the most likely one, but for a repetition penalty.
        let is_likeliest =
            self.request.sampling.as_ref().is_none_or(|of| of.repetition_penalty == 1.0);
        let own = sampled.iter().copied().zip(sampled_logprobs.iter().copied());
        likeliest.extend(own.map(|own| is_likeliest.then_some(own)));
        let mut choice = json!({
            "index": index,
            "logprobs": self.tokens(&tokens, &logprobs, Some(&likeliest), 0),
            "finish_reason": said.finish_reason,
        });
        match self.request.form {
            Form::Completion => choice["text"] = said.text.into(),
            Form::Chat => {
                choice["message"] = said.message();
                choice["message"]["role"] = "assistant".into();
            }
        }
        if self.request.return_token_ids {
            choice["token_ids"] = json!(sampled);
            if self.request.form == Form::Completion {
                choice["prompt_token_ids"] = json!(prompt);
            }
        }
        choice
    }

    /// The log-probs of tokens, if the client asks for them. `likeliest` has the most likely token
    /// at each place; without it, the tokens are.
    fn tokens(
        &self,
        tokens: &[u32],
        logprobs: &[Option<f32>],
        likeliest: Option<&[Option<(u32, f32)>]>,
        offset: usize,
    ) -> Value {
        let Some(wanted) = self.request.logprobs else { return Value::Null };
        let text =
            |token: u32| self.front.prompter.tokenizer.decode(&[token], false).unwrap_or_default();
        let texts: Vec<String> = tokens.iter().map(|&token| text(token)).collect();
        let top = |i: usize| match (wanted, likeliest) {
            (Logprobs::Own, _) => None,
            (Logprobs::Likeliest, Some(likeliest)) => likeliest[i],
            (Logprobs::Likeliest, None) => logprobs[i].map(|logprob| (tokens[i], logprob)),
        };
        match self.request.form {
            Form::Chat => {
                let entry = |text: &str, logprob: Option<f32>| {
                    // An unfinished character has no bytes of its own here.
                    let bytes = Some(text.as_bytes()).filter(|_| !text.contains('\u{fffd}'));
                    json!({"token": text, "logprob": logprob, "bytes": bytes})
                };
                let content: Vec<Value> = (0..tokens.len())
                    .map(|i| {
                        let tops = top(i).map(|(token, lp)| entry(&text(token), Some(lp)));
                        let mut content = entry(&texts[i], logprobs[i]);
                        content["top_logprobs"] = Vec::from_iter(tops).into();
                        content
                    })
                    .collect();
                json!({"content": content})
            }
            Form::Completion => {
                let mut at = offset;
                let offsets: Vec<usize> = texts
                    .iter()
                    .map(|text| {
                        at += text.chars().count();
                        at - text.chars().count()
                    })
                    .collect();
                let tops: Vec<Value> = (0..tokens.len())
                    .map(|i| match (logprobs[i], top(i)) {
                        (None, _) => Value::Null,
                        (Some(own), top) => {
                            let mut tops = Map::new();
                            tops.insert(texts[i].clone(), json!(own));
                            if let Some((token, logprob)) = top {
                                tops.insert(text(token), json!(logprob));
                            }
                            tops.into()
                        }
                    })
                    .collect();
                json!({
                    "tokens": texts, "token_logprobs": logprobs, "top_logprobs": tops,
                    "text_offset": offsets
                })
            }
        }
    }
}

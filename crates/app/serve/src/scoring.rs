//! Scores of a prompt, a chunk at a time: other requests go on between two chunks.

use crate::job::PromptScores;
use isentrope_model::{KvCache, Model, Result, Step};

/// A prompt that is being scored, with keys and values of its own. Each score has the bits that a
/// pass over the whole prompt would give.
pub(crate) struct Scoring {
    cache: KvCache,
    pages: Vec<u32>,
    state: Option<u32>,
    /// Tokens that have been fed. The last one never is.
    fed: usize,
    scores: PromptScores,
}

impl Scoring {
    /// # Errors
    /// When there is no memory for the prompt's keys and values.
    pub fn begin(model: &Model, prompt: &[u32]) -> Result<Self> {
        let pages = KvCache::pages_for(model, prompt.len());
        let mut cache = KvCache::new(model, pages)?;
        Ok(Self {
            pages: (0..pages).filter_map(|_| cache.take()).collect(),
            state: cache.take_state(),
            cache,
            fed: 0,
            scores: PromptScores { logprobs: Vec::new(), likeliest: Vec::new() },
        })
    }

    /// Whether all tokens of the prompt are scored.
    pub fn is_done(&self, prompt: &[u32]) -> bool {
        self.fed + 1 >= prompt.len()
    }

    /// The scores so far.
    pub fn into_scores(self) -> PromptScores {
        self.scores
    }

    /// Scores at most `count` further tokens. Returns whether their scores are finite.
    pub fn advance(
        &mut self,
        model: &Model,
        prompt: &[u32],
        temperature: f32,
        count: usize,
    ) -> bool {
        let from = self.fed;
        self.fed = (from + count).min(prompt.len() - 1);
        let mut step = Step::default();
        step.push(&prompt[from..self.fed], from, &self.pages, false);
        step.go_on_from_state(self.state);
        step.wanted = (0..step.rows() as u32).collect();
        let hidden = model.step(&step, &mut self.cache, None);
        let scored = model.score_next(&hidden, &prompt[from + 1..=self.fed], temperature);
        self.scores.logprobs.extend(&scored.logprobs);
        let drawn = model.likeliest_next(&hidden, step.rows());
        self.scores.likeliest.extend(drawn.iter().flatten().map(|d| (d.token, d.logprob)));
        scored.logprobs.iter().all(|logprob| logprob.is_finite())
            && drawn.iter().all(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_kernels::{Cpu, Isa};
    use isentrope_model::{Packed, Sequence};
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn chunks_give_the_bits_of_one_pass() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR"));
        let fixtures = fixtures.join("../../compute/model/tests/fixtures/models");
        let cpu = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
        let bits = |logprobs: &[f32]| logprobs.iter().map(|l| l.to_bits()).collect::<Vec<u32>>();
        for family in ["qwen3", "qwen3.5"] {
            let model = Model::load(&fixtures.join(family), cpu.clone()).unwrap();
            let prompt: Vec<u32> = (0..40).map(|i| i * 7 % 50 + 3).collect();
            let of_pass =
                model.score(&Packed::new(&[Sequence { tokens: &prompt, score_from: 1 }]), 0.7);
            for count in [1, 7, 39, 100] {
                let mut scoring = Scoring::begin(&model, &prompt).unwrap();
                let mut chunks = 0;
                while !scoring.is_done(&prompt) {
                    assert!(scoring.advance(&model, &prompt, 0.7, count));
                    chunks += 1;
                }
                assert_eq!(chunks, 39usize.div_ceil(count));
                let PromptScores { logprobs, likeliest } = scoring.into_scores();
                assert_eq!(bits(&logprobs), bits(&of_pass.logprobs));
                assert_eq!(likeliest.len(), 39);
                // At temperature 1 no token is likelier than the most likely one.
                let of_pass =
                    model.score(&Packed::new(&[Sequence { tokens: &prompt, score_from: 1 }]), 1.0);
                assert!(
                    likeliest.iter().zip(&of_pass.logprobs).all(|((_, most), own)| most >= own)
                );
            }
        }
    }
}

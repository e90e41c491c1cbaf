//! A response that has not ended, in a form that another engine can go on with.

use crate::response::{bits, can_be_drawn};
use crate::response_masks::ResponseMasks;
use crate::sampling::Sampling;
use crate::sequence::{Completion, FinishReason};
use isentrope_kernels::{Drawn, SamplingMasks};
use isentrope_run::tokens::GivenRanges;
use serde::{Deserialize, Serialize};

/// A response that has not ended. Vectors are `[tokens]`; without tokens it has not started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartialResponse {
    /// Its tokens so far.
    pub tokens: Vec<u32>,
    /// Log-prob of each token under the model, as in a [`Completion`](crate::Completion).
    #[serde(with = "bits")]
    pub logprobs: Vec<f32>,
    /// Log-prob of each token under the distribution that it was drawn from; empty if that is the
    /// model's.
    #[serde(with = "bits", default, skip_serializing_if = "Vec::is_empty")]
    pub sampling_logprobs: Vec<f32>,
    /// Entropy of the model's distribution at each token, in nats.
    #[serde(with = "bits")]
    pub entropies: Vec<f32>,
    /// The tokens that truncated sampling kept at each position, if they are recorded.
    #[serde(rename = "kept", default, skip_serializing_if = "Option::is_none")]
    pub masks: Option<ResponseMasks>,
    /// Which tokens were given.
    #[serde(default, skip_serializing_if = "GivenRanges::is_empty")]
    pub given: GivenRanges,
}

impl PartialResponse {
    pub(crate) fn new(drawn: &[Drawn], masks: Option<ResponseMasks>) -> Self {
        Self {
            tokens: drawn.iter().map(|d| d.token).collect(),
            logprobs: drawn.iter().map(|d| d.logprob).collect(),
            sampling_logprobs: drawn.iter().filter_map(|d| d.sampling_logprob).collect(),
            entropies: drawn.iter().map(|d| d.entropy).collect(),
            masks: masks.filter(|_| !drawn.is_empty()),
            given: GivenRanges::default(),
        }
    }

    /// The part of a completion from its token `from` on. Given tokens are within one part.
    pub(crate) fn from_token(completion: &Completion, from: usize) -> Self {
        let masks = completion.masks.as_ref().map(|masks| {
            let mut part = ResponseMasks::default();
            (from..completion.tokens.len()).for_each(|at| part.tokens.push(masks.tokens.of(at)));
            part.log_masses.extend_from_slice(&masks.log_masses[from..]);
            part
        });
        let mut given = GivenRanges::default();
        let behind = completion.given.ranges().filter(|range| range.start >= from);
        behind.for_each(|range| given.push(range.start - from..range.end - from));
        let sampling_logprobs = completion.sampling_logprobs.as_deref().unwrap_or_default();
        Self {
            tokens: completion.tokens[from..].to_vec(),
            logprobs: completion.logprobs[from..].to_vec(),
            sampling_logprobs: sampling_logprobs.iter().skip(from).copied().collect(),
            entropies: completion.entropies[from..].to_vec(),
            masks,
            given,
        }
    }

    /// Goes on with the part that follows.
    pub(crate) fn append(&mut self, part: &Self) {
        let (before, count) = (self.tokens.len(), part.tokens.len());
        self.tokens.extend_from_slice(&part.tokens);
        self.logprobs.extend_from_slice(&part.logprobs);
        self.sampling_logprobs.extend_from_slice(&part.sampling_logprobs);
        self.entropies.extend_from_slice(&part.entropies);
        if let Some(more) = &part.masks {
            let masks = self.masks.get_or_insert_default();
            masks.tokens = SamplingMasks::concat(&[(&masks.tokens, before), (&more.tokens, count)]);
            masks.log_masses = [&masks.log_masses[..], &more.log_masses].concat();
        }
        part.given.ranges().for_each(|range| {
            self.given.push(before + range.start..before + range.end);
        });
    }

    /// Goes on with tokens that the model is given, of which there may be none.
    pub(crate) fn give(&mut self, given: &[u32], records_kept: bool) {
        let drawn: Vec<Drawn> = given.iter().map(|&token| given_token(token)).collect();
        let mut masks = records_kept.then(ResponseMasks::default);
        masks.iter_mut().for_each(|masks| given.iter().for_each(|_| masks.push(None)));
        let mut part = Self::new(&drawn, masks);
        if !given.is_empty() {
            part.given.push(0..given.len());
        }
        if !self.sampling_logprobs.is_empty() {
            part.sampling_logprobs = vec![0.0; given.len()];
        }
        self.append(&part);
    }

    /// The response, which has ended with a turn of this text. `room` is what could follow its
    /// prompt in the model's context, in tokens.
    pub(crate) fn into_completion(
        self,
        text: String,
        finish_reason: FinishReason,
        room: usize,
    ) -> Completion {
        Completion {
            tokens: self.tokens,
            logprobs: self.logprobs,
            sampling_logprobs: Some(self.sampling_logprobs).filter(|all| !all.is_empty()),
            entropies: self.entropies,
            masks: self.masks,
            given: self.given,
            text: Some(text),
            finish_reason,
            room,
            activation_slots: None,
            episode: None,
        }
    }

    /// Whether this can be a turn of a model with this vocabulary, behind tokens that it was given
    /// if there are any, because a file may have been edited. At most `room` tokens fit.
    pub(crate) fn is_turn(&self, vocabulary: usize, sampling: &Sampling, room: usize) -> bool {
        let Self { tokens, logprobs, sampling_logprobs, entropies, masks, given } = self;
        let numbers = [logprobs, entropies];
        can_be_drawn(vocabulary, sampling, room, numbers, tokens, given, masks.as_ref())
            && given.last_turn() == given.count()
            && (sampling_logprobs.is_empty() || sampling_logprobs.len() == tokens.len())
    }

    /// Whether an engine can continue the response: its vectors have one length, and it has not
    /// ended.
    pub(crate) fn can_go_on(&self, sampling: &Sampling, max_tokens: usize) -> bool {
        let count = self.tokens.len();
        let masks = self.masks.as_ref().map(|masks| (masks.tokens.len(), masks.log_masses.len()));
        self.logprobs.len() == count
            && self.entropies.len() == count
            && (self.sampling_logprobs.is_empty() || self.sampling_logprobs.len() == count)
            && masks == (count > 0 && sampling.records_kept).then_some((count, count))
            && count < max_tokens
            && self.given.fits(count + 1)
            && (self.given.last_turn() == count
                || self.tokens.last().is_none_or(|&last| !sampling.ends(last)))
    }

    /// Its draws, without the kept tokens.
    pub(crate) fn drawn(&self) -> Vec<Drawn> {
        let draw = |at: usize| Drawn {
            token: self.tokens[at],
            logprob: self.logprobs[at],
            sampling_logprob: self.sampling_logprobs.get(at).copied(),
            entropy: self.entropies[at],
            mask: None,
        };
        (0..self.tokens.len()).map(draw).collect()
    }
}

/// A token that was given. Its numbers are 0.
pub(crate) fn given_token(token: u32) -> Drawn {
    Drawn { token, logprob: 0.0, sampling_logprob: None, entropy: 0.0, mask: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(token: u32) -> Drawn {
        Drawn {
            token,
            logprob: -0.1,
            sampling_logprob: Some(-0.0),
            entropy: f32::MIN_POSITIVE / 3.0,
            mask: None,
        }
    }

    #[test]
    fn it_comes_back_from_another_process_to_the_last_bit() {
        let mut masks = ResponseMasks::default();
        (0..2).for_each(|_| masks.push(None));
        for response in [
            PartialResponse::default(),
            PartialResponse::new(&[drawn(7), drawn(9)], None),
            PartialResponse::new(&[drawn(7), drawn(9)], Some(masks)),
        ] {
            let text = serde_json::to_string(&response).unwrap();
            let read: PartialResponse = serde_json::from_str(&text).unwrap();
            assert_eq!(read, response);
            let bits = |response: &PartialResponse| -> Vec<u32> {
                [&response.logprobs, &response.sampling_logprobs, &response.entropies]
                    .into_iter()
                    .flatten()
                    .map(|number| number.to_bits())
                    .collect()
            };
            assert_eq!(bits(&read), bits(&response));
            assert_eq!(PartialResponse::new(&read.drawn(), read.masks.clone()), response);
        }
    }

    #[test]
    fn what_no_engine_can_have_left_is_not_gone_on_with() {
        let response = PartialResponse::new(&[drawn(7), drawn(9)], None);
        let sampling = Sampling { eos_tokens: vec![2], ..Sampling::default() };
        assert!(
            response.can_go_on(&sampling, 3) && PartialResponse::default().can_go_on(&sampling, 1)
        );
        assert!(!response.can_go_on(&sampling, 2), "it is as long as it may be");
        assert!(
            !response.can_go_on(&Sampling { eos_tokens: vec![9], ..sampling.clone() }, 3),
            "it has ended"
        );
        assert!(!response.can_go_on(&Sampling { records_kept: true, ..sampling.clone() }, 3));
        assert!(!PartialResponse { entropies: vec![], ..response.clone() }.can_go_on(&sampling, 3));
        assert!(
            !PartialResponse { sampling_logprobs: vec![0.0], ..response }.can_go_on(&sampling, 3)
        );
    }
}

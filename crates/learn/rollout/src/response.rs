//! A response to a problem, judged.

use crate::Sampling;
use crate::response_masks::ResponseMasks;
use isentrope_data::Problem;
use isentrope_files::Digest;
use isentrope_reward::Judgement;
use isentrope_run::tokens::GivenRanges;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A judged response. Vectors are `[tokens]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Text without special tokens; of a response with an environment, all turns with them.
    pub text: String,
    /// Tokens, a final end-of-sequence token included.
    pub tokens: Vec<u32>,
    /// Which tokens were given, in a response of several turns. Their log-probs and entropies are
    /// 0, and no mean counts them.
    #[serde(default, skip_serializing_if = "GivenRanges::is_empty")]
    pub given: GivenRanges,
    /// Log-prob of each token when it was sampled, in nats.
    #[serde(with = "bits")]
    pub logprobs: Vec<f32>,
    /// Entropy of the policy at each token, in nats.
    #[serde(with = "bits")]
    pub entropies: Vec<f32>,
    /// The tokens that truncated sampling kept at each position, if sampling was truncated.
    #[serde(rename = "kept", default, skip_serializing_if = "Option::is_none")]
    pub masks: Option<ResponseMasks>,
    /// The ranges of the characters of `text` that were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_text: Vec<[usize; 2]>,
    /// Whether the response was cut off: at the greatest length, or because its episode had no
    /// turns left.
    pub truncated: bool,
    /// Whether it was cut off because its episode had no turns left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_turns: bool,
    /// The verifier's judgement.
    pub judgement: Judgement,
    /// Its score with penalties.
    pub reward: f64,
    /// The slots of the rollout's activation cache that hold its tokens, prompt first and without
    /// the last, if all are cached.
    #[serde(skip)]
    pub activation_slots: Option<Vec<u32>>,
    /// The spelling under which its answer is counted for maj@k, if an earlier response gave the
    /// same answer in another spelling. Only evaluations set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vote: Option<String>,
}

impl Response {
    /// Whether the response could be judged. A fault of the verifier says nothing about it.
    pub fn is_judged(&self) -> bool {
        self.judgement.verdict.is_scored()
    }

    /// The number of tokens that the model sampled.
    pub fn sampled_tokens(&self) -> usize {
        self.tokens.len() - self.given.count()
    }

    /// The number of the model's turns.
    pub fn turns(&self) -> usize {
        self.given.turns(self.tokens.len()).count()
    }

    /// Whether a model with this vocabulary can have sampled the response, because a file may have
    /// been edited. `room` is what can follow the prompt in the model's context, in tokens.
    pub fn can_be_of(&self, vocabulary: usize, sampling: &Sampling, room: usize) -> bool {
        let Self { tokens, given, logprobs, entropies, masks, .. } = self;
        let numbers = [logprobs, entropies];
        can_be_drawn(vocabulary, sampling, room, numbers, tokens, given, masks.as_ref())
    }

    /// Mean entropy over the response's sampled tokens, in nats (arXiv:2505.22617, equation 5,
    /// inner mean).
    pub fn entropy(&self) -> f64 {
        self.entropies.iter().map(|&h| f64::from(h)).sum::<f64>()
            / self.sampled_tokens().max(1) as f64
    }

    /// The response's line in a file, as an object. `sample` is its number among the responses to
    /// the problem. A long ground truth is replaced by its hash.
    pub fn line(&self, problem: &Problem, sample: usize) -> Map<String, Value> {
        let fields = [
            ("origin", json!(problem.origin)),
            ("prompt", json!(problem.prompt.question())),
            ("ground_truth", repeated(&problem.ground_truth)),
            ("sample", json!(sample)),
            ("response", json!(self.text)),
            ("tokens", json!(self.sampled_tokens())),
            ("truncated", json!(self.truncated)),
            ("verdict", json!(self.judgement.verdict)),
            ("extracted", json!(self.judgement.extracted)),
            ("reason", json!(self.judgement.reason)),
            ("reward", json!(self.reward)),
            ("entropy", json!(self.entropy())),
        ];
        let mut line: Map<String, Value> =
            fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        if !self.given.is_empty() {
            line.insert("given".into(), json!(self.given));
            line.insert("given_text".into(), json!(self.given_text));
        }
        if self.judgement.failed {
            line.insert("failed".into(), json!(true));
        }
        if self.out_of_turns {
            line.insert("out_of_turns".into(), json!(true));
        }
        if !self.judgement.metrics.is_empty() {
            line.insert("metrics".into(), json!(self.judgement.metrics));
        }
        if let Some(masks) = &self.masks {
            line.insert("kept_mass".into(), json!(masks.mean_mass(&self.given)));
        }
        if let Some(vote) = &self.vote {
            line.insert("vote".into(), json!(vote));
        }
        line
    }
}

/// Whether a model with this vocabulary can have drawn these tokens, but for those it was given,
/// with these numbers for each and these masks, where `room` tokens fit.
pub(crate) fn can_be_drawn(
    vocabulary: usize,
    sampling: &Sampling,
    room: usize,
    numbers: [&Vec<f32>; 2],
    tokens: &[u32],
    given: &GivenRanges,
    masks: Option<&ResponseMasks>,
) -> bool {
    let count = tokens.len();
    let is_token = |&token: &u32| (token as usize) < vocabulary;
    (1..=sampling.max_tokens.min(room)).contains(&count)
        && numbers.iter().all(|numbers| numbers.len() == count)
        && tokens.iter().all(is_token)
        && given.fits(count)
        && masks.is_some() == sampling.records_kept
        && masks.is_none_or(|masks| {
            let is_ascending = |draw: usize| masks.tokens.of(draw).is_sorted_by(|a, b| a < b);
            let has_drawn = |draw: usize| match masks.tokens.of(draw) {
                [] => true,
                mask => mask.contains(&tokens[draw]) && mask.last().is_some_and(is_token),
            };
            let has_all = masks.tokens.len() == count && masks.log_masses.len() == count;
            has_all && (0..count).all(|draw| is_ascending(draw) && has_drawn(draw))
        })
}

/// Longest ground truth that every line repeats, in bytes of JSON. The tests of a program may be
/// megabytes.
const REPEATED: usize = 64 << 10;

/// A ground truth for a response's line.
fn repeated(ground_truth: &Value) -> Value {
    let text = ground_truth.to_string();
    if text.len() <= REPEATED {
        return ground_truth.clone();
    }
    let mut digest = Digest::sha256();
    digest.update(text.as_bytes());
    json!({ "sha256": digest.hex(), "bytes": text.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_reward::Verdict;

    fn response() -> Response {
        Response {
            text: "7 8".into(),
            tokens: vec![7, 8],
            given: GivenRanges::default(),
            given_text: Vec::new(),
            logprobs: vec![-0.5, -0.1],
            entropies: vec![0.25, 0.0],
            masks: None,
            truncated: false,
            out_of_turns: false,
            judgement: Judgement::new(Verdict::Correct, None, "equal"),
            reward: 1.0,
            activation_slots: None,
            vote: None,
        }
    }

    #[test]
    fn a_response_comes_back_from_a_checkpoint() {
        let masks = Some(ResponseMasks { log_masses: vec![0.0], ..ResponseMasks::default() });
        for response in [response(), Response { masks, ..response() }] {
            let text = serde_json::to_string(&response).unwrap();
            assert_eq!(text.contains("kept"), response.masks.is_some(), "{text}");
            assert_eq!(serde_json::from_str::<Response>(&text).unwrap(), response);
        }
    }

    #[test]
    fn a_long_ground_truth_is_told_by_its_hash() {
        let short = json!({"inputs": ["1 2"], "outputs": ["3"]});
        assert_eq!(repeated(&short), short);
        // SHA-256 of the quoted text, by sha256sum.
        let long = Value::from("x".repeat(REPEATED));
        let hash = "afb3bbecac846785e46b87edbed49d7e06a9e186e9ce70ef8e59b33c9c72145f";
        assert_eq!(repeated(&long), json!({"sha256": hash, "bytes": REPEATED + 2}));
        assert_eq!(
            repeated(&Value::from("x".repeat(REPEATED - 2))),
            json!("x".repeat(REPEATED - 2))
        );
    }

    #[test]
    fn what_no_sampler_can_have_drawn_is_told() {
        let response = response();
        let whole = Sampling { max_tokens: 2, records_kept: false, ..Sampling::default() };
        assert!(response.can_be_of(9, &whole, 2) && !response.can_be_of(8, &whole, 2));
        assert!(!response.can_be_of(9, &Sampling { max_tokens: 1, ..whole.clone() }, 2));
        assert!(!response.can_be_of(9, &whole, 1), "the context ends before it");
        let empty =
            Response { tokens: vec![], logprobs: vec![], entropies: vec![], ..response.clone() };
        assert!(!empty.can_be_of(9, &whole, 2));
        assert!(!Response { logprobs: vec![-0.5], ..response.clone() }.can_be_of(9, &whole, 2));
        assert!(!Response { entropies: vec![0.1; 3], ..response.clone() }.can_be_of(9, &whole, 2));

        let cut = Sampling { records_kept: true, ..whole.clone() };
        let with = |masks: [&[u32]; 2], log_masses: &[f32]| {
            let log_masses = log_masses.to_vec();
            let mut all = ResponseMasks { log_masses, ..ResponseMasks::default() };
            masks.iter().for_each(|mask| all.tokens.push(mask));
            Response { masks: Some(all), ..response.clone() }
        };
        let sound = with([&[3, 7][..], &[]], &[-0.1, 0.0]);
        assert!(
            sound.can_be_of(9, &cut, 2)
                && !sound.can_be_of(9, &whole, 2)
                && !response.can_be_of(9, &cut, 2)
        );
        for (masks, log_masses) in [
            ([&[3, 7][..], &[]], &[-0.1][..]),
            ([&[3, 6], &[]], &[-0.1, 0.0]),
            ([&[7, 3], &[]], &[-0.1, 0.0]),
            ([&[7, 7], &[]], &[-0.1, 0.0]),
            ([&[7, 9], &[]], &[-0.1, 0.0]),
        ] {
            assert!(!with(masks, log_masses).can_be_of(9, &cut, 2), "{masks:?} {log_masses:?}");
        }
    }
}

/// f32 written as the integer of its bits, so that the same number comes back everywhere.
pub(crate) mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|v| v.to_bits()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
        Ok(Vec::<u32>::deserialize(deserializer)?.into_iter().map(f32::from_bits).collect())
    }
}

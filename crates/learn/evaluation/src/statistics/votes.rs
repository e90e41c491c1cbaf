//! Votes for the most frequent answer to a problem: equal answers are counted together, however
//! they are spelt.
//!
//! Only the verifier knows which answers are equal, so votes are cast where responses are judged. A
//! response keeps the spelling under which its answer is counted. Equality need not be transitive,
//! since decimals approximate: each answer is compared with the first answer of every class, and
//! goes to the first class with an equal one.

use super::outcome::Outcome;
use isentrope_reward::{Item, Verdict, Verifier};
use isentrope_rollout::Response;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Sets the vote of each response whose answer equals an earlier one's in another spelling.
pub fn cast_votes(verifier: &dyn Verifier, item: &Item<'_>, responses: &mut [Response]) {
    let mut firsts: Vec<String> = Vec::new();
    // The place in `firsts` of each spelling.
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for response in responses.iter_mut().filter(|response| response.is_judged()) {
        let Some(answer) = &response.judgement.extracted else { continue };
        let class = *known.entry(answer.clone()).or_insert_with(|| {
            let class = firsts.iter().position(|first| verifier.same_answer(item, first, answer));
            class.unwrap_or_else(|| {
                firsts.push(answer.clone());
                firsts.len() - 1
            })
        });
        response.vote = (firsts[class] != *answer).then(|| firsts[class].clone());
    }
}

fn vote(response: &Outcome) -> Option<&String> {
    response.vote.as_ref().or(response.extracted.as_ref())
}

/// Whether the verifier extracts answers at all. A reward of the user's own may judge without
/// naming an answer; then there is nothing to count. If the verifier does extract answers and no
/// response has one, the majority is wrong.
pub fn has_answers<'a>(responses: impl Iterator<Item = &'a Outcome>) -> bool {
    let judged: Vec<&Outcome> = responses.filter(|r| r.is_scored()).collect();
    judged.iter().any(|r| vote(r).is_some())
        || judged.iter().all(|r| r.verdict == Verdict::Unparseable)
}

/// The first response with the most frequent answer; of equally frequent answers, the one given
/// first.
pub(super) fn winner<'a>(responses: &[&'a Outcome]) -> Option<&'a Outcome> {
    // For each answer: its votes, and the place of its first vote, reversed so that the earlier is
    // the greater.
    let mut votes: BTreeMap<&String, (usize, Reverse<usize>)> = BTreeMap::new();
    for (place, answer) in
        responses.iter().enumerate().filter_map(|(place, r)| Some((place, vote(r)?)))
    {
        votes.entry(answer).or_insert((0, Reverse(place))).0 += 1;
    }
    votes.into_values().max().map(|(_, Reverse(first))| responses[first])
}

#[cfg(test)]
mod tests {
    use super::super::evaluation::Evaluation;
    use super::*;
    use isentrope_reward::{Judgement, VerifierError, VerifierName, VerifierSettings};
    use isentrope_run::tokens::GivenRanges;
    use serde_json::{Value, json};

    /// Judges boxed answers to a problem, and tells the votes and maj@k.
    fn vote(verifier: &Value, truth: &Value, answers: &[&str]) -> (Vec<Option<String>>, f64) {
        let settings: VerifierSettings = serde_json::from_value(verifier.clone()).unwrap();
        let verifier = settings.build().unwrap();
        let item = Item { ground_truth: truth, data_source: "sums", ..Item::default() };
        let texts: Vec<String> =
            answers.iter().map(|answer| format!("\\boxed{{{answer}}}")).collect();
        let batch: Vec<_> = texts.iter().map(|text| (item, text.as_str())).collect();
        let judgements = verifier.verify_batch(&batch).unwrap();
        let mut responses: Vec<Response> = judgements.into_iter().map(response).collect();
        cast_votes(&*verifier, &item, &mut responses);
        let outcomes = [responses.iter().map(Outcome::from).collect()];
        let majority = Evaluation::of("set", answers.len(), &outcomes).majority.unwrap();
        (responses.into_iter().map(|r| r.vote).collect(), majority)
    }

    fn response(judgement: Judgement) -> Response {
        Response {
            text: String::new(),
            tokens: vec![1],
            given: GivenRanges::default(),
            logprobs: vec![-1.0],
            entropies: vec![1.0],
            masks: None,
            truncated: false,
            given_text: Vec::new(),
            out_of_turns: false,
            judgement,
            reward: 0.0,
            activation_slots: None,
            vote: None,
        }
    }

    const HALVES: [&str; 5] = ["3", "1/2", "3", "0.5", "\\frac{1}{2}"];

    #[test]
    fn equal_answers_have_their_votes_together() {
        let half = Some("1/2".to_owned());
        let sum = json!({"weighted": [{"verifier": "math", "weight": 1}]});
        let other = json!({"by_data_source": {"sums": "math"}, "otherwise": "countdown"});
        for verifier in [json!("math"), json!("auto"), sum, other] {
            let (votes, majority) = vote(&verifier, &json!("0.5"), &HALVES);
            assert_eq!(votes, [None, None, None, half.clone(), half.clone()], "{verifier}");
            assert_eq!(majority, 1.0, "{verifier}");
            assert_eq!(vote(&verifier, &json!("3"), &HALVES).1, 0.0, "{verifier}");
        }
    }

    #[test]
    fn there_is_a_majority_where_the_verifier_tells_answers() {
        let majority = |judged: &[(Verdict, Option<&str>)]| {
            let judgement = |(verdict, answer): &(Verdict, Option<&str>)| {
                response(Judgement::new(*verdict, answer.map(str::to_owned), ""))
            };
            let problems: Vec<_> =
                judged.iter().map(|j| vec![Outcome::from(&judgement(j))]).collect();
            Evaluation::of("set", 1, &problems).majority
        };
        let (right, wrong, unread) = (Verdict::Correct, Verdict::Wrong, Verdict::Unparseable);
        assert_eq!(majority(&[(right, None), (wrong, None), (unread, None)]), None, "none is told");
        assert_eq!(majority(&[(Verdict::Fault, Some("1"))]), None, "none was judged");
        assert_eq!(majority(&[(right, Some("1")), (right, None)]), Some(0.5));
        assert_eq!(majority(&[(unread, None), (unread, None)]), Some(0.0), "none was given");
    }

    #[test]
    fn of_equally_frequent_answers_the_first_given_wins() {
        assert_eq!(vote(&json!("math"), &json!(3), &["3", "0.5", "1/2", "3.0"]).1, 1.0);
        assert_eq!(vote(&json!("math"), &json!(3), &["0.5", "3", "3.0", "1/2"]).1, 0.0);
    }

    #[test]
    fn answers_to_the_built_in_task_are_told_apart_by_their_spelling() {
        let challenge = json!({"numbers": [1, 2], "target": 3});
        let item = Item { ground_truth: &challenge, ..Item::default() };
        let answered =
            |text: &str| response(Judgement::new(Verdict::Correct, Some(text.into()), ""));
        for verifier in [VerifierName::Auto, VerifierName::Countdown] {
            let mut responses = ["1+2=3", "2+1=3", "1+2=3"].map(answered);
            cast_votes(&verifier, &item, &mut responses);
            assert!(responses.iter().all(|r| r.vote.is_none()));
        }
    }

    /// With a tolerance a may equal b and b equal c, where a does not equal c.
    #[test]
    fn every_answer_is_compared_with_the_first_of_a_class() {
        struct Near;
        impl Verifier for Near {
            fn verify_batch(
                &self,
                _: &[(Item<'_>, &str)],
            ) -> Result<Vec<Judgement>, VerifierError> {
                Ok(Vec::new())
            }
            fn same_answer(&self, _: &Item<'_>, a: &str, b: &str) -> bool {
                a.parse::<i32>().unwrap().abs_diff(b.parse().unwrap()) <= 1
            }
        }
        let item = Item { ground_truth: &Value::Null, ..Item::default() };
        let fault = response(Judgement::new(Verdict::Fault, Some("2".into()), ""));
        let answered = |text: &str| response(Judgement::new(Verdict::Wrong, Some(text.into()), ""));
        let mut responses = ["1", "2", "3", "2", "4"].map(answered).to_vec();
        responses.insert(0, fault);
        cast_votes(&Near, &item, &mut responses);
        let votes: Vec<_> = responses.iter().map(|r| r.vote.as_deref()).collect();
        assert_eq!(votes, [None, None, Some("1"), None, Some("1"), Some("3")]);
    }
}

//! A policy's results on a set of problems, as a run records them.

use super::of_verifier::{self, name_of_metric};
use super::outcome::{Outcome, is_graded};
use super::parts::{Part, parts};
use super::statistic::{Statistic, ks};
use crate::sets::EvaluationSet;
use isentrope_rollout::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The metrics of a set's entropy on the initial states, and of the policy's distance from the
/// initial one.
pub const ENTROPY_INITIAL_STATES: &str = "entropy_initial_states";
/// See [`ENTROPY_INITIAL_STATES`].
pub const KL_INITIAL: &str = "kl_initial";

/// A policy's results on a set of problems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The set.
    pub name: String,
    /// Whether this is a set again, at a further temperature. It is recorded, and does not count in
    /// the mean of sets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_further: bool,
    /// Responses to each problem.
    pub samples: usize,
    /// Mean over problems of the share of correct responses; none if no response could be judged.
    pub mean: Option<f64>,
    /// The set's parts, if it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Mean score of the responses, likewise.
    pub score: Option<f64>,
    /// Whether some score is neither 0 nor 1.
    #[serde(default)]
    pub is_graded: bool,
    /// (k, pass@k) for every power of two up to the number of responses, and that number.
    pub pass: Vec<(usize, f64)>,
    /// Share of problems whose most frequent answer is correct; none if no response could be
    /// judged, or the verifier extracts no answers.
    pub majority: Option<f64>,
    /// Mean over responses of the mean entropy of their tokens, in nats; none if no response has a
    /// token.
    pub entropy: Option<f64>,
    /// Mean length, in tokens.
    pub length: f64,
    /// Share of responses that were cut off.
    pub truncated: f64,
    /// Share of responses that could not be judged; they are left out of everything above but the
    /// entropy and lengths.
    pub faults: f64,
    /// Share of responses at which the verifier or the environment failed. They count as wrong.
    #[serde(default)]
    pub failed: f64,
    /// The mean of each of the verifier's own metrics over the judged responses that have it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub of_verifier: BTreeMap<String, f64>,
    /// A note if the verifier has more metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Evaluation {
    /// Sums up the responses to each problem of a set.
    pub fn of_responses(set: &EvaluationSet, problems: &[Vec<Response>]) -> Self {
        let outcomes: Vec<Vec<Outcome>> = problems
            .iter()
            .map(|responses| responses.iter().map(Outcome::from).collect())
            .collect();
        let samples = set.decoding.samples;
        let part = |(name, places): (String, Vec<usize>)| {
            let its: Vec<Vec<Outcome>> =
                places.into_iter().map(|place| outcomes[place].clone()).collect();
            Part::of(name, samples, &its)
        };
        let parts = parts(set.division_keys()).into_iter().map(part).collect();
        Self { is_further: set.is_further, parts, ..Self::of(&set.name, samples, &outcomes) }
    }

    /// Sums up the outcomes of the responses to each problem.
    pub(crate) fn of(name: &str, samples: usize, problems: &[Vec<Outcome>]) -> Self {
        let of = |statistic: Statistic| statistic.value(problems);
        let of_verifier = of_verifier::sums(problems);
        let means =
            of_verifier.iter().map(|(metric, sums)| (metric.to_owned(), of_verifier::mean(sums)));
        Self {
            name: name.to_owned(),
            is_further: false,
            samples,
            mean: of(Statistic::Mean),
            parts: Vec::new(),
            score: of(Statistic::Score),
            is_graded: is_graded(problems.iter().flatten()),
            pass: ks(samples)
                .into_iter()
                .filter_map(|k| Some((k, of(Statistic::Pass(k))?)))
                .collect(),
            majority: of(Statistic::Majority),
            entropy: of(Statistic::Entropy),
            length: of(Statistic::Length).unwrap_or(0.0),
            truncated: of(Statistic::Truncated).unwrap_or(0.0),
            faults: of(Statistic::Faults).unwrap_or(0.0),
            failed: of(Statistic::Failed).unwrap_or(0.0),
            of_verifier: means.collect(),
            note: of_verifier.note(),
        }
    }

    /// The mean of the sets' accuracies, at the first temperature alone; none if a set has no
    /// accuracy.
    pub fn mean_of_sets(evaluations: &[Self]) -> Option<f64> {
        let means: Vec<f64> =
            evaluations.iter().filter(|e| !e.is_further).map(|e| e.mean).collect::<Option<_>>()?;
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    }

    /// Every set's numbers under the names of docs/reference/metrics.md, and the mean of the sets'
    /// accuracies if there are several. A metric without a number is left out.
    pub fn metrics(evaluations: &[Self]) -> Vec<(String, f64)> {
        let mut metrics: Vec<(String, f64)> = evaluations.iter().flat_map(Self::of_set).collect();
        if evaluations.iter().filter(|e| !e.is_further).count() > 1
            && let Some(mean) = Self::mean_of_sets(evaluations)
        {
            metrics.push(("eval/mean_of_sets".into(), mean));
        }
        metrics
    }

    fn of_set(&self) -> Vec<(String, f64)> {
        let Self { name, samples, .. } = self;
        let mut metrics = Vec::new();
        let mut add = |what: &str, value: Option<f64>| {
            metrics.extend(value.map(|value| (format!("eval/{name}/{what}"), value)));
        };
        add(&format!("mean@{samples}"), self.mean);
        for (k, value) in &self.pass {
            add(&format!("pass@{k}"), Some(*value));
        }
        add(&format!("maj@{samples}"), self.majority);
        add("score", self.score);
        add("entropy", self.entropy);
        add("length_mean", Some(self.length));
        add("truncated", Some(self.truncated));
        add("faults", Some(self.faults));
        add("failed", Some(self.failed).filter(|share| *share > 0.0));
        for (what, value) in self.parts.iter().flat_map(|part| part.numbers(*samples)) {
            add(&what, Some(value));
        }
        for (metric, value) in &self.of_verifier {
            add(&name_of_metric(metric), Some(*value));
        }
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_reward::Verdict::{self, Correct, Fault, TimedOut, Unparseable, Wrong};

    fn outcome(answer: Option<&str>, verdict: Verdict) -> Outcome {
        Outcome { extracted: answer.map(str::to_owned), ..Outcome::of_verdict(verdict) }
    }

    /// A set of one problem, with two responses that are right.
    fn right(name: &str) -> Evaluation {
        Evaluation::of(name, 2, &[vec![outcome(Some("1"), Correct); 2]])
    }

    fn names(evaluations: &[Evaluation]) -> Vec<String> {
        Evaluation::metrics(evaluations).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn faults_are_left_out_and_majorities_need_an_answer() {
        let of = |answers: [(Option<&str>, Verdict); 4]| {
            answers.map(|(answer, verdict)| outcome(answer, verdict)).to_vec()
        };
        let problems = [
            of([(Some("7"), Correct), (Some("8"), Wrong), (Some("7"), Correct), (None, Fault)]),
            of([
                (None, Unparseable),
                (None, Unparseable),
                (Some("3"), Correct),
                (Some("4"), Wrong),
            ]),
            of([(None, Fault); 4]),
        ];
        let evaluation = Evaluation::of("set", 4, &problems);
        assert!((evaluation.mean.unwrap() - (2.0 / 3.0 + 0.25) / 2.0).abs() < 1e-12);
        assert_eq!(evaluation.score, Some(3.0 / 7.0), "over responses");
        // The first answer to the second problem counts.
        assert_eq!(evaluation.majority, Some(1.0));
        assert_eq!(evaluation.pass[2], (4, 1.0), "over the only problem with four verdicts");
        assert_eq!((evaluation.faults, evaluation.entropy), (5.0 / 12.0, Some(1.0)));
        assert_eq!(Evaluation::of("none", 2, &[]).pass, []);
    }

    /// The responses are empty, as for a prompt that does not fit the context.
    #[test]
    fn a_response_without_tokens_has_no_entropy() {
        let unanswered = Outcome { tokens: 0, entropy: 0.0, ..outcome(None, Unparseable) };
        let answered = Outcome { entropy: 0.5, ..outcome(Some("1"), Correct) };
        let problems = [vec![unanswered.clone(); 2], vec![answered; 2]];
        let Evaluation { entropy, length, mean, .. } = Evaluation::of("set", 2, &problems);
        assert_eq!((entropy, length, mean), (Some(0.5), 1.0, Some(0.5)));
        assert_eq!(problems.map(|p| Statistic::Entropy.of(&p)), [(0.0, 0.0), (1.0, 2.0)]);
        let none = Evaluation::of("set", 2, &[vec![unanswered; 2]]);
        assert!(none.entropy.is_none() && !names(&[none]).contains(&"eval/set/entropy".to_owned()));
    }

    #[test]
    fn scores_of_any_size_have_a_mean_and_those_of_faults_do_not_count() {
        let scored = |score: f64, verdict| Outcome { score, ..outcome(None, verdict) };
        let plain = [vec![scored(1.0, Correct), scored(0.0, Wrong), scored(9.0, Fault)]];
        let evaluation = Evaluation::of("set", 3, &plain);
        assert_eq!((evaluation.score, evaluation.is_graded), (Some(0.5), false));
        let graded = [
            vec![scored(2.5, Correct), scored(-1.0, Wrong)],
            vec![scored(0.0, Unparseable), scored(9.0, TimedOut)],
        ];
        let Evaluation { score, mean, is_graded, .. } = Evaluation::of("set", 2, &graded);
        assert_eq!((score, mean, is_graded), (Some(0.5), Some(0.25), true));
    }

    #[test]
    fn sets_without_verdicts_and_at_further_temperatures_are_not_in_the_mean_of_sets() {
        let fault = Evaluation::of("fault", 2, &vec![vec![outcome(None, Fault); 2]; 3]);
        let fine = right("fine");
        let always = ["entropy", "length_mean", "truncated", "faults"];
        let of = |set: &str, names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("eval/{set}/{name}")).collect()
        };
        assert_eq!(names(std::slice::from_ref(&fault)), of("fault", &always));
        let judged = [&["mean@2", "pass@1", "pass@2", "maj@2", "score"], &always[..]].concat();
        let both = [of("fine", &judged), of("fault", &always)].concat();
        assert_eq!(names(&[fine.clone(), fault.clone()]), both);
        assert_eq!(names(&[fine.clone(), fine.clone()]).last().unwrap(), "eval/mean_of_sets");
        assert_eq!(Evaluation::mean_of_sets(&[fine, fault]), None);

        let set = |name: &str, mean, is_further| Evaluation {
            mean: Some(mean),
            is_further,
            ..right(name)
        };
        let mut sets = vec![set("a", 0.25, false), set("a_t0.6", 1.0, true)];
        assert!(names(&sets).contains(&"eval/a_t0.6/mean@2".to_owned()));
        assert!(!names(&sets).contains(&"eval/mean_of_sets".to_owned()), "there is one set");
        assert_eq!(Evaluation::mean_of_sets(&sets), Some(0.25));
        sets.push(set("b", 0.75, false));
        let last = Evaluation::metrics(&sets).pop().unwrap();
        assert_eq!(last, ("eval/mean_of_sets".to_owned(), 0.5));
    }

    /// A verifier's metric gets another name if a set has a number of that name.
    #[test]
    fn parts_have_names_of_their_own_and_every_name_is_taken() {
        let parts = vec![
            Part::of("sum".into(), 2, &[vec![outcome(Some("1"), Correct); 2]]),
            Part::of("product".into(), 2, &[vec![outcome(None, Fault); 2]]),
        ];
        let own = Evaluation { parts, ..right("set") }.of_set();
        let names = own.iter().filter_map(|(name, _)| name.strip_prefix("eval/set/"));
        let names: Vec<&str> = names.chain([ENTROPY_INITIAL_STATES, KL_INITIAL]).collect();
        assert_eq!(names.len(), own.len() + 2);
        assert!(names.len() > 16, "{names:?}");
        for name in names {
            assert_ne!(name_of_metric(name), name);
        }
        let of = |part: &str| -> Vec<(&str, f64)> {
            let prefix = format!("eval/set/{part}/");
            own.iter().filter_map(|(n, v)| Some((n.strip_prefix(&prefix)?, *v))).collect()
        };
        let others = [("entropy", 1.0), ("length_mean", 2.0)];
        assert_eq!(of("sum"), [&[("mean@2", 1.0), ("pass@2", 1.0)], &others[..]].concat());
        assert_eq!(of("product"), others);
    }

    /// Checkpoints from the time when parts were only sizes can be resumed.
    #[test]
    fn evaluations_of_older_checkpoints_are_read() {
        let none = Evaluation::of("countdown", 4, &[]);
        let mut known = serde_json::to_value(&none).unwrap();
        assert!(known.get("parts").is_none() && known.get("is_further").is_none());
        known["by_size"] = serde_json::json!([[3, 0.5], [4, 0.25]]);
        assert_eq!(serde_json::from_value::<Evaluation>(known).unwrap(), none);
    }
}

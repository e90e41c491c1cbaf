//! How a policy did on a set of problems, as a run records it.

use super::by_size::{by_size, name_of_size};
use super::outcome::{Outcome, is_graded};
use super::statistic::{Statistic, ks};
use crate::sets::EvaluationSet;
use isentrope_rollout::Response;
use serde::{Deserialize, Serialize};

/// How a policy did on a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The set.
    pub name: String,
    /// Responses to each problem.
    pub samples: usize,
    /// Mean over problems of the share of correct responses; none where no response could be judged.
    pub mean: Option<f64>,
    /// Of problems of the built-in task in several sizes, how many numbers are given, and `mean` of those problems.
    #[serde(default)]
    pub by_size: Vec<(usize, f64)>,
    /// Mean score of the responses, likewise.
    pub score: Option<f64>,
    /// Whether some score is neither 0 nor 1.
    #[serde(default)]
    pub is_graded: bool,
    /// (k, pass@k) for every power of two up to the number of responses, and that number.
    pub pass: Vec<(usize, f64)>,
    /// Share of problems whose most frequent answer is correct; none where no response could be judged, or the verifier
    /// tells no answers.
    pub majority: Option<f64>,
    /// Mean over responses of the mean entropy of their tokens, in nats.
    pub entropy: f64,
    /// Mean length, in tokens.
    pub length: f64,
    /// Share of responses that were cut off.
    pub truncated: f64,
    /// Share of responses that could not be judged; they are left out of everything above but the entropy and lengths.
    pub faults: f64,
}

impl Evaluation {
    /// Sums up the responses to each problem of a set.
    pub fn of_responses(set: &EvaluationSet, problems: &[Vec<Response>]) -> Self {
        let outcomes: Vec<Vec<Outcome>> =
            problems.iter().map(|responses| responses.iter().map(Outcome::from).collect()).collect();
        let sizes = by_size(set.problems.iter().map(|(problem, _)| &problem.ground_truth));
        let mean = |places: Vec<usize>| {
            let outcomes: Vec<Vec<Outcome>> =
                places.into_iter().map(|place| outcomes[place].clone()).collect();
            Statistic::Mean.value(&outcomes)
        };
        let by_size = sizes.into_iter().filter_map(|(size, places)| Some((size, mean(places)?))).collect();
        Self { by_size, ..Self::of(&set.name, set.decoding.samples, &outcomes) }
    }

    /// Sums up what counts of the responses to each problem.
    pub(crate) fn of(name: &str, samples: usize, problems: &[Vec<Outcome>]) -> Self {
        let of = |statistic: Statistic| statistic.value(problems);
        Self {
            name: name.to_owned(),
            samples,
            mean: of(Statistic::Mean),
            by_size: Vec::new(),
            score: of(Statistic::Score),
            is_graded: is_graded(problems.iter().flatten()),
            pass: ks(samples).into_iter().filter_map(|k| Some((k, of(Statistic::Pass(k))?))).collect(),
            majority: of(Statistic::Majority),
            entropy: of(Statistic::Entropy).unwrap_or(0.0),
            length: of(Statistic::Length).unwrap_or(0.0),
            truncated: of(Statistic::Truncated).unwrap_or(0.0),
            faults: of(Statistic::Faults).unwrap_or(0.0),
        }
    }

    /// The mean of the sets' accuracies; none where a set has none.
    pub fn mean_of_sets(evaluations: &[Self]) -> Option<f64> {
        let means: Vec<f64> = evaluations.iter().map(|e| e.mean).collect::<Option<_>>()?;
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    }

    /// Every set's numbers under the names of docs/metrics.md, and the mean of the sets' accuracies where there are several;
    /// what there is no number for is left out.
    pub fn metrics(evaluations: &[Self]) -> Vec<(String, f64)> {
        let mut metrics: Vec<(String, f64)> = evaluations.iter().flat_map(Self::of_set).collect();
        if evaluations.len() > 1
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
        for (size, value) in &self.by_size {
            add(&name_of_size(*samples, *size), Some(*value));
        }
        for (k, value) in &self.pass {
            add(&format!("pass@{k}"), Some(*value));
        }
        add(&format!("maj@{samples}"), self.majority);
        add("score", self.score);
        add("entropy", Some(self.entropy));
        add("length_mean", Some(self.length));
        add("truncated", Some(self.truncated));
        add("faults", Some(self.faults));
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_reward::Verdict;

    fn outcome(answer: Option<&str>, verdict: Verdict) -> Outcome {
        Outcome {
            verdict,
            score: f64::from(u8::from(verdict == Verdict::Correct)),
            extracted: answer.map(str::to_owned),
            vote: None,
            tokens: 2,
            truncated: false,
            entropy: 1.0,
        }
    }

    #[test]
    fn faults_are_left_out_and_majorities_need_an_answer() {
        let (right, wrong, fault) = (Verdict::Correct, Verdict::Wrong, Verdict::Fault);
        let problems = [
            vec![
                outcome(Some("7"), right),
                outcome(Some("8"), wrong),
                outcome(Some("7"), right),
                outcome(None, fault),
            ],
            vec![
                outcome(None, Verdict::Unparseable),
                outcome(None, Verdict::Unparseable),
                outcome(Some("3"), right),
                outcome(Some("4"), wrong),
            ],
            vec![outcome(None, fault); 4],
        ];
        let evaluation = Evaluation::of("set", 4, &problems);
        assert!((evaluation.mean.unwrap() - (2.0 / 3.0 + 0.25) / 2.0).abs() < 1e-12);
        assert_eq!(evaluation.score, Some(3.0 / 7.0), "over responses");
        assert_eq!(evaluation.majority, Some(1.0), "of the second problem's answers the first given counts");
        assert_eq!(evaluation.pass[2], (4, 1.0), "over the only problem with four verdicts");
        assert_eq!((evaluation.faults, evaluation.entropy), (5.0 / 12.0, 1.0));
        assert_eq!(Evaluation::of("none", 2, &[]).pass, []);
    }

    #[test]
    fn scores_of_any_size_have_a_mean_and_those_of_faults_do_not_count() {
        let scored = |score: f64, verdict| Outcome { score, ..outcome(None, verdict) };
        let right_and_wrong = vec![vec![
            scored(1.0, Verdict::Correct),
            scored(0.0, Verdict::Wrong),
            scored(9.0, Verdict::Fault),
        ]];
        let evaluation = Evaluation::of("set", 3, &right_and_wrong);
        assert_eq!((evaluation.score, evaluation.is_graded), (Some(0.5), false));
        let graded = vec![
            vec![scored(2.5, Verdict::Correct), scored(-1.0, Verdict::Wrong)],
            vec![scored(0.0, Verdict::Unparseable), scored(9.0, Verdict::TimedOut)],
        ];
        let evaluation = Evaluation::of("set", 2, &graded);
        assert_eq!((evaluation.score, evaluation.mean, evaluation.is_graded), (Some(0.5), Some(0.25), true));
    }

    #[test]
    fn what_could_not_be_judged_has_no_numbers_of_verdicts() {
        let fault = Evaluation::of("fault", 2, &vec![vec![outcome(None, Verdict::Fault); 2]; 3]);
        let fine = Evaluation::of("fine", 2, &[vec![outcome(Some("1"), Verdict::Correct); 2]]);
        let names = |evaluations: &[Evaluation]| {
            Evaluation::metrics(evaluations).into_iter().map(|(name, _)| name).collect::<Vec<String>>()
        };
        let always = ["entropy", "length_mean", "truncated", "faults"];
        let of = |set: &str, names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("eval/{set}/{name}")).collect()
        };
        assert_eq!(names(std::slice::from_ref(&fault)), of("fault", &always));
        let judged = [&["mean@2", "pass@1", "pass@2", "maj@2", "score"], &always[..]].concat();
        let both = names(&[fine.clone(), fault.clone()]);
        assert_eq!(both, [of("fine", &judged), of("fault", &always)].concat(), "and no mean of sets");
        assert_eq!(names(&[fine.clone(), fine.clone()]).last().unwrap(), "eval/mean_of_sets");
        assert_eq!(Evaluation::mean_of_sets(&[fine, fault]), None);
    }
}

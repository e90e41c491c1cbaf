//! Statistics of a rollout over all samples, before any filter.

use crate::error::{Error, Result};
use crate::group::Group;
use crate::metrics::Metrics;
use isentrope_reward::{ByMetric, Verdict};
use isentrope_rollout::{Response, ResponseMasks};
use isentrope_run::tokens::GivenRanges;

/// Sums over sampled groups.
#[derive(Clone, Debug, Default)]
pub struct RolloutStatistics {
    groups: usize,
    /// Groups whose counted responses are all correct.
    pub solved_all: usize,
    /// Groups whose counted responses are all not correct.
    pub solved_none: usize,
    responses: usize,
    verdicts: [usize; Verdict::ALL.len()],
    counted: usize,
    score: f64,
    reward: f64,
    /// Sum and number of values of each metric that the verifier reports.
    of_verifier: ByMetric<(f64, usize)>,
    tokens: usize,
    longest: usize,
    truncated: usize,
    /// Sums of the responses' mean entropies, and of all tokens' entropies.
    entropy_of_responses: f64,
    entropy_of_tokens: f64,
    truncation: TruncationStatistics,
    /// In a run with an environment.
    turns: Option<TurnStatistics>,
    /// Greedy responses that could not be judged. They serve as baselines only.
    greedy_faults: usize,
    /// Why the first unjudged response could not be judged.
    fault: Option<String>,
    /// Responses at which the verifier or the environment failed, counted with the others, and why
    /// at the first.
    failures: usize,
    failure: Option<String>,
}

/// A response's reason, for people.
fn reason_of(group: &Group, response: &Response) -> String {
    format!("{}: {}", group.problem.origin, response.judgement.reason)
}

impl RolloutStatistics {
    /// Measures turns too.
    pub fn with_turns(self) -> Self {
        Self { turns: Some(TurnStatistics::default()), ..self }
    }

    /// Takes in a group.
    pub fn add(&mut self, group: &Group) {
        self.groups += 1;
        self.solved_all += usize::from(group.accuracy() == Some(1.0));
        self.solved_none += usize::from(group.accuracy() == Some(0.0));
        for response in &group.responses {
            self.responses += 1;
            self.count_verdict(response);
            if response.is_judged() {
                self.counted += 1;
                self.score += response.judgement.score;
                self.reward += response.reward;
                if response.judgement.failed {
                    self.failures += 1;
                    self.failure.get_or_insert_with(|| reason_of(group, response));
                }
                for (name, value) in &response.judgement.metrics {
                    if let Some((sum, count)) = self.of_verifier.entry(name, Default::default) {
                        *sum += value;
                        *count += 1;
                    }
                }
            } else {
                self.keep_first_fault(group, response);
            }
            self.tokens += response.sampled_tokens();
            self.longest = self.longest.max(response.sampled_tokens());
            self.truncated += usize::from(response.truncated);
            self.entropy_of_responses += response.entropy();
            self.entropy_of_tokens += response.entropies.iter().map(|&h| f64::from(h)).sum::<f64>();
            response.masks.iter().for_each(|masks| self.truncation.add(masks, &response.given));
            self.turns.iter_mut().for_each(|turns| turns.add(response));
        }
        for greedy in group.greedy.iter().filter(|greedy| !greedy.is_judged()) {
            self.greedy_faults += 1;
            self.count_verdict(greedy);
            self.keep_first_fault(group, greedy);
        }
    }

    fn count_verdict(&mut self, response: &Response) {
        for (count, verdict) in self.verdicts.iter_mut().zip(Verdict::ALL) {
            *count += usize::from(response.judgement.verdict == verdict);
        }
    }

    fn keep_first_fault(&mut self, group: &Group, response: &Response) {
        self.fault.get_or_insert_with(|| reason_of(group, response));
    }

    /// Tokens sampled, without given ones.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Mean entropy of the policy: mean over responses of the mean over their tokens, in nats;
    /// nothing without responses.
    pub fn entropy(&self) -> Option<f64> {
        (self.responses > 0).then(|| self.entropy_of_responses / self.responses as f64)
    }

    /// Refuses a rollout of which no response has been judged.
    pub fn check_faults(&self) -> Result<()> {
        let (who, environment) = match self.turns {
            Some(_) => ("the environment and the verifier", "[environment], "),
            None => ("the verifier", ""),
        };
        match self.fault.as_ref().or(self.failure.as_ref()) {
            Some(fault) if self.counted == self.failures => Err(Error::Run(format!(
                "{who} could not judge any of {} responses ({fault}): look at {environment}\
                 reward.verifier and the ground truths of the data",
                self.responses
            ))),
            _ => Ok(()),
        }
    }

    /// The number of responses that could not be judged, greedy ones too, and why the first could
    /// not.
    pub fn faults(&self) -> Option<(usize, &str)> {
        self.fault
            .as_deref()
            .map(|fault| (self.responses - self.counted + self.greedy_faults, fault))
    }

    /// A sentence about responses at which the verifier or the environment failed.
    pub fn failures_note(&self) -> Option<String> {
        let (count, all, why) = (self.failures, self.responses, self.failure.as_ref()?);
        Some(format!(
            "{count} of {all} responses could not be scored: each scores 0, or as little as the \
             worst of its group; the first: {why}"
        ))
    }

    /// A sentence where the verifier has more metrics than are kept.
    pub fn metrics_note(&self) -> Option<String> {
        self.of_verifier.note()
    }

    /// Records the statistics under the names of docs/reference/metrics.md. A mean over nothing is
    /// left out: a step samples nothing if enough groups were carried over.
    pub fn record(&self, metrics: &mut Metrics) {
        metrics.set_mean("reward/mean", self.reward, self.counted);
        metrics.set_mean("reward/score", self.score, self.counted);
        metrics.set_mean("reward/solved_all", self.solved_all as f64, self.groups);
        metrics.set_mean("reward/solved_none", self.solved_none as f64, self.groups);
        for (name, (sum, count)) in self.of_verifier.iter() {
            metrics.set_mean(format!("reward/{name}"), *sum, *count);
        }
        for (count, verdict) in self.verdicts.iter().zip(Verdict::ALL) {
            let name = format!("verdict/{}", verdict.name().replace('-', "_"));
            metrics.set_mean(name, *count as f64, self.responses + self.greedy_faults);
        }
        metrics.set_mean("response/length_mean", self.tokens as f64, self.responses);
        if self.responses > 0 {
            metrics.set("response/length_max", self.longest as f64);
        }
        metrics.set_mean("response/truncated", self.truncated as f64, self.responses);
        metrics.set_mean("policy/entropy", self.entropy_of_responses, self.responses);
        metrics.set_mean("policy/entropy_token_mean", self.entropy_of_tokens, self.tokens);
        self.truncation.record(metrics);
        self.turns.iter().for_each(|turns| turns.record(self.responses, metrics));
        metrics.set("rollout/groups", self.groups as f64);
        metrics.set("rollout/responses", self.responses as f64);
        metrics.set("rollout/tokens", self.tokens as f64);
    }
}

/// The probability that top-k, top-p and min-p have kept of the distributions that tokens were
/// drawn from; empty if they are off.
#[derive(Clone, Debug, Default)]
struct TruncationStatistics {
    draws: usize,
    mass: f64,
    /// One minus the least mass.
    most_cut: f64,
    /// Number of draws from the whole vocabulary.
    whole: usize,
    kept: usize,
}

impl TruncationStatistics {
    fn add(&mut self, masks: &ResponseMasks, given: &GivenRanges) {
        let masses = masks.masses().enumerate().filter(|(draw, _)| !given.contains(*draw));
        for (draw, mass) in masses {
            self.draws += 1;
            self.mass += mass;
            self.most_cut = self.most_cut.max(1.0 - mass);
            let tokens = masks.tokens.of(draw).len();
            self.kept += tokens;
            self.whole += usize::from(tokens == 0);
        }
    }

    fn record(&self, metrics: &mut Metrics) {
        if self.draws == 0 {
            return;
        }
        metrics.set_mean("rollout/kept_mass_mean", self.mass, self.draws);
        metrics.set("rollout/kept_mass_min", 1.0 - self.most_cut);
        metrics.set_mean("rollout/kept_tokens", self.kept as f64, self.draws - self.whole);
        metrics.set_mean("rollout/kept_whole", self.whole as f64, self.draws);
    }
}

/// The turns of responses with an environment.
#[derive(Clone, Debug, Default)]
struct TurnStatistics {
    turns: usize,
    most: usize,
    given_tokens: usize,
    /// Responses that were cut off because no turns were left.
    out_of_turns: usize,
    /// Sum and number of the entropies of the tokens of each turn.
    entropies: Vec<(f64, usize)>,
}

impl TurnStatistics {
    fn add(&mut self, response: &Response) {
        self.turns += response.turns();
        self.most = self.most.max(response.turns());
        self.given_tokens += response.given.count();
        self.out_of_turns += usize::from(response.out_of_turns);
        for (turn, tokens) in response.given.turns(response.tokens.len()).enumerate() {
            if turn == self.entropies.len() {
                self.entropies.push((0.0, 0));
            }
            let (sum, count) = &mut self.entropies[turn];
            *count += tokens.len();
            *sum += response.entropies[tokens].iter().map(|&h| f64::from(h)).sum::<f64>();
        }
    }

    fn record(&self, responses: usize, metrics: &mut Metrics) {
        metrics.set_mean("response/turns_mean", self.turns as f64, responses);
        if responses > 0 {
            metrics.set("response/turns_max", self.most as f64);
        }
        metrics.set_mean("response/given_tokens_mean", self.given_tokens as f64, responses);
        metrics.set_mean("response/out_of_turns", self.out_of_turns as f64, responses);
        for (turn, &(sum, count)) in (1..).zip(&self.entropies) {
            metrics.set_mean(format!("policy/entropy_turn_{turn}"), sum, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::group;
    use isentrope_reward::Judgement;

    fn recorded(statistics: &RolloutStatistics) -> Metrics {
        let mut metrics = Metrics::default();
        statistics.record(&mut metrics);
        metrics
    }

    #[test]
    fn nothing_sampled_has_counts_and_no_means() {
        let mut statistics = RolloutStatistics::default();
        let counts =
            ["rollout/groups", "rollout/responses", "rollout/tokens"].map(|name| (name, 0.0));
        assert_eq!(recorded(&statistics).iter().collect::<Vec<_>>(), counts);
        assert_eq!(statistics.entropy(), None);
        statistics.add(&group(&[Some(1.0)], None));
        assert_eq!(statistics.entropy(), Some(1.0));
    }

    #[test]
    fn faults_are_counted_and_end_the_run_only_if_there_is_nothing_else() {
        let mut statistics = RolloutStatistics::default();
        let mut faulted = group(&[None, None], None);
        faulted.responses[0].judgement.reason = "it broke".into();
        statistics.add(&faulted);
        let error = statistics.check_faults().unwrap_err().to_string();
        let where_to_look = "look at reward.verifier and";
        for part in ["could not judge any of 2 responses (made up: it broke)", where_to_look] {
            assert!(error.contains(part), "{error}");
        }
        let error = statistics.clone().with_turns().check_faults().unwrap_err().to_string();
        assert!(error.contains("look at [environment], reward.verifier and"), "{error}");
        statistics.add(&group(&[Some(1.0), Some(1.0)], None));
        statistics.check_faults().unwrap();
        assert_eq!(statistics.faults(), Some((2, "made up: it broke")));
        let metrics = recorded(&statistics);
        assert_eq!(metrics.get("reward/mean"), Some(1.0), "over what could be judged");
        assert_eq!(metrics.get("verdict/timed_out"), Some(0.5));
    }

    #[test]
    fn failures_count_and_are_told_and_end_the_run_only_if_there_is_nothing_else() {
        let mut failed = group(&[Some(0.0); 2], None);
        for response in &mut failed.responses {
            response.judgement = Judgement::failed("ValueError: 3");
        }
        let mut statistics = RolloutStatistics::default();
        statistics.add(&failed);
        let error = statistics.check_faults().unwrap_err().to_string();
        assert!(error.contains("any of 2 responses (made up: ValueError: 3)"), "{error}");
        statistics.add(&group(&[Some(1.0)], None));
        statistics.check_faults().unwrap();
        let note = statistics.failures_note().unwrap();
        assert!(note.contains("2 of 3 responses could not be scored"), "{note}");
        assert!(note.ends_with("the first: made up: ValueError: 3"), "{note}");
        let metrics = recorded(&statistics);
        assert_eq!(metrics.get("reward/mean"), Some(1.0 / 3.0), "they are not left out");
        assert_eq!(metrics.get("verdict/unparseable"), Some(2.0 / 3.0));
        assert_eq!(statistics.faults(), None);
    }

    #[test]
    fn a_greedy_response_that_could_not_be_judged_is_no_baseline_and_is_counted() {
        let with_greedy = |reward| group(&[Some(1.0); 2], Some(reward));
        let (judged, faulted) = (with_greedy(Some(0.25)), with_greedy(None));
        assert_eq!((judged.greedy_reward(), faulted.greedy_reward()), (Some(0.25), None));
        let mut statistics = RolloutStatistics::default();
        statistics.add(&judged);
        assert_eq!(statistics.faults(), None);
        statistics.add(&faulted);
        assert_eq!(statistics.faults().map(|(count, _)| count), Some(1));
        let metrics = recorded(&statistics);
        assert_eq!(metrics.get("verdict/timed_out"), Some(1.0 / 5.0));
        assert_eq!(metrics.get("verdict/correct"), Some(4.0 / 5.0));
        assert_eq!(metrics.get("rollout/responses"), Some(4.0));
    }
}

//! Verifiers' metrics besides the verdict, summed up for a set.

use super::evaluation::KL_INITIAL;
use super::outcome::Outcome;
use isentrope_reward::ByMetric;

/// The names, or their beginnings, of a set's numbers and of those that a run adds.
const OWN_NAMES: [&str; 7] =
    ["score", "entropy", "length_mean", "truncated", "faults", "failed", KL_INITIAL];
const OWN_BEGINNINGS: [&str; 4] = ["mean@", "pass@", "maj@", "entropy_"];

/// The prefix of the last part of a name, if the name is taken.
const MARK: &str = "reward_";

/// A metric's sum and number of values, for each problem.
pub(crate) type Sums = Vec<(f64, f64)>;

/// Sums up each metric over the judged responses that have it.
pub(crate) fn sums(problems: &[Vec<Outcome>]) -> ByMetric<Sums> {
    let mut sums = ByMetric::default();
    for (place, responses) in problems.iter().enumerate() {
        for response in responses.iter().filter(|r| r.is_scored()) {
            for (name, value) in &response.metrics {
                if let Some(of_metric) = sums.entry(name, || vec![(0.0, 0.0); problems.len()]) {
                    let (sum, count) = &mut of_metric[place];
                    *sum += value;
                    *count += 1.0;
                }
            }
        }
    }
    sums
}

/// The mean over responses.
pub(crate) fn mean(sums: &Sums) -> f64 {
    let (sum, count) = sums.iter().fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
    sum / count
}

/// The name of a verifier's metric among the numbers about a set. A name whose last part could be
/// one of a set's numbers gets `reward_` before that part. So does a name that already has it, so
/// that no two names become equal.
pub(crate) fn name_of_metric(name: &str) -> String {
    let (above, last) = name.split_at(name.rfind('/').map_or(0, |slash| slash + 1));
    let plain = last.trim_start_matches(MARK);
    let is_taken =
        OWN_NAMES.contains(&plain) || OWN_BEGINNINGS.iter().any(|taken| plain.starts_with(taken));
    if is_taken { format!("{above}{MARK}{last}") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_reward::Verdict;

    #[test]
    fn no_metric_of_a_verifier_passes_for_a_number_of_the_set() {
        let free = ["attempts", "part_1", "part_1/attempts", "means", "scores", "entropy/of"];
        for name in free.into_iter().chain(["reward_attempts"]) {
            assert_eq!(name_of_metric(name), name);
        }
        for (name, want) in [
            ("entropy", "reward_entropy"),
            ("reward_entropy", "reward_reward_entropy"),
            ("mean@8", "reward_mean@8"),
            ("part_2/pass@4", "part_2/reward_pass@4"),
            ("kl_initial", "reward_kl_initial"),
            ("entropy_initial_states", "reward_entropy_initial_states"),
            ("/score", "/reward_score"),
        ] {
            assert_eq!(name_of_metric(name), want);
        }
    }

    fn outcome(verdict: Verdict, metrics: &[(&str, f64)]) -> Outcome {
        Outcome {
            metrics: metrics.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            ..Outcome::of_verdict(verdict)
        }
    }

    #[test]
    fn means_are_over_the_judged_responses_that_have_the_metric() {
        let problems = [
            vec![
                outcome(Verdict::Correct, &[("a", 1.0)]),
                outcome(Verdict::Wrong, &[("a", 4.0), ("score", 7.0)]),
            ],
            vec![
                outcome(Verdict::Fault, &[("a", 100.0), ("b", 1.0)]),
                outcome(Verdict::Unparseable, &[]),
            ],
            vec![outcome(Verdict::Unparseable, &[("a", 1.0)])],
        ];
        let of = sums(&problems);
        let means: Vec<(&str, f64)> = of.iter().map(|(name, sums)| (name, mean(sums))).collect();
        assert_eq!(means, [("a", 2.0), ("score", 7.0)]);
        assert_eq!(of.iter().next(), Some(("a", &vec![(5.0, 2.0), (0.0, 0.0), (1.0, 1.0)])));
        assert_eq!(sums(&[]).iter().count(), 0);
    }

    /// A verifier that names its metrics after what it judges.
    #[test]
    fn of_too_many_metrics_the_first_have_numbers() {
        let problem = |response: usize| {
            let names: Vec<String> = (0..64).map(|i| format!("of_{response}_{i:02}")).collect();
            let metrics: Vec<(&str, f64)> = names.iter().map(|name| (&**name, 1.0)).collect();
            vec![outcome(Verdict::Correct, &metrics)]
        };
        let of = sums(&(0..128).map(problem).collect::<Vec<_>>());
        assert_eq!(of.iter().count(), 64);
        assert!(of.iter().all(|(name, sums)| name.starts_with("of_0_") && mean(sums) == 1.0));
        assert!(of.note().unwrap().contains("such as of_1_00, "));
    }
}

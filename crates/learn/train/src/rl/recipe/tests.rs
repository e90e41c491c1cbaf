use super::*;

/// A recipe that is sound.
fn sound() -> Recipe {
    let mut recipe = Recipe::default();
    recipe.model.path = "model".into();
    recipe.data.task = Some(isentrope_data::TaskName::Countdown);
    recipe.check().unwrap();
    recipe
}

#[test]
fn rollouts_and_updates_beyond_all_memory_are_refused_by_key() {
    for (prompts, responses, epochs, key) in [
        (usize::MAX, 1, 1, "rollout.prompts"),
        (100_000_000, 1, 1, "rollout.prompts"),
        (1, usize::MAX, 1, "rollout.prompts"),
        (1 << 32, 1 << 32, 1, "rollout.prompts"),
        (1 << 17, 9, 1, "rollout.prompts"),
        (64, 8, usize::MAX, "update.epochs"),
        (64, 8, 65537, "update.epochs"),
    ] {
        let mut recipe = sound();
        (recipe.rollout.prompts, recipe.rollout.responses) = (prompts, responses);
        recipe.update.epochs = epochs;
        let error = recipe.check().unwrap_err().to_string();
        let most =
            if key == "update.epochs" { "from 1 to 65536" } else { "at most 1048576 responses" };
        assert!(error.starts_with(&format!("{key} is ")) && error.contains(most), "{error}");
    }
    let mut recipe = sound();
    (recipe.rollout.prompts, recipe.rollout.responses, recipe.update.epochs) = (1 << 17, 8, 65536);
    recipe.check().unwrap();
}

#[test]
fn an_empty_stop_text_is_refused_by_key() {
    let mut recipe = sound();
    recipe.rollout.stop = vec!["\n".into(), String::new()];
    let error = recipe.check().unwrap_err().to_string();
    assert!(error.starts_with("rollout.stop holds an empty text"), "{error}");
}

/// A way to truncate sampling.
type Truncate = fn(&mut collect::RolloutSettings);
const TRUNCATED: [Truncate; 3] = [|r| r.top_k = 20, |r| r.top_p = 0.9, |r| r.min_p = 0.1];

#[test]
fn an_estimator_that_drains_what_can_be_drawn_is_refused_by_key() {
    use isentrope_objective::KlEstimator::{Abs, K1, K2, K3};
    let check = |truncate: Truncate, coefficient, estimator| {
        let mut recipe = sound();
        truncate(&mut recipe.rollout);
        (recipe.objective.reference_kl.coefficient, recipe.objective.reference_kl.estimator) =
            (coefficient, estimator);
        recipe.check()
    };
    for truncate in TRUNCATED {
        let error = check(truncate, 0.01, K1).unwrap_err().to_string();
        assert!(error.starts_with("objective.reference_kl.estimator is \"k1\""), "{error}");
        assert!(error.contains("take \"k2\" or \"k3\""), "{error}");
        check(truncate, 0.0, K1).unwrap();
        [Abs, K2, K3].into_iter().for_each(|estimator| check(truncate, 0.01, estimator).unwrap());
    }
    check(|_| (), 0.01, K1).unwrap();
}

#[test]
fn memory_that_nothing_bounds_is_warned_of() {
    let warnings = |truncate: Truncate| {
        let mut recipe = sound();
        (recipe.rollout.prompts, recipe.rollout.responses, recipe.rollout.max_tokens) =
            (64, 8, 1000);
        recipe.update.prompts = Some(16);
        truncate(&mut recipe.rollout);
        recipe.warnings()
    };
    let [top_k, top_p, min_p] = TRUNCATED.map(warnings);
    assert_eq!((warnings(|_| ()), top_k), (Vec::new(), Vec::new()), "known to be little");
    let [said] = &top_p[..] else { panic!("one warning is due") };
    // 64 and twice 16 prompts of 8 responses of 1000 tokens, each with 1000 tokens of 4 bytes.
    assert!(
        said.contains("1000 of each distribution would take 2941 MiB for full responses"),
        "{said}"
    );
    assert_eq!(min_p, top_p);

    let mut recipe = sound();
    assert_eq!(recipe.most_kept_bytes(100), 0);
    recipe.rollout.top_k = 20;
    assert_eq!(recipe.most_kept_bytes(100), recipe.kept_bytes(20));
    recipe.rollout.top_k = usize::MAX;
    assert_eq!(recipe.most_kept_bytes(100), recipe.kept_bytes(100));
}

#[test]
fn a_minibatch_that_is_left_over_is_warned_of() {
    let warnings = |prompts| {
        let mut recipe = sound();
        recipe.update.prompts = prompts;
        recipe.warnings()
    };
    for prompts in [None, Some(64), Some(16), Some(1)] {
        assert_eq!(warnings(prompts), [""; 0]);
    }
    let [said] = &warnings(Some(63))[..] else { panic!("one warning is due") };
    assert!(said.contains("update.prompts = 63 does not divide rollout.prompts = 64"), "{said}");
    assert!(said.contains("has but 1 of them"), "{said}");

    let mut recipe = prime();
    recipe.prime.prompts = Some(60);
    let [said] = &recipe.warnings()[..] else { panic!("one warning is due") };
    assert!(said.contains("prime.prompts = 60 does not divide rollout.prompts = 64"), "{said}");
    (recipe.update.prompts, recipe.prime.prompts) = (Some(60), Some(60));
    assert_eq!(recipe.warnings().len(), 1, "the process model's minibatches are the policy's");
}

#[test]
fn shards_without_responses_are_warned_of() {
    let mut recipe = sound();
    (recipe.update.prompts, recipe.rollout.responses) = (Some(16), 2);
    for (shards, is_warned) in [(None, false), (Some(32), false), (Some(33), true)] {
        recipe.update.shards = shards;
        let said = recipe.warnings();
        assert_eq!(
            said.iter().any(|said| said.contains("an update has but 32 responses")),
            is_warned,
            "{said:?}"
        );
    }
}

#[test]
fn a_band_of_accuracy_is_two_shares_and_needs_the_filter() {
    let check = |filter, band: [f64; 2]| {
        let mut recipe = sound();
        (recipe.rollout.filter, recipe.rollout.accuracy_band) = (filter, Some(band));
        recipe.check().map_err(|error| error.to_string())
    };
    for band in [[0.2, 0.8], [0.0, 1.0], [0.5, 0.5]] {
        check(true, band).unwrap();
        let error = check(false, band).unwrap_err();
        assert!(
            error.starts_with("rollout.accuracy_band is [") && error.contains("rollout.filter"),
            "{error}"
        );
    }
    for band in [[0.8, 0.2], [-0.1, 0.5], [0.2, 80.0], [f64::NAN, 0.5]] {
        let error = check(true, band).unwrap_err();
        assert!(
            error.starts_with("rollout.accuracy_band is [") && error.contains("from 0 to 1"),
            "{error}"
        );
    }
}

/// A recipe of PRIME.
fn prime() -> Recipe {
    let mut recipe = sound();
    recipe.objective.advantage = serde_json::from_str("\"prime\"").unwrap();
    recipe
}

#[test]
fn what_prime_cannot_do_is_refused_by_key() {
    type Change = fn(&mut PrimeSettings);
    let cases: [(Change, &str, &str); 6] = [
        (|p| p.process_weight = 0.0, "prime.process_weight is 0", "\"rloo\""),
        (|p| p.process_weight = -1.0, "prime.process_weight is -1", "at least 0"),
        (|p| p.beta = 0.0, "prime.beta is 0", "above 0"),
        (|p| p.prompts = Some(65), "prime.prompts is 65", "rollout.prompts (64)"),
        (|p| p.optimizer.learning_rate = 0.0, "prime.optimizer.learning_rate is 0", "above 0"),
        (|p| p.optimizer.eps = 1e-60, "prime.optimizer.eps is 1e-60", "1.2e-38"),
    ];
    for (change, key, part) in cases {
        let mut recipe = prime();
        change(&mut recipe.prime);
        let error = recipe.check().unwrap_err().to_string();
        assert!(error.starts_with(key) && error.contains(part), "{error}");
        // Without a process model only ranges are checked, and the table has no effect.
        recipe.objective.advantage = isentrope_objective::Estimator::Grpo;
        let [said] = &recipe.warnings()[..] else { panic!("one warning is due") };
        assert!(said.contains("prime has no effect: objective.advantage is not"), "{said}");
    }
    let mut recipe = prime();
    recipe.prime.optimizer.warmup_steps = 1000;
    let [said] = &recipe.warnings()[..] else { panic!("one warning is due") };
    assert!(
        said.contains("prime.optimizer.warmup_steps = 1000")
            && said.contains("prime.optimizer.schedule"),
        "{said}"
    );
}

#[test]
fn terms_that_need_no_advantage_are_those_that_can_act() {
    use isentrope_objective::{Method, TargetEntropy};
    let has = |bonus, change: fn(&mut Recipe)| {
        let mut recipe = sound();
        change(&mut recipe);
        recipe.has_terms_without_advantage(bonus)
    };
    assert!(!has(0.0, |_| ()) && has(1e-3, |_| ()));
    assert!(has(0.0, |r| r.objective.reference_kl.coefficient = 0.01));
    let kl_cov: fn(&mut Recipe) = |r| r.objective.covariance.method = Method::KlCov;
    assert!(!has(0.0, kl_cov), "the policy is the one that sampled");
    for several in [(|r| r.update.epochs = 2) as fn(&mut Recipe), |r| r.rollout.filter = true] {
        let mut recipe = sound();
        several(&mut recipe);
        assert!(!recipe.has_terms_without_advantage(0.0));
        kl_cov(&mut recipe);
        assert!(recipe.has_terms_without_advantage(0.0));
    }
    let target: fn(&mut Recipe) =
        |r| r.objective.entropy_bonus.target = Some(TargetEntropy::Nats(1.0));
    let mut recipe = sound();
    target(&mut recipe);
    assert!(!recipe.has_terms_without_advantage(0.0), "its weight moves after the only update");
    recipe.update.epochs = 2;
    assert!(recipe.has_terms_without_advantage(0.0));
    recipe.objective.entropy_bonus.delta = Some(5e-3);
    assert!(!recipe.has_terms_without_advantage(0.0), "its weight moves after the step");
}

#[test]
fn a_band_without_a_difference_is_refused() {
    let check = |band| {
        let mut recipe = sound();
        (recipe.rollout.filter, recipe.rollout.accuracy_band) = (true, Some(band));
        recipe.check().map_err(|e| e.to_string())
    };
    for band in [[0.0, 0.0], [1.0, 1.0]] {
        let error = check(band).unwrap_err();
        assert!(
            error.starts_with("rollout.accuracy_band is [") && error.contains("nothing to learn"),
            "{error}"
        );
    }
    for band in [[0.0, 1.0], [0.5, 0.5], [0.0, 0.1], [0.9, 1.0]] {
        check(band).unwrap();
    }
}

#[test]
fn what_does_nothing_or_hardly_meets_is_warned_of() {
    let said = |change: fn(&mut Recipe)| {
        let mut recipe = sound();
        change(&mut recipe);
        recipe.warnings()
    };
    let [overlong] = &said(|r| r.reward.overlong.factor = 0.5)[..] else {
        panic!("one warning is due")
    };
    assert!(overlong.contains("reward.overlong.factor = 0.5 has no effect"), "{overlong}");
    let [best] = &said(|r| (r.checkpoint.every, r.eval.every) = (7, 10))[..] else {
        panic!("one warning is due")
    };
    assert!(
        best.contains("checkpoint.every = 7 and eval.every = 10") && best.contains("every 70 and"),
        "{best}"
    );
    for meeting in [(10, 10), (20, 10), (5, 10), (0, 10), (7, 0)] {
        let mut recipe = sound();
        (recipe.checkpoint.every, recipe.eval.every) = meeting;
        assert_eq!(recipe.warnings(), [""; 0], "{meeting:?}");
    }
}

/// A run's own recipe may be used again with another method, whose default is another.
#[test]
fn a_fraction_that_is_not_set_follows_the_method() {
    use isentrope_objective::Method::{ClipCov, KlCov};
    let mut recipe = sound();
    recipe.objective.covariance.method = KlCov;
    recipe.fill_in();
    assert_eq!(recipe.objective.covariance.resolved_fraction(), Some(2e-3));
    recipe.objective.covariance.method = ClipCov;
    assert_eq!(recipe.objective.covariance.resolved_fraction(), Some(2e-4));
}

#[test]
fn the_process_model_learns_in_minibatches_of_the_policys_unless_told() {
    let resolved = |of_policy, of_process_model| {
        let mut recipe = prime();
        (recipe.update.prompts, recipe.prime.prompts) = (of_policy, of_process_model);
        recipe.fill_in();
        recipe.prime.prompts
    };
    assert_eq!(resolved(None, None), Some(64));
    assert_eq!(resolved(Some(16), None), Some(16));
    assert_eq!(resolved(Some(16), Some(64)), Some(64));
    let mut other = sound();
    other.fill_in();
    assert_eq!(other.prime, PrimeSettings::default(), "what has no effect stays as it is");
}

use super::*;
use isentrope_objective::{
    Estimator,
    KlEstimator::{Abs, K1, K2, K3},
    Method, TargetEntropy,
};

/// A recipe that is sound but for a change.
fn recipe(change: impl FnOnce(&mut Recipe)) -> Recipe {
    let mut recipe = Recipe::default();
    recipe.model.path = "model".into();
    recipe.data.task = Some(isentrope_data::TaskName::Countdown);
    change(&mut recipe);
    recipe
}

fn prime(change: impl FnOnce(&mut Recipe)) -> Recipe {
    recipe(|r| {
        r.objective.advantage = Estimator::Prime;
        change(r);
    })
}

fn size(r: &mut Recipe, prompts: usize, responses: usize, epochs: usize) {
    (r.rollout.prompts, r.rollout.responses, r.update.epochs) = (prompts, responses, epochs);
}

fn band(r: &mut Recipe, filter: bool, band: [f64; 2]) {
    (r.rollout.filter, r.rollout.accuracy_band) = (filter, Some(band));
}

fn reference(r: &mut Recipe, coefficient: f64, estimator: isentrope_objective::KlEstimator) {
    r.objective.reference_kl.coefficient = coefficient;
    r.objective.reference_kl.estimator = estimator;
}

/// A way to truncate sampling.
type Truncate = fn(&mut collect::RolloutSettings);
const TRUNCATED: [Truncate; 3] = [|r| r.top_k = 20, |r| r.top_p = 0.9, |r| r.min_p = 0.1];

#[test]
fn settings_that_do_not_go_together_are_refused_by_key() {
    const MOST: &str = "at most 1048576 responses";
    let large = [
        (usize::MAX, 1, 1, "rollout.prompts is ", MOST),
        (100_000_000, 1, 1, "rollout.prompts is ", MOST),
        (1, usize::MAX, 1, "rollout.prompts is ", MOST),
        (1 << 32, 1 << 32, 1, "rollout.prompts is ", MOST),
        (1 << 17, 9, 1, "rollout.prompts is ", MOST),
        (64, 8, usize::MAX, "update.epochs is ", "from 1 to 65536"),
        (64, 8, 65537, "update.epochs is ", "from 1 to 65536"),
    ]
    .map(|(prompts, responses, epochs, key, part)| {
        (recipe(|r| size(r, prompts, responses, epochs)), key, part)
    });
    let bands = [
        (false, [0.2, 0.8], "rollout.filter"),
        (false, [0.5, 0.5], "rollout.filter"),
        (true, [0.8, 0.2], "from 0 to 1"),
        (true, [-0.1, 0.5], "from 0 to 1"),
        (true, [0.2, 80.0], "from 0 to 1"),
        (true, [f64::NAN, 0.5], "from 0 to 1"),
        (true, [0.0, 0.0], "nothing to learn"),
        (true, [1.0, 1.0], "nothing to learn"),
    ]
    .map(|(filter, shares, part)| {
        (recipe(|r| band(r, filter, shares)), "rollout.accuracy_band is [", part)
    });
    let drained = TRUNCATED.map(|truncate| {
        let recipe = recipe(|r| {
            truncate(&mut r.rollout);
            reference(r, 0.01, K1);
        });
        (recipe, "objective.reference_kl.estimator is \"k1\"", "take \"k2\" or \"k3\"")
    });
    let no_group = recipe(|r| {
        r.objective.advantage = Estimator::Remax;
        let verifier = serde_json::json!({"python": "a.py:f", "batch": "group"});
        r.reward.verifier = serde_json::from_value(verifier).unwrap();
    });
    let no_prime = |change: fn(&mut PrimeSettings)| prime(|r| change(&mut r.prime));
    let empty_stop = recipe(|r| r.rollout.stop = vec!["\n".into(), String::new()]);
    let others = [
        (empty_stop, "rollout.stop holds an empty text", ""),
        (no_group, "reward.verifier has batch = \"group\"", "another objective.advantage"),
        (no_prime(|p| p.process_weight = 0.0), "prime.process_weight is 0", "\"rloo\""),
        (no_prime(|p| p.process_weight = -1.0), "prime.process_weight is -1", "at least 0"),
        (no_prime(|p| p.beta = 0.0), "prime.beta is 0", "above 0"),
        (no_prime(|p| p.prompts = Some(65)), "prime.prompts is 65", "rollout.prompts (64)"),
        (
            no_prime(|p| p.optimizer.learning_rate = 0.0),
            "prime.optimizer.learning_rate is 0",
            "above 0",
        ),
        (no_prime(|p| p.optimizer.eps = 1e-60), "prime.optimizer.eps is 1e-60", "1.2e-38"),
    ];
    for (recipe, key, part) in large.into_iter().chain(bands).chain(drained).chain(others) {
        let error = recipe.check().unwrap_err().to_string();
        assert!(error.starts_with(key) && error.contains(part), "{error}");
    }
}

#[test]
fn settings_at_the_limits_are_allowed() {
    recipe(|_| ()).check().unwrap();
    recipe(|r| size(r, 1 << 17, 8, 65536)).check().unwrap();
    for shares in [[0.2, 0.8], [0.0, 1.0], [0.5, 0.5], [0.0, 0.1], [0.9, 1.0]] {
        recipe(|r| band(r, true, shares)).check().unwrap();
    }
    for truncate in TRUNCATED {
        for (coefficient, estimator) in [(0.0, K1), (0.01, Abs), (0.01, K2), (0.01, K3)] {
            let truncated = recipe(|r| {
                truncate(&mut r.rollout);
                reference(r, coefficient, estimator);
            });
            truncated.check().unwrap();
        }
    }
    recipe(|r| reference(r, 0.01, K1)).check().unwrap();
}

#[test]
fn settings_without_effect_or_hardly_meant_are_warned_of() {
    let kept = |truncate: Truncate| {
        recipe(|r| {
            size(r, 64, 8, 1);
            (r.rollout.max_tokens, r.update.prompts) = (1000, Some(16));
            truncate(&mut r.rollout);
        })
    };
    // 64 and twice 16 prompts of 8 responses of 1000 tokens, each with 1000 tokens of 4 bytes.
    let unbounded = "1000 of each distribution would take 2941 MiB for full responses";
    let shards = |shards| {
        recipe(|r| {
            (r.update.prompts, r.rollout.responses, r.update.shards) = (Some(16), 2, Some(shards));
        })
    };
    let meeting =
        |saved, evaluated| recipe(|r| (r.checkpoint.every, r.eval.every) = (saved, evaluated));
    let of_update = |prompts| recipe(|r| r.update.prompts = prompts);
    for (recipe, parts) in [
        (kept(TRUNCATED[1]), [unbounded, ""]),
        (kept(TRUNCATED[2]), [unbounded, ""]),
        (
            of_update(Some(63)),
            ["update.prompts = 63 does not divide rollout.prompts = 64", "has but 1 of them"],
        ),
        (
            prime(|r| r.prime.prompts = Some(60)),
            ["prime.prompts = 60 does not divide rollout.prompts = 64", ""],
        ),
        // The process model's minibatches are the policy's.
        (
            prime(|r| (r.update.prompts, r.prime.prompts) = (Some(60), Some(60))),
            ["update.prompts = 60 does not divide", ""],
        ),
        (shards(33), ["an update has but 32 responses", ""]),
        (shards(17), ["an update has but 16 prompts (update.prompts)", "raise update.prompts"]),
        (recipe(|r| r.prime.beta = 0.1), ["prime has no effect: objective.advantage is not", ""]),
        (
            prime(|r| r.prime.optimizer.warmup_steps = 1000),
            ["prime.optimizer.warmup_steps = 1000", "prime.optimizer.schedule"],
        ),
        (
            recipe(|r| r.reward.overlong.factor = 0.5),
            ["reward.overlong.factor = 0.5 has no effect", ""],
        ),
        (
            recipe(|r| (r.eval.every, r.eval.files) = (0, vec!["test.csv".into()])),
            ["eval.files has no effect: eval.every is 0", ""],
        ),
        (
            recipe(|r| (r.eval.every, r.eval.bench) = (0, vec!["test=test.csv".into()])),
            ["eval.bench has no effect: eval.every is 0", ""],
        ),
        (meeting(7, 10), ["checkpoint.every = 7 and eval.every = 10", "every 70 and"]),
    ] {
        let [warning] = &recipe.warnings()[..] else {
            panic!("one is due: {:?}", recipe.warnings())
        };
        assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
    }
    let of_updates = [None, Some(64), Some(16), Some(1)].map(of_update);
    let meetings = [(10, 10), (20, 10), (5, 10), (0, 10), (7, 0)].map(|(a, b)| meeting(a, b));
    for recipe in
        of_updates.into_iter().chain(meetings).chain([shards(16), kept(|_| ()), kept(TRUNCATED[0])])
    {
        assert_eq!(recipe.warnings(), [""; 0]);
    }
}

#[test]
fn the_memory_of_kept_tokens_is_bounded_by_top_k_and_the_vocabulary() {
    for (top_k, tokens) in [(0, 0), (20, 20), (usize::MAX, 100)] {
        let recipe = recipe(|r| r.rollout.top_k = top_k);
        let expected = if tokens == 0 { 0 } else { recipe.kept_bytes(tokens) };
        assert_eq!(recipe.most_kept_bytes(100), expected);
    }
}

#[test]
fn terms_that_need_no_advantage_are_those_that_can_act() {
    type Change = fn(&mut Recipe);
    let several: [Change; 2] = [|r| r.update.epochs = 2, |r| r.rollout.filter = true];
    let kl_cov: Change = |r| r.objective.covariance.method = Method::KlCov;
    let target: Change = |r| r.objective.entropy_bonus.target = Some(TargetEntropy::Nats(1.0));
    let delta: Change = |r| r.objective.entropy_bonus.delta = Some(5e-3);
    let none: Change = |_| ();
    for (bonus, changes, expected) in [
        (0.0, [none; 3], false),
        (1e-3, [none; 3], true),
        (0.0, [|r| reference(r, 0.01, K3), none, none], true),
        (0.0, [|r| r.objective.router_aux_coefficient = 0.01, none, none], true),
        (0.0, [kl_cov, none, none], false), // the policy is the one that sampled
        (0.0, [several[0], none, none], false),
        (0.0, [several[1], none, none], false),
        (0.0, [several[0], kl_cov, none], true),
        (0.0, [several[1], kl_cov, none], true),
        (0.0, [target, none, none], false), // its weight moves after the only update
        (0.0, [target, several[0], none], true),
        (0.0, [target, several[0], delta], false), // its weight moves after the step
    ] {
        let recipe = recipe(|r| changes.iter().for_each(|change| change(r)));
        assert_eq!(recipe.has_terms_without_advantage(bonus), expected, "{:?}", recipe.objective);
    }
}

/// A run's own recipe may be used again with another method, whose default is another.
#[test]
fn resolved_keys_follow_from_others_and_a_fraction_from_the_method() {
    let mut kl_cov = recipe(|r| r.objective.covariance.method = Method::KlCov);
    kl_cov.fill_in();
    assert_eq!(kl_cov.objective.covariance.resolved_fraction(), Some(2e-3));
    kl_cov.objective.covariance.method = Method::ClipCov;
    assert_eq!(kl_cov.objective.covariance.resolved_fraction(), Some(2e-4));
    assert_eq!(kl_cov.prime, PrimeSettings::default(), "a table without effect stays as it is");
    for (of_policy, of_process_model, resolved) in
        [(None, None, 64), (Some(16), None, 16), (Some(16), Some(64), 64)]
    {
        let mut recipe =
            prime(|r| (r.update.prompts, r.prime.prompts) = (of_policy, of_process_model));
        recipe.fill_in();
        assert_eq!(recipe.prime.prompts, Some(resolved));
    }
}

/// A new adapter changes nothing, and its reference is the base itself.
#[test]
fn a_reference_has_a_copy_of_the_adapter_that_training_starts_from() {
    let first = LoraSettings { adapter: Some("adapter".into()), ..LoraSettings::default() };
    for (lora, is_adapted) in
        [(None, false), (Some(LoraSettings::default()), false), (Some(first), true)]
    {
        let mut recipe = recipe(|r| {
            reference(r, 0.1, K3);
            r.lora = lora;
        });
        recipe.resolve().unwrap();
        let sets = recipe.parameter_sets(1);
        assert_eq!((sets.reference, sets.reference_is_adapted), (true, is_adapted));
    }
}

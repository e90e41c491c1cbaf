//! Hints for keys that belong elsewhere: the names that TRL and verl give to settings, keys of the other command, and keys
//! that recipes no longer have.

use isentrope_settings::{Shape, has_key};
use isentrope_train::{rl, sft};

/// A setting of another trainer.
struct Foreign {
    /// What it is called there; a dotted name must end like this, table included.
    names: &'static [&'static str],
    /// The key here. Of several entries with a name, the first whose key the recipe has is meant.
    key: &'static str,
    /// How the meaning differs, as it follows a comma; empty where it does not.
    difference: &'static str,
}

const fn same(names: &'static [&'static str], key: &'static str) -> Foreign {
    Foreign { names, key, difference: "" }
}

const fn but(names: &'static [&'static str], key: &'static str, difference: &'static str) -> Foreign {
    Foreign { names, key, difference }
}

const ONE_PASS: &str = "which counts tokens, not sequences, and changes no result";

/// TRL's `GRPOConfig` and `SFTConfig`, and verl's configuration.
const FOREIGN: &[Foreign] = &[
    // The run and its data.
    same(&["model_name_or_path", "actor_rollout_ref.model.path"], "model.path"),
    same(&["output_dir", "default_local_dir"], "run.out"),
    but(
        &["max_steps", "total_training_steps"],
        "run.steps",
        "which counts rollouts for `train`, updates for `sft`",
    ),
    but(
        &["num_train_epochs", "total_epochs"],
        "run.steps",
        "which counts rollouts for `train` and updates for `sft`, not passes over the data",
    ),
    same(&["train_files", "dataset_name"], "data.files"),
    same(&["val_files"], "eval.files"),
    same(&["prompt_key"], "data.columns.prompt"),
    but(
        &["max_prompt_length"],
        "data.max_prompt_tokens",
        "which leaves longer prompts out and never cuts them",
    ),
    but(
        &["filter_overlong_prompts"],
        "data.max_prompt_tokens",
        "which leaves longer prompts out if it is set",
    ),
    same(&["train_max_samples"], "data.limit"),
    // Sampling.
    same(&["num_generations", "rollout.n"], "rollout.responses"),
    same(&["max_completion_length", "max_response_length"], "rollout.max_tokens"),
    same(&["train_batch_size"], "rollout.prompts"),
    same(&["train_batch_size"], "sft.batch"),
    but(&["generation_batch_size"], "rollout.prompts", "which counts prompts, not responses"),
    same(&["filter_groups.enable"], "rollout.filter"),
    same(&["max_num_gen_batches"], "rollout.max_batches"),
    same(&["val_kwargs.n"], "eval.samples"),
    // Updates.
    but(
        &["per_device_train_batch_size"],
        "update.prompts",
        "which counts the prompts of a whole update, each with all its responses",
    ),
    but(&["per_device_train_batch_size"], "sft.batch", "which counts the examples of a whole update"),
    but(&["ppo_mini_batch_size"], "update.prompts", "which counts prompts, each with all its responses"),
    but(&["steps_per_generation"], "update.prompts", "which is rollout.prompts divided by it"),
    same(&["num_iterations", "ppo_epochs"], "update.epochs"),
    but(&["gradient_accumulation_steps"], "memory.micro_batch_tokens", ONE_PASS),
    but(
        &["ppo_micro_batch_size", "ppo_micro_batch_size_per_gpu", "micro_batch_size_per_gpu"],
        "memory.micro_batch_tokens",
        ONE_PASS,
    ),
    same(&["ppo_max_token_len_per_gpu"], "memory.micro_batch_tokens"),
    but(&["gpu_memory_utilization"], "memory.budget_gib", "which is in GiB, not a fraction"),
    // The objective.
    same(&["adv_estimator"], "objective.advantage"),
    but(
        &["scale_rewards", "norm_adv_by_std_in_grpo"],
        "objective.advantage",
        "where \"dr-grpo\" does not divide by the standard deviation",
    ),
    same(&["loss_agg_mode"], "objective.aggregation"),
    but(
        &["loss_type"],
        "objective.aggregation",
        "where \"seq-mean-token-mean\" is its grpo and \"token-mean\" its dapo",
    ),
    but(
        &["loss_mode"],
        "objective.covariance.method",
        "which has \"clip-cov\" and \"kl-cov\"; other losses are objective.loss",
    ),
    same(&["clip_ratio_low"], "objective.clip_low"),
    same(&["clip_ratio_high"], "objective.clip_high"),
    but(&["epsilon_high"], "objective.clip_high", "which is a distance from 1, like epsilon_high"),
    but(
        &["epsilon", "clip_ratio", "cliprange"],
        "objective.clip_low",
        "for the lower side alone; set objective.clip_high too",
    ),
    same(&["clip_ratio_c"], "objective.dual_clip"),
    same(&["clip_cov_ratio", "kl_cov_ratio"], "objective.covariance.fraction"),
    same(&["clip_cov_lb"], "objective.covariance.low"),
    same(&["clip_cov_ub"], "objective.covariance.high"),
    same(&["ppo_kl_coef"], "objective.covariance.coefficient"),
    same(&["entropy_coeff", "entropy_coef"], "objective.entropy_bonus.coefficient"),
    same(&["top_entropy_quantile"], "objective.entropy_mask_fraction"),
    same(&["beta", "kl_loss_coef"], "objective.reference_kl.coefficient"),
    but(&["kl_coef"], "objective.reference_kl.coefficient", "which acts in the loss, not in the reward"),
    but(&["use_kl_loss"], "objective.reference_kl.coefficient", "which switches it off with 0"),
    but(&["kl_loss_type"], "objective.reference_kl.estimator", "where \"k3\" is its low_var_kl"),
    // Rewards.
    same(&["reward_funcs", "custom_reward_function"], "reward.verifier"),
    same(&["mask_truncated_completions"], "reward.mask_truncated"),
    same(&["overlong_buffer.len"], "reward.overlong.buffer"),
    same(&["overlong_buffer.penalty_factor"], "reward.overlong.factor"),
    // The optimizer.
    same(&["lr"], "optimizer.learning_rate"),
    same(&["lr_scheduler_type", "warmup_style"], "optimizer.schedule"),
    but(&["lr_warmup_steps"], "optimizer.warmup_steps", "which counts the same steps as run.steps"),
    but(
        &["warmup_ratio", "lr_warmup_steps_ratio"],
        "optimizer.warmup_steps",
        "which counts steps, not a fraction of them",
    ),
    same(&["min_lr_ratio"], "optimizer.final_fraction"),
    same(&["max_grad_norm", "grad_clip", "clip_grad"], "optimizer.clip_norm"),
    same(&["adam_beta1"], "optimizer.beta1"),
    same(&["adam_beta2"], "optimizer.beta2"),
    same(&["adam_epsilon"], "optimizer.eps"),
    // Supervised fine-tuning.
    but(
        &["max_length", "max_seq_length"],
        "sft.max_tokens",
        "which leaves longer examples out and never cuts them",
    ),
    // How often.
    same(&["save_freq", "save_steps"], "checkpoint.every"),
    same(&["save_total_limit", "max_actor_ckpt_to_keep"], "checkpoint.keep"),
    same(&["test_freq", "eval_steps"], "eval.every"),
];

/// Keys that recipes once had, and what to say of them.
const REMOVED: &[(&str, &str)] = &[(
    "objective.covariance.scope",
    "; tokens are always selected over the whole minibatch, whatever the micro-batches, so leave it out",
)];

/// What to say of a key, by its whole path, that a recipe of this shape does not have: it follows "unknown key".
pub fn hint(path: &str, root: &Shape) -> Option<String> {
    if let Some((_, hint)) = REMOVED.iter().find(|(removed, _)| *removed == path) {
        return Some((*hint).to_owned());
    }
    let recipes = [("train", Shape::of::<rl::Recipe>()), ("sft", Shape::of::<sft::Recipe>())];
    let command =
        |key: &str| recipes.iter().find(|(_, shape)| has_key(shape, key)).map(|(command, _)| command);
    if let Some(command) = command(path) {
        return Some(format!(", which recipes for `isentrope {command}` have"));
    }
    let named = |foreign: &&Foreign| {
        foreign
            .names
            .iter()
            .any(|name| path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    };
    let all: Vec<&Foreign> = FOREIGN.iter().filter(named).collect();
    let Foreign { key, difference, .. } =
        all.iter().find(|foreign| has_key(root, foreign.key)).or(all.first())?;
    let mut hint = format!("; here it is `{key}`");
    if let (false, Some(command)) = (has_key(root, key), command(key)) {
        hint += &format!(" in recipes for `isentrope {command}`");
    }
    if !difference.is_empty() {
        hint += &format!(", {difference}");
    }
    Some(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_named_is_a_recipes() {
        let (rl, sft) = (Shape::of::<rl::Recipe>(), Shape::of::<sft::Recipe>());
        for Foreign { names, key, .. } in FOREIGN {
            assert!(has_key(&rl, key) || has_key(&sft, key), "{key}");
            for name in *names {
                assert!(!has_key(&rl, name) && !has_key(&sft, name), "{name} is a key of recipes");
            }
        }
    }

    #[test]
    fn removed_keys_are_no_keys_of_recipes() {
        let (rl, sft) = (Shape::of::<rl::Recipe>(), Shape::of::<sft::Recipe>());
        for (key, _) in REMOVED {
            assert!(!has_key(&rl, key) && !has_key(&sft, key), "{key}");
            assert!(hint(key, &rl).is_some());
        }
    }

    #[test]
    fn of_two_keys_the_commands_own_is_named() {
        let (rl, sft) = (Shape::of::<rl::Recipe>(), Shape::of::<sft::Recipe>());
        assert_eq!(hint("data.train_batch_size", &rl).unwrap(), "; here it is `rollout.prompts`");
        assert_eq!(hint("data.train_batch_size", &sft).unwrap(), "; here it is `sft.batch`");
        assert_eq!(
            hint("max_seq_length", &rl).unwrap(),
            "; here it is `sft.max_tokens` in recipes for `isentrope sft`, which leaves longer examples out and never \
             cuts them"
        );
        assert_eq!(hint("rollout", &sft).unwrap(), ", which recipes for `isentrope train` have");
        assert_eq!(hint("xlr", &rl), None);
    }
}

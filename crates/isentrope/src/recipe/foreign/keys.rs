//! What TRL's `GRPOConfig` and `SFTConfig`, transformers' `TrainingArguments` and verl's configuration call our settings.

/// A setting of another trainer.
pub struct Foreign {
    /// What it is called there, as [`fit`](super::fit) reads names. Of all that fit a key, the best is meant.
    pub names: &'static [&'static str],
    /// The key here. Of several entries with a name, that whose key the recipe has is meant.
    pub key: &'static str,
    /// How the meaning differs, as it follows a comma; empty where it does not.
    pub difference: &'static str,
}

const fn same(names: &'static [&'static str], key: &'static str) -> Foreign {
    Foreign { names, key, difference: "" }
}

const fn but(names: &'static [&'static str], key: &'static str, difference: &'static str) -> Foreign {
    Foreign { names, key, difference }
}

const ONE_PASS: &str = "which counts tokens, not sequences, and changes no result";
const NEVER_CUT: &str = "which leaves longer prompts out and never cuts them";
const ZERO_KEEPS_ALL: &str = "where 0 keeps all tokens, as -1 does there";
const ZERO_IS_NEVER: &str = "where 0 is never";

/// One entry per setting, in the order of a recipe.
pub const FOREIGN: &[Foreign] = &[
    // PRIME's.
    same(&["beta_train"], "prime.beta"),
    but(&["reward_model.model.update"], "prime.order", "where its \"none\" and \"reverse\" are not"),
    same(&["reward_gt_coef"], "prime.outcome_weight"),
    same(&["reward_dpo_coef"], "prime.process_weight"),
    but(&["prime_norm"], "prime.process_scale", "where \"largest-return\" is its batch_norm"),
    but(
        &["reward_model.mini_batch_size"],
        "prime.prompts",
        "which counts prompts, each with all its responses",
    ),
    same(&["reward_model.model.optim.lr"], "prime.optimizer.learning_rate"),
    same(&["reward_model.model.optim.grad_clip"], "prime.optimizer.clip_norm"),
    same(&["reward_model.model.optim.weight_decay"], "prime.optimizer.weight_decay"),
    but(&["filter_accuracy"], "rollout.filter", "with the bounds in rollout.accuracy_band"),
    but(&["accuracy_lower_bound", "accuracy_upper_bound"], "rollout.accuracy_band", "which has both bounds"),
    // The run and its data.
    same(&["model_name_or_path", "actor_rollout_ref.model.path"], "model.path"),
    but(&["model_revision"], "model.path", "as ID@REVISION"),
    same(&["output_dir", "default_local_dir"], "run.out"),
    but(&["run_name", "experiment_name"], "run.out", "a directory, by which trackers name the run"),
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
    same(&["data_seed", "data_loader_seed", "data.seed", "rollout.seed"], "run.seed"),
    same(&["train_files", "dataset_name", "datasets"], "data.files"),
    but(&["dataset_config", "dataset_train_split"], "data.files", "as ID:CONFIG:SPLIT"),
    same(&["val_files"], "eval.files"),
    but(&["dataset_test_split"], "eval.files", "as ID:CONFIG:SPLIT"),
    same(&["chat_template_kwargs", "apply_chat_template_kwargs"], "data.template_variables"),
    same(&["prompt_key"], "data.columns.prompt"),
    but(&["max_prompt_length", "rollout.prompt_length"], "data.max_prompt_tokens", NEVER_CUT),
    but(
        &["filter_overlong_prompts"],
        "data.max_prompt_tokens",
        "which leaves longer prompts out if it is set",
    ),
    same(&["train_max_samples"], "data.limit"),
    same(&["shuffle_dataset"], "data.shuffle"),
    same(&["system_prompt"], "data.system"),
    // Sampling.
    same(&["num_generations", "rollout.n", "rollout_n"], "rollout.responses"),
    same(&["max_completion_length", "max_response_length", "rollout.response_length"], "rollout.max_tokens"),
    same(&["temperature"], "rollout.temperature"),
    same(&["top_p"], "rollout.top_p"),
    same(&["min_p"], "rollout.min_p"),
    but(&["top_k"], "rollout.top_k", ZERO_KEEPS_ALL),
    same(&["train_batch_size"], "rollout.prompts"),
    same(&["train_batch_size"], "sft.batch"),
    but(&["generation_batch_size"], "rollout.prompts", "which counts prompts, not responses"),
    same(&["filter_groups.enable"], "rollout.filter"),
    same(&["max_num_gen_batches"], "rollout.max_batches"),
    // Updates.
    but(
        &["per_device_train_batch_size"],
        "update.prompts",
        "which counts the prompts of a whole update, each with all its responses",
    ),
    but(&["per_device_train_batch_size"], "sft.batch", "which counts the examples of a whole update"),
    but(&["ppo_mini_batch_size"], "update.prompts", "which counts prompts, each with all its responses"),
    but(
        &["steps_per_generation"],
        "update.prompts",
        "the prompts of one update; rollout.prompts is steps_per_generation / gradient_accumulation_steps times as many",
    ),
    same(&["num_iterations", "ppo_epochs"], "update.epochs"),
    but(
        &["gradient_accumulation_steps"],
        "update.prompts",
        "of which it is a factor: update.prompts counts the prompts of a whole update",
    ),
    but(
        &["gradient_accumulation_steps"],
        "sft.batch",
        "of which it is a factor: sft.batch counts the examples of a whole update",
    ),
    but(
        &[
            "ppo_micro_batch_size",
            "ppo_micro_batch_size_per_gpu",
            "micro_batch_size_per_gpu",
            "log_prob_micro_batch_size",
            "log_prob_micro_batch_size_per_gpu",
            "per_device_eval_batch_size",
        ],
        "memory.micro_batch_tokens",
        ONE_PASS,
    ),
    same(
        &["ppo_max_token_len_per_gpu", "log_prob_max_token_len_per_gpu", "max_num_batched_tokens"],
        "memory.micro_batch_tokens",
    ),
    same(&["optimizer_offload"], "memory.offload_moments"),
    but(
        &["gpu_memory_utilization", "vllm_gpu_memory_utilization"],
        "memory.budget_gib",
        "which is in GiB, not a fraction",
    ),
    but(&["trainer.device"], "device.kind", "where \"auto\" takes a GPU if one can be used"),
    but(&["use_cpu", "no_cuda", "use_mps_device"], "device.kind", "where \"cpu\" is the CPU alone"),
    but(
        &["bf16", "bf16_full_eval", "torch_dtype", "model_dtype", "mixed_precision.*"],
        "device.dtype",
        "which is \"f32\" or, on a GPU, \"bf16\"; checkpoint.dtype is the format of saved weights",
    ),
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
        "objective.loss",
        "or objective.covariance.method, which has \"clip-cov\" and \"kl-cov\"",
    ),
    but(
        &["importance_sampling_level"],
        "objective.loss",
        "where \"gspo\" has one ratio per response and the others one per token",
    ),
    same(&["clip_ratio_low"], "objective.clip_low"),
    same(&["clip_ratio_high"], "objective.clip_high"),
    but(&["epsilon_high"], "objective.clip_high", "which is a distance from 1, like epsilon_high"),
    but(
        &["epsilon", "clip_ratio", "cliprange"],
        "objective.clip_low",
        "for the lower side alone; set objective.clip_high too",
    ),
    same(&["clip_ratio_c", "delta"], "objective.dual_clip"),
    same(&["clip_cov_ratio", "kl_cov_ratio"], "objective.covariance.fraction"),
    same(&["clip_cov_lb"], "objective.covariance.low"),
    same(&["clip_cov_ub"], "objective.covariance.high"),
    same(&["ppo_kl_coef"], "objective.covariance.coefficient"),
    but(&["clip_cov", "kl_cov"], "objective.covariance.method", "where it is a value"),
    same(&["entropy_coeff", "entropy_coef"], "objective.entropy_bonus.coefficient"),
    but(&["use_adaptive_entropy"], "objective.entropy_bonus.target", "which switches it on"),
    same(&["entropy_target"], "objective.entropy_bonus.target"),
    same(&["entropy_coef_max"], "objective.entropy_bonus.max"),
    but(
        &["entropy_coef_delta"],
        "objective.entropy_bonus.delta",
        "which moves the weight once per rollout, not once per update",
    ),
    same(&["top_entropy_quantile"], "objective.entropy_mask_fraction"),
    same(&["beta", "kl_loss_coef"], "objective.reference_kl.coefficient"),
    but(&["kl_coef"], "objective.reference_kl.coefficient", "which acts in the loss, not in the reward"),
    but(
        &["use_kl_in_reward"],
        "objective.reference_kl.coefficient",
        "which acts in the loss, not in the reward",
    ),
    but(&["use_kl_loss"], "objective.reference_kl.coefficient", "which switches it off with 0"),
    but(
        &["kl_loss_type", "kl_penalty"],
        "objective.reference_kl.estimator",
        "where \"k3\" is its low_var_kl",
    ),
    // Rewards.
    but(
        &["reward_funcs"],
        "reward.verifier",
        "a built-in verifier, or { python = \"reward.py:my_reward\" } with your function as it is: docs/guides/data-and-rewards.md",
    ),
    but(
        &["custom_reward_function", "custom_reward_function.path", "custom_reward_function.name"],
        "reward.verifier",
        "as { python = \"reward.py:compute_score\" } with your function as it is: docs/guides/data-and-rewards.md",
    ),
    but(
        &["custom_reward_function.reward_kwargs"],
        "reward.verifier",
        "as a table with `arguments` beside `python`: docs/guides/data-and-rewards.md",
    ),
    but(
        &["reward_manager", "reward_manager.*"],
        "reward.verifier",
        "a built-in verifier, a function or a program of your own: docs/guides/data-and-rewards.md",
    ),
    but(
        &["reward_weights"],
        "reward.verifier",
        "as a table with the key `weighted`, which has verifiers and their weights: docs/guides/data-and-rewards.md",
    ),
    but(
        &["reward.num_workers", "reward_model.num_workers"],
        "reward.verifier",
        "as a table with `workers` beside `command` or `python`",
    ),
    but(
        &["sandbox_fusion.max_concurrent"],
        "reward.verifier",
        "as { code = { workers = 8 } }: programs run on this machine, in sandboxes",
    ),
    but(
        &["sandbox_fusion.memory_limit_mb"],
        "reward.verifier",
        "as { code = { memory_mib = 1024 } }: programs run on this machine, in sandboxes",
    ),
    but(
        &["sandbox_fusion", "sandbox_fusion.url", "sandbox_fusion._target_"],
        "reward.verifier",
        "as \"code\", which runs programs on this machine in sandboxes and asks no service: docs/guides/data-and-rewards.md",
    ),
    but(
        &["reward_fn_key"],
        "reward.verifier",
        "as a table with the key `by_data_source`, for the column data_source",
    ),
    same(&["mask_truncated_completions"], "reward.mask_truncated"),
    same(&["overlong_buffer.len", "overlong_buffer_cfg.len"], "reward.overlong.buffer"),
    same(&["overlong_buffer.penalty_factor", "overlong_buffer_cfg.penalty_factor"], "reward.overlong.factor"),
    but(
        &["overlong_buffer.enable", "overlong_buffer_cfg.enable"],
        "reward.overlong.buffer",
        "which switches it off with 0",
    ),
    // The optimizer.
    same(&["lr"], "optimizer.learning_rate"),
    same(&["lr_scheduler_type", "warmup_style"], "optimizer.schedule"),
    but(
        &["lr_scheduler_kwargs"],
        "optimizer.final_fraction",
        "which is where the schedules cosine and linear end",
    ),
    but(&["lr_warmup_steps"], "optimizer.warmup_steps", "which counts the same steps as run.steps"),
    but(
        &["warmup_ratio", "lr_warmup_steps_ratio"],
        "optimizer.warmup_steps",
        "which counts steps, not a fraction of them",
    ),
    same(&["min_lr_ratio"], "optimizer.final_fraction"),
    same(&["max_grad_norm", "grad_clip", "clip_grad"], "optimizer.clip_norm"),
    same(&["adam_beta1"], "optimizer.beta1"),
    but(&["betas"], "optimizer.beta1", "and optimizer.beta2"),
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
    but(&["save_strategy"], "checkpoint.every", "where 0 is at the end only"),
    same(&["save_total_limit", "max_actor_ckpt_to_keep"], "checkpoint.keep"),
    same(&["test_freq", "eval_steps"], "eval.every"),
    but(&["eval_strategy", "do_eval"], "eval.every", ZERO_IS_NEVER),
    same(&["val_kwargs.n", "num_generations_eval"], "eval.samples"),
    same(&["val_kwargs.temperature"], "eval.temperature"),
    but(&["val_kwargs.do_sample"], "eval.temperature", "where 0 takes the most likely token"),
    same(&["val_kwargs.top_p"], "eval.top_p"),
    but(&["val_kwargs.top_k"], "eval.top_k", ZERO_KEEPS_ALL),
    same(&["val_max_samples"], "eval.problems"),
];

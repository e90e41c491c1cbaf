//! What TRL, transformers and verl can set and recipes cannot, and why.

use super::{Fit, fit};

/// Settings that are absent for one reason.
pub struct Absent {
    /// What they are called, as [`fit`] reads names, with spaces between.
    pub names: &'static str,
    /// Why, as it follows "absent here, because".
    pub reason: &'static str,
}

/// Why recipes have nothing like this key, if another trainer has it, and how well its name fits.
pub fn best(path: &str) -> Option<(&'static str, Fit)> {
    let fits = |absent: &Absent| absent.names.split(' ').filter_map(|name| fit(path, name)).max();
    ABSENT.iter().filter_map(|absent| Some((absent.reason, fits(absent)?))).max_by_key(|(_, fit)| *fit)
}

const fn absent(names: &'static str, reason: &'static str) -> Absent {
    Absent { names, reason }
}

pub const ABSENT: &[Absent] = &[
    // Whole tables.
    absent(
        "critic.* critic_warmup max_critic_ckpt_to_keep gamma lam cliprange_value vf_coef",
        "there is no value model: a response is one action, whose advantage comes from other responses",
    ),
    absent(
        "distillation.*",
        "there is no teacher: the policy learns from rewards, or from examples with `isentrope sft`",
    ),
    absent(
        "rollout_correction.* off_policy_mask_threshold vllm_importance_sampling_*",
        "sampled log-probs are the trainer's own, to the last bit, so there is no mismatch to correct",
    ),
    absent(
        "profiler.* global_profiler.* trace.* prometheus.* debug skip_memory_metrics",
        "timings.jsonl in the run's directory has the time of each part of a step",
    ),
    absent(
        "multi_turn.* agent.* max_tool_calling_iterations tool_config_path function_tool_path",
        "a rollout is one response to a prompt, without tools or further turns",
    ),
    absent(
        "reward_model.model reward_model.model.path reward_model.model.external_lib reward_model.model.trust_remote_code \
         reward_model.rollout.* reward_model.model_path \
         reward_model.reward_loop_source reward_model.reward_loop_module_path reward_model.reward_loop_class_name \
         enable_resource_pool reward_model_name_or_path reward_model.enable",
        "rewards come from verifiers; a program of your own can ask a reward model: docs/guides/data-and-rewards.md. PRIME's is `prime`",
    ),
    absent(
        "lora.* lora_* peft peft_* use_peft use_rslora use_dora target_modules exclude_modules optim_target_modules \
         freeze_*",
        "all weights are trained, without adapters and frozen layers",
    ),
    absent(
        "load_in_8bit load_in_4bit bnb_* use_bnb_nested_quant qat.* quantization quantization_config* \
         quantization_config_file",
        "weights are trained in float32, never quantised",
    ),
    absent(
        "mtp.* router_aux_loss_coef enable_rollout_routing_replay moe_load_balance_metrics_interval \
         expert_parallel_size",
        "models with experts or several predicted tokens are not supported",
    ),
    // Several processes, machines and devices.
    absent(
        "fsdp fsdp.* fsdp_* fsdp_config.? deepspeed deepspeed.* ds3_gather_for_generation ddp_* megatron.? \
         accelerator_config accelerator_config.* parallelism_config parallelism_config.* strategy turbo_config.* \
         veomni.? torchtitan.? nnodes n_gpus_per_node num_processes num_machines local_rank nccl_timeout ray_* \
         ray_kwargs.* ray_init.* hybrid_engine balance_batch ulysses_sequence_parallel_size \
         tensor_model_parallel_size data_parallel_size pipeline_model_parallel_size average_tokens_across_devices \
         save_on_each_node log_on_each_node log_level_replica ignore_bias_buffers transfer_queue.* \
         disaggregation.* checkpoint_engine.* v1.* use_v1",
        "processes and machines come from mpirun or srun: docs/guides/several-machines.md",
    ),
    absent(
        "fp16 fp16_full_eval tf32 dtype cast_lm_head_to_fp32 half_precision_backend",
        "numbers are kept as float32, or on a GPU as bfloat16: device.dtype; checkpoint.dtype is the format of saved weights",
    ),
    absent(
        "gradient_checkpointing gradient_checkpointing_kwargs gradient_checkpointing_kwargs.* \
         activation_checkpointing activation_checkpointing_kwargs activation_checkpointing_kwargs.* \
         enable_gradient_checkpointing enable_activation_offload activation_offloading auto_find_batch_size \
         eval_accumulation_steps param_offload use_dynamic_bsz log_prob_use_dynamic_bsz \
         val_batch_size forward_max_token_len_per_gpu entropy_from_logits_with_chunking \
         entropy_from_logits_chunk_size entropy_checkpointing tiled_mlp.* torch_empty_cache_steps \
         free_cache_engine multi_stage_wake_up",
        "the memory plan decides what is kept and what is computed again; memory.budget_gib is what it may use",
    ),
    absent(
        "torch_compile torch_compile_backend torch_compile_mode use_torch_compile use_liger use_liger_kernel \
         liger_kernel_config liger_kernel_config.* use_fused_kernels fused_kernel_options.* attn_implementation \
         use_remove_padding use_prefix_grouper use_cache pad_to_multiple_of pad_to_length padding_free \
         group_by_length length_column_name train_sampling_strategy dataloader_drop_last",
        "there is one way of computing, without padding, whose bits do not depend on how work is cut up",
    ),
    absent(
        "packing packing_strategy eval_packing",
        "examples are always packed without padding, and never cut",
    ),
    absent("full_determinism disable_dropout", "every run is exact and without dropout"),
    // The sampler.
    absent(
        "use_vllm vllm sglang vllm_* use_transformers_continuous_batching transformers_continuous_batching_config \
         transformers_continuous_batching_config.* use_transformers_paged cache_implementation rollout.name \
         rollout.mode engine_kwargs.* enforce_eager cudagraph_capture_sizes max_model_len max_num_seqs \
         enable_chunked_prefill enable_prefix_caching logprobs_mode scheduling_policy load_format layered_summon \
         disable_log_stats calculate_log_probs router_config_path skip_tokenizer_init over_sample_rate \
         custom_async_server.* max_inflight_gen_batches rollout.tensor_model_parallel_size",
        "the program samples itself, with continuous batching, over the very weights that it trains",
    ),
    absent(
        "repetition_penalty presence_penalty frequency_penalty",
        "training samples from the policy itself; `isentrope generate` has --repetition-penalty",
    ),
    absent(
        "generation_kwargs generation_kwargs.* do_sample ignore_eos",
        "training samples from the policy, and a response ends at the model's own end tokens or at rollout.stop",
    ),
    absent("gen_batch_size", "with rollout.filter, as many prompts as are missing are sampled at a time"),
    // Data and models.
    absent(
        "chat_template_path custom_chat_template tokenizer_path data.tokenizer tokenizer_name_or_path eos_token \
         pad_token hf_config_path override_config override_config.* model_init_kwargs model_init_kwargs.*",
        "the tokenizer, its template and config.json are those of model.path; data.template says whether prompts go through it",
    ),
    absent(
        "trust_remote_code external_lib custom_cls.* checkpoint_callback_class _target_ custom_sampler.* use_shm \
         remove_unused_columns label_names include_for_metrics callbacks",
        "no Python runs in the program",
    ),
    absent(
        "dataset_streaming streaming test_split_size",
        "data.files and eval.files say which files are read",
    ),
    absent(
        "dataset_text_field completion_only_loss assistant_only_loss",
        "examples have a prompt and a response, or turns, and the responses alone are learnt",
    ),
    absent(
        "truncation truncation_mode",
        "nothing is cut: prompts and examples that are too long are left out",
    ),
    absent(
        "dataset_num_proc dataset_kwargs dataset_kwargs.* dataloader_* filter_overlong_prompts_workers \
         accelerate_dataloader",
        "rows are read and encoded as they are needed, on all threads",
    ),
    absent(
        "image_key image_patch_size video_key audio_key return_multi_modal_inputs mm_processor_kwargs \
         mm_processor_kwargs.* limit_images log_multimodal",
        "models of text alone are supported",
    ),
    absent(
        "return_raw_input_ids return_raw_chat return_full_prompt",
        "a prompt is always kept beside its responses, in rollouts/",
    ),
    absent("validation_shuffle", "evaluation is of the same problems in the same order each time"),
    // The loss.
    absent(
        "sapo_* tau_pos tau_neg vespo_* dro_beta use_pf_ppo pf_ppo.* label_smoothing_factor neftune_noise_alpha \
         multi_objective_aggregation",
        "it belongs to an algorithm that objective.loss and objective.advantage do not have",
    ),
    absent(
        "sync_ref_model ref_model_mixup_alpha ref_model_sync_steps",
        "the reference is the model that training started from, throughout",
    ),
    absent(
        "use_bias_correction_kl",
        "the term of objective.reference_kl has its own gradient, not weighted by the ratio",
    ),
    absent("kl_ctrl.type horizon target_kl", "objective.reference_kl.coefficient stays as it is"),
    absent("entropy_coef_min", "the smallest weight of objective.entropy_bonus is 0"),
    absent("loss_scale_factor", "objective.aggregation divides by what it counts, and by no other number"),
    absent(
        "calculate_entropy calculate_sum_pi_squared",
        "exact entropies of all tokens are always measured: docs/reference/metrics.md",
    ),
    absent("prime_granularity", "PRIME's process rewards are those of tokens, as its \"token\""),
    absent("oversample_factor", "with rollout.filter, as many prompts as are missing are sampled at a time"),
    absent(
        "filter_truncate",
        "reward.mask_truncated takes truncated responses out of the loss, and no prompts",
    ),
    absent("filter_groups.metric", "rollout.filter goes by the scores of the verifier"),
    absent(
        "actor.shuffle",
        "the updates of a rollout take its prompts in their order; data.shuffle is about rows",
    ),
    // The optimizer.
    absent(
        "optim optim_args optimizer_impl override_optimizer_config actor.optim.optimizer optim.optimizer",
        "AdamW is the only optimizer, and optimizer has its settings",
    ),
    absent(
        "num_cycles zero_indexed_step",
        "the schedule cosine is half a cosine, and step k of w of the warm-up has k/w of the learning rate",
    ),
    // Metrics and checkpoints.
    absent(
        "report_to logger wandb swanlab mlflow trackio tensorboard project project_name trackio_* wandb_* logging_dir",
        "metrics are always written as JSON lines and TensorBoard events, which trackers read: docs/guides/train.md",
    ),
    absent(
        "logging_* log_level disable_tqdm include_num_input_tokens_seen include_tokens_per_second",
        "every step is shown and recorded, in metrics.jsonl and timings.jsonl",
    ),
    absent(
        "log_completions num_completions_to_print log_unique_prompts log_completions_hub_repo log_val_generations \
         rollout_data_dir validation_data_dir",
        "every response is kept, in rollouts/ and evaluations/ of the run's directory",
    ),
    absent(
        "eval_on_start val_before_train eval_delay val_only do_train do_predict prediction_loss_only \
         eval_do_concat_batches eval_use_gather_object batch_eval_metrics",
        "unless eval.every is 0, evaluation is before step 1, every so many steps and at the end; alone, it is `isentrope eval`",
    ),
    absent(
        "load_best_model_at_end metric_for_best_model greater_is_better",
        "the checkpoint that is best by mean accuracy is kept beside the latest: checkpoint.keep",
    ),
    absent(
        "save_only_model enable_jit_checkpoint save_safetensors save_contents load_contents async_save \
         checkpoint.strict default_hdfs_dir del_local_ckpt_after_load esi_redundant_time",
        "a checkpoint is whole or not at all, with all that is needed to go on in trainer/, which may be removed",
    ),
    absent(
        "resume_from_checkpoint resume_mode resume_from_path ignore_data_skip \
         restore_callback_states_from_checkpoint overwrite_output_dir",
        "going on is the flag --resume, and starting anew is --overwrite",
    ),
    absent(
        "push_to_hub push_to_hub_* hub_*",
        "nothing is uploaded; a checkpoint is a Hugging Face directory, which `hf upload` takes",
    ),
    absent("skip.*", "a run repeats its rollouts to the last bit, so none need be stored"),
];

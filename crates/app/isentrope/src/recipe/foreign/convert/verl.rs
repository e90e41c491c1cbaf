//! Settings of verl that decide together, or whose units differ.

use super::super::script::Setting;
use super::{Draft, FIRST, LONGER};
use anyhow::Result;

impl Draft<'_> {
    pub(super) fn verl(&mut self) -> Result<()> {
        self.put_verl_lora()?;
        let prompts = self.whole("data.train_batch_size").unwrap_or(0);
        if !self.is_unread(&["data.train_batch_size"]) {
            match (self.get("actor.ppo_mini_batch_size"), self.whole("actor.ppo_mini_batch_size")) {
                (Some(_), Some(mini)) if mini > prompts && prompts > 0 => self.remark(
                    "ppo_mini_batch_size",
                    "a rollout has fewer prompts, so that there is one update a rollout",
                ),
                (Some(value), mini) if mini != Some(prompts) => {
                    self.put("update.prompts", value, "ppo_mini_batch_size", "");
                }
                _ => {}
            }
            self.done(&["actor.ppo_mini_batch_size"]);
        }
        // The policy loss.
        let loss = self.text("loss_mode").unwrap_or_else(|| "vanilla".into());
        let (is_clip_cov, is_kl_cov) = (loss == "clip_cov", loss == "kl_cov");
        let beside = format!("loss_mode is {loss}");
        if !is_clip_cov {
            self.without_effect(&["clip_cov_ratio", "clip_cov_lb", "clip_cov_ub"], &beside);
        }
        if !is_kl_cov {
            self.without_effect(&["kl_cov_ratio", "k_percent", "ppo_kl_coef"], &beside);
        }
        // A percentage, in the paper's code.
        if let Some(percent) = self.number("k_percent") {
            self.done(&["k_percent"]);
            self.without_effect(&["kl_cov_ratio"], "k_percent is set");
            let comment = format!("k_percent = {percent}");
            self.put("objective.covariance.fraction", percent / 100.0, "k_percent", &comment);
        }
        if is_clip_cov || is_kl_cov {
            self.remark(
                &format!("loss_mode = {loss}"),
                "there tokens are picked within a GPU's micro-batch; \
                 objective.covariance.scope_responses repeats that",
            );
        }
        if loss != "vanilla" {
            self.without_effect(&["clip_ratio_c"], &beside);
        }
        // These losses have a mean of their own.
        if matches!(&*loss, "gspo" | "sapo" | "geo_mean") {
            self.without_effect(&["loss_agg_mode"], &beside);
        }
        if self.find("clip_ratio_low").is_none() && self.find("clip_ratio_high").is_none() {
            self.without_effect(&["clip_ratio"], "clip_ratio_low and clip_ratio_high are 0.2");
        } else {
            self.without_effect(&["clip_ratio"], "clip_ratio_low and clip_ratio_high are set");
        }
        // The divergence from the reference, in the loss or in the reward.
        let is_in_loss =
            self.is_on("actor.use_kl_loss") && self.number("kl_loss_coef") != Some(0.0);
        if !is_in_loss {
            let reason = self.why_off("actor.use_kl_loss");
            self.without_effect(&["kl_loss_coef", "kl_loss_type"], &reason);
        }
        let is_in_reward = self.is_on("use_kl_in_reward") && self.number("kl_coef") != Some(0.0);
        if is_in_reward && is_in_loss {
            let reason = "here there is one term, and that of use_kl_loss is kept";
            self.remark("use_kl_in_reward = true", reason);
            self.done(&["kl_penalty"]);
        } else if is_in_reward {
            if let Some(value) = self.get("kl_coef") {
                let comment = "in the loss here, in the reward there";
                self.put("objective.reference_kl.coefficient", value, "kl_coef", comment);
            }
        } else {
            let reason = self.why_off("use_kl_in_reward");
            self.without_effect(&["kl_coef", "kl_penalty", "kl_ctrl.type"], &reason);
        }
        self.done(&["use_kl_loss", "use_kl_in_reward", "kl_coef"]);
        if self.text("norm_adv_by_std_in_grpo").as_deref() == Some("false")
            && self.text("adv_estimator").as_deref() == Some("grpo")
        {
            self.put(
                "objective.advantage",
                "dr-grpo",
                "adv_estimator",
                "norm_adv_by_std_in_grpo=False",
            );
            self.done(&["adv_estimator"]);
        }
        self.done(&["norm_adv_by_std_in_grpo"]);
        // Filters and length penalties.
        if !self.is_on("filter_groups.enable") {
            self.without_effect(
                &["filter_groups.metric", "max_num_gen_batches"],
                "filter_groups is off",
            );
        }
        for table in ["overlong_buffer", "overlong_buffer_cfg"] {
            let name = |name: &str| format!("{table}.{name}");
            if !self.is_on(&name("enable")) {
                self.without_effect(
                    &[&name("len"), &name("penalty_factor")],
                    "overlong_buffer is off",
                );
            }
            self.done(&[&name("enable"), &name("log")]);
        }
        self.put_custom_reward();
        let above = "apply_chat_template_kwargs.";
        let variables = self.table(above);
        if !variables.is_empty() {
            self.put("data.template_variables", variables, above, "");
            self.settings.retain(|one| one.unread.is_some() || !one.name.contains(above));
        }
        if !self.is_on("multi_turn.enable") {
            let of_turns = ["max_assistant_turns", "max_user_turns", "max_tool_response_length"];
            let of_turns = of_turns.map(|name| format!("multi_turn.{name}"));
            let of_turns: Vec<&str> = of_turns.iter().map(String::as_str).collect();
            self.without_effect(&of_turns, "multi_turn.enable is off");
            self.done(&["multi_turn.enable"]);
        }
        // How often, and how it is evaluated; -1 is never.
        for (name, key) in [("test_freq", "eval.every"), ("save_freq", "checkpoint.every")] {
            if let Some(every) = self.whole(name) {
                self.put(key, every.max(0), name, "");
                self.done(&[name]);
            }
        }
        if !self.is_on("val_kwargs.do_sample") {
            self.without_effect(&["val_kwargs.temperature"], "do_sample is off");
            self.put("eval.temperature", 0, "do_sample", "do_sample=False");
        }
        self.done(&["val_kwargs.do_sample"]);
        // A limit of -1 is none.
        for name in ["rollout.top_k", "val_kwargs.top_k", "train_max_samples", "val_max_samples"] {
            if self.whole(name).is_some_and(|limit| limit < 1) {
                self.done(&[name]);
            }
        }
        self.put_now("actor_rollout_ref.rollout.top_k", "rollout.top_k", "");
        self.put_now("val_kwargs.top_k", "eval.top_k", "");
        if let Some(toml::Value::Array(betas)) = self.get("actor.optim.betas")
            && let [beta1, beta2] = &betas[..]
        {
            self.put("optimizer.beta1", beta1.clone(), "betas", "");
            self.put("optimizer.beta2", beta2.clone(), "betas", "");
            self.done(&["actor.optim.betas"]);
        }
        self.put_now("data.max_prompt_length", "data.max_prompt_tokens", LONGER);
        // Steps, which verl counts in rollouts too.
        self.put_now("train_files", "data.files", "");
        self.put_now("val_files", "eval.files", FIRST);
        match self.whole("trainer.total_training_steps") {
            Some(steps) => {
                self.put("run.steps", steps, "total_training_steps", "");
                self.done(&["total_epochs"]);
            }
            None => self.put_epochs("total_epochs", prompts),
        }
        self.done(&["total_training_steps"]);
        match self.number("actor.optim.lr_warmup_steps").filter(|steps| *steps > 0.0) {
            Some(steps) => self.put("optimizer.warmup_steps", steps as i64, "lr_warmup_steps", ""),
            None => {
                if let Some(share) = self.number("actor.optim.lr_warmup_steps_ratio") {
                    self.put_warmup_share("lr_warmup_steps_ratio", share, f64::floor);
                }
            }
        }
        self.done(&["actor.optim.lr_warmup_steps", "actor.optim.lr_warmup_steps_ratio"]);
        Ok(())
    }

    /// The settings below a name, which ends with a dot, as far as they are known.
    fn table(&self, above: &str) -> toml::Table {
        let entry = |setting: &Setting| {
            let (_, name) = setting.name.split_once(above)?;
            Some((name.to_owned(), setting.value.clone()?))
        };
        self.settings.iter().filter_map(entry).collect()
    }

    /// Sets verl's reward function with its arguments.
    fn put_custom_reward(&mut self) {
        let Some(path) = self.text("custom_reward_function.path") else { return };
        let name = self.text("custom_reward_function.name").unwrap_or("compute_score".into());
        let mut verifier = toml::Table::new();
        verifier.insert("python".into(), format!("{path}:{name}").into());
        let arguments = self.table("custom_reward_function.reward_kwargs.");
        if !arguments.is_empty() {
            verifier.insert("arguments".into(), arguments.into());
        }
        self.put("reward.verifier", verifier, "custom_reward_function", "");
        self.settings.retain(|setting| {
            setting.unread.is_some() || !setting.name.contains("custom_reward_function.")
        });
        self.done(&["reward_manager", "reward_manager.name"]);
    }
}

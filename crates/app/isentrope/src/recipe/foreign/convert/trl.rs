//! Settings of TRL that decide together, or whose units differ.

use super::super::{script::PROCESSES, value};
use super::{Draft, FIRST, LONGER};
use anyhow::Result;
use isentrope_settings::has_key;

impl Draft<'_> {
    pub(super) fn trl(&mut self) -> Result<()> {
        self.put_trl_lora()?;
        let is_sft = has_key(self.shape, "sft");
        self.put_data(if is_sft { "sft.eval_files" } else { "eval.files" });
        if is_sft && self.is_on("packing") {
            let reason = "there a row of a batch is as many examples as max_length tokens hold: \
                          multiply sft.batch by their number; steps that epochs make fall by as \
                          much";
            self.remark("packing = true", reason);
            self.done(&["packing"]);
        }
        let batch = ["per_device_train_batch_size", "gradient_accumulation_steps"];
        let sampled = ["steps_per_generation", "generation_batch_size", "num_generations"];
        let counts = [&batch[..], &sampled[..], &PROCESSES[..]].concat();
        let is_unread = self.is_unread(&counts);
        let count = |name: &str| self.whole(name).unwrap_or(1).max(1);
        let [per_device, accumulation] = batch.map(count);
        let processes = PROCESSES.map(count).into_iter().fold(1, i64::saturating_mul);
        let all = processes.saturating_mul(accumulation);
        let group = self.whole("num_generations").unwrap_or(8).max(1);
        // Unsloth makes the batch whole groups.
        let is_cut = !is_sft
            && self.trainer == "Unsloth"
            && sampled[..2].iter().all(|name| self.find(name).is_none())
            && per_device.saturating_mul(all) % group > 0;
        let per_device = if is_cut { group } else { per_device };
        let update = per_device.saturating_mul(all);
        let factors: Vec<String> = [per_device, processes, accumulation]
            .iter()
            .filter(|factor| **factor > 1)
            .map(i64::to_string)
            .collect();
        let factors = if update == 1 { "1".to_owned() } else { factors.join(" x ") };
        if is_cut {
            let reason = "num_generations is no factor of the batch, so Unsloth takes it instead";
            self.remark(batch[0], reason);
        }
        // The first three are what a launcher starts on one machine.
        if PROCESSES[..3].iter().all(|name| self.find(name).is_none()) {
            let reason = "taken to be 1; with more GPUs, multiply the prompts by their number";
            self.remark("num_processes", reason);
        }
        for name in PROCESSES {
            if let Some(reason) = self.unread(name) {
                let reason = format!("{reason}; the batch of an update is a multiple of it");
                self.remark(name, &reason);
            }
        }
        self.settings.retain(|setting| !PROCESSES.contains(&&*setting.name));
        let (mut updates, mut per_step) = (1, update);
        if is_unread {
            per_step = 0; // not known; what is unread is named
        } else if is_sft {
            self.put("sft.batch", update, batch[0], &factors);
        } else {
            let by_steps = |steps: i64| steps.saturating_mul(update / accumulation);
            let responses = self
                .whole("generation_batch_size")
                .unwrap_or_else(|| self.whole("steps_per_generation").map_or(update, by_steps))
                .max(update); // an update takes several generations of one policy
            let whole_groups = |responses: i64| (responses / group).max(1);
            per_step = whole_groups(responses);
            let is_whole = responses == update;
            let made = if is_whole { factors.clone() } else { responses.to_string() };
            let rounded = |made: i64| if made % group == 0 { "" } else { ", as whole groups" };
            let comment = format!("{made} responses / {group}{}", rounded(responses));
            self.put("rollout.prompts", per_step, batch[0], &comment);
            if !is_whole {
                let comment = format!("{factors} responses / {group}{}", rounded(update));
                self.put("update.prompts", whole_groups(update), batch[0], &comment);
            }
            let iterations = self.whole("num_iterations").unwrap_or(1).max(1);
            updates = (responses / update).max(1).saturating_mul(iterations);
        }
        self.done(&batch);
        self.done(&sampled[..2]);
        let rollouts = |updates_made: f64| (updates_made / updates as f64).ceil() as i64;
        let comment = |made: f64| match updates {
            1 => String::new(),
            _ => format!("{made} updates, {updates} for each rollout"),
        };
        match self.number("max_steps").filter(|steps| *steps > 0.0) {
            Some(steps) => {
                self.put("run.steps", rollouts(steps), "max_steps", &comment(steps));
                self.done(&["num_train_epochs"]);
            }
            None => self.put_epochs("num_train_epochs", per_step),
        }
        self.done(&["max_steps"]);
        let warmup = self.number("warmup_steps").filter(|steps| *steps > 0.0);
        match warmup.or_else(|| self.number("warmup_ratio")) {
            Some(share) if share < 1.0 => self.put_warmup_share("warmup_ratio", share, f64::ceil),
            Some(steps) => {
                self.put(
                    "optimizer.warmup_steps",
                    rollouts(steps),
                    "warmup_steps",
                    &comment(steps),
                );
            }
            None => {}
        }
        self.done(&["warmup_steps", "warmup_ratio"]);
        for (key, strategy, every, usual) in [
            ("eval.every", "eval_strategy", "eval_steps", "logging_steps"),
            ("checkpoint.every", "save_strategy", "save_steps", ""),
        ] {
            let steps = self.number(every).or_else(|| self.number(usual)).unwrap_or(10.0);
            match self.text(strategy).as_deref() {
                Some("no") => self.put(key, 0, strategy, ""),
                None | Some("steps") if steps >= 1.0 => {
                    self.put(key, rollouts(steps), every, &comment(steps));
                }
                _ => continue,
            }
            self.done(&[strategy, every]);
        }
        self.done(&["do_eval"]);
        if let Some(kwargs) = self.get("lr_scheduler_kwargs")
            && let Some(fraction) = kwargs.get("min_lr_rate")
        {
            self.put("optimizer.final_fraction", fraction.clone(), "lr_scheduler_kwargs", "");
            self.done(&["lr_scheduler_kwargs"]);
        }
        if is_sft {
            // Its name before, and Unsloth's, whose value is the model's if no other is set.
            if self.get("max_seq_length").is_some() {
                self.without_effect(&["max_length"], "max_seq_length is set");
            }
            self.put_now("max_seq_length", "sft.max_tokens", LONGER);
            self.put_now("max_length", "sft.max_tokens", LONGER);
        } else {
            self.put_now("max_prompt_length", "data.max_prompt_tokens", LONGER);
            self.put_grpo();
        }
        Ok(())
    }

    /// Sets the data set, of which a command line gives the configuration and splits apart.
    fn put_data(&mut self, held_out: &str) {
        let splits = [("dataset_train_split", "data.files"), ("dataset_test_split", held_out)];
        if let Some(toml::Value::String(id)) = self.get("dataset_name") {
            for (split, key) in splits {
                let split = self.text(split);
                if split.is_some() || key == "data.files" {
                    let parts = [Some(id.clone()), self.text("dataset_config"), split];
                    let place = parts.into_iter().flatten().collect::<Vec<_>>().join(":");
                    self.put(key, place, "dataset_name", "");
                }
            }
            self.done(&["dataset_name", "dataset_config", splits[0].0, splits[1].0]);
        }
        self.put_now("dataset_name", "data.files", "");
        self.put_now("val_files", held_out, if held_out == "eval.files" { FIRST } else { "" });
    }

    fn put_grpo(&mut self) {
        let (low, high) = (self.get("epsilon"), self.get("epsilon_high"));
        let loss = self.text("loss_type").unwrap_or_default();
        if loss == "cispo" {
            self.put("objective.clip_low", 1, "loss_type", "cispo has no lower side");
            if let Some(high) = self.number("epsilon_high") {
                self.put("objective.clip_high", high - 1.0, "epsilon_high", "a distance from 1");
            }
        } else {
            let one = high.is_none();
            for (key, value) in [("low", low.clone()), ("high", high.or(low))] {
                let name = if key == "low" || one { "epsilon" } else { "epsilon_high" };
                if let Some(value) = value {
                    self.put(&format!("objective.clip_{key}"), value, name, "");
                }
            }
        }
        self.done(&["epsilon", "epsilon_high"]);
        // The advantage is scale_rewards' affair, whatever the loss.
        if let Some(foreign) = value(&loss, |key| key == "loss_type").filter(|v| !v.here.is_empty())
        {
            for (key, value) in foreign.here.iter().filter(|(key, _)| *key != "objective.advantage")
            {
                self.put(key, value.clone(), "loss_type", "");
            }
            if !foreign.note.is_empty() && !self.defaults.iter().any(|name| name == "loss_type") {
                self.remark(&format!("loss_type = {loss}"), &foreign.note);
            }
            self.done(&["loss_type"]);
        }
        if self.text("importance_sampling_level").as_deref() == Some("sequence") {
            self.put("objective.loss", "gspo", "importance_sampling_level", "");
            self.done(&["importance_sampling_level"]);
        } else if self.text("importance_sampling_level").as_deref() == Some("token") {
            self.done(&["importance_sampling_level"]);
        }
        if self.is_on("use_adaptive_entropy") {
            if let Some(delta) = self.get("entropy_coef_delta") {
                let comment = "moves once for each rollout here";
                self.put("objective.entropy_bonus.delta", delta, "entropy_coef_delta", comment);
            }
            self.done(&["entropy_coef_delta"]);
        } else {
            let names =
                ["entropy_target", "entropy_coef_delta", "entropy_coef_min", "entropy_coef_max"];
            self.without_effect(&names, "use_adaptive_entropy is off");
        }
        self.done(&["use_adaptive_entropy"]);
        if self.whole("top_k").is_some_and(|limit| limit < 1) {
            self.done(&["top_k"]);
        }
        self.put_now("top_k", "rollout.top_k", "");
        // Evaluation samples as training does.
        let samples = self.get("num_generations_eval").or_else(|| self.get("num_generations"));
        for (key, value) in [("samples", samples), ("temperature", self.get("temperature"))] {
            if let Some(value) = value.filter(|_| self.value("eval.every") != Some(0.into())) {
                self.put(&format!("eval.{key}"), value, key, "as in training");
            }
        }
        self.done(&["num_generations_eval"]);
        self.put_rewards();
    }

    fn put_rewards(&mut self) {
        let parts = match self.get("reward_funcs") {
            Some(toml::Value::Array(parts)) => parts,
            one => one.into_iter().collect(),
        };
        let verifier = |part: &toml::Value| {
            let name = part.as_str()?;
            if let Some(foreign) = value(name, |key| key == "reward_funcs") {
                return foreign.here.get("reward.verifier").cloned();
            }
            let place = match name.rsplit_once('.') {
                Some((module, function)) if !name.contains(':') => format!("{module}:{function}"),
                _ => name.to_owned(),
            };
            place
                .contains(':')
                .then(|| toml::Table::from_iter([("python".into(), place.into())]).into())
        };
        let Some(verifiers) = parts.iter().map(verifier).collect::<Option<Vec<toml::Value>>>()
        else {
            return;
        };
        let weights = match self.get("reward_weights") {
            Some(toml::Value::Array(weights)) => weights,
            _ => vec![1.0.into(); verifiers.len()],
        };
        match &verifiers[..] {
            [] => return,
            [only] => self.put("reward.verifier", only.clone(), "reward_funcs", ""),
            _ => {
                let part = |(verifier, weight): (toml::Value, toml::Value)| {
                    toml::Value::from(toml::Table::from_iter([
                        ("verifier".into(), verifier),
                        ("weight".into(), weight),
                    ]))
                };
                let parts: Vec<_> = verifiers.into_iter().zip(weights).map(part).collect();
                let weighted = toml::Table::from_iter([("weighted".into(), parts.into())]);
                self.put("reward.verifier", weighted, "reward_funcs", "");
            }
        }
        self.done(&["reward_funcs", "reward_weights"]);
    }
}

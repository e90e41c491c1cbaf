//! Adapters, as the table `[lora]`. A script that may train adapters whose settings cannot be read
//! is refused: its recipe would train all weights, at a learning rate for adapters.

use super::{Draft, Setting, last, short};
use anyhow::{Result, bail};

/// A trainer's names for an adapter's settings, and its defaults.
struct Names {
    rank: &'static str,
    alpha: &'static str,
    targets: &'static str,
    default_rank: i64,
    default_alpha: i64,
    /// Whether peft picks the modules by the model's family if a script names none.
    are_targets_by_family: bool,
    /// Who has these defaults.
    owner: &'static str,
}

/// `LoraConfig` of peft.
const PEFT: Names = Names {
    rank: "peft_config.r",
    alpha: "peft_config.lora_alpha",
    targets: "peft_config.target_modules",
    default_rank: 8,
    default_alpha: 8,
    are_targets_by_family: true,
    owner: "peft",
};

/// The method `get_peft_model` of Unsloth's models.
const UNSLOTH: Names = Names {
    default_rank: 16,
    default_alpha: 16,
    are_targets_by_family: false,
    owner: "Unsloth",
    ..PEFT
};

/// Flags of TRL's command line.
const TRL: Names = Names {
    rank: "lora_r",
    alpha: "lora_alpha",
    targets: "lora_target_modules",
    default_rank: 16,
    default_alpha: 32,
    are_targets_by_family: true,
    owner: "TRL",
};

/// The dropout of TRL's command line, if no flag sets it.
const TRL_DROPOUT: (&str, f64) = ("lora_dropout", 0.05);

/// verl's names for FSDP, then those for Megatron.
const VERL: [Names; 2] = [
    Names {
        rank: "actor_rollout_ref.model.lora_rank",
        alpha: "actor_rollout_ref.model.lora_alpha",
        targets: "actor_rollout_ref.model.target_modules",
        default_rank: 0,
        default_alpha: 16,
        are_targets_by_family: false,
        owner: "verl",
    },
    Names {
        rank: "actor_rollout_ref.model.lora.rank",
        alpha: "actor_rollout_ref.model.lora.alpha",
        targets: "actor_rollout_ref.model.lora.target_modules",
        default_rank: 0,
        default_alpha: 32,
        are_targets_by_family: false,
        owner: "verl",
    },
];

impl Draft<'_> {
    pub(super) fn put_trl_lora(&mut self) -> Result<()> {
        self.require_read("peft_config")?;
        self.require_read("use_peft")?;
        match (self.get("peft_config"), self.get("use_peft")) {
            (Some(toml::Value::String(_)), _) => self.put_lora(&UNSLOTH),
            (Some(toml::Value::Boolean(true)), _) => self.put_lora(&PEFT),
            (Some(_), _) => {
                let reason = "full_finetuning is on there, so all weights are trained";
                self.remark_full_training(reason);
            }
            (None, Some(toml::Value::Boolean(true))) => {
                let (name, dropout) = TRL_DROPOUT;
                if self.find(name).is_none() {
                    let (name, value) = (name.to_owned(), Some(dropout.into()));
                    self.settings.push(Setting { name, value, unread: None });
                }
                self.put_lora(&TRL);
            }
            (None, None | Some(toml::Value::Boolean(false))) => {
                self.remark_full_training("use_peft is off there, so all weights are trained");
            }
            (None, Some(value)) => {
                return self.refuse("use_peft", &format!("{value} is neither true nor false"));
            }
        }
        self.done(&["peft_config", "use_peft"]);
        Ok(())
    }

    pub(super) fn put_verl_lora(&mut self) -> Result<()> {
        for Names { rank, .. } in &VERL {
            self.is_unread(&[rank]);
            self.require_read(rank)?;
        }
        match VERL.iter().find(|names| self.whole(names.rank).is_some_and(|rank| rank > 0)) {
            Some(names) => {
                let why = format!("{} counts", short(names.rank));
                for other in VERL.iter().filter(|other| other.rank != names.rank) {
                    self.without_effect(&[other.rank, other.alpha, other.targets], &why);
                }
                self.put_lora(names);
            }
            None => {
                for path in ["model.lora_adapter_path", "model.lora.adapter_path"] {
                    let path = format!("actor_rollout_ref.{path}");
                    self.require_read(&path)?;
                    if self.get(&path).is_some() {
                        return self.refuse(&path, "the adapter's own file has them");
                    }
                }
                self.remark_full_training("the rank there is 0, so all weights are trained");
            }
        }
        Ok(())
    }

    fn put_lora(&mut self, names: &Names) {
        self.put("lora", toml::Table::new(), "", "");
        for (key, name, default) in [
            ("lora.rank", names.rank, names.default_rank),
            ("lora.alpha", names.alpha, names.default_alpha),
        ] {
            match self.get(name) {
                Some(_) => self.put_now(name, key, ""),
                None if self.unread(name).is_some() => {} // `translate` says so
                None => self.put(key, default, "", &format!("{}'s default", names.owner)),
            }
        }
        self.put_targets(names);
        // A setting that is off there needs no remark.
        self.settings.retain(|setting| {
            let is_off = match &setting.value {
                None => setting.unread.is_none(),
                // Unsloth's choice of modules is about those that it leaves out.
                Some(toml::Value::Boolean(is_on)) => {
                    let name = last(&setting.name);
                    *is_on == (name.starts_with("finetune_") && !name.contains("vision"))
                }
                Some(toml::Value::Integer(0)) => true,
                Some(toml::Value::Float(x)) => *x == 0.0,
                Some(toml::Value::String(text)) => text == "none",
                _ => false,
            };
            let is_kind = matches!(last(&setting.name), "task_type" | "lora_task_type");
            !is_of_adapters(&setting.name) || !(is_off || is_kind)
        });
    }

    fn put_targets(&mut self, names: &Names) {
        let name = names.targets;
        match self.get(name) {
            Some(toml::Value::String(text)) if text != "all-linear" => {
                if text.chars().all(|c| c.is_alphanumeric() || c == '_') {
                    self.put("lora.targets", vec![text], name, "");
                } else {
                    let reason = "a pattern of names, which is not read: here all linear layers \
                                  get an adapter unless lora.targets lists modules";
                    self.remark(&format!("{} = {text:?}", last(name)), reason);
                }
                self.done(&[name]);
            }
            Some(_) => self.put_now(name, "lora.targets", ""),
            None if names.are_targets_by_family && self.unread(name).is_none() => {
                let reason = "unset there, so peft picks modules by the model's family, of Llama \
                              and Qwen q_proj and v_proj: here all linear layers get an adapter \
                              unless lora.targets is set";
                self.remark(last(name), reason);
            }
            None => {}
        }
    }

    /// Says of all settings of adapters why there is no `[lora]`.
    fn remark_full_training(&mut self, reason: &str) {
        let settings = std::mem::take(&mut self.settings);
        let (adapters, others): (Vec<_>, _) =
            settings.into_iter().partition(|setting| is_of_adapters(&setting.name));
        self.settings = others;
        adapters.iter().for_each(|setting| self.remark(&setting.name, reason));
    }

    /// The reason why a setting could not be read.
    pub(super) fn unread(&self, name: &str) -> Option<&str> {
        self.settings[self.find(name)?].unread.as_deref()
    }

    /// Refuses a script if a setting that decides whether adapters are trained could not be read.
    fn require_read(&self, name: &str) -> Result<()> {
        self.unread(name).map_or(Ok(()), |reason| self.refuse(name, reason))
    }

    fn refuse(&self, name: &str, reason: &str) -> Result<()> {
        bail!(
            "{}: {}: {reason}; so the settings of adapters cannot be read, and a recipe without \
             them would train all weights: write them into the script as plain values, or take \
             adapters out of it and add [lora] to the recipe",
            self.root.at,
            last(name)
        )
    }
}

/// Whether a setting of a script is one of the adapters that it trains.
fn is_of_adapters(name: &str) -> bool {
    let own = last(name);
    let is_verl = || {
        let name = name.strip_prefix("actor_rollout_ref.model.").unwrap_or_default();
        name.starts_with("lora.") || matches!(name, "target_modules" | "exclude_modules")
    };
    let is_trl = own.starts_with("lora_") || matches!(own, "use_rslora" | "use_dora");
    !name.starts_with("critic.") && (name.starts_with("peft_config.") || is_trl || is_verl())
}

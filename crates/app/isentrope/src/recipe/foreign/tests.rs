use super::super::check::check;
use super::super::tree;
use super::*;
use isentrope_settings::Field;

/// Names of other trainers' settings, one a line.
const TRL_GRPO: &str = include_str!("names/trl_grpo.txt");
const TRL_SFT: &str = include_str!("names/trl_sft.txt");
const TRL_SCRIPTS: &str = include_str!("names/trl_scripts.txt");
const VERL_PPO: &str = include_str!("names/verl_ppo.txt");

fn rl() -> &'static Shape {
    static SHAPE: LazyLock<Shape> = LazyLock::new(Shape::of::<rl::Recipe>);
    &SHAPE
}

fn sft() -> &'static Shape {
    static SHAPE: LazyLock<Shape> = LazyLock::new(Shape::of::<sft::Recipe>);
    &SHAPE
}

/// The answer to a recipe of nothing but this.
fn told(text: &str, shape: &Shape) -> String {
    let recipe = tree::parse(text, &|_| "x".to_owned()).unwrap();
    check(&recipe, shape).join("\n")
}

fn hint_of(path: &str, shape: &Shape) -> Option<String> {
    let node = tree::parse("", &|_| String::new()).unwrap();
    hint(path, &node, shape)
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.starts_with('#'))
}

/// The last names of all keys of a shape.
fn leaves(shape: &Shape, found: &mut Vec<String>) {
    let Shape::Table(fields) = shape else { return };
    for Field { name, shape, .. } in fields {
        found.push(name.clone());
        leaves(shape, found);
    }
}

/// A key whose words need quotes in TOML, quoted.
fn as_toml(path: &str) -> String {
    path.split('.').map(|key| format!("{key:?}")).collect::<Vec<_>>().join(".")
}

#[test]
fn every_setting_of_trl_and_verl_is_answered() {
    for (list, shape) in [
        (TRL_GRPO, rl()),
        (TRL_SFT, sft()),
        (TRL_SCRIPTS, rl()),
        (TRL_SCRIPTS, sft()),
        (VERL_PPO, rl()),
        (VERL_PPO, sft()),
    ] {
        let unanswered: Vec<&str> = names(list)
            .filter(|name| {
                let told = told(&format!("{} = 1", as_toml(name)), shape);
                let last = name.rsplit('.').next().unwrap();
                let of_the_name = format!("{last}`?");
                !(has_key(shape, name)
                    || told.contains("here it is `")
                    || told.contains("; absent here, because ")
                    || told.contains("which recipes for `isentrope")
                    || told.contains("did you mean `") && told.ends_with(&of_the_name))
            })
            .collect();
        assert!(unanswered.is_empty(), "{}", unanswered.join("\n"));
    }
}

#[test]
fn every_key_named_is_a_recipes() {
    for ForeignKey { names, key, .. } in &NAMES.keys {
        assert!(has_key(rl(), key) || has_key(sft(), key), "{key}");
        for name in &names.0 {
            assert!(!has_key(rl(), name) && !has_key(sft(), name), "{name} is a key of recipes");
        }
    }
}

/// A key that the name of an entry is meant for.
fn example(name: &str) -> String {
    name.replace(['*', '?'], "x")
}

#[test]
fn every_entry_is_what_its_own_name_gets() {
    for ForeignKey { names, key, but } in &NAMES.keys {
        let shape = if has_key(rl(), key) { rl() } else { sft() };
        for name in &names.0 {
            let hint = hint_of(&example(name), shape).unwrap();
            assert!(hint.starts_with(&format!("; here it is `{key}`")), "{name}: {hint}");
            assert!(hint.ends_with(but), "{name}: {hint}");
        }
    }
    for Absent { names, reason } in &NAMES.absent {
        for name in &names.0 {
            let hint = hint_of(&example(name), rl()).unwrap();
            assert_eq!(hint, format!("; absent here, because {reason}"), "{name}");
        }
    }
}

#[test]
fn the_longest_name_is_meant() {
    for (path, hint) in [
        ("actor_rollout_ref.rollout.val_kwargs.temperature", "`eval.temperature`"),
        ("actor_rollout_ref.rollout.val_kwargs.do_sample", "`eval.temperature`, where 0 takes"),
        ("actor_rollout_ref.rollout.val_kwargs.top_k", "`eval.top_k`"),
        ("actor_rollout_ref.rollout.temperature", "`rollout.temperature`"),
        ("vllm_gpu_memory_utilization", "`memory.budget_gib`"),
        ("vllm_tensor_parallel_size", "the program samples itself"),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size", "the program samples itself"),
        ("vllm_importance_sampling_cap", "there is no mismatch"),
        ("actor_rollout_ref.actor.fsdp_config.optimizer_offload", "`memory.offload_moments`"),
        ("actor_rollout_ref.actor.fsdp_config.param_offload", "the memory plan decides"),
        ("actor_rollout_ref.actor.fsdp_config.entropy_checkpointing", "the memory plan decides"),
        ("actor_rollout_ref.actor.fsdp_config.model_dtype", "here it is `device.dtype`"),
        ("actor_rollout_ref.actor.fsdp_config.mixed_precision", "here it is `device.dtype`"),
        (
            "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
            "here it is `device.dtype`",
        ),
        ("actor_rollout_ref.actor.fsdp_config.dtype", "numbers are kept as float32"),
        ("actor_rollout_ref.actor.fsdp_config.qat.mode", "never quantised"),
        ("actor_rollout_ref.actor.fsdp_config.fsdp_size", "mpirun"),
        ("actor_rollout_ref.actor.megatron.param_offload", "the memory plan decides"),
        ("actor_rollout_ref.actor.megatron.optimizer_offload", "`memory.offload_moments`"),
        ("actor_rollout_ref.actor.megatron.dtype", "numbers are kept as float32"),
        ("actor_rollout_ref.actor.megatron.tensor_model_parallel_size", "mpirun"),
        ("actor_rollout_ref.actor.megatron.seed", "mpirun"),
        ("actor_rollout_ref.actor.veomni.param_offload", "the memory plan decides"),
        ("actor_rollout_ref.actor.torchtitan.mixed_precision", "here it is `device.dtype`"),
        ("critic.optim.lr", "there is no value model"),
        ("critic.ppo_mini_batch_size", "there is no value model"),
        ("critic.megatron.dtype", "there is no value model"),
        ("gradient_accumulation_steps", "`update.prompts`, of which it is a factor"),
    ] {
        let told = hint_of(path, rl()).unwrap();
        assert!(told.contains(hint), "{path}: {told}");
    }
    assert!(
        hint_of("gradient_accumulation_steps", sft()).unwrap().contains("`sft.batch`, of which")
    );
}

#[test]
fn what_is_absent_is_no_key_of_recipes() {
    let mut ours = Vec::new();
    leaves(rl(), &mut ours);
    leaves(sft(), &mut ours);
    // Another thing of the same name.
    let others = ["dtype"];
    for name in ours.iter().filter(|name| !others.contains(&name.as_str())) {
        assert_eq!(
            absent(name),
            None,
            "`{name}` is a key of recipes now: take it out of the absent ones"
        );
    }
}

#[test]
fn what_stands_for_a_value_is_a_recipe() {
    for entry in &NAMES.values {
        let recipe: String =
            entry.here.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        assert_eq!(told(&format!("model.path = \"m\"\n{recipe}"), rl()), "");
        assert!(!entry.here.is_empty() || !entry.note.is_empty(), "{:?}", entry.values.0);
        for key in &entry.at.0 {
            let is_own = has_key(rl(), key);
            for value in &entry.values.0 {
                let path = if is_own { key.clone() } else { format!("trainer.{key}") };
                let told = told(&format!("{path} = {value:?}"), rl());
                // A value that is ours too, or that an earlier entry answers, is answered all the
                // same.
                assert!(!told.contains("did you mean"), "{told}");
                assert!(is_own || told.contains("here"), "{told}");
            }
        }
    }
}

#[test]
fn values_of_other_trainers_are_translated() {
    for (text, message) in [
        (
            "objective.loss = \"grpo\"",
            "here it is `objective.loss = \"clip\"`, `objective.advantage = \"grpo\"` and `objective.aggregation = \
             \"seq-mean-token-mean\"`",
        ),
        (
            "objective.loss_type = \"dapo\"",
            "unknown key `objective.loss_type`; here it is `objective.loss = \"clip\"`, `objective.advantage = \"grpo\"` and \
             `objective.aggregation = \"token-mean\"`; DAPO's paper also has",
        ),
        (
            "loss_type = \"dr_grpo\"",
            "`objective.advantage = \"dr-grpo\"` and `objective.aggregation = \"seq-mean-token-sum\"`",
        ),
        (
            "objective.loss = \"bnpo\"",
            "and `objective.aggregation = \"token-mean\"`; means are over the whole minibatch",
        ),
        (
            "importance_sampling_level = \"sequence\"",
            "here it is `objective.loss = \"gspo\"` and `objective.aggregation = \"seq-mean-token-mean\"`",
        ),
        ("importance_sampling_level = \"token\"", "here it is `objective.loss = \"clip\"`"),
        (
            "importance_sampling_level = \"word\"",
            "here it is `objective.loss`, where \"gspo\" has one ratio per response",
        ),
        ("algorithm.adv_estimator = \"gae\"", "absent here, because there is no value model"),
        (
            "algorithm.adv_estimator = \"reinforce_plus_plus\"",
            "here it is `objective.advantage = \"reinforce++\"`",
        ),
        (
            "objective.advantage = \"reinforce_plus_plus_baseline\"",
            "here it is `objective.advantage = \"reinforce++-baseline\"`",
        ),
        (
            "objective.aggregation = \"seq-mean-token-sum-norm\"",
            "here it is `objective.aggregation = \"seq-mean-token-sum\"`; ",
        ),
        (
            "actor_rollout_ref.actor.policy_loss.loss_mode = \"clip_cov\"",
            "and `objective.covariance.method = \"clip-cov\"`",
        ),
        ("scale_rewards = false", "here it is `objective.advantage = \"dr-grpo\"`"),
        ("norm_adv_by_std_in_grpo = true", "here it is `objective.advantage = \"grpo\"`"),
        ("loss_type = \"sapo\"", "absent here, because the losses are"),
        ("optimizer.schedule = \"cosine_with_restarts\"", "absent here, because the schedules are"),
        ("reward.verifier = \"math_verify\"", "here it is `reward.verifier = \"math\"`"),
        (
            "reward.verifier = \"sandbox_fusion\"",
            "here it is `reward.verifier = \"code\"`; programs run on this machine",
        ),
        (
            "reward_manager = \"prime_code\"",
            "here it is `reward.verifier = \"code\"`; programs run on this machine",
        ),
        (
            "reward_funcs = [\"my.reward\"]",
            "or { python = \"reward.py:my_reward\" } with your function as it is",
        ),
        (
            "reward_funcs = \"think_format_reward\"",
            "here it is `reward.verifier = { python = \"trl.rewards:think_format_reward\" }`; it needs TRL",
        ),
        (
            "[custom_reward_function]\npath = \"a/r.py\"\nname = \"f\"",
            "here it is `reward.verifier = { python = \"a/r.py:f\" }`, which takes the function as it is",
        ),
        (
            "reward.custom_reward_function.path = \"r.py\"",
            "`reward.verifier = { python = \"r.py:compute_score\" }`",
        ),
        (
            "reward.custom_reward_function.name = \"f\"",
            "as { python = \"reward.py:compute_score\" } with your function",
        ),
        (
            "algorithm.reward_dpo_coef = 5",
            "`algorithm.reward_dpo_coef`; here it is `prime.process_weight`",
        ),
        (
            "reward_model.model.beta_train = 0.05",
            "`reward_model.model.beta_train`; here it is `prime.beta`",
        ),
        ("reward_model.model.optim.lr = 1e-6", "here it is `prime.optimizer.learning_rate`"),
        (
            "data.accuracy_lower_bound = 0.2",
            "here it is `rollout.accuracy_band`, which has both bounds",
        ),
        (
            "reward_model.prime_granularity = \"token\"",
            "absent here, because PRIME's process rewards are",
        ),
        ("bf16 = true", "`bf16`; here it is `device.dtype`, which is"),
        ("use_cpu = true", "here it is `device.kind`, where \"cpu\""),
        ("device.kind = \"gpu\"", "here it is `device.kind = \"cuda\"`"),
        ("device.dtype = \"bfloat16\"", "here it is `device.dtype = \"bf16\"`"),
        ("checkpoint.dtype = \"bf16\"", "here it is `checkpoint.dtype = \"bfloat16\"`"),
    ] {
        let told = told(text, rl());
        assert!(told.contains(message), "{text}: {told}");
    }
}

#[test]
fn what_is_absent_says_why() {
    for (text, reason) in [
        ("lora_r = 16", "`lora_r`; absent here, because all weights are trained, without adapters"),
        ("[peft_config]\nr = 8", "`peft_config`; absent here, because all weights are trained"),
        (
            "report_to = [\"wandb\"]",
            "TensorBoard events, which trackers read: docs/guides/train.md",
        ),
        ("use_vllm = true", "the program samples itself"),
        ("fp16 = true", "or on a GPU as bfloat16: device.dtype"),
        (
            "trainer.nnodes = 2",
            "processes and machines come from mpirun or srun: docs/guides/several-machines.md",
        ),
        ("algorithm.gamma = 1.0", "there is no value model"),
        ("[critic]\noptim.lr = 1e-5", "`critic`; absent here, because there is no value model"),
        (
            "algorithm.rollout_correction.loss_type = \"ppo_clip\"",
            "absent here, because sampled log-probs are",
        ),
    ] {
        let told = told(text, rl());
        assert!(told.contains(reason), "{text}: {told}");
    }
}

#[test]
fn a_misspelt_key_of_the_table_comes_before_the_same_name_elsewhere() {
    for (text, hint) in [
        ("rollout.prompt = 3", "`rollout.prompt`; did you mean `prompts`?"),
        ("learing_rate = 1", "`learing_rate`; did you mean `optimizer.learning_rate`?"),
        ("[modle]\npath = \"m\"", "`modle`; did you mean `model`?"),
        (
            "[trainer]\nlearning_rate = 1",
            "`trainer.learning_rate`; did you mean `optimizer.learning_rate`?",
        ),
        (
            "objective.grpo = true",
            "unknown key `objective.grpo`; `objective` has advantage, aggregation, clip_high, clip_low, covariance, dual_clip, \
             entropy_bonus, entropy_mask_fraction, loss, reference_kl",
        ),
    ] {
        let told = told(text, rl());
        assert!(told.lines().next().unwrap().ends_with(hint), "{text}: {told}");
    }
}

#[test]
fn removed_keys_are_no_keys_of_recipes() {
    for (key, _) in REMOVED {
        assert!(!has_key(rl(), key) && !has_key(sft(), key), "{key}");
        assert!(hint_of(key, rl()).is_some());
    }
}

#[test]
fn of_two_keys_the_commands_own_is_named() {
    assert_eq!(hint_of("data.train_batch_size", rl()).unwrap(), "; here it is `rollout.prompts`");
    assert_eq!(hint_of("data.train_batch_size", sft()).unwrap(), "; here it is `sft.batch`");
    assert_eq!(
        hint_of("max_seq_length", rl()).unwrap(),
        "; here it is `sft.max_tokens` in recipes for `isentrope sft`, which leaves longer examples out and never \
         cuts them"
    );
    assert_eq!(hint_of("rollout", sft()).unwrap(), ", which recipes for `isentrope train` have");
    assert_eq!(hint_of("xlr", rl()), None);
}

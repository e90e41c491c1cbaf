use super::*;
use std::fs;

const SCRIPTS: [(&str, &str, &str); 3] = [
    ("clip_cov.sh", include_str!("scripts/clip_cov.sh"), include_str!("scripts/clip_cov.toml")),
    ("minimal.py", include_str!("scripts/minimal.py"), include_str!("scripts/minimal.toml")),
    ("full.py", include_str!("scripts/full.py"), include_str!("scripts/full.toml")),
];

fn converted(script: &str, name: &str, own: &[(&str, &str)]) -> String {
    let own: Vec<_> = own.iter().map(|(key, toml)| (*key, (*toml).to_owned())).collect();
    convert(script, Path::new(name), &own).unwrap().recipe
}

#[test]
fn scripts_become_the_recipes_that_a_person_wrote() {
    for (name, script, expected) in SCRIPTS {
        let recipe = converted(script, name, &[]);
        let read = tree::parse(&recipe, &|_| name.to_owned()).unwrap();
        settings::<rl::Recipe>(read, name).unwrap();
        assert_eq!(recipe, expected, "{name}:\n{recipe}");
    }
}

#[test]
fn units_and_what_decides_together_are_converted() {
    let cases: toml::Table = toml::from_str(include_str!("cases.toml")).unwrap();
    let rows: Vec<[String; 3]> = cases["cases"].clone().try_into().unwrap();
    for [begin, rest, parts] in rows {
        let script = format!("{}{rest}", cases[&begin].as_str().unwrap());
        let recipe = converted(&script, "run.sh", &[]);
        tree::parse(&recipe, &|_| "run.sh".to_owned()).unwrap();
        for part in parts.split('|') {
            assert!(recipe.contains(part), "{script}: {part}\n{recipe}");
        }
    }
}

#[test]
fn adapters_become_a_table_or_the_script_is_refused() {
    let cases: toml::Table = toml::from_str(include_str!("cases.toml")).unwrap();
    let rows = |name: &str| -> Vec<[String; 3]> { cases[name].clone().try_into().unwrap() };
    let script = |begin: &str, rest: &str| match cases[begin].as_str().unwrap() {
        python if python.contains("Trainer") => (format!("{rest}\n{python}"), "a.py"),
        command => (format!("{command}{rest}"), "run.sh"),
    };
    for [begin, rest, parts] in rows("adapters") {
        let (script, name) = script(&begin, &rest);
        let recipe = converted(&script, name, &[]);
        let has_table = parts.contains("[lora]");
        assert_eq!(recipe.contains("\n[lora]\n"), has_table, "{script}\n{recipe}");
        for part in parts.split('|') {
            assert!(recipe.contains(part), "{script}: {part}\n{recipe}");
        }
        tree::parse(&recipe, &|_| name.to_owned()).unwrap();
    }
    for [begin, rest, part] in rows("refused") {
        let (script, name) = script(&begin, &rest);
        let error = convert(&script, Path::new(name), &[]).err().unwrap().to_string();
        assert!(error.contains(&part), "{script}: {error}");
        assert!(error.contains("would train all weights"), "{script}: {error}");
    }
}

/// A script's recipe has the settings of the recipe that the guide shows beside it.
#[test]
fn scripts_of_the_guide_become_its_recipes() {
    fn same<R: DeserializeOwned + JsonSchema + PartialEq + std::fmt::Debug>(got: &str, want: &str) {
        let parse = |text: &str| tree::parse(text, &|_| "guide".to_owned()).unwrap();
        let (mut both, shape) = (parse(got), Shape::of::<R>());
        let got: R = settings(both.clone(), "guide").unwrap();
        layers::lay(&mut both, &parse(want), Some(&shape));
        assert_eq!(got, settings(both, "guide").unwrap());
    }
    let page = include_str!("../../../../../../../docs/guides/coming-from-trl-or-verl.md");
    let blocks: Vec<&str> = page.split("```").skip(1).step_by(2).collect();
    for call in ["main_ppo", "reward_funcs=accuracy_reward", "SFTTrainer("] {
        let place = blocks.iter().position(|block| block.contains(call)).unwrap();
        let (language, script) = blocks[place].split_once('\n').unwrap();
        let name = if language == "python" { "a.py" } else { "a.sh" };
        let Converted { recipe, is_sft } = convert(script, Path::new(name), &[]).unwrap();
        let want = blocks[place + 1].strip_prefix("toml").unwrap();
        if is_sft { same::<sft::Recipe>(&recipe, want) } else { same::<rl::Recipe>(&recipe, want) }
    }
}

#[test]
fn flags_win_and_rows_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("d.jsonl");
    fs::write(&data, "{\"prompt\": \"a\", \"answer\": \"b\"}\n".repeat(50)).unwrap();
    let own = [
        ("model.path", "\"mine\""),
        ("data.files", &*format!("{data:?}")),
        ("reward.verifier", "\"code\""),
    ];
    // 50 rows, of which TRL leaves out the last that fill no rollout of 8 prompts: 3 x 6 steps.
    let script = "a = GRPOConfig(gradient_accumulation_steps=8)\n\
                  GRPOTrainer('theirs', args=a, train_dataset=f(), reward_funcs=[g(x)])";
    let recipe = converted(script, "a.py", &own);
    for part in
        ["path = \"mine\"", "d.jsonl\"]", "\"code\"", "steps = 18  # 3 passes over 50 rows, 8"]
    {
        assert!(recipe.contains(part), "{part}\n{recipe}");
    }
    let error = convert(script, Path::new("a.py"), &[]).err().unwrap().to_string();
    for part in
        ["a.py: data.files cannot be read from it; give --data", "dataset_name: line 2: it is not"]
    {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_yaml_file_beside_the_script_has_settings() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = "# Model\nmodel_name_or_path: m/m  # or another\ndataset_name: a/b\nmax_steps: 9\n\
                learning_rate: 2.0e-05\nsystem_prompt: \"Say # \\\"so\\\".\\n\"\nreward_funcs:\n- \
                accuracy\n- lib.r\nreward_weights:\n  - 1.0\n  - 0.5\nlr_scheduler_type: cosine\n\
                lr_scheduler_kwargs:\n  min_lr_rate: 0.1\nseed: |\n  7\n";
    fs::write(dir.path().join("c.yaml"), yaml).unwrap();
    let script = dir.path().join("run.sh").display().to_string();
    let recipe = converted("trl grpo --max_steps 7 --config c.yaml", &script, &[]);
    for part in [
        "path = \"m/m\"",
        "steps = 7\n",
        "learning_rate = 2e-5",
        "final_fraction = 0.1",
        "verifier = \"math\"\nweight = 1.0",
        "python = \"lib:r\"",
        "# seed: line 16 of c.yaml is not read",
    ] {
        assert!(recipe.contains(part), "{part}\n{recipe}");
    }
    let read: toml::Table = recipe.parse().unwrap();
    assert_eq!(read["data"]["system"].as_str(), Some("Say # \"so\".\n"));
}

const VERL: &str = "python -m verl.trainer.main_ppo actor_rollout_ref.model.path=m \
                    data.train_files=d.jsonl algorithm.adv_estimator=grpo ";

#[test]
fn a_reward_flag_wins_over_verls_reward_manager() {
    let own = [("reward.verifier", "{ python = \"r.py:f\" }")];
    for manager in [
        "reward_manager.name=dapo",
        "reward.reward_manager.name=dapo",
        "reward_model.reward_manager=naive",
    ] {
        let recipe = converted(&format!("{VERL}{manager}"), "run.sh", &own);
        assert!(recipe.contains("python = \"r.py:f\""), "{manager}: {recipe}");
        assert!(!recipe.contains("verifier = \"math\""), "{manager}: {recipe}");
    }
}

#[test]
fn a_policy_loss_of_verl_leaves_the_advantage() {
    let script = format!("{VERL}actor_rollout_ref.actor.policy_loss.loss_mode=gpg");
    let recipe = converted(&script, "run.sh", &[]);
    assert!(recipe.contains("loss = \"policy-gradient\""), "{recipe}");
    assert!(!recipe.contains("dr-grpo"), "{recipe}");
}

#[test]
fn passes_count_the_rows_up_to_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("d.jsonl");
    fs::write(&data, "{\"prompt\": \"a\", \"answer\": \"b\"}\n".repeat(40)).unwrap();
    let own = [("data.files", &*format!("{data:?}"))];
    let script = format!(
        "{VERL}data.train_max_samples=8 data.train_batch_size=4 trainer.total_epochs=3 \
         actor_rollout_ref.actor.ppo_mini_batch_size=4"
    );
    let recipe = converted(&script, "run.sh", &own);
    for part in ["limit = 8", "steps = 6  # 3 passes over 8 rows, 4 a step"] {
        assert!(recipe.contains(part), "{part}\n{recipe}");
    }
}

#[test]
fn defaults_have_names_that_are_known() {
    for (trainer, defaults) in &NAMES.defaults {
        let own = match trainer.as_str() {
            "verl" => include_str!("../names/verl_ppo.txt"),
            "sft" | "unsloth_sft" => include_str!("../names/trl_sft.txt"),
            _ => include_str!("../names/trl_grpo.txt"),
        };
        let shared = if trainer == "verl" { "" } else { include_str!("../names/trl.txt") };
        for name in defaults.keys() {
            // An old name, which Unsloth has still.
            let known = own.lines().chain(shared.lines()).chain(["warmup_ratio"]);
            assert!(known.into_iter().any(|line| line == name), "{name}");
        }
    }
}

#[test]
fn scripts_that_end_anywhere_do_not_panic() {
    for (name, script, _) in SCRIPTS {
        for end in (0..script.len()).step_by(67) {
            let _ = convert(&script[..end], Path::new(name), &[]);
        }
    }
}

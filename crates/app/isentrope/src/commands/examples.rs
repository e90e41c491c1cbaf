//! `isentrope examples`: the recipes and what they need, for those who have the program and not its
//! repository.

use crate::messages::counted;
use crate::standard_output::print;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use isentrope_files::{AtomicFile, check_writable, make_directory, parent};
use isentrope_train::run::word;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Write the recipes, the base models of the built-in tasks, and examples: own problems, an own
/// reward, jobs of clusters
///
/// They are what the repository has in recipes/, experiments/, assets/ and examples/, and paths in
/// them are relative to the directory that they are written to. Files that exist already stay
/// unchanged.
#[derive(Args)]
pub struct Examples {
    /// The directory to write to; it is made if need be
    #[arg(default_value = ".")]
    directory: PathBuf,
}

impl Examples {
    pub fn run(&self) -> Result<()> {
        check_writable(&self.directory).map_err(|error| {
            anyhow!("DIRECTORY is {}, and {error}; name another", self.directory.display())
        })?;
        let mut written = 0;
        let mut said = String::new();
        for (name, contents) in FILES {
            let path = self.directory.join(name);
            match fs::read(&path) {
                Ok(found) if found == *contents => {}
                Ok(_) => {
                    said += &format!(
                        "{} is another file already, and stays as it is\n",
                        path.display()
                    );
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    make_directory(parent(&path))?;
                    let mut file = AtomicFile::create(&path)?;
                    file.write(contents)?;
                    file.commit()?;
                    written += 1;
                }
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            }
        }
        let place = self.directory.display();
        said += &format!("{} written to {place}", counted(written, "file"));
        said += &match FILES.len() - written {
            0 => "\n".to_owned(),
            1 => "; 1 was there already\n".into(),
            others => format!("; {others} were there already\n"),
        };
        let enter = if self.directory == Path::new(".") {
            String::new()
        } else {
            format!("cd {} && ", word(&place.to_string()))
        };
        print(&format!("{said}\nwhat next:\n  {enter}isentrope train recipes/quickstart.toml\n"))
    }
}

/// Files of the repository by their paths there.
macro_rules! files {
    ($($path:literal)*) => {
        &[$(($path, include_bytes!(concat!("../../../../../", $path)))),*]
    };
}

const FILES: &[(&str, &[u8])] = files![
    "assets/countdown-base/config.json"
    "assets/countdown-base/generation_config.json"
    "assets/countdown-base/model.safetensors"
    "assets/countdown-base/tokenizer.json"
    "assets/countdown-base/tokenizer_config.json"
    "assets/guess-base/chat_template.jinja"
    "assets/guess-base/config.json"
    "assets/guess-base/generation_config.json"
    "assets/guess-base/model.safetensors"
    "assets/guess-base/tokenizer.json"
    "assets/guess-base/tokenizer_config.json"
    "assets/programs-base/config.json"
    "assets/programs-base/generation_config.json"
    "assets/programs-base/model.safetensors"
    "assets/programs-base/tokenizer.json"
    "assets/programs-base/tokenizer.py"
    "assets/programs-base/tokenizer_config.json"
    "examples/arithmetic/easy.jsonl"
    "examples/arithmetic/hard.jsonl"
    "examples/arithmetic/make.py"
    "examples/arithmetic/test.jsonl"
    "examples/arithmetic/train.jsonl"
    "examples/clusters/Dockerfile"
    "examples/clusters/README.md"
    "examples/clusters/kubeflow.yaml"
    "examples/clusters/kubernetes.yaml"
    "examples/clusters/ray_launch.py"
    "examples/clusters/slurm.sbatch"
    "examples/guess/base.toml"
    "examples/guess/environment.py"
    "examples/guess/make.py"
    "examples/guess/test.jsonl"
    "examples/guess/train.jsonl"
    "examples/own-reward/functions.py"
    "examples/own-reward/held_out.jsonl"
    "examples/own-reward/problems.jsonl"
    "examples/own-reward/problems.py"
    "examples/own-reward/recipe.toml"
    "examples/own-reward/reward.py"
    "examples/tinker/countdown.py"
    "examples/verifiers/environment.py"
    "examples/word-problems/make.py"
    "examples/word-problems/test.jsonl"
    "examples/word-problems/train.jsonl"
    "examples/word-problems/worked.jsonl"
    "experiments/countdown-autopilot.toml"
    "experiments/countdown-entropy-methods.toml"
    "experiments/countdown-equal-entropy-0.15.toml"
    "experiments/countdown-equal-entropy-trials.toml"
    "experiments/countdown-equal-entropy.toml"
    "experiments/countdown-filter.toml"
    "experiments/countdown-held.toml"
    "experiments/countdown-horizon.toml"
    "experiments/countdown-kl-cov-dose-test.toml"
    "experiments/countdown-kl-cov-dose.toml"
    "experiments/countdown-kl-cov-tokens.toml"
    "experiments/countdown-kl-cov-updates.toml"
    "experiments/countdown-law.toml"
    "experiments/countdown-lora-ranks.toml"
    "experiments/countdown-lora.toml"
    "experiments/countdown-methods.toml"
    "experiments/countdown-prime.toml"
    "experiments/countdown-published-code.toml"
    "experiments/countdown-steps.toml"
    "experiments/countdown-strength.toml"
    "experiments/countdown-temperature.toml"
    "experiments/figures.py"
    "experiments/guess-methods.toml"
    "experiments/prime_positions.py"
    "experiments/qwen2.5-coder-1.5b.toml"
    "experiments/runs.py"
    "experiments/smollm2-held.toml"
    "experiments/smollm2-hole.toml"
    "experiments/smollm2-methods.toml"
    "experiments/smollm2-rivals.toml"
    "experiments/smollm2-word-problems.toml"
    "recipes/countdown-autopilot.toml"
    "recipes/countdown-base.toml"
    "recipes/countdown-clip-cov.toml"
    "recipes/countdown-clip-higher.toml"
    "recipes/countdown-direct-base.toml"
    "recipes/countdown-direct.toml"
    "recipes/countdown-distill.toml"
    "recipes/countdown-entropy-bonus.toml"
    "recipes/countdown-grpo.toml"
    "recipes/countdown-kl-cov.toml"
    "recipes/countdown-prime.toml"
    "recipes/gemma-3-4b-kl-cov.toml"
    "recipes/guess.toml"
    "recipes/programs-base.toml"
    "recipes/programs.toml"
    "recipes/quickstart.toml"
    "recipes/qwen2.5-0.5b-own-data.toml"
    "recipes/qwen2.5-32b-clip-cov.toml"
    "recipes/qwen2.5-32b-clip-higher.toml"
    "recipes/qwen2.5-32b-grpo.toml"
    "recipes/qwen2.5-32b-kl-cov.toml"
    "recipes/qwen2.5-32b-lora-kl-cov.toml"
    "recipes/qwen2.5-7b-clip-cov.toml"
    "recipes/qwen2.5-7b-clip-higher.toml"
    "recipes/qwen2.5-7b-grpo.toml"
    "recipes/qwen2.5-7b-kl-cov.toml"
    "recipes/qwen2.5-7b-lora-kl-cov.toml"
    "recipes/qwen2.5-7b-prime.toml"
    "recipes/qwen3-30b-a3b-lora-kl-cov.toml"
    "recipes/qwen3-4b-kl-cov.toml"
    "recipes/qwen3.5-4b-kl-cov.toml"
    "recipes/smollm2-135m-arithmetic.toml"
    "recipes/smollm2-135m-lora.toml"
    "recipes/smollm2-135m-self-distill.toml"
    "recipes/smollm2-135m-word-problems.toml"
    "recipes/smollm2-135m-worked.toml"
];

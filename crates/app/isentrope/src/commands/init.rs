//! `isentrope init`: a recipe for a model, data and a reward of one's own.

use super::train::RunArguments;
use crate::messages;
use crate::recipe;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use isentrope_files::open_regular;
use isentrope_reward::VerifierName;
use isentrope_train::run::word;
use isentrope_train::{rl, sft};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Largest script that is read, in bytes.
const MAX_BYTES: u64 = 256 << 10;

/// Write a recipe for your model, your data and your reward, and show what it needs
///
/// The recipe has some thirty commented lines; every other setting has its default. With `--from`,
/// it has the settings of a script for TRL or verl, which is read and not run, and says of each
/// other setting why it has no line. After writing it, the command says what `isentrope train
/// RECIPE --dry-run` says: memory, time, rows that cannot be used, and the first prompts as the
/// model sees them.
#[derive(Args)]
#[command(after_help = "Examples:
  isentrope init --model Qwen/Qwen2.5-0.5B-Instruct --data problems.jsonl
  isentrope init --model ./my-model --data train.parquet --reward reward.py:compute_score
  isentrope init --from grpo.py
  isentrope init --from run.sh --data train.parquet")]
pub struct Init {
    /// A Hugging Face model directory, or a hub id such as Qwen/Qwen2.5-0.5B-Instruct
    #[arg(long, required_unless_present = "from")]
    model: Option<String>,
    /// The problems: a file with a prompt and an answer in each row, or a data set on the hub
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    data: Option<String>,
    /// The reward: a Python file, FILE.py or FILE.py:FUNCTION, with a function for verl or TRL; or a
    /// verifier: auto (by the form of the answer; the default), math, countdown or code
    #[arg(long, value_name = "REWARD")]
    reward: Option<String>,
    /// A script to take the settings from: Python that calls TRL's GRPOTrainer or SFTTrainer, or a
    /// shell script that runs verl.trainer.main_ppo or `trl grpo`; - reads a command line from
    /// standard input. `--model`, `--data` and `--reward` win
    #[arg(long, value_name = "SCRIPT")]
    from: Option<PathBuf>,
    /// The recipe, which must not exist yet
    #[arg(long, value_name = "RECIPE", default_value = "recipe.toml")]
    out: PathBuf,
}

impl Init {
    pub fn run(self) -> Result<()> {
        let (recipe, is_sft) = match &self.from {
            Some(script) => {
                let is_input = script == Path::new("-");
                let name = if is_input { Path::new("standard input") } else { script };
                let converted = recipe::convert(&text("--from", script)?, name, &self.own()?)?;
                (converted.recipe, converted.is_sft)
            }
            None => (self.recipe()?, false),
        };
        let out = self.out.display().to_string();
        let file = OpenOptions::new().write(true).create_new(true).open(&self.out);
        match file {
            Ok(mut file) => file.write_all(recipe.as_bytes()).with_context(|| out.clone())?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{out}: exists already, and is left as it is; name another file with --out")
            }
            Err(error) => return Err(error).with_context(|| out.clone()),
        }
        let command = if is_sft { "sft" } else { "train" };
        messages::say(&format!(
            "{out} is written: edit it, then `isentrope {command} {}`; what it needs:\n",
            word(&out)
        ));
        let dry = RunArguments::dry(self.out);
        match is_sft {
            true => dry.train::<sft::Recipe>(command),
            false => dry.train::<rl::Recipe>(command),
        }
        .with_context(|| format!("{out} is written; mend it there, or delete it and repeat"))
    }

    /// The keys that flags set, with their values as TOML.
    fn own(&self) -> Result<Vec<(&'static str, String)>> {
        let quoted = |text: &String| toml::Value::from(&**text).to_string();
        let reward = self.reward.as_deref().map(verifier).transpose()?;
        let flags = [
            ("model.path", self.model.as_ref().map(quoted)),
            ("data.files", self.data.as_ref().map(quoted)),
            ("reward.verifier", reward),
        ];
        Ok(flags.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
    }

    fn recipe(&self) -> Result<String> {
        let verifier = verifier(self.reward.as_deref().unwrap_or("auto"))?;
        let quoted = |text: &Option<String>| toml::Value::from(text.as_deref().unwrap_or_default());
        let (model, data) = (quoted(&self.model), quoted(&self.data));
        Ok(format!(
            "# isentrope train RECIPE; isentrope train --keys says what every setting means\n\n\
             [run]\n\
             steps = 100\n\n\
             [model]\n\
             path = {model}\n\n\
             [data]\n\
             # Rows with a prompt (or problem) and an answer\n\
             files = [{data}]\n\
             # columns.prompt = \"question\"   # where the columns have other names\n\
             # columns.answer = \"result\"\n\
             # prompt_suffix = \"...\"         # added to every prompt, such as the form of the answer\n\n\
             [reward]\n\
             # A Python one that compares responses: batch = \"group\"\n\
             verifier = {verifier}\n\n\
             [rollout]\n\
             prompts = 16                    # problems in each step\n\
             responses = 8                   # responses to each problem, which are compared\n\
             max_tokens = 512                # longer responses cost memory and time\n\n\
             [optimizer]\n\
             learning_rate = 1e-6\n\n\
             [eval]\n\
             every = 10                      # steps\n\
             files = []                      # held-out problems, such as [\"test.jsonl\"]\n"
        ))
    }
}

/// The text of a script that a flag names, or of standard input.
fn text(flag: &str, script: &Path) -> Result<String> {
    let name = || format!("{flag} {}", script.display());
    let input: Box<dyn Read> = match script.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(open_regular(script).map_err(io::Error::from).with_context(name)?),
    };
    let mut text = String::new();
    input.take(MAX_BYTES + 1).read_to_string(&mut text).with_context(name)?;
    if text.len() as u64 > MAX_BYTES {
        bail!("{}: is larger than {} KiB, which no script is", name(), MAX_BYTES >> 10);
    }
    Ok(text)
}

/// The value of `reward.verifier`.
fn verifier(reward: &str) -> Result<String> {
    let (file, function) = match reward.rsplit_once(':') {
        Some((file, function)) if is_python(file) => (file, Some(function)),
        _ => (reward, None),
    };
    if !is_python(file) {
        let name: VerifierName = recipe::setting("--reward", reward)?;
        return Ok(serde_json::to_string(&name)?);
    }
    let text = text("--reward", Path::new(file))?;
    let function = match function {
        Some(function) => function,
        None => only_function(&text).map_err(|which| anyhow!("--reward {file}: {which}"))?,
    };
    Ok(format!("{{ python = {} }}", toml::Value::from(format!("{file}:{function}"))))
}

fn is_python(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension == "py")
}

/// The function of a Python file that judges: the only public one, or verl's `compute_score`.
fn only_function(text: &str) -> Result<&str, String> {
    let names = text.lines().filter_map(|line| Some(line.strip_prefix("def ")?.split_once('(')?.0));
    let functions: Vec<&str> = names.filter(|name| !name.starts_with('_')).collect();
    match functions[..] {
        [only] => Ok(only),
        _ if functions.contains(&"compute_score") => Ok("compute_score"),
        [] => Err("has no function; name one, as in reward.py:compute_score".into()),
        _ => Err(format!(
            "has several functions, {}: name one, as FILE.py:NAME",
            functions.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_that_judges_is_found() {
        assert_eq!(only_function("import re\n\ndef reward(a):\n    def inner():\n"), Ok("reward"));
        let two = "def _help(x):\ndef compute_score(a):\ndef other(b):\n";
        assert_eq!(only_function(two), Ok("compute_score"));
        assert!(only_function("def a():\ndef b():\n").unwrap_err().contains("a, b"));
        assert!(only_function("x = 1\n").is_err());
    }
}

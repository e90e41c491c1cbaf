//! Everything before the first step: what is read, and what is found wrong with it.

use super::Recipe;
use crate::error::Result;
use crate::evaluation::{EvaluationSet, PROBLEMS, sets};
use crate::examples::{TokenizedExample, tokenize};
use crate::observer::Observer;
use crate::plan::{Demand, Plan};
use crate::problems;
use crate::prompts::Prompter;
use crate::run::Summary;
use crate::run_directory::Place;
use crate::settings::{self, ModelSource};
use crate::training::Training;
use isentrope_data::Examples;
use isentrope_data::FileHash;
use isentrope_kernels::Backend;
use isentrope_model::{Layout, ModelConfig};
use isentrope_reward::BatchVerifier;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run that is ready for its first step.
pub struct Prepared {
    pub(super) recipe: Recipe,
    pub(super) model_dir: PathBuf,
    pub(super) prompter: Prompter,
    pub(super) verifier: Box<dyn BatchVerifier>,
    pub(super) examples: Examples,
    pub(super) held_out: Vec<TokenizedExample>,
    pub(super) sets: Vec<EvaluationSet>,
    pub(super) plan: Plan,
    pub(super) notes: Vec<String>,
}

impl Training for Prepared {
    type Recipe = Recipe;

    fn resolve(recipe: &mut Recipe) -> Result<()> {
        recipe.check()
    }

    fn tables(recipe: &mut Recipe) -> (&mut settings::Run, &ModelSource) {
        (&mut recipe.run, &recipe.model)
    }

    fn prepare(mut recipe: Recipe, model_dir: &Path, available: usize) -> Result<Self> {
        recipe.check()?;
        let config = ModelConfig::read(model_dir)?;
        recipe.sft.max_tokens = recipe.sft.max_tokens.min(config.context());
        let prompter = Prompter::read(model_dir, config.vocab_size, &recipe.data)?;
        let (examples, report) = Examples::open(&recipe.data, recipe.run.seed)?;
        let mut notes: Vec<String> = problems::note("training data", &report).into_iter().collect();
        let held_out = held_out(&recipe, &prompter, &mut notes)?;
        let context = config.context();
        let (max_tokens, verifier) = (recipe.sft.max_tokens, &recipe.reward.verifier);
        let sets =
            sets::of_run(&recipe.data, &recipe.eval, max_tokens, verifier, &prompter, context, &mut notes)?;
        let (longest_sampled, sampled) = problems::demand(&sets, context);
        let demand = Demand {
            longest_sampled,
            sampled,
            longest_trained: recipe.sft.max_tokens,
            trained: recipe.sft.batch,
            forward_first: 0,
            recorded: 0,
            reference: false,
        };
        let plan = Plan::new(&Layout::new(&config), demand, &recipe.memory, available)?;
        let model_dir = model_dir.to_owned();
        let verifier = recipe.reward.verifier.build()?;
        Ok(Self { recipe, model_dir, prompter, verifier, examples, held_out, sets, plan, notes })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn data_files(&self) -> &[FileHash] {
        self.examples.files()
    }

    fn preview(&mut self, count: usize) -> Result<Vec<String>> {
        (0..count as u64)
            .map(|i| tokenize(&self.examples.example(i), &self.prompter)?.marked(&self.prompter.tokenizer))
            .collect()
    }

    fn train<B: Backend>(
        self,
        place: &Place,
        backend: Arc<B>,
        manifest: Value,
        observer: &mut dyn Observer,
    ) -> Result<Summary> {
        super::train(self, place, backend, manifest, observer)
    }
}

/// Held-out examples: those of the files, or of the built-in task.
fn held_out(recipe: &Recipe, prompter: &Prompter, notes: &mut Vec<String>) -> Result<Vec<TokenizedExample>> {
    let from_task = recipe.sft.eval_files.is_empty() && recipe.data.task.is_some();
    if recipe.eval.every == 0 || (recipe.sft.eval_files.is_empty() && !from_task) {
        return Ok(Vec::new());
    }
    let mut settings = isentrope_data::Settings { shuffle: false, ..recipe.data.clone() };
    if !from_task {
        (settings.task, settings.limit) = (None, None);
        settings.files.clone_from(&recipe.sft.eval_files);
    }
    let (mut examples, report) = Examples::open(&settings, recipe.run.seed)?;
    notes.extend(problems::note("held-out examples", &report));
    // Of the built-in task's endless examples, some that no run comes to.
    let first = if from_task { 1 << 40 } else { 0 };
    let count = examples.len().unwrap_or(usize::MAX).min(recipe.eval.problems.unwrap_or(PROBLEMS));
    (0..count as u64)
        .map(|i| tokenize(&examples.example(first + i), prompter))
        .filter(|e| e.as_ref().map_or(true, |e| e.tokens.len() <= recipe.sft.max_tokens))
        .collect()
}

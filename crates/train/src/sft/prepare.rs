//! From a recipe to a run that is ready for its first step: what is read, and what is found wrong with it.

use super::{FineTuning, Recipe};
use crate::error::Result;
use crate::examples::{TokenizedExample, encode, tokenize};
use crate::plan::{Demand, Plan};
use crate::problems;
use crate::settings;
use crate::trainer::{Prepared, Tables, TrainingRecipe};
use isentrope_data::{Examples, Findings, Longest, Split};
use isentrope_evaluation::{EvaluationSet, PROBLEMS, held_out_sets};
use isentrope_kernels::Backend;
use isentrope_model::{Layout, ModelConfig, hub};
use isentrope_rollout::{Judge, Prompter};
use std::path::Path;

impl TrainingRecipe for Recipe {
    type Trainer = FineTuning;

    fn resolve(&mut self) -> Result<()> {
        self.check()
    }

    fn run_mut(&mut self) -> &mut settings::Run {
        &mut self.run
    }

    fn tables(&self) -> Tables<'_> {
        let Self { run, model, optimizer, eval, checkpoint, .. } = self;
        Tables { run, model, optimizer, eval, checkpoint }
    }

    fn prepare<B: Backend>(
        self,
        model_dir: &Path,
        backend: &B,
        available: usize,
        progress: &dyn hub::Progress,
    ) -> Result<Prepared<FineTuning>> {
        let mut recipe = self;
        recipe.check()?;
        let config = ModelConfig::read(model_dir)?;
        recipe.sft.max_tokens = recipe.sft.max_tokens.min(config.context());
        let prompter = Prompter::read(model_dir, config.vocab_size, &recipe.data)?;
        let mut notes = Vec::new();
        let found = recipe.data.found(Split::Train, progress)?;
        let examples = open(&found, "training data", &recipe, &prompter, &mut notes)?;
        notes.extend(problems::repeated(examples.len(), "examples", "sft.batch", recipe.sft.batch));
        notes.extend(recipe.optimizer.warning(recipe.run.steps));
        let held_out = held_out(&recipe, &prompter, &mut notes, progress)?;
        let context = config.context();
        let (data, verifier) = (&recipe.data, &recipe.reward.verifier);
        let eval = (&recipe.eval, recipe.sft.max_tokens);
        let sets = held_out_sets(data, eval, verifier, &prompter, context, &mut notes, progress)?;
        let (longest_sampled, sampled) = EvaluationSet::demand(&sets, context);
        let demand = Demand {
            longest_sampled,
            sampled,
            longest_trained: recipe.sft.max_tokens,
            trained: recipe.sft.batch,
            forward_first: 0,
            loss_tokens: 0,
            activation_slots: 0,
            reference: false,
        };
        let plan = Plan::new(backend, &Layout::new(&config), demand, &recipe.memory, available)?;
        let judge = Judge {
            verifier: recipe.reward.verifier.build()?,
            overlong: recipe.reward.overlong.clone(),
            max_tokens: recipe.longest_response(),
        };
        Ok(Prepared {
            plan,
            notes,
            model_dir: model_dir.to_owned(),
            prompter,
            judge,
            sets,
            eval_stop: recipe.eval.stop.clone().unwrap_or_default(),
            needs_reference: false,
            trainer: FineTuning { recipe, examples, held_out },
        })
    }
}

/// The examples that the model can learn from; what is wrong with others is noted.
fn open(
    data: &isentrope_data::DataSettings,
    what: &str,
    recipe: &Recipe,
    prompter: &Prompter,
    notes: &mut Vec<String>,
) -> Result<Examples> {
    let (mut examples, mut report) = Examples::open(data, recipe.run.seed)?;
    let longest = Longest { tokens: recipe.sft.max_tokens, allowed_by: "sft.max_tokens" };
    let mut lossy = Findings::default();
    examples.retain(&mut report, &longest, |example| {
        if !example.content.may_fit(longest.tokens) {
            return Ok(usize::MAX);
        }
        let encoded = encode(example, prompter);
        let loss = prompter.loss(&example.origin);
        let tokens = encoded?.tokens.len();
        lossy.extend(loss.filter(|_| tokens <= longest.tokens));
        Ok(tokens)
    })?;
    report.lossy = lossy;
    notes.extend(problems::note(what, &report));
    Ok(examples)
}

/// Held-out examples: those of the files, or of the built-in task.
fn held_out(
    recipe: &Recipe,
    prompter: &Prompter,
    notes: &mut Vec<String>,
    progress: &dyn hub::Progress,
) -> Result<Vec<TokenizedExample>> {
    let from_task = recipe.sft.eval_files.is_empty() && recipe.data.task.is_some();
    if recipe.eval.every == 0 || (recipe.sft.eval_files.is_empty() && !from_task) {
        return Ok(Vec::new());
    }
    let mut settings = isentrope_data::DataSettings { shuffle: false, ..recipe.data.clone() };
    if !from_task {
        (settings.task, settings.limit) = (None, None);
        settings.files.clone_from(&recipe.sft.eval_files);
    }
    let settings = settings.found(Split::Test, progress)?;
    let mut examples = open(&settings, "held-out examples", recipe, prompter, notes)?;
    // Of the built-in task's endless examples, some that no run comes to.
    let first = if from_task { 1 << 40 } else { 0 };
    let count = examples.len().unwrap_or(usize::MAX).min(recipe.eval.problems.unwrap_or(PROBLEMS));
    (0..count as u64)
        .map(|i| tokenize(&examples.example(first + i), prompter))
        .filter(|e| e.as_ref().map_or(true, |e| e.tokens.len() <= recipe.sft.max_tokens))
        .collect()
}

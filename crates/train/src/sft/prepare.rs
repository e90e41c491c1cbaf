//! Everything before the first step: what is read, what is found wrong with it, and what the loop begins with.

use super::{FineTuning, Recipe, TrainerState};
use crate::collect::Judge;
use crate::error::Result;
use crate::evaluation::{EvaluationSet, Evaluator, PROBLEMS, sets};
use crate::examples::{TokenizedExample, encode, tokenize};
use crate::learner::Learner;
use crate::observer::Observer;
use crate::optimizer::Optimizer;
use crate::plan::{Demand, Plan};
use crate::problems;
use crate::prompts::Prompter;
use crate::run::{Run, Summary};
use crate::run_directory::Place;
use crate::settings::{self, ModelSource};
use crate::training::Training;
use crate::training_loop::TrainingLoop;
use isentrope_data::{Examples, FileHash, Longest};
use isentrope_kernels::Backend;
use isentrope_model::{Layout, Model, ModelConfig};
use isentrope_rollout::Sampling;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run that is ready for its first step.
pub struct Prepared {
    recipe: Recipe,
    model_dir: PathBuf,
    prompter: Prompter,
    judge: Judge,
    examples: Examples,
    held_out: Vec<TokenizedExample>,
    sets: Vec<EvaluationSet>,
    plan: Plan,
    notes: Vec<String>,
}

impl Training for Prepared {
    type Recipe = Recipe;

    fn resolve(recipe: &mut Recipe) -> Result<()> {
        recipe.check()
    }

    fn tables(recipe: &mut Recipe) -> (&mut settings::Run, &ModelSource) {
        (&mut recipe.run, &recipe.model)
    }

    fn prepare<B: Backend>(
        mut recipe: Recipe,
        model_dir: &Path,
        backend: &B,
        available: usize,
    ) -> Result<Self> {
        recipe.check()?;
        let config = ModelConfig::read(model_dir)?;
        recipe.sft.max_tokens = recipe.sft.max_tokens.min(config.context());
        let prompter = Prompter::read(model_dir, config.vocab_size, &recipe.data)?;
        let mut notes = Vec::new();
        let examples = open(&recipe.data, "training data", &recipe, &prompter, &mut notes)?;
        notes.extend(problems::repeated(examples.len(), "examples", "sft.batch", recipe.sft.batch));
        notes.extend(recipe.optimizer.warning(recipe.run.steps));
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
            loss_tokens: 0,
            recorded: 0,
            reference: false,
        };
        let plan = Plan::new(backend, &Layout::new(&config), demand, &recipe.memory, available)?;
        let model_dir = model_dir.to_owned();
        let judge = Judge {
            verifier: recipe.reward.verifier.build()?,
            overlong: recipe.reward.overlong.clone(),
            max_tokens: recipe.longest_response(),
        };
        Ok(Self { recipe, model_dir, prompter, judge, examples, held_out, sets, plan, notes })
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
        let Prepared { recipe, model_dir, prompter, judge, examples, held_out, sets, plan, .. } = self;
        let first_model = || {
            if recipe.model.from_scratch {
                Model::initialize(&model_dir, recipe.run.seed, backend.clone())
            } else {
                Model::load(&model_dir, backend.clone())
            }
        };
        let start = TrainerState::default();
        let (run, learner, state) = Run::open(
            place,
            &recipe.run,
            &recipe.checkpoint,
            manifest,
            start,
            observer,
            |found| match found {
                Some(found) => found.learner(backend.clone(), recipe.optimizer.clone(), plan.passes()),
                None => {
                    let model = first_model()?;
                    let optimizer = Optimizer::new(&model, recipe.optimizer.clone())?;
                    Learner::new(model, optimizer, plan.passes())
                }
            },
        )?;
        let evaluator = Evaluator {
            sampling: Sampling {
                eos_tokens: prompter.eos_tokens.clone(),
                stop_strings: recipe.eval.stop.clone().unwrap_or_default(),
                ..Sampling::default()
            },
            seed: recipe.run.seed,
            prompter: &prompter,
            judge: &judge,
            limits: plan.sampling(),
        };
        let (recipe, sets, plan, model_dir) = (&recipe, &sets, &plan, &model_dir);
        let mut tuning = FineTuning { recipe, prompter: &prompter, held_out, examples };
        TrainingLoop { eval: &recipe.eval, evaluator, sets, plan, model_dir, run, learner, state, observer }
            .run(&mut tuning)
    }
}

/// The examples that the model can learn from; what is wrong with others is noted.
fn open(
    data: &isentrope_data::Settings,
    what: &str,
    recipe: &Recipe,
    prompter: &Prompter,
    notes: &mut Vec<String>,
) -> Result<Examples> {
    let (mut examples, mut report) = Examples::open(data, recipe.run.seed)?;
    let longest = Longest { tokens: recipe.sft.max_tokens, allowed_by: "sft.max_tokens" };
    let mut lossy = Vec::new();
    examples.retain(&mut report, &longest, |example| {
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
    let mut examples = open(&settings, "held-out examples", recipe, prompter, notes)?;
    // Of the built-in task's endless examples, some that no run comes to.
    let first = if from_task { 1 << 40 } else { 0 };
    let count = examples.len().unwrap_or(usize::MAX).min(recipe.eval.problems.unwrap_or(PROBLEMS));
    (0..count as u64)
        .map(|i| tokenize(&examples.example(first + i), prompter))
        .filter(|e| e.as_ref().map_or(true, |e| e.tokens.len() <= recipe.sft.max_tokens))
        .collect()
}

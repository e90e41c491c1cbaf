//! Everything before the first step: what is read, what is found wrong with it, and what the loop begins with.

use super::{PolicyGradient, Recipe, TrainerState};
use crate::collect::Judge;
use crate::error::Result;
use crate::evaluation::{EvaluationSet, Evaluator};
use crate::learner::Learner;
use crate::observer::Observer;
use crate::optimizer::Optimizer;
use crate::plan::{Demand, Plan};
use crate::problems::{self, Problems};
use crate::prompts::Prompter;
use crate::run::{Run, Summary};
use crate::run_directory::Place;
use crate::settings::{self, ModelSource};
use crate::training::Training;
use crate::training_loop::TrainingLoop;
use isentrope_data::{FileHash, Source};
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
    source: Source,
    sets: Vec<EvaluationSet>,
    plan: Plan,
    notes: Vec<String>,
}

impl Training for Prepared {
    type Recipe = Recipe;

    fn resolve(recipe: &mut Recipe) -> Result<()> {
        recipe.check()?;
        recipe.resolve();
        Ok(())
    }

    fn tables(recipe: &mut Recipe) -> (&mut settings::Run, &ModelSource) {
        (&mut recipe.run, &recipe.model)
    }

    fn prepare<B: Backend>(recipe: Recipe, model_dir: &Path, backend: &B, available: usize) -> Result<Self> {
        recipe.check()?;
        let config = ModelConfig::read(model_dir)?;
        let prompter = Prompter::read(model_dir, config.vocab_size, &recipe.data)?;
        let mut notes = recipe.warnings();
        notes.extend(recipe.objective.advantage.warning(recipe.rollout.responses));
        let data = Problems::open(
            &recipe.data,
            (&recipe.eval, recipe.rollout.max_tokens),
            recipe.run.seed,
            &prompter,
            config.context(),
            &recipe.reward.verifier,
        )?;
        notes.extend(data.notes);
        notes.extend(problems::repeated(
            data.train.len(),
            "problems",
            "rollout.prompts",
            recipe.rollout.prompts,
        ));
        let longest_trained = data.longest_prompt.saturating_add(recipe.rollout.max_tokens);
        if longest_trained > config.context() {
            notes.push(format!(
                "prompts of up to {} tokens and responses of up to {} do not fit the model's context of {}: such \
                 responses end at its end",
                data.longest_prompt,
                recipe.rollout.max_tokens,
                config.context()
            ));
        }
        let (longest_evaluated, evaluated) = problems::demand(&data.sets, config.context());
        let rollout = &recipe.rollout;
        let trained = recipe.prompts_per_update().saturating_mul(rollout.responses);
        let demand = Demand {
            longest_sampled: longest_trained.max(longest_evaluated).min(config.context()),
            sampled: rollout.prompts.saturating_mul(rollout.responses).max(evaluated),
            longest_trained: longest_trained.min(config.context()),
            trained,
            forward_first: if recipe.on_policy() { 0 } else { trained },
            loss_tokens: trained.saturating_mul(rollout.max_tokens.min(config.context())),
            recorded: recipe.prompts_per_update().saturating_mul(
                data.longest_prompt.saturating_add(rollout.responses.saturating_mul(rollout.max_tokens)),
            ),
            reference: recipe.objective.needs_reference(),
        };
        let plan = Plan::new(backend, &Layout::new(&config), demand, &recipe.memory, available)?;
        let model_dir = model_dir.to_owned();
        let judge = Judge {
            verifier: recipe.reward.verifier.build()?,
            overlong: recipe.reward.overlong.clone(),
            max_tokens: recipe.rollout.max_tokens,
        };
        Ok(Self { recipe, model_dir, prompter, judge, source: data.train, sets: data.sets, plan, notes })
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn data_files(&self) -> &[FileHash] {
        self.source.files()
    }

    fn preview(&mut self, count: usize) -> Result<Vec<String>> {
        (0..count as u64).map(|i| self.prompter.text(&self.source.problem(i))).collect()
    }

    fn train<B: Backend>(
        self,
        place: &Place,
        backend: Arc<B>,
        manifest: Value,
        observer: &mut dyn Observer,
    ) -> Result<Summary> {
        let Prepared { recipe, model_dir, prompter, judge, source, sets, plan, .. } = self;
        let start = TrainerState {
            entropy_coefficient: recipe.objective.entropy_bonus.coefficient,
            ..TrainerState::default()
        };
        let mut reference = None;
        let (run, learner, mut state) =
            Run::open(place, &recipe.run, &recipe.checkpoint, manifest, start, observer, |found| {
                if recipe.objective.needs_reference() {
                    reference = Some(Model::load(&model_dir, backend.clone())?);
                }
                if let Some(found) = found {
                    return found.learner(backend, recipe.optimizer.clone(), plan.passes());
                }
                let model = Model::load(&model_dir, backend)?;
                let optimizer = Optimizer::new(&model, recipe.optimizer.clone())?;
                Learner::new(model, optimizer, plan.passes())
            })?;
        let bonus = &recipe.objective.entropy_bonus;
        if bonus.target.is_none() {
            state.entropy_coefficient = bonus.coefficient; // it may have been changed since the checkpoint
        }
        let stop = recipe.eval.stop.as_ref().unwrap_or(&recipe.rollout.stop);
        let evaluator = Evaluator {
            sampling: Sampling { stop_strings: stop.clone(), ..recipe.sampling(&prompter) },
            seed: recipe.run.seed,
            prompter: &prompter,
            judge: &judge,
            limits: plan.sampling(),
        };
        let (recipe, sets, plan, model_dir) = (&recipe, &sets, &plan, &model_dir);
        let mut policy = PolicyGradient { recipe, prompter: &prompter, judge: &judge, reference, source };
        TrainingLoop { eval: &recipe.eval, evaluator, sets, plan, model_dir, run, learner, state, observer }
            .run(&mut policy)
    }
}

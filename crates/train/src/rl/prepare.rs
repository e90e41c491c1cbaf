//! Everything before the first step: what is read, and what is found wrong with it.

use super::Recipe;
use crate::error::Result;
use crate::evaluation::EvaluationSet;
use crate::observer::Observer;
use crate::plan::{Demand, Plan};
use crate::problems::{self, Problems};
use crate::prompts::Prompter;
use crate::run::Summary;
use crate::run_directory::Place;
use crate::settings::{self, ModelSource};
use crate::training::Training;
use isentrope_data::FileHash;
use isentrope_data::Source;
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
    pub(super) source: Source,
    pub(super) sets: Vec<EvaluationSet>,
    pub(super) plan: Plan,
    pub(super) notes: Vec<String>,
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

    fn prepare(recipe: Recipe, model_dir: &Path, available: usize) -> Result<Self> {
        recipe.check()?;
        let config = ModelConfig::read(model_dir)?;
        let prompter = Prompter::read(model_dir, config.vocab_size, &recipe.data)?;
        let mut notes = recipe.objective.warnings(recipe.updates_per_rollout());
        let data = Problems::open(
            &recipe.data,
            (&recipe.eval, recipe.rollout.max_tokens),
            recipe.run.seed,
            &prompter,
            config.context(),
            &recipe.reward.verifier,
        )?;
        notes.extend(data.notes);
        let longest_trained = data.longest_prompt + recipe.rollout.max_tokens;
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
        // No group is older than the policy that is updated.
        let on_policy = recipe.updates_per_rollout() == 1 && !rollout.filter;
        let demand = Demand {
            longest_sampled: longest_trained.max(longest_evaluated).min(config.context()),
            sampled: rollout.prompts.saturating_mul(rollout.responses).max(evaluated),
            longest_trained: longest_trained.min(config.context()),
            trained,
            forward_first: if on_policy { 0 } else { trained },
            recorded: recipe
                .prompts_per_update()
                .saturating_mul(data.longest_prompt + rollout.responses.saturating_mul(rollout.max_tokens)),
            reference: recipe.objective.needs_reference(),
        };
        let plan = Plan::new(&Layout::new(&config), demand, &recipe.memory, available)?;
        let model_dir = model_dir.to_owned();
        let verifier = recipe.reward.verifier.build()?;
        Ok(Self { recipe, model_dir, prompter, verifier, source: data.train, sets: data.sets, plan, notes })
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
        super::train(self, place, backend, manifest, observer)
    }
}

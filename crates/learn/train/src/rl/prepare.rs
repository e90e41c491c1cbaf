//! Prepares a run for its first step from a recipe: reads and checks everything but the weights.

use super::{PolicyGradient, Recipe};
use crate::error::Result;
use crate::problems::{self, Problems};
use crate::settings::{RunSettings, check_router_aux};
use crate::teacher::{Student, Teacher};
use crate::trainer::{Prepared, ProcessModelTable, Tables, TrainingRecipe};
use isentrope_budget::memory::{Demand, TeacherBytes};
use isentrope_budget::time::Workload;
use isentrope_data::DataSettings;
use isentrope_environment::{Environment, EpisodeLimits};
use isentrope_evaluation::EvaluationSet;
use isentrope_hub as hub;
use isentrope_model::{ModelConfig, SHARING_TOKENS, Tokens, most_tokens_of_units};
use isentrope_rollout::Prompter;
use std::path::{Path, PathBuf};
use std::slice;

impl Recipe {
    /// The run's amount of computation, with prompts of `prompt` tokens.
    fn workload(&self, prompt: f64, sets: &[EvaluationSet], config: &ModelConfig) -> Workload {
        let (prompts, responses) = (self.rollout.prompts as f64, self.rollout.responses as f64);
        let response = self.response(prompt, config);
        let count = |is: bool| f64::from(u8::from(is));
        let (epochs, reference) =
            (self.update.epochs as f64, count(self.objective.needs_reference()));
        // The reference scores the rollout once for the loss, and once for the process model. The
        // process model scores the rollout and learns from it once.
        let prime = count(self.objective.is_prime());
        let measured = if self.lab.track_theory { 2.0 } else { 0.0 }
            + count(self.objective.needs_entropy_slopes());
        // The load of the experts is counted before each update.
        let balanced = epochs * count(self.objective.router_aux_coefficient != 0.0);
        let greedy = count(self.objective.needs_greedy_baseline());
        let windows = &config.sliding_window[..];
        Workload {
            ranks: 1,
            steps: self.run.steps,
            sampled: Tokens::of_groups(windows, prompts, responses + greedy, prompt, response),
            prefilled: Tokens::of_prefill(windows, prompts, prompt),
            decoded: Tokens::of_decoding(windows, prompts, responses + greedy, prompt, response),
            updates: epochs
                * self.rollout.prompts.div_ceil(self.prompts_per_update().max(1)) as f64,
            sampled_at_a_time: self.rollout.prompts.saturating_mul(self.rollout.responses),
            trained: self.trained(prompt, config),
            passes: (epochs + balanced + reference + measured + 3.0 * prime, epochs + prime),
            spared: self.prompts_per_update() as f64 / prompts,
            evaluated: EvaluationSet::work(sets, config),
            evaluations: self.eval.evaluations(self.run.steps),
            held_out: if self.lab.track_states {
                work_of_states(sets, config)
            } else {
                Tokens::default()
            },
            longest: response as usize,
            has_turns: self.environment.is_some(),
        }
    }

    /// Tokens of a full response to a prompt of `prompt` tokens.
    fn response(&self, prompt: f64, config: &ModelConfig) -> f64 {
        (self.rollout.max_tokens as f64).min(config.context() as f64 - prompt).max(1.0)
    }

    /// The work of a pass over a rollout's full responses behind prompts of `prompt` tokens.
    fn trained(&self, prompt: f64, config: &ModelConfig) -> Tokens {
        let (prompts, responses) = (self.rollout.prompts as f64, self.rollout.responses as f64);
        let response = self.response(prompt, config);
        // Responses that are in one pass share their prompt's tokens.
        let shared = ((SHARING_TOKENS as f64 - prompt) / response).floor().clamp(1.0, responses);
        let groups = prompts * responses / shared;
        Tokens::of_groups(&config.sliding_window, groups, shared, prompt, response)
    }

    /// The environment and the limits of its episodes, if there is one.
    fn environment(
        &self,
        notes: &mut Vec<String>,
    ) -> Result<Option<(Box<dyn Environment>, EpisodeLimits)>> {
        let Some(settings) = &self.environment else { return Ok(None) };
        let environment = settings.build()?;
        notes.extend(environment.notes());
        Ok(Some((environment, settings.limits().clone())))
    }
}

/// The work of scoring the initial states again, if all responses had the greatest length.
fn work_of_states(sets: &[EvaluationSet], config: &ModelConfig) -> Tokens {
    let kept = sets.iter().filter(|set| !set.is_further);
    kept.map(|set| EvaluationSet::work(slice::from_ref(set), config)).sum()
}

impl TrainingRecipe for Recipe {
    type Trainer = PolicyGradient;

    fn resolve(&mut self) -> Result<()> {
        self.check()?;
        self.fill_in();
        Ok(())
    }

    fn run_mut(&mut self) -> &mut RunSettings {
        &mut self.run
    }

    fn shards_mut(&mut self) -> (&'static str, &mut Option<usize>) {
        ("update.shards", &mut self.update.shards)
    }

    fn data_mut(&mut self) -> &mut DataSettings {
        &mut self.data
    }

    fn tables(&self) -> Tables<'_> {
        let Self { run, model, lora, optimizer, data, reward, eval, .. } = self;
        let Self { environment, checkpoint, device, memory, ranks, lab, prime, .. } = self;
        let process_model = self.objective.is_prime().then_some(ProcessModelTable {
            model: prime.model.as_deref(),
            optimizer: &prime.optimizer,
        });
        let (track_states, shards) = (lab.track_states, self.update.shards.unwrap_or(1));
        Tables {
            run,
            model,
            lora: lora.as_ref(),
            optimizer,
            process_model,
            teacher: self.objective.distillation.teacher.as_deref(),
            data,
            reward,
            environment: environment.as_ref(),
            eval,
            checkpoint,
            device,
            memory,
            ranks,
            track_states,
            shards,
        }
    }

    fn needs_reference(&self) -> bool {
        self.objective.needs_reference() || self.objective.is_prime() || self.base_teaches()
    }

    fn without_reference(&self) -> &'static str {
        match (self.base_teaches(), self.objective.needs_reference()) {
            (false, _) => "objective.reference_kl.coefficient = 0",
            (true, false) => "objective.distillation.self_teacher = \"live\"",
            (true, true) => {
                "objective.distillation.self_teacher = \"live\" and \
                 objective.reference_kl.coefficient = 0"
            }
        }
    }

    fn data_places(&self) -> Vec<PathBuf> {
        [&self.data.files[..], self.eval.files_read()].concat()
    }

    fn check_data(&self) -> Result<Vec<String>> {
        problems::check_files(&self.data, &self.eval, self.run.seed, &self.reward.verifier)
    }

    fn prepare(
        self,
        model_dir: &Path,
        ranks: usize,
        progress: &dyn hub::Progress,
    ) -> Result<Prepared<PolicyGradient>> {
        let recipe = self;
        let config = ModelConfig::read(model_dir)?;
        let coefficient = recipe.objective.router_aux_coefficient;
        check_router_aux("objective.router_aux_coefficient", coefficient, &config)?;
        let layout = recipe.tables().layout(model_dir, &config)?;
        let lora = recipe.lora.as_ref();
        lora.map_or(Ok(()), |lora| lora.check_adapter(model_dir, &layout))?;
        if recipe.objective.is_prime() {
            recipe.prime.check_model(model_dir)?;
        }
        let mut notes = config.remarks.clone();
        notes.extend(lora.and_then(|lora| lora.rank_note(&layout)));
        notes.extend(recipe.warnings());
        let prompter = Prompter::read(model_dir, config.vocab_size, &recipe.data)?;
        let environment = recipe.environment(&mut notes)?;
        let prompter = match &environment {
            Some((environment, _)) => {
                notes.extend(prompter.hidden_tools(environment.tools()).map(str::to_owned));
                prompter.with_environment(&**environment)
            }
            None => prompter,
        };
        let evaluates_files = !recipe.eval.files_read().is_empty();
        notes.extend(recipe.data.warnings(prompter.has_template(), evaluates_files));
        notes.extend(recipe.objective.advantage.warning(recipe.rollout.responses));
        let student = Student { tokenizer: &prompter.tokenizer, vocabulary: config.vocab_size };
        let teacher = recipe.tables().teacher;
        let teacher = teacher.map(|path| Teacher::open(path, &student, progress)).transpose()?;
        let teacher_context = teacher.as_ref().map_or(&config, |teacher| &teacher.config).context();
        let data = Problems::open(&recipe, &prompter, config.context(), teacher_context, progress)?;
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
                "prompts of up to {} tokens and responses of up to {} do not fit the model's \
                 context of {}: such responses end at its end",
                data.longest_prompt,
                recipe.rollout.max_tokens,
                config.context()
            ));
        }
        if recipe.lab.track_states && data.sets.is_empty() {
            notes.push(
                "lab.track_states has no effect: there are no evaluations; eval.every and \
                 eval.files ask for them"
                    .into(),
            );
        }
        // The teacher scores each response behind its own prompt, in passes like an update's.
        let longest_taught = data.longest_taught.saturating_add(recipe.rollout.max_tokens);
        let own = longest_trained.min(config.context());
        let longest_scored = match (recipe.teacher_prompt(), &teacher) {
            (Some(_), _) => own.max(longest_taught.min(teacher_context)),
            (None, Some(teacher)) => teacher.check_context(own).map(|()| own)?,
            (None, None) => own,
        };
        let (longest_evaluated, evaluated) = EvaluationSet::demand(&data.sets, config.context());
        let rollout = &recipe.rollout;
        let prime = recipe.objective.is_prime();
        // The process model goes forward before its loss can be computed.
        let of_process_model = if prime { recipe.prompts_per_process_update() } else { 0 };
        let prompts = recipe.prompts_per_update().max(of_process_model);
        let trained = prompts.saturating_mul(rollout.responses);
        // The last token is no input.
        let own_inputs = rollout.max_tokens.saturating_sub(1);
        let unit = |sequences| most_tokens_of_units(sequences, data.longest_prompt, own_inputs);
        let waiting_tokens = prompts.saturating_mul(unit(rollout.responses));
        let waiting_tokens = match ranks {
            1 => waiting_tokens,
            // Shares of the tokens are even to one unit of sequences.
            _ => waiting_tokens.div_ceil(ranks).saturating_add(unit(1).max(SHARING_TOKENS)),
        };
        let responses = rollout.prompts.saturating_mul(rollout.responses);
        let longest_response = rollout.max_tokens.min(config.context());
        let demand = Demand {
            longest_sampled: longest_trained.max(longest_evaluated).min(config.context()),
            sampled: responses.max(evaluated),
            longest_trained: longest_scored,
            trained,
            waiting_tokens: if recipe.on_policy() && !prime { 0 } else { waiting_tokens },
            loss_tokens: trained.saturating_mul(longest_response),
            // Slots for the responses that this rank samples for the first update.
            activation_slots: recipe.prompts_per_update().div_ceil(ranks).saturating_mul(
                data.longest_prompt.saturating_add(rollout.responses.saturating_mul(own_inputs)),
            ),
            kept_tokens: recipe.most_kept_bytes(config.vocab_size),
            scored: if recipe.lab.track_states { longest_evaluated } else { 0 },
            sets: recipe.parameter_sets(ranks),
            process_tokens: if prime { responses.saturating_mul(longest_response) } else { 0 },
            teacher: TeacherBytes::default(), // a plan knows the device
            is_taught: recipe.objective.has_reverse_kl(),
        };
        let workload = Workload { ranks, ..recipe.workload(data.mean_prompt, &data.sets, &config) };
        let scored = recipe.trained(data.mean_taught, &config);
        // An exact divergence takes a pass of the teacher in each update, and its head once for the
        // value and once for the gradient.
        let (passes, heads) = match recipe.objective.has_reverse_kl() {
            true => (recipe.update.epochs as f64, 1.0),
            false => (1.0, 0.0),
        };
        let its = teacher.as_ref().map_or(&layout, |teacher| &teacher.layout);
        let workload = match recipe.objective.has_teacher() {
            true => workload.with_scoring_by(its, &layout, scored, [passes, heads]),
            false => workload,
        };
        let judge = recipe.tables().judge(recipe.rollout.max_tokens, &mut notes)?;
        Ok(Prepared {
            notes,
            model_dir: model_dir.to_owned(),
            prompter,
            judge,
            environment,
            sets: data.sets,
            eval_stop: recipe.eval.stop.as_ref().unwrap_or(&recipe.rollout.stop).clone(),
            layout,
            teacher,
            demand,
            workload,
            trainer: PolicyGradient { recipe, source: data.train },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_step_is_counted_as_it_is_done() {
        let config = crate::test_support::config();
        let mut recipe = Recipe::default();
        (recipe.rollout.prompts, recipe.rollout.responses, recipe.rollout.max_tokens) = (4, 8, 20);
        (recipe.update.prompts, recipe.update.epochs) = (Some(2), 3);
        let workload = |recipe: &Recipe, prompt| recipe.workload(prompt, &[], &config);
        let plain = workload(&recipe, 10.0);
        assert_eq!((plain.sampled.tokens, plain.trained.tokens), (4.0 * 170.0, 4.0 * 170.0));
        assert_eq!((plain.passes, plain.spared, plain.longest), ((3.0, 3.0), 0.5, 20));
        // The context limits a response, which has at least one token however long the prompt is.
        assert_eq!(workload(&recipe, config.context() as f64).longest, 1);
        // A prompt of 1000 tokens is shared by the one response that a pass of 1024 has beside it.
        recipe.rollout.max_tokens = 24;
        let roomy = ModelConfig { max_position_embeddings: 2048, ..config.clone() };
        let long = recipe.workload(1000.0, &[], &roomy);
        assert_eq!((long.longest, long.trained.tokens), (24, 32.0 * 1024.0));
        assert_eq!(long.sampled.tokens, 4.0 * (1000.0 + 8.0 * 24.0));
        recipe.objective.advantage = serde_json::from_str("\"remax\"").unwrap();
        recipe.objective.reference_kl.coefficient = 0.1;
        recipe.rollout.max_tokens = 20;
        let greedy = workload(&recipe, 10.0);
        assert_eq!((greedy.sampled.tokens, greedy.passes), (4.0 * 190.0, (4.0, 3.0)));
        assert_eq!(greedy.held_out.tokens, 0.0);
        recipe.lab.track_theory = true;
        assert_eq!(workload(&recipe, 10.0).passes, (6.0, 3.0));
        recipe.objective.router_aux_coefficient = 0.01;
        assert_eq!(workload(&recipe, 10.0).passes, (9.0, 3.0));
        // The process model learns from the rollout, and it and the reference score it.
        let mut prime = Recipe { rollout: recipe.rollout.clone(), ..Recipe::default() };
        prime.objective.advantage = serde_json::from_str("\"prime\"").unwrap();
        assert_eq!(workload(&prime, 10.0).passes, (4.0, 2.0));
    }
}

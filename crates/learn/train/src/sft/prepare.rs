//! Prepares a run for its first step from a recipe: reads and checks everything but the weights.

use super::{FineTuning, Recipe};
use crate::error::{Error, Result};
use crate::examples::{TokenizedExample, encode, tokenize};
use crate::problems;
use crate::settings::{POLICY_OPTIMIZER, RunSettings, check_router_aux};
use crate::trainer::{Prepared, Tables, TrainingRecipe};
use isentrope_budget::memory::Demand;
use isentrope_budget::time::Workload;
use isentrope_data::{DataSettings, Examples, Findings, Longest, Split};
use isentrope_evaluation::{EvaluationSet, PROBLEMS, check_held_out_files, held_out_sets};
use isentrope_hub as hub;
use isentrope_model::{ModelConfig, Tokens};
use isentrope_rollout::Prompter;
use std::path::{Path, PathBuf};

impl TrainingRecipe for Recipe {
    type Trainer = FineTuning;

    fn resolve(&mut self) -> Result<()> {
        self.check()?;
        self.sft.shards.get_or_insert(1);
        Ok(())
    }

    fn run_mut(&mut self) -> &mut RunSettings {
        &mut self.run
    }

    fn shards_mut(&mut self) -> (&'static str, &mut Option<usize>) {
        ("sft.shards", &mut self.sft.shards)
    }

    fn data_mut(&mut self) -> &mut DataSettings {
        &mut self.data
    }

    fn tables(&self) -> Tables<'_> {
        let Self { run, model, lora, optimizer, data, reward, eval, .. } = self;
        let Self { checkpoint, device, memory, ranks, sft, .. } = self;
        let (process_model, track_states, shards) = (None, false, sft.shards.unwrap_or(1));
        Tables {
            run,
            model,
            lora: lora.as_ref(),
            optimizer,
            process_model,
            teacher: None,
            data,
            reward,
            environment: None,
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
        false
    }

    fn data_places(&self) -> Vec<PathBuf> {
        let held_out = if self.eval.every > 0 { &self.sft.eval_files[..] } else { &[] };
        [&self.data.files[..], held_out, self.eval.files_read()].concat()
    }

    fn check_data(&self) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let held_out = self.held_out_examples().filter(|_| self.eval.every > 0);
        for (what, split, settings) in [
            ("training data", Split::Train, Some(self.data.clone())),
            ("held-out examples", Split::Test, held_out),
        ] {
            let Some(local) = settings.and_then(|settings| settings.local()) else { continue };
            let (_, report) = Examples::open(&local.found(split, &())?, split, self.run.seed)
                .map_err(|error| named(error, split))?;
            notes.extend(problems::note(what, &report));
        }
        notes.extend(check_held_out_files(&self.data, &self.eval, &self.reward.verifier)?);
        Ok(notes)
    }

    fn prepare(
        self,
        model_dir: &Path,
        ranks: usize,
        progress: &dyn hub::Progress,
    ) -> Result<Prepared<FineTuning>> {
        let mut recipe = self;
        let config = ModelConfig::read(model_dir)?;
        let coefficient = recipe.sft.router_aux_coefficient;
        check_router_aux("sft.router_aux_coefficient", coefficient, &config)?;
        // The load of the experts is counted before each update.
        let balanced = f64::from(u8::from(coefficient != 0.0));
        let layout = recipe.tables().layout(model_dir, &config)?;
        let lora = recipe.lora.as_ref();
        lora.map_or(Ok(()), |lora| lora.check_adapter(model_dir, &layout))?;
        let context = config.context();
        recipe.sft.max_tokens = recipe.sft.max_tokens.min(context);
        let prompter = Prompter::read(model_dir, config.vocab_size, &recipe.data)?;
        let evaluates_files = recipe.data_places().len() > recipe.data.files.len();
        let mut notes = config.remarks.clone();
        notes.extend(lora.and_then(|lora| lora.rank_note(&layout)));
        notes.extend(recipe.data.warnings(prompter.has_template(), evaluates_files));
        if recipe.data.columns.hint.is_some() {
            notes
                .push("data.columns.hint has no effect: hints are for a teacher of `train`".into());
        }
        let found = recipe.data.found(Split::Train, progress)?;
        let mut examples =
            open(&found, ("training data", Split::Train), &recipe, context, &prompter, &mut notes)?;
        notes.extend(problems::repeated(examples.len(), "examples", "sft.batch", recipe.sft.batch));
        notes.extend(recipe.optimizer.warnings(POLICY_OPTIMIZER, recipe.run.steps));
        notes.extend(recipe.eval.warnings());
        if recipe.eval.every == 0 && !recipe.sft.eval_files.is_empty() {
            notes.push("sft.eval_files has no effect: eval.every is 0".into());
        }
        // Examples of a data set are of one split, held-out ones of another.
        let is_learnt = |file: &&PathBuf| file.is_file() && recipe.data.files.contains(file);
        if let Some(file) = recipe.sft.eval_files.iter().find(is_learnt) {
            notes.push(format!(
                "sft.eval_files names {}, as data.files does: eval/loss says nothing of other \
                 examples",
                file.display()
            ));
        }
        let rate = recipe.optimizer.learning_rate;
        notes.extend(recipe.lora.as_ref().and_then(|lora| lora.warning(rate)));
        let (data, verifier) = (&recipe.data, &recipe.reward.verifier);
        let eval = (&recipe.eval, recipe.sft.max_tokens);
        let sets = held_out_sets(data, eval, verifier, &prompter, context, &mut notes, progress)?;
        // This comes after the held-out problems, so that the error about too few problems comes
        // before their worked examples are made.
        let held_out = held_out(&recipe, context, &prompter, &mut notes, progress)?;
        notes.extend(problems::trained_on(&examples, &sets));
        let first = first_examples(&mut examples, &prompter);
        let eval_stop = recipe.eval.stop.clone().unwrap_or_default();
        // A recipe with stop texts says where responses end.
        notes.extend(endless(&first, &prompter).filter(|_| eval_stop.is_empty()));
        let (longest_sampled, sampled) = EvaluationSet::demand(&sets, context);
        let demand = Demand {
            longest_sampled,
            sampled,
            longest_trained: recipe.sft.max_tokens,
            trained: recipe.sft.batch,
            sets: recipe.parameter_sets(ranks),
            ..Demand::default()
        };
        let workload = Workload {
            ranks,
            steps: recipe.run.steps,
            sampled_at_a_time: sampled,
            trained: mean_work(&first, &config) * recipe.sft.batch as f64,
            passes: (1.0 + balanced, 1.0),
            updates: 1.0,
            evaluated: EvaluationSet::work(&sets, &config),
            held_out: held_out.iter().map(|example| work(example, &config)).sum(),
            evaluations: recipe.eval.evaluations(recipe.run.steps),
            ..Workload::default()
        };
        let judge = recipe.tables().judge(recipe.longest_response(), &mut notes)?;
        Ok(Prepared {
            notes,
            model_dir: model_dir.to_owned(),
            prompter,
            judge,
            environment: None,
            sets,
            eval_stop,
            layout,
            teacher: None,
            demand,
            workload,
            trainer: FineTuning { recipe, examples, held_out },
        })
    }
}

/// Opens the examples that the model can learn from. Defects of the others are noted.
fn open(
    data: &DataSettings,
    (what, split): (&str, Split),
    recipe: &Recipe,
    context: usize,
    prompter: &Prompter,
    notes: &mut Vec<String>,
) -> Result<Examples> {
    let (mut examples, mut report) =
        Examples::open(data, split, recipe.run.seed).map_err(|error| named(error, split))?;
    let tokens = recipe.sft.max_tokens;
    let allowed_by = if tokens < context { "sft.max_tokens" } else { "the model's context" };
    let longest = Longest { tokens, allowed_by };
    let mut lossy = Findings::default();
    let kept = examples.retain(&mut report, &longest, |example| {
        if !example.content.may_fit(longest.tokens) {
            return Ok(usize::MAX);
        }
        let encoded = encode(example, prompter);
        let loss = prompter.loss(&example.origin);
        let tokens = encoded?.tokens.len();
        lossy.extend(loss.filter(|_| tokens <= longest.tokens));
        Ok(tokens)
    });
    kept.map_err(|error| named(error, split))?;
    report.lossy = lossy;
    notes.extend(problems::note(what, &report));
    Ok(examples)
}

/// Renames an error of examples, which speaks of `data.files`, to the key that names their files.
fn named(error: isentrope_data::Error, split: Split) -> Error {
    let key = "sft.eval_files";
    match (split, error) {
        (Split::Test, isentrope_data::Error::Io { path, source }) => {
            Error::setting(key, format!("names {}, which cannot be read: {source}", path.display()))
        }
        (Split::Test, isentrope_data::Error::NothingLeft { reasons }) => {
            Error::setting(key, format!("names files of which no row is left: {reasons}"))
        }
        (_, error) => error.into(),
    }
}

/// Number of examples from which the run's time is estimated, and whose ends are checked.
const MEASURED: u64 = 64;

/// The first [`MEASURED`] examples.
fn first_examples(examples: &mut Examples, prompter: &Prompter) -> Vec<TokenizedExample> {
    let count = examples.len().map_or(MEASURED, |len| MEASURED.min(len as u64));
    (0..count).filter_map(|i| tokenize(&examples.example(i), prompter).ok()).collect()
}

/// A note if examples teach no token at which the responses of the model end: these would go on to
/// their greatest length.
fn endless(examples: &[TokenizedExample], prompter: &Prompter) -> Option<String> {
    let mut endless =
        examples.iter().filter(|example| example.learns_none_of(&prompter.eos_tokens));
    let special = endless.next()?.last_special(&prompter.tokenizer);
    let (all, count) = (examples.len(), 1 + endless.count());
    let (ends, name) = match special {
        Some(token) => {
            let text = format!("[{token:?}]");
            (
                format!("the last special token learnt is {token:?}"),
                format!("set eval.stop = {text}"),
            )
        }
        None => ("they end with no special token".into(), "name their end in eval.stop".into()),
    };
    Some(format!(
        "{count} of the first {all} examples teach no token that ends the model's responses; \
         {ends}: {name} here, and rollout.stop in the recipe that trains on from it"
    ))
}

/// The mean work of an example.
fn mean_work(examples: &[TokenizedExample], config: &ModelConfig) -> Tokens {
    examples.iter().map(|example| work(example, config)).sum::<Tokens>()
        * (1.0 / examples.len().max(1) as f64)
}

/// The work of going through an example.
fn work(example: &TokenizedExample, config: &ModelConfig) -> Tokens {
    let learnt = example.learnt();
    Tokens::of_groups(
        &config.sliding_window,
        1.0,
        1.0,
        (example.tokens.len() - learnt) as f64,
        learnt as f64,
    )
}

impl Recipe {
    /// The source of held-out examples: files, or the built-in task; none if nothing is held out.
    fn held_out_examples(&self) -> Option<DataSettings> {
        let settings = DataSettings { shuffle: false, ..self.data.clone() };
        match self.sft.eval_files.is_empty() {
            true => settings.task.is_some().then_some(settings),
            false => {
                let files = self.sft.eval_files.clone();
                Some(DataSettings { files, task: None, limit: None, ..settings })
            }
        }
    }
}

/// The held-out examples that fit `sft.max_tokens`.
fn held_out(
    recipe: &Recipe,
    context: usize,
    prompter: &Prompter,
    notes: &mut Vec<String>,
    progress: &dyn hub::Progress,
) -> Result<Vec<TokenizedExample>> {
    let Some(settings) = recipe.held_out_examples().filter(|_| recipe.eval.every > 0) else {
        return Ok(Vec::new());
    };
    let settings = settings.found(Split::Test, progress)?;
    let mut examples =
        open(&settings, ("held-out examples", Split::Test), recipe, context, prompter, notes)?;
    let count = examples.len().unwrap_or(usize::MAX).min(recipe.eval.problems.unwrap_or(PROBLEMS));
    (0..count as u64)
        .map(|i| tokenize(&examples.example(i), prompter))
        .filter(|e| e.as_ref().map_or(true, |e| e.tokens.len() <= recipe.sft.max_tokens))
        .collect()
}

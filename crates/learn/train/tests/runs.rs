//! Whole runs of fine-tuning in this process: schedules, files that others touch, checkpoints.

use crate::support::location;
use isentrope_data::TaskName;
use isentrope_kernels::{Cpu, Isa};
use isentrope_ranks::World;
use isentrope_train::observer::{Observer, ProgressObserver, StepReport};
use isentrope_train::run::Existing;
use isentrope_train::settings::Schedule;
use isentrope_train::sft::Recipe;
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::training_loop::train;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn recipe(steps: u64) -> Recipe {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base");
    let mut recipe = Recipe::default();
    recipe.model.path = assets.display().to_string();
    recipe.data.task = Some(TaskName::Countdown);
    (recipe.sft.batch, recipe.sft.max_tokens, recipe.run.steps) = (2, 160, steps);
    (recipe.eval.every, recipe.checkpoint.every, recipe.checkpoint.minutes) = (0, 0, 0.0);
    recipe.memory.budget_gib = Some(0.5);
    recipe
}

/// Keeps notes, and acts when a step's numbers are written and when it is over.
struct Watcher<'a> {
    notes: Vec<String>,
    step: u64,
    recorded: &'a mut dyn FnMut(u64),
    over: &'a mut dyn FnMut(u64),
}

impl ProgressObserver for Watcher<'_> {
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

impl Observer for Watcher<'_> {
    fn step(&mut self, step: &StepReport<'_>) {
        self.step = step.step;
        (self.recorded)(self.step);
    }

    fn is_over(&mut self) {
        (self.over)(self.step);
    }
}

/// Trains, and returns the notes.
fn run(
    recipe: &Recipe,
    dir: &Path,
    recorded: &mut dyn FnMut(u64),
    over: &mut dyn FnMut(u64),
) -> Vec<String> {
    let mut recipe = recipe.clone();
    recipe.resolve().unwrap();
    let model_dir = recipe.model.path.clone();
    let cpu = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
    let prepared = recipe.prepare(Path::new(&model_dir), 1, &()).unwrap();
    let plan = prepared.plan(&*cpu, 0).unwrap();
    let mut location = location(dir, Existing::Resume);
    location.recipe.0 = "the recipe".into();
    let mut watcher = Watcher { notes: Vec::new(), step: 0, recorded, over };
    let world = Arc::new(World::alone());
    train(prepared, &plan, &location, world, cpu, json!({ "made": 1 }), &mut watcher).unwrap();
    watcher.notes
}

fn quietly(recipe: &Recipe, dir: &Path) -> Vec<String> {
    run(recipe, dir, &mut |_| (), &mut |_| ())
}

fn model(dir: &Path, step: u64) -> Vec<u8> {
    fs::read(dir.join(format!("checkpoints/step-{step:06}/model.safetensors"))).unwrap()
}

fn checkpoints(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("checkpoints")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_last_step_of_a_schedule_learns_and_a_longer_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut recipe = recipe(3);
    (recipe.checkpoint.every, recipe.checkpoint.keep) = (1, 9);
    (recipe.optimizer.learning_rate, recipe.optimizer.schedule) = (0.75, Schedule::Linear);
    quietly(&recipe, dir.path());
    recipe.run.steps = 4;
    quietly(&recipe, dir.path());
    let text = fs::read_to_string(dir.path().join("metrics.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rates: Vec<f64> = rows.filter_map(|row| row["optimizer/learning_rate"].as_f64()).collect();
    assert_eq!(rates, [0.75, 0.5, 0.25, 0.1875]);
    for step in 2..=4 {
        assert!(model(dir.path(), step) != model(dir.path(), step - 1), "step {step}");
    }
}

#[test]
fn a_step_that_changes_nothing_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut recipe = recipe(2);
    recipe.optimizer.learning_rate = 1e-30;
    let notes = quietly(&recipe, dir.path());
    for step in 1..=2 {
        let expected = format!("step {step} has changed next to no weight: ");
        assert!(notes.iter().any(|note| note.starts_with(&expected)), "{notes:?}");
    }
    recipe.optimizer.learning_rate = 1e-4;
    let notes = quietly(&recipe, &dir.path().join("another"));
    assert!(notes.iter().all(|note| !note.contains("no weight")), "{notes:?}");
}

#[test]
fn files_that_are_removed_or_replaced_under_a_run_are_restored_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, touched) = (dir.path().join("whole"), dir.path().join("touched"));
    let recipe = recipe(4);
    quietly(&recipe, &whole);
    let notes = run(
        &recipe,
        &touched,
        &mut |step| {
            if step == 2 {
                fs::remove_file(touched.join("metrics.jsonl")).unwrap();
                fs::remove_file(touched.join("manifest.json")).unwrap();
                fs::remove_dir_all(touched.join("tensorboard")).unwrap();
                fs::write(touched.join("recipe.toml"), "another").unwrap();
                fs::write(touched.join("new"), "of somebody else").unwrap();
                fs::rename(touched.join("new"), touched.join("timings.jsonl")).unwrap();
            }
        },
        &mut |_| (),
    );
    let read = |dir: &Path, name: &str| fs::read_to_string(dir.join(name)).unwrap();
    for name in ["metrics.jsonl", "manifest.json", "recipe.toml"] {
        assert_eq!(read(&whole, name), read(&touched, name), "{name}");
    }
    assert_eq!(read(&touched, "timings.jsonl").lines().count(), 5);
    let events = |dir: &Path| {
        let event = fs::read_dir(dir.join("tensorboard")).unwrap().next().unwrap().unwrap();
        event.metadata().unwrap().len()
    };
    assert_eq!(events(&whole), events(&touched));
    let restored = notes.iter().filter(|note| note.contains("removed or changed")).count();
    assert_eq!(restored, 5, "{notes:?}");
}

#[test]
fn checkpoints_by_time_change_nothing_and_only_the_latest_of_them_stays() {
    let dir = tempfile::tempdir().unwrap();
    let [without, with] = ["without", "with"].map(|name| dir.path().join(name));
    let mut recipe = recipe(4);
    recipe.checkpoint.every = 3;
    quietly(&recipe, &without);
    recipe.checkpoint.minutes = 1e-9;
    let mut found = Vec::new();
    run(&recipe, &with, &mut |_| (), &mut |_| found.push(checkpoints(&with)));
    let names = |steps: &[u64]| -> Vec<String> {
        steps.iter().map(|step| format!("step-{step:06}")).collect()
    };
    assert_eq!(found, [names(&[1]), names(&[2]), names(&[3]), names(&[3, 4])]);
    assert_eq!(checkpoints(&without), checkpoints(&with));
    let state = |dir: &Path, step: u64| {
        let name = format!("checkpoints/step-{step:06}/trainer/files.json");
        fs::read_to_string(dir.join(name)).unwrap()
    };
    for step in [3, 4] {
        assert_eq!(state(&without, step), state(&with, step), "step {step}");
    }
    // A run goes on from an interim checkpoint, which the next takes the place of.
    let interrupted = dir.path().join("interrupted");
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut over = |step: u64| assert!(step < 2, "a kill after step 2");
        run(&recipe, &interrupted, &mut |_| (), &mut over);
    }));
    assert!(stopped.is_err());
    assert_eq!(checkpoints(&interrupted), names(&[2]));
    quietly(&recipe, &interrupted);
    assert_eq!(checkpoints(&interrupted), names(&[3, 4]));
    assert_eq!(state(&interrupted, 4), state(&without, 4));
}

//! Rollouts of ranks, which are threads here, that take over responses from each other: the bytes
//! of a run of one.

use crate::support::{location, on_ranks};
use isentrope_data::TaskName;
use isentrope_kernels::{Cpu, Isa};
use isentrope_objective::{
    Archer, Bapo, ClipB, ClipSchedule, ClipV, Entropic, Erc, Estimator, FlexibleClip, Method,
    Methods, RepoR, SelfTeacher, SteerWeights, TargetEntropy,
};
use isentrope_ranks::Watch;
use isentrope_ranks::threads::Faults;
use isentrope_train::observer::{Observer, Phase, Progress, ProgressObserver, StepReport};
use isentrope_train::rl::Recipe;
use isentrope_train::run::Existing;
use isentrope_train::trainer::TrainingRecipe;
use isentrope_train::training_loop::train;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The built-in task, whose responses have any length up to the longest.
pub fn recipe() -> Recipe {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../assets/countdown-base");
    let mut recipe = Recipe::default();
    recipe.model.path = assets.display().to_string();
    recipe.data.task = Some(TaskName::Countdown);
    (recipe.run.steps, recipe.eval.every, recipe.checkpoint.every) = (2, 0, 1);
    (recipe.rollout.prompts, recipe.rollout.responses, recipe.rollout.max_tokens) = (6, 4, 120);
    (recipe.update.prompts, recipe.update.shards) = (Some(3), Some(4));
    recipe.optimizer.learning_rate = 1e-3;
    recipe.memory.budget_gib = Some(0.5);
    recipe
}

/// Watches a rank, and interferes with it.
struct Watcher<'a> {
    /// Responses that have gone from one rank to another.
    moved: f64,
    notes: Vec<String>,
    step: u64,
    /// Hears of progress in each rollout.
    rollout: &'a dyn Fn(u64, Progress),
}

impl ProgressObserver for Watcher<'_> {
    fn progress(&mut self, progress: Progress) {
        if progress.phase == Phase::Rollout {
            (self.rollout)(self.step, progress);
        }
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

impl Observer for Watcher<'_> {
    fn step(&mut self, step: &StepReport<'_>) {
        self.step = step.step + 1;
        self.moved += step.timings.get("throughput/moved_responses").unwrap_or(0.0);
    }
}

/// The results of a run.
pub struct Ran {
    /// Why each rank has ended before its time, if it has.
    pub errors: Vec<Option<String>>,
    // These are the first rank's.
    pub moved: f64,
    pub notes: Vec<String>,
}

/// Called with a rank, a step and its rollout's progress.
pub type Act<'a> = &'a (dyn Fn(&Faults, usize, u64, Progress) + Sync);

/// Trains on several ranks.
pub fn run(recipe: &Recipe, dir: &Path, ranks: usize, watch: Watch, act: Act<'_>) -> Ran {
    let mut ended: Vec<(Option<String>, f64, Vec<String>)> =
        on_ranks(ranks, watch, |world, faults| {
            let mut recipe = recipe.clone();
            recipe.resolve().unwrap();
            let model_dir = recipe.model.path.clone();
            let cpu = Arc::new(Cpu::new(Isa::available()[0], 1).unwrap());
            let prepared = recipe.prepare(Path::new(&model_dir), ranks, &()).unwrap();
            let plan = prepared.plan(&*cpu, 0).unwrap();
            let (location, rank) = (location(dir, Existing::Resume), world.rank());
            let rollout = &|step, progress| act(faults, rank, step, progress);
            let mut watcher = Watcher { moved: 0.0, notes: Vec::new(), step: 1, rollout };
            let world = Arc::new(world);
            let ended = train(prepared, &plan, &location, world, cpu, json!({}), &mut watcher);
            (ended.err().map(|error| error.to_string()), watcher.moved, watcher.notes)
        });
    let errors = ended.iter().map(|(error, ..)| error.clone()).collect();
    let (_, moved, notes) = ended.swap_remove(0);
    Ran { errors, moved, notes }
}

pub fn patient(period: u64) -> Watch {
    Watch { silent: None, period: Duration::from_millis(period) }
}

/// The files of a run that the recipe alone decides.
fn results(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut pending =
        vec![dir.join("metrics.jsonl"), dir.join("rollouts"), dir.join("checkpoints")];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            files.insert(name, fs::read(&path).unwrap());
        }
    }
    files
}

/// The metrics of methods that are 0 in every step of a run.
fn idle_methods(dir: &Path) -> Vec<String> {
    let metrics = fs::read_to_string(dir.join("metrics.jsonl")).unwrap();
    let lines: Vec<Value> =
        metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names = lines[lines.len() - 1].as_object().unwrap().keys();
    let is_idle = |name: &&String| lines[1..].iter().all(|line| line[&**name] == 0.0);
    names.filter(|name| name.starts_with("method/")).filter(is_idle).cloned().collect()
}

/// The names of files that two runs do not have alike.
pub fn differences(a: &Path, b: &Path) -> Vec<String> {
    let (a, b) = (results(a), results(b));
    assert!(a.keys().any(|name| name.ends_with("model.safetensors")), "{:?}", a.keys());
    let mut names: Vec<String> = a.keys().chain(b.keys()).cloned().collect();
    names.retain(|name| a.get(name) != b.get(name));
    names.dedup();
    names
}

/// The recipes that are tried, by what is in them.
pub fn cases() -> Vec<(&'static str, Recipe)> {
    let mut filtered = recipe();
    (filtered.rollout.filter, filtered.rollout.top_p, filtered.run.steps) = (true, 0.9, 3);
    filtered.objective.covariance.method = Method::KlCov;
    filtered.objective.covariance.fraction = Some(0.02);
    // The policy's own start, from which the first update takes it away.
    filtered.objective.distillation.teacher = Some(filtered.model.path.clone());
    filtered.objective.entropy_mask_fraction = Some(0.8);
    // These read all of a minibatch, and one keeps a sum from update to update.
    filtered.objective.methods = Methods {
        steer: Some(SteerWeights::default()),
        erc: Some(Erc::default()),
        clip_b: Some(ClipB { mu: 1.0 }),
        archer: Some(Archer::default()),
        bapo: Some(Bapo::default()),
        entropic: Some(Entropic { high_prob: 0.1, ..Entropic::default() }),
        clip_v: Some(ClipV { mu: 0.5, max_fraction: 0.1 }),
        ..Methods::default()
    };
    // Fewer prompts than ranks: some begin with nothing.
    let mut greedy = recipe();
    greedy.objective.advantage = Estimator::Remax;
    (greedy.rollout.prompts, greedy.rollout.responses, greedy.update.prompts) = (2, 9, Some(2));
    greedy.update.epochs = 2;
    // Thresholds that stay close to 0 clip; whether they raise entropy goes from step to step.
    let flexible = FlexibleClip {
        schedule: ClipSchedule::OscillatoryDecay,
        lower_slope: 0.0,
        lower_intercept: 0.01,
        ..FlexibleClip::default()
    };
    greedy.objective.methods.flexible_clip = Some(flexible);
    // Its zeta goes from step to step.
    let target_entropy = Some(TargetEntropy::Nats(0.3));
    let repo_r = RepoR { zeta: 0.02, target_entropy, ..RepoR::default() };
    greedy.objective.methods.repo_r = Some(repo_r);
    greedy.objective.distillation.self_teacher = Some(SelfTeacher::Live);
    greedy.objective.distillation.teacher_prompt = Some("{answer}{prompt}".into());
    let mut stopped = recipe();
    stopped.rollout.stop = vec![",".into(), "!".into()];
    vec![
        ("plain", recipe()),
        ("filter, kl-cov, methods, a teacher and top-p", filtered),
        ("remax, flexible clipping, self-distillation", greedy),
        ("stop strings", stopped),
    ]
}

/// Checks that runs of several ranks, each with a period of calls in milliseconds, have the bytes
/// of a run of one.
fn check_ranks(name: &str, recipe: &Recipe, runs: &[(usize, u64)]) {
    let mut moved = 0.0;
    let dirs = tempfile::tempdir().unwrap();
    let alone = dirs.path().join("alone");
    let ran = run(recipe, &alone, 1, patient(1), &|_, _, _, _| {});
    assert_eq!((ran.errors, ran.moved), (vec![None], 0.0));
    assert_eq!(idle_methods(&alone), [""; 0], "{name}: without effect");
    // A busy machine may let a rank finish before another asks.
    for attempt in 0..5 {
        for &(ranks, period) in runs {
            let dir = dirs.path().join(format!("{ranks}-{period}-{attempt}"));
            let ran = run(recipe, &dir, ranks, patient(period), &|_, _, _, _| {});
            assert_eq!(ran.errors, vec![None; ranks], "{name}");
            let what = format!("{name}, {ranks} ranks, {period} ms: {}", ran.moved);
            assert_eq!(differences(&alone, &dir), [""; 0], "{what}");
            moved += ran.moved;
        }
        if moved > 0.0 {
            return;
        }
    }
    panic!("{name}: nothing was tried");
}

#[test]
fn responses_that_go_to_another_rank_change_no_byte() {
    cases()[1..3].iter().for_each(|(name, recipe)| check_ranks(name, recipe, &[(2, 1)]));
}

#[test]
#[ignore = "deep: more recipes, ranks and periods of the test above"]
fn responses_that_go_to_other_ranks_change_no_byte() {
    cases().iter().for_each(|(name, recipe)| check_ranks(name, recipe, &[(2, 1), (2, 6), (4, 2)]));
}

#[test]
#[ignore = "deep: several runs on ranks"]
fn a_run_that_is_broken_off_while_responses_move_goes_on_to_the_same_bytes() {
    let (_, recipe) = cases().swap_remove(1);
    let dirs = tempfile::tempdir().unwrap();
    let alone = dirs.path().join("alone");
    run(&recipe, &alone, 1, patient(1), &|_, _, _, _| {});
    let mut known = 0;
    for silent in [0, 1] {
        let dir = dirs.path().join(format!("silent-{silent}"));
        let watch = Watch { silent: Some(Duration::from_secs(2)), ..patient(1) };
        // Nothing comes any more from a rank that has sampled most of its responses.
        let ran =
            run(&recipe, &dir, 2, watch, &|faults, rank, step, Progress { done, total, .. }| {
                if rank == silent && step == 2 && done > 0 && 4 * done > 3 * total {
                    faults.silence(rank);
                }
            });
        assert!(ran.errors.iter().all(Option::is_some), "it has come to its end");
        // More ranks go on, and then one alone.
        let mut two_steps = recipe.clone();
        two_steps.run.steps = 2;
        let ran = run(&two_steps, &dir, 4, patient(1), &|_, _, _, _| {});
        assert_eq!(ran.errors, vec![None; 4]);
        known += ran
            .notes
            .iter()
            .filter(|note| note.contains("sampled before the run was broken off"))
            .count();
        let ran = run(&recipe, &dir, 1, patient(1), &|_, _, _, _| {});
        assert_eq!(ran.errors, [None]);
        assert_eq!(differences(&alone, &dir), [""; 0], "rank {silent} was silent");
    }
    assert!(known > 0, "nothing was known from a journal");
}

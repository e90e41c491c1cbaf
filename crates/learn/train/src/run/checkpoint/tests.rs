use super::*;
use crate::group::Group;
use crate::learner::Coefficients;
use crate::rl::Recipe;
use crate::settings::LoraSettings;
use crate::test_support::{cpu, group, learner_of, model_dir};
use crate::trainer::TrainingRecipe;
use isentrope_budget::PassLimits;
use isentrope_model::Sequence;
use isentrope_ranks::threads::worlds;
use isentrope_ranks::{Settings, Watch};
use serde_json::{Value, json};
use std::sync::Arc;
use std::thread;

fn state<S>(optimizer: UpdateCounts, step: u64, trainer: S) -> RunState<S> {
    RunState {
        step,
        optimizer,
        process_optimizer: None,
        standing: Standing::default(),
        unrecorded: None,
        unwritten: Vec::new(),
        is_interim: false,
        initial_states: None,
        trainer,
    }
}

/// A checkpoint of nothing but the trainer's state, one group, with hashes that are right.
fn saved(dir: &Path, group: &Value) -> CheckpointStore {
    let store = CheckpointStore::new(dir.to_owned(), CheckpointSettings::default());
    let checkpoint = store.path(3);
    fs::create_dir_all(checkpoint.join("trainer")).unwrap();
    let state = state(UpdateCounts::default(), 3, [group]);
    let path = checkpoint.join(STATE);
    write_json(&path, &state).unwrap();
    let files = Files(BTreeMap::from([hashed(&checkpoint, &path).unwrap()]));
    write_json(&checkpoint.join(FILES), &files).unwrap();
    store
}

#[test]
fn groups_of_another_version_are_refused_and_not_left_out() {
    let group = group(&[], None);
    let mut group = serde_json::to_value(group).unwrap();
    let (own, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let latest = |dir: &tempfile::TempDir, group: &Value| {
        saved(dir.path(), group)
            .latest::<Vec<Group>>(&TrainingRanks::alone(1), &mut |message| panic!("{message}"))
    };
    assert_eq!(latest(&own, &group).unwrap().unwrap().state.trainer.len(), 1);
    group.as_object_mut().unwrap().remove("greedy");
    group["greedy_reward"] = json!(1.0);
    let message = latest(&others, &group).err().unwrap().to_string();
    for part in ["state.json", "another version", "greedy_reward", "--overwrite"] {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

const LIMITS: PassLimits = PassLimits {
    micro_batch_tokens: 40,
    tape_bytes: usize::MAX,
    activation_slots: 0,
    by_layer: false,
    offloads_inputs: false,
    weights_in_slices: false,
};

/// Runs this on each of `count` ranks.
fn on_ranks(count: usize, act: impl Fn(&TrainingRanks) + Sync) {
    let settings = Settings {
        threads: 1,
        program: "isentrope of a test".into(),
        watch: Watch { silent: None, ..Watch::default() },
        tell: Arc::new(|_| {}),
    };
    thread::scope(|scope| {
        for world in worlds(count, &settings).unwrap().0 {
            scope.spawn(|| act(&TrainingRanks::new(Arc::new(world), 16).unwrap()));
        }
    });
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let Files(files) = read_json(&dir.join(FILES)).unwrap();
    let names = files.into_keys().chain([FILES.to_owned()]);
    names.map(|name| (name.clone(), fs::read(dir.join(name)).unwrap())).collect()
}

#[test]
fn ranks_write_the_files_of_one_and_go_on_from_them() {
    write_and_read(None);
}

#[test]
fn ranks_write_the_files_of_one_and_go_on_from_them_of_adapters() {
    write_and_read(Some(LoraSettings::default()));
}

fn write_and_read(lora: Option<LoraSettings>) {
    let is_whole = lora.is_none();
    let recipe = Recipe { lora, ..Recipe::default() };
    let parent = tempfile::tempdir().unwrap();
    let source = model_dir();
    let models = |ranks: &TrainingRanks| {
        Models::open(&source, recipe.tables(), None, ranks, Arc::new(cpu())).unwrap()
    };
    let new = |ranks: &TrainingRanks| learner_of(models(ranks).first(None).unwrap(), ranks, LIMITS);
    let store = |name: String| {
        let dir = parent.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        let settings =
            CheckpointSettings { dtype: Dtype::Bfloat16, ..CheckpointSettings::default() };
        CheckpointStore { max_file_bytes: 6000, ..CheckpointStore::new(dir, settings) }
    };
    let save = |store: &CheckpointStore, learner: &mut Learner, step| {
        let state = state(learner.optimizer.progress, step, ());
        let models = models(&learner.ranks);
        let mut learners =
            Learners { policy: learner, process_model: None, adapter: models.adapter() };
        store.save(&mut learners, &source, &state).unwrap();
    };
    let tokens: Vec<Vec<u32>> = (0..16).map(|i| (i..i + 9).collect()).collect();
    for count in [1, 2, 4, 16] {
        let (store, freed) = (store(count.to_string()), store(format!("freed{count}")));
        on_ranks(count, |ranks| {
            let mut learner = new(ranks);
            let sequences: Vec<_> =
                tokens.iter().map(|tokens| Sequence { tokens, score_from: 1 }).collect();
            let zeros = vec![0.0; 16 * 8];
            let weights = Coefficients {
                d_logprobs: vec![-0.1; 16 * 8],
                d_entropies: zeros,
                ..Coefficients::default()
            };
            learner.accumulate_weighted(&sequences, 1.0, &weights).unwrap();
            assert!(learner.step(1e-3).unwrap().is_finite());
            save(&store, &mut learner, 1);
            // A gradient whose memory is somebody else's is not asked for.
            learner.free_gradient();
            save(&freed, &mut learner, 1);
            assert!(!learner.has_gradient());
        });
        assert!(
            contents(&freed.path(1)) == contents(&store.path(1)),
            "without the gradient's memory, {count} ranks"
        );
    }
    let alone = contents(&store("1".into()).path(1));
    let of_kind = |part: &str| alone.keys().filter(|name| name.starts_with(part)).count();
    assert!(
        !is_whole || of_kind("model-000") > 3 && of_kind(MOMENTS) > 3 && of_kind(WEIGHTS) > 3,
        "{:?}",
        alone.keys()
    );
    for count in [2, 4, 16] {
        assert!(contents(&store(count.to_string()).path(1)) == alone, "{count} ranks");
    }
    // Eight ranks read what four have written.
    let store = store("4".into());
    on_ranks(8, |ranks| {
        let found = store.latest::<()>(ranks, &mut |message| panic!("{message}")).unwrap().unwrap();
        let mut learner = new(ranks);
        let (model, (moments, progress)) = found.policy(&models(ranks)).unwrap();
        learner.model = model;
        learner.read_moments(&moments, progress).unwrap();
        save(&store, &mut learner, 2);
    });
    let mut again = contents(&store.path(2));
    for name in [STATE, FILES] {
        again.insert(name.to_owned(), alone[name].clone());
    }
    assert!(again == alone, "other moments or weights");

    // A checkpoint that cannot be written again stays.
    let before = contents(&store.path(2));
    on_ranks(1, |ranks| {
        let mut learner = new(ranks);
        let models = models(ranks);
        let mut learners =
            Learners { policy: &mut learner, process_model: None, adapter: models.adapter() };
        let bad = BTreeMap::from([((0, 1), "JSON has no such keys")]);
        let state = state(UpdateCounts::default(), 2, bad);
        store.save(&mut learners, &source, &state).unwrap_err();
    });
    assert!(contents(&store.path(2)) == before);

    // Damage that one rank finds is known to all.
    let moments = fs::read_dir(store.path(2).join(MOMENTS)).unwrap();
    let damaged = moments.map(|entry| entry.unwrap().path()).max().unwrap();
    fs::write(&damaged, "damaged").unwrap();
    on_ranks(4, |ranks| {
        let mut notes = Vec::new();
        let found =
            store.latest::<()>(ranks, &mut |text| notes.push(text.to_owned())).unwrap().unwrap();
        assert_eq!((found.state.step, notes.len()), (1, 1));
        assert!(notes[0].contains(&damaged.display().to_string()), "{notes:?}");
    });
}

/// The files of a checkpoint of 32.8 billion weights, of at most 5 GB: 14 of the model, 27 of exact
/// weights and 53 of moments.
#[test]
fn ranks_write_about_as_much_as_each_other() {
    let weights = 32_800_000_000_usize;
    let sets = [2, 4, 8, 0, 0].map(|bytes| bytes * weights);
    let whole: usize = sets.iter().sum();
    assert_eq!(most_of_a_rank(&sets, 1), whole);
    for ranks in [2, 4, 8, 32, 64] {
        let most = most_of_a_rank(&sets, ranks);
        let file = MAX_SHARD_BYTES as usize;
        assert!(most >= whole / ranks && most < whole / ranks + 3 * file, "{ranks}: {most}");
    }
    // Sets of one file each begin with another rank.
    assert_eq!(most_of_a_rank(&[2, 4, 8, 4, 8], 8), 8);
}

use super::*;
use crate::group::Group;
use serde_json::{Value, json};

/// A checkpoint of nothing but the trainer's state, one group, with hashes that are right.
fn saved(dir: &Path, group: &Value) -> CheckpointStore {
    let store = CheckpointStore::new(dir.to_owned(), Checkpoints::default());
    let checkpoint = store.path(3);
    fs::create_dir_all(checkpoint.join("trainer")).unwrap();
    let optimizer = optimizer::Progress::default();
    let (first, last) = (Vec::new(), Vec::new());
    let state = RunState {
        step: 3,
        optimizer,
        process_optimizer: None,
        best: None,
        first,
        last,
        last_step: 0,
        alarms: Alarms::default(),
        unrecorded: None,
        unwritten: Vec::new(),
        initial_states: None,
        trainer: [group],
    };
    write_json(&checkpoint.join("trainer/state.json"), &state).unwrap();
    write_json(&checkpoint.join("trainer/files.json"), &Files::of(&checkpoint).unwrap()).unwrap();
    store
}

#[test]
fn groups_of_another_version_are_refused_and_not_left_out() {
    let problem = isentrope_data::Problem {
        prompt: isentrope_data::Prompt::Text("1+1?".into()),
        ground_truth: json!("2"),
        data_source: String::new(),
        extra_info: Value::Null,
        columns: isentrope_data::Row::new(),
        origin: "row 1".into(),
    };
    let group = Group { step: 2, position: 0, problem, prompt: vec![1], responses: Vec::new(), greedy: None };
    let mut group = serde_json::to_value(group).unwrap();
    let (own, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let latest = |dir: &tempfile::TempDir, group: &Value| {
        saved(dir.path(), group).latest::<Vec<Group>>(&mut |said| panic!("{said}"))
    };
    assert_eq!(latest(&own, &group).unwrap().unwrap().state.trainer.len(), 1);
    group.as_object_mut().unwrap().remove("greedy");
    group["greedy_reward"] = json!(1.0);
    let said = latest(&others, &group).err().unwrap().to_string();
    for part in ["state.json", "another version", "greedy_reward", "--overwrite"] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

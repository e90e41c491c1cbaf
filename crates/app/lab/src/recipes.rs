//! The part of a recipe that decides a run's results.

use serde_json::Value;

/// Keys that change no result: the run's directory and device, how often checkpoints are saved and
/// kept, memory, how long ranks wait for each other, what moves their bytes and what each of them
/// holds. (The type of numbers, `device.dtype`, does change results; `checkpoint.dtype` changes the
/// results of runs that begin with a checkpoint.)
const NO_RESULTS: [&str; 9] = [
    "run.out",
    "memory",
    "checkpoint.every",
    "checkpoint.minutes",
    "checkpoint.keep",
    "device.kind",
    "ranks.timeout_s",
    "ranks.transport",
    "ranks.shard",
];

/// A recipe's values without the keys that change no result.
pub fn deciding(recipe: &Value) -> Value {
    let mut recipe = recipe.clone();
    for key in NO_RESULTS {
        let (tables, key) = key.rsplit_once('.').map_or(("", key), |(table, key)| (table, key));
        let table = if tables.is_empty() { Some(&mut recipe) } else { recipe.get_mut(tables) };
        if let Some(table) = table.and_then(Value::as_object_mut) {
            table.remove(key);
        }
    }
    recipe
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_changes_no_result_is_left_out_and_nothing_else() {
        let recipe = json!({
            "run": { "out": "here", "seed": 1 },
            "memory": { "budget_gib": 2.0 },
            "checkpoint": { "every": 20, "minutes": 10.0, "keep": 2, "dtype": "float32" },
            "device": { "kind": "cuda", "dtype": "f32" },
            "ranks": { "timeout_s": 600.0, "transport": "auto", "shard": "weights" },
        });
        let decides = json!({
            "run": { "seed": 1 },
            "checkpoint": { "dtype": "float32" },
            "device": { "dtype": "f32" },
            "ranks": {},
        });
        assert_eq!(deciding(&recipe), decides);
        assert_eq!(deciding(&json!({ "run": 1 })), json!({ "run": 1 }));
        assert_eq!(deciding(&json!(null)), json!(null));
    }
}

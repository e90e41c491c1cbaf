//! Differences between older and newer settings: of a run and its resumption, of two evaluations.

use serde_json::{Map, Number, Value};

/// Appends each changed value, by its key below `key`: `data.limit 2 -> 3`. A missing value is
/// null.
pub fn differences(key: &str, before: &Value, now: &Value, changes: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(b), Value::Object(n)) => {
            for name in n.keys().chain(b.keys().filter(|name| !n.contains_key(*name))) {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                let value =
                    |values: &Map<String, Value>| values.get(name).cloned().unwrap_or_default();
                differences(&key, &value(b), &value(n), changes);
            }
        }
        _ if before != now => {
            changes.push(format!("{key} {} -> {}", written(before), written(now)));
        }
        _ => {}
    }
}

/// A value as written: a single-precision number with its shortest digits, 0.6, and not with the
/// digits of double precision, 0.6000000238418579.
fn written(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            let single = number.as_f64().filter(|x| number.is_f64() && f64::from(*x as f32) == *x);
            let shortest = single.and_then(|x| (x as f32).to_string().parse().ok());
            shortest.and_then(Number::from_f64).map_or_else(|| value.clone(), Value::Number)
        }
        Value::Array(values) => Value::Array(values.iter().map(written).collect()),
        Value::Object(values) => Value::Object(
            values.iter().map(|(name, value)| (name.clone(), written(value))).collect(),
        ),
        _ => value.clone(),
    }
}

/// Adds settings that did not exist when `values` were written, with their defaults.
pub fn complete(values: &mut Value, defaults: &Value) {
    if let (Value::Object(values), Value::Object(defaults)) = (values, defaults) {
        for (name, default) in defaults {
            complete(values.entry(name).or_insert_with(|| default.clone()), default);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_named_by_their_keys_and_what_is_missing_is_null() {
        let before = json!({"run": {"steps": 3, "seed": 1}, "gone": true});
        let now = json!({"run": {"steps": 5, "seed": 1}, "new": [2]});
        let mut changes = Vec::new();
        differences("", &before, &now, &mut changes);
        assert_eq!(changes, ["run.steps 3 -> 5", "new null -> [2]", "gone true -> null"]);
        changes.clear();
        differences("data", &before, &before, &mut changes);
        assert_eq!(changes, [""; 0]);
    }

    #[test]
    fn numbers_of_single_precision_are_told_as_they_were_written() {
        let mut changes = Vec::new();
        let before = json!({"eval": {"temperature": [1.0f32, 0.6f32]}, "rate": 1e-6});
        let now = json!({"eval": {"temperature": 0.7f32}, "rate": 0.6000000238418579f64 / 3.0});
        differences("", &before, &now, &mut changes);
        assert_eq!(
            changes,
            ["eval.temperature [1.0,0.6] -> 0.7", "rate 1e-6 -> 0.20000000794728598"]
        );
    }

    #[test]
    fn settings_of_older_runs_are_what_they_are_without_a_word() {
        let mut before = json!({"rollout": {"prompts": 4}, "run": {"steps": null}});
        let defaults = json!({"rollout": {"prompts": 64, "top_p": 1.0}, "run": {"steps": 100}, "eval": {"top_k": 0}});
        complete(&mut before, &defaults);
        assert_eq!(
            before,
            json!({"rollout": {"prompts": 4, "top_p": 1.0}, "run": {"steps": null}, "eval": {"top_k": 0}})
        );
    }
}

//! The differences between the settings of two evaluations.

use isentrope_settings::differences;
use serde_json::{Value, json};

/// Adds the differences of two manifests in the settings of all benchmarks, besides the model.
pub(super) fn of_all_benchmarks(before: &Value, now: &Value, changes: &mut Vec<String>) {
    for key in ["isentrope", "seed", "date"] {
        differences(key, &before[key], &now[key], changes);
    }
    // A manifest without an arithmetic means f32.
    let arithmetic =
        |manifest: &Value| manifest.get("arithmetic").cloned().unwrap_or_else(|| json!("f32"));
    differences("arithmetic", &arithmetic(before), &arithmetic(now), changes);
}

/// Adds the differences between a benchmark's settings in two manifests, such as `mine.limit 2 ->
/// 3`. For files it says only that they differ, not their hashes.
pub(super) fn of_benchmark(name: &str, before: &Value, now: &Value, changes: &mut Vec<String>) {
    for (key, whose) in [
        ("files_sha256", "its"),
        ("verifier_files_sha256", "its verifier's"),
        ("environment_files_sha256", "its environment's"),
    ] {
        if before[key] != now[key] {
            changes.push(format!("{name}: {whose} files were edited, or are others"));
        }
    }
    differences(name, &compared(before), &compared(now), changes);
}

/// The settings without hashes, and with a key that results had no need to name before there was
/// it: the processes of an environment did not open its episodes.
fn compared(settings: &Value) -> Value {
    let mut kept = settings.as_object().cloned().unwrap_or_default();
    kept.retain(|key, _| !key.ends_with("files_sha256"));
    let environment = kept.get_mut("environment").and_then(Value::as_object_mut);
    if let Some(environment) = environment.filter(|settings| settings.contains_key("workers")) {
        environment.entry("opens").or_insert(Value::Bool(false));
    }
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(add: impl Fn(&mut Vec<String>)) -> Vec<String> {
        let mut changes = Vec::new();
        add(&mut changes);
        changes
    }

    #[test]
    fn a_manifest_without_an_arithmetic_is_of_f32() {
        let [unsaid, f32, bf16] =
            [json!({}), json!({"arithmetic": "f32"}), json!({"arithmetic": "bf16"})];
        for (before, now, expected) in [
            (&unsaid, &f32, None),
            (&f32, &unsaid, None),
            (&unsaid, &bf16, Some(r#"arithmetic "f32" -> "bf16""#)),
            (&bf16, &unsaid, Some(r#"arithmetic "bf16" -> "f32""#)),
        ] {
            let found = changes(|changes| of_all_benchmarks(before, now, changes));
            assert_eq!(found, Vec::from_iter(expected));
        }
    }

    #[test]
    fn files_are_named_and_their_hashes_are_not() {
        let settings = |files: &str, scripts: Value, limit: u32| -> Value {
            json!({"files_sha256": [files], "verifier_files_sha256": scripts, "limit": limit})
        };
        let of = |before: &Value, now: &Value| {
            changes(|changes| of_benchmark("mine", before, now, changes))
        };
        let before = settings("aa", json!({"a.py": "11"}), 2);
        assert_eq!(of(&before, &before), [""; 0]);
        let scripts = "mine: its verifier's files were edited, or are others";
        let expected = [scripts, "mine.limit 2 -> 3"];
        assert_eq!(of(&before, &settings("aa", json!({"a.py": "44"}), 3)), expected);
        let expected = ["mine: its files were edited, or are others", scripts];
        assert_eq!(of(&settings("bb", Value::Null, 2), &before), expected);
    }

    #[test]
    fn environments_that_do_not_say_whether_they_open_do_not() {
        let of = |environment: Value| json!({"environment": environment});
        let unsaid = of(json!({"command": ["a"], "workers": 2}));
        let with = |opens: bool| of(json!({"command": ["a"], "workers": 2, "opens": opens}));
        let found = |before: &Value, now: &Value| {
            changes(|changes| of_benchmark("mine", before, now, changes))
        };
        assert_eq!(found(&unsaid, &with(false)), [""; 0]);
        assert_eq!(found(&unsaid, &with(true)), ["mine.environment.opens false -> true"]);
        let tools = of(json!({"kind": "tools", "tools": ["calculator"]}));
        assert_eq!(found(&tools, &tools), [""; 0]);
    }
}

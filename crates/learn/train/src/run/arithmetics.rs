//! With which arithmetic the steps of a run were made, as its manifest says.

use serde_json::Value;

/// The key of a manifest with all of them.
pub(super) const ARITHMETICS: &str = "arithmetics";

/// The arithmetic with which a process computes, as its manifest says.
pub(super) fn of_process(manifest: &Value) -> &str {
    manifest["device"]["arithmetic"].as_str().unwrap_or("f32")
}

/// From which step on a run has used each arithmetic, in order, where a process with this manifest
/// makes the steps from `first` to `last`. `before` is the older manifest; its later steps are made
/// again. A complete run stays as it is.
pub(super) fn arithmetics(
    before: Option<&Value>,
    manifest: &Value,
    first: u64,
    last: u64,
) -> Vec<(u64, String)> {
    let listed = before.map(|before| serde_json::from_value(before[ARITHMETICS].clone()));
    let mut all: Vec<(u64, String)> = listed.and_then(Result::ok).unwrap_or_default();
    all.retain(|(from, _)| *from < first);
    let now = of_process(manifest);
    if all.is_empty() || first <= last && all.last().is_some_and(|(_, last)| last != now) {
        all.push((first, now.to_owned()));
    }
    all
}

/// A note on a run with more than one.
pub(super) fn note(all: &[(u64, String)]) -> Option<String> {
    let listed: Vec<String> =
        all.iter().map(|(from, name)| format!("{name} from step {from} on")).collect();
    let listed = listed.join(", ");
    (all.len() > 1)
        .then(|| format!("the run's arithmetic is {listed}: its bits are those of none alone"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_remembers_every_arithmetic_through_all_resumes() {
        let of = |before: &Value, name: &str, first| {
            let manifest = json!({ "device": { "arithmetic": name } });
            arithmetics(Some(before), &manifest, first, 99)
        };
        let mut written = json!({});
        for (name, first, expected) in [
            ("f32", 1, json!([[1, "f32"]])),
            ("f32", 3, json!([[1, "f32"]])),
            ("bf16-t16", 5, json!([[1, "f32"], [5, "bf16-t16"]])),
            ("bf16-t16", 7, json!([[1, "f32"], [5, "bf16-t16"]])),
            ("f32", 9, json!([[1, "f32"], [5, "bf16-t16"], [9, "f32"]])),
            ("f32", 100, json!([[1, "f32"], [5, "bf16-t16"], [9, "f32"]])),
            // A complete run is looked at with any.
            ("bf16-t8", 100, json!([[1, "f32"], [5, "bf16-t16"], [9, "f32"]])),
            // Steps that are made again have the arithmetic of the second time.
            ("f32", 5, json!([[1, "f32"]])),
            ("bf16-t8", 1, json!([[1, "bf16-t8"]])),
        ] {
            let all = of(&written, name, first);
            assert_eq!(note(&all).is_some(), all.len() > 1);
            written[ARITHMETICS] = json!(all);
            assert_eq!(written[ARITHMETICS], expected, "{name} from step {first} on");
        }
        let two = [(1, "f32".to_owned()), (5, "bf16-t16".to_owned())];
        let listed = "f32 from step 1 on, bf16-t16 from step 5 on";
        assert!(note(&two).unwrap().contains(listed));
    }
}

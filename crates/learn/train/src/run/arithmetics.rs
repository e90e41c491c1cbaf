//! With which arithmetic the steps of a run were made, as its manifest says.

use serde_json::{Value, json};

/// The key of a manifest with all of them.
const KEY: &str = "arithmetics";

/// From which step on each was used, in order.
#[derive(Debug, PartialEq)]
pub(super) struct Arithmetics(Vec<(u64, String)>);

/// The arithmetic with which a process computes, as its manifest says. Those of before there was a
/// choice do not.
pub(super) fn of_process(manifest: &Value) -> &str {
    manifest["device"]["arithmetic"].as_str().unwrap_or("f32")
}

impl Arithmetics {
    /// The arithmetics of a run of so many steps, which a process with this manifest makes from
    /// step `first` on. `before` is the older manifest; its later steps are made again. A complete
    /// run stays as it is.
    pub fn new(before: Option<&Value>, manifest: &Value, first: u64, steps: u64) -> Self {
        let mut all = before.map(Self::read).unwrap_or_default();
        all.retain(|(from, _)| *from < first);
        let now = of_process(manifest);
        if all.is_empty() || first <= steps && all.last().is_some_and(|(_, last)| last != now) {
            all.push((first, now.to_owned()));
        }
        Self(all)
    }

    fn read(manifest: &Value) -> Vec<(u64, String)> {
        let listed = serde_json::from_value(manifest[KEY].clone());
        listed.unwrap_or_else(|_| vec![(1, of_process(manifest).to_owned())])
    }

    /// The manifest with them.
    pub fn added_to(&self, manifest: &Value) -> Value {
        let mut manifest = manifest.clone();
        manifest[KEY] = json!(self.0);
        manifest
    }

    /// A note on a run with more than one.
    pub fn note(&self) -> Option<String> {
        let listed: Vec<String> = self
            .0
            .iter()
            .map(|(from, arithmetic)| format!("{arithmetic} from step {from} on"))
            .collect();
        (listed.len() > 1).then(|| {
            format!(
                "the run's arithmetic is {}: its bits are those of none alone",
                listed.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(arithmetic: &str) -> Value {
        json!({ "seed": 1, "device": { "arithmetic": arithmetic } })
    }

    #[test]
    fn a_run_remembers_every_arithmetic_through_all_resumes() {
        let (f32, bf16) = (manifest("f32"), manifest("bf16-t16"));
        let begun = Arithmetics::new(None, &f32, 1, 99);
        assert_eq!(
            (begun.note(), &begun.added_to(&f32)["arithmetics"]),
            (None, &json!([[1, "f32"]]))
        );
        let mut written = begun.added_to(&f32);
        let mut said = Vec::new();
        for (now, first) in [(&f32, 3), (&bf16, 5), (&bf16, 7), (&f32, 9), (&f32, 11)] {
            let all = Arithmetics::new(Some(&written), now, first, 99);
            written = all.added_to(now);
            said.push(all.note());
        }
        assert_eq!(written["arithmetics"], json!([[1, "f32"], [5, "bf16-t16"], [9, "f32"]]));
        assert_eq!(written["seed"], 1);
        let note = |listed| {
            Some(format!("the run's arithmetic is {listed}: its bits are those of none alone"))
        };
        let two = note("f32 from step 1 on, bf16-t16 from step 5 on");
        let three = note("f32 from step 1 on, bf16-t16 from step 5 on, f32 from step 9 on");
        assert_eq!(said, [None, two.clone(), two, three.clone(), three]);
    }

    #[test]
    fn what_is_made_again_has_the_arithmetic_of_the_second_time() {
        let written = Arithmetics(vec![(1, "f32".into()), (5, "bf16-t16".into())])
            .added_to(&manifest("bf16-t16"));
        for (first, all) in [(5, json!([[1, "f32"]])), (1, json!([[1, "f32"]]))] {
            let again = Arithmetics::new(Some(&written), &manifest("f32"), first, 99);
            assert_eq!(again.added_to(&written)["arithmetics"], all, "from step {first}");
        }
        // A run that is complete is looked at with any.
        let looked = Arithmetics::new(Some(&written), &manifest("f32"), 10, 9).added_to(&written);
        assert_eq!(looked["arithmetics"], written["arithmetics"]);
        // Nothing of it is left where the run begins anew.
        let anew = Arithmetics::new(Some(&written), &manifest("bf16-t8"), 1, 99);
        assert_eq!(anew, Arithmetics(vec![(1, "bf16-t8".into())]));
    }

    #[test]
    fn manifests_without_a_list_say_one_or_are_from_before_there_was_a_choice() {
        let of = |before: Option<&Value>| Arithmetics::new(before, &manifest("f32"), 4, 99).0;
        assert_eq!(of(Some(&json!({ "seed": 1 }))), [(1, "f32".into())]);
        assert_eq!(of(Some(&manifest("bf16-t8"))), [(1, "bf16-t8".into()), (4, "f32".into())]);
        assert_eq!(of(None), [(4, "f32".into())], "of earlier steps nothing is known");
    }
}

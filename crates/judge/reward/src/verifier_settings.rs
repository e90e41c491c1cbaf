//! The recipe's key `reward.verifier`: which verifier judges, and the verifier made of it.

use std::collections::BTreeMap;

use isentrope_settings::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::combined::{ByDataSourceVerifier, WeightedVerifier};
use crate::verifiers::Spec;
use crate::{Item, Single, Verifier, VerifierError, VerifierName};

/// The recipe's key, for messages.
const KEY: &str = "reward.verifier";

/// Which verifier judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum VerifierSettings {
    /// One choice for all problems.
    All(Combined),
    /// Another verifier for each source of problems, by the exact text of the data's column
    /// `data_source`.
    ByDataSource(ByDataSource),
}

/// One verifier or the weighted sum of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Combined {
    /// One.
    Single(Single),
    /// A weighted sum: the score is the sum of the parts' scores, each times its weight. The
    /// verdict and the answer are the first part's, so the one that decides what is correct comes
    /// first. What one part cannot judge is not judged at all; a part that does not apply to a
    /// problem is left out.
    Weighted(Weighted),
}

/// A weighted sum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weighted {
    /// The parts, at least one.
    pub weighted: Vec<Part>,
}

/// A part of a weighted sum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// A built-in verifier, a command or a function.
    pub verifier: Single,
    /// The factor of its score. A negative weight makes a penalty of it; with 0 it is only
    /// measured.
    pub weight: f64,
}

/// A choice by data source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByDataSource {
    /// The verifier of each source: a built-in one, a command, a function or a weighted sum.
    pub by_data_source: BTreeMap<String, Combined>,
    /// The verifier of all other sources. Unset: there must be none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Combined>,
}

impl From<VerifierName> for VerifierSettings {
    fn from(name: VerifierName) -> Self {
        Self::All(Combined::Single(Single::BuiltIn(name)))
    }
}

impl Default for VerifierSettings {
    fn default() -> Self {
        VerifierName::default().into()
    }
}

impl VerifierSettings {
    /// Checks what ranges do not say.
    ///
    /// # Errors
    /// [`Error`] naming the first thing that is wrong.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.choices().into_iter().try_for_each(|(key, combined)| combined.check(&key))
    }

    /// Makes the verifier, and with it the processes of commands.
    ///
    /// # Errors
    /// When a command cannot be started.
    pub fn build(&self) -> Result<Box<dyn Verifier>, VerifierError> {
        let mut built = Vec::new();
        for (key, combined) in self.choices() {
            built.push(combined.build(&key)?);
        }
        Ok(match self {
            Self::All(_) => built.remove(0),
            Self::ByDataSource(ByDataSource { by_data_source, .. }) => {
                let mut built = built.into_iter();
                let by_data_source = by_data_source.keys().cloned().zip(built.by_ref()).collect();
                Box::new(ByDataSourceVerifier { by_data_source, otherwise: built.next() })
            }
        })
    }

    /// Whether problems of a data source have a verifier.
    ///
    /// # Errors
    /// What is wrong, and what to do, as part of a sentence.
    pub fn check_data_source(&self, data_source: &str) -> Result<(), String> {
        self.of(data_source).map(drop).ok_or_else(|| {
            format!(
                "its data source {data_source:?} has no verifier: name it in \
                 reward.verifier.by_data_source, or set reward.verifier.otherwise"
            )
        })
    }

    /// Whether the verifier of a problem's data source can use the ground truth; null stands for a
    /// missing one. Commands and functions can use any, also a missing one. For a source without a
    /// verifier any is fine: see [`check_data_source`](Self::check_data_source).
    ///
    /// # Errors
    /// What is wrong with it, as part of a sentence.
    pub fn check_ground_truth(
        &self,
        ground_truth: &Value,
        data_source: &str,
    ) -> Result<(), String> {
        self.specs_of(data_source).try_for_each(|spec| spec.check_ground_truth(ground_truth))
    }

    /// Whether problems of a data source may be judged by the tests of a program.
    pub fn judges_programs(&self, data_source: &str) -> bool {
        self.specs_of(data_source).any(|spec| spec.judges_programs())
    }

    /// Whether there are data sources whose problems may be judged by the tests of a program.
    pub fn judges_any_programs(&self) -> bool {
        self.specs().any(|spec| spec.judges_programs())
    }

    /// A reason why right responses to a problem may be judged wrong although its ground truth can
    /// be used, as part of a sentence. Only mathematical answers have one.
    pub fn concern(&self, item: &Item<'_>) -> Option<String> {
        self.specs_of(item.data_source).find_map(|spec| spec.concern(item))
    }

    /// Most processes of one verifier; none if all judge in this process.
    pub fn workers(&self) -> Option<usize> {
        self.specs().filter_map(|spec| spec.workers()).max()
    }

    /// Names in the settings that may be files on which verdicts depend: the arguments of commands,
    /// the files of functions.
    pub fn files(&self) -> Vec<String> {
        self.specs().flat_map(|spec| spec.files()).collect()
    }

    /// Whether a verifier is given all columns of a problem's row: Python functions are.
    pub fn takes_columns(&self) -> bool {
        self.specs().any(|spec| spec.takes_columns())
    }

    /// Whether all responses score 0 without being looked at.
    pub fn judges_nothing(&self) -> bool {
        self.specs().all(|spec| spec.judges_nothing())
    }

    /// Whether a verifier judges all responses to a problem together.
    pub fn judges_groups(&self) -> bool {
        self.specs().any(|spec| spec.judges_groups())
    }

    /// The choices, each with its key.
    fn choices(&self) -> Vec<(String, &Combined)> {
        match self {
            Self::All(combined) => vec![(KEY.to_owned(), combined)],
            Self::ByDataSource(ByDataSource { by_data_source, otherwise }) => {
                let named = by_data_source.iter().map(|(source, combined)| {
                    (format!("{KEY}.by_data_source.{source:?}"), combined)
                });
                named
                    .chain(otherwise.iter().map(|combined| (format!("{KEY}.otherwise"), combined)))
                    .collect()
            }
        }
    }

    /// The settings of all verifiers that are not made of others.
    fn specs(&self) -> impl Iterator<Item = Box<dyn Spec>> {
        self.choices().into_iter().flat_map(|(_, combined)| combined.parts()).map(Single::spec)
    }

    /// The settings of the verifiers of a data source's problems; none for a source without one.
    fn specs_of(&self, data_source: &str) -> impl Iterator<Item = Box<dyn Spec>> {
        self.of(data_source).into_iter().flat_map(Combined::parts).map(Single::spec)
    }

    fn of(&self, data_source: &str) -> Option<&Combined> {
        match self {
            Self::All(combined) => Some(combined),
            Self::ByDataSource(ByDataSource { by_data_source, otherwise }) => {
                by_data_source.get(data_source).or(otherwise.as_ref())
            }
        }
    }
}

impl Combined {
    /// The verifiers that it is made of.
    fn parts(&self) -> Vec<&Single> {
        match self {
            Self::Single(single) => vec![single],
            Self::Weighted(Weighted { weighted }) => {
                weighted.iter().map(|part| &part.verifier).collect()
            }
        }
    }

    fn check(&self, key: &str) -> Result<(), Error> {
        let weighted = match self {
            Self::Single(single) => return single.spec().check(key),
            Self::Weighted(Weighted { weighted }) => weighted,
        };
        let wrong = |key: String, value: String, expected: &str| {
            Err(Error { key, value, expected: expected.into() })
        };
        if weighted.is_empty() {
            let expected =
                "it must have at least one part, such as { verifier = \"math\", weight = 1.0 }";
            return wrong(format!("{key}.weighted"), "[]".into(), expected);
        }
        for (i, part) in weighted.iter().enumerate() {
            let key = format!("{key}.weighted.{i}");
            if !part.weight.is_finite() {
                let value = part.weight.to_string();
                return wrong(format!("{key}.weight"), value, "it must be a finite number");
            }
            part.verifier.spec().check(&format!("{key}.verifier"))?;
        }
        Ok(())
    }

    fn build(&self, key: &str) -> Result<Box<dyn Verifier>, VerifierError> {
        let build = |single: &Single, key: &str| single.spec().build(key, &single.recipe_value());
        let weighted = match self {
            Self::Single(single) => return build(single, key),
            Self::Weighted(Weighted { weighted }) => weighted,
        };
        let parts = weighted.iter().enumerate().map(|(i, part)| {
            Ok((part.weight, build(&part.verifier, &format!("{key}.weighted.{i}.verifier"))?))
        });
        Ok(Box::new(WeightedVerifier(parts.collect::<Result<_, VerifierError>>()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use serde_json::json;

    fn read(value: Value) -> VerifierSettings {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn settings_are_what_recipes_write() {
        for value in [
            json!("auto"),
            json!({"math": {
                "extraction": "boxed", "decimals": 4, "significant_digits": 5, "allow_set_relation": false,
                "allow_undone": true
            }}),
            json!({
                "command": ["a"], "workers": 3, "timeout_s": 1.5, "startup_s": 0.0,
                "batch": "response"
            }),
            json!({
                "python": "a/b.py:f", "arguments": {"x": 1, "y": 0.5, "z": ["t"]}, "interpreter": "p", "sandbox": true,
                "workers": 3, "timeout_s": 1.5, "startup_s": 0.0, "batch": "group"
            }),
            json!("code"),
            json!({"code": {
                "workers": 3, "score": "fraction", "timeout_s": 2.5, "total_timeout_s": 20.0, "memory_mib": 512, "output_mib": 4,
                "tolerance": 1e-6, "python": "/usr/bin/python3"
            }}),
            json!({"weighted": [{"verifier": "math", "weight": 0.5}]}),
            json!({"by_data_source": {"a": "math", "b": {"weighted": []}}, "otherwise": "auto"}),
            json!({"by_data_source": {}}),
        ] {
            assert_eq!(serde_json::to_value(read(value.clone())).unwrap(), value);
        }
        let strict = read(json!({"math": {"extraction": "boxed"}})).build().unwrap();
        let item = Item { ground_truth: &json!("3"), ..Item::default() };
        let judged =
            strict.verify_batch(&[(item, "The answer is 3."), (item, "\\boxed{3}")]).unwrap();
        let verdicts: Vec<Verdict> = judged.iter().map(|judgement| judgement.verdict).collect();
        assert_eq!(verdicts, [Verdict::Unparseable, Verdict::Correct]);
        let VerifierSettings::All(Combined::Single(Single::Command(command))) =
            read(json!({"command": ["a", "b"]}))
        else {
            panic!("a command was read as something else")
        };
        assert_eq!((command.processes.workers, command.processes.timeout_s), (2, 10.0));
        for value in [
            json!("maths"),
            json!({"command": "a"}),
            json!({"command": ["a"], "weighted": []}),
            json!({}),
        ] {
            assert!(serde_json::from_value::<VerifierSettings>(value.clone()).is_err(), "{value}");
        }
    }

    #[test]
    fn commands_and_functions_are_found_wherever_they_stand() {
        let sum = json!({"weighted": [
            {"verifier": "math", "weight": 1}, {"verifier": {"command": ["a"]}, "weight": 1},
            {"verifier": {"command": ["b", "x"], "workers": 3}, "weight": 0}
        ]});
        let function = json!({"python": "d/e.py:f", "workers": 7});
        let module = json!({"python": "d.e:f"});
        let sources =
            json!({"by_data_source": {"y": {"command": ["c"]}, "x": sum}, "otherwise": function});
        for (value, files, workers, takes_columns) in [
            (json!("math"), &[][..], None, false),
            (json!({"command": ["a"]}), &["a"], Some(2), false),
            (sum.clone(), &["a", "b", "x"], Some(3), false),
            (module, &[], Some(2), true),
            (sources, &["a", "b", "x", "c", "d/e.py"], Some(7), true),
        ] {
            let settings = read(value);
            assert_eq!(settings.files(), files);
            assert_eq!((settings.workers(), settings.takes_columns()), (workers, takes_columns));
        }
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let key = |value: Value| {
            let settings =
                crate::RewardSettings { verifier: read(value), ..crate::RewardSettings::default() };
            settings.check(1).unwrap_err().key
        };
        for (name, value) in [
            ("command", json!({"command": []})),
            ("command", json!({"command": ["", "a"]})),
            ("code.workers", json!({"code": {"workers": 0}})),
            ("code.timeout_s", json!({"code": {"timeout_s": 0}})),
            ("code.memory_mib", json!({"code": {"memory_mib": 1}})),
            ("code.tolerance", json!({"code": {"tolerance": 1.0}})),
            ("python", json!({"python": "reward.py"})),
            ("python", json!({"python": "reward.py:"})),
            ("python", json!({"python": "reward.py:a b"})),
            ("python", json!({"python": ":f"})),
            ("python", json!({"python": "a/b:f"})),
            ("interpreter", json!({"python": "reward.py:f", "interpreter": ""})),
            ("workers", json!({"python": "reward.py:f", "workers": 0})),
            ("timeout_s", json!({"python": "reward.py:f", "timeout_s": 0})),
            ("workers", json!({"command": ["a"], "workers": 0})),
            ("workers", json!({"command": ["a"], "workers": 1025})),
            ("timeout_s", json!({"command": ["a"], "timeout_s": 0})),
            ("timeout_s", json!({"command": ["a"], "timeout_s": 1e300})),
            ("startup_s", json!({"command": ["a"], "startup_s": -1})),
        ] {
            assert_eq!(key(value.clone()), format!("{KEY}.{name}"));
            let part = json!({"verifier": value, "weight": 1});
            let sum = json!({"weighted": [{"verifier": "math", "weight": 1}, part]});
            assert_eq!(key(sum.clone()), format!("{KEY}.weighted.1.verifier.{name}"));
            let sources = json!({"by_data_source": {"a": "math", "b": sum}});
            assert_eq!(
                key(sources),
                format!("{KEY}.by_data_source.\"b\".weighted.1.verifier.{name}")
            );
            assert_eq!(
                key(json!({"by_data_source": {}, "otherwise": value})),
                format!("{KEY}.otherwise.{name}")
            );
        }
        assert_eq!(key(json!({"weighted": []})), "reward.verifier.weighted");
        let part = Part { verifier: Single::BuiltIn(VerifierName::Math), weight: f64::INFINITY };
        let sum = VerifierSettings::All(Combined::Weighted(Weighted { weighted: vec![part] }));
        assert_eq!(sum.check().unwrap_err().key, "reward.verifier.weighted.0.weight");
    }
}

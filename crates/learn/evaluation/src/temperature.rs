//! The recipe's key `eval.temperature`: one temperature, or several.

use crate::error::{Error, Result};
use isentrope_rollout::Sampling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most temperatures: each evaluates every set once more.
const MOST: usize = 8;

/// Temperatures at which sets are evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Temperature {
    /// One.
    One(f32),
    /// The sets' own names belong to the first temperature; each further temperature makes further
    /// sets.
    Several(Vec<f32>),
}

impl Temperature {
    /// All of them, the first first.
    pub fn all(&self) -> &[f32] {
        match self {
            Self::One(temperature) => std::slice::from_ref(temperature),
            Self::Several(temperatures) => temperatures,
        }
    }

    /// Checks each temperature, and that they differ.
    ///
    /// # Errors
    /// [`Error::Setting`] that names the first that is out of range or there already.
    pub fn check(&self) -> Result<()> {
        let refused = |what: String| Err(Error::setting("eval.temperature", what));
        let all = self.all();
        if all.is_empty() {
            return refused("is []: it must be a number, or an array of at least one".to_owned());
        }
        if all.len() > MOST {
            let what = format!(
                "has {} values: it may have at most {MOST}, since every set is evaluated at each \
                 of them",
                all.len()
            );
            return refused(what);
        }
        for (place, &temperature) in all.iter().enumerate() {
            let sampling = Sampling { temperature, ..Sampling::default() };
            if let Err(e) = sampling.check() {
                return refused(e.to_string().replacen("temperature ", "", 1));
            }
            if all[..place].contains(&temperature) {
                return refused(format!(
                    "has {temperature} twice, which would be the same evaluation twice"
                ));
            }
        }
        Ok(())
    }
}

/// As a recipe has it.
impl fmt::Display for Temperature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(temperature) => write!(f, "{temperature}"),
            Self::Several(temperatures) => {
                let all: Vec<String> = temperatures.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", all.join(", "))
            }
        }
    }
}

/// The name of a set at a further temperature, which has the fewest digits.
pub fn name_at(set: &str, temperature: f32) -> String {
    format!("{set}_t{}", temperature + 0.0) // -0 is 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_are_in_range_and_different_and_written_shortly() {
        for (all, what) in [
            (&[1.0, 0.6, 0.0][..], ""),
            (&[100.0, 0.01], ""),
            (&[], "eval.temperature is []: it must be a number, or an array of at least one"),
            (&[1.0, -1.0], "eval.temperature is -1: it must be 0"),
            (&[1.0, 0.6, 0.6], "eval.temperature has 0.6 twice"),
            (&[0.0, -0.0], "eval.temperature has -0 twice"),
        ] {
            let checked = Temperature::Several(all.to_vec()).check();
            let said = checked.err().map_or(String::new(), |error| error.to_string());
            assert!(said.starts_with(what) && said.is_empty() == what.is_empty(), "{said}");
        }
        assert!(Temperature::One(0.001).check().is_err());
        assert_eq!(Temperature::Several(vec![1.0, 0.6]).to_string(), "[1, 0.6]");
        for (temperature, name) in [(0.6, "test_t0.6"), (1.0, "test_t1"), (-0.0, "test_t0")] {
            assert_eq!(name_at("test", temperature), name);
        }
    }
}

//! Losses and entropy methods with published settings, by name.

use crate::recipe;
use anyhow::{Context, Result, bail};
use isentrope_lab::methods::NamedObjective;
use isentrope_objective::ObjectiveSettings;
use serde::Deserialize;

/// The sweep over them is the one place that has their settings.
const SWEEP: &str = include_str!("../../../../../experiments/countdown-entropy-methods.toml");

/// The recipe's table, of which objectives are read.
#[derive(Deserialize)]
struct Settings {
    #[serde(default)]
    objective: ObjectiveSettings,
}

/// All, in the order of the sweep: the first is what the others are compared with.
pub fn objectives() -> Result<Vec<NamedObjective>> {
    let sweep = recipe::parse(SWEEP, &|_| "experiments/countdown-entropy-methods.toml".into())?;
    let methods = sweep.get("axes").and_then(|axes| axes.get("method"));
    let methods = methods.context("the sweep has no methods")?.table("axes.method")?;
    let objective = |(name, node): &(String, recipe::Node)| {
        let settings: Settings = toml::Value::from(node.clone()).try_into()?;
        Ok(NamedObjective { name: name.clone(), settings: settings.objective })
    };
    methods.iter().map(objective).collect()
}

/// The one of a name, and the plain one.
///
/// # Errors
/// When there is none of the name: with all names.
pub fn beside_plain(name: &str) -> Result<[NamedObjective; 2]> {
    let all = objectives()?;
    let names: Vec<String> = all.iter().map(|named| named.name.clone()).collect();
    let Some(at) = names.iter().position(|known| known == name) else {
        let hint = recipe::hint(name, &names).unwrap_or_default();
        bail!("--method {name}: there are {}{hint}", names.join(", "));
    };
    Ok([all[at].clone(), all[0].clone()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use isentrope_objective::catalogue;
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// Controllers of another part's strength give tokens no coefficients of their own; the KL to
    /// the reference, PRIME and teachers need other models. The other advantages differ from
    /// GRPO's by their baseline and scale, which no paper proposes for entropy.
    const WITHOUT: [&str; 14] = [
        "objective.advantage = \"distill\"",
        "objective.advantage = \"dr-grpo\"",
        "objective.advantage = \"opo\"",
        "objective.advantage = \"prime\"",
        "objective.advantage = \"reinforce++\"",
        "objective.advantage = \"reinforce++-baseline\"",
        "objective.advantage = \"remax\"",
        "objective.advantage = \"rloo\"",
        "objective.covariance.target_entropy",
        "objective.distillation.divergence = \"reverse-kl\"",
        "objective.distillation.self_teacher",
        "objective.distillation.teacher",
        "objective.entropy_bonus.target",
        "objective.reference_kl.coefficient",
    ];

    #[test]
    fn every_entry_of_the_catalogue_is_among_them_and_all_are_sound() {
        let all = objectives().unwrap();
        assert_eq!((all[0].name.as_str(), &all[0].settings), ("grpo", &Default::default()));
        let default = serde_json::to_value(ObjectiveSettings::default()).unwrap();
        let mut missing: BTreeSet<&str> = catalogue().iter().map(|about| about.setting).collect();
        for named in &all {
            named.settings.check().unwrap();
            let json = serde_json::to_value(&named.settings).unwrap();
            missing.retain(|setting| {
                let (key, value) = setting.split_once(" = ").unwrap_or((setting, "null"));
                let at = key.replace("objective", "").replace('.', "/");
                let value: Value = serde_json::from_str(value).unwrap();
                let (own, usual) = (json.pointer(&at), default.pointer(&at));
                if value.is_null() { own == usual } else { own != Some(&value) }
            });
        }
        assert_eq!(missing, WITHOUT.into());
    }

    #[test]
    fn an_unknown_name_is_answered_with_all() {
        let said = beside_plain("clipcov").unwrap_err().to_string();
        assert!(said.contains("grpo, ") && said.contains("did you mean `clip-cov`?"), "{said}");
    }
}

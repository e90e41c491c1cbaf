//! `[compare]`: values of an axis that are compared with another value than the first.

use super::axis::{Axis, plain};
use crate::recipe::{self, Node};
use anyhow::{Result, anyhow, bail};

/// The file's table `[compare]`. A group with a contrast's value is compared with the group that
/// has the control's value instead.
#[derive(Default)]
pub struct Compare(Vec<Contrast>);

struct Contrast {
    axis: usize,
    value: usize,
    control: usize,
}

impl Compare {
    /// `VALUE = "CONTROL"`, two values of one axis.
    ///
    /// # Errors
    /// The fault, by file and line.
    pub fn parse(node: &Node, axes: &[Axis]) -> Result<Self> {
        let contrast = |(name, node): &(String, Node)| {
            let axis = axis_of(name, node, axes)?;
            let control = plain(node).ok_or_else(|| {
                anyhow!(
                    "{}: compare.{name} must be a value of the axis; a name with dots needs quotes",
                    node.at
                )
            })?;
            let place = |name: &str| axes[axis].named_value(name, &node.at, "compare");
            let (value, control) = (place(name)?, place(&control)?);
            if value == control {
                bail!("{}: compare.{name} compares a group with itself", node.at);
            }
            Ok(Contrast { axis, value, control })
        };
        let all: Vec<Contrast> =
            node.table("compare")?.iter().map(contrast).collect::<Result<_>>()?;
        if all.iter().any(|contrast| contrast.axis != all[0].axis) {
            bail!("{}: compare names values of several axes, which a group may both have", node.at);
        }
        Ok(Self(all))
    }

    /// The values of the control of the group with these values; None if the file names none.
    pub fn control(&self, values: &[usize]) -> Option<Vec<usize>> {
        let Contrast { axis, control, .. } =
            self.0.iter().find(|contrast| values[contrast.axis] == contrast.value)?;
        let mut of_control = values.to_vec();
        of_control[*axis] = *control;
        Some(of_control)
    }
}

/// The axis that has a value of this name; seeds are paired in any case.
fn axis_of(name: &str, node: &Node, axes: &[Axis]) -> Result<usize> {
    let has_value = |axis: &Axis| axis.values.iter().any(|value| value.name == name);
    let found: Vec<usize> =
        (0..axes.len()).filter(|&axis| !axes[axis].is_seed && has_value(&axes[axis])).collect();
    match found[..] {
        [axis] => Ok(axis),
        [] => {
            let known: Vec<String> = axes
                .iter()
                .filter(|axis| !axis.is_seed)
                .flat_map(|axis| axis.values.iter().map(|value| value.name.clone()))
                .collect();
            bail!(
                "{}: compare names {name:?}, which is no value of an axis ({}){}",
                node.at,
                known.join(", "),
                recipe::hint(name, &known).unwrap_or_default()
            )
        }
        _ => bail!("{}: compare names {name:?}, a value of several axes: rename one", node.at),
    }
}

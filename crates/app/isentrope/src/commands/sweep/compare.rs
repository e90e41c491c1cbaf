//! `[compare]`: which group another is compared with, where that is not the first.

use super::axis::{Axis, plain};
use super::file::{hint, table};
use crate::recipe::{Node, Value};
use anyhow::{Result, anyhow, bail};

/// The file's table `[compare]`.
#[derive(Default)]
pub struct Compare(Vec<Contrast>);

/// Groups, and what they are compared with: values of axes, as (axis, value). A group's name has
/// all of its values; a value alone means every group that has it, and as a control the same group
/// with this value in its place.
struct Contrast {
    groups: Vec<(usize, usize)>,
    control: Vec<(usize, usize)>,
}

impl Compare {
    /// `GROUP = "CONTROL"`: each the value of an axis, or the name of a group as tables have it.
    ///
    /// # Errors
    /// The fault, by file and line.
    pub fn parse(node: &Node, axes: &[Axis]) -> Result<Self> {
        let mut all: Vec<Contrast> = Vec::new();
        for (name, node) in table(node, "compare")? {
            if let Value::Table(_) = node.value {
                bail!(
                    "{}: compare.{name} is a table: put a name that has dots in quotes, as in \"0.5\" = \"0.1\"",
                    node.at
                );
            }
            let with = plain(node).ok_or_else(|| {
                anyhow!("{}: compare.{name} must be the name of a value or group", node.at)
            })?;
            let groups = named(name, node, axes)?;
            let controls = named(&with, node, axes)?;
            // A value in the place of another is one of the same axis.
            let fit = |groups: &[(usize, usize)], control: &[(usize, usize)]| {
                groups.len() > 1 || control.len() > 1 || groups[0].0 == control[0].0
            };
            let pairs = groups.iter().flat_map(|g| controls.iter().map(move |c| (g, c)));
            let fitting: Vec<_> = pairs.filter(|(groups, control)| fit(groups, control)).collect();
            let (groups, control) = match fitting[..] {
                [one] => one,
                [] => bail!(
                    "{}: compare: {name} and {with} are values of different axes: name a value of the same one, or whole \
                     groups, {}",
                    node.at,
                    path_of(axes)
                ),
                _ => bail!(
                    "{}: compare: {name} = {with:?} can be meant of several axes: name whole groups, {}",
                    node.at,
                    path_of(axes)
                ),
            };
            // A group that is meant has all values of its control, unless one of them is another on
            // the same axis.
            let is_other =
                |(axis, value): &(usize, usize)| match groups.iter().find(|(a, _)| a == axis) {
                    Some((_, own)) => own != value,
                    None => axes[*axis].values.len() > 1,
                };
            if !control.iter().any(is_other) {
                bail!("{}: compare: {name} = {with:?} compares a group with itself", node.at);
            }
            if groups.len() == 1
                && let Some(before) = all
                    .iter()
                    .find(|before| before.groups.len() == 1 && before.groups[0].0 != groups[0].0)
            {
                bail!(
                    "{}: compare: {name} and {} are values of different axes, and a group may have both: name whole groups, {}",
                    node.at,
                    axes[before.groups[0].0].values[before.groups[0].1].name,
                    path_of(axes)
                );
            }
            all.push(Contrast { groups: groups.clone(), control: control.clone() });
        }
        Ok(Self(all))
    }

    /// The values of the group that the one of these values is compared with; none where the file
    /// does not say, or where that is the group itself.
    pub fn control(&self, values: &[usize]) -> Option<Vec<usize>> {
        let is_met = |contrast: &&Contrast| {
            contrast.groups.iter().all(|(axis, value)| values[*axis] == *value)
        };
        // The name of a whole group goes before the name of a value.
        let contrast = self.0.iter().filter(is_met).max_by_key(|contrast| contrast.groups.len())?;
        let mut control = values.to_vec();
        contrast.control.iter().for_each(|(axis, value)| control[*axis] = *value);
        (control != values).then_some(control)
    }
}

/// Axes that tell groups apart.
fn of_groups(axes: &[Axis]) -> impl Iterator<Item = (usize, &Axis)> {
    axes.iter().enumerate().filter(|(_, axis)| !axis.is_seed)
}

/// Everything that a name may mean: a group, else the values of this name.
fn named(name: &str, node: &Node, axes: &[Axis]) -> Result<Vec<Vec<(usize, usize)>>> {
    let value = |axis: &Axis, name: &str| axis.values.iter().position(|value| value.name == name);
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() == of_groups(axes).count() {
        let pair =
            |((place, axis), name): ((usize, &Axis), &&str)| Some((place, value(axis, name)?));
        if let Some(path) = of_groups(axes).zip(&parts).map(pair).collect::<Option<Vec<_>>>() {
            return Ok(vec![path]);
        }
    }
    let values: Vec<_> = of_groups(axes)
        .filter_map(|(place, axis)| Some(vec![(place, value(axis, name)?)]))
        .collect();
    if !values.is_empty() {
        return Ok(values);
    }
    if let Some(seed) = axes.iter().find(|axis| axis.is_seed && value(axis, name).is_some()) {
        bail!(
            "{}: compare names {name:?} of the axis `{}`: groups differ in other axes, and seeds are paired in any case",
            node.at,
            seed.name
        );
    }
    let known: Vec<String> = of_groups(axes)
        .flat_map(|(_, axis)| axis.values.iter().map(|value| value.name.clone()))
        .collect();
    bail!(
        "{}: compare names {name:?}, which is neither a value of an axis ({}) nor a group, {}{}",
        node.at,
        known.join(", "),
        path_of(axes),
        hint(name, &known)
    )
}

/// How groups are named: `METHOD/SIZE`.
fn path_of(axes: &[Axis]) -> String {
    let names: Vec<String> = of_groups(axes).map(|(_, axis)| axis.name.to_uppercase()).collect();
    format!("as in \"{}\"", names.join("/"))
}

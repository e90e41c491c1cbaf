//! `[quick]`: what a sweep is like when it is only looked at, in minutes.

use super::axis::Axis;
use super::file::{SweepFile, hint, table};
use crate::recipe::Node;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// The changes of `--quick`.
pub struct Quick {
    /// Settings of every run, over those of the axes.
    set: Option<Node>,
    /// Values of axes that are left out, as (axis, value).
    dropped: Vec<(usize, usize)>,
}

impl Quick {
    /// `set`, a table of settings, and for each axis the values that are kept.
    ///
    /// # Errors
    /// The fault, by file and line.
    pub fn parse(node: &Node, axes: &[Axis]) -> Result<Self> {
        let mut quick = Self { set: None, dropped: Vec::new() };
        for (key, node) in table(node, "quick")? {
            match key.as_str() {
                "set" => {
                    let is_empty = table(node, "quick.set")?.is_empty();
                    quick.set = (!is_empty).then(|| node.clone());
                }
                name => {
                    let known: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
                    let Some(place) = known.iter().position(|known| known == name) else {
                        bail!(
                            "{}: quick.{name}: there is no axis `{name}`{}; [quick] has `set` \
                             (settings of every run) and values of axes to keep, \
                             such as seed = [1]",
                            node.at,
                            hint(name, &known)
                        );
                    };
                    let axis = &axes[place];
                    let kept = axis.named(node, &format!("quick.{name}"))?;
                    if kept.is_empty() {
                        bail!(
                            "{}: quick.{name} keeps no value of the axis, and so no run",
                            node.at
                        );
                    }
                    let dropped = (0..axis.values.len()).filter(|value| !kept.contains(value));
                    quick.dropped.extend(dropped.map(|value| (place, value)));
                }
            }
        }
        Ok(quick)
    }

    /// Whether a quick look would be anything else than the whole sweep.
    fn changes_something(&self) -> bool {
        self.set.is_some() || !self.dropped.is_empty()
    }
}

impl SweepFile {
    /// The sweep as `--quick` has it, in a directory of its own.
    ///
    /// # Errors
    /// When the file has no `[quick]`, or one that changes nothing.
    pub fn into_quick(mut self) -> Result<Self> {
        let has_table = self.quick.is_some();
        let Some(quick) = self.quick.take().filter(Quick::changes_something) else {
            let what =
                if has_table { "a table [quick] that changes nothing" } else { "no table [quick]" };
            bail!(
                "{}: --quick: the file has {what}; it says what a quick look is: \
                 such as set.run.steps = 60, and seed = [1] to keep one value of the axis `seed`",
                self.path.display()
            );
        };
        self.dropped = quick.dropped;
        self.over = quick.set;
        let out = self.out.take().unwrap_or_else(|| self.default_out());
        // With components alone, a slash at the end makes no name of its own.
        let mut name = out.components().collect::<PathBuf>().into_os_string();
        name.push("-quick");
        self.out = Some(name.into());
        Ok(self)
    }
}

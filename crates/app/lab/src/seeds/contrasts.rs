//! Decides which group each group is compared with, and whether the two are comparable.

use super::{Control, Entry, Group, groups};

/// The index of each group's control. None for the first group, unless it names one, and for two
/// groups that are not comparable, with a note.
pub(super) fn controls(
    runs: &[Entry<'_>],
    places: &[Vec<usize>],
    named: &[Group],
    notes: &mut Vec<String>,
) -> Vec<Option<usize>> {
    let mut control = |group: usize| {
        let control = match &runs[places[group][0]].control {
            Control::First => 0,
            Control::GroupOf(run) => places.iter().position(|places| places.contains(run))?,
            Control::Absent(name) => {
                notes.push(format!(
                    "{} is not compared: of {name}, which it is to be compared with, there is no \
                     run here.",
                    named[group].name
                ));
                return None;
            }
        };
        (control != group && are_comparable(runs, places, named, [control, group], notes))
            .then_some(control)
    };
    (0..places.len()).map(&mut control).collect()
}

/// Whether two groups are evaluated alike. Adds a note if not, and if they train for other numbers
/// of steps.
pub(super) fn are_comparable(
    runs: &[Entry<'_>],
    places: &[Vec<usize>],
    named: &[Group],
    [control, group]: [usize; 2],
    notes: &mut Vec<String>,
) -> bool {
    let [old, new] = [control, group].map(|group| &runs[places[group][0]]);
    let [old_name, new_name] = [control, group].map(|group| &named[group].name);
    let (Some(old_recipe), Some(new_recipe)) = (old.recipe, new.recipe) else { return false };
    let changes = groups::incomparable(old_recipe, new_recipe);
    if !changes.is_empty() {
        notes.push(format!(
            "{new_name} is not compared with {old_name}, since it is evaluated otherwise: {}.",
            changes.join(", ")
        ));
    } else if old.steps() != new.steps() {
        let steps = |run: &Entry<'_>| run.steps().unwrap_or_default();
        notes.push(format!(
            "{new_name} trains for {} steps, {old_name} for {}.",
            steps(new),
            steps(old)
        ));
    }
    changes.is_empty()
}

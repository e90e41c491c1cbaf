//! The alarms of collapse in a log ([`isentrope_run::alarms`] defines them).

pub use isentrope_run::alarms::{Alarm, Alarms, Kind, is_watched};

use crate::log::RunLog;
use std::collections::BTreeSet;

/// The alarms of a whole log, by step, as training would have given them.
pub fn of_log(log: &RunLog) -> Vec<(u64, Alarm)> {
    let steps: BTreeSet<u64> = log
        .all()
        .filter(|(name, _)| is_watched(name))
        .flat_map(|(_, series)| series.steps.iter().copied())
        .collect();
    let mut alarms = Alarms::default();
    let after = |step| {
        let said = alarms.after_step(log.origin, step, &|name| log.series(name)?.at(step));
        said.into_iter().map(move |alarm| (step, alarm))
    };
    steps.into_iter().flat_map(after).collect()
}

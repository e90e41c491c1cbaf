//! The refusal of a run that does not fit, with the settings that would make it fit.

use super::least::{Least, Phase};
use super::parameter_sets::{OFFLOADING, ParameterSets};
use super::{Demand, Plan, adapted, has_own_memory, human, listed};
use isentrope_kernels::Backend;
use isentrope_model::Layout;
use std::fmt;
use std::slice::from_ref;

/// The remedy of training less.
pub(super) const ADAPTERS: &str = "adapters in place of all weights ([lora])";
/// Numbers of ranks that a remedy tries.
const RANKS: [usize; 5] = [2, 4, 8, 16, 32];

/// A run that does not fit into its budget.
pub(super) struct Refusal<'a> {
    pub backend: &'a dyn Backend,
    pub layout: &'a Layout,
    pub demand: Demand,
    /// The least that it needs.
    pub least: Least,
    pub budget: usize,
    /// The [largest budget](most_budget) that a remedy names.
    pub most: usize,
}

/// Settings with which the run fits, and the bytes that it needs then.
struct Remedy(String, usize);

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, human(self.1))
    }
}

/// The largest budget that a remedy names. A run takes nine tenths of a GPU's memory if no budget
/// is set; three hundredths are left to the GPU's driver and libraries here.
pub(super) fn most_budget(backend: &dyn Backend, available: usize, budget: usize) -> usize {
    if has_own_memory(backend) { budget.max(available / 100 * 97) } else { budget }
}

/// The remedy of a larger budget for `needed` bytes; none if it would be above `most`.
fn larger_budget(needed: usize, most: usize) -> Option<String> {
    let gib = f64::from(1 << 30);
    let budget = (needed as f64 / gib * 10.0).ceil() / 10.0;
    (budget * gib <= most as f64).then(|| format!("memory.budget_gib = {budget}"))
}

impl Refusal<'_> {
    fn needs(&self, layout: &Layout, sets: ParameterSets) -> usize {
        Plan::least(self.backend, layout, Demand { sets, ..self.demand })
    }

    /// The remedy `what`, which changes layout or sets, with moments in the host's memory and a
    /// larger budget where it needs them. These change no bit of the run.
    fn with_room(&self, what: &str, layout: &Layout, sets: ParameterSets) -> Option<Remedy> {
        let way = |beside: Option<&str>, sets| {
            let beside: Vec<String> = beside.map(str::to_owned).into_iter().collect();
            (beside, self.needs(layout, sets))
        };
        let offloaded = sets.with_offloaded_moments(self.backend);
        let offloaded = offloaded.map(|sets| way(Some(OFFLOADING), sets));
        let ways: Vec<_> = [Some(way(None, sets)), offloaded].into_iter().flatten().collect();
        let with_larger_budget = |(mut beside, needs): (Vec<String>, usize)| {
            beside.push(larger_budget(needs, self.most)?);
            Some((beside, needs))
        };
        let enough = ways.iter().find(|(_, needs)| *needs <= self.budget).cloned();
        let (beside, needs) = enough.or_else(|| ways.into_iter().find_map(with_larger_budget))?;
        let between = if what.is_empty() || beside.is_empty() { "" } else { " with " };
        Some(Remedy(format!("{what}{between}{}", beside.join(" and ")), needs))
    }

    /// Remedies that are enough, first those that change no bit on this number of ranks.
    fn remedies(&self) -> Vec<Remedy> {
        let (layout, own) = (self.layout, self.demand.sets);
        let others = own.remedies(self.backend).into_iter().filter(|(what, _)| what != OFFLOADING);
        let others = others.filter_map(|(what, sets)| self.with_room(&what, layout, sets));
        let all = own.shards.saturating_mul(own.ranks);
        let of = |ranks| ParameterSets { ranks, shards: all.div_ceil(ranks), ..own };
        let more: Vec<_> = RANKS.into_iter().filter(|&ranks| ranks > own.ranks).collect();
        // More ranks are preferred to fewer that need another remedy.
        let alone = more.iter().find(|&&ranks| self.needs(layout, of(ranks)) <= self.budget);
        let mut ranks = alone.map_or(&more[..], from_ref).iter();
        let ranks = ranks.find_map(|&ranks| {
            // Each rank has a power of two of the shards.
            let are_spread = all.is_multiple_of(ranks) && (all / ranks).is_power_of_two();
            let shards =
                if are_spread { "" } else { " and shards for them (update.shards, sft.shards)" };
            self.with_room(&format!("{ranks} ranks{shards}"), layout, of(ranks))
        });
        let adapters = adapted(layout, own);
        let adapters = adapters.and_then(|layout| self.with_room(ADAPTERS, &layout, own));
        let same = self.with_room("", layout, own);
        same.into_iter().chain(others).chain(ranks).chain(adapters).collect()
    }

    /// Remedies with which the run would need less, and still too much.
    fn lower(&self) -> Vec<Remedy> {
        let (layout, own) = (self.layout, self.demand.sets);
        let remedies = own.remedies(self.backend).into_iter();
        let remedies = remedies.map(|(what, sets)| Remedy(what, self.needs(layout, sets)));
        let adapters = adapted(layout, own);
        let adapters = adapters.map(|layout| Remedy(ADAPTERS.into(), self.needs(&layout, own)));
        remedies.chain(adapters).filter(|Remedy(_, needs)| *needs < self.least.bytes()).collect()
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { demand, least, .. } = self;
        let (kept, top_k) = match demand.kept_tokens {
            0 => (String::new(), ""),
            bytes => {
                (format!(", tokens kept by top-k {}", human(bytes)), ", a smaller rollout.top_k")
            }
        };
        let states =
            if least.phase == Phase::Scoring { ", or lab.track_states = false" } else { "" };
        let [weights, gradient, moments] = least.sets;
        // The gradient exists only during updates, and whole weights only between them.
        let (sets, one) = match least.phase {
            Phase::Update => {
                let slices = if least.whole > 0 { "slices of the " } else { "" };
                (slices.to_owned() + &listed(least.sets), least.one.saturating_sub(gradient))
            }
            _ => {
                let weights = human(weights.saturating_add(least.whole));
                let one = least.one.saturating_sub(least.whole);
                (format!("weights {weights}, moments {}", human(moments)), one)
            }
        };
        let teacher = match demand.teacher.weights {
            0 => String::new(),
            bytes => format!(" (of the weights, {} are the teacher's)", human(bytes)),
        };
        let (work, fewer) = match least.phase {
            Phase::Loading => ("load and save a parameter".to_owned(), String::new()),
            _ => (
                format!("work on {} tokens at a time", least.tokens),
                format!(", a smaller rollout.max_tokens and data.max_prompt_tokens{top_k}{states}"),
            ),
        };
        write!(
            f,
            "the run needs at least {} of memory and has {}: {sets}{teacher}{kept}, and {} to \
             {work}; ",
            human(least.bytes()),
            human(self.budget),
            human(one),
        )?;
        let remedies = self.remedies();
        remedies.iter().try_for_each(|remedy| write!(f, "{remedy}, or "))?;
        write!(f, "a smaller model{fewer} would make it fit")?;
        let lower = if remedies.is_empty() { self.lower() } else { Vec::new() };
        let before = ["; it would need less with "].into_iter().chain(std::iter::repeat(", with "));
        lower.iter().zip(before).try_for_each(|(remedy, before)| write!(f, "{before}{remedy}"))
    }
}

//! What the covariance methods would have picked inside micro-batches, against the whole minibatch.
//!
//! The paper picks from the tokens of a batch; its reference implementation centres log-probs and advantages, and picks, inside
//! each micro-batch, so that a setting for memory changes the algorithm. [`SelectionOfRun::open`] takes a run's token records and
//! does both: `update.rs` puts the records of an update together, `pick.rs` picks, `tally.rs` compares, `text.rs` says it.

mod pick;
mod tally;
mod text;
mod update;

pub use pick::{Method, Rule};
pub use tally::{Compared, Quadrants};
pub use text::text;

use self::pick::pick;
use self::tally::Tally;
use self::update::Update;
use crate::run_files::RunFiles;
use crate::tokens;
use crate::{Error, Result};
use isentrope_random::{Draws, Purpose};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Seed of the orders in which responses are dealt.
const SEED: u64 = 0;

/// How responses are dealt to micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// In the order of the records: those to one prompt stand together.
    Consecutive,
    /// In random order, the mean over [`SHUFFLES`] of them: of several prompts, as where lengths are balanced.
    Mixed,
}

/// Orders that a mixed grouping is the mean over.
pub const SHUFFLES: usize = 20;

/// What is picked inside of: micro-batches of so many responses, or none for the whole minibatch.
type Scope = Option<(usize, Grouping)>;

/// What a run's records say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectionOfRun {
    /// The run's directory.
    pub run: String,
    /// What is picked, and from which tokens; a step that had a fraction of its own goes by that.
    pub rule: Rule,
    /// Complete updates, of all steps.
    pub updates: usize,
    /// Updates of which only some responses are recorded, which are left out.
    pub incomplete: usize,
    /// Updates whose advantages are all equal, which are left out too.
    pub without_signal: usize,
    /// Responses of the complete updates.
    pub responses: usize,
    /// Their tokens.
    pub tokens: usize,
    /// All steps together: the whole minibatch first, then micro-batches from the largest to the smallest.
    pub all: Vec<Compared>,
    /// The same for each step.
    pub steps: Vec<SelectionOfStep>,
}

/// What the records of one step say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectionOfStep {
    /// The step.
    pub step: u64,
    /// The fraction of the tokens that was picked in it.
    pub fraction: f64,
    /// Its complete updates.
    pub updates: usize,
    /// As [`SelectionOfRun::all`].
    pub compared: Vec<Compared>,
}

impl SelectionOfRun {
    /// Reads all records of a run and picks anew, inside micro-batches of so many responses; of none, of 1, 2, 4, ... as long as
    /// they are smaller than the first step's largest minibatch. `fractions` are those that steps had of their own, where the
    /// fraction was steered; other steps go by the rule's.
    ///
    /// # Errors
    /// When there are no records, no update whose responses are all recorded, or a file is malformed.
    pub fn open(dir: &Path, rule: Rule, sizes: &[usize], fractions: &BTreeMap<u64, f64>) -> Result<Self> {
        let files = RunFiles::new(dir);
        let steps = files.token_steps()?;
        if steps.is_empty() {
            return Err(Error::Refused(format!(
                "{}: has no token records: train with {}",
                dir.display(),
                remedy(&files)?
            )));
        }
        let mut selection = Self {
            run: dir.display().to_string(),
            rule,
            updates: 0,
            incomplete: 0,
            without_signal: 0,
            responses: 0,
            tokens: 0,
            all: Vec::new(),
            steps: Vec::new(),
        };
        let mut scopes: Vec<Scope> = Vec::new();
        let mut totals: Vec<Tally> = Vec::new();
        for step in steps {
            let mut updates = Update::of_step(&tokens::read(&files.tokens(step))?.records);
            let all = updates.len();
            updates.retain(Update::has_signal);
            let with_signal = updates.len();
            updates.retain(Update::is_complete);
            selection.without_signal += all - with_signal;
            selection.incomplete += with_signal - updates.len();
            let Some(largest) = updates.iter().map(Update::responses).max() else { continue };
            if scopes.is_empty() {
                scopes = scopes_of(sizes, largest);
                totals = vec![Tally::default(); scopes.len()];
            }
            let rule = Rule { fraction: fractions.get(&step).copied().unwrap_or(rule.fraction), ..rule };
            let mut tallies = vec![Tally::default(); scopes.len()];
            for (number, update) in updates.iter().enumerate() {
                let as_recorded: Vec<usize> = (0..update.responses()).collect();
                let whole = pick(update, None, &as_recorded, &rule);
                let mixed = shuffled(update.responses(), step, number);
                for (tally, scope) in tallies.iter_mut().zip(&scopes) {
                    let size = scope.map(|(size, _)| size);
                    let orders = match scope {
                        Some((_, Grouping::Mixed)) => &mixed[..],
                        _ => std::slice::from_ref(&as_recorded),
                    };
                    let mut of_update = Tally::default();
                    for order in orders {
                        of_update.add(update, rule.method, &whole, &pick(update, size, order, &rule));
                    }
                    tally.take_in(&of_update, orders.len() as f64);
                }
                selection.responses += update.responses();
                selection.tokens += update.tokens.len();
            }
            totals.iter_mut().zip(&tallies).for_each(|(total, tally)| total.take_in(tally, 1.0));
            selection.updates += updates.len();
            let compared = tally::compared(&tallies, &scopes);
            selection.steps.push(SelectionOfStep {
                step,
                fraction: rule.fraction,
                updates: updates.len(),
                compared,
            });
        }
        selection.all = tally::compared(&totals, &scopes);
        match (selection.updates, selection.incomplete) {
            (0, 0) => Err(Error::Refused(format!(
                "{}: its token records have no update with different advantages, so there is nothing to pick by",
                dir.display()
            ))),
            (0, _) => Err(Error::Refused(format!(
                "{}: its token records are a sample: there is no update of which all responses are recorded, and what a method \
                 picks depends on all of them; train with {}",
                dir.display(),
                remedy(&files)?
            ))),
            _ => Ok(selection),
        }
    }
}

/// The whole minibatch, then micro-batches from the largest to the smallest: of so many responses as are asked for, else of 1, 2,
/// 4, ... below those of a minibatch. Of single responses there is one way to deal them.
fn scopes_of(asked: &[usize], minibatch: usize) -> Vec<Scope> {
    let mut sizes: Vec<usize> = match asked {
        [] => (0..).map(|i| 1 << i).take_while(|size| *size < minibatch).collect(),
        asked => asked.to_vec(),
    };
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    let groupings = |size: usize| {
        let mixed = (size > 1).then_some((size, Grouping::Mixed));
        std::iter::once((size, Grouping::Consecutive)).chain(mixed)
    };
    std::iter::once(None).chain(sizes.into_iter().flat_map(groupings).map(Some)).collect()
}

/// Random orders of an update's responses, the same in every call.
fn shuffled(responses: usize, step: u64, update: usize) -> Vec<Vec<usize>> {
    let order = |shuffle: usize| {
        let coordinate = (update * SHUFFLES + shuffle) as u64;
        Draws::of(SEED, Purpose::MicroBatches, step, coordinate).permutation(responses)
    };
    (0..SHUFFLES).map(order).collect()
}

/// How a run records everything, with a number that is large enough for its recipe where that is known.
fn remedy(files: &RunFiles) -> Result<String> {
    let recipe = files.recipe()?.unwrap_or_default();
    let of = |key: &str| recipe.pointer(&format!("/rollout/{key}")).and_then(serde_json::Value::as_u64);
    let most = (|| of("prompts")?.checked_mul(of("responses")?)?.checked_mul(of("max_tokens")?))();
    Ok(match most {
        Some(most) => {
            format!(
                "--set lab.record_tokens={most} (prompts x responses x max_tokens of its recipe), which records every response"
            )
        }
        None => "lab.record_tokens as large as all response tokens of a step".to_owned(),
    })
}

//! What a run would need of a GPU, whether there is one or not: the GPU's own backend says how many bytes everything takes.

use anyhow::{Result, anyhow};
use isentrope_cuda::{Cuda, Dtype, PlanningDevice};
use isentrope_train::trainer::{Prepared, Trainer};
use std::sync::Arc;

/// The memory of a GPU that is planned for, in GiB. What is sold as 80 GB has a little less than 80 GiB, and a run takes nine
/// tenths of it unless `memory.budget_gib` says.
#[derive(Clone, Copy, Debug)]
pub struct Card(f64);

/// Most GiB that are taken for a GPU's.
const MOST: f64 = 1e6;

impl Card {
    /// What `--gpu-memory` says.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(gib: f64) -> Result<Self> {
        if gib > 0.0 && gib <= MOST {
            Ok(Self(gib))
        } else {
            Err(anyhow!("--gpu-memory is {gib}: it must be above 0, and at most {MOST}"))
        }
    }

    /// Plans of a run with either type of numbers, a line each. Beside them, why it fits with neither.
    pub fn plans<T: Trainer>(self, prepared: &Prepared<T>) -> (String, Result<()>) {
        let memory = (self.0 * f64::from(1 << 30)) as usize;
        let (mut text, mut fits, mut last) = (String::new(), false, String::new());
        for (name, dtype) in [("bf16", Dtype::Bf16), ("f32", Dtype::F32)] {
            let backend = Cuda::new(Arc::new(PlanningDevice { memory }), dtype);
            let line = match prepared.plan(&backend, memory) {
                Ok(plan) => {
                    fits = true;
                    plan.to_string()
                }
                Err(error) => {
                    last = format!("{error}; {}", larger(prepared.least(&backend), name));
                    last.clone()
                }
            };
            text += &format!("a GPU of {} GB with {name}: {line}\n", self.0);
        }
        let refused = || anyhow!("the run fits no GPU of {} GB; with f32: {last}", self.0);
        (text, if fits { Ok(()) } else { Err(refused()) })
    }
}

/// The least GPU that a run fits whose budget must be so many bytes.
fn larger(least: usize, dtype: &str) -> String {
    // A run takes nine tenths.
    let gib = (least as f64 / 0.9 / f64::from(1 << 30)).ceil();
    format!("with {dtype} as it is, the least GPU has {gib} GB")
}

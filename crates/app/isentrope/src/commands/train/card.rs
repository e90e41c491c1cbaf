//! A run's needs on a GPU that need not be here: the GPU's own backend says how many bytes
//! everything takes, and data sheets how long a step takes at least.

use crate::memory::human;
use anyhow::{Result, anyhow, bail};
use isentrope_budget::time::Peak;
use isentrope_cuda::{Cuda, DATA_SHEETS, DataSheet, Dtype, PlanningDevice};
use isentrope_train::trainer::{Prepared, Trainer};
use std::sync::Arc;

/// A GPU that is planned for. One sold as 80 GB shows 79.6 GiB; a run takes nine tenths of it
/// unless `memory.budget_gib` is set.
#[derive(Clone, Debug)]
pub struct Card {
    /// Its name.
    name: String,
    /// In bytes.
    memory: usize,
    /// The GPUs with this memory, or the one that was named.
    sheets: Vec<&'static DataSheet>,
}

const GIB: f64 = (1u64 << 30) as f64;
/// Most GB that a GPU may have.
const MOST: f64 = 1e6;

impl Card {
    /// A GPU sold with this memory, as `--gpu-memory` gives it.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn new(gb: f64) -> Result<Self> {
        let is_possible = gb > 0.0 && gb <= MOST;
        if !is_possible {
            bail!("--gpu-memory is {gb}: it must be above 0, and at most {MOST}");
        }
        let sheets: Vec<_> = DataSheet::of_memory(gb).collect();
        let memory = DataSheet::bytes_of(gb);
        Ok(Self {
            name: named(&format!("a GPU of {gb} GB"), memory, !sheets.is_empty()),
            memory,
            sheets,
        })
    }

    /// The GPU that `--gpu` names.
    ///
    /// # Errors
    /// When it is not known, with the known names.
    pub fn named(key: &str) -> Result<Self> {
        let known = || DATA_SHEETS.iter().map(|sheet| sheet.key).collect::<Vec<_>>().join(", ");
        let sheet = DataSheet::of_key(key).ok_or_else(|| {
            anyhow!(
                "--gpu {key} is not known; known are {}; --gpu-memory plans for any other",
                known()
            )
        })?;
        let memory = sheet.memory_mib << 20;
        Ok(Self { name: named(sheet.name, memory, true), memory, sheets: vec![sheet] })
    }

    /// Plans of one of `ranks` ranks with either type of numbers, a line each, the host's memory
    /// that it takes, and how long a step takes at least on known GPUs.
    ///
    /// # Errors
    /// When it fits with neither, with what would help.
    pub fn plans<T: Trainer>(&self, prepared: &Prepared<T>, ranks: usize) -> Result<String> {
        let memory = self.memory;
        let (mut text, mut refusals, mut hosts) = (String::new(), Vec::new(), Vec::new());
        let mut limits = vec![Vec::new(); self.sheets.len()];
        for (name, dtype) in [("bf16", Dtype::Bf16), ("f32", Dtype::F32)] {
            let backend = Cuda::new(Arc::new(PlanningDevice { memory }), dtype);
            let line = match prepared.plan(&backend, memory) {
                Ok(plan) => {
                    for (sheet, limits) in self.sheets.iter().zip(&mut limits) {
                        let limit = prepared.limit(&backend, &plan, peak(sheet, dtype));
                        limits.push(format!("with {name} {limit}"));
                    }
                    hosts.extend(plan.on_host(ranks).map(|host| format!("with {name} {host}")));
                    plan.to_string()
                }
                Err(error) => {
                    let line = format!("{error}; {}", larger(prepared.least(&backend), name));
                    refusals.push(format!("with {name}: {line}"));
                    line
                }
            };
            text += &format!("{} with {name}: {line}\n", self.name);
        }
        if refusals.len() == 2 {
            bail!("the run does not fit {}\n{}", self.name, refusals.join("\n"));
        }
        text += &format!("the host's memory: {}\n", hosts.join("; "));
        for (sheet, limits) in
            self.sheets.iter().zip(&limits).filter(|(_, limits)| !limits.is_empty())
        {
            text += &format!("{}: {}\n", at_peak(sheet), limits.join("; "));
        }
        Ok(text)
    }
}

/// A GPU's name with its memory.
fn named(name: &str, memory: usize, is_known: bool) -> String {
    let shown = if is_known { ", as its driver shows" } else { "" };
    format!("{name} ({}{shown})", human(memory))
}

/// A data sheet's peaks of products and of memory.
pub fn peak(sheet: &DataSheet, dtype: Dtype) -> Peak {
    let flops = match dtype {
        Dtype::Bf16 => sheet.bf16,
        Dtype::F32 => sheet.f32,
    };
    Peak { flops, bandwidth: sheet.bandwidth }
}

/// The words before the least time of a step on a GPU.
pub fn at_peak(sheet: &DataSheet) -> String {
    let DataSheet { name, bf16, f32, bandwidth, source, .. } = sheet;
    format!(
        "limit, not a forecast: if a GPU of type {name} ran at its peak of {:.0} TFLOP/s in bf16, \
         {:.1} in f32 and {:.0} GB/s \
         all along ({source})",
        bf16 / 1e12,
        f32 / 1e12,
        bandwidth / 1e9
    )
}

/// The smallest GPU with a budget of `least` bytes.
fn larger(least: usize, dtype: &str) -> String {
    // A run takes nine tenths.
    let gib = (least as f64 / 0.9 / GIB).ceil();
    format!("with {dtype} as it is, the least GPU has {gib} GiB")
}

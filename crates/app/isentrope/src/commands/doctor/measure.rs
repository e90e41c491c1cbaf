//! `isentrope doctor --measure`: how fast the CPU is by threads, and each GPU beside what its data
//! sheet says.

mod gpu;

use super::{bandwidth, linear_speed};
use crate::device;
use crate::memory::Memory;
use anyhow::Result;
use gpu::GpuSpeeds;
use isentrope_kernels::Cpu;
use serde::Serialize;
use std::fmt;

/// The measured speeds.
#[derive(Serialize)]
pub struct Measured {
    cpu: Vec<CpuSpeed>,
    gpus: Vec<GpuSpeeds>,
}

/// The CPU with so many threads.
#[derive(Serialize)]
struct CpuSpeed {
    threads: usize,
    /// Products of many rows, as in updates.
    training_gflop_per_s: f64,
    /// Products of 16 rows, as in decoding.
    decoding_gflop_per_s: f64,
    /// Reading and writing.
    memory_bandwidth_gb_per_s: f64,
}

impl Measured {
    /// Measures with one thread, two, four and so on to as many as `device` has; then every GPU.
    ///
    /// # Errors
    /// When there is no memory to measure with. A GPU that cannot be used is reported, and fails
    /// nothing.
    pub fn all(device: &Cpu) -> Result<Self> {
        let most = device.threads();
        let mut counts: Vec<usize> = std::iter::successors(Some(1), |&threads| Some(2 * threads))
            .take_while(|&threads| threads < most)
            .collect();
        counts.push(most);
        let cpu = counts.into_iter().map(CpuSpeed::measure).collect::<Result<_>>()?;
        Ok(Self {
            cpu,
            gpus: device::each_gpu().map(|(index, gpu)| GpuSpeeds::measure(index, gpu)).collect(),
        })
    }
}

impl CpuSpeed {
    fn measure(threads: usize) -> Result<Self> {
        let device = device::cpu(Some(threads))?;
        Ok(Self {
            threads,
            training_gflop_per_s: linear_speed(&device, "training", 1024, 2048, 2048)?.gflop_per_s,
            decoding_gflop_per_s: linear_speed(&device, "decoding", 16, 2048, 2048)?.gflop_per_s,
            memory_bandwidth_gb_per_s: bandwidth(&device, &Memory::now()),
        })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  CPU by threads")?;
        writeln!(f, "    threads  training, GFLOP/s  decoding, GFLOP/s  memory, GB/s")?;
        for speed in &self.cpu {
            writeln!(
                f,
                "    {:<7}  {:>17.0}  {:>17.0}  {:>12.1}",
                speed.threads,
                speed.training_gflop_per_s,
                speed.decoding_gflop_per_s,
                speed.memory_bandwidth_gb_per_s
            )?;
        }
        self.gpus.iter().try_for_each(|gpu| gpu.fmt(f))
    }
}

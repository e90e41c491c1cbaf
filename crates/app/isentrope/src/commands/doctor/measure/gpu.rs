//! Measured speeds of a GPU: copies, products by the models' own kernels, launches.

use super::super::{linear_speed_of, median_seconds};
use crate::gpus::OpenGpu;
use anyhow::{Result, anyhow};
use isentrope_cuda::{AnyDevice, Cuda, DataSheet, Device, Dtype, Layer};
use isentrope_kernels::{Backend, Linear, Role};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// A GPU's speeds.
#[derive(Serialize)]
pub struct GpuSpeeds {
    index: usize,
    name: String,
    /// Whether there is no GPU, and its work is done on the CPU.
    emulated: bool,
    /// The source of the peaks, if the GPU is known.
    data_sheet: Option<&'static str>,
    speeds: Vec<GpuSpeed>,
    /// Why there is no more.
    error: Option<String>,
}

/// One of them.
#[derive(Serialize)]
struct GpuSpeed {
    what: String,
    value: f64,
    unit: &'static str,
    /// The data sheet's value, in the same unit.
    peak: Option<f64>,
}

/// Sizes that are measured.
struct Sizes {
    /// Bytes of a copy.
    copied: usize,
    /// Rows, inputs and outputs of a product.
    product: usize,
    /// Launches in a row.
    launches: usize,
}

/// Large enough that beginning and ending take no time to speak of.
const ON_A_GPU: Sizes = Sizes { copied: 256 << 20, product: 4096, launches: 1000 };
/// Enough to go through the same code.
const EMULATED: Sizes = Sizes { copied: 64 << 10, product: 64, launches: 10 };

impl GpuSpeeds {
    /// Measures a GPU, or says why it cannot be.
    pub fn measure(index: usize, gpu: Result<OpenGpu, String>) -> Self {
        let nothing = |name, error| Self {
            index,
            name,
            emulated: false,
            data_sheet: None,
            speeds: Vec::new(),
            error,
        };
        let (device, about) = match gpu {
            Ok(OpenGpu { device, about, .. }) => (Arc::new(device), about),
            Err(why) => return nothing("cannot be used".into(), Some(why)),
        };
        // The emulator calls itself so.
        let emulated = device.name().starts_with("emulated");
        let sheet = DataSheet::of_name(&about.name).filter(|_| !emulated);
        let mut speeds = Vec::new();
        let sizes = if emulated { &EMULATED } else { &ON_A_GPU };
        let measured = crate::device::contained(|| all(&device, sheet, sizes, &mut speeds));
        Self {
            emulated,
            data_sheet: sheet.map(|sheet| sheet.source),
            speeds,
            ..nothing(about.name, measured.err().map(|error| format!("{error:#}")))
        }
    }
}

/// Measures everything, one after the other: what is there when something fails stays.
fn all(
    device: &Arc<AnyDevice>,
    sheet: Option<&DataSheet>,
    sizes: &Sizes,
    speeds: &mut Vec<GpuSpeed>,
) -> Result<()> {
    let gb = |bytes: usize, seconds: f64| bytes as f64 / seconds / 1e9;
    let mut add = |what: &str, value, unit, peak| {
        speeds.push(GpuSpeed { what: what.to_owned(), value, unit, peak })
    };
    let bytes = sizes.copied;
    let waited = |work: &dyn Fn()| {
        median_seconds(|| {
            work();
            device.synchronize();
        })
    };
    {
        let refused = |error: isentrope_kernels::OutOfMemory| anyhow!("{error}");
        let (from, to) =
            (device.allocate(bytes).map_err(refused)?, device.allocate(bytes).map_err(refused)?);
        device.clear(&from, 0, bytes);
        let seconds = waited(&|| device.copy(&from, 0, &to, 0, bytes));
        add(
            "copy, reading and writing",
            gb(2 * bytes, seconds),
            "GB/s",
            sheet.map(|sheet| sheet.bandwidth / 1e9),
        );
        let host = device.allocate_host(bytes).map_err(refused)?;
        let seconds = waited(&|| device.copy_in(&host, 0, &to, 0, bytes));
        add("from locked memory of the host", gb(bytes, seconds), "GB/s", None);
        let seconds = waited(&|| device.copy_out(&from, 0, &host, 0, bytes));
        add("to locked memory of the host", gb(bytes, seconds), "GB/s", None);
    }

    let n = sizes.product;
    let shape = Linear { inputs: n, outputs: n };
    let f32_backend = Cuda::new(Arc::clone(device), Dtype::F32);
    let tflops = |speed: super::super::LinearSpeed| speed.gflop_per_s / 1e3;
    let peak = |of: fn(&DataSheet) -> f64| sheet.map(|sheet| of(sheet) / 1e12);
    let of_f32 = tflops(linear_speed_of(&f32_backend, "f32", n, n, n, false)?);
    add(&format!("f32 products of {n}"), of_f32, "TFLOP/s", peak(|sheet| sheet.f32));
    let bf16 = Cuda::new(Arc::clone(device), Dtype::Bf16);
    // Products that add to their output are never left to the library.
    let own = tflops(linear_speed_of(&bf16, "bf16", n, n, n, true)?);
    add(&format!("bf16 products of {n}, own kernels"), own, "TFLOP/s", peak(|sheet| sheet.bf16));
    let products = bf16.examine_products(&[Layer { shape, adds: false }], shape, n);
    if let Some(library) = &products.library
        && products.kinds.first().is_some_and(|kind| kind.why_not.is_none())
    {
        let of_library = tflops(linear_speed_of(&bf16, "bf16", n, n, n, false)?);
        add(
            &format!("bf16 products of {n}, {library}"),
            of_library,
            "TFLOP/s",
            peak(|sheet| sheet.bf16),
        );
    }

    let mut small = f32_backend.buffer(Role::Exact(1, 32));
    let launches = sizes.launches;
    let seconds = median_seconds(|| {
        (0..launches).for_each(|_| f32_backend.fill(&mut small, 1.0));
        device.synchronize();
    });
    add("a launch among many", 1e6 * seconds / launches as f64, "us", None);
    let seconds = median_seconds(|| {
        f32_backend.fill(&mut small, 1.0);
        f32_backend.read_numbers(&small, 0, &mut [0.0]);
    });
    add("a launch that the host waits for, with its result", 1e6 * seconds, "us", None);
    Ok(())
}

impl fmt::Display for GpuSpeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  GPU {}: {}", self.index, self.name)?;
        match (self.emulated, self.data_sheet) {
            (true, _) => writeln!(f, "; these are the emulator's speeds on the CPU, and no GPU's")?,
            (false, Some(source)) => writeln!(f, "; peaks are those of the {source}")?,
            (false, None) => writeln!(f)?,
        }
        let label = if self.emulated { " (emulated)" } else { "" };
        for GpuSpeed { what, value, unit, peak } in &self.speeds {
            let digits = if *value < 10.0 { 3 } else { 0 };
            write!(f, "    {what:<50} {value:>9.digits$} {unit}{label}")?;
            match peak {
                Some(peak) => writeln!(f, ", {:.0} % of the peak of {peak}", 100.0 * value / peak)?,
                None => writeln!(f)?,
            }
        }
        match &self.error {
            Some(error) => writeln!(f, "    {error}"),
            None => Ok(()),
        }
    }
}

//! The checkpoint of a base and an adapter together.

use super::AdapterConfig;
use super::Rank;
use super::files::{DIVERGED, PREFIX, open};
use crate::checkpoint::{Checkpoint, Tensor, WeightDtype, WriteOptions, Writer, write_checkpoint};
use crate::config::ModelConfig;
use crate::layout::Layout;
use crate::model::expect_tensors;
use crate::{Error, Result};
use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;

/// Writes the model directory `out`, in which each adapted weight is W + s B A. B A is summed in
/// f64 in the order of the ranks; the result is rounded to f32, and then to `dtype`, if that is
/// another: by default the widest type in the base's files. It does not depend on the number of
/// threads. One tensor at a time is in memory. [`AdapterConfig::check_base`] compares the base.
/// Returns the type. Leaves nothing behind where `stop` says, before a tensor, that the work is to
/// end.
///
/// # Errors
/// An [`Error::File`] of kind [`ErrorKind::Interrupted`] where `stop` ended the work; else as
/// [`Model::load_adapter`](crate::Model::load_adapter) and [`write_checkpoint`].
pub fn merge(
    adapter: &Path,
    base: &Path,
    out: &Path,
    dtype: Option<WeightDtype>,
    max_shard_bytes: u64,
    stop: &dyn Fn() -> bool,
) -> Result<WeightDtype> {
    let config = AdapterConfig::read(adapter)?;
    let model = ModelConfig::read(base)?;
    let layout = Layout::new(&model);
    let weights = Checkpoint::open_model(base)?;
    expect_tensors(base, &model, &layout, &weights)?;
    let ranks = config.ranks(&layout)?;
    let (_, ab) = open(adapter, &config, &layout)?;

    let tensors = layout.parameters.tensors().map(|(_, parameter, tensor)| {
        let shape = parameter.shape(tensor);
        let name = tensor.name.clone();
        let module = name.strip_suffix(".weight").unwrap_or(&name);
        let rank = ranks.get(module).copied().map(|rank| (module.to_owned(), rank));
        let (weights, ab) = (&weights, &ab);
        let values = {
            let (name, shape) = (name.clone(), shape.clone());
            move || {
                if stop() {
                    return Err(Error::io(out, ErrorKind::Interrupted.into()));
                }
                let mut values = weights.read_f32(&name, &shape)?;
                if let (Some((module, rank)), [outputs, inputs]) = (rank, &shape[..]) {
                    let read = |part: &str, shape: [usize; 2]| {
                        ab.read_f32(&format!("{PREFIX}{module}.lora_{part}.weight"), &shape)
                            .map_err(|error| error.with_remedy(DIVERGED))
                    };
                    let a = read("A", [rank.rank, *inputs])?;
                    let b = read("B", [*outputs, rank.rank])?;
                    add_product(&mut values, &a, &b, rank, *inputs);
                }
                Ok(Cow::Owned(values))
            }
        };
        Tensor { name, shape, values: Box::new(values) }
    });
    let dtype = dtype.unwrap_or_else(|| weights.widest_dtype());
    let options =
        WriteOptions { dtype, max_shard_bytes, carry_from: Some(base), writer: Writer::ALONE };
    write_checkpoint(out, &model.json, tensors.collect(), options)?;
    Ok(dtype)
}

/// `w += s B A`. `w: [outputs, inputs]`, `a: [rank, inputs]`, `b: [outputs, rank]`.
fn add_product(w: &mut [f32], a: &[f32], b: &[f32], Rank { rank, scale }: Rank, inputs: usize) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rows = (w.len() / inputs).div_ceil(threads).max(1);
    let add = |w: &mut [f32], b: &[f32]| {
        let mut sums = vec![0.0; inputs];
        for (w, b) in w.chunks_exact_mut(inputs).zip(b.chunks_exact(rank)) {
            sums.fill(0.0);
            for (&b, a) in b.iter().zip(a.chunks_exact(inputs)) {
                for (sum, &a) in sums.iter_mut().zip(a) {
                    *sum += f64::from(b) * f64::from(a);
                }
            }
            for (w, sum) in w.iter_mut().zip(&sums) {
                *w = (f64::from(*w) + f64::from(scale) * sum) as f32;
            }
        }
    };
    std::thread::scope(|scope| {
        for (w, b) in w.chunks_mut(rows * inputs).zip(b.chunks(rows * rank)) {
            scope.spawn(move || add(w, b));
        }
    });
}

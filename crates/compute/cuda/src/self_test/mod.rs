//! The self-test: operations of small, odd shapes that a GPU must get right before it is used.
//!
//! Kernels are compiled by the compiler and the driver that the machine happens to have. A run
//! would not notice a wrong kernel.

mod against_cpu;
mod attention;
mod captured;
mod linear;

use crate::cuda::Cuda;
use crate::dtype::Dtype;
use crate::failure::DeviceFailure;
use half::bf16;
use isentrope_kernels::{Attention, Backend, Buffer, Cpu, HostBatch, Isa, Kind, Role};
use std::sync::Arc;

/// A number of processors that exceeds any product's tiles, so that tiles are narrow.
const MANY: usize = 1 << 20;
/// A number of processors that small tiles of the products here occupy, and large tiles do not.
const SOME: usize = 5;

/// Computes some operations on the device, and compares every number. In f32 they must have the
/// CPU's bits. In bf16, products must have the bits of the tensor core's known arithmetic; and
/// products, attention and their gradients must be right on numbers that any arithmetic adds
/// exactly, however they are divided into tiles and splits. A captured graph must compute what its
/// launches compute one by one.
///
/// # Errors
/// A sentence that names the operation and the first numbers that differ.
///
/// # Panics
/// As operations do, when the device fails.
pub fn self_test(backend: &Cuda) -> Result<(), String> {
    let cpu = Cpu::new(Isa::available()[0], 1)?;
    match backend.dtype() {
        Dtype::F32 => {
            let (got, want) = (against_cpu::results(backend), against_cpu::results(&cpu));
            got.iter()
                .zip(&want)
                .try_for_each(|((name, got), (_, want))| compare(name, got, want))?;
        }
        Dtype::Bf16 => {
            // If the device counts as one processor, tiles are large, and a block computes all
            // splits of attention.
            let of = |processors| {
                Cuda::new(Arc::clone(backend.device()), Dtype::Bf16).dividing_for(processors)
            };
            let (many, some, one) = (of(MANY), of(SOME), of(1));
            linear::steps(&many)?;
            for (backend, tiles) in [(&some, "of 64"), (&one, "of 128")] {
                linear::outputs(backend, &cpu, tiles)?;
                linear::gradients(backend, tiles)?;
            }
            // Gradients have no narrow tiles.
            linear::outputs(&many, &cpu, "that are narrow")?;
            linear::normed(&many, &cpu)?;
            attention::heads(&many, &cpu)?;
            attention::splits(&many, &one, &cpu)?;
        }
    }
    captured::steps(backend)
}

/// # Errors
/// As [`self_test`], when two numbers are not the same bits.
fn compare(operation: &str, got: &[f32], want: &[f32]) -> Result<(), String> {
    assert_eq!(got.len(), want.len(), "one operation has results of one shape");
    let differs = |&i: &usize| got[i].to_bits() != want[i].to_bits();
    match (0..got.len()).find(differs) {
        None => Ok(()),
        Some(i) => Err(format!(
            "{operation} computes {:?} ({:#010x}) where it must be {:?} ({:#010x}), number {i} \
             of {}",
            got[i],
            got[i].to_bits(),
            want[i],
            want[i].to_bits(),
            got.len()
        )),
    }
}

/// Numbers from -1 to 1 without a pattern, the same on every machine.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Rounds to bf16.
fn rounded(numbers: impl IntoIterator<Item = f32>) -> Vec<f32> {
    numbers.into_iter().map(|number| bf16::from_f32(number).to_f32()).collect()
}

/// Removes the signs of zeros, which no operation promises.
fn unsigned_zeros(numbers: Vec<f32>) -> Vec<f32> {
    numbers.into_iter().map(|number| number + 0.0).collect()
}

fn rows(backend: &dyn Backend, numbers: &[f32], features: usize) -> Buffer {
    let mut buffer = backend.buffer(Role::Activation(numbers.len() / features, features));
    backend.write(&mut buffer, 0, numbers);
    buffer
}

/// A weight or a gradient.
///
/// # Panics
/// When there is no memory even for this.
fn parameter(backend: &dyn Backend, role: Role, kind: Kind, numbers: &[f32]) -> Buffer {
    let mut buffer =
        backend.allocate(role).unwrap_or_else(|refused| DeviceFailure::from(refused).end());
    backend.pack(kind, 0, numbers, &mut buffer);
    buffer
}

fn read(backend: &dyn Backend, buffer: &Buffer, numbers: usize) -> Vec<f32> {
    let mut read = vec![0.0; numbers];
    backend.read(buffer, 0, &mut read);
    read
}

/// Sequences of these lengths in a cache with pages out of order, and the number of pages.
fn sequences(backend: &dyn Backend, lens: &[usize]) -> (HostBatch, usize) {
    let mut batch = HostBatch::default();
    let mut pages = 0;
    for &len in lens {
        let own = len.div_ceil(backend.page_positions()) as u32;
        batch.push(&vec![0; len], 0, &(pages..pages + own).rev().collect::<Vec<_>>());
        pages += own;
    }
    (batch, pages as usize)
}

/// A cache of keys and values, of one layer.
///
/// # Panics
/// When there is no memory even for this.
fn cache(backend: &dyn Backend, shape: Attention, pages: usize) -> Buffer {
    let role = Role::Cache { shape, layers: 1, pages };
    backend.allocate(role).unwrap_or_else(|refused| DeviceFailure::from(refused).end())
}

/// Attention over a cache that has just been filled with the same keys and values,
/// `[positions, heads * head_dim]`.
fn attention(backend: &dyn Backend, shape: Attention, lens: &[usize], qkv: &[f32]) -> Vec<f32> {
    let (host, pages) = sequences(backend, lens);
    let (total, width) = (host.rows(), shape.heads * shape.head_dim);
    let mut cache = cache(backend, shape, pages);
    let qkv = rows(backend, qkv, shape.row());
    let mut out = rows(backend, &noise(11, total * width), width);
    let batch = backend.upload_batch(&host);
    backend.store_kv(shape, &qkv, &batch, &mut cache, 0);
    backend.attention(shape, &qkv, &batch, &cache, 0, &mut out);
    read(backend, &out, total * width)
}

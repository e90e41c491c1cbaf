//! How numbers lie in the CPU's memory, and how much of it they take.

use crate::support::{assert_bits, contents, cpu, noise};
use isentrope_kernels::{Attention, Backend, CpuBuffer, HostBatch, Kind, Linear, Role, Run};
use proptest::prelude::*;

#[test]
fn buffers_take_the_bytes_that_are_told() {
    let (cpu, matrix) = (cpu(), Kind::Matrix(Linear { inputs: 3, outputs: 61 }));
    let shape = Attention { heads: 4, kv_heads: 2, head_dim: 10, window: None, scale: 1.0 };
    for (role, floats) in [
        (Role::Activation(5, 7), 35),
        (Role::Exact(0, 7), 0),
        (Role::Weight(Kind::Vector(61)), 61),
        (Role::Gradient(matrix), 3 * 64),
        (Role::Moment(100), 100),
        (Role::OffloadedMoment(100), 100),
        (Role::Cache { shape, layers: 3, pages: 5 }, 3 * 5 * 2 * 16 * (10 + 16)),
    ] {
        assert_eq!(
            (cpu.bytes(role), contents(&cpu.allocate(role).unwrap()).len()),
            (4 * floats, floats),
            "{role:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Nothing is lost and nothing is written twice: what is not a weight is padding, still zero.
    #[test]
    fn packed_weights_are_the_rows_and_zeros(inputs in 1usize..40, outputs in 1usize..200, seed: u64) {
        let kind = Kind::Matrix(Linear { inputs, outputs });
        let rows = noise(seed, inputs * outputs);
        let mut packed = cpu().allocate(Role::Gradient(kind)).unwrap();
        cpu().pack(kind, 0, &rows, &mut packed);
        let sum = |x: &[f32]| x.iter().map(|&x| f64::from(x).abs()).sum::<f64>();
        let total = sum(contents(&packed));
        prop_assert!((total - sum(&rows)).abs() < 1e-9 * total.max(1.0));
    }
}

/// A page is keys `[kv heads, head_dim, 16]`, then values
/// `[kv heads, 16, head_dim padded with zeros to 16]`; what no position has filled stays as it was.
#[test]
fn pages_of_a_cache() {
    const LAYER: usize = 2;
    const PAGE: usize = 16;
    assert_eq!(cpu().page_positions(), PAGE);
    let unfilled = f32::from_bits(0x7fc0_beef);
    // Runs of rows 1, 3 and 41 of a batch, from positions on of sequences with these pages of 9.
    let pages = [4u32, 7, 0, 2, 8, 5];
    let stretches = [(1, 1, 0, 1..2), (3, 37, 0, 2..5), (41, 8, 3, 5..6)];
    for (kv_heads, head_dim) in [(1, 2), (2, 10), (3, 16), (2, 24)] {
        let shape = Attention { heads: 2 * kv_heads, kv_heads, head_dim, window: None, scale: 1.0 };
        let rows = 50;
        let qkv = noise(3, rows * shape.row());
        let runs =
            stretches.clone().map(|(row, len, position, pages)| Run { row, len, position, pages });
        let mut cache = cpu().buffer(Role::Cache { shape, layers: LAYER + 1, pages: 9 });
        cpu().fill(&mut cache, unfilled);
        let host = HostBatch {
            tokens: vec![0; rows],
            runs: runs.to_vec(),
            pages: pages.to_vec(),
            ..HostBatch::default()
        };
        let mut device_qkv = cpu().buffer(Role::Activation(rows, shape.row()));
        cpu().write(&mut device_qkv, 0, &qkv);
        cpu().store_kv(shape, &device_qkv, &cpu().batch(&host), &mut cache, LAYER);

        let padded = head_dim.next_multiple_of(16);
        let page_len = cpu().bytes(Role::Cache { shape, layers: 1, pages: 1 }) / 4;
        let mut want = vec![unfilled; (LAYER + 1) * 9 * page_len];
        let layer = &mut want[LAYER * 9 * page_len..];
        for run in runs {
            for i in 0..run.len {
                let position = run.position + i;
                let page = pages[run.pages.start + position / PAGE] as usize;
                let page = &mut layer[page * page_len..][..page_len];
                let row = &qkv[(run.row + i) * shape.row()..][..shape.row()];
                let slot = position % PAGE;
                for head in 0..kv_heads {
                    let value = kv_heads * head_dim * PAGE + (head * PAGE + slot) * padded;
                    page[value..value + padded].fill(0.0);
                    for d in 0..head_dim {
                        page[(head * head_dim + d) * PAGE + slot] =
                            row[(2 * kv_heads + head) * head_dim + d];
                        page[value + d] = row[(3 * kv_heads + head) * head_dim + d];
                    }
                }
            }
        }
        assert_bits(&format!("{shape:?}"), contents(&cache), &want);
    }
}

/// Pages are copied in every layer, and nothing else is touched.
#[test]
fn pages_are_copied() {
    let shape = Attention { heads: 2, kv_heads: 1, head_dim: 10, window: None, scale: 1.0 };
    let role = |pages| Role::Cache { shape, layers: 3, pages };
    let (page, mut cache) = (cpu().bytes(role(1)) / 3 / 4, cpu().buffer(role(5)));
    let before = noise(1, 3 * 5 * page);
    cache.of_mut::<CpuBuffer>().copy_from_slice(&before);
    cpu().copy_pages(shape, &mut cache, &[(4, 0), (1, 3)]);
    let mut want = before.clone();
    for layer in want.chunks_mut(5 * page) {
        layer.copy_within(4 * page.., 0);
        layer.copy_within(page..2 * page, 3 * page);
    }
    assert_bits("pages", contents(&cache), &want);
}

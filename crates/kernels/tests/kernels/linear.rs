//! Linear layers against the reference.

use crate::reference;
use crate::support::{
    POISON, assert_bits, assert_close_to, blank, cpu, download, no_gradient, noise, pack, pack_gradient,
    unpack, unpack_gradient, upload, vector, wide, zeros,
};
use isentrope_kernels::{Backend, Kind, Linear};
use proptest::prelude::*;

/// Below, at and above the width of a vector, a panel and a block of the reduction.
const SHAPES: [(usize, usize); 10] =
    [(1, 1), (7, 17), (17, 61), (16, 64), (64, 16), (65, 130), (130, 65), (61, 7), (1030, 70), (70, 1100)];

fn cases() -> impl Iterator<Item = (Linear, usize)> {
    let tokens = [1, 5, 6, 7, 13, 100, 1000];
    let all =
        SHAPES.into_iter().flat_map(move |(inputs, outputs)| tokens.map(|t| (Linear { inputs, outputs }, t)));
    all.filter(|(shape, tokens)| shape.inputs * shape.outputs * tokens < 10_000_000)
}

/// How large a sum of so many products of noise gets.
fn walk(steps: usize) -> f64 {
    (steps as f64).sqrt()
}

#[test]
fn forward() {
    let cpu = cpu();
    for (shape, tokens) in cases() {
        let Linear { inputs, outputs } = shape;
        let (x, w, b) = (noise(1, tokens * inputs), noise(2, outputs * inputs), noise(3, outputs));
        for bias in [true, false] {
            let mut y = blank(cpu, tokens, outputs);
            let (device_bias, b) = (vector(cpu, &b), if bias { b.clone() } else { vec![0.0; outputs] });
            let packed = pack(cpu, shape, &w);
            cpu.linear(
                shape,
                &upload(cpu, inputs, &x),
                &packed,
                bias.then_some(&device_bias),
                &mut y,
                tokens,
            );
            let y = download(&y, tokens * outputs);
            let want = reference::linear(&wide(&x), &wide(&w), &wide(&b), inputs);
            assert_close_to(&format!("{shape:?}, {tokens} tokens"), &y, &want, walk(inputs), 3e-6);
        }
    }
}

#[test]
fn backward() {
    let cpu = cpu();
    for (shape, tokens) in cases() {
        let Linear { inputs, outputs } = shape;
        let (x, w, dy) = (noise(1, tokens * inputs), noise(2, outputs * inputs), noise(3, tokens * outputs));
        let (dw_before, db_before) = (noise(4, outputs * inputs), noise(5, outputs));
        let (device_x, device_dy) = (upload(cpu, inputs, &x), upload(cpu, outputs, &dy));
        let mut dx = blank(cpu, tokens, inputs);
        cpu.linear_backward_input(shape, &device_dy, &pack(cpu, shape, &w), &mut dx, tokens);
        let mut dw = pack_gradient(cpu, shape, &dw_before);
        cpu.linear_backward_weight(shape, &device_dy, &device_x, &mut dw, tokens);
        let mut db = vector(cpu, &db_before);
        cpu.linear_backward_bias(shape, &device_dy, &mut db, tokens);

        let (want_dx, mut want_dw, mut want_db) =
            reference::linear_backward(&wide(&x), &wide(&w), &wide(&dy), inputs);
        want_dw.iter_mut().zip(&dw_before).for_each(|(d, &b)| *d += f64::from(b));
        want_db.iter_mut().zip(&db_before).for_each(|(d, &b)| *d += f64::from(b));
        let what = format!("{shape:?}, {tokens} tokens");
        assert_close_to(
            &format!("dx of {what}"),
            &download(&dx, tokens * inputs),
            &want_dx,
            walk(outputs),
            3e-6,
        );
        assert_close_to(
            &format!("dw of {what}"),
            &unpack_gradient(cpu, shape, &dw),
            &want_dw,
            walk(tokens),
            3e-6,
        );
        assert_close_to(&format!("db of {what}"), &download(&db, outputs), &want_db, walk(tokens), 3e-6);
    }
}

#[test]
fn no_tokens_change_nothing() {
    let cpu = cpu();
    let shape = Linear { inputs: 9, outputs: 70 };
    let (w, b) = (noise(1, 630), noise(2, 70));
    let packed = pack(cpu, shape, &w);
    let (x, dy) = (blank(cpu, 0, 9), blank(cpu, 0, 70));
    let (mut y, mut dx) = (blank(cpu, 0, 70), blank(cpu, 0, 9));
    let (mut dw, mut db) = (pack_gradient(cpu, shape, &w), vector(cpu, &b));
    cpu.linear(shape, &x, &packed, None, &mut y, 0);
    cpu.linear_backward_input(shape, &dy, &packed, &mut dx, 0);
    cpu.linear_backward_weight(shape, &dy, &x, &mut dw, 0);
    cpu.linear_backward_bias(shape, &dy, &mut db, 0);
    download(&y, 0);
    download(&dx, 0);
    assert_bits("dw", &unpack_gradient(cpu, shape, &dw), &w);
    assert_bits("db", &download(&db, 70), &b);
}

#[test]
fn without_inputs_outputs_are_the_bias() {
    let cpu = cpu();
    let shape = Linear { inputs: 0, outputs: 21 };
    let b = noise(1, 21);
    let mut y = blank(cpu, 3, 21);
    cpu.linear(shape, &blank(cpu, 3, 0), &no_gradient(cpu, shape), Some(&vector(cpu, &b)), &mut y, 3);
    assert_bits("y", &download(&y, 63), &b.repeat(3));
}

#[test]
#[should_panic(expected = "2 rows of 8")]
fn a_short_activation_is_refused() {
    let shape = Linear { inputs: 8, outputs: 8 };
    let cpu = cpu();
    cpu.linear(shape, &zeros(cpu, 1, 15), &no_gradient(cpu, shape), None, &mut zeros(cpu, 2, 8), 2);
}

#[test]
#[should_panic(expected = "3 rows of 8")]
fn too_few_rows_are_refused() {
    let shape = Linear { inputs: 8, outputs: 8 };
    let cpu = cpu();
    cpu.linear(shape, &zeros(cpu, 2, 8), &no_gradient(cpu, shape), None, &mut zeros(cpu, 3, 8), 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Rows may come in any pieces, and a piece comes back alone.
    #[test]
    fn packing_is_undone_by_unpacking(inputs in 1usize..40, outputs in 1usize..200, cut in 0usize..200, seed: u64) {
        let cpu = cpu();
        let (shape, cut) = (Linear { inputs, outputs }, cut.min(outputs));
        let rows = noise(seed, inputs * outputs);
        let (head, tail) = rows.split_at(cut * inputs);
        let mut packed = no_gradient(cpu, shape);
        cpu.pack(Kind::Matrix(shape), cut, tail, &mut packed);
        cpu.pack(Kind::Matrix(shape), 0, head, &mut packed);
        assert_bits("whole", &unpack(cpu, shape, &packed), &rows);
        let mut piece = vec![POISON; tail.len()];
        cpu.unpack(Kind::Matrix(shape), cut, &packed, &mut piece);
        assert_bits("piece", &piece, tail);
        // Nothing is lost and nothing is written twice: what is not a weight is padding, still zero.
        let sum = |x: &[f32]| x.iter().map(|&x| f64::from(x).abs()).sum::<f64>();
        let total = sum(&packed);
        prop_assert!((total - sum(&rows)).abs() < 1e-9 * total.max(1.0));
    }
}

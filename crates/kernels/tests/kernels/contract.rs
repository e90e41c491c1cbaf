//! The numerics contract bit for bit: chains in their stated order, whatever the instruction set, the threads, the
//! batch and the micro-batches.

use crate::support::{
    assert_bits, blank, cpu, download, every_cpu, indices, noise, pack, pack_gradient, pieces,
    unpack_gradient, upload,
};
use isentrope_kernels::{AdamW, Backend, Cpu, Distribution, Grouped, HeadGradient, Linear, Turn};
use proptest::prelude::*;
use std::ops::Range;

/// One fused multiply-add after another, from `start`.
fn chain(start: f32, terms: impl Iterator<Item = (f32, f32)>) -> f32 {
    terms.fold(start, |sum, (a, b)| a.mul_add(b, sum))
}

#[test]
fn linear_layers_are_chains() {
    for (inputs, outputs, tokens) in
        [(1, 1, 1), (17, 61, 7), (600, 70, 13), (65, 700, 6), (9, 70, 300), (130, 65, 100)]
    {
        let shape = Linear { inputs, outputs };
        let (x, w, b) = (noise(1, tokens * inputs), noise(2, outputs * inputs), noise(3, outputs));
        let (dy, dw, db) = (noise(4, tokens * outputs), noise(5, outputs * inputs), noise(6, outputs));
        let mut want = [const { Vec::new() }; 4];
        for t in 0..tokens {
            want[0].extend(
                (0..outputs)
                    .map(|o| chain(b[o], (0..inputs).map(|i| (x[t * inputs + i], w[o * inputs + i])))),
            );
            want[1].extend(
                (0..inputs)
                    .map(|i| chain(0.0, (0..outputs).map(|o| (dy[t * outputs + o], w[o * inputs + i])))),
            );
        }
        for o in 0..outputs {
            let dy = |t: usize| dy[t * outputs + o];
            want[2].extend(
                (0..inputs)
                    .map(|i| chain(dw[o * inputs + i], (0..tokens).map(|t| (dy(t), x[t * inputs + i])))),
            );
            want[3].push((0..tokens).fold(db[o], |sum, t| sum + dy(t)));
        }
        let cpu = cpu();
        let (x, dy, packed) = (upload(cpu, &x), upload(cpu, &dy), pack(cpu, shape, &w));
        let (mut y, mut dx) = (blank(cpu, tokens * outputs), blank(cpu, tokens * inputs));
        let (mut dw, mut db) = (pack_gradient(cpu, shape, &dw), upload(cpu, &db));
        cpu.linear(shape, &x, &packed, Some(&upload(cpu, &b)), &mut y, tokens);
        cpu.linear_backward_input(shape, &dy, &packed, &mut dx, tokens);
        cpu.linear_backward_weight(shape, &dy, &x, &mut dw, tokens);
        cpu.linear_backward_bias(shape, &dy, &mut db, tokens);
        let what = format!("{shape:?}, {tokens} tokens");
        let residual = noise(7, tokens * outputs);
        let mut added = upload(cpu, &residual);
        cpu.linear_add(shape, &x, &packed, Some(&upload(cpu, &b)), &mut added, tokens);
        let sum: Vec<f32> = residual.iter().zip(&want[0]).map(|(r, y)| r + y).collect();
        assert_bits(&format!("residual and y of {what}"), &download(cpu, &added, tokens * outputs), &sum);
        assert_bits(&format!("y of {what}"), &download(cpu, &y, tokens * outputs), &want[0]);
        assert_bits(&format!("dx of {what}"), &download(cpu, &dx, tokens * inputs), &want[1]);
        assert_bits(&format!("dw of {what}"), &unpack_gradient(cpu, shape, &dw), &want[2]);
        assert_bits(&format!("db of {what}"), &download(cpu, &db, outputs), &want[3]);
    }
}

/// The sizes of one call of everything but attention.
#[derive(Clone)]
struct Sizes {
    shape: Linear,
    norm: Grouped,
    rotated: Grouped,
}

const SIZES: Sizes = Sizes {
    shape: Linear { inputs: 70, outputs: 205 },
    norm: Grouped { stride: 70, offset: 2, groups: 2, features: 33 },
    rotated: Grouped { stride: 70, offset: 4, groups: 3, features: 22 },
};

/// What the rows `range` of a batch lead to. Outputs have a row per row of the batch; sums have gone on from
/// noise, or from the sums before, over the rows in order.
struct Results {
    outputs: Vec<(&'static str, usize, Vec<f32>)>,
    sums: Vec<(&'static str, Vec<f32>)>,
}

/// Every operation that works row by row, on the rows `range` of a batch of `rows`, sums going on from `before`.
fn operate(cpu: &Cpu, rows: usize, range: Range<usize>, before: Option<&Results>) -> Results {
    let Sizes { shape, norm, rotated } = SIZES;
    let Linear { inputs, outputs } = shape;
    let n = range.len();
    let part = |seed: u64, width: usize| {
        upload(cpu, &noise(seed, rows * width)[range.start * width..range.end * width])
    };
    let host = |seed: u64| noise(seed, rows)[range.clone()].to_vec();
    let sum =
        |i: usize, len: usize| before.map_or_else(|| noise(100 + i as u64, len), |b| b.sums[i].1.clone());
    let (x, dy, packed) = (part(1, inputs), part(2, outputs), pack(cpu, shape, &noise(3, inputs * outputs)));

    let (mut y, mut dx) = (blank(cpu, n * outputs), blank(cpu, n * inputs));
    cpu.linear(shape, &x, &packed, Some(&upload(cpu, &noise(4, outputs))), &mut y, n);
    cpu.linear_backward_input(shape, &dy, &packed, &mut dx, n);
    let mut dw = pack_gradient(cpu, shape, &sum(0, inputs * outputs));
    cpu.linear_backward_weight(shape, &dy, &x, &mut dw, n);
    let mut db = upload(cpu, &sum(1, outputs));
    cpu.linear_backward_bias(shape, &dy, &mut db, n);

    let norm_weight = upload(cpu, &noise(5, norm.features));
    let (mut normed, mut d_norm) = (part(6, inputs), part(7, inputs));
    cpu.rms_norm(norm, 1e-6, &x, &norm_weight, &mut normed, n);
    let mut d_weight = upload(cpu, &sum(2, norm.features));
    cpu.rms_norm_backward(
        norm,
        1e-6,
        &x,
        &norm_weight,
        Some(&part(8, inputs)),
        &mut d_norm,
        &mut d_weight,
        n,
    );

    let positions = &indices(9, rows, 50)[range.clone()];
    let table = |seed| upload(cpu, &noise(seed, 50 * rotated.features / 2));
    let mut turned = part(10, inputs);
    cpu.rope(rotated, &mut turned, &table(11), &table(12), positions, Turn::Forward);

    let mut gated = blank(cpu, n * inputs / 2);
    cpu.swiglu(inputs / 2, &x, &mut gated, n);
    let (mut d_gated, mut gate_up) = (part(13, inputs / 2), part(1, inputs));
    cpu.swiglu_backward(inputs / 2, &mut d_gated, &mut gate_up, n);

    let tokens = &indices(14, rows, outputs)[range.clone()];
    let mut embedded = blank(cpu, n * inputs);
    cpu.embed(shape, &packed, tokens, &mut embedded);
    let mut embedding_rows = upload(cpu, &sum(3, outputs * inputs));
    cpu.embed_backward(inputs, tokens, &x, &mut embedding_rows);

    let (logprobs, distributions) = cpu.head(shape, &x, &packed, tokens, 0.7);
    let gradient = HeadGradient {
        targets: tokens,
        distributions: &distributions,
        logprob: &host(15),
        entropy: &host(16),
        temperature: 0.7,
    };
    let mut d_hidden = blank(cpu, n * inputs);
    let mut d_head = pack_gradient(cpu, shape, &sum(4, inputs * outputs));
    cpu.head_backward(shape, &x, &packed, gradient, &mut d_hidden, &mut d_head);
    let entropies = distributions.iter().flat_map(|d| [d.max, d.log_sum, d.entropy]).collect();

    let get = |buffer, width: usize| download(cpu, buffer, n * width);
    Results {
        outputs: vec![
            ("linear", outputs, get(&y, outputs)),
            ("linear_backward_input", inputs, get(&dx, inputs)),
            ("rms_norm", inputs, get(&normed, inputs)),
            ("rms_norm_backward", inputs, get(&d_norm, inputs)),
            ("rope", inputs, get(&turned, inputs)),
            ("swiglu", inputs / 2, get(&gated, inputs / 2)),
            ("swiglu_backward", inputs, get(&gate_up, inputs)),
            ("swiglu_backward's y", inputs / 2, get(&d_gated, inputs / 2)),
            ("embed", inputs, get(&embedded, inputs)),
            ("log-probability", 1, logprobs),
            ("distribution", 3, entropies),
            ("head_backward", inputs, get(&d_hidden, inputs)),
        ],
        sums: vec![
            ("linear_backward_weight", unpack_gradient(cpu, shape, &dw)),
            ("linear_backward_bias", download(cpu, &db, outputs)),
            ("rms_norm_backward's dw", download(cpu, &d_weight, norm.features)),
            ("embed_backward", download(cpu, &embedding_rows, outputs * inputs)),
            ("head_backward's dw", unpack_gradient(cpu, shape, &d_head)),
        ],
    }
}

/// `part`, computed from the rows `range` alone, has the bits of those rows of `whole`.
fn assert_rows(whole: &Results, part: &Results, range: Range<usize>) {
    for ((name, width, want), (_, _, got)) in whole.outputs.iter().zip(&part.outputs) {
        assert_bits(&format!("{name}, rows {range:?}"), got, &want[range.start * width..range.end * width]);
    }
}

fn assert_sums(what: &str, got: &Results, want: &Results) {
    for ((name, want), (_, got)) in want.sums.iter().zip(&got.sums) {
        assert_bits(&format!("{name}, {what}"), got, want);
    }
}

#[test]
fn instruction_sets_and_threads() {
    // Enough rows for every operation to be cut into several tasks.
    let rows = 900;
    let want = operate(&every_cpu()[0], rows, 0..rows, None);
    for cpu in &every_cpu()[1..] {
        let got = operate(cpu, rows, 0..rows, None);
        assert_rows(&want, &got, 0..rows);
        assert_sums(&format!("{}, {} threads", cpu.isa(), cpu.threads()), &got, &want);
    }
}

#[test]
fn a_row_alone_and_in_a_batch() {
    let rows = 100;
    let whole = operate(cpu(), rows, 0..rows, None);
    for row in (0..rows).step_by(3).chain([rows - 1]) {
        assert_rows(&whole, &operate(cpu(), rows, row..row + 1, None), row..row + 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    /// Micro-batches are not an event: outputs and sums are those of the whole batch.
    #[test]
    fn micro_batches(cuts in prop::collection::vec(0usize..300, 0..7), rows in 1usize..300) {
        let whole = operate(cpu(), rows, 0..rows, None);
        let mut sums: Option<Results> = None;
        for range in pieces(rows, &cuts) {
            let part = operate(cpu(), rows, range.clone(), sums.as_ref());
            assert_rows(&whole, &part, range);
            sums = Some(part);
        }
        assert_sums("in micro-batches", &sums.unwrap(), &whole);
    }
}

/// So many rows that the head works through them, and through the vocabulary, in several blocks.
#[test]
fn blocks_of_the_head() {
    let (cpu, shape, rows) = (cpu(), Linear { inputs: 2, outputs: 1000 }, 34_000);
    let (x, packed) = (noise(1, rows * 2), pack(cpu, shape, &noise(2, 2000)));
    let (targets, a, b) = (indices(3, rows, 1000), noise(4, rows), noise(5, rows));
    let head = |range: Range<usize>, dw: &mut _| {
        let device_x = upload(cpu, &x[range.start * 2..range.end * 2]);
        let targets = &targets[range.clone()];
        let (logprobs, distributions) = cpu.head(shape, &device_x, &packed, targets, 1.0);
        let gradient = HeadGradient {
            targets,
            distributions: &distributions,
            logprob: &a[range.clone()],
            entropy: &b[range.clone()],
            temperature: 1.0,
        };
        let mut dx = blank(cpu, range.len() * 2);
        cpu.head_backward(shape, &device_x, &packed, gradient, &mut dx, dw);
        let dx = download(cpu, &dx, range.len() * 2);
        let entropies: Vec<f32> = distributions.iter().map(|d| d.entropy).collect();
        [logprobs, entropies, dx]
    };
    let (mut whole, mut halves) = (cpu.zeros(shape.packed_len()), cpu.zeros(shape.packed_len()));
    let at_once = head(0..rows, &mut whole);
    let (first, second) = (head(0..9000, &mut halves), head(9000..rows, &mut halves));
    for i in 0..3 {
        assert_bits("rows", &[&first[i][..], &second[i][..]].concat(), &at_once[i]);
    }
    assert_bits("dw", &unpack_gradient(cpu, shape, &halves), &unpack_gradient(cpu, shape, &whole));
    cpu.trim();
}

/// The sampler reads a row of logits on the host and must see what the head saw.
#[test]
fn distributions_on_the_host() {
    for vocabulary in [1, 2, 61, 1000] {
        let shape = Linear { inputs: 17, outputs: vocabulary };
        let (x, w, rows) = (noise(1, 13 * 17), noise(2, 17 * vocabulary), 13);
        let targets = indices(3, rows, vocabulary);
        for cpu in every_cpu() {
            let (x, packed) = (upload(cpu, &x), pack(cpu, shape, &w));
            let mut logits = blank(cpu, rows * vocabulary);
            cpu.linear(shape, &x, &packed, None, &mut logits, rows);
            let logits = download(cpu, &logits, rows * vocabulary);
            for temperature in [1.0, 0.7] {
                let (logprobs, distributions) = cpu.head(shape, &x, &packed, &targets, temperature);
                for (r, logits) in logits.chunks(vocabulary).enumerate() {
                    let d = cpu.distribution(logits, temperature);
                    assert_eq!((d, Distribution::of(cpu.isa(), logits, temperature)), (distributions[r], d));
                    let logprob = d.logprob(logits[targets[r] as usize], temperature);
                    assert_bits("log-probability", &[logprob], &logprobs[r..=r]);
                }
            }
        }
    }
}

/// What has no rows: the optimizer.
#[test]
fn flat_operations_on_every_instruction_set() {
    let len = 70_003;
    let settings = AdamW {
        learning_rate: 1e-3,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.01,
        step: 3,
        gradient_scale: 0.5,
    };
    let run = |cpu: &Cpu| {
        let second = noise(3, len).into_iter().map(f32::abs).collect::<Vec<f32>>();
        let (mut weights, mut first, mut second) =
            (cpu.upload(&noise(1, len)), cpu.upload(&noise(2, len)), cpu.upload(&second));
        cpu.adamw(settings, &mut weights, &cpu.upload(&noise(4, len)), &mut first, &mut second);
        [weights, first, second].map(|b| cpu.with_host(&b, len, <[f32]>::to_vec))
    };
    let want = run(&every_cpu()[0]);
    for cpu in &every_cpu()[1..] {
        run(cpu).iter().zip(&want).for_each(|(got, want)| assert_bits(&cpu.isa().to_string(), got, want));
    }
}

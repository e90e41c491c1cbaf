//! The numerics contract bit for bit: chains in their stated order, whatever the instruction set, the threads, the
//! batch and the micro-batches.

use crate::support::{
    assert_bits, blank, cpu, download, every_cpu, indices, no_gradient, noise, pack, pack_gradient, pieces,
    positions, tokens, unpack_gradient, upload, vector,
};
use isentrope_kernels::{
    AdamW, Adjustments, Backend, Cpu, CpuBuffer, Draw, Grouped, Kind, Linear, Role, Turn, Updated,
};
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
        let (x, dy, packed) = (upload(cpu, inputs, &x), upload(cpu, outputs, &dy), pack(cpu, shape, &w));
        let (mut y, mut dx) = (blank(cpu, tokens, outputs), blank(cpu, tokens, inputs));
        let (mut dw, mut db) = (pack_gradient(cpu, shape, &dw), vector(cpu, &db));
        cpu.linear(shape, &x, &packed, Some(&vector(cpu, &b)), &mut y, tokens);
        cpu.linear_backward_input(shape, &dy, &packed, &mut dx, tokens);
        cpu.linear_backward_weight(shape, &dy, &x, &mut dw, tokens);
        cpu.linear_backward_bias(shape, &dy, &mut db, tokens);
        let what = format!("{shape:?}, {tokens} tokens");
        let residual = noise(7, tokens * outputs);
        let mut added = upload(cpu, outputs, &residual);
        cpu.linear_add(shape, &x, &packed, Some(&vector(cpu, &b)), &mut added, tokens);
        let sum: Vec<f32> = residual.iter().zip(&want[0]).map(|(r, y)| r + y).collect();
        assert_bits(&format!("residual and y of {what}"), &download(&added, tokens * outputs), &sum);
        assert_bits(&format!("y of {what}"), &download(&y, tokens * outputs), &want[0]);
        assert_bits(&format!("dx of {what}"), &download(&dx, tokens * inputs), &want[1]);
        assert_bits(&format!("dw of {what}"), &unpack_gradient(cpu, shape, &dw), &want[2]);
        assert_bits(&format!("db of {what}"), &download(&db, outputs), &want[3]);
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
        upload(cpu, width, &noise(seed, rows * width)[range.start * width..range.end * width])
    };
    let host = |seed: u64| noise(seed, rows)[range.clone()].to_vec();
    let sum =
        |i: usize, len: usize| before.map_or_else(|| noise(100 + i as u64, len), |b| b.sums[i].1.clone());
    let (x, dy, packed) = (part(1, inputs), part(2, outputs), pack(cpu, shape, &noise(3, inputs * outputs)));

    let (mut y, mut dx) = (blank(cpu, n, outputs), blank(cpu, n, inputs));
    cpu.linear(shape, &x, &packed, Some(&vector(cpu, &noise(4, outputs))), &mut y, n);
    cpu.linear_backward_input(shape, &dy, &packed, &mut dx, n);
    let mut dw = pack_gradient(cpu, shape, &sum(0, inputs * outputs));
    cpu.linear_backward_weight(shape, &dy, &x, &mut dw, n);
    let mut db = vector(cpu, &sum(1, outputs));
    cpu.linear_backward_bias(shape, &dy, &mut db, n);

    let norm_weight = vector(cpu, &noise(5, norm.features));
    let (mut normed, mut d_norm) = (part(6, inputs), part(7, inputs));
    cpu.rms_norm(norm, 1e-6, &x, &norm_weight, &mut normed, n);
    let mut d_weight = vector(cpu, &sum(2, norm.features));
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

    let at = positions(cpu, &indices(9, rows, 50)[range.clone()]);
    let table = |seed| upload(cpu, rotated.features / 2, &noise(seed, 50 * rotated.features / 2));
    let mut turned = part(10, inputs);
    cpu.rope(rotated, &mut turned, &table(11), &table(12), &at, Turn::Forward);

    let mut gated = blank(cpu, n, inputs / 2);
    cpu.swiglu(inputs / 2, &x, &mut gated, n);
    let (mut d_gated, mut gate_up) = (part(13, inputs / 2), part(1, inputs));
    cpu.swiglu_backward(inputs / 2, &mut d_gated, &mut gate_up, n);

    let words = &indices(14, rows, outputs)[range.clone()];
    let mut embedded = blank(cpu, n, inputs);
    cpu.embed(shape, &packed, &tokens(cpu, words), &mut embedded);
    let mut embedding_rows = upload(cpu, inputs, &sum(3, outputs * inputs));
    cpu.embed_backward(&cpu.index(words), &x, &mut embedding_rows);

    let mut statistics = cpu.head(shape, &x, &packed, cpu.index(words), 0.7);
    let (logprobs, entropies) = cpu.scores(&mut statistics);
    let mut d_hidden = blank(cpu, n, inputs);
    let mut d_head = pack_gradient(cpu, shape, &sum(4, inputs * outputs));
    let (a, b) = (&host(15), &host(16));
    cpu.head_backward(shape, &x, &packed, &statistics, a, b, &mut d_hidden, &mut d_head);
    let draw = |row| Draw {
        row,
        adjustments: Adjustments { top_p: 0.9, ..Adjustments::temperature(0.7) },
        penalised: Vec::new(),
        uniform: f64::from(noise(17, rows)[range.start + row] / 3.0 + 0.5),
    };
    let drawn = cpu.draw(shape, &x, &packed, &(0..n).map(draw).collect::<Vec<_>>());
    let drawn = drawn.into_iter().map(Option::unwrap);
    let drawn = drawn.flat_map(|d| [d.token as f32, d.logprob, d.sampling_logprob.unwrap(), d.entropy]);

    let get = |buffer, width: usize| download(buffer, n * width);
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
            ("entropy", 1, entropies),
            ("draw", 4, drawn.collect()),
            ("head_backward", inputs, get(&d_hidden, inputs)),
        ],
        sums: vec![
            ("linear_backward_weight", unpack_gradient(cpu, shape, &dw)),
            ("linear_backward_bias", download(&db, outputs)),
            ("rms_norm_backward's dw", download(&d_weight, norm.features)),
            ("embed_backward", download(&embedding_rows, outputs * inputs)),
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
        let device_x = upload(cpu, 2, &x[range.start * 2..range.end * 2]);
        let mut statistics = cpu.head(shape, &device_x, &packed, cpu.index(&targets[range.clone()]), 1.0);
        let (logprobs, entropies) = cpu.scores(&mut statistics);
        let mut dx = blank(cpu, range.len(), 2);
        let (a, b) = (&a[range.clone()], &b[range.clone()]);
        cpu.head_backward(shape, &device_x, &packed, &statistics, a, b, &mut dx, dw);
        [logprobs, entropies, download(&dx, range.len() * 2)]
    };
    let (mut whole, mut halves) = (no_gradient(cpu, shape), no_gradient(cpu, shape));
    let at_once = head(0..rows, &mut whole);
    let (first, second) = (head(0..9000, &mut halves), head(9000..rows, &mut halves));
    for i in 0..3 {
        assert_bits("rows", &[&first[i][..], &second[i][..]].concat(), &at_once[i]);
    }
    assert_bits("dw", &unpack_gradient(cpu, shape, &halves), &unpack_gradient(cpu, shape, &whole));
    cpu.trim();
}

/// The sampler must see what the head saw: a drawn token has the log-prob and the entropy of a target.
#[test]
fn draws_have_the_scores_of_targets() {
    for vocabulary in [1, 2, 61, 1000] {
        let shape = Linear { inputs: 17, outputs: vocabulary };
        let (x, w, rows) = (noise(1, 13 * 17), noise(2, 17 * vocabulary), 13);
        let uniforms: Vec<f64> = noise(3, 5 * rows).iter().map(|&x| f64::from(x) / 3.0 + 0.5).collect();
        for cpu in every_cpu() {
            let (x, packed) = (upload(cpu, 17, &x), pack(cpu, shape, &w));
            for adjustments in [
                Adjustments::temperature(1.0),
                Adjustments::temperature(0.7),
                Adjustments { top_k: 3, min_p: 0.01, ..Adjustments::temperature(0.7) },
                Adjustments { repetition_penalty: 1.3, ..Adjustments::temperature(1.0) },
                Adjustments::temperature(0.0),
            ] {
                // Several draws from each row, in no order of rows.
                let draws: Vec<Draw> = (0..5 * rows)
                    .map(|i| Draw {
                        row: i * 7 % rows,
                        adjustments,
                        penalised: vec![0, vocabulary as u32 - 1, 0],
                        uniform: uniforms[i],
                    })
                    .collect();
                let drawn: Vec<_> =
                    cpu.draw(shape, &x, &packed, &draws).into_iter().map(Option::unwrap).collect();
                let mut hidden = blank(cpu, draws.len(), 17);
                let row: Vec<u32> = draws.iter().map(|draw| draw.row as u32).collect();
                cpu.gather_rows(&x, &cpu.index(&row), &mut hidden);
                let targets: Vec<u32> = drawn.iter().map(|drawn| drawn.token).collect();
                let temperature = if adjustments.temperature == 0.0 { 1.0 } else { adjustments.temperature };
                let mut statistics = cpu.head(shape, &hidden, &packed, cpu.index(&targets), temperature);
                let (logprobs, entropies) = cpu.scores(&mut statistics);
                let of = |f: fn(&isentrope_kernels::Drawn) -> f32| drawn.iter().map(f).collect::<Vec<f32>>();
                assert_bits("log-prob", &of(|d| d.logprob), &logprobs);
                assert_bits("entropy", &of(|d| d.entropy), &entropies);
            }
        }
    }
}

/// So many rows that their logits are held in several blocks; a row that is not finite concerns no other.
#[test]
fn blocks_of_draws() {
    let (cpu, shape, rows) = (cpu(), Linear { inputs: 2, outputs: 1000 }, 34_000);
    let (mut x, packed) = (noise(1, rows * 2), pack(cpu, shape, &noise(2, 2000)));
    x[2 * 33_600] = f32::NAN;
    let hidden = upload(cpu, 2, &x);
    let draw =
        |row| Draw { row, adjustments: Adjustments::temperature(1.0), penalised: Vec::new(), uniform: 0.4 };
    let at = [33_999, 3, 33_553, 33_600, 33_554, 3];
    let drawn = cpu.draw(shape, &hidden, &packed, &at.map(draw));
    for (&row, drawn) in at.iter().zip(&drawn) {
        let alone = upload(cpu, 2, &x[2 * row..][..2]);
        assert_eq!(cpu.draw(shape, &alone, &packed, &[draw(0)])[0], *drawn);
        assert_eq!(drawn.is_none(), row == 33_600);
    }
    assert!(cpu.draw(shape, &hidden, &packed, &[]).is_empty());
    cpu.trim();
}

/// A vector, and nothing behind it.
fn exactly(cpu: &Cpu, data: &[f32]) -> CpuBuffer {
    let kind = Kind::Vector(data.len());
    let mut buffer = cpu.allocate(Role::Weight(kind)).unwrap();
    cpu.pack(kind, 0, data, &mut buffer);
    buffer
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
            (exactly(cpu, &noise(1, len)), exactly(cpu, &noise(2, len)), exactly(cpu, &second));
        let gradient = &exactly(cpu, &noise(4, len));
        let (weights_, first_, second_) = (&mut weights, &mut first, &mut second);
        cpu.adamw(settings, &mut [Updated { weights: weights_, gradient, first: first_, second: second_ }]);
        [weights, first, second].map(|b| b.to_vec())
    };
    let want = run(&every_cpu()[0]);
    for cpu in &every_cpu()[1..] {
        run(cpu).iter().zip(&want).for_each(|(got, want)| assert_bits(&cpu.isa().to_string(), got, want));
    }
}

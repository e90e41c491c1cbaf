//! The head and draws: blocks of rows, and the scores of drawn tokens.

use crate::data::{assert_bits, indices, masks, noise};
use crate::device::{Device, Trial, gradient, weights};
use crate::properties;
use isentrope_kernels::{
    Adjustments, DeviceBatch, Draw, Drawn, HeadScores, HostBatch, Linear, Role, SamplingMasks,
    TeacherRows,
};
use std::ops::Range;
use std::sync::Arc;

properties!(
    blocks_of_the_head,
    draws_have_the_scores_of_targets,
    blocks_of_draws,
    tokens_of_draws_are_fed_as_known_ones_are
);

/// A head, the number of its rows whose logits a device holds at a time, and a slightly larger
/// number of rows.
fn blocks(trial: &Trial) -> (Device<'_>, Linear, usize, usize) {
    let (device, logits) = trial.in_small_blocks();
    let shape = Linear { inputs: 2, outputs: 1000 };
    let block = logits / shape.outputs;
    (device, shape, block, block + block / 20)
}

/// Enough rows for several blocks of rows, and for several blocks of the vocabulary.
fn blocks_of_the_head(trial: &Trial) {
    let (device, shape, block, rows) = blocks(trial);
    let x = device.noise(Role::Activation(rows, 2), 1);
    let packed = device.upload_noise(weights(shape), 2);
    let (targets, a, b, c) =
        (indices(3, rows, 1000), noise(4, rows), noise(5, rows), noise(6, rows));
    let (taught, its_head, e) = (
        device.noise(Role::Activation(rows, 2), 7),
        device.upload_noise(weights(shape), 8),
        noise(9, rows),
    );
    // Only some rows have masks: masks of all rows would take long.
    let some = masks(&targets[..40], 1000);
    let masks =
        SamplingMasks::concat(&[(&some, 40), (&SamplingMasks::default(), rows - 80), (&some, 40)]);
    let head = |range: Range<usize>, dw: &mut _| {
        let role = Role::Activation(range.len(), 2);
        let device_x = device.upload(role, &x[range.start * 2..range.end * 2]);
        let index = || device.upload_index(&targets[range.clone()]);
        let masks = Arc::new(masks.part(range.clone()));
        let slopes =
            device.entropy_slopes(shape, &device_x, &packed, index(), masks.clone(), 1.0).slopes;
        let hidden = device.upload(role, &taught[range.start * 2..range.end * 2]);
        let teacher = TeacherRows { hidden: &hidden, weights: &its_head, shape };
        let mut statistics =
            device.head(shape, &device_x, &packed, index(), masks, 1.0, Some(teacher));
        let divergences = device.divergences(&statistics);
        let HeadScores { logprobs, entropies, log_masses } = device.scores(&mut statistics);
        let mut dx = device.blank(role);
        let [a, b, c, e] = [&a, &b, &c, &e].map(|of| &of[range.clone()]);
        let (of_teacher, dw) = (Some((teacher, e)), Some(dw));
        device.head_backward(
            shape,
            &device_x,
            &packed,
            &statistics,
            a,
            b,
            c,
            of_teacher,
            &mut dx,
            dw,
        );
        [logprobs, entropies, log_masses, slopes, divergences, device.download(role, &dx)]
    };
    let (mut whole, mut halves) = (device.zeros(gradient(shape)), device.zeros(gradient(shape)));
    let at_once = head(0..rows, &mut whole);
    let cut = block / 3;
    let (first, second) = (head(0..cut, &mut halves), head(cut..rows, &mut halves));
    for i in 0..6 {
        assert_bits("rows", &[&first[i][..], &second[i][..]].concat(), &at_once[i]);
    }
    let [halves, whole] = [&halves, &whole].map(|dw| device.download(gradient(shape), dw));
    assert_bits("dw", &halves, &whole);
    device.trim();
}

/// The sampler sees the head's numbers: a drawn token has the log-prob and the entropy of a target.
fn draws_have_the_scores_of_targets(trial: &Trial) {
    for vocabulary in [1, 2, 61, 1000] {
        let shape = Linear { inputs: 17, outputs: vocabulary };
        let rows = 13;
        let uniforms: Vec<f64> =
            noise(3, 5 * rows).iter().map(|&x| f64::from(x) / 3.0 + 0.5).collect();
        for device in trial.devices() {
            let x = device.upload_noise(Role::Activation(rows, 17), 1);
            let packed = device.upload_noise(weights(shape), 2);
            for adjustments in [
                Adjustments::temperature(1.0),
                Adjustments::temperature(0.7),
                Adjustments { top_p: 0.9, ..Adjustments::temperature(1.0) },
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
                        records_kept: true,
                        uniform: uniforms[i],
                    })
                    .collect();
                let drawn: Vec<Drawn> = device
                    .draw(shape, &x, &packed, &draws)
                    .into_iter()
                    .map(Option::unwrap)
                    .collect();
                if !adjustments.departs() {
                    let (_, begun) = device.begin_draw(shape, &x, &packed, &draws);
                    let (_, since) = device.begin_draw(shape, &x, &packed, &draws[..1]);
                    let read = device.read_draws(begun);
                    assert_eq!(
                        read.iter().flatten().collect::<Vec<_>>(),
                        drawn.iter().collect::<Vec<_>>()
                    );
                    assert_eq!(device.read_draws(since)[0].as_ref(), Some(&drawn[0]));
                }
                let mut hidden = device.blank(Role::Activation(draws.len(), 17));
                let row: Vec<u32> = draws.iter().map(|draw| draw.row as u32).collect();
                device.copy_rows(&x, &device.upload_index(&row), &mut hidden);
                let targets: Vec<u32> = drawn.iter().map(|drawn| drawn.token).collect();
                let temperature =
                    if adjustments.temperature == 0.0 { 1.0 } else { adjustments.temperature };
                let mut kept = SamplingMasks::default();
                for (drawn, draw) in drawn.iter().zip(&draws) {
                    let tokens = drawn.mask.as_ref().map_or(&[][..], |kept| &kept.tokens);
                    assert!(
                        tokens.is_empty() || tokens.contains(&drawn.token),
                        "{draw:?} of {tokens:?}"
                    );
                    assert!(drawn.mask.is_none() || adjustments.truncates());
                    kept.push(tokens);
                }
                assert!(!kept.is_whole() || !adjustments.truncates() || vocabulary < 3);
                let targets = device.upload_index(&targets);
                let mut statistics =
                    device.head(shape, &hidden, &packed, targets, kept.into(), temperature, None);
                let HeadScores { logprobs, entropies, mut log_masses } =
                    device.scores(&mut statistics);
                log_masses.resize(draws.len(), 0.0);
                let of = |f: fn(&Drawn) -> f32| drawn.iter().map(f).collect::<Vec<f32>>();
                assert_bits("log-prob", &of(|d| d.logprob), &logprobs);
                assert_bits("entropy", &of(|d| d.entropy), &entropies);
                assert_bits(
                    "log-mass",
                    &of(|d| d.mask.as_ref().map_or(0.0, |kept| kept.log_mass)),
                    &log_masses,
                );
                for drawn in drawn.iter().filter(|drawn| drawn.mask.is_some()) {
                    let of_mass = drawn.logprob - drawn.mask.as_ref().unwrap().log_mass;
                    let error = of_mass - drawn.sampling_logprob.unwrap();
                    assert!(
                        error.abs() < 1e-5,
                        "log-prob less log-mass is off by {error} from the sampling log-prob"
                    );
                }
            }
        }
    }
}

/// Enough rows for several blocks of logits. A row that is not finite changes no other row.
fn blocks_of_draws(trial: &Trial) {
    let (device, shape, block, rows) = blocks(trial);
    let role = Role::Activation(rows, 2);
    let mut x = device.noise(role, 1);
    let packed = device.upload_noise(weights(shape), 2);
    let not_finite = block + 2;
    x[2 * not_finite] = f32::NAN;
    let hidden = device.upload(role, &x);
    let draw = |row| Draw::at_temperature(1.0, row, 0.4);
    let at = [rows - 1, 3, block - 1, not_finite, block, 3];
    let drawn = device.draw(shape, &hidden, &packed, &at.map(draw));
    for (&row, drawn) in at.iter().zip(&drawn) {
        let alone = device.upload(Role::Activation(1, 2), &x[2 * row..][..2]);
        assert_eq!(device.draw(shape, &alone, &packed, &[draw(0)])[0], *drawn);
        assert_eq!(drawn.is_none(), row == not_finite);
    }
    assert!(device.draw(shape, &hidden, &packed, &[]).is_empty());
    assert_eq!(
        device.read_draws(device.begin_draw(shape, &hidden, &packed, &at.map(draw)).1),
        drawn
    );
    assert!(device.read_draws(device.begin_draw(shape, &hidden, &packed, &[]).1).is_empty());
    device.trim();
}

/// A row embeds the token of a draw before the host knows it. If the draw's logits are not finite,
/// any token may be embedded.
fn tokens_of_draws_are_fed_as_known_ones_are(trial: &Trial) {
    let (shape, rows) = (Linear { inputs: 17, outputs: 300 }, 9);
    for device in trial.devices() {
        let role = Role::Activation(rows, shape.inputs);
        let mut x = device.noise(role, 1);
        x[4 * shape.inputs] = f32::NAN;
        let hidden = device.upload(role, &x);
        let packed = device.upload_noise(weights(shape), 2);
        // Several draws from a row, in no order of rows, and some of the likeliest.
        let draw = |i: usize| {
            let temperature = if i.is_multiple_of(3) { 0.0 } else { 1.3 };
            Draw::at_temperature(temperature, i * 7 % rows, (i as f64 + 0.5) / 11.0)
        };
        let (tokens, drawing) = device.begin_draw(
            shape,
            &hidden,
            &packed,
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(draw),
        );
        // Draws in another order, some of them twice, with known tokens between them.
        let (mut host, fed) = (
            HostBatch::default(),
            [Ok(10), Err(299), Ok(0), Ok(7), Err(0), Ok(3), Ok(10), Ok(4), Ok(7)],
        );
        for row in fed {
            match row {
                Ok(draw) => host.push_drawn(draw, 0, &[]),
                Err(token) => host.push(&[token], 0, &[]),
            }
        }
        let embedded = |batch: &DeviceBatch| {
            let mut y = device.blank(Role::Activation(fed.len(), shape.inputs));
            device.embed(shape, &packed, batch, &mut y);
            device.download(Role::Activation(fed.len(), shape.inputs), &y)
        };
        let got = embedded(&device.upload_drawn_batch(&host, Some(&tokens)));
        drop(tokens);
        let drawn = device.read_draws(drawing);
        let some = |at: usize| {
            let of = |token| embedded(&device.tokens(&[token; 9]))[..shape.inputs].to_vec();
            (0..300).find(|&token| of(token) == got[at * shape.inputs..][..shape.inputs]).unwrap()
        };
        let known: Vec<u32> = (0..)
            .zip(fed)
            .map(|(at, row)| match row {
                Ok(draw) => drawn[draw].as_ref().map_or_else(|| some(at), |drawn| drawn.token),
                Err(token) => token,
            })
            .collect();
        assert!(
            drawn.iter().any(Option::is_none)
                && fed.iter().flatten().any(|&draw| drawn[draw].is_none())
        );
        assert_bits("embedded", &got, &embedded(&device.tokens(&known)));
    }
}

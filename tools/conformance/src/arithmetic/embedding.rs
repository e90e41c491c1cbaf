//! Embeddings: copies and sums in a given order, so equality is exact.

use crate::data::{assert_bits, indices};
use crate::device::{Trial, gradient, weights};
use crate::properties;
use isentrope_kernels::{Linear, Role};

properties!(rows_are_looked_up, gradients_add_up_by_token);

const SHAPES: [(usize, usize); 6] = [(1, 1), (7, 2), (17, 61), (65, 130), (64, 64), (130, 1000)];

fn rows_are_looked_up(trial: &Trial) {
    let device = trial.device();
    for (hidden, vocabulary) in SHAPES {
        let shape = Linear { inputs: hidden, outputs: vocabulary };
        let rows = device.noise(weights(shape), 1);
        let packed = device.upload(weights(shape), &rows);
        for count in [0, 1, 6, 13, 1000] {
            let wanted = indices(2, count, vocabulary);
            let want: Vec<f32> = wanted
                .iter()
                .flat_map(|&t| rows[t as usize * hidden..][..hidden].iter().copied())
                .collect();
            let role = Role::Activation(count, hidden);
            let mut y = device.blank(role);
            device.embed(shape, &packed, &device.tokens(&wanted), &mut y);
            let want = device.seen(role, want);
            assert_bits(&format!("{shape:?}, {count} tokens"), &device.download(role, &y), &want);
        }
    }
}

fn gradients_add_up_by_token(trial: &Trial) {
    let device = trial.device();
    for (hidden, vocabulary) in SHAPES {
        let shape = Linear { inputs: hidden, outputs: vocabulary };
        for count in [0, 1, 7, 100, 1000] {
            let dy_role = Role::Activation(count, hidden);
            let (tokens, dy) = (indices(2, count, vocabulary), device.noise(dy_role, 3));
            let before = device.noise(gradient(shape), 4);
            // The tokens' gradients are added one after another, and their sum is added to the old
            // value.
            let mut sums = vec![0.0; before.len()];
            for (&token, dy) in tokens.iter().zip(dy.chunks(hidden)) {
                let row = &mut sums[token as usize * hidden..][..hidden];
                row.iter_mut().zip(dy).for_each(|(sum, &d)| *sum += d);
            }
            let want: Vec<f32> = before.iter().zip(&sums).map(|(b, s)| b + s).collect();
            let mut distinct = tokens.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let slots: Vec<u32> =
                tokens.iter().map(|t| distinct.binary_search(t).unwrap() as u32).collect();
            let sums_role = Role::Exact(distinct.len(), hidden);
            let mut rows = device.upload(sums_role, &vec![0.0; distinct.len() * hidden]);
            device.embed_backward(
                &device.upload_index(&slots),
                &device.upload(dy_role, &dy),
                &mut rows,
            );
            device.download(sums_role, &rows);
            let mut sum = device.upload(gradient(shape), &before);
            device.add_embedding_rows(shape, &rows, &device.upload_index(&distinct), &mut sum);
            let what = format!("{shape:?}, {count} tokens");
            assert_bits(&what, &device.download(gradient(shape), &sum), &want);
        }
    }
}

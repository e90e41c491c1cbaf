//! Embeddings: copies and sums in a given order, so equality is exact.

use crate::support::{
    assert_bits, blank, cpu, download, indices, no_gradient, noise, pack, pack_gradient, tokens,
    unpack_gradient, upload, zeros,
};
use isentrope_kernels::{Backend, Linear};

const SHAPES: [(usize, usize); 6] = [(1, 1), (7, 2), (17, 61), (65, 130), (64, 64), (130, 1000)];

#[test]
fn rows_are_looked_up() {
    let cpu = cpu();
    for (hidden, vocabulary) in SHAPES {
        let table = Linear { inputs: hidden, outputs: vocabulary };
        let rows = noise(1, hidden * vocabulary);
        let packed = pack(cpu, table, &rows);
        for count in [0, 1, 6, 13, 1000] {
            let wanted = indices(2, count, vocabulary);
            let want: Vec<f32> =
                wanted.iter().flat_map(|&t| rows[t as usize * hidden..][..hidden].iter().copied()).collect();
            let mut y = blank(cpu, count, hidden);
            cpu.embed(table, &packed, &tokens(cpu, &wanted), &mut y);
            assert_bits(&format!("{table:?}, {count} tokens"), &download(&y, count * hidden), &want);
        }
    }
}

#[test]
fn gradients_add_up_by_token() {
    let cpu = cpu();
    for (hidden, vocabulary) in SHAPES {
        let table = Linear { inputs: hidden, outputs: vocabulary };
        for count in [0, 1, 7, 100, 1000] {
            let (tokens, dy) = (indices(2, count, vocabulary), noise(3, count * hidden));
            let before = noise(4, hidden * vocabulary);
            // The tokens' gradients one after another, and their sum added to what was there.
            let mut sums = vec![0.0; before.len()];
            for (&token, dy) in tokens.iter().zip(dy.chunks(hidden)) {
                let row = &mut sums[token as usize * hidden..][..hidden];
                row.iter_mut().zip(dy).for_each(|(sum, &d)| *sum += d);
            }
            let want: Vec<f32> = before.iter().zip(&sums).map(|(b, s)| b + s).collect();
            let mut distinct = tokens.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let slots: Vec<u32> = tokens.iter().map(|t| distinct.binary_search(t).unwrap() as u32).collect();
            let mut rows = upload(cpu, hidden, &vec![0.0; distinct.len() * hidden]);
            cpu.embed_backward(&cpu.index(&slots), &upload(cpu, hidden, &dy), &mut rows);
            download(&rows, distinct.len() * hidden);
            let mut gradient = pack_gradient(cpu, table, &before);
            cpu.add_embedding_rows(table, &rows, &cpu.index(&distinct), &mut gradient);
            let what = format!("{table:?}, {count} tokens");
            assert_bits(&what, &unpack_gradient(cpu, table, &gradient), &want);
        }
    }
}

#[test]
#[should_panic(expected = "vocabulary")]
fn a_token_in_the_padding_of_the_table_is_refused() {
    let (cpu, table) = (cpu(), Linear { inputs: 3, outputs: 61 });
    cpu.add_embedding_rows(table, &zeros(cpu, 1, 3), &cpu.index(&[61]), &mut no_gradient(cpu, table));
}

#[test]
#[should_panic(expected = "assertion")]
fn a_token_beyond_the_vocabulary_is_refused() {
    let (cpu, table) = (cpu(), Linear { inputs: 3, outputs: 61 });
    cpu.embed(table, &no_gradient(cpu, table), &tokens(cpu, &[61]), &mut zeros(cpu, 1, 3));
}

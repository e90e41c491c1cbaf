//! The map as a picture: a matrix of cosines, and the weight that each objective gives tokens by
//! their log-prob and advantage. SVG, for pages and documents.

use super::{Comparison, Effect, RecordedBatch};
use crate::page::escaped;
use std::fmt::Write;

/// Pixels: the side of a cell of the matrix, and the room for names.
const CELL: usize = 24;
const NAMES: usize = 130;
/// Panels of a row, the size of one, and the room of one with its title.
const ACROSS: usize = 5;
const PANEL: [usize; 2] = [144, 84];
const ROOM: [usize; 2] = [156, 112];
/// Bins of log-probs from `LEAST_LOGPROB` to 0, and of advantages on both sides of 0.
const BINS: [usize; 2] = [18, 7];
const LEAST_LOGPROB: f64 = -6.0;

pub(super) fn draw(batch: &RecordedBatch, effects: &[Effect], all: &[Comparison]) -> String {
    let names: Vec<String> = all.iter().map(|c| escaped(&c.name)).collect();
    let matrix = NAMES + CELL * all.len();
    let rows = all.len().saturating_sub(1).div_ceil(ACROSS);
    let below = matrix + 56;
    let (width, height) =
        ((matrix + NAMES).max(ACROSS * ROOM[0] + 24), below + rows * ROOM[1] + 24);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (i, name) in names.iter().enumerate() {
        let middle = NAMES + CELL * i + CELL / 2;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>\
             <text transform=\"translate({},{}) rotate(-50)\">{name}</text>",
            NAMES - 6,
            middle + 4,
            middle + 3,
            NAMES - 6
        );
        for j in 0..names.len() {
            let cosine = if j > i { all[i].cosines[j] } else { all[i].change_cosines[j] };
            let (x, y) = (NAMES + CELL * j, NAMES + CELL * i);
            if i != j
                && let Some(cosine) = cosine
            {
                let fill = colour(cosine);
                let ink = if cosine.abs() > 0.7 { "#fff" } else { "#222" };
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{fill}\"/>\
                     <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"9\" \
                     fill=\"{ink}\">{:.0}</text>",
                    x + CELL / 2,
                    y + CELL / 2 + 3,
                    (100.0 * cosine).round() + 0.0 // -0 has no sign
                );
            }
        }
    }
    let first = &names[0];
    let _ = writeln!(
        svg,
        "<text x=\"12\" y=\"{}\">Above the diagonal: 100 times the cosine of coefficients; below: \
         of their changes from {first}.</text>\n\
         <text x=\"12\" y=\"{}\">Panels: coefficients as a share of {first}'s, by log-prob ({} to \
         0) and advantage (up); white 1, blue more, red less, grey no tokens.</text>",
        matrix + 20,
        matrix + 38,
        LEAST_LOGPROB
    );
    let bins = Bins::of(batch);
    let plain = bins.sums(&effects[0].coefficients);
    for (at, effect) in effects.iter().enumerate().skip(1) {
        let (left, top) =
            (12 + (at - 1) % ACROSS * ROOM[0], below + 14 + (at - 1) / ACROSS * ROOM[1]);
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"{}\">{}</text><rect x=\"{left}\" y=\"{top}\" width=\"{}\" \
             height=\"{}\" fill=\"#ddd\"/>",
            top - 4,
            names[at],
            PANEL[0],
            PANEL[1]
        );
        let (wide, high) = (PANEL[0] / BINS[0], PANEL[1] / BINS[1]);
        for (bin, (sum, plain)) in bins.sums(&effect.coefficients).iter().zip(&plain).enumerate() {
            if bins.counts[bin] > 0 && *plain != 0.0 {
                let (x, y) = (left + bin % BINS[0] * wide, top + bin / BINS[0] * high);
                let fill = colour(sum / plain - 1.0);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" fill=\"{fill}\"/>"
                );
            }
        }
    }
    svg + "</svg>\n"
}

/// White for 0, blue towards 1, red towards -1; beyond them the same.
fn colour(value: f64) -> String {
    let size = value.abs().min(1.0);
    let full = if value < 0.0 { [178.0, 24.0, 43.0] } else { [33.0, 102.0, 172.0] };
    let [r, g, b] = full.map(|channel: f64| (255.0 + (channel - 255.0) * size).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Tokens by log-prob and advantage, the largest advantage first.
struct Bins {
    /// The bin of each token, `[tokens]`.
    of_token: Vec<usize>,
    counts: Vec<usize>,
}

impl Bins {
    fn of(batch: &RecordedBatch) -> Self {
        let largest = batch.advantages.iter().fold(f64::MIN_POSITIVE, |l, a| l.max(a.abs()));
        let place = |share: f64, bins: usize| ((share * bins as f64) as usize).min(bins - 1);
        let bin = |(logprob, advantage): (&f64, &f64)| {
            let column = place((1.0 - logprob / LEAST_LOGPROB).max(0.0), BINS[0]);
            let row = place((1.0 - advantage / largest) / 2.0, BINS[1]);
            row * BINS[0] + column
        };
        let of_token: Vec<usize> = batch.logprobs.iter().zip(&batch.advantages).map(bin).collect();
        let mut counts = vec![0; BINS[0] * BINS[1]];
        of_token.iter().for_each(|&bin| counts[bin] += 1);
        Self { of_token, counts }
    }

    /// Sums of the tokens of each bin.
    fn sums(&self, values: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.counts.len()];
        self.of_token.iter().zip(values).for_each(|(&bin, value)| sums[bin] += value);
        sums
    }
}

//! Deterministic mutations of inputs, for runs on a stable compiler. cargo-fuzz has its own.

use std::collections::BTreeSet;

/// Longest input, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// Numbers that often break readers.
const NUMBERS: &str = "0 -1 1 2 127 255 65536 4294967295 4294967296 9223372036854775807 \
                       18446744073709551615 1e308 1e999 -0.0 99999999999999999999999";

/// Generator of inputs.
pub struct Mutator {
    corpus: Vec<Vec<u8>>,
    /// Words and signs of the corpus.
    words: Vec<Vec<u8>>,
    state: u64,
}

impl Mutator {
    /// Seeds a generator of mutations of `corpus`, which is not empty.
    pub fn new(seed: u64, corpus: Vec<Vec<u8>>) -> Self {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let together = |a: &u8, b: &u8| is_word(a) && is_word(b);
        let pieces = corpus.iter().flat_map(|input| input.chunk_by(together));
        let words: BTreeSet<&[u8]> = pieces.filter(|piece| piece.len() < 32).collect();
        let words = words.into_iter().map(<[u8]>::to_vec).collect();
        Self { corpus, words, state: seed }
    }

    /// Mutates one input of the corpus.
    pub fn input(&mut self) -> Vec<u8> {
        let start = self.below(self.corpus.len());
        let mut data = self.corpus[start].clone();
        for _ in 0..1 + self.below(6) {
            self.change(&mut data);
        }
        data.truncate(MAX_BYTES);
        data
    }

    fn change(&mut self, data: &mut Vec<u8>) {
        let (from, to) = (self.below(data.len() + 1), self.below(data.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        // Most changes are small.
        let near = to.min(from + 1 + self.below(16));
        match self.below(10) {
            0 if from < data.len() => data[from] ^= 1 << self.below(8),
            1 if from < data.len() => data[from] = self.below(256) as u8,
            2 => drop(data.drain(from..near)),
            3 => drop(data.drain(from..to)),
            4 => {
                let piece = data[from..near].to_vec();
                let times = 1 << self.below(10);
                data.splice(from..from, piece.repeat(times));
            }
            5 | 6 if !self.words.is_empty() => {
                let word = self.below(self.words.len());
                data.splice(from..from, self.words[word].iter().copied());
            }
            7 => {
                // Replaces a number, if there is one.
                let start =
                    data[from..].iter().position(u8::is_ascii_digit).map_or(from, |at| from + at);
                let length = data[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = NUMBERS.split(' ').nth(self.below(15)).unwrap_or("0");
                data.splice(start..start + length, number.bytes());
            }
            8 => {
                let other = self.below(self.corpus.len());
                let length = self.corpus[other].len() + 1;
                let (a, b) = (self.below(length), self.below(length));
                let piece = &self.corpus[other][a.min(b)..a.max(b)];
                data.splice(from..near, piece.iter().copied());
            }
            _ => {
                let piece = data[from..near].to_vec();
                let at = self.below(data.len() + 1);
                data.splice(at..at, piece);
            }
        }
    }

    /// A number below `end`, which is not 0 (SplitMix64).
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

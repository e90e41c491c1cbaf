//! The runs of a batch, as the kernels of the gated delta rule take them.

use crate::kernels::{Pointer, word};
use crate::rounding::rounded_up;
use crate::splits::is_decoding;
use crate::uploaded::Uploaded;
use isentrope_kernels::Run;

/// No row, or no run.
const NONE: u32 = u32::MAX;
/// Words of a run, as in `delta_rule.h`.
const WORDS: usize = 8;
/// Tokens between kept states, as in `delta_rule.h`.
pub(crate) const SEGMENT: usize = 32;

/// Uploaded runs, and the order in which they are computed.
pub(crate) struct DeltaRuns {
    block: Uploaded,
    /// Runs with their padding.
    count: usize,
    /// Waves, one after the other. Runs with states have one wave.
    pub waves: Vec<Wave>,
    /// The place of the matrices of each run in the order.
    pub places: Vec<usize>,
}

/// Some sequences: first the runs that begin them, then those that continue a run, which are as
/// many at a time.
pub(crate) struct Wave {
    pub begins: Part,
    pub continuing: Vec<Part>,
}

/// Runs that are computed at a time.
#[derive(Default)]
pub(crate) struct Part {
    /// The first one's number in the order.
    pub first: usize,
    pub len: usize,
    /// Rows of the longest one.
    pub longest: usize,
    /// States that they keep.
    pub segments: usize,
}

impl DeltaRuns {
    /// With states, each run has one. Otherwise runs are whole sequences, of which `at_once` are
    /// computed at a time.
    ///
    /// # Panics
    /// When a run continues none before it.
    pub(crate) fn new(
        rows: usize,
        runs: &[Run],
        states: &[u32],
        at_once: usize,
        upload: impl FnOnce(&[u32]) -> Uploaded,
    ) -> Self {
        let mut list = List { words: Vec::new(), order: Vec::new(), places: Vec::new() };
        let mut waves = Vec::new();
        if states.is_empty() {
            let families: Vec<&[Run]> = runs.chunk_by(|_, run| run.position > 0).collect();
            let mut first = 0;
            for families in families.chunks(at_once) {
                waves.push(list.wave(first, families, at_once));
                first += families.iter().map(|family| family.len()).sum::<usize>();
            }
        } else {
            assert_eq!(states.len(), runs.len(), "each run needs a state");
            let mut part = Part::default();
            for (number, (run, &state)) in runs.iter().zip(states).enumerate() {
                list.push(number, run, NONE, state as usize, (true, 0), &mut part);
            }
            if is_decoding(runs) {
                // Runs without rows end at once.
                part.len = rounded_up(runs.len());
                list.words.resize(WORDS * part.len, 0);
                list.order.extend((runs.len()..part.len).map(word));
            }
            waves.push(Wave { begins: part, continuing: Vec::new() });
        }
        let mut run_of = vec![NONE; rows];
        for (number, run) in (0..).zip(runs) {
            run_of[run.row..run.row + run.len].fill(number);
        }
        let count = list.words.len() / WORDS;
        let block = upload(&[list.words, list.order, run_of].concat());
        Self { block, count, waves, places: list.places }
    }

    pub(crate) fn runs(&self) -> Pointer {
        self.block.at(0)
    }
    /// The numbers of a part's runs.
    pub(crate) fn order(&self, part: &Part) -> Pointer {
        self.block.at(4 * (WORDS * self.count + part.first))
    }
    /// The number of each row's run.
    pub(crate) fn run_of(&self) -> Pointer {
        self.block.at(4 * (WORDS + 1) * self.count)
    }
}

/// Words of runs by their number, and numbers and places in order.
struct List {
    words: Vec<u32>,
    order: Vec<u32>,
    places: Vec<usize>,
}

impl List {
    /// Families of runs that begin with run `first`.
    fn wave(&mut self, first: usize, families: &[&[Run]], at_once: usize) -> Wave {
        let mut begins = Part { first: self.order.len(), ..Part::default() };
        let mut continuing = Vec::new();
        let mut number = first;
        for (place, family) in families.iter().enumerate() {
            let beginning = &family[0];
            assert_eq!(beginning.position, 0, "a run continues none before it");
            let followers = family.len() - 1;
            self.push(number, beginning, NONE, place, (followers > 0, followers), &mut begins);
            for (run, number) in family[1..].iter().zip(number + 1..) {
                assert_eq!(run.position, beginning.len, "a run continues none before it");
                continuing.push((number, run, word(beginning.row + beginning.len), place));
            }
            number += family.len();
        }
        let parts = continuing.chunks(at_once).map(|runs| {
            let mut part = Part { first: self.order.len(), ..Part::default() };
            for &(number, run, before, place) in runs {
                self.push(number, run, before, place, (false, 0), &mut part);
            }
            part
        });
        Wave { continuing: parts.collect(), begins }
    }

    /// Adds a run to a part. `leaves` says whether it leaves its state, and how many runs go on
    /// from there.
    fn push(
        &mut self,
        number: usize,
        run: &Run,
        before: u32,
        place: usize,
        (leaves, followers): (bool, usize),
        part: &mut Part,
    ) {
        let [row, len, position] = [run.row, run.len, run.position].map(word);
        let [place_word, followers, segment] = [place, followers, part.segments].map(word);
        let end = WORDS * (number + 1);
        self.words.resize(self.words.len().max(end), 0);
        self.words[end - WORDS..end].copy_from_slice(&[
            row,
            len,
            position,
            before,
            place_word,
            u32::from(leaves),
            followers,
            segment,
        ]);
        self.order.push(word(number));
        self.places.push(place);
        part.len += 1;
        part.longest = part.longest.max(run.len);
        part.segments += run.len.div_ceil(SEGMENT);
    }
}

//! A sequence that is sampled step by step gets the bits of the training forward pass. Neither the
//! chunks of its prefill matter, nor pages, nor company, nor whether it shares its prefix.

use crate::device::Trial;
use crate::models::{family, nan_model, score_bits_alone, some_pages, temperature, tokens};
use crate::properties;
use isentrope_model::{KvCache, Model, Scores, Step};
use proptest::prelude::*;
use std::ops::Range;

properties!(steps_equal_the_training_pass, a_shared_prefix_changes_nothing);

const PAGES: usize = 40;

fn steps_equal_the_training_pass(trial: &Trial) {
    proptest!(trial.cases(96), |(
        family in family(),
        texts in prop::collection::vec(tokens(1..some_pages(trial)), 1..6),
        rhythm in rhythm(trial.page()),
        order in Just((0..PAGES).collect::<Vec<_>>()).prop_shuffle(),
        wanted in wanted(),
        temperature in temperature(),
    )| {
        let model = trial.model(family);
        let mut cache = scrambled_cache(trial, family, &order);
        let mut writers: Vec<_> = texts.iter().map(|text| Writer::new(text)).collect();
        write(model, &mut cache, &mut writers, &rhythm, wanted, temperature);
        for writer in &writers {
            writer.check(model, 0, wanted, temperature)?;
        }
    });
}

fn a_shared_prefix_changes_nothing(trial: &Trial) {
    proptest!(trial.cases(96), |(
        family in family(),
        prefix in tokens(1..40),
        suffixes in prop::collection::vec(tokens(1..30), 1..5),
        rhythm in rhythm(trial.page()),
        order in Just((0..PAGES).collect::<Vec<_>>()).prop_shuffle(),
        temperature in temperature(),
    )| {
        let model = trial.model(family);
        let mut cache = scrambled_cache(trial, family, &order);
        let texts: Vec<Vec<u32>> =
            suffixes.iter().map(|suffix| [&prefix[..], suffix].concat()).collect();

        // The first sequence writes the prefix. The others share its full pages, and have a copy of
        // the partial one.
        let mut first = Writer::new(&texts[0]);
        first.end = prefix.len();
        let alone = std::slice::from_mut(&mut first);
        write(model, &mut cache, alone, &rhythm, ScoredRows::EveryRow, temperature);
        first.end = texts[0].len() - 1;
        let mut writers = vec![first];
        for text in &texts[1..] {
            let mut writer = Writer::new(text);
            writer.fed = prefix.len();
            writer.pages = writers[0].pages.clone();
            let own = writer.pages.split_off(prefix.len() / trial.page());
            writer.pages.iter().for_each(|&page| cache.share(page));
            for original in own {
                let copy = cache.take().unwrap();
                cache.copy(model, &[(original, copy)]);
                writer.pages.push(copy);
            }
            writer.state = cache.take_state();
            if let Some(copy) = writers[0].state.zip(writer.state) {
                cache.copy_states(model, &[copy]);
            }
            writers.push(writer);
        }
        write(model, &mut cache, &mut writers, &rhythm, ScoredRows::EveryRow, temperature);

        writers[0].check(model, 0, ScoredRows::EveryRow, temperature)?;
        for writer in &writers[1..] {
            writer.check(model, prefix.len(), ScoredRows::EveryRow, temperature)?;
        }
        writers.iter().flat_map(|writer| &writer.pages).for_each(|&page| cache.release(page));
        prop_assert_eq!(cache.free_pages(), PAGES);
    });
}

/// Rows whose next token is scored: only the last row of each chunk, as in sampling, or every row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ScoredRows {
    LastRows,
    EveryRow,
}

fn wanted() -> impl Strategy<Value = ScoredRows> {
    prop_oneof![Just(ScoredRows::LastRows), Just(ScoredRows::EveryRow)]
}

/// Rows that sequences contribute to steps, in turn; with 0 a sequence sits one out.
fn rhythm(page: usize) -> impl Strategy<Value = Vec<usize>> {
    let rows = prop_oneof![0..3_usize, Just(1), Just(page), 0..40_usize];
    prop::collection::vec(rows, 0..24).prop_map(|mut rhythm| {
        rhythm.push(1); // so that there is always progress
        rhythm
    })
}

/// A sequence that is being written to the cache.
struct Writer<'a> {
    tokens: &'a [u32],
    /// Tokens in the cache.
    fed: usize,
    /// Tokens to be fed.
    end: usize,
    pages: Vec<u32>,
    /// The sequence's recurrent state, in models that have one.
    state: Option<u32>,
    /// Bits of log-prob and entropy of the token after each position that was asked about.
    results: Vec<Option<[u32; 2]>>,
}

impl<'a> Writer<'a> {
    fn new(tokens: &'a [u32]) -> Self {
        let inputs = tokens.len() - 1;
        let results = vec![None; inputs];
        Self { tokens, fed: 0, end: inputs, pages: Vec::new(), state: None, results }
    }

    /// Pushes up to `rows` rows; returns their positions.
    fn push(
        &mut self,
        rows: usize,
        model: &Model,
        step: &mut Step,
        cache: &mut KvCache,
    ) -> Range<usize> {
        let positions = self.fed..(self.fed + rows).min(self.end);
        if !positions.is_empty() {
            while self.pages.len() < KvCache::pages_for(model, positions.end) {
                self.pages.push(cache.take().unwrap());
            }
            self.state = self.state.or_else(|| cache.take_state());
            step.push(&self.tokens[positions.clone()], positions.start, &self.pages, true);
            step.go_on_from_state(self.state);
        }
        self.fed = positions.end;
        positions
    }

    fn check(
        &self,
        model: &Model,
        from: usize,
        wanted: ScoredRows,
        temperature: f32,
    ) -> Result<(), TestCaseError> {
        let expected = score_bits_alone(model, self.tokens, temperature);
        prop_assert_eq!(expected.len(), self.results.len());
        for (position, (result, expected)) in
            self.results.iter().zip(expected).enumerate().skip(from)
        {
            if wanted == ScoredRows::EveryRow || position + 1 == self.results.len() {
                prop_assert!(result.is_some(), "nothing at {}", position);
            }
            prop_assert!(result.is_none_or(|result| result == expected), "differs at {}", position);
        }
        Ok(())
    }
}

fn write(
    model: &Model,
    cache: &mut KvCache,
    writers: &mut [Writer<'_>],
    rhythm: &[usize],
    wanted: ScoredRows,
    temperature: f32,
) {
    let mut rhythm = rhythm.iter().copied().cycle();
    while writers.iter().any(|writer| writer.fed < writer.end) {
        let mut step = Step::default();
        let mut rows = Vec::new();
        // A finished writer takes no number, so that every number reaches the other writers sooner
        // or later.
        for (w, writer) in
            writers.iter_mut().enumerate().filter(|(_, writer)| writer.fed < writer.end)
        {
            let positions = writer.push(rhythm.next().unwrap(), model, &mut step, cache);
            rows.extend(positions.map(|position| (w, position)));
        }
        if wanted == ScoredRows::EveryRow {
            step.wanted = (0..rows.len() as u32).collect();
        }
        let hidden = model.step(&step, cache, None);
        let places: Vec<(usize, usize)> =
            step.wanted.iter().map(|&row| rows[row as usize]).collect();
        let targets: Vec<u32> =
            places.iter().map(|&(w, position)| writers[w].tokens[position + 1]).collect();
        let Scores { logprobs, entropies, .. } = model.score_next(&hidden, &targets, temperature);
        for ((w, position), (logprob, entropy)) in
            places.into_iter().zip(logprobs.iter().zip(entropies))
        {
            writers[w].results[position] = Some([logprob.to_bits(), entropy.to_bits()]);
        }
    }
}

/// A cache that hands out its pages in the given order, each full of NaN: the old content of a page
/// is never read.
fn scrambled_cache(trial: &Trial, family: &str, order: &[usize]) -> KvCache {
    let model = nan_model(trial, family);
    let mut cache = KvCache::new(&model, PAGES).unwrap();
    let pages: Vec<u32> = (0..PAGES).map(|_| cache.take().unwrap()).collect();
    let mut step = Step::default();
    step.push(&vec![0; PAGES * trial.page()], 0, &pages, false);
    let state = cache.take_state();
    step.go_on_from_state(state);
    model.step(&step, &mut cache, None);
    state.into_iter().for_each(|state| cache.release_state(state));
    order.iter().for_each(|&i| cache.release(pages[i]));
    cache
}

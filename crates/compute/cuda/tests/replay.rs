//! Decoding steps that are launched as one have the bits of those that are launched one by one.

use crate::support::{bits, caught, emulated, load};
use crate::watched::{Watch, Watched};
use isentrope_cuda::{Cuda, Dtype, Graph, Operation, Replays};
use isentrope_cuda_emulator::Settings;
use isentrope_kernels::{Backend, Buffer, Draw, Grouped, Kind, ReplayKey, RmsNorm, Role};
use isentrope_model::{ActivationCache, KvCache, Step};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Sequences of these lengths, which are decoded for `steps` steps. From step `leaves` on, one
/// sequence leaves with every step.
struct Case {
    family: &'static str,
    lens: Vec<usize>,
    steps: usize,
    leaves: usize,
}

impl Case {
    fn new(family: &'static str, sequences: usize, steps: usize, leaves: usize) -> Self {
        // The first decoded token of some sequences begins a page; the others begin in the middle
        // of one.
        let lens = (0..sequences).map(|i| 1 + (i * 7 + 9) % 30).collect();
        Self { family, lens, steps, leaves }
    }
}

fn device(dtype: Dtype) -> Cuda {
    emulated(dtype, Settings::default())
}

/// The token at a position of a sequence.
fn token(sequence: usize, position: usize) -> u32 {
    ((sequence * 31 + position * 17) % 61) as u32
}

/// The final hidden states of all steps, then the last keys and values as attention sees them.
fn decode(cuda: &Arc<Cuda>, case: &Case) -> Vec<u32> {
    let model = load(cuda.clone(), case.family);
    let mut cache = KvCache::new(&model, 400).unwrap();
    let mut activation_cache = ActivationCache::new(&model, 90).unwrap();
    let mut all = Vec::new();
    let mut read = |hidden: &Buffer, rows: usize| {
        let mut numbers = vec![0.0; rows * model.config.hidden_size];
        cuda.read(hidden, 0, &mut numbers);
        all.extend(bits(&numbers));
    };
    let mut step = Step::default();
    let mut sequences: Vec<(usize, usize, Vec<u32>)> = Vec::new();
    for (i, &len) in case.lens.iter().enumerate() {
        let pages: Vec<u32> = (0..len.div_ceil(16)).map(|_| cache.take().unwrap()).collect();
        let tokens: Vec<u32> = (0..len).map(|position| token(i, position)).collect();
        step.push(&tokens, 0, &pages, false);
        sequences.push((i, len, pages));
    }
    model.step(&step, &mut cache, None);
    for at in 0..case.steps {
        step.clear();
        for (i, position, pages) in &mut sequences {
            if *position == pages.len() * 16 {
                pages.push(cache.take().unwrap());
            }
            step.push(&[token(*i, *position)], *position, pages, true);
            *position += 1;
            // In all but the first case, fewer rows are wanted than cached.
            if *i > 0
                && let Some(slot) = activation_cache.take()
            {
                step.cache_activations(&[slot]);
            }
        }
        let hidden = model.step(&step, &mut cache, Some(&mut activation_cache));
        read(&hidden, sequences.len());
        if at >= case.leaves && sequences.len() > 1 {
            let (.., pages) = sequences.remove(at % sequences.len());
            pages.into_iter().for_each(|page| cache.release(page));
        }
    }
    all
}

/// Decodes with and without replay, and returns the counts with it.
fn both(dtype: Dtype, case: &Case) -> Replays {
    let cuda = Arc::new(device(dtype));
    let apart = Arc::new(device(dtype).without_replay());
    assert!(decode(&cuda, case) == decode(&apart, case), "other bits: {:?} {dtype:?}", case.lens);
    assert_eq!(apart.replays(), Replays::default());
    cuda.replays()
}

#[test]
#[ignore = "deep: samples at length on the emulated GPU"]
fn steps_that_are_one_have_the_bits_of_their_launches() {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        for (family, sequences) in
            [("qwen3", 1), ("mistral-sliding", 3), ("llama-biases", 9), ("qwen2-tied", 35)]
        {
            let replays = both(dtype, &Case::new(family, sequences, 9, usize::MAX));
            // The third step at the latest repeats an earlier one. So do later steps while slots
            // are left, and again without slots.
            assert!(replays.replayed >= 3, "{family}, {sequences} sequences: {replays:?}");
        }
    }
}

#[test]
fn a_sequence_that_ends_leaves_steps_as_they_are() {
    let case = Case { lens: vec![5; 24], ..Case::new("qwen3", 24, 8, 3) };
    let replays = both(Dtype::Bf16, &case);
    // 24 rows and then 23, 22, 21: all of them steps of 24 rows.
    assert!(replays.captured <= 2 && replays.replayed >= 4, "{replays:?}");
}

#[test]
fn sequences_that_come_to_several_splits() {
    // Few sequences: once there are two splits of 1024 keys, each split is a block of its own.
    let case = Case { lens: vec![1019, 3], ..Case::new("qwen2-tied", 2, 9, usize::MAX) };
    let replays = both(Dtype::Bf16, &case);
    assert!(replays.captured >= 2 && replays.replayed >= 4, "{replays:?}");
}

/// Draws for several sequences and steps: each token with its log-prob and entropy. Draws are read
/// at once, or after the next step, which takes its tokens from the device.
fn sampled(cuda: &Arc<Cuda>, sequences: usize, steps: usize, draws_behind: bool) -> Vec<[u32; 3]> {
    let model = load(cuda.clone(), "qwen3");
    let mut cache = KvCache::new(&model, 2 * sequences).unwrap();
    let pages: Vec<[u32; 2]> =
        (0..sequences).map(|_| [(); 2].map(|()| cache.take().unwrap())).collect();
    let mut tokens: Vec<u32> = (0..sequences).map(|i| token(i, 0)).collect();
    let mut sampled = Vec::new();
    let mut read = |drawing| -> Vec<u32> {
        let drawn = model.drawn(drawing).into_iter().map(Option::unwrap);
        let drawn: Vec<[u32; 3]> =
            drawn.map(|d| [d.token, d.logprob.to_bits(), d.entropy.to_bits()]).collect();
        sampled.extend(&drawn);
        drawn.into_iter().map(|[token, ..]| token).collect()
    };
    let mut behind = None;
    for position in 0..steps {
        let mut step = Step::default();
        for (i, pages) in pages.iter().enumerate() {
            match behind {
                // Draws are made in another order than their sequences have.
                Some(_) => step.push_drawn(sequences - 1 - i, position, pages),
                None => step.push(&[tokens[i]], position, pages, true),
            }
        }
        let (drawn, before) = behind.take().unzip();
        let hidden = model.step_after(drawn.as_ref(), &step, &mut cache, None);
        drop(drawn);
        let uniform = |row: usize| ((row * 31 + position * 17) % 97) as f64 / 97.0;
        let draw =
            |row| Draw::at_temperature(if row % 5 == 4 { 0.0 } else { 1.2 }, row, uniform(row));
        let draws: Vec<Draw> = (0..sequences).rev().map(draw).collect();
        let queued = model.begin_draw(&hidden, &draws);
        if let Some(before) = before {
            read(before);
        }
        if draws_behind && position + 1 < steps {
            behind = Some(queued);
        } else {
            tokens = read(queued.1);
            tokens.reverse();
        }
    }
    sampled
}

#[test]
#[ignore = "deep: samples at length on the emulated GPU"]
fn draws_that_are_one_and_are_fed_on_the_device_are_those_that_are_waited_for() {
    for (dtype, sequences) in [(Dtype::F32, 1), (Dtype::F32, 19), (Dtype::Bf16, 5)] {
        let cuda = Arc::new(device(dtype));
        let behind = sampled(&cuda, sequences, 12, true);
        let replays = cuda.replays();
        assert!(replays.replayed >= 2 * (12 - 4), "{sequences} sequences: {replays:?}");
        let apart = Arc::new(device(dtype).without_replay());
        assert!(
            behind == sampled(&apart, sequences, 12, true),
            "{sequences} sequences, one by one"
        );
        assert!(behind == sampled(&apart, sequences, 12, false), "{sequences} sequences, at once");
        assert!(
            behind == sampled(&cuda, sequences, 12, false),
            "{sequences} sequences, at once and as one"
        );
    }
}

#[test]
fn threads_share_a_backend() {
    let case = |sequences| Case::new("qwen3", sequences, 8, usize::MAX);
    let apart = Arc::new(device(Dtype::F32).without_replay());
    let expected = [2, 5].map(|sequences| decode(&apart, &case(sequences)));
    let cuda = Arc::new(device(Dtype::F32));
    let of = |sequences| {
        let cuda = cuda.clone();
        thread::spawn(move || decode(&cuda, &Case::new("qwen3", sequences, 8, usize::MAX)))
    };
    assert!([of(2), of(5)].map(|thread| thread.join().unwrap()) == expected);
}

/// Captures changed operations.
struct Spoils(fn(&mut Vec<Operation>) -> Result<(), String>);

impl Watch for Spoils {
    fn capture(&self, operations: &[Operation]) -> Result<Vec<Operation>, String> {
        let mut operations = operations.to_vec();
        (self.0)(&mut operations)?;
        Ok(operations)
    }
}

fn spoiled(spoil: fn(&mut Vec<Operation>) -> Result<(), String>) -> (Vec<u32>, Replays) {
    let cuda = Arc::new(Cuda::new(Watched::new(Spoils(spoil)), Dtype::F32));
    (decode(&cuda, &Case::new("qwen3", 9, 7, usize::MAX)), cuda.replays())
}

#[test]
fn a_device_that_captures_nothing_launches_one_by_one() {
    let (bits, replays) = spoiled(|_| Err("the driver is of the last century".into()));
    let (expected, _) = spoiled(|_| Ok(()));
    assert!(bits == expected);
    assert_eq!((replays.captured, replays.replayed, replays.launched), (0, 0, 7));
    assert_eq!(replays.refused.as_deref(), Some("the driver is of the last century"));
}

/// Refuses this many captures and replays.
struct Refuses {
    captures: AtomicUsize,
    replays: AtomicUsize,
}

impl Refuses {
    fn refuse(left: &AtomicUsize, why: &str) -> Result<(), String> {
        let is_over = left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_err();
        if is_over { Ok(()) } else { Err(why.into()) }
    }
}

impl Watch for Refuses {
    fn capture(&self, operations: &[Operation]) -> Result<Vec<Operation>, String> {
        Self::refuse(&self.captures, "not this one").map(|()| operations.to_vec())
    }
    fn replay(&self, _: &[Operation]) -> Result<(), String> {
        Self::refuse(&self.replays, "no memory for a graph")
    }
}

/// A step that cannot be captured or replayed is launched one by one; other steps are still
/// captured.
#[test]
fn what_is_refused_of_one_step_is_not_refused_of_others() {
    let case = || Case { lens: vec![5; 24], ..Case::new("qwen3", 24, 12, 6) };
    let (expected, whole) = {
        let cuda = Arc::new(device(Dtype::F32));
        (decode(&cuda, &case()), cuda.replays())
    };
    assert!(whole.captured >= 2 && whole.refused.is_none(), "{whole:?}");
    for [captures, replays] in [[1, 0], [0, 1]] {
        let watch = Refuses { captures: captures.into(), replays: replays.into() };
        let cuda = Arc::new(Cuda::new(Watched::new(watch), Dtype::F32));
        assert!(decode(&cuda, &case()) == expected);
        let some = cuda.replays();
        assert_eq!(some.captured + captures, whole.captured);
        assert!(some.replayed >= 1 && some.replayed < whole.replayed, "{some:?} {whole:?}");
        assert_eq!(some.replayed + some.launched, whole.replayed + whole.launched);
        assert!(some.refused.is_some());
    }
}

/// The first launch of a kernel whose name begins so.
fn first(operations: &[Operation], name: &str) -> usize {
    let is_one = |operation: &Operation| match operation {
        Operation::Launch { function, .. } => function.name.starts_with(name),
        Operation::Product(_) => false,
    };
    operations.iter().position(is_one).unwrap()
}

/// These tests can see a wrong graph: one that lacks a launch, swaps two of them, or has another
/// step's argument, gives other bits.
#[test]
fn a_graph_that_does_something_else_is_noticed() {
    let (expected, replays) = spoiled(|_| Ok(()));
    assert!(replays.replayed > 2);
    let forgets: fn(&mut Vec<Operation>) -> Result<(), String> = |operations| {
        operations.remove(first(operations, "attention"));
        Ok(())
    };
    let swaps: fn(&mut Vec<Operation>) -> Result<(), String> = |operations| {
        let at = first(operations, "attention");
        operations.swap(at, at + 1);
        Ok(())
    };
    let another_number: fn(&mut Vec<Operation>) -> Result<(), String> = |operations| {
        let at = first(operations, "embed");
        let Operation::Launch { arguments, .. } = &mut operations[at] else { unreachable!() };
        // Its rows, one less.
        arguments[4] = isentrope_cuda::Argument::U32(8);
        Ok(())
    };
    for (spoil, what) in
        [(forgets, "a launch less"), (swaps, "two swapped"), (another_number, "another number")]
    {
        assert!(spoiled(spoil).0 != expected, "{what}");
    }
}

const ROWS: usize = 3;
const FEATURES: usize = 40;

/// Rows that are normed, and the weight that they are normed with.
struct Norms {
    x: Buffer,
    weight: Buffer,
}

impl Norms {
    fn new(cuda: &dyn Backend) -> Self {
        let mut weight = cuda.allocate(Role::Weight(Kind::Vector(FEATURES))).unwrap();
        cuda.fill(&mut weight, 1.5);
        Self { x: cuda.buffer(Role::Activation(ROWS, FEATURES)), weight }
    }

    /// Writes the inputs of a step.
    fn write(&mut self, cuda: &dyn Backend, seed: usize) {
        let numbers: Vec<f32> =
            (0..ROWS * FEATURES).map(|i| ((i * seed) % 23) as f32 - 11.5).collect();
        cuda.write(&mut self.x, 0, &numbers);
    }

    /// `norm(norm(x))` as a step, and `norm(x)` if it is read in the middle of the step.
    fn step(&self, cuda: &dyn Backend, reads_between: bool, panics: bool) -> Vec<u32> {
        let layout = Grouped::rows(FEATURES);
        let mut numbers = [(); 2].map(|()| vec![0.0; ROWS * FEATURES]);
        let key = ReplayKey {
            model: 0,
            rows: 3,
            wanted: 0,
            cached_rows: 0,
            slots: 0,
            pages: 0,
            positions: 0,
        };
        let y = cuda.run_step(key, &mut || {
            let mut once = cuda.buffer(Role::Activation(ROWS, FEATURES));
            cuda.rms_norm(layout, RmsNorm::plain(1e-6), &self.x, &self.weight, &mut once, ROWS);
            if reads_between {
                cuda.read(&once, 0, &mut numbers[0]);
            }
            let mut twice = cuda.buffer(Role::Activation(ROWS, FEATURES));
            cuda.rms_norm(layout, RmsNorm::plain(1e-6), &once, &self.weight, &mut twice, ROWS);
            assert!(!panics, "in the middle of a step");
            twice
        });
        cuda.read(&y, 0, &mut numbers[1]);
        bits(&numbers.concat())
    }
}

#[test]
fn a_step_that_reads_is_launched_as_far_as_it_has_come() {
    let [cuda, apart] = [device(Dtype::F32), device(Dtype::F32).without_replay()];
    let [mut norms, mut norms_apart] = [Norms::new(&cuda), Norms::new(&apart)];
    for seed in [5, 7, 9] {
        norms.write(&cuda, seed);
        norms_apart.write(&apart, seed);
        assert_eq!(norms.step(&cuda, true, false), norms_apart.step(&apart, true, false));
    }
    assert_eq!(cuda.replays(), Replays::default(), "such a step is not kept");
}

#[test]
fn a_step_that_panics_is_forgotten() {
    let [cuda, apart] = [device(Dtype::F32), device(Dtype::F32).without_replay()];
    let [mut norms, mut norms_apart] = [Norms::new(&cuda), Norms::new(&apart)];
    norms.write(&cuda, 5);
    norms_apart.write(&apart, 5);
    assert!(caught(|| norms.step(&cuda, false, true)).is_err());
    assert_eq!(norms.step(&cuda, false, false), norms_apart.step(&apart, false, false));
    assert_eq!(cuda.replays().launched, 1);
}

/// Keeps the last captured operations.
struct Keeps(Arc<Mutex<Vec<Operation>>>);

impl Watch for Keeps {
    fn capture(&self, operations: &[Operation]) -> Result<Vec<Operation>, String> {
        *self.0.lock().unwrap() = operations.to_vec();
        Ok(operations.to_vec())
    }
}

/// [`Cuda`] launches a graph only in the place of the same launches. If a graph outlives its
/// memory, the emulator sees it.
#[test]
fn a_graph_without_its_memory_is_noticed() {
    let kept = Arc::new(Mutex::default());
    let cuda = Cuda::new(Watched::new(Keeps(Arc::clone(&kept))), Dtype::F32);
    let mut norms = Norms::new(&cuda);
    norms.write(&cuda, 5);
    (0..4).for_each(|_| drop(norms.step(&cuda, false, false)));
    assert!(cuda.replays().replayed >= 1, "{:?}", cuda.replays());
    let graph = Graph::new(kept.lock().unwrap().clone());
    cuda.device().replay(&graph).unwrap();
    drop(norms);
    let said = caught(|| cuda.device().replay(&graph)).unwrap_err();
    assert!(said.contains("rms_norm_f32") && said.contains("or none any more"), "{said}");
}

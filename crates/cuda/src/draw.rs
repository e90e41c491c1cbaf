//! Drawing tokens from rows of hidden states. What is drawn from the whole vocabulary, or is the likeliest, is drawn on the
//! device; logits that top-k, top-p, min-p or a repetition penalty change go to the host, where the CPU's functions draw.

use crate::buffer::CudaBuffer;
use crate::catalog::{DRAW, HEAD_ROWS};
use crate::cuda::{Cuda, word};
use crate::device::Device;
use crate::head::{LOGITS, block_rows, shared};
use crate::kernels::{Grid, Pointer};
use crate::linear::Matrix;
use crate::pool::Block;
use crate::uploaded::Uploaded;
use isentrope_kernels::{Draw, Drawn, Linear};

/// Tokens whose weights are summed before the search for a draw looks at single ones.
const BLOCK: usize = 256;
const SUM_BLOCK: usize = 512;
const THREADS: u32 = 256;

/// Draws that the device makes, or has made.
pub struct CudaDrawing<D: Device> {
    len: usize,
    /// What comes to the host of their answers; none where there are no draws.
    fetch: Option<D::Fetch>,
    /// The place of each draw among those of the device.
    places: Vec<usize>,
}

/// A draw as the kernel takes it: its number, its temperature and row, and whether the likeliest is wanted.
type Wanted = [u64; 3];

/// Bytes that draws from so many rows take at most.
pub(crate) fn workspace(shape: Linear, rows: usize) -> usize {
    let logits = rows.saturating_mul(shape.outputs).min(LOGITS.max(shape.outputs)).saturating_mul(4);
    // Draws, rows, temperatures, statistics, and what was found.
    logits.saturating_add(rows.saturating_mul(24 + 4 + 4 + 20 + 8))
}

impl<D: Device> Cuda<D> {
    pub(crate) fn begin_drawing(
        &self,
        shape: Linear,
        hidden: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        draws: &[Draw],
    ) -> CudaDrawing<D> {
        assert!(!draws.iter().any(|draw| draw.adjustments.departs()), "such a draw is the host's");
        let block = block_rows(shape, rows(draws));
        let order = by_row(draws);
        let of_device = OfDevice::new(self, &order.iter().map(|&i| &draws[i]).collect::<Vec<_>>(), block);
        let logits = self.scratch(logits_bytes(shape, draws));
        let mut first_wanted = 0;
        for here in order.chunk_by(|&a, &b| draws[a].row / block == draws[b].row / block) {
            self.logits_of_block(shape, hidden, weights, draws, here, logits.at(0));
            self.draw_block(shape, logits.at(0), &of_device, first_wanted, here.len());
            first_wanted += here.len();
        }
        let mut places = vec![0; draws.len()];
        order.iter().enumerate().for_each(|(place, &i)| places[i] = place);
        let len = draws.len();
        let fetch = (len > 0).then(|| self.device.fetch(of_device.answered.memory(), 0, 4 * ANSWERED * len));
        CudaDrawing { len, fetch, places }
    }

    /// What was drawn; None where logits are not finite.
    pub(crate) fn read_drawing(
        &self,
        CudaDrawing { len, fetch, places }: CudaDrawing<D>,
    ) -> Vec<Option<Drawn>> {
        let mut words = vec![0u32; ANSWERED * len];
        if let Some(fetch) = fetch {
            self.device.fetched(fetch, bytemuck::cast_slice_mut(&mut words));
        }
        places.into_iter().map(|place| answer(&words, len, place)).collect()
    }

    /// Draws, some of which may depart from the model's own distribution: these are made on the host.
    pub(crate) fn draw_tokens(
        &self,
        shape: Linear,
        hidden: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        draws: &[Draw],
    ) -> Vec<Option<Drawn>> {
        let on_device = |&i: &usize| !draws[i].adjustments.departs();
        let block = block_rows(shape, rows(draws));
        let order = by_row(draws);
        let of_device: Vec<&Draw> = order.iter().filter(|i| on_device(i)).map(|&i| &draws[i]).collect();
        let of_device = OfDevice::new(self, &of_device, block);
        let mut drawn = vec![None; draws.len()];
        let logits = self.scratch(logits_bytes(shape, draws));
        let mut first_wanted = 0;
        for here in order.chunk_by(|&a, &b| draws[a].row / block == draws[b].row / block) {
            let first = self.logits_of_block(shape, hidden, weights, draws, here, logits.at(0));
            let wanted_here = here.iter().filter(|i| on_device(i)).count();
            self.draw_block(shape, logits.at(0), &of_device, first_wanted, wanted_here);
            first_wanted += wanted_here;
            // Draws from one row follow one another.
            let mut held: Option<(usize, Vec<f32>)> = None;
            for &i in here.iter().filter(|i| !on_device(i)) {
                let row = draws[i].row;
                if held.as_ref().is_none_or(|(of, _)| *of != row) {
                    let mut numbers = vec![0.0f32; shape.outputs];
                    let at = 4 * (row - first) * shape.outputs;
                    self.device.download(logits.memory(), at, bytemuck::cast_slice_mut(&mut numbers));
                    held = Some((row, numbers));
                }
                drawn[i] = held.as_ref().and_then(|(_, numbers)| draws[i].from_logits(self.isa, numbers));
            }
        }
        let words: Vec<u32> = self.downloaded(&of_device.answered, ANSWERED * of_device.len);
        for (place, i) in order.into_iter().filter(on_device).enumerate() {
            drawn[i] = answer(&words, of_device.len, place);
        }
        drawn
    }

    /// The logits of the rows that lie in the block of those that draws `here` name; the first of them.
    fn logits_of_block(
        &self,
        shape: Linear,
        hidden: &CudaBuffer<D>,
        weights: &CudaBuffer<D>,
        draws: &[Draw],
        here: &[usize],
        logits: Pointer,
    ) -> usize {
        let rows = rows(draws);
        let block = block_rows(shape, rows);
        let first = draws[here[0]].row / block * block;
        let count = block.min(rows - first);
        let x = Matrix { start: hidden.rows_from(first, count, shape.inputs), stride: hidden.layout.stride };
        self.logits(shape, 0..shape.outputs, x, weights, logits, count);
        first
    }

    /// Draws those of `wanted` that are in one block of logits.
    fn draw_block(&self, shape: Linear, logits: Pointer, draws: &OfDevice<D>, first: usize, count: usize) {
        let (vocabulary, all) = (word(shape.outputs), word(draws.len));
        HEAD_ROWS.launch(
            &*self.device,
            Grid::line(count, THREADS).with_shared(shared(shape, SUM_BLOCK, 8)),
            (
                logits,
                draws.rows(),
                draws.temperatures(),
                1.0,
                Pointer::NULL,
                Pointer::NULL,
                Pointer::NULL,
                draws.statistics(),
                word(count),
                vocabulary,
                word(first),
                all,
            ),
        );
        DRAW.launch(
            &*self.device,
            Grid::line(count, THREADS).with_shared(shared(shape, BLOCK, 8)),
            (logits, draws.wanted(), draws.statistics(), draws.found(), vocabulary, word(first), all),
        );
    }
}

/// How many rows draws look at: those up to the last that one names.
fn rows(draws: &[Draw]) -> usize {
    draws.iter().map(|draw| draw.row + 1).max().unwrap_or(0)
}

/// Numbers of draws, in the order of their rows.
fn by_row(draws: &[Draw]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..draws.len()).collect();
    order.sort_by_key(|&i| draws[i].row);
    order
}

/// Bytes of the logits that are held at a time.
fn logits_bytes(shape: Linear, draws: &[Draw]) -> usize {
    let rows = rows(draws);
    4 * block_rows(shape, rows).min(rows) * shape.outputs
}

fn wanted(draw: &Draw, block: usize) -> Wanted {
    let greedy = draw.adjustments.temperature == 0.0;
    let row = word(draw.row % block);
    [draw.uniform.to_bits(), u64::from(temperature(draw).to_bits()) | u64::from(row) << 32, u64::from(greedy)]
}

/// The temperature that scores refer to.
fn temperature(draw: &Draw) -> f32 {
    if draw.adjustments.temperature == 0.0 { 1.0 } else { draw.adjustments.temperature }
}

/// Draws on the device, in the order of their rows. All of them go there at once, and all that is found comes back at once: a
/// step waits for the device a single time.
struct OfDevice<D: Device> {
    len: usize,
    /// What is wanted, rows and temperatures.
    asked: Uploaded<D>,
    /// What was found, and statistics `[5, len]`.
    answered: Block<D>,
}

impl<D: Device> OfDevice<D> {
    fn new(cuda: &Cuda<D>, draws: &[&Draw], block: usize) -> Self {
        let len = draws.len();
        let all = draws.iter().flat_map(|draw| wanted(draw, block));
        // The low word of a number comes first.
        let mut words: Vec<u32> = all.flat_map(|number| [number as u32, (number >> 32) as u32]).collect();
        words.extend(draws.iter().map(|draw| word(draw.row % block)));
        words.extend(draws.iter().map(|draw| temperature(draw).to_bits()));
        Self { len, asked: cuda.uploaded(&words), answered: cuda.scratch((8 + 20) * len) }
    }

    fn wanted(&self) -> Pointer {
        self.asked.at(0)
    }
    fn rows(&self) -> Pointer {
        self.asked.at(24 * self.len)
    }
    fn temperatures(&self) -> Pointer {
        self.asked.at(28 * self.len)
    }
    fn found(&self) -> Pointer {
        self.answered.at(0)
    }
    fn statistics(&self) -> Pointer {
        self.answered.at(8 * self.len)
    }
}

/// Numbers of an answer that the host reads: token, log-prob, maximum, logarithm of the sum, entropy.
const ANSWERED: usize = 5;

/// What was drawn at a place of `len`; None where logits are not finite.
fn answer(words: &[u32], len: usize, place: usize) -> Option<Drawn> {
    let (found, statistics) = words.split_at(2 * len);
    let [max, log_sum, entropy] = [0, 1, 2].map(|n| f32::from_bits(statistics[n * len + place]));
    let is_finite = [max, log_sum, entropy].iter().all(|x| x.is_finite());
    let (token, logprob) = (found[2 * place], f32::from_bits(found[2 * place + 1]));
    is_finite.then_some(Drawn { token, logprob, sampling_logprob: None, entropy, kept: None })
}

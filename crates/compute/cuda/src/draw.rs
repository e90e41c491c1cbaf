//! Draws tokens from rows of hidden states. The device draws from the whole vocabulary and takes
//! the likeliest token. If top-k, top-p, min-p or a repetition penalty changes the logits, they go
//! to the host, where the CPU's functions draw.

use crate::buffer::CudaBuffer;
use crate::catalog::DRAW;
use crate::cuda::Cuda;
use crate::device::Fetch;
use crate::kernels::{Grid, Pointer, word};
use crate::linear::Matrix;
use crate::logits_blocks::LogitsBlocks;
use crate::parts::{Parts, Purpose, Rows};
use crate::pool::Block;
use crate::replay::Key;
use crate::rounding::rounded_up;
use crate::uploaded::Uploaded;
use isentrope_kernels::{DRAWN, Draw, Drawn, Linear};
use std::iter;
use std::ops::Range;
use std::sync::Arc;

const THREADS: u32 = 256;

/// Draws on the device, pending or done.
pub struct CudaDrawing {
    /// Answers being copied to the host; none if there are no draws.
    fetch: Option<Fetch>,
    /// Draws of the device, with the repetitions of the last one.
    len: usize,
    /// The index of each draw among the device's.
    indices: Arc<[usize]>,
}

/// Tokens that the device has drawn or will draw.
pub struct CudaTokens {
    answers: Arc<Block>,
    indices: Arc<[usize]>,
}

impl Clone for CudaTokens {
    fn clone(&self) -> Self {
        Self { answers: Arc::clone(&self.answers), indices: Arc::clone(&self.indices) }
    }
}

impl CudaTokens {
    /// Each draw's token for the kernel: the draw's index.
    pub(crate) fn indices(&self) -> Vec<u32> {
        self.indices.iter().map(|&index| DRAWN | word(index)).collect()
    }

    /// The address of the tokens, each with its log-prob.
    pub(crate) fn start(&self) -> Pointer {
        self.answers.at(0)
    }
}

/// A draw as the kernel's input: its uniform number, its temperature and row, and whether it takes
/// the likeliest token.
type DrawRequest = [u64; 3];

/// Values of an answer that the host reads: token, log-prob, maximum, logarithm of the sum,
/// entropy.
const ANSWER: usize = 5;

/// Most bytes that draws from `rows` rows take.
pub(crate) fn workspace(blocks: LogitsBlocks, shape: Linear, rows: usize) -> usize {
    let rows = rounded_up(rows);
    let logits = blocks
        .few_sizes(shape, blocks.rows(shape, rows))
        .saturating_mul(shape.outputs)
        .saturating_mul(4);
    // All draws may be from rows of one block.
    let parts = Purpose::Draws.bytes(shape.outputs, blocks.few_sizes(shape, rows));
    // As sequences end, rows become fewer, and blocks of half the size, of a quarter and so on are
    // added. The last term is draws, rows, temperatures, statistics and answers.
    logits
        .saturating_add(parts)
        .saturating_mul(2)
        .saturating_add(rows.saturating_mul(24 + 4 + 4 + 12 + 8))
}

impl Cuda {
    /// Begins draws on the device. They are recorded like a step, because the draws of decoding
    /// steps repeat as steps do.
    pub(crate) fn begin_drawing(
        &self,
        shape: Linear,
        hidden: &CudaBuffer,
        weights: &CudaBuffer,
        draws: &[Draw],
    ) -> (CudaTokens, CudaDrawing) {
        assert!(!draws.iter().any(|draw| draw.adjustments.departs()), "such a draw is the host's");
        let order = by_row(draws);
        let mut all: Vec<&Draw> = order.iter().map(|&i| &draws[i]).collect();
        // The last draw is repeated up to a rounded number, so that there are few different numbers
        // of draws to capture.
        let last = all.last().copied();
        all.extend(iter::repeat_n(last, self.rounded_rows(draws.len()) - draws.len()).flatten());
        let rows =
            self.rounded_rows(rows(draws)).clamp(rows(draws), hidden.layout.rows.max(rows(draws)));
        let answers = if all.is_empty() {
            self.scratch(0)
        } else {
            let key = Key::Draws { shape, rows, draws: all.len() };
            self.step(key, || self.draw_all(shape, hidden, weights, rows, &all))
        };
        let mut indices: Arc<[usize]> = vec![0; draws.len()].into();
        let of_draws = Arc::get_mut(&mut indices).expect("nobody else has it yet");
        order.into_iter().enumerate().for_each(|(index, i)| of_draws[i] = index);
        let len = all.len();
        let fetch = (len > 0).then(|| self.device.fetch(answers.memory(), 0, 4 * ANSWER * len));
        let tokens = CudaTokens { answers: Arc::new(answers), indices: Arc::clone(&indices) };
        (tokens, CudaDrawing { fetch, len, indices })
    }

    /// Draws in the order of rows, from the first `rows` rows. Returns the answers.
    fn draw_all(
        &self,
        shape: Linear,
        hidden: &CudaBuffer,
        weights: &CudaBuffer,
        rows: usize,
        draws: &[&Draw],
    ) -> Block {
        let block = self.logits_blocks.rows(shape, rows);
        let of_device = DeviceDraws::new(self, draws, block);
        let in_blocks = || draws.chunk_by(|a, b| a.row / block == b.row / block);
        let logits = self.scratch(4 * self.logits_blocks.few_sizes(shape, block) * shape.outputs);
        let most = in_blocks().map(<[&Draw]>::len).max().unwrap_or(0);
        let parts =
            self.parts(Purpose::Draws, shape.outputs, self.logits_blocks.few_sizes(shape, most));
        let mut first_draw = 0;
        for here in in_blocks() {
            let first = here[0].row / block * block;
            self.logits_of_rows(
                shape,
                hidden,
                weights,
                first..(first + block).min(rows),
                logits.at(0),
            );
            self.draw_block(shape, logits.at(0), &of_device, first_draw, here.len(), &parts);
            first_draw += here.len();
        }
        of_device.answers
    }

    /// Reads the drawn tokens; None if logits are not finite.
    pub(crate) fn read_drawing(
        &self,
        CudaDrawing { fetch, len, indices }: CudaDrawing,
    ) -> Vec<Option<Drawn>> {
        let mut words = vec![0u32; ANSWER * len];
        if let Some(fetch) = fetch {
            self.device.fetched(fetch, bytemuck::cast_slice_mut(&mut words));
        }
        indices.iter().map(|&index| answer(&words, len, index)).collect()
    }

    /// Makes draws. Those that depart from the model's own distribution are made on the host.
    pub(crate) fn draw_tokens(
        &self,
        shape: Linear,
        hidden: &CudaBuffer,
        weights: &CudaBuffer,
        draws: &[Draw],
    ) -> Vec<Option<Drawn>> {
        let (of_host, of_device): (Vec<usize>, Vec<usize>) =
            by_row(draws).into_iter().partition(|&i| draws[i].adjustments.departs());
        let on_device: Vec<Draw> = of_device.iter().map(|&i| draws[i].clone()).collect();
        let (_, drawing) = self.begin_drawing(shape, hidden, weights, &on_device);
        let mut drawn = vec![None; draws.len()];
        self.draw_on_host(shape, hidden, weights, draws, &of_host, &mut drawn);
        for (i, found) in of_device.into_iter().zip(self.read_drawing(drawing)) {
            drawn[i] = found;
        }
        drawn
    }

    /// Makes the draws whose indices are in `order`, sorted by row, from logits that are copied to
    /// the host.
    fn draw_on_host(
        &self,
        shape: Linear,
        hidden: &CudaBuffer,
        weights: &CudaBuffer,
        draws: &[Draw],
        order: &[usize],
        drawn: &mut [Option<Drawn>],
    ) {
        let Some(rows) = order.last().map(|&i| draws[i].row + 1) else { return };
        let block = self.logits_blocks.rows(shape, rows);
        let logits = self.scratch(4 * block * shape.outputs);
        for here in order.chunk_by(|&a, &b| draws[a].row / block == draws[b].row / block) {
            let first = draws[here[0]].row / block * block;
            self.logits_of_rows(
                shape,
                hidden,
                weights,
                first..(first + block).min(rows),
                logits.at(0),
            );
            for of_row in here.chunk_by(|&a, &b| draws[a].row == draws[b].row) {
                let mut numbers = vec![0.0f32; shape.outputs];
                let at = 4 * (draws[of_row[0]].row - first) * shape.outputs;
                self.device.download(logits.memory(), at, bytemuck::cast_slice_mut(&mut numbers));
                for &i in of_row {
                    drawn[i] = draws[i].from_logits(self.isa, &numbers);
                }
            }
        }
    }

    /// The logits of some rows.
    fn logits_of_rows(
        &self,
        shape: Linear,
        hidden: &CudaBuffer,
        weights: &CudaBuffer,
        rows: Range<usize>,
        logits: Pointer,
    ) {
        let start = hidden.rows_from(rows.start, rows.len(), shape.inputs);
        let x = Matrix { start, stride: hidden.layout.stride };
        self.logits(shape, 0..shape.outputs, x, weights, logits, rows.len());
    }

    /// Makes `count` draws from `first` on, all from one block of logits.
    fn draw_block(
        &self,
        shape: Linear,
        logits: Pointer,
        draws: &DeviceDraws,
        first: usize,
        count: usize,
        parts: &Parts,
    ) {
        let (numbers, temperatures) =
            (draws.rows().by(4 * first), draws.temperatures().by(4 * first));
        self.sum_parts(logits, &Rows::Named { numbers, temperatures }, count, parts);
        DRAW.launch(
            &*self.device,
            Grid::line(count, THREADS).with_shared(Purpose::Draws.shared(shape.outputs)),
            (
                logits,
                draws.requests(),
                parts.maxima(),
                parts.sums(),
                parts.masses(),
                draws.statistics(),
                draws.found(),
                shape.outputs,
                first,
                draws.len,
            ),
        );
    }
}

/// The number of rows that draws read: all up to the last that a draw names.
fn rows(draws: &[Draw]) -> usize {
    draws.iter().map(|draw| draw.row + 1).max().unwrap_or(0)
}

/// Indices of draws, in the order of their rows.
fn by_row(draws: &[Draw]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..draws.len()).collect();
    order.sort_by_key(|&i| draws[i].row);
    order
}

fn request(draw: &Draw, block: usize) -> DrawRequest {
    let greedy = draw.adjustments.temperature == 0.0;
    let row = word(draw.row % block);
    [
        draw.uniform.to_bits(),
        u64::from(temperature(draw).to_bits()) | u64::from(row) << 32,
        u64::from(greedy),
    ]
}

/// The temperature that scores refer to.
fn temperature(draw: &Draw) -> f32 {
    if draw.adjustments.temperature == 0.0 { 1.0 } else { draw.adjustments.temperature }
}

/// Draws on the device, in the order of their rows. All requests go there together, and all answers
/// come back together: a step waits for the device only once.
struct DeviceDraws {
    len: usize,
    /// The requests: rows and temperatures.
    requests: Uploaded,
    /// The results, and statistics `[3, len]`.
    answers: Block,
}

impl DeviceDraws {
    fn new(cuda: &Cuda, draws: &[&Draw], block: usize) -> Self {
        let len = draws.len();
        let all = draws.iter().flat_map(|draw| request(draw, block));
        // The low word of a number comes first.
        let mut words: Vec<u32> =
            all.flat_map(|number| [number as u32, (number >> 32) as u32]).collect();
        words.extend(draws.iter().map(|draw| word(draw.row % block)));
        words.extend(draws.iter().map(|draw| temperature(draw).to_bits()));
        Self { len, requests: cuda.uploaded(&words), answers: cuda.scratch(4 * ANSWER * len) }
    }

    fn requests(&self) -> Pointer {
        self.requests.at(0)
    }
    fn rows(&self) -> Pointer {
        self.requests.at(24 * self.len)
    }
    fn temperatures(&self) -> Pointer {
        self.requests.at(28 * self.len)
    }
    fn found(&self) -> Pointer {
        self.answers.at(0)
    }
    fn statistics(&self) -> Pointer {
        self.answers.at(8 * self.len)
    }
}

/// The draw of an index below `len`; None if logits are not finite.
fn answer(words: &[u32], len: usize, index: usize) -> Option<Drawn> {
    let (found, statistics) = words.split_at(2 * len);
    let [max, log_sum, entropy] = [0, 1, 2].map(|n| f32::from_bits(statistics[n * len + index]));
    let is_finite = [max, log_sum, entropy].iter().all(|x| x.is_finite());
    let (token, logprob) = (found[2 * index], f32::from_bits(found[2 * index + 1]));
    is_finite.then_some(Drawn { token, logprob, sampling_logprob: None, entropy, mask: None })
}

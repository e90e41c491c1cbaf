//! The backend itself: a device, its memory, and the type of stored elements.

use crate::buffer::CudaBuffer;
use crate::catalog::{FILL_HALVES, FILL_WORDS, UNPACK_SPLIT};
use crate::device::Device;
use crate::dtype::Dtype;
use crate::failure::DeviceFailure;
use crate::gpu::Communicator;
use crate::host_pool::HostPool;
use crate::index::CudaIndex;
use crate::kernels::{Grid, Pointer};
use crate::layout::{Element, Layout};
use crate::links;
use crate::logits_blocks::LogitsBlocks;
use crate::pool::{Block, Pool};
use crate::replay::Graphs;
use crate::stream::Stream;
use crate::uploaded::Uploaded;
use isentrope_kernels::{Isa, OutOfMemory};
use std::sync::{Arc, OnceLock, RwLock};

/// A GPU as a [`Backend`](isentrope_kernels::Backend).
pub struct Cuda {
    pub(crate) device: Box<Stream>,
    pub(crate) dtype: Dtype,
    pub(crate) pool: Arc<Pool>,
    pub(crate) host_pool: Arc<HostPool>,
    /// The CPU's instruction set, for draws on the host.
    pub(crate) isa: Isa,
    /// Elements of each offloaded moment that an update has on the device at a time.
    pub(crate) piece: usize,
    /// The number of logits held at a time.
    pub(crate) logits_blocks: LogitsBlocks,
    /// The graphs of earlier decoding steps.
    pub(crate) graphs: Graphs,
    /// Whether a step is launched as one graph.
    pub(crate) replays: bool,
    /// The most gradients' elements that come from other ranks at a time.
    pub(crate) linked_piece: usize,
    /// Connects the device to other ranks' devices.
    pub(crate) communicator: Arc<RwLock<Option<Arc<Communicator>>>>,
    /// The device's second stream, once it was asked for; none if there is none.
    pub(crate) second: OnceLock<Option<Box<Self>>>,
}

/// Elements of a piece: 16 MiB of each moment, which is large enough for the bus, and small beside
/// the other memory of an update.
const PIECE: usize = 4 << 20;

impl Cuda {
    /// A backend on a device.
    pub fn new(device: Arc<dyn Device>, dtype: Dtype) -> Self {
        let pool = Pool::new(device.clone());
        Self::of_stream(device, pool, dtype)
    }

    fn of_stream(device: Arc<dyn Device>, pool: Arc<Pool>, dtype: Dtype) -> Self {
        Self {
            device: Box::new(Stream::new(device, pool.clone())),
            pool,
            host_pool: Arc::default(),
            dtype,
            isa: Isa::available()[0],
            piece: PIECE,
            logits_blocks: LogitsBlocks::OF_A_GPU,
            graphs: Graphs::new(),
            replays: true,
            linked_piece: links::PIECE,
            communicator: Arc::default(),
            second: OnceLock::new(),
        }
    }

    /// Offloaded moments travel to the device in pieces of this many elements. No bit depends on
    /// it.
    ///
    /// # Panics
    /// When `elements` is 0.
    pub fn with_moments_in_pieces_of(self, elements: usize) -> Self {
        assert!(elements > 0, "pieces without elements");
        Self { piece: elements, ..self }
    }

    /// Gradients come from the devices of other ranks in pieces of this many elements. No bit
    /// depends on it. All ranks must have the same.
    ///
    /// # Panics
    /// When `elements` is 0.
    pub fn with_linked_gradients_in_pieces_of(self, elements: usize) -> Self {
        assert!(elements > 0, "pieces without elements");
        Self { linked_piece: elements, ..self }
    }

    /// Holds at most this many logits at a time, forward and back, but at least one row of them and
    /// one panel of tokens. No bit depends on it.
    pub fn with_logits_in_blocks_of(self, elements: usize) -> Self {
        Self { logits_blocks: LogitsBlocks::of(elements), ..self }
    }

    /// Divides work as if the device had this number of processors. No bit depends on it.
    pub(crate) fn dividing_for(mut self, processors: usize) -> Self {
        self.device.divide_for(processors);
        self
    }

    /// The device's second stream, which comes behind all that was called here; none if there is
    /// one stream.
    pub(crate) fn second(&self) -> Option<&Self> {
        let second = self.second.get_or_init(|| {
            let device = self.device().second_stream()?;
            let pool = self.pool.second(device.clone());
            let second = Self::of_stream(device, pool, self.dtype);
            let communicator = Arc::clone(&self.communicator);
            Some(Box::new(Self { linked_piece: self.linked_piece, communicator, ..second }))
        });
        let second = second.as_deref()?;
        second.device().follow();
        Some(second)
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        self.device.device()
    }

    /// The type that elements are kept as.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Bytes that can be allocated on the device, after waiting memory has been given back.
    pub fn free_memory(&self) -> usize {
        self.pool.free()
    }

    /// Gives waiting memory back before the program would hold more than `most` bytes of the
    /// device's memory, which other processes may need. Memory that is needed at one time is not
    /// refused.
    pub fn keep_within(&self, most: usize) {
        self.pool.keep_within(most);
    }

    /// Scratch memory, which waits for its next user when it is dropped.
    ///
    /// # Panics
    /// When memory is lacking, with a sentence.
    pub(crate) fn scratch(&self, bytes: usize) -> Block {
        if self.device.is_recording() {
            if let Ok(block) = self.pool.for_a_step(bytes) {
                return block;
            }
            // Launching the captured step may free enough memory.
            self.device.carry_on();
        }
        self.ask(|| self.pool.for_a_moment(bytes))
            .unwrap_or_else(|refused| DeviceFailure::from(refused).end())
    }

    /// Asks for memory. If it is refused, forgets all graphs, which take memory of the device too,
    /// and asks again.
    fn ask(&self, ask: impl Fn() -> Result<Block, OutOfMemory>) -> Result<Block, OutOfMemory> {
        ask().or_else(|_| {
            self.graphs.clear();
            ask()
        })
    }

    pub(crate) fn kept(&self, layout: Layout) -> Result<CudaBuffer, OutOfMemory> {
        Ok(CudaBuffer::new(self.ask(|| self.pool.to_keep(layout.bytes()))?, layout))
    }

    /// Makes a buffer of zeros whose elements live in the host's memory.
    pub(crate) fn kept_on_host(&self, layout: Layout) -> Result<CudaBuffer, OutOfMemory> {
        let host = self.device.allocate_host(layout.bytes())?;
        Ok(CudaBuffer::on_host(self.pool.to_keep(0)?, layout, host))
    }

    /// Makes a buffer of activations that wait in the host's memory. It holds anything.
    pub(crate) fn waiting_on_host(&self, layout: Layout) -> Result<CudaBuffer, OutOfMemory> {
        let blocks = self.host_pool.blocks(&self.device, layout.bytes())?;
        Ok(CudaBuffer::waiting_on_host(self.pool.to_keep(0)?, layout, blocks))
    }

    /// These bytes on the device.
    pub(crate) fn uploaded<T: bytemuck::NoUninit>(&self, words: &[T]) -> Uploaded {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        if let Some(placed) = self.device.place(bytes, |bytes| self.pool.for_uploads(bytes).ok()) {
            return placed;
        }
        let block = self.scratch(bytes.len());
        if !bytes.is_empty() {
            self.device.upload(bytes, block.memory(), 0);
        }
        Uploaded::new(Arc::new(block), 0)
    }

    /// The first values of a block.
    pub(crate) fn downloaded<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
        &self,
        from: &Block,
        len: usize,
    ) -> Vec<T> {
        let mut words = vec![T::zeroed(); len];
        if len > 0 {
            self.device.download(from.memory(), 0, bytemuck::cast_slice_mut(&mut words));
        }
        words
    }

    pub(crate) fn indexed(&self, numbers: &[u32]) -> CudaIndex {
        CudaIndex::new(numbers, |words| self.uploaded(words))
    }

    /// Copies consecutive elements of a buffer to the host.
    pub(crate) fn read_range(&self, from: &CudaBuffer, first: usize, elements: &mut [f32]) {
        let Layout { element, .. } = from.layout;
        assert!(first + elements.len() <= from.layout.elements(), "elements beyond the end");
        if elements.is_empty() {
            return;
        }
        if let Some(host) = &from.host {
            self.device.read_host(host, 4 * first, bytemuck::cast_slice_mut(elements));
            return;
        }
        match element {
            Element::F32 => {
                self.device.download(from.memory(), 4 * first, bytemuck::cast_slice_mut(elements));
            }
            Element::Bf16 | Element::Frozen => {
                let mut halves = vec![0u16; elements.len()];
                self.device.download(
                    from.memory(),
                    2 * first,
                    bytemuck::cast_slice_mut(&mut halves),
                );
                for (number, half) in elements.iter_mut().zip(halves) {
                    *number = f32::from_bits(u32::from(half) << 16);
                }
            }
            Element::Split => {
                let joined = self.scratch(4 * elements.len());
                let count = elements.len();
                let (upper, rest) = (from.start(), from.rest_of(&(first..first + count)));
                let grid = Grid::line(elements.len().div_ceil(256), 256);
                UNPACK_SPLIT.launch(
                    &*self.device,
                    grid,
                    (upper.by(2 * first), rest, joined.at(0), 0, 1, count, count),
                );
                self.device.download(joined.memory(), 0, bytemuck::cast_slice_mut(elements));
            }
        }
    }

    /// Sets `words` 32-bit words from an address on.
    pub(crate) fn fill_words(&self, to: Pointer, words: usize, value: u32) {
        FILL_WORDS.launch(&*self.device, lines(words), (to, words as u64, value));
    }

    /// Sets `halves` 16-bit words from an address on.
    pub(crate) fn fill_halves(&self, to: Pointer, halves: usize, value: u16) {
        FILL_HALVES.launch(&*self.device, lines(halves), (to, halves as u64, u32::from(value)));
    }
}

/// The grid of an elementwise operation: 1024 elements a block.
pub(crate) fn lines(elements: usize) -> Grid {
    Grid::line(elements.div_ceil(1024), 256)
}

impl Pointer {
    /// The address `bytes` further on.
    pub(crate) fn by(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

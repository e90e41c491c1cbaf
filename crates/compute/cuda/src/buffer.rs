//! Buffers on the device.

use crate::device::{HostMemory, Memory};
use crate::host_pool::HostBlocks;
use crate::kernels::Pointer;
use crate::layout::{BLOCK, Element, Layout};
use crate::pool::Block;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A buffer on a GPU: its memory, and the layout of its elements there.
pub struct CudaBuffer {
    block: Block,
    pub(crate) layout: Layout,
    /// The elements, if they are in the host's memory; then the block is empty.
    pub(crate) host: Option<HostMemory>,
    /// The rows, if they wait in the host's memory; then the block is empty.
    pub(crate) waiting: Option<HostBlocks>,
    tail: Mutex<Tail>,
    /// Whether the buffer was zeroed and not touched since. Taking its address clears this flag,
    /// because the caller may write there.
    is_zero: AtomicBool,
}

/// The last tokens of a matrix's gradient that do not fill a block of the tensor core's sums. They
/// wait for the next tokens, so that sums do not depend on where micro-batches end. Reading the
/// gradient adds them first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    /// The number of waiting tokens.
    pub rows: usize,
    /// The area for inputs, of two, in which the tokens wait.
    pub side: usize,
}

impl CudaBuffer {
    pub(crate) fn new(block: Block, layout: Layout) -> Self {
        let (tail, is_zero) = (Mutex::default(), AtomicBool::new(false));
        Self { block, layout, host: None, waiting: None, tail, is_zero }
    }

    /// A buffer with elements in the host's memory and an empty block.
    pub(crate) fn on_host(block: Block, layout: Layout, host: HostMemory) -> Self {
        Self { host: Some(host), ..Self::new(block, layout) }
    }

    /// A buffer with rows that wait in the host's memory and an empty block.
    pub(crate) fn waiting_on_host(block: Block, layout: Layout, rows: HostBlocks) -> Self {
        Self { waiting: Some(rows), ..Self::new(block, layout) }
    }

    /// The number of elements, padding included.
    pub fn elements(&self) -> usize {
        self.layout.elements()
    }

    pub(crate) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that all elements are zero now.
    pub(crate) fn set_zero(&self) {
        self.is_zero.store(true, Ordering::Relaxed);
    }

    /// Whether all elements are known to be zero: a sum that would continue from them may then
    /// start anew.
    pub(crate) fn is_zero(&self) -> bool {
        self.is_zero.load(Ordering::Relaxed)
    }

    /// The memory, to read from or write to.
    pub(crate) fn memory(&self) -> &Memory {
        self.is_zero.store(false, Ordering::Relaxed);
        self.block.memory()
    }

    /// The address of a byte, to read from or write to.
    ///
    /// # Panics
    /// When the elements live in the host's memory.
    fn at(&self, byte: usize) -> Pointer {
        let is_on_device = self.host.is_none() && self.waiting.is_none();
        assert!(is_on_device, "elements in the host's memory have no place on the device");
        self.is_zero.store(false, Ordering::Relaxed);
        self.block.at(byte)
    }

    /// The address of the first element.
    ///
    /// # Panics
    /// When the elements live in the host's memory.
    pub(crate) fn start(&self) -> Pointer {
        self.at(0)
    }

    /// The start of the first rows.
    ///
    /// # Panics
    /// When there are fewer, or rows have another length.
    pub(crate) fn rows(&self, rows: usize, features: usize) -> Pointer {
        self.rows_from(0, rows, features)
    }

    /// The start of rows `first ..`.
    ///
    /// # Panics
    /// As [`rows`](Self::rows).
    pub(crate) fn rows_from(&self, first: usize, rows: usize, features: usize) -> Pointer {
        self.at(self.bytes_before(first, rows, features))
    }

    /// The bytes before rows `first ..`.
    ///
    /// # Panics
    /// As [`rows`](Self::rows).
    pub(crate) fn bytes_before(&self, first: usize, rows: usize, features: usize) -> usize {
        let Layout { element, rows: all, features: own, stride, .. } = self.layout;
        assert!(
            own == features && first + rows <= all,
            "rows {first} .. + {rows} of {features} in {:?}",
            self.layout
        );
        first * stride * element.bytes()
    }

    /// The start of a matrix of this shape.
    ///
    /// # Panics
    /// When it is another.
    pub(crate) fn matrix(&self, shape: isentrope_kernels::Linear) -> Pointer {
        assert_eq!(self.layout.matrix, Some(shape), "a matrix of another shape");
        self.start()
    }

    /// The start of a vector of at least `len` elements.
    ///
    /// # Panics
    /// When it has fewer.
    pub(crate) fn vector(&self, len: usize) -> Pointer {
        assert!(
            self.layout.matrix.is_none() && self.layout.features >= len,
            "a vector of {len} in {:?}",
            self.layout
        );
        self.start()
    }

    /// The address of the rests of all split elements; null without them.
    ///
    /// # Panics
    /// When another rank has some of them.
    pub(crate) fn rest(&self) -> Pointer {
        self.rest_of(&(0..self.elements()))
    }

    /// The address of the rests of these split elements; null without them.
    ///
    /// # Panics
    /// When another rank has some of them.
    pub(crate) fn rest_of(&self, elements: &Range<usize>) -> Pointer {
        match self.layout.element {
            Element::Split => self.at(self.layout.rest_at(elements)),
            _ => Pointer::NULL,
        }
    }

    /// The address where gradients by outputs wait, from this output on.
    pub(crate) fn waiting_outputs(&self, row: usize, output: usize) -> Pointer {
        let (outputs, _) = self.layout.tail_strides();
        self.block.at(self.layout.tail_at() + (row * outputs + output) * 2)
    }

    /// The address of the row where inputs wait.
    pub(crate) fn waiting_inputs(&self, side: usize, row: usize) -> Pointer {
        let (outputs, inputs) = self.layout.tail_strides();
        self.block
            .at(self.layout.tail_at() + (BLOCK * (outputs + side * inputs) + row * inputs) * 2)
    }
}

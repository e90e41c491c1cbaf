//! The layout of a buffer's elements in memory.

use crate::dtype::Dtype;
use isentrope_kernels::{Attention, Kind, Linear, Role};
use std::ops::Range;

/// Positions in a page of keys and values, the same as in `attention.cu`.
pub(crate) const PAGE: usize = 16;
/// Tokens of a block of the tensor core's sums.
pub(crate) const BLOCK: usize = 16;

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    Bf16,
    /// bf16, with a 16-bit rest for each element behind all of them, which makes it an exact f32.
    /// Some elements may have no rest.
    Split,
    /// The bf16 of a split element, without its rest: a weight that never changes.
    Frozen,
}

impl Element {
    /// Bytes of one element, without the rest.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::Split | Self::Frozen => 2,
        }
    }
}

/// The order, type and padding of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    pub element: Element,
    pub rows: usize,
    /// Elements of a row, without padding.
    pub features: usize,
    /// Elements from one row to the next.
    pub stride: usize,
    /// The shape of a parameter that is a matrix.
    pub matrix: Option<Linear>,
    /// Whether a matrix lies in panels, as on the CPU.
    pub in_panels: bool,
    /// Whether this is a matrix's gradient, whose last tokens may wait until a block is full.
    pub has_tail: bool,
    /// The split elements that have a rest: the first, and how many.
    rests: (usize, usize),
}

/// A row of bf16 begins at a multiple of 16 bytes, the unit of asynchronous copies.
pub(crate) fn padded(features: usize) -> usize {
    features.checked_next_multiple_of(8).unwrap_or(usize::MAX)
}

/// Bytes up to the next multiple of 16.
fn aligned(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(16).unwrap_or(usize::MAX)
}

impl Layout {
    pub(crate) fn new(dtype: Dtype, role: Role) -> Self {
        let own = if dtype == Dtype::F32 { Element::F32 } else { Element::Bf16 };
        match role {
            Role::Activation(rows, features) | Role::OffloadedActivation(rows, features) => {
                let stride = if dtype == Dtype::F32 { features } else { padded(features) };
                Self { stride, ..Self::plain(own, rows, features) }
            }
            Role::Exact(rows, features) => Self::plain(Element::F32, rows, features),
            Role::Weight(kind) => Self::parameter(
                dtype,
                kind,
                if dtype == Dtype::F32 { Element::F32 } else { Element::Split },
            ),
            Role::Frozen(kind) => Self::parameter(
                dtype,
                kind,
                if dtype == Dtype::F32 { Element::F32 } else { Element::Frozen },
            ),
            Role::Gradient(kind) => {
                let layout = Self::parameter(dtype, kind, Element::F32);
                Self { has_tail: dtype == Dtype::Bf16 && layout.matrix.is_some(), ..layout }
            }
            Role::Moment(elements) | Role::OffloadedMoment(elements) => {
                Self::plain(Element::F32, 1, elements)
            }
            // A row is one layer of the cache.
            Role::Cache { shape, layers, pages } => {
                Self::plain(own, layers, pages.saturating_mul(page_len(shape)))
            }
        }
    }

    fn plain(element: Element, rows: usize, features: usize) -> Self {
        let (stride, rests) = (features, (0, rows.saturating_mul(features)));
        let (matrix, in_panels, has_tail) = (None, false, false);
        Self { element, rows, features, stride, matrix, in_panels, has_tail, rests }
    }

    fn parameter(dtype: Dtype, kind: Kind, element: Element) -> Self {
        match kind {
            Kind::Vector(len) => Self::plain(element, 1, len),
            Kind::Matrix(shape) => {
                let in_panels = dtype == Dtype::F32;
                let (rows, stride) = match in_panels {
                    // The last panel is padded to a multiple of 16 outputs.
                    true => (
                        shape.outputs.checked_next_multiple_of(16).unwrap_or(usize::MAX),
                        shape.inputs,
                    ),
                    false => (shape.outputs, padded(shape.inputs)),
                };
                let plain = Self::plain(element, rows, shape.inputs);
                let rests = (0, rows.saturating_mul(stride));
                Self { stride, matrix: Some(shape), in_panels, rests, ..plain }
            }
        }
    }

    /// Elements, with padding.
    pub(crate) fn elements(&self) -> usize {
        self.rows.saturating_mul(self.stride)
    }

    /// The layout of split elements of which only these have a rest.
    pub(crate) fn with_rests(self, of: &Range<usize>) -> Self {
        assert!(self.element == Element::Split, "only split weights have rests");
        self.check_rests(of);
        Self { rests: (of.start, of.len()), ..self }
    }

    /// First byte of the rests.
    fn rests_at(&self) -> usize {
        aligned(self.elements().saturating_mul(2))
    }

    /// First byte of the rests of these split elements.
    ///
    /// # Panics
    /// When another rank has some of them.
    pub(crate) fn rest_at(&self, of: &Range<usize>) -> usize {
        self.check_rests(of);
        self.rests_at() + 2 * of.start.saturating_sub(self.rests.0)
    }

    fn check_rests(&self, of: &Range<usize>) {
        let (first, count) = self.rests;
        assert!(
            of.is_empty() || (first <= of.start && of.end <= first + count),
            "rests of {of:?}, and only {count} elements from {first} on have one"
        );
    }

    /// First byte of a gradient's tail.
    pub(crate) fn tail_at(&self) -> usize {
        aligned(self.elements().saturating_mul(4))
    }

    /// The strides of the tail's two parts: gradients by outputs, and inputs.
    pub(crate) fn tail_strides(&self) -> (usize, usize) {
        self.matrix.map_or((0, 0), |shape| (padded(shape.outputs), padded(shape.inputs)))
    }

    /// The stride of a matrix as kernels take it: 0 for panels.
    pub(crate) fn matrix_stride(&self) -> usize {
        if self.in_panels { 0 } else { self.stride }
    }

    /// Bytes of a buffer; `usize::MAX` if no memory could hold it.
    pub(crate) fn bytes(&self) -> usize {
        match self.element {
            Element::Split => self.rests_at().saturating_add(self.rests.1.saturating_mul(2)),
            Element::F32 if self.has_tail => {
                let (outputs, inputs) = self.tail_strides();
                // Gradients by outputs, and inputs twice: the waiting ones, and room for the next
                // ones.
                let row = outputs.saturating_add(inputs.saturating_mul(2));
                self.tail_at().saturating_add(row.saturating_mul(2 * BLOCK))
            }
            element => self.elements().saturating_mul(element.bytes()),
        }
    }
}

/// Elements in a page of one layer: keys, then values, `[kv heads, 16, head_dim]` each.
pub(crate) fn page_len(shape: Attention) -> usize {
    2 * shape.kv_heads * PAGE * shape.head_dim
}

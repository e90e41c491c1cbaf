//! Roles of buffers, and the memory that they and the operations on them take.

use crate::attention::Attention;
use crate::delta_rule::DeltaRule;
use crate::linear::Linear;
use std::fmt;

/// The content of a buffer. By it a backend chooses the elements' type, padding and order. The CPU
/// has f32 everywhere, and pads only packed weights and pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// Activations, or the gradient of a loss by them: `[rows, features]`.
    Activation(usize, usize),
    /// Tables and sums, which every backend keeps as f32: `[rows, features]`.
    Exact(usize, usize),
    /// The weights of one parameter, to be trained.
    Weight(Kind),
    /// The weights of one parameter that never change, in the precision of a pass. A pass computes
    /// the bits that it would with [`Weight`](Self::Weight).
    Frozen(Kind),
    /// The gradient of one parameter. Its padding stays zero.
    Gradient(Kind),
    /// A moment of the optimizer, in the order of its gradient's buffer: the number of elements, of
    /// one parameter.
    Moment(usize),
    /// A moment in the host's memory, if the device has memory of its own:
    /// [`adamw`](crate::Backend::adamw) copies it to the device in pieces. On the CPU it is no
    /// different. The number is the moment's elements.
    OffloadedMoment(usize),
    /// Activations that wait in the host's memory, if the device has memory of its own:
    /// `[rows, features]`. [`copy_first_rows`](crate::Backend::copy_first_rows) brings rows there
    /// and back; no other operation takes them. On the CPU they are no different.
    OffloadedActivation(usize, usize),
    /// Keys and values of several layers, in pages of
    /// [`page_positions`](crate::Backend::page_positions) positions.
    Cache {
        /// The layers' shape. Their windows may differ.
        shape: Attention,
        /// Layers.
        layers: usize,
        /// Pages of each.
        pages: usize,
    },
}

/// The shape of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bias or the weights of a norm: the number of elements.
    Vector(usize),
    /// The weights of a linear layer, `[outputs, inputs]`, in the backend's own order: see
    /// [`pack`](crate::Backend::pack).
    Matrix(Linear),
}

impl Kind {
    /// Elements in a packed row.
    pub fn row(self) -> usize {
        match self {
            Self::Vector(_) => 1,
            Self::Matrix(shape) => shape.inputs,
        }
    }
}

/// An operation that takes memory besides its operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// [`head`](crate::Backend::head) and [`head_backward`](crate::Backend::head_backward): the
    /// head's shape, and rows.
    Head(Linear, usize),
    /// [`head`](crate::Backend::head) alone: the head's shape, and rows. More rows than are held at
    /// a time take no more.
    Scores(Linear, usize),
    /// The two with a teacher's rows beside them, of whatever shape.
    TaughtHead(Linear, usize),
    /// The statistics between the two: rows.
    Statistics(usize),
    /// A teacher's part of these statistics: rows.
    TeacherStatistics(usize),
    /// [`attention`](crate::Backend::attention), whatever the batch: the layer's shape, and the
    /// most positions of a sequence.
    Attention(Attention, usize),
    /// [`attention_backward`](crate::Backend::attention_backward): the layer's shape, and
    /// positions.
    AttentionGradient(Attention, usize),
    /// The gradient of a [gated delta rule](crate::HybridOperations::delta_rule_backward): the
    /// layer's shape, and positions. A part of it is needed for no position too.
    DeltaGradient(DeltaRule, usize),
    /// [`draw`](crate::Backend::draw): the head's shape, and rows.
    Draw(Linear, usize),
    /// Steps that the device keeps captured, to [replay](crate::Backend::run_step) them: the
    /// model's layers, and the linear layers that have an adapter. An estimate of the most memory;
    /// the device gives it up when anything else needs it.
    Steps(usize, usize),
    /// Sums of linear layers before a bias or a residual is added, whatever the batch: the most
    /// outputs of a layer.
    LinearSums(usize),
    /// [`linear_backward_input_add`](crate::Backend::linear_backward_input_add): inputs of the
    /// layer, and rows.
    AddedInputGradient(usize, usize),
    /// [`adamw`](crate::Backend::adamw) with [offloaded](Role::OffloadedMoment) moments: their
    /// elements.
    OffloadedMoments(usize),
    /// [`add`](crate::DeviceLinks::add) of gradients of several ranks: their elements.
    LinkedSums(usize),
}

/// Memory that the device refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The number of requested bytes.
    pub asked: usize,
    /// The device's reason, such as how much memory it has, or its system's message.
    pub why: String,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot allocate {} MiB of memory: {}", self.asked.div_ceil(1 << 20), self.why)
    }
}

impl std::error::Error for OutOfMemory {}

//! The protocol's messages in Protocol Buffers, with the fields that this server reads or writes.
//! `tinker_public.proto` (package tinker 0.38) gives their names and numbers.

use prost::{Message, Oneof};
use std::collections::HashMap;

/// The number of f32 in `dtype`.
pub(crate) const FLOAT32: i32 = 1;
/// The number of i64 in `dtype`.
pub(crate) const INT64: i32 = 2;

/// The body of a request to go forward, and backward unless it says otherwise.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ForwardBackwardRequest {
    #[prost(string, tag = "1")]
    pub model_id: String,
    #[prost(int32, tag = "2")]
    pub seq_id: i32,
    #[prost(message, repeated, tag = "3")]
    pub data: Vec<Datum>,
    #[prost(string, tag = "4")]
    pub loss_fn: String,
    /// The numbers among the loss's settings.
    #[prost(map = "string, double", tag = "5")]
    pub loss_fn_config: HashMap<String, f64>,
    #[prost(bool, tag = "6")]
    pub forward_only: bool,
    /// All of the loss's settings; it counts where it is there.
    #[prost(map = "string, message", tag = "7")]
    pub loss_fn_config_v2: HashMap<String, LossConfigValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LossConfigValue {
    #[prost(oneof = "ConfigValue", tags = "1, 2")]
    pub value: Option<ConfigValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ConfigValue {
    #[prost(double, tag = "1")]
    Number(f64),
    #[prost(string, tag = "2")]
    Text(String),
}

/// An example: its inputs and, for each of them, what the loss needs.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Datum {
    #[prost(message, repeated, tag = "1")]
    pub model_input: Vec<Chunk>,
    #[prost(map = "string, message", tag = "2")]
    pub loss_fn_inputs: HashMap<String, Tensor>,
}

/// A part of an input. Images and sounds are read as none.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Chunk {
    #[prost(message, optional, tag = "1")]
    pub encoded_text: Option<EncodedTextChunk>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncodedTextChunk {
    /// Numbers of i32.
    #[prost(bytes = "vec", tag = "1")]
    pub tokens: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    #[prost(oneof = "Encoding", tags = "1, 2")]
    pub encoding: Option<Encoding>,
    #[prost(int32, tag = "3")]
    pub dtype: i32,
    #[prost(int64, repeated, tag = "4")]
    pub shape: Vec<i64>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Encoding {
    #[prost(bytes, tag = "1")]
    Dense(Vec<u8>),
    #[prost(message, tag = "2")]
    SparseCsr(SparseCsr),
}

/// A matrix whose other cells are 0. Indices are i64.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SparseCsr {
    #[prost(bytes = "vec", tag = "1")]
    pub values: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub crow_indices: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub col_indices: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ForwardBackwardOutput {
    #[prost(string, tag = "1")]
    pub loss_fn_output_type: String,
    #[prost(message, repeated, tag = "2")]
    pub loss_fn_outputs: Vec<ArrayRecord>,
    #[prost(map = "string, double", tag = "3")]
    pub metrics: HashMap<String, f64>,
}

/// Arrays of consecutive examples.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ArrayRecord {
    #[prost(string, tag = "1")]
    pub type_tag: String,
    #[prost(map = "string, message", tag = "2")]
    pub fields: HashMap<String, BatchedTensor>,
    #[prost(int64, tag = "3")]
    pub num_datums: i64,
}

/// One array of each example, end to end; `offsets` has their bounds in bytes, as i64.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BatchedTensor {
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub offsets: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub dtype: i32,
    #[prost(int64, repeated, tag = "4")]
    pub trailing_shape: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SampleResponse {
    #[prost(message, repeated, tag = "1")]
    pub sequences: Vec<SampledSequence>,
    /// Numbers of f32, NaN where there is none.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub prompt_logprobs: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SampledSequence {
    /// 0: a stop token or text; 1: the length.
    #[prost(int32, tag = "1")]
    pub stop_reason: i32,
    /// Numbers of i32.
    #[prost(bytes = "vec", tag = "2")]
    pub tokens: Vec<u8>,
    /// Numbers of f32.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub logprobs: Option<Vec<u8>>,
}

/// Numbers as little-endian bytes.
pub(crate) fn bytes<T: Copy, const N: usize>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| to(value)).collect()
}

/// The numbers of little-endian bytes; none if the last is cut off.
pub(crate) fn numbers<T, const N: usize>(
    bytes: &[u8],
    from: impl Fn([u8; N]) -> T,
) -> Option<Vec<T>> {
    let (whole, rest) = bytes.as_chunks::<N>();
    rest.is_empty().then(|| whole.iter().map(|&of_one| from(of_one)).collect())
}

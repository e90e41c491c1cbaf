//! A checksum of a model's weights.

use crate::error::{Error, Result};
use isentrope_model::checkpoint::Tensor;
use isentrope_model::{AdapterLayout, Model, Parameters};
use serde::{Deserialize, Serialize};

/// Number of values that are converted to bytes at a time.
const CHUNK: usize = 1 << 14;

/// The checksum of one tensor's values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TensorChecksum {
    name: String,
    values: usize,
    crc: u32,
}

impl TensorChecksum {
    /// The CRC-32C of a tensor's values as `f32`.
    ///
    /// # Errors
    /// When the tensor cannot be copied from the device.
    pub fn of(tensor: Tensor<'_>) -> Result<Self> {
        let values = (tensor.values)().map_err(|e| Error::Refused(e.to_string()))?;
        let append = |crc, chunk: &[f32]| {
            let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
            crc32c::crc32c_append(crc, &bytes)
        };
        let crc = values.chunks(CHUNK).fold(0, append);
        Ok(Self { name: tensor.name, values: values.len(), crc })
    }
}

/// CRC-32C of all weights as `f32`, tensor by tensor in the order of names; with an adapter, of its
/// scales and weights too. Equal weights have equal checksums, whatever files, number format or
/// device they are in. `trained` are the model's trained weights, exact.
///
/// # Errors
/// When a tensor cannot be copied from the device.
pub fn weights_checksum(model: &Model, trained: &Parameters) -> Result<u32> {
    let b = &*model.backend;
    let mut tensors = trained.tensors(b, model.layout.trained(), "");
    if model.layout.adapter.is_some() {
        tensors.extend(model.weights.tensors(b, &model.layout.parameters, ""));
    }
    let tensors = tensors.into_iter().map(TensorChecksum::of).collect::<Result<_>>()?;
    Ok(joined_checksum(model, tensors))
}

/// The [checksum of a model's weights](weights_checksum), from the checksums of all its tensors.
pub fn joined_checksum(model: &Model, mut tensors: Vec<TensorChecksum>) -> u32 {
    let scales = model.layout.adapter.iter().flat_map(AdapterLayout::scales);
    let scales = scales.fold(0, |crc, scale| crc32c::crc32c_append(crc, &scale.to_le_bytes()));
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    tensors.iter().fold(scales, |crc, of| crc32c::crc32c_combine(crc, of.crc, 4 * of.values))
}

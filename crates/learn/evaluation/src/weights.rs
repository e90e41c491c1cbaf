//! A checksum of a model's weights.

use crate::error::{Error, Result};
use isentrope_model::{Model, Parameters};

/// Number of values that are converted to bytes at a time.
const CHUNK: usize = 1 << 14;

/// CRC-32C of all weights as `f32`, tensor by tensor in the order of names; with an adapter, of its
/// scales and weights too. Equal weights have equal checksums, whatever files, number format or
/// device they are in. `trained` are the model's trained weights, exact.
///
/// # Errors
/// When a tensor cannot be copied from the device.
pub fn weights_checksum(model: &Model, trained: &Parameters) -> Result<u32> {
    let b = &*model.backend;
    let mut tensors = trained.tensors(b, model.layout.trained(), "");
    let mut checksum = 0;
    if let Some(adapter) = &model.layout.adapter {
        tensors.extend(model.weights.tensors(b, &model.layout.parameters, ""));
        for scale in adapter.scales() {
            checksum = crc32c::crc32c_append(checksum, &scale.to_le_bytes());
        }
    }
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    for tensor in tensors {
        let values = (tensor.values)().map_err(|e| Error::Refused(e.to_string()))?;
        for chunk in values.chunks(CHUNK) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
            checksum = crc32c::crc32c_append(checksum, &bytes);
        }
    }
    Ok(checksum)
}

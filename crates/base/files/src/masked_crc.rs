//! The checksum of TensorBoard's event files.

/// Computes TFRecord's checksum (tensorflow/core/lib/hash/crc32c.h). The mask keeps checksums of
/// data that contains checksums apart.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_record_has_the_mask_alone() {
        assert_eq!(masked_crc(b""), 0xa282_ead8);
    }

    /// Length and checksum of the first record in files of TensorBoard's own writer, as in
    /// crates/app/lab/tests/fixtures/logs; and TensorFlow's length of 24 bytes.
    #[test]
    fn the_lengths_that_other_writers_begin_with_have_their_checksums() {
        assert_eq!(masked_crc(&72_u64.to_le_bytes()).to_le_bytes(), [0xfe, 0x92, 0x48, 0x9d]);
        assert_eq!(masked_crc(&24_u64.to_le_bytes()).to_le_bytes(), [0xa3, 0x7f, 0x4b, 0x22]);
    }
}

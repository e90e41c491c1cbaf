//! The checksum of TensorBoard's event files.

/// TFRecord's checksum of bytes (tensorflow/core/lib/hash/crc32c.h), which does not confuse what has such checksums in it.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_record_has_the_mask_alone() {
        assert_eq!(masked_crc(b""), 0xa282_ead8);
        // The check value of CRC-32C, 0xe3069283, rotated and masked.
        assert_eq!(masked_crc(b"123456789"), 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }
}

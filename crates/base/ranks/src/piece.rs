//! Pieces of memory to send, sealed by a checksum, because memory and cables sometimes damage
//! bytes.

/// Bytes of a seal: a mark, a number, a length and a checksum, four bytes each.
const SEAL: usize = 16;
const MARK: [u8; 4] = *b"isrk";

/// A piece of host memory.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    bytes: Vec<u8>,
}

impl Piece {
    /// New memory.
    pub fn zeros(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes] }
    }

    /// A piece of these bytes, without a seal.
    pub fn unsealed(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// All bytes, a seal included if there is one.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The contents behind the seal.
    pub fn contents(&self) -> &[u8] {
        &self.bytes[SEAL..]
    }

    pub fn contents_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[SEAL..]
    }

    /// Bytes that travel for `contents` bytes.
    pub fn sealed(contents: usize) -> usize {
        SEAL + contents
    }

    /// Seals the first `contents` bytes, before they are sent as the `number`th piece to a peer.
    pub fn seal(&mut self, number: u32, contents: usize) {
        let seal = self.seal_of(number, contents);
        self.bytes[..SEAL].copy_from_slice(&seal);
    }

    /// Whether a received piece is the peer's `number`th, of `contents` bytes, and undamaged.
    pub fn is_sound(&self, number: u32, contents: usize) -> bool {
        self.bytes[..SEAL] == self.seal_of(number, contents)
    }

    fn seal_of(&self, number: u32, contents: usize) -> [u8; SEAL] {
        let mut seal = [0; SEAL];
        let length = contents as u32; // a piece has a few MiB
        seal[..4].copy_from_slice(&MARK);
        seal[4..8].copy_from_slice(&number.to_le_bytes());
        seal[8..12].copy_from_slice(&length.to_le_bytes());
        seal[12..].copy_from_slice(&crc32c::crc32c(&self.contents()[..contents]).to_le_bytes());
        seal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_another_number_and_another_length_are_noticed() {
        let mut piece = Piece::zeros(Piece::sealed(37));
        piece.contents_mut().iter_mut().zip(1..).for_each(|(byte, i)| *byte = i);
        piece.seal(7, 37);
        assert!(piece.is_sound(7, 37));
        assert!(!piece.is_sound(8, 37) && !piece.is_sound(7, 36));
        for bit in 0..8 * piece.bytes().len() {
            piece.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
            assert!(!piece.is_sound(7, 37), "bit {bit}");
            piece.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

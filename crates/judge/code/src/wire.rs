//! Frames between this program and the servers in the jails: a kind (a byte), a length (four, the
//! lowest first), and the body. `python/frames.py` is the other end. Frames from a jail are not
//! trusted: their length has a bound.

/// Bytes of a frame's header.
const HEADER: usize = 5;

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Its kind, a letter.
    pub kind: u8,
    /// Its content.
    pub body: Vec<u8>,
}

/// A frame is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TooLong;

/// Appends a frame to the bytes to be written.
pub fn append(to: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let length = u32::try_from(body.len()).expect("nothing that is said has 4 GiB");
    to.push(kind);
    to.extend(length.to_le_bytes());
    to.extend(body);
}

/// Bytes that have come, as frames.
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
    /// The number of bytes that have been taken.
    taken: usize,
}

impl Incoming {
    /// Adds what has come.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 && self.taken >= self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend(bytes);
    }

    /// The next frame, if it is complete; its body has `longest` bytes at most.
    pub fn next(&mut self, longest: usize) -> Result<Option<Frame>, TooLong> {
        let left = &self.bytes[self.taken..];
        let Some((&[kind, a, b, c, d], rest)) = left.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > longest {
            return Err(TooLong);
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let body = body.to_vec();
        self.taken += HEADER + length;
        Ok(Some(Frame { kind, body }))
    }

    /// Forgets all that has come.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_has_the_layout_that_the_other_end_reads() {
        let mut bytes = Vec::new();
        append(&mut bytes, b'R', &[7; 258]);
        // Python: struct.pack("<cI", b"R", 258).hex()
        assert_eq!(bytes[..5], [0x52, 0x02, 0x01, 0, 0]);
        assert_eq!(bytes.len(), 263);
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_has_come() {
        let mut incoming = Incoming::default();
        incoming.push(&[b'O', 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(incoming.next(1 << 20), Err(TooLong));
        incoming.clear();
        incoming.push(&[b'O', 3, 0, 0, 0, 1, 2]);
        assert_eq!(incoming.next(3), Ok(None));
        incoming.push(&[3]);
        assert_eq!(incoming.next(3), Ok(Some(Frame { kind: b'O', body: vec![1, 2, 3] })));
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            cut in 1usize..50,
        ) {
            let mut bytes = Vec::new();
            for (kind, body) in (0u8..).zip(&bodies) {
                append(&mut bytes, kind, body);
            }
            let (mut incoming, mut frames) = (Incoming::default(), Vec::new());
            for part in bytes.chunks(cut) {
                incoming.push(part);
                while let Some(frame) = incoming.next(40).unwrap() {
                    frames.push(frame.body);
                }
            }
            prop_assert_eq!(frames, bodies);
        }
    }
}

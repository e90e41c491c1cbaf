//! Reader of Thrift's compact protocol, in which a parquet file describes itself: enough to check a
//! few numbers before the parquet crate acts on them (<https://github.com/apache/thrift>,
//! doc/specs/thrift-compact-protocol.md).

/// Deepest nesting that is followed. Parquet's own structures nest less than ten deep.
const MAX_DEPTH: usize = 32;

/// Type of a field, by its number in the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(u8);

impl Kind {
    pub(super) const FALSE: Self = Self(2);
    pub(super) const I32: Self = Self(5);
    pub(super) const BYTES: Self = Self(8);
    pub(super) const LIST: Self = Self(9);
    pub(super) const STRUCT: Self = Self(12);
}

/// Reader of bytes. Every method returns None if the bytes end or are malformed.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Reads a struct. `field` gets the number and type of each field and returns whether it has
    /// read the value; otherwise the value is skipped.
    pub(super) fn fields(
        &mut self,
        field: &mut dyn FnMut(&mut Self, i64, Kind) -> Option<bool>,
    ) -> Option<()> {
        let mut id = 0i64;
        while let Some(kind) = self.field(&mut id)? {
            if !field(self, id, kind)? {
                self.skip(kind, 0)?;
            }
        }
        Some(())
    }

    /// Reads the start of a field: its type, or an inner None at the struct's end.
    fn field(&mut self, id: &mut i64) -> Option<Option<Kind>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        *id = match head >> 4 {
            0 => self.integer()?,
            delta => id.checked_add(i64::from(delta))?,
        };
        Some(Some(Kind(head & 0x0f)))
    }

    /// Reads the start of a list: type and number of its items.
    pub(super) fn list(&mut self) -> Option<(Kind, u64)> {
        let head = self.byte()?;
        let len = match head >> 4 {
            15 => self.unsigned()?,
            len => u64::from(len),
        };
        Some((Kind(head & 0x0f), len))
    }

    /// Reads an integer.
    pub(super) fn integer(&mut self) -> Option<i64> {
        let zigzag = self.unsigned()?;
        Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// Skips a byte string and returns its length.
    pub(super) fn bytes(&mut self) -> Option<u64> {
        let len = self.unsigned()?;
        self.skip_bytes(len)?;
        Some(len)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip_bytes(&mut self, count: u64) -> Option<()> {
        let at = self.at.checked_add(usize::try_from(count).ok()?)?;
        self.at = (at <= self.bytes.len()).then_some(at)?;
        Some(())
    }

    fn skip(&mut self, Kind(kind): Kind, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            1 | 2 => Some(()), // the type itself says true or false
            3 => self.skip_bytes(1),
            4..=6 => self.unsigned().map(drop),
            7 => self.skip_bytes(8),
            8 => self.bytes().map(drop),
            9 | 10 => {
                let (kind, len) = self.list()?;
                (0..len).try_for_each(|_| self.skip_item(kind, depth))
            }
            11 => match self.unsigned()? {
                0 => Some(()),
                len => {
                    let kinds = self.byte()?;
                    (0..len).try_for_each(|_| {
                        self.skip_item(Kind(kinds >> 4), depth)?;
                        self.skip_item(Kind(kinds & 0x0f), depth)
                    })
                }
            },
            12 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Some(())
            }
            13 => self.skip_bytes(16),
            _ => None,
        }
    }

    /// Outside of structs, booleans are bytes.
    fn skip_item(&mut self, kind: Kind, depth: usize) -> Option<()> {
        match kind {
            Kind(1 | 2) => self.skip_bytes(1),
            kind => self.skip(kind, depth + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_others_of_every_type() {
        let bytes = [
            0x15, 0x03, // field 1, i32: -2
            0x18, 0x02, b'a', b'b', // field 2, text
            0x19, 0x21, 1, 2, // field 3, list of two booleans
            0x1b, 0x01, 0x85, 0x01, b'k', 0x02, // field 4, map of text to i32
            0x1c, 0x11, 0x00, // field 5, struct of one boolean
            0x17, 0, 0, 0, 0, 0, 0, 0, 0, // field 6, double
            0x05, 0x50, 0xac, 0x02, // field 40, i32: 150
            0x00,
        ];
        let numbers = |bytes: &[u8]| {
            let mut found = Vec::new();
            let mut reader = Reader::new(bytes);
            let ended = reader.fields(&mut |reader, id, kind| {
                if kind == Kind::I32 {
                    found.push((id, reader.integer()?));
                }
                Some(kind == Kind::I32)
            });
            ended.map(|()| (found, reader.position()))
        };
        assert_eq!(numbers(&bytes), Some((vec![(1, -2), (40, 150)], bytes.len())));
        for len in 0..bytes.len() {
            assert_eq!(numbers(&bytes[..len]), None, "{len}");
        }
        // Endless nesting, and a length beyond the end.
        assert_eq!(numbers(&[0x1c; 100_000]), None);
        assert_eq!(numbers(&[0x19, 0xf8, 0xff, 0xff, 0xff, 0xff, 0x0f]), None);
    }
}

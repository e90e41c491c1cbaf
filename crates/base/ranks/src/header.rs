//! The header that every rank sends before each exchange: its operation, its health, and a hash of
//! its results so far.

use crate::error::Error;

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 64;
const MARK: [u8; 4] = *b"ISRK";

/// The exchanges that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Gather = 1,
    Broadcast = 2,
    Any = 3,
    Sum = 4,
    Share = 5,
    Check = 6,
    Finish = 7,
    Balance = 8,
}

/// Each kind with its description of a rank.
const KINDS: [(Kind, &str); 8] = [
    (Kind::Gather, "gathers records"),
    (Kind::Broadcast, "hears a broadcast"),
    (Kind::Any, "asks whether any rank wants to stop"),
    (Kind::Sum, "adds gradients"),
    (Kind::Share, "shares parameters"),
    (Kind::Check, "tries its neighbours"),
    (Kind::Finish, "has finished"),
    (Kind::Balance, "shares out work"),
];

impl Kind {
    fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// One rank's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The operation.
    pub kind: Kind,
    /// Whether the rank has failed. A failed rank only reports why.
    pub failed: bool,
    /// An answer of [`Kind::Any`].
    pub flag: bool,
    /// How many exchanges came before.
    pub number: u64,
    /// Bytes of the rank's record, or of its cause if it has failed.
    pub length: u64,
    /// Checksum of that record.
    pub checksum: u32,
    /// A number that all ranks must agree on, such as how many numbers are added.
    pub shape: u64,
    /// The hash of everything noted until now.
    pub digest: [u8; 16],
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MARK);
        bytes[4..8].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[8] = u8::from(self.failed);
        bytes[9] = u8::from(self.flag);
        bytes[12..16].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.length.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.shape.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.digest);
        let checksum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header; None if the bytes are no header or a damaged one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.try_into().ok()?;
        let four = |at: usize| bytes[at..].first_chunk().map(|four| u32::from_le_bytes(*four));
        let eight = |at: usize| bytes[at..].first_chunk().map(|eight| u64::from_le_bytes(*eight));
        if bytes[..4] != MARK || four(60)? != crc32c::crc32c(&bytes[..60]) {
            return None;
        }
        let kind = four(4)?;
        Some(Self {
            kind: KINDS.iter().map(|(kind, _)| *kind).find(|known| *known as u32 == kind)?,
            failed: bytes[8] != 0,
            flag: bytes[9] != 0,
            checksum: four(12)?,
            number: eight(16)?,
            length: eight(24)?,
            shape: eight(32)?,
            digest: *bytes[40..].first_chunk()?,
        })
    }
}

/// Checks that the ranks that have not failed make the same exchange. Every rank has the same
/// headers, so all get the same result.
///
/// `noted` names the value that was last noted; `name` names a rank and its host.
pub(crate) fn agreement(
    headers: &[Header],
    noted: &str,
    name: impl Fn(usize) -> String,
) -> Result<(), Error> {
    let refused = |sentence: String| Err(Error::Disagreement(sentence));
    if let Some((odd, usual)) = odd_one(headers, |header| (header.kind as u32, header.number)) {
        let says = |rank: usize| {
            format!("{} {} ({})", name(rank), headers[rank].kind.name(), headers[rank].number)
        };
        return refused(format!(
            "the ranks are at different places: {}, but {}: they do not run the same program on \
             the same recipe",
            says(odd),
            says(usual)
        ));
    }
    if let Some((odd, usual)) = odd_one(headers, |header| header.shape) {
        return refused(format!(
            "{} exchanges {} numbers where {} exchanges {}: the ranks do not train the same model",
            name(odd),
            headers[odd].shape,
            name(usual),
            headers[usual].shape
        ));
    }
    if let Some((odd, usual)) = odd_one(headers, |header| header.digest) {
        let since =
            if noted.is_empty() { String::new() } else { format!(" (last compared: {noted})") };
        let have = |rank: usize| {
            headers.iter().filter(|header| header.digest == headers[rank].digest).count()
        };
        // If two digests are equally frequent, neither is known to be right.
        let doubted = if have(odd) == have(usual) { "one of the two" } else { "the first" };
        return refused(format!(
            "{} has computed something else than {}{since}: the memory, the processor or the \
             files of {doubted} cannot be trusted; go on from the last checkpoint without it",
            name(odd),
            name(usual)
        ));
    }
    Ok(())
}

/// The first rank that differs from the majority, and the first rank of the majority; none if all
/// agree.
fn odd_one<K: PartialEq>(headers: &[Header], key: impl Fn(&Header) -> K) -> Option<(usize, usize)> {
    let keys: Vec<K> = headers.iter().map(key).collect();
    let have = |rank: &usize| keys.iter().filter(|key| **key == keys[*rank]).count();
    let usual = (0..keys.len()).rev().max_by_key(have)?;
    let odd = keys.iter().position(|key| *key != keys[usual])?;
    Some((odd, usual))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(digest: u8) -> Header {
        Header {
            kind: Kind::Sum,
            failed: false,
            flag: true,
            number: 12,
            length: 1 << 40,
            checksum: 77,
            shape: 5,
            digest: [digest; 16],
        }
    }

    fn refusal(headers: &[Header]) -> String {
        agreement(headers, "step 7", |rank| format!("rank {rank} (node{rank})"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_odd_one_is_named() {
        assert_eq!(agreement(&[header(1); 3], "", |_| String::new()), Ok(()));
        let odd = refusal(&[header(1), header(1), header(2), header(1)]);
        assert!(odd.starts_with(
            "rank 2 (node2) has computed something else than rank 0 (node0) (last compared: \
             step 7): the memory, the processor or the files of the first"
        ));
        assert!(refusal(&[header(1), header(2)]).contains("of one of the two cannot be trusted"));
        let elsewhere = Header { kind: Kind::Share, ..header(1) };
        assert!(refusal(&[header(1), elsewhere, header(1)]).contains(
            "rank 1 (node1) shares parameters (12), but rank 0 (node0) adds gradients (12)"
        ));
        let other_shape = Header { shape: 6, ..header(1) };
        assert!(
            refusal(&[header(1), header(1), other_shape])
                .starts_with("rank 2 (node2) exchanges 6 numbers")
        );
    }

    proptest! {
        #[test]
        fn bytes_are_a_whole_header_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80), bit in 0usize..512) {
            prop_assert_eq!(Header::decode(&bytes), None);
            let mut encoded = header(3).encode();
            prop_assert_eq!(Header::decode(&encoded), Some(header(3)));
            encoded[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Header::decode(&encoded), None);
        }
    }
}

//! The checksum that a hub puts into an ETag.

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::id::is_hex;

/// Checksum of contents as they arrive, of the kind that the ETag holds.
pub(super) enum Digest {
    /// 64 digits: SHA-256 of the contents, for every large file.
    Sha256(Sha256),
    /// 40 digits: SHA-1 of the contents as a git blob, for the others. Caching proxies of companies replace it by
    /// their own SHA-1 of the bare contents.
    Sha1 { blob: Sha1, bare: Sha1 },
    /// Anything else says nothing about the contents.
    Opaque,
}

impl Digest {
    /// The checksum for contents of `size` bytes under `etag`, before the first byte.
    pub fn new(etag: &str, size: u64) -> Self {
        if is_hex(etag, 64) {
            Self::Sha256(Sha256::new())
        } else if is_hex(etag, 40) {
            let blob = Sha1::new().chain_update(format!("blob {size}\0"));
            Self::Sha1 { blob, bare: Sha1::new() }
        } else {
            Self::Opaque
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha1 { blob, bare } => {
                blob.update(bytes);
                bare.update(bytes);
            }
            Self::Opaque => {}
        }
    }

    /// Whether the contents so far are those that `etag` stands for.
    pub fn matches(&self, etag: &str) -> bool {
        match self {
            Self::Sha256(hash) => hex(&hash.clone().finalize()) == etag,
            Self::Sha1 { blob, bare } => {
                [blob, bare].iter().any(|&hash| hex(&hash.clone().finalize()) == etag)
            }
            Self::Opaque => true,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

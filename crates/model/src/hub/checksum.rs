//! The checksum that a hub puts into an ETag.

use isentrope_files::Digest;

use super::id::is_hex;

/// Checksums of contents as they arrive, of the kind that the ETag holds.
pub(super) struct Checksum {
    /// Each that may be meant; none where the ETag says nothing about the contents.
    candidates: Vec<Digest>,
}

impl Checksum {
    /// The checksum for contents of `size` bytes under `etag`, before the first byte.
    pub fn new(etag: &str, size: u64) -> Self {
        let candidates = if is_hex(etag, 64) {
            // SHA-256 of the contents, for every large file.
            vec![Digest::sha256()]
        } else if is_hex(etag, 40) {
            // SHA-1 of the contents as a git blob, for the others. Caching proxies of companies replace it by their own
            // SHA-1 of the bare contents.
            let mut blob = Digest::sha1();
            blob.update(format!("blob {size}\0").as_bytes());
            vec![blob, Digest::sha1()]
        } else {
            Vec::new()
        };
        Self { candidates }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.candidates.iter_mut().for_each(|digest| digest.update(bytes));
    }

    /// Whether the contents so far are those that `etag` stands for.
    pub fn matches(&self, etag: &str) -> bool {
        self.candidates.is_empty() || self.candidates.iter().any(|digest| digest.hex() == etag)
    }
}

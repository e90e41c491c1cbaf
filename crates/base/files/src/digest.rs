//! Hashes of contents, in hexadecimal.

use std::io::Read;
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::{Error, Result, open_regular};

/// Bytes of a file to read at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// Hash of a stream of bytes.
#[derive(Clone, Debug)]
pub struct Digest(Function);

#[derive(Clone, Debug)]
enum Function {
    Sha256(Sha256),
    Sha1(Sha1),
}

impl Digest {
    /// Starts a SHA-256.
    pub fn sha256() -> Self {
        Self(Function::Sha256(Sha256::new()))
    }

    /// Starts a SHA-1, for contents that the hub names by their SHA-1.
    pub fn sha1() -> Self {
        Self(Function::Sha1(Sha1::new()))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Function::Sha256(hash) => hash.update(bytes),
            Function::Sha1(hash) => hash.update(bytes),
        }
    }

    /// The hash of the bytes so far, in lowercase.
    pub fn hex(&self) -> String {
        match &self.0 {
            Function::Sha256(hash) => hex(&hash.clone().finalize()),
            Function::Sha1(hash) => hex(&hash.clone().finalize()),
        }
    }
}

/// The SHA-256 of a file's bytes, in hexadecimal.
///
/// # Errors
/// [`Error::Io`] when the file cannot be read or is no regular file.
pub fn sha256_of_file(path: &Path) -> Result<String> {
    let mut file = open_regular(path)?;
    let mut digest = Digest::sha256();
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let read = file.read(&mut block).map_err(Error::at(path))?;
        if read == 0 {
            return Ok(digest.hex());
        }
        digest.update(&block[..read]);
    }
}

/// The SHA-256 of bytes in memory.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

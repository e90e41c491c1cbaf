//! The identity of a model's files.

use super::{Checkpoint, write_json};
use crate::config::fields::Fields;
use crate::{Result, json_file};
use isentrope_files::sha256_of_file;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The file beside an adapter that says which base it is for. peft has no key for it in
/// adapter_config.json, and warns of keys that it does not know.
const FINGERPRINT_FILE: &str = "base_fingerprint.json";

/// The identity of a model: of its configuration and of its weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// SHA-256 of config.json, in hexadecimal.
    pub config_sha256: String,
    /// CRC-32C of all tensors in the order of their names: each its name, type, shape and bytes.
    /// It does not depend on the files that hold them. In hexadecimal.
    pub weights_crc32c: String,
}

impl Fingerprint {
    /// The fingerprint of a model directory. All weights are read once.
    ///
    /// # Errors
    /// As [`Checkpoint::open`]; [`Error::Io`](crate::Error::Io) when config.json cannot be read.
    pub fn of(dir: &Path) -> Result<Self> {
        let config_sha256 = sha256_of_file(&dir.join("config.json"))?;
        Ok(Self { config_sha256, weights_crc32c: checksum(&Checkpoint::open(dir)?) })
    }

    /// The part in which another model differs, in words.
    pub(crate) fn differs_from(&self, other: &Self) -> Option<&'static str> {
        if other.config_sha256 != self.config_sha256 {
            return Some("its config.json differs");
        }
        (other.weights_crc32c != self.weights_crc32c).then_some("its weights differ")
    }

    /// The part in which the model in a directory differs, in words. Weights are only read if
    /// config.json is the same. Absent ones, which may be on the hub, are not compared.
    pub(crate) fn differs_from_dir(&self, dir: &Path) -> Result<Option<&'static str>> {
        let config_sha256 = sha256_of_file(&dir.join("config.json"))?;
        let weights_crc32c = if config_sha256 == self.config_sha256 && Checkpoint::is_in(dir) {
            checksum(&Checkpoint::open(dir)?)
        } else {
            self.weights_crc32c.clone()
        };
        Ok(self.differs_from(&Self { config_sha256, weights_crc32c }))
    }

    /// The fingerprint that an adapter's directory holds, if it holds one.
    pub(crate) fn find(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FINGERPRINT_FILE);
        let Some(json) = json_file::find_object(&path)? else { return Ok(None) };
        let fields = Fields { path: &path, object: &json, prefix: "" };
        let text = |key: &str| {
            let text = fields.text(key)?.filter(|text| text.len() <= 64);
            text.map(str::to_owned).ok_or_else(|| fields.invalid(key, "is missing or too long"))
        };
        Ok(Some(Self {
            config_sha256: text("config_sha256")?,
            weights_crc32c: text("weights_crc32c")?,
        }))
    }

    /// Writes the file that [`find`](Self::find) reads, and returns its path.
    pub(crate) fn write(&self, dir: &Path) -> Result<PathBuf> {
        let path = dir.join(FINGERPRINT_FILE);
        let Self { config_sha256, weights_crc32c } = self;
        let json = json!({ "config_sha256": config_sha256, "weights_crc32c": weights_crc32c });
        write_json(&path, &json)?;
        Ok(path)
    }
}

fn checksum(weights: &Checkpoint) -> String {
    format!("{:08x}", weights.crc32c())
}

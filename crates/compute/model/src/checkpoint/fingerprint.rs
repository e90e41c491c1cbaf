//! The identity of a model's files.

use super::{Checkpoint, write_json};
use crate::config::fields::Fields;
use crate::{Result, json_file};
use isentrope_files::sha256_of_file;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file beside an adapter that says which base it is for. peft has no key for it in
/// adapter_config.json, and warns of keys that it does not know.
const FINGERPRINT_FILE: &str = "base_fingerprint.json";
const CONFIG_FILE: &str = "config.json";

/// The identity of a model: of its configuration and of its weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// SHA-256 of config.json, in hexadecimal.
    pub config_sha256: String,
    /// CRC-32C of all tensors in the order of their names: each its name, type, shape and bytes.
    /// It does not depend on the files that hold them. In hexadecimal.
    pub weights_crc32c: String,
}

impl Fingerprint {
    /// The fingerprint of a model directory. All weights are read once. It is not kept for the next
    /// time: a file's size and time can stay while its bytes change, as with a copy that keeps times.
    ///
    /// # Errors
    /// As [`Checkpoint::open`]; [`Error::File`](crate::Error::File) when config.json cannot be
    /// read.
    pub fn of(dir: &Path) -> Result<Self> {
        let config_sha256 = sha256_of_file(&dir.join(CONFIG_FILE))?;
        let weights_crc32c = format!("{:08x}", Checkpoint::open(dir)?.crc32c());
        Ok(Self { config_sha256, weights_crc32c })
    }

    /// The part in which the model in a directory differs, in words. `fingerprint` is asked only if
    /// config.json is the same. Absent weights, which may be on the hub, are not compared.
    pub(crate) fn differs_from_dir(
        &self,
        dir: &Path,
        fingerprint: impl FnOnce(&Path) -> Result<Self>,
    ) -> Result<Option<&'static str>> {
        if sha256_of_file(&dir.join(CONFIG_FILE))? != self.config_sha256 {
            return Ok(Some("its config.json differs"));
        }
        let differs =
            Checkpoint::is_in(dir) && fingerprint(dir)?.weights_crc32c != self.weights_crc32c;
        Ok(differs.then_some("its weights differ"))
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
        write_json(&path, self)?;
        Ok(path)
    }
}

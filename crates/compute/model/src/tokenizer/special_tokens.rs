//! The tokens to which a model gives a role: `bos_token`, `eos_token`, `pad_token` and their kin.

use std::path::Path;

use serde_json::Value;

use crate::json_file::find_object;
use crate::{Error, Result};

/// Roles of transformers. Each is a key of the files and a variable of chat templates.
const ROLES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The text of each special token, by role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    texts: Vec<(&'static str, String)>,
}

impl SpecialTokens {
    /// Reads `tokenizer_config.json` and, for roles it does not mention, `special_tokens_map.json`.
    ///
    /// Either file may be missing. A token is a string or an object with the string under
    /// `content`; null says that the model has no such token.
    ///
    /// # Errors
    /// [`Error::File`] when a file cannot be read, [`Error::Invalid`] when it is malformed.
    pub fn read(dir: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for name in ["tokenizer_config.json", "special_tokens_map.json"] {
            let path = dir.join(name);
            if let Some(object) = find_object(&path)? {
                files.push((path, object));
            }
        }
        let mut texts = Vec::new();
        for role in ROLES {
            let found = files.iter().find_map(|(path, object)| Some((path, object.get(role)?)));
            let Some((path, value)) = found else { continue };
            let text = match value {
                Value::Null => continue,
                Value::Object(token) => token.get("content").and_then(Value::as_str),
                other => other.as_str(),
            };
            let what = || format!("`{role}` must be a string or an object with a string `content`");
            let text = text.ok_or_else(|| Error::invalid(path, what()))?;
            texts.push((role, text.to_owned()));
        }
        Ok(Self { texts })
    }

    /// The text of the token with this role (`"bos_token"`, `"eos_token"`, ...).
    pub fn get(&self, role: &str) -> Option<&str> {
        self.iter().find_map(|(name, text)| (name == role).then_some(text))
    }

    /// All roles with the text of their tokens.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.texts.iter().map(|(role, text)| (*role, text.as_str()))
    }
}

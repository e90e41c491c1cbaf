//! GGUF files, the weights of llama.cpp: refused with the way to a checkpoint.

use std::path::Path;

use isentrope_files::names;

use crate::{Error, Result};

/// The ending of such a file's name.
pub(crate) const ENDING: &str = ".gguf";

/// Refuses a directory with a GGUF file and no safetensors.
pub(crate) fn refuse_directory(dir: &Path) -> Result<()> {
    let names = names(dir)?;
    let mut names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    names.sort();
    let has = |ending: &str| names.iter().find(|name| name.ends_with(ending));
    match (has(".safetensors"), has(ENDING)) {
        (None, Some(name)) => Err(refusal(&dir.join(&**name))),
        _ => Ok(()),
    }
}

/// The error about a GGUF file.
pub(crate) fn refusal(path: &Path) -> Error {
    let dir = path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let source = format!("{:?}, gguf_file={name:?}", dir.to_string_lossy());
    Error::Hub(format!(
        "{}: is a GGUF file; make a model directory of it with transformers: \
         AutoModelForCausalLM.from_pretrained({source}, dtype=\"float32\").save_pretrained(OUT) \
         and AutoTokenizer.from_pretrained({source}).save_pretrained(OUT) (docs/start/first-model.md)",
        path.display()
    ))
}

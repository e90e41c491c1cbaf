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

/// The error about a GGUF file, with the Python that converts it. transformers widens the weights
/// but takes the model for quantised, and then refuses to save it.
pub(crate) fn refusal(path: &Path) -> Error {
    let dir = path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Error::Hub(format!(
        "{}: is a GGUF file; make a model directory of it in Python, after `pip install torch \
         transformers accelerate gguf`: from transformers import \
         AutoModelForCausalLM, AutoTokenizer; source, file, out = {:?}, {name:?}, \"OUT\"; {}",
        path.display(),
        dir.to_string_lossy(),
        CONVERSION.join("; ")
    ))
}

/// The lines that convert a file `file` in the directory `source`.
const CONVERSION: [&str; 5] = [
    "model = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=\"float32\")",
    "model.hf_quantizer, model.is_quantized = None, False",
    "model.config.__dict__.pop(\"quantization_config\", None)",
    "model.save_pretrained(out)",
    "AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(out)",
];

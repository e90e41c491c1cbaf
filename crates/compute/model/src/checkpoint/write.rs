//! Writing weights, with the files that make a directory loadable by transformers and vLLM.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use isentrope_files::{AtomicDirectory, NewFile};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value, json};

use super::read::first_non_finite;
use super::{CONVERSION_BLOCK, HEADER_LENGTH_BYTES, INDEX_FILE, SINGLE_FILE};
use crate::{Error, Result};

/// Files of a model besides weights and config.json.
pub(crate) const COMPANIONS: [&str; 11] = [
    "added_tokens.json",
    "additional_chat_templates/tool_use.jinja",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
];

/// Most bytes of a file's tensors, as `huggingface_hub` shards them.
pub const MAX_SHARD_BYTES: u64 = 5_000_000_000;

/// Number format of the written weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightDtype {
    /// The weights themselves.
    F32,
    /// The upper half of f32, rounded to nearest, ties to even.
    Bf16,
    /// IEEE binary16, rounded to nearest, ties to even.
    F16,
}

impl WeightDtype {
    /// Name in config.json.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
        }
    }

    fn stored(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::Bf16 => Dtype::BF16,
            Self::F16 => Dtype::F16,
        }
    }
}

/// Options of writing a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions<'a> {
    /// Number format of every tensor.
    pub dtype: WeightDtype,
    /// Largest total of a file's tensors, in bytes. A larger tensor gets a file of its own.
    pub max_shard_bytes: u64,
    /// The model directory whose tokenizer, chat template and generation files are copied byte for
    /// byte.
    pub carry_from: Option<&'a Path>,
    /// The part of this writer, if several write into one directory.
    pub writer: Writer,
}

/// One of several writers of the same tensors into one directory, each with its share of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    /// The writer's number, from 0. Writer 0 writes the other files too.
    pub number: usize,
    /// Number of writers.
    pub of: usize,
}

impl Writer {
    /// The only writer.
    pub const ALONE: Self = Self { number: 0, of: 1 };

    /// Whether it writes a file, by the file's number.
    pub fn has(self, file: usize) -> bool {
        file % self.of == self.number
    }
}

/// A tensor to write.
pub struct Tensor<'a> {
    /// Name in transformers' state dict.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
    /// Produces the values, row-major. They are dropped before the next tensor's.
    pub values: Box<dyn FnOnce() -> Result<Cow<'a, [f32]>> + 'a>,
}

/// Writes a model directory, which appears whole or not at all: config.json (`config` with the
/// written dtype), `tensors` in order, and the files of [`WriteOptions::carry_from`].
///
/// # Errors
/// [`Error::Input`] when two tensors have one name, or when values do not fit their shape or the
/// number format; [`Error::File`] when `dir` exists and is not empty, or a file cannot be read or
/// written. Nothing is left behind then.
pub fn write_checkpoint(
    dir: &Path,
    config: &Map<String, Value>,
    tensors: Vec<Tensor>,
    options: WriteOptions,
) -> Result<()> {
    let directory = AtomicDirectory::create(dir)?;
    write_checkpoint_files(directory.path(), config, tensors, options)?;
    Ok(directory.commit()?)
}

/// Does what [`write_checkpoint`] does within the existing directory `dir`, for a caller that adds
/// files before an [`AtomicDirectory::commit`]. Returns the written files.
///
/// # Errors
/// As [`write_checkpoint`], but files written before the failure remain.
pub fn write_checkpoint_files(
    dir: &Path,
    config: &Map<String, Value>,
    tensors: Vec<Tensor>,
    options: WriteOptions,
) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    if options.writer.number == 0 {
        let path = dir.join("config.json");
        write_json(&path, &with_dtype(config, options.dtype))?;
        written.push(path);
        if let Some(source) = options.carry_from {
            written.extend(copy_companions(source, dir)?);
        }
    }
    written.extend(write_tensors(dir, tensors, options)?);
    Ok(written)
}

/// Sets the dtype in `config`, under the key in use (transformers 5 writes `dtype`, earlier
/// versions `torch_dtype`) or the one that all versions read.
fn with_dtype(config: &Map<String, Value>, dtype: WeightDtype) -> Map<String, Value> {
    let mut config = config.clone();
    let mut known = false;
    for key in ["dtype", "torch_dtype"] {
        if let Some(value) = config.get_mut(key) {
            *value = dtype.name().into();
            known = true;
        }
    }
    if !known {
        config.insert("torch_dtype".to_owned(), dtype.name().into());
    }
    config
}

/// Copies the files of a model besides weights and config.json.
pub(crate) fn copy_companions(source: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut copied = Vec::new();
    for name in COMPANIONS {
        let (from, to) = (source.join(name), dir.join(name));
        if !from.is_file() {
            continue;
        }
        // `dir` itself is not made: another rank may have removed it after an error.
        if let Some(parent) = to.parent().filter(|parent| *parent != dir && !parent.is_dir()) {
            fs::create_dir(parent).map_err(|error| Error::io(parent, error))?;
        }
        let mut file = NewFile::create(&to)?;
        file.copy(&from)?;
        file.finish()?;
        copied.push(to);
    }
    Ok(copied)
}

/// Writes only tensors into the existing directory `dir`, for [`Checkpoint`](super::Checkpoint) to
/// read. Returns the written files.
///
/// # Errors
/// As [`write_checkpoint`], but files written before the failure remain.
pub fn write_tensors(
    dir: &Path,
    tensors: Vec<Tensor>,
    options: WriteOptions,
) -> Result<Vec<PathBuf>> {
    let files = tensor_files(&tensors, options)?;
    let bytes = tensors.iter().map(|tensor| bytes_of(tensor, options.dtype));
    let total_bytes = bytes.sum::<Result<u64>>()?;
    let count = files.len();
    let mut tensors = tensors.into_iter();
    let mut weight_map = Map::new();
    let mut written = Vec::new();
    for (file, range) in files.into_iter().enumerate() {
        let shard: Vec<Tensor> = tensors.by_ref().take(range.len()).collect();
        let name = match count {
            1 => SINGLE_FILE.to_owned(),
            _ => format!("model-{:05}-of-{count:05}.safetensors", file + 1),
        };
        weight_map.extend(shard.iter().map(|tensor| (tensor.name.clone(), name.as_str().into())));
        if options.writer.has(file) {
            let path = dir.join(&name);
            write_safetensors(&path, shard, options.dtype)?;
            written.push(path);
        }
    }
    if count > 1 && options.writer.number == 0 {
        let index = json!({ "metadata": { "total_size": total_bytes }, "weight_map": weight_map });
        let path = dir.join(INDEX_FILE);
        write_json(&path, &index)?;
        written.push(path);
    }
    Ok(written)
}

/// The ranges of tensors that [`write_tensors`] puts into each of its files.
///
/// # Errors
/// [`Error::Input`] when two tensors have one name, or one has too many values.
pub fn tensor_files(tensors: &[Tensor], options: WriteOptions) -> Result<Vec<Range<usize>>> {
    let mut names = HashSet::new();
    let mut files: Vec<Range<usize>> = iter::once(0..0).collect();
    let mut size = 0;
    for (index, tensor) in tensors.iter().enumerate() {
        if !names.insert(&tensor.name) || tensor.name == "__metadata__" {
            return Err(Error::Input(format!("tensor name {} is taken", tensor.name)));
        }
        let bytes = bytes_of(tensor, options.dtype)?;
        match files.last_mut() {
            Some(file) if file.end == 0 || size + bytes <= options.max_shard_bytes => {
                file.end = index + 1;
                size += bytes;
            }
            _ => {
                files.push(index..index + 1);
                size = bytes;
            }
        }
    }
    Ok(files)
}

fn bytes_of(tensor: &Tensor, dtype: WeightDtype) -> Result<u64> {
    Ok((element_count(tensor)? * dtype.stored().bitsize() / 8) as u64)
}

/// Number of values of this shape. It is bounded so that the bytes of a checkpoint can be summed
/// without overflow.
fn element_count(tensor: &Tensor) -> Result<usize> {
    let count = tensor.shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    count.filter(|&count| count as u64 <= 1 << 40).ok_or_else(|| {
        Error::Input(format!("tensor {} has too many values: {:?}", tensor.name, tensor.shape))
    })
}

/// Writes one safetensors file.
pub(crate) fn write_safetensors(
    path: &Path,
    tensors: Vec<Tensor>,
    dtype: WeightDtype,
) -> Result<()> {
    let stored = dtype.stored();
    let mut infos = Vec::with_capacity(tensors.len());
    let mut offset = 0;
    for tensor in &tensors {
        let end = offset + element_count(tensor)? * stored.bitsize() / 8;
        let info =
            TensorInfo { dtype: stored, shape: tensor.shape.clone(), data_offsets: (offset, end) };
        infos.push((tensor.name.clone(), info));
        offset = end;
    }
    // transformers refuses files that do not name a framework.
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let mut header = Metadata::new(Some(format), infos)
        .map_err(|error| error.to_string())
        .and_then(|metadata| serde_json::to_string(&metadata).map_err(|error| error.to_string()))
        .map_err(|error| {
            Error::Input(format!("tensors do not fit a safetensors header: {error}"))
        })?;
    // Padded so that the data is aligned for readers that use it in place.
    while !header.len().is_multiple_of(HEADER_LENGTH_BYTES) {
        header.push(' ');
    }

    let mut file = NewFile::create(path)?;
    file.write(&(header.len() as u64).to_le_bytes())?;
    file.write(header.as_bytes())?;
    for tensor in tensors {
        let expected = element_count(&tensor)?;
        let values = (tensor.values)()?;
        if values.len() != expected {
            let what = format!(
                "tensor {} has {} values for {:?}",
                tensor.name,
                values.len(),
                tensor.shape
            );
            return Err(Error::Input(what));
        }
        write_values(&mut file, &tensor.name, &values, dtype)?;
    }
    Ok(file.finish()?)
}

/// Writes `values` little-endian.
fn write_values(file: &mut NewFile, name: &str, values: &[f32], dtype: WeightDtype) -> Result<()> {
    let mut bytes = Vec::with_capacity(4 * CONVERSION_BLOCK);
    let mut wide = [f16::ZERO; CONVERSION_BLOCK];
    let mut brain = [bf16::ZERO; CONVERSION_BLOCK];
    for (number, block) in values.chunks(CONVERSION_BLOCK).enumerate() {
        bytes.clear();
        let unfit = match dtype {
            WeightDtype::F32 => {
                bytes.extend(block.iter().flat_map(|value| value.to_le_bytes()));
                first_non_finite(block)
            }
            WeightDtype::Bf16 => {
                let rounded = &mut brain[..block.len()];
                rounded.convert_from_f32_slice(block);
                bytes.extend(rounded.iter().flat_map(|value| value.to_le_bytes()));
                rounded.iter().position(|value| !value.is_finite())
            }
            WeightDtype::F16 => {
                let rounded = &mut wide[..block.len()];
                rounded.convert_from_f32_slice(block);
                bytes.extend(rounded.iter().flat_map(|value| value.to_le_bytes()));
                rounded.iter().position(|value| !value.is_finite())
            }
        };
        if let Some(offset) = unfit {
            let index = number * CONVERSION_BLOCK + offset;
            let what = format!(
                "tensor {name} is {:e} at index {index}, not finite in {}",
                block[offset],
                dtype.name()
            );
            return Err(Error::Input(what));
        }
        file.write(&bytes)?;
    }
    Ok(())
}

/// Indented by two spaces and ended by a newline, as transformers writes.
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let mut file = NewFile::create(path)?;
    file.json(value)?;
    Ok(file.finish()?)
}

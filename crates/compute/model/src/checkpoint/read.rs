//! Reading weights.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::f16;
use half::slice::HalfFloatSliceExt;
use isentrope_kernels::MappedFile;
use safetensors::tensor::TensorInfo;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::stored::{self, BlockScales};
use super::{CONVERSION_BLOCK, HEADER_LENGTH_BYTES, INDEX_FILE, SINGLE_FILE, WeightDtype};
use crate::config::stored_form::{Fp8, StoredForm};
use crate::{Error, Result, json_file};

/// Largest header, far above that of any published shard (a few hundred kilobytes).
const MAX_HEADER_BYTES: u64 = 32 << 20;

/// The beginning of the text that a repository has in the place of a large file.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/";

/// Values that [`Checkpoint::read_f32`] converts at a time; they fit the second-level cache.
const READ_BLOCK: usize = 1 << 16;
/// Bytes to read before their pages are released. The kernel maps pages around each touched one, so
/// releasing few at a time would leave many mapped.
const RELEASE_BYTES: usize = 8 << 20;

/// An open checkpoint, whose tensors are located and checked, but not yet converted.
#[derive(Debug)]
pub struct Checkpoint {
    dir: PathBuf,
    shards: Vec<Shard>,
    tensors: BTreeMap<String, Location>,
}

#[derive(Debug)]
struct Shard {
    path: PathBuf,
    file: MappedFile,
}

/// Location of a tensor. `bytes` lies within the shard and has the size that shape and type
/// require.
#[derive(Debug)]
struct Location {
    shard: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Range<usize>,
    /// The scales of its blocks, if it has 8 bits.
    scales: Option<BlockScales>,
}

impl Location {
    fn element_bytes(&self) -> usize {
        self.dtype.bitsize() / 8
    }

    fn element_count(&self) -> usize {
        self.bytes.len() / self.element_bytes()
    }
}

impl Checkpoint {
    /// Opens `dir/model.safetensors` or, without one, the shards of
    /// `dir/model.safetensors.index.json`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the directory has weights in other formats only, or a tensor is
    /// of another type than F32, F16, BF16 and F8_E4M3; [`Error::Invalid`] when a file or the index
    /// is malformed or they contradict each other; [`Error::File`] when one cannot be read.
    pub fn open(dir: &Path) -> Result<Self> {
        let mut checkpoint =
            Self { dir: dir.to_owned(), shards: Vec::new(), tensors: BTreeMap::new() };
        let index_path = dir.join(INDEX_FILE);
        if dir.join(SINGLE_FILE).exists() {
            checkpoint.add_shard(&dir.join(SINGLE_FILE))?;
        } else if index_path.exists() {
            checkpoint.add_indexed(&index_path)?;
        } else {
            let what = format!("neither {SINGLE_FILE} nor {INDEX_FILE}");
            return Err(explain_absence(dir, &what));
        }
        Ok(checkpoint)
    }

    /// Whether a directory has weights that can be [opened](Self::open), or damaged ones.
    pub(super) fn is_in(dir: &Path) -> bool {
        [SINGLE_FILE, INDEX_FILE].iter().any(|name| dir.join(name).exists())
    }

    /// Opens the weights of the language model in `dir`, whose config.json says how it is held: the
    /// other tensors of a multimodal model are left out, and weights in FP8 have their scales.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`ModelConfig::read`](crate::ModelConfig::read);
    /// [`Error::Invalid`] when a weight in FP8 has no scales, or others than its shape requires.
    pub(crate) fn open_model(dir: &Path) -> Result<Self> {
        let form = StoredForm::read_dir(dir)?;
        let mut checkpoint = Self::open(dir)?;
        if form.whole.is_some() {
            let all = std::mem::take(&mut checkpoint.tensors);
            checkpoint.tensors = stored::own_tensors(all).map_err(|[first, second]| {
                let what = format!(
                    "tensors {first} and {second} are the same one of the text model: remove one"
                );
                Error::invalid(dir, what)
            })?;
        }
        if let Some(fp8) = form.fp8 {
            checkpoint.attach_scales(fp8)?;
        }
        checkpoint.split_experts()?;
        Ok(checkpoint)
    }

    /// Splits each tensor of all experts of a block into one for each expert.
    fn split_experts(&mut self) -> Result<()> {
        let names: Vec<String> = self.tensors.keys().cloned().collect();
        for name in names {
            let shape = &self.tensors[&name].shape;
            let Some(parts) = stored::parts_of_experts(&name, shape) else { continue };
            let path = self.shards[self.tensors[&name].shard].path.clone();
            let parts = parts.map_err(|what| Error::invalid(&path, what))?;
            let Some(whole) = self.tensors.remove(&name) else { continue };
            let (size, mut start) = (whole.bytes.len() / parts.len().max(1), whole.bytes.start);
            for (own_name, shape) in parts {
                if self.tensors.contains_key(&own_name) {
                    let what = format!("tensor {own_name} is also a part of {name}: remove one");
                    return Err(Error::invalid(&path, what));
                }
                let bytes = start..start + size;
                start += size;
                let (shard, dtype) = (whole.shard, whole.dtype);
                self.tensors
                    .insert(own_name, Location { shard, dtype, shape, bytes, scales: None });
            }
        }
        Ok(())
    }

    /// Takes the tensors of scales out of the list, and gives each to its weight.
    fn attach_scales(&mut self, fp8: Fp8) -> Result<()> {
        let quantised = self.tensors.iter().filter(|(_, tensor)| tensor.dtype == Dtype::F8_E4M3);
        let quantised: Vec<String> = quantised.map(|(name, _)| name.clone()).collect();
        for name in quantised {
            let scale_name = format!("{name}_scale_inv");
            let shape = &self.tensors[&name].shape;
            let grid = self.tensors.get(&scale_name).map(|scales| scales.shape.clone());
            let mut blocks = BlockScales::blocks(shape, fp8, grid.as_deref()).map_err(|what| {
                let path = &self.shards[self.tensors[&name].shard].path;
                Error::invalid(path, format!("tensor {name} in FP8 {what}"))
            })?;
            blocks.scales = self.read_f32(&scale_name, &grid.unwrap_or_default())?;
            self.tensors.remove(&scale_name);
            // The scale of the layer's inputs does not concern its weights.
            if let Some(module) = name.strip_suffix("weight") {
                self.tensors.remove(&format!("{module}activation_scale"));
            }
            if let Some(tensor) = self.tensors.get_mut(&name) {
                tensor.scales = Some(blocks);
            }
        }
        Ok(())
    }

    /// Opens the file `name` in `dir`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_file(dir: &Path, name: &str) -> Result<Self> {
        let path = dir.join(name);
        if !path.exists() {
            let lacks = format!("no {name}, with the weights: copy the whole directory");
            return Err(explain_absence(dir, &lacks));
        }
        let mut checkpoint =
            Self { dir: dir.to_owned(), shards: Vec::new(), tensors: BTreeMap::new() };
        checkpoint.add_shard(&path)?;
        Ok(checkpoint)
    }

    /// The number format that holds all tensors: F32 if one of them needs it.
    pub(crate) fn widest_dtype(&self) -> WeightDtype {
        let has = |dtype| self.tensors.values().any(|tensor| tensor.dtype == dtype);
        let bf16 = has(Dtype::BF16) || has(Dtype::F8_E4M3);
        match (has(Dtype::F32), has(Dtype::F16), bf16) {
            (false, true, false) => WeightDtype::F16,
            (false, false, true) => WeightDtype::Bf16,
            _ => WeightDtype::F32,
        }
    }

    /// CRC-32C of all tensors in the order of their names: each its name, type, shape and bytes.
    pub(super) fn crc32c(&self) -> u32 {
        let mut checksum = 0;
        for (name, tensor) in &self.tensors {
            let head = format!("{name}\n{} {:?}\n", tensor.dtype, tensor.shape);
            checksum = crc32c::crc32c_append(checksum, head.as_bytes());
            let file = &self.shards[tensor.shard].file;
            for start in tensor.bytes.clone().step_by(RELEASE_BYTES) {
                let part = start..(start + RELEASE_BYTES).min(tensor.bytes.end);
                checksum = crc32c::crc32c_append(checksum, &file.bytes()[part.clone()]);
                file.release(part);
            }
        }
        checksum
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor, if there is one of this name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|tensor| tensor.shape.as_slice())
    }

    /// Checks that there is a tensor of this name and shape.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is absent or has another shape.
    pub fn expect(&self, name: &str, shape: &[usize]) -> Result<()> {
        self.find(name, shape).map(drop)
    }

    /// Reads a tensor in f32, row-major. The conversion is exact.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the tensor is absent, has another shape, or holds a NaN or an
    /// infinity.
    pub fn read_f32(&self, name: &str, expected_shape: &[usize]) -> Result<Vec<f32>> {
        let tensor = self.find(name, expected_shape)?;
        let mut values = Vec::with_capacity(tensor.element_count());
        self.read_blocks(name, tensor, READ_BLOCK, |_, block| values.extend_from_slice(block))?;
        Ok(values)
    }

    /// Reads a tensor in f32, `rows_per_call` rows at a time, so that it can be packed without a
    /// second full copy. A row is one index of the first dimension; `consume` gets the number of
    /// the first row and `[rows, shape[1..]]` values, in order, the last time perhaps fewer rows.
    ///
    /// # Errors
    /// As [`Self::read_f32`]; `consume` may by then have seen the rows before the defect.
    pub fn read_rows(
        &self,
        name: &str,
        expected_shape: &[usize],
        rows_per_call: usize,
        mut consume: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        let tensor = self.find(name, expected_shape)?;
        let rows = tensor.shape.first().map_or(1, |&rows| rows.max(1));
        let row_size = (tensor.element_count() / rows).max(1);
        let block_size = rows_per_call.clamp(1, rows) * row_size;
        self.read_blocks(name, tensor, block_size, |start, values| {
            consume(start / row_size, values);
        })
    }

    /// Whether two tensors of this shape hold the same numbers.
    ///
    /// # Errors
    /// As [`Self::read_f32`].
    pub(crate) fn same_values(&self, a: &str, b: &str, shape: &[usize]) -> Result<bool> {
        let other = self.find(b, shape)?;
        let (mut same, mut others) = (true, Vec::new());
        self.read_blocks(a, self.find(a, shape)?, READ_BLOCK, |start, block| {
            self.convert(other, start..start + block.len(), &mut others);
            same &= others == block;
        })?;
        Ok(same)
    }

    /// The tensors outside of `taken`, without constants that old exports contain.
    pub fn unused<'a>(&self, taken: impl IntoIterator<Item = &'a str>) -> Vec<&str> {
        let taken: HashSet<&str> = taken.into_iter().collect();
        self.names().filter(|name| !taken.contains(name) && !is_derived_constant(name)).collect()
    }

    fn find(&self, name: &str, expected_shape: &[usize]) -> Result<&Location> {
        let Some(tensor) = self.tensors.get(name) else {
            let path = if let [only] = &self.shards[..] { &only.path } else { &self.dir };
            return Err(Error::invalid(path, format!("holds no tensor {name}")));
        };
        if tensor.shape != expected_shape {
            let what =
                format!("tensor {name} has shape {:?}, not {expected_shape:?}", tensor.shape);
            return Err(Error::invalid(&self.shards[tensor.shard].path, what));
        }
        if tensor.dtype == Dtype::F8_E4M3 && tensor.scales.is_none() {
            let what = format!(
                "tensor {name} has type {}, and config.json has no quantization_config that says \
                 how it is scaled",
                tensor.dtype
            );
            return Err(Error::unsupported(&self.shards[tensor.shard].path, what));
        }
        Ok(tensor)
    }

    /// Sets `values` to some elements of a tensor. Returns their bytes in the file.
    fn convert(
        &self,
        tensor: &Location,
        elements: Range<usize>,
        values: &mut Vec<f32>,
    ) -> Range<usize> {
        let (first, size) = (tensor.bytes.start, tensor.element_bytes());
        let bytes = first + elements.start * size..first + elements.end * size;
        values.clear();
        append_f32(&self.shards[tensor.shard].file.bytes()[bytes.clone()], tensor.dtype, values);
        if let Some(scales) = &tensor.scales {
            scales.apply(elements.start, values);
        }
        bytes
    }

    /// Calls `consume(start, values)` with blocks of `block_size` values; `start` is the index of
    /// the first.
    fn read_blocks(
        &self,
        name: &str,
        tensor: &Location,
        block_size: usize,
        mut consume: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        let Shard { path, file } = &self.shards[tensor.shard];
        let total = tensor.element_count();
        let mut block = Vec::with_capacity(block_size.min(total));
        let mut released = tensor.bytes.start;
        for start in (0..total).step_by(block_size) {
            let end = (start + block_size).min(total);
            let bytes = self.convert(tensor, start..end, &mut block);
            if bytes.end - released >= RELEASE_BYTES || end == total {
                file.release(released..bytes.end);
                released = bytes.end;
            }
            if let Some(offset) = first_non_finite(&block) {
                let what =
                    format!("tensor {name} is {} at index {}", block[offset], start + offset);
                return Err(Error::invalid(path, what));
            }
            consume(start, &block);
        }
        Ok(())
    }

    /// Maps the file at `path` and adds its tensors; returns the number of the shard.
    fn add_shard(&mut self, path: &Path) -> Result<usize> {
        let file = MappedFile::open(path).map_err(|source| Error::io(path, source))?;
        let (data_start, infos) = read_header(path, file.bytes())?;
        let shard = self.shards.len();
        for (name, info) in infos {
            if !matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F8_E4M3) {
                let what = format!(
                    "tensor {name} has type {}; F32, F16, BF16 and F8_E4M3 are supported",
                    info.dtype
                );
                return Err(Error::unsupported(path, what));
            }
            if let Some(other) = self.tensors.get(&name) {
                let other = self.shards[other.shard].path.display();
                return Err(Error::invalid(path, format!("tensor {name} is also in {other}")));
            }
            let bytes = data_start + info.data_offsets.0..data_start + info.data_offsets.1;
            let TensorInfo { dtype, shape, .. } = info;
            let location = Location { shard, dtype, shape, bytes, scales: None };
            self.tensors.insert(name, location);
        }
        self.shards.push(Shard { path: path.to_owned(), file });
        Ok(shard)
    }

    fn add_indexed(&mut self, index_path: &Path) -> Result<()> {
        let index = json_file::read_object(index_path)?;
        let weight_map =
            index.get("weight_map").and_then(Value::as_object).filter(|map| !map.is_empty());
        let Some(weight_map) = weight_map else {
            return Err(Error::invalid(
                index_path,
                "weight_map is missing, empty or not an object",
            ));
        };
        let mut shard_names = BTreeSet::new();
        for (name, shard_name) in weight_map {
            // Only a plain name, so that an index cannot reach outside its directory.
            let plain = shard_name.as_str().filter(|shard_name| {
                shard_name.ends_with(".safetensors") && !shard_name.contains(['/', '\\', ':', '\0'])
            });
            let Some(plain) = plain else {
                let what = format!(
                    "weight_map places {name:?} in {shard_name}, not a safetensors file name"
                );
                return Err(Error::invalid(index_path, what));
            };
            shard_names.insert(plain);
        }
        let mut shards = BTreeMap::new();
        for shard_name in shard_names {
            let path = self.dir.join(shard_name);
            if !path.exists() {
                return Err(Error::invalid(
                    index_path,
                    format!("names the shard {shard_name}, which is absent"),
                ));
            }
            shards.insert(shard_name, self.add_shard(&path)?);
        }
        for (name, shard_name) in weight_map {
            let expected = shard_name.as_str().and_then(|shard_name| shards.get(shard_name));
            if self.tensors.get(name).map(|tensor| &tensor.shard) != expected {
                let what =
                    format!("weight_map places {name:?} in {shard_name}, which does not hold it");
                return Err(Error::invalid(index_path, what));
            }
        }
        Ok(())
    }
}

/// Parses the header of a safetensors file: the offset of the data, and the tensors by name. The
/// library checks that tensors have the size that shape and type require, and that they fill the
/// file without gaps or overlaps.
fn read_header(path: &Path, file: &[u8]) -> Result<(usize, BTreeMap<String, TensorInfo>)> {
    if file.starts_with(LFS_POINTER) {
        let what = "is a pointer of Git LFS, which stands for the file: fetch that with `git lfs \
                    pull`";
        return Err(Error::invalid(path, what));
    }
    let damaged = |why: String| {
        let what =
            format!("is not a whole safetensors file ({why}): copy, download or save it again");
        Error::invalid(path, what)
    };
    let claimed = file.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    if claimed > MAX_HEADER_BYTES {
        let why = format!("its first bytes claim a header of {claimed}, above {MAX_HEADER_BYTES}");
        return Err(damaged(why));
    }
    let (header_bytes, metadata) =
        SafeTensors::read_metadata(file).map_err(|error| damaged(error.to_string()))?;
    let infos = metadata.tensors().into_iter().map(|(name, info)| (name, info.clone()));
    Ok((HEADER_LENGTH_BYTES + header_bytes, infos.collect()))
}

/// Appends the values of little-endian `bytes`.
fn append_f32(bytes: &[u8], dtype: Dtype, values: &mut Vec<f32>) {
    let halves = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
    match dtype {
        Dtype::F16 => {
            let mut block = [f16::ZERO; CONVERSION_BLOCK];
            for bytes in bytes.chunks(2 * CONVERSION_BLOCK) {
                let block = &mut block[..bytes.len() / 2];
                for (half, bytes) in block.iter_mut().zip(bytes.chunks_exact(2)) {
                    *half = f16::from_bits(halves(bytes));
                }
                let start = values.len();
                values.resize(start + block.len(), 0.0);
                block.convert_to_f32_slice(&mut values[start..]);
            }
        }
        Dtype::BF16 => {
            values.extend(
                bytes.chunks_exact(2).map(|bytes| f32::from_bits(u32::from(halves(bytes)) << 16)),
            );
        }
        Dtype::F8_E4M3 => values.extend(bytes.iter().map(|&byte| stored::e4m3(byte))),
        // f32, the only other type that passes the checks.
        _ => values.extend(
            bytes
                .chunks_exact(4)
                .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        ),
    }
}

pub(super) fn first_non_finite(values: &[f32]) -> Option<usize> {
    // Without an early exit the first pass is vectorised.
    let all_finite = values.iter().fold(true, |all, value| all & value.is_finite());
    if all_finite { None } else { values.iter().position(|value| !value.is_finite()) }
}

/// Buffers of old versions of transformers, which follow from config.json.
fn is_derived_constant(name: &str) -> bool {
    [".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached"]
        .iter()
        .any(|suffix| name.ends_with(suffix))
}

/// The error that `dir` has no safetensors weights, with the reason: `lacks`, or others instead.
fn explain_absence(dir: &Path, lacks: &str) -> Error {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(source) => return Error::io(dir, source),
    };
    let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.file_name().into()).collect();
    names.sort();
    let with_extension = |extensions: &[&str]| {
        let of_kind =
            |name: &&PathBuf| name.extension().is_some_and(|e| extensions.iter().any(|&x| e == x));
        names.iter().find(of_kind).map(|name| name.display().to_string())
    };
    if let Some(name) = with_extension(&["bin", "pth", "pt"]) {
        let what = format!("has pickled weights only ({name}); convert them to safetensors");
        return Error::unsupported(dir, what);
    }
    Error::invalid(dir, format!("has {lacks}"))
}

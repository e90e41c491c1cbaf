//! Check of a parquet file's schema before the parquet crate parses it: the crate recurses as deep
//! as the schema and keeps the whole path of every column.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::thrift::{Kind, Reader};

/// Largest footer, in bytes.
const MAX_FOOTER: u64 = 64 << 20;
/// Deepest nesting of columns.
const MAX_DEPTH: usize = 64;
/// Most bytes of the paths of all columns together.
const MAX_PATHS: u64 = 16 << 20;

/// Refuses a schema that is nested too deeply or has too long paths.
pub(super) fn check_footer(file: &File) -> Result<(), String> {
    let damaged = || "its end is not that of a parquet file".to_owned();
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let end =
        bytes_at(file, len.checked_sub(8).ok_or_else(damaged)?, 8).map_err(|e| e.to_string())?;
    let (size, magic) = end.split_at(end.len().min(4));
    if magic != b"PAR1" {
        return Err(damaged());
    }
    let size = u64::from(u32::from_le_bytes(size.try_into().map_err(|_| damaged())?));
    if size > MAX_FOOTER {
        return Err(format!("it describes itself in {} MiB", size >> 20));
    }
    let from = (len - 8).checked_sub(size).ok_or_else(damaged)?;
    let footer = bytes_at(file, from, size).map_err(|e| e.to_string())?;
    let mut schema = Schema::default();
    let read = Reader::new(&footer).fields(&mut |reader, id, kind| {
        if (id, kind == Kind::LIST) != (2, true) {
            return Some(false);
        }
        schema = Schema::read(reader)?;
        Some(true)
    });
    match read {
        None => Err("its description is damaged".into()),
        Some(()) if schema.depth > MAX_DEPTH => {
            Err(format!("its columns are nested more than {MAX_DEPTH} deep"))
        }
        Some(()) if schema.paths > MAX_PATHS => {
            Err(format!("the names of its columns come to {} MiB", schema.paths >> 20))
        }
        Some(()) => Ok(()),
    }
}

/// Size of a schema once parsed.
#[derive(Default)]
struct Schema {
    /// Nesting of its elements, not counted beyond the limit.
    depth: usize,
    /// Bytes of the paths of all elements. A path repeats the names above it.
    paths: u64,
}

impl Schema {
    /// Reads the elements. Each stands before its children.
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (_, elements) = reader.list()?;
        // Open elements: children still to come, and bytes of the path.
        let mut open: Vec<(i64, u64)> = Vec::new();
        let mut schema = Self::default();
        for _ in 0..elements {
            let (mut children, mut path) = (0, 0);
            reader.fields(&mut |reader, id, kind| {
                match id {
                    4 if kind == Kind::BYTES => path = reader.bytes()?,
                    5 if kind == Kind::I32 => children = reader.integer()?,
                    _ => return Some(false),
                }
                Some(true)
            })?;
            if let Some((left, above)) = open.last_mut() {
                *left -= 1;
                path += *above;
            }
            schema.paths = schema.paths.saturating_add(path);
            open.push((children, path));
            while open.last().is_some_and(|&(left, _)| left <= 0) {
                open.pop();
            }
            schema.depth = schema.depth.max(open.len());
            if schema.depth > MAX_DEPTH {
                open.truncate(MAX_DEPTH + 1); // the elements still have to be passed over
            }
        }
        Some(schema)
    }
}

/// Reads at most `len` bytes at offset `at`.
pub(super) fn bytes_at(mut file: &File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

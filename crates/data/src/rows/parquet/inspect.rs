//! What a parquet file says of itself, looked at before any of it is unpacked: the reader of the format makes room for as
//! much as a page claims, and descends as deep as the schema does.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::thrift::{Kind, Reader};

/// Largest description of a file, in bytes.
const MAX_FOOTER: u64 = 64 << 20;
/// Deepest nesting of columns.
const MAX_DEPTH: usize = 64;
/// Largest page whatever it is packed into, and how many times its packed bytes a larger one may have.
const PAGE_ALWAYS: u64 = 32 << 20;
const PAGE_PER_BYTE: u64 = 100;
/// Largest page of all, in bytes.
const MAX_PAGE: u64 = 1 << 30;
/// Rows of any file, and how many more a byte of it may stand for.
const ROWS_ALWAYS: u64 = 1 << 20;
const ROWS_PER_BYTE: u64 = 8;
/// Values of a column of lists in a row group, and how many more a byte of it may stand for.
const VALUES_ALWAYS: u64 = 1 << 22;
const VALUES_PER_BYTE: u64 = 64;
/// Longest description of a page, in bytes.
const MAX_HEADER: u64 = 32 << 20;

/// Refuses a schema that is nested too deeply to be read.
pub(super) fn check_footer(file: &File) -> Result<(), String> {
    let damaged = || "its end is not that of a parquet file".to_owned();
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let end = bytes_at(file, len.checked_sub(8).ok_or_else(damaged)?, 8).map_err(|e| e.to_string())?;
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
    let mut depth = 0;
    let read = Reader::new(&footer).fields(&mut |reader, id, kind| {
        if (id, kind == Kind::LIST) != (2, true) {
            return Some(false);
        }
        depth = schema_depth(reader)?;
        Some(true)
    });
    match read {
        None => Err("its description is damaged".into()),
        Some(()) if depth > MAX_DEPTH => Err(format!("its columns are nested more than {MAX_DEPTH} deep")),
        Some(()) => Ok(()),
    }
}

/// How deep the elements of a schema are nested, which are listed each before its children; beyond the limit not counted on.
fn schema_depth(reader: &mut Reader<'_>) -> Option<usize> {
    let (_, elements) = reader.list()?;
    // How many children of each open element are still to come.
    let mut open: Vec<i64> = Vec::new();
    let mut deepest = 0;
    for _ in 0..elements {
        let mut children = 0;
        reader.fields(&mut |reader, id, kind| {
            if (id, kind == Kind::I32) != (5, true) {
                return Some(false);
            }
            children = reader.integer()?;
            Some(true)
        })?;
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        open.push(children);
        while open.last().is_some_and(|&left| left <= 0) {
            open.pop();
        }
        deepest = deepest.max(open.len());
        if deepest > MAX_DEPTH {
            open.truncate(MAX_DEPTH + 1); // the elements still have to be passed over
        }
    }
    Some(deepest)
}

/// Refuses more rows than so few bytes can hold, and pages that unfold into more than data does. `columns` are the leaves that
/// will be read.
pub(super) fn check_contents(
    file: &File,
    metadata: &ParquetMetaData,
    columns: &[usize],
) -> Result<(), String> {
    let bytes = file.metadata().map_err(|e| e.to_string())?.len();
    let rows = metadata
        .row_groups()
        .iter()
        .fold(0u64, |rows, group| rows.saturating_add(u64::try_from(group.num_rows()).unwrap_or(u64::MAX)));
    if rows > ROWS_ALWAYS.max(bytes.saturating_mul(ROWS_PER_BYTE)) {
        return Err(format!("it claims {rows} rows in {bytes} bytes, which no data set does"));
    }
    for group in metadata.row_groups() {
        for &column in columns {
            check_column(file, group.columns().get(column).ok_or("a row group lacks a column")?)?;
        }
    }
    Ok(())
}

/// A page, as its header describes it.
#[derive(Default)]
struct Page {
    header: u64,
    unpacked: i64,
    packed: i64,
    values: i64,
    is_dictionary: bool,
}

fn check_column(file: &File, column: &ColumnChunkMetaData) -> Result<(), String> {
    let name = column.column_path().string();
    let damaged = || format!("the pages of column {name} are damaged");
    let number = |x: i64| u64::try_from(x).map_err(|_| damaged());
    let mut at = number(column.dictionary_page_offset().unwrap_or(column.data_page_offset()))?;
    let mut left = number(column.compressed_size())?;
    let packed = left;
    let mut values = 0u64;
    while left > 0 {
        let page = page_at(file, at, left).map_err(|e| e.to_string())?.ok_or_else(damaged)?;
        let size = number(page.packed)?;
        let unpacked = number(page.unpacked)?;
        if unpacked > MAX_PAGE.min(PAGE_ALWAYS.max(size.saturating_mul(PAGE_PER_BYTE))) {
            return Err(format!(
                "a page of column {name} unfolds from {size} bytes into {} MiB, which no data set does",
                unpacked >> 20
            ));
        }
        if page.is_dictionary {
            // A value takes at least a bit.
            if number(page.values)? > unpacked.saturating_mul(8) {
                return Err(damaged());
            }
        } else {
            values = values.saturating_add(number(page.values)?);
        }
        let whole = page.header.checked_add(size).filter(|&whole| whole <= left).ok_or_else(damaged)?;
        (at, left) = (at.saturating_add(whole), left - whole);
    }
    let most = match column.column_descr().max_rep_level() {
        0 => u64::MAX, // as many as rows
        _ => VALUES_ALWAYS.max(packed.saturating_mul(VALUES_PER_BYTE)),
    };
    if values > most {
        return Err(format!("the lists of column {name} have {values} values in {packed} bytes"));
    }
    Ok(())
}

/// The page at a place, before which at most `left` bytes are the column's; nothing where there is none.
fn page_at(file: &File, at: u64, left: u64) -> io::Result<Option<Page>> {
    let mut room = 1 << 10;
    loop {
        let bytes = bytes_at(file, at, room.min(left))?;
        if let Some(page) = page(&bytes) {
            return Ok(Some(page));
        }
        // A header holds the least and the greatest value, which may be long.
        if bytes.len() as u64 >= left || room >= MAX_HEADER || (bytes.len() as u64) < room {
            return Ok(None);
        }
        room *= 32;
    }
}

/// Reads a page's header: its type, its sizes, and in a struct of its type's own the number of its values.
fn page(bytes: &[u8]) -> Option<Page> {
    let mut page = Page::default();
    let mut reader = Reader::new(bytes);
    reader.fields(&mut |reader, id, kind| {
        match id {
            2 if kind == Kind::I32 => page.unpacked = reader.integer()?,
            3 if kind == Kind::I32 => page.packed = reader.integer()?,
            5 | 7 | 8 if kind == Kind::STRUCT => {
                page.is_dictionary = id == 7;
                reader.fields(&mut |reader, id, kind| {
                    if (id, kind == Kind::I32) != (1, true) {
                        return Some(false);
                    }
                    page.values = reader.integer()?;
                    Some(true)
                })?;
            }
            _ => return Some(false),
        }
        Some(true)
    })?;
    page.header = reader.position() as u64;
    Some(page)
}

/// At most `len` bytes from a place on.
fn bytes_at(mut file: &File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

//! Check of the page headers of a parquet file before any page is unpacked, because the parquet
//! crate allocates whatever they claim. Limits hold for all columns read together, as each page and
//! each column alone can be small.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use ::parquet::basic::{Compression, Type};
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use flate2::read::MultiGzDecoder;

use super::super::limits::{allowance, unfolds};
use super::footer::bytes_at;
use super::thrift::{Kind, Reader};

/// Largest unpacked page, and the ratio to its packed bytes that a larger page may have.
const PAGE_ALWAYS: u64 = 32 << 20;
const PAGE_PER_BYTE: u64 = 100;
/// Largest page of all, in bytes.
const MAX_PAGE: u64 = 1 << 30;
/// Largest packed page of the old LZ4. It does not tell its unpacked size, up to 255 times as much.
const MAX_LZ4: u64 = 4 << 20;
/// Rows that any file may have, and rows per byte of a larger one.
const ROWS_ALWAYS: u64 = 1 << 20;
const ROWS_PER_BYTE: u64 = 8;
/// Values of all columns.
const VALUES_ALWAYS: u64 = 1 << 24;
const VALUES_PER_BYTE: u64 = 64;
/// Values of list columns, which may all be in one row.
const ITEMS_ALWAYS: u64 = 1 << 20;
const ITEMS_PER_BYTE: u64 = 8;
/// Entries of a dictionary, and entries per byte of a larger page.
const ENTRIES_ALWAYS: u64 = 1 << 20;
const ENTRIES_PER_BYTE: u64 = 2;
/// Longest header of a page, in bytes.
const MAX_HEADER: u64 = 32 << 20;

/// Refuses a file that claims more rows, values or unpacked bytes than real data has. `columns` are
/// the leaves to read; returns those that cannot be read, with the reason.
pub(super) fn check_contents(
    file: &File,
    metadata: &ParquetMetaData,
    columns: &[usize],
) -> Result<Vec<(usize, String)>, String> {
    let bytes = file.metadata().map_err(|e| e.to_string())?.len();
    let rows = metadata.row_groups().iter().fold(0u64, |rows, group| {
        rows.saturating_add(u64::try_from(group.num_rows()).unwrap_or(u64::MAX))
    });
    if rows > ROWS_ALWAYS.max(bytes.saturating_mul(ROWS_PER_BYTE)) {
        return Err(format!("it claims {rows} rows in {bytes} bytes, which no data set does"));
    }
    let mut totals = Totals { file, bytes, packed: 0, unpacked: 0, values: 0, items: 0 };
    let mut unread: Vec<(usize, String)> = Vec::new();
    for group in metadata.row_groups() {
        for &column in columns {
            if unread.iter().any(|(leaf, _)| *leaf == column) {
                continue;
            }
            let problem =
                totals.add(group.columns().get(column).ok_or("a row group lacks a column")?)?;
            unread.extend(problem.map(|problem| (column, problem)));
        }
    }
    Ok(unread)
}

/// Sums over the pages checked so far.
struct Totals<'a> {
    file: &'a File,
    bytes: u64,
    packed: u64,
    unpacked: u64,
    values: u64,
    /// Values of list columns.
    items: u64,
}

impl Totals<'_> {
    /// Adds the pages of a column in a row group. Returns the reason if only this column cannot be
    /// read.
    fn add(&mut self, column: &ColumnChunkMetaData) -> Result<Option<String>, String> {
        let name = column.column_path().string();
        let damaged = || format!("the pages of column {name} are damaged");
        let number = |x: i64| u64::try_from(x).map_err(|_| damaged());
        let mut at = number(column.dictionary_page_offset().unwrap_or(column.data_page_offset()))?;
        let mut left = number(column.compressed_size())?;
        self.packed = self.packed.saturating_add(left);
        if self.packed > self.bytes {
            return Err("its columns claim more bytes than it has".into());
        }
        while left > 0 {
            let page =
                page_at(self.file, at, left).map_err(|e| e.to_string())?.ok_or_else(damaged)?;
            let size = number(page.packed)?;
            let whole =
                page.header.checked_add(size).filter(|&whole| whole <= left).ok_or_else(damaged)?;
            let unpacked = number(page.unpacked)?;
            if unpacked > MAX_PAGE.min(PAGE_ALWAYS.max(size.saturating_mul(PAGE_PER_BYTE))) {
                return Err(format!(
                    "a page of column {name} unfolds from {size} bytes into {} MiB, which no data \
                     set does",
                    unpacked >> 20
                ));
            }
            self.unpacked = self.unpacked.saturating_add(unpacked);
            if self.unpacked > allowance(self.bytes) {
                return Err(unfolds(self.bytes));
            }
            if page.kind != Page::DICTIONARY
                && let Some(problem) = refused_encoding(&name, page.content.encoding)
            {
                return Ok(Some(problem));
            }
            self.check_unpacked_size(column, &page, at.saturating_add(page.header))?;
            let values = number(page.content.values)?;
            match page.kind {
                Page::DICTIONARY => check_dictionary(column, values, size, unpacked)?,
                _ => self.add_values(column, values)?,
            }
            (at, left) = (at.saturating_add(whole), left - whole);
        }
        Ok(None)
    }

    fn add_values(&mut self, column: &ColumnChunkMetaData, values: u64) -> Result<(), String> {
        let name = column.column_path().string();
        self.values = self.values.saturating_add(values);
        if column.column_descr().max_rep_level() > 0 {
            self.items = self.items.saturating_add(values);
        }
        let bytes = self.bytes;
        if self.items > ITEMS_ALWAYS.max(bytes.saturating_mul(ITEMS_PER_BYTE)) {
            let items = self.items;
            return Err(format!(
                "its lists, with column {name}, have {items} values in {bytes} bytes, which no \
                 data set does"
            ));
        }
        if self.values > VALUES_ALWAYS.max(bytes.saturating_mul(VALUES_PER_BYTE)) {
            let values = self.values;
            return Err(format!(
                "its columns, with {name}, have {values} values in {bytes} bytes, which no data \
                 set does"
            ));
        }
        Ok(())
    }

    /// Refuses a page that may unpack to more than it claims, if the crate would find out too late.
    fn check_unpacked_size(
        &self,
        column: &ColumnChunkMetaData,
        page: &Page,
        at: u64,
    ) -> Result<(), String> {
        let name = column.column_path().string();
        let plain = page.content.plain;
        let packed = u64::try_from(page.packed).unwrap_or(0).saturating_sub(plain);
        match column.compression() {
            Compression::GZIP(_) if page.content.is_packed => {
                let claimed = u64::try_from(page.unpacked).unwrap_or(0).saturating_sub(plain);
                let mut file = self.file;
                file.seek(SeekFrom::Start(at.saturating_add(plain))).map_err(|e| e.to_string())?;
                let mut unpacked = MultiGzDecoder::new(file.take(packed)).take(claimed + 1);
                // Reading the page will report damage.
                let size = io::copy(&mut unpacked, &mut io::sink()).unwrap_or(0);
                if size > claimed {
                    return Err(format!(
                        "a page of column {name} unfolds into more than it claims"
                    ));
                }
            }
            Compression::LZ4 if packed > MAX_LZ4 => {
                return Err(format!(
                    "a page of column {name} has {} MiB of the old LZ4; write the file again with \
                     another compression, such as \
                     zstd",
                    packed >> 20
                ));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The reason why an encoding is not read. With these encodings the crate allocates the number of
/// values that the page's content claims.
fn refused_encoding(column: &str, encoding: i64) -> Option<String> {
    let encoding = match encoding {
        6 => "DELTA_LENGTH_BYTE_ARRAY",
        7 => "DELTA_BYTE_ARRAY",
        _ => return None,
    };
    Some(format!(
        "column {column} has the encoding {encoding}, which is not read; write the file again \
         without it (pandas and pyarrow do \
         by themselves; with DuckDB, PARQUET_VERSION V1)"
    ))
}

/// Refuses a dictionary with more entries than its page can hold.
fn check_dictionary(
    column: &ColumnChunkMetaData,
    values: u64,
    packed: u64,
    unpacked: u64,
) -> Result<(), String> {
    let least = match column.column_descr().physical_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4, // texts begin with their length
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => {
            u64::try_from(column.column_descr().type_length()).unwrap_or(0).max(1)
        }
    };
    if values > unpacked / least
        || values > ENTRIES_ALWAYS.max(packed.saturating_mul(ENTRIES_PER_BYTE))
    {
        let name = column.column_path().string();
        return Err(format!(
            "the dictionary of column {name} claims {values} values in {packed} bytes"
        ));
    }
    Ok(())
}

/// Header of a page.
#[derive(Default)]
struct Page {
    /// Bytes of the header.
    header: u64,
    kind: i64,
    unpacked: i64,
    packed: i64,
    content: Content,
}

impl Page {
    const DICTIONARY: i64 = 2;
}

/// The part of the header for the page's type.
#[derive(Clone, Copy, Default)]
struct Content {
    values: i64,
    encoding: i64,
    /// Unpacked bytes at the start, and whether the others are packed.
    plain: u64,
    is_packed: bool,
}

impl Content {
    /// Reads the struct of field `of` in a page's header: 5 for data, 7 for a dictionary, 8 for
    /// data of version 2.
    fn read(reader: &mut Reader<'_>, of: i64) -> Option<Self> {
        let mut content = Self { is_packed: true, ..Self::default() };
        let (encoding, levels) = if of == 8 { (4, 5..=6) } else { (2, 0..=0) };
        reader.fields(&mut |reader, id, kind| {
            match id {
                1 if kind == Kind::I32 => content.values = reader.integer()?,
                7 if of == 8 && kind == Kind::FALSE => {
                    content.is_packed = false;
                    return Some(false);
                }
                id if id == encoding && kind == Kind::I32 => content.encoding = reader.integer()?,
                id if levels.contains(&id) && kind == Kind::I32 => {
                    let bytes = u64::try_from(reader.integer()?).ok()?;
                    content.plain = content.plain.saturating_add(bytes);
                }
                _ => return Some(false),
            }
            Some(true)
        })?;
        Some(content)
    }
}

/// Reads the header at offset `at` of a column with `left` more bytes; None if there is no header.
fn page_at(file: &File, at: u64, left: u64) -> io::Result<Option<Page>> {
    let mut room = 1 << 10;
    loop {
        let bytes = bytes_at(file, at, room.min(left))?;
        if let Some(page) = page(&bytes) {
            return Ok(Some(page));
        }
        // A header may be long, as it holds the least and the greatest value.
        if bytes.len() as u64 >= left || room >= MAX_HEADER || (bytes.len() as u64) < room {
            return Ok(None);
        }
        room *= 32;
    }
}

/// Parses a page's header: type, sizes, and the struct of that type.
fn page(bytes: &[u8]) -> Option<Page> {
    let mut page = Page::default();
    // Indexed by type. Index pages (1) have no such struct.
    let mut contents = [None; 4];
    let mut reader = Reader::new(bytes);
    reader.fields(&mut |reader, id, kind| {
        let kind_of_page = match id {
            5 => 0,
            7 => 2,
            _ => 3,
        };
        match id {
            1 if kind == Kind::I32 => page.kind = reader.integer()?,
            2 if kind == Kind::I32 => page.unpacked = reader.integer()?,
            3 if kind == Kind::I32 => page.packed = reader.integer()?,
            5 | 7 | 8 if kind == Kind::STRUCT => {
                contents[kind_of_page] = Some(Content::read(reader, id)?);
            }
            _ => return Some(false),
        }
        Some(true)
    })?;
    let content = contents.get(usize::try_from(page.kind).ok()?)?.unwrap_or_default();
    // The crate reads the structs of other types too.
    if contents.iter().flatten().count() > 1 {
        return None;
    }
    page.content = content;
    page.header = reader.position() as u64;
    Some(page)
}

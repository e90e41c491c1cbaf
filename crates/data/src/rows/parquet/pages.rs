//! What the pages of a parquet file claim to hold, looked at before any of them is unpacked: the reader of the format makes room
//! for whatever they claim. Every limit holds for all that is read of the file, as each page and each column alone can be small.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use ::parquet::basic::{Compression, Type};
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use flate2::read::MultiGzDecoder;

use super::super::limits::{allowance, unfolds};
use super::footer::bytes_at;
use super::thrift::{Kind, Reader};

/// Largest page whatever it is packed into, and how many times its packed bytes a larger one may have.
const PAGE_ALWAYS: u64 = 32 << 20;
const PAGE_PER_BYTE: u64 = 100;
/// Largest page of all, in bytes.
const MAX_PAGE: u64 = 1 << 30;
/// Largest packed page of the old LZ4, of which only the unpacking tells how much it unfolds into: 255 times as much.
const MAX_LZ4: u64 = 4 << 20;
/// Rows of any file, and how many more a byte of it may stand for.
const ROWS_ALWAYS: u64 = 1 << 20;
const ROWS_PER_BYTE: u64 = 8;
/// Values of all columns.
const VALUES_ALWAYS: u64 = 1 << 24;
const VALUES_PER_BYTE: u64 = 64;
/// Values of the columns of lists, which may all be in one row.
const ITEMS_ALWAYS: u64 = 1 << 20;
const ITEMS_PER_BYTE: u64 = 8;
/// Values of a dictionary, which are different ones, and how many more a byte of its page may stand for.
const ENTRIES_ALWAYS: u64 = 1 << 20;
const ENTRIES_PER_BYTE: u64 = 2;
/// Longest description of a page, in bytes.
const MAX_HEADER: u64 = 32 << 20;

/// Refuses more rows and values than so few bytes can hold, and pages that unfold into more than data does. `columns` are the
/// leaves that are to be read; returned are those of them that cannot be, and why.
pub(super) fn check_contents(
    file: &File,
    metadata: &ParquetMetaData,
    columns: &[usize],
) -> Result<Vec<(usize, String)>, String> {
    let bytes = file.metadata().map_err(|e| e.to_string())?.len();
    let rows = metadata
        .row_groups()
        .iter()
        .fold(0u64, |rows, group| rows.saturating_add(u64::try_from(group.num_rows()).unwrap_or(u64::MAX)));
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
            let problem = totals.add(group.columns().get(column).ok_or("a row group lacks a column")?)?;
            unread.extend(problem.map(|problem| (column, problem)));
        }
    }
    Ok(unread)
}

/// What the pages looked at so far come to.
struct Totals<'a> {
    file: &'a File,
    bytes: u64,
    packed: u64,
    unpacked: u64,
    values: u64,
    /// Those among the values that are of lists.
    items: u64,
}

impl Totals<'_> {
    /// Looks at the pages of a column in a row group; returns why it cannot be read, where that is no harm to the others.
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
            let page = page_at(self.file, at, left).map_err(|e| e.to_string())?.ok_or_else(damaged)?;
            let size = number(page.packed)?;
            let whole = page.header.checked_add(size).filter(|&whole| whole <= left).ok_or_else(damaged)?;
            let unpacked = number(page.unpacked)?;
            if unpacked > MAX_PAGE.min(PAGE_ALWAYS.max(size.saturating_mul(PAGE_PER_BYTE))) {
                return Err(format!(
                    "a page of column {name} unfolds from {size} bytes into {} MiB, which no data set does",
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
                "its lists, with column {name}, have {items} values in {bytes} bytes, which no data set does"
            ));
        }
        if self.values > VALUES_ALWAYS.max(bytes.saturating_mul(VALUES_PER_BYTE)) {
            let values = self.values;
            return Err(format!(
                "its columns, with {name}, have {values} values in {bytes} bytes, which no data set does"
            ));
        }
        Ok(())
    }

    /// Refuses a page that does not keep to the size that it claims, where the reader finds that out only once it is unpacked.
    fn check_unpacked_size(&self, column: &ColumnChunkMetaData, page: &Page, at: u64) -> Result<(), String> {
        let name = column.column_path().string();
        let plain = page.content.plain;
        let packed = u64::try_from(page.packed).unwrap_or(0).saturating_sub(plain);
        match column.compression() {
            Compression::GZIP(_) if page.content.is_packed => {
                let claimed = u64::try_from(page.unpacked).unwrap_or(0).saturating_sub(plain);
                let mut file = self.file;
                file.seek(SeekFrom::Start(at.saturating_add(plain))).map_err(|e| e.to_string())?;
                let mut unpacked = MultiGzDecoder::new(file.take(packed)).take(claimed + 1);
                // A damaged page is told of when it is read.
                let size = io::copy(&mut unpacked, &mut io::sink()).unwrap_or(0);
                if size > claimed {
                    return Err(format!("a page of column {name} unfolds into more than it claims"));
                }
            }
            Compression::LZ4 if packed > MAX_LZ4 => {
                return Err(format!(
                    "a page of column {name} has {} MiB of the old LZ4; write the file again with another compression, such as \
                     zstd",
                    packed >> 20
                ));
            }
            _ => {}
        }
        Ok(())
    }
}

/// That a column has an encoding that is not read. Of these, the reader makes room for as many values as stand inside of the
/// page; of the other encodings, for as many as are asked for.
fn refused_encoding(column: &str, encoding: i64) -> Option<String> {
    let encoding = match encoding {
        6 => "DELTA_LENGTH_BYTE_ARRAY",
        7 => "DELTA_BYTE_ARRAY",
        _ => return None,
    };
    Some(format!(
        "column {column} has the encoding {encoding}, which is not read; write the file again without it (pandas and pyarrow do \
         by themselves; with DuckDB, PARQUET_VERSION V1)"
    ))
}

/// Refuses a dictionary of more values than its page can hold.
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
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.column_descr().type_length()).unwrap_or(0).max(1),
    };
    if values > unpacked / least || values > ENTRIES_ALWAYS.max(packed.saturating_mul(ENTRIES_PER_BYTE)) {
        let name = column.column_path().string();
        return Err(format!("the dictionary of column {name} claims {values} values in {packed} bytes"));
    }
    Ok(())
}

/// A page, as its header describes it.
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

/// What the header of the page's own type says.
#[derive(Clone, Copy, Default)]
struct Content {
    values: i64,
    encoding: i64,
    /// Bytes before those that are packed, and whether any are.
    plain: u64,
    is_packed: bool,
}

impl Content {
    /// Reads the struct of that field in a page's header: 5 of data, 7 of a dictionary, 8 of data in the second version.
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

/// Reads a page's header: its type, its sizes, and the struct of that type.
fn page(bytes: &[u8]) -> Option<Page> {
    let mut page = Page::default();
    // By type; pages of indices, 1, have nothing that is read.
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
            5 | 7 | 8 if kind == Kind::STRUCT => contents[kind_of_page] = Some(Content::read(reader, id)?),
            _ => return Some(false),
        }
        Some(true)
    })?;
    let content = contents.get(usize::try_from(page.kind).ok()?)?.unwrap_or_default();
    // The reader looks at those of other types, too.
    if contents.iter().flatten().count() > 1 {
        return None;
    }
    page.content = content;
    page.header = reader.position() as u64;
    Some(page)
}

//! Rows of parquet files.
//!
//! `footer.rs` and `pages.rs` check a file's claims before it is unpacked, because the parquet
//! crate allocates what they claim; `thrift.rs` reads them.

mod footer;
mod pages;
mod thrift;

use std::fs::File;
use std::sync::Arc;

use ::parquet::column::reader::get_typed_column_reader;
use ::parquet::data_type::ByteArrayType;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use ::parquet::record::reader::RowIter;
use ::parquet::schema::types::Type;
use isentrope_model::contain;
use serde_json::{Number, Value};

use super::Row;
use super::limits::{allowance, text_bytes, unfolds};
use footer::check_footer;
use pages::check_contents;

/// Longest message of the parquet crate to pass on, in characters. Some quote all bytes of a value.
const MAX_MESSAGE: usize = 200;

/// Records read at a time.
const RECORDS: usize = 1024;

/// Days and seconds from 1970 to the end of the year 9999. Dates must lie within that distance.
const LAST_DAY: u32 = 2_932_896;
const LAST_SECOND: u64 = 253_402_300_799;

/// Most decimal places of a decimal number.
const MAX_SCALE: i32 = 100;

/// The rows of a parquet file.
pub(super) struct ParquetRows {
    /// None if the file has none of the wanted columns.
    rows: Option<RowIter<'static>>,
    columns: Vec<String>,
    /// Columns that must be readable.
    wanted: Vec<String>,
    /// Defects of further columns that are not read at all, and of those not read in the latest
    /// row.
    unread: Vec<String>,
    unread_of_row: Vec<String>,
    /// Number of the latest row, from 1.
    pub(super) number: usize,
    /// Bytes of the file.
    bytes: u64,
    /// Bytes that the texts of further rows may have.
    left: u64,
}

impl ParquetRows {
    /// Opens a file to read the `wanted` columns and the `further` ones (None: all others).
    /// Unreadable further columns are null.
    pub(super) fn open(
        file: File,
        wanted: &[&str],
        further: Option<&[&str]>,
    ) -> Result<Self, String> {
        let bytes = file.metadata().map_err(|e| e.to_string())?.len();
        check_footer(&file)?;
        let again = file.try_clone().map_err(|e| e.to_string())?;
        let reader = guarded(|| SerializedFileReader::new(file))?;
        let schema = Arc::clone(&reader.metadata().file_metadata().schema_descr_ptr());
        let is_wanted = |name: &str| {
            wanted.contains(&name) || further.is_none_or(|further| further.contains(&name))
        };
        let root = schema.root_schema();
        let columns: Vec<String> =
            root.get_fields().iter().map(|field| field.name().to_owned()).collect();
        let column_of = |leaf: usize| schema.get_column_root(leaf).name();
        let leaves: Vec<usize> =
            (0..schema.num_columns()).filter(|&leaf| is_wanted(column_of(leaf))).collect();
        let unread = check_contents(&again, reader.metadata(), &leaves)?;
        if let Some((_, problem)) =
            unread.iter().find(|(leaf, _)| wanted.contains(&column_of(*leaf)))
        {
            return Err(problem.clone());
        }
        let is_read = |name: &str| {
            is_wanted(name) && !unread.iter().any(|(leaf, _)| column_of(*leaf) == name)
        };
        let leaves: Vec<usize> =
            leaves.into_iter().filter(|&leaf| is_read(column_of(leaf))).collect();
        let fields: Vec<_> = root
            .get_fields()
            .iter()
            .filter(|field| is_read(field.name()))
            .map(Arc::clone)
            .collect();
        let unread = unread.iter().map(|(_, problem)| problem.clone()).collect();
        let rows = if fields.is_empty() {
            None
        } else {
            check_lists(&reader, &leaves, bytes)?;
            let projection = Type::group_type_builder(root.name()).with_fields(fields).build();
            let projection = projection.map_err(|e| message(&e))?;
            Some(guarded(|| RowIter::from_file_into(Box::new(reader)).project(Some(projection)))?)
        };
        let left = allowance(bytes);
        let wanted = wanted.iter().map(|&name| name.to_owned()).collect();
        Ok(Self {
            rows,
            columns,
            wanted,
            unread,
            unread_of_row: Vec::new(),
            number: 0,
            bytes,
            left,
        })
    }

    /// The names of all columns.
    pub(super) fn columns(&self) -> impl Iterator<Item = String> {
        self.columns.iter().cloned()
    }

    /// Defects of the latest row's columns that were not read, as clauses.
    pub(super) fn unread(&self) -> impl Iterator<Item = &str> {
        self.unread.iter().chain(&self.unread_of_row).map(String::as_str)
    }

    /// Reads the next row. An inner error is the row's defect.
    pub(super) fn next(&mut self) -> Result<Option<Result<Row, String>>, String> {
        let Some(rows) = &mut self.rows else { return Ok(None) };
        let Some(row) = guarded(|| rows.next().transpose())? else { return Ok(None) };
        self.number += 1;
        self.unread_of_row.clear();
        let read = |(name, field): (String, Field)| match column(&name, field) {
            Ok(value) => Ok((name, value)),
            Err(problem) if self.wanted.contains(&name) => Err(problem),
            Err(problem) => {
                self.unread_of_row.push(problem);
                Ok((name, Value::Null))
            }
        };
        let row: Result<Row, String> = row.into_columns().into_iter().map(read).collect();
        let size: usize = row.as_ref().map_or(0, |row| row.values().map(text_bytes).sum());
        self.left = self.left.checked_sub(size as u64).ok_or_else(|| unfolds(self.bytes))?;
        Ok(Some(row))
    }
}

/// Refuses lists whose texts are too large together, because the crate makes a whole row at once,
/// even if it repeats a long text many times.
fn check_lists(
    reader: &SerializedFileReader<File>,
    leaves: &[usize],
    bytes: u64,
) -> Result<(), String> {
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut left = allowance(bytes);
    let is_list_of_texts = |leaf: usize| {
        let column = schema.column(leaf);
        column.max_rep_level() > 0 && column.physical_type() == ::parquet::basic::Type::BYTE_ARRAY
    };
    for group in 0..reader.num_row_groups() {
        let group = guarded(|| reader.get_row_group(group))?;
        for &leaf in leaves.iter().filter(|&&leaf| is_list_of_texts(leaf)) {
            let mut texts = get_typed_column_reader::<ByteArrayType>(guarded(|| {
                group.get_column_reader(leaf)
            })?);
            loop {
                let (mut values, mut definitions, mut repetitions) =
                    (Vec::new(), Vec::new(), Vec::new());
                let (records, ..) = guarded(|| {
                    texts.read_records(
                        RECORDS,
                        Some(&mut definitions),
                        Some(&mut repetitions),
                        &mut values,
                    )
                })?;
                if records == 0 {
                    break;
                }
                let size: u64 = values.iter().map(|text| text.len() as u64).sum();
                left = left.checked_sub(size).ok_or_else(|| unfolds(bytes))?;
            }
        }
    }
    Ok(())
}

/// Runs a step of reading. The parquet crate panics on unknown column types and on some damaged
/// files.
fn guarded<T>(step: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    contain(
        || step().map_err(|error| message(&error)),
        |_| "it is damaged, or a column that is read has an uncommon type".into(),
    )
}

fn message(error: &ParquetError) -> String {
    error.to_string().chars().take(MAX_MESSAGE).collect()
}

fn column(name: &str, field: Field) -> Result<Value, String> {
    value(field).map_err(|problem| format!("column {name} {problem}"))
}

/// Converts a field to JSON. An error is the defect of its type or content.
fn value(field: Field) -> Result<Value, String> {
    let float = |x| Number::from_f64(x).map_or(Value::Null, Value::Number);
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(x) => x.into(),
        Field::Byte(x) => x.into(),
        Field::Short(x) => x.into(),
        Field::Int(x) => x.into(),
        Field::Long(x) => x.into(),
        Field::UByte(x) => x.into(),
        Field::UShort(x) => x.into(),
        Field::UInt(x) => x.into(),
        Field::ULong(x) => x.into(),
        Field::Float16(x) => float(x.into()),
        Field::Float(x) => float(x.into()),
        Field::Double(x) => float(x),
        Field::Str(text) => text.into(),
        // Some writers do not mark their texts as such.
        Field::Bytes(bytes) => {
            std::str::from_utf8(bytes.data()).map_err(|_| "holds bytes that are not UTF-8")?.into()
        }
        Field::Group(row) => {
            let fields: Result<Row, String> = row
                .into_columns()
                .into_iter()
                .map(|(name, field)| column(&name, field).map(|value| (name, value)))
                .collect();
            Value::Object(fields?)
        }
        Field::ListInternal(list) => {
            Value::Array(list.elements().iter().cloned().map(value).collect::<Result<_, _>>()?)
        }
        Field::MapInternal(map) => {
            let entry = |(key, content): &(Field, Field)| match value(key.clone())? {
                Value::String(key) => Ok((key, value(content.clone())?)),
                _ => Err("holds a map whose keys are not texts".to_owned()),
            };
            Value::Object(map.entries().iter().map(entry).collect::<Result<_, _>>()?)
        }
        Field::Date(days) if days.unsigned_abs() > LAST_DAY => return Err(NO_DATE.into()),
        Field::TimestampMillis(time) if time.unsigned_abs() / 1_000 > LAST_SECOND => {
            return Err(NO_DATE.into());
        }
        Field::TimestampMicros(time) if time.unsigned_abs() / 1_000_000 > LAST_SECOND => {
            return Err(NO_DATE.into());
        }
        Field::Decimal(number) if !(0..=MAX_SCALE).contains(&number.scale()) => {
            return Err("holds a decimal number of too many digits".into());
        }
        // Dates, times and decimals, as the format's tools print them.
        other => guarded(|| Ok(other.to_string().into())).map_err(|_: String| {
            "holds a date, a time or a number that cannot be written".to_owned()
        })?,
    })
}

/// Defect of a date outside of the calendar.
const NO_DATE: &str = "holds a date beyond the year 9999";

//! Rows of parquet files.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use ::parquet::schema::types::Type;
use serde_json::{Number, Value};

use super::row::{EachRow, Row};

/// Longest message of the parquet reader that is passed on, in characters: some quote all the bytes of a value.
const MAX_MESSAGE: usize = 200;

/// Tells of every row, numbered from 1, with the `wanted` columns, and returns the names of all columns.
pub(super) fn read(
    file: File,
    name: &str,
    wanted: &[&str],
    each: &mut EachRow<'_>,
) -> Result<Vec<String>, String> {
    let reader = guarded(|| SerializedFileReader::new(file))?;
    let schema = reader.metadata().file_metadata().schema();
    let columns = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let fields: Vec<_> =
        schema.get_fields().iter().filter(|field| wanted.contains(&field.name())).map(Arc::clone).collect();
    if fields.is_empty() {
        return Ok(columns);
    }
    let projection = guarded(|| Type::group_type_builder(schema.name()).with_fields(fields).build())?;
    let mut number = 0;
    for group in 0..reader.num_row_groups() {
        let group = guarded(|| reader.get_row_group(group))?;
        let mut rows = guarded(|| group.get_row_iter(Some(projection.clone())))?;
        while let Some(row) = guarded(|| rows.next().transpose())? {
            number += 1;
            each(format!("{name} row {number}"), row.into_columns().into_iter().map(column).collect());
        }
    }
    Ok(columns)
}

/// Does a step of reading. The parquet reader panics on column types that it does not know, and on some damaged files.
fn guarded<T>(step: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(result) => result.map_err(|error| error.to_string().chars().take(MAX_MESSAGE).collect()),
        Err(_) => Err("it is damaged, or a column that is read has an uncommon type".into()),
    }
}

fn column((name, field): (String, Field)) -> Result<(String, Value), String> {
    let value = value(field).map_err(|problem| format!("column {name} {problem}"))?;
    Ok((name, value))
}

/// The field as JSON; an error is what is wrong with the field's type or content.
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
            let fields: Result<Row, String> = row.into_columns().into_iter().map(column).collect();
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
        // Dates, times and decimals, in the way that the format's tools print them.
        other => other.to_string().into(),
    })
}

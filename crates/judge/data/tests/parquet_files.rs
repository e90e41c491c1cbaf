//! Parquet files as any writer makes them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

/// Writes a file of one row group, whose columns `write` fills in order.
pub fn parquet(
    path: &Path,
    schema: &str,
    properties: WriterPropertiesBuilder,
    mut write: impl FnMut(usize, &mut SerializedColumnWriter<'_>),
) -> PathBuf {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut number = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        write(number, &mut column);
        column.close().unwrap();
        number += 1;
    }
    group.close().unwrap();
    writer.close().unwrap();
    path.to_owned()
}

/// Packed pages of any size.
pub fn large_pages() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_page_size_limit(usize::MAX)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(1 << 20)
}

/// Fills a column of texts.
pub fn texts(column: &mut SerializedColumnWriter<'_>, values: &[ByteArray]) {
    column.typed::<ByteArrayType>().write_batch(values, None, None).unwrap();
}

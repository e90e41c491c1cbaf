//! Formats of data files, by the endings of their names.

use std::path::Path;

use crate::{Error, Result};

/// Format of a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub(crate) form: Form,
    pub(crate) compression: Compression,
}

/// Encoding of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON lines.
    Lines,
    /// A JSON document: an array of rows, or an object that holds it.
    Document,
    /// A table of texts with this character between values: CSV and TSV.
    Separated(u8),
    /// Apache Parquet.
    Parquet,
}

/// Compression of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstandard,
}

/// The endings, for messages.
pub(crate) const ENDINGS: &str =
    ".parquet, .jsonl, .json, .csv or .tsv, all but the first also with .gz or .zst behind";

impl Format {
    /// Uncompressed JSON lines.
    pub(crate) const LINES: Self = Self { form: Form::Lines, compression: Compression::None };

    /// The format of a file of this name; letter case makes no difference.
    ///
    /// # Errors
    /// [`Error::File`] when the ending is of no format that is read.
    pub fn of(path: &Path) -> Result<Self> {
        let refused =
            || Error::file(path, format!("the name of a data file must end in {ENDINGS}"));
        Self::split(path).map(|(_, format)| format).ok_or_else(refused)
    }

    /// A file's name without the endings of its format.
    pub(crate) fn stem(path: &Path) -> String {
        match Self::split(path) {
            Some((stem, _)) => stem,
            None => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    fn split(path: &Path) -> Option<(String, Self)> {
        let name = path.file_name()?.to_string_lossy();
        let (name, compression) = match name.rsplit_once('.')? {
            (before, ending) if ending.eq_ignore_ascii_case("gz") => (before, Compression::Gzip),
            (before, ending) if ending.eq_ignore_ascii_case("zst") => {
                (before, Compression::Zstandard)
            }
            _ => (&*name, Compression::None),
        };
        let (stem, ending) = name.rsplit_once('.')?;
        let form = match ending.to_ascii_lowercase().as_str() {
            "jsonl" => Form::Lines,
            "json" => Form::Document,
            "csv" => Form::Separated(b','),
            "tsv" => Form::Separated(b'\t'),
            // Parquet compresses by itself.
            "parquet" if compression == Compression::None => Form::Parquet,
            _ => return None,
        };
        Some((stem.to_owned(), Self { form, compression }))
    }
}

/// The real format of a file with a wrong ending, by its first bytes.
pub(crate) fn disguise(beginning: &[u8]) -> Option<&'static str> {
    let magic: [(&[u8], &str); 4] = [
        (b"PAR1", "is a Parquet file: its name must end in .parquet"),
        (b"\x1f\x8b", "is a gzip file: its name must end in .jsonl.gz or .json.gz"),
        (b"\x28\xb5\x2f\xfd", "is a Zstandard file: its name must end in .jsonl.zst or .json.zst"),
        (b"PK\x03\x04", "is a ZIP file: unpack it"),
    ];
    magic.into_iter().find(|(bytes, _)| beginning.starts_with(bytes)).map(|(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_tells_the_format_and_the_rest_is_the_stem() {
        use Compression::{Gzip, None as Plain, Zstandard};
        for (name, stem, form, compression) in [
            ("a/b.jsonl", "b", Form::Lines, Plain),
            ("b.x.JSONL.GZ", "b.x", Form::Lines, Gzip),
            ("b.json", "b", Form::Document, Plain),
            ("b.json.zst", "b", Form::Document, Zstandard),
            ("b.CSV", "b", Form::Separated(b','), Plain),
            ("b.tsv.gz", "b", Form::Separated(b'\t'), Gzip),
            ("b.parquet", "b", Form::Parquet, Plain),
        ] {
            assert_eq!(Format::of(name.as_ref()).unwrap(), Format { form, compression }, "{name}");
            assert_eq!(Format::stem(name.as_ref()), stem);
        }
        for name in ["a", "a.xlsx", "a.gz", "a.parquet.gz", "a.jsonl.xz", "jsonl", ".."] {
            assert!(Format::of(name.as_ref()).is_err(), "{name}");
        }
        assert_eq!(Format::stem("c/a.xlsx".as_ref()), "a");
    }
}

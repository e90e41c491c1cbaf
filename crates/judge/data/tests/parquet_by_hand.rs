//! Parquet files with whatever claims a test wants, which no writer would write.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Codecs, as the format numbers them.
pub const PLAIN: i64 = 0;
pub const GZIP: i64 = 2;

/// A column of each row group. All groups claim the same bytes.
pub struct Column {
    pub path: Vec<String>,
    /// Type in the format: 1 for 32-bit integers, 6 for texts.
    pub kind: i64,
    pub codec: i64,
    pub values: i64,
    /// The dictionary page, possibly empty, and the data pages.
    pub dictionary: Vec<u8>,
    pub data: Vec<u8>,
}

/// A field of a struct in Thrift's compact protocol: its number, its type and its bytes.
type Field = (u8, u8, Vec<u8>);

pub fn int(id: u8, value: i64) -> Field {
    (id, 5, zigzag(value))
}

fn long(id: u8, value: i64) -> Field {
    (id, 6, zigzag(value))
}

pub fn name(id: u8, text: &str) -> Field {
    (id, 8, [&varint(text.len() as u64), text.as_bytes()].concat())
}

fn list(id: u8, kind: u8, items: &[Vec<u8>]) -> Field {
    (id, 9, [&[0xf0 | kind][..], &varint(items.len() as u64), &items.concat()].concat())
}

pub fn structure(fields: &[Field]) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::new(), 0);
    for (id, kind, value) in fields {
        bytes.push((id - last) << 4 | kind);
        bytes.extend(value);
        last = *id;
    }
    bytes.push(0);
    bytes
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn zigzag(value: i64) -> Vec<u8> {
    varint((value << 1 ^ value >> 63) as u64)
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A data page that claims `unpacked` bytes.
pub fn data_page(packed: &[u8], unpacked: usize, values: i64, encoding: i64) -> Vec<u8> {
    let of_type = structure(&[int(1, values), int(2, encoding), int(3, 3), int(4, 3)]);
    let header = structure(&[
        int(1, 0),
        int(2, unpacked as i64),
        int(3, packed.len() as i64),
        (5, 12, of_type),
    ]);
    [header, packed.to_vec()].concat()
}

/// A page of a dictionary.
pub fn dictionary_page(packed: &[u8], unpacked: usize, values: i64) -> Vec<u8> {
    let of_type = structure(&[int(1, values), int(2, 0)]);
    let header = structure(&[
        int(1, 2),
        int(2, unpacked as i64),
        int(3, packed.len() as i64),
        (7, 12, of_type),
    ]);
    [header, packed.to_vec()].concat()
}

/// A schema element: a group with this number of children.
pub fn group(called: &str, repetition: i64, children: usize) -> Vec<u8> {
    structure(&[int(3, repetition), name(4, called), int(5, children as i64)])
}

/// A schema element: a leaf. Repetition is 0 for required, 1 for optional, 2 for repeated.
pub fn leaf(called: &str, kind: i64, repetition: i64) -> Vec<u8> {
    structure(&[int(1, kind), int(3, repetition), name(4, called)])
}

/// A file with `groups` row groups of one row.
pub fn file(schema: &[Vec<u8>], columns: &[Column], groups: usize) -> Vec<u8> {
    let mut bytes = b"PAR1".to_vec();
    let mut described = Vec::new();
    for Column { path, kind, codec, values, dictionary, data } in columns {
        let (at, len) = (bytes.len() as i64, (dictionary.len() + data.len()) as i64);
        bytes.extend([&dictionary[..], data].concat());
        let path: Vec<Vec<u8>> = path.iter().map(|part| name(0, part).2).collect();
        let mut fields = vec![
            int(1, *kind),
            list(2, 5, &[zigzag(0), zigzag(3)]),
            list(3, 8, &path),
            int(4, *codec),
            long(5, *values),
            long(6, len),
            long(7, len),
            long(9, at + dictionary.len() as i64),
        ];
        fields.extend((!dictionary.is_empty()).then(|| long(11, at)));
        described.push(structure(&[long(2, at), (3, 12, structure(&fields))]));
    }
    let group = structure(&[list(1, 12, &described), long(2, bytes.len() as i64), long(3, 1)]);
    let footer = structure(&[
        int(1, 1),
        list(2, 12, schema),
        long(3, groups as i64),
        list(4, 12, &vec![group; groups]),
    ]);
    bytes.extend(&footer);
    bytes.extend((footer.len() as u32).to_le_bytes());
    bytes.extend(b"PAR1");
    bytes
}

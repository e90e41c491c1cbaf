//! Reading weights: saved by transformers, made by hand, and malformed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{directory, oracle, safetensors};
use isentrope_model::{Checkpoint, Error};
use tempfile::TempDir;

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `model.safetensors` with one tensor "w".
fn one_tensor(dtype: &str, shape: &[usize], data: &[u8]) -> TempDir {
    let header = format!(
        r#"{{"w":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[0,{}]}}}}"#,
        data.len()
    );
    directory(&[("model.safetensors", &safetensors(&header, data))])
}

/// Opens the directory and reads all of it.
fn read_all(dir: &Path) -> Result<BTreeMap<String, Vec<f32>>, Error> {
    let checkpoint = Checkpoint::open(dir)?;
    checkpoint
        .names()
        .map(|name| {
            Ok((name.to_owned(), checkpoint.read_f32(name, checkpoint.shape(name).unwrap())?))
        })
        .collect()
}

fn refusal(dir: &TempDir) -> String {
    let error = read_all(dir.path()).expect_err("must be refused");
    let text = error.to_string();
    assert!(text.starts_with(&dir.path().display().to_string()) && !text.contains('\n'), "{text}");
    text
}

#[test]
fn halves_are_widened_exactly() {
    // Every finite bit pattern of both formats, against their definitions.
    let f16: Vec<u16> = (0..=u16::MAX).filter(|bits| bits & 0x7c00 != 0x7c00).collect();
    let bf16: Vec<u16> = (0..=u16::MAX).filter(|bits| bits & 0x7f80 != 0x7f80).collect();
    let binary16 = |bits: u16| {
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(-24),
            _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
        };
        (if bits >> 15 == 1 { -magnitude } else { magnitude }) as f32
    };
    let cases = [
        ("F16", f16.iter().map(|&bits| binary16(bits)).collect::<Vec<_>>(), f16),
        ("BF16", bf16.iter().map(|&bits| f32::from_bits(u32::from(bits) << 16)).collect(), bf16),
    ];
    for (dtype, expected, bits) in cases {
        let data: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let dir = one_tensor(dtype, &[bits.len()], &data);
        let values = Checkpoint::open(dir.path()).unwrap().read_f32("w", &[bits.len()]).unwrap();
        assert_eq!(bytes_of(&values), bytes_of(&expected), "{dtype}");
    }
}

#[test]
fn rows_come_in_order_and_whole() {
    let values: Vec<f32> = (0..7 * 6).map(|i| i as f32).collect();
    for shape in [&[7, 6][..], &[7, 2, 3], &[42], &[1, 42], &[42, 1]] {
        let dir = one_tensor("F32", shape, &bytes_of(&values));
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        for rows_per_call in [0, 1, 2, 3, 7, 1000, usize::MAX] {
            let mut seen = Vec::new();
            let row_size = 42 / shape[0];
            let collect = |first_row: usize, rows: &[f32]| {
                assert_eq!(first_row * row_size, seen.len());
                assert!(
                    rows.len() / row_size <= rows_per_call.max(1)
                        && rows.len().is_multiple_of(row_size)
                );
                seen.extend_from_slice(rows);
            };
            checkpoint.read_rows("w", shape, rows_per_call, collect).unwrap();
            assert_eq!(seen, values);
        }
    }
    let scalar = one_tensor("F32", &[], &bytes_of(&[2.5]));
    assert_eq!(Checkpoint::open(scalar.path()).unwrap().read_f32("w", &[]).unwrap(), [2.5]);
    let empty = one_tensor("F32", &[0, 5], &[]);
    let empty = Checkpoint::open(empty.path()).unwrap();
    assert!(empty.read_f32("w", &[0, 5]).unwrap().is_empty());
    empty.read_rows("w", &[0, 5], 4, |_, _| panic!("no rows to see")).unwrap();
}

#[test]
fn data_need_not_be_aligned() {
    let header = r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} "#;
    assert_ne!(header.len() % 4, 0);
    let dir = directory(&[("model.safetensors", &safetensors(header, &bytes_of(&[1.5, -2.0])))]);
    assert_eq!(read_all(dir.path()).unwrap()["w"], [1.5, -2.0]);
}

#[test]
fn absent_and_misshapen_tensors_are_named() {
    let dir = one_tensor("F32", &[2, 3], &[0; 24]);
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let error = checkpoint.read_f32("lm_head.weight", &[2, 3]).unwrap_err().to_string();
    assert!(error.contains("lm_head.weight"), "{error}");
    for shape in [&[3, 2][..], &[6], &[2, 3, 1], &[], &[usize::MAX, usize::MAX]] {
        let error = checkpoint.read_rows("w", shape, 1, |_, _| ()).unwrap_err().to_string();
        assert!(
            error.contains("tensor w has shape [2, 3]") && error.contains("model.safetensors"),
            "{error}"
        );
    }
}

#[test]
fn values_that_are_not_finite_are_located() {
    for (value, shown) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let mut values = vec![0.5; 70_000];
        values[66_001] = value;
        let dir = one_tensor("F32", &[70_000], &bytes_of(&values));
        assert!(
            refusal(&dir)
                .ends_with(&format!("model.safetensors: tensor w is {shown} at index 66001"))
        );
    }
    let dir = one_tensor("BF16", &[2], &[0x00, 0x3f, 0x80, 0x7f]);
    assert!(refusal(&dir).ends_with("tensor w is inf at index 1"));
    let dir = one_tensor("F16", &[2], &[0x00, 0x3c, 0x01, 0xfc]);
    assert!(refusal(&dir).ends_with("tensor w is NaN at index 1"));
}

#[test]
fn other_types_are_refused_by_name() {
    for (dtype, size) in
        [("I32", 4), ("F64", 8), ("F8_E4M3", 1), ("F8_E5M2", 1), ("U8", 1), ("BOOL", 1)]
    {
        let text = refusal(&one_tensor(dtype, &[1], &vec![0; size]));
        assert!(text.contains(&format!("tensor w has type {dtype}")), "{text}");
    }
    assert!(refusal(&one_tensor("Q4_K", &[1], &[0])).contains("Q4_K"));
}

#[test]
fn directories_without_safetensors_say_what_they_have() {
    let cases = [
        (
            vec![("pytorch_model.bin", &b"x"[..]), ("config.json", b"{}")],
            "pickled weights only (pytorch_model.bin)",
        ),
        (vec![("consolidated.00.pth", b"x")], "consolidated.00.pth"),
        (vec![], "neither model.safetensors nor model.safetensors.index.json"),
    ];
    for (files, named) in cases {
        let dir = directory(&files);
        assert!(refusal(&dir).contains(named), "{}", refusal(&dir));
    }
    assert!(matches!(
        Checkpoint::open(Path::new("/no/such/directory")),
        Err(Error::File(isentrope_files::Error::Io { .. }))
    ));
    let dir = directory(&[]);
    fs::create_dir(dir.path().join("model.safetensors")).unwrap();
    assert!(refusal(&dir).contains("model.safetensors"));
}

/// The library that parses headers tests the other ways to lie.
#[test]
fn headers_that_lie() {
    let entry = |name: &str, shape: &str, from: u64, to: u64| {
        format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    for (defect, entries) in [
        ("overlap", entry("a", "[2]", 0, 8) + "," + &entry("b", "[2]", 4, 12)),
        ("too few", entry("a", "[3]", 0, 12)),
        ("shape against offsets", entry("a", "[5]", 0, 16)),
        ("overflow", entry("a", "[4294967296,4294967296,4]", 0, 16)),
        ("end of the world", entry("a", "[4]", 0, 16) + "," + &entry("b", "[1]", 16, u64::MAX)),
        ("no tensors", String::new()),
        ("not JSON", "\"a\":".into()),
    ] {
        let file = safetensors(&format!("{{{entries}}}"), &[0; 16]);
        let dir = directory(&[("model.safetensors", &file)]);
        assert!(refusal(&dir).contains("model.safetensors: "), "{defect}");
    }
    for length in [17_u64, 1 << 26, 1 << 40, u64::MAX, u64::MAX - 7] {
        let file = [&length.to_le_bytes()[..], b"{}              "].concat();
        let dir = directory(&[("model.safetensors", &file)]);
        assert!(refusal(&dir).contains("header"), "{length}");
    }
}

#[test]
fn truncated_files() {
    let whole = fs::read(oracle("llama3").join("model.safetensors")).unwrap();
    for length in [0, 1, 7, 8, 9, 100, 1000, 5000, whole.len() / 2, whole.len() - 1] {
        let dir = directory(&[("model.safetensors", &whole[..length])]);
        refusal(&dir);
    }
    let dir = directory(&[("model.safetensors", &[&whole[..], b"\0"].concat())]);
    refusal(&dir);
}

const A: &str = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
const B: &str = r#"{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;

fn sharded(index: &str) -> TempDir {
    directory(&[
        ("model.safetensors.index.json", index.as_bytes()),
        ("1.safetensors", &safetensors(A, &bytes_of(&[1.0]))),
        ("2.safetensors", &safetensors(B, &bytes_of(&[2.0]))),
        ("3.safetensors", &safetensors(A, &bytes_of(&[3.0]))),
    ])
}

#[test]
fn shards_are_read_through_their_index() {
    let dir = sharded(r#"{"metadata":{},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}"#);
    let tensors = read_all(dir.path()).unwrap();
    assert_eq!(tensors, BTreeMap::from([("a".to_owned(), vec![1.0]), ("b".to_owned(), vec![2.0])]));
}

#[test]
fn indices_that_lie() {
    let cases = [
        (
            r#"{"weight_map":{"a":"1.safetensors","b":"9.safetensors"}}"#,
            "shard 9.safetensors, which is absent",
        ),
        (r#"{"weight_map":{"a":"1.safetensors","c":"3.safetensors"}}"#, "tensor a is also in"),
        (
            r#"{"weight_map":{"a":"1.safetensors","b":"1.safetensors"}}"#,
            "\"b\" in \"1.safetensors\"",
        ),
        (r#"{"weight_map":{"a":"2.safetensors","b":"1.safetensors"}}"#, "does not hold it"),
        (r#"{"weight_map":{"a":"../1.safetensors"}}"#, "not a safetensors file name"),
        (r#"{"weight_map":{"a":"/etc/passwd"}}"#, "not a safetensors file name"),
        (r#"{"weight_map":{"a":7}}"#, "\"a\" in 7"),
        (
            r#"{"weight_map":{"a":"1.safetensors","a":"2.safetensors"}}"#,
            "the key \"a\" occurs twice",
        ),
        (
            r#"{"weight_map":{},"weight_map":{"a":"1.safetensors"}}"#,
            "the key \"weight_map\" occurs twice",
        ),
        (r#"{"weight_map":{}}"#, "weight_map"),
        (r#"{"weight_map":[]}"#, "weight_map"),
        (r#"{"metadata":{}}"#, "weight_map"),
        ("{", "JSON"),
        ("7", "JSON object"),
    ];
    for (index, named) in cases {
        let text = refusal(&sharded(index));
        assert!(text.contains(named), "{index}: {text}");
    }
}

#[test]
fn unused_tensors_are_reported_but_for_derived_constants() {
    let names = [
        "model.norm.weight",
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.extra",
        "lm_head.weight",
    ];
    let entries: Vec<String> = (0..4)
        .map(|i| {
            format!(
                r#""{}":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}}"#,
                names[i],
                4 * i,
                4 * i + 4
            )
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let dir = directory(&[("model.safetensors", &safetensors(&header, &[0; 16]))]);
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    assert_eq!(checkpoint.unused(["model.norm.weight", "lm_head.weight"]), ["model.extra"]);
}

//! Writing model directories and reading them back.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use crate::common::{bits, directory};
use isentrope_files::Error::{Io, Refused};
use isentrope_model::checkpoint::{Tensor, WeightDtype, WriteOptions, Writer, write_checkpoint};
use isentrope_model::{Checkpoint, Error};
use proptest::prelude::*;
use safetensors::SafeTensors;
use serde_json::{Map, Value, json};

const WHOLE: WriteOptions = WriteOptions {
    dtype: WeightDtype::F32,
    max_shard_bytes: u64::MAX,
    carry_from: None,
    writer: Writer::ALONE,
};

fn tensor<'a>(name: &str, shape: &[usize], values: &'a [f32]) -> Tensor<'a> {
    Tensor {
        name: name.to_owned(),
        shape: shape.to_vec(),
        values: Box::new(move || Ok(Cow::Borrowed(values))),
    }
}

fn listing(dir: &Path) -> Vec<String> {
    let names =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn shards_are_numbered_bounded_and_indexed() {
    let values = [0.25; 10];
    let tensors = vec![
        tensor("z", &[2, 2], &values[..4]),
        tensor("a", &[4], &values[..4]),
        tensor("big", &[10], &values),
        tensor("m", &[1], &values[..1]),
    ];
    let parent = directory(&[]);
    let dir = parent.path().join("out");
    let options = WriteOptions { max_shard_bytes: 32, ..WHOLE };
    write_checkpoint(&dir, &Map::new(), tensors, options).unwrap();
    let expected = [
        "config.json",
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
        "model.safetensors.index.json",
    ];
    assert_eq!(listing(&dir), expected);
    let index: Value = serde_json::from_slice(&fs::read(dir.join(expected[4])).unwrap()).unwrap();
    assert_eq!(
        index,
        json!({
            "metadata": {"total_size": 19 * 4},
            "weight_map": {"z": expected[1], "a": expected[1], "big": expected[2], "m": expected[3]}
        })
    );
    for file in &expected[1..4] {
        let bytes = fs::read(dir.join(file)).unwrap();
        let (header_bytes, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
        assert!(header_bytes.is_multiple_of(8));
    }
}

/// The reference rounds in exact arithmetic over the neighbours of the target format.
#[test]
fn halves_are_rounded_to_nearest_even() {
    let cases = [
        (WeightDtype::Bf16, 1.0 + 1.0 / 256.0, 1.0),
        (WeightDtype::Bf16, 1.0 + 3.0 / 256.0, 1.0 + 4.0 / 256.0),
        (WeightDtype::Bf16, 1.0 + 1.0 / 256.0 + f32::EPSILON, 1.0 + 2.0 / 256.0),
        (WeightDtype::Bf16, f32::from_bits(0x0000_8000), 0.0),
        (WeightDtype::Bf16, f32::from_bits(0x0001_8000), f32::from_bits(0x0002_0000)),
        (WeightDtype::Bf16, f32::from_bits(0x7f7f_7fff), f32::from_bits(0x7f7f_0000)),
        (WeightDtype::F16, 1.0 + 1.0 / 2048.0, 1.0),
        (WeightDtype::F16, 1.0 + 3.0 / 2048.0, 1.0 + 4.0 / 2048.0),
        (WeightDtype::F16, -2049.0, -2048.0),
        (WeightDtype::F16, 2051.0, 2052.0),
        (WeightDtype::F16, 65_519.0, 65_504.0),
        (WeightDtype::F16, 2f32.powi(-25), 0.0),
        (WeightDtype::F16, 3.0 * 2f32.powi(-25), 2.0 * 2f32.powi(-24)),
    ];
    let parent = directory(&[]);
    for (number, (dtype, value, expected)) in cases.into_iter().enumerate() {
        let dir = parent.path().join(number.to_string());
        // Long enough for vector code and its remainder.
        let values = vec![value; 4099];
        let options = WriteOptions { dtype, ..WHOLE };
        write_checkpoint(&dir, &Map::new(), vec![tensor("w", &[4099], &values)], options).unwrap();
        let read = Checkpoint::open(&dir).unwrap().read_f32("w", &[4099]).unwrap();
        assert!(read.iter().all(|&read| read == expected), "{dtype:?} {value:e}: {:e}", read[0]);
        let bytes = fs::read(dir.join("model.safetensors")).unwrap();
        assert_eq!(
            SafeTensors::deserialize(&bytes).unwrap().tensor("w").unwrap().data().len(),
            2 * 4099
        );
    }
}

#[test]
fn config_names_the_dtype_in_the_spelling_of_its_source() {
    let cases = [
        (json!({"a": 1, "dtype": "float32"}), json!({"a": 1, "dtype": "bfloat16"})),
        (json!({"torch_dtype": "float16", "z": [1]}), json!({"torch_dtype": "bfloat16", "z": [1]})),
        (json!({"z": 1e-5}), json!({"z": 1e-5, "torch_dtype": "bfloat16"})),
    ];
    let parent = directory(&[]);
    for (number, (before, after)) in cases.into_iter().enumerate() {
        let dir = parent.path().join(number.to_string());
        let options = WriteOptions { dtype: WeightDtype::Bf16, ..WHOLE };
        write_checkpoint(&dir, before.as_object().unwrap(), Vec::new(), options).unwrap();
        let written: Value =
            serde_json::from_slice(&fs::read(dir.join("config.json")).unwrap()).unwrap();
        assert_eq!(written.to_string(), after.to_string());
    }
}

#[test]
fn companions_are_carried_byte_for_byte_and_nothing_else() {
    let odd = b"\xef\xbb\xbf{\r\n \"odd\" : 1e-06 }\0";
    let source = directory(&[
        ("tokenizer.json", odd),
        ("chat_template.jinja", b"{{ messages }}"),
        ("pytorch_model.bin", b"pickle"),
        ("README.md", b"text"),
    ]);
    let below = "additional_chat_templates";
    fs::create_dir(source.path().join(below)).unwrap();
    for name in ["tool_use.jinja", "rag.jinja"] {
        fs::write(source.path().join(below).join(name), name).unwrap();
    }
    let parent = directory(&[]);
    let dir = parent.path().join("out");
    let options = WriteOptions { carry_from: Some(source.path()), ..WHOLE };
    write_checkpoint(&dir, &Map::new(), vec![tensor("w", &[1], &[1.0])], options).unwrap();
    assert_eq!(
        listing(&dir),
        [below, "chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"]
    );
    assert_eq!(listing(&dir.join(below)), ["tool_use.jinja"]);
    assert_eq!(fs::read(dir.join("tokenizer.json")).unwrap(), odd);
}

#[test]
fn a_failed_write_leaves_nothing() {
    let fails = || Tensor {
        name: "late".to_owned(),
        shape: vec![1],
        values: Box::new(|| Err(Error::Input("no such buffer".to_owned()))),
    };
    let ones = [1.0; 4];
    let unfit = [1.0, 65_520.0];
    let nan = [f32::NAN];
    let max = [f32::MAX];
    let cases = [
        (WeightDtype::F32, fails(), "no such buffer"),
        (WeightDtype::F32, tensor("short", &[3], &ones), "tensor short has 4 values for [3]"),
        (WeightDtype::F32, tensor("first", &[4], &ones), "tensor name first"),
        (WeightDtype::F32, tensor("__metadata__", &[4], &ones), "__metadata__"),
        (WeightDtype::F32, tensor("vast", &[usize::MAX, 2], &ones), "tensor vast"),
        (WeightDtype::F32, tensor("sick", &[1], &nan), "tensor sick is NaN at index 0"),
        (
            WeightDtype::F16,
            tensor("loud", &[2], &unfit),
            "tensor loud is 6.552e4 at index 1, not finite in float16",
        ),
        (WeightDtype::Bf16, tensor("huge", &[1], &max), "tensor huge is 3.4028235e38"),
    ];
    let parent = directory(&[]);
    for (dtype, bad, named) in cases {
        let tensors = vec![tensor("first", &[2, 2], &ones), bad];
        let options = WriteOptions { dtype, max_shard_bytes: 8, ..WHOLE };
        let error = write_checkpoint(&parent.path().join("out"), &Map::new(), tensors, options)
            .unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(listing(parent.path()), [""; 0]);
    }
}

#[test]
fn occupied_targets_are_refused_and_untouched() {
    let parent = directory(&[("file", b"content")]);
    let write =
        |dir: &Path| write_checkpoint(dir, &Map::new(), vec![tensor("w", &[1], &[1.0])], WHOLE);
    let full = parent.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("kept"), "kept").unwrap();
    for target in [full.clone(), parent.path().join("file"), parent.path().join("full/..")] {
        assert!(matches!(write(&target), Err(Error::File(Refused(_)))), "{}", target.display());
    }
    assert!(matches!(write(&parent.path().join("absent/out")), Err(Error::File(Io { .. }))));
    assert_eq!(listing(parent.path()), ["file", "full"]);
    assert_eq!(listing(&full), ["kept"]);

    let empty = parent.path().join("empty");
    fs::create_dir(&empty).unwrap();
    write(&empty).unwrap();
    assert_eq!(listing(&empty), ["config.json", "model.safetensors"]);
    assert!(matches!(write(&empty), Err(Error::File(Refused(_)))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Finite values survive f32 files to the bit, whatever the shapes and the shard limit; equal
    /// input gives equal files.
    #[test]
    fn round_trip(
        sizes in prop::collection::vec((0_usize..70, 1_usize..70), 1..6),
        seed in any::<u32>(),
        limit in 0_u64..40_000,
    ) {
        let value = |i: usize| {
            let bits = (i as u32).wrapping_mul(2_654_435_761) ^ seed;
            if f32::from_bits(bits).is_finite() { f32::from_bits(bits) } else { -0.0 }
        };
        let data: Vec<Vec<f32>> =
            sizes.iter().map(|(rows, columns)| (0..rows * columns).map(value).collect()).collect();
        let parent = directory(&[]);
        let write = |name: &str| {
            let tensors = sizes.iter().zip(&data).enumerate();
            let tensors =
                tensors.map(|(i, (&(rows, columns), data))| tensor(&format!("t{i}"), &[rows, columns], data));
            let options = WriteOptions { max_shard_bytes: limit, ..WHOLE };
            write_checkpoint(&parent.path().join(name), &Map::new(), tensors.collect(), options).unwrap();
        };
        write("one");
        write("two");
        let checkpoint = Checkpoint::open(&parent.path().join("one")).unwrap();
        for (i, (&(rows, columns), data)) in sizes.iter().zip(&data).enumerate() {
            prop_assert_eq!(bits(&checkpoint.read_f32(&format!("t{i}"), &[rows, columns]).unwrap()), bits(data));
        }
        let files = listing(&parent.path().join("one"));
        prop_assert_eq!(&files, &listing(&parent.path().join("two")));
        for file in files {
            let read = |name: &str| fs::read(parent.path().join(name).join(&file)).unwrap();
            prop_assert_eq!(read("one"), read("two"));
        }
    }
}

//! Rotary tables against the tables of transformers (fixtures/rope.py).

use std::fs;

use crate::common::{directory, fixtures};
use isentrope_model::{ModelConfig, Rope};
use serde_json::Value;

fn floats(bits: &Value) -> Vec<f32> {
    let bits = bits.as_array().unwrap().iter();
    bits.map(|bits| f32::from_bits(bits.as_u64().unwrap().try_into().unwrap())).collect()
}

/// Distance in units of the last place.
fn ulps(a: f32, b: f32) -> u32 {
    a.to_bits().abs_diff(b.to_bits())
}

fn reference_cases() -> Vec<Value> {
    serde_json::from_slice(&fs::read(fixtures().join("rope.json")).unwrap()).unwrap()
}

fn rope_of(config: &Value) -> Rope {
    let dir = directory(&[("config.json", config.to_string().as_bytes())]);
    ModelConfig::read(dir.path()).unwrap().rope
}

#[test]
fn tables_are_those_of_transformers() {
    let cases = reference_cases();
    assert_eq!(cases.len(), 10);
    let (mut frequencies, mut equal) = (0, 0);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let rope = rope_of(&case["config"]);
        let expected = floats(&case["inv_freq"]);
        assert_eq!(rope.inv_freq.len(), expected.len(), "{name}");
        for (pair, (&ours, &theirs)) in rope.inv_freq.iter().zip(&expected).enumerate() {
            // Vectorised powers in torch are good to one unit, which a division or two can double.
            assert!(ulps(ours, theirs) <= 2, "{name} pair {pair}: {ours:e} {theirs:e}");
            frequencies += 1;
            equal += usize::from(ours == theirs);
        }
        let attention_factor = case["attention_factor"].as_f64().unwrap() as f32;
        assert!(ulps(rope.attention_factor, attention_factor) <= 1, "{name}");

        for row in case["rows"].as_array().unwrap() {
            let position = row["position"].as_u64().unwrap() as usize;
            let (cos, sin) = rope.table(position..position + 1);
            let (expected_cos, expected_sin) = (floats(&row["cos"]), floats(&row["sin"]));
            for pair in 0..expected.len() {
                // Two units of a frequency of at most 1, and one of the angle, grow with the
                // position. If frequencies agree to the bit, angles do too, and cosines differ by
                // torch's rounding alone.
                let bound = 2e-7 * f64::from(attention_factor) * (1.0 + 2.0 * position as f64);
                let is_equal = rope.inv_freq[pair] == expected[pair];
                for (ours, theirs) in
                    [(cos[pair], expected_cos[pair]), (sin[pair], expected_sin[pair])]
                {
                    let is_near = match is_equal {
                        true => ulps(ours, theirs) <= 2,
                        false => f64::from(ours - theirs).abs() <= bound,
                    };
                    assert!(is_near, "{name} position {position}: {ours:e} {theirs:e}");
                }
            }
        }
    }
    // Correct rounding reproduces nearly all of them to the bit.
    assert!(equal * 100 >= frequencies * 97, "{equal} of {frequencies}");
}

/// The bits of a row do not depend on the requested range.
#[test]
fn rows_depend_on_their_position_only() {
    for case in reference_cases() {
        let rope = rope_of(&case["config"]);
        let half = rope.inv_freq.len();
        let (cos, sin) = rope.table(505..520);
        assert_eq!((cos.len(), sin.len()), (15 * half, 15 * half));
        for (row, position) in (505..520).enumerate() {
            let (one_cos, one_sin) = rope.table(position..position + 1);
            assert_eq!(one_cos, cos[row * half..(row + 1) * half]);
            assert_eq!(one_sin, sin[row * half..(row + 1) * half]);
        }
    }
    assert_eq!(rope_of(&reference_cases()[0]["config"]).table(5..5), (vec![], vec![]));
}

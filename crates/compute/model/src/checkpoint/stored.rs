//! Tensors that a directory holds under other names or in fewer bits than the model has them.

use half::bf16;
use std::collections::BTreeMap;

use crate::config::experts::MAX_EXPERTS_OF_A_LAYER;
use crate::config::stored_form::Fp8;

/// The name that a tensor of a multimodal model has in the text model alone. None: it belongs to
/// another part. transformers has written the text model as `language_model.model` and as
/// `model.language_model`.
fn own_name(name: &str) -> Option<String> {
    let own = match name.strip_prefix("model.language_model.") {
        Some(rest) => format!("model.{rest}"),
        None => name.strip_prefix("language_model.").unwrap_or(name).to_owned(),
    };
    let is_text = own.len() < name.len() && own.starts_with("model.");
    (is_text || own.starts_with("lm_head.")).then_some(own)
}

/// The tensors of the text model, under its own names.
///
/// # Errors
/// Two names that are one tensor of the text model.
pub(super) fn own_tensors<T>(all: BTreeMap<String, T>) -> Result<BTreeMap<String, T>, [String; 2]> {
    let mut own: BTreeMap<String, (String, T)> = BTreeMap::new();
    for (name, tensor) in all {
        let Some(own_name) = own_name(&name) else { continue };
        if let Some((first, _)) = own.get(&own_name) {
            return Err([first.clone(), name]);
        }
        own.insert(own_name, (name, tensor));
    }
    Ok(own.into_iter().map(|(own_name, (_, tensor))| (own_name, tensor)).collect())
}

/// Names of tensors, each with its shape.
type NamedShapes = Vec<(String, Vec<usize>)>;

/// The names and shapes of the experts' own tensors, in the order of their numbers in the tensor
/// `name`; none unless that holds all experts of a block, as transformers 5 has them in memory:
/// `[experts, rows, columns]`, gate above up.
///
/// # Errors
/// What is wrong with the shape.
pub(super) fn parts_of_experts(name: &str, shape: &[usize]) -> Option<Result<NamedShapes, String>> {
    let (module, part) =
        name.rsplit_once('.').filter(|(module, _)| module.ends_with(".experts"))?;
    let parts = match part {
        "gate_up_proj" => &["gate", "up"][..],
        "down_proj" => &["down"],
        _ => return None,
    };
    let &[experts @ 1..=MAX_EXPERTS_OF_A_LAYER, rows, columns] = shape else {
        return Some(Err(format!(
            "tensor {name} has shape {shape:?}, not [experts, rows, columns] with at most \
             {MAX_EXPERTS_OF_A_LAYER} experts"
        )));
    };
    if !rows.is_multiple_of(parts.len()) {
        return Some(Err(format!("tensor {name} has {rows} rows, which gate and up cannot share")));
    }
    let of_expert = |expert: usize| {
        let shape = vec![rows / parts.len(), columns];
        let named = move |part| (format!("{module}.{expert}.{part}_proj.weight"), shape.clone());
        parts.iter().map(named)
    };
    Some(Ok((0..experts).flat_map(of_expert).collect()))
}

/// The scales of a weight in FP8, by which its blocks are multiplied.
#[derive(Debug)]
pub(super) struct BlockScales {
    /// Columns of the weight.
    columns: usize,
    /// Rows and columns of a block. The last blocks may have fewer.
    block: [usize; 2],
    /// `[ceil(rows / block rows), ceil(columns / block columns)]`.
    pub scales: Vec<f32>,
}

impl BlockScales {
    /// The blocks of a weight, still without scales: these have the shape `grid`.
    ///
    /// # Errors
    /// What is wrong with the shapes.
    pub fn blocks(shape: &[usize], fp8: Fp8, grid: Option<&[usize]>) -> Result<Self, String> {
        let &[rows, columns] = shape else {
            return Err(format!("has shape {shape:?}, and only matrices can be scaled"));
        };
        let Some(grid) = grid else {
            return Err("has no scales (NAME_scale_inv)".to_owned());
        };
        let block = fp8.block.unwrap_or([rows.max(1), columns.max(1)]);
        let expected = [rows.div_ceil(block[0]), columns.div_ceil(block[1])];
        let fits = match fp8.block {
            Some(_) => grid == expected,
            None => grid.iter().product::<usize>() == 1,
        };
        if !fits {
            let what = match fp8.block {
                Some([rows, columns]) => format!("blocks of {rows} x {columns} need {expected:?}"),
                None => "without weight_block_size it has one".to_owned(),
            };
            return Err(format!("has shape {shape:?} and scales of shape {grid:?}; {what}"));
        }
        Ok(Self { columns, block, scales: Vec::new() })
    }

    /// Scales the values from the index `start` on. As transformers de-quantises to bf16, the
    /// product is rounded to f32, and then to bf16.
    pub fn apply(&self, start: usize, mut values: &mut [f32]) {
        let [rows, columns] = self.block;
        let of_row = self.columns.div_ceil(columns);
        let mut index = start;
        while !values.is_empty() {
            let (row, column) = (index / self.columns, index % self.columns);
            let scale = self.scales[row / rows * of_row + column / columns];
            let end = (column / columns + 1).saturating_mul(columns).min(self.columns);
            let (part, rest) = values.split_at_mut((end - column).min(values.len()));
            part.iter_mut().for_each(|value| *value = bf16::from_f32(*value * scale).to_f32());
            (index, values) = (index + part.len(), rest);
        }
    }
}

/// The value of a byte in E4M3 without infinities: a sign, 4 bits of exponent with the bias 7, and
/// 3 bits of fraction.
pub(super) fn e4m3(byte: u8) -> f32 {
    let (exponent, fraction) = (u32::from(byte >> 3 & 15), u32::from(byte & 7));
    let magnitude = match (exponent, fraction) {
        (15, 7) => f32::NAN,
        (0, _) => fraction as f32 / 512.0,
        _ => f32::from_bits((exponent + 120) << 23 | fraction << 20),
    };
    if byte >> 7 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_of_one_tensor_are_refused() {
        let named = |names: &[&str]| {
            own_tensors(names.iter().map(|name| ((*name).to_owned(), ())).collect())
                .map(|own| own.into_keys().collect::<Vec<_>>())
        };
        let [old, new] = ["language_model.model.norm.weight", "model.language_model.norm.weight"];
        let head = "lm_head.weight";
        assert_eq!(named(&[old, head, "vision.norm.weight"]).unwrap(), [head, "model.norm.weight"]);
        assert_eq!(named(&[new]).unwrap(), ["model.norm.weight"]);
        assert_eq!(named(&[old, new]).unwrap_err(), [old, new]);
        let nested = "language_model.lm_head.weight";
        assert_eq!(named(&[head, nested]).unwrap_err(), [nested, head]);
    }

    #[test]
    fn tensors_of_all_experts_have_those_of_each_in_their_order() {
        let parts = |part: &str, shape: &[usize]| {
            parts_of_experts(&format!("model.layers.3.mlp.experts.{part}"), shape)
        };
        let names = |part: &str, shape: &[usize], of_each: &[usize]| -> String {
            let parts = parts(part, shape).unwrap().unwrap();
            assert!(parts.iter().all(|(_, shape)| shape == of_each), "{parts:?}");
            let own =
                parts.iter().map(|(name, _)| name.strip_prefix("model.layers.3.mlp.experts."));
            own.map(Option::unwrap).collect::<Vec<_>>().join(" ")
        };
        let both = "0.gate_proj.weight 0.up_proj.weight 1.gate_proj.weight 1.up_proj.weight";
        assert_eq!(names("gate_up_proj", &[2, 6, 5], &[3, 5]), both);
        assert_eq!(
            names("down_proj", &[2, 5, 3], &[5, 3]),
            "0.down_proj.weight 1.down_proj.weight"
        );
        for (part, shape) in [
            ("gate_up_proj", &[2, 7, 5][..]),
            ("gate_up_proj", &[6, 5]),
            ("down_proj", &[1 << 40, 0, 0]),
        ] {
            assert!(parts(part, shape).unwrap().is_err(), "{part} {shape:?}");
        }
        assert_eq!(parts("0.down_proj.weight", &[5, 3]), None);
        assert_eq!(parts_of_experts("model.layers.3.mlp.down_proj", &[2, 5, 3]), None);
    }

    #[test]
    fn tensors_of_the_text_model_have_its_names() {
        for (name, own) in [
            ("language_model.model.norm.weight", Some("model.norm.weight")),
            ("model.language_model.norm.weight", Some("model.norm.weight")),
            ("language_model.lm_head.weight", Some("lm_head.weight")),
            ("lm_head.weight", Some("lm_head.weight")),
            ("model.vision_tower.norm.weight", None),
            ("vision_tower.model.norm.weight", None),
            ("multi_modal_projector.linear_1.weight", None),
            ("language_model.norm.weight", None),
        ] {
            assert_eq!(own_name(name).as_deref(), own);
        }
    }

    /// 5 x 7 values in blocks of 2 x 3: the last ones are cut off at the end of rows and columns.
    #[test]
    fn each_value_is_scaled_by_its_block() {
        let fp8 = Fp8 { block: Some([2, 3]) };
        let mut blocks = BlockScales::blocks(&[5, 7], fp8, Some(&[3, 3])).unwrap();
        blocks.scales = (0..9).map(|block| (block as f32).exp2()).collect();
        let value = |index: usize| 1.0 + index as f32 / 256.0; // some need rounding to bf16
        for (start, end) in [(0, 35), (0, 1), (3, 18), (13, 35), (34, 35)] {
            let mut values: Vec<f32> = (start..end).map(value).collect();
            blocks.apply(start, &mut values);
            for (index, got) in (start..).zip(values) {
                let block = index / 7 / 2 * 3 + index % 7 / 3;
                let want = bf16::from_f32(value(index) * (block as f32).exp2()).to_f32();
                assert_eq!(got, want, "{index} of {start}..{end}");
            }
        }
        let one = Fp8 { block: None };
        assert_eq!(BlockScales::blocks(&[5, 7], one, Some(&[])).unwrap().block, [5, 7]);
        for (shape, fp8, grid, reason) in [
            (&[5, 7][..], fp8, Some(&[3, 2][..]), "need [3, 3]"),
            (&[5, 7], one, Some(&[2]), "it has one"),
            (&[5, 7], fp8, None, "has no scales"),
            (&[35], fp8, Some(&[1]), "only matrices"),
        ] {
            let error = BlockScales::blocks(shape, fp8, grid).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn eight_bits_are_widened_exactly() {
        for byte in 0..=u8::MAX {
            let (exponent, fraction) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
            let magnitude = match exponent {
                0 => fraction * 2f64.powi(-9),
                _ => (8.0 + fraction) * 2f64.powi(exponent - 10),
            };
            let signed = if byte >> 7 == 1 { -magnitude } else { magnitude };
            match byte & 127 {
                127 => assert!(e4m3(byte).is_nan()),
                _ => assert_eq!(e4m3(byte).to_bits(), (signed as f32).to_bits(), "{byte}"),
            }
        }
    }
}

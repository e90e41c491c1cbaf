//! How a model directory holds a language model: on its own or as the text model of one that sees
//! images, and with weights in 16 or 32 bits or quantised.

use std::path::Path;

use serde_json::{Map, Value};

use super::MAX_DIMENSION;
use super::family::Family;
use super::fields::{Fields, shown};
use crate::{Result, json_file};

/// The key of the text model's own configuration in that of a multimodal model.
const TEXT: &str = "text_config";
/// The key of how weights are quantised.
const QUANTISATION: &str = "quantization_config";

/// Keys of a multimodal model's configuration that say something of its text model.
const OF_THE_WHOLE: [&str; 6] =
    ["tie_word_embeddings", "dtype", "torch_dtype", "bos_token_id", "eos_token_id", "pad_token_id"];

/// The form of a model's files, from config.json.
#[derive(Debug)]
pub(crate) struct StoredForm {
    /// The class of the multimodal model that the text model is a part of, if it is one.
    pub whole: Option<String>,
    /// Weights in 8 bits with scales, if there are any.
    pub fp8: Option<Fp8>,
}

/// Weights in E4M3, each block of which has a scale in `NAME_scale_inv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fp8 {
    /// Rows and columns of a block. None: a tensor is one block.
    pub block: Option<[usize; 2]>,
}

impl StoredForm {
    /// Reads `dir/config.json`.
    pub fn read_dir(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        Self::read(Fields { path: &path, object: &json_file::read_object(&path)?, prefix: "" })
    }

    /// Reads a whole config.json.
    pub fn read(config: Fields) -> Result<Self> {
        let Some(text) = config.get(TEXT) else {
            return Ok(Self { whole: None, fp8: read_fp8(config)? });
        };
        let Some(object) = text.as_object() else {
            return Err(config.invalid(TEXT, "is not an object"));
        };
        let own = Fields { object, prefix: &prefix_of(TEXT), ..config };
        let fp8 = match read_fp8(config)? {
            None => read_fp8(own)?,
            fp8 => fp8,
        };
        let class = config.texts("architectures")?.and_then(|names| names.first().copied());
        let kind = config.text("model_type")?;
        let whole = class.or(kind).unwrap_or("multimodal model").to_owned();
        Ok(Self { whole: Some(whole), fp8 })
    }

    /// The prefix of the text model's keys in messages.
    pub fn prefix(&self) -> String {
        self.whole.as_ref().map_or(String::new(), |_| prefix_of(TEXT))
    }

    /// The text model's own config.json: what transformers loads beside its weights alone.
    pub fn own_config(&self, mut config: Map<String, Value>) -> Map<String, Value> {
        let (Some(_), Some(Value::Object(mut own))) = (&self.whole, config.remove(TEXT)) else {
            config.remove(QUANTISATION);
            return config;
        };
        own.remove(QUANTISATION);
        own.remove(TEXT); // one that stands in it
        let class = own.get("model_type").and_then(Value::as_str).and_then(Family::find);
        if let Some(family) = class {
            own.insert("architectures".to_owned(), vec![family.architecture].into());
        }
        // The whole model's values count in transformers 5: it may end texts with more tokens.
        for key in OF_THE_WHOLE {
            if let Some(value) = config.remove(key).filter(|value| !value.is_null()) {
                own.insert(key.to_owned(), value);
            }
        }
        own
    }

    /// Says what a checkpoint written from here leaves out or holds otherwise.
    pub fn remarks(&self, family: &Family) -> Vec<String> {
        let Family { architecture, .. } = family;
        let text = self.whole.as_ref().map(|whole| {
            format!(
                "of the {whole} only the text model is used: images cannot be read, and what is \
                 written is a {architecture}"
            )
        });
        let fp8 = self.fp8.map(|_| {
            "the weights are stored in 8 bits (FP8) and become their values in bf16; what is \
             written is not quantised"
                .to_owned()
        });
        text.into_iter().chain(fp8).collect()
    }
}

/// Reads how weights are quantised. Whether activations are quantised too says nothing about the
/// weights.
fn read_fp8(config: Fields) -> Result<Option<Fp8>> {
    let Some(value) =
        config.get(QUANTISATION).filter(|value| !super::unsupported::is_neutral(value))
    else {
        return Ok(None);
    };
    let Some(object) = value.as_object() else {
        return Err(config.invalid(QUANTISATION, "is not an object"));
    };
    let prefix = format!("{}{}", config.prefix, prefix_of(QUANTISATION));
    let fields = Fields { object, prefix: &prefix, ..config };
    let remedy = "is not supported (\"fp8\" is): take the model in 16 bits that it was made from";
    match fields.text("quant_method")? {
        Some("fp8") => {}
        method => {
            let named = ["format", "quant_algo"].iter().find_map(|key| fields.text(key).ok()?);
            let named = named.map_or(String::new(), |named| format!(" ({named})"));
            let method = method.unwrap_or("none");
            return Err(fields.unsupported("quant_method", format!("{method:?}{named} {remedy}")));
        }
    }
    if let Some(format) = fields.text("fmt")?.filter(|format| *format != "e4m3") {
        return Err(fields.unsupported("fmt", format!("{format:?} is not supported (\"e4m3\" is)")));
    }
    let Some(block) = fields.get("weight_block_size") else { return Ok(Some(Fp8 { block: None })) };
    let size = |size: &Value| {
        let size = usize::try_from(size.as_u64()?).ok()?;
        (1..=MAX_DIMENSION).contains(&size).then_some(size)
    };
    let sizes: Option<Vec<usize>> =
        block.as_array().and_then(|sizes| sizes.iter().map(size).collect());
    match sizes.as_deref() {
        Some(&[rows, columns]) => Ok(Some(Fp8 { block: Some([rows, columns]) })),
        _ => {
            let what = format!("is {}, not the rows and columns of a block", shown(block));
            Err(fields.invalid("weight_block_size", what))
        }
    }
}

fn prefix_of(key: &str) -> String {
    format!("{key}.")
}

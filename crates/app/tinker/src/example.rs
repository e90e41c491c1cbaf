//! Examples: what a datum's tensors say, checked.

use crate::error::{Failure, Result};
use crate::loss::Loss;
use crate::wire::{self, Encoding, FLOAT32, INT64, SparseCsr, Tensor, numbers};
use std::collections::HashMap;

/// Most targets of a call, and so the numbers that a sparse tensor becomes.
const MOST_TARGETS: usize = 1 << 22;
/// The input of every loss.
const TARGETS: &str = "target_tokens";

/// The bounds of a model's inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// Most tokens of an input.
    pub context: usize,
}

impl Bounds {
    /// The tokens of an input.
    ///
    /// # Errors
    /// The rest of a sentence that begins with the input's name.
    pub fn check(self, tokens: &[i64]) -> std::result::Result<Vec<u32>, String> {
        let context = self.context;
        if tokens.is_empty() {
            return Err("has no tokens".to_owned());
        }
        if tokens.len() > context {
            return Err(format!("has {} tokens, and the context is {context}", tokens.len()));
        }
        self.check_tokens(tokens)
    }

    fn check_tokens(self, tokens: &[i64]) -> std::result::Result<Vec<u32>, String> {
        let token = |&token: &i64| {
            let checked = u32::try_from(token).ok().filter(|&t| (t as usize) < self.vocabulary);
            checked.ok_or_else(|| {
                format!("has the token {token}, outside the vocabulary of {}", self.vocabulary)
            })
        };
        tokens.iter().map(token).collect()
    }
}

/// An example.
#[derive(Debug)]
pub(crate) struct Example {
    /// The inputs.
    pub tokens: Vec<u32>,
    /// The targets of each input, `[tokens, of_each]`.
    pub targets: Vec<u32>,
    /// Targets of each input; none if the client sent a vector.
    pub of_each: Option<usize>,
    /// The loss's inputs, each `[tokens, of_each]`.
    pub inputs: HashMap<&'static str, Vec<f32>>,
}

/// Bytes of the examples of a call once they are read, from what their shapes say: a sparse tensor
/// is much smaller. At most what [`read`] accepts.
pub(crate) fn bytes(data: &[wire::Datum]) -> usize {
    let numbers = |tensor: &Tensor| {
        let sizes = tensor.shape.iter().map(|&size| usize::try_from(size).unwrap_or(0));
        sizes.fold(1, usize::saturating_mul).min(MOST_TARGETS)
    };
    let of_datum = |datum: &wire::Datum| {
        let chunks = datum.model_input.iter().filter_map(|chunk| chunk.encoded_text.as_ref());
        let tokens: usize = chunks.map(|text| text.tokens.len()).sum();
        tokens + 4 * datum.loss_fn_inputs.values().map(numbers).sum::<usize>()
    };
    // Targets, and the most inputs that a loss has beside them.
    data.iter().map(of_datum).sum::<usize>().min(4 * 4 * MOST_TARGETS)
}

/// Reads the examples of a call.
///
/// # Errors
/// Names the datum, the tensor and what is wrong with it.
pub(crate) fn read(data: &[wire::Datum], loss: Loss, bounds: Bounds) -> Result<Vec<Example>> {
    if data.is_empty() {
        return Err(Failure::user("the request has no data"));
    }
    let mut left = MOST_TARGETS;
    let of_datum = |(number, datum): (usize, &wire::Datum)| {
        let example = Example::read(datum, loss, bounds, left)
            .map_err(|what| Failure::user(format!("datum {number}: {what}")))?;
        left -= example.targets.len();
        Ok(example)
    };
    data.iter().enumerate().map(of_datum).collect()
}

impl Example {
    fn read(
        datum: &wire::Datum,
        loss: Loss,
        bounds: Bounds,
        most: usize,
    ) -> std::result::Result<Self, String> {
        let mut tokens = Vec::new();
        for chunk in &datum.model_input {
            let text = chunk.encoded_text.as_ref().ok_or("this model reads text alone")?;
            let of_chunk = numbers(&text.tokens, i32::from_le_bytes).ok_or("broken tokens")?;
            tokens.extend(of_chunk.into_iter().map(i64::from));
        }
        let tokens = bounds.check(&tokens).map_err(|what| format!("model_input {what}"))?;
        let tensor = |name: &str| datum.loss_fn_inputs.get(name);
        let expected: Vec<&str> = loss.inputs().iter().map(|(name, _)| *name).collect();
        if let Some(other) =
            datum.loss_fn_inputs.keys().find(|&key| key != TARGETS && !expected.contains(&&**key))
        {
            return Err(format!("the loss has no input {other:?}"));
        }
        let targets = tensor(TARGETS).ok_or("target_tokens is missing")?;
        let shape = shape(targets, TARGETS, tokens.len(), most)?;
        let targets = targets
            .values(INT64, &shape, i64::from_le_bytes)
            .map_err(|what| format!("{TARGETS}: {what}"))?;
        let targets = bounds.check_tokens(&targets).map_err(|what| format!("{TARGETS} {what}"))?;
        let mut inputs = HashMap::new();
        for &(name, is_optional) in loss.inputs() {
            let Some(tensor) = tensor(name) else {
                if is_optional {
                    continue;
                }
                return Err(format!("the loss needs {name}"));
            };
            let values = (tensor.shape == shape.wire())
                .then(|| tensor.values(FLOAT32, &shape, f32::from_le_bytes))
                .ok_or_else(|| format!("{name} has not the shape of {TARGETS}"))?
                .map_err(|what| format!("{name}: {what}"))?;
            if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                return Err(format!("{name} has {value}, which is no finite number"));
            }
            inputs.insert(name, values);
        }
        Ok(Self { tokens, targets, of_each: shape.of_each, inputs })
    }
}

/// A vector of as many numbers as inputs, or a matrix with as many rows.
struct Shape {
    rows: usize,
    of_each: Option<usize>,
}

impl Shape {
    fn count(&self) -> usize {
        self.rows * self.of_each.unwrap_or(1)
    }

    fn wire(&self) -> Vec<i64> {
        std::iter::once(self.rows).chain(self.of_each).map(|n| n as i64).collect()
    }
}

/// The shape of a tensor of targets.
fn shape(
    tensor: &Tensor,
    name: &str,
    rows: usize,
    most: usize,
) -> std::result::Result<Shape, String> {
    let of_each = match *tensor.shape {
        [own] if own == rows as i64 => None,
        [own, of_each] if own == rows as i64 && of_each > 0 => {
            Some(usize::try_from(of_each).unwrap_or(usize::MAX))
        }
        _ => {
            let shape = &tensor.shape;
            return Err(format!(
                "{name} has the shape {shape:?}; it must be [{rows}] or [{rows}, K], as the input \
                 has {rows} tokens"
            ));
        }
    };
    if rows.saturating_mul(of_each.unwrap_or(1)) > most {
        return Err(format!("a call has at most {MOST_TARGETS} targets: send fewer at a time"));
    }
    Ok(Shape { rows, of_each })
}

impl Tensor {
    /// Its values, row-major. The cells that a sparse matrix leaves out are 0.
    fn values<T: Copy + Default, const N: usize>(
        &self,
        dtype: i32,
        shape: &Shape,
        from: fn([u8; N]) -> T,
    ) -> std::result::Result<Vec<T>, String> {
        if self.dtype != dtype {
            let expected = if dtype == INT64 { "int64" } else { "float32" };
            return Err(format!("its numbers are not {expected}"));
        }
        let values = match &self.encoding {
            None => Some(Vec::new()),
            Some(Encoding::Dense(bytes)) => numbers(bytes, from),
            Some(Encoding::SparseCsr(sparse)) => sparse.values(shape, from),
        };
        let count = shape.count();
        values
            .filter(|values| values.len() == count)
            .ok_or_else(|| format!("its contents are not {count} numbers"))
    }
}

impl SparseCsr {
    /// The values of all cells; none if the indices are not of a matrix of this shape.
    fn values<T: Copy + Default, const N: usize>(
        &self,
        shape: &Shape,
        from: fn([u8; N]) -> T,
    ) -> Option<Vec<T>> {
        let values = numbers(&self.values, from)?;
        let indices = |bytes| -> Option<Vec<usize>> {
            let indices = numbers(bytes, i64::from_le_bytes)?.into_iter();
            indices.map(|index| usize::try_from(index).ok()).collect()
        };
        let (rows, columns) = (indices(&self.crow_indices)?, indices(&self.col_indices)?);
        let width = shape.of_each?;
        if rows.len() != shape.rows + 1 || columns.len() != values.len() {
            return None;
        }
        let mut all = vec![T::default(); shape.count()];
        for (row, bounds) in rows.windows(2).enumerate() {
            let cells = bounds[0]..bounds[1];
            for (&column, &value) in columns.get(cells.clone())?.iter().zip(values.get(cells)?) {
                *all[row * width..][..width].get_mut(column)? = value;
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ForwardBackwardRequest;
    use prost::Message;
    use std::collections::BTreeMap;

    const BOUNDS: Bounds = Bounds { vocabulary: 23, context: 64 };

    /// The recorded requests to go forward and backward.
    fn recorded() -> Vec<Vec<u8>> {
        let text = include_str!("../tests/fixtures/session.jsonl");
        let bodies = text.lines().filter_map(|line| {
            let request: serde_json::Value = serde_json::from_str(line).unwrap();
            let hex = request["hex"].as_str()?.to_owned();
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            Some((0..hex.len()).step_by(2).map(byte).collect())
        });
        bodies.collect()
    }

    #[test]
    fn sparse_targets_are_read_as_dense_ones() {
        let bodies = recorded();
        let request = ForwardBackwardRequest::decode(&*bodies[3]).unwrap();
        let last = request.data.last().unwrap();
        let sparse = &last.loss_fn_inputs["target_tokens"];
        assert!(matches!(sparse.encoding, Some(Encoding::SparseCsr(_))));
        let examples = read(&request.data, Loss::CrossEntropy, BOUNDS).unwrap();
        let example = examples.last().unwrap();
        assert_eq!((&example.tokens[..], example.of_each), (&[3, 4, 5][..], Some(5)));
        assert_eq!(example.targets, [2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 5, 0, 0, 0, 0]);
        let weights = [1.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(example.inputs["weights"], weights);
        assert_eq!(bytes(std::slice::from_ref(last)), 4 * (3 + 15 + 15));
    }

    #[test]
    fn what_is_wrong_with_a_datum_is_named() {
        let request = ForwardBackwardRequest::decode(&*recorded()[1]).unwrap();
        let loss = Loss::of("importance_sampling", BTreeMap::new()).unwrap();
        let told = |change: &dyn Fn(&mut wire::Datum), what: &str| {
            let mut data = request.data.clone();
            change(&mut data[1]);
            let message = read(&data, loss, BOUNDS).unwrap_err().message;
            assert!(message.starts_with("datum 1: ") && message.contains(what), "{message}");
        };
        let tensor = |dtype, bytes, shape| Tensor {
            encoding: Some(Encoding::Dense(bytes)),
            dtype,
            shape: vec![shape],
        };
        let count = request.data[1].loss_fn_inputs["advantages"].shape[0];
        let zeros = |each: i64| vec![0; (count * each) as usize];
        let set = |name: &'static str, to: Tensor| {
            move |datum: &mut wire::Datum| _ = datum.loss_fn_inputs.insert(name.into(), to.clone())
        };
        told(&|datum| datum.model_input.clear(), "model_input has no tokens");
        told(&|datum| datum.model_input[0].encoded_text = None, "text alone");
        told(&|datum| _ = datum.loss_fn_inputs.remove("target_tokens"), "is missing");
        told(&|datum| _ = datum.loss_fn_inputs.remove("logprobs"), "needs logprobs");
        told(&set("mask", tensor(FLOAT32, zeros(4), count)), "no input \"mask\"");
        told(&set("advantages", tensor(INT64, zeros(8), count)), "are not float32");
        told(&set("advantages", tensor(FLOAT32, zeros(4), count - 1)), "not the shape");
        told(&set("advantages", tensor(FLOAT32, zeros(2), count)), "are not");
        told(&set("target_tokens", tensor(INT64, zeros(8), 1 << 40)), "has the shape");
        told(&set("target_tokens", tensor(INT64, vec![255; zeros(8).len()], count)), "token -1");
        let nan = [f32::NAN.to_le_bytes().to_vec(), zeros(4)[4..].to_vec()].concat();
        told(&set("advantages", tensor(FLOAT32, nan, count)), "NaN");
        assert!(read(&[], loss, BOUNDS).unwrap_err().message.contains("no data"));
    }

    /// Recorded requests with a byte changed, and cut off, are read or refused.
    #[test]
    fn damaged_requests_are_refused() {
        let mut refused = 0;
        for body in recorded() {
            for at in 0..body.len() {
                for change in [1, 0x80, 0xff] {
                    let mut damaged = body.clone();
                    damaged[at] ^= change;
                    let whole = ForwardBackwardRequest::decode(&*damaged);
                    let cut = ForwardBackwardRequest::decode(&body[..at]);
                    for request in [whole, cut].into_iter().flatten() {
                        let loss = Loss::of(&request.loss_fn, BTreeMap::new());
                        let read = loss.and_then(|loss| read(&request.data, loss, BOUNDS));
                        refused += usize::from(read.is_err());
                    }
                }
            }
        }
        assert!(refused > 1000, "{refused}");
    }
}

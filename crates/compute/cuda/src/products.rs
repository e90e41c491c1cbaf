//! Which products of a model the vendor's library computes. This is found out before a run begins.
//!
//! Otherwise each kind of product would be compared with chains at its first use, in the middle of
//! a run, when memory may be full and nobody reads messages. After an examination at the start, the
//! result stands in the run's first lines and in its manifest.

use crate::cuda::Cuda;
use crate::dtype::Dtype;
use crate::kernels::Pointer;
use crate::layout::{BLOCK, padded};
use crate::linear::{Direction, Matrix, Operands};
use crate::logits_blocks::LogitsBlocks;
use isentrope_kernels::Linear;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// A linear layer of a model's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its inputs and outputs.
    pub shape: Linear,
    /// Whether a bias or a residual is added to the outputs before they are rounded. If so, the
    /// product is f32. None for an adapter's layers, whose outputs no library computes.
    pub adds: Option<bool>,
}

/// The products of a model: which of them our own kernels compute, and which the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Products {
    /// The library, such as `cuBLASLt 13.1`, if one may be used.
    pub library: Option<String>,
    /// Every kind of product that was examined.
    pub kinds: Vec<ProductKind>,
}

/// A kind of product, and whether the library computes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProductKind {
    /// The product's name, such as `outputs of layers from 896 to 9728`.
    pub what: String,
    /// The reason why our own kernel computes the product; none if the library does.
    pub why_not: Option<String>,
}

impl fmt::Display for Products {
    /// A sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(library) = &self.library else {
            return write!(f, "the kernels of this program compute all products of matrices");
        };
        let left: Vec<_> = self.kinds.iter().filter(|kind| kind.why_not.is_some()).collect();
        let (all, by_library) = (self.kinds.len(), self.kinds.len() - left.len());
        write!(
            f,
            "{library} computes {by_library} of {all} kinds of products of matrices, to the bits \
             of chains"
        )?;
        if let Some(first) = left.first() {
            let why = first.why_not.as_deref().unwrap_or_default();
            write!(f, "; kernels of this program compute the others ({}: {why}", first.what)?;
            if left.len() > 1 {
                write!(f, "; and {} more", left.len() - 1)?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl Cuda {
    /// Finds out what computes the products of a model with these linear layers and this head. The
    /// head's gradient is computed for at most `rows` tokens at a time; 0 if the model only samples
    /// and scores. Call it before the model is loaded: comparing takes the memory of the largest
    /// layer's weights, and some gigabytes at most.
    pub fn examine_products(&self, layers: &[Layer], head: Linear, rows: usize) -> Products {
        let library = self.device.product_library().filter(|_| self.dtype == Dtype::Bf16);
        let mut kinds: Vec<ProductKind> = Vec::new();
        if library.is_some() {
            for (what, operands, direction) in asked_for(layers, head, self.logits_blocks, rows) {
                let why_not = match operands.as_product(direction) {
                    Some(product) => self.device.examine(&product).err(),
                    None => Some("its rows are no multiple of 16 bytes".to_owned()),
                };
                if kinds.iter().all(|kind| kind.what != what) {
                    kinds.push(ProductKind { what, why_not });
                }
            }
        }
        Products { library, kinds }
    }
}

/// Every kind of product in such a model's passes that the library may compute, with its layout in
/// memory.
fn asked_for(
    layers: &[Layer],
    head: Linear,
    blocks: LogitsBlocks,
    rows: usize,
) -> Vec<(String, Operands, Direction)> {
    let tokens = BLOCK;
    let mut all = Vec::new();
    for &Layer { shape: Linear { inputs, outputs }, adds } in layers {
        let [x, y] = [inputs, outputs].map(padded);
        if let Some(adds) = adds {
            let what = format!("outputs of layers from {inputs} to {outputs}");
            let stride = if adds { outputs } else { y };
            let product = operands([tokens, outputs, inputs], [x, x, stride]);
            all.push((what, product, Direction::Forward(adds)));
        }
        if rows == 0 {
            continue;
        }
        let what = format!("gradients of inputs of layers from {inputs} to {outputs}");
        all.push((what, operands([tokens, inputs, outputs], [y, x, x]), Direction::Input));
        let what = format!("gradients of weights {outputs} x {inputs}");
        all.push((what, operands([outputs, inputs, tokens], [y, x, x]), Direction::Weight(false)));
    }
    let (inputs, x) = (head.inputs, padded(head.inputs));
    let logits = |columns| operands([tokens, columns, inputs], [x, x, columns]);
    all.push((
        format!("logits of {} tokens", head.outputs),
        logits(head.outputs),
        Direction::Forward(true),
    ));
    for (first, columns) in head_blocks(head, blocks, rows) {
        let y = padded(columns);
        all.push((
            format!("logits of {columns} tokens"),
            logits(columns),
            Direction::Forward(true),
        ));
        if first {
            let what = format!("gradients of the head's inputs by {columns} logits");
            let product = operands([tokens, inputs, columns], [y, x, inputs]);
            all.push((what, product, Direction::HeadInput(false)));
        }
        let what = format!("gradients of the weights of {columns} logits");
        all.push((what, operands([columns, inputs, tokens], [y, x, x]), Direction::Weight(false)));
    }
    all
}

/// The widths of the vocabulary's blocks in the head's gradient, for any number of rows up to this
/// one. The flag tells a width of first blocks from a width of the last block only.
fn head_blocks(head: Linear, blocks: LogitsBlocks, rows: usize) -> BTreeSet<(bool, usize)> {
    let widths: BTreeSet<usize> = (1..=rows).map(|rows| blocks.columns(head, rows)).collect();
    let last = |width: &usize| (false, head.outputs % (*width).max(1));
    let last: Vec<_> = widths.iter().map(last).filter(|&(_, width)| width > 0).collect();
    widths.into_iter().map(|width| (true, width)).chain(last).collect()
}

/// Operands with these sizes, `[rows, columns, depth]`, and the strides of a, b and d.
fn operands([rows, columns, depth]: [usize; 3], strides: [usize; 3]) -> Operands {
    let [a, b, d] = strides.map(|stride| Matrix { start: Pointer::NULL, stride });
    Operands { a, b, d, rows, columns, depth }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_what_is_left_to_kernels() {
        let none = Products { library: None, kinds: Vec::new() };
        assert!(none.to_string().contains("all products"));
        let kind = |what: &str, why: Option<&str>| ProductKind {
            what: what.into(),
            why_not: why.map(Into::into),
        };
        let kinds = vec![kind("a", None), kind("b", Some("bits differ")), kind("c", Some("x"))];
        let said = Products { library: Some("cuBLASLt 13.1".into()), kinds }.to_string();
        assert!(said.starts_with("cuBLASLt 13.1 computes 1 of 3 kinds"), "{said}");
        assert!(said.ends_with("the others (b: bits differ; and 1 more)"), "{said}");
    }

    /// The blocks of the head's gradient are among the examined products, for any number of rows.
    #[test]
    fn blocks_of_the_head_are_known() {
        let head = Linear { inputs: 8, outputs: 151_936 };
        let known = head_blocks(head, LogitsBlocks::OF_A_GPU, 5000);
        for rows in [1, 7, 110, 111, 1000, 4097, 5000] {
            let width = LogitsBlocks::OF_A_GPU.columns(head, rows);
            for first in (0..head.outputs).step_by(width) {
                let here = width.min(head.outputs - first);
                assert!(
                    known.contains(&(first == 0, here)) || known.contains(&(true, here)),
                    "{rows} {here}"
                );
            }
        }
    }
}

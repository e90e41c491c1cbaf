//! Launches that are recorded for later.

use crate::device::{Device, Product};
use crate::kernels::{Argument, Function, Grid};
use isentrope_trace::call;
use std::mem;

/// One launch, or a product that may take its place.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A kernel's launch.
    Launch {
        /// The kernel.
        function: Function,
        /// Its blocks.
        grid: Grid,
        /// Its arguments.
        arguments: Vec<Argument>,
    },
    /// A product. If the device's library computes it, the launch after it is skipped.
    Product(Product),
}

impl PartialEq for Operation {
    /// Whether both are the same request to the device, to the bit.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Launch { function, grid, arguments },
                Self::Launch { function: other_function, grid: other_grid, arguments: others },
            ) => {
                let same =
                    |(a, b): (&Argument, &Argument)| a.kind() == b.kind() && a.bits() == b.bits();
                (function.name, function.source.file)
                    == (other_function.name, other_function.source.file)
                    && grid == other_grid
                    && arguments.len() == others.len()
                    && arguments.iter().zip(others).all(same)
            }
            (Self::Product(product), Self::Product(other)) => product == other,
            _ => false,
        }
    }
}

impl Eq for Operation {}

/// Carries out operations one after the other.
pub fn carry_out(device: &dyn Device, operations: &[Operation]) {
    let mut is_computed = false;
    for operation in operations {
        match operation {
            Operation::Product(product) => is_computed = compute(device, product),
            Operation::Launch { function, grid, arguments } => {
                if !mem::take(&mut is_computed) {
                    launch(device, function, *grid, arguments);
                }
            }
        }
    }
}

/// Launches a kernel, and shows it in traces.
pub(crate) fn launch(device: &dyn Device, function: &Function, grid: Grid, of: &[Argument]) {
    let _call = call("launch").named("kernel", function.name);
    device.launch(function, grid, of);
}

/// Asks the library for a product, and shows it in traces.
pub(crate) fn compute(device: &dyn Device, product: &Product) -> bool {
    let _call = call("product").with("rows", product.rows).with("columns", product.columns);
    device.product(product)
}

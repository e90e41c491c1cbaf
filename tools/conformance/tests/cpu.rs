//! The CPU keeps the contract, on every instruction set of this processor and any number of
//! threads, and computes in chains of fused multiply-adds.
#![allow(clippy::unwrap_used, reason = "what fails here is a test")]

use isentrope_conformance::{Subject, Variant, run, tests};
use isentrope_kernels::{Cpu, Isa, LOGITS_BLOCK};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // The fastest instruction set on two threads first.
    let machines =
        Isa::available().into_iter().flat_map(|isa| [2, 1, 3, 5].map(|threads| (isa, threads)));
    let variant = |(isa, threads)| Variant {
        name: format!("{isa}, {threads} threads"),
        fast: isa == Isa::available()[0],
        backend: Arc::new(Cpu::new(isa, threads).unwrap()),
    };
    run(tests("cpu", move || {
        Box::new(Chains { variants: machines.clone().map(variant).collect() })
    }))
}

/// The arithmetic of the CPU: one chain of fused multiply-adds after another.
struct Chains {
    variants: Vec<Variant>,
}

impl Subject for Chains {
    fn variants(&self) -> &[Variant] {
        &self.variants
    }
    fn in_small_blocks(&self) -> (Variant, usize) {
        // Its own blocks: it is quick enough.
        let backend = Arc::new(Cpu::new(Isa::available()[0], 2).unwrap());
        (Variant { name: "its own blocks".to_owned(), fast: true, backend }, LOGITS_BLOCK)
    }
}

//! Rust's declarations of kernels agree with their sources.

use isentrope_cuda::{FUNCTIONS, SOURCES};
use isentrope_cuda_emulator::{Emulator, Settings};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn kernels_take_what_their_files_say() {
    let device = Emulator::new(Settings::default());
    let mut declared: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for function in FUNCTIONS {
        assert!(
            declared.entry(function.source.file).or_default().insert(function.name),
            "{} twice",
            function.name
        );
    }
    for source in SOURCES {
        let signatures: BTreeMap<String, _> = device.signatures(source).into_iter().collect();
        let names: BTreeSet<&str> = signatures.keys().map(String::as_str).collect();
        assert_eq!(declared.get(source.file), Some(&names), "the kernels of {}", source.file);
        for function in FUNCTIONS.iter().filter(|function| function.source.file == source.file) {
            assert_eq!(
                function.parameters, signatures[function.name],
                "the parameters of {}",
                function.name
            );
        }
    }
}

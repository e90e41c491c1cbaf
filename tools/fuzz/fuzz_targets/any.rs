//! Runs the target that `ISENTROPE_FUZZ_TARGET` names.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = std::env::var("ISENTROPE_FUZZ_TARGET").expect("the name of a target");
    isentrope_fuzzing::run(&target, data);
});

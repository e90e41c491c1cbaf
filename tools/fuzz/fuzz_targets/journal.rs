#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| isentrope_fuzzing::run("journal", data));

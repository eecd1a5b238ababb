#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plural_fuzz::run("regular_expression", data));

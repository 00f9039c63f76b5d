#![no_main]

#[path = "../targets.rs"]
#[expect(dead_code, reason = "this program runs one of the targets")]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::consumers(bytes));

//! A word that nobody else can know.

use std::sync::OnceLock;

/// What no name, title or option can contain: it frames rows and fields.
pub(super) fn nonce() -> &'static str {
    static NONCE: OnceLock<String> = OnceLock::new();
    NONCE.get_or_init(|| {
        let mut bytes = [0u8; 8];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        if filled != Ok(bytes.len()) {
            // A kernel without random numbers: the address space is what is left of chance.
            let address = std::ptr::from_ref(&NONCE).addr() as u64;
            bytes = (address ^ u64::from(std::process::id()) << 40).to_le_bytes();
        }
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

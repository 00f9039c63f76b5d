//! A word that nobody else can know.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// What no name, title or option can contain: it frames rows and fields. Its randomness is that
/// of the standard library's hash keys, which come from the system.
pub(super) fn nonce() -> &'static str {
    static NONCE: OnceLock<String> = OnceLock::new();
    NONCE.get_or_init(|| format!("{:016x}", RandomState::new().hash_one(std::process::id())))
}

//! Unpredictable words.

use std::hash::{BuildHasher, RandomState};

/// Returns a new word that no output, name or option can contain. Its randomness is that of the
/// standard library's hash keys, which come from the system.
///
/// Once it has been on a command line or in an option, others may know it.
pub(super) fn nonce() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

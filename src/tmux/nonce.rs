//! Words that nobody else can know.

use std::hash::{BuildHasher, RandomState};

/// Returns a word that no output, name or option can contain, a new one each time. Its randomness is
/// that of the standard library's hash keys, which come from the system.
///
/// One that was on a command line or in an option is known to others from then on.
pub(super) fn nonce() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

//! Hashes in the names of files.

use sha2::{Digest, Sha256};

/// Returns the first `digits` hexadecimal digits of the hash of `bytes`.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .take(digits)
        .fold(String::with_capacity(digits), |mut text, nibble| {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            text
        })
}

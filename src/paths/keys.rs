//! The key of a session: the name of the folder that has its files.

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::files;

/// The folder of the links, beside the folders that they lead to.
pub(crate) const NAMES: &str = "names";

/// How many hexadecimal digits of a hash a key has.
const DIGITS: usize = 12;

/// The maximum length of the readable part of a key.
const LABEL: usize = 24;

/// Returns the key of the folder that a name leads to: by a link, else the name's own.
pub(super) fn key_of(root: &Path, server_socket: &Path, name: &str) -> String {
    let own = own_key(server_socket, name);
    linked(&root.join(NAMES).join(&own)).unwrap_or(own)
}

/// Returns the key to which a link of ours leads; `None` if there is none, or it leads elsewhere than to
/// a folder beside its own.
pub(super) fn linked(link: &Path) -> Option<String> {
    let target = files::read_link(link).ok()?;
    let key = target.to_str()?.strip_prefix("../")?;
    is_key(key).then(|| key.to_owned())
}

/// Whether this is a key, and thus the name of a file in the folder that it is looked for in.
pub(crate) fn is_key(text: &str) -> bool {
    let is_in_label = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.rsplit_once('-').is_some_and(|(label, digits)| {
        digits.len() == DIGITS
            && digits.chars().all(|c| c.is_ascii_hexdigit())
            && label.len() <= LABEL
            && label.chars().all(is_in_label)
    })
}

/// Returns the key after this one, for a session of the same name.
pub(crate) fn next_key(key: &str) -> String {
    let label = key.rsplit_once('-').map_or(key, |(label, _)| label);
    format!("{label}-{}", hex(key.as_bytes(), DIGITS))
}

/// Returns the key of a name by itself.
pub(super) fn own_key(server_socket: &Path, name: &str) -> String {
    let mut identity = server_socket.as_os_str().as_encoded_bytes().to_vec();
    identity.push(0);
    identity.extend_from_slice(name.as_bytes());
    let readable = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
        _ => '-',
    };
    let label: String = name.chars().map(readable).take(LABEL).collect();
    format!("{label}-{}", hex(&identity, DIGITS))
}

/// Returns the first `digits` hexadecimal digits of the hash of `bytes`.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let hash = Sha256::digest(bytes);
    let mut text: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    text
}

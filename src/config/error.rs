//! Errors of the configuration file.

use std::fmt::Display;
use std::io;
use std::path::Path;

use crate::files::{Fault, RefusedFile};
use crate::model::{Error, text};

/// Returns the error for a file that is not TOML, or contains an unknown key or an invalid value: the
/// problem in one line, including the key.
pub(super) fn invalid(path: &Path, line: u32, problem: impl Display) -> Error {
    Error::failed(format!("{}:{line}: {problem}", path.display()))
}

/// Returns the error for a file that exists and cannot be read, or that another user could have written.
/// `variable` can name another file.
pub(super) fn unreadable(path: &Path, error: &io::Error, variable: Option<&str>) -> Error {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(refused): Option<&RefusedFile> = refused else {
        let path = path.display();
        return Error::io(format_args!("{path}: could not be read"), error);
    };
    let advice = match (refused.fault, variable) {
        (Fault::Writable(_), _) => "; `chmod go-w` closes it".to_owned(),
        (_, Some(variable)) => format!("; name a file of yours with ${variable}"),
        (_, None) => String::new(),
    };
    Error::failed(format!("{refused}{advice}"))
}

/// The maximum length of what an error repeats, in characters.
const MAX_QUOTED_CHARS: usize = 100;

/// Returns a key, a value or a parser's message as an error repeats it: one sanitised line.
pub(super) fn quotable(text: &str) -> String {
    text::one_line(text.as_bytes(), MAX_QUOTED_CHARS)
}

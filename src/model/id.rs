//! What things are called: tmux's ids as types, in tmux's own spelling (`@12`, `%15`, `$3`), and names.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

fn parse(sigil: char, text: &str) -> Result<u32, String> {
    text.strip_prefix(sigil)
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| format!("`{text}` is not a tmux id like `{sigil}12`"))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $sigil:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($sigil, "{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                parse($sigil, text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    };
}

id!(
    /// A window, and therefore a task. Unique during the life of one tmux server.
    WindowId,
    '@'
);
id!(
    /// A pane. The lowest id of a window is its primary pane, which represents the task.
    PaneId,
    '%'
);
id!(
    /// A session. It does not change when the session is renamed.
    SessionId,
    '$'
);

/// Which names tasks can have, in words.
pub const TASK_NAME_RULE: &str = "1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit";

/// Whether a task can be started with this name.
pub fn is_task_name(name: &str) -> bool {
    is_name(name, 40, "._-")
}

/// Whether this has at most so many characters, ASCII letters, digits and these marks, and the first is a
/// letter or digit.
pub(crate) fn is_name(text: &str, most: usize, marks: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts && text.len() <= most && text.chars().all(is_part)
}

/// Checks the name of a consumer, which is also the name of its file: 1 to 120 of `A-Za-z0-9._:-`, the
/// first a letter or digit. A conversation's consumer is named after its owner, `CLIENT:ID`.
pub fn check_consumer_name(name: &str) -> Result<(), String> {
    if is_name(name, 120, "._:-") {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a consumer name: 1 to 120 of `A-Z a-z 0-9 . _ : -`, the first a letter or digit",
        name.escape_debug()
    ))
}

/// Displays types by the name under which they are serialised.
macro_rules! shown_by_wire_name {
    ($($shown:ty),+) => {$(
        impl std::fmt::Display for $shown {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    )+};
}

pub(crate) use shown_by_wire_name;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_printed_in_tmux_spelling_and_order_as_numbers() {
        assert_eq!("@12".parse(), Ok(WindowId(12)));
        assert_eq!(PaneId(3).to_string(), "%3");
        assert_eq!(SessionId(0).to_string(), "$0");
        assert!(WindowId(9) < WindowId(10));
        for text in ["", "@", "12", "%12", "@+1", "@-1", "@1x", "@99999999999"] {
            assert!(text.parse::<WindowId>().is_err(), "{text:?}");
        }
    }
}

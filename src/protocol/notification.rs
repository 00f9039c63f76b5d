//! Notifications of control mode, which tmux sends without being asked.

use std::str::FromStr;

use crate::model::{PaneId, SessionId, WindowId};

/// A line outside of any frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// A window was linked to the client's session.
    WindowAdd(WindowId),
    /// A window was closed or unlinked, in the client's session or another one. tmux up to 3.7
    /// reports most closed windows as unlinked ones.
    WindowClose(WindowId),
    /// A window was created in another session.
    UnlinkedWindowAdd(WindowId),
    /// A window of the client's session was renamed.
    WindowRenamed(WindowId),
    /// A window of other sessions only was renamed.
    UnlinkedWindowRenamed(WindowId),
    /// The panes of a window were moved or resized.
    LayoutChange(WindowId),
    /// The client is attached to this session from now on.
    SessionChanged(SessionId),
    /// A session was renamed.
    SessionRenamed(SessionId),
    /// A session was created or destroyed.
    SessionsChanged,
    /// A pane's program wrote these bytes.
    Output {
        /// The pane.
        pane: PaneId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A pane's program wrote these bytes. Reported with their age, because `pause-after` is set.
    ExtendedOutput {
        /// The pane.
        pane: PaneId,
        /// How long tmux had buffered them, in milliseconds.
        age_ms: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The pane's output is paused for this client.
    Pause(PaneId),
    /// The pane's output continues for this client.
    Continue(PaneId),
    /// The connection ends. Holds tmux's reason, or is empty.
    Exit(String),
    /// `display-message` for this client.
    Message(String),
    /// Anything else, verbatim. Outside of a frame this includes tmux's rejection of a whole
    /// command line.
    Other(Vec<u8>),
}

impl Notification {
    /// Parses one line.
    pub fn parse(line: &[u8]) -> Self {
        parse_known(line).unwrap_or_else(|| Self::Other(line.to_vec()))
    }
}

fn parse_known(line: &[u8]) -> Option<Notification> {
    let (word, rest) = split_word(line);
    Some(match word {
        b"%window-add" => Notification::WindowAdd(id(rest)?),
        b"%window-close" | b"%unlinked-window-close" => Notification::WindowClose(id(rest)?),
        b"%unlinked-window-add" => Notification::UnlinkedWindowAdd(id(rest)?),
        b"%window-renamed" => Notification::WindowRenamed(id(rest)?),
        b"%unlinked-window-renamed" => Notification::UnlinkedWindowRenamed(id(rest)?),
        b"%layout-change" => Notification::LayoutChange(id(rest)?),
        b"%session-changed" => Notification::SessionChanged(id(rest)?),
        b"%session-renamed" => Notification::SessionRenamed(id(rest)?),
        b"%sessions-changed" => Notification::SessionsChanged,
        b"%output" => Notification::Output {
            pane: id(rest)?,
            bytes: decode_octal(split_word(rest).1),
        },
        b"%extended-output" => {
            let (pane, rest) = split_word(rest);
            let (age, rest) = split_word(rest);
            // Fields of later versions are before the colon.
            let colon = rest.windows(2).position(|pair| pair == b": ")?;
            Notification::ExtendedOutput {
                pane: id(pane)?,
                age_ms: std::str::from_utf8(age).ok()?.parse().ok()?,
                bytes: decode_octal(rest.get(colon + 2..)?),
            }
        }
        b"%pause" => Notification::Pause(id(rest)?),
        b"%continue" => Notification::Continue(id(rest)?),
        b"%exit" => Notification::Exit(String::from_utf8_lossy(rest).into_owned()),
        b"%message" => Notification::Message(String::from_utf8_lossy(rest).into_owned()),
        _ => return None,
    })
}

fn split_word(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|b| *b == b' ') {
        Some(blank) => (&bytes[..blank], &bytes[blank + 1..]),
        None => (bytes, &[]),
    }
}

/// Parses the id in the first word.
fn id<T: FromStr>(rest: &[u8]) -> Option<T> {
    std::str::from_utf8(split_word(rest).0).ok()?.parse().ok()
}

/// Decodes tmux's escaping of output: `\` and three octal digits for a byte.
fn decode_octal(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if first == b'\\' => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Notification) {
        assert_eq!(Notification::parse(line.as_bytes()), expected);
    }

    #[test]
    fn known_lines_are_read() {
        check("%window-add @3", Notification::WindowAdd(WindowId(3)));
        check("%window-close @3", Notification::WindowClose(WindowId(3)));
        check(
            "%unlinked-window-close @3",
            Notification::WindowClose(WindowId(3)),
        );
        check(
            "%unlinked-window-add @3",
            Notification::UnlinkedWindowAdd(WindowId(3)),
        );
        check(
            "%window-renamed @3 a b",
            Notification::WindowRenamed(WindowId(3)),
        );
        check(
            "%unlinked-window-renamed @3 a b",
            Notification::UnlinkedWindowRenamed(WindowId(3)),
        );
        check(
            "%session-renamed $1 a b",
            Notification::SessionRenamed(SessionId(1)),
        );
        check(
            "%layout-change @3 b25d,80x24,0,0,0 b25d,80x24,0,0,0 *",
            Notification::LayoutChange(WindowId(3)),
        );
        check(
            "%session-changed $1 S",
            Notification::SessionChanged(SessionId(1)),
        );
        check("%sessions-changed", Notification::SessionsChanged);
        check("%pause %7", Notification::Pause(PaneId(7)));
        check("%continue %7", Notification::Continue(PaneId(7)));
        check("%exit", Notification::Exit(String::new()));
        check(
            "%exit server exited",
            Notification::Exit("server exited".into()),
        );
        check(
            "%message hi there",
            Notification::Message("hi there".into()),
        );
        let bytes = b"a\\b\x07\x1b[0m \n".to_vec();
        check(
            "%output %1 a\\134b\\007\\033[0m \\012",
            Notification::Output {
                pane: PaneId(1),
                bytes: bytes.clone(),
            },
        );
        check(
            "%extended-output %1 42 : a\\134b\\007\\033[0m \\012",
            Notification::ExtendedOutput {
                pane: PaneId(1),
                age_ms: 42,
                bytes,
            },
        );
    }

    #[test]
    fn anything_else_is_kept_as_it_came() {
        for line in [
            "",
            "%",
            "%window-add",
            "%window-add 3",
            "unknown command: x",
            "%pause @1",
        ] {
            check(line, Notification::Other(line.as_bytes().to_vec()));
        }
    }

    #[test]
    fn a_half_escape_stays() {
        assert_eq!(decode_octal(b"\\01"), b"\\01");
        assert_eq!(decode_octal(b"\\"), b"\\");
        assert_eq!(decode_octal(b"\\400"), b"\\400");
    }
}

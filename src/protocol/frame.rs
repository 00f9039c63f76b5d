//! A command's reply in control mode.

/// tmux's reply to one command: the lines between `%begin` and its `%end` or `%error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The server's clock when the command ran, in seconds since 1970.
    pub time: i64,
    /// The command's number, unique within the server.
    pub number: u64,
    /// 1 for commands that the control client sent itself, 0 for others: those of a client that is
    /// not attached, and those that hooks inject.
    pub flags: u32,
    /// Whether it ended with `%end`.
    pub ok: bool,
    /// The lines, without their line ends.
    pub body: Vec<Vec<u8>>,
}

impl Frame {
    /// Returns the body as one text. Bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body.join(&b'\n')).into_owned()
    }
}

#[cfg(test)]
impl Frame {
    /// Returns the reply of a command that has printed this.
    pub(crate) fn printed(text: &str) -> Self {
        Self {
            time: 0,
            number: 1,
            flags: 1,
            ok: true,
            body: text.lines().map(|line| line.as_bytes().to_vec()).collect(),
        }
    }
}

/// The numbers of a guard line: `%begin TIME NUMBER FLAGS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guard {
    pub(super) time: i64,
    pub(super) number: u64,
    pub(super) flags: u32,
}

impl Guard {
    /// Parses what follows the first word of a guard line.
    pub(super) fn parse(rest: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(rest).ok()?.split(' ');
        let guard = Self {
            time: fields.next()?.parse().ok()?,
            number: fields.next()?.parse().ok()?,
            flags: fields.next()?.parse().ok()?,
        };
        fields.next().is_none().then_some(guard)
    }
}

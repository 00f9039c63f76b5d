//! Parses the bytes of a control client into frames and notifications, wherever the bytes are cut.

use std::collections::VecDeque;
use std::str::FromStr;

use memchr::memchr;

use crate::model::{PaneId, SessionId, WindowId};

/// How many bytes of one line are kept. tmux writes no line longer than a few hundred kilobytes (a
/// pane's output in one read, a long user option). Anything longer is broken or hostile and loses
/// its tail, so that it cannot use up the memory.
pub const LINE_LIMIT: usize = 4 << 20;

/// One item of tmux's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlItem {
    /// The reply to one command.
    Frame(Frame),
    /// A notification.
    Notification(Notification),
}

/// An incremental parser of control mode. It never fails: what it does not know is
/// [`Notification::Other`].
#[derive(Debug, Default)]
pub struct Parser {
    /// The line being read, at most [`LINE_LIMIT`] bytes.
    line: Vec<u8>,
    /// The frame whose end has not arrived. Its body is as large as tmux's reply to one of our
    /// commands.
    open: Option<Frame>,
    /// What was parsed and not yet taken.
    ready: VecDeque<ControlItem>,
}

impl Parser {
    /// Parses more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            self.extend_line(&rest[..end]);
            let line = std::mem::take(&mut self.line);
            self.finish_line(line);
            rest = &rest[end + 1..];
        }
        self.extend_line(rest);
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        let room = LINE_LIMIT.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn finish_line(&mut self, line: Vec<u8>) {
        let Some(mut frame) = self.open.take() else {
            match line.strip_prefix(b"%begin ").and_then(guard) {
                Some((time, number, flags)) => {
                    self.open = Some(Frame {
                        time,
                        number,
                        flags,
                        ok: false,
                        body: Vec::new(),
                    });
                }
                None => self
                    .ready
                    .push_back(ControlItem::Notification(Notification::parse(&line))),
            }
            return;
        };
        // Text from panes may look like a guard: only the open frame's own numbers end it.
        let numbers = Some((frame.time, frame.number, frame.flags));
        let ends = |word: &[u8]| line.strip_prefix(word).and_then(guard) == numbers;
        frame.ok = ends(b"%end ");
        if frame.ok || ends(b"%error ") {
            self.ready.push_back(ControlItem::Frame(frame));
        } else {
            frame.body.push(line);
            self.open = Some(frame);
        }
    }
}

/// Returns the parsed items in order; `None` until more is pushed.
impl Iterator for Parser {
    type Item = ControlItem;

    fn next(&mut self) -> Option<ControlItem> {
        self.ready.pop_front()
    }
}

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

/// Returns the numbers of a guard line, which follow its first word: `TIME NUMBER FLAGS`.
fn guard(rest: &[u8]) -> Option<(i64, u64, u32)> {
    let mut fields = std::str::from_utf8(rest).ok()?.split(' ');
    let time = fields.next()?.parse().ok()?;
    let number = fields.next()?.parse().ok()?;
    let flags = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some((time, number, flags))
}

/// A line outside of any frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// A window was linked to the client's session.
    WindowAdd(WindowId),
    /// A window was closed or unlinked, in the client's session or another one. tmux up to 3.7
    /// reports most closed windows as unlinked ones.
    WindowClose(WindowId),
    /// A window of the client's session was renamed.
    WindowRenamed(WindowId),
    /// The panes of a window were moved or resized.
    LayoutChange(WindowId),
    /// The client is attached to this session from now on.
    SessionChanged(SessionId),
    /// A session was renamed.
    SessionRenamed(SessionId),
    /// A pane's program wrote these bytes.
    Output {
        /// The pane.
        pane: PaneId,
        /// How long tmux had buffered them, in milliseconds; 0 where `pause-after` is not set.
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
    /// Anything else, verbatim: what concerns other sessions, and outside of a frame also tmux's rejection of
    /// a whole command line.
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
        b"%window-renamed" => Notification::WindowRenamed(id(rest)?),
        b"%layout-change" => Notification::LayoutChange(id(rest)?),
        b"%session-changed" => Notification::SessionChanged(id(rest)?),
        b"%session-renamed" => Notification::SessionRenamed(id(rest)?),
        b"%output" => Notification::Output {
            pane: id(rest)?,
            age_ms: 0,
            bytes: decode_octal(split_word(rest).1),
        },
        b"%extended-output" => {
            let (pane, rest) = split_word(rest);
            let (age, rest) = split_word(rest);
            // Fields of later versions are before the colon.
            let colon = rest.windows(2).position(|pair| pair == b": ")?;
            Notification::Output {
                pane: id(pane)?,
                age_ms: std::str::from_utf8(age).ok()?.parse().ok()?,
                bytes: decode_octal(rest.get(colon + 2..)?),
            }
        }
        b"%pause" => Notification::Pause(id(rest)?),
        b"%continue" => Notification::Continue(id(rest)?),
        b"%exit" => Notification::Exit(String::from_utf8_lossy(rest).into_owned()),
        _ => return None,
    })
}

fn split_word(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|b| *b == b' ') {
        Some(blank) => (&bytes[..blank], &bytes[blank + 1..]),
        None => (bytes, &[]),
    }
}

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
    use crate::model::{PaneId, SessionId, WindowId};
    use proptest::prelude::*;

    const FIXTURES: [&[u8]; 4] = [
        include_bytes!("../../../tests/fixtures/control/3.3a-look.txt"),
        include_bytes!("../../../tests/fixtures/control/3.3a-window-close.txt"),
        include_bytes!("../../../tests/fixtures/control/3.3a-error.txt"),
        include_bytes!("../../../tests/fixtures/control/3.3a-output.txt"),
    ];

    /// The same commands in a session of each version: windows and sessions come, go and get other
    /// names, a pane prints, is paused and continued, and two commands are refused.
    const SESSIONS: [&[u8]; 4] = [
        include_bytes!("../../../tests/fixtures/control/3.3a-session.txt"),
        include_bytes!("../../../tests/fixtures/control/3.5a-session.txt"),
        include_bytes!("../../../tests/fixtures/control/3.7c-session.txt"),
        include_bytes!("../../../tests/fixtures/control/3.8-session.txt"),
    ];

    /// The last one is the development branch.
    const VERSIONS: [&str; 4] = ["3.3a", "3.5a", "3.7c", "3.8"];

    fn read(bytes: &[u8]) -> Vec<ControlItem> {
        let mut parser = Parser::default();
        parser.push(bytes);
        parser.collect()
    }

    fn parts(bytes: &[u8]) -> (Vec<Notification>, Vec<Frame>) {
        let (mut notifications, mut frames) = (Vec::new(), Vec::new());
        for item in read(bytes) {
            match item {
                ControlItem::Notification(notification) => notifications.push(notification),
                ControlItem::Frame(frame) => frames.push(frame),
            }
        }
        (notifications, frames)
    }

    #[test]
    fn each_command_has_a_frame_with_all_that_it_prints() {
        let (_, frames) = parts(FIXTURES[0]);
        assert_eq!(frames.len(), 4);
        assert!(frames.iter().all(|frame| frame.ok && frame.flags == 0));
        assert_eq!(frames.last().unwrap().text(), "the end");
        // The guards of others are text.
        let text = frames[2].text();
        assert!(text.contains("%end 1 1 1\n%error 1 2 3"), "{text}");
        // An error ends its frame and its line.
        let (_, frames) = parts(FIXTURES[2]);
        let found = frames.iter().map(|frame| (frame.ok, frame.text()));
        let expected = [(true, "before"), (false, "can't find session: $99")];
        let expected = expected.map(|(ok, text)| (ok, text.to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_version_reports_the_same_session() {
        use Notification::{Continue, Exit, LayoutChange, Other, Output, Pause};
        use Notification::{SessionChanged, SessionRenamed, WindowAdd, WindowClose, WindowRenamed};
        for (version, bytes) in VERSIONS.into_iter().zip(SESSIONS) {
            let mut printed = Vec::new();
            let mut others = Vec::new();
            for notification in parts(bytes).0 {
                match notification {
                    Output { pane, bytes, .. } => {
                        assert_eq!(pane, PaneId(0), "{version}");
                        printed.extend(bytes);
                    }
                    // Up to 3.7c within the answer to the command that asked for them.
                    Pause(_) | Continue(_) => assert_eq!(version, "3.8"),
                    Other(_) => {}
                    notification @ (SessionChanged(_) | SessionRenamed(_) | WindowAdd(_)
                    | WindowClose(_) | WindowRenamed(_) | LayoutChange(_)
                    | Exit(_)) => {
                        others.push(notification);
                    }
                }
            }
            // How output is cut into notifications differs, and so does where they stand among others.
            let text = String::from_utf8(printed).unwrap();
            assert_eq!(text, "é\r\né\r\n^[[31m\r\n\u{1b}[31m\r\n", "{version}");
            let expected = [
                SessionChanged(SessionId(0)),
                LayoutChange(WindowId(0)),
                WindowAdd(WindowId(1)),
                WindowRenamed(WindowId(0)),
                LayoutChange(WindowId(0)),
                LayoutChange(WindowId(0)),
                SessionRenamed(SessionId(0)),
                WindowClose(WindowId(2)),
                WindowClose(WindowId(1)),
                Exit(String::new()),
            ];
            assert_eq!(others, expected, "{version}");
        }
    }

    #[test]
    fn every_version_frames_each_answer_and_each_refusal() {
        for (version, bytes) in VERSIONS.into_iter().zip(SESSIONS) {
            let (_, frames) = parts(bytes);
            let mut marks: Vec<String> = frames.iter().map(Frame::text).collect();
            marks.retain(|text| text.starts_with("mark"));
            let expected: Vec<String> = (1..=19).map(|n| format!("mark{n}")).collect();
            assert_eq!(marks, expected, "{version}");
            let refused = frames.iter().filter(|frame| !frame.ok).map(Frame::text);
            let expected = ["parse error: unknown command: no-such-command"];
            assert_eq!(refused.collect::<Vec<_>>(), expected, "{version}");
        }
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut parser = Parser::default();
        for _ in 0..6 {
            parser.push(&vec![b'x'; 1 << 20]);
        }
        assert!(parser.line.len() <= LINE_LIMIT);
        parser.push(b"\n%window-add @1\n");
        let added = Notification::WindowAdd(WindowId(1));
        assert_eq!(parser.nth(1), Some(ControlItem::Notification(added)));
    }

    fn output() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            Just(b"%begin 1 2 1\n".to_vec()),
            Just(b"%end 1 2 1\n".to_vec()),
            Just(b"%error 1 2 1\n".to_vec()),
            Just(b"%end 1 3 1\n".to_vec()),
            Just(b"%output %1 \\033x\n".to_vec()),
            Just(b"%window-add @1\n".to_vec()),
            any::<Vec<u8>>(),
        ];
        let lines = proptest::collection::vec(line, 0..40).prop_map(|lines| lines.concat());
        let fixture = prop::sample::select(FIXTURES.to_vec()).prop_map(<[u8]>::to_vec);
        prop_oneof![lines, fixture]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn cutting_anywhere_changes_nothing(bytes in output(), cuts: Vec<u8>) {
            let mut parser = Parser::default();
            let mut items = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts {
                let (head, tail) = rest.split_at(usize::from(cut).min(rest.len()));
                parser.push(head);
                items.extend(parser.by_ref());
                rest = tail;
            }
            parser.push(rest);
            items.extend(parser);
            prop_assert_eq!(items, read(&bytes));
        }
    }

    #[test]
    fn known_lines_are_read_and_anything_else_is_kept_as_it_came() {
        use Notification::{Continue, Exit, LayoutChange, Other, Output, Pause};
        use Notification::{SessionChanged, SessionRenamed, WindowAdd, WindowClose, WindowRenamed};
        let (session, window, pane) = (SessionId(1), WindowId(3), PaneId(7));
        let output = |age_ms| Output {
            pane,
            age_ms,
            bytes: b"a\\b\x07\x1b[0m \n".to_vec(),
        };
        for (line, expected) in [
            ("%window-add @3", WindowAdd(window)),
            ("%window-close @3", WindowClose(window)),
            ("%unlinked-window-close @3", WindowClose(window)),
            ("%window-renamed @3 a b", WindowRenamed(window)),
            ("%session-renamed $1 a b", SessionRenamed(session)),
            ("%layout-change @3 b25d,80x24 b25d *", LayoutChange(window)),
            ("%session-changed $1 S", SessionChanged(session)),
            ("%pause %7", Pause(pane)),
            ("%continue %7", Continue(pane)),
            ("%exit", Exit(String::new())),
            ("%exit server exited", Exit("server exited".to_owned())),
            (r"%output %7 a\134b\007\033[0m \012", output(0)),
            (
                r"%extended-output %7 42 : a\134b\007\033[0m \012",
                output(42),
            ),
        ] {
            assert_eq!(Notification::parse(line.as_bytes()), expected, "{line}");
        }
        for line in [
            "",
            "%",
            "%window-add",
            "%window-add 3",
            "unknown command: x",
            "%unlinked-window-add @3",
            "%unlinked-window-renamed @3 a b",
            "%sessions-changed",
            "%message hi there",
            "%pause @1",
        ] {
            let line = line.as_bytes();
            assert_eq!(Notification::parse(line), Other(line.to_vec()));
        }
    }

    #[test]
    fn a_half_escape_stays() {
        for half in [r"\01", r"\", r"\400"] {
            assert_eq!(decode_octal(half.as_bytes()), half.as_bytes());
        }
    }
}

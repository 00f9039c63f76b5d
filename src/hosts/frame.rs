//! What is said on a channel. On the socket of the link a connection is one channel, and a frame one
//! line of JSON: `{"stdout":"..."}`. On the pipe to the far side the line begins with the channel's
//! number: `{"c":3,"stdout":"..."}`. The link adds and removes it, and reads nothing else.
//!
//! Channel 0 of the pipe is the far side itself, which says `hello` first.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::far_call::FarCall;
use crate::model::Error;

/// The version of the frames. It is raised when a frame changes so that the previous version would
/// misread it.
pub(super) const FRAMES: u32 = 1;

/// The most bytes of a line: the arguments of a command can be as long as the kernel takes.
pub(super) const MAX_LINE: usize = 16 << 20;

/// The most bytes of one chunk.
pub(super) const CHUNK: usize = 32 << 10;

/// How many chunks each side may have sent, in all streams of a channel, that the other side has not
/// taken yet ([`Frame::More`]). So a reader that is slow stops its own command and no other.
pub(super) const WINDOW: usize = 16;

/// What is said on a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Frame {
    /// From the far side, first, before any channel is opened; from the link to each client.
    Hello(Hello),
    /// From the near side, first on a channel: execute this.
    Open(Box<FarCall>),
    /// For the standard input of what is executed.
    Stdin(Chunk),
    /// Its standard input is closed.
    StdinEnd {},
    /// It gets this signal.
    Signal(i32),
    /// So many more chunks can be sent in the other direction.
    More(u32),
    /// The near side has left: what is executed is terminated.
    Close {},
    /// Its output.
    Stdout(Chunk),
    Stderr(Chunk),
    /// It has ended, with this exit code (128+N for signal N). The last frame of a channel.
    Exit(u8),
    /// It was not executed: `{"why":"...","hint":"..."}`. The last frame of a channel.
    Failed(#[serde(with = "failure")] Error),
}

/// An error between machines, which do not distinguish kinds: why, and what to do about it.
mod failure {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::model::{Error, ErrorKind};

    #[derive(Serialize, Deserialize)]
    struct Failure<S> {
        why: S,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<S>,
    }

    pub(super) fn serialize<S: Serializer>(error: &Error, to: S) -> Result<S::Ok, S::Error> {
        let (why, hint) = (error.message.as_str(), error.hint.as_deref());
        Failure { why, hint }.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Error, D::Error> {
        let Failure { why, hint } = Failure::<String>::deserialize(from)?;
        let mut error = Error::new(ErrorKind::Failed, why);
        error.hint = hint;
        Ok(error)
    }
}

/// Which program answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hello {
    /// The version of its frames.
    pub(crate) frames: u32,
    /// Its own version.
    pub(crate) version: String,
}

impl Hello {
    /// Returns this program's.
    pub(crate) fn ours() -> Self {
        Self {
            frames: FRAMES,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Chunk {
    Text(String),
    /// What is not UTF-8, or was cut within a character.
    Bytes(Vec<u8>),
}

impl Chunk {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(bytes.to_vec()),
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl Frame {
    /// Returns the line, including its end.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a frame is plain data");
        line.push(b'\n');
        line
    }

    /// Reads a line.
    pub(super) fn parse(line: &[u8]) -> io::Result<Self> {
        serde_json::from_slice(line)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// Returns the line of a channel: a frame's line with the channel's number in it.
pub(super) fn to_channel(channel: u32, line: &[u8]) -> Option<Vec<u8>> {
    let rest = line.strip_prefix(b"{")?;
    let mut numbered = format!("{{\"c\":{channel},").into_bytes();
    numbered.extend_from_slice(rest);
    if !numbered.ends_with(b"\n") {
        numbered.push(b'\n');
    }
    Some(numbered)
}

/// Returns the channel of a line, and the frame's line without it.
pub(super) fn of_channel(line: &[u8]) -> Option<(u32, Vec<u8>)> {
    let rest = line.strip_prefix(b"{\"c\":")?;
    let end = rest.iter().position(|byte| *byte == b',')?;
    let channel = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((channel, [b"{", &rest[end + 1..]].concat()))
}

/// Reads lines of limited length.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    is_whole: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader: BufReader::with_capacity(2 * CHUNK, reader),
            line: Vec::new(),
            is_whole: false,
        }
    }

    /// Returns the next line, including its end; `None` at the end of the stream, where a line without
    /// an end is lost.
    ///
    /// # Cancel safety
    ///
    /// No byte is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When reading fails, or the line is too long.
    pub(super) async fn line(&mut self) -> io::Result<Option<&[u8]>> {
        if std::mem::take(&mut self.is_whole) {
            self.line.clear();
        }
        while !self.is_whole {
            let bytes = self.reader.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            self.line.extend_from_slice(&bytes[..taken]);
            self.reader.consume(taken);
            self.is_whole = end.is_some();
            if self.line.len() > MAX_LINE {
                let why = "a line is too long";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
        Ok(Some(&self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_lines_with_the_channel_in_front() {
        let frames = [
            (
                Frame::Stdout(Chunk::of(b"a\n\"b\"")),
                r#"{"stdout":"a\n\"b\""}"#,
            ),
            (Frame::Stderr(Chunk::of(b"\xff,")), r#"{"stderr":[255,44]}"#),
            (Frame::StdinEnd {}, r#"{"stdinEnd":{}}"#),
            (Frame::Signal(2), r#"{"signal":2}"#),
            (Frame::Exit(130), r#"{"exit":130}"#),
        ];
        for (frame, expected) in frames {
            let line = frame.line();
            assert_eq!(line, format!("{expected}\n").into_bytes());
            let numbered = to_channel(7, &line).unwrap();
            assert!(numbered.starts_with(b"{\"c\":7,"), "{numbered:?}");
            let as_json: serde_json::Value = serde_json::from_slice(&numbered).unwrap();
            assert_eq!(as_json["c"], 7);
            let (channel, rest) = of_channel(&numbered).unwrap();
            assert_eq!((channel, &rest), (7, &line));
            assert_eq!(Frame::parse(&rest).unwrap(), frame);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for line in [
            &b""[..],
            b"{}",
            b"[1]",
            b"{\"c\":-1,\"exit\":0}",
            b"{\"c\":4294967296,\"exit\":0}",
            b"{\"c\":1}",
            b"{\"exit\":0}",
        ] {
            assert_eq!(of_channel(line), None, "{line:?}");
        }
        for line in [
            r#"{"exit":256}"#,
            r#"{"fly":1}"#,
            r#""close""#,
            "{\"exit\":0",
        ] {
            assert!(Frame::parse(line.as_bytes()).is_err(), "{line}");
        }
        assert_eq!(to_channel(1, b"exit"), None);
    }

    #[tokio::test]
    async fn lines_are_read_whole_and_bounded() {
        let mut reader = LineReader::new(&b"a\n\nlost"[..]);
        assert_eq!(reader.line().await.unwrap(), Some(&b"a\n"[..]));
        assert_eq!(reader.line().await.unwrap(), Some(&b"\n"[..]));
        assert_eq!(reader.line().await.unwrap(), None);
        let endless = tokio::io::repeat(b'x');
        assert!(LineReader::new(endless).line().await.is_err());
    }
}

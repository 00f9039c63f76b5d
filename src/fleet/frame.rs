//! What a host answers to a command: one object a message, `{"stdout":"..."}`.

use serde::{Deserialize, Serialize};

use crate::hosts::OURS;
use crate::model::Error;

/// The version of the frames. It is raised when a frame changes so that the previous version would
/// misread it.
const FRAMES: u32 = 1;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Frame {
    /// The first one.
    Hello(Hello),
    /// The command's output.
    Stdout(Chunk),
    Stderr(Chunk),
    /// It has ended, with this exit code (128+N for signal N). The last one.
    Exit(u8),
    /// It was not executed: `{"why":"...","hint":"..."}`. The last one.
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
pub(super) struct Hello {
    /// The version of its frames.
    pub(super) frames: u32,
    /// Its own version.
    pub(super) version: String,
}

impl Hello {
    /// Returns this program's.
    pub(super) fn ours() -> Self {
        Self {
            frames: FRAMES,
            version: OURS.to_owned(),
        }
    }
}

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Chunk {
    Text(String),
    /// What is not UTF-8, or was cut within a character.
    Bytes(Vec<u8>),
}

impl Chunk {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_objects() {
        let frames = [
            (
                Frame::Stdout(Chunk::of(b"a\n\"b\"".to_vec())),
                r#"{"stdout":"a\n\"b\""}"#,
            ),
            (
                Frame::Stderr(Chunk::of(b"\xff,".to_vec())),
                r#"{"stderr":[255,44]}"#,
            ),
            (Frame::Exit(130), r#"{"exit":130}"#),
        ];
        for (frame, expected) in frames {
            assert_eq!(serde_json::to_string(&frame).unwrap(), expected);
            assert_eq!(serde_json::from_str::<Frame>(expected).unwrap(), frame);
        }
    }
}

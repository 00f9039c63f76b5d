//! A command to another host: the requester's side of what `service.rs` executes, and what a host
//! answers: one object a message, `{"stdout":"..."}`.

use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subscriber};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::connection::{ANSWER_LIMIT, Connection, FleetError, bucket_stream};
use super::layout::{
    HOSTS_BUCKET, HostState, KEY_HEADER, ORDER_HEADER, bucket_subject, command_subject, parse,
    token,
};
use crate::hosts::{FarCall, FarOutput, OURS, lost};
use crate::model::Error;

/// How long a host may be silent that executes a command: it asks more often whether the requester is
/// still there.
const SILENCE: Duration = Duration::from_secs(30);

/// What a host answers to a command. Dropping it ends the command there, within some seconds.
pub(crate) struct HostAnswers {
    answers: Subscriber,
    connection: Connection,
    host: String,
    n_answers: u64,
}

/// What is known of a host of which nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It is no host of the fleet.
    Unknown,
    /// It executes nothing for others.
    AllowsNothing,
    /// It is not there now.
    Gone,
}

impl HostAnswers {
    /// Asks a host to execute a call in this session; `None` if nobody answers there, which the broker
    /// says at once.
    pub(crate) async fn ask(
        connection: &Connection,
        host: &str,
        session: &str,
        verb: &str,
        call: &FarCall,
    ) -> Result<Option<Self>, FleetError> {
        let client = &connection.client;
        let inbox = format!("{}.{}", client.new_inbox(), token(host));
        let answers = client.subscribe(inbox.clone()).await;
        let mut headers = HeaderMap::new();
        // No other request has it.
        headers.insert(KEY_HEADER, inbox.as_str());
        let subject = command_subject(host, session, verb);
        let json = serde_json::to_vec(call).expect("it has text and numbers only");
        let sent = client.publish_with_reply_and_headers(subject, inbox, headers, json.into());
        sent.await
            .map_err(|error| connection.not_confirmed(&error))?;
        let mut asked = Self {
            answers: answers.map_err(|error| connection.not_confirmed(&error))?,
            connection: connection.clone(),
            host: host.to_owned(),
            n_answers: 0,
        };
        let silent = |_| FleetError::NotConfirmed("no answer".to_owned());
        let message = timeout(ANSWER_LIMIT, asked.message()).await;
        let message = message.map_err(silent)?.ok_or(FleetError::Broken)?;
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return Ok(None);
        }
        match asked.frame(&message) {
            Some(Frame::Hello(hello)) if hello == Hello::ours() => Ok(Some(asked)),
            Some(Frame::Hello(hello)) => Err(FleetError::OtherVersion {
                host: host.to_owned(),
                version: hello.version,
            }),
            _ => Err(FleetError::Broken),
        }
    }

    /// Returns what comes next.
    pub(crate) async fn next(&mut self) -> Result<FarOutput, Error> {
        loop {
            let host = self.host.clone();
            let message = timeout(SILENCE, self.message()).await;
            let message = message.ok().flatten().ok_or_else(|| lost(&host))?;
            if let Some(asks) = message.reply {
                // Whether somebody is here. Without permission to answer, the broker says as much.
                let answered = self
                    .connection
                    .client
                    .publish(asks, Vec::new().into())
                    .await;
                answered.map_err(|_| lost(&host))?;
                continue;
            }
            match self.frame(&message) {
                Some(Frame::Stdout(chunk)) => return Ok(FarOutput::Stdout(chunk.into_bytes())),
                Some(Frame::Stderr(chunk)) => return Ok(FarOutput::Stderr(chunk.into_bytes())),
                Some(Frame::Exit(code)) => return Ok(FarOutput::Exit(code)),
                Some(Frame::Failed(error)) => {
                    let message = format!("{host}: {}", error.message);
                    return Err(Error { message, ..error });
                }
                // What is missing does not come again.
                None => return Err(lost(&host)),
                Some(Frame::Hello(_)) => {}
            }
        }
    }

    async fn message(&mut self) -> Option<Message> {
        tokio::select! {
            biased;
            message = self.answers.next() => message,
            () = self.connection.ended() => None,
        }
    }

    /// Returns the frame of the next answer; `None` for any other.
    fn frame(&mut self, message: &Message) -> Option<Frame> {
        let number = message.headers.as_ref()?.get(ORDER_HEADER)?;
        if number.as_str() != self.n_answers.to_string() {
            return None;
        }
        self.n_answers += 1;
        serde_json::from_slice(&message.payload).ok()
    }
}

/// Returns why nobody answers on a host, as far as the credentials permit to know that.
pub(crate) async fn absence(connection: &Connection, host: &str) -> Absent {
    let bucket = bucket_stream(HOSTS_BUCKET);
    let Ok(stream) = connection.jetstream.get_stream_no_info(bucket).await else {
        return Absent::Unknown;
    };
    let subject = bucket_subject(HOSTS_BUCKET, &token(host));
    let Ok(message) = stream.direct_get_last_for_subject(subject).await else {
        return Absent::Unknown;
    };
    match parse::<HostState>(&message.payload) {
        Some(state) if state.allow.is_empty() => Absent::AllowsNothing,
        Some(_) | None => Absent::Gone,
    }
}

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

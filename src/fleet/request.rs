//! A command to another host: the requester's side of what `service.rs` executes.

use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subscriber};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::connection::{ANSWER_LIMIT, Connection, FleetError};
use super::frame::{Frame, Hello};
use super::layout::parse;
use super::layout::{
    HOSTS_BUCKET, HostState, KEY_HEADER, ORDER_HEADER, bucket_subject, command_subject, token,
};
use super::streams::bucket_stream;
use crate::hosts::{FarCall, FarOutput, lost};
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

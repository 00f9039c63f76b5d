//! A command to another host: `at HOST far-call` is what reaches the tmux-task there, for whoever puts it before
//! its arguments. It reads what is asked from standard input, as tmux-task passes it on, has the host execute
//! it by the broker, and answers as `tmux-task far-call` would. `service.rs` is the host's side.

use std::io;
use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode, Subscriber};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tmux_task::model::{Error, ErrorKind, Millis};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Stdin};
use tokio::time::{Instant, sleep, timeout};

use crate::connection::{
    ANSWER_LIMIT, Connection, PRESENT, broken, bucket_stream, connect_as_configured,
};
use crate::layout::{
    HOSTS_BUCKET, HostState, KEY_HEADER, ORDER_HEADER, bucket_subject, command_subject, parse,
    token,
};
use crate::machine::{now, random};
use crate::text::Cleaner;
use crate::verbs::FarCall;
use crate::{not_written, print_json};

/// The word by which tmux-task executes what another machine asks for.
pub(crate) const FAR_CALL: &str = "far-call";

/// For how long it is asked again where the host is there and does not hear, because it connects.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

/// For how long it is asked again, by the same key, where the connection breaks before the answer.
const ASKED_WITHIN: Duration = Duration::from_secs(10);

/// The pause before it is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a host may be silent that executes a command: it asks more often whether the requester is
/// still there.
const SILENCE: Duration = Duration::from_secs(30);

/// Executes the call on standard input on this host.
pub(crate) async fn run(host: String) -> Result<(), Error> {
    let mut stdin = BufReader::new(tokio::io::stdin());
    let mut line = String::new();
    stdin.read_line(&mut line).await.map_err(Error::of)?;
    let mut call: FarCall = serde_json::from_str(&line)
        .map_err(|_| Error::usage("standard input has no call of tmux-task"))?;
    let is_raw = call.args.iter().any(|arg| arg == "--raw");
    let mut is_terminal = false;
    if let Some(caller) = call.rest.get_mut("caller") {
        // The host may be anybody's: what it prints does nothing to a terminal.
        caller["isColoured"] = json!(false);
        is_terminal = caller["isStdoutTerminal"] == true;
    }
    let mut output = Output {
        is_clean: is_terminal || !is_raw,
        cleaners: [Cleaner::default(), Cleaner::default()],
    };
    let begun = tokio::select! {
        begun = begin(&host, &call) => begun,
        () = left(&mut stdin) => return Err(Error::silent(ErrorKind::Interrupted)),
    };
    let mut answers = match begun {
        Ok(answers) => answers,
        Err(error) => return refuse(&error),
    };
    output.greet().await?;
    loop {
        // The end of standard input ends what was asked for, and so does the end of this process.
        let frame = tokio::select! {
            // Whoever asks sees that the end is missing.
            frame = answers.next() => frame.map_err(|error| Error::silent(error.kind))?,
            () = left(&mut stdin) => return Err(Error::silent(ErrorKind::Interrupted)),
        };
        if output.pass_on(frame).await? {
            return Ok(());
        }
    }
}

/// Resolves when whoever asks has left.
async fn left(stdin: &mut BufReader<Stdin>) {
    let mut bytes = [0; 1024];
    while let Ok(1..) = stdin.read(&mut bytes).await {}
}

/// Says why nothing was executed, in place of a greeting.
fn refuse(error: &Error) -> Result<(), Error> {
    let is_unknown = error.kind == ErrorKind::NoHost;
    print_json(&json!({ "refused": {
        "why": error.message, "hint": error.hint, "isUnknown": is_unknown,
    } }))?;
    Err(Error::silent(ErrorKind::Failed))
}

/// What a program of this version says when it begins with a call, without the end of the line.
pub(crate) fn greeting() -> String {
    json!({ "tmuxTask": env!("CARGO_PKG_VERSION") }).to_string()
}

/// What is printed of the answers.
struct Output {
    is_clean: bool,
    /// Of standard output, and of standard error.
    cleaners: [Cleaner; 2],
}

impl Output {
    async fn greet(&self) -> Result<(), Error> {
        let greeting = greeting();
        write(tokio::io::stdout(), format!("{greeting}\n").as_bytes()).await?;
        write(tokio::io::stderr(), format!("\n{greeting}\n").as_bytes()).await
    }

    /// Prints a part of an answer. Returns whether it was the last one.
    async fn pass_on(&mut self, frame: Frame) -> Result<bool, Error> {
        let Self {
            is_clean,
            cleaners: [stdout, stderr],
        } = self;
        let of = |cleaner: &mut Cleaner, chunk: Chunk| match is_clean {
            true => cleaner.clean(&chunk.into_bytes()),
            false => chunk.into_bytes(),
        };
        let (code, said) = match frame {
            Frame::Stdout(chunk) => {
                write(tokio::io::stdout(), &of(stdout, chunk)).await?;
                return Ok(false);
            }
            Frame::Stderr(chunk) => {
                write(tokio::io::stderr(), &of(stderr, chunk)).await?;
                return Ok(false);
            }
            Frame::Hello(_) => return Ok(false),
            Frame::Exit(code) => (code, String::new()),
            Frame::Failed(error) => (1, format!("tmux-task: {error}\n")),
        };
        write(tokio::io::stdout(), &stdout.end()).await?;
        let rest = [stderr.end(), stderr.clean(said.as_bytes())].concat();
        write(tokio::io::stderr(), &rest).await?;
        write(tokio::io::stderr(), format!("\0{code}\n").as_bytes()).await?;
        Ok(true)
    }
}

async fn write(mut to: impl AsyncWriteExt + Unpin, bytes: &[u8]) -> Result<(), Error> {
    let written = async {
        to.write_all(bytes).await?;
        to.flush().await
    };
    let written: io::Result<()> = written.await;
    written.map_err(|error| not_written(&error))
}

/// Has the host execute the call. Returns its answers when it has begun to.
async fn begin(host: &str, call: &FarCall) -> Result<HostAnswers, Error> {
    let (verb, session) = call.subject();
    let key = random();
    let began = Instant::now();
    loop {
        let (connection, ..) = connect_as_configured().await?;
        let subject = command_subject(host, &session, &verb);
        let asked = HostAnswers::ask(&connection, host, &subject, &key, call);
        let why = match connection.unless_refused(asked).await {
            Ok(Some(answers)) => return Ok(answers),
            Ok(None) => {
                let absent = absence(&connection, host).await?;
                if absent != Absent::Connecting || began.elapsed() >= CONNECTS_WITHIN {
                    return Err(absent.explain(host));
                }
                None
            }
            Err(error) if connection.has_ended() => Some(error),
            Err(error) => return Err(error),
        };
        if let Some(error) = why.filter(|_| began.elapsed() >= ASKED_WITHIN) {
            return Err(error);
        }
        sleep(PAUSE).await;
    }
}

/// What is known of a host of which nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// It is no host of the fleet.
    Unknown,
    /// It executes nothing for others.
    AllowsNothing,
    /// It is not there now.
    Gone,
    /// It has beaten a moment ago.
    Connecting,
}

impl Absent {
    fn explain(self, host: &str) -> Error {
        let hint = "`[hosts]` in the configuration names hosts for ssh";
        let (kind, why) = match self {
            Self::Unknown => (ErrorKind::NoHost, "is no machine of the fleet"),
            Self::AllowsNothing => (ErrorKind::Failed, "allows nothing through the broker"),
            Self::Gone | Self::Connecting => (ErrorKind::Failed, "is not there"),
        };
        Error::new(kind, format!("{host} {why}")).with_hint(hint)
    }
}

/// Returns why nobody answers on a host, as far as the credentials permit to know that: else it may be none
/// of the fleet.
async fn absence(connection: &Connection, host: &str) -> Result<Absent, Error> {
    let bucket = bucket_stream(HOSTS_BUCKET);
    let Ok(stream) = connection.jetstream.get_stream_no_info(bucket).await else {
        return Ok(Absent::Unknown);
    };
    let subject = bucket_subject(HOSTS_BUCKET, &token(host));
    let asked = async { Ok(stream.direct_get_last_for_subject(subject).await) };
    let Ok(Ok(message)) = connection.unless_refused(asked).await else {
        return Ok(Absent::Unknown);
    };
    let beaten = Millis::try_from(message.time.unix_timestamp_nanos() / 1_000_000);
    let age = now() - beaten.unwrap_or_default();
    Ok(match parse::<HostState>(&message.payload) {
        Some(state) if state.allow.is_empty() => Absent::AllowsNothing,
        Some(_) if age < Millis::try_from(PRESENT.as_millis()).unwrap_or_default() => {
            Absent::Connecting
        }
        Some(_) | None => Absent::Gone,
    })
}

/// What a host answers to a command. Dropping it ends the command there, within some seconds.
struct HostAnswers {
    answers: Subscriber,
    connection: Connection,
    host: String,
    n_answers: u64,
}

impl HostAnswers {
    /// Asks a host; `None` if nobody answers there, which the broker says at once. Returns when it executes
    /// the call.
    async fn ask(
        connection: &Connection,
        host: &str,
        subject: &str,
        key: &str,
        call: &FarCall,
    ) -> Result<Option<Self>, Error> {
        let client = &connection.client;
        let inbox = format!("{}.{}", client.new_inbox(), token(host));
        let answers = client.subscribe(inbox.clone()).await;
        let mut headers = HeaderMap::new();
        headers.insert(KEY_HEADER, key);
        let json = serde_json::to_vec(call).expect("it has text and numbers only");
        let subject = subject.to_owned();
        let sent = client.publish_with_reply_and_headers(subject, inbox, headers, json.into());
        sent.await
            .map_err(|error| connection.not_confirmed(&error))?;
        let mut asked = Self {
            answers: answers.map_err(|error| connection.not_confirmed(&error))?,
            connection: connection.clone(),
            host: host.to_owned(),
            n_answers: 0,
        };
        loop {
            let message = timeout(ANSWER_LIMIT, asked.message()).await;
            let silent = |_| Error::failed("the broker did not confirm: no answer");
            let message = message.map_err(silent)?.ok_or_else(broken)?;
            if message.status == Some(StatusCode::NO_RESPONDERS) {
                return Ok(None);
            }
            if asked.says_that_we_are_here(&message).await? {
                continue;
            }
            return match asked.frame(&message) {
                Some(Frame::Hello(hello)) if hello == Hello::ours() => Ok(Some(asked)),
                Some(Frame::Hello(Hello { version, .. })) => {
                    let ours = env!("CARGO_PKG_VERSION");
                    let why = format!("{host} has tmux-task {version}, and here is {ours}");
                    Err(Error::failed(why).with_hint("install the same version on both machines"))
                }
                Some(Frame::Failed(error)) => {
                    let message = format!("{host}: {}", error.message);
                    Err(Error { message, ..error })
                }
                _ => Err(broken()),
            };
        }
    }

    /// Returns what comes next.
    async fn next(&mut self) -> Result<Frame, Error> {
        let host = &self.host;
        let lost = Error::new(
            ErrorKind::Lost,
            format!("the connection to {host} was lost"),
        );
        loop {
            let message = timeout(SILENCE, self.message()).await;
            let Some(message) = message.ok().flatten() else {
                return Err(lost);
            };
            if !self.says_that_we_are_here(&message).await? {
                // What is missing does not come again.
                return self.frame(&message).ok_or(lost);
            }
        }
    }

    /// Answers the question whether somebody is here. Returns whether that was one. Without permission to
    /// answer, the broker says as much.
    async fn says_that_we_are_here(&self, message: &Message) -> Result<bool, Error> {
        let Some(asks) = message.reply.clone() else {
            return Ok(false);
        };
        let answered = self.connection.client.publish(asks, Vec::new().into());
        answered.await.map_err(|_| broken())?;
        Ok(true)
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

/// The version of the frames. It is raised when a frame changes so that the previous version would
/// misread it.
const FRAMES: u32 = 1;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Frame {
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

    use tmux_task::model::{Error, ErrorKind};

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
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
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

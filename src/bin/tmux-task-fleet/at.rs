//! A command to another host: `at HOST far-call` is what reaches the tmux-task there, for whoever puts it before
//! its arguments. It reads what is asked from standard input, as tmux-task passes it on, has the host execute
//! it by the broker, and answers as `tmux-task far-call` would. `service.rs` is the host's side.

use std::time::Duration;

use async_nats::{HeaderMap, StatusCode, Subscriber};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tmux_task::model::{Error, ErrorKind, FarAnswer, FarCall, FarPiece, OURS, text, with_causes};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, sleep, timeout};

use crate::buckets::published_presence;
use crate::connection::{ANSWER_LIMIT, Connection, PRESENT, broken, connect};
use crate::layout::{COMMAND, KEY_HEADER, ORDER_HEADER, subject, token};
use crate::print_json;

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
    // The host may be anybody's: what it prints does nothing to a terminal.
    call.caller.is_coloured = false;
    let is_raw = call.args.iter().any(|arg| arg == "--raw") && !call.caller.is_stdout_terminal;
    let mut nowhere = tokio::io::sink();
    tokio::select! {
        executed = execute(&host, &call, is_raw) => executed,
        // The end of standard input ends what was asked for, and so does the end of this process.
        _ = tokio::io::copy(&mut stdin, &mut nowhere) => {
            Err(Error::silent(ErrorKind::Interrupted))
        }
    }
}

/// Has the host execute the call, and passes back what it answers.
async fn execute(host: &str, call: &FarCall, is_raw: bool) -> Result<(), Error> {
    let mut answers = match begin(host, call).await {
        Ok(answers) => answers,
        Err(error) => {
            print_json(&FarAnswer::from(error))?;
            return Err(Error::silent(ErrorKind::Failed));
        }
    };
    let cleaner = || Cleaner {
        is_raw,
        ..Cleaner::default()
    };
    let (mut out, mut err) = (cleaner(), cleaner());
    let pass = |stream: fn(FarPiece) -> FarAnswer, bytes| print_json(&stream(FarPiece::of(bytes)));
    print_json(&FarAnswer::TmuxTask(OURS.to_owned()))?;
    let code = loop {
        match answers.next(SILENCE).await {
            Ok(Some(FarAnswer::Stdout(piece))) => {
                pass(FarAnswer::Stdout, out.clean(&piece.into_bytes()))?;
            }
            Ok(Some(FarAnswer::Stderr(piece))) => {
                pass(FarAnswer::Stderr, err.clean(&piece.into_bytes()))?;
            }
            Ok(Some(FarAnswer::Exit(code))) => break code,
            // Whoever asks sees that the end is missing.
            _ => return Err(Error::silent(ErrorKind::Failed)),
        }
    };
    pass(FarAnswer::Stdout, out.end())?;
    pass(FarAnswer::Stderr, err.end())?;
    print_json(&FarAnswer::Exit(code))
}

/// Has the host execute the call. Returns its answers when it has begun to.
async fn begin(host: &str, call: &FarCall) -> Result<HostAnswers, Error> {
    let session = call.session.as_deref().unwrap_or_default();
    let subject = subject(COMMAND, &[host, session, &call.verb]);
    let mut key = None;
    let began = Instant::now();
    loop {
        let connection = connect().await?;
        // Nobody else has this name.
        let key = key.get_or_insert_with(|| connection.client.new_inbox());
        let asked = HostAnswers::ask(&connection, host, &subject, key, call);
        let (error, again_within) = match connection.unless_refused(asked).await {
            Ok(Some(answers)) => return Ok(answers),
            Ok(None) => absence(&connection, host).await,
            Err(error) if connection.has_ended() => (error, ASKED_WITHIN),
            Err(error) => return Err(error),
        };
        if began.elapsed() >= again_within {
            return Err(error);
        }
        sleep(PAUSE).await;
    }
}

/// Returns why nobody answers on a host, as far as the credentials permit to know that, and for how long to
/// ask again: one that has beaten a moment ago may be connecting.
async fn absence(connection: &Connection, host: &str) -> (Error, Duration) {
    let mut again_within = Duration::ZERO;
    let (kind, why) = match published_presence(connection, host).await {
        None => (ErrorKind::NoHost, "is no machine of the fleet"),
        Some((Some(state), _)) if state.allow == json!([]) => {
            (ErrorKind::Failed, "allows nothing through the broker")
        }
        Some((state, age)) => {
            if state.is_some() && age < PRESENT {
                again_within = CONNECTS_WITHIN;
            }
            (ErrorKind::Failed, "is not there")
        }
    };
    let hint = "`[hosts]` in the configuration names hosts for ssh";
    let error = Error::new(kind, format!("{host} {why}")).with_hint(hint);
    (error, again_within)
}

/// What a host answers to a command. Dropping it ends the command there, within some seconds.
struct HostAnswers {
    answers: Subscriber,
    connection: Connection,
    n_answers: u64,
}

impl HostAnswers {
    /// Asks a host; `None` if nobody answers there. Returns when it executes the call.
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
        let answers = answers.map_err(|error| connection.not_confirmed(with_causes(&error)))?;
        let mut headers = HeaderMap::new();
        headers.insert(KEY_HEADER, key);
        let json = serde_json::to_vec(call).expect("it has text and numbers only");
        let subject = subject.to_owned();
        let sent = client.publish_with_reply_and_headers(subject, inbox, headers, json.into());
        sent.await
            .map_err(|error| connection.not_confirmed(with_causes(&error)))?;
        let mut asked = Self {
            answers,
            connection: connection.clone(),
            n_answers: 0,
        };
        let Some(first) = asked.next(ANSWER_LIMIT).await? else {
            return Ok(None);
        };
        match first {
            FirstAnswer::Hello { version } if version == OURS => Ok(Some(asked)),
            FirstAnswer::Hello { version } => {
                let why = format!("{host} has tmux-task {version}, and here is {OURS}");
                Err(Error::failed(why).with_hint("install the same version on both machines"))
            }
            FirstAnswer::Failed { why, hint } => {
                let error = Error::failed(format!("{host}: {why}"));
                Err(Error { hint, ..error })
            }
        }
    }

    /// Returns what comes next within this time; `None` if nobody is there, which the broker says at once.
    async fn next<T: DeserializeOwned>(&mut self, within: Duration) -> Result<Option<T>, Error> {
        loop {
            let message = timeout(within, self.connection.next(&mut self.answers)).await;
            let message = message.map_err(|_| self.connection.not_confirmed("no answer"))??;
            if message.status == Some(StatusCode::NO_RESPONDERS) {
                return Ok(None);
            }
            if let Some(asks) = message.reply {
                // It asks whether somebody is here. Without permission to answer, the broker says as much.
                let answered = self.connection.client.publish(asks, Vec::new().into());
                answered.await.map_err(|_| broken())?;
                continue;
            }
            let number = message.headers.as_ref();
            let number = number.and_then(|headers| headers.get(ORDER_HEADER));
            if number.is_none_or(|number| number.as_str() != self.n_answers.to_string()) {
                // What is missing does not come again.
                return Err(broken());
            }
            self.n_answers += 1;
            let answer = serde_json::from_slice(&message.payload);
            return answer.map(Some).map_err(|_| broken());
        }
    }
}

/// What a host answers first. A [`FarAnswer`] is what follows.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FirstAnswer {
    /// It executes the call: the version of its program.
    Hello { version: String },
    /// It does not: why, and what to do about it.
    Failed { why: String, hint: Option<String> },
}

/// Returns the answer that a host executes the call.
pub(crate) fn hello() -> Value {
    json!({ "hello": { "version": OURS } })
}

/// How much of a line may be missing its end, in bytes, before it counts as whole.
const MAX_PENDING: usize = 64 << 10;

/// A stream of text. What is cut in the middle of an escape sequence or a character waits for its rest.
#[derive(Debug, Default)]
struct Cleaner {
    pending: Vec<u8>,
    /// Whether the stream is left as it is.
    is_raw: bool,
}

impl Cleaner {
    /// Returns the next part of the stream without escape sequences and control characters, but for line ends.
    fn clean(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_raw {
            return bytes.to_vec();
        }
        self.pending.extend(bytes);
        let whole = self.pending.iter().rposition(|byte| *byte == b'\n');
        let mut end = whole.map_or(0, |at| at + 1);
        let rest = &self.pending[end..];
        // A prompt, or progress, has no end of its line.
        let is_plain = !rest.contains(&0x1b) && str::from_utf8(rest).is_ok();
        if is_plain || rest.len() > MAX_PENDING {
            end = self.pending.len();
        }
        let rest = self.pending.split_off(end);
        of_lines(&std::mem::replace(&mut self.pending, rest))
    }

    /// Returns what is left at the end of the stream.
    fn end(&mut self) -> Vec<u8> {
        of_lines(&std::mem::take(&mut self.pending))
    }
}

fn of_lines(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split(|byte| *byte == b'\n').map(text::piece);
    lines.collect::<Vec<_>>().join("\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_go_wherever_the_stream_is_cut() {
        let hostile =
            "a\t\u{1b}[31mrow\u{1b}[m\n\u{1b}]0;title\u{7}\u{e9} 50%\rb\u{9b}2J\n\u{1b}[2";
        for at in 0..hostile.len() {
            let mut cleaner = Cleaner::default();
            let (one, two) = hostile.as_bytes().split_at(at);
            let mut clean = cleaner.clean(one);
            clean.extend(cleaner.clean(two));
            clean.extend(cleaner.end());
            let clean = String::from_utf8(clean).unwrap();
            let is_left = |c: char| c.is_control() && c != '\n';
            assert!(!clean.contains(is_left), "{at}: {clean:?}");
            assert!(clean.starts_with("a row\n\u{e9} 50%b"), "{at}: {clean:?}");
        }
        assert_eq!(Cleaner::default().clean(b"Go? "), b"Go? ");
    }
}

//! Commands to other hosts. `at HOST far-call` is what reaches the tmux-task there, for whoever puts it before its
//! arguments: it reads what is asked from standard input, as tmux-task passes it on, has the host execute it by
//! the broker, and answers as `tmux-task far-call` would.
//!
//! A request is a [`FarCall`]. It is answered with a [`FirstAnswer`] and what `tmux-task far-call` says, which
//! executes it as it does for whoever reaches the machine in another way: a message for each line, numbered by a
//! header. Any daemon of the host answers, one for each request.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_nats::service::{Request, ServiceExt as _, endpoint};
use async_nats::{Client, HeaderMap, Message, StatusCode, Subject, Subscriber, client};
use futures_util::stream::StreamExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tmux_task::model::{
    Error, ErrorKind, FAR_CALL, FarAnswer, FarCall, FarPiece, OURS, text, with_causes,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::connection::{ANSWER_LIMIT, Connection, PRESENT, Verb, broken, connect};
use crate::layout::{
    COMMAND, KEY_HEADER, ORDER_HEADER, SERVICE, requester, subject, token, words_of,
};
use crate::publish::published_presence;
use crate::{hash, print_json, private_folder, tmux_task};

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
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FirstAnswer {
    /// It executes the call: the version of its program.
    Hello { version: String },
    /// It does not: why, and what to do about it.
    Failed { why: String, hint: Option<String> },
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

// The host's side.

/// How many commands are executed at a time, each in a process. Others wait.
const MOST_AT_ONCE: usize = 32;

/// How often it is asked whether the requester is still there.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// How long it may take until a requester, or the broker, says whether somebody awaits the answers.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// What to do about a command that is not executed.
const NOT_BY_BROKER: &str = "`[fleet] allow` in the configuration there permits commands, `[hosts]` in \
                             yours names hosts for ssh";

/// What executes commands.
pub(crate) struct Service<'a> {
    connection: &'a Connection,
    /// The folder of the keys of requests.
    keys: PathBuf,
    /// The requests to this host; `None` if it executes nothing.
    requests: Option<(async_nats::service::Service, endpoint::Endpoint)>,
}

impl<'a> Service<'a> {
    /// Begins to receive requests. The broker knows of it when this returns.
    pub(crate) async fn begin(connection: &'a Connection, keys: PathBuf) -> Result<Self, Error> {
        let Connection { client, config, .. } = connection;
        let mut service = Self {
            connection,
            keys,
            requests: None,
        };
        if config.allow.is_empty() {
            return Ok(service);
        }
        let begun = async {
            let service = client
                .service_builder()
                .description("commands to hosts")
                .start(SERVICE, OURS)
                .await?;
            let subject = format!("{}.*.*", subject(COMMAND, &[&config.host]));
            let commands = service.endpoint_builder().name("commands").add(subject);
            let commands = commands.await?;
            Ok::<_, async_nats::Error>((service, commands))
        };
        let refused = |error| Error::failed(format!("the broker refused: {error}"));
        service.requests = Some(begun.await.map_err(refused)?);
        client.flush().await.map_err(|_| broken())?;
        Ok(service)
    }

    /// Executes what is requested, until the connection ends.
    pub(crate) async fn serve(mut self) -> Result<(), Error> {
        let Some((_service, commands)) = self.requests.take() else {
            return std::future::pending().await;
        };
        // Dropping this ends what is executed.
        let answer = |request: Request| self.answer(request.message);
        commands.for_each_concurrent(MOST_AT_ONCE, answer).await;
        Err(broken())
    }

    async fn answer(&self, message: Message) {
        let Connection { client, config, .. } = self.connection;
        let Some(to) = message.reply.clone() else {
            return;
        };
        let Some(machine) = requester(&to, &config.host) else {
            return;
        };
        let n_sent = Cell::new(0);
        let answers = Answers { client, to, n_sent };
        match self.obey(&message, &machine, &answers).await {
            Ok(code) => answers.send(&FarAnswer::Exit(code)).await,
            Err(error) => {
                let (why, hint) = (error.message, error.hint);
                answers.send(&FirstAnswer::Failed { why, hint }).await;
            }
        }
    }

    /// Executes a request of this machine. Returns its exit code.
    async fn obey(
        &self,
        message: &Message,
        machine: &str,
        answers: &Answers<'_>,
    ) -> Result<u8, Error> {
        let (call, verb) = self.accept(message, machine)?;
        // Executed twice, the others are something else than once.
        if matches!(verb, Verb::Ls | Verb::Logs | Verb::Wait) {
            return execute_here(&call, answers).await;
        }
        if !answers.are_awaited(HEARD_WITHIN).await {
            let why = "nobody awaits the answers on the subject that it names";
            return Err(Error::failed(why));
        }
        let key = message.headers.as_ref().and_then(|all| all.get(KEY_HEADER));
        let key = key.ok_or_else(|| Error::failed("it has no key"))?;
        let (mut file, path) = match claim(&self.keys, key.as_str()).map_err(Error::of)? {
            Ok(claimed) => claimed,
            Err(Some(code)) => {
                let version = OURS.to_owned();
                answers.send(&FirstAnswer::Hello { version }).await;
                return Ok(code);
            }
            Err(None) => {
                let why = "it was requested before, and its outcome is not known";
                return Err(Error::failed(why));
            }
        };
        let ended = execute_here(&call, answers).await;
        match &ended {
            // Without it, the outcome is not known.
            Ok(code) => drop(writeln!(file, "{code}")),
            Err(error) if error.kind == ErrorKind::Lost => {}
            Err(_) => fs::remove_file(path).map_err(Error::of)?,
        }
        ended
    }

    /// Reads a request of this machine. Returns what to execute.
    fn accept(&self, message: &Message, machine: &str) -> Result<(FarCall, Verb), Error> {
        let words = words_of(COMMAND, &message.subject).unwrap_or_default();
        let [_, session, verb] =
            <[String; 3]>::try_from(words).map_err(|_| Error::failed("it is no command"))?;
        let call = serde_json::from_slice(&message.payload);
        let mut call: FarCall = call.map_err(|_| Error::failed("it cannot be read"))?;
        let known = serde_json::from_value(json!(verb)).ok();
        let allowed = known.filter(|verb| self.connection.config.allow.contains(verb));
        let allowed = allowed.ok_or_else(|| {
            Error::failed(format!("`{verb}` is not allowed through the broker"))
                .with_hint(NOT_BY_BROKER)
        })?;
        // tmux-task refuses arguments that are for anything else.
        (call.verb, call.session) = (verb, Some(session));
        // What it says of itself does not count. A task that it starts is its conversation's; of others it
        // cannot know that they are, and keeps no message away from who has started them.
        if allowed != Verb::Run {
            call.owner = call.owner.map(|owner| format!("{owner}@{machine}"));
        }
        call.caller.machine = machine.to_owned();
        call.caller.host.clone_from(&self.connection.config.host);
        call.caller.is_guarded = true;
        // The other machine has compared the versions.
        call.version = OURS.to_owned();
        Ok((call, allowed))
    }
}

/// The answers to one request.
struct Answers<'a> {
    client: &'a Client,
    to: Subject,
    n_sent: Cell<u64>,
}

impl Answers<'_> {
    /// Whether somebody awaits them: only the machine that the subject names can. The broker says at once
    /// that nobody does.
    async fn are_awaited(&self, within: Duration) -> bool {
        let request = client::Request::new().payload("{}".into());
        let request = request.timeout(Some(within));
        let asked = self.client.send_request(self.to.clone(), request).await;
        !asked.is_err_and(|error| error.kind() == client::RequestErrorKind::NoResponders)
    }

    async fn send(&self, answer: &impl Serialize) {
        let mut headers = HeaderMap::new();
        headers.insert(ORDER_HEADER, self.n_sent.get().to_string());
        self.n_sent.update(|n| n + 1);
        let json = serde_json::to_vec(answer).expect("it has text and numbers only");
        let sent = self
            .client
            .publish_with_headers(self.to.clone(), headers, json.into());
        // Without a connection nobody waits for it.
        drop(sent.await);
    }
}

/// Executes a call, and sends what it prints while somebody waits for it. Returns its exit code. Dropping the
/// future ends the execution.
async fn execute_here(call: &FarCall, answers: &Answers<'_>) -> Result<u8, Error> {
    let not_started = |error| Error::failed(format!("could not start: {error}"));
    let mut command = Command::new(tmux_task());
    command
        .arg(FAR_CALL)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(not_started)?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    let line = serde_json::to_string(call).expect("it has text and numbers only") + "\n";
    let written = stdin.write_all(line.as_bytes()).await;
    written.map_err(not_started)?;
    let passing = async {
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(FarAnswer::Exit(code)) => return Ok(code),
                Ok(FarAnswer::Failed(error)) => {
                    let hint = error.hint.or_else(|| Some(NOT_BY_BROKER.to_owned()));
                    return Err(Error { hint, ..error });
                }
                Ok(FarAnswer::TmuxTask(version)) => {
                    answers.send(&FirstAnswer::Hello { version }).await;
                }
                Ok(part) => answers.send(&part).await,
                Err(_) => {}
            }
        }
        Err(Error::new(ErrorKind::Lost, "it was cut off"))
    };
    let watching = async {
        sleep(ASKED_EVERY).await;
        while answers.are_awaited(ASKED_EVERY).await {
            sleep(ASKED_EVERY).await;
        }
        // The end of its input interrupts it.
        drop(stdin);
        std::future::pending().await
    };
    tokio::select! {
        ended = passing => ended,
        never = watching => never,
    }
}

// Which requests were executed: a request that comes twice is executed once. The daemons of a user
// share the folder, because any of them may get the second one.

/// After which time a key is forgotten.
const KEPT: Duration = Duration::from_secs(3600);

/// A request that is claimed: the file that gets the exit code, and its path; else it was claimed before, and
/// has ended with this code, unless that is not known.
type Claim = Result<(File, PathBuf), Option<u8>>;

/// Claims the execution of the request with this key. The folder is of the keys.
fn claim(folder: &Path, key: &str) -> io::Result<Claim> {
    private_folder(folder)?;
    for entry in fs::read_dir(folder)?.flatten() {
        let noted_at = entry.metadata().and_then(|known| known.modified());
        if matches!(noted_at.map(|at| at.elapsed()), Ok(Ok(age)) if age > KEPT) {
            // Another daemon may have removed it.
            drop(fs::remove_file(entry.path()));
        }
    }
    let path = folder.join(hash(key));
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(&path) {
        Ok(file) => Ok(Ok((file, path))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let code = fs::read_to_string(&path)?;
            Ok(Err(code.trim().parse().ok()))
        }
        Err(error) => Err(error),
    }
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

    #[test]
    fn a_request_is_executed_once() {
        let dir = tempfile::tempdir().unwrap();
        let keys = dir.path().join("fleet");
        let (mut file, _) = claim(&keys, "../a").unwrap().unwrap();
        assert_eq!(claim(&keys, "../a").unwrap().unwrap_err(), None);
        writeln!(file, "3").unwrap();
        assert_eq!(claim(&keys, "../a").unwrap().unwrap_err(), Some(3));
        assert!(claim(&keys, "b").unwrap().is_ok());
        let entries = fs::read_dir(keys).unwrap();
        assert_eq!(entries.count(), 2);
    }
}

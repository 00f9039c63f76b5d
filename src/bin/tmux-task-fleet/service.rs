//! Commands from elsewhere: each is a request whose contents are a [`FarCall`]. It is answered with a
//! [`FirstAnswer`] and what `tmux-task far-call` says, which executes it as it does for whoever reaches this
//! machine in another way: a message for each line, numbered by a header. Any daemon of the host answers, one
//! for each request.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_nats::service::{Request, ServiceExt as _, endpoint};
use async_nats::{Client, HeaderMap, Message, Subject, client};
use futures_util::stream::StreamExt as _;
use serde::Serialize;
use serde_json::json;
use tmux_task::model::{Error, FAR_CALL, FarAnswer, FarCall, OURS};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::time::sleep;

use crate::at::hello;
use crate::config::Verb;
use crate::connection::{Connection, broken};
use crate::layout::{COMMAND, KEY_HEADER, ORDER_HEADER, SERVICE, requester, subject, words_of};
use crate::machine::{hash, private_folder, tmux_task};

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
        let done = self.obey(&message, &machine, &answers).await;
        let last = done.unwrap_or_else(FarAnswer::from);
        answers.send(&last).await;
    }

    /// Executes a request of this machine. Returns the last answer.
    async fn obey(
        &self,
        message: &Message,
        machine: &str,
        answers: &Answers<'_>,
    ) -> Result<FarAnswer, Error> {
        let (call, verb) = self.accept(message, machine)?;
        if !verb.changes() {
            return execute(&call, answers).await;
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
                answers.send(&hello()).await;
                return Ok(FarAnswer::Exit(code));
            }
            Err(None) => {
                let why = "it was requested before, and its outcome is not known";
                return Err(Error::failed(why));
            }
        };
        let ended = execute(&call, answers).await?;
        if let FarAnswer::Exit(code) = ended {
            // Without it, the outcome is not known.
            drop(writeln!(file, "{code}"));
        } else {
            fs::remove_file(path).map_err(Error::of)?;
        }
        Ok(ended)
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

/// Executes a call, and sends what it prints while somebody waits for it. Returns the last answer. Dropping
/// the future ends the execution.
async fn execute(call: &FarCall, answers: &Answers<'_>) -> Result<FarAnswer, Error> {
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
                Ok(part @ (FarAnswer::Stdout(_) | FarAnswer::Stderr(_))) => {
                    answers.send(&part).await;
                }
                Ok(FarAnswer::TmuxTask(_)) => answers.send(&hello()).await,
                Ok(last @ FarAnswer::Exit(_)) => return Ok(last),
                Ok(FarAnswer::Failed { why, hint, .. }) => {
                    let hint = hint.as_deref().unwrap_or(NOT_BY_BROKER);
                    return Ok(Error::failed(why).with_hint(hint).into());
                }
                Err(_) => {}
            }
        }
        Err(Error::failed("it was cut off"))
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

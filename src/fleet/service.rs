//! Commands from elsewhere: each is a request whose contents are a [`FarCall`], and whose answers are
//! [`Frame`]s, one a message, numbered by a header. The first is `hello`, the last `exit` or `failed`.
//! Any daemon of the host answers, one for each request.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::service::ServiceExt as _;
use async_nats::{Client, HeaderMap, Message, Subject, client};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{sleep, timeout};

use super::connection::FleetError;
use super::layout::{KEY_HEADER, ORDER_HEADER, SERVICE, commands_of, parse_command, requester};
use super::request::{Chunk, Frame, Hello};
use super::verbs::{changes, check};
use crate::client::DaemonClient;
use crate::config::Verb;
use crate::hosts::{FarCall, FarOutput, FarProcess, Host, Questions};
use crate::model::{Error, text, with_causes};
use crate::paths::{Paths, hex};
use crate::wire::{DaemonStatus, Request, Response};

/// How many commands are executed at a time: each is a process.
const MOST_AT_ONCE: usize = 32;

/// How often it is asked whether the requester is still there.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// How long it may take until a requester, or the broker, says whether somebody awaits the answers.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// How long a daemon may take to say which session it supervises.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to do about a command that is not executed.
const NOT_BY_BROKER: &str = "`[fleet] allow` in the configuration there permits commands, `[hosts]` in \
                             yours names hosts for ssh";

/// The longest name that is logged, in characters.
const MAX_LOGGED: usize = 200;

/// What executes commands.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) host: String,
    pub(super) allow: BTreeSet<Verb>,
    /// The files of any session: where daemons listen is the same for all.
    pub(super) paths: Paths,
    pub(super) keys: ExecutionKeys,
}

impl Service {
    /// Executes what is requested, until the connection ends.
    pub(super) async fn serve(&self, client: &Client) -> Result<(), FleetError> {
        if self.allow.is_empty() {
            return std::future::pending().await;
        }
        let refused = |error: async_nats::Error| FleetError::NotConfirmed(error.to_string());
        let service = client
            .service_builder()
            .description("commands to hosts")
            .start(SERVICE, env!("CARGO_PKG_VERSION"));
        let service = service.await.map_err(refused)?;
        let commands = service.endpoint_builder().name("commands");
        let mut commands = commands
            .add(commands_of(&self.host))
            .await
            .map_err(refused)?;
        // Dropping them ends what they execute.
        let mut executions = FuturesUnordered::new();
        loop {
            // Losing either is safe: both wait in their queues.
            tokio::select! {
                Some(()) = executions.next() => {}
                request = commands.next() => {
                    let Some(request) = request else { break };
                    let is_free = executions.len() < MOST_AT_ONCE;
                    executions.push(self.answer(client, request.message, is_free));
                }
            }
        }
        Err(FleetError::Broken)
    }

    async fn answer(&self, client: &Client, message: Message, is_free: bool) {
        let Some((reply, machine)) = message
            .reply
            .as_ref()
            .and_then(|reply| Some((reply.clone(), requester(reply, &self.host)?)))
        else {
            return;
        };
        let answers = Answers::new(client, reply);
        answers.send(Frame::Hello(Hello::ours())).await;
        let failed = |why: String| Frame::Failed(Error::failed(why));
        let (call, verb) = match self.accept(&message, machine).await {
            Ok(accepted) => accepted,
            Err(failure) => {
                let what = text::one_line(message.subject.as_bytes(), MAX_LOGGED);
                let why = &failure.message;
                tracing::info!(what, why, "a command from elsewhere was refused");
                return answers.send(Frame::Failed(failure)).await;
            }
        };
        if !is_free {
            let why = format!("{MOST_AT_ONCE} commands are being executed already");
            return answers.send(failed(why)).await;
        }
        if changes(verb) && !answers.are_awaited(HEARD_WITHIN).await {
            let why = "nobody awaits the answers on the subject that it names".to_owned();
            return answers.send(failed(why)).await;
        }
        let key = match changes(verb) {
            true => message.headers.as_ref().and_then(|all| all.get(KEY_HEADER)),
            false => None,
        };
        let claim = match key {
            None if changes(verb) => return answers.send(failed("it has no key".to_owned())).await,
            None => None,
            Some(key) => match self.keys.claim(key.as_str()) {
                Ok(Claim::New(claim)) => Some(claim),
                Ok(Claim::Ended(code)) => return answers.send(Frame::Exit(code)).await,
                Ok(Claim::Taken) => {
                    let why = "it was requested before, and its outcome is not known".to_owned();
                    return answers.send(failed(why)).await;
                }
                Err(error) => return answers.send(failed(error.to_string())).await,
            },
        };
        let line = |text: &str| text::one_line(text.as_bytes(), MAX_LOGGED);
        tracing::info!(
            verb = verb.name(),
            session = line(call.session.as_deref().unwrap_or_default()),
            machine = line(&call.caller.machine),
            owner = line(call.owner.as_deref().unwrap_or_default()),
            "a command from elsewhere"
        );
        let outcome = execute(call, &answers).await;
        if let Some(claim) = claim {
            claim.end(outcome.unwrap_or(u8::MAX));
        }
    }

    /// Returns the socket of the tmux server on which a daemon supervises the session, because any daemon
    /// of the host may get the request. `None` if there is none: then it is the server of a login.
    async fn server_of(&self, session: &str) -> Result<Option<String>, Error> {
        let sockets = self.paths.sockets();
        let asked = sockets.iter().map(|socket| status_of(socket));
        let mut found: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        found.retain(|status| status.session_name == session);
        if found.iter().any(|status| status.exists) {
            found.retain(|status| status.exists);
        }
        let servers: BTreeSet<String> = found.into_iter().map(|status| status.server).collect();
        match servers.len() {
            0 | 1 => Ok(servers.into_iter().next()),
            n => Err(
                Error::failed(format!("session `{session}` is on {n} tmux servers"))
                    .with_hint("-L names one"),
            ),
        }
    }

    /// Reads a request of this machine. Returns what to execute.
    async fn accept(&self, message: &Message, machine: String) -> Result<(FarCall, Verb), Error> {
        let parsed = parse_command(&message.subject);
        let (session, verb) = parsed.ok_or_else(|| Error::failed("it is no command"))?;
        let call = serde_json::from_slice(&message.payload);
        let mut call: FarCall = call.map_err(|_| Error::failed("it cannot be read"))?;
        let verb = check(&verb, &session, &self.allow, &call)
            .map_err(|why| Error::failed(why).with_hint(NOT_BY_BROKER))?;
        // What follows `--` are the words of a command.
        let mut options = call.args.iter().take_while(|arg| *arg != "--");
        if !options.any(|arg| arg.starts_with("-L"))
            && let Some(socket) = self.server_of(&session).await?
        {
            call.args.splice(0..0, ["-S".to_owned(), socket]);
        }
        call.session = Some(session);
        // What it says of itself does not count. A task that it starts is its conversation's; of others it
        // cannot know that they are, and keeps no message away from who has started them.
        if verb != Verb::Run {
            call.owner = call.owner.map(|owner| format!("{owner}@{machine}"));
        }
        call.caller.machine = machine;
        self.host.clone_into(&mut call.caller.host);
        call.caller.is_guarded = true;
        Ok((call, verb))
    }
}

/// Returns what a daemon says of itself; `None` if none listens there, or it does not answer.
async fn status_of(socket: &Path) -> Option<Box<DaemonStatus>> {
    let asked = async {
        let mut daemon = DaemonClient::connect(socket).await.ok()?;
        let Response::Status(status) = daemon.ask(&Request::Status).await.ok()? else {
            return None;
        };
        Some(status)
    };
    timeout(PATIENCE, asked).await.ok()?
}

/// The answers to one request.
struct Answers<'a> {
    client: &'a Client,
    to: Subject,
    n_sent: AtomicU64,
}

impl<'a> Answers<'a> {
    fn new(client: &'a Client, to: Subject) -> Self {
        Self {
            client,
            to,
            n_sent: AtomicU64::new(0),
        }
    }

    /// Whether somebody awaits them: only the machine that the subject names can. The broker says at once
    /// that nobody does.
    async fn are_awaited(&self, within: Duration) -> bool {
        let request = client::Request::new().payload("{}".into());
        let request = request.timeout(Some(within));
        let asked = self.client.send_request(self.to.clone(), request).await;
        !asked.is_err_and(|error| error.kind() == client::RequestErrorKind::NoResponders)
    }

    async fn send(&self, frame: Frame) {
        let number = self.n_sent.fetch_add(1, Ordering::Relaxed);
        let mut headers = HeaderMap::new();
        headers.insert(ORDER_HEADER, number.to_string());
        let json = serde_json::to_vec(&frame).expect("it has text and numbers only");
        let sent = self
            .client
            .publish_with_headers(self.to.clone(), headers, json.into());
        if let Err(error) = sent.await {
            tracing::debug!(%error, "an answer was not sent");
        }
    }
}

/// Executes a call, and sends its output until nobody waits for it. Returns its exit code.
async fn execute(call: FarCall, answers: &Answers<'_>) -> Option<u8> {
    let failed = |why: String| Frame::Failed(Error::failed(why));
    let host = call.caller.host.clone();
    let here = match Host::here() {
        Ok(here) => here,
        Err(error) => {
            let why = format!("could not start on {host}: {}", with_causes(&error));
            answers.send(failed(why)).await;
            return None;
        }
    };
    let env = |name: &str| std::env::var_os(name);
    let mut process = match FarProcess::start(&here, &env, Questions::Never, call).await {
        Ok(process) => process,
        Err(error) => {
            let why = format!("could not start on {host}: {}", error.message);
            answers.send(failed(why)).await;
            return None;
        }
    };
    let mut watching = std::pin::pin!(watch_requester(answers));
    let mut is_awaited = true;
    loop {
        // Losing an arm is safe: nothing of the output is lost.
        let output = tokio::select! {
            output = process.next() => output,
            () = &mut watching, if is_awaited => {
                is_awaited = false;
                process.leave();
                continue;
            }
        };
        match output {
            Ok(FarOutput::Stdout(bytes)) => answers.send(Frame::Stdout(Chunk::of(bytes))).await,
            Ok(FarOutput::Stderr(bytes)) => answers.send(Frame::Stderr(Chunk::of(bytes))).await,
            Ok(FarOutput::Exit(code)) => {
                answers.send(Frame::Exit(code)).await;
                return Some(code);
            }
            Err(error) => {
                answers.send(Frame::Failed(error)).await;
                return None;
            }
        }
    }
}

/// Resolves when nobody waits for the answers any more.
async fn watch_requester(answers: &Answers<'_>) {
    sleep(ASKED_EVERY).await;
    while answers.are_awaited(ASKED_EVERY).await {
        sleep(ASKED_EVERY).await;
    }
}

// Which requests were executed: a request that comes twice is executed once. The daemons of a user
// share the folder, because any of them may get the second one.

/// After which time a key is forgotten.
const KEPT: Duration = Duration::from_secs(3600);

/// The folder of the keys.
#[derive(Debug)]
pub(super) struct ExecutionKeys(pub(super) PathBuf);

/// What is known of a request.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is new, and may be executed.
    New(Claimed),
    /// It was executed, with this exit code.
    Ended(u8),
    /// It is being executed, or its execution was cut off.
    Taken,
}

#[derive(Debug)]
pub(super) struct Claimed(File);

impl ExecutionKeys {
    /// Claims the execution of the request with this key.
    pub(super) fn claim(&self, key: &str) -> io::Result<Claim> {
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.0)?;
        self.forget_old()?;
        let path = self.0.join(hex(key.as_bytes(), 32));
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => Ok(Claim::New(Claimed(file))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let code = fs::read_to_string(&path)?;
                Ok(code.trim().parse().map_or(Claim::Taken, Claim::Ended))
            }
            Err(error) => Err(error),
        }
    }

    fn forget_old(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let age = entry
                .metadata()
                .and_then(|known| known.modified())?
                .elapsed();
            if age.is_ok_and(|age| age > KEPT) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Claimed {
    /// Notes how the execution has ended.
    pub(super) fn end(mut self, code: u8) {
        if let Err(error) = writeln!(self.0, "{code}") {
            tracing::warn!(%error, "the outcome of a command was not noted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_executed_once() {
        let dir = tempfile::tempdir().unwrap();
        let keys = ExecutionKeys(dir.path().join("fleet"));
        let Claim::New(claimed) = keys.claim("../a").unwrap() else {
            panic!("it is new");
        };
        assert!(matches!(keys.claim("../a").unwrap(), Claim::Taken));
        claimed.end(3);
        assert!(matches!(keys.claim("../a").unwrap(), Claim::Ended(3)));
        assert!(matches!(keys.claim("b").unwrap(), Claim::New(_)));
        let entries = fs::read_dir(keys.0).unwrap();
        assert_eq!(entries.count(), 2);
    }
}

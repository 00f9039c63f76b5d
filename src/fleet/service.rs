//! Commands from elsewhere: each is a request whose contents are a [`FarCall`], and whose answers are
//! [`Frame`]s, one a message, numbered by a header. The first is `hello`, the last `exit` or `failed`.
//! Any daemon of the host answers, one for each request.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::service::ServiceExt as _;
use async_nats::{Client, HeaderMap, Message, Subject, client};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::connection::FleetError;
use super::execution_keys::{Claim, ExecutionKeys};
use super::layout::{KEY_HEADER, ORDER_HEADER, SERVICE, commands_of, parse_command};
use super::verbs::{changes, check};
use crate::config::Verb;
use crate::hosts::{FarCall, Frame, Hello, HostFailure, execute};
use crate::model::text;

/// How many commands are executed at a time: each is a process.
const MOST_AT_ONCE: usize = 32;

/// How often it is asked whether the requester is still there.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// The longest name that is logged, in characters.
const MAX_LOGGED: usize = 200;

/// What executes commands.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) host: String,
    pub(super) allow: BTreeSet<Verb>,
    /// The socket of the tmux server for commands that name none.
    pub(super) server_socket: PathBuf,
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
        let Some(reply) = message.reply.clone() else {
            return;
        };
        let answers = Answers::new(client, reply);
        answers.send(Frame::Hello(Hello::ours())).await;
        let failed = |why: String| Frame::Failed(HostFailure { why, hint: None });
        let (call, verb) = match self.accept(&message) {
            Ok(accepted) => accepted,
            Err(why) => {
                let what = text::one_line(message.subject.as_bytes(), MAX_LOGGED);
                tracing::info!(what, why, "a command from elsewhere was refused");
                return answers.send(failed(why)).await;
            }
        };
        if !is_free {
            let why = format!("{MOST_AT_ONCE} commands are being executed already");
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
        let (to_call, frames) = mpsc::unbounded_channel();
        let watching = watch_requester(&answers);
        let outcome = AtomicU64::new(u64::from(u8::MAX));
        let executing = execute(&call, frames, async |frame: Frame| {
            if let Frame::Exit(code) = &frame {
                outcome.store(u64::from(*code), Ordering::Relaxed);
            }
            let has_output = matches!(frame, Frame::Stdout(_) | Frame::Stderr(_));
            answers.send(frame).await;
            if has_output {
                // The broker has it: it is not kept here until somebody takes it.
                to_call.send(Frame::More(1)).ok();
            }
        });
        let mut executing = std::pin::pin!(executing);
        tokio::select! {
            () = &mut executing => {}
            () = watching => {
                to_call.send(Frame::Close {}).ok();
                executing.await;
            }
        }
        if let Some(claim) = claim {
            claim.end(u8::try_from(outcome.load(Ordering::Relaxed)).unwrap_or(u8::MAX));
        }
    }

    /// Reads a request. Returns what to execute.
    fn accept(&self, message: &Message) -> Result<(FarCall, Verb), String> {
        let (session, verb) = parse_command(&message.subject).ok_or("it is no command")?;
        let mut call: FarCall =
            serde_json::from_slice(&message.payload).map_err(|_| "it cannot be read".to_owned())?;
        let verb = check(&verb, &session, &self.allow, &call.args)?;
        let names_server = call.args.iter().any(|arg| arg.starts_with("-L"));
        if !names_server && let Some(socket) = self.server_socket.to_str() {
            call.args.splice(0..0, ["-S".to_owned(), socket.to_owned()]);
        }
        call.session = Some(session);
        call.has_stdin = false;
        self.host.clone_into(&mut call.caller.host);
        call.caller.is_guarded = true;
        Ok((call, verb))
    }
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

/// Resolves when nobody waits for the answers any more.
async fn watch_requester(answers: &Answers<'_>) {
    loop {
        sleep(ASKED_EVERY).await;
        // A requester need not answer, but the broker says that there is none.
        let request = client::Request::new().timeout(Some(ASKED_EVERY));
        let asked = answers
            .client
            .send_request(answers.to.clone(), request)
            .await;
        if asked.is_err_and(|error| error.kind() == client::RequestErrorKind::NoResponders) {
            return;
        }
    }
}

//! The tasks of all sessions of the user: one stream for each daemon, also for those that start
//! while the panel is open.
//!
//! [`FoundSessions`] decides. This connects, lists and reports.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time;

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout};

use super::board::SessionKey;
use super::effect::Place;
use super::found_sessions::{ConnectResult, FileId, FoundSessions, SessionEffect};
use super::task_stream::{Incoming, read};
use super::work::{ANSWERS_WITHIN, at, text_of};
use crate::client::DaemonClient;
use crate::ops::{self, FoundSession, OpsError, Server, SessionChoice, TaskSession};

/// Follows all sessions.
pub(super) struct AllSessions<'a> {
    choice: &'a SessionChoice,
    /// The present server.
    here: Server,
    sessions: FoundSessions,
    to: UnboundedSender<Incoming>,
    /// The servers that sessions were found on, by socket.
    servers: BTreeMap<PathBuf, Server>,
    /// The daemons that have just been connected to, by socket.
    connected: BTreeMap<PathBuf, (DaemonClient, TaskSession)>,
    steps: FuturesUnordered<LocalBoxFuture<'a, Step>>,
}

/// A stream and the session that it is of; `None` when no daemon listens.
type Connection = Result<Option<(DaemonClient, TaskSession)>, OpsError>;

/// What happens next in one of the futures.
enum Step {
    /// A daemon was connected to, or none listens.
    Connected(PathBuf, Box<Connection>),
    /// A stream has ended.
    Ended(PathBuf),
    /// The sessions of the server at this socket; `None` if it has not said.
    Listed(PathBuf, Option<Vec<FoundSession>>),
}

impl<'a> AllSessions<'a> {
    /// Follows nothing yet. `choice` says which server is the present one.
    pub(super) fn of(
        choice: &'a SessionChoice,
        to: UnboundedSender<Incoming>,
    ) -> Result<Self, OpsError> {
        let here = TaskSession::named(choice)?.server;
        let socket = here.socket().to_owned();
        Ok(Self {
            choice,
            sessions: FoundSessions::new(socket.clone(), now()),
            to,
            servers: BTreeMap::from([(socket, here.clone())]),
            here,
            connected: BTreeMap::new(),
            steps: FuturesUnordered::new(),
        })
    }

    /// Reports sessions and tasks until nothing listens any more.
    pub(super) async fn follow(mut self) {
        while !self.to.is_closed() {
            let deadline = self.sessions.next_deadline();
            // Nothing is lost when one of these is dropped.
            let effects = tokio::select! {
                // An answer that has come counts, even if the time for it is over.
                biased;
                Some(step) = self.steps.next() => self.on_step(step),
                () = at(deadline) => self.sessions.on_time(now()),
            };
            self.perform(effects);
        }
    }

    fn on_step(&mut self, step: Step) -> Vec<SessionEffect> {
        match step {
            Step::Connected(daemon, connection) => {
                let result = match *connection {
                    Ok(Some((client, session))) => {
                        let server = session.server.socket().to_owned();
                        let name = session.name.clone();
                        self.servers.insert(server.clone(), session.server.clone());
                        self.connected.insert(daemon.clone(), (client, session));
                        ConnectResult::Connected { name, server }
                    }
                    Ok(None) => ConnectResult::NoDaemon,
                    Err(error) => ConnectResult::Failed(text_of(&error)),
                };
                self.sessions.on_connect_result(&daemon, result, now())
            }
            Step::Ended(daemon) => {
                let file = file_id(&daemon).ok();
                self.sessions.on_ended(&daemon, file, now())
            }
            Step::Listed(server, sessions) => self.sessions.on_listed(&server, sessions),
        }
    }

    fn perform(&mut self, effects: Vec<SessionEffect>) {
        for effect in effects {
            match effect {
                SessionEffect::Scan => {
                    // A folder that cannot be listed has nothing new.
                    let sockets = ops::daemon_sockets(&self.here).unwrap_or_default();
                    let sockets = sockets
                        .into_iter()
                        .filter_map(|socket| file_id(&socket).ok().map(|file| (socket, file)));
                    let effects = self.sessions.on_sockets(sockets.collect(), now());
                    self.perform(effects);
                }
                SessionEffect::Connect(daemon) => {
                    self.steps
                        .push(Box::pin(connect(daemon, self.choice.clone())));
                }
                SessionEffect::Stream { daemon, key, name } => {
                    if let Some((client, session)) = self.connected.remove(&daemon) {
                        let place = Place::Here(Rc::new(session));
                        self.report(Incoming::Connected { key, place, name });
                        let to = self.to.clone();
                        self.steps.push(Box::pin(stream(daemon, client, key, to)));
                    }
                }
                SessionEffect::List(server) => {
                    if let Some(server) = self.servers.get(&server) {
                        self.steps.push(Box::pin(list(server.clone())));
                    }
                }
                SessionEffect::Found => self.report(Incoming::Found),
                SessionEffect::ShowUnknown { key, name, why } => {
                    self.report(Incoming::Unknown { key, name, why });
                }
                SessionEffect::Remove(key) => self.report(Incoming::Gone(key)),
            }
        }
    }

    fn report(&self, incoming: Incoming) {
        // A panel that has gone is noticed by `follow`.
        drop(self.to.send(incoming));
    }
}

async fn connect(daemon: PathBuf, choice: SessionChoice) -> Step {
    let connection = ops::task_stream_at(&daemon, &choice).await;
    Step::Connected(daemon, Box::new(connection))
}

async fn stream(
    daemon: PathBuf,
    mut client: DaemonClient,
    key: SessionKey,
    to: UnboundedSender<Incoming>,
) -> Step {
    read(&mut client, key, &to).await;
    Step::Ended(daemon)
}

async fn list(server: Server) -> Step {
    let sessions = timeout(ANSWERS_WITHIN, ops::sessions_of(&server)).await;
    let sessions = sessions.ok().and_then(Result::ok);
    Step::Listed(server.socket().to_owned(), sessions)
}

fn file_id(path: &Path) -> io::Result<FileId> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

fn now() -> time::Instant {
    Instant::now().into_std()
}

//! The tasks of all sessions of the user: one stream for each daemon, also for those that start
//! while the panel is open.
//!
//! A daemon's start shows as a new socket in the runtime folder, which is listed every
//! [`RESCAN`]. tmux is asked for sessions without a daemon at the start, and when a daemon has left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::board::{SessionKey, SessionName};
use super::task_stream::{Incoming, read};
use super::work::{ANSWERS_WITHIN, text_of};
use crate::client::Client;
use crate::model::{Ordered as _, text};
use crate::ops::{self, FoundSession, OpsError, Server, Session, SessionChoice};

/// How often the runtime folder is listed.
const RESCAN: Duration = Duration::from_secs(2);

/// How long a daemon may take to answer before the panel says that it does not.
const PATIENCE: Duration = Duration::from_secs(2);

/// When to connect again after a daemon has left, each after the one before: a newer daemon may
/// take its place.
const RETRIES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// The maximum length of a session's or a server's name, in characters.
const NAME_CHARS: usize = 200;

const SILENT: &str = "the daemon does not answer";

/// Follows all sessions.
pub(super) struct AllSessions<'a> {
    choice: &'a SessionChoice,
    /// The present server.
    here: Server,
    to: UnboundedSender<Incoming>,
    /// What was found, by the daemon's socket.
    found: BTreeMap<PathBuf, PanelSession>,
    n_keys: usize,
    steps: FuturesUnordered<LocalBoxFuture<'a, Step>>,
    /// How many steps are under way that find out whether a daemon listens.
    n_connecting: usize,
    /// The servers to ask for their sessions, by socket, once nothing is connecting.
    unlisted: BTreeMap<PathBuf, Server>,
}

/// A session that was found.
struct PanelSession {
    key: SessionKey,
    /// Its tmux server's socket, once known.
    server: Option<PathBuf>,
    state: PanelSessionState,
    /// The socket's file when it was connected to last.
    file: Option<FileId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PanelSessionState {
    /// It is being connected to.
    Connecting,
    /// The same, and it does not answer.
    Silent,
    /// It pushes tasks.
    Streaming,
    /// Its daemon cannot be used.
    Failed,
    /// The session is shown as one without a daemon.
    Unsupervised,
    /// It is not shown.
    Gone,
}

/// The identity of a file: device, inode and time of change.
type FileId = (u64, u64, i64, i64);

/// A stream and the session that it is of; `None` when no daemon listens.
type Connection = Result<Option<(Client, Session)>, OpsError>;

/// What happens next in one of the futures.
enum Step {
    /// A daemon was connected to, or none listens.
    Connected(PathBuf, Box<Connection>),
    /// A daemon does not answer; the future waits on.
    Slow(PathBuf, LocalBoxFuture<'static, Step>),
    /// A stream has ended.
    Ended(PathBuf, Server),
    /// The sessions of the server at this socket.
    Listed(Server, Result<Vec<FoundSession>, OpsError>),
}

impl<'a> AllSessions<'a> {
    /// Follows nothing yet. `choice` says which server is the present one.
    pub(super) fn of(
        choice: &'a SessionChoice,
        to: UnboundedSender<Incoming>,
    ) -> Result<Self, OpsError> {
        let here = Session::named(choice)?.server;
        Ok(Self {
            choice,
            unlisted: [(here.socket().to_owned(), here.clone())]
                .into_iter()
                .into_map(),
            here,
            to,
            found: BTreeMap::new(),
            n_keys: 0,
            steps: FuturesUnordered::new(),
            n_connecting: 0,
        })
    }

    /// Reports sessions and tasks until nothing listens any more.
    pub(super) async fn follow(mut self) {
        let mut scans = interval(RESCAN);
        scans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.to.is_closed() {
            // Nothing is lost when one of these is dropped.
            tokio::select! {
                _ = scans.tick() => self.scan(),
                Some(step) = self.steps.next() => self.on_step(step),
            }
            if self.n_connecting == 0 {
                for (_, server) in std::mem::take(&mut self.unlisted) {
                    self.steps.push(Box::pin(list(server)));
                }
            }
        }
    }

    /// Connects to the daemons whose sockets are new.
    fn scan(&mut self) {
        // A folder that cannot be listed has nothing new.
        for socket in ops::daemon_sockets(&self.here).unwrap_or_default() {
            let Ok(file) = file_id(&socket) else { continue };
            let found = self.at(&socket);
            let is_connected = matches!(
                found.state,
                PanelSessionState::Connecting
                    | PanelSessionState::Silent
                    | PanelSessionState::Streaming
            );
            if !is_connected && found.file != Some(file) {
                found.file = Some(file);
                found.state = PanelSessionState::Connecting;
                self.connect(socket, &[]);
            }
        }
    }

    /// Returns what is known of the session whose daemon listens at a socket.
    fn at(&mut self, socket: &Path) -> &mut PanelSession {
        self.found.entry(socket.to_owned()).or_insert_with(|| {
            let key = SessionKey(self.n_keys);
            self.n_keys += 1;
            PanelSession {
                key,
                server: None,
                state: PanelSessionState::Gone,
                file: None,
            }
        })
    }

    fn on_step(&mut self, step: Step) {
        match step {
            Step::Slow(socket, waiting) => {
                self.n_connecting -= 1;
                self.steps.push(waiting);
                self.at(&socket).state = PanelSessionState::Silent;
                self.report_failed(&socket, SILENT.to_owned());
            }
            Step::Connected(socket, result) => self.on_connected(socket, *result),
            Step::Ended(socket, server) => {
                let found = self.at(&socket);
                found.state = PanelSessionState::Connecting;
                found.file = file_id(&socket).ok();
                self.unlisted.insert(server.socket().to_owned(), server);
                self.connect(socket, &RETRIES);
            }
            Step::Listed(server, sessions) => {
                // A server that does not answer has nothing new.
                if let Ok(sessions) = sessions {
                    self.on_listed(&server, sessions);
                }
                self.report(Incoming::Found);
            }
        }
    }

    fn on_connected(&mut self, socket: PathBuf, result: Connection) {
        let found = self.at(&socket);
        let key = found.key;
        let was_silent = found.state == PanelSessionState::Silent;
        self.n_connecting -= usize::from(!was_silent);
        match result {
            Ok(Some((client, session))) => {
                let found = self.at(&socket);
                found.state = PanelSessionState::Streaming;
                found.server = Some(session.server.socket().to_owned());
                let name = self.name_of(&session.name, session.server.socket());
                let server = session.server.clone();
                let session = Rc::new(session);
                self.report(Incoming::Connected { key, session, name });
                let to = self.to.clone();
                self.steps
                    .push(Box::pin(stream(socket, client, key, server, to)));
            }
            Ok(None) => {
                self.at(&socket).state = PanelSessionState::Gone;
                self.report(Incoming::Gone(key));
            }
            Err(error) => {
                self.at(&socket).state = PanelSessionState::Failed;
                self.report_failed(&socket, text_of(&error));
            }
        }
    }

    /// Shows the sessions of a server that have no daemon, and those whose daemon is silent by their
    /// names.
    fn on_listed(&mut self, server: &Server, sessions: Vec<FoundSession>) {
        let place = server.socket().to_owned();
        let listed: BTreeSet<PathBuf> = sessions
            .iter()
            .map(|session| session.daemon.clone())
            .collect();
        for FoundSession { name, daemon } in sessions {
            let found = self.at(&daemon);
            let key = found.key;
            found.server = Some(place.clone());
            let why = match found.state {
                PanelSessionState::Connecting
                | PanelSessionState::Streaming
                | PanelSessionState::Failed => continue,
                PanelSessionState::Silent => SILENT.to_owned(),
                PanelSessionState::Gone | PanelSessionState::Unsupervised => {
                    found.state = PanelSessionState::Unsupervised;
                    self.how_to_start(&name, &place)
                }
            };
            let name = self.name_of(&name, &place);
            self.report(Incoming::Unknown { key, name, why });
        }
        let mut gone = Vec::new();
        for (socket, found) in &mut self.found {
            let is_here = found.server.as_ref() == Some(&place);
            if found.state == PanelSessionState::Unsupervised && is_here && !listed.contains(socket)
            {
                found.state = PanelSessionState::Gone;
                gone.push(found.key);
            }
        }
        for key in gone {
            self.report(Incoming::Gone(key));
        }
    }

    /// Connects to a daemon, at once or after these times.
    fn connect(&mut self, socket: PathBuf, retries: &'static [Duration]) {
        self.n_connecting += 1;
        let patience = PATIENCE + retries.iter().sum::<Duration>();
        let connecting = Box::pin(connect(socket.clone(), self.choice.clone(), retries));
        self.steps.push(Box::pin(async move {
            let mut connecting: LocalBoxFuture<'static, Step> = connecting;
            match timeout(patience, &mut connecting).await {
                Ok(step) => step,
                Err(_) => Step::Slow(socket, connecting),
            }
        }));
    }

    fn name_of(&self, name: &str, server: &Path) -> SessionName {
        let shown = |text: &[u8]| text::one_line(text, NAME_CHARS);
        let is_elsewhere = server != self.here.socket();
        let file = server.file_name().unwrap_or_default();
        SessionName {
            name: shown(name.as_bytes()),
            server: is_elsewhere.then(|| shown(file.as_encoded_bytes())),
        }
    }

    /// Says that a session has no daemon, and what starts one.
    fn how_to_start(&self, name: &str, server: &Path) -> String {
        let is_plain = |text: &str| {
            text.chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
        };
        let server = match server.to_str() {
            _ if server == self.here.socket() => String::new(),
            Some(path) if is_plain(path) => format!("-S {path} "),
            Some(_) | None => "-S SOCKET ".to_owned(),
        };
        let name = if is_plain(name) { name } else { "NAME" };
        format!("no daemon runs; `tmux-task {server}-s {name} daemon --detach` starts one")
    }

    /// Reports that a daemon cannot be used. What its session is called is not known.
    fn report_failed(&mut self, socket: &Path, why: String) {
        let key = self.at(socket).key;
        let file = socket.file_stem().unwrap_or_default();
        let name = SessionName {
            name: text::one_line(file.as_encoded_bytes(), NAME_CHARS),
            server: None,
        };
        self.report(Incoming::Unknown { key, name, why });
    }

    fn report(&self, incoming: Incoming) {
        // A panel that has gone is noticed by `follow`.
        drop(self.to.send(incoming));
    }
}

async fn connect(socket: PathBuf, choice: SessionChoice, retries: &'static [Duration]) -> Step {
    for retry in retries {
        sleep(*retry).await;
        if let Ok(Some(found)) = ops::task_stream_at(&socket, &choice).await {
            return Step::Connected(socket, Box::new(Ok(Some(found))));
        }
    }
    let result = if retries.is_empty() {
        ops::task_stream_at(&socket, &choice).await
    } else {
        Ok(None)
    };
    Step::Connected(socket, Box::new(result))
}

async fn stream(
    socket: PathBuf,
    mut client: Client,
    key: SessionKey,
    server: Server,
    to: UnboundedSender<Incoming>,
) -> Step {
    read(&mut client, key, &to).await;
    Step::Ended(socket, server)
}

async fn list(server: Server) -> Step {
    let sessions = timeout(ANSWERS_WITHIN, ops::sessions_of(&server)).await;
    let sessions = sessions.unwrap_or_else(|_| Ok(Vec::new()));
    Step::Listed(server, sessions)
}

fn file_id(path: &Path) -> io::Result<FileId> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

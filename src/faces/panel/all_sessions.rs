//! The tasks of all sessions of the user: one stream for each daemon, also for those that start
//! while the panel is open.
//!
//! A daemon's start shows as a new socket in the runtime folder, which is listed every
//! [`RESCAN`]. tmux is asked for sessions without a daemon at the start, and when a daemon has left.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use std::{fs, io, mem};

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::board::{SessionKey, SessionName};
use super::state::Place;
use super::work::{ANSWERS_WITHIN, Incoming, read, text_of};
use crate::model::{Error, Ordered as _, text};
use crate::ops::{self, FoundSession, Server, SessionChoice, TaskSession};

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

/// The identity of a file: device, inode and time of change.
type FileId = (u64, u64, i64, i64);

/// Follows all sessions.
pub(super) struct AllSessions<'a> {
    choice: &'a SessionChoice,
    /// The present server's socket.
    here: PathBuf,
    to: UnboundedSender<Incoming>,
    /// The servers that sessions were found on, by socket.
    servers: BTreeMap<PathBuf, Server>,
    /// By the daemon's socket.
    found: BTreeMap<PathBuf, PanelSession>,
    /// The servers to ask for their sessions, by socket, once nothing is connecting.
    unlisted: BTreeSet<PathBuf>,
    futures: FuturesUnordered<LocalBoxFuture<'a, ()>>,
    news: UnboundedReceiver<News>,
    tell: UnboundedSender<News>,
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum PanelSessionState {
    /// Its daemon is being connected to.
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

/// What happened to a daemon or a server, by its socket.
enum News {
    /// A daemon of a session on this server pushes its tasks.
    Connected(PathBuf, Server),
    /// A daemon pushes tasks no longer. It or another one is connected to again.
    Left(PathBuf),
    /// No daemon can be followed, for now or any more.
    Unusable(PathBuf, PanelSessionState),
    /// The sessions of a server; `None` if it has not said.
    Listed(PathBuf, Option<Vec<FoundSession>>),
}

impl<'a> AllSessions<'a> {
    /// Follows nothing yet. `choice` says which server is the present one.
    pub(super) fn of(
        choice: &'a SessionChoice,
        to: UnboundedSender<Incoming>,
    ) -> Result<Self, Error> {
        let server = TaskSession::named(choice)?.server;
        let here = server.socket().to_owned();
        let (tell, news) = unbounded_channel();
        Ok(Self {
            choice,
            to,
            servers: BTreeMap::from([(here.clone(), server)]),
            found: BTreeMap::new(),
            unlisted: BTreeSet::from([here.clone()]),
            here,
            futures: FuturesUnordered::new(),
            news,
            tell,
        })
    }

    /// Reports sessions and tasks until nothing listens any more.
    pub(super) async fn follow(mut self) {
        let mut scans = interval(RESCAN);
        scans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.to.is_closed() {
            // Nothing is lost when one of these is dropped.
            tokio::select! {
                biased;
                Some(news) = self.news.recv() => self.on_news(news),
                Some(()) = self.futures.next() => {}
                _ = scans.tick() => self.scan(),
            }
            self.list_servers();
        }
    }

    /// Connects to the daemons whose sockets are new.
    fn scan(&mut self) {
        use PanelSessionState::{Connecting, Failed, Gone, Silent, Streaming, Unsupervised};
        // A folder that cannot be listed has nothing new.
        let server = &self.servers[&self.here];
        for socket in ops::daemon_sockets(server).unwrap_or_default() {
            let Ok(file) = file_id(&socket) else { continue };
            let session = self.at(&socket);
            let is_followed = match session.state {
                Connecting | Silent | Streaming => true,
                Failed | Unsupervised | Gone => false,
            };
            if is_followed || session.file == Some(file) {
                continue;
            }
            (session.file, session.state) = (Some(file), Connecting);
            let daemon = FollowedDaemon {
                key: session.key,
                socket,
                choice: self.choice,
                here: self.here.clone(),
                to: self.to.clone(),
                tell: self.tell.clone(),
            };
            self.futures.push(Box::pin(daemon.follow()));
        }
    }

    fn on_news(&mut self, news: News) {
        match news {
            News::Connected(daemon, server) => {
                let socket = server.socket().to_owned();
                let session = self.at(&daemon);
                session.state = PanelSessionState::Streaming;
                session.server = Some(socket.clone());
                self.servers.insert(socket, server);
            }
            News::Left(daemon) => {
                let session = self.at(&daemon);
                session.file = file_id(&daemon).ok();
                session.state = PanelSessionState::Connecting;
                let server = session.server.clone();
                // What else it has may have changed as well.
                self.unlisted.extend(server);
            }
            News::Unusable(daemon, state) => self.at(&daemon).state = state,
            News::Listed(server, sessions) => {
                // A server that does not answer has nothing new.
                if let Some(sessions) = sessions {
                    self.on_listed(&server, sessions);
                }
                self.report(Incoming::Found);
            }
        }
    }

    /// Asks servers for their sessions, once it is known which daemons there are.
    fn list_servers(&mut self) {
        let mut sessions = self.found.values();
        if sessions.any(|session| session.state == PanelSessionState::Connecting) {
            return;
        }
        for socket in mem::take(&mut self.unlisted) {
            let (server, tell) = (self.servers[&socket].clone(), self.tell.clone());
            self.futures.push(Box::pin(async move {
                let sessions = timeout(ANSWERS_WITHIN, ops::sessions_of(&server)).await;
                let sessions = sessions.ok().and_then(Result::ok);
                drop(tell.send(News::Listed(socket, sessions)));
            }));
        }
    }

    /// Shows the sessions of a server that have no daemon, and those whose daemon is silent by their
    /// names.
    fn on_listed(&mut self, server: &Path, sessions: Vec<FoundSession>) {
        use PanelSessionState::{Connecting, Failed, Gone, Silent, Streaming, Unsupervised};
        let listed = sessions.iter().map(|session| session.daemon.clone());
        let listed = listed.into_set();
        for FoundSession { name, daemon } in sessions {
            let how_to_start = how_to_start(&name, server, &self.here);
            let session = self.at(&daemon);
            let key = session.key;
            session.server = Some(server.to_owned());
            let why = match session.state {
                Connecting | Streaming | Failed => continue,
                Silent => SILENT.to_owned(),
                Gone | Unsupervised => {
                    session.state = Unsupervised;
                    how_to_start
                }
            };
            let name = session_name(&name, server, &self.here);
            self.report(Incoming::Unknown { key, name, why });
        }
        for (daemon, session) in &mut self.found {
            let is_here = session.server.as_deref() == Some(server);
            if session.state == Unsupervised && is_here && !listed.contains(daemon) {
                session.state = Gone;
                drop(self.to.send(Incoming::Gone(session.key)));
            }
        }
    }

    /// Returns what is known of the session whose daemon listens at a socket.
    fn at(&mut self, daemon: &Path) -> &mut PanelSession {
        let key = SessionKey(self.found.len());
        self.found
            .entry(daemon.to_owned())
            .or_insert_with(|| PanelSession {
                key,
                server: None,
                state: PanelSessionState::Gone,
                file: None,
            })
    }

    fn report(&self, incoming: Incoming) {
        // A panel that has gone is noticed by `follow`.
        drop(self.to.send(incoming));
    }
}

/// A daemon whose socket was found.
struct FollowedDaemon<'a> {
    key: SessionKey,
    socket: PathBuf,
    choice: &'a SessionChoice,
    here: PathBuf,
    to: UnboundedSender<Incoming>,
    tell: UnboundedSender<News>,
}

impl FollowedDaemon<'_> {
    /// Reports its tasks, and those of its successors. What is shown until a successor answers are the
    /// last ones that are known.
    async fn follow(self) {
        let mut retries: Option<&[Duration]> = None;
        loop {
            let mut connecting = Box::pin(ops::task_stream_at(&self.socket, self.choice));
            let connected = match timeout(PATIENCE, &mut connecting).await {
                Ok(connected) => connected,
                Err(_) => {
                    self.show_unknown(PanelSessionState::Silent, SILENT.to_owned());
                    connecting.await
                }
            };
            match connected {
                Ok(Some((mut client, session))) => {
                    let (key, server) = (self.key, session.server.clone());
                    let name = session_name(&session.name, server.socket(), &self.here);
                    let place = Place::Here(Rc::new(session));
                    drop(self.to.send(Incoming::Connected { key, place, name }));
                    self.tell(News::Connected(self.socket.clone(), server));
                    read(&mut client, key, &self.to).await;
                    self.tell(News::Left(self.socket.clone()));
                    retries = Some(&RETRIES);
                }
                Err(error) if retries.is_none() => {
                    return self.show_unknown(PanelSessionState::Failed, text_of(&error));
                }
                // After a daemon has left, its successor counts, and no error of what is left of it.
                Ok(None) | Err(_) => {}
            }
            let Some((pause, rest)) = retries.and_then(|retries| retries.split_first()) else {
                drop(self.to.send(Incoming::Gone(self.key)));
                return self.tell(News::Unusable(self.socket.clone(), PanelSessionState::Gone));
            };
            sleep(*pause).await;
            retries = Some(rest);
        }
    }

    /// Shows the session, of which not even the name is known, with the reason.
    fn show_unknown(&self, state: PanelSessionState, why: String) {
        let file = self.socket.file_stem().unwrap_or_default();
        let name = SessionName {
            name: text::one_line(file.as_encoded_bytes(), NAME_CHARS),
            server: None,
        };
        let key = self.key;
        drop(self.to.send(Incoming::Unknown { key, name, why }));
        self.tell(News::Unusable(self.socket.clone(), state));
    }

    fn tell(&self, news: News) {
        // Without a receiver the panel has gone.
        drop(self.tell.send(news));
    }
}

fn session_name(name: &str, server: &Path, here: &Path) -> SessionName {
    let shown = |text: &[u8]| text::one_line(text, NAME_CHARS);
    let file = server.file_name().unwrap_or_default();
    SessionName {
        name: shown(name.as_bytes()),
        server: (server != here).then(|| shown(file.as_encoded_bytes())),
    }
}

/// Says that a session has no daemon, and what starts one.
fn how_to_start(name: &str, server: &Path, here: &Path) -> String {
    let is_plain = |text: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
    };
    let server = match server.to_str() {
        _ if server == here => String::new(),
        Some(path) if is_plain(path) => format!("-S {path} "),
        Some(_) | None => "-S SOCKET ".to_owned(),
    };
    let name = if is_plain(name) { name } else { "NAME" };
    format!("no daemon runs; `tmux-task {server}-s {name} daemon --detach` starts one")
}

fn file_id(path: &Path) -> io::Result<FileId> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "/tmp/tmux-1/default";

    #[test]
    fn a_session_of_another_server_is_called_with_it_and_started_with_it() {
        for (server, name, shown, start) in [
            (HERE, "a", None, "-s a"),
            (
                "/tmp/tmux-1/other",
                "b",
                Some("other"),
                "-S /tmp/tmux-1/other -s b",
            ),
            // What a shell would take apart is left to the user.
            ("/tmp/my tmux", "c d", Some("my tmux"), "-S SOCKET -s NAME"),
        ] {
            let called = session_name(name, server.as_ref(), HERE.as_ref());
            assert_eq!((&*called.name, called.server.as_deref()), (name, shown));
            assert_eq!(
                how_to_start(name, server.as_ref(), HERE.as_ref()),
                format!("no daemon runs; `tmux-task {start} daemon --detach` starts one")
            );
        }
    }
}

//! The tasks of all sessions of the user: one stream for each daemon, also for those that start
//! while the panel is open.
//!
//! A daemon's start shows as a new socket in the runtime folder, which is listed every
//! [`RESCAN`]. tmux is asked for sessions without a daemon at the start, and when a daemon has left.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use std::{fs, io, mem};

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
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
    /// The present server.
    here: Server,
    to: UnboundedSender<Incoming>,
    known: RefCell<Known>,
    /// Notified of each change of what is known.
    changed: Notify,
}

/// What is known of daemons and servers.
struct Known {
    /// By the daemon's socket.
    found: BTreeMap<PathBuf, PanelSession>,
    /// The servers to ask for their sessions, by socket, once nothing is connecting.
    unlisted: BTreeMap<PathBuf, Server>,
}

/// A session that was found.
struct PanelSession {
    key: SessionKey,
    /// Its tmux server, once known.
    server: Option<Server>,
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

impl<'a> AllSessions<'a> {
    /// Follows nothing yet. `choice` says which server is the present one.
    pub(super) fn of(
        choice: &'a SessionChoice,
        to: UnboundedSender<Incoming>,
    ) -> Result<Self, Error> {
        let here = TaskSession::named(choice)?.server;
        let known = Known {
            found: BTreeMap::new(),
            unlisted: BTreeMap::from([(here.socket().to_owned(), here.clone())]),
        };
        Ok(Self {
            choice,
            here,
            to,
            known: RefCell::new(known),
            changed: Notify::new(),
        })
    }

    /// Reports sessions and tasks. What listens drops it at its own end.
    pub(super) async fn follow(self) {
        let this = &self;
        let mut futures = FuturesUnordered::<LocalBoxFuture<'_, ()>>::new();
        let mut scans = interval(RESCAN);
        scans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Nothing is lost when one of these is dropped.
            tokio::select! {
                biased;
                () = this.changed.notified() => {}
                Some(()) = futures.next() => {}
                _ = scans.tick() => {
                    for (socket, key) in this.scan() {
                        futures.push(Box::pin(this.follow_daemon(socket, key)));
                    }
                }
            }
            for server in this.servers_to_list() {
                futures.push(Box::pin(this.list(server)));
            }
        }
    }

    /// Returns the daemons whose sockets are new, to connect to.
    fn scan(&self) -> Vec<(PathBuf, SessionKey)> {
        use PanelSessionState::{Connecting, Failed, Gone, Silent, Streaming, Unsupervised};
        let mut known = self.known.borrow_mut();
        // A folder that cannot be listed has nothing new.
        let sockets = ops::daemon_sockets(&self.here).unwrap_or_default();
        let is_new = |socket: PathBuf| {
            let file = file_id(&socket).ok()?;
            let session = known.at(&socket);
            let is_followed = match session.state {
                Connecting | Silent | Streaming => true,
                Failed | Unsupervised | Gone => false,
            };
            if is_followed || session.file == Some(file) {
                return None;
            }
            (session.file, session.state) = (Some(file), Connecting);
            Some((socket, session.key))
        };
        sockets.into_iter().filter_map(is_new).collect()
    }

    /// Takes the servers to ask for their sessions, once it is known which daemons there are.
    fn servers_to_list(&self) -> Vec<Server> {
        let mut known = self.known.borrow_mut();
        let is_connecting = |session: &PanelSession| session.state == PanelSessionState::Connecting;
        if known.found.values().any(is_connecting) {
            return Vec::new();
        }
        mem::take(&mut known.unlisted).into_values().collect()
    }

    /// Asks a server for its sessions.
    async fn list(&self, server: Server) {
        let sessions = timeout(ANSWERS_WITHIN, ops::sessions_of(&server)).await;
        // A server that does not answer has nothing new.
        if let Ok(Ok(sessions)) = sessions {
            self.on_listed(&server, sessions);
        }
        self.report(Incoming::Found);
    }

    /// Shows the sessions of a server that have no daemon, and those whose daemon is silent by their
    /// names.
    fn on_listed(&self, server: &Server, sessions: Vec<FoundSession>) {
        use PanelSessionState::{Connecting, Failed, Gone, Silent, Streaming, Unsupervised};
        let listed = sessions.iter().map(|session| session.daemon.clone());
        let listed = listed.into_set();
        let mut known = self.known.borrow_mut();
        for FoundSession { name, daemon } in sessions {
            let how_to_start = how_to_start(&name, server.socket(), self.here.socket());
            let session = known.at(&daemon);
            let key = session.key;
            session.server = Some(server.clone());
            let why = match session.state {
                Connecting | Streaming | Failed => continue,
                Silent => SILENT.to_owned(),
                Gone | Unsupervised => {
                    session.state = Unsupervised;
                    how_to_start
                }
            };
            let name = session_name(&name, server.socket(), self.here.socket());
            self.report(Incoming::Unknown { key, name, why });
        }
        for (daemon, session) in &mut known.found {
            let of = session.server.as_ref().map(Server::socket);
            let is_here = of == Some(server.socket());
            if session.state == Unsupervised && is_here && !listed.contains(daemon) {
                session.state = Gone;
                self.report(Incoming::Gone(session.key));
            }
        }
    }

    /// Reports the tasks of a daemon whose socket was found, and those of its successors. What is shown until
    /// a successor answers are the last ones that are known.
    async fn follow_daemon(&self, socket: PathBuf, key: SessionKey) {
        let mut retries: Option<&[Duration]> = None;
        loop {
            let mut connecting = Box::pin(ops::task_stream_at(&socket, self.choice));
            let connected = match timeout(PATIENCE, &mut connecting).await {
                Ok(connected) => connected,
                Err(_) => {
                    self.show_unknown(&socket, PanelSessionState::Silent, SILENT.to_owned());
                    connecting.await
                }
            };
            match connected {
                Ok(Some((mut client, session))) => {
                    let server = session.server.clone();
                    let name = session_name(&session.name, server.socket(), self.here.socket());
                    let place = Place::Here(Rc::new(session));
                    self.report(Incoming::Connected { key, place, name });
                    self.change(|known| {
                        let session = known.at(&socket);
                        session.state = PanelSessionState::Streaming;
                        session.server = Some(server);
                    });
                    read(&mut client, key, &self.to).await;
                    self.change(|known| {
                        let session = known.at(&socket);
                        session.state = PanelSessionState::Connecting;
                        session.file = file_id(&socket).ok();
                        // What else its server has may have changed as well.
                        if let Some(server) = session.server.clone() {
                            known.unlisted.insert(server.socket().to_owned(), server);
                        }
                    });
                    retries = Some(&RETRIES);
                }
                Err(error) if retries.is_none() => {
                    let why = text_of(&error);
                    return self.show_unknown(&socket, PanelSessionState::Failed, why);
                }
                // After a daemon has left, its successor counts, and no error of what is left of it.
                Ok(None) | Err(_) => {}
            }
            let Some((pause, rest)) = retries.and_then(|retries| retries.split_first()) else {
                self.report(Incoming::Gone(key));
                return self.change(|known| known.at(&socket).state = PanelSessionState::Gone);
            };
            sleep(*pause).await;
            retries = Some(rest);
        }
    }

    /// Shows the session of a daemon, of which not even the name is known, with the reason.
    fn show_unknown(&self, socket: &Path, state: PanelSessionState, why: String) {
        let file = socket.file_stem().unwrap_or_default();
        let name = SessionName {
            name: text::one_line(file.as_encoded_bytes(), NAME_CHARS),
            server: None,
        };
        self.change(|known| {
            let session = known.at(socket);
            session.state = state;
            let key = session.key;
            self.report(Incoming::Unknown { key, name, why });
        });
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.borrow_mut());
        self.changed.notify_one();
    }

    fn report(&self, incoming: Incoming) {
        drop(self.to.send(incoming));
    }
}

impl Known {
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

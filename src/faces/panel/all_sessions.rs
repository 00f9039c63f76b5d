//! The tasks of all sessions of the user: one stream for each daemon, also for those that start
//! while the panel is open.
//!
//! Every [`RESCAN`], each socket in the runtime folder that is not followed is tried: a daemon may have
//! started there. tmux is asked for sessions without a daemon at the start, and when a daemon has left.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::board::{Place, SessionKey, SessionName};
use super::state::Incoming;
use super::work::{ANSWERS_WITHIN, read, text_of};
use crate::model::{Error, Ordered as _, text};
use crate::ops::{self, FoundSession, Server, SessionChoice, TaskSession, quote_where_needed};

/// How often the runtime folder is listed.
const RESCAN: Duration = Duration::from_secs(2);

/// How long a daemon may take to answer before the panel says that it does not.
const PATIENCE: Duration = Duration::from_secs(2);

/// The maximum length of a session's or a server's name, in characters.
const NAME_CHARS: usize = 200;

const SILENT: &str = "the daemon does not answer";

pub(super) struct AllSessions<'a> {
    choice: &'a SessionChoice,
    here: Server,
    to: UnboundedSender<Incoming>,
    /// What was found, by the daemon's socket.
    found: RefCell<BTreeMap<PathBuf, PanelSession>>,
    /// The servers to ask for their sessions, by socket, once nothing is connecting.
    unlisted: RefCell<BTreeMap<PathBuf, Server>>,
    changed: Notify,
}

struct PanelSession {
    key: SessionKey,
    /// Its tmux server, once known.
    server: Option<Server>,
    shown: ShownSession,
    /// Whether its daemon is being connected to, or pushes tasks.
    is_followed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownSession {
    Nothing,
    /// The tasks that its daemon pushes, or has pushed last.
    Tasks,
    /// That its daemon does not answer.
    Silent,
    /// That its daemon cannot be used, or that it has none.
    Unusable,
}

impl<'a> AllSessions<'a> {
    /// Follows nothing yet. `choice` says which server is the present one.
    pub(super) fn of(
        choice: &'a SessionChoice,
        to: UnboundedSender<Incoming>,
    ) -> Result<Self, Error> {
        let here = TaskSession::named(choice)?.server;
        let unlisted = BTreeMap::from([(here.socket().to_owned(), here.clone())]);
        Ok(Self {
            choice,
            here,
            to,
            found: RefCell::default(),
            unlisted: RefCell::new(unlisted),
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
                    for socket in this.scan() {
                        futures.push(Box::pin(this.follow_daemon(socket)));
                    }
                }
            }
            let is_connecting = |session: &PanelSession| {
                session.is_followed && session.shown == ShownSession::Nothing
            };
            // It is known which daemons there are.
            if !this.found.borrow().values().any(is_connecting) {
                for server in this.unlisted.take().into_values() {
                    futures.push(Box::pin(this.list(server)));
                }
            }
        }
    }

    /// Returns the sockets to try: those that no daemon is followed at, also where one has left.
    fn scan(&self) -> Vec<PathBuf> {
        // A folder that cannot be listed has nothing new.
        let mut sockets = ops::daemon_sockets(&self.here).unwrap_or_default();
        for (socket, session) in self.found.borrow().iter() {
            if session.shown == ShownSession::Tasks {
                sockets.push(socket.clone());
            }
        }
        sockets.retain(|socket| {
            !self.change(socket, |session| {
                mem::replace(&mut session.is_followed, true)
            })
        });
        sockets
    }

    async fn list(&self, server: Server) {
        let sessions = timeout(ANSWERS_WITHIN, ops::sessions_of(&server)).await;
        // A server that does not answer has nothing new.
        if let Ok(Ok(sessions)) = sessions {
            self.on_listed(&server, sessions);
        }
        self.report(Incoming::Found);
    }

    /// Shows the sessions that have no daemon, and those whose daemon is silent by their names.
    fn on_listed(&self, server: &Server, sessions: Vec<FoundSession>) {
        let listed = sessions.iter().map(|session| session.daemon.clone());
        let listed = listed.into_set();
        let (socket, here) = (server.socket(), self.here.socket());
        for FoundSession { name, daemon } in sessions {
            let unknown = self.change(&daemon, |session| {
                session.server = Some(server.clone());
                let why = match (session.shown, session.is_followed) {
                    (ShownSession::Silent, _) => SILENT.to_owned(),
                    (ShownSession::Nothing, false) => {
                        session.shown = ShownSession::Unusable;
                        how_to_start(&name, socket, here)
                    }
                    (ShownSession::Nothing, true)
                    | (ShownSession::Tasks | ShownSession::Unusable, _) => return None,
                };
                Some((session.key, why))
            });
            if let Some((key, why)) = unknown {
                let name = session_name(&name, socket, here);
                self.report(Incoming::Unknown { key, name, why });
            }
        }
        for (daemon, session) in self.found.borrow_mut().iter_mut() {
            let of = session.server.as_ref().map(Server::socket);
            let is_here = of == Some(socket) && !session.is_followed;
            if session.shown == ShownSession::Unusable && is_here && !listed.contains(daemon) {
                session.shown = ShownSession::Nothing;
                self.report(Incoming::Gone(session.key));
            }
        }
    }

    /// Reports the tasks of a daemon whose socket was found, until it has left. What is shown then are the
    /// last ones that are known, until the socket is tried again.
    async fn follow_daemon(&self, socket: PathBuf) {
        let mut connecting = Box::pin(ops::task_stream_at(&socket, self.choice));
        let connected = match timeout(PATIENCE, &mut connecting).await {
            Ok(connected) => connected,
            Err(_) => {
                self.show_unknown(&socket, ShownSession::Silent, SILENT.to_owned());
                connecting.await
            }
        };
        match connected {
            Ok(Some((mut client, session))) => {
                let server = session.server.clone();
                let name = session_name(&session.name, server.socket(), self.here.socket());
                let place = Place::Here(Rc::new(session));
                let key = self.change(&socket, |session| {
                    session.shown = ShownSession::Tasks;
                    session.server = Some(server);
                    session.key
                });
                self.report(Incoming::Connected { key, place, name });
                read(&mut client, key, &self.to).await;
            }
            Ok(None) => {
                let left = self.change(&socket, |session| match session.shown {
                    ShownSession::Nothing | ShownSession::Unusable => None,
                    ShownSession::Tasks | ShownSession::Silent => {
                        session.shown = ShownSession::Nothing;
                        Some((session.key, session.server.clone()))
                    }
                });
                if let Some((key, server)) = left {
                    self.report(Incoming::Gone(key));
                    // What else its server has may have changed as well.
                    let server = server.unwrap_or_else(|| self.here.clone());
                    let mut unlisted = self.unlisted.borrow_mut();
                    unlisted.insert(server.socket().to_owned(), server);
                }
            }
            Err(error) => self.show_unknown(&socket, ShownSession::Unusable, text_of(&error)),
        }
        self.change(&socket, |session| session.is_followed = false);
    }

    /// Shows the session of a daemon, of which not even the name is known, with the reason.
    fn show_unknown(&self, socket: &Path, shown: ShownSession, why: String) {
        let file = socket.file_stem().unwrap_or_default();
        let name = SessionName {
            name: text::one_line(file.as_encoded_bytes(), NAME_CHARS),
            server: None,
        };
        let key = self.change(socket, |session| {
            session.shown = shown;
            session.key
        });
        self.report(Incoming::Unknown { key, name, why });
    }

    /// Changes what is known of the session whose daemon listens at this socket.
    fn change<T>(&self, socket: &Path, change: impl FnOnce(&mut PanelSession) -> T) -> T {
        let mut found = self.found.borrow_mut();
        let key = SessionKey(found.len());
        let session = found.entry(socket.to_owned()).or_insert(PanelSession {
            key,
            server: None,
            shown: ShownSession::Nothing,
            is_followed: false,
        });
        self.changed.notify_one();
        change(session)
    }

    fn report(&self, incoming: Incoming) {
        drop(self.to.send(incoming));
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
    let server = match server == here {
        true => String::new(),
        false => format!("-S {} ", quote_where_needed(&server.to_string_lossy())),
    };
    let name = quote_where_needed(name);
    format!("no daemon runs; `tmux-task {server}-s {name} daemon --detach` starts one")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "/tmp/tmux-1/default";

    #[test]
    fn a_session_of_another_server_is_called_with_it_and_started_with_it() {
        let other = "/tmp/tmux-1/other";
        for (server, name, shown, start) in [
            (HERE, "a", None, "-s a"),
            (other, "b", Some("other"), "-S /tmp/tmux-1/other -s b"),
            ("/my tmux", "c d", Some("my tmux"), "-S '/my tmux' -s 'c d'"),
        ] {
            let (server, here) = (server.as_ref(), HERE.as_ref());
            let called = session_name(name, server, here);
            assert_eq!((&*called.name, called.server.as_deref()), (name, shown));
            let why = format!("no daemon runs; `tmux-task {start} daemon --detach` starts one");
            assert_eq!(how_to_start(name, server, here), why);
        }
    }
}

//! Which sessions of the user there are: results of connecting and listing go in, effects come out.
//!
//! A daemon's start shows as a new socket in the runtime folder, which is listed every
//! [`RESCAN`]. tmux is asked for sessions without a daemon at the start, and when a daemon has left.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::board::{SessionKey, SessionName};
use crate::model::{Ordered as _, text};
use crate::ops::FoundSession;

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
pub(super) type FileId = (u64, u64, i64, i64);

/// How an attempt to connect to a daemon has ended.
#[derive(Debug)]
pub(super) enum ConnectResult {
    /// It pushes the tasks of the session of this name, of the server at this socket.
    Connected { name: String, server: PathBuf },
    /// No daemon listens.
    NoDaemon,
    /// The daemon cannot be used, and why.
    Failed(String),
}

/// An effect of following all sessions. Daemons and servers are named by their sockets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionEffect {
    /// List the runtime folder.
    Scan,
    /// Connect to this daemon.
    Connect(PathBuf),
    /// Report the tasks that the daemon pushes that has just been connected to.
    Stream {
        daemon: PathBuf,
        key: SessionKey,
        name: SessionName,
    },
    /// Ask this server for its sessions.
    List(PathBuf),
    /// Say that all sessions that there were at first are known.
    Found,
    /// Show a session whose tasks are not known, and why.
    ShowUnknown {
        key: SessionKey,
        name: SessionName,
        why: String,
    },
    /// Show a session no longer.
    Remove(SessionKey),
}

/// The sessions that were found.
#[derive(Debug)]
pub(super) struct FoundSessions {
    /// The present server's socket.
    here: PathBuf,
    /// By the daemon's socket.
    found: BTreeMap<PathBuf, PanelSession>,
    n_keys: usize,
    /// When the runtime folder is listed next; `None` while it is being listed.
    scans_at: Option<Instant>,
    /// The servers to ask for their sessions, by socket, once nothing is connecting.
    unlisted: BTreeSet<PathBuf>,
}

/// A session that was found.
#[derive(Debug)]
struct PanelSession {
    key: SessionKey,
    /// Its tmux server's socket, once known.
    server: Option<PathBuf>,
    state: PanelSessionState,
    /// The socket's file when it was connected to last.
    file: Option<FileId>,
}

#[derive(Debug, Clone, Copy)]
enum PanelSessionState {
    /// It is being connected to. If it has not answered by `silent_at`, it is silent.
    Connecting {
        attempt: Attempt,
        silent_at: Instant,
    },
    /// The same, and it does not answer.
    Silent(Attempt),
    /// It pushes tasks.
    Streaming,
    /// Its daemon cannot be used.
    Failed,
    /// The session is shown as one without a daemon.
    Unsupervised,
    /// It is not shown.
    Gone,
}

/// An attempt to connect to a daemon.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    /// When it begins; `None` while it is under way.
    begins_at: Option<Instant>,
    /// After which times the next ones follow; `None` where there is one attempt and its error is
    /// shown, because the socket is new.
    retries: Option<&'static [Duration]>,
}

impl Attempt {
    /// Begins if it is time to, and returns whether it did.
    fn begin(&mut self, now: Instant) -> bool {
        self.begins_at
            .take_if(|begins_at| *begins_at <= now)
            .is_some()
    }

    /// Returns the attempt that follows one that has just failed.
    fn next(self, now: Instant) -> Option<Self> {
        let (first, retries) = self.retries?.split_first()?;
        Some(Self {
            begins_at: Some(now + *first),
            retries: Some(retries),
        })
    }
}

impl PanelSessionState {
    /// Returns the attempt that waits or is under way.
    fn attempt(&self) -> Option<Attempt> {
        match self {
            Self::Connecting { attempt, .. } | Self::Silent(attempt) => Some(*attempt),
            Self::Streaming | Self::Failed | Self::Unsupervised | Self::Gone => None,
        }
    }

    /// Returns the same state with another attempt.
    fn with_attempt(self, attempt: Attempt) -> Self {
        match self {
            Self::Connecting { silent_at, .. } => Self::Connecting { attempt, silent_at },
            Self::Silent(_) => Self::Silent(attempt),
            Self::Streaming | Self::Failed | Self::Unsupervised | Self::Gone => self,
        }
    }

    /// When something is due without an input.
    fn deadline(&self) -> Option<Instant> {
        let begins_at = self.attempt().and_then(|attempt| attempt.begins_at);
        match self {
            Self::Connecting { silent_at, .. } => {
                Some(begins_at.map_or(*silent_at, |at| at.min(*silent_at)))
            }
            Self::Silent(_) | Self::Streaming | Self::Failed | Self::Unsupervised | Self::Gone => {
                begins_at
            }
        }
    }
}

impl FoundSessions {
    /// Nothing is found yet, and the first listing is due. `here` is the present server's socket.
    pub(super) fn new(here: PathBuf, now: Instant) -> Self {
        Self {
            unlisted: [here.clone()].into_iter().into_set(),
            here,
            found: BTreeMap::new(),
            n_keys: 0,
            scans_at: Some(now),
        }
    }

    /// When [`Self::on_time`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.found.values();
        let deadlines = sessions.filter_map(|session| session.state.deadline());
        deadlines.chain(self.scans_at).min()
    }

    /// Some time has passed.
    pub(super) fn on_time(&mut self, now: Instant) -> Vec<SessionEffect> {
        let mut effects = Vec::new();
        if self.scans_at.take_if(|at| *at <= now).is_some() {
            effects.push(SessionEffect::Scan);
        }
        for (daemon, session) in &mut self.found {
            let Some(mut attempt) = session.state.attempt() else {
                continue;
            };
            if attempt.begin(now) {
                session.state = session.state.with_attempt(attempt);
                effects.push(SessionEffect::Connect(daemon.clone()));
            }
            if matches!(session.state, PanelSessionState::Connecting { silent_at, .. } if silent_at <= now)
            {
                session.state = PanelSessionState::Silent(attempt);
                effects.push(show_failed(session.key, daemon, SILENT.to_owned()));
            }
        }
        self.settled(effects)
    }

    /// The runtime folder has these sockets. The daemons whose sockets are new are connected to.
    pub(super) fn on_sockets(
        &mut self,
        sockets: Vec<(PathBuf, FileId)>,
        now: Instant,
    ) -> Vec<SessionEffect> {
        self.scans_at = Some(now + RESCAN);
        let mut effects = Vec::new();
        for (daemon, file) in sockets {
            let session = self.at(&daemon);
            let is_connected = match session.state {
                PanelSessionState::Connecting { .. }
                | PanelSessionState::Silent(_)
                | PanelSessionState::Streaming => true,
                PanelSessionState::Failed
                | PanelSessionState::Unsupervised
                | PanelSessionState::Gone => false,
            };
            if !is_connected && session.file != Some(file) {
                session.file = Some(file);
                session.state = PanelSessionState::Connecting {
                    attempt: Attempt {
                        begins_at: None,
                        retries: None,
                    },
                    silent_at: now + PATIENCE,
                };
                effects.push(SessionEffect::Connect(daemon));
            }
        }
        self.settled(effects)
    }

    /// An attempt to connect to a daemon has ended.
    pub(super) fn on_connect_result(
        &mut self,
        daemon: &Path,
        result: ConnectResult,
        now: Instant,
    ) -> Vec<SessionEffect> {
        let session = self.at(daemon);
        let key = session.key;
        let attempt = session.state.attempt();
        let effect = match result {
            ConnectResult::Connected { name, server } => {
                session.state = PanelSessionState::Streaming;
                session.server = Some(server.clone());
                SessionEffect::Stream {
                    daemon: daemon.to_owned(),
                    key,
                    name: self.name_of(&name, &server),
                }
            }
            ConnectResult::NoDaemon | ConnectResult::Failed(_)
                if let Some(next) = attempt.and_then(|attempt| attempt.next(now)) =>
            {
                session.state = session.state.with_attempt(next);
                return Vec::new();
            }
            ConnectResult::Failed(why)
                if attempt.is_some_and(|attempt| attempt.retries.is_none()) =>
            {
                session.state = PanelSessionState::Failed;
                show_failed(key, daemon, why)
            }
            // After a daemon has left, its successor counts, and no error of what is left of it.
            ConnectResult::NoDaemon | ConnectResult::Failed(_) => {
                session.state = PanelSessionState::Gone;
                SessionEffect::Remove(key)
            }
        };
        self.settled(vec![effect])
    }

    /// A daemon pushes tasks no longer. Its socket is this file now, if it is still there.
    pub(super) fn on_ended(
        &mut self,
        daemon: &Path,
        file: Option<FileId>,
        now: Instant,
    ) -> Vec<SessionEffect> {
        let session = self.at(daemon);
        session.file = file;
        let first = Attempt {
            begins_at: None,
            retries: Some(&RETRIES),
        };
        if let Some(attempt) = first.next(now) {
            session.state = PanelSessionState::Connecting {
                attempt,
                silent_at: now + PATIENCE + RETRIES.iter().sum::<Duration>(),
            };
        }
        let server = session.server.clone();
        self.unlisted.extend(server);
        self.settled(Vec::new())
    }

    /// A server has these task sessions; `None` if it does not say.
    pub(super) fn on_listed(
        &mut self,
        server: &Path,
        sessions: Option<Vec<FoundSession>>,
    ) -> Vec<SessionEffect> {
        // A server that does not answer has nothing new.
        let mut effects = sessions.map_or_else(Vec::new, |sessions| self.listed(server, sessions));
        effects.push(SessionEffect::Found);
        self.settled(effects)
    }

    /// Shows the sessions of a server that have no daemon, and those whose daemon is silent by their
    /// names.
    fn listed(&mut self, server: &Path, sessions: Vec<FoundSession>) -> Vec<SessionEffect> {
        let mut effects = Vec::new();
        let listed = sessions.iter().map(|session| session.daemon.clone());
        let listed = listed.into_set();
        for FoundSession { name, daemon } in sessions {
            let session = self.at(&daemon);
            let key = session.key;
            session.server = Some(server.to_owned());
            let why = match session.state {
                PanelSessionState::Connecting { .. }
                | PanelSessionState::Streaming
                | PanelSessionState::Failed => continue,
                PanelSessionState::Silent(_) => SILENT.to_owned(),
                PanelSessionState::Gone | PanelSessionState::Unsupervised => {
                    session.state = PanelSessionState::Unsupervised;
                    self.how_to_start(&name, server)
                }
            };
            let name = self.name_of(&name, server);
            effects.push(SessionEffect::ShowUnknown { key, name, why });
        }
        for (daemon, session) in &mut self.found {
            let is_here = session.server.as_deref() == Some(server);
            if matches!(session.state, PanelSessionState::Unsupervised)
                && is_here
                && !listed.contains(daemon)
            {
                session.state = PanelSessionState::Gone;
                effects.push(SessionEffect::Remove(session.key));
            }
        }
        effects
    }

    /// Adds that servers are asked for their sessions, once it is known which daemons there are.
    fn settled(&mut self, mut effects: Vec<SessionEffect>) -> Vec<SessionEffect> {
        let is_connecting =
            |session: &PanelSession| matches!(session.state, PanelSessionState::Connecting { .. });
        if self.scans_at.is_some() && !self.found.values().any(is_connecting) {
            let servers = mem::take(&mut self.unlisted);
            effects.extend(servers.into_iter().map(SessionEffect::List));
        }
        effects
    }

    /// Returns what is known of the session whose daemon listens at a socket.
    fn at(&mut self, daemon: &Path) -> &mut PanelSession {
        self.found.entry(daemon.to_owned()).or_insert_with(|| {
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

    fn name_of(&self, name: &str, server: &Path) -> SessionName {
        let shown = |text: &[u8]| text::one_line(text, NAME_CHARS);
        let is_elsewhere = server != self.here;
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
            _ if server == self.here => String::new(),
            Some(path) if is_plain(path) => format!("-S {path} "),
            Some(_) | None => "-S SOCKET ".to_owned(),
        };
        let name = if is_plain(name) { name } else { "NAME" };
        format!("no daemon runs; `tmux-task {server}-s {name} daemon --detach` starts one")
    }
}

/// Shows a session whose daemon cannot be used. What it is called is not known.
fn show_failed(key: SessionKey, daemon: &Path, why: String) -> SessionEffect {
    let file = daemon.file_stem().unwrap_or_default();
    let name = SessionName {
        name: text::one_line(file.as_encoded_bytes(), NAME_CHARS),
        server: None,
    };
    SessionEffect::ShowUnknown { key, name, why }
}

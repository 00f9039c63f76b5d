//! The connection to the task session: attached while it exists, polling for it while it does not.

mod look;
mod window_options;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use self::window_options::WindowOptions;
use super::Options;
use super::control_clients::ControlClients;
use super::ownership::{self, Claim};
use super::server_idle::ServerIdle;
use super::tty_poller::TtyPoller;
use crate::config::paths::Paths;
use crate::model::*;
use crate::process::{self, ExitWatch, Process, ProcessExit, RunTime};
use crate::rules::observe::{Evidence, Observer};
use crate::rules::protocol::rows::LookRows;
use crate::session::Change;
use crate::tmux::{
    self, Connection, FirstLines, ListedSession, LookKind, LookMemory, Server, TmuxError,
};

/// The delay between two attempts to attach.
const ATTACH_PAUSE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// How long to wait for other daemons of the server that attach, before the clients leave.
const LOCK_LIMIT: Duration = Duration::from_millis(500);

/// Looks at one task session.
#[derive(Debug)]
pub(super) struct SessionLink {
    pub(super) server: Server,
    name: String,
    /// The life that we follow, through renames; `None` while there is none.
    pub(super) life: Option<SessionLife>,
    /// `None` while the session is missing or attaching failed: then each look is a process.
    pub(super) clients: Option<Box<ControlClients>>,
    /// When to try to attach next, and how long to wait after a further failure.
    attach_at: Instant,
    attach_pause: Backoff,
    /// Whether tmux reports respawns; see [`tmux::install`].
    reports_respawns: bool,
    pub(super) observer: Observer,
    memory: LookMemory,
    /// The first lines of the present runs, by pane.
    first_lines: BTreeMap<PaneId, FirstLines>,
    /// Whether a run had ended in the last look and tmux had not reported how.
    is_unsettled: bool,
    /// Whether the server has run since it had nothing more to tell.
    pub(super) idle: ServerIdle,
    pub(super) options: WindowOptions,
    /// When the present runs that have a slot began, by window; `None` where that is not known.
    began: BTreeMap<WindowId, (Option<u32>, Option<Millis>)>,
    /// The tmux server of that life, if there is one and its process could be opened.
    server_process: Option<Process>,
    /// Whether the last look found that the server runs but cannot be reached.
    is_unreachable: bool,
    /// Windows of the last look whose departure has to be explained, with the pids of live runs.
    watched_windows: Vec<(WindowId, Option<u32>)>,
    /// The panes of the windows' runs in the last look.
    run_panes: BTreeMap<WindowId, PaneId>,
    processes: Processes,
    paths: Paths,
    /// The life that has our mark.
    claimed: Option<SessionLife>,
    pub(super) root: Option<String>,
    pub(super) terminals: TtyPoller,
    /// The number of the connection: output of an earlier connection may be incomplete.
    connections: u64,
}

impl SessionLink {
    /// Returns a link that continues from the last look, if there was one, and from the numbers of earlier runs.
    /// `claimed` has our mark already and is the life to follow.
    pub(super) fn new(
        options: &Options,
        before: Option<&Snapshot>,
        bookmark: &Bookmark,
        claimed: Option<SessionLife>,
    ) -> io::Result<Self> {
        let observer = match before {
            Some(look) => Observer::from_snapshot(look, bookmark),
            None => Observer::numbering_from(&options.session, bookmark.run_numbers.clone()),
        };
        let saved = || before.and_then(|before| before.life.clone());
        let life = claimed.clone().or_else(saved);
        Ok(Self {
            server: options.server.clone(),
            server_process: life.as_ref().and_then(server_of),
            is_unreachable: false,
            life,
            clients: None,
            attach_at: Instant::now(),
            attach_pause: ATTACH_PAUSE,
            run_panes: observer.run_panes(),
            observer,
            memory: LookMemory::default(),
            first_lines: BTreeMap::new(),
            is_unsettled: false,
            reports_respawns: false,
            idle: ServerIdle::default(),
            options: WindowOptions::default(),
            began: before.map(begun).unwrap_or_default(),
            watched_windows: before.map(watched_windows).unwrap_or_default(),
            processes: Processes::new()?,
            paths: options.paths.clone(),
            claimed,
            root: None,
            terminals: TtyPoller::default(),
            connections: 0,
            name: options.session.clone(),
        })
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.life.as_ref().map(|life| life.id)
    }

    pub(super) fn session_name(&self) -> Option<String> {
        self.life.as_ref().map(|_| self.name.clone())
    }

    /// Returns our control clients, or the error that the session is not connected.
    pub(super) fn clients(&mut self) -> Result<&mut ControlClients, TmuxError> {
        self.clients.as_deref_mut().ok_or(TmuxError::Closed)
    }

    pub(super) fn connection(&mut self) -> Connection<'_> {
        match &mut self.clients {
            Some(clients) => Connection::Attached(&mut clients.main),
            None => Connection::OneShot(&self.server),
        }
    }

    /// Resolves when something has changed; never while detached. What a dropped future has not returned is next.
    pub(super) async fn changed(&mut self) -> Change {
        let (processes, clients) = (&mut self.processes, &mut self.clients);
        let reported = async {
            match clients {
                None => std::future::pending().await,
                Some(clients) => clients.changed().await,
            }
        };
        tokio::select! {
            () = processes.ended() => Change::Windows,
            reported = reported => reported.unwrap_or_else(|error| {
                self.lose_clients(&error);
                Change::Windows
            }),
        }
    }

    /// Reads the first lines of runs before tmux drops them: of those that print a lot, and with a long history.
    pub(super) async fn read_first_lines(&mut self) {
        let (first_lines, panes) = (&mut self.first_lines, || self.memory.histories());
        let Some(clients) = &mut self.clients else {
            return;
        };
        let bursts = std::mem::take(&mut clients.activity.bursts);
        first_lines.retain(|known, _| panes().any(|(pane, ..)| pane == *known));
        for (pane, pid, history) in panes() {
            let known = first_lines.get(&pane);
            if !bursts.contains(&pane) && !FirstLines::are_wanted(known, pid, history) {
                continue;
            }
            let mut connection = Connection::Attached(&mut clients.main);
            let known = first_lines.entry(pane).or_default();
            if let Err(error) = tmux::read_first_lines(&mut connection, pane, known).await {
                tracing::debug!(%error, %pane, "first lines not read");
            }
        }
    }

    /// Returns the first lines of a task's run, as far as they were read.
    pub(super) fn first_lines_of(&self, task: &Task) -> Vec<String> {
        let first = task.pane.and_then(|pane| self.first_lines.get(&pane));
        let first = first.filter(|first| first.pid == task.pid);
        first.map(|first| first.lines.clone()).unwrap_or_default()
    }

    /// Drops the connection, because our control clients do not answer any more. The session is claimed
    /// again before the next one: another daemon may have ended ours.
    fn lose_clients(&mut self, error: &TmuxError) {
        tracing::info!(%error, "lost the control client");
        self.clients = None;
        (self.attach_at, self.attach_pause) = (Instant::now(), ATTACH_PAUSE);
        self.claimed = None;
    }

    /// Returns how much the tmux server has run; `None` where that is not known.
    pub(super) fn server_run_time(&self) -> Option<RunTime> {
        let life = self.life.as_ref().filter(|_| self.is_connected())?;
        process::run_time(life.server_pid)
    }

    /// Makes tmux send pending notifications, unless it has not run since the last sweep.
    pub(super) fn flush(&mut self) {
        if self.idle.may_have_news(self.server_run_time())
            && let Some(clients) = &mut self.clients
        {
            clients.main.flush();
        }
    }

    /// Whether changes are reported, so that polling is not necessary.
    pub(super) fn is_connected(&self) -> bool {
        self.clients.is_some()
    }

    /// Makes the server clear these deaths: they are in the feed.
    pub(super) async fn forget_deaths(&mut self, record: &str) {
        let Some(id) = self.session() else {
            return;
        };
        if let Err(error) = tmux::forget_deaths(&mut self.connection(), id, record).await {
            tracing::warn!(%error, "could not cut the server's record of deaths");
        }
    }

    /// Leaves the session unchanged, without our hooks and our client.
    pub(super) async fn close(&mut self) {
        let session = self.session();
        // The session may be gone; then the hooks are left to us.
        if session.is_some() || self.server_listens() {
            // After an interrupted command, our client cannot be used.
            let mut one_shot = Connection::OneShot(&self.server);
            let uninstalled = tmux::uninstall(&mut one_shot, session, process::may_run).await;
            if let Err(error) = uninstalled {
                tracing::warn!(%error, "could not take our hooks out of tmux");
            }
        }
        if let Some(clients) = self.clients.take() {
            // Not while another daemon attaches, unless that takes too long.
            let lock = timeout(LOCK_LIMIT, self.paths.lock_server()).await;
            clients.close().await;
            drop(lock);
        }
    }
}

/// When the processes of the last look began, and which have ended since.
#[derive(Debug)]
struct Processes {
    started_at: Arc<BTreeMap<u32, Millis>>,
    ends: ExitWatch,
    /// Those that have ended and were in the last look, with their exits where known.
    ended: BTreeMap<u32, Option<Exit>>,
}

/// tmux hangs up on the processes of a window that it closes or respawns: they did not end by themselves.
fn is_hang_up(exit: &Exit) -> bool {
    exit.signal.is_some() && exit.signal == Signal::parse("HUP")
}

impl Processes {
    fn new() -> io::Result<Self> {
        Ok(Self {
            started_at: Arc::default(),
            ends: ExitWatch::new()?,
            ended: BTreeMap::new(),
        })
    }

    /// Resolves when one has ended. Nothing is lost when the future is dropped.
    async fn ended(&mut self) {
        let ProcessExit { pid, exit } = self.ends.next().await;
        self.ended.insert(pid, exit);
    }

    /// Returns those that have ended since the last look and that tmux has hung up on: their windows are
    /// usually closed. The panes of others usually still exist.
    fn hung_up(&self) -> BTreeSet<u32> {
        let ended = self.ended.iter();
        let hung_up = ended.filter(|(_, exit)| exit.as_ref().is_some_and(is_hang_up));
        hung_up.map(|(pid, _)| *pid).collect()
    }

    /// Collects which processes have ended by now. Returns whether any of them is new.
    fn catch_up(&mut self) -> bool {
        let now_ended = self.ends.take();
        let is_any_new = !now_ended.is_empty();
        let now_ended = now_ended.into_iter();
        self.ended
            .extend(now_ended.map(|ProcessExit { pid, exit }| (pid, exit)));
        is_any_new
    }

    /// Adds the kernel's reports of ended processes. Returns whether any of them is new.
    fn learn_ends(&mut self, evidence: &mut Evidence) -> bool {
        let is_any_new = self.catch_up();
        evidence.ended = self.ended.keys().copied().collect();
        evidence.hung_up = self.hung_up();
        let known = self.ended.iter();
        let known = known.filter_map(|(pid, exit)| Some((*pid, exit.clone()?)));
        evidence.exits = known.filter(|(_, exit)| !is_hang_up(exit)).collect();
        is_any_new
    }

    fn watch(&mut self, mut pids: Vec<u32>) {
        pids.sort_unstable();
        self.ended.retain(|pid, _| pids.binary_search(pid).is_ok());
        self.ends.watch(&pids);
    }

    /// Returns when the processes of this look started. Each is queried once.
    fn starts(&mut self, look: &LookRows) -> Arc<BTreeMap<u32, Millis>> {
        let mut pids: Vec<u32> = look.pids().collect();
        pids.sort_unstable();
        pids.dedup();
        let known = &self.started_at;
        if !pids.iter().eq(known.keys()) {
            let known = Arc::make_mut(&mut self.started_at);
            known.retain(|pid, _| pids.binary_search(pid).is_ok());
            pids.retain(|pid| !known.contains_key(pid));
            known.extend(process::starts(pids));
        }
        Arc::clone(&self.started_at)
    }
}

/// Returns the windows whose departure has to be explained, with the pids of their live runs.
fn watched_windows(look: &Snapshot) -> Vec<(WindowId, Option<u32>)> {
    look.tasks
        .values()
        .filter(|task| task.is_alive() || task.settings.restarts.is_some())
        .map(|task| (task.window, task.pid.filter(|_| task.is_alive())))
        .collect()
}

fn begun(look: &Snapshot) -> BTreeMap<WindowId, (Option<u32>, Option<Millis>)> {
    let tasks = look.tasks.values();
    tasks
        .filter(|task| task.settings.slot.is_some() && !task.queued)
        .map(|task| (task.window, (task.run, task.started_at)))
        .into_map()
}

/// The maximum difference between the kernel's and tmux's own start time of a server: tmux reads its clock later, and
/// the clock may have been set since.
const START_TOLERANCE_SECS: i64 = 2;

/// Returns the process of a saved look's server, if it still runs.
fn server_of(life: &SessionLife) -> Option<Process> {
    let process = Process::open(life.server_pid)?;
    // Another process may have its pid by now.
    let started = process::started_at(life.server_pid)? / 1000;
    let is_same = (started - life.server_started).abs() <= START_TOLERANCE_SECS;
    is_same.then_some(process)
}

impl SessionLink {
    /// Finds the session with a new process, and attaches when it is time to, or looks with new processes.
    async fn look_detached(&mut self) -> Result<Option<LookRows>, TmuxError> {
        if !self.server_listens() {
            return self.without_server().await;
        }
        let Some(session) = self.find().await? else {
            // The server may have closed its socket just now.
            return match self.server_listens() {
                true => Ok(None),
                false => self.without_server().await,
            };
        };
        if !self.claim(&session).await? {
            return Ok(None);
        }
        if self.attach_at <= Instant::now() {
            match self.attach(&session).await {
                Ok(whole) => return Ok(whole),
                Err(error) => {
                    tracing::warn!(%error, "could not attach; looking with a process each time");
                    self.attach_at = Instant::now() + self.attach_pause.next_pause();
                }
            }
        }
        let mut connection = Connection::OneShot(&self.server);
        let target = format!("{}:", session.life.id);
        tmux::look(&mut connection, &target, &mut self.memory, LookKind::Slice).await
    }

    /// Finds the session that we follow, or else one that has our files or is to get them.
    async fn find(&self) -> Result<Option<ListedSession>, TmuxError> {
        let sessions = ownership::list_sessions(&self.server).await?;
        let is_followed = |session: &&ListedSession| Some(&session.life) == self.life.as_ref();
        let socket = self.server.socket();
        let other = || ownership::occupant(&sessions, socket, &self.paths, &self.name);
        Ok(sessions.iter().find(is_followed).or_else(other).cloned())
    }

    async fn claim(&mut self, session: &ListedSession) -> Result<bool, TmuxError> {
        let (life, name) = (&session.life, session.shown_name());
        if self.claimed.as_ref() == Some(life) {
            return Ok(true);
        }
        match ownership::claim(&self.server, life, &self.paths).await? {
            Claim::Ours { is_new } => {
                ownership::link_name(&self.server, &self.paths, &name, is_new);
                self.claimed = Some(life.clone());
                self.name = name;
                Ok(true)
            }
            Claim::Theirs(mark) => {
                tracing::info!(
                    folder = mark.folder,
                    pid = mark.pid,
                    "another daemon supervises the session"
                );
                Ok(false)
            }
        }
    }

    /// Attaches, sets the hooks and looks: from here on nothing is missed.
    async fn attach(&mut self, session: &ListedSession) -> Result<Option<LookRows>, TmuxError> {
        let id = session.life.id;
        // Attaching clears the bell flag of the current window, which is kept; bells are counted before it.
        let mut one_shot = Connection::OneShot(&self.server);
        let pid = std::process::id();
        let identity = process::identity(pid).unwrap_or_default();
        let installed = tmux::install(&mut one_shot, id, pid, &identity);
        self.reports_respawns = installed.await?;
        let rang = tmux::ringing_windows(&mut one_shot, id).await?;
        let mut clients = ControlClients::attach(&self.server, &self.paths, id).await?;
        let mut connection = Connection::Attached(&mut clients.main);
        let target = format!("{id}:");
        // Nothing was reported since what is remembered: all windows are queried.
        self.memory = LookMemory::default();
        let memory = &mut self.memory;
        let mut whole = tmux::look(&mut connection, &target, memory, LookKind::Windows).await?;
        for row in whole.iter_mut().flat_map(|whole| &mut whole.windows) {
            if rang.contains(&row.window) {
                Arc::make_mut(row).bell = true;
            }
        }
        tracing::info!(session = %id, name = session.name, "attached");
        self.connections += 1;
        self.clients = Some(Box::new(clients));
        Ok(whole)
    }

    /// Follows a rename: makes the session's present name lead to its files.
    pub(super) fn note_name(&mut self, name: &str) {
        if self.name == name {
            return;
        }
        ownership::link_name(&self.server, &self.paths, name, false);
        name.clone_into(&mut self.name);
    }

    /// Finds out who has this name, which the session did not have in the last look. Returns the session's
    /// present name, if it exists; [`ErrorKind::OtherSession`] when another session has the name.
    pub(super) async fn find_name(&mut self, name: &str) -> Result<Option<String>, TmuxError> {
        if !self.server_listens() {
            return Ok(self.session_name());
        }
        let sessions = tmux::list_marks(&mut self.connection()).await?;
        let is_ours = |session: &&ListedSession| Some(&session.life) == self.life.as_ref();
        let mut others = sessions.iter().filter(|session| !is_ours(session));
        if others.any(|session| session.shown_name() == name) {
            let message = format!("another session is called `{name}`");
            return Err(Error::new(ErrorKind::OtherSession, message).into());
        }
        // The last look may be older than a rename.
        Ok(sessions.iter().find(is_ours).map(ListedSession::shown_name))
    }

    async fn forget_session(&mut self) {
        self.life = None;
        self.server_process = None;
        self.is_unreachable = false;
        self.claimed = None;
        self.options = WindowOptions::default();
        self.root = None;
        if let Some(clients) = self.clients.take() {
            clients.close().await;
        }
        (self.attach_at, self.attach_pause) = (Instant::now(), ATTACH_PAUSE);
    }
}

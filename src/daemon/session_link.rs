//! The connection to the task session: attached while it exists, polling for it while it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::control_clients::ControlClients;
use super::ownership::{self, Claim};
use super::pane_reading::PaneReading;
use super::processes::Processes;
use super::tty_poller::TtyPoller;
use crate::clock::now;
use crate::model::{
    Bookmark, GoneReason, PaneId, SessionId, SessionLife, Snapshot, WindowId, text,
};
use crate::observe::{Evidence, Observer};
use crate::paths::Paths;
use crate::process::{self, Process};
use crate::protocol::rows::Look;
use crate::session::{self, Change, Coverage, LinkState, LookOrder, Refresh, Scope};
use crate::terminal::PaneOutput;
use crate::tmux::{
    self, Connection, Extent, History, Memory, Probe, Server, SessionIndex, Target, TmuxError,
};
use crate::wire::{Checkpoint, SavedLife, Whereabouts};

/// The delay between two attempts to attach, initial and maximum.
const ATTACH_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long a server may take to end after it has closed its socket.
const EXIT_TIME: Duration = Duration::from_millis(500);

/// The maximum difference between the kernel's and tmux's own start time of a server: tmux reads
/// its clock after the process has begun, and the clock may have been set since.
const START_TOLERANCE_SECS: i64 = 2;

/// How often a safety look queries everything, at most.
const ASK_FOR_ALL_EVERY: Duration = Duration::from_secs(5);

/// The same for each window: what it costs tmux does not grow with the windows.
const ASK_FOR_ALL_PER_WINDOW: Duration = Duration::from_millis(500);

/// Looks at one task session.
#[derive(Debug)]
pub(super) struct SessionLink {
    server: Server,
    /// The session as it was asked for.
    name: String,
    /// The life that we follow, through renames; `None` while there is none.
    life: Option<SessionLife>,
    link: Link,
    observer: Observer,
    memory: Memory,
    /// When a look last queried everything.
    all_asked: Option<Instant>,
    /// Windows whose options are set.
    prepared: BTreeSet<WindowId>,
    /// The tmux server of that life; `None` while there is none, or where its process could not be
    /// opened.
    server_process: Option<Process>,
    /// Whether the last look found that the server runs but cannot be reached.
    is_unreachable: bool,
    /// Windows that were alive in the last look, with their pids.
    alive: Vec<(WindowId, Option<u32>)>,
    /// The primary panes of the windows in the last look.
    primary: BTreeMap<WindowId, PaneId>,
    /// The kernel's information on the processes in the windows.
    processes: Processes,
    paths: Paths,
    /// The life that has our mark.
    claimed: Option<SessionLife>,
    /// How the session with our name is asked for, if its state is not ours.
    elsewhere: Option<String>,
    /// Data of the session itself, from the last successful look.
    about: SessionInfo,
    /// Evidence on the tasks' terminals.
    pub(super) terminals: TtyPoller,
    /// The number of the connection: output of an earlier connection may be incomplete.
    connections: u64,
}

/// How the session is connected.
#[derive(Debug)]
enum Link {
    /// A process per look, because the session is missing or attaching failed.
    Apart {
        /// When to try to attach next.
        attach_at: Instant,
        /// How long to wait after the next failure.
        pause: Duration,
    },
    /// Control clients.
    Attached(Box<ControlClients>),
}

/// Data of the session in a look, besides its tasks.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionInfo {
    /// Its present name.
    pub(super) name: Option<String>,
    /// Its project.
    pub(super) root: Option<String>,
}

/// The result of a look through the control client.
enum AttachedLook {
    /// The look, `None` when the session is gone; and whether it had a trigger just then.
    Taken(Option<Look>, bool),
    /// Nothing was reported to look at.
    NotNeeded,
    /// There is no control client any more.
    NotAttached,
}

/// What to set in tmux after a look.
#[derive(Debug)]
pub(super) struct OptionUpdates {
    /// New windows.
    fresh: Vec<WindowId>,
    /// Windows whose run number in tmux is wrong.
    runs: Vec<(WindowId, u32)>,
}

impl SessionLink {
    /// Returns a link that continues from the last look, if there was one. `claimed` has our mark
    /// already and is the life to follow.
    pub(super) fn new(
        server: Server,
        name: String,
        paths: Paths,
        before: Option<(&Snapshot, &Bookmark)>,
        claimed: Option<SessionLife>,
    ) -> Self {
        let observer = before.map(|(look, bookmark)| Observer::from_snapshot(look, bookmark));
        let before = before.map(|(look, _)| look);
        let saved = || before.and_then(|before| before.life.clone());
        let life = claimed.clone().or_else(saved);
        Self {
            server,
            server_process: life.as_ref().and_then(server_of),
            is_unreachable: false,
            life,
            link: apart(),
            observer: observer.unwrap_or_else(|| Observer::new(&name)),
            memory: Memory::default(),
            all_asked: None,
            prepared: BTreeSet::new(),
            alive: before.map(alive).unwrap_or_default(),
            primary: before.map(primary).unwrap_or_default(),
            processes: Processes::new(),
            paths,
            claimed,
            elsewhere: None,
            about: SessionInfo::default(),
            terminals: TtyPoller::default(),
            connections: 0,
            name,
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn about(&self) -> &SessionInfo {
        &self.about
    }

    pub(super) fn life(&self) -> Option<&SessionLife> {
        self.life.as_ref()
    }

    /// Returns the session that our client is attached to.
    pub(super) fn attached_session(&self) -> Option<SessionId> {
        let life = self.life.as_ref().filter(|_| self.is_connected())?;
        Some(life.id)
    }

    /// Returns a connection for commands.
    pub(super) fn connection(&mut self) -> Connection<'_> {
        match &mut self.link {
            Link::Attached(clients) => Connection::Attached(&mut clients.main),
            Link::Apart { .. } => Connection::OneShot(&self.server),
        }
    }

    /// Resolves when something has changed; never while detached.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: a notification not returned is returned next.
    pub(super) async fn changed(&mut self) -> Change {
        let processes = &mut self.processes;
        let link = &mut self.link;
        let told = async {
            match link {
                Link::Apart { .. } => std::future::pending().await,
                Link::Attached(clients) => clients.changed().await,
            }
        };
        tokio::select! {
            () = processes.ended() => Change::Task,
            told = told => match told {
                Ok(change) => change,
                Err(error) => {
                    tracing::debug!(%error, "the control client has gone");
                    self.link = apart();
                    Change::Task
                }
            },
        }
    }

    /// Pauses busy panes for our client, until a look finds them quiet.
    pub(super) async fn pause_busy(&mut self) {
        let Link::Attached(clients) = &mut self.link else {
            return;
        };
        if let Err(error) = clients.pause_busy().await {
            tracing::info!(%error, "lost the control client");
            self.link = apart();
        }
    }

    /// Takes the changes reported during a job and not passed on yet.
    pub(super) fn take_queued(&mut self) -> Vec<Change> {
        match &mut self.link {
            Link::Attached(clients) => clients.take_queued(),
            Link::Apart { .. } => Vec::new(),
        }
    }

    /// Returns how many bytes tmux has sent to the present control clients.
    pub(super) fn n_bytes(&self) -> u64 {
        match &self.link {
            Link::Attached(clients) => clients.n_bytes(),
            Link::Apart { .. } => 0,
        }
    }

    /// Makes tmux send pending notifications.
    pub(super) async fn flush(&mut self) {
        let Link::Attached(clients) = &mut self.link else {
            return;
        };
        if let Err(error) = clients.main.flush().await {
            tracing::info!(%error, "lost the control client");
            self.link = apart();
        }
    }

    /// Waits until all output of followed panes has arrived.
    pub(super) async fn drain_output(&mut self) {
        if let Link::Attached(clients) = &mut self.link {
            clients.drain_output().await;
        }
    }

    /// Records a window that a launch has created or used again: its options are set.
    pub(super) fn note_launched(&mut self, window: WindowId) {
        self.prepared.insert(window);
    }

    /// Makes the next look query everything, including changes that are never reported: options,
    /// and the foreground program of a task that we did not start.
    fn ask_for_all(&mut self) {
        self.all_asked = Some(Instant::now());
        self.memory.ask_for_all();
    }

    /// The same if that was long ago.
    fn ask_for_all_again(&mut self) {
        if self
            .all_asked
            .is_none_or(|at| at.elapsed() >= ask_for_all_pause(self.primary.len()))
        {
            self.ask_for_all();
        }
    }

    /// Reads the present end of a pane's output: its screen, and this many rows of the history, at
    /// least one.
    pub(super) async fn read_end(
        &mut self,
        pane: PaneId,
        rows: usize,
    ) -> Result<PaneOutput, TmuxError> {
        let history = match rows {
            0 | 1 => History::LastRow,
            _ => History::LastRows(rows),
        };
        tmux::read_output(&mut self.connection(), pane, history).await
    }

    /// Reads a pane's output and follows it: output after the reading arrives as changes. `is_over`
    /// says that the pane's run has ended, so that no more arrives.
    pub(super) async fn follow_output(
        &mut self,
        pane: PaneId,
        history: History,
        is_over: bool,
    ) -> Result<PaneReading, TmuxError> {
        let Link::Attached(clients) = &mut self.link else {
            return Err(TmuxError::Closed);
        };
        clients
            .follow_output(&self.server, &self.paths, pane, history, is_over)
            .await
    }

    /// Follows the output of exactly these panes from here on.
    pub(super) async fn follow_only(&mut self, panes: Vec<PaneId>) {
        if let Link::Attached(clients) = &mut self.link {
            clients.follow_only(panes.into_iter().collect()).await;
        }
    }

    /// Whether panes are paused for our client, so that only looks show their output.
    fn is_any_paused(&self) -> bool {
        match &self.link {
            Link::Attached(clients) => clients.activity.is_any_paused(),
            Link::Apart { .. } => false,
        }
    }

    /// Whether changes are reported, so that polling is not necessary.
    fn is_connected(&self) -> bool {
        matches!(self.link, Link::Attached(_))
    }

    /// Looks as ordered. A screen that has been unchanged for `quiet` may wait for input. Returns
    /// the look and what to set in tmux; `None` when nothing was reported to look at.
    ///
    /// # Errors
    ///
    /// When nothing is known of the session; then the last look remains valid.
    pub(super) async fn look(
        &mut self,
        order: &LookOrder,
        quiet: Duration,
    ) -> Result<Option<(session::Look, OptionUpdates)>, TmuxError> {
        match order.refresh {
            Refresh::No => {}
            // A sweep goes on as it began.
            Refresh::IfOld if self.memory.is_sweeping() => {}
            Refresh::IfOld => self.ask_for_all_again(),
            Refresh::Yes => self.ask_for_all(),
        }
        let (look, mut was_called_for) = match self.attached_look(order).await {
            AttachedLook::Taken(look, was_called_for) => (look, was_called_for),
            AttachedLook::NotNeeded => return Ok(None),
            AttachedLook::NotAttached => (self.look_apart().await?, false),
        };
        // Attaching can take long; the look is of its end.
        let now = now();
        let mut evidence = Evidence::default();
        match &look {
            None => self.forget_session().await,
            Some(look) => {
                self.follow_life(&look.session.life);
                self.about = SessionInfo {
                    name: Some(look.session.name.clone()),
                    root: look.session.root.clone(),
                };
                evidence.started_at = self.processes.starts(look);
            }
        }
        evidence.moved_panes = self.moved_panes(look.as_ref()).await;
        was_called_for |= self.processes.learn_ends(&mut evidence);
        evidence.gone = self
            .gone(look.as_ref(), &order.killed, &evidence.ended)
            .await;
        let observed = self.observer.observe(look.as_ref(), &evidence, now);
        let mut snapshot = observed.snapshot;
        let waits = |window| order.waiting.contains(&window);
        self.terminals
            .add_to(&mut snapshot, look.as_ref(), waits, quiet, now);
        self.alive = alive(&snapshot);
        self.primary = primary(&snapshot);
        self.processes.watch(&snapshot);
        let option_updates = self.option_updates(&snapshot, observed.write_runs);
        if let (true, Some(life)) = (observed.nudge, &self.life) {
            tmux::nudge(life.server_pid);
        }
        let look = session::Look {
            at: now,
            snapshot,
            coverage: match &look {
                Some(look) if look.is_whole => Coverage::Whole,
                Some(_) if self.is_connected() && self.memory.is_sweeping() => Coverage::Sweeping,
                Some(_) => Coverage::Reported,
                None => Coverage::Whole,
            },
            was_called_for,
            is_unsettled: observed.unsettled,
            death_record: look.map(|look| look.death_record).unwrap_or_default(),
            link: LinkState {
                life: self.life.clone(),
                session_name: self.about.name.clone(),
                bookmark: self.observer.bookmark(),
                checkpoint: self.checkpoint(),
                is_connected: self.is_connected(),
                connection: self.connections,
                is_any_paused: self.is_any_paused(),
            },
        };
        Ok(Some((look, option_updates)))
    }

    /// Returns the state after the last look.
    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            life: self.life.as_ref().map(SavedLife::from),
            deaths_read: self.observer.deaths_read(),
        }
    }

    /// Makes the server clear these deaths: they are in the feed.
    pub(super) async fn forget_deaths(&mut self, record: &str) {
        let Some(id) = self.life.as_ref().map(|life| life.id) else {
            return;
        };
        if let Err(error) = tmux::forget_deaths(&mut self.connection(), id, record).await {
            tracing::warn!(%error, "could not cut the server's record of deaths");
        }
    }

    /// Looks through the control client.
    async fn attached_look(&mut self, order: &LookOrder) -> AttachedLook {
        let (Link::Attached(clients), Some(life)) = (&mut self.link, &self.life) else {
            return AttachedLook::NotAttached;
        };
        let mut synced = Ok(());
        if order.is_barrier {
            synced = clients.main.sync().await;
        }
        // The look includes whatever triggers it.
        let mut was_called_for = clients.catch_up().await.is_some();
        was_called_for |= self.processes.catch_up();
        let is_named = !order.windows.is_empty() || !order.killed.is_empty();
        let has_reports = clients.activity.is_any_reported() || self.processes.has_ended();
        if synced.is_ok() && order.scope == Scope::Reported && !is_named && !has_reports {
            return AttachedLook::NotNeeded;
        }
        let continued = clients.continue_quiet().await;
        let target = Target::Own(life.id);
        let ControlClients { main, activity, .. } = &mut **clients;
        let is_any_changed = activity.take_any_changed();
        let extent = if self.processes.take_hung_up() || is_any_changed {
            Extent::Whole
        } else {
            extent_of(order.scope)
        };
        let mut changed = activity.take_changed();
        changed.extend(&order.windows);
        self.memory.expect(
            activity.printed(),
            &self.processes.ended_in_place(),
            changed,
        );
        self.memory.forget_windows(order.killed.keys());
        let mut connection = Connection::Attached(main);
        let look = tmux::look(&mut connection, &target, &mut self.memory, extent).await;
        match synced.and(continued).and(look) {
            Ok(look) => {
                // Each look queries the windows of paused panes.
                activity.record_look(look.iter().flat_map(Look::quietness));
                AttachedLook::Taken(look, was_called_for)
            }
            Err(error) => {
                tracing::info!(%error, "lost the control client");
                self.link = apart();
                AttachedLook::NotAttached
            }
        }
    }

    /// Notes the life of the session in a look.
    fn follow_life(&mut self, life: &SessionLife) {
        self.is_unreachable = false;
        if self.life.as_ref() != Some(life) || self.server_process.is_none() {
            self.server_process = Process::open(life.server_pid);
            self.life = Some(life.clone());
        }
    }

    /// Decides what it means that nothing listens on the server's socket: the server and the
    /// session are gone, unless the server runs and only its socket is missing.
    async fn without_server(&mut self) -> Result<Option<Look>, TmuxError> {
        // A server that ends closes its socket a little earlier.
        let deadline = Instant::now() + EXIT_TIME;
        while self.server_runs() && !self.is_unreachable {
            if Instant::now() >= deadline {
                self.is_unreachable = true;
                break;
            }
            tokio::time::sleep(EXIT_TIME / 100).await;
        }
        match &self.life {
            Some(life) if self.is_unreachable && self.server_runs() => {
                Err(TmuxError::Unreachable {
                    socket: self.server.socket().to_owned(),
                    pid: life.server_pid,
                })
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Whether the server that we followed still runs. A server can take for ever to end, but the
    /// tasks in it do not.
    /// the tasks in it.
    fn server_runs(&self) -> bool {
        let runs = |pid: &u32| Process::open(*pid).is_some_and(|process| process.is_running());
        let mut tasks = self
            .alive
            .iter()
            .filter_map(|(_, pid)| pid.as_ref())
            .peekable();
        self.server_process
            .as_ref()
            .is_some_and(Process::is_running)
            && (tasks.peek().is_none() || tasks.any(runs))
    }

    /// Finds the session with a new process, and attaches when it is time to. If that fails, looks
    /// with new processes.
    async fn look_apart(&mut self) -> Result<Option<Look>, TmuxError> {
        if !self.server_listens() {
            return self.without_server().await;
        }
        let found = self.find().await?;
        self.elsewhere = None;
        let Some(index) = found else {
            // The server may have closed its socket just now.
            return match self.server_listens() {
                true => Ok(None),
                false => self.without_server().await,
            };
        };
        if !self.claim(&index.life).await? {
            return Ok(None);
        }
        if let Link::Apart { attach_at, pause } = self.link
            && attach_at <= Instant::now()
        {
            match self.attach(&index).await {
                Ok(whole) => return Ok(whole),
                Err(error) => {
                    tracing::warn!(%error, "could not attach; looking with a process each time");
                    let (_, most) = ATTACH_PAUSE;
                    self.link = Link::Apart {
                        attach_at: Instant::now() + pause,
                        pause: (pause * 2).min(most),
                    };
                }
            }
        }
        let mut connection = Connection::OneShot(&self.server);
        let target = Target::Id(index.life.id);
        tmux::look(&mut connection, &target, &mut self.memory, Extent::Whole).await
    }

    /// Finds the session that we follow, or else the one that has its name.
    async fn find(&self) -> Result<Option<SessionIndex>, TmuxError> {
        let mut connection = Connection::OneShot(&self.server);
        if let Some(life) = &self.life {
            let found = tmux::list_index(&mut connection, &Target::Id(life.id)).await?;
            if let Some(index) = found.filter(|index| index.life == *life) {
                return Ok(Some(index));
            }
        }
        let target = Target::Name(self.name.clone());
        tmux::list_index(&mut connection, &target).await
    }

    /// Marks the session as ours. Returns whether it is: a session that another daemon follows or
    /// followed, by its former name, is not, because its state is elsewhere.
    async fn claim(&mut self, life: &SessionLife) -> Result<bool, TmuxError> {
        if self.claimed.as_ref() == Some(life) {
            return Ok(true);
        }
        if self.life.as_ref() != Some(life) {
            let kept = ownership::kept_as(&self.server, &self.paths, life);
            if let Some(asked) = kept.filter(|asked| *asked != self.paths.asked) {
                tracing::info!(asked, "its state is kept elsewhere");
                self.elsewhere = Some(asked);
                return Ok(false);
            }
        }
        match ownership::claim(&self.server, life, &self.paths.asked).await? {
            Claim::Ours => {
                self.claimed = Some(life.clone());
                Ok(true)
            }
            Claim::Theirs(mark) => {
                tracing::info!(by = mark.name, pid = mark.pid, "another daemon has it");
                self.elsewhere = Some(mark.name);
                Ok(false)
            }
        }
    }

    /// Returns the whereabouts of this session, for a client that only knows a name.
    pub(super) async fn whereabouts(&mut self) -> Whereabouts {
        let mut name = self.about.name.clone();
        let mut elsewhere = self.elsewhere.clone();
        let asked = text::one_line(self.name.as_bytes(), 4096);
        if let (Some(life), true) = (
            self.life.clone(),
            name.as_ref().is_some_and(|name| *name != asked),
        ) {
            match tmux::list_marks(&mut self.connection()).await {
                Ok(all) => {
                    // The last look may be older than a rename.
                    let ours = all.iter().find(|session| session.life == life);
                    name = ours.map(|ours| ours.name.clone()).or(name);
                    let mut others = all.iter().filter(|session| session.life != life);
                    if let Some(other) = others.find(|session| session.name == self.name) {
                        elsewhere = Some(ownership::asked_of(&self.server, &self.paths, other));
                    }
                }
                Err(error) => tracing::warn!(%error, "could not ask who has the name"),
            }
        }
        Whereabouts { name, elsewhere }
    }

    /// Attaches, sets the hooks and looks: from here on nothing is missed.
    async fn attach(&mut self, index: &SessionIndex) -> Result<Option<Look>, TmuxError> {
        let id = index.life.id;
        // Attaching clears the bell flag of the current window: bells are counted before it, and a
        // flag that was set is kept.
        let mut apart = Connection::OneShot(&self.server);
        tmux::install(&mut apart, id, index.panes(), std::process::id()).await?;
        let rang = tmux::list_index(&mut apart, &Target::Id(id)).await?;
        let mut clients = ControlClients::attach(&self.server, &self.paths, id).await?;
        let mut connection = Connection::Attached(&mut clients.main);
        let target = Target::Own(id);
        let memory = &mut self.memory;
        let mut whole = tmux::look(&mut connection, &target, memory, Extent::Whole).await?;
        for row in whole.iter_mut().flat_map(|whole| &mut whole.windows) {
            if rang.as_ref().is_some_and(|rang| rang.has_bell(row.window)) {
                Arc::make_mut(row).bell = true;
            }
        }
        self.all_asked = Some(Instant::now());
        tracing::info!(session = %id, name = index.name, "attached");
        self.connections += 1;
        self.link = Link::Attached(Box::new(clients));
        Ok(whole)
    }

    async fn forget_session(&mut self) {
        self.life = None;
        self.server_process = None;
        self.is_unreachable = false;
        self.claimed = None;
        self.prepared.clear();
        self.about = SessionInfo::default();
        if let Link::Attached(clients) = std::mem::replace(&mut self.link, apart()) {
            clients.close().await;
        }
    }

    /// Returns the panes that were primary in the last look, are not in this one, and still exist.
    async fn moved_panes(&mut self, look: Option<&Look>) -> BTreeSet<PaneId> {
        let rows = look.into_iter().flat_map(|look| &look.windows);
        let replaced = rows.filter_map(|row| {
            let (was, is) = (self.primary.get(&row.window)?, row.pane.as_ref()?.pane);
            (*was != is).then_some(*was)
        });
        let replaced: BTreeSet<PaneId> = replaced.collect();
        if replaced.is_empty() {
            return replaced;
        }
        match tmux::existing_panes(&mut self.connection(), &replaced).await {
            Ok(existing) => existing,
            Err(error) => {
                tracing::warn!(%error, "could not ask where panes went");
                replaced
            }
        }
    }

    /// Returns why windows are gone, where we or tmux know.
    async fn gone(
        &mut self,
        look: Option<&Look>,
        killed: &BTreeMap<WindowId, GoneReason>,
        ended: &BTreeSet<u32>,
    ) -> BTreeMap<WindowId, GoneReason> {
        // Both are sorted.
        let rows = look.map_or(&[][..], |look| &look.windows);
        let mut present = rows.iter().map(|row| row.window).peekable();
        let gone = self.alive.iter().filter(|(window, _)| {
            while present.next_if(|present| present < window).is_some() {}
            present.peek() != Some(window)
        });
        let mut reasons = BTreeMap::new();
        let mut theirs = Vec::new();
        for (window, pid) in gone {
            match killed.get(window) {
                Some(reason) => drop(reasons.insert(*window, *reason)),
                // A pane whose process has ended was not moved.
                None if pid.is_some_and(|pid| ended.contains(&pid)) => {}
                None => theirs.push(*window),
            }
        }
        if !theirs.is_empty() && self.server_listens() {
            match tmux::where_is(&mut self.connection(), &theirs).await {
                Ok(found) => {
                    reasons.extend(found.into_keys().map(|window| (window, GoneReason::Moved)));
                }
                Err(error) => tracing::debug!(%error, "could not ask where windows went"),
            }
        }
        reasons
    }

    fn option_updates(
        &mut self,
        snapshot: &Snapshot,
        mut runs: Vec<(WindowId, u32)>,
    ) -> OptionUpdates {
        // The options of a shell belong to its user.
        let is_ours =
            |window: &WindowId| snapshot.tasks.get(window).is_some_and(|task| !task.shell);
        runs.retain(|(window, _)| is_ours(window));
        let ours = snapshot.tasks.keys().filter(|window| is_ours(window));
        if ours.clone().eq(&self.prepared) {
            return OptionUpdates {
                fresh: Vec::new(),
                runs,
            };
        }
        self.prepared.retain(is_ours);
        let fresh = ours
            .filter(|window| !self.prepared.contains(window))
            .copied()
            .collect();
        OptionUpdates { fresh, runs }
    }

    /// Sets the options of new windows and writes our run numbers.
    pub(super) async fn update_options(&mut self, option_updates: &OptionUpdates) {
        let OptionUpdates { fresh, runs } = option_updates;
        if fresh.is_empty() && runs.is_empty() {
            return;
        }
        let mut connection = self.connection();
        let tidied = async {
            tmux::prepare_windows(&mut connection, fresh).await?;
            tmux::write_runs(&mut connection, runs).await
        };
        match tidied.await {
            Ok(()) => self.prepared.extend(fresh),
            Err(error) => tracing::warn!(%error, "could not set the options of windows"),
        }
    }

    /// Whether a server may have its socket, checked without starting a process. Only if the kernel
    /// reports that nothing listens, the server is gone.
    fn server_listens(&self) -> bool {
        self.server.probe() != Probe::Absent
    }

    /// Leaves the session unchanged, without our hooks and our client.
    pub(super) async fn close(&mut self) {
        let session = self.life.as_ref().map(|life| life.id);
        // The session may be gone; then the hooks are left to us.
        if session.is_some() || self.server_listens() {
            let mut uninstalled = tmux::uninstall(&mut self.connection(), session).await;
            if let (Err(TmuxError::Closed), Link::Attached(_)) = (&uninstalled, &self.link) {
                // After an interrupted command, our client cannot be used.
                let mut apart = Connection::OneShot(&self.server);
                uninstalled = tmux::uninstall(&mut apart, session).await;
            }
            if let Err(error) = uninstalled {
                tracing::warn!(%error, "could not take our hooks out of tmux");
            }
        }
        if let Link::Attached(clients) = std::mem::replace(&mut self.link, apart()) {
            clients.close().await;
        }
    }
}

/// Returns the process of a saved look's server, if it still runs.
fn server_of(life: &SessionLife) -> Option<Process> {
    let process = Process::open(life.server_pid)?;
    // Another process may have its pid by now.
    let started = process::started_at(life.server_pid)? / 1000;
    let is_same = (started - life.server_started).abs() <= START_TOLERANCE_SECS;
    is_same.then_some(process)
}

fn alive(look: &Snapshot) -> Vec<(WindowId, Option<u32>)> {
    look.tasks
        .values()
        .filter(|task| task.is_alive())
        .map(|task| (task.window, task.pid))
        .collect()
}

fn primary(look: &Snapshot) -> BTreeMap<WindowId, PaneId> {
    let panes = look.tasks.values();
    panes
        .filter_map(|task| Some((task.window, task.pane?)))
        .collect()
}

/// Returns how long a session with this many windows is not queried in full for safety.
fn ask_for_all_pause(n_windows: usize) -> Duration {
    let n_windows = u32::try_from(n_windows).unwrap_or(u32::MAX);
    ASK_FOR_ALL_EVERY.max(ASK_FOR_ALL_PER_WINDOW.saturating_mul(n_windows))
}

fn extent_of(scope: Scope) -> Extent {
    match scope {
        Scope::Reported | Scope::Sure => Extent::Reported,
        Scope::Part => Extent::Part,
        Scope::Whole => Extent::Whole,
    }
}

fn apart() -> Link {
    let (first, _) = ATTACH_PAUSE;
    Link::Apart {
        attach_at: Instant::now(),
        pause: first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_windows_are_queried_in_full_more_seldom() {
        for (n_windows, secs) in [(0, 5), (10, 5), (100, 50), (300, 150)] {
            assert_eq!(ask_for_all_pause(n_windows).as_secs(), secs, "{n_windows}");
        }
    }
}

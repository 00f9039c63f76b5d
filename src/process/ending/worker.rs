//! The thread that ends runs.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::sync::mpsc;

use super::members::{HOLD, Known, ProcessRow, SignalMasks};
#[cfg(not(linux))]
use super::ps_table as table;
#[cfg(linux)]
use super::table;
use crate::model::programs::{CommandReader, command_reader};
use crate::model::{EndOrder, EndReport, LeftProcess, WindowId};
use crate::process::stat::{self, Process};

/// After this time, those who wait are told for whom.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// How long the kernel may take to end a killed process, which may hang in the kernel.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// How often the launcher's shell is looked at when only it is left: nothing reports that it has noticed
/// the end of its command. First often, because it takes no time; it may also clean up.
const LEADER_PAUSE: Duration = Duration::from_millis(1);
const LEADER_SOON: Duration = Duration::from_millis(100);
const LEADER_PAUSE_LATER: Duration = Duration::from_millis(50);

/// When what is still there is looked at once more. bash loses a hangup that comes while it goes to its
/// prompt, as it does when the program that it waits for ends; and see [`Run::ask_what_has_begun`].
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How long a listed pid is taken for that of the same process: it is another's only when all other pids
/// were given in between.
const SAME_PROCESS: Duration = Duration::from_secs(1);

/// How long it is waited for a process that is being replaced by another program, and has no environment
/// meanwhile.
const REPLACED_WITHIN: Duration = Duration::from_millis(20);

/// How often a process is looked at that cannot be watched: the system cannot, or descriptors are short.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The thread's state. It ends with the daemon, whose end closes `woken`.
pub(super) struct Worker {
    /// Readable when there is an order.
    woken: UnixStream,
    reports: mpsc::UnboundedSender<EndReport>,
    runs: BTreeMap<WindowId, Run>,
    strangers: Strangers,
}

/// The processes that belong to no run which is being ended. They need not be read again: none becomes a
/// member of a run.
#[derive(Default)]
struct Strangers {
    pids: Vec<u32>,
    /// When they were last listed.
    at: Option<Instant>,
}

impl Strangers {
    /// Reads the table of the other processes.
    fn table(&mut self, now: Instant) -> Vec<ProcessRow> {
        if self.at.is_none_or(|at| now >= at + SAME_PROCESS) {
            self.pids.clear();
        }
        self.at = Some(now);
        table::read(&mut self.pids)
    }

    /// Adds those of a table that no run knows.
    fn add(&mut self, all: &[ProcessRow], runs: &mut BTreeMap<WindowId, Run>) {
        // The table may have been read for another run.
        runs.values_mut().for_each(|run| drop(run.recognise(all)));
        let is_stranger = |row: &&ProcessRow| runs.values().all(|run| run.is_stranger(row));
        let strangers = all.iter().filter(is_stranger);
        self.pids.extend(strangers.map(|row| row.pid));
        self.pids.sort_unstable();
    }
}

impl Worker {
    pub(super) fn run(
        orders: &Receiver<EndOrder>,
        woken: UnixStream,
        reports: mpsc::UnboundedSender<EndReport>,
    ) {
        let mut worker = Self {
            woken,
            reports,
            runs: BTreeMap::new(),
            strangers: Strangers::default(),
        };
        while worker.sleep() {
            while let Ok(order) = orders.try_recv() {
                worker.take(order);
            }
            worker.step();
        }
    }

    fn take(&mut self, order: EndOrder) {
        let until = Instant::now() + order.plan.grace;
        match self.runs.get_mut(&order.window) {
            Some(run) if run.order.leader == order.leader => run.until = run.until.min(until),
            Some(_) | None => {
                // Some may be of this run.
                self.strangers = Strangers::default();
                self.runs.insert(order.window, Run::new(order, until));
            }
        }
    }

    /// Goes on with every run for which something has changed.
    fn step(&mut self) {
        let now = Instant::now();
        // One table for all of them: reading it takes longer than everything else.
        let mut all = None;
        let mut ended = Vec::new();
        for (window, run) in &mut self.runs {
            run.forget_ended(now);
            if run.members.is_empty() || run.is_due(now) {
                let all = all.get_or_insert_with(|| self.strangers.table(now));
                run.proceed(all, now);
            }
            if run.look_again_at.is_some_and(|at| at <= now) {
                // Not the table of this step: it may be from before the signal.
                let all = self.strangers.table(now);
                run.hang_up_shells(&all);
                run.ask_what_has_begun(&all, now);
            }
            if run.is_over(now) {
                ended.push(*window);
            } else if run.tell_at.is_some_and(|at| at <= now) {
                run.tell_at = None;
                let report = EndReport::Waiting(*window, run.left());
                // Whoever has ordered it may be gone.
                drop(self.reports.send(report));
            }
        }
        if let Some(all) = all {
            self.strangers.add(&all, &mut self.runs);
        }
        for window in ended {
            if let Some(run) = self.runs.remove(&window) {
                // As above.
                drop(self.reports.send(EndReport::Ended(window, run.left())));
            }
        }
    }

    /// Sleeps until a process ends, an order comes, or something is due. Returns whether the daemon goes on.
    fn sleep(&self) -> bool {
        let mut files = vec![PollFd::new(&self.woken, PollFlags::IN)];
        let members = self.runs.values().flat_map(|run| run.members.values());
        let of_members = members.filter_map(|member| member.process.file.as_ref());
        files.extend(of_members.map(|file| PollFd::new(file, PollFlags::IN)));
        let due = self.runs.values().map(Run::next_deadline).min();
        let pause = due.map(|due| due.saturating_duration_since(Instant::now()));
        let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
        match poll(&mut files, pause.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(%error, "could not wait for processes to end");
                // There is nothing to wait for: without a pause the loop would never rest.
                thread::sleep(LOOK_EVERY);
            }
        }
        // An error if nobody has woken us.
        !matches!((&self.woken).read(&mut [0; 64]), Ok(0))
    }
}

/// A run that is being ended.
struct Run {
    order: EndOrder,
    known: Known,
    /// The tmux server and the pane of its processes, where that is known.
    pane: Option<(String, String)>,
    /// When it began to be ended, as in [`ProcessRow::started`].
    begun: u64,
    /// Its processes that have not ended, by pid.
    members: BTreeMap<u32, Member>,
    /// When those that have not ended are killed.
    until: Instant,
    /// When waiting for killed ones is given up; `None` until they are killed.
    give_up_at: Option<Instant>,
    /// When those who wait are told for whom; `None` once they are.
    tell_at: Option<Instant>,
    /// When those that were asked are looked at once more; `None` while there is nothing to look at.
    look_again_at: Option<Instant>,
    /// Since when only the leader is left, which has waited for the others.
    alone_since: Option<Instant>,
    /// Whether its processes were looked for.
    has_begun: bool,
}

/// A process of a run.
struct Member {
    process: Process,
    name: String,
    started: u64,
    parent: u32,
    stage: Stage,
    /// Whether it may not be signalled.
    is_anothers: bool,
    /// Whether it was a copy of our launcher's shell when it got the signal, about to execute a program.
    is_copy: bool,
    role: Role,
}

/// How far a process is on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is to be asked to end.
    Unasked,
    /// It was started by what had been asked, and is asked when that has ended.
    Late,
    /// It got the signal, and was not looked at since.
    Signalled,
    /// It was asked to end, or is not to be.
    Asked,
}

/// How the process of a pane is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// As any other process.
    Plain,
    /// Our launcher's shell: it was told to wait for the others, and ends with its command's code.
    Launcher,
    /// A shell that would end before the others.
    Shell,
}

impl Run {
    fn new(order: EndOrder, until: Instant) -> Self {
        let mut known = Known::default();
        known.sessions.insert(order.leader);
        Self {
            pane: stat::pane_of(order.leader).filter(|_| !order.is_over),
            order,
            known,
            begun: table::now().unwrap_or(u64::MAX),
            members: BTreeMap::new(),
            until,
            give_up_at: None,
            tell_at: Some(Instant::now() + TELL_AFTER),
            look_again_at: None,
            alone_since: None,
            has_begun: false,
        }
    }

    /// Forgets processes that have ended.
    fn forget_ended(&mut self, now: Instant) {
        self.members.retain(|pid, member| member.is_running(*pid));
        let has_only_leader = self.has_only_leader();
        self.alone_since = has_only_leader.then(|| self.alone_since.unwrap_or(now));
    }

    /// Whether something is due besides waiting for processes.
    fn is_due(&self, now: Instant) -> bool {
        let is_kill_due = self.give_up_at.is_none() && self.until <= now;
        is_kill_due || self.is_leader_ready() || self.are_parents_over()
    }

    fn next_deadline(&self) -> Instant {
        let mut members = self.members.values();
        let has_unwatched = members.any(|member| member.process.file.is_none());
        let now = Instant::now();
        let unwatched = has_unwatched.then(|| now + LOOK_EVERY);
        let releasing = self
            .alone_since
            .map(|since| match now < since + LEADER_SOON {
                true => now + LEADER_PAUSE,
                false => now + LEADER_PAUSE_LATER,
            });
        let deadlines = [self.tell_at, self.look_again_at, unwatched, releasing];
        let deadlines = deadlines.into_iter().flatten();
        deadlines.fold(self.give_up_at.unwrap_or(self.until), Instant::min)
    }

    /// Whether only the leader is left, which waits for that.
    fn has_only_leader(&self) -> bool {
        let mut members = self.members.iter();
        members.all(|(pid, member)| match *pid == self.order.leader {
            true => member.role != Role::Plain,
            false => member.stage == Stage::Late,
        }) && !self.members.is_empty()
    }

    /// Whether those that were asked alone have ended, and the rest is to be asked.
    fn are_parents_over(&self) -> bool {
        let members = self.members.values();
        let mut members = members.filter(|member| member.role == Role::Plain);
        self.order.plan.parent_only
            && self.give_up_at.is_none()
            && members.clone().any(|member| member.stage == Stage::Unasked)
            && members.all(|member| member.stage == Stage::Unasked)
    }

    /// Looks for processes of the run, and asks or kills them.
    fn proceed(&mut self, all: &[ProcessRow], now: Instant) {
        let is_first = !self.has_begun;
        self.discover(all);
        let is_leader_ready = self.is_leader_ready();
        let mut members = self.members.values();
        let is_any_late = members.any(|member| member.stage == Stage::Late);
        if self.until <= now {
            self.kill(now);
        } else if is_leader_ready && !is_any_late {
            self.release_leader();
        } else {
            if is_leader_ready {
                // The others have ended, and these have not: they are asked now.
                self.advance(Stage::Late, Stage::Unasked);
            }
            let asked_at = table::now();
            self.ask(all);
            if is_first {
                // What they had started while the table was read. What they have started since they
                // were asked belongs to how they end.
                let strangers = all.iter().filter(|row| self.is_stranger(row));
                let mut strangers: Vec<u32> = strangers.map(|row| row.pid).collect();
                strangers.sort_unstable();
                let all = table::read(&mut strangers);
                self.discover(&all);
                if !self.order.plan.parent_only {
                    for member in self.members.values_mut() {
                        let is_late = asked_at.is_none_or(|at| member.started >= at);
                        if is_late && member.stage == Stage::Unasked {
                            member.stage = Stage::Late;
                        }
                    }
                }
                self.ask(&all);
            }
            if !self.order.plan.parent_only {
                self.advance(Stage::Unasked, Stage::Asked);
            }
        }
    }

    /// Puts all processes at one stage to another.
    fn advance(&mut self, from: Stage, to: Stage) {
        let members = self.members.values_mut();
        let at = members.filter(|member| member.stage == from);
        at.for_each(|member| member.stage = to);
    }

    fn discover(&mut self, all: &[ProcessRow]) {
        let leader = self.order.leader;
        // Where only pids are known, one that its parent has not reaped seems to run.
        if !cfg!(linux) && !all.is_empty() {
            let is_shown = |pid: u32| all.iter().any(|row| row.pid == pid);
            self.members
                .retain(|pid, member| member.process.file.is_some() || is_shown(*pid));
        }
        if !self.has_begun && self.order.is_over && all.iter().any(|row| row.pid == leader) {
            // Its pid is another's by now, and so is the session of that number.
            self.known.sessions.clear();
        }
        let rows = self.recognise(all);
        let has_others = rows.len() > 1;
        for row in rows {
            if self.members.contains_key(&row.pid) {
                continue;
            }
            let Some(mut member) = Member::open(row) else {
                continue;
            };
            if row.pid == leader {
                member.role = self.role(row, has_others);
            }
            if self.order.is_asked {
                member.stage = Stage::Asked;
            }
            self.members.insert(row.pid, member);
        }
        self.has_begun = true;
    }

    /// Whether a process never becomes one of its. Of one that has started since, that is not known: a
    /// process that is being replaced by another program shows no environment for a moment.
    fn is_stranger(&self, row: &ProcessRow) -> bool {
        row.started < self.begun && self.known.is_stranger(row)
    }

    /// Returns its processes that are in the table, and remembers them.
    fn recognise<'a>(&mut self, all: &'a [ProcessRow]) -> Vec<&'a ProcessRow> {
        // What its processes start while they end is of the run, also if it has left the session and its
        // parent has ended. What tmux starts in the pane is not, nor are the children of what was in the
        // background before.
        let tmux = self.pane.as_ref().map_or("", |(tmux, _)| tmux);
        let is_tmux = |pid| tmux.split(',').nth(1) == Some(&*format!("{pid}"));
        let is_ours = |pid| self.pane.is_some() && stat::pane_of(pid) == self.pane;
        let late = all.iter().filter(|row| row.started >= self.begun);
        // The kernel does not report when a process has been replaced.
        let until = Instant::now() + REPLACED_WITHIN;
        let is_replaced = || late.clone().any(|row| stat::is_replaced(row.pid));
        while self.pane.is_some() && is_replaced() && Instant::now() < until {
            thread::yield_now();
        }
        let late = late.filter(|row| is_ours(row.pid) && !is_ours(row.parent));
        let late = late.filter(|row| !is_tmux(row.parent));
        let late = late.map(|row| (row.pid, row.started));
        self.known.started.extend(late);
        self.known.find(all, std::process::id())
    }

    /// Returns how the leader is ended.
    fn role(&self, row: &ProcessRow, has_others: bool) -> Role {
        let masks = table::masks(row.pid, &row.name);
        if masks.is_launcher(&row.name) {
            Role::Launcher
        } else if has_others
            && command_reader(&row.name) == Some(CommandReader::Shell)
            && (masks.dies_of(self.signal_number()) || masks.is_deaf_shell(self.signal_number()))
        {
            Role::Shell
        } else {
            Role::Plain
        }
    }

    fn signal_number(&self) -> u8 {
        self.order.plan.signal.number().unwrap_or(15)
    }

    fn ask(&mut self, all: &[ProcessRow]) {
        let signal = self.signal_number();
        let Some(stop) = Signal::from_named_raw(i32::from(signal)) else {
            return;
        };
        let (leader, parent_only) = (self.order.leader, self.order.plan.parent_only);
        let led = self.members.get(&leader);
        let role = led.map_or(Role::Plain, |member| member.role);
        // Its subshells have the same.
        let line = stat::command_line(leader).filter(|_| role == Role::Launcher);
        // Those that are asked alone: the command, which is the leader or what its shell has started.
        let is_parent = |pid: u32, member: &Member| {
            pid == leader || (role != Role::Plain && member.parent == leader)
        };
        let mut members = self.members.iter();
        let has_parents =
            members.any(|(pid, member)| member.role == Role::Plain && is_parent(*pid, member));
        for (pid, member) in &mut self.members {
            if member.stage != Stage::Unasked {
                continue;
            }
            match member.role {
                Role::Launcher => {
                    member.stage = Stage::Asked;
                    table::note_stop_signal(*pid, signal);
                    member.send(HOLD);
                    self.look_again_at = Some(Instant::now() + LOOK_AGAIN_AFTER);
                }
                Role::Shell => continue,
                Role::Plain if parent_only && has_parents && !is_parent(*pid, member) => continue,
                Role::Plain => {
                    member.stop(*pid, signal, stop, line.as_deref());
                    self.look_again_at = Some(Instant::now() + LOOK_AGAIN_AFTER);
                }
            }
            let is_stopped = |row: &ProcessRow| row.pid == *pid && row.is_stopped;
            if all.iter().any(is_stopped) {
                member.send(Signal::CONT);
            }
        }
    }

    /// Whether only the leader is left, and waits to be ended.
    fn is_leader_ready(&self) -> bool {
        let mut members = self.members.iter();
        self.has_only_leader()
            && members.all(|(pid, member)| match member.role {
                Role::Launcher => table::masks(*pid, &member.name).is_held(),
                Role::Shell | Role::Plain => true,
            })
    }

    /// Hangs up shells that ignore the signal and are still there, unless they wait for a program: that
    /// is how they may clean up.
    fn hang_up_shells(&mut self, all: &[ProcessRow]) {
        let signal = self.signal_number();
        self.look_again_at = None;
        for (pid, member) in &mut self.members {
            let is_signalled = member.stage == Stage::Signalled;
            let is_waiting = all.iter().any(|row| row.parent == *pid);
            if is_signalled && !is_waiting && table::masks(*pid, &member.name).is_deaf_shell(signal)
            {
                member.send(Signal::HUP);
            }
        }
        self.advance(Stage::Signalled, Stage::Asked);
    }

    /// Asks what the line began at the moment at which our launcher's shell was told to wait. bash waits when
    /// that has ended, and a copy of it has caught the signal for a program that it was about to execute.
    fn ask_what_has_begun(&mut self, all: &[ProcessRow], now: Instant) {
        let leader = self.order.leader;
        let Some(shell) = self.members.get_mut(&leader) else {
            return;
        };
        // What the table shows was there before this.
        let masks = table::masks(leader, &shell.name);
        if masks.is_ending() || self.give_up_at.is_some() || self.order.is_asked {
            return;
        }
        match (shell.role == Role::Launcher, masks.is_launcher(&shell.name)) {
            (true, true) => {}
            // Another program took its place.
            (true, false) => (shell.role, shell.stage) = (Role::Plain, Stage::Unasked),
            // It was reading the profile.
            (false, true) => (shell.role, shell.stage) = (Role::Launcher, Stage::Unasked),
            (false, false) => return,
        }
        self.look_again_at = Some(now + LOOK_AGAIN_AFTER);
        let line = stat::command_line(leader);
        let known: Vec<u32> = self.members.keys().copied().collect();
        self.discover(all);
        for (pid, member) in &mut self.members {
            let is_new = !known.contains(pid);
            let has_begun = is_new
                || member.stage == Stage::Late
                || member.is_copy && stat::command_line(*pid) != line;
            if member.parent == leader && has_begun {
                member.stage = Stage::Unasked;
            } else if is_new {
                member.stage = Stage::Late;
            }
        }
        self.ask(all);
    }

    /// Ends the leader, which has waited for the others.
    fn release_leader(&mut self) {
        self.look_again_at = Some(Instant::now() + LOOK_AGAIN_AFTER);
        let signal = self.signal_number();
        let stop = Signal::from_named_raw(i32::from(signal)).unwrap_or(Signal::TERM);
        for (pid, member) in &mut self.members {
            match member.role {
                Role::Launcher => {
                    member.stage = Stage::Asked;
                    member.send(Signal::HUP);
                }
                Role::Shell | Role::Plain => member.stop(*pid, signal, stop, None),
            }
            member.send(Signal::CONT);
            member.role = Role::Plain;
        }
    }

    fn kill(&mut self, now: Instant) {
        self.give_up_at.get_or_insert(now + KILLED_WITHIN);
        for member in self.members.values_mut() {
            member.send(Signal::KILL);
            member.role = Role::Plain;
        }
    }

    /// Whether nothing is left, or nothing more can be done.
    fn is_over(&self, now: Instant) -> bool {
        let is_given_up = self.give_up_at.is_some_and(|at| at <= now);
        let is_refused =
            self.give_up_at.is_some() && self.members.values().all(|member| member.is_anothers);
        self.has_begun && (self.members.is_empty() || is_given_up || is_refused)
    }

    /// Returns the processes that have not ended. A shell of ours only waits for the others.
    fn left(&self) -> Vec<LeftProcess> {
        let is_alone = self.members.len() == 1;
        let members = self.members.iter();
        let members = members.filter(|(_, member)| is_alone || member.role == Role::Plain);
        let left = members.map(|(pid, member)| LeftProcess {
            pid: *pid,
            name: member.name.clone(),
            is_anothers: member.is_anothers,
        });
        left.collect()
    }
}

impl Member {
    /// Opens a process of the table; `None` when it has ended.
    fn open(row: &ProcessRow) -> Option<Self> {
        let process = Process::open(row.pid)?;
        // The pid may have been given to another process since the table was read.
        table::contains(row.pid, row.started).then(|| Self {
            process,
            name: row.name.clone(),
            started: row.started,
            parent: row.parent,
            stage: Stage::Unasked,
            is_anothers: false,
            is_copy: false,
            role: Role::Plain,
        })
    }

    fn is_running(&self, pid: u32) -> bool {
        match self.process.file {
            Some(_) => self.process.is_running(),
            None => table::contains(pid, self.started),
        }
    }

    /// Asks it to end. A shell that ignores the signal is hung up, and a subshell of our launcher's, whose
    /// command line is `line`, killed: it would go on with its next command.
    fn stop(&mut self, pid: u32, signal: u8, stop: Signal, line: Option<&[u8]>) {
        // Before the signal: many programs ignore it from then on, while they stop.
        let masks = table::masks(pid, &self.name);
        self.is_copy = line.is_some() && stat::command_line(pid).as_deref() == line;
        let is_over = SignalMasks::has(masks.ignored, signal) && self.is_copy;
        self.send(if is_over { Signal::KILL } else { stop });
        self.stage = Stage::Signalled;
        if masks.is_deaf_shell(signal) {
            self.send(Signal::HUP);
        }
    }

    fn send(&mut self, signal: Signal) {
        match self.process.signal(signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(Errno::PERM) => self.is_anothers = true,
            Err(error) => tracing::warn!(%error, ?signal, "could not signal a process"),
        }
    }
}

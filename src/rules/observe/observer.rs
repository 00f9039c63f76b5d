//! Follows the runs of every window from look to look.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::deaths::{EarlierRun, RecordedDeath, WindowDeaths};
use super::{Evidence, KnownWindow, UnsettledEnd, command};
use crate::model::*;
use crate::rules::protocol::rows::{Death, LookRows, PaneRow, WindowRow};

/// tmux reports the time of a death in whole seconds. The time of the look is more exact, unless
/// the death is at least this old.
const OLD_DEATH_MS: Millis = 2000;

/// The kernel counts process starts in ticks, usually of 10 ms. The limit is two ticks, because its
/// two clocks are not read at the same instant.
const TICK_MS: Millis = 20;

/// A snapshot, and what the caller has to do because of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The windows whose `@tmux_task_run` has to be set, with the number.
    pub write_runs: Vec<(WindowId, u32)>,
    /// Whether tmux has to be nudged to collect children that ended: it has not reported how one
    /// did.
    pub nudge: bool,
    /// Whether no other source has reported it either, so that another look is needed.
    pub unsettled: bool,
}

/// The state of the task session between looks.
#[derive(Debug, Clone, Default)]
pub struct Observer {
    /// The task session's name, also while it is missing.
    session: String,
    life: Option<SessionLife>,
    windows: BTreeMap<WindowId, KnownWindow>,
    /// The number of the last death that earlier looks have processed.
    deaths: Option<u64>,
    /// Whether that number is a saved one, which no record of tmux has confirmed.
    deaths_are_saved: bool,
    numbers: RunNumbers,
    /// Whether no earlier observer's snapshot says which windows were numbered already.
    is_baseline: bool,
}

/// A run that ended and is not its window's present run, with its index in the death record.
type EndedRun = (usize, Task);

impl Observer {
    /// Returns an observer that has not looked yet.
    pub fn new(session: impl Into<String>) -> Self {
        Self {
            session: session.into(),
            is_baseline: true,
            ..Self::default()
        }
    }

    /// Returns an observer that has not looked yet, and continues the numbers of earlier runs.
    pub fn numbering_from(session: impl Into<String>, numbers: RunNumbers) -> Self {
        Self {
            numbers,
            ..Self::new(session)
        }
    }

    /// Returns an observer that continues from a snapshot and from the bookmark of an earlier
    /// observer.
    pub fn from_snapshot(snapshot: &Snapshot, bookmark: &Bookmark) -> Self {
        let mut numbers = bookmark.run_numbers.clone();
        let name_of = |task: &Task| {
            let name = bookmark.run_names.get(&task.window);
            name.unwrap_or(&task.name).clone()
        };
        for task in snapshot.tasks.values() {
            numbers.note(&name_of(task), task.run.unwrap_or(0));
        }
        let own_pane = |task: &Arc<Task>| {
            let mut task = Arc::clone(task);
            if let Some(away) = bookmark.runs_away.get(&task.window) {
                let known = Arc::make_mut(&mut task);
                (known.pane, known.pid) = (Some(away.pane), away.pid);
            }
            task
        };
        let known = |task: &Arc<Task>| KnownWindow {
            task: own_pane(task),
            row: None,
            run: task.run.unwrap_or(1),
            run_name: name_of(task),
            is_recorded: false,
            terminal: None,
            started_option: bookmark.launched_at.get(&task.window).copied(),
            unsettled: None,
        };
        Self {
            session: snapshot.session.clone(),
            life: snapshot.life.clone(),
            windows: snapshot
                .tasks
                .values()
                .map(|task| (task.window, known(task)))
                .into_map(),
            // Numbers are of a life of the session.
            deaths: bookmark.deaths_read.filter(|_| snapshot.life.is_some()),
            deaths_are_saved: true,
            numbers,
            is_baseline: false,
        }
    }

    /// Returns how much of tmux's data has been processed.
    pub fn bookmark(&self) -> Bookmark {
        let launched =
            |(window, known): (&WindowId, &KnownWindow)| Some((*window, known.started_option?));
        Bookmark {
            deaths_read: self.deaths,
            launched_at: self.windows.iter().filter_map(launched).into_map(),
            run_numbers: self.numbers.clone(),
            // The session knows it.
            searched: BTreeMap::new(),
            run_names: self
                .windows
                .iter()
                .filter(|(_, known)| known.run_name != known.task.name)
                .map(|(window, known)| (*window, known.run_name.clone()))
                .into_map(),
            runs_away: self
                .windows
                .iter()
                .filter_map(|(window, known)| Some((*window, known.away()?)))
                .into_map(),
        }
    }

    /// Returns the panes in which the present runs of the windows began, wherever they are now.
    pub fn run_panes(&self) -> BTreeMap<WindowId, PaneId> {
        self.windows
            .iter()
            .filter_map(|(window, known)| Some((*window, known.task.pane?)))
            .into_map()
    }

    /// Returns the processes of the runs that are alive.
    pub fn live_pids(&self) -> Vec<u32> {
        let alive = self.windows.values().filter(|known| known.was_alive());
        alive.filter_map(|known| known.task.pid).collect()
    }

    /// Returns the last number that a run of this name, or of a task that has it now, has had.
    pub fn last_run(&self, name: &str) -> u32 {
        let is_named = |task: &Task| task.name == name && !task.shell;
        let named = self.windows.values().filter(|known| is_named(&known.task));
        let runs = named.map(|known| known.run);
        runs.fold(self.numbers.last(name), u32::max)
    }

    /// Returns the name that the number of this run belongs to.
    pub fn name_of_run<'a>(&'a self, task: &'a Task) -> &'a str {
        let known = self.windows.get(&task.window);
        let known = known.filter(|known| Some(known.run) == task.run);
        known.map_or(&task.name, |known| &known.run_name)
    }

    /// Derives a snapshot from a look; `None` means that the session is missing.
    #[must_use]
    pub fn observe(
        &mut self,
        look: Option<&LookRows>,
        evidence: &Evidence,
        now: Now,
    ) -> Observation {
        let life = look.map(|look| look.session.life.clone());
        // Ids of another life are other windows.
        let is_first_look = self.life.is_none();
        let is_same_life = life.is_some() && (is_first_look || self.life == life);
        let mut gone = BTreeMap::new();
        if !is_same_life {
            gone = std::mem::take(&mut self.windows);
            if life.is_some() {
                self.deaths = None;
            }
        }
        let mut observation = Observation {
            snapshot: Snapshot {
                exists: look.is_some(),
                life: life.clone(),
                ..Snapshot::missing(self.session.clone(), now.wall)
            },
            ..Observation::default()
        };
        if life.is_some() {
            self.life = life;
        }
        let mut ended: Vec<EndedRun> = Vec::new();
        let known_numbers = self.is_baseline.then(|| self.numbers.clone());
        self.is_baseline &= look.is_none();
        let record = look.map_or(&[][..], |look| &look.deaths);
        let last_death = record.iter().filter_map(|death| death.number).max();
        if last_death.is_some() && std::mem::take(&mut self.deaths_are_saved) {
            // tmux counts up. A number that it has not reached is damage, and would hide later deaths.
            self.deaths = self.deaths.filter(|saved| Some(*saved) <= last_death);
        }
        let rows = look.map_or(&[][..], |look| &look.windows);
        for row in rows {
            let numbers = &mut self.numbers;
            let mut judge = |before: Option<&KnownWindow>| {
                let window_look = WindowLook {
                    is_first_look,
                    is_numbered: known_numbers.as_ref().is_some_and(|numbers| {
                        let last = numbers.last(&row.name);
                        last > 0 && row.run == Some(last)
                    }),
                    ..WindowLook::new(row, before, record, self.deaths, evidence, now)
                };
                // Once is enough: a hook reports when tmux has collected the status.
                observation.nudge |= window_look.lacks_status();
                window_look.judge(&mut ended, numbers)
            };
            let known = match self.windows.entry(row.window) {
                // The launch is not over: hooks of the user can hold it up between two commands.
                Entry::Vacant(_) if row.is_launching => continue,
                Entry::Vacant(place) => place.insert(judge(None)),
                Entry::Occupied(known) => {
                    let known = known.into_mut();
                    if !known.is_unchanged(row, record, evidence) {
                        *known = judge(Some(known));
                    }
                    known
                }
            };
            let unsettled = known.unsettled;
            if unsettled.is_some_and(|end| end.is_open(now.mono)) {
                observation.nudge = true;
                observation.unsettled = true;
            }
            if row.run != Some(known.run) {
                observation.write_runs.push((row.window, known.run));
            }
            if let Some(pid) = row.replaced {
                let replaced = &mut observation.snapshot.launcher_replaced;
                replaced.insert(row.window, pid);
            }
            let task = known.shown();
            observation.snapshot.tasks.insert(row.window, task);
        }
        let mut same = BTreeMap::new();
        if self.windows.len() > observation.snapshot.tasks.len() {
            let present = &observation.snapshot.tasks;
            let is_gone = |window: &WindowId, _: &mut KnownWindow| !present.contains_key(window);
            same.extend(self.windows.extract_if(.., is_gone));
        }
        let of_same = same.values().map(|known| (known, record, self.deaths));
        let of_gone = gone.values().map(|known| (known, &[][..], None));
        for (known, record, read) in of_same.chain(of_gone) {
            let ends = ends_of_gone(known, record, read, evidence, &mut self.numbers, now);
            ended.extend(ends);
        }
        let is_known = |window: &WindowId| {
            same.contains_key(window) || observation.snapshot.tasks.contains_key(window)
        };
        let numbers = &mut self.numbers;
        ended.extend(ends_of_unknown(record, self.deaths, is_known, numbers, now));
        self.deaths = self.deaths.max(last_death);
        gone.append(&mut same);
        observation.snapshot.gone = evidence
            .gone
            .iter()
            .filter(|(window, _)| gone.contains_key(window))
            .map(|(window, reason)| (*window, *reason))
            .into_map();
        ended.sort_by_key(|(place, _)| *place);
        observation.snapshot.ended = ended.into_iter().map(|(_, task)| task).collect();
        observation
    }
}

struct WindowLook<'a> {
    row: &'a Arc<WindowRow>,
    before: Option<&'a KnownWindow>,
    deaths: WindowDeaths<'a>,
    primary: PrimaryPaneChange<'a>,
    /// Whether no earlier look has contained a window of the session.
    is_first_look: bool,
    /// Whether the number in tmux is one that an earlier observer has given to this run.
    is_numbered: bool,
    evidence: &'a Evidence,
    now: Now,
}

/// What happened to the pane of a window's run since the previous look.
#[derive(Debug, Clone, Copy)]
enum PrimaryPaneChange<'a> {
    /// It still is the primary pane, as far as is known.
    Same,
    /// Another pane is primary now and this one exists elsewhere: panes were swapped, joined or broken
    /// out. The run goes on there, and whatever ends in the window's primary pane is not its end.
    Moved,
    /// It was closed and another pane is left: its run has ended, perhaps with this death before that.
    Closed(Option<RecordedDeath<'a>>),
}

impl<'a> WindowLook<'a> {
    fn new(
        row: &'a Arc<WindowRow>,
        before: Option<&'a KnownWindow>,
        record: &'a [Death],
        deaths_read: Option<u64>,
        evidence: &'a Evidence,
        now: Now,
    ) -> Self {
        let pane = row.pane.as_ref().map(|pane| pane.pane);
        let earlier = before.map(|known| EarlierRun {
            known,
            evidence,
            replaced: row.replaced,
        });
        let was = before.and_then(|known| known.task.pane);
        let primary = match was.filter(|was| pane.is_some_and(|pane| pane != *was)) {
            None => PrimaryPaneChange::Same,
            Some(was) if evidence.moved_panes.contains(&was) => PrimaryPaneChange::Moved,
            Some(was) => {
                let of_closed =
                    WindowDeaths::find(record, deaths_read, Some(was), earlier.as_ref());
                PrimaryPaneChange::Closed(of_closed.own)
            }
        };
        let of_run = match primary {
            PrimaryPaneChange::Moved => was,
            PrimaryPaneChange::Same | PrimaryPaneChange::Closed(_) => pane,
        };
        let deaths = WindowDeaths::find(record, deaths_read, of_run, earlier.as_ref());
        Self {
            row,
            before,
            primary,
            deaths,
            is_first_look: false,
            is_numbered: false,
            evidence,
            now,
        }
    }

    fn judge(self, ended: &mut Vec<EndedRun>, numbers: &mut RunNumbers) -> KnownWindow {
        // What is known of the window's run, if it is the run of the previous look.
        let same = self.before.filter(|_| !self.is_new_run());
        let death = match same {
            Some(_) => self.deaths.own,
            None => self.pane().and_then(|pane| self.deaths.of_present(pane)),
        };
        // Runs that came and went since: neither the one before nor the present one.
        let mut between = self.deaths.later.as_slice();
        if same.is_some() {
            between = &[];
        } else if death.is_some() {
            between = between.split_last().map_or(between, |(_, others)| others);
        }
        let pid = self.pid(same, death);
        let run = self.run_number(same, between.len(), numbers);
        let run_name = self.run_name(same, run, numbers);
        let (life, unsettled) = self.life(pid, same, death);
        let task = self.task(pid, run, life, same);
        if same.is_none()
            && let Some(before) = self.before
        {
            ended.extend(self.end_of_before(before));
        }
        let first = run.saturating_sub(u32::try_from(between.len()).unwrap_or(u32::MAX));
        for (number, (place, death)) in (first.max(1)..).zip(between) {
            ended.push((*place, end_of_unseen(&task, number, death, self.now)));
        }
        let terminal = match same.filter(|_| self.is_away()) {
            Some(same) => same.terminal.clone(),
            None => self.pane().and_then(|pane| pane.tty.clone()),
        };
        KnownWindow {
            task: Arc::new(task),
            row: Some(Arc::clone(self.row)),
            run,
            run_name,
            is_recorded: death.is_some() || same.is_some_and(|same| same.is_recorded),
            terminal,
            started_option: self.row.started,
            unsettled,
        }
    }

    /// Returns the present run's pid, which tmux can forget of a dead pane: the recorded or the last one
    /// then.
    fn pid(&self, same: Option<&KnownWindow>, death: Option<RecordedDeath<'_>>) -> Option<u32> {
        let recorded = || death.and_then(|(_, death)| death.pid);
        let was = || same?.task.pid;
        if self.is_away() {
            return was();
        }
        self.pane()?.pid.or_else(recorded).or_else(was)
    }

    fn is_away(&self) -> bool {
        matches!(self.primary, PrimaryPaneChange::Moved)
    }

    fn is_new_run(&self) -> bool {
        let Some(before) = self.before else {
            return true;
        };
        let Some(pane) = self.pane() else {
            return false;
        };
        match self.primary {
            PrimaryPaneChange::Same => {}
            PrimaryPaneChange::Moved => return false,
            PrimaryPaneChange::Closed(_) => return true,
        }
        if let (Some(before), Some(after)) = (before.task.pid, pane.pid) {
            return before != after;
        }
        // Only the order of the deaths shows which process this is or was.
        let has_later = !self.deaths.later.is_empty();
        match (&pane.dead, self.deaths.own.is_some()) {
            (Some(_), _) if has_later => true,
            (Some(_), true) => false,
            (None, true) => true,
            (dead, false) => {
                let exit = dead.as_ref().map(|dead| dead.exit.clone());
                let earlier = EarlierRun {
                    known: before,
                    evidence: self.evidence,
                    replaced: self.row.replaced,
                };
                let is_same = if before.was_alive() {
                    earlier.may_have_ended(&exit.unwrap_or_default(), pane.tty.as_deref())
                } else {
                    dead.is_some()
                };
                self.row.run.is_some_and(|run| run > before.run) || !is_same
            }
        }
    }

    fn pane(&self) -> Option<&PaneRow> {
        self.row.pane.as_ref()
    }

    /// Returns the number of the present run, after `between` others that were not seen. No run of the
    /// window, or of its name, had a higher one.
    fn run_number(&self, same: Option<&KnownWindow>, between: usize, numbers: &RunNumbers) -> u32 {
        if let Some(same) = same {
            return same.run;
        }
        let between = u32::try_from(between).unwrap_or(u32::MAX);
        let noted = self.row.run.unwrap_or(0);
        if self.is_numbered {
            return noted;
        }
        let of_name = if self.is_unnamed_shell() {
            0
        } else {
            numbers.last(&self.row.name)
        };
        let last = self
            .before
            .map_or(of_name, |before| before.run.max(of_name));
        let counted = last.saturating_add(between).saturating_add(1);
        counted.max(noted)
    }

    /// Returns the name that the run's number belongs to, and notes it. A run of a renamed window goes
    /// along if the new name has not had this number.
    fn run_name(&self, same: Option<&KnownWindow>, run: u32, numbers: &mut RunNumbers) -> String {
        let name = &self.row.name;
        let is_kept = |same: &&KnownWindow| {
            same.task.name == *name
                // Programs can change this name as they like.
                || self.row.is_named_by_tmux
                || same.run_name != *name && numbers.last(name) >= run
        };
        match same.filter(is_kept) {
            Some(same) => same.run_name.clone(),
            None => {
                if !self.is_unnamed_shell() {
                    numbers.note(name, run);
                }
                name.clone()
            }
        }
    }

    /// Whether it is a shell that tmux names after its program, so that its name is not its own.
    fn is_unnamed_shell(&self) -> bool {
        self.row.is_bare && self.row.is_named_by_tmux && self.row.command.is_none()
    }

    /// Whether the pane has just died and tmux has not collected its status, wherever else that is known
    /// from.
    fn lacks_status(&self) -> bool {
        let dead = self.pane().and_then(|pane| pane.dead.as_ref());
        let was_alive = self.before.is_none_or(KnownWindow::was_alive);
        let is_recorded = self.deaths.own.is_some() || !self.deaths.later.is_empty();
        was_alive && !is_recorded && dead.is_some_and(|dead| !dead.exit.is_known())
    }

    /// Returns whether the run continues, and whether that is unsettled.
    fn life(
        &self,
        pid: Option<u32>,
        same: Option<&KnownWindow>,
        death: Option<RecordedDeath<'_>>,
    ) -> (Life, Option<UnsettledEnd>) {
        let Some(pane) = self.pane() else {
            return (Life::Unknown, None);
        };
        let unsettled = same.and_then(|same| same.unsettled);
        let unsettled = UnsettledEnd::seen(unsettled, self.now.mono);
        let has_ended = pid.is_some_and(|pid| self.evidence.ended.contains(&pid));
        let unknown = Exit::default();
        let dead = match self.is_away() {
            true => {
                let is_over = same.is_some_and(|same| !same.was_alive());
                (is_over || has_ended || death.is_some()).then_some(&unknown)
            }
            false => pane.dead.as_ref().map(|dead| &dead.exit),
        };
        let Some(dead) = dead else {
            // Children of the process may still hold its terminal. tmux then shows the pane as alive,
            // and so does the snapshot.
            return (Life::Alive, has_ended.then_some(unsettled));
        };
        if let Some(exit) = self.exit(pid, dead, death) {
            return (Life::Dead(exit), None);
        }
        if let Some(exit) = same.and_then(|same| same.task.exit()) {
            return (Life::Dead(exit.clone()), None);
        }
        let life = match unsettled.is_open(self.now.mono) {
            true => Life::Alive,
            false => Life::Dead(Exit::default()),
        };
        (life, Some(unsettled))
    }

    /// Returns how the present run ended, from the first source that knows.
    fn exit(
        &self,
        pid: Option<u32>,
        dead: &Exit,
        death: Option<RecordedDeath<'_>>,
    ) -> Option<Exit> {
        let by_kernel = pid.and_then(|pid| self.evidence.exits.get(&pid));
        let sources = [Some(dead), death.map(|(_, death)| &death.exit), by_kernel];
        let mut known = sources.into_iter().flatten().filter(|exit| exit.is_known());
        known.next().cloned()
    }

    fn task(&self, pid: Option<u32>, run: u32, life: Life, same: Option<&KnownWindow>) -> Task {
        let same = same.map(|same| &*same.task);
        let pane = self.pane();
        let died = pane.and_then(|pane| pane.dead.as_ref());
        let died = died.filter(|_| !self.is_away());
        let known_start = match same {
            Some(task) => task.started_at,
            None => self.known_start(pid),
        };
        let ended_at = match life {
            Life::Unknown | Life::Alive => None,
            Life::Dead(_) => same.and_then(|task| task.ended_at).or_else(|| {
                let seconds = died.and_then(|dead| dead.time);
                Some(time_of_death(seconds, known_start, self.now))
            }),
        };
        let started_at = match same {
            Some(_) => known_start,
            // It began before it was seen, and before it ended.
            None => known_start.or(ended_at).or(Some(self.now.wall)),
        };
        Task {
            window: self.row.window,
            name: self.row.name.clone(),
            pane: match same.filter(|_| self.is_away()) {
                Some(task) => task.pane,
                None => pane.map(|pane| pane.pane),
            },
            pid,
            life,
            command: command(self.row),
            cwd: self.row.cwd.clone(),
            bell: self.row.bell,
            bell_count: self.row.bell_count.or_else(|| self.uncounted_bell()),
            run: Some(run),
            owner: self.row.owner.clone(),
            // What a launcher has marked is a task, whatever runs in it.
            shell: self.row.is_bare && self.row.command.is_none(),
            is_named_by_tmux: self.row.is_named_by_tmux && self.row.command.is_none(),
            is_linked: self.row.is_linked && self.row.command.is_none(),
            started_at,
            ended_at,
            settings: self.row.settings.clone(),
            // What the kernel shows of its processes is added to the snapshot.
            queued: false,
            ending: self.row.ending,
            asked_by: self.row.asked_by.clone(),
            stopped: None,
            ports: None,
            screen: pane.map(|pane| pane.screen.clone()).unwrap_or_default(),
        }
    }

    /// Returns the count while only tmux's flag shows the window's first bell: a hook of the user that
    /// waits, such as `alert-bell 'run-shell ...'`, holds up the hook that counts. Otherwise the
    /// count would report the same bell a second time.
    fn uncounted_bell(&self) -> Option<u64> {
        let is_first = match self.before.map(|known| &known.task) {
            Some(task) if task.bell => task.bell_count == Some(1),
            Some(task) => task.bell_count.is_none(),
            // A bell that rang before the first look is not reported.
            None => !self.is_first_look,
        };
        (self.row.bell && is_first).then_some(1)
    }

    fn known_start(&self, pid: Option<u32>) -> Option<Millis> {
        let known = self.before.and_then(|before| before.started_option);
        let option = self.row.started.filter(|option| known != Some(*option));
        let hint = pid
            .and_then(|pid| self.evidence.started_at.get(&pid))
            .copied();
        let started = match (option, hint) {
            // The kernel rounds to a tick: its time is up to one tick early.
            (Some(option), Some(hint)) if hint.saturating_add(TICK_MS) > option => hint.max(option),
            (Some(option), _) => option,
            (None, hint) => hint?,
        };
        Some(started.min(self.now.wall))
    }

    /// Returns the end of the previous run, when it is known and was not reported.
    fn end_of_before(&self, before: &KnownWindow) -> Option<EndedRun> {
        if !before.was_alive() {
            return None;
        }
        if let PrimaryPaneChange::Closed(death) = self.primary {
            return Some(self.end_of_closed(before, death));
        }
        if let Some((place, death)) = self.deaths.own {
            return Some((place, end(Task::clone(&before.task), death, self.now)));
        }
        let pid = before.task.pid?;
        // A run that our launcher ended did not end by itself, whatever its status.
        let exit = self.evidence.exits.get(&pid);
        let exit = exit.filter(|_| self.row.replaced != Some(pid))?;
        Some((0, ended_now(&before.task, exit.clone(), self.now)))
    }

    /// Returns the end of a run whose pane was closed while its window remained.
    fn end_of_closed(&self, before: &KnownWindow, death: Option<RecordedDeath<'_>>) -> EndedRun {
        if let Some((place, death)) = death {
            return (place, end(Task::clone(&before.task), death, self.now));
        }
        let pid = before.task.pid;
        let by_kernel = pid.and_then(|pid| self.evidence.exits.get(&pid)).cloned();
        let is_hung_up = pid.is_some_and(|pid| self.evidence.hung_up.contains(&pid));
        let hang_up = || Exit::with_signal(Signal::parse("HUP").filter(|_| is_hung_up));
        let exit = by_kernel.unwrap_or_else(hang_up);
        (0, ended_now(&before.task, exit, self.now))
    }
}

/// Returns the known ends of a window's runs when the window is gone.
fn ends_of_gone(
    known: &KnownWindow,
    record: &[Death],
    deaths_read: Option<u64>,
    evidence: &Evidence,
    numbers: &mut RunNumbers,
    now: Now,
) -> Vec<EndedRun> {
    let mut task = Task::clone(&known.task);
    if let Some(bells) = evidence.bells.get(&task.window) {
        task.bell_count = task.bell_count.max(Some(*bells));
    }
    let task = &task;
    let earlier = EarlierRun {
        known,
        evidence,
        replaced: None,
    };
    let deaths = WindowDeaths::find(record, deaths_read, task.pane, Some(&earlier));
    let mut ended = Vec::new();
    if known.was_alive() {
        let by_kernel = task.pid.and_then(|pid| evidence.exits.get(&pid));
        let next = deaths.later.first().map_or(usize::MAX, |(place, _)| *place);
        match (deaths.own, by_kernel) {
            (Some((place, death)), _) => ended.push((place, end(task.clone(), death, now))),
            (None, Some(exit)) => ended.push((next, ended_now(task, exit.clone(), now))),
            (None, None) => {}
        }
    }
    let last = known.run.max(numbers.last(&task.name));
    for (number, (place, death)) in (last.saturating_add(1)..).zip(deaths.later) {
        numbers.note(&task.name, number);
        ended.push((place, end_of_unseen(task, number, death, now)));
    }
    ended
}

/// Returns the ends of runs in windows that were opened and closed again since the previous look.
fn ends_of_unknown(
    record: &[Death],
    deaths_read: Option<u64>,
    is_known: impl Fn(&WindowId) -> bool,
    numbers: &mut RunNumbers,
    now: Now,
) -> Vec<EndedRun> {
    let mut runs: BTreeMap<WindowId, u32> = BTreeMap::new();
    let mut ended = Vec::new();
    for (place, death) in record.iter().enumerate() {
        let is_new = death
            .number
            .is_some_and(|number| deaths_read.is_none_or(|deaths_read| number > deaths_read));
        // No other pane of its window had a lower id.
        let is_of_primary_pane = death.panes.iter().min() == Some(&death.pane);
        if !is_new || !is_of_primary_pane || is_known(&death.window) {
            continue;
        }
        let name = death.name.clone().unwrap_or_default();
        let run = runs.entry(death.window).or_default();
        let counted = (*run).max(numbers.last(&name)).saturating_add(1);
        *run = counted.max(death.run.unwrap_or(0));
        numbers.note(&name, *run);
        let task = Task {
            pane: Some(death.pane),
            pid: death.pid,
            run: Some(*run),
            owner: death.owner.clone(),
            shell: death.is_shell,
            ..Task::new(death.window, name)
        };
        ended.push((place, end(task, death, now)));
    }
    ended
}

/// Returns the task as it was at the end of a run that no look has contained.
fn end_of_unseen(task: &Task, number: u32, death: &Death, now: Now) -> Task {
    let mut task = task.clone();
    task.pid = death.pid;
    task.run = Some(number);
    task.started_at = None;
    task.screen = Screen::default();
    end(task, death, now)
}

fn ended_now(task: &Task, exit: Exit, now: Now) -> Task {
    Task {
        life: Life::Dead(exit),
        ended_at: Some(now.wall),
        ..task.clone()
    }
}

fn end(mut task: Task, death: &Death, now: Now) -> Task {
    task.pid = task.pid.or(death.pid);
    task.life = Life::Dead(death.exit.clone());
    task.ended_at = Some(time_of_death(death.time, task.started_at, now));
    task
}

/// Returns when a run ended. tmux counts whole seconds, but no run ends before it has begun.
fn time_of_death(seconds: Option<i64>, started_at: Option<Millis>, now: Now) -> Millis {
    let ended_at = seconds
        .map(|seconds| seconds.saturating_mul(1000))
        .filter(|time| time.saturating_add(OLD_DEATH_MS) <= now.wall)
        .unwrap_or(now.wall);
    started_at.map_or(ended_at, |started_at| ended_at.max(started_at))
}

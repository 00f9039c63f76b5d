//! The control clients of a session, and what they report.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_util::future::FutureExt as _;
use tokio::try_join;

use super::output_follower::OutputFollower;
use crate::config::paths::Paths;
use crate::model::{PaneId, SessionId, WindowId};
use crate::rules::protocol::Notification;
use crate::rules::terminal::{Extent, PaneOutput};
use crate::session::Change;
use crate::tmux::{
    self, Client, Connection, HookWakeups, NO_OUTPUT, REPORTED_OUTPUT, ReceivedItem,
    ReportedWindow, ReportedWindows, Server, TmuxError,
};

/// How many changes may be queued before further ones stay in the clients' pipes, as tmux notices.
const MAX_QUEUED: usize = 4096;

/// How many changes are received before a look: a flood of output has no end.
const AT_ONCE: usize = 256;

/// The control clients of a session. As few as possible, attached as rarely as possible, and never
/// while an earlier one leaves: tmux up to 3.5a can crash when a client detaches or the current
/// window changes while one is attaching.
#[derive(Debug)]
pub(super) struct ControlClients {
    /// Runs commands, and reports windows, sessions and which panes print: never late behind a pane's output.
    pub(super) main: Client,
    /// Receives all output of the followed panes: attached with the first of them, or with the others if
    /// attaching runs hooks of the user's.
    pub(super) follower: Option<OutputFollower>,
    waiter: HookWakeups,
    pub(super) activity: PaneActivity,
    /// Changes received from the clients and not passed on yet, in order.
    pub(super) queued: VecDeque<Change>,
    session: SessionId,
    server: Server,
    paths: Paths,
    /// Whether tmux has not reported yet which session `main` is attached to.
    is_attaching: bool,
}

impl ControlClients {
    /// Attaches to the session: from here on no change is missed.
    pub(super) async fn attach(
        server: &Server,
        paths: &Paths,
        session: SessionId,
    ) -> Result<Self, TmuxError> {
        // tmux can crash when a session is created or ended while a control client connects.
        let lock = paths.lock_server().await;
        tmux::end_clients_left_behind(server, session).await;
        // What a hook of the user's prints can crash tmux while the third client connects.
        let has_hooks = server.has_attach_hooks(session).await?;
        let channel = tmux::new_channel(session);
        let connect = |flags| server.connect(&channel, session, flags);
        let (waiter, main) = try_join!(connect(NO_OUTPUT), connect(REPORTED_OUTPUT))?;
        let mut third = None;
        if has_hooks {
            third = Some(connect(REPORTED_OUTPUT).await?);
        }
        Connection::OneShot(server).signal(&channel).await?;
        let waiter = waiter.into_wakeups(server, session).await?;
        let main = main.into_client(server).await?;
        let mut follower = None;
        if let Some(third) = third {
            follower = Some(OutputFollower::new(third.into_client(server).await?));
        }
        drop(lock);
        Ok(Self {
            main,
            follower,
            waiter,
            activity: PaneActivity::default(),
            queued: VecDeque::new(),
            session,
            server: server.clone(),
            paths: paths.clone(),
            is_attaching: true,
        })
    }

    /// Resolves when a hook or tmux reports a relevant change. If the future is dropped, the next call
    /// returns what was not returned.
    pub(super) async fn changed(&mut self) -> Result<Change, TmuxError> {
        if let Some(change) = self.queued.pop_front() {
            return Ok(change);
        }
        let Self {
            main,
            follower,
            waiter,
            activity,
            session,
            is_attaching,
            ..
        } = self;
        loop {
            let followed = async {
                match follower {
                    Some(follower) => follower.changed().await,
                    None => std::future::pending().await,
                }
            };
            let change = tokio::select! {
                woken = waiter.woken() => Some(of_report(woken?, activity)),
                received = main.next_received() => match received? {
                    ReceivedItem::Notification(notification) => {
                        of_notification(&notification, *session, is_attaching, activity)
                    }
                    ReceivedItem::Answer(_) => None,
                },
                change = followed => Some(change.unwrap_or_else(|_| lose(follower))),
            };
            if let Some(change) = change {
                return Ok(change);
            }
        }
    }

    /// Receives what has arrived by now, so that a look queries the windows concerned. Returns whether
    /// a change has arrived that a look answers.
    pub(super) fn catch_up(&mut self) -> bool {
        let mut left = std::mem::take(&mut self.queued);
        let mut is_answered = false;
        for _ in 0..AT_ONCE.min(MAX_QUEUED.saturating_sub(left.len())) {
            match self.changed().now_or_never() {
                Some(Ok(Change::Windows | Change::Output)) => is_answered = true,
                Some(Ok(change)) => left.push_back(change),
                // A closed connection is reported by the next call.
                Some(Err(_)) | None => break,
            }
        }
        self.queued = left;
        is_answered
    }

    /// Reads a pane's output and follows it: all output after the reading arrives. `is_over` says that the
    /// pane's run has ended, so that no more arrives. Changes that arrived until then are added to `before`.
    pub(super) async fn follow_output(
        &mut self,
        pane: PaneId,
        extent: Extent,
        is_over: bool,
        before: &mut Vec<Change>,
    ) -> Result<PaneOutput, TmuxError> {
        if self.follower.is_none() {
            let (server, lock) = (&self.server, self.paths.lock_server().await);
            tmux::end_clients_left_behind(server, self.session).await;
            self.main.sync().await?;
            let client = server.attach(self.session, REPORTED_OUTPUT).await?;
            drop(lock);
            self.follower = Some(OutputFollower::new(client));
        }
        let Some(follower) = &mut self.follower else {
            return Err(TmuxError::Closed);
        };
        let main = &mut self.main;
        let read = follower.read(main, pane, extent, is_over, before).await;
        if let Err(TmuxError::Closed | TmuxError::TimedOut) = read {
            self.queued.push_back(lose(&mut self.follower));
        }
        read
    }

    /// Waits until all output of followed panes has arrived, unless it is late.
    pub(super) async fn drain_output(&mut self) {
        let Some(follower) = &mut self.follower else {
            return;
        };
        match follower.drain().await {
            Ok(changes) => self.queued.extend(changes),
            Err(_) => self.queued.push_back(lose(&mut self.follower)),
        }
    }

    pub(super) async fn close(self) {
        let follower = async {
            if let Some(follower) = self.follower {
                follower.client.close().await;
            }
        };
        tokio::join!(self.main.close(), follower, self.waiter.close());
    }
}

/// Drops a follower whose connection has broken, and returns the change that this is.
fn lose(follower: &mut Option<OutputFollower>) -> Change {
    *follower = None;
    Change::FollowerLost
}

fn of_report(reported: ReportedWindows, activity: &mut PaneActivity) -> Change {
    match reported {
        ReportedWindows::Windows(windows) => {
            for ReportedWindow { window, bells } in windows {
                activity.changed.insert(window);
                activity.bells.extend(bells.map(|bells| (window, bells)));
            }
        }
        ReportedWindows::Unknown => activity.are_all_reported = true,
    }
    Change::Windows
}

/// Returns the change that a notification means to a client of this session. `is_attaching` is whether the client's
/// first session has not been reported yet: that report follows the attaching, as a look does.
fn of_notification(
    notification: &Notification,
    session: SessionId,
    is_attaching: &mut bool,
    activity: &mut PaneActivity,
) -> Option<Change> {
    match notification {
        Notification::SessionChanged(now) if std::mem::take(is_attaching) && *now == session => {
            None
        }
        Notification::WindowAdd(window) | Notification::WindowRenamed(window) => {
            activity.changed.insert(*window);
            Some(Change::Windows)
        }
        Notification::LayoutChange(window) => {
            activity.changed.insert(*window);
            Some(Change::Layout)
        }
        Notification::WindowClose(window) => {
            activity.closed.insert(*window);
            Some(Change::Windows)
        }
        // With many sessions on the server, a reaction to each other's changes would keep it busy.
        Notification::SessionRenamed(renamed) if *renamed != session => None,
        Notification::SessionRenamed(_)
        | Notification::SessionChanged(_)
        | Notification::Exit(_) => {
            activity.are_all_reported = true;
            Some(Change::Windows)
        }
        Notification::Output { pane, .. } => {
            activity.record_output(*pane).then_some(Change::Output)
        }
        Notification::Pause(pane) => activity.record_pause(*pane).then_some(Change::Output),
        Notification::Continue(_) | Notification::Other(_) => None,
    }
}

// Which panes have printed since the last look, which are paused for our client, which windows have changed.

/// A pane with this many notifications of output between two looks is busy: then an occasional look
/// is cheaper than the notifications.
const BUSY: u32 = 4;

/// Why a pane is paused for our client, so that only looks show its output, and when it is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// tmux paused it because it printed faster than tmux could report. The next look continues it.
    Burst,
    /// It prints continuously, or no look has queried it yet.
    Printing,
    /// The last look found it quiet: the next one continues it.
    Quiet,
    /// It is not a task's pane, or is gone: its output does not matter.
    Unwatched,
}

/// What is known about the panes' output and the windows' changes since the last look.
#[derive(Debug, Default)]
pub(super) struct PaneActivity {
    /// Notifications of output by pane, since the last look.
    printed: BTreeMap<PaneId, u32>,
    paused: BTreeMap<PaneId, Pause>,
    /// Panes that the last look continued after a burst: another burst means that they are busy.
    burst_before: BTreeSet<PaneId>,
    /// Windows that were added or have changed since the last look.
    pub(super) changed: BTreeSet<WindowId>,
    /// Windows that tmux has reported as closed since then, of any session.
    pub(super) closed: BTreeSet<WindowId>,
    /// How many bells their hook had counted by window, if any has rung since the last look.
    pub(super) bells: BTreeMap<WindowId, u64>,
    /// Panes that tmux has paused since their first lines were read.
    pub(super) bursts: BTreeSet<PaneId>,
    /// Whether a report since then does not say which windows have changed.
    pub(super) are_all_reported: bool,
}

impl PaneActivity {
    /// Records that a pane has printed. Returns whether that is worth a reaction: the first output
    /// since the last look, or the one that makes the pane busy.
    fn record_output(&mut self, pane: PaneId) -> bool {
        let printed = self.printed.entry(pane).or_default();
        *printed += 1;
        *printed == 1 || *printed == BUSY
    }

    /// Records that tmux has paused a pane that printed faster than it could be reported. Returns
    /// what [`PaneActivity::record_output`] does, or that it is a burst: only printing leads to a pause.
    fn record_pause(&mut self, pane: PaneId) -> bool {
        let printed = self.printed.get(&pane).copied().unwrap_or_default();
        let pause = match self.burst_before.contains(&pane) || printed >= BUSY {
            true => Pause::Printing,
            false => Pause::Burst,
        };
        self.paused.entry(pane).or_insert(pause);
        self.record_output(pane) | self.bursts.insert(pane)
    }

    /// Returns the busy panes that are not paused yet, and records them as paused.
    pub(super) fn take_busy(&mut self) -> Vec<PaneId> {
        let printed = self.printed.iter();
        let busy =
            printed.filter(|(pane, printed)| **printed >= BUSY && !self.paused.contains_key(pane));
        let busy: Vec<PaneId> = busy.map(|(pane, _)| *pane).collect();
        self.paused
            .extend(busy.iter().map(|pane| (*pane, Pause::Printing)));
        busy
    }

    /// Whether windows were reported as added or changed since the last look. Closed ones are up to the caller.
    pub(super) fn are_windows_reported(&self) -> bool {
        self.are_all_reported || !self.changed.is_empty()
    }

    /// Whether the next look may find something: a pane may have printed, or a window has changed.
    pub(super) fn is_any_reported(&self) -> bool {
        self.are_windows_reported() || self.printed().next().is_some()
    }

    /// Whether anything was reported since the last look began that it may not include. A pane that is
    /// paused, which each look captures, is no report; a window of ours that was closed is one.
    pub(super) fn has_reports_since_look(&self, is_ours: impl Fn(&WindowId) -> bool) -> bool {
        self.are_windows_reported() || !self.printed.is_empty() || self.closed.iter().any(is_ours)
    }

    /// Returns the panes that may have printed since the last look: reported ones and paused ones.
    pub(super) fn printed(&self) -> impl Iterator<Item = PaneId> {
        let paused = self.paused.iter();
        let paused = paused.filter(|(_, pause)| **pause != Pause::Unwatched);
        self.printed
            .keys()
            .chain(paused.map(|(pane, _)| pane))
            .copied()
    }

    pub(super) fn to_continue(&self) -> impl Iterator<Item = PaneId> {
        let paused = self.paused.iter();
        let ready = paused.filter(|(_, pause)| matches!(pause, Pause::Quiet | Pause::Burst));
        ready.map(|(pane, _)| *pane)
    }

    /// Whether only looks can see what some task's pane prints.
    pub(super) fn is_any_paused(&self) -> bool {
        let mut paused = self.paused.values();
        paused.any(|pause| *pause != Pause::Unwatched)
    }

    /// Records a look, before which the panes of [`PaneActivity::to_continue`] were continued by the same client.
    /// `tasks` has the panes of tasks and whether they have printed nothing for a while. A pane that still prints
    /// stays paused: its output would be in the way of everything else that tmux reports.
    pub(super) fn record_look(&mut self, tasks: impl IntoIterator<Item = (PaneId, bool)>) {
        self.are_all_reported = false;
        self.printed.clear();
        self.burst_before.clear();
        let burst_before = &mut self.burst_before;
        self.paused.retain(|pane, pause| match pause {
            Pause::Burst => {
                burst_before.insert(*pane);
                false
            }
            Pause::Quiet => false,
            Pause::Printing | Pause::Unwatched => true,
        });
        if self.paused.is_empty() {
            return;
        }
        let all = self.paused.values_mut();
        all.for_each(|pause| *pause = Pause::Unwatched);
        for (pane, is_quiet) in tasks {
            if let Some(pause) = self.paused.get_mut(&pane) {
                *pause = match is_quiet {
                    true => Pause::Quiet,
                    false => Pause::Printing,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WindowId;

    #[test]
    fn what_is_renamed_in_other_sessions_is_no_change() {
        let (own, other) = (SessionId(1), SessionId(2));
        let window = WindowId(3);
        for (notification, is_change) in [
            (Notification::SessionRenamed(own), true),
            (Notification::SessionRenamed(other), false),
            (Notification::WindowRenamed(window), true),
            (Notification::parse(b"%unlinked-window-renamed @3 a"), false),
            (Notification::parse(b"%unlinked-window-add @3"), false),
        ] {
            let mut activity = PaneActivity::default();
            let change = of_notification(&notification, own, &mut false, &mut activity);
            assert_eq!(change.is_some(), is_change, "{notification:?}");
            assert_eq!(activity.is_any_reported(), is_change, "{notification:?}");
        }
    }

    #[test]
    fn only_the_first_report_of_our_own_session_says_nothing_new() {
        let (own, other) = (SessionId(1), SessionId(2));
        let changes = |reports: &[SessionId]| -> Vec<bool> {
            let mut is_attaching = true;
            let mut activity = PaneActivity::default();
            let mut change = |report: &SessionId| {
                let notification = Notification::SessionChanged(*report);
                of_notification(&notification, own, &mut is_attaching, &mut activity).is_some()
            };
            reports.iter().map(&mut change).collect()
        };
        assert_eq!(changes(&[own, own]), [false, true]);
        assert_eq!(changes(&[own, other, own]), [false, true, true]);
        assert_eq!(changes(&[other, own]), [true, true]);
    }

    const PANE: PaneId = PaneId(1);

    fn printed(activity: &PaneActivity) -> Vec<PaneId> {
        activity.printed().collect()
    }

    fn to_continue(activity: &PaneActivity) -> Vec<PaneId> {
        activity.to_continue().collect()
    }

    #[test]
    fn a_busy_pane_is_paused_until_a_look_finds_it_quiet() {
        let mut activity = PaneActivity::default();
        assert!(activity.record_output(PANE));
        assert!(!activity.record_output(PANE));
        assert!(!activity.record_output(PANE));
        assert_eq!(activity.take_busy(), []);
        assert!(activity.record_output(PANE));
        assert_eq!(activity.take_busy(), [PANE]);
        assert_eq!(activity.take_busy(), []);
        // What was on its way when it was paused.
        assert!(!activity.record_output(PANE));
        activity.record_look([(PANE, false)]);
        assert!(activity.is_any_paused());
        let state = |activity: &PaneActivity| (printed(activity), to_continue(activity));
        assert_eq!(state(&activity), (vec![PANE], vec![]));
        activity.record_look([(PANE, true)]);
        assert_eq!(state(&activity), (vec![PANE], vec![PANE]));
        activity.record_look([(PANE, true)]);
        assert_eq!(state(&activity), (vec![], vec![]));
        assert!(!activity.is_any_paused());
        assert!(activity.record_output(PANE));
    }

    #[test]
    fn what_was_reported_since_a_look_began_is_seen_and_paused_panes_and_foreign_windows_are_not() {
        let ours = |window: &WindowId| *window == WindowId(1);
        let print = |activity: &mut PaneActivity| assert!(activity.record_output(PANE));
        let has_reports = |act: fn(&mut PaneActivity)| {
            let mut activity = PaneActivity::default();
            for _ in 0..BUSY {
                activity.record_output(PANE);
            }
            activity.take_busy();
            activity.record_look([(PANE, false)]);
            activity.changed.clear();
            assert!(activity.is_any_paused());
            act(&mut activity);
            activity.has_reports_since_look(ours)
        };
        assert!(!has_reports(|_| {}));
        assert!(!has_reports(|now| now.closed.extend([WindowId(2)])));
        assert!(has_reports(|now| now.closed.extend([WindowId(1)])));
        assert!(has_reports(|now| now.changed.extend([WindowId(2)])));
        assert!(has_reports(|now| now.are_all_reported = true));
        assert!(has_reports(print));
    }

    #[test]
    fn a_burst_is_continued_by_the_next_look_and_bursts_without_end_are_not() {
        let mut activity = PaneActivity::default();
        assert!(
            activity.record_pause(PANE),
            "tmux may pause a pane at its first byte"
        );
        assert_eq!(
            (printed(&activity).first(), to_continue(&activity)),
            (Some(&PANE), vec![PANE])
        );
        activity.record_look([(PANE, false)]);
        assert!(!activity.is_any_paused());
        assert!(activity.record_pause(PANE));
        assert_eq!(to_continue(&activity), [], "the second burst in a row");
        activity.record_look([(PANE, false)]);
        assert!(activity.is_any_paused());
        activity.record_look([(PANE, true)]);
        activity.record_look([(PANE, true)]);
        assert!(activity.record_pause(PANE));
        assert_eq!(to_continue(&activity), [PANE], "it was quiet in between");
    }

    #[test]
    fn a_pane_that_is_no_tasks_stays_paused_and_is_watched_when_it_becomes_one() {
        let mut activity = PaneActivity::default();
        for _ in 0..BUSY {
            activity.record_output(PANE);
        }
        assert_eq!(activity.take_busy(), [PANE]);
        assert!(activity.is_any_paused(), "no look has asked yet");
        activity.record_look([(PaneId(2), true)]);
        assert!(!activity.is_any_paused());
        assert_eq!(activity.printed().count(), 0);
        assert_eq!(activity.take_busy(), []);
        // The task's own pane was killed, and this one is the next.
        activity.record_look([(PANE, false)]);
        assert!(activity.is_any_paused());
        assert!(activity.printed().eq([PANE]));
    }
}

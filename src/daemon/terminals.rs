//! When to ask the kernel about a pane's terminal: once its output has stopped, and then ever more
//! seldom, for a program may begin to wait without a word.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::model::{Screen, Snapshot, Task, TtyEvidence, WindowId};
use crate::process;
use crate::prompt::{self, Teaching};
use crate::protocol::rows::Look;

/// The pause before the second time, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause for a screen that asks something, or was told to: here a change matters.
const WARY_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause for any other.
const LONG_PAUSE: Duration = Duration::from_secs(10);

/// What asking about one terminal may take of a second of our time, with all others asked: it
/// keeps the sum of all within two thousandths.
const SHARE: Duration = Duration::from_millis(60);

/// Those that are due within this are asked together.
const TOGETHER: Duration = Duration::from_millis(20);

/// What is known of the terminals of a session's tasks.
#[derive(Debug, Default)]
pub(super) struct Terminals {
    panes: BTreeMap<WindowId, Pane>,
}

#[derive(Debug)]
struct Pane {
    pid: u32,
    tty: PathBuf,
    /// As the last look showed it.
    screen: Screen,
    /// What was last told of it; `None` while its output moves, and where nothing is known.
    evidence: Option<TtyEvidence>,
    /// Whether it shows or did show something that asks.
    is_wary: bool,
    next: Instant,
    pause: Duration,
}

impl Terminals {
    /// Takes note of a look, and adds to its snapshot what is known of the terminals of tasks
    /// whose output has stopped for `quiet`; `waits` tells which were told as waiting.
    pub(super) fn add_to(
        &mut self,
        snapshot: &mut Snapshot,
        look: Option<&Look>,
        waits: impl Fn(WindowId) -> bool,
        quiet: Duration,
        now: Instant,
    ) {
        self.panes
            .retain(|window, _| snapshot.tasks.get(window).is_some_and(Task::is_alive));
        let rows = look.map_or(&[][..], |look| &look.windows);
        for row in rows {
            let tty = row.pane.as_ref().and_then(|pane| pane.tty.as_deref());
            let in_mode = row.pane.as_ref().is_some_and(|pane| pane.in_mode);
            let task = snapshot.tasks.get(&row.window);
            let Some((task, pid, tty)) = task
                .filter(|task| task.is_alive() && !in_mode)
                .and_then(|task| Some((task, task.pid?, tty?)))
            else {
                continue;
            };
            let known = self.panes.remove(&row.window);
            let mut pane = match known {
                Some(pane) if pane.pid == pid && pane.screen == task.screen => pane,
                Some(_) | None => Pane {
                    pid,
                    tty: PathBuf::from(tty),
                    screen: task.screen.clone(),
                    evidence: None,
                    is_wary: false,
                    next: now + quiet,
                    pause: FIRST_PAUSE,
                },
            };
            let is_told = waits(row.window);
            if is_told || pane.next <= now {
                pane.ask(now, is_told, self.panes.len() + 1);
            }
            if let Some(evidence) = &pane.evidence {
                snapshot.terminals.insert(row.window, evidence.clone());
            }
            self.panes.insert(row.window, pane);
        }
    }

    /// Asks those that are due; returns whether what is told of a task may have to change.
    pub(super) fn ask_due(
        &mut self,
        waits: impl Fn(WindowId) -> bool,
        teaching: &Teaching,
        now: Instant,
    ) -> bool {
        let mut changed = false;
        let n = self.panes.len();
        for (window, pane) in &mut self.panes {
            if pane.next > now + TOGETHER {
                continue;
            }
            let is_told = waits(*window);
            let before = pane.evidence.clone();
            pane.ask(now, is_told, n);
            if before != pane.evidence {
                let judged = prompt::judge(&pane.screen, pane.evidence.as_ref(), teaching);
                changed |= judged.found.is_some() != is_told;
            }
        }
        changed
    }

    /// Returns when [`Terminals::ask_due`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.panes.values().map(|pane| pane.next).min()
    }
}

impl Pane {
    /// Asks now, and settles when to ask again; `n` are asked in all.
    fn ask(&mut self, now: Instant, is_told: bool, n: usize) {
        if self.evidence.is_none() {
            self.is_wary = prompt::find(&self.screen).is_some();
        }
        self.evidence = process::terminal(self.pid, &self.tty);
        let longest = if self.is_wary || is_told {
            WARY_PAUSE
        } else {
            LONG_PAUSE
        };
        let share = SHARE * u32::try_from(n).unwrap_or(u32::MAX);
        self.next = now + self.pause.min(longest).max(share);
        self.pause = (self.pause * 2).min(LONG_PAUSE);
    }
}

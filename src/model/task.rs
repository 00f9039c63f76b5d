//! One task: a window of the task session, represented by its primary pane.

use std::sync::Arc;

use super::{
    GoneReason, Millis, NotifyOn, PaneId, Progress, RunEnd, Signal, Slot, Stop, StopSettings,
    TaskRestarts, WindowId, text,
};

/// What was observed of one task at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate fact of a window"
)]
pub struct Task {
    /// The identity. The name may change, the id does not.
    pub window: WindowId,
    /// The window's name, sanitised text.
    pub name: String,
    /// The primary pane: the window's pane with the lowest id that does not float; `None` when its panes
    /// are not known.
    pub pane: Option<PaneId>,
    /// The process that tmux started in the pane; `None` when tmux no longer reports it.
    pub pid: Option<u32>,
    /// Whether the run continues.
    pub life: Life,
    /// The recorded command, or the best substitute that tmux has.
    pub command: Option<String>,
    /// Where the command was started, an absolute path.
    pub cwd: Option<String>,
    /// tmux's bell flag of the window.
    pub bell: bool,
    /// How many times the window rang since counting began; `None` without a counter.
    pub bell_count: Option<u64>,
    /// The number of this run of the window, from 1; `None` where runs are not counted.
    pub run: Option<u32>,
    /// The owner, `CLIENT:ID` of a conversation; `None` for a user at a terminal.
    pub owner: Option<String>,
    /// Whether this is a shell: the window was opened without a command and no launcher has marked
    /// it.
    pub shell: bool,
    /// Whether tmux has given the window its name, after the program that runs in it.
    pub is_named_by_tmux: bool,
    /// Whether the window is also one of another session, and no launcher has marked it: it belongs
    /// there.
    pub is_linked: bool,
    /// When the run began.
    pub started_at: Option<Millis>,
    /// When the run ended.
    pub ended_at: Option<Millis>,
    /// When it is run again by itself; `None` for never.
    pub restarts: Option<TaskRestarts>,
    /// How it is ended, as far as its launch has said.
    pub stop: StopSettings,
    /// The lines that its owner is notified of; `None` for none.
    pub notify_on: Option<NotifyOn>,
    /// The slot in which it runs; `None` for none.
    pub slot: Option<Slot>,
    /// Whether it waits for a place in its slot: its run has not begun.
    pub queued: bool,
    /// Why its run is being ended, since a command of ours has begun with that.
    pub ending: Option<GoneReason>,
    /// Who asked for that from another machine, `OWNER@MACHINE` or `MACHINE`; in an event, who asked for
    /// what it tells.
    pub asked_by: Option<String>,
    /// Why a program of it is stopped while none takes input; `None` also where that is not known.
    pub stopped: Option<Stop>,
    /// How far its program is, where that says it and it lives.
    pub progress: Option<Progress>,
    /// The last rows of the pane.
    pub screen: Screen,
}

impl Task {
    /// Returns a task of which nothing else is known.
    pub fn new(window: WindowId, name: String) -> Self {
        Self {
            window,
            name,
            pane: None,
            pid: None,
            life: Life::Unknown,
            command: None,
            cwd: None,
            bell: false,
            bell_count: None,
            run: None,
            owner: None,
            shell: false,
            is_named_by_tmux: false,
            is_linked: false,
            started_at: None,
            ended_at: None,
            restarts: None,
            stop: StopSettings::default(),
            notify_on: None,
            slot: None,
            queued: false,
            ending: None,
            asked_by: None,
            stopped: None,
            progress: None,
            screen: Screen::default(),
        }
    }

    /// Returns how much another look at this task differs from this one.
    pub fn difference(&self, other: &Self) -> Difference {
        let Self {
            window,
            name,
            pane,
            pid,
            life,
            command,
            cwd,
            bell,
            bell_count,
            run,
            owner,
            shell,
            is_named_by_tmux,
            is_linked,
            started_at,
            ended_at,
            restarts,
            stop,
            notify_on,
            slot,
            queued,
            ending,
            asked_by,
            stopped,
            progress: _,
            screen: _,
        } = self;
        let is_same = (window, name, pane, pid, life, command, cwd)
            == (
                &other.window,
                &other.name,
                &other.pane,
                &other.pid,
                &other.life,
                &other.command,
                &other.cwd,
            )
            && (run, started_at, ended_at) == (&other.run, &other.started_at, &other.ended_at)
            && (owner, shell, restarts) == (&other.owner, &other.shell, &other.restarts)
            && (stop, ending, asked_by, stopped)
                == (&other.stop, &other.ending, &other.asked_by, &other.stopped)
            && (notify_on, slot, queued) == (&other.notify_on, &other.slot, &other.queued)
            && (is_named_by_tmux, is_linked) == (&other.is_named_by_tmux, &other.is_linked);
        if !is_same {
            Difference::Otherwise
        } else if (bell, bell_count) == (&other.bell, &other.bell_count) {
            Difference::Cosmetic
        } else {
            Difference::InBells
        }
    }

    /// Whether the run continues, as far as is known.
    pub fn is_alive(&self) -> bool {
        match self.life {
            Life::Unknown | Life::Alive => true,
            Life::Dead(_) => false,
        }
    }

    /// Whether `prune` may remove its window: its run has ended, and it is neither a shell nor a window
    /// of another session, whose last output its user may want to keep.
    pub fn is_prunable(&self) -> bool {
        !self.is_alive() && !self.shell && !self.is_linked
    }

    /// Returns how the run ended; `None` while it continues.
    pub fn exit(&self) -> Option<&Exit> {
        match &self.life {
            Life::Unknown | Life::Alive => None,
            Life::Dead(exit) => Some(exit),
        }
    }

    /// Returns how the run ended, for words; unknown also while it continues.
    pub fn run_end(&self) -> RunEnd<'_> {
        self.exit().map_or(RunEnd::Unknown, Exit::end)
    }

    /// Returns [`Exit::hint`] of a run that has ended.
    pub fn exit_hint(&self) -> Option<&'static str> {
        self.exit().and_then(Exit::hint)
    }

    /// Whether a program of it is stopped because it wants the terminal from the background.
    pub fn is_stopped_in_background(&self) -> bool {
        self.stopped.is_some_and(Stop::is_in_background)
    }

    /// Whether `self` is a later run of the same window than `before`.
    ///
    /// Counted runs are compared by number. Without numbers on both sides, the only sign of a new
    /// run is a live process where a dead one was.
    pub fn is_new_run_after(&self, before: &Self) -> bool {
        match (before.run, self.run) {
            (Some(before), Some(after)) => before != after,
            (None, _) | (_, None) => !before.is_alive() && self.is_alive(),
        }
    }
}

/// Whether a run continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// The window exists but the state of its pane is not known. Counts as alive.
    Unknown,
    /// The process runs.
    Alive,
    /// The process ended.
    Dead(Exit),
}

/// How a run ended. Both fields are `None` when neither tmux nor the kernel knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal that ended the process.
    pub signal: Option<Signal>,
    /// Whether the run was killed while a command of ours was ending it. Only the session knows.
    pub by_us: bool,
}

impl Exit {
    /// Returns the exit of a process that returned this code.
    pub fn with_code(code: i32) -> Self {
        Self {
            code: Some(code),
            ..Self::default()
        }
    }

    /// Returns the exit of a process that this signal has ended.
    pub fn with_signal(signal: Option<Signal>) -> Self {
        Self {
            signal,
            ..Self::default()
        }
    }

    /// Returns it for words.
    pub fn end(&self) -> RunEnd<'_> {
        RunEnd::of(self.signal.as_ref().map(Signal::name), self.code)
    }

    /// Returns what may have killed the run; `None` if it was not killed, or by us.
    pub fn hint(&self) -> Option<&'static str> {
        self.end().kill_hint().filter(|_| !self.by_us)
    }

    /// Whether anything is known of how the run ended.
    pub fn is_known(&self) -> bool {
        self.code.is_some() || self.signal.is_some()
    }
}

/// How many of a task's last lines are quoted to a user or an agent.
pub const QUOTED_LINES: usize = 3;
/// The maximum length of a quoted line, in characters.
pub const QUOTED_CHARS: usize = 500;

/// The last rows of a pane's history and screen, wrapped as on the screen.
#[derive(Debug, Clone, Default, Eq)]
pub struct Screen {
    /// Sanitised text, one string per row, without trailing blanks.
    ///
    /// Shared, because a look contains the rows of every task and few of them have changed.
    pub rows: Arc<[String]>,
    /// The cursor position; `None` where it is not known.
    pub cursor: Option<CursorPosition>,
    /// Whether a full-screen program uses the alternate screen; `None` where it is not known.
    pub alternate: Option<bool>,
    /// The index in [`Screen::rows`] of the first row that is not history; `None` where it is not known.
    /// Not compared.
    pub top: Option<u32>,
    /// How many cells a row has; `None` where it is not known. Not compared: it says how the rows
    /// are to be read.
    pub width: Option<u32>,
    /// The last [`QUOTED_LINES`] lines that have text, as they are quoted, with wrapped rows joined;
    /// `None` where they are the last rows. Not compared: they follow from what was printed, as the
    /// rows do.
    pub last_lines: Option<Arc<[String]>>,
    /// Whether the program has hidden the cursor.
    pub is_cursor_hidden: bool,
    /// Where the program draws a cursor of its own, while the terminal's is hidden.
    pub drawn_cursor: Option<CursorPosition>,
}

/// A position on a [`Screen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorPosition {
    /// Column, from 0.
    pub x: u32,
    /// Row within [`Screen::rows`], from 0.
    pub y: u32,
}

impl PartialEq for Screen {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            rows: _,
            cursor,
            alternate,
            top: _,
            width: _,
            last_lines: _,
            is_cursor_hidden,
            drawn_cursor,
        } = self;
        (cursor, alternate, is_cursor_hidden, drawn_cursor)
            == (
                &other.cursor,
                &other.alternate,
                &other.is_cursor_hidden,
                &other.drawn_cursor,
            )
            && self.has_rows_of(other)
    }
}

impl Screen {
    /// Whether the rows are equal. Rows that are shared are not compared one by one.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows) || self.rows == other.rows
    }

    /// Returns the screen with this text in a row.
    ///
    /// # Panics
    ///
    /// When it has no such row.
    pub fn with_row(&self, row: usize, text: &str) -> Self {
        let mut rows = self.rows.to_vec();
        text.clone_into(&mut rows[row]);
        Self {
            rows: rows.into(),
            ..self.clone()
        }
    }

    /// Returns the index of the first row that is not history; 0 where it is not known.
    pub fn first_visible(&self) -> usize {
        let top = self.top.and_then(|top| usize::try_from(top).ok());
        top.unwrap_or(0).min(self.rows.len())
    }

    /// Returns the screen with blank rows in place of its history.
    pub fn without_history(&self) -> Self {
        let top = self.first_visible();
        if self.rows[..top].iter().all(String::is_empty) {
            return self.clone();
        }
        let blank = std::iter::repeat_n(String::new(), top);
        Self {
            rows: blank.chain(self.rows[top..].iter().cloned()).collect(),
            ..self.clone()
        }
    }

    /// Returns the last lines that have text, as they are quoted: at most [`QUOTED_LINES`], with wrapped
    /// rows joined.
    pub fn last_lines(&self) -> Vec<String> {
        if let Some(lines) = &self.last_lines {
            return lines.to_vec();
        }
        let rows = self.rows.iter().rev().map(|row| row.trim_end());
        let rows = rows.filter(|row| !row.is_empty()).take(QUOTED_LINES);
        let mut lines: Vec<String> = rows.map(|row| text::bounded(row, QUOTED_CHARS)).collect();
        lines.reverse();
        lines
    }
}

/// How much two looks, or two looks at one task, differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// At most in what changes all the time: the time of the look, the text on the screens, and the
    /// evidence on the terminals.
    Cosmetic,
    /// In bell counts or flags as well.
    InBells,
    /// In anything else.
    Otherwise,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole_or_the_last_rows_that_have_text() {
        let screen = Screen {
            rows: ["a", "", "b", "  ", "c  ", "d", ""]
                .map(String::from)
                .into(),
            ..Screen::default()
        };
        assert_eq!(screen.last_lines(), ["b", "c", "d"]);
        let wrapped = Screen {
            last_lines: Some(["b", "cd"].map(String::from).into()),
            ..screen
        };
        assert_eq!(wrapped.last_lines(), ["b", "cd"]);
        let long = Screen {
            rows: ["x".repeat(501)].into(),
            ..Screen::default()
        };
        assert_eq!(long.last_lines(), ["x".repeat(499) + "…"]);
    }
}

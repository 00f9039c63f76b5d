//! One task: a window of the task session, told by its primary pane.

use std::fmt;
use std::sync::Arc;

use super::{Difference, Millis, PaneId, WindowId};

/// What was observed of one task at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The identity: the name may change, this does not.
    pub window: WindowId,
    /// The window's name, proven text.
    pub name: String,
    /// The window's pane with the lowest id; `None` when nothing is known of its panes.
    pub pane: Option<PaneId>,
    /// The process tmux started in the pane; `None` when tmux no longer tells.
    pub pid: Option<u32>,
    /// Whether the run is going on.
    pub life: Life,
    /// The recorded command, or the best stand-in that tmux has for it.
    pub command: Option<String>,
    /// Where the command was started, an absolute path.
    pub cwd: Option<String>,
    /// tmux's bell flag of the window.
    pub bell: bool,
    /// How often the window rang since counting began; `None` without a counter.
    pub bell_count: Option<u64>,
    /// Which life of this window it is, from 1; `None` where nobody counted.
    pub run: Option<u32>,
    /// Who asked for the run, `CLIENT:ID` of a conversation; `None` for a person at a terminal.
    pub owner: Option<String>,
    /// Whether the window was opened without a command and no launcher has marked it: a shell that
    /// a person or a program types into.
    pub shell: bool,
    /// When the run began.
    pub started_at: Option<Millis>,
    /// When the run ended.
    pub ended_at: Option<Millis>,
    /// The last rows of the pane.
    pub screen: Screen,
}

impl Task {
    /// Returns how far another look at it differs from this one.
    #[must_use]
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
            started_at,
            ended_at,
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
            && (owner, shell) == (&other.owner, &other.shell);
        if !is_same {
            Difference::Otherwise
        } else if (bell, bell_count) == (&other.bell, &other.bell_count) {
            Difference::InPassing
        } else {
            Difference::InBells
        }
    }

    /// Whether the run is going on, as far as anyone knows.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        match self.life {
            Life::Unknown | Life::Alive => true,
            Life::Dead(_) => false,
        }
    }

    /// Returns how the run ended; `None` while it goes on.
    #[must_use]
    pub fn exit(&self) -> Option<&Exit> {
        match &self.life {
            Life::Unknown | Life::Alive => None,
            Life::Dead(exit) => Some(exit),
        }
    }

    /// Whether `self` is a later run of the same window than `before`.
    ///
    /// Counted runs are compared by their numbers. Without numbers on both sides the only sign
    /// of a new run is life after death.
    #[must_use]
    pub fn is_new_run_after(&self, before: &Self) -> bool {
        match (before.run, self.run) {
            (Some(before), Some(after)) => before != after,
            (None, _) | (_, None) => !before.is_alive() && self.is_alive(),
        }
    }
}

/// Whether a run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// The window is there but its pane's state is not known; counts as alive.
    Unknown,
    /// The process runs.
    Alive,
    /// The process ended.
    Dead(Exit),
}

/// How a run ended. Both are `None` when neither tmux nor the kernel knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal that ended the process.
    pub signal: Option<Signal>,
}

impl Exit {
    /// Returns the exit of a process that ended by itself.
    #[must_use]
    pub fn with_code(code: i32) -> Self {
        Self {
            code: Some(code),
            signal: None,
        }
    }

    /// Whether anything is known of how the run ended.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.code.is_some() || self.signal.is_some()
    }
}

/// A signal by its full name, `SIGKILL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal(String);

/// Linux's numbers for the signals every system has; the others are told by number.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

impl Signal {
    /// Returns the signal with this number on Linux.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match SIGNALS.get(usize::from(number).wrapping_sub(1)) {
            Some(name) => Self(format!("SIG{name}")),
            None => Self(format!("SIG{number}")),
        }
    }

    /// Reads a number (`9`) or a name with or without `SIG`, in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse() {
            return (number != 0).then(|| Self::from_number(number));
        }
        let name = text.to_ascii_uppercase();
        let name = name.strip_prefix("SIG").unwrap_or(&name);
        let plausible = !name.is_empty()
            && name.len() <= 16
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'-');
        plausible.then(|| Self(format!("SIG{name}")))
    }

    /// Returns the name, `SIGKILL`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the number on Linux, for exit codes of 128 and more.
    #[must_use]
    pub fn number(&self) -> Option<u8> {
        let name = self.0.strip_prefix("SIG")?;
        let by_name = SIGNALS.iter().position(|known| *known == name);
        by_name
            .and_then(|index| u8::try_from(index + 1).ok())
            .or_else(|| name.parse().ok())
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The last rows of a pane's history and screen, as wrapped there.
#[derive(Debug, Clone, Default, Eq)]
pub struct Screen {
    /// Proven text, one string a row, without trailing blanks.
    ///
    /// Shared, for a look shows the rows of every task and few of them have changed.
    pub rows: Arc<[String]>,
    /// Where the cursor stands; `None` when nobody told.
    pub cursor: Option<Cursor>,
    /// Whether a full-screen program has the alternate screen; `None` when nobody told.
    pub alternate: Option<bool>,
}

/// A place on a [`Screen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
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
        } = self;
        (cursor, alternate) == (&other.cursor, &other.alternate) && self.has_rows_of(other)
    }
}

impl Screen {
    /// Whether the rows are the same; those that are shared are not compared one by one.
    #[must_use]
    pub fn has_rows_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows) || self.rows == other.rows
    }

    /// Returns the last `n` rows that are not blank, in their order.
    #[must_use]
    pub fn last_text_rows(&self, n: usize) -> Vec<&str> {
        let mut rows: Vec<&str> = self
            .rows
            .iter()
            .rev()
            .map(|row| row.trim_end())
            .filter(|row| !row.is_empty())
            .take(n)
            .collect();
        rows.reverse();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_by_number_and_name_are_the_same() {
        for text in ["9", "KILL", "SIGKILL", "sigkill"] {
            assert_eq!(
                Signal::parse(text).map(|s| s.to_string()).as_deref(),
                Some("SIGKILL")
            );
        }
        assert_eq!(Signal::from_number(15).number(), Some(15));
        assert_eq!(Signal::from_number(34).name(), "SIG34");
        assert_eq!(Signal::from_number(34).number(), Some(34));
        assert_eq!(Signal::parse("0"), None);
        assert_eq!(Signal::parse(""), None);
        assert_eq!(Signal::parse("rm -rf"), None);
    }

    #[test]
    fn last_text_rows_skip_blanks_and_keep_their_order() {
        let screen = Screen {
            rows: ["a", "", "b", "  ", "c  ", "d", ""]
                .map(String::from)
                .into(),
            ..Screen::default()
        };
        assert_eq!(screen.last_text_rows(3), ["b", "c", "d"]);
        assert_eq!(screen.last_text_rows(9), ["a", "b", "c", "d"]);
    }
}

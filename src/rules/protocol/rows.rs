//! The rows that one look at a session returns, as tmux reports them. Nothing is judged here.

use std::sync::Arc;

use crate::model::*;

/// Everything that one atomic look returned of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookRows {
    /// The server's clock, in seconds since 1970.
    pub time: i64,
    /// The session itself.
    pub session: SessionRow,
    /// Its windows by id, each once, also when it is linked twice. Those that were not queried are of an
    /// earlier look. Shared, because few of them change between looks.
    pub windows: Vec<Arc<WindowRow>>,
    /// The deaths that the server recorded since the record was last cleared, in order.
    pub deaths: Vec<Death>,
    /// The record itself, needed to clear exactly what was read.
    pub death_record: String,
}

/// A window without output for this many seconds is quiet. tmux counts whole seconds, so that it is
/// quiet for at least one second.
const QUIET_SECS: i64 = 2;

impl LookRows {
    /// Returns the windows' primary panes, each with whether its window is quiet.
    pub fn quietness(&self) -> impl Iterator<Item = (PaneId, bool)> {
        let windows = self.windows.iter();
        windows.filter_map(|window| {
            let is_quiet = window.activity + QUIET_SECS <= self.time;
            Some((window.pane.as_ref()?.pane, is_quiet))
        })
    }

    /// Returns the pids of the windows' primary panes.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.windows
            .iter()
            .filter_map(|window| window.pane.as_ref()?.pid)
    }
}

/// The session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The life of the session.
    pub life: SessionLife,
    /// Its name, sanitised text.
    pub name: String,
    /// `@tmux_task_root`.
    pub root: Option<String>,
    /// `@tmux_task_title`.
    pub title: Option<String>,
    /// How many windows it has. A window that is linked twice counts twice.
    pub n_windows: usize,
}

/// One window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowRow {
    /// Its id.
    pub window: WindowId,
    /// Its name, sanitised text.
    pub name: String,
    /// tmux's bell flag.
    pub bell: bool,
    /// The sum of its bell counters; `None` without any.
    pub bell_count: Option<u64>,
    /// When it last had output, in seconds since 1970.
    pub activity: i64,
    /// `@tmux_task_run`.
    pub run: Option<u32>,
    /// `@tmux_task_started`.
    pub started: Option<Millis>,
    /// `@tmux_task_replaced`: the pid of the live run that our launcher replaced last.
    pub replaced: Option<u32>,
    /// `@tmux_task_owner`, sanitised text.
    pub owner: Option<String>,
    /// How its runs are treated, as its last launch has said.
    pub settings: TaskSettings,
    /// Why the pane's run is being ended.
    pub ending: Option<GoneReason>,
    /// Who asked for that from another machine, sanitised text.
    pub asked_by: Option<String>,
    /// Whether the pane is a user's: it was opened without a command, so that a shell runs in it, or is
    /// not the pane that a launcher has started in the window.
    pub is_bare: bool,
    /// Whether tmux names the window after what runs in it: nobody has named it.
    pub is_named_by_tmux: bool,
    /// Whether it is linked into a session outside the group of this one.
    pub is_linked: bool,
    /// Whether a launch is still in progress in it, so that it is not a task yet.
    pub is_launching: bool,
    /// The recorded command, sanitised text.
    pub command: Option<String>,
    /// The recorded directory, sanitised text.
    pub cwd: Option<String>,
    /// The primary pane: the one with the lowest id that does not float.
    pub pane: Option<PaneRow>,
}

impl WindowRow {
    /// Returns the row of a window without a name, a task and a pane.
    #[must_use]
    pub fn new(window: WindowId) -> Self {
        Self {
            window,
            ..Self::default()
        }
    }
}

/// A window's primary pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneRow {
    /// Its id.
    pub pane: PaneId,
    /// The process that tmux started in it. Newer versions of tmux forget it when it has ended.
    pub pid: Option<u32>,
    /// `None` while the process runs.
    pub dead: Option<DeadPane>,
    /// Its terminal, `/dev/pts/4`.
    pub tty: Option<String>,
    /// Its title, sanitised text.
    pub title: String,
    /// The command in its foreground. Queried only where no command is recorded.
    pub current_command: Option<String>,
    /// Whether it is in copy mode or another mode of tmux.
    pub in_mode: bool,
    /// Its last rows.
    pub screen: Screen,
}

/// What tmux knows of a dead pane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadPane {
    /// How the process ended; empty until tmux has collected the status.
    pub exit: Exit,
    /// When, in seconds since 1970; never on tmux 3.2.
    pub time: Option<i64>,
}

/// One entry of the death record that a hook keeps inside the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// The window.
    pub window: WindowId,
    /// The pane.
    pub pane: PaneId,
    /// The process that ended. tmux 3.8 has forgotten it by then.
    pub pid: Option<u32>,
    /// How it ended.
    pub exit: Exit,
    /// When it ended, in seconds since 1970.
    pub time: Option<i64>,
    /// Its number among the deaths of its session, from 1.
    pub number: Option<u64>,
    /// The name of its terminal, without the folder. A process that replaces a live one has another
    /// terminal.
    pub terminal: Option<String>,
    /// The window's name; `None` when it contains characters other than letters, digits and `._-`.
    pub name: Option<String>,
    /// `@tmux_task_run` at that time.
    pub run: Option<u32>,
    /// `@tmux_task_owner` at that time.
    pub owner: Option<String>,
    /// The panes that the window had, including this one; empty when they were not recorded.
    pub panes: Vec<PaneId>,
    /// Whether the pane was opened without a command, in a window that no launcher has marked.
    pub is_shell: bool,
}

impl Death {
    /// Parses the record: `WINDOW PANE PID STATUS SIGNAL TIME NUMBER TERMINAL NAME RUN OWNER PANES
    /// KIND;` for each death. All fields from NUMBER on may be missing, and fields of a later
    /// version may follow. An entry cut off by the record's size limit is skipped.
    pub fn parse_record(record: &str) -> Vec<Self> {
        record.split(';').filter_map(Self::parse).collect()
    }

    fn parse(entry: &str) -> Option<Self> {
        let mut fields = entry.split(' ');
        let mut next = || fields.next();
        let death = Self {
            window: next()?.parse().ok()?,
            pane: next()?.parse().ok()?,
            pid: match next()? {
                "" => None,
                pid => Some(pid.parse().ok()?),
            },
            exit: Exit {
                code: next()?.parse().ok(),
                signal: next().and_then(Signal::parse),
                by_us: false,
            },
            time: next().and_then(|time| time.parse().ok()),
            number: next().and_then(|number| number.parse().ok()),
            terminal: next().and_then(some_text),
            name: next().and_then(some_text),
            run: next().and_then(|run| run.parse().ok()),
            owner: next().and_then(some_text),
            panes: {
                let panes = next().unwrap_or_default().split('.');
                panes.filter_map(|pane| pane.parse().ok()).collect()
            },
            is_shell: next() == Some("shell"),
        };
        Some(death)
    }
}

fn some_text(field: &str) -> Option<String> {
    (!field.is_empty()).then(|| field.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_deaths_is_read_in_order() {
        // A death may have a number and no process.
        let record = "2 %1 9142 4  17;@1 %1 9142 4  17;@1 %2 9147  9 18;@1 %2 9  ;\
                      @1 %1  4  17 8 12;@1 %1 x 4  17 9 12;@1 %1 7 4  17 10 s001;@1 %1  0    ;";
        let deaths = Death::parse_record(record);
        let found = deaths.iter().map(|death| {
            let (exit, terminal) = (&death.exit, death.terminal.as_deref());
            let (time, signal) = (death.time, exit.signal.as_ref().map(Signal::name));
            (death.pid, exit.code, signal, time, death.number, terminal)
        });
        let expected = [
            (Some(9142), Some(4), None, Some(17), None, None),
            (Some(9147), None, Some("SIGKILL"), Some(18), None, None),
            (Some(9), None, None, None, None, None),
            (None, Some(4), None, Some(17), Some(8), Some("12")),
            (Some(7), Some(4), None, Some(17), Some(10), Some("s001")),
            (None, Some(0), None, None, None, None),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    proptest::proptest! {
        #[test]
        fn any_record_is_read(record: String) {
            let deaths = Death::parse_record(&record);
            proptest::prop_assert!(deaths.len() <= record.len());
        }
    }
}

//! Tasks for other programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{
    CursorPosition, Exit, Life, Millis, NotifyOn, PaneId, Progress, QUOTED_CHARS, QUOTED_LINES,
    RunEnd, Screen, Signal, Slot, Stop, StopSettings, Task, TaskRestarts, WindowId, text,
};

use super::reason::Reason;

/// The maximum number of rows of a preview; a full-screen program's screen may have
/// [`ALTERNATE_ROWS`].
const PREVIEW_ROWS: usize = 20;
/// The maximum number of rows of a preview of the alternate screen.
const ALTERNATE_ROWS: usize = 50;
/// The maximum size of a preview, in bytes.
const PREVIEW_BYTES: usize = 4096;
/// The maximum length of a window name, in characters.
const NAME_CHARS: usize = 200;
/// The maximum length of an owner, in characters.
pub(super) const OWNER_CHARS: usize = 200;
/// The maximum length of a command, in characters.
const COMMAND_CHARS: usize = 1000;
/// The maximum length of a directory, in characters.
const CWD_CHARS: usize = 4096;

/// A task: a window of the task session, represented by its primary pane. Unknown values are null.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the wire's fields are independent facts, each with a name of its own"
)]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskFields {
    /// tmux's id of the window, `@12`. It identifies the task.
    pub window_id: String,
    /// The window's name, a label.
    pub window_name: String,
    /// tmux's id of the primary pane, `%15`.
    pub pane_id: Option<String>,
    /// The process that tmux started in it.
    pub pane_pid: Option<u32>,
    /// Whether the state of the pane is known. If not, the task counts as alive.
    pub pane_state_known: bool,
    /// The command, as recorded by the launcher or as reported by tmux.
    pub current_command: Option<String>,
    /// Where the command was started.
    pub task_cwd: Option<String>,
    /// Whether the run has ended.
    pub dead: bool,
    /// The exit code, if the run ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the run, `SIGKILL`.
    pub exit_signal: Option<String>,
    /// What may have killed the run, for a user. Absent: it was not killed, or by tmux-task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub exit_hint: Option<String>,
    /// tmux's bell flag of the window.
    pub bell: bool,
    /// How many times the window rang since counting began.
    pub bell_count: Option<u64>,
    /// The number of this run of the window, from 1.
    pub run: Option<u32>,
    /// The owner: `CLIENT:ID` of a conversation; null for a user at a terminal.
    pub owner: Option<String>,
    /// Whether it is a shell: a window that was opened without a command. Its events are delivered
    /// as notices, unless the configuration says otherwise.
    pub shell: bool,
    /// When the run began, in milliseconds since 1970.
    pub started_at: Option<Millis>,
    /// When the run ended, in milliseconds since 1970.
    pub ended_at: Option<Millis>,
    /// How long the run took, in milliseconds.
    pub duration_ms: Option<Millis>,
    /// When it is run again by itself. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaskRestarts")]
    pub restarts: Option<TaskRestarts>,
    /// How it is ended, as far as its launch has said. Absent: nothing was said.
    #[serde(skip_serializing_if = "StopSettings::is_unset")]
    pub stop: StopSettings,
    /// The texts that its owner is notified of when a line of the output contains one. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NotifyOn")]
    pub notify_on: Option<NotifyOn>,
    /// The slot in which it runs. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Slot")]
    pub slot: Option<Slot>,
    /// Whether it waits for a place in its slot, and has not begun. Absent: it does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(with = "bool")]
    pub queued: bool,
    /// Why its run is being ended, from the stop signal until the window is gone. Absent: it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Reason")]
    pub ending: Option<Reason>,
    /// Whether a program of it is stopped and none takes input: by job control (Ctrl-Z, `SIGSTOP`),
    /// or because it wants the terminal from the background, which is also told as `input`. False
    /// where that is not known.
    #[serde(deserialize_with = "known")]
    pub stopped: bool,
    /// The TCP ports that its processes listen on. Absent: they were not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<u32>")]
    pub ports: Option<Vec<u16>>,
    /// How far its program says it is (OSC 9;4), while it lives and where tmux keeps that (3.7 and newer).
    /// Absent: it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Progress")]
    pub progress: Option<Progress>,
    /// The last rows of history and screen, wrapped as on the screen; untrusted text without
    /// control characters.
    pub output_preview: String,
    /// The last lines that have text, at most three, with wrapped rows joined; `…` marks where one of more
    /// than 500 characters is cut. Absent: they are the last rows of `outputPreview`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub last_lines: Vec<String>,
    /// The cursor's column, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    #[serde(deserialize_with = "place")]
    pub cursor_x: Option<u32>,
    /// The cursor's row within `outputPreview`, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    #[serde(deserialize_with = "place")]
    pub cursor_y: Option<u32>,
    /// Whether a full-screen program uses the alternate screen.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub alternate_on: Option<bool>,
}

/// Reads a fact. Null means that it is not known.
fn known<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let known: Option<bool> = Option::deserialize(deserializer)?;
    Ok(known.unwrap_or_default())
}

/// Reads the cursor's column or row. A position outside of the preview counts as unknown.
fn place<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let place: Option<i64> = Option::deserialize(deserializer)?;
    Ok(place.and_then(|place| u32::try_from(place).ok()))
}

impl From<&Task> for TaskFields {
    fn from(task: &Task) -> Self {
        let screen = bounded_screen(&task.screen);
        let mut last_lines = task.screen.last_lines();
        if last_lines == screen.last_lines() {
            last_lines.clear();
        }
        let exit = task.exit().cloned().unwrap_or_default();
        let bounded = |text: &String, max| text::one_line(text.as_bytes(), max);
        Self {
            window_id: task.window.to_string(),
            window_name: bounded(&task.name, NAME_CHARS),
            pane_id: task.pane.map(|pane| pane.to_string()),
            pane_pid: task.pid,
            pane_state_known: task.life != Life::Unknown,
            current_command: task
                .command
                .as_ref()
                .map(|text| bounded(text, COMMAND_CHARS)),
            task_cwd: task.cwd.as_ref().map(|text| bounded(text, CWD_CHARS)),
            dead: !task.is_alive(),
            exit_code: exit.code,
            exit_hint: exit.hint().map(str::to_owned),
            exit_signal: exit.signal.map(|signal| signal.to_string()),
            bell: task.bell,
            bell_count: task.bell_count,
            run: task.run,
            owner: task.owner.as_ref().map(|text| bounded(text, OWNER_CHARS)),
            shell: task.shell,
            started_at: task.started_at,
            ended_at: task.ended_at,
            duration_ms: task
                .started_at
                .zip(task.ended_at)
                .map(|(from, to)| to.saturating_sub(from).max(0)),
            restarts: task.restarts.clone(),
            stop: task.stop.clone(),
            notify_on: task.notify_on.clone(),
            slot: task.slot.clone(),
            queued: task.queued,
            ending: task.ending.map(Reason::from),
            stopped: task.stopped.is_some(),
            ports: None,
            progress: task.progress,
            output_preview: screen.rows.join("\n"),
            last_lines,
            cursor_x: screen.cursor.map(|cursor| cursor.x),
            cursor_y: screen.cursor.map(|cursor| cursor.y),
            alternate_on: screen.alternate,
        }
    }
}

/// Returns the last rows that fit into a preview, with the cursor adjusted. Where the cursor is too far
/// above the last row, the preview ends some rows below the cursor's, or with it.
fn bounded_screen(screen: &Screen) -> Screen {
    let most = if screen.alternate == Some(true) {
        ALTERNATE_ROWS
    } else {
        PREVIEW_ROWS
    };
    let rows = &screen.rows[..];
    let fitting = |end: usize| {
        let mut bytes = 0;
        let fits = rows[..end].iter().rev().take(most).take_while(|row| {
            bytes += row.len() + 1;
            bytes <= PREVIEW_BYTES + 1
        });
        end - fits.count()..end
    };
    let with_cursor = screen.cursor.and_then(|cursor| {
        let row = usize::try_from(cursor.y).ok()?;
        let below = rows.get(row + 1..)?;
        let ends = [below.len(), most / 2, 0].map(|n| {
            let below = &below[..n.min(below.len())];
            let is_text = |row: &String| !row.trim().is_empty();
            row + 1 + below.iter().rposition(is_text).map_or(0, |last| last + 1)
        });
        let mut windows = ends.into_iter().map(fitting);
        windows.find(|window| window.contains(&row))
    });
    let window = with_cursor.unwrap_or_else(|| fitting(rows.len()));
    let cursor = screen.cursor.and_then(|cursor| {
        Some(CursorPosition {
            x: cursor.x,
            y: cursor.y.checked_sub(u32::try_from(window.start).ok()?)?,
        })
    });
    if let (true, Some(last)) = (window.is_empty(), rows.last()) {
        // One row that is longer than a whole preview: its end was written last.
        let start = last.ceil_char_boundary(last.len().saturating_sub(PREVIEW_BYTES));
        return Screen {
            rows: [last[start..].to_owned()].into(),
            cursor: None,
            last_lines: None,
            ..screen.clone()
        };
    }
    Screen {
        rows: rows[window].into(),
        cursor,
        last_lines: None,
        ..screen.clone()
    }
}

impl TaskFields {
    /// Returns the last line that has text; empty if there is none.
    pub fn last_line(&self) -> &str {
        let mut rows = self.output_preview.lines().rev();
        let last = self.last_lines.last().map(String::as_str);
        last.or_else(|| rows.find(|row| !row.trim().is_empty()))
            .unwrap_or_default()
    }

    /// Returns how the run ended, for words; unknown also while it continues.
    pub fn run_end(&self) -> RunEnd<'_> {
        RunEnd::of(self.exit_signal.as_deref(), self.exit_code)
    }

    /// Returns how the run ended in words that follow the task's name, with the hint if there is one.
    pub fn end_words(&self) -> String {
        self.run_end().words_with(self.exit_hint.as_deref())
    }

    /// Returns the task with every text sanitised; an error names the field that cannot be read.
    pub fn to_task(&self) -> Result<Task, String> {
        let window: WindowId = self
            .window_id
            .parse()
            .map_err(|error| format!("windowId: {error}"))?;
        let pane: Option<PaneId> = self
            .pane_id
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|error| format!("paneId: {error}"))?;
        let signal = match &self.exit_signal {
            None => None,
            Some(name) => {
                Some(Signal::parse(name).ok_or_else(|| format!("exitSignal: no signal `{name}`"))?)
            }
        };
        let life = match (self.pane_state_known, self.dead) {
            (false, _) => Life::Unknown,
            (true, false) => Life::Alive,
            (true, true) => Life::Dead(Exit {
                code: self.exit_code,
                signal,
                // Who has killed a run of an older version is not known.
                by_us: self.exit_hint.is_none() && self.run_end().kill_hint().is_some(),
            }),
        };
        let proven = |text: &String, max| text::one_line(text.as_bytes(), max);
        let rows = if self.output_preview.is_empty() {
            Vec::new()
        } else {
            self.output_preview
                .split('\n')
                .map(|row| text::row(row.as_bytes()))
                .collect()
        };
        let last_lines = self.last_lines.iter().take(QUOTED_LINES);
        let last_lines =
            last_lines.map(|line| text::bounded(&text::row(line.as_bytes()), QUOTED_CHARS));
        Ok(Task {
            window,
            name: proven(&self.window_name, NAME_CHARS),
            pane,
            pid: self.pane_pid,
            life,
            command: self
                .current_command
                .as_ref()
                .map(|text| proven(text, COMMAND_CHARS)),
            cwd: self.task_cwd.as_ref().map(|text| proven(text, CWD_CHARS)),
            bell: self.bell,
            bell_count: self.bell_count,
            run: self.run,
            owner: self
                .owner
                .as_ref()
                .map(|text| proven(text, OWNER_CHARS))
                .filter(|owner| !owner.is_empty()),
            shell: self.shell,
            // Names are looked up where tmux is.
            is_named_by_tmux: false,
            is_linked: false,
            started_at: self.started_at,
            ended_at: self.ended_at,
            restarts: self.restarts.clone(),
            stop: self.stop.clone(),
            notify_on: self.notify_on.clone(),
            slot: self.slot.clone(),
            queued: self.queued,
            ending: self.ending.and_then(|reason| reason.gone(None)),
            asked_by: None,
            // Only such a task is told to wait for input.
            stopped: self.stopped.then_some(Stop::BackgroundRead),
            progress: self.progress,
            screen: Screen {
                rows: rows.into(),
                cursor: self
                    .cursor_x
                    .zip(self.cursor_y)
                    .map(|(x, y)| CursorPosition { x, y }),
                alternate: self.alternate_on,
                top: None,
                width: None,
                last_lines: (!self.last_lines.is_empty()).then(|| last_lines.collect()),
                ..Screen::default()
            },
        })
    }
}

//! One task: a window of the task session, represented by its primary pane.

use schemars::{JsonSchema, Schema};
use serde::de::{Deserializer, Error as _};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};

use super::{GoneReason, Millis, PaneId, Screen, Signal, Stop, TaskSettings, WindowId, text};

/// The maximum length of a window's name, in characters.
const NAME_CHARS: usize = 200;
/// The maximum length of an owner, in characters.
pub const OWNER_CHARS: usize = 200;
/// The maximum length of a command, in characters.
const COMMAND_CHARS: usize = 1000;
/// The maximum length of a directory, in characters.
const CWD_CHARS: usize = 4096;

/// A task: a window of the task session, represented by its primary pane. Unknown values are null.
// What was observed of it at one instant. Programs get it as it is serialised below.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskFields", transform = with_duration)]
pub struct Task {
    /// tmux's id of the window, `@12`. It identifies the task.
    #[serde(rename = "windowId", deserialize_with = "window_id")]
    #[schemars(with = "String", default = "String::new")]
    pub window: WindowId,
    /// The window's name, a label.
    #[serde(
        rename = "windowName",
        default,
        deserialize_with = "line::<_, NAME_CHARS>"
    )]
    pub name: String,
    /// tmux's id of the primary pane, `%15`.
    // The window's pane with the lowest id that does not float.
    #[serde(rename = "paneId", default, deserialize_with = "pane_id")]
    #[schemars(with = "Option<String>")]
    pub pane: Option<PaneId>,
    /// The process that tmux started in it.
    #[serde(rename = "panePid")]
    pub pid: Option<u32>,
    /// Whether the run continues.
    #[serde(flatten)]
    #[schemars(with = "LifeFields")]
    pub life: Life,
    /// The command, as recorded by the launcher or as reported by tmux.
    #[serde(
        rename = "currentCommand",
        default,
        deserialize_with = "optional_line::<_, COMMAND_CHARS>"
    )]
    pub command: Option<String>,
    /// Where the command was started.
    #[serde(
        rename = "taskCwd",
        default,
        deserialize_with = "optional_line::<_, CWD_CHARS>"
    )]
    pub cwd: Option<String>,
    /// tmux's bell flag of the window.
    #[serde(default)]
    pub bell: bool,
    /// How many times the window rang since counting began.
    pub bell_count: Option<u64>,
    /// The number of this run of the window, from 1.
    pub run: Option<u32>,
    /// The owner: `CLIENT:ID` of a conversation; null for a user at a terminal.
    #[serde(default, deserialize_with = "owner")]
    pub owner: Option<String>,
    /// Whether it is a shell: a window that was opened without a command. Its events are delivered
    /// as notices, unless the configuration says otherwise.
    // What a launcher has marked is none.
    #[serde(default)]
    pub shell: bool,
    /// Whether tmux has given the window its name, after the program that runs in it.
    #[serde(skip)]
    pub is_named_by_tmux: bool,
    /// Whether the window is also one of another session, and no launcher has marked it: it belongs
    /// there.
    #[serde(skip)]
    pub is_linked: bool,
    /// When the run began, in milliseconds since 1970.
    pub started_at: Option<Millis>,
    /// When the run ended, in milliseconds since 1970.
    pub ended_at: Option<Millis>,
    /// How its runs are treated, as its launch has said.
    #[serde(flatten)]
    pub settings: TaskSettings,
    /// Whether it waits for a place in its slot, and has not begun. Absent: it does not.
    #[serde(default)]
    #[schemars(skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// Why its run is being ended, from the stop signal until the window is gone. Absent: it is not.
    #[serde(default)]
    #[schemars(with = "GoneReason")]
    pub ending: Option<GoneReason>,
    /// Who asked for that from another machine, `OWNER@MACHINE` or `MACHINE`; in an event, who asked for
    /// what it tells, which the event has itself.
    #[serde(skip)]
    pub asked_by: Option<String>,
    /// Whether a program of it is stopped and none takes input: by job control (Ctrl-Z, `SIGSTOP`),
    /// or because it wants the terminal from the background, which is also told as `input`. False
    /// where that is not known.
    #[serde(default, deserialize_with = "stopped")]
    #[schemars(with = "bool", default = "bool::default")]
    pub stopped: Option<Stop>,
    /// The TCP ports that its processes listen on. Absent: they were not looked for.
    // They are looked for where tasks are shown.
    #[serde(default)]
    #[schemars(with = "Vec<u32>")]
    pub ports: Option<Vec<u16>>,
    /// The last rows of the pane.
    #[serde(flatten)]
    #[schemars(with = "super::screen::Preview")]
    pub screen: Screen,
}

/// How long a run took is said besides, for those who do not calculate.
fn with_duration(schema: &mut Schema) {
    let duration = serde_json::json!({
        "description": "How long the run took, in milliseconds.",
        "format": "int64",
        "type": ["integer", "null"],
    });
    let properties = schema.get_mut("properties");
    if let Some(properties) = properties.and_then(serde_json::Value::as_object_mut) {
        properties.insert("durationMs".to_owned(), duration);
    }
}

impl Serialize for Task {
    /// Writes it with every text bounded. The order of the fields is part of the format, as programs and
    /// people know it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let line = |text: &String, most| text::one_line(text.as_bytes(), most);
        let optional = |text: &Option<String>, most| text.as_ref().map(|text| line(text, most));
        let exit = self.exit();
        let duration = self.started_at.zip(self.ended_at);
        let screen = self.screen.preview();
        let mut last_lines = self.screen.last_lines();
        if last_lines == screen.last_lines() {
            last_lines.clear();
        }
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("windowId", &self.window)?;
        fields.serialize_entry("windowName", &line(&self.name, NAME_CHARS))?;
        fields.serialize_entry("paneId", &self.pane)?;
        fields.serialize_entry("panePid", &self.pid)?;
        fields.serialize_entry("paneStateKnown", &(self.life != Life::Unknown))?;
        let command = optional(&self.command, COMMAND_CHARS);
        fields.serialize_entry("currentCommand", &command)?;
        fields.serialize_entry("taskCwd", &optional(&self.cwd, CWD_CHARS))?;
        fields.serialize_entry("dead", &!self.is_alive())?;
        fields.serialize_entry("exitCode", &exit.and_then(|exit| exit.code))?;
        let signal = exit.and_then(|exit| exit.signal.as_ref());
        fields.serialize_entry("exitSignal", &signal)?;
        if let Some(hint) = self.exit_hint() {
            fields.serialize_entry("exitHint", hint)?;
        }
        fields.serialize_entry("bell", &self.bell)?;
        fields.serialize_entry("bellCount", &self.bell_count)?;
        fields.serialize_entry("run", &self.run)?;
        fields.serialize_entry("owner", &optional(&self.owner, OWNER_CHARS))?;
        fields.serialize_entry("shell", &self.shell)?;
        fields.serialize_entry("startedAt", &self.started_at)?;
        fields.serialize_entry("endedAt", &self.ended_at)?;
        let duration = duration.map(|(from, to)| to.saturating_sub(from).max(0));
        fields.serialize_entry("durationMs", &duration)?;
        self.settings.serialize_into(&mut fields)?;
        if self.queued {
            fields.serialize_entry("queued", &true)?;
        }
        if let Some(reason) = &self.ending {
            fields.serialize_entry("ending", reason)?;
        }
        fields.serialize_entry("stopped", &self.stopped.is_some())?;
        if let Some(ports) = &self.ports {
            fields.serialize_entry("ports", ports)?;
        }
        fields.serialize_entry("outputPreview", &screen.rows.join("\n"))?;
        if !last_lines.is_empty() {
            fields.serialize_entry("lastLines", &last_lines)?;
        }
        if let Some(cursor) = screen.cursor {
            fields.serialize_entry("cursorX", &cursor.x)?;
            fields.serialize_entry("cursorY", &cursor.y)?;
        }
        if let Some(alternate) = screen.alternate {
            fields.serialize_entry("alternateOn", &alternate)?;
        }
        fields.end()
    }
}

fn window_id<'de, D: Deserializer<'de>>(from: D) -> Result<WindowId, D::Error> {
    let id = String::deserialize(from)?.parse();
    id.map_err(|error| D::Error::custom(format!("windowId: {error}")))
}

fn pane_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PaneId>, D::Error> {
    let id = Option::<String>::deserialize(from)?.map(|id| id.parse());
    id.transpose()
        .map_err(|error| D::Error::custom(format!("paneId: {error}")))
}

/// Reads a text as one line, which may come from anywhere.
fn line<'de, D: Deserializer<'de>, const MOST: usize>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    Ok(text::one_line(text.as_bytes(), MOST))
}

fn optional_line<'de, D: Deserializer<'de>, const MOST: usize>(
    from: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.map(|text| text::one_line(text.as_bytes(), MOST)))
}

fn owner<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let owner = optional_line::<_, OWNER_CHARS>(from)?;
    Ok(owner.filter(|owner| !owner.is_empty()))
}

/// Only what wants the terminal from the background is told to wait for input. Null means that nothing
/// is known.
fn stopped<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Stop>, D::Error> {
    let is_stopped = Option::<bool>::deserialize(from)?.unwrap_or_default();
    Ok(is_stopped.then_some(Stop::BackgroundRead))
}

impl Task {
    /// Returns a task of which nothing else is known.
    pub fn new(window: WindowId, name: String) -> Self {
        Self {
            window,
            name,
            ..Self::default()
        }
    }

    /// Returns how much another look at this task differs from this one.
    pub fn difference(&self, other: &Self) -> Difference {
        let with_own = Self {
            bell: self.bell,
            bell_count: self.bell_count,
            ports: self.ports.clone(),
            screen: self.screen.clone(),
            ..other.clone()
        };
        if *self != with_own {
            Difference::Otherwise
        } else if (self.bell, self.bell_count) == (other.bell, other.bell_count) {
            Difference::Cosmetic
        } else {
            Difference::InBells
        }
    }

    /// Whether both are of one group and owner.
    pub(crate) fn is_of_group(&self, other: &Self) -> bool {
        let group = self.settings.group.as_deref();
        group.is_some() && group == other.settings.group.as_deref() && self.owner == other.owner
    }

    /// Whether the run continues, as far as is known.
    pub fn is_alive(&self) -> bool {
        match self.life {
            Life::Unknown | Life::Alive => true,
            Life::Dead(_) => false,
        }
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

    /// Returns the code with which the run ended by itself.
    pub fn exit_code(&self) -> Option<i32> {
        self.exit().and_then(|exit| exit.code)
    }

    /// Returns how the run ended in words that follow the task's name, with the hint if there is one.
    pub fn end_words(&self) -> String {
        self.run_end().words_with(self.exit_hint())
    }

    /// Whether a user who says this means it: its name, or the id of its window.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || name.parse() == Ok(self.window)
    }

    /// Returns the last line that has text; empty if there is none.
    pub fn last_line(&self) -> String {
        self.screen.last_lines().pop().unwrap_or_default()
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
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "LifeFields")]
pub enum Life {
    /// The window exists but the state of its pane is not known. Counts as alive.
    #[default]
    Unknown,
    /// The process runs.
    Alive,
    /// The process ended.
    Dead(Exit),
}

/// [`Life`] as it is read: facts of which any may be missing.
#[derive(Default, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct LifeFields {
    /// Whether the state of the pane is known. If not, the task counts as alive.
    pane_state_known: bool,
    /// Whether the run has ended.
    dead: bool,
    /// The exit code, if the run ended by itself.
    exit_code: Option<i32>,
    /// The signal that ended the run, `SIGKILL`.
    exit_signal: Option<String>,
    /// What may have killed the run, for a user. Absent: it was not killed, or by tmux-task.
    #[schemars(with = "String", default)]
    exit_hint: Option<String>,
}

impl TryFrom<LifeFields> for Life {
    type Error = String;

    fn try_from(fields: LifeFields) -> Result<Self, String> {
        let signal = fields.exit_signal.as_deref().map(|name| {
            Signal::parse(name).ok_or_else(|| format!("exitSignal: no signal `{name}`"))
        });
        let mut exit = Exit {
            code: fields.exit_code,
            signal: signal.transpose()?,
            by_us: false,
        };
        // Who has killed a run of an older version is not known.
        exit.by_us = fields.exit_hint.is_none() && exit.hint().is_some();
        Ok(match (fields.pane_state_known, fields.dead) {
            (false, _) => Self::Unknown,
            (true, false) => Self::Alive,
            (true, true) => Self::Dead(exit),
        })
    }
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

/// What is said about a run that was killed, but not by us.
const KILLED: &str = "killed by SIGKILL (not by tmux-task; out of memory?)";

/// The code of a shell whose program was killed by `SIGKILL`, and of a container.
const KILLED_CODE: i32 = 128 + 9;

/// How a run ended, as far as it is known. A signal counts before a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd<'a> {
    /// A signal ended it: its name, `SIGKILL`.
    Signal(&'a str),
    /// It ended by itself with this code.
    Code(i32),
    /// Neither tmux nor the kernel knows.
    Unknown,
}

impl<'a> RunEnd<'a> {
    /// Returns the end of a run with this signal and this code, where they are known.
    pub fn of(signal: Option<&'a str>, code: Option<i32>) -> Self {
        match (signal, code) {
            (Some(signal), _) => Self::Signal(signal),
            (None, Some(code)) => Self::Code(code),
            (None, None) => Self::Unknown,
        }
    }

    /// Returns what the run did, in words that follow the task's name.
    pub fn words(self) -> String {
        match self {
            Self::Signal(signal) => format!("was killed by {signal}"),
            Self::Code(_) | Self::Unknown => format!("exited with {}", self.cause()),
        }
    }

    /// Returns the hint for it if it is the end of a run that was killed; see
    /// [`Exit::hint`](super::Exit::hint).
    pub fn kill_hint(self) -> Option<&'static str> {
        match self {
            Self::Signal("SIGKILL") | Self::Code(KILLED_CODE) => Some(KILLED),
            Self::Signal(_) | Self::Code(_) | Self::Unknown => None,
        }
    }

    /// Returns [`RunEnd::words`] with the hint, if there is one.
    pub fn words_with(self, hint: Option<&str>) -> String {
        match (self, hint) {
            (Self::Signal(_), Some(hint)) => format!("was {hint}"),
            (Self::Code(_) | Self::Unknown, Some(hint)) => format!("{}: {hint}", self.words()),
            (_, None) => self.words(),
        }
    }

    /// Returns what it ended with: the signal's name or the code.
    pub fn cause(self) -> String {
        match self {
            Self::Signal(signal) => signal.to_owned(),
            Self::Code(code) => format!("code {code}"),
            Self::Unknown => "unknown code".to_owned(),
        }
    }
}

/// A process that listens on a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortHolder {
    /// The port.
    pub port: u16,
    /// Its pid; null where it cannot be seen: it is another user's, or of a container.
    pub pid: Option<u32>,
    /// The name of its program.
    pub program: Option<String>,
    /// The user that it has opened the port as.
    pub uid: u32,
    /// The task that has started it, if one has.
    pub task: Option<String>,
    /// The task session of that task.
    pub session: Option<String>,
}

impl PortHolder {
    /// Returns who has the port, in words.
    pub fn words(&self) -> String {
        let Self { port, uid, .. } = self;
        let Some(pid) = self.pid else {
            return format!(
                "port {port} is held by a process of uid {uid} that cannot be seen here"
            );
        };
        let program = self.program.as_deref().unwrap_or("?");
        let holder = format!("port {port} is held by pid {pid} ({program})");
        match (&self.task, &self.session) {
            (Some(task), Some(session)) => {
                format!("{holder} of task `{task}` in session `{session}`")
            }
            (Some(task), None) => format!("{holder} of task `{task}`"),
            (None, _) => holder,
        }
    }
}

/// Returns ports in words: `3000, 9229`.
pub fn port_words(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    ports.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_before_a_code_and_both_may_be_unknown() {
        for (signal, code, expected) in [
            (Some("SIGKILL"), None, "was killed by SIGKILL, SIGKILL"),
            (Some("SIGKILL"), Some(9), "was killed by SIGKILL, SIGKILL"),
            (None, Some(0), "exited with code 0, code 0"),
            (None, Some(3), "exited with code 3, code 3"),
            (None, None, "exited with unknown code, unknown code"),
        ] {
            let end = RunEnd::of(signal, code);
            assert_eq!(format!("{}, {}", end.words(), end.cause()), expected);
        }
        // A hint follows the words of a run that was killed.
        let hint = "killed by SIGKILL (not by tmux-task; out of memory?)";
        for (signal, code, expected) in [
            (Some("SIGKILL"), None, format!("was {hint}")),
            (None, Some(137), format!("exited with code 137: {hint}")),
            (Some("SIGTERM"), None, "was killed by SIGTERM".to_owned()),
            (None, Some(9), "exited with code 9".to_owned()),
        ] {
            let end = RunEnd::of(signal, code);
            assert_eq!(end.words_with(end.kill_hint()), expected);
        }
    }

    #[test]
    fn a_holder_is_named_as_far_as_it_can_be_seen() {
        let unseen = PortHolder {
            port: 80,
            uid: 33,
            ..PortHolder::default()
        };
        let seen = PortHolder {
            pid: Some(12),
            program: Some("node".to_owned()),
            ..unseen.clone()
        };
        let of_task = PortHolder {
            task: Some("api".to_owned()),
            session: Some("work".to_owned()),
            ..seen.clone()
        };
        let words = [unseen, seen, of_task].map(|holder| holder.words());
        let expected = [
            "port 80 is held by a process of uid 33 that cannot be seen here",
            "port 80 is held by pid 12 (node)",
            "port 80 is held by pid 12 (node) of task `api` in session `work`",
        ];
        assert_eq!(words, expected);
    }
}

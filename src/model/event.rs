//! A semantic change between two snapshots.

use super::Task;

/// A change worth telling, with the task as it was when it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What changed.
    pub kind: EventKind,
    /// The task. For an end: as it was at the end; for a disappearance: as it was last seen.
    pub task: Task,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A task no longer waits for what it was told to wait for. For the feed only.
    InputResolved {
        /// What it had waited for.
        prompt: Prompt,
    },
    /// A new task or a new run of a known one is alive.
    Started {
        /// Whether the window had a run before.
        rerun: bool,
    },
    /// The bell rang.
    Notify {
        /// How often since the look before.
        bells: u64,
    },
    /// A run ended.
    Exited {
        /// Set when a later run put an end to it.
        replaced: Option<ReplacedBy>,
    },
    /// The task waits for a person.
    Input {
        /// What it waits for.
        prompt: Prompt,
    },
    /// A task that was alive is no longer in the session.
    Disappeared {
        /// Why, where somebody knows.
        reason: Option<GoneReason>,
    },
}

/// What a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The line that asks, one line of proven text; empty when the task waits without a word.
    pub text: String,
    /// What sort of answer it wants.
    pub kind: PromptKind,
    /// Whether the answer must not be shown.
    pub secret: bool,
}

/// What sort of answer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PromptKind {
    /// Yes or no.
    Confirm,
    /// A line of text.
    Text,
    /// A line that must not be shown.
    Password,
    /// One of several choices.
    Menu,
    /// A key, to go on.
    Key,
    /// Reading on, or leaving a pager.
    Pager,
    /// Editing, and leaving the editor.
    Editor,
    /// The buttons and fields of a dialog.
    Dialog,
    /// Commands for a debugger.
    Debugger,
}

impl PromptKind {
    /// Every kind, with the word for it.
    pub const NAMES: [(&str, Self); 9] = [
        ("confirm", Self::Confirm),
        ("text", Self::Text),
        ("password", Self::Password),
        ("menu", Self::Menu),
        ("key", Self::Key),
        ("pager", Self::Pager),
        ("editor", Self::Editor),
        ("dialog", Self::Dialog),
        ("debugger", Self::Debugger),
    ];

    /// Returns the word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Text => "text",
            Self::Password => "password",
            Self::Menu => "menu",
            Self::Key => "key",
            Self::Pager => "pager",
            Self::Editor => "editor",
            Self::Dialog => "dialog",
            Self::Debugger => "debugger",
        }
    }
}

/// Who put an end to a live run by starting the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplacedBy {
    /// Our launcher: whoever reran the task knows.
    Launcher,
    /// Somebody else, with `respawn-window -k` for instance.
    Other,
}

/// Why a task is not in the session any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoneReason {
    /// A person ended it with our commands.
    UserKilled,
    /// The agent ended it with our tools.
    AgentKilled,
    /// Its window went to another session.
    Moved,
}

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Good to know.
    Info,
    /// Somebody may have to act.
    Warning,
}

impl Event {
    /// Returns how much this event matters: waiting, vanishing and any end but code 0 are
    /// warnings.
    #[must_use]
    pub fn level(&self) -> Level {
        match self.kind {
            EventKind::Input { .. } | EventKind::Disappeared { .. } => Level::Warning,
            EventKind::Exited { .. } => match self.task.exit().and_then(|exit| exit.code) {
                Some(0) => Level::Info,
                Some(_) | None => Level::Warning,
            },
            EventKind::Started { .. }
            | EventKind::Notify { .. }
            | EventKind::InputResolved { .. } => Level::Info,
        }
    }
}

//! What is known of a terminal besides what it shows.

/// What the kernel tells of a pane's terminal and of the programs in its foreground.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TtyEvidence {
    /// What the foreground programs do with the terminal.
    pub reader: Reader,
    /// Whether what is typed is shown; `None` where the terminal could not be asked.
    pub echo: Option<bool>,
    /// Whether the terminal gathers lines; `None` where it could not be asked.
    pub canonical: Option<bool>,
    /// What the foreground process group is for.
    pub foreground: Foreground,
    /// The names of the programs in the foreground, each once, in the order of their pids.
    pub programs: Vec<String>,
}

/// What the threads of the foreground programs do with the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reader {
    /// One is blocked reading from it.
    Reading,
    /// One waits for several things, of which the terminal is or may be one.
    Polling,
    /// All of them do something else.
    Elsewhere,
    /// The system hides it, or has nothing to tell.
    #[default]
    Unknown,
}

impl Reader {
    /// Returns the word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Polling => "polling",
            Self::Elsewhere => "elsewhere",
            Self::Unknown => "unknown",
        }
    }
}

/// What the foreground process group is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Foreground {
    /// A command at work.
    Command,
    /// A shell or interpreter that was given nothing to run: it waits for commands.
    Idle,
    /// The system does not tell.
    #[default]
    Unknown,
}

impl Foreground {
    /// Returns the word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
        }
    }
}

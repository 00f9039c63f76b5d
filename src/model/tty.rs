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
    /// The call in which one of them is blocked reading; `None` where none is, or where the system
    /// does not count.
    pub read: Option<ReadCall>,
    /// Whether a program may read only to pass on what is typed, to another machine, container or
    /// terminal: what waits for it is not seen then.
    pub may_relay: bool,
}

/// One call of `read` that a thread is blocked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCall {
    /// The thread's id.
    pub thread: u32,
    /// How often the thread has gone to sleep. It stays the same as long as the call goes on.
    pub switches: u64,
    /// How many bytes the thread has read in its life, from wherever; `None` where the system does
    /// not count. It stays the same as long as nothing was read, also when a signal has
    /// interrupted the call.
    pub bytes: Option<u64>,
}

impl ReadCall {
    /// Whether this is the same call as an earlier one, and has not returned since.
    #[must_use]
    pub fn goes_on_from(&self, earlier: &Self) -> bool {
        (self.thread, self.switches) == (earlier.thread, earlier.switches)
    }

    /// Whether the same thread has read something since an earlier call.
    #[must_use]
    pub fn has_read_since(&self, earlier: &Self) -> bool {
        self.thread == earlier.thread && self.bytes > earlier.bytes && earlier.bytes.is_some()
    }
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

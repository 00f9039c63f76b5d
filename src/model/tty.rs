//! Evidence on a terminal besides its contents.

use serde::{Deserialize, Serialize};

use super::id::shown_by_wire_name;

shown_by_wire_name!(TtyUse, Foreground);

/// The kernel's evidence on a pane's terminal and on the programs in its foreground. What is not
/// serialised is of use only where it can be compared with what holds now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TtyEvidence {
    /// What the foreground programs do with the terminal.
    pub reader: TtyUse,
    /// Whether typed text is echoed; `None` where the terminal could not be queried.
    pub echo: Option<bool>,
    /// Whether the terminal is in canonical mode (line by line); `None` where it could not be
    /// queried.
    pub canonical: Option<bool>,
    /// What kind of program the foreground process group is.
    pub foreground: Foreground,
    /// The names of the foreground programs, each once, in the order of their pids.
    pub programs: Vec<String>,
    /// The `read` call in which one of them is blocked; `None` where none is, or where the system
    /// has no counters.
    #[serde(skip)]
    pub read: Option<ReadCall>,
    /// Whether a program may be reading only to pass on what is typed to another machine, container
    /// or terminal. The program that really waits is not visible then.
    pub may_relay: bool,
    /// Whether a program that is blocked reading has other threads, which may be at work.
    #[serde(skip)]
    pub reader_has_threads: bool,
    /// Whether no program checks for keys, as far as is known: none has run since the output
    /// stopped, or they seldom sleep.
    #[serde(skip)]
    pub checks_no_keys: bool,
    /// A number that rises when input was read from the terminal, by any program. If it is the same
    /// at two looks, nothing was read in between; `None` where that is not known.
    #[serde(skip)]
    pub n_reads: Option<u64>,
    /// Why a program of the task is stopped while none in the foreground takes input; `None` where
    /// none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stop>,
}

/// Why a program is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// A signal: Ctrl-Z or SIGSTOP.
    #[serde(rename = "signal")]
    BySignal,
    /// It is in the background and has read its terminal. It does not continue by itself, and
    /// nothing that is typed reaches it.
    #[serde(rename = "background")]
    BackgroundRead,
    /// The same, but it has set the modes of its terminal, as programs do before they ask for a
    /// secret or a key. Programs are told no more than that it is in the background.
    #[serde(rename = "background", skip_deserializing)]
    BackgroundSetup,
}

impl Stop {
    /// What the user of a program can do that is stopped in the background.
    pub const ADVICE: &str = "it cannot read what is typed there: run it again in the foreground, \
                              with timeout: `timeout --foreground`";

    /// Whether the program wants the terminal.
    pub fn is_in_background(self) -> bool {
        match self {
            Self::BySignal => false,
            Self::BackgroundRead | Self::BackgroundSetup => true,
        }
    }
}

/// One call of `read` in which a thread is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCall {
    /// The thread's id.
    pub thread: u32,
    /// How many times the thread has gone to sleep. It does not change during one call.
    pub switches: u64,
    /// How many bytes the thread has read in total, from any file; `None` where the system does not
    /// count them. It does not change as long as nothing is read, even when a signal interrupts the
    /// call.
    pub bytes: Option<u64>,
}

impl ReadCall {
    /// Whether this is the same call as an earlier one, which has not returned since.
    pub fn goes_on_from(&self, earlier: &Self) -> bool {
        (self.thread, self.switches) == (earlier.thread, earlier.switches)
    }

    /// Whether the same thread has read something since an earlier call.
    pub fn has_read_since(&self, earlier: &Self) -> bool {
        self.thread == earlier.thread && self.bytes > earlier.bytes && earlier.bytes.is_some()
    }
}

/// What the threads of the foreground programs do with the terminal. Of what several of them do, the last
/// one in this order counts: a hidden program may read or poll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TtyUse {
    /// None of them reads from it.
    Elsewhere,
    /// The system hides this, or the terminal was not examined.
    #[default]
    Unknown,
    /// One of them waits for several files, and the terminal is or may be one of them.
    Polling,
    /// One of them is blocked reading from it.
    Reading,
}

impl TtyUse {
    /// Whether one of them certainly takes input.
    pub fn takes_input(self) -> bool {
        matches!(self, Self::Reading | Self::Polling)
    }
}

/// What kind of program the foreground process group is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Foreground {
    /// A command at work.
    Command,
    /// A shell or an interpreter without anything to run: it waits for commands.
    Idle,
    /// The system does not say.
    #[default]
    Unknown,
}

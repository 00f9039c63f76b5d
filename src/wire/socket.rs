//! What is asked of a daemon on its socket and what it answers: one JSON line each, after which
//! a subscription's records follow.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    EventFields, EventType, Explanation, Kind, LaunchedRun, LsTask, LsView, RecordBody, RunRequest,
    SendRequest, TaskCounts, WaitRequest, WaitResult,
};
use crate::model::{Millis, Seq};

/// A request: the first line on a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Request {
    /// Which session the daemon supervises.
    Whereabouts,
    /// How the daemon is.
    Status,
    /// Look now; the answer comes when the look is recorded. Asked before and after a launch, so
    /// that the run before it has been seen to its end and the new one is told at once.
    Look {
        /// The task that is about to be launched: the output of its live run is kept.
        #[serde(default)]
        launching: Option<String>,
        /// Whether the command that launches it goes on to wait for it, and will return with what
        /// comes of it.
        #[serde(default)]
        will_wait: bool,
        /// Whose command it is; `None` for a person at a terminal.
        #[serde(default)]
        owner: Option<String>,
    },
    /// Start a task, or run it again in its slot; the answer comes when the run is recorded.
    Run(RunRequest),
    /// Type into a task.
    Send(SendRequest),
    /// The tasks, with all that tmux has reported by now.
    List,
    /// How many tasks there are of each sort, by the same.
    Count,
    /// One task, by the same.
    Find {
        /// Its name or window id.
        task: String,
    },
    /// End these tasks.
    Kill {
        /// Their names or window ids.
        #[serde(alias = "windows")]
        tasks: Vec<String>,
        /// Whose command asks for it; `None` for a person at a terminal.
        #[serde(default)]
        owner: Option<String>,
    },
    /// End the task session.
    KillAll {
        /// Whose command asks for it; `None` for a person at a terminal.
        #[serde(default)]
        owner: Option<String>,
    },
    /// Remove the tasks that have ended.
    Prune,
    /// Wait for something to become of a task; the answer comes when it has.
    Wait(WaitRequest),
    /// The place at which a task's output ends now.
    Cursor {
        /// The window's id.
        window: String,
    },
    /// A task's output from here on, line by line, until its run ends.
    Follow {
        /// The window's id.
        window: String,
        /// Bytes as they come, instead of lines.
        raw: bool,
    },
    /// Why this task is or is not taken to wait for a person.
    Explain {
        /// Its name or window id.
        #[serde(alias = "window")]
        task: String,
    },
    /// Leave.
    Stop {
        /// Also end the task session when no task in it is active.
        cleanup: bool,
    },
    /// Records from here on.
    Subscribe {
        /// Where to begin.
        start: ReaderStart,
        /// Which records are wanted.
        filter: Filter,
    },
}

/// Where a reader begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReaderStart {
    /// With what is recorded from now on.
    Now,
    /// With the record after this one.
    After(After),
}

/// A record's number, as `--after` takes it: `12`, or `EPOCH:12` to be sure of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct After {
    /// The feed's epoch, where it was given.
    pub epoch: Option<String>,
    /// The number; 0 is before the first record.
    pub seq: Seq,
}

impl std::str::FromStr for After {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (epoch, seq) = match text.rsplit_once(':') {
            Some((epoch, seq)) if !epoch.is_empty() => (Some(epoch.to_owned()), seq),
            Some(_) | None => (None, text),
        };
        let seq = seq
            .parse()
            .map_err(|_| "not a number like 12 or EPOCH:12".to_owned())?;
        Ok(Self { epoch, seq })
    }
}

impl After {
    /// Returns the number, if a feed of this epoch and length has it.
    ///
    /// # Errors
    ///
    /// When it does not, with a line that names what the feed has.
    pub fn check(&self, epoch: &str, last_seq: Seq) -> Result<Seq, String> {
        match &self.epoch {
            Some(other) if other != epoch => Err(format!(
                "no epoch {other}: the feed's is {epoch}, its last record {last_seq}"
            )),
            Some(_) | None if self.seq > last_seq => Err(format!(
                "no record {}: the feed's last is {epoch}:{last_seq}",
                self.seq
            )),
            Some(_) | None => Ok(self.seq),
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "answer",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Response {
    /// It is done.
    Done,
    /// The session.
    Whereabouts(Whereabouts),
    /// How the daemon is.
    Status(DaemonStatus),
    /// The tasks.
    List(LsView),
    /// How many there are.
    Counted(TaskCounts),
    /// A task.
    Found(Box<LsTask>),
    /// A run was started.
    Launched(LaunchedRun),
    /// The daemon is not attached to the session, as when there is none: nothing was started, and
    /// whoever asked has to do it without a daemon.
    Unattached,
    /// A wait has begun; how it ends follows.
    Waiting,
    /// How a wait ended.
    Waited(WaitResult),
    /// The place at which a task's output ends.
    Cursor {
        /// For `--since`.
        cursor: String,
    },
    /// What was ended or removed.
    Ended {
        /// The tasks, by window.
        tasks: Vec<Ended>,
    },
    /// Why a task is or is not taken to wait.
    Explained(Box<Explanation>),
    /// It was not done.
    Refused(Refusal),
}

/// Which session a daemon supervises, for those who asked for it by a name that it may not have
/// any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Whereabouts {
    /// The name that the session has now; `None` when there is none.
    pub name: Option<String>,
    /// What the session that has the name this daemon was asked for is asked for by itself, when it
    /// is another one.
    pub elsewhere: Option<String>,
}

/// A task that a command ended or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The window's id.
    pub window_id: String,
    /// Its name.
    pub window_name: String,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// What sort of failure, as exit codes tell them apart.
    pub kind: RefusalKind,
    /// One line.
    pub message: String,
    /// What the user can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Refusal {
    /// Returns a refusal for this reason.
    #[must_use]
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What sort of failure a refusal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusalKind {
    /// It was tried and failed.
    Failed,
    /// The request makes no sense.
    Usage,
    /// No such session or task.
    Missing,
    /// It is asked by another version than the daemon's.
    Version,
}

/// How a daemon is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStatus {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The task session, as it is called now.
    pub session_name: String,
    /// The tmux server's socket.
    pub server: String,
    /// Whether the session exists.
    pub exists: bool,
    /// When the daemon started, milliseconds since 1970.
    pub started_at: Millis,
    /// The feed's epoch.
    pub epoch: String,
    /// The number of the last record.
    pub last_seq: Seq,
    /// The feed's file.
    pub feed: String,
    /// The daemon's log.
    pub log: String,
    /// What keeps the daemon from its work now, a sentence each; left out when nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// How many read the live feed.
    pub readers: usize,
    /// How many waits are under way.
    #[serde(default)]
    pub waits: usize,
    /// How many looks were taken.
    pub looks: u64,
    /// How often a look that nothing had called for found something to tell. It should be never.
    pub found_late: u64,
    /// Alive and not waiting.
    pub running: usize,
    /// Alive and waiting for a person.
    pub waiting: usize,
    /// Ended.
    pub dead: usize,
    /// Of those that run: silent for long, and nothing tells whether they wait.
    #[serde(default, skip_serializing_if = "super::record::is_none_of_them")]
    pub stalled: usize,
}

/// Which durable records a reader wants. Empty lists want everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    /// Only these kinds.
    pub kinds: Vec<Kind>,
    /// Only events of these types, and, where `kinds` asks for them, deliveries that speak of
    /// such an event.
    pub types: Vec<EventType>,
    /// Only tasks with these names or window ids, and deliveries that speak of one.
    pub tasks: Vec<String>,
    /// Only deliveries for this owner and for everybody; events of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The numbers of the latest events that were wanted: notices name their events by number.
    #[serde(skip)]
    wanted: BTreeSet<Seq>,
}

/// How many events a filter remembers: a notice comes within one gathering of its events.
const REMEMBERED: u32 = 1000;

impl Filter {
    /// Returns the number after which it has to see the records if those after `after` are asked
    /// for: a notice names its events by number, and only they say which task it is about.
    #[must_use]
    pub fn first_seen(&self, after: Seq) -> Seq {
        let chooses_tasks_or_types = !(self.types.is_empty() && self.tasks.is_empty());
        let wants_notices = if self.kinds.is_empty() {
            self.types.is_empty()
        } else {
            self.kinds.contains(&Kind::Notice)
        };
        if chooses_tasks_or_types && wants_notices {
            after.saturating_sub(Seq::from(REMEMBERED))
        } else {
            after
        }
    }

    /// Returns a filter for these kinds, types and tasks.
    #[must_use]
    pub fn new(kinds: Vec<Kind>, types: Vec<EventType>, tasks: Vec<String>) -> Self {
        Self {
            kinds,
            types,
            tasks,
            owner: None,
            wanted: BTreeSet::new(),
        }
    }

    /// Wants deliveries for this owner and for everybody only.
    #[must_use]
    pub fn for_owner(mut self, owner: Option<String>) -> Self {
        self.owner = owner;
        self
    }

    /// Whether records are wanted of whose kind nothing is known.
    #[must_use]
    pub fn wants_unknown(&self) -> bool {
        self.kinds.is_empty() && self.types.is_empty() && self.tasks.is_empty()
    }

    /// Whether this record is wanted. Records are to be shown in the order of their numbers.
    pub fn wants(&mut self, seq: Seq, body: &RecordBody) -> bool {
        let kind_wanted = if self.kinds.is_empty() {
            self.types.is_empty() || body.kind() == Kind::Event
        } else {
            self.kinds.contains(&body.kind())
        };
        let wanted = self.types.is_empty() && self.tasks.is_empty()
            || match body {
                RecordBody::Event(fields) => self.wants_event(seq, fields),
                RecordBody::Notice { events, .. } => {
                    events.iter().any(|seq| self.wanted.contains(seq))
                }
                RecordBody::FollowUp { message, .. } => message
                    .details
                    .events
                    .iter()
                    .any(|fields| self.matches(fields)),
            };
        let is_theirs = match (&self.owner, body) {
            (
                Some(wanted),
                RecordBody::Notice { owner, .. } | RecordBody::FollowUp { owner, .. },
            ) => owner.as_ref().is_none_or(|owner| owner == wanted),
            (Some(_), RecordBody::Event(_)) | (None, _) => true,
        };
        kind_wanted && wanted && is_theirs
    }

    fn wants_event(&mut self, seq: Seq, fields: &EventFields) -> bool {
        let wanted = self.matches(fields);
        if wanted {
            self.wanted.insert(seq);
            if self.wanted.len() > REMEMBERED as usize {
                self.wanted.pop_first();
            }
        }
        wanted
    }

    fn matches(&self, fields: &EventFields) -> bool {
        let task = &fields.task;
        (self.types.is_empty() || self.types.contains(&fields.event_type))
            && (self.tasks.is_empty()
                || self
                    .tasks
                    .iter()
                    .any(|t| *t == task.window_name || *t == task.window_id))
    }
}

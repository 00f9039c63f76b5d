//! The tasks of one session as its daemon pushes them, across restarts of the daemon.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};

use super::board::{SessionKey, SessionName};
use super::effect::Place;
use super::state::ONLY;
use super::work::{ANSWERS_WITHIN, text_of};
use crate::client::DaemonClient;
use crate::model::{Backoff, Error, with_causes};
use crate::ops::{SessionChoice, TaskSession, task_stream};
use crate::wire::{LiveRecord, LsTask, StreamRecord};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));

/// What happens to the sessions.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A stream has begun. Requests go to this session.
    Connected {
        key: SessionKey,
        place: Place,
        name: SessionName,
    },
    /// The stream of the only session has ended, and why.
    Lost(String),
    Tasks {
        key: SessionKey,
        exists: bool,
        is_complete: bool,
        tasks: Vec<LsTask>,
        removed: Vec<String>,
    },
    /// All sessions that there were at first are known.
    Found,
    /// A session exists, and why its tasks are not known.
    Unknown {
        key: SessionKey,
        name: SessionName,
        why: String,
    },
    /// A session is not shown any more.
    Gone(SessionKey),
}

/// A stream that has begun.
pub(super) struct TaskStream {
    pub(super) session: Rc<TaskSession>,
    client: DaemonClient,
}

impl TaskStream {
    /// Begins a stream. Starts a daemon if none runs.
    pub(super) async fn begin(choice: &SessionChoice) -> Result<Self, Error> {
        let mut session = TaskSession::named(choice)?;
        session.resolve_name().await?;
        let (client, name) = task_stream(&session).await?;
        session.name = name;
        Ok(Self {
            session: Rc::new(session),
            client,
        })
    }
}

/// Reports the tasks until nothing listens any more. Connects again whenever the stream ends.
pub(super) async fn follow(
    choice: &SessionChoice,
    first: TaskStream,
    to: UnboundedSender<Incoming>,
) {
    let mut stream = first;
    loop {
        let TaskStream { session, client } = &mut stream;
        let connected = Incoming::Connected {
            key: ONLY,
            place: Place::Here(Rc::clone(session)),
            name: SessionName {
                name: session.name.clone(),
                server: None,
            },
        };
        if to.send(connected).is_err() {
            return;
        }
        let why = read(client, ONLY, &to).await;
        if to.send(Incoming::Lost(why)).is_err() {
            return;
        }
        let mut retry = RETRY;
        stream = loop {
            sleep(retry.next_pause()).await;
            let why = match timeout(ANSWERS_WITHIN, TaskStream::begin(choice)).await {
                Ok(Ok(stream)) => break stream,
                Ok(Err(error)) => text_of(&error),
                Err(_) => "the daemon does not answer".to_owned(),
            };
            if to
                .send(Incoming::Lost(format!("{why}; trying again")))
                .is_err()
            {
                return;
            }
        };
    }
}

/// Reads the stream to its end and returns why it ended.
pub(super) async fn read(
    client: &mut DaemonClient,
    key: SessionKey,
    to: &UnboundedSender<Incoming>,
) -> String {
    loop {
        let line = match client.line().await {
            Ok(Some(line)) => line,
            Ok(None) => return "the daemon has stopped; connecting again".to_owned(),
            Err(error) => return format!("{}; connecting again", with_causes(&error)),
        };
        // Lines of later versions are passed over.
        if let Ok(StreamRecord::Live(LiveRecord::Tasks {
            exists,
            complete,
            tasks,
            removed,
        })) = serde_json::from_str(&line)
        {
            let tasks = Incoming::Tasks {
                key,
                exists,
                is_complete: complete,
                tasks,
                removed,
            };
            if to.send(tasks).is_err() {
                return String::new();
            }
        }
    }
}

//! Performs effects with the use cases, and follows the tasks of a session.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};

use super::board::{Place, SessionKey, SessionName};
use super::mode::PanelEffect;
use super::state::{ActionReport, Incoming, ONLY};
use crate::client::DaemonClient;
use crate::model::{Backoff, Error, StopChoice, text, with_causes};
use crate::ops::{self, Caller, SessionChoice, TaskSession, task_stream};
use crate::rules::wire::{LiveRecord, StreamRecord};

/// How long daemon and tmux may take to answer.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// How long a task that is ended may take before that is said.
const ENDS_SOON: Duration = Duration::from_secs(2);

/// The maximum length of an error, in characters.
const ERROR_CHARS: usize = 500;

/// How many rows of the history a preview includes: more than a panel shows.
const HISTORY_ROWS: usize = 100;

/// Performs an effect. Ends within a limited time.
pub(super) async fn perform(session: Rc<TaskSession>, effect: PanelEffect) -> ActionReport {
    let said = ActionReport::Said;
    let in_words = |result: Result<String, Error>| result.map_err(|error| text_of(&error));
    match effect {
        PanelEffect::Attach { task } => {
            let attachment = in_time(ops::attachment(&session, Some(&task.window))).await;
            attachment.map_or_else(|why| said(Err(why)), ActionReport::Attach)
        }
        PanelEffect::Send { name, request, .. } => {
            let sent = in_time(session.for_request().send(request)).await;
            said(sent.map(|()| format!("sent to {name}")))
        }
        PanelEffect::Kill { task, name } => {
            let mut session = session.for_request();
            let names = vec![task.window];
            // Once more kills what has not ended yet.
            let runs = in_time(ops::ending_runs(&mut session, &names, true)).await;
            if runs.is_ok_and(|runs| !runs.is_empty()) {
                return said(Ok(format!("killed what was left of {name}")));
            }
            let choice = StopChoice::default();
            let work = ops::kill(&mut session, Caller::user(), names, &choice);
            said(match timeout(ENDS_SOON, work).await {
                Ok(result) => in_words(result.map(|_| format!("killed {name}"))),
                // The daemon goes on with it.
                Err(_) => Ok(format!(
                    "{name} has not ended yet: x once more kills it at once"
                )),
            })
        }
        // A run that has to end first may take its time.
        PanelEffect::Rerun { task, name } => {
            let rerun = async {
                let mut planning = session.for_request();
                for mut launch in ops::plan_restarts(&mut planning, vec![task.window]).await? {
                    launch.owner = None;
                    ops::run(session.for_request(), launch).await?;
                }
                Ok(format!("{name} runs again"))
            };
            said(in_words(rerun.await))
        }
        PanelEffect::Prune { .. } => {
            let pruned = in_time(ops::prune(&mut session.for_request())).await;
            said(pruned.map(|tasks| format!("removed {}", text::counted(tasks.len(), "task"))))
        }
        PanelEffect::Explain { task } => {
            let explained = in_time(ops::explain(&mut session.for_request(), &task.window)).await;
            let result = explained.map(|explanation| {
                let lines = ops::explanation_lines(&explanation, crate::clock::now().wall);
                (explanation.secret == Some(true), lines)
            });
            ActionReport::Explained { task, result }
        }
        PanelEffect::ReadLog { task } => {
            let result = in_time(ops::coloured_log(&session, task.window.clone(), None)).await;
            ActionReport::Log { task, result }
        }
        PanelEffect::Preview {
            task,
            is_full_screen,
        } => {
            // Of a full-screen program it is the screen alone.
            let rows = if is_full_screen { 0 } else { HISTORY_ROWS };
            let read = ops::coloured_log(&session, task.window.clone(), Some(rows));
            // A pane that has just gone has no preview; the next record of the daemon says so.
            let lines = in_time(read).await.unwrap_or_default();
            ActionReport::Preview { task, lines }
        }
    }
}

/// Returns a result; an error, also that it takes too long, as one line.
async fn in_time<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    let silent = || Err(Error::failed("daemon or tmux does not answer"));
    let result = limited(work).await.unwrap_or_else(silent);
    result.map_err(|error| text_of(&error))
}

pub(super) async fn limited<T>(work: impl Future<Output = T>) -> Option<T> {
    timeout(ANSWERS_WITHIN, work).await.ok()
}

/// Returns an error with its causes and what to do about it, as one line.
pub(super) fn text_of(error: &Error) -> String {
    let hint = error.hint.as_ref().map(|hint| format!("; {hint}"));
    let why = with_causes(error) + &hint.unwrap_or_default();
    text::one_line(why.as_bytes(), ERROR_CHARS)
}

// The tasks of one session as its daemon pushes them, across restarts of the daemon.

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));

/// Begins a stream of the session's tasks. Starts a daemon if none runs.
pub(super) async fn begin(
    choice: &SessionChoice,
) -> Result<(Rc<TaskSession>, DaemonClient), Error> {
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    let (client, name) = task_stream(&session).await?;
    session.name = name;
    Ok((Rc::new(session), client))
}

/// Reports the tasks. Connects again whenever the stream ends. What listens drops it at its own end.
pub(super) async fn follow(
    choice: &SessionChoice,
    (mut session, mut client): (Rc<TaskSession>, DaemonClient),
    to: UnboundedSender<Incoming>,
) {
    loop {
        let name = SessionName {
            name: session.name.clone(),
            server: None,
        };
        let (key, place) = (ONLY, Place::Here(session));
        drop(to.send(Incoming::Connected { key, place, name }));
        let why = read(&mut client, ONLY, &to).await;
        drop(to.send(Incoming::Lost(why)));
        let mut retry = RETRY;
        (session, client) = loop {
            sleep(retry.next_pause()).await;
            let why = match timeout(ANSWERS_WITHIN, begin(choice)).await {
                Ok(Ok(stream)) => break stream,
                Ok(Err(error)) => text_of(&error),
                Err(_) => "the daemon does not answer".to_owned(),
            };
            drop(to.send(Incoming::Lost(format!("{why}; trying again"))));
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
            drop(to.send(tasks));
        }
    }
}

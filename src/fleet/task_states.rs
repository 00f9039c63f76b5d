//! The last state of each task of the session, in the broker's bucket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::bucket::Buckets;
use super::connection::FleetError;
use super::layout::{STATE_BUCKET, SessionState, TaskState, VERSION, session_key, task_key};
use super::streams::KEPT;
use crate::model::{NextRestart, Screen, text};
use crate::store::Live;
use crate::wire::{LsTask, TaskBoard};

/// At least the time between two publications. Records are published at once; these are for lists.
const PAUSE: Duration = Duration::from_secs(1);

/// After which time all is published again, so that it is not removed while the daemon lives.
const RENEWED: Duration = Duration::from_secs(24 * 3600);

/// The maximum length of a command, a folder, a prompt and the last line, in characters.
const MAX_TEXT: usize = 160;

/// Publishes what changes until the broker does not confirm it; at first all, because it may have lost
/// what it had.
pub(super) async fn publish(
    buckets: &Buckets<'_>,
    host: &str,
    key: &str,
    live: &Live,
) -> Result<(), FleetError> {
    let mut boards = live.tasks();
    loop {
        let mut published: BTreeMap<String, String> = BTreeMap::new();
        let renewed_at = Instant::now() + RENEWED;
        loop {
            let board = Arc::clone(&boards.borrow_and_update());
            let values = values_of(&board, host, key, &live.session_name());
            for (name, value) in &values {
                if published.get(name) != Some(value) {
                    let bytes = value.as_bytes();
                    buckets.put(STATE_BUCKET, name, bytes, KEPT).await?;
                }
            }
            for name in published.keys().filter(|name| !values.contains_key(*name)) {
                buckets.remove(STATE_BUCKET, name).await?;
            }
            published = values;
            sleep(PAUSE).await;
            match timeout_at(renewed_at, boards.changed()).await {
                Ok(Ok(())) => {}
                // The daemon is leaving.
                Ok(Err(_)) => return std::future::pending().await,
                Err(_) => break,
            }
        }
    }
}

/// Returns the values of a session by their keys. The session's own names its windows, and sorts before
/// them.
fn values_of(
    board: &TaskBoard,
    host: &str,
    key: &str,
    session_name: &str,
) -> BTreeMap<String, String> {
    let session = SessionState {
        v: VERSION,
        host: host.to_owned(),
        session_name: session_name.to_owned(),
        exists: board.exists,
        windows: board.tasks.keys().map(ToString::to_string).collect(),
    };
    let mut values = BTreeMap::new();
    values.insert(session_key(host, key), json(&session));
    for (window, task) in &board.tasks {
        let state = TaskState {
            v: VERSION,
            host: host.to_owned(),
            session_name: session_name.to_owned(),
            task: shortened(task.clone()),
        };
        values.insert(task_key(host, key, &window.to_string()), json(&state));
    }
    values
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("it has text and numbers only")
}

/// Returns a task with its last line alone, and short texts.
fn shortened(mut task: LsTask) -> LsTask {
    let short = |text: &str| text::bounded(text, MAX_TEXT);
    let of_task = Arc::make_mut(&mut task.task);
    of_task.screen = Screen {
        rows: [short(&of_task.last_line())].into(),
        alternate: of_task.screen.alternate,
        ..Screen::default()
    };
    of_task.command = of_task.command.as_deref().map(short);
    of_task.cwd = of_task.cwd.as_deref().map(short);
    task.waiting_for = task.waiting_for.as_deref().map(short);
    // It changes all the time.
    task.next_restart = task
        .next_restart
        .map(|next| NextRestart { in_ms: 0, ..next });
    task
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    #[test]
    fn a_session_names_its_windows_and_a_task_is_short() {
        let mut task = task("@1 api running");
        task.command = Some("x".repeat(5000));
        task.screen.rows = ["y".repeat(900), "last".to_owned(), String::new()].into();
        let window = task.window;
        let listed = LsTask::new(task, Some("z".repeat(900)));
        let board = TaskBoard {
            exists: true,
            tasks: BTreeMap::from([(window, listed)]),
        };
        let values = values_of(&board, "gpu1", "api-0a", "api");
        let keys: Vec<&String> = values.keys().collect();
        assert_eq!(keys, ["gpu1.api-0a.session", "gpu1.api-0a.w1"]);
        let session: SessionState = serde_json::from_str(&values["gpu1.api-0a.session"]).unwrap();
        assert_eq!(
            (session.exists, session.windows),
            (true, vec!["@1".to_owned()])
        );
        let value = &values["gpu1.api-0a.w1"];
        let state: TaskState = serde_json::from_str(value).unwrap();
        assert_eq!(state.task.task.last_line(), "last");
        assert!(value.len() < 1400, "{value}");
    }
}

//! What the panel shows of a task besides its state: the end of its output, and what it uses.

use std::collections::BTreeMap;

use super::logs::further_log;
use super::session::TaskSession;
use crate::model::Error;
use crate::process;
use crate::wire::LogRequest;

pub(crate) use crate::process::TreeUsage;

/// How many rows of the history a preview includes: more than a panel shows.
const HISTORY_ROWS: usize = 100;

/// Returns the end of a task's output, with escape sequences for colours. Of a full-screen program
/// it is the screen alone.
pub(crate) async fn preview(
    session: &TaskSession,
    window: String,
    is_full_screen: bool,
) -> Result<Vec<String>, Error> {
    let history_rows = if is_full_screen { 0 } else { HISTORY_ROWS };
    read(session, window, Some(history_rows)).await
}

/// Returns a task's whole output, with escape sequences for colours.
pub(crate) async fn whole_log(session: &TaskSession, window: String) -> Result<Vec<String>, Error> {
    read(session, window, None).await
}

async fn read(
    session: &TaskSession,
    window: String,
    history_rows: Option<usize>,
) -> Result<Vec<String>, Error> {
    let request = LogRequest {
        task: window,
        raw: true,
        history_rows,
        ..LogRequest::default()
    };
    Ok(further_log(session, request).await?.lines)
}

/// Returns what these processes and their descendants use, by pid.
pub(crate) fn usage(pids: &[u32]) -> BTreeMap<u32, TreeUsage> {
    process::tree_usage(pids)
}

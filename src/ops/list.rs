//! The tasks, and their number by state.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use super::session::TaskSession;
use crate::client::unexpected;
use crate::model::{Body, Error, Ordered as _, Record, StatusCounts, Task};
use crate::wire::{LsTask, LsView, Request, Response};
use crate::{files, process};

/// How much of a feed's end is searched for its last event, in bytes.
const FEED_TAIL: u64 = 1 << 18;

/// Returns the tasks as the daemon sees them; without a daemon, those of a look. A missing session
/// has none.
pub(crate) async fn list(session: &mut TaskSession) -> Result<LsView, Error> {
    let Response::List(view) = session.ask_by_name(&Request::List).await? else {
        return Err(unexpected());
    };
    Ok(view)
}

/// Whether a session that is gone went because the last of its ended tasks was pruned: the feed says so, and
/// of nothing that happened since.
pub(crate) fn was_pruned(session: &TaskSession) -> bool {
    let read = || {
        let mut file = files::open(&session.paths.feed())?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(end.saturating_sub(FEED_TAIL)))?;
        let mut text = Vec::new();
        file.take(FEED_TAIL).read_to_end(&mut text)?;
        io::Result::Ok(text)
    };
    let text = read().unwrap_or_default();
    let mut lines = text.rsplit(|byte| *byte == b'\n');
    let is_pruned =
        lines.find_map(
            |line| match serde_json::from_slice::<Record>(line).ok()?.body {
                Body::Event(_) => Some(false),
                Body::Notice { text, .. } => text.starts_with("pruned ").then_some(true),
                Body::FollowUp { .. } => None,
            },
        );
    is_pruned == Some(true)
}

/// Adds the ports that the tasks listen on. The kernel is asked for them now.
pub(crate) fn add_ports(view: &mut LsView) {
    let leader = |listed: &LsTask| listed.task.pid.filter(|_| listed.task.is_alive());
    let leaders: Vec<u32> = view.tasks.iter().filter_map(leader).collect();
    let Some(mut found) = ports(&leaders) else {
        return;
    };
    for listed in &mut view.tasks {
        let found = leader(listed).and_then(|leader| found.remove(&leader));
        Arc::make_mut(&mut listed.task).ports = Some(found.unwrap_or_default());
    }
}

/// Returns the ports that the runs with these first processes listen on; `None` where the system does
/// not show it.
pub(crate) fn ports(leaders: &[u32]) -> Option<BTreeMap<u32, Vec<u16>>> {
    let found = process::listening(leaders, None)?.into_iter();
    let found = found.map(|(leader, listening)| (leader, listening.ports().into_iter().collect()));
    Some(found.into_map())
}

/// Returns the task of this name or window id.
pub(crate) async fn find(session: &mut TaskSession, name: &str) -> Result<Arc<Task>, Error> {
    Ok(find_listed(session, name).await?.task)
}

/// Returns the task of this name or window id, with what a daemon knows of it.
pub(super) async fn find_listed(session: &mut TaskSession, name: &str) -> Result<LsTask, Error> {
    let request = Request::Find {
        task: name.to_owned(),
    };
    let Response::Found(found) = session.ask_by_name(&request).await? else {
        return Err(unexpected());
    };
    Ok(*found)
}

/// Counts the tasks.
pub(crate) async fn count(session: &mut TaskSession) -> Result<StatusCounts, Error> {
    let Response::Counted(counts) = session.ask_by_name(&Request::Count).await? else {
        return Err(unexpected());
    };
    Ok(counts)
}

//! The tasks, and their number by state.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::session::TaskSession;
use super::stored_feed::StoredRecords;
use crate::model::{Body, Error, Kind, Ordered as _, Snapshot, StatusCounts, Task};
use crate::observe::{Evidence, Observer};
use crate::protocol::rows::LookRows;
use crate::tmux::{self, LookKind, LookMemory};
use crate::wire::{Filter, LastRecords, LsTask, LsView, ReaderStart, Request, StoredUse};
use crate::{clock, process};

/// Returns the tasks. A missing session has none.
pub(crate) async fn list(session: &mut TaskSession) -> Result<LsView, Error> {
    let view = session.ask_if_exists(&Request::List).await?;
    Ok(view.unwrap_or_else(|| LsView {
        session_name: session.name.clone(),
        captured_at: clock::now().wall,
        ..LsView::default()
    }))
}

/// Whether a session that is gone went because the last of its ended tasks was pruned: the feed says so, and
/// of nothing that happened since.
pub(crate) async fn was_pruned(session: &TaskSession) -> bool {
    let filter = Filter::new(vec![Kind::Event, Kind::Notice], Vec::new(), Vec::new());
    let last = ReaderStart::Last(LastRecords {
        most: Some(1),
        ..LastRecords::default()
    });
    let stored = StoredRecords::open(session, last, filter, StoredUse::Examine).await;
    let Ok(Some(mut stored)) = stored else {
        return false;
    };
    let last = stored.next_record().await.ok().flatten();
    let body = last.map(|record| record.body);
    matches!(body, Some(Body::Notice { text, .. }) if text.starts_with("pruned "))
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
    session.ask(&request).await
}

/// Counts the tasks. A status line asks for it again and again, also where no daemon is wanted: then those
/// that tmux shows are counted, and what they wait for is not known.
pub(crate) async fn count(session: &mut TaskSession) -> Result<StatusCounts, Error> {
    match session.ask_running(&Request::Count).await? {
        Some(counts) => Ok(counts),
        None => Ok(look(session).await?.counts(|_| false, |_| false)),
    }
}

/// Looks at a session that has no daemon.
pub(super) async fn look(session: &TaskSession) -> Result<Snapshot, Error> {
    let target = format!("={}:", session.name);
    let (mut connection, mut memory) = (session.connection(), LookMemory::default());
    let look = tmux::look(&mut connection, &target, &mut memory, LookKind::Windows).await?;
    let evidence = Evidence {
        started_at: Arc::new(process::starts(look.iter().flat_map(LookRows::pids))),
        ..Evidence::default()
    };
    let observed = Observer::new(&session.name).observe(look.as_ref(), &evidence, clock::now());
    Ok(observed.snapshot)
}

//! The start-up scan: other task sessions of the same project, left over from conversations that
//! nobody follows any more.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::hub::Hub;
use crate::clock::now;
use crate::model::{Level, SessionId};
use crate::observe::{Evidence, Observer};
use crate::place::{Env, Place};
use crate::tmux::{self, Extent, Memory, SessionListed, Target, TmuxError};

/// A session whose feed was read this lately may be read again.
const READER_LATELY: Duration = Duration::from_secs(3600);

/// How many tasks a report names.
const NAMED: usize = 2;

/// Ends what is over and reports what is not, one notice each way.
pub(super) async fn scan(hub: &mut Hub, project: Option<&Path>) {
    let root = hub.watch.about().root.clone();
    let Some(root) = root.or_else(|| project.map(|path| path.display().to_string())) else {
        return;
    };
    let found = match other_sessions(hub, &root).await {
        Ok(found) => found,
        Err(error) => {
            if !error.is_missing() {
                tracing::warn!(%error, "could not look for other task sessions");
            }
            return;
        }
    };
    let mut cleaned = 0;
    let mut reports = Vec::new();
    for other in &found {
        match tasks_of(hub, other.id).await {
            Ok(Some(tasks)) if tasks.active.is_empty() => {
                if is_forgotten(hub, other).await && end(hub, other).await {
                    cleaned += 1;
                }
            }
            Ok(Some(tasks)) => reports.push(tasks.report(other)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, session = other.name, "could not look at it"),
        }
    }
    if cleaned > 0 {
        let text = format!("Cleaned {cleaned} inactive task session(s) of {root}.");
        hub.notice(Level::Info, text).await;
    }
    if !reports.is_empty() {
        let text = format!(
            "Task session(s) of {root} still have active tasks:\n{}",
            reports.join("\n")
        );
        hub.notice(Level::Info, text).await;
    }
}

async fn other_sessions(hub: &mut Hub, root: &str) -> Result<Vec<SessionListed>, TmuxError> {
    let ours = hub.watch.life().map(|life| life.id);
    let mut listed = tmux::list_sessions(&mut hub.watch.connection()).await?;
    // Ours may have come since the first look: then only its name is known.
    let our_name = &hub.recorder.context().session_name;
    listed.retain(|session| {
        session.root.as_deref() == Some(root)
            && Some(session.id) != ours
            && session.name != *our_name
    });
    Ok(listed)
}

/// The names of a session's tasks.
struct Tasks {
    active: Vec<String>,
    dead: Vec<String>,
}

impl Tasks {
    /// `- NAME (TITLE): 2 active, 1 dead (api, web, +1 more)`
    fn report(&self, session: &SessionListed) -> String {
        let title = session
            .title
            .as_ref()
            .map(|title| format!(" ({title})"))
            .unwrap_or_default();
        let names: Vec<&str> = self
            .active
            .iter()
            .chain(&self.dead)
            .map(String::as_str)
            .take(NAMED)
            .collect();
        let more = (self.active.len() + self.dead.len()).saturating_sub(NAMED);
        let more = if more > 0 {
            format!(", +{more} more")
        } else {
            String::new()
        };
        format!(
            "- {}{title}: {} active, {} dead ({}{more})",
            session.name,
            self.active.len(),
            self.dead.len(),
            names.join(", "),
        )
    }
}

async fn tasks_of(hub: &mut Hub, session: SessionId) -> Result<Option<Tasks>, TmuxError> {
    let mut captures = Memory::default();
    let target = Target::Id(session);
    let mut connection = hub.watch.connection();
    let look = tmux::look(&mut connection, &target, &mut captures, Extent::Whole).await?;
    Ok(look.map(|look| {
        let mut observer = Observer::new(&look.session.name);
        let look = observer
            .observe(Some(&look), &Evidence::default(), now())
            .snapshot;
        let names = |alive: bool| {
            let tasks = look.tasks.values().filter(|task| task.is_alive() == alive);
            tasks.map(|task| task.name.clone()).collect()
        };
        Tasks {
            active: names(true),
            dead: names(false),
        }
    }))
}

/// Whether nobody has this session in view: no terminal shows it, and nobody has read its feed
/// lately.
async fn is_forgotten(hub: &mut Hub, session: &SessionListed) -> bool {
    match tmux::list_clients(&mut hub.watch.connection(), session.id).await {
        Ok(clients) if clients.iter().all(|client| client.is_control) => {}
        Ok(_) | Err(_) => return false,
    }
    let env: Env<'_> = &|name| std::env::var_os(name);
    let name = session.supervised_as.as_ref().unwrap_or(&session.name);
    let Ok(place) = Place::locate(hub.watch.server().socket(), name, env) else {
        return false;
    };
    let read_at = std::fs::symlink_metadata(place.last_reader()).and_then(|found| found.modified());
    read_at.map_or(true, |at| {
        SystemTime::now()
            .duration_since(at)
            .is_ok_and(|ago| ago >= READER_LATELY)
    })
}

async fn end(hub: &mut Hub, session: &SessionListed) -> bool {
    let _lock = hub.place.lock_server().await;
    match tmux::kill_session(&mut hub.watch.connection(), session.id).await {
        Ok(()) => {
            tracing::info!(session = session.name, "ended an inactive task session");
            true
        }
        Err(error) => {
            tracing::warn!(%error, session = session.name, "could not end it");
            false
        }
    }
}

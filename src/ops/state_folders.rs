//! The state folders of sessions that are gone: which there are, and removing them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::OpsError;
use super::lookup;
use super::session::TaskSession;
use crate::config;
use crate::daemon::{has, is_held, list_sessions};
use crate::model::{Millis, SessionLife, with_causes};
use crate::paths::{HOSTS, NAMES, Paths};
use crate::store::feed::{ReadProgress, Retention, load_saved};
use crate::tmux::{self, MarkedSession};
use crate::{clock, files, process};

/// By how much the two times at which a process started may differ, in milliseconds: tmux's clock
/// counts seconds, and the kernel's ticks are added to the time of the boot.
const SAME_START: Millis = 5000;

/// A state folder.
#[derive(Debug)]
pub(crate) struct StateFolder {
    pub(crate) path: PathBuf,
    /// The name of its session; `None` where it is not known.
    pub(crate) session: Option<String>,
    /// The size of its files in bytes.
    pub(crate) bytes: u64,
    /// When its feed, its saved snapshot or its daemon's log was last written, in milliseconds since
    /// 1970.
    pub(crate) used_at: Millis,
    /// Whether it is of use.
    pub(crate) use_of_it: FolderUse,
}

/// Whether a state folder is of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FolderUse {
    /// Its session is gone, and nothing in it is unread.
    None,
    /// Its session is gone, and it has messages that were not read, or that a consumer has not
    /// acknowledged.
    Unread,
    /// A daemon runs.
    Daemon,
    /// Its session exists, or another one of its name.
    Session,
    /// Its tmux server, which is not the present one, still runs: its sessions are not known.
    OtherServer(u32),
    /// It cannot be read. The text says why.
    Unknown(String),
}

/// Returns the state folders of all sessions of this user, by path.
pub(crate) async fn state_folders(session: &TaskSession) -> Result<Vec<StateFolder>, OpsError> {
    let kept = config::load(&lookup)?.feed;
    let retention = Retention::new(kept.keep_size, kept.keep_age, kept.keep_for_consumers);
    let present = list_sessions(&session.server).await?;
    let root = session.paths.state.parent().unwrap_or(&session.paths.state);
    let failed = |source| OpsError::Folder {
        folder: root.to_owned(),
        source,
    };
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let is_of_session = ![NAMES, HOSTS].iter().any(|name| entry.file_name() == *name);
        // Links are not followed.
        if entry.file_type().map_err(failed)?.is_dir() && is_of_session {
            folders.push(examine(session, entry.path(), &present, &retention));
        }
    }
    folders.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(folders)
}

fn examine(
    session: &TaskSession,
    path: PathBuf,
    present: &[MarkedSession],
    retention: &Retention,
) -> StateFolder {
    let paths = session.paths.of_folder(&path);
    let saved = load_saved(&paths.saved());
    let last = saved.as_ref().ok().and_then(Option::as_ref);
    let session_name = last.map(|saved| saved.snapshot.session_name.clone());
    let files = [paths.feed(), paths.saved(), paths.log()];
    let used_at = files.iter().filter_map(|file| written_at(file)).max();
    let used_at = used_at.or_else(|| written_at(&path));
    let use_of_it = match saved {
        _ if is_held(&paths.lock()) || is_held(&paths.state_lock()) => FolderUse::Daemon,
        Err(damaged) => FolderUse::Unknown(with_causes(&damaged)),
        Ok(None) if has_only_runs(&paths) => FolderUse::None,
        Ok(None) => FolderUse::Unknown("it has no saved snapshot of its session".to_owned()),
        Ok(Some(saved)) => {
            let is_its = |present: &MarkedSession| has(present, session.server.socket(), &paths);
            if present.iter().any(is_its) {
                FolderUse::Session
            } else {
                use_of_life(saved.life.as_ref(), present)
                    .unwrap_or_else(|| unread(&paths, retention))
            }
        }
    };
    StateFolder {
        session: session_name,
        bytes: size(&path).unwrap_or_default(),
        used_at: used_at.unwrap_or_default(),
        use_of_it,
        path,
    }
}

/// Returns the use of a session whose last known life is this one; `None` when that is over.
fn use_of_life(life: Option<&SessionLife>, present: &[MarkedSession]) -> Option<FolderUse> {
    // It was missing already when it was looked at last.
    let life = life?;
    if present.iter().any(|session| session.life == *life) {
        return Some(FolderUse::Session);
    }
    let is_same_server = |session: &MarkedSession| {
        let other = &session.life;
        (other.server_pid, other.server_started) == (life.server_pid, life.server_started)
    };
    if present.iter().any(is_same_server) || !is_running(life) {
        return None;
    }
    Some(FolderUse::OtherServer(life.server_pid))
}

/// Whether the tmux server of this life still runs. If another process may have its pid, it does.
fn is_running(life: &SessionLife) -> bool {
    let is_it = |started_at: Millis| (started_at - life.server_started * 1000).abs() <= SAME_START;
    let exists =
        process::exists(life.server_pid) && process::exit_of_zombie(life.server_pid).is_none();
    exists && process::started_at(life.server_pid).is_none_or(is_it)
}

/// Returns whether a folder without a session has something unread. What is older than a consumer's
/// keep time does not count, if it is by the feed's clock as well, which nobody can set.
fn unread(paths: &Paths, retention: &Retention) -> FolderUse {
    let progress = ReadProgress::load(
        &paths.feed(),
        &paths.consumers(),
        &paths.last_reader(),
        &clock::boot_time(),
    );
    let mut progress = match progress {
        Ok(progress) => progress,
        Err(error) => return FolderUse::Unknown(with_causes(&error)),
    };
    let (now, counted) = (clock::now().wall, progress.counted);
    let is_within = |age: Millis| age <= retention.consumer_age;
    let is_recent = |at: Millis, noted: Option<Millis>| {
        let noted = counted.zip(noted);
        is_within(now - at) || noted.is_some_and(|(counted, at)| is_within(counted.now - at))
    };
    progress
        .consumers
        .retain(|consumer| is_recent(consumer.used_at, Some(consumer.used_after)));
    let last = progress.feed.last_follow_up_at;
    let is_unread = progress.has_unread()
        && last.is_some_and(|at| is_recent(at, counted.and_then(|counted| counted.last_follow_up)));
    if is_unread {
        FolderUse::Unread
    } else {
        FolderUse::None
    }
}

/// Removes a state folder with everything in it, and the environments that were kept for restarts of its
/// session's tasks, unless a daemon has started in it meanwhile. Returns whether it did.
pub(crate) fn remove_state(session: &TaskSession, folder: &StateFolder) -> Result<bool, OpsError> {
    let paths = session.paths.of_folder(&folder.path);
    let failed = |source| OpsError::Folder {
        folder: folder.path.clone(),
        source,
    };
    files::check_owner_of_folder(&folder.path).map_err(failed)?;
    // A daemon that starts takes this lock first.
    let lock: File = files::open_to_write(&paths.state_lock()).map_err(failed)?;
    if lock.try_lock().is_err() || is_held(&paths.lock()) {
        return Ok(false);
    }
    let kept = paths.kept_environments();
    tmux::remove_environments(&kept).map_err(|source| OpsError::Folder {
        folder: kept,
        source,
    })?;
    paths.names().forget().map_err(failed)?;
    fs::remove_dir_all(&folder.path).map_err(failed)?;
    drop(lock);
    Ok(true)
}

/// Whether nothing but the output of runs is left: it was stored after its session was cleaned.
fn has_only_runs(paths: &Paths) -> bool {
    let runs = paths.runs();
    fs::read_dir(&paths.state).is_ok_and(|entries| {
        let mut entries = entries.peekable();
        entries.peek().is_some()
            && entries.all(|entry| entry.is_ok_and(|entry| entry.path() == runs))
    })
}

fn written_at(file: &Path) -> Option<Millis> {
    let at = fs::symlink_metadata(file).ok()?.modified().ok()?;
    let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Millis::try_from(since.as_millis()).ok()
}

/// Returns the size of the files in a folder. Links are not followed.
fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() {
            size(&entry.path())?
        } else {
            found.len()
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;

    fn life(server_pid: u32, server_started: i64, id: u32) -> SessionLife {
        SessionLife {
            server_pid,
            server_started,
            id: SessionId(id),
            created: 7,
        }
    }

    #[test]
    fn a_session_is_gone_with_its_server_or_from_it() {
        let ours = std::process::id();
        let started = process::started_at(ours).map_or(0, |at| at / 1000);
        let session = |life: &SessionLife| MarkedSession {
            life: life.clone(),
            name: "work".to_owned(),
            folder: None,
        };
        let known = life(ours, started, 3);
        let check = |life: Option<&SessionLife>, present: &[MarkedSession], expected| {
            assert_eq!(use_of_life(life, present), expected);
        };
        check(None, &[], None);
        check(Some(&known), &[session(&known)], Some(FolderUse::Session));
        // The server has other sessions.
        check(Some(&known), &[session(&life(ours, started, 4))], None);
        // Another server is asked, and this one runs.
        let other = [session(&life(1, 0, 3))];
        check(Some(&known), &other, Some(FolderUse::OtherServer(ours)));
        check(Some(&known), &[], Some(FolderUse::OtherServer(ours)));
        // No process has this pid.
        check(Some(&life(0x7fff_fff0, started, 3)), &[], None);
        if cfg!(target_os = "linux") {
            // Another process has the pid.
            check(Some(&life(ours, started - 1000, 3)), &[], None);
        }
    }
}

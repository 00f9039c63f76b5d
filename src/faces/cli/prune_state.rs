//! `prune --state`: removes the state folders of sessions that are gone.

use serde_json::{Value, json};

use super::args::Prune;
use super::failure::{Failure, OrFail};
use super::{confirm, ls, output};
use crate::clock;
use crate::model::{Millis, text};
use crate::ops::{self, FolderUse, StateFolder, TaskSession};

/// The longest name of a session that is shown, in characters.
const NAME_CHARS: usize = 40;

pub(super) async fn run(session: &TaskSession, args: &Prune) -> Result<(), Failure> {
    let folders = ops::state_folders(session).await.or_fail("prune")?;
    let (gone, kept): (Vec<StateFolder>, Vec<StateFolder>) =
        folders
            .into_iter()
            .partition(|folder| match folder.use_of_it {
                FolderUse::None => true,
                FolderUse::Unread => args.unread,
                FolderUse::Daemon
                | FolderUse::Session
                | FolderUse::OtherServer(_)
                | FolderUse::Unknown(_) => false,
            });
    if !args.yes && !gone.is_empty() {
        let now = clock::now().wall;
        for folder in &gone {
            output::note(&format!("to remove: {}", described(folder, now)));
        }
        note_kept(&kept, now);
        let folders = text::counted(gone.len(), "state folder");
        let bytes = text::size(gone.iter().map(|folder| folder.bytes).sum());
        confirm::ask(
            "prune",
            "this removes what is kept of these sessions",
            &format!("Remove {folders} ({bytes})?"),
            "nothing was removed",
        )?;
    }
    let mut removed = Vec::new();
    for folder in &gone {
        if ops::remove_state(session, folder).or_fail("prune")? {
            removed.push(folder);
        }
    }
    if args.json.json {
        let kept: Vec<Value> = kept.iter().map(to_json).collect();
        let removed: Vec<Value> = removed.into_iter().map(to_json).collect();
        return output::json(&json!({ "removed": removed, "kept": kept }));
    }
    let now = clock::now().wall;
    if args.yes || gone.is_empty() {
        note_kept(&kept, now);
    }
    let lines = removed.iter();
    output::lines(lines.map(|folder| format!("removed {}", described(folder, now))))
}

/// Names the folders that a user may wonder about.
fn note_kept(kept: &[StateFolder], now: Millis) {
    for folder in kept {
        let why = reason(&folder.use_of_it);
        let hint = match folder.use_of_it {
            FolderUse::Unread => " (--unread removes it)",
            FolderUse::Daemon | FolderUse::Session => continue,
            FolderUse::None | FolderUse::OtherServer(_) | FolderUse::Unknown(_) => "",
        };
        output::note(&format!("kept: {}: {why}{hint}", described(folder, now)));
    }
}

/// `work, 1.2 MiB, last written 3d ago, /home/ana/.local/state/tmux-task/work-0123456789ab`
fn described(folder: &StateFolder, now: Millis) -> String {
    let path = folder.path.display().to_string();
    format!(
        "{}, {}, last written {} ago, {}",
        name(folder).unwrap_or_else(|| "unknown session".to_owned()),
        text::size(folder.bytes),
        ls::age(now - folder.used_at),
        text::one_line(path.as_bytes(), usize::MAX)
    )
}

fn name(folder: &StateFolder) -> Option<String> {
    let name = folder.session.as_ref()?;
    Some(text::one_line(name.as_bytes(), NAME_CHARS))
}

fn reason(use_of_it: &FolderUse) -> String {
    match use_of_it {
        FolderUse::None => "its session is gone".to_owned(),
        FolderUse::Unread => "it has messages that nobody has read".to_owned(),
        FolderUse::Daemon => "a daemon runs".to_owned(),
        FolderUse::Session => "its session exists".to_owned(),
        FolderUse::OtherServer(pid) => {
            format!("its tmux server (pid {pid}) runs and is not the present one")
        }
        FolderUse::Unknown(why) => text::one_line(why.as_bytes(), 300),
    }
}

fn to_json(folder: &StateFolder) -> Value {
    json!({
        "folder": folder.path.display().to_string(),
        "sessionName": name(folder),
        "bytes": folder.bytes,
        "usedAt": folder.used_at,
        "unread": folder.use_of_it == FolderUse::Unread,
        "reason": reason(&folder.use_of_it),
    })
}

//! Notes of where conversations have tasks on other machines: a small file for each conversation and session
//! there.
//!
//! A launch creates its note before anything else, and holds it until the command has ended. A note is
//! removed only if no launch holds it, or has held it since it was asked whether there are tasks. So no launch
//! is forgotten.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::lookup;
use super::session::SessionChoice;
use crate::files::{self, OPEN_TO_OTHERS};
use crate::hosts::FarCall;
use crate::model::{Backoff, Error};
use crate::paths::{HOSTS, hex, state_root};
use crate::wire::client_of;

/// How long a launch waits for a note that is about to be removed: who removes it may have been stopped.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait before trying again to get a note.
const PAUSE: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));

/// The longest note that is read, in bytes.
const MAX_NOTE: u64 = 16 * 1024;

/// A session on another machine in which a conversation has launched tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostNote {
    pub(super) owner: String,
    /// The machine.
    pub(super) host: String,
    /// What chooses the session and its server there, as words of a command.
    pub(super) session: Vec<String>,
}

/// A feed on another machine: the machine, and what names the feed there.
pub(crate) type FarFeed = (String, String);

/// The folder of the notes.
#[derive(Debug, Clone)]
pub(crate) struct HostNotes {
    folder: PathBuf,
}

/// A note that is not removed while this exists.
#[derive(Debug)]
pub(crate) struct HeldNote {
    _file: File,
}

/// Returns what chooses a session and its server, as words of a command.
pub(crate) fn session_words(choice: &SessionChoice) -> Vec<String> {
    let server = &choice.server;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let name = server.socket_name.as_ref();
    let given = [
        ("-L", name.map(|name| name.to_string_lossy().into_owned())),
        ("-S", path(&server.socket_path)),
        ("--tmux", path(&server.program)),
        ("-s", choice.session.clone()),
    ];
    let given = given
        .into_iter()
        .filter_map(|(option, value)| Some([option.to_owned(), value?]));
    given.flatten().collect()
}

/// Notes that the conversation which makes a call is about to launch tasks by it. The note is to be held until
/// the command has ended. `None` if no conversation makes it whose client has an adapter.
pub(crate) async fn note_host(
    call: &FarCall,
    choice: &SessionChoice,
) -> Result<Option<HeldNote>, Error> {
    let owner = call.owner.as_ref();
    let Some(owner) = owner.filter(|owner| client_of(owner).is_some()) else {
        return Ok(None);
    };
    let notes = HostNotes::find()?;
    let note = HostNote {
        owner: owner.clone(),
        host: call.caller.host.clone(),
        session: session_words(&SessionChoice {
            session: call.session.clone(),
            ..choice.clone()
        }),
    };
    let held = notes.hold(&note).await.map(Some);
    held.map_err(|source| Error::folder(&notes.folder, &source))
}

/// Returns the owners that have tasks on other machines.
pub(crate) fn owners_with_hosts() -> Result<BTreeSet<String>, Error> {
    let notes = HostNotes::find()?.list();
    Ok(notes.into_iter().map(|note| note.owner).collect())
}

impl HostNote {
    /// Returns what names its feed.
    pub(crate) fn feed(&self) -> FarFeed {
        (self.host.clone(), self.session.join("\0"))
    }

    /// Whether the conversation is this one.
    pub(crate) fn is_of(&self, owner: &str) -> bool {
        self.owner == owner
    }
}

impl HostNotes {
    /// Returns the notes of this machine's conversations.
    ///
    /// # Errors
    ///
    /// When the environment names no folder for state.
    pub(crate) fn find() -> Result<Self, Error> {
        let folder = state_root(&lookup)?.join(HOSTS).join("to");
        Ok(Self { folder })
    }

    /// Holds a note; creates it, durably, if there is none.
    async fn hold(&self, note: &HostNote) -> io::Result<HeldNote> {
        files::make_folder(&self.folder, OPEN_TO_OTHERS)?;
        let path = self.path(note);
        let (deadline, mut pause) = (Instant::now() + PATIENCE, PAUSE);
        let mut file = loop {
            let file = files::open_to_write(&path)?;
            if file.try_lock_shared().is_ok() && is_at(&file, &path) {
                break file;
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sleep(pause.next_pause()).await;
        };
        let mut found = Vec::new();
        file.read_to_end(&mut found)?;
        if serde_json::from_slice::<HostNote>(&found).is_err() {
            file.rewind()?;
            file.set_len(0)?;
            file.write_all(&serde_json::to_vec(note).map_err(io::Error::from)?)?;
            file.sync_data()?;
            files::sync_folder(&self.folder)?;
        }
        // Who has asked before whether there are tasks does not know of those of this launch.
        file.set_modified(SystemTime::now())?;
        Ok(HeldNote { _file: file })
    }

    /// Returns all notes. Those that cannot be read are left out.
    pub(crate) fn list(&self) -> Vec<HostNote> {
        if files::check_owner_of_folder(&self.folder).is_err() {
            return Vec::new();
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let read = |entry: fs::DirEntry| {
            let mut bytes = Vec::new();
            let file = files::open(&entry.path()).ok()?;
            file.take(MAX_NOTE).read_to_end(&mut bytes).ok()?;
            serde_json::from_slice(&bytes).ok()
        };
        entries.filter_map(read).collect()
    }

    /// Returns when a launch got the note last.
    pub(super) fn held_at(&self, note: &HostNote) -> Option<SystemTime> {
        let file = fs::metadata(self.path(note));
        file.and_then(|file| file.modified()).ok()
    }

    /// Removes a note, unless a launch holds it, or has held it since then. Returns whether it did.
    pub(super) fn forget(&self, note: &HostNote, since: Option<SystemTime>) -> bool {
        let path = self.path(note);
        let Ok(file) = files::open_existing_to_write(&path) else {
            return false;
        };
        let is_forgotten = file.try_lock().is_ok()
            && is_at(&file, &path)
            && self.held_at(note) == since
            && fs::remove_file(&path).is_ok();
        // A child that another thread is starting may have the file open for a moment longer.
        file.unlock().unwrap_or_default();
        is_forgotten
    }

    /// Returns what resolves when notes have changed.
    ///
    /// # Errors
    ///
    /// When the folder cannot be watched.
    pub(crate) fn watch(&self) -> io::Result<NoteWatch> {
        files::make_folder(&self.folder, OPEN_TO_OTHERS)?;
        NoteWatch::new(&self.folder)
    }

    fn path(&self, note: &HostNote) -> PathBuf {
        let names = format!("{}\0{}\0{}", note.owner, note.host, note.session.join("\0"));
        self.folder.join(hex(names.as_bytes(), 32))
    }
}

/// Whether this is the file at the path: it may have been removed before its lock was free.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let is_same = |found, opened| identity(found) == identity(opened);
    fs::symlink_metadata(path)
        .ok()
        .zip(file.metadata().ok())
        .is_some_and(|(found, opened)| is_same(found, opened))
}

/// Reports changes of a folder's files, from its creation on.
#[cfg(linux)]
#[derive(Debug)]
pub(crate) struct NoteWatch(tokio::net::unix::pipe::Receiver);

#[cfg(linux)]
impl NoteWatch {
    fn new(folder: &Path) -> io::Result<Self> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        add_watch(
            &watch,
            folder,
            WatchFlags::MODIFY | WatchFlags::ATTRIB | WatchFlags::DELETE,
        )?;
        // Unchecked is only that it is a pipe. It is read in the same way.
        tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(watch).map(Self)
    }

    /// Resolves when a launch has got its note, or one was removed.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn changed(&mut self) {
        if self.0.readable().await.is_err() {
            return std::future::pending().await;
        }
        let mut events = [0; 4096];
        while self.0.try_read(&mut events).is_ok() {}
    }
}

/// Where files are not watched, they are looked at every second.
#[cfg(not(linux))]
#[derive(Debug)]
pub(crate) struct NoteWatch;

#[cfg(not(linux))]
impl NoteWatch {
    fn new(_folder: &Path) -> io::Result<Self> {
        Ok(Self)
    }

    /// Resolves when a note may have been written.
    pub(crate) async fn changed(&mut self) {
        sleep(Duration::from_secs(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(dir: &tempfile::TempDir) -> HostNotes {
        HostNotes {
            folder: dir.path().join("to"),
        }
    }

    fn note(host: &str) -> HostNote {
        HostNote {
            owner: "pi:1".to_owned(),
            host: host.to_owned(),
            session: vec!["-s".to_owned(), "work".to_owned()],
        }
    }

    fn hosts(notes: &HostNotes) -> Vec<String> {
        let mut all: Vec<_> = notes.list().into_iter().map(|note| note.host).collect();
        all.sort();
        all
    }

    #[tokio::test]
    async fn a_note_that_a_launch_holds_or_has_held_since_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let notes = notes(&dir);
        assert!(hosts(&notes).is_empty() && !notes.forget(&note("gpu1"), None));
        let first = notes.hold(&note("gpu1")).await.unwrap();
        let asked = notes.held_at(&note("gpu1"));
        let second = notes.hold(&note("gpu1")).await.unwrap();
        let other = notes.hold(&note("gpu2")).await.unwrap();
        let held_at = notes.held_at(&note("gpu1"));
        drop(first);
        assert!(!notes.forget(&note("gpu1"), held_at));
        drop((second, other));
        assert_eq!(hosts(&notes), ["gpu1", "gpu2"]);
        assert!(asked == held_at || !notes.forget(&note("gpu1"), asked));
        assert!(notes.forget(&note("gpu1"), held_at));
        assert_eq!(hosts(&notes), ["gpu2"]);
    }

    #[tokio::test]
    async fn a_launch_that_finds_its_note_taken_makes_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let notes = notes(&dir);
        drop(notes.hold(&note("gpu1")).await.unwrap());
        let path = notes.path(&note("gpu1"));
        let taken = files::open_existing_to_write(&path).unwrap();
        taken.try_lock().unwrap();
        let gpu1 = note("gpu1");
        let launch = notes.hold(&gpu1);
        let remove = async {
            fs::remove_file(&path).unwrap();
            drop(taken);
        };
        let (launched, ()) = tokio::join!(launch, remove);
        drop(launched.unwrap());
        assert_eq!(hosts(&notes), ["gpu1"]);
    }

    #[tokio::test]
    async fn a_damaged_note_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let notes = notes(&dir);
        drop(notes.hold(&note("gpu1")).await.unwrap());
        fs::write(notes.path(&note("gpu1")), "").unwrap();
        assert!(hosts(&notes).is_empty());
        drop(notes.hold(&note("gpu1")).await.unwrap());
        assert_eq!(hosts(&notes), ["gpu1"]);
    }

    #[tokio::test]
    async fn a_new_note_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let notes = notes(&dir);
        let mut watch = notes.watch().unwrap();
        drop(notes.hold(&note("gpu1")).await.unwrap());
        watch.changed().await;
        assert_eq!(hosts(&notes), ["gpu1"]);
    }
}

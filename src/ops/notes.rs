//! Notes of which conversations have tasks on other machines: a small file for each conversation and
//! place.
//!
//! A launch creates its note before anything else, and holds it until the task runs. What removes a
//! note takes it first, which is possible only while no launch holds it. So no launch is forgotten.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Backoff, Error};
use crate::paths::{Env, HOSTS, hex, state_root};

/// How long a launch waits for a note that is about to be removed.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait before trying again to get a note.
const PAUSE: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));

/// The longest note that is read, in bytes.
const MAX_NOTE: u64 = 16 * 1024;

/// A folder of notes.
#[derive(Debug, Clone)]
pub(crate) struct Notes {
    pub(crate) folder: PathBuf,
}

/// A note that is not removed while this exists.
#[derive(Debug)]
pub(crate) struct HeldNote {
    _file: File,
}

/// A note that no launch holds, and that none gets while this exists.
#[derive(Debug)]
pub(crate) struct TakenNote {
    path: PathBuf,
    file: File,
}

impl Notes {
    /// Returns the notes of this machine's conversations: where they have tasks.
    ///
    /// # Errors
    ///
    /// When the environment names no folder for state.
    pub(crate) fn of_conversations(env: Env<'_>) -> Result<Self, Error> {
        let folder = state_root(env)?.join(HOSTS).join("to");
        Ok(Self { folder })
    }

    /// Holds the note of this conversation and place; creates it, durably, if there is none.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) async fn hold(
        &self,
        conversation: &str,
        place: &str,
        note: &impl Serialize,
    ) -> io::Result<HeldNote> {
        files::make_folder(&self.folder, OPEN_TO_OTHERS)?;
        let path = self.path(conversation, place);
        let (deadline, mut pause) = (Instant::now() + PATIENCE, PAUSE);
        loop {
            let mut file = files::open_to_write(&path)?;
            if file.try_lock_shared().is_ok() && is_at(&file, &path) {
                let mut found = Vec::new();
                file.read_to_end(&mut found)?;
                if serde_json::from_slice::<serde_json::Value>(&found).is_err() {
                    file.rewind()?;
                    file.set_len(0)?;
                    file.write_all(&serde_json::to_vec(note).map_err(io::Error::from)?)?;
                    file.sync_data()?;
                    files::sync_folder(&self.folder)?;
                }
                // Who has asked before whether there are tasks does not know of those of this launch.
                file.set_modified(SystemTime::now())?;
                return Ok(HeldNote { _file: file });
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sleep(pause.next_pause()).await;
        }
    }

    /// Returns all notes. Those that cannot be read are left out.
    pub(crate) fn list<T: DeserializeOwned>(&self) -> Vec<T> {
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

    /// Returns when a launch got the note of this conversation and place last.
    pub(crate) fn held_at(&self, conversation: &str, place: &str) -> Option<SystemTime> {
        let note = fs::metadata(self.path(conversation, place));
        note.and_then(|note| note.modified()).ok()
    }

    /// Takes a note, to remove it; `None` if a launch holds it.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub(crate) fn take(&self, conversation: &str, place: &str) -> io::Result<Option<TakenNote>> {
        let path = self.path(conversation, place);
        let file = files::open_existing_to_write(&path)?;
        let is_ours = file.try_lock().is_ok() && is_at(&file, &path);
        Ok(is_ours.then_some(TakenNote { path, file }))
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

    fn path(&self, conversation: &str, place: &str) -> PathBuf {
        let names = format!("{conversation}\0{place}");
        self.folder.join(hex(names.as_bytes(), 32))
    }
}

impl TakenNote {
    /// Removes the note.
    ///
    /// # Errors
    ///
    /// When it cannot be removed.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl Drop for TakenNote {
    fn drop(&mut self) {
        // A child that another thread is starting may have the file open for a moment longer.
        self.file.unlock().unwrap_or_default();
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
    use std::ffi::OsString;

    use super::*;

    fn notes(dir: &tempfile::TempDir) -> Notes {
        let root = OsString::from(dir.path());
        Notes::of_conversations(&|name: &str| (name == "TMUX_TASK_STATE_DIR").then(|| root.clone()))
            .unwrap()
    }

    #[tokio::test]
    async fn a_note_that_a_launch_holds_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let notes = notes(&dir);
        assert_eq!(notes.list::<String>(), Vec::<String>::new());
        let first = notes.hold("pi:1", "gpu1", &"one").await.unwrap();
        let second = notes.hold("pi:1", "gpu1", &"another").await.unwrap();
        let other = notes.hold("pi:1", "gpu2", &"two").await.unwrap();
        drop(first);
        assert!(notes.take("pi:1", "gpu1").unwrap().is_none());
        drop((second, other));
        assert_eq!(sorted(&notes), ["one", "two"]);
        let taken = notes.take("pi:1", "gpu1").unwrap().unwrap();
        taken.remove().unwrap();
        assert_eq!(sorted(&notes), ["two"]);
    }

    fn sorted(notes: &Notes) -> Vec<String> {
        let mut all = notes.list::<String>();
        all.sort();
        all
    }

    #[tokio::test]
    async fn a_launch_that_finds_its_note_taken_makes_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let notes = notes(&dir);
        drop(notes.hold("pi:1", "gpu1", &"old").await.unwrap());
        let taken = notes.take("pi:1", "gpu1").unwrap().unwrap();
        let launch = notes.hold("pi:1", "gpu1", &"new");
        let remove = async {
            tokio::task::yield_now().await;
            taken.remove().unwrap();
        };
        let (held, ()) = tokio::join!(launch, remove);
        held.unwrap();
        assert_eq!(sorted(&notes), ["new"]);
    }

    #[tokio::test]
    async fn a_damaged_note_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let notes = notes(&dir);
        drop(notes.hold("pi:1", "gpu1", &"a").await.unwrap());
        fs::write(notes.path("pi:1", "gpu1"), "").unwrap();
        assert_eq!(sorted(&notes), Vec::<String>::new());
        drop(notes.hold("pi:1", "gpu1", &"b").await.unwrap());
        assert_eq!(sorted(&notes), ["b"]);
    }

    #[tokio::test]
    async fn a_new_note_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let notes = notes(&dir);
        let mut watch = notes.watch().unwrap();
        drop(notes.hold("pi:1", "gpu1", &"a").await.unwrap());
        watch.changed().await;
        assert_eq!(sorted(&notes), ["a"]);
    }
}

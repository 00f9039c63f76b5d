//! Notes of where conversations have tasks on other machines: a small file for each launch there.
//!
//! A launch creates its file before anything else, and holds it until the command has ended. Files are removed
//! if no launch held them when it was asked whether there are tasks, and there were none. So no launch is
//! forgotten.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::lookup;
use super::session::SessionChoice;
use crate::config::paths::{HOSTS, hex, state_root};
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Error, FarCall};
use crate::rules::wire::client_of;

const MAX_NOTE: u64 = 16 * 1024;

/// A session on another machine in which a conversation has launched tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostNote {
    pub(crate) owner: String,
    pub(super) host: String,
    /// What chooses the session and its server there, as words of a command.
    pub(super) session: Vec<String>,
}

/// A feed on another machine: the machine, and what names the feed there.
pub(crate) type FarFeed = (String, String);

#[derive(Debug, Clone)]
pub(crate) struct HostNotes {
    folder: PathBuf,
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
    let words = given.into_iter();
    let words = words.filter_map(|(option, value)| Some([option.to_owned(), value?]));
    words.flatten().collect()
}

/// Notes that a conversation with an adapter is about to launch tasks by this call, if it makes it. The note
/// is not removed while its file, which is returned, is open: it has to be until the command has ended.
pub(crate) fn note_host(call: &FarCall, choice: &SessionChoice) -> Result<Option<File>, Error> {
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
    let held = notes.hold(&note).map(Some);
    held.map_err(|source| Error::folder(&notes.folder, &source))
}

pub(crate) fn owners_with_hosts() -> Result<BTreeSet<String>, Error> {
    let notes = HostNotes::find()?.list().into_iter();
    Ok(notes.map(|(_, note)| note.owner).collect())
}

impl HostNote {
    pub(crate) fn feed(&self) -> FarFeed {
        (self.host.clone(), self.session.join("\0"))
    }
}

impl HostNotes {
    /// Returns the notes of this machine's conversations.
    pub(crate) fn find() -> Result<Self, Error> {
        let folder = state_root(&lookup)?.join(HOSTS).join("to");
        Ok(Self { folder })
    }

    /// Creates the note of a launch, durably. It is held by its open file.
    fn hold(&self, note: &HostNote) -> io::Result<File> {
        files::make_folder(&self.folder, OPEN_TO_OTHERS)?;
        let launch = format!("{note:?} {} {:?}", std::process::id(), SystemTime::now());
        let mut file = files::create_new(&self.folder.join(hex(launch.as_bytes(), 32)))?;
        file.lock()?;
        file.write_all(&serde_json::to_vec(note).map_err(io::Error::from)?)?;
        file.sync_data()?;
        files::sync_folder(&self.folder)?;
        Ok(file)
    }

    /// Returns all notes, with their files. Those that cannot be read are left out.
    pub(crate) fn list(&self) -> Vec<(PathBuf, HostNote)> {
        if files::check_owner_of_folder(&self.folder).is_err() {
            return Vec::new();
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let read = |entry: fs::DirEntry| {
            let mut bytes = Vec::new();
            let file = files::open(&entry.path()).ok()?;
            file.take(MAX_NOTE).read_to_end(&mut bytes).ok()?;
            Some((entry.path(), serde_json::from_slice(&bytes).ok()?))
        };
        entries.filter_map(read).collect()
    }

    /// Returns the files of a note if no launch holds one of them.
    pub(super) fn settled(&self, note: &HostNote) -> Option<Vec<PathBuf>> {
        let of_note = self.list().into_iter().filter(|(_, found)| found == note);
        let files: Vec<PathBuf> = of_note.map(|(path, _)| path).collect();
        let is_free = |path| files::open(path).is_ok_and(|file| file.try_lock_shared().is_ok());
        files.iter().all(|path| is_free(path)).then_some(files)
    }

    pub(crate) fn watch(&self) -> io::Result<NoteWatch> {
        files::make_folder(&self.folder, OPEN_TO_OTHERS)?;
        NoteWatch::new(&self.folder)
    }
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
        add_watch(&watch, folder, WatchFlags::MODIFY | WatchFlags::DELETE)?;
        // Unchecked is only that it is a pipe. It is read in the same way.
        tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(watch).map(Self)
    }

    /// Resolves when a launch has written its note, or one was removed. It is cancel safe.
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
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> (tempfile::TempDir, HostNotes) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("to");
        (dir, HostNotes { folder })
    }

    fn note(host: &str) -> HostNote {
        HostNote {
            owner: "pi:1".to_owned(),
            host: host.to_owned(),
            session: vec!["-s".to_owned(), "work".to_owned()],
        }
    }

    fn hosts(notes: &HostNotes) -> Vec<String> {
        let all = notes.list().into_iter().map(|(_, note)| note.host);
        let mut all: Vec<String> = all.collect();
        all.sort();
        all
    }

    /// The files of a note that no launch holds any more. A child that another test starts has all files of this
    /// process, and with them their locks, until it becomes another program.
    fn settled(notes: &HostNotes, host: &str) -> Vec<PathBuf> {
        let start = std::time::Instant::now();
        loop {
            if let Some(files) = notes.settled(&note(host)) {
                return files;
            }
            assert!(start.elapsed().as_secs() < 20, "{host} is held");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_note_that_a_launch_holds_or_makes_meanwhile_is_not_removed() {
        let (_dir, notes) = notes();
        assert!(hosts(&notes).is_empty());
        let first = notes.hold(&note("gpu1")).unwrap();
        let second = notes.hold(&note("gpu1")).unwrap();
        let _other = notes.hold(&note("gpu2")).unwrap();
        drop(first);
        assert_eq!(notes.settled(&note("gpu1")), None);
        drop(second);
        let files = settled(&notes, "gpu1");
        drop(notes.hold(&note("gpu1")).unwrap());
        files.iter().for_each(|path| fs::remove_file(path).unwrap());
        assert_eq!(hosts(&notes), ["gpu1", "gpu2"]);
        assert_eq!(settled(&notes, "gpu1").len(), 1);
    }

    #[tokio::test]
    async fn a_new_note_is_noticed_and_a_damaged_one_is_left_out() {
        let (_dir, notes) = notes();
        let mut watch = notes.watch().unwrap();
        drop(notes.hold(&note("gpu1")).unwrap());
        watch.changed().await;
        fs::write(notes.folder.join("x"), "").unwrap();
        assert_eq!(hosts(&notes), ["gpu1"]);
    }
}

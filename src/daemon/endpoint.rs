//! The daemon's socket and its locks: how it is found, and what prevents a second one.
//!
//! They can disappear while it runs: systemd empties a runtime folder when the last login of its user ends, while
//! tmux and the daemon continue, and cleaners empty `/tmp`. So they are checked from time to time and created again.
//! Meanwhile a second lock, in the state folder, shows others that the daemon runs.

use std::fmt::Display;
use std::fs::{self, File, Metadata, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::Instrument;

use super::connection::{self, ConnectionMessage};
use super::streams::Streams;
use super::timer::Timer;
use crate::config::paths::Paths;
use crate::files;
use crate::model::{Error, ErrorKind};
use crate::process;
use crate::rules::wire::Response;
use crate::tmux::TmuxError;

/// How often they are checked. A command that has started a daemon waits twice as long for its socket.
const LOOK_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Locks {
    runtime: File,
    /// `None` where the state folder's file system has no locks.
    state: Option<File>,
}

impl Locks {
    pub(super) fn take(paths: &Paths) -> Result<Self, DaemonError> {
        Ok(Self {
            // First the permanent one: a process that does not get it must not hold the other.
            state: take_state(paths)?,
            runtime: hold(&paths.lock())?,
        })
    }

    /// Takes the lock in the state folder as well, now that it exists.
    pub(super) fn complete(&mut self, paths: &Paths) -> Result<(), DaemonError> {
        if self.state.is_none() {
            self.state = take_state(paths)?;
        }
        Ok(())
    }
}

/// Takes the lock in the state folder, if that exists and has locks, and writes our runtime folder behind our pid.
fn take_state(paths: &Paths) -> Result<Option<File>, DaemonError> {
    if !paths.state.is_dir() {
        return Ok(None);
    }
    let path = paths.state_lock();
    let held = hold(&path).and_then(|mut lock| {
        let written = writeln!(lock, "{}", paths.runtime.display());
        written.map_err(|error| unusable(&path, &error))?;
        Ok(lock)
    });
    match held {
        Ok(lock) => Ok(Some(lock)),
        Err(DaemonError::Failed(error)) if error.kind != ErrorKind::NotOurs => {
            tracing::debug!(%error, "no lock in the state folder");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[derive(Debug)]
pub(super) struct Endpoint {
    paths: Paths,
    pub(super) locks: Locks,
    listener: UnixListener,
    socket: Socket,
    acceptor: Acceptor,
    /// Whether it was logged that something cannot be created again.
    has_complained: bool,
}

impl Endpoint {
    /// Listens, for at most so many connections. We hold the lock: an existing socket is a dead daemon's.
    pub(super) fn begin(paths: &Paths, locks: Locks, most: usize) -> Result<Self, DaemonError> {
        let (listener, socket) = listen(&paths.socket())?;
        Ok(Self {
            paths: paths.clone(),
            locks,
            listener,
            socket,
            acceptor: Acceptor {
                spare: spare(),
                most,
                complained_at: None,
            },
            has_complained: false,
        })
    }

    /// Serves all clients, beside the event loop, until another daemon has taken the place of this one. They are
    /// served by `tasks`, whose others hardly count.
    pub(super) async fn serve(
        &mut self,
        requests: mpsc::Sender<ConnectionMessage>,
        streams: Streams,
        stopping: watch::Sender<bool>,
        tasks: &mut JoinSet<()>,
    ) {
        let timer = Timer::new();
        let mut due = Instant::now() + LOOK_EVERY;
        loop {
            // Losing an arm is safe: nothing is taken before it is done.
            tokio::select! {
                socket = self.acceptor.accept(&self.listener, tasks.len()) => {
                    let (requests, streams) = (requests.clone(), streams.clone());
                    let serving = connection::serve(socket, requests, streams, stopping.clone());
                    tasks.spawn(serving.instrument(tracing::info_span!("connection")));
                }
                Some(ended) = tasks.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a connection panicked");
                    }
                }
                () = timer.until(Some(due)) => {
                    if !self.check_and_recreate() {
                        return;
                    }
                    due = Instant::now() + LOOK_EVERY;
                }
            }
        }
    }

    /// Creates again what is not there any more. Returns whether the daemon continues: not if another one has taken
    /// its place.
    fn check_and_recreate(&mut self) -> bool {
        match self.make_again() {
            Ok(made) => {
                if made {
                    tracing::warn!("created the socket and the lock again: they had been deleted");
                }
                self.has_complained = false;
                true
            }
            Err(DaemonError::Running { pid, .. }) if is_held_by(&self.paths.lock(), pid) => {
                tracing::error!(pid, "another daemon has taken over");
                false
            }
            Err(error) => {
                if !self.has_complained {
                    tracing::warn!(%error, "commands cannot find this daemon: its socket or its lock was deleted");
                }
                self.has_complained = true;
                true
            }
        }
    }

    fn make_again(&mut self) -> Result<bool, DaemonError> {
        let path = self.paths.lock();
        let ours = self.locks.runtime.metadata();
        let is_locked = ours.is_ok_and(|ours| is_file(&ours, &path));
        if is_locked && self.socket.is_there() {
            return Ok(false);
        }
        self.paths.create_runtime()?;
        if !is_locked {
            self.locks.runtime = hold(&path)?;
        }
        if !self.socket.is_there() {
            let (listener, socket) = listen(&self.paths.socket())?;
            (self.listener, self.socket) = (listener, socket);
        }
        Ok(true)
    }
}

/// The socket's file. It is removed when the daemon ends, in any way.
#[derive(Debug)]
struct Socket {
    path: PathBuf,
    found: Metadata,
}

impl Socket {
    /// Whether the file still exists and was not replaced.
    fn is_there(&self) -> bool {
        is_file(&self.found, &self.path)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_there()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(%error, "could not remove the socket");
        }
    }
}

fn listen(path: &Path) -> Result<(UnixListener, Socket), DaemonError> {
    let failed = |error| Error::io(format_args!("could not make {}", path.display()), &error);
    files::if_there(fs::remove_file(path)).map_err(failed)?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    let socket = Socket {
        path: path.to_owned(),
        found: fs::symlink_metadata(path).map_err(failed)?,
    };
    Ok((listener, socket))
}

/// How long to leave the socket alone when no connection can be accepted, not even to refuse it: the kernel
/// allocates a descriptor before it checks for a connection, so that the next attempt would fail at once.
const PAUSE: Duration = Duration::from_millis(500);

const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Accepts connections up to a limit, and refuses further ones.
#[derive(Debug)]
struct Acceptor {
    /// A descriptor to release when there is none left, so that the next client can be sent the reason of its refusal.
    spare: Option<File>,
    most: usize,
    complained_at: Option<Instant>,
}

impl Acceptor {
    /// Resolves with the next connection that can be served while so many are open. It never fails and never spins,
    /// and no connection is lost when the future is dropped.
    async fn accept(&mut self, listener: &UnixListener, n_open: usize) -> UnixStream {
        loop {
            let socket = match listener.accept().await {
                Ok((socket, _)) => socket,
                Err(error) => {
                    self.complain(&error);
                    if self.spare.take().is_none() {
                        sleep(PAUSE).await;
                    }
                    continue;
                }
            };
            self.spare = self.spare.take().or_else(spare);
            let why = if self.spare.is_none() {
                "the daemon has no descriptor left".to_owned()
            } else if n_open >= self.most {
                format!("the daemon serves {} connections already", self.most)
            } else {
                return socket;
            };
            self.complain(&why);
            let line = connection::line_of(&Response::Refused(Error::failed(why)));
            let socket = socket.into_std();
            // A new connection has room for that, so this never blocks.
            if let Err(error) = socket.and_then(|mut socket| socket.write_all(&line)) {
                tracing::debug!(%error, "could not send a refusal");
            }
        }
    }

    fn complain(&mut self, why: &dyn Display) {
        let now = Instant::now();
        let is_due = |at: Instant| at + COMPLAIN_EVERY <= now;
        if self.complained_at.is_none_or(is_due) {
            self.complained_at = Some(now);
            tracing::warn!(%why, "connections are turned away");
        }
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

/// How long a daemon may take to leave: less than a command may take in all.
const STOPPED_WITHIN: Duration = Duration::from_secs(9);

/// How often its lock is tried meanwhile: the kernel does not report that a lock is free without giving it away.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// Whether the file at `path`, which may be a link, is still the identified one.
fn is_file(found: &Metadata, path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|there| (there.dev(), there.ino()) == (found.dev(), found.ino()))
}

/// Takes the lock, which is held as long as its file is open, and writes our pid into it.
fn hold(path: &Path) -> Result<File, DaemonError> {
    let failed = |error| unusable(path, &error);
    let mut file = files::open_to_write(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut written = Vec::new();
            file.read_to_end(&mut written).map_err(failed)?;
            return Err(DaemonError::Running {
                pid: pid_in(&written).unwrap_or(0),
                folder: None,
            });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

fn unusable(path: &Path, error: &io::Error) -> DaemonError {
    let what = format!("could not use the lock {}", path.display());
    let kind = match files::is_refusal(error) {
        true => ErrorKind::NotOurs,
        false => ErrorKind::Failed,
    };
    let failed = Error::io(what, error);
    Error { kind, ..failed }.into()
}

fn pid_in(written: &[u8]) -> Option<u32> {
    let written = str::from_utf8(written).ok()?;
    written.lines().next()?.parse().ok()
}

/// Whether the daemon with this pid holds the lock at `path`. Trying the lock, for which moment it looks taken to a
/// daemon that starts, comes last.
pub(super) fn is_held_by(path: &Path, pid: u32) -> bool {
    process::exists(pid) && written_pid(path) == Some(pid) && is_held(path)
}

/// Returns the pid of the daemon that holds the lock at `path`, or held it last.
pub(crate) fn written_pid(path: &Path) -> Option<u32> {
    pid_in(&files::read(path).ok()?)
}

/// Returns the pid of the daemon that has these files, but another folder for its socket, so that no command finds it.
pub(crate) fn held_elsewhere(paths: &Paths) -> Option<u32> {
    let path = paths.state_lock();
    let written = files::read(&path).ok()?;
    let written = String::from_utf8_lossy(&written);
    let (pid, runtime) = written.trim_end_matches('\n').split_once('\n')?;
    let pid = pid.parse().ok()?;
    let is_other = runtime != paths.runtime.to_string_lossy();
    (is_other && is_held_by(&path, pid)).then_some(pid)
}

pub(crate) fn is_held(path: &Path) -> bool {
    files::open(path).is_ok_and(|file| file.try_lock_shared().is_err())
}

/// Waits until the daemon with this pid, which was asked to stop, has left: it holds the lock at `path`
/// until then. A command may have started the next one by then, which takes the lock over. Returns
/// whether it has left in time.
pub(crate) async fn has_left(path: &Path, asked: Option<u32>) -> bool {
    let deadline = Instant::now() + STOPPED_WITHIN;
    while written_pid(path) == asked && is_held(path) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(LOCK_POLL).await;
    }
    true
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// Another daemon supervises the session.
    #[error("already running (pid {pid}){}", with(.folder))]
    Running {
        /// Its pid; 0 when it has not been written yet.
        pid: u32,
        /// The key of its folder, if that is another one: it has other files.
        folder: Option<String>,
    },
    #[error(transparent)]
    Failed(#[from] Error),
}

fn with(folder: &Option<String>) -> String {
    let with = |folder| format!(" with the files in `{folder}`");
    folder.as_ref().map_or_else(String::new, with)
}

/// Returns the error that a thread for the disk or for readers cannot be created.
pub(super) fn no_thread(error: io::Error) -> Error {
    Error::io("could not start a thread", &error)
}

impl From<TmuxError> for DaemonError {
    fn from(error: TmuxError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<DaemonError> for Error {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::Failed(error) => error,
            DaemonError::Running { .. } => Self::of(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream as Peer;

    use super::*;

    fn said(peer: &Peer) -> String {
        let mut line = String::new();
        BufReader::new(peer).read_line(&mut line).unwrap();
        line
    }

    #[tokio::test]
    async fn too_many_are_turned_away_until_one_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut acceptor = Acceptor {
            spare: spare(),
            most: 2,
            complained_at: None,
        };
        let peers = [0; 3].map(|_| Peer::connect(&path).unwrap());
        let _first = acceptor.accept(&listener, 0).await;
        let _second = acceptor.accept(&listener, 1).await;
        let third = tokio::time::timeout(Duration::from_millis(10), acceptor.accept(&listener, 2));
        assert!(third.await.is_err(), "there is room for two");
        assert!(said(&peers[2]).contains("serves 2 connections already"));
        let _peer = Peer::connect(&path).unwrap();
        acceptor.accept(&listener, 1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_has_left_when_another_one_has_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "7\n").unwrap();
        let lock = File::open(&path).unwrap();
        lock.lock().unwrap();
        assert!(!has_left(&path, Some(7)).await);
        assert!(has_left(&path, Some(6)).await);
        lock.unlock().unwrap();
        assert!(has_left(&path, Some(7)).await);
    }
}

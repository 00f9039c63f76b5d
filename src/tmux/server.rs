//! Which tmux program and which server to use, whether it is running, and signals to it.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command as Process};

use super::error::TmuxError;
use crate::env;
use crate::files::our_uid;
use crate::model::environment::reaches_tmux_server;
use crate::model::{Error, text};
use crate::rules::protocol::Command;

/// The program that is used if none is named.
const PROGRAM: &str = "tmux";

/// What to do where there is no tmux.
const INSTALL: &str = "install tmux 3.2 or newer, or name it with --tmux or $TMUX_TASK_TMUX";

/// What to do where a server cannot be named so.
const A_SERVER_OF_YOURS: &str = "-S takes the path of a server of yours";

/// The user's choice of program and server. What is `None` is left to the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerChoice {
    /// `-L`.
    pub socket_name: Option<OsString>,
    /// `-S`, which overrides `-L`.
    pub socket_path: Option<PathBuf>,
    /// `--tmux`.
    pub program: Option<PathBuf>,
}

/// A tmux server, running or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    program: PathBuf,
    /// Absolute, and without symbolic links where they can be resolved: our own state depends on
    /// it.
    socket: PathBuf,
    /// The limit on descriptors of its clients; `None` leaves it unchanged.
    descriptors: Option<u64>,
}

impl Server {
    /// Returns the server that tmux itself would choose: by `-S`, `-L`, `$TMUX` or its default. Fails when
    /// the name is a path, or the socket is another user's or a file of another kind, which tmux would
    /// delete. When neither `$TMUX_TMPDIR` nor `/tmp` exists, or the working directory is gone.
    pub(crate) fn locate(
        choice: &ServerChoice,
        env: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, TmuxError> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let named = choice.program.clone();
        let named = named.or_else(|| set("TMUX_TASK_TMUX").map(PathBuf::from));
        let mut program = named.unwrap_or_else(|| PathBuf::from(PROGRAM));
        // A name is looked for on PATH. A client that starts a server does not stand where we are.
        if program.components().count() > 1 {
            program = std::path::absolute(program).map_err(TmuxError::Io)?;
        }
        let socket = match (&choice.socket_path, &choice.socket_name) {
            (Some(path), _) => path.clone(),
            (None, Some(name)) => {
                // Another word would lead out of the folder that only its user can write to.
                let is_name = Path::new(name).file_name() == Some(name);
                let named = is_name.then_some(name).ok_or_else(|| {
                    Error::usage("-L takes the name of a tmux server, without `/`")
                        .with_hint(A_SERVER_OF_YOURS)
                })?;
                default_folder(set("TMUX_TMPDIR"))?.join(named)
            }
            (None, None) => match set("TMUX").and_then(|value| first_field(&value)) {
                Some(path) => path,
                None => default_folder(set("TMUX_TMPDIR"))?.join("default"),
            },
        };
        let socket = canonical(std::path::absolute(socket).map_err(TmuxError::Io)?);
        if std::fs::metadata(&socket).is_ok_and(|found| !found.file_type().is_socket()) {
            let socket = socket.display();
            let other = Error::failed(format!("{socket} is not a tmux socket but something else"));
            let hint = "-S takes the path of a tmux server's socket";
            return Err(other.with_hint(hint).into());
        }
        check_owner(&socket)?;
        Ok(Self {
            program,
            socket,
            descriptors: None,
        })
    }

    /// Returns the server's socket, an absolute path.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the same server with a limit on descriptors for the clients that it starts, for a
    /// process whose own limit was raised.
    pub(crate) fn with_descriptors(&self, descriptors: Option<u64>) -> Self {
        Self {
            descriptors,
            ..self.clone()
        }
    }

    /// Returns the tmux program.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Runs the program, and returns its version if it is supported. When the future is dropped, the program
    /// is killed.
    pub(crate) async fn check_version(&self) -> Result<String, TmuxError> {
        let mut process = self.process();
        process.arg("-V").stdin(Stdio::null()).kill_on_drop(true);
        let output = process.output().await;
        let output = output.map_err(|source| self.not_started(source))?;
        let error = match version_in(&String::from_utf8_lossy(&output.stdout)) {
            Some(version) if is_supported(&version) => return Ok(version),
            Some(version) => {
                let what = format!("tmux {version} is too old, 3.2 or newer is needed");
                Error::failed(what).with_hint("name a newer one with --tmux or $TMUX_TASK_TMUX")
            }
            None => {
                let program = self.program.display();
                let why = "`-V` does not print a version of tmux";
                Error::failed(format!("`{program}` is not tmux: {why}"))
                    .with_hint("name tmux 3.2 or newer with --tmux or $TMUX_TASK_TMUX")
            }
        };
        Err(error.into())
    }

    /// Checks that a program which the user named is there, without running it.
    pub(crate) fn check_program(&self) -> Result<(), TmuxError> {
        let is_name = self.program.components().count() <= 1;
        let folders = env::var("PATH").filter(|_| is_name).unwrap_or_default();
        let mut files = std::env::split_paths(&folders).map(|folder| folder.join(&self.program));
        let found = files.find(|path| path.is_file());
        let program = found.unwrap_or_else(|| self.program.clone());
        access(program, Access::EXEC_OK).map_err(|errno| self.not_started(errno.into()))
    }

    /// Whether the user named the program.
    pub(crate) fn is_program_named(&self) -> bool {
        self.program != Path::new(PROGRAM)
    }

    /// Creates the folder that tmux would create for its default sockets. With `-S` none is
    /// created.
    pub(crate) fn create_socket_folder(&self) -> Result<(), TmuxError> {
        self.check_socket_folder()?;
        let Some(folder) = self.missing_folder() else {
            return Ok(());
        };
        match std::fs::DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(TmuxError::Io(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether a server can be started, as far as the folder of its socket is concerned. tmux makes
    /// only a folder of its own.
    pub(crate) fn check_socket_folder(&self) -> Result<(), TmuxError> {
        let is_tmux_own = |folder: &Path| folder.file_name() == Some(OsStr::new(&folder_name()));
        let Some(folder) = self.missing_folder().filter(|folder| !is_tmux_own(folder)) else {
            return Ok(());
        };
        let folder = folder.display();
        let what = format!("there is no folder {folder} for the tmux server's socket");
        let hint = "make it, or name another path with -S";
        Err(Error::failed(what).with_hint(hint).into())
    }

    fn missing_folder(&self) -> Option<&Path> {
        self.socket.parent().filter(|folder| !folder.exists())
    }

    /// Returns a command for a client of this server.
    pub(super) fn client_process(&self) -> Process {
        let mut process = self.process();
        process.arg("-u").arg("-S").arg(&self.socket);
        process.stdout(Stdio::piped()).stderr(Stdio::piped());
        process
    }

    /// Returns the program with an environment that may become the server's: a client that finds no
    /// server starts one, which keeps the client's environment for every task and every shell.
    fn process(&self) -> Process {
        let mut process = Process::new(&self.program);
        let stays = |name: &OsStr| name.to_str().is_some_and(reaches_tmux_server);
        let variables = env::vars().filter(|(name, _)| stays(name));
        process.env_clear().envs(variables);
        process
    }

    /// Starts a client. The server may be another one than when it was located.
    pub(super) fn spawn(&self, process: &mut Process) -> Result<Child, TmuxError> {
        check_owner(&self.socket)?;
        let child = process.spawn().map_err(|source| self.not_started(source))?;
        #[cfg(linux)]
        if let Some(descriptors) = self.descriptors {
            limit_descriptors(&child, descriptors);
        }
        Ok(child)
    }

    pub(super) fn not_started(&self, source: std::io::Error) -> TmuxError {
        let what = format!("could not start `{}`", self.program.display());
        Error::io(what, &source).with_hint(INSTALL).into()
    }

    pub(super) fn no_server(&self) -> TmuxError {
        TmuxError::NoServer {
            socket: self.socket.clone(),
        }
    }
}

/// Sets the soft limit on descriptors of a process of ours.
#[cfg(linux)]
fn limit_descriptors(child: &Child, descriptors: u64) {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let limit = Rlimit {
        current: Some(descriptors),
        ..getrlimit(Resource::Nofile)
    };
    if let Some(pid) = pid.and_then(Pid::from_raw)
        && let Err(error) = prlimit(Some(pid), Resource::Nofile, limit)
    {
        tracing::debug!(%error, "a client has our limit of descriptors");
    }
}

fn folder_name() -> String {
    format!("tmux-{}", rustix::process::getuid().as_raw())
}

/// Returns the folder that tmux uses: the first of `$TMUX_TMPDIR` and `/tmp` that exists, resolved.
fn default_folder(tmpdir: Option<OsString>) -> Result<PathBuf, TmuxError> {
    let base = tmpdir
        .and_then(|dir| std::fs::canonicalize(dir).ok())
        .map_or_else(|| std::fs::canonicalize("/tmp"), Ok)
        .map_err(TmuxError::Io)?;
    let folder = base.join(folder_name());
    check_owner(&folder)?;
    Ok(folder)
}

/// Checks that this socket, or folder of sockets, is ours if it exists: a tmux client does what its
/// server says, and so would run any program for another user.
fn check_owner(path: &Path) -> Result<(), TmuxError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.uid() != our_uid() => {
            let path = path.display();
            let what = format!("{path} belongs to another user, whom a tmux client would obey");
            Err(Error::failed(what).with_hint(A_SERVER_OF_YOURS).into())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// `$TMUX` is `SOCKET,PID,SESSION`.
fn first_field(value: &OsStr) -> Option<PathBuf> {
    let path = value.as_bytes().split(|b| *b == b',').next()?;
    (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path.to_vec())))
}

/// Resolves as much of the path as exists.
fn canonical(path: PathBuf) -> PathBuf {
    if let Ok(path) = std::fs::canonicalize(&path) {
        return path;
    }
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => canonical(folder.to_path_buf()).join(name),
        (_, None) | (None, _) => path,
    }
}

// The version of tmux.

/// A format that is true before 3.8, which has no need of some precautions. OpenBSD counts its own
/// releases, of which any may be older.
pub(super) const IS_BEFORE_3_8: &str = "#{||:#{m:*3.[2-7]*,#{version}},#{m:openbsd-*,#{version}}}";

/// Returns the version in the output of `tmux -V`; `None` if the program is not tmux.
fn version_in(output: &str) -> Option<String> {
    // What prints another name is not tmux, whatever its version is.
    let version = output.trim().strip_prefix("tmux ")?.trim();
    (!version.is_empty()).then(|| text::one_line(version.as_bytes(), 40))
}

/// Whether this version is supported. 3.2 is the first with the required flags of `attach-session`. A
/// version without a number, such as `master`, was built from newer source.
fn is_supported(version: &str) -> bool {
    // OpenBSD counts its own releases; 6.8 contains what became 3.2.
    let (version, oldest) = match version.strip_prefix("openbsd-") {
        Some(release) => (release, (6, 8)),
        None => (version.trim_start_matches("next-"), (3, 2)),
    };
    number(version).is_none_or(|number| number >= oldest)
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    let digits = minor.bytes().take_while(u8::is_ascii_digit).count();
    Some((major.parse().ok()?, minor[..digits].parse().ok()?))
}

// Whether a tmux server is running, checked without starting a process and without blocking; and
// whether it answers.

/// The state of a tmux server's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// A server listens.
    Listening,
    /// A server has the socket but accepts no more connections: it is stopped or hangs.
    Stuck,
    /// Nothing listens.
    Absent,
    /// It could not be determined, for example because this process has no descriptor left.
    Unknown(Errno),
}

impl Server {
    /// Asks the kernel whether a server listens. It never blocks: a server that is stopped accepts
    /// connections until its queue is full, and then a plain connect would block until it
    /// continues.
    pub(crate) fn probe(&self) -> Probe {
        match self.try_connect() {
            Ok(_) | Err(Errno::INPROGRESS) => Probe::Listening,
            Err(Errno::AGAIN) => Probe::Stuck,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED) => Probe::Absent,
            Err(errno) => Probe::Unknown(errno),
        }
    }

    /// Returns the pid of the server that listens, if there is one and the kernel reports it, as
    /// Linux does.
    pub(crate) fn pid(&self) -> Option<u32> {
        #[cfg(linux)]
        {
            let connection = self.try_connect().ok()?;
            let server = rustix::net::sockopt::socket_peercred(&connection).ok()?;
            u32::try_from(server.pid.as_raw_nonzero().get()).ok()
        }
        #[cfg(not(linux))]
        {
            None
        }
    }

    /// Sends the server a request that it can always answer. Returns whether an answer came in
    /// time, or nothing listens.
    pub(crate) async fn answers(&self, within: Duration) -> bool {
        let command = Command::new("display-message").args(["-p", ""]);
        match self.probe() {
            Probe::Absent => return true,
            Probe::Stuck => return false,
            Probe::Listening | Probe::Unknown(_) => {}
        }
        let asked = [command];
        let answer = tokio::time::timeout(within, self.one_shot(&asked)).await;
        !matches!(answer, Err(_) | Ok(Err(TmuxError::TimedOut)))
    }

    /// Connects without waiting, as a client that has not said yet what it wants.
    pub(super) fn try_connect(&self) -> Result<OwnedFd, Errno> {
        let address = SocketAddrUnix::new(self.socket())?;
        let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        connect(&socket, &address)?;
        Ok(socket)
    }
}

/// Whether the server has closed this connection. One that lives keeps it; one that ends closes each.
pub(super) fn is_closed(connection: &OwnedFd) -> bool {
    matches!(
        rustix::io::read(connection, &mut [0; 1]),
        Ok(0) | Err(Errno::CONNRESET)
    )
}

/// Returns a new word that no output, name or option can contain. Its randomness is that of the
/// standard library's hash keys, which come from the system.
///
/// Once it has been on a command line or in an option, others may know it.
pub(super) fn nonce() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// Makes a tmux server collect children that ended: it can lose the signal that reports them.
pub(crate) fn nudge(server_pid: u32) {
    signal(server_pid, Signal::CHILD);
}

/// Signals a server or a client.
pub(super) fn signal(pid: u32, signal: Signal) {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let sent = process.map(|process| kill_process(process, signal));
    tracing::debug!(pid, ?signal, ?sent, "signalled");
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::net::listen;

    use super::*;
    use crate::model::test_notation::{env, rows};
    use crate::tmux::ServerChoice;
    use crate::tmux::tests::server_at;

    #[test]
    fn the_nearest_word_names_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let dir = std::fs::canonicalize(dir.path()).unwrap();
        let dir = dir.to_str().unwrap();
        let nothing = ServerChoice::default();
        let name = ServerChoice {
            socket_name: Some("n".into()),
            ..nothing.clone()
        };
        let path = ServerChoice {
            socket_path: Some("/nowhere/../nowhere/s".into()),
            program: Some("/opt/tmux".into()),
            ..name.clone()
        };
        for [choice, variables, expected] in rows(
            "path | TMUX=/nowhere/x,12,0 | /opt/tmux /nowhere/../nowhere/s
             name | TMUX=/nowhere/x,12,0 | tmux /tmp/UID/n
             name | TMUX=/nowhere/x,12,0 TMUX_TMPDIR=FOLDER | tmux FOLDER/UID/n
             - | TMUX=/nowhere/x,12,0 TMUX_TMPDIR=FOLDER | tmux /nowhere/x
             - | TMUX= TMUX_TMPDIR=FOLDER | tmux FOLDER/UID/default
             - | TMUX_TMPDIR=/no/such | tmux /tmp/UID/default
             - | TMUX=/nowhere/x,12,0 TMUX_TASK_TMUX=t | t /nowhere/x
             - | TMUX=/nowhere/x,12,0 TMUX_TASK_TMUX= | tmux /nowhere/x",
        ) {
            let choice = match &*choice {
                "path" => &path,
                "name" => &name,
                _ => &nothing,
            };
            let here = |text: &str| text.replace("UID", &folder_name()).replace("FOLDER", dir);
            let server = Server::locate(choice, &env(&here(&variables))).unwrap();
            let (program, socket) = (server.program().display(), server.socket().display());
            assert_eq!(
                format!("{program} {socket}"),
                here(&expected),
                "{variables}"
            );
        }
    }

    #[test]
    fn links_are_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap();
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        let server = server_at(&real.join("link/s"), None);
        assert_eq!(server.socket(), real.join("s"));
    }

    #[test]
    fn a_server_is_there_while_it_listens_and_closes_a_connection_when_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let server = server_at(&path, None);
        assert_eq!(server.probe(), Probe::Absent);
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(server.probe(), Probe::Absent, "a dead server's file");
        std::fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let connection = server.try_connect().unwrap();
        assert!(!is_closed(&connection), "not accepted yet");
        let (accepted, _) = listener.accept().unwrap();
        assert!(!is_closed(&connection));
        drop(accepted);
        assert!(is_closed(&connection));
        // One whose queue is full is there and does not hold us up.
        listen(&listener, 0).unwrap();
        assert_eq!(server.probe(), Probe::Listening);
        // The probe's own connection is closed but stays in the queue, which has room for one.
        if cfg!(linux) {
            assert_eq!(server.probe(), Probe::Stuck);
        }
        drop(listener.accept().unwrap());
        assert_eq!(server.probe(), Probe::Listening);
    }

    #[test]
    fn versions_are_distinguished() {
        let versions = "3.3a 3.2 3.1c 2.9a 3.10 next-3.8 next-3.1 master openbsd-7.4 openbsd-6.6";
        let supported: Vec<&str> = versions
            .split(' ')
            .filter(|text| is_supported(text))
            .collect();
        let expected = ["3.3a", "3.2", "3.10", "next-3.8", "master", "openbsd-7.4"];
        assert_eq!(supported, expected);
    }

    #[test]
    fn only_tmux_has_a_version_of_tmux() {
        for (output, version) in [
            ("tmux 3.3a\n", Some("3.3a")),
            ("tmux master", Some("master")),
            // Of `echo -V`, `true -V`, and `bash -V`.
            ("-V\n", None),
            ("", None),
            ("GNU bash, version 5.2\n", None),
        ] {
            assert_eq!(version_in(output).as_deref(), version, "{output}");
        }
    }
}

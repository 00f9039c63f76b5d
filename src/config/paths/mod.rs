//! The files of a task session: its state, its socket, its locks.
//!
//! A task session is a session name on a tmux server. The key of its folders contains both, so that
//! sessions of the same name on two servers are separate. A session that is renamed keeps its files:
//! the links that `names.rs` writes lead to them by its other names.

mod names;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use crate::files::{self, Fault, OPEN_TO_OTHERS, RefusedFile, WRITABLE_BY_OTHERS, our_uid};
use crate::model::{Backoff, Error};

/// Looks up an environment variable. Passed in, so that nothing below reads the environment.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The folder beside those of the sessions with notes of conversations and their machines.
pub(crate) const HOSTS: &str = "hosts";

const STATE_DIR: &str = "TMUX_TASK_STATE_DIR";

const RUNTIME_DIR: &str = "TMUX_TASK_RUNTIME_DIR";

/// The longest socket path on every system: with a NUL, macOS has room for 104 bytes, Linux for 108.
const MAX_SOCKET_PATH: usize = 103;

/// The folder of the links, beside the folders that they lead to.
const NAMES: &str = "names";

/// How many hexadecimal digits of a hash a key has.
const DIGITS: usize = 12;

const LABEL: usize = 24;

pub(crate) fn adapters_folder(env: Env<'_>) -> Option<PathBuf> {
    Some(folder_in_home(env, "XDG_DATA_HOME", ".local/share")?.join("tmux-task/adapters"))
}

/// Returns the folder that the variable names, else this one in the home folder.
fn folder_in_home(env: Env<'_>, variable: &str, usual: &str) -> Option<PathBuf> {
    folder_of(env, variable).or_else(|| Some(folder_of(env, "HOME")?.join(usual)))
}

/// Returns a file that is there if this client's adapter is installed; `None` if it has none.
pub(crate) fn adapter_file(client: &str, env: Env<'_>) -> Option<PathBuf> {
    let ours = |file| Some(adapters_folder(env)?.join(file));
    let theirs = |variable, usual, file| Some(folder_in_home(env, variable, usual)?.join(file));
    match client {
        "pi" => ours("pi/package.json"),
        "claude" => ours("claude-code/.claude-plugin/plugin.json"),
        "codex" => ours("codex/enabled"),
        "opencode" => theirs("XDG_CONFIG_HOME", ".config", "opencode/plugin/tmux-task.js"),
        "copilot" => theirs(
            "COPILOT_HOME",
            ".copilot",
            "extensions/tmux-task/extension.mjs",
        ),
        "qwen" => theirs(
            "QWEN_HOME",
            ".qwen",
            "extensions/tmux-task/qwen-extension.json",
        ),
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths {
    /// Identifies this task session. Can be used as a file name.
    pub key: String,
    pub state: PathBuf,
    /// The folder of sockets and locks, shared by all task sessions of a user.
    pub runtime: PathBuf,
    server_key: String,
}

impl Paths {
    /// Returns the files of a session of a test, all below this folder.
    #[cfg(test)]
    pub(crate) fn below(folder: &Path) -> Self {
        let env = |name: &str| {
            let is_ours = ["TMUX_TASK_STATE_DIR", "TMUX_TASK_RUNTIME_DIR"].contains(&name);
            is_ours.then(|| folder.into())
        };
        Self::locate(Path::new("/s"), "work", &env).expect("both folders are named")
    }

    /// Returns the files of the session of this name on the tmux server at `server_socket`.
    pub(crate) fn locate(server_socket: &Path, name: &str, env: Env<'_>) -> Result<Self, Error> {
        let root = state_root(env)?;
        let key = key_of(&root, server_socket, name);
        Ok(Self {
            state: root.join(&key),
            key,
            runtime: runtime_root(env)?,
            server_key: hex(server_socket.as_os_str().as_encoded_bytes(), 12),
        })
    }

    /// Returns the files with this key, which are beside these.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self {
            key: key.to_owned(),
            state: self.state.with_file_name(key),
            ..self.clone()
        }
    }

    pub(crate) fn feed(&self) -> PathBuf {
        self.state.join("feed.jsonl")
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// Returns the folder of the environments that are kept for restarts of the session's tasks.
    pub(crate) fn kept_environments(&self) -> PathBuf {
        self.runtime.join(format!("{}.environments", self.key))
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// Returns the daemon's lock file, which contains its pid.
    pub(crate) fn lock(&self) -> PathBuf {
        self.runtime_file("lock")
    }

    /// Returns the daemon's second lock file, which survives if the folder of the first is deleted.
    pub(crate) fn state_lock(&self) -> PathBuf {
        self.state.join("daemon.lock")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.runtime_file("sock")
    }

    /// Returns the sockets of this user's daemons, also of some that have gone, by name.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        let socket = self.socket();
        // Where those are whose paths would be too long.
        let stand_ins = socket.parent().unwrap_or(&self.runtime);
        let folders = BTreeSet::from([self.runtime.as_path(), stand_ins]).into_iter();
        let entries = folders.filter_map(|folder| fs::read_dir(folder).ok());
        let files = entries.flatten().flatten().map(|entry| entry.path());
        let is_socket = |file: &PathBuf| file.extension() == Some(OsStr::new("sock"));
        let sockets: BTreeSet<PathBuf> = files.filter(is_socket).collect();
        sockets.into_iter().collect()
    }

    /// If the runtime folder is too long a path for a socket, the per-user folder in `/tmp` is used.
    fn runtime_file(&self, extension: &str) -> PathBuf {
        let path = self.runtime.join(format!("{}.{extension}", self.key));
        if path.as_os_str().len() <= MAX_SOCKET_PATH {
            return path;
        }
        let stand_in = hex(path.with_extension("").as_os_str().as_encoded_bytes(), 16);
        tmp_root().join(format!("{stand_in}.{extension}"))
    }

    pub(crate) fn create_state(&self) -> Result<(), Error> {
        if let Some(root) = self.state.parent() {
            check_above(root).map_err(|error| place_error(root, STATE_DIR, &error))?;
        }
        files::make_folder(&self.state, OPEN_TO_OTHERS)
            .map_err(|error| place_error(&self.state, STATE_DIR, &error))
    }

    /// Creates the folder of socket and lock, for the user alone, and checks that it is theirs.
    pub(crate) fn create_runtime(&self) -> Result<(), Error> {
        make_runtime_folder(&self.runtime)?;
        let socket = self.socket();
        make_runtime_folder(socket.parent().unwrap_or(&self.runtime))
    }
}

fn make_runtime_folder(folder: &Path) -> Result<(), Error> {
    // A folder of the system, which root may have configured, may be readable by others.
    let is_of_system = folder.parent().is_none_or(|above| above.parent().is_none());
    let open = match is_of_system {
        true => WRITABLE_BY_OTHERS,
        false => OPEN_TO_OTHERS,
    };
    files::make_folder(folder, open).map_err(|error| place_error(folder, RUNTIME_DIR, &error))
}

/// The longest path of the folder of links: ssh adds 58 bytes to it for its own sockets.
const MAX_LINKS_PATH: usize = MAX_SOCKET_PATH - 58;

/// Creates the folder of the sockets that lead to other machines, for the user alone, and returns it.
pub(crate) fn create_links_folder(env: Env<'_>) -> Result<PathBuf, Error> {
    let mut root = runtime_root(env)?;
    if root.as_os_str().len() + "/hosts".len() > MAX_LINKS_PATH {
        root = tmp_root();
    }
    make_runtime_folder(&root)?;
    let folder = root.join("hosts");
    make_runtime_folder(&folder)?;
    Ok(folder)
}

/// Returns the folder of the state of all sessions, if it can be used. Changes nothing.
pub(crate) fn check_state(env: Env<'_>) -> Result<PathBuf, Error> {
    let root = state_root(env)?;
    check_above(&root).map_err(|error| place_error(&root, STATE_DIR, &error))?;
    Ok(root)
}

/// Returns the home directory and its owner's user id if that is another user: files that are written
/// there would not be the owner's, or would be read by a user who may not.
pub(crate) fn foreign_home(env: Env<'_>) -> Option<(PathBuf, u32)> {
    let home = folder_of(env, "HOME")?;
    let owner = fs::metadata(&home).ok()?.uid();
    (owner != our_uid()).then_some((home, owner))
}

/// Checks the folder of sockets and locks, which may not exist yet, and returns it. Changes nothing.
pub(crate) fn check_runtime(env: Env<'_>) -> Result<PathBuf, Error> {
    let root = runtime_root(env)?;
    files::if_there(files::check_folder(&root))
        .map_err(|error| place_error(&root, RUNTIME_DIR, &error))?;
    Ok(root)
}

/// Returns why a folder cannot be used, which the variable may name, and what to do about it.
fn place_error(path: &Path, variable: &str, error: &io::Error) -> Error {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(refused): Option<&RefusedFile> = refused else {
        return unusable(path, error);
    };
    let is_owned = matches!(refused.fault, Fault::Owner(_));
    let first = if is_owned && variable == STATE_DIR && our_uid() == 0 {
        "with sudo, give -H, or "
    } else if refused.path == path {
        "remove it, or "
    } else {
        ""
    };
    let set = format!("set {variable} to a folder of yours");
    Error::failed(format!("{refused}; {first}{set}"))
}

pub(crate) fn unusable(folder: &Path, error: &io::Error) -> Error {
    let folder = folder.display();
    Error::io(format_args!("could not use the folder {folder}"), error)
}

/// Checks that no other user can replace the folders that we create below this one. The system's own are
/// accepted; those of another user's home, which `HOME` may be with sudo, are not: root's would stay there.
fn check_above(root: &Path) -> io::Result<()> {
    let is_foreign = |(path, owner): &(PathBuf, u32)| {
        ![0, our_uid()].contains(owner) && (our_uid() == 0 || path == root)
    };
    match files::nearest_folder(root).filter(is_foreign) {
        Some((path, owner)) => {
            let fault = Fault::Owner(owner);
            Err(RefusedFile { path, fault }.into())
        }
        None => Ok(()),
    }
}

fn own(env: Env<'_>, variable: &'static str) -> Result<Option<PathBuf>, Error> {
    match set(env, variable) {
        // It must not depend on the working directory.
        Some(path) if !path.is_absolute() => Err(Error::failed(format!(
            "{variable} must be an absolute path, found `{}`",
            path.display().to_string().escape_debug()
        ))),
        path => Ok(path),
    }
}

/// Returns the folder named by a variable of others. A relative path is ignored, as XDG demands.
pub(crate) fn folder_of(env: Env<'_>, variable: &str) -> Option<PathBuf> {
    set(env, variable).filter(|path| path.is_absolute())
}

fn set(env: Env<'_>, variable: &str) -> Option<PathBuf> {
    let value = env(variable).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Returns the folder that contains a folder for each task session.
pub(crate) fn state_root(env: Env<'_>) -> Result<PathBuf, Error> {
    if let Some(dir) = own(env, STATE_DIR)? {
        return Ok(dir);
    }
    let folder = folder_in_home(env, "XDG_STATE_HOME", ".local/state").ok_or_else(|| {
        let names = "TMUX_TASK_STATE_DIR, XDG_STATE_HOME nor HOME";
        Error::failed(format!("no folder for state: neither {names} is set"))
    })?;
    Ok(folder.join("tmux-task"))
}

/// Returns the folder of sockets and locks. `su` may leave another user's `XDG_RUNTIME_DIR`.
pub(crate) fn runtime_root(env: Env<'_>) -> Result<PathBuf, Error> {
    if let Some(dir) = own(env, RUNTIME_DIR)? {
        return Ok(dir);
    }
    let is_ours = |dir: &PathBuf| fs::metadata(dir).map_or(true, |found| found.uid() == our_uid());
    Ok(match folder_of(env, "XDG_RUNTIME_DIR").filter(is_ours) {
        Some(dir) => dir.join("tmux-task"),
        None => tmp_root(),
    })
}

fn tmp_root() -> PathBuf {
    PathBuf::from(format!("/tmp/tmux-task-{}", our_uid()))
}

// The key of a session: the name of the folder that has its files.

/// Returns the key of the folder that a name leads to: by a link, else the name's own.
fn key_of(root: &Path, server_socket: &Path, name: &str) -> String {
    let own = own_key(server_socket, name);
    linked(&root.join(NAMES).join(&own)).unwrap_or(own)
}

/// Returns the key to which a link of ours leads, if it leads to a folder beside its own.
fn linked(link: &Path) -> Option<String> {
    let target = files::read_link(link).ok()?;
    let key = target.to_str()?.strip_prefix("../")?;
    is_key(key).then(|| key.to_owned())
}

/// Whether this is a key, and thus the name of a file in the folder that it is looked for in.
pub(crate) fn is_key(text: &str) -> bool {
    let is_in_label = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    text.rsplit_once('-').is_some_and(|(label, digits)| {
        digits.len() == DIGITS
            && digits.chars().all(|c| c.is_ascii_hexdigit())
            && label.len() <= LABEL
            && label.chars().all(is_in_label)
    })
}

/// Returns the key after this one, for a session of the same name.
pub(crate) fn next_key(key: &str) -> String {
    let label = key.rsplit_once('-').map_or(key, |(label, _)| label);
    format!("{label}-{}", hex(key.as_bytes(), DIGITS))
}

fn own_key(server_socket: &Path, name: &str) -> String {
    let mut identity = server_socket.as_os_str().as_encoded_bytes().to_vec();
    identity.push(0);
    identity.extend_from_slice(name.as_bytes());
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let label: String = name.replace(is_other, "-").chars().take(LABEL).collect();
    format!("{label}-{}", hex(&identity, DIGITS))
}

/// Returns the first `digits` hexadecimal digits of the hash of `bytes`.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let hash = Sha256::digest(bytes);
    let mut text: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    text
}

// Locks among all processes of this program that one user runs.
//
// The lock of a tmux server separates attaching from creating and ending sessions and from detaching: tmux
// up to 3.5a crashes with all its sessions when a session is created or ended, or a client detaches, at the
// moment in which a control client connects. Under the lock of a task session its daemon is started:
// commands that lost a daemon at the same time would start one each.

/// A process that waits longer continues without the lock, which is better than to hang.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before the lock is tried again: longer and longer, since many processes may wait.
const PAUSE: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(16));

impl Paths {
    /// Waits some seconds for the lock of the tmux server, which is held until the file is dropped.
    pub(crate) async fn lock_server(&self) -> Option<File> {
        let file = format!("server-{}.lock", self.server_key);
        lock(&self.runtime.join(file)).await
    }

    /// Waits in the same way for the lock under which the daemon of this session is started.
    pub(crate) async fn lock_start(&self) -> Option<File> {
        lock(&self.runtime.join(format!("{}.start", self.key))).await
    }
}

async fn lock(path: &Path) -> Option<File> {
    let file = files::open_to_write(path)
        .inspect_err(|error| tracing::debug!(%error, path = %path.display(), "no lock"))
        .ok()?;
    let deadline = Instant::now() + PATIENCE;
    let mut pause = PAUSE;
    while file.try_lock().is_err() {
        if Instant::now() >= deadline {
            tracing::warn!(path = %path.display(), "continues without a lock that another process holds");
            return None;
        }
        sleep(pause.next_pause()).await;
    }
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::{env, rows};
    use std::os::unix::fs::PermissionsExt;

    /// The places for these variables, with a home.
    fn place(vars: &str, server: &str, session: &str) -> Paths {
        locate(&format!("HOME=/h {vars}"), server, session).unwrap()
    }

    fn locate(vars: &str, server: &str, session: &str) -> Result<Paths, Error> {
        Paths::locate(Path::new(server), session, &env(vars))
    }

    #[test]
    fn the_nearest_variable_names_the_folders() {
        let tmp = tmp_root().display().to_string();
        for [variables, state, runtime] in rows(
            "TMUX_TASK_STATE_DIR=/s XDG_STATE_HOME=/xs TMUX_TASK_RUNTIME_DIR=/r XDG_RUNTIME_DIR=/xr | /s | /r
             XDG_STATE_HOME=/xs XDG_RUNTIME_DIR=/xr | /xs/tmux-task | /xr/tmux-task
             XDG_STATE_HOME= | /h/.local/state/tmux-task | TMP
             XDG_STATE_HOME=xs XDG_RUNTIME_DIR=./xr | /h/.local/state/tmux-task | TMP",
        ) {
            let found = place(&variables, "/t", "a");
            assert_eq!(found.state, Path::new(&state).join(&found.key));
            let runtime = PathBuf::from(runtime.replace("TMP", &tmp));
            assert_eq!(found.runtime, runtime, "{variables}");
        }
        for variable in ["TMUX_TASK_STATE_DIR", "TMUX_TASK_RUNTIME_DIR"] {
            let variables = format!("HOME=/h {variable}=some/dir");
            let error = locate(&variables, "/t", "a").unwrap_err().to_string();
            let expected = format!("{variable} must be an absolute path, found `some/dir`");
            assert_eq!(error, expected);
        }
        let homeless = locate("HOME=here", "/t", "a").unwrap_err();
        assert!(homeless.message.starts_with("no folder for state"));
    }

    #[test]
    fn one_name_on_two_servers_is_two_places() {
        let key = |server, session| place("", server, session).key;
        assert_ne!(key("/t/a", "work"), key("/t/b", "work"));
        assert_ne!(key("/t/a", "a b"), key("/t/a", "a-b"));
    }

    #[test]
    fn no_socket_is_too_long() {
        let deep = format!("TMUX_TASK_RUNTIME_DIR=/{}", "d".repeat(120));
        for session in ["a", &"long".repeat(50), "§ 日本"] {
            let place = place(&deep, "/t", session);
            let length = place.socket().as_os_str().len();
            assert!(length <= MAX_SOCKET_PATH, "{place:?}");
            assert!(place.key.len() <= 40);
        }
    }

    #[test]
    fn links_and_folders_of_all_users_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["real", "shared", "state"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::set_permissions(at("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        let of = |runtime: &str| {
            let folders = [at("state"), at(runtime)].map(|path| path.display().to_string());
            let [state, runtime] = folders;
            let variables = format!("TMUX_TASK_STATE_DIR={state} TMUX_TASK_RUNTIME_DIR={runtime}");
            place(&variables, "/t", "a")
        };
        for (name, expected) in [
            ("link", "is a symbolic link"),
            ("shared", "can be written to by other users (mode 1777)"),
        ] {
            let error = of(name).create_runtime().unwrap_err().to_string();
            let start = format!("{} {expected}; remove it, or set ", at(name).display());
            assert!(error.starts_with(&start), "{error}");
        }
        let place = of("new/run");
        place.create_runtime().unwrap();
        std::os::unix::fs::symlink(at("real"), &place.state).unwrap();
        let error = place.create_state().unwrap_err();
        assert!(error.message.contains("is a symbolic link"), "{error}");
        assert_eq!(fs::read_dir(at("real")).unwrap().count(), 0);
    }
}

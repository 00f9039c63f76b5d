//! Where the files of a task session are: its state, its socket, its lock.
//!
//! A task session is one session name on one tmux server. Both are in the key of its folders, so
//! that sessions of one name on two servers never meet.

mod file_lock;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub use file_lock::FileLock;

/// How an environment variable is looked up: given, so that nothing below reads the environment.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The longest path that a socket may have on every system (macOS has room for 104 bytes with the
/// closing NUL, Linux for 108).
const MAX_SOCKET_PATH: usize = 103;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The folder cannot be made or looked at.
    #[error("could not use the folder {}", .path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder under `/tmp` may be somebody's trap.
    #[error("{} is {what}; remove it, or set TMUX_TASK_RUNTIME_DIR to a folder of yours", .path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is no home folder to put state in.
    #[error("no folder for state: neither TMUX_TASK_STATE_DIR, XDG_STATE_HOME nor HOME is set")]
    NoHome,
}

/// The files of one task session. Making this creates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What tells this task session from all others, usable as a file name.
    pub key: String,
    /// The folder of everything that lasts.
    pub state: PathBuf,
    /// The folder of what lives with the daemon; shared by all task sessions of a user.
    pub runtime: PathBuf,
    /// What tells the tmux server from others.
    server_key: String,
}

impl Place {
    /// Returns the place of the session of this name on the tmux server at `server_socket`.
    ///
    /// # Errors
    ///
    /// When the environment names no folder for state.
    pub fn locate(server_socket: &Path, session: &str, env: Env<'_>) -> Result<Self, PlaceError> {
        let key = key(server_socket, session);
        let state = state_root(env)?.join(&key);
        Ok(Self {
            key,
            state,
            runtime: runtime_root(env),
            server_key: hex(server_socket.as_os_str().as_encoded_bytes(), 12),
        })
    }

    /// Returns the feed's file.
    #[must_use]
    pub fn feed(&self) -> PathBuf {
        self.state.join("feed.jsonl")
    }

    /// Returns the file of the saved snapshot.
    #[must_use]
    pub fn saved(&self) -> PathBuf {
        self.state.join("session.json")
    }

    /// Returns the folder of the output that was kept of runs that ended.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// Returns the daemon's log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// Returns the file whose time of change tells when somebody last read the live feed.
    #[must_use]
    pub fn last_reader(&self) -> PathBuf {
        self.state.join("last-reader")
    }

    /// Returns the daemon's lock, which holds its pid.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.runtime_file("lock")
    }

    /// Returns the second lock of the daemon, which stays when the folder of the first is deleted.
    #[must_use]
    pub fn state_lock(&self) -> PathBuf {
        self.state.join("daemon.lock")
    }

    /// Returns the daemon's socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.runtime_file("sock")
    }

    /// The key alone is short; a runtime folder too deep for a socket gets a stand-in of its own
    /// under the per-user folder in `/tmp`.
    fn runtime_file(&self, extension: &str) -> PathBuf {
        let path = self.runtime.join(format!("{}.{extension}", self.key));
        if path.as_os_str().len() <= MAX_SOCKET_PATH {
            return path;
        }
        let stand_in = hex(path.with_extension("").as_os_str().as_encoded_bytes(), 16);
        tmp_root().join(format!("{stand_in}.{extension}"))
    }

    /// Makes the state folder, for the user alone.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn create_state(&self) -> Result<(), PlaceError> {
        create_private(&self.state)
    }

    /// Makes the folder of socket and lock, for the user alone, and makes sure that it is theirs.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or when somebody else could have laid it there.
    pub fn create_runtime(&self) -> Result<(), PlaceError> {
        let socket = self.socket();
        let folder = socket.parent().unwrap_or(&self.runtime);
        create_private(folder)?;
        check_ours(folder)
    }
}

fn key(server_socket: &Path, session: &str) -> String {
    let mut identity = server_socket.as_os_str().as_encoded_bytes().to_vec();
    identity.push(0);
    identity.extend_from_slice(session.as_bytes());
    let label: String = session
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '-'
            }
        })
        .take(24)
        .collect();
    format!("{label}-{}", hex(&identity, 12))
}

/// Returns the first `digits` hexadecimal digits of the hash of `bytes`.
#[must_use]
pub fn hex(bytes: &[u8], digits: usize) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .take(digits)
        .fold(String::with_capacity(digits), |mut text, nibble| {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            text
        })
}

fn set(env: Env<'_>, name: &str) -> Option<PathBuf> {
    env(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn state_root(env: Env<'_>) -> Result<PathBuf, PlaceError> {
    if let Some(dir) = set(env, "TMUX_TASK_STATE_DIR") {
        return Ok(dir);
    }
    if let Some(dir) = set(env, "XDG_STATE_HOME") {
        return Ok(dir.join("tmux-task"));
    }
    let home = set(env, "HOME").ok_or(PlaceError::NoHome)?;
    Ok(home.join(".local/state/tmux-task"))
}

fn runtime_root(env: Env<'_>) -> PathBuf {
    if let Some(dir) = set(env, "TMUX_TASK_RUNTIME_DIR") {
        return dir;
    }
    match set(env, "XDG_RUNTIME_DIR") {
        Some(dir) => dir.join("tmux-task"),
        None => tmp_root(),
    }
}

fn tmp_root() -> PathBuf {
    PathBuf::from(format!(
        "/tmp/tmux-task-{}",
        rustix::process::getuid().as_raw()
    ))
}

fn create_private(path: &Path) -> Result<(), PlaceError> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|source| PlaceError::Io {
        path: path.to_owned(),
        source,
    })
}

fn check_ours(path: &Path) -> Result<(), PlaceError> {
    let not_ours = |what| {
        Err(PlaceError::NotOurs {
            path: path.to_owned(),
            what,
        })
    };
    let found = fs::symlink_metadata(path).map_err(|source| PlaceError::Io {
        path: path.to_owned(),
        source,
    })?;
    if found.is_symlink() {
        return not_ours("a link");
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return not_ours("somebody else's");
    }
    if found.mode() & 0o077 != 0 {
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(path, private).map_err(|source| PlaceError::Io {
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(vars: &[(&str, &str)], server: &str, session: &str) -> Place {
        let env = |name: &str| {
            vars.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        Place::locate(Path::new(server), session, &env).unwrap()
    }

    #[test]
    fn the_nearest_variable_names_the_folders() {
        let all = [
            ("TMUX_TASK_STATE_DIR", "/s"),
            ("XDG_STATE_HOME", "/xs"),
            ("HOME", "/h"),
            ("TMUX_TASK_RUNTIME_DIR", "/r"),
            ("XDG_RUNTIME_DIR", "/xr"),
        ];
        let nearest = place(&all, "/t", "a");
        assert_eq!(nearest.state, Path::new("/s").join(&nearest.key));
        assert_eq!(nearest.runtime, Path::new("/r"));
        let xdg = place(&[all[1], all[2], all[4]], "/t", "a");
        assert_eq!(xdg.state, Path::new("/xs/tmux-task").join(&xdg.key));
        assert_eq!(xdg.runtime, Path::new("/xr/tmux-task"));
        let home = place(&[("XDG_STATE_HOME", ""), all[2]], "/t", "a");
        assert_eq!(
            home.state,
            Path::new("/h/.local/state/tmux-task").join(&home.key)
        );
        assert!(home.runtime.starts_with("/tmp"));
    }

    #[test]
    fn one_name_on_two_servers_is_two_places() {
        let vars = [("HOME", "/h")];
        assert_ne!(
            place(&vars, "/t/a", "work").key,
            place(&vars, "/t/b", "work").key
        );
        assert_ne!(
            place(&vars, "/t/a", "a b").key,
            place(&vars, "/t/a", "a-b").key
        );
    }

    #[test]
    fn no_socket_is_too_long() {
        let deep = format!("/{}", "d".repeat(120));
        let vars = [("HOME", "/h"), ("TMUX_TASK_RUNTIME_DIR", deep.as_str())];
        for session in ["a", &"long".repeat(50), "§ 日本"] {
            let place = place(&vars, "/t", session);
            assert!(
                place.socket().as_os_str().len() <= MAX_SOCKET_PATH,
                "{place:?}"
            );
            assert!(place.key.len() <= 40);
        }
    }

    #[test]
    fn a_link_is_refused_and_an_open_folder_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        check_ours(&open).unwrap();
        assert_eq!(fs::metadata(&open).unwrap().mode() & 0o777, 0o700);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert!(matches!(
            check_ours(&link),
            Err(PlaceError::NotOurs { what: "a link", .. })
        ));
    }
}

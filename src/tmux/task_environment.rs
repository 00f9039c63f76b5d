//! The environment of a task, and how it is passed without being visible.
//!
//! The values are on no command line and in nothing that tmux keeps: everybody can see arguments, a
//! session's environment goes to every later window, and tmux logs its commands. They are passed in
//! a file that only the user can read. The shell that the task starts with reads and removes it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tokio::process::Command as Process;

use super::gate;
use crate::files::{self, WRITABLE_BY_OTHERS};
use crate::model::environment::{WithheldVariables, is_shell_name};

/// The prefix of the files' names.
pub(super) const PREFIX: &str = "task-env-";

/// The suffix of the file with the variables that no shell can name.
const MORE: &str = ".more";

/// If a shell has not read its file after this time, it never will.
const STALE: Duration = Duration::from_secs(600);

/// Variables with a meaning to bash itself: they are passed to a shell when it starts, and never
/// set in one that is running.
const OF_BASH: [&str; 24] = [
    "ENV",
    "IFS",
    "UID",
    "EUID",
    "PPID",
    "GROUPS",
    "SHELLOPTS",
    "POSIXLY_CORRECT",
    "OPTIND",
    "OPTARG",
    "OPTERR",
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "HISTCMD",
    "FUNCNAME",
    "FUNCNEST",
    "DIRSTACK",
    "PIPESTATUS",
    "GLOBIGNORE",
    "EXECIGNORE",
];

/// The environment of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskEnvironment {
    variables: Vec<(OsString, OsString)>,
    /// Whether it is added to tmux's own environment.
    is_on_top_of_tmux: bool,
    withheld: WithheldVariables,
    /// The digest of the variables that were given for this task, if there are any.
    given: Option<u16>,
    /// The program that sets variables that no shell can name; see [`TaskEnvironment::set_by`].
    setter: Option<PathBuf>,
}

/// Returns the digest of variables that are given for a task; `None` if there are none. Their order does
/// not matter.
#[must_use]
pub(crate) fn digest_of(variables: &[(String, String)]) -> Option<u16> {
    let mut variables: Vec<&(String, String)> = variables.iter().collect();
    variables.sort();
    let mut hash = Sha256::new();
    for text in variables.iter().flat_map(|(name, value)| [name, value]) {
        hash.update(text);
        hash.update([0]);
    }
    let hash = hash.finalize();
    (!variables.is_empty()).then(|| u16::from_be_bytes([hash[0], hash[1]]))
}

impl TaskEnvironment {
    /// Returns the caller's environment without the withheld variables.
    #[must_use]
    pub(crate) fn of_caller(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        withheld: WithheldVariables,
    ) -> Self {
        let is_withheld = |name: &OsStr| name.to_str().is_some_and(|name| withheld.covers(name));
        let variables = variables
            .into_iter()
            .filter(|(name, _)| !is_withheld(name))
            .collect();
        Self {
            variables,
            is_on_top_of_tmux: false,
            withheld,
            given: None,
            setter: None,
        }
    }

    /// Returns tmux's environment.
    #[must_use]
    pub(crate) fn of_tmux(withheld: WithheldVariables) -> Self {
        Self {
            variables: Vec::new(),
            is_on_top_of_tmux: true,
            withheld,
            given: None,
            setter: None,
        }
    }

    /// Returns it with a program that sets variables that no shell can name. It is called as
    /// `PROGRAM set-environment FILE -- COMMAND...`, and is this program. Without it, and on top of
    /// tmux's environment, these variables are omitted.
    #[must_use]
    pub(crate) fn set_by(mut self, program: PathBuf) -> Self {
        self.setter = Some(program);
        self
    }

    /// Returns the variables that no shell can name, in the program's format: each ends with a NUL.
    fn beyond_shells(&self) -> Vec<u8> {
        let mut text = Vec::new();
        if self.setter.is_none() || self.is_on_top_of_tmux {
            return text;
        }
        for (name, value) in &self.variables {
            let is_usual = name.to_str().is_some_and(is_shell_name) || is_function(name);
            if !is_usual {
                text.extend_from_slice(name.as_bytes());
                text.push(b'=');
                text.extend_from_slice(value.as_bytes());
                text.push(0);
            }
        }
        text
    }

    /// Returns it with these variables set, even if they are withheld by name.
    #[must_use]
    pub(crate) fn with(mut self, given: impl IntoIterator<Item = (String, String)>) -> Self {
        let given: Vec<(String, String)> = given.into_iter().collect();
        self.given = digest_of(&given).or(self.given);
        for (name, value) in given {
            self.variables.retain(|(known, _)| known != name.as_str());
            self.variables.push((name.into(), value.into()));
        }
        self
    }

    /// Returns the digest of the variables that were given for this task, if there are any.
    pub(super) fn given(&self) -> Option<u16> {
        self.given
    }

    /// Whether it is added to tmux's own environment.
    pub(super) fn is_on_top_of_tmux(&self) -> bool {
        self.is_on_top_of_tmux
    }

    /// Returns a shell line that unsets the withheld variables.
    pub(super) fn unset_line(&self) -> String {
        let words: Vec<String> = self
            .withheld
            .names()
            .map(|pattern| match pattern.strip_suffix('*') {
                Some(beginning) => format!("${{!{beginning}@}}"),
                None => pattern.to_owned(),
            })
            .collect();
        format!("command unset -v {} 2>/dev/null || :", words.join(" "))
    }

    /// Returns the text that a shell reads. `again` is the part that a running shell may set once
    /// more.
    fn text(&self, functions: &[u8]) -> Vec<u8> {
        let mut usual = Vec::new();
        let mut of_bash = Vec::new();
        for (name, value) in &self.variables {
            let Some(name) = name.to_str().filter(|name| is_shell_name(name)) else {
                continue;
            };
            let is_of_bash = name.starts_with("BASH") || OF_BASH.contains(&name);
            let to = if is_of_bash { &mut of_bash } else { &mut usual };
            to.extend_from_slice(format!("declare -x {name}=").as_bytes());
            to.extend_from_slice(&quote(value.as_bytes()));
            to.push(b'\n');
        }
        usual.extend_from_slice(b"[ \"${1-}\" != again ] || return 0\n");
        usual.extend_from_slice(functions);
        usual.extend_from_slice(&of_bash);
        if let Some(setter) = &self.setter {
            usual.extend_from_slice(b"tmux_task_setter=");
            usual.extend_from_slice(&quote(setter.as_os_str().as_bytes()));
            usual.push(b'\n');
        }
        usual
    }

    /// Writes it to a new file in this folder, which is created if it is missing and must belong to
    /// the user alone.
    pub(super) async fn write(&self, folder: &Path, unique: &str) -> io::Result<EnvironmentFile> {
        files::make_folder(folder, WRITABLE_BY_OTHERS)?;
        remove_stale(folder);
        let text = self.text(&self.functions().await);
        let path = folder.join(format!("{PREFIX}{unique}"));
        let written = EnvironmentFile { path };
        write_private(&written.path, &text)?;
        let more = self.beyond_shells();
        if !more.is_empty() {
            write_private(&written.more(), &more)?;
        }
        Ok(written)
    }

    /// Returns the exported functions of bash, as bash prints them: the contents of their variables
    /// must not be executed directly.
    async fn functions(&self) -> Vec<u8> {
        let functions: Vec<_> = self
            .variables
            .iter()
            .filter(|(name, _)| is_function(name))
            .collect();
        if functions.is_empty() {
            return Vec::new();
        }
        let path = self.variables.iter().find(|(name, _)| name == "PATH");
        let said = Process::new("bash")
            .args(["--noprofile", "--norc", "-c", "declare -fx"])
            .env_clear()
            .envs(functions.into_iter().chain(path).map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .output();
        match tokio::time::timeout(super::one_shot::TIME_LIMIT, said).await {
            Ok(Ok(output)) => output.stdout,
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }
}

/// A file to be read by the shell of a task. Dropping it removes the file, unless it was handed
/// over.
#[derive(Debug)]
pub(super) struct EnvironmentFile {
    path: PathBuf,
}

impl EnvironmentFile {
    /// Returns the file at this path.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Copies it, with the variables that no shell can name, to a new file.
    pub(super) fn copy_to(&self, path: PathBuf) -> io::Result<Self> {
        let text = files::read(&self.path)?;
        let copy = Self { path };
        write_private(&copy.path, &text)?;
        match files::read(&self.more()) {
            Ok(more) => write_private(&copy.more(), &more)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(copy)
    }

    /// Returns the file's path, if it is UTF-8: tmux supports no other.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.to_str()
    }

    /// Returns the path of the file for variables that no shell can name.
    fn more(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(MORE);
        path.into()
    }

    /// Leaves the file to the shell that was started.
    pub(super) fn hand_over(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for EnvironmentFile {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let removed = [&self.path, &self.more()].map(fs::remove_file);
            tracing::debug!(?removed, "a task did not start");
        }
    }
}

/// Reads the variables that no shell can name and removes their file. Used by the program that sets
/// them.
///
/// # Errors
///
/// When the file cannot be read.
pub(crate) fn take_beyond_shells(file: &Path) -> io::Result<Vec<(OsString, OsString)>> {
    let text = fs::read(file)?;
    let removed = fs::remove_file(file);
    tracing::debug!(?removed, "an environment was read");
    let pair = |entry: &[u8]| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        let word = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Some((word(&entry[..at]), word(&entry[at + 1..])))
    };
    Ok(text.split(|byte| *byte == 0).filter_map(pair).collect())
}

/// Whether bash exports a function in this variable.
fn is_function(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"BASH_FUNC_")
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let file = files::create_new(path)?;
    (&file).write_all(text)
}

/// Removes environments that no shell has read, and gates of launchers that were killed: no task
/// waits at a gate that long.
fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = [PREFIX, gate::PREFIX]
            .iter()
            .any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()));
        let age = entry
            .metadata()
            .and_then(|found| found.modified())
            .map(|written| SystemTime::now().duration_since(written));
        if is_ours && matches!(age, Ok(Ok(age)) if age > STALE) {
            let removed = fs::remove_file(entry.path());
            tracing::debug!(?name, ?removed, "a launch left a file");
        }
    }
}

/// Quotes bytes for a shell.
fn quote(bytes: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, value: &[u8]) -> (OsString, OsString) {
        (name.into(), OsStr::from_bytes(value).to_owned())
    }

    #[test]
    fn other_variables_have_another_digest() {
        let variables = |all: &[(&str, &str)]| {
            let all = all.iter();
            let all = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            digest_of(&all.collect::<Vec<_>>())
        };
        assert_eq!(variables(&[]), None);
        let digest = variables(&[("A", "1"), ("B", "2")]);
        assert_eq!(digest, variables(&[("B", "2"), ("A", "1")]));
        for other in [
            &[("A", "1")][..],
            &[("A", "1"), ("B", "3")],
            &[("A", "1B"), ("", "2")],
        ] {
            assert_ne!(digest, variables(other));
        }
    }

    #[test]
    fn what_is_given_goes_before_what_is_withheld() {
        let caller = [variable("FOO", b"1"), variable("CLAUDECODE", b"1")];
        let given = [("FOO", "2"), ("CLAUDECODE", "mine")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let caller = TaskEnvironment::of_caller(caller, WithheldVariables::default());
        assert_eq!(caller.variables, [variable("FOO", b"1")]);
        assert_eq!(
            caller.with(given).variables,
            [variable("FOO", b"2"), variable("CLAUDECODE", b"mine")]
        );
    }

    /// Returns the environment of a shell that reads the file and started with none.
    async fn read_back(environment: &TaskEnvironment, how: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let file = environment.write(dir.path(), "x").await.unwrap();
        let script = format!(". \"$1\" {how} && exec env -0");
        let output = std::process::Command::new("bash")
            .args(["-pc", &script, "bash", file.path().unwrap()])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        drop(file);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        output.stdout
    }

    #[tokio::test]
    async fn any_value_arrives_byte_for_byte() {
        let every: Vec<u8> = (1..=255).collect();
        let values: [&[u8]; 9] = [
            b"",
            b"it's",
            b"a\nb\n",
            b"#{pid} #(id) ##",
            b"$(touch owned) `id` $HOME",
            b"\\",
            b"'\\''; touch owned #",
            &every,
            &[b'x'; 100_000],
        ];
        let names: Vec<String> = (0..values.len()).map(|n| format!("V{n}")).collect();
        let variables: Vec<_> = names
            .iter()
            .zip(values)
            .map(|(name, value)| variable(name, value))
            .collect();
        let environment =
            TaskEnvironment::of_caller(variables.clone(), WithheldVariables::default());
        for how in ["", "again"] {
            let read = read_back(&environment, how).await;
            let found: Vec<&[u8]> = read.split(|byte| *byte == 0).collect();
            for (name, value) in &variables {
                let expected = [name.as_bytes(), b"=", value.as_bytes()].concat();
                assert!(found.contains(&expected.as_slice()), "{how:?} {name:?}");
            }
        }
    }

    #[tokio::test]
    async fn functions_arrive_and_what_follows_them_does_not_run() {
        let environment = TaskEnvironment::of_caller(
            [
                variable("BASH_FUNC_good%%", b"() { echo fine; }"),
                variable("BASH_FUNC_bad%%", b"() { :; }; touch owned"),
                variable("BASH_FUNC_x y%%", b"() { :; }"),
                variable("a.b", b"1"),
            ],
            WithheldVariables::default(),
        );
        let read = read_back(&environment, "").await;
        let read = String::from_utf8(read).unwrap();
        assert!(read.contains("BASH_FUNC_good%%=() {"), "{read}");
        assert!(!read.contains("owned"), "{read}");
    }

    #[tokio::test]
    async fn what_no_shell_can_name_goes_by_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let odd = [
            variable("a.b", b"1=2\n\xff"),
            variable("npm_config_//host/:_token", b""),
        ];
        let more = [
            variable("FOO", b"1"),
            variable("BASH_FUNC_f%%", b"() { :; }"),
        ];
        let environment = TaskEnvironment::of_caller(
            odd.iter().chain(&more).cloned(),
            WithheldVariables::default(),
        );
        let file = environment.write(dir.path(), "x").await.unwrap();
        assert!(!file.more().exists());
        drop(file);
        let environment = environment.set_by("/bin/true".into());
        let file = environment.write(dir.path(), "x").await.unwrap();
        assert_eq!(take_beyond_shells(&file.more()).unwrap(), odd);
        assert!(!file.more().exists());
        drop(file);
        let file = environment.write(dir.path(), "x").await.unwrap();
        assert!(file.more().exists());
        drop(file);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_old_files_of_ours_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * STALE;
        for (name, time) in [
            ("task-env-old", Some(old)),
            ("task-env-new", None),
            ("other", Some(old)),
        ] {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            if let Some(time) = time {
                file.set_modified(time).unwrap();
            }
        }
        remove_stale(dir.path());
        assert!(!dir.path().join("task-env-old").exists());
        assert!(dir.path().join("task-env-new").exists());
        assert!(dir.path().join("other").exists());
    }

    #[test]
    fn gates_of_launchers_that_were_killed_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let killed = gate::Gate::close(dir.path()).unwrap();
        let old = dir.path().join("gate-1");
        fs::rename(killed.path(), &old).unwrap();
        let pipe = fs::File::options().read(true).write(true).open(&old);
        let long_ago = SystemTime::now() - 2 * STALE;
        pipe.unwrap().set_modified(long_ago).unwrap();
        let closed = gate::Gate::close(dir.path()).unwrap();
        remove_stale(dir.path());
        assert!(!old.exists());
        assert!(closed.path().exists());
        drop(killed);
    }
}

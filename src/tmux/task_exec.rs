//! What runs in a task's pane before its command, and the file from which it learns what that is.
//!
//! tmux starts `tmux-task --exec-pane FILE` in the pane. Only the user can read the file, and it is gone
//! before the command begins. While somebody has it locked, the command waits: whoever launches a task
//! locks it until tmux knows everything of the window, and whoever follows the output until it does so.
//!
//! The environment's values are on no command line and in nothing that tmux keeps: everybody can see
//! arguments, a session's environment goes to every later window, and tmux logs its commands.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::pane_origin::{IS_OF_LAUNCHER, PREFIX};
use super::window_options::{MARK, SPEC, STARTED, WORDS, decode_spec};
use crate::files::{self, PROC, WRITABLE_BY_OTHERS};
use crate::model::environment::{TaskEnvironment, WithheldVariables, covers_name, is_shell_name};
use crate::model::{Error, Slot, TaskSpec, lossless, quote_where_needed};

/// How long the first line of the file is: the pane in which the task has been launched, or blanks.
///
/// A process that waits in another pane was killed before the kernel could tell it: the one that a session
/// begins with.
const HEAD: usize = 12;

/// If a pane has not read its file after this time, it never will; a kept file that no window names then was
/// left by a launcher that was killed.
const STALE: Duration = Duration::from_secs(600);

/// How long a pane whose launcher is gone waits until tmux has done what that has told it, or the launch is
/// repeated; and how often it asks.
const ORPHANED: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// What tmux sets for the terminal of a pane.
const OF_PANE: [&str; 7] = [
    "TMUX",
    "TMUX_PANE",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERMINFO",
    "TERMINFO_DIRS",
];

/// What the kernel takes in one argument or variable, with its end: 32 pages of 4 KiB. Only Linux has
/// this limit.
const MAX_PART: u64 = if cfg!(linux) { 128 << 10 } else { u64::MAX };

/// The room for the script that runs the command.
const SCRIPT_ROOM: u64 = 8 << 10;

/// The script that the task's shell reads before the command.
const SCRIPT: &str = include_str!("task_shell.sh");

/// The variable with the script, which removes it.
const SCRIPT_VARIABLE: &str = "TMUX_TASK_SHELL";

/// The variable with the value of `BASH_ENV` until the command begins: bash would read its file before the
/// script.
const BASH_ENV: &str = "TMUX_TASK_BASH_ENV";

/// What follows the script. As in `bash -c LINE`; `eval` ends the line where it ends, whatever its last
/// character is. The last line keeps bash from replacing itself with the command's last program: a signal
/// that ends that program is then an exit code of the shell.
const RUN_LINE: &str = r#"builtin eval "$TMUX_TASK_SHELL"; BASH_EXECUTION_STRING=$1; builtin set --; builtin eval -- "$BASH_EXECUTION_STRING"
builtin exit "$?""#;
const RUN_ARGV: &str = r#"builtin eval "$TMUX_TASK_SHELL"; "$@"
builtin exit "$?""#;

/// What a task's pane runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PaneOrder {
    pub(super) environment: TaskEnvironment,
    pub(super) spec: TaskSpec,
}

/// Returns the environment of a task: the variables of its caller, unless it is to have those of tmux,
/// without the withheld ones; and those that are given for it, even if they are withheld by name.
pub(crate) fn environment_of(
    spec: &TaskSpec,
    caller: impl IntoIterator<Item = (OsString, OsString)>,
    withheld: &WithheldVariables,
) -> Result<TaskEnvironment, Error> {
    let is_withheld = |name: &OsStr| name.to_str().is_some_and(|name| withheld.covers(name));
    let variables = caller
        .into_iter()
        .filter(|(name, _)| !spec.is_env_clean && !is_withheld(name))
        .map(|(name, value)| (lossless::Text(name), lossless::Text(value)));
    let shell = find_bash().ok_or_else(|| Error::failed("could not find `bash` in PATH"))?;
    let mut environment = TaskEnvironment {
        shell: lossless::Text(shell.into()),
        withheld: withheld.names().map(str::to_owned).collect(),
        variables: variables.collect(),
    };
    for (name, value) in &spec.env {
        environment.set(name, Some(value));
    }
    Ok(environment)
}

/// Returns the variables of a task's shell, of which a later one goes before an earlier one.
fn variables_of_shell(
    environment: &TaskEnvironment,
    is_clean: bool,
) -> impl Iterator<Item = (OsString, OsString)> {
    let of_tmux = env::vars_os().filter(move |(name, _)| {
        let mut withheld = environment.withheld.iter();
        match (is_clean, name.to_str()) {
            (true, Some(name)) => !withheld.any(|pattern| covers_name(pattern, name)),
            (true, None) => true,
            (false, name) => name.is_some_and(|name| OF_PANE.contains(&name)),
        }
    });
    let variables = environment.variables.iter();
    let own = variables.map(|(name, value)| (name.0.clone(), value.0.clone()));
    of_tmux.chain(own).map(|(name, value)| match name {
        name if name == "BASH_ENV" => (BASH_ENV.into(), value),
        name => (name, value),
    })
}

impl PaneOrder {
    /// Refuses what the kernel cannot start.
    pub(super) fn check_size(&self) -> Result<(), Error> {
        // Each is counted with its end and a pointer.
        let size = |length: usize| length as u64 + 1 + size_of::<*const u8>() as u64;
        let mut bytes = SCRIPT_ROOM;
        for word in &self.spec.command {
            bytes += size(word.len());
            check_part("an argument is", word.len())?;
        }
        for (name, value) in &self.environment.variables {
            let length = name.0.len() + 1 + value.0.len();
            bytes += size(length);
            check_part(&format!("the variable {} is", name.0.display()), length)?;
        }
        check_size("the command and its environment are", bytes, max_size(), "")
    }

    /// Returns the script, without its comments.
    fn script(&self) -> String {
        let (withheld, variables) = (&self.environment.withheld, &self.environment.variables);
        let withheld = withheld.iter();
        let unset = withheld.map(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => format!("${{!{beginning}@}}"),
            None => pattern.to_owned(),
        });
        // Where the task's environment is tmux's, the profile may change all but what was given.
        let names = variables.iter().filter_map(|(name, _)| name.0.to_str());
        let names = names.filter(|name| is_shell_name(name));
        let save = match self.spec.is_env_clean {
            true => names.collect::<Vec<_>>().join(" "),
            false => "-x".to_owned(),
        };
        // Such a line may clean up at a hangup, so bash's own handling is kept.
        let line = self.spec.command.first().filter(|_| self.spec.is_line());
        let has_trap = line.is_some_and(|line| line.to_string_lossy().contains("trap"));
        let mut script = String::new();
        for (name, value) in [
            ("unset", unset.collect::<Vec<_>>().join(" ").as_str()),
            ("save", &save),
            ("hang_up", if has_trap { "" } else { "yes" }),
        ] {
            let value = quote_where_needed(value);
            script += &format!("tmux_task_{name}={value}\n");
        }
        let lines = SCRIPT.lines().map(str::trim_start);
        let lines = lines.filter(|line| !line.starts_with('#'));
        script + &lines.flat_map(|line| [line, "\n"]).collect::<String>()
    }

    /// Returns the shell that runs the command.
    fn shell(&self) -> Command {
        let run = match self.spec.is_line() {
            true => RUN_LINE,
            false => RUN_ARGV,
        };
        let variables = variables_of_shell(&self.environment, self.spec.is_env_clean);
        let mut shell = Command::new(&self.environment.shell.0);
        shell
            .args(["--noprofile", "-lc", run, "bash"])
            .args(&self.spec.command)
            .env_clear()
            .envs(variables)
            .env(SCRIPT_VARIABLE, self.script());
        shell
    }
}

/// Returns what the kernel takes in all arguments and variables, as `getconf ARG_MAX` does.
#[cfg(linux)]
fn max_size() -> u64 {
    // A quarter of the stack, at least 32 pages, at most 6 MiB.
    let stack = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    (stack.unwrap_or(u64::MAX) / 4).clamp(MAX_PART, 6 << 20)
}

#[cfg(not(linux))]
fn max_size() -> u64 {
    1 << 20
}

fn check_part(what: &str, bytes: usize) -> Result<(), Error> {
    check_size(what, bytes as u64, MAX_PART - 1, " in one")
}

fn check_size(what: &str, bytes: u64, limit: u64, scope: &str) -> Result<(), Error> {
    if bytes <= limit {
        return Ok(());
    }
    let kernel = format!("{bytes} bytes, and the kernel takes {limit}{scope}");
    Err(Error::failed(format!("{what} too long: {kernel}"))
        .with_hint("`getconf ARG_MAX` prints the limit for all of it; a file has none"))
}

/// Finds bash where the caller does, otherwise where it usually is: the tmux server may have another
/// `PATH`.
fn find_bash() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/bin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(usual)
        .map(|folder| folder.join("bash"))
        .find(|path| path.is_absolute() && is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Replaces this process with the shell that runs the task of this file, after `before` has waited for a
/// place in its slot if it has one. The process stays the same one throughout. Returns only if that fails.
pub(crate) fn exec_task(path: &Path, before: impl FnOnce(&Slot)) -> Error {
    let pane = env::var("TMUX_PANE").unwrap_or_default();
    let name = path.file_name().and_then(OsStr::to_str);
    let token = name.and_then(|name| name.strip_prefix(PREFIX));
    let launched = format!("#{{?{},#{{{MARK}}},}}", *IS_OF_LAUNCHER);
    let is_launched = || {
        let shown = show(&pane, &launched);
        token.is_some_and(|token| shown.is_some_and(|shown| shown.trim_end() == token))
    };
    let taken = take(path, &pane, is_launched).or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        let not_ours = || io::Error::other("this is not the process of a task's pane");
        recorded_order(&pane).ok_or_else(not_ours)
    });
    let order = match taken {
        Ok(order) => order,
        Err(error) => {
            let file = path.display();
            return Error::io(format!("could not read what to run from {file}"), &error);
        }
    };
    if let Some(slot) = &order.spec.settings.slot {
        before(slot);
    }
    let shell = Path::new(&order.environment.shell.0).display();
    let what = format!("could not start {shell}");
    Error::io(what, &order.shell().exec())
}

/// Returns what tmux says of our pane in this format.
fn show(pane: &str, format: &str) -> Option<String> {
    // The server's own program, unless one is named.
    let inside = env::var("TMUX").ok()?;
    let own = format!("{PROC}/{}/exe", inside.split(',').nth(1)?);
    let named = env::var_os("TMUX_TASK_TMUX").filter(|name| !name.is_empty());
    let program = named.or_else(|| Path::new(&own).exists().then(|| own.into()));
    let shown = Command::new(program.unwrap_or_else(|| "tmux".into()))
        .args(["-u", "display-message", "-p", "-t", pane, format])
        .stderr(Stdio::null())
        .output();
    String::from_utf8(shown.ok()?.stdout).ok()
}

/// Returns what the window of our pane has recorded, in tmux's environment, if it was respawned by hand.
fn recorded_order(pane: &str) -> Option<PaneOrder> {
    let names = [
        "pane_pid",
        STARTED,
        SPEC,
        WORDS,
        "window_name",
        "session_name",
    ];
    let shown = show(pane, &names.map(|name| format!("#{{{name}}}")).join("\n"))?;
    let mut lines = shown.lines();
    let ours = [std::process::id(), parent_id()].map(|pid| pid.to_string());
    lines.next().filter(|pid| ours.contains(&(*pid).into()))?;
    let started = lines.next()?.parse().ok();
    let mut spec = decode_spec(lines.next()?, started)?;
    let words = decode_spec(lines.next()?, started)?;
    spec.command = Some(words.command).filter(|words| !words.is_empty())?;
    spec.is_env_clean = true;
    // A place in it is not waited for.
    spec.settings.slot = None;
    let mut environment = environment_of(&spec, [], &WithheldVariables::default()).ok()?;
    let name = lines.next()?;
    environment.name_task(lines.next()?, name, None);
    Some(PaneOrder { environment, spec })
}

/// The file of a launch, which holds its command back until this is dropped. That removes the file, unless
/// it was left to the pane, and the environment that was kept with it.
#[derive(Debug)]
pub(crate) struct TaskFile {
    /// Empty once it is left to the pane.
    path: PathBuf,
    file: File,
    /// The environment for restarts: nobody's is at hand then, and the daemon has another one.
    kept: Option<PathBuf>,
}

impl TaskFile {
    /// Writes a new file in this folder, which is created if it is missing and must belong to the user
    /// alone.
    pub(super) fn write(folder: &Path, token: &str, order: &PaneOrder) -> io::Result<Self> {
        files::make_folder(folder, WRITABLE_BY_OTHERS)?;
        // Those that no pane has read.
        remove_files(folder, |name, stale| stale && name.starts_with(PREFIX));
        let path = folder.join(format!("{PREFIX}{token}"));
        // One of a daemon that was killed during the same launch is replaced: a pane that waits for it waits
        // for this one then.
        let fresh = path.with_extension("new");
        files::if_there(fs::remove_file(&fresh))?;
        let file = files::create_new(&fresh)?;
        let mut written = Self {
            path: fresh,
            file,
            kept: None,
        };
        let mut bytes = vec![b' '; HEAD];
        serde_json::to_writer(&mut bytes, order)?;
        (&written.file).write_all(&bytes)?;
        written.file.lock_shared()?;
        fs::rename(&written.path, &path)?;
        written.path = path;
        Ok(written)
    }

    /// Keeps the environment in this folder, which is as the other one.
    pub(super) fn keep(
        &mut self,
        folder: &Path,
        token: &str,
        environment: &TaskEnvironment,
    ) -> io::Result<()> {
        files::make_folder(folder, WRITABLE_BY_OTHERS)?;
        let path = folder.join(token);
        let bytes = serde_json::to_vec(environment)?;
        files::replace(&path, &path.with_extension("new"), &bytes)?;
        self.kept = Some(path);
        Ok(())
    }

    /// Returns its path, if it is UTF-8: tmux supports no other.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.to_str()
    }

    /// Leaves the file to the pane in which the task was started, whose command begins when the result is
    /// dropped.
    pub(crate) fn release(mut self, pane: &str) -> Self {
        let head = format!("{pane:HEAD$}");
        let noted = self.file.write_all_at(head.as_bytes(), 0);
        tracing::debug!(?noted, "a task was launched");
        self.path = PathBuf::new();
        self.kept = None;
        self
    }
}

impl Drop for TaskFile {
    fn drop(&mut self) {
        let path = Some(&self.path).filter(|path| !path.as_os_str().is_empty());
        for path in path.into_iter().chain(&self.kept) {
            let removed = fs::remove_file(path);
            tracing::debug!(?removed, "a task did not start");
        }
    }
}

/// Reads the file at this path when nobody holds the command back any more, and removes it, if it is for
/// this pane. If its launcher was killed before it could note that, `is_launched` says whether it is.
pub(super) fn take(
    path: &Path,
    pane: &str,
    is_launched: impl Fn() -> bool,
) -> io::Result<PaneOrder> {
    take_from(lock(path)?, path, pane, is_launched)
}

fn take_from(
    mut file: File,
    path: &Path,
    pane: &str,
    is_launched: impl Fn() -> bool,
) -> io::Result<PaneOrder> {
    let mut head = [0; HEAD];
    let mut waited = Duration::ZERO;
    loop {
        file.read_exact_at(&mut head, 0)?;
        if !pane.is_empty() && head == *format!("{pane:HEAD$}").as_bytes() {
            break;
        }
        if head != [b' '; HEAD] {
            return Err(io::Error::other("it is for another pane"));
        }
        if file.metadata()?.nlink() == 0 {
            // The launch is tried again, or has failed.
            let given_up = |_| io::Error::other("its launch was not completed");
            file = lock(path).map_err(given_up)?;
            continue;
        }
        // Its launcher holds no lock: it has died, or files cannot be locked here.
        if is_launched() {
            break;
        }
        if waited >= ORPHANED {
            return Err(io::Error::other("its launch was not completed"));
        }
        // Nothing tells when the head is written, or tmux has the launch.
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    fs::remove_file(path)?;
    parse(bytes.get(HEAD..).unwrap_or_default())
}

/// Opens the file when nobody holds the command back any more.
fn lock(path: &Path) -> io::Result<File> {
    let file = files::open(path)?;
    // Where files cannot be locked, the head and tmux are all there is to wait for.
    file.lock().or_else(|error| match error.raw_os_error() {
        Some(_) => Ok(()),
        None => Err(error),
    })?;
    Ok(file)
}

/// Reads the environment of a file that [`TaskFile::keep`] has written.
pub(crate) fn kept_environment(folder: &Path, token: &str) -> io::Result<TaskEnvironment> {
    parse(&files::read(&folder.join(token))?)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|_| io::Error::other("it is of another version of tmux-task"))
}

/// Removes the files of a folder that are not needed any more, by their names and whether they are
/// [`STALE`].
fn remove_files(folder: &Path, is_over: impl Fn(&str, bool) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let written = entry.metadata().and_then(|found| found.modified());
        let age = written.map(|written| SystemTime::now().duration_since(written));
        let is_stale = matches!(age, Ok(Ok(age)) if age > STALE);
        if name.to_str().is_some_and(|name| is_over(name, is_stale)) {
            let removed = fs::remove_file(entry.path());
            tracing::debug!(?name, ?removed, "a launch's file is not needed any more");
        }
    }
}

/// Removes the environments in this folder that no task needs any more: those of `gone`, and those
/// that are long there and not of `present`.
pub(crate) fn forget_environments(
    folder: &Path,
    present: &BTreeSet<String>,
    gone: &BTreeSet<String>,
) {
    if files::check_owner_of_folder(folder).is_ok() {
        remove_files(folder, |token, is_stale| {
            gone.contains(token) || (is_stale && !present.contains(token))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    impl TaskFile {
        /// Its launcher was killed, which removes nothing.
        fn killed(mut self) {
            self.path = PathBuf::new();
        }
    }

    fn os(bytes: &[u8]) -> OsString {
        OsStr::from_bytes(bytes).to_owned()
    }

    fn order_of(command: Vec<OsString>) -> PaneOrder {
        let spec = TaskSpec {
            command,
            ..TaskSpec::default()
        };
        let environment = environment_of(&spec, [], &WithheldVariables::default());
        let environment = environment.unwrap();
        PaneOrder { environment, spec }
    }

    fn order(words: &[&[u8]]) -> PaneOrder {
        order_of(words.iter().map(|word| os(word)).collect())
    }

    /// Writes the file of a launch of these words; returns it with its path.
    fn write(folder: &Path, words: &[&[u8]]) -> (TaskFile, PathBuf) {
        let file = TaskFile::write(folder, "1-2", &order(words)).unwrap();
        let path = PathBuf::from(file.path().unwrap());
        (file, path)
    }

    /// Makes files, some of them stale.
    fn make(folder: &Path, files: &[(&str, bool)]) {
        for (name, is_stale) in files {
            let file = File::create(folder.join(name)).unwrap();
            if *is_stale {
                file.set_modified(SystemTime::now() - 2 * STALE).unwrap();
            }
        }
    }

    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect()
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn an_order_is_read_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let every: Vec<u8> = (1..=255).collect();
        let mut order = order(&[b"printf", &every, b""]);
        let variables: [(&[u8], &[u8]); 4] = [
            (b"EVERY", &every),
            (b"npm_config_//host/:_token", b"a=b\n"),
            (b"BASH_FUNC_f%%", b"() { :; }"),
            (b"=odd", b""),
        ];
        let text = |bytes| lossless::Text(os(bytes));
        let variables = variables.map(|(name, value)| (text(name), text(value)));
        order.environment.variables = variables.to_vec();
        let mut file = TaskFile::write(dir.path(), "1-2", &order).unwrap();
        file.keep(dir.path(), "1-2", &order.environment).unwrap();
        let kept = kept_environment(dir.path(), "1-2").unwrap();
        assert_eq!(kept, order.environment);
        let path = file.path.clone();
        drop(file.release("%7"));
        assert_eq!(take(&path, "%7", || false).unwrap(), order);
        kept_environment(dir.path(), "1-2").unwrap();
    }

    #[test]
    fn what_is_given_goes_before_what_is_withheld() {
        let given = [("FOO", "2"), ("CLAUDECODE", "mine")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (is_env_clean, expected) in [
            (false, "X=1 FOO=2 CLAUDECODE=mine"),
            (true, "FOO=2 CLAUDECODE=mine"),
        ] {
            let spec = TaskSpec {
                env: given.to_vec(),
                is_env_clean,
                ..TaskSpec::default()
            };
            let caller = ["X", "FOO", "CLAUDECODE"].map(|name| (name.into(), "1".into()));
            let environment = environment_of(&spec, caller, &WithheldVariables::default());
            let variables = environment.unwrap().variables.into_iter();
            let variables =
                variables.map(|(name, value)| (name.0.into_string(), value.0.into_string()));
            let shown = variables.map(|(name, value)| name.unwrap() + "=" + &value.unwrap());
            assert_eq!(shown.collect::<Vec<_>>().join(" "), expected);
        }
    }

    #[test]
    fn what_the_kernel_does_not_take_is_refused() {
        assert!(order(&[b"echo", b"x"]).check_size().is_ok());
        let many = vec![&[b'x'; 1000][..]; 10_000];
        let refused = order(&many).check_size();
        assert!(refused.unwrap_err().to_string().contains("too long"));
        #[cfg(linux)]
        for (length, is_taken) in [(131_071, true), (131_072, false)] {
            let refused = order(&[b"echo", &vec![b'x'; length]]).check_size();
            assert_eq!(refused.is_ok(), is_taken, "{length}");
        }
    }

    #[test]
    fn a_command_begins_when_nobody_holds_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let (file, path) = write(dir.path(), &[b"true"]);
        let gate = file.release("%7");
        let probe = files::open(&path).unwrap();
        assert!(probe.try_lock().is_err());
        drop(gate);
        // Not at once: a child that another test starts has this file, too, until it becomes another program.
        probe.lock().unwrap();
        drop(probe);
        let taken = |pane| take(&path, pane, || false);
        assert!(taken("%70").is_err() && taken("").is_err());
        assert_eq!(taken("%7").unwrap(), order(&[b"true"]));
        assert_eq!(names(dir.path()), set(&[]));
    }

    #[test]
    fn a_command_whose_launcher_was_killed_begins_when_tmux_has_its_launch() {
        let dir = tempfile::tempdir().unwrap();
        let (file, path) = write(dir.path(), &[b"true"]);
        file.killed();
        let asked = std::cell::Cell::new(0);
        let is_launched = || asked.replace(asked.get() + 1) == 2;
        let taken = take(&path, "%7", is_launched);
        assert_eq!((taken.unwrap(), asked.get()), (order(&[b"true"]), 3));
    }

    #[test]
    fn a_command_waits_for_the_launch_that_follows_one_whose_launcher_was_killed() {
        let dir = tempfile::tempdir().unwrap();
        let (killed, path) = write(dir.path(), &[b"first"]);
        let (opened, opens) = std::sync::mpsc::channel();
        let pane = std::thread::spawn(move || {
            let file = lock(&path).unwrap();
            opened.send(()).unwrap();
            take_from(file, &path, "%7", || false)
        });
        killed.killed();
        opens.recv().unwrap();
        drop(write(dir.path(), &[b"second"]).0.release("%7"));
        assert_eq!(pane.join().unwrap().unwrap(), order(&[b"second"]));
        assert_eq!(names(dir.path()), set(&[]));
    }

    #[test]
    fn a_launch_that_is_given_up_starts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (file, path) = write(dir.path(), &[b"true"]);
        let opened = files::open(&path).unwrap();
        drop(file);
        assert_eq!(opened.metadata().unwrap().nlink(), 0);
        assert!(take(&path, "%7", || false).is_err());
        assert_eq!(names(dir.path()), set(&[]));
    }

    #[test]
    fn only_old_files_of_ours_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| format!("{PREFIX}{name}"));
        make(dir.path(), &[(&old, true), (&new, false), ("other", true)]);
        // Writing one removes the others.
        let (file, _) = write(dir.path(), &[b"true"]);
        file.killed();
        let written = format!("{PREFIX}1-2");
        assert_eq!(names(dir.path()), set(&[&new, "other", &written]));
    }

    fn run(words: Vec<OsString>) -> std::process::Output {
        let mut order = order_of(words);
        order.environment.withheld = vec!["PI_SESSION_ID".to_owned()];
        let home = tempfile::tempdir().unwrap();
        let profile = "export PI_SESSION_ID=x";
        fs::write(home.path().join(".profile"), profile).unwrap();
        let mut shell = order.shell();
        shell.env("PATH", env::var_os("PATH").unwrap());
        shell.env("HOME", home.path()).env("TMUX_TASK_NAME", "it's");
        shell.output().unwrap()
    }

    #[track_caller]
    fn check(words: &[&str], stdout: &str, code: i32) {
        let output = run(words.iter().map(Into::into).collect());
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!((&*printed, output.status.code()), (stdout, Some(code)));
    }

    #[test]
    fn one_word_is_a_line_of_shell() {
        for (line, stdout, code) in [
            ("echo \"it's $((1+1))\"", "it's 2\n", 0),
            ("echo a; echo b # done", "a\nb\n", 0),
            ("printf %s \"a\nb\"", "a\nb", 0),
            ("echo 'é 日本'", "é 日本\n", 0),
            ("cat <<X\nhi\nX", "hi\n", 0),
            ("echo ${PI_SESSION_ID-unset}", "unset\n", 0),
            ("echo $TMUX_TASK_NAME $0 $#", "it's bash 0\n", 0),
            ("false && true", "", 1),
            ("false | true", "", 1),
            ("false; echo on", "", 1),
            ("exit 7", "", 7),
            ("echo a\\", "a\\\n", 0),
            ("bash -c 'kill -9 $$'", "", 137),
            ("-x", "", 127),
            // Lines are counted as in a shell.
            ("echo $LINENO", "1\n", 0),
            ("true\n\necho $LINENO", "3\n", 0),
        ] {
            check(&[line], stdout, code);
        }
    }

    #[test]
    fn an_error_names_the_line_as_in_a_shell() {
        for (command, line, expected) in [
            (&["no-such-command"][..], 1, "no-such-command: command not"),
            (&["no-such-command", "a b"], 1, "no-such-command: command"),
            (&["true\nno-such-command"], 2, "no-such-command: command"),
            (
                &["if :; then\n  :\n  no-such\nfi"],
                3,
                "no-such: command not",
            ),
            (&["true\necho $no_such"], 2, "no_such: unbound variable"),
            (&["true\nfi"], 2, "syntax error"),
        ] {
            let output = run(command.iter().map(Into::into).collect());
            assert!(!output.status.success(), "{command:?}");
            // Without a terminal, the end has something to say as well.
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let first = said.lines().next().unwrap_or_default();
            let expected = format!("line {line}: {expected}");
            assert!(first.contains(&expected), "{command:?}: {first}");
        }
    }

    #[test]
    fn several_words_are_an_argv() {
        let words = [
            "printf", "[%s]", "a b", "", "it's", "$HOME", "a\nb", "*", "\\",
        ];
        check(&words, "[a b][][it's][$HOME][a\nb][*][\\]", 0);
        check(&["sh", "-c", "kill -15 $$"], "", 143);
    }

    #[test]
    fn any_bytes_arrive() {
        let every: Vec<u8> = (1..=255).collect();
        for bytes in [every.as_slice(), b"\xff", b"a\xff ; touch owned #'\\"] {
            let word = OsStr::from_bytes(bytes).to_owned();
            let output = run(vec!["printf".into(), "%s".into(), word]);
            assert_eq!(output.stdout, bytes);
        }
        let line = OsStr::from_bytes(b"printf %s 'it\xff' \"\xfe\\\\\"").to_owned();
        assert_eq!(run(vec![line]).stdout, b"it\xff\xfe\\");
    }

    #[test]
    fn only_what_no_task_needs_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let kept = [
            ("gone", false),
            ("present", true),
            ("lost", true),
            ("launching", false),
        ];
        make(dir.path(), &kept);
        forget_environments(dir.path(), &set(&["present"]), &set(&["gone"]));
        assert_eq!(names(dir.path()), set(&["launching", "present"]));
        let none = dir.path().join("none");
        forget_environments(&none, &set(&["present"]), &set(&["gone"]));
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, other) = (dir.path().join("gone"), dir.path().join("other"));
        fs::create_dir(&other).unwrap();
        make(&other, &[("7-1", false)]);
        std::os::unix::fs::symlink(&other, &folder).unwrap();
        forget_environments(&folder, &set(&[]), &set(&["7-1"]));
        assert_eq!(names(&other), set(&["7-1"]));
    }
}

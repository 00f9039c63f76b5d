//! The file from which a task's pane learns what to run.
//!
//! tmux starts `tmux-task --exec-pane FILE` in the pane. Only the user can read the file, and it is gone
//! before the command begins. While somebody has it locked, the command waits: whoever launches a task
//! locks it until tmux knows everything of the window, and whoever follows the output until it does so.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::command_words::CommandWords;
use super::task_environment::set;
use crate::files::{self, WRITABLE_BY_OTHERS};
use crate::model::{Error, Slot};

/// What the program is told with a file in a pane, and by nobody else.
pub(crate) const EXEC_PANE: &str = "--exec-pane";

/// The prefix of the files' names.
pub(super) const PREFIX: &str = "exec-task-";

/// The version of the format.
const VERSION: &[u8] = b"2";

/// How long the first line of the file is: the pane in which the task has been launched, or blanks.
///
/// A process that waits in another pane was killed before the kernel could tell it: the one that a session
/// begins with.
const HEAD: usize = 12;

/// If a pane has not read its file after this time, it never will.
const STALE: Duration = Duration::from_secs(600);

/// How long a pane whose launcher is gone waits for whoever finds out what that has launched.
const ORPHANED: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// The variable with the slot of a task.
const SLOT_VARIABLE: &str = "TMUX_TASK_SLOT";

/// What a task's pane runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskOrder {
    /// The path of bash.
    pub(super) shell: PathBuf,
    /// Whether the variables are added to tmux's environment.
    pub(super) is_on_top_of_tmux: bool,
    /// The names, or prefixes ending in `*`, of the variables that no task may see.
    pub(super) withheld: Vec<String>,
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) command: CommandWords,
}

/// What the kernel takes in one argument or variable, with its end: 32 pages of 4 KiB. Only Linux has
/// this limit.
const MAX_PART: u64 = if cfg!(linux) { 128 << 10 } else { u64::MAX };

/// The room for the script that runs the command.
const SCRIPT_ROOM: u64 = 8 << 10;

impl TaskOrder {
    /// Adds the variables that tell the task its session and its name.
    pub(super) fn name_task(&mut self, session: &str, name: &str) {
        for (variable, value) in [
            ("TMUX_TASK_SESSION", session),
            ("PI_TMUX_SESSION", session),
            ("TMUX_TASK_NAME", name),
        ] {
            set(&mut self.variables, variable, value);
        }
    }

    /// Notes its slot in its environment, and that it has none: its launcher may run in one.
    pub(super) fn set_slot(&mut self, slot: Option<&Slot>) {
        self.variables.retain(|(known, _)| known != SLOT_VARIABLE);
        if let Some(slot) = slot {
            set(&mut self.variables, SLOT_VARIABLE, &slot.to_string());
        }
    }

    /// Returns its slot.
    pub(super) fn slot(&self) -> Option<Slot> {
        let mut variables = self.variables.iter();
        let (_, slot) = variables.find(|(name, _)| name == SLOT_VARIABLE)?;
        Slot::parse(slot.to_str()?).ok()
    }

    /// Refuses what the kernel cannot start.
    pub(super) fn check_size(&self) -> Result<(), Error> {
        // Each is counted with its end and a pointer.
        let size = |length: usize| length as u64 + 1 + size_of::<*const u8>() as u64;
        let mut bytes = SCRIPT_ROOM;
        for word in self.command.words() {
            bytes += size(word.len());
            check_part("an argument", word.len() as u64)?;
        }
        for (name, value) in &self.variables {
            let length = name.len() + 1 + value.len();
            bytes += size(length);
            check_part(&format!("the variable {}", name.display()), length as u64)?;
        }
        let limit = max_size();
        if bytes > limit {
            return Err(too_long(
                "the command and its environment are",
                bytes,
                limit,
                "",
            ));
        }
        Ok(())
    }

    /// Returns the file's contents after its head: fields that each end with a NUL.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |parts: &[&[u8]]| {
            bytes.extend_from_slice(&parts.concat());
            bytes.push(0);
        };
        let environment: &[u8] = if self.is_on_top_of_tmux {
            b"tmux"
        } else {
            b"caller"
        };
        add(&[VERSION]);
        add(&[self.shell.as_os_str().as_bytes()]);
        add(&[environment]);
        add(&[self.withheld.join(" ").as_bytes()]);
        add(&[self.variables.len().to_string().as_bytes()]);
        for (name, value) in &self.variables {
            add(&[name.as_bytes(), b"=", value.as_bytes()]);
        }
        for word in self.command.words() {
            add(&[word.as_bytes()]);
        }
        bytes
    }

    /// Reads what [`TaskOrder::encode`] returns; `None` when it is of another version, or damaged.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (last, fields) = bytes.split_last()?;
        let mut fields = fields.split(|byte| *byte == 0);
        let text = |field: &[u8]| String::from_utf8(field.to_owned()).ok();
        let is_ours = *last == 0 && fields.next()? == VERSION;
        let shell = OsStr::from_bytes(fields.next()?).into();
        let is_on_top_of_tmux = fields.next()? == b"tmux";
        let withheld = text(fields.next()?)?;
        let n_variables: usize = text(fields.next()?)?.parse().ok()?;
        let variables = fields.by_ref().take(n_variables).map(|field| {
            // A name may begin with `=`.
            let at = 1 + field.get(1..)?.iter().position(|byte| *byte == b'=')?;
            let word = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            Some((word(&field[..at]), word(&field[at + 1..])))
        });
        let variables: Vec<_> = variables.collect::<Option<_>>()?;
        let words: Vec<OsString> = fields
            .map(|word| OsString::from_vec(word.to_owned()))
            .collect();
        (is_ours && variables.len() == n_variables && !words.is_empty()).then(|| Self {
            shell,
            is_on_top_of_tmux,
            withheld: withheld.split_whitespace().map(str::to_owned).collect(),
            variables,
            command: CommandWords::from_words(words),
        })
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

fn too_long(what: &str, bytes: u64, limit: u64, scope: &str) -> Error {
    Error::failed(format!(
        "{what} too long: {bytes} bytes, and the kernel takes {limit}{scope}"
    ))
    .with_hint("`getconf ARG_MAX` prints the limit for all of it; a file has none")
}

fn check_part(what: &str, bytes: u64) -> Result<(), Error> {
    if bytes >= MAX_PART {
        return Err(too_long(
            &format!("{what} is"),
            bytes,
            MAX_PART - 1,
            " in one",
        ));
    }
    Ok(())
}

/// The file of a launch. Dropping it removes it, unless [`TaskFile::release`] has left it to the pane.
#[derive(Debug)]
pub(super) struct TaskFile {
    path: PathBuf,
    file: File,
}

impl TaskFile {
    /// Writes a new file in this folder, which is created if it is missing and must belong to the user
    /// alone.
    pub(super) fn write(folder: &Path, token: &str, order: &TaskOrder) -> io::Result<Self> {
        files::make_folder(folder, WRITABLE_BY_OTHERS)?;
        remove_stale(folder);
        Self::create(folder.join(format!("{PREFIX}{token}")), order)
    }

    /// Writes a copy that no pane reads.
    pub(super) fn keep(folder: &Path, token: &str, order: &TaskOrder) -> io::Result<Self> {
        files::make_folder(folder, WRITABLE_BY_OTHERS)?;
        Self::create(folder.join(token), order)
    }

    fn create(path: PathBuf, order: &TaskOrder) -> io::Result<Self> {
        let file = files::create_new(&path)?;
        let written = Self { path, file };
        let bytes = [&[b' '; HEAD][..], &order.encode()].concat();
        (&written.file).write_all(&bytes)?;
        Ok(written)
    }

    /// Returns its path, if it is UTF-8: tmux supports no other.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.to_str()
    }

    /// Makes the command wait until the result of [`TaskFile::release`] is dropped.
    pub(super) fn lock(&self) -> io::Result<()> {
        self.file.lock_shared()
    }

    /// Leaves the file to the pane, in which the task is launched.
    pub(super) fn release(mut self, pane: &str) -> Gate {
        self.path = PathBuf::new();
        let file = self.file.try_clone();
        file.map_or(Gate(None), |file| Gate::of_launched(file, pane))
    }

    /// Leaves the copy to the daemon.
    pub(super) fn leave(mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for TaskFile {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let removed = fs::remove_file(&self.path);
            tracing::debug!(?removed, "a task did not start");
        }
    }
}

/// Holds a launched command back until it is dropped, if its file is locked.
#[derive(Debug)]
pub(crate) struct Gate(Option<File>);

impl Gate {
    fn of_launched(file: File, pane: &str) -> Self {
        let noted = file.write_all_at(format!("{pane:HEAD$}").as_bytes(), 0);
        tracing::debug!(?noted, "a task was launched");
        Self(Some(file))
    }

    /// Holds the command of a file back while its window is made.
    ///
    /// # Errors
    ///
    /// When the file is gone.
    pub(crate) fn close(path: &str) -> Result<Self, Error> {
        let name = Path::new(path).file_name().unwrap_or_default();
        let closed = match name.as_bytes().starts_with(PREFIX.as_bytes()) {
            true => files::open_existing_to_write(Path::new(path)).and_then(|file| {
                file.lock_shared()?;
                Ok(file)
            }),
            false => Err(io::ErrorKind::InvalidFilename.into()),
        };
        closed
            .map(|file| Self(Some(file)))
            .map_err(|error| Error::io(format_args!("could not open {path}"), &error))
    }

    /// Lets the command begin in this pane, whose window is complete.
    pub(crate) fn open(self, pane: &str) {
        drop(self.0.map(|file| Self::of_launched(file, pane)));
    }
}

/// Reads the file at this path when nobody holds the command back any more, and removes it, if it is for
/// this pane.
pub(super) fn take(path: &Path, pane: &str) -> io::Result<TaskOrder> {
    let file = files::open(path)?;
    // Where files cannot be locked, the head is all there is to wait for.
    file.lock().or_else(|error| match error.raw_os_error() {
        Some(_) => Ok(()),
        None => Err(error),
    })?;
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
        if waited >= ORPHANED || file.metadata()?.nlink() == 0 {
            return Err(io::Error::other("its launch was not completed"));
        }
        // Its launcher holds no lock: it has died, or files cannot be locked here. Nothing tells when
        // the head is written.
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
    let order = read_order(file);
    fs::remove_file(path)?;
    order
}

/// Reads a file that [`TaskFile::keep`] has written.
pub(super) fn read_kept(path: &Path) -> io::Result<TaskOrder> {
    read_order(files::open(path)?)
}

fn read_order(mut file: File) -> io::Result<TaskOrder> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let order = bytes.get(HEAD..).and_then(TaskOrder::decode);
    order.ok_or_else(|| io::Error::other("it is of another version of tmux-task"))
}

/// Removes the files that no pane has read.
fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name.as_bytes().starts_with(PREFIX.as_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn order(words: &[&[u8]]) -> TaskOrder {
        let os = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let every: Vec<u8> = (1..=255).collect();
        TaskOrder {
            shell: "/bin/bash".into(),
            is_on_top_of_tmux: false,
            withheld: vec!["AGENT".into(), "CLAUDE_CODE_*".into()],
            variables: vec![
                (os(b"EVERY"), os(&every)),
                (os(b"npm_config_//host/:_token"), os(b"a=b\n")),
                (os(b"BASH_FUNC_f%%"), os(b"() { :; }")),
                (os(b"=odd"), os(b"")),
            ],
            command: CommandWords::from_words(words.iter().map(|word| os(word)).collect()),
        }
    }

    #[test]
    fn an_order_is_read_byte_for_byte() {
        let every: Vec<u8> = (1..=255).collect();
        for words in [
            &[&b"echo a\n"[..]][..],
            &[b"", b""],
            &[b"printf", &every, b""],
        ] {
            let order = order(words);
            assert_eq!(TaskOrder::decode(&order.encode()), Some(order.clone()));
            for cut in 0..order.encode().len() {
                assert_ne!(
                    TaskOrder::decode(&order.encode()[..cut]),
                    Some(order.clone())
                );
            }
        }
    }

    #[test]
    fn what_the_kernel_does_not_take_is_refused() {
        assert!(order(&[b"echo", b"x"]).check_size().is_ok());
        let many = vec![&[b'x'; 1000][..]; 10_000];
        let refused = order(&many).check_size();
        assert!(refused.unwrap_err().message.contains("are too long"));
        #[cfg(linux)]
        for (length, is_taken) in [(131_071, true), (131_072, false)] {
            let refused = order(&[b"echo", &vec![b'x'; length]]).check_size();
            assert_eq!(refused.is_ok(), is_taken, "{length}");
        }
    }

    #[test]
    fn a_command_begins_when_nobody_holds_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let order = order(&[b"true"]);
        let file = TaskFile::write(dir.path(), "1-2", &order).unwrap();
        file.lock().unwrap();
        let path = file.path().unwrap().to_owned();
        // The launcher's, and whoever follows the output.
        let launcher = Gate::close(&path).unwrap();
        launcher.open("%7");
        let follower = file.release("%7");
        let probe = files::open(Path::new(&path)).unwrap();
        assert!(probe.try_lock().is_err());
        drop(follower);
        assert!(probe.try_lock().is_ok());
        drop(probe);
        let taken = |pane| take(Path::new(&path), pane);
        assert!(taken("%70").is_err() && taken("").is_err());
        assert_eq!(taken("%7").unwrap(), order);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_launch_that_is_given_up_starts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = TaskFile::write(dir.path(), "1-2", &order(&[b"true"])).unwrap();
        let path = file.path().unwrap().to_owned();
        let opened = files::open(Path::new(&path)).unwrap();
        drop(file);
        assert_eq!(opened.metadata().unwrap().nlink(), 0);
        assert!(take(Path::new(&path), "%7").is_err());
        assert!(Gate::close(&path).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_old_files_of_ours_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * STALE;
        for (name, time) in [
            ("exec-task-old", Some(old)),
            ("exec-task-new", None),
            ("other", Some(old)),
        ] {
            let file = File::create(dir.path().join(name)).unwrap();
            if let Some(time) = time {
                file.set_modified(time).unwrap();
            }
        }
        remove_stale(dir.path());
        assert!(!dir.path().join("exec-task-old").exists());
        assert!(dir.path().join("exec-task-new").exists());
        assert!(dir.path().join("other").exists());
    }
}

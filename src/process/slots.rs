//! Places for runs of which only some may run at once, in all sessions of the user.
//!
//! A run draws a ticket, a file whose number says who came first, and begins when fewer runs with an
//! earlier ticket are alive than there are places, and all of these have begun. Whether they are, the
//! kernel says, so whoever is killed gives its place back: nothing has to be removed. Only the kernel
//! wakes who waits.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::stat::{WORD_END, command_line, exists, identity, may_run, parent};
use super::{Process, wait_for_any};
use crate::files::{self, WRITABLE_BY_OTHERS};
use crate::model::{Millis, Slot, Task};

/// The folder of all slots, in the runtime folder.
const FOLDER: &str = "slots";

/// How the names of tasks' files begin, which the launcher gives them.
const TASK_FILE: &str = "exec-task-";

/// A ticket: `NUMBER-PID-PLACES`. It contains the identity of the process and, from the beginning of its
/// run on, the time of that. Until then the process holds a lock on it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    number: u64,
    pid: u32,
    places: usize,
    path: PathBuf,
}

/// Waits until this process may run in the slot, whose tickets are below this folder. `on_wait` is called
/// if it has to wait.
pub(crate) fn wait_for_place(
    runtime: &Path,
    slot: &Slot,
    now: impl Fn() -> Millis,
    on_wait: impl FnOnce(),
) -> io::Result<()> {
    let folder = folder_of(runtime, &slot.name);
    let places = usize::try_from(slot.places).unwrap_or(usize::MAX);
    let (ticket, mut file) = draw(runtime, &folder, places)?;
    let mut on_wait = Some(on_wait);
    loop {
        let mut tickets = tickets(&folder)?;
        tickets.retain(|other| other.number < ticket.number);
        // If as many of the first ones are alive as there are places, the others do not matter.
        let alive = tickets.iter().filter_map(Ticket::process).take(places);
        let alive: Vec<Process> = alive.collect();
        if alive.len() < places {
            break;
        }
        if let Some(on_wait) = on_wait.take() {
            on_wait();
        }
        wait_for_any(&alive);
    }
    // Earlier runs that are due as well begin first, however late the kernel wakes them.
    for other in tickets(&folder)? {
        if other.number < ticket.number && other.places >= places {
            other.wait_for_begin()?;
        }
    }
    writeln!(file, "{}", now())
}

/// Returns whether a task waits for a place in its slot, and when its run began there, if that is known.
pub(crate) fn queue_state(runtime: &Path, task: &Task) -> (bool, Option<Millis>) {
    // First, because a run that does not wait any more has noted when it began.
    let may_wait = |pid| waits_to_run(pid) || !exists(pid);
    let waits = task.is_alive() && task.pid.is_some_and(may_wait);
    let slot = task.settings.slot.as_ref();
    let at = slot.and_then(|slot| began_at(runtime, slot, task.pid?, task.started_at?));
    (slot.is_some() && waits && at.is_none(), at)
}

/// Returns when the run of this process, which was launched at this time, began in its slot; `None` where
/// it has not, or that is not known. The run may have ended since: a ticket is there until the next one is
/// drawn.
fn began_at(runtime: &Path, slot: &Slot, pid: u32, launched: Millis) -> Option<Millis> {
    let tickets = tickets(&folder_of(runtime, &slot.name)).ok()?;
    let ticket = tickets.iter().rev().find(|ticket| ticket.pid == pid)?;
    let text = fs::read_to_string(&ticket.path).ok()?;
    let (_, began) = text.split_once('\n')?;
    let began = began.trim_end().parse().ok()?;
    // Another process had the pid before that.
    (began >= launched).then_some(began)
}

/// Whether this process of a pane still waits to run its task, for a place or for its launcher, or has not
/// even come to that: tmux has made it, and it is still a copy of tmux. False where that cannot be known.
fn waits_to_run(pid: u32) -> bool {
    let Some(line) = command_line(pid) else {
        return false;
    };
    // It is empty while the process becomes another program.
    if line.is_empty() || parent(pid).and_then(command_line).as_ref() == Some(&line) {
        return true;
    }
    let mut words = line.split(|byte| *byte == WORD_END).skip(1);
    words.nth(1).is_some_and(|file| {
        let name = Path::new(std::str::from_utf8(file).unwrap_or_default()).file_name();
        name.is_some_and(|name| name.to_string_lossy().starts_with(TASK_FILE))
    })
}

fn folder_of(runtime: &Path, slot: &str) -> PathBuf {
    runtime.join(FOLDER).join(slot)
}

/// Draws the next ticket, and removes those of processes that are gone.
fn draw(runtime: &Path, folder: &Path, places: usize) -> io::Result<(Ticket, fs::File)> {
    files::make_folder(&runtime.join(FOLDER), WRITABLE_BY_OTHERS)?;
    files::make_folder(folder, WRITABLE_BY_OTHERS)?;
    let lock = files::open_to_write(&folder.join("lock"))?;
    lock.lock()?;
    let before = tickets(folder)?;
    let number = before.last().map_or(1, |last| last.number + 1);
    for ticket in before {
        if ticket.process().is_none() {
            fs::remove_file(&ticket.path)?;
        }
    }
    let pid = std::process::id();
    let path = folder.join(format!("{number:020}-{pid}-{places}"));
    let mut file = files::create_new(&path)?;
    file.lock()?;
    writeln!(file, "{}", identity(pid).unwrap_or_default())?;
    let ticket = Ticket {
        number,
        pid,
        places,
        path,
    };
    Ok((ticket, file))
}

/// Returns the tickets in a folder, in the order in which they were drawn.
fn tickets(folder: &Path) -> io::Result<Vec<Ticket>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let parts: Vec<&str> = name.unwrap_or_default().split('-').collect();
        if let [number, pid, places] = parts[..]
            && let (Ok(number), Ok(pid), Ok(places)) = (number.parse(), pid.parse(), places.parse())
        {
            found.push(Ticket {
                number,
                pid,
                places,
                path,
            });
        }
    }
    found.sort();
    Ok(found)
}

impl Ticket {
    /// Returns its process, if that is alive.
    fn process(&self) -> Option<Process> {
        // Opened before it is identified: it is the one that is identified, or has ended.
        let process = Process::open(self.pid)?;
        let text = fs::read_to_string(&self.path).ok()?;
        let identity = text.lines().next()?;
        (may_run(self.pid, identity) && process.is_running()).then_some(process)
    }

    /// Waits until its run has begun, or its process is gone.
    fn wait_for_begin(&self) -> io::Result<()> {
        // Without it, its process was gone when a later ticket was drawn.
        let file = files::if_there(fs::File::open(&self.path))?;
        file.map_or(Ok(()), |file| file.lock_shared())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Returns the folder of the slot `build`.
    fn folder_in(runtime: &tempfile::TempDir) -> PathBuf {
        let folder = folder_of(runtime.path(), "build");
        files::make_folder(&runtime.path().join(FOLDER), WRITABLE_BY_OTHERS).unwrap();
        files::make_folder(&folder, WRITABLE_BY_OTHERS).unwrap();
        folder
    }

    /// Starts a process that has a ticket.
    fn earlier_run(folder: &Path, number: u64) -> Child {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        let ticket = format!("{}\n", identity(pid).unwrap_or_default());
        fs::write(ticket_path(folder, number, pid), ticket).unwrap();
        child
    }

    fn ticket_path(folder: &Path, number: u64, pid: u32) -> PathBuf {
        folder.join(format!("{number:020}-{pid}-2"))
    }

    #[test]
    fn a_place_is_free_when_an_earlier_run_is_gone_however_it_ended() {
        let runtime = tempfile::tempdir().unwrap();
        let (folder, slot) = (folder_in(&runtime), Slot::parse("build:2").unwrap());
        let [mut first, mut second] = [7, 8].map(|number| earlier_run(&folder, number));
        // Of a process that had the pid before.
        let pid = std::process::id();
        let old = identity(pid).unwrap().split_once(' ').unwrap().1.to_owned();
        fs::write(ticket_path(&folder, 3, pid), format!("1 {old}\n")).unwrap();
        fs::write(folder.join("other"), "").unwrap();
        let mut has_waited = false;
        let wait = || {
            has_waited = true;
            first.kill().unwrap();
        };
        wait_for_place(runtime.path(), &slot, || 42, wait).unwrap();
        assert!(has_waited);
        let all = tickets(&folder).unwrap();
        let numbers: Vec<u64> = all.iter().map(|ticket| ticket.number).collect();
        assert_eq!(numbers, [7, 8, 9]);
        let began_at = |pid, since| began_at(runtime.path(), &slot, pid, since);
        assert_eq!(began_at(pid, 42), Some(42));
        assert_eq!(began_at(pid, 43), None);
        assert_eq!(began_at(second.id(), 0), None);
        first.wait().unwrap();
        second.kill().unwrap();
        second.wait().unwrap();
    }

    #[test]
    fn a_run_begins_after_all_earlier_ones_that_are_due() {
        let runtime = tempfile::tempdir().unwrap();
        let (folder, slot) = (folder_in(&runtime), Slot::parse("build:2").unwrap());
        let mut child = earlier_run(&folder, 7);
        // Its place is free, and it has not begun yet.
        let earlier = fs::File::open(ticket_path(&folder, 7, child.id())).unwrap();
        earlier.lock().unwrap();
        let (begins, begun) = std::sync::mpsc::channel();
        let begin = || begins.send(()).map_or(0, |()| 42);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| wait_for_place(runtime.path(), &slot, begin, || {}));
            let early = begun.recv_timeout(std::time::Duration::from_millis(100));
            earlier.unlock().unwrap();
            waits.join().unwrap().unwrap();
            assert!(early.is_err());
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn only_who_waits_to_run_a_task_looks_like_it() {
        assert!(!waits_to_run(std::process::id()));
        assert!(!waits_to_run(0));
        let waits = |script: &str| {
            let mut shell = Command::new("sh");
            let shell = shell.args(["-c", script]).stdin(Stdio::piped());
            let mut shell = shell.stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            let mut out = BufReader::new(shell.stdout.take().unwrap());
            out.read_line(&mut line).unwrap();
            let waits = waits_to_run(line.trim().parse().unwrap());
            // At the end of its input it ends.
            drop(shell.stdin.take());
            shell.wait().unwrap();
            waits
        };
        // One that its parent has made, and that runs no program yet.
        assert!(waits("exec 3<&0; (read -r _ <&3) & echo $!; wait"));
        assert!(!waits("echo $$; read -r _"));
    }
}

//! Processes that started others.

use std::path::PathBuf;

#[cfg(linux)]
use super::stat;
use crate::files::PROC;

/// How far up to look.
const GENERATIONS: usize = 64;

/// Returns the parent of a process; `None` where it is gone.
#[must_use]
pub(crate) fn parent(pid: u32) -> Option<u32> {
    #[cfg(linux)]
    {
        stat::read(pid)?.field(4)?.parse().ok()
    }
    #[cfg(not(linux))]
    {
        super::ps::column(pid, "ppid")?.parse().ok()
    }
}

/// Whether a process runs a program of the same name as ours; not one that has ended and was not
/// reaped yet.
#[must_use]
pub(crate) fn is_our_program(pid: u32) -> bool {
    let name = |pid| {
        let name = program(pid)?.file_name()?.to_string_lossy().into_owned();
        // Replaced by an update while it runs.
        Some(name.trim_end_matches(" (deleted)").to_owned())
    };
    name(pid).is_some_and(|theirs| Some(theirs) == name(std::process::id()))
}

fn program(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("{PROC}/{pid}/exe")).ok()
}

/// Returns the program of this name that this process descends from, the nearest one, as an existing
/// file; `None` where there is none or the system does not report it (only Linux does, in `/proc`).
#[must_use]
pub(crate) fn ancestor_named(name: &str) -> Option<PathBuf> {
    if !cfg!(linux) {
        return None;
    }
    let ancestors = std::iter::successors(parent(std::process::id()), |pid| parent(*pid));
    ancestors
        .take_while(|pid| *pid > 0)
        .take(GENERATIONS)
        .filter_map(program)
        .find(|program| program.file_name().is_some_and(|file| file == name) && program.exists())
}

#[cfg(all(test, linux))]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_runs_no_program() {
        assert!(is_our_program(std::process::id()));
        let mut child = std::process::Command::new("sleep")
            .arg("0")
            .spawn()
            .unwrap();
        assert!(!is_our_program(child.id()));
        child.wait().unwrap();
        assert!(!is_our_program(child.id()));
    }

    #[test]
    fn the_program_that_runs_the_tests_is_an_ancestor_of_its_children() {
        let parent = rustix::process::getppid().unwrap();
        let program = std::fs::read_link(format!("/proc/{}/exe", parent.as_raw_nonzero())).unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        assert_eq!(ancestor_named(name), Some(program.clone()));
        assert_eq!(ancestor_named("no such program"), None);
    }
}

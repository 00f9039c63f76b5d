//! Processes that started others.

use std::path::PathBuf;

use super::stat;

/// How far up to look.
const GENERATIONS: usize = 64;

/// Returns the parent of a process; `None` where it is gone or the system does not report it (only
/// Linux does, in `/proc`).
#[must_use]
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.field(4)?.parse().ok()
}

/// Returns the program of this name that this process descends from, the nearest one, as an existing
/// file; `None` where there is none or the system does not report it (only Linux does, in `/proc`).
#[must_use]
pub(crate) fn ancestor_named(name: &str) -> Option<PathBuf> {
    let ancestors = std::iter::successors(parent(std::process::id()), |pid| parent(*pid));
    ancestors
        .take_while(|pid| *pid > 0)
        .take(GENERATIONS)
        .filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok())
        .find(|program| program.file_name().is_some_and(|file| file == name) && program.exists())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_runs_the_tests_is_an_ancestor_of_its_children() {
        let parent = rustix::process::getppid().unwrap();
        let program = std::fs::read_link(format!("/proc/{}/exe", parent.as_raw_nonzero())).unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        assert_eq!(ancestor_named(name), Some(program.clone()));
        assert_eq!(ancestor_named("no such program"), None);
    }
}

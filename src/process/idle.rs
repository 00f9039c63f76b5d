//! Shells and interpreters that wait for commands.

use std::fs;
use std::path::{Path, PathBuf};

use super::tree::Process;
use crate::model::programs::{CommandReader, command_reader, without_version};

/// Whether a shell or an interpreter was started to take commands from a user: without a
/// script, a command or a module to run.
pub(super) fn was_given_nothing(member: &Process) -> bool {
    match command_reader(&member.name) {
        Some(CommandReader::Shell | CommandReader::ShellHost | CommandReader::Interpreter) => {}
        Some(CommandReader::Client) | None => return false,
    }
    let file = |number| fs::read_link(format!("/proc/{}/fd/{number}", member.thread)).ok();
    if is_fed(file) {
        return false;
    }
    let Ok(line) = fs::read(format!("/proc/{}/cmdline", member.thread)) else {
        return false;
    };
    let words = line
        .split(|byte| *byte == 0)
        .skip(1)
        .filter(|word| !word.is_empty());
    has_nothing_to_run(words, is_shell(member.name.as_bytes()))
}

/// Whether the words behind a program's name neither are nor take something to run. `of_shell` is
/// whether the program is a shell.
fn has_nothing_to_run<'a>(mut words: impl Iterator<Item = &'a [u8]>, of_shell: bool) -> bool {
    // Options of shells with a word of their own.
    const WITH_WORD: &[&[u8]] = &[b"--rcfile", b"--init-file", b"-o", b"-O"];
    while let Some(word) = words.next() {
        // `busybox sh` and the like repeat the shell's name.
        if !is_plain_option(word) && !is_shell(word) {
            return false;
        }
        if of_shell && WITH_WORD.contains(&word) {
            words.next();
        }
    }
    true
}

/// Whether a program's open files show that a pipe or a file is its standard input, as in
/// `curl URL | sh`: its commands come from there, even while one of them reads `/dev/tty`. For such
/// a command a shell puts `/dev/tty` in the place of its standard input, which it keeps under the
/// next free number from 10.
fn is_fed(file: impl Fn(u32) -> Option<PathBuf>) -> bool {
    const KEPT: std::ops::Range<u32> = 10..16;
    match file(0) {
        Some(input) if input == Path::new("/dev/tty") => {
            KEPT.filter_map(file).any(|target| !is_device(&target))
        }
        Some(input) => !is_device(&input),
        None => false,
    }
}

fn is_device(target: &Path) -> bool {
    target.starts_with("/dev")
}

fn is_shell(word: &[u8]) -> bool {
    let name = std::str::from_utf8(word).unwrap_or_default();
    // A script may be named `sh2`.
    let is_bare = !name.starts_with('-') && without_version(name) == name;
    is_bare && command_reader(name) == Some(CommandReader::Shell)
}

/// Whether an option neither is nor takes something to run.
fn is_plain_option(word: &[u8]) -> bool {
    match word.strip_prefix(b"-") {
        None => false,
        Some(long) if long.starts_with(b"-") => {
            !long.starts_with(b"-eval") && !long.starts_with(b"-print") && long != b"-command"
        }
        Some(short) => !short.iter().any(|letter| b"cemrp".contains(letter)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_that_is_fed_by_a_pipe_or_a_file_is_known() {
        let check = |files: &[(u32, &str)], expected| {
            let file = |number| {
                let target = files.iter().find(|(open, _)| *open == number);
                target.map(|(_, target)| PathBuf::from(target))
            };
            assert_eq!(is_fed(file), expected, "{files:?}");
        };
        check(&[(0, "pipe:[81]"), (1, "/dev/pts/7")], true);
        check(&[(0, "/home/a/install.sh"), (1, "/dev/pts/7")], true);
        check(&[(0, "/dev/tty"), (10, "pipe:[81]")], true);
        // Interactive shells open the terminal once more, and some prompts have pipes.
        check(&[(0, "/dev/pts/7"), (10, "/dev/tty")], false);
        check(&[(0, "/dev/pts/7"), (12, "pipe:[81]")], false);
        check(&[(0, "/dev/tty"), (255, "/dev/tty")], false);
        // Another user's.
        check(&[], false);
    }

    #[test]
    fn a_shell_with_nothing_to_run_is_idle() {
        let check = |line: &str, expected| {
            let words = line.split(' ').map(str::as_bytes);
            assert_eq!(has_nothing_to_run(words, true), expected, "{line}");
        };
        check("-i --norc", true);
        check("--rcfile /tmp/rc", true);
        check("-o vi -i", true);
        check("sh -i", true);
        check("-o pipefail script.sh", false);
        check("--rcfile /tmp/rc -c ls", false);
        check("script.sh", false);
        let of_python = [b"-o".as_slice(), b"script.py"].into_iter();
        assert!(!has_nothing_to_run(of_python, false));
    }

    #[test]
    fn options_that_bring_something_to_run_are_known() {
        for word in ["-i", "-l", "--login", "--norc", "-il"] {
            assert!(is_plain_option(word.as_bytes()), "{word}");
        }
        for word in ["-c", "-lc", "-e", "-m", "script.sh", "--eval=1"] {
            assert!(!is_plain_option(word.as_bytes()), "{word}");
        }
    }
}

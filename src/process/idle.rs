//! Shells and interpreters that wait for commands.

use std::fs;

use super::tree::Process;
use crate::model::programs::{CommandReader, command_reader, without_version};

/// Whether a shell or an interpreter was started to take commands from a user: without a
/// script, a command or a module to run.
pub(super) fn was_given_nothing(member: &Process) -> bool {
    match command_reader(&member.name) {
        Some(CommandReader::Shell | CommandReader::ShellHost | CommandReader::Interpreter) => {}
        Some(CommandReader::Client) | None => return false,
    }
    let Ok(line) = fs::read(format!("/proc/{}/cmdline", member.pid)) else {
        return false;
    };
    let mut words = line
        .split(|byte| *byte == 0)
        .skip(1)
        .filter(|word| !word.is_empty());
    // `busybox sh` and the like repeat the shell's name.
    words.all(|word| is_plain_option(word) || is_shell(word))
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
    fn options_that_bring_something_to_run_are_known() {
        for word in ["-i", "-l", "--login", "--norc", "-il"] {
            assert!(is_plain_option(word.as_bytes()), "{word}");
        }
        for word in ["-c", "-lc", "-e", "-m", "script.sh", "--eval=1"] {
            assert!(!is_plain_option(word.as_bytes()), "{word}");
        }
    }
}

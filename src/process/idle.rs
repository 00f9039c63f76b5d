//! Shells and interpreters that wait for commands.

use std::fs;

use super::tree::Process;

const SHELLS: &[&str] = &[
    "bash", "sh", "dash", "zsh", "fish", "ksh", "ksh93", "mksh", "ash", "busybox", "csh", "tcsh",
    "nu", "elvish", "xonsh", "pwsh", "rbash",
];

const INTERPRETERS: &[&str] = &[
    "python", "ipython", "bpython", "node", "deno", "bun", "ruby", "irb", "pry", "php", "lua",
    "luajit", "ghci", "R", "julia", "octave", "scala", "jshell", "iex", "erl", "bc", "dc", "ocaml",
    "utop", "sbcl", "guile", "racket",
];

/// Whether a shell or an interpreter was started to take commands from a person: without a
/// script, a command or a module to run.
pub(super) fn was_given_nothing(member: &Process) -> bool {
    let bare = member
        .name
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_shell = SHELLS.contains(&bare) || SHELLS.contains(&member.name.as_str());
    if !is_shell && !INTERPRETERS.contains(&bare) {
        return false;
    }
    let Ok(line) = fs::read(format!("/proc/{}/cmdline", member.pid)) else {
        return false;
    };
    let mut words = line
        .split(|byte| *byte == 0)
        .skip(1)
        .filter(|word| !word.is_empty());
    // `busybox sh` and the like name the shell again.
    words.all(|word| is_plain_option(word) || SHELLS.iter().any(|s| s.as_bytes() == word))
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

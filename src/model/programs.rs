//! Programs that read commands, by the names of their processes.

/// How a program reads commands from a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandReader {
    /// A shell: `bash`. The pane's title describes what runs in its pane better than its name does.
    Shell,
    /// One program with many names, shells among them: `busybox`.
    ShellHost,
    /// An interpreter that prompts for code when it is started without a script: `python`.
    Interpreter,
    /// Prompts for commands in some of its uses only, so that its name does not say whether it
    /// does: `java` may be a console or a server, and `psql` prompts once it is connected.
    Client,
}

// Names with blanks between them.

const SHELLS: &str = "\
    ash bash csh dash elvish fish ksh mksh nu pwsh rbash sh tcsh xonsh zsh";

const SHELL_HOSTS: &str = "busybox";

const INTERPRETERS: &str = "\
    R bc bpython bun csi dc deno ecl erl expect gforth ghci gosh gsi guile iex ipython irb janet \
    jshell julia lua luajit node ocaml octave php pry pypy python racket ruby sbcl scala scheme \
    tclsh utop wish";

/// Language runtimes whose consoles run under the runtime's name, databases, network clients, and tools with
/// their own command prompts.
const CLIENTS: &str = "\
    beam.smp clisp ghc gnuplot java maxima perl swipl \
    mariadb mongo mongosh mysql psql redis-cli sqlite3 \
    ftp lftp nc sftp ssh telnet tnftp \
    bluetoothctl ed nmcli parted virsh";

const ALL: [(CommandReader, &str); 4] = [
    (CommandReader::Shell, SHELLS),
    (CommandReader::ShellHost, SHELL_HOSTS),
    (CommandReader::Interpreter, INTERPRETERS),
    (CommandReader::Client, CLIENTS),
];

/// Returns how the program of this name reads commands; `None` when it is not known to. A leading
/// `-`, which login shells have, and a version at the end are ignored: `-zsh`, `python3.12`.
pub fn command_reader(name: &str) -> Option<CommandReader> {
    let name = name.strip_prefix('-').unwrap_or(name);
    let bare = without_version(name);
    ALL.iter()
        .find(|(_, names)| names.split(' ').any(|known| known == name || known == bare))
        .map(|(reader, _)| *reader)
}

/// Whether a program that reads commands may show this word in its prompt: its name, or the first
/// part of it (`sqlite>`, `redis>`).
pub fn is_prompt_of_command_reader(word: &str) -> bool {
    let word = word.to_lowercase();
    ALL.iter().any(|(_, names)| {
        names.split(' ').any(|name| {
            let part = name.trim_end_matches("-cli");
            [name, part, without_version(part)].contains(&word.as_str())
        })
    })
}

/// Returns a program's name without a version at its end: `python` for `python3.12`.
pub fn without_version(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn programs_are_known_with_and_without_a_version() {
        use CommandReader::{Client, Interpreter, Shell, ShellHost};
        let check = |name, expected| assert_eq!(command_reader(name), expected, "{name}");
        for shell in ["sh", "bash", "-zsh", "ksh93", "bash5.2", "nu", "pwsh"] {
            check(shell, Some(Shell));
        }
        check("busybox", Some(ShellHost));
        for interpreter in ["python", "python3.12", "lua5.4", "R"] {
            check(interpreter, Some(Interpreter));
        }
        for client in ["psql", "sqlite3", "beam.smp", "java"] {
            check(client, Some(Client));
        }
        for other in ["", "-", "7", "vim", "bashful", "r", "cat"] {
            check(other, None);
        }
    }

    #[test]
    fn no_program_is_of_two_kinds() {
        let mut seen = BTreeSet::new();
        for name in ALL.iter().flat_map(|(_, names)| names.split(' ')) {
            assert!(seen.insert(name), "{name} is listed twice");
        }
    }
}

//! The shell command that runs a task.

use super::gate::wait_line;
use super::task_environment::TaskEnvironment;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// tmux drops output that it has not read when a process ends. So at the end the shell sends the
/// terminal a status request: when tmux answers (`ESC [ 0 n`) it has read everything. A terminal
/// that does not answer costs half a second. A task with `set -x` or `set -v` does not show it.
const DRAIN: &str = r"builtin trap '{ builtin set +xv; } 2>/dev/null; IFS= builtin read -rs -d n -t 0.5 -p $'\''\e[5n'\'' _ </dev/tty 2>/dev/tty || :' EXIT";

/// While a run is being ended, its shell has to be the last of its processes: at its end the kernel
/// hangs up the terminal, and what has not stopped by then gets `SIGHUP` and loses its output. So the
/// daemon sends the shell `SIGPWR`, which nothing else uses. When the shell's present command has
/// ended, the trap waits for the daemon's hangup, and ends with that command's code; that it waits is
/// seen by its catching `SIGSTKFLT`. `wait` returns 158 for this signal, which is not the command's code.
/// A shell line with a trap for `SIGTERM` gets that signal instead. The shell ends by itself when no
/// daemon comes.
const HOLD: &str = r#"builtin trap '{ c=$?; builtin set +xv; } 2>/dev/null; if builtin [ -n "$(builtin trap -p TERM)" ]; then builtin kill -TERM $$; else builtin [ $c -ne 158 ] || c=143; builtin trap "builtin exit $c" HUP; builtin trap : STKFLT; { builtin exec {f}<> <(:); builtin read -r -t 3600 -u $f _; } 2>/dev/null || :; builtin exit $c; fi' PWR 2>/dev/null || :"#;

/// Around [`DRAIN`]: a hangup ends the shell at once.
///
/// For an `EXIT` trap bash catches all signals that would end it, except those that have a trap of
/// their own already. If it caught a hangup while it starts a program, the program could outlive
/// its pane (seen with bash 5.2): the new process still has bash's handler until it executes the
/// program, and bash, if it is still to wait for that process, waits inside the `EXIT` trap.
const HANG_UP: [&str; 2] = [
    "builtin trap 'builtin exit 129' HUP; ",
    "; builtin trap - HUP",
];

/// The first shell. It keeps the variables that tmux sets for a pane's terminal and drops the rest
/// of tmux's environment. The words are the script, the file, and [`LOAD`]. If the file is gone,
/// the pane was respawned by hand: then tmux's environment is the best there is.
///
/// Here and in the shells behind it, `builtin` keeps functions of the caller's environment and of the
/// profile from taking the place of what starts the task. Each of them passes on the directory in which
/// tmux has started the pane: a profile may contain a `cd`.
const CLEAR: &str = r#"[ -r "$2" ] || builtin exec "$BASH" -lc "$1" bash "" "$PWD"
for n in TMUX TMUX_PANE TERM TERM_PROGRAM TERM_PROGRAM_VERSION TERMINFO TERMINFO_DIRS; do
[ -z "${!n+x}" ] || set -- "$@" "$n=${!n}"
done
builtin exec -c "$BASH" -pc "$3" bash "$1" "$2" "$BASH" "$PWD" "${@:4}""#;

/// The only shell before the login shell where that has tmux's environment.
const KEEP: &str = r#"builtin exec "$BASH" -lc "$1" bash "$2" "$PWD""#;

/// The second shell. It sets the task's environment, so that the login shell's profile runs in it.
/// Variables that no shell can name are set by the program between the two.
const LOAD: &str = r#"export "${@:5}"; . "$2" 2>/dev/null
builtin set -- "$2.more" "$3" -lc "$1" bash "$2" "$4"
[ ! -r "$1" ] || [ ! -x "${tmux_task_setter-}" ] || builtin exec "$tmux_task_setter" set-environment "$1" -- "${@:2}"
builtin exec "${@:2}""#;

/// In the third shell, the login shell: undoes what its profile has changed of the environment and the
/// directory. The file is emptied first, because `PATH` may not contain `rm`.
const RELOAD: &str = r#"if [ -r "${1-}" ]; then . "$1" again 2>/dev/null; : >|"$1"; command -p rm -f -- "$1"; fi; [ "${2-$PWD}" = "$PWD" ] || builtin cd -- "$2" || builtin exit 1; builtin set --"#;

/// The command of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandWords {
    /// One shell line.
    Line(OsString),
    /// A program and its arguments, each kept as one word.
    Argv(Vec<OsString>),
}

impl CommandWords {
    /// Returns the words that followed `--`: one is a shell line, several are an argv.
    #[must_use]
    pub(crate) fn from_words(words: Vec<OsString>) -> Self {
        match <[OsString; 1]>::try_from(words) {
            Ok([line]) => Self::Line(line),
            Err(words) => Self::Argv(words),
        }
    }

    /// Returns the command for display: one line, blanks folded, words quoted where necessary.
    #[must_use]
    pub(crate) fn shown(&self) -> String {
        let line = match self {
            Self::Line(line) => line.to_string_lossy().into_owned(),
            Self::Argv(words) => {
                let words: Vec<String> = words
                    .iter()
                    .map(|word| quote_where_needed(&word.to_string_lossy()))
                    .collect();
                words.join(" ")
            }
        };
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the command for display, bounded.
    pub(crate) fn shown_bounded(&self) -> String {
        crate::model::text::one_line(self.shown().as_bytes(), 4096)
    }

    /// Returns the words that a task's pane runs. `names` are the variables that name the task.
    ///
    /// The pane has one process throughout: each shell replaces the one before with `exec`.
    pub(super) fn pane_words(
        &self,
        names: &[(&str, &str)],
        environment: &TaskEnvironment,
        file: &str,
        gate: Option<&str>,
    ) -> Vec<String> {
        let script = self.script(names, environment, gate);
        let words: &[&str] = if environment.is_on_top_of_tmux() {
            &["bash", "-pc", KEEP, "bash", &script, file]
        } else {
            &["bash", "-pc", CLEAR, "bash", &script, file, LOAD]
        };
        words.iter().map(ToString::to_string).collect()
    }

    /// Returns the script for `bash -lc`. Its argument is the file with the environment.
    fn script(
        &self,
        names: &[(&str, &str)],
        environment: &TaskEnvironment,
        gate: Option<&str>,
    ) -> String {
        // Such a line may clean up at a hangup, so bash's own handling is kept.
        let mut hang_up = HANG_UP;
        let command = match self {
            Self::Line(line) => {
                if line.to_string_lossy().contains("trap") {
                    hang_up = [""; 2];
                }
                quote_bytes(line)
            }
            Self::Argv(words) => {
                let words: Vec<String> = words.iter().map(|word| quote_bytes(word)).collect();
                quote(&words.join(" "))
            }
        };
        let names: Vec<String> = names
            .iter()
            .map(|(name, value)| format!("{name}={}", quote(value)))
            .collect();
        // `eval` ends the command where it ends, whatever its last character is. The last line
        // keeps bash from replacing itself with the command's last program: a signal that ends that
        // program is then an exit code of the shell. The command begins in the first line, so that bash
        // counts its lines from 1 in what it says of errors.
        let [before, after] = hang_up;
        format!(
            "{}; {RELOAD}; builtin export {}; {}builtin set -euo pipefail; {before}{DRAIN}{after}; {HOLD}; \
             builtin eval {}\nbuiltin exit \"$?\"",
            environment.unset_line(),
            names.join(" "),
            gate.map(|gate| wait_line(&quote(gate)) + "; ")
                .unwrap_or_default(),
            command
        )
    }
}

/// Quotes bytes for bash. The result is text even if the word is not.
fn quote_bytes(word: &OsStr) -> String {
    if let Some(text) = word.to_str() {
        return quote(text);
    }
    let mut quoted = "$'".to_owned();
    for byte in word.as_bytes() {
        match byte {
            b'\'' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            0x20..0x7f => quoted.push(char::from(*byte)),
            byte => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('\'');
    quoted
}

/// Quotes for a POSIX shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn quote_where_needed(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        quote(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash(words: &[&str]) -> (String, Option<i32>) {
        let words = words.iter().map(Into::into).collect();
        let script = CommandWords::from_words(words).script(
            &[("TMUX_TASK_NAME", "it's")],
            &TaskEnvironment::default(),
            None,
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .env("PI_SESSION_ID", "x")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text, output.status.code())
    }

    #[track_caller]
    fn check(words: &[&str], stdout: &str, code: i32) {
        assert_eq!(bash(words), (stdout.to_owned(), Some(code)));
    }

    #[test]
    fn one_word_is_a_line_of_shell() {
        check(&["echo \"it's $((1+1))\""], "it's 2\n", 0);
        check(&["echo a; echo b # done"], "a\nb\n", 0);
        check(&["printf %s \"a\nb\""], "a\nb", 0);
        check(&["echo 'é 日本'"], "é 日本\n", 0);
        check(&["cat <<X\nhi\nX"], "hi\n", 0);
        check(&["echo ${PI_SESSION_ID-unset}"], "unset\n", 0);
        check(&["echo $TMUX_TASK_NAME $0 $#"], "it's bash 0\n", 0);
        check(&["false && true"], "", 1);
        check(&["false | true"], "", 1);
        check(&["false; echo on"], "", 1);
        check(&["exit 7"], "", 7);
        check(&["echo a\\"], "a\\\n", 0);
        check(&["bash -c 'kill -9 $$'"], "", 137);
    }

    #[test]
    fn lines_are_counted_as_in_a_shell() {
        check(&["echo $LINENO"], "1\n", 0);
        check(&["true\n\necho $LINENO"], "3\n", 0);
        let failed = |words: &[&str], gate| {
            let words = words.iter().map(Into::into).collect();
            let environment = TaskEnvironment::default();
            let names = [("TMUX_TASK_NAME", "x")];
            let script = CommandWords::from_words(words).script(&names, &environment, gate);
            let mut bash = std::process::Command::new("bash");
            let output = bash.args(["-c", &script]).output().unwrap();
            // Without a terminal, the end has something to say as well.
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            said.lines().next().unwrap_or_default().to_owned()
        };
        for (command, line) in [
            (&["no-such-command"][..], 1),
            (&["no-such-command", "a b"], 1),
            (&["true\nno-such-command"], 2),
            (&["if true; then\n  true\n  no-such-command\nfi"], 3),
        ] {
            for gate in [None, Some("/no/such/gate")] {
                let expected = format!("bash: line {line}: no-such-command: command not found");
                assert_eq!(failed(command, gate), expected, "{command:?}");
            }
        }
        let unset = failed(&["true\necho $no_such_variable"], None);
        assert_eq!(unset, "bash: line 2: no_such_variable: unbound variable");
        assert!(failed(&["true\nfi"], None).contains("line 2: syntax error"));
    }

    #[test]
    fn several_words_are_an_argv() {
        check(
            &[
                "printf", "[%s]", "a b", "", "it's", "$HOME", "a\nb", "*", "\\",
            ],
            "[a b][][it's][$HOME][a\nb][*][\\]",
            0,
        );
        check(&["sh", "-c", "kill -15 $$"], "", 143);
    }

    #[test]
    fn any_bytes_arrive() {
        let every: Vec<u8> = (1..=255).collect();
        for bytes in [every.as_slice(), b"\xff", b"a\xff ; touch owned #'\\"] {
            let word = OsStr::from_bytes(bytes).to_owned();
            let argv = ["printf".into(), "%s".into(), word];
            let script = CommandWords::from_words(argv.into()).script(
                &[("TMUX_TASK_NAME", "x")],
                &TaskEnvironment::default(),
                None,
            );
            let output = std::process::Command::new("bash")
                .args(["-c", &script])
                .output()
                .unwrap();
            assert_eq!(output.stdout, bytes);
        }
        let line = OsStr::from_bytes(b"printf %s 'it\xff' \"\xfe\\\\\"").to_owned();
        let script = CommandWords::from_words(vec![line]).script(
            &[("TMUX_TASK_NAME", "x")],
            &TaskEnvironment::default(),
            None,
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"it\xff\xfe\\");
    }

    #[test]
    fn unset_variables_end_it() {
        assert_ne!(bash(&["echo $NO_SUCH_VARIABLE_HERE"]).1, Some(0));
    }

    #[test]
    fn what_people_read_is_one_line() {
        let shown = |words: &[&str]| {
            CommandWords::from_words(words.iter().map(OsString::from).collect()).shown()
        };
        assert_eq!(
            shown(&["cargo  test\n && echo ok"]),
            "cargo test && echo ok"
        );
        assert_eq!(shown(&["cargo", "test", "a b", ""]), "cargo test 'a b' ''");
    }
}

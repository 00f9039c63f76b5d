//! The shell script that runs a task.

use super::command_words::CommandWords;
use super::task_file::TaskOrder;
use crate::model::environment::is_shell_name;

/// tmux drops output that it has not read when a process ends. So at the end the shell sends the
/// terminal a status request: when tmux answers (`ESC [ 0 n`) it has read everything. A terminal
/// that does not answer costs half a second, and three seconds with bash 3.2 of macOS, which can only wait
/// for whole ones. A task with `set -x` or `set -v` does not show it.
const DRAIN: &str = r#"builtin trap '{ builtin set +xv; } 2>/dev/null; IFS= builtin read -rs -d n -t "${BASH_VERSINFO/#[4-9]/0.5}" -p $'\''\e[5n'\'' _ </dev/tty 2>/dev/tty || :' EXIT"#;

/// While a run is being ended, its shell has to be the last of its processes: at its end the kernel
/// hangs up the terminal, and what has not stopped by then gets `SIGHUP` and loses its output. So the
/// daemon sends the shell `SIGPWR`, which nothing else uses, instead of the stop signal, which it notes as
/// the shell's limit of file locks: Linux keeps that and does not use it. When the shell's present command
/// has ended, this trap runs the line's trap for the stop signal, which may end the shell, but not go on
/// with the line: `break` leaves a loop of ours, and `return` a file. Then it waits for the daemon's hangup,
/// and ends with the code of the command; that it waits is seen by its catching `SIGSTKFLT`. bash runs a
/// trap between commands: a hangup that comes just before `read` begins to wait is noticed only when that
/// ends, hence the short pauses; while it opens a file, a signal would be an error. `wait` returns 158 for
/// this signal, and 128 more than its number for the stop signal. After an hour the shell ends by itself.
const HOLD: &str = concat!(
    r#"builtin trap '{ tmux_task_code=$?; builtin set +xv +o posix; } 2>/dev/null; { tmux_task_stop=$(builtin ulimit -Sx) && builtin [ "$tmux_task_stop" -lt 32 ]; } 2>/dev/null || tmux_task_stop=15; "#,
    r#"builtin [ $tmux_task_code -ne 158 ] || tmux_task_code=$((128 + tmux_task_stop)); builtin eval "tmux_task_trap=($(builtin trap -p $tmux_task_stop))"; exit() { builtin exit "${@-$tmux_task_code}"; }; "#,
    r#"case "${tmux_task_trap[2]-}$(builtin exit $tmux_task_code)" in ?*) for tmux_task_stop in 1; do builtin . <(builtin printf %s "${tmux_task_trap[2]}"); done;; esac; "#,
    r#"{ builtin exec {tmux_task_file}<> <(:); builtin trap "builtin exit $tmux_task_code" HUP; tmux_task_stop=0; builtin trap : STKFLT; "#,
    r#"while builtin [ $((tmux_task_stop += 1)) -le 36000 ]; do builtin read -r -t 0.1 -u $tmux_task_file _ || :; done; } 2>/dev/null || :; builtin exit $tmux_task_code' PWR 2>/dev/null || :"#
);

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

/// The first argument of the script where it reads the login profile.
pub(super) const WITH_PROFILE: &str = "profile";

/// The variable with the value of `BASH_ENV` until the command begins: bash would read its file before the
/// script.
pub(super) const BASH_ENV: &str = "TMUX_TASK_BASH_ENV";

/// Reads the login profile, and undoes what it has changed of the environment and the directory.
///
/// A profile may end the shell, or replace it with another one. Where bash lets a function take the place
/// of `exit` and `exec`, the script is run again without the profile; everything else that ends the shell
/// is an error. So bash does not read the profile by itself, which it would do before the script.
/// `command exec` and `builtin exec` find no such builtin meanwhile. `builtin` keeps functions of the
/// environment and of the profile from taking the place of what starts the task. Behind `||`, `set -e`
/// ends nothing; `builtin .` would not pass that on. Like bash, the script reads no profile in POSIX
/// mode, which knows no such functions.
const PROFILE: &str = concat!(
    r#"case "$1 :$SHELLOPTS:" in profile\ *:posix:*) ;; profile\ *) tmux_task_words=("${@:2}"); builtin set --; tmux_task_dir=$PWD; "#,
    r#"tmux_task_env=$(builtin declare -pf exit exec logout 2>/dev/null; @SAVE@); tmux_task_shell="$$ 0"; "#,
    r#"@BEFORE@builtin trap 'case $$ in "${BASHPID-$$}") builtin echo "tmux-task: exec: the login profile has ended the shell" >&2; builtin exit 126;; esac' EXIT@AFTER@; "#,
    r#"tmux_task_plain='@RESTORE@; builtin cd -- "$tmux_task_dir"; builtin enable exec; builtin exec "$BASH" --noprofile -lc "$BASH_EXECUTION_STRING" bash plain "${tmux_task_words[@]}"'; "#,
    r#"exit() { case "${BASHPID-$$} $BASH_SUBSHELL" in "$tmux_task_shell") builtin trap "$tmux_task_plain" EXIT;; esac; builtin exit "$@"; }; "#,
    r#"logout() { exit "$@"; }; "#,
    r#"exec() { case "$# ${BASHPID-$$} $BASH_SUBSHELL" in "0 "*) ;; *" $tmux_task_shell") exit;; esac; builtin enable exec; builtin exec "$@"; builtin enable -n exec; }; builtin enable -n exec; "#,
    r#"if builtin [ -r /etc/profile ]; then . /etc/profile || builtin :; fi; "#,
    r#"if builtin [ -r ~/.bash_profile ]; then . ~/.bash_profile || builtin :; "#,
    r#"elif builtin [ -r ~/.bash_login ]; then . ~/.bash_login || builtin :; "#,
    r#"elif builtin [ -r ~/.profile ]; then . ~/.profile || builtin :; fi; "#,
    r#"case ${@BASH_ENV@:+x} in x) builtin eval "tmux_task_file=\"$@BASH_ENV@\""; . "$tmux_task_file" || builtin :;; esac; "#,
    r#"builtin trap - EXIT; builtin unset -f exit logout exec; builtin enable exec; "#,
    r#"builtin [ "$tmux_task_dir" = "$PWD" ] || builtin cd -- "$tmux_task_dir" || builtin exit 1; @RESTORE@; "#,
    r#"builtin set -- plain "${tmux_task_words[@]}"; "#,
    r#"builtin unset -v tmux_task_words tmux_task_dir tmux_task_env tmux_task_shell tmux_task_plain tmux_task_file;; esac; builtin shift; "#,
    r#"case ${@BASH_ENV@+x} in x) builtin export BASH_ENV="$@BASH_ENV@"; builtin unset -v @BASH_ENV@;; esac"#
);

/// Undoes what the profile has changed of the environment.
const RESTORE: &str = r#"@UNSET@; builtin eval "$tmux_task_env" 2>/dev/null || builtin :"#;

/// Returns the script for `bash --noprofile -lc`. Its arguments are [`WITH_PROFILE`] and the words of the
/// command.
pub(super) fn script(order: &TaskOrder) -> String {
    // Where the task's environment is tmux's, the profile may change all but what was given.
    let names = order.variables.iter();
    let names = names.filter_map(|(name, _)| name.to_str().filter(|name| is_shell_name(name)));
    let save = match order.is_on_top_of_tmux {
        true => format!("builtin declare -p {}", names.collect::<Vec<_>>().join(" ")),
        false => "builtin declare -px".to_owned(),
    };
    // Such a line may clean up at a hangup, so bash's own handling is kept.
    let has_trap = matches!(&order.command, CommandWords::Line(line) if line.to_string_lossy().contains("trap"));
    let [before, after] = if has_trap { [""; 2] } else { HANG_UP };
    let profile = PROFILE
        .replace("@BEFORE@", before)
        .replace("@AFTER@", after)
        .replace("@BASH_ENV@", BASH_ENV)
        .replace("@SAVE@", &save)
        .replace("@RESTORE@", RESTORE)
        .replace("@UNSET@", &unset_line(&order.withheld));
    // As in `bash -c LINE`. `eval` ends the line where it ends, whatever its last character is.
    let run = match order.command {
        CommandWords::Line(_) => {
            r#"BASH_EXECUTION_STRING=$1; builtin set --; builtin eval -- "$BASH_EXECUTION_STRING""#
        }
        CommandWords::Argv(_) => r#""$@""#,
    };
    // The last line keeps bash from replacing itself with the command's last program: a signal that ends
    // that program is then an exit code of the shell. The command begins in the first line, so that bash
    // counts its lines from 1 in what it says of errors.
    format!(
        "{profile}; builtin set -euo pipefail; {before}{DRAIN}{after}; {HOLD}; {run}\nbuiltin exit \"$?\""
    )
}

/// Returns a shell line that unsets the withheld variables.
fn unset_line(withheld: &[String]) -> String {
    let words = withheld
        .iter()
        .map(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => format!("${{!{beginning}@}}"),
            None => pattern.to_owned(),
        });
    let words = words.collect::<Vec<_>>().join(" ");
    format!("builtin unset -v {words} 2>/dev/null || builtin :")
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn order(words: Vec<OsString>) -> TaskOrder {
        TaskOrder {
            shell: "bash".into(),
            is_on_top_of_tmux: false,
            withheld: vec!["PI_SESSION_ID".to_owned()],
            variables: Vec::new(),
            command: CommandWords::from_words(words),
        }
    }

    fn run(words: Vec<OsString>) -> std::process::Output {
        let order = order(words);
        let home = tempfile::tempdir().unwrap();
        let profile = "export PI_SESSION_ID=x";
        std::fs::write(home.path().join(".profile"), profile).unwrap();
        std::process::Command::new("bash")
            .args(["--noprofile", "-lc", &script(&order), "bash", WITH_PROFILE])
            .args(order.command.words())
            .env("HOME", home.path())
            .env("TMUX_TASK_NAME", "it's")
            .output()
            .unwrap()
    }

    fn bash(words: &[&str]) -> (String, Option<i32>) {
        let output = run(words.iter().map(Into::into).collect());
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
        check(&["-x"], "", 127);
    }

    #[test]
    fn lines_are_counted_as_in_a_shell() {
        check(&["echo $LINENO"], "1\n", 0);
        check(&["true\n\necho $LINENO"], "3\n", 0);
        let failed = |words: &[&str]| {
            let output = run(words.iter().map(Into::into).collect());
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
            let expected = format!("bash: line {line}: no-such-command: command not found");
            assert_eq!(failed(command), expected, "{command:?}");
        }
        let unset = failed(&["true\necho $no_such_variable"]);
        assert_eq!(unset, "bash: line 2: no_such_variable: unbound variable");
        assert!(failed(&["true\nfi"]).contains("line 2: syntax error"));
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
            let output = run(vec!["printf".into(), "%s".into(), word]);
            assert_eq!(output.stdout, bytes);
        }
        let line = OsStr::from_bytes(b"printf %s 'it\xff' \"\xfe\\\\\"").to_owned();
        assert_eq!(run(vec![line]).stdout, b"it\xff\xfe\\");
    }

    #[test]
    fn unset_variables_end_it() {
        assert_ne!(bash(&["echo $NO_SUCH_VARIABLE_HERE"]).1, Some(0));
    }
}

//! Who has started what runs in a pane: a launcher of ours, or a user. tmux says so itself, by the pane's
//! options and its start command.

use std::sync::LazyLock;

/// What the program is told with a task's file in a pane, and by nobody else.
pub(crate) const EXEC_PANE: &str = "--exec-pane";

/// The prefix of the files' names.
pub(super) const PREFIX: &str = "exec-task-";

/// Whether the pane was opened without a command of its own, or only with a shell: [`RUNS_SHELL`]. tmux
/// stores `default-command` as if it had been given, quoted if it is more than one word.
///
/// Regular expressions take long, so that a task that a launcher has started is not compared with one.
pub(super) static IS_BARE: LazyLock<String> = LazyLock::new(|| {
    let is_default = "#{||:#{==:#{pane_start_command},},\
                      #{||:#{==:#{pane_start_command},#{default-command}},\
                      #{==:#{pane_start_command},\"#{default-command}\"}}}";
    let start = "#{=1000:pane_start_command}";
    let runs_shell = format!("#{{?#{{m:*[sSn][hHu]*,{start}}},#{{m/r:{RUNS_SHELL},{start}}},0}}");
    format!(
        "#{{?{is_default},1,#{{?{},0,{runs_shell}}}}}",
        *IS_OF_LAUNCHER
    )
});

/// A regular expression for commands that end as an interactive shell and only print before: `zsh -l`,
/// and `cat 'FILE'; exec -l /bin/bash`, with which tmux-resurrect opens a window again. It has no comma
/// and no brace, which would end it in a format. tmux quotes a command of several words, and escapes
/// quotes and dollars in it.
const RUNS_SHELL: &str = concat!(
    r#"^"?("#,
    r#"(cat|echo|printf|clear|reset|tput|stty|cd|export|unset)( +('[^']*'|[^';&|])*)? *(;|&&) *"#,
    r#")*"#,
    r#"(exec( +-[cl]+| +-a +[^ ;&|]+)* +)?"#,
    r#"([^ ;&|]*/)?(env +([A-Za-z0-9_]+=[^ ;&|]* +)*|reattach-to-user-namespace +(-l +)?)?"#,
    r#"\\?"?("#,
    r#"\\?[$]SHELL|"#,
    r#"([^ ;&|]*/)?-?(nu|(a|ba|c|da|elvi|fi|k|mk|rba|tc|xon|z|pw)?sh)[0-9.]*"#,
    r#")\\?"?( +-[A-Za-z-]*)* *;?"?$"#,
);

/// The option of a task's pane, and of its window, with different values: in another pane of the window
/// tmux finds the window's. A pane takes its options along wherever it is moved. Its value is the id of
/// the window in which a launcher has started it.
pub(super) const TASK_PANE: &str = "@tmux_task_pane";

/// Its value in the window.
pub(super) const NOT_THE_TASK: &str = "other";

/// Whether a launcher has started a task in the pane, which is still in that window.
pub(super) static IS_OF_LAUNCHER: LazyLock<String> =
    LazyLock::new(|| format!("#{{==:#{{{TASK_PANE}}},#{{window_id}}}}"));

/// Whether a launcher may run the window's task again in the pane: it is not one of another window.
pub(super) static IS_OWN_PANE: LazyLock<String> =
    LazyLock::new(|| format!("#{{||:#{{==:#{{{TASK_PANE}}},}},{}}}", *IS_OF_LAUNCHER));

/// Who has started what runs in a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PaneOrigin {
    /// A launcher, in this window.
    Launcher,
    /// Not what a launcher has started in this window, if one has: the window's own pane was closed or
    /// moved, or this one was moved into the window, whoever has started it.
    Moved { is_bare: bool },
    /// Somebody else.
    Other { is_bare: bool },
}

/// Prints a [`PaneOrigin`].
pub(super) static ORIGIN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "#{{?{},{LAUNCHER},#{{?{TASK_PANE},{MOVED},}}{}}}",
        *IS_OF_LAUNCHER, *IS_BARE
    )
});
const LAUNCHER: &str = "launcher";
const MOVED: &str = "moved";

impl PaneOrigin {
    pub(super) fn parse(text: &str) -> Self {
        match (text, text.strip_prefix(MOVED)) {
            (LAUNCHER, _) => Self::Launcher,
            (_, Some(is_bare)) => Self::Moved {
                is_bare: is_bare == "1",
            },
            (is_bare, None) => Self::Other {
                is_bare: is_bare == "1",
            },
        }
    }
}

/// Whether the pane waits to run a task that is not described on it yet.
pub(super) static IS_LAUNCHING: LazyLock<String> = LazyLock::new(|| {
    format!("#{{?{TASK_PANE},0,#{{m:* {EXEC_PANE} */{PREFIX}*,#{{pane_start_command}}}}}}")
});

/// Whether the pane has no run: it has ended, or has not begun.
pub(super) static HAS_NO_RUN: LazyLock<String> =
    LazyLock::new(|| format!("#{{||:#{{pane_dead}},{}}}", *IS_LAUNCHING));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_end_as_a_shell_are_known() {
        let pattern = regex::Regex::new(RUNS_SHELL).unwrap();
        assert!(!RUNS_SHELL.contains([',', '{', '}', '#', '%']));
        let shells = r#"
            bash
            /usr/bin/zsh
            zsh -l
            "exec -l bash"
            exec fish --login
            bash5.2 -i
            -bash
            "\$SHELL"
            "exec \"\$SHELL\" -l"
            "cat '/tmp/resurrect/pane-R&D; x:0.1'; exec -l /bin/bash"
            "cat '/a b'; exec /bin/zsh"
            "cat saved 2>/dev/null; exec reattach-to-user-namespace -l zsh"
            "cd /srv && exec -a -sh dash -i"
            env TERM=xterm-256color nu
            "exec env LANG=C PS1=x /bin/sh;""#;
        // A semicolon in double quotes ends what is recognised.
        let others = r#"
            "clear; echo \"hello; there\" && exec bash --login"
            make
            "bash -c 'make; exec bash'"
            bash script.sh
            bash -c make
            bash -lc make
            zsh -i -c ls
            "exec ./server"
            ./bash-server
            fish.py
            "make; exec bash"
            "make && exec bash"
            "cat queue | bash"
            "cat a; ./deploy.sh"
            "cat 'a; exec bash'"
            "echo bash"
            "exec bash -l & make"
            "exec bash || make"
            ssh
            push
            nu-server
            env make
            "tail -f log; exec bash""#;
        for (commands, expected) in [(shells, true), (others, false)] {
            for command in commands.trim().lines().map(str::trim) {
                assert_eq!(pattern.is_match(command), expected, "{command}");
            }
        }
    }
}

//! Which environment variables are passed on, and to what.

use std::ffi::{OsStr, OsString};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{lossless, text};

// Lists of variables: names with blanks between them. A `*` at the end of one matches any rest.

/// Variables of the terminal, of tmux or of the shell itself.
const OF_TERMINAL: &str = "TERM* TMUX TMUX_PANE COLUMNS LINES SHLVL PWD OLDPWD _";

/// Variables that name or open an agent's conversation.
const OF_CONVERSATION: &str = "\
    PI_SESSION_ID PI_SESSION_FILE PI_TMUX_ROOT_CWD \
    CLAUDECODE CLAUDE_CODE_* CLAUDE_PID \
    CODEX_THREAD_ID CODEX_SESSION_ID CODEX_TOOL_CALL_ID CODEX_MANAGED_* \
    COPILOT_AGENT_SESSION_ID COPILOT_CLI COPILOT_LOADER_PID \
    OPENCODE OPENCODE_PID OPENCODE_PASSWORD OPENCODE_SERVER_PASSWORD \
    QWEN_CODE QWEN_CODE_* \
    AI_AGENT AGENT TMUX_TASK_MACHINE TMUX_TASK_OWNER";

/// Variables that a tmux server started by us receives: those of a login, and those needed to
/// start.
const OF_LOGIN: &str = "\
    HOME USER LOGNAME SHELL PATH HOSTNAME MAIL EDITOR VISUAL \
    LANG LANGUAGE LC_* LOCPATH LOCALE_ARCHIVE TZ TZDIR \
    TMPDIR TMUX_TMPDIR TERM TERMINFO TERMINFO_DIRS COLORTERM \
    XDG_* DISPLAY WAYLAND_DISPLAY XAUTHORITY WINDOWID DBUS_SESSION_BUS_ADDRESS \
    SSH_AUTH_SOCK SSH_AGENT_PID SSH_CONNECTION SSH_CLIENT SSH_TTY SSH_ASKPASS KRB5CCNAME \
    LD_LIBRARY_PATH LD_PRELOAD DYLD_*";

/// Variables that a daemon needs besides those of a login: our own settings, the conversation that it
/// is started for, the way to the addresses of sinks, and what a panic prints.
const OF_DAEMON: &str = "\
    TMUX_TASK_* CLAUDE_CODE_SESSION_ID CODEX_THREAD_ID COPILOT_AGENT_SESSION_ID PI_SESSION_ID \
    QWEN_CODE_SESSION_ID HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY all_proxy NO_PROXY no_proxy \
    RUST_BACKTRACE RUST_LIB_BACKTRACE";

fn is_in(list: &str, name: &str) -> bool {
    list.split(' ').any(|pattern| covers_name(pattern, name))
}

/// The variables of a caller's environment that are not passed to a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WithheldVariables {
    /// Names, or prefixes ending in `*`, configured by the user.
    more: Vec<String>,
}

impl WithheldVariables {
    /// Returns the built-in list, extended by `more`: names, or prefixes ending in `*`.
    pub fn with(more: &[String]) -> Self {
        Self {
            more: more.to_vec(),
        }
    }

    /// Whether the variable is withheld.
    pub fn covers(&self, name: &str) -> bool {
        is_in(OF_TERMINAL, name) || self.names().any(|pattern| covers_name(pattern, name))
    }

    /// Returns the names, or prefixes ending in `*`, that no task may see, whoever set them.
    /// Variables of the terminal are not included, because a task has a terminal of its own.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        OF_CONVERSATION
            .split(' ')
            .chain(self.more.iter().map(String::as_str))
    }
}

/// The environment of a task, and its shell. Its values are secret: no log and no option has them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnvironment {
    pub(crate) shell: lossless::Text,
    /// The names, or prefixes ending in `*`, of the variables that no task may see.
    pub(crate) withheld: Vec<String>,
    pub(crate) variables: Vec<(lossless::Text, lossless::Text)>,
}

impl fmt::Debug for TaskEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskEnvironment").finish_non_exhaustive()
    }
}

impl TaskEnvironment {
    /// Adds the variables that tell the task its session, its name and its slot, and that it has none: its
    /// launcher may run in one.
    pub(crate) fn name_task(&mut self, session: &str, name: &str, slot: Option<&str>) {
        self.set("TMUX_TASK_SESSION", Some(session));
        self.set("PI_TMUX_SESSION", Some(session));
        self.set("TMUX_TASK_NAME", Some(name));
        self.set("TMUX_TASK_SLOT", slot);
    }

    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) {
        self.variables
            .retain(|(known, _)| known.0 != OsStr::new(name));
        let text = |text: &str| lossless::Text(text.into());
        let variable = value.map(|value| (text(name), text(value)));
        self.variables.extend(variable);
    }
}

/// Whether the variable may be passed to a tmux server that we start. It stays in the server's
/// environment, where every later window can read it.
pub fn reaches_tmux_server(name: &str) -> bool {
    is_in(OF_LOGIN, name)
}

/// Whether a daemon that a command starts keeps the variable. It runs for days, and everything else
/// in its caller's environment, such as an agent's tokens, is not its business.
pub fn reaches_daemon(name: &str) -> bool {
    reaches_tmux_server(name) || is_in(OF_DAEMON, name)
}

/// Whether `text` is a name, or a prefix followed by `*`, as [`WithheldVariables`] takes them.
pub fn is_name_pattern(text: &str) -> bool {
    is_shell_name(text.strip_suffix('*').unwrap_or(text))
}

/// Whether a shell can have a variable of this name.
pub fn is_shell_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether a name, or a prefix ending in `*`, covers the name.
pub fn covers_name(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

/// The maximum length of an owner, in characters.
const MAX_CHARS: usize = 200;

/// The maximum length of who asks from another machine, `OWNER@MACHINE`, in characters.
pub const ASKER_CHARS: usize = 2 * MAX_CHARS + 1;

/// Which variable names the conversation, by client.
const CLIENTS: [(&str, &str); 5] = [
    ("claude", "CLAUDE_CODE_SESSION_ID"),
    ("codex", "CODEX_THREAD_ID"),
    ("copilot", "COPILOT_AGENT_SESSION_ID"),
    ("pi", "PI_SESSION_ID"),
    ("qwen", "QWEN_CODE_SESSION_ID"),
];

/// Returns the owner that an environment names: `$TMUX_TASK_OWNER`, else `CLIENT:ID` of the
/// conversation whose shell this is; `None` for a user at a terminal. Empty variables count as
/// unset. The owner is sanitised text.
pub fn owner_of_environment(env: &dyn Fn(&str) -> Option<OsString>) -> Option<String> {
    let value = |name: &str| {
        let value = text::one_line(env(name)?.as_encoded_bytes(), MAX_CHARS);
        (!value.is_empty()).then_some(value)
    };
    value("TMUX_TASK_OWNER").or_else(|| {
        CLIENTS.iter().find_map(|(client, variable)| {
            let id = value(variable)?;
            Some(text::bounded(&format!("{client}:{id}"), MAX_CHARS))
        })
    })
}

/// Returns the name of the machine that a command comes from; `None` if it is this one.
pub fn machine_of_environment(env: &dyn Fn(&str) -> Option<OsString>) -> Option<String> {
    let machine = text::one_line(env("TMUX_TASK_MACHINE")?.as_encoded_bytes(), MAX_CHARS);
    (!machine.is_empty()).then_some(machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::env;

    /// Checks for which of these names something holds.
    #[track_caller]
    fn check(holds: impl Fn(&str) -> bool, names: &str, other_names: &str) {
        let is_so = |name: &&str| holds(name);
        assert_eq!(names.split(' ').find(|name| !is_so(name)), None);
        assert_eq!(other_names.split(' ').find(is_so), None);
    }

    #[test]
    fn a_daemon_keeps_what_it_needs_and_no_more() {
        check(
            reaches_daemon,
            "HOME XDG_STATE_HOME TMUX_TMPDIR LC_ALL TZ DBUS_SESSION_BUS_ADDRESS TMUX_TASK_STATE_DIR \
             TMUX_TASK_OWNER PI_SESSION_ID https_proxy",
            "ANTHROPIC_API_KEY GITHUB_TOKEN AWS_SECRET_ACCESS_KEY OPENCODE_SERVER_PASSWORD \
             CLAUDE_CODE_OAUTH_TOKEN PI_SESSION_FILE TMUX TMUX_PANE VIRTUAL_ENV NOTIFY_SOCKET",
        );
    }

    #[test]
    fn the_terminal_and_the_conversation_are_withheld() {
        let always = WithheldVariables::default();
        check(
            |name| always.covers(name),
            "TMUX TERM TERM_PROGRAM _ CLAUDECODE CLAUDE_CODE_SESSION_ID CODEX_MANAGED_BY_NPM \
             OPENCODE_SERVER_PASSWORD TMUX_TASK_OWNER",
            "PATH HOME FOO CLAUDE_CODE CODEX_HOME AGENTS TMUX_TASK_SESSION XTERM",
        );
    }

    #[test]
    fn users_withhold_more() {
        let more = WithheldVariables::with(&["FOO".to_owned(), "AWS_*".to_owned()]);
        let covers = |name: &str| more.covers(name);
        check(covers, "FOO AWS_ AWS_TOKEN AGENT", "FOO2 AWS");
        check(is_name_pattern, "A _a1 AWS_*", "* 1A A*B a.b Ä");
        assert!(!is_name_pattern("") && !is_name_pattern("A B"));
    }

    #[test]
    fn a_server_has_what_a_login_has() {
        check(
            reaches_tmux_server,
            "HOME PATH LC_ALL XDG_RUNTIME_DIR TMUX_TMPDIR",
            "TMUX TMUX_TASK_SESSION PI_TMUX_SESSION API_TOKEN CLAUDECODE BASH_FUNC_x%%",
        );
        let withheld = WithheldVariables::default();
        let is_there = |name: &str| name.starts_with("TERM") || !withheld.covers(name);
        assert!(OF_LOGIN.split(' ').all(is_there));
    }

    #[test]
    fn the_conversation_whose_shell_this_is_owns_what_it_starts() {
        let owner = |variables: &str| owner_of_environment(&env(variables));
        let all = "PI_SESSION_ID=p1 CODEX_THREAD_ID=x1 CLAUDE_CODE_SESSION_ID=c1";
        let empty = "CLAUDE_CODE_SESSION_ID= CODEX_THREAD_ID=x1";
        for (variables, expected) in [
            ("CLAUDECODE=1 TMUX_TASK_OWNER=", None),
            ("CLAUDE_CODE_SESSION_ID=c1", Some("claude:c1")),
            ("CODEX_THREAD_ID=x1", Some("codex:x1")),
            ("COPILOT_AGENT_SESSION_ID=g1", Some("copilot:g1")),
            ("PI_SESSION_ID=p1", Some("pi:p1")),
            (all, Some("claude:c1")),
            ("CLAUDE_CODE_SESSION_ID=c1 TMUX_TASK_OWNER=me", Some("me")),
            (empty, Some("codex:x1")),
            // An owner is one bounded line.
            ("TMUX_TASK_OWNER=a\n\u{1b}[31mb\tc", Some("a b c")),
            ("TMUX_TASK_OWNER=\n", None),
        ] {
            assert_eq!(owner(variables).as_deref(), expected, "{variables:?}");
        }
        let long = owner(&format!("PI_SESSION_ID={}", "x".repeat(10_000)));
        let cut = format!("pi:{}…", "x".repeat(MAX_CHARS - 4));
        assert_eq!(long, Some(cut));
    }
}

//! The owner of a request: an agent's conversation, as its environment names it.

use std::ffi::OsString;

use super::text;

/// The maximum length of an owner, in characters.
const MAX_CHARS: usize = 200;

/// The maximum length of who asks from another machine, `OWNER@MACHINE`, in characters.
pub const ASKER_CHARS: usize = 2 * MAX_CHARS + 1;

/// Which variable names the conversation, by client.
const CLIENTS: [(&str, &str); 3] = [
    ("claude", "CLAUDE_CODE_SESSION_ID"),
    ("codex", "CODEX_THREAD_ID"),
    ("pi", "PI_SESSION_ID"),
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

    #[track_caller]
    fn check(variables: &[(&str, &str)], owner: Option<&str>) {
        let env = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        assert_eq!(owner_of_environment(&env).as_deref(), owner);
    }

    #[test]
    fn the_conversation_whose_shell_this_is_owns_what_it_starts() {
        let claude = ("CLAUDE_CODE_SESSION_ID", "c1");
        let codex = ("CODEX_THREAD_ID", "x1");
        let pi = ("PI_SESSION_ID", "p1");
        check(&[], None);
        check(&[("CLAUDECODE", "1"), ("TMUX_TASK_OWNER", "")], None);
        check(&[claude], Some("claude:c1"));
        check(&[codex], Some("codex:x1"));
        check(&[pi], Some("pi:p1"));
        check(&[pi, codex, claude], Some("claude:c1"));
        check(&[claude, ("TMUX_TASK_OWNER", "me")], Some("me"));
        check(&[("CLAUDE_CODE_SESSION_ID", ""), codex], Some("codex:x1"));
    }

    #[test]
    fn an_owner_is_one_bounded_line() {
        check(&[("TMUX_TASK_OWNER", "a\n\u{1b}[31mb\tc")], Some("a b c"));
        check(&[("TMUX_TASK_OWNER", " \n ")], None);
        let long = "x".repeat(10_000);
        let cut = format!("pi:{}…", "x".repeat(MAX_CHARS - 4));
        check(&[("PI_SESSION_ID", &long)], Some(&cut));
    }
}

//! Hooks of the user that may run when a launch has created a window.

use super::hooks::{BELL_HOOK, DEATH_HOOK, LINK_HOOK, SPAWN_HOOK};
use crate::protocol::{Command, Frame};

/// How the names of hooks begin that run, and may wait, after a command of a line, before the next one
/// of it. All others run after the line.
const AFTER_COMMAND: &str = "after-";

/// The number of commands that [`UserHooks::ask`] returns.
pub(super) const N_COMMANDS: usize = 4;

/// Which hooks of the user a new window of a session may run into: they may do anything, such as rename
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserHooks {
    None,
    /// Hooks that run after the line that creates the window.
    AfterLine,
    /// Also hooks that run within that line: other windows may come between two commands of it.
    WithinLine,
}

impl UserHooks {
    /// Returns the commands that show the hooks for windows of a session, which must exist: a new
    /// window has none of its own.
    pub(super) fn ask(session: &str) -> [Command; N_COMMANDS] {
        let hooks = |args: &[&str]| Command::new("show-hooks").args(args.iter().copied());
        [
            hooks(&["-g"]),
            hooks(&["-gw"]),
            hooks(&["-t", session]),
            // A window of a grouped session runs into the hooks of the other sessions as well.
            Command::new("display-message").args(["-p", "-t", session, "#{session_grouped}"]),
        ]
    }

    /// Parses the answers.
    pub(super) fn parse(frames: &[Frame]) -> Self {
        let [global, of_windows, of_session, grouped] = frames else {
            return Self::WithinLine;
        };
        let shown = [global, of_windows, of_session].map(Frame::text);
        let lines = || shown.iter().flat_map(|text| text.lines());
        let mut of_user = lines().filter(|line| is_set_by_user(line)).peekable();
        let any = grouped.text().trim() == "1" || of_user.peek().is_some();
        if of_user.any(|line| line.starts_with(AFTER_COMMAND)) {
            Self::WithinLine
        } else if any {
            Self::AfterLine
        } else {
            Self::None
        }
    }
}

/// Whether a line of `show-hooks` is not the name of a hook only, and not one of ours.
fn is_set_by_user(line: &str) -> bool {
    let is_bare = |line: &str| line.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    let is_ours = |line: &str| {
        let name = line.split(' ').next();
        name.is_some_and(|name| [BELL_HOOK, DEATH_HOOK, LINK_HOOK, SPAWN_HOOK].contains(&name))
    };
    !is_bare(line) && !is_ours(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(shown: [&str; N_COMMANDS]) -> UserHooks {
        UserHooks::parse(&shown.map(Frame::printed))
    }

    #[test]
    fn names_only_and_our_own_are_no_hooks_of_the_user() {
        assert_eq!(parse(["", "", "", ""]), UserHooks::None);
        let ours = "alert-bell[9010] if-shell -F 1 x\nafter-new-window\nafter-split-window\n\
                    window-linked[9012] if-shell -F 1 x";
        let of_windows =
            "pane-created[9013] if-shell\npane-died[9011] if-shell -F 1 x\npane-exited\n";
        assert_eq!(parse([ours, of_windows, "", "0"]), UserHooks::None);
    }

    #[test]
    fn a_hook_may_be_set_for_all_sessions_all_windows_or_the_session() {
        for shown in [
            ["window-linked[0] rename-window x", "", "", "0"],
            ["alert-bell[901] x\nalert-bell[9010] y", "", "", "0"],
            ["", "pane-died[0] display-message x", "", "0"],
            ["", "", "window-renamed[3] if-shell", "0"],
            ["", "", "", "1"],
        ] {
            assert_eq!(parse(shown), UserHooks::AfterLine, "{shown:?}");
        }
        for shown in [
            ["after-new-window[5] run-shell true", "", "", ""],
            ["", "", "after-new-window[0] x", "1"],
            [
                "alert-bell[0] x\nafter-set-option[0] run-shell 'sleep 0.05'",
                "",
                "",
                "0",
            ],
        ] {
            assert_eq!(parse(shown), UserHooks::WithinLine, "{shown:?}");
        }
    }

    #[test]
    fn without_an_answer_there_may_be_any() {
        assert_eq!(UserHooks::parse(&[]), UserHooks::WithinLine);
    }
}

//! Hooks of the user that may run when a launch has created a window.

use super::hooks::{BELL_HOOK, DEATH_HOOK, LINK_HOOK, SPAWN_HOOK};
use crate::protocol::{Command, Frame};

/// The hook that runs, and may wait, right after a window was created: before the next command of the
/// same line. All others run after the line.
const AFTER_NEW_WINDOW: &str = "after-new-window";

/// The number of commands that [`UserHooks::ask`] returns.
pub(super) const N_COMMANDS: usize = 4;

/// Which hooks of the user a new window of a session may run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UserHooks {
    /// Any at all: it may do anything, such as rename the window.
    pub(super) any: bool,
    /// One that runs in the midst of the line.
    pub(super) after_new_window: bool,
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
        let (grouped, shown) = match frames.split_last() {
            Some((grouped, shown)) => (grouped.text(), shown),
            None => return Self::default(),
        };
        let shown: Vec<String> = shown.iter().map(Frame::text).collect();
        let lines = || shown.iter().flat_map(|text| text.lines());
        Self {
            any: grouped.trim() == "1" || lines().any(is_set_by_user),
            after_new_window: lines().any(|line| {
                line.strip_prefix(AFTER_NEW_WINDOW)
                    .is_some_and(|rest| rest.starts_with('['))
            }),
        }
    }
}

impl Default for UserHooks {
    /// Where nothing is known of them.
    fn default() -> Self {
        Self {
            any: true,
            after_new_window: true,
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
        let frame = |text: &str| Frame {
            time: 0,
            number: 1,
            flags: 1,
            ok: true,
            body: text.lines().map(|line| line.as_bytes().to_vec()).collect(),
        };
        UserHooks::parse(&shown.map(frame))
    }

    fn hooks(any: bool, after_new_window: bool) -> UserHooks {
        UserHooks {
            any,
            after_new_window,
        }
    }

    #[test]
    fn names_only_and_our_own_are_no_hooks_of_the_user() {
        let none = hooks(false, false);
        assert_eq!(parse(["", "", "", ""]), none);
        let ours = "alert-bell[9010] if-shell -F 1 x\nafter-new-window\nafter-split-window";
        let of_windows = "pane-died[9011] if-shell -F 1 x\npane-exited\n";
        assert_eq!(parse([ours, of_windows, "", "0"]), none);
    }

    #[test]
    fn a_hook_may_be_set_for_all_sessions_all_windows_or_the_session() {
        let other = hooks(true, false);
        assert_eq!(
            parse(["window-linked[0] rename-window x", "", "", "0"]),
            other
        );
        assert_eq!(
            parse(["alert-bell[901] x\nalert-bell[9010] y", "", "", "0"]),
            other
        );
        assert_eq!(
            parse(["", "pane-died[0] display-message x", "", "0"]),
            other
        );
        assert_eq!(parse(["", "", "window-renamed[3] if-shell", "0"]), other);
        assert_eq!(parse(["", "", "", "1"]), other);
        let within = hooks(true, true);
        assert_eq!(
            parse(["after-new-window[5] run-shell true", "", "", ""]),
            within
        );
        assert_eq!(parse(["", "", "after-new-window[0] x", "0"]), within);
    }

    #[test]
    fn without_an_answer_there_may_be_any() {
        assert_eq!(UserHooks::parse(&[]), hooks(true, true));
    }
}

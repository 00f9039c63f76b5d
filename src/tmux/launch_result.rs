//! The result of a launch, and errors of several of its steps.

use crate::model::{
    Error, PaneId, ReplacedRun, SessionLife, TASK_NAME_RULE, WindowId, is_task_name, is_token,
};

/// How often a launch starts over before it gives up.
pub(super) const ATTEMPTS: usize = 20;

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewRun {
    /// The life of the session.
    pub life: SessionLife,
    /// The task's window.
    pub window: WindowId,
    /// Its primary pane.
    pub pane: PaneId,
    /// The number of the run, from 1.
    pub run: u32,
    /// The previous run in the window; `None` when the window was created for this one.
    pub replaced: Option<ReplacedRun>,
}

/// What came of a launch.
#[derive(Debug)]
pub(crate) enum LaunchAnswer<T> {
    Started(T),
    /// Nothing was started: this run of the slot has to be ended first.
    Live(LiveRun),
}

/// A live run that a launch is to replace. Its window stays when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveRun {
    pub window: WindowId,
    /// The process that tmux has started in its pane.
    pub pid: u32,
}

/// Returns the error that the session had changed at each attempt since it was read.
pub(crate) fn contended() -> Error {
    Error::failed(format!(
        "the session changed during each of {ATTEMPTS} attempts; run the command again"
    ))
}

/// Returns the error that a slot is ambiguous.
pub(crate) fn two_windows(name: &str, first: WindowId, second: WindowId) -> Error {
    Error::failed(format!(
        "two windows are named `{name}`: {first} and {second}"
    ))
    .with_hint("rename or close one of them")
}

/// Checks a task's name: 1 to 40 of `A-Za-z0-9._-`, the first a letter or digit.
///
/// # Errors
///
/// When it is not; the error contains the rule.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if is_task_name(name) {
        Ok(())
    } else {
        let shown = crate::model::text::one_line(name.as_bytes(), 60);
        Err(Error::usage(format!(
            "`{shown}` is not a task name: {TASK_NAME_RULE}"
        )))
    }
}

/// Checks a launch's token, which is used in formats.
pub(super) fn check_token(token: &str) -> Result<(), Error> {
    let wrong = || Error::usage("the launch has a token that tmux cannot be asked for");
    is_token(token).then_some(()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["a", "9", "api-server", "A.b_c-9", &"x".repeat(40)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            ".a",
            "-a",
            "_a",
            "a b",
            "a:b",
            "é",
            "a\n",
            "a#{q}",
            &"x".repeat(41),
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert_eq!(
            check_name("a b").unwrap_err().to_string(),
            "`a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit"
        );
    }
}

//! The window option that says that its run is being ended.
//!
//! It is set when that is about to begin, and belongs to the run's process: the next daemon reads there
//! what a killed one had begun.

use std::sync::Arc;

use super::client::Connection;
use super::error::TmuxError;
use crate::model::{ASKER_CHARS, GoneReason, Task, WindowId, text};
use crate::protocol::Command;

/// The window option.
pub(super) const ENDING: &str = "@tmux_task_stop";

/// Returns the option's value for a run with this process: `REASON PID`, and who asked for it from another
/// machine, one word.
fn encode_mark(reason: GoneReason, pid: u32, asked_by: Option<&str>) -> Option<String> {
    let word = reason.word()?;
    let asked_by = asked_by.map(|by| text::one_line(by.as_bytes(), ASKER_CHARS));
    let asked_by = asked_by.map(|by| by.replace('%', "%25").replace(' ', "%20"));
    let asked_by = asked_by.map_or_else(String::new, |by| format!(" {by}"));
    Some(format!("{word} {pid}{asked_by}"))
}

/// Reads why the run with this process is being ended, and who asked for it from another machine. `pid`
/// is `None` where tmux has forgotten the process of a dead pane.
pub(super) fn decode_ending(
    text: Option<&str>,
    pid: Option<u32>,
) -> Option<(GoneReason, Option<String>)> {
    let mut fields = text?.split(' ');
    let reason = GoneReason::of_word(fields.next()?)?;
    let of: u32 = fields.next()?.parse().ok()?;
    if pid.is_some_and(|pid| pid != of) {
        return None;
    }
    let asked_by = fields.next().map(|by| {
        let by = by.replace("%20", " ").replace("%25", "%");
        text::one_line(by.as_bytes(), ASKER_CHARS)
    });
    Some((reason, asked_by.filter(|by| !by.is_empty())))
}

/// Marks the windows of tasks whose runs are about to be ended. A window that is gone by now is left out.
///
/// # Errors
///
/// When tmux does not answer.
pub(crate) async fn mark_endings(
    connection: &mut Connection<'_>,
    tasks: &[(Arc<Task>, GoneReason)],
) -> Result<(), TmuxError> {
    for (task, reason) in tasks {
        let mark = |pid| encode_mark(*reason, pid, task.asked_by.as_deref());
        let Some(mark) = task.pid.and_then(mark) else {
            continue;
        };
        let window = task.window.to_string();
        let set = Command::new("set-option").args(["-w", "-t", &window, ENDING, &mark]);
        ignore_missing(connection.run(&[set]).await)?;
    }
    Ok(())
}

/// Removes the mark from windows whose runs could not be ended.
///
/// # Errors
///
/// When tmux does not answer.
pub(crate) async fn unmark_endings(
    connection: &mut Connection<'_>,
    windows: &[WindowId],
) -> Result<(), TmuxError> {
    for window in windows {
        let window = window.to_string();
        let set = Command::new("set-option").args(["-wu", "-t", &window, ENDING]);
        ignore_missing(connection.run(&[set]).await)?;
    }
    Ok(())
}

fn ignore_missing<T>(done: Result<T, TmuxError>) -> Result<(), TmuxError> {
    match done {
        Ok(_) | Err(TmuxError::Rejected { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_one_process() {
        let text = encode_mark(GoneReason::UserKilled, 41, None).unwrap();
        assert_eq!(text, "userKilled 41");
        for (pid, expected) in [(Some(41), true), (None, true), (Some(42), false)] {
            let read = decode_ending(Some(&text), pid);
            let expected = expected.then_some((GoneReason::UserKilled, None));
            assert_eq!(read, expected, "{pid:?}");
        }
        for text in ["", "moved 42", "42", "userKilled x", "userKilled"] {
            assert_eq!(decode_ending(Some(text), Some(42)), None, "{text}");
        }
    }

    #[test]
    fn a_mark_says_who_asked_whatever_their_names_are() {
        let long = "\u{1f600}".repeat(5000);
        let cut = text::bounded(&long, ASKER_CHARS);
        for (asked_by, read) in [
            ("pi:1@laptop", "pi:1@laptop"),
            ("laptop", "laptop"),
            ("a userKilled 9@b", "a userKilled 9@b"),
            ("me@my%20pending", "me@my%20pending"),
            ("a\n\u{1b}[31mb\t%c;", "a b %c;"),
            (&*long, &*cut),
        ] {
            let text = encode_mark(GoneReason::AgentKilled, 41, Some(asked_by)).unwrap();
            assert!(!text.contains(char::is_control), "{text:?}");
            assert!(text.len() < 4096);
            let ending = (GoneReason::AgentKilled, Some(read.to_owned()));
            assert_eq!(decode_ending(Some(&text), Some(41)), Some(ending));
        }
        let hostile = "userKilled 42 a\u{1b}]0;b\u{7}\u{202e}c";
        let (_, read) = decode_ending(Some(hostile), Some(42)).unwrap();
        assert!(!read.unwrap().contains(['\u{1b}', '\u{7}', '\u{202e}']));
    }
}

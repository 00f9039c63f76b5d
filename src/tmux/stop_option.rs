//! The window option that says how a task is ended, and whether that has begun.
//!
//! The first part belongs to one launch, as the option of restarts does. The second part, the mark, is
//! appended when a run is about to be ended, and belongs to the run's process: the next daemon reads
//! there what a killed one had begun.

use std::sync::Arc;
use std::time::Duration;

use super::client::Connection;
use super::error::TmuxError;
use crate::model::{ASKER_CHARS, GoneReason, Millis, Signal, StopSettings, Task, WindowId, text};
use crate::protocol::Command;

/// The window option.
pub(super) const STOP: &str = "@tmux_task_stop";

/// The version of the format.
const VERSION: &str = "1";

/// The word before a mark.
const MARK: &str = "ending";

/// A value that is not set.
const UNSET: &str = "-";

/// Returns the option's value for the launch at this time:
/// `1 STARTED SIGNAL GRACE_MS PARENT_ONLY KILL_AFTER_MS`; `None` where nothing is set.
pub(super) fn encode_stop(settings: &StopSettings, started: Millis) -> Option<String> {
    let StopSettings {
        signal,
        grace,
        parent_only,
        kill_after,
    } = settings;
    let millis = |time: &Option<Duration>| {
        time.map_or_else(|| UNSET.to_owned(), |time| time.as_millis().to_string())
    };
    (!settings.is_unset()).then(|| {
        format!(
            "{VERSION} {started} {} {} {} {}",
            signal.as_ref().map_or(UNSET, Signal::name),
            millis(grace),
            u8::from(*parent_only),
            millis(kill_after),
        )
    })
}

/// Reads the settings of an option's value. What is of another launch than the one at this time, of
/// another version or damaged counts as not set.
pub(super) fn decode_stop(text: Option<&str>, started: Option<Millis>) -> StopSettings {
    let settings = text.map_or("", |text| split(text).0);
    read_settings(settings, started).unwrap_or_default()
}

fn read_settings(text: &str, started: Option<Millis>) -> Option<StopSettings> {
    let mut fields = text.split(' ');
    if fields.next()? != VERSION || fields.next()?.parse::<Millis>().ok() != Some(started?) {
        return None;
    }
    let millis = |text: &str| match text {
        UNSET => Some(None),
        text => {
            let time = Duration::from_millis(text.parse().ok()?);
            (time <= StopSettings::LONGEST).then_some(Some(time))
        }
    };
    let signal = match fields.next()? {
        UNSET => None,
        name => Some(Signal::parse(name).filter(|signal| signal.number().is_some())?),
    };
    let settings = StopSettings {
        signal,
        grace: millis(fields.next()?)?,
        parent_only: match fields.next()? {
            "0" => false,
            "1" => true,
            _ => return None,
        },
        kill_after: millis(fields.next()?)?,
    };
    fields.next().is_none().then_some(settings)
}

/// Returns the mark of a run with this process: ` ending REASON PID`, and who asked for it from another
/// machine, one word.
fn encode_mark(reason: GoneReason, pid: u32, asked_by: Option<&str>) -> Option<String> {
    let word = reason.word()?;
    let asked_by = asked_by.map(|by| text::one_line(by.as_bytes(), ASKER_CHARS));
    let asked_by = asked_by.map(|by| by.replace('%', "%25").replace(' ', "%20"));
    let asked_by = asked_by.map_or_else(String::new, |by| format!(" {by}"));
    Some(format!(" {MARK} {word} {pid}{asked_by}"))
}

/// Reads why the run with this process is being ended, and who asked for it from another machine. `pid`
/// is `None` where tmux has forgotten the process of a dead pane.
pub(super) fn decode_ending(
    text: Option<&str>,
    pid: Option<u32>,
) -> Option<(GoneReason, Option<String>)> {
    let mut fields = split(text?).1?.split(' ');
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

/// Separates the settings from the last mark.
fn split(text: &str) -> (&str, Option<&str>) {
    let settings = text.split(MARK).next().unwrap_or_default().trim_end();
    let mark = text.rsplit_once(&format!("{MARK} ")).map(|(_, mark)| mark);
    (settings, mark)
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
        let set = Command::new("set-option").args(["-wa", "-t", &window, STOP, &mark]);
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
    let rest = format!("#{{s/ *{MARK}.*$//:{STOP}}}");
    for window in windows {
        let window = window.to_string();
        let set = Command::new("set-option").args(["-wF", "-t", &window, STOP, &rest]);
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

    fn settings() -> StopSettings {
        StopSettings {
            signal: Signal::parse("INT"),
            grace: Some(Duration::from_millis(1500)),
            parent_only: true,
            kill_after: None,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = encode_stop(&settings(), 77).unwrap();
        assert_eq!(text, "1 77 SIGINT 1500 1 -");
        assert_eq!(decode_stop(Some(&text), Some(77)), settings());
        assert_eq!(decode_ending(Some(&text), Some(4)), None);
        assert_eq!(encode_stop(&StopSettings::default(), 77), None);
        let limit = StopSettings {
            kill_after: Some(Duration::from_secs(2)),
            ..StopSettings::default()
        };
        let text = encode_stop(&limit, 7).unwrap();
        assert_eq!(decode_stop(Some(&text), Some(7)), limit);
    }

    #[test]
    fn nothing_else_counts() {
        let none = StopSettings::default();
        for text in [
            "",
            "1 78 SIGINT 1500 1 -",
            "2 77 SIGINT 1500 1 -",
            "1 77 SIGNONE 1500 1 -",
            "1 77 SIGINT -5 1 -",
            "1 77 SIGINT 1500 2 -",
            "1 77 SIGINT 1500 1",
            "1 77 SIGINT 1500 1 - x",
            "1 77 SIGINT 99999999999999 1 -",
        ] {
            assert_eq!(decode_stop(Some(text), Some(77)), none, "{text}");
        }
        assert_eq!(decode_stop(None, Some(77)), none);
        assert_eq!(decode_stop(Some("1 77 SIGINT 1500 1 -"), None), none);
    }

    #[test]
    fn a_mark_is_of_one_process() {
        let text = "1 77 SIGINT 1500 1 - ending userKilled 41";
        assert_eq!(decode_stop(Some(text), Some(77)), settings());
        assert_eq!(
            decode_ending(Some(text), Some(41)),
            Some((GoneReason::UserKilled, None))
        );
        assert_eq!(
            decode_ending(Some(text), None),
            Some((GoneReason::UserKilled, None))
        );
        assert_eq!(decode_ending(Some(text), Some(42)), None);
        // Of a window that no launcher has started, and marked twice.
        let text = " ending userKilled 41 ending timedOut 42";
        assert_eq!(
            decode_ending(Some(text), Some(42)),
            Some((GoneReason::TimedOut, None))
        );
        for text in [
            " ending moved 42",
            " ending 42",
            " ending userKilled x",
            "42",
        ] {
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
            ("a ending userKilled 9@b", "a ending userKilled 9@b"),
            ("me@my%20pending", "me@my%20pending"),
            ("a\n\u{1b}[31mb\t%c;", "a b %c;"),
            (&*long, &*cut),
        ] {
            let first = encode_mark(GoneReason::AgentKilled, 41, Some(asked_by)).unwrap();
            assert!(!first.contains(char::is_control), "{first:?}");
            let ending = (GoneReason::AgentKilled, Some(read.to_owned()));
            let text = format!("1 77 SIGINT 1500 1 -{first}");
            assert_eq!(decode_stop(Some(&text), Some(77)), settings());
            assert_eq!(decode_ending(Some(&text), Some(41)), Some(ending));
            let second = encode_mark(GoneReason::TimedOut, 42, None).unwrap();
            assert_eq!(second, " ending timedOut 42");
            let text = format!("{text}{second}");
            assert!(text.len() < 4096);
            assert_eq!(decode_stop(Some(&text), Some(77)), settings());
            assert_eq!(
                decode_ending(Some(&text), Some(42)),
                Some((GoneReason::TimedOut, None))
            );
        }
        let hostile = "ending userKilled 42 a\u{1b}]0;b\u{7}\u{202e}c";
        let (_, read) = decode_ending(Some(hostile), Some(42)).unwrap();
        assert!(!read.unwrap().contains(['\u{1b}', '\u{7}', '\u{202e}']));
    }
}

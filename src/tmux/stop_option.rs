//! The window option that says how a task is ended, and whether that has begun.
//!
//! The first part belongs to one launch, as the option of restarts does. The second part, the mark, is
//! appended when a run is about to be ended, and belongs to the run's process: the next daemon reads
//! there what a killed one had begun.

use std::time::Duration;

use super::client::Connection;
use super::error::TmuxError;
use crate::model::{GoneReason, Millis, Signal, StopSettings, WindowId};
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

/// Reads why the run with this process is being ended. `pid` is `None` where tmux has forgotten the
/// process of a dead pane.
pub(super) fn decode_ending(text: Option<&str>, pid: Option<u32>) -> Option<GoneReason> {
    let (reason, of) = split(text?).1?.split_once(' ')?;
    let of: u32 = of.parse().ok()?;
    if pid.is_some_and(|pid| pid != of) {
        return None;
    }
    GoneReason::of_word(reason)
}

/// Separates the settings from the last mark.
fn split(text: &str) -> (&str, Option<&str>) {
    let settings = text.split(MARK).next().unwrap_or_default().trim_end();
    let mark = text.rsplit_once(&format!("{MARK} ")).map(|(_, mark)| mark);
    (settings, mark)
}

/// Marks windows whose runs are about to be ended. A window that is gone by now is left out.
///
/// # Errors
///
/// When tmux does not answer.
pub(crate) async fn mark_endings(
    connection: &mut Connection<'_>,
    windows: &[(WindowId, u32, GoneReason)],
) -> Result<(), TmuxError> {
    for (window, pid, reason) in windows {
        let Some(word) = reason.word() else { continue };
        let mark = format!(" {MARK} {word} {pid}");
        let window = window.to_string();
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
            Some(GoneReason::UserKilled)
        );
        assert_eq!(
            decode_ending(Some(text), None),
            Some(GoneReason::UserKilled)
        );
        assert_eq!(decode_ending(Some(text), Some(42)), None);
        // Of a window that no launcher has started, and marked twice.
        let text = " ending userKilled 41 ending timedOut 42";
        assert_eq!(
            decode_ending(Some(text), Some(42)),
            Some(GoneReason::TimedOut)
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
}

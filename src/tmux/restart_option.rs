//! The window option that says when a task is run again by itself.
//!
//! It belongs to one launch: a launcher that does not know it leaves the option of the launch before,
//! whose time is not its own, and which therefore counts no more.

use std::time::Duration;

use super::launch_result::check_token;
use crate::model::{Millis, RestartPolicy, TaskRestarts};

/// The window option.
pub(super) const RESTART: &str = "@tmux_task_restart";

/// The version of the format.
const VERSION: &str = "1";

/// Returns the option's value for the launch at this time: `1 STARTED LIMIT BACKOFF_MS USED TOKEN`.
pub(super) fn encode_restarts(restarts: &TaskRestarts, started: Millis) -> String {
    let TaskRestarts {
        policy: RestartPolicy { limit, backoff },
        used,
        token,
    } = restarts;
    let backoff = backoff.as_millis();
    format!("{VERSION} {started} {limit} {backoff} {used} {token}")
}

/// Reads an option's value; `None` when it is of another launch than the one at this time, of another
/// version, or damaged.
pub(super) fn decode_restarts(text: Option<&str>, started: Option<Millis>) -> Option<TaskRestarts> {
    let mut fields = text?.split(' ');
    if fields.next()? != VERSION || fields.next()?.parse::<Millis>().ok() != Some(started?) {
        return None;
    }
    let restarts = TaskRestarts {
        policy: RestartPolicy {
            limit: fields.next()?.parse().ok()?,
            backoff: Duration::from_millis(fields.next()?.parse().ok()?),
        },
        used: fields.next()?.parse().ok()?,
        token: fields.next()?.to_owned(),
    };
    // Others can write the option too.
    let is_whole = fields.next().is_none() && check_token(&restarts.token).is_ok();
    let is_allowed = (1..=RestartPolicy::MOST).contains(&restarts.policy.limit)
        && restarts.policy.backoff <= RestartPolicy::LONGEST_FIRST;
    (is_whole && is_allowed).then_some(restarts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restarts() -> TaskRestarts {
        TaskRestarts {
            policy: RestartPolicy {
                limit: 5,
                backoff: Duration::from_millis(1500),
            },
            used: 2,
            token: "71-9".to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = encode_restarts(&restarts(), 77);
        assert_eq!(text, "1 77 5 1500 2 71-9");
        assert_eq!(decode_restarts(Some(&text), Some(77)), Some(restarts()));
    }

    #[test]
    fn nothing_else_counts() {
        // Of another launch.
        assert_eq!(decode_restarts(Some("1 77 5 1500 2 71-9"), Some(78)), None);
        assert_eq!(decode_restarts(Some("1 77 5 1500 2 71-9"), None), None);
        assert_eq!(decode_restarts(None, Some(77)), None);
        for text in [
            "",
            "1",
            "2 77 5 1500 2 71-9",
            "1 77 5 1500 2",
            "1 77 5 1500 2 ../7",
            "1 77 5 1500 2 7,9",
            "1 77 5 1500 2 71-9 x",
            "1 77 -5 1500 2 71-9",
            "1 77 0 1500 2 71-9",
            "1 77 1001 1500 2 71-9",
            "1 77 5 86400001 2 71-9",
            "1 77 5 1500  71-9",
            "1 77 5 99999999999999999999 2 71-9",
        ] {
            assert_eq!(decode_restarts(Some(text), Some(77)), None, "{text}");
        }
    }
}

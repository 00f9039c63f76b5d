//! Decides whether a task whose run has ended is run again, and when.
//!
//! The decision is a function of the ended run: its end, its length, and what its window says of the
//! restarts before it. So it is the same for the event, for its text, and for the next daemon.

use std::time::Duration;

use crate::model::{RestartPolicy, Task, text};

/// How often in a row a task is run again if the user does not say.
const DEFAULT_LIMIT: u32 = 5;

/// The pause before the first restart if the user does not say.
pub(crate) const DEFAULT_BACKOFF: Duration = Duration::from_secs(1);

/// The longest pause, unless the first one is longer.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// A run of at least this length was well: the restarts before it do not count any more.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// What follows the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterEnd {
    Restart(Restart),
    /// It has failed after this many restarts, as often as it may be run again.
    GaveUp(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restart {
    /// Its number among the restarts in a row, from 1.
    pub(crate) number: u32,
    pub(crate) limit: u32,
    pub(crate) after: Duration,
}

/// Reads `on-failure` or `on-failure:N`: how often in a row a task is run again.
pub(crate) fn parse_limit(text: &str) -> Result<u32, String> {
    let limit = match text.split_once(':') {
        None if text == "on-failure" => Some(DEFAULT_LIMIT),
        Some(("on-failure", limit)) => limit.parse().ok(),
        None | Some(_) => None,
    };
    limit
        .filter(|limit| (1..=RestartPolicy::MOST).contains(limit))
        .ok_or_else(|| {
            let most = RestartPolicy::MOST;
            format!("`{text}` is not on-failure or on-failure:N, N from 1 to {most}")
        })
}

/// Checks the pause before the first restart.
pub(crate) fn check_backoff(backoff: Duration) -> Result<Duration, String> {
    if backoff <= RestartPolicy::LONGEST_FIRST {
        Ok(backoff)
    } else {
        Err("a task may pause for 24h at most before its first restart".to_owned())
    }
}

/// Returns in words how long a restart still takes: `restarts in 4 s`.
pub(crate) fn restarts_in(still: Duration) -> String {
    match still.is_zero() {
        true => "restarts now".to_owned(),
        false => format!("restarts in {}", shown(still)),
    }
}

/// Returns what follows the end of this run; `None` while it continues, when it succeeded, when how it
/// ended is not known, and when the task has no policy.
pub(crate) fn after_end(task: &Task) -> Option<AfterEnd> {
    let restarts = task.settings.restarts.as_ref()?;
    let exit = task.exit()?;
    let has_failed = exit.signal.is_some() || exit.code.is_some_and(|code| code != 0);
    if !has_failed {
        return None;
    }
    let lived = task.started_at.zip(task.ended_at);
    let lived = lived.map(|(from, to)| Duration::from_millis(to.abs_diff(from)));
    let was_well = lived.is_some_and(|lived| lived >= WELL_AFTER);
    let used = if was_well { 0 } else { restarts.used };
    let RestartPolicy { limit, backoff } = restarts.policy;
    Some(if used < limit {
        AfterEnd::Restart(Restart {
            number: used + 1,
            limit,
            after: pause(backoff, used),
        })
    } else {
        AfterEnd::GaveUp(used)
    })
}

/// Returns the restart that follows the end of this run, if one does.
pub(crate) fn restart_of(task: &Task) -> Option<Restart> {
    match after_end(task)? {
        AfterEnd::Restart(restart) => Some(restart),
        AfterEnd::GaveUp(_) => None,
    }
}

/// Returns in words that a task is not restarted again: `gave up after 2 restarts`.
pub(crate) fn gave_up(used: u32) -> String {
    format!("gave up after {}", text::counted(used as usize, "restart"))
}

/// Returns the pause before a restart: doubled by each one before it.
fn pause(backoff: Duration, used: u32) -> Duration {
    let longest = LONGEST_BACKOFF.max(backoff);
    let factor = 1_u32.checked_shl(used).unwrap_or(u32::MAX);
    backoff.saturating_mul(factor).min(longest)
}

/// Returns a pause in its unit, rounded up: `500 ms`, `4 s`, `3 min`.
pub(crate) fn shown(pause: Duration) -> String {
    let ms = pause.as_millis();
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..120_000 => format!("{} s", ms.div_ceil(1000)),
        _ => format!("{} min", ms.div_ceil(60_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    /// A run with this policy that has ended so, and how long it lived.
    fn ended(policy: (u32, u64), used: u32, end: &str, lived_s: Option<i64>) -> Task {
        let (limit, backoff_ms) = policy;
        let restarts = format!("restarts={limit},{backoff_ms},{used}");
        let mut ended = task(&format!("@1#2 api {end} {restarts}"));
        ended.started_at = lived_s.map(|_| 10_000);
        ended.ended_at = lived_s.map(|lived_s| 10_000 + lived_s * 1000);
        ended
    }

    #[test]
    fn what_follows_the_end_of_a_run() {
        let always = format!("gave up {}", u32::MAX);
        for (policy, used, end, lived_s, expected) in [
            // Only failures are restarted.
            ((5, 1000), 0, "dead 1", 0, "1 of 5 after 1000"),
            ((5, 1000), 0, "dead SIGKILL", 0, "1 of 5 after 1000"),
            ((5, 1000), 0, "dead 0", 0, "nothing"),
            // It may have succeeded.
            ((5, 1000), 0, "dead ?", 0, "nothing"),
            ((5, 1000), 0, "running", 0, "nothing"),
            ((5, 1000), 0, "unknown", 0, "nothing"),
            // The pause doubles up to its bound.
            ((99, 1000), 1, "dead 1", 0, "2 of 99 after 2000"),
            ((99, 1000), 2, "dead 1", 0, "3 of 99 after 4000"),
            ((99, 1000), 5, "dead 1", 0, "6 of 99 after 32000"),
            ((99, 1000), 6, "dead 1", 0, "7 of 99 after 60000"),
            ((99, 1000), 40, "dead 1", 0, "41 of 99 after 60000"),
            ((9, 0), 8, "dead 1", 0, "9 of 9 after 0"),
            // A pause that is longer than the bound from the beginning is not doubled.
            ((9, 90_000), 0, "dead 1", 0, "1 of 9 after 90000"),
            ((9, 90_000), 3, "dead 1", 0, "4 of 9 after 90000"),
            ((9, 40_000), 1, "dead 1", 0, "2 of 9 after 60000"),
            // It gives up after as many restarts as there may be.
            ((2, 0), 1, "dead 1", 0, "2 of 2 after 0"),
            ((2, 0), 2, "dead 1", 0, "gave up 2"),
            ((2, 0), 2, "dead 0", 0, "nothing"),
            // Whatever the window says.
            ((2, 0), u32::MAX, "dead 1", 0, &always),
            // A long run resets the count.
            ((2, 1000), 2, "dead 1", 59, "gave up 2"),
            ((2, 1000), 2, "dead 1", 60, "1 of 2 after 1000"),
        ] {
            let actual = match after_end(&ended(policy, used, end, Some(lived_s))) {
                None => "nothing".to_owned(),
                Some(AfterEnd::GaveUp(restarts)) => format!("gave up {restarts}"),
                Some(AfterEnd::Restart(Restart {
                    number,
                    limit,
                    after,
                })) => format!("{number} of {limit} after {}", after.as_millis()),
            };
            assert_eq!(actual, expected, "{policy:?} {used} {end} {lived_s}");
        }
        assert_eq!(after_end(&task("@1 api dead 1")), None);
        // How long it lived is not known.
        let unknown = ended((1, 0), 1, "dead 1", None);
        assert_eq!(after_end(&unknown), Some(AfterEnd::GaveUp(1)));
    }

    #[test]
    fn what_can_be_asked_for() {
        assert_eq!(parse_limit("on-failure"), Ok(DEFAULT_LIMIT));
        assert_eq!(parse_limit("on-failure:1"), Ok(1));
        assert_eq!(parse_limit("on-failure:1000"), Ok(1000));
        for text in [
            "",
            "always",
            "on-failure:",
            "on-failure:0",
            "on-failure:1001",
            "on-failure:-1",
            "on-failure:x",
            "on-failure 3",
            "no",
            "On-Failure",
        ] {
            let error = parse_limit(text).unwrap_err();
            assert!(error.contains("on-failure:N, N from 1 to 1000"), "{error}");
        }
        assert!(check_backoff(Duration::ZERO).is_ok());
        assert!(check_backoff(RestartPolicy::LONGEST_FIRST).is_ok());
        assert!(check_backoff(RestartPolicy::LONGEST_FIRST + Duration::from_millis(1)).is_err());
    }

    #[test]
    fn a_restart_in_words() {
        let words = |still_ms| restarts_in(Duration::from_millis(still_ms));
        assert_eq!(words(0), "restarts now");
        assert_eq!(words(250), "restarts in 250 ms");
        assert_eq!(words(3001), "restarts in 4 s");
        assert_eq!(words(119_500), "restarts in 120 s");
        assert_eq!(words(120_001), "restarts in 3 min");
    }
}

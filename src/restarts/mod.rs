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
    /// The task is run again.
    Restart(Restart),
    /// It has failed after this many restarts, as often as it may be run again.
    GaveUp(u32),
}

/// A restart that follows the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restart {
    /// Its number among the restarts in a row, from 1.
    pub(crate) number: u32,
    /// How many there may be.
    pub(crate) limit: u32,
    /// How long after the end.
    pub(crate) after: Duration,
}

/// Reads `on-failure` or `on-failure:N`: how often in a row a task is run again.
///
/// # Errors
///
/// When it is anything else; the error says what is possible.
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
///
/// # Errors
///
/// When it is too long; the error says what is possible.
pub(crate) fn check_backoff(backoff: Duration) -> Result<Duration, String> {
    if backoff <= RestartPolicy::LONGEST_FIRST {
        Ok(backoff)
    } else {
        Err("a task may pause for 24h at most before its first restart".to_owned())
    }
}

impl Restart {
    /// Returns it in words, given how long it still takes: `restarts in 4 s, 2 of 5`.
    pub(crate) fn words(&self, still: Duration) -> String {
        let Self { number, limit, .. } = self;
        format!("{}, {number} of {limit}", restarts_in(still))
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
    use crate::model::{Exit, Life, TaskRestarts};

    /// What follows the end of a run of the length `lived_s` with this policy: `1 of 5 after 1000`,
    /// `gave up 5`, `nothing`.
    #[track_caller]
    fn check(policy: (u32, u64), used: u32, end: &str, lived_s: i64, expected: &str) {
        let (limit, backoff_ms) = policy;
        let mut ended = task(&format!("@1#2 api {end}"));
        ended.settings.restarts = Some(TaskRestarts {
            policy: RestartPolicy {
                limit,
                backoff: Duration::from_millis(backoff_ms),
            },
            used,
            token: "7-1".to_owned(),
        });
        ended.started_at = Some(10_000);
        ended.ended_at = Some(10_000 + lived_s * 1000);
        let actual = match after_end(&ended) {
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

    #[test]
    fn only_failures_are_restarted() {
        check((5, 1000), 0, "dead 1", 0, "1 of 5 after 1000");
        check((5, 1000), 0, "dead SIGKILL", 0, "1 of 5 after 1000");
        check((5, 1000), 0, "dead 0", 0, "nothing");
        // It may have succeeded.
        check((5, 1000), 0, "dead ?", 0, "nothing");
        check((5, 1000), 0, "running", 0, "nothing");
        check((5, 1000), 0, "unknown", 0, "nothing");
        assert_eq!(after_end(&task("@1 api dead 1")), None);
    }

    #[test]
    fn the_pause_doubles_up_to_its_bound() {
        for (used, ms) in [(1, 2000), (2, 4000), (5, 32_000), (6, 60_000), (40, 60_000)] {
            let expected = format!("{} of 99 after {ms}", used + 1);
            check((99, 1000), used, "dead 1", 0, &expected);
        }
        check((9, 0), 8, "dead 1", 0, "9 of 9 after 0");
        // A pause that is longer than the bound from the beginning is not doubled.
        check((9, 90_000), 0, "dead 1", 0, "1 of 9 after 90000");
        check((9, 90_000), 3, "dead 1", 0, "4 of 9 after 90000");
        check((9, 40_000), 1, "dead 1", 0, "2 of 9 after 60000");
    }

    #[test]
    fn it_gives_up_after_as_many_restarts_as_there_may_be() {
        check((2, 0), 1, "dead 1", 0, "2 of 2 after 0");
        check((2, 0), 2, "dead 1", 0, "gave up 2");
        check((2, 0), 2, "dead 0", 0, "nothing");
        // Whatever the window says.
        check(
            (2, 0),
            u32::MAX,
            "dead 1",
            0,
            &format!("gave up {}", u32::MAX),
        );
    }

    #[test]
    fn a_long_run_resets_the_count() {
        check((2, 1000), 2, "dead 1", 59, "gave up 2");
        check((2, 1000), 2, "dead 1", 60, "1 of 2 after 1000");
        let mut unknown = task("@1 api dead 1");
        unknown.settings.restarts = Some(TaskRestarts {
            policy: RestartPolicy {
                limit: 1,
                backoff: Duration::ZERO,
            },
            used: 1,
            token: "7-1".to_owned(),
        });
        unknown.life = Life::Dead(Exit::with_code(1));
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
        let words = |after_ms: u64| {
            let after = Duration::from_millis(after_ms);
            let restart = Restart {
                number: 2,
                limit: 5,
                after,
            };
            restart.words(after)
        };
        assert_eq!(words(0), "restarts now, 2 of 5");
        assert_eq!(words(250), "restarts in 250 ms, 2 of 5");
        assert_eq!(words(3001), "restarts in 4 s, 2 of 5");
        assert_eq!(words(119_500), "restarts in 120 s, 2 of 5");
        assert_eq!(words(120_001), "restarts in 3 min, 2 of 5");
    }
}

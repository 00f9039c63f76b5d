//! The result of a check: how bad it is, what was found, and what to do about it. Every check ends in
//! time, whatever hangs.

use std::time::Duration;

use tokio::time::timeout;

use crate::model::{text, with_causes};
use crate::process;
use crate::rules::wire::{CheckResult, DoctorCheck};

/// How long a check may take. All checks together take little longer than the slowest.
pub(super) const LIMIT: Duration = Duration::from_secs(3);

/// The maximum length of a message, in characters: it may contain a path.
const MAX_CHARS: usize = 4096;

/// Everything is as it should be. `check` is the name of the check in the output: programs rely on it.
pub(super) fn ok(check: &'static str, message: impl AsRef<str>) -> DoctorCheck {
    DoctorCheck {
        check,
        result: CheckResult::Ok,
        message: one_line(message),
        hint: None,
    }
}

/// Something is missing or late, and the rest works.
pub(super) fn warn(
    check: &'static str,
    message: impl AsRef<str>,
    hint: impl AsRef<str>,
) -> DoctorCheck {
    DoctorCheck {
        result: CheckResult::Warn,
        hint: Some(one_line(hint)),
        ..ok(check, message)
    }
}

/// tmux-task, or a part of it, does not work.
pub(super) fn fail(
    check: &'static str,
    message: impl AsRef<str>,
    hint: impl AsRef<str>,
) -> DoctorCheck {
    DoctorCheck {
        result: CheckResult::Fail,
        ..warn(check, message, hint)
    }
}

/// A failure whose message contains what to do, if anything can be done.
pub(super) fn fail_without_hint(check: &'static str, message: impl AsRef<str>) -> DoctorCheck {
    DoctorCheck {
        result: CheckResult::Fail,
        ..ok(check, message)
    }
}

/// No answer came in time; for files and folders: the disk hangs.
pub(super) fn no_answer(check: &'static str) -> DoctorCheck {
    fail(
        check,
        format!("no answer within {} s", LIMIT.as_secs()),
        "something below it hangs: a disk, tmux or a service; the other checks show which",
    )
}

/// A process does not answer, and its socket is there. `unless_stopped` is what to do if its pid, where
/// the kernel reports it, is not that of a stopped process.
pub(super) fn silent(
    check: &'static str,
    who: &str,
    pid: Option<u32>,
    unless_stopped: impl Fn(u32) -> String,
) -> DoctorCheck {
    let Some(pid) = pid else {
        return fail_without_hint(check, format!("{who} does not answer"));
    };
    let message = format!("{who} (pid {pid}) does not answer");
    if process::is_stopped(pid) {
        let hint = format!("`kill -CONT {pid}` resumes it");
        return fail(check, message + ": it is stopped", hint);
    }
    fail(check, message, unless_stopped(pid))
}

/// Returns the result of a check that touches the disk. A disk that hangs keeps the thread.
pub(super) async fn on_disk(
    name: &'static str,
    check: impl FnOnce() -> DoctorCheck + Send + 'static,
) -> DoctorCheck {
    match timeout(LIMIT, tokio::task::spawn_blocking(check)).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => fail_without_hint(name, with_causes(&panic)),
        Err(_elapsed) => no_answer(name),
    }
}

/// Paths, names, and what programs print are untrusted.
fn one_line(text: impl AsRef<str>) -> String {
    text::one_line(text.as_ref().as_bytes(), MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_written_is_one_clean_line() {
        let result = fail("tmux", "cannot run `tm\u{1b}[31mux\nfail`", "a\tb\u{202e}");
        let is_unclean = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!result.message.contains(is_unclean), "{result:?}");
        assert!(!result.hint.unwrap().contains(is_unclean));
    }
}

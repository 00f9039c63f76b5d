//! The time limits of the link's jobs: a job that takes longer is given up, so that the jobs after
//! it have their turn.
//!
//! A single answer of tmux has a limit of its own, ten seconds. A job that consists of one answer
//! gets no less: giving up an answer costs the connection, and whoever follows output loses some.
//! A command does not rely on these limits: after six seconds it checks itself whether tmux and the
//! daemon answer, and names the one that does not.

use std::time::Duration;

use crate::session::Job;

/// For one line of commands, or a few that are answered in milliseconds each.
const ANSWER: Duration = Duration::from_secs(10);

/// For looks: many short lines. What its first lines have returned is out of date by then, so the
/// next look starts from its beginning.
const LOOK: Duration = Duration::from_secs(10);

/// For a job that needs the lock of the tmux server: up to five seconds until it continues without
/// the lock, and then tmux's answers. Giving up in between would report a launch as failed that is
/// about to succeed.
const LOCKED: Duration = Duration::from_secs(15);

/// For what is done without a job. Some of it needs the lock, and each answer has its own limit, which
/// ends first and closes the connection in good order.
pub(super) const ORDER: Duration = LOCKED;

/// Returns how long a job may take.
pub(super) fn time_limit(job: &Job) -> Duration {
    match job {
        Job::Look(_) | Job::Sweep | Job::ScanOthers => LOOK,
        // One or two captures.
        Job::ReadEnd(..)
        | Job::ReadLog(..)
        | Job::Search(..)
        | Job::Archive(..)
        // One line.
        | Job::ReadRecord(_)
        | Job::Prune(_)
        | Job::FindName(_)
        | Job::ForgetDeaths(_)
        | Job::FindShared(_)
        // An empty line for each client.
        | Job::Drain
        // A look at the prompt, and the keys.
        | Job::Type(..)
        // Files only.
        | Job::ForgetEnvironments(..)
        | Job::FindPorts(_) => ANSWER,
        // A line for each window: it goes on as long as tmux answers.
        Job::MarkEndings(marks) => lines(marks.len()),
        Job::UnmarkEndings(windows) | Job::Kill(windows) => lines(windows.len()),
        // It may have to attach the client that follows output.
        Job::Read { .. }
        | Job::Launch(..)
        | Job::Restart(_)
        | Job::KillSession(_)
        | Job::Cleanup => LOCKED,
    }
}

/// Returns the limit of a job of so many lines, of which each has its own.
fn lines(n: usize) -> Duration {
    ANSWER * u32::try_from(n.max(1)).unwrap_or(u32::MAX)
}

//! What is done when nothing else is: the output of ended runs is archived, and recorded deaths are
//! cleared. Output is archived earlier where something is about to change its window.

use super::input::Job;
use super::job_queue::Turn;
use super::state::{Cx, State};
use super::stories::Link;
use crate::model::Task;

/// Archives the output of runs that have ended.
pub(super) async fn archive_ended(cx: Cx) {
    loop {
        cx.until(|state| !state.jobs.archives.is_empty()).await;
        let link = cx.turn(Turn::Archive).await;
        archive_next(&cx, link, |_, _| true).await;
    }
}

/// Waits for the turn to run a command that changes windows. The output of ended runs for which
/// `is_changed` holds is archived before, also of those that end until then.
pub(super) async fn turn_to_change(
    cx: &Cx,
    is_changed: impl Fn(&State, &Task) -> bool,
) -> Link<'_> {
    loop {
        let link = cx.turn(Turn::Command).await;
        if let Some(link) = archive_next(cx, link, &is_changed).await {
            return link;
        }
    }
}

/// Archives the output of one ended run. Returns the link if there is none.
async fn archive_next<'a>(
    cx: &Cx,
    link: Link<'a>,
    is_it: impl Fn(&State, &Task) -> bool,
) -> Option<Link<'a>> {
    let next = cx.with(|state| {
        let mut archives = state.jobs.archives.iter();
        let at = archives.position(|(task, _)| is_it(state, task))?;
        state.jobs.archives.remove(at)
    });
    let Some((task, reason)) = next else {
        return Some(link);
    };
    // The link logs what it could not keep.
    drop(
        link.run(|outcome| Job::Archive(task, reason, outcome))
            .await,
    );
    None
}

/// Makes tmux clear the deaths that are recorded.
pub(super) async fn forget_deaths(cx: Cx) {
    loop {
        cx.until(|state| {
            let record = state.death_record.as_ref();
            record.is_some_and(|(seq, _)| *seq <= state.store.written)
        })
        .await;
        let link = cx.turn(Turn::Chore).await;
        let record = cx.with(|state| {
            let written = state.store.written;
            state.death_record.take_if(|(seq, _)| *seq <= written)
        });
        if let Some((_, record)) = record {
            // A further look brings what was not cleared.
            drop(link.run(|outcome| Job::ForgetDeaths(record, outcome)).await);
        }
    }
}

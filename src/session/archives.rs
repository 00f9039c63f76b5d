//! What is done when nothing else is: the output of ended runs is archived, and recorded deaths are
//! cleared.

use super::input::Job;
use super::job_queue::Turn;
use super::state::Cx;
use super::stories::Link;
use crate::model::Task;

/// Archives the output of runs that have ended.
pub(super) async fn archive_ended(cx: Cx) {
    loop {
        cx.until(|state| !state.jobs.archives.is_empty()).await;
        let link = cx.turn(Turn::Archive).await;
        archive_next(&cx, &link, |_| true).await;
    }
}

/// Archives the output of those ended runs that are chosen, before something changes their windows.
pub(super) async fn archive_first(cx: &Cx, link: &Link<'_>, is_changed: impl Fn(&Task) -> bool) {
    while archive_next(cx, link, &is_changed).await {}
}

/// Archives the output of one ended run. Returns whether there was one.
async fn archive_next(cx: &Cx, link: &Link<'_>, is_it: impl Fn(&Task) -> bool) -> bool {
    let Some(task) = cx.with(|state| state.jobs.take_archive(is_it)) else {
        return false;
    };
    // The link logs what it could not keep.
    drop(link.run(|outcome| Job::Archive(task, None, outcome)).await);
    true
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

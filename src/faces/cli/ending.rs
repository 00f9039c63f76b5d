//! What a command says and does while it waits for runs to end.

use std::time::Duration;

use tokio::time::sleep;

use super::context::{self, Context};
use super::output;
use crate::model::{Error, ErrorKind};
use crate::ops::{EndWatch, TaskSession};
use crate::wire::EndingRun;

/// After this time, the user is told for whom is waited.
const TELL_AFTER: Duration = Duration::from_millis(1200);

/// The maximum number of lines that say for whom is waited.
const MOST_LINES: usize = 5;

/// Does something that may wait for runs of these tasks to end (of all tasks if none is named). The user
/// is told for whom it waits, and a second interrupt kills what is left. An interrupt while no run is
/// being ended ends the command. Returns also whether one interrupt came, and no second one: what would
/// follow is not wanted any more.
pub(super) async fn watched<T>(
    context: &Context,
    session: &TaskSession,
    names: &[String],
    watch: &EndWatch,
    work: impl Future<Output = T>,
) -> Result<(T, bool), Error> {
    let mut interrupts = context::interrupts()?;
    let mut work = std::pin::pin!(work);
    let mut telling = std::pin::pin!(sleep(TELL_AFTER));
    let mut has_told = false;
    let mut n_interrupts = 0;
    loop {
        // Losing an arm is safe: interrupts are kept until they are received.
        tokio::select! {
            done = &mut work => return Ok((done, n_interrupts == 1)),
            () = &mut telling, if !has_told => {
                let runs = watch.runs(session, names, false).await.unwrap_or_default();
                // On a busy machine no run may be being ended yet.
                has_told = !runs.is_empty();
                telling.set(sleep(TELL_AFTER));
                for run in runs.iter().take(MOST_LINES) {
                    context.say(&waiting_line(run));
                }
                if runs.len() > MOST_LINES {
                    let n = runs.len() - MOST_LINES;
                    context.say(&format!("and for {n} more"));
                }
                if !runs.is_empty() {
                    output::note("hint: two interrupts (Ctrl-C) kill what is left at once");
                }
            }
            _ = interrupts.recv() => {
                n_interrupts += 1;
                let at_once = n_interrupts > 1;
                let runs = watch.runs(session, names, at_once).await.unwrap_or_default();
                if runs.is_empty() {
                    return Err(Error::silent(ErrorKind::Interrupted));
                }
                if !at_once {
                    context.say("still waiting; another interrupt kills what is left");
                }
            }
        }
    }
}

/// Returns for whom is waited: `waiting for @1 (pg): postgres (pid 71)`.
fn waiting_line(run: &EndingRun) -> String {
    let EndingRun {
        window_id,
        window_name,
        processes,
    } = run;
    let name = format!("waiting for {window_id} ({window_name})");
    if processes.is_empty() {
        name
    } else {
        format!("{name}: {}", processes.join(", "))
    }
}

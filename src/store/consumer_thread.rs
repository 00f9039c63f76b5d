//! A thread that saves consumers: acknowledgements are confirmed when they are on the disk, and
//! neither requests nor the feed wait for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::consumers::{Batch, ConsumerTable, Consumers, Save, SaveResult};
use crate::model::{AgeClock, Seq};
use crate::store::feed::{load_consumers, remove_consumer, store_consumer, sync_consumers};
use crate::wire::SavedConsumer;

/// How long to wait before a disk that refused is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a consumer whose file cannot be read is handled.
const STARTS_AGAIN: &str = "the consumer's position is lost: it starts again at the first record";

/// Loads the consumers of a feed from their folder and starts the thread that saves them.
///
/// # Errors
///
/// When the thread cannot be made.
pub(super) fn start(
    folder: PathBuf,
    epoch: &str,
    last_seq: Seq,
    ages: AgeClock,
) -> io::Result<Arc<Consumers>> {
    let consumers = Arc::new(Consumers::new(epoch, last_seq, load(&folder), ages));
    let kept = Arc::clone(&consumers);
    thread::Builder::new()
        .name("consumers".to_owned())
        .spawn(move || run(&kept, &folder))?;
    Ok(consumers)
}

/// Returns the consumers in this folder. What cannot be read is kept under another name: the
/// consumer starts again at the first record, and nothing is skipped.
fn load(folder: &Path) -> Vec<SavedConsumer> {
    // A daemon that was killed may have replaced a file and not synced the folder. What is removed from
    // the feed depends on the positions in it.
    if let Err(error) = sync_consumers(folder) {
        tracing::warn!(%error, "could not sync the folder of consumers");
    }
    let loaded = load_consumers(folder).unwrap_or_else(|error| {
        tracing::error!(%error, folder = %folder.display(), "could not read the consumers");
        Vec::new()
    });
    let mut consumers = Vec::new();
    for consumer in loaded {
        match consumer {
            Ok(consumer) => consumers.push(consumer),
            Err(damaged) => match damaged.set_aside(folder) {
                Ok(aside) => {
                    tracing::error!(%damaged, kept = %aside.display(), "{STARTS_AGAIN}")
                }
                Err(error) => tracing::error!(%damaged, %error, "{STARTS_AGAIN}"),
            },
        }
    }
    consumers
}

/// Saves what changes until the daemon leaves.
fn run(consumers: &Consumers, folder: &Path) {
    loop {
        let mut state = wait(consumers);
        let batch = state.take_batch(&consumers.epoch);
        let closing = state.closing.take();
        drop(state);
        let done = perform(batch, folder);
        let mut state = consumers.state();
        let problem = done.iter().find_map(|(_, outcome)| outcome.clone().err());
        for (save, outcome) in done {
            state.settle(save, &outcome);
        }
        if problem.is_some() != state.problem.is_some() {
            match &problem {
                Some(why) => tracing::error!(why, "consumers cannot be saved"),
                None => tracing::info!("consumers can be saved again"),
            }
        }
        let has_failed = problem.is_some();
        state.problem = problem.map(|why| format!("could not save consumers: {why}"));
        if let Some(closing) = closing {
            // Whoever asked may have given up waiting.
            closing.send(()).unwrap_or_default();
            return;
        }
        if has_failed {
            // An early wake-up only tries early.
            drop(consumers.work.wait_timeout(state, RETRY_AFTER));
        }
    }
}

fn wait(consumers: &Consumers) -> MutexGuard<'_, ConsumerTable> {
    let is_idle = |state: &mut ConsumerTable| !state.has_work() && state.closing.is_none();
    consumers
        .work
        .wait_while(consumers.state(), is_idle)
        .unwrap_or_else(PoisonError::into_inner)
}

/// Removes and saves, with one sync of the folder for all of it; returns the result of each save.
fn perform(batch: Batch, folder: &Path) -> Vec<(Save, SaveResult)> {
    let removals: Vec<_> = batch
        .removals
        .into_iter()
        .map(|(name, waiting)| (remove_consumer(folder, &name), waiting))
        .collect();
    let mut saves: Vec<(Save, SaveResult)> = batch
        .saves
        .into_iter()
        .map(|save| {
            let stored = store_consumer(folder, &save.saved);
            (save, stored.map_err(|error| error.to_string()))
        })
        .collect();
    let synced = sync_consumers(folder).map_err(|error| error.to_string());
    for (removed, waiting) in removals {
        let outcome = removed.map_err(|error| error.to_string());
        waiting
            .send(outcome.and_then(|()| synced.clone()))
            .unwrap_or_default();
    }
    if synced.is_err() {
        for (_, outcome) in &mut saves {
            outcome.clone_from(&synced);
        }
    }
    saves
}

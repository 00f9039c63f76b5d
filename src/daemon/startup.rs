//! Carrying on: what the feed and the saved snapshot tell of the time before.

use crate::diff::apply;
use crate::engine::Memory;
use crate::feed::{FeedError, Journal, load_saved, recover};
use crate::model::Seq;
use crate::place::{Place, hex};

/// What a daemon begins with.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) memory: Memory,
    pub(super) journal: Journal,
    pub(super) epoch: String,
}

/// Reads what the last daemon left; `fresh` forgets the snapshot, so that the next look is a new
/// baseline.
pub(super) fn begin(place: &Place, fresh: bool) -> Result<Beginning, FeedError> {
    let saved = load_saved(&place.saved());
    let since = saved.as_ref().map_or(0, |saved| saved.last_seq);
    let recovered = recover(&place.feed(), since)?;
    let journal = Journal::open(&place.feed(), recovered.end)?;
    let epoch = epoch(
        recovered.epoch,
        saved
            .as_ref()
            .map(|saved| (saved.epoch.clone(), saved.last_seq)),
    );

    // A feed that somebody has cut: the numbers that are gone with its end were told.
    let told = saved.as_ref().filter(|saved| saved.epoch == epoch);
    let last_seq = told.map_or(0, |saved| saved.last_seq);
    if last_seq > recovered.last_seq {
        tracing::error!(
            from = recovered.last_seq + 1,
            to = last_seq,
            "records are gone"
        );
    }

    let mut before = None;
    if let Some(saved) = saved.filter(|_| !fresh) {
        match saved.to_snapshot() {
            Ok(mut snapshot) => {
                // Events that were recorded after it was saved have been told.
                if saved.epoch == epoch {
                    for event in &recovered.since {
                        apply(&mut snapshot, event);
                    }
                }
                before = Some(snapshot);
            }
            Err(error) => tracing::error!(error, "the saved snapshot reads badly"),
        }
    }
    let memory = Memory {
        before,
        waiting: recovered.waiting,
        owed: recovered.owed,
        last_seq: last_seq.max(recovered.last_seq),
    };
    Ok(Beginning {
        memory,
        journal,
        epoch,
    })
}

/// A feed with records has an epoch. One without is still the feed of the daemon before when that
/// one recorded nothing.
fn epoch(of_feed: Option<String>, saved: Option<(String, Seq)>) -> String {
    match (of_feed, saved) {
        (Some(epoch), _) => epoch,
        (None, Some((epoch, 0))) => epoch,
        (None, Some(_) | None) => new_epoch(),
    }
}

fn new_epoch() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = format!("{:?} {}", now, std::process::id());
    hex(seed.as_bytes(), 12)
}

//! The first record that a feed keeps, durable before anything is removed.
//!
//! A crash may interrupt the removal of segments at any point. What lies before the first kept record
//! is gone for readers all the same, so that a record that was reported as gone does not come back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::segments::{all_firsts, segment_path};
use crate::files;
use crate::model::Seq;

/// The name of the file.
const NAME: &str = "retention.json";

/// The version of the file.
const VERSION: u32 = 1;

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Floor {
    v: u32,
    /// The epoch of the feed that `first_seq` refers to.
    epoch: String,
    /// The sequence number of the first record that is kept.
    first_seq: Seq,
}

fn path(feed: &Path) -> PathBuf {
    feed.with_file_name(NAME)
}

/// Returns the first record that the feed keeps: 1 if nothing was removed.
pub(crate) fn first_kept(feed: &Path) -> Seq {
    load(feed).map_or(1, |floor| floor.first_seq)
}

/// Returns the first records of the closed segments that are kept, in order.
///
/// # Errors
///
/// When the folder cannot be read. A missing one has no segments.
pub(super) fn closed_firsts(feed: &Path) -> io::Result<Vec<Seq>> {
    let mut firsts = all_firsts(feed)?;
    if !firsts.is_empty() {
        let kept = first_kept(feed);
        firsts.retain(|first| *first >= kept);
    }
    Ok(firsts)
}

fn load(feed: &Path) -> Option<Floor> {
    let read = files::if_there(files::read(&path(feed)));
    let warn = |error: &io::Error| tracing::warn!(%error, "could not read which records are kept");
    let bytes = read.inspect_err(warn).ok()??;
    match serde_json::from_slice::<Floor>(&bytes) {
        Ok(floor) if floor.v == VERSION => Some(floor),
        Ok(floor) => {
            tracing::warn!(version = floor.v, "{NAME} is of a later version: ignored");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "{NAME} is damaged: ignored");
            None
        }
    }
}

/// Removes the closed segments before the one that begins with the record `first`. After a crash at
/// any point either all of them belong to the feed or none.
///
/// # Errors
///
/// When the disk refuses. If the records are not kept any more, their files are removed by the next
/// call.
pub(crate) fn remove_before(feed: &Path, epoch: &str, first: Seq) -> io::Result<()> {
    let floor = Floor {
        v: VERSION,
        epoch: epoch.to_owned(),
        first_seq: first,
    };
    let bytes = files::json_line(&floor)?;
    let path = path(feed);
    files::replace_synced(&path, &path.with_extension("json.new"), &bytes)?;
    files::sync_folder(feed.parent().unwrap_or(feed))?;
    remove_files(feed, first)
}

/// Finishes a removal that was interrupted. What was removed from another feed, one with another
/// epoch than this, is forgotten.
///
/// # Errors
///
/// When a file cannot be removed.
pub(crate) fn finish_removal(feed: &Path, epoch: &str) -> io::Result<()> {
    match load(feed) {
        Some(floor) if floor.epoch == epoch => remove_files(feed, floor.first_seq),
        Some(_) => fs::remove_file(path(feed)),
        None => Ok(()),
    }
}

/// Removes the oldest first, so that what is left has no gap.
fn remove_files(feed: &Path, first: Seq) -> io::Result<()> {
    for removed in all_firsts(feed)? {
        if removed < first {
            fs::remove_file(segment_path(feed, removed))?;
        }
    }
    Ok(())
}

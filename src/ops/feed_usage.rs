//! What a session's feed uses of the disk, and its consumers, as its files tell.

use std::io;
use std::path::Path;

use super::lookup;
use crate::model::{Error, Seq};
use crate::paths::Paths;
use crate::store::feed::{Ages, Holder, Retention, WholeLines, feed_files, load_consumers};
use crate::wire::{ConsumerList, ConsumerStatus};
use crate::{clock, config};

/// Returns what the feed with these files uses of the disk, and for which consumers. It need not exist.
/// Neither a daemon nor tmux is asked.
pub(super) fn list_files_of(paths: &Paths) -> Result<ConsumerList, Error> {
    let feed = paths.feed();
    let (epoch, last_seq) = end_of_feed(&feed)?;
    let boot_time = clock::boot_time();
    let ages = Ages::load(&feed, &boot_time);
    let now = ages.clock().at(boot_time.millis);
    let files = feed_files(&feed, last_seq, &ages, now)
        .map_err(|error| Error::folder(&paths.state, &error))?;
    let kept = config::load(&lookup)?.feed;
    let retention = Retention::new(kept.keep_size, kept.keep_age, kept.keep_for_consumers);
    let folder = paths.consumers();
    let loaded = load_consumers(&folder).map_err(|error| Error::folder(&folder, &error))?;
    let mut consumers = Vec::new();
    for saved in loaded {
        let saved = saved.map_err(|damaged| Error::folder(&folder, &io::Error::other(damaged)))?;
        let cursor = saved.cursor_in(epoch.as_deref().unwrap_or_default(), last_seq);
        let holder = Holder {
            cursor,
            used_at: saved.used_after,
            is_read: false,
        };
        consumers.push(ConsumerStatus {
            name: saved.name,
            cursor,
            lag: last_seq - cursor,
            held_bytes: retention.held_bytes(&files, &holder, now),
            reader: None,
            created_at: saved.created_at,
            used_at: saved.used_at,
            audience: saved.audience,
        });
    }
    Ok(ConsumerList {
        epoch,
        first_seq: files.first_seq(),
        last_seq,
        feed_bytes: files.bytes(),
        consumers,
    })
}

/// Returns the epoch of a feed that has records, and the number of the last one.
pub(super) fn end_of_feed(path: &Path) -> Result<(Option<String>, Seq), Error> {
    let mut lines = WholeLines::after(path, Seq::MAX)?;
    let mut epoch = lines.epoch().map(ToOwned::to_owned);
    while let Some(line) = lines.next_line()? {
        epoch = line.frame().map(|frame| frame.epoch).or(epoch);
    }
    Ok((epoch, lines.end().last_seq))
}

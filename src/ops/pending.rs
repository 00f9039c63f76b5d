//! Which owners have follow-ups that their consumers have not acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use super::error::OpsError;
use super::session::Session;
use crate::feed::{FeedLine, WholeLines, has_files};
use crate::model::Seq;
use crate::wire::RecordBody;

/// Returns the owners among `cursors` (owner to the last record that its consumer has acknowledged)
/// for which the feed has a later follow-up. Follow-ups for everybody do not count.
pub(crate) fn owners_with_pending_follow_ups(
    session: &Session,
    cursors: &BTreeMap<String, Seq>,
) -> Result<BTreeSet<String>, OpsError> {
    let mut owners = BTreeSet::new();
    let path = session.paths.feed();
    let Some(first) = cursors.values().min().filter(|_| has_files(&path)) else {
        return Ok(owners);
    };
    let mut lines = WholeLines::after(&path, *first)?;
    while let Some(line) = lines.next_line()? {
        if let FeedLine::Record(record) = line
            && let RecordBody::FollowUp {
                owner: Some(owner), ..
            } = record.body
            && cursors
                .get(&owner)
                .is_some_and(|cursor| record.seq > *cursor)
        {
            owners.insert(owner);
        }
    }
    Ok(owners)
}

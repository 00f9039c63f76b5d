//! What the daemon sends to the reader of a consumer besides records.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::{Error, Seq};

/// How many confirmations may wait for a reader. Of more, only the last is kept: a confirmation
/// covers all acknowledgements before it.
const MOST_UNCONFIRMED: usize = 1024;

/// What is sent to one reader of a consumer: confirmations, and why its stream ends.
#[derive(Debug, Default)]
pub(super) struct Replies {
    contents: Mutex<Contents>,
    /// Notified when there is something to send.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Contents {
    confirmed: VecDeque<Seq>,
    end: Option<StreamEnd>,
}

/// Why the daemon ends a consumer's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Another reader took the consumer over.
    Replaced,
    /// The reader sent something that is no acknowledgement of a record.
    Refused(Error),
}

impl Replies {
    /// Adds confirmations of these acknowledgements.
    pub(super) fn confirm(&self, acknowledged: impl IntoIterator<Item = Seq>) {
        let mut contents = self.contents();
        for seq in acknowledged {
            push_bounded(&mut contents.confirmed, seq);
        }
        if !contents.confirmed.is_empty() {
            self.changed.notify_one();
        }
    }

    /// Ends the stream; the first reason given is the one that is sent.
    pub(super) fn end(&self, ending: StreamEnd) {
        self.contents().end.get_or_insert(ending);
        self.changed.notify_one();
    }

    /// Takes what is to be sent.
    pub(super) fn take(&self) -> (VecDeque<Seq>, Option<StreamEnd>) {
        let mut contents = self.contents();
        (
            std::mem::take(&mut contents.confirmed),
            contents.end.clone(),
        )
    }

    /// Resolves when there is something to send.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // Nothing is left half done where it is held.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds an acknowledgement or confirmation to those that wait. If there are too many, it replaces
/// the last one.
pub(super) fn push_bounded(waiting: &mut VecDeque<Seq>, seq: Seq) {
    if waiting.len() >= MOST_UNCONFIRMED
        && let Some(last) = waiting.back_mut()
    {
        *last = seq.max(*last);
        return;
    }
    waiting.push_back(seq);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_does_not_read_its_confirmations_takes_bounded_memory() {
        let replies = Replies::default();
        let n = 3 * MOST_UNCONFIRMED as Seq;
        replies.confirm(1..=n);
        let (confirmed, end) = replies.take();
        assert_eq!(confirmed.len(), MOST_UNCONFIRMED);
        assert_eq!((confirmed.front(), confirmed.back()), (Some(&1), Some(&n)));
        assert_eq!(end, None);
        assert_eq!(replies.take().0.len(), 0);
    }

    #[test]
    fn the_first_reason_to_end_is_kept() {
        let replies = Replies::default();
        replies.end(StreamEnd::Replaced);
        let refusal = Error::usage("no");
        replies.end(StreamEnd::Refused(refusal));
        assert_eq!(replies.take().1, Some(StreamEnd::Replaced));
        assert_eq!(replies.take().1, Some(StreamEnd::Replaced));
    }
}

//! Hands a conversation's follow-ups over, one message at a time.
//!
//! A message is recorded before it is printed. If its receipt never came, the next process prints it
//! again, as it was.

use super::ledger::{Ledger, SentMessage, SettledRecords, Standing};
use super::outbox::{Batch, FollowUp, Next, PendingFollowUps};
use super::transcript::Place;
use crate::model::{Millis, Seq};

/// When recording a message is tried again that the disk has refused, in milliseconds.
const RECORD_AGAIN: Millis = 1000;

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Print this. It is recorded.
    Print(String),
    /// Nothing can be handed over until then, in milliseconds since 1970.
    Wait(Millis),
    /// Nothing waits.
    Nothing,
    /// Another process hands over now.
    Replaced,
}

/// The messages of a conversation.
#[derive(Debug)]
pub(super) struct HandOver {
    outbox: PendingFollowUps,
    /// Has the message that is under way.
    pub(super) ledger: Ledger,
    /// What is to be printed of that message, until this process has done so.
    to_print: Option<String>,
}

impl HandOver {
    /// Goes on with what an earlier process has left, in this task session.
    pub(super) fn new(ledger: Ledger, session_name: &str, max_per_minute: u32) -> Self {
        let under_way = ledger.handed_over().first();
        Self {
            to_print: under_way.map(|message| message.text.clone()),
            outbox: PendingFollowUps::new(session_name, max_per_minute, ledger.budget()),
            ledger,
        }
    }

    /// Whether there is something to print.
    pub(super) fn is_ready(&self) -> bool {
        let is_free = self.ledger.handed_over().is_empty();
        self.to_print.is_some() || is_free && !self.outbox.is_empty()
    }

    /// Receives a follow-up. Returns its feed and number if it need not be handed over any more.
    pub(super) fn receive(&mut self, follow_up: FollowUp) -> Option<(String, Seq)> {
        match self.ledger.standing(&follow_up.epoch, follow_up.seq) {
            Standing::New => self.outbox.push(follow_up),
            Standing::HandedOver => {}
            Standing::Settled => return Some((follow_up.epoch, follow_up.seq)),
        }
        None
    }

    /// Forgets what waits of this feed, which was replaced.
    pub(super) fn forget(&mut self, epoch: &str) {
        self.outbox.forget(epoch);
    }

    /// Notes that the client has this message. Returns what can be acknowledged.
    pub(super) fn confirm(&mut self, id: &str) -> Option<SettledRecords> {
        let settled = self.ledger.settle(id)?;
        self.to_print = None;
        if let Err(error) = self.ledger.save_if_held() {
            tracing::warn!(%error, "a receipt was not recorded");
        }
        Some(settled)
    }

    /// Returns what to do while [`HandOver::is_ready`]. `line` makes what is printed of a message and
    /// whether it is new.
    pub(super) fn next(&mut self, now: Millis, line: impl Fn(&Batch, bool) -> String) -> Step {
        if self.to_print.is_none() {
            match self.outbox.next(now) {
                Next::Hand(batch) => self.add(*batch, now, line),
                Next::Wait(until) => return Step::Wait(until),
                Next::Nothing => return Step::Nothing,
            }
        }
        match self.ledger.save_if_held() {
            Ok(true) => self.to_print.take().map_or(Step::Nothing, Step::Print),
            Ok(false) => Step::Replaced,
            Err(error) => {
                tracing::warn!(%error, "a message cannot be recorded now");
                Step::Wait(now.saturating_add(RECORD_AGAIN))
            }
        }
    }

    fn add(&mut self, batch: Batch, now: Millis, line: impl Fn(&Batch, bool) -> String) {
        self.to_print = Some(line(&batch, batch.is_new));
        let message = SentMessage {
            mark: batch.id(),
            text: line(&batch, false),
            epoch: batch.epoch,
            seqs: batch.seqs,
            host: batch.host,
            client: None,
            at: now,
            attempts: 1,
            place: Place::Nowhere,
        };
        self.ledger.add(message, self.outbox.budget);
    }
}

#[cfg(test)]
mod tests;

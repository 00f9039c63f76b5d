//! Answers that wait until the disk has accepted or refused their records.

use super::input::RequestId;
use crate::engine::WaitReturn;
use crate::model::Seq;
use crate::wire::Response;

/// An answer that waits for records to be written.
#[derive(Debug)]
pub(super) struct HeldAnswer {
    /// The sequence number of the last of them; 0 when it contains none.
    pub(super) rests_on: Seq,
    pub(super) request_id: RequestId,
    pub(super) response: Response,
    /// The event that the client learns from it.
    pub(super) wait_return: Option<WaitReturn>,
}

/// Answers that wait for the disk, in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct HeldAnswers(Vec<HeldAnswer>);

impl HeldAnswers {
    pub(super) fn push(&mut self, answer: HeldAnswer) {
        self.0.push(answer);
    }

    /// Takes the answers whose records the disk has accepted or refused, which it has up to
    /// `tried`.
    pub(super) fn take_tried(&mut self, tried: Seq) -> Vec<HeldAnswer> {
        let answers = std::mem::take(&mut self.0).into_iter();
        let (ready, held) = answers.partition(|answer| answer.rests_on <= tried);
        self.0 = held;
        ready
    }

    /// Drops the answer of a client that has disconnected.
    pub(super) fn forget(&mut self, request_id: RequestId) {
        self.0.retain(|held| held.request_id != request_id);
    }

    /// Returns how many of them are of waits.
    pub(super) fn n_waits(&self) -> usize {
        let is_of_wait = |held: &&HeldAnswer| matches!(held.response, Response::Waited(_));
        self.0.iter().filter(is_of_wait).count()
    }
}

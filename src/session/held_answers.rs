//! Answers that wait until the disk has accepted or refused their records.

use super::effect::Effect;
use super::input::{AskId, StoreState};
use super::machine::Session;
use crate::engine::WaitReturn;
use crate::model::{Now, Seq};
use crate::wire::Response;

/// An answer that waits for records to be written.
#[derive(Debug)]
pub(super) struct HeldAnswer {
    /// The sequence number of the last of them; 0 when it contains none.
    pub(super) rests_on: Seq,
    pub(super) ask: AskId,
    pub(super) response: Response,
    /// The event that the client learns from it.
    pub(super) wait_return: Option<WaitReturn>,
}

impl HeldAnswer {
    pub(super) fn is_of_wait(&self) -> bool {
        matches!(self.response, Response::Waited(_))
    }
}

impl Session {
    /// Sends an answer once the disk has accepted or refused everything recorded by now. A disk
    /// that refuses delays no answer.
    pub(super) fn answer_when_stored(&mut self, ask: AskId, response: Response) {
        self.hold(HeldAnswer {
            rests_on: self.engine.last_seq(),
            ask,
            response,
            wait_return: None,
        });
    }

    /// Keeps an answer until the disk has accepted or refused its records.
    pub(super) fn hold(&mut self, answer: HeldAnswer) {
        self.held.push(answer);
    }

    pub(super) fn release_held(&mut self) {
        for answer in std::mem::take(&mut self.held) {
            if answer.rests_on > self.store.tried {
                self.held.push(answer);
                continue;
            }
            if let Some(wait_return) = &answer.wait_return {
                self.engine.note_return(wait_return);
            }
            let HeldAnswer { ask, response, .. } = answer;
            self.effects.push(Effect::Answer(ask, response));
        }
    }

    /// Notes how far the feed is on the disk. Answers are sent before deliveries: events in an
    /// answer are not delivered as follow-ups.
    pub(super) fn stored(&mut self, store: StoreState, now: Now) {
        self.store = store;
        self.release_held();
        self.engine.tried(store.tried);
        if self.deliver_at().is_some_and(|due| due <= now.mono) {
            let effects = self.engine.deliver_due(now);
            self.perform(effects);
        }
    }
}

//! The follow-ups that wait to be handed over: merged into one message, and limited per minute.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::model::*;

/// The first line of every message.
const HEADER: &str = "[tmux-task notification]";

/// The most text of one message, in bytes, unless a single follow-up has more. The rest waits for the
/// next message.
const MAX_BYTES: usize = 32 * 1024;

const MINUTE: Millis = 60_000;

/// One or several follow-ups of one feed, as one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Batch {
    pub(crate) epoch: String,
    /// The sequence numbers of its follow-ups, in order; never empty.
    pub(crate) seqs: Vec<Seq>,
    /// When the first one was recorded.
    pub(crate) time: Millis,
    /// Whether its last follow-up was recorded after this process began to follow: it was never handed over.
    pub(crate) is_new: bool,
    /// The machine that they come from; `None` for this one.
    pub(crate) host: Option<String>,
    pub(crate) message: Message,
    pub(crate) options: FollowUpOptions,
}

impl Batch {
    /// Adds the events of another one. The level is the highest of both.
    fn absorb(&mut self, other: Self) {
        let (details, others) = (&mut self.message.details, other.message.details);
        if others.level == Level::Warning {
            details.level = Level::Warning;
        }
        details.events.extend(others.events);
        self.is_new = other.is_new;
        self.seqs.extend(other.seqs);
    }

    /// Returns `EPOCH:SEQ` of its last follow-up: made again of the same ones, it has the same id.
    pub(crate) fn id(&self) -> String {
        let last = self.seqs.last().copied().unwrap_or_default();
        format!("{}:{last}", self.epoch)
    }
}

/// How many messages a conversation had within its present minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Budget {
    /// When the minute began, in milliseconds since 1970.
    began: Millis,
    used: u32,
}

impl Budget {
    fn ends(self) -> Millis {
        self.began.saturating_add(MINUTE)
    }
}

/// The follow-ups of one conversation that wait to be handed over.
#[derive(Debug)]
pub(crate) struct PendingFollowUps {
    pub(super) pending: VecDeque<Batch>,
    max_per_minute: u32,
    pub(crate) budget: Budget,
    session_name: String,
}

impl PendingFollowUps {
    pub(crate) fn new(session_name: &str, max_per_minute: u32, budget: Budget) -> Self {
        Self {
            pending: VecDeque::new(),
            max_per_minute,
            budget,
            session_name: session_name.to_owned(),
        }
    }

    pub(crate) fn push(&mut self, follow_up: Batch) {
        self.pending.push_back(follow_up);
    }

    /// Returns when there is something to hand over, if anything is pending: now, or when there is a new budget.
    pub(crate) fn ready_at(&self, now: Millis) -> Option<Millis> {
        let ready = match self.is_exhausted() && self.is_present(now) {
            true => self.budget.ends(),
            false => now,
        };
        (!self.pending.is_empty()).then_some(ready)
    }

    /// Takes what is to be handed over now, and counts it.
    pub(crate) fn next(&mut self, now: Millis) -> Option<Batch> {
        if self.ready_at(now)? > now {
            return None;
        }
        let (was_exhausted, ends) = (self.is_exhausted(), self.budget.ends());
        if !self.is_present(now) {
            self.budget = Budget {
                began: now,
                used: 0,
            };
        }
        self.budget.used += 1;
        let held_back = self.pending.iter().filter(|one| one.time < ends);
        if was_exhausted && held_back.count() > 1 {
            self.summary()
        } else {
            self.merge()
        }
    }

    fn is_exhausted(&self) -> bool {
        self.budget.used >= self.max_per_minute
    }

    /// Whether the budget is that of the present minute. A clock that was set back begins a new one.
    fn is_present(&self, now: Millis) -> bool {
        (self.budget.began..self.budget.ends()).contains(&now)
    }

    /// Takes the follow-ups of the feed that the first one is of.
    fn take_feed(&mut self) -> Option<(Batch, VecDeque<Batch>)> {
        let first = self.pending.pop_front()?;
        let pending = std::mem::take(&mut self.pending).into_iter();
        let of_feed;
        (of_feed, self.pending) = pending.partition(|one| one.epoch == first.epoch);
        Some((first, of_feed))
    }

    /// Takes as many follow-ups as one message holds.
    fn merge(&mut self) -> Option<Batch> {
        let (mut batch, mut of_feed) = self.take_feed()?;
        while let Some(next) = of_feed.pop_front() {
            let content = &mut batch.message.content;
            let text = &next.message.content;
            let text = text
                .strip_prefix(HEADER)
                .unwrap_or(text)
                .trim_start_matches('\n');
            if content.len() + 1 + text.len() > MAX_BYTES {
                of_feed.push_front(next);
                break;
            }
            content.push('\n');
            content.push_str(text);
            batch.absorb(next);
        }
        of_feed.append(&mut self.pending);
        self.pending = of_feed;
        Some(batch)
    }

    /// Takes all follow-ups of a feed and says how many events they have and how to read them.
    fn summary(&mut self) -> Option<Batch> {
        let (mut batch, of_feed) = self.take_feed()?;
        let before = batch.seqs.first()?.saturating_sub(1);
        for next in of_feed {
            batch.absorb(next);
        }
        let details = &batch.message.details;
        let types = details.events.iter().map(Event::event_type);
        let n = types.filter(|of| *of != EventType::Started).count();
        let session = match &batch.host {
            None => format!("-s {}", self.session_name),
            Some(host) => {
                let words = [host, &details.session_name].map(|word| quote_where_needed(word));
                format!("--host {} -s {}", words[0], words[1])
            }
        };
        batch.message.content = format!(
            "{HEADER}\n{n} more events within a minute, see `tmux-task {session} feed --kind followUp \
             --format text --after {}:{before}`",
            batch.epoch
        );
        Some(batch)
    }
}

#[cfg(test)]
pub(super) mod tests;

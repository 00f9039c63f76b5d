//! The follow-ups that wait to be handed over: merged into one message, and limited per minute.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::model::{Level, Millis, Seq};
use crate::wire::{EventType, FollowUpOptions, Message};

/// The first line of every message.
const HEADER: &str = "[tmux-task notification]";

/// The most text of one message, in bytes, unless a single follow-up has more. The rest waits for the
/// next message.
const MAX_BYTES: usize = 32 * 1024;

/// The length of a budget's window, in milliseconds.
const MINUTE: Millis = 60_000;

/// A follow-up of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FollowUp {
    pub(crate) epoch: String,
    pub(crate) seq: Seq,
    /// When it was recorded.
    pub(crate) time: Millis,
    /// Whether it was recorded after this process began to follow: it was never handed over.
    pub(crate) is_new: bool,
    pub(crate) message: Message,
    pub(crate) options: FollowUpOptions,
}

/// What is handed over as one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) epoch: String,
    /// The sequence numbers of its follow-ups, in order; never empty.
    pub(crate) seqs: Vec<Seq>,
    /// Whether its last follow-up, which names it, was never handed over.
    pub(crate) is_new: bool,
    pub(crate) message: Message,
    pub(crate) options: FollowUpOptions,
}

impl Batch {
    /// Returns `EPOCH:SEQ` of its last follow-up. A batch that is made again of the same follow-ups
    /// has the same id.
    pub(crate) fn id(&self) -> String {
        let last = self.seqs.last().copied().unwrap_or_default();
        format!("{}:{last}", self.epoch)
    }
}

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Hand this over. It has left the outbox.
    Hand(Box<Batch>),
    /// The budget is used up until then, in milliseconds since 1970.
    Wait(Millis),
    /// Nothing is pending.
    Nothing,
}

/// How many messages a conversation had within its present minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Budget {
    /// When the minute began, in milliseconds since 1970.
    began: Millis,
    used: u32,
}

/// The follow-ups of one conversation that wait to be handed over.
#[derive(Debug)]
pub(crate) struct PendingFollowUps {
    pending: VecDeque<FollowUp>,
    max_per_minute: u32,
    pub(crate) budget: Budget,
    /// How to read the feed's records after `EPOCH:SEQ`, without that number.
    read_command: String,
}

impl PendingFollowUps {
    /// Returns an empty outbox for conversations of this task session.
    pub(crate) fn new(session_name: &str, max_per_minute: u32, budget: Budget) -> Self {
        Self {
            pending: VecDeque::new(),
            max_per_minute,
            budget,
            read_command: format!(
                "tmux-task -s {session_name} feed --kind followUp --format text --after"
            ),
        }
    }

    /// Adds a follow-up.
    pub(crate) fn push(&mut self, follow_up: FollowUp) {
        self.pending.push_back(follow_up);
    }

    /// Forgets what is pending: it belongs to a feed that was replaced.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Whether nothing is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns what to hand over now, and counts it.
    pub(crate) fn next(&mut self, now: Millis) -> Next {
        if self.pending.is_empty() {
            return Next::Nothing;
        }
        let ends = self.budget.began.saturating_add(MINUTE);
        let was_exhausted = self.budget.used >= self.max_per_minute;
        // A clock that was set back begins a new minute too.
        let is_over = now >= ends || now < self.budget.began;
        if was_exhausted && !is_over {
            return Next::Wait(ends);
        }
        if is_over {
            self.budget = Budget {
                began: now,
                used: 0,
            };
        }
        self.budget.used += 1;
        let was_held_back = |follow_up: &FollowUp| follow_up.time < ends;
        let batch =
            if was_exhausted && self.pending.iter().filter(|one| was_held_back(one)).count() > 1 {
                self.summary()
            } else {
                self.merge()
            };
        batch.map_or(Next::Nothing, |batch| Next::Hand(Box::new(batch)))
    }

    /// Takes as many follow-ups as one message holds.
    fn merge(&mut self) -> Option<Batch> {
        let FollowUp {
            epoch,
            seq,
            mut is_new,
            mut message,
            options,
            ..
        } = self.pending.pop_front()?;
        let mut seqs = vec![seq];
        while let Some(next) = self.pending.front() {
            let text = without_header(&next.message.content);
            if message.content.len() + 1 + text.len() > MAX_BYTES {
                break;
            }
            message.content.push('\n');
            message.content.push_str(text);
            let Some(next) = self.pending.pop_front() else {
                break;
            };
            is_new = next.is_new;
            absorb(&mut message, next.message);
            seqs.push(next.seq);
        }
        Some(Batch {
            epoch,
            seqs,
            is_new,
            message,
            options,
        })
    }

    /// Takes all follow-ups and says how many events they have and how to read them.
    fn summary(&mut self) -> Option<Batch> {
        let FollowUp {
            epoch,
            seq,
            mut is_new,
            mut message,
            options,
            ..
        } = self.pending.pop_front()?;
        let mut seqs = vec![seq];
        for next in std::mem::take(&mut self.pending) {
            is_new = next.is_new;
            absorb(&mut message, next.message);
            seqs.push(next.seq);
        }
        let events = &message.details.events;
        let n = events
            .iter()
            .filter(|event| event.event_type != EventType::Started)
            .count();
        message.content = format!(
            "{HEADER}\n{n} more events within a minute, see `{} {epoch}:{}`",
            self.read_command,
            seq.saturating_sub(1)
        );
        Some(Batch {
            epoch,
            seqs,
            is_new,
            message,
            options,
        })
    }
}

fn without_header(content: &str) -> &str {
    content
        .strip_prefix(HEADER)
        .map_or(content, |rest| rest.trim_start_matches('\n'))
}

/// Adds the events of another message. The level is the highest of both.
fn absorb(message: &mut Message, other: Message) {
    if other.details.level == Level::Warning {
        message.details.level = Level::Warning;
    }
    message.details.events.extend(other.details.events);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn follow_up(seq: Seq, time: Millis, text: &str) -> FollowUp {
        let message = json!({
            "customType": "tmux-task-event",
            "content": format!("{HEADER}\n{text}"),
            "display": true,
            "details": {"source": "extension", "notUserInput": true, "sessionId": "s",
                "sessionName": "s", "level": if seq.is_multiple_of(2) { "warning" } else { "info" },
                "events": [{"type": "exited", "level": "info", "task": {"windowId": "@1",
                    "windowName": text}}]},
        });
        let options = json!({"triggerTurn": true, "deliverAs": "followUp"});
        FollowUp {
            epoch: "e".to_owned(),
            seq,
            time,
            is_new: true,
            message: serde_json::from_value(message).unwrap(),
            options: serde_json::from_value(options).unwrap(),
        }
    }

    /// A time far from 0, at which no budget was used.
    const DAY: Millis = 86_400_000;

    fn outbox(max: u32) -> PendingFollowUps {
        PendingFollowUps::new("work", max, Budget::default())
    }

    #[track_caller]
    fn hand(outbox: &mut PendingFollowUps, now: Millis) -> Batch {
        match outbox.next(now) {
            Next::Hand(batch) => *batch,
            other @ (Next::Wait(_) | Next::Nothing) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_waits_is_one_message() {
        let mut outbox = outbox(30);
        assert_eq!(outbox.next(0), Next::Nothing);
        for (seq, text) in [(3, "a"), (6, "b"), (7, "c")] {
            outbox.push(follow_up(seq, 0, text));
        }
        let batch = hand(&mut outbox, 0);
        assert_eq!(batch.message.content, format!("{HEADER}\na\nb\nc"));
        assert_eq!((batch.id().as_str(), &*batch.seqs), ("e:7", &[3, 6, 7][..]));
        assert_eq!(batch.message.details.events.len(), 3);
        assert_eq!(batch.message.details.level, Level::Warning);
        assert_eq!(outbox.next(0), Next::Nothing);
    }

    #[test]
    fn a_message_is_bounded_and_the_rest_comes_next() {
        let mut outbox = outbox(30);
        for seq in 1..=4 {
            outbox.push(follow_up(seq, 0, &"x".repeat(MAX_BYTES / 2 - 100)));
        }
        assert_eq!(hand(&mut outbox, 0).seqs, [1, 2]);
        assert_eq!(hand(&mut outbox, 0).seqs, [3, 4]);
        // A single one is never cut.
        outbox.push(follow_up(5, 0, &"x".repeat(2 * MAX_BYTES)));
        assert!(hand(&mut outbox, 0).message.content.len() > 2 * MAX_BYTES);
    }

    #[test]
    fn a_crash_loop_costs_a_bounded_number_of_turns() {
        let mut outbox = outbox(3);
        for seq in 1..=3 {
            let now = DAY + 1000 * Millis::try_from(seq).unwrap();
            outbox.push(follow_up(seq, now, "loop"));
            hand(&mut outbox, now);
        }
        for seq in 4..=20 {
            outbox.push(follow_up(seq, DAY + 5000, "loop"));
            assert_eq!(outbox.next(DAY + 5000), Next::Wait(DAY + 61_000));
        }
        let batch = hand(&mut outbox, DAY + 61_000);
        assert_eq!(
            batch.message.content,
            format!(
                "{HEADER}\n17 more events within a minute, see `tmux-task -s work feed --kind \
                 followUp --format text --after e:3`"
            )
        );
        assert_eq!(batch.id(), "e:20");
        // The next minute has begun with the summary.
        for seq in 21..=22 {
            outbox.push(follow_up(seq, DAY + 62_000, "again"));
            assert_eq!(hand(&mut outbox, DAY + 62_000).seqs, [seq]);
        }
        outbox.push(follow_up(23, DAY + 62_000, "again"));
        assert_eq!(outbox.next(DAY + 62_000), Next::Wait(DAY + 121_000));
        // One alone is not worth a summary.
        assert!(
            hand(&mut outbox, DAY + 121_000)
                .message
                .content
                .ends_with("again")
        );
    }

    #[test]
    fn events_after_a_full_minute_are_reported_in_full() {
        let mut outbox = outbox(1);
        outbox.push(follow_up(1, 1000, "a"));
        hand(&mut outbox, 1000);
        for seq in 2..=3 {
            outbox.push(follow_up(seq, 500_000, "b"));
        }
        assert!(hand(&mut outbox, 500_000).message.content.ends_with("b\nb"));
        // A clock that was set back holds nothing up.
        outbox.push(follow_up(4, 10, "c"));
        assert_eq!(hand(&mut outbox, 10).seqs, [4]);
    }
}

//! How far a consumer has acknowledged the records that it was sent. Plain rules.

use std::collections::VecDeque;

use crate::model::Seq;

/// How many unacknowledged records are known one by one. The further ones are one, as a gap is.
const MOST_KNOWN: usize = 1024;

/// A consumer's position in the feed.
///
/// Acknowledgements are cumulative. A record that the consumer's filter left out counts as
/// acknowledged together with the records before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// The last record that counts as acknowledged.
    pub(super) cursor: Seq,
    /// The last record that was sent or left out.
    passed: Seq,
    /// The records and gaps that were sent and not acknowledged, each with its first and last number.
    unacknowledged: VecDeque<(Seq, Seq)>,
    /// The first follow-up that was left out: it is still to be read by another reader.
    pub(super) first_left_out: Option<Seq>,
}

impl Position {
    /// Returns the position of a consumer that has acknowledged everything up to `cursor`.
    pub(super) fn new(cursor: Seq, first_left_out: Option<Seq>) -> Self {
        Self {
            cursor,
            passed: cursor,
            unacknowledged: VecDeque::new(),
            first_left_out,
        }
    }

    /// Forgets what was sent: the next reader gets everything after the cursor.
    pub(super) fn rewind(&mut self) {
        *self = Self::new(self.cursor, self.first_left_out);
    }

    /// Marks the records `from` to `to` as sent: one record, or a gap in the feed.
    pub(super) fn sent(&mut self, from: Seq, to: Seq) {
        self.passed = self.passed.max(to);
        if to > self.cursor {
            let is_full = self.unacknowledged.len() >= MOST_KNOWN;
            match self.unacknowledged.back_mut() {
                Some((_, last)) if is_full => *last = to,
                Some(_) | None => self.unacknowledged.push_back((from, to)),
            }
        }
        self.settle();
    }

    pub(super) fn left_out(&mut self, seq: Seq, is_follow_up: bool) {
        self.passed = self.passed.max(seq);
        if is_follow_up && self.first_left_out.is_none() {
            self.first_left_out = Some(seq);
        }
        self.settle();
    }

    pub(super) fn acknowledge(&mut self, seq: Seq) {
        self.cursor = self.cursor.max(seq);
        self.settle();
    }

    fn settle(&mut self) {
        let known = &mut self.unacknowledged;
        while known
            .pop_front_if(|(_, last)| *last <= self.cursor)
            .is_some()
        {}
        let settled = known.front().map_or(self.passed, |(first, _)| first - 1);
        self.cursor = self.cursor.max(settled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a story: `+3` sent, `+5-7` a gap sent, `.4` left out, `f4` a follow-up left out, `!3`
    /// acknowledged. Returns the cursor after it.
    fn play(start: Seq, story: &str) -> Position {
        let mut position = Position::new(start, None);
        for step in story.split_whitespace() {
            let (what, number) = step.split_at(1);
            let seq = |text: &str| text.parse::<Seq>().unwrap();
            match what {
                "+" => match number.split_once('-') {
                    Some((from, to)) => position.sent(seq(from), seq(to)),
                    None => position.sent(seq(number), seq(number)),
                },
                "." => position.left_out(seq(number), false),
                "f" => position.left_out(seq(number), true),
                "!" => position.acknowledge(seq(number)),
                _ => panic!("{step}"),
            }
        }
        position
    }

    #[test]
    fn the_cursor_is_behind_all_that_was_acknowledged() {
        for (start, story, cursor) in [
            // Acknowledgements are cumulative.
            (0, "+1 +2 +3", 0),
            (0, "+1 +2 +3 !2", 2),
            (0, "+1 +2 +3 !2 !1", 2),
            (0, "+1 +2 +3 !3 +4", 3),
            (5, "+6 !6", 6),
            (5, "!3", 5),
            // What was left out is acknowledged with what came before it.
            (0, ".1 .2", 2),
            (0, ".1 .2 +3 .4", 2),
            (0, "+1 .2 .3 +4", 0),
            (0, "+1 .2 .3 +4 !1", 3),
            (0, "+1 .2 .3 +4 .5 !4", 5),
            (0, "+1 !1 .2 .3", 3),
            // A left-out number may be named as well.
            (0, "+1 .2 .3 +4 !2", 3),
            // A gap is acknowledged like a record.
            (0, "+1 !1 +2-5", 1),
            (0, "+1 !1 +2-5 .6", 1),
            (0, "+1 !1 +2-5 .6 !5", 6),
            (0, "+1 +2-5 +6 !6", 6),
            (0, "+1 !3 +2-5", 3),
            // A harness that comes back may acknowledge before the record comes.
            (3, "!7 +4", 7),
            (3, "!7 +4 +5 +6 +7 +8", 7),
            (3, "!7 .8", 8),
        ] {
            assert_eq!(play(start, story).cursor, cursor, "{story}");
        }
    }

    #[test]
    fn a_consumer_that_never_acknowledges_takes_bounded_memory_and_skips_nothing() {
        let mut position = Position::new(0, None);
        let n = 3 * MOST_KNOWN as Seq;
        for seq in 1..=n {
            position.sent(2 * seq, 2 * seq);
            position.left_out(2 * seq + 1, false);
        }
        assert_eq!(position.unacknowledged.len(), MOST_KNOWN);
        assert_eq!(position.cursor, 1);
        position.acknowledge(20);
        assert_eq!(position.cursor, 21);
        // There is room again; what was not noted meanwhile is still unacknowledged.
        position.sent(2 * n + 2, 2 * n + 2);
        let unknown = 2 * MOST_KNOWN as Seq + 10;
        position.acknowledge(unknown);
        assert_eq!(position.cursor, unknown);
        position.acknowledge(2 * n + 2);
        assert_eq!(position.cursor, 2 * n + 2);
        position.sent(2 * n + 3, 2 * n + 3);
        position.left_out(2 * n + 4, false);
        assert_eq!(position.cursor, 2 * n + 2);
        position.acknowledge(2 * n + 3);
        assert_eq!(position.cursor, 2 * n + 4);
    }

    #[test]
    fn the_first_follow_up_that_was_left_out_is_known() {
        assert_eq!(play(0, "+1 .2 +3 !3").first_left_out, None);
        assert_eq!(play(0, "+1 f2 +3 f4 !3").first_left_out, Some(2));
    }

    #[test]
    fn the_next_reader_gets_what_is_behind_the_cursor() {
        let mut position = play(0, "+1 +2 +3 !1");
        position.rewind();
        assert_eq!(position, Position::new(1, None));
    }
}

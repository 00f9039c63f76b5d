//! The rows of a question, wherever they are on a screen, and since when they are the same.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::model::{Screen, are_same_rows, has_same_words, without_animation};

/// A question and two choices have this many rows.
const LIST: usize = 3;

/// The rows that ask, or all rows where none do, since they are the same. What changes beside them,
/// or moves them, does not count. Below a list, more and more text is what a program at work prints
/// that was answered already.
#[derive(Debug, Clone)]
pub(super) struct StillRows {
    pub(super) rows: Arc<[String]>,
    pub(super) since: Instant,
    /// How many rows with text are below a list.
    n_below: usize,
}

impl StillRows {
    /// All rows of this screen.
    pub(super) fn all(screen: &Screen, since: Instant) -> Self {
        Self {
            rows: Arc::clone(&screen.rows),
            since,
            n_below: 0,
        }
    }

    /// Returns the rows `asking` of this screen; empty stands for all rows. Their figures may have
    /// changed only if it is certain that nothing `was_read`: otherwise they may count questions.
    pub(super) fn follow(
        before: Option<Self>,
        screen: &Screen,
        asking: Range<usize>,
        was_read: Option<bool>,
        now: Instant,
    ) -> Self {
        let is_list = asking.len() >= LIST;
        let below = screen.rows.get(asking.end..).filter(|_| is_list);
        let texts = below
            .iter()
            .copied()
            .flatten()
            .filter(|row| !row.trim().is_empty());
        let n_below = texts.count();
        let is_same = |before: &Self, after: &[String]| {
            are_same_rows(&before.rows, after, is_same_row)
                || was_read == Some(false) && are_same_rows(&before.rows, after, has_same_words)
        };
        let asking = screen.rows.get(asking).filter(|rows| !rows.is_empty());
        match before {
            Some(before)
                if is_same(&before, asking.unwrap_or(&screen.rows))
                    && n_below <= before.n_below =>
            {
                Self { n_below, ..before }
            }
            Some(_) | None => Self {
                rows: asking.map_or_else(|| Arc::clone(&screen.rows), Arc::from),
                since: now,
                n_below,
            },
        }
    }
}

/// Whether two rows are the same, apart from what is animated in them.
fn is_same_row(before: &str, after: &str) -> bool {
    before == after || without_animation(before) == without_animation(after)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn screen(text: &str) -> Screen {
        Screen {
            rows: text.split('|').map(str::to_owned).collect(),
            ..Screen::default()
        }
    }

    #[test]
    fn rows_are_still_while_others_move() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = StillRows::follow(None, &screen("1|Go?"), 1..2, None, start);
        assert_eq!(*first.rows, ["Go?"]);
        let moved = StillRows::follow(Some(first), &screen("1|2|Go?"), 2..3, None, at(1));
        assert_eq!(moved.since, start);
        let other = StillRows::follow(Some(moved), &screen("1|2|Run?"), 2..3, None, at(2));
        assert_eq!(other.since, at(2));
        // Nothing asks: all rows count.
        let none = StillRows::follow(Some(other), &screen("a|b"), 0..0, None, at(3));
        assert_eq!((&*none.rows, none.since), (&screen("a|b").rows[..], at(3)));
        let changed = StillRows::follow(Some(none), &screen("a|c"), 0..0, None, at(4));
        assert_eq!(changed.since, at(4));
        // Figures count questions, unless nothing was read.
        let count = |was_read| {
            let first = StillRows::follow(None, &screen("Go (1 of 3)?"), 0..1, None, start);
            let next = screen("Go (2 of 3)?");
            StillRows::follow(Some(first), &next, 0..1, was_read, at(1)).since
        };
        assert_eq!(count(Some(false)), start);
        assert_eq!((count(Some(true)), count(None)), (at(1), at(1)));
    }

    #[test]
    fn a_list_is_not_still_while_more_and_more_is_printed_below_it() {
        let start = Instant::now();
        let list = "Which?|❯ a|  b";
        let since = |frames: [&str; 2]| {
            let mut still = None;
            for (frame, second) in frames.into_iter().zip(0..) {
                let shown = screen(&format!("{list}|{frame}"));
                let now = start + Duration::from_secs(second);
                still = Some(StillRows::follow(still, &shown, 0..3, Some(false), now));
            }
            still.map(|still| still.since.duration_since(start).as_secs())
        };
        assert_eq!(since(["GET /0|", "GET /0|GET /1"]), Some(1));
        assert_eq!(since(["1 token|", "2 tokens|"]), Some(0));
        assert_eq!(since(["one tip|of two rows", "one tip|"]), Some(0));
    }
}

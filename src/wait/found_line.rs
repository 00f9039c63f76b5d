//! A line in which a text was found is reported whole: its end is awaited, but not for long.

use std::time::{Duration, Instant};

use crate::terminal::Line;

/// How long the rest of a line may take before the line is reported as it is.
const LINE_WITHIN: Duration = Duration::from_millis(100);

/// A line in which something was found.
#[derive(Debug, Clone)]
pub(super) struct FoundLine<T> {
    /// The line, as far as it is there.
    pub(super) text: String,
    /// What was found in it.
    pub(super) found: T,
    /// When it was there first; `None` until the output that it came with is complete.
    pub(super) since: Option<Instant>,
    has_ended: bool,
}

impl<T> FoundLine<T> {
    pub(super) fn new(line: &Line<'_>, found: T) -> Self {
        Self {
            text: line.text().to_owned(),
            found,
            since: None,
            has_ended: line.is_complete(),
        }
    }

    /// Processes what was written next. The terminal reports a line again and again while it grows:
    /// returns whether this is the same one. Anything else ends it as it is.
    pub(super) fn continues(&mut self, line: &Line<'_>) -> bool {
        let is_same = !self.has_ended && line.text().starts_with(&self.text);
        if is_same {
            line.text().clone_into(&mut self.text);
        }
        self.has_ended |= !is_same || line.is_complete();
        is_same
    }

    /// Whether its end is there, or was awaited for long enough.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.has_ended || self.awaited_until().is_some_and(|at| at <= now)
    }

    /// Returns until when its end is awaited; `None` if it has ended.
    pub(super) fn awaited_until(&self) -> Option<Instant> {
        let since = self.since.filter(|_| !self.has_ended)?;
        Some(since + LINE_WITHIN)
    }
}

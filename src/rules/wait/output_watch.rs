//! What a run with `--notify-on` prints: lines that match become one report, at most one in ten
//! seconds.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::cursor::{Anchor, read_since};
use crate::model::{Error, NotifyOn, OutputMatches, text};
use crate::rules::terminal::{Line, PaneOutput, Pattern, Stamp};

/// The shortest time between two reports on a run.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The maximum length of a line in a report, in characters.
const LINE_CHARS: usize = 1000;

/// How far behind the beginning of a line that is reported in full a match may begin, in bytes.
const MATCH_WITHIN: usize = 800;

/// The index of a text, and where it is in a line.
type FoundText = (usize, Range<usize>);

#[derive(Debug, Clone)]
pub(crate) struct OutputWatch {
    /// The texts as the launch has them.
    texts: Vec<String>,
    patterns: Vec<Pattern>,
    /// Output with this stamp or a smaller one is searched already.
    since: Stamp,
    /// The last line, which matches and may go on: the index of the text that it contains, and where;
    /// `None` when it is counted already.
    open: Option<FoundLine<Option<FoundText>>>,
    found: OutputMatches,
    counted: u64,
    /// How many of them a search from the beginning has not come to yet.
    to_skip: u64,
    /// When the first of it was found.
    found_at: Option<Instant>,
    reported_at: Option<Instant>,
    /// Whether a report has said that output was missed: once a run is enough.
    has_said_gap: bool,
}

impl OutputWatch {
    /// Returns the watch for a run.
    pub(crate) fn new(notify_on: &NotifyOn) -> Result<Self, Error> {
        let NotifyOn {
            patterns: texts,
            regex,
            ignore_case,
        } = notify_on;
        let parse = |text: &String| Pattern::parse(text, *regex, *ignore_case);
        let patterns = texts.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self {
            texts: texts.clone(),
            patterns,
            since: 0,
            open: None,
            found: OutputMatches::default(),
            counted: 0,
            to_skip: 0,
            found_at: None,
            reported_at: None,
            has_said_gap: false,
        })
    }

    /// Counts only output with a later stamp than `since` from here on.
    pub(crate) fn count_from(&mut self, since: Stamp) {
        self.since = since;
    }

    pub(crate) fn line(&mut self, line: &Line<'_>) {
        self.read(line, self.since);
    }

    /// Searches what a pane contains behind an anchor. If that is not found, everything that is left is
    /// searched: better twice than never. Where that is all output of a run that `is_over`, and it was read up
    /// to the anchor, what was counted is left out.
    pub(crate) fn read_since(
        &mut self,
        anchor: Option<&Anchor>,
        output: &PaneOutput,
        is_over: bool,
        now: Instant,
    ) {
        if read_since(anchor, output, &mut |line| self.read(line, 0)).is_none() {
            self.read_all(output, is_over && anchor.is_some());
        }
        self.on_output(now);
    }

    /// Searches everything that is left of the output. If that is all of it, and `was_read`, what was counted
    /// is left out.
    fn read_all(&mut self, output: &PaneOutput, was_read: bool) {
        self.open = None;
        let is_all_there = Anchor::START.locate(output).is_some();
        if is_all_there && was_read && !(self.has_said_gap || self.found.has_gap) {
            // Characters have another width there, so its rows are wrapped otherwise.
            self.to_skip = self.counted;
        } else {
            self.found.has_gap = true;
        }
        let start = Some(&Anchor::START);
        if read_since(start, output, &mut |line| self.read(line, 0)).is_none() {
            for row in output.unwrapped(0, 0) {
                self.read(&row.line(true), 0);
            }
        }
    }

    /// A line is reported by the terminal again and again while it grows, and counts once.
    fn read(&mut self, line: &Line<'_>, since: Stamp) {
        let is_same = self.open.as_mut().is_some_and(|open| open.continues(line));
        let open = match self.open.take() {
            same if is_same => same,
            before => {
                self.count(before);
                let mut patterns = self.patterns.iter().enumerate();
                let found =
                    patterns.find_map(|(index, pattern)| Some((index, pattern.find(line, since)?)));
                found.map(|found| FoundLine::new(line, Some(found)))
            }
        };
        if line.is_complete() {
            self.count(open);
        } else {
            self.open = open;
        }
    }

    /// Counts a line that matches, unless it is counted already.
    fn count(&mut self, line: Option<FoundLine<Option<FoundText>>>) {
        let Some(FoundLine {
            text,
            found: Some((index, range)),
            ..
        }) = line
        else {
            return;
        };
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return;
        }
        self.counted += 1;
        self.found.matches += 1;
        if self.found.line.is_none() {
            self.found.line = Some(shown(&text, &range));
            self.found.pattern = self.texts.get(index).cloned();
        }
    }

    /// Processes the end of the output that came together.
    pub(crate) fn on_output(&mut self, now: Instant) {
        self.to_skip = 0;
        if let Some(open) = &mut self.open {
            open.since.get_or_insert(now);
        }
        self.note_time(now);
    }

    pub(crate) fn on_loss(&mut self) {
        self.open = None;
        self.found.has_gap = true;
    }

    /// Forgets what is not reported: it is searched again.
    pub(crate) fn forget(&mut self) {
        self.open = None;
        self.counted -= self.found.matches;
        self.found = OutputMatches::default();
        self.found_at = None;
    }

    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        if self.line_ends_at().is_some_and(|at| at <= now) {
            self.end_line();
        }
        self.note_time(now);
        self.due_at().is_some_and(|at| at <= now)
    }

    /// Returns when [`OutputWatch::is_due`] may become true.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.line_ends_at().into_iter().chain(self.due_at()).min()
    }

    /// Whether everything that was found is reported.
    pub(crate) fn is_settled(&self) -> bool {
        self.found.matches == 0 && self.open.as_ref().is_none_or(|open| open.found.is_none())
    }

    /// Takes what was found, for a report; `None` for nothing. The run is at its end or the report is
    /// due: a line that has not ended counts as it is.
    pub(crate) fn take(&mut self, now: Instant) -> Option<OutputMatches> {
        self.end_line();
        if !self.has_news() {
            return None;
        }
        self.has_said_gap |= self.found.has_gap;
        self.reported_at = Some(now);
        self.found_at = None;
        Some(std::mem::take(&mut self.found))
    }

    fn end_line(&mut self) {
        let counted = self.open.clone();
        if let Some(open) = &mut self.open {
            open.found = None;
        }
        self.count(counted);
    }

    fn line_ends_at(&self) -> Option<Instant> {
        let open = self.open.as_ref().filter(|open| open.found.is_some())?;
        open.awaited_until()
    }

    fn note_time(&mut self, now: Instant) {
        if self.has_news() {
            self.found_at.get_or_insert(now);
        }
    }

    fn due_at(&self) -> Option<Instant> {
        let again = self.reported_at.map(|before| before + REPORT_EVERY);
        self.found_at.map(|at| at.max(again.unwrap_or(at)))
    }

    fn has_news(&self) -> bool {
        self.found.matches > 0 || self.found.has_gap && !self.has_said_gap
    }
}

/// Returns the part of a line with the match, as one line of text.
fn shown(line: &str, found: &Range<usize>) -> String {
    if found.start <= MATCH_WITHIN {
        return text::one_line(line.as_bytes(), LINE_CHARS);
    }
    let from = line.floor_char_boundary(found.start - MATCH_WITHIN / 2);
    let rest = text::one_line(&line.as_bytes()[from..], LINE_CHARS);
    format!("…{rest}")
}

/// How long the rest of a line may take before the line is reported as it is.
const LINE_WITHIN: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub(super) struct FoundLine<T> {
    /// The line, as far as it is there.
    pub(super) text: String,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::terminal::Terminal;

    /// A watch for `ERROR`, and the terminal that it reads.
    struct Reader {
        watch: OutputWatch,
        terminal: Terminal,
        stamp: Stamp,
        now: Instant,
    }

    impl Reader {
        fn new(patterns: &[&str], regex: bool) -> Self {
            let notify_on = NotifyOn {
                patterns: patterns.iter().map(ToString::to_string).collect(),
                regex,
                ignore_case: false,
            };
            Self {
                watch: OutputWatch::new(&notify_on).unwrap(),
                terminal: Terminal::new(80, 5),
                stamp: 0,
                now: Instant::now(),
            }
        }

        fn print(&mut self, text: &str) {
            self.stamp += 1;
            let (watch, now) = (&mut self.watch, self.now);
            self.terminal
                .write(text.as_bytes(), self.stamp, &mut |line| watch.line(line));
            watch.count_from(self.stamp);
            watch.on_output(now);
        }

        fn after(&mut self, ms: u64) {
            self.now += Duration::from_millis(ms);
        }

        /// Returns the report that is due: `2: ERROR a`, or nothing.
        fn report(&mut self) -> String {
            if !self.watch.is_due(self.now) {
                return String::new();
            }
            let found = self.watch.take(self.now).unwrap();
            let gap = if found.has_gap { " gap" } else { "" };
            format!(
                "{}{gap}: {}",
                found.matches,
                found.line.as_deref().unwrap_or("?")
            )
        }
    }

    #[test]
    fn the_first_line_is_reported_at_once_and_later_ones_after_ten_seconds() {
        let mut reader = Reader::new(&["ERROR"], false);
        reader.print("fine\r\n");
        assert_eq!(reader.report(), "");
        reader.print("ERROR a\r\n");
        assert_eq!(reader.report(), "1: ERROR a");
        reader.after(1000);
        reader.print("ERROR b\r\nfine\r\nERROR c\r\n");
        assert_eq!(reader.report(), "");
        let due = reader.watch.next_deadline().unwrap() - reader.now;
        assert_eq!(due, Duration::from_secs(9));
        reader.after(8999);
        assert_eq!(reader.report(), "");
        reader.after(1);
        assert_eq!(reader.report(), "2: ERROR b");
        assert_eq!(reader.watch.next_deadline(), None);
        reader.after(60_000);
        reader.print("ERROR d\r\n");
        assert_eq!(reader.report(), "1: ERROR d");
    }

    #[test]
    fn a_line_that_comes_in_pieces_counts_once() {
        let mut reader = Reader::new(&["ERR.*"], true);
        reader.print("ERR");
        reader.print("OR: connection");
        assert_eq!(reader.report(), "");
        reader.print(" refused\r\n");
        assert_eq!(reader.report(), "1: ERROR: connection refused");
        reader.after(20_000);
        // One that does not end is reported as it is, once.
        reader.print("ERROR? ");
        assert!(!reader.watch.is_settled());
        assert_eq!(reader.report(), "");
        reader.after(100);
        assert_eq!(reader.report(), "1: ERROR?");
        assert!(reader.watch.is_settled());
        reader.print("yes\r\nfine\r\n");
        reader.after(20_000);
        assert_eq!(reader.report(), "");
    }

    #[test]
    fn a_match_in_two_pieces_and_one_that_is_overwritten_are_found() {
        let mut reader = Reader::new(&["ERROR"], false);
        reader.print("an ERR");
        reader.print("OR\r\n");
        assert_eq!(reader.report(), "1: an ERROR");
        reader.after(20_000);
        reader.print("ERROR now\rfine     \r\n");
        assert_eq!(reader.report(), "1: ERROR now");
        reader.after(20_000);
        // What is on the screen and is not written again does not count.
        reader.print("\x1b[1;40Hclock");
        assert_eq!(reader.report(), "");
    }

    #[test]
    fn missing_output_is_reported_once_and_then_beside_a_match() {
        let mut reader = Reader::new(&["ERROR", "panic"], false);
        reader.watch.on_loss();
        assert_eq!(reader.report(), "0 gap: ?");
        reader.after(20_000);
        reader.watch.on_loss();
        assert_eq!(reader.report(), "");
        reader.print("panic\r\n");
        assert_eq!(reader.report(), "1 gap: panic");
        reader.after(20_000);
        reader.print("panic\r\n");
        assert_eq!(reader.report(), "1: panic");
    }

    #[test]
    fn the_end_of_a_run_does_not_wait_for_ten_seconds() {
        let mut reader = Reader::new(&["ERROR"], false);
        reader.print("ERROR a\r\n");
        assert_eq!(reader.report(), "1: ERROR a");
        reader.print("ERROR b\r\nERROR c");
        let found = reader.watch.take(reader.now).unwrap();
        assert_eq!((found.matches, found.line.as_deref()), (2, Some("ERROR b")));
        assert_eq!(reader.watch.take(reader.now), None);
    }

    #[test]
    fn the_part_of_a_long_line_with_the_match_is_shown() {
        let mut reader = Reader::new(&["ERROR"], false);
        reader.print(&format!(
            "{}ERROR{}\r\n",
            "x".repeat(3000),
            "y".repeat(3000)
        ));
        let found = reader.watch.take(reader.now).unwrap();
        let line = found.line.unwrap();
        assert!(line.contains("xERRORy"), "{line}");
        assert!(line.chars().count() <= LINE_CHARS + 1);
    }
}

//! The parameters of a wait, and the result of the read with which it begins.

use std::ops::Range;
use std::time::Duration;

use crate::model::{self, Error, with_causes};
use crate::terminal::{Line, PaneOutput, Pattern, Stamp, columns_of, split_at_column};
use crate::wait::{Anchor, AnchorPosition, Condition, Spec, Wait, locate};
use crate::wire::WaitRequest;

/// The maximum number of texts of one wait. Each is compiled, takes up to 100 KB once used, and is
/// tried on every line.
const MOST_PATTERNS: usize = 64;

/// The maximum length of such a text, in bytes: longer than any reported line.
const LONGEST_PATTERN: usize = 8192;

/// The maximum number of texts of all waits of the session, and their maximum length in total. A text
/// takes up to sixty times its length.
const MOST_IN_ALL: PatternLoad = PatternLoad {
    number: 2048,
    bytes: 512 << 10,
};

/// The texts that waits search for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PatternLoad {
    number: usize,
    /// Their length in total.
    bytes: usize,
}

impl PatternLoad {
    /// Returns the texts of these waits.
    pub(super) fn of<'a>(specs: impl IntoIterator<Item = &'a Spec>) -> Self {
        let patterns = specs
            .into_iter()
            .flat_map(|spec| spec.texts().chain(&spec.stops));
        patterns.fold(Self::default(), |load, pattern| Self {
            number: load.number + 1,
            bytes: load.bytes + pattern.bytes(),
        })
    }

    /// Whether this is as many as are searched for at most.
    fn is_too_much(self) -> bool {
        self.number > MOST_IN_ALL.number || self.bytes > MOST_IN_ALL.bytes
    }
}

/// A wait that is about to begin with a read of its pane.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) wait: Wait,
    /// The anchor in the run's output to begin at; without it, the read.
    pub(super) anchor: Option<Anchor>,
    /// The result of the read.
    pub(super) reading: EntryRead,
}

/// The result of a pane's read for a wait that begins with it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EntryRead {
    /// Whether one of the texts is there already.
    pub(super) is_text_there: bool,
    /// The output behind the anchor; `None` without an anchor.
    pub(super) since: Option<OutputSinceAnchor>,
}

/// The output behind an anchor in a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputSinceAnchor {
    /// The anchor was not found. A wait for the whole run has processed what is left of its output.
    Lost,
    /// None.
    Nothing,
    /// Output, which the wait has processed.
    Output,
}

/// Judges the read for all waits that begin with it: whether a text is there already, and what was
/// written behind the anchor. It can take milliseconds for a long history; the lines are joined once
/// for all waits.
pub(crate) fn judge_entries(entries: &mut [Entry], output: &PaneOutput) {
    let mut lines = None;
    for Entry {
        wait,
        anchor,
        reading,
    } in entries
    {
        let mut is_there = |text: &Pattern| {
            let rows = || unwrapped(&output.rows, output.width, 0);
            let lines: &Vec<Row> = lines.get_or_insert_with(rows);
            let mut lines = lines.iter();
            lines.any(|row| text.find(&row.line(true), 0).is_some())
        };
        let is_text_there = wait.spec.texts().any(&mut is_there);
        let since = anchor.as_ref();
        *reading = EntryRead {
            is_text_there,
            since: since.map(|anchor| give_wait_since(wait, Some(anchor), output)),
        };
    }
}

/// Returns how many texts a wait searches for.
fn n_patterns(request: &WaitRequest) -> usize {
    let is_text = |condition: &&model::Condition| matches!(condition, model::Condition::Text(_));
    request.conditions.iter().filter(is_text).count() + request.stops.len()
}

/// Parses a wait request. Refuses invalid ones and those with too many texts, including those of
/// other waits.
pub(super) fn spec(request: &WaitRequest, under_way: PatternLoad) -> Result<Spec, Error> {
    let n_patterns = n_patterns(request);
    if n_patterns > MOST_PATTERNS {
        return Err(usage(format!(
            "a wait takes at most {MOST_PATTERNS} texts, found {n_patterns}; one regular expression \
             can hold several: --regex 'a|b'"
        )));
    }
    let pattern = |text: &String| {
        if text.len() > LONGEST_PATTERN {
            return Err(usage(format!(
                "a text to wait for has at most {LONGEST_PATTERN} bytes, found {}",
                text.len()
            )));
        }
        Pattern::parse(text, request.regex, request.ignore_case)
            .map_err(|error| usage(with_causes(&error)))
    };
    let condition = |condition: &model::Condition| {
        Ok(match condition {
            model::Condition::Text(text) => Condition::Text(pattern(text)?),
            model::Condition::Exit => Condition::Exit,
            model::Condition::Change => Condition::Change,
            model::Condition::Bell => Condition::Bell,
            model::Condition::Input => Condition::Input,
            model::Condition::Idle { limit } => Condition::Idle { limit: *limit },
            model::Condition::Listen { port } => Condition::Listen { port: *port },
        })
    };
    let mut conditions = request
        .conditions
        .iter()
        .map(condition)
        .collect::<Result<Vec<_>, Error>>()?;
    if conditions.is_empty() {
        conditions.push(Condition::Exit);
    }
    let spec = Spec {
        conditions,
        stops: request
            .stops
            .iter()
            .map(pattern)
            .collect::<Result<_, _>>()?,
        timeout: request.timeout_ms.map(Duration::from_millis),
        through_prompts: request.through_prompts,
        is_final: request.is_final,
    };
    let own = PatternLoad::of([&spec]);
    let in_all = PatternLoad {
        number: under_way.number + own.number,
        bytes: under_way.bytes + own.bytes,
    };
    if own.number > 0 && in_all.is_too_much() {
        return Err(Error::failed(format!(
            "the waits under way look for {} texts of {} bytes, and {} texts of {} bytes are the \
                 most",
            under_way.number, under_way.bytes, MOST_IN_ALL.number, MOST_IN_ALL.bytes
        )));
    }
    Ok(spec)
}

/// Passes the output behind the anchor to a wait; `None` for an anchor that is not known.
pub(super) fn give_wait_since(
    wait: &mut Wait,
    anchor: Option<&Anchor>,
    output: &PaneOutput,
) -> OutputSinceAnchor {
    let is_of_whole_run = wait.is_of_whole_run;
    give_since(anchor, output, is_of_whole_run, &mut |line| {
        wait.line_since(line);
    })
}

/// Passes the output behind the anchor to `give`. If the anchor is not found, it is all that there is
/// where that counts too.
pub(super) fn give_since(
    anchor: Option<&Anchor>,
    output: &PaneOutput,
    counts_without_anchor: bool,
    give: &mut dyn FnMut(&Line<'_>),
) -> OutputSinceAnchor {
    let located = anchor.map(|anchor| {
        let position = locate(anchor, &output.rows, output.history, output.limit);
        (position, anchor.column)
    });
    let Some((AnchorPosition::At(row), column)) = located else {
        if counts_without_anchor {
            for row in unwrapped(&output.rows, output.width, 0) {
                give(&row.line(true));
            }
        }
        return OutputSinceAnchor::Lost;
    };
    let mut since = OutputSinceAnchor::Nothing;
    let rows = output.rows.get(row..).unwrap_or_default();
    // The cursor's line may go on.
    let cursor_row = output.cursor_row().checked_sub(output.first_row() + row);
    let cursor_row = cursor_row.filter(|_| !output.is_dead);
    for row in unwrapped(rows, output.width, column) {
        if row.is_fresh() {
            since = OutputSinceAnchor::Output;
        }
        give(&row.line(!cursor_row.is_some_and(|at| row.rows.contains(&at))));
    }
    since
}

/// A line of a capture.
#[derive(Default)]
struct Row {
    text: String,
    /// The ends of old and new parts, in bytes, and their stamps.
    runs: Vec<(usize, Stamp)>,
    /// The rows that were joined.
    rows: Range<usize>,
}

impl Row {
    fn line(&self, is_complete: bool) -> Line<'_> {
        Line::new(&self.text, &self.runs, is_complete)
    }

    fn is_fresh(&self) -> bool {
        self.line(true).is_fresh(0..self.text.len(), 0)
    }

    fn push(&mut self, text: &str, stamp: Stamp) {
        self.text.push_str(text);
        self.runs.push((self.text.len(), stamp));
    }
}

/// Joins wrapped rows: a row that fills its width continues in the next one. The first `old`
/// columns of the first row are old, everything else is new.
fn unwrapped(rows: &[String], width: usize, old: usize) -> Vec<Row> {
    let mut lines: Vec<Row> = Vec::new();
    let mut goes_on = false;
    let mut old = old;
    for (index, row) in rows.iter().enumerate() {
        if !goes_on {
            lines.push(Row {
                rows: index..index,
                ..Row::default()
            });
        }
        let line = lines.last_mut().expect("one was pushed");
        let (before, behind) = split_at_column(row, old);
        line.push(before, 0);
        line.push(behind, 1);
        line.rows.end = index + 1;
        goes_on = columns_of(row) >= width;
        old = 0;
    }
    lines
}

pub(super) fn usage(message: String) -> Error {
    Error::usage(message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::WaitOutcome;
    use crate::model::test_notation::snapshot;

    /// A wait for these texts, or one of these stop texts.
    fn wait(texts: &[&str], stops: &[&str]) -> Wait {
        let now = crate::model::Now {
            mono: std::time::Instant::now(),
            wall: 0,
        };
        let snapshot = snapshot("life 1; @1#1 a running pid=7");
        let task = snapshot.tasks.values().next().unwrap();
        let text = |text: &&str| model::Condition::Text((*text).to_owned());
        let request = WaitRequest {
            conditions: texts.iter().map(text).collect(),
            stops: stops.iter().map(|stop| (*stop).to_owned()).collect(),
            ..WaitRequest::default()
        };
        let spec = spec(&request, PatternLoad::default());
        Wait::begin(spec.unwrap(), Arc::clone(task), 0, now)
    }

    #[test]
    fn the_texts_of_all_waits_are_bounded() {
        let longest = "x".repeat(LONGEST_PATTERN);
        let many = vec!["text"; MOST_PATTERNS];
        let large = vec![longest.as_str(); MOST_PATTERNS];
        for (texts, expected) in [(many, 2048 / MOST_PATTERNS), (large, 1)] {
            let request = WaitRequest {
                stops: texts.iter().map(|text| (*text).to_owned()).collect(),
                ..WaitRequest::default()
            };
            let mut waits: Vec<Spec> = Vec::new();
            while let Ok(spec) = spec(&request, PatternLoad::of(&waits)) {
                waits.push(spec);
            }
            assert_eq!(waits.len(), expected);
            // A wait without a text is not refused.
            assert!(spec(&WaitRequest::default(), PatternLoad::of(&waits)).is_ok());
        }
    }

    #[test]
    fn of_a_whole_run_all_that_is_left_counts() {
        let rows: Vec<String> = (3000..4900).map(|n| format!("line {n}")).collect();
        let output = PaneOutput {
            lines: Vec::new(),
            history: 1880,
            rows,
            limit: 2000,
            width: 80,
            height: 20,
            cursor: (0, 19),
            is_alternate: false,
            is_dead: true,
            pid: Some(7),
        };
        let check = |wait: Wait, expected: WaitOutcome| {
            for anchor in [Some(&Anchor::START), None] {
                let mut wait = wait.clone();
                assert_eq!(
                    give_wait_since(&mut wait, anchor, &output),
                    OutputSinceAnchor::Lost
                );
                assert_eq!(wait.on_loss().outcome, expected);
            }
        };
        let of_whole_run = |texts, stops| wait(texts, stops).with_whole_run(true);
        check(of_whole_run(&["line 4899"], &[]), WaitOutcome::Matched);
        check(
            of_whole_run(&["line 1"], &["line 4000"]),
            WaitOutcome::Stopped,
        );
        check(of_whole_run(&["line 1 "], &[]), WaitOutcome::AnchorLost);
        // The stop text may have come before.
        check(
            of_whole_run(&["line 4899"], &["stop"]),
            WaitOutcome::AnchorLost,
        );
        // What is left may be old.
        check(wait(&["line 4899"], &[]), WaitOutcome::AnchorLost);
    }

    #[test]
    fn each_wait_learns_whether_its_own_text_is_there() {
        let entry = |texts: &[&str]| Entry {
            wait: wait(texts, &[]),
            anchor: None,
            reading: EntryRead::default(),
        };
        let texts: [&[&str]; 5] = [&["first"], &["second"], &[], &["x", "irst se"], &["third"]];
        let mut entries = texts.map(entry);
        let rows = ["first", " second"].map(str::to_owned).to_vec();
        let output = PaneOutput {
            lines: Vec::new(),
            history: 0,
            rows,
            limit: 2000,
            width: 5,
            height: 2,
            cursor: (0, 1),
            is_alternate: false,
            is_dead: false,
            pid: Some(7),
        };
        judge_entries(&mut entries, &output);
        let is_there = entries.map(|entry| entry.reading.is_text_there);
        assert_eq!(is_there, [true, true, false, true, false]);
    }
}

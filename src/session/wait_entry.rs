//! The parameters of a wait, and what the read of a pane says of a wait or a search that begins with it.

use std::ops::Range;
use std::time::Duration;

use crate::model::{self, Error, WindowId};
use crate::terminal::{Line, PaneOutput, Pattern, Stamp, columns_of, split_at_column};
use crate::wait::{Anchor, AnchorPosition, Condition, OutputWatch, Spec, Wait, locate};
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

/// A run whose search begins.
#[derive(Debug)]
pub(crate) struct WatchEntry {
    pub(super) window: WindowId,
    pub(super) run: Option<u32>,
    /// The process of the run.
    pub(super) pid: Option<u32>,
    pub(super) watch: OutputWatch,
    pub(super) anchor: Anchor,
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

/// Parses a wait request. Refuses invalid ones and those with too many texts, including those of
/// other waits.
pub(super) fn spec(request: &WaitRequest, under_way: PatternLoad) -> Result<Spec, Error> {
    let is_text = |condition: &&model::Condition| matches!(condition, model::Condition::Text(_));
    let n_patterns = request.conditions.iter().filter(is_text).count() + request.stops.len();
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
fn give_since(
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

/// Searches the output behind an anchor. If that is not found, everything that is left is searched:
/// better twice than never. Where that is all output of a run that `is_over`, and the watch has read it up
/// to the anchor, what was counted is left out.
pub(super) fn search_since(
    watch: &mut OutputWatch,
    anchor: Option<&Anchor>,
    output: &PaneOutput,
    is_over: bool,
) {
    let search = |watch: &mut OutputWatch, anchor, all| {
        give_since(anchor, output, all, &mut |line| watch.line_since(line))
    };
    if search(watch, anchor, false) != OutputSinceAnchor::Lost {
        return;
    }
    let start = locate(&Anchor::START, &output.rows, output.history, output.limit);
    match anchor
        .filter(|_| is_over && !watch.has_gap())
        .and(Some(start))
    {
        // Characters have another width there, so its rows are wrapped otherwise.
        Some(AnchorPosition::At(_)) => watch.begin_again(),
        Some(AnchorPosition::Lost) | None => watch.on_loss(),
    }
    search(watch, Some(&Anchor::START), true);
}

/// A line of a capture.
#[derive(Default)]
pub(super) struct Row {
    text: String,
    /// The ends of old and new parts, in bytes, and their stamps.
    runs: Vec<(usize, Stamp)>,
    /// The rows that were joined.
    rows: Range<usize>,
}

impl Row {
    pub(super) fn line(&self, is_complete: bool) -> Line<'_> {
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
pub(super) fn unwrapped(rows: &[String], width: usize, old: usize) -> Vec<Row> {
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
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::WaitOutcome;
    use crate::model::test_notation::snapshot;

    /// A wait for these texts, or one of these stop texts.
    pub(in super::super) fn wait(texts: &[&str], stops: &[&str]) -> Wait {
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
}

//! The parameters of a wait, and the result of the read with which it begins.

use std::time::Duration;

use crate::terminal::{Line, PaneOutput, Pattern, Stamp, columns_of, split_at_column};
use crate::wait::{Anchor, AnchorPosition, Condition, Spec, Wait, locate};
use crate::wire::{ConditionFields, Refusal, RefusalKind, WaitRequest};

/// The maximum number of texts of one wait. Each is compiled, takes up to 100 KB once used, and is
/// tried on every line.
const MOST_PATTERNS: usize = 64;

/// The maximum length of such a text, in bytes: longer than any reported line.
const LONGEST_PATTERN: usize = 8192;

/// The maximum number of texts of all waits of the session.
const MOST_PATTERNS_IN_ALL: usize = 2048;

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
    pub(super) since: Option<Since>,
}

/// The output behind an anchor in a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// The anchor was not found.
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
            lines.iter().any(|row| text.find(&row.line(), 0).is_some())
        };
        let is_text_there = wait.spec().texts().any(&mut is_there);
        let since = anchor.as_ref();
        *reading = EntryRead {
            is_text_there,
            since: since.map(|anchor| give_since(wait, anchor, output)),
        };
    }
}

/// Returns how many texts a wait searches for.
fn n_patterns(request: &WaitRequest) -> usize {
    let is_text = |condition: &&ConditionFields| matches!(condition, ConditionFields::Text(_));
    request.conditions.iter().filter(is_text).count() + request.stops.len()
}

/// Parses a wait request. Refuses invalid ones and those with too many texts, including those of
/// other waits.
pub(super) fn spec(request: &WaitRequest, n_under_way: usize) -> Result<Spec, Refusal> {
    let n_patterns = n_patterns(request);
    if n_patterns > MOST_PATTERNS {
        return Err(usage(format!(
            "a wait takes at most {MOST_PATTERNS} texts, found {n_patterns}; one regular expression \
             can hold several: --regex 'a|b'"
        )));
    }
    if n_patterns > 0 && n_under_way + n_patterns > MOST_PATTERNS_IN_ALL {
        return Err(Refusal::new(
            RefusalKind::Failed,
            format!(
                "the waits under way look for {n_under_way} texts, and {MOST_PATTERNS_IN_ALL} are \
                 the most"
            ),
        ));
    }
    let pattern = |text: &String| {
        if text.len() > LONGEST_PATTERN {
            return Err(usage(format!(
                "a text to wait for has at most {LONGEST_PATTERN} bytes, found {}",
                text.len()
            )));
        }
        if text.is_empty() {
            return Err(usage("an empty text matches everything".to_owned()));
        }
        Pattern::parse(text, request.regex, request.ignore_case)
            .map_err(|error| usage(error.to_string()))
    };
    let condition = |fields: &ConditionFields| {
        Ok(match fields {
            ConditionFields::Exit => Condition::Exit,
            ConditionFields::Text(text) => Condition::Text(pattern(text)?),
            ConditionFields::Change => Condition::Change,
            ConditionFields::Bell => Condition::Bell,
            ConditionFields::Input => Condition::Input,
            ConditionFields::Idle { ms } => Condition::Idle(Duration::from_millis(*ms)),
        })
    };
    let mut conditions = request
        .conditions
        .iter()
        .map(condition)
        .collect::<Result<Vec<_>, Refusal>>()?;
    if conditions.is_empty() {
        conditions.push(Condition::Exit);
    }
    Ok(Spec {
        conditions,
        stops: request
            .stops
            .iter()
            .map(pattern)
            .collect::<Result<_, _>>()?,
        timeout: request.timeout_ms.map(Duration::from_millis),
        through_prompts: request.through_prompts,
    })
}

/// Passes the output behind the anchor to a wait.
pub(super) fn give_since(wait: &mut Wait, anchor: &Anchor, output: &PaneOutput) -> Since {
    match locate(anchor, &output.rows, output.history, output.limit) {
        AnchorPosition::Lost => Since::Lost,
        AnchorPosition::At(row) => {
            let mut since = Since::Nothing;
            let rows = output.rows.get(row..).unwrap_or_default();
            for row in unwrapped(rows, output.width, anchor.column) {
                if row.is_fresh() {
                    since = Since::Output;
                }
                wait.line_since(&row.line());
            }
            since
        }
    }
}

/// A line of a capture.
#[derive(Default)]
struct Row {
    text: String,
    /// The ends of old and new parts, in bytes, and their stamps.
    runs: Vec<(usize, Stamp)>,
}

impl Row {
    fn line(&self) -> Line<'_> {
        Line::new(&self.text, &self.runs, true)
    }

    fn is_fresh(&self) -> bool {
        self.line().is_fresh(0..self.text.len(), 0)
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
    for row in rows {
        if !goes_on {
            lines.push(Row::default());
        }
        let line = lines.last_mut().expect("one was pushed");
        let (before, behind) = split_at_column(row, old);
        line.push(before, 0);
        line.push(behind, 1);
        goes_on = columns_of(row) >= width;
        old = 0;
    }
    lines
}

pub(super) fn usage(message: String) -> Refusal {
    Refusal::new(RefusalKind::Usage, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::test_notation::snapshot;

    #[test]
    fn each_wait_learns_whether_its_own_text_is_there() {
        let now = crate::model::Now {
            mono: std::time::Instant::now(),
            wall: 0,
        };
        let snapshot = snapshot("life 1; @1#1 a running pid=7");
        let task = snapshot.tasks.values().next().unwrap();
        let entry = |texts: &[&str]| {
            let text = |text: &&str| ConditionFields::Text((*text).to_owned());
            let request = WaitRequest {
                conditions: texts.iter().map(text).collect(),
                ..WaitRequest::default()
            };
            Entry {
                wait: Wait::begin(spec(&request, 0).unwrap(), Arc::clone(task), 0, now),
                anchor: None,
                reading: EntryRead::default(),
            }
        };
        let texts: [&[&str]; 5] = [&["first"], &["second"], &[], &["x", "irst se"], &["third"]];
        let mut entries = texts.map(entry);
        let rows = ["first", " second"].map(str::to_owned).to_vec();
        let output = PaneOutput {
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

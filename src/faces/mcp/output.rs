//! `read_output` and `search_output`.

use super::answer::{ToolAnswer, WITHOUT_CURSOR, line, short};
use super::arguments::{ReadOutput, SearchOutput};
use super::call::within_time;
use crate::ops::{self, TaskSession};
use crate::wire::{LogRequest, SearchRequest, SearchResult, TaskLog};

/// How many lines are read if the caller does not say, and at most.
const LINES: usize = 40;
const MOST_LINES: usize = 1000;

/// How many matches are shown if the caller does not say, and at most.
const MATCHES: usize = 50;
const MOST_MATCHES: usize = 500;

/// The maximum size of an answer's lines, in bytes.
const MOST_BYTES: usize = 32 << 10;

/// The maximum length of a name, in characters.
const NAME_CHARS: usize = 100;

pub(super) async fn read(
    session: &mut TaskSession,
    arguments: ReadOutput,
) -> Result<ToolAnswer, ToolAnswer> {
    let ReadOutput {
        task: name,
        lines,
        cursor,
        run,
    } = arguments;
    if cursor.is_some() && run.is_some() {
        let why = "`cursor` and `run` exclude each other: a cursor is of the present run";
        return Err(ToolAnswer::refused(why, None));
    }
    let is_new_only = cursor.is_some();
    let most = lines.unwrap_or(LINES).min(MOST_LINES);
    let request = LogRequest {
        task: name,
        since: cursor,
        // One more shows that there are earlier ones.
        lines: Some(most + 1),
        ..LogRequest::default()
    };
    let read = async {
        Ok(match run {
            Some(run) => ops::earlier_log(session, request, run).await?,
            None => ops::last_log(session, request).await?,
        })
    };
    let log = within_time(read).await.map_err(|error| match is_new_only {
        true => error.or_hint(WITHOUT_CURSOR),
        false => error,
    })?;
    // From a cursor on, and of an earlier run, it has all lines.
    let has_all = is_new_only || run.is_some() || log.gone || log.lines.len() <= most;
    let shown = excerpt(&log, most, has_all, is_new_only);
    Ok(ToolAnswer::new(log.gone_words().into_iter().chain(shown)))
}

/// Returns the last lines of a log, below a line that says which they are. How many there are is
/// only known if the log has all of them.
fn excerpt(log: &TaskLog, most: usize, has_all: bool, is_new_only: bool) -> Vec<String> {
    let n_all = log.lines.len();
    let last = &log.lines[n_all.saturating_sub(most)..];
    let shown = last_that_fit(last.iter().map(|text| line(text)));
    let name = short(&log.window_name, NAME_CHARS);
    let run = log
        .run
        .map_or_else(String::new, |run| format!(", run {run}"));
    let new = if is_new_only { "new " } else { "" };
    let mut lines = vec![match (shown.len(), n_all) {
        (_, 0) => format!("{name}{run}: no {new}output"),
        (n, _) if !has_all => format!("{name}{run}, the last {n} lines (there are more):"),
        (n, all) if n == all => format!("{name}{run}, all {all} {new}lines:"),
        (n, all) => format!("{name}{run}, the last {n} of {all} {new}lines:"),
    }];
    lines.extend(shown);
    lines.extend(log.missing());
    lines.extend(
        log.cursor
            .as_ref()
            .map(|cursor| format!("cursor: {cursor}")),
    );
    lines
}

/// Returns the last of these lines that fit into an answer.
fn last_that_fit(lines: impl DoubleEndedIterator<Item = String>) -> Vec<String> {
    let mut left = MOST_BYTES;
    let fits = |line: &String| {
        let fits = line.len() < left;
        left = left.saturating_sub(line.len() + 1);
        fits
    };
    let mut fitting: Vec<String> = lines.rev().take_while(fits).collect();
    fitting.reverse();
    fitting
}

pub(super) async fn search(
    session: &mut TaskSession,
    arguments: SearchOutput,
) -> Result<ToolAnswer, ToolAnswer> {
    let SearchOutput {
        pattern,
        task,
        regex,
        ignore_case,
        limit,
    } = arguments;
    let request = SearchRequest {
        task,
        pattern,
        regex,
        ignore_case,
    };
    let (found, gone) = within_time(async { Ok(ops::search(session, request).await?) }).await?;
    let shown = matches(&found, limit.unwrap_or(MATCHES).min(MOST_MATCHES));
    Ok(ToolAnswer::new(gone.into_iter().chain(shown)))
}

/// Returns the last matches, because the end of an output says most.
fn matches(found: &SearchResult, most: usize) -> Vec<String> {
    let missing = found.incomplete.iter().cloned();
    let found = &found.matches;
    if found.is_empty() {
        return missing.chain(["no line matches".to_owned()]).collect();
    }
    let last = &found[found.len().saturating_sub(most)..];
    let shown = last_that_fit(last.iter().map(|found| {
        let (window, number) = (&found.window_id, found.line_number);
        let name = short(&found.window_name, NAME_CHARS);
        format!("{window} {name}:{number}: {}", line(&found.line))
    }));
    let n_left_out = found.len() - shown.len();
    let note = (n_left_out > 0).then(|| format!("{n_left_out} earlier matches are left out:"));
    missing.chain(note).chain(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(n: usize) -> TaskLog {
        TaskLog {
            window_id: "@1".to_owned(),
            window_name: "api".to_owned(),
            run: Some(2),
            lines: (1..=n).map(|n| format!("line \u{1b}[1m{n}")).collect(),
            ..TaskLog::default()
        }
    }

    #[test]
    fn an_excerpt_says_how_much_is_left_out() {
        let shown = |n, most, is_new_only| excerpt(&log(n), most, true, is_new_only).join("\n");
        assert_eq!(
            shown(2, 40, false),
            "api, run 2, all 2 lines:\nline 1\nline 2"
        );
        assert_eq!(
            shown(3, 1, true),
            "api, run 2, the last 1 of 3 new lines:\nline 3"
        );
        assert_eq!(shown(0, 40, true), "api, run 2: no new output");
        assert_eq!(
            excerpt(&log(3), 2, false, false).join("\n"),
            "api, run 2, the last 2 lines (there are more):\nline 2\nline 3"
        );
    }

    #[test]
    fn an_answer_is_bounded() {
        let long = TaskLog {
            lines: vec!["x".repeat(900); 1000],
            ..log(0)
        };
        let lines = excerpt(&long, MOST_LINES, true, false);
        let bytes: usize = lines.iter().map(String::len).sum();
        assert!(bytes < MOST_BYTES + 200, "{bytes}");
        assert!(
            lines[0].starts_with("api, run 2, the last 36 of 1000 lines"),
            "{}",
            lines[0]
        );
    }
}

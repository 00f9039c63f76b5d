//! `read_output`, `search_output`, and `next_events`: what happened since a cursor.

use std::time::Duration;

use super::arguments::{NextEvents, ReadOutput, SearchOutput, Seconds};
use super::call::{
    Call, LONGEST_WAIT, NAME_CHARS, ToolAnswer, USUAL_WAIT, WITHOUT_CURSOR, line, short,
    within_time,
};
use crate::model::{ErrorKind, rfc3339, text};
use crate::ops::{self, EventQuery, Events, FeedEvent, TaskSession};
use crate::route;
use crate::wire::{After, LogRequest, SearchRequest, SearchResult, TaskLog};

/// How many lines are read if the caller does not say, and at most.
const LINES: usize = 40;
const MOST_LINES: usize = 1000;

/// How many matches are shown if the caller does not say, and at most.
const MATCHES: usize = 50;
const MOST_MATCHES: usize = 500;

/// The maximum size of an answer's lines, in bytes.
const MOST_BYTES: usize = 32 << 10;

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
        match run {
            Some(run) => ops::earlier_log(session, request, run).await,
            None => ops::last_log(session, request).await,
        }
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
    let (found, gone) = within_time(ops::search(session, request)).await?;
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

// `next_events`.

/// How many events an answer has if the caller does not say, and at most.
const EVENTS: usize = 50;
const MOST_EVENTS: usize = 200;

/// The maximum length of an owner, in characters.
const OWNER_CHARS: usize = 200;

/// Returns the events after the cursor, else after `begin`.
pub(super) async fn next(
    session: &TaskSession,
    call: &Call,
    arguments: NextEvents,
    begin: After,
) -> Result<ToolAnswer, ToolAnswer> {
    let NextEvents {
        cursor,
        task,
        wait_seconds,
        limit,
    } = arguments;
    let has_cursor = cursor.is_some();
    let after = match cursor {
        Some(cursor) => cursor
            .parse()
            .map_err(|error| ToolAnswer::refused(&format!("`cursor` is {error}"), None))?,
        None => begin,
    };
    let asked = wait_seconds.map_or(USUAL_WAIT, Seconds::to_duration);
    let wait = asked.min(LONGEST_WAIT);
    let query = EventQuery {
        types: Vec::new(),
        tasks: task.into_iter().collect(),
        most: limit.unwrap_or(EVENTS).clamp(1, MOST_EVENTS),
        wait,
    };
    let work = ops::next_events(session, &call.caller, after, query);
    let events = call.attend("waiting for events", Some(wait), work).await?;
    let events = events.map_err(|error| {
        // The cursor may be of another feed.
        let is_of_cursor = has_cursor && error.kind == ErrorKind::Failed;
        let answer = ToolAnswer::from(error);
        if is_of_cursor {
            return answer.or_hint("call next_events without cursor");
        }
        answer
    })?;
    let owner = call.caller.owner.as_deref();
    Ok(ToolAnswer::new(describe(&events, owner, wait, asked)))
}

fn describe(events: &Events, owner: Option<&str>, wait: Duration, asked: Duration) -> Vec<String> {
    let mut lines = Vec::new();
    for (from, to) in &events.removed {
        lines.push(format!("events {from} to {to} are no longer kept"));
    }
    lines.extend(events.events.iter().map(|event| event_line(event, owner)));
    if events.events.is_empty() {
        let ceiling = match wait < asked {
            true => " (the longest time that one call waits)",
            false => "",
        };
        lines.push(match wait.is_zero() {
            true => "no events".to_owned(),
            false => format!("no events within {} s{ceiling}", wait.as_secs_f64()),
        });
    }
    if events.has_more {
        lines.push("there are more: call next_events with this cursor".to_owned());
    }
    let After { epoch, seq } = &events.next;
    let epoch = epoch.as_deref().unwrap_or_default();
    lines.push(format!("cursor: {epoch}:{seq}"));
    lines
}

/// Returns an event as follow-ups word it, with the owner of a task that is another's.
fn event_line(event: &FeedEvent, owner: Option<&str>) -> String {
    let time = rfc3339(event.time);
    let time = time.get(11..19).unwrap_or_default();
    let text: Vec<String> = route::text_of(&event.event)
        .lines()
        .map(|line| text::row(line.as_bytes()))
        .collect();
    let theirs = event.event.task.owner.as_deref();
    let theirs = match theirs.filter(|theirs| Some(*theirs) != owner) {
        Some(theirs) => format!(" [of {}]", short(theirs, OWNER_CHARS)),
        None => String::new(),
    };
    format!("#{} {time}{theirs} {}", event.seq, text.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::parse_rfc3339;

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

    fn event(seq: u64, owner: &str) -> FeedEvent {
        let fields = serde_json::json!({
            "type": "exited", "level": "warning",
            "task": {
                "windowId": "@1", "windowName": "api", "dead": true, "exitCode": 2,
                "paneStateKnown": true, "owner": owner, "outputPreview": "one\ntwo",
            },
        });
        FeedEvent {
            seq,
            time: parse_rfc3339("2026-11-22T10:11:12.345Z").unwrap(),
            event: serde_json::from_value(fields).unwrap(),
        }
    }

    #[test]
    fn events_are_worded_like_messages() {
        let events = Events {
            events: vec![event(7, "pi:1"), event(8, "pi:2")],
            removed: vec![(1, 3)],
            next: "e:8".parse().unwrap(),
            has_more: true,
        };
        let lines = describe(&events, Some("pi:1"), Duration::ZERO, Duration::ZERO);
        assert_eq!(
            lines.join("\n").lines().collect::<Vec<_>>(),
            [
                "events 1 to 3 are no longer kept",
                "#7 10:11:12 tmux task @1 (api) exited with code 2",
                "recent output:",
                "  one",
                "  two",
                "#8 10:11:12 [of pi:2] tmux task @1 (api) exited with code 2",
                "recent output:",
                "  one",
                "  two",
                "there are more: call next_events with this cursor",
                "cursor: e:8",
            ]
        );
    }

    #[test]
    fn nothing_is_an_answer_too() {
        let events = || Events {
            events: Vec::new(),
            removed: Vec::new(),
            next: "e:8".parse().unwrap(),
            has_more: false,
        };
        let shown = |wait, asked| {
            let seconds = Duration::from_secs;
            describe(&events(), None, seconds(wait), seconds(asked)).join("; ")
        };
        assert_eq!(shown(0, 0), "no events; cursor: e:8");
        assert_eq!(shown(5, 5), "no events within 5 s; cursor: e:8");
        assert!(shown(600, 900).contains("(the longest time that one call waits)"));
    }
}

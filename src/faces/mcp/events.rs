//! `next_events`: what happened since a cursor.

use std::time::Duration;

use super::answer::{ToolAnswer, short};
use super::arguments::{NextEvents, Seconds};
use super::call::{Call, LONGEST_WAIT, USUAL_WAIT};
use crate::model::{ErrorKind, rfc3339, text};
use crate::ops::{self, EventQuery, Events, FeedEvent, TaskSession};
use crate::route;
use crate::wire::After;

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
    lines.extend(events.events.iter().map(|event| line(event, owner)));
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
fn line(event: &FeedEvent, owner: Option<&str>) -> String {
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

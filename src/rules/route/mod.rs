//! Decides how the events of one gathering are delivered (a notice, a message that wakes the agent,
//! or not at all) and words them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::*;
use crate::rules::restarts::{AfterEnd, Restart, after_end, gave_up, restart_of, restarts_in};

pub(crate) const HEADER: &str = "[tmux-task notification]";

const TASK: &str = "tmux task ";

/// The most bytes of a message: sinks pass on 16 KiB.
const MAX_TEXT: usize = 15 * 1024;

/// How far an event is delivered. In ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    FeedOnly,
    /// Shown to the user: the agent knows, or does not need to.
    Notice,
    FollowUp,
}

/// Returns how far this event is delivered by itself, before owners and shells are considered.
pub(crate) fn reach(event: &Event) -> Reach {
    match is_quiet(event) {
        true => reach_in_group(event).min(Reach::Notice),
        false => reach_in_group(event),
    }
}

/// Returns how far each of these events is delivered, which are gathered for one owner, at most as far as given: with
/// an event that wakes, also the clean ends of its group that would wake nobody by themselves.
pub(crate) fn reaches(events: &[(&Event, Reach)]) -> Vec<Reach> {
    let alone = events.iter().map(|(event, most)| reach(event).min(*most));
    let mut reaches: Vec<Reach> = alone.collect();
    let told = events.iter().zip(&reaches);
    let told: Vec<&Task> = told
        .filter(|(_, reach)| **reach == Reach::FollowUp)
        .map(|((event, _), _)| &event.task)
        .collect();
    for ((event, most), reach) in events.iter().zip(&mut reaches) {
        if is_told_with_group(event) && told.iter().any(|task| event.task.is_of_group(task)) {
            *reach = reach_in_group(event).min(*most);
        }
    }
    reaches
}

/// Whether this is an end that is to wake nobody: its launch has said so, or a restart follows.
pub(crate) fn is_quiet(event: &Event) -> bool {
    let is_quiet = match event.task.settings.wake.unwrap_or_default() {
        WakePolicy::Always => false,
        WakePolicy::Failed => event.level() != Level::Warning,
        WakePolicy::Never => true,
    };
    let is_gone = matches!(event.kind, EventKind::Disappeared { .. });
    (is_gone || is_end(event)) && is_quiet || is_restarted(event)
}

/// Whether this is an end that a restart follows.
fn is_restarted(event: &Event) -> bool {
    is_plain_end(event) && restart_of(&event.task).is_some()
}

/// Whether the message of a group has the event, which wakes nobody by itself.
fn is_told_with_group(event: &Event) -> bool {
    is_quiet(event) && event.task.settings.wake != Some(WakePolicy::Never)
}

/// Whether the event can wait for the last run of its group: a clean end that its owner is to hear of.
pub(crate) fn can_be_held(event: &Event) -> bool {
    let is_told = reach(event) == Reach::FollowUp || is_told_with_group(event);
    let is_clean = is_end(event) && event.level() == Level::Info;
    is_told && is_clean && reach_in_group(event) == Reach::FollowUp
}

/// Returns how far the event is delivered whatever its launch has said about its end.
fn reach_in_group(event: &Event) -> Reach {
    match &event.kind {
        EventKind::InputResolved { .. } => Reach::FeedOnly,
        EventKind::Started { .. }
        | EventKind::Exited {
            replaced: Some(ReplacedBy::Launcher),
        }
        | EventKind::Disappeared {
            reason: Some(GoneReason::AgentKilled),
        } => Reach::Notice,
        // A task that crashes again and again wakes the agent once, when it gives up.
        EventKind::Exited { replaced: None } if is_restarted(event) => Reach::Notice,
        EventKind::Exited {
            replaced: None | Some(ReplacedBy::OtherAgent | ReplacedBy::Other),
        }
        | EventKind::Notify { .. }
        | EventKind::Output(_)
        | EventKind::Input { .. }
        | EventKind::Disappeared {
            reason:
                None
                | Some(
                    GoneReason::Replaced
                    | GoneReason::UserKilled
                    | GoneReason::OtherAgentKilled
                    | GoneReason::TimedOut
                    | GoneReason::Moved,
                ),
        } => Reach::FollowUp,
    }
}

/// Returns how far the events of a gathering are delivered, in their order and each at most as far as given, with
/// which level and in which words; `None` when all of them are for the feed only.
pub(crate) fn route(events: &[(&Event, Reach)]) -> Option<(Reach, Level, String)> {
    let reached = events.iter().zip(reaches(events));
    let reached: Vec<(&Event, Reach)> =
        reached.map(|((event, _), reach)| (*event, reach)).collect();
    let furthest = reached.iter().map(|(_, reach)| *reach).max()?;
    // The text leaves out what the agent knows already; the level covers all events.
    let told = reached.iter().filter(|(_, reach)| *reach == furthest);
    let delivered: Vec<&Event> = told.map(|(event, _)| *event).collect();
    let shown = reached.iter().filter(|(_, reach)| *reach > Reach::FeedOnly);
    let level = shown.map(|(event, _)| event.level()).max()?;
    let text = within_limit(texts(&delivered));
    let text = match furthest {
        Reach::FollowUp => format!("{HEADER}\n{text}"),
        Reach::Notice | Reach::FeedOnly => text,
    };
    Some((furthest, level, text))
}

/// Whether a message says something about the task of this window: quoted output is indented.
pub(crate) fn speaks_of(content: &str, window: &str) -> bool {
    let is_about = |line: &str| {
        let line = line.strip_prefix(TASK);
        let rest = line.and_then(|line| line.strip_prefix(window));
        rest.is_some_and(|rest| rest.starts_with(' '))
    };
    content.lines().any(is_about)
}

/// Returns how many of these events, from the first one on, are to be in one message: as many as it has room for
/// without their output, and at least one.
pub(crate) fn n_fitting<'a>(events: impl Iterator<Item = &'a Event>) -> usize {
    let mut left = MAX_TEXT;
    let fits = |event: &Event| {
        let line = first_line(&text_of(event)) + 1;
        let fits = line <= left;
        left = left.saturating_sub(line);
        fits
    };
    events.map(fits).take_while(|fits| *fits).count().max(1)
}

/// Returns the length of a text's first line.
fn first_line(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// Joins texts, each with its level. What is over the limit gets no output, first where all is well.
fn within_limit(texts: Vec<(Level, String)>) -> String {
    let lines: usize = texts.iter().map(|(_, text)| first_line(text) + 1).sum();
    let mut left = MAX_TEXT.saturating_sub(lines);
    let mut is_whole = vec![false; texts.len()];
    for level in [Level::Warning, Level::Info] {
        for ((of, text), is_whole) in texts.iter().zip(&mut is_whole) {
            let more = text.len() - first_line(text);
            if *of == level && more <= left {
                left -= more;
                *is_whole = true;
            }
        }
    }
    let n_cut = is_whole.iter().filter(|is_whole| !**is_whole).count();
    let shown = texts.iter().zip(is_whole).map(|((_, text), is_whole)| {
        let end = if is_whole {
            text.len()
        } else {
            first_line(text)
        };
        &text[..end]
    });
    let mut lines: Vec<&str> = shown.collect();
    let note = format!("the output of {n_cut} of them is left out, see `tmux-task logs NAME`");
    if n_cut > 0 {
        lines.push(&note);
    }
    lines.join("\n")
}

/// Returns the texts of the events, each with its level. The bells of a run are one text, joined with its exit
/// where both were gathered.
fn texts(events: &[&Event]) -> Vec<(Level, String)> {
    let run_of = |event: &Event| (event.task.window, event.task.run);
    // An exit separates the bells of a run from those of the next one, also where runs are not counted.
    let mut next_end = BTreeMap::new();
    let mut ends: Vec<Option<&Event>> = Vec::with_capacity(events.len());
    for event in events.iter().rev() {
        ends.push(next_end.get(&run_of(event)).copied());
        if is_end(event) {
            next_end.insert(run_of(event), *event);
        }
    }
    let mut texts = Vec::new();
    let mut has_rung = BTreeSet::new();
    for (event, end) in events.iter().zip(ends.into_iter().rev()) {
        let run = run_of(event);
        let rang_before = has_rung.contains(&run);
        if is_bell(event) {
            has_rung.insert(run);
        } else if is_end(event) {
            has_rung.remove(&run);
        }
        match (is_bell(event), end.filter(|end| is_plain_end(end))) {
            // Already in the text of the first bell.
            (true, _) if rang_before => {}
            (false, _) if rang_before && is_plain_end(event) => {}
            (true, Some(end)) => {
                let what = format!("sent a terminal notification, then {}", ending(&end.task));
                texts.push((end.level(), with_hint(&what, &end.task)));
            }
            (true, None) | (false, _) => {
                texts.push((event.level(), text_of(event)));
            }
        }
    }
    texts
}

fn is_bell(event: &Event) -> bool {
    matches!(event.kind, EventKind::Notify { .. })
}

pub(crate) fn is_end(event: &Event) -> bool {
    matches!(event.kind, EventKind::Exited { .. })
}

fn is_plain_end(event: &Event) -> bool {
    event.kind == EventKind::Exited { replaced: None }
}

pub(crate) fn text_of(event: &Event) -> String {
    let task = &event.task;
    match &event.kind {
        EventKind::Started { .. } => line(task, "started"),
        EventKind::Exited { replaced: None } => with_hint(&ending(task), task),
        EventKind::Exited {
            replaced: Some(ReplacedBy::Launcher | ReplacedBy::Other),
        } => with_output("was replaced by a new run", task),
        EventKind::Exited {
            replaced: Some(ReplacedBy::OtherAgent),
        } => with_output("was replaced by a new run of another agent", task),
        EventKind::Notify { .. } => with_output("sent a terminal notification", task),
        EventKind::Output(found) => line(task, &printed(found)),
        EventKind::Input { prompt } => {
            let what = if task.is_stopped_in_background() {
                "is stopped, waiting for input in the background"
            } else {
                "is waiting for input"
            };
            let text = match prompt.text.as_str() {
                "" => line(task, what),
                asked => line(task, &format!("{what}: {asked}")),
            };
            if task.is_stopped_in_background() {
                format!("{text}\n  {}", Stop::ADVICE)
            } else {
                text
            }
        }
        EventKind::InputResolved { .. } => line(task, "is no longer waiting for input"),
        EventKind::Disappeared { reason } => line(task, &gone(*reason, task)),
    }
}

fn gone(reason: Option<GoneReason>, task: &Task) -> String {
    let by = match reason {
        None | Some(GoneReason::Replaced) => "",
        Some(GoneReason::UserKilled) => " after the user manually killed it",
        Some(GoneReason::AgentKilled) => " after the agent killed it",
        Some(GoneReason::OtherAgentKilled) => " after another agent killed it",
        Some(GoneReason::Moved) => return "moved to another session".to_owned(),
        Some(GoneReason::TimedOut) => return timed_out(task),
    };
    format!("disappeared from session{by}")
}

fn printed(found: &OutputMatches) -> String {
    const GAP: &str = "some of its output could not be searched for what --notify-on names";
    let Some(line) = &found.line else {
        return format!("printed too much: {GAP}");
    };
    let more = match found.matches.saturating_sub(1) {
        0 => String::new(),
        1 => " (and 1 more match)".to_owned(),
        more => format!(" (and {more} more matches)"),
    };
    let gap = match found.has_gap {
        true => format!("; {GAP}"),
        false => String::new(),
    };
    format!("printed: {}{more}{gap}", text::bounded(line, QUOTED_CHARS))
}

fn timed_out(task: &Task) -> String {
    match task.settings.stop.kill_after {
        Some(limit) => format!("was ended after {} by its time limit", written(limit)),
        None => "was ended by its time limit".to_owned(),
    }
}

fn ending(task: &Task) -> String {
    let how = task.run_end().words();
    match after_end(task) {
        None => how,
        Some(AfterEnd::Restart(Restart {
            number,
            limit,
            after,
        })) => {
            format!("{how}; {}, {number} of {limit}", restarts_in(after))
        }
        Some(AfterEnd::GaveUp(used)) => format!("{how}; {}", gave_up(used)),
    }
}

fn line(task: &Task, what: &str) -> String {
    format!("{TASK}{} ({}) {what}", task.window, task.name)
}

fn with_output(what: &str, task: &Task) -> String {
    let mut text = line(task, what);
    let output = task.screen.last_lines();
    if !output.is_empty() {
        text.push_str("\nrecent output:");
        for line in output {
            text.push_str("\n  ");
            text.push_str(&line);
        }
    }
    text
}

/// The hint of a run that was killed has a line of its own, which no output can be taken for.
fn with_hint(what: &str, task: &Task) -> String {
    let text = with_output(what, task);
    match task.exit_hint() {
        Some(hint) => format!("{text}\n{hint}"),
        None => text,
    }
}

#[cfg(test)]
mod tests;

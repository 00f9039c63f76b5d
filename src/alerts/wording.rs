//! The text of an alert: which task, what happened, and what to do.

use super::AlertEvent;
use crate::model::{AnswerBy, Event, EventKind, RunEnd, Task, text};

/// The maximum length of a quoted line or question, in characters: three lines and the advice fit into
/// a desktop notification.
const QUOTED_CHARS: usize = 250;

/// What is displayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertText {
    /// The task and what happened, one line.
    pub(crate) title: String,
    /// Details, such as the last lines of output.
    pub(crate) details: Vec<String>,
    /// What to do: a command.
    pub(crate) advice: Option<String>,
}

/// Words the main event of an alert. `n` is how often it happened, `also` what else did.
pub(super) fn describe(
    event: &Event,
    kind: AlertEvent,
    n: u64,
    also: &[(AlertEvent, u64)],
    session: &str,
) -> AlertText {
    let task = &event.task;
    let mut title = format!("{} {}", task.name, happening(event, kind));
    if n > 1 {
        title.push_str(&format!(" ({n} times)"));
    }
    let mut details = Vec::new();
    match kind {
        AlertEvent::Failed | AlertEvent::Notify | AlertEvent::Exited => {
            let lines = task.screen.last_lines().into_iter();
            details.extend(lines.map(|line| text::bounded(&line, QUOTED_CHARS)));
        }
        AlertEvent::Disappeared => {
            details.push("Its window was closed while it was running.".to_owned());
            if let Some(command) = &task.command {
                let command = text::bounded(command, QUOTED_CHARS);
                details.push(format!("Its command: {command}"));
            }
        }
        AlertEvent::Input | AlertEvent::Output | AlertEvent::Started | AlertEvent::Other => {}
    }
    if !also.is_empty() {
        let also: Vec<String> = also.iter().map(|(kind, n)| counted(*kind, *n)).collect();
        details.push(format!("Also: {}.", also.join(", ")));
    }
    AlertText {
        title,
        details,
        advice: advice(event, kind, session),
    }
}

/// Words an alert about many tasks. `counts` says how many alerts have which main event.
pub(super) fn summarise(counts: &[(AlertEvent, u64)], session: &str) -> AlertText {
    let n: u64 = counts.iter().map(|(_, n)| n).sum();
    let counts: Vec<String> = counts
        .iter()
        .map(|(kind, n)| format!("{n} {}", plural(*kind)))
        .collect();
    AlertText {
        title: format!("{n} more tasks: {}", counts.join(", ")),
        details: Vec::new(),
        advice: command("See: tmux-task ls", session),
    }
}

/// Words a notice that is not about events.
pub(super) fn quote(notice: &str) -> AlertText {
    let mut lines = notice.lines().map(|line| text::bounded(line, QUOTED_CHARS));
    AlertText {
        title: lines.next().unwrap_or_default(),
        details: lines.collect(),
        advice: None,
    }
}

/// Words events that were not displayed because the disk was slow.
pub(super) fn missed(n: u64, session: &str) -> AlertText {
    AlertText {
        title: format!("{n} earlier events are only in the feed"),
        details: Vec::new(),
        advice: command("See: tmux-task feed", session),
    }
}

fn happening(event: &Event, kind: AlertEvent) -> String {
    match (kind, &event.kind) {
        (AlertEvent::Started, EventKind::Started { rerun: true }) => "started again".to_owned(),
        (AlertEvent::Started, _) => "started".to_owned(),
        (AlertEvent::Exited, _) => "finished".to_owned(),
        (AlertEvent::Notify, _) => "rang the bell".to_owned(),
        (AlertEvent::Output, EventKind::Output(found)) => match &found.line {
            Some(line) => format!("printed: {}", text::bounded(line, QUOTED_CHARS)),
            None => "printed too much to be searched".to_owned(),
        },
        (AlertEvent::Output, _) => "printed a line".to_owned(),
        (AlertEvent::Disappeared, _) => "disappeared".to_owned(),
        (AlertEvent::Failed, _) => failure(&event.task),
        (AlertEvent::Input, _) if event.task.is_stopped_in_background() => {
            "is stopped, waiting for input in the background".to_owned()
        }
        (AlertEvent::Input, EventKind::Input { prompt }) if !prompt.text.is_empty() => {
            format!("asks: {}", text::bounded(&prompt.text, QUOTED_CHARS))
        }
        (AlertEvent::Input | AlertEvent::Other, _) => "waits for input".to_owned(),
    }
}

fn failure(task: &Task) -> String {
    match task.run_end() {
        RunEnd::Code(code) => match task.exit_hint() {
            Some(hint) => format!("failed with code {code}: {hint}"),
            None => format!("failed with code {code}"),
        },
        end @ (RunEnd::Signal(_) | RunEnd::Unknown) => end.words_with(task.exit_hint()),
    }
}

fn advice(event: &Event, kind: AlertEvent, session: &str) -> Option<String> {
    let name = reference(&event.task);
    match (kind, &event.kind) {
        (AlertEvent::Input, _) if event.task.is_stopped_in_background() => {
            command(&format!("See: tmux-task explain {name}"), session)
        }
        (AlertEvent::Input, EventKind::Input { prompt }) => {
            let answer = match AnswerBy::of(Some(prompt.kind), prompt.secret) {
                AnswerBy::Text => format!("send {name} TEXT"),
                AnswerBy::Secret => format!("send {name} --secret"),
                // A user presses keys where the program shows what they do.
                AnswerBy::Keys => format!("attach {name}"),
            };
            command(&format!("Answer: tmux-task {answer}"), session)
        }
        (AlertEvent::Failed | AlertEvent::Notify | AlertEvent::Output | AlertEvent::Exited, _) => {
            command(&format!("See: tmux-task logs {name}"), session)
        }
        (AlertEvent::Started, _) => command(&format!("See: tmux-task attach {name}"), session),
        (AlertEvent::Disappeared, _) => {
            // Its window is gone, and with it the id.
            let name = Some(&event.task.name).filter(|name| is_plain(name))?;
            command(
                &format!("Start it again: tmux-task run {name} -- COMMAND"),
                session,
            )
        }
        (AlertEvent::Input | AlertEvent::Other, _) => None,
    }
}

/// Returns a word that names the task on a command line.
fn reference(task: &Task) -> String {
    if is_plain(&task.name) {
        task.name.clone()
    } else {
        task.window.to_string()
    }
}

/// Returns a command with its session; `None` if the session's name would need quotes.
fn command(line: &str, session: &str) -> Option<String> {
    let (line, rest) = line
        .split_once(" -- ")
        .map_or((line, String::new()), |(line, rest)| {
            (line, format!(" -- {rest}"))
        });
    is_plain(session).then(|| format!("{line} -s {session}{rest}"))
}

fn is_plain(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(is_plain)
}

/// Returns what happened to one task, with how often: `rang the bell (3 times)`.
fn counted(kind: AlertEvent, n: u64) -> String {
    let what = match kind {
        AlertEvent::Input => "asked",
        AlertEvent::Other => "more",
        AlertEvent::Started
        | AlertEvent::Exited
        | AlertEvent::Notify
        | AlertEvent::Output
        | AlertEvent::Disappeared
        | AlertEvent::Failed => plural(kind),
    };
    if n > 1 {
        format!("{what} ({n} times)")
    } else {
        what.to_owned()
    }
}

/// Returns what happened to several tasks: `failed`.
fn plural(kind: AlertEvent) -> &'static str {
    match kind {
        AlertEvent::Started => "started",
        AlertEvent::Exited => "finished",
        AlertEvent::Notify => "rang the bell",
        AlertEvent::Output => "printed a line",
        AlertEvent::Disappeared => "disappeared",
        AlertEvent::Failed => "failed",
        AlertEvent::Input => "wait for input",
        AlertEvent::Other => "others",
    }
}

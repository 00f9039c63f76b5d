//! Which alerts the user wants, and the text of one: which task, what happened, and what to do; and the escape sequences by which a
//! terminal shows it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{AnswerBy, Event, EventKind, RunEnd, Task, text};
use crate::rules::restarts::restart_of;

/// The most characters of a quoted line: three and the advice fit into a desktop notification.
const QUOTED_CHARS: usize = 250;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertText {
    /// The task and what happened, one line.
    pub(crate) title: String,
    /// Details, such as the last lines of output.
    pub(crate) details: Vec<String>,
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
pub(super) fn summarise(counts: &[(AlertEvent, usize)], session: &str) -> AlertText {
    let n: usize = counts.iter().map(|(_, n)| n).sum();
    let counts = counts.iter();
    let counts = counts.map(|(kind, n)| format!("{n} {}", plural(*kind)));
    AlertText {
        title: format!("{n} more tasks: {}", counts.collect::<Vec<_>>().join(", ")),
        details: Vec::new(),
        advice: command("See: tmux-task ls", session),
    }
}

pub(super) fn quote(notice: &str) -> AlertText {
    let mut lines = notice.lines().map(|line| text::bounded(line, QUOTED_CHARS));
    AlertText {
        title: lines.next().unwrap_or_default(),
        details: lines.collect(),
        advice: None,
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
            let again = command(&format!("Start it again: tmux-task run {name}"), session)?;
            Some(format!("{again} -- COMMAND"))
        }
        (AlertEvent::Input | AlertEvent::Other, _) => None,
    }
}

fn reference(task: &Task) -> String {
    if is_plain(&task.name) {
        task.name.clone()
    } else {
        task.window.to_string()
    }
}

/// Returns a command with its session; `None` if the session's name would need quotes.
fn command(line: &str, session: &str) -> Option<String> {
    is_plain(session).then(|| format!("{line} -s {session}"))
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

/// The maximum length of a title and of a text, in characters. A terminal's queue takes the whole
/// sequence at once.
const TITLE_CHARS: usize = 120;
const BODY_CHARS: usize = 240;

/// A sequence that makes a terminal show a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TerminalSequence {
    /// OSC 9: one text.
    Osc9,
    /// OSC 777: a title and a text.
    Osc777,
}

impl TerminalSequence {
    /// Returns the sequence for a terminal with this `TERM`, or what it says it is; `None` if it shows
    /// none.
    pub(crate) fn choose(terminal: &str) -> Option<Self> {
        let terminal = terminal.to_lowercase();
        let begins = |names: &[&str]| names.iter().any(|name| terminal.starts_with(name));
        let is_any = |names: &[&str]| names.iter().any(|name| terminal.contains(name));
        if begins(&["linux", "dumb", "screen", "tmux", "vt", "cons"]) {
            return None;
        }
        let has_titles = is_any(&["rxvt", "foot", "ghostty", "wezterm"]);
        Some(if has_titles { Self::Osc777 } else { Self::Osc9 })
    }

    /// Returns the sequence with this text. Nothing in the text can end it, or begin another one.
    pub(crate) fn encode(self, alert: &AlertText, is_utf8: bool) -> String {
        // The terminal's own separators are among what is replaced.
        let plain = |text: &str, most| {
            let text = text::one_line(text.as_bytes(), most);
            let text = text.chars().filter(|c| !c.is_control());
            text.map(|c| match c {
                ';' => ',',
                c if is_utf8 || c.is_ascii() => c,
                _ => '?',
            })
            .collect::<String>()
        };
        let title = plain(&alert.title, TITLE_CHARS);
        match self {
            // A text that begins with a number can mean something else.
            Self::Osc9 => format!("\x1b]9;tmux-task: {title}\x07"),
            Self::Osc777 => {
                let lines = alert.details.iter().chain(&alert.advice);
                let lines: Vec<&str> = lines.map(String::as_str).collect();
                let body = plain(&lines.join(" - "), BODY_CHARS);
                format!("\x1b]777;notify;{title};{body}\x07")
            }
        }
    }
}

/// A kind of event that can be displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AlertEvent {
    Started,
    /// A run ended with code 0.
    Exited,
    Notify,
    /// It printed a line that its launch asked to be notified of.
    Output,
    /// The window of a running task is gone, and nobody ended the task with our commands.
    Disappeared,
    /// A run ended with another code, by a signal, or in an unknown way.
    Failed,
    /// A task waits for input.
    Input,
    /// A notice that is not about events: the outcome of a command, ended sessions.
    Other,
}

impl AlertEvent {
    /// Every kind, with the word for it.
    pub(crate) const NAMES: [(&str, Self); 8] = [
        ("failed", Self::Failed),
        ("input", Self::Input),
        ("notify", Self::Notify),
        ("output", Self::Output),
        ("disappeared", Self::Disappeared),
        ("exited", Self::Exited),
        ("started", Self::Started),
        ("other", Self::Other),
    ];

    /// What is displayed unless the user asks for something else.
    const DEFAULT: [Self; 5] = [
        Self::Failed,
        Self::Input,
        Self::Notify,
        Self::Output,
        Self::Disappeared,
    ];

    /// Returns the kind of an event; `None` if it was caused on purpose, or is the end of a shell.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let is_of_shell = event.task.shell;
        match &event.kind {
            EventKind::Started { .. } => Some(Self::Started),
            EventKind::Notify { .. } => Some(Self::Notify),
            EventKind::Output(_) => Some(Self::Output),
            EventKind::Input { .. } => Some(Self::Input),
            // It is run again by itself.
            EventKind::Exited { replaced: None } if restart_of(&event.task).is_some() => None,
            EventKind::Exited { replaced: None } if !is_of_shell => {
                Some(if event.task.exit_code() == Some(0) {
                    Self::Exited
                } else {
                    Self::Failed
                })
            }
            EventKind::Disappeared { reason: None } if !is_of_shell => Some(Self::Disappeared),
            EventKind::Exited { .. }
            | EventKind::Disappeared { .. }
            | EventKind::InputResolved { .. } => None,
        }
    }
}

/// Where notices are displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Desktop,
    /// By each attached terminal, where it runs.
    Terminal,
    Tmux,
}

impl Place {
    /// Every place, with the word for it.
    pub(crate) const NAMES: [(&str, Self); 3] = [
        ("desktop", Self::Desktop),
        ("terminal", Self::Terminal),
        ("tmux", Self::Tmux),
    ];
}

/// What is displayed, as the configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertRules {
    /// Where notices are displayed; nowhere if it is empty: key `places`.
    pub(crate) places: BTreeSet<Place>,
    /// The kinds of events that notices are about: key `events`.
    pub(crate) events: BTreeSet<AlertEvent>,
    /// The kinds of events for single tasks, by name or window id, in place of `events`: table `tasks`.
    pub(crate) tasks: BTreeMap<String, BTreeSet<AlertEvent>>,
}

impl Default for AlertRules {
    fn default() -> Self {
        Self {
            places: [Place::Desktop, Place::Tmux].into(),
            events: AlertEvent::DEFAULT.into(),
            tasks: BTreeMap::new(),
        }
    }
}

impl AlertRules {
    pub(super) fn wants(&self, task: &Task, event: AlertEvent) -> bool {
        let by_id = self.tasks.get(&task.window.to_string());
        let of_task = by_id.or_else(|| self.tasks.get(&task.name));
        of_task.unwrap_or(&self.events).contains(&event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [TerminalSequence; 2] = [TerminalSequence::Osc9, TerminalSequence::Osc777];

    #[test]
    fn a_terminal_gets_the_sequence_that_it_shows() {
        use TerminalSequence::{Osc9, Osc777};
        let check = |terminal, expected| {
            assert_eq!(TerminalSequence::choose(terminal), expected, "{terminal}");
        };
        check("xterm-256color iTerm2 3.5.0", Some(Osc9));
        check("xterm-256color WezTerm 2024", Some(Osc777));
        check("xterm-kitty kitty(0.36.0)", Some(Osc9));
        check("xterm-ghostty ", Some(Osc777));
        check("xterm-256color ", Some(Osc9));
        for terminal in [
            "linux ",
            "dumb ",
            "screen-256color ",
            "tmux-256color tmux 3.5",
        ] {
            check(terminal, None);
        }
    }

    #[test]
    fn nothing_in_a_text_ends_the_sequence() {
        let alert = AlertText {
            title: "4;1;50 a\u{7}\u{1b}]0;x\u{1b}\\ü\u{9c}b\nc".to_owned(),
            details: vec!["one;\u{90}two".to_owned(), "x".repeat(1000)],
            advice: Some("See: this".to_owned()),
        };
        for is_utf8 in [true, false] {
            for sequence in BOTH {
                let encoded = sequence.encode(&alert, is_utf8);
                let inner = encoded.strip_prefix("\x1b]").unwrap();
                let inner = inner.strip_suffix('\x07').unwrap();
                assert!(!inner.contains(char::is_control), "{inner:?}");
                assert!(inner.len() < 600, "{inner:?}");
                assert_eq!(inner.is_ascii(), !is_utf8, "{inner:?}");
                let n = if sequence == TerminalSequence::Osc9 {
                    1
                } else {
                    3
                };
                assert_eq!(inner.matches(';').count(), n, "{inner:?}");
            }
        }
        let short = AlertText {
            title: "build failed with code 2".to_owned(),
            details: vec!["error".to_owned()],
            advice: None,
        };
        let encoded = BOTH.map(|sequence| sequence.encode(&short, true));
        assert_eq!(
            encoded,
            [
                "\x1b]9;tmux-task: build failed with code 2\x07",
                "\x1b]777;notify;build failed with code 2;error\x07"
            ]
        );
    }
}

//! Why a task is or is not judged to wait for input, also as people read it: in the terminal and in the
//! panel.

use std::time::Duration;

use super::session::TaskSession;
use crate::model::{Error, Millis, NextRestart, Stop, text};
use crate::restarts::restarts_in;
use crate::wire::{ExplainedState, Explanation, Request};

/// The maximum length of a displayed line, in characters.
const LINE: usize = 200;

/// Returns the daemon's explanation.
pub(crate) async fn explain(session: &mut TaskSession, name: &str) -> Result<Explanation, Error> {
    let request = Request::Explain {
        task: name.to_owned(),
    };
    session.ask(&request).await
}

/// Returns why a task is or is not judged to wait for a person, as lines of `name value`.
pub(crate) fn explanation_lines(explanation: &Explanation, now: Millis) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |name: &str, value: String| lines.push(format!("{name:<9} {value}"));
    let terminal = explanation.terminal.as_ref();
    let stopped = terminal.and_then(|terminal| terminal.stopped);
    let in_background = stopped.is_some_and(Stop::is_in_background);
    let state = match explanation.state {
        ExplainedState::Working if in_background => "not reported".to_owned(),
        ExplainedState::Ended => "has ended".to_owned(),
        ExplainedState::Waiting => {
            let since = explanation.waiting_since;
            let since = since.map(|since| format!(", for {}", seconds(now - since)));
            format!("waits for input{}", since.unwrap_or_default())
        }
        ExplainedState::Muted => "waits for input; the configuration keeps it quiet".to_owned(),
        ExplainedState::Asking => "asks for input; not reported (yet)".to_owned(),
        ExplainedState::Working => "does not wait for input".to_owned(),
    };
    let state = match stopped {
        Some(_) if in_background => {
            format!("is stopped in the background, where it cannot read what is typed; {state}")
        }
        Some(_) => format!("is stopped by a signal; {state}"),
        None => state,
    };
    let name = &explanation.window_name;
    add("task", format!("{} ({name})", explanation.window_id));
    add("state", state);
    add("rule", explanation.rule.clone());
    if in_background {
        add("advice", Stop::ADVICE.to_owned());
    }
    if let Some(restart) = explanation.next_restart {
        add("restart", restart_words(restart, now));
    }
    if let Some(why) = &explanation.cannot_restart {
        add("restart", cannot_restart_words(why));
    }
    if let (Some(prompt), Some(kind)) = (&explanation.prompt, explanation.prompt_kind) {
        let is_secret = explanation.secret == Some(true);
        let secret = if is_secret { ", secret" } else { "" };
        add("prompt", format!("{prompt} ({kind}{secret})"));
    }
    if let Some(shown) = &explanation.line {
        add("line", text::one_line(shown.as_bytes(), LINE));
    }
    if let (Some(x), Some(y)) = (explanation.cursor_x, explanation.cursor_y) {
        let is_alternate = explanation.alternate_on == Some(true);
        let screen = if is_alternate {
            ", alternate screen"
        } else {
            ""
        };
        add("cursor", format!("column {x}, row {y}{screen}"));
    }
    if let Some(ms) = explanation.quiet_ms {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        add("quiet", format!("for {}", seconds(ms)));
    }
    let Some(terminal) = terminal else {
        add("terminal", "nothing is known".to_owned());
        return lines;
    };
    let mode = |on: Option<bool>| on.map_or("unknown", |on| if on { "on" } else { "off" });
    let (echo, canonical) = (mode(terminal.echo), mode(terminal.canonical));
    add("terminal", format!("echo {echo}, lines {canonical}"));
    let (reader, foreground) = (terminal.reader, terminal.foreground);
    let programs = terminal.programs.join(" ");
    add("programs", format!("{programs}: {reader}, {foreground}"));
    lines
}

/// Says why a task that has failed is not run again.
pub(crate) fn cannot_restart_words(why: &str) -> String {
    format!("cannot be restarted: {why}")
}

/// Returns the restart that a task waits for, as a person reads it: `restarts in 4 s, 2 of 5`.
pub(crate) fn restart_words(next: NextRestart, now: Millis) -> String {
    let NextRestart {
        at, number, limit, ..
    } = next;
    let still = Duration::from_millis(u64::try_from(at - now).unwrap_or(0));
    format!("{}, {number} of {limit}", restarts_in(still))
}

fn seconds(ms: Millis) -> String {
    format!("{}.{} s", ms.max(0) / 1000, ms.max(0) % 1000 / 100)
}

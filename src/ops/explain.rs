//! Why a task is or is not judged to wait for input, also as people read it: in the terminal and in the
//! panel.

use std::time::Duration;

use super::session::TaskSession;
use crate::client::unexpected;
use crate::model::{Error, Millis, NextRestart, Stop, text};
use crate::restarts::restarts_in;
use crate::wire::{ExplainedState, Explanation, Request, Response};

/// The maximum length of a displayed line, in characters.
const LINE: usize = 200;

/// Returns the daemon's explanation.
pub(crate) async fn explain(session: &mut TaskSession, name: &str) -> Result<Explanation, Error> {
    let request = Request::Explain {
        task: name.to_owned(),
    };
    let Response::Explained(explanation) = session.ask(&request).await? else {
        return Err(unexpected());
    };
    Ok(*explanation)
}

/// Returns why a task is or is not judged to wait for a person, as lines of `name value`.
pub(crate) fn explanation_lines(explanation: &Explanation, now: Millis) -> Vec<String> {
    let line = |name: &str, value: String| format!("{name:<9} {value}");
    let stopped = explanation
        .terminal
        .as_ref()
        .and_then(|terminal| terminal.stopped);
    let in_background = stopped.is_some_and(Stop::is_in_background);
    let state = match explanation.state {
        ExplainedState::Working if in_background => "not reported".to_owned(),
        ExplainedState::Ended => "has ended".to_owned(),
        ExplainedState::Waiting => {
            let since = explanation.waiting_since.map_or_else(String::new, |since| {
                format!(", for {}", seconds(now - since))
            });
            format!("waits for input{since}")
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
    let mut lines = vec![
        line(
            "task",
            format!("{} ({})", explanation.window_id, explanation.window_name),
        ),
        line("state", state),
        line("rule", explanation.rule.clone()),
    ];
    if in_background {
        lines.push(line("advice", Stop::ADVICE.to_owned()));
    }
    if let Some(restart) = explanation.next_restart {
        lines.push(line("restart", restart_words(restart, now)));
    }
    if let Some(why) = &explanation.cannot_restart {
        lines.push(line("restart", cannot_restart_words(why)));
    }
    if let (Some(prompt), Some(kind)) = (&explanation.prompt, explanation.prompt_kind) {
        let secret = if explanation.secret == Some(true) {
            ", secret"
        } else {
            ""
        };
        lines.push(line("prompt", format!("{prompt} ({kind}{secret})")));
    }
    if let Some(shown) = &explanation.line {
        lines.push(line("line", text::one_line(shown.as_bytes(), LINE)));
    }
    if let (Some(x), Some(y)) = (explanation.cursor_x, explanation.cursor_y) {
        let screen = match explanation.alternate_on {
            Some(true) => ", alternate screen",
            Some(false) | None => "",
        };
        lines.push(line("cursor", format!("column {x}, row {y}{screen}")));
    }
    if let Some(ms) = explanation.quiet_ms {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        lines.push(line("quiet", format!("for {}", seconds(ms))));
    }
    match &explanation.terminal {
        None => lines.push(line("terminal", "nothing is known".to_owned())),
        Some(terminal) => {
            let mode = |name: &str, on: Option<bool>| match on {
                Some(true) => format!("{name} on"),
                Some(false) => format!("{name} off"),
                None => format!("{name} unknown"),
            };
            let modes = [
                mode("echo", terminal.echo),
                mode("lines", terminal.canonical),
            ];
            lines.push(line("terminal", modes.join(", ")));
            lines.push(line(
                "programs",
                format!(
                    "{}: {}, {}",
                    terminal.programs.join(" "),
                    terminal.reader,
                    terminal.foreground
                ),
            ));
        }
    }
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

//! The state by its transitions, and the frames as text.

mod all;
mod cost;
mod frames;
mod transitions;
mod usage;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::board::{ListRow, SessionKey, SessionName, TaskKey};
use super::effect::PanelEffect;
use super::state::{ONLY, PanelState};
use crate::wire::{LsTask, TaskFields};

/// When frames are drawn, in milliseconds since 1970.
const NOW: i64 = 1_000_000_000;

/// A running task that started a minute ago for each 60 of its window's number.
fn running(number: u32, name: &str) -> TaskFields {
    TaskFields {
        window_id: format!("@{number}"),
        window_name: name.to_owned(),
        pane_id: Some(format!("%{number}")),
        pane_pid: Some(1000 + number),
        pane_state_known: true,
        current_command: Some(format!("make {name}")),
        run: Some(1),
        started_at: Some(NOW - i64::from(number) * 1000),
        output_preview: format!("one\nlast of {name}\n"),
        ..TaskFields::default()
    }
}

fn ended(number: u32, name: &str, code: i32) -> TaskFields {
    TaskFields {
        dead: true,
        exit_code: Some(code),
        ended_at: Some(NOW - i64::from(number) * 100),
        ..running(number, name)
    }
}

fn listed(task: TaskFields) -> LsTask {
    LsTask::new(task, None, None)
}

fn asking(number: u32, name: &str, prompt: &str) -> LsTask {
    LsTask::new(running(number, name), Some(prompt.to_owned()), None)
}

/// One task of each group, in no particular order.
fn mixed() -> Vec<LsTask> {
    let killed = TaskFields {
        exit_code: None,
        exit_signal: Some("SIGKILL".to_owned()),
        ..ended(65, "tunnel", 0)
    };
    vec![
        listed(running(5, "server")),
        listed(ended(70, "lint", 0)),
        listed(ended(80, "build", 2)),
        listed(killed),
        asking(4000, "deploy", "Proceed? [y/N]"),
        LsTask::new(running(90, "sync"), None, Some(1_000_000)),
    ]
}

fn named(name: &str, server: Option<&str>) -> SessionName {
    SessionName {
        name: name.to_owned(),
        server: server.map(str::to_owned),
    }
}

/// A task of the only session.
fn task(window: &str) -> TaskKey {
    task_of(ONLY, window)
}

fn task_of(session: SessionKey, window: &str) -> TaskKey {
    let window = window.to_owned();
    TaskKey { session, window }
}

/// A connected panel with these tasks.
fn state_with(size: (u16, u16), tasks: Vec<LsTask>) -> PanelState {
    let mut state = PanelState::new("work".to_owned(), size, NOW);
    state.on_connected(ONLY, named("work", None));
    state.on_tasks(ONLY, true, true, tasks, &[]);
    state
}

/// Presses keys: a character each, `\n` for Enter, `\x1b` for Escape. Returns the effects that are
/// no previews.
fn press(state: &mut PanelState, keys: &str) -> Vec<PanelEffect> {
    let key = |c| match c {
        '\n' => KeyCode::Enter,
        '\x1b' => KeyCode::Esc,
        c => KeyCode::Char(c),
    };
    let effects = keys
        .chars()
        .flat_map(|c| state.on_key(KeyEvent::new(key(c), KeyModifiers::NONE)));
    effects
        .filter(|effect| !matches!(effect, PanelEffect::Preview { .. }))
        .collect()
}

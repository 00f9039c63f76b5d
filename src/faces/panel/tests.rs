//! The state by its transitions, and the frames as text.

mod all;
mod cost;
mod frames;
mod transitions;
mod usage;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::board::{ListRow, Place, SessionKey, SessionName, TaskKey};
use super::mode::PanelEffect;
use super::state::{Incoming, ONLY, PanelState};
use crate::model::{Exit, Life, Signal, Task, test_notation};
use crate::rules::wire::LsTask;

/// When frames are drawn, in milliseconds since 1970.
const NOW: i64 = 1_000_000_000;

/// A running task that started a minute ago for each 60 of its window's number.
fn running(number: u32, name: &str) -> Task {
    let mut task = test_notation::task(&format!("@{number}#1 {name}- running"));
    task.name = name.to_owned();
    task.pid = Some(1000 + number);
    task.command = Some(format!("make {name}"));
    task.started_at = Some(NOW - i64::from(number) * 1000);
    task.screen.rows = ["one".to_owned(), format!("last of {name}")].into();
    task
}

fn ended(number: u32, name: &str, code: i32) -> Task {
    Task {
        life: Life::Dead(Exit::with_code(code)),
        ended_at: Some(NOW - i64::from(number) * 100),
        ..running(number, name)
    }
}

/// The task with this one row on its screen.
fn printed(mut task: Task, row: &str) -> Task {
    task.screen.rows = [row.to_owned()].into();
    task
}

fn listed(task: Task) -> LsTask {
    LsTask::new(task, None)
}

fn asking(number: u32, name: &str, prompt: &str) -> LsTask {
    LsTask::new(running(number, name), Some(prompt.to_owned()))
}

/// One task of each group, in no particular order.
fn mixed() -> Vec<LsTask> {
    let killed = Task {
        life: Life::Dead(Exit {
            by_us: true,
            ..Exit::with_signal(Signal::parse("SIGKILL"))
        }),
        ..ended(65, "tunnel", 0)
    };
    vec![
        listed(running(5, "server")),
        listed(ended(70, "lint", 0)),
        listed(ended(80, "build", 2)),
        listed(killed),
        asking(4000, "deploy", "Proceed? [y/N]"),
        LsTask::new(running(3, "sync"), None),
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

fn name_in<'a>(state: &'a PanelState, task: &TaskKey) -> &'a str {
    &state.board.get(task).unwrap().task.name
}

/// A connected panel with these tasks.
fn state_with(size: (u16, u16), tasks: Vec<LsTask>) -> PanelState {
    let mut state = PanelState::new(Some("work".to_owned()), size, NOW);
    state.on_connected(ONLY, named("work", None));
    state.on_tasks(ONLY, true, true, tasks, &[]);
    state
}

/// Shows changed tasks of the only session, and that these are gone.
fn change(state: &mut PanelState, tasks: Vec<LsTask>, removed: &[&str]) -> Vec<PanelEffect> {
    state.on_tasks(ONLY, true, false, tasks, removed)
}

/// Whether the last message is of an error.
fn has_error(state: &PanelState) -> bool {
    state.message.as_ref().unwrap().is_error
}

/// What happens outside.
impl PanelState {
    fn on_connected(&mut self, key: SessionKey, name: SessionName) {
        let place = Place::Host {
            host: String::new(),
            session: String::new(),
        };
        self.on_incoming(Incoming::Connected { key, place, name });
    }

    fn on_tasks(
        &mut self,
        key: SessionKey,
        exists: bool,
        is_complete: bool,
        tasks: Vec<LsTask>,
        removed: &[&str],
    ) -> Vec<PanelEffect> {
        self.on_incoming(Incoming::Tasks {
            key,
            exists,
            is_complete,
            tasks,
            removed: removed.iter().map(|id| (*id).to_owned()).collect(),
        })
    }

    fn on_lost(&mut self, why: String) {
        self.on_incoming(Incoming::Lost(why));
    }
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

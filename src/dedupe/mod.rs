//! What "already told" means for a task that waits: one `input` per episode.
//!
//! An episode begins when the same prompt stands on an unchanged screen in two looks. It ends when
//! the prompt is gone, when its row was written anew after other output, or with the run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::model::{Event, EventKind, Life, Now, Prompt, Snapshot, Task, WindowId};
use crate::prompt::{self, Found};

mod anew;

/// The prompts of every task, across looks.
#[derive(Debug, Clone, Default)]
pub struct Episodes {
    watched: BTreeMap<WindowId, Watched>,
}

/// A prompt that stands on a task's screen.
#[derive(Debug, Clone)]
struct Watched {
    /// The task as it was when the prompt was last seen.
    task: Task,
    found: Found,
    state: State,
}

/// How far an episode has come.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Seen, and not told yet. `since` is the first look at this very screen.
    Candidate { since: Instant },
    /// Told as `input`.
    Told,
}

impl Episodes {
    /// Returns the `input` and `inputResolved` events that this look brings.
    ///
    /// The screen must have stood for `quiet`, and through two looks at least.
    pub fn admit(&mut self, look: &Snapshot, quiet: Duration, now: Now) -> Vec<Event> {
        let mut events = Vec::new();
        let gone: Vec<Watched> = self
            .watched
            .extract_if(.., |window, _| !look.tasks.contains_key(window))
            .map(|(_, watched)| watched)
            .collect();
        for watched in gone {
            resolve(watched, &mut events);
        }
        for task in look.tasks.values() {
            let before = self.watched.remove(&task.window);
            if let Some(watched) = admit_task(before, task, quiet, now, &mut events) {
                self.watched.insert(task.window, watched);
            }
        }
        events
    }

    /// Forgets every prompt, telling the end of those that had been told.
    pub fn end_all(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for watched in std::mem::take(&mut self.watched).into_values() {
            resolve(watched, &mut events);
        }
        events
    }

    /// Takes up an episode that was told before a restart, as `task` showed it then.
    pub fn restore(&mut self, task: Task, prompt: Prompt) {
        let found = prompt::find(&task.screen)
            .filter(|found| found.prompt == prompt)
            .unwrap_or(Found {
                prompt,
                row: usize::MAX,
            });
        self.watched.insert(
            task.window,
            Watched {
                task,
                found,
                state: State::Told,
            },
        );
    }

    /// Whether this task was told as waiting and still waits.
    #[must_use]
    pub fn is_waiting(&self, window: WindowId) -> bool {
        self.prompt_of(window).is_some()
    }

    /// Returns what this task waits for, once told.
    #[must_use]
    pub fn prompt_of(&self, window: WindowId) -> Option<&Prompt> {
        self.watched
            .get(&window)
            .and_then(|watched| match watched.state {
                State::Told => Some(&watched.found.prompt),
                State::Candidate { .. } => None,
            })
    }

    /// Returns when the next look can tell a prompt that stands and is not told yet.
    #[must_use]
    pub fn next_deadline(&self, quiet: Duration) -> Option<Instant> {
        let since = self
            .watched
            .values()
            .filter_map(|watched| match watched.state {
                State::Candidate { since } => Some(since + quiet),
                State::Told => None,
            });
        since.min()
    }
}

/// Returns what to watch of this task from here on.
fn admit_task(
    before: Option<Watched>,
    task: &Task,
    quiet: Duration,
    now: Now,
    events: &mut Vec<Event>,
) -> Option<Watched> {
    let Some(found) = find(task) else {
        let before = before?;
        if is_known(task) || task.is_new_run_after(&before.task) {
            resolve(before, events);
            return None;
        }
        return unseen(before, task);
    };
    let watch = |state| {
        Some(Watched {
            task: task.clone(),
            found: found.clone(),
            state,
        })
    };
    let fresh = State::Candidate { since: now.mono };
    let Some(before) = before else {
        return watch(fresh);
    };
    if !goes_on(&before, task, &found) {
        resolve(before, events);
        return watch(fresh);
    }
    match before.state {
        State::Told => watch(State::Told),
        // The output moved: quiet begins anew.
        State::Candidate { .. } if before.task.screen.rows != task.screen.rows => watch(fresh),
        State::Candidate { since } if now.mono < since + quiet => watch(before.state),
        State::Candidate { .. } => {
            let kind = EventKind::Input {
                prompt: found.prompt.clone(),
            };
            events.push(Event {
                kind,
                task: task.clone(),
            });
            watch(State::Told)
        }
    }
}

/// Nothing is known of the pane: what was told may stand still, but two looks in a row it is not.
fn unseen(before: Watched, task: &Task) -> Option<Watched> {
    match before.state {
        State::Told => Some(Watched {
            task: Task {
                screen: before.task.screen,
                ..task.clone()
            },
            ..before
        }),
        State::Candidate { .. } => None,
    }
}

/// Whether the look tells if the task waits: of its pane nothing may be known, and a dead one
/// waits for nobody.
fn is_known(task: &Task) -> bool {
    match task.life {
        Life::Unknown => false,
        Life::Alive => task.pane.is_some(),
        Life::Dead(_) => true,
    }
}

fn find(task: &Task) -> Option<Found> {
    if task.is_alive() && is_known(task) {
        prompt::find(&task.screen)
    } else {
        None
    }
}

/// Whether the prompt that `task` shows is the one that stood there before.
fn goes_on(before: &Watched, task: &Task, found: &Found) -> bool {
    !task.is_new_run_after(&before.task)
        && before.found.prompt == found.prompt
        && !anew::written_anew(
            (&before.task.screen, before.found.row),
            (&task.screen, found.row),
        )
}

fn resolve(watched: Watched, events: &mut Vec<Event>) {
    match watched.state {
        State::Told => {
            let kind = EventKind::InputResolved {
                prompt: watched.found.prompt,
            };
            events.push(Event {
                kind,
                task: watched.task,
            });
        }
        State::Candidate { .. } => {}
    }
}

#[cfg(test)]
mod tests;

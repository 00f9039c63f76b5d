//! What "already told" means for a task that waits: one `input` per episode.
//!
//! An episode begins when the same prompt stands on an unchanged screen in two looks. It ends when
//! the prompt is gone, when it was asked again, or with the run. Where the kernel shows the call in
//! which a thread reads the terminal, one call belongs to one episode at most: a program that
//! prints while its call goes on has asked nothing by that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::{
    Event, EventKind, Life, Now, Prompt, PromptKind, ReadCall, Screen, Snapshot, Task, TtyEvidence,
    WindowId,
};
use crate::prompt::{self, Found, Judgement, UserRules};

mod call;
mod echo;
mod reprompt;

use call::Call;
use echo::AnswerPlace;

/// The prompts of every task, across looks.
#[derive(Debug, Clone, Default)]
pub struct Episodes {
    seen: BTreeMap<WindowId, Seen>,
    watched: BTreeMap<WindowId, Watched>,
    teaching: UserRules,
}

/// What the last look showed of a task. Judging takes a while, so it is done when something has
/// changed.
#[derive(Debug, Clone)]
struct Seen {
    screen: Screen,
    terminal: Option<Arc<TtyEvidence>>,
    judgement: Option<Judgement>,
    /// The first look at these very rows.
    since: Instant,
    /// Whether another look has found them the same.
    is_still: bool,
    /// The call in which the terminal is read, since it was first seen.
    call: Option<Call>,
    /// Where the answer to what is asked, or was asked last, would be typed.
    place: Option<AnswerPlace>,
}

impl Seen {
    /// The call in which the terminal is read, as this look shows it.
    fn read(&self) -> Option<ReadCall> {
        self.terminal.as_ref()?.read
    }

    /// Takes note that the call in which the terminal is read was told as waiting.
    fn note_told(&mut self, watched: &Watched) {
        let read = self.read();
        if let (State::Told { .. }, Some(call)) = (watched.state, &mut self.call)
            && call::is_same(watched.read, read)
        {
            call.is_told = true;
        }
    }

    /// A call that goes on asks once at most, and only by what stood there when it began.
    fn judge_by_call(&mut self, before: Option<&Watched>, task: &Task) {
        let is_told = before.is_some_and(|before| match before.state {
            State::Told { .. } => call::is_same(before.read, self.read()),
            State::Candidate { .. } => false,
        });
        if is_told || self.read().is_none() {
            return;
        }
        let (Some(call), Some(judgement)) = (&self.call, &mut self.judgement) else {
            return;
        };
        if let Some(found) = &judgement.found
            && call.was_not_asked(found, &task.screen)
        {
            judgement.found = None;
            judgement.is_settled = true;
            judgement.rule = "printed while the same read goes on";
        }
    }

    /// Whether a look shows just the same once more, and that asks nothing.
    fn asks_nothing_still(&self, task: &Task, terminal: Option<&Arc<TtyEvidence>>) -> bool {
        let is_open = task.is_alive() && is_known(task);
        let asks = self
            .judgement
            .as_ref()
            .is_some_and(|judged| judged.found.is_some());
        self.is_still
            && !asks
            && self.judgement.is_some() == is_open
            && self.terminal.as_ref() == terminal
            && self.screen == task.screen
    }
}

/// A prompt that stands on a task's screen.
#[derive(Debug, Clone)]
struct Watched {
    /// The task as it was when the prompt was last seen.
    task: Arc<Task>,
    found: Found,
    state: State,
    /// The call in which the terminal was read when it was told, or a later one that goes on while
    /// it stands.
    read: Option<ReadCall>,
    /// Whether the terminal could be asked.
    is_by_terminal: bool,
}

/// How far an episode has come.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Seen, and not told yet. `since` is the first look at this very screen.
    Candidate { since: Instant },
    /// Told as `input`, at `since`.
    Told { since: Option<Now> },
}

impl Episodes {
    /// Goes by what a user has taught.
    pub fn teach(&mut self, teaching: UserRules) {
        self.teaching = teaching;
    }

    /// Returns the `input` and `inputResolved` events that this look brings.
    ///
    /// The screen must have stood for `quiet`, and through two looks at least.
    pub fn admit(&mut self, look: &Snapshot, quiet: Duration, now: Now) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.seen.keys().eq(look.tasks.keys()) {
            self.seen
                .retain(|window, _| look.tasks.contains_key(window));
        }
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
            let terminal = look.terminals.get(&task.window);
            let seen = self.seen.get_mut(&task.window);
            let same = seen.filter(|seen| seen.asks_nothing_still(task, terminal));
            if let (Some(seen), None) = (same, &before) {
                // Shared, so that the next comparison is quick.
                seen.screen = task.screen.clone();
                continue;
            }
            let last = self.seen.remove(&task.window);
            let place = last.as_ref().and_then(|last| last.place.clone());
            let mut seen = see(last, task, terminal, &self.teaching, now);
            seen.judge_by_call(before.as_ref(), task);
            let evidence = terminal.map(Arc::as_ref);
            let judgement = seen.judgement.as_mut();
            seen.place = echo::follow(place.as_ref(), task, evidence, judgement);
            let found = seen
                .judgement
                .as_ref()
                .and_then(|judgement| judgement.found.clone())
                .filter(|found| !self.teaching.mutes(task, &found.prompt))
                .or_else(|| still_stands(before.as_ref()?, task, terminal));
            let turn = Turn {
                task,
                found,
                seen: &seen,
                quiet,
                now,
            };
            if let Some(watched) = turn.admit(before, &mut events) {
                seen.note_told(&watched);
                self.watched.insert(task.window, watched);
            }
            self.seen.insert(task.window, seen);
        }
        events
    }

    /// Forgets every prompt, telling the end of those that had been told.
    pub fn end_all(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.seen.clear();
        for watched in std::mem::take(&mut self.watched).into_values() {
            resolve(watched, &mut events);
        }
        events
    }

    /// Takes up an episode that was told before a restart, as `task` showed it then.
    pub fn restore(&mut self, task: Task, prompt: Prompt) {
        let found = prompt::find(&task.screen)
            .filter(|found| found.prompt.text == prompt.text)
            .unwrap_or(Found {
                prompt,
                row: usize::MAX,
                is_asked: true,
                stands_for: Duration::ZERO,
            });
        self.watched.insert(
            task.window,
            Watched {
                task: Arc::new(task),
                found,
                state: State::Told { since: None },
                read: None,
                is_by_terminal: false,
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
                State::Told { .. } => Some(&watched.found.prompt),
                State::Candidate { .. } => None,
            })
    }

    /// Returns since when this task has been told as waiting; `None` where it is not, or where
    /// it was told before a restart.
    #[must_use]
    pub fn told_since(&self, window: WindowId) -> Option<Now> {
        self.watched
            .get(&window)
            .and_then(|watched| match watched.state {
                State::Told { since } => since,
                State::Candidate { .. } => None,
            })
    }

    /// Returns how the last look at this task was judged.
    #[must_use]
    pub fn judgement_of(&self, window: WindowId) -> Option<&Judgement> {
        self.seen.get(&window)?.judgement.as_ref()
    }

    /// Returns since when this task's rows have stood unchanged.
    #[must_use]
    pub fn still_since(&self, window: WindowId) -> Option<Instant> {
        self.seen.get(&window).map(|seen| seen.since)
    }

    /// Returns for how long this task has shown nothing new, where that is `after` at least and
    /// nothing tells whether it waits or works.
    #[must_use]
    pub fn stalled_for(&self, window: WindowId, after: Duration, now: Now) -> Option<Duration> {
        let seen = self.seen.get(&window)?;
        let stood = now.mono.saturating_duration_since(seen.since);
        let is_open = || {
            !self.is_waiting(window)
                && seen
                    .judgement
                    .as_ref()
                    .is_some_and(|judgement| judgement.leaves_open(&seen.screen))
        };
        (stood >= after && is_open()).then_some(stood)
    }

    /// Returns what users have taught.
    #[must_use]
    pub fn teaching(&self) -> &UserRules {
        &self.teaching
    }

    /// Returns when the next look can tell a prompt that stands and is not told yet.
    #[must_use]
    pub fn next_deadline(&self, quiet: Duration) -> Option<Instant> {
        let since = self
            .watched
            .values()
            .filter_map(|watched| match watched.state {
                State::Candidate { since } => Some(since + quiet.max(watched.found.stands_for)),
                State::Told { .. } => None,
            });
        since.min()
    }
}

/// Takes note of what a look shows of a task.
fn see(
    before: Option<Seen>,
    task: &Arc<Task>,
    terminal: Option<&Arc<TtyEvidence>>,
    teaching: &UserRules,
    now: Now,
) -> Seen {
    let is_open = task.is_alive() && is_known(task);
    let evidence = terminal.map(Arc::as_ref);
    let judge = || is_open.then(|| prompt::judge(&task.screen, evidence, teaching));
    let call = call::follow(
        before.as_ref().and_then(|before| before.call.as_ref()),
        task,
        evidence,
    );
    match before {
        Some(before) if before.screen.has_rows_of(&task.screen) => {
            let is_same = before.screen == task.screen
                && before.terminal.as_ref() == terminal
                && before.judgement.is_some() == is_open;
            Seen {
                judgement: if is_same { before.judgement } else { judge() },
                screen: task.screen.clone(),
                terminal: terminal.cloned(),
                since: before.since,
                is_still: true,
                call,
                place: None,
            }
        }
        Some(_) | None => Seen {
            judgement: judge(),
            screen: task.screen.clone(),
            terminal: terminal.cloned(),
            since: now.mono,
            is_still: false,
            call,
            place: None,
        },
    }
}

/// One task at one look.
struct Turn<'a> {
    task: &'a Arc<Task>,
    found: Option<Found>,
    seen: &'a Seen,
    quiet: Duration,
    now: Now,
}

impl Turn<'_> {
    /// Returns what to watch of this task from here on.
    fn admit(self, before: Option<Watched>, events: &mut Vec<Event>) -> Option<Watched> {
        if let Some(before) = &before
            && self.is_unknown_reader(before)
        {
            return unseen(before.clone(), self.task);
        }
        let Some(found) = &self.found else {
            let before = before?;
            if is_known(self.task) || self.task.is_new_run_after(&before.task) {
                resolve(before, events);
                return None;
            }
            return unseen(before, self.task);
        };
        let watch = |found: &Found, state, read| {
            Some(Watched {
                task: Arc::clone(self.task),
                found: found.clone(),
                state,
                read,
                is_by_terminal: self.seen.terminal.is_some(),
            })
        };
        let told = match before {
            Some(before) if self.goes_on(&before, found) => match before.state {
                State::Told { .. } => {
                    // Who types changes the row, not the question.
                    let found = Found {
                        prompt: before.found.prompt,
                        ..found.clone()
                    };
                    let read = self.seen.call.as_ref().and_then(Call::for_certain);
                    return watch(&found, before.state, read.or(before.read));
                }
                State::Candidate { .. } => self.is_due(),
            },
            Some(before) => {
                resolve(before, events);
                false
            }
            // Evidence comes for screens that have stood already.
            None => self.seen.terminal.is_some() && self.is_due(),
        };
        if !told {
            return watch(
                found,
                State::Candidate {
                    since: self.seen.since,
                },
                None,
            );
        }
        let kind = EventKind::Input {
            prompt: found.prompt.clone(),
        };
        events.push(Event {
            kind,
            task: Task::clone(self.task),
        });
        watch(
            found,
            State::Told {
                since: Some(self.now),
            },
            self.seen.read(),
        )
    }

    fn is_due(&self) -> bool {
        let stands_for = self
            .found
            .as_ref()
            .map_or(Duration::ZERO, |found| found.stands_for);
        self.seen.is_still && self.now.mono >= self.seen.since + self.quiet.max(stands_for)
    }

    /// Whether what was told by what the terminal said can be neither confirmed nor denied: the
    /// terminal could not be asked, as while a person scrolls.
    fn is_unknown_reader(&self, before: &Watched) -> bool {
        let is_told = match before.state {
            State::Told { .. } => true,
            State::Candidate { .. } => false,
        };
        is_told
            && before.is_by_terminal
            && self.seen.terminal.is_none()
            && self.task.is_alive()
            && !self.task.is_new_run_after(&before.task)
    }

    /// Whether a pager or an editor that fills the screen goes on: what its last row says is no
    /// question of its own.
    fn is_same_page(&self, before: &Watched, found: &Found) -> bool {
        let kind = found.prompt.kind;
        matches!(kind, PromptKind::Pager | PromptKind::Editor)
            && before.found.prompt.kind == kind
            && before.task.screen.alternate == Some(true)
            && self.task.screen.alternate == Some(true)
    }

    /// Whether the prompt that the task shows is the one that stood there before, perhaps with a
    /// part of the answer behind it.
    fn goes_on(&self, before: &Watched, found: &Found) -> bool {
        if self.task.is_new_run_after(&before.task) {
            return false;
        }
        let read = self.seen.read();
        let is_told = match before.state {
            State::Told { .. } => true,
            State::Candidate { .. } => false,
        };
        // Nobody has answered, whatever was printed meanwhile.
        let goes_on = call::is_same(before.read, read)
            || (call::was_interrupted(before.read, read) && !found.is_asked);
        if is_told && goes_on {
            return true;
        }
        if self.is_same_page(before, found) {
            return true;
        }
        let (old, new) = (&before.found.prompt.text, &found.prompt.text);
        let is_same = old == new || (!old.is_empty() && new.starts_with(old.as_str()));
        let shown = reprompt::Shown {
            before: (&before.task.screen, before.found.row),
            after: (&self.task.screen, found.row),
        };
        let gathers_lines =
            (self.seen.terminal.as_ref()).is_some_and(|terminal| terminal.canonical == Some(true));
        // Where keys are taken at once, each one ends a call.
        let calls = before.read.zip(read).filter(|_| gathers_lines);
        is_same && !shown.is_asked_again(calls)
    }
}

/// Nothing is known of the pane: what was told may stand still, but two looks in a row it is not.
fn unseen(before: Watched, task: &Task) -> Option<Watched> {
    match before.state {
        State::Told { .. } => Some(Watched {
            task: Arc::new(Task {
                screen: before.task.screen.clone(),
                ..task.clone()
            }),
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

/// Without a cursor and without evidence, what was told stands while its very row is there: a
/// clock may have been drawn below it.
fn still_stands(
    before: &Watched,
    task: &Task,
    terminal: Option<&Arc<TtyEvidence>>,
) -> Option<Found> {
    let is_told = match before.state {
        State::Told { .. } => true,
        State::Candidate { .. } => false,
    };
    let is_blind = terminal.is_none() && task.screen.cursor.is_none();
    if !is_told || !is_blind || !task.is_alive() || !is_known(task) {
        return None;
    }
    let asked = before.task.screen.rows.get(before.found.row)?;
    let row = task.screen.rows.iter().rposition(|row| row == asked)?;
    Some(Found {
        row,
        ..before.found.clone()
    })
}

fn resolve(watched: Watched, events: &mut Vec<Event>) {
    match watched.state {
        State::Told { .. } => {
            let kind = EventKind::InputResolved {
                prompt: watched.found.prompt,
            };
            events.push(Event {
                kind,
                task: Arc::unwrap_or_clone(watched.task),
            });
        }
        State::Candidate { .. } => {}
    }
}

#[cfg(test)]
mod tests;

//! Reports each episode of waiting once: one `input`, and one `inputResolved` at its end.
//!
//! An episode begins when the same prompt is on an unchanged screen at two looks, or is unchanged
//! itself while other rows move. It ends when the prompt was answered or is gone, or with the run.
//! Whether it was answered is known where the kernel shows that input was read: as long as nothing was
//! read, the same words are the same question, however often and wherever they are drawn. Where that is
//! not known, the screen decides. One call of `read` belongs to at most one episode: text printed
//! during the call is not a question.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::{
    Event, EventKind, Life, Now, OpenQuestion, Prompt, PromptKind, ReadCall, Screen, Snapshot,
    Task, TtyEvidence, WindowId, has_same_words, without_animation,
};
use crate::prompt::{self, Judgement, PromptMatch, UserRules};

mod answer_echo;
mod ongoing_read;
mod question;
mod reprompt;

use answer_echo::AnswerPlace;
use ongoing_read::OngoingRead;
use question::StillRows;

/// How long the rows that ask must have been the same on a screen that is never unchanged for long,
/// before their prompt is reported.
const STILL_BESIDE: Duration = Duration::from_millis(1500);

/// The episodes of all tasks, across looks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Episodes {
    last_look: BTreeMap<WindowId, LastLook>,
    episodes: BTreeMap<WindowId, Episode>,
    user_rules: UserRules,
}

/// The last look at a task, with its judgement. Judging is slow, so it is repeated only when
/// something has changed.
#[derive(Debug, Clone)]
struct LastLook {
    screen: Screen,
    terminal: Option<Arc<TtyEvidence>>,
    judgement: Option<Judgement>,
    /// The first look at these rows.
    since: Instant,
    /// Whether a later look had the same rows.
    is_still: bool,
    /// The rows that ask, or all where none do.
    still: StillRows,
    /// Whether there are rows that ask, or may ask.
    may_ask: bool,
    /// The call in which the terminal is read, and since when.
    call: Option<OngoingRead>,
    /// Where the answer to the present or the last question would be typed.
    place: Option<AnswerPlace>,
}

impl LastLook {
    /// Returns the call in which the terminal is read at this look.
    fn read(&self) -> Option<ReadCall> {
        self.terminal.as_ref()?.read
    }

    /// Returns the number that rises when input was read, as of this look.
    fn n_reads(&self) -> Option<u64> {
        self.terminal.as_ref()?.n_reads
    }

    /// Marks the call in which the terminal is read as reported, if the episode was reported for
    /// it.
    fn note_reported(&mut self, episode: &Episode) {
        let read = self.read();
        if let (Phase::Reported { .. }, Some(call)) = (episode.state, &mut self.call)
            && ongoing_read::is_same(episode.read, read)
        {
            call.is_reported = true;
        }
    }

    /// Applies the rule that a call asks at most once, and only by text that was there when it
    /// began.
    fn judge_by_call(&mut self, before: Option<&Episode>, task: &Task) {
        let is_reported = before.is_some_and(|before| match before.state {
            Phase::Reported { .. } => ongoing_read::is_same(before.read, self.read()),
            Phase::Candidate { .. } => false,
        });
        if is_reported || self.read().is_none() {
            return;
        }
        let (Some(call), Some(judgement)) = (&self.call, &mut self.judgement) else {
            return;
        };
        if let Some(found) = &judgement.found
            && call.does_not_own(found, &task.screen)
        {
            judgement.found = None;
            judgement.is_settled = true;
            judgement.rule = "printed during the same call of read";
        }
    }

    /// Whether another look shows the same, and that is not a question.
    fn is_unchanged_without_prompt(
        &self,
        task: &Task,
        terminal: Option<&Arc<TtyEvidence>>,
    ) -> bool {
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

/// A prompt on a task's screen, reported or not.
#[derive(Debug, Clone)]
struct Episode {
    /// The task at the last look at which the prompt was there.
    task: Arc<Task>,
    found: PromptMatch,
    state: Phase,
    /// The call in which the terminal was read when it was reported, or a later one of the same
    /// episode.
    read: Option<ReadCall>,
    /// The number that rises when input was read, at that time.
    n_reads: Option<u64>,
    /// Whether there was evidence on the terminal.
    is_by_terminal: bool,
    /// Whether the terminal was in line mode: then what was read is an answer.
    takes_lines: bool,
}

impl Episode {
    fn is_reported(&self) -> bool {
        match self.state {
            Phase::Reported { .. } => true,
            Phase::Candidate { .. } => false,
        }
    }
}

/// The phase of an episode.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Not reported yet. `since` is the first look at this screen. `due_beside` is when it can be
    /// reported although rows beside it move; `None` where it cannot.
    Candidate {
        since: Instant,
        due_beside: Option<Instant>,
    },
    /// Reported as `input`, at `since`; `None` if that was before a restart. If it has gone from the
    /// screen although nothing was read, it may be drawn again: until `gone_by` it is not resolved.
    Reported {
        since: Option<Now>,
        gone_by: Option<Instant>,
    },
}

impl Episodes {
    /// Sets the user's rules.
    pub(crate) fn set_user_rules(&mut self, user_rules: UserRules) {
        self.user_rules = user_rules;
    }

    /// Returns the `input` and `inputResolved` events of this look.
    ///
    /// The screen must be unchanged for `quiet`, and at two looks at least.
    pub(crate) fn admit(&mut self, look: &Snapshot, quiet: Duration, now: Now) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.last_look.keys().eq(look.tasks.keys()) {
            self.last_look
                .retain(|window, _| look.tasks.contains_key(window));
        }
        let gone: Vec<Episode> = self
            .episodes
            .extract_if(.., |window, _| !look.tasks.contains_key(window))
            .map(|(_, episode)| episode)
            .collect();
        for episode in gone {
            resolve(episode, &mut events);
        }
        for task in look.tasks.values() {
            let before = self.episodes.remove(&task.window);
            let terminal = look.terminals.get(&task.window);
            let last_look = self.last_look.get_mut(&task.window);
            let same =
                last_look.filter(|last_look| last_look.is_unchanged_without_prompt(task, terminal));
            if let (Some(last_look), None) = (same, &before) {
                // Shared, which makes the next comparison fast.
                last_look.screen = task.screen.clone();
                continue;
            }
            let last = self.last_look.remove(&task.window);
            let place = last.as_ref().and_then(|last| last.place.clone());
            let still = last.as_ref().map(|last| last.still.clone());
            let n_reads = last.as_ref().and_then(LastLook::n_reads);
            let mut last_look = see(last, task, terminal, &self.user_rules, now);
            last_look.judge_by_call(before.as_ref(), task);
            let evidence = terminal.map(Arc::as_ref);
            let judgement = last_look.judgement.as_mut();
            last_look.place = answer_echo::follow(place.as_ref(), task, evidence, judgement);
            let judged = last_look.judgement.as_ref();
            let found = judged.and_then(|judged| judged.found.as_ref());
            let asking = found.map(|found| found.rows.clone());
            // Whether it asks is known only once its terminal was examined.
            let possible = || {
                judged
                    .filter(|judged| terminal.is_none() && judged.found.is_none())
                    .and_then(|_| prompt::rows_if_keys_are_read(&task.screen))
            };
            let asking = asking.or_else(possible).unwrap_or_default();
            last_look.may_ask = !asking.is_empty();
            let reads = n_reads.zip(last_look.n_reads());
            let was_read = reads.map(|(before, after)| before != after);
            last_look.still = StillRows::follow(still, &task.screen, asking, was_read, now.mono);
            let found = last_look
                .judgement
                .as_ref()
                .and_then(|judgement| judgement.found.clone())
                .filter(|found| !self.user_rules.mutes(task, &found.prompt))
                .or_else(|| is_still_on_screen(before.as_ref()?, task, terminal));
            let task_look = TaskLook {
                task,
                found,
                last_look: &last_look,
                reads_before: n_reads,
                quiet,
                now,
            };
            if let Some(episode) = task_look.admit(before, &mut events) {
                last_look.note_reported(&episode);
                self.episodes.insert(task.window, episode);
            }
            self.last_look.insert(task.window, last_look);
        }
        events
    }

    /// Ends all episodes. Returns the `inputResolved` events of those that were reported.
    pub(crate) fn end_all(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.last_look.clear();
        for episode in std::mem::take(&mut self.episodes).into_values() {
            resolve(episode, &mut events);
        }
        events
    }

    /// Restores an episode that was reported before a restart, with the task as it was then.
    pub(crate) fn restore(&mut self, task: Task, prompt: Prompt) {
        let found = prompt::find(&task.screen)
            .filter(|found| found.prompt.text == prompt.text)
            .unwrap_or(PromptMatch {
                prompt,
                row: usize::MAX,
                rows: 0..0,
                is_question: true,
                still_for: Duration::ZERO,
            });
        self.episodes.insert(
            task.window,
            Episode {
                task: Arc::new(task),
                found,
                state: Phase::Reported {
                    since: None,
                    gone_by: None,
                },
                read: None,
                n_reads: None,
                is_by_terminal: false,
                takes_lines: false,
            },
        );
    }

    /// Returns what the tasks ask or may ask, and what was reported.
    #[must_use]
    pub(crate) fn open_questions(&self) -> BTreeMap<WindowId, OpenQuestion> {
        let question = |(window, look): (&WindowId, &LastLook)| {
            let rows = look.may_ask.then(|| Arc::clone(&look.still.rows));
            let is_reported = self.is_waiting(*window);
            let question = OpenQuestion {
                is_reported,
                rows: rows.clone().unwrap_or_default(),
            };
            (is_reported || rows.is_some()).then_some((*window, question))
        };
        self.last_look.iter().filter_map(question).collect()
    }

    /// Whether this task was reported as waiting and still waits.
    #[must_use]
    pub(crate) fn is_waiting(&self, window: WindowId) -> bool {
        self.prompt_of(window).is_some()
    }

    /// Returns the reported prompt that this task waits at.
    #[must_use]
    pub(crate) fn prompt_of(&self, window: WindowId) -> Option<&Prompt> {
        self.episodes
            .get(&window)
            .and_then(|episode| match episode.state {
                Phase::Reported { .. } => Some(&episode.found.prompt),
                Phase::Candidate { .. } => None,
            })
    }

    /// Returns since when this task has been reported as waiting; `None` where it is not, or where
    /// it was reported before a restart.
    #[must_use]
    pub(crate) fn reported_since(&self, window: WindowId) -> Option<Now> {
        self.episodes
            .get(&window)
            .and_then(|episode| match episode.state {
                Phase::Reported { since, .. } => since,
                Phase::Candidate { .. } => None,
            })
    }

    /// Returns the judgement of the last look at this task.
    #[must_use]
    pub(crate) fn judgement_of(&self, window: WindowId) -> Option<&Judgement> {
        self.last_look.get(&window)?.judgement.as_ref()
    }

    /// Returns since when this task's rows are unchanged.
    #[must_use]
    pub(crate) fn still_since(&self, window: WindowId) -> Option<Instant> {
        self.last_look.get(&window).map(|last_look| last_look.since)
    }

    /// Returns how long this task's rows are unchanged, if that is at least `after` and no evidence
    /// says whether the task waits or works.
    #[must_use]
    pub(crate) fn stalled_for(
        &self,
        window: WindowId,
        after: Duration,
        now: Now,
    ) -> Option<Duration> {
        let last_look = self.last_look.get(&window)?;
        let still_for = now.mono.saturating_duration_since(last_look.since);
        let is_open = || {
            !self.is_waiting(window)
                && last_look
                    .judgement
                    .as_ref()
                    .is_some_and(|judgement| judgement.leaves_open(&last_look.screen))
        };
        (still_for >= after && is_open()).then_some(still_for)
    }

    /// Returns the user's rules.
    #[must_use]
    pub(crate) fn user_rules(&self) -> &UserRules {
        &self.user_rules
    }

    /// Returns when the next look can report a prompt, or that one has gone.
    #[must_use]
    pub(crate) fn next_deadline(&self, quiet: Duration) -> Option<Instant> {
        self.candidates(quiet).map(|(_, due)| due).min()
    }

    /// Returns the tasks of which a look can now report a prompt, or that one has gone.
    pub(crate) fn due(&self, quiet: Duration, now: Instant) -> impl Iterator<Item = WindowId> {
        let due = self.candidates(quiet).filter(move |(_, due)| *due <= now);
        due.map(|(window, _)| window)
    }

    /// Returns the tasks with a prompt that is not reported yet, and when it can be, and those of which
    /// a reported prompt may have gone, and when that is certain.
    fn candidates(&self, quiet: Duration) -> impl Iterator<Item = (WindowId, Instant)> {
        let due = move |episode: &Episode| match episode.state {
            Phase::Candidate { since, due_beside } => {
                let due = since + quiet.max(episode.found.still_for);
                Some(due_beside.map_or(due, |beside| beside.min(due)))
            }
            Phase::Reported { gone_by, .. } => gone_by,
        };
        let episodes = self.episodes.iter();
        episodes.filter_map(move |(window, episode)| Some((*window, due(episode)?)))
    }
}

/// Returns the look at a task, with its judgement.
fn see(
    before: Option<LastLook>,
    task: &Arc<Task>,
    terminal: Option<&Arc<TtyEvidence>>,
    user_rules: &UserRules,
    now: Now,
) -> LastLook {
    let is_open = task.is_alive() && is_known(task);
    let evidence = terminal.map(Arc::as_ref);
    let judge = || is_open.then(|| prompt::judge_task(task, evidence, user_rules));
    let call = ongoing_read::follow(
        before.as_ref().and_then(|before| before.call.as_ref()),
        task,
        evidence,
    );
    // What asks is known only after the judgement.
    let still = |since| StillRows::all(&task.screen, since);
    match before {
        Some(before)
            if before.screen.has_rows_of(&task.screen)
                && !is_printing(&before.screen, &task.screen, terminal) =>
        {
            let is_same = before.screen == task.screen
                && before.terminal.as_ref() == terminal
                && before.judgement.is_some() == is_open;
            LastLook {
                judgement: if is_same { before.judgement } else { judge() },
                screen: task.screen.clone(),
                terminal: terminal.cloned(),
                since: before.since,
                is_still: true,
                still: before.still,
                may_ask: false,
                call,
                place: None,
            }
        }
        Some(_) | None => LastLook {
            judgement: judge(),
            screen: task.screen.clone(),
            terminal: terminal.cloned(),
            since: now.mono,
            is_still: false,
            still: still(now.mono),
            may_ask: false,
            call,
            place: None,
        },
    }
}

/// Whether a program goes on printing, although all rows are alike: the cursor moves, and nothing is
/// known of the terminal yet.
fn is_printing(before: &Screen, after: &Screen, terminal: Option<&Arc<TtyEvidence>>) -> bool {
    let cursors = before.cursor.zip(after.cursor);
    terminal.is_none() && cursors.is_some_and(|(before, after)| before != after)
}

/// One task at one look.
struct TaskLook<'a> {
    task: &'a Arc<Task>,
    found: Option<PromptMatch>,
    last_look: &'a LastLook,
    /// The number that rises when input was read, as of the look before. What was read since may have
    /// been read after this look's screen was.
    reads_before: Option<u64>,
    quiet: Duration,
    now: Now,
}

impl TaskLook<'_> {
    /// Returns the episode of this task after this look, and adds its events.
    fn admit(self, before: Option<Episode>, events: &mut Vec<Event>) -> Option<Episode> {
        if let Some(before) = &before
            && self.lacks_evidence(before)
        {
            return without_evidence(before.clone(), self.task);
        }
        let Some(found) = &self.found else {
            let before = before?;
            if self.is_being_redrawn(&before) || self.is_still_open(&before) {
                return without_evidence(before, self.task);
            }
            if let Some(kept) = self.until_gone(&before) {
                return Some(kept);
            }
            if is_known(self.task) || self.task.is_new_run_after(&before.task) {
                resolve(before, events);
                return None;
            }
            return without_evidence(before, self.task);
        };
        let watch = |found: &PromptMatch, state, read, n_reads| {
            Some(Episode {
                task: Arc::clone(self.task),
                found: found.clone(),
                state,
                read,
                n_reads,
                is_by_terminal: self.last_look.terminal.is_some(),
                takes_lines: self.takes_lines(),
            })
        };
        let is_reported = match before {
            Some(before) if self.continues(&before, found) => match before.state {
                Phase::Reported { since, .. } => {
                    // Typing changes the row, not the question.
                    let found = PromptMatch {
                        prompt: before.found.prompt,
                        ..found.clone()
                    };
                    let read = self
                        .last_look
                        .call
                        .as_ref()
                        .and_then(OngoingRead::for_certain);
                    let n_reads = self.reads_before.or(before.n_reads);
                    let state = Phase::Reported {
                        since,
                        gone_by: None,
                    };
                    return watch(&found, state, read.or(before.read), n_reads);
                }
                Phase::Candidate { .. } => self.is_due(),
            },
            before => {
                if let Some(before) = before {
                    if let Some(kept) = self.until_gone(&before) {
                        return Some(kept);
                    }
                    resolve(before, events);
                }
                // There is evidence only for screens that are unchanged, or changed beside what asks.
                self.last_look.terminal.is_some() && self.owns_screen(found) && self.is_due()
            }
        };
        if !is_reported {
            return watch(
                found,
                Phase::Candidate {
                    since: self.last_look.since,
                    due_beside: self.due_beside(found),
                },
                None,
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
            Phase::Reported {
                since: Some(self.now),
                gone_by: None,
            },
            self.last_look.read(),
            self.last_look.n_reads(),
        )
    }

    /// Whether the screen certainly has what was printed before the call that reads the terminal.
    /// A look reads the screen first and the process second, so a prompt may have been printed in
    /// between. Another look, at once, shows it.
    fn owns_screen(&self, found: &PromptMatch) -> bool {
        let call = self.last_look.call.as_ref();
        found.is_question || call.is_some_and(|call| call.for_certain().is_some())
    }

    fn is_due(&self) -> bool {
        let still_for = self
            .found
            .as_ref()
            .map_or(Duration::ZERO, |found| found.still_for);
        let is_still_due = self.last_look.is_still
            && self.now.mono >= self.last_look.since + self.quiet.max(still_for);
        let beside = || self.due_beside(self.found.as_ref()?);
        is_still_due || beside().is_some_and(|due| due <= self.now.mono)
    }

    /// Returns when a prompt can be reported although other rows move; `None` where it cannot. The
    /// program may be at work, so the kernel has to show that it takes input, and the words or the
    /// list that it asks for some.
    fn due_beside(&self, found: &PromptMatch) -> Option<Instant> {
        let terminal = self.last_look.terminal.as_ref()?;
        let still_for = self.quiet.max(STILL_BESIDE).max(found.still_for);
        (terminal.reader.takes_input() && found.is_question && prompt::asks_beside(found))
            .then(|| self.last_look.still.since + still_for)
    }

    /// Whether an episode that was reported by evidence on the terminal can be neither confirmed
    /// nor denied, because there is no evidence now, for example while a user scrolls.
    fn lacks_evidence(&self, before: &Episode) -> bool {
        before.is_reported()
            && before.is_by_terminal
            && self.last_look.terminal.is_none()
            && self.task.is_alive()
            && !self.task.is_new_run_after(&before.task)
    }

    /// Whether the reported prompt has just been drawn again with lower numbers. A program that
    /// counts down does not read while it draws, so only a later look shows if it still waits.
    fn is_being_redrawn(&self, before: &Episode) -> bool {
        let row = before.found.row;
        let (old, new) = (&before.task.screen, &self.task.screen);
        let (Some(old_row), Some(new_row)) = (old.rows.get(row), new.rows.get(row)) else {
            return false;
        };
        let shown = reprompt::PromptComparison {
            before: (old, row),
            after: (new, row),
        };
        before.is_reported()
            && self.task.is_alive()
            && !self.task.is_new_run_after(&before.task)
            && !self.last_look.is_still
            && shown.counts_down(old_row, new_row)
    }

    /// Whether the reported prompt is still on the screen, although the cursor has left it, and the
    /// program still takes input and has read none: it printed something without drawing the prompt
    /// again.
    fn is_still_open(&self, before: &Episode) -> bool {
        let terminal = self.last_look.terminal.as_ref();
        let asked = before.found.prompt.text.as_str();
        before.is_reported()
            && before.found.is_question
            && self.task.is_alive()
            && !self.task.is_new_run_after(&before.task)
            && terminal.is_some_and(|terminal| terminal.reader.takes_input())
            && self.has_read_since(before) == Some(false)
            && !asked.is_empty()
            && (self.task.screen.rows[self.task.screen.first_visible()..].iter())
                .any(|row| row.contains(asked))
    }

    /// Returns a reported prompt that is not on the screen, as long as the program may only be drawing
    /// it again: nothing was read, or keys, which may also be what the terminal reports of itself.
    fn until_gone(&self, before: &Episode) -> Option<Episode> {
        let Phase::Reported { since, gone_by } = before.state else {
            return None;
        };
        if !self.task.is_alive() || self.task.is_new_run_after(&before.task) {
            return None;
        }
        let terminal = self.last_look.terminal.as_ref()?;
        let redraw = match self.has_read_since(before)? {
            true if before.takes_lines && self.takes_lines() => return None,
            false if self.found.is_none() && terminal.reader.takes_input() => STILL_BESIDE,
            true | false => self.quiet,
        };
        let due = self.now.mono + redraw;
        let gone_by = gone_by.map_or(due, |gone_by| gone_by.min(due));
        if self.now.mono >= gone_by {
            return None;
        }
        let kept = without_evidence(before.clone(), self.task)?;
        Some(Episode {
            state: Phase::Reported {
                since,
                gone_by: Some(gone_by),
            },
            ..kept
        })
    }

    /// Whether the terminal is in line mode. Libraries switch to it for a moment when they print.
    fn takes_lines(&self) -> bool {
        let terminal = self.last_look.terminal.as_ref();
        terminal.is_some_and(|terminal| terminal.canonical == Some(true))
    }

    /// Whether input was read since a prompt was reported; `None` where that is not known.
    fn has_read_since(&self, before: &Episode) -> Option<bool> {
        let reads = before.n_reads.zip(self.last_look.n_reads());
        reads.map(|(before, after)| before != after)
    }

    /// Whether a full-screen pager or editor goes on: the text of its last row is not a new
    /// question.
    fn is_same_page(&self, before: &Episode, found: &PromptMatch) -> bool {
        let kind = found.prompt.kind;
        matches!(kind, PromptKind::Pager | PromptKind::Editor)
            && before.found.prompt.kind == kind
            && before.task.screen.alternate == Some(true)
            && self.task.screen.alternate == Some(true)
    }

    /// Whether the task's prompt is the same as before, possibly with a part of the answer behind
    /// it.
    fn continues(&self, before: &Episode, found: &PromptMatch) -> bool {
        if self.task.is_new_run_after(&before.task) {
            return false;
        }
        let read = self.last_look.read();
        let is_reported = before.is_reported();
        // Nothing was answered, whatever was printed meanwhile.
        let continues = ongoing_read::is_same(before.read, read)
            || (ongoing_read::was_interrupted(before.read, read) && !found.is_question);
        if is_reported && continues {
            return true;
        }
        if self.is_same_page(before, found) {
            return true;
        }
        let (old, new) = (&before.found.prompt.text, &found.prompt.text);
        let has_read = self.has_read_since(before);
        match has_read {
            Some(false) if is_reported => return has_same_words(old, new),
            // A line was read: the answer, even if the screen was cleared since. Where keys are read
            // one by one, it may have been any key, or what the terminal reports of itself.
            Some(true) if before.takes_lines && self.takes_lines() => return false,
            Some(_) | None => {}
        }
        let (old_screen, new_screen) = (&before.task.screen, &self.task.screen);
        let (old_row, new_row) = (before.found.row, found.row);
        let shown = reprompt::PromptComparison {
            before: (old_screen, old_row),
            after: (new_screen, new_row),
        };
        let is_same = old == new || (!old.is_empty() && new.starts_with(old.as_str()));
        if is_same {
            return !shown.is_asked_again();
        }
        let (old, new) = (without_animation(old), without_animation(new));
        if has_read == Some(true) || old.is_empty() {
            return false;
        }
        if !new.starts_with(&old) {
            return is_reported && shown.counts_down(&old, &new) && !shown.is_asked_again();
        }
        // Only with the same signs everywhere do the screens show what was asked again.
        let (old_screen, new_screen) = (
            old_screen.without_animation(),
            new_screen.without_animation(),
        );
        let shown = reprompt::PromptComparison {
            before: (&old_screen, old_row),
            after: (&new_screen, new_row),
        };
        !shown.is_asked_again()
    }
}

/// Returns the episode when nothing is known of the pane: a reported one stays, an unreported one
/// has to be observed again.
fn without_evidence(before: Episode, task: &Task) -> Option<Episode> {
    match before.state {
        Phase::Reported { .. } => Some(Episode {
            task: Arc::new(Task {
                screen: before.task.screen.clone(),
                ..task.clone()
            }),
            ..before
        }),
        Phase::Candidate { .. } => None,
    }
}

/// Whether the look shows if the task waits: the pane may be unknown, and a dead one does not wait.
fn is_known(task: &Task) -> bool {
    match task.life {
        Life::Unknown => false,
        Life::Alive => task.pane.is_some(),
        Life::Dead(_) => true,
    }
}

/// Returns the reported prompt while its row is still on the screen. Without a cursor and without
/// evidence on the terminal, other output such as a clock may have been drawn below it.
fn is_still_on_screen(
    before: &Episode,
    task: &Task,
    terminal: Option<&Arc<TtyEvidence>>,
) -> Option<PromptMatch> {
    let is_blind = terminal.is_none() && task.screen.cursor.is_none();
    if !before.is_reported() || !is_blind || !task.is_alive() || !is_known(task) {
        return None;
    }
    let asked = before.task.screen.rows.get(before.found.row)?;
    let row = task.screen.rows.iter().rposition(|row| row == asked)?;
    Some(PromptMatch {
        row,
        rows: row..row + before.found.rows.len(),
        ..before.found.clone()
    })
}

fn resolve(episode: Episode, events: &mut Vec<Event>) {
    match episode.state {
        Phase::Reported { .. } => {
            let kind = EventKind::InputResolved {
                prompt: episode.found.prompt,
            };
            events.push(Event {
                kind,
                task: Arc::unwrap_or_clone(episode.task),
            });
        }
        Phase::Candidate { .. } => {}
    }
}

#[cfg(test)]
mod tests;

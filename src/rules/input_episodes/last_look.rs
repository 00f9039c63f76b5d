//! The last look at a task, with its judgement.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::model::*;
use crate::rules::prompt::{self, Judgement, PromptMatch, UserRules};

/// The last look at a task, with its judgement: it is slow, and repeated only if something has changed.
#[derive(Debug, Clone)]
pub(super) struct LastLook {
    pub(super) screen: Screen,
    pub(super) terminal: Option<Arc<TtyEvidence>>,
    pub(super) judgement: Option<Judgement>,
    /// The first look at these rows.
    pub(super) since: Instant,
    /// Whether a later look had the same rows.
    pub(super) is_still: bool,
    /// The rows that ask, or all where none do.
    pub(super) still: StillRows,
    /// Whether there are rows that ask, or may ask.
    pub(super) may_ask: bool,
    /// The call in which the terminal is read, and since when.
    pub(super) call: Option<OngoingRead>,
    /// Where the answer to the present or the last question would be typed.
    pub(super) place: Option<AnswerPlace>,
}

impl LastLook {
    /// Returns the call in which the terminal is read at this look.
    pub(super) fn read(&self) -> Option<ReadCall> {
        self.terminal.as_ref()?.read
    }

    /// Returns the number that rises when input was read, as of this look.
    pub(super) fn n_reads(&self) -> Option<u64> {
        self.terminal.as_ref()?.n_reads
    }

    /// Marks the call in which the terminal is read as reported, if the episode was reported for it.
    pub(super) fn note_reported(&mut self, episode: &Episode) {
        let read = self.read();
        if let Some(call) = &mut self.call
            && episode.is_reported()
            && is_same_read(episode.read, read)
        {
            call.is_reported = true;
        }
    }

    /// Whether another look shows the same, and that is not a question.
    pub(super) fn is_unchanged_without_prompt(
        &self,
        task: &Task,
        terminal: Option<&Arc<TtyEvidence>>,
    ) -> bool {
        let is_open = task.is_alive() && is_known(task);
        let judgement = self.judgement.as_ref();
        let asks = judgement.is_some_and(|judged| judged.found.is_some());
        self.is_still
            && !asks
            && self.judgement.is_some() == is_open
            && self.terminal.as_ref() == terminal
            && self.screen == task.screen
    }
}

/// Judges a task at this look. `episode` is what it asked at the look before.
pub(super) fn see(
    before: Option<LastLook>,
    episode: Option<&Episode>,
    task: &Arc<Task>,
    terminal: Option<&Arc<TtyEvidence>>,
    user_rules: &UserRules,
    now: Now,
) -> LastLook {
    let is_open = task.is_alive() && is_known(task);
    let evidence = terminal.map(Arc::as_ref);
    let last = before.as_ref();
    let call = follow_read(last.and_then(|last| last.call.as_ref()), task, evidence);
    let place = last.and_then(|last| last.place.clone());
    let still = last.map(|last| last.still.clone());
    let reads = last.and_then(LastLook::n_reads);
    let reads = reads.zip(evidence.and_then(|evidence| evidence.n_reads));
    // A program goes on printing, although all rows are alike: nothing is known of its terminal.
    let is_printing = |before: &Screen| {
        let cursors = before.cursor.zip(task.screen.cursor);
        terminal.is_none() && cursors.is_some_and(|(before, after)| before != after)
    };
    let same = before
        .filter(|before| before.screen.has_rows_of(&task.screen) && !is_printing(&before.screen));
    let since = same.as_ref().map_or(now.mono, |before| before.since);
    let is_still = same.is_some();
    let judged = same.filter(|before| {
        before.screen == task.screen
            && before.terminal.as_ref() == terminal
            && before.judgement.is_some() == is_open
    });
    let mut judgement = match judged {
        Some(before) => before.judgement,
        None => is_open.then(|| prompt::judge_task(task, evidence, user_rules)),
    };
    // A call asks at most once, and only by text that was there when it began.
    let read = evidence.and_then(|evidence| evidence.read);
    let is_reported = |episode: &Episode| episode.is_reported() && is_same_read(episode.read, read);
    if let (Some(judgement), Some(call), Some(_)) = (&mut judgement, &call, read)
        && let Some(found) = &judgement.found
        && !episode.is_some_and(is_reported)
        && call.does_not_own(found, &task.screen)
    {
        judgement.found = None;
        judgement.is_settled = true;
        judgement.rule = "printed during the same call of read";
    }
    let place = follow_echo(place.as_ref(), task, evidence, judgement.as_mut());
    let asking = match judgement.as_ref().map(|judgement| &judgement.found) {
        Some(Some(found)) => Some(found.rows.clone()),
        // Whether it asks is known only once its terminal was examined.
        Some(None) if terminal.is_none() => prompt::rows_if_keys_are_read(&task.screen),
        Some(None) | None => None,
    };
    let asking = asking.unwrap_or_default();
    let was_read = reads.map(|(before, after)| before != after);
    LastLook {
        screen: task.screen.clone(),
        terminal: terminal.cloned(),
        judgement,
        since,
        is_still,
        may_ask: !asking.is_empty(),
        still: StillRows::follow(still, &task.screen, asking, was_read, now.mono),
        call,
        place,
    }
}

#[derive(Debug, Clone)]
pub(super) struct Episode {
    /// The task at the last look at which the prompt was there.
    pub(super) task: Arc<Task>,
    pub(super) found: PromptMatch,
    pub(super) state: Phase,
    /// The call in which the terminal was read when it was reported, or a later one of the episode.
    pub(super) read: Option<ReadCall>,
    /// The number that rises when input was read, at that time.
    pub(super) n_reads: Option<u64>,
    pub(super) is_by_terminal: bool,
    /// Whether the terminal was in line mode: then what was read is an answer.
    pub(super) takes_lines: bool,
}

impl Episode {
    pub(super) fn report(&self) -> Option<Report> {
        match self.state {
            Phase::Reported(report) => Some(report),
            Phase::Candidate { .. } => None,
        }
    }

    pub(super) fn is_reported(&self) -> bool {
        self.report().is_some()
    }

    /// Notes until when an answer that was typed counts as taken, if it was reported.
    pub(super) fn answer(&mut self, until: Option<Instant>) {
        if let Phase::Reported(report) = &mut self.state {
            report.answered_until = until;
        }
    }

    /// Whether it was reported before a restart, and nothing is known of what was read since.
    pub(super) fn is_restored(&self) -> bool {
        let is_old = |report: Report| report.since.is_none();
        self.report().is_some_and(is_old) && self.n_reads.is_none()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// Not reported yet. `since` is the first look at this screen. `due_beside` is when it can be
    /// reported although rows beside it move; `None` where it cannot.
    Candidate {
        since: Instant,
        due_beside: Option<Instant>,
    },
    Reported(Report),
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Report {
    /// `None` if that was before a restart.
    pub(super) since: Option<Now>,
    /// If it has gone from the screen although nothing was read, it may be drawn again: until then it is
    /// not resolved.
    pub(super) gone_by: Option<Instant>,
    /// Until then, an answer that was typed counts as taken.
    pub(super) answered_until: Option<Instant>,
}

/// Returns a reported episode where nothing is known of the pane. Another one is observed again.
pub(super) fn without_evidence(before: Episode, task: &Task) -> Option<Episode> {
    before.is_reported().then(|| Episode {
        task: Arc::new(Task {
            screen: before.task.screen.clone(),
            ..task.clone()
        }),
        ..before
    })
}

/// Whether the look shows if the task waits: the pane may be unknown, and a dead one does not wait.
pub(super) fn is_known(task: &Task) -> bool {
    match task.life {
        Life::Unknown => false,
        Life::Alive => task.pane.is_some(),
        Life::Dead(_) => true,
    }
}

pub(super) fn resolve(episode: Episode, events: &mut Vec<Event>) {
    if episode.is_reported() {
        events.push(Event {
            kind: EventKind::InputResolved {
                prompt: episode.found.prompt,
            },
            task: Arc::unwrap_or_clone(episode.task),
        });
    }
}

// Follows the call of `read` that a program is blocked in: since when, and whether it was
// reported.

/// A call that has not returned.
#[derive(Debug, Clone)]
pub(super) struct OngoingRead {
    read: ReadCall,
    /// The task at the first look at which this call certainly had begun before the screen was
    /// read; `None` until then. A look reads the screen first and the process second, so the call
    /// may be younger than the screen at which it was first observed.
    during: Option<Arc<Task>>,
    /// The task as it was when the call was first observed.
    task: Arc<Task>,
    pub(super) is_reported: bool,
}

impl OngoingRead {
    /// Whether the prompt on `screen` does not belong to this call: the call was reported already,
    /// or the prompt was printed after the call had begun and is not a question by itself.
    pub(super) fn does_not_own(&self, found: &PromptMatch, screen: &Screen) -> bool {
        let is_later =
            |during: &Arc<Task>| !found.is_question && !during.screen.has_rows_of(screen);
        self.is_reported || self.during.as_ref().is_some_and(is_later)
    }

    /// Returns the call, if it certainly had begun before the last look's screen was read.
    pub(super) fn for_certain(&self) -> Option<ReadCall> {
        self.during.is_some().then_some(self.read)
    }
}

/// Returns the call at this look; where there is no evidence, the one `before`.
fn follow_read(
    before: Option<&OngoingRead>,
    task: &Arc<Task>,
    evidence: Option<&TtyEvidence>,
) -> Option<OngoingRead> {
    let before = before.filter(|before| !task.is_new_run_after(&before.task));
    let Some(evidence) = evidence else {
        return before.cloned();
    };
    let read = evidence.read?;
    let same = before.filter(|before| read.goes_on_from(&before.read));
    Some(match same {
        Some(same) => OngoingRead {
            during: same.during.clone().or_else(|| Some(Arc::clone(task))),
            ..same.clone()
        },
        None => OngoingRead {
            read,
            during: None,
            task: Arc::clone(task),
            is_reported: false,
        },
    })
}

pub(super) fn is_same_read(before: Option<ReadCall>, after: Option<ReadCall>) -> bool {
    let both = before.zip(after);
    both.is_some_and(|(before, after)| after.goes_on_from(&before))
}

/// Whether a call has ended without reading anything, and the same thread reads again.
pub(super) fn was_interrupted(before: Option<ReadCall>, after: Option<ReadCall>) -> bool {
    let both = before.zip(after);
    both.is_some_and(|(before, after)| {
        before.thread == after.thread && before.bytes.is_some() && before.bytes == after.bytes
    })
}

const LIST: usize = 3;

/// The rows that ask, or all rows where none do, since they are the same. What changes beside them,
/// or moves them, does not count. Below a list, more and more text is what a program at work prints
/// that was answered already.
#[derive(Debug, Clone)]
pub(super) struct StillRows {
    pub(super) rows: Arc<[String]>,
    pub(super) since: Instant,
    /// How many rows with text are below a list.
    n_below: usize,
}

impl StillRows {
    /// Returns the rows `asking` of this screen; empty stands for all rows. Their figures may have
    /// changed only if it is certain that nothing `was_read`: otherwise they may count questions.
    pub(super) fn follow(
        before: Option<Self>,
        screen: &Screen,
        asking: Range<usize>,
        was_read: Option<bool>,
        now: Instant,
    ) -> Self {
        let is_list = asking.len() >= LIST;
        let below = screen.rows.get(asking.end..).filter(|_| is_list);
        let below = below.into_iter().flatten();
        let n_below = below.filter(|row| !row.trim().is_empty()).count();
        let is_same = |before: &Self, after: &[String]| {
            are_same_rows(&before.rows, after, is_same_but_animated)
                || was_read == Some(false) && are_same_rows(&before.rows, after, has_same_words)
        };
        let asking = screen.rows.get(asking).filter(|rows| !rows.is_empty());
        match before {
            Some(before)
                if is_same(&before, asking.unwrap_or(&screen.rows))
                    && n_below <= before.n_below =>
            {
                Self { n_below, ..before }
            }
            Some(_) | None => Self {
                rows: asking.map_or_else(|| Arc::clone(&screen.rows), Arc::from),
                since: now,
                n_below,
            },
        }
    }
}

// Distinguishes the echo of an answer from a question.
//
// Typing an answer leaves it behind the question, and the cursor in the next row. If the program
// then reads on without printing, the last text above the cursor seems to be the question, but it
// is the answer.

/// How many rows above a position must be equal for it to be the same position.
const CONTEXT: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerPlace {
    run: Option<u32>,
    above: Vec<String>,
    /// The text in its row before anything was typed.
    text: String,
}

impl AnswerPlace {
    /// Returns the position at the cursor, if it is known and not on the alternate screen.
    fn at_cursor(task: &Task) -> Option<Self> {
        let screen = &task.screen;
        let row = cursor_row(screen)?;
        let above = screen.rows.get(..row)?;
        Some(Self {
            run: task.run,
            above: above[row.saturating_sub(CONTEXT)..].to_vec(),
            text: text_of(screen, row).to_owned(),
        })
    }

    /// Whether it is this row of the screen, whatever has been typed there since.
    fn is(&self, screen: &Screen, row: usize) -> bool {
        let Some(above) = screen.rows.get(..row) else {
            return false;
        };
        text_of(screen, row).starts_with(self.text.as_str())
            && above.len().min(CONTEXT) == self.above.len()
            && above.ends_with(&self.above)
    }

    /// Whether this row contains an answer that was submitted: the cursor is below it.
    fn is_answered_in(&self, screen: &Screen, row: usize) -> bool {
        cursor_row(screen).is_some_and(|cursor| cursor > row)
            && self.is(screen, row)
            && text_of(screen, row).len() > self.text.len()
    }
}

/// Removes an echoed answer from the judgement. Returns where the next answer would be typed.
pub(super) fn follow_echo(
    before: Option<&AnswerPlace>,
    task: &Task,
    terminal: Option<&TtyEvidence>,
    judgement: Option<&mut Judgement>,
) -> Option<AnswerPlace> {
    let before = before.filter(|before| before.run == task.run);
    let Some(judgement) = judgement else {
        return before.cloned();
    };
    // Where the terminal does not echo, a program shows an answer only behind words of its own.
    let echoes = terminal.is_none_or(|terminal| terminal.echo != Some(false));
    let is_echo = |row| {
        before.is_some_and(|before| {
            (echoes || !before.text.is_empty()) && before.is_answered_in(&task.screen, row)
        })
    };
    if let Some(found) = &mut judgement.found
        && is_echo(found.row)
    {
        judgement.row = None;
        if terminal.is_some_and(|terminal| terminal.reader == TtyUse::Reading) {
            // The program reads on without having printed anything.
            found.prompt.text.clear();
            found.row = usize::MAX;
            found.is_question = false;
        } else {
            judgement.found = None;
            judgement.rule = "the echo of the answer";
        }
    }
    let asks = judgement.found.is_some();
    let is_kept = before.is_some_and(|before| {
        cursor_row(&task.screen).is_some_and(|row| before.is(&task.screen, row))
    });
    // Typing moves the cursor, not the position.
    if asks && !is_kept {
        AnswerPlace::at_cursor(task)
    } else {
        before.cloned()
    }
}

fn cursor_row(screen: &Screen) -> Option<usize> {
    if screen.alternate == Some(true) {
        return None;
    }
    usize::try_from(screen.cursor?.y).ok()
}

fn text_of(screen: &Screen, row: usize) -> &str {
    screen.rows.get(row).map_or("", |row| row.trim_end())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::model::TtyUse;
    use crate::model::test_notation::{screen_of as screen, stories, task};
    use crate::rules::prompt::{UserRules, judge};

    #[test]
    fn rows_are_still_while_others_move() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = StillRows::follow(None, &screen("1|Go?"), 1..2, None, start);
        assert_eq!(*first.rows, ["Go?"]);
        let moved = StillRows::follow(Some(first), &screen("1|2|Go?"), 2..3, None, at(1));
        assert_eq!(moved.since, start);
        let other = StillRows::follow(Some(moved), &screen("1|2|Run?"), 2..3, None, at(2));
        assert_eq!(other.since, at(2));
        // Nothing asks: all rows count.
        let none = StillRows::follow(Some(other), &screen("a|b"), 0..0, None, at(3));
        assert_eq!((&*none.rows, none.since), (&screen("a|b").rows[..], at(3)));
        let changed = StillRows::follow(Some(none), &screen("a|c"), 0..0, None, at(4));
        assert_eq!(changed.since, at(4));
        // Figures count questions, unless nothing was read.
        let count = |was_read| {
            let first = StillRows::follow(None, &screen("Go (1 of 3)?"), 0..1, None, start);
            let next = screen("Go (2 of 3)?");
            StillRows::follow(Some(first), &next, 0..1, was_read, at(1)).since
        };
        assert_eq!(count(Some(false)), start);
        assert_eq!((count(Some(true)), count(None)), (at(1), at(1)));
    }

    #[test]
    fn a_list_is_not_still_while_more_and_more_is_printed_below_it() {
        let start = Instant::now();
        let list = "Which?|❯ a|  b";
        let since = |frames: [&str; 2]| {
            let mut still = None;
            for (frame, second) in frames.into_iter().zip(0..) {
                let shown = screen(&format!("{list}|{frame}"));
                let now = start + Duration::from_secs(second);
                still = Some(StillRows::follow(still, &shown, 0..3, Some(false), now));
            }
            still.map(|still| still.since.duration_since(start).as_secs())
        };
        assert_eq!(since(["GET /0|", "GET /0|GET /1"]), Some(1));
        assert_eq!(since(["1 token|", "2 tokens|"]), Some(0));
        assert_eq!(since(["one tip|of two rows", "one tip|"]), Some(0));
    }

    /// What is asked on each of these screens, one after the other: `screen => question`, `-` for
    /// nothing.
    #[track_caller]
    fn check(evidence: &TtyEvidence, text: &str) {
        for (heading, lines) in stories(text) {
            let mut place = None;
            for line in lines {
                let (screen, expected) = line.split_once("=>").unwrap();
                let task = task(&format!("@1#1 a running {}", screen.trim_end()));
                let mut judgement = judge(&task.screen, Some(evidence), &UserRules::default());
                place = follow_echo(place.as_ref(), &task, Some(evidence), Some(&mut judgement));
                let asked = judgement.found.map(|found| found.prompt.text);
                let asked = asked.as_deref().unwrap_or("-");
                assert_eq!(asked, expected.trim(), "{heading}: {line}");
            }
        }
    }

    #[test]
    fn an_answer_is_no_question() {
        let reads = |reader, is_canonical, echo| TtyEvidence {
            canonical: Some(is_canonical),
            echo: Some(echo),
            reader,
            ..TtyEvidence::default()
        };
        check(
            &reads(TtyUse::Reading, true, true),
            "
            cursor=6,0 : Name? => Name?
            cursor=9,0 : Name? Ada => Name? Ada
            cursor=0,1 : Name? Ada =>
            cursor=5,1 : Name? Ada|what? => what?
            cursor=0,2 : Name? Ada|what? =>
            # It answers with words of its own.
            cursor=0,4 : Name? Ada|what?|x|Your age? => Your age?
            cursor=0,5 : Name? Ada|what?|x|Your age?|36 =>

            ## without a word from the beginning
            cursor=0,0 =>
            cursor=0,1 : my answer =>

            ## the same words elsewhere are a question
            cursor=0,1 : Name? => Name?
            # What was answered scrolled away with the rows above.
            cursor=0,2 : other|Name? Ada? => Name? Ada?
            ",
        );
        check(
            &reads(TtyUse::Polling, true, true),
            "
            ## an answer is no question by its text alone either
            cursor=6,0 : Name? => Name?
            cursor=0,1 : Name? Press any key => -
            ",
        );
        // A list that is drawn again below itself is no answer.
        for (echo, again) in [(true, ""), (false, "Pick one:")] {
            let list = "
                cursor=0,4 : Pick one:|  a|❯ b|  c| => Pick one:
                cursor=0,8 : Pick one:|  a|❯ b|  c|Pick one:|  a|❯ b|  c| => AGAIN
                ";
            let keys = reads(TtyUse::Reading, false, echo);
            check(&keys, &list.replace("AGAIN", again));
        }
    }
}

//! Whether a question may be answered: each takes one answer.
//!
//! What was asked when something was typed is stored on the pane, by the line that types it. So it is
//! known to every process, and a second answer that is on its way at the same time changes nothing.
//!
//! A program asks again only after its `read` has returned, so the call tells two questions apart,
//! also where the screen shows the same. Where no call is known, because the program polls, only
//! the screen does. What a new call asks may still be on its way to the screen, so a question that was
//! not reported must have been there for a while.

use std::fmt;
use std::time::{Duration, Instant};

use crate::model::{Millis, ReadCall, TtyEvidence, TtyUse};
use crate::wire::{ExplainedState, Explanation};

/// How long a question must have been there that was not reported yet.
const SETTLED: Duration = Duration::from_millis(250);

/// The pause between two examinations.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// How long a program may seem to do something else, in line mode: it may handle a signal.
const AWAY: Duration = Duration::from_millis(100);

/// When a question that is in doubt is given up.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// What identifies a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AskedQuestion {
    /// The process that tmux started in the pane.
    pub(super) pid: u32,
    /// The call in which a program reads the answer, where it is known.
    pub(super) read: Option<ReadCall>,
    /// A digest of the screen.
    pub(super) screen: u64,
}

/// What was asked when something was typed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnsweredQuestion {
    pub(super) asked: AskedQuestion,
    /// When it was typed.
    pub(super) at: Millis,
}

impl AskedQuestion {
    /// Whether it may be the same as one that was answered.
    fn may_be(&self, answered: &Self) -> bool {
        let is_same_screen = self.screen == answered.screen;
        self.pid == answered.pid
            && match (answered.read, self.read) {
                (Some(before), Some(now)) if before.thread != now.thread => false,
                (Some(before), Some(now)) if now.goes_on_from(&before) => true,
                // Without a count of bytes, a signal may have interrupted the call.
                (Some(before), Some(now)) if before.bytes.is_some() && now.bytes.is_some() => {
                    !now.has_read_since(&before)
                }
                (Some(_) | None, Some(_) | None) => is_same_screen,
            }
    }
}

impl fmt::Display for AnsweredQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, at } = self;
        let AskedQuestion { pid, read, screen } = asked;
        let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let thread = number(read.map(|read| u64::from(read.thread)));
        let switches = number(read.map(|read| read.switches));
        let bytes = number(read.and_then(|read| read.bytes));
        write!(f, "{pid}.{thread}.{switches}.{bytes}.{screen}.{at}")
    }
}

/// Returns the question that a pane's note is about; `None` where it has none.
pub(super) fn parse(note: &str) -> Option<AnsweredQuestion> {
    let words: Vec<&str> = note.split('.').collect();
    let [pid, thread, switches, bytes, screen, at] = words[..] else {
        return None;
    };
    let read = thread.parse().ok().zip(switches.parse().ok());
    Some(AnsweredQuestion {
        asked: AskedQuestion {
            pid: pid.parse().ok()?,
            read: read.map(|(thread, switches)| ReadCall {
                thread,
                switches,
                bytes: bytes.parse().ok(),
            }),
            screen: screen.parse().ok()?,
        },
        at: at.parse().ok()?,
    })
}

/// What is known of a question at the moment of typing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) asked: AskedQuestion,
    pub(super) terminal: Option<&'a TtyEvidence>,
    /// Whether the terminal has input that no program has read.
    pub(super) has_unread_input: bool,
    /// What was answered last.
    pub(super) answered: Option<AnsweredQuestion>,
}

/// Whether a question may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    /// It may.
    Ready,
    /// Another examination, after [`PAUSE`], shows more.
    Doubtful,
    /// No program asks.
    AsksNothing,
    /// It has an answer already.
    Answered,
}

/// The examinations of one question until it may be answered.
#[derive(Debug)]
pub(super) struct Examinations {
    began: Instant,
    /// The call of the last one, and since when it has been the same.
    same: Option<(Option<ReadCall>, Instant)>,
}

impl Examinations {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            same: None,
        }
    }

    /// Whether it is time to give up.
    pub(super) fn are_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= GIVEN_UP
    }

    /// Judges whether the question that was judged to be `explanation`, and is on the screen, may be
    /// answered.
    pub(super) fn judge(
        &mut self,
        explanation: &Explanation,
        moment: &Moment<'_>,
        now: Instant,
    ) -> Readiness {
        let waited = now.saturating_duration_since(self.began);
        if !takes_input(moment.terminal, explanation) {
            self.same = None;
            let is_line = moment.terminal.and_then(|terminal| terminal.canonical) == Some(true);
            let limit = if is_line { AWAY } else { GIVEN_UP };
            return if waited >= limit {
                Readiness::AsksNothing
            } else {
                Readiness::Doubtful
            };
        }
        let AskedQuestion { pid, read, .. } = moment.asked;
        let answered = moment.answered.filter(|answered| answered.asked.pid == pid);
        if answered.is_some_and(|answered| moment.asked.may_be(&answered.asked)) {
            return Readiness::Answered;
        }
        let since = match self.same {
            Some((same, since)) if same == read => since,
            Some(_) | None => now,
        };
        self.same = Some((read, since));
        let is_settled = now.saturating_duration_since(since) >= SETTLED;
        let is_reported = || {
            explanation.state == ExplainedState::Waiting
                && explanation.read == read
                && explanation
                    .waiting_since
                    .is_some_and(|reported| answered.is_none_or(|answered| reported > answered.at))
        };
        if !moment.has_unread_input && (is_settled || is_reported()) {
            Readiness::Ready
        } else if self.are_over(now) {
            Readiness::Answered
        } else {
            Readiness::Doubtful
        }
    }
}

/// Whether a program takes input now. If all did something else when the question was judged, that
/// is no evidence against it.
fn takes_input(terminal: Option<&TtyEvidence>, explanation: &Explanation) -> bool {
    let Some(terminal) = terminal else {
        return true;
    };
    match terminal.reader {
        TtyUse::Reading | TtyUse::Polling | TtyUse::Unknown => true,
        TtyUse::Elsewhere => match &explanation.terminal {
            Some(judged) => judged.reader == TtyUse::Elsewhere,
            None => terminal.canonical == Some(false),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    fn call(thread: u32, switches: u64, bytes: Option<u64>) -> Option<ReadCall> {
        Some(ReadCall {
            thread,
            switches,
            bytes,
        })
    }

    fn asked(read: Option<ReadCall>, screen: u64) -> AskedQuestion {
        AskedQuestion {
            pid: 7,
            read,
            screen,
        }
    }

    fn evidence(reader: TtyUse, canonical: bool) -> TtyEvidence {
        TtyEvidence {
            reader,
            canonical: Some(canonical),
            ..TtyEvidence::default()
        }
    }

    /// A question that was reported at 100, while a program read it in this call.
    fn reported(terminal: &TtyEvidence, read: Option<ReadCall>) -> Explanation {
        let task = task("@1#1 a running : Go? [y/N]");
        Explanation {
            state: ExplainedState::Waiting,
            waiting_since: Some(100),
            read,
            ..Explanation::new(&task, None, Some(terminal))
        }
    }

    #[test]
    fn the_call_of_read_tells_two_questions_apart() {
        let answered = asked(call(1, 5, Some(10)), 3);
        for (read, screen, expected) in [
            // The same call, and one after a signal.
            (call(1, 5, Some(10)), 3, true),
            (call(1, 5, Some(10)), 4, true),
            (call(1, 6, Some(10)), 4, true),
            // The answer was read, also if nothing was printed.
            (call(1, 6, Some(12)), 3, false),
            (call(2, 1, Some(0)), 3, false),
            // Nothing but the screen is known.
            (call(1, 6, None), 3, true),
            (call(1, 6, None), 4, false),
            (None, 3, true),
            (None, 4, false),
        ] {
            let now = asked(read, screen);
            assert_eq!(now.may_be(&answered), expected, "{read:?} {screen}");
        }
        let polled = asked(None, 3);
        assert!(asked(call(1, 5, Some(10)), 3).may_be(&polled));
        assert!(!asked(call(1, 5, Some(10)), 4).may_be(&polled));
        let other_run = AskedQuestion { pid: 8, ..answered };
        assert!(!other_run.may_be(&answered));
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for read in [None, call(1, 5, Some(10)), call(1, 5, None)] {
            let answered = AnsweredQuestion {
                asked: asked(read, u64::MAX),
                at: 1_700_000_000_000,
            };
            assert_eq!(parse(&answered.to_string()), Some(answered));
        }
        for note in ["", "1.2.3", "#(id).-.-.-.1.2", "1.-.-.-.x.2"] {
            assert_eq!(parse(note), None, "{note}");
        }
    }

    /// An examination after so many milliseconds, what it finds, and what follows.
    type Step = (u64, (TtyUse, bool), Option<ReadCall>, Readiness);

    /// Judges a question that was reported in the first call.
    #[track_caller]
    fn check(
        answered: Option<(Option<ReadCall>, u64, Millis)>,
        has_unread_input: bool,
        steps: &[Step],
    ) {
        let reads = evidence(TtyUse::Reading, true);
        let explanation = reported(&reads, call(1, 5, Some(10)));
        let began = Instant::now();
        let mut examinations = Examinations::new(began);
        for (at, (reader, canonical), read, expected) in steps {
            let terminal = evidence(*reader, *canonical);
            let moment = Moment {
                asked: asked(*read, 3),
                terminal: Some(&terminal),
                has_unread_input,
                answered: answered.map(|(read, screen, at)| AnsweredQuestion {
                    asked: asked(read, screen),
                    at,
                }),
            };
            let now = began + Duration::from_millis(*at);
            let readiness = examinations.judge(&explanation, &moment, now);
            assert_eq!(readiness, *expected, "after {at} ms");
        }
    }

    const READS: (TtyUse, bool) = (TtyUse::Reading, true);
    const WORKS: (TtyUse, bool) = (TtyUse::Elsewhere, true);

    #[test]
    fn a_reported_question_is_answered_at_once_and_once() {
        let first = call(1, 5, Some(10));
        check(None, false, &[(0, READS, first, Readiness::Ready)]);
        // An answer before it was reported was another question's.
        let earlier = Some((call(1, 4, Some(8)), 2, 99));
        check(earlier, false, &[(0, READS, first, Readiness::Ready)]);
        let this = Some((first, 3, 101));
        check(this, false, &[(0, READS, first, Readiness::Answered)]);
    }

    #[test]
    fn a_program_that_works_asks_nothing() {
        let steps = [
            (0, WORKS, None, Readiness::Doubtful),
            (99, WORKS, None, Readiness::Doubtful),
            (100, WORKS, None, Readiness::AsksNothing),
        ];
        check(None, false, &steps);
        let keys = (TtyUse::Elsewhere, false);
        let steps = [
            (100, keys, None, Readiness::Doubtful),
            (1000, keys, None, Readiness::AsksNothing),
        ];
        check(None, false, &steps);
        // It has handled a signal.
        let first = call(1, 5, Some(10));
        let steps = [
            (0, WORKS, None, Readiness::Doubtful),
            (50, READS, first, Readiness::Ready),
        ];
        check(None, false, &steps);
    }

    #[test]
    fn a_new_call_is_answered_when_what_it_asks_is_on_the_screen() {
        let first = call(1, 5, Some(10));
        let (next, third) = (call(1, 6, Some(12)), call(1, 7, Some(14)));
        for answered in [None, Some((first, 3, 101))] {
            let steps = [
                (0, READS, next, Readiness::Doubtful),
                (249, READS, next, Readiness::Doubtful),
                (250, READS, next, Readiness::Ready),
            ];
            check(answered, false, &steps);
            let steps = [
                (0, READS, next, Readiness::Doubtful),
                (200, READS, third, Readiness::Doubtful),
                (400, READS, third, Readiness::Doubtful),
                (450, READS, third, Readiness::Ready),
            ];
            check(answered, false, &steps);
        }
    }

    #[test]
    fn a_question_with_unread_input_has_an_answer() {
        let first = call(1, 5, Some(10));
        let steps = [
            (0, READS, first, Readiness::Doubtful),
            (900, READS, first, Readiness::Doubtful),
            (1000, READS, first, Readiness::Answered),
        ];
        check(None, true, &steps);
    }

    #[test]
    fn what_seemed_to_do_something_else_before_may_do_so_still() {
        let checks_keys = evidence(TtyUse::Elsewhere, false);
        let explanation = reported(&checks_keys, None);
        assert!(takes_input(Some(&checks_keys), &explanation));
        let now = evidence(TtyUse::Elsewhere, true);
        assert!(!takes_input(
            Some(&now),
            &reported(&evidence(TtyUse::Polling, true), None)
        ));
        assert!(takes_input(None, &explanation));
    }
}

//! The call of `read` in which a terminal is read: since when, and whether it was told.

use std::sync::Arc;

use crate::model::{ReadCall, Screen, Task, TtyEvidence};
use crate::prompt::Found;

/// A call that goes on.
#[derive(Debug, Clone)]
pub(super) struct Call {
    read: ReadCall,
    /// The task as it was first seen while this call went on for certain. A look shows the screen
    /// first and then who reads, so the call may be younger than the screen that it is first
    /// seen with; `None` until then.
    during: Option<Arc<Task>>,
    /// The task as it was when the call was first seen.
    task: Arc<Task>,
    /// Whether it was told as waiting.
    pub(super) is_told: bool,
}

impl Call {
    /// Whether the prompt that `screen` shows was not asked by who reads in this call: the call was
    /// told already, or the prompt was printed after the call had begun and does not ask by itself.
    pub(super) fn was_not_asked(&self, found: &Found, screen: &Screen) -> bool {
        let is_later = |during: &Arc<Task>| !found.is_asked && !during.screen.has_rows_of(screen);
        self.is_told || self.during.as_ref().is_some_and(is_later)
    }

    /// Returns the call, if the last look's screen was shown while it went on for certain.
    pub(super) fn for_certain(&self) -> Option<ReadCall> {
        self.during.is_some().then_some(self.read)
    }
}

/// Returns the call that this look shows; where it could not be asked for, the one `before`.
pub(super) fn follow(
    before: Option<&Call>,
    task: &Arc<Task>,
    evidence: Option<&TtyEvidence>,
) -> Option<Call> {
    let before = before.filter(|before| !task.is_new_run_after(&before.task));
    let Some(evidence) = evidence else {
        return before.cloned();
    };
    let read = evidence.read?;
    let same = before.filter(|before| read.goes_on_from(&before.read));
    Some(match same {
        Some(same) => Call {
            during: same.during.clone().or_else(|| Some(Arc::clone(task))),
            ..same.clone()
        },
        None => Call {
            read,
            during: None,
            task: Arc::clone(task),
            is_told: false,
        },
    })
}

/// Whether both are known and one and the same.
pub(super) fn is_same(before: Option<ReadCall>, after: Option<ReadCall>) -> bool {
    let both = before.zip(after);
    both.is_some_and(|(before, after)| after.goes_on_from(&before))
}

/// Whether a call has ended without anything read, and the same thread reads again.
pub(super) fn was_interrupted(before: Option<ReadCall>, after: Option<ReadCall>) -> bool {
    let both = before.zip(after);
    both.is_some_and(|(before, after)| {
        before.thread == after.thread && before.bytes.is_some() && before.bytes == after.bytes
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::input_episodes::Episodes;
    use crate::model::test_notation::{describe, snapshot};
    use crate::model::{Now, Snapshot, TtyUse, WindowId};

    /// A look at a task that reads lines, in its `switches`th call, after so many `bytes`.
    fn reads(look: &str, switches: u64, bytes: u64) -> Snapshot {
        with(look, true, Some((switches, bytes)))
    }

    fn with(look: &str, canonical: bool, call: Option<(u64, u64)>) -> Snapshot {
        let mut look = snapshot(look);
        let evidence = TtyEvidence {
            reader: call.map_or(TtyUse::Elsewhere, |_| TtyUse::Reading),
            echo: Some(canonical),
            canonical: Some(canonical),
            read: call.map(|(switches, bytes)| ReadCall {
                thread: 7,
                switches,
                bytes: Some(bytes),
            }),
            ..TtyEvidence::default()
        };
        look.terminals.insert(WindowId(1), evidence.into());
        look
    }

    /// What these looks tell, so much time apart.
    fn told(every: Duration, looks: &[Snapshot]) -> Vec<String> {
        let mut now = Now {
            mono: Instant::now(),
            wall: 0,
        };
        let mut episodes = Episodes::default();
        let mut told = Vec::new();
        for look in looks {
            now = now.after(every);
            let events = episodes.admit(look, Duration::from_millis(200), now);
            told.extend(events.iter().map(describe));
        }
        told
    }

    const QUIET: Duration = Duration::from_millis(250);

    /// Each look twice: a screen has to stand through two.
    fn twice(looks: &[Snapshot]) -> Vec<Snapshot> {
        looks
            .iter()
            .flat_map(|look| [look.clone(), look.clone()])
            .collect()
    }

    #[test]
    fn what_is_printed_while_a_thread_reads_asks_nothing() {
        let looks = [
            reads("@1 a running cursor=0,1 : listening|", 3, 50),
            reads("@1 a running cursor=0,2 : listening|one has joined|", 3, 50),
            reads(
                "@1 a running cursor=0,3 : listening|one has joined|one left|",
                3,
                50,
            ),
            // Where output moves the terminal is not asked.
            snapshot("@1 a running cursor=0,2 : one left|saved|"),
            reads("@1 a running cursor=0,2 : one left|saved|", 3, 50),
        ];
        assert_eq!(told(QUIET, &twice(&looks)), ["input @1: listening"]);
        // It took the command.
        let answered = [
            &looks[..],
            &[reads(
                "@1 a running cursor=0,3 : saved|stop|stopping|",
                4,
                55,
            )],
        ]
        .concat();
        assert_eq!(
            told(QUIET, &twice(&answered)),
            [
                "input @1: listening",
                "resolved @1: listening",
                "input @1: stopping"
            ]
        );
    }

    #[test]
    fn a_call_that_began_before_the_words_is_told_when_they_ask_by_themselves() {
        let looks = |line: &str| {
            vec![
                reads("@1 a running cursor=0,1 : Press Ctrl+C to quit|", 3, 50),
                reads("@1 a running cursor=0,1 : Press Ctrl+C to quit|", 3, 50),
                reads(&format!("@1 a running : loaded|{line}"), 3, 50),
                reads(&format!("@1 a running : loaded|{line}"), 3, 50),
                reads(&format!("@1 a running : {line}|{line}"), 3, 50),
                reads(&format!("@1 a running : {line}|{line}"), 3, 50),
            ]
        };
        assert_eq!(told(QUIET, &looks("saved")), [""; 0]);
        assert_eq!(told(QUIET, &looks("Go? [y/n]")), ["input @1: Go? [y/n]"]);
    }

    #[test]
    fn the_same_question_is_told_again_once_it_was_answered() {
        let looks = [
            reads("@1 a running : Go? [y/n]", 3, 50),
            reads("@1 a running : Go? [y/n] n|no|Go? [y/n]", 4, 52),
            reads(
                "@1 a running : Go? [y/n] n|no|Go? [y/n] n|no|Go? [y/n]",
                5,
                54,
            ),
        ];
        let once = ["resolved @1: Go? [y/n]", "input @1: Go? [y/n]"];
        let expected = [&once[1..], &once, &once].concat();
        assert_eq!(told(QUIET, &twice(&looks)), expected);
        let by_screen: Vec<Snapshot> = looks
            .into_iter()
            .map(|look| Snapshot {
                terminals: std::collections::BTreeMap::new(),
                ..look
            })
            .collect();
        assert_eq!(told(QUIET, &twice(&by_screen)), expected);
    }

    #[test]
    fn a_call_may_be_younger_than_the_screen_that_it_is_first_seen_with() {
        let looks = [
            reads("@1 a running cursor=0,1 : Enter a name|", 3, 50),
            reads("@1 a running cursor=0,1 : Enter a name|", 3, 50),
            // The answer is echoed, and before it is asked who reads the next question stands.
            reads("@1 a running cursor=1,1 : Enter a name|x", 4, 52),
            reads(
                "@1 a running cursor=0,3 : Enter a name|x|Enter a path|",
                4,
                52,
            ),
            reads(
                "@1 a running cursor=0,3 : Enter a name|x|Enter a path|",
                4,
                52,
            ),
        ];
        assert_eq!(
            told(QUIET, &looks),
            [
                "input @1: Enter a name",
                "resolved @1: Enter a name",
                "input @1: Enter a path"
            ]
        );
    }

    #[test]
    fn a_signal_is_no_answer_but_a_question_after_it_is_one() {
        let asks = |rest: &str, switches| reads(&format!("@1 a running : {rest}"), switches, 50);
        let looks = |then: &str| [asks("Enter a name", 3), asks(then, 4)];
        // A child of the shell has printed, and its end was signalled.
        let printed = looks("Enter a name built|done");
        assert_eq!(told(QUIET, &twice(&printed)), ["input @1: Enter a name"]);
        let gave_up = looks("Enter a name|Use the default? [y/n]");
        assert_eq!(
            told(QUIET, &twice(&gave_up)),
            [
                "input @1: Enter a name",
                "resolved @1: Enter a name",
                "input @1: Use the default? [y/n]"
            ]
        );
    }

    #[test]
    fn a_person_who_scrolls_ends_nothing() {
        let asks = reads("@1 a running cursor=0,1 : Enter your name|", 3, 50);
        let scrolls = snapshot("@1 a running cursor=0,1 : Enter your name|");
        let looks = [asks.clone(), asks.clone(), scrolls.clone(), scrolls, asks];
        assert_eq!(told(QUIET, &looks), ["input @1: Enter your name"]);
    }

    #[test]
    fn who_reads_keys_is_told_after_a_second() {
        let menu = || with("@1 a running cursor=0,1 : a) one|", false, Some((3, 50)));
        let menus = |n: usize| vec![menu(); n];
        assert_eq!(told(QUIET, &menus(4)), [""; 0]);
        assert_eq!(told(QUIET, &menus(6)), ["input @1: a) one"]);
        let works = with("@1 a running cursor=0,1 : a) one|", false, None);
        let then = [menus(6), vec![works]].concat();
        assert_eq!(
            told(QUIET, &then),
            ["input @1: a) one", "resolved @1: a) one"]
        );
    }
}

//! Follows the call of `read` that a program is blocked in: since when, and whether it was
//! reported.

use std::sync::Arc;

use crate::model::{ReadCall, Screen, Task, TtyEvidence};
use crate::prompt::PromptMatch;

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
    /// Whether it was reported as waiting for input.
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
pub(super) fn follow(
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

/// Whether both are known and the same call.
pub(super) fn is_same(before: Option<ReadCall>, after: Option<ReadCall>) -> bool {
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
            n_reads: call.map(|(_, bytes)| bytes),
            ..TtyEvidence::default()
        };
        look.terminals.insert(WindowId(1), evidence.into());
        look
    }

    /// The events of these looks, `every` apart.
    fn events_of(every: Duration, looks: &[Snapshot]) -> Vec<String> {
        let mut now = Now {
            mono: Instant::now(),
            wall: 0,
        };
        let mut episodes = Episodes::default();
        let mut described = Vec::new();
        for look in looks {
            now = now.after(every);
            let events = episodes.admit(look, Duration::from_millis(200), now);
            described.extend(events.iter().map(describe));
        }
        described
    }

    const QUIET: Duration = Duration::from_millis(250);

    /// Each look twice, because a screen has to be unchanged at two looks.
    fn twice(looks: &[Snapshot]) -> Vec<Snapshot> {
        looks
            .iter()
            .flat_map(|look| [look.clone(), look.clone()])
            .collect()
    }

    #[test]
    fn text_printed_during_a_read_is_not_a_question() {
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
        assert_eq!(events_of(QUIET, &twice(&looks)), ["input @1: listening"]);
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
            events_of(QUIET, &twice(&answered)),
            [
                "input @1: listening",
                "resolved @1: listening",
                "input @1: stopping"
            ]
        );
    }

    #[test]
    fn a_question_printed_during_a_read_is_reported_if_it_asks_by_itself() {
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
        assert_eq!(events_of(QUIET, &looks("saved")), [""; 0]);
        assert_eq!(
            events_of(QUIET, &looks("Go? [y/n]")),
            ["input @1: Go? [y/n]"]
        );
    }

    #[test]
    fn the_same_question_is_reported_again_after_an_answer() {
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
        assert_eq!(events_of(QUIET, &twice(&looks)), expected);
        let by_screen: Vec<Snapshot> = looks
            .into_iter()
            .map(|look| Snapshot {
                terminals: std::collections::BTreeMap::new(),
                ..look
            })
            .collect();
        assert_eq!(events_of(QUIET, &twice(&by_screen)), expected);
    }

    #[test]
    fn a_call_may_be_younger_than_the_screen_it_is_first_observed_with() {
        let looks = [
            reads("@1 a running cursor=0,1 : Enter a name|", 3, 50),
            reads("@1 a running cursor=0,1 : Enter a name|", 3, 50),
            // The answer is echoed, and the next question is there before the process is examined.
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
            events_of(QUIET, &looks),
            [
                "input @1: Enter a name",
                "resolved @1: Enter a name",
                "input @1: Enter a path"
            ]
        );
    }

    #[test]
    fn a_prompt_printed_after_the_screen_was_read_is_not_cut_off() {
        let starts = snapshot("@1 a running cursor=0,0 : |");
        for prompt in ["Enter a name", "Go? [y/n]"] {
            let asks = reads(&format!("@1 a running : {prompt}"), 3, 50);
            let looks = [
                starts.clone(),
                starts.clone(),
                // It prints the prompt and reads before the process is examined.
                reads("@1 a running cursor=0,0 : |", 3, 50),
                asks.clone(),
                asks,
            ];
            assert_eq!(events_of(QUIET, &looks), [format!("input @1: {prompt}")]);
        }
        let reads_without_prompt = reads("@1 a running cursor=0,0 : |", 3, 50);
        let looks = [
            &[starts.clone(), starts][..],
            &vec![reads_without_prompt; 2],
        ]
        .concat();
        assert_eq!(events_of(QUIET, &looks), ["input @1: "]);
    }

    #[test]
    fn a_signal_is_no_answer_but_a_question_after_it_is_one() {
        let asks = |rest: &str, switches| reads(&format!("@1 a running : {rest}"), switches, 50);
        let looks = |then: &str| [asks("Enter a name", 3), asks(then, 4)];
        // A child of the shell has printed, and its end was signalled.
        let printed = looks("Enter a name built|done");
        assert_eq!(
            events_of(QUIET, &twice(&printed)),
            ["input @1: Enter a name"]
        );
        let gave_up = looks("Enter a name|Use the default? [y/n]");
        assert_eq!(
            events_of(QUIET, &twice(&gave_up)),
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
        assert_eq!(events_of(QUIET, &looks), ["input @1: Enter your name"]);
    }

    #[test]
    fn a_program_that_reads_keys_is_reported_after_a_second() {
        let menu = || with("@1 a running cursor=0,1 : a) one|", false, Some((3, 50)));
        let menus = |n: usize| vec![menu(); n];
        assert_eq!(events_of(QUIET, &menus(4)), [""; 0]);
        assert_eq!(events_of(QUIET, &menus(6)), ["input @1: a) one"]);
        let works = with("@1 a running cursor=0,1 : a) one|", false, None);
        let then = [menus(6), vec![works]].concat();
        assert_eq!(
            events_of(QUIET, &then),
            ["input @1: a) one", "resolved @1: a) one"]
        );
    }

    #[test]
    fn a_key_that_was_read_ends_a_countdown() {
        let asks = |n, switches, bytes| {
            let look = format!("@1 a running : Remove item {n}? [y/n]");
            with(&look, false, Some((switches, bytes)))
        };
        let looks = |bytes| twice(&[asks(3, 3, 50), asks(2, 4, bytes)]);
        let first = "input @1: Remove item 3? [y/n]";
        assert_eq!(events_of(QUIET, &looks(50)), [first]);
        assert_eq!(
            events_of(QUIET, &looks(51)),
            [
                first,
                "resolved @1: Remove item 3? [y/n]",
                "input @1: Remove item 2? [y/n]"
            ]
        );
    }
}

//! What is known of one pane's terminal, and when it is examined again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::{ReadCall, Screen, Stop, TtyEvidence, TtyUse};
use crate::process::{self, CpuActivity, InputWatch, TtyExamination};
use crate::rules::prompt;

const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The maximum pause for a screen with a prompt or a reported one: here changes matter.
const WARY_PAUSE: Duration = Duration::from_millis(500);

/// The same for a reported prompt behind which no program has run for [`LONG_UNANSWERED`].
const UNANSWERED_PAUSE: Duration = Duration::from_secs(1);

/// After this time a prompt counts as unanswered: most answers are also reported as output.
const LONG_UNANSWERED: Duration = Duration::from_secs(10);

/// The maximum pause between two rounds for any other.
const ROUND_PAUSE: Duration = Duration::from_secs(2);

/// The maximum pause for any other whose programs run all the time, or for which that is not known.
pub(super) const RESTLESS_PAUSE: Duration = Duration::from_secs(10);

/// Screens that became quiet within this time are examined together.
pub(super) const TOGETHER: Duration = Duration::from_millis(20);

/// The pause before something hidden is examined again: more than a thread needs to fall asleep, wake up or end.
pub(super) const SECOND_PAUSE: Duration = Duration::from_millis(100);

/// The pause after an examination that was put off, unless the next look finds the same rows.
const PUT_OFF: Duration = Duration::from_millis(500);

/// Once so many looks in a row have found other rows, examinations are put off, but for one in [`EXAMINED`].
const PRINTS_ON: u32 = 4;
const EXAMINED: u32 = 5;

/// A program that checks for keys sleeps at least so many times a second, or a key would have no effect at once.
const CHECKS_PER_SECOND: u32 = 3;

const COUNTING: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct PolledPane {
    pub(super) pid: u32,
    tty: PathBuf,
    pub(super) screen: Screen,
    /// The last result; `None` while its output moves, and while the result is in doubt.
    pub(super) known: Option<LastExamination>,
    /// A result that is confirmed when the reader is hidden twice in a row.
    pub(super) doubt: Option<DoubtfulExamination>,
    /// The call in which it was read, as of the last look, and when that was, in seconds of tmux's clock.
    shown: Option<(ReadCall, i64)>,
    /// Whether its programs may check for keys: they run, and sleep often in between.
    pub(super) may_check_keys: bool,
    /// How often each of their threads had slept when counting began, and when that was.
    pub(super) slept: Option<(BTreeMap<u32, u64>, Instant)>,
    pub(super) reads: InputWatch,
    /// How many looks in a row have found other rows.
    n_moved: u32,
    /// Its programs in line mode, with how long they had run at the last of these looks.
    printing: Option<CpuActivity>,
    /// Whether its examination was put off, which happens once between two looks.
    was_put_off: bool,
    /// When it counts as quiet, or takes part in a round.
    pub(super) next: Instant,
}

#[derive(Debug)]
pub(super) struct LastExamination {
    pub(super) examination: TtyExamination,
    at: Instant,
    /// Whether the screen shows a prompt; `None` before [`PolledPane::judge_once`], which most output never needs.
    is_wary: Option<bool>,
    pub(super) pause: Duration,
    /// The pause until it may be examined again if its programs run.
    rest: Duration,
}

/// A pane whose reader was hidden at the last examination, or had left a reported prompt, and not at the one before.
///
/// A program that checks for keys is somewhere else for a moment now and then. The kernel hides the state of another
/// user's threads, and of ours for a moment while they fall asleep, wake up or end.
#[derive(Debug)]
pub(super) struct DoubtfulExamination {
    /// The evidence meanwhile.
    shown: Arc<TtyEvidence>,
    /// The previous evidence; `None` where its output has just stopped.
    before: Option<LastExamination>,
}

/// Which pane is examined first: the reported ones, then those that seldom run, then those examined long ago.
pub(super) type Urgency = (bool, Duration, Instant);

impl PolledPane {
    /// Returns a pane whose output moves, or has moved until now: it is examined at `next`.
    pub(super) fn with_changing_output(
        pid: u32,
        tty: PathBuf,
        screen: Screen,
        next: Instant,
    ) -> Self {
        Self {
            pid,
            tty,
            screen,
            known: None,
            doubt: None,
            shown: None,
            may_check_keys: false,
            slept: None,
            reads: InputWatch::default(),
            n_moved: 1,
            printing: None,
            was_put_off: false,
            next,
        }
    }

    /// Notes a look that found other rows: it is examined at `next`.
    pub(super) fn note_moved(&mut self, screen: Screen, may_check_keys: bool, next: Instant) {
        let printing = match self.known.take() {
            Some(known) if known.takes_lines() => Some(known.examination.activity),
            Some(_) => None,
            None => self.printing.take(),
        };
        *self = Self {
            may_check_keys,
            reads: std::mem::take(&mut self.reads),
            n_moved: self.n_moved + 1,
            printing: printing.and_then(CpuActivity::counted_again),
            ..Self::with_changing_output(self.pid, std::mem::take(&mut self.tty), screen, next)
        };
    }

    /// Notes a look that found the same rows: what was put off is due.
    pub(super) fn note_still(&mut self, now: Instant) {
        self.n_moved = 0;
        if std::mem::take(&mut self.was_put_off) {
            self.next = now;
        }
    }

    /// Puts off the examination of programs that print on and on. They have run since the last look, so
    /// the next one probably finds other rows, and what they do now says nothing. Returns whether it did.
    pub(super) fn put_off(&mut self, now: Instant) -> bool {
        let prints_on = self.n_moved >= PRINTS_ON && !self.n_moved.is_multiple_of(EXAMINED);
        let has_run = |printing: &CpuActivity| !printing.lasts();
        let is_put_off = !std::mem::take(&mut self.was_put_off)
            && prints_on
            && self.printing.as_ref().is_some_and(has_run);
        if is_put_off {
            self.was_put_off = true;
            self.next = now + PUT_OFF;
        }
        is_put_off
    }

    /// Whether rows of this later screen differ, but only in what programs animate, or beside what is asked.
    pub(super) fn is_changed_beside(
        &self,
        screen: &Screen,
        is_asked_on: impl FnOnce() -> bool,
    ) -> bool {
        !self.screen.has_rows_of(screen)
            && self.screen.alternate == screen.alternate
            && (self.screen.is_same_but_animated(screen) || is_asked_on())
    }

    pub(super) fn evidence(&self) -> Option<&Arc<TtyEvidence>> {
        match &self.known {
            Some(known) => known.examination.evidence.as_ref(),
            None => self.doubt.as_ref().map(|doubt| &doubt.shown),
        }
    }

    /// Returns the evidence for a look in this `second` that found no output since `activity`. A program that has
    /// printed nothing has asked nothing: a signal may have interrupted the call, and its handler have read.
    pub(super) fn show(&mut self, activity: i64, second: i64) -> Option<Arc<TtyEvidence>> {
        let evidence = Arc::clone(self.evidence()?);
        let Some(read) = evidence.read else {
            self.shown = None;
            return Some(evidence);
        };
        if let Some((shown, at)) = self.shown
            && shown.thread == read.thread
            && activity < at
            && shown != read
        {
            let mut evidence = evidence;
            Arc::make_mut(&mut evidence).read = Some(shown);
            return Some(evidence);
        }
        self.shown = Some((read, second));
        Some(evidence)
    }

    pub(super) fn examine(&mut self, is_reported: bool, now: Instant) {
        let examination = process::examine(self.pid, &self.tty);
        self.reads.follow(&examination.tty);
        self.take(examination, is_reported, now);
    }

    /// Judges the screen once the pauses between checks depend on it.
    pub(super) fn judge_once(&mut self) {
        if let Some(known) = &mut self.known
            && known.pause >= WARY_PAUSE
        {
            let is_wary = || prompt::find(&self.screen).is_some();
            known.is_wary.get_or_insert_with(is_wary);
        }
    }

    /// Notes how often the programs have slept until now, as far as that is known. Only threads that have existed
    /// since then count: a new one sleeps several times, and a shell starts one for each command.
    fn count_pauses(&mut self, pauses: Option<BTreeMap<u32, u64>>, now: Instant) {
        // A program may have ended meanwhile, or be hidden for a moment: that says nothing.
        let Some(pauses) = pauses else { return };
        let Some((before, since)) = &self.slept else {
            self.slept = Some((pauses, now));
            return;
        };
        let counted_for = now.saturating_duration_since(*since);
        let of_thread = |(thread, n): (&u32, &u64)| Some(n.saturating_sub(*before.get(thread)?));
        let n_pauses: u64 = pauses.iter().filter_map(of_thread).sum();
        // The first one may have been at the very beginning.
        let n_pauses = n_pauses.saturating_sub(1);
        let least = counted_for.as_millis() * u128::from(CHECKS_PER_SECOND);
        let is_often = n_pauses > 0 && u128::from(n_pauses) * 1000 >= least;
        if is_often || counted_for >= COUNTING {
            self.may_check_keys = is_often;
            self.slept = Some((pauses, now));
        }
    }

    fn take(&mut self, mut examination: TtyExamination, is_reported: bool, now: Instant) {
        let was_doubted = self.doubt.is_some();
        let before = match self.doubt.take() {
            Some(doubt) => doubt.before,
            None => self.known.take(),
        };
        self.count_pauses(examination.pauses.take(), now);
        let known = before.as_ref().filter(|before| before.has_reader());
        let known = known.filter(|_| is_reported);
        if let Some(evidence) = &mut examination.evidence {
            // A signal has stopped the reader: nobody has answered it, and it goes on when it is continued.
            if evidence.stopped == Some(Stop::BySignal)
                && let Some(reader) = known.and_then(|known| known.examination.evidence.clone())
            {
                let stopped = evidence.stopped;
                *evidence = reader;
                Arc::make_mut(evidence).stopped = stopped;
            }
            Arc::make_mut(evidence).checks_no_keys = !self.may_check_keys;
        }
        let is_elsewhere = |evidence: &Arc<TtyEvidence>| evidence.reader == TtyUse::Elsewhere;
        let has_left = known.is_some() && examination.evidence.as_ref().is_some_and(is_elsewhere);
        let was_hidden = match &before {
            Some(before) => hides_reader(before.examination.evidence.as_deref()),
            // A reported prompt remains until there is evidence against it.
            None => is_reported,
        };
        let is_hidden = hides_reader(examination.evidence.as_deref()) && !was_hidden;
        if (is_hidden || has_left) && !was_doubted {
            let known = before.as_ref();
            let known = known.and_then(|known| known.examination.evidence.clone());
            let mut shown = examination.evidence.unwrap_or_default();
            Arc::make_mut(&mut shown).reader = TtyUse::Elsewhere;
            self.doubt = Some(DoubtfulExamination {
                shown: known.unwrap_or(shown),
                before,
            });
            self.next = now + SECOND_PAUSE;
            return;
        }
        let is_wary = before.as_ref().and_then(|before| before.is_wary);
        let (pause, rest) = match &before {
            Some(before) if before.examination.evidence == examination.evidence => {
                let longest = match is_reported || is_wary != Some(false) {
                    true => WARY_PAUSE,
                    false => RESTLESS_PAUSE,
                };
                (before.pause, (before.rest * 2).clamp(FIRST_PAUSE, longest))
            }
            Some(_) | None => (FIRST_PAUSE, FIRST_PAUSE),
        };
        self.known = Some(LastExamination {
            examination,
            at: now,
            is_wary,
            pause,
            rest,
        });
        self.next = now + pause;
    }
}

/// Whether nothing but numbers differs.
pub(super) fn differ_in_numbers(before: &Screen, after: &Screen) -> bool {
    let is_other = |c: &char| !c.is_ascii_digit() && !c.is_whitespace();
    let is_same = |(before, after): (&String, &String)| {
        before == after || (before.chars().filter(is_other)).eq(after.chars().filter(is_other))
    };
    before.rows.len() == after.rows.len() && before.rows.iter().zip(after.rows.iter()).all(is_same)
}

fn hides_reader(evidence: Option<&TtyEvidence>) -> bool {
    evidence.is_none_or(|evidence| evidence.reader == TtyUse::Unknown)
}

impl LastExamination {
    /// Whether a program read the terminal, or checked it for keys.
    fn has_reader(&self) -> bool {
        let evidence = self.examination.evidence.as_ref();
        let reader = evidence.map(|evidence| evidence.reader);
        matches!(reader, Some(TtyUse::Reading | TtyUse::Polling))
    }

    fn takes_lines(&self) -> bool {
        let evidence = self.examination.evidence.as_ref();
        evidence.is_some_and(|evidence| evidence.canonical == Some(true))
    }

    /// Whether a program was blocked reading keys, which is reported only after a while.
    pub(super) fn reads_keys(&self) -> bool {
        let evidence = self.examination.evidence.as_ref();
        evidence.is_some_and(|evidence| {
            evidence.reader == TtyUse::Reading && evidence.canonical == Some(false)
        })
    }

    /// Checks whether its programs have run, and sets the pause until the next check.
    pub(super) fn check_activity(&mut self, is_reported: bool, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.at);
        let longest = if is_reported && age >= LONG_UNANSWERED {
            UNANSWERED_PAUSE
        } else if is_reported || self.is_wary != Some(false) {
            WARY_PAUSE
        } else {
            ROUND_PAUSE
        };
        self.pause = (self.pause * 2).min(longest);
        let has_run = !self.examination.activity.lasts();
        if !has_run {
            // It comes before those that have run ever since they were examined.
            self.rest = Duration::ZERO;
        }
        has_run
    }

    /// Returns how urgent an examination is if its programs have run; `None` for too soon.
    pub(super) fn urgency(&self, is_reported: bool, now: Instant) -> Option<Urgency> {
        let age = now.saturating_duration_since(self.at);
        (age >= self.rest).then_some((!is_reported, self.rest, self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::screen;

    fn pane() -> PolledPane {
        let tty = PathBuf::from("/dev/pts/7");
        PolledPane::with_changing_output(1, tty, Screen::default(), Instant::now())
    }

    fn examination(reader: TtyUse) -> TtyExamination {
        TtyExamination {
            evidence: Some(Arc::new(TtyEvidence {
                reader,
                canonical: Some(true),
                ..TtyEvidence::default()
            })),
            tty: PathBuf::from("/dev/pts/7"),
            activity: Default::default(),
            pauses: None,
        }
    }

    /// Each word is the answer of an examination and the evidence after it, by their first letters:
    /// elsewhere, polling, reading, unknown.
    #[test]
    fn a_reader_is_believed_when_it_was_found_or_missed_often_enough() {
        for (is_reported, words) in [
            // A reader that is hidden once is not hidden.
            (false, "UE UU"),
            (false, "UE RR"),
            (false, "UE EE UE EE"),
            (false, "PP UP UU UU RR UR"),
            // What was reported stays while the reader is hidden,
            (true, "UU UU"),
            (true, "RR UR EE"),
            // and until it has left twice.
            (true, "RR ER RR"),
            (true, "RR ER EE"),
            (false, "RR EE"),
            (true, "PP EP PP"),
            (true, "PP EP EE"),
            (false, "PP EE"),
        ] {
            let mut pane = pane();
            let mut now = Instant::now();
            for word in words.split(' ') {
                let readers: Vec<TtyUse> = word
                    .chars()
                    .map(|letter| match letter {
                        'E' => TtyUse::Elsewhere,
                        'P' => TtyUse::Polling,
                        'R' => TtyUse::Reading,
                        _ => TtyUse::Unknown,
                    })
                    .collect();
                pane.take(examination(readers[0]), is_reported, now);
                let reader = pane.evidence().map(|evidence| evidence.reader);
                assert_eq!(reader, Some(readers[1]), "{word} of {words}");
                assert!(pane.next > now);
                now = pane.next;
            }
        }
    }

    #[test]
    fn what_was_reported_stays_while_a_signal_stops_its_reader() {
        let stopped = || {
            let mut stopped = examination(TtyUse::Elsewhere);
            let evidence = stopped.evidence.as_mut().unwrap();
            Arc::make_mut(evidence).stopped = Some(Stop::BySignal);
            stopped
        };
        for (is_reported, expected) in [(true, TtyUse::Reading), (false, TtyUse::Elsewhere)] {
            let mut pane = pane();
            pane.take(examination(TtyUse::Reading), is_reported, Instant::now());
            for _ in 0..3 {
                pane.take(stopped(), is_reported, pane.next);
                let evidence = pane.evidence().unwrap();
                assert_eq!(evidence.reader, expected);
                assert_eq!(evidence.stopped, Some(Stop::BySignal));
            }
            pane.take(examination(TtyUse::Reading), is_reported, pane.next);
            assert_eq!(pane.evidence().unwrap().stopped, None);
        }
    }

    /// Whether keys may be checked after each of several examinations, given how many pauses of each
    /// thread were counted. No CPU time was counted, so the programs may have run each time.
    fn may_check_keys(
        every: Duration,
        examinations: impl IntoIterator<Item = Option<BTreeMap<u32, u64>>>,
    ) -> Vec<bool> {
        let mut pane = pane();
        let mut now = Instant::now();
        let take = |pauses| {
            let examination = TtyExamination {
                pauses,
                ..examination(TtyUse::Elsewhere)
            };
            pane.take(examination, false, now);
            now += every;
            assert!(pane.known.as_mut().unwrap().check_activity(false, now));
            !pane.evidence().unwrap().checks_no_keys
        };
        examinations.into_iter().map(take).collect()
    }

    #[test]
    fn a_shell_that_waits_for_one_command_after_the_other_checks_no_keys() {
        // A command sleeps several times as it starts.
        let pauses = [
            [(7, 3), (20, 1)],
            [(7, 4), (21, 4)],
            [(7, 4), (21, 4)],
            [(7, 5), (22, 5)],
        ];
        let pauses = pauses.map(|pauses| Some(pauses.into()));
        assert_eq!(may_check_keys(FIRST_PAUSE, pauses), [false; 4]);
    }

    #[test]
    fn programs_check_no_keys_unless_they_run_and_sleep_often() {
        let (soon, long) = (FIRST_PAUSE, Duration::from_secs(10));
        // How many pauses were counted at each examination, and whether keys may be checked.
        for (every, pauses, expected) in [
            (soon, &[-1, 7, -1][..], &[false, false, false][..]),
            (long, &[7, 60, 60], &[false, true, false]),
            // They compute, or sleep twice a second.
            (long, &[7, 7, 27], &[false, false, false]),
            // Five times a second, as is known after a while.
            (soon, &[7, 8, 9, 11], &[false, false, false, true]),
            // Twice a second.
            (soon, &[1, 2, 2, 3, 3, 4], &[false; 6]),
        ] {
            let of_one_thread = |n: &i32| Some(BTreeMap::from([(7, u64::try_from(*n).ok()?)]));
            let actual = may_check_keys(every, pauses.iter().map(of_one_thread));
            assert_eq!(actual, expected, "{pauses:?}");
        }
    }

    #[test]
    fn a_countdown_differs_in_numbers() {
        let before = screen("Stop?\n│ 100 │");
        for (after, expected) in [
            ("Stop?\n│  99 │", true),
            ("Stop? y\n│  99 │", false),
            ("Stop?\n│  99 │\n", false),
        ] {
            let differs = differ_in_numbers(&before, &screen(after));
            assert_eq!(differs, expected, "{after:?}");
        }
    }

    #[test]
    fn an_animated_screen_is_no_other_screen() {
        let screen = |row: &str, alternate| Screen {
            alternate: Some(alternate),
            ..screen(row)
        };
        let mut pane = pane();
        pane.screen = screen("/ Go?", false);
        let is_animated = |later: &Screen| pane.is_changed_beside(later, || false);
        assert!(is_animated(&screen("- Go?", false)));
        assert!(!is_animated(&screen("- Go?", true)));
        assert!(!is_animated(&screen("- Stop?", false)));
        // It is the same, perhaps with another cursor.
        assert!(!is_animated(&screen("/ Go?", false)));
    }

    #[test]
    fn an_unanswered_prompt_is_checked_every_second() {
        let pauses = |is_reported: bool| -> Vec<(u128, u128)> {
            let mut pane = pane();
            let start = Instant::now();
            pane.take(examination(TtyUse::Reading), is_reported, start);
            let mut pauses = vec![];
            while pane.next < start + Duration::from_secs(15) {
                let now = pane.next;
                pane.judge_once();
                let known = pane.known.as_mut().unwrap();
                known.check_activity(is_reported, now);
                pane.next = now + known.pause;
                let pause = known.pause.as_millis();
                if pauses.last().is_none_or(|(_, last)| *last != pause) {
                    pauses.push(((now - start).as_millis(), pause));
                }
            }
            pauses
        };
        assert_eq!(pauses(true), [(250, 500), (10_250, 1000)]);
        assert_eq!(pauses(false), [(250, 500), (750, 1000), (1750, 2000)]);
    }

    #[test]
    #[cfg(linux)]
    fn programs_that_print_on_and_on_are_examined_at_every_fifth_look() {
        let mut pane = pane();
        let now = Instant::now();
        let mut put_off = Vec::new();
        let mut busy = std::process::Command::new("sh");
        let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().unwrap();
        for look in 1..=12 {
            // It has run since the last look.
            while pane.printing.as_ref().is_some_and(CpuActivity::lasts) {
                std::thread::yield_now();
            }
            if pane.put_off(now) {
                put_off.push(look);
                assert_eq!(pane.next, now + PUT_OFF);
                // Once, although they run on.
                assert!(!pane.put_off(now));
                // Or until a look finds the same rows.
                pane.was_put_off = true;
                pane.note_still(now);
                assert_eq!(pane.next, now);
                pane.n_moved = look;
            } else {
                let activity = process::examine(busy.id(), "/dev/null".as_ref()).activity;
                let mut elsewhere = examination(TtyUse::Elsewhere);
                elsewhere.activity = activity;
                pane.take(elsewhere, false, now);
            }
            pane.note_moved(Screen::default(), false, now);
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(put_off, [4, 6, 7, 8, 9, 11, 12]);
        // One that has not run since may ask.
        let asleep = std::process::Command::new("sleep").arg("100").spawn();
        let mut asleep = asleep.unwrap();
        let of_asleep = || process::examine(asleep.id(), "/dev/null".as_ref()).activity;
        let start = Instant::now();
        while {
            pane.printing = Some(of_asleep());
            pane.put_off(now)
        } {
            assert!(start.elapsed() < Duration::from_secs(20));
        }
        asleep.kill().unwrap();
        asleep.wait().unwrap();
    }

    #[test]
    #[cfg(linux)]
    fn what_has_slept_is_examined_before_what_has_always_run() {
        // It waits for its input.
        let child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let of_child = || process::examine(child.id(), "/dev/null".as_ref()).activity;
        let start = Instant::now();
        let after = |n: u32| start + FIRST_PAUSE * n;
        let restless = |begin: Instant| {
            let mut pane = pane();
            pane.take(examination(TtyUse::Elsewhere), false, begin);
            pane
        };
        let has_run =
            |pane: &mut PolledPane, now| pane.known.as_mut().unwrap().check_activity(false, now);

        let mut always = restless(start);
        assert!(has_run(&mut always, after(1)));
        let mut late = restless(start);
        loop {
            late.known.as_mut().unwrap().examination.activity = of_child();
            if !has_run(&mut late, after(2)) {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{late:?}");
            late = restless(start);
        }
        late.known.as_mut().unwrap().examination.activity = Default::default();
        assert!(has_run(&mut late, after(3)));
        let [late, always] =
            [late, always].map(|pane| pane.known.unwrap().urgency(false, after(3)).unwrap());
        assert!(late < always, "{late:?} {always:?}");

        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn what_is_hidden_is_soon_asked_again() {
        let mut pane = pane();
        let now = Instant::now();
        pane.take(examination(TtyUse::Unknown), false, now);
        assert_eq!(pane.next, now + SECOND_PAUSE);
        pane.take(examination(TtyUse::Unknown), false, now + SECOND_PAUSE);
        assert_eq!(pane.next, now + SECOND_PAUSE + FIRST_PAUSE);
        // Nothing was determined at all.
        let nothing = || TtyExamination {
            evidence: None,
            ..examination(TtyUse::Unknown)
        };
        let mut pane = super::tests::pane();
        pane.take(nothing(), false, now);
        let reader = pane.evidence().map(|evidence| evidence.reader);
        assert_eq!(reader, Some(TtyUse::Elsewhere));
        pane.take(nothing(), false, pane.next);
        assert_eq!(pane.evidence(), None);
    }
}

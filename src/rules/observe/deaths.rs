//! Assigns the entries of the death record to runs.
//!
//! Where tmux reports the pid of a death, the pid decides. tmux 3.8 does not report it; there the
//! order of the deaths decides, unless the kernel, the launcher or the terminal names contradict.

use super::{Evidence, KnownWindow};
use crate::model::{Exit, Life, PaneId, Signal};
use crate::rules::protocol::rows::{Death, PaneRow};

/// A death with its index in the record.
pub(super) type RecordedDeath<'a> = (usize, &'a Death);

/// The deaths in one window since the previous look.
#[derive(Debug, Default)]
pub(super) struct WindowDeaths<'a> {
    /// That of the run that was the present one at the previous look.
    pub(super) own: Option<RecordedDeath<'a>>,
    pub(super) later: Vec<RecordedDeath<'a>>,
}

impl<'a> WindowDeaths<'a> {
    /// Selects the deaths of a pane, in whichever window, from after number `deaths_read` on.
    pub(super) fn find(
        record: &'a [Death],
        deaths_read: Option<u64>,
        pane: Option<PaneId>,
        before: Option<&EarlierRun<'_>>,
    ) -> Self {
        let is_new = |death: &Death| match (death.number, deaths_read) {
            (Some(number), Some(deaths_read)) => number > deaths_read,
            (None, _) | (_, None) => true,
        };
        let mut deaths: Vec<RecordedDeath<'a>> = Vec::new();
        for (place, death) in record.iter().enumerate() {
            let is_known =
                death.pid.is_some() && deaths.iter().any(|(_, known)| known.pid == death.pid);
            if Some(death.pane) == pane && is_new(death) && !is_known {
                deaths.push((place, death));
            }
        }
        let Some(before) = before else {
            return Self {
                own: None,
                later: deaths,
            };
        };
        let (skipped, own) = before.own(&deaths);
        let later = deaths.split_off(skipped + usize::from(own));
        Self {
            own: deaths.pop().filter(|_| own),
            later,
        }
    }

    /// Returns the death of the process that a dead pane shows, which belongs to a new run.
    pub(super) fn of_present(&self, pane: &PaneRow) -> Option<RecordedDeath<'a>> {
        let death = self.later.last()?;
        let (_, last) = death;
        let agree = last.pid.is_none() || pane.pid.is_none() || last.pid == pane.pid;
        (agree && pane.dead.is_some()).then_some(*death)
    }
}

/// The run that was a window's present one at the previous look, and what is known of it since.
pub(super) struct EarlierRun<'a> {
    pub(super) known: &'a KnownWindow,
    pub(super) evidence: &'a Evidence,
    /// The process that our launcher replaced last.
    pub(super) replaced: Option<u32>,
}

impl EarlierRun<'_> {
    /// Returns how many of these deaths were before this run's own, and whether that is among them.
    fn own(&self, deaths: &[RecordedDeath<'_>]) -> (usize, bool) {
        let task = &self.known.task;
        let by_pid = |(_, death): &RecordedDeath<'_>| death.pid.is_some() && death.pid == task.pid;
        if let Some(at) = deaths.iter().rposition(by_pid) {
            return (at, true);
        }
        let has_no_pid = |(_, death): &RecordedDeath<'_>| death.pid.is_none() || task.pid.is_none();
        match &task.life {
            Life::Unknown | Life::Alive => {
                // A record that a daemon before us left behind may begin with runs before it.
                let is_restored = self.known.terminal.is_none();
                let earlier = deaths
                    .iter()
                    .take_while(|(_, death)| is_restored && self.is_later_than(death));
                let at = earlier.count();
                let may_be = |(_, death): &&RecordedDeath<'_>| {
                    self.may_have_ended(&death.exit, death.terminal.as_deref())
                };
                let first = deaths.get(at).filter(|first| has_no_pid(first));
                (at, first.filter(may_be).is_some())
            }
            Life::Dead(exit) => {
                // Reported as dead before it was recorded, or by an earlier daemon.
                let fits = |recorded: &RecordedDeath<'_>| {
                    let (_, death) = recorded;
                    let ended_at = task.ended_at.unwrap_or_default();
                    let in_time = |time: i64| time.saturating_mul(1000) <= ended_at;
                    has_no_pid(recorded)
                        && !contradict(exit, &death.exit)
                        && death.time.is_none_or(in_time)
                };
                let at = deaths.iter().rposition(fits);
                match at.filter(|_| !self.known.is_recorded) {
                    Some(at) => (at, true),
                    None => (0, false),
                }
            }
        }
    }

    /// Whether this run began in a later second than this death.
    fn is_later_than(&self, death: &Death) -> bool {
        let next_second = |time: i64| time.saturating_add(1).saturating_mul(1000);
        match (death.time, self.known.task.started_at) {
            (Some(time), Some(started_at)) => next_second(time) <= started_at,
            (None, _) | (_, None) => false,
        }
    }

    /// Whether an end without a pid may belong to this run.
    pub(super) fn may_have_ended(&self, exit: &Exit, terminal: Option<&str>) -> bool {
        let had_another_terminal = match (terminal, self.known.terminal.as_deref()) {
            (Some(terminal), Some(known)) => name(terminal) != name(known),
            (None, _) | (_, None) => false,
        };
        let is_contradicted = self.known.task.pid.is_some_and(|pid| {
            let by_kernel = self.evidence.exits.get(&pid);
            let by_hang_up = exit.signal.is_some() && exit.signal == Signal::parse("HUP");
            self.replaced == Some(pid)
                || by_kernel.is_some_and(|known| contradict(known, exit))
                || (self.evidence.hung_up.contains(&pid) && exit.is_known() && !by_hang_up)
        });
        !had_another_terminal && !is_contradicted
    }
}

/// Whether both exits are known and differ. Not all signals have one name: they are not compared.
fn contradict(one: &Exit, other: &Exit) -> bool {
    one.is_known() && other.is_known() && one.code != other.code
}

fn name(terminal: &str) -> &str {
    terminal.rsplit('/').next().unwrap_or_default()
}

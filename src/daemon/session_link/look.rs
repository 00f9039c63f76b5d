//! Looks at the session, with everything else that is known of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::super::control_clients::ControlClients;
use super::last_look::{primary, watched_windows};
use super::{Attachment, SessionInfo, SessionLink};
use crate::clock::now;
use crate::model::{SessionId, WindowId};
use crate::observe::Evidence;
use crate::protocol::rows::Look;
use crate::session::{self, Coverage, LinkState, LookFacts, LookOrder, LookPlan, Refresh};
use crate::tmux::{self, Connection, LookExtent, Target, TmuxError};
use crate::wire::Checkpoint;

/// How often a safety look queries everything, at most.
const ASK_FOR_ALL_EVERY: Duration = Duration::from_secs(5);

/// How much longer that pause is for each window, so that the cost does not grow with the windows.
const ASK_FOR_ALL_PER_WINDOW: Duration = Duration::from_secs(1);

/// The result of a look through the control client.
enum AttachedLook {
    Taken {
        /// The look; `None` when the session is gone.
        look: Option<Look>,
        /// Whether it had a trigger just then.
        has_trigger: bool,
        /// Whether a report did not say which windows have changed.
        is_any_doubtful: bool,
    },
    /// Nothing was reported to look at.
    NotNeeded,
    /// The server has not run since a sweep.
    Unchanged,
    /// A part of a sweep found everything as before.
    NothingNew,
    /// There is no control client any more.
    NotAttached,
    /// tmux did not answer in time; a process would wait as long again.
    NoAnswer,
}

/// What was reported before a look.
struct Reported {
    /// The session that is looked at.
    life: SessionId,
    facts: LookFacts,
    /// Windows that were closed.
    closed: BTreeSet<WindowId>,
    /// Whether all earlier reports have arrived, if the order asks for that.
    synced: Result<(), TmuxError>,
}

/// The result of a look.
pub(in crate::daemon) enum LinkLook {
    /// A look.
    Taken(Box<session::Look>),
    /// Nothing was reported to look at.
    NotNeeded,
    /// tmux has not run since everything was last looked at.
    Unchanged,
    /// A part of a sweep found everything as before, and the sweep has further parts.
    NothingNew,
}

impl SessionLink {
    /// Looks as ordered. A screen that has been unchanged for `quiet` may wait for input.
    ///
    /// # Errors
    ///
    /// When nothing is known of the session; then the last look remains valid.
    pub(in crate::daemon) async fn look(
        &mut self,
        order: &LookOrder,
        quiet: Duration,
    ) -> Result<LinkLook, TmuxError> {
        let (look, mut has_trigger, is_any_doubtful) = match self.attached_look(order).await {
            AttachedLook::Taken {
                look,
                has_trigger,
                is_any_doubtful,
            } => (look, has_trigger, is_any_doubtful),
            AttachedLook::NotNeeded => return Ok(LinkLook::NotNeeded),
            AttachedLook::Unchanged => return Ok(LinkLook::Unchanged),
            AttachedLook::NothingNew => return Ok(LinkLook::NothingNew),
            AttachedLook::NoAnswer => {
                if order.refresh == Refresh::Yes {
                    self.ask_for_all();
                }
                return Err(TmuxError::TimedOut);
            }
            AttachedLook::NotAttached => {
                if order.refresh == Refresh::Yes {
                    self.ask_for_all();
                }
                tracing::debug!(plan = "Apart", windows = "all", "look planned");
                (self.look_apart().await?, false, false)
            }
        };
        let reading = self.server_run_time();
        // Attaching can take long; the look is of its end.
        let now = now();
        let mut evidence = Evidence::default();
        match &look {
            None => self.forget_session().await,
            Some(look) => {
                self.follow_life(&look.session.life);
                self.about = SessionInfo {
                    name: Some(look.session.name.clone()),
                    root: look.session.root.clone(),
                };
                evidence.started_at = self.processes.starts(look);
            }
        }
        evidence.moved_panes = self.moved_panes(look.as_ref()).await;
        has_trigger |= self.processes.learn_ends(&mut evidence);
        evidence.bells = self.bells();
        evidence.gone = self
            .gone(look.as_ref(), &order.killed, &evidence.ended)
            .await;
        let observed = self.observer.observe(look.as_ref(), &evidence, now);
        let mut snapshot = observed.snapshot;
        self.terminals
            .add_to(&mut snapshot, look.as_ref(), quiet, now);
        self.watched_windows = watched_windows(&snapshot);
        self.primary = primary(&snapshot);
        self.processes.watch(&snapshot);
        self.options.note_look(&snapshot, observed.write_runs);
        let look = session::Look {
            at: now,
            snapshot,
            coverage: Coverage::new(
                look.as_ref().map(|look| look.is_whole),
                self.is_connected() && self.memory.is_sweeping(),
            ),
            has_trigger,
            is_any_doubtful,
            is_unsettled: observed.unsettled,
            needs_nudge: observed.nudge,
            death_record: look.map(|look| look.death_record).unwrap_or_default(),
            link: LinkState {
                life: self.life.clone(),
                session_name: self.about.name.clone(),
                bookmark: self.observer.bookmark(),
                checkpoint: self.checkpoint(),
                is_connected: self.is_connected(),
                connection: self.connections,
                is_any_paused: self.is_any_paused(),
            },
        };
        if look.coverage == Coverage::Whole {
            self.idle.note_sweep(now.mono, reading);
        }
        Ok(LinkLook::Taken(Box::new(look)))
    }

    /// Looks through the control client. The look of an order that is a barrier includes everything
    /// that tmux had to report before the order.
    async fn attached_look(&mut self, order: &LookOrder) -> AttachedLook {
        let mut first = self.look_once(order).await;
        // Parts of sweeps, which may end with nothing new, are never barriers.
        if !order.is_own_barrier() {
            return first;
        }
        let AttachedLook::Taken {
            look, has_trigger, ..
        } = &mut first
        else {
            return first;
        };
        let Attachment::Attached(clients) = &mut self.attachment else {
            return first;
        };
        *has_trigger |= clients.catch_up().await.is_some();
        let is_ours = |window: &WindowId| self.primary.contains_key(window);
        if !clients.activity.has_reports_since_look(is_ours) {
            return first;
        }
        let (had_trigger, was_whole) = (
            *has_trigger,
            look.as_ref().is_some_and(|look| look.is_whole),
        );
        let mut again = self.look_once(order).await;
        if let AttachedLook::Taken {
            look, has_trigger, ..
        } = &mut again
        {
            *has_trigger |= had_trigger;
            if let Some(look) = look {
                look.is_whole |= was_whole;
            }
        }
        again
    }

    /// Looks once; see [`SessionLink::attached_look`].
    async fn look_once(&mut self, order: &LookOrder) -> AttachedLook {
        let Some(reported) = self.take_reported(order).await else {
            return AttachedLook::NotAttached;
        };
        let plan = LookPlan::new(order, reported.facts);
        let extent = match plan {
            LookPlan::NotNeeded | LookPlan::Unchanged => {
                tracing::debug!(?plan, "look not taken");
                return if plan == LookPlan::Unchanged {
                    AttachedLook::Unchanged
                } else {
                    AttachedLook::NotNeeded
                };
            }
            LookPlan::Reported | LookPlan::ReportedAndList => LookExtent::Reported,
            LookPlan::Part => LookExtent::Part,
            LookPlan::Whole => LookExtent::Whole,
        };
        self.take_planned(order, plan, extent, reported).await
    }

    /// Takes what was reported by now; `None` without a control client.
    async fn take_reported(&mut self, order: &LookOrder) -> Option<Reported> {
        let run_time = self.server_run_time();
        let (Attachment::Attached(clients), Some(life)) = (&mut self.attachment, &self.life) else {
            return None;
        };
        let life = life.id;
        let mut synced = Ok(());
        if order.is_barrier && !order.is_own_barrier() {
            synced = clients.main.sync().await;
        }
        // The look includes whatever triggers it.
        let mut has_trigger = clients.catch_up().await.is_some();
        has_trigger |= self.processes.catch_up();
        let mut closed = clients.activity.take_closed();
        // Of a window that came and went since the last look, it was reported that it came.
        closed.retain(|window| self.primary.contains_key(window));
        let facts = LookFacts {
            is_synced: synced.is_ok(),
            has_trigger,
            has_reports: clients.activity.is_any_reported()
                || self.processes.has_ended()
                || !closed.is_empty(),
            is_any_changed: clients.activity.is_any_changed(),
            is_any_paused: clients.activity.is_any_paused(),
            is_sweeping: self.memory.is_sweeping(),
            is_swept: self.idle.is_swept(Instant::now().into_std(), run_time),
        };
        Some(Reported {
            life,
            facts,
            closed,
            synced,
        })
    }

    /// Looks as planned.
    async fn take_planned(
        &mut self,
        order: &LookOrder,
        plan: LookPlan,
        extent: LookExtent,
        reported: Reported,
    ) -> AttachedLook {
        let Reported {
            life,
            facts,
            mut closed,
            synced,
        } = reported;
        self.prepare_refresh(order, plan);
        let Attachment::Attached(clients) = &mut self.attachment else {
            return AttachedLook::NotAttached;
        };
        let continued = clients.continue_quiet().await;
        let ControlClients { main, activity, .. } = &mut **clients;
        let mut changed = activity.take_changed();
        changed.extend(&order.windows);
        match plan {
            LookPlan::Whole => tracing::debug!(?plan, windows = "all", "look planned"),
            LookPlan::NotNeeded
            | LookPlan::Unchanged
            | LookPlan::Reported
            | LookPlan::ReportedAndList
            | LookPlan::Part => tracing::debug!(?plan, windows = ?changed, "look planned"),
        }
        let (hung_up, in_place) = self.processes.ended_since();
        self.memory.expect(activity.printed(), &in_place, changed);
        self.memory.doubt(&hung_up);
        closed.extend(order.killed.keys());
        self.memory.forget_windows(&closed);
        let mut connection = Connection::Attached(main);
        let target = Target::Own(life);
        let look = tmux::look(&mut connection, &target, &mut self.memory, extent).await;
        match synced.and(continued).and(look) {
            Ok(look) => {
                // Each look queries the windows of paused panes.
                activity.record_look(look.iter().flat_map(Look::quietness));
                if plan.is_in_passing(facts, self.memory.is_sweeping(), self.memory.is_same()) {
                    return AttachedLook::NothingNew;
                }
                AttachedLook::Taken {
                    look,
                    has_trigger: facts.has_trigger,
                    is_any_doubtful: plan == LookPlan::ReportedAndList,
                }
            }
            Err(error) => {
                tracing::info!(%error, "lost the control client");
                self.disconnect();
                if matches!(error, TmuxError::TimedOut) {
                    AttachedLook::NoAnswer
                } else {
                    AttachedLook::NotAttached
                }
            }
        }
    }

    /// Takes the counts of bells that hooks have reported.
    fn bells(&mut self) -> BTreeMap<WindowId, u64> {
        match &mut self.attachment {
            Attachment::Attached(clients) => clients.activity.take_bells(),
            Attachment::Apart { .. } => BTreeMap::new(),
        }
    }

    /// Prepares the memory for a look: what it asks for besides what was reported.
    fn prepare_refresh(&mut self, order: &LookOrder, plan: LookPlan) {
        if plan == LookPlan::ReportedAndList {
            self.memory.want_list();
        }
        if plan == LookPlan::Part && order.is_new_sweep {
            self.memory.restart_sweep();
        }
        match order.refresh {
            Refresh::No => {}
            Refresh::Yes => self.ask_for_all(),
            // A sweep goes on as it began.
            Refresh::IfOld if plan == LookPlan::Part && !self.memory.is_sweeping() => {
                self.ask_for_all_again();
            }
            Refresh::IfOld => {}
        }
    }

    /// Makes the next look query everything, including changes that are never reported: options,
    /// and the foreground program of a task that we did not start.
    fn ask_for_all(&mut self) {
        self.all_asked = Some(Instant::now());
        self.memory.ask_for_all();
    }

    /// Makes the next look query everything if the last one that did was long ago.
    fn ask_for_all_again(&mut self) {
        if self
            .all_asked
            .is_none_or(|at| at.elapsed() >= ask_for_all_pause(self.primary.len()))
        {
            self.ask_for_all();
        }
    }

    /// Returns the state after the last look.
    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            life: self.life.clone(),
            deaths_read: self.observer.deaths_read(),
        }
    }
}

/// Returns how long a session with this many windows is not queried in full for safety.
fn ask_for_all_pause(n_windows: usize) -> Duration {
    let n_windows = u32::try_from(n_windows).unwrap_or(u32::MAX);
    ASK_FOR_ALL_EVERY.max(ASK_FOR_ALL_PER_WINDOW.saturating_mul(n_windows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_windows_are_queried_in_full_more_seldom() {
        for (n_windows, secs) in [(0, 5), (10, 10), (100, 100), (300, 300)] {
            assert_eq!(ask_for_all_pause(n_windows).as_secs(), secs, "{n_windows}");
        }
    }
}

//! Looks, and what they bring: records, and how soon to look again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::hub::{Hub, SAVE_WITHIN};
use super::look_schedule::{Found, News};
use super::session_link::{Seen, Untidy};
use super::{run_archiver, waiting};
use crate::clock::now;
use crate::engine::Effect;
use crate::model::{Body, Difference, EventKind, GoneReason, Snapshot, WindowId};
use crate::tmux::Extent;

/// Of so many windows a list shows also what nothing reports: somebody has set an option, or another
/// program runs in the foreground.
const FEW_WINDOWS: usize = 32;

/// Why a look is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Something called for it.
    Called,
    /// Nothing did: it makes sure.
    Safety,
}

/// What came of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// It found something, or nothing that it could have missed.
    Enough,
    /// It found nothing, and there is what it did not look at.
    FoundNothing,
}

impl Hub {
    /// Looks, records and tells.
    pub(super) async fn look(&mut self) {
        self.look_because(Why::Called, Extent::Whole, &BTreeMap::new())
            .await;
    }

    /// The same for what somebody told of.
    pub(super) async fn look_at_told(&mut self) -> Looked {
        self.look_because(Why::Called, Extent::Told, &BTreeMap::new())
            .await
    }

    /// Takes in all that tmux and the kernel have reported by now. Only what it is about is looked
    /// at: the cost does not grow with the windows.
    pub(super) async fn catch_up(&mut self) {
        let is_told = self.watch.is_told();
        if self.watch.sync().await {
            if is_told {
                self.look_at_told().await;
            } else {
                self.look().await;
            }
        }
    }

    /// Looks at everything where there are few windows, and else at what was reported.
    pub(super) async fn look_at_all_of_few(&mut self) {
        let n_windows = self.engine.before().map_or(0, |look| look.tasks.len());
        if n_windows <= FEW_WINDOWS {
            self.look_at_all().await;
        } else {
            self.catch_up().await;
        }
    }

    /// Looks at everything of this window, and at what was reported of others.
    pub(super) async fn look_at_window(&mut self, window: WindowId) {
        self.watch.expect_change(window);
        self.look_at_told().await;
    }

    /// Looks for somebody who wants to know how everything stands.
    pub(super) async fn look_at_all(&mut self) {
        self.watch.ask_for_all();
        self.look().await;
    }

    /// Looks after a command has just ended these windows.
    pub(super) async fn look_after_kill(&mut self, killed: &BTreeMap<WindowId, GoneReason>) {
        for window in killed.keys() {
            self.watch.expect_change(*window);
        }
        self.look_because(Why::Called, Extent::Told, killed).await;
    }

    pub(super) async fn look_because(
        &mut self,
        why: Why,
        extent: Extent,
        killed: &BTreeMap<WindowId, GoneReason>,
    ) -> Looked {
        if self.recorder.is_full() {
            // The next look finds what changes meanwhile.
            self.pace.looked(Found::Untold, News::None, false);
            return Looked::Enough;
        }
        let at = now();
        let engine = &self.engine;
        let waits = |window| engine.prompt_of(window).is_some();
        let quiet = engine.settings().quiet;
        let look = self.watch.look(killed, waits, quiet, extent, at).await;
        let Seen {
            snapshot,
            is_whole,
            is_told,
            unsettled,
            untidy,
        } = match look {
            Ok(seen) => seen,
            Err(error) => {
                let problem = format!("tasks cannot be looked at: {}", with_causes(&error));
                if self.look_problem.as_ref() != Some(&problem) {
                    tracing::warn!(%error, "a look failed");
                }
                self.look_problem = Some(problem);
                self.pace.looked(Found::Untold, News::None, false);
                return Looked::Enough;
            }
        };
        if self.look_problem.take().is_some() {
            tracing::info!("tasks can be looked at again");
        }
        let name = self.watch.about().name.as_deref();
        self.recorder.rename(name.unwrap_or(&snapshot.session));
        self.recorder.set_checkpoint(self.watch.checkpoint());
        let found = self.found(&snapshot);
        let before = self.engine.before();
        let difference =
            before.map_or(Difference::Otherwise, |before| before.difference(&snapshot));
        let dead = self.dead_runs();
        let effects = self.engine.look(snapshot, at);
        if why == Why::Safety && !is_told && should_have_been_told(&effects, &dead) {
            self.found_late += 1;
            tracing::warn!("a look found what should have been told");
        }
        let has_told = !effects.is_empty();
        let ended = run_archiver::ended(&effects);
        if !ended.is_empty() {
            self.nudge_for_a_while();
        }
        self.perform(effects);
        let news = if has_told || difference > Difference::InPassing {
            News::Some
        } else if is_whole {
            News::None
        } else {
            News::NoneOfTold
        };
        self.pace.looked(found, news, unsettled);
        if self.watch.is_any_paused() {
            self.pace.paused();
        }
        // Readers are served before anything that can wait.
        tokio::task::yield_now().await;
        self.clear_up(&untidy, &ended, difference).await;
        if has_told || is_whole || unsettled {
            Looked::Enough
        } else {
            Looked::FoundNothing
        }
    }

    /// Does what can wait until a look has been told.
    async fn clear_up(
        &mut self,
        untidy: &Untidy,
        ended: &[(WindowId, Option<u32>)],
        difference: Difference,
    ) {
        self.watch.tidy(untidy).await;
        run_archiver::keep(self, ended).await;
        match difference {
            Difference::Otherwise => self.save_within(Duration::ZERO),
            Difference::InBells => self.save_within(SAVE_WITHIN),
            Difference::InPassing => {}
        }
        self.save_if_due();
        if self.recorder.is_settled() {
            self.watch.forget_deaths().await;
        }
        waiting::looked(self).await;
        if self.is_layout_changed {
            waiting::relayout(self).await;
        }
    }

    /// Returns how soon a look like this one calls for another.
    fn found(&self, snapshot: &Snapshot) -> Found {
        let has_dead = || snapshot.tasks.values().any(|task| !task.is_alive());
        match (snapshot.exists, self.watch.is_told()) {
            (false, _) => Found::Absent,
            (true, false) => Found::Untold,
            (true, true) if has_dead() => Found::ToldWithDead,
            (true, true) => Found::Told,
        }
    }

    /// Returns the windows whose run had ended in the last look.
    fn dead_runs(&self) -> BTreeSet<WindowId> {
        let tasks = self
            .engine
            .before()
            .into_iter()
            .flat_map(|look| look.tasks.values());
        tasks
            .filter(|task| !task.is_alive())
            .map(|task| task.window)
            .collect()
    }
}

/// Returns what an error says, with what brought it about.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Whether a look brought an event that tmux or the kernel should have told of. That a dead pane
/// runs again is told by nobody.
fn should_have_been_told(effects: &[Effect], dead: &BTreeSet<WindowId>) -> bool {
    let records = effects.iter().flat_map(|effect| match effect {
        Effect::Append(records) => records.as_slice(),
        Effect::Status(_) => &[],
    });
    records.into_iter().any(|record| match &record.body {
        Body::Event(event) => match event.kind {
            // That a program begins or ceases to wait need not show in its output.
            EventKind::Input { .. } | EventKind::InputResolved { .. } => false,
            EventKind::Started { .. }
            | EventKind::Notify { .. }
            | EventKind::Exited { .. }
            | EventKind::Disappeared { .. } => !dead.contains(&event.task.window),
        },
        Body::Notice { .. } | Body::FollowUp { .. } => false,
    })
}

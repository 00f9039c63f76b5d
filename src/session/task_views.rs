//! Tasks as answers and subscribers show them.

use std::sync::Arc;

use super::effect::Effect;
use super::machine::Session;
use crate::model::{Millis, Now, Ordered as _, Task, WindowId};
use crate::wire::{ExplainedState, Explanation, LsTask, LsView, TaskBoard};

impl Session {
    /// Publishes the tasks of the last look.
    pub(super) fn publish_tasks(&mut self, now: Now) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        let listed = |(window, task): (&WindowId, &Arc<Task>)| (*window, self.listed(task, now));
        let board = TaskBoard {
            exists: look.exists,
            tasks: look.tasks.iter().map(listed).into_map(),
        };
        self.effects.push(Effect::Tasks(board));
    }

    pub(super) fn view(&self, now: Now) -> LsView {
        let look = self.engine.last_look().cloned().unwrap_or_default();
        LsView::new(&look, true, |task| self.listed(task, now))
    }

    /// Returns a task with what is known of it besides.
    pub(super) fn listed(&self, task: &Arc<Task>, now: Now) -> LsTask {
        let window = task.window;
        let prompt = self.engine.prompt_of(window);
        let listed = LsTask::new(Arc::clone(task), prompt.map(|prompt| prompt.text.clone()));
        LsTask {
            usual_ms: self.usual.of(task),
            ..listed.with_restart(
                self.restarts.next(window, now),
                self.restarts.why_impossible(window),
            )
        }
    }

    /// Asks how long these runs usually take.
    pub(super) fn find_usual_durations(&mut self, windows: &[WindowId]) {
        for window in windows {
            let task = self.task(*window);
            // A shell has no usual duration.
            if let Some(task) = task.filter(|task| task.is_alive() && !task.shell) {
                self.effects.push(Effect::FindUsualDuration(task));
            }
        }
    }

    pub(super) fn usual_duration_found(
        &mut self,
        window: WindowId,
        run: Option<u32>,
        millis: Millis,
        now: Now,
    ) {
        let tasks = self.engine.last_look().map(|look| &look.tasks);
        let task = tasks.and_then(|tasks| Some((tasks, tasks.get(&window)?)));
        if let Some((tasks, task)) = task.filter(|(_, task)| task.is_alive() && task.run == run) {
            self.usual.add(task, millis, tasks);
            self.publish_tasks(now);
        }
    }

    /// Explains why a task is or is not judged to wait for input.
    pub(super) fn explain(&self, task: &Task, now: Now) -> Explanation {
        let engine = &self.engine;
        let look = engine.last_look();
        let terminal = look
            .and_then(|look| look.terminals.get(&task.window))
            .map(Arc::as_ref);
        let judged = engine.judgement_of(task.window);
        let mut explanation = Explanation::new(task, judged.map(|(judged, ..)| judged), terminal);
        if let Some((judged, since, reported)) = judged {
            let found = judged.found.as_ref();
            if found.is_some_and(|found| engine.user_rules().mutes(task, &found.prompt)) {
                explanation.state = ExplainedState::Muted;
            }
            explanation.waiting_since = reported.map(|now| now.wall);
            let quiet = now.mono.saturating_duration_since(since);
            explanation.quiet_ms = u64::try_from(quiet.as_millis()).ok();
        }
        explanation.next_restart = self.restarts.next(task.window, now);
        explanation.cannot_restart = self.restarts.why_impossible(task.window);
        if engine.prompt_of(task.window).is_some() {
            explanation.state = ExplainedState::Waiting;
        }
        explanation
    }
}

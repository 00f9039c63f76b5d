//! What answers show: the end of a task's output, and tasks as answers and subscribers show them.

use std::rc::Rc;
use std::sync::Arc;

use super::input::{Effect, Job};
use super::job_queue::{EndRead, OutputEnd, Turn};
use super::promise::promise;
use super::state::{Cx, State};
use crate::model::{Millis, Now, Ordered as _, PaneId, Task, WindowId};
use crate::rules::wait::{Anchor, Cursor};
use crate::rules::wire::{ExplainedState, Explanation, LsTask, LsView, TaskBoard};

/// Reads the end of a task's output in this pane, with so many of its last lines; once for all that need it.
pub(super) async fn read_end(cx: &Cx, pane: PaneId, lines: usize, task: Arc<Task>) -> OutputEnd {
    let (reader, end) = promise();
    cx.with(|state| {
        let ends = &mut state.jobs.ends;
        let same = |other: &&mut EndRead| other.pane == pane && other.task.run == task.run;
        if let Some(other) = ends.iter_mut().find(same) {
            other.lines = other.lines.max(lines);
            other.readers.push(reader);
            return;
        }
        ends.push_back(EndRead {
            pane,
            lines,
            task,
            readers: vec![reader],
        });
        state.spawn(read_next_end);
    });
    end.await
}

async fn read_next_end(cx: Cx) {
    let link = cx.turn(Turn::End).await;
    let Some(read) = cx.with(|state| state.jobs.ends.pop_front()) else {
        return;
    };
    let output = link.run(|outcome| Job::ReadEnd(read.pane, read.lines, outcome));
    let output = output.await;
    let end = cx.with(|state| match output {
        Ok(output) => {
            let (life, anchor) = (state.link.life.as_ref()?, Anchor::at_cursor(&output));
            let cursor = Cursor::new(life, read.task.window, read.task.run?, anchor);
            Some(Rc::new((cursor, output)))
        }
        Err(error) => {
            state.log_unread(read.pane, "cursor", error);
            None
        }
    });
    for reader in read.readers {
        reader.resolve(end.clone());
    }
}

impl State {
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
        let prompt = self.engine.episodes.prompt_of(window);
        let listed = LsTask::new(Arc::clone(task), prompt.map(|prompt| prompt.text.clone()));
        let usual = self.usual.get(&window);
        let usual = usual.filter(|(run, _)| task.is_alive() && *run == task.run);
        LsTask {
            usual_ms: usual.map(|(_, millis)| *millis),
            ..listed.with_restart(
                self.restarts.next(window, now),
                self.restarts.why_impossible(window),
            )
        }
    }

    pub(super) fn find_usual_durations(&mut self, windows: impl IntoIterator<Item = WindowId>) {
        for window in windows {
            let task = self.task(window);
            // A shell has no usual duration.
            if let Some(task) = task.filter(|task| task.is_alive() && !task.shell) {
                self.effects.push(Effect::FindUsualDuration(task));
            }
        }
    }

    pub(super) fn usual_duration_found(&mut self, of: &Task, millis: Millis, now: Now) {
        let tasks = self.engine.last_look().map(|look| &look.tasks);
        let task = tasks.and_then(|tasks| Some((tasks, tasks.get(&of.window)?)));
        if let Some((tasks, task)) = task.filter(|(_, task)| task.is_alive() && task.run == of.run)
        {
            self.usual.insert(task.window, (task.run, millis));
            self.usual.retain(|window, _| tasks.contains_key(window));
            self.publish_tasks(now);
        }
    }

    pub(super) fn explain(&self, task: &Task, now: Now) -> Explanation {
        let engine = &self.engine;
        let look = engine.last_look();
        let terminal = look.and_then(|look| look.terminals.get(&task.window).map(Arc::as_ref));
        let judged = engine.episodes.judgement_of(task.window);
        let mut explanation = Explanation::new(task, judged.map(|(judged, ..)| judged), terminal);
        if let Some((judged, since, reported)) = judged {
            let found = judged.found.as_ref();
            if found.is_some_and(|found| engine.episodes.user_rules.mutes(task, &found.prompt)) {
                explanation.state = ExplainedState::Muted;
            }
            explanation.waiting_since = reported.map(|now| now.wall);
            let quiet = now.mono.saturating_duration_since(since);
            explanation.quiet_ms = u64::try_from(quiet.as_millis()).ok();
        }
        explanation.next_restart = self.restarts.next(task.window, now);
        explanation.cannot_restart = self.restarts.why_impossible(task.window);
        if engine.episodes.prompt_of(task.window).is_some() {
            explanation.state = ExplainedState::Waiting;
        }
        explanation
    }
}

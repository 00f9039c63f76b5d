//! `run`: starts a task, or runs it again in its slot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::endings::end_runs;
use super::super::input::{Job, LaunchOutcome, LookOrder, Reply};
use super::super::state::{Cx, LockKey, State};
use super::super::stories::turn_to_change;
use crate::model::{Error, Launch, StopChoice, Task, WindowId};
use crate::rules::engine::ExpectedWait;
use crate::rules::wire::{Answer, Response};

/// The maximum time between a launch and the wait that the launching command begins.
const WAIT_BEGINS_WITHIN: Duration = Duration::from_secs(5);

/// Starts a task, after the live run of its slot has ended if there is one. Launches into one slot follow
/// each other. tmux is asked to launch first, and says which run is alive: nothing is ended for a launch
/// that it refuses.
pub(super) async fn run(cx: &Cx, launch: Launch) -> Result<Reply, Error> {
    let name = launch.name.as_str();
    // The run that is replaced is recorded with its present state.
    let windows = cx.with(|state| state.windows_named(name));
    cx.first_look(LookOrder::barrier(windows)).await?;
    cx.with(|state| state.begin_launch(&launch))?;
    let slot = cx.lock(LockKey::Slot(name.to_owned())).await;
    let ending = cx.with(|state| state.endings.of_name(name));
    let mut ended = end_for_launch(cx, ending).await?;
    let (run, command) = loop {
        // Its environment is gone with the client.
        cx.release()?;
        let is_replaced = |state: &State, ended: &Task| {
            let task = state.task(ended.window);
            task.is_some_and(|task| task.name == name)
        };
        let link = turn_to_change(cx, is_replaced).await;
        // It may start a run.
        cx.keep();
        let launch = Box::new(launch.clone());
        let over = std::mem::take(&mut ended);
        let launched = link.run(|outcome| Job::Launch(launch, over, outcome));
        match launched.await? {
            LaunchOutcome::Started(run, command) => break (*run, command),
            LaunchOutcome::Live(window, pid) => {
                // Nothing is ended for a client that has left.
                cx.release()?;
                let live = cx.with(|state| match state.look_problem {
                    Some(_) => Err(state.missing()),
                    None => Ok(state.task(window)),
                })?;
                match live.filter(|task| task.pid == Some(pid)) {
                    Some(task) => ended = end_for_launch(cx, vec![task]).await?,
                    None => cx.look(LookOrder::of([window])).await,
                }
            }
        }
    };
    let window = run.window_id.parse::<WindowId>().ok();
    cx.look(LookOrder::of(window)).await;
    // Its window may have been closed before a look could contain it, and nothing have recorded its end: the
    // command may have closed it, alone or with its session, or a hook of the user such as `pane-died
    // 'kill-pane'`. A session that is about to end can also make the look fail: then the next one that
    // succeeds decides.
    let unseen = window.map(|window| Task {
        command: Some(launch.spec.shown()),
        cwd: Some(launch.cwd().to_owned()),
        run: Some(run.run),
        owner: launch.owner.clone(),
        started_at: Some(launch.started),
        ..Task::new(window, launch.name.clone())
    });
    cx.with(|state| {
        state.unseen.extend(unseen);
        state.report_all_unseen(state.now);
    });
    drop(slot);
    // The command of a client that leaves begins at once.
    cx.release()?;
    cx.recorded().await;
    // If the output of the run is searched, its command begins when that is followed.
    cx.until(move |state| {
        let watches = &state.listeners.watches;
        !window.is_some_and(|window| watches.is_beginning(window))
    })
    .await;
    let answer = Box::new(Answer::from(Response::Launched(run)));
    Ok(Reply::Answer(answer, Some(command)))
}

/// Ends live runs of the slot. Returns their processes.
async fn end_for_launch(cx: &Cx, tasks: Vec<Arc<Task>>) -> Result<Vec<u32>, Error> {
    cx.keep();
    let choice = StopChoice::default();
    if let Err(refusal) = end_runs(cx, &tasks, &BTreeMap::new(), &choice, true).await {
        cx.recorded().await;
        return Err(refusal);
    }
    Ok(tasks.iter().filter_map(|task| task.pid).collect())
}

impl State {
    fn begin_launch(&mut self, launch: &Launch) -> Result<(), Error> {
        // A server that runs and cannot be reached would be started a second time.
        if self.look_problem.is_some() && !self.link.is_connected {
            return Err(self.missing());
        }
        if launch.will_wait {
            let expected = ExpectedWait {
                task: launch.name.clone(),
                owner: launch.owner.clone(),
                until: self.now.mono + WAIT_BEGINS_WITHIN,
            };
            self.engine.expect_wait(expected, self.now);
        }
        Ok(())
    }
}

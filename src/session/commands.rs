//! Commands: how each is carried out, and what follows it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::ending_runs::{Killer, Then};
use super::endings::{fields_of, label, list_of_tasks, plural};
use super::input::{Effect, JobOutcome, LogEntry, LookOrder, NameOwner, WRONG_OUTCOME};
use super::job_queue::{AfterLook, Command, Search};
use super::listeners::RequestId;
use super::machine::Session;
use super::typing::{Progress, Typing};
use crate::engine::ExpectedWait;
use crate::model::{Error, ErrorKind, Launch, Level, Now, StopChoice, Task, WindowId};
use crate::terminal::Pattern;
use crate::wire::{
    EndedTask, LaunchedRun, Request, Response, SearchRequest, SearchResult, SendRequest,
};

/// The maximum time between a launch and the wait that the launching command begins.
const WAIT_BEGINS_WITHIN: Duration = Duration::from_secs(5);

impl Session {
    /// Starts a task, or runs it again in its slot.
    pub(super) fn run(&mut self, request_id: RequestId, request: Launch, now: Now) {
        // A server that runs and cannot be reached would be started a second time.
        if self.look_problem.is_some() && !self.link.is_connected {
            let missing = self.missing();
            return self.refuse(request_id, missing);
        }
        if request.will_wait {
            self.expect_wait(request.name.clone(), request.owner.clone(), now);
        }
        self.replace_run(request_id, request, now);
    }

    /// Types into a task.
    pub(super) fn send(&mut self, request_id: RequestId, request: SendRequest, now: Now) {
        let task = match self.find_task(&request.task) {
            Ok(task) => task,
            Err(refusal) => return self.refuse(request_id, refusal),
        };
        let explanation = request
            .needs_prompt()
            .then(|| Box::new(self.explain(&task, now)));
        let typing = Typing {
            task,
            explanation,
            request,
            progress: Progress::default(),
        };
        self.jobs.push_command(Command::Type(request_id, typing));
    }

    /// Ends tasks; none of them if one of the names is not a task's. Of what an earlier daemon was asked for,
    /// it may have done a part.
    pub(super) fn kill(
        &mut self,
        request_id: RequestId,
        names: &[String],
        is_repeated: bool,
        killer: &Killer,
        choice: &StopChoice,
        now: Now,
    ) {
        let mut tasks = Vec::new();
        for name in names {
            match self.find_task_to_end(name) {
                Ok(task) => tasks.push(task),
                Err(refusal) if is_repeated && refusal.kind == ErrorKind::Missing => {}
                Err(refusal) => return self.refuse(request_id, refusal),
            }
        }
        let mut windows = BTreeSet::new();
        tasks.retain(|task| windows.insert(task.window));
        killer.sign(&mut tasks);
        let reasons = killer.reasons(&tasks);
        self.end_runs(tasks, &reasons, choice, Then::Answer(request_id), now);
    }

    /// Ends the session, after all its runs have ended. Those of windows that live on in another
    /// session go on.
    pub(super) fn kill_all(
        &mut self,
        request_id: RequestId,
        killer: Killer,
        choice: &StopChoice,
        shared: &BTreeSet<WindowId>,
        now: Now,
    ) {
        let mut tasks = self.tasks();
        tasks.retain(|task| task.is_alive() && !shared.contains(&task.window));
        killer.sign(&mut tasks);
        let reasons = killer.reasons(&tasks);
        let then = Then::EndSession(request_id, killer);
        self.end_runs(tasks, &reasons, choice, then, now);
    }

    /// Notes that a command that launches this task will wait for it.
    fn expect_wait(&mut self, task: String, owner: Option<String>, now: Now) {
        let expected = ExpectedWait {
            task,
            owner,
            until: now.mono + WAIT_BEGINS_WITHIN,
        };
        self.engine.expect_wait(expected, now);
    }

    /// Archives the output of the ended runs of this name before the next command, which may replace
    /// them. Of several launches in a row, each replaces the run of the one before.
    pub(super) fn keep_replaced(&mut self, name: &str) {
        let mut replaced = self.tasks();
        replaced.retain(|task| task.name == name);
        let windows: BTreeSet<WindowId> = replaced.iter().map(|task| task.window).collect();
        self.jobs.archive_next(&windows);
    }

    /// Processes the result of a command.
    pub(super) fn command_done(
        &mut self,
        command: Command,
        outcome: Result<JobOutcome, String>,
        now: Now,
    ) {
        match (command, outcome) {
            (
                Command::Archive(..)
                | Command::KeepReplaced(..)
                | Command::Unmark(_)
                | Command::ForgetEnvironments(..),
                _,
            ) => {}
            (Command::FindPorts(queries), outcome) => self.ports_found(&queries, outcome, now),
            (Command::Restart(due), outcome) => self.restarted(&due.task, outcome, now),
            (Command::Mark(marks), done) => {
                if let Err(error) = done {
                    self.log(LogEntry::NotMarked { error });
                }
                self.endings_marked(&marks, now);
            }
            (
                Command::FindShared(request_id, killer, choice, _),
                Ok(JobOutcome::Shared(shared)),
            ) => self.kill_all(request_id, killer, &choice, &shared, now),
            (Command::Close(windows), Ok(JobOutcome::Killed(closed, done))) => {
                self.windows_closed(&windows, closed, done.err(), now);
            }
            (Command::Close(windows), Err(error)) => {
                self.windows_closed(&windows, BTreeSet::new(), Some(error), now);
            }
            (Command::KillSession(request_id, killer, _), Ok(JobOutcome::SessionKilled(moved))) => {
                let tasks = self.tasks();
                let mut killed = killer.reasons(&tasks);
                killed.retain(|window, _| !moved.contains(window));
                let order = LookOrder {
                    killed,
                    ..LookOrder::of(tasks.iter().map(|task| task.window))
                };
                self.order_then(order, AfterLook::SessionKilled(request_id, tasks, moved));
            }
            (Command::Prune(request_id, dead), Ok(_)) => {
                let windows = dead.iter().map(|task| task.window);
                self.order_then(LookOrder::of(windows), AfterLook::Pruned(request_id, dead));
            }
            (Command::Cleanup(request_id), done) => {
                if let Err(error) = done {
                    self.log(LogEntry::CleanupFailed { error });
                }
                let windows = self.tasks().into_iter().map(|task| task.window);
                self.order_then(LookOrder::of(windows), AfterLook::Leave(request_id));
            }
            (Command::Launch(request_id, request, _), Ok(JobOutcome::Launched(run, held))) => {
                let order = LookOrder::of(run.window_id.parse::<WindowId>());
                let then = AfterLook::Launched(request_id, request, run, held);
                self.order_then(order, then);
            }
            (Command::Launch(request_id, request, _), Ok(JobOutcome::Answered(response))) => {
                self.launch_over(&request.name, now);
                self.answer(request_id, *response);
            }
            (Command::Type(request_id, _), Ok(JobOutcome::Typing(typing))) => {
                // Before other requests type into the task.
                let commands = &mut self.jobs.commands;
                commands.push_front(Command::Type(request_id, typing));
            }
            (
                Command::Type(request_id, _)
                | Command::ReadLog(request_id, ..)
                | Command::ReadRecord(request_id, _),
                Ok(JobOutcome::Answered(response)),
            ) => {
                self.answer(request_id, *response);
            }
            (Command::Search(search), outcome) => self.searched(*search, outcome),
            (Command::Resolve(request_id, name, request), Ok(JobOutcome::Name(owner))) => {
                self.respond_by_name(request_id, &name, *request, owner, now);
            }
            (
                Command::Type(request_id, ..)
                | Command::FindShared(request_id, ..)
                | Command::KillSession(request_id, ..)
                | Command::Prune(request_id, _)
                | Command::ReadLog(request_id, ..)
                | Command::ReadRecord(request_id, _)
                | Command::Resolve(request_id, ..),
                failed,
            ) => self.command_failed(request_id, failed),
            (Command::Launch(request_id, request, _), Ok(JobOutcome::Live(window, pid))) => {
                self.end_replaced(request_id, request, window, pid, now);
            }
            (Command::Launch(request_id, request, _), failed) => {
                self.launch_over(&request.name, now);
                self.command_failed(request_id, failed);
            }
            (Command::Close(windows), Ok(_)) => {
                let failure = WRONG_OUTCOME.to_owned();
                self.windows_closed(&windows, BTreeSet::new(), Some(failure), now);
            }
        }
    }

    /// Refuses the request of a command that has failed.
    fn command_failed(&mut self, request_id: RequestId, failed: Result<JobOutcome, String>) {
        self.beginning.remove(&request_id);
        let message = failed.err().unwrap_or_else(|| {
            self.log(LogEntry::WrongOutcome { job: "command" });
            WRONG_OUTCOME.to_owned()
        });
        self.refuse(request_id, Error::failed(message));
    }

    /// Answers a request that named its session, or resolves the name: the session may have been
    /// renamed, and its name given to another one.
    pub(super) fn respond_to(
        &mut self,
        request_id: RequestId,
        session: String,
        request: Box<Request>,
        now: Now,
    ) {
        if self.link.session_name.as_ref() == Some(&session) {
            self.respond(request_id, *request, now);
        } else {
            let resolve = Command::Resolve(request_id, session, request);
            self.jobs.push_command(resolve);
        }
    }

    /// Answers a request for the session that has, or had, this name.
    fn respond_by_name(
        &mut self,
        request_id: RequestId,
        name: &str,
        request: Request,
        owner: NameOwner,
        now: Now,
    ) {
        match owner {
            NameOwner::Other => {
                self.beginning.remove(&request_id);
                self.answer(request_id, Response::OtherSession);
            }
            // Another session may have had the name since: a command that ends all tasks does not guess.
            NameOwner::Ours(Some(present))
                if present != name && matches!(request, Request::KillAll { .. }) =>
            {
                let message = format!(
                    "no session `{name}`: the one that had this name is called `{present}` now"
                );
                let hint = format!("`tmux-task -s '{present}' kill-all` ends it");
                let refusal = Error::missing(message).with_hint(hint);
                self.refuse(request_id, refusal);
            }
            NameOwner::Ours(_) => self.respond(request_id, request, now),
        }
    }

    /// Begins a search, in the task of this name or in all tasks.
    pub(super) fn search(&mut self, request_id: RequestId, request: &SearchRequest) {
        let SearchRequest {
            task,
            pattern,
            regex,
            ignore_case,
        } = request;
        let pattern = match Pattern::parse(pattern, *regex, *ignore_case) {
            Ok(pattern) => Arc::new(pattern),
            Err(error) => return self.refuse(request_id, error),
        };
        let tasks = match task {
            Some(name) => self.find_task(name).map(|task| vec![task]),
            None => self.existing_tasks(),
        };
        let mut rest = match tasks {
            Ok(tasks) => tasks,
            Err(refusal) => {
                return self.refuse(request_id, refusal);
            }
        };
        rest.reverse();
        self.search_next(request_id, pattern, rest, SearchResult::default());
    }

    /// Searches the last of these tasks, or answers.
    fn search_next(
        &mut self,
        request_id: RequestId,
        pattern: Arc<Pattern>,
        mut rest: Vec<Arc<Task>>,
        found: SearchResult,
    ) {
        let Some(task) = rest.pop() else {
            return self.answer(request_id, Response::Matches(found));
        };
        self.jobs.push_command(Command::Search(Box::new(Search {
            request_id,
            pattern,
            task,
            rest,
            found,
        })));
    }

    /// Goes on with the next task of a search.
    fn searched(&mut self, search: Search, outcome: Result<JobOutcome, String>) {
        let Search {
            request_id,
            pattern,
            task,
            rest,
            mut found,
        } = search;
        match outcome {
            Ok(JobOutcome::Matches(further)) => {
                found.matches.extend(further.matches);
                found.incomplete.extend(further.incomplete);
            }
            // Its window was closed meanwhile.
            Err(error) if self.task(task.window).is_none() => {
                let window = task.window;
                self.log(LogEntry::NotSearched { window, error });
            }
            Ok(_) => self.log(LogEntry::WrongOutcome { job: "search" }),
            Err(error) => return self.refuse(request_id, Error::failed(error)),
        }
        self.search_next(request_id, pattern, rest, found);
    }

    /// Continues after a look.
    pub(super) fn after_look(&mut self, then: AfterLook, now: Now) {
        match then {
            AfterLook::Answer(request_id, request) => self.respond(request_id, request, now),
            AfterLook::RunEnded(window) => self.ended_run_looked_at(window, now),
            AfterLook::TakeUp(pane, tries) => self.take_up(pane, tries),
            AfterLook::Launch(request_id, request) => self.launch(request_id, request, Vec::new()),
            AfterLook::Launched(request_id, request, run, held) => {
                self.report_unseen(&request, &run, now);
                self.answer_launch(request_id, *run, held);
                self.launch_over(&request.name, now);
            }
            AfterLook::Superseded(window) => self.superseded(window, now),
            AfterLook::Leave(request_id) => {
                self.answer(request_id, Response::Done);
                self.effects.push(Effect::Leave);
            }
            AfterLook::SessionKilled(request_id, tasks, moved) => {
                let (moved, tasks): (Vec<_>, Vec<_>) = tasks
                    .into_iter()
                    .partition(|task| moved.contains(&task.window));
                let n = tasks.len();
                let text = format!("ended the session with {n} task{}", plural(n));
                self.notice(Level::Info, text, now);
                let response = Response::Ended {
                    tasks: all_fields_of(&tasks),
                    moved: all_fields_of(&moved),
                };
                self.answer_when_stored(request_id, response);
            }
            AfterLook::Pruned(request_id, dead) => {
                // A task that was run again meanwhile still exists.
                let is_gone = |task: &Arc<Task>| self.task(task.window).is_none();
                let gone: Vec<Arc<Task>> = dead.into_iter().filter(is_gone).collect();
                if !gone.is_empty() {
                    let names: Vec<String> = gone.iter().map(|task| label(task)).collect();
                    let text = format!("pruned {}", list_of_tasks(&names));
                    self.notice(Level::Info, text, now);
                }
                self.answer_when_stored(request_id, ended(&gone));
            }
        }
    }

    /// Reports a launched run as gone if its window was closed before a look could contain it, and
    /// nothing has recorded its end: the command may have closed it, alone or with its session, or a
    /// hook of the user such as `pane-died 'kill-pane'`. A session that is about to end can also make
    /// the look fail: then the next one that succeeds decides.
    fn report_unseen(&mut self, launch: &Launch, run: &LaunchedRun, now: Now) {
        self.unseen.extend(unseen_task(launch, run));
        self.report_all_unseen(now);
    }

    /// Reports all launched runs as gone about which no look has decided yet, and whose windows are gone.
    pub(super) fn report_all_unseen(&mut self, now: Now) {
        if self.look_problem.is_some() {
            return;
        }
        for task in std::mem::take(&mut self.unseen) {
            if self.task(task.window).is_none() && !self.ended_runs.contain(&task) {
                let effects = self.engine.report_gone(task, now);
                self.perform(effects);
            }
        }
    }
}

/// Returns the task of a launched run that no look has contained.
fn unseen_task(launch: &Launch, run: &LaunchedRun) -> Option<Task> {
    Some(Task {
        command: Some(launch.spec.shown()),
        cwd: Some(launch.cwd().to_owned()),
        run: Some(run.run),
        owner: launch.owner.clone(),
        started_at: Some(launch.started),
        ..Task::new(run.window_id.parse().ok()?, launch.name.clone())
    })
}

fn ended(tasks: &[Arc<Task>]) -> Response {
    Response::Ended {
        tasks: all_fields_of(tasks),
        moved: Vec::new(),
    }
}

fn all_fields_of(tasks: &[Arc<Task>]) -> Vec<EndedTask> {
    tasks.iter().map(|task| fields_of(task, None)).collect()
}

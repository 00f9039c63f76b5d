//! Requests: what each needs before it can be answered, and its result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::effect::{Effect, LookOrder, Refresh, Scope};
use super::input::{AskId, Outcome};
use super::job_queue::{AfterLook, Command};
use super::machine::Session;
use crate::engine::ExpectedWait;
use crate::model::{BoardTask, GoneReason, Level, NameError, Now, Task, TaskBoard, WindowId};
use crate::wire::{
    EndedTask, ExplainedState, Explanation, LsTask, LsView, Refusal, RefusalKind, Request,
    Response, RunRequest, SendRequest, SnapshotLine, TaskFields,
};

/// Up to this many windows, a list includes also changes that are never reported: an option was
/// set, or another program runs in the foreground.
const FEW_WINDOWS: usize = 32;

/// How to start a missing session.
const NO_SESSION_HINT: &str =
    "`tmux-task run NAME -- COMMAND` starts a task and with it the session";

/// The maximum time between a launch and the wait that the launching command begins.
const WAIT_BEGINS_WITHIN: Duration = Duration::from_secs(5);

impl Session {
    /// Processes a request. It is answered after a look at what it is about.
    pub(super) fn ask(&mut self, ask: AskId, request: Request) {
        let of = |window: &String| LookOrder::of(window.parse::<WindowId>());
        let order = match &request {
            Request::Whereabouts | Request::Count | Request::Find { .. } => barrier([]),
            Request::Kill { .. } => barrier([]),
            Request::List => self.order_for_list(),
            Request::Look { .. } => LookOrder {
                refresh: Refresh::Yes,
                ..LookOrder::new(Scope::Whole)
            },
            // The run that is replaced is recorded with its present state.
            Request::Run(run) => barrier(self.windows_named(&run.name)),
            Request::Send(send) if send.if_prompt.is_some() => {
                barrier(self.windows_named(&send.task))
            }
            Request::Send(_) => barrier([]),
            Request::Explain { task } => barrier(self.windows_named(task)),
            Request::KillAll { .. } | Request::Prune | Request::Stop { .. } => {
                LookOrder::new(Scope::Whole)
            }
            Request::Wait(wait) => {
                self.beginning.insert(ask);
                of(&wait.window)
            }
            Request::Follow { window, .. } => {
                self.beginning.insert(ask);
                of(window)
            }
            Request::Cursor { window } => of(window),
            Request::Status
            | Request::Subscribe { .. }
            | Request::Consume(_)
            | Request::Consumers
            | Request::RemoveConsumer { .. } => {
                let message = "this is not for the session".to_owned();
                return self.refuse(ask, RefusalKind::Usage, message);
            }
        };
        self.order_then(order, AfterLook::Answer(ask, request));
    }

    /// Continues after a look.
    pub(super) fn after_look(&mut self, then: AfterLook, now: Now) {
        match then {
            AfterLook::Answer(ask, request) => self.respond(ask, request, now),
            AfterLook::TakeUp(pane, tries) => self.take_up(pane, tries),
            AfterLook::Answered(ask, response) => self.answer_when_stored(ask, response),
            AfterLook::Leave(ask) => {
                self.effects.push(Effect::Answer(ask, Response::Done));
                self.effects.push(Effect::Leave);
            }
            AfterLook::Killed(ask, tasks, Ok(())) => {
                let names: Vec<String> = tasks.iter().map(|task| label(task)).collect();
                let text = format!("killed {}", list_of_tasks(&names));
                self.notice(Level::Info, text, now);
                self.answer_when_stored(ask, ended(&tasks));
            }
            AfterLook::Killed(ask, _, Err(error)) => self.refuse(ask, RefusalKind::Failed, error),
            AfterLook::SessionKilled(ask, tasks) => {
                let n = tasks.len();
                let text = format!("ended the session with {n} task{}", plural(n));
                self.notice(Level::Info, text, now);
                self.answer_when_stored(ask, ended(&tasks));
            }
            AfterLook::Pruned(ask, dead) => {
                // A task that was run again meanwhile still exists.
                let is_gone = |task: &Arc<Task>| self.task(task.window).is_none();
                let gone: Vec<Arc<Task>> = dead.into_iter().filter(is_gone).collect();
                if !gone.is_empty() {
                    let names: Vec<String> = gone.iter().map(|task| label(task)).collect();
                    let text = format!("pruned {}", list_of_tasks(&names));
                    self.notice(Level::Info, text, now);
                }
                self.answer_when_stored(ask, ended(&gone));
            }
        }
    }

    fn respond(&mut self, ask: AskId, request: Request, now: Now) {
        match request {
            Request::Whereabouts => self.jobs.push_command(Command::Whereabouts(ask)),
            Request::List => {
                let view = self.view(now);
                self.effects.push(Effect::Answer(ask, Response::List(view)));
            }
            Request::Look {
                launching,
                will_wait,
                owner,
            } => {
                if let Some(name) = launching {
                    self.prepare_launch(&name, will_wait, owner, now);
                }
                // After its output is archived.
                self.jobs.push_command(Command::Answer(ask, Response::Done));
            }
            Request::Run(request) => self.run(ask, request, now),
            Request::Send(request) => self.send(ask, request, now),
            Request::Count => {
                let counts = self.engine.counts().unwrap_or_default();
                let counted = Response::Counted(counts.into());
                self.effects.push(Effect::Answer(ask, counted));
            }
            Request::Find { task } => {
                let response = match self.find_task(&task) {
                    Ok(task) => {
                        let found = self.listed(TaskFields::from(&*task), now);
                        Response::Found(Box::new(found))
                    }
                    Err(refusal) => Response::Refused(refusal),
                };
                self.effects.push(Effect::Answer(ask, response));
            }
            Request::Kill { tasks, owner } => {
                self.kill(ask, &tasks, reason(owner.as_deref()));
            }
            Request::KillAll { owner } => {
                if self.link.life.is_none() {
                    let message = "the session does not exist".to_owned();
                    return self.refuse(ask, RefusalKind::Missing, message);
                }
                self.jobs.archive_first(|_| true);
                let reason = reason(owner.as_deref());
                self.jobs.push_command(Command::KillSession(ask, reason));
            }
            Request::Prune => {
                let mut dead = self.tasks();
                dead.retain(|task| !task.is_alive());
                self.jobs.archive_first(|_| true);
                self.jobs.push_command(Command::Prune(ask, dead));
            }
            Request::Stop { cleanup } => {
                if cleanup && self.link.life.is_some() {
                    self.jobs.archive_first(|_| true);
                    self.jobs.push_command(Command::Cleanup(ask));
                } else {
                    self.after_look(AfterLook::Leave(ask), now);
                }
            }
            Request::Wait(request) => self.begin_wait(ask, &request, now),
            Request::Follow { window, raw } => self.begin_reader(ask, &window, raw),
            Request::Cursor { window } => self.read_cursor(ask, &window),
            Request::Explain { task } => {
                let explained = self.find_task(&task).map(|task| self.explain(&task, now));
                let response = match explained {
                    Ok(explanation) => Response::Explained(Box::new(explanation)),
                    Err(refusal) => Response::Refused(refusal),
                };
                self.effects.push(Effect::Answer(ask, response));
            }
            Request::Status
            | Request::Subscribe { .. }
            | Request::Consume(_)
            | Request::Consumers
            | Request::RemoveConsumer { .. } => {}
        }
    }

    /// Processes the result of a command.
    pub(super) fn command_done(&mut self, command: Command, outcome: Result<Outcome, String>) {
        match (command, outcome) {
            (Command::Archive(_) | Command::Answer(..), _) => {}
            (Command::Kill(ask, tasks, reason), Ok(Outcome::Killed(killed, done))) => {
                let order = LookOrder {
                    killed: killed.iter().map(|window| (*window, reason)).collect(),
                    ..LookOrder::of(killed)
                };
                self.order_then(order, AfterLook::Killed(ask, tasks, done));
            }
            (Command::KillSession(ask, reason), Ok(_)) => {
                let tasks = self.tasks();
                let killed: BTreeMap<WindowId, GoneReason> =
                    tasks.iter().map(|task| (task.window, reason)).collect();
                let order = LookOrder {
                    killed,
                    ..LookOrder::new(Scope::Whole)
                };
                self.order_then(order, AfterLook::SessionKilled(ask, tasks));
            }
            (Command::Prune(ask, dead), Ok(_)) => {
                self.order_then(LookOrder::new(Scope::Whole), AfterLook::Pruned(ask, dead));
            }
            (Command::Cleanup(ask), done) => {
                if let Err(error) = done {
                    tracing::error!(error, "could not end the session");
                }
                self.order_then(LookOrder::new(Scope::Whole), AfterLook::Leave(ask));
            }
            (Command::Launch(ask, _), Ok(Outcome::Answered(response, Some(window)))) => {
                self.order_then(LookOrder::of([window]), AfterLook::Answered(ask, *response));
            }
            (
                Command::Launch(ask, _) | Command::Type(ask, ..),
                Ok(Outcome::Answered(response, _)),
            ) => self.effects.push(Effect::Answer(ask, *response)),
            (Command::Whereabouts(ask), Ok(Outcome::Whereabouts(whereabouts))) => {
                self.effects
                    .push(Effect::Answer(ask, Response::Whereabouts(whereabouts)));
            }
            (
                Command::Launch(ask, _)
                | Command::Type(ask, ..)
                | Command::Kill(ask, ..)
                | Command::KillSession(ask, _)
                | Command::Prune(ask, _)
                | Command::Whereabouts(ask),
                failed,
            ) => {
                let message = failed
                    .err()
                    .unwrap_or_else(|| "a command brought something else".to_owned());
                self.refuse(ask, RefusalKind::Failed, message);
            }
        }
    }

    /// Ends tasks; none of them if one of the names is not a task's.
    fn kill(&mut self, ask: AskId, names: &[String], reason: GoneReason) {
        let found: Result<Vec<Arc<Task>>, Refusal> =
            names.iter().map(|name| self.find_task(name)).collect();
        let mut tasks = match found {
            Ok(tasks) => tasks,
            Err(refusal) => {
                let refused = Response::Refused(refusal);
                return self.effects.push(Effect::Answer(ask, refused));
            }
        };
        let mut windows = BTreeSet::new();
        tasks.retain(|task| windows.insert(task.window));
        let is_killed = |window| tasks.iter().any(|task| task.window == window);
        self.jobs.archive_first(is_killed);
        self.jobs.push_command(Command::Kill(ask, tasks, reason));
    }

    /// Starts a task, or runs it again in its slot.
    fn run(&mut self, ask: AskId, request: RunRequest, now: Now) {
        if self.link.life.is_none() || !self.link.is_connected {
            return self.effects.push(Effect::Answer(ask, Response::Unattached));
        }
        if request.will_wait {
            self.expect_wait(request.name.clone(), request.owner.clone(), now);
        }
        self.keep_replaced(&request.name, !request.if_absent);
        self.jobs
            .push_command(Command::Launch(ask, Box::new(request)));
    }

    /// Types into a task.
    fn send(&mut self, ask: AskId, request: SendRequest, now: Now) {
        let task = match self.find_task(&request.task) {
            Ok(task) => task,
            Err(refusal) => {
                let refused = Response::Refused(refusal);
                return self.effects.push(Effect::Answer(ask, refused));
            }
        };
        let explanation = request
            .if_prompt
            .is_some()
            .then(|| Box::new(self.explain(&task, now)));
        self.jobs
            .push_command(Command::Type(ask, task, explanation, request));
    }

    /// Handles the first look of a command that is about to launch a task of this name.
    fn prepare_launch(&mut self, name: &str, will_wait: bool, owner: Option<String>, now: Now) {
        if will_wait {
            self.expect_wait(name.to_owned(), owner, now);
        }
        self.keep_replaced(name, true);
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

    /// Archives the output of the runs of this name before the next command, which may replace
    /// them; that of live ones only if they are replaced as well.
    fn keep_replaced(&mut self, name: &str, replaces_live: bool) {
        let mut replaced = self.tasks();
        replaced.retain(|task| task.name == name);
        let is_replaced = |window| replaced.iter().any(|task| task.window == window);
        self.jobs.archive_first(is_replaced);
        if replaces_live {
            for task in replaced.into_iter().filter(|task| task.is_alive()) {
                self.jobs.push_command(Command::Archive(task));
            }
        }
    }

    /// Returns the windows of tasks with this name or window id.
    fn windows_named(&self, name: &str) -> Vec<WindowId> {
        let tasks = self.tasks().into_iter();
        tasks
            .filter(|task| task.name == name || task.window.to_string() == name)
            .map(|task| task.window)
            .collect()
    }

    /// Returns the task of this name or window id, as of the last look.
    fn find_task(&self, name: &str) -> Result<Arc<Task>, Refusal> {
        let Some(look) = self.engine.before().filter(|look| look.exists) else {
            let message = format!("no session `{}`", self.session_name);
            let missing = Refusal::new(RefusalKind::Missing, message);
            return Err(missing.with_hint(NO_SESSION_HINT));
        };
        match look.find_task(name) {
            Ok(task) => Ok(Arc::clone(task)),
            Err(error) => {
                let kind = match error {
                    NameError::Missing { .. } => RefusalKind::Missing,
                    NameError::Ambiguous { .. } => RefusalKind::Failed,
                };
                Err(Refusal::new(kind, error.to_string()).with_hint(error.hint()))
            }
        }
    }

    /// Returns the look for a list. With few windows: everything. With many: everything reported,
    /// and dead panes if they are few, because they may be respawned without a report.
    fn order_for_list(&self) -> LookOrder {
        let tasks = self.tasks();
        if tasks.len() <= FEW_WINDOWS {
            return LookOrder {
                refresh: Refresh::Yes,
                ..LookOrder::new(Scope::Whole)
            };
        }
        let dead = tasks.iter().filter(|task| !task.is_alive());
        let mut dead: Vec<WindowId> = dead.map(|task| task.window).collect();
        if dead.len() > FEW_WINDOWS {
            dead.clear();
        }
        barrier(dead)
    }

    /// Publishes the tasks of the last look.
    pub(super) fn publish_tasks(&mut self, now: Now) {
        let Some(look) = self.engine.before() else {
            return;
        };
        let task = |(window, task): (&WindowId, &Arc<Task>)| {
            let stalled = self.engine.stalled_for(*window, now);
            let prompt = self.engine.prompt_of(*window);
            let task = BoardTask {
                task: Arc::clone(task),
                waiting_for: prompt.map(|prompt| prompt.text.clone()),
                stalled_ms: stalled.and_then(|stood| u64::try_from(stood.as_millis()).ok()),
            };
            (*window, task)
        };
        let board = TaskBoard {
            exists: look.exists,
            tasks: look.tasks.iter().map(task).collect(),
        };
        self.effects.push(Effect::Tasks(board));
    }

    fn view(&self, now: Now) -> LsView {
        let look = self.engine.before().cloned().unwrap_or_default();
        LsView::new(SnapshotLine::from(&look), |task| self.listed(task, now))
    }

    /// Returns a task with what is known of it besides.
    fn listed(&self, task: TaskFields, now: Now) -> LsTask {
        let window: Option<WindowId> = task.window_id.parse().ok();
        let prompt = window.and_then(|window| self.engine.prompt_of(window));
        let stalled = window.and_then(|window| self.engine.stalled_for(window, now));
        let waiting_for = prompt.map(|prompt| prompt.text.clone());
        let stalled_ms = stalled.and_then(|stood| u64::try_from(stood.as_millis()).ok());
        LsTask::new(task, waiting_for, stalled_ms)
    }

    /// Explains why a task is or is not judged to wait for a person.
    fn explain(&self, task: &Task, now: Now) -> Explanation {
        let engine = &self.engine;
        let look = engine.before();
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
        if engine.prompt_of(task.window).is_some() {
            explanation.state = ExplainedState::Waiting;
        } else if engine.stalled_for(task.window, now).is_some() {
            explanation.state = ExplainedState::Stalled;
        }
        explanation
    }
}

/// Returns a look at everything that tmux has reported by now, and at these windows.
fn barrier(windows: impl IntoIterator<Item = WindowId>) -> LookOrder {
    LookOrder {
        is_barrier: true,
        ..LookOrder::of(windows)
    }
}

/// Returns the reason for the disappearance of a task that a command of this owner ends.
fn reason(owner: Option<&str>) -> GoneReason {
    match owner {
        Some(_) => GoneReason::AgentKilled,
        None => GoneReason::UserKilled,
    }
}

fn label(task: &Task) -> String {
    format!("{} ({})", task.window, task.name)
}

fn list_of_tasks(names: &[String]) -> String {
    format!("task{} {}", plural(names.len()), names.join(", "))
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

fn ended(tasks: &[Arc<Task>]) -> Response {
    let of = |task: &Arc<Task>| EndedTask {
        window_id: task.window.to_string(),
        window_name: task.name.clone(),
    };
    Response::Ended {
        tasks: tasks.iter().map(of).collect(),
    }
}

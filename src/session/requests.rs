//! Requests: what each needs before it can be answered, and its result.

use std::sync::Arc;
use std::time::Duration;

use super::ending_runs::Killer;
use super::input::{Effect, LookOrder};
use super::job_queue::{AfterLook, Command};
use super::listeners::RequestId;
use super::machine::Session;
use crate::model::{Error, Now, Snapshot, Task, WindowId};
use crate::wire::{Request, Response};

/// A list queries up to this many windows for changes that are never reported: an option was set,
/// another program runs in the foreground, or a dead pane was respawned.
const FEW_WINDOWS: usize = 32;

/// How long a command that reads events for its owner is expected to say which it has read. One that
/// waits for longer announces itself again.
const READS_WITHIN: Duration = Duration::from_secs(6);

/// How to start a missing session.
const NO_SESSION_HINT: &str =
    "`tmux-task run NAME -- COMMAND` starts a task and with it the session";

impl Session {
    /// Processes a request. It is answered after a look at what it is about.
    pub(super) fn handle_request(&mut self, request_id: RequestId, request: Request, now: Now) {
        if self.note_reader(request_id, &request, now) {
            return;
        }
        match self.order_for(request_id, &request) {
            Some(order) => self.order_then(order, AfterLook::Answer(request_id, request)),
            None => self.refuse_others(request_id),
        }
    }

    /// Notes what a reader of events announces, and answers it. Returns whether that was the request.
    fn note_reader(&mut self, request_id: RequestId, request: &Request, now: Now) -> bool {
        if let Request::Reads { owner } = request {
            let until = now.mono + READS_WITHIN;
            self.engine.expect_reader(owner.clone(), until, now);
        } else if let Request::Seen { owner, events } = request {
            self.engine.note_seen(owner, events);
        } else {
            return false;
        }
        self.answer(request_id, Response::Done);
        true
    }

    /// Returns the look that a request needs; `None` for requests that do not concern the session.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other one is answered before it gets here"
    )]
    fn order_for(&mut self, request_id: RequestId, request: &Request) -> Option<LookOrder> {
        let of = |window: &String| LookOrder::of(window.parse::<WindowId>());
        Some(match request {
            Request::To { request, .. } => return self.order_for(request_id, request),
            Request::Count | Request::Find { .. } => barrier([]),
            Request::Kill { .. } => barrier([]),
            // It says what is known.
            Request::Endings { .. } => LookOrder::default(),
            Request::List => self.order_for_list(),
            // The run that is replaced is recorded with its present state.
            Request::Run(run) => barrier(self.windows_named(&run.name)),
            Request::Send(send) if !send.needs_prompt() => barrier([]),
            Request::Send(send) | Request::SendGuarded(send) => {
                barrier(self.windows_named(&send.task))
            }
            Request::Explain { task } => barrier(self.windows_named(task)),
            Request::KillAll { .. } => barrier(self.tasks().iter().map(|task| task.window)),
            Request::Prune | Request::Stop { .. } => barrier([]),
            Request::Wait(wait) => {
                self.beginning.insert(request_id);
                match wait.task.parse::<WindowId>() {
                    Ok(window) => LookOrder::of([window]),
                    Err(_) => barrier(self.windows_named(&wait.task)),
                }
            }
            Request::Follow { window, .. } => {
                self.beginning.insert(request_id);
                of(window)
            }
            Request::Cursor { window } => of(window),
            Request::Log(log) => barrier(self.windows_named(&log.task)),
            Request::Record { .. } => barrier([]),
            Request::Search(search) => {
                let name = search.task.as_ref();
                barrier(name.map_or_else(Vec::new, |name| self.windows_named(name)))
            }
            _ => return None,
        })
    }

    /// Refuses a request that does not concern the session.
    fn refuse_others(&mut self, request_id: RequestId) {
        let message = "this is not for the session".to_owned();
        self.refuse(request_id, Error::usage(message));
    }

    pub(super) fn answer(&mut self, request_id: RequestId, response: Response) {
        self.effects.push(Effect::Answer(request_id, response));
    }

    pub(super) fn refuse(&mut self, request_id: RequestId, refusal: Error) {
        self.answer(request_id, Response::Refused(refusal));
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other one is answered before it gets here"
    )]
    pub(super) fn respond(&mut self, request_id: RequestId, request: Request, now: Now) {
        match request {
            Request::To { session, request } => self.respond_to(request_id, session, request, now),
            Request::List => {
                if self.look_problem.is_some()
                    && let Err(refusal) = self.look()
                {
                    self.refuse(request_id, refusal);
                    return;
                }
                let view = self.view(now);
                self.answer(request_id, Response::List(view));
            }
            Request::Run(request) => self.run(request_id, *request, now),
            Request::Send(request) => self.send(request_id, request, now),
            Request::SendGuarded(mut request) => {
                request.is_guarded = true;
                self.send(request_id, request, now);
            }
            Request::Count => {
                let counts = self.engine.counts().unwrap_or_default();
                let counted = Response::Counted(counts);
                self.answer(request_id, counted);
            }
            Request::Find { task } => {
                let response = match self.find_task(&task) {
                    Ok(task) => Response::Found(Box::new(self.listed(&task, now))),
                    Err(refusal) => Response::Refused(refusal),
                };
                self.answer(request_id, response);
            }
            Request::Kill {
                tasks,
                owner,
                by_agent,
                asked_by,
                is_repeated,
                choice,
            } => {
                let killer = Killer {
                    owner,
                    is_agent: by_agent,
                    asked_by,
                };
                self.kill(request_id, &tasks, is_repeated, &killer, &choice, now);
            }
            Request::Endings { tasks, at_once } => {
                let runs = self.endings_of(&tasks, at_once);
                self.answer(request_id, Response::Endings { runs });
            }
            Request::KillAll {
                owner,
                asked_by,
                choice,
            } => {
                if self.link.life.is_none() {
                    let missing = self.missing();
                    self.refuse(request_id, missing);
                    return;
                }
                let killer = Killer {
                    is_agent: owner.is_some(),
                    owner,
                    asked_by,
                };
                let windows = self.tasks().iter().map(|task| task.window).collect();
                self.jobs
                    .push_command(Command::FindShared(request_id, killer, choice, windows));
            }
            Request::Prune => {
                let mut dead = self.tasks();
                dead.retain(|task| task.is_prunable());
                self.jobs.archive_first(|_| true);
                self.jobs.push_command(Command::Prune(request_id, dead));
            }
            Request::Stop { cleanup } => {
                if cleanup && self.link.life.is_some() {
                    self.jobs.archive_first(|_| true);
                    self.jobs.push_command(Command::Cleanup(request_id));
                } else {
                    self.after_look(AfterLook::Leave(request_id), now);
                }
            }
            Request::Wait(request) => self.begin_wait(request_id, &request, now),
            Request::Follow { window, raw, lines } => {
                self.begin_output_stream(request_id, &window, raw, lines);
            }
            Request::Cursor { window } => self.read_cursor(request_id, &window),
            Request::Log(request) => match self.find_task(&request.task) {
                Ok(task) => self
                    .jobs
                    .push_command(Command::ReadLog(request_id, task, request)),
                Err(refusal) => {
                    self.refuse(request_id, refusal);
                }
            },
            Request::Record { task } => match self.find_task(&task) {
                Ok(task) => self
                    .jobs
                    .push_command(Command::ReadRecord(request_id, task)),
                Err(refusal) => {
                    self.refuse(request_id, refusal);
                }
            },
            Request::Search(request) => self.search(request_id, &request),
            Request::Explain { task } => {
                let explained = self.find_task(&task).map(|task| self.explain(&task, now));
                let response = match explained {
                    Ok(explanation) => Response::Explained(Box::new(explanation)),
                    Err(refusal) => Response::Refused(refusal),
                };
                self.answer(request_id, response);
            }
            _ => self.refuse_others(request_id),
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
    pub(super) fn find_task(&self, name: &str) -> Result<Arc<Task>, Error> {
        self.look()?.find_task(name).map(Arc::clone)
    }

    /// Returns the task of this name or window id, to end it.
    pub(super) fn find_task_to_end(&self, name: &str) -> Result<Arc<Task>, Error> {
        self.look()?.find_task_to_end(name).map(Arc::clone)
    }

    /// Returns the last look, if the session exists.
    fn look(&self) -> Result<&Snapshot, Error> {
        let look = self.engine.last_look().filter(|look| look.exists);
        look.ok_or_else(|| self.missing())
    }

    /// Returns all tasks of the last look, if the session exists.
    pub(super) fn existing_tasks(&self) -> Result<Vec<Arc<Task>>, Error> {
        self.look().map(|_| self.tasks())
    }

    /// Returns why nothing is known of the session.
    pub(super) fn missing(&self) -> Error {
        if let Some(problem) = &self.look_problem {
            return Error::failed(problem.clone());
        }
        let message = format!("no session `{}`", self.session_name);
        Error::missing(message).with_hint(NO_SESSION_HINT)
    }

    /// Returns the look for a list: at all windows if they are few, otherwise at the dead ones if those
    /// are few.
    fn order_for_list(&self) -> LookOrder {
        let mut tasks = self.tasks();
        if tasks.len() > FEW_WINDOWS {
            tasks.retain(|task| !task.is_alive());
        }
        if tasks.len() > FEW_WINDOWS {
            tasks.clear();
        }
        barrier(tasks.iter().map(|task| task.window))
    }
}

/// Returns a look at everything that tmux has reported by now, and at these windows.
fn barrier(windows: impl IntoIterator<Item = WindowId>) -> LookOrder {
    LookOrder {
        is_barrier: true,
        ..LookOrder::of(windows)
    }
}

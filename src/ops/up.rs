//! Starts the tasks of a file together, each when those that it starts after are ready.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use super::arguments::{LINES, number};
use super::file_tasks::{FileTasks, find_in, find_spec, launch_of};
use super::list::list;
use super::run::{StartedRun, run};
use super::session::TaskSession;
use super::task_names;
use super::wait::{Awaited, NotReady, Readiness, WaitNews};
use crate::config::{Ready, TaskEntry, read_time};
use crate::model::{Error, ErrorKind, Launch};
use crate::tmux;

#[derive(Debug, Args)]
#[command(
    after_help = "The file is TOML: a table [tasks.NAME] for each task, with `command` (a shell line, or a \
                        list of a program and its arguments), and if needed `cwd`, `env`, `env-file`, \
                        `restart`, `backoff`, `after` (a list of tasks) and `ready` (a text of its \
                        output, { port = 3000 } or { http = \"http://127.0.0.1:3000/health\" }). A task starts \
                        when those in `after` are ready: have printed that text, listen on that port, answer \
                        there, or have ended with code 0 if they have none of these. A task that runs already is \
                        left alone, and what has changed in the file since is said; one without \
                        `ready` that has ended with code 0 is not run again, unless it is named. Without the file, a Procfile is taken."
)]
pub(crate) struct UpArguments {
    /// The file [default: tmux-task.toml in the project's folder, else Procfile], and the tasks to start
    /// with those that they need [default: all]
    #[arg(value_names = ["FILE", "NAME"], num_args = 0.., add = task_names::candidates_of_file())]
    pub(crate) what: Vec<PathBuf>,
    /// Wait also until each task with `ready` is ready or has failed
    #[arg(long)]
    pub(crate) wait: bool,
    /// The longest time to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = read_time)]
    pub(crate) timeout: Option<Duration>,
    /// How many of the last lines of a failed run to print on stderr
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::<usize>(LINES), allow_negative_numbers = true)]
    pub(crate) tail: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A task of a file, and what has become of it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskUp {
    /// The keys whose values in the file are not those that it runs with.
    pub(crate) outdated: Vec<&'static str>,
    /// `None` where that was not waited for.
    pub(crate) ready: Option<bool>,
    pub(crate) state: UpState,
    /// The last lines of a run that has failed.
    pub(crate) tail: Vec<String>,
    /// What it asked for when the time was over.
    pub(crate) waiting_for: Option<String>,
    /// Why it is not ready, in words that follow its name; if it was not started because one before it is
    /// not ready, which, and why.
    pub(crate) why: Option<String>,
    pub(crate) window_id: Option<String>,
    pub(crate) window_name: String,
    /// Whether the time was over.
    #[serde(skip)]
    pub(crate) has_timed_out: bool,
    /// The number of a run that was not started now.
    #[serde(skip)]
    run: Option<u32>,
}

/// The run of a task of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum UpState {
    /// It was started now.
    Started,
    /// It ran before, and was left alone.
    Running,
    /// It has ended with code 0, and nothing more is expected of the task.
    Finished,
    #[default]
    NotStarted,
}

/// What is reported while tasks start.
#[derive(Debug)]
pub(crate) enum UpNews<'a> {
    /// What a task is now, in words for the user.
    Is(String),
    /// Why a task was not started or is not ready, or what it runs with instead of what is in the file.
    Problem(&'a TaskUp, Error),
    /// It is being waited for.
    Wait(&'a TaskUp, WaitNews<'a>),
}

type Report<'a> = dyn Fn(UpNews<'_>) -> Result<(), Error> + 'a;

/// Starts these tasks of a file and returns the results in the order of the file. Dropping the future ends the
/// waits; what is started goes on.
pub(crate) async fn bring_up(
    session: &TaskSession,
    file: &FileTasks,
    plans: &[TaskEntry],
    args: &UpArguments,
    report: &Report<'_>,
) -> Result<Vec<TaskUp>, Error> {
    let outcome = |plan: &'_ TaskEntry| (plan.name.clone(), watch::Sender::new(None));
    let bring = BringUp {
        session,
        file,
        plans,
        args,
        deadline: args.timeout.map(|timeout| Instant::now() + timeout),
        outcomes: plans.iter().map(outcome).collect(),
        report,
    };
    try_join_all(plans.iter().map(|plan| bring.one(plan))).await
}

struct BringUp<'a> {
    session: &'a TaskSession,
    file: &'a FileTasks,
    plans: &'a [TaskEntry],
    args: &'a UpArguments,
    deadline: Option<Instant>,
    /// Which tasks are ready, for those that start after them, and of which that can no longer come, with
    /// the task that has failed, this one or one before it, and how.
    outcomes: BTreeMap<String, watch::Sender<Option<Result<(), String>>>>,
    report: &'a Report<'a>,
}

impl BringUp<'_> {
    /// Starts a task when those before it are ready, and waits until it is ready if that matters.
    async fn one(&self, plan: &TaskEntry) -> Result<TaskUp, Error> {
        let name = &plan.name;
        let mut task = TaskUp {
            window_name: name.clone(),
            ..TaskUp::default()
        };
        let mut outcome = Ok(());
        for other in &plan.after {
            outcome = self.outcome_of(other).await;
            if outcome.is_err() {
                break;
            }
        }
        if let Err(cause) = &outcome {
            task.why = Some(cause.clone());
            let why = format!("{name} was not started: {cause}");
            let error = Error::new(ErrorKind::Impossible, why);
            (self.report)(UpNews::Problem(&task, error))?;
        } else if let Err(failed) = self.start(plan, &mut task).await? {
            let why = format!("{name} {}", failed.why);
            let mut error = Error::new(ErrorKind::Impossible, why.as_str());
            error.hint = failed.hint;
            task.ready = task.window_id.as_ref().map(|_| false);
            (task.why, task.has_timed_out) = (Some(failed.why), failed.has_timed_out);
            (task.tail, task.waiting_for) = (failed.tail, failed.asks);
            (self.report)(UpNews::Problem(&task, error))?;
            outcome = Err(why);
        }
        self.outcomes[name].send_replace(Some(outcome));
        Ok(task)
    }

    /// Starts a task now, and waits until it is ready if that matters.
    async fn start(
        &self,
        plan: &TaskEntry,
        task: &mut TaskUp,
    ) -> Result<Result<(), NotReady>, Error> {
        let mut session = self.session.for_request();
        let mut others = self.plans.iter();
        let is_needed = others.any(|other| other.after.contains(&plan.name));
        let will_wait = is_needed || self.args.wait && plan.ready.is_some();
        let launched = match start_one(&mut session, plan, will_wait, task).await {
            Ok(launched) => launched,
            Err(error) => return Ok(Err(after_error("could not be started", error))),
        };
        if task.state == UpState::Running && !task.outdated.is_empty() {
            let outdated = self.outdated(task);
            (self.report)(UpNews::Problem(task, outdated))?;
        }
        let is_now = match task.state {
            UpState::Finished => "finished already:",
            UpState::Running => "runs already:",
            UpState::Started | UpState::NotStarted => "started",
        };
        self.say(task, is_now, "")?;
        if will_wait && task.state != UpState::Finished {
            let awaited = Awaited {
                name: task.window_id.as_deref().unwrap_or(&plan.name),
                ready: plan.ready.as_ref(),
                earlier_run: task.run,
                deadline: self.deadline,
                limit: self.args.timeout.unwrap_or_default(),
                late: "was not ready",
                tail: self.args.tail,
                // What the wait reports is no reason to end it.
                report: &|news| drop((self.report)(UpNews::Wait(task, news))),
            };
            match awaited.wait(&mut session, launched).await {
                Ok(Ok(Readiness::Ready)) => self.say(task, "ready", "")?,
                Ok(Ok(Readiness::Succeeded)) => self.say(task, "succeeded", "")?,
                Ok(Ok(Readiness::OutOfSight)) => {
                    let more = ": the beginning of its output is gone";
                    self.say(task, "taken as ready:", more)?;
                }
                Ok(Err(failed)) => return Ok(Err(failed)),
                Err(error) if error.kind == ErrorKind::Missing => {
                    return Ok(Err(NotReady::because("has disappeared")));
                }
                Err(error) => return Ok(Err(after_error("could not be waited for", error))),
            }
        }
        task.ready = will_wait.then_some(true);
        Ok(Ok(()))
    }

    fn say(&self, task: &TaskUp, is_now: &str, more: &str) -> Result<(), Error> {
        let window = task.window_id.as_deref().unwrap_or_default();
        let line = format!("{is_now} {window} ({}){more}", task.window_name);
        (self.report)(UpNews::Is(line))
    }

    /// Says what in the file is not in effect for a task that runs already.
    fn outdated(&self, task: &TaskUp) -> Error {
        let keys = task.outdated.iter().map(|key| format!("`{key}`"));
        let keys = keys.collect::<Vec<_>>().join(" and ");
        let (name, file) = (&task.window_name, self.file.path.display());
        let hint = match self.file.is_named {
            true => {
                format!(
                    "`tmux-task down {file} {name}`, then `tmux-task up {file} {name}` applies it"
                )
            }
            false => format!("`tmux-task restart {name}` applies it"),
        };
        let why = format!("{name} runs with another {keys} than in the file");
        Error::failed(why).with_hint(hint)
    }

    /// Waits until it is known whether a task is ready.
    async fn outcome_of(&self, name: &str) -> Result<(), String> {
        let Some(mut outcome) = self.outcomes.get(name).map(watch::Sender::subscribe) else {
            return Ok(());
        };
        let known = outcome.wait_for(Option::is_some).await;
        known.map_or(Ok(()), |known| known.clone().unwrap_or(Ok(())))
    }
}

fn after_error(what: &str, error: Error) -> NotReady {
    NotReady {
        hint: error.hint,
        ..NotReady::because(format!("{what}: {}", error.message))
    }
}

/// How often a task may change between a look at it and its launch.
const LOOKS: usize = 10;

/// Starts a task of a file unless it runs already or has finished, and returns the run that was started.
/// `will_wait` says that it will be waited for. Of several commands that start a task at the same time, one
/// does, and the others find that it runs.
async fn start_one(
    session: &mut TaskSession,
    plan: &TaskEntry,
    will_wait: bool,
    task: &mut TaskUp,
) -> Result<Option<StartedRun>, Error> {
    session.resolve_name().await?;
    let mut failed = None;
    for _ in 0..LOOKS {
        if is_there(session, plan, task).await? {
            return Ok(None);
        }
        // Nobody has started it meanwhile.
        if let Some(error) = failed.take() {
            return Err(error);
        }
        let is_held = will_wait && matches!(plan.ready, Some(Ready::Text(_)));
        let launch = Launch {
            will_wait: is_held,
            is_held,
            ..launch_of(plan.clone())
        };
        match run(session.for_request(), launch).await {
            Ok(started) => {
                task.state = UpState::Started;
                task.window_id = Some(started.run.window_id.clone());
                return Ok(Some(started));
            }
            // The task may have been started meanwhile.
            Err(error) => failed = Some(error),
        }
    }
    Err(tmux::contended())
}

/// Looks for the run of a task of a file. Returns whether there is one; else it is to be started.
async fn is_there(
    session: &mut TaskSession,
    wanted: &TaskEntry,
    result: &mut TaskUp,
) -> Result<bool, Error> {
    let view = list(session).await?;
    let Some(task) = find_in(&view, &wanted.name)? else {
        return Ok(false);
    };
    // Where something says that it is ready, it is to run.
    let has_finished = task.exit_code() == Some(0) && wanted.ready.is_none();
    if !task.is_alive() && (!has_finished || wanted.is_named) {
        return Ok(false);
    }
    let command = wanted.spec.shown();
    let has_command = task.command.as_deref().is_some_and(|shown| {
        // A long one is shown in part.
        shown == command
            || shown
                .strip_suffix('…')
                .is_some_and(|part| command.starts_with(part))
    });
    let cwd = wanted.spec.cwd.as_ref().and_then(|cwd| cwd.to_str());
    // What the last launch has recorded says whether its variables are those of the file.
    let window = task.window.to_string();
    let (_, last) = find_spec(session, &window).await?;
    let env_digest = last.and_then(|last| last.env_digest);
    let outdated = [
        ("env", wanted.spec.digest_of_env() != env_digest),
        ("command", !has_command),
        ("cwd", task.cwd.as_deref() != cwd),
    ];
    let outdated = outdated.into_iter().filter(|(_, is_other)| *is_other);
    let mut outdated: Vec<&str> = outdated.map(|(key, _)| key).collect();
    if task.is_alive() {
        outdated.extend(task.settings.differences(&wanted.spec.settings));
        (result.outdated, result.run) = (outdated, task.run);
        result.state = UpState::Running;
    } else if outdated.is_empty() {
        result.state = UpState::Finished;
    } else {
        return Ok(false);
    }
    result.window_id = Some(window);
    Ok(true)
}

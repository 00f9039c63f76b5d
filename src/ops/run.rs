//! Starts a task in its slot.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::codex_follower::start_codex_follower;
use super::lookup;
use super::remote_conversation::note_launch;
use super::session::{TaskSession, no_directory};
use crate::client::DaemonClient;
use crate::clock;
use crate::config;
use crate::model::environment::{TaskEnvironment, WithheldVariables, is_shell_name};
use crate::model::{Error, Launch, NotifyOn, Replaces, Slot, TaskSettings, TaskSpec};
use crate::paths::Paths;
use crate::process;
use crate::terminal::Pattern;
use crate::tmux;
use crate::wire::LaunchedRun;

/// What to start, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunOptions {
    /// The task's name.
    pub(crate) name: String,
    /// What is started, and how. Its directory is the working directory if absent.
    pub(crate) spec: TaskSpec,
    /// Which run it may replace.
    pub(crate) replaces: Replaces,
    /// The owner of the run; `None` for a person at a terminal.
    pub(crate) owner: Option<String>,
    /// Whether the caller will wait for the run.
    pub(crate) wait: LaunchWait,
}

/// What the caller of a launch will wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LaunchWait {
    #[default]
    No,
    /// The end of the run.
    End,
    /// A text, or all of the output. The command starts when the wait has begun.
    Text,
}

/// A run that was started.
#[derive(Debug)]
pub(crate) struct StartedRun {
    /// The session's name.
    pub(crate) session_name: String,
    /// The session's files.
    pub(crate) paths: Paths,
    /// The task's name.
    pub(crate) name: String,
    /// The owner of the run.
    pub(crate) owner: Option<String>,
    /// The directory of the run, an absolute path.
    pub(crate) cwd: String,
    pub(crate) run: LaunchedRun,
    /// The daemon that supervises it. Where the caller waits for a text, the command begins with the first
    /// wait on this connection, or when it is closed.
    pub(crate) daemon: DaemonClient,
    /// Why the conversation that the task belongs to will get no message about it.
    pub(crate) unreachable: Option<String>,
}

impl RunOptions {
    /// Refuses names that no task can have.
    pub(crate) fn check_name(&self) -> Result<(), Error> {
        tmux::check_name(&self.name)
    }

    /// Refuses what can never be started, before anything is asked.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_name()?;
        let is_blank = |word: &OsString| word.to_str().is_some_and(|word| word.trim().is_empty());
        if self.spec.command.first().is_none_or(is_blank) {
            let why = format!("no command given for task `{}`", self.name);
            return Err(Error::usage(why));
        }
        check_texts_of(&self.spec.settings)
    }
}

/// Refuses texts to notify of that no line can contain, and too many of them.
pub(crate) fn check_texts_of(settings: &TaskSettings) -> Result<(), Error> {
    let Some(notify_on) = &settings.notify_on else {
        return Ok(());
    };
    if !notify_on.is_small() {
        let (most, bytes) = (NotifyOn::MOST, NotifyOn::MOST_BYTES);
        return Err(Error::usage(format!(
            "a run notifies of at most {most} texts, with {bytes} bytes in total; one regular \
             expression can hold several"
        )));
    }
    if let Some(text) = notify_on
        .patterns
        .iter()
        .find(|text| text.contains(char::is_control))
    {
        let why = format!("{text:?} can never match: a line has no control characters");
        return Err(Error::usage(why));
    }
    check_texts(&notify_on.patterns, notify_on.regex, notify_on.ignore_case)
}

/// Refuses texts that no line of a run can match or that every line matches, before the run is started.
pub(crate) fn check_texts<'a>(
    texts: impl IntoIterator<Item = &'a String>,
    regex: bool,
    ignore_case: bool,
) -> Result<(), Error> {
    for text in texts {
        Pattern::parse(text, regex, ignore_case)
            .map_err(|error| Error::usage(error.to_string()))?;
    }
    Ok(())
}

/// Starts a task in its slot, replacing a live run.
pub(crate) async fn run(
    mut session: TaskSession,
    options: RunOptions,
) -> Result<StartedRun, Error> {
    options.check()?;
    let mut spec = options.spec;
    let cwd = directory(spec.cwd.take())?;
    let is_remote = note_launch(&mut session, options.owner.as_deref()).await?;
    let environment = environment(&spec)?;
    let stop = config::load(&lookup)?.stop;
    spec.settings.stop = stop.complete(spec.settings.stop);
    spec.env_digest = spec.digest_of_env();
    spec.cwd = Some(cwd.clone());
    let root = session.project.as_ref().and_then(|root| root.to_str());
    let launch = Launch {
        session: session.name.clone(),
        root: root.map(str::to_owned),
        name: options.name.clone(),
        spec,
        token: tmux::unique_token(),
        environment,
        program: tmux::program_of_panes()?,
        owner: options.owner.clone(),
        started: clock::now().wall,
        replaces: options.replaces,
        will_wait: options.wait != LaunchWait::No,
        // The output is followed before the command starts, to find texts that it overwrites at once.
        is_held: options.wait == LaunchWait::Text,
        ..Launch::default()
    };
    let run = session.launch(launch).await?;
    let daemon = session.daemon_or_start().await?;
    // A conversation of another machine is followed from there.
    let unreachable = match is_remote {
        true => None,
        false => start_codex_follower(&session, options.owner.as_deref()).await,
    };
    Ok(StartedRun {
        session_name: session.name,
        paths: session.paths,
        name: options.name,
        owner: options.owner,
        cwd: cwd.display().to_string(),
        run,
        daemon,
        unreachable,
    })
}

/// Returns the task's environment: the caller's or tmux's, with the given variables added.
fn environment(spec: &TaskSpec) -> Result<TaskEnvironment, Error> {
    // Only a shell of the task can add variables to tmux's environment.
    let unknown = spec
        .env
        .iter()
        .find(|(name, _)| spec.is_env_clean && !is_shell_name(name));
    if let Some((name, _)) = unknown {
        let why = format!("`{name}` is not a name that --env can set with --clean-env");
        return Err(Error::usage(why));
    }
    let withheld = WithheldVariables::with(&config::load(&lookup)?.env_withhold);
    tmux::environment_of(spec, env::vars_os(), &withheld)
}

fn directory(given: Option<PathBuf>) -> Result<PathBuf, Error> {
    match given {
        None => {
            env::current_dir().map_err(|error| no_directory(&error, Some("--cwd names another")))
        }
        Some(dir) => dir
            .canonicalize()
            .map_err(|error| Error::io(format_args!("cannot run in {}", dir.display()), &error)),
    }
}

/// Waits in a task's pane, which has this file, for a place in the task's slot. `on_wait` is called if it
/// has to wait.
///
/// # Errors
///
/// When the folder of the slots cannot be used.
pub(crate) fn wait_for_place(
    file: &Path,
    slot: &Slot,
    on_wait: impl FnOnce(),
) -> std::io::Result<()> {
    let runtime = file.parent().unwrap_or(Path::new(""));
    process::wait_for_place(runtime, slot, || clock::now().wall, on_wait)
}

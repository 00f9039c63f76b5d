//! Starts a task in its slot, and names those that were started without a name.

use std::env;
use std::ffi::OsString;
use std::mem;
use std::path::{Path, PathBuf};

use super::list::list;
use super::lookup;
use super::remote_conversation::note_launch;
use super::session::{TaskSession, no_directory};
use super::undelivered::start_codex_follower;
use crate::clock;
use crate::config;
use crate::model::environment::{TaskEnvironment, WithheldVariables, is_shell_name};
use crate::model::{Error, Launch, NotifyOn, Slot, TaskSettings, TaskSpec};
use crate::process;
use crate::rules::terminal::Pattern;
use crate::rules::wire::LaunchedRun;
use crate::tmux;

/// A run that was started.
#[derive(Debug)]
pub(crate) struct StartedRun {
    /// The session, with the connection on which the run was asked for. Where the caller waits for a text, the
    /// command begins with the first wait on that, or when it is closed.
    pub(crate) session: TaskSession,
    pub(crate) name: String,
    pub(crate) owner: Option<String>,
    pub(crate) cwd: String,
    pub(crate) run: LaunchedRun,
    /// Why the conversation that the task belongs to will get no message about it.
    pub(crate) unreachable: Option<String>,
}

/// Refuses what can never be started, before anything is asked.
pub(crate) fn check_launch(launch: &Launch) -> Result<(), Error> {
    tmux::check_name(&launch.name)?;
    let is_blank = |word: &OsString| word.to_str().is_some_and(|word| word.trim().is_empty());
    if launch.spec.command.first().is_none_or(is_blank) {
        let why = format!("no command given for task `{}`", launch.name);
        return Err(Error::usage(why));
    }
    check_texts_of(&launch.spec.settings)
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

/// Starts a task in its slot, replacing a live run. The launch has the task's name and its owner, what is
/// started, which run it may replace, and what the caller will wait for; the rest is found here. Its directory
/// is the working directory if absent.
pub(crate) async fn run(mut session: TaskSession, mut launch: Launch) -> Result<StartedRun, Error> {
    check_launch(&launch)?;
    let cwd = directory(launch.spec.cwd.take())?;
    let is_remote = note_launch(&mut session, launch.owner.as_deref()).await?;
    launch.environment = environment(&launch.spec)?;
    let stop = config::load(&lookup)?.stop;
    let spec = &mut launch.spec;
    spec.settings.stop = stop.complete(mem::take(&mut spec.settings.stop));
    spec.env_digest = spec.digest_of_env();
    spec.cwd = Some(cwd.clone());
    let root = session.project.as_ref().and_then(|root| root.to_str());
    launch.root = root.map(str::to_owned);
    launch.token = tmux::unique_token();
    launch.program = tmux::program_of_panes()?;
    launch.started = clock::now().wall;
    let (name, owner) = (launch.name.clone(), launch.owner.clone());
    let run = session.launch(launch).await?;
    // A conversation of another machine is followed from there.
    let unreachable = match is_remote {
        true => None,
        false => start_codex_follower(&session.for_request(), owner.as_deref()).await,
    };
    Ok(StartedRun {
        session,
        name,
        owner,
        cwd: cwd.display().to_string(),
        run,
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
    tmux::environment_of(spec, crate::env::vars(), &withheld)
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

/// Waits in a task's pane, which has this file, for a place. `on_wait` is called if it has to wait.
pub(crate) fn wait_for_place(
    file: &Path,
    slot: &Slot,
    on_wait: impl FnOnce(),
) -> std::io::Result<()> {
    let runtime = file.parent().unwrap_or(Path::new(""));
    process::wait_for_place(runtime, slot, || clock::now().wall, on_wait)
}

// Tasks that were started without a name.

/// The longest name that is made of a command: a number has room behind it.
const LONGEST: usize = 32;

const UNKNOWN: &str = "task";

/// Words before a program that say nothing of it.
const WRAPPERS: [&str; 5] = ["exec", "env", "nice", "nohup", "time"];

/// Returns a task's name made of its command, like `cargo-test` or `npm-run-dev`.
pub(crate) fn name_of_command(command: &[OsString]) -> String {
    let words: Vec<String> = match command {
        [line] => line
            .to_string_lossy()
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        words => words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    };
    let mut words = words
        .iter()
        .skip_while(|word| is_assignment(word) || WRAPPERS.contains(&word.as_str()));
    let program = words.next().map_or("", String::as_str);
    let program = Path::new(program)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let mut parts = vec![program.as_ref()];
    for word in words.take_while(|word| is_subcommand(word)) {
        parts.push(word);
        // `run` is about another word.
        if word != "run" {
            break;
        }
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name = parts.join("-").replace(|c| !is_part(c), "-");
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let name = name.get(..LONGEST).unwrap_or(name);
    match name.trim_end_matches(['-', '.']) {
        "" => UNKNOWN.to_owned(),
        name => name.to_owned(),
    }
}

/// Whether a word sets a variable for the command behind it.
fn is_assignment(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_part))
}

fn is_subcommand(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || "-:_".contains(c);
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(is_part)
}

/// Returns the first of `NAME`, `NAME-2` and so on that no task has which runs or will run again.
pub(crate) async fn free_name(session: &mut TaskSession, name: &str) -> Result<String, Error> {
    let tasks = list(session).await?.tasks;
    let is_taken = |name: &str| {
        let mut tasks = tasks.iter();
        tasks.any(|task| {
            task.is_task_named(name) && (task.task.is_alive() || task.next_restart.is_some())
        })
    };
    let mut free = name.to_owned();
    let mut number = 1_u64;
    while is_taken(&free) {
        number += 1;
        free = format!("{name}-{number}");
    }
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_task_name;

    #[test]
    fn a_name_is_made_of_the_command() {
        let long = "x".repeat(100);
        for (command, expected) in [
            (&["cargo", "test", "--workspace"][..], "cargo-test"),
            (&["cargo test -p api"], "cargo-test"),
            (&["RUST_LOG=debug CI=1 cargo test | tee log"], "cargo-test"),
            (&["npm", "run", "dev"], "npm-run-dev"),
            (&["npm", "run", "-s", "dev"], "npm-run"),
            (&["/usr/bin/python3", "x.py"], "python3"),
            (&["./my script", "serve"], "my-script-serve"),
            (&["sleep 1000"], "sleep"),
            (&["exec sleep 1000"], "sleep"),
            (&["./build.sh"], "build.sh"),
            (&["bash", "-c", "true"], "bash"),
            (&["--", "x"], "x"),
            (&["\u{1b}[31mred"], "31mred"),
            (&["\u{e9}t\u{e9}"], "t"),
            (&["/"], "task"),
            (&["$(x)"], "x"),
            (&[" "], "task"),
            (&[long.as_str()], &long[..32]),
        ] {
            let words: Vec<OsString> = command.iter().map(OsString::from).collect();
            let name = name_of_command(&words);
            assert_eq!(name, expected, "{command:?}");
            assert!(is_task_name(&format!("{name}-9999999")), "{name}");
        }
    }
}
